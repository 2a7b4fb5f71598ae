from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from distill.sampler import MixedBatches, TrainingPairs
from harness.core.errors import InputError


def expected_draws(sizes: list[int], weights: list[float], temperature: float, repeats: int, total: int) -> list[float]:
    """Hand out by a plain loop: in proportion, and again among the others what a full corpus cannot take."""
    caps = [repeats * size if weight else 0 for size, weight in zip(sizes, weights, strict=True)]
    given_out = [0.0] * len(sizes)
    full: set[int] = {row for row, cap in enumerate(caps) if cap == 0}
    while len(full) < len(sizes):
        left = total - sum(given_out[row] for row in full)
        rates = {row: sizes[row] ** temperature * weights[row] for row in range(len(sizes)) if row not in full}
        for row, rate in rates.items():
            given_out[row] = left * rate / sum(rates.values())
        over = [row for row in rates if given_out[row] >= caps[row]]
        if not over:
            break
        for row in over:
            given_out[row] = float(caps[row])
            full.add(row)
    return given_out


cases = st.fixed_dictionaries(
    {
        "sizes": st.lists(st.integers(0, 60), min_size=1, max_size=7),
        "batch_size": st.integers(1, 24),
        "steps": st.integers(1, 30),
        "seed": st.integers(0, 3),
        "temperature": st.sampled_from([0.0, 0.3, 1.0]),
        "max_repeats": st.integers(1, 40),
        "weight": st.sampled_from([1.0, 0.25, 0.0]),
    }
)


