"""The pool on a real engine: what is claimed is a sandbox like any other, with its own limits and nothing of anybody else's; and
whatever happens to members, to the engine or to the server, the pool fills again and nothing is left behind."""

import json
import signal
import subprocess
import time
from threading import Thread

import images
import pytest
from engine import EngineError
from harness import DEFAULT_IMAGE, Box, at_once, check_error
from machine import SLACK, wait_until

CGROUP = """
import os
v2 = os.path.exists('/sys/fs/cgroup/cgroup.controllers')
def read(*names):
    for n in names:
        if os.path.exists('/sys/fs/cgroup/' + n): return open('/sys/fs/cgroup/' + n).read().split()
    return ['?']
print(read('memory.max', 'memory/memory.limit_in_bytes')[0], read('pids.max', 'pids/pids.max')[0])
if v2:
    q, p = read('cpu.max')
else:
    q, p = read('cpu/cpu.cfs_quota_us', 'cpu,cpuacct/cpu.cfs_quota_us')[0], read('cpu/cpu.cfs_period_us', 'cpu,cpuacct/cpu.cfs_period_us')[0]
print(int(q) / int(p) if q.isdigit() else q)
"""


def swallow(call):
    try:
        return call()
    except OSError:
        return None


def inspect(s, sandbox):
    """Its container, as the engine sees it; its name may come a moment after the answer, and one from before a rollback go."""

    def look():
        names = s.containers(sandbox.id)
        try:
            return s.engine.call("GET", f"/containers/{names[0]}/json") if len(names) == 1 else None
        except EngineError:
            return None

    got = wait_until(look)
    assert got, s.containers(sandbox.id)
    return got


def claimed(s, sandbox):
    return inspect(s, sandbox)["Config"]["Labels"]["agent-sandbox.kind"] == "pool"


@pytest.fixture
def pooled(own):
    """A server with a full pool."""

    def one(size=2, **settings):
        return own(**({"POOL": size} | settings)).pool_full()

    return one


@pytest.mark.core
def test_create_fork_and_rollback_from_the_pool_are_sandboxes_like_others(pooled):
    s = pooled()
    b = s.api.create(env={"NAME": "value of b"}, labels={"of": "b"})
    assert claimed(s, b)
    assert b.sh('printf "$NAME"; id -u; pwd; ls -A').split("\n") == ["value of b1000", "/workspace", ""]
    assert b.get().json()["labels"] == {"of": "b"} and b.get().json()["status"] == "running"
    b.put("d/f", b"content")
    snap = b.snapshot()
    b.put("d/f", b"changed")
    s.pool_full()
    f = s.api.fork(snap)
    assert claimed(s, f) and f.content("d/f") == b"content" and f.sh('printf "$NAME"') == "value of b"
    s.pool_full()
    assert b.rollback(snap)["id"] == b.id
    assert claimed(s, b) and b.content("d/f") == b"content" and b.sh('printf "$NAME"') == "value of b"
    assert wait_until(lambda: [len(x) for x in s.on_engine()] == [2, 2]) and not s.orphans()
    assert b.delete().status_code == f.delete().status_code == 204
    assert wait_until(lambda: s.on_engine() == ([], []), 30)


@pytest.mark.core
@pytest.mark.not_gvisor("limits of a running sandbox cannot be changed: only those with the pool's own are claimed")
def test_limits_of_a_claimed_sandbox_are_those_it_was_given(pooled):
    s = pooled()
    b = s.api.create(memory_mb=700, cpus=0.5, pids_limit=77)
    assert claimed(s, b)
    host = inspect(s, b)["HostConfig"]
    assert (host["Memory"], host["MemorySwap"]) == (700 << 20, 700 << 20)
    assert (host["NanoCpus"], host["PidsLimit"]) == (5 * 10**8, 77)
    memory, pids, cpus = b.python(CGROUP).split()
    assert (int(memory), pids) == (700 << 20, "77") and (cpus == "?" or float(cpus) == 0.5)
    assert b.get().json() | {"memory_mb": 700, "cpus": 0.5, "pids_limit": 77} == b.get().json()
    d = s.api.create()
    assert claimed(s, d) and int(d.python(CGROUP).split()[0]) == 512 << 20


def test_memory_limit_that_was_raised_holds_and_ends_what_goes_beyond(pooled):
    s = pooled()
    b = s.api.create(memory_mb=700)
    eat = "b = bytearray({} << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\nprint('whole')"
    assert claimed(s, b) and b.python(eat.format(560)) == "whole\n"
    assert b.exec(["python3", "-c", eat.format(800)])["exit_code"] == 137
    assert b.sh("echo on") == "on\n"


@pytest.mark.parametrize(
    "spec", [{"memory_mb": 256}, {"read_only_rootfs": False}, {"image": "tiny:unpooled"}], ids=["memory", "root", "image"]
)
def test_what_does_not_fit_is_made_as_without_a_pool(pooled, engine, spec):
    images.tiny(engine, "tiny:unpooled")
    s = pooled()
    b = s.api.create(**spec)
    assert not claimed(s, b) and b.sh("echo on") == "on\n"
    assert wait_until(lambda: s.pool()["misses"] == 1) and s.pool()["hits"] == 0
    assert "is not from the pool" in s.tail()


