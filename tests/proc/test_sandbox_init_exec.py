"""sandbox-init: commands, from their start to the last of their descendants."""

import fcntl
import os
import signal
import time
from pathlib import Path

import guest
import layout
import pytest
from guest import refused
from machine import SLACK, descriptors, kib, processor_time, wait_until

pytestmark = guest.needs_root


@pytest.fixture(scope="module")
def box():
    with guest.Sandbox() as b:
        yield b


# Output, input, environment.


def test_both_streams_and_the_exit_code_come_back(box):
    r = box.run("echo out; echo err >&2; exit 7")
    assert (r.code, r.out, r.err) == (7, b"out\n", b"err\n")
    assert r.exit["timed_out"] == r.exit["oom_killed"] == r.exit["signal"] == 0


@pytest.mark.parametrize("code", [0, 1, 2, 125, 126, 127, 137, 255])
def test_exit_code_is_the_commands_own(box, code):
    assert box.run(f"exit {code}").code == code


@pytest.mark.parametrize("signo", [1, 6, 9, 11, 15])
def test_death_by_signal_is_128_plus_its_number(box, signo):
    r = box.py(f"import os; os.kill(os.getpid(), {signo})")
    assert (r.code, r.exit["signal"], r.exit["timed_out"]) == (128 + signo, signo, 0)


def test_missing_program_is_127_and_unrunnable_one_126(box):
    box.write("plain", b"text", mode=0o644)
    box.write("dir/x", b"")
    box.write("noformat", b"\x01\x02", mode=0o755)
    for argv in (["no-such-program"], ["/no/such"], ["./nope"], [""], ["/etc/passwd/x"]):
        r = box.run(argv)
        assert r.code == 127 and b"not found" in r.err, argv
    for argv in (["/etc/passwd"], ["/workspace"], ["./plain"], ["./noformat"]):
        assert box.run(argv).code == 126, argv
    assert box.run(["plain"], env={"PATH": "/nowhere:/workspace:/usr/bin"}).code == 126


def test_program_that_must_exist_and_does_not_is_an_error_with_its_name(box):
    box.write("plain", b"text", mode=0o644)
    box.write("noformat", b"\x01\x02", mode=0o755)
    box.write("nointerpreter", b"#!/no/such\n", mode=0o755)
    for name in ("no-such-program", "/no/such", "./nope", "", "/etc/passwd/x", "./nointerpreter"):
        assert refused(400, lambda name=name: box.run([name, "arg"], must_exist=1)) == f"no such program: {name}"
    for name, why in (
        ("./plain", "Permission denied"),
        ("/workspace", "Permission denied"),
        ("./noformat", "Exec format error"),
        ("x" * 300, "File name too long"),
    ):
        assert refused(400, lambda name=name: box.run([name], must_exist=1)) == f"{name} cannot be run: {why}"
    assert refused(400, lambda: box.run(["a\x1bb"], must_exist=1)) == "no such program: a?b"


@pytest.mark.parametrize("code", [0, 126, 127, 255])
def test_program_that_must_exist_and_does_keeps_its_exit_code_and_output(box, code):
    r = box.run(["sh", "-c", f"echo out; echo sh: not found >&2; exit {code}"], must_exist=1)
    assert (r.code, r.out, r.err) == (code, b"out\n", b"sh: not found\n")
    assert box.run(["sh", "-c", "kill -9 $$"], must_exist=1).code == 137


def test_many_that_must_exist_leave_nothing(box):
    before = descriptors(box.pid)
    for _ in range(50):
        refused(400, lambda: box.run(["no-such-program"], must_exist=1))
    assert wait_until(lambda: box.run("ls /proc | grep -c '^[0-9]'").out.strip() <= b"6")
    assert wait_until(lambda: (now := descriptors(box.pid)) and now.items() <= before.items())


