"""What TLS and a key file cost: requests on kept connections, handshakes, idle connections."""

import hashlib
import json
import re
import socket
import subprocess
from contextlib import contextmanager

from front import Plain, Tls
from front_rows import ASK, IDLE, all_descriptors
from harness import KEY, Server
from machine import free_port, wait_until
from rows import mid
from watch import pss


class Https:
    """Made when it is asked for: importing the rows makes no certificate."""

    front = None

    @classmethod
    def get(cls):
        cls.front = cls.front or Tls()
        return cls.front


@contextmanager
def served(b, front, **settings):
    kind = type("Fronted", (Server,), {"front": front})
    server = kind(b.engine, POOL=0, MAX_CONNECTIONS_PER_ADDRESS=0, **settings)
    server.api.session().verify = front.verify
    try:
        yield server.start()
        server.api.fresh().delete_all()
    finally:
        server.end()
        server.remove()


def rate(server, path, key, seconds):
    """Requests a second over 16 kept connections."""
    command = ["wrk", "-t1", "-c16", f"-d{seconds}s", "-H", f"X-API-Key: {key}", server.url + path]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in out or "Socket errors" in out:
        raise RuntimeError(out)
    return float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1])


def tls_get(b):
    """GET of a list over kept connections, plain and TLS in turn."""
    seconds, got = b.n(4, 2), {"plain": [], "tls": []}
    with served(b, Plain()) as plain, served(b, Https.get()) as tls:
        for _ in range(b.n(5, 2)):
            got["plain"].append(rate(plain, "/v1/sandboxes", KEY, seconds))
            got["tls"].append(rate(tls, "/v1/sandboxes", KEY, seconds))
    limit, ours = mid(got["plain"]), mid(got["tls"])
    b.row("GET over TLS 1.3, 16 connections", f"{limit:,.0f}/s (plain)", f"{ours:,.0f}/s, {ours / limit:.2f} x", ">= 0.8 x",
          ours >= 0.8 * limit, plain=limit, tls=ours)  # fmt: skip


def listens(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def handshakes(port, ca, seconds):
    command = ["openssl", "s_time", "-connect", f"127.0.0.1:{port}", "-new", "-time", str(seconds), "-CAfile", ca]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    count, real = re.search(r"(\d+) connections in (\d+) real seconds", out).groups()
    return int(count) / int(real)


def tls_handshakes(b):
    """New connections one after the other, beside OpenSSL's own server with the key in its memory."""
    front, seconds, port, got = Https.get(), b.n(4, 2), free_port(), {"limit": [], "ours": []}
    theirs = subprocess.Popen(
        ["openssl", "s_server", "-accept", str(port), "-cert", front.cert, "-key", front.key, "-quiet", "-www", "-num_tickets", "1"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert wait_until(lambda: listens(port))
        with served(b, front) as tls:
            for _ in range(b.n(5, 2)):
                got["limit"].append(handshakes(port, front.ca, seconds))
                got["ours"].append(handshakes(tls.port, front.ca, seconds))
    finally:
        theirs.kill()
        theirs.wait()
    limit, ours = mid(got["limit"]), mid(got["ours"])
    b.row("TLS handshakes, ECDSA P-256", f"{limit:,.0f}/s (s_server, key in it)", f"{ours:,.0f}/s, {ours / limit:.2f} x", ">= 0.8 x",
          ours >= 0.8 * limit, theirs=limit, rate=ours)  # fmt: skip


def idle_tls(b):
    """Connections over TLS that have each asked once."""
    all_descriptors()
    front = Https.get()
    with served(b, front) as server:
        apid = server.pids()["apid"][0]
        before, socks = pss(apid), []
        for _ in range(IDLE):
            socks.append(front.connect(server.port))
            socks[-1].sendall(ASK)
            socks[-1].recv(65536)
        kib = pss(apid)
        for s in socks:
            s.close()
    b.row(f"{IDLE:,} idle connections over TLS: apid", "", f"{kib / 1024:.1f} MiB, {(kib - before) / IDLE:.1f} KiB each", "<= 80 MiB",
          kib <= 80 * 1024, kib=kib, before=before)  # fmt: skip


def identities(b):
    """A key of the key file, of a tenant with quotas, beside one of API_KEYS; on one server, in turn."""
    seconds, key, file = b.n(4, 2), "bench-key-of-a-tenant-0123456789", b.work / "keys"
    quotas = {"sandboxes": 5, "requests_per_second": 1_000_000, "execs": 10}
    line = {"name": "bench", "tenant": "bench", "digest": hashlib.sha256(key.encode()).hexdigest(), "quotas": quotas}
    file.write_text(json.dumps(line) + "\n")
    file.chmod(0o600)
    got = {"plain": [], "tenant": []}
    with served(b, Plain(), KEYS_FILE=file) as server:
        for _ in range(b.n(6, 3)):
            got["plain"].append(rate(server, "/v1/sandboxes", KEY, seconds))
            got["tenant"].append(rate(server, "/v1/sandboxes", key, seconds))
    limit, ours = mid(got["plain"]), mid(got["tenant"])
    b.row("GET with a tenant's key and buckets", f"{limit:,.0f}/s", f"{ours:,.0f}/s, {ours / limit:.2f} x", ">= 0.97 x", ours >= 0.97 * limit,
          plain=limit, tenant=ours)  # fmt: skip


ROWS = {f.__name__: f for f in (tls_get, tls_handshakes, idle_tls, identities)}
