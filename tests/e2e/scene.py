"""The scene of the kill -9 tests: a server, a sandbox and a snapshot that must survive whatever is killed when."""

import threading

import requests
from harness import PROGRAMS, FaultySocket, Server, check_error
from machine import alive, send, wait_until


class Scene:
    """A server behind a socket that can hold an engine call, with a sandbox and a snapshot that must survive all."""

    def __init__(self, engine):
        self.faulty = FaultySocket(engine)
        self.server = Server(engine, socket_path=self.faulty.path).start()
        self.api = self.server.api
        self.keep = self.api.create(memory_mb=64, timeout_seconds=3000)
        self.keep.put("precious", b"survives")
        self.keep.sh("nohup sleep 8181.5 >/dev/null 2>&1 &")
        self.snap = self.keep.snapshot(name="precious")
        self.kills = 0

    def rest(self):
        """A parent gives up after ten deaths in five minutes; that is another test's matter."""
        self.kills += 1
        if self.kills % 7 == 0:
            self.server.end()
            self.server.start()

    def close(self):
        self.faulty.let_go()
        self.faulty.fail(None)
        self.server.close()
        self.faulty.close()

    def operate(self, operation, box):
        """Send the request in a thread of its own; the holder of what came back."""
        result = {}

        def run():
            try:
                session = requests.Session()
                session.trust_env = False
                session.verify = self.server.front.verify
                head = {"X-API-Key": self.api.key}
                base, sb = self.api.url, f"/v1/sandboxes/{box.id}" if box else ""
                what = {
                    "create": ("POST", "/v1/sandboxes", {"memory_mb": 64}),
                    "fork": ("POST", f"/v1/snapshots/{self.snap}/fork", {}),
                    "snapshot": ("POST", sb + "/snapshots", {}),
                    "rollback": ("POST", sb + "/rollback", {"snapshot_id": self.snap}),
                    "destroy": ("DELETE", sb, None),
                }[operation]
                result["answer"] = session.request(what[0], base + what[1], json=what[2], headers=head, timeout=40)
            except requests.RequestException as exc:
                result["error"] = exc

        result["thread"] = threading.Thread(target=run)
        result["thread"].start()
        return result

    def check(self, operation, box, result, gone):
        """Whatever was hit when: the world is whole afterwards."""
        s = self.server
        result["thread"].join(40)
        assert not result["thread"].is_alive(), "the request never ended"
        assert wait_until(lambda: s.settled(*gone)), s.tail()
        assert wait_until(lambda: self.keep.get().status_code == 200), s.tail()
        # A request that was on its way when its sessiond died is lost with it; the next one works.
        assert wait_until(lambda: self.keep.read("precious").status_code == 200), s.tail()
        assert self.keep.content("precious") == b"survives"
        assert self.keep.running("8181.5") == 1
        assert self.api.ask("GET", f"/v1/snapshots/{self.snap}").json()["name"] == "precious"
        if operation in ("rollback", "snapshot"):
            names = box.names()
            assert names in (["old", "precious"], ["precious"], ["changed"]), names
            assert box.sh("echo works") == "works\n"
        if operation == "rollback" and result.get("answer") is not None and result["answer"].status_code == 200:
            assert box.names() == ["precious"]
        if operation == "destroy" and result.get("answer") is not None and result["answer"].status_code == 204:
            check_error(box.get(), 404)
        known = set(self.api.ids()) - {self.keep.id} - ({box.id} if box else set())
        if operation in ("create", "fork"):
            done = result.get("answer") is not None and result["answer"].status_code == 201
            assert not done or result["answer"].json()["id"] in known
            for i in known:
                answer = self.api.ask("POST", f"/v1/sandboxes/{i}/exec", json={"command": "echo up"})
                assert answer.status_code == 200 and answer.json()["stdout"] == "up\n"
        for i in known | ({box.id} if box else set()):
            self.api.ask("DELETE", f"/v1/sandboxes/{i}")
        for i in set(self.api.snapshot_ids()) - {self.snap}:
            self.api.fork(i).delete()
            self.api.ask("DELETE", f"/v1/snapshots/{i}")
        s.clean()
        left = [f.name for f in s.data.rglob("*") if "tmp" in f.name and f.is_file()]
        assert not left, f"left in the data directory: {left}"


def kill(s, victim):
    """Returns the process ids that must not be seen again."""
    tree, before = s.tree(), s.pids()
    if victim == "sessiond":
        # The newest: that of the sandbox in work, unless it has none at this moment.
        for pid in reversed(before["sessiond"]):
            if send(pid):
                break
        return []
    assert send(before[victim][0]), f"{victim} had ended:\n{s.tail()}"
    if victim == "agent-sandboxd":
        s.process.wait(30)
        assert wait_until(lambda: not any(alive(p) for p in tree)), "something outlived the parent"
    anew = PROGRAMS[1:6]  # the death of one of them is a restart of all of them
    return [p for name in anew for p in before[name]] if victim in anew else []
