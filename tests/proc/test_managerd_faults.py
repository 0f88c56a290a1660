"""What goes wrong around managerd costs what it must, and nothing else."""
# ruff: noqa: F811 - fixtures are imported, and named again as arguments

import json
import os
import subprocess
import threading
import time

import layout
import pytest
from machine import SLACK, descriptors, kib, wait_until
from managerd_kit import data, engine, refused, start  # noqa: F401


@pytest.fixture
def small(tmp_path_factory):
    """A data directory on a file system of 4 MiB, of which the audit log reserves some."""
    if os.geteuid() != 0:
        pytest.skip("mount needs root")
    d = tmp_path_factory.mktemp("small")
    for p in d.parents:
        if str(p).startswith("/tmp/"):
            os.chmod(p, 0o755)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,nr_inodes=200", "none", d], check=True)
    yield d
    subprocess.run(["umount", d], check=True)


def fill(folder):
    """Fills it to the last byte; returns what makes room again."""
    path = folder / "ballast"
    with open(path, "wb", buffering=0) as f:
        try:
            while f.write(b"x" * 4096):
                pass
        except OSError:
            pass
    return path.unlink


def test_full_data_directory_is_507_and_changes_nothing(start, engine, small):
    s = start(data=small)
    b = s.box()
    snap = s.snap(b)
    before = s.get(b).fields
    room = fill(small)
    refused(s.create(), 507)
    refused(s.call("SET_TIMEOUT", {"sandbox": b, "ttl_s": 9}), 507)
    refused(s.rollback(b, snap), 507)
    assert s.get(b).fields == before and s.exec(b).fields["status"] == 200
    assert wait_until(lambda: len(engine.containers) == 1)
    assert sorted(p.name for p in (small / "sandboxes").iterdir()) == [f"sb_{b:016x}.json"]
    room()
    assert s.rollback(b, snap).name == "SANDBOX"
    room = fill(small)
    assert s.destroy(b).fields["status"] == 204, "a full disk must not stop what makes room"
    room()
    s.kill()
    assert start(data=small).list() == [] and wait_until(engine.empty)


def test_disk_full_between_create_and_ready_leaves_nothing(start, engine, small):
    s = start(data=small)
    s.hold.add("D_CREATE")
    id = s.create_send()
    assert wait_until(lambda: s.held)
    record = next((small / "sandboxes").iterdir())
    room = fill(small)
    s.release("D_CREATE")
    refused(s.result(id), 507)
    room()
    assert wait_until(lambda: engine.empty() and not record.exists())
    assert s.create().name == "SANDBOX"


def test_disk_full_at_the_swap_of_a_rollback_keeps_the_old(start, engine, small):
    s = start(data=small)
    b = s.box()
    snap = s.snap(b)
    old = s.session_of(b)
    s.hold.add("S_RESTORE")
    id = s.send("ROLLBACK", {"sandbox": b, "snapshot": snap})
    assert wait_until(lambda: s.held)
    room = fill(small)
    s.release("S_RESTORE")
    refused(s.result(id), 507)
    assert wait_until(lambda: s.session_of(b) == old and engine.volumes == {(b, 1)})
    room()
    s.kill()
    s = start(data=small)
    assert s.get(b).fields["source_snapshot"] == 0 and engine.volumes == {(b, 1)}


def test_low_disk_ends_commands_and_refuses_writes_only(start):
    s = start()
    b = s.box()
    x = s.session_of(b)[0]
    x.chan.send("S_DISK", 0, {"free_bytes": 50 << 20})
    assert wait_until(lambda: "S_KILL_ALL" in s.seen)
    refused(s.file("FILE_WRITE", b), 507)
    refused(s.file("ARCHIVE_PUT", b), 507)
    assert s.file("FILE_READ", b).fields["status"] == s.exec(b).fields["status"] == 200
    x.chan.send("S_DISK", 0, {"free_bytes": 50 << 20})
    x.chan.send("S_DISK", 0, {"free_bytes": 40 << 20})
    assert wait_until(lambda: s.seen.count("S_KILL_ALL") == 2)
    x.chan.send("S_DISK", 0, {"free_bytes": 500 << 20})
    assert wait_until(lambda: s.file("FILE_WRITE", b).fields["status"] == 200)
    assert s.p.log().count("less than") == 1


