// What becomes of answers: those of the server, and those that are not its own.
import assert from "node:assert/strict";
import { createServer } from "node:net";
import { test } from "node:test";
import * as sdk from "agent-sandbox-sdk";
import { FILE, ID, RESULT, SANDBOX, SNAPSHOT, chunks, head, hostile, json, nobody, refused } from "./hostile.mjs";

const { SandboxClient } = sdk;
const KEY = "unit-key-0123456789";
const connect = (url, more) => new SandboxClient({ baseUrl: url, apiKey: KEY, retries: 0, timeoutSeconds: 20, ...more });

/** The error of a promise, which must be of this class and not of one below it. */
async function fails(promise, type) {
  try {
    await promise;
  } catch (error) {
    assert.equal(error.constructor, type, `${error.name}: ${error.message}`);
    assert.ok(!error.message.includes(KEY) && !/[\p{Cc}\u202e]/u.test(error.message), error.message);
    return error;
  }
  return assert.fail(`no ${type.name}`);
}

test("answers_become_objects_in_the_names_of_this_language", async (t) => {
  const server = await hostile(t, ({ path }) => {
    if (path === "/healthz") return json(200, { status: "ok", backend: "docker", version: "1", confinement: "full" });
    if (path.includes("/exec"))
      return json(200, { ...RESULT, exit_code: 3, usage: { cpu_ms: 4, peak_memory_bytes: null }, oom_killed: false });
    if (path.startsWith("/v1/snapshots?")) return json(200, { snapshots: [SNAPSHOT], next_cursor: null });
    if (path.includes("/list")) return json(200, { path: "/workspace", entries: [FILE] });
    if (path.startsWith("/v1/sandboxes?")) return json(200, { sandboxes: [SANDBOX] });
    return json(path === "/v1/sandboxes" ? 201 : 200, SANDBOX);
  });
  const client = connect(server.url + "/");
  assert.deepEqual(await client.health(), { status: "ok", backend: "docker", version: "1", confinement: "full", workspaceQuota: null });
  const sandbox = await client.create({ memoryMb: 64, readOnlyRootfs: false, image: null, env: { A_B: "c" } });
  assert.deepEqual(JSON.parse(server.seen[1].body), { memory_mb: 64, read_only_rootfs: false, env: { A_B: "c" } });
  assert.deepEqual(
    [sandbox.id, sandbox.status, sandbox.data.memoryMb, sandbox.data.readOnlyRootfs, sandbox.sourceSnapshotId, sandbox.data.labels],
    [ID, "running", 512, true, null, { a: "b" }],
  );
  assert.deepEqual(await sandbox.exec(["a", "b"], { workdir: "/", timeoutSeconds: 5, detail: true }), {
    stdout: "hi\n",
    stderr: "",
    exitCode: 3,
    timedOut: false,
    truncated: false,
    durationMs: 2,
    ok: false,
    oomKilled: false,
    usage: { cpuMs: 4, peakMemoryBytes: null },
  });
  assert.equal(server.seen[2].path, `/v1/sandboxes/${ID}/exec?detail=true`);
  assert.deepEqual(JSON.parse(server.seen[2].body), { command: ["a", "b"], workdir: "/", timeout_seconds: 5 });
  assert.deepEqual((await client.listSnapshots(ID))[0].sizeBytes, 10240);
  assert.deepEqual(await sandbox.listFiles("ü &?"), [
    { name: "f", path: "/workspace/f", type: "file", size: 3, modifiedAt: FILE.modified_at },
  ]);
  assert.equal(server.seen[4].path, `/v1/sandboxes/${ID}/files/list?path=${encodeURIComponent("ü &?")}`);
  assert.deepEqual(
    (await client.listSandboxes({ label: "a=b" })).map((s) => s.id),
    [ID],
  );
  assert.equal(server.seen[5].path, "/v1/sandboxes?label=a%3Db");
  assert.ok(server.seen.every((request) => request.headers.authorization === `Bearer ${KEY}`));
});

