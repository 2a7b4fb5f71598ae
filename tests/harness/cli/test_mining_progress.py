"""What is said of a mining job while it runs: rate, and the time that is left over all of it."""

from __future__ import annotations

import re

import pytest

from harness.cli.mining_progress import MiningWatcher, watch_mining
from harness.mining import Progress


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_time_left_is_that_of_the_whole_job(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    watcher = MiningWatcher(clock=clock)
    watcher.plan([100.0, 200.0], 600.0)
    for done in range(0, 10_001, 1000):  # twice as slow as planned
        watcher.encoding(0, "a.de", done, 10_000)
        clock.now += 20
    for done in range(4000, 8001, 1000):  # half of it was there
        watcher.encoding(1, "a.en", done, 8000)
        clock.now += 40
    for done in range(1, 5):
        watcher.searching(Progress("float32", done * 2000, 8000, 500))
        clock.now += 40
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == (
        "encoding a.de: 2,000 of 10,000 sentences (50 sentences a second); about 16 min left in all"
    )  # 160 + 200 + 600
    assert "encoding a.en: 5,000 of 8,000 sentences (25 sentences a second); about 12 min left in all" in lines
    assert "searching: 50.0% (3.1 sentences a second); about 80 s left in all" in lines
    assert not [line for line in lines if "10,000 of 10,000" in line or "100" in line.split("(")[0].split(":")[1][:4]]
    assert watcher.backend == "float32"


def test_recall_is_said_and_nothing_else_of_what_is_quick(capsys: pytest.CaptureFixture[str]) -> None:
    watcher = MiningWatcher()
    watcher.encoding(0, "a.de", 1, 2)
    watcher.searching(Progress("faiss", 10, 10, 5, recall="recall@4 0.9"))
    watcher.searching(Progress("faiss", 0, 0, 0))
    assert capsys.readouterr().err == "approximate: recall@4 0.9\n"


def test_a_terminal_has_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    with watch_mining() as watcher:
        watcher.plan([1000.0, 1000.0], 1000.0)
        watcher.encoding(0, "a[red].de", 100, 1000)
        watcher._bars.refresh()  # type: ignore[union-attr]
        watcher.note("said [red]")
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err)
    assert "encoding a[red].de: 100 of 1,000 sentences" in shown and "about 48 min left in all" in shown
    assert "said [red]" in shown
