/** Files of this machine: what can go wrong with them, and how one is written whole or not at all. */

import { randomBytes } from "node:crypto";
import { link, lstat, open, rename, stat, unlink, type FileHandle } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { SandboxError, oneLine } from "./errors.js";

/** A file or folder on this machine that cannot be read or written: it exists, the disk is full, … Nothing half-written is left. */
export class SandboxLocalFileError extends SandboxError {
  override readonly name: string = "SandboxLocalFileError";
  /** The system's word for it, such as `"EEXIST"`, `"ENOENT"` or `"ENOSPC"`. */
  readonly code: string;
  readonly path: string;

  constructor(path: string, code: string, what: string, options?: ErrorOptions) {
    super(`${oneLine(path)}: ${oneLine(what)}`, options);
    this.path = path;
    this.code = code;
  }
}

/** What the system's words mean for a user. */
export const WORDS: Record<string, string> = {
  EEXIST: "exists already: nothing was written (overwrite: true replaces it)",
  ENOENT: "no such file or folder",
  EACCES: "permission denied",
  EPERM: "permission denied",
  ENOSPC: "no space left on the disk: nothing was written",
  EDQUOT: "no space left in the disk quota: nothing was written",
  EISDIR: "is a folder",
  ENOTDIR: "a part of the path is not a folder",
  EROFS: "the file system is read-only",
};

/** The error of a file operation as this package's own; any other as it is. */
export function local(path: string, error: unknown): Error {
  const { code, syscall } = error as NodeJS.ErrnoException;
  if (error instanceof SandboxError || typeof code !== "string" || syscall === undefined) return error as Error;
  return new SandboxLocalFileError(path, code, WORDS[code] ?? code, { cause: error });
}

/** A name that nobody has, in the folder of a path. */
export function beside(path: string): string {
  return join(dirname(path), `.${basename(path).slice(0, 50)}.${randomBytes(6).toString("hex")}.part`);
}

/** Refuses what a rename must not replace, before anything is transferred. */
async function checkDestination(path: string, overwrite: boolean): Promise<void> {
  const there = await lstat(path).catch(() => undefined);
  if (there === undefined) return;
  const behind = there.isSymbolicLink() ? await stat(path).catch(() => undefined) : there;
  if (behind?.isDirectory()) throw new SandboxLocalFileError(path, "EISDIR", "is a folder: give the name of the file too");
  if (!overwrite) throw new SandboxLocalFileError(path, "EEXIST", WORDS["EEXIST"] as string);
  if (behind !== undefined && !behind.isFile())
    throw new SandboxLocalFileError(path, "EINVAL", "is not a regular file: it is not replaced");
}

/** Writes a stream beside its destination, and gives it its name when it is complete. */
export async function save(path: string, overwrite: boolean, begin: () => Promise<ReadableStream<Uint8Array>>): Promise<void> {
  const temporary = beside(path);
  let file: FileHandle | undefined;
  try {
    await checkDestination(path, overwrite);
    file = await open(temporary, "wx");
    await fill(file, await begin());
    await file.close();
    if (overwrite) await rename(temporary, path);
    else await place(temporary, path);
    file = undefined;
  } catch (error) {
    throw local(path, error);
  } finally {
    if (file !== undefined) {
      await file.close().catch(() => undefined);
      await unlink(temporary).catch(() => undefined);
    }
  }
}

async function fill(file: FileHandle, stream: ReadableStream<Uint8Array>): Promise<void> {
  const reader = stream.getReader();
  try {
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      for (let at = 0; at < piece.value.length;) at += (await file.write(piece.value, at)).bytesWritten;
    }
  } catch (error) {
    await reader.cancel().catch(() => undefined);
    throw error;
  }
}

/** Gives a whole file its name, unless something has that name by now. */
async function place(temporary: string, path: string): Promise<void> {
  try {
    await link(temporary, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") throw error;
    // A file system without hard links: the look before and the rename are not one step.
    await checkDestination(path, false);
    await rename(temporary, path);
    return;
  }
  await unlink(temporary);
}
