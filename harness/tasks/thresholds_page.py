"""The picture of BUCC's page: precision and recall of the mined pairs against the threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

import msgspec

from harness import charts
from harness.core.errors import InputError
from harness.core.names import Subset
from harness.core.schema import Number
from harness.protocol.described import subset_order
from harness.protocol.task import Page, Picture
from harness.report.cells import Note
from harness.report.charted import left_out
from harness.report.figures import run_command, shortened
from harness.report.markdown import markdown_note
from harness.report.pictures import picture_file
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


def threshold_page(results: Sequence[Result], statistics: Statistics) -> Page:
    """A panel for each encoder and set of real data whose curve is stored, and who has none with what mends it.

    Of more than six encoders the first six by F1 are shown. Where nothing was mined there is no panel.

    Raises:
        InputError: a stored curve is none.
    """
    real = [r for r in results if not Subset.parse(r.subset).is_sample and not r.parts]
    entries = [(r, statistics.entry(r)) for r in real]
    stored = {(r.encoder, r.subset): _read(e.more[THRESHOLDS], r) for r, e in entries if e and THRESHOLDS in e.more}
    without = [r for r in real if (r.encoder, r.subset) not in stored]
    curves = {key: curve for key, curve in stored.items() if curve["threshold"]}
    return Page((_missing(without),) if without else (), pictures=(_picture(results, curves),) if curves else ())


def _missing(results: Sequence[Result]) -> str:
    """Who has no curve, and the command that mends it, in Markdown."""
    encoders: dict[str, list[str]] = {}
    for result in results:
        encoders.setdefault(result.encoder, []).append(result.subset)
    listed = ", ".join(f"{name} on {shortened(subsets)}" for name, subsets in sorted(encoders.items()))
    text, command = f"no precision and recall by threshold: {listed}", run_command(results)
    return markdown_note(Note(f"{text}; to mend it: ", command) if command else Note(text))


def _picture(results: Sequence[Result], curves: Mapping[tuple[str, str], Curve]) -> Picture:
    task = results[0].task
    known = {encoder for encoder, _ in curves}
    ordered = [name for name in rank_encoders(task, results, "f1_train")[0] if name in known]
    encoders = ordered[:_MOST]
    rows, chosen = [], []
    for encoder in encoders:
        for subset in subset_order(task, (subset for _, subset in curves)):
            if (encoder, subset) in curves:
                where, curve = {"encoder": encoder, "subset": subset}, curves[encoder, subset]
                points = zip(curve["threshold"], curve["precision"], curve["recall"], strict=True)
                rows += [{**where, "threshold": t, "precision": p, "recall": r} for t, p, r in points]
    for result in results:
        # 0 is none: no pair was correct.
        if (result.encoder, result.subset) in curves and result.metrics.get("threshold"):
            threshold = result.metrics["threshold"]
            chosen.append({"encoder": result.encoder, "subset": result.subset, "threshold": threshold})
    subtitle = "training split; the dashed line: the threshold with the highest F1, which is then used"
    return Picture(
        picture_file(task, THRESHOLDS),
        f"{_SAYS}, of {', '.join(encoders)}",
        lambda: charts.by_threshold(rows, chosen, title=_SAYS, subtitle=subtitle + left_out(ordered[_MOST:])),
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
