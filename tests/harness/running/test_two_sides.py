"""Runs of an encoder with two prompts: what is measured, stored, refused, counted and repeated."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from encoders import Counting, Letters
from prompted import offered

from harness import TwoSided, evaluate
from harness.core.errors import InputError, NameTakenError
from harness.data import DataDir
from harness.data.memory import memory_sets
from harness.data.own import own_data
from harness.encoders.cache import VectorCache
from harness.encoders.reduction import Reduction
from harness.encoders.registry import load_encoder, load_sides
from harness.encoders.sides import Sides
from harness.report.record import as_text
from harness.reproduction.repeat import Options, measure_again
from harness.results.records import Result
from harness.results.statistics import Statistics
from harness.results.store import ResultStore
from harness.running.dry_run import Forecast, forecast
from harness.running.measure import Run, averages_of
from harness.running.plan import Silent, plan_sets
from harness.running.suite import Request, measure_rows, run_suite
from harness.tasks import get_task

WORDS = ("haus", "baum", "hund", "katze", "wasser", "feuer", "brot", "tisch", "stuhl", "fenster", "garten", "schiff")
CORPUS = {f"d{i}": f"{WORDS[i % 12]} und {WORDS[(i * 5 + 3) % 12]} {i}" for i in range(60)}
QUERIES = {f"q{i}": f"wo ist {WORDS[(i * 7) % 12]} und {WORDS[i % 12]}" for i in range(20)}
QRELS = {f"q{i}": {f"d{(7 * i) % 12}": 1, f"d{i}": 2} for i in range(17)}  # three queries have no answer
BEIR = {"corpus": CORPUS, "queries": QUERIES, "qrels": QRELS}
BOTH = {"kb": BEIR, "faq": [(a, b) for a, b in zip(CORPUS.values(), QUERIES.values(), strict=False)]}
SPEC = "prompted?prompt_query=query: &prompt_document=passage: "


@pytest.fixture(autouse=True, scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with offered(tmp_path_factory.mktemp("package")):
        yield


class Notes(Silent):
    """Keeps what a run says."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)


def request(folder: Path, encoder: object = SPEC, data: object = None, **options: object) -> Request:
    given = {"encoders": [encoder], "data_dir": sets(data), "results": folder / "r", "cache_dir": folder / "c"}
    return Request(**{**given, **options})  # type: ignore[arg-type]


def sets(data: object = None) -> DataDir:
    return own_data(memory_sets(data or {"kb": BEIR}, ("de", "de")))


def vector(prompt: str, text: str) -> list[float]:
    counts = [0.0] * 32
    for letter in prompt + text:
        counts[ord(letter) % 32] += 1
    return counts


def mrr_by_hand(query: str, document: str) -> float:
    """Mean reciprocal rank at 10 in plain loops, with both prompts put before the texts."""
    total = 0.0
    for name, answers in QRELS.items():
        asked = vector(query, QUERIES[name])
        scores = []
        for row, (key, text) in enumerate(CORPUS.items()):
            found = vector(document, text)
            cosine = sum(a * b for a, b in zip(asked, found, strict=True))
            cosine /= math.hypot(*asked) * math.hypot(*found)
            scores.append((-round(cosine, 6), row, key))
        rank = next(rank for rank, (_, _, key) in enumerate(sorted(scores), 1) if key in answers)
        total += 100 / rank if rank <= 10 else 0
    return total / len(QRELS)


def test_retrieval_is_that_of_texts_with_their_prompts(tmp_path: Path) -> None:
    (result,) = run_suite(request(tmp_path)).results
    both = load_sides(SPEC)
    assert isinstance(both, TwoSided)
    assert result.sides == Sides(both.query.fingerprint, both.document.fingerprint)
    assert (result.fingerprint, result.spec) == (both.fingerprint, SPEC)
    expected = {pair: mrr_by_hand(*pair) for pair in (("query: ", "passage: "), ("passage: ", "query: "))}
    assert result.metrics["mrr_at_10"] == pytest.approx(expected["query: ", "passage: "], abs=1e-6)
    assert len({round(value, 3) for value in expected.values()}) == 2  # else nothing is shown
    (one,) = run_suite(request(tmp_path / "one", "prompted?prompt=query: ")).results
    assert one.sides is None and one.metrics["mrr_at_10"] == pytest.approx(mrr_by_hand("query: ", "query: "), abs=1e-6)
    assert one.metrics["mrr_at_10"] != result.metrics["mrr_at_10"]


