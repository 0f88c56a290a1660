"""The same promises, kept by every client: the command, the Python SDK (blocking and asyncio), the TypeScript SDK."""

import base64
import contextlib
import os
import shutil
import ssl
import subprocess
import threading
import time

import pytest
import trap as t
from drivers import DRIVERS, Failure, listing
from harness import KEY
from machine import SLACK, free_port, wait_until

OF_SDKS = pytest.mark.parametrize("kind", [name for name in DRIVERS if name != "command"], indirect=True)
HOSTILE = "\x1b[31mred\x1b[0m\x07\rnext\nline\u202e"
HIDDEN = "\x7f\x9b\xad\u061c\u180e\u200b\u200e\u200f\u2028\u202a\u202e\u2060\u2066\u206f\ufeff\ufff9\U000e0041"


@pytest.fixture(scope="module")
def _trap():
    one = t.Trap()
    yield one
    one.close()


@pytest.fixture
def trap(_trap):
    return _trap.forget()


@pytest.fixture
def bad(reach, trap):
    return reach(trap.url)


def run(driver, box, command, **more):
    return driver.call("exec", sandbox=box, command=command, **more)


def events_of(driver, box, command, **more):
    """What came, and the failure that ended it or None."""
    events = []
    try:
        driver.call("exec_stream", events=events.append, sandbox=box, command=command, **more)
    except Failure as f:
        return events, f
    return events, None


def text_of(events, kind="stdout"):
    return "".join(e["data"] for e in events if e["type"] == kind)


def fails(kind, call, *, status=None, code=None):
    """The call fails in this way; with one clean line to tell of it. Gives the failure."""
    with pytest.raises(Failure) as caught:
        call()
    return as_promised(caught.value, kind, status, code)


def as_promised(f, kind, status=None, code=None):
    assert kind in f.types, f
    assert f.message.strip() and "\n" not in f.message and "Traceback" not in f.message, repr(f.message)
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\u2028" for c in f.message), repr(f.message)
    assert KEY not in f.message
    if status is not None:
        assert status in f.statuses or f.statuses == {None}, f
    if code is not None:
        assert f.code in (code, None), f
    return f


def content(answer):
    return base64.b64decode(answer["base64"])


# What works.


def test_sandbox_is_made_found_prolonged_and_ended(to, api):
    made = to.call("create", timeout_seconds=300, cpus=0.5, memory_mb=96, pids_limit=60, env={"A": "b c"}, labels={"who": to.name})
    api.sandboxes.append(made["id"])
    assert (made["status"], made["cpus"], made["memory_mb"], made["pids_limit"], made["network"]) == ("running", 0.5, 96, 60, False)
    assert [s["id"] for s in to.call("list_sandboxes", label=f"who={to.name}")] == [made["id"]]
    assert made["id"] in [s["id"] for s in to.call("list_sandboxes")]
    assert to.call("get", sandbox=made["id"])["created_at"] == made["created_at"]
    assert to.call("set_timeout", sandbox=made["id"], timeout_seconds=900)["expires_at"] > made["expires_at"]
    assert run(to, made["id"], "echo $A")["stdout"] == "b c\n"
    to.call("destroy", sandbox=made["id"])
    fails("api", lambda: to.call("get", sandbox=made["id"]), status=404, code="not_found")
    fails("api", lambda: to.call("destroy", sandbox=made["id"]), status=404, code="not_found")


def test_same_idempotency_key_gives_the_same_sandbox(to, api):
    made = [to.call("create", timeout_seconds=300, idempotency_key=f"suite-{to.name}") for _ in range(2)]
    api.sandboxes.append(made[0]["id"])
    assert made[0]["id"] == made[1]["id"]
    fails("api", lambda: to.call("create", timeout_seconds=301, idempotency_key=f"suite-{to.name}"), status=409, code="conflict")


