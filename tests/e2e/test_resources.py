"""Sandboxes that take all they can get: memory, processes, disk; each costs only itself."""

import images
import pytest
from harness import Server, check_error
from machine import wait_until

pytestmark = pytest.mark.core
whole = pytest.mark.not_gvisor("memory that runs out ends all processes of the sandbox; test_gvisor.py has what that costs")
lasting = pytest.mark.not_gvisor("killing all misses one that is being forked; test_gvisor.py has what a fork bomb costs")


@whole
def test_out_of_memory_kills_the_command_and_is_named(make):
    b = make(memory_mb=64)
    b.put("keep", b"kept")
    r = b.exec(["python3", "-c", "x = bytearray(10**9)"], "?detail=true")
    assert r["exit_code"] == 137 and r["oom_killed"] is True and not r["timed_out"]
    assert b.get().json()["status"] == "running" and b.content("keep") == b"kept"
    assert b.exec("true", "?detail=true")["oom_killed"] is False


@whole
def test_memory_filled_by_many_processes_leaves_the_sandbox_usable(make):
    b = make(memory_mb=64)
    b.exec("for i in 1 2 3 4 5 6; do python3 -c 'x = bytearray(40 << 20); import time; time.sleep(3)' & done; wait", timeout_seconds=20)
    assert b.sh("echo ok") == "ok\n"


def test_tmp_and_shared_memory_cannot_take_the_sandbox_down(make):
    b = make(memory_mb=128)
    assert b.exec("dd if=/dev/zero of=/tmp/fill bs=1M; dd if=/dev/zero of=/dev/shm/fill bs=1M; echo end")["stdout"].endswith("end\n")
    assert b.sh("echo ok") == "ok\n"
    b.sh("rm -f /tmp/fill /dev/shm/fill")


LASTING = """
import ctypes, os
c = ctypes.CDLL(None, use_errno=True)
c.shmat.restype = ctypes.c_void_p
def shm():
    while (i := c.shmget(0, 1 << 20, 0o600)) >= 0:
        p = c.shmat(i, None, 0); ctypes.memset(p, 1, 1 << 20); c.shmdt(ctypes.c_void_p(p))
def msg():
    m = ctypes.create_string_buffer(b'\\1' + b'\\0' * 20)
    while (q := c.msgget(0, 0o600)) >= 0:
        while c.msgsnd(q, m, 0, 0o4000) == 0: pass
def sem():
    while c.semget(0, 200, 0o600) >= 0: pass
def empty(d):
    try:
        for i in range(200_000): os.close(os.open(f'{d}/e{i}', os.O_CREAT | os.O_WRONLY))
    except OSError: pass
def full(d):
    try:
        with open(d + '/full', 'wb', 0) as f:
            while f.write(b'x' * 65536): pass
    except OSError: pass
for f, *a in ((shm,), (msg,), (sem,), (empty, '/tmp'), (empty, '/dev/shm'), (full, '/tmp'), (full, '/dev/shm')):
    if os.fork() == 0:
        try: f(*a)
        finally: os._exit(0)
    os.wait()
    print(f.__name__, flush=True)
"""


@whole
def test_memory_that_no_process_holds_leaves_room_for_the_next_command(make):
    b = make(memory_mb=64)
    r = b.exec(["python3", "-c", LASTING], timeout_seconds=50)
    assert r["stdout"].split() == ["shm", "msg", "sem", "empty", "empty", "full", "full"], r
    assert b.sh("echo ok") == "ok\n"
    b.put("f", b"1")
    assert b.content("f") == b"1"


@pytest.mark.not_gvisor("it has no access lists")
def test_access_lists_cannot_take_memory_of_the_host(make):
    """The kernel does not count them, and 64 KiB each would be possible."""
    b = make(memory_mb=64)
    source = """
import os, struct
acl = lambda n: struct.pack('<I', 2) + b''.join(struct.pack('<HHI', *e) for e in
    [(1, 6, 2**32 - 1)] + [(2, 4, 10000 + i) for i in range(n)] + [(4, 4, 2**32 - 1), (16, 7, 2**32 - 1), (32, 4, 2**32 - 1)])
open('/tmp/f', 'w')
for n in (1, 100, 1000, 8000):
    try: os.setxattr('/tmp/f', 'system.posix_acl_access', acl(n)); print(n)
    except PermissionError: print('refused')
"""
    assert b.python(source).split() == ["1", "100", "refused", "refused"]


