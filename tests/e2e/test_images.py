"""Images that bring something of their own."""

import time

import images
import pytest
from harness import Box, check_error
from machine import SLACK

BOX = (open(images.BUSYBOX, "rb").read(), 0o755, 0, 0)


def test_healthcheck_of_an_image_never_runs(engine, server, make):
    images.tiny(engine, "tiny:health", "HEALTHCHECK --interval=1s CMD touch /tmp/checked; touch /workspace/checked")
    b = make(image="tiny:health", memory_mb=64)
    time.sleep(2.5)
    assert b.names() == [] and b.sh("ls /tmp") == ""


def test_volumes_of_an_image_leave_no_anonymous_volume(engine, server, make):
    images.tiny(engine, "tiny:volume", "VOLUME /data", "VOLUME /workspace", members={"data": (None, 0o777, 0, 0)})
    before = {v["Name"] for v in engine.call("GET", "/volumes")["Volumes"] or []}
    b = make(image="tiny:volume", memory_mb=64)
    b.put("f", b"x")
    snap = b.snapshot()
    b.rollback(snap)
    assert b.content("f") == b"x"
    assert b.delete().status_code == 204
    time.sleep(0.5)
    after = {v["Name"] for v in engine.call("GET", "/volumes")["Volumes"] or []}
    assert {v for v in after - before if not v.startswith("agent-sandbox-")} == set()


def test_workspace_of_the_image_is_taken_when_it_belongs_to_the_sandbox_user(engine, make):
    mine = {"workspace": (None, 0o750, 1000, 1000), "workspace/given": (b"from the image", 0o600, 1000, 1000)}
    images.tiny(engine, "tiny:mine", members=mine)
    b = make(image="tiny:mine", memory_mb=64)
    assert b.content("given") == b"from the image"
    b.put("new", b"x")
    snap = b.snapshot()
    b.sh("rm given new")
    b.rollback(snap)
    assert b.names() == ["given", "new"]


def test_workspace_of_the_image_that_belongs_to_another_is_refused(engine, server, api):
    images.tiny(engine, "tiny:theirs", members={"workspace": (None, 0o755, 0, 0), "workspace/f": (b"root's", 0o644, 0, 0)})
    message = check_error(api.post_sandbox({"image": "tiny:theirs", "memory_mb": 64}), 400)
    assert "tiny:theirs" in message and "/workspace" in message
    server.clean()


def test_empty_workspace_of_root_is_made_the_users(engine, make):
    images.tiny(engine, "tiny:empty", members={"workspace": (None, 0o700, 0, 0)})
    b = make(image="tiny:empty", memory_mb=64)
    b.put("f", b"x")
    assert b.sh("stat -c %u . f").split() == ["1000", "1000"]


def test_entrypoint_command_user_and_workdir_of_the_image_are_not_used(engine, make):
    images.tiny(engine, "tiny:entry", 'ENTRYPOINT ["/bin/false"]', 'CMD ["nothing"]', "USER 0:0", "WORKDIR /etc", "ENV FROM=image")
    b = make(image="tiny:entry", memory_mb=64)
    assert b.sh("id -u; pwd").split() == ["1000", "/workspace"]


@pytest.mark.core
def test_image_without_a_shell_runs_programs_and_moves_files(engine, make, api):
    images.load(engine, "noshell:1", {"bin": None, "bin/cat": BOX, "bin/sleep": BOX})
    b = make(image="noshell:1", memory_mb=64)
    b.put("d/f", b"content")
    assert b.exec(["cat", "d/f"])["stdout"] == "content"
    assert b.exec("cat d/f")["exit_code"] == 127
    assert b.names("d") == ["f"]
    snap = b.snapshot()
    b.rollback(snap)
    assert api.fork(snap).content("d/f") == b"content"
    assert b.exec(["sleep", "60"], timeout_seconds=0.5)["timed_out"]


def test_image_with_hostile_links_at_our_places_cannot_lead_out(engine, api, server):
    for n, members in enumerate(
        ({".agent-sandbox": "-> /etc"}, {"workspace": "-> /etc"}, {".agent-sandbox": None, ".agent-sandbox/init": b"x"})
    ):
        ref = images.tiny(engine, f"tiny:links{n}", members=members)
        answer = api.post_sandbox({"image": ref, "memory_mb": 64})
        assert answer.status_code in (201, 400, 502), answer.text
        if answer.status_code == 201:
            b = Box(api, answer.json())
            assert "init" not in b.sh("ls /etc").split(), "the link was followed"
            assert b.sh("echo on") == "on\n"
    server.clean()


@pytest.mark.parametrize("image", ["127.0.0.1/x:1", "localhost/x:1", "localhost:5000/x", "10.0.0.1:80/a/b:1", "169.254.169.254/latest:1",
                                   "[::1]:5000/x:1", "host:5000/x:1", "registry.example:443/x:1"])  # fmt: skip
def test_image_name_that_is_an_address_is_refused_without_asking_there(server, api, image):
    began = time.monotonic()
    check_error(api.post_sandbox({"image": image}), 403, 400)
    assert time.monotonic() - began < 2 + SLACK


def test_same_prepared_image_serves_all_sandboxes_of_an_image(engine, server, make):
    images.tiny(engine, "tiny:once")
    base = engine.call("GET", "/images/tiny:once/json")["Id"]

    def prepared():
        return [i for i in engine.call("GET", "/images/json") if i["ParentId"] == base]

    make(image="tiny:once", memory_mb=64)
    assert len(prepared()) == 1
    for _ in range(3):
        make(image="tiny:once", memory_mb=64).delete()
    assert len(prepared()) == 1
