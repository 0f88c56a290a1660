// "Try it": a form for one operation; what it sends, and the answer as it comes.
import { hasKey, send } from "./api.js";
import { showAnswer } from "./answer.js";
import { errorBox, field } from "./dialog.js";
import { button, duration, fill, h, newId, say } from "./dom.js";
import { exampleOf, flat, resolve } from "./schema.js";
import { saveName } from "./transfer.js";

const ROWS_MAX = 10;

const types = (s) => [s.type ?? []].flat();

// Ids that answers brought, offered in the fields that take them.
export function knownIds() {
  const sets = { sandbox_id: new Set(), snapshot_id: new Set() };
  const lists = {};
  const heard = new EventTarget();
  const element = h("div", { hidden: true });
  for (const name of Object.keys(sets)) {
    lists[name] = h("datalist", { id: newId(`known-${name}`) });
    element.append(lists[name]);
  }
  return {
    element,
    heard,
    listFor: (name) => lists[name]?.id ?? null,
    latest: (name) => [...(sets[name] ?? [])].at(-1) ?? "",
    learn(text) {
      for (const [name, pattern] of [
        ["sandbox_id", /"sb_[0-9a-f]{16}"/g],
        ["snapshot_id", /"snap_[0-9a-f]{16}"/g],
      ]) {
        for (const [found] of [...text.matchAll(pattern)].slice(-50)) sets[name].add(found.slice(1, -1));
        fill(
          lists[name],
          [...sets[name]].map((v) => h("option", { value: v })),
        );
      }
      heard.dispatchEvent(new Event("ids"));
    },
  };
}

function control(doc, p, known) {
  const s = flat(doc, p.schema ?? {});
  const example = exampleOf(doc, p);
  const values = types(s).includes("boolean") ? ["true", "false"] : s.enum;
  const label = `${p.name}${p.required ? " *" : ""}`;
  if (values) {
    const box = h(
      "select",
      { name: p.name },
      h("option", { value: "" }, p.required ? "choose" : "not sent"),
      values.map((v) => h("option", { value: v }, String(v))),
    );
    return [box, field(label, box, p.in)];
  }
  const list = known.listFor(p.name);
  const box = h("input", {
    type: "text",
    name: p.name,
    autocomplete: "off",
    spellcheck: "false",
    list,
    placeholder: example === undefined || example === "" ? "" : String(example),
  });
  return [box, field(label, box, p.in)];
}

function choice(name, values) {
  return h(
    "select",
    { name },
    values.map((v) => h("option", { value: v }, v)),
  );
}

// The error of an attempt in words.
function failure(error, took) {
  if (error.name === "AbortError") return new Error(`Cancelled after ${took}.`);
  return error.status === undefined ? new Error("The answer was cut off.") : error;
}

export class TryIt {
  // draft: the request that the form fills in.
  constructor(doc, op, draft, { known, askKey }) {
    Object.assign(this, { doc, op, draft, known, askKey });
    this.boxes = new Map();
    this.go = button("Send", { kind: "primary", type: "submit", icon: "play" });
    this.stop = button("Cancel", { icon: "stop", hidden: true, click: () => this.abort.abort() });
    this.answer = h("div", { class: "result", "aria-live": "off" });
    const params = op.params.map((p) => this.param(p));
    const form = h(
      "form",
      { novalidate: true },
      params.length ? h("div", { class: "params" }, params) : null,
      op.body ? this.body() : null,
      h("div", { class: "send" }, this.go, this.stop),
      this.answer,
    );
    this.element = h("details", { class: "try" }, h("summary", null, "Try it"), form);
    form.addEventListener("submit", (e) => {
      e.preventDefault();
      this.submit();
    });
    known.heard.addEventListener("ids", () => this.offer());
    this.element.addEventListener("toggle", () => this.offer());
  }

  param(p) {
    const [box, labelled] = control(this.doc, p, this.known);
    this.boxes.set(`${p.in} ${p.name}`, box);
    box.addEventListener("input", () => this.draft.set(p, box.value));
    return labelled;
  }

  body() {
    const { draft, op } = this;
    const quiet = { spellcheck: "false", autocomplete: "off" };
    this.area = h("textarea", { name: "body", ...quiet });
    this.area.addEventListener("input", () => {
      draft.text = this.area.value;
      draft.changed();
    });
    this.put(draft.text);
    const file = h("input", { type: "file", name: "file" });
    file.addEventListener("change", () => {
      draft.file = file.files[0] ?? null;
      draft.changed();
    });
    const text = field("Body (JSON)", this.area, op.body.required ? null : "may be left empty");
    const bytes = field("Body (bytes of a file)", file);
    const kind = choice("type", draft.kinds);
    const show = () => {
      draft.type = kind.value || draft.type;
      text.hidden = draft.raw();
      bytes.hidden = !draft.raw();
      draft.changed();
    };
    kind.addEventListener("change", show);
    show();
    return [this.examples(), draft.kinds.length > 1 ? field("Type of the body", kind) : null, text, bytes];
  }

  put(text) {
    this.area.value = this.draft.text = text;
    this.area.rows = Math.min(ROWS_MAX, text.split("\n").length + 1);
    this.draft.changed();
  }

  examples() {
    const named = this.op.body.content[this.draft.kinds[0]]?.examples ?? {};
    if (Object.keys(named).length < 2) return null;
    const box = choice("example", Object.keys(named));
    box.addEventListener("change", () => {
      const { value } = resolve(this.doc, named[box.value]);
      this.put(typeof value === "string" ? value : JSON.stringify(value, null, 2));
    });
    return field("Example", box);
  }

  // Ids that other answers brought go where one is still missing.
  offer() {
    if (!this.element.open) return;
    for (const name of ["sandbox_id", "snapshot_id"]) {
      const box = this.boxes.get(`path ${name}`);
      if (!box || box.value !== "") continue;
      box.value = this.known.latest(name);
      this.draft.set({ in: "path", name }, box.value);
    }
  }

  async submit() {
    const missing = this.draft.missing();
    if (missing) {
      fill(this.answer, errorBox(new Error(`${missing.name} is part of the path: it must be filled in.`)));
      this.boxes.get(`path ${missing.name}`).focus();
      return;
    }
    if (this.op.secured && !hasKey() && !(await this.askKey())) return;
    this.abort = new AbortController();
    this.stop.hidden = false;
    this.go.disabled = true;
    const waiting = h("p", { class: "cut" }, "Sent, waiting\u2026");
    fill(this.answer, waiting);
    const began = performance.now();
    const took = () => duration(performance.now() - began);
    try {
      await this.send(took);
    } catch (error) {
      waiting.remove();
      this.answer.append(errorBox(failure(error, took())));
    } finally {
      this.answer.scrollIntoView({ block: "nearest" });
      this.stop.hidden = true;
      this.go.disabled = false;
    }
  }

  async send(took) {
    const { draft, op } = this;
    const query = Object.fromEntries(draft.given("query"));
    const headers = Object.fromEntries(draft.given("header"));
    const text = draft.body();
    if (text !== undefined) headers["Content-Type"] = draft.type;
    const body = draft.raw() ? (draft.file ?? new Blob([])) : text;
    const path = draft.path(() => "");
    const response = await send(op.method, path, { query, headers, body, signal: this.abort.signal });
    say(`Answer ${response.status} after ${took()}`);
    await showAnswer(response, this.answer, {
      took: took(),
      name: (type) => saveName(query.path ?? "answer", type.includes("tar")),
      learn: (found) => this.known.learn(found),
    });
  }
}
