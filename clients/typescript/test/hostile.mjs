// A small HTTP server of raw sockets: what it sends, byte for byte, and when it hangs up is the test's.
import { createServer } from "node:net";

/** The head and body of one request. */
async function receive(socket) {
  const pieces = socket.iterator({ destroyOnReturn: false });
  let got = Buffer.alloc(0);
  const more = async () => {
    const piece = await pieces.next().catch(() => ({ done: true }));
    if (!piece.done) got = Buffer.concat([got, piece.value]);
    return !piece.done;
  };
  while (!got.includes("\r\n\r\n")) if (!(await more())) return undefined;
  const end = got.indexOf("\r\n\r\n") + 4;
  const [first, ...lines] = got.subarray(0, end).toString("latin1").trimEnd().split("\r\n");
  const [method, path] = first.split(" ");
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]),
  );
  got = got.subarray(end);
  let body = Buffer.alloc(0);
  if (headers["transfer-encoding"] === "chunked") {
    for (;;) {
      while (!got.includes("\r\n")) if (!(await more())) return undefined;
      const size = parseInt(got.toString("latin1"), 16);
      const from = got.indexOf("\r\n") + 2;
      while (got.length < from + size + 2) if (!(await more())) return undefined;
      body = Buffer.concat([body, got.subarray(from, from + size)]);
      got = got.subarray(from + size + 2);
      if (size === 0) break;
    }
  } else {
    const size = Number(headers["content-length"] ?? 0);
    while (got.length < size) if (!(await more())) return undefined;
    body = got.subarray(0, size);
  }
  return { method, path, headers, body };
}

/**
 * Starts it. `answer(request, n)` is called for the n-th request (from 1) and returns the bytes of the whole answer (string or Buffer),
 * an async iterable of pieces, or `undefined` for no answer at all; the connection is closed after it.
 */
export async function hostile(t, answer) {
  const seen = [];
  const sockets = new Set();
  const server = createServer(async (socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => sockets.delete(socket));
    const request = await receive(socket);
    if (request === undefined) return socket.destroy();
    seen.push(request);
    const said = await answer(request, seen.length, socket);
    if (said === undefined || socket.destroyed) return;
    for await (const piece of typeof said === "string" || Buffer.isBuffer(said) ? [said] : said) {
      if (socket.destroyed) return;
      socket.write(piece);
    }
    socket.end();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address();
  return { url: `http://127.0.0.1:${port}`, port, seen, sockets };
}

/** A port at which nobody listens. */
export async function nobody() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export function head(status, headers = {}) {
  return `HTTP/1.1 ${status} X\r\nConnection: close\r\n${Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("")}\r\n`;
}

export function json(status, value, headers = {}) {
  const body = Buffer.from(typeof value === "string" ? value : JSON.stringify(value));
  return Buffer.concat([
    Buffer.from(head(status, { "Content-Type": "application/json", "Content-Length": body.length, ...headers })),
    body,
  ]);
}

export function refused(status, code, message, headers = {}) {
  return json(status, { error: { code, message } }, headers);
}

/** A chunked answer whose pieces are sent one by one; without `end` it is cut off. */
export async function* chunks(pieces, { type = "application/x-ndjson", end = true, pause = 5 } = {}) {
  yield head(200, { "Content-Type": type, "Transfer-Encoding": "chunked" });
  for (const piece of pieces) {
    const bytes = Buffer.from(piece);
    yield Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")]);
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
  if (end) yield "0\r\n\r\n";
}

export const ID = "sb_0123456789abcdef";
export const SANDBOX = {
  id: ID,
  status: "running",
  image: "python:3.12-slim",
  cpus: 1,
  memory_mb: 512,
  pids_limit: 256,
  network: false,
  read_only_rootfs: true,
  created_at: "2026-01-01T00:00:00.000000Z",
  expires_at: "2026-01-01T00:15:00.000000Z",
  source_snapshot_id: null,
  labels: { a: "b" },
  backend: "docker",
  egress_allowlist: null,
  something_new: 1,
};
export const SNAPSHOT = {
  id: "snap_0123456789abcdef",
  sandbox_id: ID,
  name: null,
  image: "python:3.12-slim",
  size_bytes: 10240,
  created_at: "2026-01-01T00:00:00.000000Z",
};
export const FILE = { name: "f", path: "/workspace/f", type: "file", size: 3, modified_at: "2026-01-01T00:00:00.000000Z" };
export const RESULT = { stdout: "hi\n", stderr: "", exit_code: 0, timed_out: false, truncated: false, duration_ms: 2 };
export const EXIT = { type: "exit", exit_code: 0, timed_out: false, duration_ms: 3 };
export const line = (event) => JSON.stringify(event) + "\n";
