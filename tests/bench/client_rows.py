"""The measurements of what people and agents hold in their hands: the command, the MCP server, the SDKs."""

import json
import os
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

from client import BLOCK, percentile
from harness import BUILD, KEY, ROOT
from machine import descendants, kib
from rows import MS, both, mid
from watch import Growth, init_pid

HERE = Path(__file__).resolve().parent


def environment(b):
    """Of a client: no key file of whoever runs this, no proxy."""
    clean = {k: v for k, v in os.environ.items() if not k.upper().startswith(("AGENT_SANDBOX_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"))}
    return clean | {"AGENT_SANDBOX_URL": b.url, "AGENT_SANDBOX_API_KEY": KEY}


def whole_process(b, count, *command, **env):
    """Seconds from start to end of a program, by hyperfine."""
    out = b.work / "hyperfine.json"
    subprocess.run(
        ["hyperfine", "-N", "-w", "5", "-r", str(count), "--export-json", out, " ".join(map(str, command))],
        env=environment(b) | env, check=True, capture_output=True,
    )  # fmt: skip
    return json.loads(out.read_text())["results"][0]["times"]


def cli(b):
    """`exec true`: the whole process of the command, beside `docker exec` of the same in the same container."""
    box, ours, theirs = b.box(), [], []
    docker = ("docker", "exec", b.container(box), "true")
    for _ in range(4):
        ours += whole_process(b, b.n(50, 10), BUILD / "agent-sandbox", "exec", box.id, "true")
        theirs += whole_process(b, b.n(15, 5), *docker, DOCKER_HOST=b.engine.url)
    b.row("agent-sandbox exec ID true, process", f"{both(theirs)}, docker", both(ours), "p50 <= 15 ms", mid(ours) <= 0.015,
          docker_p50=mid(theirs), p50=mid(ours), p95=percentile(ours, 95))  # fmt: skip


class Tool:
    """An MCP server, spoken to line by line."""

    def __init__(self, b):
        self.p = subprocess.Popen([BUILD / "agent-sandbox-mcp"], env=environment(b), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        client = {"name": "bench", "version": "1"}
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.p.stdin.write(json.dumps(message).encode() + b"\n")
        self.p.stdin.flush()

    def ask(self, method, **params):
        self.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        answer = json.loads(self.p.stdout.readline())
        if answer.get("id") != 1 or answer.get("result", {}).get("isError"):
            raise RuntimeError(answer)

    def timed(self, line):
        began = time.perf_counter()
        self.p.stdin.write(line)
        self.p.stdin.flush()
        answer = self.p.stdout.readline()
        took = time.perf_counter() - began
        if b'"isError":false' not in answer.replace(b" ", b""):
            raise RuntimeError(answer)
        return took

    def close(self):
        self.p.stdin.close()
        self.p.wait(10)


def in_turn(rounds, count, *calls):
    """A list of times for each of the calls, a few of each in turn, so that all see the same neighbours."""
    out = [[] for _ in calls]
    for _ in range(rounds):
        for times, call in zip(out, calls, strict=True):
            times += [call() for _ in range(count)]
    return out


def mcp(b):
    """tools/call sandbox_exec, from the line that goes in to the line that comes out, beside the request that it makes."""
    box, http, tool = b.box(), b.http(), Tool(b)
    call = {"name": "sandbox_exec", "arguments": {"sandbox_id": box.id, "command": "true"}}
    line = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call}).encode() + b"\n"
    data = http.request("POST", box.path + "/exec", {"command": "true"})
    in_turn(1, 5, partial(http.timed, data), partial(tool.timed, line))
    limit, ours = in_turn(10, b.n(40, 5), partial(http.timed, data), partial(tool.timed, line))
    resident = kib(tool.p.pid, "VmRSS")
    tool.close()
    b.row("MCP tools/call sandbox_exec true", f"{both(limit)}, HTTP", both(ours), "p50 <= 5 ms", mid(ours) <= 0.005,
          limit_is=mid(limit), p50=mid(ours), p95=percentile(ours, 95))  # fmt: skip
    b.note(f"agent-sandbox-mcp has {resident / 1024:.1f} MiB resident")


