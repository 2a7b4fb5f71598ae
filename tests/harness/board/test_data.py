"""The page's numbers: each is that of the records, and corrected tests are those of plain loops."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from boards import SCORES, P, full_records, shown, statistics_of, variants
from result_records import record, sts
from speeds import measurement

from harness.board import pairs as pairs_of
from harness.board.biases import biases
from harness.board.data import BEST, RESAMPLED, TESTED, UNTESTED, Shown, board_data
from harness.core.names import Subset
from harness.report.entries import long_form
from harness.results.records import Dataset


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
        assert (value, low, high) == tuple(round(entry[key], 4) for key in ("value", "low", "high"))
        assert bool(flags & BEST) == bool(entry["is_best"])
        assert p == (entry["p_zero"] if entry["metric"] == "difference" else entry["p_best"])
        assert (entry["is_best"] is None) == (not flags & (BEST | TESTED))
        origin, time, n, dataset, _, _, protocol, made_for, _ = data["records"][place]
        assert data["origins"][origin][0] == entry["fingerprint"]
        assert (data["times"][time], n, made_for) == (entry["created"], entry["n"], entry["made_for_language"])
        signature, resampling = data["protocols"][protocol]
        assert (signature, resampling if flags & RESAMPLED else None) == (entry["signature"], entry["interval"])
        assert data["data"][dataset] == [entry["dataset"], entry["dataset_sha256"]]


def test_pairs_are_corrected_over_the_pairs_of_a_column(data: dict[str, Any]) -> None:
    _, cells, pairs = column(data, "sts17", "avg-same", "spearman")
    names = [data["encoders"][cell[0]]["name"] for cell in cells if not data["encoders"][cell[0]]["made_from"]]
    assert names == ["good", "fast", "poor"]
    raw = [P[min(pair), max(pair)] for pair in combinations(names, 2)]
    # Holm by hand: the k-th smallest times the number that are not smaller, never below an earlier one.
    expected, highest = [0.0] * 3, 0.0
    for rank, place in enumerate(sorted(range(3), key=lambda i: raw[i])):
        highest = max(highest, min(1.0, raw[place] * (3 - rank)))
        expected[place] = highest
    assert pairs["p"] == pytest.approx(expected)
    assert pairs["n"] == 3


def test_variants_are_under_their_encoder_and_rank_nowhere(data: dict[str, Any]) -> None:
    by_name = {encoder["name"]: encoder for encoder in data["encoders"]}
    assert by_name["good@128-binary"]["made_from"] == "good"
    assert by_name["good@128-binary"]["reduced"] == [128, "binary", 16]
    assert by_name["good"]["made_from"] is None
    _, cells, _ = column(data, "sts17", "avg-same", "spearman")
    assert not any(cell[4] & BEST for cell in cells if "@" in data["encoders"][cell[0]]["name"])
    assert not any("@" in data["encoders"][place]["name"] for place in data["ranks"]["measured"]["by_encoder"])


def test_commands_name_encoder_task_set_and_folder(data: dict[str, Any]) -> None:
    known, cells, _ = column(data, "tatoeba", "tur", "accuracy_xx_en")
    [cell] = [cell for cell in cells if data["encoders"][cell[0]]["name"] == "fast"]
    line = data["commands"][data["records"][cell[6]][4]]
    assert "quoted" not in known
    assert f" --subset {known['subset']}".join(line) == (
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


def test_own_pairs_say_from_which_language_to_which_and_have_one_name() -> None:
    metrics = {"accuracy_src_trg": 50.0, "accuracy_trg_src": 40.0, "xsim_trg_src": 60.0}
    sets = {"turkish": ["en", "tr"], "german": ["en", "de"]}
    results = [record("a", "pairs", name, metrics, "p", languages=codes) for name, codes in sets.items()]
    results += [record("a", "pairs", "avg", metrics, "p", parts=list(sets), languages=["en", "de", "tr"])]
    results += [record("a", "pairs", "unknown", metrics, "p")]
    made = board_data(shown(results))
    found = {(c["subset"], c["metric"]): c for c in made["columns"]}
    assert found["turkish", "accuracy_src_trg"]["direction"] == ["en", "tr"]
    assert found["turkish", "xsim_trg_src"]["direction"] == ["tr", "en"]
    assert not any("direction" in c for (subset, _), c in found.items() if subset in ("avg", "unknown"))
    labels = {subset: found[subset, "accuracy_src_trg"]["label"] for subset in ("avg", "turkish")}
    assert labels == {"avg": "Own pairs src->trg avg", "turkish": "Own pairs src->trg turkish"}


def test_a_task_on_own_sets_is_own_also_where_its_files_are_known() -> None:
    of_set = Dataset("faq", "0" * 64, {"faq.en-tr.tsv": "0" * 64})
    metrics = {"accuracy_src_trg": 50.0}
    results = [record("a", "pairs", "faq", metrics, "p", languages=["en", "tr"], dataset=of_set)]
    made = board_data(shown([*results, sts("a", "en-en", 50.0)]))
    assert {task["name"]: task["own"] for task in made["tasks"]} == {"pairs": True, "sts17": False}
    assert any("--pairs faq.en-tr.tsv" in part for command in made["commands"] for part in command)


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
    of = board_data(replace(made, measured=[*measured, measurement("unknown", 1.0)]))["costs"]["by_encoder"]
    names = [encoder["name"] for encoder in board_data(made)["encoders"]]
    assert {names[place]: one["alike"] for place, one in of.items()} == {"good": True, "fast": True, "poor": False}
    speed = of[names.index("fast")]["speed"]
    assert speed == pytest.approx([10_000, 1e5 / 12, 1e5 / 9])  # as many digits as tables print


@pytest.mark.parametrize("room", [5, 20])
def test_of_too_many_pairs_those_of_what_stands_for_a_task_come_first(
    monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    monkeypatch.setattr(pairs_of, "MOST", room)
    made = board_data(shown())
    there = [c for c, pairs in zip(made["columns"], made["pairs"], strict=True) if pairs]
    absent = [c for c, pairs in zip(made["columns"], made["pairs"], strict=True) if pairs is False]
    assert len(there) == room // 3 and sum(len(pairs["p"]) for pairs in made["pairs"] if pairs) <= room
    assert all(c.get("headline") for c in there) == (room == 5) and absent
    assert sum(bool(c.get("headline")) for c in absent) == (3 if room == 5 else 0)


def test_what_ranks_nobody_has_no_pairs(data: dict[str, Any]) -> None:
    _, _, pairs = column(data, "language-bias", "ten@deepl", "difference")
    assert pairs is None


def test_it_is_json() -> None:
    made = board_data(shown([*full_records(), *variants("good", 80.0)]))
    assert json.loads(json.dumps(made, allow_nan=False))["columns"] == made["columns"]


def test_statistics_of_another_level() -> None:
    results = full_records()
    strict = {task: replace(known, level=0.99) for task, known in statistics_of(results).items()}
    made = board_data(Shown(results, strict))
    assert {(task["level"], task["alpha"]) for task in made["tasks"]} == {(0.99, 0.01)}
    strict["tatoeba"] = replace(strict["tatoeba"], level=0.9)
    levels = {task["name"]: task["level"] for task in board_data(Shown(results, strict))["tasks"]}
    assert (levels["tatoeba"], levels["sts17"]) == (0.9, 0.99)


def test_language_bias_of_each_encoder() -> None:
    made = shown()
    names = [encoder["name"] for encoder in board_data(made)["encoders"]]
    made_of = biases(made.results, made.statistics, {name: place for place, name in enumerate(names)})
    [found] = made_of["groups"]
    assert (found["task"], found["group"]) == ("language-bias", "ten@deepl")
    assert sorted(names[one["encoder"]] for one in found["matrices"]) == sorted(SCORES)
    for one in found["matrices"]:
        assert len(one["sets"]) == len(one["shift"]) == 6
        value, paint = one["cost"][0][5]
        # Half-way between the middle (247, 247, 247) and the strongest orange (179, 88, 6).
        assert value == -5.0 and made_of["paints"][paint] == ["#d5a87e", "#000000", "#643811", "#ffffff"]


def test_who_leads_by_less_than_is_shown_is_the_tests_leader() -> None:
    """Of equal numbers on the page the higher one leads, not the first by name."""
    results = [sts("a", "en-en", 80.0), sts("b", "en-en", 80.00001), sts("c", "en-en", 10.0)]
    made = board_data(Shown(results, {}))
    known, cells, _ = column(made, "sts17", "en-en", "spearman")
    assert [cell[:2] for cell in cells] == [[1, 80.0], [0, 80.0], [2, 10.0]] and known["leader"] == 1
    assert [bool(cell[4] & UNTESTED) for cell in cells] == [False, True, True]


def test_cut_vectors_lead_nowhere_also_without_their_encoder() -> None:
    cut = replace(sts("b@128", "en-en", 90.0), base="b")
    made = board_data(Shown([sts("a", "en-en", 80.0), cut], {}))
    known, _, _ = column(made, "sts17", "en-en", "spearman")
    assert made["encoders"][known["leader"]]["name"] == "a"
    assert made["encoders"][1]["made_from"] == "b" and made["encoders"][1]["reduced"] is None
    alone, _, _ = column(board_data(Shown([cut], {})), "sts17", "en-en", "spearman")
    assert "leader" not in alone and "verdict" not in alone


def test_each_record_has_its_own_protocol() -> None:
    one, other = sts("one", "en-en", 80.0), sts("two", "en-en", 70.0, signature="task:sts17|other")
    both = Shown([one, other], statistics_of([other]))
    made = board_data(both)
    _, cells, _ = column(made, "sts17", "en-en", "spearman")
    found = {made["encoders"][cell[0]]["name"]: made["protocols"][made["records"][cell[6]][6]] for cell in cells}
    assert found == {"one": [one.signature, None], "two": ["task:sts17|other", "made-up"]}


def test_overall_ranks_of_the_sample_are_its_own() -> None:
    scores = {"good": (90.0, 20.0), "poor": (10.0, 80.0)}
    results = [
        sts(n, s, v) for n, values in scores.items() for s, v in zip(("en-en", "en-en@sample"), values, strict=True)
    ]
    made = board_data(Shown(results, {}))
    first = {part: min(of["by_encoder"], key=lambda e: of["by_encoder"][e][0]) for part, of in made["ranks"].items()}
    assert {part: made["encoders"][place]["name"] for part, place in first.items()} == {
        "measured": "good",
        "sample": "poor",
    }
    for part, of in made["ranks"].items():
        assert [Subset.parse(label.split()[1]).is_sample for label in of["columns"]] == [part == "sample"]
