"""sessiond and sandbox-init together: what one says, the other understands."""

import hashlib
import io
import os
import struct
import tarfile
import tempfile
import time

import guest
import layout
from machine import wait_until
from session_kit import Session, error_of, pieces, send_later

pytestmark = guest.needs_root


class Real(Session):
    """A session whose sandbox is a real one."""

    def __init__(self, **kw):
        self.box = guest.Sandbox(hello=False)
        super().__init__(up=False, **kw)
        self.manager.send("S_GUEST", 0, {"framing": layout.GUEST_RAW, "sandbox": 1}, fd=self.box.sock)
        self.box.sock.close()
        self.manager.recv_until("S_UP")

    def __exit__(self, *exc):
        super().__exit__(*exc)
        self.box.close()

    def run(self, *argv, env=(), stdin=None, **kw):
        """exit (a dict), stdout, stderr"""
        id, client = self.exec([a.encode() for a in argv], env, stdin_follows=stdin is not None, **kw)
        out = {layout.RECORD_STDOUT: bytearray(), layout.RECORD_STDERR: bytearray()}
        if stdin is not None:
            send_later(client, [*pieces(layout.RECORD_STDIN, stdin), (layout.RECORD_STDIN_END, b"")])
        assert client.recv() == (layout.RECORD_STARTED, b"")
        while True:
            type, data = client.recv()
            if type == layout.RECORD_EXIT:
                break
            out[type] += data
        client.close()
        self.job_end(id, 200)
        return layout.unpack("r_exit", data), *out.values()

    def write(self, path, data, mode=0o644):
        id, client = self.job("S_WRITE", {"max": 1 << 30, "size": len(data), "mode": mode}, path)
        send_later(client, [*pieces(layout.RECORD_DATA, data), (layout.RECORD_DONE, struct.pack("<q", len(data)))])
        return id, client.all()

    def read(self, path, **fields):
        id, client = self.job("S_READ", {"max": 1 << 30} | fields, path)
        return id, client.all()

    def list(self, path=b"/workspace"):
        _, client = self.job("S_LIST", {"max": -1}, path)
        n = layout.sizeof("r_entry")
        return {d[n:]: layout.unpack("r_entry", d) for t, d in client.all() if t == layout.RECORD_ENTRY}


def test_commands_files_and_lists():
    with Real(env=b"A=1\0") as s:
        exit, out, err = s.run("sh", "-c", "echo $A $B $HOME; echo oops >&2; pwd; exit 3", env=[b"B=2"])
        assert (exit["exit_code"], out, err) == (3, b"1 2 /workspace\n/workspace\n", b"oops\n")
        data = os.urandom(1_000_000)
        id, records = s.write(b"/workspace/a/b/c", data, 0o755)
        s.job_end(id, 200)
        about = layout.unpack("r_meta", records[0][1])
        assert about["size"] == len(data) and about["mode"] == 0o755
        id, records = s.read(b"/workspace/a/b/c")
        assert b"".join(d for t, d in records if t == layout.RECORD_DATA) == data
        id, records = s.read(b"/workspace/a/b/c", range=layout.RANGE_SUFFIX, first=10)
        assert b"".join(d for t, d in records if t == layout.RECORD_DATA) == data[-10:]
        id, records = s.read(b"/workspace/none")
        assert error_of(records[0])[0] == 404
        s.job_end(id, 404)
        assert s.list(b"/workspace/a/b")[b"c"]["size"] == len(data)
        assert error_of(s.write(b"/etc/x", b"x")[1][0])[0] == 400


def test_stdin_goes_through_and_comes_back():
    data = os.urandom(3_000_000)
    with Real() as s:
        exit, out, _ = s.run("sha256sum", stdin=data)
        assert out.split()[0].decode() == hashlib.sha256(data).hexdigest() and exit["exit_code"] == 0