def test_command_ends_with_its_own_output_and_code(to, box):
    r = run(to, box.id, "pwd; echo $X >&2; exit 3", env={"X": "y z"}, workdir="/tmp", timeout_seconds=20)
    assert (r["stdout"], r["stderr"], r["exit_code"], r["timed_out"], r["truncated"]) == ("/tmp\n", "y z\n", 3, False, False)
    assert run(to, box.id, ["printf", "%s|", "a b", "", "$X", "*", "--json", "-n"])["stdout"] == "a b||$X|*|--json|-n|"
    assert run(to, box.id, "exit 0")["exit_code"] == 0 and run(to, box.id, "kill -9 $$")["exit_code"] == 137
    assert run(to, box.id, "no-such-command")["exit_code"] == 127
    assert run(to, box.id, "cat", stdin="in\n")["stdout"] == "in\n" and run(to, box.id, "cat")["stdout"] == ""


def test_command_that_runs_out_of_time_says_so(to, box):
    r = run(to, box.id, "echo before; sleep 30", timeout_seconds=0.5)
    assert (r["timed_out"], r["exit_code"], r["stdout"]) == (True, 137, "before\n")


def test_output_that_is_no_utf8_becomes_replacement_characters(to, box):
    r = run(to, box.id, r"printf 'a\377b\303'; printf '\033[31m' >&2")
    assert (r["stdout"], r["stderr"]) == ("a\ufffdb\ufffd", "\x1b[31m")
    events, failed = events_of(to, box.id, r"printf 'a\377b'")
    assert failed is None and text_of(events) == "a\ufffdb"


def test_stream_gives_output_as_it_comes_and_then_the_end(to, box):
    times = []
    events = []

    def note(event):
        times.append(time.monotonic())
        events.append(event)

    to.call("exec_stream", events=note, sandbox=box.id, command="echo one; sleep 1; echo grün >&2; exit 4")
    assert text_of(events) == "one\n" and text_of(events, "stderr") == "grün\n"
    last = events[-1]
    assert (last["type"], last["exit_code"], last["timed_out"]) == ("exit", 4, False) and last["duration_ms"] >= 1000
    assert times[-1] - times[0] > 0.5
    events, failed = events_of(to, box.id, "cat", stdin="x" * 100000)
    assert failed is None and text_of(events) == "x" * 100000


def test_stream_of_a_sandbox_that_is_destroyed_is_interrupted_and_says_why(to, make):
    box = make()
    seen = []
    threading.Thread(target=lambda: wait_until(lambda: seen) and box.delete(), daemon=True).start()
    with pytest.raises(Failure) as caught:
        to.call("exec_stream", events=seen.append, sandbox=box.id, command="echo on; sleep 30")
    as_promised(caught.value, "interrupted")
    assert text_of(seen) == "on\n" and not [e for e in seen if e["type"] == "exit"]


def test_what_the_server_refuses_comes_with_its_own_words(to, box):
    f = fails("api", lambda: run(to, box.id, ""), status=400, code="invalid_request")
    assert "command" in f.message
    fails("api", lambda: run(to, box.id, "true", workdir="/none"), status=400)
    f = fails("api", lambda: to.call("create", image="no such image"), status=400, code="invalid_request")
    assert "image" in f.message


def test_wrong_key_is_told_from_no_server(reach, server):
    fails("api", lambda: reach(server.url, "wrong-key-0123456789").call("list_sandboxes"), status=401, code="unauthorized")


def test_ids_that_cannot_be_make_no_other_request(bad, trap):
    trap.on("(GET|POST) ", t.refusal(404, "not_found"))
    for wrong in ("..", "sb_../../healthz", "sb_0123456789abcdef/files"):
        with pytest.raises(Failure) as caught:
            bad.call("get", sandbox=wrong)
        assert caught.value.types & {"api", "usage"}
    assert not trap.requests("GET /(healthz|v1/sandboxes/sb_0123456789abcdef/)")


