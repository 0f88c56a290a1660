"""sandbox-init: connections out of the sandbox, from the clients inside to the channels of the guest stream."""

import random
import re
import time

import guest
import layout
import pytest

pytestmark = guest.needs_root
L = layout
HOSTS = "127.0.0.1 localhost\n127.64.0.1\texample.com\n127.64.0.2 b.example # c.example\n127.64.0.3 other.example\n127.65.0.1 not.ours\n"
LIST = ("example.com", "b.example:8080", "b.example:81", "*.wild.example", "10.0.0.0/8", "[2001:db8::1]:443")
CLIENT = """
import socket, struct, sys, time
def connect(port=3128, host="127.0.0.1"):
    s = socket.create_connection((host, port), 20)
    s.settimeout(20)
    return s
def rest(s):
    out = b""
    try:
        while d := s.recv(65536):
            out += d
    except ConnectionResetError:
        out += b"<reset>"
    return out
def say(s, data):
    s.sendall(data)
    return rest(s)
def socks(name, port=443, cmd=1):
    s = connect(1080)
    s.sendall(b"\\5\\2\\2\\0")
    assert s.recv(2) == b"\\5\\0"
    s.sendall(bytes([5, cmd, 0, 3, len(name)]) + name + struct.pack(">H", port))
    return s
def out(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
"""


@pytest.fixture(scope="module")
def shared():
    with guest.Sandbox(hosts=HOSTS) as b:
        assert b.egress(*LIST) == ({"listeners": 2 + 2 + 2, "failed": 0}, "")
        yield b


@pytest.fixture
def box(shared):
    yield shared
    for d in list(shared.dials.values()):
        if not d.sent_close:
            if not d.judged:
                d.verdict(L.DIAL_REFUSED)
            else:
                d.close()
    shared.until(lambda: not shared.dials)


def soon_at_most(box, kb):
    """What is given back is given back a moment later."""
    end = time.monotonic() + 30
    while memory(box) > kb and time.monotonic() < end:
        box.settle(0.2)
    return memory(box) <= kb


def client(box, code, *args, **more):
    return box.exec(["python3", "-c", CLIENT + code, *args], **more)


def answered(ch):
    r = ch.wait()
    assert r.code == 0, r.err.decode()
    return r.out


def memory(box):
    """kB of PID 1."""
    return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{box.pid}/status").read())[1])


def check(dial, how, port, name):
    assert (dial.how, dial.port, dial.name) == (how, port, name)
    return dial


def finish(dial, data=b""):
    """The host ends, then the client."""
    dial.send(data)
    dial.end()
    dial.until_closed()
    dial.close()


def test_connect_makes_a_tunnel(box):
    ch = client(box, 's = connect(); s.sendall(b"CONNECT Host.example:22 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\nearly"); out(rest(s))')
    d = check(box.next_dial(), L.DIAL_CONNECT, 22, b"Host.example")
    box.settle(0.1)
    assert d.data == b"" and not d.ended, "nothing before the verdict"
    d.verdict()
    assert d.read(5) == b"early"
    finish(d, b"\0binary\n")
    assert answered(ch) == b"HTTP/1.1 200 Connection established\r\n\r\n\0binary\n"


def test_absolute_url_becomes_a_request_to_the_host(box):
    request = (
        "POST http://[2001:db8::1]:8080?a=b HTTP/1.1\\r\\nProxy-Connection: keep-alive\\r\\nHost: [2001:db8::1]:8080\\r\\n"
        "Connection: X-Mine, Host , close\\r\\nX-Mine: 1\\r\\nProxy-Authorization: Basic eDp5\\r\\nKeep-Alive: 5\\r\\n"
        "TE: trailers\\r\\nUpgrade: h2c\\r\\nContent-Length: 4\\r\\nCookie: a=b; c\\r\\n\\r\\nbody"
    )
    ch = client(box, f'out(say(connect(), b"{request}"))')
    d = check(box.next_dial(), L.DIAL_HTTP, 8080, b"2001:db8::1")
    d.verdict()
    want = b"POST /?a=b HTTP/1.1\r\nHost: [2001:db8::1]:8080\r\nContent-Length: 4\r\nCookie: a=b; c\r\nConnection: close\r\n\r\nbody"
    assert d.read(len(want)) == want
    finish(d, b"HTTP/1.1 200 OK\r\n\r\nyes")
    assert answered(ch) == b"HTTP/1.1 200 OK\r\n\r\nyes"


