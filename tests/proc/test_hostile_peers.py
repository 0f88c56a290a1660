"""A program whose peer was taken over: messages that keep to the table but not to reason. Descriptors of the wrong kind,
messages out of order, payloads of noise. It may end, by its own decision, or go on; it never crashes or breaks its
confinement (which would end it by a signal), and it never takes a descriptor for what it is not."""

import contextlib
import hashlib
import os
import random
import socket
import time

import layout
import pytest
from machine import descriptors

KEY = "a-key-of-24-characters-x"
PROGRAMS = ("apid", "managerd", "dockerd-proxy", "egressd", "keyd", "sessiond")
TABLES = {  # what each may be told: (table, sender, which peer; -1 is the parent)
    "apid": [("APID_MANAGERD", "MANAGERD", 0), ("APID_KEYD", "KEYD", 1), ("PARENT_APID", "PARENT", -1)],
    "managerd": [
        ("APID_MANAGERD", "APID", 0),
        ("MANAGERD_DOCKERD", "DOCKERD_PROXY", 1),
        ("MANAGERD_EGRESSD", "EGRESSD", 2),
        ("PARENT_MANAGERD", "PARENT", -1),
    ],
    "dockerd-proxy": [("MANAGERD_DOCKERD", "MANAGERD", 0)],
    "egressd": [("MANAGERD_EGRESSD", "MANAGERD", 0), ("PARENT_EGRESSD", "PARENT", -1)],
    "keyd": [("APID_KEYD", "APID", 0), ("MANAGERD_KEYD", "MANAGERD", 1), ("PARENT_KEYD", "PARENT", -1)],
    "sessiond": [("MANAGERD_SESSIOND", "MANAGERD", 0)],
}
CASES = [
    (name, row, peer) for name in PROGRAMS for table, sender, peer in TABLES[name] for row in layout.TABLES[table] if row.sender == sender
]
CARRIERS = [c for c in CASES if c[1].fd != "FD_NONE"]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="starts programs as root does")


@contextlib.contextmanager
def started(name, tmp_path):
    """The program, ready, with an engine that is down."""
    with contextlib.ExitStack() as stack:
        if name == "apid":
            fds = ["chan", stack.enter_context(socket.create_server(("127.0.0.1", 0))), "chan"]
            p = stack.enter_context(layout.Program(name, fds))
        elif name == "managerd":
            data = tmp_path / f"data{random.getrandbits(64):x}"
            data.mkdir()
            config = {"API_KEYS": KEY}
            p = stack.enter_context(layout.Program(name, ["chan"] * 4, config=config, path=data, ready=False))
            p.peers[1].send("D_ENGINE", 0, {"up": 0}, "it is down")
            p.ready()
        else:
            p = stack.enter_context(layout.Program(name, ["chan"] * (2 if name == "keyd" else 1)))
        yield p


def attach(p):
    """Gives a sessiond its guest, so that it takes jobs. Returns the guest's end, which must stay open."""
    guest, theirs = layout.data_pair()
    p.peers[0].send("S_GUEST", 1, {"framing": layout.GUEST_RAW, "sandbox": 5}, fd=theirs)
    theirs.close()
    guest.settimeout(30)
    data = b""
    while len(data) < layout.GUEST_PADDING + 16 + layout.sizeof("g_hello"):
        data += guest.recv(1 << 18)
    kind, _, hello, _ = layout.parse_frame(data[layout.GUEST_PADDING :])
    assert kind == layout.G_HELLO
    guest.sendall(layout.frame(layout.G_HELLO_ACK, 0, hello))
    p.peers[0].recv_until("S_UP")
    return guest


def fields_of(row):
    """What gets a message as far as its descriptor: the key of a client that may."""
    if layout.STRUCTS[row.struct].fields[0].name != "ask":
        return {}
    return {"ask": {"key": hashlib.sha256(KEY.encode()).digest(), "has_key": 1}}


def channel(p, peer):
    return p.parent if peer == -1 else p.peers[peer]


def decided(p, what):
    """It ended by its own decision, or it goes on."""
    status = p.wait(0.15)
    assert status in (None, 0, 1), f"{what}: status {status}: {p.log()}"
    assert "AddressSanitizer" not in p.log() and "runtime error" not in p.log(), p.log()
    return status


def holds(p, what):
    """Whether the program, if it still runs, has this open; all have /dev/null."""
    if what == "/dev/null" or p.wait(0) is not None:
        return False
    return what in descriptors(p.pid).values()


def wrong_kinds(tmp_path):
    """Descriptors that are never what a message carries; a regular file only where none is asked for."""
    (tmp_path / "file").write_text("")
    kinds = {"pipe": os.pipe()[0], "null": os.open("/dev/null", os.O_RDWR), "directory": os.open(tmp_path, os.O_RDONLY)}
    kinds["datagram"] = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].detach()
    kinds["tcp"] = socket.socket().detach()
    kinds["read-only file"] = os.open(tmp_path / "file", os.O_RDONLY)
    return kinds


@pytest.mark.parametrize(("name", "row", "peer"), CARRIERS, ids=[f"{n}-{r.name}" for n, r, _ in CARRIERS])
def test_descriptor_of_a_wrong_kind_is_never_used(tmp_path, name, row, peer):
    kinds = wrong_kinds(tmp_path)
    if row.name == "S_RESTORE":
        del kinds["read-only file"]  # what it must be
    for kind, fd in kinds.items():
        with started(name, tmp_path) as p, contextlib.ExitStack() as stack:
            if name == "sessiond" and row.name != "S_GUEST":
                stack.enter_context(attach(p))
            channel(p, peer).send(row.name, 7, fields_of(row), b"/x" if row.tail == layout.PATH_TAIL_MAX else b"", fd=fd)
            decided(p, f"{row.name} with {kind}")
            end = time.monotonic() + 30
            while holds(p, os.readlink(f"/proc/self/fd/{fd}")):
                assert time.monotonic() < end, f"{row.name} keeps a {kind}"
                time.sleep(0.05)
        os.close(fd)


def proper_fd(row):
    return None if row.fd == "FD_NONE" else socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)[0]


def payloads(size):
    noise = random.Random(size)
    return {"zeros": bytes(size), "ones": b"\xff" * size, "noise": noise.randbytes(size)}


@pytest.mark.parametrize(("name", "row", "peer"), CASES, ids=[f"{n}-{r.name}" for n, r, _ in CASES])
def test_message_that_comes_first_and_full_of_noise_crashes_nobody(tmp_path, name, row, peer):
    size = layout.sizeof(row.struct)
    for what, body in payloads(size + row.tail).items():
        for part in (body, body[:size]):
            with started(name, tmp_path) as p, proper_fd(row) or contextlib.nullcontext() as fd:
                channel(p, peer).send_raw(row.number, 2**64 - 1, part, [] if fd is None else [fd])
                decided(p, f"{row.name} of {what}, {len(part)} bytes")
