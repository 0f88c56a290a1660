"""Sandboxes from create to the end."""

import re
import time
from datetime import datetime

import pytest
from harness import Api, at_once, check_error
from machine import SLACK, command_line, read, wait_until

pytestmark = pytest.mark.core
FIELDS = {
    "id", "status", "image", "cpus", "memory_mb", "pids_limit", "network", "read_only_rootfs", "created_at", "expires_at",
    "source_snapshot_id", "labels", "backend", "egress_allowlist",
}  # fmt: skip


def seconds(stamp):
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", stamp), stamp
    return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


def test_created_sandbox_is_described_whole_and_found_again(api, make):
    b = make(cpus=0.5, memory_mb=96, pids_limit=40, read_only_rootfs=False, timeout_seconds=99, labels={"a": "b"}, env={"X": "y"})
    assert FIELDS <= set(b.data)
    want = {"status": "running", "cpus": 0.5, "memory_mb": 96, "pids_limit": 40, "network": False, "read_only_rootfs": False,
            "image": "python:3.12-slim", "source_snapshot_id": None, "labels": {"a": "b"}, "backend": "docker"}  # fmt: skip
    assert {k: b.data[k] for k in want} == want
    assert re.fullmatch(r"sb_[0-9a-f]{16}", b.id)
    assert b.get().json() == b.data and b.data in api.list()
    assert seconds(b.data["expires_at"]) - seconds(b.data["created_at"]) == pytest.approx(99, abs=0.5)
    assert b.sh("echo $X") == "y\n"


def test_nothing_given_means_the_documented_defaults(api, make):
    for body in ({}, None, {"image": None, "cpus": None, "memory_mb": None, "pids_limit": None, "timeout_seconds": None, "env": None,
                            "network": None, "read_only_rootfs": None, "labels": None, "egress_allowlist": None}):  # fmt: skip
        kwargs = {"json": body} if body is not None else {}
        answer = api.note(api.ask("POST", "/v1/sandboxes", **kwargs))
        assert answer.status_code == 201, answer.text
        d = answer.json()
        assert (d["cpus"], d["memory_mb"], d["pids_limit"], d["network"], d["read_only_rootfs"]) == (1.0, 512, 256, False, True)
        assert seconds(d["expires_at"]) - seconds(d["created_at"]) == pytest.approx(900, abs=0.5)
        api.clear()


@pytest.mark.parametrize(
    "body, status, word",
    [
        ({"memory_mb": 15}, 422, "memory_mb"), ({"memory_mb": 4097}, 400, "memory_mb"), ({"memory_mb": "1"}, 422, "memory_mb"),
        ({"memory_mb": True}, 422, "memory_mb"), ({"memory_mb": 10**25}, 400, "number"), ({"memory_mb": 64.5}, 422, "memory_mb"),
        ({"cpus": 0}, 422, "cpus"), ({"cpus": -1}, 422, "cpus"), ({"cpus": 4.01}, 400, "cpus"), ({"cpus": "1"}, 422, "cpus"),
        ({"pids_limit": 7}, 422, "pids_limit"), ({"pids_limit": 4097}, 400, "pids_limit"),
        ({"timeout_seconds": 0}, 422, "timeout_seconds"), ({"timeout_seconds": 86401}, 400, "timeout_seconds"),
        ({"timeout_seconds": 1.5}, 422, "timeout_seconds"), ({"timeout_seconds": -(10**40)}, 400, "number"),
        ({"network": "yes"}, 422, "network"), ({"read_only_rootfs": 1}, 422, "read_only_rootfs"),
        ({"image": 1}, 422, "image"), ({"image": ""}, 400, "image"), ({"env": []}, 422, "env"), ({"env": {"A": 1}}, 422, "env"),
        ({"env": {"": "1"}}, 400, "env"), ({"env": {"A=B": "1"}}, 400, "env"), ({"env": {"A": "a\0b"}}, 400, "env"),
        ({"labels": {"a": 1}}, 422, "labels"), ({"labels": {"n" * 64: ""}}, 400, "labels"), ({"labels": {"n": "v" * 256}}, 400, "labels"),
        ({"labels": {f"l{i}": "" for i in range(65)}}, 400, "labels"), ({"env": {f"E{i}": "" for i in range(257)}}, 400, "env"),
        ({"egress_allowlist": ["example.com:0"]}, 400, "example.com:0"),
        ({"egress_allowlist": ["127.0.0.1"]}, 400, "loopback"),
        ({"egress_allowlist": ["example.com"], "network": True}, 400, "network"),
        ({"privileged": True}, 422, "privileged"), ({"volumes": ["/:/h"]}, 422, "volumes"), ({"runtime": "x"}, 422, "runtime"),
    ],
)  # fmt: skip
def test_create_outside_type_or_policy_is_refused_by_name(api, body, status, word):
    answer = api.post_sandbox(body)
    assert word in check_error(answer, status)