@pytest.mark.parametrize("how", ["unknown job", "up twice", "unknown type", "too short", "unknown snapshot"])
def test_sessiond_that_breaks_the_rules_costs_its_own_session_only(start, how):
    s = start()
    a, b = s.box(), s.box()
    x = s.session_of(a)[0]
    if how == "unknown job":
        x.chan.send("S_JOB_END", 99, {"status": 200})
    elif how == "up twice":
        x.chan.send("S_UP", 0, {})
    elif how == "unknown snapshot":
        x.chan.send("S_SNAPPED", 99, {"size_bytes": 1})
    elif how == "unknown type":
        x.chan.send_raw(0x7777, 0, b"")
    else:
        x.chan.send_raw(layout.MSG["S_UP"], 0, b"1234")
    assert wait_until(lambda: x.id in s.killed)
    assert wait_until(lambda: s.session_of(a) and s.session_of(a)[0] is not x)
    assert s.exec(a).fields["status"] == s.exec(b).fields["status"] == 200


def test_session_that_always_dies_is_not_started_without_end(start):
    s = start()
    b = s.box()
    for _ in range(3):
        assert wait_until(lambda: s.session_of(b))
        s.end_session(s.session_of(b)[0].id, 11)
    before = s.seen.count("P_SESSION_START")
    time.sleep(0.3)
    assert s.seen.count("P_SESSION_START") - before <= 1
    assert s.exec(b).fields["status"] == 200, "who uses it does not wait for the back-off"


def test_new_session_comes_only_after_the_old_one_was_reaped(start, engine):
    s = start()
    b = s.box()
    cid = next(iter(engine.containers))
    s.hold.add("OVER")
    engine.containers[cid][2] = layout.STATE_PAUSED
    s.event(layout.EVENT_PAUSE, cid)
    assert wait_until(lambda: s.get(b).fields["status"] == layout.SANDBOX_STOPPED)
    old = next(iter(s.sessions.values()))
    before = s.seen.count("D_ATTACH")
    id, _ = s.exec_send(b)
    time.sleep(0.2)
    assert s.seen.count("D_ATTACH") == before
    s.hold.discard("OVER")
    s.end_session(old.id)
    assert s.result(id).fields["status"] == 200 and engine.containers[cid][2] == layout.STATE_RUNNING


def test_sessiond_that_does_not_end_is_killed(start):
    s = start()
    b = s.box()
    x = s.session_of(b)[0]
    s.hold.add("OVER")
    assert s.destroy(b).fields["status"] == 204
    assert wait_until(lambda: x.id in s.killed)


def test_jobs_that_wait_for_a_start_are_bounded(start, engine):
    s = start()
    b = s.box()
    cid = next(iter(engine.containers))
    engine.containers[cid][2] = layout.STATE_EXITED
    s.event(layout.EVENT_DIE, cid)
    assert wait_until(lambda: s.get(b).fields["status"] == layout.SANDBOX_STOPPED)
    s.hold.add("D_ATTACH")
    ids = [s.exec_send(b) for _ in range(70)]
    got = [s.result(i) for i, _ in ids[64:]]
    assert [m.fields["status"] for m in got] == [503] * 6 and got[0].fields["retry_after"] > 0
    s.release("D_ATTACH")
    assert [s.result(i).fields["status"] for i, _ in ids[:64]] == [200] * 64


def test_waiting_jobs_end_when_the_sandbox_does(start, engine):
    s = start()
    b = s.box()
    cid = next(iter(engine.containers))
    engine.containers[cid][2] = layout.STATE_EXITED
    s.event(layout.EVENT_DIE, cid)
    assert wait_until(lambda: s.get(b).fields["status"] == layout.SANDBOX_STOPPED)
    s.hold.add("D_ATTACH")
    id, _ = s.exec_send(b)
    assert wait_until(lambda: s.held)
    assert s.destroy(b).fields["status"] == 204
    assert "was deleted" in refused(s.result(id), 409)


