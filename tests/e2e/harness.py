"""What the end-to-end tests stand on: a server of their own, a small client, an engine that can be made to fail."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from engine import DEFAULT_IMAGE, Engine  # noqa: E402
from front import FRONT  # noqa: E402
from machine import alive, descendants, descriptors, free_port, kib, link, processor_time_of_all, send, wait_until  # noqa: E402

BUILD = Path(os.environ.get("AS_TEST_BUILD", ROOT / "build"))
KEY = "e2e-key-0123456789abcdef"
MEMBER = "agent-sandbox-pool_"
# Sandboxes have gVisor's kernel: where that is weaker than Linux, a test says so by the mark not_gvisor("why"); docs/ENGINES.md has the list.
GVISOR = os.environ.get("AS_TEST_ENGINE_VERSION") == "gvisor"
PROGRAMS = ("agent-sandboxd", "apid", "managerd", "dockerd-proxy", "egressd", "keyd", "sessiond")
CODES = {
    400: "invalid_request", 401: "unauthorized", 403: "forbidden", 404: "not_found", 405: "method_not_allowed", 408: "timeout", 409: "conflict",
    410: "gone", 413: "payload_too_large", 414: "uri_too_long", 415: "unsupported_media_type", 417: "expectation_failed",
    422: "validation_error", 429: "limit_exceeded", 431: "headers_too_large", 500: "internal_error", 501: "not_implemented",
    502: "backend_error", 503: "unavailable", 505: "http_version_not_supported", 507: "insufficient_storage",
}  # fmt: skip

__all__ = ["DEFAULT_IMAGE", "Engine"]


def check_error(answer, *statuses):
    """The answer is an error of one of these statuses, in the one shape; returns its message."""
    assert answer.status_code in statuses, f"{answer.status_code}, expected {statuses}: {answer.text[:400]}"
    body = answer.json()
    assert set(body) == {"error"} and set(body["error"]) == {"code", "message"}, body
    assert body["error"]["code"] == CODES[answer.status_code]
    assert isinstance(body["error"]["message"], str) and body["error"]["message"]
    return body["error"]["message"]


def at_once(calls):
    """Runs the callables at the same moment; their results in order."""
    ready = threading.Barrier(len(calls))

    def one(call):
        ready.wait(30)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(one, calls))


class Api:
    """The REST API of one server. Remembers what it made, so that a test can leave nothing."""

    def __init__(self, url, key=KEY):
        self.url, self.key = url, key
        self.sandboxes, self.snapshots = [], []
        self._local = threading.local()

    def session(self):
        if not hasattr(self._local, "session"):
            self._local.session = requests.Session()
            self._local.session.trust_env = False
            self._local.session.verify = FRONT.verify
        return self._local.session

    def ask(self, method, path, *, headers=None, timeout=60, key=None, **more):
        head = {"X-API-Key": self.key if key is None else key} | (headers or {})
        try:
            answer = self.session().request(method, self.url + path, headers=head, timeout=timeout, **more)
            # A proxy in front closes a connection on which it had not read all when the refusal came, without a word of it.
            if not FRONT.gate and answer.status_code >= 400 and {"data", "json"} & set(more) and not more.get("stream"):
                self.session().close()
            return answer
        except requests.ConnectionError:
            # A kept connection may have been closed meanwhile, as HTTP allows. Only what is harmless is sent twice.
            if method not in ("GET", "HEAD"):
                raise
            self.session().close()
            return self.session().request(method, self.url + path, headers=head, timeout=timeout, **more)

    def fresh(self):
        """Forget kept connections, before a request that must not meet a dead one."""
        self.session().close()
        return self

    def note(self, answer):
        if answer.status_code == 201:
            made = answer.json()["id"]
            (self.sandboxes if made.startswith("sb_") else self.snapshots).append(made)
        return answer

    def post_sandbox(self, spec=None, headers=None, timeout=60):
        return self.note(self.ask("POST", "/v1/sandboxes", json=spec or {}, headers=headers, timeout=timeout))

    def create(self, **spec):
        answer = self.post_sandbox({"timeout_seconds": 600} | spec)
        assert answer.status_code == 201, f"create: {answer.status_code} {answer.text[:500]}"
        return Box(self, answer.json())

    def post_fork(self, snapshot, **spec):
        return self.note(self.ask("POST", f"/v1/snapshots/{snapshot}/fork", json=spec, timeout=60))

    def fork(self, snapshot, **spec):
        answer = self.post_fork(snapshot, **spec)
        assert answer.status_code == 201, f"fork: {answer.status_code} {answer.text[:500]}"
        return Box(self, answer.json())

    def list(self, query=""):
        answer = self.ask("GET", "/v1/sandboxes" + query)
        assert answer.status_code == 200, answer.text[:300]
        return answer.json()["sandboxes"]

    def ids(self):
        return [s["id"] for s in self.list()]

    def snapshot_ids(self):
        return [s["id"] for s in self.ask("GET", "/v1/snapshots").json()["snapshots"]]

    def healthy(self):
        try:
            return self.ask("GET", "/healthz", timeout=10).status_code == 200
        except requests.RequestException:
            return False

    def clear(self):
        """Delete all that was made through this object."""
        with contextlib.suppress(requests.RequestException):
            for s in self.sandboxes:
                self.ask("DELETE", f"/v1/sandboxes/{s}", timeout=60)
            for s in self.snapshots:
                self.ask("DELETE", f"/v1/snapshots/{s}", timeout=60)
        self.sandboxes.clear()
        self.snapshots.clear()

    def delete_all(self):
        """Delete all that the server knows."""
        for s in self.ids():
            self.ask("DELETE", f"/v1/sandboxes/{s}", timeout=60)
        for s in self.snapshot_ids():
            self.ask("DELETE", f"/v1/snapshots/{s}", timeout=60)
        self.sandboxes.clear()
        self.snapshots.clear()


class Box:
    """A sandbox, by its id."""

    def __init__(self, api, data):
        self.api, self.data, self.id = api, data, data["id"]
        self.path = f"/v1/sandboxes/{self.id}"

    def get(self, query=""):
        return self.api.ask("GET", self.path + query)

    def delete(self):
        return self.api.ask("DELETE", self.path)

    def post_exec(self, command, query="", timeout=60, **fields):
        return self.api.ask("POST", f"{self.path}/exec{query}", json={"command": command} | fields, timeout=timeout)

    def exec(self, command, query="", timeout=60, **fields):
        answer = self.post_exec(command, query, timeout, **fields)
        assert answer.status_code == 200, f"exec: {answer.status_code} {answer.text[:500]}"
        return answer.json()

    def sh(self, command, **fields):
        """The standard output of a command that must succeed."""
        result = self.exec(command, **fields)
        assert result["exit_code"] == 0 and not result["timed_out"], result
        return result["stdout"]

    def python(self, source, **fields):
        return self.sh(["python3", "-c", source], **fields)

    def post_stream(self, command, query="", timeout=60, **fields):
        body = {"command": command} | fields
        return self.api.ask("POST", f"{self.path}/exec/stream{query}", json=body, stream=True, timeout=timeout)

    def stream(self, command, query="", timeout=60, **fields):
        answer = self.post_stream(command, query, timeout, **fields)
        assert answer.status_code == 200, f"stream: {answer.status_code} {answer.text[:500]}"
        return Events(answer)

    def write(self, path, data=b"", **params):
        return self.api.ask("PUT", f"{self.path}/files", params={"path": path} | params, data=data)

    def put(self, path, data=b"", **params):
        answer = self.write(path, data, **params)
        assert answer.status_code == 200, f"write: {answer.status_code} {answer.text[:500]}"
        return answer.json()

    def read(self, path, **more):
        return self.api.ask("GET", f"{self.path}/files", params={"path": path}, **more)

    def content(self, path):
        answer = self.read(path)
        assert answer.status_code == 200, f"read: {answer.status_code} {answer.text[:500]}"
        return answer.content

    def files(self, path="/workspace"):
        return self.api.ask("GET", f"{self.path}/files/list", params={"path": path})

    def names(self, path="/workspace"):
        answer = self.files(path)
        assert answer.status_code == 200, f"list: {answer.status_code} {answer.text[:500]}"
        return [e["name"] for e in answer.json()["entries"]]

    def post_snapshot(self, **body):
        return self.api.note(self.api.ask("POST", f"{self.path}/snapshots", json=body, timeout=120))

    def snapshot(self, **body):
        answer = self.post_snapshot(**body)
        assert answer.status_code == 201, f"snapshot: {answer.status_code} {answer.text[:500]}"
        return answer.json()["id"]

    def post_rollback(self, snapshot):
        return self.api.ask("POST", f"{self.path}/rollback", json={"snapshot_id": snapshot}, timeout=120)

    def rollback(self, snapshot):
        answer = self.post_rollback(snapshot)
        assert answer.status_code == 200, f"rollback: {answer.status_code} {answer.text[:500]}"
        return answer.json()

    def running(self, mark):
        """How many processes inside carry this word in their arguments (not counting the one that looks)."""
        source = (
            "import os,sys\nn=0\nfor p in os.listdir('/proc'):\n"
            " if not p.isdigit() or int(p) == os.getpid(): continue\n"
            " try:\n"
            "  args = open(f'/proc/{p}/cmdline','rb').read().split(b'\\0')\n"
            "  state = open(f'/proc/{p}/stat').read().rsplit(')',1)[1].split()[0]\n"
            " except OSError: continue\n"
            " n += sys.argv[1].encode() in args and state not in 'ZX'\nprint(n)"
        )
        return int(self.sh(["python3", "-c", source, mark]))


class Events:
    """The lines of an exec/stream answer, as they come."""

    def __init__(self, answer):
        self.answer, self.cut = answer, None
        self._lines = self._read()

    def _read(self):
        rest = b""
        try:
            for piece in self.answer.iter_content(None):
                rest += piece
                while b"\n" in rest:
                    line, rest = rest.split(b"\n", 1)
                    yield json.loads(line)
        except requests.RequestException as exc:
            self.cut = exc

    def next(self):
        return next(self._lines)

    def all(self):
        return list(self._lines)

    def close(self):
        self.answer.close()


def text(events, kind="stdout"):
    return "".join(e["data"] for e in events if e["type"] == kind)


class Server:
    """A server on a free port with a data directory of its own."""

    alive = []  # those whose logs a failed test shows
    front = FRONT

    def __init__(self, engine, socket_path=None, programs=BUILD, **settings):
        self.engine, self.programs = engine, programs
        self.dir = Path(tempfile.mkdtemp(prefix="as-e2e-"))
        self.dir.chmod(0o755)
        self.data, self.log = self.dir / "data", self.dir / "log"
        self.port = free_port()
        self.url = f"{self.front.scheme}://127.0.0.1:{self.port}"
        self.api = Api(self.url)
        self.settings = {"API_KEYS": KEY, "PORT": self.port, "DATA_DIR": self.data, "REAP_INTERVAL_SECONDS": 0.5}
        self.settings |= {"DOCKER_RUNTIME": engine.runtime} if engine.runtime else {}
        self.settings |= {"POOL": os.environ.get("AS_TEST_POOL", 0)} | self.front.settings(self.port) | settings
        self.docker_host = f"unix://{socket_path}" if socket_path else engine.url
        self.process = None
        Server.alive.append(self)

    def environment(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("AGENT_SANDBOX_", "AGENTBOX_", "AS_"))}
        env |= {"AGENT_SANDBOX_" + k: str(v) for k, v in self.settings.items()}
        return env | {"DOCKER_HOST": self.docker_host}

    def launch(self, *arguments):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [self.programs / "agent-sandbox", "serve", *arguments], env=self.environment(), cwd=self.dir,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        return self

    def start(self, seconds=60):
        self.launch()
        self.front.start(self)
        up = wait_until(lambda: self.api.healthy() or self.process.poll() is not None, seconds)
        assert up and self.process.poll() is None, "the server does not start:\n" + self.tail()
        return self

    def tail(self, size=3000):
        return self.log.read_text(errors="replace")[-size:] if self.log.exists() else ""

    def pids(self):
        """Programs by name: a list of process ids each (several sessiond)."""
        out = {name: [] for name in PROGRAMS}
        for pid in [self.process.pid, *descendants(self.process.pid)]:
            name = os.path.basename(link(pid, "exe")).removesuffix(" (deleted)")
            if name in out:
                out[name].append(pid)
        return out

    def pid(self, program):
        found = self.pids()[program]
        assert found, f"{program} does not run:\n{self.tail()}"
        return found[0]

    def tree(self):
        return [self.process.pid, *descendants(self.process.pid)] if self.process else []

    def end(self, sig=signal.SIGTERM, seconds=30):
        """Ends the server; nothing of it may be left. Returns its exit status."""
        if self.process is None:
            return None
        pids = self.tree()
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            for p in pids:
                send(p)
            self.process.wait(30)
            raise AssertionError(f"the server did not end within {seconds} s:\n{self.tail()}") from None
        left = wait_until(lambda: not [p for p in pids if alive(p)])
        assert left, f"left after the server: {[p for p in pids if alive(p)]}"
        self.process = None
        self.api.fresh()
        return status

    def kill(self, program):
        """kill -9 of one program that runs; its process id."""
        killed = wait_until(lambda: next((p for p in self.pids()[program] if alive(p) and send(p)), None))
        assert killed, f"{program} does not run:\n{self.tail()}"
        return killed

    def kill_program(self, program):
        """kill -9 of one program, and wait for what the parent makes of it: a clean restart of all."""
        victim = self.kill(program)
        if victim == self.process.pid:
            self.process.wait(30)
            self.api.fresh()
            self.start()
            return
        assert wait_until(lambda: not alive(victim))
        if program != "sessiond":
            assert wait_until(lambda: self.settled(victim)), "no restart:\n" + self.tail()
        self.api.fresh()

    def settled(self, *gone):
        """All programs run, none of them is one of those, and it answers."""
        pids = self.pids()
        if any(not pids[p] for p in PROGRAMS[:6]) or set(gone) & {p for v in pids.values() for p in v}:
            return False
        self.api.fresh()
        return self.api.healthy()

    def memory(self):
        """Proportional memory (PSS) of all programs, in KiB."""
        return sum(kib(pid, "Pss", "smaps_rollup") for pid in self.tree())

    def processor_time(self):
        return processor_time_of_all(self.process.pid)

    def descriptors(self):
        return sum(len(descriptors(pid)) for pid in self.tree())

    def instance(self):
        """Our label's value: what on the engine belongs to this data directory."""
        for f in self.data.glob("instance.json"):
            for value in json.loads(f.read_text()).values():
                if isinstance(value, str) and re.fullmatch(r"[0-9a-f-]{32,36}", value) and value != machine_id():
                    return value
        return None

    def labelled(self):
        """What the engine holds under our label: of each container its volume, and the volumes."""
        filters = json.dumps({"label": [f"agent-sandbox.instance={self.instance()}"]})
        query = "filters=" + requests.utils.quote(filters)
        containers = self.engine.call("GET", f"/containers/json?all=1&{query}")
        volumes = self.engine.call("GET", f"/volumes?{query}")["Volumes"] or []
        mounts = {c["Names"][0].lstrip("/"): next((m.get("Name") for m in c["Mounts"]), None) for c in containers}
        return mounts, sorted(v["Name"] for v in volumes)

    def on_engine(self):
        """Names of the containers and volumes that sandboxes have. A volume that keeps its name of the pool goes under that of its
        container; members of the pool that wait to be claimed are nobody's."""
        mounts, volumes = self.labelled()
        owner = {volume: name for name, volume in mounts.items() if not name.startswith(MEMBER)}
        containers = sorted(name for name in mounts if not name.startswith(MEMBER))
        return containers, sorted(owner.get(v, v) for v in volumes if v in owner or not v.startswith(MEMBER))

    def members(self):
        """The names of all that is of the pool and was claimed by nobody."""
        mounts, volumes = self.labelled()
        owned = {volume for name, volume in mounts.items() if not name.startswith(MEMBER)}
        return sorted({n for n in [*mounts, *volumes] if n.startswith(MEMBER)} - owned)

    def pool(self):
        """What the server last said about its pool."""
        with contextlib.suppress(OSError, ValueError):
            return json.loads((self.data / "pool.json").read_text())
        return None

    def pool_full(self, seconds=60):
        """Waits for a full pool. The server says it once a second: when it has answered after that, it has said it since."""
        self.api.list()
        time.sleep(1.1)
        self.api.list(), self.api.list()
        full = wait_until(lambda: (p := self.pool()) and all(i["ready"] == i["size"] for i in p["images"]), seconds)
        assert full, f"the pool is not filled: {self.pool()}\n{self.tail()}"
        return self

    def containers(self, sandbox):
        return [c for c in self.on_engine()[0] if sandbox in c]

    def orphans(self):
        """What the engine holds for us beyond one container and one volume for each sandbox that we list."""
        ids = self.api.ids()
        containers, volumes = self.on_engine()
        extra = [n for n in containers + volumes if not any(i in n for i in ids)]
        for i in ids:
            mine = [n for n in containers if i in n]
            extra += mine[1:]
            vols = [n for n in volumes if i in n]
            extra += vols[1:]
        return extra

    def clean(self, seconds=45):
        """Wait until nothing is on the engine that no sandbox accounts for: what a busy engine finishes after a restart is found
        when the server looks again, after half a minute."""
        assert wait_until(lambda: not self.orphans(), seconds, 0.2), f"left on the engine: {self.orphans()}\n{self.tail()}"

    def close(self):
        """Delete all, end, and look that nothing is left. Used at the end of each server's life."""
        try:
            if self.process is None and self.data.exists():
                self.start()
            if self.process is not None:
                if self.process.poll() is not None:
                    self.process = None
                    self.start()
                self.api.fresh().delete_all()
                gone = wait_until(lambda: self.on_engine() == ([], []), 60, 0.2)
                left = self.on_engine()
                self.end()
                assert gone, f"left on the engine: {left}\n{self.tail()}"
                if self.members():  # a busy engine did not remove them in time: the next start does
                    self.settings["POOL"] = 0
                    self.start()
                    gone = wait_until(lambda: not self.members(), 60, 0.2)
                    self.end()
                    assert gone, f"left of the pool: {self.members()}\n{self.tail()}"
        finally:
            self.remove()

    def remove(self):
        """Without asking: processes, what the engine holds, files."""
        Server.alive = [s for s in Server.alive if s is not self]
        self.front.stop(self)
        for pid in self.tree():
            send(pid)
        if self.process:
            self.process.wait(30)
        with contextlib.suppress(Exception):
            if self.instance():
                containers, volumes = self.labelled()
                for c in containers:
                    self.engine.api("DELETE", f"/v1.44/containers/{c}?force=1&v=1")
                    self.engine.api("DELETE", f"/v1.41/containers/{c}?force=1&v=1")
                for v in volumes:
                    self.engine.api("DELETE", f"/v1.44/volumes/{v}?force=1")
                    self.engine.api("DELETE", f"/v1.41/volumes/{v}?force=1")
        shutil.rmtree(self.dir, ignore_errors=True)


