"""What /proc says of the running programs: users, rights, roots, descriptors, limits, libraries, hardening."""

import os
import pwd
import re
import subprocess
from pathlib import Path

import pytest
from harness import BUILD, PROGRAMS
from machine import alive, descriptors, kib, status, wait_until

USERS = {
    "apid": "_as-api",
    "managerd": "_as-manager",
    "dockerd-proxy": "_as-docker",
    "egressd": "_as-egress",
    "keyd": "_as-key",
    "sessiond": "_as-session",
}
CHILDREN = list(USERS)


@pytest.fixture(scope="module")
def running(engine):
    """A server with two sandboxes, one of them at work."""
    from harness import Server

    s = Server(engine).start()
    a, b = s.api.create(memory_mb=64), s.api.create(memory_mb=64)
    a.exec("true")
    events = b.stream("echo on; sleep 600", timeout_seconds=900, timeout=900)
    events.next()
    yield s
    events.close()
    s.close()


def each(s, *names):
    return [(name, pid) for name in names or PROGRAMS for pid in s.pids()[name]]


def test_each_program_has_its_own_user_and_no_capability(running):
    for name, pid in each(running, *CHILDREN):
        user = pwd.getpwnam(USERS[name])
        st = status(pid)
        assert st["Uid"].split() == [str(user.pw_uid)] * 4 and st["Gid"].split() == [str(user.pw_gid)] * 4, name
        for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            assert int(st[kind], 16) == 0, (name, kind)
        groups = st["Groups"].split()
        if name == "dockerd-proxy":
            assert groups == [str(os.stat(running.engine.sock).st_gid)]
        else:
            assert groups == [], name


def test_no_program_can_gain_rights_and_each_has_a_filter(running):
    for name, pid in each(running):
        st = status(pid)
        assert (st["NoNewPrivs"], st["Seccomp"]) == ("1", "2"), name
        if name != "agent-sandboxd":
            assert Path(f"/proc/{pid}/mem").stat().st_uid == 0, f"{name} can be dumped or traced by its user"


def test_roots_are_empty_but_for_what_is_needed(running):
    for name, pid in each(running, *CHILDREN):
        root = Path(f"/proc/{pid}/root")
        seen = sorted(p.name for p in root.iterdir())
        if name in ("apid", "egressd", "keyd", "sessiond"):
            assert seen == [], (name, seen)
        elif name == "dockerd-proxy":
            assert seen == ["docker.sock"]
        else:
            assert set(seen) <= {"instance.json", "pool.json", "sandboxes", "snapshots", "audit.log", "lock", "keyd"} | {
                x for x in seen if x.startswith("id")
            }, seen
        assert os.readlink(f"/proc/{pid}/cwd") == "/" or name == "managerd"


def test_descriptors_are_exactly_those_that_are_needed(running):
    """Sockets by their number, libevent's own, the log; no file of others, no directory."""
    kinds = {
        "apid": r"socket:|anon_inode:\[(eventpoll|eventfd|timerfd)\]|/dev/null|pipe:",
        "managerd": r"socket:|anon_inode:\[(eventpoll|eventfd|timerfd)\]|/dev/null|pipe:|/(audit\.log|instance\.json|lock|sandboxes|snapshots)?$|.*/data(/|$)",
        "dockerd-proxy": r"socket:|anon_inode:\[(eventpoll|eventfd|timerfd)\]|/dev/null|pipe:",
        "egressd": r"socket:|anon_inode:\[(eventpoll|eventfd|timerfd)\]|/dev/null|pipe:",
        "keyd": r"socket:|anon_inode:\[(eventpoll|eventfd|timerfd)\]|/dev/null|pipe:|.*/keyd/audit$",
        "sessiond": r"socket:|anon_inode:\[(eventpoll|eventfd|timerfd)\]|/dev/null|pipe:",
    }
    most = {"apid": 16, "managerd": 24, "dockerd-proxy": 16, "egressd": 16, "keyd": 10, "sessiond": 12}
    for name, pid in each(running, *CHILDREN):
        fds = descriptors(pid)
        assert fds[0] == fds[1] == "/dev/null", (name, fds)
        log = str(running.log)
        for fd, target in fds.items():
            if target != log:
                assert re.match(kinds[name], target), (name, fd, target)
        assert len(fds) <= most[name] + 2 * (name == "managerd"), (name, fds)


