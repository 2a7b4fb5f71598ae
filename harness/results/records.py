"""Result records and the store that keeps them: `DIR/records/ENCODER/TASK.json`, a list with one record a subset."""

from __future__ import annotations

import glob
import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from math import fsum
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import msgspec

from harness.core.errors import InputError, NameTakenError
from harness.core.files import locked, refuse_way_out, write_atomically, writing
from harness.core.names import check_name
from harness.core.provenance import GitState, Hardware
from harness.core.schema import Amount, Count, Name, Number, read_json
from harness.encoders.reduction import Reduced
from harness.encoders.sides import Sides
from harness.encoders.spec import parse_spec

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


_OPTIONAL = ("tolerance", "threads", "conditions", "usage", "base", "reduced", "languages", "sides", "left_out")
"""Fields that are written where they hold something: most records have none of them, older records no threads."""

_PARTS = ("records", "rows")
"""Folders with one folder an encoder. Records first: where they are, nothing was set aside, or they are new."""


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


def set_taken(stored: Result) -> NameTakenError:
    """The error for a set of the user's own under whose name results on other files are stored."""
    return NameTakenError(
        f"results stored for the set {stored.subset!r} ({stored.task}) are of other files (sha256 "
        f"{stored.dataset.sha256[:12]}); give it another name (--set-name), or --replace to remove those"
    )


class ResultStore:
    """The records below one results folder.

    A file is parsed once, and again only after another process has changed it.
    """

    def __init__(self, root: str | Path):
        self.root = Path(root)
        self.records = self.root / "records"
        self._parsed: dict[Path, tuple[_Stamp, list[Result]]] = {}

    def load(self, encoder: str | None = None, task: str | None = None) -> list[Result]:
        """All records, or those of one encoder or task, sorted by encoder, task, subset.

        Raises:
            InputError: a file that holds no records (it is named).
        """
        files = sorted(self.records.glob(f"{glob.escape(encoder or '') or '*'}/{glob.escape(task or '') or '*'}.json"))
        return [result for file in files for result in self._read(file)]

    def find(self, wanted: Identity) -> Result | None:
        """The record of a measurement, if it is stored. Raises InputError as `load`."""
        records = self.load(wanted.encoder, wanted.task)
        return next((record for record in records if record.identity == wanted), None)

    def merge(self, results: Iterable[Result]) -> None:
        """Add records; each replaces the one of the same encoder, task and subset, all others stay.

        An average that is not the mean of its parts as they are now is dropped. Safe against a kill (written to a
        temporary file, then renamed) and against other processes (locked).

        Raises:
            InputError: the folder cannot be written, or an encoder's or task's name cannot name a file.
        """
        by_file: dict[Path, list[Result]] = {}
        for result in results:
            by_file.setdefault(self._file(result), []).append(result)
        for file, new in by_file.items():
            with writing(file), self._locked():
                file.parent.mkdir(parents=True, exist_ok=True)
                records = {old.subset: old for old in (self._read(file) if file.exists() else [])}
                records.update({r.subset: _with_tolerance(r, records.get(r.subset)) for r in new})
                current = [record for record in records.values() if not is_stale(record, records)]
                current.sort(key=attrgetter("subset"))
                write_atomically(file, _dump(current))
                self._parsed[file] = _stamp(file), current

    def others(self, encoder: str, fingerprint: str) -> list[Result]:
        """The records under an encoder's name that are of other weights or options.

        Raises:
            InputError: as `load`; or what a kill has left cannot be put back.
        """
        if self._aside(encoder).is_dir():
            with self._locked():
                self._recover(encoder)
        return [old for old in self.load(encoder) if old.fingerprint != fingerprint]

    def of_other_data(self, task: str, subset: str, sha256: str) -> list[Result]:
        """The records of any encoder under a set's name that are of other files. Raises InputError as `load`."""
        return [old for old in self.load(task=task) if old.subset == subset and old.dataset.sha256 != sha256]

    def drop(self, records: Iterable[Result]) -> None:
        """Remove records, and averages that need them. Raises InputError: the folder cannot be written."""
        keys = {record.key for record in records}
        for file in {self._file(record) for record in records}:
            with writing(file), self._locked():
                left = {old.subset: old for old in self._read(file) if old.key not in keys}
                current = [record for record in left.values() if not is_stale(record, left)]
                write_atomically(file, _dump(current))
                self._parsed[file] = _stamp(file), current

    @contextmanager
    def storing(self, encoder: str, fingerprint: str, *, replace: bool = False) -> Iterator[int]:
        """Hold the store for a `with` block that adds what was measured with these weights and options.

        With `replace`, all records and rows of that name are removed first if some are of others; yields the number of
        records removed. If the block raises, all is as before; after a kill, as soon as the encoder is stored again.

        Raises:
            NameTakenError: some are of others, and not `replace`.
            InputError: the folder cannot be written.
        """
        with self._locked():
            others = self.others(encoder, fingerprint)
            if others and not replace:
                raise name_taken(others[0], fingerprint)
            if not others:
                yield 0
                return
            n = len(self.load(encoder))
            try:
                self._set_aside(encoder)
                yield n
            except BaseException:
                self._put_back(encoder)
                raise
            shutil.rmtree(self._aside(encoder), ignore_errors=True)

    def _read(self, file: Path) -> list[Result]:
        stamp = _stamp(file)  # first: a file that is replaced before it is parsed is parsed again next time
        known, results = self._parsed.get(file, (None, []))
        if stamp is None or stamp != known:
            results = _parse(file)
            self._parsed[file] = stamp, results
        return results

    @contextmanager
    def _locked(self) -> Iterator[None]:
        file = self.records / ".lock"
        with ExitStack() as stack:
            with writing(file):
                self.records.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(file))
            yield

    def _aside(self, encoder: str) -> Path:
        return self.root / f".replaced-{check_name(encoder, 'encoder')}"

    def _set_aside(self, encoder: str) -> None:
        for part in _PARTS:
            refuse_way_out(self.root / part / encoder / "any", self.root)
        with writing(self.root):
            self._aside(encoder).mkdir()
            for part in _PARTS:
                if (self.root / part / encoder).is_dir():
                    (self.root / part / encoder).rename(self._aside(encoder) / part)

    def _put_back(self, encoder: str) -> None:
        for part in _PARTS:
            if (self._aside(encoder) / part).is_dir():
                shutil.rmtree(self.root / part / encoder, ignore_errors=True)
                (self._aside(encoder) / part).rename(self.root / part / encoder)
        shutil.rmtree(self._aside(encoder), ignore_errors=True)

    def _recover(self, encoder: str) -> None:
        """Finish what a kill has left: put back what was set aside, unless its successor is there."""
        if any((self.records / encoder).glob("*.json")):
            shutil.rmtree(self._aside(encoder), ignore_errors=True)
        else:
            self._put_back(encoder)

    def _file(self, result: Result) -> Path:
        folder = self.records / check_name(result.encoder, "encoder")
        return refuse_way_out(folder / f"{check_name(result.task, 'task')}.json", self.root)


