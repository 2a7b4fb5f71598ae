"""A published figure stands beside a result of the very same model on the very same data, and beside no other."""

from __future__ import annotations

import pytest
from result_records import record, sts

from harness.published import Measurements, PublishedScore, published_scores, same_model
from harness.results.records import Dataset


@pytest.mark.parametrize(
    ("spec", "model", "is_same"),
    [
        ("labse", "labse", True),
        ("labse?name=mine&device=cuda&batch_size=8", "labse", True),
        ("labse?precision=fp32", "labse", True),
        ("labse?precision=bf16", "labse", False),
        ("labse?precision=fp16", "labse", False),
        ("sentence-transformers:sentence-transformers/LaBSE?name=x", "labse", True),
        ("mean-pooling:google-bert/bert-base-multilingual-cased", "mbert-mean", True),
        ("e5-small?prompt=query: ", "e5-small", True),  # what the alias does anyway
        ("sentence-transformers:intfloat/multilingual-e5-small?prompt=query: ", "e5-small", True),
        ("sentence-transformers:a/b", "sentence-transformers:a/b", True),
        ("mean-pooling:google-bert/bert-base-multilingual-cased?pooling=mean&prompt=", "mbert-mean", True),
        ("mbert-mean?trust_remote_code=false&normalize=False", "mbert-mean", True),
        ("mbert-mean?pooling=cls", "mbert-mean", False),
        ("mbert-mean?normalize=true", "mbert-mean", False),
        ("tfhub:google/universal-sentence-encoder-multilingual/3", "muse-tfhub", True),
        (
            "tfhub:https://tfhub.dev/google/universal-sentence-encoder-multilingual/3/?max_chars=2000",
            "muse-tfhub",
            True,
        ),
        ("tfhub:google/universal-sentence-encoder-multilingual/3?max_chars=100", "muse-tfhub", False),
        ("tfhub:google/universal-sentence-encoder-multilingual/3", "muse-large", False),
        ("tfhub:google/LaBSE/2", "labse-tfhub", False),  # without its preprocessor
        (
            "tfhub:google/LaBSE/2?output=default&normalize=true"
            "&preprocessor=google/universal-sentence-encoder-cmlm/multilingual-preprocess/2",
            "labse-tfhub",
            True,
        ),
        ("labse-tfhub?normalize=false", "labse-tfhub", False),
        ("labse-tfhub", "labse", False),
        ("labse?prompt=", "labse", False),  # the model may have a prompt of its own
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


def test_an_old_hub_id_is_that_of_the_hub_and_no_folder_s() -> None:
    for old, new, model in (
        ("xlm-roberta-base", "FacebookAI/xlm-roberta-base", "xlmr-mean"),
        ("bert-base-multilingual-cased", "google-bert/bert-base-multilingual-cased", "mbert-mean"),
    ):
        assert same_model(f"mean-pooling:{new}", model)
        assert same_model(f"mean-pooling:{old}", model, f"mean-pooling/{old}@0123abc|pooling:mean")
        assert not same_model(f"mean-pooling:{old}?pooling=cls", model, f"mean-pooling/{old}@0123abc|pooling:cls")
        assert not same_model(f"mean-pooling:{old}", model, "mean-pooling/sha256:0123456789abcdef|pooling:mean")
    hub = sts("x", "en-en", 50.0, spec="mean-pooling:xlm-roberta-base", fingerprint="mean-pooling/xlm-roberta-base@0")
    assert Measurements([hub]).measured(figure("SBERT page", "XLM-R mean", "en-en")) is not None


def figure(source: str, row: str, subset: str, edition: str = "") -> PublishedScore:
    [score] = [
        s for s in published_scores() if (s.source, s.row, s.subset, s.edition) == (source, row, subset, edition)
    ]
    return score


def test_only_the_published_data() -> None:
    labse = figure("mteb", "LaBSE", "en-de", "e34fab6")
    assert Measurements([sts("labse", "en-de@deepl", 1.0)]).measured(labse) is None
    altered = Dataset("sts17-extended", "0", {}, False)
    assert Measurements([sts("labse", "en-de", 1.0, dataset=altered)]).measured(labse) is None
    measured = Measurements([sts("labse", "en-de", 73.9)]).measured(labse)
    assert measured is not None and measured.value == 73.9


def test_the_result_under_the_model_s_own_name_counts_first() -> None:
    labse = figure("mteb", "LaBSE", "en-en", "e34fab6")
    results = [
        sts("a", "en-en", 1.0, spec="labse?name=a"),
        sts("labse", "en-en", 2.0),
        sts("b", "en-en", 3.0, spec="b"),
    ]
    measured = Measurements(results).measured(labse)
    assert measured is not None and (measured.encoder, measured.value) == ("labse", 2.0)
    renamed = Measurements(results[:1]).measured(labse)
    assert renamed is not None and renamed.encoder == "a"


def test_the_cnn_does_not_fill_the_cells_of_the_large_muse() -> None:
    measurements = Measurements([sts("muse", "es-es", 83.9)])
    assert measurements.measured(figure("paper", "mUSE", "es-es", "v2")) is None
    assert measurements.measured(figure("sts_eval", "universal-sentence-encoder-multilingual-large/3", "es-es")) is None
    assert measurements.measured(figure("sts_eval", "universal-sentence-encoder-multilingual/3", "es-es")) is None


def test_of_each_model_a_figure_s_models() -> None:
    results = [sts("labse-tfhub", "en-en", 79.5), sts("labse", "en-en", 79.4)]
    first, second = Measurements(results).of_each_model(figure("paper", "LaBSE", "en-en", "v2"))
    assert (first.encoder, first.note) == ("labse", "")
    assert (second.encoder, second.note) == ("labse-tfhub", "the release of LaBSE's own authors")
    alone = Measurements(results[:1]).measured(figure("paper", "LaBSE", "en-en", "v2"))
    assert alone is not None and alone.encoder == "labse-tfhub"


def test_an_average_that_the_task_does_not_give_is_made_of_its_parts() -> None:
    average = figure("paper", "mBERT mean", "avg")
    parts = [
        record("mbert-mean", "bucc", f"{xx}-en", {"f1_train": f1})
        for xx, f1 in (("de", 44.0), ("fr", 47.0), ("ru", 38.0), ("zh", 37.0))
    ]
    measured = Measurements(parts).measured(average)
    assert measured is not None and measured.value == 41.5
    assert Measurements(parts[1:]).measured(average) is None
    assert (
        Measurements([*parts[1:], record("mbert-mean", "bucc", "de-en", {"f1_train": 1.0}, "other")]).measured(average)
        is None
    )
