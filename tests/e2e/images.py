"""Small images made on the spot: a static busybox and what a test wants around it."""

import fcntl
import io
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NODE_IMAGE = "node:20-slim"

BUSYBOX = "/bin/busybox"
APPLETS = "sh cat echo ls mkdir rm true false sleep touch id stat head tail seq tr wc dd df kill ps ln chmod find printf env test yes sha256sum cut timeout setsid pidof truncate"


def tar_of(members):
    """members: name → bytes (a file), None (a folder), "-> target" (a link), or a tuple (one of these, mode, uid, gid)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
        for name, what in members.items():
            mode = uid = gid = None
            if isinstance(what, tuple):
                what, mode, uid, gid = what
            m = tarfile.TarInfo(name)
            m.uid, m.gid = uid or 0, gid or 0
            if what is None:
                m.type, m.mode = tarfile.DIRTYPE, mode or 0o755
                t.addfile(m)
            elif isinstance(what, str) and what.startswith("-> "):
                m.type, m.linkname = tarfile.SYMTYPE, what[3:]
                t.addfile(m)
            else:
                data = what.encode() if isinstance(what, str) else what
                m.size, m.mode = len(data), mode or 0o644
                t.addfile(m, io.BytesIO(data))
    return out.getvalue()


def busybox():
    """The members of a tiny image with a shell."""
    members = {"bin": None, "tmp": (None, 0o1777, 0, 0), "etc": None, "proc": None, "sys": None, "dev": None}
    members["bin/busybox"] = (open(BUSYBOX, "rb").read(), 0o755, 0, 0)
    for applet in APPLETS.split():
        members["bin/" + applet] = "-> busybox"
    return members


def load(engine, ref, members, *changes):
    """Import an image under this name."""
    with tempfile.NamedTemporaryFile(delete=False) as f:
        f.write(tar_of(members))
    try:
        engine.import_tar(f.name, ref, *changes)
    finally:
        os.unlink(f.name)
    return ref


def tiny(engine, ref="tiny:1", *changes, **more):
    """A busybox image, with further members."""
    return load(engine, ref, busybox() | more.get("members", {}), *changes)


def node(engine, ref=NODE_IMAGE):
    """Debian's Node under the name that users have; built once, and loaded once into each engine."""
    tar = ROOT / "build/images/debian-node-bookworm.tar"
    tar.parent.mkdir(parents=True, exist_ok=True)
    with open(tar.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if engine.api("GET", f"/v1.41/images/{ref}/json")[0] != 200:
            subprocess.run([ROOT / "tools/image", "bookworm", tar, "nodejs,ca-certificates"], check=True)
            engine.import_tar(tar, ref, 'CMD ["node"]')
    return ref
