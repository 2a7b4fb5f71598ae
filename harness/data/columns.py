"""The columns that a user named, as they stand in the signature of what was measured on them."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, unquote

_KEY = "columns:"
_SEPARATORS = "%|:,"  # of columns here, of the parts of a signature, and the sign of escapes


def columns_protocol(columns: Sequence[str]) -> str:
    """`columns:A,B`, for `Source.protocol`; empty if none are named. Separators in names are percent-encoded."""
    return _KEY + ",".join(map(_escaped, columns)) if columns else ""


def columns_of(signature: str) -> tuple[str, ...] | None:
    """The columns in the signature of a record; none if none were named; None if it has what nothing here writes."""
    found = [part for part in signature.split("|") if part.startswith(_KEY)]
    if not found:
        return ()
    columns = tuple(unquote(name, errors="replace") for name in found[0].removeprefix(_KEY).split(","))
    return columns if found == [columns_protocol(columns)] else None


def _escaped(name: str) -> str:
    # What is not printable would be shown otherwise than it is; a surrogate is not UTF-8.
    return "".join(
        quote(sign, safe="", errors="surrogatepass") if sign in _SEPARATORS or not sign.isprintable() else sign
        for sign in name
    )
