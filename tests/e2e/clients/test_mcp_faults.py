"""agent-sandbox-mcp and a server that is away, refuses, breaks off, or is something else: a failure of the tool, in one line."""

import contextlib
import json
import re
import socket
import ssl
import subprocess
import threading
import time

import pytest
import trap as t
from harness import ROOT
from machine import free_port, read, status, wait_until
from mcp_kit import SANITIZED, Mcp

ID = "sb_0123456789abcdef"


class Fake:
    """Answers each request with the same bytes, then closes; remembers what was asked. pauses between the pieces."""

    def __init__(self, *pieces, tls=None, forever=False):
        self.pieces, self.tls, self.forever, self.asked = pieces, tls, forever, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._answer, args=(self.listener.accept()[0],), daemon=True).start()

    def _answer(self, s):
        with contextlib.suppress(OSError), s:
            if self.tls:
                s = self.tls.wrap_socket(s, server_side=True)
            head = b""
            while b"\r\n\r\n" not in head and (data := s.recv(65536)):
                head += data
            self.asked.append(head)
            for piece in self.pieces:
                if isinstance(piece, bytes):
                    s.sendall(piece)
                else:
                    time.sleep(piece)
            while self.forever and s.recv(65536):
                pass
            s.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def http(status, body, *headers, type="application/json"):
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {type}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def error(status, code, message, *headers):
    return http(status, json.dumps({"error": {"code": code, "message": message}}).encode(), *headers)


def stream(*lines):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
    return [head, *(b"%x\r\n%s\r\n" % (len(line), line) for line in lines)]


@pytest.fixture
def against():
    """against(pieces) is an MCP server whose API is a fake."""
    made = []

    def start(*pieces, env=None, **how):
        fake = Fake(*pieces, **how)
        m = Mcp(fake.url, **(env or {}))
        made.extend((m, fake))
        m.fake = fake
        return m

    yield start
    for each in made:
        each.close()


def one_line(text):
    assert "\n" not in text and len(text) < 1200 and text.isprintable(), text
    return text


def test_server_that_is_away_is_said_with_what_to_do_and_used_when_it_is_there(server):
    m = Mcp(f"http://127.0.0.1:{free_port()}")
    try:
        assert "agent-sandbox serve" in one_line(m.refused("sandbox_list"))
        assert m.call("ping")["result"] == {} and len(m.call("tools/list")["result"]["tools"]) == 10
        assert "AGENT_SANDBOX_URL" in m.call("resources/list")["error"]["message"]
    finally:
        m.close()


@pytest.mark.gate
def test_server_that_comes_back_is_found_again(own):
    s = own()
    m = Mcp(s.url)
    try:
        assert m.tool("sandbox_list")["result"] == []
        s.end()
        assert "agent-sandbox serve" in m.refused("sandbox_list")
        s.start()
        assert m.tool("sandbox_list")["result"] == []
        box = m.tool("sandbox_create", timeout_seconds=60)
        assert m.tool("sandbox_exec", sandbox_id=box["id"], command="echo on")["stdout"] == "on\n"
    finally:
        m.close()


def test_wrong_key_and_no_key_say_what_to_set(server):
    for key, words in (("wrong-key-0123456789", "check AGENT_SANDBOX_API_KEY"), (None, "set AGENT_SANDBOX_API_KEY")):
        m = Mcp(server.url, key=key)
        try:
            said = one_line(m.refused("sandbox_list"))
            assert words in said and (key is None or key not in said)
        finally:
            m.close()


def test_quota_has_the_servers_words_and_when_to_try_again(against):
    m = against(error("429 Too Many Requests", "limit_exceeded", "20 sandboxes exist already", "Retry-After: 7"))
    said = one_line(m.refused("sandbox_create"))
    assert "20 sandboxes exist already" in said and "7 s" in said


@pytest.mark.parametrize(
    "pieces",
    [
        [http("200 OK", b"<html>hello</html>", type="text/html")],
        [http("200 OK", b"{not json")],
        [http("502 Bad Gateway", b"<h1>proxy</h1>", type="text/html")],
        [http("302 Found", b"", "Location: http://127.0.0.1:1/")],
        [http("200 OK", b"", type="application/x-tar")],
        [b"SSH-2.0-OpenSSH_9.2\r\n"],
        [b"\xff\xfe\0\0" * 100],
    ],
)
def test_answer_of_something_else_is_said_and_nothing_is_made_up(against, pieces):
    m = against(*pieces)
    for tool, arguments in (("sandbox_list", {}), ("sandbox_exec", {"sandbox_id": ID, "command": "true"})):
        said = one_line(m.refused(tool, **arguments))
        assert "127.0.0.1" in said
    assert m.call("ping")["result"] == {}


def test_redirect_is_not_followed_and_the_key_stays_here(against):
    other = Fake(http("200 OK", b'{"sandboxes": []}'))
    try:
        m = against(http("307 Temporary Redirect", b"", f"Location: {other.url}/v1/sandboxes"))
        assert "not followed" in m.refused("sandbox_list") and other.asked == []
    finally:
        other.close()


