"""agent-sandboxd with stand-ins for the other programs: its configuration, how it starts, watches, restarts and ends."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from machine import SLACK, alive, free_port, read, send, status, wait_until

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("AS_TEST_BUILD", ROOT / "build"))
PROGRAMS = ("apid", "managerd", "dockerd-proxy", "egressd", "keyd")
KEY = "a-key-of-24-characters-x"
P_SESSION, P_SESSION_OVER, P_PARTIAL, P_SYSLOG = 0x182, 0x183, 0x184, 0x189
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="changes owners")


class Parent:
    """One agent-sandboxd in a folder of its own, with stand-ins that say what they saw."""

    def __init__(self, folder):
        self.dir, self.proc, self.port = Path(folder), None, free_port()
        os.chmod(folder, 0o755)
        shutil.copy(BUILD / "agent-sandboxd", self.dir)
        for name in (*PROGRAMS, "sessiond"):
            shutil.copy(ROOT / "tests/tools/stub_child.py", self.dir / name)
            os.chmod(self.dir / name, 0o755)
        self.env = {"AGENT_SANDBOX_API_KEYS": KEY, "AGENT_SANDBOX_PORT": str(self.port)}
        self.env |= {"AGENT_SANDBOX_DATA_DIR": str(self.dir / "data"), "DOCKER_HOST": f"unix://{self.dir}/engine.sock"}

    def start(self, *args, settings=None, env=None, user=None, ready=True):
        if settings:
            self.env |= {"AGENT_SANDBOX_" + k: str(v) for k, v in settings.items()}
        full = {k: v for k, v in (self.env | (env or {})).items() if v is not None}
        with open(self.dir / "log", "ab") as log:
            self.proc = subprocess.Popen(
                [self.dir / "agent-sandboxd", *args], env=full, cwd=self.dir, stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=user
            )
        if ready:
            assert wait_until(lambda: self.connects() or self.proc.poll() is not None) and self.connects(), self.log()
        return self

    def log(self):
        return (self.dir / "log").read_text(errors="replace")

    def lines(self, name):
        """Those that are there in full, of a file that another process writes."""
        path = self.dir / name
        return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []

    def seen(self, name):
        """What each start of this program saw, oldest first."""
        return self.lines(name + ".seen")

    def told(self, name="managerd"):
        return self.lines(name + ".told")

    def say(self, line):
        with open(self.dir / "managerd.cmd", "a") as f:
            f.write(line + "\n")

    def do(self, name, words):
        (self.dir / (name + ".do")).write_text(words)

    def pid(self, name):
        return self.seen(name)[-1]["pid"]

    def starts(self):
        return len(self.seen("managerd"))

    def all_started(self, times):
        return all(len(self.seen(n)) == times for n in PROGRAMS)

    def connects(self):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def everybody(self):
        return [s["pid"] for n in (*PROGRAMS, "sessiond") for s in self.seen(n)]

    def end(self, sig=signal.SIGTERM, seconds=30):
        self.proc.send_signal(sig)
        return self.proc.wait(seconds)

    def refused(self, *args, status=2, **kw):
        """It must end by itself with this status and one line, which is returned."""
        before = len(self.log()) if (self.dir / "log").exists() else 0
        self.start(*args, ready=False, **kw)
        assert self.proc.wait(30) == status, self.log()
        lines = [line for line in self.log()[before:].splitlines() if ": fatal: " in line]
        assert len(lines) == 1, self.log()
        return lines[0]


@pytest.fixture
def parent(tmp_path):
    os.chmod(tmp_path, 0o755)
    for folder in tmp_path.parents:
        if folder.owner() != "root" or folder == Path("/tmp"):
            break
        os.chmod(folder, 0o755)
    p = Parent(tmp_path)
    yield p
    if p.proc and p.proc.poll() is None:
        p.proc.kill()
        p.proc.wait()
    for pid in p.everybody():
        wait_until(lambda pid=pid: not alive(pid))


@contextlib.contextmanager
def engine_socket(parent, mode=0o660, gid=None):
    """Something that looks like the engine's socket."""
    path = parent.dir / "engine.sock"
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(path))
        os.chmod(path, mode)
        if gid is not None:
            os.chown(path, -1, gid)
        yield s


