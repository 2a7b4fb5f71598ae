r"""The sentences of a side: read from text files, kept on disk and found there by their number.

A sentence holds no tab and no line end: a line with a tab is refused (it is a table's, not a sentence), and what some
readers take for the end of a line although it is none (`\r`, `\v`, `\f`, U+001C to U+001E, U+0085, U+2028, U+2029)
becomes a blank, before the sentence is counted, compared or encoded. Otherwise a sentence is its line as it stands.

In memory are, while a side is read, 56 bytes a sentence (88 with documents), and none of them afterwards.
"""

from __future__ import annotations

import json
import mmap
import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import IO, overload

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import InputError
from harness.core.escaping import visible
from harness.core.files import digest_of, refuse_special, write_atomically, writing
from harness.core.schema import Count, read_json
from harness.core.text import iter_lines
from harness.mining.search import Ints
from harness.mining.work import WorkDir, crc_of

_LINE_ENDS = re.compile("[\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")  # those of str.splitlines, without the line feed
_KEY_BYTES = 16
_DONE = "texts.json"
_START, _END, _LINE, _DOCUMENT = range(4)  # columns of places


@dataclass(frozen=True)
class Reading:
    """Which lines are sentences to mine.

    Attributes:
        min_length, max_length: of a sentence, in characters (code points).
        dedup: keep only the first of equal sentences (of a document, where there are documents).
        documents: a line is `id TAB sentence`, and the sentences of one document are mined among themselves.
    """

    min_length: int = 1
    max_length: int | None = None
    dedup: bool = True
    documents: bool = False


class Texts(Sequence[str]):
    """Sentences in a file, found by their places in it, (n, 2) starts and ends in bytes.

    Of documents, a line feed, the document's id and a tab stand before each.
    """

    def __init__(self, file: Path, places: Ints):
        with file.open("rb") as stream:
            self._content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return [self._between(start, end) for start, end in self._places[row].tolist()]
        start, end = self._places[row].tolist()
        return self._between(start, end)

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), 1 << 14):
            yield from self[start : start + (1 << 14)]

    def document(self, row: int) -> str:
        """The id of the document in which a sentence stands."""
        end = int(self._places[row, _START]) - 1
        return self._between(self._content.rfind(b"\n", 0, max(end, 0)) + 1, end)

    def _between(self, start: int, end: int) -> str:
        return self._content[start:end].decode("utf-8", "replace")


@dataclass(frozen=True)
class Sentences:
    """The sentences of one side that are mined, in the order of the files, and how many lines were left out.

    Attributes:
        sentences: without tabs and line ends, none of them blank; of documents, one document after the other.
        lines: in which they stand, (n,), from 1, counted through all files.
        files: names of the files, with as many folders as tell them apart, and how many lines each has.
        bounds: of documents: rows `bounds[d]` to `bounds[d + 1]` are those of document d; None without documents.
        document: of documents: gives the id of the one in which the sentence of a row stands; None without them.
        n_blank: lines with nothing but white space.
        n_length: lines that are shorter or longer than was asked for.
        n_repeated: lines equal to an earlier one.
        n_alone: lines of documents that the other side does not have.
    """

    sentences: Sequence[str]
    lines: Ints
    files: tuple[tuple[str, int], ...] = ()
    bounds: Ints | None = None
    document: Callable[[int], str] | None = None
    n_blank: int = 0
    n_length: int = 0
    n_repeated: int = 0
    n_alone: int = 0

    @property
    def n_lines(self) -> int:
        """Lines of the files."""
        return len(self.sentences) + self.n_blank + self.n_length + self.n_repeated + self.n_alone

    @property
    def summary(self) -> str:
        """How many lines and sentences there are, and why lines were left out."""
        dropped = {"blank": self.n_blank, "too short or too long": self.n_length, "repeated": self.n_repeated}
        dropped["of documents that the other side lacks"] = self.n_alone
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in dropped.items() if n)
        kept = f"{self.n_lines:,} lines, {len(self.sentences):,} sentences to mine"
        if self.bounds is not None:
            kept += f" in {len(self.bounds) - 1:,} documents"
        return kept + (f" (dropped: {reasons})" if reasons else "")

    def place(self, row: int) -> tuple[str, int]:
        """The name of the file in which a sentence stands, and the line in it, from 1."""
        line = int(self.lines[row])
        number = bisect_left(self._ends, line)
        name, n_lines = self.files[number]
        return name, line - self._ends[number] + n_lines

    @cached_property
    def _ends(self) -> list[int]:
        """The last line of every file, counted through all."""
        return list(accumulate(n_lines for _, n_lines in self.files))


@dataclass(frozen=True)
class _Done:
    """A side that was read, as it is noted beside its files; `n_lines` of each of these."""

    n_lines: list[Count]
    n_blank: Count
    n_length: Count
    n_repeated: Count
    n_alone: Count
    n_documents: Count | None
    text_crc32: Count
    places_crc32: Count


