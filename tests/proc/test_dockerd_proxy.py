"""dockerd-proxy between a stand-in for managerd and an engine of paper: the closed set of requests it can ever emit, and
what it makes of what an engine may answer."""

import contextlib
import io
import json
import os
import random
import re
import select
import socket
import struct
import tarfile
import tempfile
import threading
import time

import layout
import pytest
from fake_engine import FakeEngine
from machine import SLACK, descriptors, entries, kib, wait_until

UUID = "0b5a7a52-2f0c-4d0e-9c1e-6a6f3a1b2c3d"
IMAGE = "python:3.12-slim"
ID, REF = "[0-9a-f]{64}", "[A-Za-z0-9][A-Za-z0-9._/:@-]*"
SANDBOX, MEMBER = r"agent-sandbox-sb_[0-9a-f]{16}-\d+", "agent-sandbox-pool_[0-9a-f]{16}"
NAME = f"({SANDBOX}|{MEMBER})"
NAMED = f"%2C%22name%22%3A%5B%22{NAME}%22(%2C%22{MEMBER}%22)?%5D"
LABELLED = rf"filters=%7B%22label%22%3A%5B%22agent-sandbox\.instance%3D{UUID}%22%5D({NAMED})?%7D"

CLOSED_SET = [
    "GET /version",
    r"GET V/_ping",
    r"GET V/info",
    rf"GET V/images/{REF}/json",
    rf"GET V/images/json\?filters=%7B%22label%22%3A%5B%22agent-sandbox\.prepared(%3D{UUID}%2F{ID}%2F{ID}%2F1000%3A1000)?%22%5D%7D",
    rf"POST V/images/create\?fromImage={REF}&tag=[A-Za-z0-9_:.-]+",
    rf"DELETE V/images/sha256:{ID}\?noprune=1",
    rf"POST V/commit\?container={ID}&pause=0",
    rf"POST V/containers/create\?name=({NAME}|agent-sandbox-prepare-[0-9a-f]{{16}})",
    rf"PUT V/containers/{ID}/archive\?path=/",
    rf"POST V/containers/{ID}/(start|unpause|attach\?stream=1&stdin=1&stdout=1)",
    rf"POST V/containers/{ID}/update",
    rf"POST V/containers/{ID}/rename\?name={SANDBOX}",
    rf"GET V/containers/{ID}/json",
    rf"GET V/containers/json\?all=1&{LABELLED}",
    rf"DELETE V/containers/{ID}\?force=1&v=1",
    r"POST V/volumes/create",
    rf"GET V/volumes\?{LABELLED}",
    rf"DELETE V/volumes/{NAME}",
    r"GET V/networks/(agent-sandbox-net|none)",
    r"POST V/networks/create",
    rf"GET V/events\?since=\d+\.\d{{9}}&{LABELLED}",
]


def closed(line, minor=41):
    return any(re.fullmatch(p.replace("V/", rf"/v1\.{minor}/", 1), line) for p in CLOSED_SET)


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="proxy-") as d:
        os.chmod(d, 0o755)
        yield d


class Proxy(layout.Program):
    """dockerd-proxy; .m is managerd's end."""

    def __init__(self, engine, instance=UUID, up=True, **kw):
        super().__init__("dockerd-proxy", ["chan"], path=getattr(engine, "path", engine), **kw)
        self.m, self.next, self.seen = self.peers[0], 100, []
        if instance:
            self.m.send("D_INSTANCE", 0, {"uuid": instance})
        if up:
            assert self.m.recv_until("D_ENGINE").fields["up"] == 1

    def send(self, name, fields=None, tail=b""):
        self.next += 1
        self.m.send(name, self.next, fields, tail)
        return self.next

    def answer(self, id, timeout=30.0):
        end = time.monotonic() + timeout
        while True:
            m = self.m.recv(max(0.001, end - time.monotonic()))
            self.seen.append(m)
            if m.id == id and m.name != "D_ITEM":
                return m

    def answers(self, ids, timeout=30.0):
        """Of several requests, in their order."""
        got, end = {m.id: m for m in self.seen if m.id in ids}, time.monotonic() + timeout
        while len(got) < len(ids):
            m = self.m.recv(max(0.001, end - time.monotonic()))
            self.seen.append(m)
            if m.id in ids and m.name != "D_ITEM":
                got[m.id] = m
        return [got[i] for i in ids]

    def ask(self, name, fields=None, tail=b"", timeout=30.0):
        return self.answer(self.send(name, fields, tail), timeout)

    def prepare(self, image=IMAGE):
        m = self.ask("D_PREPARE", tail=image)
        assert m.name == "D_PREPARED", m
        return m.fields["image_id"]

    def create(self, sandbox=7, generation=1, image=None, names=b"", **kw):
        fields = {"sandbox": sandbox, "generation": generation, "nano_cpus": 10**9, "memory_mb": 512, "pids_limit": 256, "read_only": 1}
        return self.ask("D_CREATE", fields | {"image_id": image or self.prepare()} | kw, names)

    def container(self, **kw):
        m = self.create(**kw)
        assert m.name == "D_CREATED", m
        return m.fields["container"]

    def member(self, pool=9, **kw):
        return self.container(sandbox=0, generation=0, pool=pool, **kw)

    def failed(self, m, why, text=None):
        assert m.name == "D_FAILED" and m.fields["why"] == getattr(layout, why), m
        assert text is None or text in m.tail.decode(), m.tail
        assert b"made up" not in m.tail
        return m

    def fatal(self, words=""):
        assert self.wait(30) == 1, self.log()
        assert words in self.log().splitlines()[-1], self.log()


@pytest.fixture
def engine(folder):
    with FakeEngine(folder) as e:
        yield e


@pytest.fixture
def proxy(engine):
    with Proxy(engine) as p:
        yield p
        if p.alive():
            assert [r.line for r in engine.requests if not closed(r.line)] == []


def sandbox_body(image, name, seccomp, **kw):
    host = {
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true", seccomp],
        "ReadonlyRootfs": True,
        "NetworkMode": "none",
        "IpcMode": "private",
        "Init": False,
        "OomScoreAdj": 500,
        "LogConfig": {"Type": "none", "Config": {}},
        "Mounts": [{"Type": "volume", "Source": name, "Target": "/workspace"}],
        "NanoCpus": 10**9,
        "Memory": 512 << 20,
        "MemorySwap": 512 << 20,
        "PidsLimit": 256,
        "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}, {"Name": "nofile", "Soft": 1024, "Hard": 4096}],
        "Tmpfs": {
            "/tmp": "rw,nosuid,nodev,exec,size=256m,nr_inodes=32768,mode=1777",
            "/dev/shm": "rw,nosuid,nodev,noexec,size=16m,nr_inodes=4096,mode=1777",
        },
        "Sysctls": {"kernel.shmall": "8192", "kernel.msgmni": "32", "kernel.sem": "250 16384 100 128"},
    }
    labels = {"agent-sandbox.instance": UUID, "agent-sandbox.kind": "pool" if "pool_" in name else "sandbox"}
    host["Mounts"][0]["VolumeOptions"] = {"Labels": labels, "NoCopy": False}
    return {
        "Image": image,
        "User": "1000:1000",
        "Hostname": "sandbox",
        "WorkingDir": "/workspace",
        "Entrypoint": ["/.agent-sandbox/init"],
        "Cmd": [],
        "Healthcheck": {"Test": ["NONE"]},
        "OpenStdin": True,
        "StdinOnce": False,
        "Tty": False,
        "Labels": labels,
        "HostConfig": host | kw,
    }


def check_body(r, maxima=(4 * 10**9, 4096 << 20, 4096)):
    """A create of a sandbox is of the one shape; only its limits, rootfs and network differ."""
    body = r.json()
    host = body["HostConfig"]
    profile = host["SecurityOpt"][1].removeprefix("seccomp=")
    assert json.loads(profile)["defaultAction"] == "SCMP_ACT_ERRNO"
    free = {k: host[k] for k in ("NanoCpus", "Memory", "MemorySwap", "PidsLimit", "ReadonlyRootfs", "NetworkMode", "Tmpfs", "Sysctls")}
    member = "pool_" in r.query["name"]
    want = sandbox_body(body["Image"], r.query["name"], host["SecurityOpt"][1], **free)
    volume = host["Mounts"][0]["Source"]  # of a sandbox that was a member of the pool it has the member's name
    if not member and re.fullmatch(MEMBER, volume):
        want["HostConfig"]["Mounts"] = host["Mounts"]
        assert host["Mounts"][0]["VolumeOptions"] == {"Labels": want["Labels"], "NoCopy": True}
    assert body == want
    if member:
        assert host["Memory"] <= 512 << 20
    assert re.fullmatch("sha256:" + ID, body["Image"])
    assert (
        0 < free["NanoCpus"] <= maxima[0] and 0 < free["Memory"] == free["MemorySwap"] <= maxima[1] and 0 < free["PidsLimit"] <= maxima[2]
    )
    assert free["NetworkMode"] in ("none", "agent-sandbox-net") and isinstance(free["ReadonlyRootfs"], bool)
    lasting = 0
    for path, how in (("/tmp", "exec"), ("/dev/shm", "noexec")):
        size, inodes = re.fullmatch(rf"rw,nosuid,nodev,{how},size=(\d+)m,nr_inodes=(\d+),mode=1777", free["Tmpfs"][path]).groups()
        lasting += (int(size) << 20) + int(inodes) * 1024
    pages, queues, semaphores = (int(free["Sysctls"]["kernel." + k].split()[i]) for k, i in (("shmall", 0), ("msgmni", 0), ("sem", 1)))
    lasting += pages * 4096 + queues * (1 << 20) + semaphores * 64
    assert lasting <= free["Memory"] * 13 // 16, "what no process owns leaves memory for processes"


