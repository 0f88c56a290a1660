"""Files in and out."""

import io
import os
import re
import tarfile
import threading
import time

import pytest
from front import FRONT
from harness import at_once, check_error, codes, raw, request
from machine import SLACK, wait_until

INFO = {"name", "path", "type", "size", "modified_at"}


@pytest.mark.core
@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 262144, 262145, 3_000_001])
def test_what_is_written_is_read_back(box, size):
    data = os.urandom(size)
    info = box.put("f.bin", data)
    assert set(info) == INFO
    assert (info["name"], info["path"], info["type"], info["size"]) == ("f.bin", "/workspace/f.bin", "file", size)
    got = box.read("f.bin")
    assert got.content == data and got.headers["Content-Length"] == str(size)
    assert got.headers["Content-Type"] == "application/octet-stream"
    assert int(box.sh("stat -c %s f.bin")) == size


@pytest.mark.core
def test_parents_are_made_for_the_sandbox_user_and_mode_is_exact(box):
    box.put("a/b/run.sh", b"#!/bin/sh\necho ran\n", mode="0755")
    assert box.sh("stat -c '%u:%g %a' a a/b a/b/run.sh").split() == ["1000:1000", "755", "1000:1000", "755", "1000:1000", "755"]
    assert box.sh("umask 077; a/b/run.sh; touch a/b/beside; rm -r a") == "ran\n"
    for mode in ("000", "400", "0640", "777"):
        box.put("m", b"", mode=mode)
        assert int(box.sh("stat -c %a m"), 8) == int(mode, 8)
    box.put("plain", b"")
    assert box.sh("stat -c %a plain") == "644\n"


@pytest.mark.parametrize(
    ("mode", "status"), [("", 422), ("8", 422), ("rw", 422), ("75", 422), ("07555", 422), ("+755", 422), ("4755", 400)]
)
def test_nonsense_mode_is_refused(box, mode, status):
    check_error(box.write("never", b"x", mode=mode), status)
    assert box.names() == []


@pytest.mark.parametrize(
    "path",
    ["", "..", ".", "/", "/workspace", "../x", "/etc/x", "/workspace/../x", "/workspaces/x", "a/../../x", "/tmp/x", "a\0b", "n" * 256],
)
def test_write_outside_the_workspace_or_to_an_impossible_name_is_400(box, path):
    check_error(box.write(path, b"x"), 400)
    assert box.names() == []


def test_write_never_follows_a_link_out_and_replaces_a_final_link(make):
    b = make(read_only_rootfs=False, memory_mb=64)
    b.sh("ln -s /tmp out; ln -s / root; ln -s ../etc up; mkdir real; ln -s real in; ln -s /tmp/target final; echo t > /tmp/target")
    for path in ("out/x", "root/tmp/x", "up/x", "out/deep/x"):
        check_error(b.write(path, b"evil"), 400)
    b.put("in/ok", b"inside")
    b.put("final", b"new")
    assert b.sh("cat real/ok final; cat /tmp/target; [ -L final ] || echo file; ls /tmp") == "insidenewt\nfile\ntarget\n"


def test_wrong_kinds_are_told_apart(box):
    box.sh("mkdir d; mkfifo p; ln -s nowhere dead; touch f; echo x > shut; chmod 000 shut; ln -s /dev/zero z")
    began = time.monotonic()
    for path, status in (("d", 400), ("p", 400), ("dead", 404), ("none", 404), ("none/x", 404), ("f/x", 404), ("shut", 400), ("z", 400)):
        check_error(box.read(path), status)
    assert time.monotonic() - began < 4 + SLACK
    check_error(box.files("f"), 400)
    check_error(box.files("none"), 404)
    check_error(box.write("d", b"x"), 400)
    check_error(box.write("f/x", b"x"), 400)
    check_error(box.api.ask("GET", box.path + "/files"), 422)
    check_error(box.api.ask("PUT", box.path + "/files", data=b""), 422)
    kinds = {e["name"]: e["type"] for e in box.files().json()["entries"]}
    assert kinds == {"d": "directory", "p": "other", "dead": "symlink", "f": "file", "shut": "file", "z": "symlink"}


def test_read_follows_links_within_the_sandbox(box):
    box.sh("echo deep > f; ln -s f l1; ln -s l1 l2; ln -s /etc/hostname h")
    assert box.content("l2") == b"deep\n" and box.content("h") == box.content("/etc/hostname")
    assert box.content("./x/../l1") == b"deep\n"


