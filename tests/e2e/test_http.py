"""HTTP as it must not be: malformed, oversized, slow and abandoned requests; the next request always works."""

import json
import time

import pytest
from front import FRONT
from harness import KEY, at_once, check_error, codes, raw, request
from machine import SLACK, wait_until


@pytest.fixture(autouse=True)
def next_request_works(server):
    yield
    assert server.api.fresh().ask("GET", "/healthz", timeout=30).status_code == 200


def post(server, target, body, *headers):
    return raw(server.port, request("POST", target, "Content-Type: application/json", *headers, body=body))


def test_unknown_path_is_404_and_wrong_method_405_with_allow(server):
    for path in ("/", "/v1", "/v1/none", "/v1/sandboxes/a/b/c/d"):
        check_error(server.api.ask("GET", path), 404)
    sb = "/v1/sandboxes/sb_0123456789abcdef"
    for method, path, allow in (
        ("PUT", "/v1/sandboxes", {"GET", "POST"}), ("PATCH", sb, {"GET", "DELETE"}), ("GET", sb + "/exec", {"POST"}),
        ("DELETE", sb + "/files", {"GET", "PUT"}), ("POST", "/healthz", {"GET"}), ("PUT", "/v1/snapshots", {"GET"}),
    ):  # fmt: skip
        answer = server.api.ask(method, path)
        check_error(answer, 405)
        assert allow <= {x.strip() for x in answer.headers["Allow"].split(",")}


def test_malformed_id_is_a_404_like_an_unknown_one(server):
    for bad in (
        "sb_",
        "sb_0123456789ABCDEF",
        "sb_0123456789abcde",
        "sb_0123456789abcdef0",
        "snap_0123456789abcdef",
        "x" * 300,
        "%ff",
        "-1",
    ):
        for method, tail in (("GET", ""), ("DELETE", ""), ("GET", "/files/list")):
            assert codes(raw(server.port, request(method, f"/v1/sandboxes/{bad}{tail}")))[0] in (404, 400), bad


def test_what_is_not_json_is_422(server, box):
    for body in (
        b"{", b"[]", b"5", b"null", b"nonsense", b'{"command":"true"} x', b"{'command':'true'}", b'{"command":"true",}', b'{"command":"\xff"}',
        b'{"command":"a\nb"}', b'{"command":NaN}', b"\0", b'{"command":"true","command":"false"}', b'"' + b"x" * 2000, b"\xef\xbb\xbf{",
    ):  # fmt: skip
        assert codes(post(server, box.path + "/exec", body)) == [422], body[:40]


def test_deep_nesting_and_absurd_numbers_are_refused(server, box):
    for body in (b"[" * 100_000, b'{"env":' * 50_000 + b"1" + b"}" * 50_000, b'{"env":' + b"[" * 100_000 + b"]" * 100_000 + b"}"):
        assert codes(post(server, box.path + "/exec", body))[0] in (422, 413)
    for number in (b"1e400", b"-1e400", b"1" + b"0" * 400, b"9" * 5000, b"1e-400"):
        assert codes(post(server, box.path + "/exec", b'{"command":"true","timeout_seconds":' + number + b"}"))[0] in (400, 422)
        assert codes(post(server, "/v1/sandboxes", b'{"memory_mb":' + number + b"}"))[0] in (400, 422)


def test_nul_in_a_string_gets_the_fields_own_error(server, box):
    answer = post(server, box.path + "/exec", b'{"command":"true\\u0000x"}')
    assert codes(answer) == [400] and b"command" in answer
    answer = post(server, box.path + "/exec", b'{"command":"true","workdir":"/\\u0000"}')
    assert codes(answer) == [400] and b"workdir" in answer


def test_limits_on_the_request_itself(server, box):
    assert codes(raw(server.port, request("GET", "/v1/sandboxes", "X-Big: " + "a" * 20_000))) == [431]
    assert codes(raw(server.port, request("GET", "/v1/sandboxes", *[f"X-{i}: {'b' * 90}" for i in range(300)]))) == [431]
    assert codes(raw(server.port, request("GET", "/v1/sandboxes?x=" + "a" * 9000))) == [414]
    body = json.dumps({"command": "true", "env": {"A": "x" * (1 << 20)}}).encode()
    assert codes(post(server, box.path + "/exec", body))[:1] == [413]
    chunked = request("POST", box.path + "/exec", "Content-Type: application/json", "Transfer-Encoding: chunked")
    assert codes(raw(server.port, chunked, b"%x\r\n" % len(body), body, b"\r\n0\r\n\r\n"))[:1] == [413]
    assert codes(raw(server.port, request("POST", box.path + "/exec", "Content-Length: 99999999999999999999"))) in ([400], [413])


@pytest.mark.parametrize(
    "lines",
    [
        ["Content-Length: 6", "Transfer-Encoding: chunked"], ["Content-Length: 5", "Content-Length: 6"], ["Content-Length: -1"],
        ["Content-Length: +5"], ["Content-Length: 0x5"], ["Content-Length: 5, 5"], ["Content-Length : 5"], ["Transfer-Encoding: xchunked"],
        ["Transfer-Encoding: chunked, identity"], ["Transfer-Encoding:\r\n chunked"], ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
    ],
)  # fmt: skip
def test_ambiguous_length_ends_the_connection_and_smuggles_nothing(server, lines):
    inner = b"0\r\n\r\n" + request("GET", "/v1/sandboxes")
    got = raw(server.port, request("PUT", "/v1/sandboxes/sb_0123456789abcdef/files?path=x", *lines, close=False) + inner, wait=1)
    assert len(codes(got)) <= 1 and (codes(got) or [400])[0] in (400, 501), got


