"""managerd under test: a fake engine that remembers, a fake parent with fake sessions, and apid's end in the test's hands."""

import contextlib
import hashlib
import ipaddress
import json
import os
import selectors
import signal
import socket
import tempfile
import threading
import time

import layout
import pytest

KEY = "a-key-of-the-tests-0001"
DIGEST = hashlib.sha256(KEY.encode()).digest()
IMAGE = "python:3.12-slim"


def address(text):
    """As in struct m_ask."""
    return (b"\0" * 10 + b"\xff\xff" if "." in text else b"") + ipaddress.ip_address(text).packed


def ask(key=KEY, detail=0, peer="192.0.2.1:1234", request_id="req-1", addr="192.0.2.1", subject="", again=0):
    digest = hashlib.sha256(key.encode()).digest() if key else bytes(32)
    who = {"key": digest, "has_key": int(key is not None), "detail": detail, "peer": peer, "request_id": request_id}
    return who | {"addr": address(addr), "subject": subject, "again": again}


def key_line(key, **members):
    """A line of the key file; the key's name is what tells it from others."""
    return json.dumps({"name": key, "digest": hashlib.sha256(key.encode()).hexdigest()} | members)


class Table(dict):
    """One thread changes it while another goes through it, which sees it as it was at one moment."""

    def __iter__(self):
        return iter(list(dict.__iter__(self)))

    def values(self):
        return list(dict.values(self))

    def items(self):
        return list(dict.items(self))


class Names(set):
    """So is this."""

    def __iter__(self):
        return iter(list(set.__iter__(self)))


class Engine:
    """What the engine holds; it outlives managerd."""

    def __init__(self):
        self.containers = Table()  # id: [sandbox, generation, state]
        self.labels = {}  # (sandbox, generation): our instance; without an entry it has any
        self.volumes = Names()  # (sandbox, generation); ("pool", member)
        self.members = {}  # containers that are or were members of the pool: which
        self.limits = {}  # container: those of an update
        self.prepared = "1" * 64  # what the image's tag means
        self.count = 0
        self.images = {IMAGE}
        self.most = 0  # containers at once
        self.old = set()  # containers whose init speaks another version
        self.all_old = False  # so does that of every new one
        self.identity = ""

    def add(self, sandbox, generation, state=layout.STATE_CREATED, pool=0):
        self.count += 1
        cid = f"{self.count:064x}"
        self.containers[cid] = [sandbox, generation, state]
        if pool:
            self.members[cid] = pool
        self.volumes.add(("pool", pool) if pool else (sandbox, generation))
        if self.all_old:
            self.old.add(cid)
        self.most = max(self.most, len(self.containers))
        return cid

    def remove(self, sandbox, generation, cid="", keep_volume=0, pool=0):
        for k, (s, g, _) in list(self.containers.items()):
            if (s, g) == (sandbox, generation) if s else pool and self.members.get(k) == pool:
                assert cid in ("", k)
                del self.containers[k]
        if not keep_volume:
            self.volumes.discard(("pool", pool) if pool else (sandbox, generation))

    def waiting(self):
        """Members of the pool that nobody has claimed."""
        return [cid for cid, (s, _, _) in self.containers.items() if s == 0]

    def empty(self):
        return not self.containers and not self.volumes


class Session:
    def __init__(self, id, chan):
        self.id, self.chan, self.env, self.guest, self.ended = id, chan, b"", None, None
        self.jobs = {}
        self.up = False
        self.restored = None
        self.rule = None  # what may be dialled; None: nothing
        self.stopped = []  # (job, status, text)
        self.max_stored = []  # of each snapshot
        self.dialed = []  # (id, verdict, text)


