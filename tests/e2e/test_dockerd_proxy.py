"""dockerd-proxy on a real engine: what the engine makes of its requests."""

import socket
import sys
import time
import uuid
from pathlib import Path

import images
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "proc"))
import layout  # noqa: E402
from machine import command_line, everyone, status, wait_until  # noqa: E402

SANDBOX = 0xABCDEF0123456789


@pytest.fixture
def proxy(engine):
    """One of an instance of its own; nothing of that may be left at the end."""
    instance = str(uuid.uuid4())
    with layout.Program("dockerd-proxy", ["chan"], path=engine.dir / "docker.sock") as p:
        p.m = p.peers[0]
        p.m.send("D_INSTANCE", 0, {"uuid": instance})
        assert p.m.recv_until("D_ENGINE").fields["up"] == 1
        ids = iter(range(1, 1000))
        p.ask = lambda name, fields=None, tail=b"": ask(p, next(ids), name, fields, tail)
        yield p
        for generation in (1, 2):
            assert p.ask("D_DESTROY", {"sandbox": SANDBOX, "generation": generation}).name == "D_DONE"
    label = "label=agent-sandbox.instance=" + instance
    assert (
        engine.docker("ps", "-aq", "--filter", label).split() == [] and engine.docker("volume", "ls", "-q", "--filter", label).split() == []
    )


def ask(p, id, name, fields, tail):
    p.m.send(name, id, fields, tail)
    end = time.monotonic() + 30
    while True:
        m = p.m.recv(max(0.001, end - time.monotonic()))
        if m.id == id and m.name != "D_ITEM":
            return m


def create(p, image="python:3.12-slim", generation=1, **kw):
    prepared = p.ask("D_PREPARE", tail=image)
    assert prepared.name == "D_PREPARED", prepared
    fields = {"sandbox": SANDBOX, "generation": generation, "nano_cpus": 500_000_000, "memory_mb": 128, "pids_limit": 50, "read_only": 1}
    m = p.ask("D_CREATE", fields | {"image_id": prepared.fields["image_id"]} | kw)
    assert m.name == "D_CREATED", m
    return m.fields["container"]


def attach(p, container):
    m = p.ask("D_ATTACH", {"container": container})
    assert m.name == "D_ATTACHED", m
    return socket.socket(fileno=m.fd)


def state(p, container):
    return p.ask("D_INSPECT", {"container": container}).fields["state"]


def test_engine_enforces_what_a_sandbox_is_made_of(engine, proxy):
    c = create(proxy)
    with attach(proxy, c):
        got = engine.call("GET", f"/containers/{c}/json")
        host = got["HostConfig"]
        assert (host["Memory"], host["MemorySwap"], host["NanoCpus"], host["PidsLimit"]) == (128 << 20, 128 << 20, 500_000_000, 50)
        assert host["CapDrop"] == ["ALL"] and not host["CapAdd"] and not host["Privileged"] and not host["Binds"] and not host["Devices"]
        assert (
            host["ReadonlyRootfs"] and host["NetworkMode"] == "none" and host["OomScoreAdj"] == 500 and host["LogConfig"]["Type"] == "none"
        )
        assert [(m["Type"], m["Destination"]) for m in got["Mounts"]] == [("volume", "/workspace")]
        assert wait_until(lambda: host_pid(got)), "the sandbox's first process is not found"
        told = status(host_pid(got))
        assert told["Uid"].split() == ["1000"] * 4 and told["Gid"].split() == ["1000"] * 4
        assert told["CapBnd"].strip("0") == told["CapPrm"].strip("0") == "" and (told["NoNewPrivs"], told["Seccomp"]) == ("1", "2")


def host_pid(inspected):
    """The engine lives in a PID namespace of its own: its number for PID 1, seen from here."""
    for pid in everyone():
        numbers = status(pid).get("NSpid", "").split()
        if numbers[-1:] == ["1"] and str(inspected["State"]["Pid"]) in numbers and "/.agent-sandbox/init" in command_line(pid):
            return pid
    return None


def test_every_state_can_be_attached_to_and_destroyed(engine, proxy):
    c = create(proxy)
    assert state(proxy, c) == layout.STATE_CREATED
    attach(proxy, c).close()
    assert state(proxy, c) == layout.STATE_RUNNING
    engine.docker("pause", c)
    assert state(proxy, c) == layout.STATE_PAUSED
    attach(proxy, c).close()
    assert state(proxy, c) == layout.STATE_RUNNING
    engine.docker("kill", c)
    assert state(proxy, c) == layout.STATE_EXITED
    attach(proxy, c).close()
    engine.docker("pause", c)
    assert proxy.ask("D_DESTROY", {"sandbox": SANDBOX, "generation": 1, "container": c}).name == "D_DONE"


def test_workspace_is_kept_for_a_new_container(engine, proxy):
    c = create(proxy)
    volume = engine.call("GET", f"/containers/{c}/json")["Mounts"][0]["Source"]
    assert proxy.ask("D_DESTROY", {"sandbox": SANDBOX, "generation": 1, "container": c, "keep_volume": 1}).name == "D_DONE"
    c = create(proxy, keep_volume=1)
    assert engine.call("GET", f"/containers/{c}/json")["Mounts"][0]["Source"] == volume


def test_volumes_of_the_image_hide_neither_init_nor_workspace(engine, proxy):
    images.tiny(engine, "tiny:hide", "VOLUME /workspace", "VOLUME /.agent-sandbox", "VOLUME /tmp")
    c = create(proxy, "tiny:hide")
    with attach(proxy, c):
        assert state(proxy, c) == layout.STATE_RUNNING
        mounts = engine.docker("exec", c, "cat", "/proc/mounts").splitlines()
        assert any(m.startswith("tmpfs /tmp ") for m in mounts)
        assert engine.docker("exec", c, "stat", "-c", "%u:%g", "/workspace").strip() == "1000:1000"


def test_network_joins_two_sandboxes_to_the_world_and_not_to_each_other(engine, proxy):
    c = create(proxy, network=1)
    with attach(proxy, c):
        network = engine.call("GET", "/networks/agent-sandbox-net")
        assert network["Driver"] == "bridge" and network["Options"]["com.docker.network.bridge.enable_icc"] == "false"
        assert list(engine.call("GET", f"/containers/{c}/json")["NetworkSettings"]["Networks"]) == ["agent-sandbox-net"]


def test_init_that_cannot_be_run_is_told_and_nothing_hangs(engine, proxy):
    images.load(engine, "tiny:arch", {"x": b"y"})
    c = create(proxy, "tiny:arch")
    attach(proxy, c).close()  # needs nothing of the image
    assert state(proxy, c) == layout.STATE_RUNNING
