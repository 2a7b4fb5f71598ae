"""`leaderboard audit-bucc`: F1 with the translations that a reviewer finds among mined pairs that the gold lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import say
from harness.cli.options import (
    BatchSizeOption,
    CacheDirOption,
    DataDirOption,
    DeviceOption,
    OneEncoderOption,
    ResultsOption,
    results_folder,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from harness.cli.progress import Watcher
    from harness.data import Source
    from harness.encoder import Encoder
    from harness.tasks.bucc_audit import Audit
    from harness.tasks.task import Encode

_TOP, _RIVALS = 60, 2


class Format(str, Enum):
    """How to print what the verdicts give."""

    table = "table"
    json = "json"


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
    format: Annotated[Format, typer.Option(help="How to print what the verdicts give.")] = Format.table,
) -> None:
    """Have the best mined pairs that are not in BUCC's gold reviewed, and score again with those that are translations.

    First --out FILE: the pairs, tab-separated, for a spreadsheet or an editor. A reviewer writes yes (a good
    translation), no or unsure into its column verdict. Then --read FILE: precision, recall and F1 on the training split
    against the gold (f1_train), and with the accepted pairs added to it (f1_train_audited).

    The mined pairs are those that `leaderboard run --task bucc --save-rows` has stored below --results; without them
    the pairs are mined again, from cached vectors where there are any.
    """
    from harness.cli.progress import watch
    from harness.errors import InputError
    from harness.registry import check_spec, failures_in_one_line, load_encoder
    from harness.results import ResultStore
    from harness.rows import stored_rows
    from harness.runner import identity_of
    from harness.tasks.bucc import Protocol, aggregate, bucc
    from harness.tasks.bucc_audit import audit, describe, find_rivals, not_in_gold
    from harness.tasks.bucc_review import check_new, check_origin, match_verdicts, read_review, write_review

    results = results_folder(results)
    if (out is None) == (read is None):
        raise InputError("give either --out FILE, to write the pairs, or --read FILE, to read the verdicts")
    if read is not None and (top is not None or rivals is not None):
        raise InputError("--top and --rivals are for --out; leave them out")
    if out is not None:
        check_new(out)
    review = read_review(read) if read is not None else None
    spec = check_spec(encoder)
    source = _source(subset, data_dir)
    with watch() as progress:
        with failures_in_one_line(str(spec)):
            model = load_encoder(spec, device=device, batch_size=batch_size)
        origin = _origin(model, source)
        if review:
            check_origin(review, origin)  # now, rather than after hours of mining
        pair = bucc.load(source)
        encode = _encode(model, subset, cache_dir, progress)
        stored = stored_rows(ResultStore(results), bucc, identity_of(model.name, model.fingerprint, bucc, source))
        if stored is None:
            progress.note(f"{results} has no rows of {model.name} on {subset} (`run --save-rows` keeps them): mining")
        rows = stored[1] if stored else bucc.rows(pair, encode)
        training = {key: column[rows["split"] == "training"] for key, column in rows.items()}
        positions = not_in_gold(training, review.n_pairs if review else top or _TOP)
        if not len(positions):
            raise InputError(f"{subset}: every mined pair is in the gold; there is nothing to review")
        found = None
        if n_rivals := 0 if review else _RIVALS if rivals is None else rivals:
            row1, row2 = training["row1"][positions], training["row2"][positions]
            found = find_rivals(Protocol(), pair, row1, row2, n_rivals, encode)
    metrics = aggregate(training)
    origin |= {name: f"{metrics[name]:.6f}" for name in ("threshold", "f1_train")} | {"pairs": str(len(positions))}
    candidates = describe(training, positions, pair, source, found)
    if review:
        result = audit(training, candidates, match_verdicts(review, origin, candidates))
        typer.echo(_as_json(result, origin) if format is Format.json else _as_table(result, model.name, subset))
    elif out is not None:
        write_review(out, origin, candidates)
        n_above = sum(one.above_threshold for one in candidates)
        say(
            f"{len(candidates)} pairs written to {out}, {n_above} of them above the threshold; fill in the column "
            "verdict (yes, no or unsure), then give the same command with --read in place of --out"
        )


def _source(subset: str, data_dir: Path | None) -> Source:
    from harness.evaluation import choose_data
    from harness.runner import make_plan
    from harness.tasks.bucc import bucc

    (planned,) = make_plan([bucc], choose_data(data_dir), [subset])
    (source,) = planned.sources
    return source


def _origin(model: Encoder, source: Source) -> dict[str, str]:
    """What a review belongs to: equal values promise the same mined pairs."""
    from harness.tasks.bucc import bucc

    return {
        "subset": source.subset,
        "encoder": model.name,
        "fingerprint": model.fingerprint,
        "data": source.sha256,
        "protocol": bucc.full_signature,
    }


def _encode(model: Encoder, subset: str, cache_dir: Path | None, progress: Watcher) -> Encode:
    """The vectors of sentences, from the cache where they are there."""
    from harness.cache import VectorCache
    from harness.registry import failures_in_one_line

    vectors = VectorCache(cache_dir).of(model)

    def encode(sentences: Sequence[str], lang: str | None) -> NDArray[np.float32]:
        with failures_in_one_line(model.name):
            return vectors.encode(sentences, lang, partial(progress.encoding, "bucc", subset)).vectors

    return encode


def _as_table(result: Audit, encoder: str, subset: str) -> str:
    from harness.report.cells import Cell, Column, Row, Table
    from harness.report.render import render

    heads = ("metric", "F1", "precision", "recall", "threshold", "correct", "extracted", "gold")
    readings = {
        "f1_train": result.train,
        "f1_train_audited": result.audited,
        "f1_train_audited_kept": result.audited_kept,
    }
    rows = []
    for name, r in readings.items():
        scores = [Cell(value, "score") for value in (r.f1, r.precision, r.recall)]
        counts = [Cell(n, "count") for n in (r.n_correct, r.n_extracted, r.n_gold)]
        rows.append(Row((Cell(name), *scores, Cell(r.threshold, "threshold"), *counts)))
    notes = [
        "f1_train: against the gold of the data, as published figures are",
        "f1_train_audited: accepted pairs added to the gold, threshold tuned on it; kept: at the threshold of f1_train",
        f"{result.n_reviewed} of {result.n_listed} listed pairs reviewed: {result.n_accepted} accepted, "
        f"{result.n_rejected} rejected, {result.n_unsure} unsure",
        f"good translations among them (unsure is not): {result.good:.1f} %, 95 % interval {result.good_low:.1f} to "
        f"{result.good_high:.1f} (Wilson)",
        f"of {result.n_unconfirmed} extracted pairs that are not in the gold, {result.n_unconfirmed_reviewed} were "
        "reviewed; the others count as wrong",
    ]
    if n := result.n_sharing:
        notes.append(
            f"{n} accepted pair{'s have' if n > 1 else ' has'} a sentence that the gold pairs with another: of the "
            "two, one at most is extracted, and the other counts as missed"
        )
    columns = tuple(Column(head, is_number=head != "metric") for head in heads)
    table = Table(f"BUCC audit of {encoder} on {subset}, scores x 100", columns, tuple(rows), tuple(notes))
    return render(table, width=120)


def _as_json(result: Audit, origin: dict[str, str]) -> str:
    """The metrics under the names of the table; `review` has `harness.tasks.bucc_audit.Audit`'s counts and share."""
    from harness.escaping import json_text

    values: dict[str, Any] = asdict(result)
    metrics: dict[str, float] = {}
    for reading, suffix in (("train", ""), ("audited", "_audited"), ("audited_kept", "_audited_kept")):
        figures = values.pop(reading)
        metrics |= {f"{m}_train{suffix}": round(figures[m], 6) for m in ("f1", "precision", "recall")}
        metrics |= {f"{m}{suffix}": figures[m] for m in ("n_correct", "n_extracted", "n_gold")}
        metrics[f"threshold{suffix}"] = round(figures["threshold"], 6)
    review = {key: round(value, 6) for key, value in values.items()}
    names = {key: origin[key] for key in ("subset", "encoder", "fingerprint", "protocol")}
    return json_text(
        {**names, "dataset_sha256": origin["data"], "metrics": metrics, "review": review},
        indent=2,
        sort_keys=True,
    )
