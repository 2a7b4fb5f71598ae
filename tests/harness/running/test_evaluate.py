"""The Python API: another library's model, data in memory, results as tables and rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoders import Letters

from harness import TwoSided, evaluate
from harness.core.errors import InputError
from harness.encoders.adopted import AdoptedEncoder

PAIRS = [(f"das haus {i}", f"the house {i}") for i in range(30)]
BEIR = {
    "corpus": {f"d{i}": target for i, (_, target) in enumerate(PAIRS)},
    "queries": {f"q{i}": source for i, (source, _) in enumerate(PAIRS[:20])},
    "qrels": {f"q{i}": {f"d{i}": 1} for i in range(20)},
}


class Model:
    """Another library's model: `encode` and nothing else."""

    def __init__(self) -> None:
        self._letters = Letters()

    def encode(self, sentences: list[str]) -> np.ndarray:
        return self._letters.encode(sentences)


def test_a_model_of_another_library_on_data_in_memory(tmp_path: Path) -> None:
    data = {"faq": PAIRS, "shop": PAIRS[:20], "near": [(a, b, i) for i, (a, b) in enumerate(PAIRS)], "kb": BEIR}
    results = evaluate(Model(), data=data, languages=("de", "en"), cache_dir=tmp_path)
    found = {(r.task, r.subset): r for r in results}
    assert found.keys() == {
        ("pairs", "faq"), ("pairs", "shop"), ("pairs", "avg"), ("scored", "near"), ("retrieval", "kb")
    }  # fmt: skip
    same = evaluate(Letters(), data=data, languages=("de", "en"), cache_dir=tmp_path)
    assert [r.metrics for r in same] == [r.metrics for r in results]
    assert {r.encoder for r in results} == {"Model"} and found["pairs", "faq"].n == 30


def test_results_are_a_table_and_rows(tmp_path: Path) -> None:
    results = evaluate(Letters(), data=PAIRS, results=tmp_path / "r", cache_dir=tmp_path / "c")
    assert isinstance(results, list) and len(results) == 1
    assert "| letters" in results._repr_markdown_() and "Own pairs" in str(results)
    (row,) = [row for row in results.rows() if row["metric"] == "accuracy_src_trg"]
    assert row["value"] == results[0].metrics["accuracy_src_trg"] and row["low"] <= row["value"] <= row["high"]
    assert str(evaluate(Letters(), data=PAIRS[:5], cache_dir=tmp_path / "c")).count("\n") > 3  # without statistics


def test_a_set_of_other_content_under_a_stored_name_is_refused(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"results": tmp_path / "r", "cache_dir": tmp_path / "c"}
    evaluate(Letters(), data={"faq": PAIRS}, **arguments)
    with pytest.raises(InputError, match=r"'faq' \(pairs\) are of other files"):
        evaluate(Letters(), data={"faq": PAIRS[:9]}, **arguments)


def test_an_average_is_over_all_sets_whatever_their_options(tmp_path: Path) -> None:
    data = {name: {**BEIR, "keep_own_id": name in "cd"} for name in "abcd"}
    for cut, name in enumerate("abcd"):
        data[name]["queries"] = dict(list(BEIR["queries"].items())[cut:])
        data[name]["qrels"] = dict(list(BEIR["qrels"].items())[cut:])
    results = evaluate(Letters(), data=data, results=tmp_path / "r", cache_dir=tmp_path / "c")
    found = {r.subset: r for r in results}
    assert len(results) == 5 and found["avg"].parts == ["a", "b", "c", "d"]
    for metric, value in found["avg"].metrics.items():
        assert value == pytest.approx(sum(found[name].metrics[metric] for name in "abcd") / 4, abs=1e-6)
    assert found["d"].signature == f"{found['avg'].signature}|own-id:kept"
    again = evaluate(Letters(), data={"d": data["d"]}, results=tmp_path / "r", cache_dir=tmp_path / "c")
    assert {r.subset: r.metrics for r in again}["avg"] == found["avg"].metrics  # it was stored, and is not stale
    (row,) = [row for row in results.rows() if row["subset"] == "avg" and row["metric"] == "ndcg_at_10"]
    assert row["low"] < row["value"] < row["high"]


@pytest.mark.parametrize("encoder", [7, object(), Letters, "no-such-encoder"])
def test_what_is_no_encoder_is_refused(encoder: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        evaluate(encoder, data=PAIRS, cache_dir=tmp_path)


def test_a_model_for_each_side(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Model is no encoder, it lacks .*AdoptedEncoder"):
        TwoSided(Model(), Model())  # type: ignore[arg-type]
    other = Model()
    other.encode = lambda sentences: Letters().encode([text[::2] for text in sentences])  # type: ignore[method-assign]
    two = TwoSided(AdoptedEncoder(Model(), "two"), AdoptedEncoder(other))
    (result,) = evaluate(two, data=BEIR, cache_dir=tmp_path)
    assert result.encoder == "two" and result.sides


def test_data_and_a_data_directory_are_two_things(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not both"):
        evaluate(Letters(), data=PAIRS, data_dir=tmp_path)
