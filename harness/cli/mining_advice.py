"""What `leaderboard mine` says of thresholds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli import say
from harness.core.errors import InputError
from harness.core.files import write_atomically

if TYPE_CHECKING:
    from harness.mining.advice import Evidence
    from harness.mining.search import Floats

AUTO = "auto"


def parsed_threshold(text: str | None) -> float | None:
    """The number that `--threshold` gives; None where it gives none, or `AUTO`. Raises InputError for anything else."""
    if text is None or text == AUTO:
        return None
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not abs(number) < float("inf"):
        raise InputError(f"--threshold is a number, or {AUTO}, not {text}")
    return number


def advised(
    found: Evidence,
    scores: Floats,
    threshold: float | None,
    *,
    is_auto: bool,
    report: bool,
    report_json: Path | None,
    has_filters: bool,
) -> float | None:
    """The threshold that counts: the given one, or with `is_auto` the suggested one. Prints and writes the report.

    scores: (p,), of all pairs that were mined, descending.

    Raises:
        InputError: none can be suggested.
    """
    from harness.mining.advice import advise
    from harness.report.mining import DOUBT, advice_json, advice_table
    from harness.report.render import render

    advice = advise(found, scores)
    if report:
        say(render(advice_table(advice, found.margin, has_filters=has_filters), "table", width=120).rstrip())
    if report_json is not None:
        write_atomically(report_json, (advice_json(advice, found.margin) + "\n").encode())
    if not is_auto:
        return threshold
    if advice.threshold is None:
        raise InputError(f"no threshold can be suggested ({advice.reason}); judge a sample, or give --threshold X")
    say(f"threshold {advice.threshold:g}: the highest expected F1, from the scores alone")
    if advice.is_doubtful and not report:
        say(f"warning: {DOUBT}")
    return advice.threshold
