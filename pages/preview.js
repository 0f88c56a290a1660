// A look at a file of a sandbox: text to read and change, pictures, and the bytes of everything else. Always as text or pixels.
import { call, request, upload } from "./api.js";
import { dialog, errorBox, fail } from "./dialog.js";
import { button, copyButton, fill, h, say, size, stamp, visible, visibleText } from "./dom.js";

const LOOK_MAX = 512 * 1024;
const PICTURE_MAX = 8 * 1024 * 1024;
const BYTES_MAX = 4096;
const PICTURES = [
  ["image/png", [0x89, 0x50, 0x4e, 0x47]],
  ["image/jpeg", [0xff, 0xd8, 0xff]],
  ["image/gif", [0x47, 0x49, 0x46, 0x38]],
  ["image/webp", [0x52, 0x49, 0x46, 0x46]],
];

const hex = (n, width) => n.toString(16).padStart(width, "0");

// The first bytes as people like to see them: offset, hexadecimal, characters.
export function hexdump(bytes) {
  const lines = [];
  for (let at = 0; at < Math.min(bytes.length, BYTES_MAX); at += 16) {
    const row = [...bytes.subarray(at, at + 16)];
    const cells = row
      .map((b) => hex(b, 2))
      .join(" ")
      .padEnd(47);
    lines.push(
      `${hex(at, 8)}  ${cells}  ${row.map((b) => (b > 31 && b < 127 ? String.fromCharCode(b) : "\u00b7")).join("")}`,
    );
  }
  return lines.join("\n");
}

// The text, or null when the bytes are none. A character cut by the end of a part is no fault.
export function asText(bytes, whole) {
  if (bytes.subarray(0, 8192).includes(0)) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: !whole });
  } catch {
    return null;
  }
}

function picture(bytes) {
  const found = PICTURES.find(([, magic]) => magic.every((b, i) => bytes[i] === b));
  return found?.[0];
}

function dataUrl(bytes, type) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(new Blob([bytes], { type }));
  });
}

async function read(id, path, length) {
  const headers = length ? { Range: `bytes=0-${length - 1}` } : {};
  const response = await request("GET", `v1/sandboxes/${id}/files`, { query: { path }, headers });
  const total = Number(
    /\/([0-9]+)$/.exec(response.headers.get("Content-Range") ?? "")?.[1] ??
      response.headers.get("Content-Length"),
  );
  return { bytes: new Uint8Array(await response.arrayBuffer()), total };
}

async function mode(id, path) {
  const result = await call("POST", `v1/sandboxes/${id}/exec`, {
    json: { command: ["stat", "-c", "%a", "--", path], timeout_seconds: 20 },
  });
  return /^[0-7]{3}\n$/.test(result.stdout) ? result.stdout.trim() : null;
}

function textView(text, whole, total) {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const numbers = h(
    "pre",
    { class: "numbers", "aria-hidden": "true" },
    lines.map((_, i) => i + 1).join("\n"),
  );
  const pre = h(
    "pre",
    { class: "text", tabIndex: 0, role: "region", "aria-label": "Contents" },
    visibleText(lines.join("\n")),
  );
  const cut = whole
    ? null
    : h("p", { class: "cut" }, `The first ${size(LOOK_MAX)} of ${size(total)}: download it to see the rest.`);
  return [h("div", { class: "look" }, numbers, pre), cut];
}

function bytesView(bytes, total) {
  const about = { class: "text", tabIndex: 0, role: "region", "aria-label": "Bytes" };
  const cut = `The first ${size(BYTES_MAX)} of ${size(total)}.`;
  return [h("pre", about, hexdump(bytes)), total > BYTES_MAX ? h("p", { class: "cut" }, cut) : null];
}

class Preview {
  constructor(id, path, entry, { download, saved }) {
    Object.assign(this, { id, path, entry, saved });
    this.place = h("div", { class: "looking" }, h("p", { class: "foot" }, "Reading\u2026"));
    this.tools = h("div", { class: "tools-row" });
    const body = h("div", { class: "stack" }, this.tools, this.place);
    this.dialog = dialog({ title: visible(path), kind: "preview", body });
    this.facts = h("span", { class: "facts" }, `${size(entry.size)} \u00b7 ${stamp(entry.modified_at)}`);
    this.download = button("Download", { icon: "down", click: download });
    fill(this.tools, this.facts, this.download);
  }

  async show() {
    // A range of an empty file cannot be satisfied. A link has the size of its own text.
    const none = this.entry.type === "file" && this.entry.size === 0;
    let { bytes, total } = await read(this.id, this.path, none ? 0 : LOOK_MAX);
    const type = picture(bytes);
    if (type && total <= PICTURE_MAX) {
      if (bytes.length < total) ({ bytes } = await read(this.id, this.path, 0));
      const alt = `Picture ${visible(this.entry.name)}`;
      fill(this.place, h("img", { class: "picture", src: await dataUrl(bytes, type), alt }));
      return;
    }
    const whole = bytes.length >= total;
    const text = asText(bytes, whole);
    if (text === null) fill(this.place, bytesView(bytes, total));
    else this.showText(text, whole, total);
  }

  showText(text, whole, total) {
    fill(
      this.place,
      text === "" ? h("p", { class: "foot" }, "The file is empty.") : textView(text, whole, total),
    );
    // A text area makes every line end the same: what has others is not for it.
    const fits = whole && this.entry.type === "file" && !/\r(?!\n)/.test(text);
    const edit = fits ? button("Edit", { icon: "edit", click: () => this.edit(text) }) : null;
    fill(this.tools, this.facts, copyButton(text, "Copy the text"), edit, this.download);
  }

  edit(text) {
    const label = `Contents of ${visible(this.path)}`;
    const area = h("textarea", { class: "editor", value: text, spellcheck: "false", "aria-label": label });
    const save = button("Save", { kind: "primary" });
    fill(this.place, area);
    fill(this.tools, this.facts, button("Cancel", { click: () => this.dialog.close() }), save);
    area.focus();
    save.addEventListener("click", async () => {
      save.disabled = true;
      try {
        await this.save(text.includes("\r\n") ? area.value.replace(/\n/g, "\r\n") : area.value);
      } catch (error) {
        fail(error);
        save.disabled = false;
      }
    });
  }

  // With the mode that it has: a script stays executable.
  async save(text) {
    const query = { path: this.path, mode: await mode(this.id, this.path) };
    await upload(`v1/sandboxes/${this.id}/files`, query, new Blob([text]));
    say("Saved");
    this.dialog.close();
    this.saved();
  }
}

// entry: its FileInfo; download(): it is wanted as a file; saved(): it was changed.
export async function preview(id, path, entry, { download, saved }) {
  const view = new Preview(id, path, entry, { download, saved });
  try {
    await view.show();
  } catch (error) {
    fill(view.place, errorBox(error));
  }
}
