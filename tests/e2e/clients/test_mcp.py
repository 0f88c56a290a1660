"""agent-sandbox-mcp, line by line, against a real server: what is promised to every MCP client."""

import base64
import json
import os
import re
import subprocess
import time

import jsonschema
import pytest
from harness import KEY, ROOT
from machine import wait_until
from mcp_kit import ENVELOPE, HANDSHAKE, MODERN, PROGRAM, SANITIZED, TOOLS, Mcp, environment

SUMMARY = {"id", "status", "image", "network", "expires_at", "source_snapshot_id"}


@pytest.fixture
def mcp(server):
    made = []

    def start(version="2025-06-18", **env):
        made.append(Mcp(server.url, version=version, **env))
        return made[-1]

    yield start
    for m in made:
        m.close()


@pytest.fixture
def m(mcp):
    return mcp()


def test_model_is_told_what_is_reachable_and_that_the_proxy_variables_stay(m):
    about = {tool["name"]: tool for tool in m.call("tools/list")["result"]["tools"]}["sandbox_create"]
    assert "Without network=true nothing outside of the sandbox can be reached" in m.hello["instructions"]
    assert "HTTPS_PROXY" in m.hello["instructions"] and "egress refused" in m.hello["instructions"]
    assert "proxy that is set already" in about["inputSchema"]["properties"]["network"]["description"]


# Versions.


@pytest.mark.parametrize("version", HANDSHAKE)
def test_each_handshake_version_is_spoken_as_asked(mcp, version):
    m = mcp(version)
    assert m.hello["protocolVersion"] == version and m.hello["serverInfo"]["name"] == "agent-sandbox"
    assert set(m.hello["capabilities"]) == {"tools", "resources"} and "sandbox_create" in m.hello["instructions"]
    assert m.call("ping")["result"] == {}
    tool = m.call("tools/list")["result"]["tools"][0]
    assert ("annotations" in tool, "outputSchema" in tool, "title" in tool) == (
        version >= "2025-03-26", version >= "2025-06-18", version >= "2025-06-18",
    )  # fmt: skip
    result = m.call("tools/call", name="sandbox_list", arguments={})["result"]
    assert ("structuredContent" in result) == (version >= "2025-06-18")
    assert "resultType" not in result and "_meta" not in result


@pytest.mark.parametrize("asked", ["2026-07-28", "2099-01-01", "1.0", ""])
def test_unknown_handshake_version_is_answered_with_the_newest(mcp, asked):
    m = mcp(None)
    assert m.call("initialize", protocolVersion=asked, capabilities={})["result"]["protocolVersion"] == "2025-11-25"


def test_newest_version_needs_no_handshake(mcp):
    m = mcp(MODERN)
    found = m.call("server/discover")["result"]
    assert set(found["supportedVersions"]) == {*HANDSHAKE, MODERN} and found["instructions"] and found["capabilities"]["tools"] is not None
    assert (found["resultType"], found["cacheScope"]) == ("complete", "public") and found["ttlMs"] > 0
    tools = m.call("tools/list")["result"]
    assert {t["name"] for t in tools["tools"]} == TOOLS and tools["ttlMs"] > 0 and tools["resultType"] == "complete"
    result = m.call("tools/call", name="sandbox_list", arguments={})["result"]
    assert result["resultType"] == "complete" and result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "agent-sandbox"
    assert m.call("resources/list")["result"]["ttlMs"] == 0
    assert m.call("ping")["error"]["code"] == -32601


def test_request_with_a_wrong_envelope_is_refused(mcp):
    m = mcp(None)
    bad = m.call("tools/list", ENVELOPE | {"io.modelcontextprotocol/protocolVersion": "2031-01-01"})["error"]
    assert bad["code"] == -32022 and bad["data"]["requested"] == "2031-01-01" and MODERN in bad["data"]["supported"]
    assert m.call("tools/list", {"io.modelcontextprotocol/protocolVersion": MODERN})["error"]["code"] == -32602
    assert m.call("tools/list", ENVELOPE | {"io.modelcontextprotocol/protocolVersion": 7})["error"]["code"] == -32602


