"""sandbox-init in a container-like place of its own, and a client that speaks the guest protocol with it.

    with guest.Sandbox() as box:                         # or Sandbox(options=["-p", "40"]): tests/tools/guest_launch.c
        r = box.run(["sh", "-c", "echo hi"])             # r.code, r.out, r.err, r.exit (struct g_exit as a dict)
        box.write("a/b", b"data"); box.read("a/b"); box.list(); box.export(); box.import_(tar)
        ch = box.exec(["cat"], stdin=True)               # a channel in use: ch.send(...), ch.wait(), ch.frames
    guest.End is raised where an END with another status than 200 comes; it has .status, .text and .bytes.

The client is synchronous: it reads frames only while it waits for something, and sends them to the channel they name.
Credit is given back at once unless Sandbox(credit=False) or channel.credit = False.
"""

import os
import random
import resource
import select
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections import namedtuple

import layout
import pytest
from machine import children, command_line, everyone, link, send, stat, wait_until

INIT = os.environ.get("AS_TEST_INIT", str(layout.BUILD / "sandbox-init"))
LAUNCH = layout.BUILD / "tests/guest_launch"
Result = namedtuple("Result", "code out err exit")
FINAL = (layout.G_EXIT, layout.G_END)
DEFAULT_ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/workspace", "LC_ALL": "C.UTF-8"}

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces, so it runs as root only")


class End(Exception):
    def __init__(self, status, bytes, text):
        super().__init__(f"{status} {text}")
        self.status, self.bytes, self.text = status, bytes, text


def args_block(argv, env, workdir):
    strings = [*argv, *(f"{k}={v}" for k, v in env.items()), workdir]
    return struct.pack("<II", len(argv), len(env)) + b"".join(os.fsencode(s) + b"\0" for s in strings)


class Channel:
    """One request. frames: [(type, data)] that came, oldest first."""

    def __init__(self, box, number):
        self.box, self.number = box, number
        self.frames, self.final, self.credit = [], None, box.credit
        self.window = layout.GUEST_WINDOW  # bytes that may still be sent

    def send(self, type, data=b""):
        self.box.send(type, self.number, data)

    def data(self, type, data):
        """Sends bytes within the window, reading frames while it is used up."""
        for at in range(0, len(data), 65536):
            piece = data[at : at + 65536]
            while self.window < len(piece) and self.final is None:
                self.box.step()
            if self.final is not None:
                return
            self.window -= len(piece)
            self.send(type, piece)

    def give(self, n):
        self.send(layout.G_WINDOW, layout.pack("g_number", {"n": n}))

    def came(self, type, data):
        if type == layout.G_WINDOW:
            self.window += layout.unpack("g_number", data)["n"]
            return
        assert self.final is None, "a frame after the final one"
        self.frames.append((type, data))
        if type in FINAL:
            self.final = (type, data)
            del self.box.channels[self.number]
        elif self.credit and type in (layout.G_STDOUT, layout.G_STDERR, layout.G_DATA, layout.G_ENTRY):
            self.give(len(data))

    def bytes(self, type):
        return b"".join(d for t, d in self.frames if t == type)

    def wait_for(self, type, timeout=30):
        self.box.until(lambda: self.final is not None or any(t == type for t, _ in self.frames), timeout)
        return next((d for t, d in self.frames if t == type), None)

    def wait(self, timeout=30):
        """Until the final frame. Raises End for an END that is not 200."""
        self.box.until(lambda: self.final is not None, timeout)
        type, data = self.final
        if type == layout.G_EXIT:
            x = layout.unpack("g_exit", data)
            return Result(x["exit_code"], self.bytes(layout.G_STDOUT), self.bytes(layout.G_STDERR), x)
        e = layout.unpack("g_end", data)
        if e["status"] != 200:
            raise End(e["status"], e["bytes"], data[16:].decode())
        return e


