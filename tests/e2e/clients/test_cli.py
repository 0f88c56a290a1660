"""The command as somebody uses it: from a sandbox to its snapshots and forks, and back to nothing."""

import json
import os
import re
import signal
import subprocess
import time

import pytest
from cli_kit import COMMAND, Cli
from harness import KEY, ROOT
from machine import alive, command_line, processor_time, status, wait_until


def test_the_whole_story(cli, api, tmp_path):
    """Create, run, copy, keep, spoil, undo, fork, compare, remove: as in the manual."""
    box = cli.ok("create", "--timeout", "10m", "--label", "for=story").strip()
    api.sandboxes.append(box)
    assert re.fullmatch(r"sb_[0-9a-f]{16}", box)
    assert box in cli.ok("ls") and cli.ok("ls", "-q", "--label", "for=story").split() == [box]
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("one\n")
    assert cli.ok("cp", tmp_path / "notes", f"{box}:") == ""
    assert cli.ok("exec", box, "cat notes/a.txt; pwd") == "one\n/workspace\n"
    snapshot = cli.ok("snapshot", box, "before").strip()
    api.snapshots.append(snapshot)
    assert re.fullmatch(r"snap_[0-9a-f]{16}", snapshot)
    cli.ok("exec", box, "rm -r notes")
    assert cli.fails(3, "cat", f"{box}:notes/a.txt") != ""
    assert cli.ok("rollback", box, snapshot) == f"{box} is as in {snapshot}\n"
    assert cli.ok("cat", box, "notes/a.txt") == "one\n"
    fork = cli.ok("fork", snapshot, "--timeout", "5m").strip()
    api.sandboxes.append(fork)
    assert cli.ok("put", f"{fork}:notes/a.txt", input="two\n") == ""
    assert cli.ok("cat", f"{box}:notes/a.txt", f"{fork}:notes/a.txt") == "one\ntwo\n"
    assert cli.ok("cp", f"{fork}:notes", tmp_path / "back") == ""
    assert (tmp_path / "back" / "a.txt").read_text() == "two\n"
    listed = cli.ok("snapshots", box)
    assert snapshot in listed and "before" in listed and snapshot in cli.ok("snapshots", "-q").split()
    assert cli.ok("timeout", box, "90m").startswith(f"{box} ends in 1h ")
    cli.ok("rm", box, fork, snapshot)
    assert cli.fails(3, "show", box) == f"sandbox {box} not found" or "deleted" in cli("show", box).stderr
    assert box not in cli.ok("ls", "-q").split() and snapshot not in cli.ok("snapshots", "-q").split()


def test_create_hands_on_every_option(cli, api):
    made = json.loads(
        cli.ok(
            "create", "--json", "--cpus", "0.5", "-m", "128", "--pids", "64", "-t", "5m", "-e", "A=b=c", "-e", "MINE", "-l", "x=1",
            "--writable", "python:3.12-slim", env={"MINE": "yours"},
        )
    )  # fmt: skip
    api.sandboxes.append(made["id"])
    want = {"cpus": 0.5, "memory_mb": 128, "pids_limit": 64, "read_only_rootfs": False, "labels": {"x": "1"}, "network": False}
    assert {k: made[k] for k in want} == want and made["image"] == "python:3.12-slim"
    assert cli.ok("exec", made["id"], "echo $A $MINE") == "b=c yours\n"


def test_list_and_show_tell_the_way_out(cli, api):
    told = {}
    for words, way in (
        (["--no-egress"], "none"),
        (["-n"], "network"),
        (["--egress", "a.example", "--egress", "b.example:8443"], "list of 2"),
    ):
        told[cli.ok("create", *words).strip()] = way
    api.sandboxes += told
    head, *rows = cli.ok("ls").splitlines()
    at = slice(head.index("WAY OUT"), head.index("LEFT"))
    assert {r.split()[0]: r[at].split("  ")[0] for r in rows if r.split()[0] in told} == told
    for box, way in told.items():
        assert re.search(rf"^way out +{way}$", cli.ok("show", box), re.M)
    assert "b.example:8443" in cli.ok("show", list(told)[-1])


