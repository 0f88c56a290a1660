"""Runs and lists of hosts, as every client has them: the same promises, kept by the command and the three SDKs (drivers.py)."""

import http.server
import threading

import pytest
import trap as t
from drivers import Failure
from harness import Server
from test_behaviour import OF_SDKS, as_promised, fails, run

HOST = "127.0.0.2"  # which NO_PROXY does not name
GET = """
import sys, urllib.error, urllib.request
for url in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(url, timeout=30).read().decode())
    except urllib.error.HTTPError as e:
        print(e.code, e.read().decode().strip())
"""


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"you asked for {self.path}".encode())

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def host():
    """A web server on this machine: host:port."""
    web = http.server.ThreadingHTTPServer((HOST, 0), Answer)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    yield f"{HOST}:{web.server_port}"
    web.shutdown()
    web.server_close()


@pytest.fixture(scope="module")
def listed(engine, host):
    """A server whose own list has that one and another."""
    s = Server(engine, EGRESS_ALLOWLIST=f"{host},other.example").start()
    yield s
    s.close()


@pytest.fixture
def strict(reach, listed):
    yield reach(listed.url)
    listed.api.delete_all()


def code_for(*urls):
    return GET.replace("sys.argv[1:]", repr(urls))


def test_list_is_taken_and_told_in_its_one_spelling(to, api):
    for given, want in ((["Example.COM.", "*.example.org:8443"], ["example.com", "*.example.org:8443"]), ([], []), (None, None)):
        made = to.call("create", timeout_seconds=300, egress_allowlist=given)
        api.sandboxes.append(made["id"])
        assert (made["egress_allowlist"], made["network"]) == (want, False)
        assert to.call("get", sandbox=made["id"])["egress_allowlist"] == want
        assert [s["egress_allowlist"] for s in to.call("list_sandboxes") if s["id"] == made["id"]] == [want]


def test_entry_that_is_none_is_refused_by_its_name(to):
    for name, more in (("create", {}), ("run", {"code": "1"})):
        f = fails("api", lambda: to.call(name, egress_allowlist=["fine.example", "no host"], **more), status=400)  # noqa: B023
        assert "no host" in f.message and "fine.example" not in f.message


def test_network_and_a_list_exclude_each_other(to):
    with pytest.raises(Failure) as caught:
        to.call("create", network=True, egress_allowlist=["fine.example"])
    if to.name != "command":
        as_promised(caught.value, "api", status=400)
    assert "usage" in caught.value.types or to.name != "command"


def test_sandbox_with_a_list_reaches_what_it_names_and_nothing_else(strict, host):
    box = strict.call("create", timeout_seconds=300, egress_allowlist=[host])["id"]
    r = run(strict, box, ["python3", "-c", GET, f"http://{host}/x", "http://other.example/"])
    assert r["stdout"].splitlines() == ["you asked for /x", "403 egress refused: not in the allowlist"], r
    assert strict.call("create", timeout_seconds=300)["egress_allowlist"] == [host, "other.example"], "not given: the server's own"
    none = strict.call("create", timeout_seconds=300, egress_allowlist=[])
    assert none["egress_allowlist"] == []
    assert run(strict, none["id"], ["python3", "-c", GET, f"http://{host}/x"])["exit_code"] != 0
    f = fails("api", lambda: strict.call("create", egress_allowlist=[host, "beyond.example"]), status=400)
    assert "beyond.example" in f.message and host not in f.message


def test_run_gives_output_and_code_of_a_program_of_which_nothing_is_left(to, api):
    before = api.ids()
    r = to.call("run", code="import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)", timeout_seconds=20, memory_mb=64)
    assert (r["stdout"], r["stderr"], r["exit_code"], r["language"]) == ("out\n", "err\n", 3, "python")
    assert r["limits_applied"] == {"timeout_seconds": 20, "memory_mb": 64}
    assert (r["oom_killed"], r["truncated"], r["network_isolated"], r["egress_allowlist"]) == (False, False, True, [])
    assert r["snapshot_id"] is None and r["backend"] == "docker" and r["duration_ms"] >= 0
    assert api.ids() == before


def test_run_begins_with_a_snapshot_and_leaves_one(to, api):
    first = to.call("run", code="open('memo', 'w').write('kept')", snapshot=True)["snapshot_id"]
    api.snapshots.append(first)
    assert to.call("run", code="print(open('memo').read())", snapshot_id=first)["stdout"] == "kept\n"


def test_run_past_its_time_is_a_timeout_and_a_language_that_is_none_is_refused(to):
    fails("api", lambda: to.call("run", code="while True: pass", timeout_seconds=1), status=408, code="timeout")
    f = fails("api", lambda: to.call("run", code="x", language="ruby"), status=400, code="invalid_request")
    assert "ruby" in f.message


def test_run_with_a_list_reaches_what_it_names_and_nothing_else(strict, host):
    r = strict.call("run", code=code_for(f"http://{host}/y", "http://other.example/"), egress_allowlist=[host], timeout_seconds=60)
    assert r["stdout"].splitlines() == ["you asked for /y", "403 egress refused: not in the allowlist"], r
    assert (r["network_isolated"], r["egress_allowlist"]) == (True, [host])


RAN = {
    "stdout": "", "stderr": "", "exit_code": 0, "duration_ms": 1, "language": "python", "backend": "docker", "snapshot_id": None,
    "limits_applied": {"timeout_seconds": 30, "memory_mb": 512}, "oom_killed": False, "network_isolated": True, "egress_allowlist": [],
    "truncated": False,
}  # fmt: skip


def test_run_whose_answer_is_lost_is_not_sent_again(reach, trap):
    trap.on("POST /v1/run", t.nothing())
    fails("broken", lambda: reach(trap.url).call("run", code="1"))
    assert len(trap.requests("POST")) == 1


@OF_SDKS
@pytest.mark.parametrize(
    "wrong", [{"egress_allowlist": "a.example"}, {"egress_allowlist": [7]}, {"limits_applied": None}, {"exit_code": "0"}]
)
def test_answer_to_a_run_that_is_none_is_told_as_that(reach, trap, wrong):
    trap.on("POST /v1/run", t.reply(200, RAN | wrong))
    fails("strange", lambda: reach(trap.url).call("run", code="1"))


@OF_SDKS
@pytest.mark.parametrize("wrong", ["a.example", [7], {}])
def test_list_of_a_sandbox_that_is_none_is_told_as_that(reach, trap, wrong):
    trap.on("POST /v1/sandboxes", t.reply(201, t.SANDBOX | {"egress_allowlist": wrong}))
    fails("strange", lambda: reach(trap.url).call("create"))