# Configuration


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"API_KEYS": None}, ["API_KEYS", "keygen"]),
        ({"API_KEYS": ""}, ["API_KEYS"]),
        ({"API_KEYS": " , ,"}, ["API_KEYS"]),
        ({"API_KEYS": "short"}, ["API_KEYS", "16"]),
        ({"API_KEYS": KEY + ",fifteen-letters"}, ["API_KEYS", "16"]),
        ({"API_KEYS": "with a space between"}, ["API_KEYS"]),
        ({"INSECURE_NO_AUTH": "perhaps"}, ["INSECURE_NO_AUTH"]),
        ({"MAX_SANDBOXES": "many"}, ["MAX_SANDBOXES"]),
        ({"MAX_SANDBOXES": "0"}, ["MAX_SANDBOXES"]),
        ({"MAX_SANDBOXES": ""}, ["MAX_SANDBOXES"]),
        ({"MAX_SANDBOXES": "5001"}, ["MAX_SANDBOXES", "5000"]),
        ({"POOL": "-1"}, ["POOL", "IMAGE=N"]),
        ({"POOL": "python:3.12-slim=2,nonsense"}, ["POOL", "IMAGE=N"]),
        ({"POOL": "no/Such=1"}, ["POOL", "no/Such"]),
        ({"POOL": "debian:12=1", "ALLOWED_IMAGES": "python:*"}, ["POOL", "debian:12", "ALLOWED_IMAGES"]),
        ({"PORT": "99999999"}, ["PORT", "65535"]),
        ({"PORT": "-1"}, ["PORT"]),
        ({"DEFAULT_MEMORY_MB": "9999"}, ["DEFAULT_MEMORY_MB", "MAX_MEMORY_MB"]),
        ({"DEFAULT_CPUS": "4.5"}, ["DEFAULT_CPUS", "MAX_CPUS"]),
        ({"MAX_TIMEOUT_SECONDS": "60"}, ["DEFAULT_TIMEOUT_SECONDS", "MAX_TIMEOUT_SECONDS"]),
        ({"ALOWED_IMAGES": "python:*"}, ["ALOWED_IMAGES"]),
        ({"SANDBOX_USER": "root"}, ["SANDBOX_USER"]),
        ({"SANDBOX_USER": "0:0"}, ["SANDBOX_USER"]),
        ({"NETWORK_NAME": "host"}, ["NETWORK_NAME"]),
        ({"LOG_LEVEL": "loud"}, ["LOG_LEVEL"]),
        ({"HOST": "0.0.0.0"}, ["HOST", "INSECURE_PLAINTEXT"]),
        ({"HOST": "::"}, ["HOST", "INSECURE_PLAINTEXT"]),
        ({"HOST": "no such host"}, ["HOST"]),
        ({"HOST": "name.invalid"}, ["HOST"]),
        ({"HOST": "0.0.0.0", "INSECURE_PLAINTEXT": "1", "INSECURE_NO_AUTH": "1"}, ["INSECURE_NO_AUTH"]),
        ({"DATA_DIR": "/nonexistent/data"}, ["DATA_DIR"]),
        ({"DATA_DIR": "/dev/null"}, ["DATA_DIR"]),
        ({"DATA_DIR": ""}, ["DATA_DIR"]),
    ],
)
def test_wrong_setting_ends_the_start_with_one_line_that_names_it(parent, settings, words):
    parent.env.update({"AGENT_SANDBOX_" + k: v for k, v in settings.items()})
    line = parent.refused()
    for word in words:
        assert word in line
    assert parent.starts() == 0, "a program was started with a wrong configuration"


@pytest.mark.parametrize("url", ["tcp://127.0.0.1:2375", "ssh://host", "unix://relative", "/var/run/docker.sock"])
def test_engine_that_is_not_a_unix_socket_is_refused(parent, url):
    assert "DOCKER_HOST: only unix:///" in parent.refused(env={"DOCKER_HOST": url})


@pytest.mark.parametrize("backend", ["subprocess", "unrestricted"])
def test_backend_that_does_not_exist_is_refused(parent, backend):
    assert "AGENTBOX_SANDBOX_BACKEND" in parent.refused(env={"AGENTBOX_SANDBOX_BACKEND": backend})


def test_no_key_is_ever_in_a_message(parent):
    parent.env["AGENT_SANDBOX_API_KEYS"] = "secret-1"
    assert "secret-1" not in parent.refused() and "secret-1" not in parent.log()


