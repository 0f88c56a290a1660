"""keyd's checkpoints of the audit log: what it signs anybody can check, and whoever owns managerd cannot have it go back."""

import hashlib
import os
import re
import signal
import struct
import subprocess
import time

import layout
import pytest
from audit_kit import INSTANCE
from keyd_kit import VERIFY, Keyd, pem
from layout import CHECKPOINT_BACK, CHECKPOINT_BUSY, CHECKPOINT_OK, KEY_OK
from machine import read

PREFIX = bytes.fromhex("302a300506032b6570032100")  # SubjectPublicKeyInfo of Ed25519, RFC 8410


def head(n):
    return hashlib.sha256(f"line {n}".encode()).digest()


class Signing(Keyd):
    def __init__(self, folder):
        super().__init__(folder, path=folder)
        self.number = 0

    def ask(self, seq, hash=None, instance=INSTANCE):
        self.number += 1
        self.managerd.send("K_CHECKPOINT", self.number, {"seq": seq, "head": hash or head(seq), "instance": instance})
        return self.managerd.expect("K_CHECKPOINTED", id=self.number).fields

    def sign(self, seq, hash=None):
        """The status. There are at most ten in a second."""
        while (status := self.ask(seq, hash)["status"]) == CHECKPOINT_BUSY:
            pass
        return status

    def last(self):
        self.number += 1
        self.managerd.send("K_ASK_LAST", self.number)
        return self.managerd.expect("K_LAST", id=self.number).fields


@pytest.fixture
def start(tmp_path):
    folder = tmp_path / "keyd"
    folder.mkdir(mode=0o700)
    running = []

    def one():
        running.append(Signing(folder))
        return running[-1]

    yield one
    for p in running:
        p.stop()


def wall(us):
    sec = subprocess.run(["date", "-u", "-d", f"@{us // 10**6}", "+%Y-%m-%dT%H:%M:%S"], capture_output=True, text=True, check=True)
    return f"{sec.stdout.strip()}.{us % 10**6:06d}Z"


def test_openssl_verifies_what_it_signs_with_the_key_in_the_file(start, tmp_path):
    p = start()
    got = p.ask(42)
    text = (p.trail_folder / "audit.pub").read_text()
    assert re.fullmatch(r"[0-9a-f]{64}\n", text) and text.strip() == got["key"].hex() == p.last()["key"].hex()
    signed = f"agent-sandbox audit checkpoint v1\n{INSTANCE}\n42\n{head(42).hex()}\n{wall(got['at_us'])}\n"
    for name, content in (("pub", PREFIX + got["key"]), ("text", signed.encode()), ("sig", got["signature"])):
        (tmp_path / name).write_bytes(content)
    words = ["pkeyutl", "-verify", "-rawin", "-pubin", "-keyform", "DER", "-inkey", "pub", "-in", "text", "-sigfile", "sig"]
    assert subprocess.run(["openssl", *words], cwd=tmp_path, capture_output=True).returncode == 0
    (tmp_path / "text").write_bytes(signed.replace("42", "43", 1).encode())
    assert subprocess.run(["openssl", *words], cwd=tmp_path, capture_output=True).returncode == 1


def test_it_signs_forward_only_whoever_asks(start):
    p = start()
    assert p.sign(10) == CHECKPOINT_OK
    assert p.sign(10) == CHECKPOINT_OK, "the same line again is nothing new"
    before = p.last()
    for seq, hash in ((9, None), (1, None), (0, None), (10, head(11)), (2**63, None), (2**64 - 1, None)):
        got = p.ask(seq, hash)
        assert got["status"] == CHECKPOINT_BACK and got["signature"] == bytes(64), seq
    assert p.last() == before and p.sign(11) == CHECKPOINT_OK and p.sign(10) == CHECKPOINT_BACK
    assert "asks for a signature of line 9 of the audit log, behind line 10" in p.log()


@pytest.mark.parametrize("how", ["end", "kill"])
def test_it_knows_after_a_restart_what_it_has_signed(start, how):
    p = start()
    for n in range(1, 6):
        assert p.sign(n * 10) == CHECKPOINT_OK
        before = p.last()
        if how == "kill":
            os.kill(p.pid, signal.SIGKILL)
            p.wait(30)
        p.stop()
        p = start()
        assert p.last() == before and p.sign(n * 10 - 1) == CHECKPOINT_BACK


def test_lost_lines_are_remembered_over_a_kill(start):
    p = start()
    assert p.sign(5) == CHECKPOINT_OK
    p.managerd.send("K_LOST", 0, {"lost": 3})
    assert p.last()["lost"] == 3
    os.kill(p.pid, signal.SIGKILL)
    p.wait(30)
    p.stop()
    p = start()
    assert (p.last()["lost"], p.last()["seq"]) == (3, 5)
    assert p.sign(6) == CHECKPOINT_OK and p.last()["lost"] == 3
    p.managerd.send("K_LOST", 0, {"lost": 0})
    assert p.last()["lost"] == 0


