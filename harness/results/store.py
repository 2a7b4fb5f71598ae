"""The store of result records: `DIR/records/ENCODER/TASK.json`, a list with one record a subset."""

from __future__ import annotations

import glob
import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from operator import attrgetter
from pathlib import Path

from harness.core.errors import InputError
from harness.core.files import locked, refuse_way_out, write_atomically, writing
from harness.core.names import check_name
from harness.core.schema import read_json
from harness.data.columns import columns_of
from harness.encoders.spec import parse_spec
from harness.results.records import Identity, Result, mean_metrics, name_taken, seconds_of

_OPTIONAL = (
    "tolerance",
    "threads",
    "conditions",
    "usage",
    "base",
    "reduced",
    "languages",
    "sides",
    "left_out",
    "remarks",
)
"""Fields that are written where they hold something: most records have none of them, older records no threads."""

_PARTS = ("records", "rows")
"""Folders with one folder an encoder. Records first: where they are, nothing was set aside, or they are new."""


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

    def of_other_data(self, task: str, subset: str, sha256: str, signature: str) -> list[Result]:
        """The records of any encoder under a set's name that are of other files, or of other columns of a table.

        Raises InputError as `load`.
        """
        data = sha256, columns_of(signature)
        stored = [old for old in self.load(task=task) if old.subset == subset]
        return [old for old in stored if (old.dataset.sha256, columns_of(old.signature)) != data]

    def drop(self, records: Iterable[Result]) -> None:
        """Remove records, and averages that need them. Raises InputError: the folder cannot be written."""
        keys = {record.key for record in records}
        for file in {self._file(record) for record in records}:
            with writing(file), self._locked():
                left = {old.subset: old for old in self._read(file) if old.key not in keys}
                current = [record for record in left.values() if not is_stale(record, left)]
                if current:
                    write_atomically(file, _dump(current))
                else:
                    file.unlink()
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


def is_stale(result: Result, records: dict[str, Result]) -> bool:
    """Whether an average is not (or no longer) that of the records."""
    parts = [records[name] for name in result.parts if name in records]
    return bool(result.parts) and (
        len(parts) < len(result.parts)
        or any(part.fingerprint != result.fingerprint for part in parts)
        or not all(f"{part.signature}|".startswith(f"{result.signature}|") for part in parts)
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
        raise InputError(
            f"{file}: no list of result records ({error}); restore the file or delete it, "
            "unless a newer version made it"
        ) from None


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
