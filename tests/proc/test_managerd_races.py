"""What happens to a sandbox while something else is under way with it: nobody is left without an answer, nothing is done twice."""
# ruff: noqa: F811 - fixtures are imported, and named again as arguments

import os
import re
import threading

import layout
import pytest
from machine import kib, wait_until
from managerd_kit import KEY, data, engine, refused, start  # noqa: F401


def container_of(engine, box):
    return next(cid for cid, (sandbox, _, _) in engine.containers.items() if sandbox == box)


def answer_held(s, name):
    """Answers one of the held messages, and goes on holding."""
    with s.lock:
        m = next(m for m in s.held if m.name == name)
        s.held.remove(m)
        s.answer(m)


@pytest.mark.parametrize("state", [layout.STATE_GONE, layout.STATE_EXITED, layout.STATE_RUNNING])
def test_news_of_the_old_container_does_not_disturb_a_rollback(start, engine, state):
    s = start()
    b = s.box()
    snap, cid = s.snap(b), container_of(engine, b)
    s.hold |= {"D_INSPECT", "S_RESTORE"}
    s.event(layout.EVENT_DIE, cid)
    assert wait_until(lambda: any(m.name == "D_INSPECT" for m in s.held))
    id = s.send("ROLLBACK", {"sandbox": b, "snapshot": snap})
    assert wait_until(lambda: any(m.name == "S_RESTORE" for m in s.held))
    if state == layout.STATE_GONE:
        del engine.containers[cid]
    else:
        engine.containers[cid][2] = state
    answer_held(s, "D_INSPECT")
    assert "is rolling back" in refused(s.rollback(b, snap), 409)
    s.release("D_INSPECT", "S_RESTORE")
    m = s.result(id)
    assert m.name == "SANDBOX" and m.fields["status"] == layout.SANDBOX_RUNNING
    assert s.exec(b).fields["status"] == 200
    assert wait_until(lambda: len(engine.containers) == 1), "the old one is removed behind the answer"


def test_rollback_that_fails_leaves_a_sandbox_running_that_was_started_meanwhile(start, engine):
    s = start()
    b = s.box()
    snap, cid = s.snap(b), container_of(engine, b)
    engine.containers[cid][2] = layout.STATE_EXITED
    s.event(layout.EVENT_DIE, cid)
    assert wait_until(lambda: s.get(b).fields["status"] == layout.SANDBOX_STOPPED and not s.session_of(b))
    s.hold |= {"UP", "S_RESTORE"}
    waiting, data = s.exec_send(b)
    assert wait_until(lambda: s.session_of(b))
    first = s.session_of(b)[0]
    id = s.send("ROLLBACK", {"sandbox": b, "snapshot": snap})
    assert wait_until(lambda: len(s.session_of(b)) == 2)
    first.chan.send("S_UP", 0, {"guest_version": 1})
    assert s.result(waiting).fields["status"] == 200
    data.close()
    with s.lock:
        s.end_session(next(x.id for x in s.session_of(b) if x is not first), 9)
    refused(s.result(id), 502)
    assert s.get(b).fields["status"] == layout.SANDBOX_RUNNING


def test_rollback_is_the_only_one_that_makes_a_container_for_a_sandbox_without_one(start, engine):
    s = start()
    b = s.box()
    snap = s.snap(b)
    engine.old.add(container_of(engine, b))
    s.fail["D_CREATE"] = (layout.FAIL_ENGINE, "the engine reported an error")
    with s.lock:
        s.end_session(s.session_of(b)[0].id, 9)
        s.hold |= {"OVER", "S_RESTORE"}
    assert wait_until(lambda: "D_CREATE" in s.seen and s.get(b).fields["status"] == layout.SANDBOX_STOPPED)
    s.fail.clear()
    waiting, data = s.exec_send(b)  # for the end of the session that was outdated
    id = s.send("ROLLBACK", {"sandbox": b, "snapshot": snap})
    assert wait_until(lambda: any(m.name == "S_RESTORE" for m in s.held))
    engine.images.clear()
    assert "rolling back" in refused(s.result(waiting), 409)
    data.close()
    assert "is rolling back" in refused(s.rollback(b, snap), 409)
    s.release("OVER", "S_RESTORE")
    assert s.result(id).name == "SANDBOX" and s.exec(b).fields["status"] == 200
    assert wait_until(lambda: len(engine.containers) == 1)


