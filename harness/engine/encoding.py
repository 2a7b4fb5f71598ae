"""Encoding chunks in the workers of an engine: which encoder, what is told of it, and what becomes of a chunk."""

from __future__ import annotations

import gc
import os
import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.errors import InputError, LanguageError, one_line
from harness.core.provenance import hardware
from harness.encoders.containment import InParts, contained
from harness.encoders.encoder import Encoder
from harness.encoders.reduction import Reduction
from harness.encoders.registry import load_sides
from harness.encoders.shards import write_shard
from harness.encoders.sides import AnyEncoder, Side, TwoSided, by_side
from harness.encoders.spec import Spec
from harness.encoders.variant import Variant, full_of
from harness.encoders.vectors import Chunk, Made, keys_of, make
from harness.engine.engine import LoadError
from harness.engine.worker import Told


@dataclass(frozen=True)
class Stamp:
    """Where vectors were made; `kind` is what their bits may depend on."""

    host: str
    processor: str
    gpu: str = ""

    @property
    def kind(self) -> str:
        """Processor and GPU."""
        return f"{self.processor}, {self.gpu}" if self.gpu else self.processor

    @classmethod
    def here(cls, device: str = "cpu") -> Stamp:
        """That of this process, for an encoder on this device."""
        torch: Any = sys.modules.get("torch")
        gpu = torch.cuda.get_device_name() if torch is not None and device.startswith("cuda") else ""
        return cls(platform.node(), str(hardware().get("processor")), gpu)


@dataclass(frozen=True)
class Opening:
    """How a worker loads an encoder.

    Attributes:
        spec: names it.
        defaults: options, as of `load_sides`.
        known: fingerprints of vectors and results that are there, the latest last.
    """

    spec: Spec
    defaults: tuple[tuple[str, Any], ...] = ()
    known: tuple[str, ...] = ()

    @classmethod
    def of(cls, spec: Spec, defaults: Mapping[str, Any], known: list[str]) -> Opening:
        """With a spec that can be sent, without the factory that was looked up for it."""
        plain = Spec(spec.head, spec.location, dict(spec.options))
        return cls(plain, tuple(sorted(defaults.items())), tuple(known))

    def load(self) -> AnyEncoder:
        """The encoder. Raises whatever it does."""
        return load_sides(self.spec, **dict(self.defaults), known_fingerprints=lambda: list(self.known))


@dataclass(frozen=True)
class Facts:
    """What is read of an encoder where its weights are not."""

    name: str
    fingerprint: str
    dim: int
    uses_lang: bool
    device: str
    chunk_size: int | None = None
    vector_bytes: int | None = None


class Described:
    """An encoder whose weights are in the workers: it has its attributes, and encodes nothing here."""

    def __init__(self, facts: Facts, opening: Opening, side: Side | None, description: Description):
        self.opening, self.side, self.description = opening, side, description
        self.name, self.fingerprint, self.dim = facts.name, facts.fingerprint, facts.dim
        self.uses_lang, self.device, self.chunk_size = facts.uses_lang, facts.device, facts.chunk_size
        if facts.vector_bytes is not None:
            self.vector_bytes = facts.vector_bytes

    def encode(self, sentences: Any, *, lang: str | None = None) -> np.ndarray:
        """Never called: what is missing in the cache is encoded by workers."""
        raise RuntimeError(f"{self.name} is encoded by the workers of the engine, not here")


@dataclass(frozen=True)
class Description:
    """What a worker tells of an encoder that it has loaded.

    Attributes:
        sides: facts of the full encoders, by side.
        variants: of those that are cut or quantised, their names and how; by side too.
        stamp: of the worker.
        refused: of the languages that were asked about, those that it does not take.
    """

    sides: Mapping[Side | None, Facts]
    variants: Mapping[Side | None, tuple[str, Reduction]]
    stamp: Stamp
    refused: frozenset[str | None] = frozenset()

    def encoder(self, opening: Opening) -> AnyEncoder:
        """One that is the same to all but its own `encode`."""
        made: dict[Side | None, Encoder] = {}
        for side, facts in self.sides.items():
            made[side] = Described(facts, opening, side, self)
            if side in self.variants:
                name, reduction = self.variants[side]
                made[side] = Variant(made[side], reduction, name)
        return made[None] if None in made else TwoSided(made["query"], made["document"])


@dataclass(frozen=True)
class Question:
    """What a worker is asked of an encoder: what it is, and which of these languages it does not take."""

    opening: Opening
    langs: tuple[str | None, ...] = ()


def describe(question: Question) -> Description:
    """Load an encoder in this worker, and tell of it. Raises whatever loading does."""
    loaded = _loaded(question.opening)
    sides = by_side(loaded.encoder)
    full = {side: full_of(encoder) for side, encoder in sides.items()}
    facts = {
        side: Facts(
            encoder.name,
            encoder.fingerprint,
            int(encoder.dim),
            bool(encoder.uses_lang),
            str(getattr(encoder, "device", "cpu")),
            getattr(encoder, "chunk_size", None),
            getattr(encoder, "vector_bytes", None),
        )
        for side, encoder in full.items()
    }
    variants = {side: (each.name, each.reduction) for side, each in sides.items() if isinstance(each, Variant)}
    first = next(iter(full.values()))
    refused = frozenset(lang for lang in question.langs if first.uses_lang and _refuses(first, lang))
    return Description(facts, variants, Stamp.here(next(iter(facts.values())).device), refused)


