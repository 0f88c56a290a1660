"""What the soak counts when everything is at rest, and how growth is judged."""

import os
import re
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from harness import PROGRAMS
from machine import command_line, descriptors, kib, read, wait_until

PROGRAM_KIB = 512  # a program may have become larger by so much in a calm part
FORGOTTEN = "processes and cgroups that the killed engine forgot"
ID = re.compile(r"[0-9a-f]{64}")
PROGRAM_FDS = 3  # kept connections to the engine come and go


def cgroups(engine):
    """Paths below the engine's, in all hierarchies."""
    tops = [Path("/sys/fs/cgroup"), *(p for p in Path("/sys/fs/cgroup").glob("*/") if not p.is_symlink())]
    return [os.path.join(at, d) for top in tops for at, dirs, _ in os.walk(top / engine.cgroup.lstrip("/")) for d in dirs]


def whose(pid):
    """Where a container's id would be: a shim has it among its arguments, everything else in the name of its cgroup."""
    return command_line(pid) + read(pid, "cgroup").decode(errors="replace")


def shared(engine, texts):
    """(how many are the engine's own or of containers that it knows, how many of containers that it has forgotten)"""
    known = {c["Id"] for c in engine.call("GET", "/containers/json?all=1")}
    forgotten = sum(bool(ids - known) for ids in (set(ID.findall(t)) for t in texts))
    return len(texts) - forgotten, forgotten


def left(server):
    """What is there when no sandbox is: what the full pool has, which is always as much, and nothing else. What an engine that was killed
    has forgotten nobody can remove through its API: it is counted, and fails only when the engine was left in peace."""
    engine = server.engine
    containers, volumes = server.labelled()
    processes, lost_processes = shared(engine, [whose(p) for p in engine.inside()])
    groups, lost_groups = shared(engine, cgroups(engine))
    return {
        "sandboxes": len(server.api.ids()),
        "containers": len(containers),
        "volumes": len(volumes),
        "sessions": len(server.pids()["sessiond"]),
        "processes on the engine": processes,
        "cgroups": groups,
        "mounts": read(engine.holder(), "mounts").count(b"\n"),
        "files of sandboxes and snapshots": sum(len(list((server.data / d).iterdir())) for d in ("sandboxes", "snapshots")),
        FORGOTTEN: lost_processes + lost_groups,
    }


def used(server):
    """Resident memory (KiB that only this program has) and descriptors, by program; sessions come and go with their sandboxes."""
    out = {}
    for name, pids in server.pids().items():
        if name in PROGRAMS[:6] and pids:
            out[name] = kib(pids[0], "Private_Dirty", "smaps_rollup"), len(descriptors(pids[0]))
    return out


@dataclass
class Sample:
    cycle: int
    used: dict
    left: dict


def at_rest(server, cycle, expected=None, seconds=90):
    """A sample when all is quiet: the pool is full, nothing is on its way. What is expected to be left is waited for; without an
    expectation it is what stays the same for a while."""
    server.api.delete_all()
    server.pool_full(seconds)
    server.clean(seconds)
    if expected is None:
        before = {}
        while (found := left(server)) != before:
            before = found
            time.sleep(2)
    else:
        wait_until(lambda: all(n <= expected[what] for what, n in left(server).items() if what != FORGOTTEN), seconds, 0.5)
    return Sample(cycle, used(server), left(server))


def slope(points):
    """Of the line through them (the median of the slopes of all pairs): a single outlier changes nothing."""
    slopes = [(y2 - y1) / (x2 - x1) for i, (x1, y1) in enumerate(points) for x2, y2 in points[i + 1 :] if x2 != x1]
    return statistics.median(slopes) if slopes else 0.0


@dataclass
class Row:
    what: str
    first: float
    last: float
    per_1000: float
    bound: str
    good: bool


def growth(samples, what, pick, most):
    points = [(s.cycle, pick(s)) for s in samples]
    rate = slope(points)
    span = points[-1][0] - points[0][0]
    return Row(what, points[0][1], points[-1][1], rate * 1000, f"+{most} over {span:,} cycles", rate * span <= most)


def judge_programs(samples):
    """Of processes that were there from the first of these samples to the last."""
    rows = []
    for name in samples[0].used if samples else ():
        kept = [s for s in samples if name in s.used]
        rows.append(growth(kept, f"{name}: memory of its own (KiB)", lambda s, n=name: s.used[n][0], PROGRAM_KIB))
        rows.append(growth(kept, f"{name}: descriptors", lambda s, n=name: s.used[n][1], PROGRAM_FDS))
    return rows


def judge_left(samples, engine_killed):
    """Nothing may be left of anything: the last count is the first."""
    rows = []
    for name, first in samples[0].left.items():
        last, excused = samples[-1].left[name], name == FORGOTTEN and engine_killed
        rate = slope([(s.cycle, s.left[name]) for s in samples]) * 1000
        rows.append(Row(name, first, last, rate, "not ours" if excused else "+0", excused or last <= first))
    return rows