def test_time_limit_is_kept_inside():
    with Real() as s:
        exit, out, _ = s.run("sh", "-c", "echo begun; sleep 30", timeout_us=3_000_000)
        assert exit["timed_out"] == 1 and exit["exit_code"] == 137 and out == b"begun\n"


def test_client_that_leaves_kills_its_command():
    with Real() as s:
        id, client = s.exec([b"sleep", b"60"])
        client.recv()
        client.close()
        assert s.job_end(id, 200).fields["exit_code"] == 137


def test_snapshot_is_restored_in_another_sandbox():
    with Real() as s, tempfile.TemporaryFile() as f:
        s.run("sh", "-c", "mkdir d; for i in $(seq 500); do echo $i > d/$i; done; ln -s d/1 l; head -c 3000000 /dev/zero > z; chmod 600 z")
        id, _ = s.job("S_SNAPSHOT", {"max_bytes": 1 << 30}, fd=f)
        m = s.manager.recv_until("S_SNAPPED", id=id).fields
        s.job_end(id, 200)
        assert m["size_bytes"] > 3_000_000 and m["stored_bytes"] < 1_000_000
        with Real() as t:
            id, _ = t.job("S_RESTORE", {"size_bytes": m["size_bytes"], "sha256": m["sha256"]}, fd=f)
            assert t.manager.recv_until("S_JOB_END", id=id).fields["status"] == 200
            _, out, _ = t.run("sh", "-c", "cat l; cat d/* | wc -l; stat -c %a z")
            assert out == b"1\n500\n600\n"


def test_archives_both_ways():
    with Real() as s:
        s.run("sh", "-c", "mkdir d; echo hello > d/f")
        _, client = s.job("S_ARCHIVE_GET", {"max": 1 << 20}, b"/workspace/d")
        tar = b"".join(d for t, d in client.all() if t == layout.RECORD_DATA)
        assert any(m.name.endswith("f") for m in tarfile.open(fileobj=io.BytesIO(tar)))
        id, client = s.job("S_ARCHIVE_PUT", {"max": 1 << 20}, b"/workspace/e/f/g")
        client.send(layout.RECORD_DATA, tar)
        client.send(layout.RECORD_DONE, struct.pack("<q", len(tar)))
        assert client.all()[-1][0] == layout.RECORD_DONE
        s.job_end(id, 200)
        _, out, _ = s.run("sh", "-c", "cat $(find e -name f -type f)")
        assert out == b"hello\n"


def test_output_that_nobody_reads_blocks_the_command_and_another_runs():
    with Real() as s:
        _, stalled = s.exec([b"cat", b"/dev/zero"])
        time.sleep(0.3)
        exit, out, _ = s.run("echo", "hi")
        assert out == b"hi\n"
        assert s.pss_kb()["Pss_Anon"] < 4096
        stalled.close()


def test_many_commands_at_once():
    with Real() as s:
        jobs = [s.exec([b"sh", b"-c", b"echo %d; sleep 0.2" % i]) for i in range(50)]
        for i, (_, client) in enumerate(jobs):
            got = client.all()
            assert got[1] == (layout.RECORD_STDOUT, b"%d\n" % i) and got[-1][0] == layout.RECORD_EXIT


def test_disk_is_reported():
    with Real() as s:
        assert s.manager.recv_until("S_DISK").fields["free_bytes"] > 0


def test_death_of_pid_1_is_the_end_of_the_session():
    with Real() as s:
        _, client = s.exec([b"sleep", b"60"])
        client.recv()
        s.box.process.kill()
        assert s.down()
        assert error_of(client.recv())[0] == 502


def test_session_is_small_again_after_much_output():
    with Real() as s:
        s.run("true")
        _, out, _ = s.run("head", "-c", "50000000", "/dev/zero")
        assert len(out) == 50_000_000
        most = 8000 if "san-" in str(layout.BUILD) else 512
        assert wait_until(lambda: s.pss_kb()["Private_Dirty"] < most)
