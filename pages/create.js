// The dialog for a new sandbox. What is not filled in is the server's to decide, and so is what is allowed.
import { call } from "./api.js";
import { field, formDialog, input } from "./dialog.js";
import { h, say } from "./dom.js";
import { put, sandboxes } from "./world.js";

// NAME=value lines as an object; null when there are none.
export function pairs(text, what) {
  const out = {};
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`${what}: each line is NAME=value; "${line.trim().slice(0, 40)}" is not.`);
    out[line.slice(0, at).trim()] = line.slice(at + 1);
  }
  return Object.keys(out).length ? out : null;
}

// The number in a field; undefined when it is empty. Its bounds are the server's to check.
export function number(control, what) {
  const text = control.value.trim();
  if (text === "") return undefined;
  if (!/^-?[0-9]*\.?[0-9]+$/.test(text)) throw new Error(`${what}: "${text.slice(0, 40)}" is not a number.`);
  return Number(text);
}

// Hosts as people write them: a line, a comma or a blank between them. Whether they can be is the server's to say.
export function hosts(text) {
  return text.split(/[\s,]+/).filter((entry) => entry !== "");
}

// The choice of a way out, and the hosts of a list. value() is what a request says of it.
export function wayOut(choices) {
  const names = { default: "as the server has it", none: "none", list: "only these hosts", network: "network" };
  const way = h(
    "select",
    { name: "way" },
    choices.map((value) => h("option", { value }, names[value])),
  );
  const list = h("textarea", {
    name: "hosts",
    rows: 2,
    spellcheck: "false",
    autocomplete: "off",
    placeholder: "example.com  *.example.com  db.example.com:5432",
    disabled: true,
  });
  way.addEventListener("change", () => (list.disabled = way.value !== "list"));
  return {
    fields: [
      field("Way out", way, "What its programs can reach."),
      field("Hosts", list, "Of a list: nothing else is reached."),
    ],
    value() {
      if (way.value === "network") return { network: true };
      if (way.value === "none") return { egress_allowlist: [] };
      if (way.value !== "list") return {};
      const entries = hosts(list.value);
      if (entries.length === 0) throw new Error("Hosts: name one, or choose another way out.");
      return { egress_allowlist: entries };
    },
  };
}

const UNITS = { s: 1, m: 60, h: 3600, d: 86400 };

// Seconds from 90, 90s, 15m, 2h, 1d.
export function seconds(text, what) {
  const t = text.trim().toLowerCase();
  if (t === "") return undefined;
  const found = /^([0-9]*\.?[0-9]+)\s*([smhd]?)[a-z]*$/.exec(t);
  if (!found) throw new Error(`${what}: write seconds, or a number with s, m, h or d, such as 15m.`);
  return Math.round(Number(found[1]) * UNITS[found[2] || "s"]);
}

// Headers with a key for each attempt: pressing twice, or again after a broken connection, must not make two.
export function attempts() {
  let last = { text: null, key: "" };
  return (json) => {
    const text = JSON.stringify(json);
    if (text !== last.text) {
      const bytes = crypto.getRandomValues(new Uint8Array(16));
      last = { text, key: Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("") };
    }
    return { "Idempotency-Key": last.key };
  };
}

function controls() {
  const small = { inputmode: "decimal", placeholder: "default" };
  const lines = { rows: 3, spellcheck: "false", autocomplete: "off" };
  return {
    image: input("image", {
      placeholder: "the server's default image",
      list: "images-in-use",
      autofocus: true,
    }),
    life: input("timeout", { placeholder: "default", list: "lives" }),
    cpus: input("cpus", small),
    memory: input("memory_mb", small),
    pids: input("pids_limit", small),
    out: wayOut(["default", "none", "list", "network"]),
    writable: h("input", { type: "checkbox", name: "writable" }),
    name: input("name", { placeholder: "optional", maxlength: 255 }),
    env: h("textarea", { name: "env", placeholder: "NAME=value", ...lines }),
    labels: h("textarea", { name: "labels", placeholder: "name=value", ...lines }),
  };
}

const list = (id, values) =>
  h(
    "datalist",
    { id },
    values.map((value) => h("option", { value })),
  );

function layout(c) {
  const images = [...new Set([...sandboxes.values()].map((b) => b.image))];
  return [
    list("images-in-use", images),
    list("lives", ["5m", "15m", "1h", "8h", "24h"]),
    h(
      "div",
      { class: "pair" },
      field("Image", c.image, "Pulled if it is not there: that can take minutes."),
      field("Name", c.name, "A label, to know it by."),
    ),
    h(
      "div",
      { class: "quad" },
      field("Time to live", c.life, "90, 15m, 2h"),
      field("CPUs", c.cpus, "such as 0.5"),
      field("Memory", c.memory, "MiB"),
      field("Processes", c.pids, "and threads"),
    ),
    h("div", { class: "pair" }, c.out.fields),
    field("Writable root", c.writable, "More than /workspace and /tmp."),
    h(
      "details",
      null,
      h("summary", null, "Environment and labels"),
      h(
        "div",
        { class: "pair" },
        field("Environment", c.env, "For every command."),
        field("Labels", c.labels, "To find it by."),
      ),
    ),
  ];
}

// What is filled in; what is undefined is not sent.
function spec(c) {
  const labels = pairs(c.labels.value, "Labels") ?? {};
  if (c.name.value.trim()) labels.name = c.name.value.trim();
  const all = {
    image: c.image.value.trim() || undefined,
    timeout_seconds: seconds(c.life.value, "Time to live"),
    cpus: number(c.cpus, "CPUs"),
    memory_mb: number(c.memory, "Memory"),
    pids_limit: number(c.pids, "Processes"),
    ...c.out.value(),
    read_only_rootfs: c.writable.checked ? false : undefined,
    env: pairs(c.env.value, "Environment") ?? undefined,
    labels: Object.keys(labels).length ? labels : undefined,
  };
  return JSON.parse(JSON.stringify(all));
}

// Resolves to the new sandbox, or to null.
export function createDialog() {
  const c = controls();
  const attempt = attempts();
  return formDialog({
    title: "Create a sandbox",
    kind: "create",
    fields: layout(c),
    submit: "Create",
    busy: "Creating\u2026",
    act: async (form, signal) => {
      const json = spec(c);
      const box = await call("POST", "v1/sandboxes", { json, signal, headers: attempt(json) });
      put(box);
      say(`Sandbox ${box.id} is ready`);
      return box;
    },
  });
}
