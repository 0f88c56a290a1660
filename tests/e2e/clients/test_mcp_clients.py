"""The official MCP clients, in Python and in JavaScript, and the inspector, against agent-sandbox-mcp and a real server."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys

import anyio
import mcp.client.session as client_session
import mcp_types
import pytest
from agent_sandbox import mcp_server
from front import FRONT
from harness import KEY, ROOT
from machine import wait_until
from mcp import Client, MCPError, StdioServerParameters
from mcp_kit import HANDSHAKE, MODERN, PROGRAM, TOOLS, environment

NODE = ROOT / "build/venv/bin/node"
PACKAGES = ROOT / "build/node/node_modules"


def parameters(server):
    return StdioServerParameters(
        command=str(PROGRAM), env={"AGENT_SANDBOX_URL": server.url, "AGENT_SANDBOX_API_KEY": KEY} | FRONT.environment
    )


@contextlib.asynccontextmanager
async def connected(server, monkeypatch, version):
    """The Python client in one of all the versions that it can speak."""
    if version in HANDSHAKE:
        monkeypatch.setattr(client_session, "LATEST_HANDSHAKE_VERSION", version)
    async with Client(parameters(server), mode="auto" if version == MODERN else "legacy") as client:
        assert client.protocol_version == version
        yield client


async def story(client, box):
    """Everything that the client library offers for such a server."""
    structured = client.protocol_version >= "2025-06-18"

    async def call(tool, **arguments):
        result = await client.call_tool(tool, arguments)
        said = "".join(c.text for c in result.content)
        assert not result.is_error and (result.structured_content is not None) == structured, said
        try:
            return json.loads(said)
        except ValueError:
            return said

    assert {t.name for t in (await client.list_tools()).tools} == TOOLS
    me = {"sandbox_id": box.id}
    assert box.id in [b["id"] for b in await call("sandbox_list")]
    ran = await call("sandbox_exec", **me, command="echo out; echo err >&2; exit 3", workdir="/tmp", timeout_seconds=9)
    assert (ran["stdout"], ran["stderr"], ran["exit_code"]) == ("out\n", "err\n", 3)
    assert (await call("sandbox_write_file", **me, path="f.txt", content="grüße"))["size"] == 7
    assert await call("sandbox_read_file", **me, path="f.txt") == "grüße"
    assert [f["name"] for f in await call("sandbox_list_files", **me)] == ["f.txt"]
    refused = await client.call_tool("sandbox_read_file", me | {"path": "none"})
    assert refused.is_error and "none" in refused.content[0].text
    with pytest.raises(MCPError) as no:
        await client.call_tool("no_such_tool", {})
    assert no.value.code == -32602

    uri = f"sandbox://{box.id}/workspace/f.txt"
    assert uri in [str(r.uri) for r in (await client.list_resources()).resources]
    (content,) = (await client.read_resource(uri)).contents
    assert content.text == "grüße"
    assert len((await client.list_resource_templates()).resource_templates) == 1


@pytest.mark.parametrize("version", [*HANDSHAKE, MODERN])
def test_python_client_speaks_every_version(server, box, monkeypatch, version):
    async def scene():
        async with connected(server, monkeypatch, version) as client:
            assert client.server_info.name == "agent-sandbox" and "sandbox_create" in client.instructions
            await story(client, box)

    asyncio.run(scene())


@pytest.mark.parametrize("version", ["2025-11-25", MODERN])
def test_python_client_sees_progress_and_cancels(server, box, monkeypatch, version):
    told = []

    async def progress(done, total, message):
        told.append((done, message))

    async def scene():
        async with connected(server, monkeypatch, version) as client:
            loop = "for i in 1 2 3; do echo step $i; sleep 0.4; done"
            await client.call_tool("sandbox_exec", {"sandbox_id": box.id, "command": loop}, progress_callback=progress)
            assert len(told) >= 2 and told[0][1] == "step 1" and told[0][0] < told[1][0]
            with anyio.move_on_after(0.5) as late:
                await client.call_tool("sandbox_exec", {"sandbox_id": box.id, "command": "exec sleep 999.5"})
            assert late.cancelled_caught
            gone = await anyio.to_thread.run_sync(lambda: wait_until(lambda: box.running("999.5") == 0))
            assert gone

            many = await asyncio.gather(*(
                client.call_tool("sandbox_exec", {"sandbox_id": box.id, "command": f"sleep 0.3; echo {i}"}) for i in range(8)
            ))  # fmt: skip
            assert [r.structured_content["stdout"] for r in many] == [f"{i}\n" for i in range(8)]

    asyncio.run(scene())


def test_users_of_the_published_mcp_server_see_what_they_know(server, box):
    """The same parameters, names of results and values as the MCP server of the sic-agent-sandbox package."""
    env = {"AGENT_SANDBOX_URL": server.url, "AGENT_SANDBOX_API_KEY": KEY, "PATH": os.environ["PATH"]} | FRONT.environment
    theirs = StdioServerParameters(command=sys.executable, args=["-m", mcp_server.__name__], env=env)
    me = {"sandbox_id": box.id}
    calls = [
        ("sandbox_write_file", me | {"path": "a/f", "content": "text"}),
        ("sandbox_exec", me | {"command": "echo out; echo err >&2; exit 3"}),
        ("sandbox_read_file", me | {"path": "a/f"}),
        ("sandbox_list_files", me | {"path": "a"}),
        ("sandbox_snapshot", me | {"name": "n"}),
        ("sandbox_list", {}),
    ]

    async def ask(which):
        async with Client(which) as client:
            tools = {t.name: list(t.input_schema["properties"]) for t in (await client.list_tools()).tools}
            return tools, [(await client.call_tool(*c)).structured_content for c in calls]

    def shape(value):
        if isinstance(value, dict):
            return {k: shape(v) for k, v in value.items() if k not in ("truncated", "omitted")}
        if isinstance(value, list):
            return [shape(v) for v in value]
        return type(value)

    (their_tools, old), (our_tools, new) = asyncio.run(ask(theirs)), asyncio.run(ask(parameters(server)))
    for made in (old[4], new[4]):
        assert server.api.ask("DELETE", f"/v1/snapshots/{made['id']}").status_code == 204
    assert our_tools == their_tools and shape(new) == shape(old)
    assert new[2]["result"] == old[2]["result"] == "text" and new[1]["stdout"] == old[1]["stdout"]


def test_no_message_of_ours_is_unknown_to_the_python_types(server, box, monkeypatch):
    """Each answer, checked strictly against the types of its version."""
    from mcp_kit import Mcp
    from mcp_types import methods

    for version in (*HANDSHAKE, MODERN):
        m = Mcp(server.url, version=version)
        try:
            box.put("f", b"x")
            asks = [
                ("tools/list", {}), ("tools/call", {"name": "sandbox_list"}), ("resources/list", {}), ("resources/templates/list", {}),
                ("tools/call", {"name": "sandbox_exec", "arguments": {"sandbox_id": box.id, "command": "true"}}),
                ("tools/call", {"name": "sandbox_exec", "arguments": {}}),
                ("resources/read", {"uri": f"sandbox://{box.id}/workspace/f"}),
            ]  # fmt: skip
            asks += [("server/discover", {})] if version == MODERN else [("ping", {})]
            for method, params in asks:
                result = m.call(method, **params)["result"]
                methods.validate_server_result(method, version, result)
        finally:
            m.close()
    assert mcp_types.LATEST_PROTOCOL_VERSION == MODERN, "a newer version is known: is it spoken here?"


# JavaScript.


@pytest.mark.parametrize("which", [*(f"sdk {v}" for v in HANDSHAKE), *(f"client {v}" for v in (*HANDSHAKE, MODERN))])
def test_javascript_clients_speak_every_version(server, which):
    command = [NODE, ROOT / "tests/node/mcp_story.mjs", PROGRAM, *which.split()]
    p = subprocess.run(command, env=environment(server.url), capture_output=True, text=True, timeout=60, check=False)
    words = dict(line.split() for line in p.stdout.splitlines())
    if "snapshot" in words:
        server.api.ask("DELETE", f"/v1/snapshots/{words['snapshot']}")
    assert p.returncode == 0 and words["ok"] == which.split()[1], p.stdout + p.stderr


def inspect(server, home, *arguments):
    """What the inspector prints for one call of it."""
    env = environment(server.url) | {"HOME": str(home)}
    settings = [f"{k}={env[k]}" for k in ("AGENT_SANDBOX_URL", "AGENT_SANDBOX_API_KEY", *FRONT.environment)]
    options = [w for s in settings for w in ("-e", s)]
    command = [NODE, PACKAGES / "@modelcontextprotocol/inspector/clients/launcher/build/index.js", "--cli", PROGRAM, *options, *arguments]
    p = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    return p.returncode, p.stdout, p.stderr


def test_inspector_lists_calls_and_reads(server, box, tmp_path):
    status, out, err = inspect(server, tmp_path, "--method", "tools/list", "--strict")
    assert status == 0 and {t["name"] for t in json.loads(out)["tools"]} == TOOLS and "Warning" not in err, err
    call = ("--method", "tools/call", "--tool-name")
    status, out, err = inspect(
        server, tmp_path, *call, "sandbox_write_file", "--tool-arg", f"sandbox_id={box.id}", "path=f.txt", "content=hello"
    )
    assert status == 0 and json.loads(out)["structuredContent"]["size"] == 5, err
    status, out, err = inspect(server, tmp_path, *call, "sandbox_exec", "--tool-arg", f"sandbox_id={box.id}", "command=cat f.txt; exit 3")
    done = json.loads(out)["structuredContent"]
    assert status == 0 and (done["stdout"], done["exit_code"]) == ("hello", 3), err
    status, out, err = inspect(server, tmp_path, "--method", "resources/read", "--uri", f"sandbox://{box.id}/workspace/f.txt")
    assert status == 0 and json.loads(out)["contents"][0]["text"] == "hello", err
    status, out, err = inspect(server, tmp_path, "--method", "resources/templates/list")
    assert status == 0 and json.loads(out)["resourceTemplates"], err
    status, out, err = inspect(server, tmp_path, *call, "sandbox_read_file", "--tool-arg", f"sandbox_id={box.id}", "path=none")
    assert status != 0 and "none" in out
