"""managerd's audit log: every line is as docs/audit-log.schema.json has it, its checkpoints come when they should, lost lines are
told of whoever forgot them, and a log that is not what keyd signed stops the start."""

# ruff: noqa: F811 - fixtures are imported, and named again as arguments

import contextlib
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import jsonschema
import layout
import pytest
from machine import wait_until
from managerd_kit import data, engine, key_line, start  # noqa: F401

ROOT = Path(__file__).resolve().parent.parent.parent
SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "docs/audit-log.schema.json").read_text()))


def lines(data):
    whole = (data / "audit.log").read_bytes().split(b"\n")[:-1]
    return [json.loads(x) for x in whole]


def actions(data):
    return [x["action"] for x in lines(data)]


def checkpoints(s):
    return [m for m in s.p.trail.seen if m.name == "K_CHECKPOINT"]


def test_every_line_is_as_the_schema_has_it(start, data):
    s = start()
    b = s.box()
    s.exec(b)
    assert wait_until(lambda: "exec" in actions(data))
    for _ in range(15):
        s.call("AUTH", {}, key="wrong-key-00000000000")
    s.destroy(b)
    assert wait_until(lambda: "refusals" in actions(data))
    s.kill()
    (data / "audit.log").open("ab").write(b"torn")
    s = start()
    s.send_keys("")
    got = lines(data)
    for line in got:
        assert list(line)[-3:] == ["time", "seq", "prev"]
        SCHEMA.validate(line)
    assert {"signing_key", "start", "checkpoint", "create", "exec", "destroy", "auth", "refusals", "recovered"} <= {
        x["action"] for x in got
    }
    with pytest.raises(jsonschema.ValidationError):
        SCHEMA.validate(got[0] | {"more": 1})


def ended(data):
    return [(x["action"], x["status"], x.get("exit_code")) for x in lines(data) if x["action"] in ("exec", "destroy")]


@pytest.mark.parametrize("said", [True, False])
def test_command_of_a_sandbox_that_is_destroyed_has_the_end_that_its_session_tells(start, data, said):
    """The client can have its answer, and delete the sandbox, before managerd has heard of the end."""
    s = start(hold=("S_EXEC", "OVER"))
    b = s.box()
    s.exec(b)
    [session] = s.session_of(b)
    assert wait_until(lambda: session.jobs)
    s.destroy(b)
    assert ended(data) == [("destroy", 204, None)]
    if said:
        [job] = session.jobs
        session.chan.send("S_JOB_END", job, {"status": 200, "exit_code": 3})
        session.chan.send("S_JOB_END", job, {"status": 200, "exit_code": 3})
        assert wait_until(lambda: len(ended(data)) == 2)
    s.end_session(session.id)
    assert wait_until(lambda: len(ended(data)) == 2)
    assert ended(data)[1] == (("exec", 200, 3) if said else ("exec", 409, None))
    s.get(b)


@pytest.mark.parametrize("status, code, logged", [(200, 3, 3), (499, 137, 137), (400, -1, None), (429, -1, None), (409, -1, None)])
def test_command_has_an_exit_code_in_the_log_only_where_one_is_known(start, data, status, code, logged):
    s = start(hold=("S_EXEC",))
    b = s.box()
    s.exec(b)
    [session] = s.session_of(b)
    assert wait_until(lambda: session.jobs)
    [job] = session.jobs
    session.chan.send("S_JOB_END", job, {"status": status, "exit_code": code})
    assert wait_until(lambda: ended(data))
    assert ended(data) == [("exec", status, logged)]


