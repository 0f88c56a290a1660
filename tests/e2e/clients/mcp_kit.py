"""The MCP server as a process of a test: lines in, lines out, and what was left on standard error."""

import contextlib
import itertools
import json
import os
import queue
import subprocess
import threading

from front import FRONT
from harness import BUILD, KEY
from machine import kib

PROGRAM = BUILD / "agent-sandbox-mcp"
SANITIZED = "san" in BUILD.name  # keeps what was freed: its memory says nothing
TOOLS = {
    "sandbox_create", "sandbox_list", "sandbox_exec", "sandbox_read_file", "sandbox_write_file", "sandbox_list_files", "sandbox_snapshot",
    "sandbox_rollback", "sandbox_fork", "sandbox_destroy",
}  # fmt: skip
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
ENVELOPE = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}


def environment(url, key=KEY, **more):
    env = {k: v for k, v in os.environ.items() if not k.lower().startswith(("agent_sandbox_", "http_proxy", "https_proxy", "all_proxy"))}
    env |= {"AGENT_SANDBOX_URL": url, "HOME": "/proc/none"} | ({"AGENT_SANDBOX_API_KEY": key} if key else {}) | FRONT.environment
    return env | {k: str(v) for k, v in more.items()}


class Mcp:
    """Speaks to one MCP server. version: of the handshake, MODERN (no handshake), or None (nothing is sent)."""

    def __init__(self, url, key=KEY, version="2025-06-18", **env):
        self.version = version
        self.process = subprocess.Popen(
            [PROGRAM], env=environment(url, key, **env), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.numbers, self.inbox, self.kept, self.errors = itertools.count(1), queue.Queue(), [], []
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._listen, daemon=True).start()
        self.hello = None
        if version in HANDSHAKE:
            client = {"name": "test", "version": "1"}
            self.hello = self.call("initialize", protocolVersion=version, capabilities={}, clientInfo=client)["result"]
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _read(self):
        for line in self.process.stdout:
            self.inbox.put(json.loads(line))
        self.inbox.put(None)

    def _listen(self):
        for line in self.process.stderr:
            self.errors.append(line.decode())

    def raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        self.raw(json.dumps(message).encode() + b"\n")

    def next(self, want=lambda m: True, seconds=30):
        """The next message that is wanted; others stay in .kept."""
        for i, m in enumerate(self.kept):
            if want(m):
                return self.kept.pop(i)
        while True:
            m = self.inbox.get(timeout=seconds)
            if m is None:
                raise EOFError("the MCP server has ended: " + "".join(self.errors))
            if want(m):
                return m
            self.kept.append(m)

    def nothing(self, seconds=0.3):
        """No message comes."""
        with contextlib.suppress(queue.Empty):
            raise AssertionError(self.inbox.get(timeout=seconds))

    def begin(self, method, meta=None, **params):
        n = next(self.numbers)
        meta = (ENVELOPE if self.version == MODERN else {}) | (meta or {})
        if meta:
            params["_meta"] = meta
        self.send({"jsonrpc": "2.0", "id": n, "method": method, "params": params})
        return n

    def answer(self, n, seconds=30):
        return self.next(lambda m: isinstance(m, dict) and m.get("id") == n and "method" not in m, seconds)

    def call(self, method, meta=None, **params):
        return self.answer(self.begin(method, meta, **params))

    def begin_tool(self, tool, meta=None, /, **arguments):
        return self.begin("tools/call", meta, name=tool, arguments=arguments)

    def tool(self, tool, /, **arguments):
        """The result of a tool that works: what is structured in it."""
        result = self.call("tools/call", name=tool, arguments=arguments)["result"]
        assert not result["isError"], result
        return result["structuredContent"]

    def refused(self, tool, /, **arguments):
        """The text of a tool that fails."""
        result = self.call("tools/call", name=tool, arguments=arguments)["result"]
        assert result["isError"] and "structuredContent" not in result, result
        return result["content"][0]["text"]

    def memory(self, what="VmHWM"):
        """Its memory, by default the most that it had, in KiB."""
        size = kib(self.process.pid, what)
        assert size, "it has ended"
        return size

    def end(self, seconds=30):
        """Closes its input; its exit status."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        return self.process.wait(seconds)

    def close(self):
        try:
            self.end()
        finally:
            self.process.kill()
            self.process.wait(30)
