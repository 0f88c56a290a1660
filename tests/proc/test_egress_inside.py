"""sessiond and sandbox-init together, with a way out whose end the test plays: what common clients do with it."""

import queue
import socket
import tempfile
import threading

import guest
import layout
import pytest
from machine import kib, wait_until
from session_kit import Session
from test_sessiond_real import Real

pytestmark = guest.needs_root
L = layout
HOSTS = "127.0.0.1 localhost\n127.64.0.1 web.example\n"


class Served(layout.Chan):
    """managerd's end of the channel: S_DIALs are answered at once by outside(message, socket); the rest waits for the test."""

    def __init__(self, chan, outside):
        super().__init__(chan.sock)
        self.outside, self.rest, self.dialled = outside, queue.Queue(), []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                m = super().recv(3600)
            except (OSError, EOFError, ValueError):
                self.rest.put(None)
                return
            if m.name == "S_DIAL":
                self.dialled.append((m.tail, m.fields["port"], m.fields["how"]))
                threading.Thread(target=self.one, args=(m, socket.socket(fileno=m.fd)), daemon=True).start()
            else:
                self.rest.put(m)

    def one(self, m, sock):
        with sock:
            verdict, text, handle = self.outside(m)
            try:
                self.send("S_DIALED", m.id, {"verdict": verdict}, text)
                if verdict == L.DIAL_OK:
                    handle(sock)
            except OSError:
                pass

    def recv(self, timeout=30):
        try:
            m = self.rest.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError from None
        if m is None:
            raise layout.Gone("channel")
        return m


def read_head(sock):
    data = b""
    while b"\r\n\r\n" not in data:
        data += sock.recv(65536)
    return data


def http(sock):
    head = read_head(sock)
    body = b"you asked for " + head.split(b"\r\n")[0]
    sock.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    finish(sock)


def echo(sock):
    while data := sock.recv(1 << 16):
        sock.sendall(data)
    finish(sock)


def finish(sock):
    """As egressd ends: its direction, then waits for the other."""
    sock.shutdown(socket.SHUT_WR)
    while sock.recv(1 << 16):
        pass


def outside(m):
    if m.tail == b"web.example" and m.fields["port"] in (80, 8080):
        return L.DIAL_OK, b"", http
    if m.tail == b"web.example" and m.fields["port"] == 7:
        return L.DIAL_OK, b"", echo
    return L.DIAL_REFUSED, b"not in the allowlist", None


class Way(Real):
    def __init__(self):
        self.box = guest.Sandbox(hello=False, hosts=HOSTS)
        Session.__init__(self, up=False)
        self.manager.send("S_EGRESS", 0, {"on": 1}, b"web.example\nweb.example:7\nweb.example:8080")
        self.manager.send("S_GUEST", 0, {"framing": layout.GUEST_RAW, "sandbox": 1}, fd=self.box.sock)
        self.box.sock.close()
        self.manager.recv_until("S_UP")
        self.manager = Served(self.manager, outside)

    def sh(self, script, env=(), **kw):
        exit, out, err = self.run("sh", "-c", script, env=list(env), **kw)
        return exit["exit_code"], bytes(out), bytes(err)


@pytest.fixture(scope="module")
def way():
    with Way() as w:
        yield w


def test_curl_uses_the_http_proxy(way):
    code, out, err = way.sh("curl -sS http://web.example/a")
    assert (code, out) == (0, b"you asked for GET /a HTTP/1.1"), err
    assert way.manager.dialled[-1] == (b"web.example", 80, L.DIAL_HTTP)
    code, out, err = way.sh("curl -sS -p http://web.example:8080/b")
    assert (code, out) == (0, b"you asked for GET /b HTTP/1.1"), err
    assert way.manager.dialled[-1] == (b"web.example", 8080, L.DIAL_CONNECT)


def test_curl_uses_socks(way):
    code, out, err = way.sh("curl -sS -x socks5h://127.0.0.1:1080 http://web.example/c")
    assert (code, out) == (0, b"you asked for GET /c HTTP/1.1"), err
    assert way.manager.dialled[-1] == (b"web.example", 80, L.DIAL_SOCKS)


