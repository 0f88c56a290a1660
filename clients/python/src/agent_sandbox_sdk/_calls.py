"""Every call of the API once: how its arguments become a request, and its answer a value."""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Callable, Optional, TypeVar, Union
from urllib.parse import quote

from ._archive import FolderSink, FolderSource
from ._errors import SandboxNotFoundError, one_line
from ._files import FileSink, FileSource, ObjectSource, PathLike, source_of
from ._models import ExecResult, FileInfo, RunResult, SnapshotInfo, objects, sandbox_fields
from ._wire import Answer, Call, Download, Progress, Request, Source

T = TypeVar("T")
Command = Union[str, Sequence[str]]
Local = Union[PathLike, IO[bytes]]
Stdin = Union[str, bytes, IO[bytes]]
Fields = Mapping[str, Any]

BINARY, TAR, NDJSON = "application/octet-stream", "application/x-tar", "application/x-ndjson"


def _id(kind: str, value: str) -> str:
    """An identifier as part of a path. What cannot be one is not sent: it could make another path of it."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,128}", value):
        raise SandboxNotFoundError(404, "not_found", one_line(f"{kind} {value} not found"))
    return quote(value)


def _sandbox(sandbox_id: str, rest: str = "") -> str:
    return f"/v1/sandboxes/{_id('sandbox', sandbox_id)}{rest}"


def _snapshot(snapshot: Union[SnapshotInfo, str], rest: str = "") -> str:
    return f"/v1/snapshots/{_id('snapshot', snapshot_id(snapshot))}{rest}"


def snapshot_id(snapshot: Union[SnapshotInfo, str]) -> str:
    return snapshot.id if isinstance(snapshot, SnapshotInfo) else snapshot


def _given(**fields: object) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _hosts(entries: Optional[Sequence[str]]) -> Optional[list[str]]:
    """A list of hosts. A string is a sequence of strings, too, but nobody means that."""
    if isinstance(entries, str):
        raise TypeError("egress_allowlist must be a list of hosts, not a string")
    return None if entries is None else list(entries)


def _object(make: Callable[[Fields], T]) -> Callable[[Answer], T]:
    return lambda answer: make(answer.json())


def _nothing(answer: Answer) -> None:
    if answer.status != 204:
        answer.json()


def _once(idempotency_key: Optional[str]) -> dict[str, str]:
    """The header by which the server knows a repeated request again."""
    return {"idempotency-key": idempotency_key if idempotency_key is not None else secrets.token_hex(16)}


def health() -> Call[dict[str, Any]]:
    return Call(Request("GET", "/healthz", safe=True), _object(dict))


def short_health() -> Call[dict[str, Any]]:
    return Call(Request("GET", "/health", safe=True), _object(dict))


@dataclass(frozen=True)
class Run:
    """A program and how it is to run."""

    code: str
    language: str
    timeout_seconds: Optional[int] = None
    memory_mb: Optional[int] = None
    max_output_bytes: Optional[int] = None
    snapshot: bool = False
    snapshot_id: Union[SnapshotInfo, str, None] = None
    egress_allowlist: Optional[Sequence[str]] = None

    def request(self) -> Request:
        limits = _given(timeout_seconds=self.timeout_seconds, memory_mb=self.memory_mb, max_output_bytes=self.max_output_bytes)
        body = _given(
            code=self.code,
            language=self.language,
            limits=limits or None,
            snapshot=True if self.snapshot else None,
            snapshot_id=snapshot_id(self.snapshot_id) if self.snapshot_id else None,
            egress_allowlist=_hosts(self.egress_allowlist),
        )
        return Request("POST", "/v1/run", json=body, seconds=self.timeout_seconds, pulls=True)


def run(what: Run) -> Call[RunResult]:
    return Call(what.request(), _object(RunResult.from_json))


def run_as_it_is(what: Run) -> Call[dict[str, Any]]:
    return Call(what.request(), _object(dict))


def create(
    image: Optional[str],
    cpus: Optional[float],
    memory_mb: Optional[int],
    pids_limit: Optional[int],
    network: bool,
    read_only_rootfs: bool,
    timeout_seconds: Optional[int],
    env: Optional[Mapping[str, str]],
    labels: Optional[Mapping[str, str]],
    idempotency_key: Optional[str],
    egress_allowlist: Optional[Sequence[str]],
) -> Call[Fields]:
    body = _given(
        image=image,
        cpus=cpus,
        memory_mb=memory_mb,
        pids_limit=pids_limit,
        network=network,
        read_only_rootfs=read_only_rootfs,
        timeout_seconds=timeout_seconds,
        env=dict(env or {}),
        labels=dict(labels) if labels else None,
        egress_allowlist=_hosts(egress_allowlist),
    )
    request = Request("POST", "/v1/sandboxes", json=body, headers=_once(idempotency_key), safe=True, pulls=True)
    return Call(request, _object(sandbox_fields))


def get(sandbox_id: str) -> Call[Fields]:
    return Call(Request("GET", _sandbox(sandbox_id), safe=True), _object(sandbox_fields))


def list_sandboxes(label: Optional[str]) -> Call[list[Fields]]:
    request = Request("GET", "/v1/sandboxes", _given(label=label), safe=True)
    return Call(request, _object(lambda data: [sandbox_fields(item) for item in objects(data, "sandboxes")]))


def destroy(sandbox_id: str) -> Call[None]:
    return Call(Request("DELETE", _sandbox(sandbox_id), safe=True, gone_is_done=True), _nothing)


def set_timeout(sandbox_id: str, timeout_seconds: int) -> Call[Fields]:
    request = Request("POST", _sandbox(sandbox_id, "/timeout"), json={"timeout_seconds": timeout_seconds}, safe=True)
    return Call(request, _object(sandbox_fields))


@dataclass(frozen=True)
class Exec:
    """A command and how it is to run."""

    command: Command
    env: Optional[Mapping[str, str]]
    workdir: Optional[str]
    timeout_seconds: Optional[float]
    detail: bool
    kill_others: bool
    on_disconnect: Optional[str]

    def body(self, stdin: Optional[str]) -> dict[str, Any]:
        return _given(
            command=self.command if isinstance(self.command, str) else list(self.command),
            env=dict(self.env) if self.env else None,
            workdir=self.workdir,
            timeout_seconds=self.timeout_seconds,
            stdin=stdin,
        )

    def query(self) -> dict[str, str]:
        flags = {"detail": self.detail, "kill_others": self.kill_others}
        return {name: "true" for name, on in flags.items() if on} | _given(on_disconnect=self.on_disconnect)


def exec_(sandbox_id: str, what: Exec, stdin: Optional[str]) -> Call[ExecResult]:
    path = _sandbox(sandbox_id, "/exec")
    request = Request("POST", path, what.query(), json=what.body(stdin), seconds=what.timeout_seconds)
    return Call(request, _object(ExecResult.from_json))


def exec_stream(sandbox_id: str, what: Exec, stdin: Optional[Stdin]) -> Request:
    path, query = _sandbox(sandbox_id, "/exec/stream"), what.query()
    if stdin is None or isinstance(stdin, str):
        return Request("POST", path, query, json=what.body(stdin), seconds=what.timeout_seconds)
    # The command's description is in the query, so that the body is its standard input and nothing else.
    text = json.dumps(what.body(None), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    query["request"] = base64.urlsafe_b64encode(text).decode().rstrip("=")
    source = stdin if isinstance(stdin, bytes) else ObjectSource(stdin)
    return Request("POST", path, query, body=source, seconds=what.timeout_seconds)


def read_file(sandbox_id: str, path: str) -> Call[bytes]:
    request = Request("GET", _sandbox(sandbox_id, "/files"), {"path": path}, safe=True)
    return Call(request, lambda answer: answer.body, BINARY)


def write_file(sandbox_id: str, path: str, data: Union[bytes, str], mode: int) -> Call[FileInfo]:
    content = data.encode() if isinstance(data, str) else bytes(data)
    query = {"path": path, "mode": f"{mode:03o}"}
    request = Request("PUT", _sandbox(sandbox_id, "/files"), query, body=content, safe=True)
    return Call(request, _object(FileInfo.from_json))


def list_files(sandbox_id: str, path: str) -> Call[list[FileInfo]]:
    request = Request("GET", _sandbox(sandbox_id, "/files/list"), {"path": path}, safe=True)
    return Call(request, _object(lambda data: [FileInfo.from_json(item) for item in objects(data, "entries")]))


def upload(sandbox_id: str, local: Local, path: str, mode: Optional[int], progress: Optional[Progress]) -> Call[FileInfo]:
    source = source_of(local)
    if mode is None:
        mode = source.mode if isinstance(source, FileSource) else 0o644
    query = {"path": path, "mode": f"{mode:03o}"}
    request = Request("PUT", _sandbox(sandbox_id, "/files"), query, body=source, safe=True, progress=progress)
    return Call(request, _object(FileInfo.from_json))


def download(sandbox_id: str, path: str, local: Local, overwrite: bool, progress: Optional[Progress]) -> Download[int]:
    request = Request("GET", _sandbox(sandbox_id, "/files"), {"path": path}, safe=True, progress=progress)
    return Download(request, BINARY, FileSink(local, overwrite))


def _unpack(sandbox_id: str, path: str, source: Source, progress: Optional[Progress]) -> Request:
    return Request("PUT", _sandbox(sandbox_id, "/files/archive"), {"path": path}, body=source, safe=True, progress=progress)


def upload_archive(sandbox_id: str, local: Local, path: str, progress: Optional[Progress]) -> Call[None]:
    return Call(_unpack(sandbox_id, path, source_of(local), progress), _nothing)


def upload_folder(sandbox_id: str, local: PathLike, path: str, progress: Optional[Progress]) -> Call[list[str]]:
    source = FolderSource(local)

    def take(answer: Answer) -> list[str]:
        _nothing(answer)
        return source.left_out

    return Call(_unpack(sandbox_id, path, source, progress), take)


def download_archive(sandbox_id: str, path: str, local: Local, overwrite: bool, progress: Optional[Progress]) -> Download[int]:
    request = Request("GET", _sandbox(sandbox_id, "/files/archive"), {"path": path}, safe=True, progress=progress)
    return Download(request, TAR, FileSink(local, overwrite))


def download_folder(sandbox_id: str, path: str, local: PathLike, progress: Optional[Progress]) -> Download[list[str]]:
    request = Request("GET", _sandbox(sandbox_id, "/files/archive"), {"path": path}, safe=True, progress=progress)
    return Download(request, TAR, FolderSink(local))


def take_snapshot(sandbox_id: str, name: Optional[str]) -> Call[SnapshotInfo]:
    request = Request("POST", _sandbox(sandbox_id, "/snapshots"), json={"name": name})
    return Call(request, _object(SnapshotInfo.from_json))


def rollback(sandbox_id: str, snapshot: Union[SnapshotInfo, str]) -> Call[Fields]:
    body = {"snapshot_id": snapshot_id(snapshot)}
    return Call(Request("POST", _sandbox(sandbox_id, "/rollback"), json=body, pulls=True), _object(sandbox_fields))


def list_snapshots(sandbox_id: Optional[str]) -> Call[list[SnapshotInfo]]:
    request = Request("GET", "/v1/snapshots", _given(sandbox_id=sandbox_id or None), safe=True)
    return Call(request, _object(lambda data: [SnapshotInfo.from_json(item) for item in objects(data, "snapshots")]))


def get_snapshot(snapshot: str) -> Call[SnapshotInfo]:
    return Call(Request("GET", _snapshot(snapshot), safe=True), _object(SnapshotInfo.from_json))


def delete_snapshot(snapshot: Union[SnapshotInfo, str]) -> Call[None]:
    return Call(Request("DELETE", _snapshot(snapshot), safe=True, gone_is_done=True), _nothing)


def fork(
    snapshot: Union[SnapshotInfo, str],
    timeout_seconds: Optional[int],
    network: Optional[bool],
    cpus: Optional[float],
    memory_mb: Optional[int],
    idempotency_key: Optional[str],
) -> Call[Fields]:
    body = _given(timeout_seconds=timeout_seconds, network=network, cpus=cpus, memory_mb=memory_mb)
    request = Request("POST", _snapshot(snapshot, "/fork"), json=body, headers=_once(idempotency_key), safe=True, pulls=True)
    return Call(request, _object(sandbox_fields))
