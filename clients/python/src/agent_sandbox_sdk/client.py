"""The blocking client: SandboxClient and its Sandbox objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Optional, Union

import httpx

from . import _calls
from ._calls import Command, Local, Stdin
from ._config import DEFAULT_URL
from ._errors import SandboxAPIError, SandboxConnectionLostError, SandboxNotFoundError
from ._files import PathLike
from ._http import Lifeline, SyncTransport
from ._models import ExecDetail, ExecEvent, ExecResult, FileInfo, RunResult, SnapshotInfo, hosts
from ._tls import ClientCert, Trust
from ._wire import Progress

__all__ = [
    "DEFAULT_URL",
    "ExecDetail",
    "ExecEvent",
    "ExecResult",
    "ExecStream",
    "FileInfo",
    "RunResult",
    "Sandbox",
    "SandboxAPIError",
    "SandboxClient",
    "SnapshotInfo",
]


class ExecStream(Iterator[ExecEvent]):
    """The events of a running command, in order; the last one has type ``"exit"``.

    The command starts with the first event that is asked for. Leaving the loop early, ``close()``, or the end of a
    ``with`` block ends the command.
    """

    def __init__(self, events: Iterator[ExecEvent], lifeline: Lifeline) -> None:
        self._events, self._lifeline = events, lifeline

    def __iter__(self) -> ExecStream:
        return self

    def __next__(self) -> ExecEvent:
        try:
            return next(self._events)
        except SandboxConnectionLostError:
            if self._lifeline.cut:
                raise StopIteration from None
            raise

    def __enter__(self) -> ExecStream:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], exc: Optional[BaseException], tb: Optional[TracebackType]) -> None:
        self.close()

    def close(self) -> None:
        """End the command if it still runs. May be called more than once, and from another thread, where the loop then ends."""
        close = getattr(self._events, "close", None)
        if close is None:
            return
        try:
            close()
        except ValueError:  # it is being read
            self._lifeline.end()


class Sandbox:
    """One sandbox on the server. Made by SandboxClient; as a context manager it is destroyed at the end.

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

    def __init__(self, client: SandboxClient, data: Mapping[str, Any]) -> None:
        self._client = client
        self._update(data)

    def _update(self, data: Mapping[str, Any]) -> None:
        self.data = dict(data)
        self.id, self.status = data["id"], data["status"]
        self.image, self.expires_at = data["image"], data["expires_at"]
        self.egress_allowlist = hosts(data)

    def __repr__(self) -> str:
        return f"Sandbox(id={self.id!r}, image={self.image!r}, status={self.status!r})"

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], exc: Optional[BaseException], tb: Optional[TracebackType]) -> None:
        try:
            self.destroy()
        except SandboxNotFoundError:
            pass
        except SandboxAPIError:
            # What went wrong in the block is what its user must see.
            if exc is None:
                raise

    @property
    def _transport(self) -> SyncTransport:
        return self._client._transport  # pyright: ignore[reportPrivateUsage]

    def refresh(self) -> Sandbox:
        """Ask the server again and update the attributes. SandboxNotFoundError if it is gone."""
        self._update(self._transport.run(_calls.get(self.id)))
        return self

    def exec(
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

        Args:
            command: a string, run by ``/bin/sh -c``, or a sequence of strings, run as it is.
            env: variables on top of the sandbox's own.
            workdir: absolute, or relative to ``/workspace``, which is the default.
            timeout_seconds: after these the command and all that it started is killed; the server's default is 60.
            stdin: its standard input, at most about 1 MB; empty if not given. For more, see exec_stream().
            detail: ask for ``ExecResult.detail``.
            kill_others: end every other process of the sandbox first.
            on_disconnect: ``"continue"`` lets the command go on when this call is given up or loses its connection.

        Raises:
            SandboxNotFoundError: the sandbox is gone.
            SandboxLimitError: too many commands run at once.
            SandboxConnectionLostError, SandboxTimeoutError: no answer; a command whose client goes away is ended.
            SandboxAPIError: refused, for instance a working directory that does not exist.

        A command that fails is not an error: see ``ExecResult.ok``. It is never run twice.
        """
        what = _calls.Exec(command, env, workdir, timeout_seconds, detail, kill_others, on_disconnect)
        return self._transport.run(_calls.exec_(self.id, what, stdin))

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
    ) -> ExecStream:
        """Run a command and give its output as it comes; see exec() for the arguments.

        Args:
            stdin: text, bytes, or a binary file object that is read to its end, of any size.

        Raises, while it is iterated over:
            SandboxInterruptedError: the server ended the stream, for instance because the sandbox was destroyed.
            SandboxConnectionLostError: the connection ended first; how the command ended is not known.
        """
        what = _calls.Exec(command, env, workdir, timeout_seconds, detail, kill_others, on_disconnect)
        request = _calls.exec_stream(self.id, what, stdin)
        lifeline = Lifeline()
        return ExecStream(self._transport.events(request, _calls.NDJSON, lifeline), lifeline)

    def read_file(self, path: str) -> bytes:
        """The content of a file, in memory; for large files see download()."""
        return self._transport.run(_calls.read_file(self.id, path))

    def read_text(self, path: str, encoding: str = "utf-8") -> str:
        """The content of a text file. UnicodeDecodeError if it is not in that encoding."""
        return self.read_file(path).decode(encoding)

    def write_file(self, path: str, data: Union[bytes, str], *, mode: int = 0o644) -> FileInfo:
        """Make or replace a file below ``/workspace``, and the folders on the way. Text is written as UTF-8."""
        return self._transport.run(_calls.write_file(self.id, path, data, mode))

    def list_files(self, path: str = "/workspace") -> list[FileInfo]:
        """What is in a folder, sorted by name, with dot files."""
        return self._transport.run(_calls.list_files(self.id, path))

    def upload(self, local: Local, path: str, *, mode: Optional[int] = None, progress: Optional[Progress] = None) -> FileInfo:
        """Send a local file, in pieces.

        Args:
            local: a path, or a binary file object that is read from where it stands.
            path: where to, below ``/workspace``.
            mode: permission bits; those of the local file, or 0o644 for a file object, if not given.
            progress: called with the bytes sent so far and the bytes of all or None; begins again after a retry.

        Raises:
            OSError: the local file cannot be read.
            SandboxAPIError: refused; the old file, if there was one, is as it was.
        """
        return self._transport.run(_calls.upload(self.id, local, path, mode, progress))

    def download(self, path: str, local: Local, *, overwrite: bool = False, progress: Optional[Progress] = None) -> int:
        """Fetch a file, in pieces, into a local one.

        The local file is there when all of it is; a download that fails leaves none, and an old one as it was.

        Args:
            path: in the sandbox.
            local: a path, or a writable binary file object (which keeps what came before a failure).
            overwrite: replace a file that exists.
            progress: called with the bytes received so far and the bytes of all.

        Returns:
            The number of bytes.

        Raises:
            FileExistsError: the local file exists and ``overwrite`` is not set.
            OSError: the local file cannot be written, for instance because the disk is full.
            SandboxNotFoundError: there is no such file, or the sandbox is gone.
        """
        return self._transport.save(_calls.download(self.id, path, local, overwrite, progress))

    def upload_folder(self, local: PathLike, path: str = "/workspace", *, progress: Optional[Progress] = None) -> list[str]:
        """Put what is in a local folder into a folder of the sandbox, which is made.

        Files, folders, symbolic and hard links, modes and times. What is there already and has another name stays. All
        of it is written or nothing.

        Returns:
            The names of what was left out: links that lead out of the folder, devices, sockets and FIFOs.

        Raises:
            OSError: something in the folder cannot be read.
        """
        return self._transport.run(_calls.upload_folder(self.id, local, path, progress))

    def download_folder(self, path: str, local: PathLike, *, progress: Optional[Progress] = None) -> list[str]:
        """Fetch a folder into a new local one, which must not exist.

        What comes is not trusted: nothing is written outside of the new folder, and links that lead out of it,
        devices and FIFOs are left out. The folder is there when all of it is.

        Returns:
            The names of what was left out.

        Raises:
            FileExistsError: there is something at ``local``.
            OSError: it cannot be written.
        """
        return self._transport.save(_calls.download_folder(self.id, path, local, progress))

    def upload_archive(self, local: Local, path: str = "/workspace", *, progress: Optional[Progress] = None) -> None:
        """Unpack a local tar, not compressed, into a folder of the sandbox, which is made."""
        self._transport.run(_calls.upload_archive(self.id, local, path, progress))

    def download_archive(self, path: str, local: Local, *, overwrite: bool = False, progress: Optional[Progress] = None) -> int:
        """Fetch a file or folder as a tar (pax) into a local file; else as download(). Do not trust names in it."""
        return self._transport.save(_calls.download_archive(self.id, path, local, overwrite, progress))

    def snapshot(self, name: Optional[str] = None) -> SnapshotInfo:
        """Keep ``/workspace`` as it is now, under a name of at most 128 characters. It outlives the sandbox."""
        return self._transport.run(_calls.take_snapshot(self.id, name))

    def rollback(self, snapshot: Union[SnapshotInfo, str]) -> Sandbox:
        """Put ``/workspace`` back as it was, end every process and clear ``/tmp``. If it fails, nothing has changed."""
        self._update(self._transport.run(_calls.rollback(self.id, snapshot)))
        return self

    def set_timeout(self, timeout_seconds: int) -> Sandbox:
        """Let the sandbox end this many seconds from now."""
        self._update(self._transport.run(_calls.set_timeout(self.id, timeout_seconds)))
        return self

    def destroy(self) -> None:
        """End the sandbox. Its files are gone, its snapshots stay. SandboxNotFoundError if it is gone already."""
        self._transport.run(_calls.destroy(self.id))


class SandboxClient:
    """A connection to an agent-sandbox server. Threads may share it.

    Args:
        base_url: such as ``https://box.example``; AGENT_SANDBOX_URL, else ``http://127.0.0.1:8080``, if not given.
        api_key: AGENT_SANDBOX_API_KEY, the file AGENT_SANDBOX_API_KEY_FILE, or ``~/.config/agent-sandbox/key`` if not
            given. A key file must be readable by its owner alone.
        timeout: seconds that the server may be silent; 300 if not given, and more where an image may have to be
            pulled. A command's own ``timeout_seconds`` is always waited for.
        http_client: an httpx.Client to use, with its own timeouts, proxies and certificates; its ``base_url`` counts
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
        http_client: Optional[httpx.Client] = None,
        retries: int = 2,
        ca_file: Optional[PathLike] = None,
        client_cert: Optional[ClientCert] = None,
    ) -> None:
        self._transport = SyncTransport(http_client, base_url, api_key, timeout, retries, Trust(ca_file, client_cert))

    def __repr__(self) -> str:
        return f"SandboxClient({self._transport.wire.where!r})"

    def __enter__(self) -> SandboxClient:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], exc: Optional[BaseException], tb: Optional[TracebackType]) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Sandboxes live on."""
        self._transport.http.close()

    def health(self) -> dict[str, Any]:
        """What the server says about itself: ``status``, ``backend``, ``version``, … Needs no key."""
        return self._transport.run(_calls.health())

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
    ) -> Sandbox:
        """Make a sandbox. What is not given is the server's default.

        Args:
            image: name of a Docker image; it is pulled if need be, which this waits for.
            cpus: how many, may be a fraction.
            memory_mb: MiB.
            pids_limit: processes and threads at once.
            network: whether it reaches the network.
            read_only_rootfs: whether all but ``/workspace`` and ``/tmp`` is read-only.
            timeout_seconds: time to live; 900 by default.
            env: variables for every command.
            labels: words of your own, to find it again with list_sandboxes().
            idempotency_key: the same key with the same arguments gives the same sandbox for 24 hours.
            egress_allowlist: the hosts that it can reach, and nothing else: ``host``, ``host:port``, ``*.host``, an address,
                a CIDR. An empty list: none. Not given: the server's own list, if it has one, else none. Not together with
                ``network=True``.

        Raises:
            SandboxLimitError: the server has as many sandboxes as it may.
            SandboxAuthError: the key, the image or the network is not allowed.
            SandboxAPIError: a value is not possible here, for instance an image that does not exist, or a host that the
                server's own list does not have.
        """
        call = _calls.create(
            image, cpus, memory_mb, pids_limit, network, read_only_rootfs, timeout_seconds, env, labels, idempotency_key, egress_allowlist
        )  # fmt: skip
        return Sandbox(self, self._transport.run(call))

    def run(
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

        Args:
            code: 1 to 100,000 characters.
            language: ``"python"``, or ``"javascript"``, which is also called ``"node"``.
            timeout_seconds: 1 to 300; the server's default if not given.
            memory_mb: MiB, from 16; the server's default if not given. ``RunResult.limits_applied`` says what it was.
            max_output_bytes: of both streams together, from 1024; the server's default if not given.
            snapshot: keep ``/workspace``: ``RunResult.snapshot_id`` names what was kept.
            snapshot_id: what is in ``/workspace`` at the start; nothing if not given.
            egress_allowlist: as for create().

        Raises:
            SandboxAPIError: refused; or, with ``status_code`` 408, past its time limit.
            SandboxLimitError: as many sandboxes and runs as there may be.
            SandboxConnectionLostError, SandboxTimeoutError: no answer.

        A program that fails is not an error: see ``RunResult.ok``. It is never run twice.
        """
        what = _calls.Run(code, language, timeout_seconds, memory_mb, max_output_bytes, snapshot, snapshot_id, egress_allowlist)
        return self._transport.run(_calls.run(what))

    def get(self, sandbox_id: str) -> Sandbox:
        """The sandbox with this id. SandboxNotFoundError if there is none."""
        return Sandbox(self, self._transport.run(_calls.get(sandbox_id)))

    def list_sandboxes(self, label: Optional[str] = None) -> list[Sandbox]:
        """All sandboxes, oldest first; with ``label="name=value"`` those that carry it."""
        return [Sandbox(self, data) for data in self._transport.run(_calls.list_sandboxes(label))]

    def list_snapshots(self, sandbox_id: Optional[str] = None) -> list[SnapshotInfo]:
        """All snapshots, or those of one sandbox, oldest first."""
        return self._transport.run(_calls.list_snapshots(sandbox_id))

    def get_snapshot(self, snapshot_id: str) -> SnapshotInfo:
        """The snapshot with this id. SandboxNotFoundError if there is none."""
        return self._transport.run(_calls.get_snapshot(snapshot_id))

    def delete_snapshot(self, snapshot_id: Union[SnapshotInfo, str]) -> None:
        """Delete a snapshot. Sandboxes that came from it stay."""
        self._transport.run(_calls.delete_snapshot(snapshot_id))

    def fork(
        self,
        snapshot: Union[SnapshotInfo, str],
        *,
        timeout_seconds: Optional[int] = None,
        network: Optional[bool] = None,
        cpus: Optional[float] = None,
        memory_mb: Optional[int] = None,
        idempotency_key: Optional[str] = None,
    ) -> Sandbox:
        """Make a new sandbox that begins with a snapshot; what is not given is as in the sandbox it was taken of.

        Arguments and errors as for create().
        """
        call = _calls.fork(snapshot, timeout_seconds, network, cpus, memory_mb, idempotency_key)
        return Sandbox(self, self._transport.run(call))
