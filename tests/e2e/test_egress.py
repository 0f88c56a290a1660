"""The way out of a sandbox, from a program inside to a host outside: names, proxies, refusals, and who decides."""

import json
import os
import time

import pytest
from egress_scene import ECHO, HOST4, TLS, WEB, NetServer, World
from harness import check_error, wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces, so it runs as root only")

LIST = [WEB, TLS, ECHO + ":7777", "*.wild.example", "gone.example", "inner.example"]
CODE = """
import http.client, json, os, socket, ssl, struct, sys, time, urllib.error, urllib.request
def get(url, **more):
    try:
        return urllib.request.urlopen(urllib.request.Request(url, **more), timeout=20, context=context).read().decode()
    except urllib.error.HTTPError as e:
        return f"{e.code} {e.read().decode()}"
    except OSError as e:
        return f"failed: {e}"
context = ssl.create_default_context(cadata=os.environ.get("CERT"))
def talk(host, port, data, n=65536):
    s = socket.create_connection((host, port), 20)
    s.sendall(data); s.shutdown(1)
    out = b""
    try:
        while d := s.recv(n): out += d
    except ConnectionResetError: out += b"<reset>"
    return out
def socks(host, port):
    s = socket.create_connection(("127.0.0.1", 1080), 20)
    s.sendall(b"\\5\\1\\0"); s.recv(2)
    s.sendall(b"\\5\\1\\0\\3" + bytes([len(host)]) + host + struct.pack(">H", port))
    return s, s.recv(10)[1]
def proxy(data):
    return talk("127.0.0.1", 3128, data).decode()
"""


@pytest.fixture(scope="module")
def world():
    w = World()
    yield w
    w.close()


@pytest.fixture(scope="module")
def out(engine, world):
    s = NetServer(engine, world, MAX_SANDBOXES=20, EGRESS_RATE=2000).start()
    yield s
    s.close()


@pytest.fixture
def api(out):
    yield out.api
    out.api.clear()


def inside(box, code, **more):
    return box.python(CODE + code, **more)


def lines(server, box):
    """Of the audit log, about connections of this sandbox; without one that is being written."""
    out = [json.loads(x) for x in (server.data / "audit.log").read_text().split("\n")[:-1]]
    return [x for x in out if x.get("action") == "egress" and box.id in (x.get("sandbox"), x.get("target"))]


def test_programs_that_know_proxies_and_those_that_do_not_reach_what_is_listed(api, world):
    box = api.create(egress_allowlist=LIST, env={"CERT": world.cert.decode()})
    assert inside(box, f'print(get("http://{WEB}/a?b"))') == f"GET /a?b {WEB} close\n\n"
    assert inside(box, f'print(get("https://{TLS}/x"))') == f"GET /x {TLS} close\n\n", "through CONNECT"
    assert inside(box, 'print(get("http://a.wild.example/"))') == "GET / a.wild.example close\n\n"
    got = inside(box, f'c = http.client.HTTPConnection("{WEB}"); c.request("GET", "/"); print(c.getresponse().read())')
    assert "GET /" in got, "by the loopback address of the name"
    got = inside(box, f'c = http.client.HTTPSConnection("{TLS}", context=context); c.request("GET", "/"); print(c.getresponse().read())')
    assert "GET /" in got
    assert inside(box, f'print(talk("{ECHO}", 7777, b"hello"))') == "b'hello'\n"
    assert inside(box, f's, code = socks(b"{ECHO}", 7777); s.sendall(b"hi"); print(code, s.recv(2))') == "0 b'hi'\n"
    assert inside(box, 'print(os.listdir("/sys/class/net"))') == "['lo']\n"
    assert "127.64.0.1" in box.sh("cat /etc/hosts")


def test_what_is_not_listed_is_refused_with_the_reason_inside(api, world):
    box = api.create(egress_allowlist=LIST, env={"CERT": world.cert.decode()})
    world.dns.names |= {"other.example": [HOST4], "inner.example": ["10.1.2.3"]}
    refused = "403 egress refused: not in the allowlist\n\n"
    assert inside(box, 'print(get("http://other.example/"))') == refused
    assert inside(box, f'print(get("http://{WEB}:8080/"))') == refused
    assert inside(box, f'print(get("http://{HOST4}/"))') == refused
    assert "not public" in inside(box, 'print(get("http://inner.example/"))')
    assert inside(box, 'print(get("http://gone.example/"))').startswith("502 egress failed: name not found")
    assert inside(box, f'print(socks(b"{WEB}", 22)[1])') == "2\n"
    assert "403" in inside(box, 'print(get("https://other.example/"))')
    assert "Host header" in inside(box, f'print(proxy(b"GET http://{WEB}/ HTTP/1.1\\r\\nHost: other.example\\r\\n\\r\\n"))')
    assert (
        inside(
            box,
            f's = socket.create_connection(("{TLS}", 443)); c = ssl._create_unverified_context()\n'
            'try: c.wrap_socket(s, server_hostname="other.example"); print("through")\nexcept OSError: print("refused")',
        )
        == "refused\n"
    ), "the TLS server name is not the name that was dialled"
    bad = inside(box, 'try: print(talk("other.example", 80, b"x"))\nexcept OSError as e: print("no such name")')
    assert bad == "no such name\n"