def test_deletes_at_once_are_one_204(start, engine):
    s = start()
    b = s.box()
    ids = [s.send("DESTROY", {"id": b}) for _ in range(4)]
    got = sorted(s.result(i).fields["status"] for i in ids)
    assert got.count(204) == 1 and set(got) <= {204, 404, 409}
    assert engine.empty()


def test_calls_during_a_rollback_are_409_and_so_is_a_second_one(start):
    s = start()
    b = s.box()
    snap = s.snap(b)
    s.hold.add("D_CREATE")
    id = s.send("ROLLBACK", {"sandbox": b, "snapshot": snap})
    assert wait_until(lambda: s.held)
    want = f"sandbox sb_{b:016x} is rolling back"
    assert refused(s.rollback(b, snap), 409) == want
    assert refused(s.exec(b), 409) == want
    assert refused(s.destroy(b), 409) == want
    assert refused(s.snapshot(b), 409) == want
    assert refused(s.call("SET_TIMEOUT", {"sandbox": b, "ttl_s": 9}), 409) == want
    assert s.get(b).fields["status"] == layout.SANDBOX_RUNNING
    s.release("D_CREATE")
    assert s.result(id).name == "SANDBOX"


def test_rollback_does_not_count_against_the_quota(start):
    s = start(config={"MAX_SANDBOXES": 1})
    b = s.box()
    assert s.rollback(b, s.snap(b)).name == "SANDBOX"


def test_parallel_snapshots_are_made_one_after_the_other(start):
    s = start()
    b = s.box()
    s.hold.add("S_SNAPSHOT")
    ids = [s.send("SNAPSHOT_MAKE", {"sandbox": b}) for _ in range(5)]
    assert wait_until(lambda: s.held)
    time.sleep(0.1)
    assert len(s.held) == 1
    s.release("S_SNAPSHOT")
    got = [s.result(i) for i in ids]
    assert {m.name for m in got} == {"SNAPSHOT"} and len({m.fields["id"] for m in got}) == 5


@pytest.mark.parametrize("status", [413, 507, 409, 400, 502])
def test_snapshot_that_fails_is_not_kept(start, data, status):
    s = start()
    b = s.box()
    s.job_status = status
    assert refused(s.snapshot(b), status) == "why it failed"
    assert list((data / "snapshots").iterdir()) == [] and s.list("SNAPSHOTS") == []
    s.job_status = 200
    assert s.snap(b)


def test_snapshot_ends_with_its_sandbox(start, data):
    s = start()
    b = s.box()
    s.hold.add("S_SNAPSHOT")
    id = s.send("SNAPSHOT_MAKE", {"sandbox": b})
    assert wait_until(lambda: s.held)
    assert s.destroy(b).fields["status"] == 204
    refused(s.result(id), 409)
    assert list((data / "snapshots").iterdir()) == []


def test_snapshot_deleted_during_a_fork_does_not_disturb_it(start):
    s = start()
    b = s.box()
    snap = s.snap(b)
    s.hold.add("D_CREATE")
    id = s.send("FORK", {"snapshot": snap, "network": 2, "read_only": 2})
    assert wait_until(lambda: s.held)
    assert s.call("SNAPSHOT_DELETE", {"id": snap}).fields["status"] == 204
    s.release("D_CREATE")
    m = s.result(id)
    assert m.name == "SANDBOX" and s.session_of(m.fields["id"])[0].restored == s.tar


def test_file_bounds_of_the_operator_are_set_again(start):
    s = start(config={"MAX_FILE_BYTES": 1000})
    b = s.box()
    s.hold.add("S_WRITE")
    assert s.file("FILE_WRITE", b, max=10**15, mode=0o7777).fields["status"] == 200
    assert wait_until(lambda: s.held)
    assert s.held[0].fields["max"] == 1000 and s.held[0].fields["mode"] == 0o777


