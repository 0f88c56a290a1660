"""Keys, tenants, scopes and quotas of a real server with a key file, over HTTP."""

import hashlib
import json
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import BUILD, ROOT, Api, Box, at_once, check_error, wait_until

SCOPES = ("read", "exec", "files", "manage", "admin")
NOBODY = "sb_0000000000000abc"
NOTHING = "snap_0000000000000def"


def line(key, **members):
    return json.dumps({"name": key, "digest": hashlib.sha256(key.encode()).hexdigest()} | members)


class Keys:
    """A key file and the server that reads it."""

    def __init__(self, path, *lines):
        self.path = path
        self.write(*lines)

    def write(self, *lines, mode=0o600):
        fresh = self.path.with_suffix(".new")
        fresh.write_text("".join(x + "\n" for x in lines))
        fresh.chmod(mode)
        fresh.rename(self.path)

    def read_again(self, server, key, status):
        """After SIGHUP, when this key gets this status."""
        server.process.send_signal(signal.SIGHUP)
        got = wait_until(lambda: server.api.ask("GET", f"/v1/sandboxes/{NOBODY}", key=key).status_code == status)
        assert got, server.tail()


@pytest.fixture
def keys(tmp_path):
    return lambda *lines: Keys(tmp_path / "keys", *lines)


def routes():
    """Method, body, scope, pattern of each row of apid's table that needs a key."""
    source = (ROOT / "apid/routes.h").read_text()
    defines = dict(re.findall(r'^#define (\w+_PATH) "(.*)"$', source, re.M))
    for method, body, scope, pattern in re.findall(r"X\((\w+), (\w+), KEY, (\w+), ([^,]+), \w+\)", source):
        yield method, body, scope.lower(), "".join(defines.get(p, p.strip('"')) for p in pattern.split())


def ask(api, method, body, pattern, key, sandbox=NOBODY, snapshot=NOTHING, detail=False, rollback_to=NOTHING):
    """A well-formed request on this route."""
    path = pattern.replace("{sandbox_id}", sandbox).replace("{snapshot_id}", snapshot)
    more = {}
    if path.endswith(("/files", "/archive", "/list")):
        more["params"] = {"path": "/workspace/x"}
    if detail:
        more["params"] = more.get("params", {}) | {"detail": "true"}
    if body == "RAW":
        more["data"] = b"x"
    if method == "POST":
        more["json"] = {
            "timeout": {"timeout_seconds": 60},
            "exec": {"command": "true"},
            "stream": {"command": "true"},
            "rollback": {"snapshot_id": rollback_to},
            "run": {"code": "print(1)"},
            "sandboxes": {"memory_mb": 64},
        }.get(path.rsplit("/", 1)[1], {})
    return api.note(api.ask(method, path, key=key, **more))


def test_every_route_takes_exactly_the_scope_of_the_table(own, keys):
    file = keys(*[line(f"scope-{s}", tenant="acme", scopes=[s]) for s in SCOPES])
    server = own(KEYS_FILE=file.path)
    server.api.key = "scope-admin"
    cells = 0
    for method, body, needed, pattern in routes():
        for scope in SCOPES:
            answer = ask(server.api, method, body, pattern, f"scope-{scope}")
            cells += 1
            if scope in (needed, "admin"):
                assert answer.status_code in (200, 201, 404), (method, pattern, scope, answer.text)
            else:
                assert answer.status_code == 403, (method, pattern, scope, answer.text)
                assert answer.json()["error"] == {"code": "forbidden", "message": f"this key lacks the scope {needed}"}
    assert cells == len(SCOPES) * 20
    # Before anything else about the request is looked at.
    bad = server.api.ask("POST", f"/v1/sandboxes/{NOBODY}/exec", key="scope-read", data=b"{", headers={"Content-Type": "application/json"})
    check_error(bad, 403)
    kept = {"code": "print(1)", "snapshot": True}
    assert "scope manage" in server.api.ask("POST", "/v1/run", key="scope-exec", json=kept).json()["error"]["message"]
    server.api.clear()


