"""One-shot runs as clients see them: agentbox-sandbox 0.8 as it is published, and the AgentboxClient of both SDKs in its place."""

import inspect
import json
import subprocess

import agent_sandbox_sdk as own_sdk
import agentbox.sdk.client as published
import httpx
import pytest
from cli_kit import Cli
from drivers import clean_env
from harness import KEY, ROOT
from images import node

BIN = ROOT / "build/venv/bin"
RESULT = {
    "stdout", "stderr", "exit_code", "duration_ms", "language", "backend", "snapshot_id", "limits_applied", "oom_killed", "network_isolated",
    "egress_allowlist", "truncated",
}  # fmt: skip


def with_key(server):
    return server.url.replace("://", f"://box:{KEY}@")


@pytest.fixture(params=["published", "ours"])
def client(request, server):
    """The two classes behind one door: what works with the one works with the other."""
    kind = published.AgentboxClient if request.param == "published" else own_sdk.AgentboxClient
    c = kind(with_key(server))
    yield c
    c.close()


@pytest.fixture
def kept(api):
    return api.snapshots.append


# ---- Python


def test_whole_surface(client, kept):
    assert client.health() == {"status": "ok", "version": client.health()["version"], "backend": "docker"}
    result = client.run("print(sum(range(10)))")
    assert set(result) == RESULT and (result["stdout"], result["exit_code"], result["language"]) == ("45\n", 0, "python")
    result = client.run("print(1)", "python", 5, False, None, 64, [])
    assert result["limits_applied"] == {"timeout_seconds": 5, "memory_mb": 64} and result["egress_allowlist"] == []
    first = client.run("open('memo.txt', 'w').write('kept')", snapshot=True)
    kept(first["snapshot_id"])
    assert client.run("print(open('memo.txt').read())", snapshot_id=first["snapshot_id"])["stdout"] == "kept\n"


def test_javascript(client, engine):
    node(engine)
    assert client.run("console.log('hello')", language="javascript", timeout_seconds=20)["stdout"] == "hello\n"


def test_refusals_are_runtime_errors_with_the_same_words(client):
    for call, text in (
        (lambda: client.run("x", language="ruby"), "agentbox HTTP 400: Unsupported language: ruby"),
        (lambda: client.run("while True: pass", timeout_seconds=1), "agentbox HTTP 408: Execution timed out"),
        (lambda: client.run("x", snapshot_id="0" * 32), f"agentbox HTTP 400: Unknown snapshot: {'0' * 32}"),
    ):
        with pytest.raises(RuntimeError) as refused:
            call()
        assert str(refused.value) == text
    with pytest.raises(RuntimeError, match="agentbox HTTP 422: code"):
        client.run("")


def test_a_wrong_key_and_none_are_refused(server):
    for url in (server.url, with_key(server).replace(KEY, "x" * 20)):
        with published.AgentboxClient(url).__class__(url)._client as http:
            assert http.post("/v1/run", json={"code": "1"}).status_code == 401
    with pytest.raises(RuntimeError, match="agentbox HTTP 401"):
        own_sdk.AgentboxClient(server.url, "x" * 20).run("1")


def test_nobody_there_is_the_error_that_it_was(unused="http://127.0.0.1:9"):
    for kind in (published.AgentboxClient, own_sdk.AgentboxClient):
        with pytest.raises(httpx.ConnectError):
            kind(unused).health()


def test_arguments_are_those_of_the_published_client():
    theirs, ours = (inspect.signature(kind.run).parameters for kind in (published.AgentboxClient, own_sdk.AgentboxClient))
    assert [(p.name, p.default) for p in theirs.values()] == [(p.name, p.default) for p in ours.values()]
    assert next(iter(inspect.signature(own_sdk.AgentboxClient).parameters)) == "base_url"


def test_own_client_takes_the_key_as_the_sdk_does_and_says_more_of_errors(server, monkeypatch):
    monkeypatch.setenv("AGENT_SANDBOX_API_KEY", KEY)
    with own_sdk.AgentboxClient(server.url) as client:
        assert client.run("print(1)")["stdout"] == "1\n" and KEY not in repr(client)
        with pytest.raises(own_sdk.AgentboxError) as refused:
            client.run("x", language="ruby")
    assert (refused.value.status_code, refused.value.code, refused.value.message) == (400, "invalid_request", "Unsupported language: ruby")
    assert refused.value.request_id.startswith("req_") and isinstance(refused.value, own_sdk.SandboxAPIError)


def test_without_keys_on_loopback_the_published_client_needs_none(own):
    s = own(API_KEYS="", INSECURE_NO_AUTH="true")
    client = published.AgentboxClient(s.url)
    assert client.run("print(1)")["stdout"] == "1\n"
    client.close()


# ---- TypeScript

FETCH = """
const base = process.argv[2];
const health = await fetch(`${base}/health`);
const run = async (body) => fetch(`${base}/v1/run`, {
  method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
const good = await run({ code: "print(6 * 7)", language: "python", limits: { timeout_seconds: 10, memory_mb: 64 } });
const bad = await run({ code: "x", language: "ruby" });
console.log(JSON.stringify([health.status, await health.json(), good.status, await good.json(), bad.status, (await bad.json()).detail]));
"""

