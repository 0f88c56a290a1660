"""Egress allowlists and dials as managerd deals with them: the operator's list is the upper bound, each dial carries the
rule of its own sandbox, and each has a line in the audit log."""
# ruff: noqa: F811 - fixtures are imported, and named again as arguments

import json
import os
import signal

import layout
import pytest
from machine import wait_until
from managerd_kit import data, engine, refused, start  # noqa: F401

ANY = "*"
SERVER = {"EGRESS_ALLOWLIST": "a.example, *.b.example:443,10.1.2.3:8000, 10.9.0.0/16"}
SERVER_LIST = "a.example\n*.b.example:443\n10.1.2.3:8000\n10.9.0.0/16"


def said(server, **ask):
    """The list that the answer shows (None: null), and the rule that the session got."""
    m = server.create(**ask)
    assert m.name == "SANDBOX", m
    image, _, rest = m.tail.partition(b"\0")
    shown = rest[m.fields["labels_len"] :].decode() if m.fields["egress"] else None
    assert m.fields["egress"] or len(rest) == m.fields["labels_len"]
    return shown, server.session_of(m.fields["id"])[0].rule


GIVEN = [
    ({}, dict(egress=["Example.COM", "example.com:80", "example.com."]), ("example.com\nexample.com:80", "example.com\nexample.com:80")),
    ({}, {}, (None, None)),
    ({}, dict(egress=[]), ("", None)),
    ({}, dict(network=1), (None, None)),
    ({}, dict(network=1, egress=[]), (None, None)),
    ({"NETWORK_MODE": "proxy"}, dict(network=1), (None, ANY)),
    ({"NETWORK_MODE": "proxy"}, {}, (None, None)),
    ({"NETWORK_MODE": "proxy"} | SERVER, dict(network=1), (None, ANY)),
    (SERVER, {}, (SERVER_LIST, SERVER_LIST)),
    (SERVER, dict(egress=[]), ("", None)),
    (SERVER, dict(egress=["x.b.example:443", "10.9.8.0/24"]), ("x.b.example:443\n10.9.8.0/24",) * 2),
    (SERVER | {"ALLOW_NETWORK": "false"}, dict(egress=["a.example:80"]), ("a.example:80",) * 2),
]


@pytest.mark.parametrize("config, ask, want", GIVEN)
def test_list_is_canonical_and_what_the_session_is_told(start, config, ask, want):
    server = start(config=config)
    assert said(server, labels=[("k", "v")], **ask) == want


REFUSED = [
    ({}, dict(egress=["a b"]), 400, "a b"),
    ({}, dict(egress=["a.example:0"]), 400, "a.example:0"),
    ({}, dict(egress=["http://a.example"]), 400, "http://a.example"),
    ({}, dict(egress=["*"]), 400, "*"),
    ({}, dict(egress=["127.1"]), 400, "127.1"),
    ({}, dict(egress=["127.0.0.1:80"]), 400, "loopback"),
    ({}, dict(egress=["[fd00::1]:80"]), 400, "fd00::1"),
    ({}, dict(egress=["169.254.169.254"]), 400, "169.254.169.254"),
    ({}, dict(egress=["10.0.0.0/8"]), 400, "10.0.0.0/8"),
    ({}, dict(egress=["a.example"], network=1), 400, "network"),
    ({"ALLOW_NETWORK": "false"}, dict(egress=["a.example"]), 403, "not allowed"),
    (SERVER, dict(egress=["a.example", "c.example", "b.example", "x.b.example:80"]), 400, "c.example b.example x.b.example:80"),
    (SERVER, dict(egress=["10.1.2.3:22"]), 400, "10.1.2.3:22"),
    (SERVER, dict(egress=["10.0.0.0/8"]), 400, "10.0.0.0/8"),
    (SERVER, dict(network=1), 403, "egress_allowlist"),
]


@pytest.mark.parametrize("config, ask, status, word", REFUSED)
def test_what_the_operator_does_not_allow_is_refused_and_named(start, config, ask, status, word):
    server = start(config=config)
    m = server.create(**ask)
    assert word in refused(m, status)
    assert server.engine.empty()


