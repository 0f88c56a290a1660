"""apid and one-shot runs: the steps that it asks managerd for, whatever goes wrong at which, and that the sandbox always ends."""

import json
import os
import signal
import socket
import struct

import layout
import pytest
from apid_server import KEY, SB, SNAP, SNAPSHOT, Server, post
from machine import wait_until


class Runs(Server):
    """A managerd whose sandboxes have the programs in `there`; `behave(records)` is what they do."""

    def __init__(self, **config):
        defaults = {
            "RUN_TIMEOUT_SECONDS": 30, "RUN_MEMORY_MB": 0, "RUN_MAX_MEMORY_MB": 0, "RUN_OUTPUT_BYTES": 65536, "DEFAULT_MEMORY_MB": 512,
            "MAX_MEMORY_MB": 4096, "NODE_IMAGE": "node:1", "MAX_TIMEOUT_SECONDS": 86400, "MAX_EXEC_TIMEOUT_SECONDS": 3600,
        }  # fmt: skip
        self.there, self.removed, self.exit, self.remove_status = {b"python3", b"node"}, [], {}, 0
        self.behave = lambda r: r.send(layout.RECORD_STDOUT, b"out\n")
        super().__init__(**(defaults | config))

    def command(self, m, r):
        type, data = r.recv()
        assert type == layout.RECORD_ARGS and m.fields["job"]["must_exist"] == 1 and m.fields["job"]["keep"] == 0
        argc, _ = struct.unpack_from("<II", data)
        words = data[8:].split(b"\0")
        self.command_line = words[:argc], words[argc]
        r.send(layout.RECORD_STARTED)
        if words[0] not in self.there:
            r.send(layout.RECORD_ERROR, layout.pack("r_error", {"status": 400}) + b"no such program: " + words[0])
            return
        self.behave(r)
        r.send(layout.RECORD_EXIT, layout.pack("r_exit", {"duration_us": 12345, "peak_memory_bytes": -1} | self.exit))

    def do_file_remove(self, m):
        def work(r):
            self.removed.append((m.tail, m.fields["job"]["first"], m.fields["job"]["size"]))
            if self.remove_status:
                r.send(layout.RECORD_ERROR, layout.pack("r_error", {"status": self.remove_status}) + b"why")
            else:
                r.send(layout.RECORD_DONE, layout.pack("r_done"))

        self.spawn(m, work)

    def ask(self, code="print(1)", **body):
        return self("POST", "/v1/run", json={"code": code} | body)

    def names(self):
        return [m.name for m in self.seen if m.name not in ("AUTH", "ASK_HEALTH")]

    def last(self, name):
        return next(m for m in reversed(self.seen) if m.name == name)


@pytest.fixture
def server():
    with Runs() as s:
        yield s


def destroyed(server, times=1):
    assert wait_until(lambda: server.names().count("DESTROY") == times), server.names()
    assert server.last("DESTROY").fields["id"] == SB


def test_steps_of_a_run_and_nothing_more(server):
    answer = server.ask("print('\u00e9')", language="PYTHON")
    assert answer.status_code == 200 and answer.json()["stdout"] == "out\n" and answer.json()["duration_ms"] == 12
    destroyed(server)
    assert server.names() == ["CREATE", "FILE_WRITE", "EXEC", "DESTROY"]
    create, write = server.last("CREATE").fields, server.last("FILE_WRITE")
    assert (create["run"], create["memory_mb"], create["network"], create["read_only"], create["ttl_s"]) == (1, 512, 0, 2, 330)
    assert server.last("CREATE").tail == b"" and create["snapshot"] == 0 and server.created[-1][0] == layout.RECORD_DONE
    assert write.tail == b"/workspace/main.py" and server.files["/workspace/main.py"] == "print('\u00e9')".encode()
    assert (write.fields["job"]["mode"], write.fields["job"]["size"], write.fields["sandbox"]) == (0o644, 11, SB)
    assert (
        server.command_line == ([b"python3", b"main.py"], b"/workspace") and server.last("EXEC").fields["job"]["timeout_us"] == 30_000_000
    )


def test_snapshot_is_made_behind_the_removal_of_the_very_file(server):
    answer = server.ask("x", snapshot=True, snapshot_id=SNAPSHOT)
    assert answer.status_code == 200 and answer.json()["snapshot_id"] == SNAPSHOT
    destroyed(server)
    assert server.names() == ["CREATE", "FILE_WRITE", "EXEC", "FILE_REMOVE", "SNAPSHOT_MAKE", "DESTROY"]
    assert server.last("CREATE").fields["snapshot"] == SNAP and server.last("SNAPSHOT_MAKE").fields["has_name"] == 0
    assert server.removed == [(b"/workspace/main.py", 1_790_000_000_123_456_000, 1)]


@pytest.mark.parametrize("status", [400, 404, 409])
def test_file_that_is_not_there_any_more_does_not_hinder_the_snapshot(server, status):
    server.remove_status = status
    assert server.ask(snapshot=True).json()["snapshot_id"] == SNAPSHOT


