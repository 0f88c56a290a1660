"""Many connections: idle ones, and attempts of one address beside a client of another."""

import os
import resource
import socket
import subprocess
import time
from pathlib import Path

from client import percentile
from harness import Server
from rows import ms
from watch import pss

IDLE, RATE, HELD = 2000, 10_000, 1024
ASK = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def latencies(port, seconds):
    """Of a client that asks each 2 ms on a kept connection."""
    took, end = [], time.monotonic() + seconds
    with socket.create_connection(("127.0.0.1", port), 30) as s:
        while time.monotonic() < end:
            began = time.perf_counter()
            s.sendall(ASK)
            s.recv(65536)
            took.append(time.perf_counter() - began)
            time.sleep(0.002)
    return took


def all_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)


def idle_connections(b):
    """Plain ones that have each asked once."""
    all_descriptors()
    server = Server(b.engine, POOL=0, MAX_CONNECTIONS_PER_ADDRESS=0).start()
    try:
        apid = server.pids()["apid"][0]
        before, socks = pss(apid), []
        for _ in range(IDLE):
            socks.append(socket.create_connection(("127.0.0.1", server.port), 30))
            socks[-1].sendall(ASK)
            socks[-1].recv(65536)
        kib = pss(apid)
        for s in socks:
            s.close()
    finally:
        server.end()
        server.remove()
    b.row(f"{IDLE:,} idle connections: apid", "", f"{kib / 1024:.1f} MiB, {(kib - before) / IDLE:.1f} KiB each", "<= 40 MiB",
          kib <= 40 * 1024, kib=kib, before=before)  # fmt: skip


def flood(b):
    """Attempts from 127.0.0.9, most of them cut, beside a client from 127.0.0.1."""
    tool, seconds = b.work / "flood", b.n(10, 4)
    subprocess.run([os.environ.get("CC", "gcc"), "-O2", "-o", tool, Path(__file__).parent / "flood.c"], check=True)
    server = Server(b.engine, POOL=0, MAX_CONNECTIONS_PER_ADDRESS=HELD).start()
    try:
        quiet = latencies(server.port, seconds)
        p = subprocess.Popen([tool, "127.0.0.9", str(server.port), str(RATE), str(seconds + 2)], stdout=subprocess.PIPE, text=True)
        time.sleep(1)
        took = latencies(server.port, seconds)
        made = int(p.communicate()[0].split()[0]) / (seconds + 2)
    finally:
        server.end()
        server.remove()
    limit, p99 = percentile(quiet, 99), percentile(took, 99)
    b.row(f"{made:,.0f} connection attempts a second: another's p99", ms(limit), ms(p99), "< 20 ms", p99 < 0.02, quiet=limit, p99=p99,
          rate=made)  # fmt: skip


ROWS = {f.__name__: f for f in (idle_connections, flood)}