def check_update(r, maxima=(4 * 10**9, 4096 << 20, 4096)):
    body = r.json()
    assert set(body) == {"NanoCpus", "Memory", "MemorySwap", "PidsLimit"} and body["Memory"] == body["MemorySwap"]
    assert 0 < body["NanoCpus"] <= maxima[0] and 0 < body["Memory"] <= maxima[1] and 0 < body["PidsLimit"] <= maxima[2]


# the closed set


def test_sandbox_is_made_in_the_one_hardened_shape(proxy, engine):
    image = proxy.prepare()
    proxy.container(image=image)
    r = engine.find("containers/create.name=agent-sandbox-sb_")[0]
    assert r.json() == sandbox_body(image, "agent-sandbox-sb_0000000000000007-1", r.json()["HostConfig"]["SecurityOpt"][1])
    assert r.headers["content-type"] == "application/json"
    volume = engine.find("POST .*/volumes/create")[0].json()
    assert volume == {
        "Name": "agent-sandbox-sb_0000000000000007-1",
        "Driver": "local",
        "Labels": {"agent-sandbox.instance": UUID, "agent-sandbox.kind": "sandbox"},
    }


def test_names_of_the_list_get_loopback_addresses_of_their_own(proxy, engine):
    image = proxy.prepare()
    names = [f"host-{i}.example.com" for i in range(1, layout.EGRESS_ENTRIES_MAX + 1)]
    proxy.container(image=image, names="\n".join(names))
    proxy.container(sandbox=8, image=image)
    first, second = engine.find("containers/create.name=agent-sandbox-sb_")
    want = [f"{n}:127.64.{i >> 8}.{i & 255}" for i, n in enumerate(names, 1)]
    assert want[0] == "host-1.example.com:127.64.0.1" and want[-1].endswith(":127.64.1.0")
    seccomp = first.json()["HostConfig"]["SecurityOpt"][1]
    assert first.json() == sandbox_body(image, "agent-sandbox-sb_0000000000000007-1", seccomp, ExtraHosts=want)
    assert "ExtraHosts" not in second.json()["HostConfig"]


def test_names_reach_the_engine_in_their_canonical_spelling(proxy, engine):
    proxy.container(names="Example.COM\nb.example")
    (r,) = engine.find("containers/create.name=agent-sandbox-sb_")
    assert r.json()["HostConfig"]["ExtraHosts"] == ["example.com:127.64.0.1", "b.example:127.64.0.2"]


@pytest.mark.parametrize(
    ("names", "fields"),
    [
        ("example.com:10.0.0.1", {}),
        ("example.com:80", {}),
        ("*.example.com", {}),
        ("10.0.0.1", {}),
        ("host-gateway:host-gateway", {}),
        ("a.b\n", {}),
        ("\na.b", {}),
        ("a b", {}),
        ("a.b\0c", {}),
        ("*", {}),
        ("\n".join(f"h{i}.x" for i in range(layout.EGRESS_ENTRIES_MAX + 1)), {}),
        ("example.com", {"network": 1}),
    ],
)
def test_names_that_are_none_end_the_program_before_the_engine_hears_of_them(proxy, engine, names, fields):
    image = proxy.prepare()
    with pytest.raises(layout.Gone):
        proxy.create(image=image, names=names, **fields)
    proxy.fatal("bad create")
    assert engine.find("containers/create.name=agent-sandbox-sb_") == [] == engine.find("POST .*/volumes/create")


def test_prepared_image_is_made_of_constants_by_a_helper_that_never_runs(proxy, engine):
    proxy.prepare()
    (create,) = engine.find("name=agent-sandbox-prepare-")
    base = next(i for i in engine.images.values() if i["name"] == IMAGE)["Id"]
    assert create.json() == {
        "Image": base,
        "Entrypoint": ["/.agent-sandbox/init"],
        "Cmd": [],
        "Labels": {"agent-sandbox.instance": UUID, "agent-sandbox.kind": "prepare"},
        "HostConfig": {
            "NetworkMode": "none",
            "CapDrop": ["ALL"],
            "Mounts": [{"Type": "tmpfs", "Target": "/workspace"}, {"Type": "tmpfs", "Target": "/.agent-sandbox"}],
        },
    }
    (put,) = engine.find("^PUT")
    assert put.headers["content-type"] == "application/x-tar"
    tar = tarfile.open(fileobj=io.BytesIO(put.body))
    got = [(m.name, m.type, oct(m.mode), m.uid, m.gid) for m in tar]
    assert got == [
        ("workspace", b"5", "0o755", 1000, 1000),
        (".agent-sandbox", b"5", "0o755", 0, 0),
        (".agent-sandbox/init", b"0", "0o555", 0, 0),
    ]
    assert tar.extractfile(".agent-sandbox/init").read() == (layout.BUILD / "sandbox-init").read_bytes()
    (commit,) = engine.find("/commit")
    labels = commit.json()["Labels"]
    assert commit.json().keys() == {"Labels"} and labels.pop("agent-sandbox.prepared").startswith(UUID + "/")
    assert labels == {"agent-sandbox.instance": "", "agent-sandbox.kind": ""}
    assert wait_until(lambda: engine.containers == {}) and not engine.find("/start")
    proxy.prepare()
    assert len(engine.find("/commit")) == 1, "it is there already"


def test_prepared_images_that_nothing_uses_are_removed_at_start(engine, folder):
    mine, used = (engine.add_image("", Labels={"agent-sandbox.prepared": f"{UUID}/{n}"}) for n in "ab")
    other = engine.add_image("", Labels={"agent-sandbox.prepared": "11111111-2f0c-4d0e-9c1e-6a6f3a1b2c3d/x"})
    engine.containers[engine.add_container("x", {})]["Image"] = used
    with Proxy(engine) as p:
        assert mine not in engine.images and used in engine.images and other in engine.images
        assert p.container(image=used)


def test_limits_are_clamped_again(engine):
    config = {"MAX_CPUS": "2", "MAX_MEMORY_MB": 256, "MAX_PIDS_LIMIT": 100}
    with Proxy(engine, config=config) as p:
        image = p.prepare()
        huge, tiny = (1 << 62,) * 3, (-5, 0, -(1 << 60))
        for n, values in enumerate((huge, tiny, (10**9, 16, 50))):
            p.container(sandbox=n + 1, image=image, **dict(zip(("nano_cpus", "memory_mb", "pids_limit"), values, strict=True)))
    bodies = engine.find("name=agent-sandbox-sb_")
    for r in bodies:
        check_body(r, (2 * 10**9, 256 << 20, 100))
    assert bodies[0].json()["HostConfig"]["Memory"] == 256 << 20 and bodies[1].json()["HostConfig"]["PidsLimit"] == 8


def test_cpus_are_bounded_by_what_the_host_has(folder):
    with FakeEngine(folder, ncpu=2) as engine, Proxy(engine) as p:
        p.container(nano_cpus=4 * 10**9)
        assert engine.find("name=agent-sandbox-sb_")[0].json()["HostConfig"]["NanoCpus"] == 2 * 10**9


def test_number_of_sandboxes_is_bounded_here_too(engine):
    with Proxy(engine, config={"MAX_SANDBOXES": 1}) as p:
        image = p.prepare()
        one = p.container(sandbox=1, image=image)
        p.failed(p.create(sandbox=2, image=image), "FAIL_LIMIT")
        p.container(sandbox=1, generation=2, image=image)  # a rollback
        p.failed(p.create(sandbox=1, generation=3, image=image), "FAIL_LIMIT")
        assert p.ask("D_DESTROY", {"sandbox": 1, "generation": 1, "container": one}).name == "D_DONE"
        p.failed(p.create(sandbox=2, image=image), "FAIL_LIMIT")
        assert p.ask("D_DESTROY", {"sandbox": 1, "generation": 2}).name == "D_DONE"
        p.container(sandbox=2, image=image)
        p.failed(p.create(sandbox=3, image=image), "FAIL_LIMIT")


def test_sandbox_does_not_count_while_it_is_being_removed(engine):
    """And counts again when that fails. Of what is being removed there is a bound, too."""
    end = threading.Event()
    with Proxy(engine, config={"MAX_SANDBOXES": 1}) as p:
        image = p.prepare()
        old = [p.container(sandbox=1, image=image)]
        engine.rule("DELETE .*/containers/", times=2, call=lambda c, _: end.wait(60) and engine.send(c, 500, {"message": "made up"}))
        going = [p.send("D_DESTROY", {"sandbox": 1, "generation": 1, "container": old[0]})]
        old.append(p.container(sandbox=2, image=image))
        p.failed(p.create(sandbox=3, image=image), "FAIL_LIMIT")
        going.append(p.send("D_DESTROY", {"sandbox": 2, "generation": 1, "container": old[1]}))
        p.failed(p.create(sandbox=3, image=image), "FAIL_LIMIT")
        end.set()
        for m in p.answers(going):
            p.failed(m, "FAIL_ENGINE")
        for n, id in enumerate(old, 1):
            p.failed(p.create(sandbox=3, image=image), "FAIL_LIMIT")
            assert p.ask("D_DESTROY", {"sandbox": n, "generation": 1, "container": id}).name == "D_DONE"
        p.container(sandbox=3, image=image)


def test_containers_that_were_there_before_count(engine):
    engine.add_container("agent-sandbox-sb_0000000000000001-1", {"agent-sandbox.instance": UUID, "agent-sandbox.kind": "sandbox"})
    with Proxy(engine, config={"MAX_SANDBOXES": 1}) as p:
        p.failed(p.create(sandbox=3), "FAIL_LIMIT")


# the pool


