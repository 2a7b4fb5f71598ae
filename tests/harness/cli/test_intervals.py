"""Intervals and tests from `run` to `show` and `report`, as a user meets them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import one_line_error

pytestmark = pytest.mark.slow

Leaderboard = Callable[..., "subprocess.CompletedProcess[str]"]
SET = ("--suite", "sample", "--task", "sts17", "--subset", "avg-same@sample")
BOTH = ("--encoder", "chargrams", "--encoder", "chargrams?dim=16&name=small")


def shown(leaderboard: Leaderboard) -> dict[tuple[str, str], tuple[float | None, float, float | None]]:
    done = leaderboard("show", "--format", "json", "--metric", "spearman")
    assert done.returncode == 0, done.stderr
    return {(e["encoder"], e["subset"]): (e["low"], e["value"], e["high"]) for e in json.loads(done.stdout)}


def test_a_run_gives_intervals_and_a_second_one_changes_nothing(leaderboard: Leaderboard, tmp_path: Path) -> None:
    first = leaderboard("run", *SET, *BOTH, COLUMNS="120")
    assert first.returncode == 0, first.stderr
    assert "sts17: intervals and tests (4 subsets, 10,000 resamples)" in first.stderr
    assert "[low, high]: 95 % interval" in first.stdout and "resamples:10000|seed:12345" in first.stdout
    found = shown(leaderboard)
    assert len(found) == 8 and all(low < value < high for low, value, high in found.values())  # type: ignore[operator]

    files = {path: path.read_bytes() for path in (tmp_path / "results").rglob("*") if path.is_file()}
    again = leaderboard("run", *SET, *BOTH, COLUMNS="120")
    assert again.returncode == 0 and "intervals and tests" not in again.stderr and again.stdout == first.stdout
    assert {path: path.read_bytes() for path in (tmp_path / "results").rglob("*") if path.is_file()} == files

    # In a checkout there are no rows: tables and pages are the same, and a run leaves it at that.
    assert leaderboard("report").returncode == 0
    shutil.rmtree(tmp_path / "results/rows")
    assert leaderboard("report", "--check").returncode == 0 and shown(leaderboard) == found
    assert leaderboard("run", *SET, *BOTH, COLUMNS="120").stdout == first.stdout
    # Another encoder gets intervals, and is said not to be tested; `--save-rows` mends it.
    other = leaderboard("run", *SET, "--encoder", "chargrams?dim=32&name=other")
    assert other.returncode == 0, other.stderr
    tables = leaderboard("show", "--full").stdout
    assert "not tested against the best, so not bold: " in tables and all(
        low for low, *_ in shown(leaderboard).values()
    )
    assert leaderboard("run", *SET, *BOTH, "--save-rows").returncode == 0
    tables = leaderboard("show", "--full").stdout
    assert "not tested" not in tables and tables.count("*") > 4
    assert {key: shown(leaderboard)[key] for key in found} == found


def test_a_bad_file_of_statistics_is_one_line(leaderboard: Leaderboard, tmp_path: Path) -> None:
    assert leaderboard("run", *SET, "--encoder", "chargrams").returncode == 0
    file = tmp_path / "results/statistics/sts17.json"
    text = file.read_text()
    values = json.loads(text)
    values["statistics"]["chargrams"]["en-en@sample"]["p"] = {"spearman": {"student": 7.0001}}
    for damaged in (text[:-9], json.dumps(values)):
        file.write_text(damaged)
        message = one_line_error(leaderboard("show" if damaged == text[:-9] else "report"))
        assert "statistics/sts17.json: no statistics" in message and "`leaderboard run` makes it again" in message
        again = leaderboard("run", *SET, "--encoder", "chargrams")
        assert again.returncode == 0 and again.stderr.count("sts17.json: no statistics") == 1
        assert file.read_text() == text


@pytest.mark.parametrize("format", ["npz", "jsonl"])
def test_rows_that_are_asked_for_are_made_of_what_is_stored(
    leaderboard: Leaderboard, tmp_path: Path, format: str
) -> None:
    assert leaderboard("run", *SET, "--encoder", "chargrams").returncode == 0
    shutil.rmtree(tmp_path / "results/rows")
    done = leaderboard("run", *SET, "--encoder", "chargrams", "--rows-format", format)
    assert done.returncode == 0 and "(stored)" not in done.stderr
    assert len(list((tmp_path / "results/rows/chargrams/sts17").glob(f"*.{format}"))) == 3
    assert (
        "(stored)" in leaderboard("run", *SET, "--encoder", "chargrams", "--save-rows", "--rows-format", format).stderr
    )
