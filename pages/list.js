// The list of sandboxes: kept in step with the server, one row each, the time left counting down.
import { now } from "./api.js";
import { button, fill, h, memory, plural, span, visible } from "./dom.js";
import { sandboxes } from "./world.js";

const ROWS = 200;
const FILTER_FROM = 6;

export const left = (box) => (Date.parse(box.expires_at) - now()) / 1000;

export const urgency = (seconds) => (seconds < 60 ? "bad" : seconds < 300 ? "warn" : "");

export const short = (id) => id.replace(/^(sb|snap)_(.{6}).*$/, "$1_$2\u2026");

// What a person calls it: its label "name", else its id.
export const nameOf = (box) => visible(box.labels?.name || box.id);

// What it reaches, in a word; "" for nothing.
export function reach(box) {
  const n = box.egress_allowlist?.length ?? 0;
  if (n > 0) return plural(n, "host");
  return box.network ? "network" : "";
}

function matches(box, text) {
  if (text === "") return true;
  const labels = Object.entries(box.labels ?? {}).map(([k, v]) => `${k}=${v}`);
  return [box.id, box.image, box.status, ...labels].some((s) => s.toLowerCase().includes(text));
}

function row(id) {
  const dot = h("span", { class: "dot" });
  const name = h("span", { class: "name" });
  const time = h("span", { class: "time" });
  const facts = h("span", { class: "facts" });
  const bar = h("span", { class: "bar", "aria-hidden": "true" }, h("i"));
  const link = h("a", { href: `#${id}` }, dot, name, time, facts, bar);
  const element = h("li", null, link);
  let drawn = null;
  let second = null;
  return {
    element,
    link,
    draw(box) {
      if (drawn !== box) {
        drawn = box;
        second = null;
        const parts = [visible(box.image), reach(box), `${box.cpus} CPU`, memory(box.memory_mb)];
        if (!box.read_only_rootfs) parts.push("writable root");
        fill(facts, parts.filter(Boolean).join(" \u00b7 "));
        fill(name, nameOf(box), box.labels?.name ? h("small", { class: "mono" }, ` ${short(box.id)}`) : null);
        name.className = box.labels?.name ? "name" : "name mono";
        dot.className = `dot ${box.status}`;
        link.title = box.labels?.name ? box.id : "";
        fill(dot, h("span", { class: "sr" }, `${box.status} `));
      }
      const seconds = left(box);
      const rounded = Math.floor(seconds);
      if (rounded === second) return;
      second = rounded;
      time.textContent = seconds > 0 ? span(seconds) : "ending";
      time.className = `time ${urgency(seconds)}`;
      const whole = (Date.parse(box.expires_at) - Date.parse(box.created_at)) / 1000;
      bar.className = `bar ${urgency(seconds)}`;
      bar.firstChild.style.width = `${Math.max(0, Math.min(100, (100 * seconds) / whole)).toFixed(1)}%`;
    },
  };
}

export class SandboxList {
  // create(), run(): asked for another one, or for a run. signal: the list is no longer needed.
  constructor({ create, run, signal }) {
    this.rows = new Map();
    this.limit = ROWS;
    this.chosen = null;
    this.shown = [];
    this.list = h("ul", { class: "rows", "aria-label": "Sandboxes", on: { keydown: (e) => this.key(e) } });
    this.count = h("span", { class: "count" });
    this.more = button("Show more", {
      kind: "wide",
      hidden: true,
      click: () => this.showUpTo(this.limit + ROWS),
    });
    this.empty = h("p", { class: "none", hidden: true });
    this.filter = h("input", {
      type: "search",
      placeholder: "Filter by id, image, label",
      "aria-label": "Filter sandboxes",
      autocomplete: "off",
      spellcheck: "false",
      on: { input: () => this.showUpTo(ROWS) },
    });
    const add = button("Create", { icon: "add", kind: "primary", click: create });
    const once = button("Run a program", { icon: "play", hide: true, click: run });
    const head = h("header", null, h("h2", null, "Sandboxes ", this.count), once, add);
    const parts = [head, this.filter, this.empty, this.list, this.more];
    this.element = h("section", { class: "list", "aria-label": "Sandboxes" }, parts);
    const clock = setInterval(() => this.tick(), 1000);
    signal.addEventListener("abort", () => clearInterval(clock));
  }

  showUpTo(limit) {
    this.limit = limit;
    this.draw();
  }

  draw() {
    const text = this.filter.value.trim().toLowerCase();
    const found = [...sandboxes.values()].filter((b) => matches(b, text)).reverse();
    this.shown = found.slice(0, this.limit);
    this.count.textContent = text ? `${found.length} of ${sandboxes.size}` : String(sandboxes.size);
    this.more.hidden = found.length <= this.limit;
    this.place();
    this.mark();
    this.filter.hidden = sandboxes.size < FILTER_FROM && text === "";
    this.empty.textContent = text ? "None matches." : "None yet.";
    this.empty.hidden = found.length > 0;
  }

  // Rows are moved, not made anew: the focus stays where it is.
  place() {
    const keep = new Set(this.shown.map((b) => b.id));
    for (const [id, r] of this.rows) {
      if (keep.has(id)) continue;
      r.element.remove();
      this.rows.delete(id);
    }
    let before = null;
    for (const box of this.shown) {
      if (!this.rows.has(box.id)) this.rows.set(box.id, row(box.id));
      const r = this.rows.get(box.id);
      const at = before ? before.nextSibling : this.list.firstChild;
      if (at !== r.element) this.list.insertBefore(r.element, at);
      before = r.element;
      r.draw(box);
    }
  }

  mark() {
    for (const [id, r] of this.rows) {
      if (id === this.chosen) r.link.setAttribute("aria-current", "true");
      else r.link.removeAttribute("aria-current");
    }
  }

  tick() {
    if (!this.element.isConnected || document.hidden) return;
    for (const { id } of this.shown) if (sandboxes.has(id)) this.rows.get(id)?.draw(sandboxes.get(id));
  }

  // Arrow keys go from row to row.
  key(e) {
    if (e.key !== "ArrowDown" && e.key !== "ArrowUp") return;
    const item = e.target.closest("li");
    const next = e.key === "ArrowDown" ? item?.nextSibling : item?.previousSibling;
    if (!next) return;
    e.preventDefault();
    next.firstChild.focus();
  }

  choose(id) {
    this.chosen = id;
    this.mark();
    this.rows.get(id)?.element.scrollIntoView({ block: "nearest" });
  }

  focus() {
    (this.list.querySelector("a") ?? this.element.querySelector("button")).focus();
  }
}
