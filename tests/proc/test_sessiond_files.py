"""sessiond and files: reads, writes, lists, archives, snapshots."""

import hashlib
import os
import random
import struct
import tempfile
import threading
import time

import layout
import pytest
from machine import SLACK
from session_kit import Session, end, entry, error_of, exited, meta, pieces, send_later

MIB = 1 << 20


def done(size):
    return (layout.RECORD_DONE, struct.pack("<q", size))


class Sender:
    """The guest's side of a channel: sends as credit allows."""

    def __init__(self, guest, channel):
        self.guest, self.channel, self.credit = guest, channel, layout.GUEST_WINDOW

    def send(self, type, data):
        for at in range(0, len(data), 65536):
            piece = data[at : at + 65536]
            while self.credit < len(piece):
                got, ch, body = self.guest.recv()
                assert got == layout.G_WINDOW and ch == self.channel, got
                self.credit += struct.unpack("<II", body)[0]
            self.credit -= len(piece)
            self.guest.send(type, self.channel, piece)


def snapshot_file(mode="w+b"):
    return tempfile.TemporaryFile(mode)


def snapshot(s, tar, f, max_bytes=64 * MIB, size=None):
    """The sandbox exports tar; returns the job's id."""
    id, _ = s.job("S_SNAPSHOT", {"max_bytes": max_bytes}, fd=f)
    channel, fields, path = s.guest.expect_file(layout.G_EXPORT)
    assert path == b"/workspace" and fields["flags"] == layout.G_FLAG_FREEZE and fields["max"] == max_bytes
    s.guest.send(layout.G_STARTED, channel)
    Sender(s.guest, channel).send(layout.G_DATA, tar)
    s.guest.send(layout.G_END, channel, end(200, len(tar) if size is None else size))
    return id


def restore(s, f, size, sha):
    """What the sandbox got (or None when it was told to stop), and the channel."""
    id, _ = s.job("S_RESTORE", {"size_bytes": size, "sha256": sha}, fd=f)
    channel, fields, path = s.guest.expect_file(layout.G_IMPORT)
    assert path == b"/workspace" and fields["flags"] == layout.G_FLAG_RESTORE
    s.guest.send(layout.G_STARTED, channel)
    tar, sent = bytearray(), 0
    while True:
        type, ch, data = s.guest.recv()
        assert ch == channel
        if type == layout.G_CLOSE:
            s.guest.send(layout.G_END, channel, end(500, 0, b"closed"))
            return id, None
        if type == layout.G_DATA_END:
            assert struct.unpack("<q", data)[0] == len(tar)
            s.guest.send(layout.G_END, channel, end(200, len(tar)))
            return id, bytes(tar)
        tar += data
        if len(tar) - sent >= 65536:
            s.guest.window(channel, len(tar) - sent)
            sent = len(tar)


def test_read_passes_the_range_and_the_metadata_and_the_bytes():
    with Session() as s:
        fields = {"first": 10, "last": 1000, "max": 5000, "range": layout.RANGE_BETWEEN}
        id, client = s.job("S_READ", fields, b"/etc/passwd")
        channel, got, path = s.guest.expect_file(layout.G_READ)
        assert path == b"/etc/passwd" and {k: got[k] for k in fields} == fields and got["flags"] == 0
        s.guest.send(layout.G_META, channel, meta(991 + 10, first=10, length=991, mtime_ns=-5))
        s.guest.send(layout.G_DATA, channel, b"z" * 991)
        s.guest.send(layout.G_END, channel, end(200, 991))
        records = client.all()
        about = layout.unpack("r_meta", records[0][1])
        assert about["size"] == 1001 and about["first"] == 10 and about["length"] == 991 and about["mtime_ns"] == -5
        assert records[1:] == [(layout.RECORD_DATA, b"z" * 991), done(991)]
        assert s.job_end(id, 200).fields["bytes_out"] == 991


def test_head_only_read_has_no_data():
    with Session() as s:
        id, client = s.job("S_READ", {"max": 10, "head_only": 1}, b"/f")
        channel, got, _ = s.guest.expect_file(layout.G_READ)
        assert got["flags"] == layout.G_FLAG_HEAD
        s.guest.send(layout.G_META, channel, meta(5000))
        s.guest.send(layout.G_END, channel, end())
        assert [r[0] for r in client.all()] == [layout.RECORD_META, layout.RECORD_DONE]
        s.job_end(id, 200)


