"""Snapshot, rollback, fork: the workspace comes back exactly, and what fails changes nothing."""

import hashlib
import json
import time

import pytest
from harness import GVISOR, at_once, check_error, text
from machine import wait_until

LOOK = """
import hashlib, json, os, stat
out = {}
for top, dirs, files in os.walk('/workspace'):
    for n in dirs + files:
        p = os.path.join(top, n); s = os.lstat(p)
        what = os.readlink(p) if stat.S_ISLNK(s.st_mode) else hashlib.sha256(open(p,'rb').read()).hexdigest() if stat.S_ISREG(s.st_mode) else ''
        attrs = {} if stat.S_ISLNK(s.st_mode) else {a: os.getxattr(p, a).hex() for a in os.listxattr(p)}
        out[os.fsencode(p).decode('utf-8', 'backslashreplace')] = [oct(s.st_mode), s.st_uid, s.st_gid, s.st_mtime_ns, s.st_nlink, what, attrs]
print(json.dumps(out))
"""


def tree(b):
    return json.loads(b.python(LOOK))


FILL = r"""
mkdir -p d/e/empty 'two words'; echo 1 > d/one; echo 2 > d/e/two; chmod 600 d/one; chmod 750 d/e; chmod 2755 d
ln d/one d/hard; ln d/one hard2; ln -s one d/rel; ln -s /etc/passwd abs; ln -s nowhere dead; touch .dot 'two words/é'
mkfifo pipe; head -c 1500000 /dev/urandom > big; touch u; chmod 4755 u; mkdir st; chmod 1777 st
python3 - <<'E'
import os; gvisor = '4.4.0' in open('/proc/version').read()
os.makedirs('/'.join(['p' * 90] * 4)); open('/'.join(['p' * 90] * 4) + '/' + 'é' * 100, 'w').write('x'); open('n' * 255, 'w').close()
if not gvisor: os.setxattr('d/one', 'user.k', b'\0\xff'); os.setxattr('d', 'user.d', b'1')
os.symlink('t' * 300, 'longlink')
with open('sparse', 'wb') as f: f.truncate(100 << 20); f.seek(60 << 20); f.write(b'mid')
open(b'raw\xff', 'w').close()
os.utime('d/one', ns=(1_500_000_000_123_456_789,) * 2); os.utime('d/e/empty', ns=(1_400_000_000_000_000_001,) * 2)
os.utime('dead', ns=(1_300_000_000_000_000_007,) * 2, follow_symlinks=False)
E
chmod 500 d/e/empty
"""


@pytest.mark.core
def test_workspace_comes_back_exactly_in_a_rollback_and_in_a_fork(make, api):
    b = make(memory_mb=128)
    b.sh(FILL)
    before = tree(b)
    snap = b.snapshot(name="full")
    b.sh(
        "chmod 700 d/e/empty; rm -rf d 'two words' hard2 big pipe sparse n* p* u st; mkdir d; echo other > d/one; echo > big/x || mkdir big"
    )
    b.sh("touch /tmp/left; nohup sleep 6161.5 >/dev/null 2>&1 & echo")
    after = b.rollback(snap)
    assert after["id"] == b.id and after["source_snapshot_id"] == snap and after["expires_at"] == b.data["expires_at"]
    assert tree(b) == before
    assert b.running("6161.5") == 0 and b.sh("ls /tmp") == ""
    small = not GVISOR  # there a file's blocks are said to be as many as fit its size
    assert b.python("import os; s = os.stat('sparse'); print(s.st_size, s.st_blocks * 512 < 1 << 20)") == f"{100 << 20} {small}\n"
    f = api.fork(snap)
    assert tree(f) == before and f.id != b.id and f.data["source_snapshot_id"] == snap


def test_what_cannot_be_read_is_part_of_it(make):
    b = make(memory_mb=64)
    b.sh("echo s > f; chmod 000 f; mkdir d; echo in > d/in; chmod 000 d")
    snap = b.snapshot()
    assert b.sh("stat -c %a f d").split() == ["0", "0"], "the snapshot left other modes behind"
    b.sh("chmod 700 f d; rm -rf f d")
    b.rollback(snap)
    assert b.sh("stat -c %a f d").split() == ["0", "0"]
    assert b.sh("chmod 700 f d; cat f d/in") == "s\nin\n"


