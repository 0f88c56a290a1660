"""Moves the bytes of one request and its answer, once blocking and once for asyncio. Decides nothing: see _wire.py."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from typing import Any, Optional, TypeVar, Union

import httpx

from ._config import Target, config_error
from ._errors import SandboxAPIError
from ._models import ExecEvent
from ._stream import EventDecoder
from ._tls import Trust
from ._wire import ANSWER_SECONDS, CONNECT_SECONDS, Answer, Attempts, Body, Call, Download, Meter, Request, Source, Wire

T = TypeVar("T")
# asyncio's streams let some errors of TLS pass through httpx as they are.
_WRONG = (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError)


def _options(target: Target, timeout: Optional[float], trust: Trust) -> dict[str, Any]:
    """For httpx's clients. No proxy is asked for a server on this machine; and where TLS cannot come up, the
    certificates that it would trust are not read, which takes longer than a command."""
    seconds = ANSWER_SECONDS if timeout is None else timeout
    plain = target.is_loopback and not target.is_https
    context = trust.context() if target.is_https else None
    return {
        "verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else context or True,
        "timeout": httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS)),
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=30.0),
        "mounts": dict.fromkeys(("http://", "https://", "all://")) if target.is_loopback else None,
    }


class Lifeline:
    """Ends a stream while somebody else waits for its next event: from another thread, or another task."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: Any = None
        self.cut = False

    @contextlib.contextmanager
    def of(self, response: httpx.Response) -> Generator[None, None, None]:
        """While this lasts, the connection is that of this answer, and nobody else's."""
        stream: Any = response.extensions.get("network_stream")
        with self._lock:
            self._socket = None if stream is None else stream.get_extra_info("socket")
        if self.cut:
            self.end()
        try:
            yield
        finally:
            with self._lock:
                self._socket = None

    def end(self) -> None:
        """The one who waits gets no more events."""
        self.cut = True
        with self._lock, contextlib.suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)


class _Common:
    """What both transports know: the server, and how often to try."""

    def __init__(
        self,
        http: Union[httpx.Client, httpx.AsyncClient, None],
        base_url: Optional[str],
        api_key: Optional[str],
        timeout: Optional[float],
        retries: int,
        trust: Trust,
    ) -> None:
        target = Target(base_url, api_key)
        if trust.given and http is not None:
            raise config_error("ca_file and client_cert are for a client without http_client, which has its own")
        if trust.given and not target.is_https:
            raise config_error(f"ca_file and client_cert are for https; the server is {target.url}")
        self.options = {} if http is not None else _options(target, timeout, trust)
        base = target.url if http is None or not http.base_url.host else str(http.base_url)
        limits = self.options["timeout"] if http is None else http.timeout
        self.wire = Wire(base, target.key, limits, patient=http is None and timeout is None)
        self.retries = retries

    def start(self, request: Request) -> tuple[dict[str, Any], Union[bytes, Source, None]]:
        return self.wire.arguments(request), self.wire.content(request)

    def judge(self, call: Call[T], answer: Answer) -> T:
        refusal = self.wire.refusal(answer)
        if refusal is not None:
            raise refusal
        return call.take(answer)


