"""Files of mteb, of now and of before its version 1.11, as published figures; without mteb."""

from __future__ import annotations

import json
from pathlib import PurePosixPath

import pytest
from mteb_files import (
    LABSE,
    LABSE_REVISION,
    OLD_STS,
    OLD_TATOEBA,
    sts_entry,
    task_result,
    tatoeba_entry,
    write,
)
from result_records import record, sts

from harness.core.errors import InputError
from harness.published import Measurements
from harness.published.mteb import mteb_files
from harness.published.mteb_import import imported_scores, read_results, store
from harness.report.published import published_boards, with_published
from harness.results.store import ResultStore


@pytest.fixture
def labse(tmp_path):
    return tmp_path / "checkout" / "results" / LABSE / LABSE_REVISION


def values(scores):
    return {(s.task, s.subset, s.metric): s.value for s in scores}


def test_a_file_of_now(labse, tmp_path):
    entries = [
        sts_entry("en-en", 0.794512, 0.8),
        sts_entry("es-en", 0.65709),
        sts_entry("ko-ko", 0.71),
        sts_entry("xx", 1),
    ]
    file = write(labse / "STS17.json", task_result("STS17", entries))
    write(labse / "model_meta.json", {"name": "sentence-transformers/LaBSE", "revision": LABSE_REVISION})
    (result,) = read_results([file]).results
    assert (result.model, result.revision) == ("sentence-transformers/LaBSE", LABSE_REVISION)
    assert (result.task, result.mteb_version, result.dataset_revision) == ("sts17", "1.36.26", "0123456")
    assert result.scores["en-en"] == {"spearman": 79.4512, "pearson": 80.0}
    assert result.scores.keys() == {"en-en", "en-es", "ko-ko"}  # our names; subsets that are not ours are no business
    assert result.file == f"{LABSE}/{LABSE_REVISION}/STS17.json" and str(tmp_path) not in str(result)


def test_files_from_before_1_11(labse):
    write(labse / "STS17.json", OLD_STS)
    write(labse / "Tatoeba.json", OLD_TATOEBA)
    sts17, tatoeba = read_results([labse]).results
    assert (sts17.model, sts17.revision) == ("sentence-transformers/LaBSE", LABSE_REVISION)  # from the folders
    assert sts17.mteb_version == "0.0.2"
    assert sts17.scores == {
        "ar-ar": {"spearman": 69.066, "pearson": 69.53},
        "en-es": {"spearman": 65.71, "pearson": 64.45},
    }
    assert tatoeba.scores == {"kat": {"accuracy_xx_en": 96.11, "f1_weighted_xx_en": 95.02}}


def test_averages_of_complete_groups(labse):
    codes = {"kat": 0.9, "swh": 0.8, "tgl": 0.7, "tat": 0.6}
    entries = [tatoeba_entry(f"{code}-eng", value, value / 2) for code, value in codes.items()]
    (result,) = read_results([write(labse / "Tatoeba.json", task_result("Tatoeba", entries))]).results
    assert result.scores["avg-paper"] == {"accuracy_xx_en": 75.0, "f1_weighted_xx_en": 37.5}
    assert [name for name in result.scores if name.startswith("avg")] == ["avg-paper"]


def test_buccs_of_mteb_are_tasks_of_their_own(labse):
    entry = {"hf_subset": "de-en", "f1": 0.9935, "accuracy": 0.995, "main_score": 0.9935}
    write(labse / "BUCC.v2.json", task_result("BUCC.v2", [entry]))
    (result,) = read_results([labse]).results
    assert (result.task, result.scores) == ("mteb-bucc-v2", {"de-en": {"f1_weighted_top1": 99.35}})


def test_scores_that_mteb_has_not_got(labse):
    entries = [sts_entry("en-en", float("nan"), None), sts_entry("ar-ar", 0.5, float("nan"))]
    write(labse / "STS17.json", task_result("STS17", entries))
    write(labse / "Tatoeba.json", task_result("Tatoeba", []))
    write(labse / "STS12.json", "not even JSON, but of no task that is read")
    read = read_results([labse])
    assert [result.scores for result in read.results] == [{"ar-ar": {"spearman": 50.0}}]
    assert read.left_out == ["subsets without a score: 1", "files without a score of ours: 1"]


