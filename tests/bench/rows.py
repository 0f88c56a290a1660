"""The measurements, one function for each row or group of rows of the table."""

import json
import re
import statistics
import subprocess
import time
from functools import partial

from client import BLOCK, Raw, many, percentile
from machine import processor_time, wait_until
from watch import Growth, init_pid, pss

MS = 1000.0
TEXT = (b"0123456789abcdef" * 4)[:63] + b"\n"
# Writes SIZE bytes of text lines in blocks of 64 KiB: the program is never what is measured.
WRITER = "import os,sys\nb=({line!r}*1024)\nfor _ in range({size}//65536):\n v=memoryview(b)\n while v: v=v[os.write(1,v):]\n"
MAKE_FILES = "import os\nfor i in range({n}):\n d=f'd{{i//100}}'\n os.makedirs(d,exist_ok=True)\n open(f'{{d}}/{{i}}','w').write((f'{{i}} some text of this file\\n'*200)[:4096])"


def ms(seconds):
    return f"{seconds * MS:.2f} ms"


def mid(values):
    return statistics.median(values)


def both(values):
    return f"{mid(values) * MS:.2f} / {percentile(values, 95) * MS:.2f} ms"


def repeat(n, gap, call):
    out = []
    for _ in range(n):
        time.sleep(gap)
        out.append(call())
    return out


def get_rate(b):
    """GET of a sandbox over 32 kept connections."""
    box = b.box()
    command = ["wrk", "-t1", "-c32", f"-d{2 if b.quick else 5}s", "--latency", "-H", f"X-API-Key: {b.key}", f"{b.url}{box.path}"]
    rates, tails = [], []
    for _ in range(b.n(3, 1)):
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        rates.append(float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]))
        value, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", out).groups()
        tails.append(float(value) * {"us": 1e-6, "ms": 1e-3, "s": 1}[unit])
        if "Non-2xx" in out or "Socket errors" in out:
            raise RuntimeError(out)
    b.row("GET, 32 connections", "", f"{mid(rates):,.0f}/s, p99 {ms(mid(tails))}", ">= 15,000/s, p99 < 5 ms",
          mid(rates) >= 15000 and mid(tails) < 0.005, rate=mid(rates), p99=mid(tails))  # fmt: skip


def spawn(b, gap_ms, count, *command):
    out = subprocess.run([b.spawn, str(count), str(gap_ms), *command], capture_output=True, text=True, check=True).stdout
    return [int(v) / 1e9 for v in out.split()]


