/** How long is waited for the other side, and what it means when fetch fails. */

import {
  SandboxAnswerError,
  SandboxConfigError,
  SandboxConnectionLostError,
  SandboxError,
  SandboxRedirectError,
  SandboxTimeoutError,
  SandboxUnreachableError,
  oneLine,
} from "./errors.js";
import { inBrowser } from "./runtime.js";
import { certificateTrouble } from "./trust.js";

const TIMER_MOST = 2 ** 31 - 1;

/** Ends a call when the other side is silent for too long, or when the caller says so. */
export class Watch {
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
      throw new SandboxTimeoutError(
        `${where} was silent for ${this.#seconds} s: what it did is not known. Give timeoutSeconds more, or look at the server`,
      );
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
export function words(error: unknown): { codes: string[]; text: string } {
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
    const trouble = where.startsWith("https:") ? certificateTrouble(codes, text, where, why) : undefined;
    if (trouble !== undefined) return new SandboxUnreachableError(oneLine(trouble), { cause });
    if (
      codes.some((code) => /CERT|SELF_SIGNED|SSL|TLS|EPROTO|UNABLE_TO|HOSTNAME_MISMATCH/.test(code)) ||
      /certificate|tls|ssl/i.test(text)
    ) {
      return new SandboxUnreachableError(`cannot reach ${where}: TLS failed: ${why}`, { cause });
    }
    if (/\(Connect\)|connect error|dns error/.test(text)) return new SandboxUnreachableError(`cannot reach ${where}: ${why}`, { cause });
    if (/redirect/i.test(text + codes.join())) {
      return new SandboxRedirectError(`${where} redirects, which is not followed: give baseUrl the server's own address`, 0, { cause });
    }
    if (/bad port/i.test(text)) return new SandboxConfigError(`${where}: fetch does not go to this port`, { cause });
  }
  if (
    codes.some((code) => code.startsWith("HPE_")) ||
    /parse|malformed|invalid (HTTP|header|status)|InvalidHTTPResponse/i.test(text + codes.join())
  ) {
    return new SandboxAnswerError(`${where} does not speak HTTP: ${why}`, 0, { cause });
  }
  if (codes.some((code) => /UND_ERR_(HEADERS|BODY)_TIMEOUT/.test(code))) {
    return new SandboxTimeoutError(`${where} was silent for longer than this runtime's fetch waits: what it did is not known`, { cause });
  }
  if (inBrowser && !began) {
    return new SandboxConnectionLostError(
      `no answer from ${where}: it is not running, the connection broke, or pages of another origin ask it`,
      { cause },
    );
  }
  return new SandboxConnectionLostError(`the connection to ${where} broke, what the server did is not known: ${why}`, { cause });
}
