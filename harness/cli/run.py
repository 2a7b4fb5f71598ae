"""`leaderboard run`: measure encoders on tasks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.engine import (
    AddressOption,
    CpusOption,
    EngineChoice,
    EngineOption,
    GpusOption,
    VectorsChoice,
    VectorsOption,
    opened,
)
from harness.cli.options import (
    BatchSizeOption,
    CacheDirOption,
    DataDirOption,
    DeviceOption,
    EncoderOption,
    FreshOption,
    LanguageOption,
    ReplaceOption,
    ResultsOption,
    SubsetOption,
    SuiteOption,
    TaskOption,
    ThreadsOption,
    results_folder,
)
from harness.cli.own import takes_own_sets
from harness.data import DataDir

if TYPE_CHECKING:
    from harness.running.measure import Failure
    from harness.running.suite import Request


class RowsFormat(str, Enum):
    """How per-item rows are written."""

    npz = "npz"
    jsonl = "jsonl"
    parquet = "parquet"


@takes_own_sets
def run(
    encoder: EncoderOption = None,
    task: TaskOption = None,
    subset: SubsetOption = None,
    language: LanguageOption = None,
    suite: SuiteOption = None,
    data_dir: DataDirOption = None,
    results: ResultsOption = None,
    cache_dir: CacheDirOption = None,
    device: DeviceOption = None,
    batch_size: BatchSizeOption = None,
    threads: ThreadsOption = None,
    fresh: FreshOption = False,
    replace: ReplaceOption = False,
    save_rows: Annotated[
        bool, typer.Option("--save-rows", help="Measure again what has no usable per-item rows (RESULTS/rows/).")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Count what is to be encoded, and estimate what it costs; send nothing."),
    ] = False,
    rows_format: Annotated[
        RowsFormat | None,
        typer.Option(show_default=False, help="Keep the rows in this format, as with --save-rows. Default: npz."),
    ] = None,
    engine: EngineOption = EngineChoice.local,
    address: AddressOption = None,
    cpus_per_worker: CpusOption = None,
    gpus_per_worker: GpusOption = None,
    vectors: VectorsOption = VectorsChoice.shared,
    own: DataDir | None = None,
) -> None:
    """Measure encoders on tasks. Each result is stored as soon as it is there.

    Without options: every encoder that is ready, on every set that is found in the data directory, or on the bundled
    sample where none is given. With data sets of your own (--pairs, --scored, --beir, --sets): on these alone.

    An encoder that takes prompt=TEXT also takes prompt_query=TEXT and prompt_document=TEXT, for tasks that have queries
    and documents (retrieval); other tasks refuse an encoder that has two different prompts.

    What is stored already is not measured again. An encoder with other weights or options than those stored under its
    name is refused: name=... keeps both, --replace removes what is stored.

    With --engine ray, the workers of a cluster load the encoders and encode, with as many threads each as --threads;
    with equal threads, vectors and scores are those of one machine, bit by bit.

    At the end the intervals and tests that the tables show are brought up to date (RESULTS/statistics/), from the
    per-item rows that are kept (RESULTS/rows/).

    Example: leaderboard run --suite sample --encoder student --encoder chargrams
    """
    from harness.cli.progress import watch
    from harness.core.errors import InputError
    from harness.encoders.cache import VectorCache
    from harness.running.distribution import Distribution
    from harness.running.suite import Request, run_suite

    if own and suite:
        raise InputError("--suite chooses among published sets; leave it out, or your own sets")
    results = results_folder(results)
    request = Request(
        encoders=encoder,
        tasks=task,
        subsets=subset or (),
        languages=language or (),
        suite=suite.value if suite else None,
        data_dir=own or data_dir,
        results=results,
        cache_dir=cache_dir,
        fresh=fresh,
        replace=replace,
        save_rows=rows_format.value if rows_format else "npz" if save_rows else None,
        defaults={"device": device, "batch_size": batch_size},
    )
    if dry_run:
        _forecast(request)
        return
    is_shared = vectors is VectorsChoice.shared
    if not is_shared and engine is EngineChoice.local:
        raise InputError("--vectors object-store is for --engine ray; add it")
    cache = VectorCache(cache_dir).root.absolute() if is_shared and engine is EngineChoice.ray else None
    with (
        watch() as progress,
        opened(engine, address, cpus_per_worker, gpus_per_worker, cache) as workers,
    ):
        if workers:
            distribution = Distribution(workers, is_shared=is_shared, progress=progress)
            request = dataclasses.replace(request, distribution=distribution)
        outcome = run_suite(request, progress)
    if outcome.results:
        from harness.report.render import render
        from harness.report.tables import boards
        from harness.results.statistics import StatisticsStore

        tables = boards(outcome.results, failed=outcome.holes, statistics=StatisticsStore(results).of(outcome.results))
        typer.echo(render(tables))
    exit_as(outcome.failures, outcome.results)


def exit_as(failures: Sequence[Failure], done: Sequence[object]) -> None:
    """Ends a command with the exit code of what has failed, if something has; `done` is what has not."""
    from harness.core.errors import HarnessError, NameTakenError

    if not failures:
        return
    error = failures[0].error
    if isinstance(error, NameTakenError) and not done:
        raise typer.Exit(2)  # of several encoders, each is told already
    if isinstance(error, HarnessError) and not done:
        raise error  # a fault that the user can mend, and nothing else to tell: one line, exit code 2
    raise typer.Exit(3)


def _forecast(request: Request) -> None:
    """Print what there is to encode, without encoding anything."""
    from harness.cli.progress import watch
    from harness.report.cells import Cell, Column, Note, Row, Table
    from harness.report.render import render
    from harness.running.dry_run import forecast

    with watch() as progress:
        forecasts, failures = forecast(request, progress)
    has_price = any(each.price is not None for each in forecasts)
    columns = [Column("encoder", is_number=False), *map(Column, ("sets", "sentences", "characters"))]
    notes = [Note("sentences: distinct ones, in sets that are not stored, whose vectors are not in the cache")]
    if has_price:
        columns += [Column("tokens (estimate)"), Column("cost (estimate)")]
        notes.append(Note("tokens: characters / 4, as in English; two or three times as many in some languages"))
    if not all(each.is_exact for each in forecasts):
        notes.append(Note("at most: of a task with large sets, all sentences in the data directory are counted"))
    rows = []
    for each in forecasts:
        counts = [Cell(number, "count") for number in (each.n_sentences, each.n_characters)]
        if not each.is_exact:
            counts = [Cell(f"at most {cell.text}") for cell in counts]
        cells = [Cell(each.encoder), Cell(each.n_sets, "count"), *counts]
        if has_price:
            cells += [Cell(each.tokens, "count"), Cell(None if each.cost is None else f"{each.cost:,.4f}")]
        rows.append(Row(tuple(cells)))
    if rows:
        typer.echo(render([Table("To be encoded", tuple(columns), tuple(rows), tuple(notes))]))
    exit_as(failures, forecasts)
