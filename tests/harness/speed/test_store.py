from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from speeds import measurement

from harness.core.errors import InputError
from harness.speed.store import Cell, SpeedStore, figure


def test_figures_are_those_of_numpy() -> None:
    values = [3.0, 1.0, 2.5, 8.0]
    assert figure(values) == (np.median(values), 1.0, 8.0)
    assert figure([]) is None
    cell = Cell("medium", "own", 32, 50, 6000, [2.0, 4.0, 5.0])
    assert cell.sentences_per_s == (np.median([25, 12.5, 10]), 10, 25)
    assert (cell.characters_per_s, cell.ms) == (12.5 * 120, 80)


def test_a_ratio_is_the_median_of_the_rounds_not_the_ratio_of_medians() -> None:
    # The machine was half as fast in the second round, and a quarter in the third: for both encoders.
    fast = Cell("medium", "own", None, 1000, 1, [1.0, 2.0, 4.0])
    slow = Cell("medium", "own", None, 10, 1, [0.3, 0.5, 1.2])
    ratios = np.array([0.03, 0.05, 0.12]) / np.array([0.001, 0.002, 0.004])
    assert slow.ratios(fast) == pytest.approx(ratios) and fast.ratios(fast) == [1, 1, 1]
    # Long texts take twice as long with the one, and as long as before with the other.
    more = replace(slow, length="long", seconds=[0.6, 1.2, 2.4]), replace(fast, length="long")
    one, other = measurement("one", 1.0, cells=[slow, more[0]]), measurement("other", 1.0, cells=[fast, more[1]])
    long = np.array([0.06, 0.12, 0.24]) / np.array([0.001, 0.002, 0.004])
    means = np.sqrt(ratios * long)
    assert one.times(other, "own") == pytest.approx((np.median(means), means.min(), means.max()))
    assert one.times(other, "alone") is None


def test_what_is_stored_is_read_and_replaces_only_its_like(tmp_path: Path) -> None:
    store = SpeedStore(tmp_path / "results")
    assert store.load() == []
    here, other = measurement("muse", 0.001), measurement("student", 0.0001)
    elsewhere = replace(here, hardware={**here.hardware, "processor": "Another CPU"}, created="2025-01-03")
    more_threads, other_weights = replace(here, threads=4), replace(here, fingerprint="muse-2")
    on_gpu = replace(here, hardware={**here.hardware, "device": "cuda:0"})
    for one in (here, other, elsewhere, more_threads, other_weights, on_gpu):
        store.merge(one)
    assert [one.encoder for one in store.load()] == ["muse"] * 5 + ["student"]
    again = replace(here, load_s=[9.0], created="2026-01-01")
    store.merge(again)
    found = store.load()
    assert len(found) == 6 and again in found and here not in found
    assert all(one in found for one in (other, elsewhere, more_threads, other_weights, on_gpu))
    assert sorted(path.name for path in store.folder.iterdir()) == [".lock", "muse.json", "student.json"]


@pytest.mark.parametrize("name", ["../../escaped", "a/b", "", ".hidden", "x" * 300])
def test_a_hostile_name_is_no_path(tmp_path: Path, name: str) -> None:
    store = SpeedStore(tmp_path / "results")
    with pytest.raises(InputError):
        store.merge(measurement(name, 0.1))
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"encoder": "../escaped"}, "encoder"),
        ({"encoder": "other"}, "another encoder"),
        ({"dim": -1}, "dim"),
        ({"cells": [{}]}, "length"),
        ({"load_s": ["fast"]}, "load_s"),
        ({"memory_mb": [-1.0]}, "memory_mb"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, change: dict[str, object], why: str) -> None:
    store = SpeedStore(tmp_path)
    store.merge(measurement("muse", 0.1))
    file = store.folder / "muse.json"
    file.write_text(json.dumps([asdict(measurement("muse", 0.1)) | change]))
    for use in (store.load, lambda: store.merge(measurement("muse", 0.2))):
        with pytest.raises(InputError, match=rf"speed/muse.json: no measurements of speed .*{why}"):
            use()


@pytest.mark.parametrize("seconds", [[], [0.0], [-1.0], [1e300], [None]])
def test_times_are_positive(tmp_path: Path, seconds: list[object]) -> None:
    store = SpeedStore(tmp_path)
    store.merge(measurement("muse", 0.1))
    file = store.folder / "muse.json"
    content = json.loads(file.read_text())
    content[0]["cells"][0]["seconds"] = seconds
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match="seconds"):
        store.load()


def test_a_link_does_not_lead_out(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "speed").symlink_to(tmp_path / "outside")
    with pytest.raises(InputError, match="leads out"):
        SpeedStore(tmp_path / "results").merge(measurement("muse", 0.1))
    assert not list((tmp_path / "outside").iterdir())
