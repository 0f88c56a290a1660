"""egressd's limits, of each sandbox and of all, and what hostile ends of connections can do: nothing to others."""

import contextlib
import os
import socket
import threading
import time
from collections import Counter

import layout
import machine
import pytest
from egress_kit import BLACK4, HOST4, Dns, Egress, Net, client_hello, echo, reset

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces")

ECHO, SILENT, FLOOD, RESET, SINK = 7000, 7001, 7002, 7003, 7004


def wait_for_the_end(sock):
    threading.Event().wait(60)
    del sock


def flood(sock):
    data = bytes(1 << 18)
    for _ in range(4096):  # 1 GiB
        sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)


@pytest.fixture(scope="module")
def net():
    net = Net()
    net.dns = Dns(net)
    net.dns.names["void.example"] = None
    with contextlib.ExitStack() as stack:
        for port, handle in (
            (ECHO, echo),
            (443, echo),
            (SILENT, wait_for_the_end),
            (FLOOD, flood),
            (RESET, reset),
            (SINK, wait_for_the_end),
        ):
            stack.enter_context(net.serve(port, handle))
        yield net
    net.dns.close()
    net.close()


def dial(p, port=ECHO, sandbox=1, address=HOST4):
    return p.dial(address, port, f"{address}:{port}", sandbox=sandbox)


def works(d):
    d.ok().talk(b"x")
    return d


def over(d):
    d.sock.close()
    d.end()


def test_connections_of_a_sandbox_at_once_are_bounded(net):
    with Egress(net, ",".join(f"{BLACK4}#{port}" for port in (1, 2, 3)), config={"EGRESS_CONNECTIONS": 5}) as p:
        open_ = [works(dial(p)) for _ in range(5)]
        dial(p).refused("too many connections")
        works(dial(p, sandbox=2))  # another one's are its own
        over(open_.pop())
        open_.append(works(dial(p)))
        dial(p).refused("too many connections")
        # One that waits for the resolver counts too, and as long as that asks, also when its client has gone.
        over(open_.pop())
        waiting = p.dial("void.example")
        dial(p).refused("too many connections")
        waiting.sock.close()
        assert waiting.end() == (layout.DIAL_FAILED, "the client inside has gone")
        dial(p).refused("too many connections")
        assert machine.wait_until(lambda: dial(p).dialed()[0] == layout.DIAL_OK, 60, 0.2)


def test_new_connections_of_a_sandbox_are_bounded_in_a_second(net):
    with Egress(net, config={"EGRESS_RATE": 10}) as p:
        begun = time.monotonic()
        told = Counter(d.dialed() for d in [dial(p) for _ in range(60)])
        most = 10 + 10 * (time.monotonic() - begun) + 1
        assert set(told) == {(layout.DIAL_OK, ""), (layout.DIAL_REFUSED, "too many connections a second")}
        assert 10 <= told[layout.DIAL_OK, ""] <= most
        works(dial(p, sandbox=2))
        assert machine.wait_until(lambda: dial(p).dialed()[0] == layout.DIAL_OK, 20, 0.3)


def test_bytes_of_a_sandbox_are_bounded_both_ways_together(net):
    with Egress(net, config={"EGRESS_BYTES": 100_000}) as p:
        first = works(dial(p))
        first.talk(b"x" * 30_000)
        second = dial(p, FLOOD).ok()
        got = second.rest()
        assert second.end() == (layout.DIAL_REFUSED, "byte limit reached")
        assert len(got) + 60_002 == 100_000 and second.fields["bytes_in"] == len(got)
        first.sock.sendall(b"one more")
        assert first.rest() == b"" and first.end() == (layout.DIAL_REFUSED, "byte limit reached")
        dial(p).refused("byte limit reached")
        works(dial(p, sandbox=2))
        p.forget()
        works(dial(p))


def test_what_is_idle_or_takes_too_long_is_ended(net):
    with Egress(net, config={"EGRESS_IDLE_SECONDS": 4, "EGRESS_SECONDS": 10}) as p:
        silent, busy = dial(p, SILENT).ok(), works(dial(p))
        begun = time.monotonic()
        while time.monotonic() - begun < 6:
            busy.talk(b"x")
            time.sleep(0.2)
        assert silent.end() == (layout.DIAL_OK, "idle for too long") and silent.rest() == b""
        assert ("E_DIAL_END", busy.id) not in p.told
        with contextlib.suppress(OSError, AssertionError):
            while time.monotonic() - begun < 60:
                busy.talk(b"x")
                time.sleep(0.2)
        assert busy.end() == (layout.DIAL_OK, "open for too long")


def test_a_first_request_that_does_not_come_whole_is_refused(net):
    with Egress(net) as p:
        hello = dial(p, 443).ok()
        hello.sock.sendall(client_hello()[:100])
        ended = dial(p, 443).ok()
        ended.sock.sendall(client_hello()[:100])
        ended.sock.shutdown(socket.SHUT_WR)
        assert ended.end() == (layout.DIAL_REFUSED, "the first request did not come whole in time")
        late = dial(p, 443).ok()  # who has not begun may wait
        assert hello.end() == (layout.DIAL_REFUSED, "the first request did not come whole in time")
        late.talk(client_hello())