def test_command_line_wins_over_environment_and_environment_over_file(parent):
    (parent.dir / "conf").write_text(
        "# a comment\n\nAGENT_SANDBOX_MAX_SANDBOXES = 7\nAGENT_SANDBOX_DEFAULT_IMAGE='from:file'\nAGENT_SANDBOX_PORT=1\n"
        "AGENTBOX_PORT=2\nAGENT_SANDBOX_TMP_SIZE_MB=9\r\n"
    )
    port = parent.port
    parent.env |= {"AGENT_SANDBOX_PORT": "3", "AGENT_SANDBOX_DEFAULT_IMAGE": "from:environment", "AGENTBOX_LOG_LEVEL": "WARNING"}
    parent.start("-f", "conf", "--port", str(port), "--host", "localhost")
    managerd, proxy, apid = (parent.seen(n)[0]["config"] for n in ("managerd", "dockerd-proxy", "apid"))
    values = [v for v in managerd.values()]
    assert [7, ""] in values and [0, "from:environment"] in values and [9, ""] in proxy.values()
    assert [port, ""] in apid.values() and [0, "127.0.0.1"] in apid.values() and parent.seen("apid")[0]["setup"]["log_level"] == 1


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("AGENT_SANDBOX_PORTT=1\n", "line 1"),
        ("\nPATH=/bin\n", "line 2"),
        ("just words\n", "line 1"),
        ("AGENT_SANDBOX_PORT=x\n", "AGENT_SANDBOX_PORT"),
        ("A\0B", "text"),
    ],
)
def test_wrong_line_of_the_file_ends_the_start(parent, text, word):
    (parent.dir / "conf").write_text(text)
    assert word in parent.refused("-f", "conf", env={"AGENT_SANDBOX_PORT": None})


@pytest.mark.parametrize("length", [1, 114, 115, 5000])
def test_unknown_name_of_ours_ends_the_start_however_long_it_is(parent, length):
    assert "no such setting" in parent.refused(env={"AGENT_SANDBOX_" + "X" * length: "1"})


def test_missing_file_and_unknown_option_end_the_start(parent):
    assert "nowhere" in parent.refused("-f", "nowhere")
    assert "there is no argument" in parent.refused("x")


def test_file_with_keys_that_others_can_read_is_warned_about(parent):
    (parent.dir / "conf").write_text(f"AGENT_SANDBOX_API_KEYS={KEY}\n")
    os.chmod(parent.dir / "conf", 0o644)
    parent.start("-f", "conf", env={"AGENT_SANDBOX_API_KEYS": None})
    assert "chmod 600" in parent.log()


def test_names_that_clients_use_in_the_same_shell_are_no_mistake(parent):
    parent.start(settings={"API_KEY": "x", "URL": "y", "VERSION": "1", "INSTALL": "z", "TEST_IMAGE": "t", "MCP_ANYTHING": "m"})


# Port


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("::1", "[::1]"), ("[::1]", "[::1]")])
def test_loopback_addresses_are_served_and_port_0_takes_a_free_one(parent, host, shown):
    parent.start(settings={"HOST": host, "PORT": 0}, ready=False)
    found = wait_until(lambda: re.search(r"listening on http://(\S+):(\d+)\n", parent.log()))
    assert found and found[1] == shown and int(found[2]) > 0, parent.log()
    socket.create_connection((shown.strip("[]"), int(found[2])), 2).close()
    assert parent.seen("apid")[0]["config"]["3"][0] == int(found[2])


def test_other_addresses_are_served_when_a_proxy_is_said_to_end_tls(parent):
    parent.start(settings={"HOST": "0.0.0.0", "INSECURE_PLAINTEXT": "true"})
    assert [0, "0.0.0.0"] in parent.seen("apid")[0]["config"].values()


def test_two_starts_at_once_on_one_port_leave_one_server(parent):
    """Both bind before either listens; the second must still end with the one line."""
    parent.do("managerd", "hang")
    first = parent.start(ready=False).proc
    assert wait_until(lambda: parent.seen("managerd"))
    (parent.dir / "managerd.do").unlink()
    parent.start()
    assert send(parent.seen("managerd")[0]["pid"])
    assert first.wait(30) == 2 and f"port {parent.port} of 127.0.0.1 is taken" in parent.log()


