"""Clients of a server that speaks TLS: whom they trust, what they show, and what they say when they do not trust."""

import asyncio
import os
import shutil
import ssl

import agent_sandbox_sdk as sdk
import httpx
import pytest
import trap as t
from authority import Authority, openssl, server_context
from cli_kit import Cli
from harness import KEY
from mcp_kit import Mcp

LIST = t.reply(200, {"sandboxes": [t.SANDBOX]})


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("other"), "Somebody else")


@pytest.fixture
def serve():
    """serve(certificate and key, client_ca): a server that lists one sandbox."""
    open_ = []

    def one(pair, client_ca=None, required=True):
        open_.append(t.Trap(tls=server_context(pair, client_ca, required)).on("GET /v1/sandboxes$", LIST))
        return open_[-1]

    yield one
    for trap in open_:
        trap.close()


# What is wrong with a certificate -> how it is made, and words of the message.
BAD = {
    "not trusted": (lambda ca, other: other.issue("box"), ["is not trusted", "AGENT_SANDBOX_CA_FILE"]),
    "other name": (lambda ca, other: ca.issue("box", names=("DNS:box.example",)), ["another name"]),
    "expired": (lambda ca, other: ca.issue("box", begins=-9, ends=-1), ["expired"]),
    "not yet": (lambda ca, other: ca.issue("box", begins=1, ends=9), ["not valid yet", "clock"]),
}  # fmt: skip
bad_certificates = pytest.mark.parametrize("make, words", BAD.values(), ids=list(BAD))


# The command and the MCP server.


def test_command_trusts_the_ca_file_by_option_and_by_variable(authority, serve):
    s = serve(authority.issue("box"))
    assert t.SANDBOX_ID in Cli(s.url, AGENT_SANDBOX_CA_FILE=str(authority.cert)).ok("ls")
    assert t.SANDBOX_ID in Cli(s.url).ok("--cacert", authority.cert, "ls")
    assert t.SANDBOX_ID in Cli(s.url, AGENT_SANDBOX_CA_FILE="/nonexistent").ok("ls", "--cacert", authority.cert)
    assert len(s.seen) == 3


@bad_certificates
def test_command_says_why_it_does_not_trust_and_sends_nothing(authority, other, serve, make, words):
    s = serve(make(authority, other))
    said = Cli(s.url, AGENT_SANDBOX_CA_FILE=str(authority.cert)).fails(5, "ls")
    assert all(word in said for word in [*words, "nothing was sent", s.url]), said
    assert s.seen == []


@bad_certificates
def test_mcp_server_says_why_it_does_not_trust_and_sends_nothing(authority, other, serve, make, words):
    s = serve(make(authority, other))
    m = Mcp(s.url, AGENT_SANDBOX_CA_FILE=authority.cert)
    try:
        said = m.refused("sandbox_list")
        assert "\n" not in said and all(word in said for word in [*words, "nothing was sent"]), said
        assert s.seen == []
    finally:
        m.close()


def test_mcp_server_trusts_the_ca_file_and_shows_its_certificate(authority, serve):
    s = serve(authority.issue("box"), client_ca=authority.cert)
    cert, key = authority.issue_client("mcp")
    m = Mcp(s.url, AGENT_SANDBOX_CA_FILE=authority.cert, AGENT_SANDBOX_CLIENT_CERT=cert, AGENT_SANDBOX_CLIENT_KEY=key)
    try:
        assert [one["id"] for one in m.tool("sandbox_list")["result"]] == [t.SANDBOX_ID]
    finally:
        m.close()


@pytest.mark.bare
def test_ca_file_is_trusted_instead_of_what_the_machine_trusts(authority, other, serve):
    """Whoever pins a private CA does not want any public one to vouch for its server."""
    s = serve(authority.issue("box"))
    env = {"SSL_CERT_FILE": str(authority.cert)}
    assert t.SANDBOX_ID in Cli(s.url, **env).ok("ls")
    assert "is not trusted" in Cli(s.url, AGENT_SANDBOX_CA_FILE=str(other.cert), **env).fails(5, "ls")


