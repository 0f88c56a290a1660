/**
 * Folders as tar: packed from the disk as they are sent, and unpacked without trust. What comes from a sandbox is hostile: nothing is
 * written through a link or outside of the new folder; no device, no setuid bit, no link that leads out.
 */

import { Buffer } from "node:buffer";
import { constants } from "node:fs";
import { chmod, link, lstat, lutimes, mkdir, open, readdir, readlink, rename, rm, stat, symlink, utimes } from "node:fs/promises";
import { dirname } from "node:path";
import { SandboxAPIError, SandboxAnswerError, oneLine } from "./errors.js";
import { SandboxLocalFileError, beside, local } from "./local.js";
import type { TransferOptions } from "./options.js";
import type { Sandbox } from "./sandbox.js";
import { BadArchive, END, Reader, header, padding, type Entry } from "./tar.js";

const PIECE = 256 * 1024;

/** Bytes as a path: a string where they are UTF-8, which every runtime takes everywhere. */
function pathOf(bytes: Buffer): string | Buffer {
  const text = bytes.toString("utf8");
  return Buffer.from(text, "utf8").equals(bytes) ? text : bytes;
}

/** A path below a folder; names of files need not be UTF-8. */
function below(root: string, name: string): string | Buffer {
  return pathOf(Buffer.from(`${Buffer.from(root).toString("latin1")}/${name}`, "latin1"));
}

function readable(name: string): string {
  return Buffer.from(name, "latin1").toString("utf8");
}

/** The content of a file in exactly `size` bytes, as its header said. */
async function* content(path: string | Buffer, size: number): AsyncGenerator<Buffer> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    for (let left = size; left > 0;) {
      const buffer = Buffer.allocUnsafe(Math.min(PIECE, left));
      const { bytesRead } = await file.read(buffer, 0, buffer.length, null);
      if (bytesRead === 0) throw new SandboxLocalFileError(String(path), "ECHANGED", "became shorter while it was sent");
      yield buffer.subarray(0, bytesRead);
      left -= bytesRead;
    }
  } finally {
    await file.close();
  }
}

/** What is in a folder, as a tar: files, folders, links of both kinds; nothing else, and no owners. */
async function* pack(root: string, leftOut: string[], prefix = "", seen = new Map<string, string>()): AsyncGenerator<Buffer> {
  const names = (await readdir(below(root, prefix), { encoding: "buffer" })).map((name) => Buffer.from(name).toString("latin1")).sort();
  for (const name of names.map((one) => prefix + one)) {
    const path = below(root, name);
    const info = await lstat(path);
    const entry: Entry = { name, type: "other", size: 0, mode: info.mode, mtime: info.mtimeMs / 1000, link: "" };
    const same = info.nlink > 1 && info.isFile() ? seen.get(`${info.dev}:${info.ino}`) : undefined;
    if (info.isDirectory()) {
      yield header({ ...entry, name: `${name}/`, type: "directory" });
      yield* pack(root, leftOut, `${name}/`, seen);
    } else if (info.isSymbolicLink()) {
      const link = Buffer.from(await readlink(path, { encoding: "buffer" })).toString("latin1");
      if (staysInside(name.split("/"), link)) yield header({ ...entry, type: "symlink", link });
      else leftOut.push(readable(name));
    } else if (same !== undefined) {
      yield header({ ...entry, type: "hardlink", link: same });
    } else if (info.isFile()) {
      if (info.nlink > 1) seen.set(`${info.dev}:${info.ino}`, name);
      yield header({ ...entry, type: "file", size: info.size });
      yield* content(path, info.size);
      yield padding(info.size);
    } else {
      leftOut.push(readable(name));
    }
  }
}