def test_port_taken_is_one_clear_line(parent):
    with socket.socket() as s:
        s.bind(("127.0.0.1", parent.port))
        s.listen()
        line = parent.refused()
    assert f"port {parent.port} of 127.0.0.1 is taken" in line


def test_port_is_closed_until_all_are_ready(parent):
    parent.do("dockerd-proxy", "hang")
    parent.start(ready=False)
    assert wait_until(lambda: all(parent.seen(n) for n in PROGRAMS)), parent.log()
    time.sleep(0.3)
    assert not parent.connects() and parent.proc.poll() is None
    assert parent.end() == 0


# Files


@ROOT_ONLY
def test_data_directory_is_made_for_managerd_alone(parent):
    parent.start()
    st = os.stat(parent.dir / "data")
    assert (st.st_mode & 0o7777, st.st_uid) == (0o1770, 0), "it cannot touch what is not its own"
    assert st.st_gid == parent.seen("managerd")[0]["setup"]["gid"] != 0
    assert parent.seen("managerd")[0]["setup"]["path"] == str(parent.dir / "data")


@ROOT_ONLY
def test_data_directory_of_another_is_taken_over_only_when_empty(parent):
    data = parent.dir / "data"
    data.mkdir(mode=0o755)
    parent.start()
    parent.end()
    assert data.stat().st_gid != 0 and data.stat().st_mode & 0o7777 == 0o1770
    os.chown(data, 0, 0)
    (data / "file").touch()
    line = parent.refused()
    assert "AGENT_SANDBOX_DATA_DIR" in line and "not empty" in line and data.stat().st_uid == 0


@ROOT_ONLY
def test_empty_directory_reached_through_a_link_is_named_by_its_real_path(parent):
    (parent.dir / "real").mkdir()
    (parent.dir / "data").symlink_to("real")
    parent.start()
    assert parent.seen("managerd")[0]["setup"]["path"] == str(parent.dir / "real")


def test_program_that_is_missing_is_one_clear_line(parent):
    (parent.dir / "sessiond").unlink()
    assert "sessiond" in parent.refused()


# What a child gets


def test_children_get_their_descriptors_and_nothing_else(parent):
    parent.start(env={"SECRET": "s", "LD_LIBRARY_PATH": "/tmp"})
    parent.say("session 5")
    assert wait_until(lambda: parent.seen("sessiond"))
    for name, last in (("apid", 6), ("managerd", 7), ("dockerd-proxy", 4), ("egressd", 4), ("keyd", 5), ("sessiond", 4)):
        seen = parent.seen(name)[0]
        assert sorted(map(int, seen["fds"])) == list(range(last + 1)), name
        assert seen["fds"]["0"] == seen["fds"]["1"] == "/dev/null" and seen["fds"]["2"] == str(parent.dir / "log")
        assert all(seen["fds"][str(n)].startswith("socket:") for n in range(3, last + 1))
        assert len({seen["fds"][str(n)] for n in range(3, last + 1)}) == last - 2
        assert len(seen["argv"]) == 1 and KEY not in json.dumps(seen["argv"])
        assert set(seen["env"]) <= {"LC_CTYPE"}, "only what the stand-in's own interpreter sets"
        assert seen["blocked"] == "0" * 16


def test_signal_to_the_process_group_of_a_terminal_reaches_the_parent_only(parent):
    parent.start()
    assert all(os.getpgid(parent.pid(n)) == os.getsid(parent.pid(n)) == parent.pid(n) for n in PROGRAMS)


def test_inherited_descriptors_do_not_reach_the_children(parent):
    r, w = os.pipe()
    os.set_inheritable(r, True)
    with open(parent.dir / "log", "ab") as log:
        parent.proc = subprocess.Popen(
            [parent.dir / "agent-sandboxd"], env=parent.env, cwd=parent.dir, stderr=log, stdout=log, pass_fds=[r]
        )
    assert wait_until(parent.connects), parent.log()
    assert not [f for n in PROGRAMS for f in parent.seen(n)[0]["fds"].values() if f.startswith("pipe:")]
    os.close(r), os.close(w)


def test_keys_reach_managerd_only(parent):
    parent.start()
    parent.say("session 5")
    assert wait_until(lambda: parent.seen("sessiond"))
    has = {n: KEY in json.dumps(parent.seen(n)[0]["config"]) for n in (*PROGRAMS, "sessiond")}
    assert has == {"apid": False, "managerd": True, "dockerd-proxy": False, "egressd": False, "keyd": False, "sessiond": False}


