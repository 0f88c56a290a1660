// The table of a folder's entries: sorted as one likes, bounded, each row with what can be done with it.
import { now } from "./api.js";
import { ago, button, fill, h, icon, plural, size, stamp, successor, visible } from "./dom.js";

const ROWS = 400;
const SHAPES = { file: "file", directory: "folder", symlink: "link" };
const EMPTY = "This folder is empty. Drop files here, or let a command write some.";
const MARKED = "The name has characters that cannot be seen; they are shown as marks.";

const ORDERS = {
  name: (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0),
  size: (a, b) => a.size - b.size,
  modified: (a, b) => (a.modified_at < b.modified_at ? -1 : 1),
};

// Folders stand before files in every order.
const rank = (entry) => (entry.type === "directory" ? 0 : 1);

export class FileTable {
  // open, download, remove: what to do with an entry.
  constructor({ open, download, remove }) {
    this.act = { open, download, remove };
    this.entries = [];
    this.limit = ROWS;
    this.order = "name";
    this.down = false;
    this.heads = {};
    this.body = h("tbody");
    this.foot = h("p", { class: "foot" });
    this.more = button("Show more", { kind: "wide", hidden: true, click: () => this.showMore() });
    const columns = [
      this.column("name", "Name"),
      this.column("size", "Size"),
      this.column("modified", "Modified"),
      h("th", { scope: "col" }, h("span", { class: "sr" }, "Actions")),
    ];
    const head = h("thead", null, h("tr", null, columns));
    const table = h("table", { class: "files" }, h("caption", { class: "sr" }, "Files"), head, this.body);
    const about = { tabIndex: 0, role: "region", "aria-label": "Files in this folder" };
    this.element = h("div", { class: "scroll", ...about }, table, this.more, this.foot);
  }

  column(key, label) {
    const click = () => {
      this.down = this.order === key && !this.down;
      this.order = key;
      this.draw();
    };
    this.heads[key] = h(
      "th",
      { scope: "col", class: key },
      h("button", { type: "button", class: "sort", on: { click } }, label),
    );
    return this.heads[key];
  }

  show(entries, another) {
    this.entries = entries;
    if (another) this.limit = ROWS;
    this.draw();
  }

  showMore() {
    this.limit += ROWS;
    this.draw();
  }

  draw() {
    for (const [key, head] of Object.entries(this.heads)) {
      head.setAttribute("aria-sort", key !== this.order ? "none" : this.down ? "descending" : "ascending");
    }
    const direction = this.down ? -1 : 1;
    const compare = (a, b) => rank(a) - rank(b) || direction * ORDERS[this.order](a, b);
    const sorted = [...this.entries].sort(compare).slice(0, this.limit);
    this.keepFocus(() =>
      fill(
        this.body,
        sorted.map((entry) => this.row(entry)),
      ),
    );
    this.more.hidden = this.entries.length <= this.limit;
    const bytes = this.entries.reduce((n, e) => n + (e.type === "file" ? e.size : 0), 0);
    fill(this.foot, this.entries.length ? `${plural(this.entries.length, "item")}, ${size(bytes)}` : EMPTY);
  }

  // Drawing anew must not throw somebody out who walks through with the keyboard.
  keepFocus(change) {
    const focused = this.body.contains(document.activeElement) ? document.activeElement : null;
    const at = focused ? [...this.body.children].indexOf(focused.closest("tr")) : -1;
    change();
    if (at < 0) return;
    const near = this.body.children[Math.min(at, this.body.children.length - 1)] ?? this.element.parentNode;
    (successor(focused, this.body) ?? near.querySelector("button")).focus();
  }

  row(entry) {
    const name = visible(entry.name);
    const folder = entry.type === "directory";
    const open = h(
      "button",
      {
        type: "button",
        class: "name",
        title: entry.name === name ? null : MARKED,
        on: { click: () => this.act.open(entry) },
      },
      icon(SHAPES[entry.type] ?? "other"),
      h("bdi", null, name),
    );
    const download = button(`Download ${name}${folder ? " as tar" : ""}`, {
      icon: "down",
      hide: true,
      click: () => this.act.download(entry),
    });
    const remove = button(`Delete ${name}`, {
      icon: "trash",
      hide: true,
      click: () => this.act.remove(entry),
    });
    return h(
      "tr",
      { class: entry.type },
      h("td", { class: "name" }, open),
      h("td", { class: "size" }, folder || entry.type === "other" ? "" : size(entry.size)),
      h(
        "td",
        { class: "modified", title: stamp(entry.modified_at) },
        ago(now() - Date.parse(entry.modified_at)),
      ),
      h("td", { class: "act" }, entry.type === "other" ? null : download, remove),
    );
  }
}
