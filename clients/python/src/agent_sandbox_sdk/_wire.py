"""HTTP without input or output: how a request looks, what an answer means, and when to try again.

The sync and the async client move the bytes; every decision about them is made here.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Callable, Generic, Optional, Protocol, TypeVar, Union, cast
from urllib.parse import quote

import httpx

from . import _tls
from ._errors import (
    SandboxAnswerError,
    SandboxAPIError,
    SandboxConfigError,
    SandboxConnectionLostError,
    SandboxNotFoundError,
    SandboxRedirectError,
    SandboxTimeoutError,
    SandboxUnreachableError,
    one_line,
    refused,
)

T = TypeVar("T")
Progress = Callable[[int, Optional[int]], None]

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 300.0
# A request that may have to wait for an image to be pulled: the server gives that 600 s.
PULL_SECONDS = 660.0
# What a command's answer may take beyond the command's own time.
EXEC_EXTRA_SECONDS = 30.0
RETRY_AFTER_MAX = 5.0
MAX_ANSWER_BYTES = 256 << 20


class Source(Protocol):
    """A body to send. ``chunks()`` may be called once for each attempt if ``replayable``."""

    @property
    def size(self) -> Optional[int]: ...
    @property
    def replayable(self) -> bool: ...
    def chunks(self) -> Iterator[bytes]: ...


@dataclass(frozen=True)
class Request:
    """What to send.

    safe: doing it twice is like doing it once, so that it may be repeated when the connection is lost.
    gone_is_done: a 404 to such a repetition means that the first one did it.
    seconds: how long the answer may take if that is more than usual; pulls: it may have to wait for an image.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=lambda: dict[str, str]())
    json: Optional[Mapping[str, Any]] = None
    body: Union[bytes, Source, None] = None
    headers: Mapping[str, str] = field(default_factory=lambda: dict[str, str]())
    safe: bool = False
    gone_is_done: bool = False
    seconds: Optional[float] = None
    pulls: bool = False
    progress: Optional[Progress] = None