def test_path_of_the_given_environment_is_searched(box):
    box.write("bin/mine", b"#!/bin/sh\necho mine $0\n", mode=0o755)
    assert box.run(["mine"], env={"PATH": "/nowhere:/workspace/bin"}).out == b"mine /workspace/bin/mine\n"
    assert box.run(["mine"], env={"PATH": ":/x"}, workdir="/workspace/bin").out == b"mine ./mine\n"
    ch = box.open()
    block = guest.args_block(["env"], {"A": "b"}, "/tmp")  # no PATH at all: the built-in one
    ch.send(layout.G_EXEC_ARGS, block)
    ch.send(layout.G_EXEC, layout.pack("g_exec", {"timeout_us": 10**7, "args_len": len(block)}))
    assert ch.wait().out == b"A=b\n"


def test_argv_and_environment_arrive_untouched(box):
    args = ["$HOME", "a b", "*", "", "-n", "x\ny", "'\"\\", "é", "\t"]
    r = box.py("import sys; print(ascii(sys.argv[1:]))", *args)
    assert eval(r.out) == args
    r = box.py("import os; print(ascii(dict(os.environb)))", env={"B": "=\n'\"", "E": ""})
    got = eval(r.out)
    assert got[b"B"] == b"=\n'\"" and got[b"E"] == b"" and got[b"HOME"] == b"/workspace"


def test_a_command_of_256_kib_is_run(box):
    r = box.py("import sys; print(sum(map(len, sys.argv)))", *["x" * 100_000, "y" * 100_000, "z" * 50_000])
    assert int(r.out) >= 250_000


