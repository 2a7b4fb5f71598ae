"""From rows to samples: what is resampled is the metric that the task's records have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from samples import language_bias, mining
from scipy.stats import spearmanr

from harness.core.errors import InputError
from harness.resampling.bootstrap import bca_interval, bootstrap
from harness.resampling.metrics import average
from harness.resampling.resamples import Resampling, bootstrap_counts
from harness.statistics.evidence import sample_of
from harness.tasks import get_task

SETS = ("en-en", "es-es", "en-de")


def sts(seed=0, n=60):
    """Rows of one encoder; en-en and en-de come from the same pairs."""
    rng = np.random.default_rng(99)
    shared, other = rng.integers(0, 26, (2, n)) / 5
    rng = np.random.default_rng(seed)
    return {
        name: {"item": np.arange(n), "gold": gold, "cosine": gold / 5 + rng.normal(k / 9, 0.3, n)}
        for k, (name, gold) in enumerate(zip(SETS, (shared, other, shared), strict=True))
    }


def joined(sets):
    rows = {key: np.concatenate([part[key] for part in sets.values()]) for key in ("item", "gold", "cosine")}
    return {"set": np.repeat(list(sets), [len(part["gold"]) for part in sets.values()]), **rows}


def tatoeba(seed=0, n=90):
    rng = np.random.default_rng(seed)
    item = np.arange(n)
    found = [np.where(rng.random(n) < share, item, rng.integers(0, n, n)) for share in (0.7, 0.5)]
    return {"item": item, "found_en_xx": found[0], "found_xx_en": found[1]}


def bucc(seed=0, n=300, gold=120):
    """Sources 0 to gold - 1 have a translation; some sources are mined with the wrong target, some not at all."""
    rng = np.random.default_rng(seed)
    parts = []
    for split in ("training", "test"):
        target = np.where(rng.random(n) < 0.85, np.arange(n), n + np.arange(n))
        is_gold = (np.arange(n) < gold) & (target == np.arange(n))
        score = np.where(is_gold, rng.normal(1.4, 0.15, n), rng.normal(1.1, 0.15, n))
        order = np.argsort(-score, kind="stable")
        missed = np.flatnonzero((np.arange(n) < gold) & ~is_gold)
        parts.append(
            {
                "split": np.full(n + len(missed), split),
                "row1": np.concatenate([order, missed]),
                "row2": np.concatenate([target[order], missed]),
                "score": np.concatenate([score[order], np.full(len(missed), np.nan)]),
                "gold": np.concatenate([is_gold[order], np.ones(len(missed), bool)]),
            }
        )
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


ROWS = {
    "sts17": lambda seed: sts(seed)["en-de"],
    "korsts": lambda seed: sts(seed)["en-de"],
    "language-bias": lambda seed: joined(sts(seed)),
    "tatoeba": tatoeba,
    "bucc": bucc,
}


@pytest.mark.parametrize(
    ("task", "metric"),
    [(name, metric) for name in ROWS for metric in get_task(name).metric_names if metric != "threshold"],
)
def test_the_value_is_the_one_that_the_task_aggregates(task, metric):
    rows = [ROWS[task](seed) for seed in (1, 3)]
    found = sample_of(get_task(task), metric, rows).values
    assert found == pytest.approx([get_task(task).aggregate(own)[metric] for own in rows], abs=1e-9)
    assert found[0] != found[1]


def test_language_bias_of_resamples_is_that_of_the_repeated_pairs():
    rows = joined(sts())
    sample = language_bias([rows])
    assert sample.units.sizes == (60, 60) and sample.units.of_row[:60].tolist() == sample.units.of_row[120:].tolist()
    counts = next(bootstrap_counts(sample.units, Resampling(resamples=3)))
    for value, times in zip(sample.statistic(counts)[0], counts.T.astype(int), strict=True):
        drawn = {key: np.repeat(column, times) for key, column in rows.items()}
        separate = [
            spearmanr(drawn["gold"][drawn["set"] == s], drawn["cosine"][drawn["set"] == s]).statistic for s in SETS
        ]
        assert value == pytest.approx(100 * (spearmanr(drawn["gold"], drawn["cosine"]).statistic - np.mean(separate)))


def test_language_bias_does_not_depend_on_the_order_of_the_rows():
    rows = joined(sts())
    mixed = np.random.default_rng(1).permutation(len(rows["set"]))
    shuffled = language_bias([{key: column[mixed] for key, column in rows.items()}])
    assert shuffled.values == pytest.approx(language_bias([rows]).values)


def test_an_average_is_over_sets_and_its_shared_pairs_are_clusters():
    task, rows = get_task("sts17"), [sts(1), sts(2)]
    parts = [sample_of(task, "spearman", [own[name] for own in rows]) for name in SETS]
    sample = average(parts)
    assert sample.units.sizes == (60, 60)
    assert sample.values == pytest.approx(np.mean([part.values for part in parts], axis=0))
    expected = language_bias([joined(own) for own in rows], "expected")
    plan = Resampling(resamples=200)
    np.testing.assert_allclose(bootstrap(sample, plan).draws, bootstrap(expected, plan).draws)


def test_another_tasks_aggregate_is_called_for_every_resample():
    ours = get_task("tatoeba")
    aggregate = lambda rows: {"accuracy_xx_en": 100 * np.mean(rows["found_xx_en"] == rows["item"])}  # noqa: E731
    other = replace(ours, aggregate=aggregate, resample=None)
    plan, rows = Resampling(resamples=100), [tatoeba(1), tatoeba(2)]
    fast, slow = (bootstrap(sample_of(task, "accuracy_xx_en", rows), plan) for task in (ours, other))
    np.testing.assert_allclose(fast.draws, slow.draws)
    np.testing.assert_allclose(fast.jackknife, slow.jackknife)


def test_a_kept_threshold_gives_the_spread_of_one_that_is_tuned_anew():
    """First-order theory (see `f1`), checked: the tuned F1 of the repeated rows, by the task's own aggregate."""
    task, rows = get_task("bucc"), bucc(3, n=1500, gold=600)
    training = {key: column[rows["split"] == "training"] for key, column in rows.items()}
    kept = bootstrap(mining([training]), Resampling(resamples=2000)).draws[0]
    rng = np.random.default_rng(1)
    anew = []
    for _ in range(400):
        sources = rng.multinomial(1500, np.full(1500, 1 / 1500))
        drawn = {key: np.repeat(column, sources[training["row1"]]) for key, column in training.items()}
        anew.append(task.aggregate(drawn)["f1_train"])
    assert np.std(anew) == pytest.approx(kept.std(), rel=0.15)
    assert np.mean(anew) > kept.mean()  # the optimism that tuning anew adds


