"""The local side of uploads and downloads: bytes from a file, and into one that is whole or not there."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Optional, Union

PathLike = Union[str, "os.PathLike[str]"]
CHUNK_BYTES = 256 << 10


def _shorter(name: object) -> OSError:
    return OSError(errno.EIO, "became shorter while it was read", str(name))


class FileSource:
    """A local file's bytes; opened anew for each attempt."""

    replayable = True

    def __init__(self, path: PathLike) -> None:
        self._path = Path(path)
        # Opened, not only looked at: a file that cannot be read is found out before anything is sent.
        with open(self._path, "rb") as f:
            info = os.fstat(f.fileno())
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        self.size: Optional[int] = info.st_size
        self.mode = info.st_mode & 0o777

    def chunks(self) -> Iterator[bytes]:
        with open(self._path, "rb", buffering=0) as f:
            left = self.size or 0
            while left > 0:
                data = f.read(min(CHUNK_BYTES, left))
                if not data:
                    raise _shorter(self._path)
                left -= len(data)
                yield data


class ObjectSource:
    """The rest of a binary file object. Sent again only if it can be rewound."""

    def __init__(self, file: IO[bytes]) -> None:
        if isinstance(file, io.TextIOBase):
            raise TypeError("the file must be opened in binary mode")
        self._file = file
        self._start: Optional[int] = None
        self.size: Optional[int] = None
        self.replayable = False
        with contextlib.suppress(OSError, AttributeError, ValueError):
            if file.seekable():
                self._start = file.tell()
                self.size = max(0, file.seek(0, os.SEEK_END) - self._start)
                file.seek(self._start)
                self.replayable = True

    def chunks(self) -> Iterator[bytes]:
        if self._start is not None:
            self._file.seek(self._start)
        left = self.size
        while left is None or left > 0:
            data: Any = self._file.read(CHUNK_BYTES if left is None else min(CHUNK_BYTES, left))
            if not data:
                if left is None:
                    return
                raise _shorter(getattr(self._file, "name", "the file object"))
            if left is not None:
                left -= len(data)
            yield bytes(data)


def source_of(local: Union[PathLike, IO[bytes]]) -> Union[FileSource, ObjectSource]:
    """A path or a binary file object as something to send."""
    return FileSource(local) if isinstance(local, (str, os.PathLike)) else ObjectSource(local)


def refuse_existing(path: Path, overwrite: bool) -> None:
    """Says so before anything is asked of the server when the destination cannot be written."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        if not path.name or not path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "no such folder", str(path.parent)) from None
        return
    if not overwrite:
        raise FileExistsError(errno.EEXIST, "exists already", str(path))
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder", str(path))
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def beside(path: Path) -> Path:
    """A name in the same folder that nobody else has."""
    return path.parent / f".{path.name[:100]}.{secrets.token_hex(6)}.part"


class FileSink:
    """Where a download goes: a file that is there when all of it is, or a file object. Gives the number of bytes."""

    def __init__(self, local: Union[PathLike, IO[bytes]], overwrite: bool) -> None:
        self._object: Any = None
        self._path = Path()
        self._overwrite = overwrite
        if isinstance(local, (str, os.PathLike)):
            self._path = Path(local)
            refuse_existing(self._path, overwrite)
        else:
            self._object = local

    def __call__(self, chunks: Iterator[bytes]) -> int:
        if self._object is not None:
            return _copy(chunks, self._object)
        part = beside(self._path)
        try:
            with open(part, "xb", buffering=0) as f:
                size = _copy(chunks, f)
            self._put(part)
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink()
            raise
        return size

    def _put(self, part: Path) -> None:
        refuse_existing(self._path, self._overwrite)
        if self._overwrite:
            os.replace(part, self._path)
            return
        try:
            # A link never replaces what somebody else put there meanwhile.
            os.link(part, self._path)
        except FileExistsError:
            raise FileExistsError(errno.EEXIST, "exists already", str(self._path)) from None
        except (OSError, NotImplementedError, AttributeError):
            os.rename(part, self._path)
        else:
            part.unlink()


def _copy(chunks: Iterator[bytes], out: Any) -> int:
    size = 0
    for chunk in chunks:
        view = memoryview(chunk)
        size += len(view)
        while len(view) > 0:
            # A raw file may take less than it was given; objects that say nothing took all.
            taken = out.write(view)
            view = view[len(view) if taken is None else taken :]
    return size
