"""The formats of reports.

A format is a function in a file of this folder and a line here; then every command with `--format` offers it. The
function takes a table, or entries (one per number, such as those of `harness.report.tables.long_form`), and returns
text without a newline at the end. Its module is imported only when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from harness.core.escaping import without_commands

if TYPE_CHECKING:
    from harness.report.cells import Table

TABLE_FORMATS = {"table": "terminal:plain_text", "md": "markdown:markdown", "latex": "latex:latex"}
ENTRY_FORMATS = {"csv": "long:csv_text", "json": "long:json_text"}
FORMATS = (*TABLE_FORMATS, *ENTRY_FORMATS)


def render(tables: Table | Sequence[Table], format: str = "table", *, width: int | None = None) -> str:
    """One table or several, with an empty line between them, in a format of `TABLE_FORMATS`.

    width: of plain text, in characters (default: that of the terminal).
    """
    function = _function(TABLE_FORMATS[format])
    options = {"width": width} if format == "table" else {}
    parts = [function(table, **options) for table in (tables if isinstance(tables, Sequence) else [tables])]
    return without_commands("\n\n".join(parts))


def render_long(entries: Sequence[Mapping[str, object]], format: str) -> str:
    """Entries with equal keys in a format of `ENTRY_FORMATS`."""
    return _function(ENTRY_FORMATS[format])(entries)


def _function(place: str) -> Callable[..., str]:
    module, _, name = place.partition(":")
    function: Callable[..., str] = getattr(import_module(f"harness.report.{module}"), name)
    return function
