"""kill -9 of each program at each step of each operation, then the next request: nothing lost, nothing left over."""

import os
import signal
import threading
import time

import pytest
import requests
from harness import PROGRAMS, FaultySocket, Server, alive, check_error, text, wait_until

VICTIMS = PROGRAMS
CALLS = {
    "create": ["POST .*/volumes/create", "POST .*/containers/create", "POST .*/attach", "POST .*/start"],
    "fork": ["POST .*/volumes/create", "POST .*/containers/create", "POST .*/start"],
    "rollback": [
        "POST .*/volumes/create",
        "POST .*/containers/create",
        "POST .*/attach",
        "POST .*/start",
        "DELETE .*/containers/",
        "DELETE .*/volumes/",
    ],
    "destroy": ["DELETE .*/containers/", "DELETE .*/volumes/"],
}
STEPS = [(operation, step) for operation, steps in CALLS.items() for step in steps]


class Scene:
    """A server behind a socket that can hold an engine call, with a sandbox and a snapshot that must survive all."""

    def __init__(self, engine):
        self.faulty = FaultySocket(engine)
        self.server = Server(engine, socket_path=self.faulty.path).start()
        self.api = self.server.api
        self.keep = self.api.create(memory_mb=64, timeout_seconds=3000)
        self.keep.put("precious", b"survives")
        self.keep.sh("nohup sleep 8181.5 >/dev/null 2>&1 &")
        self.snap = self.keep.snapshot(name="precious")
        self.kills = 0

    def rest(self):
        """A parent gives up after ten deaths in five minutes; that is another test's matter."""
        self.kills += 1
        if self.kills % 7 == 0:
            self.server.end()
            self.server.start()

    def close(self):
        self.faulty.let_go()
        self.faulty.fail(None)
        self.server.close()
        self.faulty.close()

    def operate(self, operation, box):
        """Send the request in a thread of its own; the holder of what came back."""
        result = {}

        def run():
            try:
                session = requests.Session()
                session.trust_env = False
                head = {"X-API-Key": self.api.key}
                base, sb = self.api.url, f"/v1/sandboxes/{box.id}" if box else ""
                what = {
                    "create": ("POST", "/v1/sandboxes", {"memory_mb": 64}),
                    "fork": ("POST", f"/v1/snapshots/{self.snap}/fork", {}),
                    "snapshot": ("POST", sb + "/snapshots", {}),
                    "rollback": ("POST", sb + "/rollback", {"snapshot_id": self.snap}),
                    "destroy": ("DELETE", sb, None),
                }[operation]
                result["answer"] = session.request(what[0], base + what[1], json=what[2], headers=head, timeout=40)
            except requests.RequestException as exc:
                result["error"] = exc

        result["thread"] = threading.Thread(target=run)
        result["thread"].start()
        return result

    def check(self, operation, box, result, gone):
        """Whatever was hit when: the world is whole afterwards."""
        s = self.server
        result["thread"].join(40)
        assert not result["thread"].is_alive(), "the request never ended"
        assert wait_until(lambda: s.settled(*gone), 20), s.tail()
        assert wait_until(lambda: self.keep.get().status_code == 200, 10), s.tail()
        # A request that was on its way when its sessiond died is lost with it; the next one works.
        assert wait_until(lambda: self.keep.read("precious").status_code == 200, 5), s.tail()
        assert self.keep.content("precious") == b"survives"
        assert self.keep.running("8181.5") == 1
        assert self.api.ask("GET", f"/v1/snapshots/{self.snap}").json()["name"] == "precious"
        if operation in ("rollback", "snapshot"):
            names = box.names()
            assert names in (["old", "precious"], ["precious"], ["changed"]), names
            assert box.sh("echo works") == "works\n"
        if operation == "rollback" and result.get("answer") is not None and result["answer"].status_code == 200:
            assert box.names() == ["precious"]
        if operation == "destroy" and result.get("answer") is not None and result["answer"].status_code == 204:
            check_error(box.get(), 404)
        known = set(self.api.ids()) - {self.keep.id} - ({box.id} if box else set())
        if operation in ("create", "fork"):
            done = result.get("answer") is not None and result["answer"].status_code == 201
            assert not done or result["answer"].json()["id"] in known
            for i in known:
                answer = self.api.ask("POST", f"/v1/sandboxes/{i}/exec", json={"command": "echo up"})
                assert answer.status_code == 200 and answer.json()["stdout"] == "up\n"
        for i in known | ({box.id} if box else set()):
            self.api.ask("DELETE", f"/v1/sandboxes/{i}")
        for i in set(self.api.snapshot_ids()) - {self.snap}:
            self.api.fork(i).delete()
            self.api.ask("DELETE", f"/v1/snapshots/{i}")
        s.clean()
        left = [f.name for f in s.data.rglob("*") if "tmp" in f.name and f.is_file()]
        assert not left, f"left in the data directory: {left}"


@pytest.fixture(scope="module")
def scene(engine):
    s = Scene(engine)
    yield s
    s.close()


