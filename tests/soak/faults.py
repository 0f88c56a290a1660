"""Kills: of one of our programs, of the parent, of the engine. What a service manager would do is done here: start again what ended."""

import collections
import signal
import time

from harness import PROGRAMS
from machine import alive, send, wait_until

KINDS = (*PROGRAMS, "engine")
AFTER = 10  # seconds in which what was under way may still fail
PATIENCE = 120


class Faults:
    def __init__(self, server, random):
        self.server, self.random = server, random
        self.counts, self.bag = collections.Counter(), []
        self.started_again = 0
        self.slowest = 0
        self.busy, self.until = False, 0

    def excused(self):
        """Whether a call may fail now: something is being killed, or was a moment ago."""
        return self.busy or time.monotonic() < self.until

    def strike(self):
        # Each kind once, then each again, in another order.
        self.bag = self.bag or self.random.sample(KINDS, len(KINDS))
        kind = self.bag.pop()
        began = time.monotonic()
        self.busy = True
        try:
            if kind == "engine":
                self.engine()
            else:
                self.program(kind)
        finally:
            self.until = time.monotonic() + AFTER
            self.busy = False
        self.counts[kind] += 1
        self.slowest = max(self.slowest, time.monotonic() - began)

    def engine(self):
        """dockerd and its containerd at once; the sandboxes live on."""
        engine = self.server.engine
        engine.down(signal.SIGKILL)
        engine.start()
        self.healthy()

    def program(self, name):
        s = self.server
        victim = next((p for p in s.pids()[name] if alive(p) and send(p)), None)
        if victim is None:
            return  # a session has just ended by itself
        assert wait_until(lambda: not alive(victim)), f"{name} outlives SIGKILL"
        self.healthy(victim)

    def whole(self, victim):
        """All programs run, and none of them is that one."""
        pids = self.server.pids()
        return (
            all(pids[p] for p in PROGRAMS[:6]) and victim not in [p for v in pids.values() for p in v] and self.server.api.fresh().healthy()
        )

    def healthy(self, victim=0):
        s = self.server
        settled = wait_until(lambda: s.process.poll() is not None or self.whole(victim), PATIENCE, 0.1)
        assert settled, f"not whole again after {PATIENCE} s:\n{s.tail()}"
        if s.process.poll() is not None:
            # The parent was killed, or ended itself after many restarts.
            self.started_again += 1
            s.start()
