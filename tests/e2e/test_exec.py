"""Running commands."""

import base64
import hashlib
import json
import time

import pytest
from harness import at_once, check_error, text
from machine import SLACK, command_line, everyone, wait_until

RESULT = {"stdout", "stderr", "exit_code", "timed_out", "truncated", "duration_ms"}


@pytest.mark.core
def test_result_has_exactly_its_six_fields(box):
    r = box.exec("echo out; echo err >&2; exit 3")
    assert set(r) == RESULT
    assert (r["stdout"], r["stderr"], r["exit_code"], r["timed_out"], r["truncated"]) == ("out\n", "err\n", 3, False, False)
    assert isinstance(r["duration_ms"], int)


@pytest.mark.core
def test_argv_is_run_as_it_is(box):
    args = ["$HOME", "*", "", "a b", "`id`", "\\", "'", '"', "é", "-c", "\n"]
    assert json.loads(box.sh(["python3", "-c", "import json,sys; print(json.dumps(sys.argv[1:]))", *args])) == args


@pytest.mark.parametrize(
    "command, code",
    [
        (["/no/such"], 127), (["nonsuch"], 127), ("nonsuch", 127), (["/etc/passwd"], 126), (["/workspace"], 126),
        ("exit 42", 42), ("exit 255", 255), ("kill -SEGV $$", 139), ("kill -TERM $$", 143), ("kill -KILL $$", 137),
    ],
)  # fmt: skip
def test_exit_code_is_the_commands_own(box, command, code):
    r = box.exec(command)
    assert (r["exit_code"], r["timed_out"]) == (code, False)


@pytest.mark.parametrize(
    "body, status, word",
    [
        ({}, 422, "command"), ({"command": None}, 422, "command"), ({"command": 1}, 422, "command"), ({"command": [1]}, 422, "command"),
        ({"command": ""}, 400, "command"), ({"command": []}, 400, "command"), ({"command": " \t"}, 400, "command"),
        ({"command": "a\0b"}, 400, "command"), ({"command": "true", "x": 1}, 422, "x"), ({"command": "true", "env": {"A": 5}}, 422, "env"),
        ({"command": "true", "env": {"=": ""}}, 400, "env"), ({"command": "true", "workdir": 1}, 422, "workdir"),
        ({"command": "true", "timeout_seconds": 0}, 422, "timeout_seconds"),
        ({"command": "true", "timeout_seconds": 3601}, 400, "timeout_seconds"),
        ({"command": "true", "timeout_seconds": "1"}, 422, "timeout_seconds"),
        ({"command": "true", "stdin": 7}, 422, "stdin"),
    ],
)  # fmt: skip
def test_wrong_request_is_refused_by_name_in_both_forms(box, body, status, word):
    for tail in ("/exec", "/exec/stream"):
        assert word in check_error(box.api.ask("POST", box.path + tail, json=body), status)


def test_workdir_is_relative_to_the_workspace_and_must_be_a_usable_folder(box):
    box.sh("mkdir -p sub/deep; touch file; mkdir shut; chmod 000 shut")
    assert box.sh("pwd") == "/workspace\n"
    assert box.sh("pwd", workdir="sub/deep") == "/workspace/sub/deep\n"
    assert box.sh("pwd", workdir="/tmp") == "/tmp\n"
    for bad in ("/none", "file", "shut", "none/deep"):
        assert bad in check_error(box.post_exec("true", workdir=bad), 400)
    box.sh("chmod 755 shut")


def test_environment_has_defaults_then_sandbox_then_exec(make):
    b = make(memory_mb=64, env={"A": "box", "B": "box"})
    got = json.loads(b.python("import json,os; print(json.dumps(dict(os.environ)))", env={"B": "exec", "C": "x=y\n'\""}))
    assert (got["A"], got["B"], got["C"], got["HOME"]) == ("box", "exec", "x=y\n'\"", "/workspace")
    assert "/usr/bin" in got["PATH"]
    assert b.sh("echo $HOME", env={"HOME": "/tmp"}) == "/tmp\n"