class Answer:
    """The head of an answer; and its body, once that was read."""

    def __init__(self, response: httpx.Response, where: str, body: bytes = b"") -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.body = body
        self.where = where
        self._http1 = response.extensions.get("http_version", b"HTTP/1.1").startswith(b"HTTP/1")

    def strange(self, why: str) -> SandboxAnswerError:
        request_id = self.headers.get("x-request-id")
        text = one_line(f"{self.where} {why}: is another server or a proxy there?")
        return SandboxAnswerError(self.status, "unexpected_answer", text, request_id=request_id)

    def json(self) -> Mapping[str, Any]:
        """The JSON object that the body must be."""
        try:
            data: Any = json.loads(self.body)
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            raise self.strange(f"answered {self.status} with something that is not this API's JSON")
        return cast("dict[str, Any]", data)

    def length(self) -> Optional[int]:
        """Content-Length in bytes, or None."""
        text = self.headers.get("content-length", "")
        return int(text) if text.isascii() and text.isdigit() else None

    def as_sent(self) -> None:
        """Nothing was asked for that has to be unpacked first: a few bytes of it may be all of this machine's memory."""
        if self.headers.get("content-encoding", "").strip().lower() not in ("", "identity"):
            raise self.strange("answered with a content encoding that was not asked for")

    def must_be(self, content_type: str) -> None:
        """A body that is not JSON is of this type, and one can see when it is cut short."""
        given = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if given not in (content_type, ""):
            raise self.strange(f"answered with {given} instead of {content_type}")
        if self._http1 and "transfer-encoding" not in self.headers and self.length() is None:
            raise self.strange("does not say how long its answer is")


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and what its whole answer means."""

    request: Request
    take: Callable[[Answer], T]
    content_type: Optional[str] = None


@dataclass(frozen=True)
class Download(Generic[T]):
    """A request, and where the body of its answer goes: ``sink`` may block."""

    request: Request
    content_type: str
    sink: Callable[[Iterator[bytes]], T]


class Meter:
    """Counts bytes for a progress callback."""

    def __init__(self, progress: Optional[Progress], total: Optional[int]) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def add(self, n: int) -> None:
        if self._progress is not None:
            self._done += n
            self._progress(self._done, self._total)


class Body:
    """Collects an answer. JSON is bounded; the bytes of a file that somebody asked for are not."""

    def __init__(self, answer: Answer, bounded: bool) -> None:
        self._answer, self._bounded = answer, bounded
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._bounded and self._size > MAX_ANSWER_BYTES:
            raise self._answer.strange("answers without end")
        self._parts.append(chunk)

    def bytes(self) -> bytes:
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


class Wire:
    """The server as seen from one client."""

    def __init__(self, base: str, key: Optional[str], timeout: httpx.Timeout, *, patient: bool) -> None:
        """patient: the user set no timeout, so that requests that may pull an image can have more."""
        self._base = base.rstrip("/")
        self._timeout = timeout
        self._patient = patient
        url = httpx.URL(self._base)
        self.where = str(url.copy_with(username=None, password=None, query=None, fragment=None))
        self._headers = {"accept-encoding": "identity"}
        if key is not None:
            self._headers["authorization"] = f"Bearer {key}"

    def _limits(self, request: Request) -> Any:
        usual = self._timeout.read
        need = PULL_SECONDS if request.pulls and self._patient else 0.0
        if request.seconds is not None:
            need = max(need, request.seconds + EXEC_EXTRA_SECONDS)
        if usual is None or need <= usual:
            return httpx.USE_CLIENT_DEFAULT
        limits = self._timeout
        return httpx.Timeout(connect=limits.connect, read=need, write=limits.write, pool=limits.pool)

    def arguments(self, request: Request) -> dict[str, Any]:
        """What httpx's build_request() takes, without the content."""
        url = self._base + request.path
        if request.query:
            url += "?" + "&".join(f"{name}={_quote(value)}" for name, value in request.query.items())
        headers = {**self._headers, **request.headers}
        if request.json is not None:
            headers["content-type"] = "application/json"
        elif request.body is not None:
            headers["content-type"] = "application/octet-stream"
        if request.body is not None and not isinstance(request.body, bytes) and request.body.size is not None:
            headers["content-length"] = str(request.body.size)
        return {"method": request.method, "url": url, "headers": headers, "timeout": self._limits(request)}

    def content(self, request: Request) -> Union[bytes, Source, None]:
        """The bytes to send, or where they come from."""
        if request.json is not None:
            return json.dumps(request.json, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        return request.body

    def refusal(self, answer: Answer) -> Optional[SandboxAPIError]:
        """The error that a whole answer stands for; None if it is a good one."""
        if 200 <= answer.status < 300:
            return None
        request_id = answer.headers.get("x-request-id")
        retry_after = _seconds(answer.headers.get("retry-after"))
        if 300 <= answer.status < 400:
            to = answer.headers.get("location", "nowhere")
            text = one_line(f"{self.where} redirects to {to}; redirects are not followed: set the server's own URL")
            return SandboxRedirectError(answer.status, "redirect", text, request_id=request_id)
        try:
            error = json.loads(answer.body)["error"]
            code, message = error["code"], error["message"]
        except (ValueError, LookupError, TypeError, RecursionError):
            code = message = None
        if isinstance(code, str) and isinstance(message, str):
            return refused(answer.status, one_line(code), message, retry_after, request_id)
        text = one_line(f"{self.where} answered {answer.status}, and not as this API does: is another server or a proxy there?")
        return SandboxAnswerError(answer.status, "http_error", text, retry_after=retry_after, request_id=request_id)

    def explain(self, exc: Exception) -> SandboxAPIError:
        """The error for what httpx raised."""
        error = self._explained(exc, one_line(str(exc)) or type(exc).__name__)
        error.__cause__ = exc
        return error

    def _explained(self, exc: Exception, why: str) -> SandboxAPIError:
        tls = _tls.failure(exc)
        if isinstance(exc, (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError)):
            return SandboxConfigError(0, "configuration", f"cannot send this request: {why}")
        if isinstance(exc, (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)):
            if tls is not None:
                return SandboxUnreachableError(0, "tls", one_line(_tls.explain(self.where, tls, why)))
            what = "the proxy on the way to" if isinstance(exc, httpx.ProxyError) else "the server at"
            code = "timeout" if isinstance(exc, httpx.ConnectTimeout) else "unreachable"
            return SandboxUnreachableError(0, code, f"{what} {self.where} cannot be reached: {why}")
        if tls is not None and _tls.wants_certificate(tls):
            return SandboxUnreachableError(0, "tls", one_line(_tls.explain(self.where, tls, why)))
        if isinstance(exc, httpx.PoolTimeout):
            return SandboxTimeoutError(0, "timeout", "all connections of the http_client are in use")
        if isinstance(exc, httpx.TimeoutException):
            return SandboxTimeoutError(0, "timeout", f"no answer from {self.where} in time")
        garbled = isinstance(exc, httpx.RemoteProtocolError) and not ("disconnected" in why or "closed connection" in why)
        if garbled or isinstance(exc, httpx.DecodingError):
            return SandboxAnswerError(0, "unexpected_answer", f"{self.where} does not speak HTTP as agent-sandbox does: {why}")
        return SandboxConnectionLostError(0, "connection_lost", f"the connection to {self.where} ended before the answer did: {why}")


class Attempts:
    """When a failed request may be sent again. Nothing is repeated that may have been done, unless that is harmless."""

    def __init__(self, request: Request, retries: int) -> None:
        self._request = request
        self._left = retries
        self._pause = 0.1
        self._may_be_done = False

    def pause(self, error: SandboxAPIError) -> Optional[float]:
        """Seconds to wait before the next attempt; None: an earlier one did what was asked. Raises when it is final."""
        request = self._request
        if isinstance(error, SandboxNotFoundError) and self._may_be_done and request.gone_is_done:
            return None
        body = request.body
        again = body is None or isinstance(body, bytes) or body.replayable
        lost = isinstance(error, SandboxConnectionLostError)
        unsent = isinstance(error, SandboxUnreachableError) and error.code == "unreachable"
        busy = error.status_code == 503 and (error.retry_after or 0) <= RETRY_AFTER_MAX
        if self._left == 0 or not (unsent or (request.safe and again and (lost or busy))):
            raise error
        self._left -= 1
        self._may_be_done = self._may_be_done or lost
        seconds = max(self._pause * random.uniform(0.5, 1.5), error.retry_after or 0)
        self._pause *= 4
        return seconds


def _quote(value: str) -> str:
    return quote(value.encode("utf-8", "surrogateescape"), safe="/")


def _seconds(text: Optional[str]) -> Optional[float]:
    """Retry-After in seconds; a date counts from now."""
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return float(min(int(text), 86400)) if len(text) < 10 else 86400.0
    from datetime import datetime, timezone
    from email.utils import parsedate_to_datetime

    try:
        when = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=timezone.utc)
    return max(0.0, (when - datetime.now(timezone.utc)).total_seconds())
