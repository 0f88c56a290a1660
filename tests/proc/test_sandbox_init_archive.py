"""sandbox-init: EXPORT and IMPORT, and how a sandbox stands still for a snapshot."""

import io
import os
import resource
import signal
import socket
import stat
import tarfile
import time

import guest
import layout
import pytest
from guest import refused
from machine import SLACK, descriptors, kib, wait_until

pytestmark = guest.needs_root
MERGE = layout.G_FLAG_WORKSPACE | layout.G_FLAG_PARENTS


@pytest.fixture
def box():
    with guest.Sandbox() as b:
        yield b


def manifest(root):
    """Everything a snapshot must keep of a tree, read from outside."""
    out, inodes = {}, {}
    root = os.fsencode(root)
    for folder, dirs, files in os.walk(root):
        for name in [b"."] * (folder == root) + dirs + files:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            kind = stat.S_IFMT(st.st_mode)
            body = open(path, "rb").read() if kind == stat.S_IFREG else os.readlink(path) if kind == stat.S_IFLNK else b""
            xattrs = {
                n: os.getxattr(path, n, follow_symlinks=False) for n in os.listxattr(path, follow_symlinks=False) if n.startswith("user.")
            }
            same = inodes.setdefault(st.st_ino, path) if kind != stat.S_IFDIR else path
            out[os.path.relpath(path, root)] = (
                oct(st.st_mode),
                st.st_uid,
                st.st_gid,
                st.st_mtime_ns,
                body,
                xattrs,
                os.path.relpath(same, root),
            )
    return out


def restore(tar, uid):
    """A sandbox made from a tar."""
    new = guest.Sandbox(uid=uid)
    new.import_(tar)
    return new


def round_trip(box, **more):
    before = manifest(box.dir)
    tar = box.export(**more)
    assert manifest(box.dir) == before
    with restore(tar, box.uid) as new:
        assert manifest(new.dir) == before
    return tar


# What a snapshot holds.


def test_tree_comes_back_exactly(box):
    box.run(
        "mkdir -p d/e/empty 'sp ace'; echo 1 > d/one; echo 2 > d/e/two; chmod 600 d/one; chmod 750 d/e; ln -s one d/rel; ln -s /etc/passwd abs;"
        "ln -s nowhere dead; touch .dot 'sp ace/é'; touch -h -d '2002-01-01' dead; touch -d '2003-01-01' d/e/empty; chmod 500 d/e/empty;"
        "head -c 3000000 /dev/urandom > big; : > zero; mkfifo -m 640 pipe; touch -d '2001-02-03 04:05:06.123456789' d/one pipe; chmod 555 d; touch -d '1999-01-01 00:00:00.5' .; chmod 751 ."
    )
    tar = round_trip(box)
    names = tarfile.open(fileobj=io.BytesIO(tar)).getnames()
    assert names[0] == "." and "./d/e/two" in names
    assert {(m.uid, m.gid, m.uname) for m in tarfile.open(fileobj=io.BytesIO(tar))} == {(box.uid, box.uid, "")}


def test_set_id_and_sticky_bits_survive(box):
    box.run("touch u g; mkdir st sg; chmod 4755 u; chmod 2755 g; chmod 1777 st; chmod 2775 sg")
    round_trip(box)


def test_hard_links_stay_hard_links(box):
    box.run("echo x > a; mkdir d; ln a d/b; ln a c; ln -s a s; ln s s2; mkfifo f; ln f f2")
    round_trip(box)


def test_extended_attributes_are_kept(box):
    box.py(
        "import os; open('f','w'); os.setxattr('f','user.note',b'\\x00\\xffv=\\n'); os.setxattr('f','user.a=b c',b''); os.mkdir('d'); os.setxattr('d','user.d',b'1'); os.setxattr('.','user.root',b'r')"
    )
    assert len(manifest(box.dir)[b"f"][5]) == 2
    round_trip(box)


def test_read_only_file_with_attributes_is_restored(box):
    box.py("import os; open('f','w').write('x'); os.setxattr('f','user.note',b'v'); os.chmod('f', 0)")
    assert manifest(box.dir)[b"f"][5]
    round_trip(box)


