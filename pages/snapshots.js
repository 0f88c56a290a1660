// What can be done with snapshots, each with its question: take, roll back, fork, delete.
import { call } from "./api.js";
import { attempts, number, seconds } from "./create.js";
import { confirm, field, formDialog, input, note } from "./dialog.js";
import { h, say, size, stamp, visible } from "./dom.js";
import { drop, put } from "./world.js";

export const title = (s) => (s.name ? visible(s.name) : s.id);

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

export async function rollBack(id, s, done) {
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

export async function fork(s) {
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

export async function remove(s) {
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