def test_member_of_the_pool_is_a_sandbox_under_a_name_of_its_own(proxy, engine):
    image = proxy.prepare()
    proxy.member(pool=0xAB, image=image)
    (r,) = engine.find("containers/create.name=agent-sandbox-pool_00000000000000ab$")
    want = sandbox_body(image, "agent-sandbox-pool_00000000000000ab", r.json()["HostConfig"]["SecurityOpt"][1])
    want["Labels"]["agent-sandbox.kind"] = "pool"
    assert r.json() == want
    (volume,) = [r.json() for r in engine.find("POST .*/volumes/create")]
    assert volume["Name"] == "agent-sandbox-pool_00000000000000ab" and volume["Labels"]["agent-sandbox.kind"] == "pool"


def test_member_gets_other_limits_within_the_maxima(engine):
    with Proxy(engine, config={"MAX_CPUS": "2", "MAX_MEMORY_MB": "1024", "MAX_PIDS_LIMIT": "300"}) as p:
        cid = p.member()
        assert p.ask("D_UPDATE", {"container": cid, "nano_cpus": 10**9, "memory_mb": 700, "pids_limit": 99}).name == "D_DONE"
        assert p.ask("D_UPDATE", {"container": cid, "nano_cpus": 1 << 60, "memory_mb": 1 << 60, "pids_limit": 1 << 60}).name == "D_DONE"
        assert p.ask("D_UPDATE", {"container": cid, "nano_cpus": -1, "memory_mb": 0, "pids_limit": -9}).name == "D_DONE"
    first, huge, tiny = engine.find(f"POST .*/containers/{cid}/update$")
    assert first.json() == {"NanoCpus": 10**9, "Memory": 700 << 20, "MemorySwap": 700 << 20, "PidsLimit": 99}
    check_update(huge, (2 * 10**9, 1024 << 20, 300))
    check_update(tiny)


def test_update_that_the_engine_refuses_or_takes_in_part_fails(proxy, engine):
    cid = proxy.member()
    limits = {"container": cid, "nano_cpus": 10**9, "memory_mb": 700, "pids_limit": 99}
    engine.rule("/update$", status=200, json={"Warnings": ["no swap limit"]}, times=1)
    proxy.failed(proxy.ask("D_UPDATE", limits), "FAIL_ENGINE")
    engine.rule("/update$", status=500, times=1)
    proxy.failed(proxy.ask("D_UPDATE", limits), "FAIL_ENGINE")
    engine.rule("/update$", status=404, times=1)
    proxy.failed(proxy.ask("D_UPDATE", limits), "FAIL_GONE")
    assert proxy.ask("D_UPDATE", limits).name == "D_DONE"


def test_claimed_member_has_the_name_of_its_sandbox_and_goes_with_its_volume(proxy, engine):
    cid = proxy.member(pool=0xAB)
    assert proxy.ask("D_RENAME", {"container": cid, "sandbox": 5, "generation": 2}).name == "D_DONE"
    assert engine.containers[cid]["Names"] == ["/agent-sandbox-sb_0000000000000005-2"]
    proxy.ask("D_LIST")
    (item,) = [m.fields for m in proxy.seen if m.name == "D_ITEM" and m.fields["kind"] == layout.ITEM_CONTAINER]
    assert (item["sandbox"], item["generation"], item["pool"], item["container"]) == (5, 2, 0xAB, cid)
    (item,) = [m.fields for m in proxy.seen if m.name == "D_ITEM" and m.fields["kind"] == layout.ITEM_VOLUME]
    assert (item["sandbox"], item["pool"]) == (0, 0xAB)
    assert proxy.ask("D_DESTROY", {"sandbox": 5, "generation": 2, "pool": 0xAB, "container": cid}).name == "D_DONE"
    assert not engine.containers and not engine.volumes


@pytest.mark.parametrize("renamed", [False, True])
def test_claimed_member_is_found_under_either_name(proxy, engine, renamed):
    cid = proxy.member(pool=0xAB)
    if renamed:
        proxy.ask("D_RENAME", {"container": cid, "sandbox": 5, "generation": 2})
    assert proxy.ask("D_DESTROY", {"sandbox": 5, "generation": 2, "pool": 0xAB}).name == "D_DONE"
    assert not engine.containers and not engine.volumes


def test_claimed_sandbox_can_get_a_new_container_on_the_members_volume(proxy, engine):
    cid = proxy.member(pool=0xAB)
    proxy.ask("D_RENAME", {"container": cid, "sandbox": 5, "generation": 1})
    assert proxy.ask("D_DESTROY", {"sandbox": 5, "generation": 1, "pool": 0xAB, "container": cid, "keep_volume": 1}).name == "D_DONE"
    new = proxy.container(sandbox=5, generation=1, pool=0xAB, keep_volume=1)
    assert engine.containers[new]["Names"] == ["/agent-sandbox-sb_0000000000000005-1"]
    assert engine.containers[new]["Mounts"] == [{"Type": "volume", "Name": "agent-sandbox-pool_00000000000000ab"}]


def test_name_that_the_engine_refuses_is_a_failure_and_the_member_stays_claimed(proxy, engine):
    cid = proxy.member()
    engine.rule("/rename", status=409, times=1)
    proxy.failed(proxy.ask("D_RENAME", {"container": cid, "sandbox": 5, "generation": 1}), "FAIL_ENGINE")
    proxy.send("D_UPDATE", {"container": cid, "nano_cpus": 1, "memory_mb": 1, "pids_limit": 1})
    proxy.fatal("not of the pool")


def test_claimed_member_whose_name_the_engine_refused_is_not_forgotten_before_it_is_removed(proxy, engine):
    cid = proxy.member(pool=0xAB)
    engine.rule("/rename", status=409, times=1)
    proxy.failed(proxy.ask("D_RENAME", {"container": cid, "sandbox": 5, "generation": 1}), "FAIL_ENGINE")
    assert proxy.ask("D_DESTROY", {"sandbox": 5, "generation": 1}).name == "D_DONE"
    assert cid not in engine.containers


@pytest.mark.parametrize("name", ["D_UPDATE", "D_RENAME"])
def test_only_members_of_the_pool_are_updated_and_renamed(proxy, engine, name):
    cid = proxy.container()
    proxy.send(name, {"container": cid} | ({"sandbox": 5, "generation": 1} if name == "D_RENAME" else {}))
    proxy.fatal("not of the pool")
    assert not engine.find("/(update|rename)")


@pytest.mark.parametrize("name", ["D_UPDATE", "D_RENAME"])
def test_claimed_member_is_one_no_more(proxy, engine, name):
    cid = proxy.member()
    assert proxy.ask("D_RENAME", {"container": cid, "sandbox": 5, "generation": 1}).name == "D_DONE"
    proxy.send(name, {"container": cid} | ({"sandbox": 6, "generation": 1} if name == "D_RENAME" else {}))
    proxy.fatal("not of the pool")
    assert not engine.find("/update") and len(engine.find("/rename")) == 1


@pytest.mark.parametrize(
    "fields",
    [{"pool": 0}, {"generation": 1}, {"network": 1}, {"keep_volume": 1}, {"sandbox": 3}],
    ids=["none", "generation", "network", "volume", "sandbox"],
)
def test_member_that_cannot_be_is_fatal(proxy, engine, fields):
    base = {"sandbox": 0, "generation": 0, "pool": 9, "nano_cpus": 10**9, "memory_mb": 512, "pids_limit": 256, "read_only": 1}
    proxy.send("D_CREATE", base | {"image_id": proxy.prepare()} | fields)
    proxy.fatal("bad create")
    assert not engine.find("containers/create.name=agent-sandbox-(sb|pool)_")


def test_pool_has_a_number_of_its_own(engine):
    with Proxy(engine, config={"MAX_SANDBOXES": 2, "POOL": "2"}) as p:
        image = p.prepare()
        one = p.member(pool=1, image=image)
        p.member(pool=2, image=image)
        member = {"sandbox": 0, "generation": 0, "image": image}
        p.failed(p.create(pool=3, **member), "FAIL_LIMIT")
        p.container(sandbox=7, image=image)
        assert p.ask("D_RENAME", {"container": one, "sandbox": 8, "generation": 1}).name == "D_DONE"
        three = p.member(pool=3, image=image)
        p.failed(p.create(pool=4, **member), "FAIL_LIMIT")
        p.failed(p.ask("D_RENAME", {"container": three, "sandbox": 9, "generation": 1}), "FAIL_LIMIT")
        assert p.ask("D_DESTROY", {"pool": 2}).name == "D_DONE"
        p.member(pool=4, image=image)


def test_members_have_at_most_the_default_memory(engine):
    with Proxy(engine) as p:
        p.member(memory_mb=4096)
    (r,) = engine.find("containers/create.name=agent-sandbox-pool_")
    assert r.json()["HostConfig"]["Memory"] == 512 << 20


def test_image_for_the_pool_is_not_pulled_when_it_was_not_to_be(proxy, engine):
    proxy.failed(proxy.ask("D_PREPARE", {"local": 1}, tail="debian:12"), "FAIL_NO_IMAGE")
    assert not engine.find("images/create")
    proxy.failed(proxy.ask("D_PREPARE", tail="debian:12"), "FAIL_NO_IMAGE")
    assert len(engine.find("images/create")) == 1


UNKNOWN = ["ab" * 32, "x", "../../../x", "a" * 72]


# D_DESTROY without an id means: by name.
@pytest.mark.parametrize(
    ("name", "id"),
    [(name, id) for name in ("D_ATTACH", "D_INSPECT", "D_DESTROY") for id in UNKNOWN] + [("D_ATTACH", ""), ("D_INSPECT", "")],
)
def test_unknown_container_is_fatal_and_asked_for_nowhere(engine, name, id):
    foreign = engine.add_container("agent-sandbox-sb_0000000000000001-1", {})  # without our label
    with Proxy(engine) as p:
        n = len(engine.find(".*"))
        p.send(name, {"container": id if id != "ab" * 32 else foreign})
        p.fatal("container that is not known")
        assert [r.line for r in engine.requests[n:] if "_ping" not in r.line and "/events" not in r.line] == []
    assert foreign in engine.containers


