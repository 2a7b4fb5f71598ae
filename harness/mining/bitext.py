"""The files of a mining: which are read and which are written, the languages of both sides, how many pairs count."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.core.compressed import plain_name
from harness.core.errors import InputError, LanguageError
from harness.core.files import listed, writing
from harness.encoders.containment import InParts
from harness.encoders.encoder import Encoder
from harness.mining.search import Floats
from harness.mining.texts import Sentences

_LANGUAGE = re.compile(r"[a-z]{2,3}")


def language_of(files: Sequence[Path]) -> str | None:
    """The language that the names of files end in (`news.de`, `news.de.gz`), a code of ISO 639-1 or 639-3, if one."""
    languages = set()
    for path in files:
        name, dot, ending = plain_name(path).rpartition(".")
        languages.add(ending if name and dot and ending != "txt" and _LANGUAGE.fullmatch(ending) else None)
    return languages.pop() if len(languages) == 1 else None


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
        InParts(encoder).encode([text.sentences[0]], lang)
    except LanguageError:
        if lang:
            raise
        raise LanguageError(
            f"{path}: its name does not end in a language, and {encoder.name} needs one; give {option} CODE"
        ) from None


def files_of(places: Sequence[Path]) -> list[Path]:
    """The files of a side: those that are given, and for a folder all in it, by name, but hidden ones.

    Raises:
        InputError: one is not there, or a folder has no files.
    """
    files = []
    for path in places:
        found = [path]
        if path.is_dir():
            found = [file for file in listed(path) if file.is_file() and not file.name.startswith(".")]
        if not found or not found[0].exists():
            raise InputError(f"no file {path}; give two text files with one sentence a line, as in news.de news.en")
        files += found
    return files


def check_places(
    sides: Sequence[Sequence[Path]],
    written: Sequence[tuple[str, Path]],
    work: Path | None = None,
    review: Path | None = None,
) -> None:
    """Check the files and folders of a mining, before anything is read.

    sides: the files of both.
    written: the files to write, each with the option that names it.
    work: the folder of the job, if one is given.
    review: a sheet that is read, if one is.

    Raises:
        InputError: a file is given for both sides, a file to write is one that is read, one of the job's folder, one
            that is written already or no ordinary file, a place cannot be written, or a pipe is to be read again from
            `work`.
    """
    seen: dict[tuple[int, int], int] = {}
    for number, path in ((number, path) for number, files in enumerate(sides) for path in files):
        is_of = path.stat()
        if seen.setdefault((is_of.st_dev, is_of.st_ino), number) != number:
            raise InputError(
                f"{path} is given for both sides: every sentence would be its own translation; give two files"
            )
        if work is not None and not path.is_file():
            raise InputError(f"{path} cannot be read again, as it is no file; leave out --work-dir, or give a file")
    if work is not None:
        _check_writable(work, work)
    given = [*(path for files in sides for path in files), *([] if review is None else [review])]
    options: dict[Path, str] = {}
    for option, path in written:
        out = Path(os.path.realpath(path))
        if out.is_symlink() or (out.exists() and not out.is_file()):  # still a link: one of a circle
            raise InputError(f"{option} {out} is no ordinary file; name one")
        if out.exists() and any(out.samefile(path) for path in given if path.exists()):
            raise InputError(f"{option} {out} would replace a file that is mined or read; name another")
        if work is not None and out.is_relative_to(Path(os.path.realpath(work))):
            raise InputError(f"{option} {out} is in the folder of --work-dir; name a file elsewhere")
        if out in options:
            raise InputError(f"{options[out]} and {option} both name {out}; give two files")
        options[out] = option
        _check_writable(out.parent, out)


def _check_writable(folder: Path, path: Path) -> None:
    """Make a folder if need be, and raise InputError if `path`, which is in it or is it, cannot be written."""
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()


def n_best(scores: Floats, *, threshold: float | None = None, top: int | None = None) -> int:
    """How many of the pairs with `scores` (p,), in descending order, have at least `threshold`; at most `top`.

    Scores count as they are written, with six digits: a threshold that was read there keeps its pair.
    """
    n = len(scores) if threshold is None else int(np.count_nonzero(np.round(scores, 6) >= threshold))
    return n if top is None else min(n, top)
