// The API reference: drawn from the server's own description at openapi.json.
import { BASE, call } from "./api.js";
import { errorBox } from "./dialog.js";
import { add, button, codeBox, fill, h } from "./dom.js";
import { inline, markdown } from "./markdown.js";
import { anchor, badge, operation, operations } from "./operation.js";
import { fields, flat, json, sample } from "./schema.js";
import { knownIds } from "./tryit.js";

function groups(doc, ops) {
  const order = (doc.tags ?? []).map((t) => t.name);
  const names = [...new Set([...order, ...ops.map((o) => o.tag)])];
  return names
    .map((name) => ({
      name,
      about: doc.tags?.find((t) => t.name === name)?.description,
      ops: ops.filter((o) => o.tag === name),
    }))
    .filter((g) => g.ops.length);
}

const slug = (text) => text.toLowerCase().replace(/[^a-z0-9]+/g, "-");

function intro(doc) {
  const schemes = Object.entries(doc.components?.securitySchemes ?? {});
  const address = BASE.href.replace(/\/$/, "");
  const head = `curl -s -H "X-API-Key: $KEY" ${new URL("v1/sandboxes", BASE)}`;
  return h(
    "section",
    { class: "operation", id: "overview" },
    h(
      "div",
      { class: "words" },
      h("h1", { tabindex: "-1" }, doc.info.title, h("span", { class: "badge" }, doc.info.version)),
      h("div", { class: "prose" }, markdown(doc.info.description ?? doc.info.summary)),
    ),
    h(
      "div",
      { class: "hands" },
      h(
        "figure",
        null,
        h("figcaption", null, h("span", null, "Address")),
        codeBox(address, address, "address"),
      ),
      h(
        "figure",
        null,
        h("figcaption", null, h("span", null, "With a key")),
        codeBox(head, head, "curl line with a key", { class: "curl" }),
      ),
      schemes.length
        ? h(
            "dl",
            { class: "fieldlist" },
            schemes.map(([name, s]) =>
              h(
                "div",
                { class: "row" },
                h(
                  "dt",
                  null,
                  h("code", { class: "fieldname" }, name),
                  h(
                    "span",
                    { class: "type" },
                    s.type === "http"
                      ? `Authorization: ${s.scheme === "bearer" ? "Bearer" : s.scheme} KEY`
                      : `${s.name}: KEY`,
                  ),
                ),
                h("dd", null, markdown(s.description)),
              ),
            ),
          )
        : null,
      h(
        "p",
        null,
        h("a", { href: new URL("openapi.json", BASE).pathname }, "openapi.json"),
        ` \u00b7 OpenAPI ${doc.openapi}`,
      ),
    ),
  );
}

function schemas(doc) {
  const list = Object.entries(doc.components?.schemas ?? {});
  if (list.length === 0) return null;
  return h(
    "section",
    { id: "schemas", class: "group" },
    h("h2", { tabindex: "-1" }, "Schemas"),
    list.map(([name, s]) => {
      const body = h("div", { class: "answer" });
      const d = h(
        "details",
        { class: "status schema", id: `schema-${name}` },
        h(
          "summary",
          null,
          h("code", null, name),
          h("span", null, inline((flat(doc, s).description ?? "").split(/\n|\. /)[0])),
        ),
        body,
      );
      d.addEventListener("toggle", () => {
        if (!d.open || body.firstChild) return;
        const example = JSON.stringify(sample(doc, s) ?? null, null, 2);
        fill(
          body,
          markdown(flat(doc, s).description),
          fields(doc, s, { answer: true }),
          codeBox(json(example), example, `example of ${name}`),
        );
      });
      return d;
    }),
  );
}

