/** One-shot runs, with the names, arguments and result fields of agentbox-sandbox 0.8: its users change the import. */

import { connect, type ClientOptions } from "./client.js";
import type { Link } from "./link.js";
import { fields, type CallOptions } from "./options.js";
import { toRunResult, toShortHealth, type RunResult, type ShortHealth } from "./types.js";

export interface RunOptions extends CallOptions {
  /** Keep `/workspace`: `snapshot_id` of the result names what was kept. */
  snapshot?: boolean | undefined;
  /** What is in `/workspace` at the start; nothing if not given. */
  snapshotId?: string | null | undefined;
  /** Hosts that it may reach, as `host` or `host:port`. */
  egressAllowlist?: readonly string[] | null | undefined;
}

/**
 * Runs programs, each in a sandbox of its own.
 *
 * ```ts
 * const box = new AgentboxClient("http://127.0.0.1:8080");
 * console.log((await box.run("print(6 * 7)")).stdout);
 * ```
 *
 * A program that fails is a result. Calls throw as those of `SandboxClient` do; past the time limit it is a `SandboxAPIError` whose
 * `statusCode` is 408. A run is never sent twice.
 */
export class AgentboxClient {
  readonly #link: Link;

  /** @throws SandboxConfigError for an address or a key that cannot be */
  constructor(baseUrl?: string, options: Omit<ClientOptions, "baseUrl"> = {}) {
    this.#link = connect({ ...options, baseUrl });
  }

  /** Where the server is, without the key. */
  get baseUrl(): string {
    return this.#link.http.url;
  }

  /** How the server is. Needs no key. */
  async health(options: CallOptions = {}): Promise<ShortHealth> {
    return this.#link.get({ method: "GET", path: "/health", repeatable: true, signal: options.signal }, toShortHealth);
  }

  /**
   * Runs a program to its end.
   *
   * @param language `"python"`, or `"javascript"`, which is also called `"node"`
   * @param timeoutSeconds 1 to 300; the server's default if not given
   * @param memoryMb in MiB, from 16; the server's default if not given: `limits_applied` of the result says what it was
   */
  async run(
    code: string,
    language = "python",
    timeoutSeconds?: number | null,
    memoryMb?: number | null,
    options: RunOptions = {},
  ): Promise<RunResult> {
    const limits = fields({ timeout_seconds: timeoutSeconds || undefined, memory_mb: memoryMb });
    const json = fields({
      code,
      language,
      limits: Object.keys(limits).length > 0 ? limits : undefined,
      snapshot: options.snapshot || undefined,
      snapshot_id: options.snapshotId || undefined,
      egress_allowlist: options.egressAllowlist,
    });
    return this.#link.run("/v1/run", json, timeoutSeconds ?? 0, options.signal, toRunResult);
  }
}