def test_network_by_proxy_leaves_the_container_off_the_bridge(start):
    server = start(config={"NETWORK_MODE": "proxy"})
    m = server.create(network=1)
    assert m.fields["network"] == 1 and server.last_create["network"] == 0
    server.stop()
    server = start(config={"NETWORK_MODE": "bridge"})
    server.create(network=1)
    assert server.last_create["network"] == 1


def test_list_is_kept_over_a_restart_and_passed_on_to_forks(start):
    server = start()
    box = server.box(egress=["a.example"])
    snap = server.snap(box)
    server.kill()
    server = start()
    assert wait_until(lambda: server.session_of(box)) and server.session_of(box)[0].rule == "a.example"
    fork = server.fork(snap)
    assert fork.name == "SANDBOX" and server.session_of(fork.fields["id"])[0].rule == "a.example"
    fork = server.fork(snap, network=1)
    assert (fork.fields["network"], fork.fields["egress"]) == (1, 0)
    server.stop()
    server = start(config={"EGRESS_ALLOWLIST": "b.example"})
    assert "a.example" in refused(server.fork(snap), 400)


@pytest.mark.parametrize("mode, ask", [("bridge", dict(egress=["a.example"])), ("proxy", dict(network=1))])
def test_operator_who_allows_no_network_any_more_closes_the_way_out_of_what_is_there(start, mode, ask):
    server = start(config={"NETWORK_MODE": mode})
    box = server.box(**ask)
    assert server.session_of(box)[0].rule is not None
    server.kill()
    server = start(config={"NETWORK_MODE": mode, "ALLOW_NETWORK": "false"})
    assert wait_until(lambda: server.session_of(box)) and server.session_of(box)[0].rule is None


# ---- dials


def dial(server, session, id=7, port=443, name=b"a.example", how=layout.DIAL_CONNECT):
    """Asks as sessiond does; returns what reaches egressd."""
    a, b = layout.data_pair()
    session.chan.send("S_DIAL", id, {"port": port, "how": how}, name, fd=b)
    a.close(), b.close()
    m = server.egress.expect("E_DIAL")
    os.close(m.fd)
    return m


def lines(data):
    """Those that are there in full: the last one may be being written."""
    whole = (data / "audit.log").read_text().split("\n")[:-1]
    return [x for x in map(json.loads, whole) if x["action"] == "egress"]


def end(server, id, verdict=layout.DIAL_OK, text="", **more):
    fields = {"verdict": verdict, "bytes_in": 5, "bytes_out": 6, "duration_us": 7, "address": "198.51.100.1"}
    server.egress.send("E_DIAL_END", id, fields | more, text)


def refuse(server, dials):
    """All in the same moment: what comes within a second is folded."""
    for m in dials:
        server.egress.send("E_DIALED", m.id, {"verdict": layout.DIAL_REFUSED}, "no")
        end(server, m.id, layout.DIAL_REFUSED, "no")


def test_dial_goes_to_egressd_with_its_own_sandboxs_rule_and_back(start, data):
    server = start()
    box, other = server.box(egress=["a.example"]), server.box(egress=["b.example"])
    session = server.session_of(box)[0]
    for s, rule, sandbox in ((session, b"a.example", box), (server.session_of(other)[0], b"b.example", other)):
        m = dial(server, s, name=b"c.\xff.example")
        n = m.fields["name_len"]
        assert (m.fields["sandbox"], m.fields["port"], m.tail[:n], m.tail[n:]) == (sandbox, 443, b"c.\xff.example", rule)
        server.egress.send("E_DIALED", m.id, {"verdict": layout.DIAL_REFUSED}, "not in the allowlist")
        assert wait_until(lambda s=s: s.dialed)
        assert s.dialed.pop() == (7, layout.DIAL_REFUSED, b"not in the allowlist")
        end(server, m.id, layout.DIAL_REFUSED, "not in the allowlist", address="")
    assert wait_until(lambda: len(lines(data)) == 2)
    line = lines(data)[0]
    want = {"target": f"sb_{box:016x}", "name": "(not UTF-8)", "address": None, "port": 443, "verdict": "refused"}
    want |= {"reason": "not in the allowlist", "bytes_in": 5, "bytes_out": 6, "duration_us": 7}
    assert {k: line[k] for k in want} == want


