// What the tests of the pages stand on: a real Chromium that reports everything a page must not do.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { chromium } from "playwright-core";

export const URL_BASE = process.env.AGENT_SANDBOX_URL;
export const KEY = process.env.AGENT_SANDBOX_API_KEY;
const SHOTS = process.env.PAGES_SHOTS;

const CHROMIUM = process.env.PAGES_CHROMIUM ?? "/usr/bin/chromium";
const ARGUMENTS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

// A page, watched. allow: patterns of console errors that the test itself provokes.
export class Watched {
  static async open({ allow = [], ...options } = {}) {
    const self = new Watched();
    self.allow = allow;
    self.browser = await chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS });
    self.context = await self.browser.newContext({
      viewport: { width: 1440, height: 900 },
      acceptDownloads: true,
      ignoreHTTPSErrors: (process.env.AGENT_SANDBOX_URL ?? "").startsWith("https:"), // an authority that only the tests trust
      ...options,
    });
    self.context.setDefaultTimeout(15000);
    await self.context.addInitScript(() => {
      globalThis.violations = [];
      document.addEventListener("securitypolicyviolation", (e) =>
        globalThis.violations.push(`${e.violatedDirective} ${e.blockedURI}`),
      );
    });
    self.problems = [];
    self.requests = [];
    self.page = await self.context.newPage();
    self.page.on("console", (m) => {
      const text = `${m.text()} ${m.location().url}`;
      if (["error", "warning"].includes(m.type()) && !self.allow.some((p) => p.test(text)))
        self.problems.push(`console ${m.type()}: ${text}`);
    });
    self.page.on("pageerror", (e) => self.problems.push(`exception: ${e.stack}`));
    self.page.on("dialog", (d) => {
      self.problems.push(`a dialog of the browser: ${d.message()}`);
      d.dismiss();
    });
    self.context.on("request", (r) => self.requests.push(r));
    self.context.on(
      "page",
      (p) => p !== self.page && self.problems.push(`another page was opened: ${p.url()}`),
    );
    return self;
  }

  async console() {
    await this.page.goto(`${URL_BASE}/console`);
    await this.page.getByLabel("API key").fill(KEY);
    await this.page.keyboard.press("Enter");
    await this.page.getByRole("heading", { name: /^Sandboxes/ }).waitFor();
  }

  // Creates a sandbox through the dialog; its id.
  async create(name) {
    await this.page.getByRole("button", { name: "Create", exact: true }).click();
    const dialog = this.page.getByRole("dialog", { name: "Create a sandbox" });
    await dialog.getByLabel("Name", { exact: true }).fill(name);
    await dialog.getByRole("button", { name: "Create", exact: true }).click();
    await dialog.waitFor({ state: "detached", timeout: 60000 });
    await this.page.getByRole("heading", { name }).waitFor();
    return new URL(this.page.url()).hash.slice(1);
  }

  // Runs a command; resolves when it has ended, to its block.
  async run(command, { wait = true } = {}) {
    const line = this.page.getByRole("textbox", { name: "Command" });
    const newest = () => this.page.locator(".block").evaluateAll((all) => all.at(-1)?.id ?? "");
    const before = await newest();
    await line.fill(command);
    await line.press("Enter");
    await until("the command is sent", async () => (await newest()) !== before);
    const id = await newest();
    const block = this.page.locator(`#${id}`);
    if (wait)
      await this.page.waitForFunction(
        (name) => !document.getElementById(name)?.classList.contains("running"),
        id,
        { timeout: 40000 },
      );
    return block;
  }

  async shot(name) {
    if (!SHOTS) return;
    mkdirSync(SHOTS, { recursive: true });
    await this.page.screenshot({ path: `${SHOTS}/${name}.png` });
  }

  // What must hold of every page, whatever was done with it.
  async check() {
    const { page } = this;
    const state = await page.evaluate(
      async (key) => ({
        violations: globalThis.violations,
        local: localStorage.length,
        session: sessionStorage.length,
        cookie: document.cookie,
        databases: (await indexedDB.databases()).length,
        caches: "caches" in globalThis ? (await caches.keys()).length : 0,
        workers: (await navigator.serviceWorker?.getRegistrations())?.length ?? 0,
        history: JSON.stringify(history.state),
        address: location.href,
        name: globalThis.name,
        keyShown: document.documentElement.outerHTML.includes(key),
      }),
      KEY,
    );
    assert.deepEqual(state.violations, [], "the content security policy was violated");
    for (const place of ["local", "session", "databases", "caches", "workers"])
      assert.equal(state[place], 0, `something is stored: ${place}`);
    assert.equal(state.cookie + state.name, "");
    assert.equal(state.history, "null");
    assert.equal((await this.context.cookies()).length, 0);
    assert.ok(!state.address.includes(KEY) && !state.keyShown, "the key is in the address or the document");
    for (const r of this.requests) {
      const to = new URL(r.url());
      if (to.protocol === "blob:" || to.protocol === "data:") continue;
      assert.equal(to.origin, new URL(URL_BASE).origin, `a request to another host: ${r.url()}`);
      assert.ok(!r.url().includes(KEY), "the key is in an address");
    }
    assert.deepEqual(this.problems, []);
  }

  async end() {
    await this.check();
    await this.browser.close();
  }
}

// Tries until it holds: for what the page does by itself after a while.
export async function until(what, check, seconds = 15) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    if (await check()) return;
    if (Date.now() > end) throw new Error(`did not happen within ${seconds} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

// A request of the test itself, beside the page.
export async function api(method, path, body) {
  const response = await fetch(URL_BASE + path, {
    method,
    headers: { "X-API-Key": KEY, ...(body ? { "Content-Type": "application/json" } : {}) },
    body: body && JSON.stringify(body),
  });
  return response.status === 204 ? null : response.json();
}

// Runs the scenario that the command line names; the process fails when it does.
export async function main(scenarios) {
  const [name] = process.argv.slice(2);
  const opened = [];
  const open = async (options) => {
    const w = await Watched.open(options);
    opened.push(w);
    return w;
  };
  try {
    await scenarios[name](open);
  } catch (error) {
    console.error(error);
    const last = opened.at(-1);
    if (last) {
      console.error("problems:", last.problems);
      await last.shot(`failed-${name}`).catch(() => {});
    }
    process.exitCode = 1;
  } finally {
    for (const w of opened) await w.browser.close().catch(() => {});
  }
}