def test_foreign_ids_are_answered_as_unknown_ones_on_every_route(own, keys):
    file = keys(line("red", tenant="red"), line("blue", tenant="blue"))
    server = own(KEYS_FILE=file.path)
    red, blue = Api(server.url, "red"), Api(server.url, "blue")
    box = red.create(memory_mb=64)
    snap = box.snapshot()
    mine = blue.create(memory_mb=64)
    differ = {"Date", "X-Request-Id", "Connection", "Content-Length"}  # Connection: whether the body was there already
    for method, body, _, pattern in routes():
        if "{" not in pattern:
            continue
        for detail in (False, True):
            args = (blue, method, body, pattern, "blue")
            foreign = ask(*args, sandbox=box.id, snapshot=snap, detail=detail)
            unknown = ask(*args, detail=detail)
            assert foreign.status_code == unknown.status_code == 404, (method, pattern, foreign.text)
            assert foreign.text.replace(box.id, NOBODY).replace(snap, NOTHING) == unknown.text
            heads = [{k: v for k, v in a.headers.items() if k not in differ} for a in (foreign, unknown)]
            assert heads[0] == heads[1]
    foreign, unknown = (blue.ask("POST", f"{mine.path}/rollback", json={"snapshot_id": s}) for s in (snap, NOTHING))
    assert foreign.status_code == unknown.status_code == 404 and foreign.text.replace(snap, NOTHING) == unknown.text
    for what in (snap, NOTHING):
        answer = blue.ask("POST", "/v1/run", json={"code": "print(1)", "snapshot_id": what})
        assert answer.status_code == 400 and f"Unknown snapshot: {what}" in answer.text
    assert blue.ids() == [mine.id] and blue.ask("GET", "/v1/snapshots").json()["snapshots"] == []
    assert blue.ask("GET", f"/v1/snapshots?sandbox_id={box.id}").json()["snapshots"] == []
    assert red.ids() == [box.id] and "tenant" not in red.list()[0]
    red.clear(), blue.clear()


def test_admin_sees_every_tenant_by_name(own, keys):
    file = keys(line("red", tenant="red"), line("root", scopes=["admin"]))
    server = own(KEYS_FILE=file.path)
    red, root = Api(server.url, "red"), Api(server.url, "root")
    box = red.create(memory_mb=64)
    snap = box.snapshot()
    assert [(s["id"], s["tenant"]) for s in root.list()] == [(box.id, "red")]
    assert root.ask("GET", f"/v1/snapshots/{snap}").json()["tenant"] == "red"
    assert Box(root, root.list()[0]).sh("echo hi") == "hi\n"
    assert root.ask("DELETE", box.path).status_code == 204
    red.clear()


def test_keys_racing_for_a_tenants_last_slots_get_exactly_its_quota(own, keys):
    file = keys(line("a", tenant="t", quotas={"sandboxes": 3}), line("b", tenant="t"), line("free", tenant="u"))
    server = own(KEYS_FILE=file.path)
    a, b, free = (Api(server.url, k) for k in ("a", "b", "free"))
    snap = a.create(memory_mb=64).snapshot()
    calls = [lambda api=api: api.post_sandbox({"memory_mb": 64}) for api in (a, b)] * 4
    calls += [lambda api=api: api.post_fork(snap) for api in (a, b)] * 4
    answers = at_once(calls)
    assert [x.status_code for x in answers].count(201) == 2, [x.text for x in answers]
    for x in answers:
        if x.status_code != 201:
            assert check_error(x, 429) == "tenant quota of 3 sandboxes reached" and int(x.headers["Retry-After"]) >= 1
    assert "tenant quota" in a.ask("POST", "/v1/run", json={"code": "1"}).json()["detail"]
    free.create(memory_mb=64)
    a.clear(), b.clear(), free.clear()


@pytest.mark.gate
def test_requests_a_second_and_failing_keys_are_bounded(own, keys):
    file = keys(line("slow", tenant="t", quotas={"requests_per_second": 2}), line("free"))
    server = own(KEYS_FILE=file.path, FAILED_KEYS_A_MINUTE=5, TRUSTED_PROXIES="127.0.0.1")
    api = server.api
    answers = [api.ask("GET", "/v1/sandboxes", key="slow") for _ in range(40)]
    late = [a for a in answers if a.status_code == 429]
    assert answers[0].status_code == 200 and late and all(int(a.headers["Retry-After"]) >= 1 for a in late)
    wrong = [api.ask("GET", "/v1/sandboxes", key=f"guess-{i}", headers={"X-Forwarded-For": "192.0.2.7"}) for i in range(40)]
    assert [a.status_code for a in wrong[:5]] == [401] * 5 and wrong[-1].status_code == 429
    assert int(wrong[-1].headers["Retry-After"]) >= 1 and "WWW-Authenticate" not in wrong[-1].headers
    assert all(api.ask("GET", "/v1/sandboxes", key="free", headers={"X-Forwarded-For": "192.0.2.7"}).status_code == 200 for _ in range(40))


