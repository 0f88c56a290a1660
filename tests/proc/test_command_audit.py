"""agent-sandbox audit: verify finds whatever was done to a log and names the first line; tail and show show it."""

import contextlib
import json
import os
import socket
import subprocess
from pathlib import Path

import pytest
from audit_kit import INSTANCE, Log, Signer, chained, digest, keyd_remembers, sample

ROOT = Path(__file__).resolve().parent.parent.parent
COMMAND = Path(os.environ.get("AS_TEST_BUILD", ROOT / "build")) / "agent-sandbox"


def run(*args, data=None):
    env = {"PATH": os.environ["PATH"]} | ({"AGENT_SANDBOX_DATA_DIR": str(data)} if data else {})
    return subprocess.run([COMMAND, "audit", *map(str, args)], env=env, text=True, capture_output=True, timeout=120)


def good(*args, **more):
    p = run("verify", *args, **more)
    assert (p.returncode, p.stderr) == (0, ""), p
    return p.stdout


def bad(*args, **more):
    """One line that names file, line, number and fault; the same with --json. Returns them."""
    p = run("verify", *args, **more)
    assert p.returncode == 1 and p.stdout == "" and p.stderr.count("\n") == 1, p
    found = json.loads(run("verify", "--json", *args, **more).stdout)
    assert found["ok"] is False and found["message"] in p.stderr
    assert f"{found['file']}:{found['line']}: seq {found['seq']}: {found['fault']}: " in p.stderr
    return Path(found["file"]).name, found["line"], found["seq"], found["fault"]


@pytest.fixture(scope="module")
def signer():
    return Signer()


@pytest.fixture
def written(tmp_path):
    """Writes lines into a file."""

    def write(lines, name="audit.log"):
        path = tmp_path / name
        path.write_text("".join(x + "\n" for x in lines))
        return path

    return write


def test_whole_log_is_good_and_says_what_it_is(written, signer):
    log = sample(signer)
    out = good(written(log.lines), "--key", signer.key)
    assert out.startswith("12 lines, 2 checkpoints, from 2026-11-01T00:00:00.000000Z to 2026-11-01T00:11:00.000000Z, ")
    assert out.endswith(f"signed up to line 11 by {signer.key}\n")
    assert "not signed" in good(written(sample().lines))


def test_key_that_must_have_signed_and_has_not_is_a_fault_though_all_lines_fit(written, signer):
    path = written(sample().lines)
    assert bad(path, "--key", signer.key) == ("audit.log", 10, 10, "signature")
    assert good(written([], "empty.log"), "--key", signer.key) == "no lines\n"


def test_changed_line_is_named(written, signer):
    for at in range(11):
        log = sample(signer)
        log.lines[at] = log.lines[at].replace('"time":"2026', '"time":"2027')
        assert bad(written(log.lines)) == ("audit.log", at + 1, at + 1, "changed"), at


def test_last_line_that_was_changed_shows_only_by_its_signature(written, signer):
    log = sample(signer)
    log.lines[-1] = log.lines[-1].replace('"upto":11', '"upto":10')
    assert bad(written(log.lines))[1:] == (12, 12, "signature")


def test_changed_hash_of_a_line_is_named_as_that_line(written):
    log = sample()
    log.lines[4] = log.lines[4][:-3] + ("0" if log.lines[4][-3] != "0" else "1") + '"}'
    assert bad(written(log.lines)) == ("audit.log", 5, 5, "changed")


@pytest.mark.parametrize("first,last", [(0, 3), (4, 5), (5, 9)])
def test_removed_lines_are_named(written, first, last):
    log = sample()
    del log.lines[first:last]
    where = bad(written(log.lines)) if first else None
    if first:
        assert where == ("audit.log", first + 1, last + 1, "removed")


def test_replayed_line_is_named(written):
    for at in (1, 5, 9):
        log = sample()
        log.lines.insert(at + 1, log.lines[at])
        assert bad(written(log.lines)) == ("audit.log", at + 2, at + 1, "added")
    log = sample()
    assert bad(written(log.lines + log.lines)) == ("audit.log", 11, 1, "added")


def test_lines_that_changed_places_are_named(written):
    log = sample()
    log.lines[3], log.lines[6] = log.lines[6], log.lines[3]
    assert bad(written(log.lines)) == ("audit.log", 4, 7, "out of order")


def test_line_put_in_is_named(written):
    log = sample()
    log.lines.insert(4, '{"action":"create","prev":"' + digest(log.lines[3]) + '"}')
    assert bad(written(log.lines)) == ("audit.log", 5, 0, "added")
    log.lines[4] = "hello"
    assert bad(written(log.lines)) == ("audit.log", 5, 0, "changed")
    log.lines[4] = ""
    assert bad(written(log.lines)) == ("audit.log", 5, 0, "changed")