def test_files_come_back_byte_for_byte(to, box):
    data = bytes(range(256)) * 300
    written = to.call("write_file", sandbox=box.id, path="d/bytes", data=data, mode=0o640)
    assert (written["path"], written["size"], written["type"]) == ("/workspace/d/bytes", len(data), "file")
    assert content(to.call("read_file", sandbox=box.id, path="d/bytes")) == data
    assert box.sh("stat -c %a d/bytes") == "640\n"
    to.call("write_file", sandbox=box.id, path="empty", data=b"")
    assert content(to.call("read_file", sandbox=box.id, path="empty")) == b""
    to.call("write_file", sandbox=box.id, path="t", data="grüße\n")
    assert to.call("read_text", sandbox=box.id, path="t") == "grüße\n"
    fails("api", lambda: to.call("read_file", sandbox=box.id, path="none"), status=404)
    fails("api", lambda: to.call("read_file", sandbox=box.id, path="d"), status=400)
    fails("api", lambda: to.call("write_file", sandbox=box.id, path="/etc/x", data=b"x"), status=400)


NAMES = ["a b", "ümlaut", "q?x=1&y=2", "100%", "#h", "+", "a\nb", "\x1b[2J", "-rf", "'\"`$(true)", "x:y", "…" * 40]


def test_hostile_names_of_files_work_and_stay_data(to, box):
    for n, name in enumerate(NAMES):
        to.call("write_file", sandbox=box.id, path=f"/workspace/{name}", data=str(n))
    assert sorted(e["name"] for e in to.call("list_files", sandbox=box.id)) == sorted(NAMES)
    for n, name in enumerate(NAMES):
        assert content(to.call("read_file", sandbox=box.id, path=f"/workspace/{name}")) == str(n).encode()
    assert sorted(box.names()) == sorted(NAMES)


def test_messages_about_hostile_names_are_one_clean_line(to, box):
    fails("api", lambda: to.call("read_file", sandbox=box.id, path=f"/workspace/{HOSTILE}"), status=404)


def test_snapshot_brings_back_what_was_there_and_forks(to, box, api):
    to.call("write_file", sandbox=box.id, path="f", data="one")
    snap = to.call("snapshot", sandbox=box.id, name="first of " + to.name)
    api.snapshots.append(snap["id"])
    assert snap["name"] == "first of " + to.name and snap["size_bytes"] > 0
    assert [s["id"] for s in to.call("list_snapshots", sandbox=box.id)][-1] == snap["id"]
    assert to.call("get_snapshot", snapshot=snap["id"])["created_at"] == snap["created_at"]
    to.call("write_file", sandbox=box.id, path="f", data="two")
    assert to.call("rollback", sandbox=box.id, snapshot=snap["id"])["id"] == box.id
    assert to.call("read_text", sandbox=box.id, path="f") == "one"
    fork = to.call("fork", snapshot=snap["id"], timeout_seconds=300, cpus=0.5)
    api.sandboxes.append(fork["id"])
    assert (fork["source_snapshot_id"], fork["cpus"]) == (snap["id"], 0.5)
    assert to.call("read_text", sandbox=fork["id"], path="f") == "one"
    to.call("delete_snapshot", snapshot=snap["id"])
    fails("api", lambda: to.call("get_snapshot", snapshot=snap["id"]), status=404)
    fails("api", lambda: to.call("rollback", sandbox=box.id, snapshot=snap["id"]), status=404)