def test_file_that_shrinks_while_it_is_read_looks_broken_to_the_client():
    with Session() as s:
        id, client = s.job("S_READ", {"max": 5000}, b"/f")
        channel, _, _ = s.guest.expect_file(layout.G_READ)
        s.guest.send(layout.G_META, channel, meta(500))
        s.guest.send(layout.G_DATA, channel, b"z" * 100)
        s.guest.send(layout.G_END, channel, end(200, 100))
        assert error_of(client.all()[-1])[0] == 500
        s.job_end(id, 500)


def test_range_that_cannot_be_says_the_size():
    with Session() as s:
        id, client = s.job("S_READ", {"first": 99, "max": 5000, "range": layout.RANGE_FROM}, b"/f")
        channel, _, _ = s.guest.expect_file(layout.G_READ)
        s.guest.send(layout.G_END, channel, end(416, 50, b"range"))
        record = client.recv()
        assert error_of(record) == (416, "range") and layout.unpack("r_error", record[1])["size"] == 50
        s.job_end(id, 416)


def test_reader_that_leaves_closes_the_channel():
    with Session() as s:
        id, client = s.job("S_READ", {"max": 1 << 30}, b"/f")
        channel, _, _ = s.guest.expect_file(layout.G_READ)
        s.guest.send(layout.G_META, channel, meta(1 << 20))
        s.guest.send(layout.G_DATA, channel, bytes(65536))
        client.close()
        s.guest.expect(layout.G_CLOSE, channel)
        s.guest.send(layout.G_DATA, channel, bytes(65536))
        s.guest.send(layout.G_END, channel, end(500, 131072, b"closed"))
        s.job_end(id, 499)


def test_write_sends_what_came_and_answers_with_the_new_file():
    data = os.urandom(600_000)
    with Session() as s:
        id, client = s.job("S_WRITE", {"max": 1 << 20, "size": len(data), "mode": 0o755}, b"/workspace/a")
        channel, got, path = s.guest.expect_file(layout.G_WRITE)
        assert path == b"/workspace/a" and got["size"] == len(data) and got["mode"] == 0o755 and got["max"] == 1 << 20
        assert got["flags"] == layout.G_FLAG_WORKSPACE | layout.G_FLAG_PARENTS
        s.guest.send(layout.G_STARTED, channel)
        send_later(client, [*pieces(layout.RECORD_DATA, data), done(len(data))])
        got = b""
        while len(got) < len(data):
            piece = s.guest.expect(layout.G_DATA, channel)[1]
            got += piece
            s.guest.window(channel, len(piece))
        assert got == data
        assert s.guest.expect(layout.G_DATA_END, channel)[1] == struct.pack("<q", len(data))
        s.guest.send(layout.G_META, channel, meta(len(data)))
        s.guest.send(layout.G_END, channel, end(200, len(data)))
        assert [client.recv()[0], client.recv()] == [layout.RECORD_META, done(len(data))]
        assert s.job_end(id, 200).fields["bytes_in"] == len(data)


@pytest.mark.parametrize("how", ["gone", "short", "long", "garbage", "huge"])
def test_upload_that_breaks_is_undone(how):
    with Session() as s:
        id, client = s.job("S_WRITE", {"max": 1 << 20, "size": -1}, b"/workspace/a")
        channel, _, _ = s.guest.expect_file(layout.G_WRITE)
        s.guest.send(layout.G_STARTED, channel)
        client.send(layout.RECORD_DATA, b"half")
        s.guest.expect(layout.G_DATA, channel)
        if how == "gone":
            client.close()
        elif how == "garbage":
            client.send(99, b"?")
        elif how == "huge":
            client.sock.sendall(struct.pack("<IB", 0xFFFFFFFF, layout.RECORD_DATA))
        else:
            client.send(*done(3 if how == "short" else 5))
        s.guest.expect(layout.G_CLOSE, channel)
        s.guest.send(layout.G_END, channel, end(500, 4, b"closed"))
        if how != "gone":
            assert error_of(client.recv())[0] == 500
        s.job_end(id, 499 if how == "gone" else 500)


def test_refusal_of_the_guest_reaches_a_client_that_is_still_sending():
    with Session() as s:
        id, client = s.job("S_WRITE", {"max": 1 << 20, "size": -1}, b"/workspace/a")
        channel, _, _ = s.guest.expect_file(layout.G_WRITE)
        client.send(layout.RECORD_DATA, b"x" * 60000)
        s.guest.send(layout.G_END, channel, end(507, 0, b"no space left"))
        assert error_of(client.recv()) == (507, "no space left")
        for _ in range(50):
            client.send(layout.RECORD_DATA, b"x" * 60000)
        s.job_end(id, 507)


