"""Statistics from rows: the numbers of SciPy and of `harness.statistics`, and nothing computed twice."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from measured_rows import N, store_measured, sts_rows

from harness.core.errors import InputError
from harness.encoders.reduction import Reduced
from harness.resampling.bootstrap import bca_interval, bootstrap
from harness.resampling.metrics import average
from harness.resampling.resamples import Resampling
from harness.resampling.tests import paired_tests
from harness.results.records import Dataset
from harness.results.statistics import StatisticsStore
from harness.results.store import ResultStore
from harness.running.plan import Silent
from harness.statistics import rows as stored
from harness.statistics import update
from harness.statistics.evidence import sample_of
from harness.statistics.rows import rows_file
from harness.statistics.update import update_statistics
from harness.tasks import get_task, sts17
from harness.tasks.language_bias import joining

PLAN = Resampling(resamples=500)
SAME = ("en-en", "es-es", "ar-ar")
ERRORS = {"good": 0.5, "fair": 1.5, "poor": 6.0}
STS = get_task("sts17")


class Notes(Silent):
    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, message: str) -> None:
        self.said.append(message)


def rows_of(encoder: str) -> dict[str, dict[str, np.ndarray]]:
    return {subset: sts_rows(subset, ERRORS[encoder], list(ERRORS).index(encoder)) for subset in SAME}


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    for encoder in ERRORS:
        store_measured(tmp_path, encoder, rows_of(encoder))
    return ResultStore(tmp_path)


def entries(store: ResultStore, task: str = "sts17") -> dict:
    return StatisticsStore(store.root).load(task).entries


@pytest.mark.slow
def test_an_interval_is_that_of_scipys_bca_bootstrap(store: ResultStore) -> None:
    update_statistics(store, [STS], Resampling(4000))
    rows = rows_of("fair")["en-en"]

    def rho(gold: np.ndarray, cosine: np.ndarray) -> float:
        return 100 * scipy.stats.spearmanr(gold, cosine).statistic

    theirs = scipy.stats.bootstrap(
        (rows["gold"], rows["cosine"]), rho, paired=True, vectorized=False, n_resamples=4000, method="BCa", rng=3
    )
    low, high = entries(store)["fair", "en-en"].interval["spearman"]
    tolerance = 0.06 * (high - low)  # some three standard errors of a 2.5 % quantile of 4,000 draws
    assert (low, high) == pytest.approx(tuple(theirs.confidence_interval), abs=tolerance)
    assert low < rho(rows["gold"], rows["cosine"]) < high


def test_every_number_is_that_of_harness_stats(store: ResultStore) -> None:
    update_statistics(store, [STS], PLAN)
    known = StatisticsStore(store.root).load("sts17")
    assert known.signature == PLAN.signature and known.level == 0.95
    assert set(known.entries) == {(encoder, subset) for encoder in ERRORS for subset in (*SAME, "avg-same")}
    names = sorted(ERRORS)
    for metric in ("spearman", "pearson"):
        samples = {s: sample_of(STS, metric, [rows_of(name)[s] for name in names]) for s in SAME}
        samples["avg-same"] = average([samples[subset] for subset in SAME])
        for subset, sample in samples.items():
            for name, interval in zip(names, bca_interval(bootstrap(sample, PLAN)), strict=True):
                assert known.entries[name, subset].interval[metric] == pytest.approx(
                    (interval.low, interval.high), abs=1e-4
                )
            for i, first in enumerate(names):
                tests = known.entries[first, subset].p.get(metric, {})
                expected = {names[j]: paired_tests(sample, [(i, j)], PLAN)[0].p for j in range(i + 1, len(names))}
                assert tests == pytest.approx(expected, abs=1e-6)


def test_language_bias_has_a_test_against_zero_and_the_finer_view(tmp_path: Path) -> None:
    bias = get_task("language-bias")
    rows = {}
    for encoder, offset in (("biased", 20.0), ("fair", 0.0)):
        parts = [sts_rows(subset, 1.0, 7) for subset in SAME]
        parts[0] = {**parts[0], "cosine": parts[0]["cosine"] + offset}
        joined = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        rows[encoder] = {"set": np.repeat(SAME, N), **joined}
        store_measured(tmp_path, encoder, {"official6": rows[encoder]}, "language-bias")
    update_statistics(ResultStore(tmp_path), [bias], PLAN)
    found = entries(ResultStore(tmp_path), "language-bias")
    assert found["biased", "official6"].p_zero["difference"] == pytest.approx(1 / 501, abs=1e-6)
    assert found["fair", "official6"].p_zero["difference"] > 0.05
    low, high = found["biased", "official6"].interval["difference"]
    assert low < high < 0 and set(found["biased", "official6"].p) == {"expected", "actual"}
    (expected,) = bca_interval(bootstrap(sample_of(bias, "difference", [rows["biased"]]), PLAN))
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-4)
    assert found["fair", "official6"].more["joining"] == joining(rows["fair"]).as_dict()


def test_a_second_update_computes_nothing_and_writes_nothing(
    store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    update_statistics(store, [STS], PLAN)
    file = StatisticsStore(store.root).file("sts17")
    before = file.read_bytes(), file.stat().st_mtime_ns
    monkeypatch.setattr(update, "_computed", lambda *arguments: pytest.fail("computed again"))
    update_statistics(store, [STS], PLAN)
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before


def test_one_more_encoder_adds_its_own_numbers_and_changes_no_other(store: ResultStore, tmp_path: Path) -> None:
    update_statistics(store, [STS], PLAN)
    all_at_once = StatisticsStore(store.root).file("sts17").read_bytes()
    other = tmp_path / "other"
    for encoder in reversed(ERRORS):
        store_measured(other, encoder, rows_of(encoder))
        update_statistics(ResultStore(other), [STS], PLAN)
    assert StatisticsStore(other).file("sts17").read_bytes() == all_at_once


def mined(seed: int, right: float = 1.3) -> dict[str, np.ndarray]:
    """BUCC rows of a training split: 60 gold pairs and 60 others, whose scores overlap."""
    rng = np.random.default_rng(seed)
    gold = np.arange(120) < 60
    score = np.where(gold, right, 1.0) + 0.2 * rng.normal(size=120)
    order = np.argsort(-score)
    sources = np.where(gold, np.arange(120), 1000 + rng.permutation(500)[:120])
    columns = {"row1": sources, "row2": sources, "score": score, "gold": gold}
    return {"split": np.full(120, "training"), **{key: column[order] for key, column in columns.items()}}


def test_bucc_does_not_depend_on_who_else_is_on_the_board(tmp_path: Path) -> None:
    """What is drawn there are the sentences that an encoder extracts pairs of."""
    bucc = get_task("bucc")
    for seed, encoder in enumerate("abc"):
        store_measured(tmp_path / "grown", encoder, {"de-en": mined(seed)}, "bucc")
        update_statistics(ResultStore(tmp_path / "grown"), [bucc], PLAN)
        store_measured(tmp_path / "whole", encoder, {"de-en": mined(seed)}, "bucc")
    update_statistics(ResultStore(tmp_path / "whole"), [bucc], PLAN)
    files = [StatisticsStore(tmp_path / name).file("bucc").read_bytes() for name in ("grown", "whole")]
    assert files[0] == files[1]
    found = entries(ResultStore(tmp_path / "whole"), "bucc")["a", "de-en"]
    assert "f1_train" in found.interval and "threshold" not in found.interval
    assert set(found.p["f1_train"]) == {"b", "c"}


@pytest.mark.slow
def test_the_average_of_bucc_resamples_each_pair_by_itself(tmp_path: Path) -> None:
    """Against SciPy's bootstrap of four independent samples; F1 of each pair is counted sentence by sentence."""
    bucc, pairs = get_task("bucc"), ("de-en", "fr-en", "ru-en", "zh-en")
    rows = {
        name: {pair: mined(10 * i + k, right) for k, pair in enumerate(pairs)}
        for i, (name, right) in enumerate((("good", 1.6), ("fair", 1.3)))
    }
    for name in rows:
        store_measured(tmp_path, name, {pair + "@mine": rows[name][pair] for pair in pairs}, "bucc")
    update_statistics(ResultStore(tmp_path), [bucc], Resampling(4000))

    counted = []  # of each pair, a sentence a row: correct, extracted and gold pairs
    for pair in pairs:
        own = rows["fair"][pair]
        threshold = bucc.aggregate(own)["threshold"]
        sentences: dict[int, list[int]] = {}
        for source, score, is_gold in zip(own["row1"], own["score"], own["gold"], strict=True):
            of_sentence = sentences.setdefault(source, [0, 0, 0])
            of_sentence[0] += bool(is_gold and score >= threshold)
            of_sentence[1] += bool(score >= threshold)
            of_sentence[2] += bool(is_gold)
        counted.append(np.array([c for c in sentences.values() if any(c)], float))

    def mean_f1(*drawn: np.ndarray, axis: int = -1) -> np.ndarray:
        sums = [counts[places].sum(axis=-2) for counts, places in zip(counted, drawn, strict=True)]
        return np.mean([200 * s[..., 0] / (s[..., 1] + s[..., 2]) for s in sums], axis=0)

    places = tuple(np.arange(len(counts)) for counts in counted)
    theirs = scipy.stats.bootstrap(places, mean_f1, vectorized=True, n_resamples=4000, method="BCa", rng=3)
    (record,) = [r for r in ResultStore(tmp_path).load("fair") if r.subset == "avg@mine"]
    assert record.metrics["f1_train"] == pytest.approx(mean_f1(*places)) and "threshold" not in record.metrics
    found = entries(ResultStore(tmp_path), "bucc")
    low, high = found["fair", "avg@mine"].interval["f1_train"]
    assert (low, high) == pytest.approx(tuple(theirs.confidence_interval), abs=0.06 * (high - low))
    of_pair = found["fair", "de-en@mine"].interval["f1_train"]
    assert high - low < 0.7 * (of_pair[1] - of_pair[0]), "four independent pairs: half as wide"
    assert found["fair", "avg@mine"].p["f1_train"]["good"] < 0.01


