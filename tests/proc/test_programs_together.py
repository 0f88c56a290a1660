"""All programs for real, without an engine: what each holds when it runs, restarts of each, and the end of all."""

import http.client
import json
import os
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from machine import SLACK, alive, children, descriptors, read, send, status, wait_until

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("AS_TEST_BUILD", ROOT / "build"))
PROGRAMS = ("apid", "managerd", "dockerd-proxy", "egressd", "keyd")
KEY = "a-key-of-24-characters-x"
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="starts the programs as root does"),
    pytest.mark.skipif(not all((BUILD / n).exists() for n in (*PROGRAMS, "sessiond")), reason="not all programs are built"),
]


class Server:
    def __init__(self, folder):
        self.dir = folder
        self.log = open(folder / "log", "w+")
        env = {"AGENT_SANDBOX_API_KEYS": KEY, "AGENT_SANDBOX_PORT": "0", "AGENT_SANDBOX_DATA_DIR": str(folder / "data")}
        env |= {"DOCKER_HOST": f"unix://{folder}/engine.sock"}
        self.proc = subprocess.Popen(
            [BUILD / "agent-sandbox", "serve"], env=env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log
        )
        found = wait_until(lambda: re.search(r"listening on http://127.0.0.1:(\d+)", self.text()) or self.proc.poll() is not None)
        assert found and self.proc.poll() is None, self.text()
        self.port = int(found[1])

    def text(self):
        return (self.dir / "log").read_text(errors="replace")

    def children(self):
        """Name and process id of each program that runs."""
        return {read(p, "comm").decode().strip(): p for p in children(self.proc.pid) if alive(p)}

    def get(self, path, key=KEY):
        req = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers={"X-API-Key": key})
        try:
            with urllib.request.urlopen(req, timeout=30) as r:
                return r.status, json.load(r)
        except urllib.error.HTTPError as e:
            return e.code, json.load(e)

    def connects(self):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture
def server(tmp_path):
    for folder in (tmp_path, *tmp_path.parents):
        if folder == Path("/tmp"):
            break
        os.chmod(folder, 0o755)
    s = Server(tmp_path)
    yield s
    if s.proc.poll() is None:
        s.proc.kill()
        s.proc.wait()
    s.log.close()


def test_without_an_engine_it_serves_and_says_so(server):
    assert server.get("/healthz")[0] == 502
    assert server.get("/v1/sandboxes") == (200, {"sandboxes": [], "next_cursor": None})
    assert server.get("/v1/sandboxes", key="x" * 20)[0] == 401


def test_every_program_holds_only_what_it_needs(server):
    uids = set()
    for name, pid in server.children().items():
        st = status(pid)
        assert st["Seccomp"] == "2" and st["NoNewPrivs"] == "1", name
        assert int(st["CapEff"], 16) == int(st["CapPrm"], 16) == int(st["CapBnd"], 16) & int(st["CapEff"], 16) == 0, name
        assert len(set(st["Uid"].split())) == 1 and st["Uid"].split()[0] != "0" and len(set(st["Gid"].split())) == 1, name
        assert st["Groups"].split() in ([], [st["Gid"].split()[0]]), name
        uids.add(st["Uid"].split()[0])
        assert read(pid, "environ") == b"" and read(pid, "cmdline") == name.encode() + b"\0"
        held = descriptors(pid)
        expected = {0: "/dev/null", 1: "/dev/null", 2: str(server.dir / "log")}
        assert {n: held[n] for n in expected} == expected, name
        others = {n: link for n, link in held.items() if n > 2 and not link.startswith(("socket:", "anon_inode:", "pipe:"))}
        if name == "keyd":
            assert list(others.values()) == [str(server.dir / "data/keyd/audit")], others
        else:
            assert not others or (name == "managerd" and all(link.startswith("/") for link in others.values())), (name, others)
        assert [n for n, link in held.items() if link.startswith("socket:")][:2] == [3, 4], name
    assert len(uids) == 5


def test_only_apid_has_the_port(server):
    inode = next(line.split()[9] for line in Path("/proc/net/tcp").read_text().splitlines() if f":{server.port:04X} 00000000" in line)
    holders = {name for name, pid in server.children().items() if f"socket:[{inode}]" in descriptors(pid).values()}
    assert holders == {"apid"} and f"socket:[{inode}]" in descriptors(server.proc.pid).values()


@pytest.mark.parametrize("name", PROGRAMS)
def test_killed_program_means_that_the_next_request_works(server, name):
    before = server.children()
    assert send(before[name])
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            answer = server.get("/v1/sandboxes")
            if answer[0] == 200 and not set(server.children().values()) & set(before.values()):
                break
        except (OSError, ValueError, http.client.HTTPException):
            assert server.connects(), "the port was closed"
    assert server.get("/v1/sandboxes")[0] == 200 and wait_until(lambda: set(server.children()) == set(PROGRAMS))
    assert not set(server.children().values()) & set(before.values())


def test_kill_9_of_the_parent_leaves_nothing_and_closes_the_port(server):
    pids = list(server.children().values())
    server.proc.kill()
    server.proc.wait()
    assert wait_until(lambda: not any(alive(p) for p in pids))
    assert wait_until(lambda: not server.connects())


def test_stop_is_quick_and_has_status_0(server):
    pids = list(server.children().values())
    t = time.monotonic()
    server.proc.terminate()
    assert server.proc.wait(30) == 0 and time.monotonic() - t < 1.5 + SLACK
    assert not any(alive(p) for p in pids)
    assert "fatal" not in server.text() and "was ended by" not in server.text(), server.text()


def test_stop_with_an_open_connection_is_within_4_seconds(server):
    with socket.create_connection(("127.0.0.1", server.port)) as c:
        c.sendall(b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n")
        t = time.monotonic()
        server.proc.terminate()
        assert server.proc.wait(30) == 0 and time.monotonic() - t < 4 + SLACK


def test_second_server_on_the_same_data_directory_is_one_clear_line(server, tmp_path):
    env = {"AGENT_SANDBOX_API_KEYS": KEY, "AGENT_SANDBOX_PORT": "0", "AGENT_SANDBOX_DATA_DIR": str(tmp_path / "data")}
    p = subprocess.run([BUILD / "agent-sandboxd"], env=env, capture_output=True, text=True, timeout=60)
    assert p.returncode == 2 and len([line for line in p.stderr.splitlines() if ": fatal: " in line and "managerd" in line]) == 1, p.stderr
    assert server.get("/v1/sandboxes")[0] == 200
