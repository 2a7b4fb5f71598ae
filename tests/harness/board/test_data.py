"""The page's numbers: each is that of the records, and corrected tests are those of plain loops."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from boards import SCORES, P, full_records, shown, statistics_of, variants
from result_records import sts
from speeds import measurement

from harness.board import data as board
from harness.board.biases import biases
from harness.board.data import BEST, UNTESTED, Shown, board_data
from harness.report.entries import long_form


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return board_data(shown())


def column(data: dict[str, Any], task: str, subset: str, metric: str) -> tuple[dict[str, Any], list[list[Any]], Any]:
    [place] = [
        i for i, c in enumerate(data["columns"]) if (c["task"], c["subset"], c["metric"]) == (task, subset, metric)
    ]
    return data["columns"][place], data["cells"][place], data["pairs"][place]


def test_every_number_is_that_of_the_long_form(data: dict[str, Any]) -> None:
    made = shown()
    names = [encoder["name"] for encoder in data["encoders"]]
    found = {
        (names[cell[0]], c["task"], c["subset"], c["metric"]): cell
        for c, cells in zip(data["columns"], data["cells"], strict=True)
        for cell in cells
    }
    entries = long_form(made.results, None, made.statistics)
    assert len(found) == len(entries) == sum(len(result.metrics) for result in made.results)
    for entry in entries:
        _, value, low, high, flags, p, place = found[entry["encoder"], entry["task"], entry["subset"], entry["metric"]]
        assert (value, low, high) == (round(entry["value"], 4), entry["low"], entry["high"])
        assert bool(flags & BEST) == bool(entry["is_best"])
        assert p == (entry["p_zero"] if entry["metric"] == "difference" else entry["p_best"])
        origin, created, n, dataset, _, _ = data["records"][place]
        assert data["origins"][origin][0] == entry["fingerprint"]
        assert (created, n) == (entry["created"][:10], entry["n"])
        assert data["data"][dataset] == [entry["dataset"], entry["dataset_sha256"]]


def test_pairs_are_corrected_over_the_pairs_of_a_column(data: dict[str, Any]) -> None:
    _, _, pairs = column(data, "sts17", "avg-same", "spearman")
    names = [data["encoders"][place]["name"] for place in pairs["of"]]
    assert names == sorted(SCORES)
    raw = [P[pair] for pair in combinations(names, 2)]
    # Holm by hand: the k-th smallest times the number that are not smaller, never below an earlier one.
    expected, highest = [0.0] * 3, 0.0
    for rank, place in enumerate(sorted(range(3), key=lambda i: raw[i])):
        highest = max(highest, min(1.0, raw[place] * (3 - rank)))
        expected[place] = highest
    assert pairs["p"] == pytest.approx(expected)
    assert pairs["n"] == 3


def test_variants_are_under_their_encoder_and_rank_nowhere(data: dict[str, Any]) -> None:
    by_name = {encoder["name"]: encoder for encoder in data["encoders"]}
    good = [encoder["name"] for encoder in data["encoders"]].index("good")
    assert by_name["good@128-binary"]["base"] == good
    assert by_name["good@128-binary"]["reduced"] == [128, "binary", 16]
    assert by_name["good"]["base"] is None
    _, cells, _ = column(data, "sts17", "avg-same", "spearman")
    assert not any(cell[4] & BEST for cell in cells if "@" in data["encoders"][cell[0]]["name"])
    assert not any("@" in data["encoders"][place]["name"] for place in data["ranks"])


def test_commands_name_encoder_task_set_and_folder(data: dict[str, Any]) -> None:
    known, cells, _ = column(data, "tatoeba", "tur", "accuracy_xx_en")
    [cell] = [cell for cell in cells if data["encoders"][cell[0]]["name"] == "fast"]
    line = data["commands"][data["records"][cell[6]][4]]
    assert f" --subset {known['choose']}".join(line) == (
        "leaderboard run --encoder fast --task tatoeba --subset tur --results results --fresh"
    )


def test_a_set_of_the_users_own_is_measured_again_from_the_file_that_lists_it(data: dict[str, Any]) -> None:
    _, cells, _ = column(data, "retrieval", "faq", "ndcg_at_10")
    assert "--sets YOUR-SETS.toml" in data["commands"][data["records"][cells[0][6]][4]][1]


def test_a_spec_that_looks_like_the_option_stays_whole() -> None:
    spec = "static:a --subset en-en\0"
    made = board_data(Shown([sts("one", "en-en", 80.0, spec=spec)], {}))
    [line] = made["commands"]
    assert line == [f"leaderboard run --encoder '{spec}' --task sts17", " --results results --fresh"]


def test_columns_say_their_languages(data: dict[str, Any]) -> None:
    assert column(data, "tatoeba", "tur", "accuracy_xx_en")[0]["languages"] == ["en", "tr"]
    assert column(data, "tatoeba", "tur", "accuracy_xx_en")[0]["name"] == "Turkish"
    assert column(data, "retrieval", "faq", "ndcg_at_10")[0]["languages"] == ["tr"]
    assert column(data, "sts17", "avg-same", "spearman")[0]["languages"] == ["ar", "en", "es"]


def test_without_tests_nobody_is_the_best() -> None:
    results = full_records()
    made = board_data(Shown(results, {}))
    assert not any(cell[4] & BEST for cells in made["cells"] for cell in cells)
    assert all(pairs is None for pairs in made["pairs"])
    _, cells, _ = column(made, "sts17", "avg-same", "spearman")
    assert sum(bool(cell[4] & UNTESTED) for cell in cells) == 2


def test_the_sample_stands_apart() -> None:
    results = [sts("one", "en-en", 80.0), sts("one", "en-en@sample", 70.0)]
    columns = board_data(Shown(results, {}))["columns"]
    assert [bool(c.get("sample")) for c in columns] == [False, False, True, True]


def test_speeds_of_another_machine_are_marked() -> None:
    made = shown()
    other = {"processor": "Another CPU", "cores": 64}
    measured = [replace(one, hardware=other) if one.encoder == "poor" else one for one in made.measured]
    of = board_data(replace(made, measured=[*measured, measurement("unknown", 1.0)]))["costs"]["of"]
    names = [encoder["name"] for encoder in board_data(made)["encoders"]]
    assert {names[place]: one["alike"] for place, one in of.items()} == {"good": True, "fast": True, "poor": False}
    speed = of[names.index("fast")]["speed"]
    assert speed == [10_000, pytest.approx(8333), pytest.approx(11110)]


def test_too_many_pairs_are_left_out_but_for_what_stands_for_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board, "_PAIRS", 10)
    made = board_data(shown())
    for known, pairs in zip(made["columns"], made["pairs"], strict=True):
        assert (pairs is None) == (not known.get("headline")) or known["kind"] == "difference"


def test_it_is_json() -> None:
    made = board_data(shown([*full_records(), *variants("good", 80.0)]))
    assert json.loads(json.dumps(made, allow_nan=False))["columns"] == made["columns"]


def test_statistics_of_another_level() -> None:
    results = full_records()
    strict = {task: replace(known, level=0.99) for task, known in statistics_of(results).items()}
    made = board_data(Shown(results, strict))
    assert (made["level"], made["alpha"]) == (0.99, 0.01)


def test_language_bias_of_each_encoder() -> None:
    made = shown()
    names = [encoder["name"] for encoder in board_data(made)["encoders"]]
    [found] = biases(made.results, made.statistics, {name: place for place, name in enumerate(names)})
    assert (found["task"], found["group"]) == ("language-bias", "ten@deepl")
    assert sorted(names[one["encoder"]] for one in found["of"]) == sorted(SCORES)
    assert all(one["cost"][0][5] == -5.0 and len(one["sets"]) == len(one["shift"]) == 6 for one in found["of"])
