"""Identities in managerd: what each scope opens, what tenants see of each other, quotas, buckets, and what becomes of a
key's work when the key is gone. managerd decides: whoever owns apid cannot choose."""
# ruff: noqa: F811 - fixtures are imported, and named again as arguments

import contextlib
import json
import os
import re
import signal
import statistics
import time

import layout
import pytest
from machine import read, wait_until
from managerd_kit import data, engine, key_line, refused, start  # noqa: F401

SCOPES = ("read", "exec", "files", "manage", "admin")
# What each message needs, as docs/API.md has it for the routes.
NEEDS = {
    "GET": "read",
    "LIST": "read",
    "SNAPSHOTS": "read",
    "SNAPSHOT_GET": "read",
    "CREATE": "manage",
    "FORK": "manage",
    "DESTROY": "manage",
    "SET_TIMEOUT": "manage",
    "SNAPSHOT_MAKE": "manage",
    "ROLLBACK": "manage",
    "SNAPSHOT_DELETE": "manage",
    "EXEC": "exec",
    "FILE_READ": "files",
    "FILE_WRITE": "files",
    "FILE_LIST": "files",
    "FILE_REMOVE": "files",
    "ARCHIVE_GET": "files",
    "ARCHIVE_PUT": "files",
    "METRICS": "admin",
}


def asked(s, name, box=0xABC, snap=0xDEF, **who):
    """Any message that is about a sandbox or a snapshot, well-formed; its answer."""
    job = {"timeout_us": 1000000, "args_len": 10, "args_sha256": b"\7" * 32}
    fields = {
        "GET": {"id": box},
        "DESTROY": {"id": box},
        "SET_TIMEOUT": {"sandbox": box, "ttl_s": 60},
        "SNAPSHOT_MAKE": {"sandbox": box},
        "ROLLBACK": {"sandbox": box, "snapshot": snap},
        "SNAPSHOT_GET": {"id": snap},
        "SNAPSHOT_DELETE": {"id": snap},
        "FORK": {"snapshot": snap, "network": layout.NOT_GIVEN, "read_only": layout.NOT_GIVEN},
        "EXEC": {"sandbox": box, "job": job},
        "LIST": {"max": 10},
        "SNAPSHOTS": {"max": 10},
        "CREATE": {"network": layout.NOT_GIVEN, "read_only": layout.NOT_GIVEN},
        "METRICS": {},
    }.get(name, {"sandbox": box})
    if name == "CREATE":
        with s.records() as fd:
            return s.call(name, fields, fd=fd, **who)
    with contextlib.ExitStack() as stack:
        fd = None
        if name == "EXEC" or name.startswith(("FILE_", "ARCHIVE_")):
            a, fd = layout.data_pair()
            stack.callback(a.close)
            stack.callback(fd.close)
        return s.call(name, fields, "/workspace/x" if name.startswith(("FILE_", "ARCHIVE_")) else b"", fd=fd, **who)


def status(m):
    """Of an answer, or of the last message of a page."""
    m = m[-1] if isinstance(m, list) else m
    return m.fields["status"] if m.name == "REPLY" else 200


@pytest.fixture
def scoped(start):
    return start(keys=[key_line(f"key-{s}", tenant="acme", scopes=[s]) for s in SCOPES])


def test_every_message_takes_exactly_the_scope_it_needs(scoped):
    table = {r.name for r in layout.TABLES["APID_MANAGERD"] if r.sender == "APID"} - {"AUTH", "ASK_HEALTH"}
    assert set(NEEDS) == table
    for name, needed in NEEDS.items():
        for scope in SCOPES:
            got = asked(scoped, name, key=f"key-{scope}")
            if scope in (needed, "admin"):
                assert status(got) in (200, 404), (name, scope, got)
            else:
                assert refused(got, 403) == f"this key lacks the scope {needed}", (name, scope)


def test_auth_answers_for_the_scope_of_the_route(scoped):
    bits = {s: 1 << i for i, s in enumerate(SCOPES)}
    for scope in SCOPES:
        for wanted in SCOPES:
            got = scoped.call("AUTH", {"scope": bits[wanted]}, key=f"key-{scope}")
            assert got.fields["status"] == (200 if scope in (wanted, "admin") else 403)
        assert scoped.call("AUTH", key=f"key-{scope}").fields["status"] == 200


def test_routes_and_messages_need_the_same_scopes():
    """apid's table is for the description; managerd's decides."""
    routes = (layout.ROOT / "apid/routes.h").read_text()
    described = {handler: scope.lower() for scope, handler in re.findall(r"X\(\w+, \w+, KEY, (\w+), [^,]+, (\w+)\)", routes)}
    messages = {
        "sandbox_list": "LIST",
        "sandbox_create": "CREATE",
        "sandbox_get": "GET",
        "sandbox_delete": "DESTROY",
        "sandbox_timeout": "SET_TIMEOUT",
        "exec_run": "EXEC",
        "exec_stream": "EXEC",
        "file_get": "FILE_READ",
        "file_put": "FILE_WRITE",
        "file_list": "FILE_LIST",
        "archive_get": "ARCHIVE_GET",
        "archive_put": "ARCHIVE_PUT",
        "snapshot_make": "SNAPSHOT_MAKE",
        "snapshot_rollback": "ROLLBACK",
        "snapshot_list": "SNAPSHOTS",
        "snapshot_get": "SNAPSHOT_GET",
        "snapshot_delete": "SNAPSHOT_DELETE",
        "snapshot_fork": "FORK",
        "metrics_get": "METRICS",
    }
    assert described.pop("run_post") == "exec"
    assert described == {handler: NEEDS[message] for handler, message in messages.items()}


