"""What the tests ask of the machine: of processes, any of which may end between two questions, and for ports; and how they wait.

A process that has ended, or that is not ours to ask, answers each question with nothing (an empty text, table or list, 0), and no
question raises an error because of it. A test that must not be satisfied by that asserts that the process is alive, or that the
answer is there.
"""

import contextlib
import os
import random
import re
import signal
import socket
import time
from pathlib import Path

SLACK = 5  # seconds that a busy machine may add to what a program promises
TICKS = os.sysconf("SC_CLK_TCK")


def wait_until(check, seconds=30, step=0.02):
    """What check says when it is true at last, or the last time. Costs its seconds only where a test fails anyway."""
    end = time.monotonic() + seconds
    while not (got := check()) and time.monotonic() < end:
        time.sleep(step)
    return got


def read(pid, name):
    """The bytes of /proc/PID/NAME."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/{name}", "rb") as f:
        return f.read()
    return b""


def link(pid, name):
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/{name}")
    return ""


def entries(pid, name):
    with contextlib.suppress(OSError):
        return os.listdir(f"/proc/{pid}/{name}")
    return []


def everyone():
    return [int(p) for p in os.listdir("/proc") if p.isdigit()]


def stat(pid):
    """The fields behind the name: state, parent, …"""
    return read(pid, "stat").decode(errors="replace").rpartition(")")[2].split()


def state(pid):
    """Its letter; X when it is gone."""
    return (stat(pid) or "X")[0]


def alive(pid):
    """A zombie has ended, though nobody has fetched it yet."""
    return state(pid) not in "ZX"


def status(pid):
    return dict(re.findall(r"^(\w+):[ \t]*(.*)$", read(pid, "status").decode(errors="replace"), re.M))


def kib(pid, name, file="status"):
    """One of the sizes in a table."""
    found = re.search(rf"^{name}:\s+(\d+)", read(pid, file).decode(errors="replace"), re.M)
    return int(found[1]) if found else 0


def command_line(pid):
    return read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")


def descriptors(pid):
    """What each number is open on; without those that were closed while they were looked at."""
    held = {int(n): link(pid, f"fd/{n}") for n in entries(pid, "fd")}
    return {n: target for n, target in held.items() if target}


def children(pid):
    return [int(c) for task in entries(pid, "task") for c in read(pid, f"task/{task}/children").split()]


def _descendants(pid):
    out = [pid]
    for p in out:
        out += children(p)
    return out[1:]


def descendants(pid):
    """The kernel may pass over a child while another one ends: asked until two answers in a row are the same."""
    found = _descendants(pid)
    for _ in range(50):
        before, found = found, _descendants(pid)
        if found == before:
            break
    return found


def processor_time(pid):
    """Seconds that it has used, without its children."""
    return sum(map(int, stat(pid)[11:13])) / TICKS


def processor_time_of_all(pid):
    """Seconds that it and its descendants have used. One that has ended counts with whoever has fetched it: asked again when that
    happens between two of the questions, so that nothing is counted twice or left out."""
    for _ in range(50):
        pids = [pid, *descendants(pid)]
        used = sum(sum(map(int, stat(p)[11:15])) for p in pids) / TICKS
        if pids == [pid, *descendants(pid)]:
            break
    return used


def send(pid, sig=signal.SIGKILL):
    """Whether it was there to get the signal."""
    assert pid > 0, "0 would be the test's own process group"
    try:
        os.kill(pid, sig)
    except ProcessLookupError:
        return False
    return True


def free_port():
    """One that no outgoing connection is given by chance between this choice and its use, nor while a server is away for a moment."""
    end = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.SystemRandom().sample(range(min(10240, end // 2), end), 200):
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no port is free")