def test_names_of_every_kind_make_the_round_trip(box):
    names = [" a", "a ", "-rf", "*", "$(x)", "a+b", "a&b=c", "a%2fb", "100%", "#", "?", ";", "ü", "日本", "😀", "q'\"", "b\\s", "t\tb", "n\nl",
             "...", "~", "n" * 255]  # fmt: skip
    for n in names:
        assert box.put("d/" + n, n.encode())["name"] == n
        assert box.content("d/" + n) == n.encode()
    assert box.names("d") == sorted(names, key=lambda n: n.encode())


def test_list_has_all_entries_sorted_with_their_kind_and_time(box):
    box.sh("mkdir B a; printf 12345 > .h; ln -s /etc l; touch -d '2001-02-03 04:05:06.789 UTC' z")
    box.python("import os; open(b'/workspace/\\xff', 'w')")
    r = box.files().json()
    assert r["path"] == "/workspace" and set(r) == {"path", "entries"}
    assert [e["name"] for e in r["entries"]] == [".h", "B", "a", "l", "z", "\ufffd"]
    assert all(set(e) == INFO and e["path"] == "/workspace/" + e["name"] for e in r["entries"])
    times = {e["name"]: e["modified_at"] for e in r["entries"]}
    assert times["z"] == "2001-02-03T04:05:06.789000Z"
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", t) for t in times.values())
    assert r["entries"][0]["size"] == 5
    assert box.files("/").json()["path"] == "/"


def test_times_beyond_what_nanoseconds_can_count_are_the_last_that_they_can(box):
    """In /tmp, whose file system keeps them all."""
    box.sh("mkdir /tmp/t; cd /tmp/t; touch -d 2400-01-01 late; touch -d 1500-01-01 early; touch -d 2200-01-01 still")
    times = {e["name"]: e["modified_at"][:10] for e in box.files("/tmp/t").json()["entries"]}
    assert times == {"early": "1677-09-21", "late": "2262-04-11", "still": "2200-01-01"}


def test_list_of_many_entries_is_complete(box):
    box.python("import os; os.mkdir('m'); [open(f'm/{i:05}-' + 'x'*100, 'w').close() for i in range(5000)]")
    assert len(box.names("m")) == 5000


def test_size_limit_holds_to_the_byte_both_ways_and_before_the_body(own):
    s = own(MAX_FILE_BYTES=100_000)
    b = s.api.create(memory_mb=64)
    b.put("fits", b"x" * 100_000)
    assert len(b.content("fits")) == 100_000
    check_error(b.write("big", b"x" * 100_001), 413)
    check_error(b.write("big", iter([b"x" * 60_000] * 2)), 413)
    began = time.monotonic()
    head = request("PUT", f"{b.path}/files?path=big", "Content-Length: 99999999999")
    assert codes(raw(s.port, head, wait=3))[:1] == [413] and time.monotonic() - began < 3.5 + SLACK
    b.sh("head -c 100001 /dev/zero > made")
    check_error(b.read("made"), 413)
    r = b.read("made", headers={"Range": "bytes=0-9"})
    assert r.status_code == 206 and len(r.content) == 10
    assert b.names() == ["fits", "made"]


def test_range_gives_that_part(box):
    box.put("r", b"0123456789")
    for ask, got, where in (("2-5", b"2345", "2-5"), ("7-", b"789", "7-9"), ("-3", b"789", "7-9"), ("0-99", b"0123456789", "0-9")):
        r = box.read("r", headers={"Range": f"bytes={ask}"})
        assert (r.status_code, r.content, r.headers["Content-Range"]) == (206, got, f"bytes {where}/10")
    r = box.read("r", headers={"Range": "bytes=10-"})
    assert (r.status_code, r.headers["Content-Range"]) == (416, "bytes */10")
    assert box.read("r", headers={"Range": "lines=1-2"}).status_code == 200


def test_broken_upload_leaves_the_old_file_and_no_other(box, server):
    box.put("f", b"old")
    head = request("PUT", f"{box.path}/files?path=f", "Content-Length: 100000")
    raw(server.port, head, b"new" * 1000, wait=0.3)
    chunked = request("PUT", f"{box.path}/files?path=f", "Transfer-Encoding: chunked")
    raw(server.port, chunked, b"5\r\nnewer\r\n", wait=0.3, half_close=True)
    time.sleep(0.4)
    assert wait_until(lambda: box.names() == ["f"]) and box.content("f") == b"old"


def test_chunked_upload_of_unknown_length_works(box):
    parts = [os.urandom(n) for n in (1, 70_000, 2, 300_000)]
    assert box.write("c", iter(parts)).json()["size"] == sum(map(len, parts))
    assert box.content("c") == b"".join(parts)