def test_run_needs_exec_only_and_a_kept_one_manage_too(start):
    s = start(keys=[key_line("exec", scopes=["exec"]), key_line("other", scopes=["exec"]), key_line("both", scopes=["exec", "manage"])])
    run = {"run": 1, "network": layout.NOT_GIVEN, "read_only": layout.NOT_GIVEN}
    with s.records() as fd:
        box = s.call("CREATE", run, fd=fd, key="exec").fields["id"]
    for name in ("FILE_WRITE", "FILE_REMOVE", "EXEC"):
        assert status(asked(s, name, box, key="exec")) == 200
    for name in ("FILE_READ", "FILE_LIST", "ARCHIVE_GET", "ARCHIVE_PUT", "SNAPSHOT_MAKE", "SET_TIMEOUT", "ROLLBACK"):
        refused(asked(s, name, box, key="exec"), 403)
    # Another key's run is no sandbox at all.
    assert refused(asked(s, "EXEC", box, key="other"), 404) == refused(asked(s, "EXEC", 0xABC, key="other"), 404).replace(
        f"{0xABC:016x}", f"{box:016x}"
    )
    refused(asked(s, "DESTROY", box, key="other"), 403)
    assert status(asked(s, "DESTROY", box, key="exec")) == 204
    with s.records() as fd:
        assert refused(s.call("CREATE", run | {"keep": 1}, fd=fd, key="exec"), 403) == "this key lacks the scope manage"
    with s.records() as fd:
        assert s.call("CREATE", run | {"keep": 1}, fd=fd, key="both").name == "SANDBOX"


# ---- tenants


@pytest.fixture
def two(start):
    return start(
        keys=[
            key_line("red", tenant="red"),
            key_line("red-2", tenant="red"),
            key_line("blue", tenant="blue"),
            key_line("root", scopes=["admin"]),
        ]
    )


def create_as(s, key, env=(), **fields):
    fields = {"network": layout.NOT_GIVEN, "read_only": layout.NOT_GIVEN} | fields
    with s.records(env) as fd:
        return s.send("CREATE", fields, fd=fd, key=key)


def box_as(s, key, **fields):
    m = s.result(create_as(s, key, **fields))
    assert m.name == "SANDBOX", (m, s.p.log())
    return m.fields["id"]


def test_engine_is_told_for_which_tenant_an_image_is_pulled(start):
    keys = [key_line("red", tenant="red"), key_line("red-2", tenant="red"), key_line("blue", tenant="blue")]
    s = start(keys=keys, config={"POOL": "1"})
    assert wait_until(lambda: s.images_for == [0]), "members of the pool are the server's own"
    told = {}
    for key in ("red", "red-2", "blue"):
        n = len(s.images_for)
        box_as(s, key, memory_mb=256)  # less than a member has
        told[key] = set(s.images_for[n:]) - {0}
    assert len(told["red"]) == 1 and told["red"] == told["red-2"] != told["blue"] and len(told["blue"]) == 1


def snap_as(s, key, box):
    m = s.call("SNAPSHOT_MAKE", {"sandbox": box}, key=key)
    assert m.name == "SNAPSHOT", m
    return m.fields["id"]


def ids(s, name, key, **fields):
    *items, _ = s.call(name, {"max": 64} | fields, key=key)
    return [m.fields["id"] for m in items]


def test_foreign_ids_are_unknown_ids_byte_for_byte(two):
    box = box_as(two, "red")
    snap = snap_as(two, "red", box)
    mine = box_as(two, "blue")
    for name in NEEDS:
        if name in ("LIST", "SNAPSHOTS", "CREATE", "METRICS"):
            continue
        for detail in (0, 1):
            one = asked(two, name, mine if name == "ROLLBACK" else box, snap, key="blue", detail=detail)
            other = asked(two, name, mine if name == "ROLLBACK" else 0xABC, 0xDEF, key="blue", detail=detail)
            assert status(one) == 404, (name, one)
            assert one.fields == other.fields
            text = other.tail.decode().replace(f"{0xABC:016x}", f"{box:016x}").replace(f"{0xDEF:016x}", f"{snap:016x}")
            assert one.tail.decode() == text, name
    assert status(asked(two, "ROLLBACK", box, snap, key="blue")) == 404
    # Nor is what it was told of when it is gone.
    assert status(asked(two, "DESTROY", box, key="red")) == 204
    assert refused(two.get(box, key="red-2", detail=1), 410)
    assert refused(two.get(box, key="blue", detail=1), 404) == f"sandbox sb_{box:016x} not found"


def test_lists_hold_what_is_the_tenants_own_and_cursors_tell_nothing(two):
    red = [box_as(two, "red"), box_as(two, "red-2")]
    blue = box_as(two, "blue")
    snaps = [snap_as(two, "red", red[0]), snap_as(two, "blue", blue)]
    assert ids(two, "LIST", "red") == ids(two, "LIST", "red-2") == red
    assert ids(two, "LIST", "blue") == [blue]
    assert ids(two, "LIST", "root") == red + [blue]
    assert ids(two, "SNAPSHOTS", "red") == snaps[:1] and ids(two, "SNAPSHOTS", "blue") == snaps[1:]
    assert ids(two, "SNAPSHOTS", "root") == snaps
    assert ids(two, "SNAPSHOTS", "blue", sandbox=red[0]) == []
    # A cursor at something foreign is one at nothing.
    at = two.get(red[1], key="red").fields
    for id in (red[1], 0xABC):
        assert ids(two, "LIST", "blue", after_us=at["created_us"], after_id=id) == [blue]
        assert ids(two, "LIST", "blue", after_us=1, after_id=id) == [blue]