def test_upload_and_download_move_a_file_whole(to, box, tmp_path):
    data = os.urandom(5 << 20) + b"end"
    (tmp_path / "up").write_bytes(data)
    (tmp_path / "up").chmod(0o750)
    to.call("upload", sandbox=box.id, local=tmp_path / "up", path="in/there")
    assert box.content("in/there") == data
    to.call("download", sandbox=box.id, path="in/there", local=tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == data and listing(tmp_path) == ["down", "up"]
    fails("local", lambda: to.call("upload", sandbox=box.id, local=tmp_path / "none", path="x"))
    assert box.names() == ["in"]


def test_folders_move_whole_with_links_and_modes(to, box, tmp_path):
    source = tmp_path / "src"
    (source / "a/b").mkdir(parents=True)
    (source / "a/b/f").write_text("text")
    (source / "run").write_text("#!/bin/sh\n")
    (source / "run").chmod(0o755)
    (source / "link").symlink_to("a/b/f")
    os.link(source / "run", source / "same")
    (source / "empty").mkdir()
    to.call("upload_folder", sandbox=box.id, local=source, path="/workspace/dst")
    assert box.sh("cd dst; find . | sort; readlink link; stat -c %a run; stat -c %h same; cat a/b/f").split() == [
        ".", "./a", "./a/b", "./a/b/f", "./empty", "./link", "./run", "./same", "a/b/f", "755", "2", "text",
    ]  # fmt: skip
    to.call("download_folder", sandbox=box.id, path="dst", local=tmp_path / "back")
    assert listing(tmp_path / "back") == listing(source)
    assert os.readlink(tmp_path / "back/link") == "a/b/f" and os.access(tmp_path / "back/run", os.X_OK)
    assert (tmp_path / "back/a/b/f").read_text() == "text"


def test_folder_with_links_that_lead_out_goes_up_without_them(to, box, tmp_path):
    (tmp_path / "s/d").mkdir(parents=True)
    (tmp_path / "s/d/f").write_text("text")
    (tmp_path / "s/abs").symlink_to("/etc/passwd")
    (tmp_path / "s/d/up").symlink_to("../../x")
    (tmp_path / "s/in").symlink_to("d/f")
    to.call("upload_folder", sandbox=box.id, local=tmp_path / "s", path="/workspace/s")
    assert box.sh("cd s; find . | sort").split() == [".", "./d", "./d/f", "./in"]


def test_folder_from_a_sandbox_cannot_lead_out_of_its_place(to, box, tmp_path):
    box.sh(
        "mkdir d d/e; ln -s /etc d/abs; ln -s ../.. d/up; ln -s ../.. d/e/far; ln -s .. d/e/fine; ln -s e d/in; mkfifo d/p; echo x > d/f"
    )
    to.call("download_folder", sandbox=box.id, path="d", local=tmp_path / "d")
    links = {n: os.readlink(tmp_path / "d" / n) for n in listing(tmp_path / "d") if (tmp_path / "d" / n).is_symlink()}
    assert links == {"e/fine": "..", "in": "e"} and (tmp_path / "d/f").read_text() == "x\n"
    assert listing(tmp_path / "d") == ["e", "e/fine", "f", "in"]


# What exists is not overwritten, what fails leaves nothing.


def test_download_replaces_nothing_unless_told_to(to, box, tmp_path):
    box.put("f", b"new")
    (tmp_path / "f").write_text("old")
    fails("exists", lambda: to.call("download", sandbox=box.id, path="f", local=tmp_path / "f"))
    assert (tmp_path / "f").read_text() == "old" and listing(tmp_path) == ["f"]
    to.call("download", sandbox=box.id, path="f", local=tmp_path / "f", overwrite=True)
    assert (tmp_path / "f").read_text() == "new" and listing(tmp_path) == ["f"]
    fails("local", lambda: to.call("download", sandbox=box.id, path="f", local=tmp_path / "none" / "f"))
    assert listing(tmp_path) == ["f"]


def test_download_of_what_is_not_there_leaves_no_file(to, box, tmp_path):
    fails("api", lambda: to.call("download", sandbox=box.id, path="none", local=tmp_path / "f"), status=404)
    assert listing(tmp_path) == []


@pytest.mark.parametrize("overwrite", [False, True])
def test_download_that_is_cut_leaves_things_as_they_were(bad, trap, tmp_path, overwrite):
    if overwrite:
        (tmp_path / "f").write_text("old")
    trap.on("GET /v1/sandboxes/.*/files", t.reply(200, b"x" * 100000, "application/octet-stream", length=10**7))
    fails("broken", lambda: bad.call("download", sandbox=t.SANDBOX_ID, path="f", local=tmp_path / "f", overwrite=overwrite))
    assert listing(tmp_path) == ["f"] * overwrite and (not overwrite or (tmp_path / "f").read_text() == "old")


def test_folder_download_that_is_cut_leaves_nothing(to, bad, trap, box, tmp_path):
    box.sh("mkdir d; head -c 3000000 /dev/urandom > d/a; echo b > d/b")
    whole = box.api.ask("GET", box.path + "/files/archive?path=d").content
    trap.on("GET /v1/sandboxes/.*/files/archive", t.reply(200, whole[: len(whole) // 2], "application/x-tar", length=len(whole)))
    fails("broken", lambda: bad.call("download_folder", sandbox=t.SANDBOX_ID, path="d", local=tmp_path / "d"))
    assert listing(tmp_path) == []


@pytest.fixture
def small(tmp_path):
    """A disk of 1 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


def test_download_onto_a_full_disk_leaves_no_part_of_it(to, box, small):
    box.sh("mkdir d; head -c 3000000 /dev/urandom > d/big")
    f = fails("local", lambda: to.call("download", sandbox=box.id, path="d/big", local=small / "f"))
    assert ("space" in f.message.lower() or "full" in f.message) and listing(small) == []
    fails("local", lambda: to.call("download_folder", sandbox=box.id, path="d", local=small / "d"))
    assert listing(small) == []


# A server that is not there, or not this one.


def test_server_that_is_down_is_unreachable_and_named(reach):
    url = f"http://127.0.0.1:{free_port()}"
    began = time.monotonic()
    f = fails("unreachable", lambda: reach(url).call("list_sandboxes"))
    assert url in f.message and time.monotonic() - began < 15 + SLACK


@OF_SDKS  # who types a command sees at once that there is no server
def test_server_that_comes_back_is_tried_again(reach):
    port = free_port()
    driver, late = reach(f"http://127.0.0.1:{port}"), []

    def later():
        time.sleep(0.1)
        late.append(t.Trap(port=port).on("GET /v1/sandboxes$", t.reply(200, {"sandboxes": [], "next_cursor": None})))

    thread = threading.Thread(target=later)
    thread.start()
    try:
        with contextlib.suppress(Failure):
            driver.call("list_sandboxes")
        assert driver.call("list_sandboxes") == []
    finally:
        thread.join()
        late[0].close()


STRANGE = {
    "a page": t.reply(200, "<html>hello</html>", "text/html"),
    "a page that looks like JSON": t.reply(200, "<html>hello</html>"),
    "half an object": t.reply(200, '{"sandboxes": ['),
    "an array": t.reply(200, "[]"),
    "nothing": t.reply(200, ""),
    "an object of something else": t.reply(200, {"hello": "world"}),
    "wrong types": t.reply(200, {"sandboxes": [{"id": 5}]}),
    "bytes": t.reply(200, b"\xff\xfe\x00"),
    "a deep one": t.reply(200, "[" * 100000),
    "a gateway's page": t.reply(502, "<html>bad gateway</html>", "text/html"),
    "another API's error": t.reply(404, {"message": "Not Found"}),
    "an error without words": t.reply(500, {"error": "no"}),
    "no HTTP": b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n\r\n",
}


@pytest.mark.parametrize("answer", list(STRANGE))
def test_answers_of_something_else_are_told_as_that(bad, trap, answer):
    trap.on("GET /v1/sandboxes$", STRANGE[answer])
    fails("strange", lambda: bad.call("list_sandboxes"))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_is_not_followed_and_named(bad, trap, status):
    other = t.Trap()
    try:
        trap.on("(GET|POST) ", t.reply(status, "", Location=other.url + "/v1/sandboxes"))
        f = fails("strange", lambda: bad.call("list_sandboxes"), status=status)
        assert other.url in f.message
        fails("strange", lambda: bad.call("create"), status=status)
        assert other.seen == []
    finally:
        other.close()


def test_refusal_with_hostile_words_is_one_clean_line(bad, trap):
    trap.on("GET /v1/sandboxes$", t.refusal(400, "invalid_request", HOSTILE * 3))
    f = fails("api", lambda: bad.call("list_sandboxes"), status=400)
    assert "red" in f.message and "next" in f.message


def test_what_hides_or_turns_text_is_not_in_what_a_client_says(bad, trap):
    trap.on("GET /v1/sandboxes$", t.refusal(400, "invalid_request", f"begin{HIDDEN}end"))
    f = fails("api", lambda: bad.call("list_sandboxes"), status=400)
    assert "begin" in f.message and "end" in f.message and not set(f.message) & set(HIDDEN)


def test_full_server_says_when_to_try_again_and_is_asked_once(bad, trap):
    trap.on("POST /v1/sandboxes$", t.refusal(429, "limit_exceeded", "40 sandboxes are the most here", Retry_After="7"))
    f = fails("api", lambda: bad.call("create"), status=429, code="limit_exceeded")
    assert "40 sandboxes" in f.message and (f.retry_after == 7 or "7" in f.message)
    assert len(trap.requests("POST")) == 1


def test_create_whose_answer_is_lost_is_sent_again_under_the_same_key(bad, trap, kind):
    trap.on("POST /v1/sandboxes$", t.nothing(), t.reply(201, t.SANDBOX))
    try:
        assert bad.call("create")["id"] == t.SANDBOX_ID
    except Failure as f:
        # The command leaves it to its user.
        assert kind.name == "command"
        as_promised(f, "broken")
    sent = trap.requests("POST")
    assert len({s.headers.get("idempotency-key") for s in sent}) == 1
    assert len(sent) == 2 and sent[0].headers["idempotency-key"] and sent[0].body == sent[1].body or kind.name == "command"


@pytest.mark.parametrize(
    "answer", [t.nothing(), t.reset(), t.refusal(503, "unavailable", "wait", Retry_After="0"), t.reply(200, "{", length=100)]
)
def test_command_is_never_sent_twice(bad, trap, answer):
    trap.on("POST .*/exec", answer)
    with pytest.raises(Failure):
        run(bad, t.SANDBOX_ID, "echo once")
    events_of(bad, t.SANDBOX_ID, "echo once")
    assert len(trap.requests("POST")) == 2


@pytest.mark.parametrize("answer", [t.nothing(), t.reset(), t.reply(200, t.RESULT, length=500)])
def test_connection_that_is_cut_leaves_no_invented_result(bad, trap, answer):
    trap.on("POST .*/exec", answer)
    fails("broken", lambda: run(bad, t.SANDBOX_ID, "true"))


@pytest.mark.parametrize("end", ["closed", "reset", "between lines", "no exit line"])
def test_stream_that_is_cut_gives_what_came_and_no_end(bad, trap, end):
    whole = t.stream(t.out("a\n"), t.out("b\n"), whole=False)
    trap.on("POST .*/exec", {
        "closed": t.stream(t.out("a\n"), t.out("b\n"), b'{"type":"stdo', whole=False), "reset": t.reset(whole), "between lines": whole,
        "no exit line": t.stream(t.out("a\n"), t.out("b\n")),
    }[end])  # fmt: skip
    events, failed = events_of(bad, t.SANDBOX_ID, "true")
    as_promised(failed, "broken")
    assert text_of(events) == "a\nb\n" and not [e for e in events if e["type"] == "exit"]


def test_stream_that_the_server_breaks_off_tells_its_reason(bad, trap):
    trap.on("POST .*/exec", t.stream(t.out("a"), {"type": "error", "data": "the sandbox expired" + HOSTILE}))
    events, failed = events_of(bad, t.SANDBOX_ID, "true")
    assert "the sandbox expired" in as_promised(failed, "interrupted").message and text_of(events) == "a"


@pytest.mark.parametrize(
    "line", [b"not json\n", b'{"type":"stdout","data":"\xff"}\n', b"[1]\n", b'{"type":"stdout"}\n', b'{"data":"x"}\n', b"[" * 50000 + b"\n"]
)
def test_stream_with_lines_of_something_else_is_told_as_that(bad, trap, line):
    trap.on("POST .*/exec", t.stream(t.out("a"), line, t.END))
    events, failed = events_of(bad, t.SANDBOX_ID, "true")
    as_promised(failed, "strange")
    assert text_of(events) == "a" and not [e for e in events if e["type"] == "exit"]


def test_events_that_come_in_crumbs_are_put_together(bad, trap):
    def crumbs(client, seen, ended):
        for i, b in enumerate(t.stream(t.out("grün…\u2028\n"), t.out("x" * 300), t.END)):
            client.sendall(bytes([b]))
            if i % 50 == 0:
                time.sleep(0.001)

    trap.on("POST .*/exec", crumbs)
    events, failed = events_of(bad, t.SANDBOX_ID, "true")
    assert failed is None and text_of(events) == "grün…\u2028\n" + "x" * 300 and events[-1]["exit_code"] == 0


def test_lines_and_fields_of_later_servers_do_no_harm(bad, trap):
    trap.on("POST .*/exec/stream", t.stream({"type": "heartbeat", "n": 1}, t.out("a") | {"more": 1}, t.END | {"oom_killed": False}))
    trap.on("GET /v1/sandboxes$", t.reply(200, {"sandboxes": [t.SANDBOX | {"new": {"a": 1}}], "next_cursor": None, "more": 1}))
    events, failed = events_of(bad, t.SANDBOX_ID, "true")
    assert failed is None and text_of(events) == "a" and events[-1]["exit_code"] == 0
    assert [s["id"] for s in bad.call("list_sandboxes")] == [t.SANDBOX_ID]


def test_upload_that_is_too_large_tells_the_limit(reach, own, tmp_path):
    server = own(MAX_FILE_BYTES=1000000, MAX_SNAPSHOT_BYTES=1000000)
    box = server.api.create()
    (tmp_path / "f").write_bytes(b"x" * (16 << 20))
    f = fails("api", lambda: reach(server.url).call("upload", sandbox=box.id, local=tmp_path / "f", path="f"), status=413)
    assert "AGENT_SANDBOX_MAX_" in f.message and box.names() == []


@OF_SDKS  # who types a command ends it with Ctrl-C
def test_silent_server_is_not_waited_for_without_end(reach, trap):
    trap.on("GET /v1/sandboxes$", t.silence())
    began = time.monotonic()
    fails("timeout", lambda: reach(trap.url, timeout=0.5).call("list_sandboxes"))
    assert time.monotonic() - began < 15 + SLACK


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", folder / "key",
         "-out", folder / "crt"], check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "crt", folder / "key")
    return context


def test_certificate_that_nobody_vouches_for_ends_it_before_the_key_is_sent(reach, certificate):
    trap = t.Trap(tls=certificate)
    try:
        f = fails("unreachable", lambda: reach(trap.url).call("list_sandboxes"))
        assert "certificate" in f.message.lower() and trap.seen == []
    finally:
        trap.close()


def test_https_to_a_server_that_speaks_http_is_unreachable(reach, trap):
    fails("unreachable", lambda: reach(trap.url.replace("http:", "https:")).call("list_sandboxes"))


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "127.0.0.1:8080", "http://", "http://127.0.0.1:99999", "http://127.0.0.1/?a=b"])
def test_url_that_cannot_be_is_a_wrong_configuration(reach, url):
    fails("config", lambda: reach(url).call("list_sandboxes"))


@pytest.mark.parametrize("key", ["with\nnewline-0123456789", "grün-0123456789abcdef"])
def test_key_that_cannot_be_is_a_wrong_configuration_and_not_shown(reach, trap, key):
    f = fails("config", lambda: reach(trap.url, key).call("list_sandboxes"))
    assert key not in f.message and "0123456789" not in f.message and trap.seen == []


def test_nothing_is_left_in_the_folder_of_temporary_files(to, box, tmp_path):
    """Whoever keeps parts elsewhere than beside the destination leaves them there."""
    before = set(os.listdir("/tmp"))
    box.put("f", b"x" * 3000000)
    to.call("download", sandbox=box.id, path="f", local=tmp_path / "f")
    shutil.rmtree(tmp_path)
    mine = {n for n in set(os.listdir("/tmp")) - before if "sandbox" in n and not n.startswith(("as-", "pytest"))}
    assert not mine