def test_command_inherits_nothing_of_pid_1(box):
    code = """
import os
print(sorted(os.listdir('/proc/self/fd'))[:-1], os.getcwd(), oct(os.umask(0)))
print([l for l in open('/proc/self/status') if l.startswith(('SigB', 'SigI', 'SigP', 'ShdP'))])
print(open('/proc/self/oom_score_adj').read().strip(), os.getsid(0) == os.getpid() == os.getpgrp())
import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""
    lines = box.py(code).out.decode().splitlines()
    assert lines[0] == "['0', '1', '2'] /workspace 0o22"
    assert all(int(s.split()[1], 16) == 0 for s in eval(lines[1]) if "SigI" not in s)
    assert lines[2] == "1000 True" and lines[3] == "1"
    ignored = box.run(["grep", "SigIgn", "/proc/self/status"]).out
    assert int(ignored.split()[1], 16) == 0


def test_stdin_is_at_its_end_unless_given(box):
    start = time.monotonic()
    assert box.run("cat; echo done").out == b"done\n"
    assert time.monotonic() - start < 3 + SLACK


def test_stdin_arrives_whole_and_then_ends(box):
    data = os.urandom(3_000_000)
    assert box.run(["cat"], input=data).out == data


def test_command_that_does_not_read_its_stdin_breaks_nothing(box):
    """Its credit comes back all the same: 2 MB are four windows."""
    for command in ("true", "exec 0<&-; sleep 0.3; echo on", "head -c 10 >/dev/null; sleep 0.3; echo on"):
        r = box.run(command, input=bytes(2_000_000))
        assert r.code == 0 and r.out in (b"", b"on\n")


def test_stdin_of_one_command_is_not_held_open_by_another(box):
    first = box.exec(["cat"], stdin=True)
    first.wait_for(layout.G_STARTED)
    second = box.exec(["sleep", "300"])
    second.wait_for(layout.G_STARTED)
    first.send(layout.G_STDIN_END)
    assert first.wait(30).code == 0
    second.send(layout.G_KILL)
    second.wait()


def window_used(box, ch):
    """All that there is credit for has come, and no more comes."""
    box.until(lambda: len(ch.bytes(layout.G_STDOUT)) > layout.GUEST_WINDOW - 4096)
    box.settle(0.3)
    assert layout.GUEST_WINDOW - 4096 < len(ch.bytes(layout.G_STDOUT)) <= layout.GUEST_WINDOW and ch.final is None


def test_slow_client_slows_the_command_and_not_the_others(box):
    """No credit is given: the command stands still after a window and what two pipes hold."""
    ch = box.exec(["sh", "-c", "head -c 3000000 /dev/zero; echo err >&2"])
    ch.credit = False
    window_used(box, ch)
    assert box.run("echo quick").out == b"quick\n"
    ch.credit = True
    ch.give(layout.GUEST_WINDOW)
    r = ch.wait()
    assert len(r.out) == 3_000_000 and r.err == b"err\n"


def test_output_waits_for_credit_after_the_command_has_ended(box):
    size = layout.GUEST_WINDOW + 40_000
    ch = box.exec(["head", "-c", str(size), "/dev/zero"])
    ch.credit = False
    window_used(box, ch)
    ch.give(layout.GUEST_WINDOW)
    assert len(ch.wait().out) == size


def test_pipe_that_is_full_grows_and_shrinks_when_the_rush_is_over():
    """So that its reader finds whole pieces; but the pages of all pipes are counted."""
    with guest.Sandbox(pipe=True) as b:

        def size():
            return fcntl.fcntl(b.output.fd, fcntl.F_GETPIPE_SZ)

        assert size() == 65536
        ch = b.exec(["head", "-c", "5000000", "/dev/zero"])
        assert wait_until(lambda: size() == 4 * 65536)
        assert ch.wait().out == bytes(5_000_000)
        assert wait_until(lambda: size() == 65536)
        assert b.run("echo on").out == b"on\n"


def test_long_output_comes_in_full_frames(box):
    """The end of a frame that does not fit into a pipe waits for what follows, instead of travelling alone."""
    box.write("long", bytes(8_000_000))
    for ch, type in ((box.exec(["dd", "if=long", "bs=64k"]), layout.G_STDOUT), (box.file(layout.G_READ, "long"), layout.G_DATA)):
        ch.wait()
        sizes = [len(d) for t, d in ch.frames if t == type]
        assert sum(sizes) == 8_000_000 and len(sizes) < 8_000_000 // 65536 * 1.5


def test_last_bytes_of_the_credit_are_not_a_frame_of_their_own(box):
    ch = box.exec(["head", "-c", "3000000", "/dev/zero"])
    ch.credit = False
    window_used(box, ch)
    ch.give(layout.GUEST_WINDOW + 100 - len(ch.bytes(layout.G_STDOUT)))
    window_used(box, ch)
    assert all(len(d) >= 4096 for t, d in ch.frames if t == layout.G_STDOUT)
    ch.credit = True
    ch.give(65536)
    assert ch.wait().out == bytes(3_000_000)


def test_order_within_each_stream_is_kept(box):
    r = box.run("i=0; while [ $i -lt 500 ]; do echo $i; echo e$i >&2; i=$((i+1)); done")
    assert r.out.split() == [b"%d" % i for i in range(500)]
    assert r.err.split() == [b"e%d" % i for i in range(500)]


def test_fifty_six_commands_at_once_do_not_mix(box):
    channels = [box.exec(["sh", "-c", f"sleep 0.5; for i in 1 2 3 4 5; do echo {n}; done; exit {n}"]) for n in range(56)]
    files = [box.file(layout.G_LIST, "/workspace") for _ in range(8)]
    for ch in files:
        ch.wait()
    for n, ch in enumerate(channels):
        r = ch.wait()
        assert (r.code, r.out) == (n, b"%d\n" % n * 5)


def test_command_that_closes_its_output_runs_on(box):
    start = time.monotonic()
    r = box.run("exec >&- 2>&-; sleep 0.5; exit 3")
    assert r.code == 3 and time.monotonic() - start > 0.4


def test_usage_is_measured(box):
    r = box.py("x = bytearray(60 << 20)\nimport time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass")
    assert 200_000 <= r.exit["cpu_us"] < 3_000_000
    assert (60 << 20) < r.exit["peak_memory_bytes"] < (200 << 20)
    assert r.exit["duration_us"] >= 150_000


# Refusals.


def test_missing_workdir_is_refused_by_name(box):
    box.write("a-file", b"")
    box.run("mkdir -p bin closed; chmod 000 closed")
    assert refused(400, box.run, "true", workdir="/no/such/dir") == "workdir /no/such/dir does not exist"
    assert refused(400, box.run, "true", workdir="/workspace/a-file") == "workdir /workspace/a-file is not a directory"
    assert "is not accessible" in refused(400, box.run, "true", workdir="/workspace/closed")
    assert refused(400, box.run, "true", workdir="/" + "x" * 300)
    assert box.run("pwd", workdir="bin").out == b"/workspace/bin\n"


def block_cases():
    good = guest.args_block(["true"], {"A": "b"}, "/")
    yield good, len(good) + 1, {}
    yield good[:-1], len(good) - 1, {}
    yield good + b"x\0", len(good) + 2, {}
    yield b"", 0, {}
    yield b"\1\0\0", 3, {}
    yield b"\0" * 4 + good[4:], len(good), {}  # no argv
    yield b"\xff" * 8 + good[8:], len(good), {}
    yield good, len(good), {"timeout_us": 0}
    yield good, len(good), {"timeout_us": -1}


@pytest.mark.parametrize("block, length, fields", list(block_cases()))
def test_argument_block_that_is_not_one_is_refused(box, block, length, fields):
    ch = box.open()
    if block:
        ch.send(layout.G_EXEC_ARGS, block)
    ch.send(layout.G_EXEC, layout.pack("g_exec", {"timeout_us": 10**6, "args_len": length} | fields))
    refused(400, ch.wait)


def test_argument_block_that_is_too_long_is_refused(box):
    ch = box.open()
    for _ in range(7):
        ch.send(layout.G_EXEC_ARGS, b"x" * 65000)
    refused(413, ch.wait)


def test_no_process_left_is_429_and_files_still_work():
    with guest.Sandbox(["-p", "12"]) as box:
        code = "import os,time\ntry:\n while os.fork(): pass\n time.sleep(60)\nexcept OSError: print('full', flush=True)\ntime.sleep(60)"
        bomb = box.exec(["python3", "-c", code])
        bomb.wait_for(layout.G_STDOUT)
        for _ in range(3):
            assert refused(429, box.run, "true") == "sandbox reached its pids_limit"
        assert refused(429, box.export, flags=0) == "sandbox reached its pids_limit"
        assert refused(429, box.export) == "sandbox reached its pids_limit"
        box.write("f", b"data")
        assert box.read("f")[1] == b"data" and [n for n, _ in box.list()] == [b"f"]
        bomb.send(layout.G_KILL)
        assert bomb.wait().code == 137
        assert box.run("echo ok").out == b"ok\n"


# Background jobs and the end of a command.


def test_background_job_does_not_hold_the_call_and_lives_on(box):
    start = time.monotonic()
    r = box.run("sleep 61.5 & echo hi")
    assert (r.out, r.code) == (b"hi\n", 0) and time.monotonic() - start < 2 + SLACK
    assert wait_until(lambda: [p[1] for p in box.processes() if p[3] == "sleep 61.5 "] == [box.pid])
    jobs = [p for p in box.processes() if "61.5" in p[3]]
    box.kill(jobs[0][0])


def test_background_job_that_goes_on_writing_is_not_killed_by_it(box):
    r = box.run("(while :; do echo tick; sleep 0.02; done; echo 611 >/dev/null) & echo on")
    assert r.out.startswith(b"on\n") or b"on\n" in r.out
    time.sleep(0.5)
    assert box.count("sleep 0.02") + box.count("611") >= 1
    box.send(layout.G_KILL_ALL)
    assert wait_until(lambda: box.processes() == [])


def test_chatty_background_job_costs_pid_1_little(box):
    box.run("yes >&1 & true")
    box.settle(0.2)
    before = processor_time(box.pid)
    box.settle(1.0)
    assert processor_time(box.pid) - before < 0.2
    box.send(layout.G_KILL_ALL)
    assert wait_until(lambda: box.processes() == [])


def test_output_written_before_the_end_is_never_lost(box):
    for n in range(60):
        assert box.run(f"printf %05000d {n}; printf x >&2").out == b"%05000d" % n


def test_orphans_are_reaped(box):
    box.run("i=0; while [ $i -lt 100 ]; do (true &); (sleep 0.1 &) ; i=$((i+1)); done")
    assert wait_until(lambda: not any(p[2] == "Z" for p in box.processes()) and box.count("sleep 0.1") == 0)


# Kill, timeout, close.

ESCAPES = {
    "child": "sleep 302.5",
    "setsid": "(setsid sleep 302.5 &); sleep 302.5",
    "double fork": "import os,time\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0: time.sleep(302.5)\n os._exit(0)\ntime.sleep(302.5)",
    "ignores TERM": "trap '' TERM HUP INT; sleep 302.5; sleep 302.5",
    "stopped": "sleep 302.5 & kill -STOP $!; sleep 302.5",
    "own group": "set -m; sleep 302.5 & sleep 302.5 & wait",
    "threads": "import threading,time\nfor _ in range(5): threading.Thread(target=time.sleep, args=(302.5,)).start()",
    "deep": "import os,time\nfor _ in range(30):\n if os.fork(): time.sleep(302.5)\nos.setsid(); time.sleep(302.5)",
}


@pytest.mark.parametrize("how", ESCAPES)
@pytest.mark.parametrize("by", ["timeout", "kill", "close", "hello"])
def test_every_descendant_is_killed(box, how, by):
    code = ESCAPES[how]
    argv = ["python3", "-c", code] if code.startswith("import") else ["sh", "-c", code]
    ch = box.exec(argv, timeout=1.5 if by == "timeout" else 30)
    ch.wait_for(layout.G_STARTED)
    assert box.processes()
    box.settle(0.4)
    start = time.monotonic()
    if by == "hello":
        box.hello()
    else:
        if by != "timeout":
            ch.send(layout.G_KILL if by == "kill" else layout.G_CLOSE)
        r = ch.wait(30)
        assert r.code == 137 and r.exit["timed_out"] == (by == "timeout") and r.exit["signal"] == 9
    assert wait_until(lambda: box.processes() == [])
    assert time.monotonic() - start < 3 + SLACK


def test_output_before_a_timeout_is_kept(box):
    r = box.run("echo part; echo side >&2; sleep 99", timeout=3)
    assert (r.out, r.err, r.code, r.exit["timed_out"]) == (b"part\n", b"side\n", 137, 1)


def test_kill_leaves_background_jobs_of_other_commands_alone(box):
    box.run("sleep 303.5 & true")
    ch = box.exec(["sleep", "304.5"])
    other = box.exec(["sh", "-c", "sleep 1; echo fine"])
    ch.wait_for(layout.G_STARTED)
    ch.send(layout.G_KILL)
    ch.wait()
    assert box.count("303.5") == 1 and other.wait().out == b"fine\n"
    box.hello()
    assert box.count("303.5") == 1
    box.send(layout.G_KILL_ALL)
    assert wait_until(lambda: box.processes() == [])


@pytest.mark.parametrize("by", ["timeout", "kill"])
def test_fork_bomb_is_ended_within_a_second_or_two(by):
    with guest.Sandbox(["-p", "60"]) as box:
        box.run("sleep 305.5 & true")
        bomb = "import os\nwhile True:\n try: os.fork()\n except OSError: pass"
        ch = box.exec(["python3", "-c", bomb], timeout=1 if by == "timeout" else 30)
        box.settle(1.0)
        start = time.monotonic()
        if by == "kill":
            ch.send(layout.G_KILL)
        assert ch.wait(30).code == 137
        assert time.monotonic() - start < 3 + SLACK
        assert wait_until(lambda: not any("fork" in p[3] for p in box.processes()))
        assert box.run("echo ok").out == b"ok\n"


def test_chain_of_forks_that_runs_away_is_caught():
    """Each process forks the next and ends: there is never an old one to kill."""
    with guest.Sandbox() as box:
        code = "import os\nwhile True:\n if os.fork(): os._exit(0)\n os.setsid()"
        ch = box.exec(["python3", "-c", f"import os,time\nif os.fork() == 0:\n exec({code!r})\ntime.sleep(99)"])
        ch.wait_for(layout.G_STARTED)
        box.settle(0.5)
        ch.send(layout.G_KILL)
        assert ch.wait(30).code == 137
        assert wait_until(lambda: box.processes() == [])


def supervisors(box):
    return [p[0] for p in box.processes() if p[3].startswith("/.agent-sandbox/init")]


def test_supervisor_killed_by_user_code_ends_every_command_there():
    with guest.Sandbox() as box:
        victim, other = box.exec(["sh", "-c", "echo out; sleep 306.5"]), box.exec(["sleep", "307.5"])
        for ch in (victim, other):
            ch.wait_for(layout.G_STARTED)
        victim.wait_for(layout.G_STDOUT)
        box.py(
            "import os\nfor p in map(int, filter(str.isdigit, os.listdir('/proc'))):\n"
            " if p != 1 and p != os.getppid() and open(f'/proc/{p}/cmdline').read().startswith('/.agent-sandbox'): os.kill(p, 9)"
        )
        assert victim.wait(30).code == 137 and other.wait(30).code == 137 and victim.bytes(layout.G_STDOUT) == b"out\n"
        assert wait_until(lambda: box.processes() == [])
        assert box.run("echo ok").out == b"ok\n"


@pytest.mark.parametrize("by", ["timeout", "kill"])
def test_stopped_supervisor_does_not_keep_a_command_alive(by):
    with guest.Sandbox() as box:
        ch = box.exec(["sh", "-c", "while :; do kill -STOP $PPID; sleep 0.01; done"], timeout=0.5 if by == "timeout" else 30)
        ch.wait_for(layout.G_STARTED)
        box.settle(0.3)
        if by == "kill":
            ch.send(layout.G_KILL)
        assert ch.wait(30).code == 137
        assert wait_until(lambda: box.processes() == [])
        assert box.run("echo ok").out == b"ok\n"


def test_signals_to_supervisors_change_nothing(box):
    r = box.run("for s in TERM INT HUP USR1 USR2 CHLD ALRM PIPE QUIT; do kill -$s $PPID; done; sleep 0.2; echo alive")
    assert (r.out, r.code) == (b"alive\n", 0)


def test_signals_to_pid_1_change_nothing(box):
    r = box.py("import os\nfor s in range(1, 65):\n try: os.kill(1, s)\n except OSError: pass\nprint('sent')")
    assert r.out == b"sent\n"
    assert box.run("echo ok").out == b"ok\n"


def test_pid_1_and_supervisors_cannot_be_looked_into(box):
    code = """
