"""The numbers of a board: values with their intervals, which are the best, and what a reader must know of both."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from math import isnan

from harness.core.names import Subset
from harness.protocol.described import metric_of, task_order
from harness.protocol.task import Metric
from harness.report.cells import Cell, Note, p_text
from harness.results.records import Result
from harness.results.statistics import Statistics
from harness.statistics.board import Board, Key

P_ZERO = "p of "
"""In front of a metric's name: its test against zero, of a difference."""


class Figures:
    """The numbers of a board as cells, and the notes that explain the cells."""

    def __init__(self, board: Board, texts: Mapping[tuple[str, Key], str] | None = None):
        """`texts`: by encoder and key, what stands in place of a number."""
        self._board, self._texts = board, texts or {}
        self._shown: dict[tuple[str, Key], Result] = {}
        self._shows_p_zero = False

    def present(self, keys: Iterable[Key]) -> list[Key]:
        """The keys under which there is something; behind a difference its test against zero, where there is one."""
        present = []
        for key in keys:
            task, subset, metric = key
            results = self._board.results(task, subset).values()
            if any(metric in result.metrics for result in results) or any(key == other for _, other in self._texts):
                present.append(key)
            if any(self._board.p_zero(result, metric) is not None for result in results):
                present.append((task, subset, P_ZERO + metric))
        return present

    def cell(self, encoder: str, key: Key) -> Cell:
        """A number with its interval, bold if it is among the best."""
        task, subset, metric = key
        result = self._board.results(task, subset).get(encoder)
        if (encoder, key) in self._texts:
            return Cell(self._texts[encoder, key])
        if result is not None and metric.startswith(P_ZERO):
            self._shows_p_zero = True
            p = self._board.p_zero(result, metric.removeprefix(P_ZERO))
            return Cell(p, shown=p_text(p)) if p is not None else Cell("")
        if result is None or metric not in result.metrics:
            return Cell(None, metric_of(task, metric).kind)
        self._shown[encoder, key] = result
        return Cell(
            result.metrics[metric],
            metric_of(task, metric).kind,
            interval=self._board.interval(result, metric),
            is_best=encoder in self._board.standing(key).best,
        )

    def signature(self, task: str) -> str:
        """What is to be added to the signature of a task's scores: how intervals and tests were made."""
        shown = (self._board.resampling(r) for r in self._shown.values() if r.task == task)
        return next((f"|{signature}" for signature in shown if signature), "")

    def legend(self, line: str = "column") -> list[Note]:
        """What intervals and bold mean, and for whom there is none; of the cells that were asked for.

        `line`: where the encoders of one subset and metric stand, a column or a row.
        """
        notes = []
        shown = [(encoder, key, result) for (encoder, key), result in self._shown.items()]
        with_interval = [key for _, key, result in shown if self._board.interval(result, key[2])]
        if with_interval:
            notes.append(interval_note(self._board.statistics(with_interval[0][0])))
        if best := [key for encoder, key, _ in shown if encoder in self._board.standing(key).best]:
            level = f"{self._board.statistics(best[0][0]).alpha:g}"
            meaning = (
                f": the best, and all that are not significantly worse than it (paired randomisation test, "
                f"p >= {level}, corrected by Holm over the encoders of a {line}, not over the {line}s)"
            )
            notes.append(Note("bold", rest=meaning, is_on_bold=True))
            for name in dict.fromkeys(key[2] for _, key in self._shown if _metric(key).kind == "difference"):
                notes.append(Note(f"{name} is not ranked: it is no better for being higher"))
        if self._shows_p_zero:
            notes.append(Note("p: the difference against zero (bootstrap), corrected by Holm over all of the table"))
        without: dict[str, list[str]] = {}
        unmeasured: list[Result] = []
        alike: dict[str, list[str]] = {}
        untested: dict[str, list[str]] = {}
        unled: list[str] = []
        for (encoder, key), result in self._shown.items():
            entry, of_key = self._board.entry(result), self._board.standing(key)
            if entry is None and _metric(key).has_interval:
                without.setdefault(encoder, []).append(key[1])
                unmeasured.append(result)
            elif of_key.untested and not of_key.best:
                unled.append(f"{key[1]} {_metric(key).heading}")
            elif encoder in of_key.untested - of_key.best:
                untested.setdefault(encoder, []).append(key[1])
            if entry and isnan(entry.interval.get(key[2], (0.0, 0.0))[0]):
                alike.setdefault(encoder, []).append(key[1])
        if without:
            text, command = f"no interval and no test: {self._listed(without)}", _measuring(unmeasured)
            notes.append(Note(f"{text}; to mend it: ", command) if command else Note(text))
        if alike:
            notes.append(Note(f"no interval: all items alike, or fewer than three: {self._listed(alike)}"))
        if untested:
            notes.append(Note(f"not tested against the best, so not bold: {self._listed(untested)}"))
        if unled:
            notes.append(Note(f"nothing bold, as none was tested against the highest: {_few(unled)}"))
        return notes

    def _listed(self, subsets_of: Mapping[str, Sequence[str]]) -> str:
        """Encoders; with the subsets where it is not all that they have in the table."""
        texts = []
        for encoder, subsets in sorted(subsets_of.items()):
            everything = {key[1] for name, key in self._shown if name == encoder}
            texts.append(encoder + ("" if set(subsets) == everything else f" on {_few(subsets)}"))
        return ", ".join(texts)


def _metric(key: Key) -> Metric:
    task, _, metric = key
    return metric_of(task, metric)


def _few(subsets: Iterable[str]) -> str:
    own = list(dict.fromkeys(subsets))
    return ", ".join(own[:3]) + (f" and {len(own) - 3} more" if len(own) > 3 else "")


def _measuring(results: Sequence[Result]) -> str:
    """What measures these records again with their rows, one for all encoders of the same tasks.

    There is none for what was measured through the Python API, whose encoder has no name.
    """
    tasks_of: dict[tuple[str, bool], list[str]] = {}
    for result in results:
        if result.spec:
            is_sample = Subset.parse(result.subset).is_sample
            tasks_of.setdefault((result.spec, is_sample), []).append(result.task)
    together: dict[tuple[tuple[str, ...], bool], list[str]] = {}
    for (spec, is_sample), tasks in tasks_of.items():
        together.setdefault((tuple(task_order(tasks)), is_sample), []).append(spec)
    commands = []
    for (own, is_sample), specs in together.items():
        chosen = [*(f"--encoder {shlex.quote(spec)}" for spec in sorted(specs)), *(f"--task {task}" for task in own)]
        commands.append(" ".join(["leaderboard run --save-rows", *(["--suite sample"] * is_sample), *chosen]))
    return " && ".join(commands)


def interval_note(statistics: Statistics) -> Note:
    """The line that explains the brackets."""
    return Note(f"[low, high]: {100 * statistics.level:g} % interval (BCa bootstrap of the items)")
