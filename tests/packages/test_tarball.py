"""The tarball, on a system that has none of its libraries, and another libc or none."""

import os
import re
import shutil
import subprocess

import pytest
from harness import Server
from machine import command_line, descendants, read

PROGRAMS = ("agent-sandboxd", "apid", "managerd", "dockerd-proxy", "egressd", "keyd", "sessiond")

# unshare passes no signal on.
PASSES_ON = """#!/bin/sh
{words} "$@" &
trap 'pkill -TERM -P $!' TERM
while kill -0 $! 2>/dev/null; do wait $!; status=$?; done
exit $status
"""


class Bare:
    """A root directory the users, musl's libc, and the tarball at a place of its own."""

    def __init__(self, folder, tarball, place="opt"):
        self.root = folder / "root"
        for d in ("bin", "dev", "etc", "lib", "old", "proc", "run", "tmp", "var/lib", place):
            (self.root / d).mkdir(parents=True)
        folder.chmod(0o755)
        shutil.copy("/bin/busybox", self.root / "bin")
        (self.root / "bin/umount").symlink_to("busybox")
        shutil.copy("/lib/ld-musl-x86_64.so.1", self.root / "lib")
        for name in ("passwd", "group"):
            lines = open(f"/etc/{name}").read().splitlines()
            (self.root / "etc" / name).write_text("".join(f"{x}\n" for x in lines if x.startswith(("root:", "_as-"))))
        subprocess.run(["tar", "-xzf", tarball, "-C", self.root / place], check=True)
        name = os.listdir(self.root / place)[0]
        self.home, self.inside = self.root / place / name, f"/{place}/{name}"

    def command(self, *command, socket=None):
        """In namespaces of its own, so that nothing is left of mounts and processes."""
        mounts = [f'mount --bind "{self.root}" "{self.root}"', f'cd "{self.root}"', "mount -t proc proc proc", "mount --rbind /dev dev"]
        if socket:
            mounts += ["touch run/docker.sock", f'mount --bind "{socket}" run/docker.sock']
        script = " && ".join([*mounts, "pivot_root . old", "/bin/umount -l /old", "cd /", 'exec "$@"'])
        return ["unshare", "-m", "-p", "-f", "--kill-child", "sh", "-c", script, "sh", *command]

    def run(self, program, *words):
        p = subprocess.run(self.command(f"{self.inside}/{program}", *words), capture_output=True, text=True, timeout=60)
        assert p.returncode == 0, p.stderr
        return p.stdout


@pytest.fixture(scope="module")
def bare(tmp_path_factory, tarball):
    return Bare(tmp_path_factory.mktemp("bare"), tarball)


@pytest.fixture(scope="module")
def server(bare, engine, tmp_path_factory):
    """The harness starts a program named agent-sandbox: here one that changes the root first."""
    start = tmp_path_factory.mktemp("start") / "agent-sandbox"
    words = " ".join(f"'{w}'" for w in bare.command(f"{bare.inside}/bin/agent-sandbox", socket=engine.sock))
    start.write_text(PASSES_ON.format(words=words))
    start.chmod(0o755)
    s = Server(engine, programs=start.parent, DATA_DIR="/var/lib/agent-sandbox")
    s.docker_host = "unix:///run/docker.sock"
    s.start()
    yield s
    s.close()


def test_commands_run_without_a_library_of_the_system(bare):
    assert sorted(os.listdir(bare.root / "lib")) == ["ld-musl-x86_64.so.1"] and not (bare.root / "lib64").exists()
    version = re.search(r"-([0-9][^-]*)-linux", bare.inside)[1]
    assert bare.run("bin/agent-sandbox", "--version") == f"agent-sandbox {version}\n"
    assert bare.run("bin/agent-sandbox", "keygen").startswith("as_")
    assert bare.run("libexec/agent-sandbox/agent-sandboxd", "--version") == f"agent-sandboxd {version}\n"


def test_server_of_the_tarball_makes_a_sandbox_on_a_system_with_another_libc(server):
    box = server.api.create()
    assert box.sh("echo $((6 * 7))") == "42\n"
    box.put("file", b"kept")
    assert box.content("file") == b"kept"
    assert server.api.ask("GET", "/healthz").json()["confinement"] == "full"
    box.delete()


def test_programs_use_their_own_libraries_and_their_own_names(server, bare):
    pids = {read(p, "comm").decode().strip(): p for p in descendants(server.process.pid)}
    assert set(PROGRAMS) - {"sessiond"} <= set(pids)
    for name in set(PROGRAMS) & set(pids):
        mapped = set(re.findall(r" (/.*)$", read(pids[name], "maps").decode(), re.M))
        mapped = {m for m in mapped if ".so" in m}
        assert mapped and all(bare.inside + "/lib/" in m for m in mapped), (name, mapped)
        assert "ld-linux" not in command_line(pids[name])


def test_it_runs_from_wherever_it_is_unpacked(tmp_path, tarball):
    moved = Bare(tmp_path, tarball, "srv/a place")
    assert moved.run("bin/agent-sandbox", "--version").startswith("agent-sandbox ")


def test_without_its_libraries_it_says_so(tmp_path, tarball):
    broken = Bare(tmp_path, tarball)
    (broken.home / "lib/ld-linux-x86-64.so.2").unlink()
    p = subprocess.run(broken.command(f"{broken.inside}/bin/agent-sandbox"), capture_output=True, text=True, timeout=60)
    assert p.returncode == 127 and "ld-linux-x86-64.so.2 is missing" in p.stderr


def test_every_library_comes_with_its_license(bare):
    licenses = os.listdir(bare.home / "share/licenses")
    assert {"agent-sandbox", "libc6", "libssl3", "libcurl4"} <= set(licenses)
    assert all((bare.home / "share/licenses" / name).stat().st_size > 200 for name in licenses)


def test_no_library_asks_for_one_that_is_not_there(bare):
    names = set(os.listdir(bare.home / "lib"))
    files = [bare.home / "lib" / n for n in names] + [p for d in ("bin", "libexec/agent-sandbox") for p in (bare.home / d).iterdir()]
    for f in files:
        said = subprocess.run(["readelf", "-dW", f], capture_output=True, text=True).stdout
        assert set(re.findall(r"\(NEEDED\).*\[(.*)\]", said)) <= names, f.name


def test_what_is_packed_belongs_to_root_and_is_not_writable_by_others(tarball):
    said = subprocess.run(["tar", "-tvzf", tarball, "--numeric-owner"], capture_output=True, text=True, check=True).stdout
    for line in said.splitlines():
        mode, owner = line.split()[:2]
        assert owner == "0/0" and mode[5] != "w" and mode[8] != "w" and not set("sStT") & set(mode), line
