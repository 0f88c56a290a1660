"""The pool: members are claimed once, get what their sandbox asked for before anybody may use them, and what goes wrong on
the way costs a fresh container or an error, never a half-made sandbox. A fake engine answers, late or never when it is told so."""
# ruff: noqa: F811 - fixtures are imported, and named again as arguments

import json
import os
import time

import layout
import pytest
from machine import SLACK, wait_until
from managerd_kit import IMAGE, data, engine, refused, start  # noqa: F401

POOL = {"POOL": "2"}
OTHER = {"memory_mb": 1024}  # limits that need an update


@pytest.fixture
def pooled(start, engine):
    """A server whose pool is full."""

    def one(size=2, config=None, **more):
        s = start(config={"POOL": str(size)} | (config or {}), **more)
        assert filled(s, size)
        return s

    return one


def ready(s):
    """Members that are up: the last step of each is its session's S_UP, which managerd may take a moment to read."""
    with s.lock:
        return [x for x in s.sessions.values() if getattr(x, "sandbox", None) == 0 and x.ended is None]


def filled(s, size=2):
    """So many members can be claimed now. The report is written once a second: what it says alone may be of before the last claim."""
    state = s.p.path + "/pool.json"
    if not wait_until(lambda: sum(x.up for x in ready(s)) == size):
        return False
    s.list(), s.list()  # managerd has been round its loop since
    return wait_until(lambda: os.path.exists(state) and sum(i["ready"] for i in json.load(open(state))["images"]) == size)


def report(s):
    return json.load(open(s.p.path + "/pool.json"))


def counts(s):
    r = report(s)
    return r["hits"], r["misses"], r["reasons"]


def container_of(engine, box):
    """Its name may come a moment after the answer."""
    found = wait_until(lambda: [cid for cid, (sandbox, _, _) in list(engine.containers.items()) if sandbox == box])
    assert found, engine.containers
    return found[0]


def test_default_create_asks_the_engine_for_nothing_but_a_name(pooled, engine):
    s = pooled()
    s.hold |= {"D_PREPARE", "D_CREATE", "D_ATTACH", "D_UPDATE", "D_RENAME"}
    m = s.create()
    assert m.name == "SANDBOX"
    assert wait_until(lambda: s.seen.count("D_RENAME") == 1) and "D_UPDATE" not in s.seen
    assert s.exec(m.fields["id"]).fields["status"] == 200
    s.release("D_PREPARE", "D_CREATE", "D_ATTACH", "D_UPDATE", "D_RENAME")
    assert wait_until(lambda: engine.containers[container_of(engine, m.fields["id"])][:2] == [m.fields["id"], 1])


def serving(s, box):
    """What serves a sandbox that may have come from the pool: its session is told so behind the answer, at the latest."""
    assert wait_until(lambda: len(s.session_of(box)) == 1)
    return s.session_of(box)[0]


def test_claimed_sandbox_has_its_environment_before_its_first_command(pooled):
    s = pooled()
    b = s.box(env=["A=1", "B=" + "x" * 50000])
    x = serving(s, b)
    assert x.env == b"A=1\0B=" + b"x" * 50000 + b"\0" and x.claimed
    assert s.exec(b).fields["status"] == 200


def test_other_limits_are_set_before_the_sandbox_is_answered(pooled, engine):
    s = pooled()
    s.hold.add("D_UPDATE")
    id = s.create_send(nano_cpus=2 * 10**9, memory_mb=1024, pids_limit=99)
    assert wait_until(lambda: "D_UPDATE" in s.seen)
    with pytest.raises(TimeoutError):
        s.result(id, 0.2)
    assert not any(getattr(x, "claimed", False) for x in s.sessions.values())
    s.release("D_UPDATE")
    b = s.result(id).fields["id"]
    assert engine.limits[container_of(engine, b)] == [2 * 10**9, 1024, 99]


def test_pool_is_filled_again(pooled, engine):
    s = pooled()
    boxes = [s.box() for _ in range(6)]
    assert wait_until(lambda: len(engine.waiting()) == 2) and filled(s)
    assert len(set(boxes)) == 6 and len({serving(s, b).id for b in boxes}) == 6
    for b in boxes:
        assert s.destroy(b).fields["status"] == 204
    assert wait_until(lambda: len(engine.containers) == len(engine.volumes) == 2)


