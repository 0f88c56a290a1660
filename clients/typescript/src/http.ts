/** One request and its answer: where to, with which key, for how long, how often, and what went wrong. */

import type { Body, Progress } from "./body.js";
import {
  SandboxAnswerError, SandboxConfigError, SandboxConnectionLostError, SandboxError, SandboxNotFoundError, SandboxRedirectError, SandboxTimeoutError,
  SandboxUnreachableError, oneLine, refusal,
} from "./errors.js";
import { defaultUrl, environment, inBrowser, patience } from "./runtime.js";

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

const JSON_MOST = 256 * 1024 * 1024;
const ERROR_MOST = 64 * 1024;
const TIMER_MOST = 2 ** 31 - 1;
/** Longest `Retry-After`, in seconds, that is waited for. */
const RETRY_AFTER_MOST = 5;

/** Ends a call when the other side is silent for too long, or when the caller says so. */
class Watch {
  readonly #control = new AbortController();
  readonly #caller: AbortSignal | undefined;
  readonly #seconds: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #waiting = false;
  #late = false;
  /** Whether the request has a body that is sent piece by piece. */
  streams = false;
  /** The error of the caller's own source of content. */
  source: { error: unknown } | undefined;

  constructor(seconds: number, caller: AbortSignal | undefined) {
    this.#seconds = seconds;
    this.#caller = caller;
    caller?.throwIfAborted();
    caller?.addEventListener("abort", this.#stop);
    this.wait();
  }

  get signal(): AbortSignal {
    return this.#control.signal;
  }

  /** Something is awaited from now on. */
  wait(): void {
    this.#waiting = true;
    this.touch();
  }

  /** A sign of life: the time begins anew, if something is awaited. */
  touch(): void {
    clearTimeout(this.#timer);
    const ms = this.#seconds * 1000;
    if (this.#waiting && ms <= TIMER_MOST) this.#timer = setTimeout(this.#giveUp, ms);
  }

  /** Nothing is awaited just now. */
  rest(): void {
    this.#waiting = false;
    clearTimeout(this.#timer);
  }

  /** It is over. A body that nobody takes any longer is not sent to its end. */
  end(unfinished = this.streams): void {
    this.rest();
    this.#caller?.removeEventListener("abort", this.#stop);
    if (unfinished) this.#control.abort();
  }

  readonly #stop = (): void => {
    this.#control.abort(this.#caller?.reason);
  };

  readonly #giveUp = (): void => {
    this.#late = true;
    this.#control.abort();
  };

  /** Throws for what fetch threw: the caller's own reasons first. */
  explain(error: unknown, where: string, began: boolean): never {
    if (this.#caller?.aborted) throw this.#caller.reason;
    if (this.source !== undefined) throw this.source.error;
    if (this.#late) {
      throw new SandboxTimeoutError(`${where} was silent for ${this.#seconds} s: what it did is not known. Give timeoutSeconds more, or look at the server`);
    }
    throw error instanceof SandboxError ? error : connectionError(error, where, began);
  }
}

const NOTHING_SENT = new Map([
  ["ECONNREFUSED", "nothing listens there: is the server running?"],
  ["ConnectionRefused", "nothing listens there: is the server running?"],
  ["FailedToOpenSocket", "no connection: is the server running?"],
  ["ENOTFOUND", "there is no such host"],
  ["EAI_AGAIN", "the name of the host cannot be looked up just now"],
  ["EHOSTUNREACH", "there is no way to that host"],
  ["ENETUNREACH", "there is no way to that network"],
  ["UND_ERR_CONNECT_TIMEOUT", "no connection within 10 s"],
]);

/** All that an error says about itself, its causes included: the words of Node, Deno, Bun and browsers differ. */
function words(error: unknown): { codes: string[]; text: string } {
  const codes: string[] = [];
  const texts: string[] = [];
  for (let e = error, depth = 0; e instanceof Object && depth < 5; e = (e as { cause?: unknown }).cause, depth++) {
    const { code, message, errors } = e as { code?: unknown; message?: unknown; errors?: { code?: unknown }[] };
    if (typeof code === "string") codes.push(code);
    else if (Array.isArray(errors) && typeof errors[0]?.code === "string") codes.push(errors[0].code);
    if (typeof message === "string" && message !== "") texts.push(message);
  }
  return { codes, text: texts.reverse().join(": ") };
}

function connectionError(cause: unknown, where: string, began: boolean): SandboxError {
  const { codes, text } = words(cause);
  const why = oneLine(text, 300) || "no reason is known";
  if (!began) {
    const known = codes.map((code) => NOTHING_SENT.get(code)).find((said) => said !== undefined);
    if (known !== undefined) return new SandboxUnreachableError(`cannot reach ${where}: ${known}`, { cause });
    if (codes.some((code) => /CERT|SELF_SIGNED|SSL|TLS|EPROTO|UNABLE_TO|HOSTNAME_MISMATCH/.test(code)) || /certificate|tls|ssl/i.test(text)) {
      return new SandboxUnreachableError(`cannot reach ${where}: TLS failed: ${why}`, { cause });
    }
    if (/\(Connect\)|connect error|dns error/.test(text)) return new SandboxUnreachableError(`cannot reach ${where}: ${why}`, { cause });
    if (/bad port/i.test(text)) return new SandboxConfigError(`${where}: fetch does not go to this port`, { cause });
  }
  if (codes.some((code) => code.startsWith("HPE_")) || /parse|malformed|invalid (HTTP|header|status)|InvalidHTTPResponse/i.test(text + codes.join())) {
    return new SandboxAnswerError(`${where} does not speak HTTP: ${why}`, 0, { cause });
  }
  if (codes.some((code) => /UND_ERR_(HEADERS|BODY)_TIMEOUT/.test(code))) {
    return new SandboxTimeoutError(`${where} was silent for longer than this runtime's fetch waits: what it did is not known`, { cause });
  }
  if (inBrowser && !began) {
    return new SandboxConnectionLostError(`no answer from ${where}: it is not running, the connection broke, or pages of another origin ask it`, { cause });
  }
  return new SandboxConnectionLostError(`the connection to ${where} broke, what the server did is not known: ${why}`, { cause });
}

function retryAfter(response: Response): number | undefined {
  const said = response.headers.get("retry-after");
  if (said === null) return undefined;
  const seconds = /^\d+$/.test(said) ? Number(said) : (Date.parse(said) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, Math.ceil(seconds)) : undefined;
}

/** Looks at the pieces of a body, and knows in the end whether that was all of it. */
export interface Whole {
  see(piece: Uint8Array): void;
  readonly yes: boolean;
}

/** The answer to a request that was taken. Its body must be read to the end, or given up. */
export class Answer {
  readonly #watch: Watch;
  readonly #where: string;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  readonly response: Response;
  /** Bytes of the body, null if that was not said. */
  readonly total: number | null;
  #got = 0;

  constructor(response: Response, watch: Watch, where: string) {
    this.response = response;
    this.#watch = watch;
    this.#where = where;
    this.#reader = response.body?.getReader();
    const length = response.headers.get("content-length");
    this.total = length !== null && /^\d+$/.test(length) && response.headers.get("content-encoding") === null ? Number(length) : null;
    watch.rest();
  }

  /** The next piece, or undefined at the end. A body that ends too early is an error. */
  async read(): Promise<Uint8Array | undefined> {
    try {
      this.#watch.wait();
      const piece = await this.#reader?.read();
      this.#watch.rest();
      if (piece !== undefined && !piece.done) {
        this.#got += piece.value.length;
        return piece.value;
      }
      if (this.total !== null && this.#got !== this.total) throw new Error(`${this.#got} of ${this.total} bytes came`);
      this.#watch.end();
      return undefined;
    } catch (error) {
      this.giveUp();
      this.#watch.explain(error, this.#where, true);
    }
  }

  /** Nothing more is wanted: the connection is closed. */
  giveUp(): void {
    this.#watch.end(true);
    this.#reader?.cancel().catch(() => undefined);
  }

  async bytes(most: number, progress?: Progress): Promise<Uint8Array> {
    const pieces: Uint8Array[] = [];
    let size = 0;
    try {
      progress?.(0, this.total);
      for (let piece = await this.read(); piece !== undefined; piece = await this.read()) {
        pieces.push(piece);
        size += piece.length;
        if (size > most) throw this.strange(`is larger than ${most} bytes`);
        progress?.(size, this.total);
      }
    } catch (error) {
      this.giveUp();
      throw error;
    }
    if (pieces.length === 1) return pieces[0] as Uint8Array;
    const all = new Uint8Array(size);
    let at = 0;
    for (const piece of pieces) {
      all.set(piece, at);
      at += piece.length;
    }
    return all;
  }

  async json(): Promise<unknown> {
    const bytes = await this.bytes(JSON_MOST);
    try {
      return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    } catch (cause) {
      if (this.total === null && /end of JSON|Unterminated/.test(String(cause))) throw this.cut(cause);
      throw this.strange("is not JSON", cause);
    }
  }

  /** The body as a stream that fails when it is not whole; `whole` says so of one whose length is not known. */
  stream(progress?: Progress, whole?: Whole): ReadableStream<Uint8Array> {
    let done = 0;
    return new ReadableStream<Uint8Array>(
      {
        start: () => progress?.(0, this.total),
        pull: async (controller) => {
          const piece = await this.read();
          if (piece === undefined) {
            if (this.total === null && whole?.yes === false) throw this.cut();
            controller.close();
            return;
          }
          whole?.see(piece);
          controller.enqueue(piece);
          done += piece.length;
          try {
            progress?.(done, this.total);
          } catch (error) {
            this.giveUp();
            throw error;
          }
        },
        cancel: () => this.giveUp(),
      },
      { highWaterMark: 0 },
    );
  }

  /** For an answer that ended too early without the runtime's noticing: Node's fetch does not when `Connection: close` was said. */
  cut(cause?: unknown): SandboxConnectionLostError {
    return new SandboxConnectionLostError(`the connection to ${this.#where} broke in the middle of an answer`, { cause });
  }

  strange(what: string, cause?: unknown): SandboxAnswerError {
    const { status, headers } = this.response;
    const type = headers.get("content-type") ?? "no type";
    return new SandboxAnswerError(
      `the answer of ${this.#where} ${what} (HTTP ${status}, ${type}): is it agent-sandbox, or does a proxy answer in its place?`, status, { cause },
    );
  }
}

export interface Place {
  url: string;
  key: string | undefined;
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
  if (url.protocol !== "http:" && url.protocol !== "https:") throw new SandboxConfigError("the address of the server must begin with http:// or https://");
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

  constructor(where: Place, seconds: number, retries: number, fetcher: Fetch) {
    this.url = where.url;
    this.#key = where.key;
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
      const init: RequestInit = { method: request.method, headers, redirect: "manual", signal: watch.signal, ...patience() };
      if (json !== undefined) {
        headers["content-type"] = "application/json";
        init.body = json;
      } else if (request.body !== undefined) {
        headers["content-type"] = "application/octet-stream";
        const opened = await request.body.open({ sent: () => watch.touch(), failed: (error) => (watch.source ??= { error }) });
        watch.streams = opened.duplex !== undefined;
        Object.assign(init, opened);
      }
      const response = await this.#fetch(this.#address(request), init);
      return await this.#judge(new Answer(response, watch, this.url));
    } catch (error) {
      watch.end();
      return watch.explain(error, this.url, false);
    }
  }

  #address(request: Request): string {
    const query = Object.entries(request.query ?? {}).flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`]));
    return this.url + request.path + (query.length > 0 ? `?${query.join("&")}` : "");
  }

  async #judge(answer: Answer): Promise<Answer> {
    const { response } = answer;
    if (response.ok) return answer;
    if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) {
      answer.giveUp();
      const to = response.headers.get("location");
      throw new SandboxRedirectError(
        `${this.url} redirects${to === null ? "" : ` to ${to}`}, which is not followed: give baseUrl the server's own address`, response.status,
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
    throw refusal(response.status, code, message, { retryAfter: retryAfter(response), requestId: response.headers.get("x-request-id") ?? undefined });
  }
}

function mayRepeat(request: Request): boolean {
  return request.repeatable === true && (request.body === undefined || request.body.again);
}

function backoff(tries: number): number {
  return 0.2 * 2 ** tries * (0.75 + Math.random() / 2);
}

/** Seconds to wait before another try; undefined: there must be none. */
function pauseBefore(error: unknown, request: Request, tries: number): number | undefined {
  const unsent = error instanceof SandboxUnreachableError && words(error.cause).codes.some((c) => c === "ECONNREFUSED" || c === "ConnectionRefused");
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
