// The console: the list of sandboxes on the left, the chosen one beside it. The address's fragment says which one is chosen.
import { BoxPage } from "./box.js";
import { call } from "./api.js";
import { createDialog } from "./create.js";
import { words } from "./dialog.js";
import { button, fill, h } from "./dom.js";
import { sandboxList } from "./list.js";
import { refresh, sandboxes, watch, world } from "./world.js";

const PAGES_KEPT = 12;

export function consolePage() {
  const pages = new Map();
  const life = new AbortController();
  const list = sandboxList({ create, signal: life.signal });
  const banner = h("div", { class: "banner", role: "alert", hidden: true });
  const place = h("div", { class: "place" });
  const element = h(
    "div",
    { class: "split" },
    h("h1", { class: "sr" }, "Console"),
    list.element,
    h("div", { class: "beside" }, banner, place),
  );
  let current = null;

  const wanted = () => (/^#sb_[0-9a-f]{16}$/.test(location.hash) ? location.hash.slice(1) : null);

  async function create() {
    const box = await createDialog();
    if (!box) return;
    location.hash = box.id;
  }

  function nothing() {
    const none = sandboxes.size === 0;
    return h(
      "div",
      { class: "empty" },
      h("h2", null, none ? "No sandboxes" : "No sandbox chosen"),
      h(
        "p",
        null,
        none
          ? "A sandbox is a container of its own with a workspace to run code in. It ends by itself when its time is over."
          : "Choose one from the list, or create another.",
      ),
      button("Create a sandbox", { icon: "add", kind: "primary", click: create }),
    );
  }

  function page(id) {
    if (!pages.has(id)) {
      pages.set(id, new BoxPage(id, { back }));
      // Those that are gone, or were looked at longest ago and have nothing running, give their memory back.
      for (const [old, p] of pages) {
        if (pages.size <= PAGES_KEPT) break;
        if (old === id || old === current || p.busy()) continue;
        p.close();
        pages.delete(old);
      }
    }
    const p = pages.get(id);
    pages.delete(id);
    pages.set(id, p);
    return p;
  }

  function back() {
    history.pushState(null, "", location.pathname);
    choose();
    list.focus();
  }

  function choose() {
    const id = wanted();
    current = id;
    element.classList.toggle("chosen", id !== null);
    list.choose(id);
    if (!id) {
      if (world.loaded) fill(place, nothing());
      else fill(place, h("div", { class: "empty" }, h("p", null, "Asking the server\u2026")));
      return;
    }
    if (!world.loaded) return;
    if (!sandboxes.has(id) && !pages.has(id)) {
      lost(id);
      return;
    }
    const p = page(id);
    if (place.firstChild !== p.element) fill(place, p.element);
    p.enter();
  }

  // A link to one that is not in the list: the server says why.
  async function lost(id) {
    let reason = "";
    try {
      await call("GET", `v1/sandboxes/${id}`, { query: { detail: true } });
      await refresh();
      return;
    } catch (error) {
      reason = words(error);
    }
    if (current === id)
      fill(
        place,
        h(
          "div",
          { class: "empty" },
          h("h2", null, "Not there"),
          h("p", null, reason),
          button("Back to the list", { click: back }),
        ),
      );
  }

  let known = -1;
  world.addEventListener(
    "sandboxes",
    () => {
      list.draw();
      if (current === null || !place.firstChild || place.firstChild.className === "empty") choose();
      if (known !== sandboxes.size)
        document.title = `${sandboxes.size ? `(${sandboxes.size}) ` : ""}Console \u00b7 agent-sandbox`;
      known = sandboxes.size;
    },
    { signal: life.signal },
  );
  world.addEventListener(
    "trouble",
    () => {
      banner.hidden = !world.trouble;
      if (world.trouble)
        fill(banner, h("span", null, words(world.trouble)), button("Try now", { click: () => refresh() }));
      element.classList.toggle("stale", Boolean(world.trouble));
    },
    { signal: life.signal },
  );

  return {
    element,
    enter() {
      addEventListener("hashchange", choose);
      addEventListener("popstate", choose);
      watch(true);
      list.draw();
      choose();
    },
    leave() {
      removeEventListener("hashchange", choose);
      removeEventListener("popstate", choose);
      watch(false);
    },
    end() {
      this.leave();
      life.abort();
      for (const p of pages.values()) p.close();
    },
  };
}
