"""The columns of a table that were read, as they stand in the signature of what was measured on them."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, unquote

_KEY, _USUAL = "columns:", "usual"
_SEPARATORS = "%|:,"  # of columns here, of the parts of a signature, and the sign of escapes


def columns_protocol(columns: Sequence[str]) -> str:
    """`columns:A,B`, for `Source.protocol` of a table: the columns that the user named, or `usual` if none.

    Separators in names are percent-encoded.
    """
    return _KEY + (",".join(map(_escaped, columns)) or _USUAL)


def columns_of(signature: str) -> tuple[str, ...] | None:
    """The columns in the signature of a record; none if they are the usual ones; None if it says nothing of columns,
    or what nothing here writes."""
    found = next((part for part in signature.split("|") if part.startswith(_KEY)), "")
    said = found.removeprefix(_KEY)
    columns = () if said == _USUAL else tuple(unquote(name, errors="replace") for name in said.split(","))
    return columns if found == columns_protocol(columns) else None


def _escaped(name: str) -> str:
    # What is not printable would be shown otherwise than it is; a surrogate is not UTF-8.
    return "".join(
        quote(sign, safe="", errors="surrogatepass") if sign in _SEPARATORS or not sign.isprintable() else sign
        for sign in name
    )
