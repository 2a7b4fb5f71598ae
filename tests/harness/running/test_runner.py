"""The runner and the Python API: what is encoded, stored, skipped, averaged and reported as failed."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoders import Letters, Metered
from result_records import record

from harness import evaluate, tasks
from harness.core.errors import InputError, LanguageError, NameTakenError
from harness.core.files import remove_unclaimed
from harness.core.threads import available_cores
from harness.data import bundled_sample, open_data_dir
from harness.encoders.cache import VectorCache
from harness.encoders.reduction import Reduced, Reduction
from harness.encoders.variant import Variant
from harness.results import store as results
from harness.results.statistics import StatisticsStore
from harness.results.store import ResultStore
from harness.running.measure import Run, averages_of
from harness.running.plan import Items, Silent, absent_sets, make_plan
from harness.running.suite import Request, measure_and_store, run_suite
from harness.statistics.update import update_statistics

ALL = [tasks.get_task(name) for name in tasks.task_names()]


def test_the_suite_encodes_every_distinct_sentence_once_over_all_tasks(tmp_path: Path) -> None:
    encoder = Letters()
    plan = make_plan(ALL, bundled_sample())
    results = measure_and_store(Run(VectorCache(tmp_path / "cache"), ResultStore(tmp_path)), plan, encoder).results
    assert len(encoder.seen) == len(set(encoder.seen))
    found = {(result.task, result.subset) for result in results}
    assert {("sts17", "avg-cross@sample"), ("language-bias", "ten@sample"), ("bucc", "zh-en@sample")} <= found
    assert all("@sample" in subset for _, subset in found)
    assert sorted(ResultStore(tmp_path).load(), key=str) == sorted(results, key=str)


def test_a_second_run_encodes_and_measures_nothing(tmp_path: Path) -> None:
    arguments = {"results": tmp_path, "cache_dir": tmp_path / "cache"}
    first = evaluate(Letters(), **arguments)
    files = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    again = Letters()
    assert evaluate(again, **arguments) == first
    assert again.seen == [] and {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == files


def test_an_encoder_is_measured_in_full_and_in_every_reduction_with_one_encoding(tmp_path: Path) -> None:
    encoder, notes = Letters(), []
    reductions = [Reduction(None, "none"), Reduction(40), Reduction(32, "binary"), Reduction(7), Reduction(7)]
    request = Request(
        [encoder], ["sts17"], ["en-en@sample"], results=tmp_path, cache_dir=tmp_path, reductions=reductions
    )
    progress = Silent()
    progress.note = notes.append  # type: ignore[attr-defined]
    found = run_suite(request, progress).results
    assert [(r.encoder, r.base, r.reduced) for r in found] == [
        ("letters", None, None),
        ("letters@binary", "letters", Reduced(32, 32, "binary")),  # to cut to all dimensions is not to cut
        ("letters@7", "letters", Reduced(7, 32, "none")),
    ]
    assert len(encoder.seen) == len(set(encoder.seen))
    assert "letters: 40 dimensions passed over, its vectors have 32" in notes
    stored = {r.encoder: r for r in ResultStore(tmp_path).load()}
    assert stored == {r.encoder: r for r in found}
    file = tmp_path / "records" / "letters" / "sts17.json"
    assert "base" not in file.read_text() and "reduced" not in file.read_text()


@pytest.mark.parametrize("damage", ['"dim": 0', '"dim": "x"', '"dim": 7, "no_field": 1'])
def test_damaged_reductions_are_named(tmp_path: Path, damage: str) -> None:
    evaluate(Variant(Letters(), Reduction(7)), "sts17", subsets="en-en@sample", results=tmp_path, cache_dir=tmp_path)
    file = tmp_path / "records" / "letters@7" / "sts17.json"
    file.write_text(file.read_text().replace('"dim": 7', damage))
    with pytest.raises(InputError, match=r"sts17.json: no list of result records"):
        ResultStore(tmp_path).load()


def test_nine_sets_are_read_once_and_their_records_are_parsed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each finished set is written at once (a kill may come at any time); nothing else is done again."""
    counts: Counter[str] = Counter()

    def counting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            counts[name] += 1
            return function(*arguments)

        return counted

    for code in ("ara", "deu", "spa", "fra", "ita", "nld", "rus", "tur", "cmn"):
        folder = tmp_path / "data" / "tatoeba" / "v1"
        folder.mkdir(parents=True, exist_ok=True)
        for side in (code, "eng"):
            (folder / f"tatoeba.{code}-eng.{side}").write_text("a b\nabc\nxyz\n")
    tatoeba = tasks.get_task("tatoeba")
    task = replace(tatoeba, load=counting("loads", tatoeba.load))
    monkeypatch.setattr("harness.results.store._parse", counting("parses", results._parse))
    monkeypatch.setattr("harness.results.store._dump", counting("rewrites", results._dump))
    arguments = {"data_dir": tmp_path / "data", "results": tmp_path / "r", "cache_dir": tmp_path / "cache"}
    first = evaluate(Letters(), task, subsets=["deu", "fra"], **arguments)
    assert len(first) == 2 and counts == {"loads": 2, "rewrites": 2, "parses": 1}  # by the statistics
    counts.clear()
    assert len(evaluate(Letters(), task, **arguments)) == 9 + 1  # avg-student
    assert counts == {"loads": 9, "rewrites": 7, "parses": 2}
    counts.clear()
    evaluate(Letters(), task, **arguments)
    assert counts == {"loads": 9, "parses": 1}


