"""Entries, one per number, as CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from harness.core import escaping


def csv_text(entries: Sequence[Mapping[str, object]]) -> str:
    """CSV with a header; no newline at the end."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(entries[0]) if entries else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _value(value) for key, value in entry.items()} for entry in entries)
    return stream.getvalue().removesuffix("\n")


def _value(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return escaping.spreadsheet(value) if isinstance(value, str) else value


def json_text(entries: Sequence[Mapping[str, object]]) -> str:
    """A JSON array of objects."""
    return escaping.json_text(list(entries), indent=2)
