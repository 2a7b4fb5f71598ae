"""The forecast of a run: what the run then encodes, and nothing that costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from encoders import Counting

from harness.core.errors import EncoderError
from harness.encoders.reduction import Reduction
from harness.encoders.variant import Variant
from harness.protocol import get_task, task_names
from harness.protocol.task import Encode, Rows
from harness.running import asked
from harness.running.dry_run import Forecast, forecast
from harness.running.suite import Request, run_suite


def request(tmp_path: Path, encoder: object, **options: object) -> Request:
    return Request(
        **{
            "encoders": [encoder],
            "suite": "sample",
            "results": tmp_path / "results",
            "cache_dir": tmp_path / "cache",
            **options,
        }  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("few", "uses_lang"),
    [(20_000, True), (0, False)],  # 0: as with large sets, a task is stopped where it looks at a vector
)
def test_what_is_counted_is_what_is_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int, uses_lang: bool
) -> None:
    monkeypatch.setattr(asked, "_FEW", few)
    for task in (name for name in task_names() if get_task(name).published):
        encoder = Counting(f"{task}-v1", uses_lang=uses_lang)
        plan = request(tmp_path, encoder, tasks=[task])
        [counted], failures = forecast(plan)
        assert not encoder.seen and not failures and not (tmp_path / "results/records").exists()
        outcome = run_suite(replace(plan, results=None))
        seen = {(lang if uses_lang else None, text) for lang, text in encoder.seen}
        n_sets = sum(not result.parts for result in outcome.results)
        n_characters = sum(len(text) for _, text in seen)
        assert counted.tokens is None and counted.cost is None and counted.is_exact == (few > 0)
        if counted.is_exact:
            assert counted == Forecast("counting", n_sets, len(seen), n_characters)
            [after], _ = forecast(plan)  # the vectors are there, the results not
            assert after == Forecast("counting", n_sets, 0, 0)
        elif get_task(task).sentences:
            assert counted.n_sets == n_sets and len(seen) <= counted.n_sentences
            assert n_characters <= counted.n_characters


def test_what_is_stored_is_not_counted(tmp_path: Path) -> None:
    encoder = Counting()
    plan = request(tmp_path, encoder, tasks=["sts17"], subsets=["en-de@sample", "ar-ar@sample"])
    run_suite(replace(plan, subsets=["en-de@sample"], cache_dir=tmp_path / "other"))
    [counted], _ = forecast(plan)
    run_suite(replace(plan, subsets=["ar-ar@sample"]))
    seen = set(encoder.batches[-1]) | set(encoder.batches[-2])
    assert (counted.n_sets, counted.n_sentences) == (1, len(seen))
    assert forecast(replace(plan, fresh=True))[0][0].n_sets == 2
    other = Counting("v2")
    [failure] = forecast(replace(plan, encoders=[other]))[1]
    assert "other weights or options" in str(failure.error)


def test_prices_and_what_is_sent(tmp_path: Path) -> None:
    encoder = Counting()
    encoder.price, encoder.sent_text = 0.5, "query: {}".format  # type: ignore[attr-defined]
    [counted], _ = forecast(request(tmp_path, encoder, tasks=["korsts"]))
    [plain], _ = forecast(request(tmp_path, Counting(), tasks=["korsts"]))
    assert counted.n_characters == plain.n_characters + 7 * plain.n_sentences
    assert counted.tokens == counted.n_characters / 4
    assert counted.cost == pytest.approx(counted.n_characters / 4 * 0.5 / 1e6)


@pytest.mark.parametrize("uses_lang", [False, True])
def test_sentences_that_int8_is_calibrated_with_are_counted(tmp_path: Path, uses_lang: bool) -> None:
    encoder = Counting(uses_lang=uses_lang)
    variant = Variant(encoder, Reduction(2, "int8"))
    plan = request(tmp_path, variant, tasks=["sts17"], subsets=["en-de@sample"])
    [counted], _ = forecast(plan)
    assert not encoder.seen
    run_suite(plan)
    assert counted == Forecast(variant.name, 1, len(encoder.seen), sum(len(text) for _, text in encoder.seen))
    assert forecast(plan)[0] == [Forecast(variant.name, 0, 0, 0)]
    [cut], _ = forecast(
        request(tmp_path / "new", Variant(encoder, Reduction(2)), tasks=["sts17"], subsets=["en-de@sample"])
    )
    assert cut.n_sentences < counted.n_sentences / 2


def test_a_task_that_looks_between(tmp_path: Path) -> None:
    task = get_task("sts17")

    def rows(pairs: object, encode: Encode) -> Rows:
        first = encode(pairs.sentences1, "en")  # type: ignore[attr-defined]
        assert first.shape[0] and float(np.linalg.norm(first)) == 0
        return task.rows(pairs, encode)

    looking = replace(task, rows=rows)
    plan = request(tmp_path, Counting(), tasks=[looking], subsets=["en-de@sample"])
    assert forecast(plan)[0] == forecast(replace(plan, tasks=[task]))[0]


class Paid(Counting):
    """Takes so many calls; `chunk_size` sentences come with each."""

    chunk_size = 7
    left = 3

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        if not self.left:
            raise EncoderError("nothing is left")
        self.left -= 1
        return super().encode(sentences, lang=lang)


def test_an_encoder_that_cannot_go_on_loses_no_more_than_a_chunk(tmp_path: Path) -> None:
    encoder = Paid()
    plan = request(tmp_path, encoder, tasks=["sts17"], subsets=["en-de@sample", "ar-ar@sample"])
    outcome = run_suite(plan)
    assert [failure.task for failure in outcome.failures] == ["sts17"]  # of the first set; the others are not tried
    assert [len(batch) for batch in encoder.batches] == [7, 7, 7]
    encoder.left = 10_000
    assert len(run_suite(plan).results) == 2
    assert len(encoder.seen) == len(set(encoder.seen))
