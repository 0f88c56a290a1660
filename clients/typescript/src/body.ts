/** What can be sent as the content of a file, an archive or a standard input, and how it is counted on its way. */

import { inBrowser } from "./runtime.js";

/**
 * Called with the bytes moved so far and those that there are in all, null if that is not known: once at the start and then after
 * each piece. What it throws ends the transfer.
 */
export type Progress = (done: number, total: number | null) => void;

/** Bytes that come one piece after the other, such as a `fs.ReadStream` or a generator. */
export type ByteSource = ReadableStream<Uint8Array> | AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/**
 * Content to send. A string is sent as UTF-8. Streams are sent as they come, in browsers collected first. A function opens a stream,
 * and is called again if the request has to be tried again, which is not done with a stream itself.
 */
export type Content = string | Uint8Array | ArrayBuffer | Blob | ByteSource | (() => ByteSource);

/** What fetch sends; not by the name that only the types of browsers have. */
type Sendable = NonNullable<RequestInit["body"]>;

/** What of fetch's options a body is. */
export interface Opened {
  body: Sendable;
  duplex?: "half";
}

/** A body that fetch takes. Made anew for each try. */
export interface Body {
  readonly total: number | null;
  /** Whether `open` can be called again. */
  readonly again: boolean;
  open(watched: Watched): Promise<Opened>;
}

/** What a body tells to those who send it. */
export interface Watched {
  /** A piece is on its way. */
  sent(): void;
  /** The source, or the caller's progress function, failed: its own error. */
  failed(error: unknown): void;
}

const STEP = 256 * 1024;

function* steps(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += STEP) yield bytes.subarray(at, at + STEP);
}

function iterate(source: ByteSource): AsyncIterator<Uint8Array> | Iterator<Uint8Array> {
  if (Symbol.asyncIterator in source) return source[Symbol.asyncIterator]();
  if (Symbol.iterator in source) return source[Symbol.iterator]();
  const reader = (source as ReadableStream<Uint8Array>).getReader();
  return {
    next: () => reader.read() as Promise<IteratorResult<Uint8Array>>,
    return: async () => {
      await reader.cancel();
      return { done: true, value: undefined };
    },
  };
}

/** A stream of the source's pieces that counts them and keeps the source's own error, which fetch would hide behind its own. */
function counted(source: ByteSource, total: number | null, progress: Progress | undefined, watched: Watched): ReadableStream<Uint8Array> {
  const pieces = iterate(source);
  let done = 0;
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        if (done === 0) progress?.(0, total);
        const piece = await pieces.next();
        if (piece.done) {
          controller.close();
          return;
        }
        if (!(piece.value instanceof Uint8Array)) throw new TypeError("a piece of the content is not a Uint8Array");
        controller.enqueue(piece.value);
        done += piece.value.length;
        watched.sent();
        progress?.(done, total);
      } catch (error) {
        watched.failed(error);
        controller.error(error);
        await pieces.return?.();
      }
    },
    async cancel() {
      await pieces.return?.();
    },
  });
}

/** UTF-8 of a text; a half of a surrogate pair, which has none, is refused instead of replaced. */
export function utf8(text: string): Uint8Array {
  if (/\p{Surrogate}/u.test(text)) throw new TypeError("the text has a lone surrogate, which UTF-8 cannot express");
  return new TextEncoder().encode(text);
}

/** A body of bytes that are all here. */
function bodyOfBytes(content: Uint8Array | Blob, total: number, progress: Progress | undefined): Body {
  return {
    total,
    again: true,
    async open(watched) {
      if (progress === undefined || inBrowser) return { body: content as Sendable };
      const source = content instanceof Blob ? content.stream() : steps(content);
      return { body: counted(source as ByteSource, total, progress, watched), duplex: "half" };
    },
  };
}

/** A body whose source is opened for each try, or once only. */
function bodyOfSource(source: () => ByteSource, total: number | null, again: boolean, progress: Progress | undefined): Body {
  return {
    total,
    again,
    async open(watched) {
      const stream = counted(source(), total, progress, watched);
      if (inBrowser) return { body: await new Response(stream).blob() };
      return { body: stream, duplex: "half" };
    },
  };
}

/** The body of a content; `size` is only for progress, where the content does not say how long it is. */
export function bodyOf(content: Content, progress?: Progress, size: number | null = null): Body {
  if (typeof content === "string") content = utf8(content);
  if (content instanceof ArrayBuffer) content = new Uint8Array(content);
  if (content instanceof Uint8Array) return bodyOfBytes(content, content.length, progress);
  if (content instanceof Blob) return bodyOfBytes(content, content.size, progress);
  if (typeof content === "function") return bodyOfSource(content, size, true, progress);
  const source: ByteSource = content;
  if (
    source === null ||
    typeof source !== "object" ||
    !(Symbol.asyncIterator in source || Symbol.iterator in source || "getReader" in source)
  ) {
    throw new TypeError("the content is neither a string nor bytes nor a stream of bytes");
  }
  return bodyOfSource(() => source, size, false, progress);
}