def test_image_and_file_follow_the_language(server):
    assert server.ask(language="node").json()["language"] == "node"
    assert server.last("CREATE").tail == b"node:1" and server.command_line[0] == [b"node", b"main.js"]
    assert "/workspace/main.js" in server.files


def test_other_python_is_tried_only_if_there_is_none(server):
    server.there = {b"python"}
    assert server.ask().status_code == 200 and server.names().count("EXEC") == 2 and server.command_line[0] == [b"python", b"main.py"]
    server.there = set()
    answer = server.ask()
    assert answer.status_code == 400 and answer.json()["detail"] == "image python:3.12-slim has neither python3 nor python"
    destroyed(server, 2)


@pytest.mark.parametrize(
    "step, status", [(s, c) for s in ("CREATE", "FILE_WRITE", "EXEC", "FILE_REMOVE", "SNAPSHOT_MAKE") for c in (413, 429, 502, 503, 507)]
)
def test_refusal_at_any_step_is_the_answer_and_ends_the_sandbox(server, step, status):
    def refuse(s, m):
        if m.fd is not None:
            os.close(m.fd)
        s.reply(m, status, "not now", 7)

    server.on[step] = refuse
    answer = server.ask(snapshot=True)
    assert answer.status_code == status and answer.json()["detail"] == answer.json()["error"]["message"] == "not now"
    assert answer.headers["Retry-After"] == "7"
    if step != "CREATE":
        destroyed(server)
    assert server.names()[-1] == ("DESTROY" if step != "CREATE" else "CREATE")


@pytest.mark.parametrize("step", ["FILE_WRITE", "EXEC", "FILE_REMOVE"])
def test_session_that_is_lost_at_any_step_is_502_and_ends_the_sandbox(server, step):
    server.on[step] = lambda s, m: s.spawn(m, lambda r: None)
    answer = server.ask(snapshot=True)
    assert answer.status_code == 502 and "session was lost" in answer.json()["detail"]
    destroyed(server)


@pytest.mark.parametrize("step", ["FILE_WRITE", "EXEC", "FILE_REMOVE"])
@pytest.mark.parametrize("type", [layout.RECORD_ENTRY, layout.RECORD_META, layout.RECORD_EXIT, 200])
def test_records_that_do_not_belong_there_are_502_and_end_the_sandbox(server, step, type):
    server.on[step] = lambda s, m: s.spawn(m, lambda r: r.send(type, b"?"))
    assert server.ask(snapshot=True).status_code == 502
    destroyed(server)


def test_unknown_snapshot_is_400_with_its_name(server):
    server.on["CREATE"] = lambda s, m: (os.close(m.fd), s.reply(m, 404, f"snapshot {SNAPSHOT} not found"))
    answer = server.ask(snapshot_id=SNAPSHOT)
    assert answer.status_code == 400 and answer.json()["detail"] == f"Unknown snapshot: {SNAPSHOT}"
    assert "DESTROY" not in server.names()


@pytest.mark.parametrize("step", ["CREATE", "FILE_WRITE", "EXEC", "FILE_REMOVE", "SNAPSHOT_MAKE"])
def test_client_that_leaves_at_any_step_ends_the_sandbox(server, step):
    waiting = []
    server.on[step] = lambda s, m: waiting.append(m)
    with server.connect() as sock:
        sock.sendall(post("/v1/run", {"code": "x", "snapshot": True}))
        assert wait_until(lambda: waiting)
    if step == "CREATE":
        assert not wait_until(lambda: "DESTROY" in server.names(), 0.5)
        layout.Records(socket.socket(fileno=waiting[0].fd)).close()
        server.sandbox(waiting[0])
    destroyed(server)
    assert server.names()[-1] == "DESTROY"


def test_client_that_left_and_a_sandbox_that_was_not_made(server):
    waiting = []
    server.on["CREATE"] = lambda s, m: waiting.append(m)
    with server.connect() as sock:
        sock.sendall(post("/v1/run", {"code": "x"}))
        assert wait_until(lambda: waiting)
    server.reply(waiting[0], 429, "too many")
    del server.on["CREATE"]
    for _ in range(20):
        assert server.ask().status_code == 200
    destroyed(server, 20)


