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

export function createDialog() {
  const small = { inputmode: "decimal", placeholder: "default" };
  const image = input("image", {
    placeholder: "the server's default image",
    list: "images-in-use",
    autofocus: true,
  });
  const images = h(
    "datalist",
    { id: "images-in-use" },
    [...new Set([...sandboxes.values()].map((b) => b.image))].map((i) => h("option", { value: i })),
  );
  const life = input("timeout", { placeholder: "default", list: "lives" });
  const lives = h(
    "datalist",
    { id: "lives" },
    ["5m", "15m", "1h", "8h", "24h"].map((v) => h("option", { value: v })),
  );
  const cpus = input("cpus", small);
  const memory = input("memory_mb", small);
  const pids = input("pids_limit", small);
  const network = h("input", { type: "checkbox", name: "network" });
  const writable = h("input", { type: "checkbox", name: "writable" });
  const name = input("name", { placeholder: "optional", maxlength: 255 });
  const env = h("textarea", {
    name: "env",
    rows: 3,
    placeholder: "NAME=value",
    spellcheck: "false",
    autocomplete: "off",
  });
  const labels = h("textarea", {
    name: "labels",
    rows: 3,
    placeholder: "name=value",
    spellcheck: "false",
    autocomplete: "off",
  });
  const attempt = attempts();

  function spec() {
    const label = pairs(labels.value, "Labels") ?? {};
    if (name.value.trim()) label.name = name.value.trim();
    const out = {
      image: image.value.trim() || undefined,
      timeout_seconds: seconds(life.value, "Time to live"),
      cpus: number(cpus, "CPUs"),
      memory_mb: number(memory, "Memory"),
      pids_limit: number(pids, "Processes"),
      network: network.checked || undefined,
      read_only_rootfs: writable.checked ? false : undefined,
      env: pairs(env.value, "Environment") ?? undefined,
      labels: Object.keys(label).length ? label : undefined,
    };
    return JSON.parse(JSON.stringify(out));
  }

  async function act(form, signal) {
    const json = spec();
    const box = await call("POST", "v1/sandboxes", { json, signal, headers: attempt(json) });
    put(box);
    say(`Sandbox ${box.id} is ready`);
    return box;
  }

  return formDialog({
    title: "Create a sandbox",
    kind: "create",
    fields: [
      images,
      lives,
      h(
        "div",
        { class: "pair" },
        field("Image", image, "Pulled if it is not there: that can take minutes."),
        field("Name", name, "A label, to know it by."),
      ),
      h(
        "div",
        { class: "quad" },
        field("Time to live", life, "90, 15m, 2h"),
        field("CPUs", cpus, "such as 0.5"),
        field("Memory", memory, "MiB"),
        field("Processes", pids, "and threads"),
      ),
      h(
        "div",
        { class: "pair" },
        field("Network", network, "A way out of the sandbox."),
        field("Writable root", writable, "More than /workspace and /tmp."),
      ),
      h(
        "details",
        null,
        h("summary", null, "Environment and labels"),
        h(
          "div",
          { class: "pair" },
          field("Environment", env, "For every command."),
          field("Labels", labels, "To find it by."),
        ),
      ),
    ],
    submit: "Create",
    busy: "Creating\u2026",
    act,
  });
}