def test_time_to_live_is_renewed_from_now(make):
    b = make(timeout_seconds=50)
    for ttl in (500, 70):
        answer = b.api.ask("POST", b.path + "/timeout", json={"timeout_seconds": ttl})
        assert answer.status_code == 200
        assert seconds(answer.json()["expires_at"]) == pytest.approx(time.time() + ttl, abs=2 + SLACK)
        assert b.get().json()["expires_at"] == answer.json()["expires_at"]
    for bad, status in ((0, 422), (86401, 400), ("1", 422), (None, 422)):
        check_error(b.api.ask("POST", b.path + "/timeout", json={"timeout_seconds": bad}), status)
    check_error(b.api.ask("POST", b.path + "/timeout", json={}), 422)


def test_expired_sandbox_ends_and_says_why_to_who_asks(own):
    s = own()
    b = s.api.create(timeout_seconds=1)
    assert wait_until(lambda: b.get().status_code == 404)
    assert check_error(b.get(), 404) == f"sandbox {b.id} not found"
    assert "ttl" in check_error(b.get("?detail=true"), 410)
    s.clean()
    assert s.on_engine() == ([], [])


def test_stream_and_exec_of_a_sandbox_that_expires_end_with_an_error_and_no_exit(own):
    b = own().api.create(timeout_seconds=6)
    calls = (
        lambda: b.stream("echo on; sleep 25", timeout_seconds=30).all(),
        lambda: b.post_exec("sleep 25", timeout_seconds=30),
    )
    events, answer = at_once(calls)
    assert [e["type"] for e in events] == ["stdout", "error"] and events[-1]["data"] == f"sandbox {b.id} expired"
    assert check_error(answer, 409) == f"sandbox {b.id} expired"


def test_list_is_oldest_first_with_labels_pages_and_cursor(api, make):
    mark = str(time.time_ns())
    made = [make(memory_mb=32, labels={"run": mark, "n": str(i)}).id for i in range(3)]
    assert [s["id"] for s in api.list(f"?label=run={mark}")] == made
    first = api.ask("GET", f"/v1/sandboxes?label=run={mark}&limit=2").json()
    assert [s["id"] for s in first["sandboxes"]] == made[:2] and isinstance(first["next_cursor"], str)
    rest = api.ask("GET", f"/v1/sandboxes?label=run={mark}&limit=2&cursor={first['next_cursor']}").json()
    assert [s["id"] for s in rest["sandboxes"]] == made[2:] and rest["next_cursor"] is None


def test_delete_is_prompt_with_commands_running_and_leaves_nothing(server, make):
    b = make()
    b.sh("trap '' TERM HUP; setsid sleep 300 >/dev/null 2>&1 & sleep 300 >/dev/null 2>&1 &")
    events = b.stream("trap '' TERM; echo up; sleep 300")
    assert events.next()["data"] == "up\n"
    start = time.monotonic()
    assert b.delete().status_code == 204
    assert time.monotonic() - start < 5 + SLACK
    assert events.all()[-1]["type"] == "error"
    check_error(b.get(), 404)
    check_error(b.post_exec("true"), 404)
    assert "deleted" in check_error(b.get("?detail=true"), 410)
    assert not server.containers(b.id)


def test_deletes_at_the_same_time_are_one_delete(make):
    b = make(memory_mb=64)
    got = [r.status_code for r in at_once([b.delete] * 5)]
    assert 204 in got and set(got) <= {204, 404, 409}
    check_error(b.get(), 404)


def test_same_idempotency_key_gives_the_same_sandbox_also_at_once(api):
    head = {"Idempotency-Key": f"key-{time.time_ns()}"}
    got = at_once([lambda: api.post_sandbox({"memory_mb": 64}, head)] * 6)
    assert {r.status_code for r in got} == {201} and len({r.json()["id"] for r in got}) == 1
    assert api.post_sandbox({"memory_mb": 64}, head).json()["id"] == got[0].json()["id"]
    assert "Idempotency-Key" in check_error(api.post_sandbox({"memory_mb": 65}, head), 409)


