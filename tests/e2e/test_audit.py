"""The audit log of a whole server: signed by keyd, checked by the command, seen through when somebody has been at it; full disks,
files that are closed, kills in between."""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from harness import BUILD, check_error
from machine import wait_until

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "proc"))
from audit_kit import Log, chained, digest  # noqa: E402

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="users and mounts need root")
pytestmark = pytest.mark.bare


def audit(server, *words):
    env = {"PATH": os.environ["PATH"], "AGENT_SANDBOX_DATA_DIR": str(server.data)}
    return subprocess.run([BUILD / "agent-sandbox", "audit", *words], env=env, capture_output=True, text=True, timeout=100)


def good(server, *words):
    p = audit(server, "verify", "--json", *words)
    assert p.returncode == 0, p.stdout + p.stderr
    return json.loads(p.stdout)


def fault(server, *words):
    p = audit(server, "verify", "--json", *words)
    assert p.returncode == 1, p.stdout + p.stderr
    return json.loads(p.stdout)["fault"]


def actions(server):
    return [json.loads(x)["action"] for x in (server.data / "audit.log").read_text().split("\n")[:-1]]


def refused(server):
    """The start ends with status 2 and one line about it. Returns the line."""
    before = server.log.stat().st_size
    server.launch()
    assert server.process.wait(60) == 2
    said = server.log.read_bytes()[before:].decode().splitlines()
    [line] = [x for x in said if "docs/AUDIT-LOG.md" in x]
    return line


def lived(own, **settings):
    """A server that has served a little and was ended."""
    s = own(**settings)
    b = s.api.create(memory_mb=64)
    assert b.sh("echo x") == "x\n"
    assert s.api.ask("DELETE", b.path).status_code == 204
    assert s.end() == 0
    return s


def test_everything_that_happened_is_in_a_log_that_is_signed_to_its_end(own):
    s = lived(own)
    got = actions(s)
    assert got[:3] == ["signing_key", "start", "checkpoint"] and got[-2:] == ["stop", "checkpoint"]
    assert got[3] == "create" and sorted(got[4:-2]) == ["destroy", "exec"], "a session tells of its command's end behind the answer"
    found = good(s)
    assert found["lines"] == len(got) and found["signed_upto"] == len(got) - 1 and found["key_known"]
    assert (s.data / "keyd" / "audit.pub").read_text().strip() == found["key"]
    s.start()
    assert good(s)["checkpoints"] >= 3


@ROOT_ONLY
def test_managerd_can_neither_read_nor_replace_what_keyd_keeps(own):
    """Whoever owns managerd has its user, and the data directory."""
    s = own()
    before = (s.data / "keyd" / "audit").read_bytes()
    tries = """
import os, sys
def no(call, *args):
    try: call(*args)
    except OSError: return
    print("done:", call.__name__, args)
os.chdir(sys.argv[1])
no(os.listdir, "keyd"); no(open, "keyd/audit"); no(open, "keyd/audit", "wb"); no(os.unlink, "keyd/audit")
no(os.rename, "keyd", "old"); no(os.rmdir, "keyd"); no(os.chmod, "keyd", 0o777); no(os.symlink, "/tmp", "keyd")
os.mkdir("mine"); no(os.rename, "mine", "keyd"); os.rmdir("mine"); no(os.chmod, ".", 0o777)
no(os.rename, "keyd/audit", "audit2"); no(os.link, "keyd/audit", "audit2")
"""
    st = (s.data / "audit.log").stat()
    p = subprocess.run(
        [sys.executable, "-c", tries, s.data], user=st.st_uid, group=st.st_gid, extra_groups=[], capture_output=True, text=True
    )
    assert (p.returncode, p.stdout) == (0, ""), p
    assert (s.data / "keyd" / "audit").read_bytes() == before


