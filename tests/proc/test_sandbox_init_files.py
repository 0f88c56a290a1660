"""sandbox-init: the stream itself, and the file verbs (with openat2(2) and O_TMPFILE, and without either)."""

import os
import shutil
import socket
import stat
import struct
import threading
import time

import guest
import layout
import pytest
from guest import refused
from machine import SLACK, alive, kib, processor_time, wait_until

pytestmark = guest.needs_root
WAYS = {"openat2": [], "walk": ["-n"], "no tmpfile": ["-T"]}


@pytest.fixture(scope="module", params=WAYS)
def box(request):
    with guest.Sandbox(WAYS[request.param]) as b:
        yield b


@pytest.fixture
def fresh():
    with guest.Sandbox() as b:
        yield b


# The stream.


def test_hello_is_answered_after_garbage_and_half_frames(fresh):
    box = fresh
    exec_frame = layout.frame(layout.G_EXEC_ARGS, 3, b"x" * 5000)
    junk = [
        b"\0" * 100_000,
        os.urandom(70_000),
        exec_frame[:3000],
        exec_frame[:10],
        layout.frame(layout.G_HELLO, 0, bytes(16))[:-1],
        struct.pack("<I", layout.FRAME_MAGIC) * 3000,
        layout.frame(layout.G_KILL_ALL, length=65536),
        layout.frame(layout.G_KILL_ALL, length=65537) + layout.frame(layout.G_KILL_ALL, crc=1),
        layout.frame(layout.G_KILL_ALL, magic=0x31665340),
        layout.frame(200, 0, b"unknown") + layout.frame(layout.G_READ, 999, b"") + layout.frame(layout.G_EXIT, 1, bytes(40)),
        layout.frame(layout.G_HELLO, 0, b"short"),
    ]
    for n, data in enumerate(junk):
        box.raw(data)
        box.hello()
        assert box.run(f"echo {n}").out == b"%d\n" % n


def test_a_frame_in_single_bytes_is_a_frame(fresh):
    block = guest.args_block(["echo", "slow"], {"PATH": "/usr/bin:/bin"}, "/")
    ch = fresh.open()
    data = layout.frame(layout.G_EXEC_ARGS, ch.number, block)
    data += layout.frame(layout.G_EXEC, ch.number, layout.pack("g_exec", {"timeout_us": 10**7, "args_len": len(block)}))
    for b in data:
        fresh.raw(bytes([b]))
    assert ch.wait().out == b"slow\n"


def test_damaged_frame_is_skipped_and_the_next_is_served(fresh):
    fresh.raw(layout.frame(layout.G_KILL_ALL, crc=5) + b"ASf1" + os.urandom(500))
    assert fresh.run("echo on").out == b"on\n"


def test_nothing_is_served_before_hello():
    with guest.Sandbox(hello=False) as box:
        box.send(layout.G_LIST, 1, layout.pack("g_file", {"max": -1, "path_len": 1}) + b"/")
        box.sock.settimeout(1.3)
        with pytest.raises(TimeoutError):
            box.sock.recv(1)
        box.hello()
        assert box.list() == []


def test_hello_frees_a_stream_that_nobody_read(fresh):
    """Output is stuck, a window is used up, a request is half sent: the next attachment starts clean."""
    box = fresh
    for _ in range(8):
        box.exec(["sh", "-c", "yes"])
    box.send(layout.G_EXEC_ARGS, 60, b"half")
    box.write_ch = box.file(layout.G_WRITE, "half", mode=0o644)
    box.write_ch.send(layout.G_DATA, b"half")
    time.sleep(1.0)
    box.hello()
    assert box.run("echo new").out == b"new\n"
    assert wait_until(lambda: not box.count("yes") and box.list() == [])


def test_stat_comes_once_a_second(fresh):
    begin = time.monotonic()
    fresh.until(lambda: len(fresh.stats) >= 4)
    assert time.monotonic() - begin > 2.5
    v = os.statvfs(fresh.dir)
    assert abs(fresh.stats[-1]["free_bytes"] - v.f_bavail * v.f_frsize) < 2 << 30 and fresh.stats[-1]["free_inodes"] > 0


