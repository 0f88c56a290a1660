"""Folders as tar: packed from the disk as it is sent, and unpacked, without trust, into a new folder.

An archive comes from a sandbox, so it is hostile: nothing is written through a link, nothing outside of the new folder,
no device, no setuid bit, and no link that leads out.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import tarfile
from collections.abc import Generator, Iterator
from pathlib import Path
from tarfile import HeaderError
from typing import Any, Optional

from ._errors import SandboxAnswerError, SandboxAPIError, one_line
from ._files import CHUNK_BYTES, FileSource, PathLike, beside

_BLOCK = 512
# Most bytes of the headers of one entry: long names, and the map of a file with holes.
_HEADER_MOST = 8 << 20
# No system takes a longer one.
_NAME_MOST = 4096


class FolderSource:
    """What is in a local folder, as a tar: files, folders, symbolic and hard links; nothing else, and no owners.

    Links that lead out of the folder stay behind: a sandbox takes none of them.
    """

    replayable = True
    size: Optional[int] = None

    def __init__(self, path: PathLike) -> None:
        self._root = Path(path)
        self.left_out: list[str] = []
        if not self._root.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(path))

    def chunks(self) -> Iterator[bytes]:
        self.left_out = []
        # Only its memory of hard links is used of this object; it writes nothing.
        maker = tarfile.open(fileobj=io.BytesIO(), mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        for path, name in _walk(self._root):
            info: Any = maker.gettarinfo(str(path), name)
            if not _is_sent(info, name):
                self.left_out.append(name)
                continue
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            if not info.isfile():
                yield info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
                continue
            content = FileSource(path)
            info.size = content.size or 0
            yield info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
            yield from content.chunks()
            if info.size % _BLOCK:
                yield bytes(_BLOCK - info.size % _BLOCK)
        yield bytes(2 * _BLOCK)


def _is_sent(info: Optional[tarfile.TarInfo], name: str) -> bool:
    if info is None:  # a socket
        return False
    if info.issym():
        return _stays_inside(tuple(name.split("/")), info.linkname)
    return info.isfile() or info.isdir() or info.islnk()


def _walk(folder: Path) -> Iterator[tuple[Path, str]]:
    """All that is in it, with names relative to it. A tree may be deeper than functions may call each other."""
    open_folders = [_entries(folder, "")]
    while open_folders:
        found = next(open_folders[-1], None)
        if found is None:
            open_folders.pop()
            continue
        entry, name = found
        yield Path(entry.path), name
        if entry.is_dir(follow_symlinks=False):
            open_folders.append(_entries(entry.path, name + "/"))


def _entries(folder: PathLike, prefix: str) -> Iterator[tuple[os.DirEntry[str], str]]:
    with os.scandir(folder) as entries:
        found: list[os.DirEntry[str]] = sorted(entries, key=lambda e: e.name)
    return iter([(entry, prefix + entry.name) for entry in found])


class _Pull(io.RawIOBase):
    """The chunks of an answer, to be read as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, memoryview(b"")
        self._last = b""
        self._budget: Optional[int] = None

    @contextlib.contextmanager
    def at_most(self, size: int) -> Generator[None, None, None]:
        """Whatever tarfile keeps in memory is read meanwhile, and no more than this."""
        self._budget = size
        yield
        self._budget = None

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        out = bytearray()
        while len(out) < size:
            if not self._rest:
                chunk = next(self._chunks, None)
                if chunk is None:
                    break
                self._rest = memoryview(chunk)
                continue
            take = self._rest[: size - len(out)]
            out += take
            self._rest = self._rest[len(take) :]
        self._last = (self._last + out)[-2 * _BLOCK :]
        if self._budget is not None:
            self._budget -= len(out)
            if self._budget < 0:
                raise _hostile("an archive with a header that is too large")
        return bytes(out)

    def finish(self) -> bool:
        """Reads what is left, so that a connection that breaks there is noticed; whether the archive's end mark was there."""
        while self.read(CHUNK_BYTES):
            pass
        return self._last == bytes(2 * _BLOCK)