def test_a_large_set_is_not_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, loaded = tasks.get_task("sts17"), []
    plan = make_plan(
        [replace(task, load=lambda s: loaded.append(s) or task.load(s))], bundled_sample(), ["avg-same@sample"]
    )
    [planned] = plan
    monkeypatch.setattr("harness.running.plan._KEPT_BYTES", sum(f.stat().st_size for f in planned.sources[0].files))
    items = Items()
    for _ in range(2):
        items.read(plan)
    assert len(planned.sources) == 3 and loaded == [*planned.sources, *planned.sources[1:]]


def test_fresh_measures_again_from_cached_vectors(tmp_path: Path) -> None:
    arguments = {"results": tmp_path, "cache_dir": tmp_path / "cache", "tasks": "sts17"}
    first = evaluate(Letters(), **arguments)
    again = Letters()
    second = evaluate(again, fresh=True, **arguments)
    assert again.seen == []
    assert [r.metrics for r in second] == [r.metrics for r in first]


def test_averages_are_unweighted_means_and_complete_over_several_runs(tmp_path: Path) -> None:
    arguments = {"results": tmp_path, "cache_dir": tmp_path / "cache", "tasks": "sts17"}
    first = evaluate(Letters(), subsets=["en-en@sample", "es-es@sample"], **arguments)
    assert not any(result.parts for result in first)
    second = evaluate(Letters(), subsets=["ar-ar@sample"], **arguments)
    (average,) = [result for result in second if result.parts]
    scores = [r.metrics["spearman"] for r in [*first, *second] if not r.parts]
    assert average.subset == "avg-same@sample" and average.n == 180
    assert average.metrics["spearman"] == pytest.approx(sum(scores) / 3, abs=1e-5)


@pytest.mark.parametrize("kind", [RuntimeError, LanguageError])
def test_an_error_of_the_encoder_fails_one_subset_only(tmp_path: Path, kind: type[Exception]) -> None:
    class Fragile(Letters):
        def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
            if lang == "ar":
                raise kind("no Arabic today")
            return super().encode(sentences, lang=lang)

    run = Run(VectorCache(tmp_path / "cache"), ResultStore(tmp_path))
    outcome = measure_and_store(run, make_plan([tasks.get_task("sts17")], bundled_sample()), Fragile())
    assert {failure.subset for failure in outcome.failures} == {"ar-ar@sample", "en-ar@sample"}
    assert {r.subset for r in outcome.results}.isdisjoint({"ar-ar@sample", "avg-same@sample", "avg-cross@sample"})
    with pytest.raises(kind, match="no Arabic today"):
        evaluate(Fragile(), "sts17", cache_dir=tmp_path / "cache2")


def test_vectors_that_are_none_end_the_encoder_and_name_the_row(tmp_path: Path) -> None:
    class Broken(Letters):
        def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
            vectors = super().encode(sentences, lang=lang)
            vectors[[sentence == "gh" for sentence in sentences]] = np.nan
            return vectors

    folder = tmp_path / "data" / "sts17-extended"
    folder.mkdir(parents=True)
    (folder / "STS.en-de.txt").write_text("a long one\tb\t1\nc\td\t2\ngh\te\t3\n")
    with pytest.raises(InputError, match="'letters' returned NaN in row 2 for the sentence 'gh'"):
        evaluate(Broken(), "sts17", data_dir=tmp_path / "data", cache_dir=tmp_path / "cache")


