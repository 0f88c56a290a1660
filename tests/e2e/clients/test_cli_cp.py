"""agent-sandbox cp: all of it, unharmed, or nothing; whatever the archive or the disk is like."""

import io
import os
import resource
import signal
import socket
import subprocess
import tarfile
import time
from pathlib import Path

import pytest
import trap as t
from cli_kit import Cli, peak_memory
from drivers import listing
from harness import BUILD
from machine import descriptors, wait_until


@pytest.fixture
def src(tmp_path):
    """A folder with all that a folder may have."""
    top = tmp_path / "src"
    (top / "deep/er").mkdir(parents=True)
    (top / "empty").mkdir()
    (top / "a").write_text("a\n")
    (top / "deep/run").write_text("#!/bin/sh\necho ran\n")
    (top / "deep/run").chmod(0o755)
    (top / "deep/er/big").write_bytes(os.urandom(3_000_000))
    (top / "deep/er/none").write_bytes(b"")
    (top / "link").symlink_to("deep/run")
    (top / "deep/up").symlink_to("../a")
    os.link(top / "a", top / "hard")
    os.utime(top / "a", (1_600_000_000, 1_600_000_000))
    (top / ("n" * 200)).write_text("long")
    (top / "sp ace\nüñ\x1b[31m").write_text("odd")
    return top


def same(one, two):
    """The same names, kinds, contents, modes and targets below both."""
    assert listing(one) == listing(two)
    for name in listing(one):
        a, b = Path(one) / name, Path(two) / name
        assert a.is_symlink() == b.is_symlink() and a.is_dir() == b.is_dir()
        if a.is_symlink():
            assert os.readlink(a) == os.readlink(b)
        else:
            assert a.stat().st_mode == b.stat().st_mode, name
            assert a.is_dir() or a.read_bytes() == b.read_bytes()


def test_folder_there_and_back_is_the_same(cli, box, src, tmp_path):
    assert cli.ok("cp", src, f"{box.id}:there") == ""
    assert cli.ok("exec", box.id, "there/link") == "ran\n"
    assert box.sh("stat -c %u there/a; stat -c %h there/hard; stat -c %Y there/a").split() == ["1000", "2", "1600000000"]
    assert cli.ok("cp", f"{box.id}:there", tmp_path / "back") == ""
    same(src, tmp_path / "back")
    assert (tmp_path / "back/a").stat().st_ino == (tmp_path / "back/hard").stat().st_ino
    assert (tmp_path / "back/a").stat().st_mtime == 1_600_000_000


