"""Readers of parallel sentences: tables, aligned files, archives of these, TMX, and CSV or JSONL with named columns."""

from __future__ import annotations

import csv
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import msgspec

from harness.core.errors import InputError
from harness.core.text import (
    DAMAGES,
    FileError,
    decoded_lines,
    iter_lines,
    open_content,
    parse_number,
    tab_rows,
    unpacked,
)

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

LANGUAGE_CODE = r"[a-z]{2,3}(?:_[A-Za-z]{2,4})?"
_MEMBER = re.compile(rf"[\w.+-]+\.({LANGUAGE_CODE})-({LANGUAGE_CODE})\.({LANGUAGE_CODE})")  # of OPUS's archives
_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_CODE_ELEMENTS = ("bpt", "ept", "it", "ph", "ut")  # of TMX: mark-up of the original format, no text

AS_CSV = "correct it, or give a table with more columns as .csv, with --columns"

Pairs = Iterator[tuple[str, str]]
"""A sentence and its translation, one by one."""


def read_table(path: Path) -> Pairs:
    """Lines `sentence TAB translation`. Raises InputError at another number of columns; names file and line."""
    return (
        (fields[0], fields[1])
        for _, fields in tab_rows(path, 2, 2, "sentence TAB translation", is_blank_no_row=True, if_more=AS_CSV)
    )


def read_scored(path: Path, min_score: float = 0.0) -> Pairs:
    """Lines `score TAB sentence TAB translation`, of which those with a lower score than `min_score` are left out.

    Raises:
        InputError: too few columns, a score that is no number from 0 to 100; names file and line.
    """
    for number, fields in tab_rows(path, 3, None, "score TAB sentence TAB translation"):
        if parse_number(fields[0], path, number, low=0, high=100) >= min_score:
            yield fields[1], fields[2]


def read_words(path: Path) -> Pairs:
    """Lines of two words. Raises InputError at another number; names file and line."""
    for number, line in enumerate(iter_lines(path), start=1):
        words = line.split()
        if len(words) != 2:
            raise FileError(f"{path}:{number}: {len(words)} words, expected 2 (word and translation)")
        yield words[0], words[1]


def read_moses_zip(path: Path, source: str, target: str) -> Pairs:
    """OPUS's archives of two files that are aligned line by line; the sentences in `source` come first.

    Raises:
        InputError: no zip file or a damaged one, other files in it, sides of different lengths; names the file.
    """
    with zip_errors(path), zipfile.ZipFile(path) as archive:
        members = {
            match[3]: info
            for info in archive.infolist()
            if (match := _MEMBER.fullmatch(PurePosixPath(info.filename).name)) and match[3] in match.group(1, 2)
        }
        if len(members) != 2:
            raise InputError(f"{path}: expected two files NAME.xx-yy.xx and NAME.xx-yy.yy in it, found {len(members)}")
        # The archive may have a code of its own (zh_cn) for one language, hardly for both.
        sides = sorted(members, key=lambda code: (code != source, code == target))
        if source not in members and target not in members:
            raise InputError(f"{path}: it holds {' and '.join(members)}, its name says otherwise; rename it")
        names = [f"{path}/{PurePosixPath(members[code].filename).name}" for code in sides]
        with archive.open(members[sides[0]]) as first, archive.open(members[sides[1]]) as second:
            sources = decoded_lines(unpacked(first, path), names[0])
            yield from aligned(sources, decoded_lines(unpacked(second, path), names[1]), names)


def aligned(sources: Iterable[str], targets: Iterable[str], names: Sequence[str]) -> Pairs:
    """Pairs of lines. Raises InputError where there are not as many of both; `names` stand for the two files."""
    for number, (source, target) in enumerate(zip_longest(sources, targets), start=1):
        if source is None or target is None:
            short, long = names if source is None else (names[1], names[0])
            raise FileError(f"{short} has {number - 1} lines, {long} has more: they are not aligned")
        yield source, target


@contextmanager
def zip_errors(path: Path) -> Iterator[None]:
    """What reading a zip file raises, as one line that names it."""
    try:
        yield
    except (*DAMAGES, zipfile.BadZipFile) as error:
        reason = str(error) or type(error).__name__
        raise FileError(f"{path}: not a zip file that can be read ({reason})") from None


def read_tmx(path: Path, source: str, target: str) -> Pairs:
    """The translation units of a TMX file (`.tmx`, `.tmx.gz`, `.tmx.zip`) that have both languages.

    Raises:
        InputError: a damaged file, no TMX in it; names file and line.
    """
    if path.name.endswith(".zip"):
        yield from _read_tmx_zip(path, source, target)
        return
    with open_content(path) as stream:
        yield from _tmx_pairs(stream, path, source, target)


