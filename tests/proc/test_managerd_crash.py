"""kill -9 at every step, then a start with the same data directory and an engine that remembers: nothing is lost, nothing left."""
# ruff: noqa: F811 - fixtures are imported, and named again as arguments

import json
import os
import shutil
import time

import layout
import pytest
from machine import SLACK, wait_until
from managerd_kit import data, engine, refused, start  # noqa: F401

CREATE_STEPS = ["D_PREPARE", "D_CREATE", "+D_CREATE", "P_SESSION_START", "D_ATTACH", "+D_ATTACH", "UP"]


def copy_of(data, suffix):
    copy = data.parent / (data.name + suffix)
    shutil.copytree(data, copy)
    for p in [copy, *copy.rglob("*")]:
        os.chown(p, data.stat().st_uid, data.stat().st_gid)
    return copy


def stick(s, step):
    """The step is not answered (+: but done)."""
    if step.startswith("+"):
        s.mute.add(step[1:])
    else:
        s.hold.add(step)


def reached(s, step):
    name = {"UP": "D_ATTACH"}.get(step, step.lstrip("+"))
    before = s.seen.count(name)
    return lambda: s.seen.count(name) > before


def files(data, folder):
    return sorted(p.name for p in (data / folder).iterdir())


@pytest.mark.parametrize("step", CREATE_STEPS)
def test_killed_during_create_leaves_nothing(start, engine, data, step):
    s = start()
    keep = s.box()
    stick(s, step)
    there = reached(s, step)
    s.create_send()
    assert wait_until(there)
    time.sleep(0.05)
    s.kill()
    s = start()
    assert wait_until(lambda: len(engine.containers) == len(engine.volumes) == 1)
    assert wait_until(lambda: files(data, "sandboxes") == [f"sb_{keep:016x}.json"])
    assert [m.fields["id"] for m in s.list()] == [keep] and s.exec(keep).fields["status"] == 200


@pytest.mark.parametrize("step", [*CREATE_STEPS, "S_RESTORE"])
def test_killed_during_fork_leaves_snapshot_and_nothing_else(start, engine, data, step):
    s = start()
    keep = s.box()
    snap = s.snap(keep)
    stick(s, step)
    there = reached(s, step)
    s.send("FORK", {"snapshot": snap, "network": 2, "read_only": 2})
    assert wait_until(there)
    time.sleep(0.05)
    s.kill()
    s = start()
    assert wait_until(lambda: len(engine.containers) == len(engine.volumes) == 1)
    assert wait_until(lambda: len(files(data, "sandboxes")) == 1)
    assert s.fork(snap).name == "SANDBOX"


@pytest.mark.parametrize("step", [*CREATE_STEPS, "S_RESTORE"])
def test_killed_during_rollback_keeps_the_old_generation(start, engine, step):
    s = start()
    b = s.box()
    snap = s.snap(b)
    before = s.get(b).fields
    stick(s, step)
    there = reached(s, step)
    s.send("ROLLBACK", {"sandbox": b, "snapshot": snap})
    assert wait_until(there)
    time.sleep(0.05)
    s.kill()
    s = start()
    assert wait_until(lambda: [(i, g) for i, g, _ in engine.containers.values()] == [(b, 1)] and engine.volumes == {(b, 1)})
    assert s.get(b).fields == before and s.exec(b).fields["status"] == 200
    assert s.rollback(b, snap).name == "SANDBOX"


@pytest.mark.parametrize("step", ["D_DESTROY", "+D_DESTROY"])
def test_killed_after_the_swap_keeps_the_new_generation(start, engine, step):
    s = start()
    b = s.box()
    snap = s.snap(b)
    stick(s, step)
    there = reached(s, step)
    s.send("ROLLBACK", {"sandbox": b, "snapshot": snap})
    assert wait_until(there)
    s.kill()
    s = start()
    assert wait_until(lambda: engine.volumes == {(b, 2)})
    assert s.get(b).fields["source_snapshot"] == snap and s.exec(b).fields["status"] == 200


@pytest.mark.parametrize("step", ["D_DESTROY", "+D_DESTROY"])
def test_killed_during_destroy_finishes_it(start, engine, data, step):
    s = start()
    b = s.box()
    snap = s.snap(b)
    stick(s, step)
    there = reached(s, step)
    s.send("DESTROY", {"id": b})
    assert wait_until(there)
    s.kill()
    s = start()
    assert wait_until(engine.empty) and wait_until(lambda: files(data, "sandboxes") == [])
    refused(s.get(b), 404)
    assert s.call("SNAPSHOT_GET", {"id": snap}).name == "SNAPSHOT"


