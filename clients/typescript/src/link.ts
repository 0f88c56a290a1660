/** What the client and its sandboxes share: the way to the server, and the calls that both have. */

import { SandboxAnswerError, SandboxNotFoundError } from "./errors.js";
import type { Http, Request } from "./http.js";
import { fields, type ForkOptions } from "./options.js";
import { randomId } from "./runtime.js";
import { Misshapen, toSandbox, type SandboxData, type SnapshotInfo } from "./types.js";

/** An id as a segment of a path. What cannot be one, and might lead elsewhere, is answered here as the server would. */
export function segment(id: string): string {
  if (typeof id !== "string") throw new TypeError("an id must be a string");
  if (!/^\w{1,100}$/.test(id)) throw new SandboxNotFoundError(404, "not_found", `${JSON.stringify(id)} not found: it is not an id`);
  return id;
}

export function snapshotId(snapshot: SnapshotInfo | string): string {
  return typeof snapshot === "string" ? snapshot : snapshot.id;
}

export class Link {
  readonly http: Http;
  /** Seconds of silence for a call during which an image may be pulled. */
  readonly #pull: number;

  constructor(http: Http, pull: number) {
    this.http = http;
    this.#pull = pull;
  }

  /** Asks, and turns the JSON of the answer into what it should be. */
  async get<T>(request: Request, convert: (value: unknown) => T): Promise<T> {
    const value = await this.http.json(request);
    try {
      return convert(value);
    } catch (error) {
      if (!(error instanceof Misshapen)) throw error;
      throw new SandboxAnswerError(
        `the answer of ${this.http.url} ${error.message}: is it agent-sandbox, and as new as this package?`,
        200,
      );
    }
  }

  /** Makes a sandbox, and only one however often that has to be asked for. */
  make(path: string, json: object, options: ForkOptions): Promise<SandboxData> {
    const idempotencyKey = options.idempotencyKey ?? randomId();
    return this.get(
      { method: "POST", path, json, idempotencyKey, repeatable: true, patience: this.#pull, signal: options.signal },
      toSandbox,
    );
  }

  /** Has a program run, which may take so many seconds; once. */
  run<T>(path: string, json: object, seconds: number, signal: AbortSignal | undefined, convert: (value: unknown) => T): Promise<T> {
    return this.get({ method: "POST", path, json, patience: this.#pull + seconds, signal }, convert);
  }

  fork(snapshot: SnapshotInfo | string, options: ForkOptions): Promise<SandboxData> {
    const json = fields({
      timeout_seconds: options.timeoutSeconds,
      network: options.network,
      cpus: options.cpus,
      memory_mb: options.memoryMb,
    });
    return this.make(`/v1/snapshots/${segment(snapshotId(snapshot))}/fork`, json, options);
  }
}