def test_without_rows_an_encoder_keeps_what_it_has_and_gets_no_new_test(store: ResultStore) -> None:
    update_statistics(store, [STS], PLAN)
    before = entries(store)
    for file in (store.root / "rows/poor").rglob("*.npz"):
        file.unlink()
    store_measured(store.root, "new", {subset: sts_rows(subset, 1.0, 9) for subset in SAME})
    update_statistics(store, [STS], PLAN)
    after = entries(store)
    assert after["poor", "en-en"] == before["poor", "en-en"]
    assert set(after["fair", "en-en"].p["spearman"]) == {"good", "poor", "new"}
    assert after["new", "en-en"].interval and after["new", "en-en"].p == {}, "its only later neighbour is poor"


def test_what_was_measured_anew_loses_its_old_numbers(store: ResultStore) -> None:
    update_statistics(store, [STS], PLAN)
    before = entries(store)
    changed = {"en-en": sts_rows("en-en", 3.0, 5)}
    store_measured(store.root, "good", changed, fingerprint="another")
    update_statistics(store, [STS], PLAN)
    after = entries(store)
    assert after["good", "en-en"].of != before["good", "en-en"].of
    assert after["good", "en-en"].interval != before["good", "en-en"].interval
    assert after["fair", "en-en"].p["spearman"]["good"] != before["fair", "en-en"].p["spearman"]["good"]
    assert ("good", "avg-same") not in after, "its sets are of two fingerprints now"
    assert after["good", "es-es"] == before["good", "es-es"] and after["poor", "es-es"] == before["poor", "es-es"]