def test_curl_without_a_proxy_uses_the_address_of_the_name(way):
    code, out, err = way.sh("curl -sS --noproxy '*' http://web.example/d")
    assert (code, out) == (0, b"you asked for GET /d HTTP/1.1"), err
    assert way.manager.dialled[-1] == (b"web.example", 80, L.DIAL_DIRECT)


def test_wget_uses_the_proxy(way):
    code, out, err = way.sh("wget -q -O - http://web.example/e")
    assert (code, out) == (0, b"you asked for GET /e HTTP/1.1"), err


def test_refusals_reach_the_clients(way):
    code, out, _ = way.sh("curl -sS -o /dev/stdout -w ' %{http_code}' http://other.example/")
    assert out == b"egress refused: not in the allowlist\n 403"
    code, _, err = way.sh("curl -sS https://other.example/")
    assert code == 56 and b"403" in err
    code, _, err = way.sh("curl -sS -x socks5h://127.0.0.1:1080 http://other.example/")
    assert code == 97
    code, _, err = way.sh("curl -sS --noproxy '*' http://other.example/")
    assert code == 6, "the name is not known inside"


def test_large_transfers_arrive_whole(way):
    script = """
import hashlib, os, socket, threading
data = os.urandom(30_000_000)
s = socket.create_connection(("web.example", 7))
threading.Thread(target=lambda: (s.sendall(data), s.shutdown(1))).start()
got = b"".join(iter(lambda: s.recv(1 << 16), b""))
print(hashlib.sha256(got).digest() == hashlib.sha256(data).digest(), len(got))
"""
    way.write(b"/workspace/t.py", script.encode())
    assert way.sh("python3 t.py", timeout_us=60_000_000)[1] == b"True 30000000\n"


def test_session_and_guest_are_small_again_after_many_connections(way):
    script = """
import socket, threading
def one():
    s = socket.create_connection(("web.example", 7)); s.sendall(b"x" * 50000); s.shutdown(1)
    n = 0
    while d := s.recv(1 << 16): n += len(d)
    assert n == 50000
for _ in range(3):
    ts = [threading.Thread(target=one) for _ in range(200)]
    for t in ts: t.start()
    for t in ts: t.join()
print("done")
"""
    way.write(b"/workspace/many.py", script.encode())
    assert way.sh("python3 many.py", timeout_us=60_000_000)[1] == b"done\n"
    most = 30000 if "san-" in str(layout.BUILD) else 1500
    assert wait_until(lambda: way.pss_kb()["Private_Dirty"] < most)
    assert wait_until(lambda: 0 < kib(way.box.pid, "VmRSS") < 3000)


def test_dials_do_not_survive_the_session():
    with Way() as w:
        id, client = w.exec(
            [
                b"python3",
                b"-c",
                b"import socket, time; s = socket.create_connection(('web.example', 7)); print(1, flush=True); time.sleep(60)",
            ]
        )
        assert client.recv() == (layout.RECORD_STARTED, b"")
        assert client.recv() == (layout.RECORD_STDOUT, b"1\n")
        w.manager.send("S_END", 0, {"reason": L.END_DELETED})
        assert w.wait() == 0


def test_snapshot_leaves_connections_open(way):
    code = (
        b"import socket; s = socket.create_connection(('web.example', 7)); print(1, flush=True); input(); s.sendall(b'x'); print(s.recv(1))"
    )
    id, client = way.exec([b"python3", b"-c", code], stdin_follows=1, timeout_us=60_000_000)
    assert client.recv() == (layout.RECORD_STARTED, b"")
    assert client.recv() == (layout.RECORD_STDOUT, b"1\n")
    with tempfile.TemporaryFile() as f:
        snap, _ = way.job("S_SNAPSHOT", {"max_bytes": 1 << 30}, fd=f)
        way.job_end(snap, 200)
    client.send(layout.RECORD_STDIN, b"\n")
    client.send(layout.RECORD_STDIN_END)
    assert client.recv() == (layout.RECORD_STDOUT, b"b'x'\n")
    client.close()
    way.job_end(id)