def test_end_of_the_stream_ends_nothing(fresh):
    fresh.run("sleep 400.5 & true")
    fresh.sock.shutdown(socket.SHUT_WR)
    time.sleep(1.5)
    assert fresh.process.poll() is None and fresh.count("400.5") == 1
    used = processor_time(fresh.pid)
    time.sleep(1)
    assert alive(fresh.pid) and processor_time(fresh.pid) - used < 0.1


def test_sigterm_from_outside_ends_pid_1(fresh):
    fresh.kill(fresh.pid, 15)
    assert fresh.process.wait(30) == 0


def test_workspace_of_another_user_is_refused_at_start():
    for plant in ("deep", "root"):
        with guest.Sandbox() as box:
            box.close()
        box = guest.Sandbox(hello=False)
        box.close()
        d = box.dir
        os.makedirs(d + "/a/b")
        for p in (d, d + "/a", d + "/a/b"):
            os.chown(p, box.uid, box.uid)
        with guest.Sandbox(uid=box.uid, workspace=d) as good:
            assert good.run("true").code == 0
        if plant == "deep":
            os.symlink("/x", d + "/a/b/planted")
        else:
            os.chown(d, 0, 0)
        bad = guest.Sandbox(uid=box.uid, workspace=d, hello=False)
        assert bad.process.wait(30) == layout.GUEST_EXIT_WORKSPACE
        shutil.rmtree(d)


def test_requests_that_are_no_requests_are_refused(box):
    for data in (
        b"",
        b"x" * 40,
        layout.pack("g_file", {"path_len": 3}) + b"/a",
        layout.pack("g_file", {"path_len": 0}),
        layout.pack("g_file", {"path_len": 3}) + b"abc",
        layout.pack("g_file", {"path_len": 4}) + b"/a\0b",
        layout.pack("g_file", {"path_len": 9000}) + b"/" * 9000,
    ):
        for type in (layout.G_READ, layout.G_WRITE, layout.G_LIST, layout.G_EXPORT, layout.G_IMPORT, layout.G_REMOVE):
            ch = box.open()
            ch.send(type, data)
            refused(400, ch.wait)


# REMOVE.


def remove(box, path, meta, **changed):
    about = {"first": meta["mtime_ns"], "size": meta["size"]} | changed
    return box.file(layout.G_REMOVE, path, flags=layout.G_FLAG_WORKSPACE, **about).wait()


def test_file_that_is_still_the_same_is_removed(box):
    for path in ("gone", "deep/er/gone", "/workspace/./deep/../gone3", b"/workspace/n\xff\n"):
        meta = box.write(path, b"data")
        assert remove(box, path, meta)["status"] == 200
        refused(404, lambda path=path: box.read(path))
        refused(404, lambda path=path, meta=meta: remove(box, path, meta))


def test_file_that_was_changed_is_not_removed(box):
    meta = box.write("same", b"data")
    for changed in ({"first": meta["mtime_ns"] + 1}, {"size": 5}, {"size": -1}, {"first": 0}):
        assert "it was changed" in refused(409, lambda changed=changed: remove(box, "same", meta, **changed))
    assert box.read("same")[1] == b"data"
    box.run("touch -d '2001-01-01' same")
    refused(409, lambda: remove(box, "same", meta))
    os.utime(box.dir + "/same", ns=(0, meta["mtime_ns"]))
    assert remove(box, "same", meta)["status"] == 200


def test_only_regular_files_of_the_workspace_are_removed(box):
    box.run(
        "rm -rf r; mkdir r; cd r; mkdir dir out; mkfifo fifo; ln -s ../same link; ln -s /tmp tmp; ln -s /workspace/r/out inner; touch out/f /tmp/f"
    )
    st = os.stat(box.dir + "/r/out/f")
    any = {"mtime_ns": st.st_mtime_ns, "size": 0}
    for path, status in (
        ("r/dir", 400),
        ("r", 400),
        ("/workspace", 400),
        ("r/fifo", 400),
        ("r/link", 400),
        ("r/tmp/f", 400),
        ("/tmp/f", 400),
    ):
        refused(status, lambda path=path: remove(box, path, any))
    for path, status in (
        ("r/dir/.", 400),
        ("r/dir/..", 400),
        ("r/none/x", 404),
        ("/etc/passwd", 400),
        ("r/out/f/x", 400),
        ("x" * 300, 400),
    ):
        refused(status, lambda path=path: remove(box, path, any))
    assert box.run("ls r; ls /tmp/f").out == b"dir\nfifo\ninner\nlink\nout\ntmp\n/tmp/f\n"
    assert remove(box, "r/inner/f", any)["status"] == 200
    box.run("rm -rf r /tmp/f")


