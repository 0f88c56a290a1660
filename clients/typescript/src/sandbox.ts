/** One sandbox: runs commands, moves files, takes snapshots. */

import { bodyOf, type Content } from "./body.js";
import { SandboxConnectionLostError, SandboxDecodeError, SandboxInterruptedError, SandboxNotFoundError, oneLine } from "./errors.js";
import type { Answer, Whole } from "./answer.js";
import type { Request } from "./http.js";
import { Lines } from "./lines.js";
import { segment, snapshotId, type Link } from "./link.js";
import {
  fields,
  type CallOptions,
  type ExecOptions,
  type ExecStreamOptions,
  type ForkOptions,
  type ReadOptions,
  type ReadTextOptions,
  type TransferOptions,
  type UploadOptions,
  type WriteOptions,
} from "./options.js";
import {
  Misshapen,
  list,
  object,
  toEvent,
  toFile,
  toResult,
  toSandbox,
  toSnapshot,
  type Bytes,
  type ExecEvent,
  type ExecResult,
  type FileInfo,
  type SandboxData,
  type SnapshotInfo,
} from "./types.js";

/** A standard input up to this many characters goes into the JSON of a request. */
const STDIN_IN_JSON = 64 * 1024;

const asyncDispose: typeof Symbol.asyncDispose = Symbol.asyncDispose ?? (Symbol.for("Symbol.asyncDispose") as typeof Symbol.asyncDispose);

function execFields(command: string | readonly string[], options: ExecStreamOptions, stdin: string | undefined): Record<string, unknown> {
  return fields({ command, env: options.env, workdir: options.workdir, timeout_seconds: options.timeoutSeconds, stdin });
}

function execQuery(options: ExecStreamOptions): Record<string, string | undefined> {
  return {
    encoding: options.encoding === "base64" ? "base64" : undefined,
    detail: options.detail ? "true" : undefined,
    kill_others: options.killOthers ? "true" : undefined,
    on_disconnect: options.onDisconnect === "continue" ? "continue" : undefined,
  };
}

function base64url(text: string): string {
  const bytes = new TextEncoder().encode(text);
  return btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join(""))
    .replace(/\+/g, "-")
    .replace(/\//g, "_")
    .replace(/=+$/, "");
}

function octal(mode: number): string {
  if (!Number.isInteger(mode) || mode < 0) throw new TypeError("mode must be a number such as 0o644");
  return mode.toString(8).padStart(3, "0");
}

function range(options: ReadOptions): string | undefined {
  const { offset, length } = options;
  if (offset === undefined && length === undefined) return undefined;
  const first = offset ?? 0;
  if (!Number.isSafeInteger(first) || first < 0) throw new TypeError("offset must be a whole number from 0");
  if (length === undefined) return `bytes=${first}-`;
  if (!Number.isSafeInteger(length) || length < 1) throw new TypeError("length must be a whole number from 1");
  return `bytes=${first}-${first + length - 1}`;
}

/** A tar ends with 1024 zeros. */
class TarEnd implements Whole {
  #zeros = 0;

  see(piece: Uint8Array): void {
    let at = piece.length;
    while (at > 0 && piece[at - 1] === 0 && piece.length - at < 1024) at--;
    this.#zeros = at === 0 ? this.#zeros + piece.length : piece.length - at;
  }

  get yes(): boolean {
    return this.#zeros >= 1024;
  }
}

/**
 * A sandbox of a server. `await using` destroys it at the end of the block; otherwise it ends by its time, or by `destroy`.
 * The properties are what the server said last: see `refresh`. The calls throw as those of `SandboxClient` do.
 */
export class Sandbox implements AsyncDisposable {
  readonly #link: Link;
  /** All that the server said about it. */
  data: SandboxData;

  /** Made by `SandboxClient`. */
  constructor(link: Link, data: SandboxData) {
    this.#link = link;
    this.data = data;
  }

  get id(): string {
    return this.data.id;
  }
  get status(): "running" | "stopped" {
    return this.data.status;
  }
  get image(): string {
    return this.data.image;
  }
  /** When it ends, in RFC 3339. */
  get expiresAt(): string {
    return this.data.expiresAt;
  }
  /** The snapshot that it was forked from or last rolled back to. */
  get sourceSnapshotId(): string | null {
    return this.data.sourceSnapshotId;
  }

  toJSON(): SandboxData {
    return this.data;
  }

