"""apid under test: a real one, with a thread in the place of managerd and sessiond that can be told what to answer."""

import hashlib
import json
import os
import re
import socket
import struct
import threading
import time

import layout
import requests
from machine import descriptors, kib

SANITIZED = "san-" in str(layout.BUILD)  # then memory says nothing about the program
KEY = "test-key-0123456789"
AUTH = f"Authorization: Bearer {KEY}\r\n".encode()
SB, SNAP = 0x0123456789ABCDEF, 0x1123456789ABCDEF
BOX = f"sb_{SB:016x}"
SNAPSHOT = f"snap_{SNAP:016x}"
BOX_URL = "/v1/sandboxes/" + BOX
NOW = 1_790_000_000_123_456
SANDBOX = {
    "id": SB,
    "created_us": NOW,
    "expires_us": NOW + 900_000_000,
    "nano_cpus": 1_500_000_000,
    "memory_mb": 512,
    "pids_limit": 256,
    "status": 0,
    "network": 0,
    "read_only": 1,
    "labels_len": 9,
}
SANDBOX_TAIL = b"python:3.12-slim\0team\0red\0"


class Session(requests.Session):
    def __init__(self):
        super().__init__()
        self.trust_env = False


class Server:
    """`on[NAME] = f(server, message)` replaces the answer to a message; `seen` has all that came."""

    scheme = "http"

    def __init__(self, **config):
        listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port = listener.getsockname()[1]
        self.url = f"{self.scheme}://127.0.0.1:{self.port}"
        self.program = self.launch(listener, {"PORT": self.port, "ALLOWED_HOSTS": "a"} | config)
        listener.close()
        self.chan, self.seen, self.on, self.files, self.errors = self.program.peers[0], [], {}, {}, []
        self.digest = hashlib.sha256(KEY.encode()).digest()
        self.lock, self.threads, self.stopping = threading.Lock(), [], False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def launch(self, listener, config):
        return layout.Program("apid", ["chan", listener, "chan"], config=config)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stop()

    def stop(self):
        self.stopping = True
        alive = self.program.alive()
        self.program.stop()
        self.thread.join(30)
        log = self.program.log()
        assert not self.errors, self.errors
        assert alive or self.program.status == 0, f"apid died: {self.program.status}\n{log}"
        assert "ERROR: " not in log and "runtime error" not in log, log

    def run(self):
        while True:
            try:
                m = self.chan.recv(timeout=3600)
            except (layout.Gone, OSError):
                return
            self.seen.append(m)
            try:
                self.handle(m)
            except (BrokenPipeError, ConnectionResetError) as exc:
                if not self.stopping:  # else apid has gone meanwhile, as it should
                    self.errors.append(repr(exc))
            except Exception as exc:  # noqa: BLE001 - shown by stop()
                self.errors.append(repr(exc))

    def send(self, *args, **kw):
        with self.lock:
            self.chan.send(*args, **kw)

    def reply(self, m, status, text="", retry_after=0):
        self.send("REPLY", m.id, {"status": status, "retry_after": retry_after}, text)

    def handle(self, m):
        ask = m.fields.get("ask")
        if ask is not None and not m.fields.get("open") and (not ask["has_key"] or ask["key"] != self.digest):
            if m.fd is not None:
                os.close(m.fd)
            self.reply(m, 401, "a valid API key is required")
        elif m.name in self.on:
            self.on[m.name](self, m)
        else:
            getattr(self, "do_" + m.name.lower())(m)

    def do_auth(self, m):
        self.reply(m, 200)

    def do_ask_health(self, m):
        self.send("HEALTH", m.id, {"engine_up": 1})

    def metric(self, m, name, *values, item=0, text=""):
        data = struct.pack(f"={layout.METRIC_VALUES}q", *values, *[0] * (layout.METRIC_VALUES - len(values)))
        self.send("METRIC", m.id, {"metric": layout.CONST["METRIC_" + name], "item": item, "value": data}, text)

    def do_metrics(self, m):
        self.metric(m, "sandboxes", 0, 2, text="default")
        self.metric(m, "engine_up", 1)
        self.reply(m, 200)

    def sandbox(self, m, **changed):
        self.send("SANDBOX", m.id, SANDBOX | changed, SANDBOX_TAIL)

    def do_get(self, m):
        if m.fields["id"] == SB:
            self.sandbox(m)
        else:
            self.reply(m, 404, f"sandbox sb_{m.fields['id']:016x} not found")

    def do_create(self, m):
        records = layout.Records(socket.socket(fileno=m.fd))
        self.created = [records.recv()]
        while self.created[-1][0] != layout.RECORD_DONE:
            self.created.append(records.recv())
        records.close()
        self.sandbox(m)

    def do_fork(self, m):
        self.sandbox(m, source_snapshot=SNAP)

    def do_rollback(self, m):
        self.sandbox(m, source_snapshot=m.fields["snapshot"])

    def do_set_timeout(self, m):
        self.sandbox(m)

    def do_destroy(self, m):
        self.reply(m, 204)

    def do_list(self, m):
        self.sandbox(m)
        self.send("PAGE_END", m.id, {"more": 0})

    def snapshot(self, m, **changed):
        fields = {"id": SNAP, "sandbox": SB, "created_us": NOW, "size_bytes": 10240, "stored_bytes": 200, "has_name": 1}
        self.send("SNAPSHOT", m.id, fields | changed, b"python:3.12-slim\0first")

    def do_snapshots(self, m):
        if m.fields["sandbox"] in (0, SB):
            self.snapshot(m)
        self.send("PAGE_END", m.id, {"more": 0})

    def do_snapshot_get(self, m):
        self.snapshot(m)

    def do_snapshot_make(self, m):
        self.send("SNAPSHOT", m.id, {"id": SNAP, "sandbox": SB, "created_us": NOW, "has_name": m.fields["has_name"]}, b"img\0" + m.tail)

    def do_snapshot_delete(self, m):
        self.reply(m, 204)

    def spawn(self, m, work, accept=True):
        """Runs work(records) in a thread, as a session would, after managerd's word."""
        records = layout.Records(socket.socket(fileno=m.fd))
        if accept:
            self.reply(m, 200)

        def body():
            try:
                work(records)
            except (layout.Gone, BrokenPipeError, ConnectionResetError):
                pass
            finally:
                records.close()

        t = threading.Thread(target=body, daemon=True)
        self.threads.append(t)
        t.start()

    def do_exec(self, m):
        self.spawn(m, lambda r: self.command(m, r))

    def command(self, m, r):
        """A toy: argv[0] says what to do; see COMMANDS."""
        type, data = r.recv()
        assert type == layout.RECORD_ARGS and len(data) == m.fields["job"]["args_len"]
        assert hashlib.sha256(data).digest() == m.fields["job"]["args_sha256"]
        argc, envc = struct.unpack_from("<II", data)
        strings = data[8:].split(b"\0")
        argv, env, workdir = strings[:argc], strings[argc : argc + envc], strings[argc + envc]
        self.command_line = argv, env, workdir
        r.send(layout.RECORD_STARTED)
        stdin = b""
        if m.fields["job"]["stdin_follows"] and argv[0] != b"ignore-stdin":
            while (part := r.recv(30))[0] == layout.RECORD_STDIN:
                stdin += part[1]
            assert part[0] == layout.RECORD_STDIN_END
        self.stdin = stdin
        words = argv[2].split(b" ") if argv[0] == b"/bin/sh" else argv
        code = 0
        if words[0] == b"echo":
            r.send(layout.RECORD_STDOUT, b" ".join(words[1:]) + b"\n")
        elif words[0] == b"cat":
            for i in range(0, len(stdin), 65536):
                r.send(layout.RECORD_STDOUT, stdin[i : i + 65536])
        elif words[0] == b"hex":  # each word is one record: o or e, then its bytes
            for w in words[1:]:
                r.send(layout.RECORD_STDOUT if w[:1] == b"o" else layout.RECORD_STDERR, bytes.fromhex(w[1:].decode()))
        elif words[0] == b"many":
            for _ in range(int(words[1])):
                r.send(layout.RECORD_STDOUT, b"x" * 65536)
        elif words[0] == b"error":
            r.send(layout.RECORD_ERROR, layout.pack("r_error", {"status": int(words[1])}) + b"said no")
            return
        elif words[0] == b"vanish":
            return
        elif words[0] == b"exit":
            code = int(words[1])
        elif words[0] == b"wait":
            self.waiting = True
            try:
                r.recv(30)
            except layout.Gone:
                self.left = time.monotonic()
                raise
        end = {"exit_code": code, "duration_us": 1234567, "cpu_us": 5000, "peak_memory_bytes": -1}
        r.send(layout.RECORD_EXIT, layout.pack("r_exit", end))

    def do_file_read(self, m):
        def work(r):
            data = self.files.get(m.tail.decode())
            if data is None:
                r.send(layout.RECORD_ERROR, layout.pack("r_error", {"status": 404}) + b"no such file")
                return
            job, size = m.fields["job"], len(data)
            first, last = 0, size - 1
            if job["range"] == layout.RANGE_FROM:
                first = job["first"]
            elif job["range"] == layout.RANGE_BETWEEN:
                first, last = job["first"], min(job["last"], size - 1)
            elif job["range"] == layout.RANGE_SUFFIX:
                first = max(0, size - job["first"])
            if first > last and job["range"]:
                r.send(layout.RECORD_ERROR, layout.pack("r_error", {"status": 416, "size": size}) + b"out of range")
                return
            part = data[first : last + 1]
            r.send(layout.RECORD_META, layout.pack("r_meta", {"size": size, "first": first, "length": len(part), "mtime_ns": NOW * 1000}))
            for i in range(0, 0 if job["head_only"] else len(part), 65536):
                r.send(layout.RECORD_DATA, part[i : i + 65536])
            r.send(layout.RECORD_DONE, layout.pack("r_done", {"bytes": len(part)}))

        self.spawn(m, work)

    def receive(self, r):
        data = []
        while (part := r.recv(30))[0] == layout.RECORD_DATA:
            data.append(part[1])
        assert part[0] == layout.RECORD_DONE
        assert layout.unpack("r_done", part[1])["bytes"] == sum(map(len, data))
        return b"".join(data)

    def do_file_write(self, m):
        def work(r):
            data = self.files[m.tail.decode()] = self.receive(r)
            r.send(layout.RECORD_META, layout.pack("r_meta", {"size": len(data), "length": len(data), "mtime_ns": NOW * 1000}))
            r.send(layout.RECORD_DONE, layout.pack("r_done", {"bytes": len(data)}))

        self.spawn(m, work)

    def do_file_list(self, m):
        def work(r):
            for name in getattr(self, "names", [b"a", b".b"]):
                r.send(layout.RECORD_ENTRY, layout.pack("r_entry", {"size": 3, "mtime_ns": NOW * 1000}) + name)
            r.send(layout.RECORD_DONE, layout.pack("r_done"))

        self.spawn(m, work)

    def do_archive_get(self, m):
        def work(r):
            r.send(layout.RECORD_STARTED)
            r.send(layout.RECORD_DATA, b"tar" * 1000)
            r.send(layout.RECORD_DONE, layout.pack("r_done", {"bytes": 3000}))

        self.spawn(m, work)

    def do_archive_put(self, m):
        def work(r):
            data = self.files["tar:" + m.tail.decode()] = self.receive(r)
            r.send(layout.RECORD_DONE, layout.pack("r_done", {"bytes": len(data)}))

        self.spawn(m, work)

    # the client's side

    def session(self):
        return Session()

    def __call__(self, method, path, key=KEY, headers=None, **kw):
        session = self.session()
        head = ({"Authorization": "Bearer " + key} if key else {}) | (headers or {})
        try:
            return session.request(method, self.url + path, headers=head, timeout=kw.pop("timeout", 30), **kw)
        finally:
            if not kw.get("stream"):
                session.close()

    def connect(self, timeout=30):
        s = socket.create_connection(("127.0.0.1", self.port), timeout)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def plain(self, timeout=30):
        """A connection on which nothing is said yet, not even a handshake."""
        return Server.connect(self, timeout)

    def raw(self, data, wait=0.6, half_close=False, parts=None, answers=1):
        """Sends bytes; returns (all that came, "closed", "reset" or "open"). So many answers, and an end that was announced, are
        waited for however long they take; what else may come has `wait` seconds."""
        with self.connect() as s:
            out = b""
            try:
                for part in parts or [data]:
                    s.sendall(part)
                    if parts:
                        time.sleep(0.03)
                if half_close:
                    s.shutdown(socket.SHUT_WR)
                while True:
                    announced = half_close or b"\r\nConnection: close\r\n" in out
                    s.settimeout(30 if announced or len(statuses(out)) < answers else wait)
                    if not (got := s.recv(65536)):
                        return out, "closed"
                    out += got
            except TimeoutError:
                return out, "open"
            except (ConnectionResetError, BrokenPipeError):
                return out, "reset"

    def rss(self):
        """KiB; always the same in a build with sanitizers."""
        if SANITIZED:
            return 0
        return kib(self.program.pid, "VmRSS")

    def fds(self):
        return len(descriptors(self.program.pid))