def test_claims_that_race_never_get_one_member(pooled, engine):
    s = pooled(4)
    ids = [s.create_send(**(OTHER if i % 2 else {})) for i in range(18)]
    boxes = [s.result(i).fields["id"] for i in ids]
    assert len({serving(s, b).id for b in boxes}) == 18
    assert len({container_of(engine, b) for b in boxes}) == 18
    assert wait_until(lambda: len(engine.waiting()) == 4)
    for b in boxes:
        s.destroy(b)
    assert wait_until(lambda: len(engine.containers) == len(engine.volumes) == 4)


@pytest.mark.parametrize(
    "fields, why",
    [
        ({"image": "debian:12"}, "image"),
        ({"network": 1}, "network"),
        ({"read_only": 0}, "rootfs"),
        ({"memory_mb": 256}, "memory"),
    ],
)
def test_what_does_not_fit_gets_a_container_of_its_own(pooled, engine, fields, why):
    engine.images.add("debian:12")
    s = pooled()
    b = s.box(**fields)
    assert container_of(engine, b) not in engine.members
    assert wait_until(lambda: counts(s) == (0, 1, {why: 1}))
    assert "is not from the pool" in s.p.log()


def test_empty_pool_is_a_miss_and_no_wait(pooled, engine):
    s = pooled(1)
    s.hold |= {"D_ATTACH"}
    s.box()
    assert wait_until(lambda: s.seen.count("D_ATTACH") == 2)  # the next member's
    id = s.create_send()
    assert wait_until(lambda: s.seen.count("D_ATTACH") == 3)
    s.release("D_ATTACH")
    b = s.result(id).fields["id"]
    assert container_of(engine, b) not in engine.members
    assert wait_until(lambda: counts(s) == (1, 1, {"empty": 1}))


def test_runtime_that_cannot_update_serves_default_requests_only(pooled, engine):
    s = pooled(config={"DOCKER_RUNTIME": "runsc"})
    assert container_of(engine, s.box()) in engine.members
    assert container_of(engine, s.box(**OTHER)) not in engine.members
    assert "D_UPDATE" not in s.seen


def test_refused_update_gives_a_fresh_container_and_none_is_asked_for_again_soon(pooled, engine):
    s = pooled()
    s.fail["D_UPDATE"] = (layout.FAIL_ENGINE, "the engine reported an error")
    b = s.box(**OTHER)
    assert container_of(engine, b) not in engine.members and s.exec(b).fields["status"] == 200
    assert wait_until(lambda: len(engine.waiting()) == 2)
    assert container_of(engine, s.box(**OTHER)) not in engine.members
    assert s.seen.count("D_UPDATE") == 1
    assert container_of(engine, s.box()) in engine.members


def test_fresh_container_after_a_refused_update_is_on_record_before_it_is_made(pooled, engine, data):
    s = pooled()
    s.fail["D_UPDATE"] = (layout.FAIL_ENGINE, "the engine reported an error")
    s.hold.add("D_CREATE")
    s.create_send(**OTHER)
    assert wait_until(lambda: any(m.name == "D_CREATE" and m.fields["sandbox"] for m in s.held))
    (record,) = (data / "sandboxes").iterdir()
    assert json.loads(record.read_text())["state"] == "creating"


def test_session_lost_during_the_update_gives_a_fresh_container(pooled, engine):
    s = pooled(1)
    s.hold.add("D_UPDATE")
    id = s.create_send(env=["A=1"], **OTHER)
    assert wait_until(lambda: "D_UPDATE" in s.seen)
    with s.lock:
        s.end_session(min(s.sessions), 9)
    m = s.result(id)
    assert m.name == "SANDBOX" and container_of(engine, m.fields["id"]) not in engine.members
    assert serving(s, m.fields["id"]).env == b"A=1\0"
    with s.lock:  # of a container that is gone by now
        s.hold.discard("D_UPDATE")
        s.docker.send("D_FAILED", s.held.pop().id, {"why": layout.FAIL_GONE}, "no such container")
    assert s.exec(m.fields["id"]).fields["status"] == 200
    s.destroy(m.fields["id"])
    assert wait_until(lambda: len(engine.containers) == len(engine.volumes) == 1)


