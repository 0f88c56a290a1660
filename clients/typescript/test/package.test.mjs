// The package itself: what runs where, and what comes along.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const read = (path) => readFileSync(new URL(`../${path}`, import.meta.url), "utf8");
const description = JSON.parse(read("package.json"));

/** The files that a module of the package imports, itself included, and what it imports from elsewhere. */
function graph(file, found = new Map()) {
  if (found.has(file)) return found;
  const imports = [...read(`dist/${file}`).matchAll(/(?:from|import)\s*\(?["']([^"']+)["']/g)].map(([, name]) => name);
  found.set(
    file,
    imports.filter((name) => !name.startsWith("./")),
  );
  for (const name of imports) if (name.startsWith("./")) graph(name.slice(2), found);
  return found;
}

test("the_main_entry_imports_nothing_but_its_own_files", () => {
  const found = graph("index.js");
  assert.ok(found.size > 5);
  assert.deepEqual([...found.values()].flat(), []);
  assert.ok([...found.keys()].every((file) => !/\bprocess\.|\bBuffer\b|\brequire\(/.test(read(`dist/${file}`))));
});

test("the_node_entry_imports_only_what_comes_with_node", () => {
  assert.ok([...graph("node.js").values()].flat().every((name) => name.startsWith("node:")));
});

test("nothing_is_installed_along", () => {
  for (const kind of ["dependencies", "peerDependencies", "optionalDependencies", "bundleDependencies"])
    assert.equal(description[kind], undefined);
  for (const name of ["preinstall", "install", "postinstall", "prepare"]) assert.equal(description.scripts[name], undefined);
});

test("both_entries_have_types", () => {
  for (const entry of [".", "./node"]) {
    const { types, default: code } = description.exports[entry];
    assert.ok(read(types).length > 0 && read(code).length > 0);
    assert.ok(!/from ["']node:/.test(read(types)));
  }
});

test("both_entries_export_the_same_classes", async () => {
  const main = await import("agent-sandbox-sdk");
  const node = await import("agent-sandbox-sdk/node");
  const finders = ["SandboxClient", "AgentboxClient"]; // of a key in a file
  for (const name of Object.keys(main)) if (!finders.includes(name)) assert.equal(node[name], main[name], name);
  for (const name of finders) assert.ok(node[name].prototype instanceof main[name], name);
});
