// Files and archives on their way, in memory, as streams, and from and to the disk.
import assert from "node:assert/strict";
import {
  chmodSync,
  createReadStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { execFileSync } from "node:child_process";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import * as sdk from "agent-sandbox-sdk/node";
import { FILE, ID, SANDBOX, chunks, head, hostile, json, refused } from "./hostile.mjs";

const KEY = "unit-key-0123456789";

async function begin(t, answer, more = {}) {
  const server = await hostile(t, (request, n, socket) => (n === 1 ? json(200, SANDBOX) : answer(request, n, socket)));
  const client = new sdk.SandboxClient({ baseUrl: server.url, apiKey: KEY, retries: 2, timeoutSeconds: 20, ...more });
  return { server, sandbox: await client.get(ID) };
}

function folder(t) {
  const path = mkdtempSync(join(tmpdir(), "sdk-"));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

const bytes = (content, length = Buffer.byteLength(content)) =>
  Buffer.concat([Buffer.from(head(200, { "Content-Type": "application/octet-stream", "Content-Length": length })), Buffer.from(content)]);

async function collect(stream) {
  const pieces = [];
  for await (const piece of stream) pieces.push(piece);
  return Buffer.concat(pieces);
}

test("a_file_is_read_whole_in_part_as_text_and_as_a_stream", async (t) => {
  const { server, sandbox } = await begin(t, () => bytes("\ufeffgrüße"));
  const content = Buffer.from("\ufeffgrüße");
  assert.deepEqual(Buffer.from(await sandbox.readFile("a b/ü")), content);
  assert.equal(server.seen[1].path, `/v1/sandboxes/${ID}/files?path=a%20b%2F%C3%BC`);
  assert.equal(await sandbox.readText("f"), "\ufeffgrüße");
  assert.deepEqual(await collect(await sandbox.readStream("f")), content);
  await sandbox.readFile("f", { offset: 5 });
  await sandbox.readFile("f", { length: 3 });
  await sandbox.readFile("f", { offset: 5, length: 3 });
  assert.deepEqual(
    server.seen.slice(-3).map((request) => request.headers.range),
    ["bytes=5-", "bytes=0-2", "bytes=5-7"],
  );
  assert.equal((await (await begin(t, () => bytes(""))).sandbox.readFile("f")).length, 0);
});

test("bytes_that_are_no_text_are_not_made_into_one", async (t) => {
  const { sandbox } = await begin(t, () => bytes(Buffer.from([0x61, 0xff, 0x62])));
  await assert.rejects(
    sandbox.readText("f\u001b"),
    (error) => error instanceof sdk.SandboxDecodeError && !error.message.includes("\u001b"),
  );
  assert.equal(await sandbox.readText("f", { encoding: "latin1" }), "aÿb");
});

test("a_download_that_is_cut_is_an_error_and_never_a_shorter_file", async (t) => {
  const cut = () => bytes("half", 100);
  const { sandbox } = await begin(t, cut);
  await assert.rejects(sandbox.readFile("f"), sdk.SandboxConnectionLostError);
  await assert.rejects(async () => collect(await sandbox.readStream("f")), sdk.SandboxConnectionLostError);
  const tar = Buffer.alloc(2048, 0);
  tar[0] = 0x61;
  for (const [pieces, end, whole] of [
    [[tar.subarray(0, 1024)], true, false],
    [[tar.subarray(0, 1024)], false, false],
    [[tar], true, true],
  ]) {
    const archive = await begin(t, () => chunks(pieces, { type: "application/x-tar", end }));
    const got = archive.sandbox.readArchive("d").then(collect);
    if (whole) assert.equal((await got).length, 2048);
    else await assert.rejects(got, sdk.SandboxConnectionLostError);
  }
});

test("downloads_tell_how_far_they_are", async (t) => {
  const seen = [];
  const { sandbox } = await begin(t, () => bytes("x".repeat(1000)));
  await sandbox.readFile("f", { progress: (...now) => seen.push(now) });
  await collect(await sandbox.readStream("f", { progress: (...now) => seen.push(now) }));
  assert.deepEqual(
    [seen[0], seen.at(-1)],
    [
      [0, 1000],
      [1000, 1000],
    ],
  );
  assert.equal(seen.filter(([done]) => done === 0).length, 2);
});

test("an_error_of_a_progress_function_ends_the_transfer_as_it_is", async (t) => {
  const mine = new Error("mine");
  const { sandbox } = await begin(t, ({ method }) => (method === "PUT" ? json(200, FILE) : bytes("x".repeat(1000))));
  const progress = (done) => {
    if (done > 0) throw mine;
  };
  const own = (error) => error === mine;
  await assert.rejects(sandbox.readFile("f", { progress }), own);
  await assert.rejects(async () => collect(await sandbox.readStream("f", { progress })), own);
  await assert.rejects(sandbox.writeFile("f", "abc", { progress }), own);
});

test("cancelling_a_stream_closes_the_connection", async (t) => {
  let closed;
  const gone = new Promise((resolve) => (closed = resolve));
  const { sandbox } = await begin(t, async function* (request, n, socket) {
    socket.on("close", closed);
    yield head(200, { "Content-Length": 1e6 }) + "x";
    await gone;
  });
  await (await sandbox.readStream("f")).cancel();
  await gone;
});

test("contents_of_every_kind_are_written", async (t) => {
  async function* generated() {
    yield Buffer.from("a");
    yield Buffer.from("b");
  }
  const kinds = [
    ["grüße", "grüße"],
    [Buffer.from("bytes"), "bytes"],
    [new Uint8Array([97]).buffer, "a"],
    [new Blob(["blob"]), "blob"],
    [new Blob(["stream"]).stream(), "stream"],
    [generated(), "ab"],
    [[Buffer.from("a"), Buffer.from("b")], "ab"],
    [() => generated(), "ab"],
    ["", ""],
  ];
  for (const [content, sent] of kinds) {
    for (const progress of [undefined, () => undefined]) {
      if (progress !== undefined && typeof content !== "string") continue;
      const { server, sandbox } = await begin(t, () => json(200, FILE));
      assert.equal((await sandbox.writeFile("f", content, { mode: 0o755, progress })).path, "/workspace/f");
      assert.equal(String(server.seen[1].body), sent);
      assert.equal(server.seen[1].path, `/v1/sandboxes/${ID}/files?path=f&mode=755`);
    }
  }
});

test("uploads_tell_how_far_they_are", async (t) => {
  const seen = [];
  const { sandbox } = await begin(t, () => json(200, FILE));
  await sandbox.writeFile("f", "x".repeat(600_000), { progress: (...now) => seen.push(now) });
  assert.deepEqual(seen, [
    [0, 600_000],
    [262_144, 600_000],
    [524_288, 600_000],
    [600_000, 600_000],
  ]);
});

test("only_contents_that_can_be_sent_again_are", async (t) => {
  const contents = [
    ["text", 3],
    [() => [Buffer.from("a")], 3],
    [[Buffer.from("a")].values(), 1],
    [new Blob(["a"]).stream(), 1],
  ];
  for (const [content, times] of contents) {
    const { server, sandbox } = await begin(t, () => "");
    await assert.rejects(sandbox.writeFile("f", content), sdk.SandboxConnectionLostError);
    assert.equal(server.seen.length - 1, times);
  }
});

test("an_upload_whose_source_fails_is_the_callers_error_and_closes_the_connection", async (t) => {
  const mine = new Error("mine");
  const { server, sandbox } = await begin(t, () => json(200, FILE));
  await assert.rejects(
    sandbox.writeFile(
      "f",
      (async function* () {
        yield Buffer.from("a");
        throw mine;
      })(),
    ),
    (error) => error === mine,
  );
  await assert.rejects(sandbox.writeFile("f", ["no bytes"]), TypeError);
  assert.equal(server.seen.length, 1, "no request came to its end");
});

test("a_redirect_of_a_streamed_upload_is_one_too", async (t) => {
  const { server, sandbox } = await begin(t, () => head(307, { Location: "/elsewhere", "Content-Length": 0 }));
  await assert.rejects(sandbox.writeFile("f", [Buffer.from("a")].values()), sdk.SandboxRedirectError);
  await assert.rejects(sandbox.writeFile("f", "a"), sdk.SandboxRedirectError);
  assert.equal(server.seen.length, 3);
});

test("memory_stays_flat_when_a_large_file_goes_up_and_comes_down", async (t) => {
  const at = folder(t);
  const size = 128 * 1024 * 1024;
  truncateSync((writeFileSync(join(at, "in"), ""), join(at, "in")), size);
  const server = createServer((asked, answer) => {
    if (asked.method === "GET" && !asked.url.includes("/files")) return answer.end(JSON.stringify(SANDBOX));
    if (asked.method === "GET") return createReadStream(join(at, "in")).pipe(answer.writeHead(200, { "content-length": size }));
    return asked.resume().on("end", () => answer.end(JSON.stringify(FILE)));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  const sandbox = await new sdk.SandboxClient({ baseUrl: `http://127.0.0.1:${server.address().port}`, apiKey: KEY }).get(ID);
  let most = 0;
  const progress = () => (most = Math.max(most, process.memoryUsage().rss));
  progress();
  const before = most;
  await sdk.upload(sandbox, join(at, "in"), "f", { progress });
  await sdk.download(sandbox, "f", join(at, "out"), { progress });
  assert.equal(statSync(join(at, "out")).size, size);
  assert.ok(most - before < size * 0.75, `${(most - before) >> 20} MiB more`);
});

test("a_refusal_during_an_upload_is_seen", async (t) => {
  const { sandbox } = await begin(t, () => refused(413, "payload_too_large", "the file is larger than 5 bytes"));
  await assert.rejects(sandbox.writeFile("f", "123456"), { statusCode: 413, code: "payload_too_large" });
});

test("a_file_of_the_disk_goes_up_and_comes_back", async (t) => {
  const at = folder(t);
  writeFileSync(join(at, "in"), "x".repeat(300_000));
  const { server, sandbox } = await begin(t, ({ method }) => (method === "PUT" ? json(200, FILE) : bytes("content")));
  const seen = [];
  await sdk.upload(sandbox, join(at, "in"), "f", { progress: (...now) => seen.push(now), mode: 0o600 });
  assert.equal(server.seen[1].body.length, 300_000);
  assert.deepEqual(
    [seen[0], seen.at(-1)],
    [
      [0, 300_000],
      [300_000, 300_000],
    ],
  );
  await sdk.download(sandbox, "f", join(at, "out"));
  assert.equal(readFileSync(join(at, "out"), "utf8"), "content");
  assert.deepEqual(readdirSync(at).sort(), ["in", "out"]);
});

test("an_upload_from_the_disk_is_tried_again_from_its_start", async (t) => {
  const at = folder(t);
  writeFileSync(join(at, "in"), "x".repeat(300_000));
  const { server, sandbox } = await begin(t, (request, n) => (n === 2 ? "" : json(200, FILE)));
  await sdk.upload(sandbox, join(at, "in"), "f");
  assert.deepEqual(
    server.seen.slice(1).map((request) => request.body.length),
    [300_000, 300_000],
  );
});

test("a_download_never_replaces_what_exists_unless_told_to", async (t) => {
  const at = folder(t);
  const out = join(at, "out");
  writeFileSync(out, "old");
  const { server, sandbox } = await begin(t, () => bytes("new"));
  await assert.rejects(sdk.download(sandbox, "f", out), { name: "SandboxLocalFileError", code: "EEXIST" });
  assert.deepEqual([readFileSync(out, "utf8"), server.seen.length], ["old", 1]);
  await sdk.download(sandbox, "f", out, { overwrite: true });
  assert.equal(readFileSync(out, "utf8"), "new");
  assert.deepEqual(readdirSync(at), ["out"]);
});

test("a_file_that_appears_during_a_download_stays", async (t) => {
  const at = folder(t);
  const out = join(at, "out");
  const { sandbox } = await begin(t, () => {
    writeFileSync(out, "theirs");
    return bytes("new");
  });
  await assert.rejects(sdk.download(sandbox, "f", out), { code: "EEXIST" });
  assert.equal(readFileSync(out, "utf8"), "theirs");
  assert.deepEqual(readdirSync(at), ["out"]);
});

test("a_download_that_fails_leaves_nothing", async (t) => {
  const at = folder(t);
  const out = join(at, "out");
  const cut = await begin(t, () => bytes("half", 100));
  await assert.rejects(sdk.download(cut.sandbox, "f", out), sdk.SandboxConnectionLostError);
  const none = await begin(t, () => refused(404, "not_found", "no such file"));
  await assert.rejects(sdk.download(none.sandbox, "f", out), sdk.SandboxNotFoundError);
  writeFileSync(out, "old");
  await assert.rejects(sdk.download(cut.sandbox, "f", out, { overwrite: true }), sdk.SandboxConnectionLostError);
  assert.equal(readFileSync(out, "utf8"), "old");
  rmSync(out);
  const control = new AbortController();
  const slow = await begin(t, async function* () {
    yield head(200, { "Content-Length": 100 }) + "x";
    setTimeout(() => control.abort(new Error("mine")), 30);
    await new Promise((resolve) => setTimeout(resolve, 3000).unref());
  });
  await assert.rejects(sdk.download(slow.sandbox, "f", out, { signal: control.signal }), /mine/);
  assert.deepEqual(readdirSync(at), []);
});

test("local_files_that_cannot_be_are_named", async (t) => {
  const at = folder(t);
  const { server, sandbox } = await begin(t, () => bytes("x"));
  mkdirSync(join(at, "d"));
  for (const [call, code] of [
    [() => sdk.upload(sandbox, join(at, "none"), "f"), "ENOENT"],
    [() => sdk.upload(sandbox, join(at, "d"), "f"), "EISDIR"],
    [() => sdk.uploadArchive(sandbox, join(at, "none")), "ENOENT"],
    [() => sdk.download(sandbox, "f", join(at, "none/f")), "ENOENT"],
    [() => sdk.download(sandbox, "f", join(at, "d")), "EISDIR"],
    [() => sdk.download(sandbox, "f", join(at, "d"), { overwrite: true }), "EISDIR"],
    [() => sdk.download(sandbox, "f", "/dev/null", { overwrite: true }), "EINVAL"],
  ]) {
    await assert.rejects(
      call,
      (error) => error instanceof sdk.SandboxLocalFileError && error instanceof sdk.SandboxError && error.code === code,
      String(call),
    );
  }
  assert.equal(server.seen.length, 1);
  assert.ok(existsSync("/dev/null"));
  assert.deepEqual(readdirSync(at), ["d"]);
});

test("a_key_comes_from_a_file_that_nobody_else_can_read", async (t) => {
  const at = folder(t);
  const file = join(at, "agent-sandbox", "key");
  const saved = { ...process.env };
  t.after(() => Object.assign(process.env, saved));
  for (const name of ["AGENT_SANDBOX_API_KEY", "AGENT_SANDBOX_API_KEY_FILE", "AGENT_SANDBOX_URL"]) delete process.env[name];
  process.env.XDG_CONFIG_HOME = at;
  const server = await hostile(t, () => json(200, SANDBOX));
  const keyUsed = async (options = {}) => {
    await new sdk.SandboxClient({ baseUrl: server.url, ...options }).get(ID);
    return server.seen.at(-1).headers.authorization;
  };
  assert.equal(await keyUsed(), undefined);
  mkdirSync(join(at, "agent-sandbox"));
  writeFileSync(file, KEY + "\n", { mode: 0o600 });
  assert.equal(await keyUsed(), `Bearer ${KEY}`);
  assert.equal(await keyUsed({ apiKey: "given" }), "Bearer given");
  assert.equal(await keyUsed({ baseUrl: `http://x:in-url@127.0.0.1:${server.port}` }), "Bearer in-url");
  process.env.AGENT_SANDBOX_API_KEY = "variable";
  assert.equal(await keyUsed(), "Bearer variable");
  delete process.env.AGENT_SANDBOX_API_KEY;
  chmodSync(file, 0o640);
  const refusedFor = (text) =>
    assert.throws(
      () => new sdk.SandboxClient({ baseUrl: server.url }),
      (error) => error instanceof sdk.SandboxConfigError && error.message.includes(text) && !error.message.includes(KEY),
    );
  refusedFor("chmod 600");
  process.env.AGENT_SANDBOX_API_KEY_FILE = join(at, "none");
  refusedFor("no such file");
  writeFileSync(join(at, "none"), "two lines\nof text", { mode: 0o600 });
  refusedFor("does not hold a key");
  process.env.AGENT_SANDBOX_API_KEY_FILE = join(at, "pipe");
  execFileSync("mkfifo", ["-m", "600", join(at, "pipe")]);
  refusedFor("is not a file");
});
