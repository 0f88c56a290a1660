"""The engine that answers may be another one than that which holds the sandboxes: then nothing is done to them."""
# ruff: noqa: F811 - fixtures are imported, and named again as arguments

import json

import layout
import pytest
from machine import wait_until
from managerd_kit import Engine, data, engine, refused, start  # noqa: F401
from test_managerd_crash import copy_of, files

TEXT = "the engine at DOCKER_HOST is not the one that holds this server's sandboxes; start with --adopt to go on with it"


@pytest.fixture
def left(start, engine, data):
    """What a server has left on an engine that it has met: (server's sandbox, its snapshot)."""
    engine.identity = "ONE/1"
    s = start()
    b = s.box()
    snap = s.snap(b)
    s.kill()
    assert json.loads((data / "instance.json").read_text())["engine"] == "ONE/1"
    return b, snap


def other_engine():
    e = Engine()
    e.identity = "TWO/2"
    return e


def test_another_engine_is_not_used_and_no_sandbox_is_lost(start, engine, data, left):
    b, snap = left
    two = other_engine()
    s = start(engine=two)
    assert s.call("ASK_HEALTH").fields["engine_up"] == 0 and TEXT in s.p.log()
    assert s.get(b).name == "SANDBOX" and s.call("SNAPSHOT_GET", {"id": snap}).name == "SNAPSHOT"
    assert [m.fields["id"] for m in s.list()] == [b]
    for m in (s.exec(b), s.create(), s.snapshot(b), s.rollback(b, snap), s.fork(snap)):
        assert refused(m, 502) == TEXT
    assert set(s.seen) & {"D_LIST", "D_PREPARE", "D_CREATE", "D_ATTACH", "D_INSPECT", "D_DESTROY"} == set()
    s.kill()
    assert len(files(data, "sandboxes")) == 1 and json.loads((data / "instance.json").read_text())["engine"] == "ONE/1"
    s = start()
    assert s.exec(b).fields["status"] == 200 and two.empty()


def test_right_engine_that_comes_back_is_used_again(start, engine, left):
    b, _ = left
    s = start(engine=other_engine())
    assert refused(s.exec(b), 502) == TEXT
    s.docker.send("D_ENGINE", 0, {"up": 0}, "the container engine cannot be reached")
    assert wait_until(lambda: refused(s.exec(b), 502) == "the container engine cannot be reached")
    s.engine = engine
    s.docker.send("D_ENGINE", 0, {"up": 1, "id": "ONE/1"})
    assert wait_until(lambda: s.exec(b).fields["status"] == 200) and s.call("ASK_HEALTH").fields["engine_up"]


def test_engine_that_becomes_another_one_while_the_server_runs(start, engine, left):
    b, _ = left
    s = start()
    assert s.exec(b).fields["status"] == 200
    s.docker.send("D_ENGINE", 0, {"up": 0}, "the container engine has become another one")
    s.engine = other_engine()
    s.docker.send("D_ENGINE", 0, {"up": 1, "id": "TWO/2"})
    assert wait_until(lambda: s.call("ASK_HEALTH").fields["engine_up"] == 0)
    s.end_session(s.session_of(b)[0].id)
    assert wait_until(lambda: s.exec(b).fields["status"] == 502) and refused(s.exec(b), 502) == TEXT
    assert s.get(b).name == "SANDBOX"
    s.engine = engine
    s.docker.send("D_ENGINE", 0, {"up": 0})
    s.docker.send("D_ENGINE", 0, {"up": 1, "id": "ONE/1"})
    assert wait_until(lambda: s.exec(b).fields["status"] == 200)


def test_delete_and_time_to_live_wait_for_the_right_engine(start, engine, data, left):
    b, _ = left
    s = start(engine=other_engine())
    assert TEXT in refused(s.destroy(b), 502)
    s.kill()
    assert len(engine.containers) == 1 and len(files(data, "sandboxes")) == 1
    s = start()
    assert wait_until(engine.empty) and wait_until(lambda: files(data, "sandboxes") == [])


def test_adopt_takes_the_other_engine_and_what_it_does_not_hold_is_lost(start, engine, data, left):
    b, snap = left
    two = other_engine()
    s = start(engine=two, instance=layout.INSTANCE_ADOPT)
    assert wait_until(lambda: s.get(b).name == "REPLY") and "lost" in s.p.log() and "--adopt" in s.p.log()
    assert s.fork(snap).name == "SANDBOX"
    s.kill()
    assert json.loads((data / "instance.json").read_text())["engine"] == "TWO/2"
    assert start(engine=two).create().name == "SANDBOX"


def test_adopt_of_an_engine_with_the_same_things_loses_nothing(start, engine, left):
    b, _ = left
    engine.identity = "THREE/3"
    s = start()
    assert refused(s.exec(b), 502) == TEXT
    s.kill()
    s = start(instance=layout.INSTANCE_ADOPT)
    assert s.exec(b).fields["status"] == 200
    s.kill()
    assert start().exec(b).fields["status"] == 200


def test_adopt_counts_for_the_first_engine_only(start, engine, left):
    b, _ = left
    s = start(instance=layout.INSTANCE_ADOPT)
    assert s.exec(b).fields["status"] == 200
    s.docker.send("D_ENGINE", 0, {"up": 1, "id": "TWO/2"})
    assert wait_until(lambda: s.call("ASK_HEALTH").fields["engine_up"] == 0) and s.get(b).name == "SANDBOX"


def test_without_sandboxes_any_engine_is_taken(start, engine, data, left):
    b, snap = left
    s = start()
    assert s.destroy(b).fields["status"] == 204
    s.kill()
    two = other_engine()
    s = start(engine=two)
    assert wait_until(lambda: s.call("ASK_HEALTH").fields["engine_up"]) and "another Docker engine" in s.p.log()
    assert s.fork(snap).name == "SANDBOX"
    assert json.loads((data / "instance.json").read_text())["engine"] == "TWO/2"


def test_sandbox_whose_record_is_damaged_counts(start, engine, data, left):
    b, _ = left
    (data / "sandboxes" / f"sb_{b:016x}.json").write_text("{")
    assert refused(start(engine=other_engine()).create(), 502) == TEXT


def test_new_instance_begins_with_the_engine_that_is_there(start, engine, data, left):
    copy = copy_of(data, "-copy")
    two = other_engine()
    s = start(data=copy, engine=two, instance=layout.INSTANCE_NEW)
    assert s.create().name == "SANDBOX" and json.loads((copy / "instance.json").read_text())["engine"] == "TWO/2"


def test_data_directory_that_never_met_an_engine_takes_the_first(start, engine, data, left):
    b, _ = left
    path = data / "instance.json"
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "engine"}))
    s = start()
    assert s.exec(b).fields["status"] == 200 and json.loads(path.read_text())["engine"] == "ONE/1"


def test_engine_id_without_an_end_is_fatal(start, engine):
    s = start()
    s.docker.send("D_ENGINE", 0, {"up": 1, "id": "x" * 136})
    assert s.p.wait(30) == 1 and "engine id" in s.p.log()
    s.finish()
