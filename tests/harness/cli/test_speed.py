"""`leaderboard speed`, and what becomes of its figures in `show` and `report`."""

from __future__ import annotations

import csv
import inspect
import io
import json
from functools import partial
from pathlib import Path

import encoders
import pytest
from gate_runs import leaderboard_here

from harness.speed import measure
from harness.speed.store import SpeedStore

pytestmark = pytest.mark.slow

MINE = (
    inspect.getsource(encoders)
    + """

class Broken(Letters):
    def encode(self, sentences, *, lang=None):
        raise ValueError("no\\nvectors")

class Loud(Letters):
    def encode(self, sentences, *, lang=None):
        print("rubbish")
        return super().encode(sentences)
"""
)
RUN = ["run", "--encoder", "python:mine:Loud?name=letters", "--encoder", "chargrams", "--subset", "en-en@sample"]


@pytest.fixture(autouse=True)
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.setattr(measure, "Plan", partial(measure.Plan, seconds=0.01))


def test_figures_stand_beside_the_scores(capsys: pytest.CaptureFixture[str]) -> None:
    assert leaderboard_here(*RUN) == 0
    shown = ["show", "--format", "json"]
    capsys.readouterr()
    assert leaderboard_here(*shown) == 0
    before = capsys.readouterr().out
    specs = ["python:mine:Loud?name=letters", "python:mine:Broken", "chargrams"]
    assert leaderboard_here("speed", *specs, "--repeats", "1", "--threads", "1", "--format", "csv") == 3
    printed = capsys.readouterr()
    assert "Broken failed: ValueError: no\n" in printed.err and "Traceback" not in printed.err
    rows = list(csv.DictReader(io.StringIO(printed.out)))  # nothing that an encoder prints is among them
    assert {row["encoder"] for row in rows} == {"letters", "chargrams"}
    assert {(row["length"], row["way"]) for row in rows} == {
        (length, way) for length in ("short", "medium", "long") for way in ("alone", "own")
    }
    assert all(float(row["sentences_per_s"]) > 0 and row["threads"] == "1" for row in rows)
    assert {row["times"] for row in rows if row["encoder"] == "letters"} == {"1.0"}
    assert sorted(path.name for path in Path("results/speed").glob("*.json")) == ["chargrams.json", "letters.json"]
    stored = {one.encoder: one for one in SpeedStore("results").load()}
    assert stored["letters"].spec == "python:mine:Loud?name=letters" and stored["chargrams"].size_bytes == 0
    assert {len(cell.seconds) for one in stored.values() for cell in one.cells} == {1}

    # The contract of the long form holds.
    assert leaderboard_here(*shown) == 0
    assert capsys.readouterr().out == before
    assert leaderboard_here("show", "--full") == 0
    cost = capsys.readouterr().out.partition("\nCost\n")[2]
    assert "sentences/s" in cost and "letters" in cost and "threads 1" in cost
    # The fingerprint of the scores is that of the speeds, so nothing is marked.
    assert "[a]" not in cost

    assert leaderboard_here("report") == 0
    assert "results/speed.md" in capsys.readouterr().out
    assert leaderboard_here("report", "--check") == 0
    file = Path("results/speed/letters.json")
    content = json.loads(file.read_text())
    content[0]["cells"][0]["seconds"] = [123.0]
    file.write_text(json.dumps(content))
    capsys.readouterr()
    assert leaderboard_here("report", "--check") == 1
    assert "would change: results/speed.md" in capsys.readouterr().out


def test_tables_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert leaderboard_here("speed", "chargrams", "--repeats", "1") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Speed\n") and "Memory and size" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-encoder"], "unknown encoder"),
        (["chargrams", "chargrams?dim=64"], "stored under one name"),
        (["chargrams?name=../escaped"], "cannot name a folder"),
        (["chargrams", "--repeats", "0"], "repeats"),
        (["chargrams", "--threads", "0"], "threads"),
        ([], "ENCODER"),
    ],
)
def test_wrong_use_is_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert leaderboard_here("speed", *arguments) == 2
    errors = capsys.readouterr().err
    assert message in errors and "Traceback" not in errors
    assert not list(Path().rglob("*.json"))


def test_a_file_that_is_damaged_is_said_before_anything_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    Path("results/speed").mkdir(parents=True)
    Path("results/speed/chargrams.json").write_text("[{]")
    assert leaderboard_here("speed", "chargrams") == 2
    printed = capsys.readouterr().err
    assert "error: results/speed/chargrams.json: no measurements of speed" in printed and "time to load" not in printed
