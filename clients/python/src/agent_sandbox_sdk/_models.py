"""What the server answers, as values. Fields that a later server adds are kept out of the way, not an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ._errors import SandboxAnswerError, one_line


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind)


@dataclass(frozen=True)
class ExecDetail:
    """What ``detail=True`` tells more about how a command ended.

    Attributes:
        oom_killed: whether the kernel killed something for want of memory.
        signal: the signal that ended it, such as ``"SEGV"``, or None.
        cpu_ms: milliseconds of processor time.
        peak_memory_bytes: the most memory it had, or None if the server cannot know.
        omitted_bytes: bytes of output that were left out, or None in a stream, which omits nothing.
    """

    oom_killed: bool
    signal: Optional[str]
    cpu_ms: Optional[int]
    peak_memory_bytes: Optional[int]
    omitted_bytes: Optional[int]


class _Detailed:
    """Keeps the detail beside the fields, so that those are what they always were."""

    @property
    def detail(self) -> Optional[ExecDetail]:
        """More about its end, if that was asked for with ``detail=True``."""
        return self.__dict__.get("_detail")

    def _keep(self, data: Mapping[str, Any]) -> None:
        if "oom_killed" in data:
            usage: Any = data.get("usage")
            usage = usage if _is(usage, dict) else {}
            self.__dict__["_detail"] = ExecDetail(
                _bool(data, "oom_killed"),
                data.get("signal"),
                usage.get("cpu_ms"),
                usage.get("peak_memory_bytes"),
                data.get("omitted_bytes"),
            )


@dataclass(frozen=True)
class ExecResult(_Detailed):
    """How a command ended.

    Attributes:
        stdout, stderr: its output as text; bytes that are not UTF-8 are U+FFFD.
        exit_code: its own; 128 + N when signal N ended it; 137 after a timeout; 127 when it was not found.
        timed_out: whether ``timeout_seconds`` were over; then all its processes were killed.
        truncated: whether output was left out because it was larger than the server's limit.
        duration_ms: milliseconds.
    """

    stdout: str
    stderr: str
    exit_code: int
    timed_out: bool
    truncated: bool
    duration_ms: int

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.exit_code == 0 and not self.timed_out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ExecResult:
        """From the server's JSON object."""
        result = cls(
            stdout=_text(data, "stdout"),
            stderr=_text(data, "stderr"),
            exit_code=_int(data, "exit_code"),
            timed_out=_bool(data, "timed_out"),
            truncated=_bool(data, "truncated"),
            duration_ms=_int(data, "duration_ms"),
        )
        result._keep(data)
        return result


@dataclass(frozen=True)
class ExecEvent(_Detailed):
    """A piece of a running command's output, or its end.

    Attributes:
        type: ``"stdout"``, ``"stderr"``, or, as the last one, ``"exit"``.
        data: the text of an output event.
        exit_code, timed_out, duration_ms: as in ExecResult; only in the exit event.
    """

    type: str
    data: str = ""
    exit_code: Optional[int] = None
    timed_out: bool = False
    duration_ms: Optional[int] = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ExecEvent:
        """From one line of the server's stream."""
        kind = _text(data, "type")
        if kind == "exit":
            event = cls(kind, "", _int(data, "exit_code"), _bool(data, "timed_out"), _int(data, "duration_ms"))
            event._keep(data)
            return event
        return cls(kind, _text(data, "data") if kind in ("stdout", "stderr", "error") else "")