@ROOT_ONLY
def test_every_program_gets_a_user_of_its_own(parent):
    parent.start()
    parent.say("session 5")
    assert wait_until(lambda: parent.seen("sessiond"))
    setups = [parent.seen(n)[0]["setup"] for n in (*PROGRAMS, "sessiond")]
    assert len({s["uid"] for s in setups}) == 6 and 0 not in {s["uid"] for s in setups} | {s["gid"] for s in setups}
    assert all(s["as_root"] == 1 for s in setups)


@ROOT_ONLY
def test_only_dockerd_proxy_gets_the_group_of_the_engines_socket(parent):
    with engine_socket(parent, gid=4711):
        parent.start()
        groups = {n: parent.seen(n)[0]["setup"]["extra_gid"] for n in PROGRAMS}
        assert groups == {n: 4711 if n == "dockerd-proxy" else 2**32 - 1 for n in PROGRAMS}
        assert parent.seen("dockerd-proxy")[0]["setup"]["path"] == str(parent.dir / "engine.sock")


@ROOT_ONLY
def test_without_root_all_run_as_the_user_and_it_says_partial(parent):
    os.chown(parent.dir, 65534, 65534)
    parent.start(user=65534)
    assert "confinement is partial" in parent.log()
    for name in PROGRAMS:
        setup = parent.seen(name)[0]["setup"]
        assert setup["uid"] == 65534 and setup["as_root"] == 0 and setup["partial"] == 1
    assert wait_until(lambda: [t for t in parent.told() if t[0] == P_PARTIAL])


def test_a_program_that_is_weaker_makes_managerd_say_partial(parent):
    parent.do("apid", "partial")
    parent.start()
    assert wait_until(lambda: [t for t in parent.told() if t[0] == P_PARTIAL])


RESOLV = [
    ("", "127.0.0.1"),
    ("# nameserver 192.0.2.9\nsearch example.com\n", "127.0.0.1"),
    ("nameserver 192.0.2.1\nnameserver\t2001:db8::1 # two\n nameserver 192.0.2.7\n", "192.0.2.1,2001:db8::1"),
    ("nameserver fe80::1%eth0\nnameserver ns.example.com\nnameserver 192.0.2.2\r\n", "fe80::1%eth0,192.0.2.2"),
    ("".join(f"nameserver 192.0.2.{i}\n" for i in range(1, 9)), "192.0.2.1,192.0.2.2,192.0.2.3"),
]


@ROOT_ONLY
@pytest.mark.parametrize("text, servers", RESOLV)
def test_egressd_is_told_the_name_servers_and_again_when_they_change(parent, text, servers):
    conf = parent.dir / "resolv.conf"
    conf.write_text(text)
    script = f"mount --bind {conf} /etc/resolv.conf && exec ./agent-sandboxd"
    with open(parent.dir / "log", "ab") as log:
        parent.proc = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", script], env=parent.env | {"PATH": os.environ["PATH"]}, cwd=parent.dir, stderr=log, stdout=log
        )
    assert wait_until(lambda: parent.told("egressd")), parent.log()
    with open(conf, "r+b") as f:  # in one go: an empty file would be told, too
        os.pwrite(f.fileno(), b"nameserver 192.0.2.53\n".ljust(len(text), b"\n"), 0)
    assert wait_until(lambda: len(parent.told("egressd")) == 2), parent.log()
    assert [tail for _, tail in parent.told("egressd")] == [servers, "192.0.2.53"]


@pytest.mark.skipif(not shutil.which("nft"), reason="nft is not installed")
@ROOT_ONLY
@pytest.mark.parametrize("load", [True, False])
def test_managerd_is_told_whether_the_packet_filter_rules_are_loaded(parent, load):
    rules = f"nft -f {ROOT}/etc/agent-sandbox.nft && " if load else ""
    script = f"ip link set lo up; {rules}exec ./agent-sandboxd"
    with open(parent.dir / "log", "ab") as log:
        parent.proc = subprocess.Popen(
            ["unshare", "-n", "sh", "-c", script], env=parent.env | {"PATH": os.environ["PATH"]}, cwd=parent.dir, stderr=log, stdout=log
        )
    assert wait_until(lambda: parent.seen("managerd")), parent.log()
    assert wait_until(lambda: "listening" in parent.log())
    assert send(parent.pid("apid"))
    assert wait_until(lambda: parent.all_started(2)), parent.log()
    assert [s["setup"]["unfiltered"] for s in parent.seen("managerd")] == [int(not load)] * 2