def test_container_that_was_destroyed_is_unknown_again(proxy):
    c = proxy.container()
    assert proxy.ask("D_DESTROY", {"sandbox": 7, "generation": 1, "container": c}).name == "D_DONE"
    proxy.send("D_INSPECT", {"container": c})
    proxy.fatal("container that is not known")


@pytest.mark.parametrize("image", ["sha256:" + "0" * 64, IMAGE, "", "x" * 72])
def test_image_that_was_not_prepared_is_fatal(proxy, image):
    fields = {"sandbox": 7, "generation": 1, "image_id": image}
    proxy.send("D_CREATE", fields)
    proxy.fatal()


def test_base_image_itself_cannot_be_run(proxy, engine):
    proxy.send("D_CREATE", {"sandbox": 7, "generation": 1, "image_id": next(iter(engine.images))})
    proxy.fatal("not prepared")


@pytest.mark.parametrize("fields", [{"sandbox": 0}, {"network": 2}, {"read_only": 7}, {"keep_volume": 9}])
def test_malformed_create_is_fatal(proxy, fields):
    image = proxy.prepare()
    proxy.send("D_CREATE", {"sandbox": 7, "generation": 1, "image_id": image} | fields)
    proxy.fatal("bad create")


@pytest.mark.parametrize("uuid", ["", "x", "../" + UUID[3:], UUID.upper(), UUID + "0"])
def test_malformed_instance_is_fatal(engine, uuid):
    with Proxy(engine, instance=None, up=False) as p:
        p.send("D_INSTANCE", {"uuid": uuid})
        p.fatal("bad instance")


def test_second_instance_and_requests_before_it_are_fatal(engine):
    with Proxy(engine) as p:
        p.send("D_INSTANCE", {"uuid": UUID})
        p.fatal("bad instance")
    with Proxy(engine, instance=None, up=False) as p:
        p.send("D_LIST")
        p.fatal("before its instance")


def random_message(rng, known, images):
    """Mostly what managerd may say; now and then what it may not, which ends the program."""
    names = ["D_PREPARE", "D_CREATE", "D_CREATE", "D_ATTACH", "D_INSPECT", "D_DESTROY", "D_LIST", "D_PING", "D_UPDATE", "D_RENAME"]
    name = rng.choice(names)
    wrong = rng.random() < 0.04
    id = rng.choice(["", rng.randbytes(32).hex(), "../x"] if wrong or not known else list(known))
    fields = {"sandbox": rng.randrange(0 if wrong else 1, 40), "generation": rng.randrange(100)}
    if name in ("D_UPDATE", "D_RENAME"):
        members = [c for c, sandbox in known.items() if sandbox == 0]
        if not members and not wrong:
            return "D_LIST", {}, b""
        id = id if wrong else rng.choice(members)
        numbers = [rng.choice([0, 1, -1, 2**63 - 1, -(2**63), 10**9, 512]) for _ in range(3)]
        if name == "D_UPDATE":
            return name, {"container": id} | dict(zip(("nano_cpus", "memory_mb", "pids_limit"), numbers, strict=True)), b""
        known[id] = fields["sandbox"]
        return name, {"container": id} | fields, b""
    if name == "D_PREPARE":
        alphabet = "abcPY:/@.-_ \n?&#%\x00é" + "python:3.12-slim" * 3
        return (
            name,
            {"who": rng.randrange(3)},
            rng.choice([IMAGE, "localhost:1/x", "no/such", "".join(rng.choices(alphabet, k=rng.randrange(60)))]),
        )
    if name == "D_CREATE":
        numbers = [0, 1, -1, 2**63 - 1, -(2**63), 10**9, 512, rng.randrange(-(2**63), 2**63)]
        fields |= {k: rng.choice(numbers) for k in ("nano_cpus", "memory_mb", "pids_limit")}
        fields |= {k: rng.randrange(256 if wrong else 2) for k in ("network", "read_only", "keep_volume")}
        if rng.random() < 0.3:
            fields |= {"sandbox": 0, "pool": rng.randrange(1, 40)}
            if not wrong:
                fields |= {"generation": 0, "network": 0, "keep_volume": 0}
        return name, fields | {"image_id": IMAGE if wrong or not images else rng.choice(images)}, b""
    if name in ("D_ATTACH", "D_INSPECT"):
        return ("D_LIST", {}, b"") if not known and not wrong else (name, {"container": id}, b"")
    if name == "D_DESTROY":
        fields["container"] = id if wrong or rng.random() < 0.7 and id in known else ""
        if fields["container"] in known:
            del known[id]
        if rng.random() < 0.3:
            fields["pool"] = rng.randrange(1, 40)
        return name, fields | {"keep_volume": rng.randrange(2)}, b""
    return name, {}, b""


def drain(p, known, images, seconds, asked):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            m = p.m.recv(max(0.001, end - time.monotonic()))
        except (TimeoutError, layout.Gone, OSError):
            return
        if m.fd is not None:
            os.close(m.fd)
        if m.name == "D_CREATED":
            known[m.fields["container"]] = asked[m.id]["sandbox"]
        if m.name == "D_PREPARED":
            images.append(m.fields["image_id"])


@pytest.mark.parametrize("seed", range(12))
def test_whatever_managerd_says_only_the_closed_set_is_emitted(engine, seed):
    rng = random.Random(seed)
    for _ in range(4):
        with Proxy(engine) as p:
            known, images, asked = {}, [], {}
            with contextlib.suppress(OSError):
                p.m.send("D_PREPARE", 1, tail=IMAGE)
                drain(p, known, images, 0.1, asked)
                for n in range(25):
                    if rng.random() < 0.02:
                        p.m.send_raw(rng.choice(list(layout.ROWS)), n, rng.randbytes(rng.randrange(300)))
                    else:
                        name, fields, tail = random_message(rng, known, images)
                        p.m.send(name, 1000 + n, fields, tail)
                        asked[1000 + n] = fields
                    drain(p, known, images, 0.01, asked)
            drain(p, known, images, 0.05, asked)
            status = p.wait(0)
            assert status in (None, 1), f"{status}: {p.log()}"
    assert [r.line for r in engine.requests if not closed(r.line)] == []
    for r in engine.find("containers/create.name=agent-sandbox-(sb|pool)_"):
        check_body(r)
    for r in engine.find("/update$"):
        check_update(r)
    for r in engine.requests:
        body = r.method == "POST" and re.search("(containers|volumes|networks)/create|/commit|/update$", r.target)
        assert body or r.method == "PUT" or r.body == b"", r


def test_foreign_things_are_untouched(engine):
    labels = {"agent-sandbox.instance": UUID, "agent-sandbox.kind": "sandbox"}
    foreign = [
        engine.add_container(
            "agent-sandbox-sb_0000000000000001-1", labels | {"agent-sandbox.instance": "11111111-2f0c-4d0e-9c1e-6a6f3a1b2c3d"}
        ),
        engine.add_container("agent-sandbox-sb_0000000000000002-1", {"io.agent-sandbox.managed": "true"}),
        engine.add_container("something-else", labels),
        engine.add_container("agent-sandbox-sb_0000000000000003-1", labels | {"agent-sandbox.kind": "unheard-of"}),
    ]
    engine.volumes["agent-sandbox-sb_0000000000000002-1"] = {"Name": "agent-sandbox-sb_0000000000000002-1", "Labels": {}}
    helper = engine.add_container("agent-sandbox-prepare-0123456789abcdef", labels | {"agent-sandbox.kind": "prepare"})
    with Proxy(engine) as p:
        assert p.ask("D_LIST").name == "D_LIST_END" and [m for m in p.seen if m.name == "D_ITEM"] == []
        for n in (1, 2, 3):
            assert p.ask("D_DESTROY", {"sandbox": n, "generation": 1}).name == "D_DONE"
        assert p.ask("D_PING").name == "D_DONE"
    assert set(engine.containers) == set(foreign) and helper not in engine.containers
    assert list(engine.volumes) == ["agent-sandbox-sb_0000000000000002-1"]


def test_volume_of_another_with_our_name_is_not_used(proxy, engine):
    name = "agent-sandbox-sb_0000000000000007-1"
    engine.volumes[name] = {"Name": name, "Labels": {}}
    proxy.failed(proxy.create(), "FAIL_ENGINE")
    assert name in engine.volumes and not engine.find("name=agent-sandbox-sb_.*")[1:]


def test_list_tells_containers_volumes_and_states(proxy, engine):
    c = proxy.container()
    labels = {"agent-sandbox.instance": UUID, "agent-sandbox.kind": "sandbox"}
    states = {"running": "STATE_RUNNING", "paused": "STATE_PAUSED", "exited": "STATE_EXITED", "removing": "STATE_GONE"}
    ids = {engine.add_container(f"agent-sandbox-sb_00000000000000a{i}-{i}", labels, s): (s, i) for i, s in enumerate(states)}
    odd = engine.add_container("agent-sandbox-odd", labels | {"agent-sandbox.kind": "pool"})
    assert proxy.ask("D_LIST").name == "D_LIST_END"
    items = {m.fields["container"]: m.fields for m in proxy.seen if m.name == "D_ITEM"}
    assert items[c]["state"] == layout.STATE_CREATED and items[c]["sandbox"] == 7 and items[c]["generation"] == 1
    for id, (s, i) in ids.items():
        got = items[id]
        assert (got["sandbox"], got["generation"], got["state"]) == (0xA0 + i, i, getattr(layout, states[s]))
    assert items[odd]["sandbox"] == 0 and items[""]["kind"] == layout.ITEM_VOLUME and items[""]["sandbox"] == 7
    assert proxy.ask("D_INSPECT", {"container": odd}).fields["state"] == layout.STATE_RUNNING


