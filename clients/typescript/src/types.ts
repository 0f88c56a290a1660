/** What the server answers, in the names of this language, and the checks that an answer is what it should be. */

/** A `Uint8Array` with a buffer of its own (`Uint8Array<ArrayBuffer>` where the compiler knows the difference). */
export type Bytes = ReturnType<typeof Uint8Array.of>;

/** A sandbox as the server describes it. Times are RFC 3339 in UTC with microseconds; `new Date(time)` takes them. */
export interface SandboxData {
  readonly id: string;
  /** A stopped sandbox is started by the next call that needs it. */
  readonly status: "running" | "stopped";
  readonly image: string;
  readonly cpus: number;
  /** In MiB. */
  readonly memoryMb: number;
  /** Processes and threads. */
  readonly pidsLimit: number;
  /** Whether it reaches the network. */
  readonly network: boolean;
  readonly readOnlyRootfs: boolean;
  readonly createdAt: string;
  readonly expiresAt: string;
  /** The snapshot that it was forked from or last rolled back to. */
  readonly sourceSnapshotId: string | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly backend: string;
  /** The hosts that it can reach; empty: none; null: it has no list (see `network`). */
  readonly egressAllowlist: readonly string[] | null;
}

/** A saved `/workspace`. It outlives its sandbox. */
export interface SnapshotInfo {
  readonly id: string;
  readonly sandboxId: string;
  readonly name: string | null;
  readonly image: string;
  /** Bytes of its tar. */
  readonly sizeBytes: number;
  readonly createdAt: string;
  /** The `sourceSnapshotId` of the sandbox at that time. */
  readonly parentSnapshotId: string | null;
  /** Bytes on the server's disk, if it says so. */
  readonly storedBytes: number | null;
  /** Of its tar, in hex, if the server says so. */
  readonly sha256: string | null;
}

export interface FileInfo {
  readonly name: string;
  readonly path: string;
  readonly type: "file" | "directory" | "symlink" | "other";
  /** In bytes. */
  readonly size: number;
  readonly modifiedAt: string;
}

/** What is known more about the end of a command with the option `detail`. */
export interface ExecDetail {
  readonly oomKilled?: boolean;
  /** CPU time in milliseconds, and the most memory in bytes if that is known. */
  readonly usage?: { readonly cpuMs: number; readonly peakMemoryBytes: number | null };
  /** The signal that ended it, such as `"SEGV"`. */
  readonly signal?: string | null;
  /** Bytes of output that were thrown away. */
  readonly omittedBytes?: number;
}

/** How a command ended, and its output. Bytes that are not UTF-8 are U+FFFD. */
export interface ExecResult extends ExecDetail {
  readonly stdout: string;
  readonly stderr: string;
  /** The command's own; 128 + N when signal N ended it, 127 when it was not found, 126 when it cannot be executed. */
  readonly exitCode: number;
  /** Whether it ran past its time and was killed. */
  readonly timedOut: boolean;
  /** Whether some of the output was thrown away. */
  readonly truncated: boolean;
  /** In milliseconds. */
  readonly durationMs: number;
  /** It ended in time with exit code 0. */
  readonly ok: boolean;
}

export interface OutputEvent {
  readonly type: "stdout" | "stderr";
  /** Characters are never split between events. */
  readonly data: string;
}

export interface ExitEvent extends Omit<ExecDetail, "omittedBytes"> {
  readonly type: "exit";
  readonly exitCode: number;
  readonly timedOut: boolean;
  /** In milliseconds. */
  readonly durationMs: number;
}

/** An event of a command under way. The last one of a complete stream is of type `exit`. */
export type ExecEvent = OutputEvent | ExitEvent;

export interface Health {
  readonly status: string;
  readonly backend: string;
  readonly version: string;
  /** `"partial"`: a part of the separation between the server's programs is missing on its host. */
  readonly confinement: "full" | "partial" | null;
  /** `"soft"`: a workspace is limited only by the free space of the disk. */
  readonly workspaceQuota: "hard" | "soft" | null;
}

export interface ShortHealth {
  readonly status: string;
  readonly version: string;
  readonly backend: string;
}

