"""mcp_config.py FILE: does what an MCP client does with its configuration: reads it, starts each server that it names, and works with
it. Run in the reader's folder with the reader's environment."""

import asyncio
import json
import os
import sys
import tomllib
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def servers(name):
    """Name → {command, args, env} of a configuration, and which client's format it is."""
    text = Path(name).expanduser().read_text()
    if name.endswith(".toml"):
        return tomllib.loads(text)["mcp_servers"]
    data = json.loads(text)
    if Path(name).parts[-2:] == (".vscode", "mcp.json"):
        assert set(data) <= {"servers", "inputs"} and all(s["type"] == "stdio" for s in data["servers"].values()), data
        return data["servers"]
    assert set(data) == {"mcpServers"}, data
    return data["mcpServers"]


async def talk(server):
    """From the first word to a sandbox that is made, used and destroyed."""
    kept = ("HOME", "PATH", "USER", "LC_ALL", "XDG_CONFIG_HOME")  # what clients hand on
    env = {k: os.environ[k] for k in kept if k in os.environ} | server.get("env", {})
    command = StdioServerParameters(command=server["command"], args=server.get("args", []), env=env)
    async with stdio_client(command) as (reader, writer), ClientSession(reader, writer) as session:
        await session.initialize()
        tools = {t.name for t in (await session.list_tools()).tools}

        async def call(tool, **arguments):
            result = await session.call_tool(tool, arguments)
            said = "".join(c.text for c in result.content)
            assert not (getattr(result, "is_error", None) or getattr(result, "isError", None)), said
            return said

        made = json.loads(await call("sandbox_create"))["id"]
        said = await call("sandbox_exec", sandbox_id=made, command="python3 -c 'print(6 * 7)'")
        assert "42" in said, said
        await call("sandbox_destroy", sandbox_id=made)
    return len(tools)


def main():
    for name, server in servers(sys.argv[1]).items():
        print(f"{name}: {asyncio.run(talk(server))} tools")


main()
