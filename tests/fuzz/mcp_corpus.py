#!/usr/bin/env python3
"""Writes the seeds of the MCP server's fuzz targets into tests/fuzz/corpus/."""

import json
from pathlib import Path

HERE = Path(__file__).resolve().parent
ID = "sb_0123456789abcdef"
SNAP = "snap_0123456789abcdef"
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def line(method, params=None, number=1, **more):
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}} | more)


def hello(version):
    return line("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}, 0)


def call(tool, number=1, meta=None, **arguments):
    return line("tools/call", {"name": tool, "arguments": arguments} | ({"_meta": meta} if meta else {}), number)


def cancel(number):
    return json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})


CALLS = [
    call("sandbox_create", image="x:1", network=True, timeout_seconds=60.0, cpus=0.5, memory_mb=16),
    call("sandbox_create", image=None, cpus=-1),
    call("sandbox_list"),
    call("sandbox_exec", sandbox_id=ID, command="true", workdir="/", timeout_seconds=1.5),
    call("sandbox_exec", sandbox_id="../x", command=5, foo=1),
    call("sandbox_read_file", sandbox_id=ID, path="a b/ü\0"),
    call("sandbox_write_file", sandbox_id=ID, path="f", content="x\0y"),
    call("sandbox_list_files", sandbox_id=ID),
    call("sandbox_snapshot", sandbox_id=ID, name="n"),
    call("sandbox_rollback", sandbox_id=ID, snapshot_id=SNAP),
    call("sandbox_fork", snapshot_id=SNAP, timeout_seconds=5),
    call("sandbox_destroy", sandbox_id=ID),
]
OTHERS = [
    line("ping"), line("tools/list"), line("tools/list", {"cursor": "x"}), line("resources/list"), line("resources/templates/list"),
    line("resources/read", {"uri": f"sandbox://{ID}/workspace/%C3%BC"}), line("resources/read", {"uri": "http://x"}),
    line("server/discover"), line("no/such"), line("tools/call", {"name": "nope"}), line("tools/call", {"name": "sandbox_list", "arguments": []}),
]  # fmt: skip
LINES = {
    "handshake": [hello("2025-06-18"), json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}), *OTHERS],
    "old": [hello("2024-11-05"), *OTHERS],
    "newest_known": [hello("2099-01-01"), *OTHERS],
    "early": OTHERS,
    "calls": [hello("2025-11-25"), *CALLS],
    "modern": [line("server/discover", {"_meta": META}), line("tools/list", {"_meta": META}), call("sandbox_list", 2, META)],
    "modern_wrong": [
        line("tools/list", {"_meta": META | {"io.modelcontextprotocol/protocolVersion": "x"}}),
        line("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": 5}}), line("ping", {"_meta": META}),
    ],
    "cancel": [
        hello("2025-06-18"), call("sandbox_exec", 5, {"progressToken": "t"}, sandbox_id=ID, command="x"), call("sandbox_create", "a"),
        cancel(5), cancel("a"), cancel(7), call("sandbox_list", "a"), call("sandbox_list", "a"),
    ],
    "batch": [hello("2025-03-26"), "[" + ",".join([call("sandbox_list", 1), line("ping", None, 2), cancel(1), "5"]) + "]", "[]"],
    "batch_refused": [hello("2025-06-18"), "[" + line("ping") + "]"],
    "not_json": ["{", "\x00", '"x"', "[[[[", '{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', '{"id":1}', '{"jsonrpc":"2.0","id":{}}'],
    "answers": [json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}}), json.dumps({"jsonrpc": "2.0", "id": 1, "error": {}})],
    "many": [hello("2025-06-18"), *(call("sandbox_list", n) for n in range(70))],
}  # fmt: skip
CUT = {
    "empty": b"",
    "short": b"\x01\x00hello\n",
    "lines": b"\x10\x20" + b"".join(b"line %d\n" % i for i in range(500)),
    "wide": b"\x03\x00" + "€😀ü".encode() * 300,
    "binary": b"\xff\xff" + bytes(range(256)) * 8,
    "noise": b"\x00\x80" + b"\xff" * 3000,
    "uri": b"sandbox://sb_0123456789abcdef/workspace/a%20b.txt",
    "uri_wrong": b"sandbox://sb_1/%zz",
}


def main():
    for name, seeds in (("mcp_lines", {k: "\n".join(v).encode() + b"\n" for k, v in LINES.items()}), ("mcp_cut", CUT)):
        folder = HERE / "corpus" / name
        folder.mkdir(parents=True, exist_ok=True)
        for seed, data in seeds.items():
            (folder / seed).write_bytes(data)


if __name__ == "__main__":
    main()
