"""Packed files by the ending of their name: `.gz`, `.xz`, `.zst`."""

from __future__ import annotations

import gzip
import io
import lzma
import sys
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from harness.core.errors import MissingExtraError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

ENDINGS = (".gz", ".xz", ".zst")
_AT_ONCE = 4096  # packed bytes: zstd unpacks a byte to 32 kB at most

UNPACKING_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""What reading a stream of `unpacking` raises where its data is damaged, cut off or not to be read."""


def plain_name(path: Path) -> str:
    """A file's name without the ending that says how it is packed."""
    return path.name.removesuffix(packing_of(path))


def packing_of(path: Path) -> str:
    """`.gz`, `.xz` or `.zst` if a file's name ends so, else nothing."""
    return path.suffix if path.suffix in ENDINGS and path.suffix != path.name else ""


def unpacking(content: IO[bytes], path: Path) -> IO[bytes] | gzip.GzipFile:
    """A stream of what the open file `path` unpacks to; `content` itself if its name does not say that it is packed.

    Raises:
        MissingExtraError: the package for `.zst` is missing (Python has one of its own from 3.14 on).
    """
    packing = packing_of(path)
    if packing == ".gz":
        return gzip.GzipFile(fileobj=content)
    if packing == ".xz":
        return lzma.LZMAFile(content)
    if packing == ".zst":
        return _zstd(content)
    return content


def _zstd(content: IO[bytes]) -> IO[bytes]:
    if sys.version_info >= (3, 14):
        from compression.zstd import ZstdError, ZstdFile

        return cast(IO[bytes], _Renaming(ZstdFile(content), ZstdError))
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError("a file .zst", "zstd") from None
    return cast(IO[bytes], _Renaming(_Frames(content, zstandard.ZstdDecompressor()), zstandard.ZstdError))


class _Renaming(io.RawIOBase):
    """A stream whose own errors become an OSError."""

    def __init__(self, stream: Any, error: type[Exception]):
        self._stream, self._error = stream, error

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        try:
            return int(self._stream.readinto(buffer))
        except self._error as error:
            raise OSError(str(error)) from None


class _Frames(io.RawIOBase):
    """What the frames of a zstd file hold, one after the other (the package's own reader takes a cut one for whole)."""

    def __init__(self, content: IO[bytes], unpacker: Any):
        self._content, self._unpacker = content, unpacker
        self._frame, self._is_open = unpacker.decompressobj(), False
        self._packed, self._plain = b"", memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        while not self._plain:
            packed = self._packed or self._content.read(_AT_ONCE)
            self._packed = b""
            if not packed:
                if self._is_open:
                    raise EOFError("it ends within a frame of zstd")
                return 0
            self._plain, self._is_open = memoryview(self._frame.decompress(packed)), True
            if self._frame.eof:
                self._packed = self._frame.unused_data
                self._frame, self._is_open = self._unpacker.decompressobj(), False
        out = memoryview(buffer).cast("B")
        count = min(len(out), len(self._plain))
        out[:count], self._plain = self._plain[:count], self._plain[count:]
        return count
