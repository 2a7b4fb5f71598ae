"""`leaderboard rows`: which per-item rows are kept, and packing them into a file that can be committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import say
from harness.cli.options import ResultsOption, filter_option, format_option, results_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.report.cells import Table
    from harness.statistics.rows import Kept


def rows(
    results: ResultsOption = None,
    encoder: Annotated[list[str] | None, filter_option("encoder")] = None,
    pack: Annotated[bool, typer.Option("--pack", help="Write RESULTS/records/ENCODER/rows.zip first.")] = False,
    format: Annotated[str, format_option("an entry an encoder")] = "table",
) -> None:
    """Show and pack the stored rows. These are per item, and what tests are made from.

    A run keeps a file for each set below RESULTS/rows/. --pack puts all rows of an encoder that are there into one
    small file beside its records. It can be committed with them: intervals and tests, `compare` and `best` read
    it where the files in RESULTS/rows/ are absent. What is packed already and not in RESULTS/rows/ stays in it.

    Exit code 3: some rows are not those of the stored results, and were left out.

    Example: leaderboard rows --pack --results scores
    """
    from harness.report.render import ENTRY_FORMATS, render, render_long
    from harness.results.selection import select, stored
    from harness.results.store import ResultStore
    from harness.statistics.rows import kept_rows, pack_rows

    store = ResultStore(results_folder(results))
    chosen, _ = select(stored(store), encoder=encoder or ())
    names = sorted({record.encoder for record in chosen})
    failures = []
    if pack:
        kept = {name: kept_rows(store, name) for name in names}
        having = [name for name, one in kept.items() if len(one.missing) < one.n_sets]
        # Encoders that are named must have rows; of all that are stored, some may have none.
        for name in names if encoder else having or names[:1]:
            failures += pack_rows(store, name)
    for line in failures[:5]:
        say(f"warning: {line}")
    if len(failures) > 5:
        say(f"warning: {len(failures) - 5} more were left out")
    kept = {name: kept_rows(store, name) for name in names}
    if format in ENTRY_FORMATS:
        entries = [
            {
                "encoder": name,
                "sets": one.n_sets,
                "loose": one.n_loose,
                "loose_bytes": one.loose_bytes,
                "packed": one.n_packed,
                "packed_bytes": one.packed_bytes,
                "missing": len(one.missing),
            }
            for name, one in kept.items()
        ]
        typer.echo(render_long(entries, format))
    else:
        typer.echo(render(_table(kept), format))
    if failures:
        raise typer.Exit(3)


def _table(kept: Mapping[str, Kept]) -> Table:
    from harness.report.cells import Cell, Column, Note, Row, Table

    heads = ("sets", "in rows/", "rows/ KB", "in rows.zip", "rows.zip KB", "no rows")
    lines = []
    for name, one in kept.items():
        sizes = [Cell(size / 1000 or None, "score") for size in (one.loose_bytes, one.packed_bytes)]
        counts = [Cell(n, "count") for n in (one.n_sets, one.n_loose, one.n_packed, len(one.missing))]
        lines.append(Row((Cell(name), counts[0], counts[1], sizes[0], counts[2], sizes[1], counts[3])))
    notes = [
        Note("sets: stored results without averages; KB are 1,000 bytes"),
        Note("packed: ", "leaderboard rows --pack", " writes RESULTS/records/ENCODER/rows.zip"),
    ]
    if any(one.missing for one in kept.values()):
        notes.append(Note("no rows: ", "leaderboard run --save-rows --encoder SPEC", " measures them again"))
    return Table("Per-item rows", (Column("encoder", is_number=False), *map(Column, heads)), tuple(lines), tuple(notes))