def _read_tmx_zip(path: Path, source: str, target: str) -> Pairs:
    with zip_errors(path), zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith(".tmx")]
        if len(members) != 1:
            raise InputError(f"{path}: expected one .tmx file in it, found {len(members)}")
        with archive.open(members[0]) as stream:
            yield from _tmx_pairs(unpacked(stream, path), path, source, target)


def _tmx_pairs(stream: Any, path: Path, source: str, target: str) -> Pairs:
    body = None
    for event, element in _xml_events(stream, path):
        if element.tag == "body" and event == "start":
            body = element
        if element.tag != "tu" or event != "end":
            continue
        segments = {_language(variant): variant.find("seg") for variant in element.iter("tuv")}
        first, second = segments.get(source), segments.get(target)
        if first is not None and second is not None:
            yield " ".join(_text(first).split()), " ".join(_text(second).split())
        if body is not None:
            body.clear()  # or the whole file would be kept


def _xml_events(stream: Any, path: Path) -> Iterator[tuple[str, Element]]:
    """Start and end of every element. Raises InputError."""
    from xml.etree.ElementTree import ParseError, iterparse

    try:
        yield from iterparse(stream, ("start", "end"))
    except ParseError as error:
        why = f":{error.position[0]}: not TMX ({str(error).partition(':')[0]})"
    except (LookupError, ValueError) as error:  # an encoding that Python or the parser does not have
        why = f": not TMX ({error})"
    else:
        return
    raise FileError(f"{path}{why}")


def _language(variant: Element) -> str:
    code = variant.get(_XML_LANG) or variant.get("lang") or ""
    return re.split("[-_]", code.lower())[0]


def _text(element: Element) -> str:
    """The text in an element without its mark-up. The mark-up may be nested to any depth."""
    parts: list[str] = []
    left: list[Element | str] = [element]  # the next one last
    while left:
        item = left.pop()
        if isinstance(item, str):
            parts.append(item)
            continue
        parts.append(item.text or "")
        for child in reversed(item):
            left.append(child.tail or "")
            if child.tag not in _CODE_ELEMENTS:
                left.append(child)
    return "".join(parts)


def named_rows(path: Path, columns: Sequence[Sequence[str]]) -> Iterator[tuple[int, list[str]]]:
    """Rows of a CSV file with a header, or the objects of a JSONL file, with the numbers of their lines (from 1).

    What separates the columns of CSV is told by its header: the one of `,`, `;` and tab that it has most of.

    Args:
        path: `.csv` or `.jsonl`, also with `.gz`.
        columns: for each column that is wanted, the names that it may have; the first that the file has counts.

    Yields:
        The values of these columns as texts.

    Raises:
        InputError: a column is not there (says which are), a row is no row of the file; names file and line.
    """
    rows = _csv_rows(path) if path.name.removesuffix(".gz").endswith(".csv") else json_rows(path)
    names: list[str] = []
    for number, row in rows:
        if not names:
            names = [_column(path, row, candidates) for candidates in columns]
        values = [row.get(name) for name in names]
        for name, value in zip(names, values, strict=True):
            if not isinstance(value, str | int | float) or isinstance(value, bool):
                raise FileError(f"{path}:{number}: no text in column {name!r}")
        yield number, [str(value) for value in values]


def _column(path: Path, row: dict[str, Any], candidates: Sequence[str]) -> str:
    for name in candidates:
        if name in row:
            return name
    wanted = " or ".join(map(repr, candidates))
    there = ", ".join(list(row)[:12])
    raise InputError(f"{path}:1: no column {wanted} (there: {there}); name the columns with --columns")


def csv_delimiter(path: Path) -> str:
    """What separates the columns of a CSV file, by its first line.

    Spreadsheets write `;` where the comma is the decimal sign.
    """
    header = next(iter_lines(path), "")
    return max(",;\t", key=header.count)


def _csv_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    lines = (f"{line}\n" for line in iter_lines(path))
    reader = csv.reader(lines, strict=True, delimiter=csv_delimiter(path))
    header: list[str] = []
    while True:
        first_line = reader.line_num + 1
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise FileError(f"{path}:{first_line}: not CSV ({error})") from None
        if fields is None:
            return
        if not header:
            header = fields
            if len(set(header)) < len(header):
                raise FileError(f"{path}:1: two columns have one name")
        elif fields:  # a blank line is no row
            if len(fields) != len(header):
                raise FileError(f"{path}:{first_line}: {len(fields)} columns, the header has {len(header)}")
            yield first_line, dict(zip(header, fields, strict=True))


def json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a JSONL file with the numbers of their lines. Raises InputError; names file and line."""
    for number, line in enumerate(iter_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = msgspec.json.decode(line.encode("utf-8", "surrogatepass"))
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            raise FileError(f"{path}:{number}: not JSON ({error})") from None
        if not isinstance(row, dict):
            raise FileError(f"{path}:{number}: no JSON object")
        yield number, row