/** Small pieces put together: a request with thousands of them is slow. */
async function* gathered(pieces: AsyncIterable<Buffer>): AsyncGenerator<Uint8Array> {
  let kept: Buffer[] = [];
  let size = 0;
  for await (const piece of pieces) {
    kept.push(piece);
    size += piece.length;
    if (size < PIECE) continue;
    yield Buffer.concat(kept);
    kept = [];
    size = 0;
  }
  yield Buffer.concat([...kept, END]);
}

/**
 * Sends what is in a folder of this machine to a folder below `/workspace`, which is made: files, folders, and links of both kinds.
 * @returns the names of what was left out: links that lead out of it (a sandbox takes none of those), devices, sockets, FIFOs
 * @throws SandboxLocalFileError if a part of it cannot be read; then nothing of it was unpacked
 */
export async function uploadFolder(sandbox: Sandbox, localPath: string, path = "/workspace", options: TransferOptions = {}): Promise<string[]> {
  let leftOut: string[] = [];
  try {
    if (!(await stat(localPath)).isDirectory()) throw new SandboxLocalFileError(localPath, "ENOTDIR", "is not a folder");
    await sandbox.writeArchive(() => gathered(pack(localPath, (leftOut = []))), path, options);
    return leftOut;
  } catch (error) {
    throw local(localPath, error);
  }
}

function hostile(what: string): BadArchive {
  return new BadArchive(what);
}

/** No system takes a longer name. */
const NAME_MOST = 4096;

function partsOf(name: string): string[] {
  if (name.length > NAME_MOST) throw new SandboxLocalFileError(readable(name.slice(0, 100)), "ENAMETOOLONG", "the name is too long");
  const parts = name.split("/").filter((part) => part !== "" && part !== ".");
  if (name.startsWith("/") || parts.includes("..") || name.includes("\0") || (process.platform === "win32" && /[\\:]/.test(name))) {
    throw hostile(`an entry that would leave the folder: ${name}`);
  }
  return parts;
}

/** Whether a link leads nowhere but into the folder. Steps up count only in front: after a name they could go along another link. */
function staysInside(parts: string[], target: string): boolean {
  if (target === "" || target.startsWith("/") || target.includes("\0") || (process.platform === "win32" && /[\\:]/.test(target)))
    return false;
  const steps = target.split("/").filter((step) => step !== "" && step !== ".");
  const up = steps.findIndex((step) => step !== "..");
  const ups = up < 0 ? steps.length : up;
  return ups < parts.length && !steps.slice(ups).includes("..");
}

class Unpacker {
  readonly #root: string;
  /** What the user's umask leaves of a mode. */
  readonly #usual: number;
  readonly #folders = new Map<string, Entry | undefined>([["", undefined]]);
  readonly #files = new Set<string>();
  /** Names of the entries that were left out. */
  readonly leftOut: string[] = [];

  constructor(root: string, usual: number) {
    this.#root = root;
    this.#usual = usual;
  }

