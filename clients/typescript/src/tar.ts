/**
 * The tar format (pax), as far as folders need it: written as it is sent, read as it comes. Names are strings of bytes ("latin1"), since
 * those of files need not be UTF-8.
 */

import { Buffer } from "node:buffer";

const BLOCK = 512;
const ZEROS = Buffer.alloc(BLOCK);
/** Most bytes of an extended header, and of the map of a file with holes. */
const EXTRA_MOST = 4 * 1024 * 1024;

/** An archive that cannot be what the server makes. */
export class BadArchive extends Error {}

export type EntryType = "file" | "directory" | "symlink" | "hardlink" | "other";

export interface Entry {
  name: string;
  type: EntryType;
  /** Bytes of its content, holes included. */
  size: number;
  mode: number;
  /** Seconds since 1970. */
  mtime: number;
  /** Where a link leads. */
  link: string;
}

const TYPES: Record<string, EntryType> = { "\0": "file", "0": "file", "1": "hardlink", "2": "symlink", "5": "directory", "7": "file" };
const LETTERS: Partial<Record<EntryType, string>> = { file: "0", hardlink: "1", symlink: "2", directory: "5" };

/** Zeros that fill the last block of a content. */
export function padding(size: number): Buffer {
  return ZEROS.subarray(0, (BLOCK - (size % BLOCK)) % BLOCK);
}

/** What ends an archive. */
export const END = Buffer.alloc(2 * BLOCK);

function octal(value: number, digits: number): string {
  return value.toString(8).padStart(digits, "0").slice(-digits);
}

function block(name: string, letter: string, size: number, mode: number, mtime: number, link: string): Buffer {
  const out = Buffer.alloc(BLOCK);
  out.write(name.slice(0, 100), 0, "latin1");
  out.write(
    `${octal(mode, 7)}\0${octal(0, 7)}\0${octal(0, 7)}\0${octal(size, 11)}\0${octal(Math.max(0, Math.floor(mtime)), 11)}\0        ${letter}`,
    100,
    "latin1",
  );
  out.write(link.slice(0, 100), 157, "latin1");
  out.write("ustar\x0000", 257, "latin1");
  out.write(
    `${octal(
      out.reduce((sum, byte) => sum + byte, 0),
      6,
    )}\0 `,
    148,
    "latin1",
  );
  return out;
}

