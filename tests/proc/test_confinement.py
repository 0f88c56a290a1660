"""Each program, taken over: a probe build enters the program's own confinement and then makes one attempt, which kills
it or is refused. And each program as it runs, as /proc shows it."""

import contextlib
import ctypes
import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import layout
import pytest
from machine import descriptors, read, status

KILLED = "killed"
OTHER_USER = 64200  # who starts the programs in the tests without root
ATTEMPTS = re.findall(r"^\tX\((\w+),", (layout.ROOT / "tests/tools/probe.c").read_text(), re.M)
PROGRAMS = ("apid", "managerd", "dockerd-proxy", "sessiond", "egressd", "keyd")

# Landlock's version; from 6 on it keeps a program from abstract sockets, which no root directory hides.
LANDLOCK = ctypes.CDLL(None, use_errno=True).syscall(444, None, ctypes.c_size_t(0), 1)

# What does not kill, by program: "done", or the errno it is refused with. All else kills.
EACCES, ENOENT, EPERM = 13, 2, 1
SOCKETS = (
    "connect_inet",
    "connect_host_socket",
    "connect_own_socket",
    "connect_abstract",
    "udp_socket",
    "connect_outwards",
    "new_udp_socket",
    "raw_socket",
    "ping_socket",
    "netlink_socket",
    "packet_socket",
    "vsock_socket",
)
SURVIVES = {
    # A library asks for a socket where a link-local client connects; it gets none.
    "apid": dict.fromkeys(SOCKETS, EACCES),
    # Its directory is its root: it may do there as it likes, and there is nothing else.
    "managerd": {
        "open_etc_passwd": ENOENT,
        "climb_out": ENOENT,
        "open_root": "done",
        "open_proc": ENOENT,
        "open_docker_socket_of_host": ENOENT,
        "create_file": "done",
        "create_executable": "done",
        "remove_socket": ENOENT,
        "make_directory": "done",
    },
    # One socket is in its root: the engine's.
    "dockerd-proxy": {"connect_own_socket": "done", "connect_host_socket": ENOENT, "connect_abstract": EPERM if LANDLOCK >= 6 else "done"},
    "sessiond": {},
    # It connects outwards, by sockets of the two exact kinds, and can do nothing else with them.
    "egressd": {"connect_outwards": "done", "new_udp_socket": "done"},
    "keyd": {},
}

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="starts programs as root does, and as another user"),
    pytest.mark.skipif("san-" in str(layout.BUILD), reason="sanitizers need more of the kernel than the programs promise"),
]