test("refusals_are_typed_and_carry_code_text_and_request", async (t) => {
  const kinds = [
    [400, sdk.SandboxAPIError],
    [401, sdk.SandboxAuthError],
    [403, sdk.SandboxAuthError],
    [404, sdk.SandboxNotFoundError],
    [409, sdk.SandboxAPIError],
    [410, sdk.SandboxNotFoundError],
    [422, sdk.SandboxAPIError],
    [429, sdk.SandboxLimitError],
    [500, sdk.SandboxAPIError],
    [507, sdk.SandboxAPIError],
  ];
  for (const [status, type] of kinds) {
    const server = await hostile(t, () => refused(status, "some_code", "do this next", { "X-Request-Id": "req_1" }));
    const error = await fails(connect(server.url).get(ID), type);
    assert.ok(error instanceof sdk.SandboxAPIError && error instanceof sdk.SandboxError && error instanceof Error);
    assert.deepEqual([error.statusCode, error.code, error.message, error.requestId], [status, "some_code", "do this next", "req_1"]);
    assert.equal(error.name, type.name);
  }
  assert.equal(new sdk.SandboxAPIError(400, "c", "m", { requestId: "r\x9b31m\n" }).requestId, "r\ufffd31m");
});

test("a_429_says_when_to_come_back_and_is_never_repeated", async (t) => {
  const soon = new Date(Date.now() + 30_000).toUTCString();
  for (const [said, least, most] of [
    ["7", 7, 7],
    [soon, 20, 31],
    ["soon", undefined, undefined],
    ["", undefined, undefined],
  ]) {
    const server = await hostile(t, () => refused(429, "limit_exceeded", "too many sandboxes", said === "" ? {} : { "Retry-After": said }));
    const error = await fails(connect(server.url, { retries: 3 }).create(), sdk.SandboxLimitError);
    if (least === undefined) assert.equal(error.retryAfter, undefined);
    else assert.ok(error.retryAfter >= least && error.retryAfter <= most, String(error.retryAfter));
    assert.equal(server.seen.length, 1);
  }
});

test("texts_of_others_are_one_line_without_control_characters", async (t) => {
  const evil = "a\u001b[2J\r\nb\u0000\u202ec\u0007\u009b31m";
  const server = await hostile(t, () => refused(400, "x\u001b", evil));
  const error = await fails(connect(server.url).get(ID), sdk.SandboxAPIError);
  assert.ok(!/[\p{Cc}\u202e]/u.test(error.message + error.code) && error.message.startsWith("a"), JSON.stringify(error.message));
});

test("a_server_that_is_down_is_unreachable", async () => {
  const error = await fails(connect(`http://127.0.0.1:${await nobody()}`).health(), sdk.SandboxUnreachableError);
  assert.match(error.message, /^cannot reach http:\/\/127\.0\.0\.1:\d+: /);
  await fails(connect("http://no-such-host.invalid").health(), sdk.SandboxUnreachableError);
});

test("tls_that_fails_is_unreachable", async (t) => {
  const server = createServer((socket) => socket.on("error", () => undefined).end("HTTP/1.1 400 no\r\n\r\n"));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  await fails(connect(`https://127.0.0.1:${server.address().port}`).health(), sdk.SandboxUnreachableError);
});

test("redirects_are_not_followed_and_take_no_key_along", async (t) => {
  const other = await hostile(t, () => json(200, SANDBOX));
  for (const status of [301, 302, 303, 307, 308]) {
    const server = await hostile(t, () => head(status, { Location: `${other.url}/v1\u00e9`, "Content-Length": 0 }));
    const error = await fails(connect(server.url, { retries: 3 }).create(), sdk.SandboxRedirectError);
    assert.ok(error instanceof sdk.SandboxAnswerError && error.message.includes("redirects"));
    assert.equal(server.seen.length, 1);
  }
  assert.equal(other.seen.length, 0);
});

