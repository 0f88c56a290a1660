// A request of the reference in the making: its values, and what it is as a curl line.
import { BASE } from "./api.js";
import { curlLine } from "./curl.js";
import { exampleOf } from "./schema.js";

export const binary = (type) => !/json|text/.test(type);

function compact(text) {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return text.trim();
  }
}

function streams(op) {
  return op.node.responses?.["200"]?.content?.["application/x-ndjson"] !== undefined;
}

export class Draft {
  constructor(doc, op) {
    this.doc = doc;
    this.op = op;
    this.kinds = Object.keys(op.body?.content ?? {});
    this.type = this.kinds[0] ?? null;
    this.file = null;
    this.values = new Map();
    this.changed = () => {};
    const example = this.raw() || !this.type ? undefined : exampleOf(doc, op.body.content[this.type]);
    this.text =
      example === undefined ? "" : typeof example === "string" ? example : JSON.stringify(example, null, 2);
  }

  value(p) {
    return this.values.get(`${p.in} ${p.name}`) ?? "";
  }

  set(p, value) {
    this.values.set(`${p.in} ${p.name}`, value);
    this.changed();
  }

  raw() {
    return this.type !== null && binary(this.type);
  }

  // The text of a JSON body; undefined when there is none.
  body() {
    return this.type && !this.raw() && this.text.trim() !== "" ? this.text : undefined;
  }

  given(place) {
    return this.op.params
      .filter((p) => p.in === place && this.value(p) !== "")
      .map((p) => [p.name, this.value(p)]);
  }

  missing() {
    return this.op.params.find((p) => p.in === "path" && this.value(p) === "");
  }

  // blank(name): what stands for a part of the path that is not filled in.
  path(blank) {
    return this.op.path.replace(/^\//, "").replace(/\{([^}]+)\}/g, (all, name) => {
      const value = this.value({ in: "path", name });
      return value !== "" ? encodeURIComponent(value) : blank(name);
    });
  }

  // With variables for ids, and examples for what is required.
  curl() {
    const query = Object.fromEntries(this.given("query"));
    for (const p of this.op.params) {
      if (p.in === "query" && p.required) query[p.name] ??= String(exampleOf(this.doc, p) ?? "");
    }
    const search = new URLSearchParams(query).toString().replaceAll("%2F", "/");
    const path = this.path((name) => `$${name.replace(/_id$/, "").toUpperCase()}`);
    const text = this.body();
    return curlLine({
      method: this.op.method,
      url: `${BASE.href}${path}${search ? `?${search}` : ""}`,
      key: this.op.secured,
      headers: this.given("header"),
      json: text === undefined ? undefined : compact(text),
      file: this.raw() ? (this.file?.name ?? true) : undefined,
      stream: streams(this.op),
    });
  }
}
