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

// entry: its FileInfo. A link has the size of its own text, so only a regular file's is believed.
export async function preview(id, path, entry, { download, saved }) {
  const place = h("div", { class: "looking" }, h("p", { class: "foot" }, "Reading\u2026"));
  const tools = h("div", { class: "tools-row" });
  const d = dialog({
    title: visible(path),
    kind: "preview",
    body: h("div", { class: "stack" }, tools, place),
  });
  const facts = h("span", { class: "facts" }, `${size(entry.size)} \u00b7 ${stamp(entry.modified_at)}`);
  fill(tools, facts, button("Download", { icon: "down", click: download }));
  try {
    // A range of an empty file cannot be satisfied.
    let { bytes, total } = await read(id, path, entry.type === "file" && entry.size === 0 ? 0 : LOOK_MAX);
    const type = picture(bytes);
    if (type && total <= PICTURE_MAX) {
      if (bytes.length < total) ({ bytes, total } = await read(id, path, 0));
      fill(
        place,
        h("img", {
          class: "picture",
          src: await dataUrl(bytes, type),
          alt: `Picture ${visible(entry.name)}`,
        }),
      );
      return;
    }
    const whole = bytes.length >= total;
    const text = asText(bytes, whole);
    if (text === null) {
      fill(
        place,
        h("pre", { class: "text", tabIndex: 0, role: "region", "aria-label": "Bytes" }, hexdump(bytes)),
        total > BYTES_MAX
          ? h("p", { class: "cut" }, `The first ${size(BYTES_MAX)} of ${size(total)}.`)
          : null,
      );
      return;
    }
    fill(place, text === "" ? h("p", { class: "foot" }, "The file is empty.") : textView(text, whole, total));
    fill(
      tools,
      facts,
      copyButton(text, "Copy the text"),
      whole && entry.type === "file" && !/\r(?!\n)/.test(text)
        ? button("Edit", { icon: "edit", click: () => edit(text) })
        : null,
      button("Download", { icon: "down", click: download }),
    );
  } catch (error) {
    fill(place, errorBox(error));
  }

  function edit(text) {
    const area = h("textarea", {
      class: "editor",
      value: text,
      spellcheck: "false",
      "aria-label": `Contents of ${visible(path)}`,
    });
    const save = button("Save", { kind: "primary" });
    fill(place, area);
    fill(tools, facts, button("Cancel", { click: () => d.close() }), save);
    area.focus();
    save.addEventListener("click", async () => {
      save.disabled = true;
      try {
        // What a text area takes away is put back, and a script stays executable.
        const changed = text.includes("\r\n") ? area.value.replace(/\n/g, "\r\n") : area.value;
        await upload(`v1/sandboxes/${id}/files`, { path, mode: await mode(id, path) }, new Blob([changed]));
        say("Saved");
        d.close();
        saved();
      } catch (error) {
        fail(error);
        save.disabled = false;
      }
    });
  }
}