# images


@pytest.mark.parametrize(
    "image", ["a:b:c", "../x", "PYTHON", "python:3.12-slim@sha256:bad", "x y", "-v", "", "a\0b", "a" * 300, "x/../y", "h:99/"]
)
def test_malformed_image_is_refused_before_any_call(proxy, engine, image):
    n = len(engine.find("images"))
    m = proxy.failed(proxy.ask("D_PREPARE", tail=image), "FAIL_BAD_IMAGE")
    assert image in m.tail.decode() or "\0" in image
    assert len(engine.find("images")) == n


def test_image_outside_the_list_is_forbidden(engine):
    with Proxy(engine, config={"ALLOWED_IMAGES": " python:* ,reg.example.com:5000/* ,"}) as p:
        for image in ("alpine", "evil/python:3.12-slim", "pythonx", "python", "reg.example.com:5001/x", "127.0.0.1:5000/x"):
            p.failed(p.ask("D_PREPARE", tail=image), "FAIL_FORBIDDEN", image)
        p.failed(p.ask("D_PREPARE", tail="reg.example.com:5000/x"), "FAIL_NO_IMAGE", "reg.example.com:5000/x")
        p.prepare()


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "169.254.169.254", "localhost", "localhost:5000", "Registry", "reg.example.com:443", "127.1", "10.0.0.1:80"]
)
def test_registries_nearby_are_not_covered_by_a_wildcard(proxy, engine, host):
    proxy.failed(proxy.ask("D_PREPARE", tail=host + "/x"), "FAIL_FORBIDDEN")
    assert not engine.find("images/create") and not engine.find(re.escape(host))


def test_unknown_image_is_pulled_with_a_tag_and_named_when_refused(proxy, engine):
    for image, query in (("no/such", "fromImage=no/such&tag=latest"), ("python:nope", "fromImage=python&tag=nope")):
        proxy.failed(proxy.ask("D_PREPARE", tail=image), "FAIL_NO_IMAGE", f"image {image} is not available: ")
        assert engine.requests[-1].target.endswith("/images/create?" + query)
    digest = "sha256:" + "a" * 64
    proxy.failed(proxy.ask("D_PREPARE", tail="x/y:1@" + digest), "FAIL_NO_IMAGE")
    assert engine.requests[-1].target.endswith("fromImage=x/y&tag=" + digest)
    assert engine.requests[-2].path.endswith("/images/x/y@" + digest + "/json")


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 500, "json": {"message": "dial tcp: network is unreachable"}},
        {"status": 404, "json": {"message": "pull access denied"}},
        {"raw": b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2a\r\n{"errorDetail":{},"error":"made up error"}\n\r\n0\r\n\r\n'},
        {"raw": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"},
        {"raw": b"HTTP/1.1 429 Too Many\r\nContent-Length: 4\r\n\r\nslow"},
    ],
)
def test_every_way_a_pull_fails_is_an_unavailable_image(proxy, engine, answer):
    engine.rule("images/create", **answer)
    proxy.failed(proxy.ask("D_PREPARE", tail="no/such"), "FAIL_NO_IMAGE", "no/such")


def pulled(engine, name, seconds=0.3):
    def call(c, r):
        c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for n in range(3):
            line = json.dumps({"status": "Downloading", "id": "layer", "progressDetail": {"current": n, "total": 3}}).encode() + b"\r\n"
            c.sendall(b"%x\r\n%s\r\n" % (len(line), line))
            time.sleep(seconds / 3)
        engine.add_image(name)
        c.sendall(b"0\r\n\r\n")
        return True

    return call


def test_one_pull_serves_all_who_wait_and_blocks_nobody(proxy, engine):
    engine.rule("images/create", call=pulled(engine, "big:latest", 0.6))
    waiting = [proxy.send("D_PREPARE", tail="big") for _ in range(5)]
    assert proxy.ask("D_PING").name == "D_DONE"
    proxy.container()
    got = proxy.answers(waiting)
    assert {m.name for m in got} == {"D_PREPARED"} and len({m.fields["image_id"] for m in got}) == 1
    assert len(engine.find("images/create")) == 1 and len(engine.find("/commit")) == 2
    assert proxy.log().count("pull of big: Downloading") == 1


@pytest.fixture
def slow(engine):
    """Pulls of all images but "quick" take until they are let go."""

    def call(c, r):
        name = r.query["fromImage"]
        return (name == "quick" or go.wait(120)) and pulled(engine, name + ":latest", 0)(c, r)

    go = threading.Event()
    engine.rule("images/create", call=call)
    yield go
    go.set()


def pulls_begun(engine):
    """Whose, by the first letter of the image. Which of several that were asked for at once comes first is not said."""
    return sorted(r.query["fromImage"][0] for r in engine.find("images/create"))


def test_two_pulls_of_one_tenant_at_once_and_four_of_all(proxy, engine, slow):
    ids = [proxy.send("D_PREPARE", {"who": 1}, f"a{n}") for n in range(4)]
    assert wait_until(lambda: pulls_begun(engine) == ["a", "a"])
    ids += [proxy.send("D_PREPARE", {"who": who}, f"{name}{n}") for who, name in ((2, "b"), (0, "s")) for n in range(3)]
    assert wait_until(lambda: len(pulls_begun(engine)) == 4)
    time.sleep(0.2)
    assert len(pulls_begun(engine)) == 4 and pulls_begun(engine).count("a") == 2
    slow.set()
    assert {m.name for m in proxy.answers(ids)} == {"D_PREPARED"}
    assert pulls_begun(engine) == list("aaaabbbsss")


def test_slow_pulls_of_one_tenant_keep_no_other_waiting(proxy, engine, slow):
    ids = [proxy.send("D_PREPARE", {"who": 1}, f"a{n}") for n in range(20)]
    assert wait_until(lambda: pulls_begun(engine) == ["a", "a"])
    for who in (2, 0):
        engine.images = {id: i for id, i in engine.images.items() if i["name"] != "quick:latest"}
        assert proxy.ask("D_PREPARE", {"who": who}, "quick").name == "D_PREPARED"
    assert pulls_begun(engine) == ["a", "a", "q", "q"]
    slow.set()
    assert {m.name for m in proxy.answers(ids)} == {"D_PREPARED"}


def test_image_that_waits_in_the_queue_of_one_tenant_is_pulled_for_another(proxy, engine, slow):
    ids = [proxy.send("D_PREPARE", {"who": 1}, f"a{n}") for n in range(2)]
    assert wait_until(lambda: pulls_begun(engine) == ["a", "a"])
    ids.append(proxy.send("D_PREPARE", {"who": 1}, "quick"))
    assert wait_until(lambda: engine.find("images/quick:latest/json"))
    assert proxy.ask("D_PREPARE", {"who": 2}, "quick").name == "D_PREPARED"
    assert proxy.answers(ids[2:])[0].name == "D_PREPARED" and pulls_begun(engine) == ["a", "a", "q"]
    slow.set()
    assert {m.name for m in proxy.answers(ids)} == {"D_PREPARED"}


def test_refused_image_is_not_asked_for_again_at_once(proxy, engine):
    for _ in range(3):
        proxy.failed(proxy.ask("D_PREPARE", tail="no/such"), "FAIL_NO_IMAGE")
    assert len(engine.find("images/create")) == 1


def test_any_number_of_images_may_be_refused(proxy, engine):
    """Of which only the last ones are remembered."""
    for n in range(20):
        proxy.failed(proxy.ask("D_PREPARE", tail=f"no/such{n}"), "FAIL_NO_IMAGE")
    assert len(engine.find("images/create")) == 20 and proxy.ask("D_PING").name == "D_DONE"


@pytest.mark.parametrize("kw", [{"Os": "windows"}, {"Architecture": "arm64"}])
def test_image_for_another_platform_is_refused(proxy, engine, kw):
    engine.add_image("other:latest", **kw)
    proxy.failed(proxy.ask("D_PREPARE", tail="other"), "FAIL_BAD_IMAGE", "other")
    assert not engine.find("containers/create")


@pytest.mark.parametrize(
    "step", ["GET .*/images/python.*/json", "GET .*/images/json", "POST .*/containers/create", "PUT ", "POST .*/commit"]
)
def test_preparing_that_fails_leaves_nothing_and_works_the_next_time(proxy, engine, step):
    rule = engine.rule(step, status=500, times=1)
    proxy.failed(proxy.ask("D_PREPARE", tail=IMAGE), "FAIL_ENGINE")
    assert rule.hits == 1
    proxy.prepare()
    assert wait_until(lambda: engine.containers == {})


def test_archive_answer_followed_by_a_reset_is_a_success(proxy, engine):
    def call(c, r):
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        c.close()

    engine.rule("^PUT", call=call)
    proxy.prepare()


# attach


def take(m):
    s = socket.socket(fileno=m.fd)
    assert s.family == socket.AF_UNIX
    s.settimeout(30)
    return s


def test_attach_comes_before_start_and_loses_no_byte(proxy, engine):
    c = proxy.container()

    def attach(conn, r):
        conn.sendall(b"HTTP/1.1 101 UPGRADED\r\nUpgra")
        time.sleep(0.05)
        conn.sendall(b"de: tcp\r\n\r\nfirst bytes" + bytes(range(256)))
        engine.stream(conn)

    engine.rule("/attach", call=attach)
    m = proxy.ask("D_ATTACH", {"container": c})
    assert m.name == "D_ATTACHED" and m.fields["container"] == c
    with take(m) as s:
        assert s.recv(1000) == b"first bytes" + bytes(range(256))
        s.sendall(b"down")
        assert engine.streams[-1].recv(10) == b"down"
    lines = [r.line for r in engine.find(f"containers/{c}")]
    assert [line.split("/")[-1].split("?")[0] for line in lines] == ["json", "attach", "start"]
    request = engine.find("/attach")[0]
    assert request.headers["upgrade"] == "tcp" and request.headers["connection"] == "Upgrade" and request.body == b""
    select.select([], [], [], 0.05)
    assert engine.streams[-1].recv(10) == b"", "no copy of it is left open"


