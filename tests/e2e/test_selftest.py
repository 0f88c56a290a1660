"""agent-sandbox selftest: it passes on the real server, and says so when any one rule is taken out of it."""

import ipaddress
import json
import os
import re
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from egress_scene import TLS, NetServer, World, within
from harness import BUILD, KEY, ROOT, Engine
from without import RANGE_VARIANTS, VARIANTS, first, table, tried

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces, so it runs as root only"),
    pytest.mark.limit(400),
]
REBIND = "rebind.example"


@pytest.fixture(scope="module")
def private():
    """An engine of its own, since packet filter rules are loaded beside it."""
    e = Engine(Path("/tmp") / f"as-selftest-{os.getpid()}" / "engine")
    try:
        e.start()
        e.load_images()
        yield e
    finally:
        left = e.stop()
        e.dir.parent.rmdir()
    assert not left, left


@pytest.fixture(scope="module")
def world():
    w = World()
    # Not public, in turns with what is and with what the first look did not show.
    w.dns.names[REBIND] = lambda kind, n: [["127.0.0.1", "::1"], ["10.0.0.1", "fd00:ec2::254"], ["169.254.169.254", "::ffff:7f00:1"]][n % 3]
    yield w
    w.close()


def ip(words):
    subprocess.run(["ip", *words.split()], check=True, capture_output=True)


def nft(engine, *words, stdin=None):
    command = ["nsenter", f"-t{engine.holder()}", "-n", "nft", *words]
    p = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=30)
    assert p.returncode == 0, p.stderr


@pytest.fixture
def filtered(private):
    """The rules of etc/ are loaded where the bridge is."""
    nft(private, "-f", str(ROOT / "etc/agent-sandbox.nft"))
    yield
    nft(private, "delete", "table", "inet", "agent_sandbox")


def selftest(server, *words, target=True):
    """In the network of the server, as on its machine."""
    words = ["--url", server.url, "selftest", *words, *(["--target", TLS, "--rebind", REBIND] if target else [])]
    env = {"AGENT_SANDBOX_API_KEY": KEY, "PATH": "/usr/bin:/bin"}
    return within(
        server.world.net.egress,
        lambda: subprocess.run([BUILD / "agent-sandbox", *words], env=env, capture_output=True, text=True, timeout=300),
    )


def rows(p):
    """{(mode, check): [(result, evidence), ...]}"""
    out = {}
    for line in p.stdout.splitlines():
        if m := re.match(r"(ok|BROKEN|skip|refused) +(\w+) +(\w+) +(.*)", line):
            out.setdefault((m[2], m[3]), []).append((m[1], m[4]))
    return out


def broken(p):
    return {check: "; ".join(e for _, e in found) for (_, check), found in rows(p).items() if any(r == "BROKEN" for r, _ in found)}


@pytest.fixture
def start(private, world):
    made = []

    def start(**settings):
        made.append(NetServer(private, world, EGRESS_RATE=1000, **settings))
        return made[-1].start()

    yield start
    for s in made:
        s.close()


def nothing_left(server):
    assert server.api.ids() == [], "the self-test's sandboxes stay"


def test_everything_holds_on_the_real_server(start, filtered):
    s = start()
    p = selftest(s)
    assert p.returncode == 0, p.stdout + p.stderr
    said = rows(p)
    assert {mode for mode, _ in said} == {"none", "list", "bridge"}
    assert all(found[0][0] == "ok" for found in said.values()), p.stdout
    assert len({check for _, check in said}) > 60 and all(len(found) == 1 for found in said.values())
    assert KEY not in p.stdout + p.stderr
    nothing_left(s)


def test_everything_holds_where_network_means_a_proxy(start):
    s = start(NETWORK_MODE="proxy")
    p = selftest(s, "--mode", "network", "--json")
    assert p.returncode == 0, p.stdout + p.stderr
    told = json.loads(p.stdout)
    assert told["ok"] is True and {c["mode"] for c in told["checks"]} == {"proxy"}
    assert {c["result"] for c in told["checks"]} == {"ok"}, told
    nothing_left(s)


