"""From records to tables: order, stand-ins, missing cells, footnotes, the long form."""

from __future__ import annotations

import shlex
from math import nan

import pytest
from result_records import STS_SIGNATURE, record, small_board, sts

from harness.report.cells import Cell, Table
from harness.report.entries import long_form
from harness.report.tables import boards, sort_rows
from harness.results.records import Dataset, Result
from harness.results.statistics import Entry, Statistics, digest
from harness.tasks import all_tasks


def heads(table: Table) -> list[str]:
    return [column.label for column in table.columns]


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row.cells] for row in table.rows]


def column(table: Table, label: str) -> list[str]:
    return [row.cells[heads(table).index(label)].text for row in table.rows]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (Cell(83.456, "score"), "83.5"),
        (Cell(-0.04, "score"), "0.0"),
        (Cell(-4.28, "score"), "-4.3"),
        (Cell(-0.916, "difference"), "-0.92"),
        (Cell(0.3, "difference"), "+0.30"),
        (Cell(-0.001, "difference"), "+0.00"),
        (Cell(1.061234, "threshold"), "1.0612"),
        (Cell(90000, "count"), "90,000"),
        (Cell(None, "score"), "–"),
        (Cell(-0.04, "gain"), "+0.0"),
        (Cell(3.25, "gain"), "+3.2"),
    ],
)
def test_how_values_are_printed(cell: Cell, text: str) -> None:
    assert cell.text == text


def test_subsets_stand_in_the_order_of_the_paper_each_stand_in_after_its_set() -> None:
    names = [
        "en-nl@deepl",
        "avg-cross",
        "avg-same",
        "en-de@deepl",
        "en-de",
        "ar-ar",
        "en-tr",
        "en-en",
        "zz-zz",
        "en-ar",
    ]
    [table] = boards([sts("muse", name, 50.0) for name in names])
    order = "en-en ar-ar avg-same en-ar en-de en-de@deepl en-tr en-nl@deepl avg-cross zz-zz"
    assert heads(table) == ["encoder", *order.split()]
    assert [c.label for c in table.columns if c.is_average] == ["avg-same", "avg-cross"]


def test_the_sample_has_tables_of_its_own() -> None:
    real, sample = boards([sts("muse", "en-en", 80.0), sts("muse", "en-en@sample", 90.0)])
    assert heads(real) == ["encoder", "en-en"] and heads(sample) == ["encoder", "en-en@sample"]
    assert "bundled sample" in sample.title and "@sample: bundled sample, for demonstration" in sample.note_texts
    assert "sample" not in real.title and not any("sample" in note for note in real.note_texts)


def test_legend() -> None:
    [table] = boards(small_board())
    assert table.note_texts == [
        "lexical floor: compares spellings only; what an encoder has to beat",
        "– not measured here",
        "avg-same: unweighted mean of en-en, es-es, ar-ar",
        "@deepl: another translation than the published set",
        "n: 250 a set",
        "order of encoders: avg-same (spearman)",
        "no interval and no test: chargrams, e5, muse; to mend it: leaderboard run --save-rows --encoder chargrams "
        "--encoder e5 --encoder muse --task sts17",
        f"signature: {STS_SIGNATURE}",
    ]


def test_a_task_with_several_main_metrics() -> None:
    metrics = {"f1_train": 90.0, "f1_heldout": 89.0, "precision_train": 1.0, "threshold": 1.05}
    results = [
        record("a", "bucc", "de-en@ntrex", {**metrics, "f1_test": 88.0}),
        record("b", "bucc", "de-en@ntrex", {**metrics, "f1_train": 95.0}),
        record("b", "bucc", "zh-en", {"f1_train": 70.0, "threshold": 1.0}),
    ]
    [table] = boards(results)
    assert heads(table) == [
        "encoder",
        *(f"de-en@ntrex {metric}" for metric in ("f1_train", "f1_test", "f1_heldout", "threshold")),
        "zh-en f1_train",
        "zh-en threshold",
    ]
    assert texts(table) == [
        ["b", "95.0", "–", "89.0", "1.0500", "70.0", "1.0000"],
        ["a", "90.0", "88.0", "89.0", "1.0500", "–", "–"],
    ]
    assert "@ntrex: a BUCC-format set, not the BUCC data" in table.note_texts