def test_each_side_is_encoded_and_kept_for_itself(tmp_path: Path) -> None:
    (result,) = run_suite(request(tmp_path)).results
    cache = VectorCache(tmp_path / "c")
    assert result.sides and set(cache.fingerprints()) == {result.sides.query, result.sides.document}
    for prompt, texts in (("query: ", list(QUERIES.values())[:17]), ("passage: ", list(CORPUS.values()))):
        with cache.of(load_encoder(f"prompted?prompt={prompt}")) as vectors:  # its vectors are these
            assert vectors.missing(texts) == [] and vectors.missing(["another"]) == ["another"]


def test_the_record_is_read_back_and_shown(tmp_path: Path) -> None:
    (result,) = run_suite(request(tmp_path)).results
    (stored,) = ResultStore(tmp_path / "r").load()
    assert stored == result and stored.left_out == {"queries without an answer": 3} and stored.n == 17
    shown = {tuple(line.split("  ", 1)) for line in as_text(stored, Statistics(), tmp_path / "r").splitlines()}
    lines = {(name, value.strip()) for name, value in shown}
    assert stored.sides and ("of query", stored.sides.query.strip()) in lines
    assert ("of document", stored.sides.document.strip()) in lines
    assert ("left out", "3 queries without an answer") in lines

    file = tmp_path / "r/records/prompted/retrieval.json"
    (entry,) = json.loads(file.read_text())
    for sides in ({"query": "a", "document": "b"}, {"query": "a"}, ["a", "b"], {**entry["sides"], "third": "c"}):
        file.write_text(json.dumps([{**entry, "sides": sides}]))
        with pytest.raises(InputError, match="no list of result records"):
            ResultStore(tmp_path / "r").load()
    del entry["sides"], entry["left_out"]
    file.write_text(json.dumps([entry]))
    assert ResultStore(tmp_path / "r").load() == [replace(stored, sides=None, left_out={})]  # as older ones are


def test_what_was_left_out_is_said_and_added_up(tmp_path: Path) -> None:
    notes = Notes()
    data = {"kb": BEIR, "kb2": {**BEIR, "qrels": {"q1": {"d1": 1}}}, "whole": {**BEIR, "queries": {"q1": "wo"}}}
    data["whole"]["qrels"] = {"q1": {"d1": 1}}
    outcome = run_suite(request(tmp_path, data=data), notes)
    assert [note for note in notes.notes if "left out" in note] == [
        "retrieval kb: 3 queries without an answer left out",
        "retrieval kb2: 19 queries without an answer left out",
    ]
    by_name = {result.subset: result.left_out for result in outcome.results}
    assert by_name["avg"] == {"queries without an answer": 22} and by_name["whole"] == {}
    results = [result for result in outcome.results if not result.parts]
    (average,) = averages_of(get_task("retrieval"), results)
    assert average.sides == results[0].sides


def test_other_tasks_refuse_it_before_anything_is_encoded(tmp_path: Path) -> None:
    query, document = Counting("q"), Counting("d")
    outcome = run_suite(request(tmp_path, TwoSided(query, document), {"faq": BOTH["faq"]}))
    (failure,) = outcome.failures
    assert not outcome.results and not query.seen and not document.seen
    message = "counting encodes queries and documents differently, and pairs has neither; measure it with one prompt"
    assert str(failure.error).startswith(message) and isinstance(failure.error, InputError)

    outcome = run_suite(request(tmp_path, TwoSided(query, document), BOTH))
    assert [failure.key for failure in outcome.failures] == [failure.key]
    assert [result.subset for result in outcome.results] == ["kb"]
    assert {text for _, text in query.seen} == set(list(QUERIES.values())[:17])
    assert {text for _, text in document.seen} == set(CORPUS.values())

    same = run_suite(request(tmp_path / "same", "prompted?prompt_query=x&prompt_document=x", BOTH))
    assert not same.failures and {result.subset for result in same.results} == {"kb", "faq"}