def test_handshake_comes_first(mcp):
    m = mcp(None)
    assert m.call("ping")["result"] == {}
    early = m.call("tools/list")["error"]
    assert early["code"] == -32600 and "initialize" in early["message"]
    assert m.call("server/discover")["error"]["code"] == -32601
    assert m.call("initialize", protocolVersion=5)["error"]["code"] == -32602


# Tools as a model sees them.


def test_ten_tools_with_the_promised_parameters(m):
    tools = {t["name"]: t for t in m.call("tools/list")["result"]["tools"]}
    parameters = {name: list(t["inputSchema"]["properties"]) for name, t in tools.items()}
    assert parameters == {
        "sandbox_create": ["image", "network", "timeout_seconds", "cpus", "memory_mb"],
        "sandbox_list": [],
        "sandbox_exec": ["sandbox_id", "command", "workdir", "timeout_seconds"],
        "sandbox_read_file": ["sandbox_id", "path"],
        "sandbox_write_file": ["sandbox_id", "path", "content"],
        "sandbox_list_files": ["sandbox_id", "path"],
        "sandbox_snapshot": ["sandbox_id", "name"],
        "sandbox_rollback": ["sandbox_id", "snapshot_id"],
        "sandbox_fork": ["snapshot_id", "timeout_seconds"],
        "sandbox_destroy": ["sandbox_id"],
    }
    assert tools["sandbox_list_files"]["inputSchema"]["properties"]["path"]["default"] == "/workspace"


def test_schemas_are_valid_and_everything_is_described(m):
    for tool in m.call("tools/list")["result"]["tools"]:
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool["name"]) and len(tool["description"]) > 40
        for schema in (tool["inputSchema"], tool["outputSchema"]):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
        assert tool["inputSchema"]["additionalProperties"] is False
        assert all(len(p["description"]) > 10 for p in tool["inputSchema"]["properties"].values())
        assert set(tool["inputSchema"].get("required", [])) <= set(tool["inputSchema"]["properties"])


def test_annotations_tell_what_reads_and_what_destroys(m):
    hints = {t["name"]: t["annotations"] for t in m.call("tools/list")["result"]["tools"]}
    assert {n for n, h in hints.items() if h["readOnlyHint"]} == {"sandbox_list", "sandbox_read_file", "sandbox_list_files"}
    assert {n for n, h in hints.items() if h["destructiveHint"]} == {
        "sandbox_exec", "sandbox_write_file", "sandbox_rollback", "sandbox_destroy",
    }  # fmt: skip
    assert hints["sandbox_write_file"]["idempotentHint"] and not hints["sandbox_exec"]["idempotentHint"]


def test_whole_story_with_answers_that_fit_their_schemas(m, api):
    schemas = {t["name"]: t["outputSchema"] for t in m.call("tools/list")["result"]["tools"]}

    def tool(called, /, **arguments):
        result = m.call("tools/call", name=called, arguments=arguments)["result"]
        assert not result["isError"], result
        jsonschema.validate(result["structuredContent"], schemas[called])
        (block,) = result["content"]
        if called not in ("sandbox_read_file", "sandbox_destroy"):
            said = json.loads(block["text"])
            assert said == result["structuredContent"].get("result", result["structuredContent"])
        return result["structuredContent"]

    box = tool("sandbox_create", timeout_seconds=300.0, cpus=0.5, memory_mb=96, network=False, image=None)
    api.sandboxes.append(box["id"])
    assert set(box) == SUMMARY and box["status"] == "running" and box["network"] is False and box["source_snapshot_id"] is None
    me = {"sandbox_id": box["id"]}
    assert box["id"] in [b["id"] for b in tool("sandbox_list")["result"]]
    ran = tool("sandbox_exec", **me, command="echo hi; echo oh >&2; pwd; exit 3", workdir="/tmp", timeout_seconds=9)
    assert (ran["stdout"], ran["stderr"], ran["exit_code"], ran["timed_out"], ran["truncated"]) == ("hi\n/tmp\n", "oh\n", 3, False, False)
    assert tool("sandbox_write_file", **me, path="a b/ü.txt", content="grüße\n\0")["size"] == 9
    assert tool("sandbox_read_file", **me, path="/workspace/a b/ü.txt") == {"result": "grüße\n\0", "truncated": False}
    assert [f["path"] for f in tool("sandbox_list_files", **me)["result"]] == ["/workspace/a b"]
    assert [f["name"] for f in tool("sandbox_list_files", **me, path="a b")["result"]] == ["ü.txt"]
    snap = tool("sandbox_snapshot", **me, name="before")
    api.snapshots.append(snap["id"])
    assert snap["sandbox_id"] == box["id"] and snap["name"] == "before"
    tool("sandbox_exec", **me, command="rm -r 'a b'")
    back = tool("sandbox_rollback", **me, snapshot_id=snap["id"])
    assert set(back) == SUMMARY and (back["id"], back["source_snapshot_id"]) == (box["id"], snap["id"])
    fork = tool("sandbox_fork", snapshot_id=snap["id"], timeout_seconds=200)
    api.sandboxes.append(fork["id"])
    assert set(fork) == SUMMARY and fork["source_snapshot_id"] == snap["id"]
    assert tool("sandbox_read_file", sandbox_id=fork["id"], path="a b/ü.txt")["result"] == "grüße\n\0"
    for each in (fork["id"], box["id"]):
        assert tool("sandbox_destroy", sandbox_id=each)["result"] == f"destroyed {each}"


