"""Which languages encoders were made for, without loading any: for tables, which answer at once.

A package that offers encoders says it in a file `encoder_languages.toml` of its top-level folder: in the table
`encoders`, by alias, codes of ISO 639 with blanks between them, or the name of such a list in the table `lists`.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

from harness.core.errors import InputError
from harness.core.plugins import offers
from harness.core.schema import read_toml

GROUP = "harness.encoders"
_FILE = "encoder_languages.toml"


class _Content(msgspec.Struct, forbid_unknown_fields=True):
    encoders: dict[str, str]
    lists: dict[str, str] = {}


def declared_languages(name: str) -> Mapping[str, tuple[str, ...]] | None:
    """By alias, what the package says that offers the encoder `name`; None if it has no such file.

    It is empty if no package offers it.

    Raises:
        InputError: the file holds something else.
    """
    offered = offers(GROUP).get(name)
    if not offered:
        return {}
    places = {entry.module.partition(".")[0] for entry in offered}
    file = _file_of(places.pop(), tuple(sys.path)) if len(places) == 1 else None
    return _read(file) if file else None


@cache
def _file_of(package: str, path: tuple[str, ...]) -> Path | None:
    """The file of a top-level package that is found on this path; imports nothing."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):  # a module without a spec
        return None
    folders = spec.submodule_search_locations if spec else None
    return next((file for folder in folders or () if (file := Path(folder, _FILE)).is_file()), None)


@cache
def _read(file: Path) -> dict[str, tuple[str, ...]]:
    try:
        content = msgspec.convert(read_toml(file), _Content)
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: no list of languages by encoder ({error})") from None
    return {name: tuple(content.lists.get(said, said).split()) for name, said in content.encoders.items()}
