#!/usr/bin/env python3
"""Writes the seeds of egressd's fuzz target into tests/fuzz/corpus/egress_look/: hellos of a real TLS library, whole and
cut into records, and requests."""

import ssl
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "proc"))

from egress_kit import client_hello, in_records, record  # noqa: E402

OLD = {"maximum_version": ssl.TLSVersion.TLSv1_2}


def hello(name=None, **settings):
    return client_hello(name, **settings)


SEEDS = {
    "hello": hello("example.com"),
    "hello-1.2": hello("example.com", **OLD),
    "hello-no-name": hello(),
    "hello-other": hello("other.example"),
    "hello-records": in_records(hello("example.com", **OLD), 7),
    "hello-alert": record(b"\1\0", kind=21) + hello("other.example"),
    "sslv2": b"\x80\x2e\1\3\1\0\x15\0\0\0\x10",
    "get": b"GET /x HTTP/1.1\r\nHost: example.com\r\nAccept: */*\r\n\r\n",
    "absolute": b"GET http://example.com:80/x HTTP/1.1\r\nHost: example.com\r\n\r\n",
    "two-hosts": b"GET / HTTP/1.1\r\nHost: example.com\r\nHost: other.example\r\n\r\n",
    "bare-lf": b"GET / HTTP/1.1\r\nHost: other.example\n\nx\r\nHost: example.com\r\n\r\n",
    "v6": b"GET / HTTP/1.1\r\nHost: [2600::1]:80\r\n\r\n",
    "ssh": b"SSH-2.0-x\r\n",
    "h2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}

folder = HERE / "corpus" / "egress_look"
folder.mkdir(parents=True, exist_ok=True)
for name, data in SEEDS.items():
    (folder / name).write_bytes(data)