def test_stream_that_is_cut_is_a_failure_with_what_came_until_then(against):
    m = against(*stream(b'{"type":"stdout","data":"half "}\n', b'{"type":"stdout","data":"way\\n"}\n'))
    said = m.refused("sandbox_exec", sandbox_id=ID, command="make")
    assert "broke" in said.splitlines()[0] and said.endswith("Output until then:\nhalf way\n")


def test_stream_that_ends_without_an_exit_is_no_result(against):
    m = against(*stream(b'{"type":"stdout","data":"x"}\n'), b"0\r\n\r\n")
    assert "without saying how the command ended" in m.refused("sandbox_exec", sandbox_id=ID, command="make")


def test_stream_that_ends_with_an_error_has_its_reason(against):
    m = against(*stream(b'{"type":"error","data":"the sandbox was destroyed"}\n'), b"0\r\n\r\n")
    assert m.refused("sandbox_exec", sandbox_id=ID, command="make") == "the sandbox was destroyed"


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"exit"}\n', b'{"type":"exit","exit_code":null,"duration_ms":"x"}\n', b"[1]\n", b"nonsense\n", b'{"type":7}\n',
        b'{"type":"exit","exit_code":"0","timed_out":1,"duration_ms":[]}\n', b'{"type":"stdout","data":5}\n', b"\xff\n",
    ],
)  # fmt: skip
def test_event_that_is_none_is_never_a_result(against, line):
    for more in ((), (b'{"type":"exit","exit_code":0,"timed_out":false,"duration_ms":1}\n',)):
        m = against(*stream(line, *more), b"0\r\n\r\n")
        one_line(m.refused("sandbox_exec", sandbox_id=ID, command="make"))


def test_event_of_a_later_server_is_passed_over(against):
    end = b'{"type":"exit","exit_code":7,"timed_out":false,"duration_ms":1,"more":[]}\n'
    m = against(*stream(b'{"type":"usage","cpu_ms":5}\n', end), b"0\r\n\r\n")
    assert m.tool("sandbox_exec", sandbox_id=ID, command="make")["exit_code"] == 7


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b"null", b"5", b'{"sandboxes": 5}', b'{"id": 5}', b'{"sandboxes": [5, {}]}', b'{"entries": [[]]}', b'""']
)
def test_answer_with_other_members_is_no_result(against, body):
    m = against(http("200 OK", body))
    for tool, arguments in (
        ("sandbox_create", {}), ("sandbox_list", {}), ("sandbox_list_files", {"sandbox_id": ID}),
        ("sandbox_snapshot", {"sandbox_id": ID}), ("sandbox_write_file", {"sandbox_id": ID, "path": "f", "content": "x"}),
        ("sandbox_rollback", {"sandbox_id": ID, "snapshot_id": "snap_1"}), ("sandbox_fork", {"snapshot_id": "snap_1"}),
    ):  # fmt: skip
        if not (tool == "sandbox_list" and b"[5" in body or tool == "sandbox_list_files" and b"[[" in body):
            one_line(m.refused(tool, **arguments))
        m.call("tools/call", name=tool, arguments=arguments)
    m.call("resources/list")
    assert m.call("ping")["result"] == {}


def test_answer_that_is_nested_deeply_does_not_end_the_program(against):
    m = against(http("200 OK", b'{"entries": [{"name": ' + b"[" * 2000 + b"]" * 2000 + b"}]}"))
    assert "result" in m.call("tools/call", name="sandbox_list_files", arguments={"sandbox_id": ID})
    assert m.call("ping")["result"] == {}


def test_message_of_the_server_cannot_draw_on_a_terminal(against):
    m = against(error("400 Bad Request", "invalid_request", "a\x1b[31mb\u202ec\r\nd\x07"))
    one_line(m.refused("sandbox_list"))


