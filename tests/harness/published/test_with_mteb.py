"""With mteb itself: it loads what is exported, and what it writes is imported; both measure the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from result_records import record, sts
from tiny_models import SENTENCES, write_bert, write_sentence_transformer

from harness.data.sts import STSPairs
from harness.data.tatoeba import TatoebaPairs, languages
from harness.published.mteb import BY_MTEB_NAME, TASKS, mteb_files
from harness.published.mteb_import import read_results
from harness.tasks import get_task

mteb = pytest.importorskip("mteb")
torch = pytest.importorskip("torch")
torch.set_num_threads(1)


def test_names_languages_and_revisions_are_mtebs():
    for task in TASKS:
        metadata = mteb.get_task(task.name).metadata
        theirs = metadata.hf_subsets_to_langscripts
        assert set(task.subsets.values()) == set(theirs)
        assert metadata.main_score == task.main_score and metadata.eval_splits == ["test"]
        if task.is_exported:
            assert task.revision == metadata.revision
            for subset, codes in task.languages.items():
                assert list(codes) == list(theirs[task.subsets[subset]])
    assert set(BY_MTEB_NAME["Tatoeba"].languages) == set(languages())


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Six sets of STS 2017 and two languages of Tatoeba, and the folder of their files."""
    results = [
        sts("muse", subset, 70 + i / 3)
        for i, subset in enumerate(("en-en", "es-es", "ar-ar", "en-ar", "en-es", "en-fr"))
    ]
    for subset, accuracy in (("kat", 17.5), ("cmn", 90.123456)):
        metrics = {"accuracy_en_xx": 1.0, "accuracy_xx_en": accuracy, "f1_weighted_xx_en": accuracy - 2}
        results.append(record("muse", "tatoeba", subset, metrics))
    results = [replace(result, wall_time_s=0.25) for result in results]
    out = tmp_path_factory.mktemp("exported")
    for name, content in mteb_files(results).files.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(content)
    return results, out


def test_task_result_loads_what_is_exported(exported):
    results, out = exported
    loaded = {file.stem: mteb.TaskResult.from_disk(file) for file in out.rglob("[ST]*.json")}
    assert loaded.keys() == {"STS17", "Tatoeba"}
    for name, task, metric in (("STS17", "sts17", "spearman"), ("Tatoeba", "tatoeba", "f1_weighted_xx_en")):
        ours = {r.subset: r.metrics[metric] / 100 for r in results if r.task == task}
        found = loaded[name]
        theirs = {entry["hf_subset"]: entry["main_score"] for entry in found.scores["test"]}
        assert theirs == pytest.approx({BY_MTEB_NAME[name].subsets[s]: v for s, v in ours.items()}, abs=1e-8)
        assert found.main_score == pytest.approx(np.mean(list(ours.values())), abs=1e-8)
        assert found.evaluation_time == 0.25 * len(ours)
        assert found.date.isoformat() == "2025-01-02T03:04:05+00:00"
    entries = {entry["hf_subset"]: entry for entry in loaded["Tatoeba"].scores["test"]}
    assert entries["cmn-eng"]["accuracy"] == pytest.approx(0.90123456)
    assert loaded["STS17"].get_score(languages=["ara"]) == pytest.approx((70 + 2 / 3 + 71) / 200, abs=1e-8)


def test_its_cache_finds_models_and_results(exported):
    _, out = exported
    cache = mteb.ResultCache(out)
    (model,) = cache.load_results().model_results
    assert model.model_name == "multilingual-embedding-harness/muse"
    assert {result.task_name for result in model.task_results} == {"STS17", "Tatoeba"}
    tasks = [mteb.get_task("STS17", hf_subsets=["en-en", "fr-en"])]
    (filtered,) = cache.load_results(tasks=tasks).model_results[0].task_results
    assert filtered.main_score == pytest.approx((70 + 70 + 5 / 3) / 200, abs=1e-8)
    frame = cache.load_results().to_dataframe()
    assert len(frame) == 2
    meta = (next(out.rglob("model_meta.json"))).read_text()
    assert mteb.models.ModelMeta.model_validate_json_resolved(meta).revision == model.model_revision


@pytest.fixture(scope="module")
def measured_by_mteb(tmp_path_factory):
    """mteb's own run of both tasks on a few sentences: our pairs, and the folder of its results."""
    from datasets import Dataset

    root = tmp_path_factory.mktemp("mteb")
    folder = write_sentence_transformer(root / "tiny-st", write_bert(root / "bert"))
    shuffled = np.random.default_rng(3)
    known = [text for text in SENTENCES if text]
    gold = shuffled.integers(0, 11, len(known)) / 2
    pairs = {"en-es": (known, known[::-1]), "ar-ar": (known, known[3:] + known[:3])}
    # The same vectors several times and small differences: ties, hits and misses.
    english = [*known[::-1][:4], *known[:3]]
    sts17 = mteb.get_task("STS17", hf_subsets=["es-en", "ar-ar"])
    sts17.dataset = {
        theirs: {"test": Dataset.from_dict({"sentence1": a, "sentence2": b, "score": gold})}
        for theirs, (a, b) in (("es-en", pairs["en-es"]), ("ar-ar", pairs["ar-ar"]))
    }
    tatoeba = mteb.get_task("Tatoeba", hf_subsets=["kat-eng"])
    tatoeba.dataset = {"kat-eng": {"test": Dataset.from_dict({"sentence1": known, "sentence2": english})}}
    sts17.data_loaded = tatoeba.data_loaded = True
    model = mteb.SentenceTransformerEncoderWrapper(str(folder), device="cpu")
    mteb.evaluate(model, [sts17, tatoeba], cache=mteb.ResultCache(root / "cache"), show_progress_bar=False)
    ours = {subset: STSPairs(subset, a, b, "en", "en", gold) for subset, (a, b) in pairs.items()}
    return folder, {**ours, "kat": TatoebaPairs("kat", known, english, "ka")}, root / "cache"


def test_what_mteb_measures_is_what_we_measure(measured_by_mteb):
    from baselines.adapters.sentence_transformer import load

    folder, pairs, cache = measured_by_mteb
    encoder = load(str(folder), device="cpu")
    read = read_results([cache])
    assert {result.mteb_task for result in read.results} == {"STS17", "Tatoeba"}
    for result in read.results:
        assert result.model == "tiny-st" and result.mteb_version == mteb.__version__
        task = get_task(result.task)
        for subset, scores in result.scores.items():
            ours = task.aggregate(task.rows(pairs[subset], lambda texts, lang: encoder.encode(texts)))
            assert scores == pytest.approx({metric: ours[metric] for metric in scores}, abs=1e-3), subset
            assert any(0 < abs(score) < 100 for score in scores.values())


def test_files_of_before_1_11_mean_to_mteb_what_they_mean_to_us(tmp_path):
    from mteb_files import LABSE, LABSE_REVISION, OLD_STS, OLD_TATOEBA, write

    for name, content in (("STS17", OLD_STS), ("Tatoeba", OLD_TATOEBA)):
        file = write(tmp_path / LABSE / LABSE_REVISION / f"{name}.json", content)
        theirs = {entry["hf_subset"]: entry for entry in mteb.TaskResult.from_disk(file).scores["test"]}
        (ours,) = read_results([file]).results
        task = BY_MTEB_NAME[name]
        for subset, scores in ours.scores.items():
            for metric, score in scores.items():
                assert score / 100 == pytest.approx(theirs[task.subsets[subset]][task.metrics[metric]])