def test_a_flood_of_questions_is_answered_but_not_signed_and_handshakes_go_on(tmp_path):
    with Keyd(tmp_path, [pem("p256")]) as p:
        first = second()
        for n in range(1, 2001):
            p.managerd.send("K_CHECKPOINT", n, {"seq": n, "head": head(n), "instance": INSTANCE})
            if n % 100 == 0:
                assert p.sign(VERIFY + bytes(32))[0] == KEY_OK
        got = [p.managerd.expect("K_CHECKPOINTED", id=n).fields["status"] for n in range(1, 2001)]
        assert got.count(CHECKPOINT_BUSY) > 0 and got.count(CHECKPOINT_OK) >= 10 and CHECKPOINT_BACK not in got
        assert got.count(CHECKPOINT_OK) <= 10 * (second() - first + 1), "ten in each second of this clock"


def second():
    return int(time.clock_gettime(time.CLOCK_BOOTTIME))


@pytest.mark.parametrize("index", [0, 1, 2, 255])
def test_file_of_the_audit_log_that_comes_twice_or_is_none_of_the_two_is_fatal(tmp_path, index):
    with Keyd(tmp_path) as p, open("/dev/null") as f:
        p.parent.send("P_AUDIT", 0, {"index": index}, fd=f.fileno())
        assert p.wait(30) == 1 and "a file of the audit log out of order" in p.log()


@pytest.mark.parametrize("text", ["", "x", "0" * 64 + "\n", "same", "same\nand more"])
def test_file_of_the_public_key_is_put_right_at_the_start(start, text):
    p = start()
    path, key = p.trail_folder / "audit.pub", p.last()["key"].hex()
    p.stop()
    path.write_text(text.replace("same", key))
    assert start().last()["key"].hex() == key and path.read_text() == key + "\n"


def test_slot_that_was_torn_leaves_the_one_before(start):
    p = start()
    assert p.sign(7) == CHECKPOINT_OK and p.sign(8) == CHECKPOINT_OK
    p.stop()
    path = p.trail_folder / "audit"
    state = bytearray(path.read_bytes())
    assert len(state) == 1536
    newest = max((512, 1024), key=lambda at: struct.unpack_from("=Q", state, at)[0])
    state[newest + 9] ^= 1
    path.write_bytes(state)
    assert start().last()["seq"] == 7


@pytest.mark.parametrize("what", ["seed", "magic", "slots", "short", "long"])
def test_damaged_state_ends_the_start_with_status_2_and_one_line(start, what):
    p = start()
    p.sign(7)
    p.stop()
    path = p.trail_folder / "audit"
    state = bytearray(path.read_bytes())
    for at in {"seed": [20], "magic": [0], "slots": [520, 1032]}.get(what, []):
        state[at] ^= 1
    path.write_bytes(state[:1000] if what == "short" else state + bytes(what == "long"))
    p = layout.Program("keyd", ["chan"] * 2, path=p.trail_folder, ready=False)
    assert p.wait(30) == 2
    assert [x for x in p.log().splitlines() if "docs/AUDIT-LOG.md" in x and "damaged" in x], p.log()
    p.stop()


def test_state_that_was_never_whole_is_made_anew(start):
    p = start()
    key = p.last()["key"]
    p.stop()
    path = p.trail_folder / "audit"
    for state in (b"", bytes(100), bytes(1536), bytes(72) + path.read_bytes()[512:1000]):
        path.write_bytes(state)
        p = start()
        assert p.last()["seq"] == 0 and p.last()["key"] != key and p.sign(1) == CHECKPOINT_OK
        assert (p.trail_folder / "audit.pub").read_text().strip() == p.last()["key"].hex()
        p.stop()


def test_seed_is_in_no_memory_that_is_not_locked(start):
    p = start()
    assert p.sign(1) == CHECKPOINT_OK
    seed = (p.trail_folder / "audit").read_bytes()[8:40]
    with open(f"/proc/{p.pid}/maps") as maps, open(f"/proc/{p.pid}/mem", "rb", 0) as mem:
        found = []
        for line in maps:
            first, last = (int(x, 16) for x in line.split()[0].split("-"))
            try:
                mem.seek(first)
                data = mem.read(last - first)
            except (OSError, ValueError, OverflowError):
                continue
            if seed in data:
                found.append((first, last, line))
    smaps = read(p.pid, "smaps").decode()
    for first, _last, line in found:
        part = smaps[smaps.index(f"{first:x}-") :].split("VmFlags:")[1].splitlines()[0]
        assert "lo" in part.split() and "dd" in part.split(), line


@pytest.mark.parametrize("instance", ["", "x" * 36, INSTANCE + "0", INSTANCE[:-1] + "\n"])
def test_instance_that_is_none_is_fatal(start, instance):
    p = start()
    p.managerd.send("K_CHECKPOINT", 1, {"seq": 1, "head": head(1), "instance": instance})
    assert p.wait(30) == 1 and "an instance that is none" in p.log()
