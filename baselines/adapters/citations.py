"""What is to be cited for the encoders: BibTeX entries of `encoders.bib`, or of the harness's own, by their keys."""

from __future__ import annotations

from pathlib import Path

from harness.core.bibtex import read_entries
from harness.data.citations import references

_FILE = Path(__file__).with_name("encoders.bib")


def cited(*keys: str) -> tuple[str, ...]:
    """The entries with these keys. Raises KeyError if there is none."""
    known = {**references(), **read_entries(_FILE)}
    return tuple(known[key] for key in keys)