def test_session_lost_during_the_restore_gives_a_fresh_container_with_the_tree(pooled, engine):
    s = pooled(1)
    snap = s.snap(s.box())
    assert wait_until(lambda: len(engine.waiting()) == 1) and filled(s, 1)
    s.hold.add("S_RESTORE")
    id = s.send("FORK", {"snapshot": snap, "network": layout.NOT_GIVEN, "read_only": layout.NOT_GIVEN})
    assert wait_until(lambda: any(m.name == "S_RESTORE" for m in s.held))
    with s.lock:
        held = s.held.pop()
        s.hold.discard("S_RESTORE")
        session = next(x for x in s.sessions.values() if x.jobs.get(held.id) is held)
        s.end_session(session.id, 9)
    m = s.result(id)
    assert m.name == "SANDBOX" and container_of(engine, m.fields["id"]) not in engine.members
    assert serving(s, m.fields["id"]).restored == s.tar


def test_restore_that_fails_costs_the_member_and_answers_the_error(pooled, engine):
    s = pooled(1)
    b = s.box()
    snap = s.snap(b)
    assert wait_until(lambda: len(engine.waiting()) == 1) and filled(s, 1)
    s.restore_status = 507
    refused(s.fork(snap), 507)
    assert [m.fields["id"] for m in s.list()] == [b]
    assert wait_until(lambda: len(engine.containers) == len(engine.volumes) == 2)


def test_fork_and_rollback_claim_too(pooled, engine):
    s = pooled()
    b = s.box()
    snap = s.snap(b)
    assert filled(s)
    f = s.fork(snap).fields["id"]
    assert container_of(engine, f) in engine.members and serving(s, f).restored == s.tar
    old = container_of(engine, b)
    assert wait_until(lambda: len(engine.waiting()) == 2) and filled(s)
    assert s.rollback(b, snap).name == "SANDBOX"
    assert wait_until(lambda: old not in engine.containers)
    assert container_of(engine, b) in engine.members and engine.containers[container_of(engine, b)][1] == 2
    assert s.exec(b).fields["status"] == 200
    s.destroy(b), s.destroy(f)
    assert wait_until(lambda: len(engine.containers) == len(engine.volumes) == 2)


def test_rollback_is_answered_before_the_old_generation_is_removed_and_the_next_one_waits_for_that(pooled, engine):
    s = pooled()
    b = s.box()
    snap = s.snap(b)
    assert wait_until(lambda: len(engine.containers) == 3) and filled(s)
    old = serving(s, b)
    s.hold.add("D_DESTROY")
    assert s.rollback(b, snap).name == "SANDBOX"
    assert wait_until(lambda: old.ended == layout.END_ROLLED_BACK)
    assert s.exec(b).fields["status"] == 200
    id = s.send("ROLLBACK", {"sandbox": b, "snapshot": snap})
    with pytest.raises(TimeoutError):
        s.result(id, 0.3)
    assert "is rolling back" in refused(s.rollback(b, snap), 409)
    s.release("D_DESTROY")
    assert s.result(id).name == "SANDBOX" and s.exec(b).fields["status"] == 200
    assert wait_until(lambda: [c[1] for c in engine.containers.values() if c[0] == b] == [3])


def test_rollback_waits_for_no_engine_that_is_away(pooled, engine):
    s = pooled()
    b = s.box()
    snap = s.snap(b)
    s.fail["D_DESTROY"] = (layout.FAIL_ENGINE, "the engine reported an error")
    assert s.rollback(b, snap).name == "SANDBOX"
    assert wait_until(lambda: "is removed later" in s.p.log())
    assert s.rollback(b, snap).name == "SANDBOX"
    s.fail.clear()
    assert wait_until(lambda: [c[1] for c in engine.containers.values() if c[0] == b] == [3])


