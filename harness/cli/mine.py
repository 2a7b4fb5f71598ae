"""`leaderboard mine`: bitext from one's own text."""

from __future__ import annotations

import os
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import say
from harness.cli.options import BatchSizeOption, CacheDirOption, DeviceOption, OneEncoderOption, ThreadsOption


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
    threads: ThreadsOption = None,
) -> None:
    """Mine translations from two files with one sentence a line, by the margin of their similarity.

    Writes `score TAB source TAB target`, the best pair first, as LASER's tools do. Blank lines are dropped, a line with
    a tab is refused, and what else might end a line (U+2028, say) is written as a blank.

    Interrupted, the same command goes on: vectors are kept in the cache, and with --checkpoint what has been searched
    is kept too.
    """
    from harness.cli.progress import watch
    from harness.core.errors import InputError
    from harness.core.escaping import terminal
    from harness.encoders.registry import check_spec, failures_in_one_line, load_encoder
    from harness.mining import bitext, job

    if threshold is not None and top is not None:
        raise InputError("--threshold and --top exclude each other; give one of them")
    if threshold is not None and not abs(threshold) < float("inf"):
        raise InputError(f"--threshold is a number, not {threshold}")
    if backend is BackendChoice.faiss and checkpoint is not None:
        raise InputError("an approximate search has no checkpoints; leave out --checkpoint, or --backend faiss")
    # A link stays one: its file is replaced.
    out = None if out is None or out == Path("-") else Path(os.path.realpath(out))
    bitext.check_places(source, target, out, checkpoint)
    inputs = [
        job.Input(path, bitext.language_of(path) if code is None else bitext.checked_language(code, option), option)
        for path, option, code in ((source, "--src-lang", src_lang), (target, "--trg-lang", trg_lang))
    ]
    spec = check_spec(encoder)
    searching = job.Searching(neighbours, margin.value, retrieval.value, backend.value)
    job.check_backend(searching)

    texts = job.read(inputs, job.Reading(min_length, max_length, dedup), say)
    with watch() as progress:
        with failures_in_one_line(str(spec)):
            model = load_encoder(spec, device=device, batch_size=batch_size)
            vectors = job.encode(texts, inputs, model, cache_dir, progress)
        mined = job.search(vectors, searching, checkpoint, progress)
    chosen = job.select(mined, texts, job.Choice(threshold, top))
    if out is not None:
        job.write(chosen, texts, out)
    else:  # a program reads the sentences as they are; a terminal would do what is in them
        for block in bitext.to_tsv(chosen.rows, chosen.scores, texts[0].sentences, texts[1].sentences):
            typer.echo(terminal(block.decode()) if sys.stdout.isatty() else block, nl=False)
    protocol = f"k:{neighbours}|margin:{margin.value}|retrieval:{retrieval.value}|backend:{progress.backend}"
    say(f"{len(mined):,} pairs mined, {len(chosen):,} written ({protocol})")
