"""managerd's requests, one by one, each with the answer that the API promises."""
# ruff: noqa: F811 - fixtures are imported, and named again as arguments

import json
import os
import signal
import time

import layout
import pytest
from machine import wait_until
from managerd_kit import data, engine, refused, start  # noqa: F401


def test_create_answers_with_the_whole_sandbox(start, engine):
    s = start()
    m = s.create(env=["A=1", "B=x=y"], labels=[("team", "red")], nano_cpus=500_000_000, memory_mb=128, ttl_s=77)
    f = m.fields
    assert m.name == "SANDBOX" and m.tail == b"python:3.12-slim\0team\0red\0"
    assert (f["nano_cpus"], f["memory_mb"], f["pids_limit"], f["network"], f["read_only"]) == (500_000_000, 128, 256, 0, 1)
    assert f["expires_us"] - f["created_us"] == 77_000_000 and f["status"] == layout.SANDBOX_RUNNING
    assert s.session_of(f["id"])[0].env == b"A=1\0B=x=y\0"
    got = s.get(f["id"])
    assert got.fields == f and got.tail == m.tail
    assert [i.fields["id"] for i in s.list()] == [f["id"]]


def test_wrong_key_is_refused_before_anything_else(start):
    s = start()
    for name in ("AUTH", "GET", "DESTROY", "LIST", "SNAPSHOT_GET"):
        for key in (None, "another-key-of-nobody"):
            assert refused(s.call(name, {}, key=key), 401) == "missing or invalid API key"
    assert s.call("AUTH", {}).fields["status"] == 200
    with s.records() as fd:
        refused(s.call("CREATE", {}, fd=fd, key=None), 401)


def test_unknown_ids_have_the_text_that_clients_compare(start):
    s = start()
    assert refused(s.get(0xAB), 404) == "sandbox sb_00000000000000ab not found"
    assert refused(s.exec(0xAB), 404) == "sandbox sb_00000000000000ab not found"
    assert refused(s.destroy(0xAB), 404) == "sandbox sb_00000000000000ab not found"
    assert refused(s.call("SNAPSHOT_GET", {"id": 0xAB}), 404) == "snapshot snap_00000000000000ab not found"
    assert refused(s.fork(0xAB), 404) == "snapshot snap_00000000000000ab not found"


def test_exec_is_handed_on_and_accepted(start):
    s = start()
    b = s.box()
    assert s.exec(b).fields["status"] == 200
    assert wait_until(lambda: "S_EXEC" in s.seen)


def test_delete_removes_all_and_says_why_for_an_hour(start, engine, data):
    s = start()
    b = s.box()
    assert s.destroy(b).fields["status"] == 204
    assert engine.empty() and list((data / "sandboxes").iterdir()) == []
    refused(s.get(b), 404)
    assert "deleted" in refused(s.get(b, detail=1), 410)
    assert wait_until(lambda: not s.sessions)


def test_time_to_live_ends_a_sandbox(start, engine):
    s = start()
    b = s.box(ttl_s=1)
    assert wait_until(lambda: s.get(b).name == "REPLY")
    assert wait_until(engine.empty) and "ttl" in refused(s.exec(b, detail=1), 410)


def test_many_that_expire_at_once_hold_up_no_request(start, engine, data):
    """Each is written to the disk. The audit log tells in which order things were done."""
    s = start(config={"MAX_SANDBOXES": 100, "REAP_INTERVAL_SECONDS": "10"})
    keep = s.box(ttl_s=600)
    boxes = [s.box(ttl_s=600) for _ in range(64)]
    for id in [s.send("SET_TIMEOUT", {"sandbox": b, "ttl_s": 2}) for b in boxes]:
        s.result(id)
    os.kill(s.p.pid, signal.SIGSTOP)
    time.sleep(2.5)  # until the time of all of them is over
    os.kill(s.p.pid, signal.SIGCONT)
    asked = []

    def all_but_one_gone():
        asked.extend(s.send("SET_TIMEOUT", {"sandbox": keep, "ttl_s": 600}) for _ in range(20))
        while len(asked) > 40:
            s.result(asked.pop(0))
        return len(engine.containers) == 1

    assert wait_until(all_but_one_gone, 60, 0)
    for id in asked:
        s.result(id)
    done = [json.loads(x)["action"] for x in (data / "audit.log").read_text().splitlines()]
    first, last = done.index("expire"), len(done) - done[::-1].index("expire")
    assert done.count("expire") == 64
    assert "timeout" in done[first:last], "others had to wait until all of them were ended"


