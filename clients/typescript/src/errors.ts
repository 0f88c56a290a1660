/** What can go wrong, as types: the server's refusals, and the ways in which no answer of the server comes. */

/** Text from outside as one line that is safe to print: characters that control, hide, or turn the direction of text are replaced. */
export function oneLine(text: string, most = 1000): string {
  const line = text
    .replace(/\s+/gu, " ")
    .replace(/[\p{Cc}\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu, "\ufffd")
    .trim();
  return line.length > most ? `${line.slice(0, most)}…` : line;
}

/** The base of all errors of this package, but for wrong arguments (`TypeError`) and the reason of an `AbortSignal`. */
export class SandboxError extends Error {
  override readonly name: string = "SandboxError";
}

/** The server said no. `message` is its own text and says what to do next. */
export class SandboxAPIError extends SandboxError {
  override readonly name: string = "SandboxAPIError";
  /** The HTTP status, such as 409. */
  readonly statusCode: number;
  /** The server's word for it, such as `"conflict"`. */
  readonly code: string;
  /** Seconds after which it is worth trying again, if the server said so. */
  readonly retryAfter: number | undefined;
  /** Finds the request in the server's log. */
  readonly requestId: string | undefined;

  constructor(
    statusCode: number,
    code: string,
    message: string,
    more: { retryAfter?: number | undefined; requestId?: string | undefined } = {},
  ) {
    super(oneLine(message));
    this.statusCode = statusCode;
    this.code = oneLine(code, 100);
    this.retryAfter = more.retryAfter;
    this.requestId = more.requestId === undefined ? undefined : oneLine(more.requestId, 100);
  }
}

/** 404 or 410: no such sandbox, snapshot or file, or not any longer. */
export class SandboxNotFoundError extends SandboxAPIError {
  override readonly name: string = "SandboxNotFoundError";
}

/** 401 or 403: the key is missing or wrong, or what was asked for is not allowed on this server. */
export class SandboxAuthError extends SandboxAPIError {
  override readonly name: string = "SandboxAuthError";
}

/** 429: too many sandboxes, commands or requests. Never tried again by itself: see `retryAfter`. */
export class SandboxLimitError extends SandboxAPIError {
  override readonly name: string = "SandboxLimitError";
}

/** Nothing was sent: no such host, nothing listens there, or TLS failed. */
export class SandboxUnreachableError extends SandboxError {
  override readonly name: string = "SandboxUnreachableError";
}

/** The connection ended half-way: what the server did is not known, and what was received is not whole. */
export class SandboxConnectionLostError extends SandboxError {
  override readonly name: string = "SandboxConnectionLostError";
}

/** What came is not an answer of this API: another program listens there, or a proxy answered in its place. */
export class SandboxAnswerError extends SandboxError {
  override readonly name: string = "SandboxAnswerError";
  /** The HTTP status of that answer; 0 if it is not known. */
  readonly statusCode: number;

  constructor(message: string, statusCode: number, options?: ErrorOptions) {
    super(oneLine(message), options);
    this.statusCode = statusCode;
  }
}

/** A redirect. It is not followed, since the key and the command would go to another place. */
export class SandboxRedirectError extends SandboxAnswerError {
  override readonly name: string = "SandboxRedirectError";
}

/** The server was silent for longer than the client's `timeoutSeconds`. What it did is not known. */
export class SandboxTimeoutError extends SandboxError {
  override readonly name: string = "SandboxTimeoutError";
}

/** A wrong address, key or key file. Nothing was sent. */
export class SandboxConfigError extends SandboxError {
  override readonly name: string = "SandboxConfigError";
}

/** The server could not complete the stream of a command: its result is not known. `message` is the server's reason. */
export class SandboxInterruptedError extends SandboxError {
  override readonly name: string = "SandboxInterruptedError";
}

/** A file of the sandbox is not text in the encoding that was asked for. */
export class SandboxDecodeError extends SandboxError {
  override readonly name: string = "SandboxDecodeError";
}

/** The error for a status that the server gave with a code and a message. */
export function refusal(
  status: number,
  code: string,
  message: string,
  more: { retryAfter?: number | undefined; requestId?: string | undefined },
): SandboxAPIError {
  if (status === 404 || status === 410) return new SandboxNotFoundError(status, code, message, more);
  if (status === 401 || status === 403) return new SandboxAuthError(status, code, message, more);
  if (status === 429) return new SandboxLimitError(status, code, message, more);
  return new SandboxAPIError(status, code, message, more);
}
