"""`leaderboard check`, the regression gate, and `leaderboard rerun`, which repeats one stored record."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import echo
from harness.cli.options import (
    RESULTS_DEFAULT,
    BatchSizeOption,
    CacheDirOption,
    CachedOption,
    DataDirOption,
    DeviceOption,
    ResultsOption,
    Suite,
    ThreadsOption,
    filter_option,
    results_folder,
)
from harness.cli.own import takes_own_sets
from harness.data import DataDir

if TYPE_CHECKING:
    from harness.results.records import Result


class Format(str, Enum):
    """How to print the outcome: a table, or annotations of GitHub Actions with the table."""

    text = "text"
    github = "github"


@takes_own_sets
def check(
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="DIR",
            show_default=RESULTS_DEFAULT,
            help="Folder with the records to hold against.",
        ),
    ] = None,
    encoder: Annotated[
        list[str] | None,
        typer.Option(
            "--encoder",
            metavar="NAME|SPEC",
            show_default=False,
            help="Only the records of this encoder; a spec string is loaded instead of the records' own. Repeatable.",
        ),
    ] = None,
    task: Annotated[list[str] | None, filter_option("task")] = None,
    subset: Annotated[list[str] | None, filter_option("subset")] = None,
    suite: Annotated[
        Suite | None,
        typer.Option(
            show_default=False, help="paper: no records of the bundled sample; sample: only those. Default: both."
        ),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(
            "--run",
            metavar="RESULTS",
            show_default=False,
            help="Measure nothing: compare with the records of a fresh run, which are in this folder.",
        ),
    ] = None,
    cached: CachedOption = False,
    data_dir: DataDirOption = None,
    cache_dir: CacheDirOption = None,
    device: DeviceOption = None,
    batch_size: BatchSizeOption = None,
    threads: ThreadsOption = None,
    format: Annotated[
        Format, typer.Option(help="text: a table; github: annotations of GitHub Actions, then the table.")
    ] = Format.text,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", show_default=False, help="Write JUnit XML to this file, too."),
    ] = None,
    own: DataDir | None = None,
) -> None:
    """Fail where a stored score has changed. What is stored is measured again.

    Exit code 0: every record agrees within its tolerance (0.05 for scores x 100, or what the record says, with the
    reason). Exit code 1: a score, number of items, data checksum, signature or fingerprint has changed, a record could
    not be measured, or a cached vector is not what the encoder gives. Nothing is stored.

    Vectors are computed afresh. Records of data sets that are not here are listed as not checked, unless --task or
    --subset asks for them; so are encoders that lack something, unless --encoder does. A record is data: an encoder
    whose spec string runs code (python:, a foreign tfhub:, mteb:, trust_remote_code=true) or sends texts to a server
    (openai:) is only loaded if --encoder gives that spec string.

    Example: leaderboard check --against results --encoder student --task sts17
    """
    from harness.cli.progress import watch
    from harness.core.errors import InputError
    from harness.data import open_data_dir
    from harness.reproduction import render
    from harness.reproduction.repeat import FreshRun, Options, check_again, compare_runs

    if run and (cached or device or batch_size or threads):
        raise InputError("--run measures nothing: leave out --cached, --device, --batch-size and --threads")
    against = results_folder(against)
    if run and os.path.realpath(run) == os.path.realpath(against):  # unlike resolve(), of a loop of links too
        raise InputError(f"{run}: --run and --against name the same folder; every record would agree with itself")
    everything = _records(against, "--against")
    specs = _specs(encoder or (), everything)
    for name, spec in specs.items():
        if run and spec:
            raise InputError(f"--run measures nothing, so {spec} is not loaded; give the stored name: --encoder {name}")
    chosen = _choose(everything, specs, task or (), subset or (), suite)
    if run:
        checks = compare_runs(chosen, everything, against, run, FreshRun(_records(run, "--run")))
    else:
        options = Options(
            data=own or (open_data_dir(data_dir) if data_dir else None),
            cache_dir=cache_dir,
            use_cached=cached,
            specs=specs,
            trusted=frozenset(encoder or ()),
            must_measure=bool(task or subset),
            must_load=frozenset(specs),
            defaults={"device": device, "batch_size": batch_size},
        )
        with watch() as progress:
            checks = check_again(chosen, everything, against, options, progress)
    if all(check.skipped for check in checks):
        reasons = "; ".join(dict.fromkeys(check.skipped for check in checks))
        none = f"none of the {len(checks)} records can be checked here"
        raise InputError(f"{none} ({reasons}); give --data-dir, your sets (--sets), or what the encoder needs")
    if junit:  # first: it does not depend on who reads what is printed
        _write(junit, render.junit(checks))
    if format is Format.github and (annotations := render.github(checks, against)):
        echo(annotations)
    echo(render.text(checks))
    if any(check.findings for check in checks):
        raise typer.Exit(1)


def _records(folder: Path, option: str) -> list[Result]:
    from harness.core.errors import InputError
    from harness.results.store import ResultStore

    records = ResultStore(folder).load()
    if not records:
        raise InputError(f"no stored results in the folder {folder}; name one that has some ({option})")
    return records


def _specs(encoders: Iterable[str], everything: Sequence[Result]) -> dict[str, str]:
    """By the name that results are stored under, the spec string to load; empty for that of the records."""
    from harness.core.errors import InputError, unknown_name
    from harness.encoders.spec import parse_spec

    known = {result.encoder for result in everything}
    specs: dict[str, str] = {}
    for given in encoders:
        name = given if given in known else parse_spec(given).stored_name
        if name not in known:
            raise unknown_name("encoder with stored results", name, known)
        if name in specs:
            raise InputError(f"two of the encoders are called {name!r}; check them one by one")
        specs[name] = "" if given == name else given
    return specs


def _choose(
    everything: Sequence[Result],
    encoders: Iterable[str],
    tasks: Sequence[str],
    subsets: Sequence[str],
    suite: Suite | None,
) -> list[Result]:
    """The records that the options ask for, and the parts of the averages among them.

    Of each encoder that is named, there must be some for every other filter: none is passed over in silence.
    """
    from harness.core.errors import InputError
    from harness.core.names import Subset
    from harness.results.selection import select

    of_suite = [r for r in everything if suite is None or Subset.parse(r.subset).is_sample is (suite is Suite.sample)]
    chosen: list[Result] = []
    names: list[str | None] = [*encoders] or [None]
    for name in names:
        records = [r for r in of_suite if name in (None, r.encoder)]
        label = f"{name}: " if name else ""
        if not records:
            raise InputError(f"{label}no records are stored that fit --suite {suite.value if suite else None}")
        try:
            chosen += select(records, task=tasks, subset=subsets)[0]
        except InputError as error:
            raise InputError(f"{label}{error}") from None
    wanted = {r.key._replace(subset=name) for r in chosen for name in (r.subset, *r.parts)}
    return [r for r in everything if r.key in wanted]


def _write(path: Path, content: str) -> None:
    from harness.core.files import write_atomically

    write_atomically(path, content.encode())


@takes_own_sets
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
    threads: ThreadsOption = None,
    own: DataDir | None = None,
) -> None:
    """Repeat one stored measurement. The difference is reported; of an average, all that it is the mean of is repeated.

    Prints old and new scores, then in what else the two differ: commit, versions, hardware, data, protocol. Exit code 1
    if a score is beyond the record's tolerance, or anything else that `leaderboard check` looks at has changed. Nothing
    is stored.

    Example: leaderboard rerun student/sts17/en-es@sample
    """
    from harness.cli.progress import watch
    from harness.core.errors import InputError
    from harness.core.files import temporary_folder
    from harness.data import open_data_dir
    from harness.encoders.spec import parse_spec
    from harness.protocol.described import is_own
    from harness.report.commands import sets_options
    from harness.report.record import find_record
    from harness.reproduction.render import text as check_text
    from harness.reproduction.repeat import Options, compare_runs, measure_again
    from harness.results.selection import stored
    from harness.results.store import ResultStore

    results = results_folder(results)
    everything = stored(ResultStore(results))
    old = find_record(everything, record)
    if encoder and (name := parse_spec(encoder).stored_name) != old.encoder:
        raise InputError(f"{encoder} would be stored as {name!r}; add name={old.encoder} to repeat {record} with it")
    options = Options(
        data=own or (open_data_dir(data_dir) if data_dir else None),
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
            remedy = shlex.join(sets_options([old])) if is_own(old.task) else "--data-dir or set HARNESS_DATA"
            raise InputError(f"{absent[0]}; give {remedy}")
        checks = compare_runs(chosen, everything, results, folder, fresh)
    new = next((r for r in fresh.results if r.key == old.key), None)
    if new is not None:
        echo(_old_and_new(old, new))
    if any(check.findings for check in checks):
        echo("\n" * (new is not None) + check_text(checks))
        raise typer.Exit(1)


def _old_and_new(old: Result, new: Result) -> str:
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