def test_every_decision_is_one_line_of_the_audit_log(api, out):
    box = api.create(egress_allowlist=LIST)
    inside(box, f'get("http://{WEB}/bytes/1000"); get("http://other.example/")')
    assert wait_until(lambda: len(lines(out, box)) == 2), out.tail()
    first, second = lines(out, box)
    text = json.dumps(first)
    assert WEB in text and HOST4 in text and '"port": 80' in text, first
    assert "not in the allowlist" in json.dumps(second) and "other.example" in json.dumps(second)


def test_without_a_list_there_is_no_way_out(api):
    box = api.create()
    assert "ConnectionRefusedError" in inside(box, 'try: talk("127.0.0.1", 3128, b"")\nexcept OSError as e: print(type(e).__name__)')
    assert "PROXY" not in box.sh("env")


def test_empty_list_lets_nothing_out(api):
    box = api.create(egress_allowlist=[])
    assert "http://web.example" not in box.sh("cat /etc/hosts")
    got = inside(box, f'try: print(talk("127.0.0.1", 3128, b"GET http://{WEB}/ HTTP/1.1\\r\\n\\r\\n"))\nexcept OSError: print("closed")')
    assert "403" in got or "closed" in got


def test_way_out_stays_after_rollback_fork_and_restart(api, out):
    box = api.create(egress_allowlist=[WEB, ECHO + ":7777"])
    get, want = f'print(get("http://{WEB}/"))', f"GET / {WEB} close\n\n"
    snap = box.snapshot()
    fork = api.fork(snap)
    assert inside(fork, get) == want
    assert box.api.ask("POST", f"{box.path}/rollback", json={"snapshot_id": snap}).status_code == 200
    assert inside(box, get) == want
    assert inside(box, f'print(talk("{ECHO}", 7777, b"x"))') == "b'x'\n"
    for program in ("egressd", "managerd", "sessiond"):
        out.kill_program(program)
        assert wait_until(lambda: inside(box, get) == want, 20), program
        assert inside(box, f'print(talk("{ECHO}", 7777, b"x"))') == "b'x'\n"


def test_connections_end_with_their_sandbox(api, world):
    ended = []

    def handle(sock):
        sock.sendall(b"on")
        try:
            while sock.recv(100):
                pass
        except OSError:
            pass
        ended.append(1)

    with world.serve(7801, handle):
        box = api.create(egress_allowlist=[ECHO + ":7801"])
        box.sh(f"""nohup python3 -c 'import socket, time
s = socket.create_connection(("{ECHO}", 7801)); open("on", "wb").write(s.recv(2)); time.sleep(1000)' > /dev/null 2>&1 &""")
        assert wait_until(lambda: box.sh("cat on 2>/dev/null || true") == "on")
        assert ended == []
        box.delete()
        assert wait_until(lambda: ended)


@pytest.mark.limit(200)
def test_flood_of_connections_costs_only_the_sandbox_that_makes_it(api, out):
    box, other = api.create(egress_allowlist=LIST), api.create(egress_allowlist=LIST)
    code = f"""
import selectors
sel, made, done, now, end = selectors.DefaultSelector(), 0, 0, 0, time.time() + 20
while done < 10000 and time.time() < end:
    while made < 10000 and now < 900:
        s = socket.socket(); s.setblocking(False); s.connect_ex(("{ECHO}", 7777)); sel.register(s, selectors.EVENT_WRITE); made += 1; now += 1
    for key, what in sel.select(1):
        s = key.fileobj
        try:
            if what & selectors.EVENT_WRITE:
                s.send(b"x"); s.shutdown(1); sel.modify(s, selectors.EVENT_READ)
                continue
            if s.recv(100): continue
        except OSError: pass
        sel.unregister(s); s.close(); now -= 1; done += 1
print(done)
"""
    before = out.memory()
    stream = box.stream(["python3", "-c", CODE + code], timeout=90)
    began = time.monotonic()
    while time.monotonic() - began < 5:
        said = inside(other, f'print(talk("{ECHO}", 7777, b"x"))')
        assert said == "b'x'\n", f"{said}: {lines(out, other)[-1:]}"
    events = stream.all()
    assert events[-1]["exit_code"] == 0, events
    assert wait_until(lambda: out.memory() - before < 8000)


def test_host_that_sends_to_a_reader_that_does_not_read_is_held_up(api, out):
    box = api.create(egress_allowlist=LIST)
    before = out.memory()
    code = f's = socket.create_connection(("{WEB}", 80)); s.sendall(b"GET /bytes/1073741824 HTTP/1.1\\r\\nHost: {WEB}\\r\\n\\r\\n"); time.sleep(4)'
    inside(box, code)
    assert wait_until(lambda: out.memory() - before < 4000)
    assert box.sh("cat /proc/1/status | grep -c VmRSS") == "1\n"