def overhead(b, name, raw, sdk):
    extra = mid(sdk) - mid(raw)
    b.row(f"{name} SDK, exec true", f"{both(raw)}, raw", f"{both(sdk)} (+{extra * MS:.2f} ms)", "<= raw + 1.5 ms", extra <= 0.0015,
          limit_is=mid(raw), p50=mid(sdk), overhead=extra)  # fmt: skip


def python_sdk(b):
    """exec of the Python SDK, both kinds, beside the same request on a bare socket."""
    sys.path.insert(0, str(ROOT / "clients/python/src"))
    import asyncio

    from agent_sandbox_sdk import AsyncSandboxClient, SandboxClient

    box, http = b.box(), b.http()
    data = http.request("POST", box.path + "/exec", {"command": ["true"]})
    raw = partial(http.timed, data)
    with SandboxClient(b.url, KEY) as client:
        sandbox = client.get(box.id)

        def one():
            began = time.perf_counter()
            sandbox.exec(["true"])
            return time.perf_counter() - began

        in_turn(1, 5, raw, one)
        overhead(b, "Python", *in_turn(10, b.n(40, 5), raw, one))

    async def asynchronous():
        out = [[], []]
        async with AsyncSandboxClient(b.url, KEY) as client:
            sandbox = await client.get(box.id)
            for _ in range(10):
                out[0] += [raw() for _ in range(b.n(40, 5))]
                for _ in range(b.n(40, 5)):
                    began = time.perf_counter()
                    await sandbox.exec(["true"])
                    out[1].append(time.perf_counter() - began)
        return out

    overhead(b, "Python asyncio", *asyncio.run(asynchronous()))


def typescript_sdk(b):
    """The same in node: the SDK beside node:http with a kept connection."""
    command = [ROOT / "build/venv/bin/node", HERE / "sdk.mjs", b.box().id, "10", str(b.n(40, 5))]
    out = json.loads(subprocess.run(command, env=environment(b), check=True, capture_output=True, text=True).stdout)
    overhead(b, "TypeScript", out["raw"], out["sdk"])


class Peak(threading.Thread):
    """The most memory that a process and its children have at once (KiB), and what they had after a while."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.seen, self.done = pid, [], threading.Event()
        self.start()

    def run(self):
        while not self.done.wait(0.05):
            self.seen.append(sum(kib(p, "VmRSS") for p in [self.pid, *descendants(self.pid)]))

    def result(self):
        self.done.set()
        self.join()
        return max(self.seen, default=0)


def copy_rate(b, *arguments):
    """(bytes a second are for the caller) seconds of a cp, and the most memory it took in KiB."""
    began = time.perf_counter()
    p = subprocess.Popen([BUILD / "agent-sandbox", "cp", "-q", *arguments], env=environment(b), stdin=subprocess.DEVNULL)
    peak = Peak(p.pid)
    status = p.wait(900)
    took = time.perf_counter() - began
    if status:
        raise RuntimeError(f"cp {arguments}: {status}")
    return took, peak.result()


def copies(b):
    """agent-sandbox cp of a file of 1 GiB in both directions; nobody's memory grows with it."""
    size, box = b.n(1024, 64) * BLOCK, b.box()
    there, back = b.work / "big", b.work / "back"
    block = os.urandom(BLOCK)
    with open(there, "wb") as f:
        for _ in range(size // BLOCK):
            f.write(block)
    pids = [*b.server.tree(), init_pid(b.engine, b.container(box))]
    try:
        for what, source, target in (("in", there, f"{box.id}:big"), ("out", f"{box.id}:big", back)):
            with Growth(pids) as growth:
                took, peak = copy_rate(b, source, target)
            rate = size / took
            b.row(f"cp {what}, {size >> 20} MiB", "", f"{rate / 1e6:.0f} MB/s, {peak / 1024:.1f} MiB of memory", ">= 150 MB/s, flat",
                  rate >= 150e6 and peak < 32 * 1024, rate=rate, peak_kib=peak)  # fmt: skip
            b.flat(f"cp {what}", growth)
        if subprocess.run(["cmp", there, back]).returncode:
            raise RuntimeError("what came back is something else")
    finally:
        there.unlink(missing_ok=True)
        back.unlink(missing_ok=True)
        box.exec("rm -f big")


ROWS = {f.__name__: f for f in (cli, mcp, python_sdk, typescript_sdk, copies)}
