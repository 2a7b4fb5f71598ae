"""How vectors are made smaller: cut to their first components, quantised, or both. Imports no NumPy.

`harness.encoders.variant` does it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

import msgspec

from harness.core.errors import InputError

Quantize = Literal["none", "int8", "binary"]
QUANTIZE: tuple[Quantize, ...] = get_args(Quantize)
"""How the components of a vector are stored: float32, a byte, or a bit each."""

_Dim = Annotated[int, msgspec.Meta(ge=1, le=10**9)]


@dataclass(frozen=True)
class Reduction:
    """What is done to the vectors of an encoder: cut first, then quantised.

    Attributes:
        truncate_dim: how many of the first components are kept; None: all.
        quantize: how they are stored.

    Raises:
        InputError: `truncate_dim` is below 1.
    """

    truncate_dim: int | None = None
    quantize: Quantize = "none"

    def __post_init__(self) -> None:
        if self.truncate_dim is not None and self.truncate_dim < 1:
            raise InputError(f"truncate_dim must be 1 or more, not {self.truncate_dim}")

    def __bool__(self) -> bool:
        return self != Reduction()

    @property
    def options(self) -> dict[str, str]:
        """The options of a spec string that ask for it."""
        cut = {} if self.truncate_dim is None else {"truncate_dim": str(self.truncate_dim)}
        return cut if self.quantize == "none" else {**cut, "quantize": self.quantize}

    @property
    def suffix(self) -> str:
        """What is added to an encoder's name."""
        return suffix_of(self.options)

    def of(self, dim: int) -> Reduction:
        """The same for vectors of length `dim`: to cut them to their own length is to do nothing."""
        return Reduction(None, self.quantize) if self.truncate_dim == dim else self


def suffix_of(options: Mapping[str, str]) -> str:
    """What the options of a spec string add to the encoder's name: `@256`, `@int8`, `@256-int8` or nothing."""
    dim, quantize = options.get("truncate_dim", ""), options.get("quantize", "none")
    if dim.isascii() and dim.isdecimal():
        dim = dim.lstrip("0") or "0"
    parts = [part for part in (dim, "" if quantize == "none" else quantize) if part]
    return f"@{'-'.join(parts)}" if parts else ""


def vector_bytes(dim: int, quantize: str) -> int:
    """Bytes that a vector of `dim` components takes in an index."""
    return {"int8": dim, "binary": -(-dim // 8)}.get(quantize, 4 * dim)


@dataclass(frozen=True)
class Reduced:
    """What was done to the vectors of a record.

    Attributes:
        dim, full_dim: components of a vector, and of the base's.
        quantize: how the components are stored: float32, a byte, or a bit each.
    """

    dim: _Dim
    full_dim: _Dim
    quantize: Quantize

    def is_made(self, full: str, fingerprint: str) -> bool:
        """Whether a fingerprint is that of vectors with the fingerprint `full` to which this was done, nothing else."""
        cut = rf"(\|truncate_dim:{self.dim}){'?' if self.dim == self.full_dim else ''}"
        quantized = {"none": "", "int8": r"\|quantize:int8:[0-9a-f]+", "binary": r"\|quantize:binary"}[self.quantize]
        return re.fullmatch(re.escape(full) + cut + quantized, fingerprint) is not None

    @property
    def vector_bytes(self) -> int:
        """Bytes of a vector."""
        return vector_bytes(self.dim, self.quantize)
