#!/usr/bin/python3 -IS
"""Stands in for any program that agent-sandboxd starts: does the start handshake, then what the files beside it say.

Copied as apid, managerd, dockerd-proxy, egressd, keyd or sessiond into one folder with agent-sandboxd. NAME.do there holds words:
"exit=N" ends before it is ready, "hang" is never ready, "partial", "deaf" ignores SIGTERM. NAME.seen gets one JSON line
per start: argv, environment, descriptors, setup, configuration. managerd also obeys lines added to managerd.cmd:
"session N", "kill N", "syslog", and once "garbage", "twice N", "flood N" (asks for so many sessions and reads no answer). What each is told
after its start stands in NAME.told. keyd and apid take keys and certificates, unless their words, looked at each time, are
"bad=INDEX" or "mute"; "twice" answers once more. "silent": does not answer when it is asked whether it lives. apid, once: "flood=N" asks
so often for figures, and reads none. All but managerd, once: "leave=N" ends with this status when it is asked for its state.
"""

import json
import os
import select
import signal
import socket
import struct
import sys

SETUP, CONFIG, START, READY, PING, PONG, STATE = 0x100, 0x101, 0x102, 0x103, 0x104, 0x105, 0x106
KEYFILE, FORGET, KEYED, AUDIT, CERT, CLIENT_CA, TLS, TLS_DONE = 0x1D0, 0x1D1, 0x1D2, 0x1D3, 0x1E0, 0x1E1, 0x1E2, 0x1E3
SESSION_START, SESSION_KILL, SESSION, SESSION_OVER, PARTIAL, SYSLOG_ASK = 0x180, 0x181, 0x182, 0x183, 0x184, 0x188
ASK_FIGURES = 0x1E5
HEADER = struct.Struct("=IIQ")

base, name = os.path.dirname(os.path.abspath(sys.argv[0])), os.path.basename(sys.argv[0])
fds = {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in map(int, os.listdir("/proc/self/fd")) if os.path.exists(f"/proc/self/fd/{fd}")}
parent = socket.socket(fileno=3)
parent.setblocking(True)


def send(kind, body, ident=0):
    parent.send(HEADER.pack(kind, HEADER.size + len(body), ident) + body)


def receive():
    data, received, _, _ = socket.recv_fds(parent, 65536, 1)
    if not data:
        os._exit(0)
    kind, length, ident = HEADER.unpack_from(data)
    assert length == len(data)
    if kind == PING:
        if "silent" not in words():
            send(PONG, bytes(8), ident)
        return receive()
    return kind, ident, data[HEADER.size :], received


def words():
    try:
        with open(f"{base}/{name}.do") as f:
            return f.read().split()
    except OSError:
        return []


def note(suffix, value):
    fd = os.open(f"{base}/{name}.{suffix}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(fd, (json.dumps(value) + "\n").encode())
    os.close(fd)


def handshake():
    setup, config = None, {}
    while True:
        kind, _, body, _ = receive()
        if kind == SETUP:
            uid, gid, extra, root, weaker, partial, unfiltered, level, instance = struct.unpack_from("=IIIBBBBIB", body)
            setup = {"uid": uid, "gid": gid, "extra_gid": extra, "as_root": root, "allow_weaker": weaker}
            setup |= {"partial": partial, "unfiltered": unfiltered, "log_level": level, "instance": instance, "path": body[24:].decode()}
        elif kind == CONFIG:
            key, num = struct.unpack_from("=I4xq", body)
            config[key] = [num, body[16:].decode()]
        elif kind == START:
            return setup, config


def breach(verb, n):
    if verb == "garbage":
        parent.send(b"garbage")
    for i in (n, n) if verb == "twice" else range(1, n + 1):
        send(SESSION_START, struct.pack("=Q", i), i)


def obey(line, sent):
    verb, _, arg = line.partition(" ")
    if verb == "session":
        send(SESSION_START, struct.pack("=Q", int(arg)), int(arg))
    elif verb == "syslog":
        send(SYSLOG_ASK, bytes(8))
    elif verb == "kill":
        send(SESSION_KILL, struct.pack("=Q", int(arg)), int(arg))
    elif verb in ("garbage", "twice", "flood"):
        os.unlink(f"{base}/managerd.cmd")  # not again after the restart
        breach(verb, int(arg or 0))


def run_managerd():
    done, ends = 0, {}
    while True:
        if select.select([parent], [], [], 0.05)[0]:
            kind, ident, body, received = receive()
            ends[ident] = received
            over = struct.unpack_from("=Qi", body)[1] if kind == SESSION_OVER else None
            note("told", [kind, ident, over, len(received)])
            if kind == SESSION_OVER:
                for fd in ends.pop(ident, []):
                    os.close(fd)
        try:
            with open(f"{base}/managerd.cmd") as f:
                lines = f.read().splitlines()
        except OSError:
            lines = []
        for line in lines[done:]:
            obey(line, done)
        done = len(lines)


def take_file(kind, body, received):
    if kind == AUDIT:
        [fd] = received
        st = os.fstat(fd)
        note("audit", [*struct.unpack_from("=I", body), os.readlink(f"/proc/self/fd/{fd}"), st.st_uid, st.st_mode])
        os.close(fd)
        return
    generation, index, count = struct.unpack_from("=III", body)
    content = [os.pread(fd, 100, 0).decode() for fd in received]
    for fd in received:
        os.close(fd)
    note("told", [kind, generation, index, count, *content])
    if kind not in (KEYFILE, TLS) or (kind == KEYFILE and index + 1 < count) or "mute" in words():
        return
    bad = [int(word[4:]) for word in words() if word.startswith("bad=")]
    answer = struct.pack("=IBB2x", generation, len(bad), bad[0] if bad else 255) + (b"is no good" if bad else b"")
    for _ in range(1 + ("twice" in words())):
        send(KEYED if kind == KEYFILE else TLS_DONE, answer)


setup, config = handshake()
todo = words()
if "deaf" in todo:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open("/proc/self/status") as f:
    blocked = next(line.split()[1] for line in f if line.startswith("SigBlk"))
note(
    "seen",
    {"pid": os.getpid(), "argv": sys.argv, "env": dict(os.environ), "fds": fds, "setup": setup, "config": config, "blocked": blocked},
)
for word in todo:
    if word.startswith("exit="):
        sys.stderr.write(f"{name}: one line of its own\n")
        os._exit(int(word[5:]))
if "hang" not in todo:
    send(READY, struct.pack("=B7x", "partial" in todo))
for word in todo:
    if word.startswith("flood="):
        os.unlink(f"{base}/{name}.do")  # not again after the restart
        for _ in range(int(word[6:])):
            send(ASK_FIGURES, bytes(8))
if name == "managerd":
    run_managerd()
while True:
    kind, ident, body, received = receive()
    leave = [int(word[6:]) for word in words() if kind == STATE and word.startswith("leave=")]
    if leave:
        os.unlink(f"{base}/{name}.do")  # not again after the restart
        os._exit(leave[0])
    if KEYFILE <= kind <= TLS_DONE:
        take_file(kind, body, received)
    else:
        note("told", [kind, body[8:].decode()])