_Stamp = tuple[int, int, int] | None


def _stamp(file: Path) -> _Stamp:
    """What tells whether a file is still the same: every write puts a new file in its place."""
    with suppress(OSError):
        status = file.stat()
        return status.st_mtime_ns, status.st_size, status.st_ino
    return None


def seconds_of(result: Result) -> float:
    """When a record was created, in seconds since 1970. Raises ValueError, OverflowError or OSError."""
    return msgspec.convert(result.created, datetime).timestamp()


def mean_metrics(parts: Sequence[Result]) -> dict[str, float]:
    """The unweighted mean of every metric that all of `parts` have, rounded as in records."""
    shared = [name for name in parts[0].metrics if all(name in part.metrics for part in parts)]
    return {name: round(fsum(part.metrics[name] for part in parts) / len(parts), 6) for name in shared}


def is_stale(result: Result, records: dict[str, Result]) -> bool:
    """Whether an average is not (or no longer) that of the records."""
    parts = [records[name] for name in result.parts if name in records]
    return bool(result.parts) and (
        len(parts) < len(result.parts)
        or any((part.fingerprint, part.signature) != (result.fingerprint, result.signature) for part in parts)
        or not result.metrics.items() <= mean_metrics(parts).items()
    )


def _with_tolerance(result: Result, old: Result | None) -> Result:
    """The record with the tolerance of the one that it replaces, if that measures the same. (Averages have none.)"""
    if result.tolerance or result.parts or old is None or old.identity != result.identity:
        return result
    return replace(result, tolerance=old.tolerance)


def _dump(results: Sequence[Result]) -> bytes:
    records = [{k: v for k, v in asdict(result).items() if v or k not in _OPTIONAL} for result in results]
    return (json.dumps(records, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _parse(file: Path) -> list[Result]:
    try:
        results = read_json(file, list[Result], exact=True)
        for result in results:
            _check(result, file)
        if len({result.subset for result in results}) < len(results):
            raise ValueError("two records of one subset")
        return results
    except ValueError as error:
        raise InputError(f"{file}: no list of result records ({error}); restore the file or delete it") from None


def _check(result: Result, file: Path) -> None:
    """What the types do not say. Raises ValueError."""
    # Else two files would hold records of one encoder, and what is stored would replace neither of them.
    if (result.encoder, result.task) != (file.parent.name, file.stem):
        raise ValueError(f"a record of {result.encoder}/{result.task}, which is stored elsewhere")
    if result.spec:
        try:
            parse_spec(result.spec)
        except InputError as error:
            raise ValueError(f"spec of {result.subset}: {error}") from None
    if result.sides and result.sides.fingerprint != result.fingerprint:
        raise ValueError(f"the fingerprint of {result.subset} is not that of its two sides")
    if result.created:
        try:
            seconds_of(result)
        except (ValueError, OverflowError, OSError):
            raise ValueError(f"created of {result.subset} is no time in ISO 8601: {result.created!r}") from None
    reason = result.tolerance.get("reason", "")
    if result.tolerance and not (isinstance(reason, str) and reason.strip()):
        raise ValueError(f"the tolerance of {result.subset} has no reason")
    if not all(isinstance(width, float) for key, width in result.tolerance.items() if key != "reason"):
        raise ValueError(f"a tolerance of {result.subset} is no number")
