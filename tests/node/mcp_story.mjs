// The official JavaScript MCP clients against agent-sandbox-mcp: node mcp_story.mjs PROGRAM CLIENT VERSION.
// CLIENT is "sdk" (the long-standing client, which only knows the handshake) or "client" (the newest). What it sees is
// checked here; the last line says "ok VERSION".
import assert from "node:assert/strict";
import * as newest from "@modelcontextprotocol/client";
import { StdioClientTransport as NewestTransport } from "@modelcontextprotocol/client/stdio";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [program, which, version] = process.argv.slice(2);
const modern = version >= "2026";
const about = { name: "story", version: "1" };
const options = { command: program, env: process.env, stderr: "inherit" };
let client, transport;
if (which === "sdk") {
  client = new Client(about);
  transport = new StdioClientTransport(options);
} else {
  client = new newest.Client(about, modern ? { versionNegotiation: { mode: "auto" } } : {});
  transport = new NewestTransport(options);
}
// The client always asks for its newest version of the handshake: here it asks for that of the test.
const send = transport.send.bind(transport);
transport.send = (message, ...more) => {
  if (message.method === "initialize") message = { ...message, params: { ...message.params, protocolVersion: version } };
  return send(message, ...more);
};
await client.connect(transport);
assert.equal(client.getServerVersion()?.name, "agent-sandbox");
assert.match(client.getInstructions(), /sandbox_create/);

const { tools } = await client.listTools();
assert.equal(tools.length, 10);
const structured = version >= "2025-06-18";
async function call(name, args, more) {
  const ask = { name, arguments: args };
  const result = which === "sdk" ? await client.callTool(ask, undefined, more) : await client.callTool(ask, more);
  assert.ok(!result.isError, JSON.stringify(result));
  assert.equal("structuredContent" in result, structured);
  try {
    return JSON.parse(result.content[0].text);
  } catch {
    return result.content[0].text;
  }
}

const box = await call("sandbox_create", { timeout_seconds: 300 });
const me = { sandbox_id: box.id };
const made = [box.id];
try {
  assert.equal((await call("sandbox_exec", { ...me, command: "echo out; echo err >&2; exit 3" })).exit_code, 3);
  await call("sandbox_write_file", { ...me, path: "d/ü.txt", content: "grüße\n" });
  assert.equal(await call("sandbox_read_file", { ...me, path: "d/ü.txt" }), "grüße\n");
  assert.deepEqual((await call("sandbox_list_files", { ...me, path: "d" })).map((f) => f.name), ["ü.txt"]);
  const snapshot = await call("sandbox_snapshot", { ...me, name: "n" });
  console.log(`snapshot ${snapshot.id}`);
  await call("sandbox_exec", { ...me, command: "rm -r d" });
  assert.equal((await call("sandbox_rollback", { ...me, snapshot_id: snapshot.id })).id, box.id);
  const fork = await call("sandbox_fork", { snapshot_id: snapshot.id, timeout_seconds: 300 });
  made.push(fork.id);
  assert.equal(await call("sandbox_read_file", { sandbox_id: fork.id, path: "d/ü.txt" }), "grüße\n");

  const told = [];
  await call("sandbox_exec", { ...me, command: "for i in 1 2 3; do echo step $i; sleep 0.4; done" }, { onprogress: (p) => told.push(p) });
  assert.ok(told.length >= 2, JSON.stringify(told));

  const stop = new AbortController();
  setTimeout(() => stop.abort("enough"), 300);
  await assert.rejects(call("sandbox_exec", { ...me, command: "exec sleep 888.5" }, { signal: stop.signal }));
  let left = "sleep";
  for (let i = 0; i < 50 && left !== ""; i++) left = (await call("sandbox_exec", { ...me, command: "cat /proc/[0-9]*/comm | grep -x sleep; true" })).stdout;
  assert.equal(left, "");

  const many = await Promise.all([1, 2, 3, 4, 5].map((i) => call("sandbox_exec", { ...me, command: `sleep 0.3; echo ${i}` })));
  assert.deepEqual(many.map((r) => r.stdout), ["1\n", "2\n", "3\n", "4\n", "5\n"]);

  const refused = await client.callTool({ name: "sandbox_exec", arguments: { sandbox_id: "sb_0123456789abcdef", command: "true" } });
  assert.ok(refused.isError && /sb_0123456789abcdef not found/.test(refused.content[0].text), JSON.stringify(refused));
  await assert.rejects(client.callTool({ name: "no_such_tool", arguments: {} }));

  await call("sandbox_write_file", { ...me, path: "top.txt", content: "top" });
  const { resources } = await client.listResources();
  const uri = `sandbox://${box.id}/workspace/top.txt`;
  assert.ok(resources.some((r) => r.uri === uri));
  assert.equal((await client.readResource({ uri })).contents[0].text, "top");
  assert.equal((await client.listResourceTemplates()).resourceTemplates.length, 1);
} finally {
  for (const id of made) assert.equal(await call("sandbox_destroy", { sandbox_id: id }), `destroyed ${id}`);
}
const seen = which === "client" ? client.getNegotiatedProtocolVersion?.() : version;
await client.close();
console.log(`ok ${seen}`);
