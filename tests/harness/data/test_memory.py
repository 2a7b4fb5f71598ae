"""Data sets in memory."""

from __future__ import annotations

from typing import Any

import pytest

from harness.core.errors import InputError
from harness.data.memory import memory_sets

BEIR = {
    "corpus": {"d1": {"title": "T", "text": "one"}, "d2": "two"},
    "queries": {"q1": "first", "q2": "second"},
    "qrels": {"q1": {"d1": 2, "d2": 0}},
}


def test_three_kinds() -> None:
    pairs, scored, retrieval = memory_sets(
        {"faq": [("eins", "bir"), ["zwei", "iki"]], "near": [("a", "b", 1), ("a", "c", 0.5)], "kb": BEIR}, ("de", "tr")
    )
    assert [(each.subset, each.kind) for each in (pairs, scored, retrieval)] == [
        ("faq", "pairs"), ("near", "scored"), ("kb", "retrieval")
    ]  # fmt: skip
    assert pairs.content.targets == ["bir", "iki"] and pairs.languages == ("de", "tr")
    assert scored.content.gold.tolist() == [1, 0.5] and scored.content.lang2 == "tr"
    assert retrieval.content.documents == ["T one", "two"] and retrieval.content.answers == [{0: 2}]
    assert retrieval.content.n_left_out == 1


def test_a_set_without_a_name_and_answers_without_grades() -> None:
    (alone,) = memory_sets({**BEIR, "qrels": {"q2": ["d2"]}})
    assert alone.subset == "data" and alone.content.answers == [{1: 1}] and alone.content.queries == ["second"]
    (pairs,) = memory_sets([("eins", "bir")])
    assert pairs.kind == "pairs"


def test_the_checksum_is_that_of_the_content() -> None:
    (one,), (same,), (other,) = (memory_sets([("a", text)]) for text in ("b", "b", "c"))
    assert one.sha256 == same.sha256 != other.sha256


def test_the_checksum_does_not_depend_on_the_order_of_a_set() -> None:
    """Sets of texts have another order in every process, and InformationRetrievalEvaluator takes its answers so."""
    found = []
    for answers in (["d1", "d2"], ["d2", "d1"], {"d1": 1, "d2": 1}):
        (kb,) = memory_sets({**BEIR, "qrels": {"q1": answers}})
        found.append(kb.sha256)
    assert len(set(found)) == 1


def test_a_document_with_the_query_s_own_id() -> None:
    same = {"corpus": {"1": "one", "2": "two"}, "queries": {"1": "first"}, "qrels": {"1": ["1"]}}
    with pytest.raises(InputError, match=r"'kb'.*document '1' answers the query with the same id"):
        memory_sets({"kb": same})
    (kept,) = memory_sets({**same, "keep_own_id": True})
    assert kept.content.own == [-1] and kept.content.answers == [{0: 1}] and kept.protocol == "own-id:kept"
    (dropped,) = memory_sets({**same, "qrels": {"1": ["2"]}})
    assert dropped.content.own == [0] and dropped.protocol == "own-id:dropped"


def test_encoders_are_not_told_a_language_that_nobody_knows() -> None:
    (pairs,), (told,) = memory_sets([("a", "b")]), memory_sets([("a", "b")], ("deu", "tr"))
    assert pairs.content.languages == (None, None) and told.content.languages == ("de", "tr")


@pytest.mark.parametrize(
    "data",
    [
        {}, [], [("a",)], [("a", "b"), ("a", "b", 1)], [("a", "b", 1)], [("a", "b", float("nan")), ("a", "c", 1)],
        [("a", 1)], 7, "text", {"x": 7}, {"a@b": [("a", "b")]}, {"../x": [("a", "b")]}, [("a", "b", "good")] * 2,
        {**BEIR, "qrels": {"q9": {"d1": 1}}}, {**BEIR, "qrels": {"q1": {"d1": 0}}}, {**BEIR, "corpus": {"d1": None}},
        {**BEIR, "qrels": {"q1": {"d1": 0.5}}}, {**BEIR, "corpus": {"d1": {"title": "T"}}},
        # What has two items, but is no pair: two letters, the names of two columns.
        ["ab", "cd"], [{"source": "a", "target": "b"}],
    ],
)  # fmt: skip
def test_what_is_no_data_is_one_line(data: Any) -> None:
    with pytest.raises(InputError) as caught:
        memory_sets(data)
    assert "\n" not in str(caught.value)


def test_languages_are_checked() -> None:
    for languages in (("de",), ("de", "xx")):
        with pytest.raises(InputError):
            memory_sets([("a", "b")], languages)
