"""Where the server is and with which key: arguments, then the environment, then the key file."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Optional

import httpx

from ._errors import SandboxConfigError, one_line

DEFAULT_URL = "http://127.0.0.1:8080"
_KEY_FILE_MAX = 4096


def config_error(text: str) -> SandboxConfigError:
    """What cannot be used, in one line."""
    return SandboxConfigError(0, "configuration", one_line(text))


def _open(path: str, flags: int) -> int:
    """Waits for nobody who might write into a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_key_file(path: Path) -> str:
    """The key in a file that nobody else can read; SandboxConfigError otherwise."""
    try:
        with open(path, "rb", opener=_open) as f:
            mode = os.fstat(f.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise config_error(f"key file {path}: not a regular file")
            if os.name == "posix" and mode & 0o077:
                raise config_error(f"key file {path}: others can read it; run: chmod 600 {path}")
            text = f.read(_KEY_FILE_MAX + 1)
    except OSError as exc:
        raise config_error(f"key file {path}: {exc.strerror}") from None
    try:
        key = text.decode("ascii").strip()
    except UnicodeDecodeError:
        key = ""
    if not key or len(text) > _KEY_FILE_MAX:
        raise config_error(f"key file {path}: has no key")
    return key


def _default_key() -> Optional[str]:
    if key := os.environ.get("AGENT_SANDBOX_API_KEY"):
        return key
    if named := os.environ.get("AGENT_SANDBOX_API_KEY_FILE"):
        return read_key_file(Path(named))
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    usual = Path(folder) / "agent-sandbox" / "key"
    return read_key_file(usual) if usual.is_file() else None


class Target:
    """A server's address without a slash at its end, and the key for it or None."""

    def __init__(self, base_url: Optional[str], api_key: Optional[str]) -> None:
        text = base_url or os.environ.get("AGENT_SANDBOX_URL") or DEFAULT_URL
        try:
            url = httpx.URL(text)
        except (httpx.InvalidURL, TypeError):
            raise config_error("the server's URL is not a URL") from None
        if url.scheme not in ("http", "https") or not url.host:
            raise config_error("the server's URL must begin with http:// or https:// and a host name")
        if url.port is not None and not 0 < url.port < 65536:
            raise config_error("the server's URL has a port that cannot be")
        if url.query or url.fragment:
            raise config_error("the server's URL must have no query and no fragment")
        self.key = api_key or url.password or _default_key()
        if self.key is not None and not (self.key.isascii() and self.key.isprintable() and " " not in self.key):
            raise config_error("the key has characters that cannot be in one")
        self.url = str(url.copy_with(username=None, password=None)).rstrip("/")

    @property
    def is_https(self) -> bool:
        return self.url.startswith("https:")

    @property
    def is_loopback(self) -> bool:
        """Whether the server is on this machine, where a proxy has no place."""
        host = httpx.URL(self.url).host
        return host in ("localhost", "::1") or host.startswith("127.")
