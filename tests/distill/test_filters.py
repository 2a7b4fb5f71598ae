from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distill.pairs import _WIDE, REASONS, Filters
from harness.core.errors import InputError
from harness.tasks.leakage import EvaluationSentences

NONE = EvaluationSentences([])


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("A dog runs.", "Ein Hund rennt.", None),
        ("", "Ein Hund rennt.", "empty"),
        ("A dog runs.", "", "empty"),
        ("Hi.", "Guten Tag, Frau!", None),
        ("Hi.", "Guten Tag, liebe Frau Müller, wie geht's?", "ratio"),
        ("x" * 250, "y" * 250, None),
        ("x" * 251, "y" * 250, "long"),
        ("x" * 250, "y" * 251, "long"),
        ("Firefox", "FIREFOX", "identical"),
        ("Straße", "STRASSE", "identical"),
        ("Firefox!", "Firefox", None),
        # 14 wide characters are 28 columns.
        (
            "It has not been decided yet whether he will come to the party tonight or whether he stays at home.",
            "他今晚是否来参加聚会还是待在家",
            None,
        ),
    ],
)
def test_reasons(source: str, target: str, reason: str | None) -> None:
    assert Filters().reason_to_drop(source, target, NONE) == reason
    assert reason is None or reason in REASONS


@pytest.mark.parametrize(
    "planted",
    [
        "A man is playing a guitar.",
        "a MAN is playing a guitar",
        "“A man—is playing a guitar!”",
        "Ａ ｍａｎ is playing a guitar。",
        "A man is  playing a\u00a0guitar…",
        "Aman isplayinga guitar",
    ],
)
def test_guard_finds_planted_sentences(planted: str, guard: EvaluationSentences) -> None:
    filters = Filters()
    assert filters.reason_to_drop(planted, "Ein Mann spielt auf einer Gitarre.", guard) == "leakage"
    assert filters.reason_to_drop("A man plays.", "ein mann spielt GITARRE", guard) == "leakage"
    assert filters.reason_to_drop("A man is playing guitars.", "Ein Mann spielt Gitarren.", guard) is None


def test_switches(guard: EvaluationSentences) -> None:
    assert Filters(drop_identical=False).reason_to_drop("Firefox", "Firefox", NONE) is None
    assert Filters(max_characters=3).reason_to_drop("abcd", "ab", NONE) == "long"
    assert Filters(max_ratio=1).reason_to_drop("x" * 30, "y" * 14, NONE) == "ratio"
    assert Filters(max_ratio=1).reason_to_drop("x" * 30, "y" * 15, NONE) is None
    for wrong in ({"max_characters": 0}, {"max_ratio": 0.5}, {"max_ratio": float("nan")}):
        with pytest.raises(InputError, match="must be at least 1"):
            Filters(**wrong)  # type: ignore[arg-type]


@given(st.text(st.sampled_from("a1 é語ア한。，Ａ①ｱ\U00020000"), max_size=30))
def test_width_is_that_of_unicode(text: str) -> None:
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    assert len(_WIDE.findall(text)) == wide
