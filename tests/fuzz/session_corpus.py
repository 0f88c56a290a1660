#!/usr/bin/env python3
"""Writes the seeds of the session's fuzz targets into tests/fuzz/corpus/."""

import struct
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "proc")]

import layout as L  # noqa: E402
from session_kit import args_record, end, entry, exited, meta, stdcopy  # noqa: E402

EXEC, KEPT, READ, WRITE, LIST, GET, PUT, SNAPSHOT, RESTORE, REMOVE = 56, 55, 64, 63, 62, 61, 60, 59, 58, 57


def window(n):
    return struct.pack("<II", n, 0)


STORIES = {
    "exec": [(L.G_STARTED, EXEC, b""), (L.G_STDOUT, EXEC, b"hi\n"), (L.G_STDERR, EXEC, b"oops"), (L.G_EXIT, EXEC, exited(3))],
    "kept": [(L.G_STARTED, KEPT, b""), (L.G_EXIT, KEPT, exited(137, timed_out=1, signal=9))],
    "refused": [(L.G_END, EXEC, end(400, 0, b"no such directory")), (L.G_END, READ, end(416, 5, b"range"))],
    "read": [(L.G_META, READ, meta(5)), (L.G_DATA, READ, b"12345"), (L.G_END, READ, end(200, 5))],
    "shrunk": [(L.G_META, READ, meta(9)), (L.G_DATA, READ, b"12345"), (L.G_END, READ, end(200, 5))],
    "write": [(L.G_STARTED, WRITE, b""), (L.G_WINDOW, WRITE, window(1)), (L.G_END, WRITE, end(507, 0, b"full"))],
    "list": [(L.G_ENTRY, LIST, entry(b"a") + entry(b"bc", type=1)), (L.G_END, LIST, end())],
    "get": [(L.G_STARTED, GET, b""), (L.G_DATA, GET, b"t" * 512), (L.G_END, GET, end(200, 512))],
    "put": [(L.G_STARTED, PUT, b""), (L.G_END, PUT, end(409, 0, b"called off"))],
    "remove": [(L.G_END, REMOVE, end(409, 0, b"it was changed")), (L.G_END, REMOVE, end())],
    "missing": [(L.G_STARTED, EXEC, b""), (L.G_END, EXEC, end(400, 0, b"no such program: x"))],
    "snapshot": [(L.G_STARTED, SNAPSHOT, b""), (L.G_DATA, SNAPSHOT, b"t" * 512), (L.G_END, SNAPSHOT, end(200, 512))],
    "restore": [(L.G_STARTED, RESTORE, b""), (L.G_WINDOW, RESTORE, window(65536)), (L.G_END, RESTORE, end(200, 100000))],
    "dial": [
        (L.G_LISTENS, 0, L.pack("g_listens", {"listeners": 2})),
        (L.G_DIAL, 65, L.pack("g_dial", {"port": 443}) + b"a.example"),
        (L.G_DATA, 65, b"hello"),
        (L.G_WINDOW, 65, window(5)),
        (L.G_DATA_END, 65, b""),
        (L.G_CLOSE, 65, b""),
        (L.G_DIAL, 65, L.pack("g_dial", {"port": 1, "how": 3}) + b"again"),
        (L.G_CLOSE, 65, b""),
        (L.G_DIAL, 66, L.pack("g_dial", {"port": 1, "how": 1}) + b"refused"),
        (L.G_CLOSE, 66, b""),
    ],
    "dial-abort": [
        (L.G_DIAL, 70, L.pack("g_dial", {"port": 80, "how": 2}) + b"\xff\0"),
        (L.G_DATA, 70, b"x" * 300),
        (L.G_CLOSE, 70, b""),
    ],
    "stat": [(L.G_STAT, 0, L.pack("g_stat", {"free_bytes": 1, "free_inodes": 2}))],
}


def write(target, name, data):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


for name, frames in STORIES.items():
    short = b"".join(struct.pack("<BBH", t, c, len(d)) + d for t, c, d in frames)
    stream = b"".join(L.frame(t, c, d) for t, c, d in frames)
    write("session_guest", name, b"\2" + short)
    write("session_guest", name + "-raw", b"\0" + stream)
    write("session_guest", name + "-stdcopy", b"\1" + stdcopy(stream[:9]) + stdcopy(b"noise", 2) + stdcopy(stream[9:]))
write("session_guest", "all", b"\2" + b"".join(struct.pack("<BBH", t, c, len(d)) + d for s in STORIES.values() for t, c, d in s))

write("stdcopy", "two", b"\2" + stdcopy(b"hello") + stdcopy(b"error", 2) + stdcopy(b"") + stdcopy(b"world"))
write("stdcopy", "cut", b"\7" + stdcopy(b"hello" * 10)[:-3])
write("stdcopy", "bad", b"\0" + stdcopy(b"x") + b"\3\0\0\0\0\0\0\1x")
write("stdcopy", "huge", b"\0" + b"\1\0\0\0\xff\xff\xff\xffx")

stdin = L.record(L.RECORD_STDIN, b"some input") + L.record(L.RECORD_STDIN, b"") + L.record(L.RECORD_STDIN_END)
upload = L.record(L.RECORD_DATA, b"bytes of a file") + L.record(L.RECORD_DONE, struct.pack("<q", 15))
write("data_records", "stdin", b"\0\x05" + stdin)
write("data_records", "stdin-kept-cut", b"\1\xff" + stdin[:-7])
write("data_records", "write", b"\2\x10" + upload)
write("data_records", "write-short", b"\2\x10" + upload[:-1] + b"\1")
write("data_records", "put", b"\3\x00" + upload)
write("data_records", "huge", b"\3\xff" + struct.pack("<IB", 0xFFFFFFFF, L.RECORD_DATA))
write("data_records", "other", b"\2\xff" + L.record(L.RECORD_ENV, b"A=1"))

env = b"A=1\0HOME=/root\0"
write("session_args", "plain", bytes([len(env)]) + env + args_record([b"sh", b"-c", b"true"], [b"A=2", b"B=3"]))
write("session_args", "no-env", b"\0" + args_record([b"true"]))
write("session_args", "cut", b"\0" + args_record([b"true"])[:-1])
write("session_args", "counts", b"\0" + struct.pack("<II", 0xFFFFFFFF, 0xFFFFFFFF) + b"a\0")
