"""BibTeX entries as texts: taken out of a file, or of what another package offers, by their keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

_START = re.compile(r"""@\w+\s*\{\s*([^\s,{}()"#%'=\\~@]+)\s*,""")


def entries(text: str) -> dict[str, str]:
    """The entries of a text by their keys, as they are written. What stands between entries is left out.

    Raises:
        ValueError: an `@` that begins no `@type{key, ...}`, one that does not end, or two of one key.
    """
    found: dict[str, str] = {}
    place = text.find("@")
    while place >= 0:
        start = _START.match(text, place)
        if start is None:
            raise ValueError(f"no BibTeX entry: {text[place : place + 40]!r}")
        if start[1] in found:
            raise ValueError(f"two BibTeX entries have the key {start[1]!r}")
        end = _end_of(text, start.end())
        found[start[1]] = text[place:end]
        place = text.find("@", end)
    return found


def _end_of(text: str, place: int) -> int:
    """Behind the brace that ends the entry. BibTeX counts every brace, those behind a backslash too."""
    depth = 1
    for brace in re.finditer(r"[{}]", text[place:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return place + brace.end()
    raise ValueError(f"no BibTeX entry, it does not end: {text[place : place + 40]!r}")


@cache
def read_entries(file: Path) -> Mapping[str, str]:
    """The entries of a file of ours. Raises ValueError as `entries`."""
    return MappingProxyType(entries(file.read_text(encoding="utf-8")))