@pytest.mark.parametrize(
    ("line", "name", "port", "sent"),
    [
        ("GET HTTP://example.com/ HTTP/1.0", b"example.com", 80, b"GET / HTTP/1.0\r\nHost: example.com\r\nConnection: close\r\n\r\n"),
        ("GET http://a_b.x:65535/p/?q HTTP/1.1", b"a_b.x", 65535, b"GET /p/?q HTTP/1.1\r\nHost: a_b.x:65535\r\nConnection: close\r\n\r\n"),
        ("HEAD http://127.1?/ HTTP/1.1", b"127.1", 80, b"HEAD /?/ HTTP/1.1\r\nHost: 127.1\r\nConnection: close\r\n\r\n"),
        (
            "GET http://\\xc3\\xa9.x/ HTTP/1.1",
            b"\xc3\xa9.x",
            80,
            b"GET / HTTP/1.1\r\nHost: \xc3\xa9.x\r\nConnection: close\r\n\r\n",
        ),
    ],
)
def test_urls_are_taken_apart_and_names_left_alone(box, line, name, port, sent):
    ch = client(box, f'out(say(connect(), b"{line}\\n\\n"))')
    d = check(box.next_dial(), L.DIAL_HTTP, port, name)
    d.verdict()
    assert d.read(len(sent)) == sent
    finish(d)
    answered(ch)


BAD = [
    b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
    b"GET https://example.com/ HTTP/1.1\r\n\r\n",
    b"GET http://example.com HTTP/2.0\r\n\r\n",
    b"GET http://example.com\r\n\r\n",
    b"GET  http://example.com HTTP/1.1\r\n\r\n",
    b"GET http://example.com/a b HTTP/1.1\r\n\r\n",
    b"GET http://example.com/\0 HTTP/1.1\r\n\r\n",
    b"GET http://u:p@example.com/ HTTP/1.1\r\n\r\n",
    b"GET http:/// HTTP/1.1\r\n\r\n",
    b"GET http://:80/ HTTP/1.1\r\n\r\n",
    b"GET http://[::1/ HTTP/1.1\r\n\r\n",
    b"GET http://[::1]x/ HTTP/1.1\r\n\r\n",
    b"GET http://x:0/ HTTP/1.1\r\n\r\n",
    b"GET http://x:65536/ HTTP/1.1\r\n\r\n",
    b"GET http://x:/ HTTP/1.1\r\n\r\n",
    b"GET http://x:1:2/ HTTP/1.1\r\n\r\n",
    b"GET http://x/#f HTTP/1.1\r\n\r\n",
    b"GET http://" + b"x" * 256 + b"/ HTTP/1.1\r\n\r\n",
    b"G(T http://x/ HTTP/1.1\r\n\r\n",
    b"CONNECT example.com HTTP/1.1\r\n\r\n",
    b"CONNECT example.com:0 HTTP/1.1\r\n\r\n",
    b"CONNECT example.com:99999 HTTP/1.1\r\n\r\n",
    b"CONNECT :443 HTTP/1.1\r\n\r\n",
    b"CONNECT a\0b:443 HTTP/1.1\r\n\r\n",
    b"CONNECT http://example.com:443/ HTTP/1.1\r\n\r\n",
    b"GET http://x/ HTTP/1.1\r\nNo colon\r\n\r\n",
    b"GET http://x/ HTTP/1.1\r\nA : b\r\n\r\n",
    b"GET http://x/ HTTP/1.1\r\nA: b\r\n folded\r\n\r\n",
    b"GET http://x/ HTTP/1.1\r\nA: b\0\r\n\r\n",
    b"GET http://x/ HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\n\n",
]


def test_malformed_requests_are_400_and_dial_nobody(box):
    code = 'import ast\nfor r in ast.literal_eval(sys.stdin.read()): out(say(connect(), r).split(b"\\n")[0] + b"\\n")'
    ch = client(box, code, stdin=True)
    ch.data(L.G_STDIN, repr(BAD).encode())
    ch.send(L.G_STDIN_END)
    assert answered(ch).splitlines() == [b"HTTP/1.1 400 Bad Request"] * len(BAD)
    assert box.dials == {}