def test_remove_names_the_file_and_what_it_must_be_and_ends_with_done():
    with Session() as s:
        id, client = s.job("S_REMOVE", {"first": 77, "size": 5}, b"/workspace/a")
        channel, got, path = s.guest.expect_file(layout.G_REMOVE)
        assert path == b"/workspace/a" and (got["first"], got["size"], got["flags"]) == (77, 5, layout.G_FLAG_WORKSPACE)
        s.guest.send(layout.G_END, channel, end())
        assert client.all() == [done(0)]
        s.job_end(id, 200)
        id, client = s.job("S_REMOVE", {"first": 1, "size": 0}, b"/workspace/a")
        channel, _, _ = s.guest.expect_file(layout.G_REMOVE)
        s.guest.send(layout.G_END, channel, end(409, 0, b"/workspace/a: it was changed"))
        assert error_of(client.recv()) == (409, "/workspace/a: it was changed")
        s.job_end(id, 409)


@pytest.mark.parametrize(
    "type, data", [("G_STARTED", b""), ("G_DATA", b"x"), ("G_META", meta(1)), ("G_ENTRY", entry(b"a")), ("G_WINDOW", bytes(8))]
)
def test_guest_that_answers_a_removal_with_anything_else_is_no_guest(type, data):
    with Session() as s:
        s.job("S_REMOVE", {"size": 1}, b"/workspace/a")
        channel, _, _ = s.guest.expect_file(layout.G_REMOVE)
        s.guest.send(getattr(layout, type), channel, data)
        assert "wrong type" in s.down()


def test_list_turns_entries_into_records():
    with Session() as s:
        id, client = s.job("S_LIST", {"max": 0}, b"/workspace")
        channel, _, path = s.guest.expect_file(layout.G_LIST)
        assert path == b"/workspace"
        s.guest.send(layout.G_ENTRY, channel, entry(b"a", size=7, type=layout.FILE_DIRECTORY) + entry(b".b\xff"))
        s.guest.send(layout.G_ENTRY, channel, entry(b"x" * 255, mtime_ns=-1))
        s.guest.send(layout.G_END, channel, end(200, 3))
        records = client.all()
        n = layout.sizeof("r_entry")
        assert [r[1][n:] for r in records[:3]] == [b"a", b".b\xff", b"x" * 255] and records[3][0] == layout.RECORD_DONE
        assert layout.unpack("r_entry", records[0][1])["type"] == layout.FILE_DIRECTORY
        s.job_end(id, 200)


def test_long_list_flows_with_credit():
    with Session() as s:
        id, client = s.job("S_LIST", {}, b"/workspace")
        channel, _, _ = s.guest.expect_file(layout.G_LIST)
        sender, frame, n = Sender(s.guest, channel), b"".join(entry(b"f%07d" % i) for i in range(2000)), 0
        thread = threading.Thread(target=lambda: [sender.send(layout.G_ENTRY, frame) for _ in range(20)])
        thread.start()
        while n < 40000:
            assert client.recv()[0] == layout.RECORD_ENTRY
            n += 1
        thread.join()
        s.guest.send(layout.G_END, channel, end())
        assert client.recv() == done(0)
        s.job_end(id, 200)


def test_archive_get_streams_and_stops_at_the_limit():
    with Session() as s:
        id, client = s.job("S_ARCHIVE_GET", {"max": 100_000}, b"/workspace/d")
        channel, got, path = s.guest.expect_file(layout.G_EXPORT)
        assert path == b"/workspace/d" and got["flags"] == 0 and got["max"] == 100_000
        s.guest.send(layout.G_STARTED, channel)
        s.guest.send(layout.G_DATA, channel, b"t" * 10240)
        s.guest.send(layout.G_END, channel, end(200, 10240))
        assert client.all() == [(layout.RECORD_STARTED, b""), (layout.RECORD_DATA, b"t" * 10240), done(10240)]
        s.job_end(id, 200)
        id, client = s.job("S_ARCHIVE_GET", {"max": 100_000}, b"/workspace/d")
        channel, _, _ = s.guest.expect_file(layout.G_EXPORT)
        s.guest.send(layout.G_STARTED, channel)
        s.guest.send(layout.G_DATA, channel, b"t" * 60000)
        s.guest.send(layout.G_DATA, channel, b"t" * 60000)
        s.guest.expect(layout.G_CLOSE, channel)
        s.guest.send(layout.G_END, channel, end(200, 120000))
        assert error_of(client.all()[-1])[0] == 413
        s.job_end(id, 413)


