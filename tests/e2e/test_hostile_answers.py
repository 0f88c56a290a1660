"""A PID 1 that keeps to the letter of the guest protocol and means ill: endless, slow, silent, or with answers that are none."""

import json
import threading
import time

import images
import pytest
import requests
from harness import BUILD, Server, check_error
from machine import SLACK, wait_until


@pytest.fixture(scope="module")
def hostile(engine):
    images.tiny(engine, "hostile:1")
    s = Server(engine, programs=BUILD / "tests/hostile", DEFAULT_IMAGE="hostile:1", MAX_SNAPSHOT_BYTES=5_000_000).start()
    yield s
    s.close()


@pytest.fixture
def box(hostile):
    b = hostile.api.create(memory_mb=64)
    yield b
    hostile.api.fresh().clear()


class Other:
    """Another sandbox of the same server meanwhile: each of its commands must be answered soon."""

    def __init__(self, server):
        self.box, self.slowest, self.done = server.api.create(memory_mb=64), 0.0, False
        self.box.exec(["hello"])
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.done:
            began = time.monotonic()
            assert self.box.exec(["hello"])["stdout"] == "hello"
            self.slowest = max(self.slowest, time.monotonic() - began)
            time.sleep(0.05)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done = True
        self.thread.join(30)
        assert self.slowest < 3 + SLACK, self.slowest


def begin(call):
    """A request in a thread of its own; its answer or exception is in the list that is returned."""
    out = []

    def run():
        try:
            out.append(call())
        except requests.RequestException as exc:
            out.append(exc)

    t = threading.Thread(target=run, daemon=True)
    t.start()
    return out


@pytest.mark.parametrize("what", ["exec", "stream", "list", "archive"])
def test_endless_answer_costs_no_memory_and_delete_ends_it_at_once(hostile, box, what):
    calls = {
        "exec": lambda: box.post_exec(["endless"], timeout_seconds=30),
        "stream": lambda: box.api.fresh().ask("POST", box.path + "/exec/stream", json={"command": ["endless"]}, stream=True),
        "list": lambda: box.api.ask("GET", box.path + "/files/list", params={"path": "endless"}, stream=True),
        "archive": lambda: box.api.ask("GET", box.path + "/files/archive", params={"path": "endless"}, stream=True),
    }
    with Other(hostile):
        memory = hostile.memory()
        answers = [begin(calls[what]) for _ in range(3)]
        time.sleep(3)
        grown = hostile.memory() - memory
        began = time.monotonic()
        assert box.delete().status_code == 204
        assert time.monotonic() - began < 5 + SLACK
        assert wait_until(lambda: all(answers))
    assert grown < 3 * 16384, f"{grown} KiB more"


def test_stream_that_is_read_all_the_time_but_never_ends_costs_no_memory(hostile, box):
    with Other(hostile):
        answer = box.api.ask("GET", box.path + "/files/list", params={"path": "endless"}, stream=True)
        got, until, memory = 0, time.monotonic() + 4, hostile.memory()
        for piece in answer.iter_content(65536):
            got += len(piece)
            if time.monotonic() > until:
                break
        assert hostile.memory() < memory + 8192
        answer.close()
        assert got > 1_000_000
        assert box.delete().status_code == 204


@pytest.mark.parametrize("what", ["exec", "read", "silence", "deaf"])
def test_slow_or_silent_answer_does_not_delay_delete(hostile, box, what):
    with Other(hostile):
        answer = begin({
            "exec": lambda: box.post_exec(["drip"], timeout_seconds=50),
            "read": lambda: box.read("drip"),
            "silence": lambda: box.read("silence"),
            "deaf": lambda: box.post_exec(["deaf"], stdin="x" * 900_000, timeout_seconds=50),
        }[what])  # fmt: skip
        time.sleep(2)
        assert not answer
        began = time.monotonic()
        assert box.delete().status_code == 204
        assert time.monotonic() - began < 5 + SLACK
        assert wait_until(lambda: answer)
        if what in ("exec", "silence", "deaf"):
            check_error(answer[0], 409)
        else:
            assert isinstance(answer[0], requests.RequestException), "a download that is cut off looks whole"


def test_silent_sandbox_expires_in_time(hostile):
    b = hostile.api.create(memory_mb=64, timeout_seconds=3)
    answer = begin(lambda: b.read("silence"))
    assert wait_until(lambda: b.get().status_code in (404, 410))
    assert wait_until(lambda: answer)
    check_error(answer[0], 409)


@pytest.mark.gate
def test_download_that_is_one_byte_short_is_cut_off(box):
    with pytest.raises(requests.RequestException):
        assert box.read("cut").content is None


def test_part_at_the_far_end_of_an_impossible_size_is_handed_on_as_it_is(box):
    answer = box.read("far", headers={"Range": "bytes=5-14"})
    assert answer.status_code == 206 and answer.content == b"0123456789"
    answer = box.read("far")
    assert answer.status_code >= 400 or answer.headers["Content-Length"] == "10"


def test_odd_names_and_times_are_still_one_json_document(box):
    answer = box.files("names")
    assert answer.status_code == 200
    entries = json.loads(answer.text)["entries"]
    assert len(entries) == 6
    assert entries[0]["name"] == "\r\nSet-Cookie: a=b" and "Set-Cookie" not in answer.headers
    assert "\x1b" not in answer.text


@pytest.mark.parametrize("verb", ["file", "archive"])
def test_upload_that_is_called_done_unread_is_no_success(box, verb):
    if verb == "file":
        answer = box.write("unread", b"x" * 1_000_000)
    else:
        answer = box.api.ask("PUT", box.path + "/files/archive", params={"path": "unread"}, data=b"x" * 1_000_000)
    check_error(answer, 502)


@pytest.mark.parametrize("mode", ["disk-none", "disk-max"])
def test_free_space_that_is_nonsense_harms_nobody(hostile, box, mode):
    with Other(hostile):
        box.post_exec([mode])
        time.sleep(1)
        assert box.post_exec(["hello"]).status_code in (200, 507)
        assert hostile.api.healthy()


@pytest.mark.limit(120)
@pytest.mark.parametrize("mode", ["then-garbage", "then-mute", "then-version"])
def test_bad_manners_at_each_new_attachment_cost_little_and_do_not_delay_delete(hostile, box, mode):
    box.exec([mode])
    with Other(hostile):
        assert box.post_exec(["magic"]).status_code == 502
        used, memory = hostile.processor_time(), hostile.memory()
        time.sleep(5)
        assert hostile.processor_time() - used < 3
        assert hostile.memory() < memory + 8192
        began = time.monotonic()
        assert box.api.fresh().ask("DELETE", box.path).status_code == 204
        assert time.monotonic() - began < 5 + SLACK
