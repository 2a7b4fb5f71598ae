"""Reading text files, plain or `.gz`, line by line: strict UTF-8, lines that end at a line feed and nowhere else."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.errors import InputError

_BOM = b"\xef\xbb\xbf"
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def iter_lines(path: Path) -> Iterator[str]:
    r"""The lines of a UTF-8 text file, in order, without their line ends.

    A line ends at `\n` or `\r\n` and nowhere else: U+2028, U+0085, `\x0b`, a lone `\r` and the like are ordinary
    characters, as they are for `wc` and `paste`, which the aligned files were made with. The last line may lack its
    line end; a byte order mark at the start of the file is dropped.

    Raises:
        InputError: the file cannot be read, its gzip data is damaged, or it is not UTF-8 (names the line).
    """
    try:
        with path.open("rb") as file:
            # The buffer makes iteration over gzip data as fast as over a plain file.
            compressed = path.name.endswith(".gz")
            stream = io.BufferedReader(gzip.GzipFile(fileobj=file), 1 << 18) if compressed else file
            yield from decoded_lines(stream, str(path))
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(f"{path}: cannot be read ({reason}); fetch it again") from None


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
            raise InputError(
                f"{name}:{number}: not UTF-8 (byte 0x{error.object[error.start]:02x} at byte {error.start + 1} of the "
                "line); convert the file to UTF-8 or fetch it again"
            ) from None


def read_lines(path: Path) -> list[str]:
    """All the lines of a text file; see `iter_lines`."""
    return list(iter_lines(path))


def parse_number(text: str, path: Path, line: int, *, low: float, high: float) -> float:
    """The number that `text` (line `line` of `path`, from 1) spells, in ASCII digits with a decimal point.

    Raises:
        InputError: not a number, or outside [low, high]; names file and line.
    """
    stripped = text.strip(" ")
    if not _NUMBER.fullmatch(stripped):
        raise InputError(f"{path}:{line}: {text!r} is not a number; expected a score from {low:g} to {high:g}")
    value = float(stripped)
    if not low <= value <= high:
        raise InputError(f"{path}:{line}: the score {stripped} is outside {low:g} to {high:g}")
    return value