SPARSE = {
    "middle": "f.truncate(120<<20); f.seek(90<<20); f.write(b'mid')",
    "only a hole": "f.truncate(50<<20)",
    "ends": "f.write(b'start'); f.seek(70<<20); f.write(b'end')",
    "many": "for i in range(300): f.seek(i<<18); f.write(b'x' * (1 + i))",
    "trailing": "f.write(b'a' * 5000); f.truncate(60<<20)",
}


@pytest.mark.parametrize("shape", SPARSE)
def test_sparse_file_stays_sparse_and_cheap(box, shape):
    box.py(f"f=open('s','wb')\n{SPARSE[shape]}")
    tar = round_trip(box)
    assert len(tar) < 3_000_000
    with restore(tar, box.uid) as new:
        assert os.stat(new.dir + "/s").st_blocks <= os.stat(box.dir + "/s").st_blocks + 64


def test_terabytes_of_nothing_are_packed_at_once(box):
    box.py("f=open('s','wb'); f.truncate(15 << 40)")
    start = time.monotonic()
    tar = box.export()
    assert len(tar) < 100_000 and time.monotonic() - start < 5 + SLACK
    with restore(tar, box.uid) as new:
        assert os.stat(new.dir + "/s").st_size == 15 << 40


def test_long_names_and_names_that_are_no_text(box):
    box.py(
        "import os\nos.makedirs('/'.join(['d' * 90] * 40)); open('n' * 255, 'w').write('1')\n"
        "open('/'.join(['d' * 90] * 4) + '/' + 'é' * 100, 'w').write('2'); os.symlink('t' * 300, 'link')\n"
        "open(b'\\xff\\xfe', 'w').write('3'); os.symlink(b'\\xff', b'\\xc3'); os.mkdir(b'd\\x80'); os.link(b'\\xff\\xfe', b'd\\x80/\\x81' + b'l' * 120)\n"
        "open('new\\nline', 'w'); open(' ', 'w'); open('back\\\\slash', 'w')"
    )
    assert len(manifest(box.dir)) >= 48
    round_trip(box)


def test_path_that_no_archive_can_hold_fails_by_name(box):
    box.py("import os\nfor _ in range(60): os.mkdir('x' * 100); os.chdir('x' * 100)")
    assert "path too long" in refused(400, box.export)
    assert box.run("echo on").out == b"on\n"
    box.py("import os, shutil\nshutil.rmtree('x' * 100)")


def test_deep_tree_is_packed(box):
    box.py("import os\nfor _ in range(1500): os.mkdir('d'); os.chdir('d')")
    round_trip_tar = box.export()
    with restore(round_trip_tar, box.uid) as new:
        assert new.run("find . | wc -l").out == b"1501\n"


def test_unreadable_files_and_closed_folders_are_part_of_it(box):
    box.run(
        "echo secret > f; chmod 000 f; mkdir -p d/e; echo in > d/in; echo deep > d/e/deep; chmod 200 d/e/deep; chmod 000 d/e d; mkdir x; touch x/y; chmod 300 x; mkdir w; touch w/y; chmod 444 w"
    )
    round_trip(box)
    with restore(box.export(), box.uid) as new:
        assert new.run("stat -c %a f d; chmod 700 f d d/e d/e/deep; cat f d/in d/e/deep").out == b"0\n0\nsecret\nin\ndeep\n"


def test_closed_root_is_part_of_it(box):
    box.run("echo x > f; chmod 000 .", workdir="/workspace")
    round_trip(box)
    assert stat.S_IMODE(os.stat(box.dir).st_mode) == 0


def test_entry_of_another_user_that_cannot_be_read_fails_by_name(box):
    box.run("mkdir -p d/e; echo > d/e/f")
    os.chown(box.dir + "/d/e/f", 0, 0)
    os.chmod(box.dir + "/d/e/f", 0o600)
    before = manifest(box.dir)
    text = refused(400, box.export)
    assert "./d/e/f" in text and "not accessible" in text
    assert manifest(box.dir) == before
    assert box.run("echo on").out == b"on\n"


def test_without_freeze_what_cannot_be_read_fails_and_nothing_is_changed(box):
    box.run("mkdir d; echo > d/f; chmod 000 d/f")
    assert "./d/f" in refused(400, box.export, flags=0)
    assert stat.S_IMODE(os.stat(box.dir + "/d/f").st_mode) == 0