def test_experiments_are_models_of_their_own(labse):
    result = task_result("STS17", [sts_entry("en-en", 0.5)])
    write(labse / "STS17.json", result)
    other = labse / "experiments" / "dim_64"
    write(other / "STS17.json", task_result("STS17", [sts_entry("en-en", 0.25)]))
    assert [r.model for r in read_results([labse]).results] == ["sentence-transformers/LaBSE"]  # whose is it?
    meta = {"name": "sentence-transformers/LaBSE", "revision": LABSE_REVISION, "experiment_kwargs": {"dim": 64}}
    write(other / "model_meta.json", meta)
    found = {r.model: r.scores["en-en"]["spearman"] for r in read_results([labse]).results}
    assert found == {"sentence-transformers/LaBSE": 50.0, "sentence-transformers/LaBSE (dim=64)": 25.0}


def test_a_path_of_the_machine_that_it_ran_on_is_not_taken_over(labse):
    write(labse / "STS17.json", task_result("STS17", [sts_entry("en-en", 0.5)]))
    write(labse / "model_meta.json", {"name": "/home/someone/models/mine", "revision": None})
    (result,) = read_results([labse]).results
    assert (result.model, result.revision) == ("mine", "no_revision")


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ("{", "no JSON file of mteb"),
        ("[]", "Expected `object`, got `array`"),
        ({"name": "x"}, "neither `task_name` and `scores` nor `mteb_dataset_name`"),
        ({"task_name": "STS17", "scores": []}, r"Expected `object`, got `array` - at `\$.scores`"),
        ({"task_name": "STS17"}, "neither `task_name` and `scores`"),
        (task_result("STS12", []), "result of 'STS12', which has no counterpart here; STS17, Tatoeba"),
        (task_result("STS17", [{"main_score": 1}]), r"missing required field `hf_subset` - at `\$.scores\[...\]\[0\]`"),
        (task_result("STS17", []) | {"scores": {"test": {}}}, "scores.test is an object instead of a list"),
        (
            task_result("STS17", [sts_entry("en-en", "high")]),
            r"Expected `float \| null`, got `str` .*\[0\].cosine_spearman`",
        ),
        (task_result("STS17", [sts_entry("en-en", 79.4)]), r"Expected `float` <= 1.0 - .*\[0\].cosine_spearman`"),
        (OLD_STS | {"mteb_dataset_name": ["STS17"]}, r"Expected `str`, got `array` - at `\$.mteb_dataset_name`"),
        (OLD_STS | {"test": 3}, r"Expected `object`, got `int` - at `\$.test`"),
    ],
)
def test_bad_files_are_named_with_what_is_wrong(labse, content, wrong):
    file = write(labse / "STS17.json", content)
    with pytest.raises(InputError, match=wrong) as error:
        read_results([file])
    assert str(file) in str(error.value) and "\n" not in str(error.value)


def test_bad_places(tmp_path, labse):
    with pytest.raises(InputError, match="no such file or folder"):
        read_results([tmp_path / "nothing"])
    with pytest.raises(InputError, match="no result of mteb's with a counterpart here"):
        read_results([tmp_path])
    loose = write(tmp_path / "some" / "folder" / "STS17.json", OLD_STS)
    with pytest.raises(InputError, match="nothing tells which model it is of"):
        read_results([loose])
    write(labse / "STS17.json", OLD_STS)
    meta = write(labse / "model_meta.json", {"revision": "1"})
    with pytest.raises(InputError, match="has no `name` of a model") as error:
        read_results([labse])
    assert str(meta) in str(error.value)