def test_limits_allow_no_core_no_process_and_few_descriptors(running):
    for name, pid in each(running, *CHILDREN):
        limits = Path(f"/proc/{pid}/limits").read_text()

        def hard(what, text=limits):
            return re.search(rf"^{what}\s+(\S+)\s+(\S+)", text, re.M)[2]

        assert hard("Max core file size") == "0", name
        assert int(hard("Max open files")) <= 65536, name
        if name in ("apid", "dockerd-proxy"):
            # The log is a regular file here, which needs room; nothing else can be opened for writing.
            size = int(hard("Max file size"))
            assert size == 0 or 1 << 30 <= size < (1 << 30) + (1 << 20), (name, size)


def test_no_secret_is_in_an_argument_or_environment(running):
    for name, pid in each(running):
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        if name != "agent-sandboxd":
            assert environment.strip(b"\0") == b"", (name, environment)
        assert b"e2e-key" not in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_sessiond_of_one_sandbox_knows_nothing_of_the_other(running):
    first, second = running.pids()["sessiond"][:2]
    mine, other = descriptors(first), descriptors(second)
    shared = {t for t in mine.values() if t.startswith("socket:")} & {t for t in other.values() if t.startswith("socket:")}
    assert shared == set(), shared


def test_health_says_that_the_confinement_is_whole(running):
    assert running.api.ask("GET", "/healthz").json()["confinement"] == "full"


def test_program_whose_parent_is_gone_ends(own):
    s = own()
    s.api.create(memory_mb=64)
    pids = s.tree()
    s.process.kill()
    s.process.wait(30)
    assert wait_until(lambda: not any(alive(p) for p in pids))
    s.api.fresh()
    s.start()


LIBRARIES = {
    "apid": {
        "libevent_core-2.1.so.7",
        "libevent_extra-2.1.so.7",
        "libevent_openssl-2.1.so.7",
        "libjansson.so.4",
        "libcrypto.so.3",
        "libssl.so.3",
    },
    "agent-sandbox": {"libcurl.so.4", "libjansson.so.4", "libcrypto.so.3", "libarchive.so.13"},
    "dockerd-proxy": {"libcurl.so.4", "libjansson.so.4", "libevent_core-2.1.so.7"},
    "managerd": {"libjansson.so.4", "libevent_core-2.1.so.7", "libcrypto.so.3"},
    "egressd": {"libevent_core-2.1.so.7", "libcares.so.2"},
    "keyd": {"libevent_core-2.1.so.7", "libcrypto.so.3"},
    "sessiond": {"libevent_core-2.1.so.7", "libcrypto.so.3", "libzstd.so.1"},
    "agent-sandboxd": set(),
}


def needed(program):
    out = subprocess.run(["readelf", "-d", BUILD / program], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\(NEEDED\).*\[(.+?)\]", out)), out


@pytest.mark.parametrize("program", list(LIBRARIES))
def test_program_links_what_the_design_lists_and_is_hardened(program):
    if "san-" in str(BUILD):
        pytest.skip("a sanitizer build links its runtime")
    libraries, dynamic = needed(program)
    extra = libraries - LIBRARIES[program] - {"libc.so.6", "libbsd.so.0"}
    assert not extra, extra
    headers = subprocess.run(["readelf", "-lhW", BUILD / program], capture_output=True, text=True, check=True).stdout
    assert "DYN (Position-Independent Executable file)" in headers
    assert "GNU_RELRO" in headers and ("BIND_NOW" in dynamic or "NOW" in dynamic)
    assert re.search(r"GNU_STACK.* RW ", headers), "the stack is executable"
    symbols = subprocess.run(["nm", "-D", BUILD / program], capture_output=True, text=True, check=True).stdout
    assert "__stack_chk_fail" in symbols and "_chk@" in symbols, "no stack protector, or no checked string functions"
    assert (BUILD / program).read_bytes().count(b"\xf3\x0f\x1e\xfa") > 20, "no landing pads for indirect branches"


def test_sandbox_init_is_static_and_small():
    program = BUILD / "sandbox-init"
    libraries, _ = needed("sandbox-init")
    assert not libraries
    headers = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True).stdout
    assert "INTERP" not in headers and re.search(r"GNU_STACK.* RW ", headers)
    assert program.stat().st_size < 1_200_000


def test_memory_of_the_idle_programs_is_within_the_goal(own):
    s = own()
    b = s.api.create(memory_mb=64)
    b.exec("true")
    pss = {}
    for name, pid in each(s):
        pss[name] = pss.get(name, 0) + kib(pid, "Pss", "smaps_rollup")
    assert min(pss.values()) > 0 and sum(v for k, v in pss.items() if k != "sessiond") <= 16 * 1024, pss
