"""Who may ask: keys, and what browsers are kept from."""

import base64

import pytest
from harness import KEY, check_error, codes, raw, request

SB, SNAP = "/v1/sandboxes/sb_0123456789abcdef", "/v1/snapshots/snap_0123456789abcdef"
ROUTES = [
    ("GET", "/v1/sandboxes"), ("POST", "/v1/sandboxes"), ("GET", SB), ("DELETE", SB), ("POST", SB + "/timeout"), ("POST", SB + "/exec"),
    ("POST", SB + "/exec/stream"), ("GET", SB + "/files?path=x"), ("PUT", SB + "/files?path=x"), ("GET", SB + "/files/list"),
    ("GET", SB + "/files/archive?path=x"), ("PUT", SB + "/files/archive?path=x"), ("POST", SB + "/snapshots"), ("POST", SB + "/rollback"),
    ("GET", "/v1/snapshots"), ("GET", SNAP), ("DELETE", SNAP), ("POST", SNAP + "/fork"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_refuses_a_wrong_and_a_missing_key(server, method, path):
    for key in ("wrong-key-0123456789", ""):
        answer = server.api.ask(method, path, key=key, data=b"{not json" if method in ("POST", "PUT") else None)
        check_error(answer, 401)
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    assert codes(raw(server.port, head.encode())) == [401]


def ask(server, *headers):
    head = "\r\n".join(["GET /v1/sandboxes HTTP/1.1", "Host: localhost", "Connection: close", *headers]) + "\r\n\r\n"
    return codes(raw(server.port, head.encode()))


def basic(text):
    return "Authorization: Basic " + base64.b64encode(text.encode()).decode()


def test_three_forms_of_the_key_are_accepted(server):
    for h in (f"Authorization: Bearer {KEY}", f"authorization: bearer {KEY}", f"X-API-Key: {KEY}", basic(f"box:{KEY}"), basic(f":{KEY}")):
        assert ask(server, h) == [200], h
    assert ask(server, "Authorization:", f"X-API-Key: {KEY}") == [200]
    assert ask(server, f"Authorization: Bearer {KEY}", f"X-API-Key: {KEY}") == [200]


def test_almost_right_keys_are_wrong(server):
    for h in (
        "", f"Authorization: {KEY}", f"Authorization: Bearer {KEY}x", f"Authorization: Bearer {KEY[:-1]}", f"Authorization: Basic {KEY}",
        f"Authorization: Bearer {KEY} {KEY}", f"X-API-Key: {KEY},{KEY}", f"X-API-Key: Bearer {KEY}", basic(KEY), basic(f"{KEY}:"),
        "Authorization: Bearer", "X-API-Key: ", "Authorization: Bearer " + "k" * 5000,
    ):  # fmt: skip
        assert ask(server, *([h] if h else [])) == [401], h
    assert ask(server, f"Authorization: Bearer {KEY}", "X-API-Key: other-key-0123456789") == [401], "two that differ"


def test_key_in_the_address_or_a_cookie_is_not_taken(server):
    for q in ("api_key", "key", "token", "access_token", "X-API-Key"):
        answer = server.api.ask("GET", f"/v1/sandboxes?{q}={KEY}", key="")
        check_error(answer, 401)
    assert ask(server, f"Cookie: X-API-Key={KEY}") == [401]


def test_key_is_never_sent_back(server):
    for path in ("/v1/sandboxes?x=" + KEY, "/v1/none", "/healthz", SB):
        answer = server.api.ask("GET", path)
        assert KEY not in answer.text.replace("x=" + KEY, "") and KEY not in str(answer.headers)


def test_other_origins_and_sites_are_refused(server):
    good = f"X-API-Key: {KEY}"
    port = server.port
    for h in ("Origin: http://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"):
        assert ask(server, good, h) == [403], h
    for h in ("Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none"):
        assert ask(server, good, h) == [200], h
    own = f"GET /v1/sandboxes HTTP/1.1\r\nHost: localhost:{port}\r\nOrigin: http://localhost:{port}\r\n{good}\r\nConnection: close\r\n\r\n"
    assert codes(raw(port, own.encode())) == [200]


@pytest.mark.parametrize(
    ("host", "code"),
    [("localhost", 200), ("127.0.0.1:99", 200), ("[::1]", 200), ("LOCALHOST:1", 200), ("evil.example", 403), ("localhost.evil.example", 403),
     ("127.0.0.1.evil.example", 403), ("0.0.0.0", 403)],
)  # fmt: skip
def test_host_must_be_this_machine(server, host, code):
    head = f"GET /v1/sandboxes HTTP/1.1\r\nHost: {host}\r\nX-API-Key: {KEY}\r\nConnection: close\r\n\r\n"
    assert codes(raw(server.port, head.encode())) == [code]


def test_no_answer_allows_another_origin(server):
    for path, method in (("/v1/sandboxes", "OPTIONS"), ("/healthz", "GET"), ("/v1/sandboxes", "GET")):
        answer = server.api.ask(method, path, headers={"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"})
        assert not [h for h in answer.headers if h.lower().startswith("access-control")]


def test_form_types_are_415_and_json_ones_are_taken(api):
    body = b'{"memory_mb": 64}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonx"):
        check_error(api.ask("POST", "/v1/sandboxes", data=body, headers={"Content-Type": kind}), 415)
    for kind in ("application/json", "Application/JSON;charset=UTF-8"):
        assert api.note(api.ask("POST", "/v1/sandboxes", data=body, headers={"Content-Type": kind})).status_code == 201
    head = request("POST", "/v1/sandboxes", body=body)
    assert codes(raw(int(api.url.rsplit(":", 1)[1]), head)) == [201], "no type at all is accepted"
    for s in api.ids():
        api.sandboxes.append(s)