def test_what_is_counted_is_what_is_encoded(tmp_path: Path) -> None:
    query, document = Counting("q"), Counting("d")
    plan = request(tmp_path, TwoSided(query, document), BOTH)
    (counted,), failures = forecast(plan)
    assert [failure.task for failure in failures] == ["pairs"] and not query.seen and not document.seen
    run_suite(replace(plan, results=None))
    seen = [*query.seen, *document.seen]
    assert counted == Forecast("counting", 1, len(seen), sum(len(text) for _, text in seen))
    assert forecast(plan)[0] == [Forecast("counting", 1, 0, 0)]
    assert forecast(request(tmp_path, TwoSided(query, document), {"faq": BOTH["faq"]}))[0] == []


def test_cut_and_quantised_on_both_sides(tmp_path: Path) -> None:
    reductions = [Reduction(), Reduction(8), Reduction(None, "binary"), Reduction(16, "int8")]
    outcome = run_suite(request(tmp_path, reductions=reductions))
    by_name = {result.encoder: result for result in outcome.results}
    assert by_name.keys() == {"prompted", "prompted@8", "prompted@binary", "prompted@16-int8"}
    full = by_name.pop("prompted")
    for name, result in by_name.items():
        assert result.is_made_from(full) and result.base == "prompted" and not full.is_made_from(result)
        other = replace(result, sides=Sides(result.sides.query, full.fingerprint))  # type: ignore[union-attr]
        assert not other.is_made_from(full) and not replace(result, sides=None).is_made_from(full), name
        assert load_sides(result.spec).fingerprint == result.fingerprint
    assert len(VectorCache(tmp_path / "c").fingerprints()) == 2  # those of full vectors, two prompts


def test_cached_vectors_of_both_sides_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = run_suite(request(tmp_path)).results
    options = Options(data=sets(), cache_dir=tmp_path / "c")
    fresh = measure_again(results, tmp_path / "1", options)
    assert [result.metrics for result in fresh.results] == [results[0].metrics] and not fresh.problems
    assert [(check.key.encoder, check.findings) for check in fresh.caches] == [("prompted", ())]

    both = load_sides(SPEC)
    kind = type(both.document)  # type: ignore[union-attr]
    encode = kind.encode
    wrong = lambda self, texts, lang=None: encode(self, texts) * (-1 if self.prompt == "passage: " else 1)  # noqa: E731
    monkeypatch.setattr(kind, "encode", wrong)
    ((finding,),) = (check.findings for check in measure_again(results, tmp_path / "2", options).caches)
    assert "60 of 72 cached vectors are not what the encoder gives" in finding.message


def test_its_rows_beside_those_of_one_prompt(tmp_path: Path) -> None:
    plan = plan_sets([get_task("retrieval"), get_task("pairs")], sets(BOTH))
    run = Run(VectorCache(tmp_path))
    rows = measure_rows(run, load_sides(SPEC), plan)
    assert rows.rows.keys() == {("retrieval", "kb")} and rows.failures.keys() == {("pairs", "faq")}


def test_other_prompts_under_a_stored_name_are_refused(tmp_path: Path) -> None:
    run_suite(request(tmp_path))
    for other in ("prompted", "prompted?prompt_query=query: ", SPEC.replace("passage", "text")):
        with pytest.raises(NameTakenError):
            run_suite(request(tmp_path, other))
    assert run_suite(request(tmp_path)).results == ResultStore(tmp_path / "r").load()


def test_two_encoders_from_python(tmp_path: Path) -> None:
    def measured(encoder: object) -> Result:
        (result,) = evaluate(encoder, data=BEIR, cache_dir=tmp_path)
        return result

    two = TwoSided(load_encoder("prompted?prompt=query: "), load_encoder("prompted?prompt=passage: "))
    assert measured(two).metrics == measured(SPEC).metrics
    assert measured(TwoSided(Letters(), Letters())).sides is None
    with pytest.raises(InputError, match="pairs has neither"):
        evaluate(two, data=BOTH, cache_dir=tmp_path)