def test_sockets_are_left_out(box):
    s = socket.socket(socket.AF_UNIX)
    s.bind(box.dir + "/sock")
    box.run("touch f")
    with restore(box.export(), box.uid) as new:
        assert sorted(os.listdir(new.dir)) == ["f"]


def test_archive_of_a_file_and_of_a_folder(box):
    box.run("mkdir -p d/e; echo one > d/one; ln -s one d/link; mkfifo d/p")
    t = tarfile.open(fileobj=io.BytesIO(box.export("/workspace/d", flags=0)))
    assert sorted(t.getnames()) == [".", "./e", "./link", "./one", "./p"]
    t = tarfile.open(fileobj=io.BytesIO(box.export("/workspace/d/link", flags=0)))
    assert t.getnames() == ["link"] and t.extractfile("link").read() == b"one\n"
    assert tarfile.open(fileobj=io.BytesIO(box.export("/etc/passwd", flags=0))).getnames() == ["passwd"]
    refused(404, box.export, "/workspace/none", flags=0)
    refused(404, box.export, "/workspace/d/one/below", flags=0)
    refused(400, box.export, "/workspace/d/p", flags=0)
    refused(400, box.export, "/etc/passwd", flags=layout.G_FLAG_WORKSPACE)


def test_archive_of_what_comes_and_goes_leaves_out_what_has_gone(box):
    box.run("mkdir steady; echo s > steady/f")
    box.run("while :; do mkdir -p a/b c; echo x > a/b/f; echo y > c/f; rm -rf a c; echo z > c; rm c; done & sleep 0.1")
    for _ in range(150):
        names = tarfile.open(fileobj=io.BytesIO(box.export(flags=0))).getnames()
        assert {"./steady", "./steady/f"} <= set(names)


def test_limit_of_an_export(box):
    box.write("big", os.urandom(1_000_000))
    refused(413, box.export, max=500_000)
    refused(413, box.export, flags=0, max=500_000)
    assert len(box.export(max=1_100_000)) > 1_000_000
    assert box.run("echo on").out == b"on\n"


def test_unfinished_uploads_are_no_part_of_a_snapshot():
    for options in ([], ["-T"]):
        with guest.Sandbox(options) as box:
            ch = box.file(layout.G_WRITE, "f", mode=0o644, flags=MERGE)
            ch.data(layout.G_DATA, bytes(1000))
            imp = box.file(layout.G_IMPORT, "/workspace/into", flags=MERGE)
            imp.wait_for(layout.G_STARTED)
            imp.data(layout.G_DATA, make_tar([("a", b"x" * 100)])[:600])
            box.settle(0.3)
            names = tarfile.open(fileobj=io.BytesIO(box.export())).getnames()
            assert names == [".", "./into"], names
            ch.send(layout.G_DATA_END, layout.pack("g_size", {"bytes": 1000}))
            ch.wait()


# Standing still.

WRITER = """
import os, threading, time
def work(n):
    i = 0
    while True:
        i += 1
        with open(f'a{n}', 'w') as f: f.write(str(i))
        with open(f'b{n}', 'w') as f: f.write(str(i))
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for t in threads: t.start()
os.fork() and os.fork()
print('on', flush=True)
for t in threads: t.join()
while True:
    with open(f'p{os.getpid()}', 'w') as f: f.write('x')
"""


def test_snapshot_is_one_moment_while_everything_writes(box):
    ch = box.exec(["python3", "-c", WRITER], timeout=60)
    ch.wait_for(layout.G_STDOUT)
    for _n in range(3):
        os.makedirs(box.dir + "/many", exist_ok=True)
        for i in range(300):
            open(f"{box.dir}/many/{i}", "w").close()
        export = box.file(layout.G_EXPORT, "/workspace", flags=layout.G_FLAG_FREEZE)
        export.wait_for(layout.G_STARTED)
        first = os.listdir(box.dir), [os.stat(f"{box.dir}/a{k}").st_mtime_ns for k in range(4)]
        time.sleep(0.05)
        assert first == (os.listdir(box.dir), [os.stat(f"{box.dir}/a{k}").st_mtime_ns for k in range(4)])
        assert all(p[2] in "TtZ" for p in box.processes() if not p[3].startswith("/.agent-sandbox"))
        export.wait()
        assert wait_until(lambda first=first: first[1] != [os.stat(f"{box.dir}/a{k}").st_mtime_ns for k in range(4)])
    assert ch.final is None


