"""One-shot runs, with the names, arguments and result fields of agentbox-sandbox 0.8: its users change the import."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Callable, Optional, TypeVar

import httpx

from . import _calls
from ._errors import SandboxAPIError
from ._files import PathLike
from ._http import SyncTransport
from ._tls import ClientCert, Trust
from ._wire import Call

T = TypeVar("T")


class AgentboxError(SandboxAPIError, RuntimeError):
    """The server refused a run, or it went past its time limit (``status_code`` 408)."""

    def __init__(self, status_code: int, code: str, message: str, **more: Any) -> None:
        super().__init__(status_code, code, message, **more)
        self.args = (f"agentbox HTTP {status_code}: {message}",)


class AgentboxClient:
    """Runs programs, each in a sandbox of its own. Threads may share it.

    Args:
        base_url, api_key, timeout, http_client, retries, ca_file, client_cert: as for SandboxClient.

    Raises:
        SandboxConfigError: the URL, the key, or a file with a key or certificates cannot be used.
    """

    def __init__(
        self,
        base_url: Optional[str] = None,
        api_key: Optional[str] = None,
        *,
        timeout: Optional[float] = None,
        http_client: Optional[httpx.Client] = None,
        retries: int = 2,
        ca_file: Optional[PathLike] = None,
        client_cert: Optional[ClientCert] = None,
    ) -> None:
        self._transport = SyncTransport(http_client, base_url, api_key, timeout, retries, Trust(ca_file, client_cert))
        self.base_url = self._transport.wire.where

    def __repr__(self) -> str:
        return f"AgentboxClient({self.base_url!r})"

    def __enter__(self) -> AgentboxClient:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], exc: Optional[BaseException], tb: Optional[TracebackType]) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._transport.http.close()

    def health(self) -> dict[str, Any]:
        """``status``, ``version`` and ``backend``. Needs no key."""
        return self._ask(_calls.short_health)

    def run(
        self,
        code: str,
        language: str = "python",
        timeout_seconds: Optional[int] = None,
        snapshot: bool = False,
        snapshot_id: Optional[str] = None,
        memory_mb: Optional[int] = None,
        egress_allowlist: Optional[Sequence[str]] = None,
    ) -> dict[str, Any]:
        """Run a program to its end.

        Args:
            code: 1 to 100,000 characters.
            language: ``"python"``, or ``"javascript"``, which is also called ``"node"``.
            timeout_seconds: 1 to 300; the server's default if not given.
            snapshot: keep ``/workspace``; ``snapshot_id`` of the result names what was kept.
            snapshot_id: what is in ``/workspace`` at the start; nothing if not given.
            memory_mb: MiB, from 16; the server's default if not given. ``limits_applied`` of the result says what it was.
            egress_allowlist: hosts that it may reach, as ``host`` or ``host:port``.

        Returns:
            ``stdout``, ``stderr``, ``exit_code``, ``duration_ms``, ``language``, ``backend``, ``snapshot_id``,
            ``limits_applied``, ``oom_killed``, ``network_isolated``, ``egress_allowlist``, ``truncated``.

        Raises:
            AgentboxError: refused, or past its time limit. A program that fails is a result, not an error.
            SandboxAPIError: it could not be asked, or its answer was lost.
        """
        what = _calls.Run(code, language, timeout_seconds, memory_mb, None, snapshot, snapshot_id, egress_allowlist)
        return self._ask(lambda: _calls.run_as_it_is(what))

    def _ask(self, call: Callable[[], Call[T]]) -> T:
        try:
            return self._transport.run(call())
        except SandboxAPIError as error:
            if error.status_code < 400 or isinstance(error, httpx.HTTPError):
                raise
            more = {"retry_after": error.retry_after, "request_id": error.request_id}
            raise AgentboxError(error.status_code, error.code, error.message, **more) from error
