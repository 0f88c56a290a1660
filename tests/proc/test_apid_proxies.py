"""apid behind real proxies: whatever a client sends, proxy and apid see the same requests."""

import re

import http_rows
import pytest
from apid_server import BOX_URL, KEY, Server, statuses
from proxies import NAME, Proxy

KINDS = ["nginx", "haproxy", "caddy"]


@pytest.fixture(scope="module")
def server():
    with Server(TRUSTED_PROXIES="127.0.0.1", ALLOWED_HOSTS=f"a, {NAME}", LOG_LEVEL="debug") as s:
        yield s


@pytest.fixture(scope="module", params=KINDS)
def proxy(request, server):
    p = Proxy(request.param, server.port)
    yield p
    p.close()


def exchange(proxy, data, wait=0.5):
    with proxy.connect() as s:
        s.settimeout(wait)
        got = b""
        try:
            s.sendall(data)
            while more := s.recv(65536):
                got += more
        except OSError:
            pass
    return got


def served(server):
    return len(re.findall(r" /SMUGGLED \d", server.program.log()))


def test_no_row_makes_apid_serve_a_request_that_the_proxy_did_not_see(server, proxy):
    """A request that hides in another's body would be answered without an answer for the client."""
    for name, sent, _ in http_rows.ROWS:
        before = served(server)
        data = sent.replace("Host: a\r\n", f"Host: {NAME}\r\n").encode("latin-1")
        answers = [x for x in statuses(exchange(proxy, data)) if x >= 200]
        hidden = served(server) - before
        assert hidden <= max(0, len(answers) - 1), (name, answers)
        assert statuses(exchange(proxy, f"GET /healthz HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n".encode(), 30)) == [200], name
    assert served(server) > 0  # the rows of two requests: the count does count


def test_stream_of_an_http_1_0_client_is_its_own_and_whole(server, proxy):
    """Whatever the proxy makes of its version, and of the connection to the server behind it."""
    body = b'{"command":"echo hi"}'
    lines = f"Host: {NAME}\r\nX-API-Key: {KEY}\r\nConnection: keep-alive\r\nContent-Length: {len(body)}\r\n\r\n"
    got = exchange(proxy, f"POST {BOX_URL}/exec/stream HTTP/1.0\r\n{lines}".encode() + body, 30)
    assert statuses(got) == [200] and b'"data":"hi\\n"' in got and b'"duration_ms":1234}' in got, got
    for _ in range(3):
        assert statuses(exchange(proxy, f"GET /healthz HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n".encode(), 30)) == [200]
