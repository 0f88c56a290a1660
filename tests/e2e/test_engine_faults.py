"""An engine that stops, dies, hangs, is replaced, fails calls; containers that somebody else touches."""

import signal
import time

import images
import pytest
import requests
from harness import Server, at_once, check_error, codes, raw, text
from machine import SLACK, alive, wait_until


@pytest.fixture(scope="module")
def tiny(engine):
    return images.tiny(engine, "tiny:1")


@pytest.fixture
def live(private_engine_tiny):
    """An engine with --live-restore and a server on it."""
    e = private_engine_tiny("--live-restore")
    s = Server(e, DEFAULT_IMAGE="tiny:1").start()
    yield s
    if not e.dockerd():
        e.start()
    s.close()


@pytest.fixture
def plain(private_engine_tiny):
    """An engine without it."""
    e = private_engine_tiny()
    s = Server(e, DEFAULT_IMAGE="tiny:1").start()
    yield s
    if not e.dockerd():
        e.start()
    s.close()


@pytest.fixture
def private_engine_tiny():
    import contextlib
    import os
    from pathlib import Path

    from harness import Engine

    made = []

    def start(*options):
        e = Engine(Path("/tmp") / f"as-e2e-{os.getpid()}-t{len(made)}" / "engine")
        made.append(e)
        e.start(*options)
        images.tiny(e, "tiny:1")
        return e

    yield start
    left = []
    for e in made:
        left += e.stop()
        with contextlib.suppress(OSError):
            e.dir.parent.rmdir()
    assert not left, left


def usable(s, box, seconds=30):
    """The sandbox answers again; it may take a moment after the engine is back."""

    def works():
        try:
            answer = box.post_exec("echo up", timeout=30)
        except requests.RequestException:
            return False
        return answer.status_code == 200 and answer.json()["stdout"] == "up\n"

    assert wait_until(works, seconds, 0.2), s.tail()


@pytest.mark.limit(120)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_engine_restarted_with_live_restore_keeps_sandboxes_and_their_commands(live, how):
    s, e = live, live.engine
    b = s.api.create(memory_mb=64)
    b.put("f", b"kept")
    b.sh("sleep 9191 >/dev/null 2>&1 &")
    snap = b.snapshot()
    e.down(how)
    check_error(s.api.post_sandbox({"memory_mb": 64}), 502)
    check_error(s.api.fresh().ask("GET", "/healthz", timeout=20), 502)
    assert s.api.ids() == [b.id] and b.get().status_code == 200, "reads need no engine"
    assert s.api.ask("GET", f"/v1/snapshots/{snap}").status_code == 200
    e.start()
    assert wait_until(s.api.fresh().healthy), s.tail()
    usable(s, b)
    assert b.content("f") == b"kept" and b.sh("pidof sleep")
    assert s.api.fork(snap).content("f") == b"kept"
    s.clean()


@pytest.mark.limit(120)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_engine_restarted_without_live_restore_keeps_workspaces(plain, how):
    s, e = plain, plain.engine
    b = s.api.create(memory_mb=64)
    b.put("f", b"kept")
    b.sh("touch /tmp/lost")
    snap = b.snapshot()
    if how == signal.SIGKILL:
        # dockerd alone dies; what it ran is found and stopped by the next one.
        e.down(how)
    else:
        e.down(how, seconds=40)
    e.start()
    assert wait_until(s.api.fresh().healthy), s.tail()
    assert wait_until(lambda: b.get().json().get("status") in ("stopped", "running"))
    usable(s, b)
    assert b.content("f") == b"kept" and b.sh("ls /tmp") == ""
    assert b.get().json()["status"] == "running"
    assert s.api.fork(snap).content("f") == b"kept"
    s.clean()