def test_large_transfers_arrive_whole_both_ways(api, world):
    box = api.create(egress_allowlist=LIST)
    assert inside(box, f'print(len(get("http://{WEB}/bytes/50000000")))') == "50000000\n"
    code = f"""
import hashlib, threading
data = os.urandom(20_000_000)
s = socket.create_connection(("{ECHO}", 7777))
threading.Thread(target=lambda: (s.sendall(data), s.shutdown(1))).start()
got = b"".join(iter(lambda: s.recv(1 << 16), b""))
print(got == data)
"""
    assert inside(box, code) == "True\n"


def test_two_hundred_connections_at_once(api):
    box = api.create(egress_allowlist=LIST, memory_mb=256)
    code = f"""
import threading
ok = []
def one(i):
    data = bytes([i]) * 30000
    ok.append(talk("{ECHO}", 7777, data) == data)
ts = [threading.Thread(target=one, args=(i,)) for i in range(200)]
for t in ts: t.start()
for t in ts: t.join()
print(sum(ok))
"""
    assert inside(box, code) == "200\n"


def test_run_has_its_list_too(api):
    code = f'import urllib.request; print(urllib.request.urlopen("http://{WEB}/").read().decode())'
    answer = api.ask("POST", "/v1/run", json={"code": code, "language": "python", "egress_allowlist": [WEB]})
    assert answer.status_code == 200 and answer.json()["stdout"] == f"GET / {WEB} close\n\n", answer.text


def test_lists_that_are_none_are_400(api):
    for bad in (["http://web.example"], ["a b"], ["*"], ["10.0.0.1"], ["web.example:*"]):
        check_error(api.post_sandbox({"egress_allowlist": bad}), 400)


def test_network_through_the_proxy_reaches_public_addresses_only(engine, world):
    s = NetServer(engine, world, NETWORK_MODE="proxy").start()
    try:
        box = s.api.create(network=True)
        assert inside(box, 'print(os.listdir("/sys/class/net"))') == "['lo']\n"
        assert inside(box, f'print(get("http://{WEB}/"))') == f"GET / {WEB} close\n\n"
        assert inside(box, f'print(get("http://{HOST4}/"))') == f"GET / {HOST4} close\n\n"
        for inner in ("127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.1.1", "[::1]"):
            assert "not public" in inside(box, f'print(proxy(b"GET http://{inner}/ HTTP/1.1\\r\\n\\r\\n"))'), inner
    finally:
        s.close()


def test_sandbox_from_the_pool_has_its_way_out_too(engine, world):
    s = NetServer(engine, world, EGRESS_ALLOWLIST=f"{WEB},*.wild.example,{ECHO}:7777", POOL=2).start()

    def ready():
        said = s.pool()
        return said and said["images"][0]["ready"] == 2

    try:
        assert wait_until(ready, 60)
        box, narrow = s.api.create(), s.api.create(egress_allowlist=[WEB])
        assert s.tail(100000).count("is not from the pool") == 0, s.tail()
        for b in (box, narrow):
            assert inside(b, f'print(get("http://{WEB}/"))') == f"GET / {WEB} close\n\n"
            assert inside(b, f'c = http.client.HTTPConnection("{WEB}"); c.request("GET", "/"); print(c.getresponse().status)') == "200\n"
            assert "3128" in b.sh("env")
        assert inside(box, f'print(talk("{ECHO}", 7777, b"x"))') == "b'x'\n"
        refused = f'try: print(talk("{ECHO}", 7777, b"x"))\nexcept OSError: print("refused")'
        assert inside(narrow, refused) == "refused\n"
        assert inside(narrow, 'print(get("http://a.wild.example/"))') == "403 egress refused: not in the allowlist\n\n"
    finally:
        s.end()
        s.settings["POOL"] = 0
        s.close()


def test_list_of_the_server_bounds_those_of_sandboxes(engine, world):
    s = NetServer(engine, world, EGRESS_ALLOWLIST=f"{WEB},*.wild.example", POOL=1).start()
    try:
        box = s.api.create()
        assert inside(box, f'print(get("http://{WEB}/"))') == f"GET / {WEB} close\n\n", "the server's own list holds"
        narrow = s.api.create(egress_allowlist=["a.wild.example"])
        assert inside(narrow, 'print(get("http://a.wild.example/"))') == "GET / a.wild.example close\n\n"
        assert inside(narrow, f'print(get("http://{WEB}/"))') == "403 egress refused: not in the allowlist\n\n"
        check_error(s.api.post_sandbox({"egress_allowlist": [ECHO]}), 400)
    finally:
        s.end()
        s.settings["POOL"] = 0
        s.close()
