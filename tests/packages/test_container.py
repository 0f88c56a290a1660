"""The server in one container, as etc/compose.yaml and etc/Dockerfile make it, with the engine's socket mounted."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from machine import free_port, wait_until

ROOT = Path(__file__).resolve().parents[2]
KEY = "a-key-of-the-container-xyz"


class Composed:
    """What "docker compose up" makes on the private engine, whose host network is the engine's own namespace."""

    def __init__(self, engine, folder):
        self.engine, self.port, self.folder = engine, free_port(), folder
        self.project = f"as{os.getpid()}"
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder), "DOCKER_HOST": engine.url, "DOCKER_SOCKET": str(engine.sock)}
        self.env |= {"AGENT_SANDBOX_API_KEYS": KEY, "AGENT_SANDBOX_PORT": str(self.port), "COMPOSE_PROJECT_NAME": self.project}

    def compose(self, *words, check=True, **env):
        p = subprocess.run(
            ["docker-compose", "-f", ROOT / "etc/compose.yaml", *words], env=self.env | env, capture_output=True, text=True, timeout=240
        )
        assert not check or p.returncode == 0, p.stdout + p.stderr
        return p

    def ask(self, method, path, body=None):
        """curl, in the network of the engine."""
        command = ["nsenter", f"-t{self.engine.holder()}", "-n", "--", "curl", "-s", "-X", method, "-H", f"X-API-Key: {KEY}"]
        command += ["--json", json.dumps(body)] if body is not None else []
        p = subprocess.run([*command, f"http://127.0.0.1:{self.port}{path}"], capture_output=True, text=True, timeout=120)
        return json.loads(p.stdout) if p.stdout.strip() else None

    def container(self):
        return self.compose("ps", "-q", "agent-sandbox").stdout.strip()


@pytest.fixture(scope="module")
def server(engine, tarball, tmp_path_factory):
    c = Composed(engine, tmp_path_factory.mktemp("compose"))
    try:
        c.compose("build")
        c.compose("up", "-d")
        assert wait_until(lambda: (c.ask("GET", "/healthz") or {}).get("status") == "ok", 90), c.compose("logs").stdout[-3000:]
        yield c
    finally:
        for box in (c.ask("GET", "/v1/sandboxes") or {}).get("sandboxes", []):
            c.ask("DELETE", "/v1/sandboxes/" + box["id"])
        c.compose("down", "-v", "--rmi", "all", check=False)


def test_context_of_the_build_has_what_the_dockerfile_takes(tarball):
    text = (ROOT / "etc/Dockerfile").read_text()
    assert f"ARG VERSION={(ROOT / 'VERSION').read_text().strip()}\n" in text
    for name in ("passwd", "group", "Dockerfile"):
        assert (tarball.parent / name).exists()
    users = re.findall(r"^(_as-\w+):", (tarball.parent / "passwd").read_text(), re.M)
    assert sorted(users) == sorted(re.findall(r'"(_as-[a-z]+)"', (ROOT / "agent-sandboxd/paths.c").read_text()))
    assert sorted(users) == sorted(re.findall(r"^(_as-\w+):", (tarball.parent / "group").read_text(), re.M))


def test_server_in_a_container_makes_a_sandbox_that_works(server):
    box = server.ask("POST", "/v1/sandboxes", {})["id"]
    got = server.ask("POST", f"/v1/sandboxes/{box}/exec", {"command": "echo $((6 * 7)); id -u"})
    assert got["stdout"] == "42\n1000\n" and got["exit_code"] == 0
    snap = server.ask("POST", f"/v1/sandboxes/{box}/snapshots", {})["id"]
    assert server.ask("POST", f"/v1/snapshots/{snap}/fork", {})["id"] != box


def test_separation_inside_is_the_same(server):
    """Each program has its user, no capability and its filter; and the root directory of the container is not theirs."""
    assert server.ask("GET", "/healthz")["confinement"] == "full"
    top = server.engine.docker("top", server.container(), "-eo", "pid,uid,comm").splitlines()[1:]
    programs = {comm: (pid, uid) for pid, uid, comm in (line.split() for line in top)}
    names = {"apid", "managerd", "dockerd-proxy", "egressd", "keyd"}
    assert names <= set(programs) and len({programs[n][1] for n in names}) == 5 and "0" not in {programs[n][1] for n in names}
    for name in names:
        command = ["nsenter", f"-t{server.engine.holder()}", "-m", "-p", "--", "cat", f"/proc/{programs[name][0]}/status"]
        status = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert re.search(r"^CapEff:\s+0+$", status, re.M) and re.search(r"^Seccomp:\s+2$", status, re.M), name


def test_container_has_nothing_but_the_server(server):
    out = server.folder / "root.tar"
    with open(out, "wb") as f:
        subprocess.run(["docker", "export", server.container()], env=server.env, stdout=f, check=True, timeout=120)
    names = {n.split("/")[0] for n in subprocess.run(["tar", "-tf", out], capture_output=True, text=True, check=True).stdout.split()}
    assert not names & {"bin", "sbin", "usr", "lib", "lib64", "root", "home"}, names


def test_sandboxes_outlive_the_container_of_the_server(server):
    box = server.ask("POST", "/v1/sandboxes", {})["id"]
    server.ask("PUT", f"/v1/sandboxes/{box}/files?path=kept", {})
    server.compose("up", "-d", "--force-recreate")
    assert wait_until(lambda: (server.ask("GET", "/healthz") or {}).get("status") == "ok", 90)
    assert server.ask("POST", f"/v1/sandboxes/{box}/exec", {"command": "ls"})["stdout"] == "kept\n"


def test_without_a_key_compose_says_what_is_missing(server):
    p = server.compose("config", check=False, AGENT_SANDBOX_API_KEYS="")
    assert p.returncode != 0 and "agent-sandbox keygen" in p.stderr


def test_command_of_the_dockerfile_is_the_one_that_compose_runs():
    build = re.search(r"docker build -f (\S+) -t agent-sandbox (\S+)", (ROOT / "etc/Dockerfile").read_text())
    assert build[1] == "etc/Dockerfile" and build[2] == "build/tarball" and shutil.which("docker")