@pytest.mark.parametrize("how", ["ordered", "the parent was killed", "keyd was killed"])
def test_command_that_runs_when_managerd_ends_is_in_the_log(start, data, how):
    s = start(hold=("S_EXEC", "OVER"))
    b, other = s.box(), s.box()
    s.exec(b), s.exec(other)
    s.destroy(other)
    if how == "ordered":
        os.kill(s.p.pid, signal.SIGTERM)
    elif how == "keyd was killed":
        s.p.trail.chan.sock.shutdown(socket.SHUT_RDWR)
    else:
        s.p.parent.close()
    assert s.p.wait(30) == 0
    assert sorted(ended(data), key=str) == [("destroy", 204, None), ("exec", 409, None), ("exec", 503, None)]
    assert "stop" in actions(data)[-2:]


def repeat(s):
    """A request that is done at once however often it is sent: returns how to send it once more."""
    same = {"has_idem": 1, "idem_key": b"k" * 32, "idem_body": b"b" * 32}
    fields = same | {"snapshot": s.snap(s.box()), "network": layout.NOT_GIVEN, "read_only": layout.NOT_GIVEN}
    assert s.call("FORK", fields).name == "SANDBOX"
    return lambda: s.send("FORK", fields, request_id="x" * 60)


def own_and_sums(data, action, key):
    """How many lines of their own such refusals have, and their sums."""
    mine = [x for x in lines(data) if x["action"] == action and x["key"] == key]
    return [x for x in mine if "request_id" in x], [x for x in mine if "count" in x]


def test_refused_requests_of_one_key_are_summed_up_and_the_sums_say_whose_they_were(start, data):
    s = start(config={"API_KEYS": ""}, keys=[key_line(x, tenant="acme", scopes=["manage", "exec"]) for x in ("loud", "calm")])
    loud = {"DESTROY": {"id": 1}, "SNAPSHOT_DELETE": {"id": 1}}
    for id in [s.send(name, fields, key="loud") for _ in range(1000) for name, fields in loud.items()]:
        assert s.result(id).fields["status"] == 404
    assert s.call("DESTROY", {"id": 1}, key="calm").fields["status"] == 404
    everything = lambda: sum(x.get("count", 1) for x in lines(data) if x.get("key") == "loud")  # noqa: E731
    assert wait_until(lambda: everything() == 2000)
    for action in ("destroy", "snapshot_delete"):
        own, sums = own_and_sums(data, action, "loud")
        assert len(own) + sum(x["count"] for x in sums) == 1000
        assert len(own) < 500, "ten a second"
        for x in sums:
            SCHEMA.validate(x)
            assert (x["tenant"], x["status"], "target" in x) == ("acme", 404, False)
    own, sums = own_and_sums(data, "destroy", "calm")
    assert len(own) == 1 and sums == [], "another key's have lines"


def test_more_keys_than_are_told_apart_are_summed_up_too(start, data):
    names = [f"key-{n}" for n in range(300)]
    s = start(config={"API_KEYS": ""}, keys=[key_line(x, tenant="acme", scopes=["manage"]) for x in ["loud", *names]])
    began = time.monotonic()
    for _ in range(5):
        for id in [s.send("DESTROY", {"id": 1}, key=key) for key in ["loud"] * 10 + names]:
            assert s.result(id).fields["status"] == 404
    seconds = int(time.monotonic() - began) + 2
    refused = lambda: [x for x in lines(data) if x.get("status") == 404]  # noqa: E731
    assert wait_until(lambda: sum(x.get("count", 1) for x in refused()) == 5 * 310)
    assert len([x for x in refused() if x.get("key") == "loud" and "count" not in x]) <= 10 * seconds
    for x in refused():
        SCHEMA.validate(x)


def test_what_was_done_or_begun_has_a_line_of_its_own_however_often(start, data):
    s = start()
    b = s.box()
    for id in [s.send("SET_TIMEOUT", {"sandbox": b, "ttl_s": 900}) for _ in range(100)]:
        assert s.result(id).name == "SANDBOX"
    s.job_status = 404  # what the session says of it, once it has been handed on
    for _ in range(100):
        s.file("FILE_WRITE", b)
    assert wait_until(lambda: actions(data).count("file_write") == 100)
    got = [x for x in lines(data) if x["action"] in ("timeout", "file_write")]
    assert [(x["action"], x["status"]) for x in got] == [("timeout", 200)] * 100 + [("file_write", 404)] * 100
    assert all(x["request_id"] for x in got)


