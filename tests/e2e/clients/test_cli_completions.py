"""The completions, in the shells that they are for: verbs, options, ids and paths, and nothing said when there is no server."""

import re
import subprocess

import pytest
import trap as t
from cli_kit import COMMAND, Cli, Terminal
from harness import ROOT

FOLDER = ROOT / "etc/completions"
VERBS = set("run create ls show exec cp cat put files snapshot snapshots rollback fork timeout rm openapi serve keygen keys doctor".split())


def bash(env, line):
    script = (
        f'source "{FOLDER}/agent-sandbox.bash"; COMP_LINE=$1 COMP_POINT=${{#1}}; _agent_sandbox 2>&1; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    p = subprocess.run(["bash", "-c", script, "bash", line], env=env, capture_output=True, text=True, timeout=60)
    found = [x for x in p.stdout.splitlines() if "compopt" not in x]
    # What stands before a colon is not repeated.
    last = line.split(" ")[-1]
    return {last.rpartition(":")[0] + ":" + x if ":" in last else x for x in found if x}


def fish(env, line):
    script = f'source "{FOLDER}/agent-sandbox.fish"; complete -C $argv[1]'
    p = subprocess.run(["fish", "--no-config", "-c", script, line], env=env, capture_output=True, text=True, timeout=60)
    assert p.stderr == ""
    return {x.split("\t")[0] for x in p.stdout.splitlines()}


def zsh(env, line):
    """On a terminal, since its completion runs only in its line editor; what fits is shown in a list, or put into the line when it is one."""
    one = Terminal(["zsh", "-f", "-i"], env, rows=60, columns=120)
    setup = f"PS1='> '; fpath=('{FOLDER}' $fpath); autoload -U compinit; compinit -u -D; zstyle ':completion:*' menu no; unsetopt automenu; setopt autolist noalwayslastprompt; LISTMAX=0; echo rea''dy\n"
    one.type(setup.encode())
    one.until(b"ready\r\n").until(b"> ")
    one.text = b""
    one.type(line.encode() + b"\t\t")
    size, quiet = 0, 0
    while quiet < 4:
        one.read(0.5)
        size, quiet = len(one.text), quiet + 1 if len(one.text) == size else 0
    one.type(b"\x03")
    one.read(0.2)
    one.kill()
    text = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b" ", one.text.replace(b"\x07", b"")).decode(errors="replace")
    return set(re.split(r"\s+", text))


@pytest.mark.parametrize(
    ("typed", "line"),
    [(f"cat {t.SANDBOX_ID}:{x}", f"cat {t.SANDBOX_ID}:d/a=b@c.txt") for x in ("d/", "d/a=", "d/a=b", "d/a=b@", "d/a=b@c")]
    + [(f"files {t.SANDBOX_ID[:7]}", f"files {t.SANDBOX_ID}")],
)
def test_word_that_bash_breaks_in_pieces_is_completed_as_one(tmp_path, typed, line):
    trap = t.Trap()
    trap.on("GET /v1/sandboxes$", t.reply(200, {"sandboxes": [t.SANDBOX]}))
    trap.on("GET .*/files/list", t.reply(200, {"entries": [{"name": "a=b@c.txt", "type": "file"}]}))
    (tmp_path / "agent-sandbox").symlink_to(COMMAND)
    one = Terminal(["bash", "--norc", "-i"], Cli(trap.url).env | {"PATH": f"{tmp_path}:/usr/bin:/bin", "INPUTRC": "/dev/null"})
    one.type(f"PS1='> '; source '{FOLDER}/agent-sandbox.bash'; echo rea''dy\n".encode())
    one.until(b"ready\r\n").until(b"> ")
    # Ctrl-A, "echo", Ctrl-E: the line is printed, without the blank at its end.
    one.type(f"agent-sandbox {typed}\t".encode() + b"\x01echo \x05\n")
    one.until(f"agent-sandbox {line}\r\n".encode())
    one.kill()
    trap.close()


SHELLS = {"bash": bash, "fish": fish, "zsh": zsh}


