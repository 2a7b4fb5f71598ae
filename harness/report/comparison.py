"""A comparison as tables, and as entries for CSV and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import floor, isfinite

from harness.core.names import Subset
from harness.protocol.described import board_title, task_order
from harness.report.cells import MISSING, Cell, CellKind, Column, Note, Row, Table, p_text
from harness.report.conclusion import conclusion, difference_cell, headlines, value_cell
from harness.report.tables import tag_notes
from harness.resampling.power import FOUR_OF_FIVE, HALF, minimum_detectable
from harness.resampling.resamples import Resampling
from harness.statistics.board import holm
from harness.statistics.comparison import Comparison, Difference, win_tie_loss

_POWERS = (HALF, FOUR_OF_FIVE)


def tables(
    comparisons: Sequence[Comparison],
    encoders: Sequence[str],
    plan: Resampling,
    signatures: Mapping[str, str],
    reference: str = "",
    remarks: Sequence[str] = (),
) -> list[Table]:
    """A table per task (for more than two encoders, also against the best and of the ranks), then win / tie / loss.

    The conclusion is the last note.

    Args:
        signatures: by task.
        reference: of several encoders, the one that is held against each of the others in place of the best.
        remarks: what is to be known of the items.
    """
    alpha = plan.alpha
    all_tables: list[Table] = []
    for task in task_order(c.task for c in comparisons):
        of_task = [c for c in comparisons if c.task == task]
        task_tables = [_score_table(of_task, encoders, alpha)]
        if len(encoders) > 2 and of_task[0].kind != "bias":
            task_tables.append(_against(of_task, reference) if reference else _against_the_best(of_task))
            task_tables += [_rank_table(c, plan) for c in headlines(of_task, "average") if c.ranks]
        title = board_title(task, [of_task[0].metric], Subset.parse(of_task[0].subset).is_sample)
        notes = [*map(Note, _missing(of_task)), *tag_notes(c.subset for c in of_task)]
        notes.append(Note("signature: ", f"{signatures[task]}|{plan.signature}"))
        task_tables = [replace(table, title=f"{title}{table.title}") for table in task_tables]
        all_tables += [*task_tables[:-1], _with_notes(task_tables[-1], notes)]
    if any(c.kind == "set" and c.differences for c in comparisons):
        all_tables.append(_win_tie_loss(comparisons, encoders, alpha))
    closing = [*remarks, *_legend(plan, len(encoders), reference), *_too_few_resamples(comparisons, plan)]
    closing.append(conclusion(comparisons, encoders, alpha))
    return [*all_tables[:-1], _with_notes(all_tables[-1], list(map(Note, closing)))]


def _with_notes(table: Table, notes: Sequence[Note]) -> Table:
    return replace(table, notes=(*table.notes, *notes))


def _score_table(comparisons: Sequence[Comparison], encoders: Sequence[str], alpha: float) -> Table:
    """A row per subset with the value of each encoder; of two encoders also the difference and its test."""
    is_bias, is_pair = comparisons[0].kind == "bias", len(encoders) == 2
    rows = []
    for c in comparisons:
        values = [_value(c, encoder, is_best=encoder in c.standing.best) for encoder in encoders]
        tests = [Cell(p_text(c.p_zero[name]) if name in c.p_zero else None) for name in encoders] if is_bias else []
        if is_pair:
            difference = c.between(*encoders)
            outcome = [] if is_bias else [Cell(difference.outcome(alpha) if difference else None)]
            values += [*_difference_cells(c, difference), *tests, *outcome]
        elif is_bias:
            values = [cell for pair in zip(values, tests, strict=True) for cell in pair]
        rows.append(Row((Cell(c.subset), *values), bool(c.parts)))
    if is_pair:
        zero = [f"p {encoder} = 0" for encoder in encoders] if is_bias else []
        heads = [*encoders, " - ".join(encoders), "p", "p (Holm)", "effect", "units", *zero]
        columns = [*map(Column, heads), *([] if is_bias else [Column("result", is_number=False)])]
    else:
        columns = [Column(name, sub) for name in encoders for sub in (("difference", "p") if is_bias else ("",))]
    notes = _score_notes(encoders, alpha, is_bias=is_bias)
    return Table("", (Column("subset", is_number=False), *columns), tuple(rows), tuple(notes))


def _score_notes(encoders: Sequence[str], alpha: float, *, is_bias: bool) -> list[Note]:
    is_pair = len(encoders) == 2
    if is_bias:
        subject = "p ... = 0: an encoder's" if is_pair else "p: the"
        return [Note(f"{subject} difference against zero, corrected by Holm over encoders and subsets")]
    if is_pair:
        return [
            Note(f"result: of {encoders[0]}; win or loss where p (Holm) < {alpha:g}"),
            Note("bold", rest=f": the better one where p < {alpha:g}, else both", is_on_bold=True),
        ]
    meaning = (
        f": the best, and all that are not significantly worse than it (p >= {alpha:g}, corrected by Holm over "
        "the encoders of a row, not over the rows)"
    )
    return [Note("bold", rest=meaning, is_on_bold=True)]


def _value(comparison: Comparison, encoder: str, *, is_best: bool = False) -> Cell:
    if encoder not in comparison.values:
        return Cell(None)
    kind: CellKind = "difference" if comparison.kind == "bias" else "score"
    return value_cell(comparison.values[encoder], kind, is_best=is_best)


def _difference_cells(comparison: Comparison, difference: Difference | None) -> list[Cell]:
    """Difference, p, corrected p, effect size, units."""
    if difference is None:
        return [Cell(None)] * 5
    test = difference.test
    effect = f"{round(test.effect_size, 2) + 0.0:+.2f}" if isfinite(test.effect_size) else None
    p = [Cell(p_text(test.p)), Cell(p_text(difference.p_holm))]
    return [difference_cell(difference, comparison.kind), *p, Cell(effect), Cell(test.units, "count")]


def _against_the_best(comparisons: Sequence[Comparison]) -> Table:
    heads = ("subset", "best", "encoder", "encoder - best", "p", "p (Holm)", "effect", "units")
    rows = []
    for c in comparisons:
        for encoder, p in c.standing.p.items() if c.differences else ():
            difference = c.between(encoder, c.standing.leader)
            assert difference is not None
            cells = _difference_cells(c, replace(difference, p_holm=p))
            if encoder in c.standing.equals:
                cells[0] = replace(cells[0], shown="= best")
            rows.append(Row((Cell(c.subset), Cell(c.standing.leader), Cell(encoder), *cells), bool(c.parts)))
    columns = tuple(Column(head, is_number=i > 2) for i, head in enumerate(heads))
    return Table(", against the best of each set", columns, tuple(rows), n_keys=3)


def _against(comparisons: Sequence[Comparison], reference: str) -> Table:
    """The reference minus each of the others; p-values are corrected over the others, set by set."""
    heads = ("subset", "encoder", f"{reference} - encoder", "p", "p (Holm)", "effect", "units")
    rows = []
    for c in comparisons:
        others = [name for name in c.values if name != reference]
        found = [difference for name in others if (difference := c.between(reference, name))]
        for difference, p in zip(found, holm([d.test.p for d in found]), strict=True):
            cells = _difference_cells(c, replace(difference, p_holm=p))
            rows.append(Row((Cell(c.subset), Cell(difference.second), *cells), bool(c.parts)))
    columns = tuple(Column(head, is_number=i > 1) for i, head in enumerate(heads))
    return Table(f", {reference} against each", columns, tuple(rows), n_keys=2)


def _rank_table(comparison: Comparison, plan: Resampling) -> Table:
    """All encoders, ordered by rank."""
    rows = [
        Row((Cell(name), _value(comparison, name), Cell(rank.rank, "count"), Cell(f"{rank.low} to {rank.high}")))
        for name, rank in sorted(comparison.ranks.items(), key=lambda item: item[1].rank)
    ]
    columns = (Column("encoder", is_number=False), Column("value"), Column("rank"), Column("interval of the rank"))
    note = Note(f"interval of the rank: {100 * plan.level:g} %, of all encoders together (Mogstad et al. 2024)")
    return Table(f", rank on {comparison.subset}", columns, tuple(rows), (note,))


def _win_tie_loss(comparisons: Sequence[Comparison], encoders: Sequence[str], alpha: float) -> Table:
    rows = []
    for first, second in combinations(encoders, 2):
        counts = win_tie_loss(comparisons, first, second, alpha)
        rows.append(Row((Cell(f"{first} against {second}"), *(Cell(n, "count") for n in counts.values()))))
    n = sum(c.kind == "set" and bool(c.differences) for c in comparisons)
    title = f"Win / tie / loss over {n} set{'s' if n > 1 else ''} (p < {alpha:g}, corrected by Holm over the sets)"
    columns = (Column("pair", is_number=False), Column("win"), Column("tie"), Column("loss"))
    return Table(title, columns, tuple(rows))


def _legend(plan: Resampling, n_encoders: int, reference: str) -> list[str]:
    corrected = "over the sets of all tasks, the averages, and the subsets of differences, each by themselves"
    if n_encoders > 2:
        others = f"that {reference} is held against" if reference else "that are held against the best"
        corrected = f"over the encoders {others}; in win / tie / loss, of each pair over the sets"
    return [
        f"[low, high]: {100 * plan.level:g} % intervals; p: approximate randomisation; Holm: corrected {corrected}",
        "effect: the difference in standard deviations of its per-item influence; units: the items that are resampled, "
        "which are clusters where sets share their source pairs",
    ]


def _missing(comparisons: Sequence[Comparison]) -> list[str]:
    """Which encoder has no value or no interval, and why."""
    notes = [f"{MISSING} {encoder} on {c.subset}: {why}" for c in comparisons for encoder, why in c.missing.items()]
    too_small = [c.subset for c in comparisons if any(not isfinite(d.test.p) for d in c.differences)]
    if too_small:
        notes.append(f"no intervals and tests with fewer than three items: {', '.join(too_small)}")
    constant = [
        f"{encoder} on {c.subset}"
        for c in comparisons
        for encoder, value in c.values.items()
        if c.subset not in too_small and not isfinite(value.low)
    ]
    if constant:
        notes.append(f"no interval: all items alike: {', '.join(constant)}")
    return notes


def _too_few_resamples(comparisons: Sequence[Comparison], plan: Resampling) -> list[str]:
    """A note if no corrected test can be significant: of T tests the smallest p-value is T / (resamples + 1)."""
    kinds = [c.kind for c in comparisons if c.differences]
    n_tests = max(map(kinds.count, kinds), default=0)
    if n_tests / (plan.resamples + 1) < plan.alpha:
        return []
    return [
        f"{plan.resamples} resamples are too few for any of {n_tests} corrected tests to be significant: give "
        f"--resamples {floor(n_tests / plan.alpha + 1e-9)} or more"
    ]


def entries(comparisons: Sequence[Comparison], encoders: Sequence[str], plan: Resampling) -> list[dict[str, object]]:
    """An entry per set and pair of encoders, numbers in full precision; None where there is no value or no test.

    Keys: task, subset, metric, kind; first, second and for each its value, low, high, p_zero (of a bias); difference,
    low, high, p, p_holm, n_tests (that p_holm is corrected over), effect_size, units, standard_error; mde_50 and
    mde_80, the true differences that a test at mde_level (the strictest of Holm's correction) finds in 50 % and 80 % of
    cases; result (of the first); missing (who has no value, and why).
    """
    return [_entry(c, *pair, plan.alpha) for c in comparisons for pair in combinations(encoders, 2)]


def _entry(comparison: Comparison, first: str, second: str, alpha: float) -> dict[str, object]:
    c = comparison
    entry: dict[str, object] = {"task": c.task, "subset": c.subset, "metric": c.metric, "kind": c.kind}
    for place, name in (("first", first), ("second", second)):
        value = c.values.get(name)
        entry[place] = name
        entry |= {f"{place}_{key}": _number(value, key) for key in ("value", "low", "high")}
        entry[f"{place}_p_zero"] = c.p_zero.get(name)
    difference = c.between(first, second)
    test = difference.test if difference else None
    entry |= {key: _number(test, key) for key in ("difference", "low", "high", "p")}
    entry["p_holm"] = _number(difference, "p_holm")
    entry["n_tests"] = difference.n_tests if difference else None
    entry |= {key: _number(test, key) for key in ("effect_size", "units", "standard_error")}
    level = alpha / difference.n_tests if difference and difference.n_tests else None
    reach = [minimum_detectable(test.spread, level, power) if test and level else None for power in _POWERS]
    entry |= {"mde_level": level, "mde_50": reach[0], "mde_80": reach[1]}
    entry["result"] = difference.outcome(alpha) if difference and c.kind != "bias" else None
    entry["missing"] = "; ".join(f"{name}: {why}" for name, why in c.missing.items() if name in (first, second))
    return entry


def _number(holder: object, attribute: str) -> float | None:
    """The attribute; None if there is no holder or no number."""
    value = getattr(holder, attribute, None)
    return value if value is not None and isfinite(value) else None