@pytest.mark.parametrize("state, calls", [("running", ["json", "attach", "start"]), ("exited", ["json", "attach", "start"])])
def test_attach_to_what_runs_or_has_ended(proxy, engine, state, calls):
    c = proxy.container()
    engine.containers[c]["State"] = state
    m = proxy.ask("D_ATTACH", {"container": c})
    assert m.name == "D_ATTACHED"
    os.close(m.fd)
    assert [r.path.split("/")[-1] for r in engine.find(f"containers/{c}")] == calls and engine.containers[c]["State"] == "running"


def test_paused_sandbox_is_continued_before_the_attach(proxy, engine):
    c = proxy.container()
    engine.containers[c]["State"] = "paused"
    os.close(proxy.ask("D_ATTACH", {"container": c}).fd)
    assert [r.path.split("/")[-1] for r in engine.find(f"containers/{c}")] == ["json", "unpause", "attach", "start"]


def test_attach_to_what_is_gone(proxy, engine):
    c = proxy.container()
    engine.containers[c]["State"] = "removing"
    proxy.failed(proxy.ask("D_ATTACH", {"container": c}), "FAIL_GONE")
    del engine.containers[c]
    proxy.failed(proxy.ask("D_ATTACH", {"container": c}), "FAIL_GONE")
    assert proxy.ask("D_INSPECT", {"container": c}).fields["state"] == layout.STATE_GONE
    assert not engine.find("/attach")


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.0 101 x\r\n\r\n",
        b"HTTP/1.1 1x1 x\r\n\r\n",
        b"garbage",
        b"HTTP/1.1 101 x\r\n" + b"A: b\r\n" * 3000 + b"\r\n",
        b"",
        b"HTTP/1.1 101 x\r\n",
    ],
)
def test_attach_that_is_refused_or_garbled_hands_nothing_up(proxy, engine, head):
    c = proxy.container()

    def call(conn, r):
        with contextlib.suppress(OSError):
            conn.sendall(head)
        conn.close()

    engine.rule("/attach", call=call)
    m = proxy.ask("D_ATTACH", {"container": c})
    assert m.name == "D_FAILED" and m.fd is None and not engine.find("/start")
    engine.rules.clear()
    os.close(proxy.ask("D_ATTACH", {"container": c}).fd)


@pytest.mark.parametrize("status, why", [(500, "FAIL_ENGINE"), (400, "FAIL_BAD_IMAGE"), (404, "FAIL_GONE")])
def test_start_that_fails_closes_the_stream(proxy, engine, status, why):
    c = proxy.container()
    engine.rule("/start", status=status)
    proxy.failed(proxy.ask("D_ATTACH", {"container": c}), why)
    assert engine.streams[-1].recv(10) == b""


def test_second_attach_while_one_is_under_way_is_fatal(proxy, engine):
    c = proxy.container()
    engine.rule("/attach", hang=True)
    proxy.send("D_ATTACH", {"container": c})
    proxy.send("D_ATTACH", {"container": c})
    proxy.fatal("twice")


# create and destroy when the engine misbehaves


def test_create_with_a_warning_is_a_failure_and_leaves_nothing(proxy, engine):
    image = proxy.prepare()

    def call(c, r):
        id = engine.add_container(r.query["name"], r.json()["Labels"], "created")
        return engine.send(c, 201, {"Id": id, "Warnings": ["Limitation discarded."]})

    engine.rule("containers/create", call=call)
    proxy.failed(proxy.create(image=image), "FAIL_ENGINE")
    assert engine.containers == {} and engine.volumes == {}
    assert "Limitation discarded" in proxy.log()
    engine.rules.clear()
    proxy.container(image=image)


@pytest.mark.parametrize("step", ["POST .*/volumes/create", "POST .*/containers/create"])
@pytest.mark.parametrize(
    "kw",
    [
        {"status": 500},
        {"status": 409},
        {"raw": b"HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\n{}x"},
        {"status": 201, "json": {"Id": "short"}},
    ],
)
def test_create_that_fails_leaves_nothing(proxy, engine, step, kw):
    image = proxy.prepare()
    engine.rule(step, **kw)
    proxy.failed(proxy.create(image=image), "FAIL_ENGINE")
    assert engine.containers == {} and engine.volumes == {}
    engine.rules.clear()
    proxy.container(image=image)


def test_create_that_fails_keeps_a_volume_that_was_there(proxy, engine):
    c = proxy.container()
    assert proxy.ask("D_DESTROY", {"sandbox": 7, "generation": 1, "container": c, "keep_volume": 1}).name == "D_DONE"
    assert list(engine.volumes) and engine.containers == {}
    image = proxy.prepare()
    engine.rule("containers/create", status=500, times=1)
    proxy.failed(proxy.create(image=image, keep_volume=1), "FAIL_ENGINE")
    assert list(engine.volumes)
    proxy.container(image=image, keep_volume=1)


def test_new_container_for_a_kept_volume_takes_nothing_of_the_image_into_it(proxy, engine):
    c = proxy.container()
    assert proxy.ask("D_DESTROY", {"sandbox": 7, "generation": 1, "container": c, "keep_volume": 1}).name == "D_DONE"
    proxy.container(keep_volume=1)
    first, second = (r.json()["HostConfig"]["Mounts"][0] for r in engine.find("containers/create.*sb_"))
    assert second == first | {"VolumeOptions": first["VolumeOptions"] | {"NoCopy": True}}


@pytest.mark.parametrize("network", [0, 1])
def test_volume_that_is_to_be_kept_but_is_not_there_is_not_made_up(engine, network):
    with Proxy(engine, config={"ALLOW_NETWORK": "true"}) as p:
        p.failed(p.create(keep_volume=1, network=network), "FAIL_GONE")
        assert wait_until(lambda: engine.volumes == {} and engine.containers == {})
        p.container(network=network)


def test_engine_says_which_one_it_is(engine):
    def identity(up=1):
        with Proxy(engine, up=False) as p:
            return p.m.recv_until("D_ENGINE").fields["id"]

    one = identity()
    assert one == engine.info["ID"] + "/" + engine.networks["none"]["Id"] == identity()
    engine.networks["none"]["Id"] = "ab" * 32
    assert identity() != one, "other data below the same host's engine"
    del engine.networks["none"]
    engine.info["ID"] = 'a \x1b"\xe4' + "x" * 300
    got = identity()
    assert got.startswith('a__"__xxx') and len(got) < 136


def test_engine_that_is_replaced_behind_its_socket_is_noticed_before_it_is_asked_anything(proxy, engine):
    c, go = proxy.container(), threading.Event()
    engine.networks["none"] = engine.networks["none"] | {"Id": "cd" * 32}
    asked = len(engine.find("networks/none"))
    engine.rule("networks/none", times=1, call=lambda c, r: go.wait(60) and engine.send(c, 200, engine.networks["none"]))
    engine.containers.clear()
    for waiter in engine.event_waiters:
        waiter.shutdown(socket.SHUT_RDWR)  # as a restart of the engine does
    assert wait_until(lambda: len(engine.find("networks/none")) > asked)
    proxy.failed(proxy.ask("D_INSPECT", {"container": c}), "FAIL_UNREACHABLE")
    assert not engine.find(f"GET .*/containers/{c}/json")
    go.set()
    m = proxy.m.recv_until("D_ENGINE")
    assert m.fields["up"] == 0 and "another" in m.tail.decode()
    m = proxy.m.recv_until("D_ENGINE")
    assert m.fields["up"] == 1 and m.fields["id"].endswith("/" + "cd" * 32)


def test_engine_that_was_restarted_is_listed_again(proxy, engine):
    c = proxy.container()
    for waiter in engine.event_waiters:
        waiter.shutdown(socket.SHUT_RDWR)
    assert proxy.m.recv_until("D_ENGINE").fields["up"] == 1
    assert proxy.ask("D_INSPECT", {"container": c}).name == "D_STATE"
    assert wait_until(lambda: len(engine.find("GET .*/events")) == 2), "its events are followed again"


def test_prepared_image_that_was_removed_is_an_unavailable_image(proxy, engine):
    image = proxy.prepare()
    del engine.images[image]
    proxy.failed(proxy.create(image=image), "FAIL_NO_IMAGE")


def test_destroy_is_idempotent_and_waits_for_what_is_in_progress(proxy, engine):
    c = proxy.container()
    engine.rule(f"DELETE .*containers/{c}", status=409, json={"message": "removal is already in progress"}, times=3)
    engine.rule("DELETE .*volumes", status=409, json={"message": "volume is in use"}, times=2)
    assert proxy.ask("D_DESTROY", {"sandbox": 7, "generation": 1, "container": c}).name == "D_DONE"
    assert engine.containers == {} and engine.volumes == {}
    assert proxy.ask("D_DESTROY", {"sandbox": 7, "generation": 1}).name == "D_DONE"
    assert proxy.ask("D_DESTROY", {"sandbox": 99, "generation": 4}).name == "D_DONE"


def test_destroy_of_what_was_removed_behind_our_back_is_done(proxy, engine):
    c = proxy.container()
    engine.containers.clear()
    engine.volumes.clear()
    assert proxy.ask("D_DESTROY", {"sandbox": 7, "generation": 1, "container": c}).name == "D_DONE"


