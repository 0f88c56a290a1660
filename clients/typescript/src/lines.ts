/** The lines of an `application/x-ndjson` answer, however its bytes are cut into pieces. */

/** Longest line in bytes; the server's are far shorter. */
const LINE_MOST = 16 * 1024 * 1024;
const NEWLINE = 10;

/** Takes pieces of bytes, gives the JSON values of the lines that they complete. Throws for what is not UTF-8 or not JSON. */
export class Lines {
  readonly #decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  #rest: Uint8Array[] = [];
  #size = 0;

  *push(piece: Uint8Array): Generator<unknown, void, undefined> {
    let from = 0;
    for (let end = piece.indexOf(NEWLINE); end >= 0; end = piece.indexOf(NEWLINE, from)) {
      const line = this.#line(piece.subarray(from, end)).trim();
      from = end + 1;
      if (line !== "") yield JSON.parse(line);
    }
    this.#rest.push(piece.subarray(from));
    this.#size += piece.length - from;
    if (this.#size > LINE_MOST) throw new RangeError("a line without end");
  }

  /** A line with what came of it before; a newline is never a part of another character. */
  #line(end: Uint8Array): string {
    if (this.#size === 0) return this.#decoder.decode(end);
    const whole = new Uint8Array(this.#size + end.length);
    let at = 0;
    for (const part of [...this.#rest, end]) {
      whole.set(part, at);
      at += part.length;
    }
    this.#rest = [];
    this.#size = 0;
    return this.#decoder.decode(whole);
  }
}
