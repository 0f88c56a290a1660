"""keyd: which keys it takes, what it signs with them, what it refuses, and where a key is in its memory, and for how long."""

import collections
import os
import re
import signal
import socket
import subprocess
import time

import layout
import pytest
from keyd_kit import INPUTS, P256, P384, PSS, RANDOMS, TLS12, TLS13, VERIFY, Keyd, openssl, pem, private_numbers, public, verifies
from layout import KEY_BUSY, KEY_OK, KEY_REFUSED, KEY_UNKNOWN
from machine import alive, descriptors, read, send, status, wait_until

GOOD = ("p256", "p384", "rsa", "rsa-4096")
FITTING = {"p256": [P256], "p384": [P384], "rsa": list(PSS.values()), "rsa-4096": list(PSS.values())}


@pytest.fixture
def keyd(tmp_path):
    with Keyd(tmp_path, [pem(kind) for kind in GOOD]) as p:
        yield p
        assert p.alive(), p.log()


# Keys


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize("form", ["pkcs8", "traditional", "behind-other-text"])
def test_key_is_taken_in_each_usual_form(tmp_path, kind, form):
    text = pem(kind)
    if form == "traditional":
        text = openssl("pkey", "-traditional", data=text)
        assert b"BEGIN EC PRIVATE" in text or b"BEGIN RSA PRIVATE" in text
    if form == "behind-other-text":
        text = b"Bag Attributes\n    friendlyName: x\n" + openssl("ecparam", "-name", "prime256v1") + text
    with Keyd(tmp_path, [text]) as p:
        assert p.public() == (KEY_OK, public(pem(kind)))


def encrypted(traditional):
    words = ["-traditional"] if traditional else []
    return openssl("pkey", *words, "-aes256", "-passout", "pass:secret", data=pem("rsa"))


def certificate():
    return openssl("req", "-x509", "-key", "/dev/stdin", "-subj", "/CN=x", data=pem("p256"))


BAD = {
    "empty": (lambda: b"", "no private key"),
    "text": (lambda: b"hello\n", "no private key"),
    "zeros": (lambda: bytes(1000), "no private key"),
    "cut": (lambda: pem("rsa")[:-200], "no private key"),
    "damaged": (lambda: pem("p256").replace(b"M", b"!", 2), "no private key"),
    "der": (lambda: openssl("pkey", "-outform", "DER", data=pem("p256")), "no private key"),
    "public": (lambda: openssl("pkey", "-pubout", data=pem("p256")), "no private key"),
    "certificate": (certificate, "no private key"),
    "passphrase": (lambda: encrypted(False), "passphrase"),
    "passphrase-traditional": (lambda: encrypted(True), "passphrase"),
    "too-large": (lambda: pem("p256") + b"\n" * 40000, "too large"),
    "p521": (lambda: pem("p521"), "P-256"),
    "k256": (lambda: pem("k256"), "P-256"),
    "brainpool": (lambda: pem("brainpool"), "P-256"),
    "rsa-1024": (lambda: pem("rsa-1024"), "2048"),
    "rsa-2047": (lambda: pem("rsa-2047"), "2048"),
    "rsa-4104": (lambda: pem("rsa-4104"), "4096"),
    "rsa-pss": (lambda: pem("rsa-pss"), "RSA"),
    "ed25519": (lambda: pem("ed25519"), "P-256"),
    "x25519": (lambda: pem("x25519"), "P-256"),
}


@pytest.mark.parametrize("what", BAD)
def test_key_that_is_not_good_is_refused_with_its_reason_and_all_others_stay(tmp_path, what):
    make, word = BAD[what]
    with Keyd(tmp_path, [pem("p256")]) as p:
        index, why = p.load(2, [pem("p384"), make(), pem("rsa")])
        assert index == 1 and word in why and "\n" not in why, why
        assert [p.public(2, i)[0] for i in range(3)] == [KEY_UNKNOWN] * 3, "a part of a bad set stays"
        assert p.public() == (KEY_OK, public(pem("p256"))) and p.sign(VERIFY + bytes(32))[0] == KEY_OK
        assert p.load(3, [pem("rsa")]) is None and p.alive()