def execs(b):
    """`true` and `sh -c true`, as a person sees them (100 ms apart) and back to back; each beside posix_spawn."""
    box = b.box()
    http = b.http()
    for name, command, native in (("true", ["true"], ["/bin/true"]), ("sh -c true", "true", ["/bin/sh", "-c", "true"])):
        data = http.request("POST", box.path + "/exec", {"command": command})
        http.timed(data)
        for how, gap, count in (("spaced", 0.1, b.n(60, 20)), ("back to back", 0.0, b.n(500, 100))):
            limit, ours = [], []
            for _ in range(4):  # in turn, so that both see the same neighbours
                limit += spawn(b, gap * MS // 1, count // 4, *native) if gap else spawn(b, 0, count // 4, *native)
                ours += repeat(count // 4, gap, partial(http.timed, data))
            b.row(f"exec {name}, {how}", both(limit), both(ours), "p50 <= limit + 2 ms", mid(ours) <= mid(limit) + 0.002,
                  limit_p50=mid(limit), p50=mid(ours), p95=percentile(ours, 95))  # fmt: skip


def first_byte(b):
    """From the request to the first line of output, while the command goes on."""
    box, http, took = b.box(), b.http(), []
    data = http.request("POST", box.path + "/exec/stream", {"command": "echo hi; sleep 0.05"})
    for _ in range(b.n(60, 20)):
        time.sleep(0.1)
        began, got = time.perf_counter(), b""
        http.send(data)
        while b'"stdout"' not in got:
            got += http.sock.recv(65536)
        took.append(time.perf_counter() - began)
        while b"\r\n0\r\n\r\n" not in got:
            got += http.sock.recv(65536)
    b.row("exec/stream, first byte, spaced", "", both(took), "p50 <= 3 ms", mid(took) <= 0.003, p50=mid(took))


def stream_rate(b):
    """Output of a command through exec/stream, beside an attach of such a container; nobody's memory grows."""
    size = b.n(512, 64) * BLOCK
    source = WRITER.format(line=TEXT, size=size)
    box, limit, ours = b.box(), [], []
    container = b.container(box)
    raw = Raw(b.engine, container)
    http = b.http()
    data = http.request("POST", box.path + "/exec/stream", {"command": ["python3", "-c", source], "timeout_seconds": 300})
    pids = [*b.server.tree(), init_pid(b.engine, container)]
    for _ in range(b.n(3, 1)):
        name, sock, _ = raw.start(["python3", "-c", "input()\n" + source])
        sock.sendall(b"\n")
        limit.append(size / raw.read(sock, size))
        sock.close()
        raw.remove(name)
        with Growth(pids) as growth:
            ours.append(size / drain(http, data))
        b.flat("exec/stream", growth)
    b.row("exec/stream, throughput", f"{mid(limit) / 1e6:.0f} MB/s", f"{mid(ours) / 1e6:.0f} MB/s", ">= 0.6 x limit",
          mid(ours) >= 0.6 * mid(limit), limit_is=mid(limit), ours_is=mid(ours))  # fmt: skip


def drain(http, data):
    """Reads a chunked answer to its end: seconds."""
    buffer, tail = bytearray(BLOCK), b""
    began = time.perf_counter()
    http.send(data)
    while not tail.endswith(b"\r\n0\r\n\r\n"):
        n = http.sock.recv_into(buffer)
        if n == 0:
            raise ConnectionError("the stream was cut off")
        tail = (tail + bytes(buffer[max(0, n - 200) : n]))[-200:]
    if b'"exit_code":0' not in tail.replace(b" ", b""):
        raise RuntimeError(f"the stream ended with {tail!r}")
    return time.perf_counter() - began


def small_files(b):
    box, http, content = b.box(), b.http(), bytes(10240)
    http.ask("PUT", box.path + "/files?path=small", content)
    for name, data in (
        ("write 10 KB", http.request("PUT", box.path + "/files?path=small", content)),
        ("read 10 KB", http.request("GET", box.path + "/files?path=small")),
        ("list", http.request("GET", box.path + "/files/list?path=/workspace")),
    ):
        http.timed(data)
        spaced = repeat(b.n(40, 15), 0.1, partial(http.timed, data))
        tight = repeat(b.n(300, 60), 0, partial(http.timed, data))
        b.row(f"file {name}, spaced", "", both(spaced), "p50 <= 3 ms", mid(spaced) <= 0.003, p50=mid(spaced))
        b.row(f"file {name}, back to back", "", both(tight), "p50 <= 3 ms", mid(tight) <= 0.003, p50=mid(tight))


def big_files(b):
    """Files of 1 GiB in both directions, beside cat over an attach of such a container."""
    size = b.n(1024, 64) * BLOCK
    box, block = b.box(), TEXT * (BLOCK // len(TEXT))
    container = b.container(box)
    raw = Raw(b.engine, container)
    pids = [*b.server.tree(), init_pid(b.engine, container)]
    name, sock, _ = raw.start(["sh", "-c", f"head -c {size} >f; echo x; read y; cat f"])
    began = time.perf_counter()
    for _ in range(size // BLOCK):
        sock.sendall(block)
    sock.recv(9)
    write_limit = size / (time.perf_counter() - began)
    sock.sendall(b"\n")
    read_limit = size / raw.read(sock, size)
    sock.close()
    raw.remove(name)
    http = b.http()
    with Growth(pids) as growth:
        began = time.perf_counter()
        http.send(http.head("PUT", box.path + "/files?path=big", size))
        for _ in range(size // BLOCK):
            http.sock.sendall(block)
        status, got = http.receive()
        write = size / (time.perf_counter() - began)
        if status != 200:
            raise RuntimeError(got)
        buffer, began = bytearray(BLOCK), time.perf_counter()
        http.send(http.request("GET", box.path + "/files?path=big"))
        status, length, rest = http.receive_head()
        left = length - len(rest)
        while left:
            left -= http.sock.recv_into(buffer) or exit("a download was cut off")
        read = size / (time.perf_counter() - began)
    b.flat("files", growth)
    for what, limit, ours in (("write", write_limit, write), ("read", read_limit, read)):
        b.row(f"file {what}, {size >> 20} MiB", f"{limit / 1e6:.0f} MB/s", f"{ours / 1e6:.0f} MB/s", ">= 0.5 x limit",
              ours >= 0.5 * limit, limit_is=limit, ours_is=ours)  # fmt: skip
    http.ask("POST", box.path + "/exec", {"command": "rm big"})


def made(http, path, body, expect):
    """Seconds from a request that makes a sandbox (201), or rolls one back, to its answer. What was made goes again."""
    data = http.request("POST", path, body)
    began = time.perf_counter()
    http.send(data)
    status, got = http.receive()
    took = time.perf_counter() - began
    if status != expect:
        raise RuntimeError(f"{path}: {status} {got!r}")
    if expect == 201:
        http.ask("DELETE", f"/v1/sandboxes/{json.loads(got)['id']}")
    return took


def creates(b):
    """Create beside the engine's own calls for a container of the same shape, in turn; rollback and fork."""
    box, http = b.box(), b.http()
    raw = Raw(b.engine, b.container(box))
    http.ask("PUT", box.path + "/files?path=small", b"small")
    snap = http.ask("POST", box.path + "/snapshots", {})["id"]
    times = {"raw": [], "create": [], "fork": [], "rollback": []}
    plan = (
        ("create", "/v1/sandboxes", {}, 201),
        ("fork", f"/v1/snapshots/{snap}/fork", {}, 201),
        ("rollback", box.path + "/rollback", {"snapshot_id": snap}, 200),
    )
    for _ in range(b.n(15, 4)):
        time.sleep(0.3)
        name, sock, took = raw.start()
        times["raw"].append(took)
        sock.close()
        raw.remove(name)
        for what, path, body, expect in plan:
            time.sleep(0.3)
            times[what].append(made(http, path, body, expect))
    http.ask("DELETE", f"/v1/snapshots/{snap}")
    limit = times["raw"]
    for what, factor in (("create", 1.15), ("fork", 0), ("rollback", 0)):
        ratio = mid(times[what]) / mid(limit)
        b.row(f"{what}, no pool", both(limit), f"{both(times[what])} ({ratio:.2f} x)", f"p50 <= {factor} x limit" if factor else "",
              ratio <= factor if factor else None, limit_is=mid(limit), p50=mid(times[what]), ratio=ratio)  # fmt: skip


def snapshots(b):
    """10,000 files of 4 KiB: a snapshot beside tar in the sandbox; a fork of it beside a raw container and tar in it."""
    n = b.n(10000, 1000)
    http, save, restore, save_limit, restore_limit = b.http(), [], [], [], []
    box = b.make(memory_mb=1024)
    box.python(MAKE_FILES.format(n=n), timeout_seconds=60)
    raw = Raw(b.engine, b.container(box))
    for _ in range(b.n(3, 1)):
        time.sleep(b.n(6, 1))  # a file system that has just deleted as many files is slow for seconds
        box.sh("true")
        began = time.perf_counter()
        box.sh("tar -cf - . | cat >/dev/null")
        save_limit.append(time.perf_counter() - began)
        began = time.perf_counter()
        snap = http.ask("POST", box.path + "/snapshots", {})["id"]
        save.append(time.perf_counter() - began)
        tar = b.make(memory_mb=1024)
        box_tar = b.tar_of(box)
        tar.put("t.tar", box_tar)
        time.sleep(b.n(6, 1))
        began = time.perf_counter()
        tar.sh("mkdir x && tar -xf t.tar -C x", timeout_seconds=60)
        restore_limit.append(time.perf_counter() - began)
        name, sock, took = raw.start()
        sock.close()
        raw.remove(name)
        restore_limit[-1] += took
        began = time.perf_counter()
        fork = http.ask("POST", f"/v1/snapshots/{snap}/fork", {})
        restore.append(time.perf_counter() - began)
        http.ask("DELETE", f"/v1/sandboxes/{fork['id']}")
        http.ask("DELETE", f"/v1/snapshots/{snap}")
        tar.delete()
    box.delete()
    for what, limit, ours in (("snapshot of", save_limit, save), ("fork with", restore_limit, restore)):
        ratio = mid(ours) / mid(limit)
        b.row(f"{what} {n:,} files", ms(mid(limit)), f"{ms(mid(ours))} ({ratio:.2f} x)", "<= 1.5 x limit", ratio <= 1.5,
              limit_is=mid(limit), ours_is=mid(ours))  # fmt: skip


def crowd(b):
    """200 commands at once over 20 sandboxes."""
    boxes = b.boxes(b.n(20, 5))
    http = b.http()
    requests = [http.request("POST", boxes[i % len(boxes)].path + "/exec", {"command": ["true"]}) for i in range(b.n(200, 50))]
    many(b.server.port, requests)
    took, bad = [], 0
    for _ in range(b.n(5, 2)):
        some, statuses = many(b.server.port, requests)
        took += some
        bad += sum(s != 200 for s in statuses)
    p50, p99 = mid(took), percentile(took, 99)
    b.row(f"{len(requests)} execs at once, {len(boxes)} sandboxes", "", f"{bad} errors, p50 {ms(p50)}, p99 {ms(p99)}", "no error, p99 < 10 x p50",
          bad == 0 and p99 < 10 * p50, p50=p50, p99=p99, errors=bad)  # fmt: skip


def idle(b):
    """Memory and CPU of all programs beside sandboxes that do nothing."""
    boxes = b.boxes(b.n(20, 5))
    time.sleep(2)
    pids = b.server.pids()
    all_of_them = sum(pss(p[0]) for n, p in pids.items() if n != "sessiond")
    one = max(pss(p) for p in pids["sessiond"])
    init = max(pss(init_pid(b.engine, b.container(x))) for x in boxes)
    each = {n: pss(p[0]) for n, p in pids.items()}
    detail = ", ".join(f"{n} {k / 1024:.1f}" for n, k in each.items())
    b.row("memory (PSS): the programs", "", f"{all_of_them / 1024:.1f} MiB", "<= 16 MiB", all_of_them <= 16 * 1024, kib=each)
    b.note(detail)
    b.row("memory (PSS): a sessiond", "", f"{one / 1024:.2f} MiB", "<= 0.5 MiB", one <= 512, kib=one)
    b.row("memory (PSS): a sandbox-init", "", f"{init / 1024:.2f} MiB", "<= 1.5 MiB", init <= 1536, kib=init)
    tree = b.server.tree() + [init_pid(b.engine, b.container(x)) for x in boxes]
    names = [p for v in pids.values() for p in v]
    before = {p: processor_time(p) for p in tree}
    seconds = b.n(30, 5)
    time.sleep(seconds)
    used = {p: processor_time(p) - before[p] for p in tree}
    ours, inits = sum(used[p] for p in names), sum(v for p, v in used.items() if p not in names)
    share = (ours + inits) / seconds
    b.row(f"CPU of {len(boxes)} idle sandboxes", "", f"{share:.2%} of a core", "< 1 %", share < 0.01, share=share, inits=inits / seconds)


def cycles(b):
    """create, exec, delete, over and over: nothing grows."""
    count = b.cycles
    http = b.http()

    def cycle():
        made = http.ask("POST", "/v1/sandboxes", {})["id"]
        http.ask("POST", f"/v1/sandboxes/{made}/exec", {"command": "echo hi >f"})
        http.ask("DELETE", f"/v1/sandboxes/{made}")

    warm = min(200, max(10, count // 5))
    for _ in range(warm):
        cycle()
    time.sleep(2)
    before = b.holdings()
    for _ in range(count):
        cycle()
    # The engine cleans up behind its answer.
    wait_until(lambda: all(b.holdings()[k] <= before[k] for k in ("containers", "volumes", "cgroups")), step=0.5)
    after = b.holdings()
    grown = {k: after[k] - before[k] for k in before}
    ok = grown["memory_kib"] < 128 and grown["descriptors"] <= 2 and max(grown[k] for k in ("containers", "volumes", "cgroups")) <= 0
    text = ", ".join(f"{k} {v:+d}" for k, v in grown.items())
    b.row(f"{count} cycles after {warm}", "", text, "nothing grows", ok, **grown)


def restart(b):
    """Start with many sandboxes: to the open port, and until a command has run in each."""
    boxes = b.boxes(b.n(100, 10))
    opened, attached = [], []
    http = b.http()
    requests = [http.request("POST", x.path + "/exec", {"command": ["true"]}) for x in boxes]
    for _ in range(b.n(3, 1)):
        b.server.end()
        began = time.perf_counter()
        b.server.launch()
        while True:
            try:
                h = b.http()
                h.connect()
                h.sock.settimeout(5)
                break
            except OSError:
                time.sleep(0.001)
        opened.append(time.perf_counter() - began)
        h.close()
        wait_until(lambda: len(b.server.pids()["sessiond"]) >= len(boxes), step=0.01)
        _, statuses = many(b.server.port, requests)
        attached.append(time.perf_counter() - began)
        if set(statuses) != {200}:
            raise RuntimeError(f"after a restart: {statuses}")
        time.sleep(1)
    b.row(f"start with {len(boxes)} sandboxes: open port", "", ms(mid(opened)), "<= 200 ms", mid(opened) <= 0.2, ours_is=mid(opened))
    b.row("and until a command has run in each", "", ms(mid(attached)), "<= 2 s", mid(attached) <= 2, ours_is=mid(attached))


ROWS = {
    f.__name__: f
    for f in (get_rate, execs, first_byte, stream_rate, small_files, big_files, creates, snapshots, crowd, idle, cycles, restart)
}
