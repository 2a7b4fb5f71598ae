"""The training pairs in a folder: filtered, without duplicates, without evaluation data, and memory-mapped.

`pairs.json` says what is in it. `sources` holds the distinct source sentences, `targets` one sentence a pair, both as
UTF-8 one after the other, with the byte at which each begins, and at last the end, in `.offsets` (int64);
`source_rows` has one int32 a pair. All numbers are little-endian.
"""

from __future__ import annotations

import json
import mmap
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b, sha256
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from baselines.training.model_folder import as_json, new_folder
from harness.core.errors import InputError
from harness.core.files import locked, writing
from harness.core.schema import decoded
from harness.data.corpora import Corpus, read_pairs
from harness.data.sources import content_sha256
from harness.tasks.leakage import EvaluationSentences

_VERSION = 1
_INFO, _SOURCES, _TARGETS, _ROWS = "pairs.json", "sources", "targets", "source_rows"
_BLOCK = 1 << 15  # pairs
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplying by it loses nothing

Progress = Callable[[str, int, "int | None"], None]
"""Is called during a build with a corpus's name, the pairs read so far, and their number in all if it is known."""


REASONS = ("empty", "long", "ratio", "identical", "leakage", "duplicate")
"""Why a pair is dropped; the first that holds counts. `duplicate` is found by the store, which sees all pairs."""

_SLACK = 15  # characters by which short sentences may differ whatever their ratio: "Hi." is "Guten Tag!"
# Characters that take two columns on a screen (East Asian Width W and F, Unicode Annex 11): they say about as much as
# two or three letters.
_WIDE = re.compile(
    "[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60"
    "\uffe0-\uffe6\U00020000-\U0003fffd]"
)


@dataclass(frozen=True)
class Filters:
    """The conditions that a training pair meets.

    Attributes:
        max_characters: of each sentence; 250 as in sentence-transformers' script for the paper.
        max_ratio: how many times as wide (wide characters count twice) the longer sentence may be as the shorter one,
            15 characters more being free.
        drop_identical: whether source and target must differ in more than case.
        drop_duplicates: whether a pair counts once in all the corpora of one language pair.
    """

    max_characters: int = 250
    max_ratio: float = 3.0
    drop_identical: bool = True
    drop_duplicates: bool = True

    def __post_init__(self) -> None:
        if self.max_characters < 1 or not self.max_ratio >= 1:
            raise InputError(
                f"max_characters {self.max_characters} and max_ratio {self.max_ratio:g}: both must be at least 1"
            )

    def reason_to_drop(self, source: str, target: str, guard: EvaluationSentences) -> str | None:
        """Why a pair is dropped (see `REASONS`), or None; `guard` holds the sentences that are evaluated on."""
        if not source or not target:
            return "empty"
        if len(source) > self.max_characters or len(target) > self.max_characters:
            return "long"
        narrow, wide = sorted((_width(source), _width(target)))
        if wide > self.max_ratio * narrow + _SLACK:
            return "ratio"
        if self.drop_identical and source.casefold() == target.casefold():
            return "identical"
        if source in guard or target in guard:
            return "leakage"
        return None


def _width(text: str) -> int:
    return len(text) if text.isascii() else len(text) + len(_WIDE.findall(text))


@dataclass(frozen=True)
class Part:
    """The pairs of one corpus: those numbered `start` to `stop` - 1.

    Attributes:
        name: of the corpus, with its languages.
        target_lang: ISO 639 code.
        start, stop: where its pairs are.
        dropped: how many pairs were dropped, by reason (see `REASONS`).
        licence: empty if it is not known.
        sha256: of the corpus's files.
    """

    name: str
    target_lang: str
    start: int
    stop: int
    dropped: dict[str, int]
    licence: str
    sha256: str = ""

    def __len__(self) -> int:
        return self.stop - self.start


class Texts(Sequence[str]):
    """Sentences in a file, read when they are asked for; `rows`: only these, in this order."""

    def __init__(self, path: Path, rows: NDArray[np.integer[Any]] | None = None):
        self._path, self._rows = path, rows
        self._offsets = memoryview(_map(path.with_suffix(".offsets"))).cast("q")
        self._bytes = _map(path)
        if len(self._bytes) != self._offsets[-1]:
            raise ValueError(f"{path.name} has {len(self._bytes)} bytes, expected {self._offsets[-1]}")

    def __len__(self) -> int:
        return len(self._offsets) - 1 if self._rows is None else len(self._rows)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(f"{index} of {len(self)} sentences")
        row = number if self._rows is None else int(self._rows[number])
        return str(self._bytes[self._offsets[row] : self._offsets[row + 1]], "utf-8")

    def __reduce__(self) -> tuple[type[Texts], tuple[Path, NDArray[np.integer[Any]] | None]]:
        return Texts, (self._path, self._rows)

    def selected(self, rows: NDArray[np.integer[Any]]) -> Texts:
        """The sentences of these rows alone, in their order."""
        return Texts(self._path, rows)