def test_dial_of_a_sandbox_without_a_way_out_ends_its_session(start):
    server = start()
    session = server.session_of(server.box())[0]
    a, b = layout.data_pair()
    session.chan.send("S_DIAL", 1, {"port": 80}, b"a.example", fd=b)
    assert wait_until(lambda: session.id in server.killed)
    assert server.egress.silent()
    a.close(), b.close()


@pytest.mark.parametrize("how, name", [(99, b"a"), (0, b"")])
def test_dial_that_makes_no_sense_ends_only_its_session(start, how, name):
    server = start()
    box, other = server.box(egress=["a.example"]), server.box(egress=["a.example"])
    session = server.session_of(box)[0]
    a, b = layout.data_pair()
    session.chan.send("S_DIAL", 1, {"port": 80, "how": how}, name, fd=b)
    assert wait_until(lambda: session.id in server.killed)
    assert server.session_of(other) and server.get(other).name == "SANDBOX"
    a.close(), b.close()


def test_dial_of_a_session_that_was_lost_still_has_its_line(start, data):
    server = start()
    session = server.session_of(server.box(egress=["a.example"]))[0]
    m = dial(server, session)
    server.end_session(session.id, signal.SIGKILL)
    server.egress.send("E_DIALED", m.id, {"verdict": layout.DIAL_OK})
    end(server, m.id)
    assert wait_until(lambda: lines(data)) and lines(data)[0]["verdict"] == "ok"
    assert server.p.alive()


def test_sandbox_that_is_destroyed_is_forgotten_by_egressd(start):
    server = start()
    box = server.box(egress=["a.example"])
    assert server.destroy(box).fields["status"] == 204
    assert server.egress.expect("E_FORGET").fields["sandbox"] == box


STRANGE = [("E_DIALED", 99, {}), ("E_DIAL_END", 99, {}), ("E_DIALED", None, {"verdict": 9}), ("E_DIAL_END", None, {})]


@pytest.mark.parametrize("name, id, fields", STRANGE)
def test_egressd_that_makes_no_sense_is_fatal(start, name, id, fields):
    server = start()
    session = server.session_of(server.box(egress=["a.example"]))[0]
    m = dial(server, session)
    server.egress.send(name, id or m.id, fields)
    assert wait_until(lambda: not server.p.alive()) and "egressd" in server.p.log()


def test_flood_of_refusals_is_folded_and_hides_no_connection(start, data):
    server = start()
    session = server.session_of(server.box(egress=["a.example"]))[0]
    for _ in range(3):
        refuse(server, [dial(server, session, id=i) for i in range(400)])
        m = dial(server, session)
        server.egress.send("E_DIALED", m.id, {"verdict": layout.DIAL_OK})
        end(server, m.id)
    assert wait_until(lambda: sum(x.get("count", 1) for x in lines(data)) == 1203), len(lines(data))
    assert len(lines(data)) < 600 and len([x for x in lines(data) if x.get("verdict") == "ok"]) == 3


def test_connection_that_was_let_out_and_then_refused_has_its_line_in_a_flood(start, data):
    server = start()
    session = server.session_of(server.box(egress=["a.example"]))[0]
    refuse(server, [dial(server, session, id=i) for i in range(60)])
    m = dial(server, session, name=b"drain.example")
    server.egress.send("E_DIALED", m.id, {"verdict": layout.DIAL_OK})
    end(server, m.id, layout.DIAL_REFUSED, "byte limit reached", bytes_out=10 << 30)
    assert wait_until(lambda: sum(x.get("count", 1) for x in lines(data)) == 61), len(lines(data))
    assert len(lines(data)) < 61
    assert [x["bytes_out"] for x in lines(data) if x.get("name") == "drain.example"] == [10 << 30]