def test_parent_is_confined(parent):
    parent.start()
    told = status(parent.proc.pid)
    assert (told["NoNewPrivs"], told["Seccomp"]) == ("1", "2")


@ROOT_ONLY
def test_environment_of_the_parent_is_closed_to_its_own_user(parent):
    os.chown(parent.dir, 65534, 65534)
    parent.start(user=65534)
    for name in ("environ", "mem", "maps"):
        p = subprocess.run(["cat", f"/proc/{parent.proc.pid}/{name}"], user=65534, capture_output=True)
        assert p.returncode != 0 and KEY.encode() not in p.stdout, name


@pytest.mark.parametrize(("args", "value"), [((), 0), (("--adopt",), 1), (("--new-instance",), 2)])
def test_what_the_operator_says_of_the_instance_reaches_managerd_once(parent, args, value):
    parent.start(*args)
    assert [parent.seen(n)[0]["setup"]["instance"] for n in PROGRAMS] == [0, value, 0, 0, 0]
    assert send(parent.pid("apid"))
    assert wait_until(lambda: parent.all_started(2))
    assert parent.seen("managerd")[1]["setup"]["instance"] == 0


# Sessions


def test_session_is_started_and_its_end_told(parent):
    parent.start()
    parent.say("session 77")
    assert wait_until(lambda: [P_SESSION, 77, None, 1] in parent.told() and parent.seen("sessiond")), parent.told()
    parent.say("kill 77")
    assert wait_until(lambda: [P_SESSION_OVER, 77, 9, 0] in parent.told())
    assert not alive(parent.pid("sessiond")) and parent.starts() == 1


def test_session_that_dies_takes_nothing_else_down(parent):
    parent.start()
    for n in (1, 2):
        parent.say(f"session {n}")
    assert wait_until(lambda: len(parent.seen("sessiond")) == 2)
    first = parent.seen("sessiond")[0]["pid"]
    assert send(first, signal.SIGSEGV)
    assert wait_until(lambda: [t for t in parent.told() if t[0] == P_SESSION_OVER])
    assert "sessiond" in parent.log() and parent.connects() and parent.starts() == 1
    assert alive(parent.seen("sessiond")[1]["pid"])


def test_more_sessions_than_the_limit_are_refused(parent):
    parent.start(settings={"MAX_SANDBOXES": 1, "POOL": 1})
    for n in range(1, 15):
        parent.say(f"session {n}")
    assert wait_until(lambda: len(parent.told()) == 14)
    assert len([t for t in parent.told() if t[0] == P_SESSION]) == 12
    assert [t[2] for t in parent.told() if t[0] == P_SESSION_OVER] == [127 << 8] * 2


def test_session_asked_for_twice_is_a_breach(parent):
    parent.start()
    parent.say("session 3")
    assert wait_until(lambda: parent.told())
    parent.say("twice 3")
    assert wait_until(lambda: parent.all_started(2)) and "twice" in parent.log()


def test_managerd_that_asks_and_reads_no_answer_is_ended_and_the_parent_lives(parent):
    parent.start(settings={"MAX_SANDBOXES": 1})
    parent.say("flood 100000")
    assert wait_until(lambda: parent.proc.poll() is not None or "does not read the answers" in parent.log()), parent.log()[-500:]
    assert wait_until(lambda: parent.all_started(2)) and parent.proc.poll() is None and parent.connects()


def test_apid_that_asks_and_reads_no_answer_is_ended_and_the_parent_lives(parent):
    parent.do("apid", "flood=200000")  # perhaps before the others have begun
    parent.start(ready=False)
    assert wait_until(lambda: parent.proc.poll() is not None or "does not read the answers" in parent.log()), parent.log()[-500:]
    assert wait_until(lambda: len(parent.seen("apid")) == 2 and parent.connects()) and parent.proc.poll() is None


