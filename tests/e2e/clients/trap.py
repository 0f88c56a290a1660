"""An HTTP server that misbehaves by script, and remembers what it was sent."""

import contextlib
import json
import os
import re
import socket
import ssl
import struct
import threading
import time
from dataclasses import dataclass

SANDBOX_ID, SNAPSHOT_ID = "sb_0123456789abcdef", "snap_0123456789abcdef"
SANDBOX = {
    "id": SANDBOX_ID, "status": "running", "image": "python:3.12-slim", "cpus": 1.0, "memory_mb": 512, "pids_limit": 256, "network": False,
    "read_only_rootfs": True, "created_at": "2026-11-29T10:00:00.000000Z", "expires_at": "2026-11-29T10:15:00.000000Z",
    "source_snapshot_id": None, "labels": {}, "backend": "docker", "egress_allowlist": None, "tenant": None,
}  # fmt: skip
SNAPSHOT = {
    "id": SNAPSHOT_ID, "sandbox_id": SANDBOX_ID, "name": None, "image": "python:3.12-slim", "size_bytes": 10240,
    "created_at": "2026-11-29T10:00:00.000000Z", "parent_snapshot_id": None, "stored_bytes": 300, "sha256": "0" * 64,
}  # fmt: skip
RESULT = {"stdout": "", "stderr": "", "exit_code": 0, "timed_out": False, "truncated": False, "duration_ms": 1}


def reply(status=200, body=b"", kind="application/json", length=None, **headers):
    """The bytes of an answer. length: what Content-Length says, if not the truth."""
    if not isinstance(body, bytes):
        body = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    head = [f"HTTP/1.1 {status} Whatever", f"Content-Type: {kind}", f"Content-Length: {len(body) if length is None else length}"]
    head += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*head, "Connection: close", "", ""]).encode() + body


def refusal(status, code, message="no", **headers):
    return reply(status, {"error": {"code": code, "message": message}}, **headers)


def stream(*lines, whole=True):
    """An answer with these lines (objects, or bytes as they are) in chunks; not whole: the connection ends in the middle."""
    out = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    for line in lines:
        data = line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"
        out += b"%x\r\n%b\r\n" % (len(data), data)
    return out + (b"0\r\n\r\n" if whole else b"")


def nothing():
    """The connection ends without an answer."""
    return b""


def silence(seconds=30):
    return seconds


def reset(data=b""):
    """These bytes and a reset."""
    return ("reset", data)


def late(seconds, data):
    """These bytes after some time."""
    return ("late", data, seconds)


def out(data):
    return {"type": "stdout", "data": data}


END = {"type": "exit", "exit_code": 0, "timed_out": False, "duration_ms": 1}


@dataclass
class Seen:
    method: str
    path: str
    headers: dict
    body: bytes

    def __str__(self):
        return f"{self.method} {self.path}"


class Trap:
    """on("POST /v1/sandboxes$", first, second): the answers to requests that match, one after the other; the last one stays."""

    def __init__(self, tls=None, port=0):
        self.tls, self.seen, self._scripts = tls, [], []
        self.early = False  # answers come before bodies are read
        self._lock, self._open, self._ended = threading.Lock(), set(), threading.Event()
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = self._listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self.forget()
        threading.Thread(target=self._accept, daemon=True).start()

    def forget(self):
        """As new."""
        with self._lock:
            self.seen, self._scripts = [], []
        return self.on(f"GET /v1/sandboxes/{SANDBOX_ID}(\\?|$)", reply(200, SANDBOX))

    def on(self, pattern, *answers):
        self._scripts.insert(0, (re.compile(pattern), list(answers)))
        return self

    def requests(self, pattern):
        with self._lock:
            return [s for s in self.seen if re.match(pattern, str(s))]

    def _accept(self):
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with self._lock:
            self._open.add(client)
        try:
            client.settimeout(60)
            if self.tls:
                client = self.tls.wrap_socket(client, server_side=True, do_handshake_on_connect=False)
                self._handshake(client)
            with client, client.makefile("rb") as f:
                seen = self._read(f)
                if seen is not None:
                    self._answer(client, seen)
        except (OSError, ssl.SSLError, ValueError):
            pass
        finally:
            with self._lock:
                self._open.discard(client)

    def _handshake(self, client):
        """An alert that says why is not overtaken by the end of the connection: what came after it is read away first."""
        try:
            client.do_handshake()
        except ssl.SSLError:
            with client, socket.socket(fileno=os.dup(client.fileno())) as raw:
                raw.settimeout(10)
                while raw.recv(1 << 16):
                    pass
            raise

    def _read(self, f):
        if f.peek(1)[:1] == b"\x16":
            return None  # somebody begins with TLS
        line = f.readline(65536).decode("latin-1").split()
        if len(line) != 3:
            return None
        headers = {}
        while (h := f.readline(65536).decode("latin-1").strip()) != "":
            name, _, value = h.partition(":")
            headers[name.strip().lower()] = value.strip()
        body = b""
        if self.early:
            pass
        elif "content-length" in headers:
            body = f.read(int(headers["content-length"]))
            if len(body) < int(headers["content-length"]):
                return None
        elif headers.get("transfer-encoding") == "chunked":
            while (size := int(f.readline().split(b";")[0], 16)) > 0:
                body += f.read(size)
                f.readline()
            f.readline()
        return Seen(line[0], line[1], headers, body)

    def _drain(self, client):
        """As servers close who have not read all: an end with bytes unread would take the answer with it."""
        client.shutdown(socket.SHUT_WR)
        client.settimeout(10)
        while client.recv(1 << 16):
            pass

    def _answer(self, client, seen):
        with self._lock:
            self.seen.append(seen)
            found = next((answers for pattern, answers in self._scripts if pattern.match(str(seen))), None)
            answer = reply(500, "no script") if found is None else found.pop(0) if len(found) > 1 else found[0]
        if isinstance(answer, tuple) and answer[0] == "late":
            time.sleep(answer[2])
            client.sendall(answer[1])
        elif isinstance(answer, tuple):
            client.sendall(answer[1])
            time.sleep(0.1)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif isinstance(answer, bytes):
            client.sendall(answer)
            if self.early:
                self._drain(client)
        elif callable(answer):
            answer(client, seen, self._ended)
        else:
            self._ended.wait(answer)

    def close(self):
        self._ended.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for s in self._open:
                with contextlib.suppress(OSError):
                    s.shutdown(socket.SHUT_RDWR)