def test_keys_of_one_tenant_share_and_fork_and_roll_back_each_others(two):
    box, other = box_as(two, "red"), box_as(two, "red-2")
    snap = snap_as(two, "red-2", box)
    fork = two.call("FORK", {"snapshot": snap, "network": layout.NOT_GIVEN, "read_only": layout.NOT_GIVEN}, key="red")
    assert fork.name == "SANDBOX"
    assert two.call("ROLLBACK", {"sandbox": other, "snapshot": snap}, key="red").name == "SANDBOX"
    assert status(asked(two, "EXEC", fork.fields["id"], key="red-2")) == 200
    assert status(asked(two, "SNAPSHOT_DELETE", snap=snap, key="red-2")) == 204


def test_admin_acts_everywhere_and_alone_is_told_of_tenants(two):
    box, blue = box_as(two, "red"), box_as(two, "blue")
    assert two.get(box, key="red").fields["tenant"] == ""
    assert two.get(box, key="root").fields["tenant"] == "red"
    snap = two.call("SNAPSHOT_MAKE", {"sandbox": box}, key="root")
    assert snap.fields["tenant"] == "red"
    snap = snap.fields["id"]
    assert ids(two, "SNAPSHOTS", "red") == [snap]  # of the sandbox's tenant
    assert two.call("ROLLBACK", {"sandbox": box, "snapshot": snap}, key="root").name == "SANDBOX"
    assert "different tenants" in refused(two.call("ROLLBACK", {"sandbox": blue, "snapshot": snap}, key="root"), 403)
    fork = two.call("FORK", {"snapshot": snap, "network": layout.NOT_GIVEN, "read_only": layout.NOT_GIVEN}, key="root")
    assert fork.fields["tenant"] == "default"  # what a key makes is its own tenant's
    assert status(asked(two, "DESTROY", blue, key="root")) == 204


def test_idempotency_keys_are_each_tenants_own(two):
    idem = {"has_idem": 1, "idem_key": b"\1" * 32, "idem_body": b"\2" * 32}
    red = box_as(two, "red", **idem)
    assert box_as(two, "red-2", **idem) == red
    assert box_as(two, "blue", **idem) != red
    assert status(two.result(create_as(two, "blue", **idem | {"idem_body": b"\3" * 32}))) == 409


def test_tenants_outlive_a_restart_and_what_has_none_is_the_default(two, start, data):
    box = box_as(two, "red")
    snap = snap_as(two, "red", box)
    two.kill()
    record = data / "sandboxes" / f"sb_{box:016x}.json"
    assert json.loads(record.read_text())["tenant"] == "red"
    keys = [key_line("red", tenant="red"), key_line("plain")]
    s = start(keys=keys)
    assert ids(s, "LIST", "red") == [box] and ids(s, "SNAPSHOTS", "red") == [snap]
    assert ids(s, "LIST", "plain") == []
    s.kill()
    for path in (record, data / "snapshots" / f"snap_{snap:016x}.json"):
        old = json.loads(path.read_text())
        del old["tenant"]
        path.write_text(json.dumps(old))
    s = start(keys=keys)
    assert ids(s, "LIST", "plain") == [box] and ids(s, "SNAPSHOTS", "plain") == [snap]
    assert ids(s, "LIST", "red") == []


def test_foreign_ids_take_the_time_of_unknown_ones(two):
    """Generous: the middle of many, each in turn."""
    box = box_as(two, "red")
    took = {box: [], 0xABC: []}
    for _ in range(400):
        for id in took:
            began = time.perf_counter()
            refused(two.get(id, key="blue", detail=1), 404)
            took[id].append(time.perf_counter() - began)
    foreign, unknown = (statistics.median(v) for v in took.values())
    assert foreign < unknown * 1.5 and unknown < foreign * 1.5, (foreign, unknown)


# ---- quotas


def tenant_keys(**quotas):
    return [key_line("a", tenant="t", quotas=quotas), key_line("b", tenant="t"), key_line("free", tenant="u")]


def test_two_keys_racing_for_the_last_slots_get_exactly_the_quota(start):
    s = start(keys=tenant_keys(sandboxes=5), config={"MAX_SANDBOXES": 100})
    snap = snap_as(s, "a", box_as(s, "a"))
    fork = {"snapshot": snap, "network": layout.NOT_GIVEN, "read_only": layout.NOT_GIVEN}
    sent = []
    for i in range(25):
        sent.append(create_as(s, "ab"[i % 2]))
        sent.append(s.send("FORK", fork, key="ba"[i % 2]))
        sent.append(create_as(s, "a", run=1))
    got = [s.result(id) for id in sent]
    assert sum(m.name == "SANDBOX" for m in got) == 4
    for m in got:
        if m.name != "SANDBOX":
            assert refused(m, 429) == "tenant quota of 5 sandboxes reached" and m.fields["retry_after"] >= 1
    assert len(s.engine.containers) == 5
    box_as(s, "free")
    assert status(asked(s, "DESTROY", ids(s, "LIST", "a")[0], key="b")) == 204
    box_as(s, "b")


def test_runs_one_after_the_other_are_never_too_many_while_their_containers_wait(start):
    """They wait since another tenant's run goes on; those of a tenant with a quota only as far as that leaves it room."""
    s = start(keys=tenant_keys(sandboxes=8), config={"MAX_SANDBOXES": 100})
    box_as(s, "free", run=1)
    for _ in range(30):
        s.send("DESTROY", {"id": box_as(s, "a", run=1)}, key="a")


def test_two_tenants_racing_for_the_servers_last_slot_leave_no_more_than_it_has(start):
    s = start(keys=[key_line("red", tenant="red"), key_line("blue", tenant="blue")], config={"MAX_SANDBOXES": 3})
    box_as(s, "red"), box_as(s, "blue")
    got = [s.result(id) for id in [create_as(s, key) for key in ("red", "blue") * 10]]
    assert sum(m.name == "SANDBOX" for m in got) == 1 and len(s.engine.containers) == 3
    assert all("limit of 3 sandboxes" in refused(m, 429) for m in got if m.name != "SANDBOX")


