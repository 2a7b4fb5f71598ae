"""`leaderboard audit-bucc`: F1 with the translations that a reviewer finds among mined pairs that the gold lacks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import say
from harness.cli.options import (
    BatchSizeOption,
    CacheDirOption,
    DataDirOption,
    DeviceOption,
    OneEncoderOption,
    ResultsOption,
    ThreadsOption,
    format_option,
    results_folder,
)
from harness.report.render import TABLE_FORMATS, render

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TOP, _RIVALS = 60, 2


def audit_bucc(
    encoder: OneEncoderOption,
    subset: Annotated[str, typer.Option(metavar="NAME", show_default=False, help="Language pair, as in `run`.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", show_default=False, help="Write the pairs to review to a new file.")
    ] = None,
    read: Annotated[
        Path | None, typer.Option(metavar="FILE", show_default=False, help="Read the verdicts from a reviewed file.")
    ] = None,
    top: Annotated[
        int | None, typer.Option(metavar="N", min=1, show_default=str(_TOP), help="With --out: how many pairs.")
    ] = None,
    rivals: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=4,
            show_default=str(_RIVALS),
            help="With --out: the N best other candidates of either side are shown; 0 needs no vectors.",
        ),
    ] = None,
    data_dir: DataDirOption = None,
    results: ResultsOption = None,
    cache_dir: CacheDirOption = None,
    device: DeviceOption = None,
    batch_size: BatchSizeOption = None,
    threads: ThreadsOption = None,
    format: Annotated[str, format_option("what the verdicts give", (*TABLE_FORMATS, "json"))] = "table",
) -> None:
    """Review mined pairs that BUCC's gold lacks. The best of them are written to a list; read back with a person's
    verdicts, the score counts those that are translations.

    First --out FILE: the pairs, tab-separated, for a spreadsheet or an editor. A reviewer writes yes (a good
    translation), no or unsure into its column verdict. Then --read FILE: precision, recall and F1 on the training split
    against the gold (f1_train), and with the accepted pairs added to it (f1_train_audited).

    The mined pairs are those that `leaderboard run --task bucc --save-rows` has stored below --results; without them
    the pairs are mined again, from cached vectors where there are any.

    Example: leaderboard audit-bucc --encoder muse --subset de-en --out audit.tsv
    """
    from harness.cli.progress import watch
    from harness.core.errors import InputError
    from harness.encoders.cache import VectorCache
    from harness.encoders.registry import check_spec, failures_in_one_line, load_encoder
    from harness.results.store import ResultStore
    from harness.review.audit import as_json, as_table, audit, describe, find_rivals, not_in_gold, origin_of
    from harness.review.sheet import check_new, check_origin, match_verdicts, read_review, write_review
    from harness.running.plan import choose_data, identity_of, make_plan
    from harness.statistics.rows import stored_rows
    from harness.tasks.bucc import aggregate, bucc

    results = results_folder(results)
    if (out is None) == (read is None):
        raise InputError("give either --out FILE, to write the pairs, or --read FILE, to read the verdicts")
    if read is not None and (top is not None or rivals is not None):
        raise InputError("--top and --rivals are for --out; leave them out")
    if out is not None:
        check_new(out)
    review = read_review(read) if read is not None else None
    spec = check_spec(encoder)
    ((source,),) = (planned.sources for planned in make_plan([bucc], choose_data(data_dir), [subset]))
    with watch() as progress:
        with failures_in_one_line(str(spec)):
            model = load_encoder(spec, device=device, batch_size=batch_size)
        origin = origin_of(model, source)
        if review:
            check_origin(review, origin)  # now, rather than after hours of mining
        vectors = VectorCache(cache_dir).of(model)

        def encode(sentences: Sequence[str], lang: str | None, *, side: object = None) -> NDArray[np.float32]:
            with failures_in_one_line(model.name):
                return vectors.encode(sentences, lang, partial(progress.encoding, "bucc", subset)).vectors

        pair = bucc.load(source)
        stored = stored_rows(ResultStore(results), bucc, identity_of(model.name, model.fingerprint, bucc, source))
        if stored is None:
            progress.note(f"{results} has no rows of {model.name} on {subset} (`run --save-rows` keeps them): mining")
        rows = stored[1] if stored else bucc.rows(pair, encode)
        training = {key: column[rows["split"] == "training"] for key, column in rows.items()}
        positions = not_in_gold(training, review.n_pairs if review else top or _TOP)
        if not len(positions):
            raise InputError(f"{subset}: every mined pair is in the gold; there is nothing to review")
        rivals_of_pairs = None
        if n_rivals := 0 if review else _RIVALS if rivals is None else rivals:
            row1, row2 = training["row1"][positions], training["row2"][positions]
            rivals_of_pairs = find_rivals(pair, row1, row2, n_rivals, encode)
    metrics = aggregate(training)
    origin |= {name: f"{metrics[name]:.6f}" for name in ("threshold", "f1_train")} | {"pairs": str(len(positions))}
    candidates = describe(training, positions, pair, source, rivals_of_pairs)
    if review:
        result = audit(training, candidates, match_verdicts(review, origin, candidates))
        if format == "json":
            typer.echo(as_json(result, origin))
        else:
            typer.echo(render(as_table(result, model.name, subset), format, width=120))
    elif out is not None:
        write_review(out, "Mined pairs that are not in the gold.", origin, candidates)
        n_above = sum(bool(candidate.above_threshold) for candidate in candidates)
        say(
            f"{len(candidates)} pairs written to {out}, {n_above} of them above the threshold; fill in the column "
            "verdict (yes, no or unsure), then give the same command with --read in place of --out"
        )