def test_failing_tool_has_the_servers_own_words(m, box, api):
    unknown = "sb_0123456789abcdef"
    said = api.ask("GET", f"/v1/sandboxes/{unknown}").json()["error"]["message"]
    assert m.refused("sandbox_exec", sandbox_id=unknown, command="true") == said
    said = box.read("none").json()["error"]["message"]
    assert m.refused("sandbox_read_file", sandbox_id=box.id, path="none") == said
    said = box.post_exec("true", timeout_seconds=1e6).json()["error"]["message"]
    assert m.refused("sandbox_exec", sandbox_id=box.id, command="true", timeout_seconds=1e6) == said
    said = api.post_sandbox({"image": "no/such:image"}).json()["error"]["message"]
    assert m.refused("sandbox_create", image="no/such:image") == said


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("sandbox_exec", {"command": "true"}, "sandbox_id: is missing"),
        ("sandbox_exec", {"sandbox_id": "sb_0123456789abcdef", "command": ["ls"]}, "command: must be a string, not an array"),
        ("sandbox_exec", {"sandbox_id": "../snapshots", "command": "true"}, 'sandbox_id: "../snapshots" is not an id'),
        ("sandbox_exec", {"sandbox_id": "sb_1", "command": "true", "timeout_seconds": "9"}, "timeout_seconds: must be a number, not a string"),
        ("sandbox_exec", {"sandbox_id": "sb_1", "command": "true", "timeout_seconds": 0}, "timeout_seconds: must be above 0"),
        ("sandbox_exec", {"sandbox_id": "sb_1", "command": "true", "cwd": "/"}, "it takes sandbox_id, command, workdir, timeout_seconds"),
        ("sandbox_read_file", {"sandbox_id": "sb_1", "path": "a\0b"}, "path: must not contain a NUL character"),
        ("sandbox_read_file", {"sandbox_id": "sb_1", "path": ""}, "path: must not be empty"),
        ("sandbox_create", {"timeout_seconds": 1.5}, "timeout_seconds: must be a whole number of at least 1"),
        ("sandbox_create", {"memory_mb": 4}, "memory_mb: must be a whole number of at least 16"),
        ("sandbox_create", {"memory_mb": 1e300}, "memory_mb: must be a whole number"),
        ("sandbox_create", {"network": "yes"}, "network: must be true or false"),
        ("sandbox_list", {"all": True}, "sandbox_list has no such argument; it takes none"),
    ],
)  # fmt: skip
def test_wrong_argument_is_a_failure_that_the_model_can_mend(m, tool, arguments, words):
    assert words in m.refused(tool, **arguments)


# JSON-RPC.


