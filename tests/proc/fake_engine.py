"""A container engine of paper: it keeps images, containers and volumes in dicts, writes down every request, and can be
told to be slow, silent, broken or unfriendly.

    with FakeEngine(folder) as e:
        e.rule(r"POST /v1\\.\\d+/containers/create", status=500, json={"message": "no"})   # also: times=1, delay=, raw=, call=
        e.requests[-1].method, .target, .path, .query, .headers, .body, .json()
"""

import contextlib
import json
import os
import re
import secrets
import socket
import threading
import time
import urllib.parse
from dataclasses import dataclass, field


@dataclass
class Request:
    method: str
    target: str
    headers: dict
    body: bytes

    @property
    def path(self):
        return urllib.parse.urlsplit(self.target).path

    @property
    def query(self):
        return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.target).query, keep_blank_values=True))

    def filters(self):
        return json.loads(self.query.get("filters", "{}"))

    def json(self):
        return json.loads(self.body)

    @property
    def line(self):
        return f"{self.method} {self.target}"


@dataclass
class Rule:
    pattern: str
    status: int = 500
    json: object = None
    delay: float = 0
    raw: bytes | None = None
    hang: bool = False
    times: int = 1 << 30
    call: object = None
    hits: int = field(default=0)


def has_labels(item, filters):
    labels = item.get("Labels") or {}
    for wanted in filters.get("label", []):
        key, _, value = wanted.partition("=")
        if key not in labels or ("=" in wanted and labels[key] != value):
            return False
    return True


REASONS = {
    101: "UPGRADED",
    200: "OK",
    201: "Created",
    204: "No Content",
    304: "Not Modified",
    400: "Bad",
    404: "Not Found",
    409: "Conflict",
}


