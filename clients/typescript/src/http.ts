/** One request: where to, with which key, how often, and whether the server took it. */

import { Answer } from "./answer.js";
import type { Body, Opened } from "./body.js";
import {
  SandboxAnswerError,
  SandboxConfigError,
  SandboxConnectionLostError,
  SandboxError,
  SandboxNotFoundError,
  SandboxRedirectError,
  SandboxUnreachableError,
  refusal,
} from "./errors.js";
import { defaultUrl, environment, inBrowser, inDeno, manner } from "./runtime.js";
import type { Tls } from "./trust.js";
import { Watch, words } from "./watch.js";

/** A function like the global `fetch`. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export interface Request {
  method: "GET" | "POST" | "PUT" | "DELETE";
  path: string;
  query?: Record<string, string | undefined>;
  json?: object;
  body?: Body;
  idempotencyKey?: string;
  range?: string | undefined;
  /** Whether doing it twice is the same as doing it once. */
  repeatable?: boolean;
  onRepeat?: () => void;
  /** Seconds without a sign of life, instead of the client's own. */
  patience?: number | undefined;
  signal?: AbortSignal | undefined;
}

const ERROR_MOST = 64 * 1024;
/** Longest `Retry-After`, in seconds, that is waited for. */
const RETRY_AFTER_MOST = 5;

function retryAfter(response: Response): number | undefined {
  const said = response.headers.get("retry-after");
  if (said === null) return undefined;
  const seconds = /^\d+$/.test(said) ? Number(said) : (Date.parse(said) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, Math.ceil(seconds)) : undefined;
}

export interface Place {
  url: string;
  key: string | undefined;
  tls?: Tls | undefined;
}

/** The address as it is used, and a key that may stand in it (`http://any:KEY@host`). */
export function place(baseUrl: string | undefined, apiKey: string | undefined): Place {
  const given = baseUrl ?? environment("AGENT_SANDBOX_URL") ?? defaultUrl();
  let url: URL;
  try {
    url = new URL(given);
  } catch {
    throw new SandboxConfigError("the address of the server is not a URL: it looks like http://127.0.0.1:8080");
  }
  if (url.protocol !== "http:" && url.protocol !== "https:")
    throw new SandboxConfigError("the address of the server must begin with http:// or https://");
  if (url.search !== "" || url.hash !== "") throw new SandboxConfigError("the address of the server must not have a query or a fragment");
  let inUrl: string;
  try {
    inUrl = decodeURIComponent(url.password);
  } catch {
    inUrl = url.password;
  }
  const key = apiKey ?? (inUrl || undefined) ?? environment("AGENT_SANDBOX_API_KEY");
  if (key !== undefined && !/^[\x21-\x7e]+$/.test(key)) {
    throw new SandboxConfigError("the key must be one line of printable ASCII without spaces");
  }
  return { url: url.origin + url.pathname.replace(/\/+$/, ""), key };
}

/** Asks the server. */
export class Http {
  readonly url: string;
  /** Seconds of silence after which a call is given up. */
  readonly seconds: number;
  readonly #key: string | undefined;
  readonly #fetch: Fetch;
  readonly #retries: number;
  readonly #tls: Tls | undefined;

  constructor(where: Place, seconds: number, retries: number, fetcher: Fetch) {
    this.url = where.url;
    this.#key = where.key;
    this.#tls = where.tls;
    this.seconds = seconds;
    this.#retries = retries;
    this.#fetch = fetcher;
  }

  /** The answer, if the server took the request; else throws. Tries again where that is safe. */
  async ask(request: Request): Promise<Answer> {
    for (let tries = 0; ; tries++) {
      try {
        return await this.#once(request);
      } catch (error) {
        const pause = tries < this.#retries ? pauseBefore(error, request, tries) : undefined;
        if (pause === undefined) throw error;
        request.onRepeat?.();
        await sleep(pause, request.signal);
      }
    }
  }

