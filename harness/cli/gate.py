"""`leaderboard gate`: whether a changed model is worse than the one before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import echo
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
    from harness.encoders.spec import Spec
    from harness.reproduction.findings import Check
    from harness.reproduction.judge import Judgement, Limits
    from harness.reproduction.repeat import Options
    from harness.reproduction.sides import Side
    from harness.resampling.resamples import Resampling
    from harness.results.named import StoredEncoder
    from harness.results.records import Result
    from harness.running.plan import Progress


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
        typer.Option(metavar="P", min=1e-6, max=0.5, help="Level of the tests, all of them together."),
    ] = 0.05,
    max_drop: Annotated[
        float | None,
        typer.Option(
            "--max-drop", metavar="POINTS", min=0, show_default=False, help="Fail too where a score is lower by more."
        ),
    ] = None,
    max_slowdown: Annotated[
        float | None,
        typer.Option(
            "--max-slowdown",
            metavar="TIMES",
            min=0.01,
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
        int, typer.Option(metavar="N", min=100, help="Randomisations of a test, and bootstrap resamples.")
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
    """Fail where a changed model is significantly worse than the one before, and only there.

    Both are compared on every set and average that the baseline has results on, by the task's main metric: a paired
    test on the same items (approximate randomisation, two-sided), corrected by Holm over all scores. Weights may
    change, and better or other is no failure. `check` is the gate for code, where nothing may change.

    Nothing that is stored is loaded or measured again: a stored encoder needs its per-item rows, in RESULTS/rows/ or
    packed (`leaderboard rows --pack`) in the file that is committed with the records. Another one is loaded, and
    measured where the baseline was; sets whose data are not here are listed. Nothing is stored.

    Exit code 0: nothing is worse. 1: a score is significantly worse, or lower by more than --max-drop, or the candidate
    is too slow or too large. 3: nothing is, but something could not be judged (no rows, a set that the candidate lacks,
    other data or another protocol). Without rows only --max-drop decides.
    """
    from harness.cli.progress import watch
    from harness.core.errors import InputError
    from harness.core.files import temporary_folder
    from harness.data import open_data_dir
    from harness.reproduction.judge import Limits
    from harness.reproduction.repeat import Options
    from harness.resampling.resamples import Resampling
    from harness.results.named import join

    if reference is None and len(encoders) != 2:
        raise InputError("give BASELINE CANDIDATE; or one baseline or more, and the candidate as --reference")
    limits = Limits(alpha, max_drop, max_slowdown, size_in_bytes(max_size))
    chosen = _Chosen(tuple(task or ()), tuple(subset or ()), tuple(language or ()), suite)
    folders = results_folders(results)
    pairs = [(name, reference) for name in _each(encoders)] if reference else [(encoders[0], encoders[1])]
    with ExitStack() as stack:
        options = Options(
            data=own or (open_data_dir(data_dir) if data_dir else None),
            cache_dir=cache_dir,
            use_cached=True,
            must_measure=bool(task or subset),
            defaults={"device": device, "batch_size": batch_size},
        )
        progress = stack.enter_context(watch())
        opened = _Opened(join(folders), chosen, options, stack.enter_context(temporary_folder()), progress)
        resampling = Resampling(resamples, seed, round(1 - alpha, 12))
        sides = [opened.pair(*pair) for pair in pairs]
        judgements = [_judge(*both, chosen, limits, metric or (), resampling, folders, options) for both in sides]
    _print(judgements, [old for old, _ in sides], format, summary, junit)
    if code := next((c for c in (1, 3) if any(j.exit_code == c for j in judgements)), 0):
        raise typer.Exit(code)


def _each(texts: Sequence[str]) -> list[str]:
    """The baselines of a reference: of a results folder, every encoder."""
    from harness.results.named import is_results_folder, join

    return [
        name
        for text in texts
        for name in ([f"{text}/{one}" for one in join([Path(text)])] if is_results_folder(text) else [text])
    ]


@dataclass(frozen=True)
class _Chosen:
    """Which sets are compared."""

    tasks: tuple[str, ...]
    subsets: tuple[str, ...]
    languages: tuple[str, ...]
    suite: Suite | None

    def of(self, records: Sequence[Result]) -> list[Result]:
        """Those of these records. Raises InputError for a name that stands for none of them."""
        from harness.core.errors import InputError
        from harness.core.names import Subset
        from harness.protocol.languages import on_languages
        from harness.results.selection import select

        left = [
            r for r in records if self.suite is None or Subset.parse(r.subset).is_sample is (self.suite == "sample")
        ]
        if not left:
            raise InputError(f"the baseline has no results that fit --suite {self.suite.value if self.suite else None}")
        left = on_languages(select(left, task=self.tasks, subset=self.subsets)[0], self.languages)
        if not left:
            raise InputError("the baseline has no results on what is asked for; choose other sets")
        return left


class _Opened:
    """The two sides of each pair, loaded and measured where nothing is stored."""

    def __init__(
        self,
        joined: Mapping[str, StoredEncoder],
        chosen: _Chosen,
        options: Options,
        folder: Path,
        progress: Progress,
    ):
        self._joined, self._chosen, self._options = joined, chosen, options
        self._folder, self._progress = folder, progress

    def pair(self, baseline: str, candidate: str) -> tuple[Side, Side]:
        """Baseline and candidate. Raises InputError as `find_stored`; both are the same results."""
        from dataclasses import replace

        from harness.core.errors import InputError

        names = {text: self._plain_name(text) for text in (baseline, candidate)}
        old = self._stored(baseline, names[candidate])
        new = self._stored(candidate, names[baseline])
        if old and new and (old.root.resolve(), old.encoder) == (new.root.resolve(), new.encoder):
            raise InputError(f"{baseline} and {candidate} are the same results; name another baseline or candidate")
        first = old or (self._measured_like(baseline, new) if new else self._measured(baseline))
        second = new or self._measured_like(candidate, first)
        if first.name == second.name:  # a folder is told from what is measured now, and from another folder
            first = replace(first, name=f"{first.root.name if first.is_stored else 'baseline'}/{first.name}")
            second = replace(second, name=f"{second.root.name}/{second.name}") if second.is_stored else second
        return first, second

    def _plain_name(self, text: str) -> str:
        """The name of the encoder that a text stands for; empty for a folder with several."""
        from harness.core.errors import InputError
        from harness.results.named import find_stored

        try:
            found = find_stored(text, self._joined)
        except InputError:
            return ""
        return found.encoder if found else self._spec(text).stored_name

    def _spec(self, text: str) -> Spec:
        """A spec string. Raises InputError for what is neither one nor the name of a stored encoder."""
        from harness.core.errors import unknown_name
        from harness.core.names import is_name
        from harness.encoders.registry import check_spec, encoder_names

        if is_name(text) and text not in encoder_names():
            raise unknown_name("encoder", text, {*self._joined, *encoder_names()})
        return check_spec(text)

    def _stored(self, text: str, beside: str) -> Side | None:
        """The side of a stored encoder; None if it has to be measured."""
        from harness.reproduction.sides import stored_side
        from harness.results.named import find_stored, is_spec_of

        found = find_stored(text, self._joined, beside)
        if found is None:
            spec = self._spec(text)
            same = self._joined.get(spec.stored_name)
            found = same if same and is_spec_of(spec, same.records) else None
        if found is None:
            return None
        self._progress.note(f"{found.name}: stored results in {found.root}; it is not loaded")
        return stored_side(found)

    def _measured_like(self, text: str, other: Side) -> Side:
        from harness.reproduction.sides import measured_like

        records = self._chosen.of(list(other.records.values()))
        places = {(r.task, name) for r in records for name in (r.subset, *r.parts)}
        like = [record for place, record in other.records.items() if place in places]
        return measured_like(text, like, self._new_folder(), self._options, self._progress)

    def _measured(self, text: str) -> Side:
        from harness.reproduction.sides import measured_as_asked
        from harness.running.suite import Request

        request = Request(
            encoders=[text],
            tasks=self._chosen.tasks or None,
            subsets=self._chosen.subsets,
            languages=self._chosen.languages,
            suite=self._chosen.suite.value if self._chosen.suite else None,
            data_dir=self._options.data,
            cache_dir=self._options.cache_dir,
            save_rows="npz",
            defaults=self._options.defaults,
        )
        return measured_as_asked(request, self._new_folder(), self._progress)

    def _new_folder(self) -> Path:
        return self._folder / str(len(list(self._folder.iterdir())))


def _judge(
    baseline: Side,
    candidate: Side,
    chosen: _Chosen,
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
    from harness.core.files import write_atomically
    from harness.reproduction import gate_report, render

    if junit:  # first: it does not depend on who reads what is printed
        checks = [check for judgement in judgements for check in _told_apart(judgement, len(judgements) > 1)]
        write_atomically(junit, render.junit(checks, "leaderboard gate").encode())
    if summary:
        with summary.open("a", encoding="utf-8") as file:
            file.write("".join(gate_report.markdown(judgement) for judgement in judgements))
    if format is Format.json:
        echo(gate_report.as_json(judgements))
        return
    for judgement, baseline in zip(judgements, baselines, strict=True):
        root = baseline.root if baseline.is_stored else None
        if format is Format.github and (found := render.github(judgement.checks, root, baseline.encoder)):
            echo(found)
    function = gate_report.markdown if format is Format.markdown else gate_report.text
    echo("\n\n".join(function(judgement).rstrip("\n") for judgement in judgements))