def test_sums_of_the_last_second_are_written_at_the_end(start, data):
    s = start()
    for id in [s.send("DESTROY", {"id": 1}) for _ in range(300)]:
        s.result(id)
    s.apid.close()
    assert s.p.wait(30) == 0, s.p.log()
    got = lines(data)
    assert "stop" in [x["action"] for x in got]
    assert sum(x.get("count", 1) for x in got if x["action"] == "destroy") == 300


def test_checkpoint_is_of_a_line_that_is_there_and_comes_again_only_after_new_ones(start, data):
    s = start(config={"AUDIT_CHECKPOINT_SECONDS": "1"})
    s.box()
    assert wait_until(lambda: len(checkpoints(s)) >= 2, 60)
    whole = (data / "audit.log").read_bytes().split(b"\n")
    for m in checkpoints(s):
        assert hashlib.sha256(whole[m.fields["seq"] - 1]).digest() == m.fields["head"]
    n = len(checkpoints(s))
    assert not wait_until(lambda: len(checkpoints(s)) > n, 3), "without a new line"


def test_requests_do_not_wait_for_keyd(start, data):
    s = start(config={"AUDIT_CHECKPOINT_SECONDS": "1"})
    s.p.trail.hold = True
    n = len(checkpoints(s))
    b = s.box()
    assert wait_until(lambda: len(checkpoints(s)) > n, 60)
    assert s.exec(b) and s.get(b).name == "SANDBOX"


def test_file_with_the_line_that_was_signed_last_is_kept_until_another_one_is(start, data, monkeypatch):
    """keyd hangs, or cannot write: without that line the server would not start again."""

    def closed():
        return sorted(p.name for p in data.glob("audit-*.log"))

    def write_until(enough):
        """Lines, until it is so."""
        end = time.monotonic() + 120
        while not enough():
            assert time.monotonic() < end, closed()
            for id in [again() for _ in range(100)]:
                assert s.result(id).name == "SANDBOX"

    s = start(config={"AUDIT_MAX_MB": "1", "AUDIT_KEEP": "1"})
    again = repeat(s)
    assert wait_until(lambda: "checkpoint" in actions(data))
    s.p.trail.hold = True
    write_until(lambda: len(closed()) >= 3)
    last = s.p.trail.last
    s.kill()
    monkeypatch.setattr(layout.Trail, "answer", lambda self, m: self.chan.send("K_LAST", m.id, last))
    s = start()
    s.kill()
    monkeypatch.undo()
    remembering(monkeypatch, last=last)
    s = start(config={"AUDIT_MAX_MB": "1", "AUDIT_KEEP": "1"})
    again = repeat(s)
    assert s.p.trail.last["seq"] > last["seq"]
    write_until(lambda: len(closed()) == 1)


def remembering(monkeypatch, **what):
    """keyd remembers this: last, its last line, or lost, how many lines were lost."""
    answer = layout.Trail.answer

    def with_memory(self, m):
        if m.name == "K_ASK_LAST":
            vars(self).update(what)
        answer(self, m)

    monkeypatch.setattr(layout.Trail, "answer", with_memory)


def test_lines_that_were_lost_before_a_kill_are_told_of(start, data, monkeypatch):
    remembering(monkeypatch, lost=3)
    s = start()
    assert wait_until(lambda: "gap" in actions(data))
    [gap] = [x for x in lines(data) if x["action"] == "gap"]
    assert (gap["lost"], gap["since"]) == (3, None)
    assert wait_until(lambda: s.p.trail.lost == 0), "and keyd forgets them"
    SCHEMA.validate(gap)


