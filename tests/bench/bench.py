"""Measures the server beside the limits in the same run, on an engine of its own: prints a table, writes build/bench.json.

Absolute times differ between machines: what counts is the distance to the limit in the same run (posix_spawn, the engine's
own calls, tar). "p50 / p95"; spaced means 100 ms apart, which is what a person sees. Nothing here passes or fails.
"""

import argparse
import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
import audit_rows  # noqa: E402
import client_rows  # noqa: E402
import egress_rows  # noqa: E402
import front_rows  # noqa: E402
import metrics_rows  # noqa: E402
import pool_rows  # noqa: E402
import rows  # noqa: E402
import run_rows  # noqa: E402
import tls_rows  # noqa: E402
from client import Http  # noqa: E402
from harness import BUILD, KEY, Api, Engine, Server  # noqa: E402
from watch import private  # noqa: E402

OTHERS = egress_rows.ROWS | front_rows.ROWS | tls_rows.ROWS | metrics_rows.ROWS | audit_rows.ROWS
ROWS = rows.ROWS | run_rows.ROWS | pool_rows.ROWS | client_rows.ROWS | OTHERS
HEAD = ("operation", "limit", "ours", "goal", "met")


class Bench:
    """One engine, one server, and the table."""

    def __init__(self, options, work):
        self.quick, self.cycles = options.quick, options.cycles or (20 if options.quick else 100)
        self.key, self.rows, self.kept = KEY, [], []
        self.work, self.spawn = work, work / "spawn"
        subprocess.run([os.environ.get("CC", "gcc"), "-O2", "-o", self.spawn, HERE / "spawn.c"], check=True)
        if options.engine:
            self.engine = Engine.at(options.engine)
        else:
            self.engine = Engine(work / "engine")
            atexit.register(self.engine.stop)
            self.engine.start()
            self.engine.load_images()
        self.server = Server(self.engine, MAX_SANDBOXES=150, MAX_FILE_BYTES=2 << 30, MAX_SNAPSHOT_BYTES=2 << 30, REAP_INTERVAL_SECONDS=5)
        atexit.register(self.server.remove)
        self.server.start()
        self.url = self.server.url
        self.api = Api(self.url)

    def n(self, full, quick):
        return quick if self.quick else full

    def http(self):
        return Http(self.server.port, KEY)

    def make(self, **spec):
        return self.api.create(timeout_seconds=3600, **spec)

    def boxes(self, count):
        """So many sandboxes, kept for the rows that follow."""
        while len(self.kept) < count:
            self.kept.append(self.make())
        return self.kept[:count]

    def box(self):
        return self.boxes(1)[0]

    def container(self, box):
        return self.server.containers(box.id)[0]

    def tar_of(self, box):
        answer = self.api.ask("GET", box.path + "/files/archive?path=/workspace")
        assert answer.status_code == 200
        return answer.content

    def holdings(self):
        """What the server uses and holds now."""
        containers, volumes = self.server.on_engine()
        groups = sum(1 for _ in Path("/sys/fs/cgroup").glob("*" + self.engine.cgroup + "/*"))
        memory = sum(private(p) for n, v in self.server.pids().items() if n != "sessiond" for p in v)
        return {
            "memory_kib": memory,
            "descriptors": self.server.descriptors(),
            "containers": len(containers),
            "volumes": len(volumes),
            "cgroups": groups,
        }

    def row(self, operation, limit, ours, goal, met, **numbers):
        self.rows.append({"operation": operation, "limit": limit, "ours": ours, "goal": goal, "met": met, **numbers})
        print(self.line((operation, limit, ours, goal, {True: "yes", False: "NO", None: ""}[met])), flush=True)

    def flat(self, what, growth):
        kib, name = growth.worst()
        text = f"{what}: memory grew by {kib / 1024:.1f} MiB at most ({name})"
        if kib > 8192:
            text += ": NOT FLAT"
        self.note(text)

    def note(self, text):
        print("    " + text, flush=True)
        self.rows.append({"note": text})

    @staticmethod
    def line(cells):
        return "| " + " | ".join(f"{c:<{w}}" for c, w in zip(cells, (36, 19, 40, 24, 3), strict=True)) + " |"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("rows", nargs="*", help=f"only these: {' '.join(ROWS)}")
    ap.add_argument("--quick", action="store_true", help="small sizes and counts: whether it runs, not how fast it is")
    ap.add_argument("--cycles", type=int, help="of create, exec, delete (100)")
    ap.add_argument("--engine", help="directory of an engine that tests/engine.py has started")
    o = ap.parse_args()
    work = Path(tempfile.mkdtemp(prefix="as-bench-"))
    work.chmod(0o755)
    atexit.register(shutil.rmtree, work, True)
    b = Bench(o, work)
    began = os.getloadavg()
    print(f"{os.cpu_count()} cores, kernel {os.uname().release}, load {began[0]:.1f}, {time.strftime('%F %T')}\n")
    print(b.line(HEAD) + "\n" + b.line(["-" * w for w in (36, 19, 40, 24, 3)]), flush=True)
    for name in o.rows or ROWS:
        ROWS[name](b)
    print(f"\nload at the end {os.getloadavg()[0]:.1f}")
    b.api.delete_all()
    b.server.end()
    result = {"cores": os.cpu_count(), "kernel": os.uname().release, "load": [began, os.getloadavg()], "quick": o.quick, "rows": b.rows}
    (BUILD / "bench.json").write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
