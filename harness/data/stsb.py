"""The STS Benchmark and its translations, KorSTS (Ham et al. 2020) among them, in their published formats.

One row is a pair of sentences with a score. Every file may be plain or `.gz`. The readers are generators: their
errors are raised while they are read.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.core.errors import InputError
from harness.data.sources import DataDir, Source
from harness.data.sts17 import STSPairs
from harness.data.text import REMEDY, iter_lines, parse_number, tab_rows

_ORIGINAL = ("genre", "filename", "year", "id", "score", "sentence1", "sentence2")
_MULTI_MT = ("sentence1", "sentence2", "score")
_KORSTS, _KORSTS_FILE = "korsts", "sts-test.tsv"
KORSTS_SUBSETS = ("ko-ko",)


class ScoredRow(NamedTuple):
    """A sentence pair with its score, from 0 (unrelated) to 5 (same meaning).

    `origin` is the STS task's file that it was taken from (`track5.en-en`); None where the file has no such column.
    """

    sentence1: str
    sentence2: str
    score: float
    origin: str | None


def read_scored(path: Path) -> Iterator[ScoredRow]:
    """Read a file in any of the three formats, which its first line tells.

    Raises:
        InputError: as the three readers below.
    """
    first = next(iter_lines(path), "").split("\t")
    if set(_MULTI_MT) <= set(first):
        return read_korsts(path)
    return read_original(path) if len(first) >= len(_ORIGINAL) else read_multi_mt(path)


def read_original(path: Path) -> Iterator[ScoredRow]:
    """Read the English original: tab-separated without header or quoting, seven columns and perhaps more.

    Raises:
        InputError: a line with too few columns, a score that is not a number from 0 to 5, no pairs at all; names file
            and line.
    """
    return _scored(path, tab_rows(path, len(_ORIGINAL), None), _ORIGINAL)


def read_korsts(path: Path) -> Iterator[ScoredRow]:
    """Read KorSTS: tab-separated without quoting, with a header that names `score`, `sentence1` and `sentence2`.

    Raises:
        InputError: no such header, a line with too few or too many columns, a score that is not a number from 0 to 5,
            no pairs at all; names file and line.
    """
    header = next(iter_lines(path), "").split("\t")
    if absent := [name for name in _MULTI_MT if name not in header]:
        raise InputError(
            f"{path}:1: no column {absent[0]}: expected a header with {', '.join(_MULTI_MT)}, separated by tabs; "
            f"{REMEDY}"
        )
    yield from _scored(path, tab_rows(path, len(header), len(header), skip=1), header)


def read_multi_mt(path: Path) -> Iterator[ScoredRow]:
    """Read STSb Multi MT: comma-separated sentence1, sentence2 and score, with quoting and without header.

    Raises:
        InputError: not comma-separated values, a row with too few or too many, a score that is not a number from 0 to
            5, no pairs at all; names file and line.
    """
    return _scored(path, _comma_rows(path), _MULTI_MT)


def _comma_rows(path: Path) -> Iterator[tuple[int, Sequence[str]]]:
    """Rows with the number of the line that each begins at."""
    rows = csv.reader(iter_lines(path), strict=True)
    number = 1
    try:
        for fields in rows:
            if len(fields) != len(_MULTI_MT):
                raise InputError(
                    f"{path}:{number}: {len(fields)} columns, expected {len(_MULTI_MT)} ({','.join(_MULTI_MT)}); "
                    f"{REMEDY}"
                )
            yield number, fields
            number = rows.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}:{number}: not comma-separated values ({error}); {REMEDY}") from None


def _scored(path: Path, rows: Iterable[tuple[int, Sequence[str]]], columns: Sequence[str]) -> Iterator[ScoredRow]:
    sentence1, sentence2, score = (columns.index(name) for name in _MULTI_MT)
    origin = columns.index("filename") if "filename" in columns else None
    number = 0
    for number, fields in rows:
        value = parse_number(fields[score], path, number, low=0, high=5)
        yield ScoredRow(fields[sentence1], fields[sentence2], value, None if origin is None else fields[origin])
    if not number:
        raise InputError(f"{path}: no sentence pairs in it; {REMEDY}")


def korsts_sources(data: DataDir) -> dict[str, Source]:
    """The test split as `ko-ko`, not yet read, if it is in `data`: `korsts/sts-test.tsv`.

    A user's own `korsts-TAG/` gives `ko-ko@TAG`; the subset of the bundled sample is tagged `@sample`.

    Raises:
        InputError: a folder with a bad tag.
    """
    sources: dict[str, Source] = {}
    folders = [(data.stand_in, _KORSTS), *data.stand_ins(_KORSTS).items()]
    for tag, folder in folders:
        subset = f"ko-ko@{tag}" if tag else "ko-ko"
        if path := data.find(f"{folder}/{_KORSTS_FILE}"):
            sources[subset] = Source(subset, folder, (path,))
    return sources


def load_korsts(source: Source) -> STSPairs:
    """Read the test split.

    Raises:
        InputError: as `read_korsts`.
    """
    import numpy as np

    rows = list(read_korsts(source.files[0]))
    return STSPairs(
        source.subset,
        [row.sentence1 for row in rows],
        [row.sentence2 for row in rows],
        "ko",
        "ko",
        np.array([row.score for row in rows], dtype=np.float64),
    )
