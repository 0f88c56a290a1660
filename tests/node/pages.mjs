// The console and the reference in a real browser: what people do there, from the key to the end of the sandbox.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { api, KEY, main, until, URL_BASE } from "./pages_kit.mjs";

const BYTES = Buffer.from(Array.from({ length: 70000 }, (_, i) => (i * 7 + (i >> 8)) & 255));

async function download(w, click) {
  const [got] = await Promise.all([w.page.waitForEvent("download"), click()]);
  return { name: got.suggestedFilename(), bytes: readFileSync(await got.path()) };
}

async function snapshot(w, name) {
  await w.page.getByRole("button", { name: "Snapshot", exact: true }).click();
  const dialog = w.page.getByRole("dialog");
  await dialog.getByLabel("Name").fill(name);
  await dialog.getByRole("button", { name: "Take it" }).click();
  await dialog.waitFor({ state: "detached" });
}

async function tryIt(w, id, { fill = {}, body } = {}) {
  const op = w.page.locator(`#op-${id}`);
  const form = op.locator("details.try");
  if (!(await form.evaluate((e) => e.open))) await form.locator("summary").first().click();
  for (const [label, value] of Object.entries(fill)) await form.getByLabel(label).fill(value);
  if (body !== undefined) await form.getByLabel("Body (JSON)").fill(body);
  await form.getByRole("button", { name: "Send" }).click();
  return { op, form, outcome: form.locator(".outcome") };
}

async function story(open) {
  const w = await open({ allow: [/status of 401/] });
  const { page } = w;
  await page.goto(`${URL_BASE}/console`);

  // A wrong key: the server's own words, and nothing is shown.
  await page.getByLabel("API key").fill("not-the-key-of-this-server");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").filter({ hasText: "401 unauthorized" }).waitFor();
  assert.equal(await page.getByRole("heading", { name: /^Sandboxes/ }).count(), 0);
  await page.getByLabel("API key").fill(KEY);
  await page.keyboard.press("Enter");

  const id = await w.create("story");
  assert.equal((await api("GET", `/v1/sandboxes/${id}`)).labels.name, "story");

  // Output comes while the command runs, in its colours, the two streams apart.
  const slow = await w.run(
    "printf '\\033[31mred\\033[0m plain\\n'; echo oh >&2; until [ -e go ]; do sleep 0.05; done; echo done; exit 3",
    { wait: false },
  );
  await slow.locator(".fg-1").filter({ hasText: "red" }).waitFor();
  await slow.locator(".err").filter({ hasText: "oh" }).waitFor();
  assert.equal(await slow.evaluate((e) => e.classList.contains("running")), true);
  assert.equal(await slow.locator(".out").filter({ hasText: "done" }).count(), 0);
  await w.run("touch go");
  await slow.locator(".out").filter({ hasText: "done" }).waitFor();
  await slow.locator(".state").filter({ hasText: "exit 3" }).waitFor();

  // Cancelling ends the command in the sandbox too.
  const endless = await w.run("echo $$ > pid; echo ready; sleep 600", { wait: false });
  await endless.locator(".out").filter({ hasText: "ready" }).waitFor();
  await endless.getByRole("button", { name: "Cancel" }).click();
  await endless.locator(".state").filter({ hasText: "cancelled" }).waitFor();
  await until("the cancelled command ends", async () => {
    const r = await api("POST", `/v1/sandboxes/${id}/exec`, {
      command: "kill -0 $(cat pid) 2>/dev/null && echo alive || echo gone",
    });
    return r.stdout === "gone\n";
  });

  // History; cd stays for the next command.
  const line = page.getByRole("textbox", { name: "Command" });
  await line.press("ArrowUp");
  assert.match(await line.inputValue(), /sleep 600/);
  await line.press("ArrowUp");
  assert.equal(await line.inputValue(), "touch go");
  await line.fill("");
  await w.run("mkdir -p sub/deep; cd sub");
  await w.run("cd sub");
  const where = await w.run("pwd");
  assert.equal((await where.locator(".out").innerText()).trim(), "/workspace/sub");
  await w.run("cd ..");

  await files(w, id);
  await snapshots(w, id);
  await reference(w, id);

  // More time, then the end.
  await page.getByRole("link", { name: "Console" }).click();
  await page.getByRole("button", { name: "Extend" }).click();
  await page.getByRole("dialog").getByLabel("From now").fill("2h");
  await page.getByRole("dialog").getByRole("button", { name: "Set" }).click();
  await page
    .locator(".left")
    .filter({ hasText: /^1 h 59 min left|^2 h 00 min left/ })
    .waitFor();
  const { expires_at: end } = await api("GET", `/v1/sandboxes/${id}`);
  assert.ok(Math.abs(Date.parse(end) - Date.now() - 7200e3) < 60e3);

  await page.getByRole("button", { name: "Destroy" }).click();
  const sure = page.getByRole("dialog", { name: "Destroy this sandbox?" });
  await sure.getByRole("button", { name: "Cancel" }).click();
  assert.ok((await api("GET", "/v1/sandboxes")).sandboxes.some((s) => s.id === id));
  await page.getByRole("button", { name: "Destroy" }).click();
  await sure.getByRole("button", { name: "Destroy", exact: true }).click();
  await sure.waitFor({ state: "detached" });
  assert.ok(!(await api("GET", "/v1/sandboxes")).sandboxes.some((s) => s.id === id));
  assert.equal(await page.locator(`.rows a[href="#${id}"]`).count(), 0);
  await w.end();
}

