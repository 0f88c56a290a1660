// A program's output taken apart: text with its colours, line ends, carriage returns. Colours and styles (SGR) are understood,
// every other escape sequence is dropped, so that output can neither move, clear, retitle nor ask anything.

const PARAMS_MAX = 128;
const STRING_MAX = 4096;

export const PLAIN = Object.freeze({
  fg: null,
  bg: null,
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  strike: false,
  inverse: false,
});

// What is neither printable nor handled: C0 without \b \t \n \r, DEL, C1.
const STOP = /[\u0000-\u0008\u000a-\u001f\u007f-\u009f]/g;

const hex = (n) => n.toString(16).padStart(2, "0");

// Colours 16 to 255 of the usual palette: a cube of 6 x 6 x 6, then 24 greys.
function palette(n) {
  if (n < 16) return n;
  if (n > 231) return `#${hex(8 + (n - 232) * 10).repeat(3)}`;
  const level = (v) => hex(v === 0 ? 0 : 55 + v * 40);
  const c = n - 16;
  return `#${level(Math.floor(c / 36))}${level(Math.floor(c / 6) % 6)}${level(c % 6)}`;
}

const byte = (n) => Number.isInteger(n) && n >= 0 && n <= 255;

// The colour after 38 or 48: [colour or undefined, how many numbers it took].
function colour(numbers, at) {
  if (numbers[at] === 5) return [byte(numbers[at + 1]) ? palette(numbers[at + 1]) : undefined, 2];
  if (numbers[at] === 2) {
    const rgb = numbers.slice(at + 1, at + 4);
    return [rgb.length === 3 && rgb.every(byte) ? `#${rgb.map(hex).join("")}` : undefined, 4];
  }
  return [undefined, 1];
}

// The style after the parameters of an SGR sequence. Pure.
export function sgr(style, text) {
  const next = { ...style };
  const groups = text === "" ? ["0"] : text.split(";");
  const flat = [];
  for (const group of groups) {
    // 38:2::R:G:B, with or without the empty colour space, means 38;2;R;G;B; 4:0 is no underline.
    const parts = group.split(":").map((p) => (p === "" ? null : Number(p)));
    if (parts.length > 1 && (parts[0] === 38 || parts[0] === 48 || parts[0] === 58)) {
      flat.push(parts[0], parts[1], ...(parts[1] === 2 ? parts.slice(-3) : parts.slice(2, 3)));
    } else if (parts.length > 1) {
      flat.push(parts[0] === 4 && parts[1] === 0 ? 24 : parts[0]);
    } else {
      flat.push(parts[0] ?? 0);
    }
  }
  for (let i = 0; i < flat.length; i++) {
    const n = flat[i];
    if (n === 0) Object.assign(next, PLAIN);
    else if (n === 1) next.bold = true;
    else if (n === 2) next.dim = true;
    else if (n === 3) next.italic = true;
    else if (n === 4 || n === 21) next.underline = true;
    else if (n === 7) next.inverse = true;
    else if (n === 9) next.strike = true;
    else if (n === 22) next.bold = next.dim = false;
    else if (n === 23) next.italic = false;
    else if (n === 24) next.underline = false;
    else if (n === 27) next.inverse = false;
    else if (n === 29) next.strike = false;
    else if (n >= 30 && n <= 37) next.fg = n - 30;
    else if (n >= 90 && n <= 97) next.fg = n - 82;
    else if (n === 39) next.fg = null;
    else if (n >= 40 && n <= 47) next.bg = n - 40;
    else if (n >= 100 && n <= 107) next.bg = n - 92;
    else if (n === 49) next.bg = null;
    else if (n === 38 || n === 48 || n === 58) {
      const [value, took] = colour(flat, i + 1);
      if (value !== undefined && n !== 58) next[n === 38 ? "fg" : "bg"] = value;
      i += took;
    }
  }
  return Object.keys(PLAIN).every((k) => next[k] === PLAIN[k]) ? PLAIN : next;
}

// One stream's state. sink: text(string, style), newline(), carriage(), backspace().
export class Ansi {
  constructor(sink) {
    this.sink = sink;
    this.style = PLAIN;
    this.state = "ground";
    this.held = "";
    this.length = 0;
  }

  feed(text) {
    let at = 0;
    while (at < text.length) {
      if (this.state === "ground") at = this.ground(text, at);
      else at = this.escape(text, at);
    }
  }

  // Printable text up to the next control character, and that one.
  ground(text, at) {
    STOP.lastIndex = at;
    const found = STOP.exec(text);
    const end = found ? found.index : text.length;
    if (end > at) this.sink.text(text.slice(at, end), this.style);
    if (!found) return end;
    switch (text.charCodeAt(end)) {
      case 0x0a:
        this.sink.newline();
        break;
      case 0x0d:
        this.sink.carriage();
        break;
      case 0x08:
        this.sink.backspace();
        break;
      case 0x1b:
        this.state = "escape";
        break;
      case 0x9b:
        this.begin("csi");
        break;
      case 0x90:
      case 0x98:
      case 0x9d:
      case 0x9e:
      case 0x9f:
        this.begin("string");
        break;
      default:
        break;
    }
    return end + 1;
  }

  begin(state) {
    this.state = state;
    this.held = "";
    this.length = 0;
  }

  // One character within a sequence. A line end never belongs to one: whatever it hides, it hides no further.
  escape(text, at) {
    const code = text.charCodeAt(at);
    if (code === 0x0a || code === 0x18 || code === 0x1a) {
      this.state = "ground";
      return code === 0x0a ? at : at + 1;
    }
    if (this.state === "escape") this.afterEscape(code);
    else if (this.state === "csi") this.inCsi(code);
    else this.inString(code);
    return at + 1;
  }

  afterEscape(code) {
    if (code === 0x5b) this.begin("csi");
    else if (code === 0x5d || code === 0x50 || code === 0x58 || code === 0x5e || code === 0x5f)
      this.begin("string");
    else if (code < 0x20 || code > 0x2f) this.state = code === 0x1b ? "escape" : "ground";
  }

  inCsi(code) {
    if (code === 0x1b) {
      this.state = "escape";
    } else if (code >= 0x40 && code <= 0x7e) {
      if (code === 0x6d && /^[0-9;:]*$/.test(this.held)) this.style = sgr(this.style, this.held);
      this.state = "ground";
    } else if (code >= 0x20 && code < 0x40) {
      this.held += String.fromCharCode(code);
      if (this.held.length > PARAMS_MAX) this.state = "ground";
    }
  }

  inString(code) {
    if (code === 0x07 || code === 0x9c) this.state = "ground";
    else if (code === 0x1b) this.state = "escape";
    else if (++this.length > STRING_MAX) this.state = "ground";
  }
}

// The output as text alone.
export function strip(text) {
  let out = "";
  new Ansi({
    text: (s) => (out += s),
    newline: () => (out += "\n"),
    carriage: () => {},
    backspace: () => {},
  }).feed(text);
  return out;
}
