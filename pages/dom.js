// Building elements and showing values. Everything becomes a text node: there is no way from here to markup.

const PLAIN = new Set([
  "value",
  "checked",
  "disabled",
  "hidden",
  "open",
  "selected",
  "readOnly",
  "tabIndex",
  "textContent",
  "className",
]);

// h("button", {class: "primary", type: "button", on: {click}}, "Run"): an element. Children may be nested arrays; null and false are left out.
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (PLAIN.has(name)) {
      element[name] = value;
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  return add(element, ...children);
}

export function add(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

export function fill(element, ...children) {
  element.replaceChildren();
  return add(element, ...children);
}

const SHAPES = {
  add: "M8 3v10M3 8h10",
  back: "M10 3 5 8l5 5",
  close: "m4 4 8 8M12 4l-8 8",
  copy: "M5.5 5.5h7v8h-7zM3.5 10.5v-8h7",
  dark: "M13 9.6A5.6 5.6 0 0 1 6.4 3 5.6 5.6 0 1 0 13 9.6z",
  light:
    "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6zM8 1.5v1.2M8 13.3v1.2M1.5 8h1.2M13.3 8h1.2M3.4 3.4l.9.9M11.7 11.7l.9.9M12.6 3.4l-.9.9M4.3 11.7l-.9.9",
  down: "M8 2.5v8M4.5 7.5 8 11l3.5-3.5M3 13.5h10",
  up: "M8 11V3M4.5 6.3 8 2.8l3.5 3.5M3 13.5h10",
  folder: "M1.5 12.5v-9h4l1.5 2h7.5v7z",
  file: "M3.5 1.5h6l3 3v10h-9zM9.5 1.5v3h3",
  link: "M9 3h4v4M13 3 7.5 8.5M11 9.5V13H3V5h3.5",
  other: "M8 2.5 13.5 8 8 13.5 2.5 8z",
  fork: "M4.5 2v12M4.5 9.5c0-3 7-1.5 7-5M11.5 4.5v-2M10 4l1.5-2L13 4",
  key: "M10.5 2.5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8.2 7.7 2.5 13.4M4.5 11.5l1.6 1.6",
  parent: "M8 13V4M4 7.5 8 3.5l4 4",
  redo: "M13 3.5V7H9.5M12.7 7A5 5 0 1 0 13 9.5",
  undo: "M3 3.5V7h3.5M3.3 7A5 5 0 1 1 3 9.5",
  stop: "M4.5 4.5h7v7h-7z",
  time: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 5v3.2l2.2 1.3",
  trash: "M2.5 4.5h11M6 4.5v-2h4v2M4 4.5l.7 9h6.6l.7-9",
  camera: "M1.5 5h3L6 3h4l1.5 2h3v8.5h-13zM8 6.8a2.2 2.2 0 1 0 0 4.4 2.2 2.2 0 0 0 0-4.4z",
  edit: "m3 13 .7-3L11 2.7 13.3 5 6 12.3z",
  play: "M5 3.2v9.6l7.5-4.8z",
  box: "M8 1.8 13.5 5v6L8 14.2 2.5 11V5zM2.5 5 8 8.2 13.5 5M8 8.2v6",
  more: "m4 6 4 4 4-4",
};

export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", SHAPES[name]);
  svg.append(path);
  return svg;
}

// A button with an icon. With `hide` the text is only for those who cannot see it, and for the tooltip.
export function button(text, { icon: shape, hide, kind = "", click, ...props } = {}) {
  const label = hide ? h("span", { class: "sr" }, text) : text === "" ? null : h("span", null, text);
  return h(
    "button",
    {
      type: "button",
      class: `${hide ? "bare" : ""} ${kind}`.trim(),
      title: hide ? text : null,
      on: click ? { click } : null,
      ...props,
    },
    shape ? icon(shape) : null,
    label,
  );
}

const called = (e) => [e.tagName, e.getAttribute("aria-label"), e.title, e.textContent].join("\n");

// The button or link in place that is called as one was that is no longer there: what it became when all was drawn anew.
export function successor(gone, place = document) {
  return [...place.querySelectorAll("button, a")].find((e) => called(e) === called(gone)) ?? null;
}

// Control and direction characters would hide or disguise a name: each becomes a mark that can be seen.
const HIDDEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

const mark = (c) => `\u2039U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u203a`;

// For names: all of it on one line, nothing hidden.
export function visible(text) {
  return String(text).replace(HIDDEN, mark);
}

// For texts: line ends and tabs stay what they are.
export function visibleText(text) {
  return String(text)
    .replace(/\r\n/g, "\n")
    .replace(HIDDEN, (c) => (c === "\n" || c === "\t" ? c : mark(c)));
}

export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  let n = bytes;
  let unit = "";
  for (unit of ["kB", "MB", "GB", "TB"]) {
    n /= 1000;
    if (n < 999.5) break;
  }
  return `${n < 9.95 ? n.toFixed(1) : Math.round(n)} ${unit}`;
}

export function memory(mb) {
  return mb >= 1024 && mb % 512 === 0 ? `${mb / 1024} GiB` : `${mb} MiB`;
}

// Seconds as 0:42, 12:05, 3 h 20 min, 2 d 4 h.
export function span(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 3600) return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")}`;
  if (s < 86400)
    return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
  return span(ms / 1000);
}

export function ago(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 5) return "just now";
  if (s < 60) return `${s} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ago`;
  return `${Math.floor(s / 86400)} d ago`;
}

const TWO = (n) => String(n).padStart(2, "0");

// A server's time in this browser's zone: 2026-11-29 14:05:09.
export function stamp(text) {
  const d = new Date(text);
  if (Number.isNaN(d.getTime())) return visible(text);
  return `${d.getFullYear()}-${TWO(d.getMonth() + 1)}-${TWO(d.getDate())} ${TWO(d.getHours())}:${TWO(d.getMinutes())}:${TWO(d.getSeconds())}`;
}

export function plural(n, word) {
  return `${String(n).replace(/\B(?=(\d{3})+$)/g, ",")} ${word}${n === 1 ? "" : "s"}`;
}

let said = null;

// Something for screen readers, when they have time for it.
export function say(text) {
  if (!said) {
    said = h("div", { class: "sr", role: "status", "aria-live": "polite", id: "said" });
    document.body.append(said);
  }
  said.textContent = "";
  setTimeout(() => (said.textContent = text), 50);
}

// The clipboard needs a secure context; without one the old way is the only one.
export async function copy(text, what = "Copied") {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { class: "sr", value: text, readOnly: true });
    (document.querySelector("dialog[open]") ?? document.body).append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say(what);
}

// A button that copies what text() gives, and says so for a moment.
export function copyButton(text, label = "Copy") {
  const b = button(label, { icon: "copy", hide: true });
  b.addEventListener("click", async () => {
    await copy(typeof text === "function" ? text() : text);
    b.classList.add("done");
    setTimeout(() => b.classList.remove("done"), 1200);
  });
  return b;
}

// Code in a box of its own, to scroll and to copy. content: text or elements; text: what is copied.
export function codeBox(content, text, label, props = {}) {
  return h(
    "div",
    { class: "code" },
    h("pre", { tabIndex: 0, role: "group", "aria-label": label, ...props }, content),
    copyButton(text, `Copy: ${label}`),
  );
}

let counter = 0;
export const newId = (prefix) => `${prefix}-${++counter}`;
