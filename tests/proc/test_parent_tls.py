"""agent-sandboxd and the files of certificates and keys: who gets them, in which order, and what is kept when one is wrong.
The other programs are stand-ins; what is in the files is not the parent's business."""

import os
import signal
import time

import pytest
from machine import alive, wait_until
from test_parent import ROOT_ONLY, Parent, parent  # noqa: F401 - a fixture

KEYFILE, FORGET, CERT, CLIENT_CA, TLS = 0x1D0, 0x1D1, 0x1E0, 0x1E1, 0x1E2


@pytest.fixture
def files(parent):  # noqa: F811
    """A parent with two certificates and an authority of clients."""
    names = {"TLS_CERT": ["a.pem", "b.pem"], "TLS_KEY": ["a.key", "b.key"], "TLS_CLIENT_CA": ["ca.pem"]}
    for setting, all_names in names.items():
        parent.env["AGENT_SANDBOX_" + setting] = ", ".join(str(parent.dir / n) for n in all_names)
        for n in all_names:
            put(parent, n, n)
    return parent


def put(p, name, content):
    (p.dir / name).write_text(content)
    os.chmod(p.dir / name, 0o600)


def generation(n, content=""):
    keys = [[KEYFILE, n, i, 2, f"{x}.key{content}"] for i, x in enumerate("ab")]
    certs = [[CERT, n, i, 2, f"{x}.pem{content}"] for i, x in enumerate("ab")]
    return keys, [*certs, [CLIENT_CA, n, 0, 2, f"ca.pem{content}"], [TLS, n, 0, 2]]


def hang_up(p):
    p.proc.send_signal(signal.SIGHUP)


def test_keyd_gets_the_keys_and_then_apid_the_certificates_and_nobody_else_any(files):
    files.start()
    keys, certs = generation(1)
    assert files.told("keyd") == keys and files.told("apid") == certs
    assert "listening on https://127.0.0.1:" in files.log()
    seen = [files.seen(n)[0] for n in ("apid", "managerd", "dockerd-proxy", "egressd", "keyd")]
    assert not [s["fds"] for s in seen if any(".key" in f or ".pem" in f for f in s["fds"].values())]
    held = [os.readlink(f"/proc/{files.proc.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{files.proc.pid}/fd")]
    assert not [f for f in held if f.endswith((".key", ".pem"))], "the parent keeps a file open"


def test_without_certificates_nobody_is_told_anything(parent):  # noqa: F811
    parent.start()
    hang_up(parent)
    assert wait_until(lambda: "SIGHUP" in parent.log())
    assert parent.told("keyd") == parent.told("apid") == [] and parent.connects()


def test_with_certificates_any_address_may_be_served(files):
    files.start(settings={"HOST": "0.0.0.0"})
    assert "https://0.0.0.0" in files.log()


def test_certificates_do_not_allow_to_serve_without_keys(files):
    assert "INSECURE_NO_AUTH" in files.refused(settings={"HOST": "0.0.0.0", "INSECURE_NO_AUTH": "1"})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"TLS_CERT": None}, ["TLS_CERT", "TLS_KEY"]),
        ({"TLS_KEY": None}, ["TLS_CERT", "TLS_KEY"]),
        ({"TLS_KEY": "a.key"}, ["TLS_CERT", "TLS_KEY"]),
        ({"TLS_CERT": None, "TLS_KEY": None}, ["TLS_CLIENT_CA", "TLS_CERT"]),
        ({"TLS_CERT": ",".join(["a.pem"] * 17), "TLS_KEY": ",".join(["a.key"] * 17)}, ["TLS_CERT", "16"]),
    ],
)
def test_settings_that_do_not_go_together_end_the_start(files, settings, words):
    for name, value in settings.items():
        files.env["AGENT_SANDBOX_" + name] = value
    line = files.refused()
    assert all(word in line for word in words) and files.starts() == 0


def unreadable(path):
    path.unlink()
    path.symlink_to(path.name)


WRONG = {
    "missing": (lambda path: path.unlink(), "No such file"),
    "directory": (lambda path: (path.unlink(), path.mkdir()), "not a regular file"),
    "pipe": (lambda path: (path.unlink(), os.mkfifo(path)), "not a regular file"),
    "loop": (unreadable, "symbolic links"),
}
SETTING = {"b.key": "AGENT_SANDBOX_TLS_KEY", "b.pem": "AGENT_SANDBOX_TLS_CERT", "ca.pem": "AGENT_SANDBOX_TLS_CLIENT_CA"}


@pytest.mark.parametrize("name", SETTING)
@pytest.mark.parametrize("how", WRONG)
def test_file_that_cannot_be_opened_ends_the_start_with_one_line_and_at_sighup_the_old_ones_stay(files, name, how):
    files.start()
    break_it, word = WRONG[how]
    break_it(files.dir / name)
    hang_up(files)
    assert wait_until(lambda: "the certificates in use stay" in files.log())
    lines = [line for line in files.log().splitlines() if "stay" in line]
    assert len(lines) == 1 and word in lines[0] and f"{SETTING[name]}: {files.dir / name}" in lines[0]
    assert (files.told("keyd"), files.told("apid")) == generation(1), "something of it was sent"
    assert files.connects() and files.starts() == 1
    assert files.end() == 0
    line = files.refused()
    assert word in line and SETTING[name] in line


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o601, 0o644, 0o777])
def test_key_that_everybody_may_read_or_change_is_refused_and_a_certificate_may_be_read(files, mode):
    os.chmod(files.dir / "a.pem", 0o644)
    os.chmod(files.dir / "a.key", mode)
    line = files.refused()
    assert "AGENT_SANDBOX_TLS_KEY" in line and "a.key" in line and "chmod" in line
    os.chmod(files.dir / "a.key", 0o640)
    files.start()