def victim_of(s, victim, box):
    """The process id to kill; a sessiond is that of the sandbox in work, or the newest."""
    pids = s.pids()[victim]
    return pids[-1] if victim == "sessiond" else pids[0]


def kill(s, victim, box):
    """Returns the process ids that must not be seen again."""
    if victim == "sessiond" and not s.pids()["sessiond"]:
        return []
    pid = victim_of(s, victim, box)
    parent = victim == "agent-sandboxd"
    tree, before = s.tree(), s.pids()
    os.kill(pid, signal.SIGKILL)
    if parent:
        s.process.wait(10)
        assert wait_until(lambda: not any(alive(p) for p in tree), 5), "something outlived the parent"
    return [p for name in PROGRAMS[1:4] for p in before[name]] if victim in PROGRAMS[1:4] else []


@pytest.mark.limit(180)
@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("operation", list(CALLS))
def test_kill_of_a_program_while_an_engine_call_is_under_way(scene, operation, victim):
    s, faulty = scene.server, scene.faulty
    for step in CALLS[operation]:
        box = None
        if operation in ("rollback", "destroy"):
            box = scene.api.fork(scene.snap)
            box.put("old", b"x")
        faulty.hold(step)
        result = scene.operate(operation, box)
        reached = faulty.reached.wait(10)
        gone = kill(s, victim, box)
        faulty.let_go()
        if victim == "agent-sandboxd":
            s.api.fresh()
            s.start()
        scene.check(operation, box, result, gone)
        scene.rest()
        assert reached, f"{operation} never made the call {step}"


@pytest.mark.limit(180)
@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("operation", ["snapshot", "rollback", "fork"])
def test_kill_of_a_program_while_the_workspace_is_packed_or_unpacked(scene, operation, victim):
    s = scene.server
    for delay in (0.01, 0.08, 0.2, 0.4):
        box = scene.api.fork(scene.snap)
        if operation == "snapshot":
            box.sh("head -c 30000000 /dev/urandom > changed; rm precious")
        else:
            box.put("old", b"x")
        result = scene.operate(operation, box)
        time.sleep(delay)
        gone = kill(s, victim, box)
        if victim == "agent-sandboxd":
            s.api.fresh()
            s.start()
        scene.check(operation, box, result, gone)
        scene.rest()


@pytest.mark.parametrize("victim", ["apid", "managerd", "dockerd-proxy"])
def test_program_that_dies_is_a_clean_restart_within_two_seconds_and_the_port_is_kept(own, victim):
    s = own()
    b = s.api.create(memory_mb=64)
    b.put("f", b"kept")
    b.sh("nohup sleep 8282.5 >/dev/null 2>&1 &")
    events = b.stream("echo on; sleep 60")
    events.next()
    parent, gone = s.process.pid, s.pids()
    began = time.monotonic()
    os.kill(s.pid(victim), signal.SIGKILL)
    rest = events.all()
    assert all(e["type"] != "exit" for e in rest), "an exit was invented"
    assert wait_until(lambda: s.settled(*gone["apid"], *gone["managerd"], *gone["dockerd-proxy"]), 10)
    assert time.monotonic() - began < 3.5
    assert s.process.pid == parent and s.process.poll() is None
    assert b.content("f") == b"kept" and b.running("8282.5") == 1
    assert victim in s.tail(20_000)


def test_sessiond_that_dies_costs_only_its_session(own):
    s = own()
    a, b = s.api.create(memory_mb=64), s.api.create(memory_mb=64)
    a.put("f", b"a")
    before = s.pids()
    events = [x.stream("echo on; sleep 3; echo end") for x in (a, b)]
    for e in events:
        e.next()
    os.kill(before["sessiond"][0], signal.SIGKILL)
    ends = [e.all() for e in events]
    kinds = sorted(e[-1]["type"] for e in ends)
    assert kinds == ["error", "exit"], kinds
    assert text(next(e for e in ends if e[-1]["type"] == "exit")) == "end\n"
    assert {p: v for p, v in s.pids().items() if p != "sessiond"} == {p: v for p, v in before.items() if p != "sessiond"}
    assert a.sh("cat f") == "a" and b.sh("echo b") == "b\n"
    assert wait_until(lambda: len(s.pids()["sessiond"]) == 2, 5)


def test_parent_that_is_killed_leaves_no_process_and_the_next_start_has_everything(own):
    s = own()
    b = s.api.create(memory_mb=64, env={"K": "v"}, labels={"l": "1"}, timeout_seconds=500)
    b.put("f", b"kept")
    b.sh("nohup sleep 8383.5 >/dev/null 2>&1 &")
    snap = b.snapshot(name="n")
    until = b.api.ask("POST", b.path + "/timeout", json={"timeout_seconds": 900}).json()["expires_at"]
    lists = s.api.list(), s.api.ask("GET", "/v1/snapshots").json()
    s.end(signal.SIGKILL)
    s.start()
    assert (s.api.list(), s.api.ask("GET", "/v1/snapshots").json()) == lists
    assert b.get().json()["expires_at"] == until
    assert b.sh("cat f; echo $K") == "keptv\n" and b.running("8383.5") == 1
    assert s.api.fork(snap).content("f") == b"kept"