def test_an_encoder_without_vectors_is_asked_once(tmp_path: Path) -> None:
    class Shapeless(Letters):
        def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
            self.seen.append(sentences[0])
            return np.zeros((len(sentences), 1), np.float32)

    encoder, run = Shapeless(), Run(VectorCache(tmp_path))
    outcome = measure_and_store(run, make_plan(ALL, bundled_sample()), encoder)
    assert outcome.results == []
    assert len(encoder.seen) == len(outcome.failures) == 1


@pytest.mark.parametrize("name", ["../escaped", "a[b]", "", "a/b", ".hidden"])
def test_a_name_that_cannot_name_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    encoder = Letters()
    encoder.name = name
    with pytest.raises(InputError, match="cannot name a folder"):
        evaluate(encoder, "sts17", results=tmp_path, cache_dir=tmp_path / "cache")


def test_what_is_no_encoder_is_refused_with_what_to_give() -> None:
    lacks = "object is no encoder, it lacks name, fingerprint, dim, uses_lang, encode; give a spec string"
    with pytest.raises(InputError, match=f"{lacks} such as 'sentence-transformers:"):
        evaluate(object(), "sts17")
    with pytest.raises(InputError, match="Letters is a class, no encoder; give a spec string"):
        evaluate(Letters, "sts17")


def test_a_task_without_data_is_named_with_what_to_give(tmp_path: Path) -> None:
    own = replace(tasks.get_task("sts17"), name="own", sources=lambda data: {})
    with pytest.raises(InputError, match="the bundled sample has no data set of own; give --data-dir or set HARNESS"):
        run_suite(Request(["chargrams"], [own], results=tmp_path))
    with pytest.raises(InputError, match=f"no data set of own found in {tmp_path}; see `leaderboard data status`"):
        run_suite(Request(["chargrams"], [own], data_dir=tmp_path, results=tmp_path))
    unpublished = replace(own, published=())  # as another package's task may be, which is none of the user's own sets
    with pytest.raises(InputError, match="the bundled sample has no data set of own; give --data-dir or set HARNESS"):
        run_suite(Request(["chargrams"], [unpublished], results=tmp_path))
    with pytest.raises(InputError, match=f"no data set of own found in {tmp_path}; give a --data-dir that has one"):
        run_suite(Request(["chargrams"], [unpublished], data_dir=tmp_path, results=tmp_path))
    with pytest.raises(InputError, match=r"^pairs: for data sets of your own; give --pairs, --scored, --beir or"):
        run_suite(Request(["chargrams"], ["pairs"], data_dir=tmp_path, results=tmp_path))


def sts_data(root: Path, **scores: str) -> Path:
    """A data directory with the three same-language tracks, three pairs each, whose gold scores may be changed."""
    (root / "sts17").mkdir(parents=True, exist_ok=True)
    for track in ("track5.en-en", "track3.es-es", "track1.ar-ar"):
        gold = scores.get(track.partition(".")[0], "1\n2\n5\n")
        (root / "sts17" / f"STS.input.{track}.txt").write_text("a b\tc d\nabc\tabd\nxyz\txyz\n")
        (root / "sts17" / f"STS.gs.{track}.txt").write_text(gold)
    return root


def stored_scores(root: Path) -> dict[str, float]:
    return {result.subset: result.metrics["spearman"] for result in ResultStore(root).load()}


def test_an_average_follows_its_parts_even_if_a_run_breaks_off(tmp_path: Path) -> None:
    class Breaking(Letters):
        n_calls = 0

        def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
            raise KeyboardInterrupt

    arguments = {"results": tmp_path / "r", "cache_dir": tmp_path / "cache", "tasks": "sts17"}
    evaluate(Letters(), data_dir=sts_data(tmp_path / "a"), **arguments)
    before = stored_scores(tmp_path / "r")
    assert before["avg-same"] == pytest.approx((before["en-en"] + before["es-es"] + before["ar-ar"]) / 3, abs=1e-5)
    changed = sts_data(tmp_path / "b", track5="5\n1\n2\n")
    (changed / "sts17" / "STS.input.track3.es-es.txt").write_text("q\tr\ns\tt\nu\tv\n")
    with pytest.raises(KeyboardInterrupt):  # at es-es, whose sentences are new; en-en is stored by then
        evaluate(Breaking(), data_dir=changed, **arguments)
    after = stored_scores(tmp_path / "r")
    assert after["en-en"] != before["en-en"] and after["es-es"] == before["es-es"]
    assert after["avg-same"] == pytest.approx((after["en-en"] + after["es-es"] + after["ar-ar"]) / 3, abs=1e-5)