def test_file_that_breaks_off_is_no_content(against):
    m = against(b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 100\r\n\r\nhalf")
    assert "half" not in m.refused("sandbox_read_file", sandbox_id=ID, path="f")
    assert m.call("resources/read", uri=f"sandbox://{ID}/workspace/f")["error"]["code"] == -32603


def test_endless_answer_is_given_up_without_growing(against):
    endless = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + b"[" * 1000
    m = against(endless, *[b" " * (1 << 20)] * 100)
    before = m.memory()
    one_line(m.refused("sandbox_list"))
    assert SANITIZED or m.memory() - before < 200 << 10


def test_server_that_never_answers_does_not_hold_up_others_and_can_be_cancelled(against):
    m = against(forever=True)
    n = m.begin_tool("sandbox_exec", sandbox_id=ID, command="true")
    assert wait_until(lambda: m.fake.asked)
    assert m.call("ping")["result"] == {}
    m.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": n}})
    m.nothing()
    m.begin_tool("sandbox_exec", sandbox_id=ID, command="true")
    assert m.end() == 0


@pytest.mark.parametrize("tool", ["sandbox_create", "sandbox_fork"])
def test_sandbox_that_is_made_when_the_input_ends_does_not_stay(tool):
    trap = t.Trap()
    trap.on("POST ", t.late(3, t.reply(201, t.SANDBOX)))
    trap.on("DELETE ", t.reply(204))
    m = Mcp(trap.url)
    m.begin_tool(tool, **({} if tool == "sandbox_create" else {"snapshot_id": t.SNAPSHOT_ID}))
    assert wait_until(lambda: trap.requests("POST "))
    assert m.end(15) == 0
    assert [str(s) for s in trap.requests("DELETE ")] == [f"DELETE /v1/sandboxes/{t.SANDBOX_ID}"]
    trap.close()


def test_writes_under_way_have_a_limit_together(against):
    m = against(forever=True)
    numbers = [m.begin_tool("sandbox_write_file", sandbox_id=ID, path="f", content="x" * (15 << 20)) for _ in range(6)]
    refused = [m.answer(n) for n in numbers[4:]]
    assert all("too much is being written" in r["error"]["message"] for r in refused)
    assert SANITIZED or m.memory() < 300 << 10
    for n in numbers[:4]:
        m.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": n}})
    n = m.begin_tool("sandbox_write_file", sandbox_id=ID, path="f", content="x" * (15 << 20))
    m.nothing()
    m.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": n}})
    assert m.call("ping")["result"] == {}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for 127.0.0.1 that nobody has signed."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert], check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


@pytest.mark.bare
def test_certificate_that_is_not_trusted_stops_before_the_key_is_sent(against, certificate):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    good = http("200 OK", b'{"sandboxes": []}')
    m = against(good, tls=tls)
    assert "certificate" in one_line(m.refused("sandbox_list")) and m.fake.asked == []
    m = against(good, tls=tls, env={"SSL_CERT_FILE": certificate[0]})
    assert m.tool("sandbox_list")["result"] == []


@pytest.mark.bare
def test_plain_http_behind_https_is_said(server):
    m = Mcp(server.url.replace("http:", "https:"))
    try:
        said = one_line(m.refused("sandbox_list"))
        assert "https:" in said and ("TLS" in said or "SSL" in said)
    finally:
        m.close()


def test_proxy_of_the_environment_is_not_asked_for_this_machine(server):
    m = Mcp(server.url, http_proxy=f"http://127.0.0.1:{free_port()}", ALL_PROXY=f"http://127.0.0.1:{free_port()}")
    try:
        assert isinstance(m.tool("sandbox_list")["result"], list)
    finally:
        m.close()


def test_proxy_in_between_that_fails_is_said():
    proxy = Fake(http("503 Service Unavailable", b"<h1>no</h1>", type="text/html"))
    m = Mcp("http://sandbox.invalid:8080", http_proxy=proxy.url)
    try:
        assert "prox" in one_line(m.refused("sandbox_list"))
    finally:
        m.close()
        proxy.close()


def test_host_that_does_not_exist_is_said():
    m = Mcp("http://no-such-host.invalid:8080")
    try:
        assert "AGENT_SANDBOX_URL" in one_line(m.refused("sandbox_list"))
    finally:
        m.close()


def test_localhost_is_found_by_name(server):
    m = Mcp(server.url.replace("127.0.0.1", "localhost"))
    try:
        assert isinstance(m.tool("sandbox_list")["result"], list)
    finally:
        m.close()


# What it has given up.


@pytest.mark.skipif(SANITIZED, reason="a sanitizer must be loaded first")
def test_taken_over_it_cannot_start_programs_or_open_files(server, tmp_path):
    probe = tmp_path / "probe.so"
    source = ROOT / "tests/tools/client_probe.c"
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-Wall", "-shared", "-fPIC", "-o", probe, source, "-ldl"], check=True, timeout=60)
    m = Mcp(server.url, LD_PRELOAD=probe)
    try:
        assert isinstance(m.tool("sandbox_list")["result"], list)
        assert wait_until(lambda: any("/etc/hosts" in line for line in m.errors))
        tried = dict(line.strip().removeprefix("probe: ").split(": ") for line in m.errors)
        assert tried == {
            "exec": "EPERM", "fork": "EPERM", "kill": "EPERM", "listen": "EPERM", "ptrace": "EPERM", "read a file": "EACCES",
            "read a key": tried["read a key"], "read memory": "EACCES", "write a file": "EACCES", "make a folder": "EACCES",
            "read /etc/hosts": "done",
        }  # fmt: skip
        assert tried["read a key"] in ("EACCES", "ENOENT")
    finally:
        m.close()


def test_it_leaves_no_core_and_gains_no_privileges(server):
    m = Mcp(server.url)
    try:
        m.tool("sandbox_list")
        told = status(m.process.pid)
        assert (told["NoNewPrivs"], told["Seccomp"]) == ("1", "2")
        assert re.search(rb"^Max core file size +0 +0 ", read(m.process.pid, "limits"), re.M)
    finally:
        m.close()