def test_other_metrics_on_demand() -> None:
    [table] = boards([sts("muse", "en-en", 80.0)], metrics={"pearson"})
    assert table.title == "STS 2017: Pearson's r x 100" and texts(table) == [["muse", "79.0"]]


def test_few_languages_have_columns_many_have_rows() -> None:
    scores = {"accuracy_en_xx": 50.0, "accuracy_xx_en": 40.0, "f1_weighted_xx_en": 39.0}
    few = [record("muse", "tatoeba", code, scores) for code in ("kat", "avg-paper")]
    [table] = boards(few)
    assert heads(table) == ["encoder", "avg-paper en->xx", "avg-paper xx->en", "kat en->xx", "kat xx->en"]

    codes = ("deu", "fra", "kat", "spa", "swh", "tat", "tgl", "tur")
    many = [record("muse", "tatoeba", code, scores, n=7) for code in codes]
    many += [record("muse", "tatoeba", "avg-paper", scores, n=28, parts=["kat", "swh", "tgl", "tat"])]
    many += [record("e5", "tatoeba", "kat", {"accuracy_en_xx": 60.0, "accuracy_xx_en": 61.0})]
    [table] = boards(many)
    assert heads(table) == ["subset", "language", "n", "muse en->xx", "muse xx->en", "e5 en->xx", "e5 xx->en"]
    assert texts(table)[:2] == [
        ["avg-paper", "", "28", "†50.0", "†40.0", "–", "–"],
        ["deu", "German", "7", "50.0", "40.0", "–", "–"],
    ]
    assert table.rows[0].is_average and table.n_keys == 3


def test_a_task_of_another_package_is_shown_too() -> None:
    [table] = boards([record("muse", "mine", "b", {"y": 2.0, "x": 1.0}), record("muse", "mine", "a", {"x": 3.0})])
    assert table.title == "mine, scores x 100"
    assert heads(table) == ["encoder", "a x", "b x", "b y"]


def test_encoders_are_ordered_by_the_main_average_then_by_name() -> None:
    results = [
        sts("d", "avg-cross@deepl", 50.0),
        sts("c", "avg-cross@deepl", 60.0),
        sts("c", "avg-cross", 10.0),
        sts("b", "avg-same", 99.0),
        sts("a", "avg-same", 1.0),
    ]
    [table] = boards(results)
    assert column(table, "encoder") == ["c", "d", "a", "b"]
    assert "order of encoders: avg-cross@deepl (spearman), then by name" in table.note_texts


def test_the_lexical_floor_is_marked_under_any_name() -> None:
    [table] = boards([sts("chargrams", "en-en", 3.0), sts("mine", "en-en", 2.0, spec="chargrams?name=mine")])
    assert column(table, "encoder") == ["chargrams (lexical floor)", "mine (lexical floor)"]


def test_a_footnote_of_vectors_that_cannot_be_repeated() -> None:
    steady = sts("a", "en-en", 80.0, conditions={"repeatability": 1e-7})
    unsteady = sts("b", "en-en", 80.0, conditions={"repeatability": 0.01, "repeatable": "no"})
    [table] = boards([steady, unsteady])
    assert column(table, "encoder") == ["a", "b [1]"]
    assert "[1] b: equal requests give different vectors (1 - cosine up to 0.01)" in table.note_texts


def test_footnotes_of_records_that_are_not_of_one_piece() -> None:
    results = [
        *(sts("a", subset, 50.0) for subset in ("en-en", "es-es")),
        *(sts("b", subset, 40.0) for subset in ("en-en", "es-es")),
        sts("c", "en-en", 30.0, fingerprint="old"),
        sts("c", "es-es", 30.0, signature="task:sts17|version:0", dataset=Dataset("sts17", "ff", {})),
    ]
    [table] = boards(results)
    assert column(table, "encoder") == ["a", "b", "c [1] [2] [3]"]
    assert table.note_texts[:3] == [
        "[1] c: measured with 2 fingerprints: c-1, old",
        "[2] c: another protocol than the rest on es-es: task:sts17|version:0",
        "[3] c: other data than the rest on es-es",
    ]
    assert [note for note in table.note_texts if note.startswith("signature")] == [
        "signature: task:sts17|version:0",
        f"signature: {STS_SIGNATURE}",
    ]


