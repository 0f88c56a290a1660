/** The server as a whole: makes, finds and lists sandboxes and snapshots. */

import { SandboxConfigError } from "./errors.js";
import { Http, place, type Fetch, type Request } from "./http.js";
import { Link, segment, snapshotId } from "./link.js";
import { fields, type CallOptions, type CreateOptions, type ForkOptions, type ProgramOptions } from "./options.js";
import { manner } from "./runtime.js";
import { Sandbox } from "./sandbox.js";
import { checkTls, type Tls } from "./trust.js";
import {
  list,
  toHealth,
  toProgramResult,
  toSandbox,
  toSnapshot,
  type Health,
  type ProgramResult,
  type SandboxData,
  type SnapshotInfo,
} from "./types.js";

/** The longest that a server pulls an image, in seconds, and some. */
const PULL = 660;

export interface ClientOptions {
  /**
   * Where the server is. Not given: `AGENT_SANDBOX_URL`, else `http://127.0.0.1:8080`; in a browser the origin of the page.
   * A key may stand in it as a password.
   */
  baseUrl?: string | undefined;
  /** Not given: `AGENT_SANDBOX_API_KEY`, else none. (`agent-sandbox-sdk/node` also looks for files with a key.) */
  apiKey?: string | undefined;
  /**
   * Seconds of silence of the server after which a call fails; 300 if not given, `Infinity` for no limit. The time that a command
   * may take is added to it, and the pulling of an image has at least 660 s if this is not given.
   */
  timeoutSeconds?: number | undefined;
  /** How often a call is tried again, where that is safe; 2 if not given. */
  retries?: number | undefined;
  /** Used in place of the global `fetch`, for instance to go through a proxy. */
  fetch?: Fetch | undefined;
  /** For https, in Node, Deno and Bun: texts in PEM. (`agent-sandbox-sdk/node` reads them from files.) Not together with `fetch`. */
  tls?: Tls | undefined;
}

/** The way to a server. */
export function connect(options: ClientOptions): Link {
  const seconds = options.timeoutSeconds ?? 300;
  const retries = options.retries ?? 2;
  if (!(seconds > 0)) throw new SandboxConfigError("timeoutSeconds must be above 0");
  if (!Number.isInteger(retries) || retries < 0) throw new SandboxConfigError("retries must be a whole number from 0");
  const fetcher: Fetch = options.fetch ?? ((url, init) => fetch(url, init));
  const where = place(options.baseUrl, options.apiKey);
  where.tls = checkTls(options.tls, where.url);
  if (where.tls !== undefined && options.fetch !== undefined) {
    throw new SandboxConfigError("a CA and a client certificate are not for a client with its own fetch, which has its own");
  }
  if (where.tls !== undefined) manner(where.url, where.tls); // throws where this cannot be
  return new Link(new Http(where, seconds, retries, fetcher), options.timeoutSeconds ?? PULL);
}

/**
 * A client of one server.
 *
 * ```ts
 * const client = new SandboxClient({ baseUrl: "http://127.0.0.1:8080", apiKey: "…" });
 * await using sandbox = await client.create({ image: "python:3.12-slim" });
 * console.log((await sandbox.exec("python3 -c 'print(6 * 7)'")).stdout);
 * ```
 *
 * Calls throw `SandboxAPIError` (or a class below it) when the server refuses, `SandboxUnreachableError`, `SandboxConnectionLostError`,
 * `SandboxTimeoutError` and `SandboxAnswerError` when no answer of it comes, `TypeError` for arguments that cannot be, and the reason
 * of their `signal`. Tried again are calls whose repetition changes nothing, when the connection broke or the server is busy (503);
 * others only when nothing was sent. Making a sandbox carries an idempotency key, so that it is never made twice.
 */
export class SandboxClient {
  readonly #link: Link;

  /** @throws SandboxConfigError for an address, a key or certificates that cannot be */
  constructor(options: ClientOptions = {}) {
    this.#link = connect(options);
  }

  /** Where the server is, without the key. */
  get baseUrl(): string {
    return this.#link.http.url;
  }