@dataclass(frozen=True)
class RunResult:
    """What became of a program that run() ran.

    Attributes:
        stdout, stderr: its output as text; bytes that are not UTF-8 are U+FFFD.
        exit_code: its own; 128 + N when signal N ended it.
        duration_ms: milliseconds.
        language: ``"python"`` or ``"javascript"``.
        backend: ``"docker"``.
        snapshot_id: what was kept of ``/workspace``, or None.
        limits_applied: ``timeout_seconds`` and ``memory_mb`` that it had.
        oom_killed: whether something was ended for want of memory.
        network_isolated: whether there was no way out but ``egress_allowlist``.
        egress_allowlist: the hosts that it could reach.
        truncated: whether there was more output than the limit.
    """

    stdout: str
    stderr: str
    exit_code: int
    duration_ms: int
    language: str
    backend: str
    snapshot_id: Optional[str]
    limits_applied: Mapping[str, int]
    oom_killed: bool
    network_isolated: bool
    egress_allowlist: list[str]
    truncated: bool

    @property
    def ok(self) -> bool:
        """Whether it ended with exit code 0."""
        return self.exit_code == 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunResult:
        """From the server's JSON object."""
        limits: Any = data.get("limits_applied")
        if not _is(limits, dict):
            raise _wrong("limits_applied", limits)
        return cls(
            stdout=_text(data, "stdout"),
            stderr=_text(data, "stderr"),
            exit_code=_int(data, "exit_code"),
            duration_ms=_int(data, "duration_ms"),
            language=_text(data, "language"),
            backend=_text(data, "backend"),
            snapshot_id=_text(data, "snapshot_id") if data.get("snapshot_id") is not None else None,
            limits_applied={name: _int(limits, name) for name in ("timeout_seconds", "memory_mb")},
            oom_killed=_bool(data, "oom_killed"),
            network_isolated=_bool(data, "network_isolated"),
            egress_allowlist=hosts(data) or [],
            truncated=_bool(data, "truncated"),
        )


@dataclass(frozen=True)
class SnapshotInfo:
    """A kept state of a sandbox's workspace.

    Attributes:
        id: ``snap_…``.
        sandbox_id: the sandbox that it was taken of, which may be gone.
        name: the name given, or None.
        image: the image of that sandbox.
        size_bytes: bytes of the workspace as a tar.
        created_at: RFC 3339, UTC.
        parent_snapshot_id: the snapshot that the sandbox had come from at that time, or None.
        stored_bytes: bytes on the server's disk, or None if the server does not say.
        sha256: of the tar, or None if the server does not say.
    """

    id: str
    sandbox_id: str
    name: Optional[str]
    image: str
    size_bytes: int
    created_at: str
    parent_snapshot_id: Optional[str] = None
    stored_bytes: Optional[int] = None
    sha256: Optional[str] = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SnapshotInfo:
        """From the server's JSON object."""
        return cls(
            id=_text(data, "id"),
            sandbox_id=_text(data, "sandbox_id"),
            name=_text(data, "name") if data.get("name") is not None else None,
            image=_text(data, "image"),
            size_bytes=_int(data, "size_bytes"),
            created_at=_text(data, "created_at"),
            parent_snapshot_id=data.get("parent_snapshot_id"),
            stored_bytes=data.get("stored_bytes"),
            sha256=data.get("sha256"),
        )


@dataclass(frozen=True)
class FileInfo:
    """A file in a sandbox.

    Attributes:
        name: the last part of its path; never trust it as a name on your own machine.
        path: absolute.
        type: ``"file"``, ``"directory"``, ``"symlink"`` or ``"other"``.
        size: bytes.
        modified_at: RFC 3339, UTC.
    """

    name: str
    path: str
    type: str
    size: int
    modified_at: str

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FileInfo:
        """From the server's JSON object."""
        return cls(
            name=_text(data, "name"),
            path=_text(data, "path"),
            type=_text(data, "type"),
            size=_int(data, "size"),
            modified_at=_text(data, "modified_at"),
        )


def _wrong(name: str, value: object) -> SandboxAnswerError:
    return SandboxAnswerError(200, "unexpected_answer", one_line(f"field {name!r} of the server's answer is {value!r:.60}"))


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    if isinstance(value, str):
        return value
    raise _wrong(name, value)


def _int(data: Mapping[str, Any], name: str) -> int:
    value = data.get(name)
    if isinstance(value, int):
        return value
    raise _wrong(name, value)


def _bool(data: Mapping[str, Any], name: str) -> bool:
    value = data.get(name)
    if isinstance(value, bool):
        return value
    raise _wrong(name, value)


def objects(data: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The array of objects in this field."""
    items: Any = data.get(name)
    if not _is(items, list) or not all(_is(item, dict) for item in items):
        raise _wrong(name, items)
    return list(items)


def hosts(data: Mapping[str, Any]) -> Optional[list[str]]:
    """The hosts of ``egress_allowlist``; None if there is no list."""
    items: Any = data.get("egress_allowlist")
    if items is None:
        return None
    if not _is(items, list) or not all(_is(item, str) for item in items):
        raise _wrong("egress_allowlist", items)
    return list(items)


def sandbox_fields(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """A sandbox's object, whose fields that this package reads are what they should be."""
    for name in ("id", "status", "image", "expires_at"):
        _text(data, name)
    hosts(data)
    return data
