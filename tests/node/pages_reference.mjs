// The reference against the description that it is drawn from: everything is there, and every kind of request can be sent.
import assert from "node:assert/strict";
import { api, KEY, main, until, URL_BASE } from "./pages_kit.mjs";

async function reference(open, options) {
  const w = await open(options);
  await w.page.goto(`${URL_BASE}/docs`);
  await w.page.locator(".operation h3").first().waitFor();
  const doc = await (await fetch(`${URL_BASE}/openapi.json`)).json();
  const ops = Object.entries(doc.paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([, op]) => op.operationId)
      .map(([method, op]) => ({ path, method, ...op })),
  );
  return { w, doc, ops };
}

const ref = (doc, node) =>
  node.$ref
    ? node.$ref
        .slice(2)
        .split("/")
        .reduce((at, step) => at[step], doc)
    : node;

async function complete(open) {
  const { w, doc, ops } = await reference(open);
  const { page } = w;
  assert.ok(ops.length > 20);
  for (const op of ops) {
    const section = page.locator(`#op-${op.operationId}`);
    const text = await section.innerText();
    assert.ok(text.includes(op.summary), op.operationId);
    assert.ok((await section.locator(".path").innerText()).includes(op.path));
    assert.ok(
      (await section.locator(".curl").innerText()).startsWith("curl "),
      `no curl line for ${op.operationId}`,
    );
    assert.equal(await page.locator(`.toc a[href="#op-${op.operationId}"]`).count(), 1);
    for (const p of op.parameters ?? []) {
      const { name, required, schema } = ref(doc, p);
      const row = section
        .locator(".words > .fieldlist > .row")
        .filter({ has: page.locator("dt > .fieldname").getByText(name, { exact: true }) });
      assert.equal(await row.count(), 1, `${op.operationId}: ${name}`);
      const shown = await row.innerText();
      if (required) assert.match(shown, /required/);
      if (schema.default !== undefined)
        assert.ok(shown.includes("default"), `${op.operationId}: default of ${name}`);
      if (schema.minimum !== undefined) assert.ok(shown.includes(String(schema.minimum)));
    }
    const statuses = await section.locator(".status .code-number").allInnerTexts();
    assert.deepEqual(statuses, Object.keys(op.responses), op.operationId);
  }

  // Every answer opens, with its example; fields of bodies have types and bounds.
  const create = page.locator("#op-createSandbox");
  for (const summary of await create.locator("details.status > summary").all()) await summary.click();
  await until("all answers are drawn", async () => (await create.locator(".answer:empty").count()) === 0);
  const body = await create.innerText();
  for (const part of [
    "memory_mb",
    "\u2265 16",
    "pids_limit",
    "\u2265 8",
    "integer or null",
    "validation_error",
    "limit_exceeded",
    "Retry-After",
    "expires_at",
  ])
    assert.ok(body.includes(part), part);
  for (const name of Object.keys(doc.components.schemas)) {
    await page.locator(`#schema-${name} > summary`).click();
    await page.locator(`#schema-${name} .answer > *`).first().waitFor();
  }
  assert.ok(!(await page.locator("main").innerText()).match(/undefined|\[object|NaN/));

  assert.ok(!(await page.locator("main").innerText()).includes("`"), "marks of the descriptions are shown raw");

  // The contents: find, jump, and an address that leads to an operation.
  await page.getByLabel("Find an operation").fill("rollback");
  assert.equal(await page.locator(".toc li:visible a[href^='#op-']").count(), 1);
  await page.locator(".toc li:visible a[href^='#op-']").click();
  assert.match(page.url(), /#op-rollbackSandbox$/);
  await page.goto(`${URL_BASE}/docs#op-forkSnapshot`);
  await page.reload();
  await page.locator("#op-forkSnapshot h3").waitFor();
  await page.waitForFunction(() => document.activeElement?.closest("#op-forkSnapshot"));
  await w.end();
}

async function forms(open) {
  const { w } = await reference(open, { allow: [/status of (401|404|400)/] });
  const { page } = w;
  const box = await api("POST", "/v1/sandboxes", { timeout_seconds: 600 });
  assert.ok(box.id, JSON.stringify(box));
  const form = async (id, values = {}) => {
    const f = page.locator(`#op-${id} details.try`);
    if (!(await f.evaluate((e) => e.open))) await f.locator("summary").first().click();
    for (const [label, value] of Object.entries(values))
      await f.getByLabel(label, { exact: true }).fill(value);
    return f;
  };
  const send = (f) => f.getByRole("button", { name: "Send" }).click();
  const key = page.getByRole("dialog", { name: "API key" });

  // Without a key it asks; a wrong one is refused there; then the request goes out.
  const show = await form("getSandbox", { "sandbox_id *": box.id });
  await send(show);
  await key.getByLabel("Key").fill("wrong-wrong-wrong-wrong");
  await page.keyboard.press("Enter");
  await key.getByRole("alert").getByText("401 unauthorized").waitFor();
  await key.getByLabel("Key").fill(KEY);
  await page.keyboard.press("Enter");
  await show.locator(".outcome").filter({ hasText: "200" }).waitFor();
  assert.ok((await show.locator(".result pre").first().innerText()).includes(box.id));
  await show.getByText(/^Headers/).click();
  await show.getByText("x-request-id").waitFor();

  // Bytes up and down, the curl line beside it follows; a folder as tar; a refusal in the server's words.
  const up = await form("writeFile", { "sandbox_id *": box.id, "path *": "a b.bin" });
  await up
    .locator("input[type=file]")
    .setInputFiles({
      name: "it's.bin",
      mimeType: "application/octet-stream",
      buffer: Buffer.from([0, 1, 2, 255]),
    });
  const line = await page.locator("#op-writeFile .curl").innerText();
  assert.ok(line.includes(`-T 'it'\\''s.bin'`) && line.includes("path=a+b.bin") && !line.includes(KEY), line);
  await send(up);
  await up.locator(".outcome").filter({ hasText: "200" }).waitFor();
  const down = await form("readFile", { "sandbox_id *": box.id, "path *": "a b.bin" });
  await send(down);
  await down.getByRole("button", { name: "Save 4 B" }).waitFor();
  const [got] = await Promise.all([
    page.waitForEvent("download"),
    down.getByRole("button", { name: "Save 4 B" }).click(),
  ]);
  assert.equal(got.suggestedFilename(), "a b.bin");
  await down.getByLabel("path *").fill("none");
  await send(down);
  await down.locator(".outcome").filter({ hasText: "404" }).waitFor();
  await down.locator(".result pre").filter({ hasText: "none" }).waitFor();
  const tar = await form("readArchive", { "sandbox_id *": box.id, "path *": "/workspace" });
  await send(tar);
  await tar.getByRole("button", { name: /^Save/ }).waitFor();

  // What is missing in the path is asked for; a stream is shown as it comes and can be cancelled.
  const fork = await form("forkSnapshot");
  await send(fork);
  await fork.getByRole("alert").getByText("snapshot_id is part of the path").waitFor();
  const stream = await form("streamCommand", {
    "sandbox_id *": box.id,
    "Body (JSON)": '{"command": "echo first; sleep 60"}',
  });
  await send(stream);
  await stream.getByText('{"type":"stdout","data":"first\\n"}').waitFor();
  await stream.getByRole("button", { name: "Cancel" }).click();
  await stream.getByRole("alert").getByText("Cancelled").waitFor();
  const end = await form("deleteSandbox", { "sandbox_id *": box.id });
  await send(end);
  await end.locator(".outcome").filter({ hasText: "204" }).waitFor();
  await w.end();
}

// All curl lines, for the test to run in a shell.
async function curl(open) {
  const { w, ops } = await reference(open);
  const lines = {};
  for (const op of ops)
    lines[op.operationId] = await w.page.locator(`#op-${op.operationId} .curl`).innerText();
  await w.end();
  console.log(JSON.stringify(lines));
}

main({ complete, forms, curl });
