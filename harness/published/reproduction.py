"""What it takes to measure a published score here: the model, the data set, the command."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.data import DataDir, Source
from harness.data.sts17 import EXTENDED
from harness.errors import HarnessError, InputError
from harness.published import Measured, Measurements, PublishedScore
from harness.registry import encoder_info
from harness.results import Result
from harness.spec import parse_spec
from harness.tasks import Task, get_task
from harness.tasks.language_bias import GROUPS


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
        sets = [_data_set(task, name) for name in names if name not in present]
        return [f"leaderboard data fetch {' '.join(dict.fromkeys(sets))}"] if sets else []

    def _altered_sets(self, score: PublishedScore) -> list[str]:
        """The command that tells which files are not the published ones, if there are any. Reads the files, once."""
        _, present, names = self._needed_sets(score)
        try:
            sets = [present[name].dataset for name in names if present[name].is_published is False]
        except InputError as error:
            return [str(error)]
        return [f"the published files: leaderboard data verify {' '.join(dict.fromkeys(sets))}"] if sets else []

    def _needed_sets(self, score: PublishedScore) -> tuple[str, dict[str, Source], Sequence[str]]:
        """The task that has the sets of a score, those of its sets that are in the data directory, and their names."""
        # Of a joined set, the parts may be missing.
        name = "sts17" if score.task == "language-bias" else score.task
        if name not in self._tasks:
            task = get_task(name)
            self._tasks[name] = task, task.sources(self._data) if self._data else {}
        task, present = self._tasks[name]
        parts = GROUPS[score.subset] if name != score.task else score.parts
        return name, present, parts or task.resolve(score.subset)


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


def _data_set(task: str, subset: str) -> str:
    if task == "sts17":
        return "sts17-extended" if subset in EXTENDED else "sts17"
    return "bucc2018" if task == "bucc" else task


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
