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
  constructor: new (limits: object) => object;
}

let ours: { from: Agent; agent: object | undefined } | undefined;

/** An agent like the one that Node's fetch uses, without its limits; one of another kind (a proxy's, a test's) keeps its own. */
function patientAgent(from: Agent): object | undefined {
  if (ours?.from !== from) {
    ours = { from, agent: undefined };
    if (["Agent", "EnvHttpProxyAgent"].includes(from.constructor.name)) {
      try {
        ours.agent = new from.constructor({ headersTimeout: 0, bodyTimeout: 0 });
      } catch {
        // Made in another way in this version of Node: its limits of 300 s hold.
      }
    }
  }
  return ours.agent;
}

/**
 * Members of fetch's options by which the runtime does not give up by itself on a silent server: a command may run for an hour.
 * Node's fetch ends after 300 s unless it is handed another agent; Bun's takes `timeout`.
 */
export function patience(): object {
  if (inBrowser) return { credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer" };
  // Node makes its agent when one of fetch's classes is first looked at.
  void globalThis.Headers;
  const current = globals[Symbol.for("undici.globalDispatcher.1")] as Agent | undefined;
  const agent = current === undefined ? undefined : patientAgent(current);
  return agent === undefined ? { timeout: false } : { dispatcher: agent };
}

/** A random name for a request that may be sent twice. */
export function randomId(): string {
  const bytes = new Uint8Array(16);
  if (globalThis.crypto === undefined) bytes.forEach((_, i) => (bytes[i] = Math.random() * 256));
  else crypto.getRandomValues(bytes);
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}