def test_streams_commands_and_transfers_of_a_revoked_key_end_at_once(own, keys):
    goes, stays = line("goes", tenant="t"), line("stays", tenant="t")
    file = keys(goes, stays)
    server = own(KEYS_FILE=file.path)
    api, other = Api(server.url, "goes"), Api(server.url, "stays")
    box = api.create(memory_mb=128)
    same = Box(other, {"id": box.id})
    streams = [box.stream("echo on; exec sleep 4321"), same.stream("echo on; until [ -e go ]; do sleep 0.05; done; echo off")]
    for s in streams:
        assert s.next()["data"] == "on\n"
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(box.post_exec, "touch waits; exec sleep 4321")
        assert wait_until(lambda: "waits" in same.names())
        file.write(stays)
        file.read_again(server, "goes", 401)
        answer = waiting.result(60)
        assert answer.status_code == 401 and answer.json()["error"]["message"] == "the key was revoked"
    assert streams[0].all()[-1] == {"type": "error", "data": "the key was revoked"}
    assert wait_until(lambda: "4321" not in same.sh("cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' '"))
    same.put("go", b"")
    assert streams[1].all()[-1]["type"] == "exit"
    assert other.ids() == [box.id]
    other.ask("DELETE", box.path)


@pytest.mark.gate
def test_file_that_is_wrong_stops_the_start_with_one_line_and_later_leaves_the_old_keys(own, keys):
    file = keys(line("old"))
    server = own(KEYS_FILE=file.path, API_KEYS="")  # it is enough
    wrong = {
        "line 2: ": lambda: file.write(line("old"), "{"),
        "stands in line 1": lambda: file.write(line("old"), line("old")),
        "chmod 600": lambda: file.write(line("new"), mode=0o644),
        "there is no": lambda: file.path.unlink(),
    }
    for said, spoil in wrong.items():
        before = server.log.read_text().count("AGENT_SANDBOX_KEYS_FILE")
        spoil()
        server.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda n=before: server.log.read_text().count("AGENT_SANDBOX_KEYS_FILE") > n), said
        last = [x for x in server.log.read_text().splitlines() if "AGENT_SANDBOX_KEYS_FILE" in x][before:]
        assert len(last) == 1 and said in last[0] and last[0].endswith("the keys from before stay")
        assert server.api.ask("GET", "/v1/sandboxes", key="old").status_code == 200
        other = own(start=False, KEYS_FILE=file.path, API_KEYS="")
        other.launch().api.key = "new"  # good by the end
        assert other.process.wait(30) == 2
        assert other.tail().count("AGENT_SANDBOX_KEYS_FILE") == 1 and said in other.tail()
    file.write(line("new"))
    file.read_again(server, "new", 404)
    assert server.api.ask("GET", "/v1/sandboxes", key="old").status_code == 401
    server.api.key = "new"


def test_key_is_replaced_in_mid_request_without_a_broken_answer(own, keys):
    file = keys(line("steady"), line("old"))
    server = own(KEYS_FILE=file.path)
    api = Api(server.url, "steady")
    box = api.create(memory_mb=64)
    events = box.stream("for i in $(seq 40); do echo $i; sleep 0.02; done")
    for n in range(10):
        file.write(line("steady"), line(f"fresh-{n}"))
        file.read_again(server, f"fresh-{n}", 404)
    got = events.all()
    assert got[-1]["type"] == "exit" and "".join(e.get("data", "") for e in got).split() == [str(i) for i in range(1, 41)]
    api.clear()


def test_page_of_identities_shows_commands_that_work(tmp_path):
    page = (ROOT / "docs/IDENTITIES.md").read_text()
    [example] = re.findall(r"```json\n(.*?)```", page, re.S)
    fences = re.findall(r"```sh\n(.*?)```", page, re.S)
    assert fences
    env = {"PATH": f"{BUILD}:/usr/bin:/bin", "HOME": str(tmp_path)}
    ran = subprocess.run(["sh", "-euc", "".join(fences)], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "ci-runner" in ran.stdout and (tmp_path / "keys").read_text().strip() == ""
    (tmp_path / "example").write_text(example)
    (tmp_path / "example").chmod(0o600)
    ran = subprocess.run(["agent-sandbox", "keys", "list", "-f", "example"], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert ran.returncode == 0 and "acme" in ran.stdout