def test_what_was_stopped_before_stays_stopped(box):
    box.run("sleep 500.5 & sleep 501.5 & true")
    assert wait_until(lambda: {p[3] for p in box.processes()} == {"sleep 500.5 ", "sleep 501.5 "})
    box.kill(next(p[0] for p in box.processes() if "500.5" in p[3]), signal.SIGSTOP)
    want = {"sleep 500.5 ": "T", "sleep 501.5 ": "S"}
    assert wait_until(lambda: {p[3]: p[2] for p in box.processes()} == want)
    box.export()
    assert wait_until(lambda: {p[3]: p[2] for p in box.processes()} == want)
    box.settle(0.2)
    assert {p[3]: p[2] for p in box.processes()} == want


def test_parent_in_vfork_does_not_prevent_a_snapshot(box):
    code = """
import subprocess, threading
def work():
    while True: subprocess.run(['/bin/true'])
for _ in range(3): threading.Thread(target=work).start()
print('on', flush=True)
"""
    ch = box.exec(["python3", "-c", code])
    ch.wait_for(layout.G_STDOUT)
    for _ in range(10):
        box.export()


def test_command_clocks_stand_still(box):
    box.write("big", os.urandom(2_000_000))
    ch = box.exec(["sh", "-c", "sleep 1.2; echo done"], timeout=2.0)
    ch.wait_for(layout.G_STARTED)
    export = box.file(layout.G_EXPORT, "/workspace", flags=layout.G_FLAG_FREEZE)
    export.credit = False
    box.settle(2.5)
    export.credit = True
    export.give(layout.GUEST_WINDOW)
    export.wait()
    r = ch.wait()
    assert r.out == b"done\n" and not r.exit["timed_out"]
    ch = box.exec(["sleep", "9"], timeout=0.5)  # and run again afterwards
    assert ch.wait(30).exit["timed_out"] == 1


def test_what_would_change_the_workspace_waits_for_the_end(box):
    box.write("big", os.urandom(2_000_000))
    before_write = box.file(layout.G_WRITE, "open-before", mode=0o644, flags=MERGE)
    before_write.wait_for(layout.G_STARTED)
    export = box.file(layout.G_EXPORT, "/workspace", flags=layout.G_FLAG_FREEZE)
    export.credit = False
    export.wait_for(layout.G_DATA)
    before_write.data(layout.G_DATA, b"x")
    before_write.send(layout.G_DATA_END, layout.pack("g_size", {"bytes": 1}))
    command = box.exec(["sh", "-c", "cat; echo ran > ran"], stdin=True)
    command.data(layout.G_STDIN, b"in")
    command.send(layout.G_STDIN_END)
    write = box.file(layout.G_WRITE, "written", mode=0o644, flags=MERGE)
    write.data(layout.G_DATA, b"x")
    write.send(layout.G_DATA_END, layout.pack("g_size", {"bytes": 1}))
    again = box.file(layout.G_EXPORT, "/workspace", flags=layout.G_FLAG_FREEZE)
    called_off, killed = box.exec(["touch", "never"]), box.exec(["touch", "never"])
    called_off.send(layout.G_CLOSE)
    killed.send(layout.G_KILL)
    assert called_off.wait().code == killed.wait().code == 137
    assert box.read("big", max=-1)[0]["size"] == 2_000_000  # reading does not wait
    assert [n for n, _ in box.list()] == [b"big"]
    box.settle(0.3)
    assert all(ch.final is None for ch in (command, write, before_write, again, export))
    export.credit = True
    export.give(layout.GUEST_WINDOW)
    export.wait()
    assert tarfile.open(fileobj=io.BytesIO(export.bytes(layout.G_DATA))).getnames() == [".", "./big"]
    assert command.wait().out == b"in"
    for ch in (write, before_write, again):
        ch.wait()
    assert sorted(os.listdir(box.dir)) == ["big", "open-before", "ran", "written"]