def test_destroy_by_name_finds_what_was_made(proxy, engine):
    proxy.container()
    proxy.container(sandbox=8)
    assert proxy.ask("D_DESTROY", {"sandbox": 7, "generation": 1}).name == "D_DONE"
    assert len(engine.containers) == len(engine.volumes) == 1
    proxy.container()


def test_late_answer_to_a_removal_forgets_no_container_that_was_made_meanwhile(proxy, engine):
    c = proxy.container()
    told = threading.Event()

    def removed_and_not_said(conn, r):
        del engine.containers[c]
        told.wait(30)
        return engine.send(conn, 204)

    engine.rule(rf"DELETE .*/containers/{c}", times=1, call=removed_and_not_said)
    kept = {"sandbox": 7, "generation": 1, "keep_volume": 1}
    late = proxy.send("D_DESTROY", kept | {"container": c})
    assert wait_until(lambda: c not in engine.containers)
    assert proxy.ask("D_DESTROY", kept).name == "D_DONE"
    new = proxy.container(keep_volume=1)
    told.set()
    assert proxy.answer(late).name == "D_DONE"
    os.close(proxy.ask("D_ATTACH", {"container": new}).fd)


def test_list_that_is_older_than_a_removal_brings_no_container_back(proxy, engine):
    c = proxy.container()
    old, told = list(engine.containers.values()), threading.Event()

    def late(conn, r):
        told.wait(30)
        return engine.send(conn, 200, old)

    engine.rule(r"GET .*/containers/json", times=1, call=late)
    listing = proxy.send("D_LIST")
    assert wait_until(lambda: engine.find("GET .*/containers/json"))
    assert proxy.ask("D_DESTROY", {"sandbox": 7, "generation": 1, "container": c, "keep_volume": 1}).name == "D_DONE"
    told.set()
    items = []
    while (m := proxy.m.recv()).name != "D_LIST_END":
        assert m.id == listing
        items.append(m.fields["kind"])
    assert items == [layout.ITEM_VOLUME]
    os.close(proxy.ask("D_ATTACH", {"container": proxy.container(keep_volume=1)}).fd)


@pytest.mark.parametrize("fields", [{"sandbox": 7, "generation": 1}, {"sandbox": 0, "generation": 0, "pool": 9}])
def test_volume_that_is_removed_while_its_container_is_made_comes_back_as_ours(proxy, engine, fields):
    go, image = threading.Event(), proxy.prepare()
    engine.rule("containers/create", call=lambda c, r: go.wait(60) and engine.route(c, r))
    id = proxy.send("D_CREATE", {"image_id": image} | fields)
    assert wait_until(lambda: engine.find("containers/create") and engine.volumes)
    assert proxy.ask("D_DESTROY", fields).name == "D_DONE" and not engine.volumes
    go.set()
    assert proxy.answer(id).name == "D_CREATED" and len(engine.volumes) == 1
    proxy.send("D_LIST")
    assert proxy.m.recv_until("D_ITEM").name == "D_ITEM"
    assert proxy.ask("D_DESTROY", fields).name == "D_DONE"
    assert not engine.volumes and not engine.containers


def test_destroy_that_fails_says_so_and_can_be_repeated(proxy, engine):
    c = proxy.container()
    engine.rule("DELETE .*volumes", status=500, times=2)
    engine.exit_at_once = True
    proxy.failed(proxy.ask("D_DESTROY", {"sandbox": 7, "generation": 1, "container": c}), "FAIL_ENGINE")
    assert proxy.ask("D_DESTROY", {"sandbox": 7, "generation": 1, "container": c}).name == "D_DONE"
    assert engine.volumes == {} and engine.containers == {}


def test_volume_that_the_engine_cannot_remove_is_emptied_from_inside_first(proxy, engine):
    """As when its folders lie deeper than the engine has descriptors."""
    c = proxy.container()
    engine.rule("DELETE .*volumes", status=500, times=1)
    engine.exit_at_once = True
    assert proxy.ask("D_DESTROY", {"sandbox": 7, "generation": 1, "container": c}).name == "D_DONE"
    assert engine.volumes == {} and engine.containers == {}
    first, second = (r.json() for r in engine.find("name=agent-sandbox-sb_.*"))
    assert second["Cmd"] == ["--sweep"] and not second["OpenStdin"] and second["Entrypoint"] == first["Entrypoint"]
    same = {"CapDrop", "SecurityOpt", "NetworkMode", "ReadonlyRootfs", "IpcMode", "Mounts", "LogConfig", "Ulimits"}
    assert all(first["HostConfig"][k] == second["HostConfig"][k] for k in same)
    assert set(first["HostConfig"]) == set(second["HostConfig"]) and first["User"] == second["User"]


def test_sandboxes_whose_volumes_had_to_be_emptied_leave_room_for_others(engine):
    """Else whoever makes deep folders could use up MAX_SANDBOXES for good."""
    with Proxy(engine, config={"MAX_SANDBOXES": 2}) as p:
        engine.exit_at_once = True
        for sandbox in range(1, 9):
            c = p.container(sandbox=sandbox)
            engine.rule("DELETE .*volumes", status=500, times=1)
            assert p.ask("D_DESTROY", {"sandbox": sandbox, "generation": 1, "container": c}).name == "D_DONE"
            assert engine.volumes == {} and engine.containers == {}
        p.container(sandbox=1)


def test_what_emptied_a_volume_and_was_not_removed_is_removed_the_next_time(proxy, engine):
    c = proxy.container()
    engine.rule("DELETE .*volumes", status=500, times=1)
    engine.rule(f"DELETE .*containers/(?!{c})", status=500, times=1)
    engine.exit_at_once = True
    proxy.failed(proxy.ask("D_DESTROY", {"sandbox": 7, "generation": 1, "container": c}), "FAIL_ENGINE")
    assert len(engine.containers) == 1
    assert proxy.ask("D_DESTROY", {"sandbox": 7, "generation": 1, "container": c}).name == "D_DONE"
    assert engine.volumes == {} and engine.containers == {}
    proxy.container()


def test_inspect_tells_oom_and_a_foreign_workspace(proxy, engine):
    c = proxy.container()
    engine.containers[c] |= {"State": "exited", "oom": True, "ExitCode": 137}
    got = proxy.ask("D_INSPECT", {"container": c}).fields
    assert (got["container"], got["state"], got["oom"], got["foreign_workspace"]) == (c, layout.STATE_EXITED, 1, 0)
    engine.containers[c] |= {"oom": False, "ExitCode": layout.GUEST_EXIT_WORKSPACE}
    got = proxy.ask("D_INSPECT", {"container": c}).fields
    assert (got["oom"], got["foreign_workspace"]) == (0, 1)


# network and runtime


def test_network_is_made_once_and_closed_between_sandboxes(proxy, engine):
    image = proxy.prepare()
    proxy.container(image=image)
    assert not engine.find("networks/(agent|create)")
    proxy.container(sandbox=8, image=image, network=1)
    proxy.container(sandbox=9, image=image, network=1)
    (made,) = engine.find("networks/create")
    body = made.json()
    assert body["Driver"] == "bridge" and body["Name"] == "agent-sandbox-net" and body["EnableIPv6"] is False
    assert body["Options"]["com.docker.network.bridge.enable_icc"] == "false"
    assert len(body["Options"]["com.docker.network.bridge.name"]) <= 15
    assert [r.json()["HostConfig"]["NetworkMode"] for r in engine.find("name=agent-sandbox-sb_")] == ["none"] + ["agent-sandbox-net"] * 2


@pytest.mark.parametrize(
    "network", [{"Driver": "host", "Options": {}}, {"Driver": "bridge", "Options": {}}, {"Driver": "bridge", "Options": None}]
)
def test_network_on_which_sandboxes_reach_each_other_is_not_used(proxy, engine, network):
    engine.networks["agent-sandbox-net"] = {"Name": "agent-sandbox-net"} | network
    proxy.failed(proxy.create(network=1), "FAIL_ENGINE")
    assert not engine.find("name=agent-sandbox-sb_.*create") and engine.volumes == {}


def test_network_that_is_not_allowed_is_forbidden(engine):
    with Proxy(engine, config={"ALLOW_NETWORK": "false"}) as p:
        p.failed(p.create(network=1), "FAIL_FORBIDDEN", "network")
        assert not engine.find("networks/agent|name=agent-sandbox-sb")


@pytest.mark.parametrize("option", ["name=rootless", "name=userns"])
def test_engine_in_a_user_namespace_is_not_asked_for_what_it_cannot_set(engine, option):
    engine.info["SecurityOptions"] = ["name=seccomp,profile=default", option]
    with Proxy(engine) as p:
        p.container()
    host = engine.find("name=agent-sandbox-sb_")[0].json()["HostConfig"]
    assert "Sysctls" not in host and "nr_inodes" in host["Tmpfs"]["/tmp"]


def test_under_gvisor_a_ulimit_carries_the_process_limit(engine):
    with Proxy(engine, config={"DOCKER_RUNTIME": "runsc"}) as p:
        p.container(pids_limit=100)
    host = engine.find("name=agent-sandbox-sb_")[0].json()["HostConfig"]
    assert host["Runtime"] == "runsc" and host["PidsLimit"] > 400 and {"Name": "nproc", "Soft": 100, "Hard": 100} in host["Ulimits"]
    rules = json.loads(host["SecurityOpt"][1].removeprefix("seccomp="))["syscalls"]
    assert sum("ioprio_set" in r["names"] for r in rules) == 1, "the filter that gVisor can load"


# which engines, and when they are away