@pytest.mark.parametrize("kind", ["directory", "pipe", "socket", "null", "write-only"])
def test_descriptor_that_is_no_file_to_read_is_refused(tmp_path, kind):
    (tmp_path / "file").write_bytes(pem("p256"))
    made = {
        "directory": lambda: os.open(tmp_path, os.O_RDONLY),
        "pipe": lambda: os.pipe()[0],
        "socket": lambda: socket.socketpair()[0].detach(),
        "null": lambda: os.open("/dev/null", os.O_RDWR),
        "write-only": lambda: os.open(tmp_path / "file", os.O_WRONLY),
    }
    fd = made[kind]()
    with Keyd(tmp_path) as p:
        index, why = p.load(1, [fd])
        assert index == 0 and ("regular file" in why or "cannot be read" in why)
        mine = os.readlink(f"/proc/self/fd/{fd}")
        assert wait_until(lambda: mine not in [v for n, v in descriptors(p.pid).items() if n > 2]), "it stays open"
    os.close(fd)


def test_sixteen_large_keys_in_each_of_two_generations_and_again(tmp_path):
    """All that the parent may give, and more often than memory would bear if something of it stayed."""
    with Keyd(tmp_path) as p:
        for generation in range(1, 8):
            assert p.load(generation, [pem("rsa-4096")] * 16) is None, p.log()
            assert p.public(generation, 15)[0] == KEY_OK and p.public(generation, 16)[0] == KEY_UNKNOWN
            assert p.sign(VERIFY + bytes(32), PSS["sha256"], generation, 15)[0] == KEY_OK
            p.use(generation)


# Generations


def test_two_generations_sign_until_the_new_one_is_used(tmp_path):
    with Keyd(tmp_path, [pem("p256")]) as p:
        assert p.load(2, [pem("p256", 1)]) is None
        assert p.public(1)[1] == public(pem("p256")) and p.public(2)[1] == public(pem("p256", 1))
        assert p.sign(VERIFY + bytes(32), generation=1)[0] == p.sign(VERIFY + bytes(32), generation=2)[0] == KEY_OK
        p.use(2)
        assert p.sign(VERIFY + bytes(32), generation=1)[0] == p.public(1)[0] == KEY_UNKNOWN
        assert p.sign(VERIFY + bytes(32), generation=2)[0] == KEY_OK


def test_generation_that_will_not_be_used_is_forgotten_and_the_old_one_stays(tmp_path):
    with Keyd(tmp_path, [pem("p256")]) as p:
        assert p.load(2, [pem("p384")]) is None
        p.forget(2)
        assert wait_until(lambda: p.public(2)[0] == KEY_UNKNOWN) and p.public(1)[0] == KEY_OK
        assert p.load(3, [pem("rsa")]) is None and p.public(3)[0] == KEY_OK


def test_use_of_what_is_not_there_forgets_nothing(tmp_path):
    with Keyd(tmp_path, [pem("p256")]) as p:
        for generation in (0, 2, 2**32 - 1):
            p.use(generation)
        assert p.public(1)[0] == KEY_OK


def test_generation_in_use_outlives_any_number_of_failed_ones(tmp_path):
    with Keyd(tmp_path, [pem("p256")]) as p:
        for generation in range(2, 12):
            assert p.load(generation, [b"no key"]) is not None
        assert p.public(1)[0] == KEY_OK


@pytest.mark.parametrize(
    "fields",
    [
        {"generation": 0, "index": 0, "count": 1},
        {"generation": 1, "index": 0, "count": 0},
        {"generation": 1, "index": 0, "count": 17},
        {"generation": 1, "index": 1, "count": 2},
        {"generation": 1, "index": 1, "count": 1},
        {"generation": 1, "index": 2**32 - 1, "count": 2**32 - 1},
    ],
)
def test_parent_that_makes_no_sense_is_fatal(tmp_path, fields):
    with Keyd(tmp_path) as p:
        p.give(fields["generation"], fields["index"], fields["count"], pem("p256"))
        assert p.wait(30) == 1 and "parent" in p.log()


