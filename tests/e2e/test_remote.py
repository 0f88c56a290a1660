"""A client on another host: in a network namespace of its own, with one cable to the server, a key and a CA file."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys

import pytest
from authority import Authority
from harness import BUILD, KEY, ROOT, Api, Server
from machine import free_port, wait_until

HERE, THERE = "198.51.100.1", "198.51.100.2"
NAME = "box.example"
SDK = """
import sys
from agent_sandbox_sdk import SandboxClient
with SandboxClient(ca_file=sys.argv[1]) as client, client.create() as box:
    box.write_file("a", b"from far")
    print(box.exec("cat a").stdout)
"""


class Host:
    """Another host: a process holds its network namespace; one end of the cable is there. run(...): a program on it."""

    def __init__(self):
        self.process = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], start_new_session=True)
        self.cable = f"asv{self.process.pid}"
        assert wait_until(lambda: os.readlink(f"/proc/{self.process.pid}/ns/net") != os.readlink("/proc/self/ns/net"))
        ip = self.ip
        try:
            ip("link", "add", self.cable, "type", "veth", "peer", "name", "far", "netns", self.process.pid)
            ip("address", "add", f"{HERE}/30", "dev", self.cable)
            ip("link", "set", self.cable, "up")
            for words in (["address", "add", f"{THERE}/30", "dev", "far"], ["link", "set", "far", "up"], ["link", "set", "lo", "up"]):
                assert self.run("ip", *words).returncode == 0
        except BaseException:
            self.close()
            raise

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *map(str, words)], check=True, capture_output=True)

    def run(self, *command, env=None, **more):
        return subprocess.run(
            ["nsenter", f"--net=/proc/{self.process.pid}/ns/net", *map(str, command)], env=env, capture_output=True, text=True, timeout=100,
            **more,
        )  # fmt: skip

    def close(self):
        subprocess.run(["ip", "link", "delete", self.cable], capture_output=True)
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def far():
    if os.geteuid() != 0:
        pytest.skip("network namespaces and cables are for root")
    host = Host()
    yield host
    host.close()


@pytest.fixture
def remote(engine, authority, far):
    """remote(**settings): a server that listens at the near end of the cable, with TLS."""
    made = []

    def start(**settings):
        cert, key = authority.issue(NAME, names=(f"DNS:{NAME}", f"IP:{HERE}"))
        s = Server(engine, HOST=HERE, PORT=free_port(), **({"TLS_CERT": cert, "TLS_KEY": key} | settings))
        made.append(s)
        s.launch()
        assert wait_until(lambda: "listening on" in s.tail() or s.process.poll() is not None, 60) and s.process.poll() is None, s.tail()
        s.far_url = f"https://{HERE}:{s.settings['PORT']}"
        s.api = Api(s.far_url)
        s.api.session().verify = str(authority.cert)
        return s

    yield start
    for s in made:
        s.close()


def settings(url, **more):
    """The environment of a client."""
    return {"PATH": os.environ["PATH"], "HOME": "/proc/none", "AGENT_SANDBOX_URL": url, "AGENT_SANDBOX_API_KEY": KEY} | more


def test_client_with_a_key_and_a_ca_file_works_from_another_host(remote, far, authority):
    s = remote()
    env = settings(s.far_url, AGENT_SANDBOX_CA_FILE=str(authority.cert))
    made = far.run(BUILD / "agent-sandbox", "create", env=env)
    assert made.returncode == 0, made.stderr
    box = made.stdout.strip()
    assert far.run(BUILD / "agent-sandbox", "exec", "-n", box, "echo from far", env=env).stdout == "from far\n"
    assert far.run(BUILD / "agent-sandbox", "put", f"{box}:f", input="text", env=env).returncode == 0
    assert far.run(BUILD / "agent-sandbox", "cat", f"{box}:f", env=env).stdout == "text"
    sdk = far.run(sys.executable, "-c", SDK, authority.cert, env=env | {"PYTHONPATH": str(ROOT / "clients/python/src")})
    assert sdk.stdout == "from far\n", sdk.stderr
    curl = far.run("curl", "-s", "--cacert", authority.cert, "-H", f"X-API-Key: {KEY}", s.far_url + "/v1/sandboxes", env=env)
    assert [one["id"] for one in json.loads(curl.stdout)["sandboxes"]] == [box]
    assert far.run(BUILD / "agent-sandbox", "rm", box, env=env).returncode == 0


def test_client_that_does_not_trust_sends_no_key_and_plain_http_gets_nothing(remote, far, authority):
    s = remote()
    p = far.run(BUILD / "agent-sandbox", "ls", env=settings(s.far_url))
    assert p.returncode == 5 and "AGENT_SANDBOX_CA_FILE" in p.stderr and "nothing was sent" in p.stderr
    p = far.run(BUILD / "agent-sandbox", "ls", env=settings(s.far_url.replace("https:", "http:")))
    assert p.returncode == 5 and p.stdout == ""
    curl = far.run("curl", "-s", "-m", "20", s.far_url.replace("https:", "http:") + "/healthz", env=settings(s.far_url))
    assert curl.returncode != 0 and "status" not in curl.stdout


def test_a_name_is_asked_for_by_that_name(remote, far, authority):
    """The certificate has the address too; another name does not do."""
    s = remote()
    port = s.settings["PORT"]
    ok = ["curl", "-s", "--cacert", authority.cert, "--connect-to", f"{NAME}:{port}:{HERE}:{port}", f"https://{NAME}:{port}/healthz"]
    assert json.loads(far.run(*ok).stdout)["status"] == "ok"
    bad = [*ok[:4], "--connect-to", f"other.example:{port}:{HERE}:{port}", f"https://other.example:{port}/healthz"]
    assert far.run(*bad).returncode == 60


def keygen(file, *options):
    p = subprocess.run(
        [BUILD / "agent-sandbox", "keygen", *map(str, options), "--file", file], capture_output=True, text=True, timeout=60, check=True
    )
    return p.stdout.strip()


def reload(s):
    s.process.send_signal(signal.SIGHUP)


def test_key_that_the_command_added_opens_until_it_is_revoked(remote, far, authority, tmp_path):
    file = tmp_path / "keys"
    first = keygen(file, "--name", "first", "--from", THERE)
    s = remote(KEYS_FILE=file)
    ask = [BUILD / "agent-sandbox", "--cacert", authority.cert, "ls", "-q"]

    def status(key):
        return far.run(*ask, env=settings(s.far_url) | {"AGENT_SANDBOX_API_KEY": key}).returncode

    assert status(first) == 0
    here = subprocess.run([*map(str, ask)], env=settings(s.far_url) | {"AGENT_SANDBOX_API_KEY": first}, capture_output=True, timeout=60)
    assert here.returncode == 4, "a key is good only from the addresses that it names"
    second = keygen(file, "--name", "second", "--tenant", "acme", "--scopes", "read")
    assert status(second) == 4, "the server was not told yet"
    reload(s)
    assert wait_until(lambda: status(second) == 0, 60) and status(first) == 0
    p = far.run(BUILD / "agent-sandbox", "--cacert", authority.cert, "create", env=settings(s.far_url) | {"AGENT_SANDBOX_API_KEY": second})
    assert p.returncode == 4 and "scope manage" in p.stderr
    subprocess.run([BUILD / "agent-sandbox", "keys", "revoke", "first", "--file", file], check=True, capture_output=True, timeout=60)
    reload(s)
    assert wait_until(lambda: status(first) == 4, 60) and status(second) == 0


def served(s):
    """The certificate that the server shows."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((HERE, s.settings["PORT"]), 30) as plain, context.wrap_socket(plain) as c:
        return ssl.DER_cert_to_PEM_cert(c.getpeercert(True))


