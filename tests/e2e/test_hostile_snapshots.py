"""Snapshots that a hostile PID 1 made up, restored by the real one: refused, or put harmlessly below /workspace."""

import images
import pytest
from harness import BUILD, Server

OUTSIDE = ["/tmp/out", "/escape", "/workspace/../out", "/etc/out", "/tmp/out2"]


def field(value, size):
    """An octal number, or base 256 when it is negative or too large."""
    if 0 <= value < 8 ** (size - 1):
        return b"%0*o\0" % (size - 1, value)
    return (b"\xff" if value < 0 else b"\x80") + (value % 256 ** (size - 1)).to_bytes(size - 1, "big")


def head(name, type=b"0", size=0, link=b"", mode=0o644, mtime=1, magic=b"ustar\x0000", prefix=b"", dev=(0, 0)):
    h = bytearray(512)
    h[0:100] = name.ljust(100, b"\0")[:100]
    h[100:108], h[108:116], h[116:124] = field(mode, 8), field(0, 8), field(0, 8)
    h[124:136], h[136:148], h[148:156] = field(size, 12), field(mtime, 12), b" " * 8
    h[156:157], h[157:257], h[257:265] = type, link.ljust(100, b"\0")[:100], magic
    h[329:337], h[337:345] = field(dev[0], 8), field(dev[1], 8)
    h[345:500] = prefix.ljust(155, b"\0")[:155]
    h[148:156] = b"%06o\0 " % sum(h)
    return bytes(h)


def file(name, data=b"data", **more):
    return head(name, size=len(data), **more) + data + bytes(-len(data) % 512)


def pax(records, *entries, type=b"x"):
    body = b""
    for key, value in records:
        text = b" " + key + b"=" + value + b"\n"
        n = len(text)
        while len(b"%d" % n) + len(text) != n:
            n = len(b"%d" % n) + len(text)
        body += b"%d" % n + text
    return file(b"pax", body, type=type) + b"".join(entries)


def long_name(name, type=b"L"):
    return file(b"././@LongLink", name + b"\0", type=type, magic=b"ustar  \0")


END = bytes(1024)
KEPT = file(b"kept", b"kept")  # an honest entry in each of them

HARMLESS = {  # restored as they are; nothing outside is touched
    "link-out": head(b"l", b"2", link=b"/tmp") + head(b"m", b"2", link=b"../../etc/passwd"),
    "twice": file(b"a", b"1") + file(b"a", b"2") + head(b"a", b"2", link=b"/tmp/out") + file(b"a", b"3"),
    "folder-then-link-then-folder": head(b"d/", b"5", mode=0o700) + head(b"d", b"2", link=b"/tmp") + head(b"d/", b"5"),
    "link-then-file": head(b"a", b"2", link=b"/tmp/out") + file(b"a", b"x"),
    "hardlink-to-symlink": head(b"l", b"2", link=b"/tmp/out") + head(b"h", b"1", link=b"l") + file(b"h", b"x"),
    "setuid": file(b"s", b"#!/bin/sh\n", mode=0o6755) + head(b"sd/", b"5", mode=0o7777),
    "fifo-then-file": head(b"f", b"6") + file(b"f", b"x") + head(b"g", b"6"),
    "root-entry": head(b"./", b"5", mode=0o755) + head(b".", b"5", mode=0o700),
    "mtime-negative": file(b"a", mtime=-5) + file(b"b", mtime=2**62) + pax([(b"mtime", b"-99999999999999999999.5")], file(b"c")),
    "pax-far-times": pax([(b"atime", b"1e99"), (b"ctime", b"nan")], file(b"a")),
    "old-format": file(b"v7", magic=bytes(8)) + head(b"v7d/", b"0", magic=bytes(8)),
    "global-pax": pax([(b"path", b"/tmp/out"), (b"uid", b"0")], file(b"a"), type=b"g"),
    "no-mode-folder": head(b"d/", b"5", mode=0) + file(b"d/f"),
    "xattrs": pax([(b"SCHILY.xattr.security.capability", b"\1\0\0\2" + bytes(16)), (b"SCHILY.xattr.trusted.x", b"y")], file(b"a")),
    "pax-uid": pax([(b"uid", b"99999999999999999999"), (b"gid", b"-1"), (b"uname", b"root")], file(b"a")),
}

