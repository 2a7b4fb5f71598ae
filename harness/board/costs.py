"""What encoders cost, for the page: speed with its spread, memory, sizes; and which machines are alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.report.speed import ms_cell, setup_text
from harness.results.records import Result
from harness.speed.store import Figure, Measurement, choose, figure
from harness.statistics.candidates import HOW_TO_MEASURE


def costs(results: Sequence[Result], measured: Iterable[Measurement], places: Mapping[str, int]) -> dict[str, Any]:
    """`setup`: the machine that most were measured on; `by_encoder`: by encoder's place, what it costs; `hint`: how to
    measure what is not known.

    `alike`: whether speed and memory were measured as most others were; only such are compared. `scores`: whether the
    weights are those of the scores; `ms`: of one text alone, as the tables print it. Speeds are of two
    sentences each, many at a time.
    """
    fingerprints = {(result.encoder, result.fingerprint) for result in results}
    chosen, usual = choose((one for one in measured if one.encoder in places), fingerprints)
    return {
        "hint": f"`leaderboard speed` measures it ({HOW_TO_MEASURE})",
        "setup": setup_text(usual) if usual else "",
        "by_encoder": {
            places[name]: _cost(
                one, bool(usual and one.conditions == usual.conditions), (name, one.fingerprint) in fingerprints
            )
            for name, one in sorted(chosen.items())
        },
    }


def _cost(one: Measurement, is_alike: bool, is_of_scores: bool) -> dict[str, Any]:
    many, alone = one.cell("own"), one.cell("alone")
    return {
        "speed": _spread(many.sentences_per_s if many else None),
        "ms": ms_cell(alone.ms).text if alone else None,
        "load": _spread(figure(one.load_s)),
        "memory": _spread(figure(one.memory_mb)),
        "size": one.size_bytes,
        "parameters": one.n_parameters,
        "dim": one.dim,
        "bytes": one.vector_bytes,
        "tokens": one.max_length,
        "alike": is_alike,
        "scores": is_of_scores,
        "setup": setup_text(one),
    }


def _spread(known: Figure | None) -> list[float] | None:
    """Median, lowest and highest."""
    return list(known) if known else None