def test_broken_certificate_changes_nothing_and_a_new_one_is_served_with_no_request_lost(remote, far, authority, tmp_path):
    cert, key = tmp_path / "cert", tmp_path / "key"

    def install():
        new = authority.issue(NAME, names=(f"DNS:{NAME}", f"IP:{HERE}"))
        for source, target in zip(new, (cert, key), strict=True):
            target.with_suffix(".new").write_bytes(source.read_bytes())
            target.with_suffix(".new").chmod(0o600)
            target.with_suffix(".new").rename(target)
        text = new[0].read_text()
        return text[text.index("-----BEGIN") :]

    first = install()
    s = remote(TLS_CERT=cert, TLS_KEY=key)
    box = s.api.create()
    stream = s.api.ask(
        "POST", box.path + "/exec/stream", json={"command": "echo on; while [ ! -e go ]; do sleep 0.05; done; echo off"}, stream=True
    )
    assert served(s) == first
    good = cert.read_bytes()
    cert.write_bytes(good.replace(b"\n", b"\nx", 5))
    reload(s)
    assert wait_until(lambda: "the certificates in use stay" in s.tail(20000))
    told = [line for line in s.tail(20000).splitlines() if "warning" in line and "SIGHUP" in line]
    assert len(told) == 1 and str(cert) in told[0]
    assert served(s) == first and s.api.healthy()
    second = install()
    reload(s)
    assert wait_until(lambda: served(s) == second, 60)
    box.put("go", b"")
    assert b"off" in stream.content, "what was under way went on"


def test_client_certificate_stands_for_a_key(remote, far, authority, tmp_path):
    file = tmp_path / "keys"
    keygen(file, "--name", "ci", "--certificate", "ci of Acme", "--no-key")
    s = remote(KEYS_FILE=file, TLS_CLIENT_CA=authority.cert)
    env = settings(s.far_url, AGENT_SANDBOX_CA_FILE=str(authority.cert))
    del env["AGENT_SANDBOX_API_KEY"]
    ls = [BUILD / "agent-sandbox", "ls", "-q"]
    for cn, status in (("ci of Acme", 0), ("somebody", 4)):
        cert, key = authority.issue_client(cn)
        p = far.run(*ls, "--cert", cert, "--cert-key", key, env=env)
        assert p.returncode == status, p.stderr
    assert far.run(*ls, env=env).returncode == 4