class Pairs(Protocol):
    """Pairs to train on: those of a store, or a selection of them; see `PairStore`."""

    @property
    def sources(self) -> Sequence[str]:
        """The distinct source sentences."""

    @property
    def source_rows(self) -> NDArray[np.int32]:
        """For each pair the row of its source, int32."""

    @property
    def targets(self) -> Sequence[str]:
        """For each pair its target."""

    @property
    def parts(self) -> Sequence[Part]:
        """What each corpus gave, in the order of the pairs."""


@dataclass(frozen=True)
class _Contents:
    """What `pairs.json` says of a store."""

    digest: str
    guarded: dict[str, int]
    parts: list[Part]


class PairStore:
    """An open store of `Pairs`; it can be pickled, and is opened again where it is unpickled.

    Attributes:
        digest: sha256 of the corpora, the filters and the guard: equal for equal pairs.
        guarded: the number of sentences of each evaluation set that the pairs were compared with.
    """

    def __init__(self, folder: Path):
        info = decoded((folder / _INFO).read_bytes(), _Contents)
        self._folder = folder
        self.sources = Texts(folder / _SOURCES)
        self.targets = Texts(folder / _TARGETS)
        self.source_rows: NDArray[np.int32] = np.memmap(folder / _ROWS, dtype="<i4", mode="r")
        self.parts, self.digest, self.guarded = info.parts, info.digest, info.guarded
        if not len(self.source_rows) == len(self.targets) == self.parts[-1].stop:
            raise ValueError("the files have different lengths")

    def __len__(self) -> int:
        return len(self.source_rows)

    def __reduce__(self) -> tuple[Callable[[Path], PairStore], tuple[Path]]:
        return PairStore.open, (self._folder,)

    @classmethod
    def open(cls, folder: Path) -> PairStore:
        """The store in a folder. Raises InputError if there is none, or if it is damaged."""
        try:
            return cls(folder)
        except (OSError, ValueError, IndexError) as error:
            raise InputError(f"{folder}: no store of pairs, or a damaged one ({error}); remove it") from None

    @classmethod
    def build(
        cls,
        corpora: Sequence[Corpus],
        filters: Filters,
        guard: EvaluationSentences,
        folder: Path,
        progress: Progress | None = None,
    ) -> PairStore:
        """Write the pairs of some corpora into a store, or open the store if it holds just these.

        The corpora are read block by block and never held in memory: some 70 bytes a pair are, at most (hashes, and
        what sorting them takes). Sentences are told apart by hashes of 64 bits: with a hundred million of them the
        chance that two are confused is below one in a thousand. The store is written beside `folder` and takes its
        place when it is complete; one of other corpora, filters or evaluation sets is replaced.

        Args:
            corpora: in this order; of equal pairs in one language pair, the first stays.
            filters: which pairs are dropped.
            guard: the sentences of evaluation data (`harness.tasks.leakage.leakage_guard`).
            folder: of the store.
            progress: is called for every block.

        Raises:
            InputError: no corpora, one of them twice, empty or damaged; an empty guard; no pair is left; the folder
                cannot be written, or holds something else.
        """
        if not corpora:
            raise InputError("no corpora to train on; name some, or put some into parallel/ of the data directory")
        for name, number in Counter(corpus.name for corpus in corpora).items():
            if number > 1:
                raise InputError(f"{name} is given {number} times; give each corpus once")
        if not guard:
            raise InputError("the leakage guard is empty: no evaluation set was given to keep the pairs free of")
        files = ["".join(f"{content_sha256(path)}\n" for path in corpus.files) for corpus in corpora]
        checksums = [sha256(content.encode()).hexdigest() for content in files]
        digest = _digest(corpora, checksums, filters, guard)
        with writing(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            # Of several processes that train together, one builds.
            with locked(folder.with_name(f"{folder.name}.lock")):
                if not _is_current(folder, digest):
                    with new_folder(folder, replace=True) as fresh:
                        parts = _write(corpora, checksums, filters, guard, fresh, progress)
                        (fresh / _INFO).write_bytes(as_json(asdict(_Contents(digest, guard.counts, parts))))
                return cls.open(folder)


def _is_current(folder: Path, digest: str) -> bool:
    """Whether a folder holds the store with this digest. Raises InputError if it holds something else than a store."""
    if not (folder / _INFO).is_file():
        if folder.exists() and any(folder.iterdir()):
            raise InputError(f"{folder} holds something else than a store of pairs; name another folder")
        return False
    try:
        return PairStore.open(folder).digest == digest
    except InputError:
        return False  # damaged: it is built again


def _digest(corpora: Sequence[Corpus], checksums: Sequence[str], filters: Filters, guard: EvaluationSentences) -> str:
    """A checksum of everything that the pairs depend on; the places of the files do not count."""
    sources = [
        [corpus.name, corpus.format, corpus.is_swapped, corpus.min_score, corpus.licence, checksum]
        for corpus, checksum in zip(corpora, checksums, strict=True)
    ]
    content = json.dumps([_VERSION, sources, asdict(filters), guard.digest])
    return sha256(content.encode()).hexdigest()


@dataclass
class _Column:
    """The sentences of one side as they are read: their text in a file, their hashes and lengths here."""

    path: Path
    hashes: list[NDArray[np.uint64]]
    lengths: list[NDArray[np.int32]]

    def add(self, sentences: Iterable[str]) -> None:
        encoded = [sentence.encode() for sentence in sentences]
        hashes = b"".join(blake2b(text, digest_size=8).digest() for text in encoded)
        self.hashes.append(np.frombuffer(hashes, dtype="<u8"))
        self.lengths.append(np.fromiter(map(len, encoded), dtype=np.int32, count=len(encoded)))
        with self.path.open("ab") as file:
            file.write(b"".join(encoded))


def _write(
    corpora: Sequence[Corpus],
    checksums: Sequence[str],
    filters: Filters,
    guard: EvaluationSentences,
    folder: Path,
    progress: Progress | None,
) -> list[Part]:
    """Write the files of a store but for `pairs.json`; returns what each corpus gave."""
    sources = _Column(folder / "read-sources", [], [])
    targets = _Column(folder / "read-targets", [], [])
    languages: list[NDArray[np.uint64]] = []
    sizes: list[int] = []
    drops: list[Counter[str]] = []
    for corpus in corpora:
        dropped: Counter[str] = Counter()
        n_read = n_kept = 0
        pairs = read_pairs(corpus)
        while block := list(islice(pairs, _BLOCK)):
            kept = []
            for source, target in ((left.strip(), right.strip()) for left, right in block):
                if reason := filters.reason_to_drop(source, target, guard):
                    dropped[reason] += 1
                else:
                    kept.append((source, target))
            sources.add(source for source, _ in kept)
            targets.add(target for _, target in kept)
            n_read += len(block)
            n_kept += len(kept)
            if progress:
                progress(corpus.name, n_read, None)
        language = blake2b(f"{corpus.source_lang}-{corpus.target_lang}".encode(), digest_size=8).digest()
        languages.append(np.frombuffer(language, dtype="<u8"))
        sizes.append(n_kept)
        drops.append(dropped)
    source_hashes, target_hashes = np.concatenate(sources.hashes), np.concatenate(targets.hashes)
    if filters.drop_duplicates:
        # The hashes are uniform already; an odd factor keeps (a, b) and (b, a) apart.
        pair_hashes = source_hashes * _MIX + target_hashes + np.repeat(np.concatenate(languages), sizes)
        kept_rows = np.sort(np.unique(pair_hashes, return_index=True)[1])  # where each occurs first
        del pair_hashes
    else:
        kept_rows = np.arange(len(source_hashes))
    del target_hashes
    if not len(kept_rows):
        reasons = sum(drops, Counter[str]()).most_common()
        dropped_as = ", ".join(f"{number:,} dropped as {reason}" for reason, number in reasons)
        raise InputError(f"no pair is left of {len(corpora)} corpora: {dropped_as}")
    _copy(targets, kept_rows, folder / _TARGETS)
    firsts, source_rows = _numbered(source_hashes[kept_rows])
    _copy(sources, kept_rows[firsts], folder / _SOURCES)
    source_rows.astype("<i4").tofile(folder / _ROWS)
    stops = np.searchsorted(kept_rows, np.cumsum(sizes)).tolist()
    parts = []
    for corpus, checksum, dropped, size, start, stop in zip(
        corpora, checksums, drops, sizes, [0, *stops], stops, strict=False
    ):
        dropped["duplicate"] = size - (stop - start)
        counts = {reason: number for reason, number in sorted(dropped.items()) if number}
        parts.append(Part(corpus.name, corpus.target_lang, start, stop, counts, corpus.licence, checksum))
    return parts


def _numbered(hashes: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places of the first occurrences, in order, and for each hash the number of its first occurrence."""
    _, firsts, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return firsts[order], ranks[inverse]


def _copy(column: _Column, rows: NDArray[np.int64], path: Path) -> None:
    """Write the sentences in `rows` (ascending) of a column, and their offsets, and remove the column's file."""
    lengths = np.concatenate(column.lengths)
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    with column.path.open("rb") as read, path.open("wb") as written:
        for at in range(0, len(rows), _BLOCK):
            block = rows[at : at + _BLOCK]
            first, end = int(starts[block[0]]), int(starts[block[-1]] + lengths[block[-1]])
            read.seek(first)
            text = read.read(end - first)
            places = (starts[block] - first).tolist()
            sizes = lengths[block].tolist()
            written.write(b"".join(text[place : place + size] for place, size in zip(places, sizes, strict=True)))
    offsets = np.concatenate([[0], np.cumsum(lengths[rows], dtype=np.int64)])
    offsets.astype("<i8").tofile(path.with_suffix(".offsets"))
    column.path.unlink()


def _map(path: Path) -> mmap.mmap | bytes:
    with path.open("rb") as file:
        # An empty file cannot be mapped.
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""
