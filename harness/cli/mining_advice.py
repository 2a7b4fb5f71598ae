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
    found: Evidence, scores: Floats, report: bool, report_json: Path | None, threshold: float | None, *, is_auto: bool
) -> float | None:
    """The threshold that counts: the given one, or with `is_auto` the suggested one. Prints and writes the report.

    Raises:
        InputError: none can be suggested.
    """
    from harness.mining.advice import advise
    from harness.report.mining import advice_json, advice_table
    from harness.report.render import render

    advice = advise(found)
    if report:
        say(render(advice_table(advice, scores, found.margin), "table", width=120).rstrip())
    if report_json is not None:
        write_atomically(report_json, (advice_json(advice, scores, found.margin) + "\n").encode())
    if not is_auto:
        return threshold
    if advice.threshold is None:
        raise InputError(f"no threshold can be suggested ({advice.reason}); judge a sample, or give --threshold X")
    say(f"threshold {advice.threshold:g}: the highest expected F1, from the scores alone")
    return advice.threshold
