"""All rows of an encoder in one small file beside its records, to be committed: `RESULTS/records/ENCODER/rows.zip`.

It holds `index.json` and for each set a member with its columns, one after another: little-endian, of the smallest type
that keeps every value; numbers as they are or as differences to the row before (of double floats those of their bits,
as integers), whichever is smaller when deflated; first the lowest bytes of all rows, then the next ones.
Equal rows give equal bytes (with the same zlib). Nothing is unpickled, and a name in the file never becomes a path.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.core.errors import InputError
from harness.core.files import refuse_special, refuse_way_out
from harness.core.names import check_name
from harness.core.schema import Name, decoded
from harness.protocol.task import Rows
from harness.results.records import RecordKey, Result
from harness.results.statistics import digest

FILE = "rows.zip"

_INDEX = "index.json"
_LARGEST = 1 << 28  # bytes of a set's rows in memory; deflated, such a set may be a thousandth of that
_LARGEST_INDEX = 1 << 24
_INTEGERS = ("|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8")
_FLOATS, _DOUBLE = ("<f2", "<f4"), "<f8"

_Type = Annotated[str, msgspec.Meta(pattern=r"^(\|b1|[|<][iu][1248]|<f[248]|<U\d{1,5}|\|S\d{1,5})\Z")]
_Size = Annotated[int, msgspec.Meta(ge=0, le=10**9)]


@dataclass(frozen=True)
class _Column:
    """A column: its name, its type in memory and in the file, and whether differences between rows are kept."""

    name: str
    dtype: _Type
    stored: _Type
    is_delta: bool

    def __post_init__(self) -> None:
        kinds = np.dtype(self.dtype).kind, np.dtype(self.stored).kind
        are_numbers = set(kinds) <= set("iu") or set(kinds) == {"f"}
        can_be_delta = set(kinds) <= set("iu") or (self.dtype, self.stored) == (_DOUBLE, _DOUBLE)
        if (self.dtype != self.stored and not are_numbers) or (self.is_delta and not can_be_delta):
            raise ValueError(f"a column of {self.dtype} kept as {self.stored}")


@dataclass(frozen=True)
class _Set:
    """A set: the record that its rows are of, by name and by `digest`, their number, and their columns."""

    task: Name
    subset: Name
    of: str
    n: _Size
    columns: list[_Column]

    @property
    def n_bytes(self) -> int:
        return self.n * sum(np.dtype(column.stored).itemsize for column in self.columns)

    @property
    def n_bytes_in_memory(self) -> int:
        """What the columns take once they are read: a byte of the file may be eight of them."""
        return self.n * sum(
            max(np.dtype(column.dtype).itemsize, np.dtype(column.stored).itemsize, 8 if column.is_delta else 0)
            for column in self.columns
        )


@dataclass(frozen=True)
class _Index:
    """The content of the index; member i of the file has the rows of the i-th set."""

    format: Literal[1]
    sets: list[_Set]


def compact_file(results: Path, encoder: str) -> Path:
    """Where the rows of an encoder are. Raises InputError for a name that names no file, or a link that leads out."""
    return refuse_way_out(results / "records" / check_name(encoder, "encoder") / FILE, results)


def packed(rows: Iterable[tuple[Result, Rows]]) -> bytes:
    """The content of a file with the rows of these records, which are of one encoder.

    Raises:
        InputError: a column of a type that is not kept (dates, say), or more than 256 MiB of rows of one set.
    """
    sets, members = [], []
    for record, columns in sorted(rows, key=lambda item: item[0].key):
        encoded = [_encoded(name, column, record.key) for name, column in columns.items()]
        n = len(next(iter(columns.values()))) if columns else 0
        if any(column.shape != (n,) for column in columns.values()):
            raise InputError(f"{record.key}: the columns of its rows differ in length; measure it again")
        sets.append(_Set(record.task, record.subset, digest(record), n, [column for column, _ in encoded]))
        if sets[-1].n_bytes_in_memory > _LARGEST:
            raise InputError(f"{record.key}: {n:,} rows are too many for {FILE}; leave its per-item rows in rows/")
        members.append(b"".join(content for _, content in encoded))
    index = json.dumps(asdict(_Index(1, sets)), separators=(",", ":")).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in [(_INDEX, index), *((str(i), member) for i, member in enumerate(members))]:
            info = zipfile.ZipInfo(name)  # with a date of its own: 1980
            info.create_system, info.external_attr = 3, 0o644 << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED, 9)
    return buffer.getvalue()


def compact_sets(results: Path, encoder: str) -> Mapping[tuple[str, str], str]:
    """By task and subset, the digest of the record that rows are kept of. Raises InputError for a damaged file."""
    return {key: one.of for key, (_, one) in _index_of(compact_file(results, encoder)).items()}


def has_compact_rows(results: Path, key: RecordKey) -> bool:
    """Whether rows are kept under these names. Raises InputError for a damaged file."""
    return (key.task, key.subset) in _index_of(compact_file(results, key.encoder))


def compact_rows(results: Path, record: Result) -> Rows | None:
    """The rows of a record; None if they were not kept.

    Raises:
        InputError: a damaged file, or rows of another record: it was measured again since.
    """
    file = compact_file(results, record.encoder)
    number, kept = _index_of(file).get((record.task, record.subset), (0, None))
    if kept is None:
        return None
    if kept.of != digest(record):
        raise InputError(
            f"{file}: the rows of {record.task} {record.subset} are of an earlier result; measure it again with `run "
            "--fresh --save-rows`, then `leaderboard rows --pack`"
        )
    try:
        with zipfile.ZipFile(file) as archive:
            content = _member(archive, str(number), kept.n_bytes)
        if len(content) != kept.n_bytes:
            raise ValueError(f"{len(content):,} bytes where {kept.n_bytes:,} should be")
        return _columns(kept, content)
    except Exception as error:  # the package zipfile raises errors of many kinds for what is no such file
        raise _damaged(file, error) from None


def _index_of(file: Path) -> Mapping[tuple[str, str], tuple[int, _Set]]:
    try:
        status = file.stat()
    except OSError:
        return {}
    refuse_special(file)
    return _read_index(file, (status.st_mtime_ns, status.st_size, status.st_ino))


@lru_cache(maxsize=256)
def _read_index(file: Path, stamp: tuple[int, ...]) -> Mapping[tuple[str, str], tuple[int, _Set]]:
    """By task and subset, the number of the member and its set. `stamp`: a file that has changed is read again."""
    try:
        with zipfile.ZipFile(file) as archive:
            index = decoded(_member(archive, _INDEX, _LARGEST_INDEX), _Index, exact=True)
        sets = {(one.task, one.subset): (number, one) for number, one in enumerate(index.sets)}
        if len(sets) < len(index.sets):
            raise ValueError("rows of one set twice")
        for one in index.sets:
            if one.n_bytes_in_memory > _LARGEST or len({column.name for column in one.columns}) < len(one.columns):
                raise ValueError("a set that is too large, or has a column twice")
        return sets
    except Exception as error:
        raise _damaged(file, error) from None


def _damaged(file: Path, error: Exception) -> InputError:
    why = " ".join(str(error).split()) or type(error).__name__
    return InputError(f"{file}: no packed rows ({why}); restore it, or delete it and run `leaderboard rows --pack`")


def _member(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """The content of a member, of which no more is inflated than `limit` bytes and one."""
    with archive.open(name) as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise ValueError(f"{name} is longer than it should be")
    return content


def _encoded(name: str, column: NDArray[Any], key: RecordKey) -> tuple[_Column, bytes]:
    if column.dtype.hasobject:
        column = np.array(list(map(str, column)))
    kind, dtype = column.dtype.kind, column.dtype.newbyteorder("<").str
    column = np.ascontiguousarray(column, dtype)
    forms = [(column, False)]
    if kind == "f":
        with np.errstate(over="ignore"):
            smaller = [column.astype(stored) for stored in _FLOATS if np.dtype(stored).itemsize < column.itemsize]
            forms += [(c, False) for c in smaller if np.array_equal(c.astype(dtype), column, equal_nan=True)]
        if dtype == _DOUBLE:
            forms.append((_differences(column.view("<i8")).view(_DOUBLE), True))
    elif kind in "iu" and dtype != "<u8":
        whole = column.astype("<i8")
        forms = [(_smallest(whole), False), (_smallest(_differences(whole)), True)]
    elif kind not in "ubUS":
        raise InputError(f"{key}: a column of type {column.dtype} ({name}) cannot be packed")
    content, stored, is_delta = min(
        ((_transposed(form), form.dtype.str, is_delta) for form, is_delta in forms),
        key=lambda form: len(zlib.compress(form[0], 9)),
    )
    return _Column(name, dtype, stored, is_delta), content


def _differences(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of each number to the one before; what overflows wraps round, and does so again when they are summed."""
    return np.diff(values, prepend=np.int64(0))