def test_long_fingerprints_that_differ_look_different() -> None:
    long = "package-1.0-0123456789abcdef;normalize="
    [table] = boards([sts("a", "en-en", 1.0, fingerprint=long + "0"), sts("a", "es-es", 1.0, fingerprint=long + "1")])
    shown = table.note_texts[0].rpartition(": ")[2].split(", ")
    assert len(set(shown)) == 2 and all(len(text) <= 33 for text in shown)


def test_long_form() -> None:
    entries = long_form(small_board())
    assert [(e["subset"], e["encoder"], e["metric"]) for e in entries][:3] == [
        ("en-en", "chargrams", "spearman"),
        ("en-en", "chargrams", "pearson"),
        ("en-en", "e5", "spearman"),
    ]
    assert entries[4] == {
        "encoder": "muse",
        "task": "sts17",
        "subset": "en-en",
        "metric": "spearman",
        "value": 83.456,
        "low": None,
        "high": None,
        "interval": None,
        "is_best": None,
        "p_best": None,
        "p_zero": None,
        "n": 250,
        "made_for_language": True,
        "signature": STS_SIGNATURE,
        "source": "measured",
        "fingerprint": "muse-1",
        "dataset": "sts17",
        "dataset_sha256": "0123456789abcdef" * 4,
        "created": "2025-01-02T03:04:05+00:00",
    }
    assert len(long_form(small_board(), {"pearson"})) == len(small_board())


def test_sorting_a_table() -> None:
    [table] = boards(small_board())
    by_cell = sort_rows(table, "en-de@deepl")
    by_name = sort_rows(table, "encoder")
    assert by_cell is not None and column(by_cell, "encoder") == ["muse", "chargrams (lexical floor)", "e5"]
    assert by_name is not None and column(by_name, "encoder") == ["chargrams (lexical floor)", "e5", "muse"]
    assert sort_rows(table, "nothing") is None


def test_what_is_shown_agrees_with_what_is_measured() -> None:
    for task in all_tasks():
        display, averages = task.display, list(task.averages(task.published or ("own", "another")))
        if display.turn_above is None:
            assert sorted(display.subsets) == sorted([*task.published, *averages])
        else:
            assert sorted(display.subsets) == sorted(averages) and set(display.names) == set(task.published)
        assert {display.rank_by, *(c.metric for c in display.overview or ())} <= {"", *task.metric_names}


def test_no_order_of_records_changes_the_tables() -> None:
    results: list[Result] = small_board()
    assert boards(results) == boards(results[::-1])


def known_bias(results: list[Result], p: dict[str, float]) -> dict[str, Statistics]:
    entries = {
        (r.encoder, r.subset): Entry(digest(r), {"difference": (-2.0, -0.5)}, p_zero={"difference": p[r.encoder]})
        for r in results
        if r.encoder in p
    }
    return {"language-bias": Statistics("s", 0.95, entries)}


def test_the_language_bias_has_an_interval_and_a_test_against_zero() -> None:
    results = [
        record(name, "language-bias", "ten", {"expected": 70.0, "actual": 70.0 - place, "difference": -1.0})
        for place, name in enumerate("abc")
    ]
    [table] = boards(results, statistics=known_bias(results, {"a": 0.0002, "b": 0.03}))
    assert heads(table) == ["encoder", "ten expected", "ten actual", "ten difference", "ten p"]
    assert column(table, "ten p") == ["<0.001", "0.030", ""]
    cells = [row.cells[3] for row in table.rows]
    assert [cell.interval_text for cell in cells] == ["[-2.00, -0.50]", "[-2.00, -0.50]", ""]
    assert not any(cell.is_best for cell in cells), "no bias is better for being higher"
    assert not any(note.startswith("bold") for note in table.note_texts)
    assert "p: the difference against zero (bootstrap), corrected by Holm over all of the table" in table.note_texts
    [without] = boards(results)
    assert heads(without) == heads(table)[:-1]


def test_bold_is_of_the_encoders_that_are_shown() -> None:
    results = [sts("a", "en-en", 80.0), sts("b", "en-en", 79.0), sts("c", "en-en", 60.0)]
    p = {("a", "b"): 0.02, ("a", "c"): 0.0001, ("b", "c"): 0.0001}
    entries = {
        (r.encoder, "en-en"): Entry(
            digest(r), {"spearman": (1.0, 99.0)}, {"spearman": {j: v for (i, j), v in p.items() if i == r.encoder}}
        )
        for r in results
    }
    known = {"sts17": Statistics("s", 0.95, entries)}

    def bold(*chosen: Result) -> list[str]:
        [table] = boards(chosen, statistics=known)
        return [row.cells[0].text for row in table.rows if row.cells[1].is_best]

    assert bold(*results) == ["a"] and bold(*results[1:]) == ["b"] and bold(results[0]) == []


