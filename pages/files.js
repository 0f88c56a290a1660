// The files of a sandbox: folders to walk through, up- and download, also by dragging, and a look at what is in a file.
import { call } from "./api.js";
import { confirm, errorBox, fail, field, formDialog, input } from "./dialog.js";
import { button, fill, h, plural, say, visible } from "./dom.js";
import { FileTable } from "./filetable.js";
import { preview } from "./preview.js";
import { dropped, Transfers } from "./transfer.js";

const SHOWN_MAX = 5;

const join = (folder, name) => `${folder === "/" ? "" : folder}/${name}`;
const parent = (path) => path.replace(/\/[^/]*$/, "") || "/";

export class FilesPane {
  constructor(id) {
    this.id = id;
    this.here = "/workspace";
    this.asked = 0;
    this.moves = new Transfers(id, () => this.load());
    this.table = new FileTable({
      open: (entry) => this.open(entry),
      download: (entry) => this.moves.download(join(this.here, entry.name), entry.type === "directory"),
      remove: (entry) => this.remove(entry),
    });
    this.crumbs = h("nav", { class: "crumbs", "aria-label": "Folder" });
    this.trouble = h("div");
    const chooser = this.makeChooser();
    this.element = h(
      "div",
      { class: "pane filespane" },
      h("div", { class: "bar-row" }, this.crumbs, this.makeTools(chooser)),
      chooser,
      this.moves.element,
      this.trouble,
      this.table.element,
      h("div", { class: "dropmark", "aria-hidden": "true" }, "Drop to upload here"),
    );
    this.takeDrops();
  }

  makeTools(chooser) {
    const tool = (text, icon, click) => button(text, { icon, hide: true, click });
    return [
      tool("Folder above", "parent", () => this.go(parent(this.here))),
      tool("Load again", "redo", () => this.go(this.here)),
      tool("New folder", "folder", () => this.makeFolder()),
      tool("Download this folder as tar", "down", () => this.moves.download(this.here, true)),
      button("Upload", { icon: "up", click: () => chooser.click() }),
    ];
  }

  makeChooser() {
    const about = { class: "sr", tabIndex: -1, "aria-label": "Files to upload" };
    const chooser = h("input", { type: "file", multiple: true, ...about });
    chooser.addEventListener("change", () => {
      this.send([...chooser.files].map((file) => ({ path: file.name, file })));
      chooser.value = "";
    });
    return chooser;
  }

  takeDrops() {
    let depth = 0;
    const mark = (on) => this.element.classList.toggle("dropping", on);
    const on = (name, listener) =>
      this.element.addEventListener(name, (e) => {
        if (e.dataTransfer?.types.includes("Files")) listener(e);
      });
    on("dragenter", () => mark(++depth > 0));
    on("dragleave", () => mark(--depth > 0));
    on("dragover", (e) => {
      e.preventDefault();
      e.dataTransfer.dropEffect = "copy";
    });
    on("drop", async (e) => {
      e.preventDefault();
      depth = 0;
      mark(false);
      try {
        await this.send(await dropped(e.dataTransfer));
      } catch (error) {
        fail(error);
      }
    });
  }

  // The folder as it is now, shown; false when another was asked for meanwhile.
  async fetch(folder) {
    const mine = ++this.asked;
    const list = await call("GET", `v1/sandboxes/${this.id}/files/list`, { query: { path: folder } });
    if (mine !== this.asked) return false;
    const another = list.path !== this.here;
    this.here = list.path;
    this.drawCrumbs();
    this.table.show(list.entries, another);
    return true;
  }

  // After something that may have changed it: a failure is not worth words then.
  async load() {
    try {
      if (await this.fetch(this.here)) fill(this.trouble);
    } catch {
      // What is shown stays.
    }
  }