test("answers_that_are_not_this_apis_are_said_to_be_so", async (t) => {
  const html = "<html>\u001b[31mBad Gateway</html>";
  const answers = {
    "a page with 200": head(200, { "Content-Type": "text/html", "Content-Length": html.length }) + html,
    "a page with 502": head(502, { "Content-Type": "text/html", "Content-Length": html.length }) + html,
    "an empty 200": head(200, { "Content-Length": 0 }),
    "an empty 404": head(404, { "Content-Length": 0 }),
    "JSON of another kind": json(200, { hello: "world" }),
    "a list": json(200, []),
    null: json(200, "null"),
    "an error of another kind": json(404, { error: "nope" }),
    "an error that is null": json(500, "null"),
    "invalid UTF-8": Buffer.concat([Buffer.from(head(200, { "Content-Length": 4 })), Buffer.from([0x22, 0xff, 0xfe, 0x22])]),
    "no HTTP": "SSH-2.0-OpenSSH_9.2\r\n",
  };
  for (const [what, answer] of Object.entries(answers)) {
    const server = await hostile(t, () => answer);
    const error = await fails(connect(server.url, { retries: 2 }).get(ID), sdk.SandboxAnswerError);
    assert.ok(error.message.includes(server.url), what);
    assert.equal(server.seen.length, 1, what);
  }
});

test("an_answer_that_is_cut_off_is_a_lost_connection", async (t) => {
  const whole = json(200, RESULT);
  const answers = {
    "no answer": "",
    "half a head": "HTTP/1.1 200 OK\r\nContent-Le",
    "half a body": whole.subarray(0, whole.length - 10),
    "chunks without an end": chunks(['{"stdout": "'], { type: "application/json", end: false }),
    "an error cut off": refused(409, "conflict", "busy").subarray(0, -5),
  };
  for (const [what, answer] of Object.entries(answers)) {
    const server = await hostile(t, (request, n) => (n === 1 ? json(200, SANDBOX) : answer));
    const client = connect(server.url, { retries: 3 });
    const sandbox = await client.get(ID);
    await fails(sandbox.exec("true"), sdk.SandboxConnectionLostError);
    assert.equal(server.seen.length, 2, `${what}: a command is never sent twice`);
  }
});

test("a_silent_server_is_given_up", async (t) => {
  const server = await hostile(t, () => undefined);
  const error = await fails(connect(server.url, { timeoutSeconds: 0.2, retries: 3 }).get(ID), sdk.SandboxTimeoutError);
  assert.match(error.message, /0\.2 s/);
  assert.equal(server.seen.length, 1);
  const half = await hostile(t, async function* () {
    yield head(200, { "Content-Length": 100 }) + "{";
    await new Promise((resolve) => setTimeout(resolve, 5000).unref());
  });
  await fails(connect(half.url, { timeoutSeconds: 0.2 }).get(ID), sdk.SandboxTimeoutError);
});

const AGENT = Symbol.for("undici.globalDispatcher.1");
void globalThis.Headers;

test(
  "the_runtime_gives_up_no_sooner_than_the_client",
  { skip: globalThis[AGENT] === undefined && "this runtime has no limit to lift" },
  async (t) => {
    const usual = globalThis[AGENT];
    t.after(() => (globalThis[AGENT] = usual));
    globalThis[AGENT] = new usual.constructor({ headersTimeout: 300, bodyTimeout: 300 });
    const server = await hostile(t, async function* () {
      await new Promise((resolve) => setTimeout(resolve, 2500));
      const whole = json(200, SANDBOX);
      yield whole.subarray(0, -5);
      await new Promise((resolve) => setTimeout(resolve, 2500));
      yield whole.subarray(-5);
    });
    await assert.rejects(async () => (await fetch(server.url)).text(), "the limits of the runtime are in force");
    assert.equal((await connect(server.url).get(ID)).id, ID);
  },
);

test("a_signal_ends_a_call_with_its_own_reason", async (t) => {
  const server = await hostile(t, async function* ({ path }) {
    if (path === "/healthz") yield head(200, { "Content-Length": 100 }) + "{";
    await new Promise((resolve) => setTimeout(resolve, 5000).unref());
  });
  const mine = new Error("mine");
  const client = connect(server.url);
  await assert.rejects(client.get(ID, { signal: AbortSignal.abort(mine) }), (error) => error === mine);
  assert.equal(server.seen.length, 0);
  for (const call of [(signal) => client.get(ID, { signal }), (signal) => client.health({ signal })]) {
    const control = new AbortController();
    setTimeout(() => control.abort(mine), 50);
    await assert.rejects(call(control.signal), (error) => error === mine);
  }
  const plain = new AbortController();
  setTimeout(() => plain.abort(), 50);
  await assert.rejects(client.get(ID, { signal: plain.signal }), (error) => error.name === "AbortError");
});