class _Header(tarfile.TarInfo):
    """Says when a header is broken, which tarfile takes for the end of the archive."""

    @classmethod
    def fromtarfile(cls, tarfile: Any) -> _Header:
        try:
            return super().fromtarfile(tarfile)
        except HeaderError as exc:
            # Its end, marked or not, is judged by whoever counts the bytes.
            if type(exc).__name__ in ("EOFHeaderError", "EmptyHeaderError", "TruncatedHeaderError"):
                raise
            raise _hostile(f"an archive that cannot be read: {exc}") from None


class FolderSink:
    """Unpacks a folder beside its destination and moves it there when it is complete.

    Gives the names of the entries that were left out: links that lead out of the folder, devices, sockets, FIFOs.
    """

    def __init__(self, local: PathLike) -> None:
        self._path = Path(local)
        if os.path.lexists(self._path):
            raise FileExistsError(errno.EEXIST, "exists already", str(local))
        if not self._path.name or not self._path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "no such folder", str(self._path.parent))

    def __call__(self, chunks: Iterator[bytes]) -> list[str]:
        part = beside(self._path)
        os.mkdir(part)
        try:
            usual = os.stat(part).st_mode & 0o777
            os.chmod(part, 0o700)
            unpacker = _Unpacker(part, usual)
            unpacker.unpack(chunks)
            os.chmod(part, usual | 0o700)
            if os.path.lexists(self._path):
                raise FileExistsError(errno.EEXIST, "exists already", str(self._path))
            os.rename(part, self._path)
        except BaseException:
            _remove(part)
            raise
        return unpacker.left_out


def _remove(folder: Path) -> None:
    """Also what an archive made unreadable for its owner, or very deep, is removed."""
    waiting = [str(folder)]
    folders: list[str] = []
    while waiting:
        folders.append(waiting.pop())
        with contextlib.suppress(OSError):
            os.chmod(folders[-1], 0o700)
        with contextlib.suppress(OSError), os.scandir(folders[-1]) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                    continue
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
    for path in reversed(folders):
        with contextlib.suppress(OSError):
            os.rmdir(path)


def _next(tar: Any, pull: _Pull) -> Optional[tarfile.TarInfo]:
    """The next entry. What was not read of the one before is passed over here: tarfile would not notice the end of the archive."""
    while (left := tar.offset - tar.fileobj.tell()) > 0:
        if not tar.fileobj.read(min(CHUNK_BYTES, left)):
            raise _hostile("an archive that ends too early")
    with pull.at_most(_HEADER_MOST):
        entry: Optional[tarfile.TarInfo] = tar.next()
    return entry