def read_sentences(sides: Sequence[Sequence[Path]], reading: Reading, work: WorkDir) -> list[Sentences]:
    """The sentences of both sides, each of several UTF-8 text files, plain or packed; kept in `work`.

    Raises:
        InputError: a file cannot be read, is not UTF-8 or has a line with a tab, or without one where documents are
            asked for (names the line); no sentence is left; the lengths leave room for none; `work` is of other texts.
    """
    low, high = reading.min_length, reading.max_length
    if high is not None and high < low:
        raise InputError(f"no sentence has {low} characters or more and {high} or fewer; change one")
    key = {name: str(value) for name, value in asdict(reading).items()}
    for side, files in enumerate(sides, start=1):
        key |= {
            f"{visible(path.name)} (file {number} of side {side})": _digest(path)
            for number, path in enumerate(files, start=1)
        }
    work.agree("texts", key)
    done = _stored(work, sides)
    if done is None:
        done = _read_both(sides, reading, work)
        stored = {name: asdict(side) for name, side in done.items()}
        write_atomically(work.folder / _DONE, _json(stored))
    return [_opened(work, name, files, done[name]) for name, files in zip("xy", sides, strict=True)]


def _names(files: Sequence[Path]) -> list[str]:
    """The names of files, with as many folders before them as tell them apart: `1.de`, or `news/1.de`."""
    names: list[str] = []
    for n_parts in range(1, 1 + max(len(path.parts) for path in files)):
        names = [visible(str(Path(*path.parts[-n_parts:]))) for path in files]
        if len(set(names)) == len(set(files)):
            break
    return names


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _digest(path: Path) -> str:
    """What tells a file from another: its sha256; of a pipe, which is read once, that it is one."""
    if not path.is_file():
        return "a pipe"
    try:
        return digest_of(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); give another file") from None


def _files_of(work: WorkDir, name: str) -> tuple[Path, Path]:
    return work.folder / f"{name}.text", work.folder / f"{name}.places.npy"


def _stored(work: WorkDir, sides: Sequence[Sequence[Path]]) -> dict[str, _Done] | None:
    """What was read before, where it is whole."""
    for file in (work.folder / _DONE, *_files_of(work, "x"), *_files_of(work, "y")):
        refuse_special(file)
    if not (work.folder / _DONE).exists():
        return None
    try:
        done = read_json(work.folder / _DONE, dict[str, _Done])
        if sorted(done) != ["x", "y"]:
            return None
        if [len(done[name].n_lines) for name in "xy"] != [len(files) for files in sides]:
            return None
        for name, side in done.items():
            text, places = _files_of(work, name)
            if (crc_of(text), crc_of(places)) != (side.text_crc32, side.places_crc32):
                return None
    except (OSError, ValueError):
        return None
    return done


def _opened(work: WorkDir, name: str, files: Sequence[Path], done: _Done) -> Sentences:
    text, file = _files_of(work, name)
    try:
        places: Ints = np.lib.format.open_memmap(file, mode="r")
        _check_places(places, text.stat().st_size, sum(done.n_lines), done.n_documents)
    except Exception as error:  # whatever NumPy raises: a file whose checksum was made to fit may hold anything
        raise InputError(f"{file} holds no places of sentences ({error}); remove {work.folder}") from None
    sentences, bounds, document = Texts(text, places[:, : _END + 1]), None, None
    if done.n_documents is not None:
        bounds, document = np.searchsorted(places[:, _DOCUMENT], np.arange(done.n_documents + 1)), sentences.document
    names = tuple(zip(_names(files), done.n_lines, strict=True))
    counts = (done.n_blank, done.n_length, done.n_repeated, done.n_alone)
    return Sentences(sentences, places[:, _LINE], names, bounds, document, *counts)


def _check_places(places: Ints, n_bytes: int, n_lines: int, n_documents: int | None) -> None:
    if places.dtype != np.int64 or places.ndim != 2 or places.shape[1] != _DOCUMENT + 1 or not len(places):
        raise ValueError(f"{places.dtype} of shape {places.shape}")
    starts, ends, documents = places[:, _START], places[:, _END], places[:, _DOCUMENT]
    if starts.min() < 0 or (ends <= starts).any() or ends.max() > n_bytes:
        raise ValueError("they are not in the text")
    if places[:, _LINE].min() < 1 or places[:, _LINE].max() > n_lines:
        raise ValueError("they are not in the files")
    steps = np.diff(documents)
    if documents[0] != 0 or ((steps < 0) | (steps > 1)).any() or documents[-1] != (n_documents or 1) - 1:
        raise ValueError("the documents are not in order")


@dataclass
class _Side:
    """A side while it is read: places (n, 3) and counts; keys of its sentences and of their documents, (n, 2)."""

    places: NDArray[np.int64]
    keys: NDArray[np.uint64]
    documents: NDArray[np.uint64]
    n_lines: list[int]
    n_blank: int
    n_length: int


