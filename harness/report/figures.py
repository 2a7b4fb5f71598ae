"""The numbers of a board: values with their intervals, which are the best, and what a reader must know of both."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from math import isnan

from harness.names import Subset
from harness.report.cells import Cell, Key, Note, p_text
from harness.results import Result
from harness.significance.holm import holm
from harness.significance.standing import Standing, standing
from harness.significance.store import Entry, Statistics
from harness.tasks import Metric
from harness.tasks.described import metric_of, task_order

P_ZERO = "p of "
"""In front of a metric's name: its test against zero, of a difference."""


class Figures:
    """The stored numbers of several encoders, as cells.

    The best are those of the results given, so that a table of some of the encoders is right by itself.
    """

    def __init__(
        self,
        results: Sequence[Result],
        statistics: Mapping[str, Statistics],
        texts: Mapping[tuple[str, Key], str] | None = None,
    ):
        """`statistics`: by task, of these records. `texts`: by encoder and key, what stands in place of a number."""
        self._results: dict[tuple[str, str], dict[str, Result]] = {}
        for result in results:
            self._results.setdefault((result.task, result.subset), {})[result.encoder] = result
        self._statistics = statistics
        self._texts = texts or {}
        self._standings: dict[Key, Standing] = {}
        self._shown: dict[tuple[str, Key], Result] = {}
        self._shows_p_zero = False

    def present(self, keys: Iterable[Key]) -> list[Key]:
        """The keys under which there is something; behind a language bias its test, where there is one."""
        found = []
        for key in keys:
            task, subset, metric = key
            own = self._results.get((task, subset), {}).values()
            if any(metric in result.metrics for result in own) or any(key == other for _, other in self._texts):
                found.append(key)
            if any(self._p_against_zero(result, metric) is not None for result in own):
                found.append((task, subset, P_ZERO + metric))
        return found

    def cell(self, encoder: str, key: Key) -> Cell:
        """A number with its interval, bold if it is among the best."""
        task, subset, metric = key
        result = self._results.get((task, subset), {}).get(encoder)
        if (encoder, key) in self._texts:
            return Cell(self._texts[encoder, key])
        if result is not None and metric.startswith(P_ZERO):
            self._shows_p_zero = True
            p = self.p_zero(result, metric.removeprefix(P_ZERO))
            return Cell(p, shown=p_text(p)) if p is not None else Cell("")
        if result is None or metric not in result.metrics:
            return Cell(None, metric_of(task, metric).kind)
        self._shown[encoder, key] = result
        return Cell(
            result.metrics[metric],
            metric_of(task, metric).kind,
            interval=interval_of(result, metric, self._statistics),
            is_best=encoder in self.standing(key).best,
        )

    def signature(self, task: str) -> str:
        """What is to be added to the signature of a task's scores: how intervals and tests were made."""
        has_some = any(self._entry(r) for (_, (name, *_)), r in self._shown.items() if name == task)
        return f"|{self._statistics[task].signature}" if has_some else ""

    def legend(self, line: str = "column") -> list[Note]:
        """What intervals and bold mean, and for whom there is none; of the cells that were asked for.

        `line`: where the encoders of one subset and metric stand, a column or a row.
        """
        notes = []
        known = [self._statistics[t] for t in dict.fromkeys(key[0] for _, key in self._shown) if t in self._statistics]
        with_interval = [
            key for (_, key), r in self._shown.items() if interval_of(r, key[2], self._statistics) is not None
        ]
        if with_interval:
            notes.append(interval_note(self._statistics[with_interval[0][0]]))
        if any(encoder in self.standing(key).best for encoder, key in self._shown):
            level = f"{round(1 - known[0].level, 12):g}"
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
            entry, of_key = self._entry(result), self.standing(key)
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

    def standing(self, key: Key) -> Standing:
        """Which encoders are the best by a metric of a subset."""
        task, subset, metric = key
        if key not in self._standings:
            own = list(self._results.get((task, subset), {}).values())
            self._standings[key] = standing(own, metric, self._statistics.get(task, Statistics()))
        return self._standings[key]

    def _entry(self, result: Result) -> Entry | None:
        statistics = self._statistics.get(result.task)
        return statistics.entry(result) if statistics else None

    def p_zero(self, result: Result, metric: str) -> float | None:
        """The test of a difference against zero, corrected over all of the task; None if there is none."""
        return self._corrected(result.task, metric).get((result.encoder, result.subset))

    def made_by(self, result: Result) -> str | None:
        """How the intervals and tests of a record were made; None if it has none."""
        return self._statistics[result.task].signature if self._entry(result) else None

    def _p_against_zero(self, result: Result, metric: str) -> float | None:
        entry = self._entry(result)
        return entry.p_zero.get(metric) if entry else None

    def _corrected(self, task: str, metric: str) -> dict[tuple[str, str], float]:
        """By encoder and subset, the tests of the differences against zero, corrected over all of them."""
        tests = {
            (encoder, subset): p
            for (name, subset), own in self._results.items()
            if name == task
            for encoder, result in own.items()
            if (p := self._p_against_zero(result, metric)) is not None
        }
        return dict(zip(tests, holm(list(tests.values())), strict=True))


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


def interval_of(result: Result, metric: str, statistics: Mapping[str, Statistics]) -> tuple[float, float] | None:
    """The interval of one of a record's scores; None if there is none, or too few items for one."""
    entry = statistics[result.task].entry(result) if result.task in statistics else None
    ends = entry.interval.get(metric) if entry else None
    return None if ends is None or isnan(ends[0]) else ends


def interval_note(statistics: Statistics) -> Note:
    """The line that explains the brackets."""
    return Note(f"[low, high]: {100 * statistics.level:g} % interval (BCa bootstrap of the items)")
