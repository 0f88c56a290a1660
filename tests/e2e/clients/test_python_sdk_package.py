"""The Python SDK as a package: what is in it, what it needs, what type checkers say of it and of a program that uses it."""

import ast
import json
import os
import re
import subprocess
import sys
import zipfile

import agent_sandbox_sdk as sdk
import pytest
from drivers import clean_env
from harness import KEY, ROOT

SOURCE = ROOT / "clients/python/src/agent_sandbox_sdk"

PROGRAM = """
import asyncio
from typing import List
from agent_sandbox_sdk import AsyncSandboxClient, ExecResult, FileInfo, Sandbox, SandboxClient, SandboxLimitError, SnapshotInfo

def work(client: SandboxClient) -> List[FileInfo]:
    with client.create("python:3.12-slim", cpus=0.5, env={"A": "b"}) as sandbox:
        result: ExecResult = sandbox.exec(["true"], timeout_seconds=1.5)
        for event in sandbox.exec_stream("true", stdin=b"x"):
            code: "int | None" = event.exit_code
        with open("f", "rb") as f:
            sandbox.upload(f, "f", progress=lambda done, total: None)
        size: int = sandbox.download("f", "g")
        left_out: List[str] = sandbox.download_folder("d", "e")
        snapshot: SnapshotInfo = sandbox.snapshot()
        try:
            other: Sandbox = client.fork(snapshot)
        except SandboxLimitError as error:
            seconds: "float | None" = error.retry_after
        return sandbox.list_files()

async def main() -> None:
    async with AsyncSandboxClient() as client, client.create() as sandbox:
        result: ExecResult = await sandbox.exec("true")
        async with sandbox.exec_stream("true") as events:
            async for event in events:
                text: str = event.data
        other = await client.fork("snap_0")
        await other.destroy()

asyncio.run(main())
"""
WRONG = """
from agent_sandbox_sdk import SandboxClient
SandboxClient().create(memory="1g")
SandboxClient().get("sb_0").exec(5)
"""


@pytest.fixture(scope="module")
def wheel():
    subprocess.run(["make", "-s", "--no-print-directory", "clients-python"], cwd=ROOT, check=True, stdin=subprocess.DEVNULL)
    return ROOT / f"build/clients/agent_sandbox_sdk-{sdk.__version__}-py3-none-any.whl"


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The wheel in a folder of its own, nothing else in it."""
    place = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", place, wheel], check=True)
    return place


def test_version_is_that_of_the_server():
    assert sdk.__version__ == (ROOT / "VERSION").read_text().strip()


def test_wheel_holds_the_package_its_types_and_its_licence_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    inside = {n.split("/", 1)[1] for n in names if n.startswith("agent_sandbox_sdk/")}
    assert inside == {f for f in os.listdir(SOURCE) if f.endswith((".py", ".typed"))} and "py.typed" in inside
    assert any(n.endswith("LICENSE") for n in names) and all(n.startswith("agent_sandbox_sdk") for n in names)


def test_wheel_needs_httpx_and_nothing_else(wheel):
    archive = zipfile.ZipFile(wheel)
    meta = archive.read(next(n for n in archive.namelist() if n.endswith("METADATA"))).decode()
    assert [line for line in meta.splitlines() if line.startswith("Requires-Dist")] == ["Requires-Dist: httpx<1,>=0.27"]
    assert "Requires-Python: >=3.9" in meta and "Name: agent-sandbox-sdk" in meta
    for file in SOURCE.glob("*.py"):
        tree = ast.parse(file.read_text(), feature_version=(3, 9))
        used = {n.name.split(".")[0] for x in ast.walk(tree) if isinstance(x, ast.Import) for n in x.names}
        used |= {x.module.split(".")[0] for x in ast.walk(tree) if isinstance(x, ast.ImportFrom) and x.level == 0}
        assert used <= set(sys.stdlib_module_names) | {"httpx"}, file


def test_installed_wheel_works_without_the_source_tree(installed, server, tmp_path):
    program = (
        "from agent_sandbox_sdk.client import SandboxClient\nimport agent_sandbox_sdk\n"
        "with SandboxClient() as client, client.create(timeout_seconds=300) as box: print(box.exec('echo hi').stdout, agent_sandbox_sdk.__file__)"
    )
    env = clean_env(PYTHONPATH=str(installed), AGENT_SANDBOX_URL=server.url, AGENT_SANDBOX_API_KEY=KEY)
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout == f"hi\n {installed}/agent_sandbox_sdk/__init__.py\n" and done.stderr == ""


def errors(text):
    """Files and lines that a checker has something against."""
    return sorted(re.findall(r"(\w+\.py):(\d+)(?::\d+)?(?: -|:) error", text))


AS_WANTED = [("wrong.py", "3"), ("wrong.py", "4")]


@pytest.fixture
def programs(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "wrong.py").write_text(WRONG)
    return tmp_path


@pytest.mark.limit(180)
def test_mypy_strict_finds_what_is_wrong_and_nothing_else(programs):
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", programs / "cache", SOURCE, programs]
    done = subprocess.run(command, cwd=ROOT, env=clean_env(), capture_output=True, text=True)
    assert errors(done.stdout) == AS_WANTED, done.stdout + done.stderr


@pytest.mark.limit(180)
def test_pyright_strict_finds_what_is_wrong_and_nothing_else(programs):
    subprocess.run([ROOT / "tests/tools/node"], check=True, stdin=subprocess.DEVNULL, capture_output=True)
    (programs / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(SOURCE.parent)], "pythonVersion": "3.9"}))
    command = [ROOT / "build/venv/bin/node", ROOT / "build/node/node_modules/pyright/index.js", "--pythonpath", sys.executable, "-p"]
    for project, wanted in ((ROOT / "clients/python/pyproject.toml", []), (programs, AS_WANTED)):
        done = subprocess.run([*command, project], cwd=programs, env=clean_env(), capture_output=True, text=True)
        assert errors(done.stdout) == wanted and done.returncode == bool(wanted), done.stdout + done.stderr


def test_every_public_name_says_what_it_is():
    for name in sdk.__all__:
        thing = getattr(sdk, name)
        if isinstance(thing, type):
            assert thing.__doc__, name
            for method, f in vars(thing).items():
                if not method.startswith("_") and callable(f):
                    assert f.__doc__, (name, method)