def test_killed_during_snapshot_keeps_no_part_of_it(start, engine, data):
    s = start()
    b = s.box()
    s.hold.add("S_SNAPSHOT")
    s.send("SNAPSHOT_MAKE", {"sandbox": b})
    assert wait_until(lambda: s.held)
    os.write(s.held[0].fd, b"half a snapshot")
    assert len(files(data, "snapshots")) == 1
    s.kill()
    s = start()
    assert files(data, "snapshots") == [] and s.list("SNAPSHOTS") == []
    assert s.snap(b)


def test_killed_at_any_time_keeps_what_was_answered(start, engine, data):
    """Everything that got an answer is there after kill -9: sandboxes, times to live, names."""
    s = start()
    a, b = s.box(labels=[("k", "v")], env=["E=1"]), s.box(ttl_s=30)
    snap = s.snap(a, "n")
    until = s.call("SET_TIMEOUT", {"sandbox": b, "ttl_s": 500}).fields["expires_us"]
    before = [(m.fields, m.tail) for m in s.list()]
    s.kill()
    s = start()
    assert [(m.fields, m.tail) for m in s.list()] == before and s.get(b).fields["expires_us"] == until
    assert s.call("SNAPSHOT_GET", {"id": snap}).tail == b"python:3.12-slim\0n"
    assert wait_until(lambda: s.session_of(a)) and s.session_of(a)[0].env == b"E=1\0"


def test_hundred_sandboxes_are_ready_at_once_and_attached_soon(start, engine):
    s = start(config={"MAX_SANDBOXES": 100})
    ids = [s.create_send() for _ in range(100)]
    assert {s.result(i).name for i in ids} == {"SANDBOX"}
    s.kill()
    begin = time.monotonic()
    s = start(config={"MAX_SANDBOXES": 100})
    assert time.monotonic() - begin < 1 + SLACK
    assert len(s.list(max=7)) == 100
    assert wait_until(lambda: sum(getattr(x, "sandbox", 0) != 0 for x in s.sessions.values()) == 100)


def test_generation_of_a_failed_rollback_is_not_used_again(start, engine):
    s = start()
    b = s.box()
    snap = s.snap(b)
    s.hold |= {"D_PING", "D_CREATE"}
    refused(s.call("ROLLBACK", {"sandbox": b, "snapshot": snap}), 502)
    held = s.held
    s.held = [m for m in held if m.name == "D_PING"]
    s.hold.discard("D_CREATE")
    s.release("D_PING")
    assert wait_until(lambda: s.call("ASK_HEALTH").fields["engine_up"])
    assert s.rollback(b, snap).name == "SANDBOX"
    assert wait_until(lambda: [g for _, g, _ in engine.containers.values()] == [3])
    with s.lock:
        s.answer(next(m for m in held if m.name == "D_CREATE"))  # the engine did it after all
    assert wait_until(lambda: [g for _, g, _ in engine.containers.values()] == [3] and engine.volumes == {(b, 3)})