@contextlib.contextmanager
def small_disk(folder):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=0700", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
def test_lines_without_room_are_counted_and_told_of_even_after_a_kill(start, data, monkeypatch):
    with small_disk(data):
        s = start(config={"AUDIT_FULL": "continue"})
        again = repeat(s)
        with open(data / "filler", "wb") as f, contextlib.suppress(OSError):
            while True:
                f.write(bytes(1 << 16)), f.flush()
        assert wait_until(lambda: s.result(again()) and s.p.trail.lost > 5, 100, 0)
        s.kill()
        (data / "filler").unlink()
        lost = s.p.trail.lost
        remembering(monkeypatch, lost=lost)
        s = start()
        assert wait_until(lambda: "gap" in actions(data))
        [gap] = [x for x in lines(data) if x["action"] == "gap"]
        assert gap["lost"] == lost
        s.kill()


@pytest.mark.parametrize("seq,head,word", [(10**6, b"x" * 32, "its end is missing"), (2, b"x" * 32, "is not the one that was signed")])
def test_log_that_is_not_the_one_that_was_signed_ends_the_start_with_status_2(start, data, monkeypatch, seq, head, word):
    s = start()
    s.box()
    s.kill()
    before = (data / "audit.log").read_bytes()
    monkeypatch.setattr(layout.Trail, "answer", lambda self, m: self.chan.send("K_LAST", m.id, {"seq": seq, "head": head}))
    s = start(ready=False)
    assert s.p.wait(30) == 2
    [line] = [x for x in s.p.log().splitlines() if "docs/AUDIT-LOG.md" in x]
    assert word in line and (data / "audit.log").read_bytes() == before, "something was written"


def test_keyd_that_says_the_log_went_back_ends_managerd(start, data):
    s = start(config={"AUDIT_CHECKPOINT_SECONDS": "1"})
    s.p.trail.status = layout.CHECKPOINT_BACK
    s.box()
    assert s.p.wait(60) == 1 and "that is not in it" in s.p.log()


def taken(sock):
    """What syslog was sent so far: the lines without what stands before them."""
    out = []
    with contextlib.suppress(BlockingIOError):
        while True:
            text = sock.recv(65536).decode()
            head, line = text.split(": ", 1)
            assert re.fullmatch(r"<86>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d agent-sandbox\[\d+\]", head), head
            out.append(line)
    return out


def test_syslog_has_a_copy_of_each_line_from_the_first_on_and_costs_only_the_copy(start, data):
    s = start(config={"AUDIT_SYSLOG": "true"})
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.setblocking(False)
    again = repeat(s)
    assert s.seen.count("P_SYSLOG_ASK") == 1
    s.p.parent.send("P_SYSLOG", 0, fd=theirs)
    theirs.close()
    got = []
    written = lambda: (data / "audit.log").read_text().splitlines()  # noqa: E731
    assert wait_until(lambda: got.extend(taken(ours)) or got == written(), 30), (got, written())
    for _ in range(600):  # more than such a socket holds
        s.result(again())
    assert len(taken(ours)) < 600 and sum('"fork"' in x for x in written()) == 601
    ours.close()
    assert s.call("DESTROY", {"id": 7}).fields["status"] == 404
    assert wait_until(lambda: s.call("DESTROY", {"id": 7}) and s.seen.count("P_SYSLOG_ASK") == 2, 60), "it asks for a new one"
    s.p.parent.send("P_SYSLOG", 0)
    s.p.parent.send("P_NOTE", 0, {"what": layout.NOTE_DIED, "status": 9}, "apid\0")
    s.p.parent.send("P_NOTE", 0, {"what": layout.NOTE_KEPT}, "certificates\0they are none")
    assert wait_until(lambda: "reload" in actions(data))
    died, reload = (x for x in lines(data) if x["action"] in ("died", "reload"))
    assert (died["target"], died["signal"], reload["target"], reload["ok"]) == ("apid", 9, "certificates", False)
    assert reload["reason"] == "they are none"
    for x in (died, reload):
        SCHEMA.validate(x)