def test_members_are_nobodys(pooled):
    s = pooled(3, MAX_SANDBOXES=1)
    assert s.api.list() == [] and len(s.members()) == 3
    for name in s.members():
        check_error(s.api.ask("GET", "/v1/sandboxes/" + name.removeprefix("agent-sandbox-")), 400, 404)
        check_error(s.api.ask("GET", "/v1/sandboxes/sb_" + name[-16:]), 404)
    s.api.create()
    check_error(s.api.post_sandbox(), 429)


@pytest.mark.limit(300)
def test_fifty_at_once_from_a_pool_of_four_share_nothing(pooled):
    s = pooled(4, MAX_SANDBOXES=60, DEFAULT_MEMORY_MB=64)
    answers = at_once([lambda n=n: s.api.post_sandbox({"env": {"N": str(n)}, "timeout_seconds": 900}, timeout=240) for n in range(50)])
    assert [a.status_code for a in answers] == [201] * 50
    boxes = [Box(s.api, a.json()) for a in answers]
    assert len({b.id for b in boxes}) == 50
    said = at_once([lambda b=b: b.sh("ls -A; touch mine; printf $N", timeout=240) for b in boxes])
    assert said == [str(n) for n in range(50)]
    assert wait_until(lambda: len(s.on_engine()[0]) == len(s.on_engine()[1]) == 50)
    assert len({c["Id"] for c in map(lambda b: inspect(s, b), boxes)}) == 50
    p = wait_until(lambda: (p := s.pool())["hits"] + p["misses"] == 50 and p)
    assert p and p["hits"] >= 4
    assert {x.status_code for x in at_once([b.delete for b in boxes])} == {204}
    s.pool_full(120)
    assert wait_until(lambda: s.on_engine() == ([], []) and len(s.members()) == 4)


@pytest.mark.limit(300)
def test_quota_is_exact_whatever_comes_from_the_pool(pooled):
    s = pooled(4, MAX_SANDBOXES=9, DEFAULT_MEMORY_MB=64)
    answers = at_once([lambda n=n: s.api.post_sandbox({"memory_mb": 64 + n % 2 * 32}, timeout=240) for n in range(30)])
    assert sorted(a.status_code for a in answers) == [201] * 9 + [429] * 21
    assert len(s.api.list()) == 9 and "limit of 9" in check_error(s.api.post_sandbox(), 429)


@pytest.mark.parametrize("how", ["kill", "stop?t=0", "pause"])
def test_members_that_are_ended_behind_our_back_are_replaced(pooled, engine, how):
    s = pooled()
    old = s.members()
    for name in old:
        engine.call("POST", f"/containers/{name}/{how}")
    assert wait_until(lambda: not set(old) & set(s.members()), 60), s.tail()
    s.pool_full()
    b = s.api.create()
    assert claimed(s, b) and b.sh("echo on") == "on\n"


def test_member_that_is_removed_behind_our_back_is_replaced(pooled, engine):
    s = pooled(1)
    (old,) = s.members()
    engine.call("DELETE", f"/containers/{old}?force=1")
    assert wait_until(lambda: old not in s.members() and s.members(), 60)
    assert claimed(s.pool_full(), s.api.create())


@pytest.mark.limit(240)
def test_tag_that_moved_is_followed(own, engine):
    images.load(engine, "tiny:moving", images.busybox() | {"etc/which": b"old"})
    s = own(POOL="tiny:moving=2").pool_full()
    old = s.members()
    assert s.api.create(image="tiny:moving").sh("cat /etc/which") == "old"
    images.load(engine, "tiny:moving", images.busybox() | {"etc/which": b"new"})
    s.pool_full()
    assert wait_until(lambda: not set(old) & set(s.members()) and len(s.members()) == 2, 90, 0.2)
    assert wait_until(lambda: "has changed" in s.tail(20_000), 60)
    s.pool_full()
    b = s.api.create(image="tiny:moving")
    assert claimed(s, b) and b.sh("cat /etc/which") == "new"


def test_image_that_is_removed_does_not_take_what_waits_with_it(own, engine):
    images.tiny(engine, "tiny:goes")
    s = own(POOL="tiny:goes=1").pool_full()
    engine.call("DELETE", "/images/tiny:goes")
    b = s.api.create(image="tiny:goes")
    assert claimed(s, b) and b.sh("echo on") == "on\n"


@pytest.mark.limit(240)
def test_engine_that_is_restarted_leaves_a_full_pool_and_nothing_else(private_engine, own):
    e = private_engine()
    s = own(engine=e, POOL=2).pool_full()
    b = s.api.create()
    b.put("f", b"kept")
    old = s.members()
    e.restart()
    assert wait_until(lambda: not set(old) & set(s.members()) and len(s.members()) == 2, 120, 0.2), s.tail()
    s.pool_full()
    assert b.content("f") == b"kept" and claimed(s, b)
    assert claimed(s, s.api.create())
    assert not s.orphans()