def test_torn_line_is_named(written):
    path = written(sample().lines)
    os.truncate(path, path.stat().st_size - 5)
    assert bad(path) == ("audit.log", 10, 10, "torn")


def test_rechained_log_shows_at_the_next_checkpoint(written, signer):
    lines = sample(signer).lines
    lines[7] = lines[7].replace("expire", "expirE")
    log = chained(lines)
    assert good(written(chained(sample(signer).lines).lines)), "making it fit changes nothing by itself"
    assert bad(written(log.lines)) == ("audit.log", 12, 12, "re-chained")
    p = run("verify", written(log.lines))
    assert "line 11 is not the one that was signed" in p.stderr and "behind line 5" in p.stderr


def test_rechained_log_with_signatures_of_another_key_shows(written, signer):
    lines = sample(signer).lines
    del lines[8]
    other, log = Signer(b"o" * 32), Log()
    for line in lines:
        entry = json.loads(line)
        if entry["action"] == "checkpoint" and log.seq > 6:
            log.sign(other)
        elif entry["action"] == "checkpoint":
            log.sign(signer)
        else:
            log.add(action=entry["action"])
    assert bad(written(log.lines)) == ("audit.log", 11, 11, "key")
    assert bad(written(log.lines), "--key", other.key)[1:] == (6, 6, "key")
    assert good(written(log.lines), "--key", other.key, "--key", signer.key), "a new key that the operator knows of"


@pytest.mark.parametrize("change", [{"head": "0" * 64}, {"at": "2026-11-01T00:00:00.000001Z"}, {"instance": INSTANCE.replace("0", "1")}])
def test_checkpoint_that_was_changed_is_named(written, signer, change):
    log = sample(n=5)
    log.add(**(signer.checkpoint(log.seq, log.prev, log.time()) | change))
    assert bad(written(log.lines)) == ("audit.log", 6, 6, "signature")


def test_checkpoint_that_was_moved_to_another_line_is_named(written, signer):
    log = sample(n=5)
    mark = signer.checkpoint(log.seq, log.prev, log.time())
    other = sample(n=5)
    other.lines[4] = other.lines[4].replace("over", "OVER")
    log = chained(other.lines)
    log.add(**mark)
    assert bad(written(log.lines)) == ("audit.log", 6, 6, "re-chained")


def split(tmp_path, log, at):
    """Into a data directory: files that begin at these lines."""
    data = tmp_path / "data"
    data.mkdir()
    ends = [*at[1:], len(log.lines)]
    for first, end in zip(at, ends, strict=True):
        name = "audit.log" if end == len(log.lines) else f"audit-{first + 1:012d}.log"
        (data / name).write_text("".join(x + "\n" for x in log.lines[first:end]))
    return data


def test_all_files_of_a_data_directory_are_one_log(tmp_path, signer):
    data = split(tmp_path, sample(signer, 40), [0, 10, 17, 30])
    assert good(data=data).startswith("48 lines, 8 checkpoints, ")
    lines = (data / "audit-000000000011.log").read_text().splitlines()
    (data / "audit-000000000011.log").write_text("".join(x + "\n" for x in lines[:-1]))
    assert bad(data=data) == ("audit-000000000018.log", 1, 18, "removed")
    (data / "audit-000000000011.log").unlink()
    assert bad(data=data) == ("audit-000000000018.log", 1, 18, "removed")


def test_line_that_was_changed_at_the_end_of_a_file_is_named_there(tmp_path):
    data = split(tmp_path, sample(n=20), [0, 10])
    path = data / "audit-000000000001.log"
    path.write_text(path.read_text().replace('"seq":10,', '"seq":10 ,').replace('"seq":10 ,', '"x":1,"seq":10,'))
    assert bad(data=data) == ("audit-000000000001.log", 10, 10, "changed")


def test_files_that_are_missing_at_the_beginning_must_be_told_of(tmp_path):
    log = sample(n=20)
    data = split(tmp_path, log, [0, 10])
    (data / "audit-000000000001.log").unlink()
    assert bad(data=data) == ("audit.log", 1, 11, "removed")
    log.add(action="removed", target="audit-000000000001.log", upto=10, head=digest(log.lines[9]))
    (data / "audit.log").write_text("".join(x + "\n" for x in log.lines[10:]))
    assert good(data=data).startswith("11 lines")


