"""What cannot be done twice is sent once, also where a kept connection ends without an answer."""

import contextlib
import json
import socket
import threading

import pytest
from cli_kit import Cli
from mcp_kit import Mcp
from trap import SANDBOX_ID, SNAPSHOT_ID


class Keeper:
    """Keeps connections for what is only read; closes them, without an answer, once something else was read from them."""

    LISTS = json.dumps({"sandboxes": [{"id": SANDBOX_ID}], "snapshots": [{"id": SNAPSHOT_ID}]}).encode()

    def __init__(self):
        self.seen = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self.listener.accept()[0],), daemon=True).start()

    def _serve(self, s):
        with contextlib.suppress(OSError), s, s.makefile("rb") as f:
            while line := f.readline().decode():
                length = 0
                while h := f.readline().strip().lower():
                    if h.startswith(b"content-length:"):
                        length = int(h.split(b":")[1])
                f.read(length)
                self.seen.append(" ".join(line.split()[:2]))
                if not line.startswith("GET "):
                    s.shutdown(socket.SHUT_RDWR)
                    return
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(self.LISTS)}\r\n\r\n"
                s.sendall(head.encode() + self.LISTS)

    def sent(self, method):
        return [s for s in self.seen if s.startswith(method + " ")]

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@pytest.fixture
def keeper():
    k = Keeper()
    yield k
    k.close()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("sandbox_exec", {"sandbox_id": SANDBOX_ID, "command": "x"}),
        ("sandbox_create", {}),
        ("sandbox_snapshot", {"sandbox_id": SANDBOX_ID}),
        ("sandbox_rollback", {"sandbox_id": SANDBOX_ID, "snapshot_id": SNAPSHOT_ID}),
        ("sandbox_fork", {"snapshot_id": SNAPSHOT_ID}),
    ],
)
def test_tool_that_loses_a_kept_connection_is_not_done_twice(keeper, tool, arguments):
    mcp = Mcp(keeper.url)
    try:
        mcp.tool("sandbox_list")
        assert "what was done there is not known" in mcp.refused(tool, **arguments)
        assert len(keeper.sent("POST")) == 1, keeper.seen
    finally:
        mcp.close()


@pytest.mark.parametrize(
    "words", [("snapshot", SANDBOX_ID[:6]), ("rollback", SANDBOX_ID[:6], SNAPSHOT_ID), ("fork", SNAPSHOT_ID[:8])], ids=lambda w: w[0]
)
def test_verb_that_loses_a_kept_connection_is_not_done_twice(keeper, words):
    assert "what was done there is not known" in Cli(keeper.url).fails(5, *words)
    assert len(keeper.sent("GET")) == 1 and len(keeper.sent("POST")) == 1, keeper.seen
