"""The picture of BUCC's page: precision and recall of the mined pairs against the threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import msgspec

from harness import charts
from harness.core.errors import InputError
from harness.core.schema import Number
from harness.protocol.described import subset_order
from harness.protocol.task import Picture
from harness.report.pictures import FOLDER
from harness.report.tables import rank_encoders
from harness.results.records import Result
from harness.results.statistics import Statistics

THRESHOLDS = "thresholds"
"""Under which name the statistics of a record have a `Curve`."""
_MOST = 6
_SAYS = "Precision, recall and F1 of the extracted pairs against the threshold"


class Curve(TypedDict):
    """`harness.tasks.bucc.detail`: lists of equal length."""

    threshold: list[Number]
    precision: list[Number]
    recall: list[Number]


def threshold_picture(results: Sequence[Result], statistics: Statistics) -> Picture | None:
    """A panel for each encoder and set of real data whose curve is stored; None without one.

    Of more than six encoders the first six by F1 are shown.

    Raises:
        InputError: a stored curve is none.
    """
    curves = {
        (r.encoder, r.subset): (r, _read(entry.more[THRESHOLDS], r))
        for r in results
        if (entry := statistics.entry(r)) and THRESHOLDS in entry.more and not r.subset.endswith("@sample")
    }
    if not curves:
        return None
    task = results[0].task
    known = {encoder for encoder, _ in curves}
    encoders = [name for name in rank_encoders(task, results, "f1_train")[0] if name in known][:_MOST]
    subsets = subset_order(task, (subset for _, subset in curves))
    rows, chosen = [], []
    for encoder in encoders:
        for subset in subsets:
            if (encoder, subset) not in curves:
                continue
            result, curve = curves[encoder, subset]
            where = {"encoder": encoder, "subset": subset}
            points = zip(curve["threshold"], curve["precision"], curve["recall"], strict=True)
            rows += [{**where, "threshold": t, "precision": p, "recall": r} for t, p, r in points]
            if "threshold" in result.metrics:
                chosen.append({**where, "threshold": result.metrics["threshold"]})
    subtitle = "training split; the dashed line: the threshold with the highest F1, which is then used"
    return Picture(
        f"{FOLDER}/{task}-thresholds.svg",
        f"{_SAYS}, of {', '.join(encoders)}",
        lambda: charts.by_threshold(rows, chosen, title=_SAYS, subtitle=subtitle),
    )


def _read(stored: object, result: Result) -> Curve:
    try:
        curve = msgspec.convert(stored, Curve)
    except msgspec.ValidationError as error:
        why = f"no numbers ({error})"
    else:
        if len({len(curve["threshold"]), len(curve["precision"]), len(curve["recall"])}) == 1:
            return curve
        why = "of different length"
    remedy = f"delete statistics/{result.task}.json, and `leaderboard run` makes it again"
    raise InputError(f"the stored thresholds of {result.encoder} on {result.subset} are {why}; {remedy}")