def test_sandbox_that_is_destroyed_right_after_a_rollback_leaves_nothing(pooled, engine):
    s = pooled()
    b = s.box()
    snap = s.snap(b)
    s.hold.add("D_DESTROY")
    assert s.rollback(b, snap).name == "SANDBOX"
    id = s.send("DESTROY", {"id": b})
    time.sleep(0.1)
    s.release("D_DESTROY")
    assert s.result(id).fields["status"] == 204
    assert wait_until(lambda: len(engine.containers) == len(engine.volumes) == 2)


def test_member_that_dies_is_replaced(pooled, engine):
    s = pooled()
    gone = engine.waiting()[0]
    del engine.containers[gone]
    s.event(layout.EVENT_DIE, gone)
    assert wait_until(lambda: gone not in engine.containers and len(engine.waiting()) == 2 and len(engine.volumes) == 2)
    session = ready(s)[0]
    with s.lock:
        s.end_session(session.id, 9)
    assert wait_until(lambda: s.seen.count("D_DESTROY") == 2 and len(engine.waiting()) == 2)
    assert filled(s) and s.box()


@pytest.mark.parametrize("event", [layout.EVENT_DIE, layout.EVENT_PAUSE, layout.EVENT_DESTROY])
def test_member_that_others_ended_is_claimed_by_nobody(pooled, engine, event):
    s = pooled(1)
    (gone,) = engine.waiting()
    s.hold.add("D_CREATE")
    s.event(event, gone)
    assert wait_until(lambda: "D_DESTROY" in s.seen)
    id = s.create_send()
    assert wait_until(lambda: any(m.name == "D_CREATE" and m.fields["sandbox"] for m in s.held))
    s.release("D_CREATE")
    assert container_of(engine, s.result(id).fields["id"]) != gone


def test_tag_that_moved_replaces_the_members(pooled, engine):
    s = pooled()
    old = engine.waiting()
    engine.prepared = "3" * 64
    s.box()  # the next member shows it, as the look every 15 s would
    assert wait_until(lambda: len(engine.waiting()) == 2 and not set(engine.waiting()) & set(old))
    assert "has changed" in s.p.log()


def test_pool_of_an_image_that_fails_is_tried_ever_more_seldom_and_said_once(start, engine):
    engine.images.clear()
    s = start(config=POOL)
    assert wait_until(lambda: s.seen.count("D_PREPARE") >= 3)
    assert s.seen.count("D_PREPARE") <= 8
    assert s.p.log().count("is not filled") == 1
    engine.images.add(IMAGE)
    assert wait_until(lambda: len(engine.waiting()) == 2, 60)
    assert wait_until(lambda: s.p.log().count("is being filled again") == 1)


def test_nothing_is_made_for_the_pool_while_a_client_waits_for_the_engine(start, engine):
    s = start(config=POOL, up=False)
    s.hold |= {"D_CREATE"}
    s.up = True
    s.docker.send("D_ENGINE", 0, {"up": 1, "version": "20.10.24", "api": "1.41", "id": ""})
    assert wait_until(lambda: "D_CREATE" in s.seen)
    s.release("D_CREATE")
    assert filled(s)
    s.hold |= {"D_CREATE"}
    id = s.create_send(memory_mb=256)
    assert wait_until(lambda: "D_CREATE" in [m.name for m in s.held])
    b = s.box()  # takes one of the pool
    time.sleep(0.4)
    assert [m.fields["sandbox"] != 0 for m in s.held if m.name == "D_CREATE"] == [True]
    s.release("D_CREATE")
    assert s.result(id).name == "SANDBOX" and s.exec(b).fields["status"] == 200
    assert wait_until(lambda: len(engine.waiting()) == 2)


def test_members_do_not_count_as_sandboxes(pooled):
    s = pooled(4, config={"MAX_SANDBOXES": 2})
    assert s.list() == []
    boxes = [s.box(), s.box()]
    assert "limit of 2 sandboxes" in refused(s.create(), 429)
    assert sorted(m.fields["id"] for m in s.list()) == sorted(boxes)


def test_less_memory_for_the_pool_keeps_fewer(start, engine):
    s = start(config={"POOL": f"{IMAGE}=3,debian:12=5", "POOL_MEMORY_MB": 2100})
    engine.images.add("debian:12")
    assert filled(s, 4)
    assert {i["image"]: i["size"] for i in report(s)["images"]} == {IMAGE: 3, "debian:12": 1}
    assert "keeps 4 sandboxes of the 8" in s.p.log()


