"""The client for asyncio: AsyncSandboxClient and its AsyncSandbox objects; the same as the blocking one, to be awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Coroutine, Generator, Mapping, Sequence
from types import TracebackType
from typing import Any, Optional, Union

import httpx

from . import _calls
from ._calls import Command, Local, Stdin
from ._config import DEFAULT_URL
from ._errors import SandboxAPIError, SandboxConnectionLostError, SandboxNotFoundError
from ._files import PathLike
from ._http import AsyncTransport, Lifeline
from ._models import ExecEvent, ExecResult, FileInfo, RunResult, SnapshotInfo, hosts
from ._tls import ClientCert, Trust
from ._wire import Call, Progress

__all__ = [
    "DEFAULT_URL",
    "AsyncExecStream",
    "AsyncSandbox",
    "AsyncSandboxClient",
    "ExecEvent",
    "ExecResult",
    "FileInfo",
    "PendingSandbox",
    "RunResult",
    "SandboxAPIError",
    "SnapshotInfo",
]


class AsyncExecStream(AsyncIterator[ExecEvent]):
    """The events of a running command, in order; the last one has type ``"exit"``.

    The command starts with the first event that is asked for. ``close()``, or the end of an ``async with`` block, ends
    it. A loop that may be left early should stand in such a block: Python itself closes the stream only some time later.
    """

    def __init__(self, events: AsyncIterator[ExecEvent], lifeline: Lifeline) -> None:
        self._events, self._lifeline = events, lifeline

    def __aiter__(self) -> AsyncExecStream:
        return self

    async def __anext__(self) -> ExecEvent:
        try:
            return await self._events.__anext__()
        except SandboxConnectionLostError:
            if self._lifeline.cut:
                raise StopAsyncIteration from None
            raise

    async def __aenter__(self) -> AsyncExecStream:
        return self

    async def __aexit__(self, kind: Optional[type[BaseException]], exc: Optional[BaseException], tb: Optional[TracebackType]) -> None:
        await self.close()

    async def close(self) -> None:
        """End the command if it still runs. May be called more than once, and from another task, where the loop then ends."""
        close = getattr(self._events, "aclose", None)
        if close is None:
            return
        try:
            await close()
        except RuntimeError:  # it is being read
            self._lifeline.end()


class AsyncSandbox:
    """One sandbox on the server. Made by AsyncSandboxClient; as a context manager it is destroyed at the end.

    Attributes:
        id: ``sb_…``.
        status: ``"running"`` or ``"stopped"`` when it was last asked for.
        image: its image.
        expires_at: when it will end, RFC 3339 in UTC.
        egress_allowlist: the hosts that it can reach; empty: none; None: it has no list (see ``data["network"]``).
        data: all that the server said about it.
    """

    id: str
    status: str
    image: str
    expires_at: str
    egress_allowlist: Optional[list[str]]
    data: dict[str, Any]

    def __init__(self, client: AsyncSandboxClient, data: Mapping[str, Any]) -> None:
        self._client = client
        self._update(data)

    def _update(self, data: Mapping[str, Any]) -> None:
        self.data = dict(data)
        self.id, self.status = data["id"], data["status"]
        self.image, self.expires_at = data["image"], data["expires_at"]
        self.egress_allowlist = hosts(data)

    def __repr__(self) -> str:
        return f"AsyncSandbox(id={self.id!r}, image={self.image!r}, status={self.status!r})"

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(self, kind: Optional[type[BaseException]], exc: Optional[BaseException], tb: Optional[TracebackType]) -> None:
        try:
            await self.destroy()
        except SandboxNotFoundError:
            pass
        except SandboxAPIError:
            # What went wrong in the block is what its user must see.
            if exc is None:
                raise

    @property
    def _transport(self) -> AsyncTransport:
        return self._client._transport  # pyright: ignore[reportPrivateUsage]

    async def refresh(self) -> AsyncSandbox:
        """Ask the server again and update the attributes. SandboxNotFoundError if it is gone."""
        self._update(await self._transport.run(_calls.get(self.id)))
        return self

    async def exec(
        self,
        command: Command,
        *,
        env: Optional[Mapping[str, str]] = None,
        workdir: Optional[str] = None,
        timeout_seconds: Optional[float] = None,
        stdin: Optional[str] = None,
        detail: bool = False,
        kill_others: bool = False,
        on_disconnect: Optional[str] = None,
    ) -> ExecResult:
        """Run a command to its end.

        Arguments, results and errors are those of the blocking client.
        """
        what = _calls.Exec(command, env, workdir, timeout_seconds, detail, kill_others, on_disconnect)
        return await self._transport.run(_calls.exec_(self.id, what, stdin))

    def exec_stream(
        self,
        command: Command,
        *,
        env: Optional[Mapping[str, str]] = None,
        workdir: Optional[str] = None,
        timeout_seconds: Optional[float] = None,
        stdin: Optional[Stdin] = None,
        detail: bool = False,
        kill_others: bool = False,
        on_disconnect: Optional[str] = None,
    ) -> AsyncExecStream:
        """Run a command and give its output as it comes; see exec() for the arguments.

        Arguments, results and errors are those of the blocking client.
        """
        what = _calls.Exec(command, env, workdir, timeout_seconds, detail, kill_others, on_disconnect)
        request = _calls.exec_stream(self.id, what, stdin)
        lifeline = Lifeline()
        return AsyncExecStream(self._transport.events(request, _calls.NDJSON, lifeline), lifeline)

    async def read_file(self, path: str) -> bytes:
        """The content of a file, in memory; for large files see download()."""
        return await self._transport.run(_calls.read_file(self.id, path))

    async def read_text(self, path: str, encoding: str = "utf-8") -> str:
        """The content of a text file. UnicodeDecodeError if it is not in that encoding."""
        return (await self.read_file(path)).decode(encoding)

    async def write_file(self, path: str, data: Union[bytes, str], *, mode: int = 0o644) -> FileInfo:
        """Make or replace a file below ``/workspace``, and the folders on the way. Text is written as UTF-8."""
        return await self._transport.run(_calls.write_file(self.id, path, data, mode))

    async def list_files(self, path: str = "/workspace") -> list[FileInfo]:
        """What is in a folder, sorted by name, with dot files."""
        return await self._transport.run(_calls.list_files(self.id, path))

    async def upload(self, local: Local, path: str, *, mode: Optional[int] = None, progress: Optional[Progress] = None) -> FileInfo:
        """Send a local file, in pieces.

        Arguments, results and errors are those of the blocking client.
        """
        return await self._transport.run(_calls.upload(self.id, local, path, mode, progress))

    async def download(self, path: str, local: Local, *, overwrite: bool = False, progress: Optional[Progress] = None) -> int:
        """Fetch a file, in pieces, into a local one.

        Arguments, results and errors are those of the blocking client.
        """
        return await self._transport.save(_calls.download(self.id, path, local, overwrite, progress))

    async def upload_folder(self, local: PathLike, path: str = "/workspace", *, progress: Optional[Progress] = None) -> list[str]:
        """Put what is in a local folder into a folder of the sandbox, which is made.

        Arguments, results and errors are those of the blocking client.
        """
        return await self._transport.run(_calls.upload_folder(self.id, local, path, progress))

    async def download_folder(self, path: str, local: PathLike, *, progress: Optional[Progress] = None) -> list[str]:
        """Fetch a folder into a new local one, which must not exist.

        Arguments, results and errors are those of the blocking client.
        """
        return await self._transport.save(_calls.download_folder(self.id, path, local, progress))

    async def upload_archive(self, local: Local, path: str = "/workspace", *, progress: Optional[Progress] = None) -> None:
        """Unpack a local tar, not compressed, into a folder of the sandbox, which is made."""
        await self._transport.run(_calls.upload_archive(self.id, local, path, progress))

    async def download_archive(self, path: str, local: Local, *, overwrite: bool = False, progress: Optional[Progress] = None) -> int:
        """Fetch a file or folder as a tar (pax) into a local file; else as download(). Do not trust names in it."""
        return await self._transport.save(_calls.download_archive(self.id, path, local, overwrite, progress))

    async def snapshot(self, name: Optional[str] = None) -> SnapshotInfo:
        """Keep ``/workspace`` as it is now, under a name of at most 128 characters. It outlives the sandbox."""
        return await self._transport.run(_calls.take_snapshot(self.id, name))

    async def rollback(self, snapshot: Union[SnapshotInfo, str]) -> AsyncSandbox:
        """Put ``/workspace`` back as it was, end every process and clear ``/tmp``. If it fails, nothing has changed."""
        self._update(await self._transport.run(_calls.rollback(self.id, snapshot)))
        return self

    async def set_timeout(self, timeout_seconds: int) -> AsyncSandbox:
        """Let the sandbox end this many seconds from now."""
        self._update(await self._transport.run(_calls.set_timeout(self.id, timeout_seconds)))
        return self

    async def destroy(self) -> None:
        """End the sandbox. Its files are gone, its snapshots stay. SandboxNotFoundError if it is gone already."""
        await self._transport.run(_calls.destroy(self.id))


class PendingSandbox(Awaitable[AsyncSandbox]):
    """A sandbox that is being made: ``sandbox = await pending``, or ``async with pending as sandbox``."""

    def __init__(self, make: Coroutine[Any, Any, AsyncSandbox]) -> None:
        self._make = make
        self._sandbox: Optional[AsyncSandbox] = None

    def __await__(self) -> Generator[Any, None, AsyncSandbox]:
        return self._make.__await__()

    async def __aenter__(self) -> AsyncSandbox:
        self._sandbox = await self._make
        return self._sandbox

    async def __aexit__(self, kind: Optional[type[BaseException]], exc: Optional[BaseException], tb: Optional[TracebackType]) -> None:
        if self._sandbox is not None:
            await self._sandbox.__aexit__(kind, exc, tb)


class AsyncSandboxClient:
    """A connection to an agent-sandbox server. Threads may share it.

    Args:
        base_url: such as ``https://box.example``; AGENT_SANDBOX_URL, else ``http://127.0.0.1:8080``, if not given.
        api_key: AGENT_SANDBOX_API_KEY, the file AGENT_SANDBOX_API_KEY_FILE, or ``~/.config/agent-sandbox/key`` if not
            given. A key file must be readable by its owner alone.
        timeout: seconds that the server may be silent; 300 if not given, and more where an image may have to be
            pulled. A command's own ``timeout_seconds`` is always waited for.
        http_client: an httpx.AsyncClient to use, with its own timeouts, proxies and certificates; its ``base_url`` counts
            if it has one. It is closed with this client.
        retries: how often a request that failed may be sent again, where that cannot do anything twice: when nothing
            was sent; and after a lost connection or a 503 for all but commands, snapshots and rollbacks. A create or
            fork carries a key by which the server knows it again.
        ca_file: certificates in PEM to trust, with https, instead of those that this machine trusts;
            AGENT_SANDBOX_CA_FILE if not given.
        client_cert: a certificate in PEM to show, with https: the path of a file that has its key too, or a pair of
            paths; AGENT_SANDBOX_CLIENT_CERT and AGENT_SANDBOX_CLIENT_KEY if not given. The key has no passphrase, and
            its file must be readable by its owner alone.

    Raises:
        SandboxConfigError: the URL, the key, or a file with a key or certificates cannot be used.
    """

    def __init__(
        self,
        base_url: Optional[str] = None,
        api_key: Optional[str] = None,
        *,
        timeout: Optional[float] = None,
        http_client: Optional[httpx.AsyncClient] = None,
        retries: int = 2,
        ca_file: Optional[PathLike] = None,
        client_cert: Optional[ClientCert] = None,
    ) -> None:
        self._transport = AsyncTransport(http_client, base_url, api_key, timeout, retries, Trust(ca_file, client_cert))

    def __repr__(self) -> str:
        return f"AsyncSandboxClient({self._transport.wire.where!r})"

    async def __aenter__(self) -> AsyncSandboxClient:
        return self

    async def __aexit__(self, kind: Optional[type[BaseException]], exc: Optional[BaseException], tb: Optional[TracebackType]) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. Sandboxes live on."""
        await self._transport.http.aclose()

    async def health(self) -> dict[str, Any]:
        """What the server says about itself: ``status``, ``backend``, ``version``, … Needs no key."""
        return await self._transport.run(_calls.health())

    def create(
        self,
        image: Optional[str] = None,
        *,
        cpus: Optional[float] = None,
        memory_mb: Optional[int] = None,
        pids_limit: Optional[int] = None,
        network: bool = False,
        read_only_rootfs: bool = True,
        timeout_seconds: Optional[int] = None,
        env: Optional[Mapping[str, str]] = None,
        labels: Optional[Mapping[str, str]] = None,
        idempotency_key: Optional[str] = None,
        egress_allowlist: Optional[Sequence[str]] = None,
    ) -> PendingSandbox:
        """Make a sandbox. What is not given is the server's default.

        Arguments, results and errors are those of the blocking client.
        """
        call = _calls.create(
            image, cpus, memory_mb, pids_limit, network, read_only_rootfs, timeout_seconds, env, labels, idempotency_key, egress_allowlist
        )  # fmt: skip
        return PendingSandbox(self._make(call))

    async def _make(self, call: Call[Mapping[str, Any]]) -> AsyncSandbox:
        return AsyncSandbox(self, await self._transport.run(call))

    async def run(
        self,
        code: str,
        language: str = "python",
        *,
        timeout_seconds: Optional[int] = None,
        memory_mb: Optional[int] = None,
        max_output_bytes: Optional[int] = None,
        snapshot: bool = False,
        snapshot_id: Union[SnapshotInfo, str, None] = None,
        egress_allowlist: Optional[Sequence[str]] = None,
    ) -> RunResult:
        """Run a program to its end in a sandbox of its own, of which nothing is left.

        Arguments, results and errors are those of the blocking client.
        """
        what = _calls.Run(code, language, timeout_seconds, memory_mb, max_output_bytes, snapshot, snapshot_id, egress_allowlist)
        return await self._transport.run(_calls.run(what))

    async def get(self, sandbox_id: str) -> AsyncSandbox:
        """The sandbox with this id. SandboxNotFoundError if there is none."""
        return AsyncSandbox(self, await self._transport.run(_calls.get(sandbox_id)))

    async def list_sandboxes(self, label: Optional[str] = None) -> list[AsyncSandbox]:
        """All sandboxes, oldest first; with ``label="name=value"`` those that carry it."""
        return [AsyncSandbox(self, data) for data in await self._transport.run(_calls.list_sandboxes(label))]

    async def list_snapshots(self, sandbox_id: Optional[str] = None) -> list[SnapshotInfo]:
        """All snapshots, or those of one sandbox, oldest first."""
        return await self._transport.run(_calls.list_snapshots(sandbox_id))

    async def get_snapshot(self, snapshot_id: str) -> SnapshotInfo:
        """The snapshot with this id. SandboxNotFoundError if there is none."""
        return await self._transport.run(_calls.get_snapshot(snapshot_id))

    async def delete_snapshot(self, snapshot_id: Union[SnapshotInfo, str]) -> None:
        """Delete a snapshot. Sandboxes that came from it stay."""
        await self._transport.run(_calls.delete_snapshot(snapshot_id))

    def fork(
        self,
        snapshot: Union[SnapshotInfo, str],
        *,
        timeout_seconds: Optional[int] = None,
        network: Optional[bool] = None,
        cpus: Optional[float] = None,
        memory_mb: Optional[int] = None,
        idempotency_key: Optional[str] = None,
    ) -> PendingSandbox:
        """Make a new sandbox that begins with a snapshot; what is not given is as in the sandbox it was taken of.

        Arguments, results and errors are those of the blocking client.
        """
        call = _calls.fork(snapshot, timeout_seconds, network, cpus, memory_mb, idempotency_key)
        return PendingSandbox(self._make(call))