@pytest.mark.parametrize("by", ["close", "hello", "kill the worker"])
def test_all_goes_on_when_a_snapshot_ends_early(box, by):
    box.write("big", os.urandom(2_000_000))
    box.run("mkdir shut; touch shut/f; chmod 000 shut; while :; do date +%N > tick; sleep 0.02; done & true")
    export = box.file(layout.G_EXPORT, "/workspace", flags=layout.G_FLAG_FREEZE)
    export.credit = False
    export.wait_for(layout.G_DATA)
    box.settle(0.2)
    # A date or sleep that ended just before waits for its stopped parent, as a zombie.
    assert {p[2] for p in box.processes() if "sandbox" not in p[3]} - {"Z"} == {"T"}
    if by == "close":
        export.send(layout.G_CLOSE)
        refused(409, export.wait)
    elif by == "hello":
        box.hello()
    else:
        worker = next(p[0] for p in box.processes() if p[3].startswith("/.agent-sandbox") and p[2] != "T")
        box.kill(worker)
        refused(409, export.wait)
    assert wait_until(lambda: not {p[2] for p in box.processes()} & set("Tt")) and box.run("echo on").out == b"on\n"
    assert stat.S_IMODE(os.stat(box.dir + "/shut").st_mode) == 0
    box.export()


def test_kill_works_while_all_stands_still(box):
    box.write("big", os.urandom(2_000_000))
    ch = box.exec(["sh", "-c", "(setsid sleep 502.5 &) ; sleep 502.5"])
    ch.wait_for(layout.G_STARTED)
    box.settle(0.2)
    export = box.file(layout.G_EXPORT, "/workspace", flags=layout.G_FLAG_FREEZE)
    export.credit = False
    export.wait_for(layout.G_DATA)
    ch.send(layout.G_KILL)
    assert ch.wait(30).code == 137 and wait_until(lambda: box.count("502.5") == 0)
    assert export.final is None
    export.credit = True
    export.give(layout.GUEST_WINDOW)
    export.wait()


def test_signals_wait_too(box):
    box.write("big", os.urandom(2_000_000))
    ch = box.exec(["sh", "-c", "trap 'exit 4' USR1; echo on; while :; do sleep 0.05; done"])
    ch.wait_for(layout.G_STDOUT)
    export = box.file(layout.G_EXPORT, "/workspace", flags=layout.G_FLAG_FREEZE)
    export.credit = False
    export.wait_for(layout.G_DATA)
    for signo in (signal.SIGCONT, signal.SIGUSR1):
        ch.send(layout.G_SIGNAL, layout.pack("g_number", {"n": signo}))
    box.settle(0.3)
    assert {p[2] for p in box.processes() if not p[3].startswith("/.agent-sandbox")} - {"Z"} == {"T"}
    export.credit = True
    export.give(layout.GUEST_WINDOW)
    export.wait()
    assert ch.wait(30).code == 4


def test_process_that_cannot_stand_still_is_409_and_all_goes_on(box):
    """The parent of a vfork does not stop before its child calls exec; this child never does."""
    code = "import ctypes, os, time\nif ctypes.CDLL(None).syscall(56, 0x4111, 0, 0, 0, 0) == 0:\n os.write(1, b'on'); time.sleep(60); os._exit(0)"
    ch = box.exec(["python3", "-c", code])
    ch.wait_for(layout.G_STDOUT)
    other = box.exec(["sh", "-c", "while :; do date +%N > tick; sleep 0.05; done"])
    start = time.monotonic()
    assert "stand still" in refused(409, box.export)
    assert 1.9 < time.monotonic() - start < 4 + SLACK
    before = open(box.dir + "/tick").read()
    assert wait_until(lambda: open(box.dir + "/tick").read() not in ("", before)) and other.final is None
    ch.send(layout.G_KILL)
    ch.wait()
    box.export()


def test_two_snapshots_at_once_of_what_cannot_stand_still_are_both_409_and_all_goes_on(box):
    code = "import ctypes, os, time\nif ctypes.CDLL(None).syscall(56, 0x4111, 0, 0, 0, 0) == 0:\n os.write(1, b'on'); time.sleep(60); os._exit(0)"
    ch = box.exec(["python3", "-c", code])
    ch.wait_for(layout.G_STDOUT)
    both = [box.file(layout.G_EXPORT, "/workspace", flags=layout.G_FLAG_FREEZE) for _ in range(2)]
    for export in both:
        assert "stand still" in refused(409, lambda e=export: e.wait())
    box.run("echo on")
    ch.send(layout.G_KILL)
    ch.wait()
    box.export()


