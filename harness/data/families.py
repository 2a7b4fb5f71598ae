"""Families of languages, so that many languages can be shown in groups."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from harness.core.errors import InputError
from harness.core.text import read_lines
from harness.data.languages import standard_language

_FILE = Path(__file__).with_name("language_families.tsv")


def family(code: str) -> str:
    """The family of a language (`Slavic` of `ru` and `rus`), by Unicode CLDR; empty: not known, or the only one of it.

    code: of ISO 639, or any other, which has no family.
    """
    try:
        return _families().get(standard_language(code), "")
    except InputError:
        return ""


@cache
def _families() -> dict[str, str]:
    lines = [line.split("\t") for line in read_lines(_FILE) if not line.startswith("#")]
    return {code: name for name, codes in lines for code in codes.split()}
