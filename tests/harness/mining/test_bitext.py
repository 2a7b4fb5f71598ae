"""Files of one's own text, and writing pairs so that every reader gets them back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.mining.bitext import language_of, n_best


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