@pytest.mark.core
def test_snapshot_describes_itself_and_is_listed(make, api):
    b = make(memory_mb=64)
    b.put("f", b"x" * 1000)
    r = b.post_snapshot(name="né")
    assert r.status_code == 201
    s = r.json()
    assert {"id", "sandbox_id", "name", "image", "size_bytes", "created_at", "parent_snapshot_id", "stored_bytes", "sha256"} <= set(s)
    assert (s["sandbox_id"], s["name"], s["image"], s["parent_snapshot_id"]) == (b.id, "né", "python:3.12-slim", None)
    assert s["size_bytes"] >= 1000 and 0 < s["stored_bytes"] and len(s["sha256"]) == 64
    assert api.ask("GET", f"/v1/snapshots/{s['id']}").json() == s
    assert s in api.ask("GET", f"/v1/snapshots?sandbox_id={b.id}").json()["snapshots"]
    assert api.ask("GET", "/v1/snapshots?sandbox_id=sb_00000000000000aa").json()["snapshots"] == []
    second = b.post_snapshot().json()
    assert second["name"] is None
    assert [x["id"] for x in api.ask("GET", f"/v1/snapshots?sandbox_id={b.id}").json()["snapshots"]] == [s["id"], second["id"]]
    b.rollback(s["id"])
    assert b.post_snapshot().json()["parent_snapshot_id"] == s["id"]


@pytest.mark.parametrize(("body", "status"), [({"name": "x" * 129}, 422), ({"name": 5}, 422), ({"nam": "x"}, 422)])
def test_wrong_snapshot_request_is_refused(box, body, status):
    check_error(box.post_snapshot(**body), status)


def test_snapshot_outlives_its_sandbox_and_ends_when_deleted(make, api):
    b = make(memory_mb=64)
    b.put("f", b"kept")
    snap = b.snapshot()
    assert b.delete().status_code == 204
    f = api.fork(snap)
    assert f.content("f") == b"kept"
    assert api.ask("DELETE", f"/v1/snapshots/{snap}").status_code == 204
    assert f.content("f") == b"kept"
    check_error(api.ask("DELETE", f"/v1/snapshots/{snap}"), 404)
    check_error(api.post_fork(snap), 404)
    check_error(f.post_rollback(snap), 404)


def test_rollback_to_what_is_not_there_changes_nothing(make):
    b = make(memory_mb=64)
    b.sh("echo here > f; nohup sleep 6262.5 >/dev/null 2>&1 &")
    for bad, status in (("snap_0123456789abcdef", 404), ("x", 404), ("", 404), (None, 422), (5, 422)):
        check_error(b.post_rollback(bad), status, 400)
    assert b.content("f") == b"here\n" and wait_until(lambda: b.running("6262.5") == 1)


def test_fork_takes_over_all_but_what_is_given(make, api):
    b = make(cpus=0.5, memory_mb=96, pids_limit=60, env={"K": "v"}, labels={"l": "1"}, read_only_rootfs=False)
    snap = b.snapshot()
    f = api.fork(snap)
    keys = ("cpus", "memory_mb", "pids_limit", "network", "read_only_rootfs", "image", "labels")
    assert {k: f.data[k] for k in keys} == {k: b.data[k] for k in keys} and f.sh("echo $K") == "v\n"
    g = api.fork(snap, cpus=1.5, memory_mb=128, timeout_seconds=77)
    assert (g.data["cpus"], g.data["memory_mb"], g.data["pids_limit"]) == (1.5, 128, 60)
    for bad, status in (({"cpus": 99}, 400), ({"memory_mb": 1}, 422), ({"image": "x"}, 422)):
        check_error(api.post_fork(snap, **bad), status)
    answer = api.note(api.ask("POST", f"/v1/snapshots/{snap}/fork"))
    assert answer.status_code == 201, "a fork without a body"


