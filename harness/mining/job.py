"""A mining job in stages, each a function of what the one before gave: read, encode, search, select, write.

Texts, vectors and neighbours are in the job's folder (`harness.mining.work`), so memory does not hold them, and the
same job goes on from what is there.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import HarnessError, InputError
from harness.encoders.cache import VectorCache
from harness.encoders.containment import InParts
from harness.encoders.encoder import Encoder
from harness.encoders.vectors import EncoderVectors
from harness.engine.engine import Engine
from harness.mining import bitext, estimate
from harness.mining.advice import Evidence, evidence
from harness.mining.distributed import Remote, nearest_in_tiles, remove_tiles
from harness.mining.documents import mine_documents
from harness.mining.encoding import EncodeChunk, Encoding, Kind, by_cache, without_cache
from harness.mining.estimate import Estimate, duration, gigabytes
from harness.mining.filters import Filter, filtered
from harness.mining.kept import nearest_kept, share_left
from harness.mining.margin import Margin, Retrieval, matched, mine
from harness.mining.neighbours import Backend, Progress
from harness.mining.search import Floats, Ints
from harness.mining.texts import Reading, Sentences, read_sentences
from harness.mining.work import WorkDir

Vectors = NDArray[np.floating[Any]]

LONG = 3600.0
"""Seconds; what takes longer is begun only if that is asked for."""

_SMALL = 2000  # sentences, for which no estimate is made
_AT_ONCE = 1 << 14  # rows


class Watcher(Protocol):
    """Is told how far a job is."""

    def note(self, message: str) -> None:
        """Something is to be said."""

    def plan(self, encoding: Sequence[float], search: float) -> None:
        """How many seconds the stages will take: encoding each side, and the search."""

    def encoding(self, side: int, name: str, done: int, total: int) -> None:
        """`done` of `total` sentences of a side, 0 or 1, are encoded."""

    def searching(self, search: Progress) -> None:
        """How far the search is."""


@dataclass(frozen=True)
class Input:
    """A side as it is given.

    Attributes:
        files: its files.
        lang: its language, None where it is unknown.
        option: that names the language.
    """

    files: tuple[Path, ...]
    lang: str | None
    option: str

    @property
    def name(self) -> str:
        """The name of its first file, and how many more there are."""
        more = f" and {len(self.files) - 1:,} more" if len(self.files) > 1 else ""
        return self.files[0].name + more


@dataclass(frozen=True)
class Searching:
    """How pairs are found; see `harness.mining.margin.mine`."""

    k: int = 4
    margin: Margin = "ratio"
    retrieval: Retrieval = "max"
    backend: Backend = "auto"

    @property
    def is_approximate(self) -> bool:
        """Whether the search is."""
        return self.backend == "faiss"


@dataclass(frozen=True)
class Storing:
    """Where vectors are kept.

    Attributes:
        kind: of numbers.
        cache_dir: folder of the cache of vectors.
        has_cache: whether that is used; a job's folder that stays has no need of it.
    """

    kind: Kind = "float32"
    cache_dir: Path | None = None
    has_cache: bool = True


@dataclass(frozen=True)
class Choice:
    """Which of the mined pairs are written: those with at least `threshold`, the `top` best; None: all."""

    threshold: float | None = None
    top: int | None = None


@dataclass(frozen=True)
class Mined:
    """Pairs that were mined.

    Attributes:
        rows: (p, 2), of the sentences of the sides.
        scores: (p,), descending.
        evidence: for advice on a threshold, where it was asked for.
    """

    rows: Ints
    scores: Floats
    evidence: Evidence | None = None

    def __len__(self) -> int:
        return len(self.scores)


class Side(NamedTuple):
    """A side that is to be encoded: its vectors, as far as they are there, what encodes, how many, and their cache."""

    encoding: Encoding
    encode: EncodeChunk
    n_missing: int
    cache: EncoderVectors | None = None


def check_backend(searching: Searching) -> None:
    """Raise InputError or MissingExtraError if the backend cannot work here: better known before hours of encoding."""
    if searching.backend != "auto":
        mine(np.ones((1, 1), np.float32), np.ones((1, 1), np.float32), backend=searching.backend)


def read(inputs: Sequence[Input], reading: Reading, work: WorkDir, say: Callable[[str], None]) -> list[Sentences]:
    """The sentences of both sides. Raises InputError as `harness.mining.texts.read_sentences`."""
    texts = read_sentences([side.files for side in inputs], reading, work)
    for side, text in zip(inputs, texts, strict=True):
        say(f"{side.name} ({side.lang or 'language unknown'}): {text.summary}")
    return texts


def begin(
    texts: Sequence[Sentences], inputs: Sequence[Input], model: Encoder, storing: Storing, work: WorkDir
) -> list[Side]:
    """Both sides as they are to be encoded.

    Raises:
        InputError: the encoder does not take a language, or the folder holds other vectors.
    """
    sides = []
    for text, side in zip(texts, inputs, strict=True):  # both, before one of them has taken hours
        bitext.check_encodes(model, text, side.lang, side.files[0], side.option)
    cached = VectorCache(storing.cache_dir).of(model) if storing.has_cache and not isinstance(model, Remote) else None
    for name, text, side in zip("xy", texts, inputs, strict=True):
        encoding = Encoding(work, name, text.sentences, model, storing.kind, side.lang)
        if isinstance(model, Remote):
            start = len(text.sentences) - encoding.n_missing
            encode = model.chunks(text.sentences, side.lang, start, work.folder / "chunks", name)
            sides.append(Side(encoding, encode, encoding.n_missing))
            continue
        if cached is None:
            sides.append(Side(encoding, without_cache(model, side.lang), encoding.n_missing))
            continue
        parts = (text.sentences[start : start + _AT_ONCE] for start in range(0, len(text.sentences), _AT_ONCE))
        n_missing = sum(len(cached.missing(part, side.lang)) for part in parts)
        sides.append(Side(encoding, by_cache(cached, side.lang), n_missing, cached))
    return sides


def estimated(
    sides: Sequence[Side],
    texts: Sequence[Sentences],
    inputs: Sequence[Input],
    model: Encoder,
    searching: Searching,
    work: WorkDir,
) -> Estimate | None:
    """What is still to be done takes so much; None where it is little. An encoder whose calls cost is not measured."""
    n, m = (len(text.sentences) for text in texts)
    if n + m < _SMALL:
        return None
    in_parts = InParts(model)
    encoding = tuple(
        float("nan")
        if getattr(model, "price", None) and side.n_missing
        else estimate.encoding_seconds(
            text.sentences, side.n_missing, partial(in_parts.encode, lang=given.lang), time.perf_counter
        )
        for side, text, given in zip(sides, texts, inputs, strict=True)
    )
    dim, k, backend = model.dim, searching.k, searching.backend
    bounds = _bounds(texts)
    if bounds is not None:
        seconds = estimate.documents_seconds(len(bounds[0]), _similarities(bounds), dim)
    elif (left := share_left(n, m, dim, k, backend, work)) == 0:
        seconds = 0.0
    elif searching.is_approximate:
        seconds = left * estimate.approximate_seconds(n, m, dim, k)
    else:
        seconds = estimate.exact_seconds(n, m, dim, k, backend)
    memory = estimate.memory_bytes(n, m, dim, k, is_approximate=searching.is_approximate)
    disk = work.n_bytes + sum(side.encoding.missing_bytes for side in sides)
    if bounds is None:
        disk += estimate.search_bytes(n, m, k, is_approximate=searching.is_approximate)
    # Of a cut encoder the cache has the full vectors.
    cache = sum(side.n_missing * 4 * side.cache.encoder.dim for side in sides if side.cache is not None)
    folder = next((side.cache.folder for side in sides if side.cache is not None), None)
    return Estimate(n + m, encoding, seconds, searching.is_approximate, memory, disk, cache, folder)


def check_estimate(
    found: Estimate,
    searching: Searching,
    texts: Sequence[Sentences],
    dim: int,
    work: WorkDir,
    *,
    is_long_agreed: bool = False,
) -> None:
    """Refuse what takes longer than `LONG`, unless that is agreed, or more disk than there is.

    Raises:
        InputError: with the estimate, and what to do instead.
    """
    needed = {work.folder: found.disk - work.n_bytes}
    if found.cache_dir is not None:
        is_shared = found.cache_dir.stat().st_dev == work.folder.stat().st_dev  # one file system for both
        place = work.folder if is_shared else found.cache_dir
        needed[place] = needed.get(place, 0) + found.cache
    for folder, n_bytes in needed.items():
        free = shutil.disk_usage(folder).free
        if n_bytes > free:
            raise InputError(
                f"{gigabytes(n_bytes)} more are needed in {folder}, which has {gigabytes(free)} free; name another "
                "folder with --work-dir, which needs no cache of vectors, or take --vectors float16"
            )
    if is_long_agreed or not found.seconds > LONG:
        return
    other = ""
    if not searching.is_approximate and texts[0].bounds is None and found.search > LONG / 2:
        n, m = (len(text.sentences) for text in texts)
        try:
            other = f", or --backend faiss: an approximate search of about {{}}, {estimate.RECALL}"
            other = other.format(duration(estimate.approximate_seconds(n, m, dim, searching.k)))
        except HarnessError as error:
            other = f", or an approximate search ({error})"
    raise InputError(f"{found}; give --yes to begin, with --work-dir to be able to go on{other}")


def encode(sides: Sequence[Side], inputs: Sequence[Input], model: Encoder, watcher: Watcher) -> list[Vectors]:
    """The vectors of both sides, (n, dim) each, memory-mapped. Raises what the encoder raises."""
    vectors = [
        side.encoding.run(side.encode, partial(watcher.encoding, number, given.name))
        for number, (side, given) in enumerate(zip(sides, inputs, strict=True))
    ]
    starts = [(part, start) for part in vectors for start in range(0, len(part), _AT_ONCE)]
    n_zero = sum(int(np.count_nonzero(~part[start : start + _AT_ONCE].any(axis=1))) for part, start in starts)
    watcher.note(
        f"{model.name}: {sum(side.n_missing for side in sides):,} of {sum(map(len, vectors)):,} sentences encoded, the "
        "others were there" + (f"; {n_zero:,} zero vectors" if n_zero else "")
    )
    return vectors


def search(
    vectors: Sequence[Vectors],
    texts: Sequence[Sentences],
    searching: Searching,
    work: WorkDir,
    watcher: Watcher,
    *,
    advice: bool = False,
    engine: Engine | None = None,
) -> Mined:
    """All pairs, the best first, and with `advice` what that is taken from. Raises as `harness.mining.margin.mine`.

    engine: does the exact search, but for that within documents; by default this process does.
    """
    k, margin, retrieval, backend = searching.k, searching.margin, searching.retrieval, searching.backend
    x, y = vectors
    if (bounds := _bounds(texts)) is not None:
        report = watcher.searching
        return Mined(
            *mine_documents(x, y, bounds, k=k, margin=margin, retrieval=retrieval, backend=backend, on_progress=report)
        )
    on_engine = partial(nearest_in_tiles, engine, work, x, y, k, backend, watcher.searching) if engine else None
    of_x, of_y = nearest_kept(vectors, k, backend, work, watcher.searching, on_engine)
    remove_tiles(work, k)
    return Mined(*matched(of_x, of_y, margin, retrieval), evidence(of_x, of_y, margin) if advice else None)


def select(
    mined: Mined, texts: Sequence[Sentences], choice: Choice, filters: Sequence[Filter]
) -> tuple[Mined, Counter[str]]:
    """The pairs that are written, in the same order, and how many each filter has left out."""
    n = bitext.n_best(mined.scores, threshold=choice.threshold)
    if not filters:
        n = bitext.n_best(mined.scores[:n], top=choice.top)
        return Mined(mined.rows[:n], mined.scores[:n]), Counter()
    kept, left_out = filtered(mined.rows[:n], texts[0].sentences, texts[1].sentences, filters, choice.top)
    return Mined(mined.rows[kept], mined.scores[kept]), left_out


def _bounds(texts: Sequence[Sentences]) -> tuple[Ints, Ints] | None:
    first, second = texts
    return None if first.bounds is None or second.bounds is None else (first.bounds, second.bounds)


def _similarities(bounds: tuple[Ints, Ints]) -> int:
    return int((np.diff(bounds[0]) * np.diff(bounds[1])).sum())