# What is signed


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("kind", GOOD)
def test_handshake_is_signed_so_that_a_client_can_verify_it(keyd, tmp_path, kind, name):
    for scheme in FITTING[kind]:
        code, signature = keyd.sign(INPUTS[name], scheme, index=GOOD.index(kind))
        assert code == KEY_OK and verifies(tmp_path, pem(kind), scheme, INPUTS[name], signature), f"0x{scheme:04x}"
        assert not verifies(tmp_path, pem(kind), scheme, INPUTS[name] + b"x", signature)


def test_tls_1_2_does_not_tie_an_ecdsa_hash_to_a_curve_but_tls_1_3_does(keyd, tmp_path):
    """RFC 5246 against RFC 8446, 4.2.3; clients of 1.2 may offer only SHA-256 to a key of P-384."""
    for kind, scheme in (("p256", P384), ("p384", P256)):
        for name, data in INPUTS.items():
            code, signature = keyd.sign(data, scheme, index=GOOD.index(kind))
            assert (code == KEY_OK) == (name in TLS12), (kind, name)
            assert code != KEY_OK or verifies(tmp_path, pem(kind), scheme, data, signature)


def test_two_signatures_of_one_text_differ(keyd):
    """By chance, not by a fixed number: two with the same one would give an ECDSA key away."""
    for kind in GOOD:
        index, scheme = GOOD.index(kind), FITTING[kind][0]
        assert len({keyd.sign(TLS13["verify-sha256"], scheme, index=index)[1] for _ in range(8)}) == 8


def test_every_scheme_that_is_not_the_keys_own_is_refused(keyd):
    """All numbers of the registry and some of none, with every key."""
    schemes = {0, 0xFFFF, *range(0x0200, 0x0A00), *range(0x0500, 0x10000, 0x0100)}
    for kind in GOOD:
        for scheme in schemes - set(FITTING[kind]):
            assert keyd.sign(TLS13["verify-sha256"], scheme, index=GOOD.index(kind)) == (KEY_REFUSED, b""), f"0x{scheme:04x}"


@pytest.mark.parametrize("scheme", [0x0401, 0x0501, 0x0601, 0x0201, 0x0203, 0x0809, 0x080A, 0x080B, 0x0807, 0x0603])
def test_pkcs1_and_sha1_are_never_signed(keyd, scheme):
    for data in INPUTS.values():
        for index in range(len(GOOD)):
            assert keyd.sign(data, scheme, index=index)[0] == KEY_REFUSED


CHOSEN = {
    "nothing": b"",
    "one byte": b"\0",
    "a hash": bytes(range(32)),
    "a longer hash": bytes(range(64)),
    "a padded hash": b"\0\1" + b"\xff" * 202 + b"\0" + bytes.fromhex("3031300d060960864801650304020105000420") + bytes(32),
    "a client's verify": VERIFY.replace(b"server", b"client") + bytes(32),
    "verify of TLS 1.2": VERIFY.replace(b"1.3", b"1.2") + bytes(32),
    "verify of DTLS": VERIFY.replace(b"TLS", b"DTLS") + bytes(32),
    "verify without its hash": VERIFY,
    "verify with a short hash": VERIFY + bytes(31),
    "verify with SHA-512": VERIFY + bytes(64),
    "verify with more behind": VERIFY + bytes(49),
    "verify without its NUL": VERIFY[:-1] + b"\1" * 33,
    "verify with few blanks": VERIFY[1:] + bytes(33),
    "delegated credential": b" " * 64 + b"TLS, server delegated credentials\0" + bytes(32),
    "exported authenticator": b" " * 64 + b"Exported Authenticator\0" + bytes(32),
    "exchange of a prime curve": RANDOMS + b"\1" + bytes(200),
    "exchange of P-521": RANDOMS + b"\3\0\x19\x85\4" + bytes(132),
    "exchange of X448": RANDOMS + b"\3\0\x1e\x38" + bytes(56),
    "exchange with a compressed point": RANDOMS + b"\3\0\x17\x21\2" + bytes(32),
    "exchange with the length of another": RANDOMS + b"\3\0\x17\x20" + bytes(32),
    "exchange with a curve of none": RANDOMS + b"\3\xff\x01\x20" + bytes(32),
    "exchange that is cut": TLS12["exchange-p256"][:-1],
    "exchange with more behind": TLS12["exchange-x25519"] + b"\0",
    "exchange without a random": TLS12["exchange-x25519"][32:],
    "finite field exchange": RANDOMS + b"\1\0" + b"\xff" * 256 + b"\0\1\2" + b"\1\0" + b"\xaa" * 256,
    "a certificate to be signed": b"\x30\x82\1\x0a\xa0\3\2\1\2\2\1\1" + bytes(200),
    "a token": b"eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhZG1pbiJ9",
    "SSH user authentication": b"\0\0\0\x20" + bytes(32) + b"\x32\0\0\0\4root\0\0\0\x0essh-connection",
    "the most that fits": b"x" * 1024,
}


