"""Filters against pairs of which a person knows what should become of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import InputError
from harness.mining.filters import Filter, Filters, closing_mark, filtered, length_ratio, numbers, word_overlap


@pytest.mark.parametrize(
    ("x", "y", "is_same"),
    [
        ("1,000.50 dollars", "1.000,50 Dollar", True),
        ("1 000 Euro", "1\u00a0000 Euro", True),
        ("4 000 000,5 km", "4,000,000.5 km", True),
        ("in 2019 100 people", "2019: 100", True),  # no group of three before the blank
        ("5 12", "512", False),
        ("10.5 %", "105 %", False),
        ("10.5 %", "10,5 %", True),
        ("0.25", "0,25", True),
        ("٠٫٥", "0.5", True),
        ("1.2.3", "123", False),
        ("1\u202f000 Euro", "1,000 euros", True),
        ("in 2019 and 2020", "2020 und 2019", True),
        ("in 2019", "2020", False),
        ("at 10:30", "um 10.30 Uhr", False),
        ("٢٠١٩", "2019", True),
        ("२ किलो", "2 kg", True),
        ("007", "7", True),
        ("none", "keine", True),
        ("2 and 2", "2", False),
        ("H2O", "H2O", True),
        ("x²", "x", True),  # no decimal digit
    ],
)
def test_numbers(x: str, y: str, is_same: bool) -> None:
    assert (numbers(x) == numbers(y)) is is_same


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        *(("Why?", "question"), ("为什么？", "question"), ("لماذا؟", "question"), ("He said “why?”", "question")),
        *(("What?!", "question"), ("Go!", "exclamation"), ("As follows:", "colon"), ("¿Por qué?", "question")),
        *(("A sentence.", ""), ("没有。", ""), ("No mark", ""), ("", ""), ("?", "question"), ("Is it? No.", "")),
    ],
)
def test_closing_mark(text: str, mark: str) -> None:
    assert closing_mark(text) == mark


def test_a_semicolon_is_a_question_in_greek_alone() -> None:
    assert closing_mark("Wait;") == closing_mark("Wait;", "en") == ""
    assert closing_mark("Γιατί;", "el") == closing_mark("Γιατί\u037e") == "question"
    (only,) = Filters(punctuation=True).open(("el", "en"))
    assert only.keep("Γιατί;", "Why?") and not only.keep("Γιατί;", "Why;")


def test_overlap_by_hand() -> None:
    assert word_overlap("The cat sat", "the CAT") == 1.0
    assert word_overlap("The cat sat there", "the dog sat down") == 0.5
    assert word_overlap("ein Satz", "a sentence") == 0.0
    assert word_overlap("12:30", "12:30") == 1.0  # equal without words
    assert word_overlap("12:30", "13:30") == 0.0
    assert word_overlap("the the the", "the end of it") == pytest.approx(1 / 3)
    assert word_overlap("今天天气很好。", "今天天气很好。") == 1.0


@given(st.text(), st.text())
def test_filters_do_not_tell_sides_apart(x: str, y: str) -> None:
    assert length_ratio(x, y) == length_ratio(y, x) >= 1
    assert word_overlap(x, y) == word_overlap(y, x)
    assert 0 <= word_overlap(x, y) <= 1
    assert word_overlap(x, x) == 1
    assert length_ratio(x, x) == (1 if x.strip() else float("inf"))


def test_a_pair_counts_for_the_first_filter_and_top_counts_what_is_kept() -> None:
    source, target = ["a", "bb", "ccc", "dddd"], ["wwww", "xx", "yyy", "zzzz"]
    rows = np.array([[0, 0], [1, 1], [2, 2], [3, 3]])
    filters = [Filter("short", lambda x, y: len(x) > 1), Filter("no b", lambda x, y: "b" not in x + y)]
    kept, left_out = filtered(rows, source, target, filters)
    assert (kept.tolist(), left_out) == ([2, 3], {"short": 1, "no b": 1})
    kept, left_out = filtered(rows, source, target, filters, top=1)
    assert (kept.tolist(), left_out) == ([2], {"short": 1, "no b": 1})
    kept, left_out = filtered(rows[:0], source, target, filters)
    assert (kept.tolist(), dict(left_out)) == ([], {"short": 0, "no b": 0})


def test_only_what_is_asked_for() -> None:
    assert Filters().open((None, None)) == []
    every = Filters(2.0, 0.5, numbers=True, punctuation=True).open((None, None))
    assert [each.name for each in every] == ["length ratio", "punctuation", "numbers", "overlap"]
    for wrong in (Filters(0.5), Filters(float("nan")), Filters(max_overlap=1.5), Filters(max_overlap=-0.1)):
        with pytest.raises(InputError):
            wrong.open((None, None))


def test_languages() -> None:
    pytest.importorskip("py3langid.modelio")
    (only,) = Filters(languages=True).open(("de", "en"))
    german, english = "Die Katze sitzt auf der Matte und schläft.", "The cat sits on the mat and sleeps."
    assert only.keep(german, english)
    assert not only.keep(english, english)
    assert not only.keep(german, german)
    assert only.keep("1386", "12:30")  # nobody can tell
    for langs in ((None, "en"), ("de", "xxx")):
        with pytest.raises(InputError, match="--check-languages"):
            Filters(languages=True).open(langs)