def test_too_long_arguments_are_413_and_the_bounds_hold(box):
    assert box.sh(["python3", "-c", "import sys; print(len(sys.argv[1]))", "x" * (128 * 1024 - 1)]) == f"{128 * 1024 - 1}\n"
    check_error(box.post_exec(["echo", "x" * (128 * 1024)]), 413)
    check_error(box.post_exec(["echo", *["y" * 60_000] * 5]), 413)
    many = ["z" * 1000] * 200
    assert box.sh(["python3", "-c", "import sys; print(len(sys.argv))", *many]) == "201\n"


def test_timeout_kills_every_descendant_and_keeps_what_was_printed(box):
    started = time.monotonic()
    r = box.exec(
        "trap '' TERM HUP INT; echo before; echo side >&2; setsid sleep 5151.1 & (sleep 5151.2 & ) & "
        "python3 -c \"import os,time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); time.sleep(900)\" 5151.3 & "
        "sleep 5151.4",
        timeout_seconds=1,
    )  # fmt: skip
    assert 0.9 < time.monotonic() - started < 4 + SLACK
    assert (r["stdout"], r["stderr"], r["exit_code"], r["timed_out"]) == ("before\n", "side\n", 137, True)
    assert wait_until(lambda: not any(box.running(f"5151.{i}") for i in (1, 2, 3, 4)))


@pytest.mark.core
def test_background_job_neither_holds_the_call_nor_dies_with_it(box):
    started = time.monotonic()
    assert box.sh("sleep 5252.5 & echo hi") == "hi\n"
    assert time.monotonic() - started < 3 + SLACK
    assert wait_until(lambda: box.running("5252.5") == 1)


@pytest.mark.core
def test_stdin_is_empty_unless_given_and_arrives_whole(box):
    assert box.sh("cat; echo end") == "end\n"
    data = "zeile é\n" * 40_000
    digest = hashlib.sha256(data.encode()).hexdigest()
    assert box.sh(["sha256sum"], stdin=data).split()[0] == digest
    assert box.sh("true", stdin=data) == ""
    assert box.sh("head -c 3", stdin="abcdef") == "abc"


def test_stdin_as_the_raw_body_is_streamed_with_its_end(box):
    ask = base64.urlsafe_b64encode(json.dumps({"command": ["sha256sum"]}).encode()).decode().rstrip("=")
    data = bytes(range(256)) * 20_000

    def pieces():
        for i in range(0, len(data), 70_001):
            yield data[i : i + 70_001]

    for body in (data, pieces()):
        answer = box.api.ask("POST", f"{box.path}/exec/stream?request={ask}", data=body, stream=True)
        assert answer.status_code == 200
        events = [json.loads(line) for line in answer.iter_lines()]
        assert text(events).split()[0] == hashlib.sha256(data).hexdigest() and events[-1]["exit_code"] == 0
    check_error(box.api.ask("POST", f"{box.path}/exec/stream?request=!!!", data=b""), 400, 422)


def test_kill_others_ends_every_other_process_first(box):
    box.sh("setsid sleep 5353.5 >/dev/null 2>&1 &")
    assert wait_until(lambda: box.running("5353.5") == 1)
    ask = base64.urlsafe_b64encode(b'{"command":"echo alone"}').decode()
    answer = box.api.ask("POST", f"{box.path}/exec/stream?request={ask}&kill_others=true", data=b"", stream=True)
    assert answer.status_code == 200 and text([json.loads(x) for x in answer.iter_lines()]) == "alone\n"
    assert box.running("5353.5") == 0


def test_output_that_is_not_text_is_replaced_or_exact_on_demand(box):
    assert box.sh(r"printf 'a\377b\303\251\342\202'") == "a\ufffdbé\ufffd"
    source = "import os; os.write(1, bytes(range(256))*300); os.write(2, b'\\xff\\x00')"
    r = box.exec(["python3", "-c", source], "?encoding=base64")
    assert base64.b64decode(r["stdout"]) == bytes(range(256)) * 300 and base64.b64decode(r["stderr"]) == b"\xff\x00"


