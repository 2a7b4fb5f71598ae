"""Natural language inference (NLI): SNLI, MultiNLI, AllNLI and KorNLI as they are published, plain or `.gz`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from harness.core.errors import InputError
from harness.core.schema import decoded
from harness.core.text import REMEDY, iter_lines, tab_rows

NLI_LABELS = ("contradiction", "entailment", "neutral")
"""The classes, in the order of their numbers."""

_NO_LABEL = "-"  # the annotators did not agree


class _Row(TypedDict):
    """What is read of a line of JSON."""

    gold_label: str
    sentence1: str
    sentence2: str


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
            raise InputError(
                f"{path}:{number}: label {label!r}, expected {', '.join(NLI_LABELS)} or {_NO_LABEL}; {REMEDY}"
            )
        pairs.sentences1.append(sentence1)
        pairs.sentences2.append(sentence2)
        pairs.labels.append(NLI_LABELS.index(label))
    if not pairs.labels:
        raise InputError(f"{path}: no labelled pairs in it; {REMEDY}")
    return NLIPairs(pairs.sentences1, pairs.sentences2, pairs.labels, unlabelled)


def _nli_rows(path: Path) -> Iterator[tuple[int, str, str, str]]:
    """Line, label, premise and hypothesis of a tab-separated file with a header."""
    header = next(iter_lines(path), "").split("\t")
    label = "gold_label" if "gold_label" in header else "label"
    absent = [name for name in (label, "sentence1", "sentence2") if name not in header]
    if absent:
        raise InputError(
            f"{path}:1: no column {absent[0]}: expected a header with sentence1, sentence2 and gold_label or label, "
            f"separated by tabs; {REMEDY}"
        )
    wanted = [header.index(name) for name in (label, "sentence1", "sentence2")]
    split = header.index("split") if "split" in header else None
    # The originals leave off empty columns at the end of a line.
    for number, fields in tab_rows(path, max(wanted) + 1, len(header), skip=1):
        if split is None or fields[split] == "train":
            yield number, fields[wanted[0]], fields[wanted[1]], fields[wanted[2]]


def _json_rows(path: Path) -> Iterator[tuple[int, str, str, str]]:
    """Line, label, premise and hypothesis of a file of JSON lines."""
    for number, line in enumerate(iter_lines(path), start=1):
        try:
            row = decoded(line.encode(), _Row)
        except ValueError as error:
            raise InputError(
                f"{path}:{number}: not a JSON object with gold_label, sentence1 and sentence2 ({error}); {REMEDY}"
            ) from None
        yield number, row["gold_label"], row["sentence1"], row["sentence2"]