import os
bad = []
for pid in (1, os.getppid()):
    for f in ('mem', 'environ', 'maps', 'fd', 'cwd', 'exe'):
        try: (os.listdir if f == 'fd' else os.readlink if f in ('cwd', 'exe') else lambda p: open(p, 'rb').read(1))(f'/proc/{pid}/{f}'); bad.append((pid, f))
        except OSError: pass
    try: open(f'/proc/{pid}/oom_score_adj', 'w'); bad.append((pid, 'oom'))
    except OSError: pass
import ctypes
if ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0: bad.append('ptrace')
print(bad)
"""
    assert box.py(code).out == b"[]\n"


def test_signal_reaches_the_process_group(box):
    ch = box.exec(["sh", "-c", "trap 'echo got; exit 5' USR1; sleep 308.5 & echo ready; wait"])
    ch.wait_for(layout.G_STDOUT)
    assert wait_until(lambda: any(p[3] == "sleep 308.5 " for p in box.processes()))
    ch.send(layout.G_SIGNAL, layout.pack("g_number", {"n": signal.SIGUSR1}))
    r = ch.wait()
    assert (r.out, r.code) == (b"ready\ngot\n", 5)
    assert wait_until(lambda: box.count("308.5") == 0)
    ch = box.exec(["sleep", "309.5"])
    ch.wait_for(layout.G_STARTED)  # perhaps before its exec
    for bad in (0, 65, 1000, 2**32 - 1):
        ch.send(layout.G_SIGNAL, layout.pack("g_number", {"n": bad}))
    ch.send(layout.G_SIGNAL, layout.pack("g_number", {"n": signal.SIGTERM}))
    assert ch.wait().code == 143


def test_kill_others_ends_everything_first(box):
    box.run("setsid sleep 310.5 & true")
    running = box.exec(["sleep", "311.5"])
    running.wait_for(layout.G_STARTED)
    r = box.run("ls -d /proc/[0-9]* | wc -l; ps ax -o args= | grep -c '[3]1[01].5'", kill_others=True)
    assert r.out.split()[1] == b"0"
    assert running.wait().code == 137
    assert box.run("echo alone", kill_others=True).out == b"alone\n"
    two = [box.exec(["sh", "-c", f"sleep {n}; echo x"], kill_others=True) for n in (60, 0)]
    assert [ch.wait().code for ch in two] == [137, 0]


def test_close_before_the_request_is_complete(box):
    ch = box.open()
    ch.send(layout.G_EXEC_ARGS, b"abc")
    ch.send(layout.G_CLOSE)
    refused(409, ch.wait)
    assert box.run("echo ok").out == b"ok\n"


def test_frames_that_cross_the_final_one_are_ignored(box):
    ch = box.exec(["true"], stdin=True, number=9)
    ch.wait()
    late = guest.Channel(box, 9)
    for type in (layout.G_STDIN, layout.G_STDIN_END, layout.G_KILL, layout.G_SIGNAL, layout.G_WINDOW, layout.G_CLOSE, layout.G_DATA_END):
        late.send(type, b"\1\0\0\0\0\0\0\0")
    assert box.run("echo ok").out == b"ok\n"
    assert box.exec(["echo", "again"], number=9).wait().out == b"again\n"


def test_more_stdin_than_credit_ends_that_command_only(box):
    other = box.exec(["sh", "-c", "sleep 0.5; echo fine"])
    ch = box.exec(["sleep", "312.5"], stdin=True)
    for _ in range(2 * layout.GUEST_WINDOW // 65536):
        ch.send(layout.G_STDIN, bytes(65536))
    assert ch.wait().code == 137
    assert other.wait().out == b"fine\n"


def test_used_up_pipe_pages_of_the_user_do_not_stop_commands():
    with guest.Sandbox() as box:
        code = """
