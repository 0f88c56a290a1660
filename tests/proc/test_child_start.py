"""How a program starts: what it reads from its parent, and that a wrong word ends it before it does anything."""

import os

import layout
import pytest
from machine import descriptors

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="starts programs as root does")
SETUP = {"uid": 64103, "gid": 64103, "extra_gid": 2**32 - 1, "as_root": 1, "log_level": 2}


@pytest.fixture
def child():
    """A sessiond that has not been told anything."""
    with layout.Program("sessiond", ["chan"], start=False) as p:
        yield p


def ends_with(p, text):
    assert p.wait(30) == 1
    assert text in p.log()


def test_start_without_setup_is_fatal(child):
    child.parent.send("P_START")
    ends_with(child, "start without setup")


def test_second_setup_is_fatal(child):
    child.parent.send("P_SETUP", 0, SETUP)
    child.parent.send("P_SETUP", 0, SETUP)
    ends_with(child, "bad setup")


@pytest.mark.parametrize("tail", [b"x" * 1024, b"/a\0b"])
def test_bad_path_is_fatal(child, tail):
    child.parent.send("P_SETUP", 0, SETUP, tail)
    ends_with(child, "bad setup")


def test_unknown_log_level_is_fatal(child):
    child.parent.send("P_SETUP", 0, SETUP | {"log_level": 4})
    ends_with(child, "bad setup")


def test_configuration_before_setup_is_fatal(child):
    child.parent.send("P_CONFIG", 0, {"key": layout.CFG_ALLOW_WEAKER, "num": 0})
    ends_with(child, "unknown, twice or early")


def test_configuration_given_twice_or_unknown_is_fatal(child):
    child.parent.send("P_SETUP", 0, SETUP)
    child.parent.send("P_CONFIG", 0, {"key": layout.CFG_ALLOW_WEAKER, "num": 0})
    child.parent.send("P_CONFIG", 0, {"key": layout.CFG_ALLOW_WEAKER, "num": 1})
    ends_with(child, "unknown, twice or early")


def test_unknown_configuration_key_is_fatal(child):
    child.parent.send("P_SETUP", 0, SETUP)
    child.parent.send("P_CONFIG", 0, {"key": len(layout.CONFIG), "num": 0})
    ends_with(child, "unknown, twice or early")


@pytest.mark.parametrize(("key", "tail"), [("ALLOW_WEAKER", b"true"), ("LOG_LEVEL", b"in\0fo")])
def test_configuration_of_another_type_is_fatal(child, key, tail):
    child.parent.send("P_SETUP", 0, SETUP)
    child.parent.send("P_CONFIG", 0, {"key": layout.CONFIG[key].number}, tail)
    ends_with(child, "not of its type")


def test_message_of_another_channel_is_fatal(child):
    child.parent.send("P_SESSION_OVER")
    ends_with(child, "unknown type")


def test_what_only_a_program_says_is_fatal_from_its_parent(child):
    child.parent.send("P_READY")
    ends_with(child, "not for this sender to say")


def test_descriptor_with_the_setup_is_fatal(child):
    child.parent.send("P_SETUP", 0, SETUP, fd=0)
    ends_with(child, "a descriptor that it must not carry")


@pytest.mark.parametrize("name", ["P_PING", "P_STATE"])
def test_question_before_the_start_is_fatal(child, name):
    child.parent.send("P_SETUP", 0, SETUP)
    child.parent.send(name)
    ends_with(child, "asked before the start")


@pytest.mark.parametrize("ids", [{"uid": 0}, {"gid": 0}, {"uid": 0, "gid": 0}])
def test_root_is_refused_as_a_user_and_as_a_group(child, ids):
    child.parent.send("P_SETUP", 0, SETUP | ids)
    child.parent.send("P_START")
    ends_with(child, "will not run as root")


def test_end_of_the_parent_during_the_setup_ends_it_quietly(child):
    child.parent.send("P_SETUP", 0, SETUP)
    child.parent.close()
    assert child.wait(30) == 0


def test_message_after_the_start_is_fatal_where_none_is_expected():
    with layout.Program("sessiond", ["chan"]) as p:
        p.parent.send("P_START")
        ends_with(p, "message 0x0102 after the setup")


def test_descriptors_that_were_not_meant_for_it_are_closed():
    leak, other = os.pipe()
    pipe = os.readlink(f"/proc/self/fd/{leak}")
    with layout.Program("sessiond", ["chan", leak, leak, leak]) as p:
        assert (held := descriptors(p.pid)) and pipe not in held.values()
    os.close(leak)
    os.close(other)


def test_level_of_the_log_is_what_the_parent_says():
    for level, there in (("debug", True), ("info", False)):
        with layout.Program("sessiond", ["chan"], log_level=level) as p:
            p.parent.close()
            assert p.wait(30) == 0
            assert ("the parent has gone" in p.log()) == there