  /** How the server is. Needs no key. */
  async health(options: CallOptions = {}): Promise<Health> {
    return this.#link.get({ method: "GET", path: "/healthz", repeatable: true, signal: options.signal }, toHealth);
  }

  /**
   * Makes a sandbox. Limits that are not given are the server's defaults. An image that is not there is pulled meanwhile. When the
   * call is aborted, the sandbox may be made all the same; it ends by its time.
   */
  async create(options: CreateOptions = {}): Promise<Sandbox> {
    const json = fields({
      image: options.image,
      cpus: options.cpus,
      memory_mb: options.memoryMb,
      pids_limit: options.pidsLimit,
      network: options.network,
      read_only_rootfs: options.readOnlyRootfs,
      timeout_seconds: options.timeoutSeconds,
      env: options.env,
      labels: options.labels,
      egress_allowlist: options.egressAllowlist,
    });
    return new Sandbox(this.#link, await this.#link.make("/v1/sandboxes", json, options));
  }

  /**
   * Runs a program to its end in a sandbox of its own, of which nothing is left. A program that fails is a result; past its time limit
   * it is a `SandboxAPIError` whose `statusCode` is 408. It is never run twice.
   */
  async run(code: string, options: ProgramOptions = {}): Promise<ProgramResult> {
    const limits = fields({
      timeout_seconds: options.timeoutSeconds,
      memory_mb: options.memoryMb,
      max_output_bytes: options.maxOutputBytes,
    });
    const json = fields({
      code,
      language: options.language,
      limits: Object.keys(limits).length > 0 ? limits : undefined,
      snapshot: options.snapshot || undefined,
      snapshot_id: options.snapshotId ? snapshotId(options.snapshotId) : undefined,
      egress_allowlist: options.egressAllowlist,
    });
    return this.#link.run("/v1/run", json, options.timeoutSeconds ?? 0, options.signal, toProgramResult);
  }

  /** @throws SandboxNotFoundError if there is none, or not any longer */
  async get(sandboxId: string, options: CallOptions = {}): Promise<Sandbox> {
    const data = await this.#link.get(this.#read(`/v1/sandboxes/${segment(sandboxId)}`, options), toSandbox);
    return new Sandbox(this.#link, data);
  }

  /** All sandboxes, oldest first; with `label: "name=value"` those that have it. */
  async listSandboxes(options: CallOptions & { label?: string | undefined } = {}): Promise<Sandbox[]> {
    const request = { ...this.#read("/v1/sandboxes", options), query: { label: options.label } };
    const found: SandboxData[] = await this.#link.get(request, (answer) => list(answer, "sandboxes").map(toSandbox));
    return found.map((data) => new Sandbox(this.#link, data));
  }

  /** All snapshots, or those of one sandbox, oldest first. */
  async listSnapshots(sandboxId?: string | null, options: CallOptions = {}): Promise<SnapshotInfo[]> {
    const request = { ...this.#read("/v1/snapshots", options), query: { sandbox_id: sandboxId ?? undefined } };
    return this.#link.get(request, (answer) => list(answer, "snapshots").map(toSnapshot));
  }

  /** @throws SandboxNotFoundError */
  async getSnapshot(id: string, options: CallOptions = {}): Promise<SnapshotInfo> {
    return this.#link.get(this.#read(`/v1/snapshots/${segment(id)}`, options), toSnapshot);
  }

  /** @throws SandboxNotFoundError */
  async deleteSnapshot(snapshot: SnapshotInfo | string, options: CallOptions = {}): Promise<void> {
    await this.#link.http.remove(`/v1/snapshots/${segment(snapshotId(snapshot))}`, options.signal);
  }

  /** Makes a sandbox that begins where a snapshot was taken. What is not given is as in the sandbox that was snapshotted. */
  async fork(snapshot: SnapshotInfo | string, options: ForkOptions = {}): Promise<Sandbox> {
    return new Sandbox(this.#link, await this.#link.fork(snapshot, options));
  }

  #read(path: string, options: CallOptions): Request {
    return { method: "GET", path, repeatable: true, signal: options.signal };
  }
}
