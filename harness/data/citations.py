"""What is to be cited for the tasks and the data sets: BibTeX entries of `references.bib` by their keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.core.bibtex import read_entries

_FILE = Path(__file__).with_name("references.bib")


def references() -> Mapping[str, str]:
    """All entries by key."""
    return read_entries(_FILE)


def cited(*keys: str) -> tuple[str, ...]:
    """The entries with these keys. Raises KeyError if there is none."""
    return tuple(references()[key] for key in keys)