def test_what_no_encoder_extracts_changes_nothing():
    rows = bucc(1)
    threshold = get_task("bucc").aggregate(rows)["threshold"]
    low = (rows["score"] < threshold - 0.2) & ~rows["gold"]
    assert low.any()
    without = {key: column[~low] for key, column in rows.items()}
    plan = Resampling(resamples=50)
    for metric in ("f1_train", "f1_test"):
        full, cut = (bootstrap(mining([own], metric), plan) for own in (rows, without))
        np.testing.assert_array_equal(full.draws, cut.draws)


@pytest.mark.parametrize(
    ("task", "metric", "change", "message"),
    [
        ("sts17", "spearman", lambda rows: rows | {"gold": rows["gold"] + 1}, "not of the same pairs"),
        ("sts17", "spearman", lambda rows: {k: v[:-1] for k, v in rows.items()}, "not of the same pairs"),
        ("sts17", "spearman", lambda rows: rows | {"cosine": rows["cosine"] * np.nan}, "NaN or infinity"),
        ("language-bias", "difference", lambda rows: rows | {"gold": rows["gold"][::-1]}, "not of the same pairs"),
        ("tatoeba", "accuracy_en_xx", lambda rows: {k: v[:-1] for k, v in rows.items()}, "not of the same sentences"),
        ("bucc", "f1_train", lambda rows: rows | {"gold": ~rows["gold"]}, "not of the same gold pairs"),
        ("bucc", "threshold", lambda rows: rows, "a threshold is no score"),
        ("bucc", "f1", lambda rows: rows, "bucc has no metric 'f1'; it has f1_train"),
    ],
)
def test_rows_that_cannot_be_compared_are_one_line(task, metric, change, message):
    rows = ROWS[task](1)
    with pytest.raises(InputError, match=message) as error:
        sample_of(get_task(task), metric, [rows, change(rows)])
    assert "\n" not in str(error.value)


def test_bucc_without_a_test_split_has_no_test_score():
    rows = bucc(1)
    training = {key: column[rows["split"] == "training"] for key, column in rows.items()}
    with pytest.raises(InputError, match="no pairs to resample for f1_test"):
        mining([training], "f1_test")
    assert bca_interval(bootstrap(mining([training], "f1_heldout"), Resampling(resamples=50)))[0].value > 0
