// The tree of snapshots and forks around a sandbox, and what can be done from it: roll back, fork, delete.
import { call, now } from "./api.js";
import { attempts, number, seconds } from "./create.js";
import { confirm, field, formDialog, input, note } from "./dialog.js";
import { ago, button, copyButton, fill, h, icon, plural, say, size, span, stamp, visible } from "./dom.js";
import { family, lineage } from "./lineage.js";
import { left, nameOf, short, urgency } from "./list.js";
import { drop, put, sandboxes, snapshots, world } from "./world.js";

const NODES_MAX = 300;

const title = (s) => (s.name ? visible(s.name) : s.id);

export async function takeSnapshot(id) {
  const name = input("name", { maxlength: 128, autofocus: true, placeholder: "optional" });
  const made = await formDialog({
    title: "Take a snapshot",
    fields: field("Name", name, "Holds /workspace as it is at this moment; processes are not part of it."),
    submit: "Take it",
    busy: "Packing\u2026",
    act: (form, signal) =>
      call("POST", `v1/sandboxes/${id}/snapshots`, { json: name.value ? { name: name.value } : {}, signal }),
  });
  if (!made) return null;
  put(made);
  note(h("p", null, `Snapshot ${title(made)} taken: ${size(made.size_bytes)}`));
  return made;
}

async function rollBack(id, s, done) {
  const first = h("input", { type: "checkbox", name: "first" });
  const ok = await confirm({
    title: "Roll back?",
    text: [
      h(
        "p",
        null,
        "/workspace becomes what it was in ",
        h("strong", null, h("bdi", null, title(s))),
        ` (${stamp(s.created_at)}). Every process ends, /tmp is cleared, and what changed since is lost.`,
      ),
      field("Take a snapshot of the present state first", first),
    ],
    yes: "Roll back",
    danger: true,
    act: async () => {
      if (first.checked)
        put(
          await call("POST", `v1/sandboxes/${id}/snapshots`, {
            json: { name: `before rollback to ${(s.name ?? s.id).slice(0, 60)}` },
          }),
        );
      put(await call("POST", `v1/sandboxes/${id}/rollback`, { json: { snapshot_id: s.id } }));
      return true;
    },
  });
  if (!ok) return;
  note(h("p", null, `Rolled back to ${title(s)}`));
  done();
}

async function fork(s) {
  const small = { inputmode: "decimal", placeholder: "as before" };
  const life = input("timeout", { placeholder: "as the server's default", autofocus: true });
  const cpus = input("cpus", small);
  const memory = input("memory_mb", small);
  const network = h(
    "select",
    { name: "network" },
    h("option", { value: "" }, "as before"),
    h("option", { value: "true" }, "yes"),
    h("option", { value: "false" }, "no"),
  );
  const attempt = attempts();
  const box = await formDialog({
    title: `Fork ${title(s)}`,
    fields: [
      h(
        "p",
        null,
        "A new sandbox that begins with this workspace; image, environment, labels and limits are those of the sandbox it was taken from.",
      ),
      h(
        "div",
        { class: "quad" },
        field("Time to live", life, "90, 15m, 2h"),
        field("CPUs", cpus),
        field("Memory", memory, "MiB"),
        field("Network", network),
      ),
    ],
    submit: "Fork",
    busy: "Forking\u2026",
    act: (form, signal) => {
      const spec = {
        timeout_seconds: seconds(life.value, "Time to live"),
        cpus: number(cpus, "CPUs"),
        memory_mb: number(memory, "Memory"),
        network: network.value === "" ? undefined : network.value === "true",
      };
      const json = JSON.parse(JSON.stringify(spec));
      return call("POST", `v1/snapshots/${s.id}/fork`, { json, signal, headers: attempt(json) });
    },
  });
  if (!box) return;
  put(box);
  note(h("p", null, "Forked: ", h("a", { href: `#${box.id}` }, box.id)));
  say(`Forked as ${box.id}`);
}

async function remove(s) {
  const yes = await confirm({
    title: "Delete this snapshot?",
    text: h(
      "p",
      null,
      h("strong", null, h("bdi", null, title(s))),
      ` (${size(s.size_bytes)}, ${stamp(s.created_at)}) cannot be brought back. Sandboxes that were forked from it stay.`,
    ),
    yes: "Delete",
    danger: true,
    act: async () => (await call("DELETE", `v1/snapshots/${s.id}`), true),
  });
  if (yes) drop(s.id);
}

