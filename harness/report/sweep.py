"""How small vectors can be: an encoder's cut and quantised vectors held against its full ones, as tables and entries.

All is made from records and their statistics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan

from harness.encoders.reduction import QUANTIZE, Reduced, vector_bytes
from harness.protocol.described import described, metric_of, metric_order, subset_order, task_order, title_of
from harness.report.cells import Cell, Column, Note, Row, Table, p_is, p_text
from harness.report.figures import interval_note
from harness.report.headlines import headlines
from harness.report.tables import missing_note, split_sample, tag_notes
from harness.results.records import Result
from harness.results.statistics import Statistics
from harness.statistics.board import Board, Key, holm

EXPLANATION = (
    "Each row has the same vectors, cut to their first components, quantised, or both: int8 has a byte a component, "
    "with scales from a fixed set of sentences; binary has a bit, its sign. Bytes: of one vector in an index. "
    "Difference: to the full vectors, on the same items."
)
_SHOWN = {"none": "float32"}


@dataclass(frozen=True)
class Point:
    """One number of cut or quantised vectors, beside that of the full ones.

    Attributes:
        interval: of the value.
        difference, ends: to the full vectors, and its interval.
        p, p_holm: of the paired test against the full vectors; NaN if not tested. Holm's correction is over all
            variants of the encoder.
        alpha: level of the test.
    """

    value: float
    interval: tuple[float, float] | None
    difference: float | None
    ends: tuple[float, float] | None
    p: float
    p_holm: float
    alpha: float

    @property
    def is_tested(self) -> bool:
        """Whether there is a test."""
        return not isnan(self.p_holm)

    @property
    def is_worse(self) -> bool:
        """Whether it is significantly worse than the full vectors."""
        return self.p_holm < self.alpha and (self.difference or 0.0) < 0


@dataclass(frozen=True)
class Curve:
    """An encoder's full vectors and what was made from them, on real data or on the bundled sample.

    Attributes:
        full: the encoder's name.
        full_dim: its dimension.
        variants: of each variant a result, and what was done to its vectors; the most dimensions first.
        keys: which numbers are shown, each with the column over all tasks.
        points: by variant and key.
        values: those of the full vectors, by key, with their intervals.
        signatures: of scores and resampling, by task.
    """

    full: str
    full_dim: int
    variants: list[tuple[Result, Reduced]]
    keys: list[tuple[Column, Key]]
    points: Mapping[tuple[str, Key], Point]
    values: Mapping[Key, tuple[float, tuple[float, float] | None]]
    signatures: Mapping[str, str]


def all_curves(results: Sequence[Result], statistics: Mapping[str, Statistics]) -> list[Curve]:
    """A curve for each encoder of which there are cut or quantised vectors; real data first."""
    return [
        _curve(base, [r for r in part if base in (r.encoder, r.base)], statistics)
        for part in split_sample(results)
        for base in sorted({result.base for result in part if result.base and result.reduced})
    ]


def _curve(base: str, results: Sequence[Result], statistics: Mapping[str, Statistics]) -> Curve:
    board = Board(results, statistics)
    variants = {result.encoder: (result, result.reduced) for result in results if result.base and result.reduced}
    keys = _keys(results)
    points: dict[tuple[str, Key], Point] = {}
    values: dict[Key, tuple[float, tuple[float, float] | None]] = {}
    for _, key in keys:
        task, subset, metric = key
        there = {name: r for name, r in board.results(task, subset).items() if metric in r.metrics}
        known = board.statistics(task)
        full = there.pop(base, None)
        if full is not None:
            values[key] = full.metrics[metric], board.interval(full, metric)
        made = {name: full if full and result.is_made_from(full) else None for name, result in there.items()}
        tests = {name: known.p(r, of, metric) if (of := made[name]) else None for name, r in there.items()}
        p = {name: nan if value is None else value for name, value in tests.items()}
        corrected = dict(zip(p, holm(list(p.values())), strict=True))
        for name, result in there.items():
            of, ends = made[name], known.difference(result, metric)
            points[name, key] = Point(
                value=result.metrics[metric],
                interval=board.interval(result, metric),
                difference=None if of is None else round(result.metrics[metric] - of.metrics[metric], 6),
                ends=None if of is None or ends is None or isnan(ends[0]) else ends,
                p=p[name],
                p_holm=corrected[name],
                alpha=known.alpha,
            )
    shown = {key[0] for _, key in keys}
    signatures = {r.task: r.signature + f"|{board.resampling(r) or ''}".rstrip("|") for r in results if r.task in shown}
    full_dim = max(done.full_dim for _, done in variants.values())
    return Curve(base, full_dim, sorted(variants.values(), key=_place), keys, points, values, signatures)


def _place(variant: tuple[Result, Reduced]) -> tuple[int, int, str]:
    result, done = variant
    return -done.dim, QUANTIZE.index(done.quantize), result.encoder


def _keys(results: Sequence[Result]) -> list[tuple[Column, Key]]:
    """What stands for each task in the table over all tasks; of a task without that, its main metric on every set.

    Only numbers that some variant has.
    """
    measured = {(r.task, r.subset, metric) for r in results if r.base for metric in r.metrics}
    ranked = [(c, key) for c, key in headlines(results) if key in measured and metric_of(key[0], key[2]).is_ranked]
    by_task: dict[str, list[tuple[Column, Key]]] = {}
    for column, key in ranked:
        by_task.setdefault(key[0], []).append((column, key))
    found = []
    for task in task_order(result.task for result in results):
        of_task = [result for result in results if result.task == task and result.base]
        names = (metric for result in of_task[:1] for metric in result.metrics)
        metrics = [m for m in metric_order(task, names) if metric_of(task, m).is_ranked]
        if task not in by_task and metrics and described(task).display.overview != ():
            subsets = subset_order(task, (result.subset for result in of_task))
            by_task[task] = [(Column(title_of(task), subset), (task, subset, metrics[0])) for subset in subsets]
        found += by_task.get(task, [])
    return found


def curves(results: Sequence[Result], statistics: Mapping[str, Statistics]) -> list[Table]:
    """A table for each encoder and number: a row for the full vectors, then one for each variant.

    The notes end with what the tests allow to say.

    statistics: by task, those of these results.
    """
    tables = []
    for curve in all_curves(results, statistics):
        said, of_all = sentences(curve), [_by_all(curve)] if len(curve.keys) > 1 else []
        of_curve = [_table(curve, *keys, [text]) for keys, text in zip(curve.keys, said, strict=False)]
        of_curve[-1:] = [replace(table, notes=(*table.notes, *map(Note, of_all))) for table in of_curve[-1:]]
        tables += of_curve
    if tables:
        known = next((known for known in statistics.values() if known.entries), Statistics())
        tables[-1] = replace(tables[-1], notes=(*tables[-1].notes, *_legend(known)))
    return tables


def _legend(known: Statistics) -> list[Note]:
    return [
        interval_note(known),
        Note("difference: to the full vectors; p: paired randomisation test, corrected by Holm over the rows"),
        Note("bold", rest=f": not significantly worse than the full vectors (p >= {known.alpha:g})", is_on_bold=True),
        Note("not significantly worse is no proof of equality: the interval says how much worse it may be"),
    ]


def _table(curve: Curve, column: Column, key: Key, said: Sequence[str]) -> Table:
    value, interval = curve.values.get(key, (None, None))
    full = Cell(value, "score", interval=interval)
    rows = [Row((*_names(curve.full, curve.full_dim, "none"), full, Cell(""), Cell("")))]
    points = {r.encoder: point for r, _ in curve.variants if (point := curve.points.get((r.encoder, key)))}
    for result, done in curve.variants:
        rows.append(Row((*_names(result.encoder, done.dim, done.quantize), *_cells(points.get(result.encoder)))))
    heads = ("vectors", "dims", "type", "bytes", "score", "difference", "p (Holm)")
    columns = tuple(Column(head, is_number=head not in ("vectors", "type")) for head in heads)
    table = Table(f"{curve.full}, cut and quantised: {column.label}, x 100", columns, tuple(rows), n_keys=4)
    others = [name for name, point in points.items() if point.difference is None and key in curve.values]
    notes = [*missing_note(table), *tag_notes([key[1]])]
    if others:
        notes.append(Note(f"made from other vectors than {curve.full} has, or of other data: {', '.join(others)}"))
    if untested := [name for name, point in points.items() if point.difference is not None and not point.is_tested]:
        notes.append(Note(f"not tested against the full vectors: {', '.join(untested)}"))
    notes += map(Note, said)
    return replace(table, notes=(*notes, Note("signature: ", curve.signatures[key[0]])))


def _names(name: str, dim: int, quantize: str) -> list[Cell]:
    shown = Cell(_SHOWN.get(quantize, quantize))
    return [Cell(name), Cell(dim, "count"), shown, Cell(vector_bytes(dim, quantize), "count")]


def _cells(point: Point | None) -> list[Cell]:
    """Score, difference, corrected p."""
    if point is None:
        return [Cell(None)] * 3
    is_good = point.is_tested and not point.is_worse
    score = Cell(point.value, "score", interval=point.interval, is_best=is_good)
    return [score, Cell(point.difference, "gain", interval=point.ends), Cell(p_text(point.p_holm))]


def sentences(curve: Curve) -> list[str]:
    """What the tests allow to say, a sentence for each number; then one for all of them, if there are several."""
    said = []
    full = f"{curve.full_dim:,} dimensions, {vector_bytes(curve.full_dim, 'none'):,} bytes"
    for column, key in curve.keys:
        points = {r.encoder: p for r, _ in curve.variants if (p := curve.points.get((r.encoder, key)))}
        tested = [(r, done) for r, done in curve.variants if r.encoder in points and points[r.encoder].is_tested]
        good = [(r, done) for r, done in tested if not points[r.encoder].is_worse]
        text = f"{column.label}: nothing was tested against the full vectors of {curve.full}"
        if good:
            best, done = min(good, key=_bytes)
            text = (
                f"{column.label}: the smallest vectors of {curve.full} that are not significantly worse than the full "
                f"ones ({full}) have {_described(done)} ({_share(done)}), {_difference(points[best.encoder])}, "
                f"{p_is(points[best.encoder].p_holm)}"
            )
        elif tested:
            text = f"{column.label}: all are significantly worse than the full vectors of {curve.full} ({full})"
        worse = [f"{_described(d)}, {_difference(points[r.encoder])}" for r, d in tested if points[r.encoder].is_worse]
        said.append(text + (f"; significantly worse: {'; '.join(worse)}" if worse else "") + ".")
    return [*said, _by_all(curve)] if len(said) > 1 else said


def _by_all(curve: Curve) -> str:
    points = [[curve.points.get((r.encoder, key)) for _, key in curve.keys] for r, _ in curve.variants]
    good = [
        variant
        for variant, own in zip(curve.variants, points, strict=True)
        if all(point is not None and point.is_tested and not point.is_worse for point in own)
    ]
    done = min(good, key=_bytes)[1] if good else None
    smallest = f"have {_described(done)} ({_share(done)})" if done else "are the full ones"
    return f"All numbers: the smallest vectors of {curve.full} that are significantly worse by none of them {smallest}."


def _bytes(variant: tuple[Result, Reduced]) -> int:
    return variant[1].vector_bytes


def _described(done: Reduced) -> str:
    """`128 dimensions, int8: 128 bytes`."""
    how = "" if done.quantize == "none" else f", {done.quantize}"
    return f"{done.dim:,} dimensions{how}: {done.vector_bytes:,} bytes"


def _share(done: Reduced) -> str:
    """`1/8 of the full size`."""
    full = vector_bytes(done.full_dim, "none")
    share = (
        f"1/{full // done.vector_bytes}" if full % done.vector_bytes == 0 else f"{100 * done.vector_bytes / full:.0f} %"
    )
    return f"{share} of the full size"


def _difference(point: Point) -> str:
    """`2.1 points below [-2.8, -1.4]`."""
    cell = Cell(point.difference, "gain", interval=point.ends)
    size = Cell(abs(point.difference or 0.0), "score").text
    where = "apart" if size == "0.0" else "above" if cell.text.startswith("+") else "below"
    return f"{size} points {where} {cell.interval_text}".strip()


def entries(curves: Sequence[Curve]) -> list[dict[str, object]]:
    """An entry per variant and number, numbers in full precision; None where there is no value or no test.

    Keys: encoder, base, dim, quantize, bytes; task, subset, metric, value, low, high; difference (to the full vectors),
    difference_low, difference_high, p, p_holm, is_worse.
    """
    return [
        _entry(curve, result, done, key, point)
        for curve in curves
        for result, done in curve.variants
        for _, key in curve.keys
        if (point := curve.points.get((result.encoder, key)))
    ]


def _entry(curve: Curve, result: Result, done: Reduced, key: Key, point: Point) -> dict[str, object]:
    low, high = point.interval or (None, None)
    difference_low, difference_high = point.ends or (None, None)
    return {
        "encoder": result.encoder,
        "base": curve.full,
        "dim": done.dim,
        "quantize": done.quantize,
        "bytes": done.vector_bytes,
        **dict(zip(("task", "subset", "metric"), key, strict=True)),
        "value": point.value,
        "low": low,
        "high": high,
        "difference": point.difference,
        "difference_low": difference_low,
        "difference_high": difference_high,
        "p": None if isnan(point.p) else point.p,
        "p_holm": round(point.p_holm, 6) if point.is_tested else None,
        "is_worse": point.is_worse if point.is_tested else None,
    }