def _transposed(values: NDArray[Any]) -> bytes:
    """First the first bytes of all values, then the second ones: alike, they deflate better."""
    return np.ascontiguousarray(values.view("|u1").reshape(len(values), values.itemsize).T).tobytes()


def _smallest(values: NDArray[np.int64]) -> NDArray[Any]:
    """The same numbers as the first type that has them all."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    fits = (t for t in _INTEGERS if np.iinfo(t).min <= low and high <= np.iinfo(t).max)
    return values.astype(next(fits))


def _columns(kept: _Set, content: bytes) -> dict[str, NDArray[Any]]:
    columns, start = {}, 0
    for column in kept.columns:
        stored = np.dtype(column.stored)
        stop = start + kept.n * stored.itemsize
        of_bytes = np.frombuffer(content[start:stop], "|u1").reshape(stored.itemsize, kept.n)
        values = np.ascontiguousarray(of_bytes.T).reshape(-1).view("|u1" if stored.kind == "b" else stored)
        if stored.kind == "U" and (values.view("<u4") > 0x10FFFF).any():
            raise ValueError("a text with what is no character")
        if column.is_delta:
            whole = values.view("<i8") if stored.kind == "f" else values.astype("<i8")
            values = np.cumsum(whole, dtype="<i8").view(_DOUBLE if stored.kind == "f" else "<i8")
        columns[column.name] = values.astype(column.dtype)
        start = stop
    return columns
