"""Whether a candidate is slower or larger than it may be, from what `leaderboard speed` has measured."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from harness.encoders.registry import failures_in_one_line, load_sides
from harness.encoders.sides import by_side
from harness.reproduction.findings import SIZE, SPEED, Check, Finding
from harness.reproduction.judge import Limits
from harness.reproduction.sides import Side
from harness.results.records import RecordKey
from harness.speed.store import Figure, Measurement, figure


def cost_checks(
    baseline: Side, candidate: Side, measured: Iterable[Measurement], limits: Limits, size: int | None = None
) -> list[Check]:
    """A check of speed and one of size, as far as they are limited; what is not measured is a finding `missing`.

    Args:
        measured: measurements of either, of any weights; those of the weights of the scores count.
        size: bytes of the candidate's files, where it has said so itself.
    """
    everything = list(measured)
    old, new = (
        [one for one in everything if one.encoder == side.encoder and one.fingerprint in side.fingerprints]
        for side in (baseline, candidate)
    )
    checks = []
    if limits.max_slowdown is not None:
        found = _slower(baseline, candidate, slowdown(old, new), limits.max_slowdown)
        checks.append(Check(RecordKey(candidate.name, *SPEED), found))
    if limits.max_size is not None:
        sizes = [n for n in (size, *(one.size_bytes for one in new)) if n is not None]
        checks.append(Check(RecordKey(candidate.name, *SIZE), _larger(baseline, candidate, sizes, limits.max_size)))
    return checks


def slowdown(old: Sequence[Measurement], new: Sequence[Measurement]) -> Figure | None:
    """How many times as long the new one takes for the same texts, many at a time; None if nothing tells it.

    Rounds of one command are compared in turn, so that a busy machine slows both. Else medians on the same machine.
    """
    together = [(b, a) for a, b in product(old, new) if a.session and a.session == b.session]
    for later, earlier in sorted(together, key=lambda pair: pair[0].created, reverse=True):
        if (ratio := later.times(earlier, "own")) is not None:
            return ratio
    alike = [(b, a) for a, b in product(old, new) if a.conditions == b.conditions]
    for later, earlier in sorted(alike, key=lambda pair: pair[0].created, reverse=True):
        mine, theirs = later.cell("own"), earlier.cell("own")
        if mine and theirs:
            return figure([mine.ms / theirs.ms])
    return None


def size_of(spec: str, **defaults: Any) -> int | None:
    """Bytes of the files that an encoder is loaded from, as it says itself; None where it does not. Loads it.

    Raises:
        HarnessError: it cannot be loaded.
    """
    with failures_in_one_line(spec):
        opened = load_sides(spec, **defaults)
        size = getattr(next(iter(by_side(opened).values())), "size_bytes", None)
    return size if isinstance(size, int) and size >= 0 else None


def _slower(baseline: Side, candidate: Side, ratio: Figure | None, limit: float) -> tuple[Finding, ...]:
    if ratio is None:
        return (
            _not_measured(
                "speed", f"speeds of {baseline.name} and {candidate.name} on one machine", baseline, candidate
            ),
        )
    if ratio.median <= limit:
        return ()
    rounds = f" (rounds {ratio.low:.2f} to {ratio.high:.2f})" if ratio.low < ratio.high else ""
    message = f"slower: {ratio.median:.2f} times as long as {baseline.name}{rounds}; at most {limit:g} is allowed"
    return (Finding("slower", "times as long", message, 1.0, ratio.median, limit),)


def _larger(baseline: Side, candidate: Side, sizes: Sequence[int], limit: float) -> tuple[Finding, ...]:
    if not sizes:
        return (_not_measured("size", f"the size of {candidate.name}", baseline, candidate),)
    size = max(sizes)
    if size <= limit:
        return ()
    message = f"larger: files of {size / 1e6:,.2f} MB; at most {limit / 1e6:,.2f} MB are allowed"
    return (Finding("larger", "MB", message, limit / 1e6, size / 1e6, limit / 1e6),)


def _not_measured(what: str, which: str, baseline: Side, candidate: Side) -> Finding:
    """The finding, with the command: both by their spec strings, to the folder of the one that is stored."""
    specs = [side.spec or next((r.spec for r in side.records.values() if r.spec), "") for side in (baseline, candidate)]
    remedy = "measured through the Python API: no spec string tells how to load it"
    if all(specs):
        root = next((side.root for side in (candidate, baseline) if side.is_stored), None)
        place = ["--results", root.as_posix()] if root else []
        remedy = f"`{shlex.join(['leaderboard', 'speed', *specs, *place])}` measures both in one command"
    return Finding("missing", what, f"missing: {which} not measured; {remedy}", "measured", "–")