@pytest.mark.gate
@pytest.mark.limit(120)
def test_engine_that_is_down_at_the_start_is_502_until_it_comes(plain):
    s, e = plain, plain.engine
    b = s.api.create(memory_mb=64)
    b.put("f", b"kept")
    s.end()
    e.down(seconds=40)
    s.launch()
    assert wait_until(lambda: codes(raw(s.port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")) == [502]
                      if s.process.poll() is None and listening(s) else False), s.tail()  # fmt: skip
    assert s.api.ids() == [b.id]
    check_error(b.post_exec("true"), 502)
    e.start()
    assert wait_until(s.api.fresh().healthy), s.tail()
    usable(s, b)
    assert b.content("f") == b"kept"


def listening(s):
    import socket

    with socket.socket() as c:
        return c.connect_ex(("127.0.0.1", s.port)) == 0


@pytest.mark.limit(120)
def test_hung_engine_is_502_at_once_and_holds_nothing_else(plain):
    s, e = plain, plain.engine
    b = s.api.create(memory_mb=64)
    b.put("f", b"kept")
    snap = b.snapshot()
    events = b.stream("for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; sleep 1; done")
    events.next()
    e.send(signal.SIGSTOP)
    try:
        began = time.monotonic()
        assert wait_until(lambda: s.api.fresh().ask("GET", "/healthz", timeout=20).status_code == 502)
        assert time.monotonic() - began < 5 + SLACK
        waiting = at_once([lambda: s.api.post_sandbox({"memory_mb": 64})] * 3 + [lambda: s.api.post_fork(snap)])
        assert time.monotonic() - began < 12 + SLACK
        for answer in waiting:
            check_error(answer, 502)
        for path in ("/v1/sandboxes", b.path, "/v1/snapshots", f"/v1/snapshots/{snap}"):
            began = time.monotonic()
            assert s.api.ask("GET", path).status_code == 200 and time.monotonic() - began < 1 + SLACK
        check_error(s.api.ask("GET", "/v1/sandboxes", key="x" * 20), 401)
    finally:
        e.send(signal.SIGCONT)
    assert wait_until(s.api.fresh().healthy), s.tail()
    assert s.api.ids() == [b.id]
    usable(s, b)
    s.api.create(memory_mb=64).delete()
    s.clean()
    events.close()


def test_socket_that_is_replaced_is_found_again(engine, tiny):
    from harness import FaultySocket

    f = FaultySocket(engine)
    s = Server(engine, socket_path=f.path, DEFAULT_IMAGE="tiny:1").start()
    try:
        b = s.api.create(memory_mb=64)
        b.put("f", b"kept")
        f.stop_listening()
        f.cut()
        assert wait_until(lambda: answers_502(s)), s.tail()
        f.listen()
        assert wait_until(s.api.fresh().healthy), s.tail()
        usable(s, b)
        assert b.content("f") == b"kept"
        s.clean()
    finally:
        s.close()
        f.close()


def answers_502(s):
    try:
        return s.api.fresh().ask("GET", "/healthz", timeout=20).status_code == 502
    except requests.RequestException:
        return False


@pytest.fixture(scope="module")
def behind(engine, tiny):
    """A server behind a socket that can be made to fail."""
    from harness import FaultySocket

    f = FaultySocket(engine)
    s = Server(engine, socket_path=f.path, DEFAULT_IMAGE="tiny:1").start()
    s.faulty = f
    yield s
    f.fail(None)
    f.let_go()
    f.mute(False)
    s.close()
    f.close()


@pytest.mark.parametrize("call", ["POST .*/volumes/create", "POST .*/containers/create", "POST .*/attach", "POST .*/start"])
@pytest.mark.parametrize("operation", ["create", "fork", "rollback"])
def test_call_that_fails_is_502_and_leaves_everything_as_it_was(behind, operation, call):
    s, f = behind, behind.faulty
    b = s.api.create(memory_mb=64)
    b.put("f", b"old")
    b.sh("sleep 9292 >/dev/null 2>&1 &")
    snap = b.snapshot()
    b.put("f", b"new")
    before = s.on_engine()
    f.fail(call)
    ask = {
        "create": lambda: s.api.post_sandbox({"memory_mb": 64}),
        "fork": lambda: s.api.post_fork(snap),
        "rollback": lambda: b.post_rollback(snap),
    }
    check_error(ask[operation](), 502)
    f.fail(None)
    assert wait_until(lambda: s.on_engine() == before, step=0.2), (before, s.on_engine(), s.tail())
    assert b.content("f") == b"new" and b.sh("pidof sleep")
    answer = ask[operation]()
    assert answer.status_code in (200, 201), answer.text
    s.api.clear()
    b.delete()
    s.clean()


def test_connections_cut_by_the_engine_are_made_again(behind):
    s, f = behind, behind.faulty
    b = s.api.create(memory_mb=64)
    b.put("f", b"kept")
    for _ in range(3):
        f.cut()
        time.sleep(0.3)
        usable(s, b)
    assert b.content("f") == b"kept"
    b.delete()


def test_mute_socket_is_502_for_health_within_two_seconds(behind):
    s, f = behind, behind.faulty
    s.api.create(memory_mb=64).delete()
    time.sleep(0.5)
    f.mute()
    try:
        began = time.monotonic()
        check_error(s.api.fresh().ask("GET", "/healthz", timeout=20), 502)
        assert time.monotonic() - began < 2.3 + SLACK
    finally:
        f.mute(False)
    assert wait_until(s.api.fresh().healthy)


def test_container_removed_by_somebody_ends_its_sandbox_and_frees_its_slot(own, engine, tiny):
    s = own(DEFAULT_IMAGE="tiny:1", MAX_SANDBOXES=1)
    b = s.api.create(memory_mb=64)
    events = b.stream("echo on; sleep 60")
    events.next()
    engine.api("DELETE", f"/v1.41/containers/{s.containers(b.id)[0]}?force=1&v=1")
    assert events.all()[-1]["type"] == "error"
    assert wait_until(lambda: b.get().status_code == 404)
    check_error(b.post_exec("true"), 404)
    assert "backend" in check_error(b.get("?detail=true"), 410)
    assert wait_until(lambda: s.on_engine() == ([], [])), s.on_engine()
    s.api.create(memory_mb=64).delete()


@pytest.mark.parametrize("how", ["stop?t=0", "kill", "pause", "restart?t=0"])
def test_container_stopped_or_paused_by_somebody_is_started_again_on_use(own, engine, tiny, how):
    s = own(DEFAULT_IMAGE="tiny:1")
    b = s.api.create(memory_mb=64)
    b.put("f", b"kept")
    snap = b.snapshot()
    engine.api("POST", f"/v1.41/containers/{s.containers(b.id)[0]}/{how}")
    time.sleep(0.5)
    assert b.content("f") == b"kept"
    assert b.sh("echo on") == "on\n" and b.get().json()["status"] == "running"
    engine.api("POST", f"/v1.41/containers/{s.containers(b.id)[0]}/{how}")
    b.rollback(snap)
    assert b.content("f") == b"kept"
    s.clean()


def test_stopped_sandbox_is_shown_as_such_and_can_be_snapshotted_and_deleted(own, engine, tiny):
    s = own(DEFAULT_IMAGE="tiny:1")
    b, c = s.api.create(memory_mb=64), s.api.create(memory_mb=64)
    b.put("f", b"kept")
    for x in (b, c):
        engine.api("POST", f"/v1.41/containers/{s.containers(x.id)[0]}/stop?t=0")
    assert wait_until(lambda: b.get().json()["status"] == "stopped")
    assert c.delete().status_code == 204 and not s.containers(c.id)
    assert s.api.fork(b.snapshot()).content("f") == b"kept"


def test_removed_volume_of_a_stopped_sandbox_is_an_error_and_not_a_hang(own, engine, tiny):
    s = own(DEFAULT_IMAGE="tiny:1")
    b = s.api.create(memory_mb=64)
    name = s.containers(b.id)[0]
    engine.api("DELETE", f"/v1.41/containers/{name}?force=1")
    for v in s.on_engine()[1]:
        engine.api("DELETE", f"/v1.41/volumes/{v}?force=1")
    answer = b.post_exec("true")
    check_error(answer, 404, 409, 502)
    assert wait_until(lambda: b.get().status_code == 404)


def test_pull_that_takes_long_blocks_no_other_request(behind):
    s, f = behind, behind.faulty
    f.hold("POST .*/images/create")
    try:
        pulling = []
        import threading

        t = threading.Thread(target=lambda: pulling.append(s.api.post_sandbox({"image": "somewhere/slow:1"})))
        t.start()
        assert f.reached.wait(30)
        began = time.monotonic()
        b = s.api.create(memory_mb=64)
        assert b.sh("echo on") == "on\n"
        b.delete()
        assert time.monotonic() - began < 4 + SLACK
    finally:
        f.let_go()
        t.join(30)
    check_error(pulling[0], 400)


@pytest.mark.gate
@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("/nonexistent/docker.sock", "docker.sock"),
        ("tcp://127.0.0.1:2375", "unix://"),
        ("ssh://root@host", "unix://"),
        ("unix://relative", "unix://"),
    ],
)
def test_engine_address_that_cannot_be_used_is_one_clear_line(own, path, word):
    s = own(start=False)
    s.docker_host = path if "://" in path else f"unix://{path}"
    s.launch()
    if path.startswith("/"):
        assert wait_until(lambda: word in s.tail()), s.tail()
        assert s.process.poll() is None, "it waits for the engine"
        assert wait_until(lambda: listening(s) and answers_502(s))
        s.end()
    else:
        assert wait_until(lambda: s.process.poll() is not None), "it runs"
        assert s.process.returncode == 2 and word in s.tail() and len(s.tail().strip().splitlines()) == 1, s.tail()
        s.process = None
    s.remove()


def test_events_of_a_stream_before_the_engine_died_are_kept(plain):
    s, e = plain, plain.engine
    b = s.api.create(memory_mb=64)
    events = b.stream("echo before; sleep 60")
    assert events.next()["data"] == "before\n"
    pids = [p for p in e.inside() if alive(p)]
    e.down(signal.SIGKILL)
    rest = events.all() if not pids else []
    assert all(x["type"] != "exit" for x in rest) and text(rest) == ""
    e.start()
    usable(s, b)
