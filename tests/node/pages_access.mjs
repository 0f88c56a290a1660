// The pages for everybody: by keyboard alone, for screen readers, on a phone, in dark and light, without motion.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { api, KEY, main, until, URL_BASE } from "./pages_kit.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

async function axe(w, where) {
  await w.page.evaluate(AXE);
  const found = await w.page.evaluate(async (tags) => {
    const { violations } = await globalThis.axe.run(document, { runOnly: tags });
    return violations.map(
      (v) =>
        `${v.id}: ${v.help}\n${v.nodes
          .slice(0, 4)
          .map(
            (n) =>
              `    ${n.target.join(" ")}: ${n.html.slice(0, 160)}\n      ${(n.any[0] ?? n.all[0] ?? n.none[0])?.message}`,
          )
          .join("\n")}`,
    );
  }, TAGS);
  assert.deepEqual(found, [], `${where}: ${found.join("\n")}`);
}

// Nothing is wider than the window, in no view.
async function fits(w, where) {
  const wide = await w.page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return null;
    return [...document.querySelectorAll("body *")]
      .filter((e) => e.getBoundingClientRect().right > width + 1)
      .slice(0, 5)
      .map((e) => `${e.tagName}.${e.className}`);
  });
  assert.equal(wide, null, `${where} scrolls sideways: ${wide}`);
}