class _Unpacker:
    """usual: the mode that the user's umask leaves to a folder."""

    def __init__(self, root: Path, usual: int) -> None:
        self._root, self._usual = root, usual
        self._folders: dict[tuple[str, ...], Optional[tarfile.TarInfo]] = {(): None}
        self._files: set[tuple[str, ...]] = set()
        self._begun = False
        self._left_out: set[tuple[str, ...]] = set()
        self.left_out: list[str] = []

    def unpack(self, chunks: Iterator[bytes]) -> None:
        pull = _Pull(chunks)
        try:
            with tarfile.open(fileobj=pull, mode="r|", errorlevel=2, tarinfo=_Header) as tar:
                seen: Any = tar
                while (entry := _next(seen, pull)) is not None:
                    if not (self._begun or (entry.isdir() and not _parts(entry.name))):
                        raise SandboxAPIError(400, "invalid_request", "that is not a folder")
                    self._begun = True
                    self._entry(seen.fileobj, entry)
                    # Else it remembers all of them.
                    seen.members = []
                    seen.pax_headers.clear()
        except SandboxAPIError:
            raise
        except (tarfile.TarError, ValueError, OverflowError, RecursionError) as exc:
            raise _hostile(f"an archive that cannot be read: {exc}") from None
        if not pull.finish():
            raise _hostile("an archive that ends too early")
        for parts in sorted(self._folders, key=len, reverse=True):
            info = self._folders[parts]
            if info is not None and parts:
                path = self._root.joinpath(*parts)
                os.chmod(path, (info.mode & self._usual) | 0o700)
                _set_time(path, info)

    def _entry(self, stream: Any, info: tarfile.TarInfo) -> None:
        parts = _parts(info.name)
        if info.isdir():
            self._folder(parts)
            self._folders[parts] = info
            return
        if not parts:
            raise _hostile("an archive entry without a name")
        self._folder(parts[:-1])
        path = self._root.joinpath(*parts)
        try:
            if info.isfile():
                self._file(stream, info, path)
                self._files.add(parts)
            elif info.islnk():
                target = _parts(info.linkname)
                if target not in self._files:
                    raise _hostile(f"a hard link to what is not in it: {info.linkname}")
                os.link(self._root.joinpath(*target), path, follow_symlinks=False)
                self._files.add(parts)
            elif info.issym() and _stays_inside(parts, info.linkname):
                os.symlink(info.linkname, path)
            else:
                self._left_out.add(parts)
                self.left_out.append("/".join(parts))
        except FileExistsError:
            raise _hostile(f"an archive with two entries of one name: {info.name}") from None

    def _folder(self, parts: tuple[str, ...]) -> None:
        known = len(parts)
        while parts[:known] not in self._folders:
            known -= 1
        for n in range(known + 1, len(parts) + 1):
            try:
                if parts[:n] in self._left_out:
                    raise FileExistsError
                os.mkdir(self._root.joinpath(*parts[:n]), 0o700)
            except FileExistsError:
                raise _hostile(f"an archive entry below what is no folder: {'/'.join(parts)}") from None
            self._folders[parts[:n]] = None

    def _file(self, stream: Any, info: tarfile.TarInfo, path: Path) -> None:
        mode = (info.mode & 0o777) | 0o600
        regions: Any = info.sparse
        if regions is not None and any(o < 0 or n < 0 or o + n > info.size for o, n in regions):
            raise _hostile(f"a file whose parts lie outside of it: {info.name}")
        stream.seek(info.offset_data)
        with open(path, "xb", buffering=0, opener=lambda name, flags: os.open(name, flags, mode)) as out:
            # What lies between the regions of a file with holes is not in the archive.
            for offset, size in [(0, info.size)] if regions is None else regions:
                out.seek(offset)
                _transfer(stream, out, size)
            if regions is not None:
                out.truncate(info.size)
        _set_time(path, info)


def _transfer(stream: Any, out: Any, size: int) -> None:
    while size > 0:
        data = memoryview(stream.read(min(CHUNK_BYTES, size)))
        if not data:
            raise _hostile("an archive that ends too early")
        size -= len(data)
        while data:
            data = data[out.write(data) :]


def _set_time(path: Path, info: tarfile.TarInfo) -> None:
    # A time that the file system does not know is not worth failing for.
    with contextlib.suppress(OSError, OverflowError, ValueError):
        os.utime(path, (info.mtime, info.mtime))


def _parts(name: str) -> tuple[str, ...]:
    if len(name) > _NAME_MOST:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), one_line(name[:100]))
    parts = tuple(p for p in name.split("/") if p not in ("", "."))
    if name.startswith("/") or ".." in parts or "\0" in name or (os.name == "nt" and any(c in name for c in "\\:")):
        raise _hostile(f"an archive entry that would leave the folder: {name}")
    return parts


def _stays_inside(parts: tuple[str, ...], target: str) -> bool:
    """Whether a link leads nowhere but into the folder.

    Steps up count only in front, where they go along real folders: after a name they could go along another link.
    """
    if target.startswith("/") or not target or "\0" in target:
        return False
    steps = [p for p in target.split("/") if p not in ("", ".")]
    up = 0
    while up < len(steps) and steps[up] == "..":
        up += 1
    return up <= len(parts) - 1 and ".." not in steps[up:]


def _hostile(what: str) -> SandboxAnswerError:
    return SandboxAnswerError(200, "unexpected_answer", one_line(f"the sandbox sent {what}"))
