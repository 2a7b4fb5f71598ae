"""What is said of mined pairs before anybody has judged them: the distribution of their scores, and what to expect."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.core.escaping import json_text
from harness.mining.advice import Advice
from harness.report.cells import Cell, Column, Note, Row, Table

_RATIOS = tuple(round(1 + 0.02 * step, 2) for step in range(11))
_DISTANCES = tuple(round(0.02 * step, 2) for step in range(11))
_QUANTILES = (0, 0.1, 0.25, 0.5, 0.75, 0.9, 1)
_BAR = 30  # characters
DOUBT = "Few pairs stand out from chance, and they may be none: judge a sample (--sample) before you trust this"


def expectations(advice: Advice, margin: str = "ratio") -> list[dict[str, float]]:
    """At thresholds from 1.00 to 1.20 (of distances from 0) and at the suggested one: pairs, precision, recall, F1.

    Precision, recall and F1 are expected ones x 100, and NaN where no pair has such a score, or nothing is expected.
    Pairs that are not each other's best are taken to be wrong.
    """
    thresholds = set(_DISTANCES if margin == "distance" else _RATIOS)
    if advice.threshold is not None:
        thresholds.add(advice.threshold)
    entries = []
    for threshold in sorted(thresholds):
        n, correct = int(np.count_nonzero(advice.mined >= threshold)), advice.correct_above(threshold)
        total = advice.n_correct
        entries.append(
            {
                "threshold": threshold,
                "pairs": n,
                "precision": 100 * correct / n if n and total else float("nan"),
                "recall": 100 * correct / total if total else float("nan"),
                "f1": 200 * correct / (n + total) if n and total else float("nan"),
            }
        )
    return entries


def _quantiles(scores: NDArray[np.float64]) -> list[float]:
    return [float(value) for value in np.quantile(scores, _QUANTILES)] if len(scores) else []


def advice_table(advice: Advice, margin: str = "ratio", *, has_filters: bool = False) -> Table:
    """The expectations, a bar of how many pairs lie between a threshold and the next one, and the suggestion."""
    entries = expectations(advice, margin)
    between = [int(entry["pairs"] - after["pairs"]) for entry, after in pairwise(entries)]
    between.append(int(entries[-1]["pairs"]))
    longest = max(1, *between[:-1])
    rows = []
    for entry, n in zip(entries, between, strict=True):
        is_suggested = entry["threshold"] == advice.threshold
        figures = [Cell(None if np.isnan(entry[key]) else entry[key], "score") for key in ("precision", "recall", "f1")]
        threshold = Cell(entry["threshold"], "threshold", is_best=is_suggested)
        bar = "#" * min(_BAR, max(round(_BAR * n / longest), n > 0))
        rows.append(Row((threshold, Cell(entry["pairs"], "count"), *figures, Cell(bar))))
    notes = ["Precision, recall and F1 are expected, from the scores alone: judge a sample (--sample) to know."]
    notes.append(
        "Recall: of the translations among the mined pairs; those in the files that were not mined do not count."
    )
    if advice.threshold is not None:
        notes.append(
            f"Suggested threshold: {advice.threshold:g} (about {advice.n_correct:,.0f} translations are expected among "
            f"{len(advice.scores):,} pairs that are each other's best)."
        )
        if advice.is_doubtful:
            notes.append(f"{DOUBT}.")
    else:
        notes.append(f"No threshold is suggested: {advice.reason}.")
    if has_filters:
        notes.append("All of this is before filters.")
    if quantiles := _quantiles(advice.mined):
        parts = (f"{value:.4f} ({100 * share:g} %)" for share, value in zip(_QUANTILES, quantiles, strict=True))
        notes.append(f"Scores of {len(advice.mined):,} pairs: {', '.join(parts)}.")
    heads = ("score at least", "pairs", "precision", "recall", "F1")
    columns = (*map(Column, heads), Column("pairs up to the next", is_number=False))
    title = "Thresholds, expected x 100" + (" (doubtful)" if advice.is_doubtful else "")
    return Table(title, columns, tuple(rows), tuple(map(Note, notes)))


def advice_json(advice: Advice, margin: str = "ratio") -> str:
    """The same for programs; what is not known is null."""
    entries: list[dict[str, Any]] = [
        {key: None if np.isnan(value) else round(value, 6) for key, value in entry.items()}
        for entry in expectations(advice, margin)
    ]
    content = {
        "suggested_threshold": advice.threshold,
        "reason": advice.reason,
        "is_doubtful": advice.is_doubtful,
        "expected_translations": round(advice.n_correct, 3),
        "pairs": len(advice.mined),
        "quantiles": dict(zip(map(str, _QUANTILES), (round(q, 6) for q in _quantiles(advice.mined)), strict=False)),
        "thresholds": entries,
    }
    return json_text(content, indent=2)
