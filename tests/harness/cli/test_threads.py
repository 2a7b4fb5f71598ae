"""`--threads`: what the encoder gets, what records say, and what those say who repeat them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from gate_runs import leaderboard_here

from harness.core.threads import available_cores, n_threads
from harness.results.store import ResultStore

ID = "chargrams/sts17/en-en@sample"
OTHER = available_cores() + 1


@pytest.fixture
def with_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """Results of a run with a number of threads that nobody takes by default."""
    monkeypatch.chdir(tmp_path)
    run = ["run", "--encoder", "chargrams", "--subset", "en-en@sample", "--cache-dir", "cache"]
    assert leaderboard_here(*run, "--threads", str(OTHER)) == 0
    assert n_threads() == available_cores()  # it was for the command alone
    capsys.readouterr()
    return tmp_path


def test_the_record_says_them_and_its_command_repeats_them(
    with_record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [record] = ResultStore("results").load()
    assert record.threads == OTHER
    assert leaderboard_here("show", "--record", ID) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["threads"] == str(OTHER)
    words = shlex.split(lines["command"])
    assert words[words.index("--threads") + 1] == str(OTHER)


def test_who_repeats_it_with_another_number_is_told(with_record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note = f"chargrams: recorded with {OTHER} threads, here {available_cores()}; "
    for command in (["check", "--against", "results"], ["rerun", ID]):
        assert leaderboard_here(*command) == 0
        printed = capsys.readouterr()
        assert printed.err.count(note) == 1 and f"(--threads {OTHER})" in printed.err
        if command[0] == "rerun":
            assert f"  threads: {OTHER} -> {available_cores()}\n" in printed.out
        assert leaderboard_here(*command, "--threads", str(OTHER)) == 0
        printed = capsys.readouterr()
        assert "recorded with" not in printed.err and "threads:" not in printed.out


def test_what_vectors_depend_on_is_shown_and_compared(with_record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = Path("results/records/chargrams/sts17.json")
    [record] = json.loads(file.read_text())
    record |= {"conditions": {"precision": "bf16", "sentences_at_a_time": 512}, "usage": {"tokens": 123456.0}}
    file.write_text(json.dumps([record]))
    assert leaderboard_here("show", "--record", ID) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert ["condition", "precision bf16"] in lines and ["condition", "sentences_at_a_time 512"] in lines
    assert ["usage", "tokens 123,456"] in lines
    assert leaderboard_here("rerun", ID, "--threads", str(OTHER)) == 0
    assert "  condition: precision: bf16 -> –\n" in capsys.readouterr().out


def test_nothing_is_measured_with_threads_where_nothing_is_measured(
    with_record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert leaderboard_here("check", "--against", "results", "--run", "other", "--threads", "1") == 2
    assert "--threads" in capsys.readouterr().err