def _read_both(sides: Sequence[Sequence[Path]], reading: Reading, work: WorkDir) -> dict[str, _Done]:
    read, n_repeated = [], []
    for name, files in zip("xy", sides, strict=True):
        with writing(work.folder), _files_of(work, name)[0].open("wb") as out:
            side = _read(files, reading, out)
        kept = ~_is_repeated(side.keys) if reading.dedup else np.ones(len(side.places), bool)
        n_repeated.append(int((~kept).sum()))
        side.keys = np.empty((0, 2), np.uint64)
        side.places = side.places[kept]
        side.documents = side.documents[kept] if reading.documents else side.documents
        read.append(side)
    rows, numbers, n_documents = _in_documents(read) if reading.documents else ([], [], None)
    done = {}
    for i, (name, side) in enumerate(zip("xy", read, strict=True)):
        places = np.zeros((len(rows[i]) if rows else len(side.places), _DOCUMENT + 1), np.int64)
        places[:, :_DOCUMENT] = side.places[rows[i]] if rows else side.places
        if rows:
            places[:, _DOCUMENT] = numbers[i]
        text, file = _files_of(work, name)
        with writing(file), file.open("wb") as out:
            np.save(out, places, allow_pickle=False)
        counts = (side.n_blank, side.n_length, n_repeated[i], len(side.places) - len(places))
        done[name] = _Done(side.n_lines, *counts, n_documents, crc_of(text), crc_of(file))
    return done


def _read(files: Sequence[Path], reading: Reading, out: IO[bytes]) -> _Side:
    places, keys, documents, ends = array("q"), bytearray(), bytearray(), [0]
    n_blank = n_length = position = 0
    for number, path, document, line in _lines(files, reading.documents, ends):
        sentence = _LINE_ENDS.sub(" ", line)
        if not sentence.strip():
            n_blank += 1
        elif "\t" in sentence:
            raise InputError(
                f"{path}:{number - ends[-1]}: a tab in the {'sentence' if reading.documents else 'line'}: expected one "
                "sentence a line; take the column with the sentences (cut -f) or replace the tabs"
            )
        elif len(sentence) < reading.min_length or len(sentence) > (reading.max_length or len(sentence)):
            n_length += 1
        else:
            before = f"\n{document}\t".encode() if reading.documents else b""
            content = sentence.encode()
            out.write(before + content)
            position += len(before)
            places.extend((position, position + len(content), number))
            position += len(content)
            if reading.documents:
                documents += _key(document)
            if reading.dedup:
                keys += _key(document + "\t" + sentence if reading.documents else sentence)
    if not ends[-1]:
        raise InputError(f"{files[0]}: the file is empty; expected one sentence a line")
    if not places:
        raise InputError(
            f"{files[0]}: no sentence in it to mine ({n_blank} blank lines, {n_length} shorter or longer than asked "
            "for)"
        )
    kept = np.frombuffer(places, np.int64).reshape(-1, 3)
    return _Side(kept, _halves(keys), _halves(documents), np.diff(ends).tolist(), n_blank, n_length)


def _lines(files: Iterable[Path], documents: bool, ends: list[int]) -> Iterator[tuple[int, Path, str, str]]:
    """The number of every line through all files, its file, its document ("" without documents) and its text.

    `ends` gets the number of the last line of every file.
    """
    for path in files:
        number = ends[-1]
        for number, line in enumerate(iter_lines(path), start=ends[-1] + 1):
            document, tab, sentence = line.partition("\t") if documents else ("", "\t", line)
            if not tab and line.strip():
                raise InputError(f"{path}:{number - ends[-1]}: no tab in the line: expected `id TAB sentence`")
            yield number, path, document, sentence
        ends.append(number)


def _key(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=_KEY_BYTES).digest()


def _halves(keys: bytearray) -> NDArray[np.uint64]:
    """Keys of 16 bytes as pairs of numbers, (n, 2)."""
    return np.frombuffer(keys, np.uint64).reshape(-1, 2)


def _is_repeated(keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which of the keys (n, 2) are equal to an earlier one."""
    order = np.lexsort((keys[:, 1], keys[:, 0]))  # stable
    repeated = np.zeros(len(keys), bool)
    repeated[order[1:]] = (keys[order[1:]] == keys[order[:-1]]).all(axis=1)
    return repeated


def _in_documents(sides: Sequence[_Side]) -> tuple[list[Ints], list[Ints], int]:
    """For both sides, the rows of documents that both have, document by document, and their documents' numbers.

    Documents are numbered as they come in the first side. Raises InputError if there is none.
    """
    keys = np.concatenate([side.documents for side in sides])
    _, first, names = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    names = names.reshape(-1)
    n_x = len(sides[0].documents)
    of_sides = [names[:n_x], names[n_x:]]
    shared = np.intersect1d(of_sides[0], of_sides[1])
    if not len(shared):
        raise InputError("the sides have no document in common; the first column of both is the document's id")
    numbers = np.full(len(first), -1)
    numbers[shared[np.argsort(first[shared], kind="stable")]] = np.arange(len(shared))
    rows, numbered = [], []
    for side in of_sides:
        of_rows = numbers[side]
        order = np.argsort(of_rows, kind="stable")
        order = order[np.searchsorted(of_rows[order], 0) :]
        rows.append(order)
        numbered.append(of_rows[order])
    return rows, numbered, len(shared)