def test_output_over_the_limit_is_cut_while_the_command_goes_on(own):
    s = own(MAX_EXEC_OUTPUT_BYTES=100_000)
    b = s.api.create()
    r = b.exec("head -c 300000 /dev/zero | tr '\\0' a; echo tail >&2; touch done; exit 9")
    assert r["truncated"] and r["exit_code"] == 9 and len(r["stdout"]) + len(r["stderr"]) <= 100_000
    assert set(r["stdout"]) == {"a"} and b.names() == ["done"]
    assert not b.exec("head -c 100000 /dev/zero | tr '\\0' a")["truncated"]
    r = b.exec("head -c 300000 /dev/zero | tr '\\0' a", "?detail=true")
    assert r["omitted_bytes"] == 200_000


def test_details_come_only_when_asked_for(box):
    r = box.exec("kill -SEGV $$", "?detail=true")
    assert r["signal"] == "SEGV" and r["oom_killed"] is False and {"cpu_ms", "peak_memory_bytes"} <= set(r["usage"])
    assert box.exec("true", "?detail=true")["signal"] is None
    assert set(box.exec("true")) == RESULT


def test_many_commands_at_once_do_not_mix(box):
    got = at_once([lambda i=i: box.exec(f"for k in 1 2 3 4 5; do echo {i}-$k; done; exit {i}") for i in range(16)])
    for i, r in enumerate(got):
        assert (r["exit_code"], r["stdout"]) == (i, "".join(f"{i}-{k}\n" for k in range(1, 6)))


def test_more_commands_than_there_is_room_for_are_429_and_files_still_work(own):
    s = own()
    b = s.api.create(pids_limit=1000)
    streams = [b.stream("echo on; sleep 100") for _ in range(56)]
    for e in streams:
        assert e.next()["data"] == "on\n"
    check_error(b.post_exec("true"), 429)
    b.put("f", b"1")
    assert b.content("f") == b"1" and b.names() == ["f"]
    for e in streams:
        e.close()
    assert wait_until(lambda: b.post_exec("true").status_code == 200)


@pytest.mark.core
def test_client_that_leaves_ends_its_command_unless_it_asked_otherwise(box):
    events = box.stream("sleep 5454.5 & echo on; sleep 2; touch no; wait")
    assert events.next()["data"] == "on\n"
    events.close()
    assert wait_until(lambda: box.running("5454.5") == 0)
    events = box.stream("echo on; sleep 1; echo more; touch yes", "?on_disconnect=continue")
    assert events.next()["data"] == "on\n"
    events.close()
    assert wait_until(lambda: box.names() == ["yes"])


def test_waiting_exec_of_a_deleted_sandbox_says_so(make):
    b = make(memory_mb=64)

    def later():
        assert wait_until(lambda: b.running("5555.5") == 1)
        return b.delete()

    answer, gone = at_once([lambda: b.post_exec("sleep 5555.5"), later])
    assert gone.status_code == 204
    assert "deleted" in check_error(answer, 409)


def test_orphans_are_reaped(box):
    box.sh("i=0; while [ $i -lt 300 ]; do (true &); i=$((i+1)); done")
    assert wait_until(lambda: box.sh("cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z ' || true").strip() == "0")


def test_secret_in_the_environment_is_in_no_command_line_and_not_on_the_engine(server, make):
    secret = "sehr-geheim-1234567"
    b = make(memory_mb=64, env={"BOX": secret})
    events = b.stream("echo on; sleep 20", env={"EXEC": secret})
    assert events.next()["data"] == "on\n"
    lines = "".join(command_line(p) for p in everyone())
    name = server.containers(b.id)[0]
    lines += json.dumps(server.engine.call("GET", f"/containers/{name}/json"))
    events.close()
    assert secret not in lines