def test_two_runs_at_once_complete_an_average(tmp_path: Path) -> None:
    data = sts_data(tmp_path / "data")
    arguments = {"results": tmp_path / "r", "cache_dir": tmp_path / "cache", "data_dir": data, "tasks": "sts17"}

    class Interrupted(Letters):
        """While it works on en-en, another run does the other sets."""

        def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
            evaluate(Letters(), subsets=["es-es", "ar-ar"], **arguments)
            return super().encode(sentences, lang=lang)

    evaluate(Interrupted(), subsets=["en-en"], **arguments)
    assert set(stored_scores(tmp_path / "r")) == {"en-en", "es-es", "ar-ar", "avg-same"}


def test_rows_that_are_there_are_not_written_again(tmp_path: Path) -> None:
    arguments = {"subsets": ["en-de@sample"], "results": tmp_path, "cache_dir": tmp_path / "cache"}
    evaluate(Letters(), "sts17", **arguments)
    evaluate(Letters(), "sts17", save_rows="jsonl", **arguments)
    (file,) = (tmp_path / "rows").rglob("*.jsonl")
    written = file.stat().st_mtime_ns
    evaluate(Letters(), "sts17", save_rows="jsonl", **arguments)
    assert file.stat().st_mtime_ns == written
    file.unlink()
    evaluate(Letters(), "sts17", save_rows="jsonl", **arguments)
    assert file.is_file()


def test_rows_that_the_task_cannot_score_are_made_again_where_rows_are_asked_for(tmp_path: Path) -> None:
    """As a table's hint says, after a task got a metric with a new column and the statistics were lost."""
    old = tasks.get_task("sts17")
    new = replace(
        old,
        metrics=(*old.metrics, tasks.Metric("cosine", kind="threshold")),
        rows=lambda items, encode: {**old.rows(items, encode), "more": np.ones(len(items.gold))},
        aggregate=lambda rows: {**old.aggregate(rows), "cosine": float(rows["more"].mean())},
    )
    arguments = {"subsets": ["en-de@sample"], "results": tmp_path, "cache_dir": tmp_path / "cache"}
    evaluate(Letters(), old, **arguments)
    shutil.rmtree(tmp_path / "statistics")
    progress = Notes()
    request = Request([Letters()], [new], ["en-de@sample"], results=tmp_path, cache_dir=tmp_path / "cache")
    run_suite(request, progress)
    assert sum("cannot score these rows (KeyError: 'more" in note for note in progress.said) == 1
    assert not StatisticsStore(tmp_path).load("sts17").entries
    run_suite(replace(request, save_rows="npz"))
    (record,) = ResultStore(tmp_path).load()
    assert set(record.metrics) == {"spearman", "pearson", "cosine"}
    entry = StatisticsStore(tmp_path).load("sts17").entry(record)
    assert entry and set(entry.interval) == {"spearman", "pearson"}


def test_rows_do_not_outlive_their_record(tmp_path: Path) -> None:
    arguments = {"subsets": "en-de@sample", "results": tmp_path, "cache_dir": tmp_path / "cache"}
    evaluate(Letters(), "sts17", save_rows="jsonl", **arguments)
    evaluate(Letters(), "sts17", fresh=True, **arguments)
    assert [path.suffix for path in (tmp_path / "rows").rglob("*.*")] == [".npz"]


def test_a_score_that_is_no_number_is_not_stored(tmp_path: Path) -> None:
    task = replace(tasks.get_task("sts17"), aggregate=lambda rows: {"spearman": float("nan")})
    with pytest.raises(RuntimeError, match="spearman = nan"):
        evaluate(Letters(), task, subsets="en-en@sample", results=tmp_path, cache_dir=tmp_path / "cache")
    assert ResultStore(tmp_path).load() == []


class Notes(Silent):
    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, message: str) -> None:
        self.said.append(message)


def letters(fingerprint: str) -> Letters:
    encoder = Letters()
    encoder.fingerprint = fingerprint
    return encoder


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != ".lock"}


