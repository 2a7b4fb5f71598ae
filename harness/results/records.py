"""Result records: one encoder on one subset of one task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import fsum
from typing import NamedTuple

import msgspec

from harness.core.errors import NameTakenError
from harness.core.provenance import GitState, Hardware
from harness.core.schema import Amount, Count, Name, Number
from harness.data.columns import columns_of
from harness.encoders.reduction import Reduced
from harness.encoders.sides import Sides

Tolerance = dict[str, Amount | str]
"""By metric how far a repeat may be off, and under "reason" why."""


@dataclass(frozen=True)
class Dataset:
    """The data of a record.

    Attributes:
        name: of the data set; of several, with `+` between the names.
        sha256: one checksum for all files.
        files: by name, the sha256 of each file's uncompressed content.
        published: whether they are the published files; None if no checksum of those is known.
    """

    name: str
    sha256: str
    files: dict[str, str]
    published: bool | None = None


class RecordKey(NamedTuple):
    """What a record is looked up by."""

    encoder: str
    task: str
    subset: str

    def __str__(self) -> str:
        return "/".join(self)  # as on the command line


class Identity(NamedTuple):
    """What a measurement is of: two with the same identity have the same scores.

    Attributes:
        signature: of the protocol.
        sha256: checksum of the data.
    """

    encoder: str
    fingerprint: str
    task: str
    task_version: str
    subset: str
    signature: str
    sha256: str

    @property
    def key(self) -> RecordKey:
        """The names by which its record is looked up."""
        return RecordKey(self.encoder, self.task, self.subset)


@dataclass(frozen=True)
class Result:
    """One encoder on one subset of one task: the scores, and all it takes to trace and repeat them.

    Attributes:
        task, task_version, subset: what was measured.
        encoder, fingerprint, spec: by which encoder; `spec` is its spec string without machine paths.
        metrics: scores x 100; counts, thresholds and seconds are plain.
        n: number of items (see the task).
        signature: spells the protocol.
        dataset: name and checksums of the data.
        parts: for an average, the subsets that it is the unweighted mean of.
        zero_vectors: distinct sentences whose vector is zero.
        versions: of Python and of the packages that had a part in it.
        git: commit of the harness and whether its code was changed since; None outside a checkout.
        hardware: processor, cores, memory, device.
        wall_time_s: seconds that this subset took in the run that stored it.
        sentences_per_s: the encoder's speed on the subset's distinct sentences, when they were encoded; None if they
            were fewer than 5,000. (`leaderboard speed` measures it.)
        peak_memory_mb: null; in old records that of the whole process.
        created: UTC, ISO 8601.
        tolerance: where a repeat may be off by more than `leaderboard check` allows by default. Written by hand, and
            kept when the same is measured again.
        threads: that the encoder might use when it made the vectors; None if it is not known or they differ.
        conditions: what else the vectors depend on by rounding (see `harness.encoders.encoder`).
        usage: what encoding the subset's distinct sentences took, of what the encoder counts (tokens, say).
        base: of cut or quantised vectors, the encoder whose vectors they were.
        reduced: what was done to them.
        languages: of a set of the user's own, ISO 639 codes, as far as they are known.
        sides: the fingerprints of an encoder that encodes queries and documents differently; `fingerprint` is their
            digest.
        left_out: how many of what the data hold were not measured, by what they are (see the task).
        remarks: what is to be known of the items, a clause each (see the task); of an average none.
    """

    task: Name
    task_version: str
    subset: Name
    encoder: Name
    fingerprint: str
    metrics: dict[str, Number]
    n: Count
    signature: str
    dataset: Dataset
    spec: str = ""
    parts: list[Name] = field(default_factory=list)
    zero_vectors: Count = 0
    versions: dict[str, str] = field(default_factory=dict)
    git: GitState | None = None
    hardware: Hardware = field(default_factory=dict)
    wall_time_s: Amount = 0.0
    sentences_per_s: Amount | None = None
    peak_memory_mb: Amount | None = None
    created: str = ""
    tolerance: Tolerance = field(default_factory=dict)
    threads: Count | None = None
    conditions: dict[str, str | int | Number] = field(default_factory=dict)
    usage: dict[str, Amount] = field(default_factory=dict)
    base: Name | None = None
    reduced: Reduced | None = None
    languages: list[Name] = field(default_factory=list)
    sides: Sides | None = None
    left_out: dict[str, Count] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    @property
    def fingerprints(self) -> list[str]:
        """Of the encoders whose vectors it is of: one, or those of the two sides."""
        return [self.sides.query, self.sides.document] if self.sides else [self.fingerprint]

    @property
    def key(self) -> RecordKey:
        """The names by which it is looked up."""
        return RecordKey(self.encoder, self.task, self.subset)

    def is_made_from(self, full: Result) -> bool:
        """Whether its vectors are those of `full`, cut or quantised, and both were measured on the same items."""
        alike = [(r.task, r.subset, r.signature, r.dataset.sha256) for r in (self, full)]
        is_named = (self.base, full.base) == (full.encoder, None)
        if self.reduced is None or not is_named or alike[0] != alike[1] or bool(self.sides) != bool(full.sides):
            return False
        return all(map(self.reduced.is_made, full.fingerprints, self.fingerprints))

    @property
    def identity(self) -> Identity:
        """What it measures."""
        return Identity(
            self.encoder,
            self.fingerprint,
            self.task,
            self.task_version,
            self.subset,
            self.signature,
            self.dataset.sha256,
        )


def name_taken(stored: Result, fingerprint: str) -> NameTakenError:
    """The error for an encoder under whose name results of other weights or options are stored."""
    return NameTakenError(
        f"results stored for {stored.encoder!r} are of other weights or options ({stored.fingerprint}, now "
        f"{fingerprint}); add name=... to the encoder to keep both, or --replace to remove those"
    )


def set_taken(stored: Result, sha256: str) -> NameTakenError:
    """The error for a set of the user's own, with this checksum, under whose name results on other data are stored."""
    columns = columns_of(stored.signature)
    if sha256 != stored.dataset.sha256:
        data = f"other files (sha256 {stored.dataset.sha256[:12]})"
    elif columns:
        data = f"other columns ({', '.join(map(repr, columns))})"
    else:
        data = "columns that they do not tell" if columns is None else "other columns (those with the usual names)"
    return NameTakenError(
        f"results stored for the set {stored.subset!r} ({stored.task}) are of {data}; give it another name "
        "(--set-name), or --replace to remove those"
    )


def seconds_of(result: Result) -> float:
    """When a record was created, in seconds since 1970. Raises ValueError, OverflowError or OSError."""
    return msgspec.convert(result.created, datetime).timestamp()


def mean_metrics(parts: Sequence[Result]) -> dict[str, float]:
    """The unweighted mean of every metric that all of `parts` have, rounded as in records."""
    shared = [name for name in parts[0].metrics if all(name in part.metrics for part in parts)]
    return {name: round(fsum(part.metrics[name] for part in parts) / len(parts), 6) for name in shared}
