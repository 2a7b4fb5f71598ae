"""Sentences on columns: never more than the tests say."""

from __future__ import annotations

from dataclasses import replace
from math import nan

from boards import full_records, shown, statistics_of
from result_records import record, sts

from harness.board.verdicts import best_of, verdict
from harness.results.records import Result
from harness.results.statistics import Entry, Statistics, digest
from harness.statistics.board import Board
from harness.statistics.candidates import facts_of

STS = ("sts17", "avg-same", "spearman")
BIAS = ("language-bias", "ten@deepl", "difference")


def said(results: list[Result], statistics: dict[str, Statistics], key: tuple[str, str, str] = STS) -> str:
    found = verdict(Board(results, statistics), key, facts_of(results, shown().measured))
    assert found is None or found.name in {result.encoder for result in results}
    return str(found or "")


def best(results: list[Result], statistics: dict[str, Statistics]) -> list[str]:
    return best_of(Board(results, statistics), STS)


def test_a_tie_is_said() -> None:
    results = full_records()
    assert said(results, statistics_of(results)) == (
        "highest: good (81.0); cannot be told from it: fast (faster); worse: poor (p < 0.05)"
    )
    assert best(results, statistics_of(results)) == ["good", "fast"]


def test_the_best_of_all() -> None:
    results = full_records({"fast": 70.0, "poor": 40.0})
    assert said(results, statistics_of(results)) == "best of 2: fast (71.0), better than poor (p < 0.05)"


def test_untested_is_no_best() -> None:
    results = full_records()
    assert said(results, {}) == "highest: good (81.0); not tested, so none can be called the best"
    assert best(results, {}) == []


def test_some_untested() -> None:
    results = [*full_records(), sts("apart", "avg-same", 10.0)]
    assert said(results, statistics_of(results)).endswith("; not tested: apart")
    assert best(results, statistics_of(results)) == []


def test_too_few_items_are_no_test() -> None:
    results = full_records()
    statistics = statistics_of(results)
    key = ("fast", "avg-same")
    entry = statistics["sts17"].entries[key]
    statistics["sts17"].entries[key] = replace(entry, p={**entry.p, "spearman": {"good": nan, "poor": 0.0001}})
    assert said(results, statistics).endswith("; not tested: fast")
    assert best(results, statistics) == []


def test_equal_values() -> None:
    results = full_records({"good": 80.0, "fast": 80.0, "poor": 40.0})
    found = said(results, statistics_of(results))
    # The leader of equal ones is the first by name.
    assert found == "highest: fast (81.0); with the same value: good; worse: poor (p < 0.05)"
    assert best(results, statistics_of(results)) == ["fast", "good"]


def test_a_name_that_stands_in_the_words_before_it() -> None:
    results = [sts("h", "avg-same", 80.0), sts("e", "avg-same", 70.0)]
    found = verdict(Board(results, {}), STS, facts_of(results, ()))
    assert found and found[:2] == ("highest: ", "h")


def test_one_encoder_alone() -> None:
    results = full_records({"good": 80.0})
    assert said(results, statistics_of(results)).startswith("only good (81.0) was measured on this")


def test_a_difference_is_held_against_zero() -> None:
    values = {"a": -0.1, "b": -3.0, "c": 1.0}
    p = {"a": 0.9, "b": 0.001}
    results = [record(name, "language-bias", "ten@deepl", {"difference": value}, "b") for name, value in values.items()]
    entries = {
        (r.encoder, r.subset): Entry(digest(r), p_zero={"difference": p[r.encoder]}) for r in results if r.encoder in p
    }
    assert said(results, {"language-bias": Statistics("s", 0.95, entries)}, BIAS) == (
        "nearest to zero: a (-0.10); cannot be told from zero: a (-0.10); not zero: b (-3.00) (p < 0.05); "
        "not tested: c (+1.00)"
    )


def test_nothing_is_said_of_what_ranks_nobody() -> None:
    results = [record(name, "bucc", "de-en", {"threshold": 1.05}, "t") for name in ("a", "b")]
    assert said(results, {}, ("bucc", "de-en", "threshold")) == ""
    assert said(results, {}, ("bucc", "fr-en", "f1_train")) == ""


def test_cut_vectors_are_in_no_sentence() -> None:
    results = full_records()
    small = replace(sts("good@128", "avg-same", 99.0), base="good")
    assert said([*results, small], statistics_of(results)) == said(results, statistics_of(results))