def test_other_resamples_replace_all(store: ResultStore) -> None:
    update_statistics(store, [STS], PLAN)
    update_statistics(store, [STS], Resampling(100))
    assert StatisticsStore(store.root).load("sts17").signature == Resampling(100).signature
    assert min(p for entry in entries(store).values() for t in entry.p.values() for p in t.values()) > 1 / 102


def test_other_data_of_the_same_name_is_not_compared(store: ResultStore) -> None:
    store_measured(store.root, "odd", {"en-en": sts_rows("en-en", 1.0, 9)}, dataset=Dataset("x", "1" * 64, {}))
    update_statistics(store, [STS], PLAN)
    found = entries(store)
    assert found["odd", "en-en"].interval and not found["odd", "en-en"].p
    assert "odd" not in found["good", "en-en"].p["spearman"]


def test_damaged_rows_are_said_and_left_out(store: ResultStore) -> None:
    (record,) = [r for r in store.load("good", "sts17") if r.subset == "es-es"]
    file = rows_file(store.root, record.key, "npz")
    file.write_bytes(file.read_bytes()[:-50])
    notes = Notes()
    update_statistics(store, [STS], PLAN, notes.note)
    found = entries(store)
    assert sum("es-es.npz: not the rows of the stored result" in note for note in notes.said) == 1
    assert ("good", "es-es") not in found and ("good", "avg-same") not in found
    assert set(found["fair", "es-es"].p["spearman"]) == {"poor"} and ("good", "en-en") in found