  async unpack(reader: Reader): Promise<void> {
    let begun = false;
    for (let entry = await reader.next(); entry !== undefined; entry = await reader.next()) {
      const parts = partsOf(entry.name);
      if (!begun && (entry.type !== "directory" || parts.length > 0))
        throw new SandboxAPIError(400, "invalid_request", "that is not a folder");
      begun = true;
      await this.#entry(reader, entry, parts);
    }
    await reader.finish();
    for (const [name, entry] of [...this.#folders].reverse()) {
      if (entry === undefined || name === "") continue;
      await chmod(below(this.#root, name), (entry.mode & this.#usual) | 0o700);
      await utimes(below(this.#root, name), entry.mtime, entry.mtime).catch(() => undefined);
    }
  }

  async #entry(reader: Reader, entry: Entry, parts: string[]): Promise<void> {
    const name = parts.join("/");
    if (entry.type === "directory") {
      await this.#folder(parts);
      this.#folders.set(name, entry);
      return;
    }
    if (name === "") throw hostile("an entry without a name");
    await this.#folder(parts.slice(0, -1));
    const path = below(this.#root, name);
    try {
      if (entry.type === "file") {
        await this.#file(reader, entry, path);
        this.#files.add(name);
      } else if (entry.type === "hardlink") {
        const target = partsOf(entry.link).join("/");
        if (!this.#files.has(target)) throw hostile(`a hard link to what is not in it: ${entry.link}`);
        await link(below(this.#root, target), path);
        this.#files.add(name);
      } else if (entry.type === "symlink" && staysInside(parts, entry.link)) {
        await symlink(pathOf(Buffer.from(entry.link, "latin1")), path);
        await lutimes(path, entry.mtime, entry.mtime).catch(() => undefined);
      } else {
        this.leftOut.push(readable(name));
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EEXIST") throw hostile(`two entries of one name: ${name}`);
      throw error;
    }
  }

  /** Makes a folder and those above it; what is there already must be a folder that was made here. */
  async #folder(parts: string[]): Promise<void> {
    let known = parts.length;
    while (!this.#folders.has(parts.slice(0, known).join("/"))) known--;
    for (let n = known + 1; n <= parts.length; n++) {
      const name = parts.slice(0, n).join("/");
      try {
        await mkdir(below(this.#root, name), 0o700);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "EEXIST") throw hostile(`an entry below what is no folder: ${name}`);
        throw error;
      }
      this.#folders.set(name, undefined);
    }
  }

  async #file(reader: Reader, entry: Entry, path: string | Buffer): Promise<void> {
    const file = await open(path, "wx", (entry.mode & 0o777) | 0o600);
    try {
      const regions = await reader.regions();
      for (const { offset, size } of regions) {
        for (let done = 0; done < size;) {
          const piece = await reader.read(size - done);
          for (let at = 0; at < piece.length;) at += (await file.write(piece, at, piece.length - at, offset + done + at)).bytesWritten;
          done += piece.length;
        }
      }
      await file.truncate(entry.size);
      await file.utimes(entry.mtime, entry.mtime).catch(() => undefined);
    } finally {
      await file.close();
    }
  }
}

async function* piecesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader();
  try {
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) yield piece.value;
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/**
 * Fetches a folder of a sandbox into a new folder of this machine, which appears when all of it is there, or not at all.
 * @returns the names of what was left out: links that lead out of it, devices, sockets, FIFOs
 * @throws SandboxLocalFileError with code `"EEXIST"` if the new folder exists, and for what the disk does not take
 */
export async function downloadFolder(sandbox: Sandbox, path: string, localPath: string, options: TransferOptions = {}): Promise<string[]> {
  const target = localPath.replace(/(?<=.)\/+$/, "");
  const part = beside(target);
  const pieces = async (): Promise<AsyncGenerator<Uint8Array>> => piecesOf(await sandbox.readArchive(path, options));
  let made = false;
  let source: AsyncGenerator<Uint8Array> | undefined;
  try {
    await refuseExisting(target);
    await mkdir(part);
    made = true;
    const usual = (await stat(part)).mode & 0o777;
    await chmod(part, 0o700);
    source = await pieces();
    const unpacker = new Unpacker(part, usual);
    await unpacker.unpack(new Reader(source));
    await chmod(part, usual | 0o700);
    await refuseExisting(target);
    await rename(part, target);
    made = false;
    return unpacker.leftOut;
  } catch (error) {
    if (error instanceof BadArchive)
      throw new SandboxAnswerError(`the archive is not one of this API: ${oneLine(readable(error.message))}`, 200);
    throw local(localPath, error);
  } finally {
    await source?.return(undefined);
    if (made) await rm(part, { recursive: true, force: true });
  }
}

async function refuseExisting(path: string): Promise<void> {
  if ((await lstat(path).catch(() => undefined)) !== undefined)
    throw new SandboxLocalFileError(path, "EEXIST", "exists already: nothing was written");
  if (!(await stat(dirname(path))).isDirectory()) throw new SandboxLocalFileError(dirname(path), "ENOTDIR", "is not a folder");
}
