"""`leaderboard speed`: what encoders cost."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli import say
from harness.cli.options import (
    CacheDirOption,
    DeviceOption,
    ResultsOption,
    ThreadsOption,
    format_option,
    results_folder,
)
from harness.report.render import ENTRY_FORMATS


def speed(
    encoders: Annotated[
        list[str],
        typer.Argument(metavar="ENCODER", show_default=False, help="Aliases, or KIND:LOCATION?option=value."),
    ],
    threads: ThreadsOption = None,
    device: DeviceOption = None,
    repeats: Annotated[int, typer.Option("--repeats", metavar="N", min=1, max=1000, help="Rounds.")] = 5,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=1,
            help="An encoder fails that is not loaded, or has not encoded a list of texts, after this time.",
        ),
    ] = 1800,
    results: ResultsOption = None,
    cache_dir: CacheDirOption = None,
    format: Annotated[str, format_option("an entry a speed")] = "table",
) -> None:
    """Measure speed, memory and size. Of each encoder, with the time to load; kept in RESULTS/speed/.

    Each encoder runs in processes of its own. The texts are bundled: ten languages, short, medium and long. Encoders
    take turns, round by round, so that ratios hold on a busy machine; the column `time` compares with the first one.
    Speeds are measured one text a call, many texts a call, and where an encoder has an option batch_size, with 32 and
    256 too, unless a call takes more than five seconds. Of cut or quantised vectors, time to load and memory are those
    of the full ones: int8 is calibrated after that. With one prompt for queries and another one for documents, all
    is measured with that of the documents. Six encoders take about ten minutes; --repeats 2 is faster.

    A measurement replaces that of the same encoder, weights, machine, device and threads. `show` and `report` set it
    beside the scores.

    Example: leaderboard speed student muse
    """
    from harness.report.render import render, render_long
    from harness.report.speed import long_speeds, speed_tables
    from harness.speed.measure import Plan, measure
    from harness.speed.store import SpeedStore

    store = SpeedStore(results_folder(results))
    store.load()  # a file that cannot be read is said before anything is measured
    plan = Plan(repeats=repeats, threads=threads, defaults={"device": device} if device else {}, patience=timeout)
    outcome = measure(encoders, plan, say)
    for measurement in outcome.measured:
        store.merge(measurement)
    if outcome.measured and format in ENTRY_FORMATS:
        typer.echo(render_long(long_speeds(outcome.measured), format))
    elif outcome.measured:
        typer.echo(render(speed_tables(outcome.measured), format))
    if outcome.failures:
        raise typer.Exit(3)
