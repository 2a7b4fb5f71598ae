"""`leaderboard mine`: bitext from one's own text."""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import say
from harness.cli.options import BatchSizeOption, CacheDirOption, DeviceOption, OneEncoderOption

if TYPE_CHECKING:
    from harness.cli.progress import Watcher
    from harness.encoder import Encoder
    from harness.mining import Progress
    from harness.mining.bitext import Sentences


class MarginChoice(str, Enum):
    """What a pair's similarity a is compared with: the mean b of its neighbours'."""

    ratio = "ratio"
    distance = "distance"
    absolute = "absolute"


class RetrievalChoice(str, Enum):
    """Which candidates become pairs."""

    max = "max"
    intersect = "intersect"
    forward = "forward"
    backward = "backward"


class BackendChoice(str, Enum):
    """What finds the neighbours."""

    auto = "auto"
    numpy = "numpy"
    float32 = "float32"
    bfloat16 = "bfloat16"
    cuda = "cuda"
    faiss = "faiss"


def mine(
    source: Annotated[Path, typer.Argument(metavar="FILE.de", show_default=False, help="One sentence a line, UTF-8.")],
    target: Annotated[Path, typer.Argument(metavar="FILE.en", show_default=False, help="The same, or .gz, for both.")],
    encoder: OneEncoderOption,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", show_default="-", help="File to write or replace (.gz: compressed); -: standard output."
        ),
    ] = None,
    src_lang: Annotated[
        str | None, typer.Option(metavar="CODE", show_default="the file's ending", help="Language of the first file.")
    ] = None,
    trg_lang: Annotated[
        str | None, typer.Option(metavar="CODE", show_default="the file's ending", help="Language of the second.")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(metavar="X", show_default=False, help="Write the pairs with at least this score; not with --top."),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, show_default=False, help="Write the N best pairs; not with --threshold."),
    ] = None,
    min_length: Annotated[int, typer.Option(metavar="N", min=1, help="Characters of a sentence, at least.")] = 1,
    max_length: Annotated[
        int | None, typer.Option(metavar="N", min=1, show_default=False, help="Characters of a sentence, at most.")
    ] = None,
    dedup: Annotated[
        bool, typer.Option("--dedup/--no-dedup", help="Merge the identical lines of a file before anything else.")
    ] = True,
    neighbours: Annotated[
        int, typer.Option("--neighbours", "-k", metavar="K", min=1, help="Nearest neighbours of each sentence, a few.")
    ] = 4,
    margin: Annotated[
        MarginChoice,
        typer.Option(help="Score: similarity over, or minus, the mean to the neighbours; or similarity alone."),
    ] = MarginChoice.ratio,
    retrieval: Annotated[
        RetrievalChoice,
        typer.Option(
            help="max: best pairs first, each sentence once; intersect: each other's best; forward: each source's "
            "best; backward: each target's."
        ),
    ] = RetrievalChoice.max,
    backend: Annotated[
        BackendChoice, typer.Option(help="What searches; faiss is approximate, the others give the same pairs.")
    ] = BackendChoice.auto,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="DIR", show_default=False, help="Folder to go on from if interrupted.")
    ] = None,
    cache_dir: CacheDirOption = None,
    device: DeviceOption = None,
    batch_size: BatchSizeOption = None,
) -> None:
    """Mine translations from two files with one sentence a line, by the margin of their similarity.

    Writes `score TAB source TAB target`, the best pair first, as LASER's tools do. Blank lines are dropped, a line with
    a tab is refused, and what else might end a line (U+2028, say) is written as a blank.

    Interrupted, the same command goes on: vectors are kept in the cache, and with --checkpoint what has been searched
    is kept too.
    """
    import numpy as np

    from harness.cache import VectorCache
    from harness.cli.progress import watch
    from harness.errors import InputError
    from harness.mining import mine as mine_pairs
    from harness.mining.bitext import n_best, read_sentences, to_tsv
    from harness.registry import check_spec, failures_in_one_line, load_encoder

    if threshold is not None and top is not None:
        raise InputError("--threshold and --top exclude each other; give one of them")
    if threshold is not None and not abs(threshold) < float("inf"):
        raise InputError(f"--threshold is a number, not {threshold}")
    if backend is BackendChoice.faiss and checkpoint is not None:
        raise InputError("an approximate search has no checkpoints; leave out --checkpoint, or --backend faiss")
    # A link stays one: its file is replaced.
    out = None if out is None or out == Path("-") else Path(os.path.realpath(out))
    _check_files(source, target, out, checkpoint)
    langs = _language(source, "--src-lang", src_lang), _language(target, "--trg-lang", trg_lang)
    spec = check_spec(encoder)
    options: dict[str, Any] = {
        "k": neighbours,
        "margin": margin.value,
        "retrieval": retrieval.value,
        "backend": backend.value,
    }
    if backend is not BackendChoice.auto:  # not there at all? Better known before hours of encoding.
        mine_pairs(np.ones((1, 1), np.float32), np.ones((1, 1), np.float32), **options)

    sides = []
    for path, lang in zip((source, target), langs, strict=True):
        text = read_sentences(path, min_length=min_length, max_length=max_length, dedup=dedup)
        sides.append(_Side(path, lang, text))
        say(f"{path.name} ({lang or 'language unknown'}): {_summary(text)}")
    with watch() as progress:
        with failures_in_one_line(str(spec)):
            model = load_encoder(spec, device=device, batch_size=batch_size)
            _check_languages(model, sides)
            vectors = VectorCache(cache_dir).of(model)
            x, y = (
                vectors.encode(side.text.sentences, side.lang, partial(progress.encoding, "mine", side.path.name))
                for side in sides
            )
        n_zero = sum(int(np.count_nonzero(~encoded.vectors.any(axis=1))) for encoded in (x, y))
        progress.note(
            f"{model.name}: {x.n_new + y.n_new:,} of {x.n_distinct + y.n_distinct:,} sentences encoded, the others "
            "taken from the cache" + (f"; {n_zero:,} zero vectors" if n_zero else "")
        )
        search = _Search(progress, backend.value)
        pairs, scores = mine_pairs(x.vectors, y.vectors, **options, checkpoint=checkpoint, on_progress=search)
    n = n_best(scores, threshold=threshold, top=top)
    _write(to_tsv(pairs[:n], scores[:n], sides[0].text.sentences, sides[1].text.sentences), out)
    protocol = f"k:{neighbours}|margin:{margin.value}|retrieval:{retrieval.value}|backend:{search.backend}"
    say(f"{len(pairs):,} pairs mined, {n:,} written ({protocol})")


