"""Reading text files, plain or packed (`.gz`, `.xz`, `.zst`), line by line.

UTF-8 is strict, and a line ends at a line feed and nowhere else.
"""

from __future__ import annotations

import gzip
import io
import lzma
import re
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from harness.core.compressed import UNPACKING_ERRORS, unpacking
from harness.core.errors import InputError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_FETCHED = "or if it was fetched, move it away and fetch it again"
REMEDY = f"correct it, {_FETCHED}"
"""What to do about a file that is wrong, for files of the user's own and for those that were fetched."""


class FileError(InputError):
    """A file that is wrong.

    Attributes:
        wrong: file, line and what is wrong there.
        remedy: what is to be done where it was not fetched.
    """

    def __init__(self, wrong: str, remedy: str = "correct it"):
        super().__init__(f"{wrong}; {remedy}, {_FETCHED}")
        self.wrong, self.remedy = wrong, remedy


@contextmanager
def of_the_user() -> Iterator[None]:
    """What is wrong with files that nobody fetched, without a word of fetching."""
    try:
        yield
    except FileError as error:
        raise InputError(f"{error.wrong}; {error.remedy}") from None


DAMAGES = (
    *(OSError, EOFError, ValueError, OverflowError, RuntimeError, MemoryError),
    *(zlib.error, lzma.LZMAError, struct.error),
)
"""What reading damaged or malicious packed data raises, beside the errors that a kind of archive has for itself."""

_BUFFER = 1 << 18
# Text shrinks to a tenth or so. What unpacks to more than this was made to fill a memory or a disk.
_LARGEST_RATIO = 100
_NO_MATTER = 100_000_000  # bytes; so much may come of any file
_BOM = b"\xef\xbb\xbf"
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def iter_lines(path: Path) -> Iterator[str]:
    r"""The lines of a UTF-8 text file, in order, without their line ends.

    A line ends at `\n` or `\r\n` and nowhere else: U+2028, U+0085, `\x0b`, a lone `\r` and the like are ordinary
    characters, as they are for `wc` and `paste`, which the aligned files were made with. The last line may lack its
    line end; a byte order mark at the start of the file is dropped.

    Raises:
        InputError: the file cannot be read, its packed data is damaged, or it is not UTF-8 (names the line).
    """
    with open_content(path) as stream, _naming(path):  # of a line that does not fit into memory
        yield from decoded_lines(stream, str(path))