NONSENSE = {
    "image with a NUL": lambda s: s.create_send(image="a\0b"),
    "path that is none": lambda s: s.file("FILE_READ", s.box(), "no/slash"),
    "page of nothing": lambda s: s.send("LIST", {"max": 0}),
    "page too large": lambda s: s.send("LIST", {"max": layout.PAGE_MAX + 1}),
    "label without a value": lambda s: s.send("LIST", {"max": 1}, "name"),
    "environment without a name": lambda s: s.create_send(env=["=x"]),
    "label twice too long": lambda s: s.create_send(labels=[("n", "v" * 256)]),
    "too many labels": lambda s: s.create_send(labels=[(f"n{i}", "") for i in range(65)]),
    "message of another": lambda s: s.apid.send_raw(layout.MSG["REPLY"], 1, b"\0" * 8),
}


@pytest.mark.parametrize("what", NONSENSE)
def test_apid_that_breaks_the_rules_is_fatal(start, what):
    s = start()
    try:
        NONSENSE[what](s)
    except (OSError, layout.Gone):
        pass
    assert s.p.wait(30) == 1 and "fatal" in s.p.log()
    s.finish()


def test_data_socket_that_is_none_is_fatal(start):
    s = start()
    b = s.box()
    r, w = os.pipe()
    s.send("EXEC", {"sandbox": b, "job": {"timeout_us": 1}}, fd=r)
    assert s.p.wait(30) == 1
    os.close(r), os.close(w)
    s.finish()


def test_health_says_partial(start):
    s = start()
    was = s.call("ASK_HEALTH").fields["partial"]
    s.p.parent.send("P_PARTIAL")
    assert wait_until(lambda: s.call("ASK_HEALTH").fields["partial"] == 1) and was in (0, 1)


def test_no_auth_takes_any_key(start):
    s = start(config={"API_KEYS": "", "INSECURE_NO_AUTH": "true"})
    assert s.call("AUTH", {}, key=None).fields["status"] == 200


@pytest.mark.parametrize("keys", ["", " , ", "short", "long-enough-key-0001,short"])
def test_start_without_a_good_key_is_refused(start, keys):
    s = start(config={"API_KEYS": keys}, ready=False)
    assert s.p.wait(30) == 2 and "API_KEYS" in s.p.log() and "short" not in s.p.log().replace("at least", "")
    s.finish()


def test_engine_error_texts_reach_the_client_with_their_status(start):
    s = start()
    for why, status in [
        (layout.FAIL_ENGINE, 502),
        (layout.FAIL_NO_IMAGE, 400),
        (layout.FAIL_BAD_IMAGE, 400),
        (layout.FAIL_FORBIDDEN, 403),
        (layout.FAIL_LIMIT, 429),
    ]:
        s.fail["D_PREPARE"] = (why, "the reason")
        assert refused(s.create(), status) == "the reason"


def test_foreign_workspace_of_an_image_is_400_and_leaves_nothing(start, engine):
    s = start()
    s.hold.add("UP")
    s.foreign = True
    id = s.create_send()
    assert wait_until(lambda: s.sessions and next(iter(s.sessions.values())).guest is not None)
    next(iter(engine.containers.values()))[2] = layout.STATE_EXITED
    x = next(iter(s.sessions.values()))
    x.chan.send("S_DOWN", 0, {}, "the sandbox does not answer")
    assert "python:3.12-slim has a /workspace" in refused(s.result(id), 400)
    assert engine.empty()


def test_flood_of_health_asks_few_pings_of_the_engine(start):
    s = start()
    counted, begin = [], time.monotonic()
    real = s.on_docker
    s.on_docker = lambda m: (counted.append(m.name), real(m))
    for _ in range(500):
        assert s.call("ASK_HEALTH").fields["engine_up"] == 1
    most = 40 + 5 * (time.monotonic() - begin)  # four a second, and its own
    assert counted.count("D_PING") < most < 400


def test_memory_and_descriptors_stay_flat_over_many_cycles(start, engine):
    s = start()

    def cycle(n):
        for _ in range(n):
            b = s.box(env=["A=" + "x" * 1000])
            s.exec(b)
            snap = s.snap(b)
            s.rollback(b, snap)
            s.call("SNAPSHOT_DELETE", {"id": snap})
            assert s.destroy(b).fields["status"] == 204

    def look():
        return kib(s.p.pid, "VmRSS"), len(descriptors(s.p.pid))

    cycle(30)
    assert wait_until(lambda: not s.sessions)
    rss, fds = look()
    cycle(100)
    assert wait_until(lambda: not s.sessions)
    assert wait_until(lambda: look()[1] <= fds + 2)
    after, fds2 = look()
    assert after - rss < (400 if "san" not in str(layout.BUILD) else 1 << 20), (rss, after, fds, fds2)