class _Search:
    """Says now and then how far the search is, and remembers which backend does it."""

    _SECONDS = 30.0

    def __init__(self, watcher: Watcher, backend: str):
        self.backend = backend
        self._watcher, self._said = watcher, time.monotonic()

    def __call__(self, progress: Progress) -> None:
        self.backend = progress.backend
        if progress.recall:
            self._watcher.note(f"approximate: {progress.recall}")
        if progress.done < progress.total and time.monotonic() - self._said >= self._SECONDS:
            self._said = time.monotonic()
            self._watcher.note(f"{progress.done / progress.total:.1%} of the similarities searched")


@dataclass(frozen=True)
class _Side:
    path: Path
    lang: str | None
    text: Sentences


def _check_files(source: Path, target: Path, out: Path | None, checkpoint: Path | None) -> None:
    """Raise InputError for files that cannot be what is meant, before anything is read."""
    from harness.errors import InputError

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
    from harness.results import cannot_write

    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise cannot_write(path, error) from None


def _language(path: Path, option: str, given: str | None) -> str | None:
    from harness.errors import InputError
    from harness.mining.bitext import is_language, language_of

    if given is not None and not is_language(given):
        raise InputError(f"{option} is a code of ISO 639-1 (de) or, for want of one, of 639-3 (ceb), not {given!r}")
    return given or language_of(path)


def _summary(text: Sentences) -> str:
    dropped = {"blank": text.n_blank, "too short or too long": text.n_length, "repeated": text.n_repeated}
    why = ", ".join(f"{n:,} {name}" for name, n in dropped.items() if n)
    return f"{text.n_lines:,} lines, {len(text.sentences):,} sentences to mine" + (f" (dropped: {why})" if why else "")


def _check_languages(model: Encoder, sides: Sequence[_Side]) -> None:
    """Raise LanguageError for a language that the encoder does not take, before the other side has taken hours."""
    from harness.errors import LanguageError
    from harness.memory import InParts

    if not model.uses_lang:
        return
    for side, option in zip(sides, ("--src-lang", "--trg-lang"), strict=True):
        try:
            InParts(model).encode(side.text.sentences[:1], side.lang)
        except LanguageError:
            if side.lang:
                raise
            raise LanguageError(
                f"{side.path}: its name does not end in a language, and {model.name} needs one; give {option} CODE"
            ) from None


def _write(content: bytes, out: Path | None) -> None:
    if out is None:
        from harness.escaping import terminal

        # A program reads the sentences as they are; a terminal would do what is in them.
        typer.echo(terminal(content.decode()) if sys.stdout.isatty() else content, nl=False)
        return
    from harness.results import cannot_write, write_atomically

    if out.suffix == ".gz":
        content = gzip.compress(content, mtime=0)  # without the time of day: equal pairs, equal files
    try:
        write_atomically(out, content)
    except OSError as error:
        raise cannot_write(out, error) from None