def sampler(case: dict[str, Any]) -> tuple[MixedBatches, dict[str, Any]]:
    arguments = dict(case)
    weight = arguments.pop("weight")
    arguments["weights"] = [weight, *[1.0] * (len(case["sizes"]) - 1)]
    usable = sum(size for size, factor in zip(case["sizes"], arguments["weights"], strict=True) if factor)
    repeats = min(case["max_repeats"], case["steps"])
    assume(case["batch_size"] <= usable and case["batch_size"] * case["steps"] <= usable * repeats)
    return MixedBatches(**arguments), arguments


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(cases)
def test_against_plain_loops(case: dict[str, Any]) -> None:
    batches, arguments = sampler(case)
    sizes, steps, size = case["sizes"], case["steps"], case["batch_size"]
    repeats = min(case["max_repeats"], steps)
    owner = [corpus for corpus, n in enumerate(sizes) for _ in range(n)]
    seen: Counter[int] = Counter()
    drawn: Counter[int] = Counter()
    assert len(batches) == steps
    for batch in batches:
        assert batch.shape == (size,) and batch.dtype == np.int64
        assert all(0 <= pair < len(owner) for pair in batch.tolist())
        seen.update(batch.tolist())
        in_batch = Counter(owner[pair] for pair in batch.tolist())
        drawn.update(in_batch)
        for corpus, quota in enumerate(batches.draws / steps):
            # Each corpus has its share in every batch, rounded up or down.
            assert int(quota) <= in_batch[corpus] <= -int(-quota // 1)
    assert max(seen.values()) <= repeats
    assert [drawn[corpus] for corpus in range(len(sizes))] == batches.draws.tolist()
    expected = expected_draws(sizes, arguments["weights"], case["temperature"], repeats, steps * size)
    np.testing.assert_allclose(batches.draws, expected, atol=1)
    np.testing.assert_allclose(batches.shares(), [drawn[corpus] / (steps * size) for corpus in range(len(sizes))])
    for corpus, n in enumerate(sizes):
        # A pair comes again only after all others of its corpus.
        counts = [seen[pair] for pair, of in enumerate(owner) if of == corpus]
        assert n == 0 or max(counts) - min(counts) <= 1


@settings(max_examples=30, deadline=None)
@given(cases, st.data())
def test_a_batch_does_not_depend_on_the_past(case: dict[str, Any], data: st.DataObject) -> None:
    batches, arguments = sampler(case)
    in_order = [batch.tolist() for batch in batches]
    for step in data.draw(st.lists(st.integers(0, case["steps"] - 1), max_size=6)):
        assert batches[step].tolist() == in_order[step]
        assert MixedBatches(**arguments)[step].tolist() == in_order[step]


@pytest.mark.slow
def test_long_runs_are_counted_in_chunks() -> None:
    arguments: dict[str, Any] = {"sizes": [3, 5, 2000], "batch_size": 4, "steps": 10_000, "seed": 1}
    batches = MixedBatches(**arguments, max_repeats=100)
    for _ in zip(range(9000), batches, strict=False):
        pass
    assert batches[9000].tolist() == MixedBatches(**arguments, max_repeats=100)[9000].tolist()


def test_another_seed_gives_other_batches() -> None:
    one, two = (MixedBatches([1000, 500], 64, 10, seed) for seed in (1, 2))
    assert one[3].tolist() != two[3].tolist()
    assert len(set(one[3].tolist()) & set(two[3].tolist())) < 30


def test_temperature_and_weights() -> None:
    sizes = [100, 10_000, 40_000]
    assert MixedBatches(sizes, 30, 10, 0, 0.0).draws.tolist() == [100, 100, 100]
    by_size = MixedBatches(sizes, 501, 10, 0, 1.0).shares()
    np.testing.assert_allclose(by_size, np.array(sizes) / sum(sizes), atol=1e-3)
    root = MixedBatches(sizes, 310, 10, 0, 0.5).shares()
    np.testing.assert_allclose(root, np.array([10, 100, 200]) / 310, atol=1e-3)
    weighted = MixedBatches(sizes, 40, 10, 0, 0.0, weights=[0.5, 1.0, 0.5])
    assert weighted.draws.tolist() == [100, 200, 100]


def test_a_corpus_is_drawn_in_another_order_each_time_round() -> None:
    """Five batches go through the corpus once: batches of the second time round are not those of the first."""
    batches = MixedBatches([40], batch_size=8, steps=10, seed=0, max_repeats=2)
    first, second = ([frozenset(batches[step].tolist()) for step in steps] for steps in (range(5), range(5, 10)))
    assert frozenset().union(*first) == frozenset().union(*second) == frozenset(range(40))
    assert set(first).isdisjoint(second)


def test_a_high_temperature_does_not_overflow() -> None:
    """The large corpus gets what its cap allows, the small one the rest."""
    assert MixedBatches([1000, 10], 100, 20, 0, 100.0, 2).draws.tolist() == [2000, 0]
    assert MixedBatches([1000, 10], 101, 10, 0, 100.0, 1).draws.tolist() == [1000, 10]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([10, 20], 64, 1, 0), "30 pairs are less than one batch of 64; give more data or a smaller batch size"),
        (([40, 40], 64, 10, 0, 0.0, 2), "10 steps take 640 pairs, but 80 pairs seen at most 2 times are 160"),
        (([10, 90], 32, 1, 0, 0.0, 1, [1.0, 0.0]), "10 pairs are less than one batch of 32"),
        (([], 1, 1, 0), "0 pairs are less than one batch of 1"),
        (([10], 2, 1, 0, 0.0, 1, [1.0, 2.0]), "expected 1 numbers"),
        (([10], 2, 1, 0, 0.0, 1, [-1.0]), "none of them negative"),
        (([10], 2, 1, 0, -1.0), "the temperature at least 0"),
        (([10], 0, 1, 0), "must be at least 1"),
    ],
)
def test_bad_input(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MixedBatches(*arguments)
    with pytest.raises(IndexError):
        MixedBatches([4], 2, 2, 0)[2]


class FakePairs:
    """Three sources have four, one and two translations; one more has none that is trained on."""

    sources = ("a", "b", "c", "d")
    source_rows = np.array([0, 1, 0, 2, 0, 3, 2, 0], dtype=np.int32)
    targets = tuple(f"t{number}" for number in range(8))
    parts = ()


def shown(numbers: Any) -> dict[str, list[str]]:
    return {"text": [(*FakePairs.sources, *FakePairs.targets)[number] for number in numbers]}


@pytest.mark.parametrize("pivots", [0.0, 0.3, 1.0])
def test_pivots_give_the_source_as_another_translation(pivots: float) -> None:
    kept = np.array([0, 1, 2, 3, 4, 6, 7])
    pairs = TrainingPairs(FakePairs(), kept, shown, pivots=pivots, seed=1)  # type: ignore[arg-type]
    translations = {0: {0, 2, 4, 7}, 1: {1}, 2: {3, 6}}
    pivoted = total = 0
    given: set[tuple[str, str]] = set()
    for batch in range(300):
        numbers = np.random.default_rng(batch).integers(0, len(kept), 32).tolist()
        rows, sources, targets = pairs.__getitems__(numbers)
        again = TrainingPairs(FakePairs(), kept, shown, pivots=pivots, seed=1).__getitems__(numbers)  # type: ignore[arg-type]
        assert [part.tolist() for part in again] == [rows.tolist(), sources.tolist(), targets.tolist()]
        for number, row, source, target in zip(numbers, rows, sources, targets, strict=True):
            assert row == FakePairs.source_rows[kept[number]] and target == 4 + kept[number]
            others = translations[int(row)] - {int(kept[number])}
            assert source == row or source - 4 in others
            total += bool(others)
            pivoted += bool(source != row)
            given.add((shown([source])["text"][0], shown([target])["text"][0]))
    assert pivoted / total == pytest.approx(pivots, abs=0.03)
    if pivots:  # every other translation has its turn
        assert {(f"t{a}", f"t{b}") for group in translations.values() for a in group for b in group - {a}} <= given
