/** What differs between Node, Deno, Bun and browsers, looked up without importing anything of theirs. */

interface Globals {
  process?: { env?: Record<string, string | undefined> };
  navigator?: { userAgent?: string };
  location?: { origin?: string };
  [key: symbol]: unknown;
}

const globals = globalThis as unknown as Globals;

/** In a browser bodies cannot be streamed to an HTTP/1.1 server, and headers of the connection are the browser's own. */
export const inBrowser = globals.navigator?.userAgent?.startsWith("Mozilla/") === true;

export const inDeno = "Deno" in globals;

/** A variable of the environment; undefined where there is none, where it is empty, or where it may not be read. */
export function environment(name: string): string | undefined {
  try {
    return globals.process?.env?.[name] || undefined;
  } catch {
    return undefined;
  }
}

/** Where the server is if nobody says so: behind the page in a browser, on this machine elsewhere. */
export function defaultUrl(): string {
  const origin = inBrowser ? globals.location?.origin : undefined;
  return origin?.startsWith("http") ? origin : "http://127.0.0.1:8080";
}

interface Agent {
  constructor: new (options: object) => object;
}

const ours = new Map<boolean, { from: Agent; agent: object | undefined }>();

/**
 * An agent like the one that Node's fetch uses, without its limits, and if `direct` without its proxies; one of another kind (a proxy's,
 * a test's) keeps its own.
 */
function patientAgent(from: Agent, direct: boolean): object | undefined {
  let known = ours.get(direct);
  if (known?.from !== from) {
    known = { from, agent: undefined };
    ours.set(direct, known);
    if (["Agent", "EnvHttpProxyAgent"].includes(from.constructor.name)) {
      try {
        known.agent = new from.constructor({ headersTimeout: 0, bodyTimeout: 0, ...(direct ? { noProxy: "*" } : {}) });
      } catch {
        // Made in another way in this version of Node: its limits of 300 s hold.
      }
    }
  }
  return known.agent;
}

const clients = new Map<string, object | undefined>();

/** A client of Deno without the environment's proxies: it looks at the variables when it is made, and takes no other word for it. */
function directClient(host: string): object | undefined {
  if (!clients.has(host)) {
    let client: object | undefined;
    const env = globals.process?.env ?? {};
    const before = env["NO_PROXY"];
    try {
      env["NO_PROXY"] = host;
      client = (globals as { Deno?: { createHttpClient?: (options: object) => object } }).Deno?.createHttpClient?.({});
    } catch {
      // The environment may not be changed: the user's own variables count.
    }
    try {
      if (before === undefined) delete env["NO_PROXY"];
      else env["NO_PROXY"] = before;
    } catch {
      // Nor was it.
    }
    clients.set(host, client);
  }
  return clients.get(host);
}

const PROXIES = ["http_proxy", "https_proxy", "all_proxy"].flatMap((name) => [name, name.toUpperCase()]);

/** Whether a server is on this machine, where a proxy has no place. */
function isLoopback(host: string): boolean {
  return host === "localhost" || host === "[::1]" || /^127\.[\d.]+$/.test(host);
}

/**
 * Members of fetch's options by which the runtime does not give up by itself on a silent server, since a command may run for an hour,
 * and asks no proxy of the environment, which would get the key, for a server on this machine. Node's fetch ends after 300 s unless it
 * is handed another agent; Bun's takes `timeout` and `proxy`; Deno's takes a client.
 */
export function manner(url: string): object {
  if (inBrowser) return { credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer" };
  const host = new URL(url).hostname;
  const direct = isLoopback(host);
  if (inDeno) {
    const client = direct && PROXIES.some(environment) ? directClient(host.replace(/[[\]]/g, "")) : undefined;
    return client === undefined ? {} : { client };
  }
  // Node makes its agent when one of fetch's classes is first looked at.
  void globalThis.Headers;
  const current = globals[Symbol.for("undici.globalDispatcher.1")] as Agent | undefined;
  const agent = current === undefined ? undefined : patientAgent(current, direct);
  return agent === undefined ? { timeout: false, ...(direct ? { proxy: false } : {}) } : { dispatcher: agent };
}

/** A random name for a request that may be sent twice. */
export function randomId(): string {
  const bytes = new Uint8Array(16);
  if (globalThis.crypto === undefined) bytes.forEach((_, i) => (bytes[i] = Math.random() * 256));
  else crypto.getRandomValues(bytes);
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}