def test_stored_and_shown_as_published(labse, tmp_path):
    entries = [sts_entry("en-en", 0.794549, 0.7), sts_entry("ar-ar", 0.69, 0.7)]
    write(labse / "STS17.json", task_result("STS17", entries))
    root = tmp_path / "results"
    store(root, read_results([labse]).results)
    scores = imported_scores(root)
    assert values(scores)["sts17", "en-en", "spearman"] == 79.4549
    score = next(s for s in scores if s.subset == "en-en" and s.metric == "spearman")
    assert score.printed == "79.45" and score.name == "labse"
    assert score.short_source == "mteb results e34fab6"
    assert score.citation == f"mteb results, sentence-transformers/LaBSE@{LABSE_REVISION}, mteb 1.36.26"
    measured = [sts("labse", "en-en", 79.5), sts("mine", "en-en", 10.0, spec="muse")]
    assert [m.encoder for m in Measurements(measured).of_each_model(score)] == ["labse"]

    board, differences = published_boards(measured, scores)
    rows = [[cell.text for cell in row.cells] for row in board.rows]
    assert ["labse", "mteb results e34fab6", "79.45", "69.00"] in rows  # no column for Pearson
    assert [row.is_published for row in board.rows] == [row[1] != "measured" for row in rows]
    assert any(f"LaBSE@{LABSE_REVISION}, mteb 1.36.26" in note for note in board.note_texts)
    shown = [[cell.text for cell in row.cells] for row in differences.rows]
    assert ["labse", "mteb results e34fab6", "en-en", "spearman", "79.50", "79.45", "+0.05"] in shown
    entry = next(
        e for e in with_published([], measured, scores) if e["subset"] == "en-en" and e["metric"] == "spearman"
    )
    assert (entry["measured"], entry["difference"]) == (79.5, 0.0451)
    assert entry["source"].startswith(score.citation)


def test_models_that_mteb_knows_and_published_figures_do_not(tmp_path):
    file = tmp_path / "acme__model" / "1" / "STS17.json"
    write(file, task_result("STS17", [sts_entry("en-en", 0.5)]))
    store(tmp_path, read_results([file]).results)
    score = imported_scores(tmp_path)[0]
    assert score.name == "acme/model" and score.edition == "1"
    results = [
        sts("model", "en-en", 50.0, spec="mteb:acme/model"),
        sts("bare", "en-en", 51.0, spec="sentence-transformers:acme/model"),
        sts("prompted", "en-en", 52.0, spec="sentence-transformers:acme/model?prompt=x"),
        sts("other", "en-en", 53.0, spec="mteb:acme/other"),
    ]
    found = {m.encoder: m.note for m in Measurements(results).of_each_model(score)}
    assert found.keys() == {"model", "bare"}
    assert found["model"] == "" and "prompt of its own" in found["bare"]


def test_many_languages_are_no_columns(tmp_path):
    codes = ["kat", "swh", "tgl", "tat", "afr", "deu", "nds", "yid", "zsm"]
    file = tmp_path / "acme__model" / "1" / "Tatoeba.json"
    write(file, task_result("Tatoeba", [tatoeba_entry(f"{code}-eng", 0.5, 0.4) for code in codes]))
    store(tmp_path, read_results([file]).results)
    scores = imported_scores(tmp_path)
    (board,) = published_boards([], scores)
    assert [column.label for column in board.columns[2:]] == ["avg-paper"]
    assert any("--format csv" in note for note in board.note_texts)
    assert {s.subset for s in scores} >= set(codes)


def test_a_second_import_replaces_the_first(labse, tmp_path):
    root = tmp_path / "results"
    for value, n in ((0.5, 2), (0.6, 1)):
        entries = [sts_entry("en-en", value), sts_entry("ar-ar", 0.1)]
        write(labse / "STS17.json", task_result("STS17", entries[:n]))
        (path,) = store(root, read_results([labse]).results)
    assert path == root / "imported" / LABSE / LABSE_REVISION / "STS17.json"
    assert values(imported_scores(root)) == {
        ("sts17", "en-en", "spearman"): 60.0,
        ("sts17", "en-en", "pearson"): 50.0,
    }
    assert [p for p in root.rglob("*") if p.is_file()] == [path]
    assert ResultStore(root).load() == []  # nothing of it is among what was measured


@pytest.mark.parametrize("content", ["{", "[]", '{"model": "x"}'])
def test_a_stored_file_that_is_broken(tmp_path, content):
    file = write(tmp_path / "imported" / "a" / "b" / "STS17.json", content)
    with pytest.raises(InputError, match="no imported result") as error:
        imported_scores(tmp_path)
    assert str(file) in str(error.value)


