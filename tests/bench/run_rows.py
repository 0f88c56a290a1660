"""One-shot runs, with and without sandboxes that are ready, beside the interpreter on this machine and the engine's own calls."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

from client import Http, Raw
from harness import KEY, Server
from rows import both, mid, spawn

CODE = "print(1)"
AT_ONCE = 8
NATIVE = ("/usr/bin/python3", "-c", CODE)


def run(http):
    """Seconds of one run, from the first byte sent to the last one received."""
    data = http.request("POST", "/v1/run", {"code": CODE})
    began = time.perf_counter()
    http.send(data)
    status, got = http.receive()
    took = time.perf_counter() - began
    if status != 200 or json.loads(got)["stdout"] != "1\n":
        raise RuntimeError(f"run: {status} {got!r}")
    return took


def native_at_once():
    """Seconds of as many interpreters on this machine, all at once."""
    quiet = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
    began = time.perf_counter()
    pids = [os.posix_spawn(NATIVE[0], NATIVE, os.environ, file_actions=quiet) for _ in range(AT_ONCE)]
    for pid in pids:
        os.waitpid(pid, 0)
    return time.perf_counter() - began


def refilled(server):
    server.pool_full(120)
    time.sleep(0.3)  # its making is over, and the machine is still


def runs(b):
    """print(1) in a sandbox of its own: out of the pool, eight at once, and without a pool."""
    limit, one, eight, eight_native = [], [], [], []
    server = Server(b.engine, POOL=AT_ONCE, MAX_SANDBOXES=2 * AT_ONCE).start()
    try:
        https = [Http(server.port, KEY) for _ in range(AT_ONCE)]
        refilled(server)
        run(https[0])
        for _ in range(b.n(40, 6)):
            refilled(server)
            limit += spawn(b, 0, 1, *NATIVE)
            one.append(run(https[0]))
        for _ in range(b.n(8, 3)):
            refilled(server)
            eight_native.append(native_at_once())
            began = time.perf_counter()
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(run, https))
            eight.append(time.perf_counter() - began)
    finally:
        server.end()
        server.remove()
    ratio, ratio8 = mid(one) / mid(limit), mid(eight) / mid(limit)
    b.row("run print(1)", both(limit), f"{both(one)} ({ratio:.2f} x)", "p50 <= 3 x limit", ratio <= 3, limit_is=mid(limit),
          p50=mid(one), ratio=ratio)  # fmt: skip
    b.row("run print(1), eight at once", f"{both(eight_native)} ({mid(eight_native) / mid(limit):.1f} x)", f"{both(eight)} ({ratio8:.1f} x)",
          "<= 8 x one native", ratio8 <= 8, limit_is=mid(eight_native), p50=mid(eight), ratio=ratio8)  # fmt: skip
    without_pool(b)


def without_pool(b):
    """Beside the engine's own calls for such a container, and the interpreter."""
    raw, http, limit, ours = Raw(b.engine, b.container(b.box())), b.http(), [], []
    run(http)
    for _ in range(b.n(15, 4)):
        time.sleep(0.3)
        name, sock, took = raw.start()
        limit.append(took + spawn(b, 0, 1, *NATIVE)[0])
        sock.close()
        raw.remove(name)
        time.sleep(0.3)
        ours.append(run(http))
    ratio = mid(ours) / mid(limit)
    b.row("run print(1), no pool", both(limit), f"{both(ours)} ({ratio:.2f} x)", "p50 <= 1.10 x limit", ratio <= 1.1, limit_is=mid(limit),
          p50=mid(ours), ratio=ratio)  # fmt: skip


ROWS = {"runs": runs}