@contextmanager
def open_content(path: Path) -> Iterator[IO[bytes]]:
    """The content of a file, unpacked if its name ends in `.gz`, `.xz` or `.zst`, for a `with` block.

    Raises:
        InputError: also while it is read: the file cannot be read, or its packed data is damaged or unpacks to more
            than text does; names the file.
        MissingExtraError: for `.zst`, the package for it is missing.
    """
    with ExitStack() as stack:
        with _naming(path):
            content: IO[bytes] = stack.enter_context(path.open("rb"))
            stream = unpacking(content, path)
            if stream is not content:
                content = unpacked(stream, path)
        # Not around this: what fails in the user's block is not the file's.
        yield stack.enter_context(io.BufferedReader(_Named(content, path), _BUFFER))


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turns errors of reading a file into InputErrors that name it."""
    try:
        yield
    except (*UNPACKING_ERRORS, MemoryError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error) or "not enough memory"
        raise FileError(f"{path}: cannot be read ({reason})") from None


class _Named(io.RawIOBase):
    def __init__(self, stream: IO[bytes], path: Path):
        self._stream, self._path = cast(io.BufferedIOBase, stream), path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        with _naming(self._path):
            return self._stream.readinto(buffer)


def unpacked(stream: IO[bytes] | gzip.GzipFile, archive: Path) -> IO[bytes]:
    """Returns a stream of what `stream` unpacks from a file; it gives no more than text can be, see `Allowance`."""
    return Allowance(archive).around(stream)


class Allowance:
    """Limits how many bytes are unpacked from a file, in all: to what text can come to, and to `limit`."""

    def __init__(self, archive: Path, limit: int | None = None):
        most = max(_NO_MATTER, _LARGEST_RATIO * archive.stat().st_size)
        self._limit = self._left = most if limit is None else min(most, limit)

    def around(self, stream: IO[bytes] | gzip.GzipFile) -> IO[bytes]:
        """A stream that counts what it gives; beyond the limit it raises an OSError without a number, as gzip does."""
        # The buffer makes iteration over lines as fast as over those of a plain file.
        return io.BufferedReader(_Limited(stream, self), _BUFFER)

    def take(self, count: int) -> None:
        """Counts `count` more bytes. Raises OSError beyond the limit."""
        self._left -= count
        if self._left < 0:
            raise OSError(f"it unpacks to more than {self._limit:,} bytes")


class _Limited(io.RawIOBase):
    def __init__(self, stream: IO[bytes] | gzip.GzipFile, allowance: Allowance):
        self._stream = cast(io.BufferedIOBase, stream)
        self._allowance = allowance

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        count = self._stream.readinto(buffer)
        self._allowance.take(count)
        return count


def decoded_lines(stream: Iterable[bytes], name: str) -> Iterator[str]:
    """The lines of an open file, as `iter_lines` gives them; `name` stands for the file in errors.

    Raises:
        InputError: it is not UTF-8 (names the line).
    """
    for number, raw in enumerate(stream, start=1):
        if number == 1 and raw.startswith(_BOM):
            raw = raw[len(_BOM) :]
            if not raw:
                return
        end = -2 if raw.endswith(b"\r\n") else -1 if raw.endswith(b"\n") else len(raw)
        try:
            yield raw[:end].decode("utf-8")
        except UnicodeDecodeError as error:
            raise FileError(
                f"{name}:{number}: not UTF-8 (byte 0x{error.object[error.start]:02x} at byte {error.start + 1} of the "
                "line)",
                "convert it (iconv -f latin1 -t utf-8 OLD > NEW)",
            ) from None


def read_lines(path: Path) -> list[str]:
    """All the lines of a text file; see `iter_lines`. Raises InputError also where they do not fit into memory."""
    try:
        return list(iter_lines(path))
    except MemoryError:
        raise InputError(f"{path}: its lines do not fit into memory; split it") from None


def tab_rows(
    path: Path,
    least: int,
    most: int | None,
    layout: str = "",
    *,
    skip: int = 0,
    is_blank_no_row: bool = False,
    if_more: str = "",
) -> Iterator[tuple[int, list[str]]]:
    """Lines with their numbers (from 1), split at tabs, without quoting; the first `skip` are left out.

    `layout` says in errors what the columns are. With `is_blank_no_row`, empty lines are left out: for files that were
    written by hand, and are aligned with no other. `if_more`: what is to be done about too many columns.

    Raises:
        InputError: a line has fewer than `least` columns, or more than `most`; names file and line.
    """
    for number, line in enumerate(iter_lines(path), start=1):
        if number <= skip or (is_blank_no_row and not line):
            continue
        fields = line.split("\t")
        if len(fields) < least or (most is not None and len(fields) > most):
            expected = f"{least}" if most == least else f"{least} or more" if most is None else f"{least} to {most}"
            columns = f" ({layout})" if layout else ""
            found = f"{len(fields)} column{'s' * (len(fields) != 1)}"
            remedy = "separate the columns by tabs" if len(fields) == 1 else if_more * (len(fields) > least)
            raise FileError(f"{path}:{number}: {found}, expected {expected}{columns}", remedy or "correct it")
        yield number, fields


def parse_number(text: str, path: Path, line: int, *, low: float, high: float) -> float:
    """The number that `text` (line `line` of `path`, from 1) spells, in ASCII digits with a decimal point.

    Raises:
        InputError: not a number, or outside [low, high]; names file and line.
    """
    stripped = text.strip(" ")
    if not _NUMBER.fullmatch(stripped):
        with_point = " with a decimal point" if "," in text else ""
        raise FileError(
            f"{path}:{line}: {text!r} is not a number; expected a score from {low:g} to {high:g}{with_point}"
        )
    value = float(stripped)
    if not low <= value <= high:
        raise FileError(f"{path}:{line}: the score {stripped} is outside {low:g} to {high:g}")
    return value
