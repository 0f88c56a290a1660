#!/usr/bin/env python3
"""Writes the seeds of apid's fuzz targets into tests/fuzz/corpus/."""

import base64
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "proc"))

from http_rows import ROWS  # noqa: E402

BOX = "/v1/sandboxes/sb_0123456789abcdef"
SNAP = "/v1/snapshots/snap_0123456789abcdef"
AUTH = b"Authorization: Bearer test-key-0123456789\r\n"
STDIN = base64.urlsafe_b64encode(b'{"command":["cat"]}').decode().rstrip("=")
BODIES = [
    {"command": "echo hi", "env": {"A": "b", "é": "x"}, "workdir": "sub", "timeout_seconds": 1.5, "stdin": "text"},
    {"command": ["a", "b\0", ""]},
    {"image": "python:3.12-slim", "cpus": 0.5, "memory_mb": 64, "network": None, "labels": {"a": "b"}, "egress_allowlist": []},
    {"a": 17, "b": 0.1, "c": {"x": "y"}, "d": True, "e": "\u2615"},
    {"a": 1e300, "b": -1, "c": {"": "y"}, "d": None},
    {"name": "n"},
    {"snapshot_id": "snap_0123456789abcdef"},
    {"timeout_seconds": 5},
]
RAW_BODIES = [
    b'{"a":1e400}',
    b"[" * 40,
    b'{"a":1,"a":2}',
    b'{"command":"\\ud83d\\ude00\\u0000"}',
    b'{"a":99999999999999999999}',
    b"null",
    b"",
]


def request(method, path, body=None, *lines):
    out = f"{method} {path} HTTP/1.1\r\nHost: a\r\n".encode() + AUTH + b"".join(x.encode() + b"\r\n" for x in lines)
    if body is not None:
        out += f"Content-Length: {len(body)}\r\n".encode()
    return out + b"\r\n" + (body or b"")


def requests():
    for tail in ("", "/files?path=a", "/files/list?path=.", "/files/archive?path=/", "?detail=true"):
        yield request("GET", BOX + tail)
    yield request("HEAD", BOX + "/files?path=a", None, "Range: bytes=0-3")
    for path in ("/healthz", "/v1/sandboxes?label=a=b&limit=5", "/v1/snapshots", SNAP, "/nope"):
        yield request("GET", path)
    for path in (BOX, SNAP):
        yield request("DELETE", path)
    for body in BODIES:
        for path in (
            "/v1/sandboxes",
            BOX + "/exec",
            BOX + "/exec/stream?detail=true",
            BOX + "/timeout",
            BOX + "/snapshots",
            SNAP + "/fork",
        ):
            yield request("POST", path, json.dumps(body).encode())
    yield request("POST", BOX + "/rollback", json.dumps(BODIES[6]).encode())
    for path in (BOX + "/files?path=x&mode=755", BOX + "/files/archive?path=x"):
        yield request("PUT", path, b"hello", "Expect: 100-continue")
        yield request("PUT", path, None, "Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\n\r\n"
    yield request("POST", f"{BOX}/exec/stream?request={STDIN}&encoding=base64", b"stdin")
    yield request("POST", f"{BOX}/exec/stream?request={STDIN}", None, "Transfer-Encoding: chunked") + b"2\r\nab\r\n0\r\n\r\n"
    yield request("GET", BOX) + request("POST", BOX + "/exec", b'{"command":"x"}') + request("GET", "/x", None, "Connection: close")


def seeds():
    rows = [sent.encode("latin-1") for _, sent, _ in ROWS if len(sent) < 8000]
    for sent in rows + list(requests()):
        yield "apid_head", sent.split(b"\r\n\r\n")[0] + b"\r\n\r\n"
    for basic in (b"box:key-0123456789", b"nothing"):
        yield "apid_head", b"GET / HTTP/1.0\r\nAuthorization: Basic " + base64.b64encode(basic) + b"\r\nX-API-Key: key\r\n\r\n"
    yield "apid_head", b"PUT /x HTTP/1.1\r\nHost: [::1]:80\r\nOrigin: http://[::1]:80\r\nSec-Fetch-Site: none\r\n\r\n"
    for sent in rows:
        if b"chunked" in sent:
            for step in (0, 3, 255):
                yield "chunk", bytes([step]) + sent.split(b"\r\n\r\n", 1)[1]
    for q in (
        "a?path=x",
        "/a?path=%2Fb%2f..%00&x=1",
        "?path=a+b&path=c",
        "/x?path=../../e/./f//",
        "/?x=%zz&&=&path",
        "bytes=1-2",
        "bytes=-5",
        "bytes=9-",
    ):
        yield "path_query", q.encode()
    for body in BODIES:
        yield "json_in", json.dumps(body).encode()
        yield "json_in", json.dumps(body, ensure_ascii=False).encode()
    for body in RAW_BODIES:
        yield "json_in", body
    for text in ("plain text", 'é☕😀\0\n"\\\x7f', "x" * 5000):
        for step in (0, 2, 100):
            yield "utf8_json", bytes([step]) + text.encode()
    for raw in (b"\xff\xfe", b"\xe2\x98", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf\xf0\x9f\x98", bytes(range(256))):
        yield "utf8_json", b"\x01" + raw
    for i, sent in enumerate(rows):
        yield "gate", bytes([i * 7 % 256, (255, 128, 30)[i % 3]]) + sent
    for i, sent in enumerate(requests()):
        for mood in (37, 75, 217, 3):  # exec; a download; an upload or an error; a refusal
            yield "gate", bytes([mood, (255, 100, 200)[i % 3]]) + sent


def main():
    count = {}
    for name, data in seeds():
        folder = HERE / "corpus" / name
        folder.mkdir(parents=True, exist_ok=True)
        count[name] = count.get(name, 0) + 1
        (folder / f"seed-{count[name]:03}").write_bytes(data)
    print(count)


if __name__ == "__main__":
    main()
