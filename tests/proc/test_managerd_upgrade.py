"""After an upgrade: containers whose init speaks another version are replaced, and their workspaces are not."""
# ruff: noqa: F811 - fixtures are imported, and named again as arguments

import json
import os
import time

import layout
import pytest
from machine import wait_until
from managerd_kit import data, engine, refused, start  # noqa: F401

STEPS = ["D_ATTACH", "+D_ATTACH", "D_PREPARE", "+D_PREPARE", "D_DESTROY", "+D_DESTROY", "D_CREATE", "+D_CREATE", "UP"]


def record(data, box):
    return json.loads((data / "sandboxes" / f"sb_{box:016x}.json").read_text())


def old_box(start, engine, **more):
    """A sandbox that a server of another version has left."""
    s = start()
    b = s.box(**more)
    s.kill()
    engine.old |= set(engine.containers)
    return b


def renewed(engine, box, generation=1):
    """The sandbox has one container, which is new, on its old volume."""
    ours = [c for c, (s, g, _) in engine.containers.items() if (s, g) == (box, generation)]
    return len(ours) == 1 and not engine.old & set(ours) and {v for v in engine.volumes if v[0] == box} == {(box, generation)}


def test_sandbox_of_another_version_gets_a_new_container_on_its_volume(start, engine, data):
    b = old_box(start, engine, labels=[("k", "v")], env=["E=1"], memory_mb=64)
    before = record(data, b)
    s = start()
    assert wait_until(lambda: s.session_of(b) and renewed(engine, b)), "in the background, without being used"
    assert s.exec(b).fields["status"] == 200 and s.session_of(b)[0].env == b"E=1\0"
    assert s.last_create["keep_volume"] == 1 and s.last_create["generation"] == 1 and s.last_create["memory_mb"] == 64
    order = [n for n in s.seen if n in ("D_PREPARE", "D_DESTROY", "D_CREATE", "D_ATTACH")]
    assert order == ["D_ATTACH", "D_PREPARE", "D_DESTROY", "D_CREATE", "D_ATTACH"]
    assert s.get(b).fields["status"] == layout.SANDBOX_RUNNING
    assert record(data, b) | {"container": ""} == before | {"container": ""}
    assert "another version" in s.p.log() and "renew" in (data / "audit.log").read_text()
    snap = s.snap(b)
    assert s.rollback(b, snap).name == "SANDBOX"


def test_request_that_meets_the_old_container_waits_for_the_new_one(start, engine):
    b = old_box(start, engine)
    for c in engine.containers.values():
        c[2] = layout.STATE_EXITED
    s = start()
    time.sleep(0.2)
    assert not s.session_of(b), "stopped ones are left until they are used"
    ids = [s.exec_send(b)[0] for _ in range(3)]
    assert [s.result(i).fields["status"] for i in ids] == [200] * 3 and renewed(engine, b)


def killed_at(start, box, step):
    """Uses it, and ends managerd when the step (+: done) is not answered."""
    name = step.lstrip("+")
    s = start(hold=set() if step[0] == "+" else {name}, mute={name} if step[0] == "+" else ())
    s.exec_send(box)
    assert wait_until(lambda: {"UP": "D_ATTACH"}.get(name, name) in s.seen)
    time.sleep(0.1)
    s.kill()


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("again", [0, 1])
def test_killed_during_the_renewal_keeps_sandbox_and_volume(start, engine, data, step, again):
    b = old_box(start, engine)
    for _ in range(1 + again):
        if not renewed(engine, b):
            killed_at(start, b, step)
            assert (b, 1) in engine.volumes and record(data, b)["state"] in ("running", "stopped")
    s = start()
    assert s.get(b).name == "SANDBOX"
    assert s.exec(b).fields["status"] == 200 and renewed(engine, b)
    assert "renewing" not in record(data, b)
    assert s.destroy(b).fields["status"] == 204 and wait_until(engine.empty)


