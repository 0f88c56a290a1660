// The console: the list of sandboxes on the left, the chosen one beside it. The address's fragment says which one is chosen.
import { call } from "./api.js";
import { BoxPage } from "./box.js";
import { createDialog } from "./create.js";
import { words } from "./dialog.js";
import { button, fill, h } from "./dom.js";
import { SandboxList } from "./list.js";
import { runDialog } from "./run.js";
import { refresh, sandboxes, watch, world } from "./world.js";

const PAGES_KEPT = 12;
const NONE = [
  "No sandboxes",
  "A sandbox is a container of its own with a workspace to run code in. It ends by itself when its time is over.",
];
const UNCHOSEN = ["No sandbox chosen", "Choose one from the list, or create another."];

const wanted = () => (/^#sb_[0-9a-f]{16}$/.test(location.hash) ? location.hash.slice(1) : null);

const empty = (...content) => h("div", { class: "empty" }, content);

export class ConsolePage {
  constructor() {
    this.pages = new Map();
    this.current = null;
    this.life = new AbortController();
    const { signal } = this.life;
    this.list = new SandboxList({ create: () => this.create(), run: runDialog, signal });
    this.banner = h("div", { class: "banner", role: "alert", hidden: true });
    this.place = h("div", { class: "place" });
    const beside = h("div", { class: "beside" }, this.banner, this.place);
    this.element = h(
      "div",
      { class: "split" },
      h("h1", { class: "sr" }, "Console"),
      this.list.element,
      beside,
    );
    this.choose = this.choose.bind(this);
    world.addEventListener("sandboxes", () => this.changed(), { signal });
    world.addEventListener("trouble", () => this.trouble(), { signal });
  }

  async create() {
    const box = await createDialog();
    if (box) location.hash = box.id;
  }

  nothing() {
    if (!world.loaded) return empty(h("p", null, "Asking the server\u2026"));
    const [title, text] = sandboxes.size === 0 ? NONE : UNCHOSEN;
    const create = button("Create a sandbox", { icon: "add", kind: "primary", click: () => this.create() });
    return empty(h("h2", null, title), h("p", null, text), create);
  }

  // The page of a sandbox, with all that was done on it. Those that were looked at longest ago and have nothing running
  // give their memory back.
  page(id) {
    const page = this.pages.get(id) ?? new BoxPage(id, { back: () => this.back() });
    this.pages.delete(id);
    this.pages.set(id, page);
    for (const [old, p] of this.pages) {
      if (this.pages.size <= PAGES_KEPT) break;
      if (old === id || p.busy()) continue;
      p.close();
      this.pages.delete(old);
    }
    return page;
  }

  back() {
    history.pushState(null, "", location.pathname);
    this.choose();
    this.list.focus();
  }

  choose() {
    const id = wanted();
    this.current = id;
    this.element.classList.toggle("chosen", id !== null);
    this.list.choose(id);
    if (!id) {
      fill(this.place, this.nothing());
    } else if (world.loaded && !sandboxes.has(id) && !this.pages.has(id)) {
      this.lost(id);
    } else if (world.loaded) {
      const page = this.page(id);
      if (this.place.firstChild !== page.element) fill(this.place, page.element);
      page.enter();
    }
  }

  // A link to one that is not in the list: the server says why.
  async lost(id) {
    try {
      await call("GET", `v1/sandboxes/${id}`, { query: { detail: true } });
      await refresh();
    } catch (error) {
      if (this.current !== id) return;
      const back = button("Back to the list", { click: () => this.back() });
      fill(this.place, empty(h("h2", null, "Not there"), h("p", null, words(error)), back));
    }
  }

  changed() {
    this.list.draw();
    const { firstChild } = this.place;
    if (this.current === null || !firstChild || firstChild.className === "empty") this.choose();
    document.title = `${sandboxes.size ? `(${sandboxes.size}) ` : ""}Console \u00b7 agent-sandbox`;
  }

  trouble() {
    this.banner.hidden = !world.trouble;
    this.element.classList.toggle("stale", Boolean(world.trouble));
    if (!world.trouble) return;
    fill(this.banner, h("span", null, words(world.trouble)), button("Try now", { click: () => refresh() }));
  }

  enter() {
    addEventListener("hashchange", this.choose);
    addEventListener("popstate", this.choose);
    watch(true);
    this.list.draw();
    this.choose();
  }

  leave() {
    removeEventListener("hashchange", this.choose);
    removeEventListener("popstate", this.choose);
    watch(false);
  }

  end() {
    this.leave();
    this.life.abort();
    for (const p of this.pages.values()) p.close();
  }
}