export function treePane(id, { rolledBack }) {
  const place = h("div", {
    class: "scroll",
    tabIndex: 0,
    role: "region",
    "aria-label": "Snapshots and forks",
  });
  const everything = h("input", { type: "checkbox", id: `all-${id}` });
  const element = h(
    "div",
    { class: "pane treepane" },
    h(
      "div",
      { class: "bar-row" },
      h(
        "div",
        { class: "field check grow" },
        everything,
        h("label", { for: everything.id }, "All trees of this server"),
      ),
      button("Take a snapshot", { icon: "camera", click: () => takeSnapshot(id) }),
    ),
    place,
  );
  let times = [];

  function snapshotRow(s) {
    const facts = [size(s.size_bytes), s.sandbox_id === id ? null : `by ${short(s.sandbox_id)}`].filter(
      Boolean,
    );
    const when = h("span", { title: stamp(s.created_at) });
    times.push(() => (when.textContent = ago(now() - Date.parse(s.created_at))));
    const here = sandboxes.has(id);
    return h(
      "div",
      { class: "node snapshot" },
      icon("camera"),
      h(
        "span",
        { class: "label" },
        h("strong", { class: s.name ? "" : "mono" }, h("bdi", null, title(s))),
        h(
          "small",
          null,
          when,
          ` \u00b7 ${facts.join(" \u00b7 ")}`,
          s.name ? h("span", { class: "mono", title: s.id }, ` \u00b7 ${short(s.id)}`) : null,
        ),
      ),
      h(
        "span",
        { class: "tools" },
        copyButton(s.id, `Copy the id of ${title(s)}`),
        here
          ? button("Roll back", {
              icon: "undo",
              kind: "small",
              "aria-label": `Roll back to ${title(s)}`,
              click: () => rollBack(id, s, rolledBack),
            })
          : null,
        button("Fork", {
          icon: "fork",
          kind: "small",
          "aria-label": `Fork ${title(s)}`,
          click: () => fork(s),
        }),
        button(`Delete ${title(s)}`, { icon: "trash", hide: true, click: () => remove(s) }),
      ),
    );
  }

  function sandboxRow(b) {
    const mine = b.id === id;
    const time = h("span");
    times.push(() => {
      const t = left(b);
      time.textContent = t > 0 ? `${span(t)} left` : "ending";
      time.className = urgency(t);
    });
    const name = h("span", { class: b.labels?.name ? "" : "mono" }, nameOf(b));
    return h(
      "div",
      { class: `node sandbox ${mine ? "mine" : ""}` },
      h("span", { class: `dot ${b.status}` }, h("span", { class: "sr" }, b.status)),
      h(
        "span",
        { class: "label" },
        mine ? h("strong", null, name) : h("a", { href: `#${b.id}` }, name),
        b.labels?.name ? h("small", { class: "mono" }, short(b.id)) : null,
        h("small", null, mine ? "this sandbox stands here" : time),
      ),
    );
  }

  function row(n) {
    if (n.kind === "snapshot") return snapshotRow(n.item);
    if (n.kind === "sandbox") return sandboxRow(n.item);
    const text =
      n.kind === "start"
        ? ["Empty workspace", `start of ${short(n.id)}${sandboxes.has(n.id) ? "" : ", which has ended"}`]
        : ["Deleted snapshot", n.id];
    return h(
      "div",
      { class: "node root" },
      icon(n.kind === "start" ? "box" : "trash"),
      h("span", { class: "label" }, h("span", null, text[0]), h("small", { class: "mono" }, text[1])),
    );
  }

  function draw() {
    if (!element.isConnected) return;
    const mark =
      document.activeElement && place.contains(document.activeElement)
        ? (document.activeElement.getAttribute("aria-label") ?? document.activeElement.title)
        : null;
    const roots = lineage(sandboxes.values(), snapshots.values());
    const shown = everything.checked ? roots : family(roots, id);
    let budget = NODES_MAX;
    times = [];
    function branch(nodes) {
      const list = [];
      for (const n of nodes) {
        if (budget-- <= 0) break;
        const children = n.children.length ? branch(n.children) : null;
        list.push(h("li", null, row(n), children));
      }
      return h("ul", null, list);
    }
    const top = branch(shown);
    top.className = "tree";
    fill(
      place,
      shown.length ? top : h("p", { class: "foot" }, "No snapshots yet."),
      budget < 0 ? h("p", { class: "cut" }, `Only the first ${NODES_MAX} are shown.`) : null,
    );
    if (snapshots.size === 0)
      place.append(
        h(
          "p",
          { class: "foot" },
          "A snapshot keeps /workspace as it is now. You can roll back to it, or fork it: begin other sandboxes there.",
        ),
      );
    tick();
    if (mark)
      [...place.querySelectorAll("button, a")]
        .find((e) => (e.getAttribute("aria-label") ?? e.title) === mark)
        ?.focus();
  }

  function tick() {
    for (const t of times) t();
  }

  everything.addEventListener("change", () => {
    draw();
    say(plural(place.querySelectorAll(".node").length, "entry").replace("entrys", "entries"));
  });
  const life = new AbortController();
  world.addEventListener("snapshots", draw, { signal: life.signal });
  world.addEventListener("sandboxes", draw, { signal: life.signal });
  return { element, draw, tick, end: () => life.abort() };
}