@lasting
@pytest.mark.parametrize("bomb", ["python", "shell"])
def test_fork_bomb_ends_with_its_timeout_and_the_next_command_works(make, bomb):
    b = make(pids_limit=64, memory_mb=256)
    if bomb == "python":
        command = [
            "python3",
            "-c",
            "import os,time\nos.setsid() if os.fork() == 0 else 0\nwhile True:\n try: os.fork()\n except OSError: pass",
        ]
    else:
        command = "b() { b | b & }; (b) & while :; do :; done"  # the first shell forks once: later it could not, and would end
    r = b.exec(command, timeout_seconds=1, timeout=20)
    assert r["timed_out"] and r["exit_code"] == 137
    assert b.sh("echo ok") == "ok\n"

    def few():
        r = b.post_exec(["python3", "-c", "import glob; print(len(glob.glob('/proc/[0-9]*')))"])
        return r.status_code == 200 and r.json()["exit_code"] == 0 and int(r.json()["stdout"]) < 8

    assert wait_until(few)


@lasting
def test_fork_bomb_in_the_background_is_429_for_execs_while_files_and_delete_work(make):
    b = make(pids_limit=32, memory_mb=128)
    bomb = "import os,time\nwhile True:\n try: os.fork() or time.sleep(99)\n except OSError: time.sleep(.01)"
    events = b.stream(["python3", "-c", bomb], timeout_seconds=300)
    assert wait_until(lambda: b.post_exec("true").status_code == 429), "never full"
    assert "pids_limit" in check_error(b.post_exec("true"), 429)
    b.put("f", b"1")
    assert b.content("f") == b"1" and b.names() == ["f"]
    assert b.post_snapshot().status_code in (201, 429), "packing needs a process, too"
    events.close()
    assert wait_until(lambda: b.post_exec("true").status_code == 200), "the bomb outlived its command"
    assert b.sh("cat f") == "1"
    assert b.delete().status_code == 204


def test_pids_limit_is_the_one_asked_for(make):
    b = make(pids_limit=30, memory_mb=128)
    count = "import os,time\nn=0\ntry:\n while n < 100:\n  if os.fork() == 0: time.sleep(30); os._exit(0)\n  n += 1\nexcept OSError: pass\nprint(n)"
    assert 10 <= int(b.python(count)) < 30


@pytest.mark.not_gvisor("time that a command waits for a processor counts as used; test_gvisor.py looks from outside")
def test_cpu_limit_is_the_one_asked_for(make):
    b = make(cpus=0.25, memory_mb=64)
    b.exec("true")
    r = b.exec("timeout 2 sh -c 'while :; do :; done' & timeout 2 sh -c 'while :; do :; done' & wait", "?detail=true")
    assert r["usage"]["cpu_ms"] < 1100, r["usage"]


@pytest.mark.not_gvisor("it holds a descriptor for each folder, so there is no such depth")
@pytest.mark.limit(200)
def test_workspace_deeper_than_the_engine_has_descriptors_is_removed(make, server):
    b = make(memory_mb=128)
    source = "import os\nfor i in range(22000):\n os.mkdir('d'); os.chdir('d')\nos.chmod('/workspace', 0)"
    b.python(source, timeout_seconds=50)
    assert b.api.ask("DELETE", b.path, timeout=150).status_code == 204
    assert not server.containers(b.id) and not [v for v in server.on_engine()[1] if b.id in v]


@pytest.fixture(scope="module")
def small_disk():
    """A server whose engine has a data directory of 160 MiB. It is memory, and counts as that of the sandbox."""
    import contextlib
    import os
    from pathlib import Path

    from harness import Engine

    e = Engine(Path("/tmp") / f"as-e2e-{os.getpid()}-small" / "engine", size="160m,nr_inodes=6000")
    try:
        e.start()
        images.tiny(e, "tiny:1")
        s = Server(e, DEFAULT_IMAGE="tiny:1", DISK_FLOOR_MB=0)
        s.start()
        yield s
        s.close()
    finally:
        left = e.stop()
        with contextlib.suppress(OSError):
            e.dir.parent.rmdir()
    assert not left