@pytest.mark.parametrize(
    "quota, value, each, text",
    [
        ("cpus", 2.5, {"nano_cpus": 1000000000}, "tenant quota of 2.5 cpus reached"),
        ("memory_mb", 1100, {"memory_mb": 512}, "tenant quota of 1100 MiB of memory reached"),
    ],
)
def test_cpus_and_memory_are_counted_over_all_sandboxes(start, quota, value, each, text):
    s = start(keys=tenant_keys(**{quota: value}))
    boxes = [box_as(s, "a", **each), box_as(s, "b", **each)]
    assert refused(s.result(create_as(s, "a", **each)), 429) == text
    assert refused(s.result(create_as(s, "a", run=1, **each)), 429) == text
    box_as(s, "free", **each)
    assert status(asked(s, "DESTROY", boxes[0], key="a")) == 204
    box_as(s, "a", **each)


def files(data):
    """What snapshots have on the disk: name, size."""
    return {p.name: p.stat().st_size for p in (data / "snapshots").iterdir()}


def test_bytes_of_snapshots_are_bounded_and_free_again_after_a_delete(start, data):
    s = start(keys=tenant_keys())
    snap_as(s, "a", box_as(s, "a"))
    s.stop()
    record, tar = sorted(files(data).values(), reverse=True)  # each has that
    quota = 3 * (record + tar) - 1
    s = start(keys=tenant_keys(snapshot_bytes=quota))
    box = box_as(s, "a")
    snap = snap_as(s, "b", box)
    full = f"tenant quota of {quota} bytes of snapshots reached"
    assert refused(asked(s, "SNAPSHOT_MAKE", box, key="a"), 429) == full  # does not fit; nothing is left of it
    told = s.session_of(box)[0].max_stored
    left = [quota - n * (record + tar) - record for n in (1, 2)]
    # The record's numbers have some digits more when it is written.
    assert all(x <= y <= x + 64 for x, y in zip(left, told, strict=True)), "sessiond is told what is left, not to write more meanwhile"
    snaps = ids(s, "SNAPSHOTS", "a")
    assert len(snaps) == 2 and snaps[1] == snap
    assert sorted(files(data)) == sorted(f"snap_{i:016x}{end}" for i in snaps for end in (".json", ".tar.zst"))
    assert status(asked(s, "SNAPSHOT_DELETE", snap=snaps[0], key="a")) == 204
    snap_as(s, "a", box)
    unbound = box_as(s, "free")
    snap_as(s, "free", unbound)
    assert s.session_of(unbound)[0].max_stored == [0]


def test_record_of_a_snapshot_counts_for_the_quota_of_its_bytes(start, data):
    """Environment and labels are in it, and a control byte is six bytes there."""
    s = start(keys=tenant_keys(snapshot_bytes=200000))
    small, large = box_as(s, "a"), box_as(s, "a", env=["X=" + "\1" * 30000])
    snap_as(s, "a", large)
    assert 180000 < sum(files(data).values()) < 200000
    full = "tenant quota of 200000 bytes of snapshots reached"
    assert refused(asked(s, "SNAPSHOT_MAKE", large, key="a"), 429) == full
    assert len(s.session_of(large)[0].max_stored) == 1, "one whose record does not fit is not begun"
    snap_as(s, "a", small)
    assert sum(files(data).values()) <= 200000
    s.stop()
    s = start(keys=tenant_keys(snapshot_bytes=180000))
    small = box_as(s, "a")
    assert refused(asked(s, "SNAPSHOT_MAKE", small, key="b"), 429)  # those that were loaded count alike
    for snap in ids(s, "SNAPSHOTS", "a"):
        assert status(asked(s, "SNAPSHOT_DELETE", snap=snap, key="a")) == 204
    snap_as(s, "a", small)


def quota_for_one(start, data):
    """Bytes that one snapshot fits in, and a second one does not."""
    s = start(keys=tenant_keys())
    snap = snap_as(s, "a", box_as(s, "a"))
    bytes = sum(files(data).values())
    assert status(asked(s, "SNAPSHOT_DELETE", snap=snap, key="a")) == 204
    s.stop()
    return bytes + 64


@pytest.mark.parametrize("end", ["done", "failed", "lost"])
@pytest.mark.parametrize("name", ["FORK", "ROLLBACK"])
def test_snapshot_that_is_deleted_while_it_is_read_counts_until_it_was(start, data, name, end):
    """Its bytes are on the disk until the last descriptor is closed."""
    quota = quota_for_one(start, data)
    s = start(keys=tenant_keys(snapshot_bytes=quota))
    box, other = box_as(s, "a"), box_as(s, "a")
    snap = snap_as(s, "a", box)
    s.hold.add("S_RESTORE")
    fields = {"snapshot": snap} | ({"sandbox": box} if name == "ROLLBACK" else {"network": layout.NOT_GIVEN, "read_only": layout.NOT_GIVEN})
    id = s.send(name, fields, key="a")
    assert wait_until(lambda: s.held)
    assert status(asked(s, "SNAPSHOT_DELETE", snap=snap, key="b")) == 204
    assert ids(s, "SNAPSHOTS", "a") == [] and files(data) == {}
    full = f"tenant quota of {quota} bytes of snapshots reached"
    assert refused(asked(s, "SNAPSHOT_MAKE", other, key="a"), 429) == full
    if end == "lost":
        s.hold.clear()
        s.end_session(next(x.id for x in s.sessions.values() if x.jobs), 11)
    else:
        s.restore_status = 200 if end == "done" else 400
        s.release("S_RESTORE")
    m = s.result(id)
    assert m.name == "SANDBOX" if end == "done" else m.fields["status"] >= 400
    snap_as(s, "a", other)


