// Commands whose output comes as a stream, cut and broken in every way.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as sdk from "agent-sandbox-sdk";
import { EXIT, ID, SANDBOX, chunks, head, hostile, json, line, refused } from "./hostile.mjs";

const OUT = { type: "stdout", data: "grüße 𝄞 \u0000\u001b[31m" };
const EXITED = { type: "exit", exitCode: 0, timedOut: false, durationMs: 3 };

async function begin(t, answer, more = {}) {
  const server = await hostile(t, (request, n, socket) => (n === 1 ? json(200, SANDBOX) : answer(request, n, socket)));
  const client = new sdk.SandboxClient({ baseUrl: server.url, retries: 3, timeoutSeconds: 20, ...more });
  return { server, sandbox: await client.get(ID) };
}

/** The events of a stream, and the error with which it ended. */
async function all(stream) {
  const events = [];
  try {
    for await (const event of stream) events.push(event);
  } catch (error) {
    return { events, error };
  }
  return { events };
}

test("a_stream_gives_its_events_however_the_bytes_are_cut", async (t) => {
  const text = Buffer.from(line(OUT) + line({ type: "stderr", data: "e" }) + "\r\n" + line(EXIT));
  for (const size of [1, 2, 3, 7, 1000]) {
    const pieces = [];
    for (let at = 0; at < text.length; at += size) pieces.push(text.subarray(at, at + size));
    const { sandbox } = await begin(t, () => chunks(pieces, { pause: 0 }));
    assert.deepEqual(await all(sandbox.execStream("x")), { events: [OUT, { type: "stderr", data: "e" }, EXITED] });
  }
});

test("events_come_as_they_are_sent_and_not_at_the_end", async (t) => {
  let go;
  const gate = new Promise((resolve) => (go = resolve));
  const { sandbox } = await begin(t, async function* () {
    yield head(200, { "Content-Type": "application/x-ndjson" }) + line({ type: "stdout", data: "first" });
    await gate;
    yield line(EXIT);
  });
  for await (const event of sandbox.execStream("x")) if (event.type === "stdout") go();
});

test("nothing_is_sent_before_the_first_step", async (t) => {
  const { server, sandbox } = await begin(t, () => chunks([line(EXIT)]));
  const stream = sandbox.execStream("x");
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(server.seen.length, 1);
  assert.deepEqual(await stream.next(), { done: false, value: EXITED });
  assert.equal((await stream.next()).done, true);
});

test("a_stream_that_ends_without_an_exit_is_a_lost_connection", async (t) => {
  const half = line(EXIT).slice(0, -10);
  for (const [pieces, options] of [
    [[line(OUT)], { end: true }],
    [[line(OUT)], { end: false }],
    [[line(OUT), half], { end: false }],
    [[line(OUT), half], { end: true }],
  ]) {
    const { server, sandbox } = await begin(t, () => chunks(pieces, options));
    const { events, error } = await all(sandbox.execStream("x"));
    assert.deepEqual(events, [OUT]);
    assert.equal(error?.constructor, sdk.SandboxConnectionLostError, String(error));
    assert.equal(server.seen.length, 2, "a command is never sent twice");
  }
});

test("a_stream_that_the_server_could_not_complete_says_why", async (t) => {
  const { sandbox } = await begin(t, () => chunks([line(OUT) + line({ type: "error", data: "sandbox \u001b[2J was destroyed" })]));
  const { events, error } = await all(sandbox.execStream("x"));
  assert.deepEqual(events, [OUT]);
  assert.equal(error.constructor, sdk.SandboxInterruptedError);
  assert.match(error.message, /^sandbox .*was destroyed$/);
  assert.ok(!error.message.includes("\u001b"));
});

test("what_is_no_stream_of_events_is_not_this_apis_answer", async (t) => {
  const answers = [
    ["<html>\n"],
    ["[1]\n"],
    ["null\n"],
    [line({ type: "stdout" })],
    [line({ type: "exit" })],
    [line({ data: "x" })],
    [Buffer.from([0x22, 0xff, 0x22, 0x0a])],
  ];
  for (const pieces of answers) {
    const { sandbox } = await begin(t, () => chunks([line(OUT), ...pieces]));
    const { events, error } = await all(sandbox.execStream("x"));
    assert.deepEqual(events, [OUT]);
    assert.equal(error?.constructor, sdk.SandboxAnswerError, `${pieces}: ${error}`);
  }
});

test("events_before_a_broken_line_in_the_same_piece_are_given", async (t) => {
  const { sandbox } = await begin(t, () => chunks([line(OUT) + "nonsense\n"]));
  const { events, error } = await all(sandbox.execStream("x"));
  assert.deepEqual([events, error.constructor], [[OUT], sdk.SandboxAnswerError]);
});

test("a_line_without_end_is_given_up", async (t) => {
  const piece = Buffer.alloc(1024 * 1024, "x");
  const { sandbox } = await begin(t, () =>
    chunks(
      (function* () {
        for (let i = 0; i < 40; i++) yield piece;
      })(),
      { pause: 0 },
    ),
  );
  assert.equal((await all(sandbox.execStream("x"))).error.constructor, sdk.SandboxAnswerError);
});

test("events_of_a_kind_that_is_not_known_are_passed_over", async (t) => {
  const { sandbox } = await begin(t, () => chunks([line({ type: "weather", data: 1 }) + line({ ...EXIT, new: 1, signal: "SEGV" })]));
  assert.deepEqual(await all(sandbox.execStream("x")), { events: [{ ...EXITED, signal: "SEGV" }] });
});

