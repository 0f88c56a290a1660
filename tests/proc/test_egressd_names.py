"""egressd's resolver: name servers that are down, slow, or lie; and names whose addresses change."""

import os
import socket
import struct
import time

import layout
import machine
import pytest
from egress_kit import AAAA, DNS4, EGRESS4, HOST4, HOST6, A, Dns, Egress, Net, dns_name, echo, has_ipv6, reply, within

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces")

OTHER4 = "44.20.7.7"
SECOND_DNS4 = "44.10.0.54"


@pytest.fixture(scope="module")
def net():
    net = Net()
    net.dns = Dns(net)
    with net.serve(443, echo) as net.host:
        yield net
    net.dns.close()
    net.close()


@pytest.fixture
def names(net):
    net.dns.names.clear()
    net.dns.names["good.example"] = [HOST4]
    net.host.seen.clear()
    return net.dns.names


@pytest.fixture
def egress(net, names):
    with Egress(net) as p:
        yield p


def works(dial, address=HOST4):
    dial.ok().talk(b"x")
    dial.sock.shutdown(socket.SHUT_WR)
    assert dial.sock.recv(1) == b""
    assert dial.end() == (layout.DIAL_OK, "") and dial.address == address


def test_a_name_is_asked_for_as_it_is_and_for_both_families(egress, net):
    net.dns.asked.clear()
    works(egress.dial("good.example"))
    egress.dial("single").failed("name not found")
    # No search domain, no hosts file, no special name that a library would answer itself.
    assert sorted(set(net.dns.asked)) == [("good.example", A), ("good.example", AAAA), ("single", A), ("single", AAAA)]


def test_what_is_not_there_is_told(egress, names):
    names |= {"empty.example": [], "nowhere.example": ["nothing.example"]}
    for name in ("nope.example", "empty.example", "nowhere.example"):
        egress.dial(name).failed("name not found")
    names["broken.example"] = 2
    egress.dial("broken.example").failed("the resolver has no answer")
    names["no.example"] = 5
    egress.dial("no.example").failed("the resolver has no answer")


def test_aliases_are_followed_and_what_they_lead_to_is_checked(egress, names):
    names["alias.example"] = ["one.example", "two.example", HOST4]
    works(egress.dial("alias.example"))
    names["alias.example"] = ["metadata.internal", "169.254.169.254"]
    egress.dial("alias.example").refused("169.254.169.254 is not public (metadata)")
    # An alias that is listed itself, of one that is not: what is dialled is what is matched.
    names["alias.example"] = ["good.example", HOST4]
    egress.dial("alias.example", allow="good.example").refused("not in the allowlist")


def test_addresses_that_are_not_public_are_never_connected_to_whatever_stands_beside_them(egress, names, net):
    names["mixed.example"] = ["127.0.0.1", "10.0.0.1", EGRESS4, HOST4, "169.254.169.254", "::1", "fd00:ec2::254"]
    works(egress.dial("mixed.example"))
    names["worse.example"] = ["127.0.0.1", "10.0.0.1", EGRESS4, "169.254.169.254", "::ffff:10.1.2.3", "64:ff9b::a01:203"]
    with within(net.egress, lambda: socket.create_server((EGRESS4, 443))) as own:
        own.settimeout(0.2)
        egress.dial("worse.example").refused(f"{EGRESS4} is not public (own)")
        with pytest.raises(TimeoutError):
            own.accept()
    names["mapped.example"] = ["::ffff:10.1.2.3"]
    egress.dial("mapped.example").refused("10.1.2.3 is not public (private)")
    assert net.host.seen == [HOST4]


def test_an_answer_that_changes_is_asked_for_once(egress, names, net):
    """What was checked is what is connected to: the second answer is never seen."""
    for first, second in (([HOST4], ["127.0.0.1"]), ([HOST4], [OTHER4])):
        names["flip.example"] = lambda kind, n, first=first, second=second: [] if kind == AAAA else first if n == 1 else second
        net.dns.asked.clear()
        works(egress.dial("flip.example"))
        assert net.dns.asked.count(("flip.example", A)) == 1
    assert set(net.host.seen) == {HOST4}
    # The next dial asks again, and is judged by what it is told.
    names["flip.example"] = lambda kind, n: [] if kind == AAAA else ["10.0.0.1"]
    egress.dial("flip.example").refused("10.0.0.1 is not public (private)")


