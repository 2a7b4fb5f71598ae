from __future__ import annotations

from collections import Counter

import pytest

from harness.speed.store import Length
from harness.speed.texts import SENTENCES, digest, taken, texts


@pytest.mark.parametrize("length", SENTENCES)
def test_texts_are_of_ten_languages_in_equal_parts_and_all_different(length: Length) -> None:
    made = texts(length)
    assert len(made) == len(set(made)) == 1200
    assert set(Counter(text.lang for text in made).values()) == {120}
    assert all(text.text == text.text.strip() and text.text for text in made)
    for start in range(0, 1200, 10):  # any ten in a row
        assert len({text.lang for text in made[start : start + 10]}) == 10


def test_the_first_texts_are_as_long_as_all() -> None:
    for length in SENTENCES:
        mean = sum(len(text.text) for text in texts(length)) / 1200
        for n in (100, 200, 500):
            assert sum(len(text.text) for text in taken(length, n)) / n == pytest.approx(mean, rel=0.1)


def test_a_medium_text_is_two_sentences_and_a_long_one_ten() -> None:
    short, medium, long = (texts(length) for length in SENTENCES)
    sentences = {text.lang: [] for text in short}
    for text in short:
        sentences[text.lang].append(text.text)
    for row in (0, 3, 777, 1199):
        lang = short[row].lang
        first = sentences[lang].index(short[row].text)
        following = (sentences[lang] * 2)[first : first + 10]
        assert (medium[row].text, medium[row].lang) == (" ".join(following[:2]), lang)
        assert long[row].text == " ".join(following)


def test_more_texts_than_there_are_begin_again() -> None:
    assert taken("short", 1201) == [*texts("short"), texts("short")[0]]


def test_the_texts_are_pinned() -> None:
    """Whoever changes the sample, or the rules, makes all stored speeds incomparable."""
    assert digest() == "08c898335874be04"