test("nothing_comes_after_the_exit", async (t) => {
  const { sandbox } = await begin(t, () => chunks([line(EXIT) + line(OUT), line(OUT)]));
  assert.deepEqual(await all(sandbox.execStream("x")), { events: [EXITED] });
});

test("a_refusal_of_a_stream_is_typed", async (t) => {
  const { sandbox } = await begin(t, () => refused(404, "not_found", "sandbox not found"));
  assert.equal((await all(sandbox.execStream("x"))).error.constructor, sdk.SandboxNotFoundError);
});

for (const [how, leave] of [
  [
    "leaving_the_loop",
    async (stream) => {
      for await (const event of stream) if (event) break;
    },
  ],
  [
    "an_error_in_the_loop",
    async (stream) =>
      assert.rejects(async () => {
        for await (const event of stream) throw new Error(event.type);
      }, /stdout/),
  ],
  [
    "returning_from_the_stream",
    async (stream) => {
      await stream.next();
      await stream.return();
    },
  ],
]) {
  test(`${how}_closes_the_connection`, async (t) => {
    let closed;
    const gone = new Promise((resolve) => (closed = resolve));
    const { sandbox } = await begin(t, async function* (request, n, socket) {
      socket.on("close", closed);
      yield head(200, { "Content-Type": "application/x-ndjson" }) + line(OUT);
      await gone;
    });
    await leave(sandbox.execStream("x"));
    await gone;
  });
}

test("a_signal_ends_a_stream_with_its_own_reason", async (t) => {
  let closed;
  const gone = new Promise((resolve) => (closed = resolve));
  const { sandbox } = await begin(t, async function* (request, n, socket) {
    socket.on("close", closed);
    yield head(200, { "Content-Type": "application/x-ndjson" }) + line(OUT);
    await gone;
  });
  const control = new AbortController();
  const mine = new Error("mine");
  await assert.rejects(
    async () => {
      for await (const event of sandbox.execStream("x", { signal: control.signal })) if (event) setTimeout(() => control.abort(mine), 30);
    },
    (error) => error === mine,
  );
  await gone;
});

test("a_silent_stream_is_given_up_and_a_slow_reader_is_not", async (t) => {
  const { sandbox } = await begin(
    t,
    async function* () {
      yield head(200, { "Content-Type": "application/x-ndjson" }) + line(OUT);
      await new Promise((resolve) => setTimeout(resolve, 5000).unref());
    },
    { timeoutSeconds: 0.3 },
  );
  assert.equal((await all(sandbox.execStream("x"))).error.constructor, sdk.SandboxTimeoutError);
  const slow = await begin(t, () => chunks([line(OUT) + line(EXIT)], { pause: 0 }), { timeoutSeconds: 0.3 });
  let events = 0;
  for await (const event of slow.sandbox.execStream("x")) {
    if (event) events++;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  assert.equal(events, 2);
});

test("the_time_of_the_command_is_added_to_the_patience", async (t) => {
  const { sandbox } = await begin(
    t,
    async function* () {
      yield head(200, { "Content-Type": "application/x-ndjson" });
      await new Promise((resolve) => setTimeout(resolve, 600));
      yield line(EXIT);
    },
    { timeoutSeconds: 0.2 },
  );
  assert.deepEqual(await all(sandbox.execStream("x", { timeoutSeconds: 10 })), { events: [EXITED] });
});

test("standard_input_of_every_kind_reaches_the_command", async (t) => {
  async function* generated() {
    yield Buffer.from("a");
    await new Promise((resolve) => setTimeout(resolve, 20));
    yield Buffer.from("b");
  }
  const big = "ü".repeat(100_000);
  for (const [stdin, sent] of [
    [Buffer.from([0, 255]), Buffer.from([0, 255])],
    [generated(), Buffer.from("ab")],
    [new Blob(["blob"]), Buffer.from("blob")],
    [new Blob(["stream"]).stream(), Buffer.from("stream")],
    [big, Buffer.from(big)],
  ]) {
    const { server, sandbox } = await begin(t, () => chunks([line(EXIT)]));
    await all(sandbox.execStream(["cät"], { stdin, env: { A: "b" }, detail: true }));
    assert.deepEqual(server.seen[1].body, sent);
    const query = new URL(server.seen[1].path, server.url).searchParams;
    assert.match(query.get("request"), /^[A-Za-z0-9_-]+$/);
    assert.deepEqual(JSON.parse(Buffer.from(query.get("request"), "base64url")), { command: ["cät"], env: { A: "b" } });
    assert.equal(query.get("detail"), "true");
  }
  const { server, sandbox } = await begin(t, () => chunks([line(EXIT)]));
  await all(sandbox.execStream("cat", { stdin: "small" }));
  assert.deepEqual(JSON.parse(server.seen[1].body), { command: "cat", stdin: "small" });
});

test("an_error_of_the_standard_input_is_the_callers_own", async (t) => {
  const mine = new Error("mine");
  const { sandbox } = await begin(t, () => chunks([line(EXIT)]));
  const { error } = await all(
    sandbox.execStream("cat", {
      stdin: (async function* () {
        yield Buffer.from("a");
        throw mine;
      })(),
    }),
  );
  assert.equal(error, mine);
});
