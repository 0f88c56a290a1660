"""egressd: who may connect where. Lists, addresses that are not public, the machine's own, first bytes, relaying."""

import contextlib
import os
import re
import socket
import ssl
import threading
import time

import layout
import machine
import pytest
from egress_kit import (
    BLACK4,
    CONNECT,
    DIRECT,
    EGRESS4,
    EGRESS6,
    HOST4,
    HOST6,
    HTTP,
    LOCAL4,
    LOCAL6,
    NOROUTE4,
    PRIVATE4,
    SECOND4,
    SECOND6,
    SOCKS,
    THIRD4,
    WORLD4,
    Dns,
    Egress,
    Net,
    client_hello,
    echo,
    has_ipv6,
    in_records,
    record,
    reset,
    within,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces")

RANGES = re.findall(
    r'\{V[46]\((.*?)\),\s*(\d+),\s*"([\da-f:./]+)",\s*"([\w -]+)"', (layout.ROOT / "common/egress_range.c").read_text(), re.S
)


@pytest.fixture(scope="module")
def net():
    net = Net()
    net.dns = Dns(net)
    yield net
    net.dns.close()
    net.close()


@pytest.fixture(scope="module")
def hosts(net):
    """The whole world echoes on these ports; .seen has every address that was connected to."""
    with contextlib.ExitStack() as stack:
        yield {port: stack.enter_context(net.serve(port, echo)) for port in (80, 443, 8080, 5432)}


@pytest.fixture
def names(net):
    net.dns.names.clear()
    net.dns.names |= {"good.example": [HOST4], "six.example": [HOST6], "www.good.example": [HOST4], "both.example": [HOST4, HOST6]}
    return net.dns.names


@pytest.fixture
def egress(net, hosts, names):
    with Egress(net) as p:
        yield p


def works(dial, data=b"some bytes"):
    dial.ok().talk(data)
    dial.sock.shutdown(socket.SHUT_WR)
    assert dial.sock.recv(1) == b""
    assert dial.end() == (layout.DIAL_OK, "")
    assert dial.fields["bytes_in"] == dial.fields["bytes_out"] == len(data)
    return dial


def test_a_listed_name_is_reached_and_told_with_its_address_and_bytes(egress):
    dial = works(egress.dial("good.example"))
    assert dial.address == HOST4 and dial.fields["duration_us"] > 0
    works(egress.dial("GOOD.Example.", allow="good.example"))
    works(egress.dial("www.good.example", allow="*.good.example"))
    works(egress.dial("good.example", 8080, allow="good.example:8080"))
    works(egress.dial("good.example", how=SOCKS))
    works(egress.dial("good.example", how=DIRECT))
    works(egress.dial(HOST4))
    works(egress.dial(HOST4, allow="44.20.0.0/16"))
    works(egress.dial(f"::ffff:{HOST4}", allow=HOST4))


@pytest.mark.skipif(not has_ipv6(), reason="this kernel has no IPv6")
def test_addresses_of_version_6_are_reached(egress):
    assert works(egress.dial("six.example")).address == HOST6
    assert works(egress.dial(HOST6)).address == HOST6
    assert works(egress.dial(f"[{HOST6}]", allow="2a0d:5600::/30")).address == HOST6


def test_what_is_not_listed_is_refused_before_anybody_is_asked(egress, net):
    asked = len(net.dns.asked)
    for name, port, allow in (
        ("other.example", 443, "good.example"),
        ("good.example", 8080, "good.example"),
        ("good.example", 443, "good.example:8080"),
        ("good.example", 443, "*.good.example"),
        ("xgood.example", 443, "*.good.example\ngood.example"),
        ("good.example.evil.example", 443, "good.example"),
        ("good.example", 443, f"{HOST4}\n0.0.0.0/0"),
        (HOST4, 443, "good.example"),
        (HOST4, 443, "44.21.0.0/16"),
        ("good.example", 443, ""),
        ("good.example", 0, "good.example"),
        ("good.example", 0, "*"),
    ):
        egress.dial(name, port, allow).refused("not in the allowlist")
    assert len(net.dns.asked) == asked


@pytest.mark.parametrize(
    "name",
    [
        *(b"good.example\0", b"good.example\0.evil.example", b"good\0.example", b"good.example\n", b" good.example", b"good.example/x"),
        *(b"good.example:443", b"user@good.example", b"good..example", b".good.example", b"good.example..", b"\xffgood.example"),
        *("gööd.example".encode(), "ｇood.example".encode(), "good。example".encode(), b"good%2eexample", b"[good.example]"),
        *(b"127.1", b"0x7f.1", b"0x7f000001", b"2130706433", b"017700000001", b"127.0.0.1.", b"0177.0.0.1", b"1.2.3.4.5"),
        *(b"[::1", b"::1%lo", b"fe80::1%e0", b"localhost", b"x.localhost", b"-", b"x" * 64, b"a." * 127 + b"a"),
    ],
)
def test_a_name_that_is_none_is_refused(egress, name):
    egress.dial(name, allow="good.example\n0.0.0.0/0\n::/0").refused("the name is not valid")


def inside(cidr):
    """The first and last address of a range, of version 4 and mapped into version 6."""
    address, bits = cidr.split("/")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    first = int.from_bytes(socket.inet_pton(family, address))
    size = 128 if family == socket.AF_INET6 else 32
    last = first | (1 << (size - int(bits))) - 1
    out = [socket.inet_ntop(family, n.to_bytes(size // 8)) for n in {first, last}]
    return out + [f"::ffff:{a}" for a in out if family == socket.AF_INET]


def test_there_are_enough_ranges():
    assert len(RANGES) > 40 and {"loopback", "private", "metadata", "translated", "multicast"} <= {r[3] for r in RANGES}


@pytest.mark.parametrize(("cidr", "word"), [r[2:] for r in RANGES], ids=[r[2] for r in RANGES])
def test_what_is_not_public_is_refused_by_address_and_by_name(egress, names, hosts, cidr, word):
    """With everything listed; and the world would answer there."""
    for address in inside(cidr):
        seen = [len(h.seen) for h in hosts.values()]
        dial = egress.dial(address, allow="0.0.0.0/0\n::/0")
        verdict, text = dial.dialed()
        plain = address.removeprefix("::ffff:") if "." in address else address
        assert verdict == layout.DIAL_REFUSED and re.fullmatch(rf"{re.escape(plain)} is not public \([\w-]+\)", text), (address, text)
        assert word in text or plain != cidr.split("/")[0] or "::/" in cidr
        assert dial.end()[0] == layout.DIAL_REFUSED and dial.address == plain
        if address == plain:
            names["bad.example"] = [address]
            verdict, text = egress.dial("bad.example").dialed()
            assert verdict == layout.DIAL_REFUSED and text.startswith(f"{plain} is not public ("), text
        for port in (80, 5432):
            egress.dial(address, port, allow=f"0.0.0.0/0\n::/0\n[{address}]:5432" if ":" in address else f"{address}:{port}").dialed()
        assert [len(h.seen) for h in hosts.values()] == seen


def test_any_public_address_means_no_other(egress, names):
    works(egress.dial("good.example", 8080, allow="*"))
    works(egress.dial(HOST4, 5432, allow="*"))
    egress.dial("10.1.2.3", allow="*").refused("10.1.2.3 is not public (private)")
    egress.dial("169.254.169.254", 80, allow="*").refused("169.254.169.254 is not public (metadata)")
    names["in.example"] = ["192.168.1.1"]
    egress.dial("in.example", allow="*").refused("192.168.1.1 is not public (private)")


def test_addresses_of_this_machine_are_refused_whatever_they_are(egress, names, net):
    with within(net.egress, lambda: socket.create_server(("0.0.0.0", 443))):
        for own in (EGRESS4, SECOND4, THIRD4, LOCAL4, LOCAL4.removesuffix("0") + "15"):
            names["own.example"] = [own]
            for allow in ("*", f"own.example\n{own}\n0.0.0.0/0"):
                egress.dial(own, allow=allow).refused(f"{own} is not public (own)")
                egress.dial("own.example", allow=allow).refused(f"{own} is not public (own)")
        for own in (EGRESS6, SECOND6, LOCAL6, f"{LOCAL6}ff") if has_ipv6() else ():
            egress.dial(own, allow="*").refused(f"{own} is not public (own)")
        egress.dial("44.10.255.255", allow="*").refused("44.10.255.255 is not public (broadcast)")


def test_only_the_operators_list_opens_what_is_not_public_and_only_literally(net, hosts, names):
    names |= {"db.example": ["10.1.2.3"], "meta.example": ["169.254.169.254"], "own.example": [EGRESS4]}
    lists = f"db.example:5432,10.1.2.3:5432,meta.example,169.254.0.0/16,good.example,0.0.0.0/0,own.example,{EGRESS4},192.168.0.0/16"
    everything = lists.replace(",", "\n")
    with Egress(net, config={"EGRESS_ALLOWLIST": lists}) as p:
        works(p.dial("db.example", 5432, everything))
        works(p.dial("10.1.2.3", 5432, everything))
        works(p.dial("192.168.7.7", 80, everything), b"GET / HTTP/1.1\r\nHost: 192.168.7.7\r\n\r\n")
        p.dial("10.1.2.3", 443, everything).refused("10.1.2.3 is not public (private)")
        p.dial("10.1.2.4", 443, everything).refused("10.1.2.4 is not public (private)")
        # A CIDR around something more special does not name it; 0.0.0.0/0 names nothing.
        p.dial("meta.example", 80, everything).refused("169.254.169.254 is not public (metadata)")
        p.dial("172.16.0.1", 443, everything).refused("172.16.0.1 is not public (private)")
        # The machine's own: by itself only.
        with within(net.egress, lambda: socket.create_server((EGRESS4, 443))) as own:
            p.dial("own.example", 443, everything).ok()
            own.accept()[0].close()
        # The sandbox's own list must open it, too: names belong to others.
        p.dial("db.example", 5432).refused("not in the allowlist")
        p.dial("db.example", 5432, "db.example:5432").refused("10.1.2.3 is not public (private)")
        p.dial("db.example", 5432, "db.example:5432\n10.1.2.3").refused("10.1.2.3 is not public (private)")
        p.dial("own.example", 443, "own.example\n10.1.2.3").refused(f"{EGRESS4} is not public (own)")
        works(p.dial("db.example", 5432, "db.example:5432\n10.1.2.3:5432"))
    with Egress(net, config={"EGRESS_ALLOWLIST": "44.10.0.0/16,127.0.0.0/8,10.99.0.0/16"}) as p:
        p.dial(EGRESS4, allow="*").refused(f"{EGRESS4} is not public (own)")
        works(p.dial("10.99.0.2", allow="*"))
        p.dial(PRIVATE4, allow="*").refused(f"{PRIVATE4} is not public (own)")
        with within(net.egress, lambda: socket.create_server(("127.0.0.1", 443))) as own:
            p.dial("127.0.0.1", allow="*").ok()
            own.accept()[0].close()


@pytest.mark.skipif(not has_ipv6(), reason="this kernel has no IPv6")
def test_behind_a_translator_that_is_listed_the_same_addresses_are_refused(net, hosts, names):
    names["nat.example"] = ["64:ff9b::44.20.0.1"]
    with Egress(net, config={"EGRESS_ALLOWLIST": "nat.example,64:ff9b::/96,10.3.0.0/16"}) as p:
        assert works(p.dial("nat.example")).address == "64:ff9b::2c14:1"
        for inner in ("10.1.2.3", "127.0.0.1", "169.254.169.254", "224.0.0.1"):
            names["nat.example"] = [f"64:ff9b::{inner}"]
            verdict, text = p.dial("nat.example").dialed()
            assert verdict == layout.DIAL_REFUSED and text.endswith(" is not public (translated)")
        names["nat.example"] = ["64:ff9b::10.3.0.1"]
        p.dial("nat.example").refused("64:ff9b::a03:1 is not public (translated)")
        works(p.dial("nat.example", allow="nat.example\n10.3.0.0/16"))


def test_the_operators_list_bounds_every_other(net, hosts, names):
    with Egress(net, config={"EGRESS_ALLOWLIST": "good.example, *.fine.example:443"}) as p:
        works(p.dial("good.example"))
        for allow in ("*", "six.example\n0.0.0.0/0"):
            p.dial("six.example", allow=allow).refused("not in the server's allowlist")
        p.dial("good.example", 8080, "*").refused("not in the server's allowlist")
        p.dial("x.fine.example", 80, "*").refused("not in the server's allowlist")
        p.dial("good.example", allow="six.example").refused("not in the allowlist")
        p.dial(HOST4, allow="*").refused("not in the server's allowlist")


@pytest.mark.parametrize(
    "config, any_address, own_list",
    [
        ({"ALLOW_NETWORK": "false"}, False, False),
        ({"NETWORK_MODE": "bridge"}, False, True),
        ({"ALLOW_NETWORK": "false", "NETWORK_MODE": "bridge"}, False, False),
        ({"ALLOW_NETWORK": "false", "EGRESS_ALLOWLIST": "good.example"}, False, True),
        ({}, True, True),
    ],
)
def test_a_way_out_that_the_operator_forbids_is_none_whatever_managerd_says(net, hosts, names, config, any_address, own_list):
    with Egress(net, config=config) as p:
        asked = len(net.dns.asked)
        for allow, allowed in (("*", any_address), ("good.example", own_list)):
            if allowed:
                works(p.dial("good.example", allow=allow))
            else:
                p.dial("good.example", allow=allow).refused("network is not allowed on this server")
                assert len(net.dns.asked) == asked, "nobody is asked for the name"


def test_a_malformed_operators_list_is_said_at_the_start(net):
    with within(
        net.egress, lambda: layout.Program("egressd", ["chan"], config={"EGRESS_ALLOWLIST": "good.example,http://x"}, ready=False)
    ) as p:
        assert p.wait(30) == 2
        assert "AGENT_SANDBOX_EGRESS_ALLOWLIST: http://x: " in p.log()


# What the first bytes must say.


@pytest.mark.parametrize("cut", [1, 3, 100])
def test_a_tls_hello_for_the_name_passes_whole_and_unchanged(egress, cut):
    hello = in_records(client_hello("Good.Example"), cut)
    dial = egress.dial("good.example").ok()
    for i in range(0, len(hello), 401):
        dial.sock.sendall(hello[i : i + 401])
        time.sleep(0.01)
    got = b""
    while len(got) < len(hello):
        got += dial.sock.recv(65536)
    assert got == hello
    dial.talk(b"\0" * 100000)  # and what follows is nobody's business


def late_refusal(dial, data, text, answer):
    """Refused by what was sent, of which nothing got out; the client is told in its own protocol."""
    dial.ok()
    dial.sock.sendall(data)
    assert re.match(answer, dial.rest(), re.S)
    assert dial.end(close=True) == (layout.DIAL_REFUSED, text)
    assert dial.fields["bytes_out"] == dial.fields["bytes_in"] == 0


SNI, HELLO = "the TLS server name is not the name that was dialled", "the first bytes are no TLS hello that can be read"
OTHER_HOST, NOT_HTTP = "the Host header is not the name that was dialled", "the first bytes are no HTTP request that can be read"


@pytest.mark.parametrize("cut", [None, 1, 50])
@pytest.mark.parametrize("name", ["other.example", "www.good.example", "good.example.evil.example", None])
def test_a_tls_hello_for_another_name_is_refused(egress, name, cut):
    hello = client_hello(name)
    late_refusal(egress.dial("good.example"), in_records(hello, cut) if cut else hello, SNI, rb"\x15\x03\x01\x00\x02\x02\x70")


def test_a_tls_hello_that_is_hidden_is_refused(egress):
    other = client_hello("other.example", maximum_version=ssl.TLSVersion.TLSv1_2)
    for first in (record(b"\1\0", kind=21), record(b"\1", kind=20), record(b""), b"\x16\2\1" + other[3:], record(b"x", kind=23)):
        late_refusal(egress.dial("good.example"), first + other, HELLO, rb"\x15\x03\x01\x00\x02\x02\x32")
    late_refusal(egress.dial("good.example"), b"\x80\x2e\1\3\1\0\x15\0\0\0\x10", HELLO, rb"\x15")


def test_for_an_address_the_hello_names_nobody(egress):
    hello = client_hello()
    egress.dial(HOST4).ok().talk(hello)
    late_refusal(egress.dial(HOST4), client_hello("good.example"), SNI, rb"\x15")


def test_what_is_not_tls_passes_on_port_443(egress):
    egress.dial("good.example").ok().talk(b"SSH-2.0-anything\r\n")
    egress.dial("good.example", 8080, "good.example:8080").ok().talk(client_hello("other.example"))


def test_a_server_may_speak_first(net, egress, names):
    def greet(sock):
        sock.sendall(b"220 hello\r\n")
        echo(sock)

    names["mail.example"] = ["44.20.0.9"]
    with net.serve(25, greet):
        dial = egress.dial("mail.example", 25, "mail.example:25").ok()
        assert dial.sock.recv(100) == b"220 hello\r\n"
        dial.talk(b"EHLO x\r\n")


def get(host, target="/", more=b""):
    return f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode() + more


@pytest.mark.parametrize("how", [CONNECT, SOCKS, DIRECT, HTTP])
def test_a_request_for_the_name_passes(egress, how):
    dial = egress.dial("good.example", 80, how=how).ok()
    request = get("good.example", more=b"and what follows")
    for i in range(0, len(request), 7):
        dial.sock.sendall(request[i : i + 7])
    got = b""
    while len(got) < len(request):
        got += dial.sock.recv(65536)
    assert got == request


@pytest.mark.parametrize("how", [CONNECT, SOCKS, DIRECT, HTTP])
@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (get("other.example"), OTHER_HOST),
        (get("good.example", "http://other.example/"), OTHER_HOST),
        (get("good.example:81"), OTHER_HOST),
        (b"GET / HTTP/1.1\r\nHost: good.example\r\nHost: other.example\r\n\r\n", NOT_HTTP),
        (b"GET / HTTP/1.1\r\nHost: other.example\n\nx\r\nHost: good.example\r\n\r\n", NOT_HTTP),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", NOT_HTTP),
        (b"CONNECT other.example:443 HTTP/1.1\r\nHost: good.example\r\n\r\n", NOT_HTTP),
        (b"SSH-2.0-x\r\n", NOT_HTTP),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 20000, NOT_HTTP),
    ],
)
def test_a_request_for_another_name_is_refused(egress, request_, text, how):
    dial = egress.dial("good.example", 80, how=how)
    body = f"egress refused: {text}\n"
    late_refusal(dial, request_, text, rf"HTTP/1\.1 403 .*Content-Length: {len(body)}\r\n.*\r\n\r\n{re.escape(body)}$".encode())


@pytest.mark.parametrize("more", [0, 1000, 3_000_000])
def test_a_refused_client_reads_why_whatever_it_still_sends(egress, more):
    dial = egress.dial("good.example", 80).ok()
    dial.sock.sendall(get("other.example") + b"x" * more)
    got = b""
    while piece := dial.sock.recv(65536):  # a reset would be an error here
        got += piece
    assert got.endswith(f"egress refused: {OTHER_HOST}\n".encode())
    dial.sock.sendall(b"and more")
    assert dial.end(close=True) == (layout.DIAL_REFUSED, OTHER_HOST)
    assert dial.fields["bytes_out"] == 0


def test_a_refused_client_that_stays_is_ended(egress):
    dial = egress.dial("good.example", 80).ok()
    dial.sock.sendall(get("other.example"))
    assert dial.end() == (layout.DIAL_REFUSED, OTHER_HOST)


def test_an_http_request_through_the_proxy_is_looked_at_on_every_port(egress):
    late_refusal(egress.dial("good.example", 8080, "good.example:8080", HTTP), get("other.example"), OTHER_HOST, rb"HTTP/1\.1 403")
    egress.dial("good.example", 8080, "good.example:8080", HTTP).ok().talk(get("good.example:8080"))
    late_refusal(egress.dial("good.example", 443, how=HTTP), get("other.example"), OTHER_HOST, rb"HTTP/1\.1 403")


def test_where_every_public_address_is_allowed_nothing_is_compared(egress):
    egress.dial("good.example", allow="*").ok().talk(client_hello("other.example"))
    egress.dial("good.example", 80, allow="*").ok().talk(get("other.example"))


# Bytes, and ends.


def test_much_passes_both_ways_at_once_and_arrives_whole(egress):
    dial = egress.dial("good.example", 8080, "good.example:8080").ok()
    data = os.urandom(1 << 20) * 32
    sender = dial.sock.dup()

    def send():
        sender.settimeout(60)
        sender.sendall(data)
        sender.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=send)
    thread.start()
    got = dial.rest()
    thread.join()
    assert got == data
    assert dial.end() == (layout.DIAL_OK, "")
    assert dial.fields["bytes_in"] == dial.fields["bytes_out"] == len(data)


