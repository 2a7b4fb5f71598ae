"""The lists of candidates against plain Python: nothing that may be among the k best is passed over."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")

from harness.mining.blocks import Lists
from harness.mining.compiled import scan_columns, scan_rows


def empty(n: int, size: int, slack: float) -> Lists:
    return Lists(
        columns=np.zeros((n, size), np.int32),
        uppers=np.zeros((n, size), np.float32),
        lowers=np.zeros((n, size), np.float32),
        counts=np.zeros(n, np.int32),
        floors=np.full(n, -np.inf, np.float32),
        dropped=np.full(n, -np.inf, np.float32),
        slacks=np.full(n, slack),
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize(("error", "slack"), [(0.0, 0.0), (0.05, 0.0), (0.05, 0.02)])
def test_all_that_may_be_among_the_k_best_is_listed(kind: str, error: float, slack: float) -> None:
    k, size = 3, 30
    rng = np.random.default_rng(0)
    whole = (rng.random((150, 170)) - 0.3).astype(np.float32)
    bits = (whole.view(np.uint32) >> 16).astype(np.uint16)
    stored = bits if kind == "bfloat16" else whole
    values = (bits.astype(np.uint32) << 16).view(np.float32) if kind == "bfloat16" else whole
    biases = [rng.standard_normal(n).astype(np.float32) * 0.1 for n in whole.shape]
    rows, columns = empty(150, size, slack), empty(170, size, slack)
    for top in range(0, 150, 64):  # blocks that do not fit, as at the ends
        for left in range(0, 170, 70):
            tile = np.ascontiguousarray(stored[top : top + 64, left : left + 70])
            scan_rows(tile, top, left, biases[1], np.float32(error), k, rows)
            scan_columns(tile, top, left, biases[0], np.float32(error), k, columns, 3)
    for lists, entries, bias in ((rows, values, biases[1]), (columns, values.T, biases[0])):
        n_listed = 0
        for row, line in enumerate(entries.tolist()):
            upper = [value + abs(value) * error + b for value, b in zip(line, bias.tolist(), strict=True)]
            lower = [value - abs(value) * error + b for value, b in zip(line, bias.tolist(), strict=True)]
            floor = sorted(lower)[-k] - slack
            wanted = {place for place, bound in enumerate(upper) if bound >= floor + 1e-6}
            listed = lists.columns[row, : lists.counts[row]].tolist()
            if lists.dropped[row] >= floor:  # too many are wanted, and that is known
                assert len(wanted) > 20
                continue
            assert wanted <= set(listed) and len(listed) == len(set(listed))
            n_listed += 1
        assert n_listed > 100


def test_what_was_dropped_does_not_matter_once_better_ones_have_come() -> None:
    """Forty equal entries, then ten that are better: the list is certain, and what was dropped is remembered."""
    k, size = 3, 30
    tile = np.array([[0.5] * 40 + [0.9 - place / 100 for place in range(10)]], np.float32)
    lists = empty(1, size, 0.01)
    scan_rows(tile, 0, 0, np.zeros(50, np.float32), np.float32(0), k, lists)
    assert lists.dropped[0] == np.float32(0.5)
    assert {40, 41, 42} <= set(lists.columns[0, : lists.counts[0]].tolist())