/** A line of an extended header, whose first word is its own length. */
function record(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`;
  let length = rest.length;
  while (String(length).length + rest.length !== length) length = String(length).length + rest.length;
  return length + rest;
}

/** The header of an entry; for a file its content and the padding follow. */
export function header(entry: Entry): Buffer {
  const size = entry.type === "file" ? entry.size : 0;
  let extra = record("hdrcharset", "BINARY") + record("mtime", entry.mtime.toFixed(6));
  if (entry.name.length > 100) extra += record("path", entry.name);
  if (entry.link.length > 100) extra += record("linkpath", entry.link);
  if (size >= 8 ** 11) extra += record("size", String(size));
  const bytes = Buffer.from(extra, "latin1");
  return Buffer.concat([
    block("PaxHeader", "x", bytes.length, 0o644, entry.mtime, ""),
    bytes,
    padding(bytes.length),
    block(entry.name, LETTERS[entry.type] ?? "0", size, entry.mode & 0o7777, entry.mtime, entry.link),
  ]);
}

function text(bytes: Buffer): string {
  const end = bytes.indexOf(0);
  return bytes.toString("latin1", 0, end < 0 ? bytes.length : end);
}

function number(bytes: Buffer): number {
  const digits = text(bytes).trim();
  if (!/^[0-7]*$/.test(digits)) throw new BadArchive("a number that is none");
  return digits === "" ? 0 : parseInt(digits, 8);
}

function whole(digits: string | undefined): number {
  const value = Number(digits);
  if (!/^\d{1,16}$/.test(digits ?? "") || !Number.isSafeInteger(value)) throw new BadArchive("a number that is none");
  return value;
}

function records(bytes: Buffer): Map<string, string> {
  const found = new Map<string, string>();
  for (let at = 0; at < bytes.length;) {
    const space = bytes.indexOf(0x20, at);
    const length = space < 0 ? 0 : whole(bytes.toString("latin1", at, space));
    const line = bytes.toString("latin1", space + 1, at + length);
    const equals = line.indexOf("=");
    if (length < 5 || at + length > bytes.length || equals < 1 || !line.endsWith("\n")) throw new BadArchive("a broken header");
    found.set(line.slice(0, equals), line.slice(equals + 1, -1));
    at += length;
  }
  return found;
}

/** Where the bytes of a file with holes belong. */
export interface Region {
  offset: number;
  size: number;
}

/** Reads an archive from pieces of bytes that come. */
export class Reader {
  readonly #source: AsyncIterator<Uint8Array>;
  #piece: Buffer = Buffer.alloc(0);
  /** Bytes of the present entry that were not read yet, and those that fill its last block. */
  #left = 0;
  #fill = 0;
  #sparse = false;
  #size = 0;

  constructor(source: AsyncIterator<Uint8Array>) {
    this.#source = source;
  }

  /** The next entry, or undefined at the end. What was not read of the one before is passed over. */
  async next(): Promise<Entry | undefined> {
    await this.#skip(this.#left + this.#fill);
    this.#left = this.#fill = 0;
    let extra = new Map<string, string>();
    for (;;) {
      const head = await this.#exactly(BLOCK);
      if (head.every((byte) => byte === 0)) return undefined;
      const sum = head.reduce((so, byte, at) => so + (at >= 148 && at < 156 ? 32 : byte), 0);
      if (number(head.subarray(148, 156)) !== sum) throw new BadArchive("a broken header");
      const letter = head.toString("latin1", 156, 157);
      if (letter !== "x" && letter !== "g") return this.#entry(head, letter, extra);
      const size = number(head.subarray(124, 136));
      if (size > EXTRA_MOST) throw new BadArchive("a header that is too large");
      const bytes = await this.#exactly(size);
      await this.#skip(padding(size).length);
      if (letter === "x") extra = records(bytes);
    }
  }

  #entry(head: Buffer, letter: string, extra: Map<string, string>): Entry {
    const prefix = head.toString("latin1", 257, 263) === "ustar\0" ? text(head.subarray(345, 500)) : "";
    const name = text(head.subarray(0, 100));
    const stored = extra.has("size") ? whole(extra.get("size")) : number(head.subarray(124, 136));
    const type = TYPES[letter] ?? "other";
    this.#left = ["hardlink", "symlink", "directory"].includes(type) ? 0 : stored;
    this.#fill = padding(this.#left).length;
    this.#sparse = extra.get("GNU.sparse.major") === "1" && type === "file";
    if (!this.#sparse && [...extra.keys()].some((key) => key.startsWith("GNU.sparse.")))
      throw new BadArchive("a file with holes of an unknown kind");
    this.#size = this.#sparse ? whole(extra.get("GNU.sparse.realsize")) : this.#left;
    const mtime = Number(extra.get("mtime") ?? number(head.subarray(136, 148)));
    return {
      name: extra.get("GNU.sparse.name") ?? extra.get("path") ?? (prefix === "" ? name : `${prefix}/${name}`),
      type,
      size: this.#size,
      mode: number(head.subarray(100, 108)),
      mtime: Number.isFinite(mtime) ? mtime : 0,
      link: extra.get("linkpath") ?? text(head.subarray(157, 257)),
    };
  }

  /** Where the content of the present entry belongs, to be called before it is read. */
  async regions(): Promise<Region[]> {
    if (!this.#sparse) return [{ offset: 0, size: this.#size }];
    const numbers = this.#numbers();
    const regions: Region[] = [];
    for (let left = await numbers(); left > 0; left--) {
      const region = { offset: await numbers(), size: await numbers() };
      if (region.offset + region.size > this.#size) throw new BadArchive("a file whose parts lie outside of it");
      regions.push(region);
    }
    return regions;
  }

  /** Gives the numbers of the map before the content, one a line, as blocks of it come. */
  #numbers(): () => Promise<number> {
    let map = "";
    let total = 0;
    return async () => {
      for (let end = map.indexOf("\n"); ; end = map.indexOf("\n")) {
        if (end >= 0) {
          const number = whole(map.slice(0, end));
          map = map.slice(end + 1);
          return number;
        }
        if (this.#left < BLOCK || total > EXTRA_MOST || map.length > BLOCK) throw new BadArchive("a file with holes whose map is broken");
        this.#left -= BLOCK;
        total += BLOCK;
        map += (await this.#exactly(BLOCK)).toString("latin1");
      }
    };
  }

  /** Bytes of the present entry's content: at least one, at most so many. */
  async read(most: number): Promise<Buffer> {
    if (this.#left === 0 || (this.#piece.length === 0 && !(await this.#more()))) throw new BadArchive("an archive that ends too early");
    const take = this.#piece.subarray(0, Math.min(most, this.#left));
    this.#piece = this.#piece.subarray(take.length);
    this.#left -= take.length;
    return take;
  }

  /** Reads on to the end of the source, so that a connection that breaks there is noticed. */
  async finish(): Promise<void> {
    while (await this.#more());
  }

  /** Takes the next piece that is not empty. */
  async #more(): Promise<boolean> {
    let piece = await this.#source.next();
    while (!piece.done && piece.value.length === 0) piece = await this.#source.next();
    if (!piece.done) this.#piece = Buffer.from(piece.value.buffer, piece.value.byteOffset, piece.value.byteLength);
    return !piece.done;
  }

  async #exactly(size: number): Promise<Buffer> {
    if (this.#piece.length >= size) {
      const bytes = this.#piece.subarray(0, size);
      this.#piece = this.#piece.subarray(size);
      return bytes;
    }
    const parts: Buffer[] = [];
    let missing = size;
    while (missing > 0) {
      if (this.#piece.length === 0 && !(await this.#more())) throw new BadArchive("an archive that ends too early");
      const part = this.#piece.subarray(0, missing);
      this.#piece = this.#piece.subarray(part.length);
      missing -= part.length;
      parts.push(part);
    }
    return Buffer.concat(parts);
  }

  async #skip(size: number): Promise<void> {
    while (size > 0) {
      if (this.#piece.length === 0 && !(await this.#more())) throw new BadArchive("an archive that ends too early");
      const part = Math.min(size, this.#piece.length);
      this.#piece = this.#piece.subarray(part);
      size -= part;
    }
  }
}