def test_ca_file_may_hold_several_and_the_servers_own_certificate(authority, other, serve, tmp_path):
    cert, key = authority.issue("box")
    (tmp_path / "two").write_bytes(other.cert.read_bytes() + authority.cert.read_bytes())
    s = serve((cert, key))
    Cli(s.url).ok("--cacert", tmp_path / "two", "ls")
    Cli(s.url).ok("--cacert", cert, "ls")


def test_every_kind_of_verb_works_with_a_ca_file_that_is_gone_when_it_asks(authority, serve, tmp_path):
    """It is read before the command gives up files: a place that it could not open later is as good as any."""
    s = serve(authority.issue("box"))
    s.on(f"GET /v1/sandboxes/{t.SANDBOX_ID}/files\\?", t.reply(200, b"data", "application/octet-stream"))
    s.on("POST .*/exec/stream", t.stream(t.END))
    hidden = tmp_path / "a" / "deep" / "place"
    hidden.mkdir(parents=True)
    shutil.copy(authority.cert, hidden / "ca")
    cli = Cli(s.url, AGENT_SANDBOX_CA_FILE=str(hidden / "ca"))
    cli.ok("ls")
    assert cli.ok("cat", f"{t.SANDBOX_ID}:f") == "data"
    cli.ok("exec", t.SANDBOX_ID, "true")


def test_client_certificate_is_shown(authority, other, serve, tmp_path):
    s = serve(authority.issue("box"), client_ca=authority.cert)
    cert, key = authority.issue_client("ci")
    both = tmp_path / "both.pem"
    both.write_bytes(cert.read_bytes() + key.read_bytes())
    both.chmod(0o600)
    cli = Cli(s.url, AGENT_SANDBOX_CA_FILE=str(authority.cert))
    cli.ok("--cert", cert, "--cert-key", key, "ls")
    cli.ok("ls", "--cert", both)
    cli.ok("ls", env={"AGENT_SANDBOX_CLIENT_CERT": str(cert), "AGENT_SANDBOX_CLIENT_KEY": str(key)})
    assert len(s.seen) == 3
    assert "client certificate" in cli.fails(5, "ls")
    assert "client certificate" in cli.fails(5, "ls", "--cert", other.issue_client("ci")[0], "--cert-key", other.issue_client("ci")[1])


def test_cp_gets_the_options_of_the_command(authority, serve, tmp_path):
    s = serve(authority.issue("box"), client_ca=authority.cert)
    s.on(f"GET /v1/sandboxes/{t.SANDBOX_ID}/files/list", t.reply(400, {"error": {"code": "invalid_request", "message": "seen"}}))
    cert, key = authority.issue_client("ci")
    p = Cli(s.url)("--cacert", authority.cert, "--cert", cert, "--cert-key", key, "cp", f"{t.SANDBOX_ID}:f", tmp_path / "f")
    assert s.seen, p.stderr


def change(path, text):
    path.write_text(text)
    path.chmod(0o600)
    return path


# Options -> words of the message; F is a folder with "none" (no PEM), "cert", "key", "open" (a key others can read), "locked".
WRONG = {
    "no such CA file": (["--cacert", "F/nowhere"], ["F/nowhere", "No such file"]),
    "CA file without a certificate": (["--cacert", "F/none"], ["no certificate in it"]),
    "a folder": (["--cacert", "F"], ["not a file"]),
    "a certificate that is none": (["--cacert", "F/torn"], ["CA file cannot be used"]),
    "certificate without its key": (["--cert", "F/cert"], ["private key is missing", "--cert-key"]),
    "key without its certificate": (["--cert-key", "F/key"], ["certificate is missing", "--cert"]),
    "key that others can read": (["--cert", "F/cert", "--cert-key", "F/open"], ["chmod 600"]),
    "key with a passphrase": (["--cert", "F/cert", "--cert-key", "F/locked"], ["encrypted"]),
    "key of another certificate": (["--cert", "F/cert", "--cert-key", "F/foreign"], ["cannot be used", "CLIENT_KEY"]),
}  # fmt: skip


