"""managerd and the sandboxes of runs: in no list and no record, gone at the end, gone after whatever happens."""
# ruff: noqa: F811 - fixtures are imported, and named again as arguments

import layout
import pytest
from machine import wait_until
from managerd_kit import IMAGE, data, engine, key_line, refused, start  # noqa: F401


def records(data):
    return [f.name for f in (data / "sandboxes").iterdir()]


def test_run_is_in_no_list_and_has_no_record_but_takes_jobs(start, engine, data):
    s = start()
    b = s.box(run=1, memory_mb=64, ttl_s=330)
    assert s.list() == [] and records(data) == []
    refused(s.get(b), 404)
    assert s.file("FILE_WRITE", b, "/workspace/main.py", max=-1, size=5).fields["status"] == 200
    assert s.exec(b).fields["status"] == 200
    assert s.file("FILE_REMOVE", b, "/workspace/main.py", first=77, size=5).fields["status"] == 200
    assert wait_until(lambda: [n for n in s.seen if n in ("S_WRITE", "S_EXEC", "S_REMOVE")] == ["S_WRITE", "S_EXEC", "S_REMOVE"])
    assert s.destroy(b).fields["status"] == 204 and wait_until(engine.empty) and wait_until(lambda: not s.sessions)
    for call in (s.exec, s.destroy, s.get):
        refused(call(b), 404)
    refused(s.get(b, detail=1), 404)


def test_run_begins_with_the_tree_of_a_snapshot_and_all_else_as_asked(start):
    s = start()
    snap = s.snap(s.box(env=["A=1"], labels=[("a", "b")], memory_mb=64, pids_limit=9))
    m = s.create(run=1, snapshot=snap, memory_mb=128)
    f = m.fields
    assert m.name == "SANDBOX" and m.tail == IMAGE.encode() + b"\0" and f["source_snapshot"] == snap
    assert (f["memory_mb"], f["pids_limit"], f["network"]) == (128, 256, 0)
    session = s.session_of(f["id"])[0]
    assert session.restored == s.tar and session.env == b""
    made = s.snapshot(f["id"])
    assert made.fields["parent"] == snap and made.fields["sandbox"] == f["id"]
    assert s.destroy(f["id"]).fields["status"] == 204
    assert s.call("SNAPSHOT_GET", {"id": made.fields["id"]}).name == "SNAPSHOT"


def test_run_of_an_unknown_snapshot_makes_nothing(start, engine):
    s = start()
    assert refused(s.create(run=1, snapshot=0xAB), 404) == "snapshot snap_00000000000000ab not found"
    assert engine.empty() and "D_CREATE" not in s.seen


def test_runs_count_against_the_quota_and_those_that_leave_do_not_but_are_bounded(start, engine):
    s = start(config={"MAX_SANDBOXES": 2})
    runs = [s.box(run=1) for _ in range(2)]
    refused(s.create(run=1), 429)
    refused(s.create(), 429)
    with s.lock:
        s.hold.add("D_DESTROY")
    for b in runs:
        s.send("DESTROY", {"id": b})
    more = [s.box(run=1) for _ in range(2)]
    for b in more:
        s.send("DESTROY", {"id": b})
    assert "still being removed" in refused(s.create(run=1), 429)
    s.release("D_DESTROY")
    assert wait_until(engine.empty) and s.box(run=1)


def test_run_that_fails_to_be_made_leaves_nothing(start, engine, data):
    for hold in ({"fail": {"D_CREATE": (layout.FAIL_ENGINE, "no")}}, {"fail": {"D_ATTACH": (layout.FAIL_ENGINE, "no")}}):
        s = start(**hold)
        refused(s.create(run=1), 502)
        assert wait_until(engine.empty) and records(data) == []
        s.stop()


def test_time_to_live_ends_a_run_that_was_forgotten(start, engine):
    s = start()
    b = s.box(run=1, ttl_s=1)
    assert wait_until(engine.empty) and wait_until(lambda: not s.sessions)
    refused(s.exec(b), 404)


@pytest.mark.parametrize("step", ["D_PREPARE", "D_CREATE", "D_ATTACH", "UP", None, "D_DESTROY"])
def test_kill_at_any_step_leaves_nothing_of_a_run(start, engine, data, step):
    s = start(hold={step} if step else ())
    if step in (None, "D_DESTROY"):
        b = s.box(run=1)
        if step:
            s.send("DESTROY", {"id": b})
            assert wait_until(lambda: "D_DESTROY" in s.seen)
    else:
        s.create_send(run=1)
        assert wait_until(lambda: step == "UP" and "S_GUEST" in s.seen or step in s.seen)
    s.kill()
    assert records(data) == []
    s = start()
    assert wait_until(engine.empty) and s.list() == []


def test_session_that_is_lost_is_not_started_again_for_a_run(start, engine):
    s = start()
    b = s.box(run=1)
    session = s.session_of(b)[0]
    with s.lock:
        s.end_session(session.id, 9)
    assert wait_until(lambda: not s.session_of(b))
    assert s.destroy(b).fields["status"] == 204 and wait_until(engine.empty)


def test_container_that_somebody_removed_ends_the_run(start, engine):
    s = start()
    b = s.box(run=1)
    with s.lock:
        engine.remove(b, 1)
        s.end_session(s.session_of(b)[0].id)
    assert wait_until(lambda: s.destroy(b).fields["status"] == 404)


