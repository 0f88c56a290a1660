#!/usr/bin/env python3
"""Writes the seeds of keyd's fuzz target into tests/fuzz/corpus/keyd_input/: what a server signs, and what is near to it."""

from pathlib import Path

VERIFY = b" " * 64 + b"TLS 1.3, server CertificateVerify\0"
RANDOMS = bytes(range(64))
SEEDS = {
    "verify-sha256": VERIFY + bytes(range(32)),
    "verify-sha384": VERIFY + bytes(range(48)),
    "verify-sha512": VERIFY + bytes(range(64)),
    "verify-client": VERIFY.replace(b"server", b"client") + bytes(32),
    "exchange-p256": RANDOMS + b"\3\0\x17\x41\4" + bytes(64),
    "exchange-p384": RANDOMS + b"\3\0\x18\x61\4" + bytes(96),
    "exchange-x25519": RANDOMS + b"\3\0\x1d\x20" + bytes(32),
    "exchange-p521": RANDOMS + b"\3\0\x19\x85\4" + bytes(132),
    "exchange-x448": RANDOMS + b"\3\0\x1e\x38" + bytes(56),
    "exchange-compressed": RANDOMS + b"\3\0\x17\x21\2" + bytes(32),
    "exchange-explicit": RANDOMS + b"\1\0\x17\x41\4" + bytes(64),
    "empty": b"",
    "text": b"a text of the asker's own choice",
}

folder = Path(__file__).resolve().parent / "corpus" / "keyd_input"
folder.mkdir(parents=True, exist_ok=True)
for name, data in SEEDS.items():
    (folder / name).write_bytes(data)