def test_few_items_have_no_interval_and_no_test(tmp_path: Path) -> None:
    for seed, encoder in enumerate("ab"):
        store_measured(tmp_path, encoder, {"en-en": sts_rows("en-en", 1.0, seed, n=2)})
    update_statistics(ResultStore(tmp_path), [STS], PLAN)
    found = entries(ResultStore(tmp_path))["a", "en-en"]
    assert all(math.isnan(end) for end in found.interval["spearman"]) and math.isnan(found.p["spearman"]["b"])
    json.loads(StatisticsStore(tmp_path).file("sts17").read_text(), parse_constant=lambda name: pytest.fail(name))


@pytest.mark.slow
def test_a_task_of_another_package(store: ResultStore) -> None:
    """Every metric is resampled by calls of its own `aggregate`; one that fails at it does no harm."""
    own = replace(STS, resample=None)
    update_statistics(store, [own], Resampling(20))
    assert set(entries(store)["good", "en-en"].interval) == {"spearman", "pearson"}

    def fragile(rows: dict[str, np.ndarray]) -> dict[str, float]:
        if len(np.unique(rows["item"])) < N:
            raise ZeroDivisionError("no repeated items, please")
        return sts17.correlations(rows)

    notes = Notes()
    update_statistics(store, [replace(STS, aggregate=fragile, resample=None)], PLAN, notes.note)
    assert any("no intervals of sts17 en-en: ZeroDivisionError: no repeated items" in note for note in notes.said)


def test_samples_of_another_metric_are_refused(store: ResultStore) -> None:
    assert STS.resample
    resample = STS.resample
    notes: list[str] = []
    update_statistics(
        store, [replace(STS, resample=lambda rows, metric: resample(rows, "pearson"))], PLAN, notes.append
    )
    assert any("`resample` gives spearman" in note and "correct the task" in note for note in notes)
    assert not any("spearman" in entry.interval for entry in entries(store).values())


def test_rows_are_good_for_a_task_that_measures_more(store: ResultStore) -> None:
    record = store.load("good", "sts17")[0]
    more = replace(STS, aggregate=lambda rows: {**sts17.correlations(rows), "kendall": 1.0})
    assert stored.rows_of(store.root, more, record) is not None
    other = replace(STS, aggregate=lambda rows: {**sts17.correlations(rows), "spearman": 1.0})
    with pytest.raises(InputError, match="not the rows of the stored result"):
        stored.rows_of(store.root, other, record)