def test_image_that_is_not_allowed_has_no_pool(start, engine):
    s = start(config=POOL | {"ALLOWED_IMAGES": "debian:*"})
    assert wait_until(lambda: "no pool of it" in s.p.log())
    time.sleep(0.3)
    assert engine.empty()


CLAIM_STEPS = ["D_UPDATE", "+D_UPDATE", "S_RESTORE", "D_RENAME", "+D_RENAME"]


@pytest.mark.parametrize("step", CLAIM_STEPS)
def test_killed_during_a_claim_leaves_a_whole_sandbox_or_none(pooled, start, engine, data, step):
    s = pooled()
    b = s.box()
    snap = s.snap(b)
    assert filled(s)
    (s.mute if step[0] == "+" else s.hold).add(step.lstrip("+"))
    before = s.seen.count(step.lstrip("+"))
    s.send("FORK", {"snapshot": snap, "network": 2, "read_only": 2} | OTHER)
    assert wait_until(lambda: s.seen.count(step.lstrip("+")) > before)
    time.sleep(0.05)
    s.kill()
    s = start()
    done = step.endswith("RENAME")
    assert wait_until(lambda: len(engine.containers) == len(engine.volumes) == 1 + done)
    assert wait_until(lambda: not engine.waiting())  # what crashed before its name got it now
    boxes = [m.fields["id"] for m in s.list()]
    assert len(boxes) == 1 + done and b in boxes
    for box in boxes:
        assert s.exec(box).fields["status"] == 200
        assert s.destroy(box).fields["status"] == 204
    assert wait_until(engine.empty) and not list((data / "sandboxes").iterdir())


@pytest.mark.parametrize("step", CLAIM_STEPS)
def test_killed_during_a_rollback_from_the_pool_keeps_one_whole_generation(pooled, start, engine, step):
    s = pooled()
    b = s.box(**OTHER)
    snap = s.snap(b)
    assert filled(s)
    (s.mute if step[0] == "+" else s.hold).add(step.lstrip("+"))
    before = s.seen.count(step.lstrip("+"))
    s.send("ROLLBACK", {"sandbox": b, "snapshot": snap})
    assert wait_until(lambda: s.seen.count(step.lstrip("+")) > before)
    time.sleep(0.05)
    s.kill()
    s = start()
    assert wait_until(lambda: len(engine.containers) == len(engine.volumes) == 1 and not engine.waiting())
    (m,) = s.list()
    assert m.fields["id"] == b and (m.fields["source_snapshot"] == snap) == step.endswith("RENAME")
    assert s.exec(b).fields["status"] == 200 and s.rollback(b, snap).name == "SANDBOX"


@pytest.mark.parametrize("step", ["D_PREPARE", "D_CREATE", "+D_CREATE", "P_SESSION_START", "D_ATTACH", "+D_ATTACH", "UP"])
def test_killed_while_the_pool_fills_leaves_nothing(start, engine, step):
    s = start(config=POOL, **({"mute": [step[1:]]} if step[0] == "+" else {"hold": [step]}))
    name = {"UP": "D_ATTACH"}.get(step, step.lstrip("+"))
    assert wait_until(lambda: name in s.seen)
    time.sleep(0.05)
    s.kill()
    start()
    assert wait_until(engine.empty)


def test_members_of_an_earlier_run_are_removed(pooled, start, engine):
    s = pooled()
    b = s.box()
    assert wait_until(lambda: len(engine.waiting()) == 2 and len(engine.containers) == 3)
    old = set(engine.waiting())
    s.kill()
    s = start(config=POOL)
    assert wait_until(lambda: not old & set(engine.containers))
    assert filled(s) and wait_until(lambda: len(engine.containers) == len(engine.volumes) == 3)
    assert s.exec(b).fields["status"] == 200


def test_members_are_kept_while_a_record_cannot_be_read(pooled, start, engine, data):
    """It may be the record of one of them."""
    s = pooled()
    b = s.box()
    assert wait_until(lambda: len(engine.waiting()) == 2 and len(engine.containers) == 3)
    s.kill()
    held = set(engine.containers)
    (data / "sandboxes" / f"sb_{b:016x}.json").write_text("torn")
    s = start()
    time.sleep(0.5)
    assert set(engine.containers) == held and len(engine.volumes) == 3


