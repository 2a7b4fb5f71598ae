"""Per-item rows on disk: `RESULTS/rows/ENCODER/TASK/SUBSET.parquet` or `.jsonl`."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.data import Source
from harness.data.text import iter_lines
from harness.encoder import Encoder
from harness.errors import InputError, MissingExtraError
from harness.results import Result, ResultStore, cannot_write, write_atomically
from harness.tasks import Rows, Task

FORMATS = ("jsonl", "parquet")


def rows_file(folder: Path, subset: str, file_format: str) -> Path:
    """Where the rows of a subset are."""
    return folder / f"{subset}.{file_format}"


def drop_rows(folder: Path, subset: str) -> None:
    """Delete the rows of a subset, in whatever format: they must not outlive the record that they belong to."""
    for file_format in FORMATS if folder.is_dir() else ():
        rows_file(folder, subset, file_format).unlink(missing_ok=True)


def save_rows(folder: Path, subset: str, rows: Rows, file_format: str) -> Path:
    """Write the rows of one subset, one record a row; NaN becomes null. Returns the file.

    Raises:
        InputError: unknown format, or the folder cannot be written.
        MissingExtraError: Parquet without pyarrow.
    """
    if file_format not in FORMATS:
        raise InputError(f"rows are written as {' or '.join(FORMATS)}, not {file_format!r}")
    path = rows_file(folder, subset, file_format)
    columns = {
        key: [None if isinstance(v, float) and math.isnan(v) else v for v in column.tolist()]
        for key, column in rows.items()
    }
    try:
        if file_format == "parquet":
            write_atomically(path, _parquet(columns))
        else:
            records = (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
            write_atomically(path, "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records).encode())
    except OSError as error:
        raise cannot_write(path, error) from None
    return path


def _parquet(columns: dict[str, list[object]]) -> bytes:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("--rows-format parquet", "parquet") from None
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), buffer)
    return buffer.getvalue()


def stored_rows(results: Path, encoder: Encoder, task: Task, source: Source) -> Rows | None:
    """The per-item rows that an earlier run kept, of the same data with the same vectors and protocol; else None.

    Raises:
        InputError: they are damaged or not those of their record.
        MissingExtraError: Parquet without pyarrow.
    """
    folder = results / "rows" / encoder.name / task.name
    paths = [path for name in FORMATS if (path := rows_file(folder, source.subset, name)).is_file()]
    wanted = Result(
        task=task.name,
        task_version=task.version,
        subset=source.subset,
        encoder=encoder.name,
        fingerprint=encoder.fingerprint,
        metrics={},
        n=0,
        signature=task.full_signature,
        dataset={"sha256": source.sha256},
    )
    records = ResultStore(results).load(encoder.name, task.name) if paths else []
    record = next((record for record in records if record.measures_same_as(wanted)), None)
    if record is None:
        return None
    try:
        rows = _read_rows(paths[0])
        metrics = task.aggregate(rows)
        is_same = {m: round(metrics[m], 6) for m in task.metrics if m in metrics} == record.metrics
    except MissingExtraError:
        raise
    except Exception:  # damaged in any way: a line that is no record, a column that is not there, pyarrow's errors
        is_same = False
    if not is_same:
        raise InputError(f"{paths[0]}: not the rows of the stored result; measure again with `run --fresh --save-rows`")
    return rows


def _read_rows(path: Path) -> Rows:
    """The columns that `save_rows` has written, null as NaN. Whatever is wrong with them raises some exception."""
    if path.suffix == ".parquet":
        try:
            import pyarrow.parquet
        except ImportError:
            raise MissingExtraError(f"reading {path}", "parquet") from None
        columns = pyarrow.parquet.read_table(path).to_pydict()
    else:
        records = [json.loads(line) for line in iter_lines(path)]
        columns = {key: [record[key] for record in records] for key in records[0]}
    return {key: _column(values) for key, values in columns.items()}


def _column(values: list[Any]) -> NDArray[Any]:
    """Whole numbers, numbers, truth values or texts; null is for numbers alone."""
    return np.array(values, dtype=np.float64) if None in values else np.array(values)