def test_snapshot_that_nobody_fetches_is_given_up_after_thirty_seconds(box):
    box.write("big", os.urandom(2_000_000))
    box.run("sleep 503.5 & true")
    export = box.file(layout.G_EXPORT, "/workspace", flags=layout.G_FLAG_FREEZE)
    export.credit = False
    box.settle(25)
    assert [p[2] for p in box.processes() if "503.5" in p[3]] == ["T"] and export.final is None
    box.settle(8)
    assert [p[2] for p in box.processes()] == ["S"]
    assert "in time" in refused(409, export.wait)


# What is unpacked.


def make_tar(entries, format=tarfile.PAX_FORMAT, end=True):
    """entries: (name, bytes) or TarInfo."""
    out = io.BytesIO()
    t = tarfile.open(fileobj=out, mode="w", format=format)
    for e in entries:
        if isinstance(e, tarfile.TarInfo):
            t.addfile(e)
            continue
        info = tarfile.TarInfo(e[0])
        info.size = len(e[1])
        t.addfile(info, io.BytesIO(e[1]))
    if end:
        t.close()
    return out.getvalue()


def special(name, type, link="", mode=0o644):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = type, link, mode
    return info


def test_merge_adds_and_replaces_and_keeps_the_rest(box):
    box.run("mkdir -p t/d/keep t/was-link-target; echo old > t/d/f; echo kept > t/d/keep/k; ln -s d t/l; chmod 700 t; touch -d @77 t/d")
    deep = special("d", tarfile.DIRTYPE, mode=0o751)
    deep.mtime = 1234567890
    tar = make_tar(
        [
            deep,
            ("d/f", b"new"),
            ("d/sub/g", b"g"),
            ("l/inside", b"i"),
            ("top", b"t"),
            special("d/ln", tarfile.SYMTYPE, "f"),
            special("d/h", tarfile.LNKTYPE, "d/f"),
        ]
    )
    box.merge(tar, "/workspace/t")
    r = lambda p: open(box.dir + "/t/" + p).read()
    assert (r("d/f"), r("d/keep/k"), r("d/sub/g"), r("top"), r("d/ln"), r("l/inside")) == ("new", "kept\n", "g", "t", "new", "i")
    assert not os.path.islink(box.dir + "/t/l") and not os.path.exists(box.dir + "/t/d/inside")
    assert os.stat(box.dir + "/t/d/h").st_nlink == 2
    st = os.stat(box.dir + "/t/d")
    assert (stat.S_IMODE(st.st_mode), st.st_mtime) == (0o751, 1234567890)
    assert stat.S_IMODE(os.stat(box.dir + "/t").st_mode) == 0o700
    assert sorted(os.listdir(box.dir + "/t")) == ["d", "l", "top", "was-link-target"]


def test_merge_makes_the_target_and_may_be_the_workspace(box):
    box.merge(make_tar([("f", b"1")]), "/workspace/new/deep")
    box.merge(make_tar([("g", b"2")]))
    assert open(box.dir + "/new/deep/f").read() == "1" and sorted(os.listdir(box.dir)) == ["g", "new"]
    refused(400, box.merge, make_tar([("g", b"2")]), "/tmp/x")
    refused(400, box.merge, make_tar([("g", b"2")]), "/workspace/g")
    box.run("ln -s /tmp out")
    refused(400, box.merge, make_tar([("g", b"2")]), "/workspace/out")
    assert box.run("ls -A /tmp").out == b""


