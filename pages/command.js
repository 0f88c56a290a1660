// The command line of a sandbox: each command is a block with its output, and several may run at once.
import { Block } from "./block.js";
import { number } from "./create.js";
import { errorBox, field, input } from "./dialog.js";
import { button, fill, h, say, visible } from "./dom.js";

const BLOCKS_MAX = 60;
const LINES_MAX = 8000;
const HISTORY_MAX = 200;
const HOME = "/workspace";
const CD = /^\s*cd(?:\s+([^;&|<>`\n]+?))?\s*$/;
const HINT =
  "Enter runs, Shift+Enter makes a line, \u2191 \u2193 go through the history, Ctrl+C cancels, Ctrl+L clears.";

// What was typed before, and the unfinished line that it was left for.
class History {
  constructor() {
    this.lines = [];
    this.at = 0;
    this.draft = "";
  }

  add(line) {
    if (this.lines.at(-1) !== line) this.lines.push(line);
    if (this.lines.length > HISTORY_MAX) this.lines.shift();
    this.at = this.lines.length;
    this.draft = "";
  }

  // One further back or forth; null when there is none.
  step(by, current) {
    const to = this.at + by;
    if (to < 0 || to > this.lines.length) return null;
    if (this.at === this.lines.length) this.draft = current;
    this.at = to;
    return to === this.lines.length ? this.draft : this.lines[to];
  }
}

export class CommandLine {
  // ended(): a command has ended, and files may have changed.
  constructor(id, { ended }) {
    this.id = id;
    this.ended = ended;
    this.workdir = HOME;
    this.history = new History();
    this.blocks = [];
    this.sticks = true;
    this.makeWindow();
    this.makePrompt();
    this.element = h(
      "div",
      { class: "terminal" },
      h("div", { class: "window" }, this.scroller, this.latest),
      this.form,
    );
    this.showWhere();
  }

  makeWindow() {
    this.hint = h("p", { class: "hint" }, HINT);
    const about = { role: "log", "aria-live": "off", "aria-label": "Output of commands", tabIndex: 0 };
    this.scroller = h("div", { class: "scroll", ...about }, this.hint);
    this.latest = button("Newest output", {
      icon: "down",
      kind: "small latest",
      hidden: true,
      click: () => this.settle(),
    });
    this.scroller.addEventListener("scroll", () => {
      const { scrollHeight, scrollTop, clientHeight } = this.scroller;
      this.sticks = scrollHeight - scrollTop - clientHeight < 24;
      if (this.sticks) this.latest.hidden = true;
    });
    // Ctrl+C cancels here too, when nothing is marked that it would copy.
    this.scroller.addEventListener("keydown", (e) => {
      if (e.key === "c" && e.ctrlKey && getSelection().isCollapsed) this.cancel();
    });
  }

  makePrompt() {
    const quiet = { spellcheck: "false", autocomplete: "off", autocapitalize: "off" };
    this.where = h("span", { class: "where" });
    this.line = h("textarea", {
      rows: 1,
      "aria-label": "Command",
      placeholder: "command for /bin/sh",
      enterkeyhint: "go",
      ...quiet,
    });
    this.go = button("Run", { icon: "play", kind: "primary", type: "submit" });
    this.limit = input("timeout", { inputmode: "decimal", placeholder: "default" });
    this.folder = input("workdir", { placeholder: HOME });
    this.stdin = h("textarea", { name: "stdin", rows: 2, placeholder: "empty", ...quiet });
    this.trouble = h("div");
    const options = [
      field("Folder", this.folder, "cd changes it"),
      field("Time limit", this.limit, "seconds"),
      field("Standard input", this.stdin, "for the next command"),
    ];
    const label = h("label", null, this.where, h("span", { class: "mark", "aria-hidden": "true" }, "$"));
    this.form = h(
      "form",
      { class: "prompt", novalidate: true },
      this.trouble,
      h("div", { class: "entry" }, label, this.line, this.go),
      h("details", { class: "options" }, h("summary", null, "Options"), h("div", { class: "quad" }, options)),
    );
    this.line.addEventListener("input", () => this.fit());
    this.line.addEventListener("keydown", (e) => this.key(e));
    this.folder.addEventListener("change", () => this.changeTo(this.folder.value.trim()));
    this.form.addEventListener("submit", (e) => {
      e.preventDefault();
      this.submit();
      this.focus();
    });
  }

  key(e) {
    if (e.isComposing) return;
    const { value, selectionStart: from, selectionEnd: to } = this.line;
    const plain = !e.ctrlKey && !e.altKey && !e.metaKey && !e.shiftKey;
    if (e.key === "Enter" && plain) this.submit();
    else if (e.key === "ArrowUp" && plain && !value.slice(0, from).includes("\n")) this.recall(-1);
    else if (e.key === "ArrowDown" && plain && !value.slice(to).includes("\n")) this.recall(1);
    else if (e.key === "c" && e.ctrlKey && from === to) this.cancel();
    else if (e.key === "l" && e.ctrlKey) this.clear();
    else return;
    e.preventDefault();
  }

  showWhere() {
    fill(this.where, h("bdi", null, visible(this.workdir)));
    this.where.title = visible(this.workdir);
    this.folder.value = this.workdir === HOME ? "" : this.workdir;
  }

  changeTo(folder) {
    this.workdir = folder || HOME;
    this.showWhere();
  }

  // To the newest output, and along with it from now on.
  settle() {
    this.sticks = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.latest.hidden = true;
  }

  grew() {
    if (this.sticks) this.scroller.scrollTop = this.scroller.scrollHeight;
    else this.latest.hidden = false;
  }

  forget(block) {
    block.element.remove();
    this.blocks.splice(this.blocks.indexOf(block), 1);
  }

  // The oldest that have ended go when there are too many, or too much in them.
  trim() {
    let lines = this.blocks.reduce((n, b) => n + b.screen.count, 0);
    while (this.blocks.length > BLOCKS_MAX || (lines > LINES_MAX && this.blocks.length > 1)) {
      const old = this.blocks.find((b) => !b.running);
      if (!old) return;
      lines -= old.screen.count;
      this.forget(old);
    }
  }

  submit() {
    const command = this.line.value;
    if (command.trim() === "") return;
    fill(this.trouble);
    try {
      const fields = this.request(command);
      this.history.add(command);
      this.put("");
      this.execute(command, fields);
    } catch (error) {
      fill(this.trouble, errorBox(error));
    }
  }

  request(command) {
    const fields = { command };
    const seconds = number(this.limit, "Time limit");
    if (this.workdir !== HOME) fields.workdir = this.workdir;
    if (seconds !== undefined) fields.timeout_seconds = seconds;
    if (this.stdin.value !== "") fields.stdin = this.stdin.value;
    this.stdin.value = "";
    return fields;
  }

  async execute(command, fields) {
    // Each command is a process of its own: a lone cd is remembered here, for the next ones.
    const change = CD.exec(command);
    if (change) fields.command = `cd ${change[1] ?? ""} && pwd`;
    const again = () => {
      this.put(command);
      this.focus();
    };
    const block = new Block({ command, workdir: this.workdir, again, grew: () => this.grew() });
    this.hint.remove();
    this.trim();
    this.blocks.push(block);
    this.scroller.append(block.element);
    this.settle();
    const exit = await block.run(this.id, fields);
    if (change && exit?.exit_code === 0) this.changeTo(block.screen.read("stdout").split("\n").at(-1));
    // Without a result the sandbox may be no more: nothing to look at.
    if (exit || block.abort.signal.aborted) this.ended();
  }

  put(text) {
    this.line.value = text;
    this.fit();
  }

  fit() {
    this.line.rows = Math.min(8, this.line.value.split("\n").length);
  }

  recall(by) {
    const text = this.history.step(by, this.line.value);
    if (text === null) return;
    this.put(text);
    this.line.setSelectionRange(text.length, text.length);
  }

  clear() {
    for (const b of this.blocks.filter((one) => !one.running)) this.forget(b);
    say("Cleared");
  }

  // The newest command that runs; else what is typed.
  cancel() {
    const newest = this.blocks.findLast((b) => b.running);
    if (newest) newest.cancel();
    else this.put("");
  }

  focus() {
    this.line.focus();
  }

  enable(on) {
    this.line.disabled = this.go.disabled = !on;
  }

  busy() {
    return this.blocks.some((b) => b.running);
  }

  end() {
    for (const b of this.blocks) if (b.running) b.cancel();
  }
}