@ROOT_ONLY
@pytest.mark.parametrize("wanted", ["true", "false"])
def test_socket_to_syslog_is_for_a_managerd_that_is_to_copy_the_audit_log(parent, wanted):
    binds = "mount --bind /dev/null dev/null && mount --bind syslog dev/log && mount --rbind dev /dev"
    script = f"mkdir dev && touch dev/null dev/log && {binds} && exec ./agent-sandboxd"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as syslog, open(parent.dir / "log", "ab") as log:
        syslog.bind(str(parent.dir / "syslog"))
        env = parent.env | {"AGENT_SANDBOX_AUDIT_SYSLOG": wanted}
        parent.proc = subprocess.Popen(["unshare", "-m", "sh", "-c", script], env=env, cwd=parent.dir, stdout=log, stderr=log)
        assert wait_until(lambda: parent.connects() or parent.proc.poll() is not None) and parent.connects()
        parent.say("syslog")
        assert wait_until(lambda: any(kind == P_SYSLOG for kind, *_ in parent.told()))
    assert [n for kind, _, _, n in parent.told() if kind == P_SYSLOG] == [int(wanted == "true")]


# Deaths


@pytest.mark.parametrize("name", PROGRAMS)
def test_killed_program_means_a_clean_restart_with_the_port_kept(parent, name):
    parent.start()
    parent.say("session 9")
    assert wait_until(lambda: parent.seen("sessiond"))
    old, pid = parent.everybody(), parent.proc.pid
    assert send(parent.pid(name))
    t = time.monotonic()
    (parent.dir / "managerd.cmd").unlink()
    while time.monotonic() < t + 1:
        assert parent.connects(), "the port was closed"
        time.sleep(0.01)
    assert wait_until(lambda: parent.all_started(2)), parent.log()
    assert all(not alive(p) for p in old) and parent.proc.poll() is None and parent.proc.pid == pid
    assert f"{name}[" in parent.log() and "signal 9" in parent.log()


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "managerd"])
def test_program_that_calls_itself_misconfigured_while_it_serves_means_a_clean_restart(parent, name):
    parent.start()
    parent.do(name, "leave=2")
    parent.proc.send_signal(signal.SIGUSR1)
    assert wait_until(lambda: parent.all_started(2) or parent.proc.poll() is not None)
    assert wait_until(parent.connects) and parent.proc.poll() is None and f"{name}[" in parent.log() and "status 2" in parent.log()


def test_restart_keeps_the_options_it_was_started_with(parent):
    (parent.dir / "conf").write_text("AGENT_SANDBOX_MAX_SANDBOXES=7\n")
    port = parent.port
    parent.start("-f", "conf", "--port", str(port), settings={"PORT": 1})
    for n in (2, 3):
        assert send(parent.pid("apid"))
        assert wait_until(lambda n=n: parent.all_started(n)), parent.log()
    assert [7, ""] in parent.seen("managerd")[2]["config"].values() and parent.connects()
    args = read(parent.proc.pid, "cmdline").split(b"\0")[1:-1]
    assert args[0].startswith(b"--resume=") and args[1:] == [b"-f", b"conf", b"--port", str(port).encode()]


@pytest.mark.parametrize("state", ["x", "1,2,3,4,5,6,7,8,9,10,11,12,13,14", "-1,0", "0,0", "0,0,99999999999999999999"])
def test_resume_is_for_the_program_itself(parent, state):
    parent.refused(f"--resume={state}", status=1)


def test_death_behind_another_is_told_too_but_no_mere_following(parent):
    """A program may see that another is gone, and leave, before the parent hears of that one."""
    parent.do("apid", "deaf")
    parent.start()
    assert send(parent.pid("dockerd-proxy"), signal.SIGSTOP)
    assert send(parent.pid("apid"), signal.SIGSYS)
    assert wait_until(lambda: "killed by its system call filter" in parent.log())
    for sig in (signal.SIGSEGV, signal.SIGCONT):
        send(parent.seen("dockerd-proxy")[0]["pid"], sig)
    assert wait_until(lambda: parent.all_started(2)), parent.log()
    assert "managerd[" not in parent.log()


def test_filter_kill_is_named(parent):
    parent.start()
    assert send(parent.pid("apid"), signal.SIGSYS)
    assert wait_until(lambda: "killed by its system call filter" in parent.log())


def test_breach_by_a_program_is_a_restart_not_the_end(parent):
    parent.start()
    parent.say("garbage")
    assert wait_until(lambda: "breaks the rules" in parent.log())
    assert wait_until(lambda: parent.all_started(2)) and parent.proc.poll() is None