def test_records_that_are_no_records_are_left_alone(start, engine, data):
    s = start()
    a, b, c = s.box(), s.box(), s.box()
    snap = s.snap(a)
    s.kill()
    folder = data / "sandboxes"
    good = (folder / f"sb_{a:016x}.json").read_bytes()
    (folder / f"sb_{a:016x}.json").write_bytes(good[: len(good) // 2])
    (folder / f"sb_{b:016x}.json").write_bytes(b"\xff\0garbage")
    (folder / "notes.txt").write_text("x")
    (folder / "sb_0000000000000001.json.tmp").write_text("x")
    (folder / f"sb_{0xAB:016x}.json").write_bytes(good)  # another's id inside
    os.symlink("/etc/passwd", folder / f"sb_{0xAC:016x}.json")
    os.mkfifo(folder / f"sb_{0xAD:016x}.json")
    (data / "snapshots" / f"snap_{0xAE:016x}.tar.zst").write_text("no record")
    shutil.copy(data / "snapshots" / f"snap_{snap:016x}.json", data / "snapshots" / f"snap_{0xAF:016x}.json")
    (data / "snapshots" / f"snap_{0xB0:016x}.tmp").write_text("half")
    s = start()
    assert [m.fields["id"] for m in s.list()] == [c]
    assert len(engine.containers) == 3 and len(engine.volumes) == 3, "a torn record is no reason to remove a workspace"
    assert [m.fields["id"] for m in s.list("SNAPSHOTS")] == [snap]
    assert not (folder / "sb_0000000000000001.json.tmp").exists() and (folder / "notes.txt").exists()
    assert not (data / "snapshots" / f"snap_{0xAE:016x}.tar.zst").exists()
    assert not (data / "snapshots" / f"snap_{0xB0:016x}.tmp").exists()
    assert "damaged" in s.p.log()


def test_container_that_vanished_while_down_ends_its_sandbox(start, engine, data):
    s = start()
    b, c = s.box(), s.box()
    s.kill()
    cid = next(k for k, v in engine.containers.items() if v[0] == b)
    del engine.containers[cid]
    s = start()
    assert wait_until(lambda: s.get(b).name == "REPLY") and "backend" in refused(s.get(b, detail=1), 410)
    assert wait_until(lambda: engine.volumes == {(c, 1)}) and s.exec(c).fields["status"] == 200
    assert wait_until(lambda: files(data, "sandboxes") == [f"sb_{c:016x}.json"])


def test_orphans_with_our_label_are_removed(start, engine):
    engine.add(0xABCD, 1, layout.STATE_RUNNING)
    engine.volumes.add((0xABCE, 3))
    s = start()
    assert wait_until(engine.empty)
    assert s.create().name == "SANDBOX"


def test_orphan_that_comes_to_be_after_the_first_list_is_removed_too(start, engine):
    s = start()
    assert s.create().name == "SANDBOX" and len(engine.containers) == 1
    engine.add(0xABCD, 2, layout.STATE_RUNNING)  # a call of before the start, which the engine carried out only now
    assert wait_until(lambda: len(engine.containers) == 1 and len(engine.volumes) == 1, 60), "it looks again after 3 s and after 35"


def test_sandbox_that_expired_while_down_is_ended_first(start, engine):
    s = start()
    b, c = s.box(ttl_s=1), s.box()
    s.kill()
    time.sleep(1.1)
    s = start()
    assert wait_until(lambda: s.get(b).name == "REPLY") and wait_until(lambda: len(engine.containers) == 1)
    assert s.exec(c).fields["status"] == 200


def test_clock_that_jumped_while_down_ends_no_sandbox_early(start, engine, data):
    s = start()
    b = s.box(ttl_s=100)
    s.kill()
    path = data / "sandboxes" / f"sb_{b:016x}.json"
    record = json.loads(path.read_text())
    record["expires_us"] -= 10**9  # as if the clock was put forward by a thousand seconds
    path.write_text(json.dumps(record))
    s = start()
    time.sleep(0.5)
    assert s.exec(b).fields["status"] == 200
    s.kill()
    record["boot"] = "another boot of the machine"
    path.write_text(json.dumps(record))
    s = start()
    assert wait_until(lambda: s.get(b).name == "REPLY"), "after a boot only the wall clock is left"


def test_unreachable_engine_at_start_does_not_hold_reads(start, engine):
    s = start()
    b = s.box()
    snap = s.snap(b)
    s.kill()
    s = start(up=False)
    assert s.get(b).name == "SANDBOX" and s.call("SNAPSHOT_GET", {"id": snap}).name == "SNAPSHOT"
    assert s.call("ASK_HEALTH").fields["engine_up"] == 0
    refused(s.exec(b), 502)
    refused(s.create(), 502)
    s.up = True
    s.docker.send("D_ENGINE", 0, {"up": 1})
    assert wait_until(lambda: s.exec(b).name == "REPLY" and s.exec(b).fields["status"] == 200)


def test_hung_engine_at_start_is_ready_all_the_same(start, engine):
    s = start()
    b = s.box()
    s.kill()
    s = start(hold={"D_INSTANCE"})  # no word on the engine comes
    assert s.get(b).name == "SANDBOX" and s.call("ASK_HEALTH").fields["engine_up"] == 0
    s.release("D_INSTANCE")
    assert wait_until(lambda: s.call("ASK_HEALTH").fields["engine_up"])
    assert wait_until(lambda: s.exec(b).fields["status"] == 200)


def test_delete_while_the_engine_is_away_is_finished_later(start, engine, data):
    s = start()
    b = s.box()
    s.hold |= {"D_PING", "D_DESTROY"}
    refused(s.destroy(b), 502)
    refused(s.destroy(b), 502)
    s.kill()
    assert json.loads((data / "sandboxes" / f"sb_{b:016x}.json").read_text())["state"] == "destroying"
    s = start()
    assert wait_until(engine.empty) and wait_until(lambda: files(data, "sandboxes") == [])


def test_what_expired_while_the_engine_is_away_is_gone_for_clients(start, engine, data):
    s = start()
    b, other = s.box(ttl_s=1), s.box()
    s.up = False
    assert wait_until(lambda: s.get(b).name == "REPLY")
    refused(s.get(b), 404)
    assert "ttl" in refused(s.get(b, detail=1), 410)
    refused(s.exec(b), 404), refused(s.destroy(b), 404)
    assert [m.fields["id"] for m in s.list()] == [other] and len(engine.containers) == 2
    s.up = True
    assert wait_until(lambda: len(engine.containers) == 1)


def test_copied_data_directory_is_refused(start, engine, data):
    s = start()
    b = s.box()
    snap = s.snap(b)
    uuid = s.uuid
    s.kill()
    copy = copy_of(data, "-copy")
    s = start(ready=False, data=copy)
    assert s.p.wait(30) == 2 and "--adopt" in s.p.log()
    s.finish()
    s = start(data=copy, instance=layout.INSTANCE_NEW)
    assert s.list() == [] and len(engine.containers) == 1 and s.uuid != uuid
    assert [m.fields["id"] for m in s.list("SNAPSHOTS")] == [snap]
    s.kill()
    s = start()
    assert s.uuid == uuid and s.get(b).name == "SANDBOX"
    s.kill()
    second = copy_of(data, "-moved")
    s = start(data=second, instance=layout.INSTANCE_ADOPT)
    assert s.uuid == uuid and s.get(b).name == "SANDBOX"
    s.kill()
    assert start(data=second).uuid == uuid


@pytest.mark.parametrize("folder", ["sandboxes", "snapshots"])
def test_folder_that_is_missing_is_refused_and_an_empty_one_is_a_decision(start, engine, data, folder):
    s = start()
    snap = s.snap(s.box())
    s.kill()
    shutil.rmtree(data / folder)
    s = start(ready=False)
    assert s.p.wait(30) == 2 and f"has no {folder}/ any more" in s.p.log()
    s.finish()
    assert not (data / folder).exists() and (data / "instance.json").exists()
    (data / folder).mkdir(0o700)
    os.chown(data / folder, data.stat().st_uid, data.stat().st_gid)
    s = start()
    assert [m.fields["id"] for m in s.list("SNAPSHOTS")] == ([snap] if folder == "sandboxes" else [])


@pytest.mark.parametrize("lost", [".json", ".tar.zst"])
def test_half_of_a_snapshot_is_said_by_name(start, engine, data, lost):
    s = start()
    b = s.box()
    half, whole = s.snap(b), s.snap(b)
    s.kill()
    (data / "snapshots" / f"snap_{half:016x}{lost}").unlink()
    s = start()
    assert [m.fields["id"] for m in s.list("SNAPSHOTS")] == [whole]
    assert f"snap_{half:016x}" in s.p.log()


def test_lost_instance_file_is_not_made_up(start, engine, data):
    s = start()
    s.box()
    s.kill()
    (data / "instance.json").unlink()
    s = start(ready=False)
    assert s.p.wait(30) == 2 and "instance.json" in s.p.log() and len(engine.containers) == 1
    s.finish()


def instance(data, **change):
    """What the data directory says of itself, changed."""
    path = data / "instance.json"
    said = json.loads(path.read_text()) | change
    path.write_text(json.dumps(said))
    return said


def test_data_directory_of_a_newer_version_is_refused_with_one_line_and_left_as_it_is(start, engine, data):
    s = start()
    s.box()
    s.kill()
    instance(data, version=99, what_a_later_version_adds={})
    before = {f: f.read_bytes() for f in data.rglob("*") if f.is_file()}
    for rule in (layout.INSTANCE_CHECK, layout.INSTANCE_ADOPT, layout.INSTANCE_NEW):
        s = start(ready=False, instance=rule)
        assert s.p.wait(30) == 2
        lines = [line for line in s.p.log().splitlines() if ": fatal: " in line]
        assert len(lines) == 1 and "newer version" in lines[0] and "99" in lines[0]
        s.finish()
    assert {f: f.read_bytes() for f in data.rglob("*") if f.is_file()} == before and len(engine.containers) == 1


def test_data_directory_of_the_first_version_is_taken_up_and_says_so(start, data):
    s = start()
    uuid, box = s.uuid, s.box()
    s.kill()
    current = instance(data, version=1)["version"]
    s = start()
    assert s.uuid == uuid and s.get(box).name == "SANDBOX"
    assert current == 1 and json.loads((data / "instance.json").read_text())["version"] > current


def test_two_servers_cannot_share_a_data_directory(start, engine):
    s = start()
    other = start(ready=False)
    assert other.p.wait(30) == 2 and "in use" in other.p.log()
    other.finish()
    assert s.create().name == "SANDBOX"
