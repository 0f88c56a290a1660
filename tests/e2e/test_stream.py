"""Streamed commands."""

import time

import pytest
from harness import at_once, check_error, text
from machine import wait_until


@pytest.mark.core
def test_lines_come_while_the_command_runs_and_exit_comes_once(box):
    events = box.stream("echo one; while [ ! -e read ]; do sleep 0.05; done; echo two >&2; exit 4")
    assert events.next() == {"type": "stdout", "data": "one\n"}
    box.put("read", b"")
    rest = events.all()
    assert rest[0] == {"type": "stderr", "data": "two\n"}
    assert set(rest[-1]) == {"type", "exit_code", "timed_out", "duration_ms"}
    assert (rest[-1]["type"], rest[-1]["exit_code"], rest[-1]["timed_out"]) == ("exit", 4, False)
    assert [e["type"] for e in rest].count("exit") == 1 and events.cut is None


@pytest.mark.gate
def test_answer_says_what_it_is_and_is_not_buffered_by_proxies(box):
    events = box.stream("true")
    head = events.answer.headers
    assert head["Content-Type"].split(";")[0] == "application/x-ndjson" and head["X-Accel-Buffering"] == "no"
    events.all()


def test_characters_are_never_split(box):
    slow = "import os,time\nfor b in 'ä☕😀'.encode(): os.write(1, bytes([b])); time.sleep(.03)"
    events = box.stream(["python3", "-c", slow]).all()
    assert text(events) == "ä☕😀"
    big = "import sys; sys.stdout.write('☕' * 200_000)"
    assert text(box.stream(["python3", "-c", big]).all()) == "☕" * 200_000


def test_each_stream_keeps_its_order(box):
    events = box.stream("for i in $(seq 500); do echo o$i; echo e$i >&2; done").all()
    assert text(events).split() == [f"o{i}" for i in range(1, 501)]
    assert text(events, "stderr").split() == [f"e{i}" for i in range(1, 501)]


def test_timeout_is_one_exit_line_after_what_was_printed(box):
    events = box.stream("echo part; sleep 60", timeout_seconds=1).all()
    assert events[0]["data"] == "part\n"
    last = events[-1]
    assert (last["type"], last["exit_code"], last["timed_out"]) == ("exit", 137, True)


def test_refusal_is_a_status_before_any_line(box, api):
    check_error(api.ask("POST", "/v1/sandboxes/sb_0000000000000000/exec/stream", json={"command": "true"}), 404)
    check_error(box.post_stream("true", workdir="/none"), 400)
    check_error(box.post_stream(""), 400)


def test_deleted_sandbox_ends_its_streams_with_an_error_and_no_exit(make):
    b = make(memory_mb=64)
    streams = [b.stream("echo on; sleep 99") for _ in range(3)]
    for e in streams:
        e.next()
    assert b.delete().status_code == 204
    for e in streams:
        lines = e.all()
        assert [x["type"] for x in lines] == ["error"] and lines[0]["data"] and e.cut is None


def test_sixty_four_streams_at_once_are_all_complete(make):
    boxes = [make(memory_mb=128) for _ in range(2)]
    want = "".join(f"{i}\n" for i in range(1, 2001))

    def one(b):
        events = b.stream("seq 2000; sleep 1; seq 2000")
        lines = events.all()
        return text(lines), lines[-1]["type"], events.cut

    got = at_once([lambda b=b: one(b) for b in boxes for _ in range(32)])
    assert got == [(want * 2, "exit", None)] * 64


@pytest.mark.limit(120)
def test_reader_that_does_not_read_stops_the_command_and_not_the_others(own):
    s = own()
    b = s.api.create()
    b.exec("true")
    before = s.memory()
    events = b.stream("for i in $(seq 64); do head -c 16777216 /dev/zero; echo $i > progress; done", timeout=100)

    def progress():
        return b.content("progress") if "progress" in b.names() else b""

    def stands():
        before = progress()
        time.sleep(1.5)
        return progress() == before

    assert wait_until(stands) and progress() != b"64\n", "it was not stopped"
    assert b.sh("echo still") == "still\n"
    assert s.memory() < before + 6 * 1024, (before, s.memory())
    events.close()


@pytest.mark.limit(180)
def test_one_gibibyte_of_output_passes_and_memory_stays_flat(own):
    s = own()
    b = s.api.create()
    b.exec("true")
    before, size, most, last = s.memory(), 0, 0, b""
    events = b.stream("head -c 1073741824 /dev/zero | tr '\\0' Q", timeout=170, timeout_seconds=170)
    for n, piece in enumerate(events.answer.iter_content(1 << 20)):
        size += piece.count(b"Q")
        last = (last + piece)[-300:]
        if n % 200 == 0:
            most = max(most, s.memory())
    assert size == 1 << 30
    assert b'"exit_code":0' in last.replace(b" ", b"")
    assert most < before + 8 * 1024, (before, most)