/** What became of a program, with the names that the server itself uses. */
export interface RunResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly exit_code: number;
  readonly duration_ms: number;
  readonly language: string;
  readonly backend: string;
  readonly snapshot_id: string | null;
  readonly limits_applied: { readonly timeout_seconds: number; readonly memory_mb: number };
  readonly oom_killed: boolean;
  readonly network_isolated: boolean;
  readonly egress_allowlist: readonly string[];
  /** Whether there was more output than was kept. */
  readonly truncated: boolean;
}

/** What became of a program that `SandboxClient.run` ran. Bytes that are not UTF-8 are U+FFFD. */
export interface ProgramResult {
  readonly stdout: string;
  readonly stderr: string;
  /** The program's own; 128 + N when signal N ended it. */
  readonly exitCode: number;
  /** In milliseconds. */
  readonly durationMs: number;
  readonly language: string;
  readonly backend: string;
  /** What was kept of `/workspace`. */
  readonly snapshotId: string | null;
  readonly limitsApplied: { readonly timeoutSeconds: number; readonly memoryMb: number };
  /** Whether something was ended for want of memory. */
  readonly oomKilled: boolean;
  /** Whether there was no way out but `egressAllowlist`. */
  readonly networkIsolated: boolean;
  /** The hosts that it could reach. */
  readonly egressAllowlist: readonly string[];
  /** Whether there was more output than was kept. */
  readonly truncated: boolean;
  /** It ended with exit code 0. */
  readonly ok: boolean;
}

/** Thrown by the functions below; who asked says where the answer came from. */
export class Misshapen extends Error {}

type Fields = Record<string, unknown>;

export function object(value: unknown): Fields {
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Misshapen("is not a JSON object");
  return value as Fields;
}

export function list(value: unknown, name: string): unknown[] {
  const items = object(value)[name];
  if (!Array.isArray(items)) throw new Misshapen(`has no list "${name}"`);
  return items;
}

function texts(value: unknown, name: string): string[] {
  const items = list(value, name);
  if (!items.every((item) => typeof item === "string")) throw new Misshapen(`has no list of texts "${name}"`);
  return items as string[];
}

interface Kinds {
  string: string;
  number: number;
  boolean: boolean;
}

function field<K extends keyof Kinds>(fields: Fields, name: string, kind: K): Kinds[K] {
  const value = fields[name];
  if (typeof value !== kind) throw new Misshapen(`has no ${kind} "${name}"`);
  return value as Kinds[K];
}

/** A field that may be null or missing. */
function maybe<K extends keyof Kinds>(fields: Fields, name: string, kind: K): Kinds[K] | null {
  return fields[name] === undefined || fields[name] === null ? null : field(fields, name, kind);
}

export function toSandbox(value: unknown): SandboxData {
  const o = object(value);
  return {
    id: field(o, "id", "string"),
    status: field(o, "status", "string") as SandboxData["status"],
    image: field(o, "image", "string"),
    cpus: field(o, "cpus", "number"),
    memoryMb: field(o, "memory_mb", "number"),
    pidsLimit: field(o, "pids_limit", "number"),
    network: field(o, "network", "boolean"),
    readOnlyRootfs: field(o, "read_only_rootfs", "boolean"),
    createdAt: field(o, "created_at", "string"),
    expiresAt: field(o, "expires_at", "string"),
    sourceSnapshotId: maybe(o, "source_snapshot_id", "string"),
    labels: object(o["labels"] ?? {}) as Record<string, string>,
    backend: maybe(o, "backend", "string") ?? "",
    egressAllowlist: o["egress_allowlist"] == null ? null : texts(o, "egress_allowlist"),
  };
}

export function toSnapshot(value: unknown): SnapshotInfo {
  const o = object(value);
  return {
    id: field(o, "id", "string"),
    sandboxId: field(o, "sandbox_id", "string"),
    name: maybe(o, "name", "string"),
    image: field(o, "image", "string"),
    sizeBytes: field(o, "size_bytes", "number"),
    createdAt: field(o, "created_at", "string"),
    parentSnapshotId: maybe(o, "parent_snapshot_id", "string"),
    storedBytes: maybe(o, "stored_bytes", "number"),
    sha256: maybe(o, "sha256", "string"),
  };
}

