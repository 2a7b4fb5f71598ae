"""Names that appear in results and in paths: of encoders, tasks, subsets (which may carry a tag) and languages."""

from __future__ import annotations

import re

from harness.errors import InputError

PATTERN = r"[A-Za-z0-9][A-Za-z0-9._+@-]*"
MAX_LENGTH = 100  # with what is added to it a file's name stays below the 255 bytes that file systems take


def check_name(name: str, what: str) -> str:
    """`name`, of which a folder or file is to be named; the one check of all names that become a part of a path.

    Args:
        what: whose name it is, for the message: "encoder", "task", "subset", "language", ...

    Raises:
        InputError: it is too long, or has other characters than letters, digits and . _ + @ - (a path, say).
    """
    if not re.fullmatch(PATTERN, name):
        remedy = "add name=..." if what == "encoder" else "rename it"
        raise InputError(f"{what} name {name!r} cannot name a folder; {remedy} with letters, digits and . _ + @ - only")
    if len(name) > MAX_LENGTH:
        raise InputError(f"{what} name {name[:20]!r}... has {len(name)} characters; the limit is {MAX_LENGTH}")
    return name


def split_tag(subset: str) -> tuple[str, str]:
    """`en-de@deepl` -> (`en-de`, `@deepl`); the tag of published data is empty."""
    base, at, tag = subset.partition("@")
    return base, at + tag
