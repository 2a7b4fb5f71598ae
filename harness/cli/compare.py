"""`leaderboard compare`: which differences between encoders are real."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import (
    BatchSizeOption,
    CacheDirOption,
    DataDirOption,
    DeviceOption,
    ResultsOption,
    SubsetOption,
    TaskOption,
    format_option,
    results_folder,
)

if TYPE_CHECKING:
    from harness.comparison import Compared, Measured
    from harness.runner import Planned, Progress
    from harness.spec import Spec
    from harness.stats import Resampling


def compare(
    encoders: Annotated[
        list[str],
        typer.Argument(metavar="ENCODER", show_default=False, help="Encoders, as for `run`; two or more."),
    ],
    task: TaskOption = None,
    subset: SubsetOption = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", show_default=False, help="Compare by this metric, on the tasks that have it. Default: main."
        ),
    ] = None,
    resamples: Annotated[
        int, typer.Option(metavar="N", min=1, help="Bootstrap resamples, and randomisations of a test.")
    ] = 10_000,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of both.")] = 12345,
    level: Annotated[
        float, typer.Option(metavar="P", help="Level of the intervals; a test is significant at p < 1 - P.")
    ] = 0.95,
    data_dir: DataDirOption = None,
    results: ResultsOption = None,
    cache_dir: CacheDirOption = None,
    device: DeviceOption = None,
    batch_size: BatchSizeOption = None,
    format: Annotated[str, format_option("an entry a set and pair of encoders")] = "table",
) -> None:
    """Compare encoders: differences with intervals and p-values per set and on average, and what may be concluded.

    The difference is the first encoder minus the second; with more than two, each encoder minus the best. Intervals
    are BCa bootstrap intervals, tests approximate randomisation of the same items; sets that share their source
    pairs are resampled as clusters. Per-item rows that `run` has kept below --results are used, others are computed
    from cached vectors where there are any. Nothing is stored.

    Exit code 3: an encoder failed on a set; the others are compared all the same.
    """
    from harness.cli.progress import watch
    from harness.comparison import compare_rows
    from harness.errors import InputError
    from harness.registry import check_spec
    from harness.stats import Resampling

    results = results_folder(results)
    plan = Resampling(resamples, seed, level)
    specs = [check_spec(text) for text in encoders]
    names = [spec.stored_name for spec in specs]
    if len(names) < 2:
        raise InputError(f"give two encoders or more to compare, not only {names[0]}")
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two of the encoders are called {name!r}; add name=... to one of them")
    if cache_dir:  # models that an encoder fetches go there too
        os.environ["HARNESS_CACHE"] = str(cache_dir)
    with watch() as progress:
        planned = _plan(task, subset, metric, data_dir, progress)
        measured = [_measure(spec, planned, results, cache_dir, progress, device, batch_size) for spec in specs]
        n = sum(len(one.sources) for one in planned)
        progress.note(f"{resamples:,} resamples of {n} set{'s' if n > 1 else ''}")
        compared = compare_rows(planned, measured, plan, metric)
    if not any(one.differences for one in compared):
        reasons = [f"{name} on {one.subset}: {why}" for one in compared for name, why in one.missing.items()]
        raise InputError(f"there is no set that two of the encoders have: {reasons[0]}")
    typer.echo(_printed(format, compared, measured, plan, planned))
    if any(one.failures for one in measured):
        raise typer.Exit(3)


def _plan(
    tasks: Sequence[str] | None,
    subsets: Sequence[str] | None,
    metric: str | None,
    data_dir: Path | None,
    progress: Progress,
) -> list[Planned]:
    from harness.errors import InputError, unknown_name
    from harness.evaluation import choose_data
    from harness.runner import absent_sets, check_data, make_plan, no_data
    from harness.tasks import get_task, task_names

    data = choose_data(data_dir)
    chosen = [get_task(name) for name in dict.fromkeys(tasks or task_names())]
    if metric is not None:
        known = {m.name: m for task in chosen for m in task.metrics}
        scores = [name for name, m in known.items() if m.has_interval]
        if metric not in known:
            raise unknown_name("metric", metric, scores)
        if metric not in scores:
            raise InputError(f"a {metric} is no score; compare by {', '.join(scores[:3])}")
        chosen = [task for task in chosen if metric in task.metric_names]
    planned = make_plan(chosen, data, subsets or ())
    if not planned:
        raise no_data(chosen, data)
    if data.stand_in:
        progress.note(f"comparing on the bundled sample (no data directory); its sets are tagged @{data.stand_in}")
    elif not subsets:
        for name, absent in absent_sets(chosen, data).items():
            listed = " ".join(absent[:12]) + (" ..." if len(absent) > 12 else "")
            progress.note(f"not in the data directory: {name} {listed}")
    check_data(planned)
    return planned


def _measure(
    spec: Spec,
    planned: Sequence[Planned],
    results: Path,
    cache_dir: Path | None,
    progress: Progress,
    device: str | None,
    batch_size: int | None,
) -> Measured:
    from harness.cache import VectorCache
    from harness.comparison import measure_rows
    from harness.registry import failures_in_one_line, load_encoder

    with failures_in_one_line(str(spec)):
        model = load_encoder(spec, device=device, batch_size=batch_size)
    return measure_rows(model, planned, VectorCache(cache_dir), results, progress)


def _printed(
    format: str,
    compared: Sequence[Compared],
    measured: Sequence[Measured],
    plan: Resampling,
    planned: Sequence[Planned],
) -> str:
    from harness.comparison import conclusion, entries, significance, tables
    from harness.escaping import json_text
    from harness.report.render import ENTRY_FORMATS, render, render_long

    names = [one.encoder for one in measured]
    signatures = {one.task.name: one.task.full_signature for one in planned}
    if format == "json":
        found = {
            "conclusion": conclusion(compared, names, significance(plan)),
            "differences": entries(compared, names, plan),
            "best": [
                {"task": one.task, "subset": one.subset, "encoders": [name for name in names if name in one.best]}
                for one in (compared if len(names) > 2 else ())
                if one.kind != "bias"
            ],
            "signatures": {task: f"{text}|{plan.signature}" for task, text in signatures.items()},
        }
        return json_text(found, indent=2)
    if format in ENTRY_FORMATS:
        return render_long(entries(compared, names, plan), format)
    return render(tables(compared, names, plan, signatures), format)