def test_snapshot_fork_and_rollback(start, engine):
    s = start()
    b = s.box(env=["K=v"], labels=[("a", "b")], memory_mb=64)
    m = s.snapshot(b, "name é")
    assert m.name == "SNAPSHOT" and m.tail == b"python:3.12-slim\0" + "name é".encode() and m.fields["parent"] == 0
    snap = m.fields["id"]
    f = s.fork(snap, nano_cpus=250_000_000)
    assert f.name == "SANDBOX" and f.fields["source_snapshot"] == snap
    assert f.fields["memory_mb"] == 64 and f.fields["nano_cpus"] == 250_000_000 and f.tail.endswith(b"\0a\0b\0")
    assert s.session_of(f.fields["id"])[0].restored == s.tar and s.session_of(f.fields["id"])[0].env == b"K=v\0"
    old = s.session_of(b)[0]
    r = s.rollback(b, snap)
    assert r.name == "SANDBOX" and r.fields["source_snapshot"] == snap and r.fields["id"] == b
    assert wait_until(lambda: old.ended == layout.END_ROLLED_BACK) and s.session_of(b)[0].restored == s.tar
    assert wait_until(lambda: sorted(g for i, g, _ in engine.containers.values() if i == b) == [2])
    assert s.exec(b).fields["status"] == 200
    assert s.call("SNAPSHOT_DELETE", {"id": snap}).fields["status"] == 204
    refused(s.rollback(b, snap), 404)


def test_failed_rollback_leaves_everything_as_it_was(start, engine):
    s = start()
    b = s.box()
    snap = s.snap(b)
    before, old = s.get(b), s.session_of(b)[0]
    s.restore_status = 400
    refused(s.rollback(b, snap), 400)
    assert s.get(b) == before._replace(id=s.next) and s.session_of(b) == [old] and old.ended is None
    assert wait_until(lambda: len(engine.containers) == 1 and len(engine.volumes) == 1)
    s.restore_status = 200
    for step in ("D_PREPARE", "D_CREATE", "D_ATTACH"):
        s.fail[step] = (layout.FAIL_ENGINE, "the engine failed")
        assert refused(s.rollback(b, snap), 502) == "the engine failed"
        assert s.session_of(b) == [old] and wait_until(lambda: len(engine.containers) == 1)
        del s.fail[step]
    assert s.rollback(b, snap).name == "SANDBOX"


def test_quota_holds_when_fifty_creates_race(start, engine):
    s = start(config={"MAX_SANDBOXES": 5})
    ids = [s.create_send() for _ in range(50)]
    got = [s.result(i) for i in ids]
    assert sorted(m.name for m in got) == ["REPLY"] * 45 + ["SANDBOX"] * 5
    assert all(m.fields["status"] == 429 and m.fields["retry_after"] > 0 for m in got if m.name == "REPLY")
    assert engine.most == 5


def test_failed_creates_give_their_slots_back_and_leave_nothing(start, engine, data):
    s = start(config={"MAX_SANDBOXES": 1})
    for _ in range(3):
        assert "no/such" in refused(s.create(image="no/such:image"), 400)
    for step in ("D_CREATE", "D_ATTACH"):
        s.fail[step] = (layout.FAIL_ENGINE, "the engine failed")
        refused(s.create(), 502)
        del s.fail[step]
        assert engine.empty() and list((data / "sandboxes").iterdir()) == []
    assert s.create().name == "SANDBOX"


@pytest.mark.parametrize(
    "fields, status, word",
    [
        ({"nano_cpus": 4_500_000_000}, 400, "cpus"),
        ({"memory_mb": 4097}, 400, "memory_mb"),
        ({"memory_mb": 15}, 400, "memory_mb"),
        ({"pids_limit": 4097}, 400, "pids_limit"),
        ({"ttl_s": 86401}, 400, "timeout_seconds"),
        ({"network": 1}, 403, "network"),
        ({"image": "evil/python:3"}, 403, "evil/python:3"),
    ],
)
def test_policy_refuses_what_is_out_of_bounds(start, engine, fields, status, word):
    s = start(config={"ALLOWED_IMAGES": "python:*, node:*", "ALLOW_NETWORK": "false"})
    assert word in refused(s.create(**fields), status)
    assert "D_PREPARE" not in s.seen


@pytest.mark.parametrize("asked, got", [(1, 10_000_000), (9_999_999, 10_000_000), (10_000_000, 10_000_000), (10_000_001, 10_000_001)])
def test_processors_that_are_told_and_counted_are_those_that_the_engine_gives(start, asked, got):
    assert start().create(nano_cpus=asked).fields["nano_cpus"] == got


def test_idempotent_creates_are_one_sandbox_also_at_once_and_after_a_restart(start, engine):
    s = start()
    same = {"has_idem": 1, "idem_key": b"k" * 32, "idem_body": b"b" * 32}
    got = [s.result(i) for i in [s.create_send(**same) for _ in range(8)]]
    assert {m.name for m in got} == {"SANDBOX"} and len({m.fields["id"] for m in got}) == 1
    refused(s.create(**(same | {"idem_body": b"c" * 32})), 409)
    s.kill()
    s = start()
    assert s.create(**same).fields["id"] == got[0].fields["id"] and len(engine.containers) == 1