OURS = """
import { AgentboxClient, SandboxAPIError } from "agent-sandbox-sdk";
const box = new AgentboxClient(process.argv[2]);
const out = [(await box.health()).status, box.baseUrl.includes("@")];
const first = await box.run("open('a', 'w').write('kept'); print(1)", "python", 10, 64, { snapshot: true });
out.push(first, (await box.run("print(open('a').read())", "python", undefined, undefined, { snapshotId: first.snapshot_id })).stdout);
for (const call of [() => box.run("x", "ruby"), () => box.run("while True: pass", "python", 1)]) {
  try { await call(); out.push("?"); } catch (e) { out.push([e instanceof SandboxAPIError && e instanceof Error, e.statusCode, e.message]); }
}
console.log(JSON.stringify(out));
"""


def javascript(tmp_path, source, *arguments, **env):
    (tmp_path / "program.mjs").write_text(source)
    modules = tmp_path / "node_modules"
    modules.mkdir()
    (modules / "agent-sandbox-sdk").symlink_to(ROOT / "build/clients/typescript")
    p = subprocess.run(
        [BIN / "node", tmp_path / "program.mjs", *arguments], env=clean_env(**env), capture_output=True, text=True, timeout=100
    )
    assert p.returncode == 0, p.stderr
    return json.loads(p.stdout)


def test_typescript_client_of_that_shape_works_without_keys_on_loopback(own, tmp_path):
    s = own(API_KEYS="", INSECURE_NO_AUTH="true")
    health_status, health, status, result, bad, detail = javascript(tmp_path, FETCH, s.url)
    assert (health_status, health["status"], status, bad, detail) == (200, "ok", 200, 400, "Unsupported language: ruby")
    assert set(result) == RESULT and result["stdout"] == "42\n"
    assert result["limits_applied"] == {"timeout_seconds": 10, "memory_mb": 64}


@pytest.mark.parametrize("way", ["address", "environment"])
def test_own_typescript_client(server, tmp_path, kept, way):
    env = {"AGENT_SANDBOX_API_KEY": KEY} if way == "environment" else {}
    status, leaks, first, text, ruby, late = javascript(tmp_path, OURS, server.url if env else with_key(server), **env)
    kept(first["snapshot_id"])
    assert (status, leaks, text) == ("ok", False, "kept\n") and set(first) == RESULT and first["stdout"] == "1\n"
    assert first["limits_applied"] == {"timeout_seconds": 10, "memory_mb": 64}
    assert ruby == [True, 400, "Unsupported language: ruby"] and late == [True, 408, "Execution timed out"]


# ---- the command


@pytest.fixture
def cli(server):
    return Cli(server.url, KEY)


def test_command_runs_a_file_standard_input_or_a_word(cli, tmp_path):
    (tmp_path / "a.py").write_text("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)")
    p = cli("run", tmp_path / "a.py")
    assert (p.stdout, p.stderr, p.returncode) == ("out\n", "err\n", 7)
    for words in (("run",), ("run", "-")):
        p = cli(*words, input="print('caf\u00e9')")
        assert (p.stdout, p.returncode) == ("caf\u00e9\n", 0)
    assert cli.ok("run", "-c", "print(6 * 7)", "-t", "0.5", "-m", "64") == "42\n"


def test_command_takes_the_language_from_the_name_or_the_option(cli, tmp_path, engine):
    node(engine)
    (tmp_path / "a.js").write_text("console.log(6 * 7)")
    assert cli.ok("run", tmp_path / "a.js") == "42\n"
    assert cli.ok("run", "-l", "node", "-c", "console.log(1)") == "1\n"


def test_command_keeps_and_takes_snapshots(cli, kept):
    p = cli("run", "-s", "-c", "open('a', 'w').write('kept')")
    word, name = p.stderr.strip().removeprefix("agent-sandbox: ").split()
    kept(name)
    assert word == "snapshot" and name.startswith("snap_") and p.stdout == ""
    assert cli.ok("run", "--from", name[:12], "-c", "print(open('a').read())") == "kept\n"


def test_command_says_that_the_time_is_over_and_that_output_was_cut(cli):
    p = cli("run", "-t", "1", "-c", "while True: pass")
    assert p.returncode == 124 and p.stderr == "agent-sandbox: Execution timed out: --timeout gives it more\n" and p.stdout == ""
    p = cli("run", "-c", "print('x' * 2000000)")
    assert p.returncode == 0 and len(p.stdout) == 1 << 20 and p.stderr == "agent-sandbox: there was more output than is kept\n"


def test_command_prints_the_answer_for_programs(cli):
    result = json.loads(cli.ok("run", "--json", "-c", "raise SystemExit(3)"))
    assert set(result) == RESULT and result["exit_code"] == 3


def test_command_with_wrong_use_says_so_in_one_line(cli, tmp_path):
    for words, text in (
        (("run", "-c", "1", "file"), "cannot both be"),
        (("run", tmp_path / "none.py"), "No such file"),
        (("run", tmp_path), "Is a directory"),
        (("run", "-l", "ruby", "-c", "1"), "Unsupported language: ruby"),
        (("run", "-m", "8", "-c", "1"), "memory_mb"),
        (("run", "-t", "301", "-c", "1"), "timeout_seconds"),
        (("run", "--from", "snap_0000", "-c", "1"), "snap_0000"),
        (("run", "-c", ""), "code"),
    ):
        p = cli(*words)
        assert p.returncode in (3, 125) and p.stdout == "" and text in p.stderr.splitlines()[0], (words, p.stderr)
    p = cli("run", input=b"\xff\xfe", text=False)
    assert p.returncode == 125 and b"UTF-8" in p.stderr
    (tmp_path / "big.py").write_text("#" * 500000)
    assert "longer than a program may be" in cli("run", tmp_path / "big.py").stderr
