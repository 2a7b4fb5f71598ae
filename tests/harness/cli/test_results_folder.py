"""Which results folder a command reads and writes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from gate_runs import leaderboard_here
from result_records import sts, write_records

from harness.cli.options import results_folder

COMMANDS = [
    ["show"],
    ["report"],
    ["export", "--out", "out"],
    ["compare", "chargrams", "nobody"],
    ["check", "--encoder", "nobody"],
    ["rerun", "nobody/sts17/en-en"],
    ["reproduce"],
    ["import", "nowhere"],
    ["audit-bucc", "--encoder", "chargrams", "--subset", "de-en@nothing"],
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("HARNESS_RESULTS")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_option_then_the_variable_then_a_folder_of_its_own(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert results_folder(None) == Path("leaderboard-results")
    monkeypatch.setenv("HARNESS_RESULTS", "mine")
    assert results_folder(None) == Path("mine")
    assert capsys.readouterr().err == "results folder: leaderboard-results\nresults folder: mine\n"
    assert results_folder(Path("given")) == Path("given")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_every_command_says_its_folder(here: Path, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    write_records(here / "leaderboard-results", [sts("student", "en-en", 80.0)])
    leaderboard_here(*command)
    assert capsys.readouterr().err.startswith("results folder: leaderboard-results\n")


def test_in_a_checkout_nothing_that_is_committed_changes(here: Path) -> None:
    """Examples of the README without `--results`, where there are results and a README with tables."""
    write_records(here / "results", [sts("chargrams", "avg-same", 80.0)])
    (here / "README.md").write_text("<!-- leaderboard:begin -->\n<!-- leaderboard:end -->\n")
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    assert leaderboard_here("run", "--encoder", "chargrams", "--subset", "en-en@sample") == 0
    assert leaderboard_here("report") == 0
    assert {path: path.read_bytes() for path in before} == before
    shutil.rmtree(here / "leaderboard-results")
    assert {path for path in here.rglob("*") if path.is_file()} == before.keys()
    assert (
        leaderboard_here("report", "--results", "results") == 0
    )  # the README's tables are of the folder that is named
    assert "chargrams" in (here / "README.md").read_text()
