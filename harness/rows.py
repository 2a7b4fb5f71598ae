"""Writing per-item rows: `DIR/SUBSET.parquet` or `DIR/SUBSET.jsonl`."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

from harness.errors import InputError, MissingExtraError
from harness.results import cannot_write, write_atomically
from harness.tasks import Rows

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
