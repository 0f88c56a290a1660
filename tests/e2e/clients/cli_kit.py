"""Running the command: as a program, with signals, and on a terminal."""

import contextlib
import errno
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

from drivers import clean_env
from harness import BUILD, KEY
from machine import kib

COMMAND = BUILD / "agent-sandbox"


class Cli:
    """cli("ls", "-q"): the finished process, its output as text unless text=False."""

    def __init__(self, url, key=KEY, **env):
        self.env = clean_env(AGENT_SANDBOX_URL=url, LC_ALL="C.UTF-8", TERM="xterm", **env)
        if key is not None:
            self.env["AGENT_SANDBOX_API_KEY"] = key

    def __call__(self, *words, input=None, text=True, env=None, timeout=50, **more):
        if input is None and "stdin" not in more:
            more["stdin"] = subprocess.DEVNULL
        more.setdefault("stdout", subprocess.PIPE)
        more.setdefault("stderr", subprocess.PIPE)
        more.setdefault("encoding", "utf-8" if text else None)
        return subprocess.run([COMMAND, *map(str, words)], env=self.env | (env or {}), input=input, timeout=timeout, **more)

    def ok(self, *words, **more):
        p = self(*words, **more)
        assert p.returncode == 0, f"{words}: {p.returncode}: {p.stderr}"
        return p.stdout

    def fails(self, status, *words, **more):
        """It ends with this status, says one line, and nothing on standard output; gives the line."""
        p = self(*words, **more)
        assert p.returncode == status, f"{words}: {p.returncode}, expected {status}: {p.stdout} {p.stderr}"
        assert not p.stdout, p.stdout
        return one_line(p.stderr)

    def start(self, *words, **more):
        more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
        return subprocess.Popen([COMMAND, *map(str, words)], env=self.env, **more)

    def terminal(self, *words, env=None, **more):
        return Terminal([COMMAND, *map(str, words)], self.env | (env or {}), **more)


def one_line(text):
    """What the command says of a failure: one line, of visible characters."""
    assert text.startswith("agent-sandbox: ") and text.endswith("\n") and text.count("\n") == 1, repr(text)
    assert all(c.isprintable() for c in text[:-1]), repr(text)
    return text[len("agent-sandbox: ") : -1]


def peak_memory(process):
    """KiB, watched until it ends."""
    peak = 0
    while process.poll() is None:
        peak = max(peak, kib(process.pid, "VmHWM"))
        time.sleep(0.02)
    return peak


class Terminal:
    """A program on a terminal of its own; what it writes there is kept in .text (bytes)."""

    def __init__(self, command, env, rows=24, columns=100, stdout=None, stderr=None):
        self.text = b""
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(
            command, env=env, stdin=slave, stdout=stdout or slave, stderr=stderr or slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(slave)

    def type(self, data):
        os.write(self.master, data)

    def read(self, seconds=0.1):
        """False at the end."""
        if not select.select([self.master], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError as exc:
            if exc.errno != errno.EIO:
                raise
            return False
        self.text += data
        return bool(data)

    def until(self, what, seconds=20):
        end = time.monotonic() + seconds
        while what not in self.text:
            assert self.read() and time.monotonic() < end, f"{what} is not in {self.text}"
        return self

    def end(self, seconds=30):
        """The status; all that was written is in text."""
        end = time.monotonic() + seconds
        while self.read():
            assert time.monotonic() < end, f"does not end: {self.text}"
        status = self.process.wait(seconds)
        os.close(self.master)
        return status

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)
