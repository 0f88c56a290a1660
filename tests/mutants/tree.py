"""A copy of the tree that is built once, and over it a layer that is thrown away with each change: the work tree is never touched.

All of it runs in a mount namespace of its own where the work tree is read-only, and each test in a process and network namespace of its
own: a program whose check is gone cannot do more harm than end its test.
"""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BOX = [
    "unshare",
    "-n",
    "-i",
    "-p",
    "-f",
    "--kill-child",
    "--mount-proc",
    "sh",
    "-c",
    'ip link set lo up; ulimit -v 16000000; ulimit -f 4000000; ulimit -t "$0"; exec "$@"',
]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Late(Exception):
    pass


def run(tree, command, seconds, cpu=None):
    """(exit status, output) of a command in the tree; Late when it has no end. cpu: it is a test, each process of which has so many
    seconds of a processor (or "unlimited"): a loop without an end is seen soon, and the same on a machine that is busy."""
    env = {
        "PATH": PATH,
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(tree.parent / "tmp"),
        "CMOCKA_MESSAGE_OUTPUT": "TAP",
    }
    p = subprocess.Popen([*([*BOX, str(cpu)] if cpu else []), *map(str, command)], cwd=tree, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip
    try:
        out, _ = p.communicate(timeout=seconds)
        return p.returncode, out.decode(errors="replace")
    except subprocess.TimeoutExpired:
        p.kill()  # and with the first process of its namespace everything in it
        p.communicate()
        raise Late from None


def make(tree, *goals, jobs=1):
    """Whether the compiler would have warned is not the question; an index beyond its array is a trap, and so is noticed."""
    flags = ["WARN=-w", "CFLAGS=-O1 -fsanitize=bounds,shift,signed-integer-overflow -fsanitize-undefined-trap-on-error"]
    return run(tree, ["make", "-s", f"-j{jobs}", "--no-print-directory", *flags, *goals], 1800)


def copy(to):
    """What git knows. It is built anew, so that nothing depends on how."""
    names = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True).stdout.split(
        b"\0"
    )
    for name in filter(None, names):
        source, target = ROOT / os.fsdecode(name), to / os.fsdecode(name)
        if source.exists() or source.is_symlink():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    (to / "build").mkdir()
    (to / "build/venv").symlink_to(ROOT / "build/venv")


@contextlib.contextmanager
def layer(base, place):
    """The tree as it was built, to be changed at will until the end."""
    for d in ("up", "work", "tree", "tmp"):
        (place / d).mkdir(parents=True)
        (place / d).chmod(0o1777 if d == "tmp" else 0o755)
    options = f"lowerdir={base},upperdir={place}/up,workdir={place}/work"
    subprocess.run(["mount", "-t", "overlay", "mutant", "-o", options, place / "tree"], check=True)
    try:
        yield place / "tree"
    finally:
        subprocess.run(["umount", "-l", place / "tree"], check=True)
        shutil.rmtree(place, ignore_errors=True)


def apart():
    """This program again in a mount namespace of its own, with the work tree read-only; returns in there."""
    if os.environ.get("AS_MUTANTS_APART") != "yes":
        os.environ["AS_MUTANTS_APART"] = "yes"
        script = f'mount --make-rprivate /; mount --bind "{ROOT}" "{ROOT}" && mount -o remount,bind,ro "{ROOT}" && exec "$@"'
        os.execvp("unshare", ["unshare", "-m", "sh", "-c", script, "sh", "/usr/bin/python3", *os.sys.argv])
