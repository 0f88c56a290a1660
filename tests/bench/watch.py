"""What the server's programs use while something runs: memory, descriptors, CPU time."""

import threading

from machine import everyone, kib, read, status


def pss(pid):
    return kib(pid, "Pss", "smaps_rollup")


def private(pid):
    """What only this process has and has written: unlike its share, it does not change with its neighbours."""
    return kib(pid, "Private_Dirty", "smaps_rollup")


def init_pid(engine, container):
    """Of the container's PID 1, out here: the engine counts in a namespace of its own."""
    made = engine.call("GET", f"/containers/{container}/json")["Id"]
    for p in everyone():
        if made.encode() in read(p, "cgroup") and status(p).get("NSpid", "").split()[-1:] == ["1"]:
            return p
    raise RuntimeError(f"no process of {container}")


class Growth(threading.Thread):
    """By how much each program's resident memory went over what it was at the beginning, at most (KiB)."""

    def __init__(self, pids):
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self.before = {p: kib(p, "VmRSS") for p in pids}
        self.most = dict.fromkeys(pids, 0)
        self.names = {p: read(p, "comm").decode().strip() or "?" for p in pids}

    def run(self):
        while not self.stop.wait(0.02):
            for p, before in self.before.items():
                self.most[p] = max(self.most[p], kib(p, "VmRSS") - before)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.join()

    def worst(self):
        p = max(self.most, key=self.most.get)
        return self.most[p], self.names[p]