def test_made_up_log_behind_the_line_that_was_signed_last_is_none(tmp_path, signer):
    log = sample(signer)
    data = split(tmp_path, log, [0])
    keyd_remembers(data, signer, log.seq, log.prev)
    assert good(data=data).startswith("12 lines")
    for skipped in (0, 1):
        made_up = Log()
        made_up.seq, made_up.prev = log.seq + skipped, "ab" * 32
        made_up.add()
        made_up.add(action="removed", target="audit-000000000001.log", upto=log.seq + skipped, head="ab" * 32)
        (data / "audit.log").write_text(made_up.text())
        assert bad(data=data) == ("audit.log", 1, 13 + skipped, "removed")
    log.lines.clear()
    log.add(action="removed", target="audit-000000000001.log", upto=12, head=log.prev)
    (data / "audit.log").write_text(log.text())
    assert good(data=data).startswith("1 lines"), "it may begin right behind that line"


def test_since_begins_in_the_middle_and_still_sees_what_is_behind(tmp_path, signer):
    log = sample(signer, 40)
    data = split(tmp_path, log, [0, 10, 17, 30])
    since = ("--since", "2026-11-01T00:20:00Z")
    assert good(*since, data=data).startswith("28 lines")
    (data / "audit-000000000001.log").write_text("nonsense\n")
    assert good(*since, data=data).startswith("28 lines"), "what is before is not read"
    path = data / "audit.log"
    path.write_text(path.read_text().replace('"seq":40,', '"x":1,"seq":40,'))
    assert bad(*since, data=data)[2:] == (40, "changed")


def test_lines_without_a_number_are_good_only_before_the_others(written):
    log = Log()
    for _ in range(3):
        line = json.dumps({"action": "create", "prev": log.prev}, separators=(",", ":"))
        log.lines.append(line)
        log.prev = digest(line)
    log.add(), log.add()
    assert good(written(log.lines)).startswith("5 lines")
    log.lines[1] = log.lines[1].replace("create", "created")
    assert bad(written(log.lines)) == ("audit.log", 2, 0, "changed")


def test_wrong_use_is_one_line(tmp_path, written):
    path = written(sample().lines)
    for words, status in (
        (["verify", "--key", "xyz", path], 2),
        (["verify", "--since", "yesterday", path], 2),
        (["verify", "--sandbox", "sb_1", path], 2),
        (["tail", "--key", "x", path], 2),
        (["show", "-n", "3", path], 2),
        (["look"], 2),
        (["verify", tmp_path / "none"], 1),
        (["verify", tmp_path], 1),
    ):
        p = run(*words)
        assert p.returncode == status and p.stdout == "" and p.stderr.split("\nusage")[0].strip().count("\n") == 0, (words, p)
    p = run("verify", data=tmp_path / "nowhere")
    assert p.returncode == 1 and p.stderr.count("\n") == 1
    (tmp_path / "empty").mkdir()
    assert run("verify", data=tmp_path / "empty").returncode == 3
    assert good(written([])) == "no lines\n"


def shown(*args, **more):
    p = run(*args, "--json", **more)
    assert p.returncode == 0, p.stderr
    return [json.loads(x) for x in p.stdout.splitlines()]


def test_show_and_tail_choose_lines(written):
    log = Log()
    for i in range(30):
        log.add(key="ci" if i % 2 else "dev", action="exec" if i % 3 else "create", target=f"sb_{i % 5:016x}", status=200)
    path = written(log.lines)
    assert [x["seq"] for x in shown("tail", path)] == list(range(21, 31))
    assert [x["seq"] for x in shown("tail", "-n", 3, path)] == [28, 29, 30]
    assert [x["seq"] for x in shown("show", "--sandbox", "sb_0000000000000002", path)] == [3, 8, 13, 18, 23, 28]
    assert {x["key"] for x in shown("show", "--key", "ci", path)} == {"ci"}
    assert [x["seq"] for x in shown("show", "--action", "create", "--key", "ci", path)] == [4, 10, 16, 22, 28]
    assert [x["seq"] for x in shown("show", "--since", "2026-11-01T00:28:00Z", path)] == [29, 30]
    assert "sb_0000000000000002" in run("show", path).stdout


@pytest.mark.parametrize(
    ("end", "words"), [('{"action":"half', "has no end"), ("x" * (2 << 20) + "\n{}\n", "too long")], ids=["torn", "long"]
)
def test_show_and_tail_leave_nothing_out_without_a_word(written, end, words):
    path = written(sample().lines)
    path.write_text(path.read_text() + end)
    for verb in ("show", "tail"):
        p = run(verb, "--json", path)
        assert p.returncode == 1 and len(p.stdout.splitlines()) == 10 and p.stderr.count("\n") == 1 and words in p.stderr


def test_what_others_wrote_does_not_reach_the_terminal(written):
    log = Log()
    log.add(action="exec\x1b[2J", key="\x1b]0;x\x07", target="\u202e", peer="a\nb")
    out = run("show", written(log.lines)).stdout
    assert out.count("\n") == 1 and "\x1b" not in out and "\x07" not in out and "\u202e" not in out


OTHERS = ("fifo", "link", "socket", "folder")