def test_each_direction_ends_by_itself(net, egress, names):
    def late(sock):
        while sock.recv(65536):
            pass
        sock.sendall(b"after the end")
        sock.close()

    names["late.example"] = ["44.20.0.10"]
    with net.serve(7000, late):
        dial = egress.dial("late.example", 7000, "late.example:7000").ok()
        dial.sock.sendall(b"x" * 1000)
        dial.sock.shutdown(socket.SHUT_WR)
        assert dial.rest() == b"after the end"
        assert dial.end() == (layout.DIAL_OK, "")


def test_the_far_end_may_end_first(net, egress, names):
    got = []

    def early(sock):
        sock.sendall(b"bye")
        sock.shutdown(socket.SHUT_WR)
        while data := sock.recv(65536):
            got.append(data)

    names["early.example"] = ["44.20.0.11"]
    with net.serve(7001, early):
        dial = egress.dial("early.example", 7001, "early.example:7001").ok()
        assert dial.rest() == b"bye"
        dial.sock.sendall(b"still here")
        dial.sock.shutdown(socket.SHUT_WR)
        assert dial.end() == (layout.DIAL_OK, "")
        assert machine.wait_until(lambda: b"".join(got) == b"still here")


def test_a_client_that_has_gone_is_a_reset_outside(net, egress, names):
    ends = []

    def wait(sock):
        try:
            ends.append(sock.recv(1))
        except ConnectionResetError:
            ends.append("reset")

    names["wait.example"] = ["44.20.0.12"]
    with net.serve(7002, wait):
        dial = egress.dial("wait.example", 7002, "wait.example:7002").ok()
        assert dial.end(close=True) == (layout.DIAL_OK, "the client inside has gone")
        assert machine.wait_until(lambda: ends) == ["reset"]
        # Also one that had said before that it has no more to send.
        dial = egress.dial("wait.example", 7002, "wait.example:7002").ok()
        dial.sock.shutdown(socket.SHUT_WR)
        time.sleep(0.1)
        dial.sock.close()
        assert dial.end()[1] == "the client inside has gone"


