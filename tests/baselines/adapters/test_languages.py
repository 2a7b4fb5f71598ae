"""The languages that encoders were made for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from baselines.adapters.languages import languages_of
from distill.static import STUDENT
from harness.data.languages import standard_language
from harness.encoders.registry import encoder_info, encoder_names

OURS = [name for name in encoder_names() if not name.startswith(("python", "mteb", "tfhub", "static", "compact"))]


@pytest.mark.parametrize(("name", "number"), [("labse", 109), ("laser", 93), ("paraphrases", 50), ("distiluse", 13)])
def test_there_are_as_many_as_their_authors_say(name: str, number: int) -> None:
    assert len(set(languages_of(name))) == len(languages_of(name)) == number


@pytest.mark.parametrize("name", OURS)
def test_codes_are_those_of_languages(name: str) -> None:
    languages = encoder_info(name).languages or ()
    assert list(languages) == sorted(set(languages))
    for code in languages:
        standard_language(code)


def test_those_of_the_shipped_student_are_those_of_its_card() -> None:
    card = Path(STUDENT, "README.md").read_text("utf-8").split("---")[1]
    (listed,) = re.findall(r"^language: \[(.*)\]$", card, re.MULTILINE)
    assert encoder_info("student").languages == tuple(re.findall(r'"(\w+)"', listed))
