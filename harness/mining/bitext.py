r"""Bitext from one's own text: files with one sentence a line in, lines `score TAB source TAB target` out.

The output is that of LASER's `mine_bitexts.py --mode mine --unify`: best pairs first, a score in the fewest digits that
read back as the same float64. A line of it is a pair and a tab of it a column for every reader, because no sentence
holds one: a line with a tab is refused (it is a table's, not a sentence), and what some readers take for the end of a
line although it is none (`\r`, `\v`, `\f`, U+001C to U+001E, U+0085, U+2028, U+2029) becomes a blank, before the
sentence is counted, compared or encoded. Otherwise a sentence is its line as it stands.
"""

from __future__ import annotations

import gzip
import re
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.core.errors import InputError, LanguageError
from harness.core.files import replacing, writing
from harness.core.text import iter_lines
from harness.encoders.containment import InParts
from harness.encoders.encoder import Encoder
from harness.mining.search import Floats, Ints

_AT_ONCE = 1 << 14  # pairs that are written
_LANGUAGE = re.compile(r"[a-z]{2,3}")
_LINE_ENDS = re.compile("[\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")  # those of str.splitlines, without the line feed


@dataclass(frozen=True)
class Sentences:
    """The sentences of one side that are mined, in the order of the file, and how many lines were left out.

    Attributes:
        sentences: without tabs and line ends, none of them blank.
        lines: of the file, from 1, in which they stand, (n,).
        n_blank: lines with nothing but white space.
        n_length: lines that are shorter or longer than was asked for.
        n_repeated: lines equal to an earlier one.
    """

    sentences: Sequence[str]
    lines: Ints
    n_blank: int = 0
    n_length: int = 0
    n_repeated: int = 0

    @property
    def n_lines(self) -> int:
        """Lines of the file."""
        return len(self.sentences) + self.n_blank + self.n_length + self.n_repeated

    @property
    def summary(self) -> str:
        """How many lines and sentences there are, and why lines were left out."""
        dropped = {"blank": self.n_blank, "too short or too long": self.n_length, "repeated": self.n_repeated}
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in dropped.items() if n)
        kept = f"{self.n_lines:,} lines, {len(self.sentences):,} sentences to mine"
        return kept + (f" (dropped: {reasons})" if reasons else "")


def language_of(path: Path) -> str | None:
    """The language that a file's name ends in (`news.de`, `news.de.gz`): a code of ISO 639-1 or 639-3, else None."""
    name, dot, ending = path.name.removesuffix(".gz").rpartition(".")
    return ending if name and dot and ending != "txt" and _LANGUAGE.fullmatch(ending) else None


def checked_language(code: str, option: str) -> str:
    """`code`. Raises InputError, naming the option, if it is not written like one of ISO 639-1 or 639-3."""
    if not _LANGUAGE.fullmatch(code):
        raise InputError(f"{option} is a code of ISO 639-1 (de) or, for want of one, of 639-3 (ceb), not {code!r}")
    return code


def check_encodes(encoder: Encoder, text: Sentences, lang: str | None, path: Path, option: str) -> None:
    """Raise LanguageError if the encoder does not take the language of a side, whose file and option are named."""
    if not encoder.uses_lang:
        return
    try:
        InParts(encoder).encode(text.sentences[:1], lang)
    except LanguageError:
        if lang:
            raise
        raise LanguageError(
            f"{path}: its name does not end in a language, and {encoder.name} needs one; give {option} CODE"
        ) from None