def told(s, box):
    """What sessiond was told that each file may take."""
    return [n for x in s.sessions.values() if getattr(x, "sandbox", None) == box for n in x.max_stored]


@pytest.mark.parametrize("lost", [False, True])
def test_snapshots_at_once_take_no_more_together_than_the_quota_and_wait_in_line(start, data, lost):
    """Each may write all that is left, so that there is one at a time when that is little."""
    one = quota_for_one(start, data) - 64
    quota = 4 * one + 64
    s = start(keys=tenant_keys(snapshot_bytes=quota), hold=["S_SNAPSHOT"])
    first, second, third = (box_as(s, "ab"[i % 2]) for i in range(3))
    order = [first, second, third, second, second, third]
    sent = [s.send("SNAPSHOT_MAKE", {"sandbox": box}, key="a") for box in order]
    assert wait_until(lambda: s.held)
    other = box_as(s, "free")  # the quota of one tenant keeps no other waiting
    sent.append(s.send("SNAPSHOT_MAKE", {"sandbox": other}, key="free"))
    assert wait_until(lambda: len(s.held) >= 2)
    assert status(asked(s, "EXEC", second, key="a")) == 200  # nor anything else
    assert len(s.held) == 2
    if lost:
        s.hold.clear()
        s.end_session(s.session_of(first)[0].id, 11)
    else:
        s.release("S_SNAPSHOT")
    got = [s.result(id).name for id in sent[:-1]]
    # Who has waited longest goes first; those that did not fit are told what was left, and cut there.
    assert got == (["REPLY"] + ["SNAPSHOT"] * 4 + ["REPLY"] if lost else ["SNAPSHOT"] * 4 + ["REPLY"] * 2)
    limits = sorted((n for box in (first, second, third) for n in told(s, box)), reverse=True)
    steps = [a - b for a, b in zip(limits, limits[1:], strict=False)]
    assert steps[:3] == [one] * 3, "each was told what those before had left"
    assert sum(n for name, n in files(data).items() if name.removesuffix(".json").removesuffix(".tar.zst") in mine(s)) <= quota


def one_held(start, data, **more):
    """A server whose tenant t has room for two snapshots and makes one, which is held: the next ones wait for it."""
    one = quota_for_one(start, data) - 64
    quota = 2 * one + 64
    keys = tenant_keys(snapshot_bytes=quota)
    s = start(keys=[*keys, key_line("c", tenant="t")], hold=["S_SNAPSHOT"], **more)
    first = box_as(s, "a")
    sent = s.send("SNAPSHOT_MAKE", {"sandbox": first}, key="a")
    assert wait_until(lambda: s.held)
    return s, first, sent


def test_snapshots_that_wait_are_bounded_over_all_sandboxes_of_a_tenant(start, data):
    s, first, sent = one_held(start, data)
    boxes = [box_as(s, "ab"[i % 2]) for i in range(4)]
    waiting = [s.send("SNAPSHOT_MAKE", {"sandbox": box}, key="a") for box in boxes * 16]
    for box in (first, *boxes, box_as(s, "b")):
        m = asked(s, "SNAPSHOT_MAKE", box, key="b")
        assert refused(m, 429) == "too many snapshots wait for one that is being made" and m.fields["retry_after"] >= 1
    assert len(s.held) == 1
    s.release("S_SNAPSHOT")
    snap_as(s, "free", box_as(s, "free"))
    assert [s.result(id).name for id in (sent, waiting[0])] == ["SNAPSHOT"] * 2
    assert all("quota" in refused(s.result(id), 429) for id in waiting[1:])


def test_snapshots_that_wait_for_their_sandboxes_leave_room_for_what_needs_a_descriptor(start):
    s = start(keys=tenant_keys(), config={"MAX_SANDBOXES": 100})
    boxes = [box_as(s, "free") for _ in range(64)]
    mine = box_as(s, "a")
    s.hold.add("D_ATTACH")
    for session in list(s.sessions.values()):
        s.end_session(session.id, 9)
    for _ in range(64):
        for box in boxes:
            s.send("SNAPSHOT_MAKE", {"sandbox": box}, key="free")
    id, _ = s.exec_send(mine, key="a")
    # Whoever is refused is so at once: before what was asked later is answered.
    assert s.get(mine, key="a").name == "SANDBOX"
    assert id not in s.answers or status(s.answers[id][0]) != 503, s.answers[id]


def test_snapshot_that_waits_a_minute_for_its_tenants_quota_is_429(start, data):
    """A sandbox can make its own last for hours; what waits for that one itself goes on waiting."""
    s, first, sent = one_held(start, data)
    own = s.send("SNAPSHOT_MAKE", {"sandbox": first}, key="a")
    began = time.clock_gettime(time.CLOCK_BOOTTIME)
    other = s.send("SNAPSHOT_MAKE", {"sandbox": box_as(s, "b")}, key="b")
    m = s.result(other, 180)
    assert refused(m, 429) == "another snapshot of the tenant may need what is left of its quota; try again"
    assert m.fields["retry_after"] >= 1 and time.clock_gettime(time.CLOCK_BOOTTIME) - began >= 60
    s.get(first, key="a")
    assert own not in s.answers and sent not in s.answers and len(s.held) == 1
    s.release("S_SNAPSHOT")
    assert [s.result(id).name for id in (sent, own)] == ["SNAPSHOT"] * 2


