/** What the calls take. A member that is undefined or null is not given: the server's default holds. */

import type { Content, Progress } from "./body.js";
import type { SnapshotInfo } from "./types.js";

type Optional<T> = T | null | undefined;

/** Every call takes a signal that ends it: it then throws the signal's reason. */
export interface CallOptions {
  signal?: AbortSignal | undefined;
}

export interface TransferOptions extends CallOptions {
  progress?: Progress | undefined;
}

export interface ForkOptions extends CallOptions {
  /** Time to live in whole seconds, from when it is ready. */
  timeoutSeconds?: Optional<number>;
  /** Whether it reaches the network. */
  network?: Optional<boolean>;
  /** Above 0; fractions are fine. */
  cpus?: Optional<number>;
  /** In MiB, from 16. */
  memoryMb?: Optional<number>;
  /** Two calls with the same key and the same options make one sandbox. Not given: each call has its own. */
  idempotencyKey?: string | undefined;
}

export interface CreateOptions extends ForkOptions {
  /** The name of a Docker image. */
  image?: Optional<string>;
  /** Processes and threads, from 8. */
  pidsLimit?: Optional<number>;
  /** Whether all but `/workspace` and `/tmp` is read-only. */
  readOnlyRootfs?: Optional<boolean>;
  /** For every command in it. */
  env?: Optional<Record<string, string>>;
  /** To find it by: see `listSandboxes`. */
  labels?: Optional<Record<string, string>>;
  /**
   * The hosts that it can reach, and nothing else: `host`, `host:port`, `*.host`, an address, a CIDR. Empty: none. Not given: the
   * server's own list, if it has one, else none. Not together with `network: true`.
   */
  egressAllowlist?: Optional<readonly string[]>;
}

export interface ProgramOptions extends CallOptions {
  /** `"python"`, which it is if not given, or `"javascript"`, which is also called `"node"`. */
  language?: Optional<string>;
  /** In whole seconds, 1 to 300. */
  timeoutSeconds?: Optional<number>;
  /** In MiB, from 16; `limitsApplied` of the result says what it was. */
  memoryMb?: Optional<number>;
  /** Of both streams together, from 1024. */
  maxOutputBytes?: Optional<number>;
  /** Keep `/workspace`: `snapshotId` of the result names what was kept. */
  snapshot?: Optional<boolean>;
  /** What is in `/workspace` at the start; nothing if not given. */
  snapshotId?: Optional<SnapshotInfo | string>;
  /** As of a sandbox. */
  egressAllowlist?: Optional<readonly string[]>;
}

export interface ExecOptions extends CallOptions {
  /** Over the sandbox's own. */
  env?: Optional<Record<string, string>>;
  /** Absolute or relative to `/workspace`, which it is if not given. */
  workdir?: Optional<string>;
  /** After so many seconds the command and all that it started is killed. */
  timeoutSeconds?: Optional<number>;
  /** The command's standard input, else empty. */
  stdin?: Optional<string>;
  /** `"base64"`: the output is base64 of the exact bytes. */
  encoding?: "utf-8" | "base64" | undefined;
  /** Say more about its end: see `ExecDetail`. */
  detail?: boolean | undefined;
  /** End every other process of the sandbox first. */
  killOthers?: boolean | undefined;
  /** `"continue"`: the command goes on when this call is aborted or its connection breaks. */
  onDisconnect?: "kill" | "continue" | undefined;
}

export interface ExecStreamOptions extends Omit<ExecOptions, "stdin"> {
  /** The command's standard input of any size; streams are sent as they come. Else empty. */
  stdin?: Optional<Content>;
}

export interface ReadOptions extends TransferOptions {
  /** From which byte on, counted from 0. */
  offset?: number | undefined;
  /** How many bytes at most. */
  length?: number | undefined;
}

export interface ReadTextOptions extends ReadOptions {
  /** As `TextDecoder` knows them; `"utf-8"` if not given. */
  encoding?: string | undefined;
}

export interface UploadOptions extends TransferOptions {
  /** Bytes of a streamed content, as far as known: what `progress` gets as the total. */
  size?: number | undefined;
}

export interface WriteOptions extends UploadOptions {
  /** Permissions, such as `0o755`; 0o644 if not given. */
  mode?: number | undefined;
}

/** The body of a request: what is not given is left out, numbers that JSON has no word for are refused. */
export function fields(members: Record<string, unknown>): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(members)) {
    if (value === undefined || value === null) continue;
    if (typeof value === "number" && !Number.isFinite(value)) {
      throw new TypeError(`${name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())} is ${value}: it must be a finite number`);
    }
    body[name] = value;
  }
  return body;
}
