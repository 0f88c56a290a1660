"""Writes the seed corpus of fuzz_guest_init: run it again after a change of the protocol."""

import struct
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "proc")]
import guest  # noqa: E402
import layout  # noqa: E402

OUT = HERE / "corpus/guest_init"


def file_request(path, **fields):
    path = path.encode()
    return layout.pack("g_file", {"max": -1, "path_len": len(path)} | fields) + path


def step(type, channel, length=0, event=7, script=b"\x03" * 8):
    return bytes([type, channel, length, event]) + script


seeds = {
    "args": b"\0" + guest.args_block(["sh", "-c", "true"], {"PATH": ":/bin::/usr/bin", "A": ""}, "/workspace"),
    "args-long-path": b"\0" + guest.args_block(["x" * 70, ""], {"PATH": "/" + "y" * 100 + ":/z"}, ""),
    "args-short": b"\0" + guest.args_block(["a"], {}, "/")[:-1],
    "args-counts": b"\0" + struct.pack("<II", 2**32 - 1, 2**32 - 1) + b"a\0b\0",
    "request": b"\1" + file_request("/workspace/a", size=100),
    "request-range": b"\1" + file_request("/a", range=2, first=5, last=2**63 - 1, size=10, max=3),
    "request-suffix": b"\1" + file_request("/a", range=3, first=2**63 - 1, size=10),
    "request-relative": b"\1" + file_request("a"),
    "channels-exec": b"\2"
    + step(layout.G_EXEC_ARGS, 1, 1)
    + step(layout.G_EXEC, 1, 1)
    + step(layout.G_STDIN, 1, 100)
    + step(layout.G_WINDOW, 1, 1, 7, b"\xff\xff\xff\xff\0\0\0\0")
    + step(layout.G_KILL, 1, 0, 7, b"\1" * 8),
    "channels-held": b"\2"
    + step(layout.G_WRITE, 2, 1, 0)
    + step(layout.G_DATA, 2, 255)
    + step(layout.G_DATA, 2, 255) * 4
    + step(layout.G_DATA_END, 2, 1)
    + step(layout.G_LIST, 3, 0, 1)
    + step(layout.G_CLOSE, 2),
    "channels-remove": b"\2"
    + step(layout.G_REMOVE, 2, 1)
    + step(layout.G_EXPORT, 3, 1)
    + step(layout.G_REMOVE, 2, 1)
    + step(layout.G_CLOSE, 2),
    "channels-held-close": b"\2"
    + step(layout.G_EXEC, 2, 1, 0)
    + step(layout.G_KILL, 2)
    + step(layout.G_IMPORT, 2, 1)
    + step(layout.G_CLOSE, 2),
    "channels-reset": b"\2"
    + step(layout.G_READ, 64, 1)
    + step(layout.G_DATA, 64, 1, 2)
    + step(layout.G_READ, 65, 1)
    + step(layout.G_READ, 0, 1),
    "channels-breach": b"\2" + step(layout.G_WRITE, 2, 1) + step(layout.G_DATA, 2, 255, 7, b"\2" * 8) * 5,
    "frames": b"\3" + layout.frame(layout.G_LIST, 1, b"abc") + b"ASf1junk" + layout.frame(layout.G_CLOSE, 2) + bytes(20),
    "name": b"\4./a//b/./c",
    "name-up": b"\4a/../../b",
    "name-link": b"\4/workspace/../etc",
    "cgroup": b"\5low 0\noom 1\noom_kill 12\noom_group_kill 0\n",
    "stat": b"\0051 ((a) b) S 77 1 1",
    "text": b"\6plain \xc3\xa9 \xff \xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x98 \n",
}

OUT.mkdir(parents=True, exist_ok=True)
for name, data in seeds.items():
    (OUT / name).write_bytes(data)


# Clients that want out.

DIAL = HERE / "corpus/guest_dial"
PROXY = HERE / "corpus/guest_proxy"
HTTP, SOCKS, DIRECT, WRITE, SHUT, READ, LEAVE = range(7)
VERDICT, DATA, DATA_END, WINDOW, CLOSE = range(7, 12)
LATE = 15
GET = b"GET http://a.example/x HTTP/1.1\r\nHost: a.example\r\nProxy-A: 1\r\nConnection: b\r\nB: 2\r\n\r\n"
CONNECT = b"CONNECT a.example:443 HTTP/1.1\r\n\r\nearly"
GREETING, ASK = b"\5\1\0", b"\5\1\0\3\1a\1\xbb"
OK, NO = bytes(8), b"\1" + bytes(7) + b"not in the allowlist"


def act(kind, data=b"", client=0):
    return bytes([kind * 3 + client, len(data)]) + data


def window(n):
    return struct.pack("<II", n, 0)


ends = act(DATA_END) + act(SHUT) + act(READ) + act(CLOSE) + act(READ)
stories = {
    "http": act(HTTP) + act(WRITE, GET) + act(VERDICT, OK) + act(DATA, b"HTTP/1.1 200 OK\r\n\r\n") + ends,
    "http-refused": act(HTTP) + act(WRITE, GET) + act(VERDICT, NO) + act(CLOSE) + act(READ) + act(LEAVE),
    "http-bad": act(HTTP) + act(WRITE, b"GET / HTTP/1.1\r\n\r\n") + act(SHUT) + act(READ),
    "http-late": act(HTTP) + act(WRITE, b"GET ") + act(LATE) + act(READ) + act(LATE),
    "connect": act(HTTP) + act(WRITE, CONNECT) + act(VERDICT, OK) + act(WRITE, b"more") + act(WINDOW, window(5)) + ends,
    "socks": act(SOCKS) + act(WRITE, GREETING) + act(WRITE, ASK) + act(VERDICT, OK) + act(READ) + act(WRITE, b"x") + ends,
    "socks-failed": act(SOCKS)
    + act(WRITE, GREETING + ASK)
    + act(VERDICT, b"\2" + bytes(7) + b"connection refused")
    + act(CLOSE)
    + act(READ),
    "direct": act(DIRECT) + act(WRITE, b"x" * 200) * 3 + act(SHUT) + act(VERDICT, OK) + act(DATA, b"y" * 200) * 4 + act(READ) * 4 + ends,
    "direct-abort": act(DIRECT) + act(VERDICT, OK) + act(DATA, b"y" * 200) * 3 + act(CLOSE) + act(READ),
    "direct-left": act(DIRECT) + act(LEAVE) + act(VERDICT, OK) + act(DATA, b"y") + act(CLOSE),
    "three": b"".join(act(k, client=k) for k in range(3))
    + act(WRITE, GET)
    + act(WRITE, GREETING, 1)
    + act(VERDICT, OK, 2)
    + act(LATE, client=1),
}
for folder, things in (
    (DIAL, stories),
    (
        PROXY,
        {
            "get": b"\0" + GET,
            "connect": b"\0" + CONNECT,
            "post": b"\0POST http://[::1]:8080?q HTTP/1.0\nTE: a\nConnection: host, te , keep-alive\nContent-Length: 1\n\nx",
            "socks-name": b"\1" + GREETING + ASK,
            "socks-v6": b"\1\5\2\0\2\5\1\0\4" + bytes(16) + b"\1\xbb",
            "hosts": b"\x02127.0.0.1 localhost\n127.64.0.1 a b # c\n127.64.1.255\td\n#x\n::1 e",
        },
    ),
):
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in things.items():
        (folder / name).write_bytes(data)