def test_names_of_every_allowed_shape_are_asked_for(egress, names, net):
    longest = ".".join(["x" * 63] * 3 + ["y" * 61])
    assert len(longest) == 253
    for name in ("a_b.example", "_dmarc.example", "1.example", "1.2.3.4.example", "0xg.example", "a--b.example", "x.xn--p1ai", longest):
        names[name] = [HOST4]
        works(egress.dial(name))
        works(egress.dial(name.upper() + ("." if len(name) < 253 else ""), allow=name))


@pytest.mark.skipif(not has_ipv6(), reason="this kernel has no IPv6")
def test_a_name_server_may_have_an_address_of_version_6(net, names):
    server = Dns(net, "2a0d:5602::53")
    server.names["good.example"] = [HOST6]
    for text in ("2a0d:5602::53", "2a0d:5602::53#53", "[2a0d:5602::53]#53"):
        with Egress(net, resolv=text) as p:
            works(p.dial("good.example"), HOST6)
    server.close()


def test_a_resolver_that_is_silent_costs_its_own_dials_only(egress, names):
    names["void.example"] = None
    waiting = [egress.dial("void.example", sandbox=n) for n in range(20)]
    works(egress.dial("good.example"))
    for dial in waiting:
        dial.failed("the resolver did not answer")
    works(egress.dial("good.example"))


def test_names_of_one_sandbox_are_asked_for_32_at_once_and_those_of_others_beside_them(egress, names, net):
    many = [f"void{n}.example" for n in range(100)]
    names |= dict.fromkeys(many)
    waiting = [egress.dial(name, sandbox=5) for name in many]

    def asked():
        return len({name for name, _ in net.dns.asked} & set(many))

    assert machine.wait_until(lambda: asked() >= 32)
    works(egress.dial("good.example", sandbox=6))
    for _ in range(3):
        now = asked()
        egress.dial("good.example", allow="other.example", sandbox=6).refused("not in the allowlist")  # all before it is told
        assert now <= 32 + sum(("E_DIALED", dial.id) in egress.told for dial in waiting)
    works_after_all_of(egress, waiting)
    assert asked() > 32


def works_after_all_of(egress, waiting):
    for dial in waiting:
        dial.failed("the resolver did not answer")
    works(egress.dial("good.example", sandbox=5))


def test_names_that_were_not_asked_for_yet_are_forgotten_with_their_sandbox(egress, names):
    names["void.example"] = None
    waiting = [egress.dial("void.example", sandbox=5) for _ in range(50)]
    for dial in waiting[::7]:
        dial.sock.close()
    egress.forget(5)
    assert {dial.end() for dial in waiting} == {(layout.DIAL_FAILED, "the sandbox is gone")}
    works(egress.dial("good.example", sandbox=5))


def test_a_resolver_that_is_slow_is_waited_for(egress, names):
    def slow(kind, n):
        time.sleep(3)
        return [HOST4]

    names["slow.example"] = slow
    works(egress.dial("slow.example"))


def test_a_family_that_gets_no_answer_does_not_keep_the_other_from_use(egress, names):
    names["half.example"] = lambda kind, n: [HOST4] if kind == A else None
    works(egress.dial("half.example"))


def test_a_resolver_that_is_down_is_told(net, names):
    with Egress(net, resolv="44.10.0.1") as p:  # the world has no server there, and says so
        verdict, text = p.dial("good.example").dialed()
        assert verdict == layout.DIAL_FAILED and text in ("the resolver has no answer", "the resolver did not answer")
    with Egress(net, resolv="") as p:
        p.dial("good.example").failed("no name server is known")
        works(p.dial(HOST4))
    with Egress(net, resolv=None) as p:
        p.dial("good.example").failed("no name server is known")


def test_name_servers_can_change_while_it_runs(net, names):
    names["void.example"] = None
    with Egress(net) as p:
        works(p.dial("good.example"))
        waiting = [p.dial("void.example"), p.dial("void.example")]
        waiting[1].sock.close()
        second = Dns(net, SECOND_DNS4)
        second.names |= {"good.example": [OTHER4], "void.example": [OTHER4]}
        p.resolv(SECOND_DNS4)
        works(p.dial("good.example"), OTHER4)
        works(waiting[0], OTHER4)  # what waits is asked again, of those
        p.resolv(f"{DNS4}#53")
        works(p.dial("good.example"))
        p.resolv("")
        p.dial("good.example").failed("no name server is known")
        for text in ("nonsense", "1.2.3.4#0", "fe80::1%eth0", "1.2.3.4#99999", ",,"):
            p.resolv(text)
            p.dial("good.example").failed("no name server is known")
        p.resolv(f"nonsense, {SECOND_DNS4}#53,{DNS4}")
        works(p.dial("good.example"), OTHER4)
        second.close()