@pytest.mark.parametrize("victim", ["managerd", "dockerd-proxy", "apid", "agent-sandboxd"])
def test_pool_of_a_server_that_was_killed_is_removed_and_filled_anew(pooled, victim):
    s = pooled()
    b = s.api.create(env={"A": "1"})
    s.pool_full()
    b.put("f", b"kept")
    old = s.members()
    s.kill_program(victim)
    assert wait_until(lambda: not set(old) & set(s.members()) and len(s.members()) == 2, 60, 0.2), s.tail()
    s.pool_full()
    assert b.content("f") == b"kept" and b.sh("printf $A") == "1"
    assert claimed(s, s.api.create()) and not s.orphans()


def test_end_takes_the_pool_along_and_is_soon(faulty, pooled):
    s = pooled(3, socket_path=faulty.path)
    b = s.api.create()
    s.pool_full()
    ids = {s.engine.call("GET", f"/containers/{name}/json")["Id"] for name in s.members()}
    began = time.monotonic()
    assert s.end(signal.SIGTERM) == 0
    assert time.monotonic() - began < 4 + SLACK
    # A busy engine may not have done it by now: the next start has what is left.
    assert len(ids) == 3 and all(any(call.startswith("DELETE") and i in call for call in faulty.seen) for i in ids)
    assert not (s.data / "pool.json").exists()
    s.settings["POOL"] = 0
    s.start()
    assert wait_until(lambda: not s.members()) and b.sh("echo on") == "on\n" and s.pool() is None


@pytest.mark.limit(240)
def test_creates_while_the_server_ends_are_whole_or_refused(pooled):
    s = pooled(4, MAX_SANDBOXES=20, DEFAULT_MEMORY_MB=64)

    def create(n):
        time.sleep(n * 0.03)
        return swallow(lambda: s.api.post_sandbox({"timeout_seconds": 900}, timeout=60))

    def end():
        time.sleep(0.2)
        return s.end()

    *answers, status = at_once([*[lambda n=n: create(n) for n in range(12)], end])
    assert status == 0
    made = [a.json()["id"] for a in answers if a is not None and a.status_code == 201]
    assert {a.status_code for a in answers if a is not None} <= {201, 502, 503}
    s.start()
    assert set(made) <= set(s.api.ids())
    for i in s.api.ids():
        assert Box(s.api, {"id": i}).sh("echo on") == "on\n"
    s.clean()
    s.pool_full()


def test_engine_that_refuses_updates_costs_nothing_but_time(faulty, own):
    s = own(socket_path=faulty.path, POOL=1).pool_full()
    faulty.fail(r"^POST \S*/update$")
    b = s.api.create(memory_mb=700)
    assert not claimed(s, b) and int(b.python(CGROUP).split()[0]) == 700 << 20
    faulty.fail(None)
    assert claimed(s.pool_full(), s.api.create())
    assert wait_until(lambda: s.pool()["reasons"] == {"update": 1})


def test_engine_that_refuses_names_costs_only_the_name(faulty, own):
    s = own(socket_path=faulty.path, POOL=1).pool_full()
    faulty.fail(r"^POST \S*/rename")
    b = s.api.create()
    b.put("f", b"kept")
    assert wait_until(lambda: "keeps its name of the pool" in s.tail())
    faulty.fail(None)
    assert s.end() == 0
    s.start()
    assert wait_until(lambda: s.containers(b.id)) and b.content("f") == b"kept"
    assert b.delete().status_code == 204


def test_claim_that_was_interrupted_is_no_sandbox(faulty, own):
    """The engine hangs in the update, the server is killed: no record, no container, no sandbox."""
    s = own(socket_path=faulty.path, POOL=1).pool_full()
    faulty.hold(r"^POST \S*/update$")
    hang = Thread(target=lambda: swallow(lambda: s.api.post_sandbox({"memory_mb": 700}, timeout=20)))
    hang.start()
    assert faulty.reached.wait(30)
    s.end(signal.SIGKILL)
    hang.join(30)
    faulty.let_go()
    s.start().pool_full()
    assert s.api.list() == [] and wait_until(lambda: s.on_engine() == ([], []))


def test_doctor_tells_of_the_pool(pooled):
    s = pooled()
    s.api.create()
    s.api.create(memory_mb=64)
    assert wait_until(lambda: s.pool()["hits"] == 1 and s.pool()["misses"] == 1)
    s.pool_full()
    p = subprocess.run([s.programs / "agent-sandbox", "doctor"], env=s.environment(), cwd=s.dir, capture_output=True, text=True, timeout=60)
    (line,) = [x for x in p.stdout.splitlines() if "pool" in x and "hits" in x]
    assert DEFAULT_IMAGE in line and "2 of 2" in line and "1 hits, 1 misses (memory 1) since the start" in line


def test_report_is_for_the_operator_alone(pooled):
    s = pooled()
    assert (s.data / "pool.json").stat().st_mode & 0o077 == 0
    assert set(json.loads((s.data / "pool.json").read_text())) == {"version", "hits", "misses", "reasons", "images"}
