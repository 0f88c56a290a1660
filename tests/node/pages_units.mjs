// The pure parts of the pages, under node's own test runner: escape sequences, lineage, curl lines, schemas.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Ansi, PLAIN, sgr, strip } from "../../pages/ansi.js";
import { curlLine, quote } from "../../pages/curl.js";
import { size, span, visible, visibleText } from "../../pages/dom.js";
import { family, lineage } from "../../pages/lineage.js";
import { bounds, exampleOf, flat, sample, typeText } from "../../pages/schema.js";

const ESC = "\u001b";

function events(...pieces) {
  const out = [];
  const ansi = new Ansi({
    text: (s, style) => {
      const last = out.at(-1);
      if (last?.style && JSON.stringify(last.style) === JSON.stringify(style)) last.text += s;
      else out.push({ text: s, style });
    },
    newline: () => out.push("newline"),
    carriage: () => out.push("carriage"),
    backspace: () => out.push("backspace"),
  });
  for (const p of pieces) ansi.feed(p);
  return out;
}

test("colours and styles are understood", () => {
  const style = (text) => events(`${ESC}[${text}mx`)[0].style;
  assert.equal(style("31").fg, 1);
  assert.equal(style("97").fg, 15);
  assert.equal(style("42").bg, 2);
  assert.equal(style("107").bg, 15);
  assert.equal(style("38;5;196").fg, "#ff0000");
  assert.equal(style("38;5;9").fg, 9);
  assert.equal(style("38;5;232").fg, "#080808");
  assert.equal(style("48;2;1;2;255").bg, "#0102ff");
  assert.equal(style("38:2::1:2:3").fg, "#010203");
  assert.equal(style("38:2:1:2:3").fg, "#010203");
  assert.equal(style("38:5:196").fg, "#ff0000");
  assert.deepEqual(style("1;3;4;9;7"), {
    ...PLAIN,
    bold: true,
    italic: true,
    underline: true,
    strike: true,
    inverse: true,
  });
  assert.equal(style("4:0").underline, false);
  assert.equal(style("4:3").underline, true);
  assert.equal(style("58;5;1;31").fg, 1);
  assert.equal(style("58;2;1;2;3;31").fg, 1);
  assert.equal(sgr({ ...PLAIN, bold: true, fg: 3 }, ""), PLAIN);
  assert.equal(sgr({ ...PLAIN, bold: true, dim: true, fg: 3 }, "22;39"), PLAIN);
});

test("impossible colours change nothing", () => {
  for (const bad of [
    "38;5;256",
    "38;5;-1",
    "38;2;1;2",
    "38;2;1;2;999",
    "38;5",
    "38",
    "38;9;1",
    "1000",
    "38;5;1.5",
    ";;;",
    "38:2",
  ]) {
    const [e] = events(`${ESC}[${bad}mx`);
    assert.equal(e.text, "x");
    assert.ok(e.style.fg === null || /^#[0-9a-f]{6}$/.test(e.style.fg) || Number.isInteger(e.style.fg), bad);
  }
});

test("every other sequence is dropped", () => {
  for (const s of [
    "[2J",
    "[1;1H",
    "[?1049h",
    "[6n",
    "[>c",
    "c",
    "7",
    "(B",
    "#8",
    "]0;title\u0007",
    `]8;;http://x${ESC}\\`,
    `Pq#0${ESC}\\`,
    `_apc${ESC}\\`,
    `^pm${ESC}\\`,
    `Xsos${ESC}\\`,
    "]52;c;aGk=\u0007",
    "[38;2;1;2;3;m\u0018",
    "[31;url(x)",
  ]) {
    const text = strip(`a${ESC}${s}b`);
    assert.ok(/^ab$|^a\)?mb$|^arl\(x\)b$/.test(text), `${JSON.stringify(s)} gives ${JSON.stringify(text)}`);
  }
  assert.equal(strip("a\u009b31mb\u009d0;x\u009cc\u0000\u0007\u000b\u007f\u0085d"), "abcd");
});

