"""Result records and the store that keeps them: `DIR/records/ENCODER/TASK.json`, a list with one record a subset."""

from __future__ import annotations

import glob
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import fsum, isfinite
from pathlib import Path
from typing import Any

from harness.errors import InputError
from harness.files import replacing
from harness.names import check_folder_name


@dataclass(frozen=True)
class Result:
    """One encoder on one subset of one task: the scores, and all it takes to trace and repeat them.

    Attributes:
        task, task_version, subset: what was measured.
        encoder, fingerprint, spec: by which encoder; `spec` is its spec string without machine paths.
        metrics: scores x 100; counts, thresholds and seconds are plain.
        n: number of items (see the task).
        signature: spells the protocol.
        dataset: name, sha256, the sha256 of each file's uncompressed content, and whether they are the published files
            (null where no checksum of those is known).
        parts: for an average, the subsets that it is the unweighted mean of.
        zero_vectors: distinct sentences whose vector is zero.
        versions: of Python and of the packages that had a part in it.
        git: commit of the harness and whether its code was changed since; None outside a checkout.
        hardware: processor, cores, memory, device.
        wall_time_s: seconds that this subset took in the run that stored it.
        sentences_per_s: the encoder's speed on the subset's distinct sentences, when they were encoded.
        peak_memory_mb: peak resident memory while the subset was measured, imports and model included (elsewhere than
            on Linux: of the process so far).
        created: UTC, ISO 8601.
        tolerance: by metric how far a repeat may be off, where that is more than `leaderboard check` allows by
            default, with the `reason` for it. Written by hand; kept when the same is measured again.
    """

    task: str
    task_version: str
    subset: str
    encoder: str
    fingerprint: str
    metrics: dict[str, float]
    n: int
    signature: str
    dataset: dict[str, Any]
    spec: str = ""
    parts: list[str] = field(default_factory=list)
    zero_vectors: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    git: dict[str, Any] | None = None
    hardware: dict[str, Any] = field(default_factory=dict)
    wall_time_s: float = 0.0
    sentences_per_s: float | None = None
    peak_memory_mb: float = 0.0
    created: str = ""
    tolerance: dict[str, Any] = field(default_factory=dict)

    def measures_same_as(self, other: Result) -> bool:
        """Whether both promise the same scores: same task, vectors, protocol and data."""
        return self._identity == other._identity

    @property
    def _identity(self) -> tuple[str, ...]:
        return (self.task, self.task_version, self.subset, self.fingerprint, self.signature, self.dataset["sha256"])


def no_averages(results: list[Result]) -> list[Result]:
    """For records that are merged as they are."""
    return []


class ResultStore:
    """The records below one results folder."""

    def __init__(self, root: str | Path):
        self.root = Path(root)
        self.records = self.root / "records"

    def load(self, encoder: str | None = None, task: str | None = None) -> list[Result]:
        """All records, or those of one encoder or task, sorted by encoder, task, subset.

        Raises:
            InputError: a file that holds no records (it is named).
        """
        files = sorted(self.records.glob(f"{glob.escape(encoder or '') or '*'}/{glob.escape(task or '') or '*'}.json"))
        return [result for file in files for result in _read(file)]

    def merge(self, results: Iterable[Result], average: Callable[[list[Result]], list[Result]] = no_averages) -> None:
        """Add records; each replaces the one of the same encoder, task and subset, all others stay.

        `average` makes the averages that the records of one encoder and task allow, from those then in the file: what
        other processes have added counts, and an average never outlives its parts: one that is not the mean of its
        parts as they are now is dropped.

        Safe against a kill (written to a temporary file, then renamed) and against other processes (locked).

        Raises:
            InputError: the folder cannot be written, or an encoder's or task's name cannot name a file.
        """
        by_file: dict[Path, list[Result]] = {}
        for result in results:
            by_file.setdefault(self._file(result), []).append(result)
        from filelock import FileLock  # not needed for reading

        for file, new in by_file.items():
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                with FileLock(self.records / ".lock"):
                    records = {old.subset: old for old in (_read(file) if file.exists() else [])}
                    records.update({r.subset: _with_tolerance(r, records.get(r.subset)) for r in new})
                    records.update({result.subset: result for result in average(list(records.values()))})
                    write_atomically(file, _dump([r for r in records.values() if not _is_stale(r, records)]))
            except OSError as error:
                raise cannot_write(file, error) from None

    def _file(self, result: Result) -> Path:
        folder = self.records / check_folder_name(result.encoder, "encoder")
        return folder / f"{check_folder_name(result.task, 'task')}.json"


def mean_metrics(parts: Sequence[Result]) -> dict[str, float]:
    """The unweighted mean of every metric that all of `parts` have, rounded as in records."""
    shared = [name for name in parts[0].metrics if all(name in part.metrics for part in parts)]
    return {name: round(fsum(part.metrics[name] for part in parts) / len(parts), 6) for name in shared}


def _is_stale(result: Result, records: dict[str, Result]) -> bool:
    """Whether an average is not (or no longer) that of the records."""
    if not result.parts:
        return False
    parts = [records[name] for name in result.parts if name in records]
    return (
        len(parts) < len(result.parts)
        or any((part.fingerprint, part.signature) != (result.fingerprint, result.signature) for part in parts)
        or mean_metrics(parts) != result.metrics
    )


def _with_tolerance(result: Result, old: Result | None) -> Result:
    """The record with the tolerance of the one that it replaces, if that measures the same."""
    if result.tolerance or old is None or not old.measures_same_as(result):
        return result
    return replace(result, tolerance=old.tolerance)


def _check_tolerance(result: Result) -> None:
    reason = result.tolerance.get("reason", "")
    widths = [value for key, value in result.tolerance.items() if key != "reason"]
    if result.tolerance and not (isinstance(reason, str) and reason.strip()):
        raise ValueError(f"the tolerance of {result.subset} has no reason")
    if not all(isinstance(width, int | float) and isfinite(width) and width >= 0 for width in widths):
        raise ValueError(f"a tolerance of {result.subset} is no number")


def _dump(results: list[Result]) -> bytes:
    ordered = sorted(results, key=lambda result: result.subset)
    records = [asdict(result) for result in ordered]
    for record in records:
        if not record["tolerance"]:  # hardly any record has one
            del record["tolerance"]
    return (json.dumps(records, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _read(file: Path) -> list[Result]:
    try:
        results = [Result(**record) for record in json.loads(file.read_text(encoding="utf-8"))]
        for result in results:
            names = (result.encoder, result.task, result.subset, result.fingerprint, result.signature)
            if not all(isinstance(name, str) for name in names) or not isinstance(result.n, int):
                raise ValueError("a name that is no text, or an n that is no number")
            if not isinstance(result.dataset.get("sha256"), str):
                raise ValueError(f"{result.subset} has no checksum of its data")
            if not all(isfinite(value) for value in result.metrics.values()):
                raise ValueError(f"a score of {result.subset} is not finite")
            _check_tolerance(result)
        return results
    except (ValueError, TypeError, AttributeError, OSError) as error:
        raise InputError(f"{file}: no list of result records ({error}); restore the file or delete it") from None


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part. Raises OSError."""
    with replacing(path) as stream:
        stream.write(content)


def cannot_write(path: Path, error: OSError) -> InputError:
    """The error for a file that could not be written."""
    return InputError(f"{path}: cannot be written ({error.strerror or error}); name another folder or free some space")