function navigation(all, doc) {
  const filter = h("input", {
    type: "search",
    placeholder: "Find an operation",
    "aria-label": "Find an operation",
    autocomplete: "off",
    spellcheck: "false",
  });
  const links = [];
  const link = (href, ...content) => {
    const a = h("a", { href: `#${href}` }, content);
    links.push(a);
    return a;
  };
  const parts = all.map((g) => {
    const items = g.ops.map((op) => {
      const li = h("li", null, link(anchor(op), badge(op.method), h("span", null, op.node.summary ?? op.id)));
      li.find = `${op.method} ${op.path} ${op.node.summary} ${op.id} ${g.name}`.toLowerCase();
      return li;
    });
    return { items, element: h("div", null, h("h2", null, g.name), h("ul", null, items)) };
  });
  const none = h("p", { class: "none", hidden: true }, "None matches.");
  const list = h(
    "nav",
    { "aria-label": "Operations" },
    h("ul", null, h("li", null, link("overview", "Overview"))),
    parts.map((p) => p.element),
    doc.components?.schemas ? h("ul", { class: "last" }, h("li", null, link("schemas", "Schemas"))) : null,
    none,
  );
  const fold = button("Operations", { icon: "more", kind: "fold", "aria-expanded": "false" });
  const element = h("aside", { class: "toc" }, fold, filter, list);
  filter.addEventListener("input", () => {
    const text = filter.value.trim().toLowerCase();
    for (const p of parts) {
      for (const li of p.items) li.hidden = !li.find.includes(text);
      p.element.hidden = p.items.every((li) => li.hidden);
    }
    none.hidden = parts.some((p) => !p.element.hidden);
  });
  const open = (yes) => {
    element.classList.toggle("open", yes);
    fold.setAttribute("aria-expanded", String(yes));
  };
  fold.addEventListener("click", () => open(!element.classList.contains("open")));
  list.addEventListener("click", (e) => e.target.closest("a") && open(false));
  return { element, links };
}

// The link of the section that is being read is marked.
function follow(links, sections) {
  const seen = new Set();
  const mark = () => {
    const first = sections.find((s) => seen.has(s));
    if (!first) return;
    for (const a of links) {
      const on = a.hash === `#${first.id}`;
      if (on && !a.hasAttribute("aria-current")) {
        a.setAttribute("aria-current", "true");
        a.scrollIntoView({ block: "nearest" });
      } else if (!on) {
        a.removeAttribute("aria-current");
      }
    }
  };
  const watcher = new IntersectionObserver(
    (entries) => {
      for (const e of entries) e.isIntersecting ? seen.add(e.target) : seen.delete(e.target);
      mark();
    },
    { rootMargin: "-60px 0px -60% 0px" },
  );
  for (const s of sections) watcher.observe(s);
}

export function docsPage({ askKey }) {
  const element = h(
    "div",
    { class: "reference" },
    h("div", { class: "empty" }, h("h1", null, "API reference"), h("p", null, "Reading openapi.json\u2026")),
  );
  const known = knownIds();
  let drawn = false;

  function toHash() {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (!target || !element.contains(target)) return;
    if (target.tagName === "DETAILS") target.open = true;
    target.scrollIntoView();
    (target.querySelector("[tabindex='-1']") ?? target).focus({ preventScroll: true });
  }

  async function load() {
    try {
      const doc = await call("GET", "openapi.json");
      const ops = operations(doc);
      const all = groups(doc, ops);
      const nav = navigation(all, doc);
      const sections = [];
      const body = h("div", { class: "pages" });
      const first = intro(doc);
      sections.push(first);
      add(body, first);
      for (const g of all) {
        const parts = g.ops.map((op) => operation(doc, op, { known, askKey }));
        sections.push(...parts);
        add(
          body,
          h(
            "section",
            { class: "group", id: `tag-${slug(g.name)}` },
            h("h2", null, g.name),
            h("div", { class: "prose" }, markdown(g.about)),
            parts,
          ),
        );
      }
      const last = schemas(doc);
      if (last) sections.push(last);
      add(body, last, known.element);
      fill(element, nav.element, body);
      follow(nav.links, sections);
      drawn = true;
      toHash();
    } catch (error) {
      fill(
        element,
        h(
          "div",
          { class: "empty" },
          h("h1", null, "API reference"),
          errorBox(error),
          button("Try again", { click: load }),
        ),
      );
    }
  }

  return {
    element,
    enter() {
      addEventListener("hashchange", toHash);
      if (!drawn) load();
    },
    leave() {
      removeEventListener("hashchange", toHash);
    },
  };
}