class Server:
    """One run of managerd. hold: names of messages that are swallowed (the step at which it then hangs)."""

    def __init__(self, data, engine, config=None, hold=(), up=True, answer_list=True, ready=True, mute=(), fail=None, keys=None, **more):
        self.engine, self.hold, self.up, self.answer_list = engine, set(hold), up, answer_list
        self.mute = set(mute)  # done by the engine, but never answered
        self.fail = dict(fail or {})  # message: (why, text)
        self.held, self.seen, self.sessions, self.killed = [], [], Table(), []
        self.images_for = []  # for whom each image was asked for
        self.job_status = 200  # of what sessions end
        self.restore_status = 200
        self.tar = b"the tar of a workspace"
        self.up_delay = 0
        self.foreign = False
        self.lock = threading.RLock()
        self.next = 0
        self.answers = {}
        self.attached = {}  # sandbox: container
        config = {"API_KEYS": KEY, "REAP_INTERVAL_SECONDS": "0.2", "DISK_FLOOR_MB": 100, "POOL": "0"} | (config or {})
        if keys is not None:
            config["KEYS_FILE"] = "/etc/keys"
        self.p = layout.Program("managerd", ["chan"] * 4, config=config, path=str(data), ready=False, **more)
        self.apid, self.docker, self.egress, _ = self.p.peers
        if keys is not None:
            self.send_keys(keys)
        self.stopping = False
        self.is_ready = threading.Event()
        self.wake_r, self.wake_w = os.pipe()
        self.thread = threading.Thread(target=self.loop, daemon=True)
        self.thread.start()
        if ready:
            assert self.is_ready.wait(30), self.p.log()

    def send_keys(self, lines):
        """Lines of the key file, or its text, as the parent hands it over."""
        with tempfile.TemporaryFile() as f:
            f.write((lines if isinstance(lines, str) else "\n".join(lines)).encode())
            f.flush()
            self.p.parent.send("P_KEYS", 0, {}, fd=f)

    # ---- the fakes

    def loop(self):
        while not self.stopping:
            sel = selectors.DefaultSelector()
            try:
                with self.lock:  # else the test may close one between the look and its registration
                    self.register(sel)
            except ValueError:  # the parent's channel: the test has closed it
                return
            for key, _ in sel.select(1):
                if key.data is None:
                    os.read(self.wake_r, 100)
                    continue
                chan, handler = key.data
                try:
                    m = chan.recv(0.5)
                    with self.lock:
                        handler(m)
                except (layout.Gone, OSError):
                    if chan in (self.p.parent, self.docker):
                        self.stopping = True
                        break
                    for s in self.sessions.values():
                        if s.chan is chan:
                            s.chan = None
            sel.close()

    def register(self, sel):
        sel.register(self.wake_r, selectors.EVENT_READ, None)
        sel.register(self.p.parent.sock, selectors.EVENT_READ, (self.p.parent, self.on_parent))
        sel.register(self.docker.sock, selectors.EVENT_READ, (self.docker, self.on_docker))
        for s in self.sessions.values():
            if s.chan is not None:
                sel.register(s.chan.sock, selectors.EVENT_READ, (s.chan, lambda m, s=s: self.on_session(s, m)))

    def swallow(self, m):
        self.seen.append(m.name)
        if m.name not in self.hold:
            return False
        self.held.append(m)
        return True

    def on_parent(self, m):
        if m.name == "P_READY":
            self.is_ready.set()
        if self.swallow(m):
            return
        id = m.fields.get("session")
        if m.name == "P_SESSION_START":
            a, b = layout.chan_pair()
            self.sessions[id] = Session(id, layout.Chan(a))
            self.p.parent.send("P_SESSION", id, {"session": id}, fd=b)
            b.close()
        elif m.name == "P_SESSION_KILL":
            self.killed.append(id)
            self.end_session(id, 9)

    def end_session(self, id, status=0):
        """The sessiond exits and is reaped."""
        with self.lock:
            s = self.sessions.pop(id, None)
            if s is None:
                return
            if s.chan is not None:
                s.chan.close()
            if s.guest is not None:
                os.close(s.guest)
            for job in s.jobs.values():
                if job.fd is not None:
                    os.close(job.fd)
            self.p.parent.send("P_SESSION_OVER", id, {"session": id, "status": status})
        os.write(self.wake_w, b"x")

    def fd_of(self, id):
        return self.sessions[id]

    def on_session(self, s, m):
        if self.swallow(m):
            s.jobs[m.id] = m
            return
        if m.name == "S_ENV":
            s.env += m.tail
            assert m.fields["total"] >= len(s.env)
        elif m.name == "S_EGRESS":
            s.rule = m.tail.decode() if m.fields["on"] else None
        elif m.name == "S_DIALED":
            s.dialed.append((m.id, m.fields["verdict"], m.tail))
        elif m.name == "S_CLAIM":
            assert s.sandbox == 0 and s.ended is None
            s.sandbox, s.claimed = m.fields["sandbox"], True
        elif m.name == "S_GUEST":
            s.guest, s.sandbox = m.fd, m.fields["sandbox"]
            if self.up_delay:
                time.sleep(self.up_delay)
            if self.attached.get(s.sandbox, self.attached.get(0)) in self.engine.old:
                s.chan.send("S_DOWN", 0, {"why": layout.DOWN_VERSION, "guest_version": 7}, "guest version")
            elif "UP" not in self.hold:
                s.chan.send("S_UP", 0, {"guest_version": 1})
                s.up = True
        elif m.name == "S_END":
            s.ended = m.fields["reason"]
            if "OVER" not in self.hold:
                self.end_session(s.id)
        elif m.name == "S_STOP":
            s.stopped.append((m.id, m.fields["status"], m.tail.decode()))
            s.chan.send("S_JOB_END", m.id, {"status": m.fields["status"]}, m.tail)
        elif m.name == "S_SNAPSHOT":
            s.max_stored.append(m.fields["max_stored"])
            if self.job_status == 200:
                os.write(m.fd, self.tar)
                sha = hashlib.sha256(self.tar).digest()
                s.chan.send("S_SNAPPED", m.id, {"size_bytes": 9000, "stored_bytes": len(self.tar), "sha256": sha})
                s.chan.send("S_JOB_END", m.id, {"status": 200})
            else:
                os.write(m.fd, self.tar)
                s.chan.send("S_JOB_END", m.id, {"status": self.job_status}, "why it failed")
            os.close(m.fd)
        elif m.name == "S_RESTORE":
            s.restored = os.read(m.fd, 1000)
            os.close(m.fd)
            s.chan.send("S_JOB_END", m.id, {"status": self.restore_status}, "" if self.restore_status == 200 else "bad tar")
        elif m.fd is not None:
            s.jobs[m.id] = m
            os.close(m.fd)
            s.jobs[m.id] = m._replace(fd=None)
            s.chan.send("S_JOB_END", m.id, {"status": self.job_status, "exit_code": 3, "duration_us": 5})

    def on_docker(self, m):
        if m.name == "D_PING" and "D_PING" not in self.hold:
            if self.up:
                self.docker.send("D_DONE", m.id)
            else:
                self.docker.send("D_FAILED", m.id, {"why": layout.FAIL_UNREACHABLE}, "the Docker engine is unreachable")
            return
        if self.swallow(m):
            return
        if m.name in self.mute:
            real, self.docker = self.docker, layout.Chan(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            self.docker.send = lambda *a, **k: None
            self.answer(m)
            self.docker = real
            self.held.append(m)
            return
        self.answer(m)

    def answer(self, m):
        e, d = self.engine, self.docker
        if m.fields.get("container", "") and m.fields["container"] not in self.known:
            self.breach = m
            os.kill(self.p.pid, signal.SIGKILL)  # a container that is not known: dockerd-proxy ends
            return
        if m.name == "D_INSTANCE":
            self.uuid = m.fields["uuid"]
            self.known = set()
            d.send(
                "D_ENGINE",
                0,
                {"up": int(self.up), "version": "20.10.24", "api": "1.41", "id": e.identity},
                "" if self.up else "the engine is away",
            )
            return
        if not self.up:
            d.send("D_FAILED", m.id, {"why": layout.FAIL_UNREACHABLE}, "the Docker engine is unreachable")
        elif m.name in self.fail:
            why, text = self.fail[m.name]
            d.send("D_FAILED", m.id, {"why": why}, text)
        elif m.name == "D_PREPARE":
            image = m.tail.decode()
            self.images_for.append(m.fields["who"])
            if image in e.images:
                d.send("D_PREPARED", m.id, {"image_id": "sha256:" + e.prepared, "base_id": "sha256:" + "2" * 64})
            else:
                d.send("D_FAILED", m.id, {"why": layout.FAIL_NO_IMAGE}, f"image {image} was not found")
        elif m.name == "D_CREATE":
            sandbox, pool = m.fields["sandbox"], m.fields["pool"]
            assert (sandbox or pool) and (not pool or m.fields["keep_volume"] or not sandbox)
            assert not sandbox or not any((s, g) == (sandbox, m.fields["generation"]) for s, g, _ in e.containers.values())
            self.last_create = m.fields
            volume = ("pool", pool) if pool else (sandbox, m.fields["generation"])
            if m.fields["keep_volume"] and volume not in e.volumes:
                d.send("D_FAILED", m.id, {"why": layout.FAIL_GONE}, "no such container")
                return
            e.labels[volume] = self.uuid
            self.known.add(e.add(sandbox, m.fields["generation"], pool=pool))
            d.send("D_CREATED", m.id, {"container": list(e.containers)[-1]})
        elif m.name == "D_ATTACH":
            c = e.containers.get(m.fields["container"])
            if c is None:
                d.send("D_FAILED", m.id, {"why": layout.FAIL_GONE}, "no such container")
                return
            c[2] = layout.STATE_RUNNING
            self.attached[c[0]] = m.fields["container"]
            a, b = socket.socketpair()
            d.send("D_ATTACHED", m.id, {"container": m.fields["container"]}, fd=b)
            a.close(), b.close()
        elif m.name == "D_INSPECT":
            c = e.containers.get(m.fields["container"])
            state = {"state": c[2] if c else layout.STATE_GONE, "foreign_workspace": int(self.foreign)}
            d.send("D_STATE", m.id, {"container": m.fields["container"]} | state)
        elif m.name == "D_DESTROY":
            f, before = m.fields, set(e.containers)
            e.remove(f["sandbox"], f["generation"], f["container"], f["keep_volume"], f["pool"])
            self.known -= before - set(e.containers)
            d.send("D_DONE", m.id)
        elif m.name == "D_UPDATE":
            c = e.containers.get(m.fields["container"])
            if c is None:
                d.send("D_FAILED", m.id, {"why": layout.FAIL_GONE}, "no such container")
                return
            assert c[0] == 0 and m.fields["container"] in e.members
            e.limits[m.fields["container"]] = [m.fields[k] for k in ("nano_cpus", "memory_mb", "pids_limit")]
            d.send("D_DONE", m.id)
        elif m.name == "D_RENAME":
            c = e.containers.get(m.fields["container"])
            if c is None:
                d.send("D_FAILED", m.id, {"why": layout.FAIL_GONE}, "no such container")
                return
            assert c[0] == 0 and m.fields["container"] in e.members
            c[:2] = m.fields["sandbox"], m.fields["generation"]
            assert [x[:2] for x in e.containers.values()].count(c[:2]) == 1
            d.send("D_DONE", m.id)
        elif m.name == "D_LIST":
            if not self.answer_list:
                return
            ours = {x for x in e.volumes if e.labels.get(x, self.uuid) == self.uuid}
            self.known |= set(e.containers)
            for cid, (s, g, state) in e.containers.items():
                pool = e.members.get(cid, 0)
                if (("pool", pool) if pool else (s, g)) not in ours:
                    continue
                item = {"sandbox": s, "generation": g, "pool": pool, "kind": layout.ITEM_CONTAINER, "state": state, "container": cid}
                d.send("D_ITEM", m.id, item)
            for s, g in ours:
                name = {"pool": g} if s == "pool" else {"sandbox": s, "generation": g}
                d.send("D_ITEM", m.id, name | {"kind": layout.ITEM_VOLUME})
            d.send("D_LIST_END", m.id)

    def release(self, *names):
        """Answers what was held, and holds it no more."""
        with self.lock:
            self.hold -= set(names)
            held, self.held = self.held, []
            for m in held:
                if m.name.startswith("D_PING"):
                    self.docker.send("D_DONE", m.id)
                elif m.name.startswith("D_"):
                    self.answer(m)
                elif m.name.startswith("P_"):
                    self.on_parent(m)
                else:
                    s = next(s for s in self.sessions.values() if s.jobs.get(m.id) is m)
                    del s.jobs[m.id]  # its descriptor is closed by that
                    self.on_session(s, m)
        os.write(self.wake_w, b"x")

    def event(self, event, cid):
        self.docker.send("D_EVENT", 0, {"event": event, "container": cid})

    # ---- apid

    def send(self, name, fields=None, tail=b"", fd=None, **who):
        self.next += 1
        fields = dict(fields or {})
        if name != "ASK_HEALTH":
            fields["ask"] = ask(**who)
        self.apid.send(name, self.next, fields, tail, fd)
        return self.next

    def result(self, id, timeout=30):
        """The final answer to a request (and with pages: the items before it)."""
        end = time.monotonic() + timeout
        while True:
            got = self.answers.get(id, [])
            if got and (got[-1].name == "PAGE_END" or [m.name for m in got[-2:]] == ["METRIC", "REPLY"]):
                return self.answers.pop(id)
            if got and got[0].name in ("REPLY", "HEALTH") or (got and id not in self.pages):
                return self.answers.pop(id)[0]
            m = self.apid.recv(max(0.001, end - time.monotonic()))
            self.answers.setdefault(m.id, []).append(m)

    pages = frozenset()

    def call(self, name, fields=None, tail=b"", timeout=30, fd=None, **who):
        id = self.send(name, fields, tail, fd, **who)
        if name in ("LIST", "SNAPSHOTS", "METRICS"):
            self.pages = self.pages | {id}
        return self.result(id, timeout)

    def list(self, name="LIST", tail=b"", max=64, **fields):
        """All items, page by page."""
        out, cursor = [], {"after_us": 0, "after_id": 0}
        while True:
            *items, end = self.call(name, cursor | {"max": max} | fields, tail)
            out += items
            if not end.fields["more"]:
                return out
            cursor = {"after_us": items[-1].fields["created_us"], "after_id": items[-1].fields["id"]}

    @contextlib.contextmanager
    def records(self, env=(), labels=(), egress=()):
        a, b = layout.data_pair()
        r = layout.Records(a)
        for v in env:
            r.send(layout.RECORD_ENV, v.encode())
        for k, v in labels:
            r.send(layout.RECORD_LABEL, k.encode() + b"\0" + v.encode())
        for v in egress:
            r.send(layout.RECORD_EGRESS, v.encode())
        r.send(layout.RECORD_DONE, layout.pack("r_done", {}))
        yield b
        a.close(), b.close()

    def create_send(self, env=(), labels=(), image="", egress=None, **fields):
        fields = {"network": layout.NOT_GIVEN, "read_only": layout.NOT_GIVEN, "egress": int(egress is not None)} | fields
        with self.records(env, labels, egress or ()) as fd:
            return self.send("CREATE", fields, image, fd)

    def create(self, timeout=30, **more):
        return self.result(self.create_send(**more), timeout)

    def box(self, **more):
        m = self.create(**more)
        assert m.name == "SANDBOX", (m, self.p.log())
        return m.fields["id"]

    def exec_send(self, box, **who):
        a, b = layout.data_pair()
        id = self.send("EXEC", {"sandbox": box, "job": {"timeout_us": 1000000, "args_len": 10, "args_sha256": b"\7" * 32}}, fd=b, **who)
        b.close()
        return id, a

    def exec(self, box, timeout=30, **who):
        id, a = self.exec_send(box, **who)
        try:
            return self.result(id, timeout)
        finally:
            a.close()

    def file(self, name, box, path="/workspace/x", **job):
        a, b = layout.data_pair()
        m = self.call(name, {"sandbox": box, "job": job}, path, fd=b)
        a.close(), b.close()
        return m

    def snapshot(self, box, name=None):
        return self.call("SNAPSHOT_MAKE", {"sandbox": box, "has_name": int(name is not None)}, name or "")

    def snap(self, box, name=None):
        m = self.snapshot(box, name)
        assert m.name == "SNAPSHOT", m
        return m.fields["id"]

    def fork(self, snap, **fields):
        fields = {"snapshot": snap, "network": layout.NOT_GIVEN, "read_only": layout.NOT_GIVEN} | fields
        return self.call("FORK", fields)

    def rollback(self, box, snap):
        return self.call("ROLLBACK", {"sandbox": box, "snapshot": snap})

    def get(self, box, **who):
        return self.call("GET", {"id": box}, **who)

    def destroy(self, box, timeout=30):
        return self.call("DESTROY", {"id": box}, timeout=timeout)

    def session_of(self, box):
        with self.lock:
            return [s for s in self.sessions.values() if getattr(s, "sandbox", None) == box and s.ended is None]

    # ---- the end

    def kill(self):
        os.kill(self.p.pid, signal.SIGKILL)
        self.p.wait(30)
        self.finish()

    def stop(self):
        if self.p.status is None:
            alive = self.p.alive()
            self.finish()
            assert alive, self.p.log()

    def finish(self):
        self.stopping = True
        os.write(self.wake_w, b"x")
        self.thread.join(30)
        self.p.stop()
        for s in self.sessions.values():
            if s.chan is not None:
                s.chan.close()
            if s.guest is not None:
                os.close(s.guest)
        os.close(self.wake_r), os.close(self.wake_w)


def refused(m, status):
    assert m.name == "REPLY" and m.fields["status"] == status, m
    return m.tail.decode()


@pytest.fixture
def data(tmp_path_factory):
    d = tmp_path_factory.mktemp("data")
    os.chmod(d, 0o700)
    for p in d.parents:
        if p.stat().st_uid == os.getuid() and p != p.parent and str(p).startswith("/tmp/"):
            os.chmod(p, 0o755)
    return d


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def start(data, engine):
    servers = []

    def one(data=data, engine=engine, **more):
        s = Server(data, engine, **more)
        servers.append(s)
        return s

    yield one
    for s in servers:
        if s.p.status is None:
            print(s.p.log())
            s.stop()
