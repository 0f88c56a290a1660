// What a user of the TypeScript SDK does with a server, from the first sandbox to the last, under any runtime. Leaves nothing behind.
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SandboxAPIError, SandboxClient, SandboxDecodeError, SandboxNotFoundError } from "agent-sandbox-sdk";
import { download, downloadArchive, upload, uploadArchive } from "agent-sandbox-sdk/node";

const client = new SandboxClient({ timeoutSeconds: 60 });
const encode = (text) => new TextEncoder().encode(text);

async function events(stream) {
  const all = { stdout: "", stderr: "", exit: undefined };
  for await (const event of stream) {
    if (event.type === "exit") all.exit = event;
    else all[event.type] += event.data;
  }
  return all;
}

/** How many processes of the sandbox have this word among their arguments. */
async function running(sandbox, word) {
  const { stdout } = await sandbox.exec(
    `for p in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$p 2>/dev/null; echo; done | grep -c "^sleep ${word} *$"`,
  );
  return Number(stdout);
}

async function until(true_) {
  for (let tries = 0; tries < 100; tries++) {
    if (await true_()) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.fail("it does not come about");
}

async function runsCommands(sandbox) {
  const result = await sandbox.exec(["python3", "-c", "import sys; print(6 * 7); print('oh', file=sys.stderr); sys.exit(3)"], {
    timeoutSeconds: 20,
  });
  assert.deepEqual([result.stdout, result.stderr, result.exitCode, result.ok, result.timedOut], ["42\n", "oh\n", 3, false, false]);
  assert.equal(
    (await sandbox.exec("cat; echo $A; pwd", { stdin: "grüße\n", env: { A: "b" }, workdir: "/tmp" })).stdout,
    "grüße\nb\n/tmp\n",
  );
  assert.equal((await sandbox.exec("sleep 50", { timeoutSeconds: 0.3 })).timedOut, true);
  assert.equal((await sandbox.exec("kill -SEGV $$", { detail: true })).signal, "SEGV");
  assert.equal(atob((await sandbox.exec("printf '\\377\\000'", { encoding: "base64" })).stdout), "\u00ff\u0000");
  await assert.rejects(
    sandbox.exec(""),
    (error) => error instanceof SandboxAPIError && error.statusCode === 400 && error.requestId !== undefined,
  );
}

async function streamsCommands(sandbox) {
  const seen = await events(sandbox.execStream("echo a; echo ü >&2; cat; exit 4", { stdin: "in" }));
  assert.deepEqual([seen.stdout, seen.stderr, seen.exit.exitCode], ["a\nin", "ü\n", 4]);
  const big = "0123456789".repeat(300_000);
  assert.equal((await events(sandbox.execStream(["wc", "-c"], { stdin: big }))).stdout, "3000000\n");
  assert.equal((await events(sandbox.execStream("head -c 3000000 /dev/zero | tr '\\0' x"))).stdout.length, 3_000_000);
  const early = await events(sandbox.execStream("head -c 1", { stdin: () => [encode(big), encode(big)] })).catch((error) => error);
  assert.ok(early.stdout === "0" || early instanceof Error);
  // Not all of that request was read: a proxy in front of the server may close its connection without having said so.
  await sandbox.exec("true").catch(() => undefined);
}

async function endsCommands(sandbox) {
  for await (const event of sandbox.execStream("echo on; sleep 4711")) if (event) break;
  const control = new AbortController();
  const mine = new Error("mine");
  const call = sandbox.exec("sleep 4711", { signal: control.signal });
  call.catch(() => undefined);
  await until(async () => (await running(sandbox, "4711")) > 0);
  control.abort(mine);
  await assert.rejects(call, (error) => error === mine);
  await until(async () => (await running(sandbox, "4711")) === 0);
}

async function movesFiles(sandbox, at) {
  const info = await sandbox.writeFile("d/ü &?#%.txt", "grüße", { mode: 0o600 });
  assert.deepEqual([info.path, info.size, info.type], ["/workspace/d/ü &?#%.txt", 7, "file"]);
  assert.equal(await sandbox.readText(info.path), "grüße");
  assert.equal(await sandbox.readText(info.path, { offset: 2, length: 2 }), "ü");
  assert.deepEqual(
    (await sandbox.listFiles("d")).map((entry) => entry.name),
    ["ü &?#%.txt"],
  );
  await sandbox.exec("printf 'a\\377b' >bytes; ln -s bytes link");
  await assert.rejects(sandbox.readText("bytes"), SandboxDecodeError);
  await assert.rejects(sandbox.readFile("none"), SandboxNotFoundError);
  const content = Uint8Array.from({ length: 5_000_000 }, (_, i) => i * 7);
  await writeFile(join(at, "in"), content);
  const up = [];
  const down = [];
  await upload(sandbox, join(at, "in"), "big", { progress: (...now) => up.push(now) });
  await download(sandbox, "big", join(at, "out"), { progress: (...now) => down.push(now) });
  assert.deepEqual(new Uint8Array(await readFile(join(at, "out"))), content);
  for (const seen of [up, down])
    assert.deepEqual(
      [seen[0], seen.at(-1)],
      [
        [0, 5_000_000],
        [5_000_000, 5_000_000],
      ],
    );
  await sandbox.writeFile("copy", await sandbox.readStream("big"));
  assert.equal((await sandbox.exec("cmp big copy")).exitCode, 0);
  await sandbox.writeArchive(await sandbox.readArchive("d"), "again");
  assert.equal(await sandbox.readText("again/ü &?#%.txt"), "grüße");
  await downloadArchive(sandbox, "/workspace", join(at, "all.tar"));
  await uploadArchive(sandbox, join(at, "all.tar"), "back");
  assert.equal((await sandbox.exec("cmp big back/big && readlink back/link")).stdout, "bytes\n");
}

async function goesBackAndForks(sandbox) {
  await sandbox.writeFile("state", "one");
  const snapshot = await sandbox.snapshot("first");
  await sandbox.writeFile("state", "two");
  const fork = await sandbox.fork({ timeoutSeconds: 120 });
  await sandbox.rollback(snapshot);
  assert.deepEqual([await sandbox.readText("state"), await fork.readText("state")], ["one", "two"]);
  assert.equal(sandbox.sourceSnapshotId, snapshot.id);
  const forks = await Promise.all([1, 2].map(() => client.fork(snapshot)));
  assert.deepEqual(await Promise.all(forks.map((one) => one.readText("state"))), ["one", "one"]);
  await Promise.all([fork, ...forks].map((one) => one.destroy()));
  for (const one of await client.listSnapshots(sandbox.id)) {
    assert.deepEqual(await client.getSnapshot(one.id), one);
    await client.deleteSnapshot(one);
  }
  await assert.rejects(client.getSnapshot(snapshot.id), SandboxNotFoundError);
}

async function isMadeOnce(mark) {
  const twice = await Promise.all([1, 2].map(() => client.create({ timeoutSeconds: 60, idempotencyKey: `key-${mark}` })));
  assert.equal(twice[0].id, twice[1].id);
  await twice[0].destroy();
}

async function isFound(sandbox, mark) {
  assert.deepEqual(
    (await client.listSandboxes({ label: `mark=${mark}` })).map((one) => one.id),
    [sandbox.id],
  );
  assert.deepEqual((await client.get(sandbox.id)).data, sandbox.data);
  const before = sandbox.expiresAt;
  assert.ok((await sandbox.setTimeout(600)).expiresAt > before && (await sandbox.refresh()).status === "running");
}

assert.equal((await client.health()).status, "ok");
const at = await mkdtemp(join(tmpdir(), "story-"));
const mark = String(Date.now()) + Math.floor(Math.random() * 1e6);
const sandbox = await client.create({ timeoutSeconds: 300, labels: { mark } });
try {
  await isFound(sandbox, mark);
  await runsCommands(sandbox);
  await streamsCommands(sandbox);
  await endsCommands(sandbox);
  await movesFiles(sandbox, at);
  await goesBackAndForks(sandbox);
  await isMadeOnce(mark);
} finally {
  await sandbox[Symbol.asyncDispose]();
  await sandbox[Symbol.asyncDispose]();
  await rm(at, { recursive: true, force: true });
}
await assert.rejects(client.get(sandbox.id), SandboxNotFoundError);
console.log("the end");
