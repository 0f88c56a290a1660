// What a hostile or unlucky sandbox, or a server in trouble, does to the pages: nothing but text.
import assert from "node:assert/strict";
import { rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { api, KEY, main, until } from "./pages_kit.mjs";

const EVIL = [
  "<img src=x onerror=globalThis.pwned=1>",
  '"><script>globalThis.pwned=1</script>',
  "javascript:globalThis.pwned=1",
  "esc\u001b[31mred\u001b]0;title\u0007bel",
  "line\nbreak\ttab",
  "rtl\u202Egpj.exe",
  "${globalThis.pwned=1}{{constructor}}",
  "&lt;b&gt; &amp; %3Cscript%3E",
];

const put = (id, name, text) =>
  api("POST", `/v1/sandboxes/${id}/exec`, {
    command: ["python3", "-c", "import sys; open(sys.argv[1], 'w').write(sys.argv[2])", name, text],
  });

async function unharmed(w) {
  const seen = await w.page.evaluate(() => ({
    pwned: globalThis.pwned,
    title: document.title,
    foreign: document.querySelectorAll(
      "main img:not(.picture), main script, main iframe, main object, main embed, main style, [onerror], [onload], [onclick], [style*=url]",
    ).length,
  }));
  assert.equal(seen.pwned, undefined);
  assert.equal(seen.foreign, 0);
  assert.match(seen.title, /agent-sandbox$/);
}

async function names(open) {
  const w = await open();
  await w.console();
  const made = await api("POST", "/v1/sandboxes", {
    timeout_seconds: 600,
    labels: { name: EVIL[0], "<b>k</b>": EVIL[1] },
    env: { A: EVIL[2] },
  });
  const id = made.id;
  for (const name of EVIL) await put(id, name.replaceAll("/", "\u2215"), EVIL.join("\n"));
  await w.page.locator(`.rows a[href="#${id}"]`).click();
  assert.equal(await w.page.locator(".box h2").innerText(), EVIL[0]);
  const pane = w.page.locator(".filespane");
  await pane.getByRole("button", { name: EVIL[0], exact: true }).waitFor();

  // What cannot be seen is shown as a mark: nothing disguises an ending or moves to another line.
  const shown = await pane.locator("button.name bdi").allInnerTexts();
  assert.ok(shown.includes("rtl\u2039U+202E\u203agpj.exe"), shown.join("|"));
  assert.ok(shown.includes("line\u2039U+000A\u203abreak\u2039U+0009\u203atab"));
  assert.ok(shown.some((s) => s.startsWith("esc\u2039U+001B\u203a[31mred")));
  await w.shot("hostile-names");
  await unharmed(w);

  // Such files can be looked at, and their contents are text too.
  await pane.getByRole("button", { name: /^rtl/ }).click();
  const look = w.page.getByRole("dialog");
  await look.locator("pre.text").waitFor();
  assert.ok((await look.locator("pre.text").innerText()).includes("<img src=x onerror=globalThis.pwned=1>"));
  assert.ok((await look.locator("pre.text").innerText()).includes("\u2039U+001B\u203a[31mred"));
  await unharmed(w);
  await w.page.keyboard.press("Escape");

  // Their download has a harmless name.
  const [got] = await Promise.all([
    w.page.waitForEvent("download"),
    pane.getByRole("button", { name: /^Download <img/ }).click(),
  ]);
  assert.match(got.suggestedFilename(), /^[^<>:"/\\|?*\u0000-\u001f]+$/);

  // Snapshots, details, dialogs.
  const s = await api("POST", `/v1/sandboxes/${id}/snapshots`, { name: EVIL[0] });
  await w.page.getByRole("tab", { name: "Snapshots" }).click();
  await w.page.locator(".treepane").getByText(EVIL[0], { exact: true }).first().waitFor();
  await w.page.getByRole("button", { name: `Fork ${EVIL[0]}` }).click();
  await w.page.keyboard.press("Escape");
  await w.page.getByRole("tab", { name: "Details" }).click();
  await w.page.locator(".details").getByText("Label <b>k</b>", { exact: true }).waitFor();
  await w.page.getByRole("button", { name: "Destroy" }).click();
  await w.page.keyboard.press("Escape");
  await unharmed(w);
  await api("DELETE", `/v1/snapshots/${s.id}`);
  await w.end();
}

async function output(open) {
  const w = await open();
  await w.console();
  await w.create("output");
  const block = await w.run(
    String.raw`printf '<img src=x onerror=globalThis.pwned=1>\n<script>globalThis.pwned=1</script>\n'; printf 'a\033]0;owned\007b\033[2J\033[Hc\033[?1049hd\033Pq\033\\e\033[6nf\033c\n'; printf '\033]8;;https://example.invalid\033\\link\033]8;;\033\\\n'; printf 'one\rtwo\n10%%\r20%%\r\033[Kdone\n'; printf 'abc\b\bX\n'; printf '\377\376bad\n' >&2; printf '\033[8mhidden\033[0m \033[38;5;300;1mtext\033[999999999999m\n'; printf '\033]0;never ended\nafter\n'`,
  );
  const lines = (await block.locator(".screen > .out").allInnerTexts()).map((l) => l.replace(/\n$/, ""));
  assert.deepEqual(lines, [
    "<img src=x onerror=globalThis.pwned=1>",
    "<script>globalThis.pwned=1</script>",
    "abcdef",
    "link",
    "two",
    "done",
    "aX",
    "hidden text",
    "",
    "after",
  ]);
  assert.ok((await block.locator(".err").innerText()).includes("\ufffd\ufffdbad"));
  assert.equal(await block.locator("a, img, script").count(), 0);
  await unharmed(w);

  // A command that is markup itself.
  await w.run("echo '<b onmouseover=globalThis.pwned=1>'");
  await unharmed(w);

  // Truecolour goes through a property, not through a style text, and cannot bring anything else along.
  const colour = await w.run(
    String.raw`printf '\033[38;2;255;0;0mred\033[0m \033[38;2;1;2;3;url(x)mno\033[0m\n'`,
  );
  assert.equal(
    await colour.locator(".fg-any").evaluate((e) => e.getAttribute("style").trim()),
    "--fg: #ff0000;",
  );
  await w.shot("hostile-output");
  await w.end();
}

async function huge(open) {
  const w = await open();
  await w.console();
  await w.create("huge");
  const sizes = () =>
    w.page.evaluate(() => ({
      nodes: document.querySelectorAll("*").length,
      text: document.querySelector(".scroll").textContent.length,
    }));
  const before = (await sizes()).nodes;

  // 200 MB of short lines: the newest are shown, the page stays alive, the number of elements bounded.
  const flood = await w.run(
    "yes 'a line of output that is not very long' | head -c 200000000; echo the end",
    { wait: false },
  );
  let slowest = 0;
  while (await flood.evaluate((e) => e.classList.contains("running"))) {
    const began = Date.now();
    const { nodes, text } = await sizes();
    slowest = Math.max(slowest, Date.now() - began);
    assert.ok(nodes < before + 6000, `${nodes} elements`);
    assert.ok(text < 3 << 20, `${text} characters`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.ok(slowest < 5000, `the page did not answer for ${slowest} ms`);
  assert.match((await flood.locator(".screen > div").last().innerText()).trim(), /the end$/);
  await flood
    .locator(".cut")
    .filter({ hasText: /MB of earlier output no longer shown/ })
    .waitFor();
  await w.shot("huge");

  // One line of 20 MB; then many commands. Old blocks go.
  await w.run("head -c 20000000 /dev/zero | tr '\\0' x; echo; echo next");
  for (let i = 0; i < 8; i++) await w.run(`seq ${i}000 ${i}999; seq 1 1500`);
  const { nodes, text } = await sizes();
  assert.ok(nodes < before + 16000, `${nodes} elements`);
  assert.ok(text < 6 << 20, `${text} characters`);

  // A flood is cancelled as anything else.
  const endless = await w.run("yes", { wait: false });
  await endless.locator(".out").first().waitFor();
  await endless.getByRole("button", { name: "Cancel" }).click();
  await endless.locator(".state").filter({ hasText: "cancelled" }).waitFor();
  await w.end();
}

async function many(open) {
  const w = await open();
  const all = Array.from({ length: 1500 }, (_, i) => ({
    id: `sb_${i.toString(16).padStart(16, "0")}`,
    status: "running",
    image: i % 2 ? "python:3.12-slim" : "node:20-slim",
    cpus: 1,
    memory_mb: 512,
    pids_limit: 256,
    network: false,
    read_only_rootfs: true,
    created_at: new Date(Date.now() - 1e6 + i).toISOString(),
    expires_at: new Date(Date.now() + 1e6 + i * 1000).toISOString(),
    source_snapshot_id: null,
    labels: i === 700 ? { team: "needle" } : {},
    backend: "docker",
  }));
  // More than a test can have for real.
  await w.page.route("**/v1/sandboxes", (route) =>
    route.fulfill({ json: { sandboxes: all, next_cursor: null } }),
  );
  await w.console();
  await w.page.locator(".rows li").first().waitFor();
  assert.equal(await w.page.locator(".rows li").count(), 200);
  assert.equal((await w.page.locator(".count").innerText()).trim(), "1500");
  await w.page.getByRole("button", { name: "Show more" }).click();
  assert.equal(await w.page.locator(".rows li").count(), 400);
  await w.page.getByLabel("Filter sandboxes").fill("needle");
  assert.equal(await w.page.locator(".rows li").count(), 1);
  await w.page.getByLabel("Filter sandboxes").fill("no such thing");
  await w.page.getByText("None matches.").waitFor();
  await w.page.getByLabel("Filter sandboxes").fill("");
  all.length = 3;
  await until(
    "the list follows the server",
    async () => (await w.page.locator(".rows li").count()) === 3,
    20,
  );
  await w.end();
}

async function refusals(open) {
  const w = await open({ allow: [/status of (400|403|404|409|410|413|422|429|401)/] });
  const { page } = w;
  await w.console();
  const id = await w.create("refusals");

  // What the server refuses is said in its words.
  const said = await api("POST", "/v1/sandboxes", { memory_mb: 1 });
  await page.getByRole("button", { name: "Create", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Memory").fill("1");
  await dialog.getByRole("button", { name: "Create", exact: true }).click();
  await dialog.getByRole("alert").getByText(said.error.message).waitFor();
  await w.shot("refused");
  await dialog.getByLabel("Memory").fill("many");
  await dialog.getByRole("button", { name: "Create", exact: true }).click();
  await dialog.getByRole("alert").getByText("is not a number").waitFor();
  await page.keyboard.press("Escape");

  // A time limit, a folder that is not there, a command that is not found.
  await page.getByText("Options", { exact: true }).click();
  await page.getByLabel("Time limit").fill("0.5");
  const late = await w.run("echo before; sleep 20");
  await late.locator(".state").filter({ hasText: "timed out" }).waitFor();
  assert.match(await late.locator(".out").innerText(), /before/);
  await page.getByLabel("Time limit").fill("");
  await page.getByRole("textbox", { name: "Folder" }).fill("/no/such");
  await page.getByLabel("Standard input").fill("in\n");
  const nowhere = await w.run("cat");
  const words = (await api("POST", `/v1/sandboxes/${id}/exec`, { command: "cat", workdir: "/no/such" })).error
    .message;
  await nowhere.getByRole("alert").getByText(words).waitFor();
  await page.getByRole("textbox", { name: "Folder" }).fill("");
  await page.getByLabel("Standard input").fill("from here\n");
  const cat = await w.run("cat");
  assert.equal((await cat.locator(".out").innerText()).trim(), "from here");
  const missing = await w.run("no-such-command");
  await missing.locator(".state").filter({ hasText: "exit 127" }).waitFor();

  // A file that cannot be read, a folder that goes away.
  await api("POST", `/v1/sandboxes/${id}/exec`, {
    command: "mkdir -p there; echo x > locked; chmod 0 locked",
  });
  const pane = page.locator(".filespane");
  await pane.getByRole("button", { name: "Load again" }).click();
  await pane.getByRole("button", { name: "locked", exact: true }).click();
  await page.getByRole("dialog").getByRole("alert").getByText("400 invalid_request").waitFor();
  await page.keyboard.press("Escape");
  await pane.getByRole("button", { name: "there", exact: true }).waitFor();
  await api("POST", `/v1/sandboxes/${id}/exec`, { command: "rm -r there" });
  await pane.getByRole("button", { name: "there", exact: true }).click();
  await pane.getByRole("alert").getByText("404 not_found").waitFor();

  // A file that is over the server's limit.
  const local = join(tmpdir(), `pages-${process.pid}.bin`);
  try {
    writeFileSync(local, "");
    truncateSync(local, 60e6);
    await pane.locator("input[type=file]").setInputFiles(local);
    await page.locator(".note.error").getByText("413 payload_too_large").waitFor();
  } finally {
    rmSync(local, { force: true });
  }
  assert.ok(
    !(await api("GET", `/v1/sandboxes/${id}/files/list`)).entries.some((e) => e.name.startsWith("pages-")),
  );

  // It is destroyed elsewhere while a command runs: both say so, and what was on the page stays.
  const waiting = await w.run("echo here; sleep 60", { wait: false });
  await waiting.locator(".out").filter({ hasText: "here" }).waitFor();
  await api("DELETE", `/v1/sandboxes/${id}`);
  await waiting.getByRole("alert").waitFor();
  await waiting.locator(".state").filter({ hasText: "no result" }).waitFor();
  await page
    .locator(".gone")
    .getByText(/gone|ended|deleted/)
    .first()
    .waitFor();
  assert.equal(await page.getByRole("textbox", { name: "Command" }).isDisabled(), true);
  assert.match(await waiting.locator(".out").innerText(), /here/);
  await w.shot("ended");
  await page.locator(".gone").getByRole("button", { name: "Back to the list" }).click();
  await page.getByRole("heading", { name: /No sandbox/ }).waitFor();

  // A link to one that never was.
  await page.evaluate(() => (location.hash = "#sb_0123456789abcdef"));
  await page.getByText("sandbox sb_0123456789abcdef not found").waitFor();

  // The key stops working: the page asks for it again, and forgets the old one.
  await page.route("**/v1/sandboxes", (route) =>
    route.fulfill({
      status: 401,
      json: { error: { code: "unauthorized", message: "this key is not known here" } },
    }),
  );
  await page.getByRole("alert").getByText("this key is not known here").waitFor();
  await page.getByLabel("API key").waitFor();
  await page.unroute("**/v1/sandboxes");
  await page.getByLabel("API key").fill(KEY);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: /^Sandboxes/ }).waitFor();
  w.problems = [];
  await w.end();
}

// The test stops and starts the server meanwhile, told by lines on stdout and stdin.
async function outage(open) {
  const w = await open({ allow: [/Failed to load resource|ERR_/] });
  const word = () => new Promise((resolve) => process.stdin.once("data", resolve));
  await w.console();
  await w.create("outage");
  const running = await w.run("echo up; sleep 60", { wait: false });
  await running.locator(".out").filter({ hasText: "up" }).waitFor();
  console.log("stop");
  await word();
  await w.page
    .getByRole("alert")
    .getByText(/No answer from/)
    .waitFor();
  await running.locator(".state").filter({ hasText: "no result" }).waitFor();
  await w.shot("outage");
  console.log("start");
  await word();
  await w.page.locator(".banner").waitFor({ state: "hidden", timeout: 30000 });
  const again = await w.run("echo back");
  assert.equal((await again.locator(".out").innerText()).trim(), "back");
  process.stdin.destroy();
  w.problems = [];
  await w.end();
}

main({ names, output, huge, many, refusals, outage });