@pytest.fixture
def disk_box(small_disk):
    b = small_disk.api.create(memory_mb=512)
    yield b
    b.delete()


def test_full_disk_is_507_for_files_an_error_inside_and_passes(small_disk, disk_box):
    b = disk_box
    b.put("keep", b"kept")
    said = b.exec("dd if=/dev/zero of=fill bs=1M; echo end", timeout_seconds=50)
    assert "No space left" in said["stderr"] and said["stdout"] == "end\n"
    check_error(b.write("more", b"x" * 1_000_000), 507)
    assert sorted(b.names()) == ["fill", "keep"] and b.content("keep") == b"kept"
    other = small_disk.api.post_sandbox({"memory_mb": 512})
    assert other.status_code in (201, 502, 507), other.text
    if other.status_code == 201:
        small_disk.api.ask("DELETE", "/v1/sandboxes/" + other.json()["id"])
    b.sh("rm fill")
    b.put("more", b"x" * 1_000_000)
    small_disk.clean()


def test_no_inodes_left_is_507_and_passes(small_disk, disk_box):
    b = disk_box
    b.exec("mkdir m; i=0; while [ $i -lt 7000 ]; do : > m/$i || break; i=$((i+1)); done 2>/dev/null", timeout_seconds=50)
    check_error(b.write("more", b"x"), 507)
    b.sh("rm -r m")
    b.put("more", b"x")


def test_rollback_onto_a_full_disk_leaves_the_sandbox_as_it_was(small_disk, disk_box):
    b = disk_box
    b.sh("dd if=/dev/urandom of=big bs=1M count=45 2>/dev/null")
    snap = b.snapshot()
    b.exec("echo now > f; dd if=/dev/zero of=fill bs=1M 2>/dev/null; truncate -s -3000000 fill")
    answer = b.post_rollback(snap)
    check_error(answer, 507, 502)
    assert b.sh("cat f") == "now\n" and sorted(b.names()) == ["big", "f", "fill"]
    check_error(small_disk.api.post_fork(snap), 507, 502)
    small_disk.clean()
    b.sh("rm fill")
    b.rollback(snap)
    assert b.names() == ["big"]
    small_disk.api.ask("DELETE", f"/v1/snapshots/{snap}")


def test_disk_floor_ends_the_sandbox_that_fills_the_disk(small_disk):
    s = Server(small_disk.engine, DEFAULT_IMAGE="tiny:1", DISK_FLOOR_MB=60).start()
    try:
        b = s.api.create(memory_mb=512)
        r = b.exec("dd if=/dev/zero of=fill bs=1M count=120; sleep 30; echo never", timeout_seconds=40)
        assert r["exit_code"] == 137 and "never" not in r["stdout"]
        check_error(b.write("more", b"x"), 507)
        b.sh("rm fill")
        assert wait_until(lambda: b.write("more", b"x").status_code == 200)
    finally:
        s.close()


def test_full_data_directory_keeps_records_and_refuses_snapshots(engine, tmp_path):
    import subprocess

    s = Server(engine)
    s.data.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "as-data", s.data], check=True)
    try:
        s.start()
        b = s.api.create(memory_mb=512)
        b.put("keep", b"kept")
        first = b.snapshot()
        b.sh("head -c 20000000 /dev/urandom > big")
        check_error(b.post_snapshot(), 507)
        assert s.api.snapshot_ids() == [first]
        # Not one byte left: no record can be written; nothing that was is lost.
        fill = open(s.data / "fill", "wb", buffering=0)
        try:
            while True:
                fill.write(b"\0" * 4096)
        except OSError:
            pass
        check_error(s.api.post_sandbox({"memory_mb": 512}), 507)
        answer = b.api.ask("POST", b.path + "/timeout", json={"timeout_seconds": 700})
        assert answer.status_code in (200, 507)
        assert b.sh("echo runs") == "runs\n"
        s.clean()
        s.end()
        s.start()
        assert s.api.ids() == [b.id] and s.api.snapshot_ids() == [first]
        fill.close()
        (s.data / "fill").unlink()
        s.api.create(memory_mb=512).delete()
        b.rollback(first)
        assert b.content("keep") == b"kept"
        s.close()
    finally:
        s.remove()
        subprocess.run(["umount", "-l", s.data], check=False)
        s.remove()
