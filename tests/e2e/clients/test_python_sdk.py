"""The Python SDK over its whole surface, in the words of the client that it stands in for: only the import is another."""

import asyncio
import dataclasses
import inspect
import io
import pickle

import httpx
import pytest
from agent_sandbox import client as published
from agent_sandbox_sdk import AsyncSandbox, AsyncSandboxClient, Sandbox
from agent_sandbox_sdk.client import ExecEvent, ExecResult, FileInfo, SandboxAPIError, SandboxClient, SnapshotInfo
from harness import KEY
from machine import wait_until

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


def _methods(cls):
    return {n: inspect.signature(f) for n, f in vars(cls).items() if inspect.isfunction(f) and (not n.startswith("_") or n == "__init__")}


@pytest.mark.parametrize("ours, theirs", [(SandboxClient, published.SandboxClient), (Sandbox, published.Sandbox)])
def test_every_published_method_has_the_same_arguments(ours, theirs):
    for name, signature in _methods(theirs).items():
        mine = _methods(ours)[name].parameters
        for wanted in signature.parameters.values():
            assert wanted.name in mine and mine[wanted.name].kind == wanted.kind, (name, wanted)
            if wanted.name != "timeout":
                assert mine[wanted.name].default == wanted.default, (name, wanted)
        new = [p for n, p in mine.items() if n not in signature.parameters]
        assert all(p.kind is p.KEYWORD_ONLY or p.default is not p.empty for p in new), (name, new)


@pytest.mark.parametrize("name", ["ExecResult", "ExecEvent", "SnapshotInfo", "FileInfo"])
def test_published_values_can_be_made_in_the_same_way(name):
    ours = inspect.signature({"ExecResult": ExecResult, "ExecEvent": ExecEvent, "SnapshotInfo": SnapshotInfo, "FileInfo": FileInfo}[name])
    theirs = inspect.signature(getattr(published, name)).parameters
    assert list(ours.parameters)[: len(theirs)] == list(theirs)
    assert set(dir(getattr(published, name))) <= set(dir(globals()[name]))


@pytest.mark.parametrize("sync, other", [(SandboxClient, AsyncSandboxClient), (Sandbox, AsyncSandbox)])
def test_both_clients_have_the_same_methods_and_arguments(sync, other):
    mine, theirs = _methods(sync), _methods(other)
    assert mine.keys() == theirs.keys()
    for name in mine:
        assert [(p.name, p.kind, p.default) for p in mine[name].parameters.values()] == [
            (p.name, p.kind, p.default) for p in theirs[name].parameters.values()
        ], name


def test_async_client_does_all_of_it(server):
    async def scene():
        async with AsyncSandboxClient(server.url, KEY) as c:
            assert (await c.health())["status"] == "ok"
            async with c.create(timeout_seconds=300, labels={"who": "async"}) as s:
                assert [x.id for x in await c.list_sandboxes("who=async")] == [s.id]
                results = await asyncio.gather(*(s.exec(f"sleep 0.2; echo {n}") for n in range(8)))
                assert [r.stdout for r in results] == [f"{n}\n" for n in range(8)]
                events = [e async for e in s.exec_stream("cat; exit 2", stdin=b"in")]
                assert [(e.type, e.data, e.exit_code) for e in events] == [("stdout", "in", None), ("exit", "", 2)]
                await s.write_file("f", "one")
                snap = await s.snapshot("n")
                await s.write_file("f", "two")
                assert await (await s.rollback(snap)).read_text("f") == "one"
                fork = await c.fork(snap)
                assert [f.name for f in await fork.list_files()] == ["f"]
                assert (await fork.set_timeout(900)).expires_at > s.expires_at
                await fork.destroy()
                assert [x.id for x in await c.list_snapshots(s.id)] == [snap.id] and await c.get_snapshot(snap.id) == snap
                await c.delete_snapshot(snap)
            with pytest.raises(SandboxAPIError) as gone:
                await s.refresh()
            assert gone.value.status_code == 404

    asyncio.run(scene())


def test_detail_is_told_when_asked_for_and_leaves_the_values_as_they_were(client):
    with client.create(timeout_seconds=300) as s:
        result = s.exec("kill -SEGV $$", detail=True)
        assert (result.detail.signal, result.detail.oom_killed, result.detail.omitted_bytes) == ("SEGV", False, 0)
        assert result.detail.cpu_ms >= 0 and s.exec("true").detail is None
        assert list(dataclasses.asdict(result)) == ["stdout", "stderr", "exit_code", "timed_out", "truncated", "duration_ms"]
        assert result == dataclasses.replace(result) and pickle.loads(pickle.dumps(result)).detail == result.detail
        (end,) = s.exec_stream("kill -SEGV $$", detail=True)
        assert end.detail.signal == "SEGV" and list(dataclasses.asdict(end)) == ["type", "data", "exit_code", "timed_out", "duration_ms"]


def test_other_processes_end_and_commands_outlive_their_caller_when_told_to(client, server):
    with client.create(timeout_seconds=300) as s:
        look = "cat /proc/[0-9]*/cmdline 2>/dev/null | grep -aq '[5]5[.]5' && echo True || echo False"
        s.exec("sleep 55.5 & echo")
        assert s.exec(look).stdout == "True\n" and s.exec("true", kill_others=True).ok and s.exec(look).stdout == "False\n"
        with SandboxClient(server.url, api_key=KEY) as other:
            with other.get(s.id).exec_stream("echo on; sleep 0.5; echo done > f", on_disconnect="continue") as events:
                next(events)
        assert wait_until(lambda: "f" in [f.name for f in s.list_files()])


def test_standard_input_of_any_size_and_kind_reaches_the_command(client, tmp_path):
    (tmp_path / "f").write_bytes(b"x" * 3000000)
    with client.create(timeout_seconds=300) as s, open(tmp_path / "f", "rb") as f:
        f.seek(1000000)
        for stdin, size in (("ü", 2), (b"\x00\xff", 2), (b"", 0), (f, 2000000), (io.BytesIO(b"abc"), 3)):
            events = list(s.exec_stream("wc -c; echo $X", stdin=stdin, env={"X": "grün"}))
            assert "".join(e.data for e in events) == f"{size}\ngrün\n" and events[-1].exit_code == 0
        assert s.exec("wc -c", stdin="ü").stdout == "2\n"