def test_audit_log_is_a_chain_without_keys(start, data):
    import hashlib

    s = start()
    b = s.box()
    s.exec(b)
    assert wait_until(lambda: b'"exec"' in (data / "audit.log").read_bytes())
    s.get(b)
    s.call("AUTH", {}, key="wrong-key-00000000000")
    s.destroy(b)
    lines = (data / "audit.log").read_bytes().splitlines()
    prev = "0" * 64
    for seq, line in enumerate(lines, 1):
        assert json.loads(line)["prev"] == prev and json.loads(line)["seq"] == seq
        prev = hashlib.sha256(line).hexdigest()
    lines = [x for x in lines if b'"status"' in x]
    got = [(e["action"], e["status"]) for e in map(json.loads, lines)]
    assert got == [("create", 200), ("exec", 200), ("auth", 401), ("destroy", 204)]
    e = json.loads(lines[1])
    assert e["args_sha256"] == "07" * 32 and e["args_len"] == 10 and e["exit_code"] == 3 and e["key"] == "key1"
    assert e["request_id"] == "req-1" and e["peer"] == "192.0.2.1:1234" and e["target"] == f"sb_{b:016x}"


def test_stopped_sandbox_is_started_on_use_and_its_jobs_wait(start, engine):
    s = start()
    b = s.box()
    cid = next(iter(engine.containers))
    engine.containers[cid][2] = layout.STATE_EXITED
    s.event(layout.EVENT_DIE, cid)
    assert wait_until(lambda: s.get(b).fields["status"] == layout.SANDBOX_STOPPED)
    ids = [s.exec_send(b) for _ in range(3)]
    assert [s.result(i).fields["status"] for i, _ in ids] == [200] * 3
    assert s.get(b).fields["status"] == layout.SANDBOX_RUNNING and len(s.session_of(b)) == 1


def test_container_removed_behind_our_back_ends_the_sandbox(start, engine):
    s = start()
    b = s.box()
    cid = next(iter(engine.containers))
    del engine.containers[cid]
    s.event(layout.EVENT_DESTROY, cid)
    assert wait_until(lambda: s.get(b).name == "REPLY")
    assert "backend" in refused(s.get(b, detail=1), 410) and wait_until(engine.empty)


def test_lost_session_is_attached_again_after_it_was_reaped(start, engine):
    s = start()
    b = s.box()
    first = s.session_of(b)[0]
    s.end_session(first.id, 11)
    assert wait_until(lambda: s.session_of(b) and s.session_of(b)[0] is not first)
    assert s.exec(b).fields["status"] == 200


def test_health_tells_a_hung_engine_within_two_seconds(start):
    s = start()
    assert s.call("ASK_HEALTH").fields["engine_up"] == 1
    s.hold.add("D_PING")
    m = s.call("ASK_HEALTH")
    assert m.fields["engine_up"] == 0 and b"engine" in m.tail


def test_calls_fail_at_once_when_the_engine_hangs_and_are_cleaned_up_later(start, engine):
    s = start()
    b = s.box()
    s.hold |= {"D_PING", "D_CREATE"}
    id = s.create_send()
    refused(s.result(id), 502)
    refused(s.create(), 502)
    assert s.get(b).name == "SANDBOX" and s.exec(b).fields["status"] == 200
    s.release("D_PING", "D_CREATE")
    assert wait_until(lambda: s.call("ASK_HEALTH").fields["engine_up"])
    assert wait_until(lambda: len(engine.containers) == 1 and len(engine.volumes) == 1), engine.containers
    assert s.create().name == "SANDBOX"


def test_pages_go_on_behind_any_cursor(start):
    s = start()
    b = s.box()
    snaps = [s.snap(b) for _ in range(6)]
    items = s.list("SNAPSHOTS")
    assert [i.fields["id"] for i in items] == snaps
    for name, all_ids, first in (("SNAPSHOTS", snaps, items[2].fields), ("LIST", [b], s.get(b).fields)):
        at = all_ids.index(first["id"])

        def page(us, id, name=name):
            *got, end = s.call(name, {"after_us": us, "after_id": id, "max": 64})
            assert not end.fields["more"]
            return [i.fields["id"] for i in got]

        assert page(first["created_us"], first["id"]) == all_ids[at + 1 :]
        assert page(first["created_us"] - 1, first["id"]) == all_ids[at:], "a time before that of the item"
        assert page(first["created_us"] + 10**9, first["id"]) == [], "a time behind all"
        assert page(0, all_ids[-1]) == all_ids and page(0, 1) == all_ids
    assert s.call("SNAPSHOT_DELETE", {"id": snaps[2]}).fields["status"] == 204
    assert page(items[2].fields["created_us"], snaps[2], "SNAPSHOTS") == snaps[3:], "the item is gone"
