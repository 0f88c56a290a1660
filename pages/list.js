// The list of sandboxes: kept in step with the server, one row each, the time left counting down.
import { now } from "./api.js";
import { button, fill, h, memory, span, visible } from "./dom.js";
import { sandboxes } from "./world.js";

const ROWS = 200;

export const left = (box) => (Date.parse(box.expires_at) - now()) / 1000;

export const urgency = (seconds) => (seconds < 60 ? "bad" : seconds < 300 ? "warn" : "");

export const short = (id) => id.replace(/^(sb|snap)_(.{6}).*$/, "$1_$2\u2026");

// What a person calls it: its label "name", else its id.
export const nameOf = (box) => visible(box.labels?.name || box.id);

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
        const parts = [visible(box.image), `${box.cpus} CPU`, memory(box.memory_mb)];
        if (box.network) parts.push("network");
        if (!box.read_only_rootfs) parts.push("writable root");
        fill(facts, parts.join(" \u00b7 "));
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

export function sandboxList({ create, signal }) {
  const rows = new Map();
  const list = h("ul", { class: "rows", "aria-label": "Sandboxes" });
  const count = h("span", { class: "count" });
  const filter = h("input", {
    type: "search",
    placeholder: "Filter by id, image, label",
    "aria-label": "Filter sandboxes",
    autocomplete: "off",
    spellcheck: "false",
  });
  const more = button("Show more", { kind: "wide", hidden: true });
  const empty = h("p", { class: "none", hidden: true });
  const element = h(
    "section",
    { class: "list", "aria-label": "Sandboxes" },
    h(
      "header",
      null,
      h("h2", null, "Sandboxes ", count),
      button("Create", { icon: "add", kind: "primary", click: create }),
    ),
    filter,
    empty,
    list,
    more,
  );
  let limit = ROWS;
  let chosen = null;
  let shown = [];

  function draw() {
    const text = filter.value.trim().toLowerCase();
    const found = [...sandboxes.values()].filter((b) => matches(b, text)).reverse();
    shown = found.slice(0, limit);
    count.textContent = text ? `${found.length} of ${sandboxes.size}` : String(sandboxes.size);
    more.hidden = found.length <= limit;
    const keep = new Set(shown.map((b) => b.id));
    for (const [id, r] of rows) {
      if (keep.has(id)) continue;
      r.element.remove();
      rows.delete(id);
    }
    let before = null;
    for (const box of shown) {
      if (!rows.has(box.id)) rows.set(box.id, row(box.id));
      const r = rows.get(box.id);
      const at = before ? before.nextSibling : list.firstChild;
      if (at !== r.element) list.insertBefore(r.element, at);
      before = r.element;
      r.draw(box);
    }
    mark();
    filter.hidden = sandboxes.size < 6 && text === "";
    empty.textContent = text ? "None matches." : "None yet.";
    empty.hidden = found.length > 0;
  }

  function mark() {
    for (const [id, r] of rows) {
      if (id === chosen) r.link.setAttribute("aria-current", "true");
      else r.link.removeAttribute("aria-current");
    }
  }

  filter.addEventListener("input", () => {
    limit = ROWS;
    draw();
  });
  more.addEventListener("click", () => {
    limit += ROWS;
    draw();
  });
  // Arrow keys go from row to row.
  list.addEventListener("keydown", (e) => {
    if (e.key !== "ArrowDown" && e.key !== "ArrowUp") return;
    const li = e.target.closest("li");
    const next = e.key === "ArrowDown" ? li?.nextSibling : li?.previousSibling;
    if (!next) return;
    e.preventDefault();
    next.firstChild.focus();
  });
  const clock = setInterval(() => {
    if (!element.isConnected || document.hidden) return;
    for (const box of shown) if (sandboxes.has(box.id)) rows.get(box.id)?.draw(sandboxes.get(box.id));
  }, 1000);
  signal.addEventListener("abort", () => clearInterval(clock));

  return {
    element,
    draw,
    choose(id) {
      chosen = id;
      mark();
      rows.get(id)?.element.scrollIntoView({ block: "nearest" });
    },
    focus() {
      (list.querySelector("a") ?? element.querySelector("button")).focus();
    },
  };
}