def test_another_server_is_asked_when_the_first_is_dead(net, names):
    with Egress(net, resolv=f"44.66.0.1,{DNS4}") as p:
        works(p.dial("good.example"))


def test_answers_to_other_questions_are_not_taken(egress, names, net):
    question = dns_name("lie.example") + struct.pack(">HH", A, 1)
    other = dns_name("other.example") + struct.pack(">HH", A, 1)
    evil = reply(b"ID", question, A, "lie.example", ["10.66.6.6"])[2:]

    def lies(kind, n):
        if kind == AAAA:
            return []
        wrong = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        wrong.close()
        return b"\xff\xff" + evil  # another id

    names["lie.example"] = lies
    egress.dial("lie.example").failed("the resolver did not answer")
    names["lie.example"] = lambda kind, n: [] if kind == AAAA else b"ID" + reply(b"ID", other, A, "lie.example", ["10.66.6.6"])[2:]
    verdict, text = egress.dial("lie.example").dialed()
    assert verdict == layout.DIAL_FAILED and text.startswith("the resolver")


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"ID",
        b"ID\x81\x80",
        b"ID\x81\x80\0\1\xff\xff\0\0\0\0QUESTION",
        b"ID\x81\x80\0\1\0\1\0\0\0\0QUESTION\xc0\x0c\0\1\0\1\0\0\0\x3c\0\x05\1\2\3",
        b"ID\x81\x80\0\1\0\1\0\0\0\0QUESTION\xc0\xff\0\1\0\1\0\0\0\x3c\0\x04\1\2\3\4",
        b"ID\x81\x80\0\1\0\1\0\0\0\0QUESTION\xc0\x0c\0\5\0\1\0\0\0\x3c\0\x02\xc0\x0c",
        b"ID\x81\x80\0\1\0\1\0\0\0\0QUESTION" + b"\x3f" * 400,
        b"ID\x81\x80\0\1\0\1\0\0\0\0QUESTION" + b"\0" * 4000,
    ],
    ids=range(9),
)
def test_an_answer_that_is_none_is_a_failure_and_nothing_else(egress, names, garbage):
    names["garbage.example"] = lambda kind, n: garbage
    verdict, text = egress.dial("garbage.example").dialed()
    assert verdict == layout.DIAL_FAILED and text in ("the resolver has no answer", "the resolver did not answer", "name not found"), text
    works(egress.dial("good.example"))


def test_an_answer_too_large_for_a_packet_is_fetched_and_cut(egress, names, net):
    names["huge.example"] = [HOST4] + [f"44.30.{n // 250}.{n % 250 + 1}" for n in range(2000)]
    works(egress.dial("huge.example"))
    names["huge.example"] = [f"10.{n // 250}.{n % 250}.1" for n in range(2000)]
    egress.dial("huge.example").refused("10.0.0.1 is not public (private)")
    assert machine.kib(egress.pid, "RssAnon") < 32 << 10


def test_who_makes_a_name_server_close_connections_harms_no_other_name(egress, names):
    """Each of these answers needs TCP, and its connection is closed behind it while all others are awaited."""

    def slow(kind, count):
        time.sleep(2)
        return [HOST4]

    names["slow.example"] = slow
    waiting = [egress.dial("slow.example") for _ in range(5)]
    for n in range(20):
        names[f"x{n}.example"] = [f"44.20.1.{i}" for i in range(100)]
        works(egress.dial(f"x{n}.example"), "44.20.1.0")
        time.sleep(0.05)
    for d in waiting:
        works(d)


def test_a_flood_of_names_leaves_nothing_behind(egress, names):
    """Clients that leave before the answer: their places are free again once the resolver has given up."""
    names["void.example"] = None
    works(egress.dial("good.example"))
    before = len(machine.descriptors(egress.pid)), machine.kib(egress.pid, "RssAnon")
    for n in range(100):
        egress.dial("void.example", sandbox=n % 4).sock.close()
    assert machine.wait_until(lambda: works_again(egress), 60)
    assert machine.wait_until(lambda: len(machine.descriptors(egress.pid)) <= before[0] + 2, 60)
    assert machine.kib(egress.pid, "RssAnon") < before[1] + (8 << 10)


def works_again(egress):
    works(egress.dial("good.example", sandbox=1))
    return all(("E_DIAL_END", id) in egress.told or egress.wait_for("E_DIAL_END", id) for id in range(1, egress.dialled + 1))