@pytest.mark.parametrize("what", CHOSEN)
def test_bytes_that_apid_chooses_are_refused_whatever_the_key_and_scheme(keyd, what):
    for kind in GOOD:
        for scheme in FITTING[kind]:
            assert keyd.sign(CHOSEN[what], scheme, index=GOOD.index(kind)) == (KEY_REFUSED, b""), kind


@pytest.mark.parametrize("name", INPUTS)
def test_every_byte_of_a_handshake_that_is_fixed_is_looked_at(keyd, name):
    data = bytearray(INPUTS[name])
    free = len(data) - len(VERIFY) if name in TLS13 else None
    for i in range(len(data)):
        data[i] ^= 0x20
        may = i >= len(data) - free if free is not None else i < 64 or i >= 68 + (data[66] != 29)
        assert (keyd.sign(bytes(data))[0] == KEY_OK) == may, i
        data[i] ^= 0x20


def test_key_that_is_not_there_is_told_apart_from_a_refusal(keyd):
    for generation, index in ((0, 0), (2, 0), (1, 4), (1, 16), (1, 2**32 - 1), (2**32 - 1, 0)):
        assert keyd.public(generation, index) == (KEY_UNKNOWN, b"")
        assert keyd.sign(TLS13["verify-sha256"], generation=generation, index=index) == (KEY_UNKNOWN, b"")


# A hostile apid


def test_refusals_are_counted_and_logged_in_few_lines(keyd):
    begun = time.monotonic()
    for _ in range(3000):
        assert keyd.sign(b"sign this")[0] == KEY_REFUSED
    took = time.monotonic() - begun
    time.sleep(1.1)
    assert keyd.sign(TLS13["verify-sha256"])[0] == KEY_OK, "the next one is signed"
    lines = [line for line in keyd.log().splitlines() if "refuse" in line or "no handshake needs" in line]
    assert 1 <= len(lines) <= 2 * (took + 3), lines
    assert "3000" in lines[-1], lines


def test_nothing_of_what_is_to_be_signed_is_in_the_log(keyd):
    keyd.sign(b"SOMETHING-CHOSEN" * 8)
    assert "SOMETHING" not in keyd.log() and "534f4d45" not in keyd.log().lower()


def test_who_asks_without_reading_waits_for_itself_and_is_answered_in_order(keyd):
    """Neither memory nor the queue grows with what is asked; answers come when they are read."""
    body = layout.pack("m_k_key", {"generation": 1, "index": 2})
    keyd.apid.sock.setblocking(False)
    asked = 0
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            keyd.apid.send_raw(layout.MSG["K_PUBLIC"], asked + 1, body)
            asked += 1
        except BlockingIOError:
            if not wait_until(lambda: writable(keyd.apid.sock), 2):
                break
    assert asked > 100
    if "san-" not in str(layout.BUILD):
        assert int(re.search(r"VmRSS:\s+(\d+)", read(keyd.pid, "status").decode())[1]) < 64 * 1024
    keyd.apid.sock.setblocking(True)
    for n in range(asked):
        m = keyd.apid.expect("K_PUBLIC_IS", id=n + 1)
        assert m.fields["status"] == KEY_OK
    keyd._id = asked
    assert keyd.sign(TLS13["verify-sha256"])[0] == KEY_OK