def test_snapshots_in_line_go_on_when_one_that_was_deleted_makes_room(start):
    config = {"MAX_SNAPSHOT_BYTES": 1 << 20}
    s = start(keys=tenant_keys(snapshot_bytes=100 << 20), config=config)
    box = box_as(s, "a")
    assert status(asked(s, "SNAPSHOT_DELETE", snap=snap_as(s, "a", box), key="a")) == 204
    most = told(s, box)[0] + 1000  # with its record, which is shorter
    s.stop()
    s = start(keys=tenant_keys(snapshot_bytes=2 * most), config=config)
    boxes = [box_as(s, "a") for _ in range(2)]
    s.tar = b"x" * 60000
    snap = snap_as(s, "a", boxes[0])
    s.hold.add("S_SNAPSHOT")
    sent = [s.send("SNAPSHOT_MAKE", {"sandbox": box}, key="a") for box in boxes]
    assert wait_until(lambda: s.held)
    s.get(boxes[0], key="a")  # so it has read both
    assert len(s.held) == 1
    assert status(asked(s, "SNAPSHOT_DELETE", snap=snap, key="a")) == 204
    assert wait_until(lambda: len(s.held) == 2)
    s.release("S_SNAPSHOT")
    assert [s.result(id).name for id in sent] == ["SNAPSHOT"] * 2


def test_snapshot_that_waits_is_not_made_when_its_key_goes_and_one_that_is_being_made_is_finished(start, data):
    s, _, sent = one_held(start, data)
    boxes = [box_as(s, "b") for _ in range(2)]
    waiting, stays = (s.send("SNAPSHOT_MAKE", {"sandbox": box}, key=key) for box, key in zip(boxes, "ac", strict=True))
    s.get(boxes[0], key="b")  # so it has read what came before
    s.send_keys([key_line("b", tenant="t", quotas={"snapshot_bytes": 1 << 20}), key_line("c", tenant="t")])
    assert refused(s.result(waiting), 401) == "the key was revoked"
    assert len(s.held) == 1
    s.release("S_SNAPSHOT")
    made = [s.result(id) for id in (sent, stays)]
    assert [m.name for m in made] == ["SNAPSHOT"] * 2
    assert ids(s, "SNAPSHOTS", "b") == [m.fields["id"] for m in made]


def test_rollback_does_not_overtake_a_snapshot_in_line(start, data):
    s, first, sent = one_held(start, data)
    box = box_as(s, "b")
    s.release("S_SNAPSHOT")
    snap = s.result(sent).fields["id"]
    s.hold.add("S_SNAPSHOT")
    sent = s.send("SNAPSHOT_MAKE", {"sandbox": first}, key="a")
    assert wait_until(lambda: s.held)
    waiting = s.send("SNAPSHOT_MAKE", {"sandbox": box}, key="b")
    for one in (first, box):
        text = f"a snapshot of sandbox sb_{one:016x} is being made; try again"
        assert refused(s.call("ROLLBACK", {"sandbox": one, "snapshot": snap}, key="b"), 409) == text
    s.job_status = 500
    s.release("S_SNAPSHOT")
    assert status(s.result(sent)) == status(s.result(waiting)) == 500
    assert s.call("ROLLBACK", {"sandbox": box, "snapshot": snap}, key="b").name == "SANDBOX"


def test_snapshot_that_comes_while_the_line_moves_on_stands_behind_it(start, data):
    s, first, sent = one_held(start, data)
    boxes = [box_as(s, "b") for _ in range(2)]
    waiting = s.send("SNAPSHOT_MAKE", {"sandbox": boxes[0]}, key="b")
    s.get(first, key="a")  # so it stands in line
    os.kill(s.p.pid, signal.SIGSTOP)  # it finds both at one moment
    assert wait_until(lambda: read(s.p.pid, "stat").rpartition(b")")[2].split()[0] == b"T")
    s.release("S_SNAPSHOT")
    late = s.send("SNAPSHOT_MAKE", {"sandbox": boxes[1]}, key="b")
    os.kill(s.p.pid, signal.SIGCONT)
    assert [s.result(id).name for id in (sent, waiting)] == ["SNAPSHOT"] * 2
    assert "quota" in refused(s.result(late), 429)


def mine(s):
    return {f"snap_{i:016x}" for i in ids(s, "SNAPSHOTS", "a")}


def test_snapshots_at_once_of_a_tenant_that_is_far_below_its_quota_do_not_wait(start):
    s = start(keys=tenant_keys(snapshot_bytes=100 << 20), config={"MAX_SNAPSHOT_BYTES": 1 << 20}, hold=["S_SNAPSHOT"])
    boxes = [box_as(s, "a") for _ in range(8)]
    sent = [s.send("SNAPSHOT_MAKE", {"sandbox": box}, key="a") for box in boxes]
    assert wait_until(lambda: len(s.held) == 8)
    assert sum(m.fields["max_stored"] for m in s.held) <= 100 << 20
    s.release("S_SNAPSHOT")
    assert [s.result(id).name for id in sent] == ["SNAPSHOT"] * 8


def test_snapshots_are_counted_with_those_that_are_being_made(start):
    s = start(keys=tenant_keys(snapshots=2), config={"MAX_SNAPSHOTS": 4}, hold=["S_SNAPSHOT"])
    boxes = [box_as(s, "ab"[i % 2]) for i in range(4)]
    sent = [s.send("SNAPSHOT_MAKE", {"sandbox": box}, key="a") for box in boxes]
    full = "tenant quota of 2 snapshots reached"
    assert [refused(s.result(id), 429) for id in sent[2:]] == [full] * 2
    s.release("S_SNAPSHOT")
    snaps = [s.result(id).fields["id"] for id in sent[:2]]
    assert refused(asked(s, "SNAPSHOT_MAKE", boxes[3], key="b"), 429) == full
    snap_as(s, "free", box_as(s, "free"))  # there is room for others
    assert status(asked(s, "SNAPSHOT_DELETE", snap=snaps[0], key="b")) == 204
    snap_as(s, "a", boxes[0])
    s.job_status = 500  # one that fails is not counted
    for _ in range(3):
        assert status(asked(s, "SNAPSHOT_MAKE", box_as(s, "free"), key="free")) == 500
    assert status(asked(s, "SNAPSHOT_DELETE", snap=snaps[1], key="b")) == 204
    for _ in range(3):
        assert status(asked(s, "SNAPSHOT_MAKE", boxes[1], key="a")) == 500
    s.job_status = 200
    snap_as(s, "a", boxes[1])