@pytest.mark.parametrize("fresh", [False, True])
def test_other_weights_under_a_stored_name_are_refused(tmp_path: Path, fresh: bool) -> None:
    where = {"results": tmp_path / "results", "cache_dir": tmp_path / "cache"}
    evaluate(letters("v1"), "sts17", subsets="avg-same@sample", **where)
    before = content(tmp_path / "results")
    with pytest.raises(NameTakenError, match=r"\(v1, now v2\); add name=\.\.\. .* or --replace"):
        evaluate(letters("v2"), "sts17", subsets="en-tr@sample", fresh=fresh, **where)
    assert content(tmp_path / "results") == before
    evaluate(letters("v1"), "sts17", subsets="avg-same@sample", fresh=True, **where)
    assert content(tmp_path / "results").keys() == before.keys()


def test_replace_removes_all_that_is_stored_under_the_name(tmp_path: Path) -> None:
    store, chosen = ResultStore(tmp_path / "results"), [tasks.get_task("sts17"), tasks.get_task("korsts")]
    other = evaluate(Letters(), "sts17", results=store.root, cache_dir=tmp_path / "cache")[0]  # another name: it stays
    for subsets in (["avg-same@sample"], ["ko-ko@sample"]):
        plan = make_plan(chosen, bundled_sample(), subsets)
        measure_and_store(Run(VectorCache(tmp_path / "cache"), store), plan, named("mine", "v1"))
    update_statistics(store, chosen)
    assert ("mine", "en-en@sample") in StatisticsStore(store.root).load("sts17").entries
    kept = {r for r in map(str, store.load("letters"))}
    notes = Notes()
    run = Run(VectorCache(tmp_path / "cache"), store, progress=notes, replace=True)
    measure_and_store(run, make_plan(chosen, bundled_sample(), ["en-tr@sample"]), named("mine", "v2"))
    assert [(r.fingerprint, r.subset) for r in store.load("mine")] == [("v2", "en-tr@sample")]
    assert notes.said == ["mine: 5 stored results of other weights or options replaced"]
    assert [p.name for p in (store.root / "rows/mine").rglob("*.npz")] == ["en-tr@sample.npz"]
    known = StatisticsStore(store.root).load("sts17").entries
    assert {name for name, _ in known} == {"letters"}
    assert "mine" not in str(known.values())
    assert {str(r) for r in store.load("letters")} == kept and other.encoder == "letters"
    assert not list(store.root.glob(".replaced*"))
    plan = make_plan(chosen, bundled_sample(), ["en-en@sample"])
    measure_and_store(run, plan, named("mine", "v2"))  # the same weights
    assert [r.subset for r in store.load("mine")] == ["en-en@sample", "en-tr@sample"]


def named(name: str, fingerprint: str) -> Letters:
    encoder = letters(fingerprint)
    encoder.name = name
    return encoder


def test_nothing_is_removed_before_the_first_new_result_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = {"results": tmp_path / "results", "cache_dir": tmp_path / "cache"}
    evaluate(letters("v1"), "sts17", subsets="avg-same@sample", **where)
    before = content(tmp_path / "results")

    class Failing(Letters):
        fingerprint = "v2"

        def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
            raise ValueError("out of words")

    with pytest.raises(RuntimeError):
        evaluate(Failing(), "sts17", subsets="en-en@sample", replace=True, **where)
    assert content(tmp_path / "results") == before

    def full(*arguments: object) -> None:
        raise InputError("no space left")

    monkeypatch.setattr(ResultStore, "merge", full)
    with pytest.raises(InputError, match="no space left"):
        evaluate(letters("v2"), "sts17", subsets="en-en@sample", replace=True, **where)
    assert content(tmp_path / "results") == before