@pytest.mark.parametrize(
    ("line", "code", "has_id"),
    [
        (b"{", -32700, False),
        (b"\xff\xfe", -32700, False),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700, False),
        (b"[" * 100000, -32700, False),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":100000000000000000000}}', -32700, True),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":1e999}}', -32700, True),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":1,"a":2}}', -32700, True),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":' + b"[" * 5000 + b"]" * 5000 + b"}}", -32700, True),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"\xff"}}', -32700, True),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping"', -32700, False),
        (b'"ping"', -32700, False),
        (b"[]", -32600, False),
        (b'[{"jsonrpc":"2.0","id":7,"method":"ping"}]', -32600, False),
        (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', -32600, True),
        (b'{"id":7,"method":"ping"}', -32600, True),
        (b'{"jsonrpc":"2.0","id":7}', -32600, True),
        (b'{"jsonrpc":"2.0","id":7,"method":5}', -32600, True),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, False),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, False),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, False),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}', -32602, True),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"_meta":5}}', -32602, True),
        (b'{"jsonrpc":"2.0","id":7,"method":"no/such"}', -32601, True),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call"}', -32602, True),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"nope"}}', -32602, True),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"sandbox_list","arguments":[]}}', -32602, True),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":"x"}}', -32602, True),
        (b'{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{}}', -32602, True),
    ],
)  # fmt: skip
def test_message_that_is_wrong_gets_its_json_rpc_error(m, line, code, has_id):
    m.raw(line + b"\n")
    answer = m.next()
    assert answer["error"]["code"] == code and answer["error"]["message"] and answer["id"] == (7 if has_id else None)
    assert m.call("ping")["result"] == {}


def test_half_a_character_in_a_message_is_replaced_and_the_message_answered(m):
    m.raw(b'{"jsonrpc":"2.0","id":"\\ud83dx","method":"ping","params":{"a":"\\ud83d\\ude00"}}\n')
    assert m.next() == {"jsonrpc": "2.0", "id": "\ufffdx", "result": {}}


def test_message_over_the_limit_is_refused_and_the_next_is_served(m):
    before = m.memory()
    m.raw(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * (40 << 20) + b"\n")
    assert "16 MiB" in m.next()["error"]["message"]
    assert m.call("ping")["result"] == {} and (SANITIZED or m.memory() - before < 64 << 10)


def test_what_needs_no_answer_gets_none(m):
    m.raw(b"\n \r\n\t\n")
    m.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
    m.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}})
    m.send({"jsonrpc": "2.0", "method": "notifications/cancelled"})
    m.send({"jsonrpc": "2.0", "id": 9, "result": {}})
    m.send({"jsonrpc": "2.0", "id": 9, "error": {"code": 1, "message": "x"}})
    m.nothing()


def test_lines_may_come_in_pieces_and_many_at_once(m):
    line = json.dumps({"jsonrpc": "2.0", "id": "ä", "method": "ping"}, ensure_ascii=False).encode() + b"\r\n"
    for i in range(len(line)):
        m.raw(line[i : i + 1])
    assert m.next()["id"] == "ä"
    m.raw(b"".join(json.dumps({"jsonrpc": "2.0", "id": i, "method": "ping"}).encode() + b"\n" for i in range(500)))
    assert [m.next()["id"] for _ in range(500)] == list(range(500))


def test_batch_of_2025_03_26_is_answered_as_one(mcp):
    m = mcp("2025-03-26")
    m.send([
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "sandbox_list"}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "no"},
        5,
    ])  # fmt: skip
    answer = m.next()
    assert {a["id"]: a.get("error", {}).get("code") for a in answer} == {1: None, 2: -32601, None: -32600}
    m.send([{"jsonrpc": "2.0", "method": "notifications/initialized"}])
    m.nothing()