def test_create_with_an_idempotency_key_gives_the_same_again(cli, api):
    made = {cli.ok("create", "--idempotency-key", f"k{os.getpid()}").strip() for _ in range(3)}
    api.sandboxes += made
    assert len(made) == 1


def test_exec_keeps_the_streams_apart_and_takes_the_exit_code(cli, box):
    p = cli("exec", box.id, "echo out; echo err >&2; exit 7")
    assert (p.stdout, p.stderr, p.returncode) == ("out\n", "err\n", 7)
    assert cli("exec", box.id, "kill -9 $$").returncode == 137
    assert cli("exec", box.id, "--", "no-such-program", "x").returncode == 127


def test_exec_of_several_words_is_no_shell(cli, box):
    assert cli.ok("exec", box.id, "--", "echo", "$HOME", "a  b", "*", "") == "$HOME a  b * \n"
    assert cli.ok("exec", box.id, "echo $HOME") == "/workspace\n"
    assert cli.ok("exec", box.id, "echo", "-n", "--json") == "--json", "options of the command are its own"


def test_exec_passes_bytes_as_they_are_both_ways(cli, box):
    data = os.urandom(3_000_000) + bytes(range(256))
    p = cli("exec", box.id, "cat; printf 'caf\\351' >&2", input=data, text=False)
    assert p.returncode == 0 and p.stdout == data and p.stderr == b"caf\xe9"


def test_exec_passes_input_as_it_comes(cli, box):
    """What was typed is answered before the next line is there."""
    with cli.start("exec", box.id, "while read x; do echo got $x; done", stdin=subprocess.PIPE) as p:
        for word in (b"one", b"two"):
            p.stdin.write(word + b"\n")
            p.stdin.flush()
            assert p.stdout.readline() == b"got " + word + b"\n"
        p.stdin.close()
        assert p.wait(30) == 0


def test_exec_shows_output_as_it_comes(cli, box):
    with cli.start("exec", "-n", box.id, "echo first; while [ ! -e go ]; do sleep 0.05; done; echo second") as p:
        assert p.stdout.readline() == b"first\n"
        box.put("go")
        assert p.stdout.readline() == b"second\n" and p.wait(30) == 0


def test_exec_ends_when_the_command_does_though_input_is_open(cli, box):
    """A pipe that nobody writes to or closes holds nothing up."""
    with cli.start("exec", box.id, "echo done", stdin=subprocess.PIPE) as p:
        assert p.stdout.read() == b"done\n" and p.wait(30) == 0
        p.stdin.close()


def test_exec_that_is_refused_ends_though_input_is_open(cli, box):
    for what, words in ((b"does not exist", ["-w", "/nope", box.id]), (b"not found", ["sb_0123456789abcdef"])):
        with cli.start("exec", *words, "cat", stdin=subprocess.PIPE) as p:
            assert p.wait(30) == 125 and what in p.stderr.read()
            p.stdin.close()


def test_exec_whose_input_has_ended_waits_in_peace(cli, box):
    """No turning in circles: a second costs far less than a second."""
    with cli.start("exec", box.id, "sleep 5", stdin=subprocess.PIPE) as p:
        p.stdin.close()
        time.sleep(1)
        assert alive(p.pid) and processor_time(p.pid) < 0.5 and p.wait(30) == 0


def test_exec_of_what_does_not_read_its_input(cli, box):
    assert cli("exec", box.id, "true", input=b"x" * 20_000_000, text=False).returncode == 0


def test_exec_without_input(cli, box):
    assert cli.ok("exec", "-n", box.id, "wc -c", input="hidden") == "0\n"
    assert cli.ok("exec", box.id, "wc -c", stdin=subprocess.DEVNULL) == "0\n"
    p = subprocess.run(["sh", "-c", f'exec "{COMMAND}" exec {box.id} "wc -c" <&-'], env=cli.env, capture_output=True, text=True, timeout=60)
    assert p.stdout == "0\n" and p.returncode == 0