def test_head_that_is_too_long_is_431(box):
    code = 'out(say(connect(), b"GET http://x/ HTTP/1.1\\r\\nA: " + b"a" * int(sys.argv[1]) + b"\\r\\n\\r\\n").split(b"\\r")[0])'
    assert answered(client(box, code, "16400")) == b"HTTP/1.1 431 Request Header Fields Too Large"
    ch = client(box, code, "16200")
    d = box.next_dial()
    d.verdict()
    assert d.read(16200).startswith(b"GET / HTTP/1.1\r\nA: aaaa")
    finish(d, b"x\r")
    assert answered(ch) == b"x"


def test_client_that_sends_without_end_is_told_431_and_takes_no_memory(box):
    before = memory(box)
    code = """
s = connect()
try:
    for i in range(200): s.sendall(b"x" * 65536)
except OSError:
    pass
out(b"done")
"""
    assert answered(client(box, code)) == b"done"
    assert soon_at_most(box, before + 300) and box.dials == {}


def test_refusals_are_readable_inside(box):
    for verdict, status, before in (
        (L.DIAL_REFUSED, b"403 Forbidden", b"egress refused: "),
        (L.DIAL_FAILED, b"502 Bad Gateway", b"egress failed: "),
    ):
        for request in ("CONNECT x.y:1 HTTP/1.1", "GET http://x.y/ HTTP/1.1"):
            ch = client(box, f'out(say(connect(), b"{request}\\r\\n\\r\\n"))')
            box.next_dial().verdict(verdict, b"a reason")
            head, body = answered(ch).split(b"\r\n\r\n")
            assert head.split(b"\r\n")[0] == b"HTTP/1.1 " + status and body == before + b"a reason\n"
            assert b"Content-Length: %d" % len(body) in head and b"Content-Type: text/plain" in head
    box.until(lambda: not box.dials)


def test_client_that_half_closes_early_still_gets_its_answer(box):
    code = """
for i in range(100):
    s = connect(); s.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n"); s.shutdown(1); out(rest(s)[9:12])
s = connect(); s.sendall(b"GET http://x/ HTTP/1.1\\r\\n\\r\\n"); s.shutdown(1); out(rest(s)[9:12])
"""
    ch = client(box, code)
    box.next_dial().verdict(L.DIAL_REFUSED, b"no")
    assert answered(ch) == b"400" * 100 + b"403"


def test_socks_takes_names_and_addresses(box):
    ch = client(box, 's = socks(b"a\\0\\xff.example", 7); out(s.recv(10)); s.sendall(b"to"); out(rest(s))')
    d = check(box.next_dial(), L.DIAL_SOCKS, 7, b"a\0\xff.example")
    d.verdict()
    assert d.read(2) == b"to"
    finish(d, b"from")
    assert answered(ch) == b"\5\0\0\1" + bytes(6) + b"from"
    raw = 's = connect(1080); s.sendall(b"\\5\\1\\0" + b"\\5\\1\\0" + {}); s.recv(2); out(s.recv(10))'
    for address, name in (("bytes([1, 10, 0, 0, 1, 0, 80])", b"10.0.0.1"), ("bytes([4]) + bytes(15) + b'\\1\\0P'", b"::1")):
        ch = client(box, raw.format(address))
        d = check(box.next_dial(), L.DIAL_SOCKS, 80, name)
        d.verdict()
        answered(ch)
        d.until_closed() if not d.ended else d.close()