test("what never ends hides no further than its line", () => {
  assert.equal(strip(`${ESC}]0;never\nafter`), "\nafter");
  assert.equal(strip(`${ESC}[31;\nafter`), "\nafter");
  assert.equal(strip(`${ESC}P${"x".repeat(10000)}after`).endsWith("after"), true);
  assert.equal(strip(`${ESC}[${"1;".repeat(10000)}after`).endsWith("after"), true);
});

test("the pieces in which it comes do not matter, and nothing dangerous comes out", () => {
  let seed = 12345;
  const random = (n) => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % n;
  const alphabet = [
    ESC,
    "[",
    "]",
    ";",
    ":",
    "m",
    "3",
    "8",
    "5",
    "2",
    "1",
    "\n",
    "\r",
    "\b",
    "\t",
    "\u0007",
    "\u009b",
    "\u009c",
    "\\",
    "P",
    "x",
    "<",
    "\u{1f600}",
    "\u202e",
    "K",
    "?",
  ];
  for (let round = 0; round < 3000; round++) {
    const pieces = Array.from({ length: 1 + random(6) }, () =>
      Array.from({ length: random(12) }, () => alphabet[random(alphabet.length)]).join(""),
    );
    const parts = events(...pieces);
    assert.deepEqual(parts, events(pieces.join("")));
    for (const p of parts) {
      if (typeof p === "string") continue;
      assert.doesNotMatch(p.text, /[\u0000-\u0008\u000a-\u001f\u007f-\u009f]/);
      for (const c of [p.style.fg, p.style.bg])
        assert.ok(c === null || (Number.isInteger(c) && c >= 0 && c < 16) || /^#[0-9a-f]{6}$/.test(c));
    }
  }
});

test("names show what cannot be seen", () => {
  assert.equal(
    visible("a\u202eb\n\u0000\u200b"),
    "a\u2039U+202E\u203ab\u2039U+000A\u203a\u2039U+0000\u203a\u2039U+200B\u203a",
  );
  assert.equal(visible("\u00ad\u061c\u206f\ufff9\u{e0041}").match(/\u2039U\+[0-9A-F]{4,5}\u203a/g)?.length, 5);
  assert.equal(visibleText("a\r\nb\tc\rd"), "a\nb\tc\u2039U+000D\u203ad");
  assert.equal(visible("plain \u00e4\u4e2d\u{1f600}"), "plain \u00e4\u4e2d\u{1f600}");
});

test("numbers are short and true", () => {
  assert.deepEqual([0, 999, 1000, 9949, 12345, 999499, 1e6, 1.5e9].map(size), [
    "0 B",
    "999 B",
    "1.0 kB",
    "9.9 kB",
    "12 kB",
    "999 kB",
    "1.0 MB",
    "1.5 GB",
  ]);
  assert.deepEqual([-3, 0, 59.9, 3599, 3600, 90061].map(span), [
    "0:00",
    "0:00",
    "0:59",
    "59:59",
    "1 h 00 min",
    "1 d 1 h",
  ]);
});

test("the forest says what came from where", () => {
  const snap = (id, sandbox_id, parent_snapshot_id, n) => ({
    id,
    sandbox_id,
    parent_snapshot_id,
    created_at: `2026-01-01T00:00:0${n}Z`,
  });
  const box = (id, source_snapshot_id, n) => ({
    id,
    source_snapshot_id,
    created_at: `2026-01-01T00:00:0${n}Z`,
  });
  const roots = lineage(
    [box("sb_1", "snap_a", 0), box("sb_2", "snap_b", 5), box("sb_3", null, 6), box("sb_4", "snap_gone", 7)],
    [
      snap("snap_a", "sb_1", null, 1),
      snap("snap_b", "sb_1", "snap_a", 2),
      snap("snap_c", "sb_1", null, 3),
      snap("snap_d", "sb_9", "snap_gone", 4),
    ],
  );
  const text = (n) => `${n.kind} ${n.id}${n.children.length ? ` (${n.children.map(text).join(", ")})` : ""}`;
  assert.deepEqual(roots.map(text), [
    "start sb_1 (snapshot snap_a (snapshot snap_b (sandbox sb_2), sandbox sb_1), snapshot snap_c)",
    "lost snap_gone (snapshot snap_d, sandbox sb_4)",
    "start sb_3 (sandbox sb_3)",
  ]);
  assert.deepEqual(
    family(roots, "sb_2").map((r) => r.id),
    ["sb_1"],
  );
  assert.deepEqual(
    family(roots, "sb_9").map((r) => r.id),
    ["snap_gone"],
  );
  assert.deepEqual(family(roots, "sb_none"), []);
});

test("a long chain of snapshots is no trouble", () => {
  const snaps = Array.from({ length: 5000 }, (_, i) => ({
    id: `snap_${i}`,
    sandbox_id: "sb_1",
    parent_snapshot_id: i ? `snap_${i - 1}` : null,
    created_at: String(i),
  }));
  assert.equal(family(lineage([], snaps), "sb_1").length, 1);
});

test("curl lines are quoted for the shell", () => {
  assert.equal(quote("it's"), `'it'\\''s'`);
  assert.equal(quote("a b"), "'a b'");
  assert.equal(quote("plain-1.txt"), "plain-1.txt");
  assert.equal(
    curlLine({ method: "POST", url: "http://h/v1/sandboxes", key: true, json: `{"a":"it's $HOME"}` }),
    `curl -s -H "X-API-Key: $KEY" --json '{"a":"it'\\''s $HOME"}' http://h/v1/sandboxes`,
  );
  assert.equal(
    curlLine({ method: "DELETE", url: "http://h/v1/sandboxes/$SANDBOX", key: true }),
    `curl -s -H "X-API-Key: $KEY" -X DELETE "http://h/v1/sandboxes/$SANDBOX"`,
  );
  assert.equal(
    curlLine({ method: "PUT", url: "http://h/f?path=a%20b", key: true, file: true }),
    `curl -s -H "X-API-Key: $KEY" -T FILE 'http://h/f?path=a%20b'`,
  );
  assert.equal(curlLine({ method: "GET", url: "http://h/healthz" }), "curl -s http://h/healthz");
});

test("schemas are read as they are meant", () => {
  const doc = {
    components: {
      schemas: {
        Id: { type: "string", pattern: "^x$" },
        Loop: { type: "object", properties: { next: { $ref: "#/components/schemas/Loop" } } },
      },
    },
  };
  assert.equal(typeText(doc, { type: ["string", "null"] }), "string or null");
  assert.equal(
    typeText(doc, { type: "array", items: { $ref: "#/components/schemas/Id" } }),
    "array of string",
  );
  assert.equal(
    typeText(doc, { oneOf: [{ type: "string" }, { type: "array", items: { type: "string" } }] }),
    "string or array of string",
  );
  assert.deepEqual(bounds(doc, { type: "integer", minimum: 1, maximum: 9 }), ["1 to 9"]);
  assert.deepEqual(bounds(doc, { type: "number", exclusiveMinimum: 0 }), ["> 0"]);
  assert.deepEqual(bounds(doc, { $ref: "#/components/schemas/Id", maxLength: 3 }), [
    "at most 3 characters",
    "matches ^x$",
  ]);
  assert.deepEqual(
    Object.keys(flat(doc, { allOf: [{ properties: { a: {} } }, { properties: { b: {} } }] }).properties),
    ["a", "b"],
  );
  assert.equal(typeof sample(doc, { $ref: "#/components/schemas/Loop" }), "object");
  assert.equal(
    exampleOf(doc, { schema: { oneOf: [{ const: 1 }, { const: 2 }] } }, "application/x-ndjson"),
    "1\n2",
  );
});