def test_exec_with_a_command_too_long_for_its_input_says_so(cli, box):
    long = "true " + "x" * 6000
    assert "--no-stdin" in cli.fails(125, "exec", box.id, long, input="x")
    assert cli("exec", "-n", box.id, long).returncode == 0


def test_exec_options_reach_the_command(cli, box):
    box.sh("mkdir sub")
    assert cli.ok("exec", "-w", "sub", "-e", "A=1 2", "-e", "B", box.id, "pwd; echo $A $B", env={"B": "b"}) == "/workspace/sub\n1 2 b\n"
    p = cli("exec", "--timeout", "3", box.id, "echo begun; sleep 60")
    assert p.returncode == 124 and p.stdout == "begun\n" and "out of time" in p.stderr


def test_exec_kills_others_when_asked(cli, box):
    box.sh("sleep 777 >/dev/null 2>&1 & echo")
    cli.ok("exec", "--kill-others", box.id, "true")
    assert box.running("777") == 0


@pytest.mark.parametrize("sig, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signal_ends_the_command_there_too(cli, box, sig, code):
    with cli.start("exec", box.id, "echo on; exec sleep 778", stdin=subprocess.PIPE) as p:
        assert p.stdout.readline() == b"on\n"
        p.send_signal(sig)
        assert p.wait(30) == code
        p.stdin.close()
        assert p.stderr.read() == b""
    assert wait_until(lambda: box.running("778") == 0)


def test_command_goes_on_when_that_is_wanted(cli, box):
    with cli.start("exec", "--keep-running", box.id, "echo on; exec sleep 779") as p:
        assert p.stdout.readline() == b"on\n"
        p.send_signal(signal.SIGINT)
        assert p.wait(30) == 130
    assert wait_until(lambda: box.running("779") == 1)


def test_signal_that_the_caller_ignores_is_ignored(cli, box):
    p = cli.start("exec", "-n", box.id, "echo on; sleep 1; echo off", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    with p:
        assert p.stdout.readline() == b"on\n"
        p.send_signal(signal.SIGINT)
        assert p.stdout.readline() == b"off\n" and p.wait(30) == 0


def test_reader_that_has_gone_ends_the_command(cli, box):
    with cli.start("exec", "-n", box.id, "echo on; while :; do echo more; done") as p:
        assert p.stdout.readline() == b"on\n"
        p.stdout.close()
        assert p.wait(30) == -signal.SIGPIPE and p.stderr.read() == b""


def test_exec_as_json_is_one_object(cli, box):
    p = cli("exec", "--json", box.id, "cat; echo err >&2; exit 3", input="in")
    assert p.returncode == 3 and p.stderr == ""
    result = json.loads(p.stdout)
    want = {"stdout": "in", "stderr": "err\n", "exit_code": 3, "timed_out": False, "truncated": False}
    assert {k: result[k] for k in want} == want and isinstance(result["duration_ms"], int) and "type" not in result


def test_exec_as_events_is_a_line_each(cli, box):
    p = cli("exec", "--events", box.id, "echo a; sleep 0.2; echo b >&2; exit 4")
    events = [json.loads(line) for line in p.stdout.splitlines()]
    assert p.returncode == 4 and [e["type"] for e in events] == ["stdout", "stderr", "exit"] and events[-1]["exit_code"] == 4


def test_sandbox_that_ends_meanwhile_is_told(cli, make):
    box = make()
    with cli.start("exec", "-n", box.id, "echo on; sleep 60") as p:
        assert p.stdout.readline() == b"on\n"
        box.delete()
        assert p.wait(30) == 125
        assert re.fullmatch(rb"agent-sandbox: [^\n]+\n", p.stderr.read())


def test_beginning_of_an_id_is_enough(cli, make):
    box = make()
    others = [i for i in cli.ok("ls", "-q").split() if i != box.id]
    n = next(n for n in range(4, 20) if not any(o.startswith(box.id[:n]) for o in others))
    assert cli.ok("exec", box.id[:n], "echo here") == "here\n"
    assert cli.ok("exec", box.id[3:n], "echo here") == "here\n"
    assert cli.ok("files", box.id[:n]).startswith("TYPE")
    snapshot = box.snapshot()
    assert json.loads(cli.ok("show", "--json", snapshot[:15]))["id"] == snapshot


def test_beginning_that_several_have_is_refused(cli, make):
    ids = [make().id, make().id]
    said = cli.fails(2, "show", "sb_")
    assert "give more of it" in said and any(i in said for i in ids)
    assert "lists" in cli.fails(3, "show", "sb_0000000000")
    assert "no sandbox id" in cli.fails(3, "show", "nonsense")
    assert "no sandbox id" in cli.fails(3, "show", "")


def test_json_everywhere(cli, make):
    box = make()
    snapshot = json.loads(cli.ok("snapshot", "--json", box.id))
    assert snapshot["sandbox_id"] == box.id
    assert json.loads(cli.ok("show", "--json", box.id))["id"] == box.id
    assert json.loads(cli.ok("--json", "ls"))["sandboxes"]
    assert json.loads(cli.ok("snapshots", "--json", box.id))["snapshots"][0]["id"] == snapshot["id"]
    assert json.loads(cli.ok("timeout", "--json", box.id, "60"))["id"] == box.id
    assert json.loads(cli.ok("rollback", "--json", box.id, snapshot["id"]))["source_snapshot_id"] == snapshot["id"]
    assert json.loads(cli.ok("put", "--json", f"{box.id}:f", input="x"))["size"] == 1
    assert json.loads(cli.ok("files", "--json", box.id))["entries"][0]["name"] == "f"
    fork = json.loads(cli.ok("fork", "--json", snapshot["id"]))
    assert json.loads(cli.ok("rm", "--json", fork["id"], snapshot["id"])) == [fork["id"], snapshot["id"]]
    assert json.loads(cli.ok("openapi"))["openapi"].startswith("3.1")


def test_put_keeps_mode_and_takes_another(cli, box, tmp_path):
    (tmp_path / "run").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "run").chmod(0o755)
    cli.ok("put", tmp_path / "run", f"{box.id}:bin/run")
    assert cli.ok("exec", box.id, "bin/run") == "ran\n"
    cli.ok("put", "--mode", "600", tmp_path / "run", f"{box.id}:b")
    cli.ok("put", box.id, "c", tmp_path / "run")
    assert box.sh("stat -c %a bin/run b c") == "755\n600\n755\n"
    assert "mode" in cli.fails(1, "put", "--mode", "9", tmp_path / "run", f"{box.id}:b")


def test_put_of_what_cannot_be_read_sends_nothing(cli, box, tmp_path):
    assert "No such file" in cli.fails(1, "put", tmp_path / "none", f"{box.id}:x")
    assert "cp" in cli.fails(1, "put", tmp_path, f"{box.id}:x")
    assert box.names() == []


def test_rm_with_force_minds_nothing_that_is_gone(cli, make):
    box = make()
    cli.ok("rm", box.id)
    assert "not found" in cli.fails(3, "rm", box.id)
    assert cli.ok("rm", "-f", box.id, "sb_0123456789abcdef", "snap_0123456789abcdef") == ""


def test_key_comes_from_option_variable_file_or_home(server, box, tmp_path):
    def cli(**env):
        return Cli(server.url, key=None, **env)

    key = tmp_path / "key"
    key.write_text(f"{KEY}\n")
    key.chmod(0o600)
    assert cli().fails(4, "ls").count("AGENT_SANDBOX_API_KEY") == 1
    cli(AGENT_SANDBOX_API_KEY_FILE=str(key)).ok("ls")
    cli(AGENT_SANDBOX_API_KEY="wrong-key-0123456789").ok("ls", "--key-file", key)
    cli(AGENT_SANDBOX_API_KEY=KEY, AGENT_SANDBOX_API_KEY_FILE="/nonexistent").ok("ls")
    home = tmp_path / "home"
    (home / ".config/agent-sandbox").mkdir(parents=True)
    (home / ".config/agent-sandbox/key").write_bytes(key.read_bytes())
    (home / ".config/agent-sandbox/key").chmod(0o600)
    cli(HOME=str(home)).ok("ls")
    cli(HOME="/nonexistent", XDG_CONFIG_HOME=str(home / ".config")).ok("ls")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_key_file_that_others_can_read_is_refused(server, tmp_path, mode):
    key = tmp_path / "key"
    key.write_text(KEY)
    key.chmod(mode)
    said = Cli(server.url, key=None).fails(2, "ls", "--key-file", key)
    assert "chmod 600" in said and KEY not in said


@pytest.mark.parametrize("content", ["", " \n", "two words", "k\x1b[31m", "x" * 5000, "schlüssel"])
def test_key_file_with_no_key_in_it_is_refused(server, tmp_path, content):
    key = tmp_path / "key"
    key.write_text(content)
    key.chmod(0o600)
    assert "key" in Cli(server.url, key=None).fails(2, "ls", "--key-file", key)


def test_url_that_cannot_be_is_refused_and_never_shows_a_password():
    for url in ("127.0.0.1:8080", "ftp://x/", "http://", "http://a b/", "http://h/?x=1", "file:///etc/passwd"):
        assert "AGENT_SANDBOX_URL" in Cli(url).fails(2, "ls")
    said = Cli("http://box:secret-secret@127.0.0.1:1/").fails(2, "ls")
    assert "secret" not in said and "AGENT_SANDBOX_API_KEY" in said
    assert "--url" in Cli("http://127.0.0.1:1").fails(2, "ls", "--url", "nowhere")


def test_url_may_have_a_slash_or_a_path(server):
    Cli(server.url + "/").ok("ls")
    assert "nothing at this path" in Cli(server.url + "/elsewhere").fails(3, "ls")


@pytest.mark.parametrize(
    "words",
    [
        ["create", "a", "b"], ["create", "--cpus", "0"], ["create", "--cpus", "nan"], ["create", "--memory", "1x"], ["create", "-t", "-1"],
        ["create", "-t"], ["create", "--label", "x"], ["create", "--env", "NOT_SET_HERE"], ["create", "--pids", "1.5"], ["ls", "x"],
        ["create", "--egress"], ["create", "--egress", "a", "--no-egress"], ["create", "-n", "--egress", "a"], ["create", "-n", "--no-egress"],
        ["show"],
        ["show", "a", "b"], ["timeout", "sb_x"], ["timeout", "sb_x", "soon"], ["rm"], ["snapshot"], ["rollback", "sb_x"], ["fork"],
        ["fork", "-n", "--no-network", "snap_x"], ["cat"], ["cat", "sb_x"], ["put"], ["put", "x"], ["files"], ["cp", "a"], ["cp", "a", "b"],
        ["cp", "a:b", "c:d"], ["ls", "--nope"], ["ls", "-z"], ["ls", "--json=1"], ["--nope", "ls"], ["nope"], [], ["openapi", "x"],
    ],
)  # fmt: skip
def test_wrong_use_is_status_2_and_says_what_is_wrong(words):
    p = Cli("http://127.0.0.1:1")(*words)
    assert p.returncode == 2 and p.stdout == "" and p.stderr.startswith("agent-sandbox") and "--help" in p.stderr


def test_wrong_use_of_exec_is_not_taken_for_the_commands_status():
    for words in (
        ["exec"], ["exec", "sb_x"], ["exec", "-t", "x", "sb_x", "true"], ["exec", "--events", "--json", "sb_x", "true"],
        ["run", "-c", "1", "--egress"], ["run", "-c", "1", "--egress", "a", "--no-egress"],
    ):  # fmt: skip
        assert Cli("http://127.0.0.1:1")(*words).returncode == 125


def test_help_tells_every_verb_and_every_option():
    cli = Cli("http://127.0.0.1:1")
    top = cli.ok("--help")
    verbs = re.findall(r"^  ([a-z]+) +\S", top, re.M)
    assert set(verbs) >= set(
        "create ls show exec cp cat put files snapshot snapshots rollback fork timeout rm openapi serve keygen keys doctor".split()
    )
    for verb in verbs:
        if verb != "serve":
            said = cli.ok(verb, "--help")
            assert said.startswith(f"usage: agent-sandbox {verb}") and said == cli.ok("help", verb) and "--json" in said
    assert all(len(line) <= 100 for verb in verbs for line in cli.ok(verb, "--help").splitlines() if verb != "serve")


def test_output_to_a_full_disk_is_an_error(cli, box):
    box.put("f", b"x" * 10000)
    for words in (["ls"], ["cat", f"{box.id}:f"], ["show", box.id], ["files", box.id, "--json"], ["exec", "-n", box.id, "echo x"]):
        with open("/dev/full", "w") as full:
            p = cli(*words, stdout=full)
        assert p.returncode == (125 if words[0] == "exec" else 1) and "No space left" in p.stderr, words


def test_other_users_cannot_read_the_key_from_the_process(cli, box):
    with cli.start("exec", "-n", box.id, "echo on; sleep 30") as p:
        p.stdout.readline()
        assert box.id in command_line(p.pid) and KEY not in command_line(p.pid)
        told = status(p.pid)
        assert (told["NoNewPrivs"], told["Seccomp"]) == ("1", "2")
        p.send_signal(signal.SIGINT)
        assert p.wait(30) == 130


def test_many_at_once(cli, box):
    began = [cli.start("exec", "-n", box.id, f"sleep 0.2; echo {n}") for n in range(12)]
    for n, p in enumerate(began):
        with p:
            assert p.stdout.read() == f"{n}\n".encode() and p.wait(30) == 0


def test_silent_command_is_waited_for(cli, box):
    began = time.monotonic()
    assert cli.ok("exec", "-n", box.id, "sleep 3; echo late") == "late\n" and time.monotonic() - began > 2.5


def test_manual_and_help_tell_of_the_same_options():
    cli = Cli("http://127.0.0.1:1")
    page = (ROOT / "docs/agent-sandbox.1").read_text()
    told = set()
    for verb in re.findall(r"^  ([a-z]+) +[A-Z]", cli.ok("--help"), re.M):
        assert re.search(rf"^\.It Cm (serve , )?{verb}\b", page, re.M), verb
        if verb != "serve":
            for letter, name in re.findall(r"^  (?:-([a-zA-Z]), )?--([a-z-]+)", cli.ok(verb, "--help"), re.M):
                told.add(f"-{name}")
                assert re.search(rf"Fl -{name}\b", page), f"{verb} --{name}"
                assert not letter or re.search(rf"Fl [a-zA-Z]*{letter}", page), f"{verb} -{letter}"
    assert set(re.findall(r"Fl (-[a-z-]+)", page)) - told <= {"-help", "-version"}


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    built = tmp_path_factory.mktemp("probe") / "probe.so"
    source = ROOT / "tests/tools/client_probe.c"
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-Wall", "-shared", "-fPIC", "-o", built, source, "-ldl"], check=True, timeout=60)
    return str(built)


def tried(p):
    return dict(line.removeprefix("probe: ").split(": ") for line in p.stderr.splitlines() if line.startswith("probe: "))


@pytest.mark.skipif(bool(os.environ.get("SAN")), reason="a sanitizer wants to be loaded first")
def test_taken_over_it_cannot_start_programs_or_open_files(cli, box, probe):
    for words in (["ls"], ["exec", "-n", box.id, "true"], ["cat", f"{box.id}:f"], ["put", f"{box.id}:f"]):
        came = tried(cli(*words, env={"LD_PRELOAD": probe}))
        assert {came[x] for x in ("exec", "fork", "kill", "listen", "ptrace")} == {"EPERM"}, words
        assert {came[x] for x in ("read a file", "read memory", "write a file", "make a folder")} == {"EACCES"}, words


@pytest.mark.skipif(bool(os.environ.get("SAN")), reason="a sanitizer wants to be loaded first")
def test_taken_over_while_copying_it_cannot_start_programs(cli, box, probe, tmp_path):
    box.put("f", b"x")
    came = tried(cli("cp", f"{box.id}:f", tmp_path / "f", env={"LD_PRELOAD": probe, "CLIENT_PROBE_FOLDER": str(tmp_path)}))
    assert {came[x] for x in ("exec", "fork", "kill", "listen", "ptrace")} == {"EPERM"}