def check_places(source: Path, target: Path, out: Path | None, checkpoint: Path | None) -> None:
    """Check the files and folders of a mining, before anything is read.

    out: the file to write, links resolved; None for standard output.

    Raises:
        InputError: a side is no file, both are the same, `out` is one of them or no ordinary file, or a place cannot be
            written.
    """
    for path in (source, target):
        if not path.exists() or path.is_dir():
            raise InputError(f"no file {path}; give two text files with one sentence a line, as in news.de news.en")
    if source.samefile(target):
        raise InputError(
            f"{source} is given for both sides: every sentence would be its own translation; give two files"
        )
    if checkpoint is not None:
        _check_writable(checkpoint, checkpoint)
    if out is None:
        return
    if out.is_symlink() or (out.exists() and not out.is_file()):  # still a link: one of a circle
        raise InputError(f"--out {out} is no ordinary file; name one, or - for standard output")
    if out.exists() and any(out.samefile(path) for path in (source, target)):
        raise InputError(f"--out {out} would replace a file that is mined; name another")
    _check_writable(out.parent, out)


def _check_writable(folder: Path, path: Path) -> None:
    """Make a folder if need be, and raise InputError if `path`, which is in it or is it, cannot be written."""
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()


def read_sentences(path: Path, *, min_length: int = 1, max_length: int | None = None, dedup: bool = True) -> Sentences:
    """Read one side, a UTF-8 text file or its `.gz`.

    Args:
        path: the file.
        min_length, max_length: of a sentence, in characters (code points).
        dedup: keep only the first of equal sentences.

    Raises:
        InputError: the file cannot be read, is not UTF-8 or has a line with a tab (names the line); no sentence is
            left, or the lengths leave room for none.
    """
    if max_length is not None and max_length < min_length:
        raise InputError(f"no sentence has {min_length} characters or more and {max_length} or fewer; change one")
    sentences: list[str] = []
    lines = array("q")
    seen: set[str] = set()
    n_blank = n_length = n_repeated = 0
    for number, line in enumerate(iter_lines(path), start=1):
        sentence = _LINE_ENDS.sub(" ", line)
        if not sentence.strip():
            n_blank += 1
        elif "\t" in sentence:
            raise InputError(
                f"{path}:{number}: a tab in the line: expected one sentence a line; take the column with the sentences "
                "(cut -f) or replace the tabs"
            )
        elif len(sentence) < min_length or (max_length is not None and len(sentence) > max_length):
            n_length += 1
        elif dedup and sentence in seen:
            n_repeated += 1
        else:
            sentences.append(sentence)
            lines.append(number)
            if dedup:
                seen.add(sentence)
    read = Sentences(sentences, np.array(lines, np.int64), n_blank, n_length, n_repeated)
    if not read.n_lines:
        raise InputError(f"{path}: the file is empty; expected one sentence a line")
    if not sentences:
        raise InputError(
            f"{path}: no sentence in it to mine ({n_blank} blank lines, {n_length} shorter or longer than asked for)"
        )
    return read


def n_best(scores: Floats, *, threshold: float | None = None, top: int | None = None) -> int:
    """How many of the pairs with `scores` (p,), in descending order, have at least `threshold`; at most `top`."""
    n = len(scores) if threshold is None else int(np.count_nonzero(scores >= threshold))
    return n if top is None else min(n, top)


def to_tsv(pairs: Ints, scores: Floats, source: Sequence[str], target: Sequence[str]) -> Iterator[bytes]:
    """The lines `score TAB source TAB target` of `pairs` (p, 2), rows of `source` and `target`, in UTF-8, in blocks.

    The sentences are taken to hold neither tabs nor line ends, as those of `read_sentences` do.
    """
    for start in range(0, len(scores), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        scored = zip(scores[part].tolist(), pairs[part].tolist(), strict=True)
        yield "".join(f"{score!r}\t{source[i]}\t{target[j]}\n" for score, (i, j) in scored).encode()


def write_bitext(path: Path, blocks: Iterable[bytes]) -> None:
    """Write what `to_tsv` gives, compressed if the name ends in `.gz`. Raises InputError if that is impossible."""
    with writing(path), replacing(path) as stream:
        if path.suffix != ".gz":
            stream.writelines(blocks)
            return
        # Without the time of day and the temporary name in the archive: equal pairs, equal files.
        with gzip.GzipFile(filename="", fileobj=stream, mode="wb", mtime=0) as packed:
            packed.writelines(blocks)
