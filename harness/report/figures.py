"""The numbers of a board as cells: values, intervals, the best in bold; and the notes that explain them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from math import isnan, nan

from harness.core.names import Subset
from harness.protocol.described import metric_of, task_order
from harness.protocol.languages import is_made_for
from harness.protocol.task import Metric
from harness.report.cells import BETTER, OTHER_LANGUAGE, WORSE, Cell, Note, p_text
from harness.results.records import Result
from harness.results.statistics import Statistics
from harness.statistics.board import Board, Key

P_ZERO = "p of "
"""Prefix of a metric's name: stands for its test against zero (of a difference)."""


class Figures:
    """The numbers of a board as cells, and the notes that explain the cells."""

    def __init__(self, board: Board, texts: Mapping[tuple[str, Key], str] | None = None, reference: str = ""):
        """What a table shows.

        Args:
            texts: by encoder and key, the text that takes the place of a number.
            reference: the encoder that others are marked against; empty: none.
        """
        self._board, self._texts, self._reference = board, texts or {}, reference
        self._shown: dict[tuple[str, Key], Result] = {}
        self._shows_p_zero = self._shows_other_language = False

    def present(self, keys: Iterable[Key]) -> list[Key]:
        """The keys that have a number or a text; a difference is followed by the key of its test against zero."""
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
        """A number with its interval, bold if the encoder is among the best, marked if it is on other languages."""
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
        is_other_language = metric_of(task, metric).has_interval and is_made_for(result) is False
        self._shows_other_language |= is_other_language
        return Cell(
            result.metrics[metric],
            metric_of(task, metric).kind,
            interval=self._board.interval(result, metric),
            is_best=encoder in self._board.standing(key).best,
            is_other_language=is_other_language,
            mark=self._mark(encoder, key),
        )

    def _mark(self, encoder: str, key: Key) -> str:
        p = self._board.against(key, self._reference).get(encoder, 1.0) if self._reference else 1.0
        if not p < self._board.statistics(key[0]).alpha:
            return ""
        results = self._board.results(key[0], key[1])
        return BETTER if results[encoder].metrics[key[2]] > results[self._reference].metrics[key[2]] else WORSE

    def signature(self, task: str) -> str:
        """The signature of the intervals and tests, to append to that of a task's scores; may be empty."""
        shown = (self._board.resampling(r) for r in self._shown.values() if r.task == task)
        return next((f"|{signature}" for signature in shown if signature), "")

    def legend(self, line: str = "column") -> list[Note]:
        """Explains intervals and bold, and names who has none; only for cells that were asked for.

        line: where the encoders of one subset and metric stand, a column or a row.
        """
        notes = []
        keys = [key for _, key in self._shown]
        if tasks := [key[0] for (_, key), result in self._shown.items() if self._board.interval(result, key[2])]:
            notes.append(interval_note(self._board.statistics(tasks[0])))
        if tasks := [key[0] for encoder, key in self._shown if encoder in self._board.standing(key).best]:
            meaning = (
                f": the best, and all that are not significantly worse than it (paired randomisation test, "
                f"p >= {self._board.statistics(tasks[0]).alpha:g}, corrected by Holm over the encoders of a {line}, "
                f"not over the {line}s)"
            )
            notes.append(Note("bold", rest=meaning, is_on_bold=True))
            differences = dict.fromkeys(key[2] for key in keys if _metric(key).kind == "difference")
            notes += [Note(f"{name} is not ranked: it is no better for being higher") for name in differences]
        notes += self._on_reference(line)
        if self._shows_other_language:
            notes.append(other_language_note())
        if self._shows_p_zero:
            notes.append(Note("p: the difference against zero (bootstrap), corrected by Holm over all of the table"))
        return notes + self._gaps()

    def _on_reference(self, line: str) -> list[Note]:
        """Explains the marks against the reference, and names who was not tested against it."""
        ranked = [(encoder, key) for encoder, key in self._shown if _metric(key).is_ranked]
        if not (self._reference and ranked):
            return []
        alpha = self._board.statistics(ranked[0][1][0]).alpha
        text = (
            f"{BETTER} {WORSE}: significantly better, or worse, than {self._reference} (paired randomisation test, "
            f"p < {alpha:g}, corrected by Holm over the encoders of a {line})"
        )
        untested: dict[str, list[str]] = {}
        for encoder, key in ranked:
            if encoder != self._reference and isnan(self._board.against(key, self._reference).get(encoder, nan)):
                untested.setdefault(encoder, []).append(key[1])
        notes = [Note(text, is_caption=True)]
        if untested:
            notes.append(Note(f"not tested against {self._reference}, so without a mark: {self._listed(untested)}"))
        return notes

    def _gaps(self) -> list[Note]:
        """Names the encoders and subsets without an interval, without a test, or without a best one."""
        without_entry: dict[str, list[str]] = {}
        without_interval: dict[str, list[str]] = {}
        untested: dict[str, list[str]] = {}
        without_best: list[str] = []
        to_measure: list[Result] = []
        for (encoder, key), result in self._shown.items():
            _, subset, metric = key
            entry, standing = self._board.entry(result), self._board.standing(key)
            if entry is None and _metric(key).has_interval:
                without_entry.setdefault(encoder, []).append(subset)
                to_measure.append(result)
            elif standing.untested and not standing.best:
                without_best.append(f"{subset} {_metric(key).heading}")
            elif encoder in standing.untested - standing.best:
                untested.setdefault(encoder, []).append(subset)
            if entry and isnan(entry.interval.get(metric, (0.0, 0.0))[0]):
                without_interval.setdefault(encoder, []).append(subset)
        notes = []
        if without_entry:
            text, command = f"no interval and no test: {self._listed(without_entry)}", run_command(to_measure)
            notes.append(Note(f"{text}; to mend it: ", command) if command else Note(text))
        if without_interval:
            text = f"no interval: all items alike, or fewer than three: {self._listed(without_interval)}"
            notes.append(Note(text))
        if untested:
            notes.append(Note(f"not tested against the best, so not bold: {self._listed(untested)}"))
        if without_best:
            notes.append(Note(f"nothing bold, as none was tested against the highest: {shortened(without_best)}"))
        return notes

    def _listed(self, subsets_of: Mapping[str, Sequence[str]]) -> str:
        """The encoders, with their subsets if these are not all that they have in the table."""
        texts = []
        for encoder, subsets in sorted(subsets_of.items()):
            everything = {key[1] for name, key in self._shown if name == encoder}
            texts.append(encoder + ("" if set(subsets) == everything else f" on {shortened(subsets)}"))
        return ", ".join(texts)


