"""HTTP for measuring: one kept connection, requests made before the clock starts, answers parsed no more than needed;
and raw calls of the engine, which are the limit of what goes through it."""

import json
import re
import selectors
import socket
import time

BLOCK = 1 << 20


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p / 100))]


class Http:
    """One connection to the server. Answers with a length; streams are read by the caller."""

    def __init__(self, port, key):
        self.port, self.key = port, key
        self.sock = None

    def connect(self):
        self.sock = socket.create_connection(("127.0.0.1", self.port), 600)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def head(self, method, path, length=None, more=""):
        size = "" if length is None else f"Content-Length: {length}\r\n"
        return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {self.key}\r\n{size}{more}\r\n".encode()

    def request(self, method, path, body=None):
        if body is None:
            return self.head(method, path)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.head(method, path, len(data)) + data

    def send(self, data):
        if self.sock is None:
            self.connect()
        self.sock.sendall(data)

    def receive_head(self):
        """(status, length or None, what of the body came with it)"""
        got = b""
        while b"\r\n\r\n" not in got:
            piece = self.sock.recv(65536)
            if not piece:
                raise ConnectionError("the server closed the connection")
            got += piece
        head, rest = got.split(b"\r\n\r\n", 1)
        length = re.search(rb"\r\nContent-Length: *(\d+)", head, re.I)
        return int(head[9:12]), int(length[1]) if length else None, rest

    def receive(self):
        status, length, body = self.receive_head()
        while length is not None and len(body) < length:
            piece = self.sock.recv(BLOCK)
            if not piece:
                raise ConnectionError("an answer was cut off")
            body += piece
        return status, body

    def ask(self, method, path, body=None, expect=(200, 201, 204)):
        """The decoded answer; anything but success ends the measurement."""
        self.send(self.request(method, path, body))
        status, got = self.receive()
        if status not in expect:
            raise RuntimeError(f"{method} {path}: {status} {got[:300]!r}")
        return json.loads(got) if got else None

    def timed(self, data, expect=200):
        """Seconds from the first byte sent to the last one received."""
        began = time.perf_counter()
        self.send(data)
        status, got = self.receive()
        took = time.perf_counter() - began
        if status != expect:
            raise RuntimeError(f"{data[:80]!r}: {status} {got[:300]!r}")
        return took

    def close(self):
        if self.sock:
            self.sock.close()
        self.sock = None


def many(port, requests):
    """All requests at once, each on a connection of its own that is already open: (seconds each, statuses)."""
    chooser, took, statuses = selectors.DefaultSelector(), [], []
    socks = []
    for data in requests:
        s = socket.create_connection(("127.0.0.1", port), 60)
        socks.append((s, data, bytearray()))
    for s, data, got in socks:
        chooser.register(s, selectors.EVENT_READ, [s, got, time.perf_counter()])
        s.sendall(data)
    while len(took) < len(socks):
        for key, _ in chooser.select(60) or exit("no answer for 60 s"):
            s, got, began = key.data
            piece = s.recv(65536)
            got += piece
            length = re.search(rb"\r\nContent-Length: *(\d+)", got, re.I)
            end = got.find(b"\r\n\r\n")
            if not piece or (end >= 0 and length and len(got) >= end + 4 + int(length[1])):
                took.append(time.perf_counter() - began)
                statuses.append(int(got[9:12] or b"0"))
                chooser.unregister(s)
                s.close()
    return took, statuses


class Raw:
    """The engine without us: containers of exactly the shape of a given one of ours."""

    def __init__(self, engine, like):
        self.engine, self.number = engine, 0
        seen = engine.call("GET", f"/containers/{like}/json")
        keep = ("Image", "User", "Hostname", "WorkingDir", "Entrypoint", "Cmd", "Healthcheck", "OpenStdin", "StdinOnce", "Tty")
        self.config = {k: seen["Config"][k] for k in keep if k in seen["Config"]}
        self.host = {k: v for k, v in seen["HostConfig"].items() if v not in (None, "", [], {}, 0, False)}
        self.prefix = "/v1.41"

    def ask(self, http, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else b""
        head = f"{method} {self.prefix}{path} HTTP/1.1\r\nHost: engine\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        http.sock.sendall(head.encode() + data)
        status, got = http.receive()
        if status >= 400:
            raise RuntimeError(f"{method} {path}: {status} {got[:300]!r}")
        return json.loads(got) if got else None

    def open(self):
        h = Http(0, "")
        h.sock = socket.socket(socket.AF_UNIX)
        h.sock.connect(str(self.engine.sock))
        return h

    def start(self, entrypoint=None):
        """volume, create, attach, start: (name, attached socket, seconds)"""
        self.number += 1
        name = f"bench-raw-{self.number}"
        body = self.config | ({"Entrypoint": entrypoint, "Cmd": []} if entrypoint else {})
        body |= {"HostConfig": self.host | {"Mounts": [{"Type": "volume", "Source": name, "Target": "/workspace"}]}}
        control, stream = self.open(), self.open()
        began = time.perf_counter()
        self.ask(control, "POST", "/volumes/create", {"Name": name})
        made = self.ask(control, "POST", f"/containers/create?name={name}", body)["Id"]
        stream.sock.sendall(
            f"POST {self.prefix}/containers/{made}/attach?stream=1&stdin=1&stdout=1 HTTP/1.1\r\nHost: engine\r\n"
            "Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n".encode()
        )
        stream.receive_head()
        self.ask(control, "POST", f"/containers/{made}/start")
        took = time.perf_counter() - began
        control.close()
        return name, stream.sock, took

    def remove(self, name):
        self.engine.call("DELETE", f"/containers/{name}?force=1&v=1")
        self.engine.call("DELETE", f"/volumes/{name}")

    def read(self, sock, size):
        """So many bytes of an attach stream (its 8-byte frame heads come on top and are not counted): seconds."""
        buffer, left = bytearray(BLOCK), size
        began = time.perf_counter()
        while left > 0:
            n = sock.recv_into(buffer)
            if n == 0:
                raise ConnectionError("the attach ended early")
            left -= n
        return time.perf_counter() - began