def test_id_that_is_in_use_is_refused(m, box):
    n = m.begin_tool("sandbox_exec", sandbox_id=box.id, command="sleep 0.5")
    m.send({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": "sandbox_list"}})
    first, second = m.answer(n), m.answer(n)
    assert first["error"]["code"] == -32600 and second["result"]["structuredContent"]["exit_code"] == 0


# Output.


def test_long_output_is_cut_to_head_and_tail_with_a_note(m, box):
    r = m.tool("sandbox_exec", sandbox_id=box.id, command="seq 1 1000000; echo oh >&2")
    assert len(r["stdout"]) <= 32768 and r["truncated"] and r["stderr"] == "oh\n" and r["exit_code"] == 0
    head, note, tail = re.fullmatch(r"(.*\n)\[\.\.\. (\d+) of 6888896 bytes left out here;[^\n]*\]\n(.*)", r["stdout"], re.S).groups()
    assert head.startswith("1\n2\n3\n") and tail.endswith("\n999999\n1000000\n") and int(note) == 6888896 - len(head) - len(tail)
    assert all(re.fullmatch(r"\d+", line) for line in (head + tail).split())


def test_both_streams_share_the_room(mcp, box):
    m = mcp(AGENT_SANDBOX_MCP_MAX_OUTPUT=4096)
    r = m.tool("sandbox_exec", sandbox_id=box.id, command="seq 1 9999; seq 1 9999 >&2")
    assert r["truncated"] and len(r["stdout"]) <= 2048 and len(r["stderr"]) <= 2048
    r = m.tool("sandbox_exec", sandbox_id=box.id, command="seq 1 9999; echo e >&2")
    assert r["truncated"] and 3000 < len(r["stdout"]) <= 4096
    r = m.tool("sandbox_exec", sandbox_id=box.id, command="seq 1 500")
    assert not r["truncated"] and r["stdout"] == "".join(f"{i}\n" for i in range(1, 501))


def test_characters_are_never_cut(mcp, box):
    m = mcp(AGENT_SANDBOX_MCP_MAX_OUTPUT=1024)
    for pad in range(4):
        r = m.tool("sandbox_exec", sandbox_id=box.id, command=f"python3 -c \"print('x' * {pad} + '\U0001f600' * 5000, end='')\"")
        assert "�" not in r["stdout"] and r["truncated"] and len(r["stdout"].encode()) <= 1024
        assert set(re.sub(r"\n?\[\.\.\. .*\]\n", "", r["stdout"])) <= {"x", "\U0001f600"}


def test_bytes_that_are_no_text_come_as_replacements(m, box):
    r = m.tool("sandbox_exec", sandbox_id=box.id, command="printf 'a\\377b\\0\\033[31mc'")
    assert r["stdout"] == "a�b\0\x1b[31mc"
    box.put("bin", bytes(range(256)))
    r = m.tool("sandbox_read_file", sandbox_id=box.id, path="bin")
    assert r["result"] == bytes(range(128)).decode() + "�" * 128
    box.put("noise", b"\xff" * 100000)
    assert len(m.tool("sandbox_read_file", sandbox_id=box.id, path="noise")["result"].encode()) <= 32768


def test_big_file_and_long_folder_are_cut(mcp, box):
    m = mcp(AGENT_SANDBOX_MCP_MAX_OUTPUT=8192)
    box.put("big", b"".join(b"line %d\n" % i for i in range(200000)))
    r = m.tool("sandbox_read_file", sandbox_id=box.id, path="big")
    assert r["truncated"] and r["result"].startswith("line 0\n") and r["result"].endswith("line 199999\n") and len(r["result"]) <= 8192
    box.sh("mkdir many; cd many; for i in $(seq 1000); do : > f$i; done")
    result = m.call("tools/call", name="sandbox_list_files", arguments={"sandbox_id": box.id, "path": "many"})["result"]
    listed = result["structuredContent"]
    assert len(listed["result"]) + listed["omitted"] == 1000 and 20 < len(listed["result"]) < 100
    text, note = (c["text"] for c in result["content"])
    assert json.loads(text) == listed["result"] and f"{listed['omitted']} more of 1000" in note


def test_memory_does_not_grow_with_output(m, box):
    m.tool("sandbox_exec", sandbox_id=box.id, command="seq 1 100000")
    before = m.memory()
    r = m.tool("sandbox_exec", sandbox_id=box.id, command="head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end")
    assert r["stdout"].endswith("end\n") and (SANITIZED or m.memory() - before < 16 << 10)


@pytest.mark.limit(120)
def test_memory_does_not_grow_with_calls(m, box):
    box.put("f", b"x" * 10000)
    me = {"sandbox_id": box.id}
    kinds = [
        ("sandbox_exec", me | {"command": "echo hi"}), ("sandbox_list", {}), ("sandbox_read_file", me | {"path": "f"}),
        ("sandbox_list_files", me), ("sandbox_write_file", me | {"path": "g", "content": "y" * 10000}), ("sandbox_exec", me),
        ("sandbox_read_file", me | {"path": "none"}), ("no_such_tool", {}),
    ]  # fmt: skip

    def many(rounds):
        for _ in range(rounds):
            numbers = [m.begin_tool(tool, {"progressToken": 1}, **arguments) for tool, arguments in kinds]
            gone = m.begin_tool("sandbox_exec", **me, command="sleep 5")
            m.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": gone}})
            for n in numbers:
                m.answer(n)

    many(40)
    before = m.memory("VmRSS")
    many(120)
    assert SANITIZED or m.memory("VmRSS") - before < 1 << 10


def test_command_that_times_out_keeps_its_output(m, box):
    r = m.tool("sandbox_exec", sandbox_id=box.id, command="echo begun; sleep 60", timeout_seconds=0.5)
    assert (r["stdout"], r["timed_out"], r["exit_code"]) == ("begun\n", True, 137)


# Progress, cancelling, many at once.


def test_progress_comes_while_a_command_prints(mcp, box):
    for version in ("2025-06-18", MODERN, "2024-11-05"):
        m = mcp(version)
        loop = "for i in 1 2 3 4; do printf 'step %s\\r\\n\\033[1m' $i; sleep 0.4; done"
        n = m.begin_tool("sandbox_exec", {"progressToken": "tok"}, sandbox_id=box.id, command=loop)
        assert "result" in m.answer(n)
        told = [k["params"] for k in m.kept if k.get("method") == "notifications/progress"]
        assert len(told) >= 2 and all(p["progressToken"] == "tok" for p in told)
        assert all(a["progress"] < b["progress"] for a, b in zip(told, told[1:], strict=False))
        if version == "2024-11-05":
            assert all("message" not in p for p in told)
        else:
            assert not any("\x1b" in p["message"] for p in told) and "?[1m" in told[0]["message"]


def test_no_progress_without_a_token_and_none_for_what_is_quick(m, box):
    n = m.begin_tool("sandbox_exec", sandbox_id=box.id, command="echo a; sleep 0.3; echo b; sleep 0.3")
    m.answer(n)
    n = m.begin_tool("sandbox_list", {"progressToken": 5})
    m.answer(n)
    assert m.kept == []


def test_progress_comes_while_an_image_is_pulled(faulty, own, engine):
    s = own(engine=engine, socket_path=faulty.path)
    m = Mcp(s.url)
    try:
        faulty.hold("POST /v[0-9.]+/containers/create")
        n = m.begin_tool("sandbox_create", {"progressToken": 1}, timeout_seconds=60)
        told = m.next(lambda k: k.get("method") == "notifications/progress")["params"]
        assert told["progressToken"] == 1 and "pulled" in told["message"] and told["progress"] >= 0.9
        faulty.let_go()
        assert m.answer(n)["result"]["structuredContent"]["status"] == "running"
    finally:
        faulty.let_go()
        m.close()


def test_cancelling_ends_the_command_and_its_answer_never_comes(m, box):
    n = m.begin_tool("sandbox_exec", sandbox_id=box.id, command="exec sleep 1234.5")
    assert wait_until(lambda: box.running("1234.5") == 1)
    m.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": n, "reason": "enough"}})
    assert wait_until(lambda: box.running("1234.5") == 0)
    m.nothing()
    assert m.tool("sandbox_exec", sandbox_id=box.id, command="echo on")["stdout"] == "on\n"


def test_sandbox_whose_creation_was_cancelled_does_not_stay(m, api, server):
    def made():
        return server.log.read_text().count(" is ready")

    before, count = set(api.ids()), made()
    n = m.begin_tool("sandbox_create", timeout_seconds=300)
    m.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": n}})
    assert wait_until(lambda: made() > count)
    assert wait_until(lambda: not set(api.ids()) - before, step=0.2)
    m.nothing()


def test_several_calls_run_at_once(m, box):
    began = time.monotonic()
    slow = [m.begin_tool("sandbox_exec", sandbox_id=box.id, command=f"sleep 6; echo {i}") for i in range(10)]
    assert m.tool("sandbox_exec", sandbox_id=box.id, command="echo quick")["stdout"] == "quick\n"
    assert m.call("ping")["result"] == {}
    for i, n in enumerate(slow):
        assert m.answer(n)["result"]["structuredContent"]["stdout"] == f"{i}\n"
    assert time.monotonic() - began < 40, "one after the other they take a minute"


def test_more_calls_than_can_be_are_refused_not_lost(m, box):
    numbers = [m.begin_tool("sandbox_exec", sandbox_id=box.id, command="sleep 4") for _ in range(80)]
    answers = [m.answer(n) for n in numbers]
    assert sum("error" in a for a in answers) == 16 and {a["error"]["code"] for a in answers if "error" in a} == {-32600}
    assert m.tool("sandbox_exec", sandbox_id=box.id, command="echo on")["stdout"] == "on\n"


def test_slow_reader_holds_up_commands_not_memory(server, box):
    m = subprocess.Popen([PROGRAM], env=environment(server.url), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:

        def send(n, method, **params):
            m.stdin.write(json.dumps({"jsonrpc": "2.0", "id": n, "method": method, "params": params}).encode() + b"\n")
            m.stdin.flush()

        send(0, "initialize", protocolVersion="2025-06-18", capabilities={})
        for n in range(1, 301):
            send(n, "tools/list")
        for n in range(301, 341):
            send(n, "tools/call", name="sandbox_exec", arguments={"sandbox_id": box.id, "command": "seq 1 20000"})
        time.sleep(1)
        got = [json.loads(m.stdout.readline()) for _ in range(341)]
        assert {g["id"] for g in got} == set(range(341)) and all("result" in g for g in got)
    finally:
        m.stdin.close()
        m.wait(30)
        m.stdout.close()


# The end.


def test_end_of_input_ends_it_and_its_commands(m, box):
    m.begin_tool("sandbox_exec", sandbox_id=box.id, command="exec sleep 4321.5")
    assert wait_until(lambda: box.running("4321.5") == 1)
    assert m.end() == 0
    assert wait_until(lambda: box.running("4321.5") == 0)


def test_requests_from_a_pipe_that_ends_are_answered(server, box):
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}}},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
         "params": {"name": "sandbox_exec", "arguments": {"sandbox_id": box.id, "command": "echo hi"}}},
    ]  # fmt: skip
    text = "\n".join(map(json.dumps, lines))
    p = subprocess.run([PROGRAM], env=environment(server.url), input=text, capture_output=True, text=True, timeout=60, check=True)
    assert [json.loads(line)["id"] for line in p.stdout.splitlines()] == [1, 2] and p.stderr == ""
    assert json.loads(p.stdout.splitlines()[1])["result"]["structuredContent"]["stdout"] == "hi\n"


