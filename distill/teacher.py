"""The teacher's vectors of all source sentences: computed once, kept in a file, memory-mapped while they are read.

A store is a folder with `store.json` (what the vectors are of), `vectors.npy` (NumPy's NPY format, one row a sentence)
and, while it is being filled, `done` (how many sentences have their row).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from baselines.training.model_folder import as_json
from harness.core.errors import InputError
from harness.core.files import locked, write_atomically, writing
from harness.core.schema import Count, decoded
from harness.encoders.containment import InParts
from harness.encoders.encoder import Encoder, encode_all, normalise
from harness.encoders.vectors import CHUNK

VectorType = Literal["float16", "float32"]

_INFO, _VECTORS, _DONE = "store.json", "vectors.npy", "done"


@dataclass(frozen=True)
class _Info:
    """What `store.json` says: whose vectors of which sentences the store has."""

    fingerprint: str
    digest: str
    sentences: Count
    dim: Count
    dtype: VectorType


class TeacherVectors:
    """The vectors of a complete store, by row number. `build` fills a store, `open` opens a complete one.

    Args:
        vectors: float (sentences, teacher's dim), read when they are asked for.
        fingerprint: the teacher's.
        digest: SHA-256 of the sentences of the store, in order.
        rows: which of the vectors these are; None: all.
        projection: (teacher's dim, dim), applied to every vector; None: the vectors as they are.

    Attributes:
        dim: length of a vector.
    """

    def __init__(
        self,
        vectors: NDArray[np.floating[Any]],
        fingerprint: str,
        digest: str,
        rows: NDArray[np.int64] | None = None,
        projection: NDArray[np.float32] | None = None,
    ):
        self.fingerprint, self.digest = fingerprint, digest
        self._vectors, self._rows, self._projection = vectors, rows, projection
        self.dim = int((vectors if projection is None else projection).shape[1])

    def __len__(self) -> int:
        return len(self._vectors if self._rows is None else self._rows)

    def __getitem__(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """The vectors of an array of row numbers, float32 (len(rows), dim)."""
        vectors = np.asarray(self._vectors[rows if self._rows is None else self._rows[rows]], dtype=np.float32)
        return vectors if self._projection is None else vectors @ self._projection

    def projected(self, projection: NDArray[np.float32] | None) -> TeacherVectors:
        """These vectors in another space; `projection` None: in the same."""
        if projection is None:
            return self
        return TeacherVectors(self._vectors, self.fingerprint, self.digest, self._rows, projection)

    def selected(self, rows: NDArray[np.int64]) -> TeacherVectors:
        """The vectors of these rows alone."""
        return TeacherVectors(self._vectors, self.fingerprint, self.digest, rows, self._projection)

    @classmethod
    def open(cls, folder: Path) -> TeacherVectors:
        """A complete store. Raises InputError if there is none, or if it is damaged."""
        try:
            info = decoded((folder / _INFO).read_bytes(), _Info)
            if (folder / _DONE).exists():
                raise InputError(f"{folder}: not all of the teacher's vectors are there yet; let the encoding finish")
            vectors = np.load(folder / _VECTORS, mmap_mode="r")
            if vectors.shape != (info.sentences, info.dim) or vectors.dtype != info.dtype:
                raise ValueError(f"vectors of shape {vectors.shape}, expected {(info.sentences, info.dim)}")
            return cls(vectors, info.fingerprint, info.digest)
        except (OSError, ValueError) as error:
            raise InputError(f"{folder}: no store of teacher vectors ({error}); delete it, or name another") from None

    @classmethod
    def build(
        cls,
        encoder: Encoder,
        sentences: Sequence[str],
        folder: Path,
        dtype: VectorType = "float16",
        progress: Callable[[int, int], None] | None = None,
        *,
        lang: str | None = None,
    ) -> TeacherVectors:
        """The vectors of `sentences` by `encoder`, in `folder`.

        What is there already is not computed again: a build that was killed goes on after its last chunk. The longest
        sentences go first, so that too large a batch fails at once. Other processes that build the same store wait.

        Args:
            encoder: the teacher.
            sentences: distinct ones, in an order that stays; they may lie on disk and are read one by one.
            folder: where to keep the vectors.
            dtype: float16 rounds a number at its eleventh significant bit, at half the space of float32.
            progress: called with how many sentences are done, and how many there are.
            lang: of the sentences, for a teacher that wants to know.

        Raises:
            InputError: there are no sentences, the encoder returned NaN or a number that `dtype` cannot hold, `folder`
                holds other vectors, or cannot be written.
        """
        if not len(sentences):
            raise InputError("no sentences for the teacher to encode; give parallel data that is not empty")
        fingerprint = encoder.fingerprint + (f"|lang:{lang}" if encoder.uses_lang else "")
        info = _Info(fingerprint, sentences_digest(sentences), len(sentences), encoder.dim, dtype)
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with locked(folder / ".lock"):
                if not (folder / _INFO).exists():
                    _begin(folder, info)
                _check_same(folder, info)
                if (folder / _DONE).exists():
                    _fill(folder, encoder, sentences, np.dtype(dtype), progress, lang)
        return cls.open(folder)


class SideBySide:
    """Several teachers as one: a sentence's vectors by all of them, each of unit length, one after the other.

    The vectors are scaled so that the whole has unit length, too: its cosine of two sentences is then the mean of the
    teachers' cosines. (A zero vector of one teacher stays zero.)

    Attributes:
        name: `FIRST+SECOND`.
        fingerprint: of all fingerprints, in their order.
        dim: the sum.
        uses_lang: whether one of them does.
    """

    def __init__(self, teachers: Sequence[Encoder]):
        self._teachers = tuple(teachers)
        self.name = "+".join(teacher.name for teacher in teachers)
        self.fingerprint = f"side-by-side:{sha256(' '.join(t.fingerprint for t in teachers).encode()).hexdigest()[:16]}"
        self.dim = sum(teacher.dim for teacher in teachers)
        self.uses_lang = any(teacher.uses_lang for teacher in teachers)

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> NDArray[np.float32]:
        """The vectors, float32 (len(sentences), dim)."""
        parts = [normalise(encode_all(teacher, sentences, lang)) for teacher in self._teachers]
        return np.concatenate(parts, axis=1) / np.float32(np.sqrt(len(parts)))


def sentences_digest(sentences: Sequence[str]) -> str:
    """SHA-256, in hexadecimal, of the sentences in order."""
    digest = sha256()
    for sentence in sentences:
        content = sentence.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def _begin(folder: Path, info: _Info) -> None:
    """Write an empty store. `store.json` is written last: without it, the other files are ignored."""
    dtype = np.dtype(info.dtype)
    with (folder / _VECTORS).open("wb") as file:
        header = {"descr": dtype.str, "fortran_order": False, "shape": (info.sentences, info.dim)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + info.sentences * info.dim * dtype.itemsize)
    write_atomically(folder / _DONE, b"0\n")
    write_atomically(folder / _INFO, as_json(asdict(info)))


def _check_same(folder: Path, info: _Info) -> None:
    """Raises InputError if the store is of another teacher or of other sentences."""
    try:
        stored = asdict(decoded((folder / _INFO).read_bytes(), _Info))
    except ValueError as error:
        raise InputError(f"{folder / _INFO}: damaged ({error}); delete the folder, or name another") from None
    for key, value in asdict(info).items():
        if stored[key] != value:
            raise InputError(
                f"{folder} holds teacher vectors of another {key} ({stored[key]}, now {value}); name another folder, "
                "or delete this one"
            )


def _fill(
    folder: Path,
    encoder: Encoder,
    sentences: Sequence[str],
    dtype: np.dtype[Any],
    progress: Callable[[int, int], None] | None,
    lang: str | None,
) -> None:
    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    order = np.argsort(-lengths, kind="stable")
    teacher = InParts(encoder)
    try:
        first = int((folder / _DONE).read_text(encoding="ascii"))
    except ValueError:
        first = 0
    # Written as a file, not through a map: on a full disk, a map ends the process where a file raises an error.
    with (folder / _VECTORS).open("r+b") as file:
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
        start_of_data = file.tell()
        if progress:
            progress(first, len(order))
        for start in range(first, len(order), CHUNK):
            rows = np.sort(order[start : start + CHUNK])
            texts = [sentences[row] for row in rows]
            vectors = teacher.encode(texts, lang, rows)
            with np.errstate(over="ignore"):
                stored = vectors.astype(dtype)
            if not np.isfinite(stored).all():
                raise InputError(
                    f"encoder {encoder.name!r} returned numbers too large for {dtype}; take --teacher-dtype float32"
                )
            for row, vector in zip(rows.tolist(), stored, strict=True):
                file.seek(start_of_data + row * vector.nbytes)
                file.write(vector.tobytes())
            file.flush()
            os.fsync(file.fileno())  # before `done` says so
            write_atomically(folder / _DONE, f"{start + len(rows)}\n".encode())
            if progress:
                progress(start + len(rows), len(order))
    (folder / _DONE).unlink()
