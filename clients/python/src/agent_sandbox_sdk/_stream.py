"""The lines of a running command's output: bytes in, events out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

from ._errors import SandboxAPIError, SandboxConnectionLostError, SandboxInterruptedError, one_line
from ._models import ExecEvent
from ._wire import Answer

_LINE_MAX = 64 << 20


class EventDecoder:
    """Takes a stream's bytes as they come. After the exit event it takes nothing more."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._rest = bytearray()
        self.ended = False

    def feed(self, data: bytes) -> Iterator[ExecEvent]:
        """The events that these bytes complete, one by one, so that those before a bad line are not lost."""
        self._rest += data
        if b"\n" not in data:
            if len(self._rest) > _LINE_MAX:
                raise self._answer.strange("sends a line without end")
            return
        lines = bytes(self._rest).split(b"\n")
        self._rest = bytearray(lines.pop())
        for line in lines:
            if line.strip() and not self.ended:
                yield self._event(line)

    def finish(self) -> None:
        """The stream ended: that is an error unless the command did."""
        if not self.ended:
            raise SandboxConnectionLostError(
                0, "connection_lost", f"the stream from {self._answer.where} ended before the command did: how it ended is not known"
            )

    def _event(self, line: bytes) -> ExecEvent:
        try:
            data: Any = json.loads(line)
            if not isinstance(data, dict):
                raise ValueError
        except (ValueError, RecursionError):
            raise self._answer.strange("sent a line that is not this API's JSON") from None
        event = ExecEvent.from_json(cast("dict[str, Any]", data))
        if event.type == "error":
            raise self.interrupted(event.data)
        self.ended = event.type == "exit"
        return event

    def interrupted(self, why: str) -> SandboxAPIError:
        text = one_line(f"the command's stream was interrupted: {why}")
        return SandboxInterruptedError(0, "interrupted", text, request_id=self._answer.headers.get("x-request-id"))