@ROOT_ONLY
def test_file_that_only_root_may_read_is_enough(files):
    for name in ("a.key", "a.pem", "ca.pem"):
        os.chown(files.dir / name, 0, 0)
        os.chmod(files.dir / name, 0o400)
    files.start()
    assert files.told("apid") == generation(1)[1]


def test_link_to_the_newest_files_is_followed_anew(files):
    """As an ACME client leaves them."""
    for name in ("a.key", "a.pem"):
        (files.dir / name).rename(files.dir / f"{name}.1")
        (files.dir / name).symlink_to(f"{name}.1")
        put(files, f"{name}.2", f"{name} anew")
    files.start()
    for name in ("a.key", "a.pem"):
        (files.dir / name).unlink()
        (files.dir / name).symlink_to(f"{name}.2")
    hang_up(files)
    assert wait_until(lambda: len(files.told("apid")) == 8)
    assert files.told("keyd")[2][4] == "a.key anew" and files.told("apid")[4][4] == "a.pem anew"


@pytest.mark.parametrize(("who", "bad", "setting", "name"), [("keyd", 1, "TLS_KEY", "b.key"), ("apid", 0, "TLS_CERT", "a.pem")])
def test_what_keyd_or_apid_finds_wrong_ends_the_start_with_status_2(files, who, bad, setting, name):
    files.do(who, f"bad={bad}")
    files.start(ready=False)
    assert files.proc.wait(30) == 2 and files.starts() <= 1
    lines = [line for line in files.log().splitlines() if "is no good" in line]
    assert len(lines) == 1 and f"AGENT_SANDBOX_{setting}: {files.dir / name}: is no good" in lines[0]
    assert "listening" not in files.log()
    assert wait_until(lambda: not any(alive(p) for p in files.everybody()))


@pytest.mark.parametrize(
    ("who", "bad", "what"), [("keyd", 0, "TLS_KEY: {}/a.key"), ("apid", 1, "TLS_CERT: {}/b.pem"), ("apid", 255, "TLS_CLIENT_CA: {}/ca.pem")]
)
def test_what_keyd_or_apid_finds_wrong_at_sighup_changes_nothing_and_keyd_forgets(files, who, bad, what):
    files.start()
    files.do(who, f"bad={bad}")
    hang_up(files)
    assert wait_until(lambda: "stay" in files.log())
    assert what.format(files.dir) + ": is no good; the certificates in use stay" in files.log()
    assert wait_until(lambda: [FORGET, 2, 0, 0] in files.told("keyd"))
    assert len(files.told("apid")) == (8 if who == "apid" else 4), "apid is told only of keys that are good"
    (files.dir / f"{who}.do").unlink()
    hang_up(files)
    assert wait_until(lambda: files.told("apid")[-4:] == generation(3)[1]) and files.starts() == 1


def test_sighup_reads_all_again_and_says_so(files):
    files.start()
    for n in ("a.key", "b.key", "a.pem", "b.pem", "ca.pem"):
        put(files, n, n + " anew")
    hang_up(files)
    assert wait_until(lambda: "2 certificates were read again" in files.log())
    assert (files.told("keyd")[2:], files.told("apid")[4:]) == generation(2, " anew") and files.starts() == 1


def test_signals_that_come_while_files_are_read_are_one_more_reading(files):
    files.start()
    files.do("apid", "mute")
    hang_up(files)
    assert wait_until(lambda: files.told("apid")[-1] == [TLS, 2, 0, 2])
    for _ in range(5):
        hang_up(files)
        time.sleep(0.05)
    assert len(files.told("keyd")) == 4, "a second one is begun beside the first"


def test_port_is_closed_until_the_certificates_are_in_use(files):
    files.do("apid", "mute")
    files.start(ready=False)
    assert wait_until(lambda: [TLS, 1, 0, 2] in files.told("apid"))
    time.sleep(1)
    assert not files.connects() and files.proc.poll() is None
    assert files.end() == 0


@pytest.mark.parametrize("who", ["keyd", "apid"])
def test_program_that_does_not_answer_is_named_and_all_begins_anew(files, who):
    files.start()
    files.do(who, "mute")
    hang_up(files)
    assert wait_until(lambda: f"{who}[" in files.log() and "does not answer" in files.log(), 60), files.log()
    (files.dir / f"{who}.do").unlink()
    assert wait_until(lambda: files.all_started(2), 60) and wait_until(files.connects)
    assert wait_until(lambda: files.told(who)[-1][1] == 1), "the generations begin anew too"


@pytest.mark.parametrize("who", ["keyd", "apid"])
def test_answer_that_nobody_waits_for_is_a_breach_and_not_the_parents_end(files, who):
    files.start()
    files.do(who, "twice")
    hang_up(files)
    assert wait_until(lambda: "breaks the rules" in files.log()), files.log()
    (files.dir / f"{who}.do").unlink()
    assert wait_until(lambda: files.all_started(2)) and files.proc.poll() is None
    assert f"{who}[" in files.log()


def test_sighup_while_keyd_is_dead_is_part_of_the_new_start(files):
    files.start()
    os.kill(files.pid("keyd"), signal.SIGKILL)
    hang_up(files)
    assert wait_until(lambda: files.all_started(2)) and wait_until(files.connects) and files.proc.poll() is None