def test_a_reset_outside_is_the_end_inside(net, egress, names):
    names["reset.example"] = ["44.20.0.13"]
    with net.serve(7003, reset):
        dial = egress.dial("reset.example", 7003, "reset.example:7003").ok()
        dial.sock.sendall(b"x")
        assert dial.rest() == b""
        assert dial.end() == (layout.DIAL_OK, "connection reset")


def test_what_does_not_answer_is_told_as_what_it_is(egress, names):
    egress.dial(WORLD4, 9, f"{WORLD4}:9").failed("connection refused")
    egress.dial(NOROUTE4).failed("no route to the host")
    names["dead.example"] = [NOROUTE4, WORLD4, NOROUTE4]
    egress.dial("dead.example", 9, "dead.example:9").failed("connection refused")
    dial = egress.dial(BLACK4)
    assert dial.end() == (layout.DIAL_FAILED, "timed out") and dial.dialed() == (layout.DIAL_FAILED, "timed out")


def test_other_addresses_of_a_name_are_tried(egress, names):
    names["many.example"] = [NOROUTE4, "10.0.0.1", HOST4]
    assert works(egress.dial("many.example")).address == HOST4
    if has_ipv6():
        names["many6.example"] = ["10.0.0.1", NOROUTE4, HOST6]
        assert works(egress.dial("many6.example")).address == HOST6