def machine_id():
    with contextlib.suppress(OSError):
        return Path("/etc/machine-id").read_text().strip()


class FaultySocket:
    """A socket in front of the engine. hold(regex) stops calls that match "METHOD path" until let_go(); fail(regex)
    answers them with 500; mute() lets nothing pass in either direction; cut() ends all connections."""

    def __init__(self, engine, path=None):
        self.engine = engine
        self.dir = Path(tempfile.mkdtemp(prefix="as-socket-"))
        self.dir.chmod(0o755)
        self.path = Path(path or self.dir / "docker.sock")
        self.seen, self.open = [], []
        self.holding = self.failing = None
        self.released, self.reached, self.muted = threading.Event(), threading.Event(), threading.Event()
        self.listener = None
        self.listen()

    def listen(self):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        os.chmod(self.path, 0o666)
        self.listener.listen(128)
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def hold(self, pattern):
        self.holding = re.compile(pattern)
        self.released.clear()
        self.reached.clear()

    def let_go(self):
        self.holding = None
        self.released.set()

    def fail(self, pattern):
        self.failing = re.compile(pattern) if pattern else None

    def mute(self, on=True):
        (self.muted.set if on else self.muted.clear)()

    def cut(self):
        for s in self.open:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
        self.open.clear()

    def _accept(self, listener):
        while True:
            try:
                client = listener.accept()[0]
            except OSError:
                return
            behind = socket.socket(socket.AF_UNIX)
            try:
                behind.connect(str(self.engine.sock))
            except OSError:
                client.close()
                continue
            self.open += [client, behind]
            threading.Thread(target=self._pump, args=(client, behind, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(behind, client, False), daemon=True).start()

    def _pump(self, source, sink, upward):
        try:
            while data := source.recv(65536):
                while self.muted.is_set():
                    time.sleep(0.02)
                if upward and (m := re.match(rb"([A-Z]+) (/\S*) HTTP/1", data)):
                    call = f"{m[1].decode()} {m[2].decode()}"
                    self.seen.append(call)
                    if self.failing and self.failing.search(call):
                        body = b'{"message":"made to fail"}'
                        source.sendall(
                            b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\n"
                            b"Content-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body)
                        )
                        break
                    if self.holding and self.holding.search(call):
                        self.reached.set()
                        self.released.wait(60)
                sink.sendall(data)
            else:
                with contextlib.suppress(OSError):
                    sink.shutdown(socket.SHUT_WR)
                return
        except OSError:
            pass
        for s in (source, sink):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()

    def stop_listening(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.path.unlink(missing_ok=True)

    def close(self):
        self.let_go()
        self.mute(False)
        with contextlib.suppress(OSError):
            self.stop_listening()
        self.cut()
        shutil.rmtree(self.dir, ignore_errors=True)


def raw(port, *parts, wait=4.0, half_close=False):
    """Sends bytes (a number is a pause in seconds) on a connection of its own; all that comes back until it is silent."""
    got = b""
    with FRONT.connect(port) as s:
        with contextlib.suppress(OSError):
            for part in parts:
                if isinstance(part, bytes):
                    s.sendall(part)
                else:
                    time.sleep(part)
            if half_close:
                s.shutdown(socket.SHUT_WR)
        s.settimeout(wait)
        with contextlib.suppress(OSError):
            while data := s.recv(65536):
                got += data
    return got


def request(method, target, *headers, body=b"", key=KEY, close=True):
    """The bytes of a request."""
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", f"X-API-Key: {key}", *headers]
    if body and not any(h.lower().startswith(("content-length", "transfer-encoding")) for h in headers):
        lines.append(f"Content-Length: {len(body)}")
    if close:
        lines.append("Connection: close")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def codes(answer):
    return [int(m) for m in re.findall(rb"(?:^|\n|})HTTP/1\.1 (\d{3})", answer)]
