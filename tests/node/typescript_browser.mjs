// The TypeScript SDK in a real Chromium: a page that comes from the same origin as the API, as behind a proxy, uses it as it was built.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { chromium } from "playwright-core";

const DIST = new URL("../../build/clients/typescript/dist/", import.meta.url);
const SERVER = new URL(process.env.AGENT_SANDBOX_URL);

/** Serves the page and the package, and passes all else on. */
function proxy(asked, answer) {
  if (asked.url === "/") return answer.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>page</title>");
  if (asked.url.startsWith("/sdk/")) {
    return answer.writeHead(200, { "content-type": "text/javascript" }).end(readFileSync(new URL(asked.url.slice(5), DIST)));
  }
  if (asked.url.startsWith("/moved/")) return answer.writeHead(307, { location: asked.url.slice(6) }).end();
  if (asked.url.startsWith("/page/")) return answer.writeHead(502, { "content-type": "text/html" }).end("<h1>Bad Gateway</h1>");
  const { method, url, headers } = asked;
  const behind = request({ host: SERVER.hostname, port: SERVER.port, method, path: url, headers }, (said) => {
    answer.writeHead(said.statusCode, said.headers);
    said.pipe(answer);
  });
  behind.on("error", () => answer.destroy());
  answer.on("close", () => behind.destroy());
  asked.pipe(behind);
}

/** Runs in the page. */
async function story(apiKey) {
  const sdk = await import("/sdk/index.js");
  const check = (true_, what) => {
    if (!true_) throw new Error(`not so: ${what}`);
  };
  const fails = async (promise, type) => {
    const error = await promise.then(
      () => undefined,
      (failed) => failed,
    );
    check(error?.constructor === type, `${type.name}, but ${error?.name}: ${error?.message}`);
    return error;
  };
  const client = new sdk.SandboxClient({ apiKey });
  check(client.baseUrl === location.origin, "the server is behind the page");
  check((await client.health()).status === "ok", "health");
  const sandbox = await client.create({ timeoutSeconds: 120 });
  try {
    check((await sandbox.exec(["echo", "grüße"])).stdout === "grüße\n", "exec");
    const events = [];
    for await (const event of sandbox.execStream("cat; exit 3", { stdin: new Blob(["x".repeat(100_000)]) })) events.push(event);
    check(events.at(-1).exitCode === 3, "exit");
    check(
      events
        .slice(0, -1)
        .map((event) => event.data)
        .join("").length === 100_000,
      "stdin",
    );
    for await (const event of sandbox.execStream("yes")) if (event) break;
    const moved = [];
    const stream = new Blob(["streamed"]).stream();
    await sandbox.writeFile("a", stream, { progress: (done) => moved.push(done) });
    await sandbox.writeFile("b", new File(["blob"], "b"));
    check((await sandbox.readText("a")) + (await sandbox.readText("b")) === "streamedblob", "files");
    check(moved.at(-1) === 8, "progress");
    const size = (await new Response(await sandbox.readStream("a")).blob()).size;
    check(size === 8, "a stream as the body of a Response");
    const archive = await new Response(await sandbox.readArchive()).blob();
    await sandbox.writeArchive(archive, "back");
    check((await sandbox.listFiles("back")).map((file) => file.name).join() === "a,b", "archive");
    const control = new AbortController();
    setTimeout(() => control.abort(new Error("mine")), 100);
    const aborted = await sandbox.exec("sleep 60", { signal: control.signal }).catch((error) => error);
    check(aborted.message === "mine", "abort");
  } finally {
    await sandbox.destroy();
  }
  await fails(client.get(sandbox.id), sdk.SandboxNotFoundError);
  await fails(new sdk.SandboxClient({ apiKey: "wrong-key-0123456789" }).listSandboxes(), sdk.SandboxAuthError);
  await fails(new sdk.SandboxClient({ apiKey, baseUrl: `${location.origin}/moved` }).listSandboxes(), sdk.SandboxRedirectError);
  await fails(new sdk.SandboxClient({ apiKey, baseUrl: `${location.origin}/page` }).listSandboxes(), sdk.SandboxAnswerError);
  const down = new sdk.SandboxClient({ apiKey, baseUrl: "http://127.0.0.1:9", retries: 0 });
  await fails(down.listSandboxes(), sdk.SandboxConnectionLostError);
  return "the end";
}

const server = createServer(proxy);
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const browser = await chromium.launch({
  executablePath: process.env.PAGES_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"],
});
try {
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  assert.equal(await page.evaluate(story, process.env.AGENT_SANDBOX_API_KEY), "the end");
} finally {
  await browser.close();
  server.closeAllConnections();
  server.close();
}
console.log("the end");