def test_what_the_user_may_not_remove_stays(box):
    meta = box.write("shut/f", b"x")
    os.chmod(box.dir + "/shut", 0o555)
    assert "not accessible" in refused(400, lambda: remove(box, "shut/f", meta))
    os.chmod(box.dir + "/shut", 0o755)
    assert remove(box, "shut/f", meta)["status"] == 200


def test_removal_waits_while_the_workspace_stands_still(fresh):
    box = fresh
    meta = box.write("f", b"x" * 1_000_000)
    export = box.file(layout.G_EXPORT, "/workspace", flags=layout.G_FLAG_FREEZE)
    ch = box.file(layout.G_REMOVE, "/workspace/f", flags=layout.G_FLAG_WORKSPACE, first=meta["mtime_ns"], size=meta["size"])
    export.wait()
    assert ch.wait()["status"] == 200 and b"f" in export.bytes(layout.G_DATA)[:2048]


# READ and WRITE.


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 262144, 262145, 5_000_001])
def test_file_of_any_size_comes_back_equal(box, size):
    data = os.urandom(size)
    meta = box.write("sized", data, size=size)
    assert (meta["size"], meta["mode"], meta["type"]) == (size, 0o644, layout.CONST.get("FILE_REGULAR", 0))
    meta, got = box.read("sized")
    assert got == data and (meta["size"], meta["first"], meta["length"]) == (size, 0, size)
    assert abs(meta["mtime_ns"] / 1e9 - time.time()) < 100


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755, 0o400, 0, 0o777, 0o022])
def test_mode_is_exact_and_owner_is_the_sandbox_user(box, mode):
    box.write("moded/dir/f", b"x", mode=mode)
    st = os.stat(box.dir + "/moded/dir/f")
    assert (stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid) == (mode, box.uid, box.uid)
    for d in ("/moded", "/moded/dir"):
        st = os.stat(box.dir + d)
        assert (stat.S_IMODE(st.st_mode), st.st_uid) == (0o755, box.uid)


def test_write_replaces_a_link_and_leaves_its_target(box):
    box.write("target", b"old")
    box.run("ln -sf target link; ln -sf /etc/passwd out")
    box.write("link", b"new")
    box.write("out", b"mine")
    assert box.read("target")[1] == b"old" and box.read("link")[1] == b"new" and box.read("out")[1] == b"mine"
    assert not os.path.islink(box.dir + "/link") and not os.path.islink(box.dir + "/out")


def test_old_file_stays_until_the_new_one_is_whole(box):
    box.run("rm -rf swap; mkdir swap")
    box.write("swap/f", b"old")
    for end in ("close", "short", "hello"):
        ch = box.file(layout.G_WRITE, "swap/f", mode=0o644, flags=layout.G_FLAG_WORKSPACE)
        ch.data(layout.G_DATA, b"new" * 1000)
        ch.wait_for(layout.G_STARTED)
        if end == "close":
            ch.send(layout.G_CLOSE)
            refused(409, ch.wait)
        elif end == "short":
            ch.send(layout.G_DATA_END, layout.pack("g_size", {"bytes": 4000}))
            refused(400, ch.wait)
        else:
            box.hello()
        assert box.read("swap/f")[1] == b"old" and [n for n, _ in box.list("/workspace/swap")] == [b"f"]


def test_upload_that_is_too_large_is_undone(box):
    refused(413, box.write, "large", bytes(1001), max=1000)
    refused(413, box.write, "large", bytes(10), max=5, size=10)
    box.write("large", bytes(1000), max=1000)


