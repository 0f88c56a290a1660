// Drives the TypeScript SDK for the behaviour suite: calls come as JSON lines on standard input, {"id", "call", "args"}, and are answered
// on standard output by {"id", "ok"} or {"id", "error"}, before that {"id", "event"} and {"id", "progress"}. Several run at once.
import { createInterface } from "node:readline";
import * as sdk from "../../build/clients/typescript/dist/node.js";

const KINDS = [
  [sdk.SandboxAPIError, "api"],
  [sdk.SandboxUnreachableError, "unreachable"],
  [sdk.SandboxConnectionLostError, "broken"],
  [sdk.SandboxAnswerError, "strange"],
  [sdk.SandboxTimeoutError, "timeout"],
  [sdk.SandboxConfigError, "config"],
  [sdk.SandboxInterruptedError, "interrupted"],
  [sdk.SandboxDecodeError, "decode"],
  [TypeError, "usage"],
];
const OPTIONS = [
  "image",
  "cpus",
  "memory_mb",
  "pids_limit",
  "network",
  "read_only_rootfs",
  "timeout_seconds",
  "env",
  "labels",
  "idempotency_key",
  "workdir",
  "stdin",
  "mode",
  "overwrite",
  "label",
  "encoding",
  "detail",
  "egress_allowlist",
  "language",
  "max_output_bytes",
];

const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");
const camel = (name) => name.replace(/_([a-z0-9])/g, (_, letter) => letter.toUpperCase());
const snake = (name) => name.replace(/[A-Z]/g, (letter) => "_" + letter.toLowerCase());

/** The members of an object under the API's own names; labels and the like keep theirs. */
function plain(value) {
  if (Array.isArray(value)) return value.map(plain);
  if (value === null || typeof value !== "object") return value ?? null;
  const members = Object.entries(value instanceof sdk.Sandbox ? value.data : value);
  return Object.fromEntries(members.map(([name, member]) => [snake(name), name === "labels" ? member : plain(member)]));
}

function kindOf(error, signal) {
  if (signal.aborted && error === signal.reason) return "aborted";
  if (error instanceof sdk.SandboxLocalFileError) return error.code === "EEXIST" ? "exists" : "local";
  return KINDS.find(([type]) => error instanceof type)?.[1] ?? "unknown";
}

function failure(error, signal) {
  return {
    type: kindOf(error, signal),
    status: error.statusCode ?? null,
    code: error.code ?? null,
    message: error.message,
    retry_after: error.retryAfter ?? null,
    name: error.name,
  };
}

const number = (name) => (process.env[name] ? Number(process.env[name]) : undefined);
let made;
const client = () =>
  (made ??= new sdk.SandboxClient({ timeoutSeconds: number("DRIVER_TIMEOUT_SECONDS"), retries: number("DRIVER_RETRIES") }));

const CALLS = {
  health: (o) => client().health(o),
  create: (o) => client().create(o),
  get: (o, a) => client().get(a.sandbox, o),
  list_sandboxes: (o) => client().listSandboxes(o),
  list_snapshots: (o, a) => client().listSnapshots(a.sandbox, o),
  get_snapshot: (o, a) => client().getSnapshot(a.snapshot, o),
  delete_snapshot: (o, a) => client().deleteSnapshot(a.snapshot, o),
  fork: (o, a) => client().fork(a.snapshot, o),
  run: (o, a) => client().run(a.code, { ...o, snapshot: a.snapshot, snapshotId: a.snapshot_id }),
};

/** Calls of a sandbox. */
const OF_SANDBOX = {
  refresh: (s, o) => s.refresh(o),
  destroy: (s, o) => s.destroy(o),
  set_timeout: (s, o, a) => s.setTimeout(a.timeout_seconds, { signal: o.signal }),
  exec: (s, o, a) => s.exec(a.command, o),
  exec_stream: async (s, o, a, id) => {
    let left = a.break_after ?? Infinity;
    for await (const event of s.execStream(a.command, o)) {
      say({ id, event: plain(event) });
      if (--left <= 0) break;
    }
  },
  read_file: async (s, o, a) => ({ base64: Buffer.from(await s.readFile(a.path, o)).toString("base64") }),
  read_text: (s, o, a) => s.readText(a.path, o),
  write_file: (s, o, a) => s.writeFile(a.path, a.text ?? Buffer.from(a.base64, "base64"), o),
  list_files: (s, o, a) => s.listFiles(a.path, o),
  upload: (s, o, a) => sdk.upload(s, a.local, a.path, o),
  download: (s, o, a) => sdk.download(s, a.path, a.local, o),
  upload_archive: (s, o, a) => sdk.uploadArchive(s, a.local, a.path, o),
  download_archive: (s, o, a) => sdk.downloadArchive(s, a.path, a.local, o),
  upload_folder: (s, o, a) => sdk.uploadFolder(s, a.local, a.path, o),
  download_folder: (s, o, a) => sdk.downloadFolder(s, a.path, a.local, o),
  snapshot: (s, o, a) => s.snapshot(a.name, o),
  rollback: (s, o, a) => s.rollback(a.snapshot, o),
};

const MOVES = ["upload", "download", "upload_archive", "download_archive", "upload_folder", "download_folder"];

const known = new Map();

/** A sandbox by its id; those that came in an answer are not asked for again. */
async function sandboxOf(id, signal) {
  if (!known.has(id)) known.set(id, await client().get(id, { signal }));
  return known.get(id);
}

function remember(result) {
  for (const one of Array.isArray(result) ? result : [result]) if (one instanceof sdk.Sandbox) known.set(one.id, one);
}

const running = new Map();

async function serve({ id, call, args = {} }) {
  const control = new AbortController();
  running.set(id, control);
  const options = { signal: control.signal };
  for (const name of OPTIONS) if (args[name] !== undefined) options[camel(name)] = args[name];
  if (MOVES.includes(call)) options.progress = (done, total) => say({ id, progress: { done, total } });
  try {
    let result;
    if (call in CALLS) result = await CALLS[call](options, args);
    else if (call in OF_SANDBOX) result = await OF_SANDBOX[call](await sandboxOf(args.sandbox, control.signal), options, args, id);
    else return say({ id, error: { type: "unsupported", message: call } });
    remember(result);
    say({ id, ok: plain(result) });
  } catch (error) {
    say({ id, error: failure(error, control.signal) });
  } finally {
    running.delete(id);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if (message.call === "cancel") running.get(message.args.id)?.abort();
  else void serve(message);
}
