"""Our records as files of mteb, read here as plain JSON; that mteb itself loads them: `test_with_mteb.py`."""

from __future__ import annotations

import json
from dataclasses import replace

from result_records import record, sts

from harness.published.mteb import mteb_files
from harness.results.records import Dataset

PUBLISHED = Dataset("sts17", "ab" * 32, {}, True)


def tatoeba(subset, accuracy, f1, **other):
    metrics = {"accuracy_en_xx": 1.0, "accuracy_xx_en": accuracy, "f1_weighted_xx_en": f1}
    return record("muse", "tatoeba", subset, metrics, **other)


def written(results):
    return {path.name: json.loads(content) for path, content in mteb_files(results).files.items()}


def test_scores_under_mtebs_names_divided_by_100():
    result = sts("muse", "en-es", 76.858566, dataset=PUBLISHED, wall_time_s=1.5)
    files = written([result, replace(result, subset="ar-ar", metrics={"spearman": -4.28, "pearson": 1.0})])
    task = files["STS17.json"]
    assert (task["task_name"], task["mteb_version"], task["evaluation_time"]) == ("STS17", None, 3.0)
    arabic, spanish = task["scores"]["test"]
    assert spanish["hf_subset"] == "es-en"  # mteb's name, Spanish first
    assert spanish["languages"] == ["spa-Latn", "eng-Latn"]
    assert spanish["cosine_spearman"] == spanish["main_score"] == 0.76858566
    assert spanish["cosine_pearson"] == 0.75858566
    assert arabic["hf_subset"] == "ar-ar" and arabic["languages"] == ["ara-Arab"]
    assert arabic["main_score"] == -0.0428
    assert spanish["fingerprint"] == "muse-1" and spanish["dataset_sha256"] == "ab" * 32


def test_tatoeba_is_xx_to_en_and_ranked_by_f1():
    entry = written([tatoeba("kat", 17.5, 12.25)])["Tatoeba.json"]["scores"]["test"][0]
    assert entry["hf_subset"] == "kat-eng" and entry["languages"] == ["kat-Geor", "eng-Latn"]
    assert (entry["accuracy"], entry["f1"], entry["main_score"]) == (0.175, 0.1225, 0.1225)


def test_a_model_for_each_encoder_and_a_revision_for_each_fingerprint():
    results = [sts("muse", "en-en", 80), sts("muse", "es-es", 81, fingerprint="muse-2"), sts("e5", "en-en", 82)]
    files = mteb_files(results).files
    models = {path.parts[1] for path in files}
    assert {path.parts[0] for path in files} == {"results"}
    assert models == {"multilingual-embedding-harness__muse", "multilingual-embedding-harness__e5"}
    revisions = {path.parts[2] for path in files if path.parts[1].endswith("__muse")}
    assert len(revisions) == 2
    for path, content in files.items():
        if path.name == "model_meta.json":
            meta = json.loads(content)
            assert (meta["name"].replace("/", "__"), meta["revision"]) == path.parts[1:3]
    assert revisions == {path.parts[2] for path in mteb_files(results[:2]).files}  # the same the next time


def test_what_is_left_out_and_why():
    results = [
        sts("muse", "en-en", 80),
        sts("muse", "en-de@deepl", 80),
        sts("muse", "en-fr@deepl", 80),
        sts("muse", "en-en@sample", 80),
        sts("muse", "avg-same", 80, parts=["en-en", "es-es", "ar-ar"]),
        sts("muse", "es-es", 80, dataset=replace(PUBLISHED, published=False)),
        record("muse", "sts17", "ar-ar", {"pearson": 80.0}),
        record("muse", "korsts", "ko-ko", {"spearman": 80.0, "pearson": 80.0}),
        tatoeba("deu", 90.0, 88.0),
    ]
    made = mteb_files(results)
    subsets = [
        entry["hf_subset"]
        for path, content in made.files.items()
        if path.name != "model_meta.json"
        for entry in json.loads(content)["scores"]["test"]
    ]
    assert subsets == ["en-en", "deu-eng"]
    assert made.left_out == [
        "1 record: averages of sts17, which mteb makes itself",
        "1 record: mteb has no task with the data and the metrics of korsts",
        "2 records: sts17 on a stand-in for the published data (@deepl)",
        "1 record: sts17 on a stand-in for the published data (@sample)",
        "1 record: sts17 on files that are not the published ones",
        "1 record: sts17 without spearman or pearson",
        "the accuracy en -> xx of Tatoeba: mteb measures xx -> en only",
    ]
    assert mteb_files(results[1:3]).files == {}
