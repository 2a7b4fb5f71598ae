"""Precision and recall of BUCC against the threshold: what is kept, by plain loops, and what is drawn of it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from result_records import record

from harness import charts
from harness.core.errors import InputError
from harness.results.records import Result
from harness.results.statistics import Entry, Statistics, digest
from harness.tasks import get_task

bucc = get_task("bucc")
needs_extra = pytest.mark.skipif(not charts.is_available(), reason='needs the extra "board"')


def rows(n: int, seed: int = 1) -> dict[str, np.ndarray]:
    """n mined pairs in descending score, the better ones mostly gold, five that were missed, and a test split."""
    dice = np.random.default_rng(seed)
    scores = np.sort(dice.integers(80, 160, n) / 100)[::-1]  # with ties
    gold = dice.random(n) < np.linspace(1, 0.1, n)
    return {
        "split": np.repeat(["training", "test"], [n + 5, 3]),
        "row1": np.arange(n + 8),
        "row2": np.arange(n + 8),
        "score": np.concatenate([scores, np.full(5, np.nan), [2.0, 1.0, 0.5]]),
        "gold": np.concatenate([gold, np.ones(5, bool), np.zeros(3, bool)]),
    }


@pytest.mark.parametrize("n", [1, 2, 7, 300])
def test_what_is_kept_by_loops(n: int) -> None:
    made = rows(n)
    training = [
        (score, is_gold)
        for split, score, is_gold in zip(made["split"], made["score"], made["gold"], strict=True)
        if split == "training"
    ]
    n_gold = sum(is_gold for _, is_gold in training)
    curve = bucc.detail(made)["thresholds"]
    assert len({len(values) for values in curve.values()}) == 1 and 1 <= len(curve["threshold"]) <= 40
    assert curve["threshold"] == sorted(curve["threshold"])
    for threshold, precision, recall in zip(*curve.values(), strict=True):
        # The kept threshold has four decimals, so a pair that lies on it may be on either side.
        for moved in (-5e-5, 0.0, 5e-5):
            taken = [is_gold for score, is_gold in training if score >= threshold + moved]
            expected = 100 * sum(taken) / max(len(taken), 1), 100 * sum(taken) / n_gold
            if (precision, recall) == pytest.approx(expected, abs=0.006):
                break
        else:
            pytest.fail(f"{threshold}: {precision}, {recall}")
    assert curve["recall"][0] == max(curve["recall"])


def test_without_pairs_the_curve_is_empty() -> None:
    nothing = {key: values[:0] for key, values in rows(3).items()}
    assert bucc.detail(nothing) == {"thresholds": {"threshold": [], "precision": [], "recall": []}}
    missed = {key: values[3:8] for key, values in rows(3).items()}
    assert bucc.detail(missed)["thresholds"]["threshold"] == []


def result(encoder: str, subset: str) -> Result:
    return record(encoder, "bucc", subset, {"f1_train": 50.0 + len(encoder), "threshold": 1.2}, "s")


def statistics(results: list[Result], more: object) -> Statistics:
    return Statistics("s", 0.95, {(r.encoder, r.subset): Entry(digest(r), more={"thresholds": more}) for r in results})


@needs_extra
def test_the_picture() -> None:
    results = [result(e, s) for e in ("a", "bb") for s in ("fr-en@ntrex", "de-en@ntrex", "de-en@sample")]
    curve = bucc.detail(rows(300))["thresholds"]
    page = bucc.page(results, statistics(results, curve))
    (picture,) = page.pictures
    assert picture.file == "pictures/bucc-thresholds.svg"
    found = [element.text for element in ET.fromstring(charts.svg(picture.spec())).iter() if element.text]
    panels = [text for text in found if "-en@" in text]
    assert panels == ["bb, de-en@ntrex", "bb, fr-en@ntrex", "a, de-en@ntrex", "a, fr-en@ntrex"]
    assert {"precision", "recall", "F1", "threshold"} <= set(found)


def test_without_what_is_kept_there_is_no_picture_but_the_command_that_mends_it() -> None:
    results = [result(e, s) for e in ("a", "bb") for s in ("de-en@ntrex", "fr-en@ntrex", "de-en@sample")]
    average = replace(result("a", "avg@ntrex"), parts=["de-en@ntrex", "fr-en@ntrex"])
    page = bucc.page([*results, average], Statistics())
    assert page.pictures == ()
    assert page.parts == (
        "no precision and recall by threshold: a on de-en@ntrex, fr-en@ntrex, bb on de-en@ntrex, fr-en@ntrex; "
        "to mend it: `leaderboard run --save-rows --encoder a --encoder bb --task bucc`",
    )
    curve = {"threshold": [1.0, 1.1], "precision": [1.0, 2.0], "recall": [1.0, 2.0]}
    some = bucc.page([*results, average], statistics([r for r in results if r.encoder == "a"], curve))
    assert len(some.pictures) == 1 and "threshold: bb on de-en@ntrex, fr-en@ntrex; to" in some.parts[0]
    assert bucc.page([*results, average], statistics(results, curve)).parts == ()
    assert bucc.page([result("a", "de-en@sample")], Statistics()).parts == ()


@needs_extra
def test_of_many_encoders_the_first_six_are_drawn_and_it_is_said() -> None:
    many = [result("x" * k, "de-en@ntrex") for k in range(1, 10)]
    (picture,) = bucc.page(many, statistics(many, {"threshold": [1.0], "precision": [1.0], "recall": [1.0]})).pictures
    assert picture.says.count("xx") and ", xxx," not in picture.says, "the first six"
    assert "without 3 more encoders" in charts.svg(picture.spec())


@needs_extra
@pytest.mark.parametrize("chosen", [0.0, 1.2, 1e9, -5.0])
@pytest.mark.parametrize("thresholds", [[], [1.2], [1.2, 1.2], [0.0], [1.1, 1.3]])
def test_curves_of_few_points_or_none_are_drawn(thresholds: list[float], chosen: float) -> None:
    first, second = result("a", "de-en@ntrex"), result("bb", "de-en@ntrex")
    first.metrics["threshold"] = chosen
    numbers = [50.0 for _ in thresholds]
    few = statistics([first], {"threshold": thresholds, "precision": numbers, "recall": numbers})
    assert bool(bucc.page([first], few).pictures) is bool(thresholds)
    whole = statistics([second], {"threshold": [1.0, 1.5], "precision": [20.0, 90.0], "recall": [80.0, 30.0]})
    both = Statistics("s", 0.95, {**few.entries, **whole.entries})
    (picture,) = bucc.page([first, second], both).pictures
    root = ET.fromstring(charts.svg(picture.spec()))
    panels = [element.text for element in root.iter() if element.text and element.text.endswith("-en@ntrex")]
    assert panels == ["bb, de-en@ntrex", *(["a, de-en@ntrex"] if thresholds else [])]
    # The line of the threshold, if it lies within the curve.
    drawn = [e for group in root.iter() if "mark-rule role-mark" in group.get("class", "") for e in group]
    is_within = chosen == 1.2 and (1.2 in thresholds or thresholds == [1.1, 1.3])
    assert len(drawn) == 1 + is_within
    points = [e for group in root.iter() if "mark-symbol role-mark" in group.get("class", "") for e in group]
    assert bool(points) == (len(thresholds) == 1)


@pytest.mark.parametrize(
    "more",
    [
        "text",
        {"threshold": ["a"], "precision": [1.0], "recall": [1.0]},
        {"threshold": [1.0, 2.0], "precision": [1.0], "recall": [1.0]},
        {"threshold": [1.0]},
    ],
)
def test_damaged_statistics_are_one_line(more: object) -> None:
    results = [result("a", "de-en@ntrex")]
    with pytest.raises(InputError, match=r"thresholds of a on de-en@ntrex .*delete statistics/bucc\.json"):
        bucc.page(results, statistics(results, more))
