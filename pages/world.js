// What the server has: sandboxes and snapshots, asked for again and again while somebody looks.
import { call, hasKey, session } from "./api.js";

const EVERY_MS = 2000;
const MANY = 200;

export const sandboxes = new Map();
export const snapshots = new Map();

// "sandboxes", "snapshots" when they changed; "trouble" when asking failed or works again (world.trouble).
export const world = Object.assign(new EventTarget(), { trouble: null, loaded: false });

let watching = false;
let timer = null;
let round = 0;
let asking = null;

// Snapshots that sandboxes came from and that are no more: not to be asked for again and again.
let lost = new Set();

function tell(name) {
  world.dispatchEvent(new Event(name));
}

// Replaces the contents of a map, keeping the objects that are the same; true if anything is different.
function replace(map, items) {
  let different = map.size !== items.length;
  const fresh = new Map();
  for (const item of items) {
    const old = map.get(item.id);
    const same = old && JSON.stringify(old) === JSON.stringify(item);
    different ||= !same;
    fresh.set(item.id, same ? old : item);
  }
  if (different) {
    map.clear();
    for (const [id, item] of fresh) map.set(id, item);
  }
  return different;
}

async function ask(withSnapshots) {
  const began = round;
  const list = await call("GET", "v1/sandboxes");
  const unknown = (b) =>
    b.source_snapshot_id && !snapshots.has(b.source_snapshot_id) && !lost.has(b.source_snapshot_id);
  const kept = withSnapshots || list.sandboxes.some(unknown) ? await call("GET", "v1/snapshots") : null;
  // Something was changed here meanwhile: this answer may be older than that.
  if (began !== round) return;
  const first = !world.loaded;
  world.loaded = true;
  if (replace(sandboxes, list.sandboxes) || first) tell("sandboxes");
  if (kept)
    lost = new Set(
      list.sandboxes
        .map((b) => b.source_snapshot_id)
        .filter((id) => id && !kept.snapshots.some((s) => s.id === id)),
    );
  if (kept && (replace(snapshots, kept.snapshots) || first)) tell("snapshots");
}

let turns = 0;

export async function refresh(all = true) {
  clearTimeout(timer);
  if (!watching || !hasKey()) return;
  asking ??= ask(all)
    .then(() => trouble(null), trouble)
    .finally(() => (asking = null));
  await asking;
  if (!watching || !hasKey() || document.hidden) return;
  clearTimeout(timer);
  timer = setTimeout(() => refresh(++turns % 3 === 0), sandboxes.size > MANY ? 3 * EVERY_MS : EVERY_MS);
}

function trouble(error) {
  if (error?.name === "AbortError" || (!error && !world.trouble)) return;
  if (error?.status === 401) return;
  world.trouble = error;
  tell("trouble");
}

export function watch(on) {
  watching = on;
  clearTimeout(timer);
  if (on) refresh();
}

// What an answer said about one of them, without waiting for the next round.
export function put(item) {
  round++;
  const [map, name] = item.id.startsWith("snap_") ? [snapshots, "snapshots"] : [sandboxes, "sandboxes"];
  map.set(item.id, item);
  tell(name);
}

export function drop(id) {
  round++;
  const [map, name] = id.startsWith("snap_") ? [snapshots, "snapshots"] : [sandboxes, "sandboxes"];
  if (map.delete(id)) tell(name);
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) refresh();
});

session.addEventListener("key", () => {
  round++;
  sandboxes.clear();
  snapshots.clear();
  world.loaded = false;
  world.trouble = null;
  refresh();
});