def test_reader_that_goes_away_ends_it(server, box):
    m = Mcp(server.url)
    m.begin_tool("sandbox_exec", sandbox_id=box.id, command="exec sleep 777.5")
    assert wait_until(lambda: box.running("777.5") == 1)
    m.process.kill()
    m.process.wait(30)
    assert wait_until(lambda: box.running("777.5") == 0)
    r, w = os.pipe()
    p = subprocess.Popen([PROGRAM], env=environment(server.url), stdin=subprocess.PIPE, stdout=w)
    os.close(r)
    os.close(w)
    p.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    p.stdin.flush()
    assert p.wait(30) == 0
    p.stdin.close()


# Resources.


def test_files_are_resources(m, make):
    box = make()
    box.put("ü %.txt", "grüße\n".encode())
    box.put("bin", b"\0\xff")
    box.sh("mkdir d; ln -s bin link")
    listed = {r["name"]: r for r in m.call("resources/list")["result"]["resources"] if box.id in r["uri"]}
    assert set(listed) == {"ü %.txt", "bin"} and listed["bin"]["size"] == 2
    uri = listed["ü %.txt"]["uri"]
    assert uri == f"sandbox://{box.id}/workspace/%C3%BC%20%25.txt"
    assert m.call("resources/read", uri=uri)["result"]["contents"] == [{"uri": uri, "mimeType": "text/plain", "text": "grüße\n"}]
    (blob,) = m.call("resources/read", uri=listed["bin"]["uri"])["result"]["contents"]
    assert blob["mimeType"] == "application/octet-stream" and base64.b64decode(blob["blob"]) == b"\0\xff"
    (text,) = m.call("resources/read", uri=f"sandbox://{box.id}/etc/hostname")["result"]["contents"]
    assert text["text"]
    (template,) = m.call("resources/templates/list")["result"]["resourceTemplates"]
    assert template["uriTemplate"] == "sandbox://{sandbox_id}/{+path}"