def test_rename_that_fails_is_only_logged_and_asked_for_again_at_the_next_start(pooled, start, engine):
    s = pooled(1)
    s.fail["D_RENAME"] = (layout.FAIL_ENGINE, "the engine reported an error")
    b = s.box()
    assert wait_until(lambda: "keeps its name of the pool" in s.p.log())
    assert s.exec(b).fields["status"] == 200
    s.kill()
    s = start()
    assert wait_until(lambda: container_of(engine, b))
    assert s.exec(b).fields["status"] == 200
    assert s.destroy(b).fields["status"] == 204 and wait_until(engine.empty)


@pytest.mark.parametrize("answer", ["D_DONE", "D_FAILED"])
def test_use_of_a_sandbox_waits_for_its_name(pooled, start, engine, answer):
    """After a restart, and when its session was lost meanwhile."""
    s = pooled(1)
    s.fail["D_RENAME"] = (layout.FAIL_ENGINE, "the engine reported an error")
    b = s.box()
    assert wait_until(lambda: "keeps its name of the pool" in s.p.log())
    s.kill()
    s = start(hold={"D_RENAME"})
    assert wait_until(lambda: s.held)
    waiting, data = s.exec_send(b)
    with pytest.raises(TimeoutError):
        s.result(waiting, 0.3)
    assert "D_ATTACH" not in s.seen
    if answer == "D_FAILED":
        s.fail["D_RENAME"] = (layout.FAIL_ENGINE, "the engine reported an error")
    s.release("D_RENAME")
    assert s.result(waiting).fields["status"] == 200
    data.close()


def test_sandbox_without_its_name_is_destroyed_whole(pooled, engine):
    s = pooled(1)
    s.fail["D_RENAME"] = (layout.FAIL_ENGINE, "the engine reported an error")
    b = s.box()
    assert s.destroy(b).fields["status"] == 204
    assert wait_until(lambda: len(engine.containers) == len(engine.volumes) == 1 and filled(s, 1))


def test_destroy_waits_for_the_rename(pooled, engine):
    s = pooled(1)
    s.hold |= {"D_RENAME"}
    b = s.box()
    id = s.send("DESTROY", {"id": b})
    with pytest.raises(TimeoutError):
        s.result(id, 0.3)
    assert "D_DESTROY" not in s.seen
    s.release("D_RENAME")
    assert s.result(id).fields["status"] == 204
    assert s.seen.index("D_RENAME") < s.seen.index("D_DESTROY")


def test_news_of_the_container_is_looked_into_after_the_rename(pooled, engine):
    s = pooled(1)
    s.hold |= {"D_RENAME"}
    b = s.box()
    assert wait_until(lambda: s.held)
    cid = s.held[0].fields["container"]
    s.event(layout.EVENT_DIE, cid)
    time.sleep(0.2)
    assert "D_INSPECT" not in s.seen
    del engine.containers[cid]
    s.release("D_RENAME")
    assert wait_until(lambda: "D_INSPECT" in s.seen)
    assert wait_until(lambda: s.get(b).name == "REPLY" and s.get(b).fields["status"] == 404)


def test_renewed_sandbox_keeps_the_volume_of_the_pool(pooled, start, engine):
    s = pooled(1)
    b = s.box()
    volume = ("pool", engine.members[container_of(engine, b)])
    s.kill()
    engine.old.add(container_of(engine, b))
    s = start()
    assert s.exec(b).fields["status"] == 200
    assert s.last_create["keep_volume"] == 1 and ("pool", s.last_create["pool"]) == volume
    assert volume in engine.volumes
    s.destroy(b)
    assert wait_until(engine.empty)


def test_drain_removes_the_members_and_what_is_being_made(pooled, engine):
    s = pooled()
    b = s.box()
    s.p.parent.send("P_DRAIN")
    assert wait_until(lambda: [c[0] for c in engine.containers.values()] == [b] and len(engine.volumes) == 1)
    assert s.create().name == "SANDBOX"  # it is made, but not from the pool
    assert not os.path.exists(s.p.path + "/pool.json")