def head(method, path, *lines, key=True, host=b"a"):
    text = f"{method} {path} HTTP/1.1\r\n".encode() + b"Host: " + host + b"\r\n" + (AUTH if key else b"")
    return text + b"".join((line if isinstance(line, bytes) else line.encode()) + b"\r\n" for line in lines) + b"\r\n"


def post(path, body, *lines):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return head("POST", path, f"Content-Length: {len(body)}", "Content-Type: application/json", *lines) + body


def statuses(data):
    return [int(s) for s in re.findall(rb"HTTP/1\.\d (\d{3}) ", data)]


def error(resp, status):
    codes = {400: "invalid_request", 401: "unauthorized", 403: "forbidden", 404: "not_found", 405: "method_not_allowed", 409: "conflict"}
    codes |= {413: "payload_too_large", 415: "unsupported_media_type", 416: "range_not_satisfiable", 422: "validation_error"}
    codes |= {429: "limit_exceeded", 500: "internal_error", 502: "backend_error", 503: "unavailable", 507: "insufficient_storage"}
    assert resp.status_code == status, f"{resp.status_code} {resp.text[:300]}"
    body = resp.json()
    assert set(body) == {"error"} and set(body["error"]) == {"code", "message"} and body["error"]["code"] == codes[status]
    assert body["error"]["message"]
    return body["error"]["message"]