def test_without_a_target_it_says_what_it_could_not_try(start):
    s = start(ALLOW_NETWORK="false")
    p = selftest(s, "--mode", "list", "--mode", "network", target=False)
    assert p.returncode == 0, p.stdout + p.stderr
    assert rows(p)["network", "create"][0][0] == "refused", "what the operator forbids is fine"
    assert rows(p)["list", "create"][0][0] == "refused"
    s.end()
    s.settings["ALLOW_NETWORK"] = "true"
    s.start()
    p = selftest(s, "--mode", "list", target=False)
    assert p.returncode == 1 and "give --target or --offline" in p.stdout and "BROKEN" not in p.stdout
    assert selftest(s, "--mode", "list", "--offline", "--only", "proxy_sni", "--only", "interfaces", target=False).returncode == 0
    assert selftest(s, "--only", "nonsense").returncode == 2 and selftest(s, "--mode", "nonsense").returncode == 2
    nothing_left(s)


def test_error_half_way_leaves_no_sandbox(start):
    s = start(MAX_SANDBOXES=1)
    p = selftest(s, "--mode", "network", "--only", "neighbours", "--only", "interfaces")
    assert p.returncode == 1 and "a second sandbox" in broken(p)["create"], p.stdout + p.stderr
    nothing_left(s)


def test_operators_own_list_is_the_upper_bound_and_what_cannot_be_is_an_error(start):
    s = start(EGRESS_ALLOWLIST=f"{TLS},*.wild.example")
    p = selftest(s, "--offline", "--mode", "none", "--mode", "list", "--mode", "network", target=False)
    said = rows(p)
    assert p.returncode == 0, p.stdout + p.stderr
    assert said["list", "create"][0][0] == said["network", "create"][0][0] == "refused"
    assert {c for m, c in said if m == "default"} >= {"proxy_ranges4", "proxy_names", "proxy_socks"}, "the server's list is everybody's"
    p = selftest(s, "--image", "nobody/else:1", target=False)
    assert p.returncode not in (0, 1) or "hold," not in p.stdout, p.stdout + p.stderr
    assert "nobody/else" in p.stderr
    nothing_left(s)


LAN4, HOST4, CLOUD4 = "10.9.9.9", "44.20.0.1", "169.254.169.254"


@pytest.fixture
def lan(private):
    """Beside the engine: a network with a database, what answers guests of clouds, and a host of the internet; on it, a service."""
    machine = os.open(f"/proc/{private.holder()}/ns/net", os.O_RDONLY)
    net = within(None, lambda: os.open("/proc/thread-self/ns/net", os.O_RDONLY))

    def beside():
        ip("link add as-lan0 type veth peer name as-lan1")
        ip(f"link set as-lan1 netns /proc/{os.getpid()}/fd/{net}")
        ip("addr add 10.9.9.1/24 dev as-lan0")
        ip("link set as-lan0 up")
        for address in (HOST4, CLOUD4):
            ip(f"route add {address} via {LAN4}")

    def there():
        ip("link set lo up")
        ip(f"addr add {LAN4}/24 dev as-lan1")
        ip("link set as-lan1 up")
        for address in (HOST4, CLOUD4):
            ip(f"addr add {address}/32 dev lo")
        ip("route add default via 10.9.9.1")
        return [socket.create_server(where) for where in ((LAN4, 5432), (HOST4, 80), (CLOUD4, 80))]

    within(machine, beside)
    open_ones = [*within(net, there), within(machine, lambda: socket.create_server(("0.0.0.0", 8080)))]
    yield
    within(machine, lambda: ip("link del as-lan0"))
    for s in open_ones:
        s.close()
    os.close(net)
    os.close(machine)


CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5); print('there')"


def test_packet_filter_takes_the_host_its_network_and_metadata_from_the_bridge_and_nothing_else(start, private, lan):
    s = start()
    words = ["--mode", "network", "--near", f"{LAN4}:5432", *(w for c in ("host", "metadata", "private_networks") for w in ("--only", c))]
    p = selftest(s, *words)
    found = broken(p)
    assert p.returncode == 1 and set(found) >= {"host", "metadata"}, p.stdout + p.stderr
    assert re.search(r"172\.\d+\.0\.1:8080: connected", found["host"]), "a service of the host"
    assert f"{LAN4}:5432: connected" in found["host"] and f"{CLOUD4}:80: connected" in found["metadata"]
    assert "load etc/agent-sandbox.nft" in found["host"]
    nft(private, "-f", str(ROOT / "etc/agent-sandbox.nft"))
    try:
        p = selftest(s, *words)
        assert p.returncode == 0, p.stdout + p.stderr
        assert s.api.create(network=True).python("import sys; sys.argv[1:] = ['44.20.0.1', '80']\n" + CONNECT) == "there\n"
    finally:
        nft(private, "delete", "table", "inet", "agent_sandbox")


