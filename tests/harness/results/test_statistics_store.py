"""The file of statistics: what is kept, what is stale, what two processes write at once."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest
from result_records import sts, write_records

from harness.core.errors import InputError
from harness.results.records import Dataset, Result
from harness.results.statistics import Entry, Statistics, StatisticsStore, digest
from harness.results.store import ResultStore

NAMES = tuple("abcdef")


def statistics(*results: Result, **p: float) -> Statistics:
    """An interval of 1 around each score, and tests of the first against the others."""
    entries = {}
    for place, result in enumerate(results):
        score = result.metrics["spearman"]
        entry = Entry(digest(result), {"spearman": (score - 1, score + 1)}, {"spearman": p} if not place and p else {})
        entries[result.encoder, result.subset] = entry
    return Statistics("made-up", 0.95, entries)


def digests(*results: Result) -> dict[tuple[str, str], str]:
    return {(result.encoder, result.subset): digest(result) for result in results}


@pytest.fixture
def board(tmp_path: Path) -> list[Result]:
    results = [sts(name, "en-en", 50.0 + place) for place, name in enumerate(NAMES)]
    write_records(tmp_path, results)
    return results


def test_what_is_written_is_read_again(tmp_path: Path, board: list[Result]) -> None:
    a, b, *_ = board
    store = StatisticsStore(tmp_path)
    written = statistics(a, b, b=0.25)
    written.entries["a", "en-en"].more["joining"] = {"sets": ["x"], "cost": [[0.0]], "shift": [0.5]}
    written.entries["a", "en-en"].p_zero["difference"] = 0.5
    store.merge("sts17", written, digests(a, b))
    assert store.load("sts17") == written
    assert store.of(board)["sts17"].p(a, b, "spearman") == store.of(board)["sts17"].p(b, a, "spearman") == 0.25
    content = store.file("sts17").read_bytes()
    store.merge("sts17", written, digests(a, b))
    assert store.file("sts17").read_bytes() == content and content.count(b"\n") < 15


@pytest.mark.parametrize(
    "change",
    [
        {"fingerprint": "other"},
        {"signature": "task:sts17|version:2"},
        {"dataset": Dataset("sts17", "ff", {})},
        {"metrics": {"spearman": 50.000001, "pearson": 49.0}},
    ],
)
def test_a_stale_entry_is_neither_read_nor_kept(tmp_path: Path, board: list[Result], change: dict) -> None:
    a, b, *others = board
    store = StatisticsStore(tmp_path)
    store.merge("sts17", statistics(a, b, others[0], b=0.25, c=0.5), digests(*board))
    changed = replace(b, **change)
    known = store.of([a, changed, *others])["sts17"]
    assert known.entry(changed) is None and known.p(a, changed, "spearman") is None
    assert known.entry(a) is not None and known.p(a, others[0], "spearman") == 0.5
    write_records(tmp_path, [changed])
    store.merge("sts17", Statistics("made-up", 0.95, {}), {})
    assert set(store.load("sts17").entries) == {("a", "en-en"), ("c", "en-en")}
    assert store.load("sts17").entries["a", "en-en"].p == {"spearman": {"c": 0.5}}


def test_what_was_measured_anew_while_it_was_computed_is_left_out(tmp_path: Path, board: list[Result]) -> None:
    a, b, *_ = board
    computed = statistics(a, b, b=0.25)
    write_records(tmp_path, [replace(b, fingerprint="newer")])
    StatisticsStore(tmp_path).merge("sts17", computed, digests(a, b))
    found = StatisticsStore(tmp_path).load("sts17").entries
    assert set(found) == {("a", "en-en")} and not found["a", "en-en"].p.get("spearman")


def _merge(root: Path, name: str) -> None:
    (result,) = ResultStore(root).load(name, "sts17")
    for _ in range(20):
        StatisticsStore(root).merge("sts17", statistics(result), digests(result))


def test_concurrent_updates_lose_nothing(tmp_path: Path, board: list[Result]) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_merge, args=(tmp_path, name)) for name in NAMES]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0] * len(NAMES)
    assert StatisticsStore(tmp_path).load("sts17") == statistics(*board)


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"statistics": 3, "level": 0.95, "signature": ""}',
        '{"level": 0.95, "signature": "", "statistics": {"a": {"en-en": {"of": "x"}}}}',
        '{"level": 0.95, "signature": "", "statistics": {"a": {"en-en": {"of": "x", "interval": {"r": [1]}}}}}',
        '{"level": 0.95, "signature": "", "statistics": {"a": {"en-en": {"of": "x", "interval": {"r": ["1", 2]}}}}}',
        "\xff",
    ],
)
def test_a_bad_file_is_one_line(tmp_path: Path, content: str) -> None:
    file = StatisticsStore(tmp_path).file("sts17")
    file.parent.mkdir(parents=True)
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match=r"sts17\.json: no statistics \(.+\); `leaderboard run`") as error:
        StatisticsStore(tmp_path).load("sts17")
    assert "\n" not in str(error.value)
