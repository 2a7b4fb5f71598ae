"""The process in which one encoder is measured: it reads commands as lines of JSON from stdin, and answers on stdout.

Nothing else comes out on stdout: what the encoder prints goes to stderr. The first command opens the encoder.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import IO, Any

import numpy as np

from harness.core import provenance
from harness.core.errors import one_line
from harness.core.threads import limited, n_threads, using_threads
from harness.encoders.encoder import Encoder, check_vectors
from harness.encoders.registry import check_spec, encoder_info, load_sides
from harness.encoders.sides import TwoSided
from harness.encoders.variant import full_of
from harness.speed.store import Length
from harness.speed.texts import SENTENCES, Text, taken

EXERCISE = 64
"""Texts of each length that are encoded to see how much memory that takes."""

_AT_MOST = 200_000  # texts in a repeat

Answer = dict[str, Any]
"""What a command gives back, as JSON."""


def serve(commands: IO[str], answers: IO[str]) -> None:
    """Answer commands until there are no more. Whatever the encoder raises becomes `{"error": ...}`."""
    worker = _Worker()
    for line in commands:
        request = json.loads(line)
        try:
            function: Callable[..., Mapping[str, Any]] = getattr(worker, request.pop("do"))
            answer = function(**request)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # `sys.exit`, a panic of Rust code
            if os.environ.get("HARNESS_DEBUG"):
                traceback.print_exc()
            answer = {"error": one_line(error)}
        print(json.dumps(answer), file=answers, flush=True)


class _Worker:
    """One encoder, opened by `open`."""

    def __init__(self) -> None:
        self._encoder: Encoder | None = None

    def open(self, *, spec: str, defaults: Mapping[str, object]) -> Answer:
        """Load an encoder in the place of the one that is open. Returns what it says of itself, and the seconds.

        Those of a variant are its base's: the calibration of int8 is of many sentences, and made once for an index.
        Of an encoder with a prompt for queries and one for documents, that of the documents is measured: they are many.
        """
        self._encoder = None
        gc.collect()
        start = time.perf_counter()
        opened = load_sides(spec, **defaults)
        encoder = opened.document if isinstance(opened, TwoSided) else opened
        base = full_of(encoder)
        with limited():
            first = _encode(base, taken("short", 1))
        seconds = time.perf_counter() - start
        check_vectors(first, ["a"], base)
        self._encoder = encoder
        checked = check_spec(spec)
        return {
            "fingerprint": opened.fingerprint,
            "dim": int(encoder.dim),
            "vector_bytes": _count(encoder, "vector_bytes") or 4 * int(encoder.dim),
            "size_bytes": _count(encoder, "size_bytes"),
            "n_parameters": _count(encoder, "n_parameters"),
            "max_length": _count(encoder, "max_length"),
            "device": (device := str(getattr(encoder, "device", None) or "cpu")),
            "gpu": _gpu(device),
            "threads": n_threads(),
            "versions": provenance.versions(encoder_info(checked.head).modules),
            "seconds": seconds,
        }

    def exercise(self) -> Answer:
        """Encode some texts of each length; with the base of a variant, see `open`."""
        assert self._encoder is not None
        base = full_of(self._encoder)
        for length in SENTENCES:
            batch = taken(length, EXERCISE)
            with limited():
                vectors = _encode(base, batch)
            check_vectors(vectors, [text.text for text in batch], base)
        return {}

    def memory(self) -> Answer:
        """Resident memory of this process in MB, now and at its peak, and what PyTorch took of a GPU's at its peak."""
        now, peak = _memory_mb()
        return {"now": now, "peak": peak, "device_peak": _device_memory_mb()}

    def calibrate(
        self, *, length: Length, alone: bool, unit: int, at_least: int, seconds: float, at_most_s: float | None
    ) -> Answer:
        """How many texts take about so many seconds, and how many they take: 1, 2, 5, 10, 20, ... times `unit`.

        The number does not change with small disturbances. There are at least `at_least`, however long they take; but
        it is 0 if so few take longer than `at_most_s`.
        """
        unit = -(-at_least // unit) * unit
        n = 1 if alone else min(unit, 8)
        self._seconds(length, 1, alone)  # what is made at the first call is not to be timed
        while True:
            took = self._seconds(length, n, alone)
            if at_most_s is not None and took / n * unit > at_most_s:
                return {"n": 0, "seconds": 0}
            if took >= seconds / 4 or n >= _AT_MOST:
                break
            n = min(_AT_MOST, max(2 * n, round(n * min(10.0, seconds / 2 / max(took, 1e-9)))))
        chosen = unit * _rounded(seconds * n / took / unit)
        return {"n": chosen, "seconds": took / n * chosen}

    def measure(self, *, length: Length, n: int, alone: bool) -> Answer:
        """The seconds that `n` texts take, and the characters in them."""
        characters = sum(len(text.text) for text in taken(length, n))
        return {"n": n, "characters": characters, "seconds": self._seconds(length, n, alone)}

    def _seconds(self, length: Length, n: int, alone: bool) -> float:
        assert self._encoder is not None
        batch = taken(length, n)
        calls = [[text] for text in batch] if alone else [batch]
        gc.collect()
        with limited():
            start = time.perf_counter()
            for call in calls:
                _encode(self._encoder, call)
            return time.perf_counter() - start


def _encode(encoder: Encoder, batch: Sequence[Text]) -> Any:
    """The vectors of texts; language by language, where the encoder wants to know it."""
    if not encoder.uses_lang or len(batch) == 1:
        return encoder.encode([text.text for text in batch], lang=batch[0].lang)
    languages = groupby(sorted(batch, key=attrgetter("lang")), key=attrgetter("lang"))
    return np.concatenate([encoder.encode([text.text for text in texts], lang=lang) for lang, texts in languages])


def _rounded(wanted: float) -> int:
    """The nearest of 1, 2, 5, 10, 20, ..., by ratio."""
    series: list[int] = [digit * 10**power for power in range(7) for digit in (1, 2, 5)]
    return min(series, key=lambda n: max(n / max(wanted, 1e-9), wanted / n))


def _count(encoder: Encoder, attribute: str) -> int | None:
    """One of the attributes that an encoder need not have, where it is a whole number."""
    try:
        value = int(getattr(encoder, attribute))
    except Exception:  # it is not there, None, or fails in a third party's way
        return None
    return value if value >= 0 else None


def _memory_mb() -> tuple[float, float] | tuple[None, None]:
    """Resident memory now and at its peak; None where the system does not tell (Windows).

    On Linux not from `getrusage`, whose peak a process inherits from the one that started it.
    """
    with suppress(OSError, ValueError, KeyError):
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        fields = dict(line.split(":", 1) for line in lines if line.startswith("Vm"))
        now, peak = (int(fields[name].split()[0]) * 1024 / 1e6 for name in ("VmRSS", "VmHWM"))
        return now, peak
    try:
        import resource
    except ImportError:
        return None, None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
    return peak, peak


def _gpu(device: str) -> str | None:
    """The name of a GPU, of a device as PyTorch names it."""
    torch = sys.modules.get("torch")
    if torch is None or not device.startswith("cuda") or not torch.cuda.is_initialized():
        return None
    return str(torch.cuda.get_device_name(device))


def _device_memory_mb() -> float | None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return float(torch.cuda.max_memory_reserved() / 1e6)


def main() -> None:
    """Serve on the pipes that this process was started with, which the encoder does not see: not its input either."""
    number = int(sys.argv[1])
    commands, answers = os.fdopen(os.dup(0), encoding="utf-8"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    sys.stdin, sys.stdout = open(0, closefd=False), sys.stderr  # noqa: SIM115  (for as long as the process)
    with using_threads(number or None), suppress(BrokenPipeError):  # nobody waits for an answer any more
        serve(commands, answers)