import os, resource, time
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
pipes = []
try:
    for _ in range(1500): pipes.append(os.pipe())
except OSError: pass
print(len(pipes), flush=True); time.sleep(60)
"""
        hog = box.exec(["python3", "-c", code])
        hog.wait_for(layout.G_STDOUT)
        assert box.run("head -c 1000000 /dev/zero; cat", input=bytes(500_000)).out == bytes(1_500_000)
        box.write("f", b"x")
        box.export()


# Memory.


@pytest.fixture
def memory_cgroup():
    base = Path("/sys/fs/cgroup/memory")
    if not (base / "memory.limit_in_bytes").exists():
        pytest.skip("no memory cgroup of version 1 here")
    own = base / f"guest-test-{os.getpid()}"
    own.mkdir()
    try:
        (own / "memory.limit_in_bytes").write_text(str(64 << 20))
        yield str(own)
    finally:
        assert wait_until(lambda: not (own / "cgroup.procs").read_text().split())
        own.rmdir()


def test_oom_kill_is_reported_and_spares_pid_1(memory_cgroup):
    with guest.Sandbox(["-c", memory_cgroup]) as box:
        for _ in range(3):
            r = box.py("x = bytearray(200 << 20)")
            assert (r.code, r.exit["oom_killed"]) == (137, 1)
        r = box.py("x = bytearray(10 << 20)")
        assert (r.code, r.exit["oom_killed"]) == (0, 0)


def test_pid_1_stays_small(box):
    box.run("head -c 20000000 /dev/zero")
    box.run(["cat"], input=bytes(5_000_000))
    box.write("big", bytes(5_000_000))
    box.settle(2.2)
    assert wait_until(lambda: box.step(0.1) and 0 < kib(box.pid, "VmRSS") <= 1536)
    before = len(descriptors(box.pid))
    for _ in range(50):
        box.run("true")
    assert wait_until(lambda: len(descriptors(box.pid)) <= before)
