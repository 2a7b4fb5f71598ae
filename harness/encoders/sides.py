"""Encoders that encode queries in one way and documents in another: the same model with two prompts, say."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from harness.core.errors import InputError

if TYPE_CHECKING:
    from harness.encoders.encoder import Encoder

Side = Literal["query", "document"]
SIDES: tuple[Side, ...] = get_args(Side)


def missing_attributes(candidate: object) -> list[str]:
    """The attributes that an object lacks to be an encoder; its name comes from the spec string."""
    return [name for name in ("fingerprint", "dim", "uses_lang", "encode") if not hasattr(candidate, name)]


@dataclass(frozen=True)
class Sides:
    """The fingerprints of the two sides."""

    query: str
    document: str

    @property
    def fingerprint(self) -> str:
        """That of both: the digest of the two."""
        return f"sides:sha256:{sha256(json.dumps([self.query, self.document]).encode()).hexdigest()[:32]}"


@dataclass(frozen=True, eq=False)
class TwoSided:
    """Two encoders whose vectors are compared with each other: one for queries, another one for documents.

    It is no `Encoder`: only a task that has queries and documents (`Task.has_sides`) can be measured with it.

    Raises:
        InputError: one of them is no encoder, or their vectors are not of one length.
    """

    query: Encoder
    document: Encoder

    def __post_init__(self) -> None:
        for side in (self.query, self.document):
            if lacks := missing_attributes(side):
                raise InputError(
                    f"{type(side).__name__} is no encoder, it lacks {', '.join(lacks)}; "
                    "harness.encoders.adopted.AdoptedEncoder(model) makes one of a model with encode(sentences)"
                )
        if self.query.dim != self.document.dim:
            raise InputError(
                f"{self.name}: queries have {self.query.dim} dimensions and documents {self.document.dim}; they cannot "
                "be compared"
            )

    @property
    def name(self) -> str:
        """The name under which results are stored: that of the encoder of queries."""
        return self.query.name

    @property
    def sides(self) -> Sides:
        """The fingerprints of both."""
        return Sides(self.query.fingerprint, self.document.fingerprint)

    @property
    def fingerprint(self) -> str:
        """The digest of both fingerprints."""
        return self.sides.fingerprint

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.query.dim


AnyEncoder: TypeAlias = "Encoder | TwoSided"


def joined(query: Encoder, document: Encoder) -> AnyEncoder:
    """Both as one; simply one of them where their fingerprints promise equal vectors."""
    return query if query.fingerprint == document.fingerprint else TwoSided(query, document)


def by_side(encoder: AnyEncoder) -> dict[Side | None, Encoder]:
    """The encoders of the two sides; of an encoder that makes no difference, itself under None."""
    if isinstance(encoder, TwoSided):
        return {"query": encoder.query, "document": encoder.document}
    return {None: encoder}


def each_side(encoder: AnyEncoder, change: Callable[[Encoder], Encoder]) -> AnyEncoder:
    """The same with each of its encoders in the place of another one."""
    if isinstance(encoder, TwoSided):
        return TwoSided(change(encoder.query), change(encoder.document))
    return change(encoder)


def side_of(encoder: AnyEncoder, side: Side | None) -> Side | None:
    """The key in `by_side` of what encodes the texts of a side. Raises ValueError: it has two, and none is named."""
    if not isinstance(encoder, TwoSided):
        return None
    if side not in SIDES:
        raise ValueError(f"encode was called with side={side!r}; a task with has_sides names query or document")
    return side