def test_where_a_copy_goes_is_as_with_cp(cli, box, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").write_text("f")
    box.sh("mkdir have")
    for target, made in (
        ("have", "have/d"),
        ("new", "new"),
        ("have/other", "have/other"),
        ("", "d"),
        ("/workspace/abs", "abs"),
        ("x/", "x/d"),
    ):
        cli.ok("cp", tmp_path / "d", f"{box.id}:{target}")
        assert box.content(f"{made}/f") == b"f", target
    cli.ok("cp", f"{tmp_path}/d/.", f"{box.id}:have")
    assert box.content("have/f") == b"f"
    for target, made in (("have", "have/f"), ("g", "g"), ("deep/down/g", "deep/down/g"), ("", "f"), ("f2/", "f2/f")):
        box.sh("rm -f have/f")
        cli.ok("cp", tmp_path / "d/f", f"{box.id}:{target}")
        assert box.content(made) == b"f", target
    os.chdir(tmp_path / "d")
    cli.ok("cp", ".", f"{box.id}:dot")
    assert box.content("dot/f") == b"f"


def test_where_a_copy_comes_to_is_as_with_cp(cli, box, tmp_path):
    box.sh("mkdir -p d/e; echo f > d/e/f")
    (tmp_path / "have").mkdir()
    for source, target, made in (
        ("d", "have", "have/d/e/f"), ("d", "new", "new/e/f"), ("d/e/f", "have", "have/f"), ("d/e/f", "g", "g"), ("d/e/", "h", "h/f"),
        ("/workspace/d/e", "have/", "have/e/f"), ("", "all", "all/d/e/f"), (".", "have", "have/workspace/d/e/f"),
    ):  # fmt: skip
        cli.ok("cp", f"{box.id}:{source}", target, cwd=tmp_path)
        assert (tmp_path / made).read_text() == "f\n", (source, target)
    assert "no such folder" in cli.fails(1, "cp", f"{box.id}:d/e/f", f"{tmp_path}/none/")
    assert cli.fails(1, "cp", f"{box.id}:d/e/f", tmp_path / "none/f")


def test_what_exists_is_left_unless_forced(cli, box, tmp_path):
    box.put("f", b"new")
    (tmp_path / "f").write_text("old")
    assert "--force" in cli.fails(1, "cp", f"{box.id}:f", tmp_path / "f")
    assert "--force" in cli.fails(1, "cp", f"{box.id}:f", tmp_path)
    assert (tmp_path / "f").read_text() == "old" and listing(tmp_path) == ["f"]
    (tmp_path / "l").symlink_to("nowhere")
    assert "exists" in cli.fails(1, "cp", f"{box.id}:f", tmp_path / "l")
    cli.ok("cp", "-f", f"{box.id}:f", tmp_path / "f")
    assert (tmp_path / "f").read_text() == "new"
    cli.ok("cp", "-f", f"{box.id}:f", tmp_path / "l")
    assert not (tmp_path / "l").is_symlink() and not (tmp_path / "nowhere").exists()


def test_forced_folder_becomes_one_with_that_which_is_there(cli, box, tmp_path):
    box.sh("mkdir -p d/s; echo new > d/a; echo new > d/s/b")
    (tmp_path / "d/s").mkdir(parents=True)
    for name in ("d/a", "d/mine", "d/s/mine"):
        (tmp_path / name).write_text("old\n")
    cli.ok("cp", "-f", f"{box.id}:d", tmp_path)
    assert listing(tmp_path) == ["d", "d/a", "d/mine", "d/s", "d/s/b", "d/s/mine"]
    assert (tmp_path / "d/a").read_text() == "new\n" and (tmp_path / "d/mine").read_text() == "old\n"


def test_file_never_takes_the_place_of_a_folder_nor_the_other_way(cli, box, tmp_path):
    box.sh("mkdir -p d/x; echo a > d/a; echo f > f; mkdir g; echo h > g/h")
    (tmp_path / "d/a").mkdir(parents=True)
    (tmp_path / "d/z").write_text("z")
    assert "in the way" in cli.fails(1, "cp", "-f", f"{box.id}:d", tmp_path)
    assert listing(tmp_path) == ["d", "d/a", "d/z"], "all is as it was"
    (tmp_path / "g").write_text("mine")
    assert "in the way" in cli.fails(1, "cp", "-f", f"{box.id}:g", tmp_path)
    assert (tmp_path / "g").read_text() == "mine"
    assert "file" in cli.fails(1, "cp", tmp_path / "d", f"{box.id}:f")


def test_what_cannot_be_copied_is_counted_and_left_out(cli, box, tmp_path):
    top = tmp_path / "s"
    top.mkdir()
    os.mkfifo(top / "pipe")
    s = socket.socket(socket.AF_UNIX)
    s.bind(str(top / "sock"))
    (top / "out").symlink_to("/etc/passwd")
    (top / "up").symlink_to("../../x")
    (top / "in").symlink_to("f")
    (top / "f").write_text("f")
    p = cli("cp", top, f"{box.id}:s")
    s.close()
    assert p.returncode == 0 and "2 links" in p.stderr and "2 pipes" in p.stderr
    assert box.names("s") == ["f", "in"]
    box.sh("cd s; mkfifo p; ln -s /etc/shadow abs; ln -s ../../../y up; ln -s f/../../.. trick")
    p = cli("cp", f"{box.id}:s", tmp_path / "back")
    assert p.returncode == 0 and "3 links" in p.stderr and "1 pipe" in p.stderr
    assert listing(tmp_path / "back") == ["f", "in"]
    cli.ok("cp", "--all-links", f"{box.id}:s", tmp_path / "links")
    assert os.readlink(tmp_path / "links/abs") == "/etc/shadow"


def test_file_that_cannot_be_read_stops_the_copy_with_nothing_made(cli, box, tmp_path):
    top = tmp_path / "s"
    top.mkdir()
    (top / "a").write_text("a")
    (top / "secret").write_text("s")
    (top / "secret").chmod(0)
    tmp_path.chmod(0o755)
    drop = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    for folder in tmp_path.parents:
        if str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    said = cli.fails(1, "cp", top, f"{box.id}:s", **drop)
    assert "secret" in said and "Permission denied" in said
    assert wait_until(lambda: box.names() == [])  # what was begun inside goes a moment later
    assert "No such file" in cli.fails(1, "cp", tmp_path / "none", f"{box.id}:x")


def test_big_file_goes_both_ways_in_little_memory(cli, box, tmp_path):
    big = tmp_path / "big"
    with open(big, "wb") as f:
        for _ in range(200):
            f.write(os.urandom(1 << 20))
    for words in (["cp", big, f"{box.id}:big"], ["cp", f"{box.id}:big", tmp_path / "back"]):
        p = cli.start(*words)
        peak = peak_memory(p)
        assert p.wait(60) == 0, p.stderr.read()
        assert peak < (40_000 if BUILD.name == "build" else 150_000), f"{peak} KiB"
        p.stdout.close(), p.stderr.close()
    assert subprocess.run(["cmp", big, tmp_path / "back"]).returncode == 0


def test_copy_as_json_tells_what_was_copied(cli, box, tmp_path):
    (tmp_path / "f").write_text("12345")
    assert cli.ok("cp", "--json", tmp_path / "f", f"{box.id}:f").split() == '{ "files": 1, "bytes": 5, "left_out": 0 }'.split()


def tar_of(*members):
    """Of (name, type or bytes, link target)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, what, target in members:
            m = tarfile.TarInfo(name)
            m.mode, m.linkname = 0o755, target
            if isinstance(what, bytes) and len(what) != 1:
                m.size = len(what)
                tar.addfile(m, io.BytesIO(what))
            else:
                m.type = what
                tar.addfile(m)
    return out.getvalue()


DIR, LINK, HARD, CHR, BLK, FIFO = tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE
TOP = ("./", DIR, "")
HOSTILE = {
    "dots": [TOP, ("../evil", b"evil", "")],
    "dots inside": [TOP, ("./a/../../evil", b"evil", "")],
    "absolute": [TOP, ("/tmp/evil-absolute", b"evil", "")],
    "through a link": [TOP, ("l", LINK, ".."), ("l/evil", b"evil", "")],
    "through an inner link": [TOP, ("d/", DIR, ""), ("l", LINK, "d"), ("l/evil", b"evil", "")],
    "through a link by a folder": [TOP, ("l", LINK, "/tmp"), ("l/", DIR, ""), ("l/evil-dir", b"evil", "")],
    "hard link out": [TOP, ("h", HARD, "../victim")],
    "hard link absolute": [TOP, ("h", HARD, "/etc/passwd")],
    "hard link to a link": [TOP, ("l", LINK, "x"), ("h", HARD, "l")],
    "hard link through a link": [TOP, ("l", LINK, "."), ("h", HARD, "l/victim")],
    "character device": [TOP, ("null", CHR, "")],
    "block device": [TOP, ("disk", BLK, "")],
    "top is a link": [("l", LINK, "/etc")],
    "top is a device": [("null", CHR, "")],
    "top is a pipe": [("p", FIFO, "")],
    "two tops": [("a", b"one", ""), ("b", b"two", "")],
    "file and then a folder": [("a", b"one", ""), ("a/b", b"two", "")],
    "file below a file": [TOP, ("a", b"one", ""), ("a/b", b"two", "")],
    "folder over a file": [TOP, ("a", b"one", ""), ("a/", DIR, "")],
    "file over a folder": [TOP, ("a/", DIR, ""), ("a", b"one", "")],
    "very deep": [TOP, ("d/" * 2500 + "f", b"deep", "")],
    "nothing": [],
}

OUTWARD = ["through a link", "through a link by a folder"]
# Without --all-links such a link is left out: see below.
CASES = [(kind, options) for options in ([], ["--force", "--all-links"]) for kind in HOSTILE if options or kind not in OUTWARD]


@pytest.mark.parametrize("kind, options", CASES, ids=[f"{kind} {len(options)}" for kind, options in CASES])
def test_hostile_archive_does_no_harm_and_leaves_nothing(trap, tmp_path, kind, options):
    place = tmp_path / "a/place"
    place.mkdir(parents=True)
    (place / "victim").write_text("victim")
    trap.on("GET .*/files/archive", t.reply(200, tar_of(*HOSTILE[kind]), "application/x-tar"))
    p = Cli(trap.url)("cp", *options, f"{t.SANDBOX_ID}:x", place / "new")
    assert p.returncode in (1, 5) and p.stdout == "" and "nothing was copied" in p.stderr and p.stderr.count("\n") == 1
    assert listing(tmp_path) == ["a", "a/place", "a/place/victim"] and (place / "victim").stat().st_nlink == 1
    assert not Path("/tmp/evil-absolute").exists() and not Path("/tmp/evil-dir").exists()


@pytest.mark.parametrize("kind", OUTWARD)
def test_what_lies_behind_a_link_that_is_left_out_stays_inside(trap, tmp_path, kind):
    place = tmp_path / "a/place"
    place.mkdir(parents=True)
    trap.on("GET .*/files/archive", t.reply(200, tar_of(*HOSTILE[kind]), "application/x-tar"))
    p = Cli(trap.url)("cp", f"{t.SANDBOX_ID}:x", place / "new")
    assert p.returncode == 0 and "1 links" in p.stderr
    made = HOSTILE[kind][-1][0]
    assert listing(tmp_path) == ["a", "a/place", "a/place/new", "a/place/new/l", f"a/place/new/{made}"]
    assert not Path("/tmp/evil-dir").exists()


def test_setuid_bits_and_owners_of_an_archive_are_not_taken(trap, tmp_path):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, kind in (("./", DIR), ("f", tarfile.REGTYPE), ("d/", DIR)):
            m = tarfile.TarInfo(name)
            m.type, m.mode, m.uid, m.gid = kind, 0o7777, 12345, 12345
            tar.addfile(m)
    trap.on("GET .*/files/archive", t.reply(200, data.getvalue(), "application/x-tar"))
    Cli(trap.url).ok("cp", f"{t.SANDBOX_ID}:x", tmp_path / "new", umask=0o022)
    for name in ("", "f", "d"):
        st = (tmp_path / "new" / name).stat()
        assert st.st_mode & 0o7777 == 0o755 and st.st_uid == os.geteuid(), name


def test_folder_that_is_closed_to_its_owner_still_gets_its_files(trap, tmp_path):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, kind in (("./", DIR), ("d/", DIR), ("d/f", tarfile.REGTYPE)):
            m = tarfile.TarInfo(name)
            m.type, m.mode = kind, 0o000
            tar.addfile(m)
    trap.on("GET .*/files/archive", t.reply(200, data.getvalue(), "application/x-tar"))
    Cli(trap.url).ok("cp", f"{t.SANDBOX_ID}:x", tmp_path / "new")
    assert listing(tmp_path / "new") == ["d", "d/f"]


def test_archive_that_is_cut_leaves_nothing(trap, tmp_path):
    whole = tar_of(TOP, ("a", os.urandom(400_000), ""), ("b", b"bb", ""))
    for cut in (0, 100, 512, 1024, 200_000, len(whole) - 20_000):
        trap.on("GET .*/files/archive", t.reply(200, whole[:cut], "application/x-tar", length=len(whole)))
        Cli(trap.url).fails(5, "cp", f"{t.SANDBOX_ID}:x", tmp_path / "new")
        assert listing(tmp_path) == []


def test_archive_whose_tar_is_cut_though_the_answer_is_whole_leaves_nothing(trap, tmp_path):
    whole = tar_of(TOP, ("a", os.urandom(400_000), ""))
    for cut in (100, 700, 1500, 200_000):
        trap.on("GET .*/files/archive", t.reply(200, whole[:cut], "application/x-tar"))
        assert "nothing was copied" in Cli(trap.url).fails(5, "cp", f"{t.SANDBOX_ID}:x", tmp_path / "new")
        assert listing(tmp_path) == []


def test_broken_archive_deeper_than_files_can_be_open_leaves_nothing(trap, tmp_path):
    deep = tar_of(TOP, ("d/" * 1500 + "f", b"deep", ""))
    broken = deep[: deep.rindex(b"deep") + 512] + b"?" * 512 + bytes(1024)
    trap.on("GET .*/files/archive", t.reply(200, broken, "application/x-tar"))
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))}
    assert "nothing was copied" in Cli(trap.url).fails(5, "cp", f"{t.SANDBOX_ID}:x", tmp_path / "new", **limit)
    assert os.listdir(tmp_path) == []


def test_answer_that_is_no_archive_leaves_nothing(trap, tmp_path):
    for answer in (t.reply(200, b"<html>", "text/html"), t.reply(200, os.urandom(5000), "application/x-tar"), t.reply(200, {"x": 1})):
        trap.on("GET .*/files/archive", answer)
        Cli(trap.url).fails(5, "cp", f"{t.SANDBOX_ID}:x", tmp_path / "new")
        assert listing(tmp_path) == []


def test_signal_while_copying_leaves_nothing(trap, tmp_path):
    whole = tar_of(TOP, ("a", os.urandom(400_000), ""))

    def slow(client, seen, ended):
        client.sendall(t.reply(200, whole[:300_000], "application/x-tar", length=len(whole)))
        ended.wait(60)

    trap.on("GET .*/files/archive", slow)
    with Cli(trap.url).start("cp", f"{t.SANDBOX_ID}:x", tmp_path / "new") as p:
        assert wait_until(lambda: any(x.endswith("/a") for x in listing(tmp_path)))
        p.send_signal(signal.SIGINT)
        assert p.wait(30) == 130 and p.stderr.read() == b""
    assert listing(tmp_path) == []


def test_signal_while_sending_leaves_nothing_there(cli, box, tmp_path):
    big = tmp_path / "big"
    subprocess.run(["truncate", "-s", "900M", big], check=True)
    with cli.start("cp", big, f"{box.id}:big") as p:
        assert wait_until(lambda: str(big) in descriptors(p.pid).values()), "it is not under way"
        time.sleep(0.3)
        p.send_signal(signal.SIGINT)
        assert p.wait(30) == 130
    assert wait_until(lambda: box.names() == [])


@pytest.fixture
def small(tmp_path):
    """A disk of 1 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


def test_full_disk_leaves_nothing_half_written(cli, box, small):
    box.sh("head -c 3000000 /dev/urandom > f; mkdir d; for i in 1 2 3 4; do head -c 400000 /dev/urandom > d/$i; done")
    (small / "f").write_text("old")
    for words in (["cp", f"{box.id}:f", small / "g"], ["cp", "-f", f"{box.id}:f", small / "f"], ["cp", f"{box.id}:d", small]):
        assert "No space left" in cli.fails(1, *words)
        assert listing(small) == ["f"] and (small / "f").read_text() == "old"


def test_archive_over_the_limit_of_the_server_tells_it(own, tmp_path):
    server = own(MAX_SNAPSHOT_BYTES=1_000_000)
    box = server.api.create()
    (tmp_path / "f").write_bytes(b"x" * (8 << 20))
    assert "MAX_SNAPSHOT_BYTES" in Cli(server.url).fails(1, "cp", tmp_path / "f", f"{box.id}:f")
    assert wait_until(lambda: box.names() == [])  # what was unpacked aside goes while the answer is on its way
    box.sh("head -c 3000000 /dev/zero > g")
    Cli(server.url).fails(5, "cp", f"{box.id}:g", tmp_path / "g")
    assert listing(tmp_path) == ["f"]
