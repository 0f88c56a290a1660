"""agent-sandbox doctor about certificates, their keys and the key file."""

import os
import subprocess
from pathlib import Path

import pytest
from authority import Authority, openssl

ROOT = Path(__file__).resolve().parent.parent.parent
COMMAND = Path(os.environ.get("AS_TEST_BUILD", ROOT / "build")) / "agent-sandbox"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def doctor(tmp_path):
    """doctor(TLS_CERT=..., ...): its lines about these settings' files, as (finding, text)."""

    def one(**settings):
        env = {"PATH": os.environ["PATH"], "AGENT_SANDBOX_API_KEYS": "a-key-of-24-characters-x", "AGENT_SANDBOX_PORT": "0"}
        env |= {f"AGENT_SANDBOX_{name}": str(value) for name, value in settings.items()}
        p = subprocess.run([COMMAND, "doctor"], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        rows = [(line[:4].strip(), line[6:]) for line in p.stdout.splitlines() if line[4:6] == "  "]
        return [row for row in rows if any(str(value).split(",")[0] in row[1] for value in settings.values()) or row[1].startswith("key ")]

    return one


def test_good_certificates_are_said_with_their_names_and_days(authority, doctor):
    cert, key = authority.issue("box", names=("DNS:box.example", "DNS:www.example"), ends=90)
    [(finding, said)] = doctor(TLS_CERT=cert, TLS_KEY=key)
    assert finding == "ok" and "box.example www.example" in said and ("89 days" in said or "90 days" in said), said


def test_each_of_several_is_looked_at(authority, doctor):
    good, bad = authority.issue("a", ends=90), authority.issue("b", begins=-9, ends=-1)
    rows = doctor(TLS_CERT=f"{good[0]},{bad[0]}", TLS_KEY=f"{good[1]},{bad[1]}", TLS_CLIENT_CA=bad[0])
    assert [finding for finding, _ in rows].count("FAIL") == 2 and [finding for finding, _ in rows].count("ok") == 1, rows


@pytest.mark.parametrize(
    ("make", "finding", "words"),
    [
        (lambda ca: ca.issue("box", begins=-9, ends=-1), "FAIL", "has expired"),
        (lambda ca: ca.issue("box", begins=2, ends=9), "FAIL", "not valid yet"),
        (lambda ca: ca.issue("box", ends=10), "weak", "expires in"),
        (lambda ca: (ca.issue("a", ends=90)[0], ca.issue("b")[1]), "FAIL", "is not the key of the certificate"),
        (lambda ca: (ca.issue("a", ends=90)[0], Path("/nonexistent")), "FAIL", "No such file"),
        (lambda ca: (Path("/nonexistent"), ca.issue("a")[1]), "FAIL", "No such file"),
        (lambda ca: ca.issue("a", ends=90)[::-1], "FAIL", "there is no certificate in it"),
        (lambda ca: (ca.issue("a", ends=90)[0],) * 2, "FAIL", "no private key without a passphrase"),
    ],
    ids=["expired", "not yet", "soon", "other key", "no key", "no certificate", "exchanged", "certificate as key"],
)
def test_what_is_wrong_with_a_certificate_is_said(authority, doctor, make, finding, words):
    cert, key = make(authority)
    cert.exists() and cert.chmod(0o600)
    rows = doctor(TLS_CERT=cert, TLS_KEY=key)
    assert any(f == finding and words in said for f, said in rows), rows


def test_key_that_everybody_may_read_is_a_failure(authority, doctor):
    cert, key = authority.issue("box", ends=90)
    key.chmod(0o644)
    assert any(f == "FAIL" and "chmod o=" in said for f, said in doctor(TLS_CERT=cert, TLS_KEY=key))


def test_key_with_a_passphrase_is_a_failure_and_nothing_is_asked(authority, doctor, tmp_path):
    cert, key = authority.issue("box", ends=90)
    openssl("ec", "-in", key, "-aes128", "-passout", "pass:word", "-out", tmp_path / "locked")
    (tmp_path / "locked").chmod(0o600)
    assert any(f == "FAIL" and "passphrase" in said for f, said in doctor(TLS_CERT=cert, TLS_KEY=tmp_path / "locked"))


@pytest.fixture
def keys(tmp_path):
    file = tmp_path / "keys"
    subprocess.run([COMMAND, "keygen", "--name", "ci", "--file", file], check=True, capture_output=True, timeout=60)
    return file


def test_key_file_is_counted_and_what_ends_soon_is_said(keys, doctor):
    assert doctor(KEYS_FILE=keys) == [("ok", f"key file {keys}: 1 keys")]
    with open(keys, "a") as f:
        f.write('{"name":"old","digest":"%s","expires":"2020-01-01T00:00:00Z"}\n' % ("1" * 64))
    subprocess.run([COMMAND, "keygen", "--name", "soon", "--expires", "10d", "--file", keys], check=True, capture_output=True, timeout=60)
    rows = doctor(KEYS_FILE=keys)
    assert ("note", "key old (line 2) is over: it opens nothing") in rows
    assert ("weak", "key soon (line 3) expires in 9 days") in rows or ("weak", "key soon (line 3) expires in 10 days") in rows, rows


def test_key_file_that_the_server_would_refuse_is_a_failure(keys, doctor):
    keys.chmod(0o640)
    assert any(f == "FAIL" and "mode 0640" in said and "chmod 600" in said for f, said in doctor(KEYS_FILE=keys))
    keys.chmod(0o600)
    keys.write_text("{}\n")
    assert any(f == "FAIL" and "line 1: name: is missing" in said for f, said in doctor(KEYS_FILE=keys))
    keys.unlink()
    assert any(f == "FAIL" and "No such file" in said for f, said in doctor(KEYS_FILE=keys))