def test_resource_that_is_none_says_why(mcp, box):
    m, modern = mcp(), mcp(MODERN)
    box.put("huge", b"x" * (9 << 20))
    for uri in (
        "http://x/y",
        "sandbox://",
        f"sandbox://{box.id}",
        "sandbox://../x",
        f"sandbox://{box.id}/%zz",
        f"sandbox://{box.id}/a%00b",
    ):
        assert m.call("resources/read", uri=uri)["error"]["code"] == -32002, uri
    missing = m.call("resources/read", uri=f"sandbox://{box.id}/workspace/none")["error"]
    assert missing["code"] == -32002 and "none" in missing["message"] and missing["data"]["uri"].endswith("/none")
    assert modern.call("resources/read", uri=f"sandbox://{box.id}/workspace/none")["error"]["code"] == -32602
    big = m.call("resources/read", uri=f"sandbox://{box.id}/workspace/huge")["error"]
    assert big["code"] == -32603 and "8 MiB" in big["message"]
    folder = m.call("resources/read", uri=f"sandbox://{box.id}/workspace")["error"]
    assert folder["code"] == -32603 and folder["message"]


# Settings.


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"AGENT_SANDBOX_MCP_MAX_OUTPUT": "many"}, "AGENT_SANDBOX_MCP_MAX_OUTPUT"),
        ({"AGENT_SANDBOX_MCP_MAX_OUTPUT": "12"}, "from 1024 to 1048576"),
        ({"AGENT_SANDBOX_URL": "ftp://x"}, "AGENT_SANDBOX_URL"),
        ({"AGENT_SANDBOX_API_KEY": "two words"}, "AGENT_SANDBOX_API_KEY"),
    ],
)
def test_wrong_setting_ends_the_start_with_one_line(server, env, words):
    p = subprocess.run([PROGRAM], env=environment(server.url) | env, input="", capture_output=True, text=True, timeout=60, check=False)
    assert (p.returncode, p.stdout) == (2, "") and words in p.stderr and p.stderr.count("\n") == 1


