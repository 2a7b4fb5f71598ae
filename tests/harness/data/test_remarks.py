"""What is said of pairs whose scores would mislead: repeats and headers."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.data.own import OwnPairs
from harness.data.remarks import pair_remarks
from harness.tasks import get_task

LETTERS = st.sampled_from("abcd")


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(LETTERS, LETTERS), min_size=1, max_size=12), st.integers(0, 99))
def test_no_encoder_is_above_the_bound_that_is_named(drawn: list[tuple[str, str]], seed: int) -> None:
    sources, targets = ([pair[side] + "x" for pair in drawn] for side in (0, 1))
    vectors = {text: np.random.default_rng([seed, ord(text[0])]).normal(size=3) for text in (*sources, *targets)}
    pairs = OwnPairs(sources, targets, ("de", "tr"))
    task = get_task("pairs")
    scores = task.aggregate(task.rows(pairs, lambda texts, lang: np.array([vectors[t] for t in texts], np.float32)))
    found = pair_remarks(pairs)
    has_repeats = any(text in side[:i] for side in (sources, targets) for i, text in enumerate(side))
    assert len(found) == has_repeats
    for text in found:
        bound = float(re.findall(r"at most ([\d.]+); remove repeats", text)[0])
        assert max(scores["accuracy_src_trg"], scores["accuracy_trg_src"]) <= bound + 0.05


def test_the_bound_is_reached_where_only_one_side_repeats() -> None:
    pairs = OwnPairs(["a", "b", "c", "d"], ["p", "q", "p", "q"], ("de", "tr"))
    (text,) = pair_remarks(pairs)
    assert text.startswith("4 pairs, but 4 different source and 2 different target sentences")
    assert "accuracy is at most 50.0" in text
    axis = {"a": 0, "b": 1, "c": 2, "d": 3, "p": 0, "q": 1}
    task = get_task("pairs")
    rows = task.rows(pairs, lambda texts, lang: np.eye(4, dtype=np.float32)[[axis[text] for text in texts]])
    assert task.aggregate(rows)["accuracy_src_trg"] == 50


def test_a_bound_that_is_printed_as_100_is_left_out() -> None:
    sources = [f"s{n}" for n in range(3_000)]
    (text,) = pair_remarks(OwnPairs([*sources, "s0"], [f"t{n}" for n in range(3_001)], ("de", "tr")))
    assert text.startswith("3,001 pairs, but 3,000 different source and 3,001 different target sentences")
    assert text.endswith("at most one counts as found; remove repeats")


@pytest.mark.parametrize(
    ("first", "is_header"),
    [
        (("English", "German"), True),
        (("german ", "ENGLISH"), True),
        (("en", "Target"), True),
        (("Hello", "Hallo"), False),
        (("German", "Deutsch"), False),
        (("Text", "Text"), False),
        (("Turkish", "German"), False),  # no language of this set
    ],
)
def test_a_first_pair_that_looks_like_a_header(first: tuple[str, str], is_header: bool) -> None:
    pairs = OwnPairs([first[0], "one"], [first[1], "eins"], ("en", "de"))
    assert [text.startswith("the first pair (") for text in pair_remarks(pairs)] == [True] * is_header
