"""The languages that encoders were made for, by whose list it is: `languages.toml`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from harness.core.schema import read_toml

_FILE = Path(__file__).with_name("languages.toml")


@cache
def languages_of(name: str) -> tuple[str, ...]:
    """The languages of a list (`xlmr`), ISO 639 codes in alphabetical order. Raises KeyError if there is none."""
    listed: str = read_toml(_FILE)[name]
    return tuple(listed.split())
