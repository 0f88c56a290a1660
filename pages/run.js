// The dialog that runs one program in a sandbox of its own, of which nothing is left, and shows what it printed.
import { call } from "./api.js";
import { number, seconds, wayOut } from "./create.js";
import { field, formDialog, input } from "./dialog.js";
import { copyButton, duration, fill, h, say } from "./dom.js";
import { Screen } from "./screen.js";

const READ_OUT_MAX = 600;
const LANGUAGES = [
  ["python", "Python"],
  ["javascript", "JavaScript"],
];

// What came of the last run; nothing at first.
function outcome() {
  const element = h("div", { class: "ran" });
  return {
    element,
    show(result) {
      const screen = new Screen();
      screen.write("stdout", result.stdout);
      screen.write("stderr", result.stderr);
      screen.end();
      const ok = result.exit_code === 0;
      const text = [
        `exit ${result.exit_code}`,
        duration(result.duration_ms),
        result.oom_killed ? "out of memory" : null,
        result.truncated ? "there was more output than is kept" : null,
      ];
      const state = text.filter(Boolean).join(" \u00b7 ");
      const all = () => result.stdout + result.stderr;
      const head = h("header", null, h("span", { class: "state" }, state), copyButton(all, "Copy the output"));
      fill(element, h("article", { class: `block ${ok ? "good" : "bad"}`, "aria-label": "Result" }, head, screen.element));
      const out = all();
      say(out.length > 0 && out.length <= READ_OUT_MAX ? `Exit code ${result.exit_code}. ${out}` : state);
      element.scrollIntoView({ block: "nearest" });
    },
  };
}

function request(c) {
  const limits = {
    timeout_seconds: seconds(c.time.value, "Time limit"),
    memory_mb: number(c.memory, "Memory"),
  };
  const all = { code: c.code.value, language: c.language.value, limits, ...c.out.value() };
  return JSON.parse(JSON.stringify(all));
}

export function runDialog() {
  const c = {
    code: h("textarea", {
      name: "code",
      class: "mono",
      rows: 8,
      spellcheck: "false",
      autocomplete: "off",
      autofocus: true,
      placeholder: "print(6 * 7)",
    }),
    language: h(
      "select",
      { name: "language" },
      LANGUAGES.map(([value, text]) => h("option", { value }, text)),
    ),
    time: input("timeout", { placeholder: "default" }),
    memory: input("memory_mb", { inputmode: "decimal", placeholder: "default" }),
    out: wayOut(["default", "none", "list"]),
  };
  const result = outcome();
  return formDialog({
    title: "Run a program",
    kind: "run",
    fields: [
      field("Code", c.code, "In a sandbox of its own, of which nothing is left."),
      h(
        "div",
        { class: "quad" },
        field("Language", c.language),
        field("Time limit", c.time, "10, 5m"),
        field("Memory", c.memory, "MiB"),
      ),
      h("div", { class: "pair" }, c.out.fields),
      result.element,
    ],
    submit: "Run",
    busy: "Running\u2026",
    act: (form, signal) => call("POST", "v1/run", { json: request(c), signal }),
    shown: result.show,
  });
}
