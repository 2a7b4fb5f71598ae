"""What it takes to measure a published score here: the model, the data set, the command."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from harness.core.errors import HarnessError, InputError, unknown_name
from harness.core.names import Subset
from harness.data import DataDir, Source
from harness.encoders.registry import encoder_info
from harness.encoders.spec import parse_spec
from harness.protocol import get_task
from harness.protocol.task import Task
from harness.published import Measured, Measurements, PublishedScore
from harness.results.records import Result


@dataclass(frozen=True)
class Line:
    """A published score with what was measured, or else what measuring it takes.

    Attributes:
        needs: what is missing, or the command that measures the score; empty where it was measured.
        runs: the spec string of the encoder that measures it, where nothing is missing but the run.
    """

    score: PublishedScore
    measured: Measured | None
    needs: str = ""
    runs: str = ""


class Reproduction:
    """Published scores beside the results of a folder, and the sets of a data directory that measuring them takes."""

    def __init__(self, data: DataDir | None):
        self._data = data
        self._tasks: dict[str, tuple[Task, dict[str, Source]]] = {}

    def lines(self, scores: Sequence[PublishedScore], results: Iterable[Result]) -> list[Line]:
        """One line a score, in the same order."""
        measurements = Measurements(results)
        # One score stands for all of a model: what a model needs means a look at the disk.
        choices = {score.models: _choose_model(score) for score in reversed(scores) if score.models}
        lines = []
        for score in scores:
            if measured := measurements.measured(score):
                lines.append(Line(score, measured))
                continue
            model, needs = choices[score.models] if score.models else ("", score.needs)
            missing = [needs] if needs else []
            missing += self._missing_sets(score)
            if not missing:  # only then: it takes reading the files
                missing = self._altered_sets(score)
            if missing:
                lines.append(Line(score, None, "; ".join(missing)))
            else:
                lines.append(Line(score, None, _command(score, model), runs=model))
        return lines

    def _missing_sets(self, score: PublishedScore) -> list[str]:
        """The command that fetches the sets that are not there, if there are any."""
        task, present, names = self._needed_sets(score)
        sets = [name for subset in names if subset not in present for name in task.data_sets(subset)]
        return [f"leaderboard data fetch {' '.join(dict.fromkeys(sets))}"] if sets else []

    def _altered_sets(self, score: PublishedScore) -> list[str]:
        """The command that tells which files are not the published ones, if there are any. Reads the files, once."""
        _, present, names = self._needed_sets(score)
        try:
            altered = [present[name].dataset for name in names if present[name].is_published is False]
            sets = [name for dataset in altered for name in dataset.split("+")]
        except InputError as error:
            return [str(error)]
        return [f"the published files: leaderboard data verify {' '.join(dict.fromkeys(sets))}"] if sets else []

    def _needed_sets(self, score: PublishedScore) -> tuple[Task, dict[str, Source], Sequence[str]]:
        """The task that has the sets of a score, those of its sets that are in the data directory, and their names."""
        if score.task not in self._tasks:
            task = get_task(score.task)
            self._tasks[score.task] = task, task.sources(self._data) if self._data else {}
        task, present = self._tasks[score.task]
        return task, present, score.parts or task.resolve(score.subset)


@dataclass(frozen=True)
class OwnScore:
    """A user's encoder in a published table.

    Attributes:
        score: any score of the column.
        value: x 100; None if it was not measured on the same data by the same protocol.
        why: the reason then.
    """

    encoder: str
    score: PublishedScore
    value: float | None
    why: str = ""


def own_rows(scores: Sequence[PublishedScore], results: Sequence[Result], encoders: Sequence[str]) -> list[OwnScore]:
    """The stored encoders in the columns of these scores, each column of a table once.

    Raises:
        InputError: an encoder without stored results.
    """
    known = {result.encoder for result in results}
    for name in encoders:
        if name not in known:
            raise unknown_name("encoder with stored results", name, known)
    columns = {(s.table, s.task, s.subset, s.metric): s for s in reversed(scores)}
    ordered = sorted(columns.values(), key=scores.index)
    by_key = {(r.encoder, r.task, r.subset): r for r in results}
    return [_own(name, score, by_key) for name in encoders for score in ordered]


def _own(encoder: str, score: PublishedScore, results: Mapping[tuple[str, str, str], Result]) -> OwnScore:
    parts = [results.get((encoder, score.task, part)) for part in score.parts or (score.subset,)]
    found = [part.metrics[score.metric] for part in parts if part is not None and score.metric in part.metrics]
    if len(found) == len(parts):
        there = [part for part in parts if part is not None]
        if any(part.dataset.published is False for part in there):  # None: the set has no known checksum
            return OwnScore(encoder, score, None, "not comparable because the files were not the published ones")
        if not all(get_task(score.task).is_current(part.signature) for part in there):
            return OwnScore(encoder, score, None, "not comparable because measured by another protocol")
        return OwnScore(encoder, score, fsum(found) / len(found))
    wanted = set(score.parts or (score.subset,))
    others = [s for e, t, s in results if (e, t) == (encoder, score.task) and Subset.parse(s).base in wanted]
    stand_ins = sorted({Subset.parse(subset).tag for subset in others} - {""})
    if stand_ins:
        return OwnScore(encoder, score, None, f"not comparable because measured on {' and '.join(stand_ins)}")
    return OwnScore(encoder, score, None, "not measured")


def batches(lines: Iterable[Line]) -> list[tuple[list[str], list[str], list[str]]]:
    """What to run for the lines that only need a run: encoders that lack the same sets, tasks, subsets."""
    sets_of: dict[str, dict[tuple[str, str], None]] = {}
    for line in lines:
        for subset in (line.score.parts or [line.score.subset]) if line.runs else ():
            sets_of.setdefault(line.runs, {})[(line.score.task, subset)] = None
    models_of: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for model, sets in sets_of.items():
        models_of.setdefault(tuple(sets), []).append(model)
    runs = []
    for pairs, models in models_of.items():
        tasks, subsets = (list(dict.fromkeys(names)) for names in zip(*pairs, strict=True))
        runs.append((models, tasks, subsets))
    return runs


def _choose_model(score: PublishedScore) -> tuple[str, str]:
    """The first of a score's models that is ready, or else the first, with what must be had or made before it is."""
    choices = [(model, _missing_model(score, model)) for model in score.models]
    return next((choice for choice in choices if not choice[1]), choices[0])


def _missing_model(score: PublishedScore, model: str) -> str:
    """What must be had or made before there is such a model here; empty if it is ready."""
    spec = parse_spec(model)
    try:
        needs = encoder_info(spec.head).needs(spec.head)
    except HarnessError as error:
        return str(error)
    if needs is None and spec.location is not None:  # nothing tells whether a location is here already
        return f"the model's download, in {_command(score, model)}"
    return needs or ""


def _command(score: PublishedScore, model: str) -> str:
    subsets = " ".join(f"--subset {name}" for name in score.parts or [score.subset])
    return f"leaderboard run --encoder {shlex.quote(model)} --task {score.task} {subsets}"
