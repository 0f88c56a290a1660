"""Behind real proxies, configured as docs/PROXIES.md says: streams come at once, big files whole, and the client is who it is."""

import base64
import hashlib
import http.client
import json
import os
import socket

import pytest
from front import Plain, Tls
from harness import KEY, Server, wait_until
from proxies import NAME, Proxy, snippets

SNIPPETS = ["nginx", "haproxy", "haproxy-tcp", "caddy"]
KINDS = [*SNIPPETS, "haproxy-pass"]
HEADERS = {"X-API-Key": KEY, "Host": NAME, "X-Forwarded-For": "198.51.100.66"}  # the last one is a lie
pytestmark = pytest.mark.bare


class Own(Tls):
    """The server's own certificate, for the name that clients use too."""

    names = f"IP:127.0.0.1,DNS:{NAME}"


@pytest.fixture(scope="module", params=KINDS)
def way(request, engine):
    """A server, and the proxy in front of it."""
    front = Own() if request.param == "haproxy-pass" else Plain()
    s = type("Fronted", (Server,), {"front": front})(engine, TRUSTED_PROXIES="127.0.0.1", ALLOWED_HOSTS=NAME, MAX_SANDBOXES=10, POOL=0)
    s.api.session().verify = front.verify
    p = None
    try:
        s.start()
        s.work = s.api.create()
        p = Proxy(request.param, s.port, getattr(front, "ca", None))
        yield s, p
    finally:
        if p is not None:
            p.close()
        s.close()


@pytest.fixture
def behind(way):
    return way[0]


@pytest.fixture
def proxy(way):
    return way[1]


def ask(proxy, method, path, body=None, **headers):
    """The answer, not yet read; the caller closes its connection."""
    c = http.client.HTTPConnection(NAME)
    c.sock = proxy.connect()
    c.sock.settimeout(60)
    c.request(method, path, body, HEADERS | headers)
    return c, c.getresponse()


def test_every_configuration_of_the_page_is_tested():
    assert sorted(snippets()) == sorted(SNIPPETS)


def test_first_line_of_a_stream_comes_while_the_command_runs(behind, proxy):
    command = "rm -f go; echo first; while [ ! -e go ]; do sleep 0.05; done; echo second"
    c, r = ask(proxy, "POST", behind.work.path + "/exec/stream", json.dumps({"command": command}), **{"Content-Type": "application/json"})
    assert r.status == 200 and json.loads(r.readline())["data"] == "first\n"
    behind.work.put("go", b"")
    assert [json.loads(line).get("data") for line in r.read().splitlines()] == ["second\n", None]
    c.close()


def test_big_files_go_up_and_down_whole(behind, proxy):
    data = os.urandom(20_000_000)
    for chunked in (False, True):
        body = (data[i : i + 1_000_000] for i in range(0, len(data), 1_000_000)) if chunked else data
        c, r = ask(proxy, "PUT", behind.work.path + "/files?path=big", body)
        assert r.status == 200 and json.loads(r.read())["size"] == len(data)
        c.close()
    c, r = ask(proxy, "GET", behind.work.path + "/files?path=big")
    assert r.status == 200 and hashlib.sha256(r.read()).digest() == hashlib.sha256(data).digest()
    c.close()


def streamed(behind, proxy, command, pieces):
    request = base64.urlsafe_b64encode(json.dumps({"command": command, "timeout_seconds": 60}).encode()).decode().rstrip("=")
    return ask(proxy, "POST", behind.work.path + "/exec/stream?request=" + request, pieces)


def test_standard_input_is_streamed_whole(behind, proxy):
    data = os.urandom(5_000_000)
    pieces = (data[i : i + 70_001] for i in range(0, len(data), 70_001))
    c, r = streamed(behind, proxy, ["sha256sum"], pieces)
    events = [json.loads(x) for x in r.read().splitlines()]
    assert (r.status, events[0]["data"].split()[0], events[-1]["exit_code"]) == (200, hashlib.sha256(data).hexdigest(), 0)
    c.close()


@pytest.mark.parametrize("way", ["haproxy", "haproxy-tcp", "haproxy-pass"], indirect=True)  # docs/PROXIES.md says why
def test_command_prints_while_its_input_still_comes(way):
    s, p = way

    def pieces():
        yield b"first\n"
        assert wait_until(lambda: "printed" in s.work.sh("ls"))
        yield b"second\n"

    s.work.sh("rm -f printed")
    c, r = streamed(s, p, ["sh", "-c", "read a; echo $a; touch printed; read b; echo $b"], pieces())
    assert "".join(json.loads(x).get("data", "") for x in r.read().splitlines()) == "first\nsecond\n"
    c.close()


def test_audit_log_has_the_clients_address(behind, proxy):
    for name in ("one", "two"):
        c, r = ask(proxy, "PUT", behind.work.path + f"/files?path={name}", b"x", **{"X-Request-Id": f"id-{name}-{proxy.port}"})
        assert r.status == 200
        c.close()

    def peers():
        lines = [json.loads(line) for line in (behind.data / "audit.log").read_text().splitlines()]
        return [x["peer"].split(":")[0] for x in lines if str(x.get("request_id", "")).endswith(f"-{proxy.port}")]

    assert wait_until(lambda: len(peers()) == 2) and peers() == ["127.0.0.77"] * 2


def test_client_that_leaves_ends_its_command(behind, proxy):
    mark = f"41{proxy.port}.5"
    c, r = ask(
        proxy,
        "POST",
        behind.work.path + "/exec/stream",
        json.dumps({"command": f"echo on; sleep {mark}", "timeout_seconds": 600}),
        **{"Content-Type": "application/json"},
    )
    assert r.readline() and wait_until(lambda: behind.work.running(mark) > 0)
    c.sock.shutdown(socket.SHUT_RDWR) if c.sock else None
    r.close()
    c.close()
    assert wait_until(lambda: behind.work.running(mark) == 0, 60, 0.2)


def test_proxy_that_is_not_trusted_is_not_believed(own):
    s = own(ALLOWED_HOSTS=NAME, POOL=0)
    for kind in ("nginx", "haproxy-tcp"):
        p = Proxy(kind, s.port)
        try:
            c, r = ask(p, "GET", "/v1/sandboxes/sb_0123456789abcdef", **{"X-API-Key": "wrong-key-0123456789", "X-Request-Id": f"id-{kind}"})
            assert r.status == (401 if kind == "nginx" else 400)
            c.close()
        finally:
            p.close()
    lines = (s.data / "audit.log").read_text().splitlines()
    assert [json.loads(x)["peer"].split(":")[0] for x in lines if "id-nginx" in x] == ["127.0.0.1"]