  async go(folder) {
    try {
      if (!(await this.fetch(folder))) return;
      fill(this.trouble);
      say(`${visible(this.here)}: ${plural(this.table.entries.length, "item")}`);
    } catch (error) {
      // What led there is shown as it is now.
      if (error.status === 404 && folder !== this.here) await this.load();
      fill(this.trouble, errorBox(error));
    }
  }

  drawCrumbs() {
    const crumb = (path, text, props) =>
      h("button", { type: "button", class: "crumb", on: { click: () => this.go(path) }, ...props }, text);
    const parts = this.here.split("/").filter(Boolean);
    const items = [crumb("/", "/", { "aria-label": "Root folder" })];
    parts.forEach((name, i) => {
      const full = `/${parts.slice(0, i + 1).join("/")}`;
      const last = i === parts.length - 1;
      items.push(
        crumb(full, h("bdi", null, visible(name)), {
          "aria-current": last ? "location" : null,
          title: visible(full),
        }),
      );
      if (!last) items.push(h("span", { "aria-hidden": "true" }, "/"));
    });
    fill(this.crumbs, items);
    this.crumbs.scrollLeft = this.crumbs.scrollWidth;
  }

  async open(entry) {
    const full = join(this.here, entry.name);
    if (entry.type === "directory") return this.go(full);
    if (entry.type === "other")
      return fail(new Error(`${visible(entry.name)} is neither a file nor a folder nor a link.`));
    if (entry.type === "symlink") {
      // What it points to shows only when it is followed: not a folder is 400.
      try {
        return await this.fetch(full);
      } catch (error) {
        if (error.status !== 400) return fail(error);
      }
    }
    return preview(this.id, full, entry, {
      download: () => this.moves.download(full, false),
      saved: () => this.load(),
    });
  }

  async run(argv) {
    const json = { command: argv, timeout_seconds: 60 };
    const result = await call("POST", `v1/sandboxes/${this.id}/exec`, { json });
    if (result.exit_code === 0) return;
    throw new Error(
      visible(result.stderr.trim().slice(0, 500)) || `${argv[0]} ended with ${result.exit_code}`,
    );
  }

  async makeFolder() {
    const name = input("name", { autofocus: true, placeholder: "name, or a/path" });
    const done = await formDialog({
      title: "New folder",
      fields: field("Name", name, `In ${visible(this.here)}`),
      submit: "Make it",
      act: async () => {
        if (name.value === "") throw new Error("A folder needs a name.");
        await this.run([
          "mkdir",
          "-p",
          "--",
          name.value.startsWith("/") ? name.value : join(this.here, name.value),
        ]);
        return true;
      },
    });
    if (done) this.load();
  }

  async remove(entry) {
    const full = join(this.here, entry.name);
    const what = entry.type === "directory" ? "the folder and all that is in it" : "the file";
    const path = h("code", null, h("bdi", null, visible(full)));
    const yes = await confirm({
      title: "Delete?",
      text: h("p", null, `This deletes ${what}: `, path, ". Snapshots keep what they have."),
      yes: "Delete",
      danger: true,
      act: () => this.run(["rm", "-rf", "--", full]),
    });
    if (yes) this.load();
  }

  // files: [{path, file}]. Names that are there already are asked about.
  async send(files) {
    const taken = new Set(this.table.entries.map((e) => e.name));
    const over = files.filter((f) => taken.has(f.path.split("/")[0]));
    if (over.length > 0) {
      const names = [...new Set(over.map((f) => visible(f.path.split("/")[0])))];
      const list = names.slice(0, SHOWN_MAX).join(", ") + (names.length > SHOWN_MAX ? ", \u2026" : "");
      const yes = await confirm({
        title: "Replace?",
        text: h(
          "p",
          null,
          `In ${visible(this.here)} there is already `,
          h("code", null, list),
          ". Files with the same name are replaced.",
        ),
        yes: "Replace",
        danger: true,
      });
      if (!yes) return;
    }
    await this.moves.upload(this.here, files);
  }

  busy() {
    return this.moves.busy();
  }

  end() {
    this.moves.end();
  }
}
