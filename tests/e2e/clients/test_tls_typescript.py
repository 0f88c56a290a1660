"""The TypeScript SDK and a server that speaks TLS, in Node, Deno and Bun: whom it trusts, what it shows and says."""

import json
import subprocess

import pytest
import trap as t
from authority import Authority, server_context
from drivers import clean_env
from harness import KEY, ROOT
from test_typescript_sdk import RUNTIMES

STORY = ROOT / "tests/node/typescript_tls.mjs"


def command(runtime):
    """How the runtime runs a program."""
    program = RUNTIMES[runtime][0]
    return [program, *(["run", "--no-lock", "--allow-all"] if runtime == "deno" else ["run"] if runtime == "bun" else [])]


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("other"), "Somebody else")


@pytest.fixture
def serve():
    made = []

    def one(pair, client_ca=None):
        made.append(t.Trap(tls=server_context(pair, client_ca)).on("GET /v1/sandboxes$", t.reply(200, {"sandboxes": [t.SANDBOX]})))
        return made[-1]

    yield one
    for trap in made:
        trap.close()


@pytest.fixture(params=list(RUNTIMES))
def ask(request, built, tmp_path):
    """ask(url, *words, env=, **options): what came of it."""

    def one(url, *words, env=None, **options):
        said = subprocess.run(
            [*command(request.param), STORY, *words, json.dumps({"baseUrl": url, "apiKey": KEY} | {k: str(v) for k, v in options.items()})],
            env=clean_env(DENO_NO_UPDATE_CHECK="1", DENO_DIR=str(tmp_path / "deno"), HOME=str(tmp_path), NO_COLOR="1")
            | {k: str(v) for k, v in (env or {}).items()},
            capture_output=True, text=True, timeout=100,
        )  # fmt: skip
        assert said.returncode == 0, said.stderr
        return json.loads(said.stdout)

    one.runtime = request.param
    return one


GOOD = {"ids": [t.SANDBOX_ID]}


def test_ca_file_and_client_certificate_by_option_and_by_variable(authority, serve, ask):
    cert, key = authority.issue_client("ci")
    s = serve(authority.issue("box"), client_ca=authority.cert)
    assert ask(s.url, caFile=authority.cert, clientCert=cert, clientKey=key) == GOOD
    env = {"AGENT_SANDBOX_CA_FILE": authority.cert, "AGENT_SANDBOX_CLIENT_CERT": cert, "AGENT_SANDBOX_CLIENT_KEY": key}
    assert ask(s.url, env=env) == GOOD
    no = ask(s.url, caFile=authority.cert)
    # Only Deno's fetch hands on the server's alert.
    assert "client certificate" in no["message"] if ask.runtime == "deno" else no["name"].startswith("Sandbox"), no
    assert len(s.seen) == 2


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda ca, other: other.issue("box"), ["is not trusted", "AGENT_SANDBOX_CA_FILE"]),
        (lambda ca, other: ca.issue("box", names=("DNS:box.example",)), ["another name"]),
        (lambda ca, other: ca.issue("box", begins=-9, ends=-1), ["expired"]),
        (lambda ca, other: ca.issue("box", begins=1, ends=9), ["not valid yet"]),
    ],
    ids=["not trusted", "other name", "expired", "not yet"],
)
def test_why_it_does_not_trust_is_said_and_nothing_is_sent(authority, other, serve, ask, make, words):
    s = serve(make(authority, other))
    no = ask(s.url, caFile=authority.cert)
    assert no["name"] == "SandboxUnreachableError" and all(word in no["message"] for word in [*words, "nothing was sent"]), no
    assert s.seen == []


def test_certificates_may_be_texts(authority, serve, ask, tmp_path):
    """The entry that imports nothing takes them as they are."""
    s = serve(authority.issue("box"))
    program = tmp_path / "texts.json"
    program.write_text(json.dumps({"ca": authority.cert.read_text()}))
    said = subprocess.run(
        [*command(ask.runtime), STORY, "texts", json.dumps({"baseUrl": s.url, "apiKey": KEY, "tls": json.loads(program.read_text())})],
        env=clean_env(DENO_NO_UPDATE_CHECK="1", DENO_DIR=str(tmp_path / "deno"), HOME=str(tmp_path), NO_COLOR="1"),
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert json.loads(said.stdout) == GOOD, said.stderr


def test_what_cannot_be_used_is_said(authority, serve, ask, tmp_path):
    cert, key = authority.issue_client("ci")
    (tmp_path / "none").write_text("nothing\n")
    open_ = tmp_path / "open"
    open_.write_text(key.read_text())
    open_.chmod(0o644)
    rows = [
        ({"caFile": tmp_path / "nowhere"}, "nowhere"),
        ({"caFile": tmp_path / "none"}, "not a certificate in PEM"),
        ({"clientCert": cert}, "not a private key in PEM"),
        ({"clientCert": cert, "clientKey": open_}, "chmod 600"),
        ({"clientKey": key}, "together"),
    ]
    for options, words in rows:
        no = ask("https://127.0.0.1:1", **options)
        assert no["name"] == "SandboxConfigError" and words in no["message"] and "\n" not in no["message"], no
    assert ask("http://127.0.0.1:1", caFile=authority.cert)["message"].startswith("a CA and a client certificate are for https")