@pytest.mark.parametrize("lost", ["session", "engine"])
def test_no_second_attach_is_asked_for_while_the_first_one_is_under_way(start, engine, lost):
    s = start()
    b = s.box()
    s.hold.add("D_ATTACH")
    with s.lock:
        s.end_session(s.session_of(b)[0].id, 9)
    waiting, data = s.exec_send(b)
    assert wait_until(lambda: any(m.name == "D_ATTACH" for m in s.held))
    if lost == "session":
        with s.lock:
            s.end_session(next(iter(s.sessions)), 9)
    else:  # a ping that fails, while the call goes on
        s.up = False
        assert wait_until(lambda: s.call("ASK_HEALTH").fields["engine_up"] == 0)
        s.up = True
        assert wait_until(lambda: s.call("ASK_HEALTH").fields["engine_up"] == 1)
    assert s.result(waiting).fields["status"] == 502
    data.close()
    assert wait_until(lambda: "still busy" in refused(s.exec(b), 502))
    assert s.seen.count("D_ATTACH") == 2  # the first is that of its creation
    s.release("D_ATTACH")
    assert wait_until(lambda: s.exec(b).fields["status"] == 200) and s.p.alive()


def two_snapshots(s, b):
    s.hold.add("S_SNAPSHOT")
    one = s.send("SNAPSHOT_MAKE", {"sandbox": b})
    assert wait_until(lambda: "S_SNAPSHOT" in s.seen)
    two = s.send("SNAPSHOT_MAKE", {"sandbox": b})
    assert s.call("AUTH", {}).fields["status"] == 200  # both have been read
    return one, two


@pytest.mark.parametrize("news_first", [True, False], ids=["the engine says it first", "the session ends first"])
def test_snapshot_that_waits_for_another_is_made_though_the_container_stopped(start, engine, news_first):
    s = start()
    b = s.box()
    cid = container_of(engine, b)
    one, two = two_snapshots(s, b)
    s.hold.discard("S_SNAPSHOT")
    engine.containers[cid][2] = layout.STATE_EXITED
    if news_first:
        s.event(layout.EVENT_DIE, cid)
    else:
        with s.lock:
            s.end_session(s.session_of(b)[0].id, 9)
    refused(s.result(one), 502)
    assert s.result(two).name == "SNAPSHOT"


def test_snapshot_that_waits_for_another_is_refused_when_the_engine_is_away_too(start, engine):
    s = start()
    b = s.box()
    one, two = two_snapshots(s, b)
    s.up = False
    s.docker.send("D_ENGINE", 0, {"up": 0}, "the engine is away")
    assert wait_until(lambda: s.call("ASK_HEALTH").fields["engine_up"] == 0)
    with s.lock:
        s.end_session(s.session_of(b)[0].id, 9)
    refused(s.result(one), 502)
    assert refused(s.result(two), 502) == "the engine is away"


def test_snapshots_that_wait_are_bounded(start):
    s = start()
    b = s.box()
    two_snapshots(s, b)
    ids = [s.send("SNAPSHOT_MAKE", {"sandbox": b}) for _ in range(70)]
    for id in ids[63:]:
        assert "too many snapshots" in refused(s.result(id), 429)


