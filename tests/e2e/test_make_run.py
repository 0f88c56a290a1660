"""The two commands of a new user, as far as a test can be one: make run, its bad cases, make install."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from harness import ROOT, Api, Box
from machine import SLACK, alive, command_line, descendants, free_port, link, send, wait_until


@pytest.fixture
def home():
    """A place for make run's engine and data that is not the machine's."""
    import tempfile

    d = Path(tempfile.mkdtemp(prefix="as-run-"))
    d.chmod(0o755)
    yield d
    mounts = [line.split()[1] for line in open("/proc/mounts") if str(d) in line]
    shutil.rmtree(d, ignore_errors=True)
    assert not mounts and not d.exists()


class Run:
    """tools/run in a network namespace of its own, so that no engine of the machine and no registry answers."""

    def __init__(self, home, **env):
        self.home, self.port = home, 8080
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("AGENT_SANDBOX_", "DOCKER"))}
        self.log = open(home / "log", "w+")
        self.p = subprocess.Popen(
            ["unshare", "-n", "-m", "sh", "-c", "ip link set lo up; mount -t tmpfs none /run; exec tools/run"],
            cwd=ROOT, env=clean | {"RUN_HOME": str(home)} | env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
        )  # fmt: skip

    def text(self):
        return (self.home / "log").read_text()

    def inside(self, *command):
        return subprocess.run(["nsenter", f"-t{self.p.pid}", "-n", "--", *command], cwd=ROOT, capture_output=True, text=True, timeout=60)

    def curl(self, path, body=None):
        key = (self.home / "keys/key").read_text()
        data = ["--json", body] if body else []
        return self.inside("curl", "-s", "-H", f"X-API-Key: {key}", *data, f"http://127.0.0.1:8080{path}").stdout

    def end(self):
        pids = descendants(self.p.pid)
        self.p.send_signal(signal.SIGTERM)
        try:
            self.p.wait(30)
        finally:
            if self.p.poll() is None:
                self.p.kill()
        assert wait_until(lambda: not any(alive(p) for p in pids)), [command_line(p) for p in pids if alive(p)]


@pytest.mark.limit(150)
def test_make_run_brings_an_engine_and_an_image_and_keeps_key_and_workspaces(home):
    if Path("/run/systemd/system").exists():
        pytest.skip("systemd runs here and would start its own engine")
    r = Run(home)
    try:
        assert wait_until(lambda: "Paste" in r.text() or r.p.poll() is not None, 100) and r.p.poll() is None, r.text()
        said = r.text()
        assert "agent-sandbox/debian-python:" in said and "no registry answers" in said
        lines = [line for line in said.splitlines() if line.startswith(("id=", "curl "))]
        assert len(lines) == 3 and all(f"$(cat {home}/keys/key)" in line for line in lines) and '"network": true' in said
        doctor = next(line for line in said.splitlines() if line.startswith("What this machine gives")).partition(": ")[2]
        assert "ok    engine " in r.inside("sh", "-c", doctor).stdout, "what is printed shows the engine that this run has"
        made = r.inside("sh", "-c", lines[0])
        assert re.fullmatch(r"sb_[0-9a-f]{16}\n", made.stdout), made
        sandbox = made.stdout.strip()
        streamed = r.inside("sh", "-c", f"id={sandbox}\n{lines[2]}")
        assert '"data":"3\\n"' in streamed.stdout, streamed
        assert r.curl(f"/v1/sandboxes/{sandbox}/exec", '{"command": "python --version && pip --version && git --version && echo x > kept"}')
        key = (home / "keys/key").read_text()
        assert len(key) >= 32 and (home / "keys/key").stat().st_mode & 0o777 == 0o600
    finally:
        r.end()
    assert "workspaces stay" in r.text()
    began = time.monotonic()
    r = Run(home)
    try:
        assert wait_until(lambda: "Paste" in r.text() or r.p.poll() is not None, 60) and r.p.poll() is None, r.text()
        assert time.monotonic() - began < 15 + SLACK
        assert (home / "keys/key").read_text() == key
        assert '"stdout":"x\\n"' in r.curl(f"/v1/sandboxes/{sandbox}/exec", '{"command": "cat kept"}')
    finally:
        r.end()


def test_make_run_uses_the_engine_that_docker_host_names(engine, home):
    port = free_port()
    env = {k: v for k, v in os.environ.items() if not k.startswith(("AGENT_SANDBOX_", "DOCKER"))}
    env |= {"RUN_HOME": str(home), "DOCKER_HOST": engine.url, "AGENT_SANDBOX_PORT": str(port)}
    # What it says of the key, the address and the data is so, whatever else the shell has.
    env |= {"AGENT_SANDBOX_API_KEYS": "another-key-of-this-shell", "AGENTBOX_HOST": "127.0.0.2", "AGENT_SANDBOX_DATA_DIR": "/none/data"}
    with open(home / "log", "w") as log:
        p = subprocess.Popen([ROOT / "tools/run"], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        assert wait_until(lambda: "Paste" in (home / "log").read_text() or p.poll() is not None, 40) and p.poll() is None
        assert f"using the Docker engine at {engine.sock}" in (home / "log").read_text()
        api = Api(f"http://127.0.0.1:{port}", (home / "keys/key").read_text())
        b = Box(api, api.post_sandbox({"memory_mb": 64}).json())
        assert b.sh("echo on") == "on\n"
        # Another run beside it cannot have its data, and takes nothing from it that it needs after a crash.
        other = env | {"AGENT_SANDBOX_PORT": str(free_port())}
        second = subprocess.run([ROOT / "tools/run"], env=other, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert second.returncode == 2 and "in use by another server" in second.stderr, second
        apid = next(c for c in descendants(p.pid) if link(c, "exe").endswith("/apid"))
        assert send(apid)
        assert wait_until(lambda: not alive(apid) and api.fresh().healthy()), (home / "log").read_text()
        assert b.sh("echo on") == "on\n"
        assert b.delete().status_code == 204
    finally:
        p.send_signal(signal.SIGINT)
        assert p.wait(30) is not None
    assert sorted(f.name for f in (home / "keys").iterdir()) == ["key"]


def refused(home, **env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("AGENT_SANDBOX_", "DOCKER"))}
    p = subprocess.run([ROOT / "tools/run"], env=clean | {"RUN_HOME": str(home)} | env, stdin=subprocess.DEVNULL, capture_output=True,
                       text=True, timeout=60)  # fmt: skip
    assert p.returncode == 1, (p.returncode, p.stdout, p.stderr)
    said = [line for line in p.stderr.splitlines() if line]
    assert len(said) == 1, p.stderr
    return said[0]


def test_bad_cases_of_make_run_are_one_clear_line_each(home, tmp_path):
    for host in ("tcp://127.0.0.1:2375", "ssh://root@box", "npipe:////x"):
        assert host in refused(home, DOCKER_HOST=host) and "unix://" in refused(home, DOCKER_HOST=host)
    assert "no Docker engine answers" in refused(home, DOCKER_HOST="unix:///none/docker.sock")
    hung = socket.socket(socket.AF_UNIX)
    hung.bind(str(tmp_path / "hung.sock"))
    hung.listen()
    assert "no Docker engine answers" in refused(home, DOCKER_HOST=f"unix://{tmp_path}/hung.sock")
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert port in refused(home, AGENT_SANDBOX_PORT=port, DOCKER_HOST="unix:///none")
    for port in ("0", "99999", "100000000000000000000", "80 80", "http", "-1"):
        assert f"AGENT_SANDBOX_PORT={port}: must be" in refused(home, AGENT_SANDBOX_PORT=port, DOCKER_HOST="unix:///none")


def test_without_root_and_sudo_make_run_says_so(home):
    shutil.copytree(ROOT / "tools", home / "tree/tools")
    (home / "tree/build").mkdir()
    (home / "tree/build/agent-sandbox").symlink_to("/bin/true")
    be = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "-i", "PATH=/usr/bin:/bin", f"RUN_HOME={home}/none"]
    command = ["unshare", "-n", *be, home / "tree/tools/run"]
    p = subprocess.run(command, cwd=home, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert p.returncode == 1 and "root" in p.stderr and len(p.stderr.strip().splitlines()) == 1, p.stderr


def test_missing_packages_are_named_with_the_command_that_installs_them(tmp_path):
    fake = tmp_path / "dpkg-query"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin:/usr/sbin:/sbin"}
    p = subprocess.run([ROOT / "tools/packages", "check", "image", "engine"], env=env, capture_output=True, text=True)
    assert p.returncode == 1 and "apt-get install" in p.stderr and "docker.io" in p.stderr


def test_make_install_puts_everything_where_it_runs_from(tmp_path):
    subprocess.run(["make", "install", f"DESTDIR={tmp_path}", "PREFIX=/usr"], cwd=ROOT, check=True, capture_output=True, timeout=300)
    assert (tmp_path / "usr/bin/agent-sandbox").exists()
    found = {f.name for f in tmp_path.rglob("*") if f.is_file()}
    assert {"agent-sandboxd", "apid", "managerd", "dockerd-proxy", "sessiond", "agent-sandbox.8", "LICENSE"} <= found
    assert {"SECURITY.md", "agent-sandbox.conf", "agent-sandbox.nft", "agent-sandbox.sysusers", "create-users.sh"} <= found
    out = subprocess.run([tmp_path / "usr/bin/agent-sandbox", "--version"], capture_output=True, text=True)
    assert (ROOT / "VERSION").read_text().strip() in out.stdout
    assert subprocess.run(["make", "-n", "help"], cwd=ROOT, capture_output=True).returncode == 0
