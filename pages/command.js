// The command line of a sandbox: each command is a block with its output as it comes, and several may run at once.
import { ndjson, request } from "./api.js";
import { number } from "./create.js";
import { errorBox, field, input } from "./dialog.js";
import { button, copyButton, duration, fill, h, newId, plural, say, visible, visibleText } from "./dom.js";
import { Screen } from "./screen.js";

const BLOCKS_MAX = 60;
const LINES_MAX = 8000;
const HISTORY_MAX = 200;
const READ_OUT_MAX = 600;
const CD = /^\s*cd(?:\s+([^;&|<>`\n]+?))?\s*$/;

function block(command, workdir, again) {
  const state = h("span", { class: "state" });
  const stop = button("Cancel", { icon: "stop", kind: "small" });
  const trouble = h("div");
  const screen = new Screen();
  const head = h(
    "header",
    null,
    h("code", null, h("span", { class: "where" }, visible(workdir)), h("span", { class: "mark" }, " $ "), visibleText(command)),
    state,
    stop,
    h("span", { class: "tools" }, copyButton(() => screen.read(), "Copy the output"), button("Put the command into the command line", { icon: "redo", hide: true, click: again })),
  );
  const element = h("article", { class: "block running", id: newId("command"), "aria-label": `Command ${visible(command.slice(0, 80))}` }, head, screen.element, trouble);
  return { element, state, stop, screen, trouble };
}

export function commandLine(id, { ended }) {
  const scroller = h("div", { class: "scroll", role: "log", "aria-live": "off", "aria-label": "Output of commands", tabIndex: 0 });
  const latest = button("Newest output", { icon: "down", kind: "small latest", hidden: true, click: () => toEnd() });
  const where = h("span", { class: "where" });
  const line = h("textarea", { rows: 1, "aria-label": "Command", placeholder: "command for /bin/sh", spellcheck: "false", autocomplete: "off", autocapitalize: "off", enterkeyhint: "go" });
  const run = button("Run", { icon: "play", kind: "primary", type: "submit" });
  const limit = input("timeout", { inputmode: "decimal", placeholder: "default" });
  const folder = input("workdir", { placeholder: "/workspace" });
  const stdin = h("textarea", { name: "stdin", rows: 2, placeholder: "empty", spellcheck: "false", autocomplete: "off" });
  const trouble = h("div");
  const options = h(
    "details",
    { class: "options" },
    h("summary", null, "Options"),
    h("div", { class: "quad" }, field("Folder", folder, "cd changes it"), field("Time limit", limit, "seconds"), field("Standard input", stdin, "for the next command")),
  );
  const form = h("form", { class: "prompt", novalidate: true }, trouble, h("div", { class: "entry" }, h("label", null, where, h("span", { class: "mark", "aria-hidden": "true" }, "$")), line, run), options);
  const hint = h("p", { class: "hint" }, "Enter runs, Shift+Enter makes a line, \u2191 \u2193 go through the history, Ctrl+C cancels, Ctrl+L clears.");
  const element = h("div", { class: "terminal" }, h("div", { class: "window" }, scroller, latest), form);
  scroller.append(hint);

  let workdir = "/workspace";
  let sticks = true;
  const history = [];
  let at = 0;
  let draft = "";
  const blocks = [];
  const running = new Set();

  function showWhere() {
    fill(where, h("bdi", null, visible(workdir)));
    where.title = workdir;
    folder.value = workdir === "/workspace" ? "" : workdir;
  }

  function toEnd() {
    sticks = true;
    scroller.scrollTop = scroller.scrollHeight;
    latest.hidden = true;
  }

  scroller.addEventListener("scroll", () => {
    sticks = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 24;
    if (sticks) latest.hidden = true;
  });

  function grew() {
    if (sticks) scroller.scrollTop = scroller.scrollHeight;
    else latest.hidden = false;
  }

  function trim() {
    let lines = blocks.reduce((n, b) => n + b.screen.count, 0);
    while (blocks.length > BLOCKS_MAX || (lines > LINES_MAX && blocks.length > 1)) {
      const old = blocks.find((b) => !running.has(b));
      if (!old || old === blocks.at(-1)) return;
      lines -= old.screen.count;
      old.element.remove();
      blocks.splice(blocks.indexOf(old), 1);
    }
  }

  function finish(b, kind, text, spoken) {
    running.delete(b);
    b.screen.end();
    b.element.className = `block ${kind}`;
    b.stop.remove();
    fill(b.state, text);
    const out = b.screen.read();
    say(out.length > 0 && out.length <= READ_OUT_MAX ? `${spoken}. ${out}` : spoken);
    grew();
  }

  function exited(b, event) {
    const code = event.exit_code;
    const took = duration(event.duration_ms);
    if (event.timed_out) finish(b, "bad", `timed out after ${took}`, `Timed out after ${took}`);
    else finish(b, code === 0 ? "good" : "bad", `exit ${code} \u00b7 ${took}`, `Exit code ${code}, ${plural(b.screen.count, "line")}`);
  }

  async function execute(command) {
    const fields = { command };
    if (workdir !== "/workspace") fields.workdir = workdir;
    const seconds = number(limit, "Time limit");
    if (seconds !== undefined) fields.timeout_seconds = seconds;
    if (stdin.value !== "") fields.stdin = stdin.value;
    stdin.value = "";
    const change = CD.exec(command);
    if (change) fields.command = `cd ${change[1] ?? ""} && pwd`;

    const b = block(command, workdir, () => {
      line.value = command;
      fit();
      line.focus();
    });
    const abort = new AbortController();
    b.abort = abort;
    const began = performance.now();
    const clock = setInterval(() => fill(b.state, h("span", { class: "spin", "aria-hidden": "true" }), duration(performance.now() - began)), 250);
    b.screen.changed = grew;
    b.stop.addEventListener("click", () => abort.abort());
    blocks.push(b);
    running.add(b);
    hint.remove();
    scroller.append(b.element);
    trim();
    toEnd();
    let last = null;
    try {
      const response = await request("POST", `v1/sandboxes/${id}/exec/stream`, { json: fields, signal: abort.signal });
      for await (const event of ndjson(response)) {
        last = event;
        if (event.type === "stdout" || event.type === "stderr") b.screen.write(event.type, event.data);
      }
      if (last?.type === "exit") {
        exited(b, last);
      } else {
        const reason = last?.type === "error" ? last.data : "The connection was cut before the command ended: its result is not known.";
        fill(b.trouble, errorBox(new Error(reason)));
        finish(b, "bad", "no result", "No result");
      }
    } catch (error) {
      if (abort.signal.aborted) {
        finish(b, "bad", `cancelled after ${duration(performance.now() - began)}`, "Cancelled");
      } else {
        fill(b.trouble, errorBox(error.status === undefined ? new Error("The connection was cut before the command ended: its result is not known.") : error));
        finish(b, "bad", "no result", "The command failed");
      }
    } finally {
      clearInterval(clock);
    }
    if (change && last?.type === "exit" && last.exit_code === 0) {
      workdir = b.screen.read("stdout").split("\n").at(-1) || workdir;
      showWhere();
    }
    // Without a result the sandbox may be no more: nothing to look at.
    if (last?.type === "exit" || abort.signal.aborted) ended();
  }

  function submit() {
    const command = line.value;
    if (command.trim() === "") return;
    fill(trouble);
    if (history.at(-1) !== command) history.push(command);
    if (history.length > HISTORY_MAX) history.shift();
    at = history.length;
    draft = "";
    execute(command).catch((error) => fill(trouble, errorBox(error)));
    line.value = "";
    fit();
  }

  function fit() {
    line.rows = Math.min(8, line.value.split("\n").length);
  }

  function recall(step) {
    const to = at + step;
    if (to < 0 || to > history.length) return;
    if (at === history.length) draft = line.value;
    at = to;
    line.value = at === history.length ? draft : history[at];
    fit();
    line.setSelectionRange(line.value.length, line.value.length);
  }

  const onFirstLine = () => !line.value.slice(0, line.selectionStart).includes("\n");
  const onLastLine = () => !line.value.slice(line.selectionEnd).includes("\n");

  function clear() {
    for (const b of [...blocks]) {
      if (running.has(b)) continue;
      b.element.remove();
      blocks.splice(blocks.indexOf(b), 1);
    }
    say("Cleared");
  }

  line.addEventListener("input", fit);
  line.addEventListener("keydown", (e) => {
    if (e.isComposing) return;
    const plain = !e.ctrlKey && !e.altKey && !e.metaKey;
    if (e.key === "Enter" && !e.shiftKey && plain) submit();
    else if (e.key === "ArrowUp" && plain && !e.shiftKey && onFirstLine()) recall(-1);
    else if (e.key === "ArrowDown" && plain && !e.shiftKey && onLastLine()) recall(1);
    else if (e.key === "c" && e.ctrlKey && line.selectionStart === line.selectionEnd) cancel();
    else if (e.key === "l" && e.ctrlKey) clear();
    else return;
    e.preventDefault();
  });
  // Ctrl+C on the output too, when nothing is marked there to be copied.
  scroller.addEventListener("keydown", (e) => {
    if (e.key === "c" && e.ctrlKey && getSelection().isCollapsed) cancel();
  });
  function cancel() {
    const newest = [...running].at(-1);
    if (newest) newest.abort.abort();
    else if (line.value) {
      line.value = "";
      fit();
    }
  }

  folder.addEventListener("change", () => {
    workdir = folder.value.trim() || "/workspace";
    showWhere();
  });
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    submit();
    line.focus();
  });
  showWhere();

  return {
    element,
    focus: () => line.focus(),
    settle: toEnd,
    enable(on) {
      line.disabled = run.disabled = !on;
    },
    busy: () => running.size > 0,
    running: () => running.size,
    end() {
      for (const b of running) b.abort.abort();
    },
  };
}