def test_run_cannot_be_rolled_back_whoever_asks_and_ends_with_its_key(start, engine):
    gone = {"key": "the-key-that-goes"}
    s = start(keys=[key_line(gone["key"]), key_line("another")], hold=["S_EXEC"])
    fields = {"network": layout.NOT_GIVEN, "read_only": layout.NOT_GIVEN}

    def make(**more):
        with s.records() as fd:
            return s.result(s.send("CREATE", fields | more, "", fd, **gone)).fields["id"]

    box = make()
    snap = s.call("SNAPSHOT_MAKE", {"sandbox": box}, **gone).fields["id"]
    run = make(run=1)
    before = s.seen.count("D_CREATE")
    refused(s.call("ROLLBACK", {"sandbox": run, "snapshot": snap}, **gone), 404)
    assert s.call("ROLLBACK", {"sandbox": box, "snapshot": snap}, **gone).name == "SANDBOX"
    assert s.seen.count("D_CREATE") == before + 1
    s.send_keys([key_line("another")])
    assert wait_until(lambda: not s.session_of(run)) and wait_until(lambda: len(engine.containers) == 1), engine.containers


@pytest.mark.parametrize("field", [{"run": 2}])
def test_a_run_that_is_neither_yes_nor_no_is_fatal(start, field):
    s = start()
    s.create_send(**field)
    assert wait_until(lambda: not s.p.alive()) and "neither yes nor no" in s.p.log()


def answered(s, b):
    """The run's client has its answer, and apid asks for the end of the sandbox."""
    return s.send("DESTROY", {"id": b})


def asked(s):
    with s.lock:
        return s.seen.count("D_DESTROY")


def going(s):
    """A run that goes on, so that it is not quiet."""
    return s.box(run=1)


def test_nothing_goes_on_in_a_run_that_was_answered_although_its_container_waits(start, engine):
    s = start()
    going(s)
    b = s.box(run=1)
    session = s.session_of(b)[0]
    answered(s, b)
    assert wait_until(lambda: session.ended == layout.END_DELETED)
    assert s.seen.index("S_KILL_ALL") < s.seen.index("S_END")
    refused(s.exec(b), 404)
    assert wait_until(lambda: len(engine.containers) == 1)


def test_container_of_a_run_is_removed_when_no_run_is_under_way(start, engine):
    s = start()
    last = going(s)
    answered(s, s.box(run=1))
    for _ in range(3):  # each of them makes it wait again
        answered(s, s.box(run=1))
    answered(s, last)
    assert wait_until(engine.empty) and asked(s) == 5


def test_container_of_a_run_does_not_wait_for_a_run_that_goes_on_and_on(start, engine):
    s = start()
    kept = going(s)
    answered(s, s.box(run=1))
    assert wait_until(lambda: [c[0] for c in engine.containers.values()] == [kept])


def test_containers_that_wait_take_no_place_from_new_sandboxes(start, engine):
    """dockerd-proxy counts them until it is asked to remove them."""
    s = start(config={"MAX_SANDBOXES": 3})
    going(s)
    for _ in range(12):
        answered(s, s.box(run=1))
        s.list()
        with s.lock:
            assert len(engine.containers) <= 3
    assert engine.most <= 3 and s.box() and s.box()


def test_no_more_than_sixteen_containers_of_runs_wait(start, engine):
    s = start(config={"MAX_SANDBOXES": 100})
    kept = going(s)
    for _ in range(40):
        answered(s, s.box(run=1))
    assert wait_until(lambda: [c[0] for c in engine.containers.values()] == [kept])
    assert engine.most <= 18


def test_end_of_the_server_waits_for_no_quiet(start, engine):
    s = start(config={"MAX_SANDBOXES": 100})
    for _ in range(9):
        answered(s, s.box(run=1))
    going(s)
    s.apid.close()
    assert s.p.wait(30) == 0 and engine.empty()


def test_drain_removes_what_waits_while_a_run_goes_on(start, engine):
    s = start()
    kept = going(s)
    answered(s, s.box(run=1))
    s.p.parent.send("P_DRAIN")
    assert wait_until(lambda: [c[0] for c in engine.containers.values()] == [kept])
    answered(s, s.box(run=1))
    assert wait_until(lambda: [c[0] for c in engine.containers.values()] == [kept])


@pytest.mark.parametrize("size", ["0", "2"])
def test_kill_while_containers_wait_leaves_nothing_of_them(start, engine, size):
    s = start(config={"POOL": size})
    going(s)
    for _ in range(3):
        answered(s, s.box(run=1))
    s.list()
    s.kill()
    start()
    assert wait_until(engine.empty)


def test_engine_that_goes_away_while_containers_wait_removes_them_when_it_is_back(start, engine):
    s = start()
    for _ in range(3):
        answered(s, s.box(run=1))
    s.up = False
    s.docker.send("D_ENGINE", 0, {"up": 0}, "the Docker engine is unreachable")
    s.list()
    s.up = True
    s.docker.send("D_ENGINE", 0, {"up": 1, "version": "20.10.24", "api": "1.41", "id": ""})
    assert wait_until(engine.empty)


def test_session_that_is_lost_makes_nobody_wait_for_the_removal(start, engine):
    """Nothing inside can be ended then but by the engine."""
    s = start()
    going(s)
    b = s.box(run=1)
    session = s.session_of(b)[0]
    with s.lock:
        s.end_session(session.id, 9)
    assert wait_until(lambda: not s.session_of(b))
    assert s.destroy(b).fields["status"] == 204 and len(engine.containers) == 1