def test_all_sandboxes_together_are_bounded_by_descriptors(net):
    argv = ["prlimit", "--nofile=256:256", str(layout.BUILD / "egressd")]
    with Egress(net, program="/usr/bin/prlimit", argv=argv) as p:
        dials = [dial(p, sandbox=n) for n in range(120)]
        told = Counter(d.dialed() for d in dials)
        assert set(told) == {(layout.DIAL_OK, ""), (layout.DIAL_REFUSED, "too many connections of all sandboxes")}
        assert told[layout.DIAL_OK, ""] == (256 - 96) // 2
        for d in dials:
            over(d)
        works(dial(p))
        assert p.alive()


def test_one_sandbox_leaves_as_many_connections_as_it_has(net):
    argv = ["prlimit", "--nofile=256:256", str(layout.BUILD / "egressd")]
    with Egress(net, program="/usr/bin/prlimit", argv=argv) as p:
        dials = []
        for sandbox, most in ((1, 40), (2, 20), (3, 10)):
            dials.append([dial(p, sandbox=sandbox) for _ in range(60)])
            told = Counter(d.dialed() for d in dials[-1])
            assert set(told) == {(layout.DIAL_OK, ""), (layout.DIAL_REFUSED, "too many connections of all sandboxes")}
            assert told[layout.DIAL_OK, ""] == most


def test_a_sandbox_that_is_forgotten_loses_all_it_had_open(net):
    with Egress(net) as p:
        kept = works(dial(p, sandbox=2))
        mine = [works(dial(p)), dial(p, FLOOD).ok(), p.dial("void.example"), dial(p, 443, address=BLACK4)]
        p.forget()
        assert [d.end() for d in mine[:2]] == [(layout.DIAL_OK, "the sandbox is gone")] * 2
        assert [d.end() for d in mine[2:]] == [(layout.DIAL_FAILED, "the sandbox is gone")] * 2
        assert mine[2].dialed() == mine[3].dialed() == (layout.DIAL_FAILED, "the sandbox is gone")
        kept.talk(b"still")
        p.forget(77)
        p.forget()
        works(dial(p))


def anonymous(p):
    """KiB of memory of its own; sanitizers keep what was freed."""
    return 0 if "san-" in str(layout.BUILD) else machine.kib(p.pid, "RssAnon")


@pytest.mark.parametrize("connections", [1, 50])
def test_who_does_not_read_costs_a_bounded_buffer(net, connections):
    """1 GiB is on its way to each; what the kernel does not take waits outside."""
    with Egress(net) as p:
        works(dial(p))
        before = anonymous(p)
        stalled = [dial(p, FLOOD).ok() for _ in range(connections)]
        time.sleep(1)
        assert anonymous(p) - before < 1024 + 100 * connections
        works(dial(p, sandbox=2)).talk(b"y" * 100_000)
        for d in stalled:
            over(d)
        assert machine.wait_until(lambda: len(machine.descriptors(p.pid)) < 20)


def test_a_gibibyte_arrives_whole_and_memory_stays_flat(net):
    with Egress(net) as p:
        works(dial(p))
        before, d = anonymous(p), dial(p, FLOOD).ok()
        buffer, n = bytearray(1 << 20), 0
        d.sock.settimeout(120)
        while got := d.sock.recv_into(buffer):
            n += got
        assert n == 1 << 30
        assert anonymous(p) - before < 1024
        d.sock.close()
        assert d.end() == (layout.DIAL_OK, "") and d.fields["bytes_in"] == 1 << 30


def test_a_host_that_does_not_read_stalls_its_sender_only(net):
    with Egress(net) as p:
        works(dial(p))
        before, d, sent = anonymous(p), dial(p, SINK).ok(), 0
        d.sock.settimeout(1)
        with contextlib.suppress(TimeoutError):
            while sent < 1 << 30:
                sent += d.sock.send(bytes(1 << 18))
        assert sent < 1 << 28  # what the kernel's buffers take
        assert anonymous(p) - before < 1024
        works(dial(p))


def test_two_hundred_connections_at_once(net):
    with Egress(net, config={"EGRESS_RATE": 1000}) as p:
        works(dial(p))
        before = anonymous(p)
        dials = [dial(p) for _ in range(200)]
        for d in dials:
            d.ok()
        for d in dials:
            d.sock.sendall(b"x" * 10_000)
        for d in dials:
            d.hears(b"x" * 10_000)
        assert anonymous(p) - before < 200 * 16
        for d in dials:
            d.sock.shutdown(socket.SHUT_WR)
        assert {d.end() for d in dials} == {(layout.DIAL_OK, "")}


def test_ten_thousand_dials_of_one_sandbox_cost_nobody_else(net):
    with Egress(net, config={"EGRESS_RATE": 200}) as p:
        works(dial(p, sandbox=2))
        before = anonymous(p)
        told, kept = Counter(), []
        for n in range(10_000):
            d = dial(p, (ECHO, RESET, SILENT)[n % 3])
            kept.append(d)
            if len(kept) == 100:
                for d in kept:
                    told[d.dialed()[1]] += 1
                    d.sock.close()
                    d.end()
                kept.clear()
                if n % 2000 == 1999:
                    works(dial(p, sandbox=2)).talk(b"y" * 1000)
        assert sum(told.values()) == 10_000 and set(told) <= {"", "too many connections a second", "too many connections"}
        assert anonymous(p) - before < 2048
        assert machine.wait_until(lambda: len(machine.descriptors(p.pid)) < 30)