def test_key_file_of_others_is_refused_and_ones_own_is_used(server, tmp_path):
    key = tmp_path / "key"
    key.write_text(KEY + "\n")
    key.chmod(0o644)
    env = environment(server.url, key=None) | {"AGENT_SANDBOX_API_KEY_FILE": str(key)}
    p = subprocess.run([PROGRAM], env=env, input="", capture_output=True, text=True, timeout=60, check=False)
    assert p.returncode == 2 and "chmod 600" in p.stderr
    key.chmod(0o600)
    m = Mcp(server.url, key=None, AGENT_SANDBOX_API_KEY_FILE=key)
    try:
        assert isinstance(m.tool("sandbox_list")["result"], list)
    finally:
        m.close()


def test_version_and_help_and_nothing_else():
    def run(*arguments):
        return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60, check=False)

    assert re.fullmatch(r"agent-sandbox-mcp \d+\.\d+\.\d+\n", run("--version").stdout)
    assert "AGENT_SANDBOX_MCP_MAX_OUTPUT" in run("--help").stdout
    wrong = run("--port")
    assert (wrong.returncode, wrong.stdout) == (2, "") and "usage" in wrong.stderr


def test_manual_has_every_tool_argument_and_setting(m):
    page = (ROOT / "docs/agent-sandbox-mcp.1").read_text()
    for tool in m.call("tools/list")["result"]["tools"]:
        line = next(line for line in page.splitlines() if line.startswith(f".It Cm {tool['name']} "))
        assert re.findall(r"\w+", line.split("Ns (")[1].replace("Ar ", "")) == list(tool["inputSchema"]["properties"])
    usage = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
    for name in set(re.findall(r"AGENT_SANDBOX_\w+", usage)):
        assert f"Ev {name}\n" in page
