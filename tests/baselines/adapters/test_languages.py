"""The languages that encoders were made for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from distill.static import STUDENT
from harness.data.languages import standard_language
from harness.encoders.made_for import declared_languages
from harness.encoders.registry import encoder_info, encoder_names
from harness.protocol.languages import made_for

OURS = [name for name in encoder_names() if not name.startswith(("python", "mteb", "tfhub", "static", "compact"))]


@pytest.mark.parametrize(
    ("name", "number"),
    [("labse", 109), ("laser", 93), ("paraphrase-multilingual-mpnet", 50), ("distiluse", 13), ("minilm", 1)],
)
def test_there_are_as_many_as_their_authors_say(name: str, number: int) -> None:
    languages = made_for(name)
    assert languages is not None and len(set(languages)) == len(languages) == number


def test_a_file_names_encoders_that_there_are_and_the_registry_reads_it() -> None:
    for declared in (declared_languages("muse"), declared_languages("student")):
        assert declared and not declared.keys() - set(encoder_names())
    assert made_for("muse") == encoder_info("muse").languages == made_for("muse?truncate_dim=256&quantize=int8")
    assert encoder_info("potion-multilingual").languages is None


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