def test_many_readers_do_not_wait_for_one_another(start):
    s = start()
    b = s.box()
    n, got = 3000, []

    def read():
        while len(got) < n:
            got.append(s.apid.recv().fields["id"])

    t = threading.Thread(target=read)
    begin = time.monotonic()
    t.start()
    for _ in range(n):
        s.send("GET", {"id": b})
    t.join(30)
    assert got == [b] * n and time.monotonic() - begin < 5 + SLACK


@pytest.mark.parametrize("live_restore", [False, True])
def test_engine_that_restarts_gives_its_sandboxes_back(start, engine, live_restore):
    s = start()
    b = s.box()
    first = s.session_of(b)[0]
    s.up = False
    s.docker.send("D_ENGINE", 0, {"up": 0}, "the container engine cannot be reached")
    first.chan.send("S_DOWN", 0, {}, "the stream ended")
    assert wait_until(lambda: not s.sessions)
    assert refused(s.exec(b), 502) == "the container engine cannot be reached"
    assert s.get(b).name == "SANDBOX"
    if not live_restore:
        next(iter(engine.containers.values()))[2] = layout.STATE_EXITED
    s.up = True
    s.docker.send("D_ENGINE", 0, {"up": 1})
    if live_restore:
        assert wait_until(lambda: s.session_of(b)), "attached again without being used"
    else:
        assert wait_until(lambda: s.get(b).fields["status"] == layout.SANDBOX_STOPPED)
    assert s.exec(b).fields["status"] == 200 and s.get(b).fields["status"] == layout.SANDBOX_RUNNING
    assert len(engine.containers) == 1


def test_session_lost_during_a_rollback_does_not_end_the_rollback(start, engine):
    s = start()
    b = s.box()
    snap = s.snap(b)
    s.hold.add("D_CREATE")
    id = s.send("ROLLBACK", {"sandbox": b, "snapshot": snap})
    assert wait_until(lambda: s.held)
    s.end_session(s.session_of(b)[0].id, 11)
    time.sleep(0.1)
    s.release("D_CREATE")
    assert s.result(id).name == "SANDBOX" and s.exec(b).fields["status"] == 200


def test_container_removed_during_a_rollback_that_fails_ends_the_sandbox(start, engine):
    s = start()
    b = s.box()
    snap = s.snap(b)
    s.hold.add("S_RESTORE")
    s.restore_status = 400
    id = s.send("ROLLBACK", {"sandbox": b, "snapshot": snap})
    assert wait_until(lambda: s.held)
    cid = next(k for k, v in engine.containers.items() if v[1] == 1)
    del engine.containers[cid]
    s.end_session(next(x.id for x in s.sessions.values() if x.restored is None and not x.jobs), 0)
    s.release("S_RESTORE")
    refused(s.result(id), 400)
    assert wait_until(lambda: s.get(b).name == "REPLY") and wait_until(engine.empty)


def test_expiry_during_a_rollback_waits_for_its_end(start, engine):
    s = start()
    b = s.box(ttl_s=1)
    snap = s.snap(b)
    s.hold.add("D_CREATE")
    id = s.send("ROLLBACK", {"sandbox": b, "snapshot": snap})
    assert wait_until(lambda: s.held)
    time.sleep(1.2)
    s.release("D_CREATE")
    assert s.result(id).name == "SANDBOX"
    assert wait_until(lambda: s.get(b).name == "REPLY") and wait_until(engine.empty)


