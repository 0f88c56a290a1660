// Folders on their way: what is packed, and what a hostile archive cannot do.
import assert from "node:assert/strict";
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import * as sdk from "agent-sandbox-sdk/node";
import { END, header, padding } from "../dist/tar.js";
import { ID, SANDBOX, head, hostile, json } from "./hostile.mjs";

function folder(t) {
  const path = mkdtempSync(join(tmpdir(), "sdk-"));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** A sandbox whose every folder is this archive; what is sent to it is kept in `seen`. */
async function begin(t, archive = Buffer.alloc(0), length = archive.length) {
  const server = await hostile(t, ({ method, path }) => {
    if (!path.includes("/archive")) return json(200, SANDBOX);
    if (method === "PUT") return json(200, { path: "/workspace", archive_bytes: 1 });
    return Buffer.concat([Buffer.from(head(200, { "Content-Type": "application/x-tar", "Content-Length": length })), archive]);
  });
  return { server, sandbox: await new sdk.SandboxClient({ baseUrl: server.url, apiKey: "unit-key-0123456789", retries: 0 }).get(ID) };
}

function entry(name, more = {}, content = "") {
  const bytes = Buffer.from(content);
  const of = { name: Buffer.from(name).toString("latin1"), type: "file", size: bytes.length, mode: 0o644, mtime: 1e9, link: "", ...more };
  return Buffer.concat([header(of), bytes, padding(bytes.length)]);
}

const dir = (name, more) => entry(name, { type: "directory", mode: 0o755, ...more });
const symlink = (name, link) => entry(name, { type: "symlink", link });
const hardlink = (name, link) => entry(name, { type: "hardlink", link });
const archive = (...entries) => Buffer.concat([dir("./"), ...entries, END]);

/** An entry with another letter for its type. */
function lettered(name, letter) {
  const bytes = entry(name);
  const at = bytes.length - 512;
  bytes.write(letter, at + 156);
  bytes.write(" ".repeat(8), at + 148);
  const sum = bytes.subarray(at).reduce((so, byte) => so + byte, 0);
  bytes.write(sum.toString(8).padStart(6, "0") + "\0 ", at + 148, "latin1");
  return bytes;
}

function tree(path, prefix = "") {
  return readdirSync(join(path, prefix))
    .sort()
    .flatMap((name) => {
      const here = join(prefix, name);
      return lstatSync(join(path, here)).isDirectory() ? [`${here}/`, ...tree(path, here)] : [here];
    });
}

test("a_folder_goes_up_and_comes_back_as_it_was", async (t) => {
  const at = folder(t);
  const source = join(at, "src");
  const long = "n".repeat(120);
  mkdirSync(join(source, "a", long), { recursive: true });
  writeFileSync(join(source, "a", long, "f"), "deep");
  writeFileSync(join(source, "ü"), "x".repeat(700_000));
  writeFileSync(join(source, "run"), "#!/bin/sh\n");
  chmodSync(join(source, "run"), 0o755);
  utimesSync(join(source, "run"), 1e9, 1.5e9);
  linkSync(join(source, "run"), join(source, "same"));
  symlinkSync(`a/${long}/f`, join(source, "link"));
  mkdirSync(join(source, "empty"));
  writeFileSync(join(source, "nothing"), "");
  const up = await begin(t);
  const seen = [];
  await sdk.uploadFolder(up.sandbox, source, "/workspace/d", { progress: (...now) => seen.push(now) });
  const sent = up.server.seen.at(-1).body;
  assert.equal(sent.length % 512, 0);
  assert.deepEqual(
    [seen[0], seen.at(-1)],
    [
      [0, null],
      [sent.length, null],
    ],
  );
  const down = await begin(t, Buffer.concat([dir("./"), sent]));
  const target = join(at, "back");
  assert.deepEqual(await sdk.downloadFolder(down.sandbox, "d", `${target}/`), []);
  assert.deepEqual(tree(target), tree(source));
  assert.equal(readFileSync(join(target, "a", long, "f"), "utf8"), "deep");
  assert.equal(readFileSync(join(target, "ü"), "utf8").length, 700_000);
  assert.equal(readlinkSync(join(target, "link")), `a/${long}/f`);
  const run = statSync(join(target, "run"));
  assert.deepEqual([run.mode & 0o777, run.nlink, run.mtimeMs], [0o755, 2, 1.5e12]);
  assert.deepEqual(readdirSync(at).sort(), ["back", "src"]);
});

test("a_name_that_no_system_takes_is_refused_at_once", async (t) => {
  const at = folder(t);
  const { sandbox } = await begin(t, archive(entry("a/".repeat(1_000_000) + "f", {}, "x")));
  await assert.rejects(sdk.downloadFolder(sandbox, "d", join(at, "d")), (error) => error.code === "ENAMETOOLONG");
  assert.deepEqual(readdirSync(at), []);
});

test("files_with_holes_come_whole", async (t) => {
  const at = folder(t);
  const map = Buffer.alloc(512);
  map.write("2\n1024\n3\n5000000\n0\n");
  const extra = (size) => {
    const records = ["GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=./hole", `GNU.sparse.realsize=${size}`]
      .map((text) => `${text.length + 4} ${text}\n`)
      .join("");
    const bytes = lettered("PaxHeader", "x");
    const start = bytes.length - 512;
    bytes.write(records.length.toString(8).padStart(11, "0"), start + 124);
    bytes.write(" ".repeat(8), start + 148);
    const sum = bytes.subarray(start).reduce((so, byte) => so + byte, 0);
    bytes.write(sum.toString(8).padStart(6, "0") + "\0 ", start + 148, "latin1");
    return Buffer.concat([bytes.subarray(start), Buffer.from(records), padding(records.length)]);
  };
  const plain = (content) => {
    const bytes = entry("x", {}, content);
    return bytes.subarray(bytes.length - 512 - content.length - padding(content.length).length);
  };
  const content = Buffer.concat([map, Buffer.from("abc")]);
  const { sandbox } = await begin(t, archive(extra(5_000_000), plain(content), entry("after", {}, "z")));
  await sdk.downloadFolder(sandbox, "d", join(at, "d"));
  const got = readFileSync(join(at, "d/hole"));
  assert.deepEqual([got.length, String(got.subarray(1024, 1027)), got.filter((byte) => byte !== 0).length], [5_000_000, "abc", 3]);
  assert.equal(readFileSync(join(at, "d/after"), "utf8"), "z");
  const many = Buffer.from(`700000\n${"0\n".repeat(1_400_000)}`);
  const long = await begin(t, archive(extra(10), plain(Buffer.concat([many, padding(many.length)])), entry("after", {}, "z")));
  await sdk.downloadFolder(long.sandbox, "d", join(at, "f"));
  assert.deepEqual([statSync(join(at, "f/hole")).size, readFileSync(join(at, "f/after"), "utf8")], [10, "z"]);
  const outside = await begin(t, archive(extra(1025), plain(content)));
  await assert.rejects(sdk.downloadFolder(outside.sandbox, "d", join(at, "e")), sdk.SandboxAnswerError);
  assert.deepEqual(readdirSync(at).sort(), ["d", "f"]);
});

test("a_hostile_archive_writes_nothing_outside_and_leaves_nothing", async (t) => {
  const at = folder(t);
  mkdirSync(join(at, "work"));
  const bad = {
    "an absolute name": [entry(join(at, "evil"))],
    "steps up": [entry("../evil")],
    "steps up in the middle": [entry("a/../../evil")],
    "a NUL in a long name": [entry(`${"x".repeat(120)}\0`)],
    "a file through a link": [symlink("l", "."), entry("l/evil")],
    "a file through a link that is left out": [symlink("l", at), entry("l/evil")].concat(symlink("l", "x"), entry("l/evil")),
    "a folder through a link": [dir("a/"), symlink("a/l", ".."), dir("a/l/evil/")],
    "a file onto a link": [symlink("l", "a"), entry("l")],
    "a link onto a file": [entry("l"), symlink("l", "a")],
    "two files of one name": [entry("a"), entry("./a")],
    "a hard link to the outside": [hardlink("h", "../evil")],
    "a hard link to what is not in it": [hardlink("h", "etc/passwd")],
    "a hard link to a link": [symlink("l", "a"), hardlink("h", "l")],
    "a hard link to a folder": [dir("d/"), hardlink("h", "d")],
    "a file below a file": [entry("a"), entry("a/b")],
    "no name": [entry("./")],
    "a broken checksum": [Buffer.concat([Buffer.from("x"), entry("yy").subarray(1)])],
    "no tar": [Buffer.alloc(1024, "x")],
  };
  for (const [what, entries] of Object.entries(bad)) {
    const { sandbox } = await begin(t, archive(...entries));
    await assert.rejects(
      sdk.downloadFolder(sandbox, "d", join(at, "work/d")),
      (error) => {
        assert.ok(error instanceof sdk.SandboxAnswerError, `${what}: ${error}`);
        return true;
      },
      what,
    );
    assert.deepEqual([readdirSync(join(at, "work")), readdirSync(at)], [[], ["work"]], what);
  }
});

test("what_leads_out_or_is_no_file_is_left_out_and_named", async (t) => {
  const at = folder(t);
  const { sandbox } = await begin(
    t,
    archive(
      dir("e/"),
      symlink("abs", "/etc"),
      symlink("up", ".."),
      symlink("e/far", "../.."),
      symlink("e/fine", ".."),
      symlink("back", "e/../.."),
      symlink("in", "e/f"),
      lettered("fifo", "6"),
      lettered("device", "4"),
      lettered("weird", "Z"),
      entry("f", { mode: 0o6755 }, "x"),
    ),
  );
  const left = await sdk.downloadFolder(sandbox, "d", join(at, "d"));
  assert.deepEqual(left.sort(), ["abs", "back", "device", "e/far", "fifo", "up", "weird"]);
  assert.deepEqual(tree(join(at, "d")), ["e/", "e/fine", "f", "in"]);
  assert.equal(lstatSync(join(at, "d/f")).mode & 0o7000, 0);
});

test("a_folder_that_is_cut_off_or_refused_leaves_nothing", async (t) => {
  const at = folder(t);
  const whole = archive(entry("a", {}, "x".repeat(100_000)), entry("b", {}, "y"));
  for (const cut of [0, 100, 512, 5000, whole.length - 1024]) {
    const { sandbox } = await begin(t, whole.subarray(0, cut), whole.length);
    await assert.rejects(sdk.downloadFolder(sandbox, "d", join(at, "d")), sdk.SandboxConnectionLostError);
  }
  const early = await begin(t, whole.subarray(0, 5120));
  await assert.rejects(sdk.downloadFolder(early.sandbox, "d", join(at, "d")), sdk.SandboxAnswerError);
  const file = await begin(t, Buffer.concat([entry("f", {}, "x"), END]));
  await assert.rejects(sdk.downloadFolder(file.sandbox, "f", join(at, "d")), { code: "invalid_request" });
  assert.deepEqual(readdirSync(at), []);
});

test("names_that_are_not_utf8_stay_as_they_are", { skip: "Deno" in globalThis && "Deno has no such paths" }, async (t) => {
  const at = folder(t);
  const down = await begin(t, archive(entry("x", { name: "b\xffd" }), symlink("l", "b\xffd")));
  await sdk.downloadFolder(down.sandbox, "d", join(at, "d"));
  const names = readdirSync(join(at, "d"), { encoding: "buffer" }).map((name) => Buffer.from(name).toString("latin1"));
  assert.deepEqual(names.sort(), ["b\xffd", "l"]);
  const up = await begin(t);
  await sdk.uploadFolder(up.sandbox, join(at, "d"), "d");
  assert.ok(up.server.seen.at(-1).body.includes(Buffer.from("b\xffd\0", "latin1")));
});

test("a_new_folder_replaces_nothing", async (t) => {
  const at = folder(t);
  mkdirSync(join(at, "d"));
  const { server, sandbox } = await begin(t, archive(entry("a")));
  for (const [path, code] of [
    ["d", "EEXIST"],
    ["none/d", "ENOENT"],
  ]) {
    await assert.rejects(
      sdk.downloadFolder(sandbox, "d", join(at, path)),
      (error) => error instanceof sdk.SandboxLocalFileError && error.code === code,
    );
  }
  assert.equal(server.seen.length, 1);
  assert.deepEqual(tree(at), ["d/"]);
});

test("a_folder_that_cannot_be_read_is_named", async (t) => {
  const at = folder(t);
  writeFileSync(join(at, "f"), "x");
  const { server, sandbox } = await begin(t);
  for (const [path, code] of [
    ["none", "ENOENT"],
    ["f", "ENOTDIR"],
  ]) {
    await assert.rejects(
      sdk.uploadFolder(sandbox, join(at, path), "d"),
      (error) => error instanceof sdk.SandboxLocalFileError && error.code === code,
    );
  }
  assert.equal(server.seen.length, 1);
});

test("a_file_that_becomes_shorter_while_it_is_sent_spoils_no_archive", async (t) => {
  const at = folder(t);
  mkdirSync(join(at, "d"));
  const file = join(at, "d/f");
  writeFileSync(file, "x".repeat(3_000_000));
  const { server, sandbox } = await begin(t);
  const progress = (done) => done > 0 && truncateSync(file, 10);
  await assert.rejects(sdk.uploadFolder(sandbox, join(at, "d"), "d", { progress }), sdk.SandboxLocalFileError);
  assert.ok(
    server.seen.every(({ method }) => method === "GET"),
    "no request came to its end",
  );
});

test("a_damaged_archive_is_an_error_or_harmless", async (t) => {
  const at = folder(t);
  const whole = archive(
    dir("e/"),
    entry("e/f", {}, "content"),
    symlink("l", "e/f"),
    hardlink("h", "e/f"),
    entry("x".repeat(150), {}, "y".repeat(600)),
  );
  let seed = 12345;
  const random = (most) => (seed = (seed * 1103515245 + 12345) % 2147483648) % most;
  for (let round = 0; round < 150; round++) {
    const damaged = Buffer.from(whole);
    for (let n = 0; n < 1 + random(4); n++)
      damaged[random(damaged.length)] = random(2) ? random(256) : "0123456789/.=\n\0"[random(15)].charCodeAt(0);
    const { sandbox } = await begin(t, damaged);
    const target = join(at, `d${round}`);
    await sdk
      .downloadFolder(sandbox, "d", target)
      .catch((error) => assert.ok(error instanceof sdk.SandboxError, `${round}: ${error.stack}`));
    rmSync(target, { recursive: true, force: true });
    assert.deepEqual(readdirSync(at), [], `round ${round}`);
  }
  assert.ok(!existsSync(join(at, "evil")));
});