def _metric(key: Key) -> Metric:
    task, _, metric = key
    return metric_of(task, metric)


def shortened(names: Iterable[str], limit: int = 3) -> str:
    """The first names, and how many more there are."""
    unique = list(dict.fromkeys(names))
    return ", ".join(unique[:limit]) + (f" and {len(unique) - limit} more" if len(unique) > limit else "")


def run_command(results: Sequence[Result]) -> str:
    """The command line that measures these records again and keeps their rows; encoders of the same tasks share a run.

    It is empty for encoders that were measured through the Python API, which have no spec string.
    """
    tasks_of: dict[tuple[str, bool], list[str]] = {}
    for result in results:
        if result.spec:
            tasks_of.setdefault((result.spec, Subset.parse(result.subset).is_sample), []).append(result.task)
    specs_of: dict[tuple[tuple[str, ...], bool], list[str]] = {}
    for (spec, is_sample), tasks in tasks_of.items():
        specs_of.setdefault((tuple(task_order(tasks)), is_sample), []).append(spec)
    commands = []
    for (of_run, is_sample), specs in specs_of.items():
        options = [f"--encoder {shlex.quote(spec)}" for spec in sorted(specs)] + [f"--task {task}" for task in of_run]
        commands.append(" ".join(["leaderboard run --save-rows", *(["--suite sample"] * is_sample), *options]))
    return " && ".join(commands)


def other_language_note() -> Note:
    """The line that explains the mark."""
    return Note(f"{OTHER_LANGUAGE}: on a language that the encoder was not made for; an average, on one or more")


def interval_note(statistics: Statistics) -> Note:
    """The line that explains the brackets."""
    return Note(f"[low, high]: {100 * statistics.level:g} % interval (BCa bootstrap of the items)")


def folded_note(folded: Iterable[Result]) -> list[Note]:
    """The note on results of cut and quantised vectors that a table leaves out, if there are any."""
    variants: dict[str, set[str]] = {}
    for result in folded:
        variants.setdefault(result.base or "", set()).add(result.encoder)
    counts = ", ".join(f"{len(names)} of {base}" for base, names in sorted(variants.items()))
    return [Note(f"not shown: cut or quantised vectors, {counts}; the page sweep.md has them")] if variants else []