BAD = {
    "dot-dot": make_tar([("ok", b"x"), ("../evil", b"x")]),
    "dot-dot inside": make_tar([("ok", b"x"), ("a/../../evil", b"x")]),
    "dot-dot that stays": make_tar([("ok", b"x"), ("a/../evil", b"x")]),
    "absolute": make_tar([("ok", b"x"), ("/tmp/evil", b"x")]),
    "link out": make_tar([("ok", b"x"), special("evil", tarfile.SYMTYPE, "/tmp")]),
    "link up": make_tar([("ok", b"x"), special("a/evil", tarfile.SYMTYPE, "../../../tmp")]),
    "hard link out": make_tar([("ok", b"x"), special("evil", tarfile.LNKTYPE, "/etc/passwd")]),
    "hard link up": make_tar([("ok", b"x"), special("evil", tarfile.LNKTYPE, "../../etc/passwd")]),
    "hard link to nothing": make_tar([("ok", b"x"), special("evil", tarfile.LNKTYPE, "nothing")]),
    "through a link": make_tar([("ok", b"x"), special("d", tarfile.SYMTYPE, "e"), ("d/evil", b"x")]),
    "hard link through a link": make_tar([("ok", b"x"), special("d", tarfile.SYMTYPE, "."), special("evil", tarfile.LNKTYPE, "d/ok")]),
    "device": make_tar([("ok", b"x"), special("evil", tarfile.CHRTYPE)]),
    "block device": make_tar([("ok", b"x"), special("evil", tarfile.BLKTYPE)]),
    "file over folder": make_tar([("ok", b"x"), ("folder", b"evil")]),
    "truncated": make_tar([("ok", b"x"), ("evil", b"x" * 5000)])[:3000],
    "not a tar": os.urandom(5000),
    "text": b"hello\n" * 500,
    "nothing": b"",
    "too long": make_tar([("ok", b"x"), ("evil/" * 900, b"x")]),
    "compressed": __import__("gzip").compress(make_tar([("ok", b"x")])),
}


@pytest.mark.parametrize("what", BAD)
def test_archive_with_a_bad_entry_is_refused_and_nothing_written(box, what):
    box.run("mkdir -p t/folder/full; ln -s /tmp t/planted")
    before = manifest(box.dir + "/t")
    text = refused(400, box.merge, BAD[what], "/workspace/t")
    assert "evil" in text or what not in ("dot-dot", "absolute", "link out", "device", "hard link out", "through a link"), text
    after = manifest(box.dir + "/t")
    assert {k: v for k, v in after.items() if k != b"."} == {k: v for k, v in before.items() if k != b"."}
    assert box.run("ls -A /tmp").out == b""


def test_compressed_archive_is_told_to_be_one(box):
    assert "compressed" in refused(400, box.merge, BAD["compressed"], "/workspace")


@pytest.mark.parametrize("end", ["close", "hello", "short", "kill the worker", "kill all", "kill what cleans up too"])
def test_archive_that_ends_early_leaves_nothing(box, end):
    box.run("mkdir t; echo old > t/f")
    tar = make_tar([("f", b"new"), ("g", b"x" * 200_000)])
    ch = box.file(layout.G_IMPORT, "/workspace/t", flags=MERGE)
    ch.wait_for(layout.G_STARTED)
    ch.data(layout.G_DATA, tar if end == "short" else tar[:150_000])
    box.settle(0.2)
    if end == "close":
        ch.send(layout.G_CLOSE)
        refused(409, ch.wait)
    elif end == "hello":
        box.hello()
    elif end == "short":
        ch.send(layout.G_DATA_END, layout.pack("g_size", {"bytes": len(tar) + 1}))
        refused(400, ch.wait)
    elif end == "kill all":
        assert box.run("echo alone", kill_others=1).out == b"alone\n"
        refused(409, ch.wait)
    else:
        for _ in range(100 if end == "kill what cleans up too" else 1):
            for worker in [p[0] for p in box.processes() if p[3].startswith("/.agent-sandbox")]:
                box.kill(worker)
            box.settle(0.01)
        refused(409, ch.wait)
    box.settle(0.5)
    assert open(box.dir + "/t/f").read() == "old\n"
    assert os.listdir(box.dir + "/t") == ["f"]
    assert box.processes() == []


@pytest.fixture
def narrow():
    """A sandbox with few processes."""
    before = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (16, before[1]))
    try:
        b = guest.Sandbox()
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, before)
    with b:
        yield b


TAKE_ALL = """
import os, time
while True:
    try:
        if os.fork() == 0:
            time.sleep(600)
    except OSError:
        open("full", "w").close()
        time.sleep(0.001)
"""


