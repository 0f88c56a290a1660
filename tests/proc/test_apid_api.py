"""apid's API: keys, browsers, JSON bodies, and what each route asks of managerd and answers."""

import base64
import contextlib
import fcntl
import hashlib
import json
import select
import struct
import termios
import threading
import time

import layout
import pytest
import requests
from apid_server import BOX, BOX_URL, KEY, NOW, SNAP, SNAPSHOT, Server, error, head, post, statuses
from machine import wait_until

SNAP_URL = "/v1/snapshots/" + SNAPSHOT
RESULT = {"stdout", "stderr", "exit_code", "timed_out", "truncated", "duration_ms"}


@pytest.fixture(scope="module")
def server(kind):
    with kind() as s:
        yield s


@pytest.fixture(autouse=True)
def clean(request):
    if "server" in request.fixturenames:
        request.getfixturevalue("server").on.clear()


def ask(server, *headers, path=BOX_URL, method="GET"):
    text = f"{method} {path} HTTP/1.1\r\nHost: a\r\n" + "".join(h + "\r\n" for h in headers) + "\r\n"
    return statuses(server.raw(text.encode(), wait=3, parts=None)[0] if "close" in text else closing(server, text))


def closing(server, text):
    return server.raw(text.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n").encode(), wait=3)[0]


def basic(text):
    return "Authorization: Basic " + base64.b64encode(text.encode()).decode()


GOOD = [
    [f"Authorization: Bearer {KEY}"],
    [f"AUTHORIZATION: bearer   {KEY}"],
    [f"X-API-Key: {KEY}"],
    [f"x-api-key:   {KEY}  "],
    [f"Authorization: Bearer {KEY}", f"X-API-Key: {KEY}"],
    ["Authorization:", f"X-API-Key: {KEY}"],
    [f"Authorization: Bearer {KEY}", "X-API-Key:"],
    [basic(f"box:{KEY}")],
    [basic(f":{KEY}")],
    [basic(f"box:{KEY}").rstrip("=")],
    [basic(f"box:{KEY}"), f"X-API-Key: {KEY}"],
]
BAD = [
    [],
    ["Authorization:"],
    ["Authorization: Bearer"],
    ["Authorization: Bearer "],
    [f"Authorization: Basic {KEY}"],
    [f"Authorization: {KEY}"],
    [f"Authorization: Bearer {KEY}x"],
    [f"Authorization: Bearer {KEY[:-1]}"],
    [f"Authorization: Bearer,{KEY}"],
    [f"Authorization: Bearer {KEY},{KEY}"],
    [f"Authorization: Bearer {KEY} {KEY}"],
    [f"Authorization: Digest {KEY}"],
    ["Authorization: Bearer " + "x" * 5000],
    ["Authorization: Bearer \xe9"],
    ["X-API-Key:"],
    ["X-API-Key: ,"],
    [f"X-API-Key: {KEY},{KEY}"],
    [f"X-API-Key: Bearer {KEY}"],
    [f"X-API-Key: {KEY[:8]} {KEY[8:]}"],
    [f"Authorization: Bearer {KEY}", "X-API-Key: another-key-00000"],
    ["Authorization: Bearer another-key-00000", f"X-API-Key: {KEY}"],
    [basic(KEY)],
    [basic(f"box:{KEY}x")],
    [basic("box:")],
    ["Authorization: Basic !!!!"],
    ["Cookie: X-API-Key=" + KEY],
]


@pytest.mark.parametrize("headers", GOOD, ids=str)
def test_key_is_found(server, headers):
    assert ask(server, *headers) == [200]


@pytest.mark.parametrize("headers", BAD, ids=str)
def test_almost_a_key_is_none(server, headers):
    assert ask(server, *headers) == [401]


def test_two_of_one_key_header_are_refused_by_the_gate(server):
    assert ask(server, f"X-API-Key: {KEY}", f"X-API-Key: {KEY}") == [400]


def test_challenge_is_exactly_bearer(server):
    r = server("GET", BOX_URL, key=None)
    error(r, 401)
    assert r.headers["WWW-Authenticate"] == "Bearer"


ROUTES = [
    ("GET", "/v1/sandboxes"),
    ("POST", "/v1/sandboxes"),
    ("GET", BOX_URL),
    ("DELETE", BOX_URL),
    ("POST", BOX_URL + "/timeout"),
    ("POST", BOX_URL + "/exec"),
    ("POST", BOX_URL + "/exec/stream"),
    ("POST", BOX_URL + "/exec/stream?request=!"),
    ("GET", BOX_URL + "/files"),
    ("PUT", BOX_URL + "/files"),
    ("GET", BOX_URL + "/files/list?path="),
    ("GET", BOX_URL + "/files/archive"),
    ("PUT", BOX_URL + "/files/archive"),
    ("POST", BOX_URL + "/snapshots"),
    ("POST", BOX_URL + "/rollback"),
    ("GET", "/v1/snapshots?limit=x"),
    ("GET", SNAP_URL),
    ("DELETE", SNAP_URL),
    ("POST", SNAP_URL + "/fork"),
    ("GET", "/v1/sandboxes/nonsense"),
    ("GET", BOX_URL + "?detail=perhaps"),
]


@pytest.mark.parametrize("method, path", ROUTES)
def test_a_stranger_gets_401_whatever_else_is_wrong(server, method, path):
    for key in (None, "wrong-key-0123456789"):
        error(server(method, path, key=key), 401)
        if method in ("POST", "PUT"):
            error(server(method, path, key=key, data=b"{not json"), 401)
            error(server(method, path, key=key, data=b"{}", headers={"Content-Type": "text/plain"}), 401)


@pytest.mark.parametrize(
    "headers, status",
    [
        (["Host: localhost"], 200),
        (["Host: LOCALHOST:8080"], 200),
        (["Host: 127.0.0.1:1"], 200),
        (["Host: [::1]:8080"], 200),
        (["Host: a"], 200),
        (["Host: a:99"], 200),
        (["Host: evil.example"], 403),
        (["Host: localhost.evil.example"], 403),
        (["Host: 127.0.0.1.evil.example"], 403),
        (["Host: localhost:80:80"], 403),
        (["Host: localhost:x"], 403),
        (["Host: a, b"], 403),
        (["Host:"], 403),
        (["Host: [::1"], 403),
        (["Host: a", "Sec-Fetch-Site: same-origin"], 200),
        (["Host: a", "Sec-Fetch-Site: none"], 200),
        (["Host: a", "Sec-Fetch-Site: cross-site"], 403),
        (["Host: a", "Sec-Fetch-Site: same-site"], 403),
        (["Host: a", "Sec-Fetch-Site: "], 403),
        (["Host: localhost:8080", "Origin: http://localhost:8080"], 200),
        (["Host: localhost:8080", "Origin: http://LOCALHOST:8080"], 200),
        (["Host: localhost:8080", "Origin: http://localhost:9090"], 403),
        (["Host: localhost:8080", "Origin: http://evil.example"], 403),
        (["Host: localhost:8080", "Origin: null"], 403),
        (["Host: localhost:8080", "Origin: ftp://localhost:8080"], 403),
        (["Host: localhost:8080", "Origin: "], 403),
    ],
)
def test_browsers_of_other_pages_are_refused(server, headers, status):
    for path in ("/healthz", BOX_URL):
        text = f"GET {path} HTTP/1.1\r\nX-API-Key: {KEY}\r\n" + "".join(h + "\r\n" for h in headers) + "\r\n"
        assert statuses(closing(server, text)) == [status]


def test_http_1_0_without_host_passes(server):
    assert statuses(server.raw(b"GET /healthz HTTP/1.0\r\n\r\n")[0]) == [200]


def test_host_is_not_looked_at_on_another_address_than_loopback():
    with Server(HOST="192.0.2.1", ALLOWED_HOSTS="") as s:
        assert statuses(s.raw(head("GET", "/healthz", host=b"sandbox.example"))[0]) == [200]
        assert statuses(s.raw(head("GET", "/healthz", "Origin: http://evil.example"))[0]) == [403]


def test_options_never_invites_another_origin(server):
    r = server("OPTIONS", BOX_URL, key=None)
    assert r.status_code == 204 and "DELETE" in r.headers["Allow"]
    assert not [h for h in r.headers if h.lower().startswith("access-control")]


@pytest.mark.parametrize(
    "method, path, allow",
    [
        ("PUT", "/v1/sandboxes", "GET, HEAD, POST, OPTIONS"),
        ("PATCH", BOX_URL, "GET, HEAD, DELETE, OPTIONS"),
        ("GET", BOX_URL + "/exec", "POST, OPTIONS"),
        ("DELETE", BOX_URL + "/files", "GET, HEAD, PUT, OPTIONS"),
        ("POST", "/healthz", "GET, HEAD, OPTIONS"),
    ],
)
def test_wrong_method_is_405_and_names_the_right_ones(server, method, path, allow):
    r = server(method, path)
    error(r, 405)
    assert r.headers["Allow"] == allow


def test_paths_have_one_spelling(server):
    for path in (
        "/nope",
        "/v1",
        "/v1/",
        "/v1/sandboxes/",
        "/V1/sandboxes",
        "/v1/%73andboxes",
        "/v1//sandboxes",
        BOX_URL + "/",
        "/healthz/",
    ):
        assert statuses(server.raw(head("GET", path))[0]) == [404], path
    for id in ("sb_", BOX.upper(), BOX + "0", BOX[:-1], "..", "%2e%2e", BOX + "%00", "x" * 500, "sb_0000000000000000", SNAPSHOT):
        got = server.raw(head("GET", "/v1/sandboxes/" + id))[0]
        assert statuses(got) == [404] and b"not found" in got, id


def test_unknown_id_and_malformed_id_read_alike(server):
    assert error(server("GET", "/v1/sandboxes/sb_00000000000000aa"), 404) == "sandbox sb_00000000000000aa not found"
    assert error(server("GET", "/v1/sandboxes/sb_x"), 404) == "sandbox sb_x not found"
    assert error(server("GET", "/v1/snapshots/snap_x"), 404) == "snapshot snap_x not found"


NOT_JSON = [
    b"",
    b"{",
    b"nonsense",
    b"[]",
    b"5",
    b"null",
    b'{"command":"true"} extra',
    b"{'command':'true'}",
    b'{"command":"true",}',
    b"\xff\xfe",
    b'{"command":"\xff"}',
    b'{"command":"tr\nue"}',
    b"\0",
    b'{"command":NaN}',
    b'{"command":"true","timeout_seconds":Infinity}',
    b'"' + b"x" * 1000,
    b'{"command":"a","command":"b"}',
    b'{"command":"\\ud800"}',
    b'{"env":' * 50_000 + b"1" + b"}" * 50_000,
    b"[" * 200_000,
]


@pytest.mark.parametrize("body", NOT_JSON, ids=lambda b: b[:30].decode("latin-1"))
def test_body_that_is_not_json_is_422(server, body):
    got = server.raw(post(BOX_URL + "/exec", body), wait=3 if len(body) > 9999 else 1)[0]
    assert statuses(got) == [422] and b"validation_error" in got


EXEC = [
    ({}, 422, "command"),
    ({"command": 5}, 422, "command"),
    ({"command": None}, 422, "command"),
    ({"command": ["a", 1]}, 422, "command"),
    ({"command": {}}, 422, "command"),
    ({"command": ""}, 400, "command"),
    ({"command": "  \n"}, 400, "command"),
    ({"command": []}, 400, "command"),
    ({"command": [""]}, 400, "command"),
    ({"command": "a\0b"}, 400, "command"),
    ({"command": ["a", "b\0"]}, 400, "command"),
    ({"command": "true", "unknown": 1}, 422, "unknown"),
    ({"command": "true", "env": {"A": 1}}, 422, "env"),
    ({"command": "true", "env": []}, 422, "env"),
    ({"command": "true", "env": {"": "x"}}, 400, "env"),
    ({"command": "true", "env": {"A=B": "x"}}, 400, "env"),
    ({"command": "true", "env": {"A": "x\0"}}, 400, "env"),
    ({"command": "true", "env": {"A\0": "x"}}, 400, "NUL"),
    ({"command": "true", "env": {f"A{i}": "x" for i in range(257)}}, 400, "env"),
    ({"command": "true", "env": {"A": "x" * 65536}}, 413, "env"),
    ({"command": "true", "workdir": 5}, 422, "workdir"),
    ({"command": "true", "workdir": ""}, 400, "workdir"),
    ({"command": "true", "workdir": "a\0"}, 400, "workdir"),
    ({"command": "true", "workdir": "a" * 5000}, 400, "workdir"),
    ({"command": "true", "timeout_seconds": "soon"}, 422, "timeout_seconds"),
    ({"command": "true", "timeout_seconds": True}, 422, "timeout_seconds"),
    ({"command": "true", "timeout_seconds": 0}, 422, "timeout_seconds"),
    ({"command": "true", "timeout_seconds": -0.5}, 422, "timeout_seconds"),
    ({"command": "true", "timeout_seconds": 3601}, 400, "timeout_seconds"),
    ({"command": "true", "timeout_seconds": 1e18}, 400, "timeout_seconds"),
    ({"command": "true", "timeout_seconds": 10**30}, 400, "range"),
    ({"command": "true", "stdin": 5}, 422, "stdin"),
    ({"command": ["x" * 131072]}, 413, "128 KiB"),
    ({"command": ["x" * 100_000] * 3}, 413, "256 KiB"),
    ({"command": "x" * 131072}, 413, "128 KiB"),
]


@pytest.mark.parametrize("body, status, word", EXEC, ids=lambda v: str(v)[:50])
@pytest.mark.parametrize("route", ["exec", "exec/stream"])
def test_bad_exec_request_says_so(server, route, body, status, word):
    assert word in error(server("POST", f"{BOX_URL}/{route}", json=body), status)


CREATE = [
    ({"cpus": 0}, 422, "cpus"),
    ({"cpus": -1}, 422, "cpus"),
    ({"cpus": "many"}, 422, "cpus"),
    ({"memory_mb": 15}, 422, "memory_mb: must be an integer >= 16"),
    ({"memory_mb": 64.5}, 422, "memory_mb"),
    ({"memory_mb": "lots"}, 422, "memory_mb"),
    ({"memory_mb": True}, 422, "memory_mb"),
    ({"memory_mb": 10**30}, 400, "range"),
    ({"pids_limit": 7}, 422, "pids_limit"),
    ({"timeout_seconds": 0}, 422, "timeout_seconds"),
    ({"timeout_seconds": -(10**30)}, 400, "range"),
    ({"timeout_seconds": 1.5}, 422, "timeout_seconds"),
    ({"network": "maybe"}, 422, "network"),
    ({"network": 1}, 422, "network"),
    ({"read_only_rootfs": 0}, 422, "read_only_rootfs"),
    ({"env": ["A"]}, 422, "env"),
    ({"env": {"A": 1}}, 422, "env"),
    ({"env": {"A=B": ""}}, 400, "env"),
    ({"env": {"": "x"}}, 400, "env"),
    ({"image": 5}, 422, "image"),
    ({"image": ""}, 400, "image"),
    ({"image": "a\0b"}, 400, "image"),
    ({"image": "x" * 513}, 400, "image"),
    ({"binds": ["/:/host"]}, 422, "binds"),
    ({"privileged": True}, 422, "privileged"),
    ({"runtime": None}, 422, "runtime"),
    ({"labels": {"a": 1}}, 422, "labels"),
    ({"labels": {"": "x"}}, 400, "labels"),
    ({"labels": {"a" * 64: "x"}}, 400, "labels"),
    ({"labels": {"a": "x" * 256}}, 400, "labels"),
    ({"labels": {"a": "\0"}}, 400, "labels"),
    ({"labels": {f"n{i}": "" for i in range(65)}}, 400, "labels"),
    ({"egress_allowlist": [1]}, 422, "egress_allowlist"),
    ({"egress_allowlist": ["a\0b"]}, 400, "egress_allowlist"),
    ({"egress_allowlist": ["a"] * 257}, 400, "egress_allowlist"),
    ({"egress_allowlist": ["a" * 200] * 82}, 400, "egress_allowlist"),
    ({"egress_allowlist": "x"}, 422, "egress_allowlist"),
]


@pytest.mark.parametrize("body, status, word", CREATE, ids=lambda v: str(v)[:50])
def test_bad_create_says_so(server, body, status, word):
    before = len(server.seen)
    assert word in error(server("POST", "/v1/sandboxes", json=body), status)
    assert [m.name for m in server.seen[before:]] == ["AUTH"]


def test_create_hands_on_what_was_given(server):
    body = {"image": "img", "cpus": 0.25, "memory_mb": 64, "pids_limit": 20, "network": True, "read_only_rootfs": False}
    body |= {"timeout_seconds": 77, "env": {"A": "=é", "B": ""}, "labels": {"t": "r", "e": ""}, "egress_allowlist": ["Example.com", "b:1"]}
    r = server("POST", "/v1/sandboxes?detail=true", json=body)
    m = server.seen[-1]
    assert r.status_code == 201 and m.name == "CREATE" and m.tail == b"img" and m.fields["ask"]["detail"] == 1
    want = {
        "nano_cpus": 250_000_000,
        "memory_mb": 64,
        "pids_limit": 20,
        "network": 1,
        "read_only": 0,
        "ttl_s": 77,
        "has_idem": 0,
        "egress": 1,
    }
    assert {k: m.fields[k] for k in want} == want and m.fields["ask"]["peer"].startswith("127.0.0.1:")
    assert server.created[:-1] == [
        (layout.RECORD_ENV, "A==é".encode()),
        (layout.RECORD_ENV, b"B="),
        (layout.RECORD_LABEL, b"t\0r"),
        (layout.RECORD_LABEL, b"e\0"),
        (layout.RECORD_EGRESS, b"Example.com"),
        (layout.RECORD_EGRESS, b"b:1"),
    ]
    want = {"id": BOX, "status": "running", "image": "python:3.12-slim", "cpus": 1.5, "memory_mb": 512, "pids_limit": 256, "network": False}
    want |= {"read_only_rootfs": True, "created_at": "2026-09-21T14:13:20.123456Z", "expires_at": "2026-09-21T14:28:20.123456Z"}
    assert r.json() == want | {"source_snapshot_id": None, "labels": {"team": "red"}, "backend": "docker", "egress_allowlist": None}


def test_optional_body_may_be_none_or_empty_or_null(server):
    for kw in ({}, {"json": {}}, {"json": {"image": None, "cpus": None, "env": None}}, {"headers": {"Content-Length": "0"}}):
        assert server("POST", "/v1/sandboxes", **kw).status_code == 201
        m = server.seen[-1]
        assert (m.fields["nano_cpus"], m.fields["network"], m.fields["read_only"], m.tail) == (0, 2, 2, b"")
    for path in (SNAP_URL + "/fork", BOX_URL + "/snapshots"):
        assert server("POST", path).status_code == 201


def test_largest_env_and_labels_fit(server):
    body = {"env": {f"N{i:03}": "v" * 250 for i in range(256)}, "labels": {f"{i:063}": "é" * 127 for i in range(64)}}
    assert server("POST", "/v1/sandboxes", json=body).status_code == 201
    assert len(server.created) == 256 + 64 + 1


def test_json_under_another_type_is_415(server):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json"):
        error(server("POST", "/v1/sandboxes", data=b"{}", headers={"Content-Type": kind}), 415)
    for kind in ("application/json", "application/json; charset=utf-8", "Application/JSON ;x=y"):
        assert server("POST", "/v1/sandboxes", data=b"{}", headers={"Content-Type": kind}).status_code == 201


@pytest.mark.parametrize("method, path", [r for r in ROUTES if r[0] in ("GET", "DELETE")])
def test_stray_body_of_a_route_meets_the_key_first_and_is_never_read(server, method, path):
    smuggled = head("GET", "/v1/smuggled")
    for key, status in ((False, 401), (True, 400)):
        for lines in ((f"Content-Length: {len(smuggled)}",), ("Transfer-Encoding: chunked",), ("Content-Length: 3000000000",)):
            got, end = server.raw(head(method, path, *lines, key=key) + smuggled, wait=3)
            assert statuses(got) == [status] and end != "open"
    assert statuses(server.raw(head("HEAD", path, "Content-Length: 3", key=False) + b"abc")[0]) == [400]
    assert statuses(server.raw(head("GET", "/v1/nope", "Content-Length: 3", key=False) + b"abc")[0]) == [400]


def test_method_that_a_path_does_not_know_is_405_whatever_the_body(server):
    for method, path in (
        ("GET", BOX_URL + "/exec"),
        ("DELETE", BOX_URL + "/files"),
        ("DELETE", "/v1/sandboxes"),
        ("GET", SNAP_URL + "/fork"),
    ):
        got, end = server.raw(head(method, path, "Content-Length: 3000000000") + b"abc", wait=3)
        assert statuses(got) == [405] and b"\r\nAllow: " in got and end != "open"


def test_json_body_over_1_mib_is_413(server):
    body = json.dumps({"command": "x" * (1 << 20)}).encode()
    assert statuses(server.raw(post(BOX_URL + "/exec", body), wait=3)[0]) == [413]
    chunks = b"".join(b"8000\r\n" + body[:32768] + b"\r\n" for _ in range(40)) + b"0\r\n\r\n"
    got, end = server.raw(head("POST", BOX_URL + "/exec", "Transfer-Encoding: chunked") + chunks, wait=3)
    assert statuses(got) == [413] and end == "closed"
    one = b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
    assert statuses(server.raw(head("POST", BOX_URL + "/exec", "Transfer-Encoding: chunked") + one, wait=3)[0]) == [413]


def test_idempotency_key_travels_as_digests(server):
    def send(key, body, path="/v1/sandboxes"):
        r = server("POST", path, data=body, headers={"Idempotency-Key": key, "Content-Type": "application/json"})
        assert r.status_code == 201
        return server.seen[-1].fields

    a, b, c, d = send("k1", b"{}"), send("k1", b"{}"), send("k1", b'{"cpus":1}'), send("k2", b"{}")
    assert a["has_idem"] == 1 and a["idem_key"] == hashlib.sha256(b"k1").digest()
    assert a["idem_body"] == b["idem_body"] != c["idem_body"] and a["idem_key"] != d["idem_key"]
    assert send("k1", b"{}", SNAP_URL + "/fork")["idem_body"] != a["idem_body"]
    for bad in ("", "x" * 256):
        error(server("POST", "/v1/sandboxes", json={}, headers={"Idempotency-Key": bad}), 400)


def test_refusals_of_managerd_reach_the_client(server):
    for status, retry in ((403, 0), (404, 0), (409, 0), (429, 7), (502, 0), (503, 2), (507, 0)):
        server.on["GET"] = lambda s, m, status=status, retry=retry: s.reply(m, status, 'because "é"\n', retry)
        r = server("GET", BOX_URL)
        assert error(r, status) == 'because "é"\n'
        assert r.headers.get("Retry-After") == (str(retry) if retry else None)


def page(server, m, start, n, total):
    for i in range(start, min(start + n, total)):
        server.sandbox(m, id=i + 1, created_us=NOW + i)
    server.send("PAGE_END", m.id, {"more": start + n < total})


def test_list_goes_through_all_pages(server):
    total = 1000

    def on_list(s, m):
        assert m.fields["max"] <= 64
        start = 0 if m.fields["after_id"] == 0 else m.fields["after_us"] - NOW + 1
        assert start == m.fields["after_id"]
        page(s, m, start, m.fields["max"], total)

    server.on["LIST"] = on_list
    got = server("GET", "/v1/sandboxes").json()
    assert [int(s["id"][3:], 16) for s in got["sandboxes"]] == list(range(1, total + 1)) and got["next_cursor"] is None
    seen, cursor = [], ""
    while cursor is not None:
        got = server("GET", f"/v1/sandboxes?limit=150&cursor={cursor}").json()
        seen += [s["id"] for s in got["sandboxes"]]
        cursor = got["next_cursor"]
        assert len(got["sandboxes"]) == 150 or cursor is None
    assert len(seen) == len(set(seen)) == total


def test_list_parameters_are_checked(server):
    for q in ("limit=0", "limit=-1", "limit=x", "limit=1.5", "limit=", "limit=1&limit=2"):
        error(server("GET", "/v1/sandboxes?" + q), 422)
    for q in ("cursor=x", "cursor=" + "0" * 32, "label=x", "label==v", "label=" + "n" * 64 + "=v", "label=a=" + "v" * 256, "label=%zz"):
        error(server("GET", "/v1/sandboxes?" + q), 400)
    server("GET", "/v1/sandboxes?label=a+b=c=d%2B")
    assert server.seen[-1].tail == b"a b\0c=d+"


def test_snapshot_routes_ask_and_answer(server):
    r = server("POST", BOX_URL + "/snapshots", json={"name": "é" * 128})
    assert r.status_code == 201 and r.json()["name"] == "é" * 128 and server.seen[-1].fields["has_name"] == 1
    assert server("POST", BOX_URL + "/snapshots", json={"name": ""}).json()["name"] == ""
    assert server("POST", BOX_URL + "/snapshots", json={"name": None}).json()["name"] is None
    for name, status in (("x" * 129, 422), (5, 422), (["a"], 422), ("a\0", 400)):
        error(server("POST", BOX_URL + "/snapshots", json={"name": name}), status)
    s = server("GET", SNAP_URL).json()
    want = {"id": SNAPSHOT, "sandbox_id": BOX, "name": "first", "image": "python:3.12-slim", "size_bytes": 10240}
    want |= {"created_at": "2026-09-21T14:13:20.123456Z", "parent_snapshot_id": None, "stored_bytes": 200, "sha256": "0" * 64}
    assert s == want
    assert server("GET", "/v1/snapshots").json() == {"snapshots": [s], "next_cursor": None}
    assert server("GET", "/v1/snapshots?sandbox_id=" + BOX).json()["snapshots"] == [s]
    for other in ("sb_00000000000000aa", "nonsense", "a%00"):
        assert server("GET", "/v1/snapshots?sandbox_id=" + other).json()["snapshots"] == []
    assert server("DELETE", SNAP_URL).status_code == 204 and server("DELETE", BOX_URL).status_code == 204
    r = server("POST", BOX_URL + "/rollback", json={"snapshot_id": SNAPSHOT})
    assert r.json()["source_snapshot_id"] == SNAPSHOT and server.seen[-1].fields["snapshot"] == SNAP
    for bad, status in (("nonsense", 404), ("", 404), (SNAPSHOT + "/../x", 404), (None, 422), (5, 422)):
        error(server("POST", BOX_URL + "/rollback", json={"snapshot_id": bad}), status)
    error(server("POST", BOX_URL + "/rollback"), 422)
    r = server("POST", SNAP_URL + "/fork", json={"cpus": 0.5, "memory_mb": 64, "network": False, "timeout_seconds": 5})
    f = server.seen[-1].fields
    assert r.status_code == 201 and (f["snapshot"], f["nano_cpus"], f["memory_mb"], f["network"], f["ttl_s"]) == (SNAP, 5 * 10**8, 64, 0, 5)
    for bad in ({"image": "x"}, {"memory_mb": 1}, {"cpus": 0}):
        error(server("POST", SNAP_URL + "/fork", json=bad), 422)
    r = server("POST", BOX_URL + "/timeout", json={"timeout_seconds": 5})
    assert r.status_code == 200 and server.seen[-1].fields["ttl_s"] == 5
    for bad in ({}, {"timeout_seconds": 0}, {"timeout_seconds": None}, {"timeout_seconds": 1, "x": 1}):
        error(server("POST", BOX_URL + "/timeout", json=bad), 422)


def test_health_says_what_managerd_says(server):
    assert server("GET", "/healthz", key=None).json()["status"] == "ok"
    server.on["ASK_HEALTH"] = lambda s, m: s.send("HEALTH", m.id, {"engine_up": 1, "partial": 1, "hard_quota": 1})
    r = server("GET", "/healthz").json()
    assert (r["confinement"], r["workspace_quota"], r["backend"]) == ("partial", "hard", "docker")
    server.on["ASK_HEALTH"] = lambda s, m: s.send("HEALTH", m.id, {}, "the engine does not answer")
    assert error(server("GET", "/healthz"), 502) == "the engine does not answer"


# exec


def run(server, command, query="", **body):
    r = server("POST", BOX_URL + "/exec" + query, json={"command": command} | body)
    assert r.status_code == 200, r.text
    return r.json()


def stream(server, command, query="", **body):
    r = server("POST", BOX_URL + "/exec/stream" + query, json={"command": command} | body)
    assert r.status_code == 200, r.text
    return [json.loads(line) for line in r.content.split(b"\n")[:-1]]


def test_exec_answers_with_exactly_its_fields(server):
    want = {"stdout": "hi\n", "stderr": "", "exit_code": 0, "timed_out": False, "truncated": False, "duration_ms": 1234}
    assert run(server, "echo hi") == want
    extra = {"oom_killed": False, "usage": {"cpu_ms": 5, "peak_memory_bytes": None}, "signal": None, "omitted_bytes": 0}
    assert run(server, "echo hi", "?detail=true") == want | extra


def test_exec_hands_on_command_env_and_workdir(server):
    run(server, ["echo", "a b", "", "é"], env={"B": "=x", "A": ""}, workdir="sub/../d", timeout_seconds=1.5)
    job = server.seen[-1].fields["job"]
    assert job["timeout_us"] == 1_500_000 and (job["keep"], job["kill_others"], job["stdin_follows"], job["streamed"]) == (0, 0, 0, 0)
    assert server.command_line == ([b"echo", b"a b", b"", "é".encode()], [b"B==x", b"A="], b"/workspace/sub/../d")
    run(server, "echo $HOME", "?kill_others=true&on_disconnect=continue")
    job = server.seen[-1].fields["job"]
    assert (job["timeout_us"], job["keep"], job["kill_others"]) == (60_000_000, 1, 1)
    assert server.command_line == ([b"/bin/sh", b"-c", b"echo $HOME"], [], b"/workspace")
    for q in ("?kill_others=perhaps", "?on_disconnect=x", "?encoding=utf-16", "?detail=2"):
        error(server("POST", BOX_URL + "/exec" + q, json={"command": "true"}), 422)


def test_stdin_arrives_whole(server):
    text = "é\n" * 60_000 + "end"
    assert run(server, ["cat"], stdin=text)["stdout"] == text
    assert run(server, ["cat"], stdin="a\0b")["stdout"] == "a\0b"
    assert run(server, ["cat"], stdin="")["stdout"] == "" and server.seen[-1].fields["job"]["stdin_follows"] == 0
    assert run(server, ["ignore-stdin"], stdin=text)["exit_code"] == 0


BYTES = [
    ("o61ffff62", "a\ufffd\ufffdb"),
    ("oc3 oa9", "é"),
    ("oe298 o95", "☕"),
    ("of0 o9f o98 o80", "😀"),
    ("oe298", "\ufffd"),
    ("oe29861", "\ufffda"),
    ("oeda080", "\ufffd\ufffd\ufffd"),
    ("oc0af", "\ufffd\ufffd"),
    ("of4908080", "\ufffd\ufffd\ufffd\ufffd"),
    ("o00017f0a0d09225c", '\0\x01\x7f\n\r\t"\\'),
]


@pytest.mark.parametrize("pieces, text", BYTES)
def test_bytes_become_text_the_same_way_in_both_forms(server, pieces, text):
    raw = bytes.fromhex("".join(p[1:] for p in pieces.split()))
    assert raw.decode("utf-8", "replace") == text, "the table itself"
    assert run(server, ["hex", *pieces.split()])["stdout"] == text
    events = stream(server, ["hex", *pieces.split()])
    assert "".join(e["data"] for e in events[:-1]) == text and events[-1]["type"] == "exit"
    assert base64.b64decode(run(server, ["hex", *pieces.split()], "?encoding=base64")["stdout"]) == raw
    events = stream(server, ["hex", *pieces.split()], "?encoding=base64")
    assert b"".join(base64.b64decode(e["data"]) for e in events[:-1]) == raw


def test_the_two_streams_are_kept_apart(server):
    r = run(server, ["hex", "oe2", "ee2", "o98", "e98", "o95", "e95"])
    assert (r["stdout"], r["stderr"]) == ("☕", "☕")
    events = stream(server, ["hex", "oe2", "ee2", "o98", "e98", "o95", "e95"])
    assert [(e["type"], e.get("data")) for e in events[:-1]] == [("stdout", "☕"), ("stderr", "☕")]
    assert events[-1] == {"type": "exit", "exit_code": 0, "timed_out": False, "duration_ms": 1234}


def test_output_over_the_limit_is_cut_and_read_to_its_end(kind):
    with kind(MAX_EXEC_OUTPUT_BYTES=100_000) as s:
        r = run(s, "many 1000", "?detail=true")
        assert r["truncated"] and len(r["stdout"]) == 100_000 and r["omitted_bytes"] == 1000 * 65536 - 100_000
        before = s.rss()
        run(s, "many 3000")
        assert s.rss() - before < 3000
        r = run(s, ["hex", *["o" + "61" * 1000] * 99, "e" + "62" * 2000])
        assert (len(r["stdout"]), len(r["stderr"]), r["truncated"]) == (99_000, 1000, True)


def test_failures_before_the_start_are_a_status_and_later_ones_too_for_exec(server):
    def refuse(s, m):
        s.spawn(m, lambda r: r.send(layout.RECORD_ERROR, layout.pack("r_error", {"status": 400}) + b"workdir: /no does not exist"))

    server.on["EXEC"] = refuse
    for route in ("exec", "exec/stream"):
        assert error(server("POST", f"{BOX_URL}/{route}", json={"command": "x"}), 400) == "workdir: /no does not exist"
    server.on.clear()
    assert error(server("POST", BOX_URL + "/exec", json={"command": "error 409"}), 409) == "said no"
    assert "lost" in error(server("POST", BOX_URL + "/exec", json={"command": "vanish"}), 502)
    assert stream(server, "error 409") == [{"type": "error", "data": "said no"}]
    assert [e["type"] for e in stream(server, "vanish")] == ["error"]


def test_refusal_of_managerd_wins_over_the_lost_data_socket(server):
    import os

    def refuse(s, m):
        os.close(m.fd)
        time.sleep(0.1)
        s.reply(m, 404, "sandbox not found")

    server.on["EXEC"] = server.on["FILE_READ"] = refuse
    for route in ("exec", "exec/stream"):
        error(server("POST", f"{BOX_URL}/{route}", json={"command": "x"}), 404)
    error(server("GET", BOX_URL + "/files?path=x"), 404)


@pytest.mark.parametrize("type, data", [(99, b""), (2, b""), (64, b""), (67, b"short"), (70, b"x")])
def test_nonsense_on_a_data_socket_ends_only_that_request(server, type, data):
    def work(r):
        r.send(layout.RECORD_STARTED)
        r.send(type, data)

    server.on["EXEC"] = lambda s, m: s.spawn(m, work)
    r = server("POST", BOX_URL + "/exec/stream", json={"command": "x"})
    assert json.loads(r.text.splitlines()[-1])["type"] == "error"
    server.on["EXEC"] = lambda s, m: s.spawn(m, lambda r: r.sock.sendall(b"\xff" * 100))
    error(server("POST", BOX_URL + "/exec", json={"command": "x"}), 502)


def test_stream_has_its_type_and_is_not_buffered(server):
    r = server("POST", BOX_URL + "/exec/stream", json={"command": "echo x"})
    assert r.headers["Content-Type"] == "application/x-ndjson" and r.headers["X-Accel-Buffering"] == "no"
    assert server.seen[-1].fields["job"]["streamed"] == 1
    events = stream(server, "exit 3", "?detail=true")
    assert events[-1]["exit_code"] == 3 and events[-1]["usage"]["cpu_ms"] == 5


def test_downloads_that_break_off_have_at_most_a_few_lines_in_the_log_each_second(server):
    def work(r):
        r.send(layout.RECORD_META, layout.pack("r_meta", {"size": 100, "length": 100}))
        r.send(layout.RECORD_DATA, b"x")

    server.on["FILE_READ"] = lambda s, m: s.spawn(m, work)
    began = time.monotonic()
    for _ in range(60):
        with contextlib.suppress(requests.RequestException):
            server("GET", BOX_URL + "/files?path=x")
    seconds = int(time.monotonic() - began) + 2
    assert 0 < server.program.log().count("is cut off:") <= 5 * seconds


def test_first_event_is_sent_before_the_second(server):
    gate = []

    def work(r):
        r.recv()
        r.send(layout.RECORD_STARTED)
        r.send(layout.RECORD_STDOUT, b"one\n")
        assert wait_until(lambda: gate)
        r.send(layout.RECORD_EXIT, layout.pack("r_exit"))

    server.on["EXEC"] = lambda s, m: s.spawn(m, work)
    r = server("POST", BOX_URL + "/exec/stream", json={"command": "x"}, stream=True)
    lines = r.iter_lines()
    assert json.loads(next(lines)) == {"type": "stdout", "data": "one\n"}
    gate.append(1)
    assert json.loads(next(lines))["type"] == "exit"
    r.close()


@pytest.mark.parametrize("route", ["exec", "exec/stream"])
def test_client_that_leaves_closes_the_data_socket(server, route):
    server.left, server.waiting = None, False
    with server.connect() as s:
        s.sendall(post(f"{BOX_URL}/{route}", {"command": "wait"}))
        assert wait_until(lambda: server.waiting)
        time.sleep(0.1)
        assert server.left is None
    assert wait_until(lambda: server.left)


def unsent(sock):
    """Bytes that the other end's kernel does not have."""
    return struct.unpack("i", fcntl.ioctl(getattr(sock, "sock", sock), termios.TIOCOUTQ, bytes(4)))[0]


@pytest.mark.parametrize("what", ["stdin", "pipelined"])
def test_client_that_leaves_while_nothing_is_read_of_it_is_seen(server, what):
    """What it sent is more than anybody takes, so that its end is behind that."""
    left = threading.Event()

    def work(r):
        r.recv()
        r.send(layout.RECORD_STARTED)
        end = select.poll()
        end.register(r.sock, select.POLLRDHUP)
        if end.poll(60_000):
            left.set()

    server.on["EXEC"] = lambda s, m: s.spawn(m, work)
    q = base64.urlsafe_b64encode(b'{"command":["sleep","99"]}').decode()
    with server.connect() as s:
        if what == "stdin":
            s.sendall(head("POST", f"{BOX_URL}/exec/stream?request={q}", "Content-Length: 100000000") + b"x" * 240_000)
        else:
            s.sendall(post(f"{BOX_URL}/exec", {"command": "x"}) + head("GET", "/openapi.json") * 1000)
        assert wait_until(lambda: unsent(s) == 0)
    assert left.wait(30)


def raw_stdin(server, body, request, *lines, wait=2):
    q = base64.urlsafe_b64encode(json.dumps(request).encode()).decode().rstrip("=")
    return server.raw(head("POST", f"{BOX_URL}/exec/stream?request={q}", "Connection: close", *lines) + body, wait=wait)[0]


def test_raw_body_is_the_stdin(server):
    data = bytes(range(256)) * 4000
    got = raw_stdin(server, data, {"command": ["cat"]}, f"Content-Length: {len(data)}", "Content-Type: application/x-www-form-urlencoded")
    assert statuses(got) == [200] and server.stdin == data
    got = raw_stdin(server, b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", {"command": ["cat"]}, "Transfer-Encoding: chunked")
    assert server.stdin == b"abcde" and b'"data":"abcde"' in got.replace(b"abc", b"abc")
    got = raw_stdin(server, b"", {"command": ["cat"]})
    assert statuses(got) == [200] and server.stdin == b""
    assert statuses(raw_stdin(server, b"x", {"command": ""}, "Content-Length: 1")) == [400]
    assert statuses(raw_stdin(server, b"x", {"command": "cat", "stdin": "y"}, "Content-Length: 1")) == [400]
    for bad in ("!!", "e30=x", "%zz", "bnVsbA"):
        assert statuses(server.raw(head("POST", f"{BOX_URL}/exec/stream?request={bad}", "Content-Length: 1") + b"x")[0]) == [422]


def test_100_comes_before_the_head_of_a_stream_with_stdin(server):
    q = base64.urlsafe_b64encode(b'{"command":["cat"]}').decode()
    with server.connect() as s:
        s.sendall(head("POST", f"{BOX_URL}/exec/stream?request={q}", "Content-Length: 5", "Expect: 100-continue"))
        got = s.recv(4096)
        while statuses(got) != [100]:
            got += s.recv(4096)
        s.sendall(b"hello")
        while b"exit" not in got:
            got += s.recv(4096)
        assert statuses(got) == [100, 200] and b'"data":"hello"' in got


def half_sent(server, work):
    """A stream of which half of the standard input is sent, and whose command runs."""
    server.on["EXEC"] = lambda s, m: s.spawn(m, work)
    q = base64.urlsafe_b64encode(b'{"command":["cat"]}').decode()
    s = server.connect()
    s.sendall(head("POST", f"{BOX_URL}/exec/stream?request={q}", "Content-Length: 10", "Connection: close") + b"hello")
    return s


def received(s):
    got = b""
    while piece := s.recv(4096):
        got += piece
    return got


@pytest.mark.parametrize("what", ["output", "end", "error", "exit"])
def test_stream_whose_input_still_comes_is_answered_at_the_first_output_or_at_the_end(server, what):
    """nginx sends nothing more of a request once its answer has begun."""
    ran, go = threading.Event(), threading.Event()

    def work(r):
        r.recv()
        r.send(layout.RECORD_STARTED)
        assert r.recv() == (layout.RECORD_STDIN, b"hello")
        ran.set()
        assert go.wait(60)
        if what == "output":
            r.send(layout.RECORD_STDOUT, b"one\n")
        elif what == "error":
            r.send(layout.RECORD_ERROR, layout.pack("r_error", {"status": 409}) + b"said no")
        elif what == "exit":
            r.send(layout.RECORD_EXIT, layout.pack("r_exit"))
        while what in ("output", "end") and r.recv()[0] != layout.RECORD_STDIN_END:
            pass
        r.send(layout.RECORD_EXIT, layout.pack("r_exit"))

    with half_sent(server, work) as s:
        assert ran.wait(60)
        s.settimeout(0.5)
        with pytest.raises(TimeoutError):
            s.recv(4096)
        s.settimeout(60)
        got = b""
        if what == "end":
            s.sendall(b"world")
            while statuses(got) != [200]:
                got += s.recv(4096)
        go.set()
        if what == "output":
            while b"one" not in got:
                got += s.recv(4096)
            s.sendall(b"world")
        got += received(s)
    assert statuses(got) == [200] and (b'"type":"error"' in got if what == "error" else b'"type":"exit"' in got)
    assert b"Content-Type: application/x-ndjson\r\n" in got and b"Connection: close\r\n" in got


def test_stream_that_ends_before_its_input_says_that_its_connection_ends(server):
    def work(r):
        r.recv()
        r.send(layout.RECORD_STARTED)
        r.send(layout.RECORD_EXIT, layout.pack("r_exit"))

    server.on["EXEC"] = lambda s, m: s.spawn(m, work)
    q = base64.urlsafe_b64encode(b'{"command":["true"]}').decode()
    with server.connect() as s:
        s.sendall(head("POST", f"{BOX_URL}/exec/stream?request={q}", "Content-Length: 10") + b"hello")
        got = received(s)
    assert statuses(got) == [200] and b"Connection: close\r\n" in got and b'"type":"exit"' in got
    with server.connect() as s:
        s.sendall(head("POST", f"{BOX_URL}/exec/stream?request={q}", "Content-Length: 5") + b"hello")
        got = b""
        while b'"type":"exit"' not in got:
            got += s.recv(4096)
        s.sendall(head("GET", "/openapi.json", "Connection: close"))
        assert statuses(got + received(s)) == [200, 200]


def test_stdin_that_nobody_reads_is_not_collected(server):
    over = threading.Event()

    def work(r):
        r.recv()
        r.send(layout.RECORD_STARTED)
        over.wait(60)

    server.on["EXEC"] = lambda s, m: s.spawn(m, work)
    before = server.rss()
    q = base64.urlsafe_b64encode(b'{"command":["cat"]}').decode()
    with server.connect() as s:
        s.settimeout(1)
        s.sendall(head("POST", f"{BOX_URL}/exec/stream?request={q}", "Content-Length: 100000000"))
        sent = 0
        try:
            while True:
                sent += s.send(b"x" * 100_000)
        except TimeoutError:
            pass
        assert sent < 20_000_000 and server.rss() - before < 3000
    over.set()


# files

PATHS = [
    ("a", "/workspace/a"),
    ("/etc/x", "/etc/x"),
    ("a/../b/./c//d/", "/workspace/b/c/d"),
    ("..", "/"),
    ("../..", "/"),
    ("/", "/"),
    ("%20lead", "/workspace/ lead"),
    ("a+b", "/workspace/a b"),
    ("a%2Bb", "/workspace/a+b"),
    ("a%26b=c", "/workspace/a&b=c"),
    ("a=b", "/workspace/a=b"),
    ("%E2%98%95", "/workspace/☕"),
]


@pytest.mark.parametrize("sent, path", PATHS)
def test_path_is_normalised_by_text(server, sent, path):
    server("GET", BOX_URL + "/files?path=" + sent)
    assert server.seen[-1].name == "FILE_READ" and server.seen[-1].tail.decode() == path


def test_upload_to_a_path_that_ends_with_a_slash_is_refused_since_it_names_no_file(server):
    for path in ("d/", "/workspace/d/", "d//"):
        assert "slash" in error(server("PUT", f"{BOX_URL}/files?path={path}", data=b"x"), 400)
    assert not any(p.startswith("/workspace/d") and p != "/workspace/d/f" for p in server.files)


def test_bad_paths_are_refused(server):
    for verb, tail in (("GET", "files"), ("PUT", "files"), ("GET", "files/archive"), ("PUT", "files/archive")):
        error(server(verb, f"{BOX_URL}/{tail}"), 422)
    for bad in ("path=", "path=a%00b", "path=a&path=b", "path=" + "a" * 4090):
        for tail in ("files", "files/list", "files/archive"):
            error(server("GET", f"{BOX_URL}/{tail}?{bad}"), 400)
        error(server("PUT", f"{BOX_URL}/files?{bad}", data=b"x"), 400)
    for bad in ("%zz", "%2", "a%"):
        assert statuses(server.raw(head("GET", f"{BOX_URL}/files?path={bad}"))[0]) == [400]
    for out in ("../x", "/etc/x", "/workspace/../etc/x", "/workspace", "/", "..", ".", "/workspacefoo/x", "a/../../x", "//etc/x"):
        error(server("PUT", f"{BOX_URL}/files?path={out}", data=b"x"), 400)
    error(server("PUT", f"{BOX_URL}/files/archive?path=/tmp", data=b"x"), 400)
    assert server("PUT", f"{BOX_URL}/files/archive?path=.", data=b"x").status_code == 200


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 5_000_001])
def test_file_of_any_size_makes_the_round_trip(server, size):
    data = (b"abcdefg\0" * (size // 8 + 1))[:size]
    for body in (data, iter([data[:10], data[10:]]) if size > 10 else data):
        r = server("PUT", BOX_URL + "/files?path=d/f", data=body)
        info = {"name": "f", "path": "/workspace/d/f", "type": "file", "size": size, "modified_at": "2026-09-21T14:13:20.123456Z"}
        assert r.json() == info
        r = server("GET", BOX_URL + "/files?path=d/f")
        assert r.content == data and int(r.headers["Content-Length"]) == size and r.headers["Content-Type"] == "application/octet-stream"


def test_mode_is_checked(server):
    for mode, want in (("644", 0o644), ("0640", 0o640), ("000", 0), ("777", 0o777)):
        assert server("PUT", f"{BOX_URL}/files?path=m&mode={mode}", data=b"").status_code == 200
        assert server.seen[-1].fields["job"]["mode"] == want
    for mode in ("0o7", "-1", "888", "75", "00755", "rwx", "", "7+5", "%2B644", "64%00"):
        error(server("PUT", f"{BOX_URL}/files?path=m&mode={mode}", data=b""), 422)
    for mode in ("4755", "1777"):
        error(server("PUT", f"{BOX_URL}/files?path=m&mode={mode}", data=b""), 400)


def test_upload_over_the_limit_is_413_declared_or_counted(kind):
    with kind(MAX_FILE_BYTES=100_000) as s:
        assert s("PUT", BOX_URL + "/files?path=f", data=b"x" * 100_000).status_code == 200
        got, end = s.raw(head("PUT", BOX_URL + "/files?path=g", "Content-Length: 100001") + b"x", wait=3)
        assert statuses(got) == [413] and end == "closed" and b"payload_too_large" in got
        got, _ = s.raw(head("PUT", BOX_URL + "/files?path=g", "Content-Length: 99999999999999") + b"x", wait=3)
        assert statuses(got) == [413]
        chunk = b"7530\r\n" + b"x" * 30_000 + b"\r\n"
        got, _ = s.raw(head("PUT", BOX_URL + "/files?path=g", "Transfer-Encoding: chunked") + chunk * 4 + b"0\r\n\r\n", wait=3)
        assert statuses(got) == [413]
        assert s.raw(head("PUT", BOX_URL + "/files?path=g", "Transfer-Encoding: chunked") + chunk * 3 + b"0\r\n\r\n")[0].startswith(
            b"HTTP/1.1 200"
        )
        assert list(s.files) == ["/workspace/f", "/workspace/g"] and len(s.files["/workspace/g"]) == 90_000


def test_upload_that_is_not_finished_is_not_stored(server):
    server.files.clear()
    server.raw(head("PUT", BOX_URL + "/files?path=half", "Content-Length: 1000") + b"x" * 500, wait=0.3, answers=0)
    server.raw(head("PUT", BOX_URL + "/files?path=half", "Content-Length: 1000") + b"x" * 500, wait=0.3, half_close=True)
    server.raw(head("PUT", BOX_URL + "/files?path=half", "Transfer-Encoding: chunked") + b"3\r\nabc\r\n", wait=0.3, half_close=True)
    got, _ = server.raw(head("PUT", BOX_URL + "/files?path=half", "Transfer-Encoding: chunked") + b"3\r\nabc\r\nzz\r\n", wait=0.3)
    assert statuses(got) == [400]
    time.sleep(0.2)
    assert "/workspace/half" not in server.files


RANGES = [
    ("bytes=2-5", 206, b"2345", "bytes 2-5/10"),
    ("bytes=8-", 206, b"89", "bytes 8-9/10"),
    ("bytes=-3", 206, b"789", "bytes 7-9/10"),
    ("bytes=-99", 206, b"0123456789", "bytes 0-9/10"),
    ("bytes=0-99999999999999999999999", 206, b"0123456789", "bytes 0-9/10"),
    ("bytes=10-", 416, None, "bytes */10"),
    ("bytes=99999999999999999999-", 416, None, "bytes */10"),
    ("bytes=-0", 416, None, "bytes */10"),
    ("bytes=5-2", 200, b"0123456789", None),
    ("bytes=a-b", 200, b"0123456789", None),
    ("bytes=1-2,4-5", 200, b"0123456789", None),
    ("bytes=", 200, b"0123456789", None),
    ("bytes=-", 200, b"0123456789", None),
    ("bytes=1", 200, b"0123456789", None),
    ("items=1-2", 200, b"0123456789", None),
]


@pytest.mark.parametrize("value, status, body, content_range", RANGES)
def test_range(server, value, status, body, content_range):
    server.files["/workspace/r"] = b"0123456789"
    r = server("GET", BOX_URL + "/files?path=r", headers={"Range": value})
    assert r.status_code == status and r.headers.get("Content-Range") == content_range
    if body is None:
        error(r, 416)
    else:
        assert r.content == body


def test_range_with_a_condition_that_cannot_be_checked_gives_all_of_the_file(server):
    server.files["/workspace/r"] = b"0123456789"
    r = server("GET", BOX_URL + "/files?path=r", headers={"Range": "bytes=2-5", "If-Range": '"some-etag"'})
    assert r.status_code == 200 and r.content == b"0123456789"


@pytest.mark.parametrize("size, first, length", [(10, 11, 0), (10, 5, 6), (10, 2**63 - 1, 2**63 - 1), (-1, 0, 0), (0, 0, -1)])
def test_part_of_a_file_that_cannot_be_is_not_announced(server, size, first, length):
    meta = layout.pack("r_meta", {"size": size, "first": first, "length": length})
    server.on["FILE_READ"] = lambda s, m: s.spawn(m, lambda r: r.send(layout.RECORD_META, meta))
    error(server("GET", BOX_URL + "/files?path=x", headers={"Range": "bytes=2-5"}), 502)


def test_download_that_breaks_looks_broken(server):
    def work(r):
        r.send(layout.RECORD_META, layout.pack("r_meta", {"size": 1000, "length": 1000}))
        r.send(layout.RECORD_DATA, b"x" * 500)

    server.on["FILE_READ"] = lambda s, m: s.spawn(m, work)
    got, end = server.raw(head("GET", BOX_URL + "/files?path=x"), wait=3)
    assert end != "open" and len(got.split(b"\r\n\r\n", 1)[1]) < 1000

    def tar(r):
        r.send(layout.RECORD_STARTED)
        r.send(layout.RECORD_DATA, b"x" * 500)
        r.send(layout.RECORD_ERROR, layout.pack("r_error", {"status": 413}) + b"too large")

    server.on["ARCHIVE_GET"] = lambda s, m: s.spawn(m, tar)
    got, end = server.raw(head("GET", BOX_URL + "/files/archive?path=x"), wait=3)
    assert end != "open" and not got.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize(
    "body, word",
    [
        (b"null", "must be a JSON object"),
        (b'"x"', "must be a JSON object"),
        (b"", "is empty"),
        (b" \r\n", "is empty"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b'{"command": "a", "command": "b"}', "command: is given twice"),
        (b'{"command": "a", "env": {"A": "b", "A": "c"}}', "A: is given twice"),
        (b'{"command": 1e400}', "out of range (line 1, column"),
        (b'{"command": "\xff"}', "not JSON in UTF-8 (line 1, column"),
    ],
)
def test_refused_body_says_what_to_mend(server, body, word):
    r = server("POST", BOX_URL + "/exec", data=body, headers={"Content-Type": "application/json"})
    assert word in error(r, 400 if b"1e400" in body else 422)


def test_archive_that_fails_before_its_first_byte_is_an_error_and_not_a_broken_download(server):
    def tar(r):
        r.send(layout.RECORD_STARTED)
        r.send(layout.RECORD_ERROR, layout.pack("r_error", {"status": 400}) + b"/root/x: not accessible")

    server.on["ARCHIVE_GET"] = lambda s, m: s.spawn(m, tar)
    assert error(server("GET", BOX_URL + "/files/archive?path=x"), 400) == "/root/x: not accessible"
    assert server("HEAD", BOX_URL + "/files/archive?path=x").status_code == 400


def test_list_shows_names_of_every_kind_and_any_number(server):
    server.names = [b'q"\n', "é".encode(), b"\xff\xfe"]
    got = server("GET", BOX_URL + "/files/list?path=/tmp/../d").json()
    assert got["path"] == "/d" and [e["name"] for e in got["entries"]] == ['q"\n', "é", "\ufffd\ufffd"]
    assert got["entries"][0] == {"name": 'q"\n', "path": '/d/q"\n', "type": "file", "size": 3, "modified_at": "2026-09-21T14:13:20.123456Z"}
    server.names = [b"%05d" % i for i in range(20_000)]
    got = server("GET", BOX_URL + "/files/list").json()
    assert got["path"] == "/workspace" and [e["name"] for e in got["entries"]] == [f"{i:05}" for i in range(20_000)]
    server.names = []
    assert server("GET", BOX_URL + "/files/list?path=/").json() == {"path": "/", "entries": []}
    server.names = [b"x"]
    assert server("GET", BOX_URL + "/files/list?path=/").json()["entries"][0]["path"] == "/x"


def test_archives_pass_through(server):
    r = server("GET", BOX_URL + "/files/archive?path=d")
    assert r.headers["Content-Type"] == "application/x-tar" and r.content == b"tar" * 1000
    data = bytes(range(256)) * 2000
    assert server("PUT", BOX_URL + "/files/archive?path=d", data=data).status_code == 200
    assert server.files["tar:/workspace/d"] == data
