"""Audit logs made by the test, with checkpoints that the openssl command has signed."""

import hashlib
import json
import struct
import subprocess
import tempfile

INSTANCE = "01234567-89ab-4cde-8f01-23456789abcd"
ZEROS = "0" * 64


def digest(line):
    return hashlib.sha256(line.encode()).hexdigest()


def openssl(*words, data=None):
    return subprocess.run(["openssl", *words], input=data, check=True, capture_output=True).stdout


class Signer:
    def __init__(self, seed=b"s" * 32):
        self.der = bytes.fromhex("302e020100300506032b657004220420") + seed  # PKCS #8, RFC 8410
        self.key = openssl("pkey", "-inform", "DER", "-pubout", "-outform", "DER", data=self.der)[-32:].hex()

    def checkpoint(self, upto, head, at, instance=INSTANCE):
        text = f"agent-sandbox audit checkpoint v1\n{instance}\n{upto}\n{head}\n{at}\n"
        with tempfile.NamedTemporaryFile() as key, tempfile.NamedTemporaryFile() as data:
            key.write(self.der), data.write(text.encode())
            key.flush(), data.flush()
            words = ["-sign", "-rawin", "-inkey", key.name, "-keyform", "DER", "-in", data.name]
            signature = openssl("pkeyutl", *words).hex()
        return {"action": "checkpoint", "instance": instance, "upto": upto, "head": head, "at": at, "key": self.key, "signature": signature}


class Log:
    """Lines as managerd writes them."""

    def __init__(self):
        self.lines, self.seq, self.prev = [], 0, ZEROS

    def time(self):
        s = self.seq
        return f"2026-11-{1 + s // 1440:02d}T{s // 60 % 24:02d}:{s % 60:02d}:00.000000Z"

    def add(self, **members):
        members = members or {"action": "expire", "target": "sb_0123456789abcdef", "reason": "its time was over"}
        when = self.time()
        self.seq += 1
        line = json.dumps(members | {"time": when, "seq": self.seq, "prev": self.prev}, separators=(",", ":"))
        self.lines.append(line)
        self.prev = digest(line)
        return line

    def sign(self, signer):
        return self.add(**signer.checkpoint(self.seq, self.prev, self.time()))

    def text(self):
        return "".join(x + "\n" for x in self.lines)


def keyd_remembers(data, signer, seq, head):
    """keyd's file (common/audit_state.h), as if it had signed last the line with this number and hash."""
    (data / "keyd").mkdir(exist_ok=True)
    first = b"ASAUDIT1" + bytes(32)
    slot = struct.pack("=QQQ", 1, seq, 0) + bytes.fromhex(head)
    parts = [part + hashlib.sha256(part).digest() for part in (first, slot)]
    (data / "keyd/audit").write_bytes(parts[0].ljust(512, b"\0") + parts[1].ljust(1024, b"\0"))
    (data / "keyd/audit.pub").write_text(signer.key + "\n")


def sample(signer=None, n=10, each=5):
    """A checkpoint after every few lines."""
    log = Log()
    for i in range(n):
        log.add()
        if signer and i % each == each - 1:
            log.sign(signer)
    return log


def chained(lines):
    """The same lines, made to fit again: numbers and hashes."""
    log = Log()
    for line in lines:
        entry = json.loads(line)
        for name in ("seq", "prev"):
            del entry[name]
        log.seq += 1
        text = json.dumps(entry | {"seq": log.seq, "prev": log.prev}, separators=(",", ":"))
        log.lines.append(text)
        log.prev = digest(text)
    return log