@pytest.mark.parametrize("what", ["D_PREPARE", "D_DESTROY", "D_CREATE"])
def test_renewal_that_the_engine_refuses_is_tried_again_on_the_next_use(start, engine, data, what):
    b = old_box(start, engine)
    s = start(fail={what: (layout.FAIL_NO_IMAGE, "image python:3.12-slim is not available: it is not here and could not be pulled")})
    text = refused(s.exec(b), 502)
    assert f"sb_{b:016x}" in text and "upgrade" in text and "python:3.12-slim" in text
    assert wait_until(lambda: s.get(b).fields["status"] == layout.SANDBOX_STOPPED)
    assert (b, 1) in engine.volumes and (what != "D_PREPARE" or len(engine.containers) == 1)
    n = len(s.seen)
    time.sleep(0.5)
    assert "D_PREPARE" not in s.seen[n:], "not tried for ever in the background"
    refused(s.exec(b), 502)
    s.kill()
    s = start()
    assert s.exec(b).fields["status"] == 200 and renewed(engine, b)
    assert s.get(b).fields["status"] == layout.SANDBOX_RUNNING


def test_engine_that_goes_away_during_the_renewal_loses_nothing(start, engine):
    b = old_box(start, engine)
    s = start(hold={"D_CREATE"})
    assert wait_until(lambda: "D_CREATE" in s.seen)
    s.docker.send("D_ENGINE", 0, {"up": 0}, "the container engine cannot be reached")
    refused(s.exec(b), 502)
    assert s.get(b).name == "SANDBOX"
    s.fail["D_CREATE"] = (layout.FAIL_UNREACHABLE, "the container engine does not answer")
    s.release("D_CREATE")
    del s.fail["D_CREATE"]
    s.docker.send("D_ENGINE", 0, {"up": 1})
    assert wait_until(lambda: s.exec(b).fields["status"] == 200) and renewed(engine, b)


@pytest.mark.parametrize("hold", ["D_PREPARE", "D_DESTROY", "D_CREATE", "+D_CREATE"])
def test_sandbox_that_is_deleted_during_the_renewal_leaves_nothing(start, engine, data, hold):
    b = old_box(start, engine)
    s = start(mute={hold[1:]}) if hold[0] == "+" else start(hold={hold})
    assert wait_until(lambda: hold.lstrip("+") in s.seen)
    waiting = s.exec_send(b)[0]
    time.sleep(0.1)
    id = s.send("DESTROY", {"id": b})
    refused(s.result(waiting), 409)
    s.mute.clear()
    if hold[0] == "+":
        with s.lock:
            held, s.held = s.held, []
            cid = next(iter(engine.containers))
            s.docker.send("D_CREATED", held[0].id, {"container": cid})
    else:
        s.release(hold)
    assert s.result(id).fields["status"] == 204
    assert wait_until(engine.empty) and wait_until(lambda: not os.listdir(data / "sandboxes")) and s.p.alive()


def test_rollback_waits_until_the_renewal_is_over(start, engine):
    s = start()
    b = s.box()
    snap = s.snap(b)
    s.kill()
    engine.old |= set(engine.containers)
    s = start(hold={"D_PREPARE"})
    assert wait_until(lambda: "D_PREPARE" in s.seen)
    refused(s.rollback(b, snap), 409)
    s.release("D_PREPARE")
    assert wait_until(lambda: s.exec(b).fields["status"] == 200)
    assert s.rollback(b, snap).name == "SANDBOX" and wait_until(lambda: engine.volumes == {(b, 2)})


def test_rollback_of_a_sandbox_whose_renewal_failed(start, engine, data):
    s = start()
    b = s.box()
    snap = s.snap(b)
    s.kill()
    engine.old |= set(engine.containers)
    s = start(fail={"D_CREATE": (layout.FAIL_ENGINE, "the container engine reported an error")})
    assert wait_until(lambda: "D_CREATE" in s.seen)
    assert wait_until(lambda: s.rollback(b, snap).tail == b"the container engine reported an error")
    assert (b, 1) in engine.volumes and s.get(b).fields["status"] == layout.SANDBOX_STOPPED
    s.fail.clear()
    assert s.rollback(b, snap).name == "SANDBOX"
    assert wait_until(lambda: [i for i, _ in engine.volumes] == [b] and min(engine.volumes) > (b, 1))
    assert "renewing" not in record(data, b)
    s.kill()
    assert start().exec(b).fields["status"] == 200