@pytest.mark.parametrize(
    "api, low, spoken",
    [("1.41", "1.12", 41), ("1.45", "1.24", 45), ("1.55", "1.40", 55), ("1.60", "1.44", 55), ("1.55", "1.55", 55)],
)
def test_highest_common_api_version_is_spoken_in_every_path(folder, api, low, spoken):
    with FakeEngine(folder, api=api, min_api=low) as engine, Proxy(engine) as p:
        os.close(p.ask("D_ATTACH", {"container": p.container()}).fd)
        assert [r.line for r in engine.requests if not closed(r.line, spoken)] == []


@pytest.mark.parametrize("kw, word", [
    ({"api": "1.40"}, "1.40"),
    ({"api": "1.60", "min_api": "1.56"}, "1.56"),
    ({"api": "2.0"}, "2.0"),
    ({"components": ("Podman Engine", "Conmon")}, "Podman"),
    ({"info": {"MemoryLimit": False}}, "MemoryLimit"),
    ({"info": {"PidsLimit": False}}, "PidsLimit"),
    ({"info": {"CpuCfsQuota": None}}, "CpuCfsQuota"),
    ({"info": {"NCPU": 0}}, "CPU"),
])  # fmt: skip
def test_engine_that_cannot_be_used_ends_the_start_with_one_line(folder, kw, word):
    with FakeEngine(folder, **kw) as engine:
        p = layout.Program("dockerd-proxy", ["chan"], path=engine.path, ready=False, log_level="info")
        assert p.wait(30) == 2 and word in p.log() and p.log().count("\n") == 1
        p.stop()


def test_runtime_that_the_engine_lacks_ends_the_start(engine):
    p = layout.Program("dockerd-proxy", ["chan"], path=engine.path, ready=False, config={"DOCKER_RUNTIME": "kata"}, log_level="info")
    assert p.wait(30) == 2 and "kata" in p.log()
    p.stop()


@pytest.mark.parametrize("user", ["0:0", "1000", "root:root", "1000:0", "-1:1", "9999999:1", "2097152:1", "1:2097152", "", "1:2:3"])
def test_user_that_cannot_be_one_ends_the_start(engine, user):
    p = layout.Program("dockerd-proxy", ["chan"], path=engine.path, ready=False, config={"SANDBOX_USER": user})
    assert p.wait(30) == 2 and "SANDBOX_USER" in p.log()
    p.stop()


@pytest.mark.parametrize("user", ["1:1", "2097151:2097151"])
def test_user_is_the_one_of_the_setting_in_the_container_and_for_its_folder(engine, user):
    with Proxy(engine, config={"SANDBOX_USER": user}) as p:
        p.container()
    assert engine.find("name=agent-sandbox-sb_")[0].json()["User"] == user
    folder = tarfile.open(fileobj=io.BytesIO(engine.find("^PUT")[0].body)).getmember("workspace")
    assert f"{folder.uid}:{folder.gid}" == user


def test_start_without_an_engine_is_ready_and_finds_it_when_it_comes(engine):
    engine.stop()
    with Proxy(engine, up=False) as p:
        m = p.m.recv_until("D_ENGINE")
        assert m.fields["up"] == 0 and m.tail
        p.failed(p.ask("D_LIST"), "FAIL_UNREACHABLE")
        p.failed(p.ask("D_PREPARE", tail=IMAGE), "FAIL_UNREACHABLE")
        p.failed(p.ask("D_PING"), "FAIL_UNREACHABLE")


def test_engine_without_an_answer_is_down_within_seconds_and_all_that_wait_fail(proxy, engine):
    c = proxy.container()
    engine.hung = True
    ids = [proxy.send("D_LIST"), proxy.send("D_ATTACH", {"container": c}), proxy.send("D_PREPARE", tail=IMAGE)]
    start, got = time.monotonic(), {}
    while len(got) < 4:
        m = proxy.m.recv()
        got[m.id] = m
    assert time.monotonic() - start < 5.5 + SLACK
    for i in ids:
        proxy.failed(got[i], "FAIL_UNREACHABLE")
    assert got[0].name == "D_ENGINE" and got[0].fields["up"] == 0
    asked = len(engine.find(f"containers/{c}/json"))
    proxy.failed(proxy.ask("D_INSPECT", {"container": c}), "FAIL_UNREACHABLE")
    assert len(engine.find(f"containers/{c}/json")) == asked, "at once: it is not asked"
    engine.hung = False
    assert proxy.m.recv_until("D_ENGINE").fields["up"] == 1
    m = proxy.ask("D_INSPECT", {"container": c})
    assert m.name == "D_STATE", "what was known is still known"


def test_ping_of_a_hung_engine_fails_in_two_seconds(proxy, engine):
    engine.hung = True
    start = time.monotonic()
    proxy.failed(proxy.ask("D_PING"), "FAIL_UNREACHABLE")
    assert 1.0 < time.monotonic() - start < 2.8 + SLACK


def test_engine_that_hangs_at_the_start_does_not_hold_the_start(engine):
    engine.hung = True
    with Proxy(engine, up=False) as p:
        assert p.m.recv_until("D_ENGINE").fields["up"] == 0


def test_slow_call_blocks_no_other(proxy, engine):
    c = proxy.container()
    go = threading.Event()
    engine.rule(f"DELETE .*{c}", times=1, call=lambda conn, r: go.wait(60) and engine.send(conn, 204))
    slow = proxy.send("D_DESTROY", {"sandbox": 7, "generation": 1, "container": c})
    assert proxy.ask("D_LIST").name == "D_LIST_END"
    go.set()
    assert proxy.answer(slow).name == "D_DONE"


def test_answer_without_end_is_cut_off(proxy, engine):
    def call(c, r):
        with contextlib.suppress(OSError):
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[")
            for _ in range(100):
                c.sendall(b" " * (1 << 20))
        c.close()

    engine.rule("containers/json", call=call, times=1)
    proxy.failed(proxy.ask("D_LIST"), "FAIL_UNREACHABLE")
    assert proxy.ask("D_LIST").name == "D_LIST_END"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"[1,2]",
        b'"x"',
        b"{{{",
        b"[" * 5000,
        b'[{"Id":5,"Names":"x","Labels":[]}]',
        b"\xff\xfe",
        b'{"Volumes":{"a":1}}',
    ],
)
@pytest.mark.parametrize("where", ["containers/json", "/volumes", "images/python", "images/json", "containers/create", "/commit"])
def test_answer_of_any_shape_is_survived(proxy, engine, where, body):
    engine.rule(where, raw=b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    for m in proxy.answers([proxy.send("D_LIST"), proxy.send("D_PREPARE", tail=IMAGE)]):
        assert m.name in ("D_LIST_END", "D_FAILED", "D_PREPARED")
    engine.rules.clear()
    assert proxy.ask("D_LIST").name == "D_LIST_END"


# events


def follows(engine, times=1):
    """Whether it has asked for the events so often, and is listening."""
    return wait_until(lambda: len(engine.find("/events")) >= times and engine.event_waiters)


def test_events_of_ours_are_told_and_others_not(proxy, engine):
    c = proxy.container()
    assert follows(engine)
    foreign = engine.add_container("x", {})
    at = time.time_ns()
    for n, action in enumerate(("start", "die", "pause", "unpause", "exec_create: sh", "oom")):
        engine.event(action, c, at + n)
        engine.event(action, foreign, at + n + 100)
    got = []
    while len(got) < 4:
        m = proxy.m.recv_until("D_EVENT")
        assert m.fields["container"] == c
        got.append(m.fields["event"])
    assert got == [layout.EVENT_START, layout.EVENT_DIE, layout.EVENT_PAUSE, layout.EVENT_UNPAUSE]
    assert proxy.m.silent(0.3)


def test_events_are_taken_up_where_they_ended(proxy, engine):
    c = proxy.container()
    at = time.time_ns()
    assert follows(engine)
    engine.event("start", c, at)
    assert proxy.m.recv_until("D_EVENT").fields["event"] == layout.EVENT_START
    for conn in list(engine.event_waiters):
        conn.shutdown(socket.SHUT_RDWR)
    engine.event_waiters.clear()
    assert follows(engine, 2)
    assert engine.find("/events")[1].query["since"] == f"{(at + 1) // 10**9}.{(at + 1) % 10**9:09d}"
    engine.event("die", c, at + 5)
    assert proxy.m.recv_until("D_EVENT").fields["event"] == layout.EVENT_DIE


# what it holds


def test_nothing_is_held_after_many_rounds(proxy, engine):
    image = proxy.prepare()

    def rounds(n, first):
        for i in range(first, first + n):
            c = proxy.container(sandbox=i + 1, image=image)
            os.close(proxy.ask("D_ATTACH", {"container": c}).fd)
            assert proxy.ask("D_DESTROY", {"sandbox": i + 1, "generation": 1, "container": c}).name == "D_DONE"
        return len(descriptors(proxy.pid)), kib(proxy.pid, "VmRSS")

    before, after = rounds(40, 0), rounds(120, 40)
    assert entries(proxy.pid, "task") == [str(proxy.pid)], "it has no threads"
    assert wait_until(lambda: len(descriptors(proxy.pid)) <= before[0] + 1)
    assert after[1] < before[1] + 1500 or "san-" in str(layout.BUILD), "sanitizers keep what was freed"


def test_end_of_managerd_or_of_the_parent_ends_it(engine):
    with Proxy(engine) as p:
        p.m.close()
        assert p.wait(30) in (0, 1)
    with Proxy(engine) as p:
        p.parent.close()
        assert p.wait(30) == 0


def test_engine_texts_reach_the_log_with_control_bytes_escaped_and_no_client(proxy, engine):
    engine.rule("volumes/create", status=500, json={"message": "made up\n2026 forged: line\x1b[31m /var/lib/docker"})
    m = proxy.failed(proxy.create(), "FAIL_ENGINE")
    assert m.tail == b"the container engine reported an error"
    assert "\\x0a2026 forged" in proxy.log() and "\x1b" not in proxy.log()
