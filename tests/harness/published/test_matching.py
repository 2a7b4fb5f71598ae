"""A published figure stands beside a result of the very same model on the very same data, and beside no other."""

from __future__ import annotations

import pytest
from result_records import record, sts

from harness.published import PublishedScore, published_scores
from harness.published.matching import Measurements, same_model


@pytest.mark.parametrize(
    ("spec", "model", "is_same"),
    [
        ("labse", "labse", True),
        ("labse?name=mine&device=cuda&batch_size=8&precision=bf16", "labse", True),
        ("sentence-transformers:sentence-transformers/LaBSE?name=x", "labse", True),
        ("mean-pooling:google-bert/bert-base-multilingual-cased", "mbert-mean", True),
        ("e5-small?prompt=query: ", "e5-small", True),  # what the alias does anyway
        ("sentence-transformers:intfloat/multilingual-e5-small?prompt=query: ", "e5-small", True),
        ("sentence-transformers:a/b", "sentence-transformers:a/b", True),
        ("labse?prompt=x", "labse", False),
        ("labse?max_length=16", "labse", False),
        ("labse?truncate_dim=64", "labse", False),
        ("labse?normalize=true", "labse", False),
        ("e5-small?prompt=passage: ", "e5-small", False),
        ("sentence-transformers:intfloat/multilingual-e5-small", "e5-small", False),  # without the alias's prompt
        ("mean-pooling:sentence-transformers/LaBSE", "labse", False),
        ("sentence-transformers:LaBSE", "labse", False),  # a folder of this name may hold anything
        ("muse", "muse-large", False),
        ("e5-small-q4", "e5-small", False),
        ("gone:x", "labse", False),
        ("?", "labse", False),
        ("", "labse", False),
    ],
)
def test_same_model(spec: str, model: str, is_same: bool) -> None:
    assert same_model(spec, model) is is_same


def figure(source: str, row: str, subset: str, edition: str = "") -> PublishedScore:
    [score] = [
        s for s in published_scores() if (s.source, s.row, s.subset, s.edition) == (source, row, subset, edition)
    ]
    return score


def test_only_the_published_data() -> None:
    labse = figure("mteb", "LaBSE", "en-de", "e34fab6")
    assert Measurements([sts("labse", "en-de@deepl", 1.0)]).of(labse) is None
    altered = {"name": "sts17-extended", "sha256": "0", "files": {}, "published": False}
    assert Measurements([sts("labse", "en-de", 1.0, dataset=altered)]).of(labse) is None
    measured = Measurements([sts("labse", "en-de", 73.9)]).of(labse)
    assert measured is not None and measured.value == 73.9


def test_the_result_under_the_model_s_own_name_counts_first() -> None:
    labse = figure("mteb", "LaBSE", "en-en", "e34fab6")
    results = [
        sts("a", "en-en", 1.0, spec="labse?name=a"),
        sts("labse", "en-en", 2.0),
        sts("b", "en-en", 3.0, spec="b"),
    ]
    measured = Measurements(results).of(labse)
    assert measured is not None and (measured.encoder, measured.value) == ("labse", 2.0)
    renamed = Measurements(results[:1]).of(labse)
    assert renamed is not None and renamed.encoder == "a"


def test_the_cnn_does_not_fill_the_cells_of_the_large_muse() -> None:
    measurements = Measurements([sts("muse", "es-es", 83.9)])
    assert measurements.of(figure("paper", "mUSE", "es-es", "v2")) is None
    assert measurements.of(figure("sts_eval", "universal-sentence-encoder-multilingual-large/3", "es-es")) is None
    assert measurements.of(figure("sts_eval", "universal-sentence-encoder-multilingual/3", "es-es")) is not None


def test_an_average_that_the_task_does_not_give_is_made_of_its_parts() -> None:
    average = figure("paper", "mBERT mean", "avg")
    parts = [
        record("mbert-mean", "bucc", f"{xx}-en", {"f1_train": f1})
        for xx, f1 in (("de", 44.0), ("fr", 47.0), ("ru", 38.0), ("zh", 37.0))
    ]
    measured = Measurements(parts).of(average)
    assert measured is not None and measured.value == 41.5
    assert Measurements(parts[1:]).of(average) is None
    assert (
        Measurements([*parts[1:], record("mbert-mean", "bucc", "de-en", {"f1_train": 1.0}, "other")]).of(average)
        is None
    )
