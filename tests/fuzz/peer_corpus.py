#!/usr/bin/env python3
"""Writes the seeds of fuzz_peer into tests/fuzz/corpus/peer."""

import socket
import struct
from pathlib import Path

OUT = Path(__file__).resolve().parent / "corpus" / "peer"
SIGN = b"\r\n\r\n\0\r\nQUIT\n"
FOUR = socket.inet_aton("203.0.113.9") + socket.inet_aton("192.0.2.1") + struct.pack("!HH", 4711, 443)
SIX = socket.inet_pton(socket.AF_INET6, "2001:db9::7") + socket.inet_pton(socket.AF_INET6, "::1") + struct.pack("!HH", 4711, 443)
TLV = b"\x02\x00\x04host" + b"\x05\x00\x02id"


def header(command, family, body):
    return SIGN + bytes([command, family]) + struct.pack("!H", len(body)) + body


def head(*values):
    return b"GET / HTTP/1.1\r\nHost: a\r\n" + b"".join(b"X-Forwarded-For: " + v + b"\r\n" for v in values) + b"\r\n"


SEEDS = [
    header(0x21, 0x11, FOUR) + b"GET /",
    header(0x21, 0x11, FOUR + TLV),
    header(0x21, 0x21, SIX + TLV),
    header(0x20, 0x00, b""),
    header(0x20, 0x11, FOUR),
    header(0x21, 0x00, TLV),
    header(0x21, 0x31, bytes(216)),
    header(0x21, 0x12, FOUR),
    header(0x22, 0x11, FOUR),
    header(0x31, 0x11, FOUR),
    header(0x21, 0x11, FOUR[:-1]),
    header(0x21, 0x21, SIX[:-1]),
    header(0x21, 0x11, FOUR + bytes(4080 - len(FOUR))),
    header(0x21, 0x11, FOUR + bytes(4081 - len(FOUR))),
    b"PROXY TCP4 203.0.113.9 192.0.2.1 4711 443\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    head(b"203.0.113.9"),
    head(b"evil, 203.0.113.9, 10.1.2.3"),
    head(b"203.0.113.9:80, [2001:db8::5]:443,10.1.2.3"),
    head(b"198.51.100.1", b"127.0.0.2, 10.1.2.3"),
    head(b""),
    head(b",,"),
    head(b"\t 203.0.113.9 \t"),
    head(b"2001:db9::7"),
    head(b"[2001:db9::7"),
    head(b"unknown, 10.1.2.3"),
    head(b"1" * 80),
]

OUT.mkdir(parents=True, exist_ok=True)
for i, seed in enumerate(SEEDS):
    (OUT / f"seed-{i + 1:03}").write_bytes(bytes([i % 7]) + seed)