def writable(sock):
    import select

    return bool(select.select([], [sock], [], 0)[1])


def test_signatures_of_one_second_are_limited(keyd):
    """Asks as fast as it can, 64 at once. keyd counts by the seconds of this clock; on a machine that is too slow to reach the
    limit nothing is to be seen but that it is not passed."""
    fields = layout.pack("m_k_sign", {"generation": 1, "index": 0, "scheme": P256})
    body, seen, asked, taken = fields + b"x", set(), 0, collections.Counter()
    end = time.monotonic() + 20
    while KEY_BUSY not in seen and time.monotonic() < end:
        for _ in range(64):
            asked += 1
            keyd.apid.sock.send(layout.struct.pack("=IIQ", layout.MSG["K_SIGN"], 16 + len(body), asked) + body)
        for _ in range(64):
            code = layout.unpack("m_k_answer", keyd.apid.sock.recv(65536)[16:])["status"]
            seen.add(code)
            taken[int(time.monotonic())] += code != KEY_BUSY
    assert max(taken.values()) <= 20000 + 64 and seen <= {KEY_BUSY, KEY_REFUSED}
    keyd._id = asked
    assert wait_until(lambda: keyd.sign(TLS13["verify-sha256"])[0] == KEY_OK), "the next second is a new one"


def test_keyd_that_was_stopped_for_a_while_loses_nothing(keyd):
    os.kill(keyd.pid, signal.SIGSTOP)
    for n in range(20):
        keyd.apid.send("K_SIGN", n + 1, {"generation": 1, "index": 0, "scheme": P256}, VERIFY + bytes(32))
    assert keyd.apid.silent()
    os.kill(keyd.pid, signal.SIGCONT)
    for n in range(20):
        assert keyd.apid.expect("K_SIGNED", id=n + 1).fields["status"] == KEY_OK


@pytest.mark.parametrize("end", ["apid", "managerd", "parent"])
def test_keyd_ends_with_its_parent_or_when_nobody_is_left_who_asks(tmp_path, end):
    with Keyd(tmp_path, [pem("p256")]) as p:
        if end == "parent":
            p.parent.close()
        else:
            first, second = (p.apid, p.managerd) if end == "apid" else (p.managerd, p.apid)
            first.close()
            p.parent.send("P_PING")
            assert p.parent.expect("P_PONG") and p.alive()
            second.close()
        assert p.wait(30) == 0


@pytest.mark.parametrize("what", ["unknown", "long", "fd", "parents"])
def test_apid_that_breaks_the_table_is_fatal(tmp_path, what):
    with Keyd(tmp_path, [pem("p256")]) as p:
        ask = layout.pack("m_k_sign", {"generation": 1, "scheme": P256})
        if what == "unknown":
            p.apid.send_raw(0x0699, 1, ask)
        elif what == "long":
            p.apid.send_raw(layout.MSG["K_SIGN"], 1, ask + bytes(1025))
        elif what == "fd":
            with open("/dev/null") as f:
                p.apid.send_raw(layout.MSG["K_SIGN"], 1, ask, [f.fileno()])
        else:
            p.apid.send_raw(layout.MSG["P_KEYFILE"], 1, bytes(16))
        assert p.wait(30) == 1 and "apid" in p.log()


@pytest.mark.parametrize(("generation", "index", "count"), [(0, 0, 1), (1, 0, 0), (1, 0, layout.KEYS_AT_ONCE + 1), (1, 1, 1), (1, 2, 1)])
def test_key_out_of_bounds_is_fatal(tmp_path, generation, index, count):
    with Keyd(tmp_path) as p:
        p.give(generation, index, count, pem("p256"))
        assert p.wait(30) == 1 and "a key out of bounds" in p.log()