async function files(w, id) {
  const { page } = w;
  const pane = page.locator(".filespane");
  await page.getByRole("tab", { name: "Files" }).click();
  await pane.locator("input[type=file]").setInputFiles([
    { name: "blob.bin", mimeType: "application/octet-stream", buffer: BYTES },
    { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("first\nsecond\n") },
  ]);
  await pane.getByRole("button", { name: "blob.bin", exact: true }).waitFor();
  const back = await download(w, () => pane.getByRole("button", { name: "Download blob.bin" }).click());
  assert.equal(back.name, "blob.bin");
  assert.ok(back.bytes.equals(BYTES), "what comes back is not what went up");

  // Dropped files; a name that is there already is asked about.
  const drop = (text) =>
    pane.evaluate((element, content) => {
      const data = new DataTransfer();
      data.items.add(new File([content], "dropped.txt"));
      for (const type of ["dragenter", "dragover", "drop"])
        element.dispatchEvent(new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer: data }));
    }, text);
  await drop("one");
  await pane.getByRole("button", { name: "dropped.txt", exact: true }).waitFor();
  await drop("two");
  await page.getByRole("dialog", { name: "Replace?" }).getByRole("button", { name: "Replace" }).click();
  await until(
    "the dropped file is replaced",
    async () =>
      (await api("POST", `/v1/sandboxes/${id}/exec`, { command: "cat dropped.txt" })).stdout === "two",
  );

  // A folder dropped, for real: all that is in it.
  const local = mkdtempSync(join(tmpdir(), "pages-"));
  try {
    mkdirSync(join(local, "tree/leaf"), { recursive: true });
    writeFileSync(join(local, "tree/leaf/one.txt"), "1");
    writeFileSync(join(local, "tree/two.txt"), "2");
    const area = await pane.boundingBox();
    const cdp = await w.context.newCDPSession(page);
    const data = { items: [], files: [join(local, "tree")], dragOperationsMask: 1 };
    for (const type of ["dragEnter", "dragOver", "drop"])
      await cdp.send("Input.dispatchDragEvent", { type, x: area.x + 90, y: area.y + 90, data });
    await pane.getByRole("button", { name: "tree", exact: true }).waitFor();
    assert.equal(
      (await api("POST", `/v1/sandboxes/${id}/exec`, { command: "cat tree/leaf/one.txt tree/two.txt" }))
        .stdout,
      "12",
    );
  } finally {
    rmSync(local, { recursive: true });
  }

  // A look at a text, a change of it that keeps its mode, a folder as tar.
  await api("POST", `/v1/sandboxes/${id}/exec`, { command: "chmod 750 notes.txt" });
  await pane.getByRole("button", { name: "notes.txt", exact: true }).click();
  const look = page.getByRole("dialog", { name: "/workspace/notes.txt" });
  assert.equal(await look.locator("pre.text").innerText(), "first\nsecond");
  await look.getByRole("button", { name: "Edit" }).click();
  await look.getByRole("textbox").fill("changed\n");
  await look.getByRole("button", { name: "Save" }).click();
  await look.waitFor({ state: "detached" });
  assert.equal(
    (await api("POST", `/v1/sandboxes/${id}/exec`, { command: "cat notes.txt; stat -c %a notes.txt" }))
      .stdout,
    "changed\n750\n",
  );
  await pane.getByRole("button", { name: "blob.bin", exact: true }).click();
  await page
    .getByRole("dialog")
    .getByText(/^00000000 {2}/)
    .waitFor();
  await page.keyboard.press("Escape");
  await pane.getByRole("button", { name: "sub", exact: true }).click();
  await pane.getByRole("button", { name: "deep", exact: true }).waitFor();
  await pane.getByRole("button", { name: "Folder above" }).click();
  const tar = await download(w, () => pane.getByRole("button", { name: "Download sub as tar" }).click());
  assert.equal(tar.name, "sub.tar");
  assert.ok(tar.bytes.includes("deep"));

  // A new folder, and its end.
  await pane.getByRole("button", { name: "New folder" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("-made here");
  await page.keyboard.press("Enter");
  await pane.getByRole("button", { name: "Delete -made here" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
  await pane.getByRole("button", { name: "-made here", exact: true }).waitFor({ state: "detached" });
  await w.shot("files");
}

async function snapshots(w, id) {
  const { page } = w;
  await page.getByRole("tab", { name: "Snapshots" }).click();
  const tree = page.locator(".treepane");
  await snapshot(w, "before");
  await tree.getByRole("button", { name: "Roll back to before" }).waitFor();

  await w.run("rm -rf /workspace/* && ls -A");
  await page.getByRole("tab", { name: "Files" }).click();
  await page.getByText("This folder is empty").waitFor();
  await page.getByRole("tab", { name: "Snapshots" }).click();
  await tree.getByRole("button", { name: "Roll back to before" }).click();
  const sure = page.getByRole("dialog", { name: "Roll back?" });
  await sure.getByLabel("Take a snapshot of the present state first").check();
  await sure.getByRole("button", { name: "Roll back" }).click();
  await sure.waitFor({ state: "detached" });
  const back = await w.run("cat notes.txt");
  assert.equal((await back.locator(".out").innerText()).trim(), "changed");
  await tree.getByText("before rollback to before", { exact: true }).first().waitFor();
  const shown = tree
    .locator("li")
    .filter({ has: page.getByRole("button", { name: "Roll back to before", exact: true }) })
    .last();
  await shown.getByText("this sandbox stands here").waitFor();

  await tree.getByRole("button", { name: "Fork before", exact: true }).click();
  await page.getByRole("dialog").getByLabel("Memory").fill("256");
  await page.getByRole("dialog").getByRole("button", { name: "Fork" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  const forks = (await api("GET", "/v1/sandboxes")).sandboxes.filter(
    (s) => s.id !== id && s.labels.name === "story",
  );
  assert.equal(forks.length, 1);
  assert.equal(forks[0].memory_mb, 256);
  await tree.locator(`a[href="#${forks[0].id}"]`).click();
  const there = await w.run("cat notes.txt; rm notes.txt");
  assert.equal((await there.locator(".out").innerText()).trim(), "changed");
  await w.shot("fork");
  await page.getByRole("button", { name: "Destroy" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Destroy", exact: true }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });

  // What was on the page of the first is still there.
  await page.locator(`.rows a[href="#${id}"]`).click();
  await page.getByRole("tab", { name: "Snapshots" }).click();
  await tree.getByRole("button", { name: /^Delete before rollback/ }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
  await tree.getByRole("button", { name: "Fork before rollback to before" }).waitFor({ state: "detached" });
  assert.ok((await page.locator(".block").count()) > 5);
  await w.shot("tree");
}

async function reference(w, id) {
  const { page } = w;
  await page.getByRole("link", { name: "API reference" }).click();
  await page.locator("#op-execCommand").waitFor();
  assert.equal(new URL(page.url()).pathname, "/docs");

  // The key came along: no question for it.
  const run = await tryIt(w, "execCommand", {
    fill: { "sandbox_id *": id },
    body: '{"command": "cat notes.txt"}',
  });
  await run.outcome.filter({ hasText: "200" }).waitFor();
  await run.form.locator(".result pre").filter({ hasText: '"stdout": "changed\\n"' }).waitFor();
  const stream = await tryIt(w, "streamCommand", {
    fill: { "sandbox_id *": id },
    body: '{"command": "echo a; echo b >&2"}',
  });
  await stream.form.getByText('{"type":"exit"').waitFor();
  const bad = await tryIt(w, "setSandboxTimeout", {
    fill: { "sandbox_id *": id },
    body: '{"timeout_seconds": "soon"}',
  });
  w.allow.push(/status of 422/);
  await bad.outcome.filter({ hasText: "422" }).waitFor();
  await bad.form.locator(".result pre").filter({ hasText: "validation_error" }).waitFor();
  const made = await tryIt(w, "createSnapshot", {
    fill: { "sandbox_id *": id },
    body: '{"name": "from the reference"}',
  });
  await made.outcome.filter({ hasText: "201" }).waitFor();
  const gone = await tryIt(w, "deleteSnapshot");
  await gone.outcome.filter({ hasText: "204" }).waitFor();
  await w.shot("tryit");
  w.problems = w.problems.filter((p) => !/status of 422/.test(p));
}

// Ways out: chosen when a sandbox is made, and told afterwards; and a program that is run in none of these sandboxes.
async function out(open) {
  const w = await open({ allow: [/status of 400/] });
  const { page } = w;
  await w.console();
  await page.getByRole("button", { name: "Create", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "Create a sandbox" });
  await dialog.getByLabel("Name", { exact: true }).fill("listed");
  assert.equal(await dialog.getByLabel("Hosts").isDisabled(), true);
  await dialog.getByLabel("Way out").selectOption("list");
  const create = dialog.getByRole("button", { name: "Create", exact: true });
  await create.click();
  await dialog.getByRole("alert").filter({ hasText: "Hosts: name one" }).waitFor();
  await dialog.getByLabel("Hosts").fill("Example.COM, not!ahost");
  await create.click();
  await dialog.getByRole("alert").filter({ hasText: "not!ahost" }).waitFor();
  await dialog.getByLabel("Hosts").fill("Example.COM\n*.example.org:8443");
  await w.shot("create-list");
  await create.click();
  await dialog.waitFor({ state: "detached", timeout: 60000 });
  await page.getByRole("heading", { name: "listed" }).waitFor();
  const id = new URL(page.url()).hash.slice(1);
  const box = await api("GET", `/v1/sandboxes/${id}`);
  assert.deepEqual(box.egress_allowlist, ["example.com", "*.example.org:8443"]);
  await page.locator(`.rows a[href="#${id}"]`).filter({ hasText: "2 hosts" }).waitFor();
  await page.getByRole("tab", { name: "Details" }).click();
  await page.locator("dd").filter({ hasText: "example.com *.example.org:8443" }).waitFor();

  const before = (await api("GET", "/v1/sandboxes")).sandboxes.length;
  await page.getByRole("button", { name: "Run a program" }).click();
  const run = page.getByRole("dialog", { name: "Run a program" });
  const go = run.getByRole("button", { name: "Run", exact: true });
  await run.getByLabel("Code").fill("import sys\nprint('<b>6 * 7</b>', 6 * 7)\nprint('oh', file=sys.stderr)\nsys.exit(3)");
  await go.click();
  const result = run.getByRole("article", { name: "Result" });
  await result.locator(".state").filter({ hasText: "exit 3" }).waitFor({ timeout: 60000 });
  assert.equal((await result.locator(".out").innerText()).trim(), "<b>6 * 7</b> 42");
  assert.match(await result.locator(".err").innerText(), /oh/);
  await w.shot("run");
  await run.getByLabel("Code").fill("print('again')");
  await go.click();
  await result.locator(".out").filter({ hasText: "again" }).waitFor({ timeout: 60000 });
  await page.keyboard.press("Escape");
  await run.waitFor({ state: "detached" });
  assert.equal((await api("GET", "/v1/sandboxes")).sandboxes.length, before);
  await w.end();
}

main({ out, story });
