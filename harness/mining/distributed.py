"""A mining job's encoding and exact search, done by the workers of an engine, who all see the job's folder.

Workers encode the chunks that one process would, in the same way, into files of that folder (`chunks`), and search
tiles there (see `harness.mining.tiles`). A file that is there is work done, whoever has begun the job anew.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import InputError
from harness.core.files import refuse_special, replacing, writing
from harness.encoders.registry import of_one_side
from harness.encoders.vectors import CHUNK
from harness.engine.encoding import Opening, Question, Stamp, describe, loaded_encoder
from harness.engine.engine import Done, Engine
from harness.mining.encoding import EncodeChunk, without_cache
from harness.mining.neighbours import Backend, Progress
from harness.mining.search import Neighbours
from harness.mining.tiles import begun, cuts, nearest_on
from harness.mining.work import WorkDir

Vectors = NDArray[np.floating[Any]]

_VISIBLE = 30.0  # seconds within which a network file system shows a file that another machine has written
_COLUMN = "vectors"


@dataclass(frozen=True, eq=False)
class Piece:
    """Sentences that are encoded together.

    Attributes:
        opening, fingerprint: of the encoder.
        sentences, lang: what is encoded.
        out: the file for the vectors; None: they are sent back.
    """

    opening: Opening
    fingerprint: str
    sentences: Sequence[str]
    lang: str | None
    out: Path | None = None


def encode_sentences(piece: Piece) -> tuple[str, NDArray[np.float32] | None]:
    """The hardware, and the vectors, (n, dim); None if they are in the file.

    Raises:
        LoadError: the encoder cannot be loaded here, or is another one.
        InputError: the file cannot be written.
        Exception: what the encoder raises.
    """
    encoder = loaded_encoder(piece.opening, piece.fingerprint)
    vectors = without_cache(encoder, piece.lang)(piece.sentences)
    kind = Stamp.here(str(getattr(encoder, "device", "cpu"))).kind
    if piece.out is None:
        return kind, vectors
    with writing(piece.out), replacing(piece.out) as stream:
        np.savez(stream, allow_pickle=False, **{_COLUMN: vectors})  # a zip, which has a CRC-32
    return kind, None


class Remote:
    """An encoder whose weights are in the workers of an engine.

    Args:
        engine: theirs.
        opening: how they load it.
        note: told in a line what a user should know.

    Raises:
        InputError: it encodes queries and documents differently.
        Exception: whatever loading raises; LostError: workers died of that.
    """

    def __init__(self, engine: Engine, opening: Opening, note: Callable[[str], None]):
        self.engine = engine
        self._opening, self._note = opening, note
        [description] = _values(engine.map(describe, [Question(opening)]))
        encoder = of_one_side(description.encoder(opening))
        self.name, self.fingerprint, self.dim = encoder.name, encoder.fingerprint, encoder.dim
        self.uses_lang, self.chunk_size = encoder.uses_lang, getattr(encoder, "chunk_size", None)
        self._kinds: set[str] = set()

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        """The vectors of sentences that one worker encodes at a time, float32 (n, dim)."""
        piece = Piece(self._opening, self.fingerprint, sentences, lang)
        [value] = _values(self.engine.map(encode_sentences, [piece], self._redone))
        vectors: np.ndarray = value[1]
        return vectors

    def chunks(self, text: Sequence[str], lang: str | None, start: int, folder: Path, name: str) -> EncodeChunk:
        """Gives the vectors of the chunks of a text from row `start` on, one after another, as often as it is called.

        folder: for files that begin with `name`; those that are there are not encoded again.
        """
        vectors = self._in_order(text, lang, start, folder.absolute(), name)
        return lambda _: next(vectors)

    def _in_order(
        self, text: Sequence[str], lang: str | None, start: int, folder: Path, name: str
    ) -> Iterator[NDArray[np.float32]]:
        with writing(folder):
            folder.mkdir(exist_ok=True)
        parts = [part for part in cuts(len(text), self.chunk_size or CHUNK) if part.start >= start]
        files = {part.start: folder / f"{name}-{part.start}.npz" for part in parts}
        shapes = {part.start: (part.stop - part.start, self.dim) for part in parts}
        done = {row for row, file in files.items() if file.exists() and _read(file, shapes[row]) is not None}
        rows = {str(file): row for row, file in files.items()}
        pieces = (
            Piece(self._opening, self.fingerprint, text[part], lang, files[part.start])
            for part in parts
            if part.start not in done
        )
        outcomes = self.engine.map(encode_sentences, pieces, self._redone)
        try:
            for row, file in files.items():
                while row not in done:
                    outcome = next(outcomes)
                    if not isinstance(outcome, Done):
                        raise outcome.error
                    self._see(outcome.value[0])
                    done.add(rows[str(outcome.piece.out)])
                vectors = _written(file, shapes[row])
                file.unlink(missing_ok=True)  # a kill now costs this chunk alone
                if row == parts[-1].start:
                    with suppress(OSError):
                        folder.rmdir()
                yield vectors
        finally:
            if isinstance(outcomes, Generator):
                outcomes.close()

    def _redone(self, piece: Piece, why: str) -> None:
        self._note(f"{len(piece.sentences):,} sentences are encoded again: {why}")

    def _see(self, kind: str) -> None:
        if self._kinds and kind not in self._kinds:
            self._note(
                f"warning: {self.name} is encoded on different hardware ({kind}; {', '.join(sorted(self._kinds))}): "
                "its vectors are those of one machine but for rounding"
            )
        self._kinds.add(kind)


def nearest_in_tiles(
    engine: Engine,
    work: WorkDir,
    x: Vectors,
    y: Vectors,
    k: int,
    backend: Backend,
    on_progress: Callable[[Progress], None],
) -> tuple[Neighbours, Neighbours]:
    """What `harness.mining.neighbours.nearest` gives, searched by an engine in tiles that `work` keeps.

    A search that is begun there goes on with its cut, however many places the engine has by now.

    Raises:
        Exception: as `nearest_on`.
    """
    folder, cut = begun(work.folder.absolute(), f"tiles-k{k}", len(x), len(y), engine.places)
    return nearest_on(engine, x, y, k, backend=backend, folder=folder, cut=cut, on_progress=on_progress)


def remove_tiles(work: WorkDir, k: int) -> None:
    """Remove the tiles of a search whose neighbours are kept."""
    for folder in work.folder.glob(f"tiles-k{k}-*"):
        shutil.rmtree(folder, ignore_errors=True)


def _values(outcomes: Iterator[Any]) -> Iterator[Any]:
    for outcome in outcomes:
        if not isinstance(outcome, Done):
            raise outcome.error
        yield outcome.value


def _written(file: Path, shape: tuple[int, int]) -> NDArray[np.float32]:
    end = time.monotonic() + _VISIBLE
    while (vectors := _read(file, shape)) is None:
        if time.monotonic() > end:
            raise InputError(f"{file}, which a worker wrote, is not there; name a --work-dir that all nodes share")
        time.sleep(0.2)
    return vectors


def _read(file: Path, shape: tuple[int, int]) -> NDArray[np.float32] | None:
    """The vectors of a file; None if there are none, or they are damaged: then they are made again."""
    try:
        refuse_special(file)
        with file.open("rb") as stream, np.lib.npyio.NpzFile(stream, allow_pickle=False) as stored:
            vectors = stored[_COLUMN]
    except InputError:
        raise
    except Exception:  # of a damaged zip they are of many types: NotImplementedError, RuntimeError, zlib.error
        return None
    is_whole = vectors.shape == shape and vectors.dtype == np.float32 and bool(np.isfinite(vectors).all())
    return vectors if is_whole else None
