"""Names that appear in results: of encoders (which name folders) and of subsets (which may carry a tag)."""

from __future__ import annotations

import re

from harness.errors import InputError

_FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@-]*")


def check_folder_name(name: str, what: str) -> str:
    """`name`, which is to name a folder or file. Raises InputError if it cannot, or not on every machine."""
    if not _FOLDER_NAME.fullmatch(name):
        remedy = "add name=..." if what == "encoder" else "rename it"
        raise InputError(f"{what} name {name!r} cannot name a folder; {remedy} with letters, digits and . _ + @ - only")
    return name


def split_tag(subset: str) -> tuple[str, str]:
    """`en-de@deepl` -> (`en-de`, `@deepl`); the tag of published data is empty."""
    base, at, tag = subset.partition("@")
    return base, at + tag
