/** What differs between Node, Deno, Bun and browsers, looked up without importing anything of theirs. */

import { SandboxConfigError, oneLine } from "./errors.js";
import type { Tls } from "./trust.js";

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

/**
 * A client of Deno; `direct`: without the environment's proxies, of which it looks at the variables when it is made, and takes no other
 * word for it.
 */
function denoClient(host: string, direct: boolean, options: object): object | undefined {
  const make = (globals as { Deno?: { createHttpClient?: (options: object) => object } }).Deno?.createHttpClient;
  if (!direct) return make?.(options);
  const env = globals.process?.env ?? {};
  const before = env["NO_PROXY"];
  try {
    env["NO_PROXY"] = host;
  } catch {
    // The environment may not be changed: the user's own variables count.
  }
  try {
    return make?.(options);
  } finally {
    try {
      if (before === undefined) delete env["NO_PROXY"];
      else env["NO_PROXY"] = before;
    } catch {
      // Nor was it.
    }
  }
}

const clients = new Map<string, object | undefined>();

/** A client of Deno without the environment's proxies; undefined: there is none. */
function directClient(host: string): object | undefined {
  if (!clients.has(host)) {
    let client: object | undefined;
    try {
      client = denoClient(host, true, {});
    } catch {
      // The usual one will do.
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

/** What Deno's fetch is to use; undefined: what it always uses. */
function inDenoBy(hostname: string, direct: boolean, tls: Tls | undefined): object | undefined {
  const host = hostname.replace(/[[\]]/g, "");
  const proxied = direct && PROXIES.some(environment);
  if (tls === undefined) return proxied ? directClient(host) : undefined;
  const { ca, cert, key } = tls;
  const options = { ...(ca === undefined ? {} : { caCerts: [ca] }), ...(cert === undefined ? {} : { cert, key }) };
  return remembered(tls, () => denoClient(host, proxied, options));
}

/** Node makes its agent when one of fetch's classes is first looked at; Bun has none. */
function currentAgent(): Agent | undefined {
  void globalThis.Headers;
  return globals[Symbol.for("undici.globalDispatcher.1")] as Agent | undefined;
}

/** For Node: an agent like its own without limits of time, that trusts and shows this, and if `direct` knows no proxy. */
function trustingAgent(from: Agent, direct: boolean, tls: Tls): object {
  return remembered(tls, () => {
    const connect = { ...tls, allowPartialTrustChain: true };
    const kinds = ["Agent", "EnvHttpProxyAgent"];
    if (!kinds.includes(from.constructor.name)) return undefined;
    const proxies = from.constructor.name === "Agent" ? {} : { requestTls: connect, ...(direct ? { noProxy: "*" } : {}) };
    return new from.constructor({ headersTimeout: 0, bodyTimeout: 0, connect, ...proxies });
  });
}

const trusting = new WeakMap<Tls, object>();

/** What was made once for these certificates; fails when it cannot be made, since nothing may go out without them. */
function remembered(tls: Tls, make: () => object | undefined): object {
  let known = trusting.get(tls);
  if (known === undefined) {
    let cause: unknown;
    try {
      known = make();
    } catch (error) {
      cause = error;
    }
    if (known === undefined) {
      const why = cause instanceof Error ? `: ${oneLine(cause.message, 200)}` : ", since its fetch was replaced: give your own fetch";
      throw new SandboxConfigError(`a CA or a client certificate cannot be used in this runtime${why}`, { cause });
    }
    trusting.set(tls, known);
  }
  return known;
}

/**
 * Members of fetch's options by which the runtime does not give up by itself on a silent server, since a command may run for an hour,
 * asks no proxy of the environment, which would get the key, for a server on this machine, and trusts and shows what it is told.
 * Node's fetch ends after 300 s unless it is handed another agent, which also has the certificates; Bun's takes `timeout`, `proxy` and
 * `tls`; Deno's takes a client.
 */
export function manner(url: string, tls: Tls | undefined): object {
  if (inBrowser && tls !== undefined) {
    throw new SandboxConfigError("whom a page trusts is the browser's matter: a CA and a client certificate are given to it");
  }
  if (inBrowser) return { credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer" };
  const host = new URL(url).hostname;
  const direct = isLoopback(host);
  if (inDeno) {
    const client = inDenoBy(host, direct, tls);
    return client === undefined ? {} : { client };
  }
  const current = currentAgent();
  if (current !== undefined && tls !== undefined) return { dispatcher: trustingAgent(current, direct, tls) };
  const agent = current === undefined ? undefined : patientAgent(current, direct);
  if (agent !== undefined) return { dispatcher: agent };
  return { timeout: false, ...(direct ? { proxy: false } : {}), ...(tls === undefined ? {} : { tls }) };
}

/** A random name for a request that may be sent twice. */
export function randomId(): string {
  const bytes = new Uint8Array(16);
  if (globalThis.crypto === undefined) bytes.forEach((_, i) => (bytes[i] = Math.random() * 256));
  else crypto.getRandomValues(bytes);
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}