test("a_signal_ends_the_pause_between_two_tries", async (t) => {
  const server = await hostile(t, () => refused(503, "unavailable", "starting", { "Retry-After": 5 }));
  const control = new AbortController();
  setTimeout(() => control.abort(new Error("mine")), 100);
  const began = Date.now();
  await assert.rejects(connect(server.url, { retries: 3 }).get(ID, { signal: control.signal }), /mine/);
  assert.ok(Date.now() - began < 4000);
});

test("reads_are_repeated_when_the_connection_breaks", async (t) => {
  for (const broken of ["", json(200, SANDBOX).subarray(0, -9)]) {
    const server = await hostile(t, (request, n) => (n < 3 ? broken : json(200, SANDBOX)));
    assert.equal((await connect(server.url, { retries: 2 }).get(ID)).id, ID);
    assert.equal(server.seen.length, 3);
  }
});

test("a_create_is_repeated_with_the_same_key_and_body", async (t) => {
  const server = await hostile(t, (request, n) => (n === 1 ? "" : json(201, SANDBOX)));
  await connect(server.url, { retries: 2 }).create({ image: "x" });
  const [first, second] = server.seen;
  assert.match(first.headers["idempotency-key"], /^[0-9a-f]{32}$/);
  assert.deepEqual([second.headers["idempotency-key"], String(second.body)], [first.headers["idempotency-key"], String(first.body)]);
  await connect(server.url).create({ idempotencyKey: "mine" });
  await connect(server.url).create();
  const [, , third, fourth] = server.seen.map((request) => request.headers["idempotency-key"]);
  assert.equal(third, "mine");
  assert.notEqual(fourth, first.headers["idempotency-key"]);
});

test("a_fork_is_repeated_with_the_same_key", async (t) => {
  const server = await hostile(t, (request, n) => (n === 1 ? "" : json(201, SANDBOX)));
  await connect(server.url, { retries: 1 }).fork("snap_1", { cpus: 0.5 });
  assert.equal(server.seen[0].headers["idempotency-key"], server.seen[1].headers["idempotency-key"]);
  assert.deepEqual([server.seen[0].path, JSON.parse(server.seen[0].body)], ["/v1/snapshots/snap_1/fork", { cpus: 0.5 }]);
});

test("a_snapshot_and_a_rollback_are_sent_once", async (t) => {
  const server = await hostile(t, (request, n) => (n === 1 ? json(200, SANDBOX) : ""));
  const sandbox = await connect(server.url, { retries: 3 }).get(ID);
  await fails(sandbox.snapshot("x"), sdk.SandboxConnectionLostError);
  await fails(sandbox.rollback("snap_1"), sdk.SandboxConnectionLostError);
  assert.equal(server.seen.length, 3);
});

test("a_busy_server_is_asked_again_if_it_says_soon", async (t) => {
  const soon = await hostile(t, (request, n) =>
    n === 1 ? refused(503, "unavailable", "starting", { "Retry-After": 1 }) : json(200, SANDBOX),
  );
  await connect(soon.url, { retries: 2 }).get(ID);
  assert.equal(soon.seen.length, 2);
  const late = await hostile(t, () => refused(503, "unavailable", "starting", { "Retry-After": 60 }));
  const error = await fails(connect(late.url, { retries: 2 }).get(ID), sdk.SandboxAPIError);
  assert.deepEqual([error.statusCode, error.retryAfter, late.seen.length], [503, 60, 1]);
});

test("what_was_not_sent_is_tried_again_whatever_it_is", async (t) => {
  let tries = 0;
  const server = await hostile(t, () => json(200, RESULT));
  const down = Object.assign(new TypeError("fetch failed"), { cause: Object.assign(new Error("connect"), { code: "ECONNREFUSED" }) });
  const flaky = async (url, init) => {
    if (init.method === "POST" && ++tries < 3) throw down;
    return url.endsWith(ID) ? new Response(JSON.stringify(SANDBOX)) : fetch(url, init);
  };
  const sandbox = await connect(server.url, { retries: 2, fetch: flaky }).get(ID);
  assert.equal((await sandbox.exec("true")).ok, true);
  assert.deepEqual([tries, server.seen.length], [3, 1]);
});

