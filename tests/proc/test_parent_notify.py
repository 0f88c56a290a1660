"""What agent-sandboxd tells a service manager: that it is ready, reads its files anew, ends; and that all is well, while it is."""

import contextlib
import os
import signal
import socket

import pytest
from machine import wait_until
from test_parent import PROGRAMS, parent  # noqa: F401


class Manager:
    """The socket of a service manager."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(name)
        self.socket.setblocking(False)
        self.said = []

    def read(self):
        with contextlib.suppress(BlockingIOError):
            while True:
                self.said += self.socket.recv(4096).decode().split("\n")
        return self.said

    def hears(self, line, times=1):
        return wait_until(lambda: self.read().count(line) >= times)


@pytest.fixture
def manager(tmp_path):
    m = Manager(str(tmp_path / "notify"))
    yield m
    m.socket.close()


def start(parent, manager, usec=None):  # noqa: F811
    env = {"NOTIFY_SOCKET": manager.socket.getsockname(), "WATCHDOG_USEC": usec}
    return parent.start(env={k: v for k, v in env.items() if v})


def test_ready_is_said_when_the_port_is_open_and_stopping_before_the_end(parent, manager):  # noqa: F811
    start(parent, manager)
    assert manager.hears("READY=1")
    assert parent.end() == 0
    assert manager.read() == ["READY=1", "STOPPING=1"]


def test_ready_is_not_said_before_all_programs_are(parent, manager):  # noqa: F811
    parent.do("managerd", "hang")
    parent.start(ready=False, env={"NOTIFY_SOCKET": manager.socket.getsockname()})
    assert wait_until(lambda: parent.all_started(1))
    assert not manager.read()
    assert parent.end() == 0
    assert manager.read() == ["STOPPING=1"]


def test_a_reload_is_said_and_its_end(parent, manager):  # noqa: F811
    start(parent, manager)
    assert manager.hears("READY=1")
    parent.proc.send_signal(signal.SIGHUP)
    assert manager.hears("READY=1", 2)
    assert manager.said == ["READY=1", "RELOADING=1", "READY=1"]


def test_a_name_without_a_file_is_a_socket_too(parent):  # noqa: F811
    name = f"\0agent-sandbox-test-{os.getpid()}"
    m = Manager(name)
    with contextlib.closing(m.socket):
        parent.start(env={"NOTIFY_SOCKET": "@" + name[1:]})
        assert m.hears("READY=1")


@pytest.mark.parametrize("path", ["", "/nowhere/notify", "x" * 108])
def test_a_service_manager_that_cannot_be_reached_costs_nothing(parent, path):  # noqa: F811
    parent.start(env={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1000000"})
    assert parent.end() == 0


def test_the_programs_do_not_learn_of_the_service_manager(parent, manager):  # noqa: F811
    start(parent, manager, "2000000")
    assert manager.hears("READY=1")
    for name in PROGRAMS:
        assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC"} & set(parent.seen(name)[-1]["env"])


def test_the_watchdog_is_told_as_long_as_all_answer(parent, manager):  # noqa: F811
    start(parent, manager, "2000000")
    assert manager.hears("WATCHDOG=1", 3)
    assert "does not answer" not in parent.log()


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_watchdog_is_not_told_while_one_program_does_not_answer(parent, manager, name):  # noqa: F811
    start(parent, manager, "2000000")
    assert manager.hears("WATCHDOG=1", 2)
    parent.do(name, "silent")
    assert wait_until(lambda: f"{name}[{parent.pid(name)}] does not answer" in parent.log())
    told = manager.read().count("WATCHDOG=1")
    parent.proc.send_signal(signal.SIGHUP)  # the loop goes on meanwhile
    assert manager.hears("READY=1", 2)
    assert manager.read().count("WATCHDOG=1") == told


def test_without_a_watchdog_nobody_is_asked(parent, manager):  # noqa: F811
    for name in PROGRAMS:
        parent.do(name, "silent")
    start(parent, manager)
    parent.proc.send_signal(signal.SIGHUP)
    assert manager.hears("READY=1", 2)
    assert "does not answer" not in parent.log()


def test_the_watchdog_is_told_while_the_programs_start(parent, manager):  # noqa: F811
    parent.do("managerd", "hang")
    parent.start(ready=False, env={"NOTIFY_SOCKET": manager.socket.getsockname(), "WATCHDOG_USEC": "2000000"})
    assert manager.hears("WATCHDOG=1", 2)
    assert "READY=1" not in manager.said


def test_after_a_crash_the_successor_says_that_it_is_ready(parent, manager):  # noqa: F811
    start(parent, manager, "2000000")
    assert manager.hears("READY=1")
    os.kill(parent.pid("egressd"), signal.SIGKILL)
    assert manager.hears("READY=1", 2)
    assert manager.hears("WATCHDOG=1", manager.said.count("WATCHDOG=1") + 2)


def test_a_missing_key_file_says_how_a_key_is_made(parent, tmp_path):  # noqa: F811
    line = parent.refused(settings={"API_KEYS": "", "KEYS_FILE": str(tmp_path / "keys")})
    assert f"agent-sandbox keygen --name NAME --file {tmp_path}/keys" in line