// Shows each view in turn, and calls look(name) in it.
async function views(w, look) {
  const { page } = w;
  await page.goto(`${URL_BASE}/console`);
  await page.getByLabel("API key").waitFor();
  await look("door");
  await page.getByLabel("API key").fill(KEY);
  await page.keyboard.press("Enter");
  await page.getByText("None yet.").waitFor();
  await look("nothing");
  await page.getByRole("button", { name: "Create", exact: true }).first().click();
  await page.getByText("Environment and labels").click();
  await look("create");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Run a program" }).click();
  await page.getByRole("dialog").getByLabel("Code").fill("print('one'); raise SystemExit('two')");
  await page.getByRole("dialog").getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("article", { name: "Result" }).waitFor({ timeout: 60000 });
  await look("run");
  await page.keyboard.press("Escape");
  const id = await w.create("views");
  await api("POST", `/v1/sandboxes/${id}/exec`, {
    command:
      "mkdir src; echo 'print(1)' > src/main.py; printf 'one\\ntwo\\n' > README.md; head -c 900 /dev/urandom > data.bin; ln -s src link; touch a-file-with-a-very-long-name-that-has-no-room-in-a-narrow-pane-of-a-page.txt",
  });
  const one = await api("POST", `/v1/sandboxes/${id}/snapshots`, {
    name: "before the upgrade of everything",
  });
  await api("POST", `/v1/sandboxes/${id}/rollback`, { snapshot_id: one.id });
  await api("POST", `/v1/sandboxes/${id}/snapshots`, {});
  const fork = await api("POST", `/v1/snapshots/${one.id}/fork`);
  await w.run(
    'for i in 0 1 2 3 4 5 6 7; do printf "\\033[3${i}mcolour \\033[9${i}mbright \\033[0;4${i}mground\\033[0m \\033[1;7;3${i}minverse\\033[0m \\033[38;2;$((i*36));200;$((250-i*36))mtrue\\033[0m \\033[48;5;$((i*30+20))mground\\033[0m\\n"; done; echo a warning >&2; exit 3',
  );
  await w.run("ls -la");
  await w.run("sleep 300", { wait: false });
  await look("commands");
  await page.getByRole("tab", { name: "Files" }).click();
  await page.getByRole("button", { name: "README.md", exact: true }).waitFor();
  await look("files");
  await page.getByRole("button", { name: "README.md", exact: true }).click();
  await page.locator("pre.text").waitFor();
  await look("preview");
  await page.keyboard.press("Escape");
  await page.getByRole("tab", { name: "Snapshots" }).click();
  await page.getByText("this sandbox stands here").waitFor();
  await look("tree");
  await page.getByRole("tab", { name: "Details" }).click();
  await look("details");
  await page.getByRole("button", { name: "Destroy" }).click();
  await look("destroy");
  await page.getByRole("dialog").getByRole("button", { name: "Destroy", exact: true }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await api("DELETE", `/v1/sandboxes/${fork.id}`);
  for (const s of (await api("GET", `/v1/snapshots?sandbox_id=${id}`)).snapshots)
    await api("DELETE", `/v1/snapshots/${s.id}`);
  await page.getByRole("link", { name: "API reference" }).click();
  await page.locator("#op-createSandbox").waitFor();
  await look("reference");
  const op = page.locator("#op-createSandbox");
  await op.locator("details.status summary").first().click();
  await op.locator("details.try > summary").click();
  await op.getByRole("button", { name: "Send" }).click();
  await op.locator(".outcome").waitFor();
  await op.scrollIntoViewIfNeeded();
  await look("try-it");
  const made = JSON.parse(await op.locator(".result pre").innerText());
  await api("DELETE", `/v1/sandboxes/${made.id}`);
}

const looking = (colorScheme) => async (open) => {
  const w = await open({ colorScheme });
  await views(w, async (name) => {
    await w.shot(`${name}-${colorScheme}`);
    await axe(w, `${name}, ${colorScheme}`);
    await fits(w, name);
  });
  await w.end();
};

const phone = async (open) => {
  const w = await open({ viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true });
  await views(w, async (name) => {
    await w.shot(`${name}-phone`);
    await fits(w, name);
    if (["commands", "files", "tree", "reference"].includes(name)) await axe(w, `${name}, phone`);
  });
  await w.end();
};

const tablet = async (open) => {
  const w = await open({ viewport: { width: 900, height: 700 } });
  await views(w, (name) => fits(w, name));
  await w.end();
};

// The toggle, and what it is without it.
async function colours(open) {
  const w = await open({ colorScheme: "light" });
  await w.console();
  const ground = () => w.page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await w.page.getByRole("button", { name: "Use dark colours" }).click();
  const dark = await ground();
  assert.notEqual(light, dark);
  await w.page.getByRole("link", { name: "API reference" }).click();
  assert.equal(await ground(), dark);
  await w.page.getByRole("button", { name: "Use light colours" }).click();
  assert.equal(await ground(), light);
  await w.end();
  const d = await open({ colorScheme: "dark", reducedMotion: "reduce" });
  await d.console();
  assert.equal(await d.page.evaluate(() => getComputedStyle(document.body).backgroundColor), dark);
  await d.create("motion");
  const block = await d.run("sleep 30", { wait: false });
  await block.locator(".spin").waitFor();
  assert.equal(
    await block.locator(".spin").evaluate((e) => getComputedStyle(e).animationIterationCount),
    "1",
  );
  await d.end();
}

// Tab, Enter, arrows: nothing else.
async function keyboard(open) {
  const w = await open();
  const { page } = w;
  const press = (key) => page.keyboard.press(key);
  const type = (text) => page.keyboard.type(text);
  const focused = () =>
    page.evaluate(() => {
      const e = document.activeElement;
      const style = getComputedStyle(e);
      return {
        name:
          e.getAttribute("aria-label") || e.labels?.[0]?.textContent || e.textContent.trim() || e.placeholder,
        tag: e.tagName,
        seen: e.matches(":focus-visible") && (style.outlineStyle !== "none" || style.boxShadow !== "none"),
      };
    });
  async function to(name, key = "Tab") {
    const passed = [];
    for (let i = 0; i < 80; i++) {
      const f = await focused();
      if (f.name === name || f.name.startsWith(name)) {
        assert.ok(f.seen, `the focus on "${name}" cannot be seen`);
        return;
      }
      passed.push(f.name.slice(0, 30));
      await press(key);
    }
    throw new Error(`the keyboard does not reach "${name}": ${passed.join(" > ")}`);
  }

  await page.goto(`${URL_BASE}/console`);
  await until("the field for the key has the focus", async () => (await focused()).name === "API key");
  await type(KEY);
  await press("Enter");
  await page.getByRole("heading", { name: /^Sandboxes/ }).waitFor();
  await to("Create");
  await press("Enter");
  await until("the dialog has the focus", async () => (await focused()).name === "Image");
  await to("Name");
  await type("by keyboard");
  await press("Enter");
  await page.getByRole("heading", { name: "by keyboard" }).waitFor({ timeout: 60000 });
  await until("the command line has the focus", async () => (await focused()).name === "Command");
  await type("echo hello > file.txt; cat file.txt; sleep 60");
  await press("Enter");
  await page.locator(".block .out").filter({ hasText: "hello" }).waitFor();
  await press("Control+c");
  await page.locator(".block .state").filter({ hasText: "cancelled" }).waitFor();

  await to("Files");
  await press("ArrowRight");
  assert.equal((await focused()).name, "Snapshots");
  await press("ArrowLeft");
  await to("file.txt");
  await press("Enter");
  await page.locator("pre.text").filter({ hasText: "hello" }).waitFor();
  await press("Escape");
  await until("the focus is back on the file", async () => (await focused()).name === "file.txt");
  // Also when the table was drawn anew meanwhile, with another file before it.
  await to("Command", "Shift+Tab");
  await type("sleep 2; touch a.txt");
  await press("Enter");
  await to("file.txt");
  await press("Enter");
  await page.locator("pre.text").filter({ hasText: "hello" }).waitFor();
  await page.locator("table.files").filter({ hasText: "a.txt" }).waitFor();
  await press("Escape");
  await until("the focus is still on the file", async () => (await focused()).name === "file.txt");

  await to("Snapshot", "Shift+Tab");
  while ((await focused()).name !== "Snapshot") await press("Shift+Tab");
  await press("Enter");
  await type("kept");
  await press("Enter");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await to("Files");
  await press("ArrowRight");
  await to("Fork kept");
  await press("Enter");
  await page.getByRole("dialog").waitFor();
  await press("Enter");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.locator(".treepane .sandbox").nth(1).waitFor();
  await until("the focus is on what forked", async () => (await focused()).name === "Fork kept");
  await to("Roll back to kept", "Shift+Tab");
  await press("Enter");
  // The safe answer has the focus.
  await until("Cancel has the focus", async () => (await focused()).name === "Cancel");
  await to("Roll back");
  await press("Enter");
  await page.getByRole("dialog").waitFor({ state: "detached" });

  await to("Destroy", "Shift+Tab");
  await press("Enter");
  await until("Cancel has the focus", async () => (await focused()).name === "Cancel");
  await to("Destroy");
  await press("Enter");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await until("the focus is on the list", async () => (await focused()).tag === "A");

  // The reference, from the first link of the page.
  await page.evaluate(() => document.activeElement.blur());
  await to("API reference");
  await press("Enter");
  await page.locator("#op-listSandboxes").waitFor();
  await to("Find an operation");
  await type("list sandboxes");
  await to("GETList sandboxes");
  await press("Enter");
  await until("the operation has the focus", async () => (await focused()).name === "List sandboxes");
  await to("Try it");
  await press("Enter");
  await to("Send");
  await press("Enter");
  await page.locator("#op-listSandboxes .outcome").filter({ hasText: "200" }).waitFor();
  await w.end();
}

// What a screen reader is told.
async function spoken(open) {
  const w = await open();
  await w.console();
  await w.create("spoken");
  const said = w.page.locator("#said");
  await w.run("echo hello; echo oh >&2; exit 4");
  await until("the result is said", async () => /^Exit code 4.*hello/s.test(await said.textContent()));
  await w.run("seq 100000");
  await until("only the result of much output is said", async () =>
    /^Exit code 0, [\d,]+ lines$/.test(await said.textContent()),
  );
  const tree = await w.page.locator("main").ariaSnapshot();
  for (const part of [
    'region "Sandboxes"',
    'list "Sandboxes"',
    'log "Output of commands"',
    'textbox "Command"',
    'tablist "Parts of the sandbox"',
    'tab "Files" [selected]',
    'tabpanel "Files"',
  ]) {
    assert.ok(tree.includes(part), `${part} is not in the accessibility tree:\n${tree}`);
  }
  assert.equal((await w.page.getByRole("heading", { level: 1 }).count()) > 0, true);
  await w.end();
}

main({ light: looking("light"), dark: looking("dark"), phone, tablet, colours, keyboard, spoken });
