// "Try it": a form for one operation, its request as a curl line, and the answer as it comes.
import { BASE, hasKey, ndjson, send } from "./api.js";
import { curlLine } from "./curl.js";
import { errorBox, field } from "./dialog.js";
import { button, codeBox, duration, fill, h, newId, say, size } from "./dom.js";
import { exampleOf, flat, json, resolve } from "./schema.js";
import { saveName } from "./transfer.js";

const SHOWN_MAX = 200 * 1024;
const LINES_MAX = 500;

const types = (s) => [s.type ?? []].flat();

const binary = (type) => !/json|text/.test(type);

// The values of a request, and the request as a curl line.
export function startRequest(doc, op) {
  const kinds = Object.keys(op.body?.content ?? {});
  const first = kinds[0] ?? null;
  const example = first && !binary(first) ? exampleOf(doc, op.body.content[first]) : undefined;
  const text =
    example === undefined ? "" : typeof example === "string" ? example : JSON.stringify(example, null, 2);
  const request = {
    values: Object.fromEntries(op.params.map((p) => [`${p.in} ${p.name}`, ""])),
    kinds,
    type: first,
    text,
    file: null,
    changed: () => {},
    value: (p) => request.values[`${p.in} ${p.name}`],
    body: () =>
      request.type && !binary(request.type) && request.text.trim() !== "" ? request.text : undefined,
    // With the placeholder or the example for what is still missing, as shown in the reference.
    path(placeholders) {
      return op.path.replace(/^\//, "").replace(/\{([^}]+)\}/g, (all, name) => {
        const v = request.values[`path ${name}`];
        return v !== "" ? encodeURIComponent(v) : placeholders ? all : "";
      });
    },
    query() {
      return Object.fromEntries(
        op.params
          .filter((p) => p.in === "query" && request.value(p) !== "")
          .map((p) => [p.name, request.value(p)]),
      );
    },
    headers: () =>
      op.params
        .filter((p) => p.in === "header" && request.value(p) !== "")
        .map((p) => [p.name, request.value(p)]),
    curl() {
      const query = { ...request.query() };
      for (const p of op.params)
        if (p.in === "query" && p.required && !(p.name in query))
          query[p.name] = String(exampleOf(doc, p) ?? "");
      const path = request.path(true).replace(/\{(\w+?)(_id)?\}/g, (all, name) => `$${name.toUpperCase()}`);
      const search = new URLSearchParams(query).toString().replaceAll("%2F", "/");
      const address = `${BASE.href}${path}${search ? `?${search}` : ""}`;
      const text = request.body();
      const short = text === undefined ? undefined : compact(text);
      const file = request.type && binary(request.type) ? (request.file?.name ?? true) : undefined;
      return curlLine({
        method: op.method,
        url: address,
        key: op.secured,
        headers: request.headers(),
        json: short,
        file,
        stream: streams(op),
      });
    },
  };
  return request;
}

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

function headerList(response) {
  const rows = [...response.headers].map(([k, v]) => h("div", null, h("dt", null, k), h("dd", null, v)));
  return h(
    "details",
    null,
    h("summary", null, `Headers (${rows.length})`),
    h("dl", { class: "headers" }, rows),
  );
}

function shownText(text, type) {
  const cut = text.length > SHOWN_MAX;
  let whole = text;
  if (!cut && type.includes("json") && !type.includes("ndjson")) {
    try {
      whole = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      // Shown as it came.
    }
  }
  const content = cut ? text.slice(0, SHOWN_MAX) : type.includes("json") ? json(whole) : whole;
  return [
    codeBox(content, text, "body of the answer"),
    cut ? h("p", { class: "cut" }, `The first ${size(SHOWN_MAX)} of ${size(text.length)}.`) : null,
  ];
}

async function showStream(response, place, known) {
  const pre = h("pre", { tabIndex: 0, role: "log", "aria-live": "off", "aria-label": "Lines of the stream" });
  const count = h("p", { class: "cut" });
  fill(place, h("div", { class: "code" }, pre), count);
  let n = 0;
  for await (const event of ndjson(response)) {
    n++;
    const text = JSON.stringify(event);
    pre.append(h("div", null, json(text.length > 4000 ? `${text.slice(0, 4000)}\u2026` : text)));
    if (pre.childElementCount > LINES_MAX) pre.firstChild.remove();
    fill(count, n > LINES_MAX ? `${n} lines, the last ${LINES_MAX} shown` : `${n} lines`);
    pre.scrollTop = pre.scrollHeight;
    known.learn(text);
  }
}

async function showBinary(response, place, name) {
  const blob = await response.blob();
  const save = button(`Save ${size(blob.size)}`, { icon: "down" });
  save.addEventListener("click", () => {
    const address = URL.createObjectURL(new Blob([blob], { type: "application/octet-stream" }));
    const a = h("a", { href: address, download: name });
    document.body.append(a);
    a.click();
    a.remove();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
  });
  const head = blob.size <= 64 * 1024 && (await blob.text());
  fill(
    place,
    save,
    head && !head.includes("\u0000") && !head.includes("\ufffd") ? shownText(head, "text/plain") : null,
  );
}