class Dial:
    """A connection that somebody inside wants."""

    def __init__(self, box, number, data):
        f = layout.unpack("g_dial", data)
        self.box, self.number, self.how, self.port, self.name = box, number, f["how"], f["port"], data[8:]
        assert self.port and 1 <= len(self.name) <= layout.DIAL_NAME_MAX and f["how"] <= layout.DIAL_HTTP
        self.data, self.ended, self.closed, self.sent_close, self.judged = b"", False, False, False, False
        self.window = self.credit = layout.GUEST_DIAL_WINDOW

    def came(self, type, data):
        assert not self.closed, "a frame behind the last one"
        if type == layout.G_DATA:
            assert self.judged and not self.ended and 0 < len(data) <= self.credit
            self.credit -= len(data)
            self.data += data
        elif type == layout.G_WINDOW:
            self.window += layout.unpack("g_number", data)["n"]
            assert self.window <= layout.GUEST_DIAL_WINDOW_MAX
        elif type == layout.G_DATA_END:
            assert self.judged and not self.ended and data == b""
            self.ended = True
        else:
            assert (type, data) == (layout.G_CLOSE, b"")
            self.closed = True
            if self.sent_close:
                del self.box.dials[self.number]

    def verdict(self, verdict=layout.DIAL_OK, text=b""):
        self.judged = True
        self.box.send(layout.G_DIALED, self.number, layout.pack("g_dialed", {"verdict": verdict}) + text)
        if verdict != layout.DIAL_OK:
            self.close()

    def send(self, data):
        """Within the window, reading frames while it is used up."""
        for at in range(0, len(data), 16384):
            piece = data[at : at + 16384]
            while self.window < len(piece) and not self.closed:
                self.box.until(lambda had=self.window: self.window > had or self.closed)
            if self.closed:
                return
            self.window -= len(piece)
            self.box.send(layout.G_DATA, self.number, piece)

    def end(self):
        self.box.send(layout.G_DATA_END, self.number)

    def close(self):
        self.sent_close = True
        self.box.send(layout.G_CLOSE, self.number)
        if self.closed:
            del self.box.dials[self.number]

    def give(self, n):
        self.credit += n
        self.box.send(layout.G_WINDOW, self.number, layout.pack("g_number", {"n": n}))

    def read(self, n, timeout=30):
        """n bytes; all that there is until the end with -1. Credit goes back as they come."""
        out = b""
        while len(out) < n or n < 0:
            self.box.until(lambda: self.data or self.ended or self.closed, timeout)
            if not self.data:
                break
            got, self.data = self.data, b""
            out += got
            if not self.ended:
                self.give(len(got))
        return out

    def until_closed(self, timeout=30):
        self.box.until(lambda: self.closed, timeout)


def refused(status, call, *args, **more):
    """The words with which PID 1 refuses this."""
    with pytest.raises(End) as e:
        call(*args, **more)
    assert e.value.status == status, e.value
    return e.value.text


class Pipe:
    """The reading end of a pipe, with what is used here of a socket."""

    def __init__(self, fd):
        self.fd, self.timeout = fd, None

    def settimeout(self, timeout):
        self.timeout = timeout

    def recv(self, size):
        if not select.select([self.fd], [], [], self.timeout)[0]:
            raise TimeoutError
        return os.read(self.fd, size)

    def close(self):
        os.close(self.fd)


