"""The command on a terminal: what others wrote never reaches it raw, and people see tables, colours and a bar."""

import json
import os
import re
import signal
import subprocess
import tarfile

import pytest
import trap as t
from cli_kit import COMMAND, Cli, Terminal
from machine import wait_until

EVIL = "\x1b[2J\x1b]0;title\x07\x9b31m\u202egpj\u2028\r\x7f"
RAW = (b"\x1b]", b"\x1b[2J", b"\x07", "\x9b".encode(), "\u202e".encode(), "\u2028".encode(), b"\x7f")


def clean(text):
    """Nothing of EVIL as it is; colours of our own may be there."""
    assert not any(raw in text for raw in RAW), text
    assert re.fullmatch(rb"[^\x1b]*", re.sub(rb"\x1b\[(0|2|3[0-9])m|\x1b\[K", b"", text)), text
    # Our own: the end of a line, and a bar that is drawn anew.
    rest = re.sub(rb"\r(?=[^\r\x1b]*  \[[# ]*\] +\d+ %)", b"", text.replace(b"\r\n", b"").replace(b"\r\x1b[K", b""))
    assert b"\r" not in rest
    return text


def test_names_of_files_are_made_harmless(cli, box):
    box.put(f"d/{EVIL}x")
    for words in (
        ["files", box.id, "d"],
        ["files", "-q", box.id, "d"],
        ["files", "--json", box.id, "d"],
        ["--json", "put", f"{box.id}:{EVIL}y"],
    ):
        one = cli.terminal(*words)
        if "put" in words:
            one.type(b"\x04")
        assert one.end() == 0
        shown = clean(one.text.replace(b"^D\x08\x08", b""))
        assert b"\\x1b" in shown or b"\\u001b" in shown or b"\\u001B" in shown, shown
    assert "\\x1b[2J" in cli.ok("files", "-q", box.id, "d"), "to a pipe too: one name a line"


@pytest.mark.parametrize("id_", ["sb_0" + EVIL, f"{t.SANDBOX_ID}?x=1", f"{t.SANDBOX_ID}/exec", f"{t.SANDBOX_ID}0", "sb_0"])
def test_id_of_a_list_that_can_be_none_is_used_for_nothing(trap, id_):
    trap.on("GET /v1/sandboxes$", t.reply(200, {"sandboxes": [t.SANDBOX | {"id": id_}]}))
    trap.on("POST ", t.reply(200, t.SANDBOX))
    for words in (["timeout", "sb_0", "1h"], ["rollback", "sb_0", t.SNAPSHOT_ID], ["exec", "-n", "sb_0", "true"], ["cat", "sb_0:x"]):
        assert "not this API's" in Cli(trap.url).fails(125 if words[0] == "exec" else 5, *words)
    assert {str(s) for s in trap.seen} == {"GET /v1/sandboxes"}


def test_what_a_server_says_is_made_harmless(trap):
    evil = t.SANDBOX | {"image": EVIL, "labels": {EVIL: EVIL}, "status": EVIL, "id": "sb_0" + EVIL, "expires_at": EVIL}
    trap.on("GET /v1/sandboxes$", t.reply(200, {"sandboxes": [evil]}))
    trap.on(f"GET /v1/sandboxes/{t.SANDBOX_ID}", t.reply(200, evil | {EVIL: [EVIL]}))
    trap.on("GET /v1/snapshots", t.reply(200, {"snapshots": [t.SNAPSHOT | {"name": EVIL}]}))
    trap.on("POST /v1/sandboxes$", t.reply(201, evil))
    cli = Cli(trap.url)
    for words in (
        ["ls"],
        ["ls", "-q"],
        ["ls", "--json"],
        ["show", t.SANDBOX_ID],
        ["show", "--json", t.SANDBOX_ID],
        ["snapshots"],
        ["create"],
    ):
        one = cli.terminal(*words)
        assert one.end() == 0, words
        assert len(clean(one.text)) > 10


@pytest.mark.parametrize("status", [400, 401, 404, 500])
def test_errors_of_a_server_are_made_harmless(trap, status):
    trap.on("GET /v1/sandboxes$", t.refusal(status, EVIL, f"bad {EVIL} thing"))
    one = Cli(trap.url).terminal("ls")
    assert one.end() in (1, 3, 4) and clean(one.text).count(b"\n") == 1 and b"thing" in one.text


def test_redirect_and_type_that_a_server_names_are_made_harmless(trap):
    for answer in (t.reply(302, "", Location="http://x/\x1b[2J\x07"), t.reply(200, "", "text/\x1b[2J\x07")):
        trap.on("GET /v1/sandboxes$", answer)
        one = Cli(trap.url).terminal("ls")
        assert one.end() == 5
        clean(one.text)


def test_reason_that_ends_a_stream_is_made_harmless(trap):
    trap.on("POST .*/exec", t.stream(t.out("YQ=="), {"type": "error", "data": f"no {EVIL} more"}))
    one = Cli(trap.url).terminal("exec", "-n", t.SANDBOX_ID, "true")
    assert one.end() == 125 and b"more" in clean(one.text)


def test_name_in_a_copy_is_made_harmless(cli, box, tmp_path):
    box.put(f"{EVIL}f", b"x" * 100)
    one = cli.terminal("cp", f"{box.id}:{EVIL}f", tmp_path)
    assert one.end() == 0
    clean(one.text)
    one = cli.terminal("cp", f"{box.id}:{EVIL}f", tmp_path)
    assert one.end() == 1 and b"exists" in clean(one.text)
    one = cli.terminal("cp", f"{box.id}:{EVIL}none", tmp_path)
    assert one.end() == 3
    clean(one.text)


