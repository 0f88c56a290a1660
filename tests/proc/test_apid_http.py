"""apid's HTTP: what is malformed is refused, what is slow is ended, nothing grows, and the next request works."""

import json
import os
import socket
import subprocess
import sys
import threading
import time

import http_rows
import layout
import pytest
from apid_server import BOX_URL, KEY, Server, head, post, statuses
from machine import SLACK, processor_time, status, wait_until


@pytest.fixture(scope="module")
def server(kind):
    with kind() as s:
        yield s


@pytest.fixture(autouse=True)
def next_request_works(request):
    yield
    if "server" in request.fixturenames:
        s = request.getfixturevalue("server")
        s.on.clear()
        assert s("GET", "/healthz", key=None).status_code == 200


def test_all_rows_are_there():
    assert len(http_rows.ROWS) == 97


@pytest.mark.parametrize("name, sent, want", http_rows.ROWS, ids=[r[0] for r in http_rows.ROWS])
@pytest.mark.parametrize("split", [False, True], ids=["whole", "in pieces"])
def test_every_odd_request_is_handed_on_or_refused_as_a_whole(server, name, sent, want, split):
    data = sent.encode("latin-1")
    cut = [data[: len(data) // 2], data[len(data) // 2 : -1], data[-1:]]
    answers = [404 if w == "200" else int(w) for w in want.split() if w.isdigit()]
    got, end = server.raw(data, wait=0.25, parts=cut if split else None, answers=len(answers))
    assert statuses(got) == answers, got
    if not (split and "Expect" in sent):  # then it was answered before the body was there
        assert (end != "open") == ("close" in want), (end, got)
    assert b"html" not in got.lower()


def test_refusals_of_the_gate_have_the_one_shape_and_headers(server):
    got, _ = server.raw(b"GET /x HTTP/1.1\r\n\r\n")
    top, body = got.split(b"\r\n\r\n")
    assert set(json.loads(body)) == {"error"} and set(json.loads(body)["error"]) == {"code", "message"}
    for line in (b"Cache-Control: no-store", b"X-Content-Type-Options: nosniff", b"X-Request-Id: req_", b"Connection: close"):
        assert line in top


def test_tls_at_this_port_is_told_at_once(server):
    """A client that says https:// need not wait until the time for a request head is over."""
    for hello in (bytes.fromhex("16030100c8010000c40303"), b"\x80\x2e\x01", b"\x00"):
        got, end = server.raw(hello, wait=5)
        assert statuses(got) == [400] and (b"TLS" in got) == (server.scheme == "http") and end == "closed"


def test_target_over_8_kib_is_414(server):
    assert statuses(server.raw(head("GET", "/v1/sandboxes?x=" + "a" * 9000))[0]) == [414]
    assert statuses(server.raw(b"GET /" + b"a" * 40000)[0]) == [414]
    assert statuses(server.raw(head("GET", BOX_URL + "/files?path=" + "a" * 4000))[0]) == [404]


def test_401_comes_before_the_body_and_no_100_is_granted(server):
    for method, path in (("POST", "/v1/sandboxes"), ("PUT", BOX_URL + "/files?path=x"), ("POST", BOX_URL + "/exec/stream?request=e30")):
        got, end = server.raw(head(method, path, "Content-Length: 1000000", "Expect: 100-continue", key=False), wait=3)
        assert statuses(got) == [401] and end == "closed"
        got, end = server.raw(head(method, path, "Transfer-Encoding: chunked", key=False), wait=3)
        assert statuses(got) == [401]


def test_100_is_granted_once_the_key_is_good(server):
    with server.connect() as s:
        s.sendall(head("PUT", BOX_URL + "/files?path=expect", "Content-Length: 5", "Expect: 100-continue"))
        assert statuses(s.recv(4096)) == [100]
        s.sendall(b"hello")
        assert statuses(s.recv(4096)) == [200]
        s.sendall(head("GET", BOX_URL))
        assert statuses(s.recv(4096)) == [200]
    assert server.files["/workspace/expect"] == b"hello"


def test_early_refusal_reaches_a_client_that_keeps_sending(server):
    with server.connect() as s:
        s.sendall(head("PUT", BOX_URL + "/files?path=x", "Content-Length: 60000000"))
        try:
            for _ in range(100):
                s.sendall(b"x" * 100_000)
        except OSError:
            pass
        assert statuses(s.recv(4096)) == [413]


def test_pipelined_requests_are_answered_in_order(server):
    data = head("GET", BOX_URL) + post(BOX_URL + "/exec", {"command": "echo 1"}) + head("GET", "/nope") + head("GET", BOX_URL)
    got, _ = server.raw(data, answers=4)
    assert statuses(got) == [200, 200, 404, 200]


def test_thousand_pipelined_requests_are_all_answered(server):
    with server.connect(10) as s:
        many = head("GET", BOX_URL) * 1000
        s.send_behind(many) if hasattr(s, "send_behind") else threading.Thread(target=s.sendall, args=(many,)).start()
        n, tail = 0, b""
        while n < 1000:
            got = tail + s.recv(65536)
            n += got.count(b"HTTP/1.1 200")
            tail = got[-11:] if not got.endswith(b"HTTP/1.1 200") else b""
    assert n == 1000


def test_half_closed_client_still_gets_its_answer(server):
    got, end = server.raw(head("GET", BOX_URL), half_close=True)
    assert (statuses(got), end) == ([200], "closed")
    got, end = server.raw(head("GET", BOX_URL) * 3, half_close=True)
    assert statuses(got) == [200] * 3
    server.files["/workspace/big"] = os.urandom(3_000_000)
    got, end = server.raw(head("GET", BOX_URL + "/files?path=big"), half_close=True, wait=3)
    assert got.endswith(server.files["/workspace/big"])
    got, end = server.raw(b"nonsense\r\n\r\n", half_close=True)
    assert statuses(got) == [400]


def test_http_1_0_is_answered_and_closed(server):
    got, end = server.raw(f"GET {BOX_URL} HTTP/1.0\r\nX-API-Key: {KEY}\r\n\r\n".encode())
    assert got.startswith(b"HTTP/1.0 200") and end == "closed" and got.count(b"Connection:") == 1
    ask = f"GET {BOX_URL} HTTP/1.0\r\nX-API-Key: {KEY}\r\nConnection: keep-alive\r\n\r\n".encode()
    got, end = server.raw(ask * 2, answers=2)
    assert statuses(got) == [200, 200] and end == "open"
    body = b'{"command":"echo hi"}'
    got, end = server.raw(f"POST {BOX_URL}/exec/stream HTTP/1.0\r\nX-API-Key: {KEY}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    assert end == "closed" and b"chunked" not in got and got.endswith(b'"duration_ms":1234}\n')


def long_list(server, m):
    """More than is kept before the answer begins."""

    def work(r):
        for i in range(2000):
            r.send(layout.RECORD_ENTRY, layout.pack("r_entry", {"size": 3}) + b"%0200d" % i)
        r.send(layout.RECORD_DONE, layout.pack("r_done"))

    server.spawn(m, work)


def test_answer_of_unknown_length_ends_an_http_1_0_connection_that_was_to_be_kept(server):
    """With a length of 0, and kept, what it says would be taken for the answer to the next request: a proxy's next client's."""
    body = b'{"command":"echo hi"}'
    keep = f"HTTP/1.0\r\nX-API-Key: {KEY}\r\nConnection: keep-alive\r\n"
    server.on["FILE_LIST"] = long_list
    for ask, last in (
        (f"POST {BOX_URL}/exec/stream {keep}Content-Length: {len(body)}\r\n\r\n".encode() + body, b'"duration_ms":1234}\n'),
        (f"GET {BOX_URL}/files/archive?path=x {keep}\r\n".encode(), b"tar"),
        (f"GET {BOX_URL}/files/list {keep}\r\n".encode(), b"]}"),
    ):
        got, end = server.raw(ask)
        before, _, said = got.partition(b"\r\n\r\n")
        assert statuses(got) == [200] and end == "closed" and said.endswith(last), got[:500]
        assert b"Content-Length" not in before and b"chunked" not in before
        assert before.count(b"Connection: ") == before.count(b"Connection: close") == 1, before


def test_head_answers_like_get_without_the_body(server):
    server.files["/workspace/f"] = b"12345"
    for path in ("/healthz", BOX_URL, "/v1/sandboxes", BOX_URL + "/files?path=f", BOX_URL + "/files/list", "/nope"):
        a, _ = server.raw(head("HEAD", path, "Connection: close"))
        b, _ = server.raw(head("GET", path, "Connection: close"))
        assert statuses(a) == statuses(b) and a.endswith(b"\r\n\r\n") and a.count(b"\r\n\r\n") == 1

        def length(x):
            return [line for line in x.split(b"\r\n") if line.startswith(b"Content-Length")]

        assert length(a) == length(b) != []


def test_request_id_is_echoed_if_harmless(server):
    assert server("GET", BOX_URL, headers={"X-Request-Id": "my-Id.1_"}).headers["X-Request-Id"] == "my-Id.1_"
    assert server.seen[-1].fields["ask"]["request_id"] == "my-Id.1_"
    for bad in ("a b", "x" * 65, "<x>", "", "é"):
        assert server("GET", BOX_URL, headers={"X-Request-Id": bad.encode()}).headers["X-Request-Id"].startswith("req_")


def test_many_errors_leave_the_connection_usable(server):
    with server.connect() as s:
        f = s.makefile("rb")
        for i in range(200):
            path = (BOX_URL, "/v1/nope", "/v1/sandboxes/sb_zz")[i % 3]
            s.sendall(head("GET", path))
            status = int(f.readline().split()[1])
            assert status == (200, 404, 404)[i % 3]
            n = 0
            while (line := f.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    n = int(line.split(b":")[1])
            f.read(n)


def test_slow_heads_and_bodies_do_not_hold_others_and_are_ended(server):
    socks = []
    for i in range(90):
        s = server.connect()
        s.sendall([b"", b"GET /v1/sandboxes HTTP/1.1\r\nHost: a\r\n", post(BOX_URL + "/exec", b"x" * 99)[:-50]][i % 3])
        socks.append(s)
    start = time.monotonic()
    assert server("GET", BOX_URL).status_code == 200 and time.monotonic() - start < 1 + SLACK
    one, ended = socks[1], False
    one.settimeout(1)
    while not ended and time.monotonic() - start < 13 + SLACK:  # a byte a second does not help
        try:
            one.sendall(b"A")
            ended = one.recv(100) == b""
        except TimeoutError:
            pass
        except ConnectionError:
            ended = True
    assert ended
    for s in socks:
        s.close()


def test_body_below_the_minimum_rate_is_ended(server):
    with server.connect(45) as s:
        s.sendall(head("PUT", BOX_URL + "/files?path=slow", "Content-Length: 1000000"))
        start = time.monotonic()
        try:
            while time.monotonic() - start < 45:
                s.sendall(b"x" * 100)
                s.settimeout(0.5)
                try:
                    if s.recv(100) == b"":
                        break
                except TimeoutError:
                    pass
        except OSError:
            pass
        assert 25 < time.monotonic() - start < 35 + SLACK
    assert "/workspace/slow" not in server.files


def received(s):
    """How many bytes still come until the other side ends it."""
    n = 0
    s.settimeout(30)
    try:
        while data := s.recv(1 << 20):
            n += len(data)
    except ConnectionResetError:
        pass
    return n


def test_client_that_reads_nothing_is_ended_after_the_stall_and_one_that_reads_slowly_is_not(server):
    server.files["/workspace/huge"] = bytes(40_000_000)
    stuck, slow = server.connect(), server.connect(60)
    for s in (stuck, slow):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        s.sendall(head("GET", BOX_URL + "/files?path=huge"))
    start = time.monotonic()
    while time.monotonic() - start < 38:
        slow.recv(20_000)
        time.sleep(1)
    assert received(stuck) < 40_000_000, "the stuck one was not ended"
    assert slow.recv(1000) != b""
    stuck.close()
    slow.close()


def test_flood_behind_a_running_request_is_not_read(server):
    before = server.rss()
    with server.connect() as s:
        s.sendall(post(BOX_URL + "/exec", {"command": "wait"}))
        s.settimeout(1)
        sent = 0
        try:
            while sent < 100_000_000:
                sent += s.send(b"GET / HTTP/1.1\r\n" * 4096)
        except TimeoutError:
            pass
        assert sent < 20_000_000 and server.rss() - before < 4000


def test_flood_behind_a_running_stream_is_not_read(server):
    def work(m, r):
        r.recv()
        r.send(layout.RECORD_STARTED)
        for _ in range(3000):
            r.send(layout.RECORD_STDOUT, b"x")
            time.sleep(0.0005)
        r.send(layout.RECORD_EXIT, layout.pack("r_exit"))

    server.on["EXEC"] = lambda s, m: s.spawn(m, lambda r: work(m, r))
    before = server.rss()
    with server.connect() as s:
        s.sendall(post(BOX_URL + "/exec/stream", {"command": "x"}))
        s.settimeout(0.5)
        sent, peak, end = 0, 0, time.monotonic() + 3
        while time.monotonic() < end:
            try:
                sent += s.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 2000)
            except TimeoutError:
                pass
            peak = max(peak, server.rss())
        assert peak - before < 4000, (sent, peak - before)


def test_memory_stays_flat_over_a_400_mb_upload(kind):
    def swallow(s, m):
        def work(r):
            total = 0
            while (part := r.recv(30))[0] == layout.RECORD_DATA:
                total += len(part[1])
            r.send(layout.RECORD_META, layout.pack("r_meta", {"size": total}))
            r.send(layout.RECORD_DONE, layout.pack("r_done", {"bytes": total}))

        s.spawn(m, work)

    with kind(MAX_FILE_BYTES=1 << 30) as s:
        s.on["FILE_WRITE"] = swallow
        s("PUT", BOX_URL + "/files?path=x", data=b"x" * 5_000_000)
        before, peak = s.rss(), []
        for chunked in (False, True):
            with s.connect(30) as c:
                n = 200_000_000
                c.sendall(head("PUT", BOX_URL + "/files?path=x", "Transfer-Encoding: chunked" if chunked else f"Content-Length: {n}"))
                piece = b"x" * 1_000_000
                for _ in range(n // len(piece)):
                    c.sendall(b"f4240\r\n" + piece + b"\r\n" if chunked else piece)
                    peak.append(s.rss())
                c.sendall(b"0\r\n\r\n" if chunked else b"")
                got = c.recv(65536)
                assert statuses(got) == [200] and b'"size":200000000' in got
        assert max(peak) - before < 3000, max(peak) - before


def test_memory_stays_flat_with_readers_that_do_not_read(server):
    server.files["/workspace/huge"] = bytes(30_000_000)
    before = server.rss()
    socks = []
    for i in range(20):
        s = server.connect()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.sendall(head("GET", BOX_URL + "/files?path=huge") if i % 2 else post(BOX_URL + "/exec/stream", {"command": "many 400"}))
        socks.append(s)
    time.sleep(2)
    grown = server.rss() - before
    for s in socks:
        s.close()
    assert grown < 20 * 700, grown


def test_descriptors_are_given_back(server):
    server("GET", BOX_URL)
    time.sleep(0.2)
    before = server.fds()
    for _ in range(30):
        server("POST", BOX_URL + "/exec", json={"command": "echo x"})
        server("PUT", BOX_URL + "/files?path=y", data=b"x")
        server("GET", BOX_URL + "/files?path=y")
        server("GET", BOX_URL + "/files?path=none")
        server("POST", BOX_URL + "/exec/stream", json={"command": "error 400"})
        server("POST", "/v1/sandboxes", json={"env": {"A": "b"}})
        server.raw(post(BOX_URL + "/exec", b"{")[:-1], wait=0.001, answers=0)
        server.raw(b"junk\r\n\r\n", wait=0.001, answers=0)
    assert wait_until(lambda: server.fds() <= before), server.fds() - before


@pytest.mark.parametrize("first", [b"", b"GET /x HTTP/1.1\r\n", b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", b"x\r\n\r\n"])
def test_many_connections_without_a_key_leave_room_for_a_new_one(first):
    with Server(MAX_CONNECTIONS=1000, MAX_CONNECTIONS_PER_ADDRESS=0) as server:
        socks = []
        for _ in range(1150):
            s = server.connect()
            s.sendall(first)
            socks.append(s)
        start = time.monotonic()
        assert server("GET", BOX_URL).status_code == 200 and time.monotonic() - start < 3 + SLACK
        assert server.fds() < 1100
        for s in socks:
            s.close()
        assert wait_until(lambda: server.fds() < 50)


def test_clients_that_left_their_commands_running_leave_room_for_a_new_one():
    with Server(MAX_CONNECTIONS=50, MAX_CONNECTIONS_PER_ADDRESS=0) as s:
        jobs = []

        def begin(s, m):
            s.send("REPLY", m.id, {"status": 200})
            jobs.append(m.fd)

        s.on["EXEC"] = begin
        for n in range(1, 121):
            with s.connect() as c:
                c.sendall(post(BOX_URL + "/exec?on_disconnect=continue", {"command": "x"}))
                assert wait_until(lambda n=n: len(jobs) == n, 30, 0.002)
        assert s("GET", BOX_URL).status_code == 200
        for fd in jobs:
            os.close(fd)


def test_many_bodies_and_outputs_together_are_bounded(kind):
    with kind(MAX_EXEC_OUTPUT_BYTES=1 << 26) as s:

        def work(r):
            r.recv()
            r.send(layout.RECORD_STARTED)
            for _ in range(512):
                r.send(layout.RECORD_STDOUT, b"\xff" * 65536)
            r.send(layout.RECORD_EXIT, layout.pack("r_exit"))

        s.on["EXEC"] = lambda s, m: s.spawn(m, work)
        socks = [s.connect(60) for _ in range(6)]  # 6 * 32 MiB, each three times as large as text
        for c in socks:
            c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            c.sendall(post(BOX_URL + "/exec", {"command": "x"}))
        for c in socks:
            assert c.recv(1, socket.MSG_PEEK)
        assert s.rss() < 400_000
        assert statuses(s.raw(post("/v1/sandboxes", {"image": "x" * 200_000}), wait=3)[0]) == [503]
        assert statuses(s.raw(post("/v1/sandboxes", {"image": "x"}), wait=3)[0]) == [201]
        for c in socks:
            c.close()
        s.on.clear()
        assert wait_until(lambda: s("POST", BOX_URL + "/exec", json={"command": "echo x"}).status_code == 200)


def lower_descriptors(pid, limit):
    """As the user that the process runs as: also a root that lacks the capability may do that."""
    fields = status(pid)
    uid, gid = fields["Uid"].split()[0], fields["Gid"].split()[0]
    be = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups"] if os.geteuid() == 0 else []
    subprocess.run([*be, "prlimit", f"--pid={pid}", f"--nofile={limit}:{limit}"], check=True)


def test_out_of_descriptors_neither_spins_nor_dies(kind):
    with kind() as s:
        lower_descriptors(s.program.pid, 20)
        socks = [s.plain() for _ in range(40)]
        before = processor_time(s.program.pid)
        time.sleep(1.5)
        assert processor_time(s.program.pid) - before < 0.2 and s.program.log().count("accept") < 10
        for c in socks:
            c.close()
        assert wait_until(lambda: s("GET", BOX_URL).status_code == 200)


def test_a_client_that_leaves_while_managerd_thinks_costs_nothing(server):
    held = []
    server.on["GET"] = lambda s, m: held.append(m)
    for _ in range(50):
        with server.connect() as s:
            s.sendall(head("GET", BOX_URL))
    assert wait_until(lambda: len(held) == 50)
    server.on.clear()
    for m in held:
        server.sandbox(m)
    assert server("GET", BOX_URL).status_code == 200


def test_commands_that_run_do_not_count_the_bodies_that_asked_for_them(server):
    """They are parsed and given back; what all requests together may keep is for what is kept."""
    waiting, socks = [], []
    server.on["EXEC"] = lambda s, m: waiting.append(m)
    body = b'{"command": "true"' + b" " * 1_000_000 + b"}"
    for n in range(270):
        socks.append(server.connect())
        socks[-1].sendall(post(BOX_URL + "/exec", body))
        assert wait_until(lambda n=n: len(waiting) > n), n
    server.on.clear()
    assert server("POST", BOX_URL + "/exec", data=body).status_code == 200
    for s in socks:
        s.close()
    for m in waiting:
        os.close(m.fd)


def test_port_that_is_opened_later_is_served_then():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    with layout.Program("apid", ["chan", listener, "chan"]) as p:
        time.sleep(0.3)
        assert p.alive() and "accept" not in p.log()
        listener.listen(16)
        with socket.create_connection(listener.getsockname(), 5) as s:
            s.sendall(b"GET /nope HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert s.recv(100).startswith(b"HTTP/1.1 404")
    listener.close()


LINK_LOCAL = """
import socket, sys
sys.path.insert(0, sys.argv[1])
import layout
listener = socket.create_server(("fe80::1", 0, 0, 1), family=socket.AF_INET6)
with layout.Program("apid", ["chan", listener, "chan"]) as p, socket.socket(socket.AF_INET6) as s:
    s.settimeout(30)
    s.connect(("fe80::1", listener.getsockname()[1], 0, 1))
    s.sendall(b"GET /nope HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
    assert s.recv(100).startswith(b"HTTP/1.1 404") and p.alive()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a network namespace")
def test_neighbour_on_a_link_local_address_is_served():
    setup = "ip link set lo up && ip -6 addr add fe80::1/64 dev lo nodad"
    if subprocess.run(["unshare", "-n", "sh", "-c", setup], capture_output=True).returncode:
        pytest.skip("no ip(8) or no IPv6 here")
    script = f'{setup} && exec "$0" -c "$1" "$2"'
    subprocess.run(["unshare", "-n", "sh", "-c", script, sys.executable, LINK_LOCAL, os.path.dirname(layout.__file__)], check=True)


def test_sigterm_ends_streams_with_an_error_line_and_answers_what_waits(kind):
    s = kind()
    s.on["GET"] = lambda *_: None
    with s.connect() as stream, s.connect() as waiting, s.connect() as idle:
        stream.sendall(post(BOX_URL + "/exec/stream", {"command": "wait"}))
        first = stream.recv(4096)
        waiting.sendall(head("GET", BOX_URL))
        assert wait_until(lambda: any(m.name == "GET" for m in s.seen))
        idle.sendall(b"GET /x")
        os.kill(s.program.pid, 15)
        assert statuses(waiting.recv(4096)) == [503]
        rest = first
        while part := stream.recv(4096):
            rest += part
        assert b'{"type":"error","data":"the server is going down"}' in rest and rest.endswith(b"0\r\n\r\n")
    assert s.program.wait(30) == 0
    s.stop()


@pytest.mark.parametrize("name, id", [("REPLY", 5), ("SANDBOX", 1 << 40), ("PAGE_END", 0)])
def test_answer_to_nothing_from_managerd_is_fatal(name, id):
    s = Server()
    s.send(name, id, {} if name != "REPLY" else {"status": 200})
    assert s.program.wait(30) == 1
    s.program.stop()


def test_wrong_kind_of_answer_from_managerd_is_fatal():
    s = Server()
    s.on["GET"] = lambda s, m: s.snapshot(m)
    with s.connect() as c:
        c.sendall(head("GET", BOX_URL))
        assert s.program.wait(30) == 1
    s.program.stop()


def test_end_of_managerd_ends_apid():
    s = Server()
    s.chan.sock.shutdown(socket.SHUT_RDWR)
    assert s.program.wait(30) == 0
    s.program.stop()