def replaced(path, kind):
    """By what an owned managerd could put in its place; or an operator, by mistake."""
    if path.exists():
        path.rename(path.with_name("elsewhere"))
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(path.with_name("elsewhere"))
    elif kind == "dangling link":
        path.symlink_to("nothing")
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(str(path))
    else:
        path.mkdir()


@pytest.mark.parametrize("kind", [*OTHERS, "dangling link"])
@pytest.mark.parametrize("name", ["audit.log", "audit-000000000001.log", "keyd/audit", "keyd/audit.pub"])
def test_what_is_no_regular_file_in_the_data_directory_is_said_at_once_and_not_read(tmp_path, signer, kind, name):
    log = sample(signer)
    (tmp_path / "audit-000000000001.log").write_text("".join(x + "\n" for x in log.lines[:6]))
    (tmp_path / "audit.log").write_text("".join(x + "\n" for x in log.lines[6:]))
    keyd_remembers(tmp_path, signer, 11, digest(log.lines[10]))
    good(data=tmp_path)
    replaced(tmp_path / name, kind)
    for words in (
        ["verify"],
        ["verify", "--since", "2026-10-01T00:00:00Z"],
        ["show"],
        ["tail", "-n", "2000"],
        ["tail", "-F", "-n", "2000"],
    ):
        if name.startswith("keyd") and words[0] != "verify":
            continue
        p = run(*words, data=tmp_path)
        assert (p.returncode, p.stderr) == (1, f"agent-sandbox: {tmp_path}/{name}: it is not a regular file\n"), (words, p)


@pytest.mark.parametrize("kind", OTHERS)
def test_log_that_was_named_may_be_a_link_and_nothing_else(tmp_path, written, kind):
    path = written(sample().lines)
    replaced(path, kind)
    if kind == "link":
        good(path)
        return
    for verb in ("verify", "show", "tail"):
        p = run(verb, path)
        assert (p.returncode, p.stderr) == (1, f"agent-sandbox: {path}: it is not a regular file\n"), p
    p = run("verify", "--key", path, written(sample().lines, "other.log"))
    assert p.returncode == 2 and f"--key: {path}: it is not a regular file" in p.stderr


def test_log_that_is_followed_and_becomes_a_fifo_ends_it(tmp_path, written):
    path = written(sample().lines)
    env = {"PATH": os.environ["PATH"], "AGENT_SANDBOX_DATA_DIR": str(tmp_path)}
    with subprocess.Popen([COMMAND, "audit", "tail", "-F", "-n", "1"], env=env, stdout=-1, stderr=-1, text=True) as p:
        try:
            assert p.stdout.readline()
            os.mkfifo(tmp_path / "fifo")
            (tmp_path / "fifo").rename(path)
            assert p.wait(60) == 1 and p.stderr.read() == f"agent-sandbox: {path}: it is not a regular file\n"
        finally:
            p.kill()


def on_a_terminal(*args):
    """What a terminal gets."""
    terminal, end = os.openpty()
    p = subprocess.Popen([COMMAND, "audit", *map(str, args)], env={"PATH": os.environ["PATH"]}, stdin=end, stdout=end, stderr=end)
    os.close(end)
    out = b""
    with contextlib.suppress(OSError):  # its end, on Linux
        while more := os.read(terminal, 65536):
            out += more
    os.close(terminal)
    assert p.wait(60) == 0
    return out


def test_name_that_a_sandbox_dialled_hides_nothing_and_makes_up_nothing(written):
    log = Log()
    names = ["a\0b", "good.example verdict=ok", 'x" reason="', "\u009b31m\u202e", "", "c\\d", "good.example"]
    for name in names:
        log.add(action="egress", target="sb_0123456789abcdef", name=name, port=443, verdict="refused", reason="not in the allowlist")
    # managerd writes what is not ASCII as it is.
    lines = [x.replace("\\u009b", "\x9b").replace("\\u202e", "\u202e") for x in log.lines]
    path = written(lines)
    assert run("show", "--json", path).stdout.split("\n") == [*lines, ""]
    p = run("show", path)
    lines = p.stdout.splitlines()
    assert (p.returncode, p.stderr, len(lines)) == (0, "", len(names))
    for name, line in zip(names, lines, strict=True):
        assert line.endswith(' port=443 verdict=refused reason="not in the allowlist"'), line
        assert line.count(" verdict=") == 1 or f'name="{name}"' in line, line
    assert " name=good.example port" in lines[-1] and 'name="a\\u0000b"' in lines[0] and 'name="x\\" reason=\\""' in lines[2]
    assert [x["name"] for x in shown("show", path)] == names
    for words in (["show", path], ["show", "--json", path]):
        out = on_a_terminal(*words)
        assert out.count(b"\n") == len(names) and b"\xc2\x9b" not in out and b"\xe2\x80\xae" not in out and b"\x1b" not in out