class Sandbox:
    """pipe: what it says comes out of a pipe (self.output), as in a container."""

    def __init__(self, options=(), uid=None, hello=True, credit=True, workspace=None, hosts=None, files=None, pipe=False):
        if not LAUNCH.exists():
            subprocess.run(["make", str(LAUNCH.relative_to(layout.ROOT))], cwd=layout.ROOT, check=True)
        self.uid = uid or random.randrange(20000, 60000)  # of its own, since the kernel counts processes by it
        self.credit = credit
        self.own = workspace is None
        self.dir = workspace or tempfile.mkdtemp(prefix="guest-")
        if self.own:
            os.chown(self.dir, self.uid, self.uid)
            os.chmod(self.dir, 0o755)
        self.channels, self.stats, self.rest, self.acks = {}, [], b"", []
        self.dials, self.listens = {}, []
        if hosts is not None:
            self.hosts = tempfile.NamedTemporaryFile("w", prefix="hosts-")  # noqa: SIM115 - lives as long as the sandbox
            self.hosts.write(hosts)
            self.hosts.flush()
            os.chmod(self.hosts.name, 0o644)
            options = [*options, "-H", self.hosts.name]
        self.sock, theirs = socket.socketpair()

        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, files)

        self.output, out = self.sock, theirs.fileno()
        if pipe:
            end, out = os.pipe()
            self.output = Pipe(end)
        self.process = subprocess.Popen(
            [LAUNCH, "-u", str(self.uid), "-w", self.dir, *options, INIT], stdin=theirs, stdout=out, cwd="/", preexec_fn=files and limit
        )
        if pipe:
            os.close(out)
        theirs.close()
        if hello:
            self.hello()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.output.close()
        self.sock.close()
        if self.own:
            subprocess.run(["rm", "-rf", self.dir], check=False)  # also what is nested deeply

    @property
    def pid(self):
        """Of PID 1, seen from outside."""
        pids = wait_until(lambda: children(self.process.pid))
        assert pids, "PID 1 is gone"
        return pids[0]

    # Frames.

    def send(self, type, channel=0, data=b"", **wrong):
        self.raw(layout.frame(type, channel, data, **wrong))

    def raw(self, data):
        self.sock.settimeout(30)
        self.sock.sendall(data)

    def step(self, timeout=30):
        """Reads once and hands out the frames; False when nothing came."""
        self.output.settimeout(max(timeout, 0.0005))
        try:
            more = self.output.recv(1 << 18)
        except TimeoutError:
            return False
        assert more, "PID 1 closed the stream"
        self.rest += more
        while (parsed := layout.parse_frame(self.rest)) is not None:
            type, number, data, self.rest = parsed
            if number > layout.GUEST_CHANNELS:
                self.dial_came(type, number, data)
            elif number:
                self.channels[number].came(type, data)
            elif type == layout.G_LISTENS:
                self.listens.append((layout.unpack("g_listens", data), data[8:].decode()))
            elif type == layout.G_STAT:
                self.stats.append(layout.unpack("g_stat", data))
            else:
                self.acks.append(layout.unpack("g_hello", data))
        return True

    def until(self, what, timeout=30):
        end = time.monotonic() + timeout
        while not what():
            left = end - time.monotonic()
            assert left > 0 and self.step(left), "nothing came in time"

    def settle(self, seconds):
        """Reads for that long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.step(left)

    def hello(self, timeout=30):
        """A new attachment: everything up to the answer is thrown away, as sessiond does."""
        nonce = random.getrandbits(64)
        self.raw(bytes(layout.GUEST_PADDING))
        self.send(layout.G_HELLO, 0, layout.pack("g_hello", {"nonce": nonce, "version": layout.GUEST_VERSION}))
        self.channels, self.dials = {}, {}
        want = layout.frame(layout.G_HELLO_ACK, 0, layout.pack("g_hello", {"nonce": nonce, "version": layout.GUEST_VERSION}))
        data, end = self.rest, time.monotonic() + timeout
        while want not in data:
            self.output.settimeout(max(0.001, end - time.monotonic()))
            more = self.output.recv(1 << 18)
            assert more, "PID 1 closed the stream"
            data += more
        self.rest = data.split(want, 1)[1]

    def open(self, number=None):
        number = number or next(n for n in range(1, layout.GUEST_CHANNELS + 1) if n not in self.channels)
        ch = self.channels[number] = Channel(self, number)
        return ch

    # Connections out.

    def egress(self, *entries):
        """({"listeners": n, "failed": n}, text)"""
        self.send(layout.G_EGRESS, 0, "\n".join(entries).encode())
        n = len(self.listens)
        self.until(lambda: len(self.listens) > n)
        return self.listens[-1]

    def dial_came(self, type, number, data):
        if type == layout.G_DIAL:
            assert number not in self.dials, "the number is still in use"
            self.dials[number] = Dial(self, number, data)
        else:
            self.dials[number].came(type, data)

    def next_dial(self, timeout=30):
        """The oldest one that has no verdict yet."""
        self.until(lambda: any(not d.judged for d in self.dials.values()), timeout)
        return next(d for d in self.dials.values() if not d.judged)

    # Commands.

    def exec(self, argv, env=None, workdir="/workspace", timeout=30.0, stdin=False, kill_others=False, number=None, must_exist=0):
        block = args_block(argv, DEFAULT_ENV | (env or {}), workdir)
        ch = self.open(number)
        for at in range(0, len(block), 65536):
            ch.send(layout.G_EXEC_ARGS, block[at : at + 65536])
        request = {"timeout_us": int(timeout * 1e6), "args_len": len(block), "stdin_open": stdin, "kill_others": kill_others}
        request["must_exist"] = must_exist
        ch.send(layout.G_EXEC, layout.pack("g_exec", request))
        return ch

    def run(self, argv, input=None, wait=30, **more):
        ch = self.exec(["sh", "-c", argv] if isinstance(argv, str) else argv, stdin=input is not None, **more)
        if input is not None:
            ch.data(layout.G_STDIN, input)
            if ch.final is None:
                ch.send(layout.G_STDIN_END)
        return ch.wait(wait)

    def py(self, code, *args, **more):
        return self.run(["python3", "-c", code, *args], **more)

    # Files.

    def file(self, type, path, flags=0, max=-1, **fields):
        path = os.fsencode(path if os.fspath(path)[:1] in ("/", b"/") else os.path.join("/workspace", path))
        ch = self.open()
        ch.send(type, layout.pack("g_file", {"max": max, "flags": flags, "path_len": len(path)} | fields) + path)
        return ch

    def read(self, path, **fields):
        """(meta, data)"""
        ch = self.file(layout.G_READ, path, **fields)
        ch.wait()
        return layout.unpack("g_meta", ch.bytes(layout.G_META)), ch.bytes(layout.G_DATA)

    def write(self, path, data, mode=0o644, flags=layout.G_FLAG_WORKSPACE | layout.G_FLAG_PARENTS, size=-1, **fields):
        ch = self.file(layout.G_WRITE, path, mode=mode, flags=flags, size=size, **fields)
        self.upload(ch, data)
        return layout.unpack("g_meta", ch.bytes(layout.G_META))

    def upload(self, ch, data, wait=30):
        ch.data(layout.G_DATA, data)
        if ch.final is None:
            ch.send(layout.G_DATA_END, layout.pack("g_size", {"bytes": len(data)}))
        return ch.wait(wait)

    def list(self, path="/workspace", **fields):
        """[(name as bytes, entry as a dict)]"""
        ch = self.file(layout.G_LIST, path, **fields)
        ch.wait()
        out = []
        for t, data in ch.frames:
            while t == layout.G_ENTRY and data:
                e = layout.unpack("g_entry", data)
                out.append((data[24 : 24 + e["name_len"]], e))
                data = data[24 + (e["name_len"] + 7) // 8 * 8 :]
        return out

    def export(self, path="/workspace", flags=layout.G_FLAG_FREEZE, wait=30, **fields):
        """The tar's bytes."""
        ch = self.file(layout.G_EXPORT, path, flags=flags, **fields)
        end = ch.wait(wait)
        data = ch.bytes(layout.G_DATA)
        assert end["bytes"] == len(data)
        return data

    def import_(self, data, path="/workspace", flags=layout.G_FLAG_RESTORE, wait=30, **fields):
        return self.upload(self.file(layout.G_IMPORT, path, flags=flags, **fields), data, wait)

    def merge(self, data, path="/workspace", **fields):
        return self.import_(data, path, layout.G_FLAG_WORKSPACE | layout.G_FLAG_PARENTS, **fields)

    def processes(self):
        """[(pid, ppid, state, command line)] of all in the sandbox but PID 1, seen from outside."""
        first = self.pid
        inside, out = link(first, "ns/pid"), []
        assert inside, "PID 1 is gone"
        for p in everyone():
            if p != first and link(p, "ns/pid") == inside and (fields := stat(p)):
                out.append((p, int(fields[1]), fields[0], command_line(p)))
        return out

    def count(self, word):
        return sum(word in p[3] for p in self.processes())

    def kill(self, pid, signo=signal.SIGKILL):
        assert send(pid, signo), "it has ended"