def test_a_task_that_cannot_score_its_rows_is_told_from_other_rows(store: ResultStore) -> None:
    record = store.load("good", "sts17")[0]
    newer = replace(STS, aggregate=lambda rows: {**sts17.correlations(rows), "kendall": float(rows["ranks"].mean())})
    message = r"\.npz: the task sts17 cannot score these rows \(KeyError: .*ranks.*\); measure again with `run --save-"
    with pytest.raises(InputError, match=message):
        stored.rows_of(store.root, newer, record)
    assert stored.are_usable(store.root, STS, record, "npz") and not stored.are_usable(store.root, STS, record, "jsonl")
    assert not stored.are_usable(store.root, newer, record, "npz")
    fewer = replace(STS, aggregate=lambda rows: {"spearman": sts17.correlations(rows)["spearman"]})
    with pytest.raises(InputError, match="not the rows of the stored result"):
        stored.rows_of(store.root, fewer, record)


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff"])
def test_damaged_statistics_are_said_and_made_again(store: ResultStore, content: bytes) -> None:
    update_statistics(store, [STS], PLAN)
    file = store.root / "statistics/sts17.json"
    good = file.read_bytes()
    file.write_bytes(content)
    notes = Notes()
    update_statistics(store, [STS], PLAN, notes.note)
    assert file.read_bytes() == good
    [warning] = [note for note in notes.said if note.startswith("warning")]
    assert "sts17.json: no statistics (" in warning and "made again" in warning and "\n" not in warning
    # Without rows there is nothing to make them of, but tables can be printed again.
    file.write_bytes(content)
    shutil.rmtree(store.root / "rows")
    update_statistics(store, [STS], PLAN)
    assert entries(store) == {}


def test_a_folder_that_cannot_be_written_is_one_line(store: ResultStore) -> None:
    (store.root / "statistics").write_text("")
    with pytest.raises(InputError, match=r"sts17\.json: cannot be written"):
        update_statistics(store, [STS], PLAN)


def test_cut_vectors_are_tested_against_the_full_ones_alone(tmp_path: Path) -> None:
    for encoder in ERRORS:
        store_measured(tmp_path, encoder, rows_of(encoder))
    store = ResultStore(tmp_path)
    update_statistics(store, [STS], PLAN)
    before = entries(store)
    made = {"good@2": rows_of("fair"), "good@int8": {s: sts_rows(s, 0.55, 9) for s in SAME}}
    done = {"good@2": Reduced(2, 8, "none"), "good@int8": Reduced(8, 8, "int8")}
    for name, rows in made.items():
        fingerprint = "good-1|truncate_dim:2" if name == "good@2" else "good-1|quantize:int8:0a"
        store_measured(tmp_path, name, rows, base="good", fingerprint=fingerprint, reduced=done[name])
    of_other_weights = {"base": "good", "fingerprint": "good-0|truncate_dim:2", "reduced": done["good@2"]}
    store_measured(tmp_path, "good@old", rows_of("poor"), **of_other_weights)
    update_statistics(store, [STS], PLAN)
    after = entries(store)
    assert {key: entry for key, entry in after.items() if key[0] in ("fair", "poor")} == {
        key: entry for key, entry in before.items() if key[0] in ("fair", "poor")
    }
    for subset in (*SAME, "avg-same"):
        assert not after["good@old", subset].p and not after["good@old", subset].difference
        assert set(after["good", subset].p["spearman"]) == {"poor", *made}
        for name, rows in made.items():
            assert not after[name, subset].p
            parts = [subset] if subset in SAME else SAME
            samples = [sample_of(STS, "spearman", [rows[part], rows_of("good")[part]]) for part in parts]
            (test,) = paired_tests(samples[0] if len(samples) == 1 else average(samples), [(0, 1)], PLAN)
            found = after[name, subset].difference["spearman"]
            assert found == {"good": pytest.approx((test.low, test.high), abs=1e-4)}
            assert after["good", subset].p["spearman"][name] == pytest.approx(test.p, abs=1e-6)
    statistics = StatisticsStore(tmp_path)
    known = statistics.load("sts17").current(store.load("good@2") + store.load("good"))
    record = next(r for r in store.load("good@2") if r.subset == "en-en")
    assert known.difference(record, "spearman") == after["good@2", "en-en"].difference["spearman"]["good"]
    file = statistics.file("sts17")
    content = file.read_bytes()
    update_statistics(store, [STS], PLAN)
    assert file.read_bytes() == content
    statistics.forget("good")
    assert not any(entry.difference.get("spearman") for entry in entries(store).values())
