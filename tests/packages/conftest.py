"""What operators install, as "make test-packages" has built it: fixtures deb, tarball and engine."""

import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/e2e")]
from engine import Engine  # noqa: E402


def built(pattern):
    found = sorted((ROOT / "build").glob(pattern))
    assert len(found) == 1, f"build/{pattern}: {[f.name for f in found]}"
    return found[0]


@pytest.fixture(scope="session")
def deb():
    return built("deb/agent-sandbox_*.deb")


@pytest.fixture(scope="session")
def tarball():
    return built("tarball/agent-sandbox-*.tar.gz")


def _late(*_):
    raise TimeoutError("the test took too long")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """No test hangs the run."""
    old = signal.signal(signal.SIGALRM, _late)
    signal.alarm(300)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old)


@pytest.fixture(scope="session")
def engine():
    """The engine of the runner, or one for this session alone."""
    if given := os.environ.get("AS_TEST_ENGINE"):
        yield Engine.at(given)
        return
    e = Engine(Path("/tmp") / f"as-packages-{os.getpid()}" / "engine")
    try:
        e.start()
        e.load_images()
        yield e
    finally:
        left = e.stop()
        with contextlib.suppress(OSError):
            e.dir.parent.rmdir()
    assert not left, left