@pytest.fixture
def place(tmp_path):
    """A data directory and an engine's socket that anybody may reach the folder of."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder == Path("/tmp"):
            break
        os.chmod(folder, 0o755)
    (tmp_path / "data").mkdir(mode=0o700)
    engine = socket.socket(socket.AF_UNIX)
    engine.bind(str(tmp_path / "docker.sock"))
    engine.listen(8)
    os.chmod(tmp_path / "docker.sock", 0o666)
    port = socket.create_server(("127.0.0.1", 0))
    abstract = socket.socket(socket.AF_UNIX)
    with contextlib.suppress(OSError):  # another worker's will do
        abstract.bind("\0agent-sandbox-probe")
        abstract.listen(100)
    yield {"data": tmp_path / "data", "socket": tmp_path / "docker.sock", "port": port}
    for s in (engine, port, abstract):
        s.close()


def program(place, name, **more):
    fds = {"apid": ["chan", place["port"], "chan"], "managerd": ["chan"] * 4, "keyd": ["chan"] * 2}.get(name, ["chan"])
    path = {"managerd": place["data"], "dockerd-proxy": place["socket"]}.get(name, "")
    config = {"managerd": {"API_KEYS": "a-key-of-24-characters-x"}}.get(name)
    return layout.Program(name, fds, path=path, config=config, **more)


def outcome(place, name, attempt, as_root):
    """KILLED, "done" or an errno."""
    probe = layout.BUILD / "probe" / name
    if as_root:
        p = program(place, name, program=probe, argv=[name, attempt], ready=False)
    else:
        os.chown(place["data"], OTHER_USER, OTHER_USER)
        argv = ["setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups", str(probe), attempt]
        p = program(place, name, program="/usr/bin/setpriv", argv=argv, as_root=False, ready=False)
    with p:
        status = p.wait(30)
        assert status is not None, f"{name} {attempt} does not end"
        if status == -signal.SIGSYS:
            return KILLED
        said = re.search(rf"^probe {attempt}: (done|refused) (\d+)$", p.log(), re.M)
        assert status == 0 and said, f"{name} {attempt}: status {status}: {p.log()}"
        return "done" if said[1] == "done" else int(said[2])


def test_there_are_enough_attempts():
    assert len(ATTEMPTS) > 60 and len(set(ATTEMPTS)) == len(ATTEMPTS)
    assert all(set(table) <= set(ATTEMPTS) for table in SURVIVES.values())


@pytest.mark.parametrize("as_root", [True, False], ids=["root", "user"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_is_taken_over_is_killed_or_refused(place, name, as_root):
    got = {attempt: outcome(place, name, attempt, as_root) for attempt in ATTEMPTS}
    wanted = {attempt: SURVIVES[name].get(attempt, KILLED) for attempt in ATTEMPTS}
    assert got == wanted


def test_what_managerd_creates_stays_in_its_directory(place):
    assert outcome(place, "managerd", "create_file", True) == "done"
    assert [p.name for p in place["data"].iterdir()] == ["probe"]


ROOTS = {"apid": [], "dockerd-proxy": ["docker.sock"], "sessiond": [], "egressd": [], "keyd": []}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_running_program_has_what_it_needs_and_no_more(place, name):
    with program(place, name) as p:
        assert p.partial == 0
        told = status(p.pid)
        assert told["Uid"].split() == [str(p.uid)] * 4 and p.uid != 0
        assert told["Gid"].split() == [str(p.gid)] * 4
        assert told["Groups"].split() == []
        assert (told["NoNewPrivs"], told["Seccomp"], told["Threads"]) == ("1", "2", "1")
        assert {told[c].strip("0") for c in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {""}
        listing = sorted(os.listdir(f"/proc/{p.pid}/root/"))
        assert listing == (ROOTS[name] if name in ROOTS else sorted(f.name for f in place["data"].iterdir()))
        mounts = read(p.pid, "mountinfo").decode().splitlines()
        assert len(mounts) == (2 if name == "dockerd-proxy" else 1), mounts
        options = next(m.split()[5].split(",") for m in mounts if m.split()[4] == "/")
        assert {"nosuid", "nodev", "noexec"} <= set(options) and ("ro" in options) == (name != "managerd")
        limits = dict(re.findall(r"^(Max [a-z ]+?)  +(\S+)", read(p.pid, "limits").decode(), re.M))
        assert limits["Max core file size"] == "0"
        assert int(limits["Max open files"]) <= 65536
        if name in ("apid", "dockerd-proxy"):
            # Standard error is a file here, whose end is allowed for.
            assert int(limits["Max file size"]) < 2 << 30


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_running_program_holds_its_channels_and_its_own_loop(place, name):
    with program(place, name) as p:
        held = descriptors(p.pid)
        given = 3 + 1 + {"apid": 3, "managerd": 4, "keyd": 2}.get(name, 1)
        assert set(range(given)) <= set(held)
        assert held[0] == held[1] == "/dev/null"
        assert all(held[n].startswith("socket:") for n in range(3, given))
        own = [link for n, link in held.items() if n >= given]
        allowed = r"anon_inode:\[(eventpoll|eventfd|timerfd)\]|pipe:.*|socket:.*"
        if name == "managerd":
            allowed += r"|/.*"
        if name == "keyd":
            allowed += rf"|{p.trail_folder}/audit"
        assert all(re.fullmatch(allowed, link) for link in own), own


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_ends_with_its_parent(place, name):
    p = program(place, name)
    p.parent.close()
    assert p.wait(30) == 0
    p.stop()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_nobody_started_says_so(name):
    r = subprocess.run([layout.BUILD / name], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and "only agent-sandboxd starts this program" in r.stderr
