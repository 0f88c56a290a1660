"""The published Python client and its MCP server, unchanged, over their whole surface."""

import asyncio
import json
import os
import sys

import httpx
import pytest
from agent_sandbox.client import SandboxAPIError, SandboxClient
from front import FRONT
from harness import KEY
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

pytestmark = pytest.mark.core


@pytest.fixture
def client(server):
    with SandboxClient(server.url, api_key=KEY) as c:
        yield c


def test_client_creates_lists_renews_and_destroys(client):
    assert client.health()["status"] == "ok"
    with client.create(cpus=0.5, memory_mb=96, pids_limit=50, timeout_seconds=300, env={"A": "b"}, read_only_rootfs=False) as s:
        assert client.get(s.id).data == s.data and s.id in [x.id for x in client.list_sandboxes()]
        assert s.refresh().status == "running"
        before = s.expires_at
        assert s.set_timeout(600).expires_at > before
        assert s.exec("echo $A").stdout == "b\n"
    with pytest.raises(SandboxAPIError) as gone:
        client.get(s.id)
    assert (gone.value.status_code, gone.value.code, gone.value.message) == (404, "not_found", f"sandbox {s.id} not found")
    with client.create() as s:
        s.destroy()


def test_client_runs_and_streams_commands(client):
    with client.create() as s:
        r = s.exec(["python3", "-c", "print(6 * 7)"])
        assert r.ok and r.stdout == "42\n"
        r = s.exec("pwd; echo $X >&2; exit 3", env={"X": "y"}, workdir="/tmp", timeout_seconds=5.5)
        assert (r.stdout, r.stderr, r.exit_code, r.ok) == ("/tmp\n", "y\n", 3, False)
        assert s.exec("sleep 9", timeout_seconds=0.5).timed_out
        events = list(s.exec_stream("echo a; echo b >&2; exit 2", env={"X": "y"}, workdir="/", timeout_seconds=9))
        assert sorted((e.type, e.data) for e in events[:-1]) == [("stderr", "b\n"), ("stdout", "a\n")]
        assert (events[-1].type, events[-1].exit_code, events[-1].timed_out) == ("exit", 2, False)
        with pytest.raises(SandboxAPIError) as bad:
            s.exec("")
        assert (bad.value.status_code, bad.value.code) == (400, "invalid_request")


def test_client_moves_files(client):
    with client.create() as s:
        assert s.write_file("d/f.txt", "grüße", mode=0o600).size == 7
        assert s.read_text("d/f.txt") == "grüße" and s.read_file("/workspace/d/f.txt") == "grüße".encode()
        assert [(f.name, f.type) for f in s.list_files()] == [("d", "directory")]
        assert [f.path for f in s.list_files("d")] == ["/workspace/d/f.txt"]
        assert s.exec("stat -c %a d/f.txt").stdout == "600\n"
        with pytest.raises(SandboxAPIError) as none:
            s.read_file("none")
        assert none.value.status_code == 404


def test_client_snapshots_rolls_back_and_forks(client):
    with client.create(env={"A": "b"}) as s:
        s.write_file("f", "one")
        first = s.snapshot("first")
        unnamed = s.snapshot()
        assert (first.name, unnamed.name, first.sandbox_id) == ("first", None, s.id)
        assert [x.id for x in client.list_snapshots(s.id)] == [first.id, unnamed.id]
        assert first.id in [x.id for x in client.list_snapshots()] and client.get_snapshot(first.id) == first
        s.write_file("f", "two")
        assert s.rollback(first).read_text("f") == "one" and s.rollback(unnamed.id).id == s.id
        with client.fork(first, timeout_seconds=300, network=False, cpus=0.5, memory_mb=96) as f:
            assert f.read_text("f") == "one" and f.data["source_snapshot_id"] == first.id and f.exec("echo $A").stdout == "b\n"
        client.delete_snapshot(unnamed.id)
        client.delete_snapshot(first.id)
        with pytest.raises(SandboxAPIError) as gone:
            client.get_snapshot(first.id)
        assert gone.value.status_code == 404


def test_client_brings_its_own_http_client(server):
    with httpx.Client(base_url=server.url) as h, SandboxClient(api_key=KEY, http_client=h) as c:
        assert isinstance(c.list_sandboxes(), list)
    with SandboxClient(server.url, api_key="wrong-key-0123456789") as c, pytest.raises(SandboxAPIError) as no:
        c.list_sandboxes()
    assert (no.value.status_code, no.value.code) == (401, "unauthorized")


TOOLS = {
    "sandbox_create", "sandbox_list", "sandbox_exec", "sandbox_read_file", "sandbox_write_file", "sandbox_list_files", "sandbox_snapshot",
    "sandbox_rollback", "sandbox_fork", "sandbox_destroy",
}  # fmt: skip


def test_mcp_server_of_the_client_works_with_all_ten_tools(server):
    async def scene():
        env = {"AGENT_SANDBOX_URL": server.url, "AGENT_SANDBOX_API_KEY": KEY, "PATH": os.environ["PATH"]} | FRONT.environment
        command = StdioServerParameters(command=sys.executable, args=["-m", "agent_sandbox.mcp_server"], env=env)
        async with stdio_client(command) as (reader, writer), ClientSession(reader, writer) as session:
            await session.initialize()
            assert {t.name for t in (await session.list_tools()).tools} == TOOLS

            async def call(tool, **arguments):
                result = await session.call_tool(tool, arguments)
                said = "".join(c.text for c in result.content)
                assert not (getattr(result, "is_error", None) or getattr(result, "isError", None)), (tool, said)
                try:
                    return json.loads(said)
                except ValueError:
                    return said

            box = await call("sandbox_create", timeout_seconds=300, cpus=0.5, memory_mb=96)
            me = {"sandbox_id": box["id"]}
            assert box["id"] in json.dumps(await call("sandbox_list"))
            assert (await call("sandbox_exec", **me, command="echo hi", timeout_seconds=9, workdir="/tmp"))["stdout"] == "hi\n"
            assert (await call("sandbox_write_file", **me, path="a/f", content="text"))["size"] == 4
            assert "text" in str(await call("sandbox_read_file", **me, path="a/f"))
            assert "/workspace/a/f" in json.dumps(await call("sandbox_list_files", **me, path="a"))
            snap = await call("sandbox_snapshot", **me, name="n")
            await call("sandbox_exec", **me, command="rm -r a")
            assert (await call("sandbox_rollback", **me, snapshot_id=snap["id"]))["id"] == box["id"]
            fork = await call("sandbox_fork", snapshot_id=snap["id"], timeout_seconds=300)
            assert "text" in str(await call("sandbox_read_file", sandbox_id=fork["id"], path="a/f"))
            for each in (fork["id"], box["id"]):
                assert each in str(await call("sandbox_destroy", sandbox_id=each))
            refused = await session.call_tool("sandbox_exec", {**me, "command": "true"})
            assert getattr(refused, "is_error", None) or getattr(refused, "isError", None), refused
            return snap["id"]

    snap = asyncio.run(scene())
    assert server.api.ask("DELETE", f"/v1/snapshots/{snap}").status_code == 204