def test_filter_is_not_stacked_by_restarts(parent):
    parent.start()
    before = status(parent.proc.pid)["Seccomp_filters"]
    assert send(parent.pid("apid"))
    assert wait_until(lambda: parent.all_started(2)) and int(before) and status(parent.proc.pid)["Seccomp_filters"] == before


def test_ten_restarts_in_five_minutes_are_the_end(parent):
    parent.do("managerd", "exit=1")
    parent.start(ready=False)
    assert parent.proc.wait(120) == 1, parent.log()
    assert parent.starts() == 11 and "giving up" in parent.log()


def test_program_that_finds_the_configuration_wrong_ends_all_with_status_2(parent):
    parent.do("managerd", "exit=2")
    parent.start(ready=False)
    assert parent.proc.wait(30) == 2 and parent.starts() == 1 and "managerd: one line of its own" in parent.log()


def test_kill_9_of_the_parent_leaves_nothing(parent):
    parent.start()
    parent.say("session 1")
    assert wait_until(lambda: parent.seen("sessiond"))
    parent.proc.kill()
    parent.proc.wait()
    assert wait_until(lambda: all(not alive(p) for p in parent.everybody())) and not parent.connects()


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_stop_ends_all_at_once_with_status_0(parent, sig):
    parent.start()
    parent.say("session 1")
    assert wait_until(lambda: parent.seen("sessiond"))
    t = time.monotonic()
    assert parent.end(sig) == 0 and time.monotonic() - t < 1 + SLACK
    assert all(not alive(p) for p in parent.everybody()) and not parent.connects()


def test_stop_ends_within_4_seconds_also_those_that_do_not_listen(parent):
    for name in (*PROGRAMS, "sessiond"):
        parent.do(name, "deaf")
    parent.start()
    parent.say("session 1")
    assert wait_until(lambda: parent.seen("sessiond"))
    assert send(parent.pid("managerd"), signal.SIGSTOP)
    t = time.monotonic()
    assert parent.end() == 0 and time.monotonic() - t < 4 + SLACK
    assert all(not alive(p) for p in parent.everybody())


def test_stop_during_the_pause_before_a_restart(parent):
    parent.do("managerd", "exit=1")
    parent.start(ready=False)
    assert wait_until(lambda: parent.starts() == 3)
    time.sleep(0.3)
    assert parent.end() == 0


def test_sighup_changes_nothing(parent):
    parent.start()
    parent.proc.send_signal(signal.SIGHUP)
    assert wait_until(lambda: "SIGHUP" in parent.log()) and parent.connects() and parent.starts() == 1


# The engine's socket


def test_engine_socket_that_appears_is_taken_up_without_counting(parent):
    parent.start()
    assert parent.seen("dockerd-proxy")[0]["setup"]["path"] == ""
    with engine_socket(parent):
        assert wait_until(lambda: parent.all_started(2)), parent.log()
        assert parent.seen("dockerd-proxy")[1]["setup"]["path"].endswith("engine.sock")
        state = read(parent.proc.pid, "cmdline").split(b"\0")[1]
        assert re.fullmatch(rb"--resume=\d,0,\d,\d+,\d,\d+", state), state
        assert parent.connects()


def test_replaced_engine_socket_is_taken_up_without_counting(parent):
    with engine_socket(parent):
        parent.start()
    with engine_socket(parent):
        assert wait_until(lambda: parent.all_started(2)), parent.log()
        assert re.search(rb"--resume=\d,0,\d,\d+,\d,\d+\0", read(parent.proc.pid, "cmdline"))
        time.sleep(1.5)
        assert parent.starts() == 2


def test_death_while_the_engine_socket_is_away_is_not_counted(parent):
    with engine_socket(parent):
        parent.start()
    (parent.dir / "engine.sock").unlink()
    assert send(parent.pid("dockerd-proxy"))
    assert wait_until(lambda: parent.all_started(2)), parent.log()
    assert re.search(rb"--resume=\d,0,\d,\d+,\d,\d+\0", read(parent.proc.pid, "cmdline"))


def test_engine_socket_that_only_its_owner_may_use_is_told(parent):
    with engine_socket(parent, mode=0o600):
        parent.start()
        assert "engine.sock" in parent.log()
