"""A comparison as tables, and as entries for CSV and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import floor, isfinite

from harness.core.names import Subset
from harness.protocol.described import board_title, task_order
from harness.report.cells import MISSING, Cell, Column, Note, Row, Table, p_text
from harness.report.conclusion import (
    conclusion,
    difference_cell,
    headlines,
    value_cell,
)
from harness.report.tables import tag_notes
from harness.resampling.resamples import Resampling
from harness.statistics.comparison import Compared, Difference, win_tie_loss


def tables(
    compared: Sequence[Compared], encoders: Sequence[str], plan: Resampling, signatures: Mapping[str, str]
) -> list[Table]:
    """A table a task (for more than two encoders others, against the best and of the ranks), then win / tie / loss.

    The conclusion is the last note.

    signatures: of each task.
    """
    alpha = plan.alpha
    found: list[Table] = []
    for task in task_order(one.task for one in compared):
        of_task = [one for one in compared if one.task == task]
        is_bias = of_task[0].kind == "bias"
        make = _of_two if len(encoders) == 2 else _of_many
        made = [make(of_task, encoders, alpha)]
        if len(encoders) > 2 and not is_bias:
            made.append(_against_the_best(of_task, alpha))
            made += [_of_ranks(one, plan) for one in headlines(of_task, "average") if one.ranks]
        title = board_title(task, [of_task[0].metric], Subset.parse(of_task[0].subset).is_sample)
        notes = [*map(Note, _missing(of_task)), *tag_notes(one.subset for one in of_task)]
        notes.append(Note("signature: ", f"{signatures[task]}|{plan.signature}"))
        made = [replace(table, title=f"{title}{table.title}") for table in made]
        found += [*made[:-1], replace(made[-1], notes=(*made[-1].notes, *notes))]
    if any(one.kind == "set" and one.differences for one in compared):
        found.append(_win_tie_loss(compared, encoders, alpha))
    closing = [
        *_legend(plan, len(encoders)),
        *_too_few_resamples(compared, plan),
        conclusion(compared, encoders, alpha),
    ]
    return [*found[:-1], replace(found[-1], notes=(*found[-1].notes, *map(Note, closing)))]


def _of_two(compared: Sequence[Compared], encoders: Sequence[str], alpha: float) -> Table:
    first, second = encoders
    is_bias = compared[0].kind == "bias"
    tested = (f"p {first} = 0", f"p {second} = 0") if is_bias else ("result",)
    heads = ("subset", first, second, f"{first} - {second}", "p", "p (Holm)", "effect", "units", *tested)
    rows = []
    for one in compared:
        difference = one.between(first, second)
        if is_bias:
            last = [Cell(p_text(one.p_zero[name]) if name in one.p_zero else None) for name in encoders]
        else:
            last = [Cell(difference.outcome(alpha) if difference else None)]
        values = [_value(one, name, name in one.standing.best) for name in encoders]
        rows.append(Row((Cell(one.subset), *values, *_difference_cells(one, difference), *last), bool(one.parts)))
    if is_bias:
        notes = [Note("p ... = 0: an encoder's bias against zero, corrected by Holm over encoders and biases")]
    else:
        notes = [
            Note(f"result: of {first}; win or loss where p (Holm) < {alpha:g}"),
            Note("bold", rest=f": the better one where p < {alpha:g}, else both", is_on_bold=True),
        ]
    columns = tuple(Column(head, is_number=head not in ("subset", "result")) for head in heads)
    return Table("", columns, tuple(rows), tuple(notes))


def _difference_cells(one: Compared, difference: Difference | None) -> list[Cell]:
    if difference is None:
        return [Cell(None)] * 5
    c = difference.comparison
    return [
        difference_cell(difference, one.kind),
        Cell(p_text(c.p)),
        Cell(p_text(difference.p_holm)),
        Cell(f"{round(c.effect_size, 2) + 0.0:+.2f}" if isfinite(c.effect_size) else None),
        Cell(c.units, "count"),
    ]


def _of_many(compared: Sequence[Compared], encoders: Sequence[str], alpha: float) -> Table:
    is_bias = compared[0].kind == "bias"
    heads = [(name, sub) for name in encoders for sub in (("difference", "p") if is_bias else ("",))]
    columns = [Column("subset", is_number=False), *(Column(*head) for head in heads)]
    rows = []
    for one in compared:
        cells = [_value(one, name, name in one.standing.best) for name in encoders]
        if is_bias:
            tests = (Cell(p_text(one.p_zero[name]) if name in one.p_zero else None) for name in encoders)
            cells = [cell for pair in zip(cells, tests, strict=True) for cell in pair]
        rows.append(Row((Cell(one.subset), *cells), bool(one.parts)))
    if is_bias:
        note = Note("p: the bias against zero, corrected by Holm over encoders and biases")
    else:
        meaning = (
            f": the best, and all that are not significantly worse than it (p >= {alpha:g}, corrected by Holm over "
            "the encoders of a row, not over the rows)"
        )
        note = Note("bold", rest=meaning, is_on_bold=True)
    return Table("", tuple(columns), tuple(rows), (note,))


def _value(one: Compared, encoder: str, is_best: bool) -> Cell:
    if encoder not in one.values:
        return Cell(None)
    return value_cell(one.values[encoder], "difference" if one.kind == "bias" else "score", is_best=is_best)


def _against_the_best(compared: Sequence[Compared], alpha: float) -> Table:
    heads = ("subset", "best", "encoder", "encoder - best", "p", "p (Holm)", "effect", "units")
    rows = []
    for one in compared:
        if not one.differences:
            continue
        best = one.standing.leader
        for encoder, p in one.standing.p.items():
            difference = one.between(encoder, best)
            assert difference is not None
            cells = _difference_cells(one, replace(difference, p_holm=p))
            if encoder in one.standing.equals:
                cells[0] = replace(cells[0], shown="= best")
            rows.append(Row((Cell(one.subset), Cell(best), Cell(encoder), *cells), bool(one.parts)))
    columns = tuple(Column(head, is_number=head not in ("subset", "best", "encoder")) for head in heads)
    return Table(", against the best of each set", columns, tuple(rows), n_keys=3)


def _of_ranks(one: Compared, plan: Resampling) -> Table:
    """Of all encoders, by rank."""
    rows = [
        Row((Cell(encoder), _value(one, encoder, False), Cell(rank.rank, "count"), Cell(f"{rank.low} to {rank.high}")))
        for encoder, rank in sorted(one.ranks.items(), key=lambda item: item[1].rank)
    ]
    columns = (Column("encoder", is_number=False), Column("value"), Column("rank"), Column("interval of the rank"))
    note = Note(f"interval of the rank: {100 * plan.level:g} %, of all encoders together (Mogstad et al. 2024)")
    return Table(f", rank on {one.subset}", columns, tuple(rows), (note,))


def _win_tie_loss(compared: Sequence[Compared], encoders: Sequence[str], alpha: float) -> Table:
    rows = []
    for first, second in combinations(encoders, 2):
        counts = win_tie_loss(compared, first, second, alpha)
        rows.append(Row((Cell(f"{first} against {second}"), *(Cell(n, "count") for n in counts.values()))))
    n = sum(one.kind == "set" and bool(one.differences) for one in compared)
    title = f"Win / tie / loss over {n} set{'s' if n > 1 else ''} (p < {alpha:g}, corrected by Holm over the sets)"
    columns = (Column("pair", is_number=False), Column("win"), Column("tie"), Column("loss"))
    return Table(title, columns, tuple(rows))


def _legend(plan: Resampling, n_encoders: int) -> list[str]:
    corrected = "over the sets of all tasks, the averages, and the biases, each by themselves"
    if n_encoders > 2:
        corrected = "over the encoders that are held against the best; in win / tie / loss, of each pair over the sets"
    return [
        f"[low, high]: {100 * plan.level:g} % intervals; p: approximate randomisation; Holm: corrected {corrected}",
        "effect: the difference in standard deviations of its per-item influence; units: the items that are resampled, "
        "which are clusters where sets share their source pairs",
    ]


def _missing(compared: Sequence[Compared]) -> list[str]:
    """Which encoder has no value, and why."""
    notes = [f"{MISSING} {encoder} on {one.subset}: {why}" for one in compared for encoder, why in one.missing.items()]
    few = [one.subset for one in compared if any(not isfinite(d.comparison.p) for d in one.differences)]
    if few:
        notes.append(f"no intervals and tests with fewer than three items: {', '.join(few)}")
    alike = [
        f"{encoder} on {one.subset}"
        for one in compared
        for encoder, value in one.values.items()
        if one.subset not in few and not isfinite(value.low)
    ]
    if alike:
        notes.append(f"no interval: all items alike: {', '.join(alike)}")
    return notes


def _too_few_resamples(compared: Sequence[Compared], plan: Resampling) -> list[str]:
    """With T tests the smallest corrected p-value is T / (resamples + 1)."""
    tests = max(
        (sum(one.kind == kind and bool(one.differences) for one in compared) for kind in ("set", "average", "bias")),
        default=0,
    )
    alpha = plan.alpha
    if tests / (plan.resamples + 1) < alpha:
        return []
    return [
        f"{plan.resamples} resamples are too few for any of {tests} corrected tests to be significant: give "
        f"--resamples {floor(tests / alpha + 1e-9)} or more"
    ]


def entries(compared: Sequence[Compared], encoders: Sequence[str], plan: Resampling) -> list[dict[str, object]]:
    """One entry a set and pair of encoders, numbers in full precision; None where there is no value or no test.

    Keys: task, subset, metric, kind; first, second and for each its value, low, high, p_zero (of a bias); difference,
    low, high, p, p_holm, effect_size, units, result (of the first); missing (who has no value, and why).
    """
    alpha = plan.alpha
    return [_entry(one, first, second, alpha) for one in compared for first, second in combinations(encoders, 2)]


def _entry(one: Compared, first: str, second: str, alpha: float) -> dict[str, object]:
    entry: dict[str, object] = {"task": one.task, "subset": one.subset, "metric": one.metric, "kind": one.kind}
    for place, name in (("first", first), ("second", second)):
        value = one.values.get(name)
        entry[place] = name
        entry |= {f"{place}_{key}": _number(value, key) for key in ("value", "low", "high")}
        entry[f"{place}_p_zero"] = one.p_zero.get(name)
    difference = one.between(first, second)
    comparison = difference.comparison if difference else None
    entry |= {key: _number(comparison, key) for key in ("difference", "low", "high", "p")}
    entry["p_holm"] = _number(difference, "p_holm")
    entry |= {key: _number(comparison, key) for key in ("effect_size", "units")}
    entry["result"] = difference.outcome(alpha) if difference and one.kind != "bias" else None
    entry["missing"] = "; ".join(f"{name}: {why}" for name, why in one.missing.items() if name in (first, second))
    return entry


def _number(holder: object, attribute: str) -> float | None:
    """The attribute, None where there is no holder or no number."""
    value = getattr(holder, attribute, None)
    return value if value is not None and isfinite(value) else None
