"""What one cycle of the soak does with a sandbox: make it, use it, end it; what comes back is compared with what went in."""

import contextlib
import random
import statistics
import threading
import time

import requests
from harness import Box, text

TRANSIENT = (404, 409, 410, 502, 503)  # what a call may be answered while something was killed
SPECS = ({}, {}, {"memory_mb": 64}, {"memory_mb": 96, "egress_allowlist": ["example.com"]})


class Interrupted(Exception):
    """A call that ended with its program."""


class Wrong(Exception):
    """An answer that no kill excuses."""


class Tally:
    """What was done, by all workers together."""

    def __init__(self):
        self.lock = threading.Lock()
        self.done, self.interrupted, self.wrong = 0, 0, []
        self.seconds = {}

    def add(self, name, seconds):
        with self.lock:
            self.seconds.setdefault(name, []).append(seconds)

    def quantiles(self, name):
        """Median and 95th percentile, in milliseconds."""
        got = sorted(self.seconds.get(name, [0]))
        return statistics.median(got) * 1000, got[int(len(got) * 0.95)] * 1000


class Cycle:
    """One sandbox from its beginning to its end. excused() says whether a call may fail now."""

    def __init__(self, api, tally, excused, number):
        self.api, self.tally, self.excused = api, tally, excused
        self.random = random.Random(number)
        self.number = number

    def call(self, name, what):
        """What the call gives, and the time that it took."""
        began = time.monotonic()
        try:
            got = what()
        except (requests.RequestException, AssertionError) as exc:
            raise self.failed(name, exc) from exc
        self.tally.add(name, time.monotonic() - began)
        return got

    def failed(self, name, exc):
        said = f"cycle {self.number}: {name}: {exc}"
        answered = str(exc).partition(": ")[2][:3]
        known = not isinstance(exc, AssertionError) or (answered.isdigit() and int(answered) in TRANSIENT)
        return Interrupted(said) if known and self.excused() else Wrong(said)

    def check(self, name, got, expected):
        if got != expected:
            raise Wrong(f"cycle {self.number}: {name}: {str(got)[:200]!r} instead of {str(expected)[:200]!r}")

    def run(self):
        box = self.call("create", lambda: self.api.create(**self.random.choice(SPECS)))
        word = f"word-{self.number}"
        for extra in (self.command, self.file, self.random.choice((self.stream, self.left, self.late, self.snapshot, self.nothing))):
            extra(box, word)
        self.delete(box)

    def exec(self, box, command, **fields):
        """A command whose result is whole: one that ended with its session says so by its status."""
        return self.call("exec", lambda: box.exec(command, **fields))

    def command(self, box, word):
        self.check("exec", self.exec(box, ["echo", word])["stdout"], word + "\n")

    def file(self, box, word):
        data = self.random.randbytes(self.random.choice((10, 10_000, 300_000)))
        self.call("write", lambda: box.put("/workspace/f", data))
        self.check("read", self.call("read", lambda: box.content("/workspace/f")), data)

    def stream(self, box, word):
        events = self.call("stream", lambda: box.stream("head -c 300000 /dev/zero | tr '\\0' x; echo; echo end")).all()
        if not events or events[-1]["type"] != "exit":
            raise self.failed("stream", requests.ConnectionError("no end"))
        self.check("stream", len(text(events)), 300_005)

    def left(self, box, word):
        """A client that goes away."""
        events = self.call("stream", lambda: box.stream("echo on; sleep 60"))
        with contextlib.suppress(StopIteration):
            events.next()
        events.close()

    def late(self, box, word):
        got = self.exec(box, "sleep 60 & sleep 60", timeout_seconds=0.2)
        self.check("timeout", got["timed_out"], True)

    def snapshot(self, box, word):
        before = self.call("read", lambda: box.content("/workspace/f"))
        snap = self.call("snapshot", box.snapshot)
        self.exec(box, "rm -rf /workspace/*")
        self.call("rollback", lambda: box.rollback(snap))
        fork = self.call("fork", lambda: self.api.fork(snap, memory_mb=64))
        for b in (box, fork):
            self.check("read", self.call("read", lambda b=b: b.content("/workspace/f")), before)
        self.delete(fork)
        self.call("delete", lambda: self.gone(self.api.ask("DELETE", f"/v1/snapshots/{snap}")))

    def nothing(self, box, word):
        pass

    @staticmethod
    def gone(answer):
        assert answer.status_code in (204, 404), f"delete: {answer.status_code} {answer.text[:300]}"

    def delete(self, box: Box):
        self.call("delete", lambda: self.gone(box.delete()))