REFUSED = {
    "dotdot": file(b"../out"),
    "dotdot-inside": head(b"a/", b"5") + file(b"a/../../out"),
    "absolute": file(b"/tmp/out"),
    "through-link": head(b"l", b"2", link=b"/tmp") + file(b"l/out"),
    "through-link-deep": head(b"a/", b"5") + head(b"a/l", b"2", link=b"..") + file(b"a/l/l/out"),
    "through-hardlinked-link": head(b"l", b"2", link=b"/tmp") + head(b"h", b"1", link=b"l") + file(b"h/out"),
    "link-swap": head(b"d/", b"5") + file(b"d/x") + head(b"e", b"2", link=b"/tmp") + file(b"e/out"),
    "hardlink-out": head(b"h", b"1", link=b"/etc/passwd"),
    "hardlink-dotdot": head(b"h", b"1", link=b"../etc/passwd"),
    "hardlink-through-link": head(b"l", b"2", link=b"/etc") + head(b"h", b"1", link=b"l/passwd"),
    "hardlink-missing": head(b"h", b"1", link=b"later") + file(b"later"),
    "hardlink-itself": head(b"h", b"1", link=b"h"),
    "hardlink-folder": head(b"d/", b"5") + head(b"h", b"1", link=b"d"),
    "device": head(b"z", b"3", dev=(1, 5), mode=0o666),
    "block-device": head(b"z", b"4", dev=(8, 0), mode=0o666),
    "pax-absolute": pax([(b"path", b"/tmp/out")], file(b"a")),
    "pax-dotdot": pax([(b"path", b"x/../../out")], file(b"a")),
    "pax-link-out": pax([(b"linkpath", b"/etc/passwd")], head(b"h", b"1", link=b"kept")),
    "gnu-long-dotdot": long_name(b"x/" * 60 + b"../" * 70 + b"out") + file(b"a", magic=b"ustar  \0"),
    "name-64k": pax([(b"path", b"n" * 65536)], file(b"a")),
    "path-64k": pax([(b"path", b"n/" * 32768)], file(b"a")),
    "link-64k": pax([(b"linkpath", b"n" * 65536)], head(b"l", b"2", link=b"x")),
    "cut-data": head(b"a", size=10**6) + b"x" * 1000,
    "cut-header": KEPT[:512] + b"kept" + bytes(508) + head(b"b")[:200],
    "size-negative": head(b"a", size=-5) + b"data" + bytes(508),
    "pax-size-negative": pax([(b"size", b"-1")], file(b"a")),
    "checksum": head(b"a").replace(b"ustar", b"uster"),
    "garbage": b"this is no tar at all " * 1000,
}

