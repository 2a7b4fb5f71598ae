"""Spec strings: `ALIAS` or `KIND:LOCATION`, each with `?option=value&option=value`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from urllib.parse import quote, unquote

from harness.errors import InputError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@-]*")


@dataclass(frozen=True)
class Spec:
    """A parsed spec string. `head` is the alias or the kind; `location` is None where the string has no `:`."""

    head: str
    location: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    @property
    def stored_name(self) -> str:
        """The name under which results are stored: `name=`, else the alias, else the location's last component."""
        if "name" in self.options:
            name = self.options["name"]
        elif self.location is None:
            name = self.head
        elif self.head == "python":
            name = re.split(r"[.:]", self.location)[-1]
        else:
            name = PurePath(self.location).name
        if not _NAME.fullmatch(name):
            raise InputError(
                f"encoder name {name!r} cannot name a folder; add name=... with letters, digits and . _ + @ - only"
            )
        return name

    def __str__(self) -> str:
        """The spec string, without machine paths: of a location or value that is a path, only its last component."""
        text = self.head
        if self.location is not None:
            text += ":" + _without_folders(self.location)
        if self.options:
            values = {
                key: quote(_without_folders(value), " :/,", errors="replace") for key, value in self.options.items()
            }
            text += "?" + "&".join(f"{key}={value}" for key, value in values.items())
        return text


def _without_folders(text: str) -> str:
    is_path = text.startswith(("./", "../", "~", "file:")) or _is_absolute(text)
    return (PureWindowsPath(text).name or ".") if is_path else text


def _is_absolute(text: str) -> bool:
    return PurePosixPath(text).is_absolute() or PureWindowsPath(text).is_absolute()


def parse_spec(text: str) -> Spec:
    """Parse a spec string.

    It is split at the first `?`; values are percent-decoded and never stripped; `+` is literal.

    Raises:
        InputError: no alias or kind, or an option that is not `key=value` or is given twice.
    """
    head, _, query = text.partition("?")
    head, colon, location = head.partition(":")
    if not head or (colon and not location):
        raise InputError(f"encoder {text!r} is neither ALIAS nor KIND:LOCATION")
    options: dict[str, str] = {}
    for item in query.split("&") if query else ():
        key, equals, value = item.partition("=")
        if not key or not equals:
            raise InputError(f"encoder {text!r}: option {item!r} is not key=value")
        if key in options:
            raise InputError(f"encoder {text!r}: option {key!r} is given twice")
        options[key] = unquote(value)
    return Spec(head, location if colon else None, options)
