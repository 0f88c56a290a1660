"""The key file by the command: keygen --name adds a line, keys list shows what is in it, keys revoke takes one away."""

import hashlib
import json
import os
import re
import resource
import signal
import stat
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
COMMAND = Path(os.environ.get("AS_TEST_BUILD", ROOT / "build")) / "agent-sandbox"


def run(*args, env=None, **more):
    more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
    return subprocess.run([COMMAND, *map(str, args)], env={"PATH": os.environ["PATH"]} | (env or {}), text=True, timeout=60, **more)


def ok(*args, **more):
    p = run(*args, **more)
    assert p.returncode == 0, p.stderr
    return p.stdout


def fails(status, *args, **more):
    """It ends with this status and one line, and prints nothing else."""
    p = run(*args, **more)
    assert p.returncode == status and p.stdout in ("", None), (p.returncode, p.stdout, p.stderr)
    assert p.stderr.startswith("agent-sandbox") and p.stderr.rstrip("\n").split("\nusage:")[0].count("\n") == 0, p.stderr
    return p.stderr


def lines(file):
    return [json.loads(line) for line in file.read_text().splitlines() if line and not line.startswith("#")]


def tree(folder):
    """Names and contents of all files."""
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "keys"


def small_files():
    """No file of this process grows beyond 700 bytes: as on a disk that is full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))


def test_key_is_printed_once_and_only_its_digest_is_in_the_file(file):
    p = run("keygen", "--name", "ci", "--file", file)
    assert p.returncode == 0 and re.fullmatch(r"as_[0-9A-Za-z]{43}\n", p.stdout)
    key = p.stdout.strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    [line] = lines(file)
    assert line == {
        "name": "ci", "tenant": "default", "digest": hashlib.sha256(key.encode()).hexdigest(),
        "scopes": ["read", "exec", "files", "manage"], "expires": None,
    }  # fmt: skip
    assert key not in file.read_text() + p.stderr
    assert "SIGHUP" in p.stderr and str(file) in p.stderr and p.stderr.count("\n") == 1


def test_all_that_the_options_say_is_in_the_line_and_in_the_list(file):
    ok(
        "keygen", "--name", "ci", "--tenant", "acme", "--scopes", "exec,files", "--expires", "2031-01-31", "--from", "10.0.0.0/8, 192.0.2.7",
        "--from", "2001:db8::/32", "--quota", "sandboxes=5,cpus=2.5", "--quota", "execs=0", "--certificate", "ci of Acme", "-f", file,
    )  # fmt: skip
    [line] = lines(file)
    digest = line.pop("digest")
    want = {
        "name": "ci", "tenant": "acme", "scopes": ["exec", "files"], "expires": "2031-01-31T00:00:00Z", "quotas":
        {"sandboxes": 5, "cpus": 2.5, "execs": 0}, "certificate": "ci of Acme",
    }  # fmt: skip
    assert line == want | {"from": ["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"]}
    listed = ok("keys", "list", "--json", "-f", file)
    assert json.loads(listed) == [want | {"from": ["10.0.0.0/8", "192.0.2.7/32", "2001:db8::/32"], "expired": False, "has_key": True}]
    table = ok("keys", "list", "-f", file)
    for word in ("ci", "acme", "exec,files", "2031-01-31T00:00:00Z", "2001:db8::/32", "sandboxes=5,cpus=2.5,execs=0", "ci of Acme"):
        assert word in table, table
    assert digest not in listed + table
    assert ok("keys", "list", "-q", env={"AGENT_SANDBOX_KEYS_FILE": str(file)}) == "ci\n"


def test_the_key_as_json_comes_with_what_it_is_for(file):
    said = json.loads(ok("keygen", "--json", "--name", "ci", "--scopes", "admin", "-f", file))
    [line] = lines(file)
    assert hashlib.sha256(said.pop("key").encode()).hexdigest() == line.pop("digest") and said == line


def test_certificate_may_stand_without_a_key(file):
    assert ok("keygen", "--name", "ci", "--certificate", "ci", "--no-key", "-f", file) == ""
    assert lines(file)[0]["digest"] is None
    assert json.loads(ok("keys", "list", "--json", "-f", file))[0]["has_key"] is False


@pytest.mark.parametrize(("given", "seconds"), [("90d", 90 * 86400), ("2h", 7200), ("3600", 3600)])
def test_time_to_expiry_counts_from_now(file, given, seconds):
    before = time.time()
    ok("keygen", "--name", "ci", "--expires", given, "-f", file)
    at = datetime.strptime(lines(file)[0]["expires"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
    assert before + seconds - 2 < at < time.time() + seconds + 2


# Options beside --name -> words of the message.
WRONG = {
    "name": (["--name", "-x"], ["--name: must be"]),
    "name with a line end": (["--name", "a\nb"], ["--name: must be"]),
    "tenant": (["--tenant", "a/b"], ["--tenant: must be"]),
    "scope": (["--scopes", "read,write"], ["--scopes: only read"]),
    "no scope": (["--scopes", ","], ["--scopes: must be"]),
    "scope twice": (["--scopes", "read,read"], ["read stands twice"]),
    "no date": (["--expires", "soon"], ["--expires: soon is neither"]),
    "no such day": (["--expires", "2027-02-30"], ["is neither"]),
    "past": (["--expires", "2020-01-01"], ["is over already"]),
    "address": (["--from", "10.0.0.1/8"], ["--from: 10.0.0.1/8 has bits"]),
    "host": (["--from", "example.org"], ["--from: example.org is no address"]),
    "quota": (["--quota", "sandboxes"], ["NAME=NUMBER"]),
    "unknown quota": (["--quota", "boxes=1"], ["there is no quota boxes"]),
    "half a sandbox": (["--quota", "sandboxes=0.5"], ["whole number"]),
    "no number": (["--quota", "sandboxes=many"], ["many is not a number"]),
    "negative": (["--quota", "execs=-1"], ["from 0"]),
    "quota twice": (["--quota", "execs=1", "--quota", "execs=2"], ["given twice"]),
    "no key and no certificate": (["--no-key"], ["needs --certificate"]),
    "long certificate": (["--certificate", "x" * 64], ["at most 63"]),
    "not UTF-8": (["--tenant", b"\xff"], ["is not UTF-8"]),
}  # fmt: skip


@pytest.mark.parametrize(("options", "words"), WRONG.values(), ids=list(WRONG))
def test_wrong_options_are_said_and_leave_no_file(file, options, words):
    name = [] if "--name" in options else ["--name", "ci"]
    p = subprocess.run([COMMAND, "keygen", *name, *options, "-f", file], env={}, capture_output=True, timeout=60)
    said = p.stderr.decode()
    assert p.returncode == 2 and p.stdout == b"" and all(word in said for word in words), said
    assert not file.exists()


def test_which_file_must_be_known(tmp_path):
    assert "--file" in fails(2, "keygen", "--name", "ci", cwd=tmp_path) and "--file" in fails(2, "keys", "list")
    assert "--name is missing" in fails(2, "keygen", "--file", tmp_path / "keys")
    assert "revoke" in fails(2, "keys", "delete", "x") and "NAME is missing" in fails(2, "keys", "revoke")
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_there_is_refused(file):
    ok("keygen", "--name", "ci", "-f", file)
    before = file.read_bytes()
    assert "there is a key ci already, in line 1" in fails(1, "keygen", "--name", "ci", "-f", file)
    assert file.read_bytes() == before


def test_a_line_that_does_not_go_with_another_is_refused(file):
    ok("keygen", "--name", "a", "--tenant", "acme", "--quota", "sandboxes=10", "-f", file)
    before = file.read_bytes()
    said = fails(2, "keygen", "--name", "b", "--tenant", "acme", "--quota", "sandboxes=5", "-f", file)
    assert "line 2: tenant acme has sandboxes 5 here and 10 in line 1" in said
    assert file.read_bytes() == before


def test_what_stands_in_the_file_stays(file):
    file.write_text("# our keys\n\n" + json.dumps({"name": "a", "digest": "1" * 64}))
    file.chmod(0o600)
    before = file.read_text()
    ok("keygen", "--name", "b", "-f", file)
    assert file.read_text().startswith(before + "\n{") and [x["name"] for x in lines(file)] == ["a", "b"]


@pytest.mark.parametrize(
    ("prepare", "status", "words"),
    [
        (lambda f: (f.write_text(""), f.chmod(0o640)), 2, ["mode 0640", "chmod 600"]),
        (lambda f: f.mkdir(), 1, ["directory"]),
        (lambda f: os.mkfifo(f, 0o600), 2, ["not a file"]),
        (lambda f: (f.write_text("{}\n#\n"), f.chmod(0o600)), 2, ["line 1: name: is missing"]),
        (lambda f: (f.write_bytes(b"# \0\n"), f.chmod(0o600)), 2, ["no text file"]),
        (lambda f: (f.write_bytes(b"#" * (4 << 20) + b"\n"), f.chmod(0o600)), 2, ["too large"]),
        (lambda f: f.symlink_to("/nonexistent/keys"), 3, ["No such file"]),
    ],
    ids=["mode", "folder", "pipe", "malformed", "no text", "large", "dangling link"],
)
def test_file_that_no_server_would_take_is_refused_and_stays(file, prepare, status, words):
    prepare(file)
    before = file.read_bytes() if file.is_file() else None
    for verb in (["keygen", "--name", "ci"], ["keys", "revoke", "ci"]):
        said = fails(status, *verb, "-f", file)
        assert str(file) in said and all(word in said for word in words), said
    assert (file.read_bytes() if file.is_file() else None) == before


def test_folder_that_is_not_there(tmp_path):
    assert "No such file" in fails(3, "keygen", "--name", "ci", "-f", tmp_path / "no" / "keys")
    assert "No such file" in fails(3, "keys", "list", "-f", tmp_path / "keys") and not (tmp_path / "keys").exists()


@pytest.mark.parametrize("there", [False, True])
def test_key_that_cannot_be_printed_is_not_in_the_file(file, there):
    if there:
        ok("keygen", "--name", "a", "-f", file)
    before = tree(file.parent)
    with open("/dev/full", "w") as full:
        assert run("keygen", "--name", "ci", "-f", file, stdout=full).returncode == 1
    assert tree(file.parent) == before


@pytest.mark.parametrize("there", [0, 3])
def test_line_that_does_not_fit_is_not_in_the_file(file, there):
    for n in range(there):
        ok("keygen", "--name", f"k{n}", "-f", file)
    before = tree(file.parent)
    more = [] if there else [w for n in range(30) for w in ("--from", f"2001:db8:1111:2222:3333:4444:{n}::/112")]
    assert "File too large" in fails(1, "keygen", "--name", "x" * 63, *more, "-f", file, preexec_fn=small_files)
    assert tree(file.parent) == before


def test_many_at_once_lose_nothing(file):
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda n: ok("keygen", "--name", f"k{n}", "-f", file), range(16)))
        assert {x["name"] for x in lines(file)} == {f"k{n}" for n in range(16)} and len(set(keys)) == 16
        work = [["keygen", "--name", f"n{n}"] for n in range(8)] + [["keys", "revoke", f"k{n}"] for n in range(16)]
        list(pool.map(lambda words: ok(*words, "-f", file), work))
        assert {x["name"] for x in lines(file)} == {f"n{n}" for n in range(8)}
        same = list(pool.map(lambda n: run("keygen", "--name", "one", "-f", file).returncode, range(8)))
    assert sorted(same) == [0] + [1] * 7 and set(tree(file.parent)) == {"keys"}


def test_revoke_keeps_comments_mode_owner_and_link(tmp_path, file):
    real = tmp_path / "deep" / "real"
    real.parent.mkdir()
    file.symlink_to("deep/real")
    for name in "abc":
        ok("keygen", "--name", name, "-f", real)
    a, b, c = real.read_text().splitlines()
    real.write_text(f"# first\n{a}\n\n# of b\n{b}\n#\n{c}")
    if os.geteuid() == 0:
        os.chown(real, 12345, 23456)
    real.chmod(0o400 if os.geteuid() == 0 else 0o600)
    before = real.stat()
    p = run("keys", "revoke", "b", "-f", file)
    assert p.returncode == 0 and p.stdout == "" and "SIGHUP" in p.stderr
    assert real.read_text() == f"# first\n{a}\n\n# of b\n#\n{c}" and file.is_symlink()
    after = real.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)
    ok("keys", "revoke", "c", "-f", file)
    assert real.read_text() == f"# first\n{a}\n\n# of b\n#\n" and os.listdir(real.parent) == ["real"]


def test_revoke_of_a_name_that_is_not_there_changes_nothing(file):
    ok("keygen", "--name", "ci", "-f", file)
    before = file.stat()
    assert "there is no key c:" in fails(3, "keys", "revoke", "c", "-f", file)
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_revoke_that_fails_leaves_the_file_and_nothing_else(file):
    for n in range(8):
        ok("keygen", "--name", f"k{n}", "-f", file)
    before = tree(file.parent)
    assert "File too large" in fails(1, "keys", "revoke", "k0", "-f", file, preexec_fn=small_files)
    assert tree(file.parent) == before


def test_list_tells_what_is_over(file):
    file.write_text(json.dumps({"name": "old", "digest": "1" * 64, "expires": "2020-01-01T00:00:00Z"}) + "\n")
    file.chmod(0o600)
    assert "(over)" in ok("keys", "list", "-f", file)
    assert json.loads(ok("keys", "list", "--json", "-f", file))[0]["expired"] is True


def test_list_of_an_empty_file_is_empty(file):
    file.touch(0o600)
    assert json.loads(ok("keys", "list", "--json", "-f", file)) == [] and ok("keys", "list", "-q", "-f", file) == ""