def test_reader_meets_the_old_file_or_the_new_one_and_writers_do_not_mix(box):
    sizes = {b"a": 500_000, b"b": 300_000}
    box.put("f", b"a" * sizes[b"a"])
    stop = threading.Event()

    def write(letter):
        while not stop.is_set():
            box.put("f", letter * sizes[letter])

    writers = [threading.Thread(target=write, args=(x,)) for x in sizes]
    for w in writers:
        w.start()
    try:
        for _ in range(40):
            got = box.content("f")
            assert got in (b"a" * 500_000, b"b" * 300_000)
    finally:
        stop.set()
        for w in writers:
            w.join()
    assert box.names() == ["f"]


def test_file_that_shrinks_while_it_is_sent_looks_broken_to_the_client(box):
    box.sh("truncate -s 40000000 f")
    with pytest.raises(Exception, match=r"(?i)incomplete|broken|reset|aborted"):
        r = box.read("f", stream=True)
        it = r.iter_content(1 << 16)
        next(it)
        time.sleep(0.5)
        box.sh("truncate -s 1000 f")
        assert sum(map(len, it)) < 40_000_000
        raise AssertionError("the transfer looked complete")


def tar_of(*members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
        for name, data, kind, link in members:
            m = tarfile.TarInfo(name)
            m.type, m.linkname, m.size = kind, link, len(data)
            m.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
            t.addfile(m, io.BytesIO(data))
    return out.getvalue()


REG, DIR, SYM, LNK, CHR = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE


def test_archive_of_a_folder_makes_the_round_trip(box):
    box.sh("mkdir -p t/d; echo 1 > t/one; ln -s one t/l; chmod 700 t/d; echo 2 > t/d/two")
    got = box.api.ask("GET", box.path + "/files/archive", params={"path": "t"})
    assert got.status_code == 200 and got.headers["Content-Type"] == "application/x-tar"
    with tarfile.open(fileobj=io.BytesIO(got.content)) as t:
        assert {m.name.split("/", 1)[-1] for m in t.getmembers()} >= {"one", "l", "d/two"}
    put = box.api.ask("PUT", box.path + "/files/archive", params={"path": "copy"}, data=got.content)
    assert put.status_code in (200, 204), put.text
    found = box.sh("cd copy && find . -name two -exec cat {} +; find . -name l -exec readlink {} +")
    assert found.split() == ["2", "one"]


def test_archive_merges_into_what_is_there_or_changes_nothing(box):
    box.put("d/keep", b"kept")
    ok = tar_of(("new", b"n", REG, ""), ("sub", b"", DIR, ""), ("sub/f", b"f", REG, ""))
    assert box.api.ask("PUT", box.path + "/files/archive", params={"path": "d"}, data=ok).status_code in (200, 204)
    assert box.sh("cat d/keep d/new d/sub/f") == "keptnf"
    for bad in (
        tar_of(("a", b"a", REG, ""), ("../x", b"x", REG, "")), tar_of(("/etc/x", b"x", REG, "")),
        tar_of(("l", b"", SYM, "/etc"), ("l/x", b"x", REG, "")), tar_of(("dev", b"", CHR, "")),
        tar_of(("h", b"", LNK, "../../etc/passwd")), b"this is not a tar" * 100, ok[: len(ok) // 8],
    ):  # fmt: skip
        check_error(box.api.ask("PUT", box.path + "/files/archive", params={"path": "d"}, data=bad), 400)
        assert box.names("d") == ["keep", "new", "sub"] and box.names() == ["d"]


def test_archive_whose_process_another_request_ends_is_409_and_leaves_nothing(box):
    tar = tar_of(("a", b"a" * 400_000, REG, ""), ("b", b"b" * 400_000, REG, ""))
    head = request("PUT", box.path + "/files/archive?path=sub", f"Content-Length: {len(tar)}")
    for end in ("true", "kill -9 $PPID; sleep 5"):
        with FRONT.connect(int(box.api.url.rsplit(":", 1)[1]), 10) as c:
            c.sendall(head + tar[:500_000])
            assert wait_until(lambda: box.sh("ls -A sub 2>/dev/null; true") != "")
            box.exec(end, "?kill_others=true" if end == "true" else "")
            assert codes(c.recv(65536)) == [409]
        assert wait_until(lambda: box.names("sub") == []), box.names("sub")


def test_missing_or_foreign_sandbox_is_404_for_every_file_route(api):
    for method, tail in (("GET", "/files?path=x"), ("PUT", "/files?path=x"), ("GET", "/files/list"), ("GET", "/files/archive?path=x")):
        check_error(api.ask(method, "/v1/sandboxes/sb_00000000000000ab" + tail), 404)


def test_eight_uploads_and_downloads_at_once_are_each_whole(box):
    data = [os.urandom(900_000) for _ in range(8)]
    at_once([lambda i=i: box.put(f"p{i}", data[i]) for i in range(8)])
    assert at_once([lambda i=i: box.content(f"p{i}") for i in range(8)]) == data
