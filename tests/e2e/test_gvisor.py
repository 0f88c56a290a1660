"""Sandboxes with gVisor's kernel: what holds there in another way than on Linux, and what it costs where it is weaker."""

from pathlib import Path

import pytest
from harness import check_error
from machine import wait_until

pytestmark = [pytest.mark.core, pytest.mark.gvisor]


def lost(answer):
    """What a command gets whose sandbox is gone under it."""
    return "lost" in check_error(answer, 502)


def comes_back(b):
    """The next use starts it again, with its files."""
    assert wait_until(lambda: b.post_exec("true").status_code == 200), b.post_exec("true").text
    assert b.sh("cat keep; ls /tmp") == "kept"
    assert b.get().json()["status"] == "running"


def test_kernel_is_not_the_hosts(box):
    assert "Linux version 4.4.0 " in box.sh("cat /proc/version")
    assert Path("/proc/version").read_text() != box.sh("cat /proc/version")


def test_memory_that_runs_out_costs_the_processes_of_its_sandbox_and_nothing_else(make):
    b, other = make(memory_mb=128), make(memory_mb=128)
    b.put("keep", b"kept")
    events = other.stream("echo on; sleep 99", timeout_seconds=60)
    assert events.next()["data"] == "on\n"
    assert lost(b.post_exec(["python3", "-c", "x = bytearray(10**9)"]))
    comes_back(b)
    assert other.sh("pidof sleep >/dev/null && echo still") == "still\n"
    events.close()


@pytest.mark.parametrize("how", ["kill -9 1", "echo junk >/proc/1/fd/1", "kill -9 1; kill -9 -1"])
def test_code_that_ends_pid_1_costs_the_processes_of_its_sandbox_and_nothing_else(make, how):
    b, other = make(memory_mb=128), make(memory_mb=128)
    b.put("keep", b"kept")
    assert lost(b.post_exec(how + "; sleep 20"))
    comes_back(b)
    assert other.sh("echo still") == "still\n"


def test_frames_forged_into_the_stream_end_the_session_of_that_sandbox_alone(make):
    b, other = make(memory_mb=128), make(memory_mb=128)
    b.put("keep", b"kept")
    frame = "import os, struct\nf = os.open('/proc/1/fd/1', os.O_WRONLY)\nfor i in range(200): os.write(f, b'\\x41\\x53\\x66\\x31' + bytes([i]) * 60)"
    b.post_exec(["python3", "-c", frame])
    comes_back(b)
    assert other.sh("echo still") == "still\n"


def test_fork_bomb_is_held_by_the_process_limit_and_costs_nothing_but_its_sandbox(make):
    """It may outlive its command, since killing all of them at once misses one that is just being forked."""
    b, other = make(pids_limit=32, memory_mb=768), make(memory_mb=128)
    bomb = "import os,time\nwhile True:\n try: os.fork() or time.sleep(99)\n except OSError: time.sleep(.01)"
    events = b.stream(["python3", "-c", bomb], timeout_seconds=300)
    assert wait_until(lambda: b.post_exec("true").status_code == 429), "never full"
    b.put("f", b"1")
    assert b.content("f") == b"1"
    assert other.sh("echo still") == "still\n"
    events.close()
    assert b.delete().status_code == 204


def limit(engine, container, *names):
    """A limit of the container as the host has it: in the one tree of version 2, or in that of a controller."""
    found = [
        f
        for top in (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir())
        for n in names
        if (f := top / engine.cgroup[1:] / container / n).exists()
    ]
    assert found, f"none of {names}"
    return found[0].read_text().split()


def test_limits_of_memory_and_processor_are_those_of_the_hosts_cgroup(make, engine):
    b = make(memory_mb=256, cpus=0.25, pids_limit=64)
    container = next(c["Id"] for c in engine.call("GET", "/containers/json") if b.id in c["Names"][0])
    assert limit(engine, container, "memory.max", "memory.limit_in_bytes") == [str(256 << 20)]
    assert limit(engine, container, "cpu.max", "cpu.cfs_quota_us")[0] == "25000"
    assert int(limit(engine, container, "pids.max")[0]) > 64 * 4, "its own threads count there; inside, a ulimit is the sandbox's limit"


def test_device_nodes_that_can_be_made_lead_nowhere(box):
    source = """
import os
for n, (kind, dev) in enumerate(((0o60000, (8, 0)), (0o20000, (1, 1)), (0o20000, (10, 232)))):
    for d in ('/tmp', '/workspace', '/dev/shm'):
        p = f'{d}/n{n}'
        try: os.mknod(p, kind | 0o666, os.makedev(*dev))
        except OSError: continue
        try: os.open(p, os.O_RDONLY); print('opened', p)
        except OSError: pass
        os.unlink(p)
"""
    assert box.python(source) == ""


def test_pool_serves_what_asks_for_its_own_limits_and_the_rest_is_made_anew(own):
    s = own(POOL=1).pool_full()

    def kind(b):
        """It gets its name behind the answer."""
        named = wait_until(lambda: [c for c in s.engine.call("GET", "/containers/json") if b.id in c["Names"][0]])
        return named[0]["Labels"]["agent-sandbox.kind"]

    assert kind(s.api.create()) == "pool"
    s.pool_full()
    other = s.api.create(memory_mb=700)
    assert kind(other) == "sandbox" and other.sh("echo on") == "on\n"