class FakeEngine:
    def __init__(self, folder, version="20.10.24", api="1.41", min_api="1.12", components=("Engine",), info=None, ncpu=8):
        self.path = os.path.join(folder, "docker.sock")
        self.version = {"Version": version, "ApiVersion": api, "MinAPIVersion": min_api, "Arch": "amd64", "Os": "linux"}
        self.version["Components"] = [{"Name": c, "Version": version} for c in components]
        self.exit_at_once = False
        self.info = {"MemoryLimit": True, "PidsLimit": True, "CpuCfsQuota": True, "NCPU": ncpu, "Runtimes": {"runc": {}, "runsc": {}}}
        self.info |= {"ID": "7BQY:R24N"} | (info or {})
        self.requests, self.rules, self.hung = [], [], False
        self.images, self.containers, self.volumes, self.networks = {}, {}, {}, {}
        self.streams, self.connections, self.event_waiters = [], [], []
        self.lock = threading.RLock()
        self.networks["none"] = {"Name": "none", "Id": secrets.token_hex(32)}
        self.add_image("python:3.12-slim")
        self.listener = None

    # what tests say and ask
    def rule(self, pattern, **kw):
        self.rules.append(Rule(pattern, **kw))
        return self.rules[-1]

    def add_image(self, name, id=None, **kw):
        id = id or "sha256:" + secrets.token_hex(32)
        self.images[id] = {"Id": id, "Os": "linux", "Architecture": "amd64", "Labels": {}, "name": name} | kw
        return id

    def add_container(self, name, labels, state="running"):
        id = secrets.token_hex(32)
        self.containers[id] = {"Id": id, "Names": ["/" + name], "Labels": labels, "State": state, "ExitCode": 0}
        return id

    def stream(self, c):
        """It is an attachment's from now on, and read by the test: for ever only where a descriptor was left open."""
        c.settimeout(60)
        self.streams.append(c)

    def lines(self):
        return [r.line for r in self.requests]

    def find(self, pattern):
        return [r for r in list(self.requests) if re.search(pattern, r.line)]

    def event(self, action, id, ns=None):
        line = {"Type": "container", "Action": action, "Actor": {"ID": id, "Attributes": {}}, "timeNano": ns or time.time_ns()}
        for c in list(self.event_waiters):
            with contextlib.suppress(OSError):
                data = json.dumps(line).encode() + b"\n"
                c.sendall(b"%x\r\n%s\r\n" % (len(data), data))

    # the server
    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        os.chmod(self.path, 0o666)
        self.listener.listen(128)
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def stop(self):
        self.hung = False
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.drop()

    def drop(self):
        for c in self.connections + self.streams:
            with contextlib.suppress(OSError):
                c.shutdown(socket.SHUT_RDWR)
        self.connections, self.event_waiters = [], []

    def accept(self, listener):
        while True:
            try:
                c, _ = listener.accept()
            except OSError:
                return
            self.connections.append(c)
            threading.Thread(target=self.serve, args=(c,), daemon=True).start()

    def serve(self, c):
        try:
            data = b""
            while True:
                while b"\r\n\r\n" not in data:
                    more = c.recv(1 << 16)
                    if not more:
                        return
                    data += more
                head, _, data = data.partition(b"\r\n\r\n")
                first, *rest = head.decode().split("\r\n")
                headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in rest)}
                length = int(headers.get("content-length", 0))
                while len(data) < length:
                    data += c.recv(1 << 20)
                body, data = data[:length], data[length:]
                method, target, _ = first.split(" ")
                with self.lock:
                    self.requests.append(request := Request(method, target, headers, body))
                while self.hung:
                    time.sleep(0.01)
                if self.answer(c, request) is not True:
                    return
        except (OSError, ValueError):
            pass
        finally:
            if c not in self.streams and c not in self.event_waiters:
                c.close()

    def send(self, c, status, body=None, type="application/json"):
        data = b"" if body is None else json.dumps(body).encode()
        head = f"HTTP/1.1 {status} {REASONS.get(status, 'Error')}\r\nContent-Type: {type}\r\n"
        if status not in (204, 304):
            head += f"Content-Length: {len(data)}\r\n"
        c.sendall(head.encode() + b"\r\n" + (b"" if status in (204, 304) else data))
        return True

    def answer(self, c, r):
        for rule in self.rules:
            if rule.hits < rule.times and re.search(rule.pattern, r.line):
                rule.hits += 1
                time.sleep(rule.delay)
                if rule.hang:
                    time.sleep(3600)
                if rule.raw is not None:
                    c.sendall(rule.raw)
                    return None
                if rule.call is not None:
                    return rule.call(c, r)
                if rule.json is not None or rule.status >= 300 or rule.status == 204:
                    return self.send(c, rule.status, rule.json if rule.json is not None else {"message": "made up"})
        with self.lock:
            return self.route(c, r)

    def route(self, c, r):
        path = re.sub(r"^/v1\.\d+", "", r.path)
        for method, pattern, handler in self.ROUTES:
            m = re.fullmatch(pattern, path)
            if method == r.method and m:
                return handler(self, c, r, *m.groups())
        return self.send(c, 404, {"message": "page not found"})

    def on_version(self, c, r):
        return self.send(c, 200, self.version)

    def on_ping(self, c, r):
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nOK")
        return True

    def on_info(self, c, r):
        return self.send(c, 200, self.info)

    def on_image(self, c, r, ref):
        for image in self.images.values():
            if ref in (image["name"], image["Id"]):
                return self.send(c, 200, image)
        return self.send(c, 404, {"message": f"No such image: {ref}"})

    def on_images(self, c, r):
        found = [{"Id": i["Id"], "Labels": i["Labels"]} for i in self.images.values() if has_labels(i, r.filters())]
        return self.send(c, 200, found)

    def on_pull(self, c, r):
        return self.send(c, 404, {"message": f"pull access denied for {r.query['fromImage']}"})

    def on_image_delete(self, c, r, id):
        if any(x.get("Image") == id for x in self.containers.values()):
            return self.send(c, 409, {"message": "image is being used"})
        self.images.pop(id, None)
        return self.send(c, 200, [])

    def on_commit(self, c, r):
        helper = self.containers[r.query["container"]]
        labels = helper["Labels"] | (r.json().get("Labels") or {})
        id = self.add_image("", Labels=labels)
        return self.send(c, 201, {"Id": id})

    def on_create(self, c, r):
        body = r.json()
        if body["Image"] not in self.images:
            return self.send(c, 404, {"message": "No such image"})
        name = r.query["name"]
        if any(x["Names"] == ["/" + name] for x in self.containers.values()):
            return self.send(c, 409, {"message": "name is in use"})
        id = self.add_container(name, body["Labels"], "created")
        self.containers[id]["Image"] = body["Image"]
        mounts = body["HostConfig"].get("Mounts", [])
        self.containers[id]["Mounts"] = [{"Type": m["Type"], "Name": m.get("Source", "")} for m in mounts]
        for m in mounts:  # a volume that is not there is made
            if m["Type"] == "volume":
                labels = m.get("VolumeOptions", {}).get("Labels", {})
                self.volumes.setdefault(m["Source"], {"Name": m["Source"], "Labels": labels})
        return self.send(c, 201, {"Id": id, "Warnings": []})

    def on_list(self, c, r):
        names = r.filters().get("name")
        found = [x for x in self.containers.values() if has_labels(x, r.filters())]
        return self.send(c, 200, [x for x in found if not names or any(n in x["Names"][0] for n in names)])

    def container(self, c, id):
        if id not in self.containers:
            self.send(c, 404, {"message": "No such container: " + id})
            return None
        return self.containers[id]

    def on_inspect(self, c, r, id):
        if not (x := self.container(c, id)):
            return True
        state = {"Status": x["State"], "OOMKilled": x.get("oom", False), "ExitCode": x["ExitCode"]}
        return self.send(c, 200, {"Id": id, "Name": x["Names"][0], "State": state})

    def on_archive(self, c, r, id):
        return self.send(c, 200) if self.container(c, id) else True

    def on_start(self, c, r, id):
        if not (x := self.container(c, id)):
            return True
        running, x["State"] = x["State"] == "running", "exited" if self.exit_at_once else "running"
        return self.send(c, 304 if running else 204)

    def on_update(self, c, r, id):
        if not (x := self.container(c, id)):
            return True
        x["limits"] = r.json()
        return self.send(c, 200, {"Warnings": []})

    def on_rename(self, c, r, id):
        if not (x := self.container(c, id)):
            return True
        if any(other["Names"] == ["/" + r.query["name"]] for other in self.containers.values()):
            return self.send(c, 409, {"message": "name is in use"})
        x["Names"] = ["/" + r.query["name"]]
        return self.send(c, 204)

    def on_unpause(self, c, r, id):
        self.containers[id]["State"] = "running"
        return self.send(c, 204)

    def on_attach(self, c, r, id):
        if not self.container(c, id):
            return True
        c.sendall(
            b"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
        )
        self.stream(c)
        return None

    def on_delete(self, c, r, id):
        if not self.container(c, id):
            return True
        del self.containers[id]
        self.event("destroy", id)
        return self.send(c, 204)

    def on_volume_create(self, c, r):
        body = r.json()
        self.volumes.setdefault(body["Name"], {"Name": body["Name"], "Labels": body["Labels"]})
        return self.send(c, 201, self.volumes[body["Name"]])

    def on_volumes(self, c, r):
        names = r.filters().get("name")
        found = [v for v in self.volumes.values() if has_labels(v, r.filters())]
        return self.send(c, 200, {"Volumes": [v for v in found if not names or v["Name"] in names] or None})

    def on_volume_delete(self, c, r, name):
        return self.send(c, 204 if self.volumes.pop(name, None) else 404, {"message": "no such volume"})

    def on_network(self, c, r, name):
        if name not in self.networks:
            return self.send(c, 404, {"message": "network not found"})
        return self.send(c, 200, self.networks[name])

    def on_network_create(self, c, r):
        body = r.json()
        self.networks[body["Name"]] = body
        return self.send(c, 201, {"Id": secrets.token_hex(32)})

    def on_events(self, c, r):
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        self.event_waiters.append(c)
        return None

    ID = r"([0-9a-f]{64})"
    ROUTES = [
        ("GET", "/version", on_version),
        ("GET", "/_ping", on_ping),
        ("GET", "/info", on_info),
        ("GET", "/images/json", on_images),
        ("GET", "/images/(.+)/json", on_image),
        ("POST", "/images/create", on_pull),
        ("DELETE", "/images/(.+)", on_image_delete),
        ("POST", "/commit", on_commit),
        ("POST", "/containers/create", on_create),
        ("GET", "/containers/json", on_list),
        ("GET", f"/containers/{ID}/json", on_inspect),
        ("PUT", f"/containers/{ID}/archive", on_archive),
        ("POST", f"/containers/{ID}/start", on_start),
        ("POST", f"/containers/{ID}/unpause", on_unpause),
        ("POST", f"/containers/{ID}/attach", on_attach),
        ("POST", f"/containers/{ID}/update", on_update),
        ("POST", f"/containers/{ID}/rename", on_rename),
        ("DELETE", f"/containers/{ID}", on_delete),
        ("POST", "/volumes/create", on_volume_create),
        ("GET", "/volumes", on_volumes),
        ("DELETE", "/volumes/(.+)", on_volume_delete),
        ("POST", "/networks/create", on_network_create),
        ("GET", "/networks/(.+)", on_network),
        ("GET", "/events", on_events),
    ]
