"""The pool: what a claim costs, how fast the pool fills again, what a sandbox that waits takes."""

import time
from datetime import datetime
from pathlib import Path

from client import Http
from harness import KEY, Server
from machine import read
from rows import both, made, mid
from watch import init_pid, pss

SIZE = 4


def claims(b, server):
    """A create with default limits, one with others, a fork, a rollback; each from a full pool."""
    http = Http(server.port, KEY)
    box = server.api.create(timeout_seconds=3600)
    http.ask("PUT", box.path + "/files?path=small", b"small")
    snap = http.ask("POST", box.path + "/snapshots", {})["id"]
    plan = (
        ("claim, default limits", "/v1/sandboxes", {}, 201, 0.010),
        ("claim, other limits (an update)", "/v1/sandboxes", {"memory_mb": 768, "cpus": 0.5}, 201, 0.025),
        ("fork from the pool", f"/v1/snapshots/{snap}/fork", {}, 201, None),
        ("rollback from the pool", box.path + "/rollback", {"snapshot_id": snap}, 200, None),
    )
    times = {row[0]: [] for row in plan}
    for _ in range(b.n(15, 3)):
        for what, path, body, expect, _ in plan:
            server.pool_full()
            time.sleep(0.3)
            times[what].append(made(http, path, body, expect))
    missed = server.pool()["misses"]
    for what, _, _, _, goal in plan:
        p50 = mid(times[what])
        b.row(what, "", both(times[what]), f"p50 <= {goal * 1000:.0f} ms" if goal else "", p50 <= goal if goal else None, p50=p50)
    if missed:
        b.note(f"{missed} of them were not served from the pool")


def memory_of(b, name):
    """All that the kernel counts for one member: its cgroup, and the sessiond in front of it."""
    pid = init_pid(b.engine, name)
    for line in read(pid, "cgroup").decode().splitlines():
        _, controllers, path = line.split(":", 2)
        for base, file in (("memory", "memory.usage_in_bytes"), ("", "memory.current")):
            counter = Path("/sys/fs/cgroup", base, path.lstrip("/"), file)
            if base == controllers and counter.exists():
                return pss(pid), int(counter.read_text()) >> 10
    return pss(pid), 0


def seconds_of_filling(b, server):
    """From when the first member was begun to when the last one ran, by the engine's clock."""
    members = [b.engine.call("GET", f"/containers/{n}/json") for n in server.labelled()[0]]
    begun = min(moment(m["Created"]) for m in members)
    return max(moment(m["State"]["StartedAt"]) for m in members) - begun


def moment(text):
    """Seconds of an RFC 3339 time with nanoseconds, which Python does not read."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(whole + "+00:00").timestamp() + float("0." + (fraction or "0"))


def pool(b):
    """A server with a pool beside the one without."""
    size = b.n(20, 6)
    with_pool = {"POOL_MEMORY_MB": 512 * size, "MAX_SANDBOXES": 20, "REAP_INTERVAL_SECONDS": 5}
    server = Server(b.engine, POOL=SIZE, **with_pool).start().pool_full()
    try:
        claims(b, server)
        server.api.delete_all()
    finally:
        server.close()
    server = Server(b.engine, POOL=size, **with_pool).start()
    try:
        server.pool_full()
        rate = size / seconds_of_filling(b, server)
        b.row(f"refill of {size}", "", f"{rate:.1f}/s", ">= 4/s", rate >= 4, rate=rate)
        time.sleep(2)
        sessions = [pss(p) for p in server.pids()["sessiond"]]
        members = [memory_of(b, n) for n in server.labelled()[0]]
        init, cgroup = mid([m[0] for m in members]), mid([m[1] for m in members])
        total = mid(sessions) + max(init, cgroup)
        b.row("memory of a sandbox that waits", "", f"{total / 1024:.2f} MiB", "<= 3 MiB", total <= 3072, kib=total)
        b.note(
            f"sessiond {mid(sessions) / 1024:.2f} MiB, sandbox-init {init / 1024:.2f} MiB, all that its cgroup counts {cgroup / 1024:.2f} MiB"
        )
    finally:
        server.close()


ROWS = {"pool": pool}
