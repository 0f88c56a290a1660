"""agent-sandbox, the command: serve, keygen and doctor, the last against engines of every kind that a thread plays."""

import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from machine import read

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("AS_TEST_BUILD", ROOT / "build"))
COMMAND = BUILD / "agent-sandbox"
KEY = "a-key-of-24-characters-x"
VERSION = {
    "Version": "29.7.2",
    "ApiVersion": "1.55",
    "MinAPIVersion": "1.40",
    "Components": [{"Name": "Engine", "Version": "29.7.2"}, {"Name": "runc", "Version": "1.4.2"}],
}
INFO = {
    "MemoryLimit": True,
    "SwapLimit": True,
    "PidsLimit": True,
    "CpuCfsQuota": True,
    "Driver": "overlay2",
    "DriverStatus": [["Backing Filesystem", "extfs"]],
    "CgroupVersion": "2",
    "CgroupDriver": "systemd",
    "Runtimes": {"runc": {}, "runsc": {}},
    "DefaultRuntime": "runc",
    "SecurityOptions": ["name=apparmor", "name=seccomp,profile=builtin", "name=userns"],
    "LiveRestoreEnabled": True,
}


def run(*args, env=None, cwd=None):
    base = {"PATH": os.environ["PATH"], "AGENT_SANDBOX_API_KEYS": KEY, "AGENT_SANDBOX_DISK_FLOOR_MB": "0"}
    return subprocess.run([COMMAND, *args], env=base | (env or {}), cwd=cwd, capture_output=True, text=True, timeout=60)


def test_version_and_help():
    version = (ROOT / "VERSION").read_text().strip()
    assert run("--version").stdout == f"agent-sandbox {version}\n"
    p = run("--help")
    assert p.returncode == 0 and all(word in p.stdout for word in ("serve", "keygen", "doctor"))


@pytest.mark.parametrize("args", [[], ["make"], ["keygen", "x"], ["doctor", "-f"], ["doctor", "-x", "y"], ["--version", "x"]])
def test_wrong_use_is_status_2_and_leads_to_the_help(args):
    p = run(*args)
    assert p.returncode == 2 and "--help" in p.stderr and p.stdout == ""


def test_keys_are_new_each_time_and_hold_256_bits():
    keys = {run("keygen").stdout for _ in range(20)}
    assert len(keys) == 20
    assert all(re.fullmatch(r"as_[0-9A-Za-z]{43}\n", k) for k in keys)
    letters = "".join(k[3:-1] for k in keys)
    assert len(set(letters)) > 50, "letters are missing"


def test_key_to_a_full_disk_is_an_error():
    with open("/dev/full", "w") as full:
        assert subprocess.run([COMMAND, "keygen"], stdout=full, stderr=subprocess.DEVNULL).returncode == 1