def test_what_was_not_tested_against_the_best_is_said() -> None:
    results = [sts("a", "en-en", 80.0), sts("b", "en-en", 79.0), sts("c", "en-en", 78.0)]
    entries = {(r.encoder, "en-en"): Entry(digest(r), {"spearman": (1.0, 99.0)}) for r in results}
    entries["a", "en-en"].p["spearman"] = {"b": 0.5}
    [table] = boards(results, statistics={"sts17": Statistics("s", 0.95, entries)})
    assert [row.cells[1].is_best for row in table.rows] == [True, True, False]
    assert "not tested against the best, so not bold: c" in table.note_texts
    # Against a newcomer nobody was tested: it is not marked either.
    newcomer = sts("d", "en-en", 81.0)
    entries["d", "en-en"] = Entry(digest(newcomer), {"spearman": (1.0, 99.0)})
    [table] = boards([*results, newcomer], statistics={"sts17": Statistics("s", 0.95, entries)})
    assert not any(cell.is_best for row in table.rows for cell in row.cells)
    assert "nothing bold, as none was tested against the highest: en-en spearman" in table.note_texts
    assert not any(note.startswith("bold") for note in table.note_texts)


def test_a_bias_is_said_not_to_be_ranked_where_something_is_bold() -> None:
    scores = {"expected": 70.0, "actual": 69.0, "difference": -1.0}
    results = [record(name, "language-bias", "ten", scores) for name in "ab"]
    entries = {(r.encoder, "ten"): Entry(digest(r), {"actual": (60.0, 75.0)}) for r in results}
    entries["a", "ten"].p["actual"] = {"b": 1.0}
    [table] = boards(results, statistics={"language-bias": Statistics("s", 0.95, entries)})
    assert [[cell.is_best for cell in row.cells] for row in table.rows] == [[False, False, True, False]] * 2
    assert "difference is not ranked: it is no better for being higher" in table.note_texts


def test_what_has_no_interval_is_said() -> None:
    results = [sts("a", "en-en", 100.0), sts("b", "en-en", 80.0)]
    ends = {"a": (nan, nan), "b": (70.0, 85.0)}
    entries = {(r.encoder, "en-en"): Entry(digest(r), {"spearman": ends[r.encoder]}) for r in results}
    [table] = boards(results, statistics={"sts17": Statistics("s", 0.95, entries)})
    assert [row.cells[1].interval_text for row in table.rows] == ["", "[70.0, 85.0]"]
    assert "no interval: all items alike, or fewer than three: a" in table.note_texts


def test_the_command_that_mends_can_be_pasted() -> None:
    results = [
        sts("a", "en-en", 80.0, spec="a?prompt=query: "),
        sts("b", "en-en", 80.0),
        sts("api", "en-en", 70.0, spec=""),
        sts("b", "en-en@sample", 70.0),
    ]
    real, sample = boards(results)
    [command] = [note.code for note in real.notes if note.text.startswith("no interval")]
    assert shlex.split(command) == [
        *("leaderboard", "run", "--save-rows", "--encoder", "a?prompt=query: ", "--encoder", "b", "--task", "sts17")
    ]
    assert any("--save-rows --suite sample --encoder b" in note for note in sample.note_texts)
    [alone] = boards([results[2]])
    assert "no interval and no test: api" in alone.note_texts


def test_n_of_the_sets() -> None:
    def notes(**n_of: int) -> list[str]:
        [table] = boards([sts("a", name.replace("_", "-"), 50.0, n=n) for name, n in n_of.items()])
        return [note for note in table.note_texts if note.startswith("n: ")]

    assert notes(en_en=250, es_es=250, avg_same=500) == ["n: 250 a set"]
    assert notes(en_en=1250, es_es=249, ar_ar=1250) == ["n: 1,250 (en-en, ar-ar); 249 (es-es)"]
    assert notes(**{f"x{i}": i + 100 for i in range(13)}) == ["n: 100 to 112 a set"]