def test_socks_says_why_not(box):
    for verdict, text, code in (
        (L.DIAL_REFUSED, b"not in the allowlist", 2),
        (L.DIAL_FAILED, b"connection refused", 5),
        (L.DIAL_FAILED, b"name not found", 4),
    ):
        ch = client(box, 'out(rest(socks(b"x")))')
        box.next_dial().verdict(verdict, text)
        assert answered(ch) == bytes([5, code, 0, 1]) + bytes(6)
    assert answered(client(box, 'out(rest(socks(b"x", cmd=2)))'))[1] == 7, "no BIND"
    assert answered(client(box, 'out(rest(socks(b"x", cmd=3)))'))[1] == 7, "no UDP"
    assert answered(client(box, 'out(rest(socks(b"x", 0)))'))[1] == 1
    assert answered(client(box, 'out(rest(socks(b"")))'))[1] == 1
    assert answered(client(box, 's = connect(1080); s.sendall(b"\\5\\1\\0\\5\\1\\0\\2x"); s.recv(2); out(rest(s))'))[1] == 8
    assert answered(client(box, 'out(say(connect(1080), b"\\5\\1\\2"))')) == b"\5\xff", "no authentication but none"
    assert answered(client(box, 'out(say(connect(1080), b"\\4\\1\\0\\50\\1\\1\\1\\1\\0"))')) == b"<reset>"
    assert answered(client(box, 'out(say(connect(1080), b"GET / HTTP/1.1\\r\\n\\r\\n"))')) == b"<reset>"
    box.until(lambda: not box.dials)


def test_names_of_the_list_are_reached_by_programs_that_know_no_proxy(box):
    for host, port in (("example.com", 80), ("example.com", 443), ("b.example", 8080), ("b.example", 81)):
        ch = client(box, f'out(say(connect({port}, "{host}"), b"hello"))')
        d = check(box.next_dial(), L.DIAL_DIRECT, port, host.encode())
        d.verdict()
        assert d.read(5) == b"hello"
        finish(d, b"bye")
        assert answered(ch) == b"bye"
    for host, port in (("example.com", 81), ("b.example", 443), ("other.example", 443)):
        r = client(box, f'connect({port}, "{host}")').wait()
        assert r.code == 1 and b"ConnectionRefusedError" in r.err, "only what the list names"


def test_refused_name_resets_the_client(box):
    ch = client(box, 'try: out(rest(connect(80, "example.com")))\nexcept ConnectionResetError: out(b"<reset>")')
    box.next_dial().verdict(L.DIAL_REFUSED, b"too many connections")
    assert answered(ch) == b"<reset>"


def test_half_close_of_the_client_leaves_it_the_answer(box):
    ch = client(box, 's = connect(80, "example.com"); s.sendall(b"all"); s.shutdown(1); out(rest(s))')
    d = box.next_dial()
    box.settle(0.2)
    d.verdict()
    assert d.read(-1) == b"all" and d.ended and not d.closed
    data = random.Random(1).randbytes(500_000)
    finish(d, data)
    assert answered(ch) == data


def test_host_that_ends_first_still_gets_what_follows(box):
    ch = client(box, 's = connect(80, "example.com"); out(rest(s)); s.sendall(b"late"); s.close()')
    d = box.next_dial()
    d.verdict()
    d.send(b"bye")
    d.end()
    assert d.read(-1) == b"late" and d.ended
    d.until_closed()
    d.close()
    assert answered(ch) == b"bye"


def test_channel_that_is_broken_off_resets_the_client(box):
    ch = client(box, 's = connect(80, "example.com"); out(s.recv(4, 256)); out(rest(s))')
    d = box.next_dial()
    d.verdict()
    d.send(b"part")
    assert ch.wait_for(L.G_STDOUT) == b"part"
    d.close()
    d.until_closed()
    assert answered(ch) == b"part<reset>"


def test_client_that_breaks_off_closes_the_channel(box):
    code = 'x = struct.pack("ii", 1, 0)\ns = connect(80, "example.com"); s.setsockopt(1, 13, x); s.recv(1); s.close()'
    ch = client(box, code)
    d = box.next_dial()
    d.verdict()
    d.send(b"x")
    d.until_closed()
    assert not d.ended
    answered(ch)
    d.send(b"crossed it")
    d.end()
    d.close()
    box.until(lambda: not box.dials)


def test_client_that_leaves_before_the_verdict_closes_the_channel(box):
    ch = client(box, 's = connect(); s.sendall(b"CONNECT a.b:1 HTTP/1.1\\r\\n\\r\\n"); input(); s.close()', stdin=True)
    d = box.next_dial()
    ch.data(L.G_STDIN, b"\n")
    answered(ch)
    d.until_closed()
    d.verdict()
    d.close()
    assert d.number not in box.dials