def _refuses(encoder: Encoder, lang: str | None) -> bool:
    try:
        with contained():
            encoder.encode(["a"], lang=lang)
    except LanguageError:
        return True
    except Exception:  # said when it is to encode something
        return False
    return False


@dataclass(frozen=True, eq=False)
class Piece:
    """A chunk of one encoder's sentences.

    Attributes:
        opening, side: of the encoder.
        fingerprint: that it must have.
        chunk: what to encode.
        folder: of its vectors, where they are written; None: they are sent back.
        usual: the hardware whose vectors need no remark.
    """

    opening: Opening
    side: Side | None
    fingerprint: str
    chunk: Chunk
    folder: Path | None
    usual: str


@dataclass(frozen=True, eq=False)
class Encoded:
    """What became of a piece.

    Attributes:
        shard: the name of the file that has the vectors; empty if they are in `made`.
        made: the vectors (none, if they are in the file), what they took, and for which rows there are some.
        told: why the others have none.
        stamp: where they were made.
        seconds: that the worker had it, loading included.
    """

    shard: str
    made: Made
    told: Told | None
    stamp: Stamp
    seconds: float


def encode_piece(piece: Piece) -> Encoded:
    """Encode a chunk in this worker.

    Raises:
        LoadError: the encoder cannot be loaded here, or is another one.
        InputError: the folder is not there, or cannot be written.
        Exception: what the encoder raises, if it has given no vectors.
    """
    start = time.perf_counter()
    if piece.folder is not None and not piece.folder.is_dir():
        raise InputError(f"node {platform.node()} does not see the cache folder {piece.folder}; {REMEDY}")
    loaded = _loaded_or_told(piece.opening)
    encoder = full_of(by_side(loaded.encoder)[piece.side])
    _check_same(encoder, piece.fingerprint)
    made = make(piece.chunk, encoder, loaded.in_parts(piece.side, encoder))
    stamp = Stamp.here(str(getattr(encoder, "device", "cpu")))
    if stamp.kind != piece.usual:
        conditions = {**made.effort.conditions, "processor": stamp.kind}
        made = replace(made, effort=replace(made.effort, conditions=conditions))
    told = None if made.error is None else Told.of(made.error)
    made, name = replace(made, error=None), ""
    if piece.folder is not None:
        keys = keys_of(encoder, piece.chunk.sentences, piece.chunk.lang)[made.rows]
        name = write_shard(piece.folder, encoder, keys, made.vectors, made.effort).path.name
        made = replace(made, vectors=made.vectors[:0])
    return Encoded(name, made, told, stamp, time.perf_counter() - start)


def loaded_encoder(opening: Opening, fingerprint: str) -> Encoder:
    """An encoder that encodes all texts alike, cut or quantised if it is, in this worker, which keeps it.

    Raises:
        LoadError: the encoder cannot be loaded here, or is another one.
    """
    encoder = by_side(_loaded_or_told(opening).encoder)[None]
    _check_same(encoder, fingerprint)
    return encoder


def _loaded_or_told(opening: Opening) -> _Loaded:
    try:
        return _loaded(opening)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise LoadError(f"cannot be loaded on node {platform.node()}: {one_line(error)}") from error


def _check_same(encoder: Encoder, fingerprint: str) -> None:
    if encoder.fingerprint != fingerprint:
        raise LoadError(
            f"has other weights or options on node {platform.node()} ({encoder.fingerprint}, not {fingerprint})"
        )


REMEDY = "give a --cache-dir that all nodes share, or --vectors object-store"


@dataclass
class _Loaded:
    opening: Opening
    encoder: AnyEncoder
    parts: dict[Side | None, InParts] = field(default_factory=dict)

    def in_parts(self, side: Side | None, encoder: Encoder) -> InParts:
        return self.parts.setdefault(side, InParts(encoder))


_kept: list[_Loaded] = []  # one at most: weights may fill a GPU


def _loaded(opening: Opening) -> _Loaded:
    """The encoder, which this process keeps until it needs another one."""
    if not _kept or _kept[0].opening.spec != opening.spec or _kept[0].opening.defaults != opening.defaults:
        _kept.clear()
        _free()
        _kept.append(_Loaded(opening, opening.load()))
    return _kept[0]


def _free() -> None:
    gc.collect()
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def see_token(folder_and_name: tuple[str, str]) -> tuple[bool, str]:
    """Whether this node sees a file of the cache folder, and the name of one that it has written beside it, or why not.

    A network file system may take some seconds to show a new file.
    """
    folder, name = folder_and_name
    path = Path(folder) / name
    end = time.monotonic() + 5.0
    while not path.exists():
        if time.monotonic() > end:
            return False, "not there"
        time.sleep(0.2)
    mine = path.with_name(f"{name}.{platform.node()}.{os.getpid()}")
    try:
        mine.touch()
    except OSError as error:
        return False, f"cannot be written ({error.strerror})"
    return True, mine.name