OUTSIDE = [
    "/etc/x",
    "/x",
    "/workspacefoo/x",
    "/tmp/x",
    "/workspace",
    "/workspace/",
    "/",
    "/workspace/..",
    "/workspace/../x",
    "/workspace/a/../../x",
    "/workspace/.",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_write_outside_the_workspace_is_refused(box, path):
    refused(400, box.write, path, b"x")
    assert box.run("ls -A /tmp").out == b""


def test_write_through_links_only_while_they_stay_inside(box):
    box.run(
        "mkdir -p in/side; ln -sfn in/side rel; ln -sfn /workspace/in abs; ln -sfn /tmp t; ln -sfn / r; ln -sfn ../../tmp up;"
        " ln -sfn rel/../../in updown; ln -sfn loop loop; ln -sfn /workspacefoo near; ln -sfn in/new dangling; ln -sfn abs/side two"
    )
    for path, real in (
        ("rel/f1", "in/side/f1"),
        ("abs/f2", "in/f2"),
        ("two/f3", "in/side/f3"),
        ("updown/f4", "in/f4"),
        ("abs/deep/er/f5", "in/deep/er/f5"),
        ("dangling/f6", "in/new/f6"),
    ):
        box.write(path, path.encode())
        assert open(f"{box.dir}/{real}").read() == path
    for path in ("t/x", "r/tmp/x", "up/x", "loop/x", "near/x", "t/sub/x", "abs/../../x"):
        refused(400, box.write, path, b"evil")
    assert box.run("ls -A /tmp").out == b""


def test_write_errors_have_the_right_status(box):
    box.run("mkdir -p closed/x ro plain; echo f > file; chmod 000 closed; chmod 555 ro")
    refused(400, box.write, "plain", b"x")
    refused(400, box.write, "file/below", b"x")
    refused(400, box.write, "closed/f", b"x")
    refused(400, box.write, "closed/new/f", b"x")
    refused(400, box.write, "ro/f", b"x")
    refused(400, box.write, "n" * 256, b"x")
    refused(400, box.write, "/workspace/" + "d/" * 3000 + "f", b"x")
    refused(404, box.write, "no/parent", b"x", flags=layout.G_FLAG_WORKSPACE)
    box.run("chmod 755 closed ro; rm -rf closed ro")


def test_names_of_every_kind_make_the_round_trip(box):
    for name in (" lead", "-rf", "*", "two\nlines", "ü", "日本語", "😀", "quo'te\"", "back\\slash", "...", "~", "n" * 255, b"\xff\xfe"):
        name = os.fsencode(name)
        box.write(b"/workspace/names/" + name, name)
        assert box.read(b"/workspace/names/" + name)[1] == name
        assert name in [n for n, _ in box.list("/workspace/names")]


def test_full_workspace_is_507_and_leaves_nothing():
    with guest.Sandbox(["-W", "1m"]) as box:
        refused(507, box.write, "big", bytes(3_000_000))
        assert box.list() == []
        box.write("small", b"x")


def test_reader_sees_the_old_file_or_the_new_one(fresh):
    box, seen, stop = fresh, set(), threading.Event()
    a, b = b"a" * 300_000, b"b" * 200_000
    box.write("swap", a)

    def look():
        while not stop.is_set():
            with open(box.dir + "/swap", "rb") as f:
                data = f.read()
            seen.add((len(data), bytes(set(data))))

    t = threading.Thread(target=look)
    t.start()
    for _ in range(20):
        box.write("swap", b)
        box.write("swap", a)
    stop.set()
    t.join()
    assert seen <= {(300_000, b"a"), (200_000, b"b")}


def test_parallel_writes_to_one_name_leave_one_of_them(box):
    channels = [box.file(layout.G_WRITE, "par/f", mode=0o644, flags=layout.G_FLAG_WORKSPACE | layout.G_FLAG_PARENTS) for _ in range(8)]
    for _n in range(3):
        for i, ch in enumerate(channels):
            ch.data(layout.G_DATA, bytes([65 + i]) * 50_000)
    for ch in channels:
        ch.send(layout.G_DATA_END, layout.pack("g_size", {"bytes": 150_000}))
    for ch in channels:
        ch.wait()
    data = box.read("par/f")[1]
    assert len(data) == 150_000 and len(set(data)) == 1 and [n for n, _ in box.list("/workspace/par")] == [b"f"]


def test_special_files_are_refused_at_once(box):
    box.run("rm -f p s; mkfifo p; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('s')\"; ln -sf p lp; ln -sfn . ld")
    start = time.monotonic()
    for path in ("p", "s", "lp", "ld", "/dev/null", "/dev/zero", "/proc/self", "/proc", "/workspace"):
        refused(400, box.read, path)
    assert time.monotonic() - start < 2 + SLACK
    assert box.run("echo on").out == b"on\n"


def test_file_that_hides_its_size_is_refused_and_not_read_as_empty(box):
    for path in ("/proc/cpuinfo", "/proc/self/status", "/proc/self/cmdline"):
        refused(400, box.read, path)
    box.run(": > none")
    box.read("none")


def test_missing_and_unreadable_files(box):
    box.run("echo x > locked; chmod 000 locked; mkdir -p shut; echo x > shut/f; chmod 000 shut; ln -sf nowhere dead; ln -sf self self")
    for path in ("missing", "missing/below", "target/below", "dead"):
        refused(404, box.read, path)
    for path in ("locked", "shut/f", "self", "n" * 300):
        refused(400, box.read, path)
    with pytest.raises(guest.End):
        box.read("/proc/self/fd/0")  # the guest stream itself
    box.run("chmod 700 locked shut; rm -rf locked shut")


def test_read_follows_links_inside_the_sandbox(box):
    box.write("real", b"real")
    box.run("ln -sf real l1; ln -sf l1 l2; ln -sf /workspace/l2 l3; ln -sf /etc/passwd pw; mkdir -p dd; ln -sf ../real dd/up")
    for path in ("l1", "l2", "l3", "dd/up", "dd/../real"):
        assert box.read(path)[1] == b"real"
    assert box.read("pw")[1] == open("/etc/passwd", "rb").read()
    refused(400, box.read, "pw", flags=layout.G_FLAG_WORKSPACE)
    assert box.read("l3", flags=layout.G_FLAG_WORKSPACE)[1] == b"real"


RANGES = [  # kind, first, last, of "0123456789" -> bytes or status
    ("RANGE_FROM", 3, 0, b"3456789"),
    ("RANGE_FROM", 9, 0, b"9"),
    ("RANGE_FROM", 10, 0, 416),
    ("RANGE_FROM", -1, 0, 416),
    ("RANGE_BETWEEN", 2, 5, b"2345"),
    ("RANGE_BETWEEN", 0, 0, b"0"),
    ("RANGE_BETWEEN", 8, 99, b"89"),
    ("RANGE_BETWEEN", 10, 12, 416),
    ("RANGE_BETWEEN", 5, 4, 416),
    ("RANGE_SUFFIX", 3, 0, b"789"),
    ("RANGE_SUFFIX", 99, 0, b"0123456789"),
    ("RANGE_SUFFIX", 0, 0, 416),
    ("RANGE_BETWEEN", 0, 2**63 - 1, b"0123456789"),
    ("RANGE_FROM", 2**63 - 1, 0, 416),
    ("RANGE_SUFFIX", 2**63 - 1, 0, b"0123456789"),
]
KINDS = {"RANGE_ALL": 0, "RANGE_FROM": 1, "RANGE_BETWEEN": 2, "RANGE_SUFFIX": 3}


@pytest.mark.parametrize("kind, first, last, want", RANGES)
def test_ranges(box, kind, first, last, want):
    box.write("ranged", b"0123456789")
    if want == 416:
        with pytest.raises(guest.End) as e:
            box.read("ranged", range=KINDS[kind], first=first, last=last)
        assert (e.value.status, e.value.bytes) == (416, 10)
        return
    meta, data = box.read("ranged", range=KINDS[kind], first=first, last=last)
    assert data == want and meta["size"] == 10 and meta["length"] == len(want) and b"0123456789"[meta["first"] :][: len(want)] == want


def test_limit_counts_what_is_sent(box):
    box.write("limited", bytes(1000))
    refused(413, box.read, "limited", max=999)
    assert len(box.read("limited", max=1000)[1]) == 1000
    assert len(box.read("limited", max=10, range=KINDS["RANGE_BETWEEN"], first=5, last=14)[1]) == 10
    refused(416, box.read, "limited", max=0, range=KINDS["RANGE_FROM"], first=1000)


def test_head_sends_no_data(box):
    box.write("headed", bytes(1000))
    meta, data = box.read("headed", flags=layout.G_FLAG_HEAD)
    assert data == b"" and meta["size"] == meta["length"] == 1000


def test_file_that_shrinks_while_it_is_read_looks_broken(box):
    box.write("shrinks", bytes(2_000_000))
    ch = box.file(layout.G_READ, "shrinks")
    ch.credit = False
    box.settle(0.2)
    os.truncate(box.dir + "/shrinks", 300_000)
    ch.give(layout.GUEST_WINDOW)
    refused(500, ch.wait)


def test_reading_without_credit_stops_at_the_window_and_close_ends_it(box):
    box.write("windowed", bytes(1_000_000))
    ch = box.file(layout.G_READ, "windowed")
    ch.credit = False
    box.settle(0.3)
    assert len(ch.bytes(layout.G_DATA)) == layout.GUEST_WINDOW
    assert box.read("ranged")[1] == b"0123456789" if os.path.exists(box.dir + "/ranged") else True
    ch.send(layout.G_CLOSE)
    refused(409, ch.wait)


def test_lease_of_another_process_does_not_stop_pid_1(fresh):
    fresh.write("leased", b"x")
    code = "import fcntl,time,signal\nsignal.signal(signal.SIGIO, signal.SIG_IGN)\nf=open('leased','r+'); fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)\nprint('held', flush=True); time.sleep(60)"
    ch = fresh.exec(["python3", "-c", code])
    ch.wait_for(layout.G_STDOUT)
    start = time.monotonic()
    refused(409, fresh.read, "leased")
    assert time.monotonic() - start < 2 + SLACK


# LIST.


def test_list_is_sorted_by_bytes_and_typed(box):
    box.run("rm -rf ls; mkdir ls; cd ls; mkdir B a; printf 12345 > .h; ln -s /etc l; touch z A; mkfifo p; chmod 600 z; touch -d @1.5 z")
    got = dict(box.list("/workspace/ls"))
    assert list(got) == [b".h", b"A", b"B", b"a", b"l", b"p", b"z"]
    assert [e["type"] for e in got.values()] == [0, 0, 1, 1, 2, 3, 0]
    assert got[b".h"]["size"] == 5 and got[b"z"]["mode"] == 0o600 and got[b"z"]["mtime_ns"] == 1_500_000_000
    assert len(box.list("/")) >= 5 and box.list("/workspace/ls/a") == []


def test_list_refusals(box):
    box.write("plain-file", b"")
    refused(404, box.list, "/workspace/missing")
    refused(400, box.list, "/workspace/plain-file")
    refused(404, box.list, "/workspace/plain-file/below")
    box.run("mkdir -p dark; chmod 000 dark; mkdir -p dim; touch dim/f; chmod 400 dim")
    refused(400, box.list, "/workspace/dark")
    assert [n for n, _ in box.list("/workspace/dim")] == [b"f"]
    box.run("chmod 700 dark dim")


def test_huge_directory_is_listed_whole_in_order_with_little_memory(fresh):
    os.mkdir(fresh.dir + "/huge")
    names = sorted(os.urandom(6).hex() + "x" * 60 for _ in range(20_000))
    for n in names:
        os.mknod(f"{fresh.dir}/huge/{n}")
    ch = fresh.file(layout.G_LIST, "/workspace/huge")
    ch.credit = False
    fresh.settle(1.0)
    assert ch.final is None and sum(len(d) for t, d in ch.frames) <= layout.GUEST_WINDOW
    assert fresh.run("echo quick").out == b"quick\n"
    ch.send(layout.G_CLOSE)
    refused(409, ch.wait)
    assert [n.decode() for n, _ in fresh.list("/workspace/huge")] == names
    assert 0 < kib(fresh.pid, "VmHWM") < 3000