def test_commands_at_once_are_bounded_with_runs_and_streams(start):
    s = start(keys=tenant_keys(execs=2), hold=["S_EXEC"])
    box, run = box_as(s, "a"), box_as(s, "a", run=1)
    held = [s.exec_send(box, key="a"), s.exec_send(run, key="a")]
    for id, _ in held:
        assert s.result(id).fields["status"] == 200
    assert refused(asked(s, "EXEC", box, key="b"), 429) == "tenant quota of 2 commands at once reached"
    assert status(asked(s, "FILE_READ", box, key="b")) == 200
    other = box_as(s, "free")
    assert s.result(s.exec_send(other, key="free")[0]).fields["status"] == 200
    assert wait_until(lambda: len(s.held) == 3)
    s.release("S_EXEC")
    assert wait_until(lambda: status(asked(s, "EXEC", box, key="b")) == 200)


def test_requests_a_second_are_a_bucket_of_the_tenant(start):
    s = start(keys=tenant_keys(requests_per_second=5))
    got = [s.call("LIST", {"max": 1}, key="ab"[i % 2]) for i in range(60)]
    refusals = [m for m in got if status(m) == 429]
    assert len(refusals) >= 60 - 10 - 1  # the burst, and at most what a slow machine let come after it
    assert all(m.fields["retry_after"] == 1 for m in refusals)
    assert all(status(s.call("LIST", {"max": 1}, key="free")) == 200 for _ in range(60))
    # Further messages of a request that was let in are not counted.
    assert all(status(s.call("LIST", {"max": 1}, key="a", again=1)) == 200 for _ in range(60))
    assert wait_until(lambda: status(s.call("LIST", {"max": 1}, key="a")) == 200, step=0.3)


# ---- keys that fail


def test_failing_keys_of_an_address_get_429_and_good_ones_are_never_refused(start):
    s = start(keys=[key_line("good")], config={"FAILED_KEYS_A_MINUTE": 30})
    got = [s.call("GET", {"id": 1}, key=f"guess-{i}", addr="192.0.2.7") for i in range(100)]
    assert [status(m) for m in got[:30]] == [401] * 30
    assert all(status(m) == 429 and m.fields["retry_after"] >= 1 for m in got[-60:])
    assert refused(s.call("GET", {"id": 1}, key="good", addr="192.0.2.7"), 404)
    assert status(s.call("GET", {"id": 1}, key="guess", addr="192.0.2.8")) == 401
    assert status(s.call("GET", {"id": 1}, key=None, addr="192.0.2.7")) == 401  # no guess was made
    for local in ("127.0.0.1", "::1"):
        assert all(status(s.call("GET", {"id": 1}, key="guess", addr=local)) == 401 for _ in range(60))


def test_a_flood_of_addresses_takes_no_more_memory(start):
    s = start(keys=[key_line("good")])
    rss = lambda: int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{s.p.pid}/status").read())[1])  # noqa: E731, SIM115

    def flood(n, of):
        for i in range(n):
            status(s.call("GET", {"id": 1}, key="guess", addr=f"2001:db8:{of}:{i:x}::1"))

    flood(6000, 1)
    before = rss()
    flood(12000, 2)
    assert rss() < before + 512


def test_expired_revoked_and_foreign_addresses_look_like_unknown_keys_and_the_audit_says_which(start, data):
    s = start(
        keys=[
            key_line("old", expires="2020-01-01T00:00:00Z", tenant="acme"),
            key_line("away", **{"from": ["198.51.100.0/24", "2001:db8::/32"]}),
            key_line("gone"),
        ]
    )
    assert s.get(1, key="gone").fields["status"] == 404
    s.send_keys(
        [key_line("old", expires="2020-01-01T00:00:00Z", tenant="acme"), key_line("away", **{"from": ["198.51.100.0/24", "2001:db8::/32"]})]
    )
    assert wait_until(lambda: status(s.get(1, key="gone")) == 401)
    got = [s.get(1, key=k) for k in ("old", "away", "gone", "never", None)]
    assert len({(m.name, str(m.fields), m.tail) for m in got}) == 1 and status(got[0]) == 401
    assert status(s.get(1, key="away", addr="198.51.100.9")) == status(s.get(1, key="away", addr="2001:db8:7::1")) == 404
    lines = [json.loads(x) for x in (data / "audit.log").read_text().splitlines()]
    told = {(x.get("key"), x.get("tenant"), x["reason"]) for x in lines if x.get("status") == 401 and x["action"] == "get"}
    assert {
        ("old", "acme", "expired key"),
        ("away", "default", "address not allowed"),
        ("gone", "default", "revoked key"),
        (None, None, "unknown key"),
        (None, None, "no key"),
    } == told


def test_audit_lines_name_key_and_tenant(two, data):
    box = box_as(two, "red")
    asked(two, "EXEC", box, key="red-2")
    asked(two, "DESTROY", box, key="root")
    found = lambda: {  # noqa: E731
        (x["action"], x["key"], x["tenant"]) for x in map(json.loads, (data / "audit.log").read_text().splitlines()) if x.get("status")
    }
    want = {("create", "red", "red"), ("exec", "red-2", "red"), ("destroy", "root", "default")}
    assert wait_until(lambda: want <= found()), found()


def test_subject_of_a_certificate_opens_unless_a_key_was_sent(start):
    s = start(
        keys=[json.dumps({"name": "bot", "digest": None, "certificate": "bot.example", "tenant": "acme"}), key_line("red", tenant="red")]
    )
    box = box_as(s, "red")
    assert status(s.get(box, key=None, subject="bot.example")) == 404
    assert status(s.get(box, key=None, subject="other")) == 401
    assert s.get(box, key="red", subject="bot.example").name == "SANDBOX"
    assert status(s.get(box, key="wrong", subject="bot.example")) == 401


