"""`leaderboard sweep`: how small vectors can be before they are significantly worse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import (
    BatchSizeOption,
    CacheDirOption,
    DataDirOption,
    DeviceOption,
    FreshOption,
    LanguageOption,
    ReplaceOption,
    ResultsOption,
    SubsetOption,
    SuiteOption,
    TaskOption,
    ThreadsOption,
    format_option,
    results_folder,
)
from harness.cli.own import takes_own_sets
from harness.cli.run import exit_as
from harness.data import DataDir
from harness.report.render import ENTRY_FORMATS

if TYPE_CHECKING:
    from harness.encoders.reduction import Reduction


@takes_own_sets
def sweep(
    encoder: Annotated[
        list[str],
        typer.Option(
            "--encoder",
            metavar="SPEC",
            show_default=False,
            help="Encoder with its full vectors: an alias, or KIND:LOCATION?option=value. Repeatable.",
        ),
    ],
    dims: Annotated[
        str,
        typer.Option(
            metavar="N,N,...", help="Cut vectors to so many of their first components, beside all. Empty: all alone."
        ),
    ] = "512,256,128,64",
    quantize: Annotated[
        str, typer.Option(metavar="NAME,NAME,...", help="How components are stored: none (float32), int8, binary.")
    ] = "none,int8,binary",
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
    format: Annotated[str, format_option("an entry a variant and number")] = "table",
    own: DataDir | None = None,
) -> None:
    """Find how small vectors can be. Encoders are measured in full, cut and quantised, and it is tested which are
    worse.

    Every number of --dims is combined with every way of --quantize, and so are all dimensions. Sentences are encoded
    once. Results are stored as by `run`, under ENCODER@256-int8 and the like (each is the encoder with
    ?truncate_dim=256&quantize=int8); what is stored without its per-item rows is measured again, since the tests need
    them. Dimensions that an encoder does not have are passed over.

    Printed are the averages that the table over all tasks has: score, bytes a vector, and the difference to the full
    vectors with its interval and paired test, corrected by Holm over the variants of an encoder; then what may be
    concluded. Keys of csv and json: encoder, base, dim, quantize, bytes, task, subset, metric, value, low, high,
    difference, difference_low, difference_high, p, p_holm, is_worse (empty if not tested); in json they are the list
    "variants", beside the sentences of "conclusion".

    Example: leaderboard sweep --encoder student --dims 128,64 --suite sample
    """
    from harness.cli.progress import watch
    from harness.core.errors import InputError
    from harness.core.escaping import json_text
    from harness.report.render import render, render_long
    from harness.report.sweep import all_curves, curves, entries, sentences
    from harness.results.statistics import StatisticsStore
    from harness.running.suite import Request, run_suite

    if own and suite:
        raise InputError("--suite chooses among published sets; leave it out, or your own sets")
    reductions = _reductions(dims, quantize)
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
        save_rows="npz",  # the paired tests need them, of the full vectors too
        defaults={"device": device, "batch_size": batch_size},
        reductions=reductions,
    )
    with watch() as progress:
        outcome = run_suite(request, progress)
    statistics = StatisticsStore(results).of(outcome.results)
    found = all_curves(outcome.results, statistics)
    if format == "json":
        conclusion = [sentence for curve in found for sentence in sentences(curve)]
        typer.echo(json_text({"conclusion": conclusion, "variants": entries(found)}, indent=2))
    elif format in ENTRY_FORMATS:
        typer.echo(render_long(entries(found), format))
    elif found:
        typer.echo(render(curves(outcome.results, statistics), format))
    exit_as(outcome.failures, outcome.results)


def _reductions(dims: str, quantize: str) -> list[Reduction]:
    """Every combination of the two lists, and of all dimensions with the second. Raises InputError."""
    from harness.core.errors import InputError, unknown_name
    from harness.encoders.reduction import QUANTIZE, Reduction

    lengths: list[int | None] = [None]
    for text in dims.split(",") if dims.strip() else ():
        if not (text.strip().isascii() and text.strip().isdecimal() and len(text) < 10):
            raise InputError(f"--dims is a list of whole numbers such as 512,256,128, not {dims!r}")
        lengths.append(int(text))
    names = [name.strip() for name in quantize.split(",")]
    for name in names:
        if name not in QUANTIZE:
            raise unknown_name("value of --quantize", name, QUANTIZE)
    ways = [way for way in QUANTIZE if way in names]
    return [Reduction(length, way) for length in dict.fromkeys(lengths) for way in ways]
