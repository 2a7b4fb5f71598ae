"""Measurements of speed made by hand, for tests of what is made from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.core.provenance import GitState
from harness.speed.store import Cell, Measurement


def measurement(encoder: str, seconds: float, **other: Any) -> Measurement:
    """Of three rounds, in which a medium text takes this time and 0.9 and 1.2 times as long; ten times alone."""
    rounds = [seconds, 0.9 * seconds, 1.2 * seconds]
    cells = [
        Cell(length, way, batch, 100, 100 * characters, [100 * times * taken for taken in rounds])
        for way, batch, times in (("alone", 1, 10.0), ("own", 64, 1.0), ("batch", 256, 0.5))
        for length, characters in (("short", 55), ("medium", 110), ("long", 560))
    ]
    made = Measurement(
        encoder=encoder,
        fingerprint=f"{encoder}-1",
        spec=encoder,
        dim=512,
        vector_bytes=2048,
        threads=2,
        texts="0123456789abcdef",
        cells=cells,
        load_s=[1.5, 1.25, 2.0],
        memory_mb=[131.5, 131.0],
        size_bytes=32_900_000,
        n_parameters=68_927_232,
        hardware={"processor": "Made-up CPU", "cores": 2, "memory_gib": 8, "device": "cpu"},
        versions={"numpy": "2.3.0", "python": "3.11.9"},
        git=GitState("6e8a5590000", False),
        created="2025-01-02T03:04:05+00:00",
        session="one",
    )
    return replace(made, **other)
