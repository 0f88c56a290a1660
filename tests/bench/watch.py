"""What the server's programs use while something runs: memory, descriptors, CPU time."""

import contextlib
import os
import re
import threading
from pathlib import Path


def field(pid, name, file="status"):
    """In KiB; 0 for a process that is gone."""
    with contextlib.suppress(OSError, TypeError):
        return int(re.search(rf"^{name}:\s+(\d+)", Path(f"/proc/{pid}/{file}").read_text(), re.M)[1])
    return 0


def pss(pid):
    return field(pid, "Pss", "smaps_rollup")


def private(pid):
    """What only this process has and has written: unlike its share, it does not change with its neighbours."""
    return field(pid, "Private_Dirty", "smaps_rollup")


def cpu_seconds(pid):
    with contextlib.suppress(OSError):
        parts = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def init_pid(engine, container):
    """Of the container's PID 1, out here: the engine counts in a namespace of its own."""
    made = engine.call("GET", f"/containers/{container}/json")["Id"]
    for p in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if made in Path(f"/proc/{p}/cgroup").read_text() and re.search(r"^NSpid:.*\t1$", Path(f"/proc/{p}/status").read_text(), re.M):
                return int(p)
    raise RuntimeError(f"no process of {container}")


class Growth(threading.Thread):
    """By how much each program's resident memory went over what it was at the beginning, at most (KiB)."""

    def __init__(self, pids):
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self.before = {p: field(p, "VmRSS") for p in pids}
        self.most = dict.fromkeys(pids, 0)
        self.names = {p: (Path(f"/proc/{p}/comm").read_text().strip() or "?") for p in pids}

    def run(self):
        while not self.stop.wait(0.02):
            for p, before in self.before.items():
                self.most[p] = max(self.most[p], field(p, "VmRSS") - before)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.join()

    def worst(self):
        p = max(self.most, key=self.most.get)
        return self.most[p], self.names[p]
