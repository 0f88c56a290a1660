"""Where an answer ends, for whoever reads it strictly: on every route, with every method and version, kept or not."""

import json
import re

import layout
import pytest
from apid_server import AUTH, BOX_URL, SNAPSHOT, Server

SECOND = b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
BODIES = {
    "timeout": {"timeout_seconds": 5},
    "exec": {"command": "echo hi"},
    "stream": {"command": "echo hi"},
    "rollback": {"snapshot_id": SNAPSHOT},
    "run": {"code": "x"},
}


@pytest.fixture(scope="module")
def server():
    with Server() as s:
        s.files["/workspace/f"] = bytes(200_000)
        s.names = [b"%0200d" % i for i in range(1000)]  # more than is kept before the answer begins
        yield s


def targets():
    """Each path of the table once, and some that are not in it."""
    source = (layout.ROOT / "apid/routes.h").read_text()
    defines = dict(re.findall(r'^#define (\w+_PATH) "(.*)"$', source, re.M))
    rows = re.findall(r"^\tX\(\w+, \w+, \w+, \w+, ([^,]+), \w+\)", source, re.M)
    for pattern in dict.fromkeys("".join(defines.get(p, p.strip('"')) for p in row.split()) for row in rows):
        path = pattern.replace("/v1/sandboxes/{sandbox_id}", BOX_URL).replace("{snapshot_id}", SNAPSHOT).replace("{name}", "x")
        yield path + ("?path=f" if path.endswith(("/files", "/archive")) else "")
    yield from ("/none", BOX_URL + "/files?path=none", "/v1/sandboxes?limit=x")


def strict(data, method):
    """Status, whether it says that the connection ends, and what stands behind the answer; None where only the end of all is its end."""
    head, blank, rest = data.partition(b"\r\n\r\n")
    assert blank, data[:300]
    first, *lines = head.split(b"\r\n")
    assert re.match(rb"HTTP/1\.[01] \d{3} ", first), first[:300]
    fields = {}
    for line in lines:
        name, value = line.split(b": ", 1)
        assert name.lower() not in fields, f"twice: {line}"
        fields[name.lower()] = value.lower()
    said, status = fields.get(b"connection"), int(first.split()[1])
    ends = said == b"close" or (said is None and first.startswith(b"HTTP/1.0"))
    if method == "HEAD" or status in (204, 304):
        return status, ends, rest
    if b"transfer-encoding" in fields:
        assert first.startswith(b"HTTP/1.1") and fields[b"transfer-encoding"] == b"chunked" and b"content-length" not in fields
        while (n := int(rest[: rest.index(b"\r\n")], 16)) > 0:
            rest = rest[rest.index(b"\r\n") + 2 + n :]
            assert rest[:2] == b"\r\n"
            rest = rest[2:]
        assert rest[:5] == b"0\r\n\r\n"
        return status, ends, rest[5:]
    if b"content-length" not in fields:
        return status, ends, None
    assert len(rest) >= int(fields[b"content-length"]), head
    return status, ends, rest[int(fields[b"content-length"]) :]


@pytest.mark.parametrize("keep", ["HTTP/1.0 keep-alive", "HTTP/1.0", "HTTP/1.1", "HTTP/1.1 close"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"])
def test_answer_ends_where_it_says_and_the_next_one_is_that_of_the_next_request(server, method, keep):
    version, _, word = keep.partition(" ")
    for path in targets():
        body = BODIES.get(path.partition("?")[0].rsplit("/", 1)[1], {}) if method in ("POST", "PUT") else None
        data = b"" if body is None else json.dumps(body).encode()
        lines = (f"Connection: {word}\r\n" if word else "") + (f"Content-Length: {len(data)}\r\n" if data else "")
        with server.connect() as s:
            s.sendall(f"{method} {path} {version}\r\nHost: a\r\n{lines}".encode() + AUTH + b"\r\n" + data + SECOND)
            got = b""
            while more := s.recv(1 << 20):
                got += more
        status, ends, rest = strict(got, method)
        assert ends == (rest in (b"", None)), (path, status, ends, got[:300], got[-100:])
        if not ends:
            assert strict(rest, "GET") == (200, True, b""), (path, status, rest[:300])
