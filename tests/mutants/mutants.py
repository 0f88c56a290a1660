#!/usr/bin/python3
"""Changes the sources in small ways, one at a time, and looks whether the unit and process tests notice: a table, and who survived.

The changes are drawn by a fixed seed from all that mutate.py finds in proto, common, dockerd-proxy and keyd. One that does not compile does
not count. Fails when fewer than 90 % are caught. Needs root; the work tree stays as it is. A run that is interrupted has its table, too.
"""

import argparse
import collections
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.dont_write_bytecode = True
import covers  # noqa: E402
import tree  # noqa: E402
from mutate import KINDS, mutants  # noqa: E402

SOURCES = ("proto/*.h", "common/*.c", "dockerd-proxy/*.c", "keyd/*.c")
ENOUGH = 90  # percent
UNIT_CPU = 30  # the slowest takes four
UNIT_SECONDS, PROC_SECONDS = 120, 400
PYTEST = ["build/venv/bin/python", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=line"]


def all_of(root):
    return [m for pattern in SOURCES for f in sorted(root.glob(pattern)) for m in mutants(str(f.relative_to(root)), f.read_text())]


def drawn(every, seed):
    """In a random order, all kinds equally often as long as there are of each."""
    rng, by_kind = random.Random(seed), {k: [m for m in every if m.kind == k] for k in KINDS}
    for ms in by_kind.values():
        rng.shuffle(ms)
    return [m for row in itertools.zip_longest(*by_kind.values()) for m in row if m]


def goals(units, proc):
    programs = [p for _, _, names in proc for p in names.split()]
    return [f"build/tests/unit/{u}" for u in units] + [p if p in ("all", "probes") else f"build/{p}" for p in dict.fromkeys(programs)]


def noticed(there, units, proc):
    """By which test, or None; the programs of process tests are built when they are needed."""
    for name in units:
        status, out = tree.run(there, [f"build/tests/unit/{name}"], UNIT_SECONDS, UNIT_CPU)
        if status:
            return name
    for file, word, programs in proc:
        if programs and tree.make(there, *goals((), ((file, word, programs),)))[0]:
            return "the compiler"
        status, out = tree.run(there, [*PYTEST, f"tests/proc/{file}", *(["-k", word] if word else [])], PROC_SECONDS, "unlimited")
        if status not in (0, 1):
            raise RuntimeError(f"{file}: pytest ended with {status}:\n{out[-1500:]}")
        if status:
            return file
    return None


class Run:
    def __init__(self, base, work, wanted):
        self.base, self.work, self.wanted = base, work, wanted
        self.lock, self.number, self.sound = threading.Lock(), 0, set()
        self.caught, self.survived, self.unbuilt = [], [], 0

    def one(self, m):
        """caught by what, "survived", or "unbuilt"."""
        units, proc = covers.of(m.path)
        with self.lock:
            self.number += 1
            place = self.work / str(self.number)
        with tree.layer(self.base, place) as there:
            source = there / m.path
            source.write_text(m.apply(source.read_text()))
            if tree.make(there, *goals(units, ()), *([f"build/obj/{m.path[:-2]}.o"] if m.path.endswith(".c") else []))[0]:
                return "unbuilt"
            try:
                return noticed(there, units, proc) or "survived"
            except tree.Late:
                return "time"

    def trusted(self, m, what):
        """A test that has noticed something must pass without the change; each is asked once."""
        if what in self.sound or what in ("unbuilt", "survived", "time", "the compiler"):
            return
        units, proc = covers.of(m.path)
        with tree.layer(self.base, self.work / f"sound-{m.at}-{what}") as there:
            if noticed(there, [u for u in units if u == what], [p for p in proc if p[0] == what]):
                raise RuntimeError(f"{what} fails without any change")
        self.sound.add(what)

    def take(self, queue):
        while True:
            with self.lock:
                m = next(queue, None)
                if m is None or len(self.caught) + len(self.survived) >= self.wanted:
                    return
            began = time.monotonic()
            what = self.one(m)
            self.trusted(m, what)
            with self.lock:
                if what == "unbuilt":
                    self.unbuilt += 1
                    continue
                (self.survived if what == "survived" else self.caught).append(m)
                print(f"{len(self.caught) + len(self.survived):4} {time.monotonic() - began:4.0f} s  {what:<24} {m}", flush=True)


def table(run, percent, seed):
    out = ["| changed | caught | survived |", "| --- | --- | --- |"]
    for title, key in (("kind", lambda m: m.kind), ("folder", lambda m: m.path.split("/")[0])):
        caught, survived = (collections.Counter(map(key, ms)) for ms in (run.caught, run.survived))
        out += [f"| {title} {k} | {caught[k]} | {survived[k]} |" for k in sorted(caught | survived)]
    out += [
        f"| **all** | {len(run.caught)} | {len(run.survived)} |",
        "",
        f"{percent:.1f} % caught, seed {seed}; {run.unbuilt} did not compile.",
        "",
    ]
    return "\n".join(out + [f"- {m}" for m in sorted(run.survived, key=lambda m: (m.path, m.at))]) + "\n"


def options():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--count", type=int, default=int(os.environ.get("MUTANTS") or 200))
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--only", default="", help="only in paths with this word")
    ap.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    ap.add_argument("--list", action="store_true", help="print what would be changed")
    return ap.parse_args()


def hunt(o, work):
    chosen = [m for m in drawn(all_of(tree.ROOT), o.seed) if o.only in m.path]
    base = work / "base"
    base.mkdir()
    tree.copy(base)
    some = chosen[: o.count * 2]
    wanted = sorted({g for m in some for g in goals(*covers.of(m.path))} | {"build/keyd"})
    status, out = tree.make(base, *wanted, jobs=o.jobs)
    if status:
        sys.exit(f"mutants: the tree does not build:\n{out[-3000:]}")
    run, queue = Run(base, work, o.count), iter(chosen)
    with ThreadPoolExecutor(o.jobs) as pool:
        try:
            for f in [pool.submit(run.take, queue) for _ in range(o.jobs)]:
                f.result()
        except KeyboardInterrupt:
            print("mutants: stopped; the table is of what there is", flush=True)
        finally:
            run.wanted = 0  # whatever ends this early ends the others after what they are at
    return run


def main():
    o = options()
    if o.list:
        print("\n".join(map(str, [m for m in drawn(all_of(tree.ROOT), o.seed) if o.only in m.path][: o.count])))
        return 0
    if os.geteuid() != 0:
        sys.exit("mutants: the process tests need root")
    tree.apart()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    work = Path(tempfile.mkdtemp(prefix="as-mutants-"))
    work.chmod(0o755)
    try:
        run = hunt(o, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    all_n = len(run.caught) + len(run.survived)
    percent = 100 * len(run.caught) / max(1, all_n)
    page = table(run, percent, o.seed)
    print(page)
    good = percent >= ENOUGH and all_n >= min(o.count, 1)
    print(f"mutants: {len(run.caught)} of {all_n} caught" + ("" if good else f": fewer than {ENOUGH} %"))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
