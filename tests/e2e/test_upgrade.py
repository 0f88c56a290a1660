"""What a server finds that is not its own: sandboxes of another version of itself, and another engine than before."""

import fcntl
import os
import shutil
import subprocess

import pytest
import requests
from harness import BUILD, DEFAULT_IMAGE, ROOT, check_error
from machine import wait_until

OTHER_ENGINE = "the engine at DOCKER_HOST is not the one that holds this server's sandboxes; start with --adopt to go on with it"


@pytest.fixture(scope="module")
def other_version():
    """A folder with the programs of a server whose guests speak another version."""
    out = BUILD / "other-version"
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    # WARN is what reaches the compiler of every program, also of the static one.
    command = [
        "make",
        "-j2",
        f"BUILD={out}",
        "WARN=-DGUEST_VERSION=7",
        *(f"{out}/{p}" for p in ("sandbox-init", "sessiond", "dockerd-proxy")),
    ]
    out.mkdir(exist_ok=True)
    with open(out / "lock", "w") as lock:  # several workers want it
        fcntl.flock(lock, fcntl.LOCK_EX)
        p = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
        assert p.returncode == 0, p.stderr[-2000:]
        for name in ("agent-sandbox", "agent-sandboxd", "apid", "managerd", "egressd", "keyd"):
            shutil.copy2(BUILD / name, out / (name + ".new"))
            (out / (name + ".new")).rename(out / name)
    return out


def restart_as(server, programs):
    server.end()
    server.programs = programs
    server.start()


def test_sandbox_of_another_version_goes_on_with_its_workspace(own, other_version):
    s = own(start=False)
    s.programs = other_version
    s.start()
    box, stopped = s.api.create(env={"MARK": "kept"}), s.api.create()
    box.put("/workspace/dir/file", b"of the old version")
    stopped.put("/workspace/file", b"of the stopped one")
    box.sh("chmod 700 dir; ln -s file dir/link; echo x > /tmp/x; nohup sleep 54321 > /dev/null 2>&1 &")
    snap = box.snapshot()
    s.engine.docker("kill", s.containers(stopped.id)[0])
    restart_as(s, BUILD)
    assert box.content("/workspace/dir/file") == b"of the old version"
    assert box.sh("stat -c '%a %u' dir; readlink dir/link; cat dir/link; echo $MARK") == "700 1000\nfile\nof the old versionkept\n"
    assert box.running("54321") == 0 and box.sh("ls /tmp") == "", "these end with the old container"
    assert stopped.content("/workspace/file") == b"of the stopped one"
    assert box.get().json()["status"] == "running" and s.orphans() == []
    assert "another version" in s.tail(100000)
    box.sh("rm -r dir")
    box.rollback(snap)
    assert box.content("/workspace/dir/file") == b"of the old version"
    restart_as(s, other_version)  # and back
    assert box.content("/workspace/dir/file") == b"of the old version" and s.orphans() == []


def test_emptied_workspace_stays_empty_in_the_new_container(own, other_version, engine):
    engine.import_tar(ROOT / "build/images/debian-python-bookworm.tar", "upgrade-seed:1", 'CMD ["python3"]')
    name = f"seed-{os.getpid()}"
    engine.docker("create", "--name", name, "upgrade-seed:1")
    folder = engine.dir / name / "workspace"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "brought").write_text("by the image")
    for p in (folder, folder / "brought"):
        os.chown(p, 1000, 1000)
    engine.docker("cp", "-a", str(folder), f"{name}:/")
    engine.docker("commit", name, "upgrade-seed:1")
    engine.docker("rm", name)
    shutil.rmtree(folder.parent)
    s = own(start=False, ALLOWED_IMAGES="upgrade-seed:1,python:*")
    s.programs = other_version
    s.start()
    box = s.api.create(image="upgrade-seed:1")
    assert box.names() == ["brought"]
    box.sh("rm brought")
    restart_as(s, BUILD)
    assert box.names() == [] and box.sh("touch new; ls") == "new\n"
    s.close()
    engine.docker("rmi", "upgrade-seed:1")


def test_sandbox_whose_image_is_gone_is_kept_until_it_is_there_again(own, other_version, engine):
    name = "upgrade-gone:1"
    engine.docker("tag", DEFAULT_IMAGE, name)
    s = own(start=False, ALLOWED_IMAGES=f"{name},python:*")
    s.programs = other_version
    s.start()
    box = s.api.create(image=name)
    box.put("/workspace/file", b"still here")
    s.end()
    engine.docker("rmi", name)
    s.programs = BUILD
    s.start()
    for _ in range(2):
        message = check_error(box.post_exec(["true"]), 502)
        assert box.id in message and "upgrade" in message and name in message
    assert box.get().json()["status"] == "stopped"
    engine.docker("tag", DEFAULT_IMAGE, name)
    assert box.content("/workspace/file") == b"still here" and box.get().json()["status"] == "running"
    s.close()
    engine.docker("rmi", name)


def data_of(engine, name):
    """Puts other data below the engine; what was there gets this name, and what has this name is put there."""
    here, there, aside = engine.dir / "data", engine.dir / name, engine.dir / "aside"
    engine.down()
    here.rename(aside)
    there.rename(here) if there.exists() else here.mkdir()
    aside.rename(there)
    engine.start()


def test_engine_whose_data_were_replaced_is_not_used_and_nothing_is_lost(private_engine, own):
    e = private_engine()
    s = own(engine=e)
    box = s.api.create()
    box.put("/workspace/file", b"on the right engine")
    snap = box.snapshot()

    def refused():
        try:
            answer = s.api.fresh().ask("GET", "/healthz", timeout=20)
        except requests.RequestException:  # it does not listen yet
            return False
        return answer.status_code == 502 and OTHER_ENGINE in s.tail(100000)

    data_of(e, "second")
    assert wait_until(refused, step=0.2), s.tail()
    assert s.api.ids() == [box.id] and s.api.snapshot_ids() == [snap]
    for answer in (box.post_exec(["true"]), s.api.post_sandbox(), s.api.post_fork(snap), box.post_rollback(snap)):
        assert check_error(answer, 502) == OTHER_ENGINE
    s.end()
    s.launch()
    assert wait_until(lambda: s.process.poll() is None and len(s.pids()["apid"]) == 1 and refused(), step=0.2)
    assert box.get().status_code == 200
    data_of(e, "second")
    assert wait_until(lambda: s.api.fresh().healthy(), step=0.2), s.tail()
    assert box.content("/workspace/file") == b"on the right engine"
    s.end()
    data_of(e, "second")
    s.launch("--adopt")
    assert wait_until(lambda: s.api.fresh().healthy(), step=0.2), s.tail()
    assert wait_until(lambda: box.get().status_code == 404) and s.api.snapshot_ids() == [snap]
    e.load_images()
    assert s.api.fork(snap).content("/workspace/file") == b"on the right engine"