test("a_destroy_that_is_repeated_may_find_nothing", async (t) => {
  const server = await hostile(t, ({ method }, n) => {
    if (method === "GET") return json(200, SANDBOX);
    return n === 2 ? "" : refused(404, "not_found", "sandbox not found");
  });
  const sandbox = await connect(server.url, { retries: 2 }).get(ID);
  await sandbox.destroy();
  assert.equal(server.seen.length, 3);
  await fails(sandbox.destroy(), sdk.SandboxNotFoundError);
});

test("await_using_destroys_and_does_not_mind_what_is_gone", async (t) => {
  const server = await hostile(t, ({ method }, n) => {
    if (method !== "DELETE") return json(200, SANDBOX);
    return n === 2 ? head(204) : n === 3 ? refused(404, "not_found", "sandbox not found") : refused(502, "backend_error", "engine");
  });
  const sandbox = await connect(server.url).get(ID);
  await sandbox[Symbol.asyncDispose]();
  await sandbox[Symbol.asyncDispose]();
  assert.deepEqual(
    server.seen.slice(1).map((request) => request.method),
    ["DELETE", "DELETE"],
  );
  await fails(sandbox[Symbol.asyncDispose](), sdk.SandboxAPIError);
});

test("wrong_addresses_and_keys_are_refused_without_showing_them", () => {
  for (const options of [
    { baseUrl: "nonsense" },
    { baseUrl: "ftp://x" },
    { baseUrl: "http://x?key=secret-secret" },
    { baseUrl: "http://x", apiKey: "secret\nsecret" },
    { baseUrl: "http://x", apiKey: "sécret" },
    { baseUrl: "http://x", apiKey: "" },
    { baseUrl: "http://x", timeoutSeconds: 0 },
    { baseUrl: "http://x", timeoutSeconds: NaN },
    { baseUrl: "http://x", retries: -1 },
    { baseUrl: "http://x:secret secret@" },
  ]) {
    assert.throws(
      () => new SandboxClient(options),
      (error) => error instanceof sdk.SandboxConfigError && !/s.cret/.test(error.message),
      JSON.stringify(options),
    );
  }
});

test("a_key_in_the_address_is_used_and_not_shown", async (t) => {
  const server = await hostile(t, () => json(200, SANDBOX));
  const client = new SandboxClient({ baseUrl: `http://box:${encodeURIComponent(KEY + "/%")}@127.0.0.1:${server.port}/` });
  assert.equal(client.baseUrl, server.url);
  await client.get(ID);
  assert.equal(server.seen[0].headers.authorization, `Bearer ${KEY}/%`);
});

test("an_address_with_a_path_keeps_it", async (t) => {
  const server = await hostile(t, () => json(200, SANDBOX));
  await connect(`${server.url}/box//`).get(ID);
  assert.equal(server.seen[0].path, `/box/v1/sandboxes/${ID}`);
});

test("arguments_that_cannot_be_are_refused_before_anything_is_sent", async (t) => {
  const server = await hostile(t, () => json(200, SANDBOX));
  const client = connect(server.url);
  const sandbox = await client.get(ID);
  const wrong = [
    () => client.get(undefined),
    () => client.create({ cpus: NaN }),
    () => sandbox.exec("true", { timeoutSeconds: Infinity }),
    () => sandbox.writeFile("f", 5),
    () => sandbox.writeFile("f", null),
    () => sandbox.writeFile("f", "x", { mode: 0.5 }),
    () => sandbox.writeFile("f", "\ud800"),
    () => sandbox.readFile("f", { offset: -1 }),
    () => sandbox.readFile("f", { length: 0 }),
  ];
  for (const call of wrong) await assert.rejects(call, TypeError, String(call));
  assert.equal(server.seen.length, 1);
});

test("an_id_cannot_lead_to_another_path", async (t) => {
  const server = await hostile(t, () => json(200, SANDBOX));
  for (const id of ["", ".", "..", "../snapshots", "sb_1/files", "sb_1?x", "sb_1#", "sb_1%2f", "x\n", "ü"]) {
    await fails(connect(server.url).get(id), sdk.SandboxNotFoundError);
    await fails(connect(server.url).deleteSnapshot(id), sdk.SandboxNotFoundError);
    await fails(connect(server.url).fork(id), sdk.SandboxNotFoundError);
  }
  assert.equal(server.seen.length, 0);
});
