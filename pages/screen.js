// The output of one command on the page: lines of coloured text, the newest kept, the number of elements bounded.
import { Ansi } from "./ansi.js";
import { h, size } from "./dom.js";

export const LINES_MAX = 2000;
const CHARS_MAX = 1 << 20;
const LINE_CHARS_MAX = 32768;
const PAUSE_MS = 30;
const PAUSE_MAX_MS = 1000;

const DARK = new Set([0, 1, 4, 5, 8]);

// What can be read on this ground when the program did not say.
function onGround(bg) {
  if (bg === "ink") return "page";
  if (typeof bg === "number") return DARK.has(bg) ? 15 : 0;
  // The one of black and white that stands out more: relative luminance against the point where both are equal.
  const [r, g, b] = [1, 3, 5].map((at) => (parseInt(bg.slice(at, at + 2), 16) / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b < 0.179 ? "white" : "black";
}

// An element for a piece of text in one style: classes for the 16 colours, a custom property for others.
function piece(text, style) {
  if (
    style.fg === null &&
    style.bg === null &&
    !style.bold &&
    !style.dim &&
    !style.italic &&
    !style.underline &&
    !style.strike &&
    !style.inverse
  ) {
    return document.createTextNode(text);
  }
  const span = document.createElement("span");
  const names = [];
  for (const name of ["bold", "dim", "italic", "underline", "strike"]) if (style[name]) names.push(name);
  let { fg, bg } = style;
  if (style.inverse) [fg, bg] = [bg, fg ?? "ink"];
  if (bg !== null) {
    names.push("on");
    fg ??= onGround(bg);
  }
  for (const [kind, value] of [
    ["fg", fg],
    ["bg", bg],
  ]) {
    if (value === null) continue;
    if (typeof value === "string" && value.startsWith("#")) {
      names.push(`${kind}-any`);
      span.style.setProperty(`--${kind}`, value);
    } else {
      names.push(`${kind}-${value}`);
    }
  }
  span.className = names.join(" ");
  span.textContent = text;
  return span;
}

export class Screen {
  // changed() is called after each change of what is shown.
  constructor(changed = () => {}) {
    this.element = h("div", { class: "screen" });
    this.changed = changed;
    this.pending = [];
    this.pendingChars = 0;
    this.timer = null;
    this.pause = PAUSE_MS;
    this.left = 0;
    this.total = { stdout: 0, stderr: 0 };
    this.lines = [];
    this.chars = 0;
    this.open = null;
    this.parsers = {};
    for (const stream of ["stdout", "stderr"]) {
      this.parsers[stream] = new Ansi({
        text: (s, style) => this.text(stream, s, style),
        newline: () => this.newline(stream),
        carriage: () => this.carriage(stream),
        backspace: () => this.backspace(stream),
      });
    }
  }

  write(stream, text) {
    this.total[stream] += text.length;
    this.pending.push({ stream, text });
    this.pendingChars += text.length;
    while (this.pendingChars - this.pending[0].text.length > CHARS_MAX) {
      const dropped = this.pending.shift();
      this.pendingChars -= dropped.text.length;
      this.left += dropped.text.length;
    }
    if (this.timer === null) this.timer = setTimeout(() => this.flush(), this.pause);
  }

  // Takes what has come since the last time, and shows it.
  flush() {
    const began = performance.now();
    clearTimeout(this.timer);
    this.timer = null;
    const work = this.pending;
    this.pending = [];
    this.pendingChars = 0;
    this.cutToLines(work);
    this.fresh = [];
    for (const { stream, text } of work) this.parsers[stream].feed(text);
    this.show();
    this.changed();
    // Showing takes at most a quarter of the time, whatever comes in.
    this.pause = Math.min(PAUSE_MAX_MS, Math.max(PAUSE_MS, 3 * (performance.now() - began)));
  }

  // More lines at once than can be kept: those that would go at once are not even made.
  cutToLines(work) {
    let lines = 0;
    for (let i = work.length - 1; i >= 0; i--) {
      const { text } = work[i];
      let at = text.length;
      while (lines <= LINES_MAX && at > 0) {
        at = text.lastIndexOf("\n", at - 1);
        if (at < 0) break;
        lines++;
      }
      if (lines > LINES_MAX) {
        work[i].text = text.slice(at + 1);
        this.left += at + 1;
        for (const { text: t } of work.splice(0, i)) this.left += t.length;
        return;
      }
    }
  }

  line(stream) {
    if (this.open && (this.open.stream !== stream || this.open.chars > LINE_CHARS_MAX)) this.open = null;
    if (!this.open) {
      this.open = { stream, pieces: [], chars: 0, restart: false, element: null };
      this.fresh.push(this.open);
    }
    return this.open;
  }

  text(stream, s, style) {
    for (let at = 0; at < s.length; at += LINE_CHARS_MAX) {
      const part = s.length > LINE_CHARS_MAX ? s.slice(at, at + LINE_CHARS_MAX) : s;
      const line = this.line(stream);
      if (line.restart) Object.assign(line, { pieces: [], chars: 0, restart: false });
      const last = line.pieces.at(-1);
      if (last && last.style === style) last.text += part;
      else line.pieces.push({ text: part, style });
      line.chars += part.length;
      line.dirty = true;
    }
  }

  newline(stream) {
    this.line(stream).dirty = true;
    this.open = null;
  }

  // The next text begins the line anew; a line end that follows leaves it as it is.
  carriage(stream) {
    if (this.open && this.open.stream === stream) this.open.restart = true;
  }

  backspace(stream) {
    const line = this.open;
    const last = line && line.stream === stream ? line.pieces.at(-1) : null;
    if (!last) return;
    last.text = last.text.slice(0, -1);
    line.chars--;
    line.dirty = true;
    if (last.text === "") line.pieces.pop();
  }

  draw(line) {
    line.dirty = false;
    if (!line.element) line.element = document.createElement("div");
    const pieces = line.pieces.map((p) => piece(p.text, p.style));
    const first =
      line.stream === "stderr" && !line.follows ? [h("span", { class: "sr mute" }, "stderr: ")] : [];
    line.element.className = line.stream === "stderr" ? "err" : "out";
    line.element.replaceChildren(...first, ...pieces, "\n");
  }

  show() {
    const touched = this.lines.length > 0 && this.lines.at(-1).dirty ? [this.lines.at(-1)] : [];
    for (const line of touched) this.draw(line);
    const drop = Math.max(0, this.fresh.length - LINES_MAX);
    if (drop > 0) this.forget();
    for (const line of this.fresh.slice(0, drop)) this.left += line.chars + 1;
    const box = document.createDocumentFragment();
    for (const line of this.fresh.slice(drop)) {
      line.follows = this.lines.at(-1)?.stream === line.stream;
      this.draw(line);
      this.lines.push(line);
      box.append(line.element);
    }
    this.fresh = [];
    this.element.append(box);
    this.trim();
  }

  // All lines that are shown make room at once: quicker than one by one.
  forget() {
    for (const line of this.lines) this.left += line.chars + 1;
    this.lines = [];
    this.element.replaceChildren();
    this.note = null;
  }

  trim() {
    let chars = 0;
    let keep = 0;
    while (keep < Math.min(this.lines.length, LINES_MAX)) {
      chars += this.lines.at(-1 - keep).chars + 1;
      if (chars > CHARS_MAX && keep > 0) break;
      keep++;
    }
    for (const line of this.lines.splice(0, this.lines.length - keep)) {
      this.left += line.chars + 1;
      line.element.remove();
    }
    if (this.left === 0) return;
    if (!this.note) {
      this.note = h("div", { class: "cut" });
      this.element.prepend(this.note);
    }
    this.note.textContent = `${size(this.left)} of earlier output no longer shown`;
  }

  end() {
    this.flush();
  }

  get count() {
    return this.lines.length;
  }

  // What is shown, without colours; one stream only if asked.
  read(stream) {
    return this.lines
      .filter((l) => !stream || l.stream === stream)
      .map((l) => l.pieces.map((p) => p.text).join(""))
      .join("\n");
  }
}