def test_no_snapshot_waits_for_what_commands_can_keep_from_being_removed(narrow):
    box = narrow
    ch = box.file(layout.G_IMPORT, "/workspace/t", flags=MERGE)
    ch.wait_for(layout.G_STARTED)
    ch.data(layout.G_DATA, make_tar([("g", b"x" * 200_000)])[:150_000])
    taker = box.exec(["python3", "-c", TAKE_ALL])
    end = time.monotonic() + 60
    while not os.path.exists(box.dir + "/full") and time.monotonic() < end:
        box.settle(0.05)
    box.kill(next(p[0] for p in box.processes() if p[3].startswith("/.agent-sandbox") and p[1] == box.pid and "python" not in p[3]))
    refused(409, ch.wait)
    for _ in range(2):  # the place of the worker is taken again: what says so may be of before
        os.unlink(box.dir + "/full")
        assert wait_until(lambda: os.path.exists(box.dir + "/full"))
    assert len(os.listdir(box.dir + "/t")) == 1
    assert "pids_limit" in refused(429, box.export)
    taker.send(layout.G_KILL)
    taker.wait()
    assert sorted(tarfile.open(fileobj=io.BytesIO(box.export())).getnames()) == [".", "./full", "./t"]
    assert wait_until(lambda: os.listdir(box.dir + "/t") == [])


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_archives_of_other_programs_are_understood(box, format):
    names = ["plain", "é/日本", "n" * 99, "d" * 60 + "/" + "e" * 90]
    box.merge(make_tar([(n, n.encode()) for n in names], format), "/workspace/t")
    for n in names:
        assert open(f"{box.dir}/t/{n}", "rb").read() == n.encode()


def test_entry_that_comes_twice_is_the_later_one(box):
    d = special("x", tarfile.DIRTYPE, mode=0o755)
    box.merge(
        make_tar(
            [
                ("x", b"1"),
                ("x", b"2"),
                special("y", tarfile.SYMTYPE, "x"),
                ("y", b"3"),
                d,
                ("x/z", b"4"),
                special("w", tarfile.DIRTYPE),
                ("w", b"5"),
            ]
        ),
        "/workspace/t",
    )
    assert [open(f"{box.dir}/t/{n}").read() for n in ("y", "x/z", "w")] == ["3", "4", "5"]


def test_restore_takes_the_place_of_what_was_there(box):
    """A new volume may begin with what the image has in its own /workspace."""
    box.run("echo snapshotted > f")
    tar = box.export()
    with guest.Sandbox(uid=box.uid) as new:
        new.run("echo image > f; mkdir -p d/e; touch d/e/x; chmod 000 d/e d; ln -s / l; mkfifo p")
        new.import_(tar)
        assert manifest(new.dir) == manifest(box.dir)


def test_limit_of_an_import(box):
    tar = make_tar([("f", bytes(1_000_000))])
    refused(413, box.merge, tar, max=500_000)
    assert os.listdir(box.dir) == []
    box.merge(tar, max=len(tar))


def test_full_workspace_fails_an_import_with_507():
    with guest.Sandbox(["-W", "1m"]) as box:
        refused(507, box.merge, make_tar([("f", os.urandom(3_000_000))]))
        assert box.list() == []
        refused(507, box.import_, make_tar([("f", os.urandom(3_000_000))]))


def test_ten_thousand_files_there_and_back(box):
    for i in range(10_000):
        if i % 100 == 0:
            os.mkdir(f"{box.dir}/{i}")
            os.chown(f"{box.dir}/{i}", box.uid, box.uid)
        with open(f"{box.dir}/{i // 100 * 100}/{i}", "w") as f:
            f.write(str(i) * 10)
        os.chown(f"{box.dir}/{i // 100 * 100}/{i}", box.uid, box.uid)
    round_trip(box, wait=60)


def test_transfers_leave_no_descriptors_and_little_memory(box):
    box.write("f", os.urandom(3_000_000))
    fds = len(descriptors(box.pid))
    tar = box.export()
    for n in range(5):
        box.export()
        box.merge(tar, f"/workspace/n{n}")
        refused(400, box.merge, b"x" * 1000, f"/workspace/n{n}")
    box.settle(2.2)
    assert len(descriptors(box.pid)) == fds and box.processes() == []
    assert 0 < kib(box.pid, "VmRSS") <= 1536
