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


class VectorsChoice(str, Enum):
    """What numbers of vectors are kept as."""

    float32 = "float32"
    float16 = "float16"


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
    target: Annotated[
        Path,
        typer.Argument(metavar="FILE.en", show_default=False, help="The same. Both: also .gz, .xz, .zst, or a folder."),
    ],
    encoder: OneEncoderOption,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", show_default="-", help="File to write or replace (.gz: compressed); -: standard output."
        ),
    ] = None,
    src: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", show_default=False, help="More files or folders of the first side. Repeatable."),
    ] = None,
    trg: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", show_default=False, help="More files or folders of the second. Repeatable."),
    ] = None,
    documents: Annotated[
        bool,
        typer.Option("--documents", help="Lines are `id TAB sentence`: mine within documents that both sides have."),
    ] = False,
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
    vectors: Annotated[
        VectorsChoice, typer.Option(help="What vectors are kept as; float16 takes half the disk.")
    ] = VectorsChoice.float32,
    work_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            show_default=False,
            help="Folder for texts, vectors and neighbours: the same command goes on from it.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Begin what takes longer than an hour.")] = False,
    checkpoint: Annotated[Path | None, typer.Option(hidden=True)] = None,
    cache_dir: CacheDirOption = None,
    device: DeviceOption = None,
    batch_size: BatchSizeOption = None,
    threads: ThreadsOption = None,
) -> None:
    """Mine translations from two sides with one sentence a line, by the margin of their similarity.

    Writes `score TAB source TAB target`, the best pair first, as LASER's tools do. Blank lines are dropped, a line with
    a tab is refused, and what else might end a line (U+2028, say) is written as a blank.

    Says first what it will take; what takes longer than an hour wants --yes. With --work-dir the same command goes on
    from what is in that folder, and takes vectors and neighbours from there for another threshold or margin; without it
    vectors are kept in the cache, and all else in a temporary folder.
    """
    from harness.cli.mining_progress import watch_mining
    from harness.core.errors import InputError
    from harness.core.escaping import terminal
    from harness.encoders.registry import check_spec, failures_in_one_line, load_encoder
    from harness.mining import bitext, job
    from harness.mining.texts import Reading
    from harness.mining.work import open_work

    if checkpoint is not None:
        raise InputError("--checkpoint is now --work-dir, which keeps vectors too; name a new folder with that")
    if threshold is not None and top is not None:
        raise InputError("--threshold and --top exclude each other; give one of them")
    if threshold is not None and not abs(threshold) < float("inf"):
        raise InputError(f"--threshold is a number, not {threshold}")
    if documents and backend is BackendChoice.faiss:
        raise InputError("the search within documents is exact; leave out --documents, or --backend faiss")
    # A link stays one: its file is replaced.
    out = None if out is None or out == Path("-") else Path(os.path.realpath(out))
    sides = [bitext.files_of([source, *(src or [])]), bitext.files_of([target, *(trg or [])])]
    bitext.check_places(sides, out, work_dir)
    inputs = [
        job.Input(
            tuple(files), bitext.language_of(files) if code is None else bitext.checked_language(code, option), option
        )
        for files, option, code in zip(sides, ("--src-lang", "--trg-lang"), (src_lang, trg_lang), strict=True)
    ]
    spec = check_spec(encoder)
    searching = job.Searching(neighbours, margin.value, retrieval.value, backend.value)
    storing = job.Storing(vectors.value, cache_dir, has_cache=work_dir is None)
    job.check_backend(searching)

    with open_work(work_dir) as work:
        texts = job.read(inputs, Reading(min_length, max_length, dedup, documents), work, say)
        with watch_mining() as progress:
            with failures_in_one_line(str(spec)):
                model = load_encoder(spec, device=device, batch_size=batch_size)
                begun = job.begin(texts, inputs, model, storing, work)
                estimate = job.estimated(begun, texts, inputs, model, searching, work)
            if estimate is not None:
                progress.note(f"estimate: {estimate}")
                job.check_estimate(estimate, searching, texts, model.dim, work, is_long_agreed=yes)
                progress.plan(estimate.encoding, estimate.search)
            with failures_in_one_line(str(spec)):
                encoded = job.encode(begun, inputs, model, progress)
            mined = job.search(encoded, texts, searching, work, progress)
        chosen = job.select(mined, texts, job.Choice(threshold, top))
        if out is not None:
            job.write(chosen, texts, out)
        else:  # a program reads the sentences as they are; a terminal would do what is in them
            for block in bitext.to_tsv(chosen.rows, chosen.scores, texts[0].sentences, texts[1].sentences):
                typer.echo(terminal(block.decode()) if sys.stdout.isatty() else block, nl=False)
    protocol = f"k:{neighbours}|margin:{margin.value}|retrieval:{retrieval.value}|backend:{progress.backend}"
    say(f"{len(mined):,} pairs mined, {len(chosen):,} written ({protocol}{'|documents' if documents else ''})")
    if work_dir is not None:
        say(f"{work_dir} keeps texts, vectors and neighbours for another run on the same files; remove it when done")