def test_sigterm_ends_within_four_seconds_and_streams_with_an_error(own):
    s = own()
    b = s.api.create(memory_mb=64)
    events = b.stream("echo on; sleep 60")
    events.next()
    began = time.monotonic()
    s.process.terminate()
    assert [e["type"] for e in events.all()] == ["error"] and events.cut is None
    assert s.end() == 0 and time.monotonic() - began < 4
    s.start()
    assert b.sh("echo still") == "still\n"


def test_sandbox_that_expired_while_nothing_ran_is_ended_at_the_start(own):
    s = own()
    b, other = s.api.create(memory_mb=64, timeout_seconds=2), s.api.create(memory_mb=64)
    s.end(signal.SIGKILL)
    time.sleep(2)
    s.start()
    assert wait_until(lambda: b.get().status_code == 404, 5)
    assert wait_until(lambda: not s.containers(b.id), 5)
    assert other.sh("echo ok") == "ok\n"


def test_orphans_of_ours_are_removed_and_foreign_things_are_not(own, engine):
    s = own()
    b = s.api.create(memory_mb=64)
    label = {"agent-sandbox.instance": s.instance(), "agent-sandbox.kind": "sandbox"}
    shape = {"Image": "python:3.12-slim", "Cmd": ["sleep", "1000"], "HostConfig": {"NetworkMode": "none"}}
    s.end()
    made = []
    for name, labels in (("agent-sandbox-sb_00000000000000aa-1", label), ("other-name", label), ("agent-sandbox-sb_00000000000000bb-1", {}),
                         ("agent-sandbox-sb_00000000000000cc-1", label | {"agent-sandbox.instance": "another"}),
                         ("old-family", {"io.agent-sandbox.managed": "true"})):  # fmt: skip
        made.append(engine.call("POST", f"/containers/create?name={name}", shape | {"Labels": labels})["Id"])
    try:
        s.start()
        assert wait_until(lambda: "agent-sandbox-sb_00000000000000aa-1" not in s.on_engine()[0], 8)
        names = {c["Names"][0].lstrip("/") for c in engine.call("GET", "/containers/json?all=1")}
        assert {"other-name", "agent-sandbox-sb_00000000000000bb-1", "agent-sandbox-sb_00000000000000cc-1", "old-family"} <= names
        assert b.sh("echo ok") == "ok\n"
    finally:
        for c in made:
            engine.api("DELETE", f"/containers/{c}?force=1")


def test_two_servers_on_one_engine_do_not_see_each_other(own):
    one, two = own(), own()
    b = one.api.create(memory_mb=64)
    b.put("f", b"mine")
    assert two.api.ids() == []
    check_error(two.api.ask("GET", b.path), 404)
    two.end(signal.SIGKILL)
    two.start()
    assert b.content("f") == b"mine"


def test_second_server_on_the_same_data_directory_is_refused_with_one_line(own):
    import subprocess

    s = own()
    other = s.environment() | {"AGENT_SANDBOX_PORT": "0"}
    p = subprocess.run([s.programs / "agent-sandbox", "serve"], env=other, cwd=s.dir, capture_output=True, text=True, timeout=20)
    assert p.returncode not in (0, None) and "data" in p.stderr.lower(), p.stderr
    assert s.api.healthy()


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"API_KEYS": ""}, "API_KEYS"), ({"API_KEYS": "short"}, "16"), ({"MAX_SANDBOXES": "many"}, "MAX_SANDBOXES"), ({"MAX_SANDBOXES": "0"}, "MAX_SANDBOXES"),
        ({"PORT": "99999"}, "PORT"), ({"INSECURE_NO_AUTH": "perhaps"}, "INSECURE_NO_AUTH"), ({"DEFAULT_MEMORY_MB": "9999"}, "DEFAULT_MEMORY_MB"),
        ({"ALOWED_IMAGES": "x"}, "ALOWED_IMAGES"), ({"HOST": "0.0.0.0"}, "INSECURE_PLAINTEXT"), ({"LOG_LEVEL": "loud"}, "LOG_LEVEL"),
    ],
)  # fmt: skip
def test_wrong_setting_stops_the_start_with_status_2_and_one_line_that_names_it(own, settings, word):
    s = own(start=False, **settings)
    s.launch()
    assert wait_until(lambda: s.process.poll() is not None, 5), "it runs"
    assert s.process.returncode == 2 and word in s.tail() and len(s.tail().strip().splitlines()) == 1, s.tail()
    s.process = None
    s.settings = {"API_KEYS": s.settings["API_KEYS"]}
    s.remove()


def test_port_that_is_taken_is_one_clear_line(own):
    s = own()
    other = own(start=False, PORT=s.port)
    other.launch()
    assert wait_until(lambda: other.process.poll() is not None, 5)
    assert other.process.returncode == 2 and str(s.port) in other.tail()
    other.process = None
    other.remove()
