"""Two records held against each other: what counts as a difference, and of which kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from result_records import record, sts

from harness.core.errors import InputError
from harness.reproduction.findings import Check, Finding, check_records, compare_records, differing, tolerances
from harness.results.records import Dataset, Result
from harness.results.store import ResultStore

OLD = record("muse", "sts17", "en-en", {"spearman": 80.0, "pearson": 79.0})


def kinds(old: Result, new: Result) -> list[tuple[str, str]]:
    return [(f.kind, f.what) for f in compare_records(old, new, tolerances(old, {old.key: old}))]


@pytest.mark.parametrize("spearman", [80.0, 79.95, 80.05, 80.0500009])
def test_within_the_tolerance(spearman: float) -> None:
    later = replace(
        OLD, versions={}, git=None, hardware={}, wall_time_s=9.0, created="", spec="other", peak_memory_mb=1
    )
    assert kinds(OLD, replace(later, metrics={**OLD.metrics, "spearman": spearman})) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"metrics": {"spearman": 79.9, "pearson": 79.0}}, [("score", "spearman")]),
        ({"metrics": {"spearman": 80.1, "pearson": 78.0}}, [("score", "spearman"), ("score", "pearson")]),
        ({"metrics": {"pearson": 79.0}}, [("missing", "spearman")]),
        ({"metrics": {"spearman": 80.0, "kendall": 60.0}}, [("missing", "pearson")]),
        ({"n": 200}, [("n", "n")]),
        ({"n": 251}, [("n", "n")]),
        ({"fingerprint": "muse-2"}, [("encoder", "fingerprint")]),
        ({"signature": OLD.signature + "|k:1"}, [("signature", "signature")]),
        ({"task_version": "2"}, [("signature", "task version")]),
        ({"dataset": replace(OLD.dataset, sha256="f" * 64)}, [("data", "dataset")]),
        ({"dataset": replace(OLD.dataset, files={"a": "f" * 64})}, [("data", "a")]),
    ],
)
def test_each_difference_has_its_kind(change: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert kinds(OLD, replace(OLD, **change)) == expected


def test_a_later_version_of_a_task_may_measure_more() -> None:
    new = replace(OLD, task_version="2", metrics={**OLD.metrics, "kendall": 60.0})
    assert kinds(OLD, new) == [("signature", "task version")]


@pytest.mark.parametrize("spearman", [80.0, 70.0])
def test_a_metric_that_the_stored_record_lacks_is_said_and_is_no_difference(spearman: float) -> None:
    new = replace(OLD, metrics={"spearman": spearman, "pearson": 79.0, "kendall": 60.0})
    (one,) = check_records([OLD], [new])
    assert one.unheld == ("kendall",)
    assert [(f.kind, f.what) for f in one.findings] == [("score", "spearman")] * (spearman != 80.0)


def test_a_record_without_scores_agrees_with_nothing() -> None:
    assert kinds(replace(OLD, metrics={}), OLD) == [("missing", "scores")]


def test_changed_files_are_named() -> None:
    old = replace(OLD, dataset=Dataset("", "1" * 64, {"a": "1" * 64, "b": "2" * 64, "c": "3" * 64}))
    new = replace(OLD, dataset=Dataset("", "2" * 64, {"a": "1" * 64, "b": "4" * 64, "d": "3" * 64}))
    found = compare_records(old, new, tolerances(old, {}))
    assert [(f.what, f.old, f.new) for f in found] == [
        ("b", "2" * 12, "4" * 12),
        ("c", "3" * 12, "not there"),
        ("d", "not there", "3" * 12),
    ]


def test_a_score_finding_has_the_numbers() -> None:
    [found] = compare_records(OLD, replace(OLD, metrics={"spearman": 79.0, "pearson": 79.0}), tolerances(OLD, {}))
    assert (found.old, found.new, found.tolerance) == (80.0, 79.0, 0.05)
    assert found.difference == -1.0
    assert found.message == "spearman 80.0000 -> 79.0000 (-1.0000, tolerance 0.05)"


def test_a_threshold_has_a_tolerance_of_its_own_scale() -> None:
    old = record("muse", "bucc", "de-en", {"f1_train": 90.0, "threshold": 1.05})
    assert kinds(old, replace(old, metrics={"f1_train": 90.04, "threshold": 1.0505})) == []
    assert kinds(old, replace(old, metrics={"f1_train": 90.0, "threshold": 1.06})) == [("score", "threshold")]


def test_a_record_may_say_how_far_it_may_be_off() -> None:
    old = replace(OLD, tolerance={"spearman": 0.5, "reason": "bf16: a vector depends on its batch"})
    assert kinds(old, replace(old, metrics={"spearman": 79.6, "pearson": 79.0})) == []
    assert kinds(old, replace(old, metrics={"spearman": 79.4, "pearson": 79.0})) == [("score", "spearman")]
    assert kinds(old, replace(old, metrics={"spearman": 79.6, "pearson": 78.6})) == [("score", "pearson")]


def test_an_average_may_move_as_far_as_its_parts() -> None:
    wide = {"spearman": 0.35, "reason": "bf16"}
    parts = [sts("e5", "en-en", 80.0, tolerance=wide), sts("e5", "es-es", 80.0), sts("e5", "ar-ar", 80.0)]
    average = sts("e5", "avg-same", 80.0, parts=["en-en", "es-es", "ar-ar"])
    allowed = tolerances(average, {r.key: r for r in [*parts, average]})
    assert allowed == pytest.approx({"spearman": (0.35 + 0.05 + 0.05) / 3, "pearson": 0.05})


@pytest.mark.parametrize(
    "tolerance", [{"spearman": 0.5}, {"spearman": 0.5, "reason": " "}, {"spearman": "much", "reason": "bf16"}]
)
def test_a_tolerance_without_a_reason_or_number_is_refused(tmp_path: Any, tolerance: dict[str, Any]) -> None:
    store = ResultStore(tmp_path)
    store.merge([replace(OLD, tolerance=tolerance)])
    with pytest.raises(InputError, match="tolerance"):
        ResultStore(tmp_path).load()


def test_a_tolerance_stays_when_the_same_is_measured_again(tmp_path: Any) -> None:
    store = ResultStore(tmp_path)
    tolerance = {"spearman": 0.5, "reason": "bf16"}
    store.merge([replace(OLD, tolerance=tolerance)])
    store.merge([replace(OLD, created="2026-01-01T00:00:00+00:00")])
    assert [(r.created, r.tolerance) for r in store.load()] == [("2026-01-01T00:00:00+00:00", tolerance)]
    store.merge([replace(OLD, fingerprint="muse-2")])
    assert [r.tolerance for r in store.load()] == [{}]
    assert "tolerance" not in (tmp_path / "records/muse/sts17.json").read_text()


def statuses(checked: list[Check]) -> dict[str, str]:
    return {one.name: " ".join(f.kind for f in one.findings) or one.skipped or "agrees" for one in checked}


def test_records_that_have_no_counterpart() -> None:
    parts = ["en-en", "es-es", "ar-ar"]
    stored = [*(sts("muse", name, 80.0) for name in parts), sts("muse", "avg-same", 80.0, parts=parts)]
    fresh = [stored[0]]
    assert statuses(check_records(stored, fresh)) == {
        "muse/sts17/en-en": "agrees",
        "muse/sts17/es-es": "missing",
        "muse/sts17/ar-ar": "missing",
        "muse/sts17/avg-same": "missing",
    }
    problem = Finding("failed", "encoder", "it crashed")
    es, ar = ("muse", "sts17", "es-es"), ("muse", "sts17", "ar-ar")
    assert list(statuses(check_records(stored, fresh, {es: problem}, {ar: "no data"})).values()) == [
        "agrees",
        "failed",
        "no data",
        "missing",  # and not skipped: one of its parts has failed
    ]
    assert list(statuses(check_records(stored, fresh, {}, {es: "no data", ar: "no data"})).values()) == [
        "agrees",
        "no data",
        "no data",
        "no data",
    ]


def test_what_differs_of_two_signatures() -> None:
    assert differing("task:bucc|k:4|margin:ratio", "task:bucc|k:1|margin:ratio") == ("k:4", "k:1")
    assert differing("chargrams-1;dim=1024", "chargrams-1;dim=1024;x=1") == ("–", "x=1")