def test_archive_put_streams_and_is_done_when_the_guest_says_so():
    with Session() as s:
        id, client = s.job("S_ARCHIVE_PUT", {"max": 100_000}, b"/workspace/d")
        channel, got, path = s.guest.expect_file(layout.G_IMPORT)
        assert got["flags"] == layout.G_FLAG_WORKSPACE | layout.G_FLAG_PARENTS and path == b"/workspace/d"
        s.guest.send(layout.G_STARTED, channel)
        client.send(layout.RECORD_DATA, b"t" * 1000)
        client.send(*done(1000))
        assert s.guest.expect(layout.G_DATA, channel)[1] == b"t" * 1000
        s.guest.expect(layout.G_DATA_END, channel)
        s.guest.send(layout.G_END, channel, end(200, 1000))
        assert client.all() == [done(1000)]
        s.job_end(id, 200)


def test_requests_that_cannot_be_fail_alone():
    with Session() as s:
        for fields, path in (
            ({}, b""),
            ({}, b"relative"),
            ({}, b"/nul\0l"),
            ({"mode": 0o1777}, b"/workspace/a"),
            ({"range": 4}, b"/a"),
        ):
            id, client = s.job("S_READ", fields, path)
            assert error_of(client.recv())[0] == 500
            s.job_end(id, 500)


def test_snapshot_and_restore_round_trip():
    rng = random.Random(1)
    tar = b"".join(rng.randbytes(1000) + bytes(3000) for _ in range(2500))
    with Session() as s, snapshot_file() as f:
        id = snapshot(s, tar, f)
        m = s.manager.recv_until("S_SNAPPED", id=id)
        assert m.fields["size_bytes"] == len(tar) and m.fields["sha256"] == hashlib.sha256(tar).digest()
        assert m.fields["stored_bytes"] == os.fstat(f.fileno()).st_size < len(tar)
        s.job_end(id, 200)
        f.seek(0)
        assert f.read(4) == b"\x28\xb5\x2f\xfd"
        f.seek(0)
        id, got = restore(s, f, len(tar), hashlib.sha256(tar).digest())
        assert got == tar
        s.job_end(id, 200)


def test_snapshot_over_its_limit_is_413_and_closes_the_channel():
    with Session() as s, snapshot_file() as f:
        id, _ = s.job("S_SNAPSHOT", {"max_bytes": 100_000}, fd=f)
        channel, _, _ = s.guest.expect_file(layout.G_EXPORT)
        s.guest.send(layout.G_STARTED, channel)
        s.guest.send(layout.G_DATA, channel, bytes(60000))
        s.guest.send(layout.G_DATA, channel, bytes(60000))
        s.guest.expect(layout.G_CLOSE, channel)
        s.guest.send(layout.G_END, channel, end(500, 120000, b"closed"))
        s.job_end(id, 413)


def test_snapshot_file_that_grows_over_what_is_left_of_the_quota_is_429_at_once():
    """Not when it is whole: until then it would be on the disk."""
    noise = random.Random(2).randbytes(3 * MIB)
    with Session() as s, snapshot_file() as f:
        id, _ = s.job("S_SNAPSHOT", {"max_bytes": 64 * MIB, "max_stored": MIB}, fd=f)
        channel, _, _ = s.guest.expect_file(layout.G_EXPORT)
        s.guest.send(layout.G_STARTED, channel)
        for at in range(0, layout.GUEST_WINDOW, 65536):
            s.guest.send(layout.G_DATA, channel, noise[at : at + 65536])
        given, type = 0, layout.G_WINDOW
        while type == layout.G_WINDOW:  # as much as there is credit for
            type, _, data = s.guest.recv()
            given += struct.unpack("<II", data)[0] if type == layout.G_WINDOW else 0
            while type == layout.G_WINDOW and given >= 65536:
                s.guest.send(layout.G_DATA, channel, noise[:65536])
                noise, given = noise[65536:] + noise[:65536], given - 65536
        assert type == layout.G_CLOSE
        s.guest.send(layout.G_END, channel, end(500, 0, b"closed"))
        assert b"quota" in s.job_end(id, 429).tail and os.fstat(f.fileno()).st_size <= MIB
    for most, tar in ((0, noise), (4 * MIB, noise), (MIB, bytes(20 * MIB))):  # what counts is what it takes, not what it holds
        with Session() as s, snapshot_file() as f:
            id, _ = s.job("S_SNAPSHOT", {"max_bytes": 64 * MIB, "max_stored": most}, fd=f)
            channel, _, _ = s.guest.expect_file(layout.G_EXPORT)
            s.guest.send(layout.G_STARTED, channel)
            Sender(s.guest, channel).send(layout.G_DATA, tar)
            s.guest.send(layout.G_END, channel, end(200, len(tar)))
            s.job_end(id, 200)


