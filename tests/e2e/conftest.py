"""Fixtures: engine (one for the whole run), server (one for each worker), own (private servers), box (a shared sandbox)."""

import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from harness import FRONT, GVISOR, Engine, FaultySocket, Server  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "core: also run against the other engine")
    config.addinivalue_line("markers", "limit(seconds): a test may take longer than the usual 120 s")
    config.addinivalue_line("markers", "gvisor: about gVisor's kernel; not with another")
    config.addinivalue_line("markers", "not_gvisor(why): what gVisor cannot do")
    config.addinivalue_line(
        "markers", "gate: about the server's own port, HTTP parser or answers that a proxy gives itself; not behind one"
    )
    config.addinivalue_line("markers", "bare: has servers, certificates or readers of its own, for which a front means nothing")


def pytest_collection_modifyitems(config, items):
    """Behind nginx the port and the parser are nginx's; and some tests are the same whatever stands in front of other servers."""
    for item in items if GVISOR else []:
        if mark := item.get_closest_marker("not_gvisor"):
            item.add_marker(pytest.mark.skip(reason="gVisor: " + mark.args[0]))
    out = [name for name, stays in (("gate", FRONT.gate), ("bare", FRONT.bare), ("gvisor", GVISOR)) if not stays]
    if theirs := [item for item in items if any(map(item.get_closest_marker, out))]:
        items[:] = [item for item in items if item not in theirs]
        config.hook.pytest_deselected(items=theirs)


def _late(*_):
    raise TimeoutError("the test took too long")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """No test hangs the run."""
    mark = item.get_closest_marker("limit")
    old = signal.signal(signal.SIGALRM, _late)
    signal.alarm(mark.args[0] if mark else 120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure comes with what the servers said."""
    report = (yield).get_result()
    if report.failed:
        for s in Server.alive:
            report.sections.append((f"log of the server on port {s.port}", s.tail(2500)))


@pytest.fixture(scope="session")
def engine(tmp_path_factory):
    """The engine of the runner, or one for this session alone."""
    given = os.environ.get("AS_TEST_ENGINE")
    if given:
        yield Engine.at(given)
        return
    e = Engine(Path("/tmp") / f"as-e2e-{os.getpid()}" / "engine")
    try:
        e.start()
        e.load_images()
        yield e
    finally:
        left = e.stop()
        with contextlib.suppress(OSError):
            e.dir.parent.rmdir()
    assert not left, left


@pytest.fixture(scope="session")
def server(engine):
    """A server with the default limits, shared by the tests of a worker; nothing may be left of it at the end."""
    s = Server(engine, MAX_SANDBOXES=40).start()
    yield s
    s.close()


@pytest.fixture
def api(server):
    """Its API; what a test makes is deleted after it."""
    from harness import Api

    a = Api(server.url)
    yield a
    a.clear()


@pytest.fixture
def make(api):
    return api.create


@pytest.fixture(scope="session")
def _shared(server):
    return {}


@pytest.fixture
def box(server, _shared):
    """A sandbox that many tests use one after the other; its workspace is emptied before each."""
    b = _shared.get("box")
    if b is not None:
        ok = b.post_exec("chmod -R u+rwX . 2>/dev/null; find . /tmp -mindepth 1 -delete", "?kill_others=true")
        if ok.status_code != 200 or b.names() != []:
            b.delete()
            b = None
    if b is None:
        b = _shared["box"] = server.api.create(timeout_seconds=3600)
    return b


@pytest.fixture
def own(engine):
    """own(MAX_SANDBOXES=3) starts a private server; start=False only prepares it."""
    made = []

    def prepare(start=True, **settings):
        made.append(Server(settings.pop("engine", engine), **settings))
        return made[-1].start() if start else made[-1]

    yield prepare
    failed = None
    for s in made:
        try:
            s.close()
        except BaseException as exc:
            failed = failed or exc
    if failed:
        raise failed


@pytest.fixture(scope="module")
def scene(engine):
    from scene import Scene

    s = Scene(engine)
    yield s
    s.close()


@pytest.fixture
def faulty(engine):
    """A socket in front of the engine that can be made to misbehave."""
    f = FaultySocket(engine)
    yield f
    f.close()


@pytest.fixture
def private_engine():
    """private_engine("--live-restore", size="300m"): an engine of the test's own, to be stopped, killed or filled."""
    made = []

    def start(*options, **kw):
        e = Engine(Path("/tmp") / f"as-e2e-{os.getpid()}-{len(made)}" / "engine", **kw)
        made.append(e)
        e.start(*options)
        e.load_images()
        return e

    yield start
    left = []
    for e in made:
        left += e.stop()
        with contextlib.suppress(OSError):
            e.dir.parent.rmdir()
    assert not left, left