@pytest.mark.parametrize("options, words", WRONG.values(), ids=list(WRONG))
def test_what_cannot_be_used_is_said_in_one_line(authority, serve, tmp_path, options, words):
    s = serve(authority.issue("box"))
    cert, key = authority.issue_client("ci")
    shutil.copy(cert, tmp_path / "cert")
    shutil.copy(key, tmp_path / "key")
    shutil.copy(authority.issue_client("x")[1], tmp_path / "foreign")
    change(tmp_path / "open", key.read_text()).chmod(0o644)
    change(tmp_path / "none", "nothing\n")
    change(tmp_path / "torn", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    change(tmp_path / "locked", key.read_text().replace("BEGIN PRIVATE", "BEGIN ENCRYPTED PRIVATE"))
    if "--cacert" not in options:
        options = [*options, "--cacert", str(authority.cert)]
    p = Cli(s.url)("ls", *[o.replace("F", str(tmp_path), 1) if o.startswith("F") else o for o in options])
    assert p.returncode == (5 if "cannot be used" in p.stderr else 2) and p.stdout == ""
    assert all(word.replace("F/", f"{tmp_path}/") in p.stderr for word in words) and p.stderr.count("\n") == 1, p.stderr
    assert s.seen == []


def test_options_of_tls_with_a_plain_url_are_refused_and_variables_are_not_read(trap, authority):
    trap.on("GET /v1/sandboxes$", LIST)
    for option in ("--cacert", "--cert", "--cert-key"):
        assert "not https" in Cli(trap.url).fails(2, option, authority.cert, "ls")
    assert trap.seen == []
    Cli(trap.url, AGENT_SANDBOX_CA_FILE="/nonexistent", AGENT_SANDBOX_CLIENT_CERT="/nonexistent").ok("ls")


def test_https_never_becomes_http(trap, authority, serve):
    """Neither when TLS fails nor by a redirect."""
    said = Cli(trap.url.replace("http:", "https:"), AGENT_SANDBOX_CA_FILE=str(authority.cert)).fails(5, "ls")
    assert "https" in said and trap.seen == []
    s = serve(authority.issue("box"))
    s.on("GET /v1/sandboxes$", t.reply(307, "", Location=trap.url + "/v1/sandboxes"))
    assert "not followed" in Cli(s.url, AGENT_SANDBOX_CA_FILE=str(authority.cert)).fails(5, "ls")
    assert trap.seen == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tls_below_1_2_is_not_spoken(authority):
    context = server_context(authority.issue("box"))
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    old = t.Trap(tls=context)
    try:
        assert "TLS" in Cli(old.url, AGENT_SANDBOX_CA_FILE=str(authority.cert)).fails(5, "ls")
        assert old.seen == []
    finally:
        old.close()


def test_private_key_is_nowhere_in_what_the_command_says(authority, serve, tmp_path):
    s = serve(authority.issue("box"))
    cert, key = authority.issue_client("ci")
    secret = key.read_text().splitlines()[1]
    p = Cli(s.url)("ls", "--cacert", authority.cert, "--cert", key, "--cert-key", cert)
    assert p.returncode == 2 and secret not in p.stderr + p.stdout and os.path.basename(key) in p.stderr


# The Python SDK: blocking, asyncio and AgentboxClient.


def list_sandboxes(url, **options):
    with sdk.SandboxClient(url, KEY, **options) as c:
        return [s.id for s in c.list_sandboxes()]


def list_asyncio(url, **options):
    async def all_():
        async with sdk.AsyncSandboxClient(url, KEY, **options) as c:
            return [s.id for s in await c.list_sandboxes()]

    return asyncio.run(all_())


def ask_agentbox(url, **options):
    with sdk.AgentboxClient(url, KEY, **options) as c:
        return [t.SANDBOX_ID] if c.health() else []


python = pytest.mark.parametrize("ask", [list_sandboxes, list_asyncio, ask_agentbox])


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in list(os.environ):
        if name.startswith("AGENT_SANDBOX_") or name.startswith("SSL_CERT_"):
            monkeypatch.delenv(name)


@pytest.fixture
def health(serve):
    def one(*args, **more):
        return serve(*args, **more).on("GET /health$", t.reply(200, {"status": "ok", "version": "1", "backend": "docker"}))

    return one


@python
def test_python_trusts_the_ca_file_and_shows_its_certificate(authority, other, health, ask, tmp_path, monkeypatch):
    s = health(authority.issue("box"), client_ca=authority.cert)
    cert, key = authority.issue_client("ci")
    both = change(tmp_path / "both.pem", cert.read_text() + key.read_text())
    assert ask(s.url, ca_file=authority.cert, client_cert=(cert, key)) == [t.SANDBOX_ID]
    assert ask(s.url, ca_file=str(authority.cert), client_cert=str(both)) == [t.SANDBOX_ID]
    monkeypatch.setenv("AGENT_SANDBOX_CA_FILE", str(authority.cert))
    monkeypatch.setenv("AGENT_SANDBOX_CLIENT_CERT", str(cert))
    monkeypatch.setenv("AGENT_SANDBOX_CLIENT_KEY", str(key))
    assert ask(s.url) == [t.SANDBOX_ID]
    assert len(s.seen) == 3
    monkeypatch.delenv("AGENT_SANDBOX_CLIENT_CERT")
    for pair in (None, other.issue_client("ci")):
        with pytest.raises(sdk.SandboxUnreachableError, match="client certificate") as no:
            ask(s.url, client_cert=pair)
        assert no.value.code == "tls"


@python
@bad_certificates
def test_python_says_why_it_does_not_trust_and_sends_nothing(authority, other, health, make, words, ask):
    s = health(make(authority, other))
    with pytest.raises(sdk.SandboxUnreachableError) as no:
        ask(s.url, ca_file=authority.cert)
    assert no.value.code == "tls" and all(word in no.value.message for word in [*words, "nothing was sent"]), no.value.message
    assert s.seen == []


@python
def test_python_takes_the_ca_file_instead_of_others_and_a_certificate_itself(authority, other, health, ask, monkeypatch):
    cert, key = authority.issue("box")
    s = health((cert, key))
    assert ask(s.url, ca_file=cert) == [t.SANDBOX_ID]
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.cert))
    assert ask(s.url) == [t.SANDBOX_ID]
    with pytest.raises(sdk.SandboxUnreachableError, match="is not trusted"):
        ask(s.url, ca_file=other.cert)