def test_pipelined_requests_are_answered_in_order(server):
    got = raw(
        server.port, request("GET", "/healthz", close=False) + request("GET", "/v1/none", close=False) + request("GET", "/v1/sandboxes")
    )
    assert codes(got) == [200, 404, 200]


def test_expect_100_continue(server, box):
    with FRONT.connect(server.port, 5) as s:
        s.settimeout(30)
        s.sendall(request("PUT", box.path + "/files?path=e", "Content-Length: 4", "Expect: 100-continue"))
        assert codes(s.recv(4096)) == [100]
        s.sendall(b"data")
        rest = b""
        while data := s.recv(4096):
            rest += data
    assert codes(rest) == [200] and box.content("e") == b"data"


@pytest.mark.gate
def test_any_other_expectation_is_417(server, box):
    assert codes(raw(server.port, request("PUT", box.path + "/files?path=e", "Content-Length: 4", "Expect: 200-ok"), wait=1)) == [417]


def test_head_is_get_without_the_body(server, box):
    box.put("f", b"12345")
    for path in ("/healthz", "/v1/sandboxes", box.path, box.path + "/files?path=f", box.path + "/files/list"):
        got = raw(server.port, request("HEAD", path))
        assert codes(got) == [200] and got.endswith(b"\r\n\r\n"), path
    assert b"Content-Length: 5\r\n" in raw(server.port, request("HEAD", box.path + "/files?path=f"))


def test_every_answer_carries_the_fixed_headers_and_a_request_id(server, box):
    box.put("f", b"x")
    for answer in (box.get(), box.read("f"), box.read("none"), box.post_exec("true"), server.api.ask("GET", "/none"),
                   server.api.ask("GET", "/v1/sandboxes", key="x")):  # fmt: skip
        assert answer.headers["Cache-Control"] == "no-store" and answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Request-Id"]
    assert server.api.ask("GET", "/healthz", headers={"X-Request-Id": "My.id-1_2"}).headers["X-Request-Id"] == "My.id-1_2"
    for bad in ("a b", "x" * 65, "<x>", ""):
        assert server.api.ask("GET", "/healthz", headers={"X-Request-Id": bad}).headers["X-Request-Id"] not in (bad, "")


@pytest.mark.gate
def test_garbage_is_refused(server):
    for junk in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xaa" * 300, b"\0" * 500, b"GET\r\n\r\n", b"SSH-2.0-x\r\n", b"\r\n\r\n\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", b"get /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /healthz HTTP/1.1\nHost: localhost\n\n", b"GET  /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ):  # fmt: skip
        got = codes(raw(server.port, junk, wait=0.5))
        assert got in ([], [400], [405], [431], [501], [505]), (junk[:30], got)


def test_half_sent_and_slow_requests_hold_nobody_else(server):
    starts = (b"", b"GET /v1/sandboxes HTTP/1.1\r\nHost: local", b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nX-API-Key: "
              + KEY.encode() + b"\r\nContent-Length: 500\r\n\r\n{")  # fmt: skip
    sockets = []
    try:
        for i in range(150):
            s = FRONT.connect(server.port, 5)
            s.sendall(starts[i % 3])
            sockets.append(s)
        began = time.monotonic()
        got = at_once([lambda: server.api.ask("GET", "/v1/sandboxes").status_code] * 8)
        assert got == [200] * 8 and time.monotonic() - began < 3 + SLACK
    finally:
        for s in sockets:
            s.close()


def test_abandoned_requests_leave_no_descriptor(server, box):
    box.exec("true")
    time.sleep(0.5)
    before = server.descriptors()
    for i in range(60):
        raw_request = request("POST", box.path + "/exec", "Content-Type: application/json", body=b'{"command":"sleep 3131.5"}')
        with FRONT.connect(server.port, 5) as s:
            s.sendall(raw_request[: len(raw_request) if i % 2 else 60])
            time.sleep(0.01)
    assert wait_until(lambda: server.descriptors() <= before + 4, step=0.2)
    assert wait_until(lambda: box.running("3131.5") == 0, step=0.2)


def test_connection_is_kept_over_many_requests_and_errors(server):
    import http.client

    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    c.sock = FRONT.connect(server.port, 10)
    mine = c.sock.getsockname()
    for i in range(300):
        c.request("GET", ("/v1/none", "/v1/snapshots", "/v1/sandboxes/x")[i % 3], headers={"X-API-Key": KEY})
        r = c.getresponse()
        r.read()
        assert r.status == (404, 200, 404)[i % 3]
    assert c.sock.getsockname() == mine
    c.close()


def test_errors_do_not_show_the_insides(server, box):
    import re

    said = [box.read("/none").text, box.write("/x", b"").text, box.post_exec("true", workdir="/none").text, box.post_rollback("x").text,
            server.api.post_sandbox({"image": "none/such:x"}).text, box.post_exec([" "]).text]  # fmt: skip
    assert not re.search(r"docker\.sock|/var/lib|overlay2|containerd|/tmp/as-|0x[0-9a-f]{6}|\.c:\d", " ".join(said)), said


def test_health_needs_no_key_and_says_what_it_is(server):
    answer = server.api.ask("GET", "/healthz", key="")
    d = answer.json()
    assert (answer.status_code, d["status"], d["backend"]) == (200, "ok", "docker") and d["version"]
    assert d["confinement"] in ("full", "partial") and d["workspace_quota"] in ("hard", "soft")
