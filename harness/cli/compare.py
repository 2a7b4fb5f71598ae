"""`leaderboard compare`: which differences between encoders are real."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import (
    BatchSizeOption,
    CacheDirOption,
    DataDirOption,
    DeviceOption,
    LanguageOption,
    ResultsFoldersOption,
    SubsetOption,
    TaskOption,
    ThreadsOption,
    format_option,
    results_folders,
)
from harness.cli.own import takes_own_sets
from harness.data import DataDir

if TYPE_CHECKING:
    from harness.protocol.task import Planned, Task
    from harness.resampling.resamples import Resampling
    from harness.results.named import StoredEncoder
    from harness.results.records import Result
    from harness.running.measure import Run
    from harness.running.plan import Progress
    from harness.statistics.comparison import Comparison
    from harness.statistics.rows import EncoderRows


@takes_own_sets
def compare(
    encoders: Annotated[
        list[str],
        typer.Argument(
            metavar="ENCODER",
            show_default=False,
            help="Encoders as for `run`, or names of stored ones, FOLDER/NAME, a results folder with one; two or more.",
        ),
    ],
    task: TaskOption = None,
    subset: SubsetOption = None,
    language: LanguageOption = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", show_default=False, help="Compare by this metric, on the tasks that have it. Default: main."
        ),
    ] = None,
    resamples: Annotated[
        int, typer.Option(metavar="N", min=1, max=1_000_000, help="Bootstrap resamples, and randomisations of a test.")
    ] = 10_000,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of both.")] = 12345,
    level: Annotated[
        float, typer.Option(metavar="P", help="Level of the intervals; a test is significant at p < 1 - P.")
    ] = 0.95,
    reference: Annotated[
        str | None,
        typer.Option(metavar="NAME", show_default=False, help="Hold this one of them against each of the others."),
    ] = None,
    data_dir: DataDirOption = None,
    results: ResultsFoldersOption = None,
    cache_dir: CacheDirOption = None,
    device: DeviceOption = None,
    batch_size: BatchSizeOption = None,
    threads: ThreadsOption = None,
    format: Annotated[str, format_option("an entry a set and pair of encoders")] = "table",
    own: DataDir | None = None,
) -> None:
    """Test the differences between encoders. Each stands with its interval and p, per set and on average, and with what
    may be concluded.

    The difference is the first encoder minus the second; with more than two, each encoder minus the best, or with
    --reference that one minus each. Intervals are BCa bootstrap intervals, tests approximate randomisation of the same
    items; sets that share their source pairs are resampled as clusters. Per-item rows that `run` has kept below
    --results are used: an encoder whose rows are all there is not loaded if it is given by its stored name, or by the
    spec string of its records (other than one of a folder or of code). The other rows are computed, from cached vectors
    where there are any. Nothing is stored.

    Exit code 3: an encoder failed on a set; the others are compared all the same.

    Example: leaderboard compare student muse --task sts17
    """
    from harness.cli.progress import watch
    from harness.cli.stored_sets import stored_sets
    from harness.core.errors import InputError, unknown_name
    from harness.encoders.cache import VectorCache
    from harness.protocol.task import common_signature
    from harness.resampling.resamples import Resampling
    from harness.results.named import join
    from harness.results.store import ResultStore
    from harness.running.measure import Run
    from harness.running.plan import choose_data, plan_sets
    from harness.statistics.comparison import compare_rows

    folders = results_folders(results)
    resampling = Resampling(resamples, seed, level)
    store, joined = ResultStore(folders[0]), join(folders)
    candidates = [_Candidate(text, joined) for text in encoders]
    names = [candidate.name for candidate in candidates]
    if len(names) < 2:
        raise InputError(f"give two encoders or more to compare, not only {names[0]}")
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two of the encoders are called {name!r}; add name=... to one of them")
    if reference is not None and reference not in names:
        raise unknown_name("encoder to be the reference", reference, names)
    with watch() as progress:
        own = own or stored_sets({one.name: one.records for one in candidates}, task or (), subset or (), progress)
        plan = plan_sets(
            _tasks(task, metric, progress), choose_data(own or data_dir), subset or (), progress, language or ()
        )
        run = Run(VectorCache(cache_dir), store, progress=progress)
        measured = [candidate.rows(run, plan, device, batch_size) for candidate in candidates]
        n = sum(len(planned.sources) for planned in plan)
        progress.note(f"{resamples:,} resamples of {n} set{'s' if n > 1 else ''}")
        compared = compare_rows(plan, measured, resampling, metric)
    if not any(c.differences for c in compared):
        reasons = [f"{name} on {c.subset}: {why}" for c in compared for name, why in c.missing.items()]
        raise InputError(f"there is no set that two of the encoders have: {reasons[0]}")
    signatures = {p.task.name: common_signature(map(p.task.signature_on, p.sources)) for p in plan}
    typer.echo(_printed(format, compared, names, resampling, signatures, reference or "", _remarks(candidates, plan)))
    if any(rows.failures for rows in measured):
        raise typer.Exit(3)


class _Candidate:
    """An encoder to compare: one with stored results, or a spec string.

    Raises:
        InputError: it is neither.
    """

    def __init__(self, text: str, joined: Mapping[str, StoredEncoder]):
        from harness.encoders.registry import check_spec
        from harness.results.named import find_stored, is_spec_of

        self._text, self._stored = text, find_stored(text, joined)
        self._is_named = self._stored is not None
        if self._stored is None:
            spec = check_spec(text)
            same = joined.get(spec.stored_name)
            self._stored = same if same and is_spec_of(spec, same.records) else None
            self.name = spec.stored_name
        elif text in joined:
            self.name = text
        else:
            self.name = f"{self._stored.root.name}/{self._stored.encoder}"

    @property
    def records(self) -> Sequence[Result]:
        """What is stored of it."""
        return self._stored.records if self._stored else ()

    def rows(self, run: Run, plan: Sequence[Planned], device: str | None, batch_size: int | None) -> EncoderRows:
        """Its rows on all that is planned: stored ones without loading it where all are there, else measured now."""
        from harness.cli.stored_sets import StoredSet
        from harness.core.errors import InputError
        from harness.encoders.registry import check_spec, encoder_names, failures_in_one_line, load_sides
        from harness.results.store import ResultStore
        from harness.running.suite import measure_rows, rows_by_name

        stored = self._stored
        measured = rows_by_name(stored.encoder, plan, ResultStore(stored.root)) if stored else None
        if measured:
            run.progress.note(f"{self.name}: stored rows of all {len(measured.rows)} sets; it is not loaded")
            return replace(measured, encoder=self.name)
        if without_files := [s for planned in plan for s in planned.sources if isinstance(s, StoredSet)]:
            names = ", ".join(source.subset for source in without_files)
            raise InputError(
                f"{self.name} has no stored rows of these very files of all these sets: {names}; give the files "
                "(--pairs, --scored, --beir, --sets) to measure it, or choose other sets (--subset)"
            )
        if self._is_named and self._text not in encoder_names():
            raise InputError(
                f"some of these sets, or their data as they are here, have no stored rows of {self.name}; give its "
                "spec string, to load it, or choose sets that it was measured on (--task, --subset)"
            )
        spec = check_spec(self._text)
        run.items.read(plan)  # bad data is met before a model is loaded
        with failures_in_one_line(str(spec)):
            encoder = load_sides(spec, device=device, batch_size=batch_size)
        return measure_rows(run, encoder, plan)


def _remarks(candidates: Sequence[_Candidate], plan: Sequence[Planned]) -> list[str]:
    """What the records of these very sets say of their items."""
    from harness.report.tables import remarks

    sets = {
        (planned.task.name, source.subset): (planned.task.signature_on(source), source)
        for planned in plan
        for source in planned.sources
    }
    said = []
    for record in (r for one in candidates for r in one.records if r.remarks and r.key[1:] in sets):
        signature, source = sets[record.key[1:]]
        if (record.signature, record.dataset.sha256) == (signature, source.sha256):
            said.append(record)
    return remarks(said, with_task=True)


def _tasks(names: Sequence[str] | None, metric: str | None, progress: Progress) -> list[Task]:
    """The tasks that are asked for and have the metric."""
    from harness.core.errors import InputError, unknown_name
    from harness.running.plan import choose_tasks

    tasks = choose_tasks(names, progress)
    if metric is None:
        return tasks
    known = {m.name: m for task in tasks for m in task.metrics}
    scores = [name for name, m in known.items() if m.has_interval]
    if metric not in known:
        raise unknown_name("metric", metric, scores)
    if metric not in scores:
        raise InputError(f"a {metric} is no score; compare by {', '.join(scores[:3])}")
    return [task for task in tasks if metric in task.metric_names]


def _printed(
    format: str,
    compared: Sequence[Comparison],
    names: Sequence[str],
    plan: Resampling,
    signatures: dict[str, str],
    reference: str,
    remarks: Sequence[str],
) -> str:
    from harness.core.escaping import json_text
    from harness.report.comparison import entries, tables
    from harness.report.conclusion import conclusion
    from harness.report.render import ENTRY_FORMATS, render, render_long

    if format == "json":
        content = {
            "conclusion": conclusion(compared, names, plan.alpha),
            "differences": entries(compared, names, plan),
            "best": [
                {"task": c.task, "subset": c.subset, "encoders": [name for name in names if name in c.standing.best]}
                for c in (compared if len(names) > 2 else ())
                if c.kind != "bias"
            ],
            "signatures": {task: f"{text}|{plan.signature}" for task, text in signatures.items()},
            "remarks": [*remarks],
        }
        return json_text(content, indent=2)
    if format in ENTRY_FORMATS:
        return render_long(entries(compared, names, plan), format)
    return render(tables(compared, names, plan, signatures, reference, remarks), format)
