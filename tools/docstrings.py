"""For the Python reference: arguments that share a line of a docstring (`x, y: vectors`) get a line each.

An extension of griffe, named in mkdocs.yml.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

# The names, and the description with the lines that go on with it (indented further).
_SHARED = re.compile(r"^(?P<indent> *)(?P<names>\w+(?:, \w+)+): (?P<text>.*(?:\n(?P=indent) +\S.*)*)", re.MULTILINE)


def apart(docstring: str) -> str:
    """The docstring with one name a line."""

    def lines(found: re.Match[str]) -> str:
        return "\n".join(f"{found['indent']}{name}: {found['text']}" for name in found["names"].split(", "))

    return _SHARED.sub(lines, docstring)


class NamesApart(griffe.Extension):
    """Applies `apart` to every docstring that is read."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = apart(obj.docstring.value)