def test_connection_that_is_open_when_the_server_ends_has_its_line(start, data):
    def term(server):
        os.kill(server.p.pid, signal.SIGTERM)

    for n, end_it in enumerate((term, lambda s: s.egress.close(), lambda s: s.p.parent.close())):
        server = start()
        session = server.session_of(server.box(egress=["a.example"]))[0]
        m = dial(server, session, name=b"open.example")
        server.egress.send("E_DIALED", m.id, {"verdict": layout.DIAL_OK})
        assert wait_until(lambda s=session: s.dialed)
        dial(server, session, id=8)  # nobody has answered: it was not let out
        end_it(server)
        assert server.p.wait(30) == 0
        line = lines(data)[-1]
        assert len(lines(data)) == n + 1
        assert (line["name"], line["verdict"], line["reason"]) == ("open.example", "ok", "the server ended")
        assert line["bytes_in"] is line["bytes_out"] is line["address"] is None


def test_dials_that_egressd_is_slow_with_are_refused_and_end_no_session(start, data):
    server = start()
    box = server.box(egress=["a.example"])
    session = server.session_of(box)[0]
    for i in range(1024):
        dial(server, session, id=i)
    a, b = layout.data_pair()
    session.chan.send("S_DIAL", 5000, {"port": 80}, b"a.example", fd=b)
    assert wait_until(lambda: session.dialed) and session.dialed == [(5000, layout.DIAL_REFUSED, b"too many connections")]
    a.close(), b.close()
    assert server.session_of(box) and wait_until(lambda: lines(data)) and lines(data)[-1]["reason"] == "too many connections"


def test_session_that_asks_without_end_and_reads_nothing_waits_for_itself(start):
    server = start()
    box, other = server.box(egress=["a.example"]), server.box(egress=["a.example"])
    session = server.session_of(box)[0]
    chan, session.chan = session.chan, None  # nobody reads it any more
    a, b = layout.data_pair()
    chan.sock.settimeout(2)
    sent = 0
    try:
        for sent in range(200_000):
            chan.send("S_DIAL", sent, {"port": 443}, b"a.example", fd=b)
    except TimeoutError:
        pass
    assert server.p.alive(), server.p.log()
    assert sent < 199_999 and server.get(other).name == "SANDBOX"
    a.close(), b.close()


def test_egressd_that_reads_nothing_gets_no_more_than_it_can_hold(start):
    server = start()
    wide = [f"{i:03d}{'x' * 56}.a.example" for i in range(230)]
    sessions = [server.session_of(server.box(egress=wide))[0] for _ in range(6)]
    a, b = layout.data_pair()
    for session in sessions:
        for i in range(1000):
            session.chan.send("S_DIAL", i, {"port": 443}, b"b.example", fd=b)
    assert wait_until(lambda: sum(len(s.dialed) for s in sessions) > 4000), server.p.log()
    assert {d[1:] for s in sessions for d in s.dialed} == {(layout.DIAL_REFUSED, b"too many connections")}
    assert server.p.alive() and server.create().name == "SANDBOX"
    a.close(), b.close()


def test_egressd_that_reads_nothing_of_many_sandboxes_with_the_longest_lists_ends_nobody(start):
    server = start(config={"MAX_SANDBOXES": "60"})
    wide = [f"{i:03d}{'x' * 56}.a.example" for i in range(234)]  # with what is between them 16,379 bytes
    sessions = [server.session_of(server.box(egress=wide))[0] for _ in range(40)]
    a, b = layout.data_pair()
    for session in sessions:
        for i in range(128):
            session.chan.send("S_DIAL", i, {"port": 443}, b"b" * 255, fd=b)
    assert wait_until(lambda: sum(len(s.dialed) for s in sessions) > 1000 or not server.p.alive()), server.p.log()
    assert server.p.alive() and server.create().name == "SANDBOX"
    a.close(), b.close()
