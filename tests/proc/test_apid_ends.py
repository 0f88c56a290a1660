"""apid when the program it asks is no more, or says nothing."""

import contextlib
import json
import os
import socket

from apid_server import BOX_URL, Server, error, head, post, statuses
from machine import wait_until


def test_end_of_managerd_is_told_to_whoever_waits_in_the_one_shape():
    s = Server()
    s.on["GET"] = lambda *_: None
    with s.connect() as stream, s.connect() as waiting:
        stream.sendall(post(BOX_URL + "/exec/stream", {"command": "wait"}))
        rest = stream.recv(4096)
        waiting.sendall(head("GET", BOX_URL))
        assert wait_until(lambda: any(m.name == "GET" for m in s.seen))
        s.chan.sock.shutdown(socket.SHUT_RDWR)
        got = b""
        while part := waiting.recv(4096):
            got += part
        assert statuses(got) == [503] and b'"code":"unavailable"' in got and b"Retry-After: " in got
        while part := stream.recv(4096):
            rest += part
        assert b'{"type":"error",' in rest and rest.endswith(b"0\r\n\r\n")
    assert s.program.wait(30) == 0
    s.program.stop()


def test_health_is_503_within_seconds_when_managerd_says_nothing():
    with Server() as s:
        s.on["ASK_HEALTH"] = lambda *_: None
        for method in ("GET", "HEAD"):
            assert s(method, "/healthz", key=None, timeout=30).status_code == 503
        assert "does not answer" in error(s("GET", "/healthz", key=None, timeout=30), 503)
        s.on.clear()
        assert s("GET", "/healthz", key=None, timeout=30).status_code == 200


def test_commands_that_run_keep_nothing_of_their_requests():
    """Parsed, a list of empty arguments is thirty times as large as what was sent."""
    with Server() as s, contextlib.ExitStack() as kept:
        s.on["EXEC"] = lambda _, m: kept.callback(os.close, m.fd)
        before = s.rss()
        for path in (BOX_URL + "/exec", BOX_URL + "/exec/stream"):
            for _ in range(20):
                c = kept.enter_context(s.connect())
                c.sendall(post(path, json.dumps({"command": ["true"] + [""] * 100000}, separators=(",", ":")).encode()))
        assert wait_until(lambda: sum(m.name == "EXEC" for m in s.seen) == 40)
        assert s.rss() - before < 60000