def test_installation_of_mixed_versions_replaces_no_container_twice(start, engine):
    b = old_box(start, engine)
    engine.all_old = True
    s = start()
    assert wait_until(lambda: s.seen.count("D_CREATE") == 1 and s.get(b).fields["status"] == layout.SANDBOX_STOPPED)
    assert "not of this version" in refused(s.exec(b), 502)
    assert s.seen.count("D_CREATE") == 1 and (b, 1) in engine.volumes and len(engine.containers) == 1


def test_volume_that_vanished_during_the_renewal_ends_the_sandbox(start, engine):
    b = old_box(start, engine)
    s = start(hold={"D_CREATE"})
    assert wait_until(lambda: "D_CREATE" in s.seen)
    engine.volumes.clear()
    s.release("D_CREATE")
    assert wait_until(lambda: s.get(b).name == "REPLY") and "backend" in refused(s.get(b, detail=1), 410)


def test_session_that_says_another_version_when_it_is_up_is_ended(start, engine):
    s = start()
    b = s.box()
    x = s.session_of(b)[0]
    x.chan.send("S_DOWN", 0, {"why": layout.DOWN_VERSION, "guest_version": 7}, "guest version")
    assert wait_until(lambda: x.id in s.killed) and s.exec(b).fields["status"] == 200
    assert s.seen.count("D_CREATE") == 1
    x = s.session_of(b)[0]
    x.chan.send("S_DOWN", 0, {"why": 9}, "x")
    assert wait_until(lambda: x.id in s.killed) and s.exec(b).fields["status"] == 200


def test_session_that_says_another_version_before_it_has_a_stream_is_ended(start, engine):
    """Else the attach that is under way would be answered to nobody."""
    b = old_box(start, engine)
    engine.old.clear()
    s = start(hold={"D_ATTACH"})
    assert wait_until(lambda: s.held and s.sessions)
    (x,) = s.sessions.values()
    x.chan.send("S_DOWN", 0, {"why": layout.DOWN_VERSION, "guest_version": 7}, "guest version")
    assert wait_until(lambda: x.id in s.killed)
    s.release("D_ATTACH")
    assert wait_until(lambda: s.exec(b).fields["status"] == 200)
    assert s.p.alive() and "D_CREATE" not in s.seen


def test_list_that_is_older_than_a_removal_is_not_believed(start, engine):
    """The renewal fails behind the removal; the engine's list still has the container, which may be named no more."""
    b = old_box(start, engine)
    s = start(hold={"D_CREATE"}, fail={"D_CREATE": (layout.FAIL_ENGINE, "no")})
    assert wait_until(lambda: "D_CREATE" in s.seen)
    s.hold.add("D_LIST")
    s.docker.send("D_ENGINE", 0, {"up": 1, "version": "20.10.24", "api": "1.41", "id": engine.identity})
    assert wait_until(lambda: any(m.name == "D_LIST" for m in s.held))
    (listing,) = (m for m in s.held if m.name == "D_LIST")
    stale = {"sandbox": b, "generation": 1, "kind": layout.ITEM_CONTAINER, "state": layout.STATE_RUNNING, "container": f"{1:064x}"}
    s.docker.send("D_ITEM", listing.id, stale)
    s.held.remove(listing)
    s.release("D_CREATE")
    assert wait_until(lambda: s.get(b).fields["status"] == layout.SANDBOX_STOPPED)
    s.docker.send("D_LIST_END", listing.id)
    s.fail.clear()
    s.hold.clear()
    assert wait_until(lambda: s.exec(b).fields["status"] == 200)
    assert s.p.alive() and not hasattr(s, "breach") and renewed(engine, b)
