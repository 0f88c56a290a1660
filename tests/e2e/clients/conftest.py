"""What the tests of the clients share: the command, and a server that misbehaves. The SDK under test is that of the source tree."""

import sys
from pathlib import Path

import pytest
from harness import ROOT

sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "clients/python/src")]


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
