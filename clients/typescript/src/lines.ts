/** The lines of an `application/x-ndjson` answer, however its bytes are cut into pieces. */

/** Longest line in characters; the server's are far shorter. */
const LINE_MOST = 16 * 1024 * 1024;

/** Takes pieces of bytes, gives the JSON values of the lines that they complete. Throws for what is not UTF-8 or not JSON. */
export class Lines {
  readonly #decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  #rest = "";

  *push(piece: Uint8Array): Generator<unknown, void, undefined> {
    const lines = this.#decoder.decode(piece, { stream: true }).split("\n");
    lines[0] = this.#rest + lines[0];
    this.#rest = lines.pop() as string;
    for (const line of lines) if (line.trim() !== "") yield JSON.parse(line);
    if (this.#rest.length > LINE_MOST) throw new RangeError("a line without end");
  }
}