export function tryIt(doc, op, request, { known, askKey }) {
  const boxes = {};
  const params = op.params.map((p) => {
    const [box, labelled] = control(doc, p, known);
    boxes[`${p.in} ${p.name}`] = box;
    box.addEventListener("input", () => {
      request.values[`${p.in} ${p.name}`] = box.value;
      request.changed();
    });
    return labelled;
  });
  const go = button("Send", { kind: "primary", type: "submit", icon: "play" });
  const stop = button("Cancel", { icon: "stop", hidden: true });
  const answer = h("div", { class: "result", "aria-live": "off" });
  const form = h(
    "form",
    { novalidate: true },
    params.length ? h("div", { class: "params" }, params) : null,
    bodyControls(),
    h("div", { class: "send" }, go, stop),
    answer,
  );
  const details = h("details", { class: "try" }, h("summary", null, "Try it"), form);

  function bodyControls() {
    if (!op.body) return null;
    const area = h("textarea", {
      name: "body",
      rows: Math.min(10, request.text.split("\n").length + 1),
      value: request.text,
      spellcheck: "false",
      autocomplete: "off",
    });
    const file = h("input", { type: "file", name: "file" });
    const text = field("Body (JSON)", area, op.body.required ? null : "may be left empty");
    const bytes = field("Body (bytes of a file)", file);
    const show = () => {
      text.hidden = !request.type || binary(request.type);
      bytes.hidden = !text.hidden;
    };
    const choice = h(
      "select",
      { name: "type" },
      request.kinds.map((k) => h("option", { value: k }, k)),
    );
    choice.addEventListener("change", () => {
      request.type = choice.value;
      show();
      request.changed();
    });
    area.addEventListener("input", () => {
      request.text = area.value;
      request.changed();
    });
    file.addEventListener("change", () => {
      request.file = file.files[0] ?? null;
      request.changed();
    });
    show();
    const named = Object.entries(op.body.content?.[request.kinds[0]]?.examples ?? {});
    const examples = h(
      "select",
      { name: "example" },
      named.map(([name]) => h("option", { value: name }, name)),
    );
    examples.addEventListener("change", () => {
      const { value } = resolve(doc, named.find(([name]) => name === examples.value)[1]);
      area.value = request.text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
      area.rows = Math.min(10, area.value.split("\n").length + 1);
      request.changed();
    });
    return [
      named.length > 1 ? field("Example", examples) : null,
      request.kinds.length > 1 ? field("Type of the body", choice) : null,
      text,
      bytes,
    ];
  }

  function offer() {
    for (const name of ["sandbox_id", "snapshot_id"]) {
      const box = boxes[`path ${name}`];
      if (!box || box.value !== "" || !details.open) continue;
      box.value = known.latest(name);
      request.values[`path ${name}`] = box.value;
      request.changed();
    }
  }
  known.heard.addEventListener("ids", offer);
  details.addEventListener("toggle", offer);

  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    const missing = op.params.find((p) => p.in === "path" && request.value(p) === "");
    if (missing) {
      fill(answer, errorBox(new Error(`${missing.name} is part of the path: it must be filled in.`)));
      boxes[`path ${missing.name}`].focus();
      return;
    }
    if (op.secured && !hasKey() && !(await askKey())) return;
    const abort = new AbortController();
    stop.onclick = () => abort.abort();
    stop.hidden = false;
    go.disabled = true;
    const began = performance.now();
    try {
      await run(abort.signal, began);
    } catch (error) {
      const took = duration(performance.now() - began);
      const text =
        error.name === "AbortError"
          ? new Error(`Cancelled after ${took}.`)
          : error.status === undefined
            ? new Error("The answer was cut off.")
            : error;
      answer.append(errorBox(text));
    } finally {
      answer.scrollIntoView({ block: "nearest" });
      stop.hidden = true;
      go.disabled = false;
    }
  });

  async function run(signal, began) {
    fill(answer, h("p", { class: "cut" }, "Sent, waiting\u2026"));
    const headers = Object.fromEntries(request.headers());
    const text = request.body();
    const bytes = request.type && binary(request.type);
    if (text !== undefined) headers["Content-Type"] = request.type;
    const response = await send(op.method, request.path(false), {
      query: request.query(),
      headers,
      body: bytes ? (request.file ?? new Blob([])) : text,
      signal,
    });
    const took = duration(performance.now() - began);
    const type = response.headers.get("Content-Type") ?? "";
    const place = h("div");
    say(`Answer ${response.status} after ${took}`);
    fill(
      answer,
      h(
        "p",
        { class: "outcome" },
        h("span", { class: `code-number s${String(response.status)[0]}` }, response.status),
        h("span", null, `${response.statusText} \u00b7 ${took}`),
      ),
      headerList(response),
      place,
    );
    if (type.includes("ndjson") && response.ok) {
      await showStream(response, place, known);
    } else if (/json|text/.test(type)) {
      const body = await response.text();
      fill(place, shownText(body, type));
      known.learn(body);
    } else if (response.status === 204 || op.method === "HEAD") {
      fill(place, h("p", { class: "cut" }, "no body"));
    } else {
      await showBinary(response, place, saveName(request.query().path ?? "answer", type.includes("tar")));
    }
  }

  return details;
}
