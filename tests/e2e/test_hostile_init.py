"""A PID 1 that breaks the guest protocol in every way: an error for that sandbox, nothing for anybody else."""

import time

import images
import pytest
from harness import BUILD, Server, check_error
from machine import SLACK, alive, wait_until

BREACHES = ["magic", "checksum", "length", "type", "direction", "strange-channel", "high-channel", "channel-zero", "window", "credit", "short-exit",
            "exit-code", "hello-again", "stat", "stat-flood", "end", "meta", "entry", "die"]  # fmt: skip


@pytest.fixture(scope="module")
def hostile(engine):
    """A server whose containers run the hostile PID 1; with a second, honest server to compare."""
    images.tiny(engine, "hostile:1")
    s = Server(engine, programs=BUILD / "tests/hostile", DEFAULT_IMAGE="hostile:1", MAX_SNAPSHOT_BYTES=5_000_000).start()
    yield s
    s.close()


@pytest.fixture
def untouched(hostile):
    """The programs are the same ones before and after, and use no more memory or descriptors."""
    before = hostile.pids()
    memory, descriptors = hostile.memory(), hostile.descriptors()
    yield
    for name in ("agent-sandboxd", "apid", "managerd", "dockerd-proxy", "egressd", "keyd"):
        # What the parent starts bears its name for a moment.
        assert wait_until(lambda name=name: hostile.pids()[name] == before[name]), f"{name} was restarted:\n{hostile.tail()}"
    hostile.api.clear()
    assert wait_until(lambda: hostile.descriptors() <= descriptors + 2), (descriptors, hostile.descriptors())
    assert hostile.memory() < memory + 4096
    hostile.clean()


@pytest.fixture
def box(hostile, untouched):
    b = hostile.api.create(memory_mb=64)
    assert b.exec(["hello"])["stdout"] == "hello", "without a breach it works"
    return b


@pytest.mark.parametrize("breach", [*BREACHES, "twice", "after"])
def test_breach_in_a_command_ends_that_session_only(hostile, box, breach):
    other = hostile.api.create(memory_mb=64)
    began = time.monotonic()
    answer = box.post_exec([breach], timeout_seconds=3)
    assert time.monotonic() - began < 10 + SLACK
    assert answer.status_code in ((200, 502) if breach in ("twice", "after", "stat", "hello-again") else (502,)), answer.text
    if answer.status_code == 200:
        assert 0 <= answer.json()["exit_code"] <= 255
    assert other.exec(["hello"])["stdout"] == "hello"
    if breach != "stat-flood":
        assert wait_until(lambda: box.post_exec(["hello"], timeout_seconds=3).status_code == 200), "not usable again"
    assert box.delete().status_code == 204


@pytest.mark.parametrize("breach", [*BREACHES, "more", "less", "negative", "status"])
@pytest.mark.parametrize("verb", ["read", "write", "list", "archive"])
def test_breach_in_a_file_transfer_looks_broken_and_costs_nobody_else(hostile, box, verb, breach):
    import requests

    began = time.monotonic()
    try:
        if verb == "read":
            answer = box.read(breach)
        elif verb == "write":
            answer = box.write(breach, b"x" * 100_000)
        elif verb == "list":
            answer = box.files(breach)
        else:
            answer = box.api.ask("GET", box.path + "/files/archive", params={"path": breach})
        assert answer.status_code >= 400, (answer.status_code, answer.content[:100])
    except requests.RequestException:
        pass
    assert time.monotonic() - began < 10 + SLACK
    fresh = hostile.api.fresh().create(memory_mb=64)
    assert fresh.exec(["hello"])["stdout"] == "hello"


def test_command_without_an_answer_ends_by_its_timeout(hostile, box):
    began = time.monotonic()
    answer = box.post_exec(["silence"], timeout_seconds=1)
    assert time.monotonic() - began < 15 + SLACK
    assert answer.status_code >= 400 or answer.json()["timed_out"], answer.text


def test_endless_snapshot_is_cut_at_the_limit_and_not_kept(hostile, box):
    check_error(box.post_snapshot(), 413)
    assert hostile.api.snapshot_ids() == []


@pytest.mark.limit(120)
@pytest.mark.parametrize("mode", ["nonce", "version", "mute", "babble"])
def test_first_words_that_are_wrong_fail_the_create_and_leave_nothing(engine, hostile, untouched, mode):
    ref = images.tiny(engine, f"hostile:{mode}", members={"mode": mode.encode()})
    began = time.monotonic()
    answer = hostile.api.post_sandbox({"image": ref, "memory_mb": 64}, timeout=100)
    assert answer.status_code == 502, answer.text
    assert time.monotonic() - began < 45 + SLACK
    hostile.clean()


def test_flood_costs_little_processor_time(hostile, box):
    import threading

    t = threading.Thread(target=lambda: box.post_exec(["stat-flood"], timeout_seconds=2))
    t.start()
    time.sleep(0.5)
    other = hostile.api.fresh().create(memory_mb=64)
    began = time.monotonic()
    for _ in range(20):
        assert other.exec(["hello"])["stdout"] == "hello"
    assert time.monotonic() - began < 5 + SLACK
    t.join(30)
    assert all(alive(p) for p in hostile.tree())