def test_serve_becomes_the_server_and_hands_all_on(tmp_path):
    """The process that was started is the parent itself, so that a signal to it is a signal to the server."""
    for name in ("agent-sandbox", "agent-sandboxd"):
        shutil.copy(BUILD / name, tmp_path)
    (tmp_path / "conf").write_text(f"AGENT_SANDBOX_API_KEYS={KEY}\n")
    for name in ("apid", "managerd", "dockerd-proxy", "egressd", "keyd", "sessiond"):
        shutil.copy(ROOT / "tests/tools/stub_child.py", tmp_path / name)
        os.chmod(tmp_path / name, 0o755)
    for folder in (tmp_path, *tmp_path.parents):
        if folder == Path("/tmp"):
            break
        os.chmod(folder, 0o755)
    p = subprocess.Popen(
        [tmp_path / "agent-sandbox", "serve", "-f", "conf", "--host", "127.0.0.1", "--port", "0"],
        cwd=tmp_path,
        env={"AGENT_SANDBOX_DATA_DIR": "data"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = next((line for line in p.stderr if "listening on" in line), "")
        assert f"agent-sandboxd[{p.pid}]" in line
        assert read(p.pid, "cmdline").split(b"\0")[0] == b"agent-sandboxd"
    finally:
        p.terminate()
        assert p.wait(30) == 0


class FakeEngine:
    """Answers GET /version and /info."""

    def __init__(self, folder, version=VERSION, info=INFO, status=200, hang=False):
        self.path = str(folder / "engine.sock")
        self.answers, self.status, self.hang = {"/version": version, "/info": info}, status, hang
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.bind(self.path)
        self.sock.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                c = self.sock.accept()[0]
            except OSError:
                return
            path = c.recv(65536).split(b" ")[1].decode()
            if self.hang:
                self.held = c
                continue
            body = self.answers[path]
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
            c.sendall(b"HTTP/1.1 %d OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (self.status, len(body)) + body)
            c.close()


def doctor(tmp_path, env=None, **engine):
    e = FakeEngine(tmp_path, **engine)
    try:
        return run("doctor", env={"DOCKER_HOST": "unix://" + e.path, "AGENT_SANDBOX_PORT": "0"} | (env or {}), cwd=tmp_path)
    finally:
        e.sock.close()


def test_doctor_and_server_say_that_the_socket_is_not_for_this_user(tmp_path):
    e = FakeEngine(tmp_path)
    os.chmod(e.path, 0)
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        os.chmod(folder, 0o755)
    env = {"AGENT_SANDBOX_API_KEYS": KEY, "DOCKER_HOST": "unix://" + e.path, "AGENT_SANDBOX_PORT": "0"}
    other = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    programs = tmp_path / "programs"  # the tree itself may be closed to others
    programs.mkdir()
    for name in ("agent-sandbox", "agent-sandboxd", "apid", "managerd", "dockerd-proxy", "egressd", "keyd", "sessiond"):
        shutil.copy(BUILD / name, programs)
    (tmp_path / "cwd").mkdir()
    os.chmod(tmp_path / "cwd", 0o777)
    where = {"cwd": tmp_path / "cwd", "env": env, "text": True} | other
    p = subprocess.run([programs / "agent-sandbox", "doctor"], capture_output=True, timeout=60, **where)
    assert any("this user may not use the engine at" in line for line in lines(p, "FAIL")), p.stdout
    server = subprocess.Popen([programs / "agent-sandbox", "serve"], stderr=subprocess.PIPE, **where)
    try:
        said = next((line for line in server.stderr if "may not use" in line or "listening" in line), "")
    finally:
        server.terminate()
        server.wait(30)
        e.sock.close()
    assert f"this user may not use {e.path}" in said


def test_an_option_that_does_not_exist_leads_to_the_help():
    p = run("serve", "--bogus")
    assert p.returncode == 2 and "--bogus" in p.stderr and "--help" in p.stderr


def lines(p, word):
    return [line[6:] for line in p.stdout.splitlines() if line.startswith(word)]


def test_doctor_finds_nothing_wrong_with_a_good_engine(tmp_path):
    p = doctor(tmp_path)
    assert p.returncode == 0 and lines(p, "FAIL") == [], p.stdout
    assert any("Landlock ABI" in line for line in p.stdout.splitlines())
    assert "engine 29.7.2, API 1.40 to 1.55" in p.stdout and "cgroup v" in p.stdout and "live-restore: sandboxes live on" in p.stdout
    assert "share this host's kernel" in p.stdout and not os.path.exists(tmp_path / "data"), "doctor changes nothing"


@pytest.mark.parametrize(
    ("engine", "word"),
    [
        ({"version": VERSION | {"Components": [{"Name": "Podman Engine", "Version": "5.4"}]}}, "Podman"),
        ({"version": VERSION | {"ApiVersion": "1.40", "MinAPIVersion": "1.12"}}, "API"),
        ({"version": VERSION | {"ApiVersion": "1.70", "MinAPIVersion": "1.56"}}, "API"),
        ({"version": b"not json"}, "not understood"),
        ({"version": {}}, "not understood"),
        ({"version": []}, "not understood"),
        ({"info": b"[" * 5000}, "not understood"),
        ({"info": INFO | {"PidsLimit": False}}, "PidsLimit"),
        ({"info": INFO | {"MemoryLimit": False}}, "MemoryLimit"),
        ({"info": INFO | {"CpuCfsQuota": False}}, "CpuCfsQuota"),
        ({"info": INFO | {"SecurityOptions": []}}, "seccomp"),
        ({"info": INFO | {"Runtimes": None}, "env": {"AGENT_SANDBOX_DOCKER_RUNTIME": "runsc"}}, "runsc"),
        ({"status": 500}, "status 500"),
        ({"hang": True}, "does not answer"),
    ],
)
def test_doctor_says_what_would_not_work(tmp_path, engine, word):
    p = doctor(tmp_path, **engine)
    assert p.returncode == 1 and any(word in line for line in lines(p, "FAIL")), p.stdout


@pytest.mark.parametrize(
    ("engine", "level", "word"),
    [
        ({"version": VERSION | {"Version": "20.10.24+dfsg1", "ApiVersion": "1.41"}}, "weak", "CVE-2026-41567"),
        ({"version": VERSION | {"Components": [{"Name": "runc", "Version": "1.1.5"}]}}, "weak", "CVE-2024-21626"),
        ({"info": INFO | {"SecurityOptions": ["name=seccomp"]}}, "weak", "AppArmor"),
        ({"info": INFO | {"SwapLimit": False}}, "weak", "swap"),
        ({"info": INFO | {"LiveRestoreEnabled": False}}, "note", "no live-restore"),
        ({"env": {"AGENT_SANDBOX_DOCKER_RUNTIME": "runsc"}}, "weak", "--oci-seccomp"),
        ({"env": {"AGENTBOX_SNAPSHOT_DIR": "/tmp/x"}}, "note", "AGENTBOX_SNAPSHOT_DIR"),
    ],
)
def test_doctor_says_what_is_weaker(tmp_path, engine, level, word):
    p = doctor(tmp_path, **engine)
    assert p.returncode == 0 and any(word in line for line in lines(p, level)), p.stdout
    assert any("a distribution may have mended" in line for line in lines(p, "note")) == word.startswith("CVE")


def test_doctor_is_content_with_gvisor_that_has_a_filter(tmp_path):
    runsc = {"path": "/usr/bin/runsc", "runtimeArgs": ["--platform=systrap", "--oci-seccomp"]}
    p = doctor(tmp_path, info=INFO | {"Runtimes": {"runc": {}, "runsc": runsc}}, env={"AGENT_SANDBOX_DOCKER_RUNTIME": "runsc"})
    assert p.returncode == 0 and not any("gVisor" in line for line in lines(p, "weak")), p.stdout


@pytest.mark.parametrize(
    ("env", "word"),
    [
        ({"DOCKER_HOST": "unix:///nonexistent/sock"}, "no engine at /nonexistent/sock"),
        ({"DOCKER_HOST": "tcp://127.0.0.1:1"}, "only unix:///"),
        ({"AGENT_SANDBOX_API_KEYS": "short"}, "API_KEYS"),
        ({"AGENT_SANDBOX_HOST": "name.invalid"}, "AGENT_SANDBOX_HOST"),
        ({"AGENT_SANDBOX_DATA_DIR": "/dev/null"}, "DATA_DIR"),
        ({"AGENT_SANDBOX_DISK_FLOOR_MB": "1048576", "AGENT_SANDBOX_DATA_DIR": "/"}, "DISK_FLOOR_MB"),
    ],
)
def test_doctor_says_what_is_wrong_with_the_settings(tmp_path, env, word):
    p = doctor(tmp_path, env=env)
    assert p.returncode == 1 and any(word in line for line in lines(p, "FAIL")), p.stdout


def test_doctor_reads_the_file_that_serve_would_read(tmp_path):
    (tmp_path / "conf").write_text("AGENT_SANDBOX_PORTS=1\n")
    p = run("doctor", "-f", str(tmp_path / "conf"))
    assert any("AGENT_SANDBOX_PORTS" in line for line in lines(p, "FAIL"))


def test_doctor_knows_the_data_directory_as_the_server_leaves_it(tmp_path):
    def said(word):
        return [x for x in lines(run("doctor", env={"AGENT_SANDBOX_DATA_DIR": str(tmp_path)}), word) if x.startswith("data directory")]

    if os.geteuid() == 0:
        assert said("note") == [f"data directory {tmp_path} belongs to user 0: it is taken over if it is empty"]
        os.chown(tmp_path, 0, pwd.getpwnam("_as-manager").pw_gid)
    assert (said("ok"), said("note")) == ([f"data directory {tmp_path}"], [])


@pytest.mark.parametrize("kind", ["fifo", "link", "endless"])
def test_doctor_waits_for_nothing_and_follows_nothing_that_managerd_may_have_put_there(tmp_path, kind):
    report = tmp_path / "pool.json"
    if kind == "fifo":
        os.mkfifo(report)
    elif kind == "link":
        report.symlink_to("/dev/zero")
    else:
        with open(report, "wb") as f:
            f.truncate(1 << 40)
    p = doctor(tmp_path, env={"AGENT_SANDBOX_DATA_DIR": str(tmp_path)})
    said = [line for line in lines(p, "FAIL") if "pool.json" in line]
    assert said == ([] if kind == "endless" else [f"{report}: it is not a regular file"]), p.stdout
    assert p.returncode == bool(said)


def test_doctor_never_prints_a_key(tmp_path):
    assert KEY not in doctor(tmp_path).stdout


def test_doctor_as_json_is_a_list_of_findings():
    p = run("doctor", "--json")
    found = json.loads(p.stdout)
    assert {f["finding"] for f in found} <= {"ok", "note", "weak", "FAIL"} and all(f["text"] for f in found) and len(found) > 5
    assert p.returncode == any(f["finding"] == "FAIL" for f in found)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "[::1]", "localhost"])
def test_doctor_takes_the_addresses_that_the_server_takes(tmp_path, host):
    p = doctor(tmp_path, env={"AGENT_SANDBOX_HOST": host})
    assert p.returncode == 0 and f"port 0 of {host} is free" in p.stdout, p.stdout


def test_doctor_as_json_leaves_no_finding_out_whatever_a_path_is():
    p = run("doctor", "--json", env={"AGENT_SANDBOX_DATA_DIR": b"/dev/null/\xff"})
    assert p.returncode == 1
    wrong = [f["text"] for f in json.loads(p.stdout) if f["finding"] == "FAIL"]
    assert any("AGENT_SANDBOX_DATA_DIR" in text and "\\xff" in text for text in wrong), wrong
