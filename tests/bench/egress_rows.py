"""The measurements of the way out: a sandbox, the server, and a host in a network namespace, beside a direct connection."""

import json
import statistics
import subprocess
import sys
import time

from client import BLOCK, Raw, percentile
from egress_scene import ECHO, HOST4, NetServer, World, within
from rows import MS, TEXT, WRITER, both, mid
from watch import Growth, init_pid

# Prints the seconds of COUNT times: connect (through SOCKS5, if told so), one byte there, one byte back.
FIRST = """
import json, socket, struct, sys, time
host, port, count, socks, took = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), len(sys.argv) > 4, []
for _ in range(count):
    time.sleep(0.05)
    began = time.perf_counter()
    s = socket.create_connection(("127.0.0.1", 1080) if socks else (host, port))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if socks:
        s.sendall(b"\\5\\1\\0")
        s.recv(2)
        s.sendall(b"\\5\\1\\0\\1" + socket.inet_aton(host) + struct.pack(">H", port))
        s.recv(10)
    s.sendall(b"x")
    s.recv(1)
    took.append(time.perf_counter() - began)
    s.close()
print(json.dumps(took))
"""
# Prints the seconds of getting, or sending, SIZE bytes.
BULK = """
import socket, sys, time
host, port, size, up = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
s = socket.create_connection((host, port))
s.sendall(b"%d %d\\n" % (size, up))
block, n, began = bytearray(1 << 20), 0, time.perf_counter()
while up and n < size:
    n += s.send(block)
if up:
    s.shutdown(1)
    s.recv(1)
while not up and n < size:
    n += s.recv_into(block)
print(time.perf_counter() - began)
"""
CROWD = """
import socket, sys, threading, time
host, port, count, ok = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), []
def one(i):
    data = bytes([i % 251]) * 65536
    s = socket.create_connection((host, port), 30)
    s.settimeout(30)
    s.sendall(data)
    s.shutdown(1)
    ok.append(b"".join(iter(lambda: s.recv(65536), b"")) == data)
threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
began = time.perf_counter()
for t in threads: t.start()
for t in threads: t.join()
print(count - sum(ok), time.perf_counter() - began)
"""


def bulk(sock):
    """ "SIZE UP\\n": sends so many bytes, or takes them and says one when they are here."""
    line = b""
    while not line.endswith(b"\n"):
        line += sock.recv(1)
    size, up = map(int, line.split())
    block = bytearray(BLOCK)
    while not up and size > 0:
        size -= sock.send(memoryview(block)[: min(size, BLOCK)])
    while up and sock.recv_into(block):
        pass
    if up:
        sock.sendall(b"x")


def direct(world, source, *arguments):
    """What a program prints that is where egressd is."""
    command = [sys.executable, "-c", source, *map(str, arguments)]
    p = within(world.net.egress, lambda: subprocess.Popen(command, stdout=subprocess.PIPE))
    out = p.communicate(timeout=300)[0]
    if p.returncode != 0:
        raise RuntimeError(f"direct: {p.returncode}")
    return out


def first_byte(b, world, box):
    limit, ours, named, n = [], [], [], b.n(40, 10)
    for _ in range(3):
        limit += json.loads(direct(world, FIRST, HOST4, 7777, n))
        ours += json.loads(box.sh(["python3", "-c", FIRST, HOST4, "7777", str(n), "socks"]))
        named += json.loads(box.sh(["python3", "-c", FIRST, ECHO, "7777", str(n)]))
    b.row("egress, first byte, spaced", both(limit), both(ours), "p50 <= limit + 2 ms", mid(ours) <= mid(limit) + 0.002,
          limit_p50=mid(limit), p50=mid(ours), p95=percentile(ours, 95))  # fmt: skip
    b.note(f"by name, which asks the test's name server twice: {both(named)}")


def attach_rate(b, raw, size):
    name, sock, _ = raw.start(["python3", "-c", "input()\n" + WRITER.format(line=TEXT, size=size)])
    sock.sendall(b"\n")
    rate = size / raw.read(sock, size)
    sock.close()
    raw.remove(name)
    return rate


def throughput(b, world, server, box):
    size = b.n(256, 32) * BLOCK
    raw = Raw(b.engine, server.containers(box.id)[0])
    pids = [*server.tree(), init_pid(b.engine, server.containers(box.id)[0])]
    limit, rates = [], {"in": [], "out": []}
    for _ in range(b.n(3, 1)):
        limit.append(attach_rate(b, raw, size))
        for way, up in (("in", 0), ("out", 1)):
            with Growth(pids) as growth:
                seconds = float(box.sh(["python3", "-c", BULK, ECHO, "7778", str(size), str(up)], timeout_seconds=120))
            rates[way].append(size / seconds)
            b.flat(f"egress, {way}", growth)
    for way, ours in rates.items():
        b.row(f"egress, one connection, {way}", f"{mid(limit) / 1e6:.0f} MB/s", f"{mid(ours) / 1e6:.0f} MB/s", ">= 0.4 x raw attach",
              mid(ours) >= 0.4 * mid(limit), limit_is=mid(limit), ours_is=mid(ours))  # fmt: skip


def crowd(b, server, box):
    count, bad, took = b.n(200, 50), 0, []
    pids = [*server.tree(), init_pid(b.engine, server.containers(box.id)[0])]
    with Growth(pids) as growth:
        for _ in range(b.n(3, 1)):
            errors, seconds = box.sh(["python3", "-c", CROWD, ECHO, "7777", str(count)], timeout_seconds=120).split()
            bad += int(errors)
            took.append(float(seconds))
            time.sleep(1)
    b.row(f"egress, {count} connections at once", "", f"{bad} errors, {statistics.median(took) * MS:.0f} ms", "no error", bad == 0, errors=bad,
          ours_is=mid(took))  # fmt: skip
    b.flat("egress, many connections", growth)


def egress(b):
    """Connections out of a sandbox by the host's name, beside the same program next to egressd."""
    world = World()
    server = NetServer(b.engine, world, EGRESS_RATE=10000).start()
    try:
        with world.serve(7778, bulk):
            box = server.api.create(egress_allowlist=[ECHO + ":7777", ECHO + ":7778", HOST4 + ":7777"], timeout_seconds=3600)
            first_byte(b, world, box)
            throughput(b, world, server, box)
            crowd(b, server, box)
    finally:
        server.close()
        world.close()


ROWS = {"egress": egress}