def test_snapshot_file_that_grows_over_the_limit_of_files_is_413():
    """The guest's bytes do not compress, and managerd allows more than this process may write."""
    with Session(config={"MAX_SNAPSHOT_BYTES": 1024}) as s, snapshot_file() as f:
        id, _ = s.job("S_SNAPSHOT", {"max_bytes": 1 << 40}, fd=f)
        channel, _, _ = s.guest.expect_file(layout.G_EXPORT)
        s.guest.send(layout.G_STARTED, channel)
        noise, credit = os.urandom(65536), layout.GUEST_WINDOW
        while True:
            if credit >= 65536:
                s.guest.send(layout.G_DATA, channel, noise)
                credit -= 65536
                noise = os.urandom(65536)
                continue
            type, _, data = s.guest.recv()
            if type == layout.G_CLOSE:
                break
            credit += struct.unpack("<II", data)[0]
        s.guest.send(layout.G_END, channel, end(500, 0, b"closed"))
        s.job_end(id, 413)


def test_snapshot_that_the_guest_refuses_says_why():
    with Session() as s, snapshot_file() as f:
        id, _ = s.job("S_SNAPSHOT", {"max_bytes": 100_000}, fd=f)
        channel, _, _ = s.guest.expect_file(layout.G_EXPORT)
        s.guest.send(layout.G_END, channel, end(409, 0, b"processes would not stand still"))
        assert s.job_end(id, 409).tail == b"processes would not stand still"


@pytest.mark.parametrize("how", ["flip", "cut", "trailing", "size", "sha", "empty", "noise", "window"])
def test_damaged_snapshot_is_not_restored(how):
    tar = random.Random(2).randbytes(300_000)
    sha, size = hashlib.sha256(tar).digest(), len(tar)
    with Session() as s, snapshot_file() as f:
        id = snapshot(s, tar, f)
        s.job_end(id, 200)
        f.seek(0)
        data = bytearray(f.read())
        if how == "flip":
            data[len(data) // 2] ^= 1
        elif how == "cut":
            del data[-1:]
        elif how == "trailing":
            data += b"more"
        elif how == "size":
            size += 1
        elif how == "sha":
            sha = bytes(32)
        elif how == "empty":
            data = b""
        elif how == "noise":
            data = os.urandom(1000)
        elif how == "window":
            data[4:6] = b"\x04\xf8"  # no single segment, a window of terabytes
        f.seek(0)
        f.truncate()
        f.write(data)
        f.flush()
        f.seek(0)
        id, got = restore(s, f, size, sha)
        assert got is None
        assert s.job_end(id, 500).tail == b"the snapshot's file is damaged"
        assert s.alive()


def test_other_channels_flow_while_a_snapshot_is_made():
    with Session() as s, snapshot_file() as f:
        id, client, two = s.started()
        s.job("S_SNAPSHOT", {"max_bytes": 1 << 30}, fd=f)
        channel, _, _ = s.guest.expect_file(layout.G_EXPORT)
        s.guest.send(layout.G_STARTED, channel)
        sender = Sender(s.guest, channel)
        for _ in range(20):
            sender.send(layout.G_DATA, os.urandom(MIB))
            s.guest.send(layout.G_STDOUT, two, b"tick")
            assert client.recv() == (layout.RECORD_STDOUT, b"tick")
        s.guest.send(layout.G_EXIT, two, exited())


def test_clock_of_a_command_stands_still_while_the_sandbox_is_frozen():
    """A command with a limit of 0.1 s is killed from outside after 10.1 s that did not count a freeze of 3 s."""
    with Session() as s, snapshot_file() as f:
        began = time.monotonic()
        _, _client, two = s.started(timeout_us=100_000)
        s.job("S_SNAPSHOT", {"max_bytes": 1 << 30}, fd=f)
        channel, _, _ = s.guest.expect_file(layout.G_EXPORT)
        s.guest.send(layout.G_STARTED, channel)
        time.sleep(3)
        s.guest.send(layout.G_DATA, channel, b"t" * 512)
        s.guest.send(layout.G_END, channel, end(200, 512))
        s.guest.expect(layout.G_KILL, two, timeout=30)
        assert 12.5 < time.monotonic() - began < 14.5 + SLACK


def test_managerd_that_sends_something_else_than_a_file_is_fatal():
    for name in ("S_SNAPSHOT", "S_RESTORE"):
        with Session() as s:
            s.job(name, {}, fd=os.open("/dev/null", os.O_RDWR))
            assert s.wait() == 1
    with Session() as s, snapshot_file() as f:
        f.write(b"not empty")
        f.flush()
        s.job("S_SNAPSHOT", {"max_bytes": 5}, fd=f)
        assert s.wait() == 1