@pytest.mark.parametrize("how", ["cut", "emptied", "removed"])
def test_log_that_lost_its_end_is_seen_and_the_server_does_not_start_on_it(own, how):
    s = lived(own)
    log = s.data / "audit.log"
    whole = log.read_bytes()
    if how == "removed":
        log.rename(s.dir / "aside")
    else:
        os.truncate(log, 0 if how == "emptied" else len(b"".join(whole.splitlines(keepends=True)[:-4])))
    if how == "cut":
        assert fault(s) == "cut"
    assert "was signed up to line" in refused(s)
    if how == "removed":
        log.unlink(missing_ok=True)
        (s.dir / "aside").rename(log)
    else:
        log.write_bytes(whole)
    s.start()
    assert good(s)["lines"] > 5


def test_log_that_was_made_to_fit_again_is_seen_and_the_server_does_not_start_on_it(own):
    s = lived(own)
    log = s.data / "audit.log"
    whole = log.read_text()
    lines = whole.splitlines()
    at = next(i for i, x in enumerate(lines) if '"exec"' in x)
    lines[at] = lines[at].replace('"status":200', '"status":404')
    log.write_text("".join(x + "\n" for x in lines))
    assert fault(s) == "changed"
    log.write_text(chained(lines).text())
    assert fault(s) == "re-chained"
    unsigned = [x for x in lines if '"checkpoint"' not in x]
    log.write_text(chained([*unsigned, *unsigned[:6]]).text())
    assert fault(s) == "re-chained", "without any checkpoint keyd's own memory tells"
    assert "is not the one that was signed" in refused(s)
    log.write_text(whole)
    s.start()


def test_new_key_is_seen(own):
    s = lived(own)
    old = good(s)["key"]
    shutil.move(s.data / "keyd", s.dir / "keyd")
    s.start()
    new = (s.data / "keyd" / "audit.pub").read_text().strip()
    assert new != old and actions(s).count("signing_key") == 2
    assert fault(s) == "key"
    assert good(s, "--key", old, "--key", new)["key"] == new


def lengthened(server, size):
    """The log of a server that is down, gone on with as managerd would, until only so much is missing to one MiB."""
    log, path = Log(), server.data / "audit.log"
    log.lines = path.read_text().splitlines()
    log.seq, log.prev = len(log.lines), digest(log.lines[-1])
    had = sum(len(x) + 1 for x in log.lines)
    while had < (1 << 20) - size:
        had += len(log.add()) + 1
    path.write_text(log.text())


def test_files_are_closed_and_the_chain_goes_on_through_kills(own):
    s = lived(own, AUDIT_MAX_MB=1)
    lengthened(s, 5000)
    s.start()
    b = s.api.create(memory_mb=64)
    for part in (5, 20):
        for _ in range(part):
            assert s.api.ask("POST", b.path + "/timeout", json={"timeout_seconds": 600}).status_code == 200
        gone = s.kill("managerd")
        assert wait_until(lambda gone=gone: s.settled(gone), 30)
        s.api.fresh()
    assert s.api.ask("DELETE", b.path).status_code == 204
    assert s.end() == 0
    [closed] = s.data.glob("audit-*.log")
    assert closed.name == "audit-000000000001.log" and closed.stat().st_size > 1 << 20
    assert json.loads(closed.read_text().splitlines()[-1])["action"] == "rotated"
    assert good(s)["lines"] > 1000
    p = audit(s, "tail", "-n", "5", "--json")
    assert p.returncode == 0 and len(p.stdout.splitlines()) == 5
    sent = 25
    p = audit(s, "show", "--action", "timeout", "--json")
    assert p.returncode == 0 and len(p.stdout.splitlines()) == sent, "what was answered is in it"


@contextlib.contextmanager
def small_disk(folder, megabytes):
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(path):
    """Takes all space there is."""
    with open(path, "wb") as f, contextlib.suppress(OSError):
        while True:
            f.write(bytes(1 << 16)), f.flush()


