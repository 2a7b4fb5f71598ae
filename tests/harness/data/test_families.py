"""Families of languages."""

from __future__ import annotations

import pytest

from harness.data.families import family
from harness.data.tatoeba import languages


@pytest.mark.parametrize(
    ("code", "name"),
    [
        *(
            ("ru", "Slavic"),
            ("rus", "Slavic"),
            ("deu", "Germanic"),
            ("fr", "Italic"),
            ("tur", "Turkic"),
            ("cmn", "Chinese"),
        ),
        *(
            ("arz", "Semitic"),
            ("kab", "Berber"),
            ("fi", "Uralic"),
            ("eo", "Artificial"),
            ("swh", "Bantu"),
            ("hy", "Indo-European"),
        ),
        *(("ko", ""), ("xx", ""), ("", ""), ("my own", "")),
    ],
)
def test_known_families(code: str, name: str) -> None:
    assert family(code) == name


def test_all_languages_of_tatoeba_but_korean_have_one() -> None:
    assert [code for code, language in languages().items() if not family(language.lang)] == ["kor"]
