"""Files of one's own text, and writing pairs so that every reader gets them back."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.mining.bitext import language_of, n_best, to_tsv


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("news.de", "de"),
        ("news.2024.ceb.gz", "ceb"),
        ("news.de.xz", "de"),
        ("news.de.zst", "de"),
        ("news.txt", None),
        ("news.DE", None),
        ("news.gz", None),
        ("news", None),
        (".de", None),
        ("de", None),
        ("news.de.tsv2", None),
    ],
)
def test_language_of_a_file(name: str, language: str | None) -> None:
    assert language_of([Path("some.fr") / name]) == language


def test_files_of_several_languages_have_none() -> None:
    assert language_of([Path("a.de"), Path("b.de.gz")]) == "de"
    assert language_of([Path("a.de"), Path("b.en")]) is None


def test_how_many_pairs_are_kept() -> None:
    scores = np.array([1.5, 1.25, 1.25, 0.5])
    assert [n_best(scores), n_best(scores, top=2), n_best(scores, top=9)] == [4, 2, 4]
    assert [n_best(scores, threshold=value) for value in (2.0, 1.25, 1.2500001, -1.0)] == [0, 3, 1, 4]
    assert n_best(scores[:0], threshold=0.0) == 0


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5),
    st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), min_size=1),
)
def test_every_reader_gets_the_pairs_back(scores: list[float], sentence: str) -> None:
    assume(sys.version_info >= (3, 11) or "\0" not in sentence)  # which csv of 3.10 refuses to read
    pairs = np.array([[i, 0] for i in range(len(scores))], np.int64).reshape(-1, 2)
    sources = [f"{sentence} {i}" for i in range(len(scores))]
    text = b"".join(to_tsv(pairs, np.array(scores), sources, [sentence])).decode()
    expected = [(score, source, sentence) for score, source in zip(scores, sources, strict=True)]

    def parsed(rows: list[list[str]]) -> list[tuple[float, str, str]]:
        return [(float(score), source, target) for score, source, target in rows]

    assert parsed([line.split("\t") for line in text.splitlines()]) == expected
    assert parsed([line.rstrip("\n").split("\t") for line in io.StringIO(text, newline=None)]) == expected
    assert parsed(list(csv.reader(io.StringIO(text, newline=""), delimiter="\t", quoting=csv.QUOTE_NONE))) == expected