class SyncTransport(_Common):
    """Over httpx.Client."""

    def __init__(
        self,
        http: Optional[httpx.Client],
        base_url: Optional[str],
        api_key: Optional[str],
        timeout: Optional[float],
        retries: int,
        trust: Trust,
    ) -> None:
        super().__init__(http, base_url, api_key, timeout, retries, trust)
        self.http = httpx.Client(**self.options) if http is None else http

    def run(self, call: Call[T]) -> T:
        """The call's result, after as many attempts as are safe."""
        attempts = Attempts(call.request, self.retries)
        while True:
            try:
                return self._once(call, attempts)
            except SandboxAPIError as error:
                seconds = attempts.pause(error)
            if seconds is None:
                return call.take(Answer(httpx.Response(204), self.wire.where))
            time.sleep(seconds)

    def _once(self, call: Call[T], attempts: Attempts) -> T:
        with self._opened(call.request, attempts) as (answer, response):
            answer.as_sent()
            ok = response.is_success
            if ok and call.content_type is not None:
                answer.must_be(call.content_type)
            body = Body(answer, bounded=not ok or call.content_type is None)
            for chunk in response.iter_bytes():
                body.add(chunk)
            answer.body = body.bytes()
        return self.judge(call, answer)

    def save(self, download: Download[T]) -> T:
        """Lets the body of the answer flow into its sink."""
        with self._streaming(download.request, download.content_type) as (answer, response):
            return download.sink(self._metered(response, Meter(download.request.progress, answer.length())))

    def events(self, request: Request, content_type: str, lifeline: Lifeline) -> Iterator[ExecEvent]:
        """The events of a command, as they come."""
        with self._streaming(request, content_type) as (answer, response), lifeline.of(response):
            decoder = EventDecoder(answer)
            for chunk in response.iter_bytes():
                yield from decoder.feed(chunk)
            decoder.finish()

    @contextlib.contextmanager
    def _streaming(self, request: Request, content_type: str) -> Generator[tuple[Answer, httpx.Response], None, None]:
        with self._opened(request, Attempts(request, self.retries)) as (answer, response):
            answer.as_sent()
            if not response.is_success:
                body = Body(answer, bounded=True)
                for chunk in response.iter_bytes():
                    body.add(chunk)
                answer.body = body.bytes()
                raise self.wire.refusal(answer) or answer.strange("answered strangely")
            answer.must_be(content_type)
            yield answer, response

    @contextlib.contextmanager
    def _opened(self, request: Request, attempts: Attempts) -> Generator[tuple[Answer, httpx.Response], None, None]:
        response = self._send(request, attempts)
        try:
            yield Answer(response, self.wire.where), response
        except _WRONG as exc:
            if isinstance(exc, SandboxAPIError):
                raise
            raise self.wire.explain(exc) from exc
        finally:
            response.close()

    def _send(self, request: Request, attempts: Attempts) -> httpx.Response:
        while True:
            arguments, source = self.start(request)
            content: Any = source
            if source is not None and not isinstance(source, bytes):
                content = self._pieces(source, request)
            try:
                built = self.http.build_request(content=content, **arguments)
                return self.http.send(built, stream=True, follow_redirects=False)
            except _WRONG as exc:
                error = self.wire.explain(exc)
            time.sleep(attempts.pause(error) or 0)

    @staticmethod
    def _pieces(source: Source, request: Request) -> Iterator[bytes]:
        meter = Meter(request.progress, source.size)
        for piece in source.chunks():
            yield piece
            meter.add(len(piece))

    @staticmethod
    def _metered(response: httpx.Response, meter: Meter) -> Iterator[bytes]:
        for chunk in response.iter_bytes():
            yield chunk
            meter.add(len(chunk))


