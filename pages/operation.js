// One operation of the reference: what it takes, what it answers, how to call it.
import { codeBox, fill, h } from "./dom.js";
import { Draft } from "./draft.js";
import { inline, markdown } from "./markdown.js";
import { bounds, exampleOf, fieldRow, fields, flat, json, resolve, typeText } from "./schema.js";
import { TryIt } from "./tryit.js";

export const METHODS = ["get", "put", "post", "patch", "delete"];

export const anchor = (op) => `op-${op.id}`;

// All operations of the document, in its order: {id, method, path, node, params, body, secured}.
export function operations(doc) {
  const out = [];
  for (const [path, item] of Object.entries(doc.paths ?? {})) {
    for (const method of METHODS) {
      if (!item[method]) continue;
      const node = item[method];
      const params = [...(item.parameters ?? []), ...(node.parameters ?? [])].map((p) => resolve(doc, p));
      out.push({
        id: node.operationId ?? `${method}-${path.replace(/\W+/g, "-")}`,
        method: method.toUpperCase(),
        path,
        node,
        params,
        body: node.requestBody ? resolve(doc, node.requestBody) : null,
        secured: (node.security ?? doc.security ?? []).some((s) => Object.keys(s).length > 0),
        tag: node.tags?.[0] ?? "Other",
      });
    }
  }
  return out;
}

export function badge(method) {
  return h("span", { class: `method ${method.toLowerCase()}` }, method === "DELETE" ? "DEL" : method);
}

function pathText(path) {
  return path
    .split(/(\{[^}]+\})/)
    .map((part) => (part.startsWith("{") ? h("span", { class: "var" }, part) : part));
}

function parameters(doc, op) {
  if (op.params.length === 0) return null;
  const order = ["path", "query", "header"];
  const sorted = [...op.params].sort((a, b) => order.indexOf(a.in) - order.indexOf(b.in));
  return [
    h("h4", null, "Parameters"),
    h(
      "dl",
      { class: "fieldlist" },
      sorted.map((p) =>
        fieldRow(
          doc,
          p.name,
          { ...p.schema, example: p.example ?? p.schema?.example },
          { required: p.required, description: p.description, place: p.in },
        ),
      ),
    ),
  ];
}

function bodyPart(doc, op) {
  if (!op.body) return null;
  const kinds = Object.entries(op.body.content ?? {});
  return [
    h(
      "h4",
      null,
      "Body",
      op.body.required ? h("span", { class: "need" }, "required") : h("span", { class: "in" }, "optional"),
    ),
    op.body.description ? markdown(op.body.description) : null,
    kinds.map(([type, media]) => {
      const s = flat(doc, media.schema);
      const raw = !s.properties && !s.oneOf && !s.anyOf;
      return [
        h("p", { class: "media" }, h("code", null, type)),
        raw ? (s.description ? markdown(s.description) : null) : fields(doc, s),
      ];
    }),
  ];
}

function answerBody(doc, content) {
  return Object.entries(content ?? {}).map(([type, media]) => {
    const example = exampleOf(doc, media, type);
    const s = media.schema ? flat(doc, media.schema) : {};
    const structured = s.properties || s.oneOf || s.anyOf;
    const plain = typeof example === "string" ? example : JSON.stringify(example, null, 2);
    return [
      h(
        "p",
        { class: "media" },
        h("code", null, type),
        s["x-name"]
          ? h("span", { class: "type" }, ` ${s["x-name"]}`)
          : structured
            ? null
            : h("span", { class: "type" }, ` ${[typeText(doc, s), ...bounds(doc, s)].join(", ")}`),
      ),
      structured ? fields(doc, s, { answer: true }) : null,
      example !== undefined && example !== null && example !== ""
        ? codeBox(json(plain), plain, `example of ${type}`)
        : null,
    ];
  });
}

export const family = (status) => (/^[1-5]/.test(status) ? `s${status[0]}` : "s5");

function answers(doc, op) {
  const list = Object.entries(op.node.responses ?? {}).map(([status, node]) => {
    const r = resolve(doc, node);
    const body = h("div", { class: "answer" });
    const details = h(
      "details",
      { class: "status" },
      h(
        "summary",
        null,
        h("span", { class: `code-number ${family(status)}` }, status),
        h("span", null, inline((r.description ?? "").split("\n")[0])),
      ),
      body,
    );
    // What is inside is drawn when it is looked at: a page of all examples at once would be slow to open.
    details.addEventListener("toggle", () => {
      if (!details.open || body.firstChild) return;
      const headers = Object.entries(r.headers ?? {}).map(([name, node2]) => {
        const header = resolve(doc, node2);
        return fieldRow(doc, name, header.schema ?? {}, { description: header.description });
      });
      const long = (r.description ?? "").split("\n").slice(1).join("\n");
      fill(
        body,
        markdown(long),
        answerBody(doc, r.content),
        headers.length
          ? [h("p", { class: "media" }, "Headers"), h("dl", { class: "fieldlist" }, headers)]
          : null,
      );
      if (!body.firstChild) fill(body, h("p", { class: "type" }, "no body"));
    });
    return details;
  });
  return [h("h4", null, "Answers"), list];
}

function success(doc, op) {
  const entry = Object.entries(op.node.responses ?? {}).find(([s]) => s.startsWith("2"));
  if (!entry) return null;
  const [status, node] = entry;
  const [type, media] = Object.entries(resolve(doc, node).content ?? {})[0] ?? [];
  if (!media) return null;
  const example = exampleOf(doc, media, type);
  if (example === undefined || example === "" || (typeof example === "string" && !type.includes("json")))
    return null;
  const text = typeof example === "string" ? example : JSON.stringify(example, null, 2);
  return h(
    "figure",
    { class: "example" },
    h(
      "figcaption",
      null,
      h("span", { class: `code-number ${family(status)}` }, status),
      h("span", null, type),
    ),
    codeBox(json(text), text, `answer ${status}`),
  );
}

export function operation(doc, op, tools) {
  const request = new Draft(doc, op);
  const line = codeBox("", () => request.curl(), "curl line", { class: "curl" });
  const draw = () => fill(line.firstChild, request.curl());
  request.changed = draw;
  draw();
  const attempt = new TryIt(doc, op, request, tools).element;
  return h(
    "section",
    { class: "operation", id: anchor(op), "aria-labelledby": `${anchor(op)}-title` },
    h(
      "div",
      { class: "words" },
      h("h3", { id: `${anchor(op)}-title`, tabindex: "-1" }, op.node.summary ?? op.id),
      h(
        "p",
        { class: "path" },
        badge(op.method),
        h("code", null, pathText(op.path)),
        op.secured ? null : h("span", { class: "in" }, "no key needed"),
        op.node.deprecated ? h("span", { class: "badge warn" }, "deprecated") : null,
      ),
      h("div", { class: "prose" }, markdown(op.node.description)),
      parameters(doc, op),
      bodyPart(doc, op),
      answers(doc, op),
    ),
    h(
      "div",
      { class: "hands" },
      h("figure", null, h("figcaption", null, h("span", null, "curl")), line),
      success(doc, op),
      attempt,
    ),
  );
}
