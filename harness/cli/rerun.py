"""`leaderboard rerun`: repeat one stored record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import echo
from harness.cli.options import (
    BatchSizeOption,
    CacheDirOption,
    CachedOption,
    DataDirOption,
    DeviceOption,
    ResultsOption,
    results_folder,
)

if TYPE_CHECKING:
    from harness.results.records import Result


def rerun(
    record: Annotated[str, typer.Argument(metavar="ID", show_default=False, help="The record, ENCODER/TASK/SUBSET.")],
    results: ResultsOption = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            "--encoder", metavar="SPEC", show_default=False, help="Load this instead of the record's encoder."
        ),
    ] = None,
    cached: CachedOption = False,
    data_dir: DataDirOption = None,
    cache_dir: CacheDirOption = None,
    device: DeviceOption = None,
    batch_size: BatchSizeOption = None,
) -> None:
    """Repeat one stored measurement (of an average, all that it is the mean of) and report the difference.

    Prints old and new scores, then in what else the two differ: commit, versions, hardware, data, protocol. Exit code 1
    if a score is beyond the record's tolerance, or anything else that `leaderboard check` looks at has changed. Nothing
    is stored.
    """
    from harness.cli.progress import watch
    from harness.core.errors import InputError
    from harness.core.files import temporary_folder
    from harness.data import open_data_dir
    from harness.encoders.spec import parse_spec
    from harness.report.record import find_record
    from harness.reproduction.render import text as check_text
    from harness.reproduction.repeat import Options, compare_runs, measure_again
    from harness.results.records import ResultStore
    from harness.results.selection import stored

    results = results_folder(results)
    everything = stored(ResultStore(results))
    old = find_record(everything, record)
    if encoder and (name := parse_spec(encoder).stored_name) != old.encoder:
        raise InputError(f"{encoder} would be stored as {name!r}; add name={old.encoder} to repeat {record} with it")
    options = Options(
        data=open_data_dir(data_dir) if data_dir else None,
        cache_dir=cache_dir,
        use_cached=cached,
        specs={old.encoder: encoder} if encoder else {},
        trusted=frozenset([encoder] if encoder else []),
        must_load=frozenset([old.encoder]),
        defaults={"device": device, "batch_size": batch_size},
    )
    wanted = {old.key._replace(subset=name) for name in (old.subset, *old.parts)}
    chosen = [result for result in everything if result.key in wanted]
    with temporary_folder() as folder:
        with watch() as progress:
            fresh = measure_again(chosen, folder, options, progress)
        if absent := [fresh.skipped[r.key] for r in chosen if r.key in fresh.skipped]:
            raise InputError(f"{absent[0]}; give --data-dir or set HARNESS_DATA")
        checks = compare_runs(chosen, everything, results, folder, fresh)
    new = next((r for r in fresh.results if r.key == old.key), None)
    if new is not None:
        echo(_printed(old, new))
    if any(check.findings for check in checks):
        echo("\n" * (new is not None) + check_text(checks))
        raise typer.Exit(1)


def _printed(old: Result, new: Result) -> str:
    from harness.core.escaping import terminal, visible
    from harness.protocol.described import metric_order
    from harness.report.cells import Cell, Column, Row, Table
    from harness.report.record import differences
    from harness.report.render import render

    def row(name: str, before: float | None, after: float | None, digits: int) -> Row:
        change = None if before is None or after is None else f"{after - before:+.{digits}f}"
        values = [None if value is None else f"{value:,.{digits}f}" for value in (before, after)]
        return Row(tuple(map(Cell, (name, *values, change))))

    names = metric_order(old.task, {**old.metrics, **new.metrics})
    rows = [row(name, old.metrics.get(name), new.metrics.get(name), 4) for name in names]
    columns = (Column("", is_number=False), Column("old"), Column("new"), Column("change"))
    scores = Table(str(old.key), columns, (*rows, row("n", old.n, new.n, 0)))
    changed = differences(old, new)
    if not changed:
        return render(scores) + "\n\nsame commit, versions, hardware, data and protocol"
    lines = "\n".join("  " + visible(f"{what}: {before} -> {after}") for what, before, after in changed)
    return f"{render(scores)}\n\nWhat else differs:\n{terminal(lines)}"
