"""What a real server answers is what the description of the API says: every route, and every error that can be brought about."""

import base64
import io
import json
import tarfile

import openapi_kit
import pytest
import requests
from harness import KEY, Api, raw
from machine import wait_until

DOCUMENT = openapi_kit.load()
NO_BOX, NO_SNAP = "/v1/sandboxes/sb_ffffffffffffffff", "/v1/snapshots/snap_ffffffffffffffff"


class Judged:
    """Api.ask() with every answer judged."""

    def __init__(self, server):
        self.contract, self.api = openapi_kit.Contract(DOCUMENT), Api(server.url)

    def __call__(self, method, path, status, **more):
        answer = self.api.note(self.api.ask(method, path, **more))
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text[:300]}"
        return self.contract.judge(answer, detail="detail=true" in path)


@pytest.fixture
def ask(server):
    judged = Judged(server)
    yield judged
    judged.api.clear()


def tar(name="a.txt", data=b"hello\n"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def sandboxes(ask):
    new = ask("POST", "/v1/sandboxes", 201, json={"labels": {"team": "red"}, "timeout_seconds": 600}).json()
    box = "/v1/sandboxes/" + new["id"]
    ask("POST", "/v1/sandboxes", 201, headers={"Idempotency-Key": "once-" + new["id"]})
    assert ask("GET", "/v1/sandboxes?label=team%3Dred", 200).json()["sandboxes"]
    assert ask("GET", "/v1/sandboxes?limit=1", 200).json()["next_cursor"]
    assert ask("GET", box, 200).json() == new
    assert ask("POST", box + "/timeout", 200, json={"timeout_seconds": 900}).json()["expires_at"] > new["expires_at"]
    return box


def commands(ask, box):
    ask("POST", box + "/exec", 200, json={"command": "echo hi; echo oh >&2; exit 3"})
    ask("POST", box + "/exec", 200, json={"command": ["sleep", "9"], "timeout_seconds": 0.2, "env": {"A": "b"}, "workdir": "/tmp"})
    ask("POST", box + "/exec?encoding=base64&kill_others=true&on_disconnect=continue", 200, json={"command": "printf '\\377'"})
    more = ask("POST", box + "/exec?detail=true", 200, json={"command": "kill -SEGV $$"}).json()
    assert more["signal"] == "SEGV" and {"oom_killed", "usage", "omitted_bytes"} < set(more)
    lines = ask("POST", box + "/exec/stream", 200, json={"command": "echo a; echo b >&2"}).text.splitlines()
    assert len(lines) == 3
    ask("POST", box + "/exec/stream?detail=true", 200, json={"command": "echo a"})
    request = base64.urlsafe_b64encode(json.dumps({"command": "wc -c"}).encode()).decode()
    assert "5\\n" in ask("POST", f"{box}/exec/stream?request={request}", 200, data=b"12345").text


def files(ask, box):
    ask("PUT", box + "/files?path=a/b.txt&mode=755", 200, data=b"0123456789")
    ask("PUT", box + "/files?path=empty", 200)
    ask("GET", box + "/files?path=a/b.txt", 200)
    assert ask("GET", box + "/files?path=a/b.txt", 206, headers={"Range": "bytes=2-4"}).content == b"234"
    ask("POST", box + "/exec", 200, json={"command": "ln -s a l; mkfifo f; touch \"$(printf 'x\\377')\""})
    kinds = {e["type"] for e in ask("GET", box + "/files/list", 200).json()["entries"]}
    assert kinds == {"file", "directory", "symlink", "other"}
    ask("GET", box + "/files/list?path=/etc", 200)
    ask("PUT", box + "/files/archive?path=unpacked", 200, data=tar())
    assert ask("GET", box + "/files/archive?path=unpacked", 200).content


def snapshots(ask, box):
    snap = ask("POST", box + "/snapshots", 201, json={"name": "first"}).json()
    nameless = ask("POST", box + "/snapshots", 201).json()
    assert nameless["name"] is None
    at = "/v1/snapshots/" + snap["id"]
    assert ask("GET", at, 200).json() == snap
    assert len(ask("GET", f"/v1/snapshots?sandbox_id={box[-19:]}", 200).json()["snapshots"]) == 2
    assert ask("GET", "/v1/snapshots?limit=1", 200).json()["next_cursor"]
    assert ask("POST", box + "/rollback", 200, json={"snapshot_id": snap["id"]}).json()["source_snapshot_id"] == snap["id"]
    fork = ask("POST", at + "/fork", 201, json={"memory_mb": 128}).json()
    assert fork["memory_mb"] == 128 and fork["source_snapshot_id"] == snap["id"]
    ask("DELETE", at, 204)


def runs(ask):
    ask("GET", "/health", 200)
    limits = {"timeout_seconds": 20, "memory_mb": 64, "max_output_bytes": 1024}
    kept = ask("POST", "/v1/run", 200, json={"code": "print('x' * 2000)", "limits": limits, "snapshot": True}).json()
    ask("DELETE", "/v1/snapshots/" + kept["snapshot_id"], 204)
    ask("POST", "/v1/run", 408, json={"code": "while True: pass", "limits": {"timeout_seconds": 1}})
    ask("POST", "/v1/run", 400, json={"code": "x", "language": "ruby"})


def pages(ask):
    assert ask("GET", "/openapi.json", 200).json() == DOCUMENT
    for path in ("/openapi.json", "/docs", "/console", "/assets/icon.svg"):
        tag = ask("GET", path, 200).headers["ETag"]
        ask("GET", path, 304, headers={"If-None-Match": tag})


@pytest.mark.gate
def test_every_route_answers_as_it_is_described(ask):
    ask("GET", "/healthz", 200)
    box = sandboxes(ask)
    commands(ask, box)
    files(ask, box)
    snapshots(ask, box)
    runs(ask)
    pages(ask)
    ask("GET", "/metrics", 403)  # this key is none of an operator's; tests/e2e/test_metrics.py has one
    ask.contract.seen.add(("GET", "/metrics", "200"))
    ask("DELETE", box, 204)
    successes = {(m.upper(), p, s) for m, p, op in openapi_kit.operations(DOCUMENT) for s in op["responses"] if s < "400"}
    assert successes - ask.contract.seen == set()


def test_no_route_answers_a_stranger(server, ask):
    for method, path, op in openapi_kit.operations(DOCUMENT):
        if op.get("security") != []:
            real = path.replace("{sandbox_id}", NO_BOX[-19:]).replace("{snapshot_id}", NO_SNAP[-21:])
            ask(method.upper(), real, 401, key="wrong-key-0123456789")
            ask.contract.judge(requests.request(method, server.url + real, timeout=10))


def test_unknown_ids_are_not_found_on_every_route(ask):
    bodies = {"timeout": {"timeout_seconds": 5}, "exec": {"command": "x"}, "rollback": {"snapshot_id": NO_SNAP[-21:]}}
    bodies["stream"] = bodies["exec"]
    for method, path, _ in openapi_kit.operations(DOCUMENT):
        if "_id}" not in path:
            continue
        for ids in ((NO_BOX[-19:], NO_SNAP[-21:]), ("sb_x", "snap_x")):
            real = path.replace("{sandbox_id}", ids[0]).replace("{snapshot_id}", ids[1])
            ask(method.upper(), real + "?path=x", 404, json=bodies.get(path.rsplit("/", 1)[1]) if method == "post" else None)


@pytest.mark.gate
def test_refused_bodies_and_parameters(ask):
    box = sandboxes(ask)
    for method, path, op in openapi_kit.operations(DOCUMENT):
        if path == "/metrics":
            continue
        real = path.replace("{sandbox_id}", box[-19:]).replace("{snapshot_id}", NO_SNAP[-21:])
        if "application/json" in op.get("requestBody", {}).get("content", {}):
            for body, kind, status in ((b"[]", None, 422), (b"{]", None, 422), (b'{"x": 1}', None, 422), (b"{}", "text/plain", 415)):
                ask(method.upper(), real, status, data=body, headers={"Content-Type": kind or "application/json"})
            ask(method.upper(), real, 413, data=b"1" * (1024 * 1024 + 1), headers={"Content-Type": "application/json"})
        ask(method.upper(), real + "?detail=perhaps", 422)
        ask(method.upper(), real + "?" + "x" * 9000, 414)
        ask(method.upper(), real, 431, headers={"X-Long": "x" * 17000})
        ask(method.upper(), real, 417, headers={"Expect": "a miracle"})
        ask(method.upper(), real, 403, headers={"Sec-Fetch-Site": "cross-site"})
        if method == "get":
            ask("GET", real, 400, data=b"a body")
    ask("POST", "/v1/sandboxes", 400, json={"memory_mb": 10**6})
    ask("POST", "/v1/sandboxes", 400, json={"image": "no such image"})
    ask("GET", "/v1/sandboxes?label=x", 400)
    ask("GET", "/v1/sandboxes?limit=0", 422)
    ask("GET", box + "/files", 422)
    ask("GET", box + "/files?path=", 400)
    ask("PUT", box + "/files?path=/etc/x", 400, data=b"x")
    ask("PUT", box + "/files?path=x&mode=rw", 422, data=b"x")
    ask("PUT", box + "/files/archive?path=x", 400, data=b"no tar")
    ask("POST", box + "/exec", 400, json={"command": ""})
    ask("POST", box + "/exec", 413, json={"command": "x" * 200000})


def test_states_in_which_a_request_cannot_be_served(ask):
    box = sandboxes(ask)
    ask("PUT", box + "/files?path=a", 200, data=b"0123456789")
    ask("GET", box + "/files?path=a", 416, headers={"Range": "bytes=10-"})
    ask("GET", box + "/files?path=b", 404)
    key = {"Idempotency-Key": "clash-" + box[-16:]}
    ask("POST", "/v1/sandboxes", 201, headers=key)
    ask("POST", "/v1/sandboxes", 409, headers=key, json={"cpus": 0.5})
    ask("DELETE", box, 204)
    ask("GET", box + "?detail=true", 410)
    ask("POST", box + "/exec?detail=true", 410, json={"command": "true"})
    ask("GET", box, 404)


def test_limits_of_the_server(own):
    s = own(MAX_SANDBOXES=1, MAX_FILE_BYTES=100, MAX_SNAPSHOT_BYTES=2048, ALLOWED_IMAGES="python:*", ALLOW_NETWORK="false")
    ask = Judged(s)
    box = sandboxes_of_one(ask)
    ask("POST", "/v1/sandboxes", 429)
    ask("POST", "/v1/sandboxes", 403, json={"image": "alpine:3"})
    ask("POST", "/v1/sandboxes", 403, json={"network": True})
    ask("PUT", box + "/files?path=x", 413, data=b"x" * 101)
    ask("POST", box + "/exec", 200, json={"command": "head -c 20000 /dev/urandom > big"})
    ask("GET", box + "/files?path=big", 413)
    ask("POST", box + "/snapshots", 413)
    ask.api.clear()


def sandboxes_of_one(ask):
    return "/v1/sandboxes/" + ask("POST", "/v1/sandboxes", 201).json()["id"]


def test_a_disk_that_is_full(own):
    s = own(DISK_FLOOR_MB=1048576)
    ask = Judged(s)
    box = sandboxes_of_one(ask)
    assert wait_until(lambda: ask.api.ask("PUT", box + "/files?path=x", data=b"x").status_code == 507)
    ask("PUT", box + "/files?path=x", 507, data=b"x")
    ask("PUT", box + "/files/archive?path=x", 507, data=tar())
    ask("DELETE", box, 204)


def test_an_engine_that_is_gone(own, faulty):
    s = own(socket_path=faulty.path)
    ask = Judged(s)
    box = sandboxes_of_one(ask)
    faulty.fail(".")
    faulty.cut()
    assert wait_until(lambda: s.api.ask("GET", "/healthz").status_code == 502)
    ask("GET", "/healthz", 502)
    ask("POST", "/v1/sandboxes", 502)
    ask("GET", box, 200)
    faulty.fail(None)
    assert wait_until(s.api.healthy)
    ask("DELETE", box, 204)


@pytest.mark.gate
def test_refusals_of_the_gate_have_the_described_shape(server):
    """Before a route is known: no operation is named, but the error is one of the document's."""
    contract = openapi_kit.Contract(DOCUMENT)
    for request, code in (
        (b"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n", "not_implemented"),
        (b"GET /healthz HTTP/3.0\r\nHost: localhost\r\n\r\n", "http_version_not_supported"),
        (b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", "not_implemented"),
        (b"nonsense\r\n\r\n", "invalid_request"),
    ):
        body = json.loads(raw(server.port, request).partition(b"\r\n\r\n")[2])
        contract.valid(DOCUMENT["components"]["schemas"]["Error"], body)
        assert body["error"]["code"] == code


def test_other_methods_are_405_with_allow(server):
    contract = openapi_kit.Contract(DOCUMENT)
    said = DOCUMENT["components"]["responses"]["method_not_allowed"]
    for path, item in DOCUMENT["paths"].items():
        real = path.replace("{sandbox_id}", NO_BOX[-19:]).replace("{snapshot_id}", NO_SNAP[-21:]).replace("{name}", "x")
        allowed = {m.upper() for m in item if m in openapi_kit.METHODS} | {"OPTIONS"} | ({"HEAD"} if "get" in item else set())
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            if method in allowed:
                continue
            answer = requests.request(method, server.url + real, headers={"X-API-Key": KEY}, timeout=10)
            assert answer.status_code == 405 and set(answer.headers["Allow"].split(", ")) == allowed
            contract.headers(said["headers"], answer)
            contract.valid(said["content"]["application/json"]["schema"], answer.json())
        answer = requests.options(server.url + real, timeout=10)
        assert answer.status_code == 204 and set(answer.headers["Allow"].split(", ")) == allowed