def test_snapshots_are_bounded_also_when_they_are_made_at_once(start, data):
    s = start(config={"MAX_SNAPSHOTS": 3})
    boxes = [s.box() for _ in range(3)]
    first = s.snap(boxes[0])
    s.hold.add("S_SNAPSHOT")
    ids = [s.send("SNAPSHOT_MAKE", {"sandbox": b}) for b in boxes]
    m = s.result(ids[2])
    assert m.fields["retry_after"] > 0 and "limit of 3 snapshots" in refused(m, 429)
    s.release("S_SNAPSHOT")
    assert [s.result(i).name for i in ids[:2]] == ["SNAPSHOT"] * 2
    assert "limit of 3 snapshots" in refused(s.snapshot(boxes[1]), 429)
    assert s.call("SNAPSHOT_DELETE", {"id": first}).fields["status"] == 204
    s.job_status = 507
    refused(s.snapshot(boxes[1]), 507)  # one that fails gives its place back
    s.job_status = 200
    assert s.snapshot(boxes[2]).name == "SNAPSHOT"
    s.kill()
    s = start(config={"MAX_SNAPSHOTS": 2})  # what there is stays
    assert len(s.list("SNAPSHOTS")) == 3
    assert s.fork(s.list("SNAPSHOTS")[0].fields["id"]).name == "SANDBOX"
    refused(s.snapshot(boxes[0]), 429)


def test_snapshots_keep_environment_and_labels_on_the_disk(start, data):
    """A client may make many of them, and all are there for as long as the server runs."""
    s = start()
    env, labels = [f"E{i}=" + "x" * 990 for i in range(60)], [("team", "red")]
    b = s.box(env=env, labels=labels)

    before = kib(s.p.pid, "VmRSS")
    snaps = [s.snap(b) for _ in range(300)]
    assert "san-" in str(layout.BUILD) or 0 < kib(s.p.pid, "VmRSS") < before + 8000
    for _ in range(2):
        m = s.fork(snaps[7])
        assert m.name == "SANDBOX" and b"\0team\0red\0" in m.tail
        session = s.session_of(m.fields["id"])[0]
        assert session.env.decode().split("\0")[:-1] == env
        s.kill()
        s = start()
    record = next(data.glob(f"snapshots/snap_{snaps[9]:016x}.json"))
    record.write_text("{")
    assert "cannot be read" in refused(s.fork(snaps[9]), 502)


def test_sessiond_that_talks_of_its_disk_and_does_not_read_ends_nobody(start):
    s = start()
    a, b = s.box(), s.box()
    x = s.session_of(a)[0]
    with s.lock:  # what it is told is not read
        for i in range(140000):
            x.chan.send("S_DISK", 0, {"free_bytes": (50 if i % 2 else 500) << 20})
        assert s.get(b).fields["status"] == layout.SANDBOX_RUNNING
    assert s.exec(b).fields["status"] == 200
    assert s.p.log().count("less than") == 1


def test_clock_that_is_years_behind_after_a_boot_makes_no_sandbox_live_for_years(start, engine, data):
    s = start()
    b = s.box()
    s.kill()
    file = next(data.glob("sandboxes/*.json"))
    record = json.loads(file.read_text()) | {"boot": "another one"}
    record["expires_us"] += 50 * 365 * 86400 * 10**6
    file.write_text(json.dumps(record))
    s = start(config={"MAX_TIMEOUT_SECONDS": 1, "DEFAULT_TIMEOUT_SECONDS": 1})
    assert wait_until(lambda: s.get(b).fields.get("status") == 404 and engine.empty())


def test_jobs_that_wait_for_many_starts_are_bounded_too(start, engine):
    """Each holds a descriptor, of which there are only so many."""
    s = start(config={"MAX_SANDBOXES": 80})
    boxes = [s.box() for _ in range(70)]
    s.hold.add("D_ATTACH")
    for c in list(engine.containers):
        engine.containers[c][2] = layout.STATE_EXITED
        s.event(layout.EVENT_DIE, c)
    assert wait_until(lambda: all(s.get(b).fields["status"] == layout.SANDBOX_STOPPED for b in boxes))
    for n, b in enumerate(boxes):
        for _ in range(64 if n < 64 else 1):
            id, data = s.exec_send(b)
            data.close()
    assert "too many requests wait" in refused(s.result(id), 503)
    assert s.get(boxes[0]).fields["status"] == layout.SANDBOX_STOPPED
