"""What apid serves out of itself: pages, what they load, the description of the API; to whom, and with which headers."""

import hashlib

import pytest
from apid_server import Server, error, head
from layout import BUILD, ROOT

PAGES = sorted(p for p in (ROOT / "pages").iterdir() if p.suffix in (".html", ".js", ".css", ".svg"))
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
URLS = {("/" + p.stem if p.suffix == ".html" else "/assets/" + p.name): p for p in PAGES} | {"/openapi.json": BUILD / "gen/openapi.json"}
PAGE_POLICY = {
    "default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "img-src": "'self' data:", "connect-src": "'self'",
    "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'",
}  # fmt: skip
NO_POLICY = {"default-src": "'none'", "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'"}


@pytest.fixture(scope="module")
def server():
    with Server() as s:
        yield s


def policy(answer):
    return dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))


@pytest.mark.parametrize("url", URLS)
def test_every_file_is_served_as_it_is_without_a_key(server, url):
    file = URLS[url]
    answer = server("GET", url, key=None)
    assert answer.status_code == 200 and answer.content == file.read_bytes()
    wanted = TYPES[file.suffix] + "; charset=utf-8" if file.suffix in TYPES else "application/json"
    assert answer.headers["Content-Type"] == wanted
    assert answer.headers["ETag"] == '"' + hashlib.sha256(file.read_bytes()).hexdigest()[:32] + '"'
    assert answer.headers["X-Content-Type-Options"] == "nosniff" and answer.headers["Cache-Control"] == "no-cache"
    assert answer.headers["Referrer-Policy"] == "no-referrer" and answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    html = file.suffix == ".html"
    assert policy(answer) == (PAGE_POLICY if html else NO_POLICY)
    assert answer.headers.get("Cross-Origin-Opener-Policy") == ("same-origin" if html else None)
    assert answer.headers.get("Cross-Origin-Embedder-Policy") == ("require-corp" if html else None)


@pytest.mark.parametrize("url", URLS)
def test_head_says_what_get_does_and_sends_nothing(server, url):
    got, headed = server("GET", url, key=None), server("HEAD", url, key=None)
    ignored = ("Date", "X-Request-Id")
    assert headed.status_code == 200 and headed.content == b""
    assert {k: v for k, v in headed.headers.items() if k not in ignored} == {k: v for k, v in got.headers.items() if k not in ignored}


@pytest.mark.parametrize("form", ["{0}", "W/{0}", '"x", {0}', 'W/"y" ,W/{0}', "*"])
def test_a_file_that_the_client_has_is_not_sent_again(server, form):
    tag = server("GET", "/docs", key=None).headers["ETag"]
    for method in ("GET", "HEAD"):
        answer = server(method, "/docs", key=None, headers={"If-None-Match": form.format(tag)})
        assert answer.status_code == 304 and answer.content == b""
        assert answer.headers["ETag"] == tag and answer.headers["Cache-Control"] == "no-cache"
        assert "Content-Type" not in answer.headers and policy(answer) == PAGE_POLICY


def test_a_list_of_validators_may_stand_in_two_lines(server):
    out, _ = server.raw(head("GET", "/docs", 'If-None-Match: "a"', 'If-None-Match: "b"', "Connection: close"))
    assert out.startswith(b"HTTP/1.1 200 ")


def test_the_connection_goes_on_behind_a_304(server):
    tag = server("GET", "/docs", key=None).headers["ETag"]
    request = head("GET", "/docs", f"If-None-Match: {tag}")
    out, _ = server.raw(request + request + head("GET", "/openapi.json", "Connection: close"))
    assert out.count(b"HTTP/1.1 304 Not Modified\r\n") == 2 and out.endswith((BUILD / "gen/openapi.json").read_bytes())


@pytest.mark.parametrize("value", ['"other"', "", "x", '"', 'W/"other"'])
def test_another_validator_gets_the_file(server, value):
    assert server("GET", "/docs", key=None, headers={"If-None-Match": value}).status_code == 200


@pytest.mark.parametrize(
    "path", ["/assets/", "/assets/none.js", "/assets/docs.html", "/assets/../docs", "/docs/", "/docs.html", "/assets/%64ocs", "/assets"]
)
def test_other_names_are_not_found(server, path):
    out, _ = server.raw(head("GET", path, "Connection: close", key=False))
    assert out.startswith(b"HTTP/1.1 404 ") and b'"code":"not_found"' in out and b"frame-ancestors 'none'" in out


def test_pages_can_only_be_read(server):
    for url in ("/docs", "/console", "/openapi.json", "/assets/x"):
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            answer = server(method, url, key=None)
            assert answer.status_code == 405 and answer.headers["Allow"] == "GET, HEAD, OPTIONS"


def test_switched_off_they_are_as_if_they_did_not_exist():
    with Server(DOCS=0) as s:
        nothing = error(s("GET", "/nothing", key=None), 404)
        for url in [*URLS, "/assets/none.js"]:
            for method in ("GET", "POST", "DELETE", "OPTIONS"):
                assert error(s(method, url, key=None), 404) == nothing


def test_a_person_and_the_page_itself_get_in_and_other_sites_do_not(server):
    """What a browser says when an address is typed, and when a page of ours loads its own things and asks the API."""
    for url in URLS:
        for site in ("none", "same-origin"):
            assert server("GET", url, key=None, headers={"Sec-Fetch-Site": site}).status_code == 200
        for site in ("cross-site", "same-site"):
            error(server("GET", url, key=None, headers={"Sec-Fetch-Site": site}), 403)
        error(server("GET", url, key=None, headers={"Origin": "https://elsewhere.example"}), 403)
        error(server("GET", url, key=None, headers={"Host": "elsewhere.example"}), 403)
    own = {"Sec-Fetch-Site": "same-origin", "Origin": server.url}
    assert server("GET", "/v1/sandboxes", headers=own).status_code == 200
    assert server("POST", "/v1/sandboxes", headers=own, json={}).status_code == 201


def test_every_other_answer_forbids_a_browser_to_make_anything_of_it(server):
    answers = [
        server("GET", "/v1/sandboxes"),
        server("GET", "/v1/sandboxes", key=None),
        server("GET", "/nothing"),
        server("GET", "/healthz"),
    ]
    for answer in answers:
        assert policy(answer) == NO_POLICY and answer.headers["Cache-Control"] == "no-store"
    out, _ = server.raw(b"NONSENSE\r\n\r\n")
    assert b"Content-Security-Policy: default-src 'none'; base-uri 'none'" in out


def test_no_file_is_copied_for_its_readers(server):
    """A thousand readers of the largest file cost nothing that stays."""
    url = max(URLS, key=lambda u: URLS[u].stat().st_size)
    for _ in range(50):
        server("GET", url, key=None)
    before, fds = server.rss(), server.fds()
    for _ in range(500):
        server("GET", url, key=None)
    assert server.rss() - before < 512 and server.fds() <= fds + 2
