"""Reading sentence pairs with labels: natural language inference (NLI) and semantic textual similarity (STS).

Every file may be plain or `.gz`. The format is told from the first line, columns by their names where there is a
header.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.data.text import iter_lines, parse_number
from harness.errors import InputError

NLI_LABELS = ("contradiction", "entailment", "neutral")
"""The classes, in the order of their numbers."""

_NO_LABEL = "-"  # the annotators did not agree
_ORIGINAL_COLUMNS = ("genre", "filename", "year", "id", "score", "sentence1", "sentence2")  # of the STS Benchmark


@dataclass(frozen=True)
class NLIPairs:
    """n pairs of premise and hypothesis.

    Attributes:
        sentences1, sentences2: premises and hypotheses.
        labels: numbers of `NLI_LABELS`.
        unlabelled: how many pairs were left out because they have no label.
    """

    sentences1: list[str]
    sentences2: list[str]
    labels: list[int]
    unlabelled: int = 0


@dataclass(frozen=True)
class ScoredPairs:
    """n sentence pairs with their STS scores.

    Attributes:
        sentences1, sentences2: the sentences.
        scores: from 0 (unrelated) to 5 (same meaning).
        origins: the STS task's file that each pair was taken from (`track5.en-en`); empty where the file tells none.
    """

    sentences1: list[str]
    sentences2: list[str]
    scores: list[float]
    origins: list[str]

    def without(self, rows: Collection[int]) -> ScoredPairs:
        """The pairs without those in `rows` (counted from 0)."""
        kept = [row for row in range(len(self.scores)) if row not in rows]
        return ScoredPairs(
            [self.sentences1[row] for row in kept],
            [self.sentences2[row] for row in kept],
            [self.scores[row] for row in kept],
            [self.origins[row] for row in kept] if self.origins else [],
        )


def joined(parts: Iterable[ScoredPairs]) -> ScoredPairs:
    """All the pairs in one, without their origins."""
    parts = list(parts)
    return ScoredPairs(
        [sentence for part in parts for sentence in part.sentences1],
        [sentence for part in parts for sentence in part.sentences2],
        [score for part in parts for score in part.scores],
        [],
    )


def read_nli(path: Path) -> NLIPairs:
    """Read NLI pairs; those whose gold label is `-` are left out.

    Formats: JSON lines (`.jsonl`) with `gold_label`, `sentence1` and `sentence2`, and tab-separated files whose header
    names these columns, in any order and among others. So SNLI, MultiNLI and KorNLI as they are published, and AllNLI
    (column `label`), of which the rows with `train` in column `split` are read. There is no quoting.

    Raises:
        InputError: another format, a line with too few or too many fields, an unknown label, no pairs at all; names
            file and line.
    """
    is_json = path.name.removesuffix(".gz").endswith(".jsonl")
    pairs = NLIPairs([], [], [])
    unlabelled = 0
    for number, label, sentence1, sentence2 in _json_rows(path) if is_json else _nli_rows(path):
        if label == _NO_LABEL:
            unlabelled += 1
            continue
        if label not in NLI_LABELS:
            raise InputError(f"{path}:{number}: label {label!r}, expected {', '.join(NLI_LABELS)} or {_NO_LABEL}")
        pairs.sentences1.append(sentence1)
        pairs.sentences2.append(sentence2)
        pairs.labels.append(NLI_LABELS.index(label))
    if not pairs.labels:
        raise InputError(f"{path}: no labelled pairs in it")
    return NLIPairs(pairs.sentences1, pairs.sentences2, pairs.labels, unlabelled)


def read_sts(path: Path) -> ScoredPairs:
    """Read STS pairs.

    Formats: the STS Benchmark's own (tab-separated without header or quoting: genre, file, year, id, score, sentence1,
    sentence2, and perhaps more), a tab-separated file whose header names `score`, `sentence1`, `sentence2` and
    perhaps `filename` (KorSTS), and comma-separated sentence1, sentence2, score with quoting and no header (STSb
    Multi MT).

    Raises:
        InputError: another format, a line with too few or too many fields, a score that is not a number from 0 to 5,
            no pairs at all; names file and line.
    """
    first = next(iter_lines(path), "").split("\t")
    if {"score", "sentence1", "sentence2"} <= set(first):
        rows, columns = _tab_rows(path, len(first), len(first), skip=1), first
    elif len(first) >= len(_ORIGINAL_COLUMNS):
        rows, columns = _tab_rows(path, len(_ORIGINAL_COLUMNS), None), list(_ORIGINAL_COLUMNS)
    else:
        rows, columns = _comma_rows(path, 3), ["sentence1", "sentence2", "score"]
    one, two, score = (columns.index(name) for name in ("sentence1", "sentence2", "score"))
    origin = columns.index("filename") if "filename" in columns else None
    pairs = ScoredPairs([], [], [], [])
    for number, fields in rows:
        pairs.scores.append(parse_number(fields[score], path, number, low=0, high=5))
        pairs.sentences1.append(fields[one])
        pairs.sentences2.append(fields[two])
        if origin is not None:
            pairs.origins.append(fields[origin])
    if not pairs.scores:
        raise InputError(f"{path}: no sentence pairs in it")
    return pairs


def _nli_rows(path: Path) -> Iterator[tuple[int, str, str, str]]:
    """Line, label, premise and hypothesis of a tab-separated file with a header."""
    header = next(iter_lines(path), "").split("\t")
    label = "gold_label" if "gold_label" in header else "label"
    absent = [name for name in (label, "sentence1", "sentence2") if name not in header]
    if absent:
        raise InputError(
            f"{path}:1: no column {absent[0]}: expected a header with sentence1, sentence2 and gold_label or label, "
            "separated by tabs"
        )
    wanted = [header.index(name) for name in (label, "sentence1", "sentence2")]
    split = header.index("split") if "split" in header else None
    # The originals leave off empty columns at the end of a line.
    for number, fields in _tab_rows(path, max(wanted) + 1, len(header), skip=1):
        if split is None or fields[split] == "train":
            yield number, fields[wanted[0]], fields[wanted[1]], fields[wanted[2]]


def _json_rows(path: Path) -> Iterator[tuple[int, str, str, str]]:
    """Line, label, premise and hypothesis of a file of JSON lines."""
    for number, line in enumerate(iter_lines(path), start=1):
        try:
            row = json.loads(line)
            label, sentence1, sentence2 = (row[name] for name in ("gold_label", "sentence1", "sentence2"))
            if not (isinstance(label, str) and isinstance(sentence1, str) and isinstance(sentence2, str)):
                raise TypeError("no text")
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"{path}:{number}: not a JSON object with gold_label, sentence1 and sentence2; fetch the file again"
            ) from None
        yield number, label, sentence1, sentence2


def _tab_rows(path: Path, least: int, most: int | None, *, skip: int = 0) -> Iterator[tuple[int, Sequence[str]]]:
    """Lines with their numbers, split at tabs; the first `skip` are left out."""
    for number, line in enumerate(iter_lines(path), start=1):
        if number <= skip:
            continue
        fields = line.split("\t")
        if len(fields) < least or (most is not None and len(fields) > most):
            expected = f"{least}" if most == least else f"{least} or more" if most is None else f"{least} to {most}"
            raise InputError(f"{path}:{number}: {len(fields)} columns, expected {expected}; fetch the file again")
        yield number, fields


def _comma_rows(path: Path, columns: int) -> Iterator[tuple[int, Sequence[str]]]:
    """Rows of a file of comma-separated values, with the number of the line that each begins at."""
    rows = csv.reader(iter_lines(path), strict=True)
    number = 1
    try:
        for fields in rows:
            if len(fields) != columns:
                raise InputError(
                    f"{path}:{number}: {len(fields)} columns, expected {columns} (sentence1,sentence2,score); "
                    "fetch the file again"
                )
            yield number, fields
            number = rows.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}:{number}: not comma-separated values ({error}); fetch the file again") from None