def test_client_that_does_not_read_gets_no_more_than_its_window_ahead(box):
    before = memory(box)
    chs = [client(box, 's = connect(80, "example.com"); time.sleep(60); s.recv(1)') for _ in range(8)]
    dials = []
    for _ in chs:
        dials.append(box.next_dial())
        dials[-1].verdict()
    end = time.monotonic() + 30
    while any(d.window >= 16384 for d in dials):  # the kernel's buffers first
        assert time.monotonic() < end
        for d in dials:
            d.send(b"x" * (d.window // 16384 * 16384))
        box.settle(0.3)
    assert memory(box) - before < 8 * (L.GUEST_DIAL_WINDOW_MAX // 1024) + 400
    assert box.run("echo alive").out == b"alive\n"
    for d in dials:
        d.close()
        d.until_closed()
    for ch in chs:
        ch.send(L.G_KILL)
        ch.wait()


def test_client_is_read_only_as_far_as_there_is_credit(box):
    ch = client(box, 's = connect(80, "example.com"); s.sendall(b"x" * 3000000); s.shutdown(1); out(rest(s))')
    d = box.next_dial()
    d.verdict()
    box.until(lambda: len(d.data) == L.GUEST_DIAL_WINDOW)
    box.settle(0.3)
    assert len(d.data) == L.GUEST_DIAL_WINDOW and d.credit == 0
    assert box.run("echo alive").out == b"alive\n"
    assert len(d.read(-1)) + 0 == 3_000_000
    finish(d, b"ok")
    assert answered(ch) == b"ok"


def test_more_data_than_credit_costs_only_that_connection(box):
    ch, other = (client(box, 's = connect(80, "example.com"); out(s.recv(10, 256)); out(rest(s))') for _ in range(2))
    d, e = box.next_dial(), None
    d.verdict()
    e = box.next_dial()
    e.verdict()
    d.window = -(1 << 40)
    for _ in range(200):
        box.send(L.G_DATA, d.number, b"x" * 65536)
        if d.closed:
            break
    d.until_closed()
    d.close()
    finish(e, b"0123456789")
    # Whose connection is broken off may see that as early as while it connects.
    assert [r.out for r in (ch.wait(), other.wait()) if r.code == 0 and r.out[:1] == b"0"] == [b"0123456789"]


def test_nonsense_from_outside_harms_nothing(box):
    ch = client(box, 'out(say(connect(80, "example.com"), b"hello"))')
    d = box.next_dial()
    rng = random.Random(4)
    for _ in range(300):
        type = rng.choice([L.G_DIALED, L.G_DATA, L.G_DATA_END, L.G_WINDOW, L.G_CLOSE, L.G_STDIN, L.G_EXEC, L.G_EGRESS, 200])
        number = rng.choice([65 + rng.randrange(70, 256), 320, 321, 1000, 65535])
        box.send(type, number, rng.randbytes(rng.choice([0, 3, 8, 20])))
    box.send(L.G_DIALED, d.number, b"short")
    box.send(L.G_DATA, d.number, b"before its time")
    box.send(L.G_WINDOW, d.number, b"\xff" * 8)
    d.verdict()
    assert d.read(5) == b"hello"
    finish(d, b"fine")
    assert answered(ch) == b"fine"


def test_commands_inherit_no_descriptor_and_keep_their_own_limit():
    with guest.Sandbox(hosts=HOSTS, files=(1024, 4096)) as b:
        b.egress(*LIST)
        client(b, 's = connect(80, "example.com"); time.sleep(5)')
        b.next_dial().verdict()
        r = b.run("ls /proc/self/fd; ulimit -Sn; ulimit -Hn")
        assert r.out.split() == [b"0", b"1", b"2", b"3", b"1024", b"4096"]
        assert "Max open files            4096" in open(f"/proc/{b.pid}/limits").read()


def test_closing_all_descriptors_of_a_command_changes_nothing(box):
    code = 'import os\ns = connect(80, "example.com")\nos.closerange(0, 100)\ntime.sleep(0.1)'
    ch = client(box, code)
    d = box.next_dial()
    d.verdict()
    box.until(lambda: d.ended)
    ch.wait()
    finish(d)
    assert box.run("echo alive").out == b"alive\n"


def test_hello_drops_all_connections_and_the_way_out():
    with guest.Sandbox(hosts=HOSTS) as b:
        b.egress(*LIST)
        code = 'a = connect(80, "example.com"); b = connect(80, "example.com"); c = connect(); c.sendall(b"GET h")\nout(b"on")\n'
        code += "import signal\nout(rest(a) + rest(b) + rest(c))\n"
        b.exec(["sh", "-c", 'nohup setsid python3 -c "$1" > /workspace/out 2>&1 &', "sh", CLIENT + code]).wait()
        b.next_dial().verdict()
        b.next_dial()
        b.until(lambda: b.run("cat out").out == b"on")
        b.settle(0.3)
        b.hello()
        b.until(lambda: b.run("cat out").out == b"on<reset><reset><reset>")
        r = client(b, "connect()").wait()
        assert b"ConnectionRefusedError" in r.err, "no way out until it is announced again"
        b.egress(*LIST)
        for _ in range(3):
            ch = client(b, 'out(say(connect(80, "example.com"), b"x"))')
            d = b.next_dial()
            d.verdict()
            finish(d, b"again")
            assert answered(ch) == b"again"


def test_connections_outlive_a_freeze():
    with guest.Sandbox(hosts=HOSTS) as b:
        b.egress(*LIST)
        ch = client(b, 's = connect(80, "example.com"); out(s.recv(5, 256)); s.sendall(b"up"); out(rest(s))')
        d = b.next_dial()
        d.verdict()
        d.send(b"first")
        b.until(lambda: ch.bytes(L.G_STDOUT) == b"first")
        export = b.file(L.G_EXPORT, "/workspace", flags=L.G_FLAG_FREEZE)
        d.send(b"x" * 1000)
        export.wait()
        assert d.read(2) == b"up"
        finish(d, b"end")
        assert answered(ch) == b"first" + b"x" * 1000 + b"end"


def test_ports_that_cannot_be_had_are_told():
    with guest.Sandbox(["-L"], hosts=HOSTS) as b:
        got, text = b.egress(*LIST)
        assert got == {"listeners": 3, "failed": 3} and text == "127.64.0.1 port 80: Permission denied"
        ch = client(b, 'out(say(connect(8080, "b.example"), b""))')
        d = b.next_dial()
        d.verdict()
        finish(d, b"fine")
        assert answered(ch) == b"fine"
    with guest.Sandbox(hosts=HOSTS) as b:
        ch = client(b, 's = socket.create_server(("127.0.0.1", 3128)); out(b"mine"); time.sleep(60)')
        b.until(lambda: ch.bytes(L.G_STDOUT))
        got, text = b.egress("example.com")
        assert got == {"listeners": 3, "failed": 1} and text == "127.0.0.1 port 3128: Address already in use"


def test_every_public_address_gives_every_name_its_ports():
    with guest.Sandbox(hosts=HOSTS) as b:
        assert b.egress("*")[0] == {"listeners": 2 + 3 * 2, "failed": 0}
        assert b.egress("example.com", "example.com:443", "example.com:8443")[0] == {"listeners": 2 + 3, "failed": 0}
        assert b.egress()[0] == {"listeners": 2, "failed": 0}, "the last one counts"
        assert b"ConnectionRefusedError" in client(b, 'connect(80, "example.com")').wait().err


def test_many_names_listen_and_cost_little():
    names = [f"host-{i}.example.com" for i in range(1, L.EGRESS_ENTRIES_MAX + 1)]
    hosts = "".join(f"127.64.{i >> 8}.{i & 255} {n}\n" for i, n in enumerate(names, 1))
    with guest.Sandbox(hosts=hosts) as b:
        before = memory(b)
        assert b.egress(*names)[0] == {"listeners": 2 + 2 * len(names), "failed": 0}
        assert memory(b) - before < 500
        ch = client(b, f'out(say(connect(443, "{names[-1]}"), b"x"))')
        d = check(b.next_dial(), L.DIAL_DIRECT, 443, names[-1].encode())
        d.verdict()
        finish(d, b"y")
        assert answered(ch) == b"y"


def test_idle_memory_stays_small():
    with guest.Sandbox(hosts=HOSTS) as b:
        b.egress(*LIST)
        assert soon_at_most(b, 1536)


FLOOD = """
import selectors
n, sel, left = int(sys.argv[1]), selectors.DefaultSelector(), int(sys.argv[1])
made = open_now = done = 0
end = time.time() + 100
while done < n and time.time() < end:
    while made < n and open_now < 900:
        s = socket.socket(); s.setblocking(False)
        s.connect_ex(("example.com", 80) if made % 2 else ("127.0.0.1", 3128))
        if made % 2 == 0: s.first = True
        sel.register(s, selectors.EVENT_READ | (selectors.EVENT_WRITE if made % 2 == 0 else 0), made)
        made += 1; open_now += 1
    for key, what in sel.select(1):
        if what & selectors.EVENT_WRITE:
            key.fileobj.send(b"CONNECT a.b:1 HTTP/1.1\\r\\n\\r\\n")
            sel.modify(key.fileobj, selectors.EVENT_READ, key.data)
            continue
        try:
            if key.fileobj.recv(65536): continue
        except OSError: pass
        sel.unregister(key.fileobj); key.fileobj.close(); open_now -= 1; done += 1
out(b"%d" % done)
"""


def test_ten_thousand_connections_wait_for_their_turn():
    with guest.Sandbox(hosts=HOSTS) as b:
        b.egress(*LIST)
        before, most = memory(b), 0
        ch = client(b, FLOOD.replace("s.first = True", "pass"), "10000", timeout=120)
        end, seen = time.monotonic() + 110, 0
        while ch.final is None and time.monotonic() < end:
            b.step(1)
            most = max(most, len(b.dials))
            for d in list(b.dials.values()):
                if not d.judged and (seen > 300 or len(b.dials) == L.GUEST_DIALS):
                    seen += 1
                    d.verdict(L.DIAL_REFUSED, b"no")
        assert answered(ch) == b"10000"
        assert most == L.GUEST_DIALS
        assert soon_at_most(b, before + 1500)
        assert b.run("echo alive").out == b"alive\n"


def test_slow_clients_make_room_in_time():
    with guest.Sandbox(hosts=HOSTS) as b:
        b.egress(*LIST)
        before = memory(b)
        code = 'l = [connect() for _ in range(256)]\nfor s in l: s.sendall(b"GET http://x/ HTTP/1.1\\r\\nA:")\nout(b"on"); out(rest(l[7]))'
        slow = client(b, code, timeout=60)
        b.until(lambda: slow.bytes(L.G_STDOUT) == b"on")
        ch = client(b, 'out(say(connect(80, "example.com"), b"x"))', timeout=60)
        d = b.next_dial(40)
        d.verdict()
        finish(d, b"at last")
        assert answered(ch) == b"at last"
        assert answered(slow).startswith(b"onHTTP/1.1 408 Request Timeout")
        assert soon_at_most(b, before + 3000)


ECHO = """
import threading
def one(i):
    s = connect(80, "example.com")
    data = bytes([i % 251]) * 20000
    t = threading.Thread(target=lambda: (s.sendall(data), s.shutdown(1)))
    t.start()
    got[i] = rest(s) == data
n = int(sys.argv[1])
got = [False] * n
ts = [threading.Thread(target=one, args=(i,)) for i in range(n)]
for t in ts: t.start()
for t in ts: t.join()
out(b"%d" % sum(got))
"""


def test_two_hundred_connections_at_once():
    with guest.Sandbox(hosts=HOSTS) as b:
        b.egress(*LIST)
        ch = client(b, ECHO, "200", timeout=60)
        ended = set()
        end = time.monotonic() + 50
        while ch.final is None and time.monotonic() < end:
            b.step(0.5)
            for d in list(b.dials.values()):
                if not d.judged:
                    d.verdict()
                if d.data and d.window >= len(d.data):
                    data, d.data = d.data, b""
                    d.window -= len(data)
                    b.send(L.G_DATA, d.number, data)
                    if not d.ended:
                        d.give(len(data))
                if d.ended and not d.data and d not in ended:
                    ended.add(d)
                    d.end()
                if d.closed and not d.sent_close:
                    d.close()
        assert answered(ch) == b"200"