def test_forks_and_generations_do_not_share_their_files(make, api):
    b = make(memory_mb=64)
    b.sh("echo base > f")
    snap = b.snapshot()
    forks = at_once([lambda: api.fork(snap)] * 3)
    for i, f in enumerate(forks):
        f.sh(f"echo {i} >> f")
    assert [f.sh("cat f") for f in forks] == [f"base\n{i}\n" for i in range(3)]
    third = api.fork(forks[0].snapshot())
    assert third.sh("cat f") == "base\n0\n" and b.sh("cat f") == "base\n"
    b.rollback(forks[1].snapshot())
    assert b.sh("cat f") == "base\n1\n", "another sandbox's snapshot"


def test_snapshots_at_the_same_time_are_each_whole_or_refused(make, api):
    b = make(memory_mb=64)
    b.sh("for i in $(seq 50); do echo $i > f$i; done; head -c 1000000 /dev/urandom > r")
    want = tree(b)
    got = at_once([b.post_snapshot] * 4)
    made = [r.json()["id"] for r in got if r.status_code == 201]
    assert made and {r.status_code for r in got} <= {201, 409}
    assert tree(api.fork(made[-1])) == want


def test_running_command_goes_on_over_a_snapshot_and_its_clock_stands_still(make):
    b = make(memory_mb=64)
    b.sh("head -c 30000000 /dev/urandom > r")
    events = b.stream("for i in $(seq 10); do echo $i; sleep .2; done", timeout_seconds=20)
    events.next()
    b.snapshot()
    rest = events.all()
    assert text(rest).split() == [str(i) for i in range(2, 11)] and rest[-1]["exit_code"] == 0


def test_snapshot_is_one_moment_of_files_being_written(make, api):
    b = make(memory_mb=64)
    writer = (
        "import os,itertools\nfor i in itertools.count():\n"
        " for n in ('a','b'):\n  with open(n + '.new', 'w') as f: f.write(str(i))\n  os.rename(n + '.new', n)"
    )
    events = b.stream(["python3", "-c", writer])
    assert wait_until(lambda: {"a", "b"} <= set(b.names()))
    for _ in range(3):
        f = api.fork(b.snapshot())
        a, second = int(f.content("a")), int(f.content("b"))
        assert a - second in (0, 1), (a, second)
        f.delete()
    events.close()


def test_process_that_has_itself_continued_makes_the_snapshot_409(make, api):
    b = make(memory_mb=256)
    source = """
import ctypes, signal, struct
c = ctypes.CDLL(None)
signal.signal(signal.SIGCONT, lambda *a: None)
timer, event = ctypes.c_void_p(), struct.pack('Qii', 0, signal.SIGCONT, 0) + bytes(48)
c.timer_create(1, event, ctypes.byref(timer))
n = 0
while True:
    n += 1
    c.timer_settime(timer, 0, struct.pack('qqqq', 0, 0, 0, 30_000_000), None)
    for name in ('a', 'z'):
        with open(name, 'r+b' if n > 1 else 'wb') as f: f.write(b'%020d' % n)
    if n == 1: print('on', flush=True)
"""
    b.sh("head -c 30000000 /dev/urandom > m")
    events = b.stream(["python3", "-c", source], timeout_seconds=50)
    events.next()
    answers = [b.post_snapshot() for _ in range(10)]
    events.close()
    assert {a.status_code for a in answers} <= {201, 409} and 409 in [a.status_code for a in answers]
    made = next((a.json()["id"] for a in answers if a.status_code == 201), None)
    if made:
        f = api.fork(made)
        assert int(f.content("a")) - int(f.content("z")) in (0, 1)


def test_stopped_process_stays_stopped_over_a_snapshot(make):
    b = make(memory_mb=64)
    b.sh("sleep 6363.5 >/dev/null 2>&1 & kill -STOP $!; echo $! > pid; until grep -q 'State:.T' /proc/$!/status; do :; done")
    b.snapshot()
    assert b.sh("cut -d' ' -f3 /proc/$(cat pid)/stat") == "T\n"


