"""Reading JSON and TOML that anyone may have written: a type says what a file must hold, and an error is one line.

The types are dataclasses, typed dictionaries and plain containers, checked by msgspec; numbers are finite. Whoever adds
a kind of file that the harness reads back describes it so.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from harness.core.errors import InputError
from harness.core.files import refuse_special
from harness.core.names import MAX_LENGTH, PATTERN

T = TypeVar("T")

_LARGEST = 1e15
Number = Annotated[float, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)]
"""A finite number of which sums and means are finite too."""
Amount = Annotated[float, msgspec.Meta(ge=0, le=_LARGEST)]
"""A number that is not negative: seconds, megabytes, a tolerance."""
Count = Annotated[int, msgspec.Meta(ge=0, le=int(_LARGEST))]
Name = Annotated[str, msgspec.Meta(pattern=rf"^{PATTERN}\Z", max_length=MAX_LENGTH)]
"""What `harness.core.names.check_name` lets pass."""
Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]


def read_json(file: Path, kind: type[T], *, exact: bool = False, allow_nan: bool = False) -> T:
    """The content of a JSON file, as a value of `kind`.

    exact: no fields are there that `kind` lacks; for files that are written again, where they would be lost.
    allow_nan: NaN and infinities, which JSON does not have and Python's module writes, are read as null.

    Raises:
        InputError: the file cannot be read, or a fifo or a folder is in its place.
        ValueError: it holds something else; the message names the field. (The caller knows the remedy.)
    """
    refuse_special(file)
    try:
        return decoded(file.read_bytes(), kind, exact=exact, allow_nan=allow_nan)
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror or error}); restore it or delete it") from None


def decoded(content: bytes, kind: type[T], *, exact: bool = False, allow_nan: bool = False) -> T:
    """The same of JSON as bytes. Raises ValueError as `read_json`."""
    try:
        if allow_nan:
            content = msgspec.json.encode(json.loads(content))
        raw = msgspec.json.decode(content)
        value = msgspec.convert(raw, kind)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 (byte {error.start + 1})") from None
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair, which is no character") from None
    except OverflowError:
        raise ValueError("a number that is out of range") from None
    if exact:
        _refuse_unknown(raw, value)
    return value


def read_toml(file: Path, *, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """The content of a TOML file.

    Raises:
        OSError: it cannot be read.
        InputError: a fifo or a folder is in its place.
        ValueError: it is no TOML.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    refuse_special(file)
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"), parse_float=parse_float)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_tables(file: Path, kind: type[T]) -> dict[str, T]:
    """The tables of a TOML file by name, as values of `kind`, which has a field `name` for it and those of the tables.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no TOML, or a table holds something else; the message names the table.
    """
    tables = {}
    for name, table in read_toml(file).items():
        if not isinstance(table, dict):
            raise ValueError(f"{name!r} stands in no table")
        try:
            if "name" in table:
                raise ValueError("unknown field 'name'")
            raw = {"name": name, **table}
            tables[name] = msgspec.convert(raw, kind)
            _refuse_unknown(raw, tables[name])
        except ValueError as error:
            raise ValueError(f"[{name}]: {error}") from None
    return tables


def _refuse_unknown(raw: Any, value: Any) -> None:
    """Raises ValueError at a field that the type lacks."""
    if isinstance(value, list | tuple):
        pairs = list(zip(raw, value, strict=True))
    elif isinstance(raw, dict):
        known = vars(value) if is_dataclass(value) else value
        if unknown := [name for name in raw if name not in known]:
            raise ValueError(f"unknown field {unknown[0]!r}")
        pairs = [(item, known[name]) for name, item in raw.items()]
    else:
        return
    for part, value_of_part in pairs:
        if part != value_of_part:  # what is equal lacks nothing: nearly all of it, and this takes no time
            _refuse_unknown(part, value_of_part)