@ROOT_ONLY
@pytest.mark.parametrize("policy", ["refuse", "continue"])
def test_full_disk(own, policy):
    s = own(start=False, AUDIT_FULL=policy, DISK_FLOOR_MB=0)
    with small_disk(s.data, 16):
        try:
            s.start()
            b, other = s.api.create(memory_mb=64), s.api.create(memory_mb=64)
            # More than the log needs at first, so that it soon asks for more than there is.
            fill(s.data / "filler")
            ask = lambda: s.api.ask("POST", b.path + "/exec", json={"command": ["true"]})  # noqa: E731
            if policy == "refuse":
                # The reserve of the beginning is used up by and by.
                assert wait_until(lambda: ask().status_code == 503, 90, 0)
                message = check_error(ask(), 503)
                assert message == "the audit log cannot be written" and ask().headers["Retry-After"] == "1"
                assert s.api.ask("GET", b.path).status_code == 200
                assert s.api.ask("DELETE", other.path).status_code == 204, "what makes room must not be stopped"
            else:
                for _ in range(50):
                    assert ask().status_code == 200
            (s.data / "filler").unlink()
            assert wait_until(lambda: ask().status_code == 200, 30)
            assert s.api.ask("DELETE", b.path).status_code == 204
            assert good(s)["lines"] > 5
            if policy == "refuse":
                assert "gap" not in actions(s), "no line was lost"
        finally:
            s.end()


@ROOT_ONLY
def test_data_directory_of_before_there_were_signatures_is_taken_over(own):
    """It belonged to managerd's user, and the lines had no numbers."""
    s = lived(own)
    owner = (s.data / "audit.log").stat()
    shutil.rmtree(s.data / "keyd")
    old = []
    prev = "0" * 64
    for n in range(3):
        old.append(json.dumps({"action": "create", "n": n, "prev": prev}, separators=(",", ":")))
        prev = hashlib.sha256(old[-1].encode()).hexdigest()
    (s.data / "audit.log").write_text("".join(x + "\n" for x in old))
    os.chown(s.data, owner.st_uid, owner.st_gid)
    s.data.chmod(0o700)
    s.start()
    assert (s.data.stat().st_uid, s.data.stat().st_mode & 0o7777) == (0, 0o1770)
    b = s.api.create(memory_mb=64)
    assert s.api.ask("DELETE", b.path).status_code == 204
    assert good(s)["lines"] > 5


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM])
def test_server_that_was_killed_at_any_moment_has_a_log_that_is_good(own, sig):
    s = own(AUDIT_CHECKPOINT_SECONDS=1, AUDIT_SYNC="line")
    b = s.api.create(memory_mb=64)
    for _ in range(3):
        for _ in range(20):
            assert s.api.ask("POST", b.path + "/timeout", json={"timeout_seconds": 600}).status_code == 200
        s.end(sig)
        s.start()
        s.api.fresh()
    assert good(s)["checkpoints"] > 3
    assert [x for x in actions(s) if x == "timeout"] == ["timeout"] * 60


def test_death_of_a_program_and_of_a_session_and_a_reload_are_in_it(own, tmp_path):
    keys = tmp_path / "keys"
    subprocess.run([BUILD / "agent-sandbox", "keygen", "--name", "ci", "--file", keys], check=True, capture_output=True)
    s = own(KEYS_FILE=keys)
    b = s.api.create(memory_mb=64)
    os.kill(s.pid("sessiond"), signal.SIGKILL)
    assert wait_until(lambda: "session_died" in actions(s))
    s.process.send_signal(signal.SIGHUP)
    assert wait_until(lambda: "reload" in actions(s))
    keys.chmod(0o644)
    s.process.send_signal(signal.SIGHUP)
    assert wait_until(lambda: actions(s).count("reload") == 2)
    keys.chmod(0o600)
    gone = s.kill("apid")
    assert wait_until(lambda: s.settled(gone), 30)
    got = [json.loads(x) for x in (s.data / "audit.log").read_text().split("\n")[:-1]]
    by = {x["action"]: x for x in got}
    assert (by["session_died"]["target"], by["session_died"]["signal"]) == (b.id, 9)
    assert [(x["ok"], x["target"]) for x in got if x["action"] == "reload"] == [(True, "keys"), (False, "keys")]
    assert "private" in by["reload"]["reason"]
    assert (by["died"]["target"], by["died"]["signal"]) == ("apid", 9)
    assert good(s)["lines"] >= len(got)