@python
def test_python_says_what_cannot_be_used(authority, ask, tmp_path):
    cert, key = authority.issue_client("ci")
    none, open_ = change(tmp_path / "none", "nothing\n"), change(tmp_path / "open", key.read_text())
    open_.chmod(0o644)
    locked = tmp_path / "locked"
    openssl("ec", "-in", key, "-aes128", "-passout", "pass:word", "-out", locked)
    locked.chmod(0o600)
    url = "https://127.0.0.1:1"
    rows = [
        ({"ca_file": tmp_path / "nowhere"}, "nowhere: No such file"),
        ({"ca_file": none}, "no certificate in it"),
        ({"client_cert": cert}, "no private key in it"),
        ({"client_cert": (cert, tmp_path / "nowhere")}, "nowhere: No such file"),
        ({"client_cert": (cert, open_)}, "chmod 600"),
        ({"client_cert": (cert, locked)}, "encrypted"),
        ({"client_cert": (cert, authority.issue_client("x")[1])}, "cannot be used"),
    ]  # fmt: skip
    for options, words in rows:
        with pytest.raises(sdk.SandboxConfigError, match=words) as no:
            ask(url, **({"ca_file": authority.cert} | options))
        assert "\n" not in no.value.message
    with pytest.raises(sdk.SandboxConfigError, match="for https"):
        ask("http://127.0.0.1:1", ca_file=authority.cert)


def test_python_takes_no_files_beside_an_http_client(authority):
    with httpx.Client() as http, pytest.raises(sdk.SandboxConfigError, match="http_client"):
        sdk.SandboxClient("https://127.0.0.1:1", KEY, http_client=http, ca_file=authority.cert)


def test_variables_of_tls_are_not_read_for_a_plain_url(trap, monkeypatch):
    trap.on("GET /v1/sandboxes$", LIST)
    monkeypatch.setenv("AGENT_SANDBOX_CA_FILE", "/nonexistent")
    monkeypatch.setenv("AGENT_SANDBOX_CLIENT_CERT", "/nonexistent")
    assert list_sandboxes(trap.url) == list_asyncio(trap.url) == [t.SANDBOX_ID]
