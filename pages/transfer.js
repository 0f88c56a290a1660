// Files on their way: a line for each with how far it is, and a way to stop it.
import { ApiError, request, upload } from "./api.js";
import { fail, note } from "./dialog.js";
import { button, fill, h, plural, say, size, visible } from "./dom.js";

const AT_ONCE = 3;
const DRAW_MS = 100;
const SMALL = 1e6;
const DROP_MAX = 5000;

// All files of what was dropped, folders walked through: [{path, file}].
export async function dropped(data) {
  const out = [];
  const read = (entry) => new Promise((ok, no) => entry.file(ok, no));
  const some = (reader) => new Promise((ok, no) => reader.readEntries(ok, no));
  async function walk(entry, prefix) {
    const path = prefix + entry.name;
    if (entry.isFile) {
      out.push({ path, file: await read(entry) });
      if (out.length > DROP_MAX)
        throw new Error(`More than ${DROP_MAX} files: pack them into an archive, and upload that.`);
      return;
    }
    const reader = entry.createReader();
    for (let batch = await some(reader); batch.length > 0; batch = await some(reader)) {
      for (const child of batch) await walk(child, `${path}/`);
    }
  }
  const entries = [...data.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (entries.length === 0) return [...data.files].map((file) => ({ path: file.name, file }));
  for (const entry of entries) await walk(entry, "");
  return out;
}

// What the browser saves it as: never a path, never something that looks like another name.
export function saveName(path, tar) {
  const last = path.split("/").filter(Boolean).pop() ?? "root";
  return (
    visible(last)
      .replace(/[\\/:*?"<>|]/g, "_")
      .slice(0, 200) + (tar ? ".tar" : "")
  );
}

function save(blob, name) {
  const address = URL.createObjectURL(blob);
  const a = h("a", { href: address, download: name });
  document.body.append(a);
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}

// A line in the list, as long as it is on its way.
class Line {
  constructor(label, text) {
    this.abort = new AbortController();
    this.signal = this.abort.signal;
    this.drawn = 0;
    this.bar = h("progress", { max: 1, "aria-label": `${label} ${text}` });
    this.far = h("span", { class: "far" });
    const stop = button(`Stop: ${text}`, { icon: "close", hide: true, click: () => this.abort.abort() });
    const what = h("span", { class: "what" }, `${label} `, h("bdi", null, text));
    this.element = h("li", null, what, this.bar, this.far, stop);
    this.progress = this.progress.bind(this);
  }

  progress(done, total) {
    if (performance.now() - this.drawn < DRAW_MS && done !== total) return;
    this.drawn = performance.now();
    if (total) this.bar.value = done / total;
    fill(this.far, total ? `${size(done)} of ${size(total)}` : size(done));
  }
}

// Passes on what it gets, and counts it.
function counter(total, progress) {
  let done = 0;
  return new TransformStream({
    transform(piece, out) {
      done += piece.length;
      progress(done, total);
      out.enqueue(piece);
    },
  });
}

export class Transfers {
  // uploaded(): files have come.
  constructor(id, uploaded) {
    this.path = `v1/sandboxes/${id}/files`;
    this.uploaded = uploaded;
    this.active = new Set();
    this.element = h("ul", { class: "transfers", "aria-label": "Transfers" });
  }

  // work(line) with a line in the list; true when it succeeded. words(error): what is said when not.
  async track(label, path, words, work) {
    const line = new Line(label, visible(path));
    this.element.append(line.element);
    this.active.add(line);
    try {
      await work(line);
      return true;
    } catch (error) {
      fail(words(error), visible(path));
      return false;
    } finally {
      this.active.delete(line);
      line.element.remove();
    }
  }

  one(folder, { path, file }) {
    // A refusal before the whole file was sent may end the connection, and the browser keeps the reason to itself.
    const words = (error) => {
      if (error.status !== 0 || file.size < SMALL) return error;
      return new Error(
        `The connection was cut: ${size(file.size)} may be over the server's limit for a file.`,
      );
    };
    const to = `${folder === "/" ? "" : folder}/${path}`;
    return this.track("Uploading", path, words, (line) => upload(this.path, { path: to }, file, line));
  }

  // files: [{path, file}], a few at a time.
  async upload(folder, files) {
    const queue = [...files];
    let done = 0;
    const worker = async () => {
      for (let next = queue.shift(); next; next = queue.shift()) if (await this.one(folder, next)) done++;
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    this.uploaded();
    if (done) note(h("p", null, `${plural(done, "file")} uploaded to ${visible(folder)}`));
  }

  // A file, or with folder a tar of it. One that breaks is an error: nothing half is ever saved.
  async download(path, folder) {
    const known = (error) => error instanceof ApiError || error.name === "AbortError";
    const words = (error) =>
      known(error) ? error : new Error("The download was cut off, and nothing was saved.");
    await this.track("Downloading", path, words, async ({ signal, progress }) => {
      const from = this.path + (folder ? "/archive" : "");
      const response = await request("GET", from, { query: { path }, signal });
      const total = Number(response.headers.get("Content-Length")) || 0;
      const blob = await new Response(response.body.pipeThrough(counter(total, progress))).blob();
      save(new Blob([blob], { type: "application/octet-stream" }), saveName(path, folder));
      say(`Downloaded ${visible(path)}`);
    });
  }

  busy() {
    return this.active.size > 0;
  }

  end() {
    for (const { abort } of this.active) abort.abort();
  }
}