def test_create_and_doctor_say_whether_the_packet_filter_is_loaded(start, world):
    def doctor():
        command = [BUILD / "agent-sandbox", "doctor"]
        return within(world.net.egress, lambda: subprocess.run(command, capture_output=True, text=True, timeout=60).stdout)

    def said(s):
        box = s.api.create(network=True, memory_mb=64)
        line = next(x for x in s.log.read_text().splitlines() if f"sandbox {box.id} is ready" in x)
        return "etc/agent-sandbox.nft was not loaded" in line

    s = start()
    assert said(s) and re.search(r"^weak .*packet filter: .*not loaded", doctor(), re.M)
    rules = str(ROOT / "etc/agent-sandbox.nft")
    within(world.net.egress, lambda: subprocess.run(["nft", "-f", rules], check=True))
    try:
        s.end()
        s.start()
        assert not said(s) and re.search(r"^ok .*agent_sandbox is loaded", doctor(), re.M)
    finally:
        within(world.net.egress, lambda: subprocess.run(["nft", "delete", "table", "inet", "agent_sandbox"], check=True))


@pytest.fixture(scope="module")
def results(private, world):
    """What the self-test says of each variant; three are tried at a time."""

    def one(variant):
        server = None
        try:
            server = NetServer(private, world, programs=variant.build(private), EGRESS_RATE=1000)
            server.start()
            if variant.name == "network":
                server.api.create(network=True, memory_mb=64).delete()  # it makes the bridge
            return selftest(server, "--mode", variant.mode, *(w for c in sorted(variant.checks) if variant.only for w in ("--only", c)))
        except BaseException as exc:  # noqa: BLE001 - it is the result of the tests of this variant
            return exc
        finally:
            if server:
                server.close()
            variant.remove()

    with ThreadPoolExecutor(3) as pool:
        everything = VARIANTS + RANGE_VARIANTS
        return dict(zip([v.name for v in everything], pool.map(one, everything), strict=True))


def result_of(results, variant):
    p = results[variant.name]
    if isinstance(p, BaseException):
        raise p
    assert p.returncode == 1 and " are broken, " in p.stdout, p.stdout + p.stderr
    return broken(p)


@pytest.mark.parametrize("variant, rule", [(v, r) for v in VARIANTS for r in v.rules], ids=lambda x: x.name)
def test_fails_without(results, variant, rule):
    found = result_of(results, variant)
    assert set(rule.checks) <= set(found), f"not seen: {set(rule.checks) - set(found)} of {found}"
    assert not any("it ended with" in found[c] for c in rule.checks), found
    beside = set(found) - variant.checks - variant.more
    assert not beside, f"broken, but untouched: { {c: found[c] for c in beside} }"


@pytest.mark.parametrize("variant, rule", [(v, r) for v in RANGE_VARIANTS for r in v.rules], ids=lambda x: x.name.replace(" ", "-"))
def test_fails_without_range(results, variant, rule):
    """Exactly the addresses of the rows that are gone are named."""
    found = result_of(results, variant)
    rows = table()
    row = next(r for r in rows if rule.old.fullmatch(r[2].strip()))
    mine = [a for a, _ in tried() if first(rows, a) is row]
    assert mine, "nothing is tried of it"
    text = found.get(rule.checks[0], "")
    named = set(re.findall(r"CONNECT \[?([0-9a-fA-F.:]+?)\]?: \d", text))
    for address in mine:
        assert str(address) in {str(ipaddress.ip_address(n)) for n in named}, f"{address} is not missed: {text}"
    gone = {r.name for r in variant.rules}
    for n in named:
        net, word, _ = first(rows, ipaddress.ip_address(n))
        assert f"{net} {word}" in gone, f"{n} is named, but its row is there"