@pytest.mark.parametrize(
    "change", [{"model": 3}, {"revision": None}, {"scores": {"en-en": {"spearman": float("nan")}}}]
)
def test_a_stored_file_that_was_edited(labse, tmp_path, change):
    write(labse / "STS17.json", task_result("STS17", [sts_entry("en-en", 0.5)]))
    (file,) = store(tmp_path, read_results([labse]).results)
    write(file, json.loads(file.read_text()) | change)
    with pytest.raises(InputError, match="no imported result"):
        imported_scores(tmp_path)


def test_a_file_beside_its_models_description_only(tmp_path):
    file = write(tmp_path / "home" / "someone" / "STS17.json", task_result("STS17", [sts_entry("en-en", 1, 0)]))
    write(file.parent / "model_meta.json", {"name": "acme/x", "revision": "2"})
    (result,) = read_results([file]).results
    assert (result.model, result.revision, result.file) == ("acme/x", "2", "STS17.json")  # nobody's folders
    store(tmp_path / "r", [result])
    assert values(imported_scores(tmp_path / "r")) == {
        ("sts17", "en-en", "spearman"): 100.0,
        ("sts17", "en-en", "pearson"): 0.0,
    }


def test_names_that_no_folder_can_have(tmp_path):
    file = tmp_path / "acme__x" / "1" / "STS17.json"
    write(file, task_result("STS17", [sts_entry("en-en", 0.5)]))
    write(file.parent / "model_meta.json", {"name": "acme/x (dim: 64)\\..", "revision": ".."})
    (path,) = store(tmp_path / "r", read_results([file]).results)
    assert path.resolve().is_relative_to(tmp_path / "r" / "imported") and len(path.relative_to(tmp_path).parts) == 5


def test_own_exports_are_no_published_results(labse, tmp_path):
    for name, content in mteb_files([sts("muse", "en-en", 80)]).files.items():
        write(tmp_path / "checkout" / PurePosixPath(name), content.decode())
    own = tmp_path / "checkout" / "results" / "multilingual-embedding-harness__muse"
    for path in (own, next(own.rglob("STS17.json"))):
        with pytest.raises(InputError, match="this is the harness's own export, no published result"):
            read_results([path])
    write(labse / "STS17.json", OLD_STS)
    read = read_results([tmp_path / "checkout"])
    assert [r.model for r in read.results] == ["sentence-transformers/LaBSE"]
    assert read.left_out == ["files of the harness's own export: 1"]


def test_the_own_store_is_not_imported_again(labse, tmp_path):
    write(labse / "STS17.json", OLD_STS)
    (path,) = store(tmp_path / "r", read_results([labse]).results)
    for given in (path, tmp_path / "r" / "imported"):
        with pytest.raises(InputError, match="own store of imported results") as error:
            read_results([given])
        assert str(path) in str(error.value)


def test_export_and_import_give_the_scores_back(tmp_path):
    results = [
        sts("muse", "en-es", 76.858566),
        sts("muse", "ar-ar", -71.100145),
        record(
            "muse", "tatoeba", "ara", {"accuracy_en_xx": 76.2, "accuracy_xx_en": 77.7, "f1_weighted_xx_en": 73.210794}
        ),
    ]
    for name, content in mteb_files(results).files.items():
        text = content.decode().replace("multilingual-embedding-harness/muse", "acme/muse")  # someone else's, then
        write(tmp_path / "out" / PurePosixPath(name), text)
    read = read_results([tmp_path / "out"])
    assert read.left_out == [] and {r.model for r in read.results} == {"acme/muse"}
    store(tmp_path / "r", read.results)
    expected = {
        (result.task, result.subset, metric): value
        for result in results
        for metric, value in result.metrics.items()
        if metric != "accuracy_en_xx"
    }
    assert values(imported_scores(tmp_path / "r")) == expected
    assert json.loads(next((tmp_path / "r").rglob("Tatoeba.json")).read_text())["mteb_version"] == ""
