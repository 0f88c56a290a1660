"""What cannot be done twice is sent once, also where a kept connection ends without an answer."""

import contextlib
import json
import socket
import subprocess
import threading

import agent_sandbox_sdk as sdk
import pytest
from cli_kit import Cli
from drivers import clean_env
from harness import ROOT
from mcp_kit import Mcp
from trap import SANDBOX, SANDBOX_ID, SNAPSHOT_ID


class Keeper:
    """Keeps connections for what is only read; closes them, without an answer, once something else was read from them."""

    LISTS = json.dumps(SANDBOX | {"sandboxes": [{"id": SANDBOX_ID}], "snapshots": [{"id": SNAPSHOT_ID}]}).encode()

    def __init__(self):
        self.seen = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self.listener.accept()[0],), daemon=True).start()

    def _serve(self, s):
        with contextlib.suppress(OSError), s, s.makefile("rb") as f:
            while line := f.readline().decode():
                length = 0
                while h := f.readline().strip().lower():
                    if h.startswith(b"content-length:"):
                        length = int(h.split(b":")[1])
                f.read(length)
                self.seen.append(" ".join(line.split()[:2]))
                if not line.startswith("GET "):
                    s.shutdown(socket.SHUT_RDWR)
                    return
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(self.LISTS)}\r\n\r\n"
                s.sendall(head.encode() + self.LISTS)

    def sent(self, method):
        return [s for s in self.seen if s.startswith(method + " ")]

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@pytest.fixture
def keeper():
    k = Keeper()
    yield k
    k.close()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("sandbox_exec", {"sandbox_id": SANDBOX_ID, "command": "x"}),
        ("sandbox_create", {}),
        ("sandbox_snapshot", {"sandbox_id": SANDBOX_ID}),
        ("sandbox_rollback", {"sandbox_id": SANDBOX_ID, "snapshot_id": SNAPSHOT_ID}),
        ("sandbox_fork", {"snapshot_id": SNAPSHOT_ID}),
    ],
)
def test_tool_that_loses_a_kept_connection_is_not_done_twice(keeper, tool, arguments):
    mcp = Mcp(keeper.url)
    try:
        mcp.tool("sandbox_list")
        assert "what was done there is not known" in mcp.refused(tool, **arguments)
        assert len(keeper.sent("POST")) == 1, keeper.seen
    finally:
        mcp.close()


@pytest.mark.parametrize(
    "words", [("snapshot", SANDBOX_ID[:6]), ("rollback", SANDBOX_ID[:6], SNAPSHOT_ID), ("fork", SNAPSHOT_ID[:8])], ids=lambda w: w[0]
)
def test_verb_that_loses_a_kept_connection_is_not_done_twice(keeper, words):
    assert "what was done there is not known" in Cli(keeper.url).fails(5, *words)
    assert len(keeper.sent("GET")) == 1 and len(keeper.sent("POST")) == 1, keeper.seen


SDK_CALLS = ["exec", "exec_stream", "snapshot", "rollback"]


def test_calls_of_the_python_sdk_are_not_done_twice(keeper):
    with sdk.SandboxClient(keeper.url, "k") as c:
        sandbox = c.get(SANDBOX_ID)
        for name in SDK_CALLS:
            arguments = {"exec": ["x"], "exec_stream": ["x"], "rollback": [SNAPSHOT_ID]}.get(name, [])
            with pytest.raises(sdk.SandboxConnectionLostError):
                list(getattr(sandbox.refresh(), name)(*arguments))
    assert len(keeper.sent("POST")) == len(SDK_CALLS), keeper.seen


SCRIPT = """
const [where, dist, id, snapshot] = globalThis.Deno?.args ?? process.argv.slice(2);
const { SandboxClient } = await import(dist);
const sandbox = await new SandboxClient({ baseUrl: where, apiKey: "k" }).get(id);
const stream = async (stdin) => { for await (const _ of sandbox.execStream("x", { stdin })); };
const inputs = [undefined, "x".repeat(100000), new Uint8Array(5), new Blob(["x"]), () => [new Uint8Array(5)]];
const streams = inputs.map((stdin) => () => stream(stdin));
for (const call of [() => sandbox.exec("x"), ...streams, () => sandbox.snapshot(), () => sandbox.rollback(snapshot)]) {
  await sandbox.refresh();
  await call().then(() => console.log("done"), (error) => console.log(error.name));
}
"""
MODULES = ROOT / "build/node/node_modules"
RUNTIMES = {
    "node": [ROOT / "build/venv/bin/node"],
    "bun": [MODULES / "@oven/bun-linux-x64-baseline/bin/bun"],
    "deno": [MODULES / "@deno/linux-x64-glibc/deno", "run", "--no-lock", "--allow-all"],
}


def typescript(runtime, folder, script, *words, **env):
    if not RUNTIMES[runtime][0].exists():
        pytest.skip(f"{runtime} is not there")
    subprocess.run(["make", "-s", "--no-print-directory", "clients-typescript"], cwd=ROOT, check=True, stdin=subprocess.DEVNULL)
    (folder / "once.mjs").write_text(script)
    command = [*RUNTIMES[runtime], folder / "once.mjs", words[0], ROOT / "build/clients/typescript/dist/index.js", *words[1:]]
    return subprocess.run(
        command, env=clean_env(HOME=str(folder), DENO_NO_UPDATE_CHECK="1", **env), capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("runtime", list(RUNTIMES))
def test_calls_of_the_typescript_sdk_are_not_done_twice(keeper, tmp_path, runtime):
    p = typescript(runtime, tmp_path, SCRIPT, keeper.url, SANDBOX_ID, SNAPSHOT_ID)
    assert p.stdout.split() == ["SandboxConnectionLostError"] * 8, p.stdout + p.stderr
    assert len(keeper.sent("POST")) == 8, keeper.seen


LOCAL = """
const [where, dist, id] = globalThis.Deno?.args ?? process.argv.slice(2);
const { SandboxClient } = await import(dist);
console.log((await new SandboxClient({ baseUrl: where, apiKey: "k" }).get(id)).id, process.env.NO_PROXY);
"""


@pytest.mark.parametrize("others", [{}, {"NO_PROXY": "box.example", "no_proxy": "box.example"}], ids=["", "with exceptions"])
@pytest.mark.parametrize("runtime", list(RUNTIMES))
def test_key_for_a_server_on_this_machine_goes_to_no_proxy(keeper, tmp_path, runtime, others):
    proxy = Keeper()
    try:
        env = dict.fromkeys(("http_proxy", "HTTP_PROXY", "ALL_PROXY"), proxy.url) | {"NODE_USE_ENV_PROXY": "1"} | others
        p = typescript(runtime, tmp_path, LOCAL, keeper.url, SANDBOX_ID, **env)
        assert p.stdout.split() == [SANDBOX_ID, others.get("NO_PROXY", "undefined")], p.stdout + p.stderr
        assert keeper.sent("GET") and not proxy.seen, proxy.seen
    finally:
        proxy.close()