def test_a_dead_address_costs_some_seconds_and_then_the_next_is_taken(egress, names):
    names["slow.example"] = [BLACK4, HOST4]
    assert works(egress.dial("slow.example")).address == HOST4


def test_a_client_that_leaves_while_it_is_connected_ends_the_try(egress):
    dial = egress.dial(BLACK4)
    dial.sock.close()
    assert dial.end() == (layout.DIAL_FAILED, "the client inside has gone")


# managerd is one of us.


@pytest.mark.parametrize(
    ("fields", "tail", "text"),
    [
        ({"name_len": 0}, b"good.example", "a dial that cannot be"),
        ({"name_len": 13}, b"good.example", "a dial that cannot be"),
        ({"name_len": 256}, b"x" * 300, "a dial that cannot be"),
        ({"name_len": 2**32 - 1}, b"x" * 300, "a dial that cannot be"),
        ({"name_len": 12, "how": 4}, b"good.example", "a dial that cannot be"),
        ({"name_len": 12}, b"good.examplea b", "a malformed list"),
        ({"name_len": 12}, b"good.examplea\n\nb", "a malformed list"),
        ({"name_len": 12}, b"good.example" + b"a.example\n" * 257 + b"b", "a malformed list"),
    ],
)
def test_nonsense_from_managerd_is_fatal(egress, fields, tail, text):
    _, theirs = layout.data_pair()
    egress.manager.send("E_DIAL", 1, {"sandbox": 1, "port": 443, "how": 0} | fields, tail, fd=theirs)
    assert egress.wait(30) == 1
    assert text in egress.log()


def test_a_descriptor_that_is_no_stream_socket_is_fatal(egress):
    tail = b"good.example"
    egress.manager.send("E_DIAL", 1, {"sandbox": 1, "port": 443, "name_len": len(tail)}, tail, fd=socket.socket())
    assert egress.wait(30) == 1
    assert "no stream socket" in egress.log()


def test_it_ends_with_managerd(net):
    with Egress(net) as p:
        p.manager.close()
        assert p.wait(30) == 0
