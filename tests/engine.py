#!/usr/bin/python3
"""A Docker engine of one's own: namespaces, data, socket and cgroups apart from everything else on the machine.

Its processes live in one PID, mount and network namespace, so that ending the first of them ends all. Used by the
runner and the tests as a class; by hand:  tests/engine.py start DIR [--version 26.1|gvisor] [--live-restore] | load DIR | stop DIR
"""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

from machine import alive, children, descendants, everyone, link, read, send, wait_until

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "build/images"
ROOTFS = ROOT / "build/rootfs"
DEFAULT_IMAGE = "python:3.12-slim"


class EngineError(Exception):
    pass


class UnixHttp(http.client.HTTPConnection):
    """HTTP over the engine's socket."""

    def __init__(self, path, timeout=30):
        super().__init__("localhost", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Engine:
    """dir holds everything; version is "host" (the installed dockerd), that of a folder made by tests/tools/rootfs, or "gvisor": Docker 26.1
    with gVisor's runsc beside its own runtime. The default is what the run is for."""

    def __init__(self, dir, version=None, size=None):
        self.dir, self.version, self.size = Path(dir), version or os.environ.get("AS_TEST_ENGINE_VERSION", "host"), size
        self.root = None if self.version == "host" else ROOTFS / {"gvisor": "26.1"}.get(self.version, self.version)
        self.runtime = "runsc" if self.version == "gvisor" else ""
        self.sock = self.dir / "docker.sock"
        self.url = f"unix://{self.sock}"
        self.cgroup = "/as-test-" + self.dir.parent.name + "-" + self.dir.name
        self.options = []

    @classmethod
    def at(cls, dir):
        """The engine that another process started in dir."""
        e = cls(dir, **json.loads((Path(dir) / "engine.json").read_text()))
        e.options = json.loads((Path(dir) / "options.json").read_text())
        return e

    def _pid(self, name):
        try:
            return int((self.dir / name).read_text())
        except (OSError, ValueError):
            return 0

    def holder(self):
        """The first process of the namespaces."""
        pid = self._pid("holder")
        return pid if pid and alive(pid) else 0

    def dockerd(self):
        """dockerd's process id, 0 when it does not run."""
        for outer in [self._pid("outer")]:
            for pid in children(outer) if outer else []:
                if alive(pid):
                    return pid
        return 0

    def _hold(self):
        """Start the namespaces: a shell as their PID 1 that only waits and reaps."""
        self.dir.mkdir(parents=True, exist_ok=True)
        self.dir.chmod(0o755)
        (self.dir / "engine.json").write_text(json.dumps({"version": self.version, "size": self.size}))
        (self.dir / "data").mkdir(exist_ok=True)
        setup = "ip link set lo up && "
        if self.size:
            setup += f"mount -t tmpfs -o size={self.size} engine {self.dir}/data && "
        if root := self.root:
            bind = " && ".join(f"mount --rbind /{d} {root}/{d}" for d in ("proc", "sys", "dev"))
            setup += (
                f"mount --bind {root} {root} && {bind} && mount -t tmpfs run {root}/run && mkdir -p {root}{self.dir} && "
                f"mount --rbind {self.dir} {root}{self.dir} && mkdir -p {root}/.old && cd {root} && pivot_root . .old && "
                "umount -l /.old && cd / && "
            )
        # While it waits for its sleep, a shell reaps whatever else ends.
        setup += f"touch {self.dir}/held; while :; do sleep 3600; done"
        (self.dir / "held").unlink(missing_ok=True)
        command = ["unshare", "-n", "-m", "-p", "-f", "--kill-child", "--mount-proc", "sh", "-c", setup]
        log = open(self.dir / "holder.log", "ab")
        p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        wait_until(lambda: (self.dir / "held").exists() or p.poll() is not None)
        inner = children(p.pid)
        if not inner or not (self.dir / "held").exists():
            p.kill()
            raise EngineError("cannot make the engine's namespaces: " + (self.dir / "holder.log").read_text()[-500:])
        self._outer_holder = p
        (self.dir / "holder").write_text(str(inner[0]))

    def start(self, *options, seconds=60):
        """Start dockerd (again), with further options; returns when it answers."""
        if not self.holder():
            self._hold()
        if options or not (self.dir / "options.json").exists():
            self.options = list(options)
            (self.dir / "options.json").write_text(json.dumps(self.options))
        for stale in ("pid", "exec/containerd/containerd.pid"):
            (self.dir / stale).unlink(missing_ok=True)
        command = [
            "nsenter", f"-t{self.holder()}", "-n", "-m", "-p", "--",
            "dockerd", "--data-root", f"{self.dir}/data", "--exec-root", f"{self.dir}/exec", "-H", self.url,
            "-p", f"{self.dir}/pid", "--bridge=none", "--cgroup-parent", self.cgroup, *self._runtimes(), *self.options,
        ]  # fmt: skip
        env = {"PATH": "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin", "HOME": "/root", "TMPDIR": str(self.dir)}
        if self.version != "host":
            env["DOCKER_MIN_API_VERSION"] = "1.44"
        self.log = open(self.dir / "dockerd.log", "ab")
        p = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)
        self._outer = p
        (self.dir / "outer").write_text(str(p.pid))
        if not wait_until(lambda: self.answers() or p.poll() is not None, seconds) or p.poll() is not None:
            raise EngineError("dockerd does not start: " + (self.dir / "dockerd.log").read_text(errors="replace")[-1500:])
        return self

    def api(self, method, path, body=None, timeout=30, headers=None):
        """One call; returns (status, bytes)."""
        c = UnixHttp(self.sock, timeout)
        try:
            c.request(method, path, body, headers or {})
            r = c.getresponse()
            return r.status, r.read()
        finally:
            c.close()

    def _runtimes(self):
        """gVisor without a network of its own: this version of it takes the namespaces of newer kernels for the host's, and refuses."""
        if not self.runtime:
            return []
        path = self.dir / "daemon.json"
        arguments = ["--platform=systrap", "--network=none", "--oci-seccomp"]
        path.write_text(json.dumps({"runtimes": {self.runtime: {"path": "/usr/bin/runsc", "runtimeArgs": arguments}}}))
        return ["--config-file", str(path)]

    def call(self, method, path, body=None, timeout=30):
        data = json.dumps(body) if body is not None else None
        status, got = self.api(method, "/v1.41" * (self.version == "host") + ("/v1.44" * (self.version != "host")) + path, data,
                               timeout, {"Content-Type": "application/json"})  # fmt: skip
        if status >= 400:
            raise EngineError(f"{method} {path}: {status} {got[:300]!r}")
        return json.loads(got) if got.strip() else None

    def answers(self):
        try:
            return self.api("GET", "/version", timeout=2)[0] == 200
        except OSError:
            return False

    def docker(self, *args, check=True, timeout=60):
        """The docker command against this engine; returns its output."""
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin", "HOME": str(self.dir), "DOCKER_HOST": self.url}
        if self.version != "host":
            command = ["nsenter", f"-t{self.holder()}", "-m", "--", "docker", *args]
        else:
            command = ["docker", *args]
        p = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout)
        if check and p.returncode:
            raise EngineError(f"docker {' '.join(args[:3])}: {p.stderr.strip()}")
        return p.stdout.strip()

    def import_tar(self, tar, ref, *changes):
        """docker import, over the API."""
        repo, tag = ref.rsplit(":", 1)
        query = f"fromSrc=-&repo={repo}&tag={tag}" + "".join("&changes=" + _quote(c) for c in changes)
        with open(tar, "rb") as f:
            length = {"Content-Length": str(os.fstat(f.fileno()).st_size), "Content-Type": "application/x-tar"}
            prefix = "/v1.41" if self.version == "host" else "/v1.44"
            status, got = self.api("POST", f"{prefix}/images/create?{query}", f, 180, length)
        if status != 200 or b'"error"' in got:
            raise EngineError(f"import of {ref}: {status} {got[-300:]!r}")

    def load_images(self, tar=IMAGES / "debian-python-bookworm.tar"):
        """The image that the server takes by default, from Debian packages."""
        self.import_tar(tar, DEFAULT_IMAGE, 'CMD ["python3"]')

    def send(self, sig):
        assert send(self.dockerd(), sig)
        if sig == signal.SIGCONT:
            self._wake()

    def _wake(self):
        """nsenter stops when its child is stopped, and would not see it end."""
        if outer := self._pid("outer"):
            send(outer, signal.SIGCONT)

    def down(self, sig=signal.SIGTERM, seconds=30):
        """End dockerd (and with SIGTERM its containerd); what --live-restore keeps stays."""
        pid = self.dockerd()
        if not pid:
            return
        send(pid, sig)
        if not wait_until(lambda: not alive(pid), seconds):
            send(pid)
            wait_until(lambda: not alive(pid))
        if getattr(self, "_outer", None):
            self._outer.wait(30)
        if sig == signal.SIGKILL:
            for p in self.inside():
                if read(p, "comm").strip() == b"containerd":
                    send(p)
        self.sock.unlink(missing_ok=True)

    def inside(self):
        """All processes of the engine's PID namespace but the first, by their ids out here."""
        holder = self.holder()
        if not holder:
            return []
        ns = link(holder, "ns/pid")
        return [p for p in everyone() if p != holder and link(p, "ns/pid_for_children") == ns and alive(p)]

    def restart(self, *options):
        self.down()
        return self.start(*options)

    def stop(self):
        """End everything and clean up; returns what could not be removed, or ended only by force."""
        left = []
        holder = self.holder()
        pids = descendants(holder) + self.inside() if holder else []
        if holder:
            self._wake()
            send(holder)
            if not wait_until(lambda: not any(alive(p) for p in [holder, *pids])):
                left += [f"process {p}" for p in [holder, *pids] if alive(p)]
        if getattr(self, "_outer_holder", None):
            self._outer_holder.wait(30)
        left += self._remove_cgroups()
        wait_until(lambda: shutil.rmtree(self.dir, ignore_errors=True) or not self.dir.exists())
        if self.dir.exists():
            left.append(str(self.dir))
        mounts = [line.split()[1] for line in open("/proc/mounts") if str(self.dir) in line]
        return left + [f"mount {m}" for m in mounts]

    def _remove_cgroups(self):
        """Empty cgroups of dead containers; also those of an engine that was killed."""
        left = []
        for top in [Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").glob("*/")]:
            base = top / self.cgroup.lstrip("/")
            if not base.is_dir() or top.is_symlink():
                continue
            for d, _, _ in os.walk(base, topdown=False):
                if not wait_until(lambda d=d: _rmdir(d)):
                    left.append(f"cgroup {d}")
        return left


def _rmdir(path):
    try:
        os.rmdir(path)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


def _quote(text):
    from urllib.parse import quote

    return quote(text, safe="")


def main(argv):
    verb, where, options = argv[0], Path(argv[1]).resolve(), argv[2:]
    if verb == "start":
        version = None
        if "--version" in options:
            at = options.index("--version")
            version = options[at + 1]
            del options[at : at + 2]
        print(Engine(where, version).start(*options).url)
        return 0
    e = Engine.at(where)
    if verb == "load":
        e.load_images(*options)
    elif verb == "stop":
        left = e.stop()
        print("\n".join(left), end="")
        return 1 if left else 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