EITHER = {
    "size-huge": pax([(b"size", b"9223372036854775807")], file(b"a")),
    "pax-over-its-length": file(b"pax", b"99999 path=/tmp/out\n", type=b"x") + file(b"a"),
    "pax-huge": file(b"pax", b"30000008 comment=" + b"c" * 3_000_000, type=b"x") + file(b"a"),
    "gnu-long-1m": long_name(b"n/" * 500_000) + file(b"a", magic=b"ustar  \0"),
    "sparse-lies": pax(
        [
            (b"GNU.sparse.major", b"1"),
            (b"GNU.sparse.minor", b"0"),
            (b"GNU.sparse.name", b"../../tmp/out"),
            (b"GNU.sparse.realsize", b"9223372036854775807"),
        ],
        file(b"a", b"1\n9223372036854775000\n512\n" + bytes(487) + b"x" * 512),
    ),  # fmt: skip
    "sparse-negative": pax(
        [(b"GNU.sparse.map", b"-10,20,5,-3"), (b"GNU.sparse.numblocks", b"2"), (b"GNU.sparse.size", b"-7")], file(b"a", b"x" * 20)
    ),
    "sparse-overlap": pax(
        [(b"GNU.sparse.map", b"0,10,5,10"), (b"GNU.sparse.numblocks", b"2"), (b"GNU.sparse.size", b"100")], file(b"a", b"x" * 20)
    ),
    "trailing": b"",
    "solaris-acl": file(b"acl", b"user::rwx,user:0:rwx\0", type=b"A") + file(b"a"),
    "unknown-type": head(b"a", b"Z", size=4) + b"data" + bytes(508),
    "dumpdir": file(b"d/", b"Y../../out\0\0", type=b"D", magic=b"ustar  \0"),
    "multivolume": file(b"a", type=b"M", magic=b"ustar  \0"),
    "volume-label": head(b"../../out", b"V", magic=b"ustar  \0"),
    "depth": pax([(b"path", b"d/" * 2000 + b"f")], file(b"a")),
    "empty": None,
    "not-even-empty": None,
}


# A rollback and a fork unpack alike; how each fails is its own.
FORKED = ("link-out", "setuid", "device", "through-link", "cut-data", "garbage", "trailing")


def tars():
    out = {}
    for name, body in (HARMLESS | REFUSED | EITHER).items():
        out[name] = b"" if body is None else (body if name in ("garbage", "checksum") else KEPT + body)
        if not name.startswith(("cut", "garbage", "empty")):
            out[name] += END
    out["trailing"] += b"trailing garbage" * 10000
    return out


@pytest.fixture(scope="module")
def made(engine):
    """A server whose snapshots were all made up; its sandboxes from now on are real ones."""
    members = {"snaps": None} | {f"snaps/{name}.tar": data for name, data in tars().items()}
    images.tiny(engine, "hostile:snapshots", members=members)
    s = Server(engine, programs=BUILD / "tests/hostile", DEFAULT_IMAGE="hostile:snapshots").start()
    try:
        box, ids = s.api.create(memory_mb=64), {}
        for name in tars():
            box.exec([f"snap=/snaps/{name}.tar"])
            ids[name] = box.snapshot()
        box.delete()
        s.end()
        s.programs = BUILD
        s.start()
        real = s.api.create(memory_mb=128)
        yield s, ids, real
    finally:
        s.close()


def untouched(box):
    seen = box.exec(["sh", "-c", "ls -d " + " ".join(OUTSIDE) + "; echo; ls -A /tmp"])
    assert seen["stdout"] == "\n", seen


def usable(box):
    assert box.sh("echo x > /workspace/.new && cat /workspace/.new && rm /workspace/.new") == "x\n"


@pytest.mark.parametrize("name", [*HARMLESS, *REFUSED, *EITHER])
def test_made_up_snapshot_is_refused_or_restored_harmlessly(made, name):
    server, ids, box = made
    box.put("old", b"as it was")
    memory = server.memory()
    answer = box.post_rollback(ids[name])
    if answer.status_code == 200:
        assert name not in REFUSED
        if name not in ("empty", "not-even-empty"):
            assert box.content("kept") == b"kept"
        assert "old" not in box.names()
    else:
        assert name not in HARMLESS, answer.text
        assert answer.status_code in (400, 409, 413, 422, 500, 502, 507), answer.text
        assert box.content("old") == b"as it was", "a rollback that failed took the old state with it"
    usable(box)
    untouched(box)
    if name == "setuid" and answer.status_code == 200:
        assert box.sh("test -e s && id -u") != "0\n"
    assert server.memory() < memory + 8192
    server.clean()  # what is being removed still counts against MAX_SANDBOXES
    if name not in FORKED:
        return
    fork = server.api.post_fork(ids[name])
    assert (fork.status_code == 201) == (answer.status_code == 200), (answer.text, fork.text)
    if fork.status_code == 201:
        server.api.ask("DELETE", "/v1/sandboxes/" + fork.json()["id"])
    server.clean()
