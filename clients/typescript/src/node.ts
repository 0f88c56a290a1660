/** What Node, Deno and Bun can do more than browsers: keys in files, and transfers from and to files on the disk. */

import { createReadStream, readFileSync, statSync } from "node:fs";
import { open, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { AgentboxClient as BaseRuns } from "./agentbox.js";
import type { ByteSource, Content } from "./body.js";
import { SandboxClient as Base, type ClientOptions } from "./client.js";
import { SandboxConfigError, oneLine } from "./errors.js";
import { SandboxLocalFileError, WORDS, local, save } from "./local.js";
import type { TransferOptions, WriteOptions } from "./options.js";
import { environment } from "./runtime.js";
import type { Sandbox } from "./sandbox.js";
import type { Tls } from "./trust.js";
import type { FileInfo } from "./types.js";

export { downloadFolder, uploadFolder } from "./folders.js";
export * from "./index.js";
export { SandboxLocalFileError } from "./local.js";

/** The key in a file, which nobody else may be able to read. */
function keyIn(path: string, must: boolean): string | undefined {
  let text;
  try {
    const info = statSync(path);
    // Reading a pipe would wait for whoever writes into it.
    if (!info.isFile() && !info.isDirectory()) throw new SandboxConfigError(`${oneLine(path)} is not a file`);
    if (process.platform !== "win32" && (info.mode & 0o077) !== 0) {
      throw new SandboxConfigError(
        `${oneLine(path)} can be read by others: chmod 600 it, and if they may have read the key, make a new one`,
      );
    }
    text = readFileSync(path, "utf8").trim();
  } catch (cause) {
    if (cause instanceof SandboxConfigError) throw cause;
    const { code } = cause as NodeJS.ErrnoException;
    if (!must && (code === "ENOENT" || code === "ENOTDIR")) return undefined;
    throw new SandboxConfigError(`cannot read the key in ${oneLine(path)}: ${WORDS[code ?? ""] ?? code ?? "unknown reason"}`, { cause });
  }
  if (!/^[\x21-\x7e]+$/.test(text))
    throw new SandboxConfigError(`${oneLine(path)} does not hold a key, which is one line of printable ASCII`);
  return text;
}

function hasPassword(url: string | undefined): boolean {
  try {
    return url !== undefined && new URL(url).password !== "";
  } catch {
    return false;
  }
}

function keyFromFiles(options: ClientOptions): string | undefined {
  if (hasPassword(options.baseUrl ?? environment("AGENT_SANDBOX_URL")) || environment("AGENT_SANDBOX_API_KEY") !== undefined)
    return undefined;
  const named = environment("AGENT_SANDBOX_API_KEY_FILE");
  if (named !== undefined) return keyIn(named, true);
  const home = environment("XDG_CONFIG_HOME") ?? join(environment("HOME") ?? homedir(), ".config");
  return keyIn(join(home, "agent-sandbox", "key"), false);
}

export interface NodeClientOptions extends ClientOptions {
  /** A file with certificates in PEM to trust, with https, instead of the runtime's own. Not given: `AGENT_SANDBOX_CA_FILE`. */
  caFile?: string | undefined;
  /** A file with a client certificate in PEM. Not given: `AGENT_SANDBOX_CLIENT_CERT`. */
  clientCert?: string | undefined;
  /** A file with its private key. Not given: `AGENT_SANDBOX_CLIENT_KEY`, else the file of the certificate. */
  clientKey?: string | undefined;
}

/** A file of a certificate or a key; secret: it may hold a key, which nobody else may be able to read. */
function pemIn(path: string, what: string, secret: boolean): string {
  try {
    const info = statSync(path);
    if (!info.isFile()) throw new SandboxConfigError(`${what} ${oneLine(path)}: not a file`);
    const text = readFileSync(path, "utf8");
    if (secret && process.platform !== "win32" && (info.mode & 0o077) !== 0 && text.includes("PRIVATE KEY-----")) {
      throw new SandboxConfigError(`${what} ${oneLine(path)} can be read by others: chmod 600 it`);
    }
    return text;
  } catch (cause) {
    if (cause instanceof SandboxConfigError) throw cause;
    const { code } = cause as NodeJS.ErrnoException;
    throw new SandboxConfigError(`cannot read ${what} ${oneLine(path)}: ${WORDS[code ?? ""] ?? code ?? "unknown reason"}`, { cause });
  }
}

/** The texts of the files that the options or, for https and without a fetch of its own, the environment name. */
function tlsFromFiles(options: NodeClientOptions): Tls | undefined {
  const given = options.caFile !== undefined || options.clientCert !== undefined || options.clientKey !== undefined;
  const https = (options.baseUrl ?? environment("AGENT_SANDBOX_URL"))?.startsWith("https:") === true;
  const env = (name: string): string | undefined => (https && options.fetch === undefined ? environment(name) : undefined);
  if (options.tls !== undefined) {
    if (given) throw new SandboxConfigError("certificates are given as texts (tls) or as files, not as both");
    return options.tls;
  }
  const ca = options.caFile ?? env("AGENT_SANDBOX_CA_FILE");
  const cert = options.clientCert ?? env("AGENT_SANDBOX_CLIENT_CERT");
  const key = options.clientKey ?? env("AGENT_SANDBOX_CLIENT_KEY") ?? cert;
  if (ca === undefined && cert === undefined && key === undefined) return undefined;
  return {
    ca: ca === undefined ? undefined : pemIn(ca, "the CA file", false),
    cert: cert === undefined ? undefined : pemIn(cert, "the client certificate", true),
    key: key === undefined ? undefined : pemIn(key, "the client certificate's key", true),
  };
}

/** The options with what the files say. */
function filled(options: NodeClientOptions): ClientOptions {
  return { ...options, apiKey: options.apiKey ?? keyFromFiles(options), tls: tlsFromFiles(options) };
}

/**
 * As the `SandboxClient` of `agent-sandbox-sdk`; a key that is neither given nor in `AGENT_SANDBOX_API_KEY` comes from the file
 * `AGENT_SANDBOX_API_KEY_FILE`, else from `~/.config/agent-sandbox/key` (`XDG_CONFIG_HOME`) if there is one. Others must not be able
 * to read it. Certificates come from files, too.
 */
export class SandboxClient extends Base {
  /** @throws SandboxConfigError for an address, a key, certificates or a file with one of them that cannot be */
  constructor(options: NodeClientOptions = {}) {
    super(filled(options));
  }
}

/** As the `AgentboxClient` of `agent-sandbox-sdk`, with keys and certificates from files as `SandboxClient`. */
export class AgentboxClient extends BaseRuns {
  /** @throws SandboxConfigError for an address, a key, certificates or a file with one of them that cannot be */
  constructor(baseUrl?: string, options: Omit<NodeClientOptions, "baseUrl"> = {}) {
    super(baseUrl, filled({ ...options, baseUrl }));
  }
}

export interface DownloadOptions extends TransferOptions {
  /** Replace a file that exists. Not given: that is an error, and it stays as it is. */
  overwrite?: boolean | undefined;
}

/** A way to read a file again and again, and its size if that is known. */
async function openable(path: string): Promise<{ content: Content; size: number | undefined }> {
  const info = await stat(path);
  if (info.isDirectory()) throw new SandboxLocalFileError(path, "EISDIR", WORDS["EISDIR"] as string);
  const read = (): ByteSource => createReadStream(path, { highWaterMark: 256 * 1024 });
  if (!info.isFile()) return { content: read(), size: undefined };
  await (await open(path, "r")).close();
  return { content: read, size: info.size };
}

/** Sends a file of this machine to a path below `/workspace`, without ever holding all of it in memory. */
export async function upload(sandbox: Sandbox, localPath: string, path: string, options: WriteOptions = {}): Promise<FileInfo> {
  try {
    const { content, size } = await openable(localPath);
    return await sandbox.writeFile(path, content, { size, ...options });
  } catch (error) {
    throw local(localPath, error);
  }
}

/** Unpacks a tar file of this machine into a folder below `/workspace`. */
export async function uploadArchive(
  sandbox: Sandbox,
  localPath: string,
  path = "/workspace",
  options: TransferOptions = {},
): Promise<void> {
  try {
    const { content, size } = await openable(localPath);
    await sandbox.writeArchive(content, path, { size, ...options });
  } catch (error) {
    throw local(localPath, error);
  }
}

/**
 * Fetches a file of a sandbox. The local file appears when all of it is there, or not at all.
 * @throws SandboxLocalFileError with code `"EEXIST"` if it exists and `overwrite` is not set, and for what the disk does not take
 */
export async function download(sandbox: Sandbox, path: string, localPath: string, options: DownloadOptions = {}): Promise<void> {
  await save(localPath, options.overwrite === true, () => sandbox.readStream(path, options));
}

/** Fetches a file or folder of a sandbox as a tar file. Else as `download`. */
export async function downloadArchive(sandbox: Sandbox, path: string, localPath: string, options: DownloadOptions = {}): Promise<void> {
  await save(localPath, options.overwrite === true, () => sandbox.readArchive(path, options));
}