export function toFile(value: unknown): FileInfo {
  const o = object(value);
  return {
    name: field(o, "name", "string"),
    path: field(o, "path", "string"),
    type: field(o, "type", "string") as FileInfo["type"],
    size: field(o, "size", "number"),
    modifiedAt: field(o, "modified_at", "string"),
  };
}

function detail(o: Fields): ExecDetail {
  const more: { -readonly [K in keyof ExecDetail]: ExecDetail[K] } = {};
  if ("oom_killed" in o) more.oomKilled = field(o, "oom_killed", "boolean");
  if ("signal" in o) more.signal = maybe(o, "signal", "string");
  if ("omitted_bytes" in o) more.omittedBytes = field(o, "omitted_bytes", "number");
  if ("usage" in o) {
    const usage = object(o["usage"]);
    more.usage = { cpuMs: field(usage, "cpu_ms", "number"), peakMemoryBytes: maybe(usage, "peak_memory_bytes", "number") };
  }
  return more;
}

export function toResult(value: unknown): ExecResult {
  const o = object(value);
  const exitCode = field(o, "exit_code", "number");
  const timedOut = field(o, "timed_out", "boolean");
  return {
    stdout: field(o, "stdout", "string"),
    stderr: field(o, "stderr", "string"),
    exitCode,
    timedOut,
    truncated: field(o, "truncated", "boolean"),
    durationMs: field(o, "duration_ms", "number"),
    ok: exitCode === 0 && !timedOut,
    ...detail(o),
  };
}

/** An event; as a text the reason for which the stream could not be completed; undefined for a type that is not known yet. */
export function toEvent(value: unknown): ExecEvent | string | undefined {
  const o = object(value);
  const type = field(o, "type", "string");
  if (type === "stdout" || type === "stderr") return { type, data: field(o, "data", "string") };
  if (type === "error") return field(o, "data", "string");
  if (type !== "exit") return undefined;
  return {
    type,
    exitCode: field(o, "exit_code", "number"),
    timedOut: field(o, "timed_out", "boolean"),
    durationMs: field(o, "duration_ms", "number"),
    ...detail(o),
  };
}

export function toHealth(value: unknown): Health {
  const o = object(value);
  return {
    status: field(o, "status", "string"),
    backend: field(o, "backend", "string"),
    version: field(o, "version", "string"),
    confinement: maybe(o, "confinement", "string") as Health["confinement"],
    workspaceQuota: maybe(o, "workspace_quota", "string") as Health["workspaceQuota"],
  };
}

export function toShortHealth(value: unknown): ShortHealth {
  const o = object(value);
  return { status: field(o, "status", "string"), version: field(o, "version", "string"), backend: field(o, "backend", "string") };
}

export function toRunResult(value: unknown): RunResult {
  const o = object(value);
  const limits = object(o["limits_applied"]);
  return {
    stdout: field(o, "stdout", "string"),
    stderr: field(o, "stderr", "string"),
    exit_code: field(o, "exit_code", "number"),
    duration_ms: field(o, "duration_ms", "number"),
    language: field(o, "language", "string"),
    backend: field(o, "backend", "string"),
    snapshot_id: maybe(o, "snapshot_id", "string"),
    limits_applied: { timeout_seconds: field(limits, "timeout_seconds", "number"), memory_mb: field(limits, "memory_mb", "number") },
    oom_killed: field(o, "oom_killed", "boolean"),
    network_isolated: field(o, "network_isolated", "boolean"),
    egress_allowlist: texts(o, "egress_allowlist"),
    truncated: field(o, "truncated", "boolean"),
  };
}

export function toProgramResult(value: unknown): ProgramResult {
  const r = toRunResult(value);
  return {
    stdout: r.stdout,
    stderr: r.stderr,
    exitCode: r.exit_code,
    durationMs: r.duration_ms,
    language: r.language,
    backend: r.backend,
    snapshotId: r.snapshot_id,
    limitsApplied: { timeoutSeconds: r.limits_applied.timeout_seconds, memoryMb: r.limits_applied.memory_mb },
    oomKilled: r.oom_killed,
    networkIsolated: r.network_isolated,
    egressAllowlist: r.egress_allowlist,
    truncated: r.truncated,
    ok: r.exit_code === 0,
  };
}
