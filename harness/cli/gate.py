"""`leaderboard gate`: whether a changed model is worse than the one before."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import echo
from harness.cli.gate_sides import Chosen, Opened, told_apart
from harness.cli.options import (
    BatchSizeOption,
    CacheDirOption,
    DataDirOption,
    DeviceOption,
    LanguageOption,
    ResultsFoldersOption,
    Suite,
    ThreadsOption,
    filter_option,
    results_folders,
    size_in_bytes,
)
from harness.cli.own import takes_own_sets
from harness.data import DataDir

if TYPE_CHECKING:
    from harness.reproduction.findings import Check
    from harness.reproduction.judge import Judgement, Limits
    from harness.reproduction.repeat import Options
    from harness.reproduction.sides import Side
    from harness.resampling.resamples import Resampling


class Format(str, Enum):
    """How to print the outcome."""

    text = "text"
    markdown = "markdown"
    json = "json"
    github = "github"


@takes_own_sets
def gate(
    encoders: Annotated[
        list[str],
        typer.Argument(
            metavar="BASELINE CANDIDATE",
            show_default=False,
            help="Each the name of an encoder with stored results, a results folder, FOLDER/NAME, or an encoder as for "
            "`run`.",
        ),
    ],
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|SPEC",
            show_default=False,
            help="The candidate, held against each of the arguments; of a folder, against each of its encoders.",
        ),
    ] = None,
    task: Annotated[list[str] | None, filter_option("task")] = None,
    subset: Annotated[list[str] | None, filter_option("subset")] = None,
    language: LanguageOption = None,
    suite: Annotated[
        Suite | None,
        typer.Option(
            show_default=False, help="paper: no sets of the bundled sample; sample: only those. Default: both."
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", show_default=False, help="Compare by this metric. Repeatable. Default: main."),
    ] = None,
    alpha: Annotated[
        float,
        typer.Option(metavar="P", min=1e-6, max=0.5, help="Level of the tests of a pair, all of them together."),
    ] = 0.05,
    max_drop: Annotated[
        float | None,
        typer.Option(
            "--max-drop",
            metavar="POINTS",
            min=0,
            max=1000,
            show_default=False,
            help="Fail too where a score is lower by more.",
        ),
    ] = None,
    max_slowdown: Annotated[
        float | None,
        typer.Option(
            "--max-slowdown",
            metavar="TIMES",
            min=0.01,
            max=1000,
            show_default=False,
            help="Fail if the candidate takes more than so many times as long (1.2), as `leaderboard speed` measured.",
        ),
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option(
            "--max-size",
            metavar="SIZE",
            show_default=False,
            help="Fail if the files of the candidate are larger: 20MB.",
        ),
    ] = None,
    resamples: Annotated[
        int,
        typer.Option(metavar="N", min=100, max=1_000_000, help="Randomisations of a test, and bootstrap resamples."),
    ] = 10_000,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of both.")] = 12345,
    results: ResultsFoldersOption = None,
    data_dir: DataDirOption = None,
    cache_dir: CacheDirOption = None,
    device: DeviceOption = None,
    batch_size: BatchSizeOption = None,
    threads: ThreadsOption = None,
    format: Annotated[
        Format, typer.Option(help="github: annotations of GitHub Actions, then text; json: in full precision.")
    ] = Format.text,
    summary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", show_default=False, help="Add Markdown to this file, too: $GITHUB_STEP_SUMMARY, say."
        ),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", show_default=False, help="Write JUnit XML to this file, too."),
    ] = None,
    own: DataDir | None = None,
) -> None:
    """Fail where a changed model is worse. It is compared with the one before, on the same items; significantly better,
    or other, is no failure.

    Both are compared on every set and average that the baseline has results on, by the task's main metric: a paired
    test on the same items (approximate randomisation, two-sided), corrected by Holm over all scores. Weights may
    change, and better or other is no failure. `check` is the gate for code, where nothing may change.

    Nothing that is stored is loaded or measured again: a stored encoder needs its per-item rows, in RESULTS/rows/ or
    packed (`leaderboard rows --pack`) in the file that is committed with the records. Another one is loaded, and
    measured where the baseline was; sets whose data are not here are listed. Nothing is stored.

    Exit code 0: nothing is worse. 1: a score is significantly worse, or lower by more than --max-drop, or the candidate
    is too slow or too large. 3: nothing is, but something could not be judged (no rows, a set that the candidate lacks,
    other data or another protocol), whatever --max-drop says.

    Example: leaderboard gate scores 'static:new-model?name=model'
    """
    from harness.cli.progress import watch
    from harness.core.errors import InputError
    from harness.core.files import refuse_special, temporary_folder, writing
    from harness.data import open_data_dir
    from harness.reproduction.judge import Limits
    from harness.reproduction.repeat import Options
    from harness.resampling.resamples import Resampling
    from harness.results.named import join

    if reference is None and len(encoders) != 2:
        raise InputError("give BASELINE CANDIDATE; or one baseline or more, and the candidate as --reference")
    if not all(name.strip() for name in (*encoders, "-" if reference is None else reference)):
        raise InputError("the name of an encoder is empty; leave out --reference, or name one")
    limits = Limits(alpha, max_drop, max_slowdown, size_in_bytes(max_size))
    chosen = Chosen(tuple(task or ()), tuple(subset or ()), tuple(language or ()), suite)
    folders = results_folders(results)
    if summary:
        with writing(summary):
            summary.open("a").close()
    if junit:
        with writing(junit):
            refuse_special(junit)
    with ExitStack() as stack:
        options = Options(
            data=own or (open_data_dir(data_dir) if data_dir and suite is not Suite.sample else None),
            cache_dir=cache_dir,
            use_cached=True,
            must_measure=bool(task or subset),
            defaults={"device": device, "batch_size": batch_size},
        )
        progress = stack.enter_context(watch())
        opened = Opened(
            join(folders), chosen, options, stack.enter_context(temporary_folder()), progress, results or ()
        )
        resampling = Resampling(resamples, seed, round(1 - alpha, 12))
        pairs = [(encoders[0], encoders[1])] if reference is None else opened.each(encoders, reference)
        sides = told_apart([opened.pair(*pair) for pair in pairs])
        judgements = [_judge(*both, chosen, limits, metric or (), resampling, folders, options) for both in sides]
    _print(judgements, [old for old, _ in sides], format, summary, junit)
    if code := next((c for c in (1, 3) if any(j.exit_code == c for j in judgements)), 0):
        raise typer.Exit(code)


def _judge(
    baseline: Side,
    candidate: Side,
    chosen: Chosen,
    limits: Limits,
    metrics: Sequence[str],
    resampling: Resampling,
    folders: Sequence[Path],
    options: Options,
) -> Judgement:
    from dataclasses import replace

    from harness.core.errors import InputError
    from harness.reproduction.cost import cost_checks, size_of
    from harness.reproduction.judge import judge
    from harness.speed.store import SpeedStore

    judged = judge(baseline, candidate, chosen.of(list(baseline.records.values())), limits, metrics, resampling)
    if limits.max_slowdown is not None or limits.max_size is not None:
        roots = {folder.resolve(): folder for folder in (*folders, baseline.root, candidate.root)}
        measured = [one for root in roots.values() for one in SpeedStore(root).load()]
        size = size_of(candidate.spec, **options.defaults) if limits.max_size is not None and candidate.spec else None
        costs = cost_checks(baseline, candidate, measured, limits, size)
        judged = replace(judged, checks=(*judged.checks, *costs))
    if not judged.checks:
        raise InputError("the chosen tasks rank no encoders by their main metric; choose one with --metric")
    return judged


def _told_apart(judgement: Judgement, is_one_of_many: bool) -> Sequence[Check]:
    """The checks; where the candidate is held against several, with the baseline in its name: cases are told by it."""
    from dataclasses import replace

    if not is_one_of_many:
        return judgement.checks
    name = f"{judgement.candidate} against {judgement.baseline}"
    return [replace(check, key=check.key._replace(encoder=name)) for check in judgement.checks]


def _print(
    judgements: Sequence[Judgement], baselines: Sequence[Side], format: Format, summary: Path | None, junit: Path | None
) -> None:
    from harness.core.files import write_atomically, writing
    from harness.reproduction import gate_report, render

    is_many = len(judgements) > 1
    if format is Format.json:
        echo(gate_report.as_json(judgements))
    else:
        for judgement, baseline in zip(judgements, baselines, strict=True):
            root = baseline.root if baseline.is_stored else None
            checks = _told_apart(judgement, is_many)
            if format is Format.github and (found := render.github(checks, root, baseline.encoder)):
                echo(found)
        function = gate_report.markdown if format is Format.markdown else gate_report.text
        echo("\n\n".join(function(judgement).rstrip("\n") for judgement in judgements))
    if junit:
        every = [check for judgement in judgements for check in _told_apart(judgement, is_many)]
        write_atomically(junit, render.junit(every, "leaderboard gate").encode())
    if summary:
        with writing(summary), summary.open("a", encoding="utf-8") as file:
            file.write("".join(gate_report.markdown(judgement) for judgement in judgements))