class _Bridge:
    """Lets a thread read what arrives on the event loop, chunk by chunk."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._loop = asyncio.get_running_loop()
        self._waiting: Optional[asyncio.Future[Optional[bytes]]] = None
        self._stopped = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        chunk = asyncio.run_coroutine_threadsafe(self._next(), self._loop).result()
        if chunk is None:
            raise StopIteration
        return chunk

    async def _next(self) -> Optional[bytes]:
        if self._stopped:
            raise asyncio.CancelledError
        self._waiting = asyncio.ensure_future(_next_or_none(self._chunks))
        return await self._waiting

    def stop(self) -> None:
        """What waits for a chunk, and whatever asks for one later, is cancelled."""
        self._stopped = True
        if self._waiting is not None:
            self._waiting.cancel()


async def _next_or_none(chunks: AsyncIterator[bytes]) -> Optional[bytes]:
    try:
        return await chunks.__anext__()
    except StopAsyncIteration:
        return None


class AsyncTransport(_Common):
    """Over httpx.AsyncClient, for asyncio."""

    def __init__(
        self,
        http: Optional[httpx.AsyncClient],
        base_url: Optional[str],
        api_key: Optional[str],
        timeout: Optional[float],
        retries: int,
        trust: Trust,
    ) -> None:
        super().__init__(http, base_url, api_key, timeout, retries, trust)
        self.http = httpx.AsyncClient(**self.options) if http is None else http

    async def run(self, call: Call[T]) -> T:
        attempts = Attempts(call.request, self.retries)
        while True:
            try:
                return await self._once(call, attempts)
            except SandboxAPIError as error:
                seconds = attempts.pause(error)
            if seconds is None:
                return call.take(Answer(httpx.Response(204), self.wire.where))
            await asyncio.sleep(seconds)

    async def _once(self, call: Call[T], attempts: Attempts) -> T:
        async with self._opened(call.request, attempts) as (answer, response):
            answer.as_sent()
            ok = response.is_success
            if ok and call.content_type is not None:
                answer.must_be(call.content_type)
            body = Body(answer, bounded=not ok or call.content_type is None)
            async for chunk in response.aiter_bytes():
                body.add(chunk)
            answer.body = body.bytes()
        return self.judge(call, answer)

    async def save(self, download: Download[T]) -> T:
        """The sink runs in a thread; when this is cancelled it is waited for, so that it has cleaned up."""
        async with self._streaming(download.request, download.content_type) as (answer, response):
            bridge = _Bridge(self._metered(response, Meter(download.request.progress, answer.length())))
            work = asyncio.ensure_future(asyncio.to_thread(download.sink, iter(bridge)))
            try:
                return await asyncio.shield(work)
            except BaseException:
                bridge.stop()
                await asyncio.wait([work])
                if not work.cancelled():
                    work.exception()
                raise

    async def events(self, request: Request, content_type: str, lifeline: Lifeline) -> AsyncIterator[ExecEvent]:
        async with self._streaming(request, content_type) as (answer, response):
            with lifeline.of(response):
                decoder = EventDecoder(answer)
                async for chunk in response.aiter_bytes():
                    for event in decoder.feed(chunk):
                        yield event
                decoder.finish()

    @contextlib.asynccontextmanager
    async def _streaming(self, request: Request, content_type: str) -> AsyncGenerator[tuple[Answer, httpx.Response], None]:
        async with self._opened(request, Attempts(request, self.retries)) as (answer, response):
            answer.as_sent()
            if not response.is_success:
                body = Body(answer, bounded=True)
                async for chunk in response.aiter_bytes():
                    body.add(chunk)
                answer.body = body.bytes()
                raise self.wire.refusal(answer) or answer.strange("answered strangely")
            answer.must_be(content_type)
            yield answer, response

    @contextlib.asynccontextmanager
    async def _opened(self, request: Request, attempts: Attempts) -> AsyncGenerator[tuple[Answer, httpx.Response], None]:
        response = await self._send(request, attempts)
        try:
            yield Answer(response, self.wire.where), response
        except _WRONG as exc:
            if isinstance(exc, SandboxAPIError):
                raise
            raise self.wire.explain(exc) from exc
        finally:
            await response.aclose()

    async def _send(self, request: Request, attempts: Attempts) -> httpx.Response:
        while True:
            arguments, source = self.start(request)
            content: Any = source
            if source is not None and not isinstance(source, bytes):
                content = self._pieces(source, request)
            try:
                built = self.http.build_request(content=content, **arguments)
                return await self.http.send(built, stream=True, follow_redirects=False)
            except _WRONG as exc:
                error = self.wire.explain(exc)
            await asyncio.sleep(attempts.pause(error) or 0)

    @staticmethod
    async def _pieces(source: Source, request: Request) -> AsyncIterator[bytes]:
        meter = Meter(request.progress, source.size)
        chunks = source.chunks()
        while (piece := await asyncio.to_thread(next, chunks, None)) is not None:
            yield piece
            meter.add(len(piece))

    @staticmethod
    async def _metered(response: httpx.Response, meter: Meter) -> AsyncIterator[bytes]:
        async for chunk in response.aiter_bytes():
            yield chunk
            meter.add(len(chunk))
