"""What can go wrong, as types: all of them are SandboxAPIError, and where httpx has a class for it, that one too."""

from __future__ import annotations

import re
from typing import Any, Optional

import httpx

# What hides, or turns the direction of text, could make a line look like another one.
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_TEXT_MAX = 1000


def one_line(text: str) -> str:
    """The text as one line that is safe to print: no control, direction or hidden characters, at most 1,000 characters."""
    clean = _CONTROL.sub("\ufffd", " ".join(text.split()))
    return clean if len(clean) <= _TEXT_MAX else clean[: _TEXT_MAX - 1] + "…"


class SandboxAPIError(Exception):
    """Something was refused or failed. The base of every error of this package.

    Attributes:
        status_code: the HTTP status, or 0 when no answer came.
        code: the server's word for it (``"not_found"``), or one of this package's: ``"http_error"``, ``"redirect"``,
            ``"unexpected_answer"``, ``"unreachable"``, ``"tls"``, ``"connection_lost"``, ``"timeout"``, ``"interrupted"``,
            ``"configuration"``.
        message: one line that says what happened.
        retry_after: seconds after which the server wants to be asked again, or None if it did not say.
        request_id: the server's name for the request, to look it up in its log, or None.
    """

    def __init__(
        self,
        status_code: int,
        code: str,
        message: str,
        *,
        retry_after: Optional[float] = None,
        request_id: Optional[str] = None,
    ) -> None:
        super().__init__(f"{status_code} {code}: {message}" if status_code else f"{code}: {message}")
        self.status_code = status_code
        self.code = code
        self.message = message
        self.retry_after = retry_after
        self.request_id = None if request_id is None else one_line(request_id)

    def __reduce__(self) -> Any:
        more = {"retry_after": self.retry_after, "request_id": self.request_id}
        return (_restore, (type(self), self.status_code, self.code, self.message, more))


def _restore(kind: type[SandboxAPIError], status_code: int, code: str, message: str, more: dict[str, Any]) -> SandboxAPIError:
    return kind(status_code, code, message, **more)


class SandboxNotFoundError(SandboxAPIError):
    """404 or 410: there is no such sandbox, snapshot or file (any more)."""


class SandboxAuthError(SandboxAPIError):
    """401: no key or a wrong one. 403: the key, image or network is not allowed."""


class SandboxLimitError(SandboxAPIError):
    """429: too many sandboxes or commands at once; ``retry_after`` says when to try again. Nothing was done."""


class SandboxConfigError(SandboxAPIError, ValueError):
    """The URL, the key or a key file cannot be used. Nothing was sent."""


class SandboxUnreachableError(SandboxAPIError, httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError):
    """No connection to the server: wrong address, nothing listens there, or TLS failed. Nothing was sent."""


class SandboxConnectionLostError(SandboxAPIError, httpx.ReadError, httpx.WriteError, httpx.CloseError, httpx.RemoteProtocolError):
    """The connection ended before the answer did. Whether the server did what it was asked is not known."""


class SandboxTimeoutError(SandboxAPIError, httpx.ReadTimeout, httpx.WriteTimeout, httpx.PoolTimeout):
    """The server said nothing for the client's ``timeout``. Whether it did what it was asked is not known."""


class SandboxAnswerError(SandboxAPIError, httpx.RemoteProtocolError, httpx.DecodingError, ValueError):
    """What answered does not speak this API: another server, or a proxy in between."""


class SandboxRedirectError(SandboxAnswerError):
    """The server, or a proxy, points elsewhere. Redirects are not followed, so that the key goes nowhere else."""


class SandboxInterruptedError(SandboxAPIError):
    """A command's stream was ended by the server before the command was: how it ended is not known.

    For instance because the sandbox was destroyed, expired or was rolled back meanwhile, or the engine failed.
    """


_BY_STATUS: dict[int, type[SandboxAPIError]] = {
    401: SandboxAuthError,
    403: SandboxAuthError,
    404: SandboxNotFoundError,
    410: SandboxNotFoundError,
    429: SandboxLimitError,
}


def refused(status: int, code: str, message: str, retry_after: Optional[float], request_id: Optional[str]) -> SandboxAPIError:
    """The error for an answer in which the server says no."""
    kind = _BY_STATUS.get(status, SandboxAPIError)
    return kind(status, code, one_line(message), retry_after=retry_after, request_id=request_id)