@pytest.mark.core
def test_rollback_with_commands_running_ends_them_with_409_and_later_calls_work(make):
    b = make(memory_mb=64)
    b.put("f", b"old")
    snap = b.snapshot()
    b.put("f", b"new")
    events = b.stream("echo on; sleep 60")
    events.next()

    def roll():
        assert wait_until(lambda: b.running("6363.5") == 1)
        return b.post_rollback(snap)

    waiting, rolled = at_once([lambda: b.post_exec("sleep 6363.5"), roll])
    assert rolled.status_code == 200
    assert "rolled back" in check_error(waiting, 409)
    assert [e["type"] for e in events.all()] == ["error"]
    assert b.content("f") == b"old"


def test_calls_during_a_rollback_are_answered_after_it_or_409(make):
    b = make(memory_mb=64)
    b.sh("head -c 20000000 /dev/urandom > r; echo old > f")
    snap = b.snapshot()
    b.sh("echo new > f")

    def poke():
        time.sleep(0.15)
        return b.post_exec("cat f")

    got = at_once([lambda: b.post_rollback(snap)] + [poke] * 4)
    assert got[0].status_code == 200
    for r in got[1:]:
        assert r.status_code in (200, 409), r.text
        if r.status_code == 200:
            assert r.json()["stdout"] in ("old\n", "new\n")
    assert b.sh("cat f") == "old\n"


def test_too_big_a_snapshot_is_413_and_not_kept(own):
    s = own(MAX_SNAPSHOT_BYTES=3_000_000)
    b = s.api.create(memory_mb=64)
    b.sh("head -c 4000000 /dev/urandom > big")
    check_error(b.post_snapshot(), 413)
    assert s.api.snapshot_ids() == []
    assert sum(f.stat().st_size for f in s.data.rglob("*") if f.is_file()) < 1_000_000
    b.sh("rm big; echo x > f")
    assert s.api.fork(b.snapshot()).content("f") == b"x\n"


def test_snapshot_whose_client_went_away_is_completed(make, api, server):
    from harness import raw, request

    b = make(memory_mb=64)
    b.sh("head -c 40000000 /dev/urandom > r")
    raw(server.port, request("POST", b.path + "/snapshots", "Content-Type: application/json", body=b'{"name":"left"}'), wait=0.05)
    found = wait_until(lambda: api.ask("GET", f"/v1/snapshots?sandbox_id={b.id}").json()["snapshots"])
    assert found and found[0]["name"] == "left"
    api.snapshots.append(found[0]["id"])
    f = api.fork(found[0]["id"])
    assert f.sh("sha256sum < r") == b.sh("sha256sum < r")


def test_damaged_snapshot_is_refused_and_the_sandbox_keeps_what_it_has(own):
    s = own()
    b = s.api.create(memory_mb=64)
    b.put("f", b"old" * 100_000)
    snap = b.snapshot()
    b.put("f", b"now")
    stored = next(s.data.rglob(snap + ".tar.zst"))
    good = stored.read_bytes()
    for bad in (good[:-10], good[: len(good) // 2], b"", good[:40] + bytes([good[40] ^ 1]) + good[41:], b"\0" * len(good)):
        stored.write_bytes(bad)
        check_error(b.post_rollback(snap), 500, 502)
        check_error(s.api.post_fork(snap), 500, 502)
        assert b.content("f") == b"now"
        s.clean()
    stored.write_bytes(good)
    b.rollback(snap)
    assert hashlib.sha256(b.content("f")).hexdigest() == hashlib.sha256(b"old" * 100_000).hexdigest()


@pytest.mark.limit(120)
def test_ten_thousand_small_files_come_back(make, api):
    b = make()
    b.python("import os\nos.mkdir('m')\nfor i in range(10000): open(f'm/{i}', 'w').write(str(i) * 400)")
    f = api.fork(b.snapshot())
    assert f.python("print(sum(open(f'm/{i}').read() == str(i) * 400 for i in range(10000)))") == "10000\n"