def test_drain_during_a_claim_gives_the_sandbox_all_the_same(pooled, engine):
    s = pooled(1)
    s.hold.add("D_UPDATE")
    id = s.create_send(**OTHER)
    assert wait_until(lambda: "D_UPDATE" in s.seen)
    s.p.parent.send("P_DRAIN")
    time.sleep(0.1)
    s.release("D_UPDATE")
    b = s.result(id).fields["id"]
    assert s.exec(b).fields["status"] == 200
    assert wait_until(lambda: len(engine.containers) == len(engine.volumes) == 1)


def test_managerd_ends_after_apid_when_the_pool_is_gone(pooled, engine):
    s = pooled()
    s.apid.close()
    assert s.p.wait(30) == 0
    assert engine.empty()


def test_managerd_ends_after_apid_when_runs_are_gone_also_one_that_is_being_made(start, engine):
    s = start()
    kept = s.box()
    s.box(run=1)
    s.hold.add("D_CREATE")
    s.create_send(run=1)
    assert wait_until(lambda: s.seen.count("D_CREATE") == 3)
    s.apid.close()
    time.sleep(0.1)
    s.release("D_CREATE")
    assert s.p.wait(30) == 0
    assert [c[0] for c in engine.containers.values()] == [kept]


def test_managerd_ends_soon_although_the_engine_does_not_remove_the_pool(pooled, engine):
    s = pooled(hold=["D_DESTROY"])
    began = time.monotonic()
    s.apid.close()
    assert s.p.wait(30) == 0
    assert time.monotonic() - began < 5 + SLACK


@pytest.mark.parametrize("name", ["S_JOB_END", "S_SNAPPED"])
def test_word_of_a_job_from_a_member_costs_that_member_only(pooled, engine, name):
    s = pooled()
    bad = ready(s)[0]
    bad.chan.send(name, 77)
    assert wait_until(lambda: bad.id in s.killed and len(engine.waiting()) == 2)
    assert filled(s) and s.box()


def test_short_run_from_the_pool_asks_the_engine_for_nothing_but_its_removal(pooled, engine):
    s = pooled()
    before = list(s.seen)
    b = s.box(run=1)
    assert s.exec(b).fields["status"] == 200 and s.destroy(b).fields["status"] == 204
    assert [n for n in s.seen[len(before) :] if n[:2] == "D_" and n not in ("D_PING", "D_PREPARE", "D_CREATE", "D_ATTACH")] == ["D_DESTROY"]
    assert wait_until(lambda: len(engine.waiting()) == len(engine.containers) == len(engine.volumes) == 2) and filled(s)


def test_run_from_the_pool_that_goes_on_has_its_name(pooled, engine):
    s = pooled()
    b = s.box(run=1)
    assert container_of(engine, b) in engine.members
    assert s.exec(b).fields["status"] == 200
    assert wait_until(lambda: len(engine.waiting()) == 2) and filled(s)
    assert s.destroy(b).fields["status"] == 204
    assert wait_until(lambda: len(engine.containers) == len(engine.volumes) == 2)


def test_runs_that_never_end_and_runs_without_a_pause_do_not_keep_the_pool_empty(pooled, engine):
    s = pooled()
    s.box(run=1)
    s.box(run=1)
    assert filled(s)
    end = time.monotonic() + 30
    hits = counts(s)[0]
    while counts(s)[0] < hits + 6:  # with members that were made meanwhile
        assert time.monotonic() < end, report(s)
        s.send("DESTROY", {"id": s.box(run=1)})
    assert filled(s)


def test_members_and_what_runs_have_of_them_are_never_more_than_the_pool(pooled, engine):
    """dockerd-proxy counts a member until its sandbox has a name, or it is gone."""
    s = pooled(4)
    s.hold.add("D_RENAME")
    boxes = [s.box(run=1) for _ in range(3)]
    for b in boxes:
        s.send("DESTROY", {"id": b})
    assert wait_until(lambda: len(engine.waiting()) == len(engine.containers) == 4) and filled(s, 4)
    assert engine.most <= 4