# Memory

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="reads another process's memory")
no_sanitizer = pytest.mark.skipif("san-" in str(layout.BUILD), reason="a sanitizer keeps what was freed")


def regions(pid):
    """start, end, permissions and flags of each mapping that is its own."""
    out, region = [], None
    for line in read(pid, "smaps").decode().splitlines():
        m = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", line)
        if m:
            region = [int(m[1], 16), int(m[2], 16), m[3], []]
            out.append(region)
        elif line.startswith("VmFlags:"):
            region[3] = line.split()[1:]
    return [r for r in out if r[2].startswith("rw")]


def found(pid, secrets):
    """Names of the secrets that are somewhere in its memory, with the flags of that mapping."""
    out = {}
    with open(f"/proc/{pid}/mem", "rb") as mem:
        for start, end, _, flags in regions(pid):
            try:
                mem.seek(start)
                data = mem.read(end - start)
            except OSError:
                continue
            for name, value in secrets.items():
                if value in data:
                    out.setdefault(name, []).append(flags)
    return out


def secrets_of(key):
    """In the order of the file and in that of big numbers in memory; the file's own lines too."""
    out = {}
    for name, value in private_numbers(key).items():
        value = value[: len(value) // 8 * 8]
        out[f"{name}, as in the file"] = value[:24]
        out[f"{name}, as a number"] = private_numbers(key)[name][::-1][:24]
    lines = key.splitlines()
    out["a line of the file"] = lines[len(lines) // 2][:40]
    return out


@needs_root
@no_sanitizer
@pytest.mark.parametrize("kind", ["p256", "p384", "rsa"])
def test_key_is_only_in_memory_that_is_locked_and_not_dumped_and_gone_when_it_is_forgotten(tmp_path, kind):
    key = openssl("pkey", "-traditional", data=pem(kind))
    secrets = secrets_of(pem(kind)) | {"a line of the traditional file": key.splitlines()[3][:40]}
    with Keyd(tmp_path) as p:
        assert found(p.pid, secrets) == {}
        assert p.load(1, [key]) is None and p.load(2, [pem("rsa-4096")]) is None
        for data in INPUTS.values():
            for scheme in FITTING[kind]:
                assert p.sign(data, scheme)[0] == KEY_OK
        there = found(p.pid, secrets)
        assert any("number" in name for name in there), "the test would not find it"
        for name, places in there.items():
            assert "number" in name, f"{name} stays"
            assert all("dd" in flags and "lo" in flags for flags in places), f"{name} is in memory that may be swapped or dumped"
        p.use(2)
        assert p.public(1)[0] == KEY_UNKNOWN
        assert found(p.pid, secrets) == {}, "it is still there"


@needs_root
def test_nobody_else_sees_its_memory_and_it_leaves_no_core(tmp_path):
    with Keyd(tmp_path, [pem("p256")]) as p:
        for name in ("mem", "maps", "environ"):
            r = subprocess.run(["cat", f"/proc/{p.pid}/{name}"], user=p.uid, group=p.gid, extra_groups=[], capture_output=True)
            assert r.returncode != 0 and r.stdout == b"", name
        assert re.search(r"Max core file size\s+0\s+0", read(p.pid, "limits").decode())
        assert status(p.pid)["Threads"] == "1"


@needs_root
def test_keyd_that_is_killed_leaves_nothing(tmp_path):
    with Keyd(tmp_path, [pem("p256")]) as p:
        assert send(p.pid, signal.SIGKILL) and p.wait(30) == -signal.SIGKILL
        assert not alive(p.pid)
        with pytest.raises(layout.Gone):
            p.apid.recv()


def test_keys_files_are_closed_when_they_are_read(keyd):
    assert wait_until(lambda: not [v for v in descriptors(keyd.pid).values() if v.endswith(".key")])
