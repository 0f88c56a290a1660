"""A sessiond under test: the test plays the parent, managerd, the clients, and the sandbox."""

import contextlib
import hashlib
import socket
import struct
import threading

import layout
from machine import descriptors, kib

WORKSPACE = b"/workspace"


def args_record(argv, env=(), workdir=b"/workspace"):
    """The data of RECORD_ARGS."""
    words = [*argv, *env, workdir]
    return struct.pack("<II", len(argv), len(env)) + b"".join(w + b"\0" for w in words)


def parse_block(block):
    """argv, env, workdir of the guest's argument block."""
    argc, envc = struct.unpack_from("<II", block)
    words = block[8:].split(b"\0")
    assert words.pop() == b"" and len(words) == argc + envc + 1
    return words[:argc], words[argc : argc + envc], words[-1]


def stdcopy(data, stream=1):
    return struct.pack(">BxxxI", stream, len(data)) + data


def end(status=200, size=0, text=b""):
    return struct.pack("<IIq", status, 0, size) + text


def exited(code=0, **more):
    return layout.pack("g_exit", {"exit_code": code, "duration_us": 5, "peak_memory_bytes": -1} | more)


def meta(size, **more):
    return layout.pack("g_meta", {"size": size, "length": size, "mode": 0o644} | more)


def entry(name, **more):
    data = layout.pack("g_entry", {"size": 1, "mode": 0o644, "name_len": len(name)} | more) + name
    return data + bytes(-len(data) % 8)


def send_later(client, records):
    """Sends records from a thread, however long the other end takes."""
    sock = client.sock.dup()

    def run():
        sock.settimeout(30)
        with sock, contextlib.suppress(OSError):  # the other end may be done with it
            for type, data in records:
                sock.sendall(layout.record(type, data))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def pieces(type, data):
    return [(type, data[at : at + 65536]) for at in range(0, len(data), 65536)]


def error_of(record):
    type, data = record
    assert type == layout.RECORD_ERROR, record
    fields = layout.unpack("r_error", data)
    return fields["status"], data[layout.sizeof("r_error") :].decode()


class Session(layout.Program):
    def __init__(self, framing=layout.GUEST_RAW, up=True, env=b"", sandbox=0xABC, **kw):
        super().__init__("sessiond", ["chan"], **kw)
        self.manager = self.peers[0]
        self.framing, self.ids, self.guest = framing, 0, None
        for at in range(0, len(env), layout.S_ENV_CHUNK):
            piece = env[at : at + layout.S_ENV_CHUNK]
            self.manager.send("S_ENV", 0, {"total": len(env)}, piece)
        if up:
            self.attach(sandbox)
            self.greet()

    def attach(self, sandbox=0xABC):
        ours, theirs = socket.socketpair()
        self.manager.send("S_GUEST", 0, {"framing": self.framing, "sandbox": sandbox}, fd=theirs)
        theirs.close()
        self.guest = Guest(ours, self.framing)

    def greet(self):
        self.guest.read_hello()
        self.guest.send(layout.G_HELLO_ACK, 0, self.guest.hello)
        assert self.manager.expect("S_UP").fields["guest_version"] == layout.GUEST_VERSION

    def job(self, name, fields=None, tail=b"", fd=None):
        """Returns the job's id and, unless it has a file, the client's end of its data socket."""
        self.ids += 1
        if fd is not None:
            self.manager.send(name, self.ids, fields, tail, fd)
            return self.ids, None
        ours, theirs = layout.data_pair()
        self.manager.send(name, self.ids, fields, tail, theirs)
        theirs.close()
        return self.ids, layout.Records(ours)

    def exec(self, argv=(b"true",), env=(), timeout_us=60_000_000, args=None, **fields):
        args = args_record(argv, env) if args is None else args
        fields = {"timeout_us": timeout_us, "args_len": len(args), "args_sha256": hashlib.sha256(args).digest()} | fields
        self.ids += 1
        ours, theirs = layout.data_pair()
        client = layout.Records(ours)
        self.manager.send("S_EXEC", self.ids, fields, fd=theirs)
        theirs.close()
        with contextlib.suppress(BrokenPipeError):  # refused already
            client.send(layout.RECORD_ARGS, args)
        return self.ids, client

    def started(self, **fields):
        """A command that runs: its job, the client, the channel."""
        id, client = self.exec(**fields)
        channel, _, _ = self.guest.expect_exec()
        self.guest.send(layout.G_STARTED, channel)
        assert client.recv() == (layout.RECORD_STARTED, b"")
        return id, client, channel

    def job_end(self, id, status=None):
        m = self.manager.recv_until("S_JOB_END", id=id)
        assert status in (None, m.fields["status"]), m
        return m

    def down(self):
        """The reason of S_DOWN."""
        return self.manager.recv_until("S_DOWN").tail.decode()

    def pss_kb(self):
        sizes = {name: kib(self.pid, name, "smaps_rollup") for name in ("Pss", "Pss_Anon", "Private_Dirty")}
        assert sizes["Pss"], "it has ended"
        return sizes

    def nfds(self):
        return len(descriptors(self.pid))


class Guest(layout.Frames):
    def __init__(self, sock, framing):
        super().__init__(sock)
        self.framing, self.hello = framing, None

    def raw(self, data):
        self.sock.sendall(stdcopy(data) if self.framing == layout.GUEST_STDCOPY else data)

    def send(self, type, channel=0, data=b"", **wrong):
        self.raw(layout.frame(type, channel, data, **wrong))

    def read_hello(self):
        want = layout.GUEST_PADDING + layout.FRAME_HEADER + layout.sizeof("g_hello")
        got = b""
        self.sock.settimeout(30)
        while len(got) < want:
            got += self.sock.recv(want - len(got))
        assert got[: layout.GUEST_PADDING] == bytes(layout.GUEST_PADDING)
        type, channel, self.hello, rest = layout.parse_frame(got[layout.GUEST_PADDING :])
        assert (type, channel, rest) == (layout.G_HELLO, 0, b"")
        assert layout.unpack("g_hello", self.hello)["version"] == layout.GUEST_VERSION

    def expect(self, type, channel=None, timeout=30):
        """(channel, data) of the next frame but for credit, which must be of this type."""
        got, ch, data = self.recv(timeout)
        while got == layout.G_WINDOW != type:
            got, ch, data = self.recv(timeout)
        assert got == type and channel in (None, ch), (got, ch, data[:64])
        return ch, data

    def expect_exec(self):
        """channel, argument block, struct g_exec"""
        block = b""
        while True:
            type, channel, data = self.recv()
            if type == layout.G_WINDOW:
                continue
            if type == layout.G_EXEC:
                fields = layout.unpack("g_exec", data)
                assert fields["args_len"] == len(block)
                return channel, block, fields
            assert type == layout.G_EXEC_ARGS
            block += data

    def expect_file(self, type):
        """channel, struct g_file, path"""
        channel, data = self.expect(type)
        fields = layout.unpack("g_file", data)
        path = data[layout.sizeof("g_file") :]
        assert fields["path_len"] == len(path)
        return channel, fields, path

    def window(self, channel, n):
        self.send(layout.G_WINDOW, channel, struct.pack("<II", n, 0))
