"""A server that dies, is ended, starts again, meets another one, is set up wrongly."""

import signal
import time

import pytest
from harness import check_error, text
from machine import SLACK, send, wait_until


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
    s.kill(victim)
    rest = events.all()
    assert all(e["type"] != "exit" for e in rest), "an exit was invented"
    assert wait_until(lambda: s.settled(*gone["apid"], *gone["managerd"], *gone["dockerd-proxy"]))
    assert time.monotonic() - began < 3.5 + SLACK
    assert s.process.pid == parent and s.process.poll() is None
    assert b.content("f") == b"kept" and b.running("8282.5") == 1
    assert victim in s.tail(20_000)


def test_sessiond_that_dies_costs_only_its_session(own):
    s = own(POOL=0)
    a, b = s.api.create(memory_mb=64), s.api.create(memory_mb=64)
    a.put("f", b"a")
    before = s.pids()
    events = [x.stream("echo on; sleep 3; echo end") for x in (a, b)]
    for e in events:
        e.next()
    assert len(before["sessiond"]) == 2 and send(before["sessiond"][0])
    ends = [e.all() for e in events]
    kinds = sorted(e[-1]["type"] for e in ends)
    assert kinds == ["error", "exit"], kinds
    assert text(next(e for e in ends if e[-1]["type"] == "exit")) == "end\n"
    assert {p: v for p, v in s.pids().items() if p != "sessiond"} == {p: v for p, v in before.items() if p != "sessiond"}
    assert a.sh("cat f") == "a" and b.sh("echo b") == "b\n"
    assert wait_until(lambda: len(s.pids()["sessiond"]) == 2)


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
    assert s.end() == 0 and time.monotonic() - began < 4 + SLACK
    s.start()
    assert b.sh("echo still") == "still\n"


def test_sandbox_that_expired_while_nothing_ran_is_ended_at_the_start(own):
    s = own()
    b, other = s.api.create(memory_mb=64, timeout_seconds=2), s.api.create(memory_mb=64)
    s.end(signal.SIGKILL)
    time.sleep(2)
    s.start()
    assert wait_until(lambda: b.get().status_code == 404)
    assert wait_until(lambda: not s.containers(b.id))
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
        assert wait_until(lambda: "agent-sandbox-sb_00000000000000aa-1" not in s.on_engine()[0])
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
    p = subprocess.run([s.programs / "agent-sandbox", "serve"], env=other, cwd=s.dir, capture_output=True, text=True, timeout=60)
    assert p.returncode not in (0, None) and "data" in p.stderr.lower(), p.stderr
    assert s.api.healthy()


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"API_KEYS": ""}, "API_KEYS"), ({"API_KEYS": "short"}, "16"), ({"MAX_SANDBOXES": "many"}, "MAX_SANDBOXES"), ({"MAX_SANDBOXES": "0"}, "MAX_SANDBOXES"),
        ({"PORT": "99999"}, "PORT"), ({"INSECURE_NO_AUTH": "perhaps"}, "INSECURE_NO_AUTH"), ({"DEFAULT_MEMORY_MB": "9999"}, "DEFAULT_MEMORY_MB"),
        ({"ALOWED_IMAGES": "x"}, "ALOWED_IMAGES"), ({"LOG_LEVEL": "loud"}, "LOG_LEVEL"),
        pytest.param({"HOST": "0.0.0.0"}, "INSECURE_PLAINTEXT", marks=pytest.mark.bare),
    ],
)  # fmt: skip
def test_wrong_setting_stops_the_start_with_status_2_and_one_line_that_names_it(own, settings, word):
    s = own(start=False, **settings)
    s.launch()
    assert wait_until(lambda: s.process.poll() is not None), "it runs"
    assert s.process.returncode == 2 and word in s.tail() and len(s.tail().strip().splitlines()) == 1, s.tail()
    s.process = None
    s.settings = {"API_KEYS": s.settings["API_KEYS"]}
    s.remove()


def test_port_that_is_taken_is_one_clear_line(own):
    s = own()
    other = own(start=False, PORT=s.port)
    other.launch()
    assert wait_until(lambda: other.process.poll() is not None)
    assert other.process.returncode == 2 and str(s.port) in other.tail()
    other.process = None
    other.remove()
