"""Names that appear in results and in paths: of encoders, tasks, subsets (which may carry a tag) and languages."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from harness.core.errors import InputError

PATTERN = r"[A-Za-z0-9][A-Za-z0-9._+@-]*"
MAX_LENGTH = 100  # with what is added to it a file's name stays below the 255 bytes that file systems take


SAMPLE = "@sample"
"""The tag of the bundled sample's subsets."""


_REMEDIES = {"encoder": "add name=...", "set": "choose another (--set-name)"}


def check_name(name: str, what: str) -> str:
    """`name`, of which a folder or file is to be named; the one check of all names that become a part of a path.

    Args:
        what: whose name it is, for the message: "encoder", "task", "subset", "language", ...

    Raises:
        InputError: it is too long, or has other characters than letters, digits and . _ + @ - (a path, say).
    """
    if is_name(name):
        return name
    if not re.fullmatch(PATTERN, name):
        remedy = _REMEDIES.get(what, "rename it")
        raise InputError(
            f"{what} name {name!r} cannot name a folder; {remedy} with letters of a to z, digits and . _ + @ - only"
        )
    raise InputError(f"{what} name {name[:20]!r}... has {len(name)} characters; the limit is {MAX_LENGTH}")


def is_name(text: str) -> bool:
    """Whether `check_name` lets it pass."""
    return bool(re.fullmatch(PATTERN, text)) and len(text) <= MAX_LENGTH


class Subset(NamedTuple):
    """The two parts of a subset's name: `en-de@deepl` is `Subset("en-de", "@deepl")`. Records keep the plain name.

    Attributes:
        base: the name of the published set.
        tag: which stand-in it is of, with the `@`; empty for published data.
    """

    base: str
    tag: str = ""

    @classmethod
    def parse(cls, name: str) -> Subset:
        """The parts of a name."""
        return _parsed(name)

    def __str__(self) -> str:
        return self.base + self.tag

    @property
    def is_sample(self) -> bool:
        """Whether it is of the bundled sample."""
        return self.tag == SAMPLE


@lru_cache(maxsize=4096)  # a table asks for the same few names thousands of times
def _parsed(name: str) -> Subset:
    base, at, tag = name.partition("@")
    return Subset(base, at + tag)