def test_file_is_shown_harmless_on_a_terminal_and_raw_elsewhere(cli, box):
    data = ("plain é 漢字 🎉\n\ttab\n" + EVIL).encode() + b"\xff\xfe\n"
    box.put("f", data)
    one = cli.terminal("cat", f"{box.id}:f")
    assert one.end() == 0
    assert "plain é 漢字 🎉\r\n".encode() in clean(one.text) and b"\\x1b[2J" in one.text and b"\\xff\\xfe" in one.text
    assert cli("cat", f"{box.id}:f", text=False).stdout == data
    one = cli.terminal("cat", "--raw", f"{box.id}:f")
    assert one.end() == 0 and b"\x1b[2J" in one.text


def test_characters_are_whole_however_they_come(trap):
    data = "aé漢🎉z".encode()

    def drip(client, seen, ended):
        client.sendall(t.reply(200, b"", "application/octet-stream", length=len(data)))
        for n in range(len(data)):
            client.sendall(data[n : n + 1])
            ended.wait(0.02)

    trap.on("GET .*/files", drip)
    one = Cli(trap.url).terminal("cat", f"{t.SANDBOX_ID}:f")
    assert one.end() == 0 and one.text == data


def test_output_of_a_command_is_its_own(cli, box):
    one = cli.terminal("exec", "-n", box.id, r"printf '\033[31mred\033[0m'")
    assert one.end() == 0 and one.text == b"\x1b[31mred\x1b[0m"


def test_output_as_json_is_harmless(cli, box):
    for how in ("--json", "--events"):
        one = cli.terminal("exec", "-n", how, box.id, r"printf '\033[2J\302\233\177'")
        assert one.end() == 0
        assert b"\\u001b[2j" in one.text.lower() and b"\x1b" not in one.text and "\x9b".encode() not in one.text


def test_typed_lines_reach_the_command(cli, box):
    one = cli.terminal("exec", box.id, "while read x; do echo got $x; done; echo end")
    one.type(b"hello\n")
    one.until(b"got hello")
    one.type(b"\x04")
    assert one.end() == 0 and b"end" in one.text


def test_ctrl_c_ends_the_command(cli, box):
    one = cli.terminal("exec", box.id, "echo on; exec sleep 781")
    one.until(b"on")
    one.type(b"\x03")
    assert one.end() == 130
    assert wait_until(lambda: box.running("781") == 0)


def test_job_in_the_background_is_not_stopped_by_the_terminal(cli, box):
    """Like any program that a shell runs with "&": it does not reach for what is typed."""
    script = f"set -m; \"{COMMAND}\" exec {box.id} 'echo from behind' & wait $!; echo status $?"
    one = Terminal(["bash", "-c", script], cli.env)
    assert one.end() == 0 and b"from behind" in one.text and b"status 0" in one.text


def test_colours_only_on_a_terminal_and_never_with_no_color(cli, box):
    def shown(*words, **env):
        one = cli.terminal(*words, env=env)
        assert one.end() == 0
        return one.text

    assert b"\x1b[32mrunning" in shown("ls")
    assert b"\x1b" not in shown("ls", NO_COLOR="1")
    assert b"\x1b[32m" in shown("ls", NO_COLOR="")
    assert b"\x1b" not in shown("ls", TERM="dumb")
    assert "\x1b" not in cli.ok("ls")


def test_columns_stay_in_line_with_wide_characters(cli, box):
    for name in ("ascii", "漢字", "é", "e\u0301"):
        box.put(f"w/{name}")
    lines = cli.ok("files", box.id, "w").splitlines()
    assert len({line.index("NAME") if "NAME" in line else line.rindex("  ") + 2 for line in lines}) == 1


def test_bar_shows_name_part_and_rate(cli, box, tmp_path):
    big = tmp_path / "big"
    subprocess.run(["truncate", "-s", "300M", big], check=True)
    one = cli.terminal("cp", big, f"{box.id}:big")
    assert one.end(50) == 0
    assert re.search(rb"\rbig  \[[#-]{24}\] +\d+ %  \S+ \S+  [\d.]+ \S+/s", one.text), one.text[-300:]
    assert re.search(rb"big  300 MiB in 1 file  [\d.]+ \S+/s\r\n$", one.text)
    one = cli.terminal("cp", "--quiet", f"{box.id}:big", tmp_path / "back")
    assert one.end(50) == 0 and one.text == b""
    assert cli("cp", big, f"{box.id}:big2").stderr == ""


def test_bar_goes_when_the_copy_is_interrupted(trap, tmp_path):
    def slow(client, seen, ended):
        client.sendall(t.reply(200, b"", "application/x-tar", length=10**9))
        m = tarfile.TarInfo("f")
        m.size = 10**9 - 2048
        client.sendall(m.tobuf())
        while not ended.wait(0.02):
            client.sendall(b"x" * 10000)

    trap.on("GET .*/files/archive", slow)
    one = Cli(trap.url).terminal("cp", f"{t.SANDBOX_ID}:f", tmp_path / "f")
    one.until(b" %")
    one.process.send_signal(signal.SIGINT)
    assert one.end() == 130 and one.text.endswith(b"\r\x1b[K") and os.listdir(tmp_path) == []


def test_json_on_a_terminal_is_still_json(cli, box):
    one = cli.terminal("show", "--json", box.id)
    assert one.end() == 0 and json.loads(one.text)["id"] == box.id
