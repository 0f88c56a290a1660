/** The answer to one request: read piece by piece, and never taken for whole when it is not. */

import type { Progress } from "./body.js";
import { SandboxAnswerError, SandboxConnectionLostError } from "./errors.js";
import type { Bytes } from "./types.js";
import type { Watch } from "./watch.js";

const JSON_MOST = 256 * 1024 * 1024;

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

  async bytes(most: number, progress?: Progress): Promise<Bytes> {
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
    if (pieces.length === 1) return pieces[0] as Bytes;
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
      `the answer of ${this.#where} ${what} (HTTP ${status}, ${type}): is it agent-sandbox, or does a proxy answer in its place?`,
      status,
      { cause },
    );
  }
}
