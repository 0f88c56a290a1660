// The files of a sandbox: folders to walk through, up- and download, also by dragging, and a look at what is in a file.
import { call, now } from "./api.js";
import { confirm, errorBox, fail, field, formDialog, input } from "./dialog.js";
import { ago, button, fill, h, icon, plural, say, size, stamp, visible } from "./dom.js";
import { preview } from "./preview.js";
import { dropped, transfers } from "./transfer.js";

const ROWS = 400;
const SHAPES = { file: "file", directory: "folder", symlink: "link" };

export const join = (folder, name) => `${folder === "/" ? "" : folder}/${name}`;
export const parent = (path) => path.replace(/\/[^/]*$/, "") || "/";

const ORDERS = {
  name: (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0),
  size: (a, b) => a.size - b.size,
  modified: (a, b) => (a.modified_at < b.modified_at ? -1 : 1),
};

export function filesPane(id) {
  const path = (at) => `v1/sandboxes/${id}/files${at}`;
  const crumbs = h("nav", { class: "crumbs", "aria-label": "Folder" });
  const body = h("tbody");
  const heads = {};
  const table = h("table", { class: "files" }, h("caption", { class: "sr" }, "Files"), h("thead", null, h("tr", null, column("name", "Name"), column("size", "Size"), column("modified", "Modified"), h("th", { scope: "col" }, h("span", { class: "sr" }, "Actions")))), body);
  const trouble = h("div");
  const foot = h("p", { class: "foot" });
  const more = button("Show more", { kind: "wide", hidden: true });
  const chooser = h("input", { type: "file", multiple: true, class: "sr", tabIndex: -1, "aria-label": "Files to upload" });
  const moves = transfers(id, () => load(here, true));
  const element = h(
    "div",
    { class: "pane filespane" },
    h(
      "div",
      { class: "bar-row" },
      crumbs,
      button("Folder above", { icon: "parent", hide: true, click: () => load(parent(here)) }),
      button("Load again", { icon: "redo", hide: true, click: () => load(here) }),
      button("New folder", { icon: "folder", hide: true, click: makeFolder }),
      button("Download this folder as tar", { icon: "down", hide: true, click: () => moves.download(here, true) }),
      button("Upload", { icon: "up", click: () => chooser.click() }),
    ),
    chooser,
    moves.element,
    trouble,
    h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Files in this folder" }, table, more, foot),
    h("div", { class: "dropmark", "aria-hidden": "true" }, "Drop to upload here"),
  );
  let here = "/workspace";
  let entries = [];
  let limit = ROWS;
  let order = "name";
  let down = false;
  let asked = 0;

  function column(key, label) {
    const sort = h("button", { type: "button", class: "sort" }, label);
    heads[key] = h("th", { scope: "col", class: key }, sort);
    sort.addEventListener("click", () => {
      down = order === key && !down;
      order = key;
      draw();
    });
    return heads[key];
  }

  // quiet: after something that may have changed it. Then a failure is not worth words.
  async function load(folder, quiet = false) {
    const mine = ++asked;
    try {
      const list = await call("GET", path("/list"), { query: { path: folder } });
      if (mine !== asked) return;
      if (list.path !== here) limit = ROWS;
      here = list.path;
      entries = list.entries;
      fill(trouble);
      draw();
      if (!quiet) say(`${here}: ${plural(entries.length, "entry").replace("entrys", "entries")}`);
    } catch (error) {
      if (mine !== asked || quiet) return;
      // What led there is shown as it is now.
      if (error.status === 404 && folder !== here) await load(here, true);
      fill(trouble, errorBox(error));
    }
  }

  function drawCrumbs() {
    const parts = here.split("/").filter(Boolean);
    const links = [h("button", { type: "button", class: "crumb", on: { click: () => load("/") }, "aria-label": "Root folder" }, "/")];
    parts.forEach((name, i) => {
      const full = `/${parts.slice(0, i + 1).join("/")}`;
      const last = i === parts.length - 1;
      links.push(h("button", { type: "button", class: "crumb", "aria-current": last ? "location" : null, title: visible(full), on: { click: () => load(full) } }, h("bdi", null, visible(name))));
      if (!last) links.push(h("span", { "aria-hidden": "true" }, "/"));
    });
    fill(crumbs, links);
    crumbs.scrollLeft = crumbs.scrollWidth;
  }

  function drawRow(entry) {
    const full = join(here, entry.name);
    const name = visible(entry.name);
    const folder = entry.type === "directory";
    const open = h("button", { type: "button", class: "name", title: entry.name === name ? null : "The name has characters that cannot be seen; they are shown as marks." }, icon(SHAPES[entry.type] ?? "other"), h("bdi", null, name));
    open.addEventListener("click", () => openEntry(entry, full));
    return h(
      "tr",
      { class: entry.type },
      h("td", { class: "name" }, open),
      h("td", { class: "size" }, folder || entry.type === "other" ? "" : size(entry.size)),
      h("td", { class: "modified", title: stamp(entry.modified_at) }, ago(now() - Date.parse(entry.modified_at))),
      h(
        "td",
        { class: "act" },
        entry.type === "other" ? null : button(`Download ${name}${folder ? " as tar" : ""}`, { icon: "down", hide: true, click: () => moves.download(full, folder) }),
        button(`Delete ${name}`, { icon: "trash", hide: true, click: () => remove(entry, full) }),
      ),
    );
  }

  function draw() {
    drawCrumbs();
    for (const [key, th] of Object.entries(heads)) th.setAttribute("aria-sort", key !== order ? "none" : down ? "descending" : "ascending");
    const rank = (e) => (e.type === "directory" ? 0 : 1);
    const sorted = [...entries].sort((a, b) => rank(a) - rank(b) || (down ? -1 : 1) * ORDERS[order](a, b));
    const focus = document.activeElement?.closest?.("tr") && body.contains(document.activeElement) ? [...body.children].indexOf(document.activeElement.closest("tr")) : -1;
    fill(body, sorted.slice(0, limit).map(drawRow));
    if (focus >= 0) (body.children[Math.min(focus, body.children.length - 1)]?.querySelector("button") ?? crumbs.lastChild).focus();
    more.hidden = entries.length <= limit;
    const bytes = entries.reduce((n, e) => n + (e.type === "file" ? e.size : 0), 0);
    fill(foot, entries.length === 0 ? "This folder is empty. Drop files here, or let a command write some." : `${plural(entries.length, "item")}, ${size(bytes)}`);
  }

  async function openEntry(entry, full) {
    if (entry.type === "directory") return load(full);
    if (entry.type === "other") return fail(new Error(`${visible(entry.name)} is neither a file nor a folder nor a link.`));
    if (entry.type === "symlink") {
      // What it points to shows only when it is followed.
      try {
        await call("GET", path("/list"), { query: { path: full } });
        return load(full);
      } catch (error) {
        if (error.status !== 400) return fail(error);
      }
    }
    return preview(id, full, entry, { download: () => moves.download(full, false), saved: () => load(here, true) });
  }

  async function run(argv) {
    const result = await call("POST", `v1/sandboxes/${id}/exec`, { json: { command: argv, timeout_seconds: 60 } });
    if (result.exit_code !== 0) throw new Error(visible(result.stderr.trim().slice(0, 500)) || `${argv[0]} ended with ${result.exit_code}`);
  }

  async function makeFolder() {
    const name = input("name", { autofocus: true, placeholder: "name, or a/path" });
    const done = await formDialog({
      title: "New folder",
      fields: field("Name", name, `In ${visible(here)}`),
      submit: "Make it",
      act: async () => {
        if (name.value === "") throw new Error("A folder needs a name.");
        await run(["mkdir", "-p", "--", name.value.startsWith("/") ? name.value : join(here, name.value)]);
        return true;
      },
    });
    if (done) load(here, true);
  }

  async function remove(entry, full) {
    const what = entry.type === "directory" ? "the folder and all that is in it" : "the file";
    const yes = await confirm({
      title: "Delete?",
      text: h("p", null, `This deletes ${what}: `, h("code", null, h("bdi", null, visible(full))), ". Snapshots keep what they have."),
      yes: "Delete",
      danger: true,
      act: () => run(["rm", "-rf", "--", full]),
    });
    if (yes) load(here, true);
  }

  async function send(files) {
    const taken = new Set(entries.map((e) => e.name));
    const over = files.filter((f) => taken.has(f.path));
    if (over.length) {
      const yes = await confirm({
        title: "Replace?",
        text: h("p", null, `${plural(over.length, "file")} in ${visible(here)} would be replaced: `, h("code", null, over.slice(0, 5).map((f) => visible(f.path)).join(", "))),
        yes: "Replace",
        danger: true,
      });
      if (!yes) return;
    }
    moves.upload(here, files);
  }

  chooser.addEventListener("change", () => {
    send([...chooser.files].map((file) => ({ path: file.webkitRelativePath || file.name, file })));
    chooser.value = "";
  });
  more.addEventListener("click", () => {
    limit += ROWS;
    draw();
  });

  let depth = 0;
  const files = (e) => e.dataTransfer?.types.includes("Files");
  element.addEventListener("dragenter", (e) => {
    if (!files(e)) return;
    depth++;
    element.classList.add("dropping");
  });
  element.addEventListener("dragleave", (e) => {
    if (files(e) && --depth <= 0) element.classList.remove("dropping");
  });
  element.addEventListener("dragover", (e) => {
    if (!files(e)) return;
    e.preventDefault();
    e.dataTransfer.dropEffect = "copy";
  });
  element.addEventListener("drop", async (e) => {
    if (!files(e)) return;
    e.preventDefault();
    depth = 0;
    element.classList.remove("dropping");
    try {
      await send(await dropped(e.dataTransfer));
    } catch (error) {
      fail(error);
    }
  });

  return { element, load: (quiet = true) => load(here, quiet), busy: moves.busy, end: moves.end };
}