# ---- the file is read again


def test_file_that_is_wrong_at_the_start_ends_it_with_one_line(start):
    s = start(keys=["{"], ready=False)
    assert s.p.wait(30) == 2
    assert s.p.log().count("AGENT_SANDBOX_KEYS_FILE: line 1: ") == 1


@pytest.mark.parametrize(
    "lines",
    [
        ["{"],
        [key_line("a"), key_line("a")],
        [key_line("a"), json.dumps({"name": "b", "digest": json.loads(key_line("a"))["digest"]})],
        [key_line("a", tenant="t", quotas={"cpus": 1}), key_line("b", tenant="t", quotas={"cpus": 2})],
        [key_line("a", scopes=["everything"])],
        [key_line("key1")],
        ["x" * 20000],
        [key_line(f"k{i}") for i in range(1025)],
    ],
    ids=["malformed", "same name", "same digest", "quotas differ", "unknown scope", "name of another", "long line", "too many"],
)
def test_file_that_is_wrong_later_leaves_the_old_keys(start, lines):
    s = start(keys=[key_line("before", tenant="t", quotas={"sandboxes": 1})])
    box_as(s, "before")
    s.send_keys(lines)
    assert wait_until(lambda: "the keys from before stay" in s.p.log())
    assert s.p.log().count("AGENT_SANDBOX_KEYS_FILE: line ") == 1
    assert refused(s.result(create_as(s, "before")), 429) == "tenant quota of 1 sandboxes reached"
    assert status(s.get(1, key="a")) == 401


def test_no_key_at_all_lets_nobody_in(start):
    s = start(keys=[""], config={"API_KEYS": ""})
    assert "nobody may ask" in s.p.log()
    assert status(s.get(1)) == 401
    s.send_keys([key_line("new")])
    assert wait_until(lambda: status(s.get(1, key="new")) == 404)


def test_requests_under_way_are_answered_while_the_file_is_replaced(start):
    s = start(keys=[key_line("a"), key_line("b")], hold=["D_CREATE"])
    id = create_as(s, "a")
    assert wait_until(lambda: s.held)
    s.send_keys([key_line("b")])
    assert wait_until(lambda: status(s.get(1, key="a")) == 401)
    s.release("D_CREATE")
    assert s.result(id).name == "SANDBOX"


def test_commands_streams_and_transfers_of_a_revoked_key_end_and_no_others(start):
    s = start(keys=[key_line("goes", tenant="t"), key_line("stays", tenant="t")], hold=["S_EXEC", "S_READ", "S_WRITE"])
    box = box_as(s, "goes")
    sent = [s.exec_send(box, key="goes")[0], s.exec_send(box, key="stays")[0]]
    for id in sent:
        assert s.result(id).fields["status"] == 200
    assert status(asked(s, "FILE_READ", box, key="goes")) == status(asked(s, "FILE_WRITE", box, key="goes")) == 200
    [session] = s.session_of(box)
    assert wait_until(lambda: len(s.held) == 4)
    exec_goes, exec_stays, read, write = [m.id for m in s.held]
    s.send_keys([key_line("stays", tenant="t")])
    assert wait_until(lambda: len(session.stopped) == 3)
    assert sorted(session.stopped) == sorted((id, 401, "the key was revoked") for id in (exec_goes, read, write))
    assert exec_stays not in [x[0] for x in session.stopped]


@pytest.mark.parametrize("how", ["scope", "digest", "tenant", "address", "expiry"])
def test_key_that_may_do_less_ends_what_it_may_not_do_any_more(start, how):
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 4))
    s = start(keys=[key_line("k", **({"expires": soon} if how == "expiry" else {}))], hold=["S_EXEC"])
    box = box_as(s, "k")
    s.result(s.exec_send(box, key="k")[0])
    [session] = s.session_of(box)
    assert wait_until(lambda: s.held)
    less = {
        "scope": key_line("k", scopes=["read", "files"]),
        "digest": json.dumps(json.loads(key_line("k")) | {"digest": "0" * 64}),
        "tenant": key_line("k", tenant="other"),
        "address": key_line("k", **{"from": ["198.51.100.0/24"]}),
    }
    if how in less:
        s.send_keys([less[how]])
    assert wait_until(lambda: session.stopped) == [(s.held[0].id, 401, "the key was revoked")]


def test_command_that_waits_for_its_sandbox_is_refused_when_the_key_goes(start):
    s = start(keys=[key_line("k"), key_line("x")], hold=["D_ATTACH"])
    s.release("D_ATTACH")
    box = box_as(s, "k")
    s.hold.add("D_ATTACH")
    for session in s.session_of(box):
        s.end_session(session.id, 9)
    id, _ = s.exec_send(box, key="k")
    assert s.get(box, key="x").name == "SANDBOX"  # so it has read what came before
    s.send_keys([key_line("x")])
    assert refused(s.result(id), 401) == "the key was revoked"


def test_run_of_a_revoked_key_leaves_nothing(start, engine):
    s = start(keys=[key_line("k"), key_line("x")], hold=["S_EXEC"])
    run = box_as(s, "k", run=1)
    s.result(s.exec_send(run, key="k")[0])
    assert wait_until(lambda: s.held)
    s.send_keys([key_line("x")])
    assert wait_until(engine.empty), engine.containers


def test_strange_scopes_and_texts_of_apid_are_fatal(start):
    s = start(keys=[key_line("k")])
    s.send("AUTH", {"scope": 1 << 5}, key="k")
    assert s.p.wait(30) not in (0, None)
    assert "a scope that is none" in s.p.log()
