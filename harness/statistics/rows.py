"""Per-item rows on disk: `RESULTS/rows/ENCODER/TASK/SUBSET.npz`, or `.jsonl` or `.parquet` where a run asks for it.

A run keeps them, so that other encoders can be tested against this one later, and intervals computed without measuring.
Where a file is absent, `harness.statistics.compact` may have its rows.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import HarnessError, InputError, MissingExtraError, one_line
from harness.core.files import locked, refuse_way_out, write_atomically, writing
from harness.core.names import check_name
from harness.core.text import iter_lines
from harness.protocol import get_task
from harness.protocol.task import Rows, Task
from harness.results.records import Identity, RecordKey, Result
from harness.results.statistics import digest
from harness.results.store import ResultStore
from harness.statistics.compact import compact_file, compact_rows, compact_sets, has_compact_rows, packed

FORMATS = ("npz", "jsonl", "parquet")
"""Compact, for `numpy.load`; one JSON object per line; Parquet."""


def rows_file(results: Path, key: RecordKey, file_format: str) -> Path:
    """The path of the rows of a record. Raises InputError if its names cannot name files, or a link leads out."""
    folder = results / "rows" / check_name(key.encoder, "encoder") / check_name(key.task, "task")
    return refuse_way_out(folder / f"{check_name(key.subset, 'subset')}.{file_format}", results)


def has_rows(results: Path, key: RecordKey, file_format: str | None = None) -> bool:
    """Whether the rows of a record are kept, in that format or in any; those that are packed count as npz.

    Raises:
        InputError: the file of packed rows is damaged.
    """
    if any(rows_file(results, key, name).is_file() for name in ([file_format] if file_format else FORMATS)):
        return True
    return file_format in (None, "npz") and has_compact_rows(results, key)


def save_rows(results: Path, key: RecordKey, rows: Rows, file_format: str = "npz") -> None:
    """Writes the rows of a record and removes its earlier ones; in JSON and Parquet one record per row, NaN as null.

    Raises:
        InputError: unknown format, or the folder cannot be written.
        MissingExtraError: Parquet without pyarrow.
    """
    if file_format not in FORMATS:
        raise InputError(f"rows are written as {' or '.join(FORMATS)}, not {file_format!r}")
    path = rows_file(results, key, file_format)
    with writing(path):
        for name in FORMATS if path.parent.is_dir() else ():
            rows_file(results, key, name).unlink(missing_ok=True)
    write_atomically(path, _WRITERS[file_format](rows))


def _npz(rows: Rows) -> bytes:
    buffer = io.BytesIO()
    # NumPy pickles columns of Python objects; texts can be read without pickle.
    columns: dict[str, Any] = {key: _plain(column) for key, column in rows.items()}
    np.savez_compressed(buffer, **columns)
    return buffer.getvalue()


def _plain(column: NDArray[Any]) -> NDArray[Any]:
    return np.array(list(map(str, column))) if column.dtype.hasobject else column


def _jsonl(rows: Rows) -> bytes:
    columns = _lists(rows)
    records = (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def _parquet(rows: Rows) -> bytes:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("--rows-format parquet", "parquet") from None
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(_lists(rows)), buffer)
    return buffer.getvalue()


def _lists(rows: Rows) -> dict[str, list[object]]:
    return {
        key: [None if isinstance(v, float) and math.isnan(v) else v for v in column.tolist()]
        for key, column in rows.items()
    }


_WRITERS: dict[str, Callable[[Rows], bytes]] = {"npz": _npz, "jsonl": _jsonl, "parquet": _parquet}


def stored_rows(store: ResultStore, task: Task, wanted: Identity) -> tuple[Result, Rows] | None:
    """The record and per-item rows that an earlier run kept for the same data, vectors and protocol; else None.

    Raises:
        InputError: the rows are damaged or not those of their record.
        MissingExtraError: Parquet without pyarrow.
    """
    record = store.find(wanted) if has_rows(store.root, wanted.key) else None
    rows = rows_of(store.root, task, record) if record else None
    return (record, rows) if record and rows is not None else None


@dataclass
class EncoderRows:
    """An encoder's rows by task and subset, and the reasons why other subsets have none."""

    encoder: str
    rows: dict[tuple[str, str], Rows] = field(default_factory=dict)
    failures: dict[tuple[str, str], str] = field(default_factory=dict)


