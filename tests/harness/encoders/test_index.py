"""The index of the cache against a plain dictionary, and how much it sorts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.encoders import shards as index
from harness.encoders.shards import KEY_BYTES, Index

# Few different bytes: keys that are in several shards, and others of which one half alone is the same.
KEYS = st.tuples(st.sampled_from([b"\0" * 8, b"\xff" * 8, b"12345678", b"\0" * 7 + b"\1"]), st.binary(max_size=1)).map(
    lambda halves: halves[0] + halves[1].rjust(8, b"\0")
)
ADD = st.lists(KEYS, max_size=12)
FORGET = st.sets(st.integers(0, 12), max_size=4)


def as_keys(keys: Sequence[bytes]) -> np.ndarray:
    return np.array(keys, dtype=f"S{KEY_BYTES}")


@settings(deadline=None)
@given(steps=st.lists(ADD | FORGET, max_size=12), others=st.lists(KEYS, max_size=5))
def test_it_finds_what_a_dictionary_finds(steps: list[list[bytes] | set[int]], others: list[bytes]) -> None:
    found, expected = Index(), dict[bytes, set[tuple[int, int]]]()
    for number, step in enumerate(steps):
        if isinstance(step, set):
            found.forget(step)
            expected = {key: {at for at in places if at[0] not in step} for key, places in expected.items()}
        else:
            found.add(number, as_keys(step))
            for row, key in enumerate(step):
                expected.setdefault(key, set()).add((number, row))
    keys = [*expected, *others]
    shards, rows = found.find(as_keys(keys))
    assert len(found) == sum(map(len, expected.values()))
    for key, place in zip(keys, zip(shards.tolist(), rows.tolist(), strict=True), strict=True):
        assert place in expected[key] if expected.get(key) else place[0] == -1


@pytest.mark.parametrize("sizes", [[8] * 500, [1] * 500, [1, 64] * 100, [4000] + [1] * 500], ids=lambda s: str(s[:2]))
def test_a_key_is_sorted_a_logarithmic_number_of_times(sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    merge, n_sorted = index._merged, [0]

    def counting(parts: list[index._Run]) -> index._Run:
        n_sorted[0] += sum(len(part.places) for part in parts)
        return merge(parts)

    monkeypatch.setattr(index, "_merged", counting)
    found, draw = Index(), np.random.default_rng(0)
    keys = draw.integers(0, 256, (sum(sizes), KEY_BYTES), dtype=np.uint8).view(f"S{KEY_BYTES}").reshape(-1)
    start = 0
    for number, size in enumerate(sizes):
        found.add(number, keys[start : start + size])
        start += size
        lengths = [len(run.places) for run in found._runs]
        assert all(one >= 2 * two for one, two in pairwise(lengths))  # so there are few
    log = np.log2(sum(sizes))
    assert sum(sizes) <= n_sorted[0] <= sum(sizes) * (log + 1)
    assert found.nbytes == 24 * len(found) == 24 * sum(sizes)
    shards, rows = found.find(keys)
    assert shards.tolist() == np.repeat(np.arange(len(sizes)), sizes).tolist()
    assert rows.tolist() == [row for size in sizes for row in range(size)]
