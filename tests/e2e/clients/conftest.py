"""What the tests of the clients share: the command, and a server that misbehaves. The SDK under test is that of the source tree."""

import subprocess
import sys
from pathlib import Path

import pytest
from harness import KEY, ROOT

sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "clients/python/src")]
from drivers import DRIVERS, TypeScriptDriver  # noqa: E402


@pytest.fixture
def cli(server):
    from cli_kit import Cli

    return Cli(server.url)


@pytest.fixture
def trap():
    from trap import Trap

    one = Trap()
    yield one
    one.close()


@pytest.fixture(scope="session")
def built():
    subprocess.run(["make", "-s", "--no-print-directory", "clients-typescript"], cwd=ROOT, check=True, stdin=subprocess.DEVNULL)


@pytest.fixture(params=list(DRIVERS))
def kind(request):
    if request.param == TypeScriptDriver.name:
        request.getfixturevalue("built")
    return DRIVERS[request.param]


@pytest.fixture(scope="module")
def drivers():
    """Those that are processes are used again."""
    made = {}
    yield made
    for d in made.values():
        d.close()


@pytest.fixture
def reach(kind, drivers):
    """reach(url, key, timeout=, retries=): a driver."""

    def one(url, key=KEY, **options):
        which = (kind, url, key, *sorted(options.items()))
        if which not in drivers:
            drivers[which] = kind(url, key, **options)
        return drivers[which]

    return one


@pytest.fixture
def to(reach, server):
    return reach(server.url)
