// JSON Schemas as people read them: types, bounds, defaults, examples.
import { h } from "./dom.js";
import { inline, markdown } from "./markdown.js";

const DEPTH_MAX = 8;

// What a reference means; siblings of $ref add to it.
export function resolve(doc, node) {
  let found = node;
  for (let i = 0; found && typeof found.$ref === "string" && i < 16; i++) {
    const { $ref, ...beside } = found;
    let target = doc;
    for (const step of $ref.replace(/^#\//, "").split("/")) {
      target = target?.[decodeURIComponent(step).replace(/~1/g, "/").replace(/~0/g, "~")];
    }
    found = { ...target, ...beside, "x-name": $ref.split("/").pop() };
  }
  return found ?? {};
}

// allOf members joined into one schema.
export function flat(doc, node) {
  const s = resolve(doc, node);
  if (!s.allOf) return s;
  const out = { ...s, properties: { ...s.properties }, required: [...(s.required ?? [])] };
  delete out.allOf;
  for (const part of s.allOf) {
    const p = flat(doc, part);
    Object.assign(out, {
      ...p,
      ...out,
      properties: { ...out.properties, ...p.properties, ...out.properties },
      required: [...out.required, ...(p.required ?? [])],
    });
  }
  return out;
}

const types = (s) => (Array.isArray(s.type) ? s.type : s.type ? [s.type] : []);

export function typeText(doc, node) {
  const s = flat(doc, node);
  const choices = s.oneOf ?? s.anyOf;
  if (choices) return [...new Set(choices.map((c) => typeText(doc, c)))].join(" or ");
  if (s.const !== undefined) return JSON.stringify(s.const);
  const named = types(s).map((t) => {
    if (t === "array") return s.items ? `array of ${typeText(doc, s.items)}` : "array";
    if (t === "object" && s["x-name"]) return s["x-name"];
    if (t === "object" && typeof s.additionalProperties === "object")
      return `object of ${typeText(doc, s.additionalProperties)}`;
    return t;
  });
  return named.join(" or ") || (s.properties ? "object" : s.enum ? "value" : "any");
}

const range = (low, high, unit) => {
  if (low !== undefined && high !== undefined)
    return low === high ? `${low} ${unit}` : `${low} to ${high} ${unit}`;
  if (low !== undefined) return `at least ${low} ${unit}`;
  return high !== undefined ? `at most ${high} ${unit}` : null;
};

export function bounds(doc, node) {
  const s = flat(doc, node);
  const out = [];
  if (s.enum) out.push(`one of ${s.enum.map((v) => JSON.stringify(v)).join(", ")}`);
  if (s.minimum !== undefined && s.maximum !== undefined) out.push(`${s.minimum} to ${s.maximum}`);
  else if (s.minimum !== undefined) out.push(`\u2265 ${s.minimum}`);
  else if (s.maximum !== undefined) out.push(`\u2264 ${s.maximum}`);
  if (s.exclusiveMinimum !== undefined) out.push(`> ${s.exclusiveMinimum}`);
  if (s.exclusiveMaximum !== undefined) out.push(`< ${s.exclusiveMaximum}`);
  if (s.multipleOf !== undefined) out.push(`multiple of ${s.multipleOf}`);
  out.push(range(s.minLength, s.maxLength, "characters"));
  out.push(range(s.minItems, s.maxItems, "items"));
  out.push(range(s.minProperties, s.maxProperties, "members"));
  if (s.uniqueItems) out.push("no duplicates");
  if (s.format) out.push(s.format);
  if (s.pattern) out.push(`matches ${s.pattern}`);
  for (const c of s.oneOf ?? s.anyOf ?? []) for (const b of bounds(doc, c)) if (!out.includes(b)) out.push(b);
  const inner = types(s).includes("array") && s.items ? bounds(doc, s.items) : [];
  if (inner.length) out.push(`each ${inner.join(", ")}`);
  return out.filter(Boolean);
}

// An example value: the schema's own where it has one.
export function sample(doc, node, depth = 0) {
  const s = flat(doc, node);
  if (s.example !== undefined) return s.example;
  if (Array.isArray(s.examples) && s.examples.length) return s.examples[0];
  if (s.const !== undefined) return s.const;
  if (s.default !== undefined) return s.default;
  if (s.enum) return s.enum[0];
  if (depth > DEPTH_MAX) return null;
  const choices = s.oneOf ?? s.anyOf;
  if (choices) return sample(doc, choices[0], depth + 1);
  switch (types(s)[0] ?? (s.properties ? "object" : "")) {
    case "object":
      return Object.fromEntries(
        Object.entries(s.properties ?? {}).map(([k, v]) => [k, sample(doc, v, depth + 1)]),
      );
    case "array":
      return s.items ? [sample(doc, s.items, depth + 1)] : [];
    case "string":
      return s.format === "date-time" ? "2026-09-30T09:56:02.053406Z" : "";
    case "integer":
    case "number":
      return s.minimum ?? 1;
    case "boolean":
      return false;
    default:
      return null;
  }
}

// The example of a media type or parameter object.
export function exampleOf(doc, holder, type = "") {
  if (holder.example !== undefined) return holder.example;
  const first = Object.values(holder.examples ?? {})[0];
  if (first !== undefined) return resolve(doc, first).value;
  if (!holder.schema) return undefined;
  const choices = flat(doc, holder.schema).oneOf;
  if (type.includes("ndjson") && choices)
    return choices.map((c) => JSON.stringify(sample(doc, c))).join("\n");
  return sample(doc, holder.schema);
}

const shown = (v) => (typeof v === "string" ? `"${v}"` : JSON.stringify(v));

// One row: name, type, what it must be, what it means.
export function fieldRow(doc, name, node, { required = false, description, place, answer } = {}, depth = 0) {
  const s = flat(doc, node);
  const text = description ?? s.description;
  const limits = bounds(doc, s);
  const nested = depth < DEPTH_MAX ? inner(doc, s, { answer }, depth) : null;
  const given = s.example ?? (Array.isArray(s.examples) ? s.examples[0] : undefined);
  const example = given === s.default ? undefined : given;
  return h(
    "div",
    { class: "row" },
    h(
      "dt",
      null,
      h("code", { class: "fieldname" }, name),
      h("span", { class: "type" }, typeText(doc, s)),
      required ? h("span", { class: "need" }, "required") : null,
      place ? h("span", { class: "in" }, place) : null,
      s.deprecated ? h("span", { class: "badge warn" }, "deprecated") : null,
    ),
    h(
      "dd",
      null,
      text ? h("p", null, inline(text.replace(/\s+/g, " "))) : null,
      limits.length || s.default !== undefined || example !== undefined
        ? h(
            "p",
            { class: "limits" },
            limits.map((l) => h("span", null, l)),
            s.default !== undefined ? h("span", null, "default ", h("code", null, shown(s.default))) : null,
            example !== undefined && typeof example !== "object"
              ? h("span", null, "such as ", h("code", null, shown(example)))
              : null,
          )
        : null,
      nested,
    ),
  );
}

// The fields of an object within, folded.
function inner(doc, s, options, depth) {
  const target = types(s).includes("array") && s.items ? flat(doc, s.items) : s;
  if (!target.properties || Object.keys(target.properties).length === 0) return null;
  const what = target["x-name"] ?? "Fields";
  return h(
    "details",
    null,
    h("summary", null, `${what} (${Object.keys(target.properties).length})`),
    fields(doc, target, options, depth + 1),
  );
}

// All fields of an object schema, or the alternatives of a choice. In an answer, what is required is nothing to be told.
export function fields(doc, node, { answer = false } = {}, depth = 0) {
  const s = flat(doc, node);
  const choices = s.oneOf ?? s.anyOf;
  if (choices && depth < DEPTH_MAX) {
    return h(
      "div",
      { class: "choices" },
      choices.map((c) => {
        const one = flat(doc, c);
        return h(
          "div",
          { class: "choice" },
          h("p", { class: "type" }, one.title ?? typeText(doc, one)),
          one.description ? markdown(one.description) : null,
          one.properties ? fields(doc, one, { answer }, depth + 1) : null,
        );
      }),
    );
  }
  const rows = Object.entries(s.properties ?? {}).map(([name, p]) =>
    fieldRow(doc, name, p, { required: !answer && s.required?.includes(name), answer }, depth),
  );
  if (rows.length === 0) {
    const text = [typeText(doc, s), ...bounds(doc, s)].join(", ");
    return h("p", { class: "type" }, text);
  }
  return h("dl", { class: "fieldlist" }, rows);
}

// JSON with its parts told apart by classes.
export function json(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  const out = [];
  let at = 0;
  for (const m of text.matchAll(
    /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|-?\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b/g,
  )) {
    out.push(text.slice(at, m.index));
    const kind = m[1] ? (m[2] ? "k" : "s") : m[3] ? "b" : "n";
    out.push(h("span", { class: `j-${kind}` }, m[1] ?? m[0]), m[2] ?? "");
    at = m.index + m[0].length;
  }
  out.push(text.slice(at));
  return out;
}