  /** As `ask`, for an answer that is JSON. Until that is whole, the request may be repeated. */
  async json(request: Request): Promise<unknown> {
    for (let tries = 0; ; tries++) {
      const answer = await this.ask(request);
      try {
        return await answer.json();
      } catch (error) {
        if (!(error instanceof SandboxConnectionLostError) || tries >= this.#retries || !mayRepeat(request)) throw error;
        await sleep(backoff(tries), request.signal);
      }
    }
  }

  /** Deletes. What is gone when it is asked a second time went by the first. */
  async remove(path: string, signal: AbortSignal | undefined): Promise<void> {
    let again = false;
    try {
      const answer = await this.ask({ method: "DELETE", path, repeatable: true, signal, onRepeat: () => (again = true) });
      await answer.bytes(ERROR_MOST);
    } catch (error) {
      if (!again || !(error instanceof SandboxNotFoundError)) throw error;
    }
  }

  async #once(request: Request): Promise<Answer> {
    const json = request.json === undefined ? undefined : JSON.stringify(request.json);
    const watch = new Watch(request.patience ?? this.seconds, request.signal);
    try {
      const headers: Record<string, string> = { accept: "application/json" };
      if (this.#key !== undefined) headers["authorization"] = `Bearer ${this.#key}`;
      if (request.idempotencyKey !== undefined) headers["idempotency-key"] = request.idempotencyKey;
      if (request.range !== undefined) headers["range"] = request.range;
      if (!inBrowser) headers["accept-encoding"] = "identity";
      const init: RequestInit = { method: request.method, headers, redirect: "manual", signal: watch.signal, ...manner(this.url, this.#tls) };
      if (json !== undefined) {
        headers["content-type"] = "application/json";
        Object.assign(init, once(request) ? streamed(json) : { body: json });
      } else if (request.body !== undefined) {
        headers["content-type"] = "application/octet-stream";
        let opened = await request.body.open({ sent: () => watch.touch(), failed: (error) => (watch.source ??= { error }) });
        if (once(request) && opened.duplex === undefined) opened = streamed(opened.body as BlobPart);
        watch.streams = opened.duplex !== undefined;
        // With another mode, or a window, Node's fetch keeps all of a streamed body in memory, to send it to where a redirect leads.
        Object.assign(init, opened, watch.streams ? { redirect: "error", window: null } : {});
      }
      const response = await this.#fetch(this.#address(request), init);
      return await this.#judge(new Answer(response, watch, this.url));
    } catch (error) {
      watch.end();
      return watch.explain(error, this.url, false);
    }
  }

  #address(request: Request): string {
    const query = Object.entries(request.query ?? {}).flatMap(([name, value]) =>
      value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`],
    );
    return this.url + request.path + (query.length > 0 ? `?${query.join("&")}` : "");
  }

  async #judge(answer: Answer): Promise<Answer> {
    const { response } = answer;
    if (response.ok) return answer;
    if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) {
      answer.giveUp();
      const to = response.headers.get("location");
      throw new SandboxRedirectError(
        `${this.url} redirects${to === null ? "" : ` to ${to}`}, which is not followed: give baseUrl the server's own address`,
        response.status,
      );
    }
    let said: unknown;
    try {
      said = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(await answer.bytes(ERROR_MOST)));
    } catch (cause) {
      if (cause instanceof SandboxError && !(cause instanceof SandboxAnswerError)) throw cause;
      throw answer.strange("is not this API's", cause);
    }
    const { code, message } = ((said as { error?: unknown } | null)?.error ?? {}) as { code?: unknown; message?: unknown };
    if (typeof code !== "string" || typeof message !== "string") throw answer.strange("is not this API's");
    throw refusal(response.status, code, message, {
      retryAfter: retryAfter(response),
      requestId: response.headers.get("x-request-id") ?? undefined,
    });
  }
}

/** Deno sends a request again by itself when a kept connection ends, unless its body is a stream. */
function once(request: Request): boolean {
  return inDeno && request.repeatable !== true;
}

function streamed(content: BlobPart): Opened {
  return { body: new Blob([content]).stream(), duplex: "half" };
}

function mayRepeat(request: Request): boolean {
  return request.repeatable === true && (request.body === undefined || request.body.again);
}

function backoff(tries: number): number {
  return 0.2 * 2 ** tries * (0.75 + Math.random() / 2);
}

/** Seconds to wait before another try; undefined: there must be none. */
function pauseBefore(error: unknown, request: Request, tries: number): number | undefined {
  const unsent =
    error instanceof SandboxUnreachableError && words(error.cause).codes.some((c) => c === "ECONNREFUSED" || c === "ConnectionRefused");
  if (unsent && (request.body === undefined || request.body.again)) return backoff(tries);
  if (!mayRepeat(request)) return undefined;
  if (error instanceof SandboxConnectionLostError) return backoff(tries);
  const busy = (error as { statusCode?: unknown }).statusCode === 503 && "retryAfter" in (error as object);
  const after = busy ? ((error as { retryAfter?: number }).retryAfter ?? 0) : Infinity;
  return after <= RETRY_AFTER_MOST ? Math.max(after, backoff(tries)) : undefined;
}

function sleep(seconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, seconds * 1000);
    signal?.addEventListener("abort", stop, { once: true });
    if (signal?.aborted) stop();
  });
}
