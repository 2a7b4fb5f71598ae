"""The sample of mined pairs that `leaderboard mine` has judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli import echo, say
from harness.core.errors import InputError

if TYPE_CHECKING:
    from harness.encoders.encoder import Encoder
    from harness.mining.job import Mined
    from harness.mining.texts import Sentences
    from harness.review.sheet import ReviewFile


@dataclass(frozen=True)
class Sampling:
    """What is asked for: a new sheet with so many pairs of every band of scores, or what a filled-in one says."""

    per_band: int
    sheet: Path | None = None
    review: ReviewFile | None = None


def parsed_sampling(
    sample: int | None, sheet: Path | None, verdicts: Path | None, of_pairs: Mapping[str, object]
) -> Sampling | None:
    """The sampling of these options; None where there is none.

    of_pairs: values by option of what has no effect where no pairs are written; empty where they are.

    Raises:
        InputError: options that do not go together, a sheet that exists, or one to read that is none.
    """
    from harness.review.sheet import check_new, read_review

    what = "--verdicts" if verdicts is not None else "--sample"
    if what == "--verdicts" or sample is not None:
        for option, value in of_pairs.items():
            if value is not None:
                raise InputError(f"{option} has no effect with {what} alone; leave it out, or give --out FILE")
    if verdicts is not None:
        if sample is not None or sheet is not None:
            raise InputError("--verdicts reads a sheet that --sample has written; leave out --sample and --sheet")
        review = read_review(verdicts)
        return Sampling(review.number("sample", "pairs per band"), review=review)
    if (sample is None) != (sheet is None):
        raise InputError("--sample N and --sheet FILE go together; give both")
    if sample is None or sheet is None:
        return None
    check_new(sheet)
    return Sampling(sample, sheet)


def sampled(sampling: Sampling, mined: Mined, texts: Sequence[Sentences], model: Encoder, protocol: str) -> None:
    """Write the sheet, or print what the verdicts say.

    mined: the pairs that filters leave.

    Raises:
        InputError: nothing was mined; the sheet is of other pairs, or a line of it was changed.
    """
    from harness.report.render import render
    from harness.review.sample import as_table, described, drawn, estimates
    from harness.review.sheet import match_verdicts, write_review

    positions = drawn(mined.scores, sampling.per_band)
    if not len(positions):
        raise InputError("no pairs were mined, or filters left none; there is nothing to judge")
    candidates = described(positions, mined.rows, mined.scores, texts)
    origin = {"encoder": model.name, "fingerprint": model.fingerprint, "protocol": protocol}
    origin |= {"mined": str(len(mined)), "sample": str(sampling.per_band), "pairs": str(len(candidates))}
    if sampling.review is not None:
        found = match_verdicts(sampling.review, origin, candidates)
        echo(render(as_table(estimates(mined.scores, positions, found), found), "table", width=120))
    elif sampling.sheet is not None:
        write_review(sampling.sheet, "Mined pairs, in random order.", origin, candidates)
        say(
            f"{len(candidates):,} pairs written to {sampling.sheet}; fill in the column verdict (yes, no or unsure), "
            "then give the same command with --verdicts in place of --sample and --sheet"
        )