class Interrupted(Letters):
    """Calls a function while it encodes for the first time, as another process might do something then."""

    def __init__(self, name: str, fingerprint: str, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self.name, self.fingerprint, self._meanwhile = name, fingerprint, [meanwhile]

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        while self._meanwhile:
            self._meanwhile.pop()()
        return super().encode(sentences, lang=lang)


def test_two_runs_that_replace_keep_what_both_have_measured(tmp_path: Path) -> None:
    where = {"results": tmp_path / "results", "replace": True}
    evaluate(named("mine", "v1"), "sts17", subsets="avg-same@sample", cache_dir=tmp_path / "a", **where)

    def other() -> None:
        evaluate(named("mine", "v2"), "sts17", subsets="en-tr@sample", cache_dir=tmp_path / "b", **where)

    encoder = Interrupted("mine", "v2", other)
    evaluate(encoder, "sts17", subsets="en-en@sample", cache_dir=tmp_path / "c", **where)
    stored = ResultStore(tmp_path / "results").load()
    assert [(r.subset, r.fingerprint) for r in stored] == [("en-en@sample", "v2"), ("en-tr@sample", "v2")]
    assert len(list((tmp_path / "results/rows/mine").rglob("*.npz"))) == 2


def test_two_runs_of_other_weights_leave_no_mixture(tmp_path: Path) -> None:
    def other() -> None:
        evaluate(named("mine", "v2"), "sts17", subsets="en-tr@sample", results=tmp_path, cache_dir=tmp_path / "b")

    with pytest.raises(NameTakenError):
        encoder = Interrupted("mine", "v1", other)
        evaluate(encoder, "sts17", subsets="en-en@sample", results=tmp_path, cache_dir=tmp_path / "c")
    assert [r.fingerprint for r in ResultStore(tmp_path).load()] == ["v2"]


@pytest.mark.parametrize("moved", [[], ["records"], ["records", "rows"]])
def test_what_a_kill_has_set_aside_is_put_back(tmp_path: Path, moved: list[str]) -> None:
    results, cache = tmp_path / "results", tmp_path / "cache"
    evaluate(named("mine", "v1"), "sts17", subsets="avg-same@sample", results=results, cache_dir=cache)
    before = content(results)
    (results / ".replaced-mine").mkdir()
    for part in moved:
        (results / part / "mine").rename(results / ".replaced-mine" / part)
    (results / "records/mine").mkdir(exist_ok=True)  # as far as the new result came
    with pytest.raises(NameTakenError):
        evaluate(named("mine", "v2"), "sts17", subsets="en-en@sample", results=results, cache_dir=cache)
    assert content(results) == before


def test_what_has_a_successor_is_not_put_back(tmp_path: Path) -> None:
    results, cache = tmp_path / "results", tmp_path / "cache"
    evaluate(named("mine", "v2"), "sts17", subsets="en-en@sample", results=results, cache_dir=cache)
    before = content(results)
    evaluate(named("mine", "v1"), "sts17", subsets="avg-same@sample", results=tmp_path / "old", cache_dir=cache)
    (results / ".replaced-mine").mkdir()
    for part in ("records", "rows"):
        (tmp_path / "old" / part / "mine").rename(results / ".replaced-mine" / part)
    evaluate(named("mine", "v2"), "sts17", subsets="en-en@sample", results=results, cache_dir=cache)
    assert content(results) == before and not (results / ".replaced-mine").exists()


def test_rows_that_cannot_be_set_aside_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results, cache = tmp_path / "results", tmp_path / "cache"
    evaluate(named("mine", "v1"), "sts17", subsets="avg-same@sample", results=results, cache_dir=cache)
    before, rename = content(results), Path.rename

    def some(path: Path, target: Path) -> Path:
        if path == results / "rows/mine":
            raise PermissionError(13, "Permission denied")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", some)
    with pytest.raises(InputError, match="Permission denied"):
        evaluate(named("mine", "v2"), "sts17", subsets="en-en@sample", replace=True, results=results, cache_dir=cache)
    assert content(results) == before


def test_an_encoder_that_failed_does_not_keep_its_vectors(tmp_path: Path) -> None:
    class Failing(Letters):
        def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
            raise ValueError("out of words")

    run = Run(VectorCache(tmp_path))
    plan = make_plan([tasks.get_task("sts17")], bundled_sample(), ["en-en@sample"])
    outcome = measure_and_store(run, plan, Failing())
    [folder] = (tmp_path / "vectors").iterdir()
    assert outcome.failures and remove_unclaimed(folder)


def test_a_mixture_is_replaced_whole(tmp_path: Path) -> None:
    """As earlier versions left it, with a subset that is of the encoder's weights already."""
    store, where = ResultStore(tmp_path), {"results": tmp_path, "cache_dir": tmp_path / "cache"}
    evaluate(letters("v1"), "sts17", subsets="avg-same@sample", **where)
    store.merge([replace(store.load("letters")[-1], fingerprint="v2")])
    evaluate(letters("v2"), "sts17", subsets=["es-es@sample", "en-en@sample"], replace=True, **where)
    assert [(r.subset, r.fingerprint) for r in store.load()] == [("en-en@sample", "v2"), ("es-es@sample", "v2")]


def test_zero_vectors_are_counted(tmp_path: Path) -> None:
    class Mute(Letters):
        def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
            return super().encode(sentences, lang=lang) * np.array([[len(s) % 2] for s in sentences], np.float32)

    (result,) = evaluate(Mute(), "sts17", subsets=["en-en@sample"], cache_dir=tmp_path)
    pairs = tasks.get_task("sts17").load(tasks.get_task("sts17").sources(bundled_sample())["en-en@sample"])
    assert result.zero_vectors == sum(len(s) % 2 == 0 for s in {*pairs.sentences1, *pairs.sentences2})


def test_a_record_says_how_its_vectors_were_made(tmp_path: Path) -> None:
    results = {r.subset: r for r in evaluate(Metered(), "sts17", results=tmp_path, cache_dir=tmp_path / "cache")}
    average = results["avg-same@sample"]
    parts = [results[name] for name in average.parts]
    assert all(r.threads == available_cores() and r.conditions == {"precision": "bf16"} for r in results.values())
    assert all(part.usage["tokens"] > 1000 for part in parts)
    assert average.usage["tokens"] == pytest.approx(sum(part.usage["tokens"] for part in parts), abs=0.01)
    (record, *_) = json.loads((tmp_path / "records" / "counting" / "sts17.json").read_text())
    assert record["conditions"] == {"precision": "bf16"}
    again = evaluate(Metered("fp32"), "sts17", cache_dir=tmp_path / "cache")  # the vectors are still those of bf16
    assert all(result.conditions == {"precision": "bf16"} for result in again)


def test_an_average_is_completed_from_what_is_stored(tmp_path: Path) -> None:
    """A task may have got an average since its records were made; nothing is encoded for it."""
    store = ResultStore(tmp_path / "results")
    run = Run(VectorCache(tmp_path / "cache"), store)
    plan = make_plan([tasks.get_task("bucc")], bundled_sample())
    measure_and_store(run, plan, Letters())
    stored = store.load("letters", "bucc")
    assert [r.subset for r in stored if r.parts] == ["avg@sample"]
    store.drop([r for r in stored if r.parts])
    assert not [r for r in store.load("letters", "bucc") if r.parts]
    again = Letters()
    outcome = measure_and_store(run, plan, again)
    assert store.load("letters", "bucc") == stored and "avg@sample" in [r.subset for r in outcome.results]
    assert not again.seen


def test_threads_of_an_average_are_those_of_all_its_parts() -> None:
    task = tasks.get_task("sts17")

    def average(*threads: int | str | None) -> Any:
        scores = {"spearman": 1.0, "pearson": 1.0}
        subsets = ("en-en", "es-es", "ar-ar")
        parts = [record("a", "sts17", subset, scores, signature=task.full_signature) for subset in subsets]
        said = [{"threads": n} if isinstance(n, int) else {"conditions": {"threads": n}} if n else {} for n in threads]
        (found,) = averages_of(task, [replace(r, **facts) for r, facts in zip(parts, said, strict=True)])
        return found.threads, found.conditions

    assert average(4, 4, 4) == (4, {})
    assert average(4, None, 4) == (None, {"threads": "4, unknown"})  # of an older record it is not known
    assert average(4, "2, 4", 4) == (None, {"threads": "2, 4"})


def test_a_record_can_be_traced_and_names_no_machine_path(tmp_path: Path) -> None:
    evaluate(Letters(), "bucc", subsets=["de-en@sample"], results=tmp_path, cache_dir=tmp_path / "cache")
    text = (tmp_path / "records" / "letters" / "bucc.json").read_text()
    (record,) = json.loads(text)
    assert record["dataset"]["sha256"] and len(record["dataset"]["files"]) == 6
    assert record["n"] == 60 and record["task_version"] == "1" and record["versions"]["numpy"] == np.__version__
    assert record["hardware"]["cores"] >= 1 and record["peak_memory_mb"] is None
    assert record["sentences_per_s"] is None  # too few sentences to tell
    assert record["threads"] == available_cores() and "conditions" not in record and "base" not in record
    assert str(tmp_path) not in text and str(Path(__file__).parents[3]) not in text


@pytest.mark.parametrize("file_format", ["jsonl", "parquet"])
def test_rows_are_kept_and_give_the_metrics_again(tmp_path: Path, file_format: str) -> None:
    (result,) = evaluate(
        Letters(), "sts17", subsets=["en-de@sample"], results=tmp_path, cache_dir=tmp_path, save_rows=file_format
    )
    file = tmp_path / "rows" / "letters" / "sts17" / f"en-de@sample.{file_format}"
    if file_format == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        rows = parquet.read_table(file).to_pylist()
    else:
        rows = [json.loads(line) for line in file.read_text().splitlines()]
    columns = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    again = tasks.get_task("sts17").aggregate(columns)
    assert again["spearman"] == pytest.approx(result.metrics["spearman"], abs=1e-5)


def test_by_default_rows_are_kept_for_numpy_without_pickling(tmp_path: Path) -> None:
    sts17 = tasks.get_task("sts17")

    def rows(pairs: object, encode: object) -> dict[str, np.ndarray]:
        own = sts17.rows(pairs, encode)  # type: ignore[arg-type]
        return {**own, "word": np.array([f"w{i}" for i in own["item"]], dtype=object)}

    (result,) = evaluate(
        Letters(), replace(sts17, rows=rows), subsets=["en-de@sample"], results=tmp_path, cache_dir=tmp_path / "cache"
    )
    with np.load(tmp_path / "rows/letters/sts17/en-de@sample.npz", allow_pickle=False) as file:
        assert file["word"].tolist()[:2] == ["w0", "w1"]
        assert {name: round(value, 6) for name, value in sts17.aggregate(file).items()} == result.metrics


def test_a_name_stands_for_subsets_of_any_task() -> None:
    plan = make_plan(ALL, bundled_sample(), ["de@sample", "avg-same@sample"])
    chosen = {planned.task.name: [source.subset for source in planned.sources] for planned in plan}
    assert chosen == {"sts17": ["en-en@sample", "es-es@sample", "ar-ar@sample"], "tatoeba": ["deu@sample"]}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("en-de", "not in the data.*there is en-de@sample"),
        ("avg-cross", "en-ar, en-de, en-tr, en-es, en-fr, en-it, en-nl missing"),
        ("kat", "kat missing"),
        ("en-dee@sample", "did you mean 'en-de@sample'"),
        ("nonsense", "unknown subset 'nonsense'"),
    ],
)
def test_a_subset_that_is_not_there_is_named(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_plan(ALL, bundled_sample(), [name])


def test_a_users_own_set_is_chosen_by_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "tatoeba-mine" / "v1"
    folder.mkdir(parents=True)
    for side in ("scn", "eng"):
        (folder / f"tatoeba.scn-eng.{side}").write_text("a\nb\n")
    plan = make_plan(ALL, open_data_dir(tmp_path), ["scn@mine"])
    assert [(planned.task.name, [s.subset for s in planned.sources]) for planned in plan] == [("tatoeba", ["scn@mine"])]


def test_absent_sets_are_named_and_the_sample_does_not_fill_in(tmp_path: Path) -> None:
    data = open_data_dir(tmp_path)
    assert make_plan(ALL, data) == []
    absent = absent_sets(ALL, data)
    assert absent["bucc"] == ["de-en", "fr-en", "ru-en", "zh-en"] and len(absent["tatoeba"]) == 112


def test_bad_data_ends_the_run_with_file_and_line(tmp_path: Path) -> None:
    folder = tmp_path / "sts17-extended"
    folder.mkdir()
    (folder / "STS.en-de.txt").write_text("a\tb\t3\nc\td\tfive\n")
    with pytest.raises(InputError, match=r"STS\.en-de\.txt:2"):
        evaluate(Letters(), "sts17", data_dir=tmp_path, cache_dir=tmp_path / "cache")


def test_stored_results_of_a_changed_file_are_measured_again(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "sts17-extended"
    folder.mkdir(parents=True)
    file = folder / "STS.en-de.txt"
    lines = ["a\tb\t3\n", "c c\td\t1\n", "abc\txyz\t5\n"]
    file.write_text("".join(lines))
    arguments = {"data_dir": tmp_path / "data", "results": tmp_path, "cache_dir": tmp_path / "cache", "tasks": "sts17"}
    (first,) = evaluate(Letters(), **arguments)
    file.write_text("".join(lines[:2]))
    (second,) = evaluate(Letters(), **arguments)
    assert (first.n, second.n) == (3, 2) and first.dataset.sha256 != second.dataset.sha256
    assert replace(second, created="") == replace(ResultStore(tmp_path).load()[0], created="")
