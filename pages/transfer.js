// Files on their way: a line for each with how far it is, and a way to stop it.
import { ApiError, request, upload } from "./api.js";
import { fail, note } from "./dialog.js";
import { button, fill, h, plural, say, size, visible } from "./dom.js";

const AT_ONCE = 3;
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

export function transfers(id, uploaded) {
  const element = h("ul", { class: "transfers", "aria-label": "Transfers" });
  const active = new Set();

  function line(label, text) {
    const abort = new AbortController();
    const bar = h("progress", { max: 1, "aria-label": `${label} ${text}` });
    const far = h("span", { class: "far" });
    const li = h(
      "li",
      null,
      h("span", { class: "what" }, `${label} `, h("bdi", null, text)),
      bar,
      far,
      button(`Stop: ${text}`, { icon: "close", hide: true, click: () => abort.abort() }),
    );
    element.append(li);
    const entry = { abort };
    active.add(entry);
    let drawn = 0;
    return {
      signal: abort.signal,
      progress(done, total) {
        if (performance.now() - drawn < 100 && done !== total) return;
        drawn = performance.now();
        if (total) bar.value = done / total;
        fill(far, total ? `${size(done)} of ${size(total)}` : size(done));
      },
      end() {
        active.delete(entry);
        li.remove();
      },
    };
  }

  async function one(folder, { path, file }) {
    const l = line("Uploading", visible(path));
    try {
      await upload(`v1/sandboxes/${id}/files`, { path: `${folder === "/" ? "" : folder}/${path}` }, file, l);
      return true;
    } catch (error) {
      // A refusal before the whole file was sent ends the connection, and the browser keeps the reason to itself.
      const cut = error instanceof ApiError && error.status === 0 && file.size > 1e6;
      fail(
        cut
          ? new Error(`The connection was cut: ${size(file.size)} may be over the server's limit for a file.`)
          : error,
        visible(path),
      );
      return false;
    } finally {
      l.end();
    }
  }

  return {
    element,
    busy: () => active.size > 0,
    end() {
      for (const { abort } of active) abort.abort();
    },
    async upload(folder, files) {
      const queue = [...files];
      let done = 0;
      const worker = async () => {
        for (let next = queue.shift(); next; next = queue.shift()) if (await one(folder, next)) done++;
      };
      await Promise.all(Array.from({ length: AT_ONCE }, worker));
      uploaded();
      if (done) note(h("p", null, `${plural(done, "file")} uploaded to ${visible(folder)}`));
    },
    async download(path, folder) {
      const l = line("Downloading", visible(path));
      try {
        const response = await request("GET", `v1/sandboxes/${id}/files${folder ? "/archive" : ""}`, {
          query: { path },
          signal: l.signal,
        });
        const total = Number(response.headers.get("Content-Length")) || 0;
        let done = 0;
        const count = new TransformStream({
          transform(piece, out) {
            done += piece.length;
            l.progress(done, total);
            out.enqueue(piece);
          },
        });
        const blob = await new Response(response.body.pipeThrough(count)).blob();
        // One that breaks ends with an error above: nothing half is ever saved.
        save(new Blob([blob], { type: "application/octet-stream" }), saveName(path, folder));
        say(`Downloaded ${visible(path)}`);
      } catch (error) {
        fail(
          error instanceof ApiError || error.name === "AbortError"
            ? error
            : new Error("The download was cut off, and nothing was saved."),
          visible(path),
        );
      } finally {
        l.end();
      }
    },
  };
}