def test_session_that_reads_nothing_costs_only_its_own_sandbox(start):
    """One that was taken over, and ends jobs without ever having read them."""
    s = start()
    b, other = s.box(), s.box()
    s.hold.add("S_EXEC")
    with s.lock:
        session = s.session_of(b)[0]
        chan, session.chan = session.chan, None  # it is read no more
    for n in range(1, 3000):
        id, data = s.exec_send(b)
        data.close()
        if (m := s.result(id)).fields["status"] != 200:
            break
        chan.send("S_JOB_END", (1 << 32) + n, {"status": 200})
    assert "no more requests" in refused(m, 503)
    assert s.exec(other).fields["status"] == 200
    chan.close()


def test_list_that_the_engine_could_not_give_is_asked_for_again(start, engine):
    s = start()
    b = s.box()
    s.stop()
    engine.containers[container_of(engine, b)][2] = layout.STATE_EXITED
    s = start(hold=("D_LIST",), ready=False)
    s.fail["D_LIST"] = (layout.FAIL_ENGINE, "the engine reported an error")
    assert wait_until(lambda: "D_LIST" in s.seen)
    s.release("D_LIST")
    assert wait_until(s.is_ready.is_set)
    assert "is starting" in refused(s.exec(b), 503)
    s.fail.clear()
    assert wait_until(lambda: s.exec(b).fields["status"] == 200)


@pytest.mark.parametrize("field", ["network", "read_only"])
def test_neither_yes_nor_no_is_fatal_and_never_asked_of_the_engine(start, field):
    s = start()
    s.create_send(**{field: 3})
    assert s.p.wait(30) == 1 and "neither yes nor no" in s.p.log()
    assert "D_CREATE" not in s.seen
    s.finish()


def test_run_that_is_to_be_repeated_is_fatal_and_never_made(start):
    s = start()
    s.create_send(run=1, has_idem=1, idem_key=b"k" * 32, idem_body=b"b" * 32)
    assert s.p.wait(30) == 1 and "Idempotency-Key for a run" in s.p.log()
    assert "D_CREATE" not in s.seen
    s.finish()


@pytest.mark.skipif(os.geteuid() != 0, reason="looks into the memory of another process")
def test_key_stays_nowhere_in_the_memory_of_managerd(start):
    last = "the-last-of-many-keys-0001"  # behind what any later message overwrites
    s = start(config={"API_KEYS": ",".join([KEY, *(f"{i:0200}" for i in range(100)), last])})
    assert s.call("AUTH", {}, key=last).fields["status"] == 200
    s.box()
    found, read = 0, 0
    with open(f"/proc/{s.p.pid}/maps") as maps, open(f"/proc/{s.p.pid}/mem", "rb", 0) as mem:
        for line in maps:
            m = re.match(r"(\w+)-(\w+) rw", line)
            if m is None or "[v" in line:
                continue
            begin, end = (int(x, 16) for x in m.groups())
            if end - begin > 1 << 28:  # a sanitizer's own
                continue
            mem.seek(begin)
            piece = mem.read(end - begin)
            read += len(piece)
            found += piece.count(KEY.encode()) + piece.count(last.encode())
    assert read > 100_000 and found == 0


def test_who_asks_for_lists_and_does_not_read_them_waits(start):
    """As many connections at once can: all that was asked for would be more than a channel may hold."""
    s = start()
    labels = [(f"{i:02}" + "n" * 61, "v" * 255) for i in range(64)]
    boxes = sorted(s.box(labels=labels) for _ in range(4))
    lists = [s.next + 1 + i for i in range(4000)]
    asks = threading.Thread(target=lambda: [s.send("LIST", {"max": 64}) for _ in lists], daemon=True)
    asks.start()
    asks.join(3)
    assert 0 < kib(s.p.pid, "VmRSS") < 40000, "what nobody reads fills its memory"
    s.pages = frozenset(lists)
    for id in lists:
        *items, _ = s.result(id)
        assert {m.fields["id"] for m in items} <= set(boxes) and items
    asks.join(30)
    assert sorted(m.fields["id"] for m in s.list()) == boxes
