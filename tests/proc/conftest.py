"""The folder above is in the path of imports too: machine.py is there, for all suites."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pytest  # noqa: E402


@pytest.fixture(scope="module", params=["plain", "TLS"])
def kind(request):
    """What is promised of a connection holds in both: the class of the server."""
    from apid_server import Server
    from tls_kit import TlsServer

    return TlsServer if request.param == "TLS" else Server