def test_fifty_creates_and_forks_at_once_against_a_quota_of_five_give_exactly_five(own):
    s = own(MAX_SANDBOXES=5)
    first = s.api.create(memory_mb=32)
    snap = first.snapshot()
    first.delete()
    calls = [lambda: s.api.post_sandbox({"memory_mb": 32})] * 25 + [lambda: s.api.post_fork(snap)] * 25
    got = at_once(calls)
    status = sorted(r.status_code for r in got)
    assert status == [201] * 5 + [429] * 45, status
    refused = next(r for r in got if r.status_code == 429)
    check_error(refused, 429)
    assert int(refused.headers["Retry-After"]) >= 1
    assert len(s.api.ids()) == 5
    s.clean()
    s.api.ask("DELETE", f"/v1/sandboxes/{s.api.ids()[0]}")
    assert s.api.post_sandbox({"memory_mb": 32}).status_code == 201


def test_cycles_leave_no_descriptor_memory_volume_or_container(own):
    s = own()

    def cycle():
        b = s.api.create(memory_mb=64)
        b.sh("echo x > f")
        b.put("g", b"y" * 100_000)
        b.content("g")
        snap = b.snapshot()
        b.rollback(snap)
        assert b.delete().status_code == 204
        s.api.ask("DELETE", f"/v1/snapshots/{snap}")

    for _ in range(3):
        cycle()
    assert wait_until(lambda: s.on_engine() == ([], []))
    descriptors, memory = s.descriptors(), s.memory()
    for _ in range(5):
        cycle()
    assert wait_until(lambda: s.on_engine() == ([], []))
    # Fewer than one a cycle: connections to the engine, and of a proxy in front, are kept and come and go.
    assert wait_until(lambda: s.descriptors() < descriptors + 5), (descriptors, s.descriptors())
    assert wait_until(lambda: s.memory() < memory + 2048), (memory, s.memory())


def test_unknown_image_is_named_and_leaves_nothing(server, api):
    before = server.on_engine()
    for image in ("no-such-image-here:1", "library/none@sha256:" + "0" * 64, "UPPER", "a b", "-x"):
        assert image in check_error(api.post_sandbox({"image": image}), 400)
    check_error(api.post_sandbox({"image": "x" * 600}), 400)
    assert all(set(now) <= set(was) for now, was in zip(server.on_engine(), before, strict=True))


def test_image_and_network_policy_is_403_at_create_and_fork(own):
    s = own(ALLOWED_IMAGES="python:*,tiny:*", ALLOW_NETWORK="false")
    for image in ("alpine", "x/python:3", "pythons:1"):
        assert image in check_error(s.api.post_sandbox({"image": image}), 403)
    check_error(s.api.post_sandbox({"network": True}), 403)
    b = s.api.create()
    check_error(s.api.post_fork(b.snapshot(), network=True), 403)


def test_sandboxes_do_not_see_each_other(make):
    a, b = make(memory_mb=64), make(memory_mb=64)
    a.sh("sleep 4711.5 >/dev/null 2>&1 & echo secret > f")
    assert wait_until(lambda: a.running("4711.5") == 1) and b.running("4711.5") == 0
    assert b.names() == []


def test_other_key_of_the_same_server_sees_all(own):
    s = own(API_KEYS="key-one-aaaaaaaaaaaa, key-two-bbbbbbbbbbbb,")
    one, two = Api(s.url, "key-one-aaaaaaaaaaaa"), Api(s.url, "key-two-bbbbbbbbbbbb")
    s.api.key = one.key
    b = one.create(memory_mb=64)
    assert two.ids() == [b.id]
    check_error(Api(s.url, "key-one-aaaaaaaaaaab").ask("GET", "/v1/sandboxes"), 401)
    seen = s.tail(100_000) + "".join(command_line(p) for p in s.tree())
    seen += "".join(read(p, "environ").decode(errors="replace") for p in s.tree()[1:])
    for f in s.data.rglob("*"):
        seen += f.read_text(errors="replace") if f.is_file() else ""
    assert "key-one-a" not in seen and "key-two-b" not in seen