@pytest.fixture(params=list(SHELLS))
def shell(request, tmp_path):
    """shell(url, line): the words that are offered."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/agent-sandbox").symlink_to(COMMAND)

    def offered(url, line, **more):
        env = Cli(url, **more).env | {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
        return SHELLS[request.param](env, line)

    return offered


def test_verbs(shell):
    assert shell("http://127.0.0.1:1", "agent-sandbox ") >= VERBS
    assert {"snapshot", "snapshots"} <= shell("http://127.0.0.1:1", "agent-sandbox sna")


def test_options_of_a_verb(shell):
    assert {"--image", "--timeout", "--network", "--egress", "--no-egress", "--json", "--help"} <= shell(
        "http://127.0.0.1:1", "agent-sandbox create --"
    )
    assert {"--force", "--all-links"} <= shell("http://127.0.0.1:1", "agent-sandbox cp --")
    assert {"--name", "--quota", "--from"} <= shell("http://127.0.0.1:1", "agent-sandbox keygen --")
    assert {"--language", "--egress", "--no-egress"} <= shell("http://127.0.0.1:1", "agent-sandbox run --")


def test_names_of_keys(shell, tmp_path):
    file = tmp_path / "keys"
    for name in ("ci-runner", "ci-nightly"):
        subprocess.run([COMMAND, "keygen", "--name", name, "--file", file], check=True, capture_output=True, timeout=60)
    assert {"list", "revoke"} <= shell("http://127.0.0.1:1", "agent-sandbox keys ", AGENT_SANDBOX_KEYS_FILE=str(file))
    found = shell("http://127.0.0.1:1", "agent-sandbox keys revoke ci", AGENT_SANDBOX_KEYS_FILE=str(file))
    assert {"ci-runner", "ci-nightly"} <= found


def test_ids(shell, server, box):
    for verb in ("show", "exec", "rm", "timeout", "snapshot", "rollback", "files"):
        found = shell(server.url, f"agent-sandbox {verb} sb")
        assert box.id in {x.rstrip(":") for x in found}, verb


def test_ids_of_snapshots(shell, server, box, api):
    snapshot = box.snapshot()
    api.snapshots.append(snapshot)
    for line in ("fork ", f"rollback {box.id} ", "rm sn", "show sn"):
        assert snapshot in shell(server.url, f"agent-sandbox {line}"), line


def test_paths_in_a_sandbox(shell, server, box):
    box.put("folder/inner.txt")
    box.put("fo\x1b[31m odd")
    found = shell(server.url, f"agent-sandbox cat {box.id}:")
    assert any(x.endswith("folder") for x in found) and not any("\x1b" in x for x in found)
    assert any(x.endswith("inner.txt") for x in shell(server.url, f"agent-sandbox cat {box.id}:folder/"))


def test_names_of_a_sandbox_are_never_run(shell, server, box, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (
        "$(touch${IFS}RUN)",
        "`touch${IFS}RUN`",
        "x;touch${IFS}RUN",
        "<(touch${IFS}RUN)",
        "(touch RUN)",
        "a$((RUN=1))",
        "'",
        "{a,b}",
        "fine-ä.txt",
    ):
        box.put(f"bad/{name}")
        box.put(f"bad/{name}.d/in")
    for line in (f"cat {box.id}:bad/", f"cat {box.id}:bad/$(touch${{IFS}}RUN).d/", f"cp {box.id}:bad/x"):
        found = shell(server.url, f"agent-sandbox {line}")
        if line.endswith("bad/"):
            assert any(x.endswith("fine-ä.txt") for x in found)
            assert not any(c in x for x in found if "bad/" in x for c in "$`;(){}'")
    assert not [p for p in tmp_path.rglob("*") if "RUN" in p.name]


def test_ids_of_a_strange_server_are_never_run(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ("sb_$(touch${IFS}RUN)", "sb_`touch${IFS}RUN`", t.SANDBOX_ID)
    trap = t.Trap()
    trap.on("GET /v1/sandboxes", t.reply(200, {"sandboxes": [t.SANDBOX | {"id": name} for name in names]}))
    trap.on("GET /v1/snapshots", t.reply(200, {"snapshots": [t.SNAPSHOT | {"id": "snap_$(touch${IFS}RUN)"}]}))
    for line in ("show s", "rm ", "cat s", "fork s", "rollback x sn"):
        assert not any("$" in x or "`" in x for x in shell(trap.url, f"agent-sandbox {line}") if x.startswith("s")), line
    trap.close()
    assert not [p for p in tmp_path.rglob("*") if "RUN" in p.name]


def test_nothing_is_said_without_a_server(shell):
    for line in ("show ", "fork ", "cat x:"):
        found = " ".join(shell("http://127.0.0.1:1", f"agent-sandbox {line}"))
        assert "sb_" not in found and "nothing answers" not in found
