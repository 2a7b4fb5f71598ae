"""`leaderboard mine`: bitext from one's own text."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import say
from harness.cli.engine import AddressOption, CpusOption, EngineChoice, EngineOption, GpusOption, opened
from harness.cli.options import BatchSizeOption, CacheDirOption, DeviceOption, OneEncoderOption, ThreadsOption

if TYPE_CHECKING:
    from harness.encoders.encoder import Encoder


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
    format: Annotated[
        str | None,
        typer.Option(
            metavar="<tsv|jsonl|tmx|moses|parquet>",
            show_default="the ending of --out, else tsv",
            help="moses: two aligned files, OUT.de and OUT.en.",
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
        str | None,
        typer.Option(
            metavar="X|auto",
            show_default=False,
            help="Write the pairs with at least this score; auto: as --report suggests. Not with --top.",
        ),
    ] = None,
    report: Annotated[
        bool, typer.Option("--report", help="What to expect of thresholds, from the scores alone; on standard error.")
    ] = False,
    report_json: Annotated[
        Path | None, typer.Option(metavar="FILE", show_default=False, help="The same, to a file, for programs.")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, show_default=False, help="Draw N pairs of every band of scores to judge; with --sheet."
        ),
    ] = None,
    sheet: Annotated[
        Path | None, typer.Option(metavar="FILE", show_default=False, help="File to write for --sample; a new one.")
    ] = None,
    verdicts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="Print precision by threshold from a judged sheet; else the same command, best with its --work-dir.",
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, show_default=False, help="Write the N best pairs; not with --threshold."),
    ] = None,
    min_length: Annotated[int, typer.Option(metavar="N", min=1, help="Characters of a sentence, at least.")] = 1,
    max_length: Annotated[
        int | None, typer.Option(metavar="N", min=1, show_default=False, help="Characters of a sentence, at most.")
    ] = None,
    max_length_ratio: Annotated[
        float | None,
        typer.Option(
            metavar="X", show_default=False, help="Leave out pairs of which one sentence is more than X times as long."
        ),
    ] = None,
    max_overlap: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            show_default=False,
            help="Leave out pairs that share more than X (0 to 1) of their words: copies.",
        ),
    ] = None,
    same_numbers: Annotated[bool, typer.Option("--same-numbers", help="Leave out pairs whose numbers differ.")] = False,
    same_punctuation: Annotated[
        bool,
        typer.Option(
            "--same-punctuation", help="Leave out pairs of which one alone is a question, say, by its last mark."
        ),
    ] = False,
    check_languages: Annotated[
        bool,
        typer.Option(
            "--check-languages", help="Leave out pairs with a sentence that is identified as of another language."
        ),
    ] = False,
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
    engine: EngineOption = EngineChoice.local,
    address: AddressOption = None,
    cpus_per_worker: CpusOption = None,
    gpus_per_worker: GpusOption = None,
) -> None:
    """Find translations in two texts. Each side has one sentence a line; pairs are scored by the margin of their
    similarity.

    Writes `score TAB source TAB target`, the best pair first, as LASER's tools do, or another --format. Blank lines are
    dropped, a line with a tab is refused, and what else might end a line (U+2028, say) is written as a blank.

    Says first what it will take; what takes longer than an hour wants --yes. With --work-dir the same command goes on
    from what is in that folder, and takes vectors and neighbours from there for another threshold or margin; without it
    vectors are kept in the cache, and all else in a temporary folder.

    With --engine ray and a --work-dir that all nodes see, the workers of a cluster encode and search; with equal
    --threads the pairs are those of one process, byte by byte. Nothing is estimated then.

    Example: leaderboard mine news.de news.en --encoder student --threshold auto --out pairs.tsv
    """
    from harness.cli.mining_advice import AUTO, advised, parsed_threshold
    from harness.cli.mining_progress import watch_mining
    from harness.cli.mining_sample import parsed_sampling, sampled
    from harness.core.errors import InputError
    from harness.core.escaping import terminal
    from harness.encoders.registry import check_spec, failures_in_one_line, load_encoder
    from harness.engine.encoding import Opening
    from harness.mining import bitext, formats, job
    from harness.mining.advice import check_margin
    from harness.mining.distributed import Remote
    from harness.mining.filters import Filters
    from harness.mining.texts import Reading
    from harness.mining.work import open_work

    if checkpoint is not None:
        raise InputError("--checkpoint is now --work-dir, which keeps vectors too; name a new folder with that")
    if threshold is not None and top is not None:
        raise InputError("--threshold and --top exclude each other; give one of them")
    least = parsed_threshold(threshold)
    is_advised = report or report_json is not None or threshold == AUTO
    if is_advised:
        check_margin(margin.value, neighbours)
        if documents:
            raise InputError("no advice on thresholds within documents; leave out --documents, or the advice")
    if documents and backend is BackendChoice.faiss:
        raise InputError("the search within documents is exact; leave out --documents, or --backend faiss")
    is_streamed = out is None or out == Path("-")
    of_pairs = {"--threshold": threshold, "--top": top, "--format": format, "--out -": out}
    sampling = parsed_sampling(sample, sheet, verdicts, of_pairs if is_streamed else {})
    # Links stay: the files that they lead to are replaced.
    out = None if out is None or is_streamed else Path(os.path.realpath(out))
    report_json = None if report_json is None else Path(os.path.realpath(report_json))
    sides = [bitext.files_of([source, *(src or [])]), bitext.files_of([target, *(trg or [])])]
    inputs = [
        job.Input(
            tuple(files), bitext.language_of(files) if code is None else bitext.checked_language(code, option), option
        )
        for files, option, code in zip(sides, ("--src-lang", "--trg-lang"), (src_lang, trg_lang), strict=True)
    ]
    langs = [side.lang for side in inputs]
    form, written = formats.chosen_format(format, out, langs)
    others = [(name, file) for name, file in (("--report-json", report_json), ("--sheet", sheet)) if file is not None]
    bitext.check_places(sides, [*(("--out", file) for file in written), *others], work_dir, verdicts)
    filtering = Filters(max_length_ratio, max_overlap, same_numbers, same_punctuation, check_languages)
    filters = filtering.open(langs)
    spec = check_spec(encoder)
    searching = job.Searching(neighbours, margin.value, retrieval.value, backend.value)
    storing = job.Storing(vectors.value, cache_dir, has_cache=work_dir is None)
    if engine is EngineChoice.local:
        job.check_backend(searching)
    elif work_dir is None:
        raise InputError("--engine ray needs a folder that all nodes see; give --work-dir DIR")
    elif searching.is_approximate:
        raise InputError("an approximate search is not for --engine ray; leave out --backend faiss, or --engine ray")
    shared = work_dir.absolute() if work_dir and engine is EngineChoice.ray else None
    needs = {"name": "folder", "remedy": "give a --work-dir that all nodes share"}

    with (
        open_work(work_dir) as work,
        opened(engine, address, cpus_per_worker, gpus_per_worker, shared, **needs) as workers,
    ):
        texts = job.read(inputs, Reading(min_length, max_length, dedup, documents), work, say)
        with watch_mining() as progress:
            with failures_in_one_line(str(spec)):
                defaults = {"device": device, "batch_size": batch_size}
                model: Encoder = (
                    Remote(workers, Opening.of(spec, defaults, []), progress.note)
                    if workers
                    else load_encoder(spec, **defaults)
                )
                begun = job.begin(texts, inputs, model, storing, work)
                estimate = None if workers else job.estimated(begun, texts, inputs, model, searching, work)
            if estimate is not None:
                progress.note(f"estimate: {estimate}")
                job.check_estimate(estimate, searching, texts, model.dim, work, is_long_agreed=yes)
                progress.plan(estimate.encoding, estimate.search)
            with failures_in_one_line(str(spec)):
                encoded = job.encode(begun, inputs, model, progress)
            mined = job.search(encoded, texts, searching, work, progress, advice=is_advised, engine=workers)
        if mined.evidence is not None:
            least = advised(
                mined.evidence,
                mined.scores,
                least,
                is_auto=threshold == AUTO,
                report=report,
                report_json=report_json,
                has_filters=bool(filters),
            )
        protocol = f"k:{neighbours}|margin:{margin.value}|retrieval:{retrieval.value}|backend:{progress.results_of}"
        if sampling is not None:  # of the pairs that may be written, which are filtered once
            kept, left_out = job.select(mined, texts, job.Choice(), filters)
            told = "|".join([protocol.rpartition("|")[0], *filtering.protocol])
            sampled(sampling, kept, texts, model, told)
            if not written:
                _say_left_out(left_out)
                return
            chosen, _ = job.select(kept, texts, job.Choice(least, top), [])
        else:
            chosen, left_out = job.select(mined, texts, job.Choice(least, top), filters)
        pairs = formats.Bitext(chosen.rows, chosen.scores, texts, langs)
        if written:
            formats.write_bitext(form, written, pairs)
        else:  # a program reads the sentences as they are; a terminal would do what is in them
            for block in formats.stream_of(form, pairs):
                typer.echo(terminal(block.decode()) if sys.stdout.isatty() else block, nl=False)
    _say_left_out(left_out)
    say(f"{len(mined):,} pairs mined, {len(chosen):,} written ({protocol}{'|documents' if documents else ''})")
    if work_dir is not None:
        say(f"{work_dir} keeps texts, vectors and neighbours for another run on the same files; remove it when done")


def _say_left_out(counts: Mapping[str, int]) -> None:
    """What each filter has left out; nothing without filters."""
    if counts:
        say("left out: " + ", ".join(f"{n:,} by {name}" for name, n in counts.items()))