def test_refused_runs_keep_no_place_for_their_end(server):
    """Each run takes a place for its DESTROY before it is made; more than there are are refused here, and given back."""
    server.on["CREATE"] = lambda s, m: (os.close(m.fd), s.reply(m, 429, "too many"))
    for _ in range(4200 // 20):
        body = json.dumps({"code": "x"}).encode()
        head = f"POST /v1/run HTTP/1.1\r\nHost: a\r\nX-API-Key: {KEY}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with server.connect() as sock:
            sock.sendall((head + body) * 20)
            got = b""
            while got.count(b"HTTP/1.1 429") < 20:
                got += sock.recv(65536)
    del server.on["CREATE"]
    assert server.ask().status_code == 200


def test_timed_out_is_408_and_keeps_nothing(server):
    server.exit = {"exit_code": 137, "timed_out": 1}
    answer = server.ask(snapshot=True, limits={"timeout_seconds": 7})
    assert answer.status_code == 408 and answer.json() == {
        "error": {"code": "timeout", "message": "Execution timed out"},
        "detail": "Execution timed out",
    }
    destroyed(server)
    assert "SNAPSHOT_MAKE" not in server.names() and server.last("EXEC").fields["job"]["timeout_us"] == 7_000_000


@pytest.mark.parametrize(
    "settings, limits, applied, create",
    [
        ({}, {}, (30, 512), 512),
        ({"RUN_MEMORY_MB": 100}, {}, (30, 100), 100),
        ({"RUN_MAX_MEMORY_MB": 200}, {}, (30, 200), 200),
        ({"RUN_MAX_MEMORY_MB": 200}, {"memory_mb": 8192}, (30, 200), 200),
        ({"RUN_MAX_MEMORY_MB": 8000}, {"memory_mb": 8192}, (30, 4096), 4096),
        ({"RUN_MEMORY_MB": 8000}, {}, (30, 4096), 4096),
        ({"RUN_MAX_MEMORY_MB": 200}, {"memory_mb": 16}, (30, 16), 16),
        ({"RUN_TIMEOUT_SECONDS": 300}, {}, (300, 512), 512),
        ({"MAX_EXEC_TIMEOUT_SECONDS": 10}, {"timeout_seconds": 300}, (10, 512), 512),
    ],
)
def test_limits_that_apply(settings, limits, applied, create):
    with Runs(**settings) as server:
        got = server.ask(limits=limits).json()["limits_applied"]
        assert (got["timeout_seconds"], got["memory_mb"]) == applied and server.last("CREATE").fields["memory_mb"] == create
        assert server.last("EXEC").fields["job"]["timeout_us"] == applied[0] * 1_000_000


def test_output_is_cut_at_whole_characters_wherever_the_pieces_end(server):
    text = "\u20acx\U0001f600" * 400
    data = text.encode()

    def behave(r):
        for i in range(0, len(data), 7):
            r.send(layout.RECORD_STDOUT, data[i : i + 7])

    server.behave = behave
    for most in range(1024, 1040):
        got = server.ask(limits={"max_output_bytes": most}).json()
        assert got["truncated"] is True and text.startswith(got["stdout"]) and most - 4 < len(got["stdout"].encode()) <= most


def test_both_streams_share_the_limit(server):
    server.behave = lambda r: [r.send(t, b"x" * 600) for t in (layout.RECORD_STDOUT, layout.RECORD_STDERR, layout.RECORD_STDOUT)]
    got = server.ask(limits={"max_output_bytes": 1024}).json()
    assert (len(got["stdout"]), len(got["stderr"]), got["truncated"]) == (600, 424, True)


@pytest.mark.parametrize("pieces", [1, 3, 1000])
def test_last_line_of_the_traceback_is_found_however_it_comes(server, pieces):
    text = (b"Traceback (most recent call last):\n" + b"  File x\n" * 200 + b"numpy.core._exceptions._ArrayMemoryError: no room\n").ljust(
        10
    )
    server.exit = {"exit_code": 1}
    server.behave = lambda r: [r.send(layout.RECORD_STDERR, text[i : i + pieces]) for i in range(0, len(text), pieces)]
    assert server.ask(limits={"memory_mb": 64}).json()["oom_killed"] is True
    assert server.ask().json()["oom_killed"] is False
    server.exit = {"exit_code": 0}
    assert server.ask(limits={"memory_mb": 64}).json()["oom_killed"] is False
    server.exit = {"exit_code": 137, "oom_killed": 1}
    assert server.ask().json()["oom_killed"] is True


def test_egress_list_goes_with_the_create_and_comes_back(server):
    seen = []

    def create(s, m):
        records = layout.Records(socket.socket(fileno=m.fd))
        while (part := records.recv())[0] != layout.RECORD_DONE:
            seen.append(part)
        records.close()
        fields = {"id": SB, "memory_mb": 512, "egress": 1, "labels_len": 0, "status": 0}
        s.send("SANDBOX", m.id, fields, b"python:3.12-slim\0a.example:80\nb.example")

    server.on["CREATE"] = create
    got = server.ask(egress_allowlist=["A.example:80", "b.example"]).json()
    assert got["egress_allowlist"] == ["a.example:80", "b.example"] and got["network_isolated"] is True
    assert (
        seen == [(layout.RECORD_EGRESS, b"A.example:80"), (layout.RECORD_EGRESS, b"b.example")]
        and server.last("CREATE").fields["egress"] == 1
    )
    server.on.pop("CREATE")
    assert server.ask().json()["egress_allowlist"] == [] and server.last("CREATE").fields["egress"] == 0


def test_going_down_answers_503_and_ends_the_sandbox():
    with Runs() as server:
        server.on["EXEC"] = lambda s, m: None
        with server.connect() as sock:
            sock.sendall(post("/v1/run", {"code": "x"}))
            assert wait_until(lambda: "EXEC" in server.names())
            os.kill(server.program.pid, signal.SIGTERM)
            data = b""
            while got := sock.recv(65536):
                data += got
        assert b" 503 " in data and b'"detail":"the server is going down"' in data
        destroyed(server)
        assert wait_until(lambda: not server.program.alive())