def rows_of(results: Path, task: Task, record: Result) -> Rows | None:
    """The per-item rows of a stored record; None if they were not kept. Raises as `stored_rows`."""
    paths = (rows_file(results, record.key, name) for name in FORMATS)
    path = next((path for path in paths if path.is_file()), None)
    rows = compact_rows(results, record) if path is None else None
    if path is None and rows is None:
        return None
    where = path or compact_file(results, record.encoder)
    try:
        rows = rows if path is None else _read_rows(path)
    except MissingExtraError:
        raise
    except Exception:  # damaged in any way: a line that is no record, pyarrow's errors
        raise _not_its_rows(where) from None
    try:
        metrics = task.aggregate(rows or {})
    except Exception as error:  # of another package's task, say; or rows that are older than a column that it reads
        raise InputError(
            f"{where}: the task {task.name} cannot score these rows ({one_line(error)}); measure again with `run "
            "--save-rows`, or let its `aggregate` leave out what lacks a column"
        ) from None
    # A later version of the task may measure more.
    if any(name not in metrics or round(metrics[name], 6) != value for name, value in record.metrics.items()):
        raise _not_its_rows(where)
    return rows


def are_usable(results: Path, task: Task, record: Result, file_format: str) -> bool:
    """Whether the rows of a stored record are kept in this format, and its metrics can be computed from them."""
    try:
        return has_rows(results, record.key, file_format) and rows_of(results, task, record) is not None
    except MissingExtraError:  # nobody can tell
        return True
    except InputError:
        return False


def _not_its_rows(where: Path) -> InputError:
    return InputError(f"{where}: not the rows of the stored result; measure again with `run --save-rows`")


@dataclass(frozen=True)
class Kept:
    """What is kept of an encoder's rows.

    Attributes:
        n_sets: stored results, without averages.
        n_loose, loose_bytes: sets with a file below `rows/`, and its size.
        n_packed, packed_bytes: sets with rows of the result as it is now in the packed file, and the size of the file.
        missing: the results without rows, of any kind.
    """

    n_sets: int
    n_loose: int
    loose_bytes: int
    n_packed: int
    packed_bytes: int
    missing: tuple[Result, ...]


def kept_rows(store: ResultStore, encoder: str) -> Kept:
    """What is kept of an encoder's rows. Raises InputError for a damaged file of packed rows."""
    records = [record for record in store.load(encoder) if not record.parts]
    paths = {
        r.key: [path for name in FORMATS if (path := rows_file(store.root, r.key, name)).is_file()] for r in records
    }
    digests = compact_sets(store.root, encoder)
    packed = [record for record in records if digests.get((record.task, record.subset)) == digest(record)]
    file = compact_file(store.root, encoder)
    return Kept(
        n_sets=len(records),
        n_loose=sum(map(bool, paths.values())),
        loose_bytes=sum(path.stat().st_size for of_record in paths.values() for path in of_record),
        n_packed=len(packed),
        packed_bytes=file.stat().st_size if file.is_file() else 0,
        missing=tuple(record for record in records if not paths[record.key] and record not in packed),
    )


def pack_rows(store: ResultStore, encoder: str) -> list[str]:
    """Write all rows that are kept of an encoder to its packed file; returns why some of them were left out.

    Raises:
        InputError: none can be packed, the packed file that is there is damaged, or the folder cannot be written.
    """
    file = compact_file(store.root, encoder)
    chosen, failures = [], []
    with writing(file), locked(store.records / ".lock"):  # the records must not change meanwhile
        compact_sets(store.root, encoder)
        for record in store.load(encoder):
            try:
                rows = None if record.parts else rows_of(store.root, get_task(record.task), record)
            except HarnessError as error:
                failures.append(one_line(error))
                continue
            if rows is not None:
                chosen.append((record, rows))
        if not chosen:
            why = f" ({failures[0]})" if failures else "; `leaderboard run --save-rows` measures again what has none"
            raise InputError(f"{store.root} has no rows of {encoder} to pack{why}")
        write_atomically(file, packed(chosen))
    return failures


def _read_rows(path: Path) -> Rows:
    """The columns that `save_rows` has written, null as NaN. Damaged files raise exceptions of any kind."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as columns:
            return {key: columns[key] for key in columns.files}
    if path.suffix == ".parquet":
        try:
            import pyarrow.parquet
        except ImportError:
            raise MissingExtraError(f"reading {path}", "parquet") from None
        lists = pyarrow.parquet.read_table(path).to_pydict()
    else:
        records = [json.loads(line) for line in iter_lines(path)]
        lists = {key: [record[key] for record in records] for key in records[0]}
    return {key: _column(values) for key, values in lists.items()}


def _column(values: list[Any]) -> NDArray[Any]:
    """An array of integers, numbers, truth values or texts; only numbers can be null."""
    return np.array(values, dtype=np.float64) if None in values else np.array(values)