  async [asyncDispose](): Promise<void> {
    try {
      await this.destroy();
    } catch (error) {
      if (!(error instanceof SandboxNotFoundError)) throw error;
    }
  }

  /** Asks the server anew. */
  async refresh(options: CallOptions = {}): Promise<this> {
    return this.#update({ method: "GET", path: this.#path(), repeatable: true, signal: options.signal });
  }

  /**
   * Runs a command to its end: a string by `/bin/sh -c`, a list of strings as it is. A command that fails is no error of this call:
   * see `exitCode`, `timedOut` and `ok` of the result. When the call is aborted, the command is ended.
   * @throws SandboxAPIError with status 409 when the sandbox ended or was rolled back meanwhile
   */
  async exec(command: string | readonly string[], options: ExecOptions = {}): Promise<ExecResult> {
    return this.#link.get(
      {
        method: "POST",
        path: this.#path("/exec"),
        query: execQuery(options),
        json: execFields(command, options, options.stdin ?? undefined),
        patience: this.#link.http.seconds + (options.timeoutSeconds ?? 0),
        signal: options.signal,
      },
      toResult,
    );
  }

  /**
   * Runs a command and gives its output as it comes, in the end an event of type `exit`. The command starts with the first step of the
   * loop; leaving the loop ends it. A reader that is slow slows the command.
   *
   * ```ts
   * for await (const event of sandbox.execStream("make")) {
   *   if (event.type === "exit") console.log(`ended with ${event.exitCode}`);
   *   else process[event.type].write(event.data);
   * }
   * ```
   * @throws SandboxInterruptedError when the server could not complete it, for instance because the sandbox was destroyed
   * @throws SandboxConnectionLostError when the connection broke before the end: the result is not known
   */
  async *execStream(command: string | readonly string[], options: ExecStreamOptions = {}): AsyncGenerator<ExecEvent, void, undefined> {
    const answer = await this.#link.http.ask(this.#streamRequest(command, options));
    let ended = false;
    try {
      for await (const event of this.#events(answer)) {
        ended = event.type === "exit";
        yield event;
        if (ended) break;
      }
    } finally {
      if (!ended) answer.giveUp();
    }
    while ((await answer.read()) !== undefined);
  }

  /** The content of a file. */
  async readFile(path: string, options: ReadOptions = {}): Promise<Bytes> {
    const answer = await this.#link.http.ask(this.#fileRequest("/files", path, options, range(options)));
    return answer.bytes(Infinity, options.progress);
  }

  /**
   * The content of a file as text.
   * @throws SandboxDecodeError if it is not text in that encoding: then `readFile` gives its bytes
   */
  async readText(path: string, options: ReadTextOptions = {}): Promise<string> {
    const encoding = options.encoding ?? "utf-8";
    const decoder = new TextDecoder(encoding, { fatal: true, ignoreBOM: true });
    const bytes = await this.readFile(path, options);
    try {
      return decoder.decode(bytes);
    } catch (cause) {
      throw new SandboxDecodeError(`${oneLine(path)} is not ${encoding} text: readFile() gives its bytes`, { cause });
    }
  }

  /** The content of a file as a stream, which fails if it is not whole. Read it to its end, or cancel it. */
  async readStream(path: string, options: ReadOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const answer = await this.#link.http.ask(this.#fileRequest("/files", path, options, range(options)));
    return answer.stream(options.progress);
  }

  /**
   * Writes a file below `/workspace`; folders on the way are made. The old file stays until the new one is complete, and if the
   * call fails.
   */
  async writeFile(path: string, content: Content, options: WriteOptions = {}): Promise<FileInfo> {
    const body = bodyOf(content, options.progress, options.size);
    const query = { path, mode: octal(options.mode ?? 0o644) };
    return this.#link.get({ method: "PUT", path: this.#path("/files"), query, body, repeatable: true, signal: options.signal }, toFile);
  }

  /** What is in a folder, dotfiles included, sorted by name. */
  async listFiles(path = "/workspace", options: CallOptions = {}): Promise<FileInfo[]> {
    return this.#link.get(this.#fileRequest("/files/list", path, options), (answer) => list(answer, "entries").map(toFile));
  }

  /** A file, or what is in a folder, as a tar (pax), streamed. Read it to its end, or cancel it. */
  async readArchive(path = "/workspace", options: TransferOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const answer = await this.#link.http.ask(this.#fileRequest("/files/archive", path, options));
    return answer.stream(options.progress, new TarEnd());
  }

  /**
   * Unpacks a tar (not compressed) into a folder below `/workspace`, which is made. One with entries that would leave the folder is
   * refused whole.
   */
  async writeArchive(content: Content, path = "/workspace", options: UploadOptions = {}): Promise<void> {
    const body = bodyOf(content, options.progress, options.size);
    await this.#link.get({ method: "PUT", path: this.#path("/files/archive"), query: { path }, body, signal: options.signal }, object);
  }

  /** Saves `/workspace` as it is at this moment. The name has at most 128 characters. */
  async snapshot(name?: string | null, options: CallOptions = {}): Promise<SnapshotInfo> {
    return this.#link.get(
      { method: "POST", path: this.#path("/snapshots"), json: { name: name ?? null }, signal: options.signal },
      toSnapshot,
    );
  }

  /**
   * Puts back `/workspace` as it was; ends every process and clears `/tmp`. A rollback that fails leaves everything as it was. Any
   * snapshot will do, also another sandbox's.
   */
  async rollback(snapshot: SnapshotInfo | string, options: CallOptions = {}): Promise<this> {
    const json = { snapshot_id: snapshotId(snapshot) };
    return this.#update({ method: "POST", path: this.#path("/rollback"), json, signal: options.signal });
  }

  /**
   * Another sandbox that begins where this one stands now. It takes a snapshot for that, which stays: the new sandbox's
   * `sourceSnapshotId`. To fork one snapshot several times, see `SandboxClient.fork`.
   */
  async fork(options: ForkOptions = {}): Promise<Sandbox> {
    const { id } = await this.snapshot(null, options);
    return new Sandbox(this.#link, await this.#link.fork(id, options));
  }

  /** It ends so many whole seconds from now. */
  async setTimeout(timeoutSeconds: number, options: CallOptions = {}): Promise<this> {
    const json = fields({ timeout_seconds: timeoutSeconds });
    return this.#update({ method: "POST", path: this.#path("/timeout"), json, repeatable: true, signal: options.signal });
  }

  /**
   * Ends it. Its workspace is gone, its snapshots stay.
   * @throws SandboxNotFoundError if it ended before
   */
  async destroy(options: CallOptions = {}): Promise<void> {
    await this.#link.http.remove(this.#path(), options.signal);
  }

  #path(suffix = ""): string {
    return `/v1/sandboxes/${segment(this.id)}${suffix}`;
  }

  async #update(request: Request): Promise<this> {
    this.data = await this.#link.get(request, toSandbox);
    return this;
  }

  #fileRequest(suffix: string, path: string, options: CallOptions, bytes?: string): Request {
    return { method: "GET", path: this.#path(suffix), query: { path }, range: bytes, repeatable: true, signal: options.signal };
  }

  #streamRequest(command: string | readonly string[], options: ExecStreamOptions): Request {
    const { stdin } = options;
    const request: Request = {
      method: "POST",
      path: this.#path("/exec/stream"),
      query: execQuery(options),
      patience: this.#link.http.seconds + (options.timeoutSeconds ?? 0),
      signal: options.signal,
    };
    if (stdin === undefined || stdin === null || (typeof stdin === "string" && stdin.length <= STDIN_IN_JSON)) {
      return { ...request, json: execFields(command, options, stdin ?? undefined) };
    }
    const asked = base64url(JSON.stringify(execFields(command, options, undefined)));
    return { ...request, query: { ...request.query, request: asked }, body: bodyOf(stdin) };
  }

  async *#events(answer: Answer): AsyncGenerator<ExecEvent, void, undefined> {
    const lines = new Lines();
    for (let piece = await answer.read(); piece !== undefined; piece = await answer.read()) {
      const events = [];
      let failure: Error | undefined;
      try {
        for (const line of lines.push(piece)) events.push(toEvent(line));
      } catch (cause) {
        failure = answer.strange(cause instanceof Misshapen ? cause.message : "is not a stream of events", cause);
      }
      for (const event of events) {
        if (typeof event === "string") throw new SandboxInterruptedError(oneLine(event));
        if (event !== undefined) yield event;
      }
      if (failure !== undefined) throw failure;
    }
    throw new SandboxConnectionLostError("the stream ended before the command did: its result is not known");
  }
}
