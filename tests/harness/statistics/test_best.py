"""Which encoder is best on a choice of sets, against plain means, SciPy's permutation test and Holm by hand."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from measured_rows import store_measured, sts_rows
from result_records import record, write_records

from harness.report.best import Question, as_json, cheaper, rows_commands, text, verdict
from harness.resampling.resamples import Resampling
from harness.results.records import Dataset, Result
from harness.results.statistics import StatisticsStore
from harness.results.store import ResultStore
from harness.statistics.best import Answer, Contender, answer
from harness.statistics.board import Board, Standing
from harness.statistics.candidates import Facts
from harness.statistics.rows import pack_rows
from harness.statistics.update import update_statistics
from harness.tasks import get_task

pytestmark = pytest.mark.slow

SIZES = {"deu": 200, "tur": 120}
RIGHT = {"good": 0.85, "near": 0.83, "poor": 0.55}
FACTS = {name: Facts(name) for name in [*RIGHT, "other", "a", "b", "c", "d"]}


def nowhere(record: Result) -> tuple[Path, Result]:
    """No rows are kept of it."""
    return Path("none"), record


def tatoeba(n: int, right: float, seed: int) -> dict[str, np.ndarray]:
    item = np.arange(n)
    found = np.where(np.random.default_rng(seed).random(n) < right, item, (item + 1) % n)
    return {"item": item, "found_en_xx": found, "found_xx_en": found}


def rows(encoder: str, subsets: Any = tuple(SIZES)) -> dict[str, dict[str, np.ndarray]]:
    seed = list(RIGHT).index(encoder)
    return {s: tatoeba(SIZES.get(s, 100), RIGHT[encoder], 10 * seed + len(s) + ord(s[0])) for s in subsets}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for encoder in RIGHT:
        store_measured(tmp_path, encoder, rows(encoder), "tatoeba")
    return tmp_path


def asked(root: Path, task: str = "tatoeba", encoders: Any = None, subsets: Any = None, said: Any = None) -> Answer:
    records = [r for r in ResultStore(root).load(task=task) if encoders is None or r.encoder in encoders]
    chosen = [r for r in records if not r.parts and (subsets is None or r.subset in subsets)]
    names = sorted({r.encoder for r in records})
    statistics = StatisticsStore(root).load(task).current(records)
    note = (said if said is not None else []).append
    found = answer(
        task, chosen, [r for r in records if r.parts], names, statistics, lambda record: (root, record), note
    )
    assert found is not None
    return found


def holm_by_hand(p: dict[str, float]) -> dict[str, float]:
    adjusted, running = {}, 0.0
    for rank, name in enumerate(sorted(p, key=p.__getitem__)):
        running = max(running, min(1.0, (len(p) - rank) * p[name]))
        adjusted[name] = running
    return adjusted


def test_a_mean_over_sets_is_tested_as_by_scipy(root: Path) -> None:
    found = asked(root)
    assert found.subsets == ("deu", "tur")
    right = {e: [(r["found_en_xx"] == r["item"]).astype(float) for r in rows(e).values()] for e in RIGHT}
    means = {e: 100 * np.mean([of_set.mean() for of_set in sets]) for e, sets in right.items()}
    order = sorted(means, key=lambda e: -means[e])
    assert [c.encoder for c in found.contenders] == order
    assert [c.value for c in found.contenders] == pytest.approx([means[e] for e in order], abs=1e-5)
    weights = np.concatenate([np.full(n, 1 / (len(SIZES) * n)) for n in SIZES.values()])
    together = {e: np.concatenate(sets) for e, sets in right.items()}
    raw, errors = {}, []
    for other in order[1:]:  # a loop over the encoders, each against the highest
        theirs = scipy.stats.permutation_test(
            (together[order[0]], together[other]),
            lambda x, y, axis: ((x - y) * weights).sum(axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=10_000,
            rng=1,
        )
        raw[other] = theirs.pvalue
        differences = [a - b for a, b in zip(right[order[0]], right[other], strict=True)]
        errors.append(100 * math.sqrt(sum(d.var() / len(d) for d in differences)) / len(differences))
    expected = holm_by_hand(raw)
    for c in found.contenders[1:]:
        assert c.p == pytest.approx(expected[c.encoder], abs=8 * math.sqrt(0.25 / 10_000))
        assert c.low < c.value < c.high and c.difference == pytest.approx(c.value - found.contenders[0].value)
    assert found.errors == pytest.approx(errors, rel=0.05) and not found.is_bound
    best = {order[0], *(e for e in order[1:] if expected[e] >= 0.05)}
    assert found.standing.best == best == {"good", "near"}


def test_the_tests_of_an_average_do_not_count_for_other_scores(tmp_path: Path) -> None:
    for seed, (name, error) in enumerate({"good": 0.5, "poor": 6.0}.items()):
        store_measured(tmp_path, name, {s: sts_rows(s, error, seed) for s in ("en-en", "es-es", "ar-ar")})
    update_statistics(ResultStore(tmp_path), [get_task("sts17")], Resampling(2000))
    shutil.rmtree(tmp_path / "rows")
    assert asked(tmp_path, "sts17").n_tests == 1  # by those of the stored average
    records = ResultStore(tmp_path).load("poor")
    edited = [replace(r, metrics={**r.metrics, "spearman": 99.9}) if r.subset == "es-es" else r for r in records]
    write_records(tmp_path, edited)
    found = asked(tmp_path, "sts17")
    assert found.n_tests == 0 and "none can be called the best" in verdict(found, FACTS)
    assert all(math.isnan(c.low) for c in found.contenders if c.encoder == "poor")


def test_a_single_set_and_a_stored_average_need_no_rows(tmp_path: Path) -> None:
    sets = ("en-en", "es-es", "ar-ar")
    for seed, (name, error) in enumerate({"good": 0.5, "near": 0.55, "poor": 6.0}.items()):
        store_measured(tmp_path, name, {s: sts_rows(s, error, seed) for s in sets})
    update_statistics(ResultStore(tmp_path), [get_task("sts17")], Resampling(2000))
    with_rows = asked(tmp_path, "sts17", subsets=sets[:2])
    shutil.rmtree(tmp_path / "rows")
    records = ResultStore(tmp_path).load()
    board = Board(records, StatisticsStore(tmp_path).of(records))
    for subsets, name in ((("es-es",), "es-es"), (sets, "avg-same")):
        found = asked(tmp_path, "sts17", subsets=subsets)
        assert found.standing == board.standing(("sts17", name, "spearman"))
        of_board = {r.encoder: board.interval(r, "spearman") for r in records if r.subset == name}
        assert {c.encoder: (c.low, c.high) for c in found.contenders} == of_board
        assert found.n_tests == 2 and not found.without_rows and found.errors
    # Two of three sets: no stored average.
    found = asked(tmp_path, "sts17", subsets=sets[:2])
    assert found.n_tests == 0 and found.without_rows == tuple(c.encoder for c in found.contenders)
    assert with_rows.n_tests == 2 and not with_rows.without_rows
    assert [c.value for c in found.contenders] == [c.value for c in with_rows.contenders]


def test_a_large_difference_on_few_items_is_measured_where_it_can_be(tmp_path: Path) -> None:
    sizes = {"a": 0.9, "b": 0.35}
    kept = {name: tatoeba(14, right, 20 + k) for k, (name, right) in enumerate(sizes.items())}
    for name, of in kept.items():
        store_measured(tmp_path, name, {"deu": of}, "tatoeba", n=14)
    update_statistics(ResultStore(tmp_path), [get_task("tatoeba")])
    right = [(of["found_en_xx"] == of["item"]).astype(float) for of in kept.values()]
    expected = 100 * np.std(right[0] - right[1]) / math.sqrt(14)
    found = asked(tmp_path)
    assert found.n_tests == 1 and 0.002 < found.contenders[1].p < 0.05
    assert found.errors == pytest.approx([expected], rel=0.03) and not found.is_bound
    shutil.rmtree(tmp_path / "rows")
    assert not asked(tmp_path).errors  # neither the p-value nor the intervals of so few tell it


def test_where_only_intervals_are_known_they_give_a_bound(tmp_path: Path) -> None:
    for name, right in (("a", 0.85), ("b", 0.5)):  # the same seed: where a errs, b errs too
        store_measured(tmp_path, name, {"deu": tatoeba(200, right, 5)}, "tatoeba", n=200)
    update_statistics(ResultStore(tmp_path), [get_task("tatoeba")])
    measured = asked(tmp_path)
    shutil.rmtree(tmp_path / "rows")
    found = asked(tmp_path)
    assert not measured.is_bound and found.is_bound
    assert 1.1 * measured.errors[0] < found.errors[0] < 2 * measured.errors[0]
    assert "is found in about 4 of 5 cases or more" in text(Question((), (), tmp_path, FACTS), [found])


def test_packed_rows_do_as_well(root: Path) -> None:
    loose = asked(root)
    for encoder in RIGHT:
        pack_rows(ResultStore(root), encoder)
    shutil.rmtree(root / "rows")
    assert repr(asked(root)) == repr(loose)  # as text: the leader's p-value is NaN, which equals nothing


def test_without_rows_nothing_is_tested_and_the_command_is_named(root: Path) -> None:
    shutil.rmtree(root / "rows/poor")
    some = asked(root)
    assert some.without_rows == ("poor",) and some.n_tests == 1
    assert "not tested: poor" in verdict(some, FACTS) and "best" not in verdict(some, FACTS)
    shutil.rmtree(root / "rows")
    found = asked(root)
    assert verdict(found, FACTS) == (
        f"highest: good ({found.contenders[0].value:.1f}); not tested, so none can be called the best"
    )
    question = Question(("de", "tr"), (), Path("my results"), FACTS)
    assert rows_commands(question, [found]) == [
        "leaderboard run --save-rows --results 'my results' --data-dir \"$HARNESS_DATA\" --task tatoeba "
        "--language de --language tr --encoder good --encoder near --encoder poor"
    ]
    said = (
        f"not tested for want of per-item rows (one set alone may be: --subset {found.subsets[-1]}); this makes them:"
    )
    assert len(found.subsets) > 1 and f"{said}\n  leaderboard run" in text(question, [found])
    assert '"is_tested": false' in as_json(question, [found])


def test_damaged_rows_are_said_and_not_used(root: Path) -> None:
    (root / "rows/near/tatoeba/tur.npz").write_bytes(b"nothing")
    said: list[str] = []
    found = asked(root, said=said)
    assert found.without_rows == ("near",) and len(said) == 1 and "tur.npz: not the rows" in said[0]


def test_the_sets_that_most_measurements_share(root: Path) -> None:
    store_measured(root, "good", rows("good", ("fra",)), "tatoeba")
    store_measured(root, "other", {"deu": tatoeba(200, 0.9, 5)}, "tatoeba")
    store_measured(root, "elsewhere", {"xho": tatoeba(50, 0.9, 5)}, "tatoeba")
    found = asked(root, subsets=("deu", "tur", "fra"))
    assert found.subsets == ("deu", "tur") and found.left_out == ("fra",)
    assert found.some == {"other": ("deu",)} and found.none == ("elsewhere",)
    assert [c.encoder for c in found.contenders] == ["good", "near", "poor"]
    alone = asked(root, encoders=["elsewhere"])
    assert verdict(alone, FACTS).startswith("only elsewhere (") and "nothing to compare it with" in verdict(
        alone, FACTS
    )


def test_other_files_are_not_compared(root: Path) -> None:
    other = Dataset("tatoeba", "f" * 64, {})
    store_measured(root, "other", {s: tatoeba(SIZES[s], 0.99, 5) for s in SIZES}, "tatoeba", dataset=other)
    found = asked(root)
    assert found.none == ("other",) and found.contenders[0].encoder == "good"


def test_weights_are_not_mixed(root: Path) -> None:
    store_measured(root, "good", {"fra": tatoeba(100, 0.9, 3)}, "tatoeba", fingerprint="later")
    found = asked(root, encoders=["good", "near"])
    assert found.subsets == ("deu", "tur") and {r.fingerprint for r in found.contenders[0].records} == {"good-1"}


def test_a_task_that_fails_stops_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no\nsample")

    monkeypatch.setattr("harness.statistics.evidence.sample_of", fail)
    said: list[str] = []
    found = asked(root, said=said)
    assert said == ["warning: tatoeba: not tested: RuntimeError: no"] and found.n_tests == 0
    assert "none can be called the best" in verdict(found, FACTS)


def test_what_was_measured_through_python_has_no_command(root: Path) -> None:
    for encoder in RIGHT:
        store_measured(root, encoder, rows(encoder), "tatoeba", spec="")
    shutil.rmtree(root / "rows")
    question = Question((), (), root, FACTS)
    shown = text(question, [asked(root)])
    assert "leaderboard run" not in shown
    assert 'good, near, poor; evaluate(..., save_rows="npz") keeps' in shown


def test_equal_encoders_and_too_few_items(root: Path) -> None:
    store_measured(root, "other", rows("good"), "tatoeba")
    found = asked(root)
    assert found.standing.equals == {"good", "other"}
    assert "with the same value: other" in verdict(found, FACTS) and "best of" not in verdict(found, FACTS)
    for name, seed in (("a", 1), ("b", 2)):
        store_measured(root, name, {"fra": tatoeba(2, 0.5, seed)}, "tatoeba")
    few = asked(root, encoders=["a", "b"])
    assert "fewer than three items" in verdict(few, FACTS) and not few.errors


def test_a_ranking_by_a_difference_is_no_answer() -> None:
    bias = record("a", "language-bias", "ten", {"difference": 1.0})
    assert answer("language-bias", [bias], [], ["a"], StatisticsStore("none").load("x"), nowhere, print) is None
    lacks = record("a", "tatoeba", "deu", {"accuracy_xx_en": 1.0})
    assert answer("tatoeba", [lacks], [], ["a"], StatisticsStore("none").load("x"), nowhere, print) is None


def made(values: list[float], p: list[float | None]) -> Answer:
    """An answer with these p-values (None: not tested) of all but the first."""
    names = "abcd"[: len(values)]
    tested = {name: value for name, value in zip(names[1:], p, strict=True) if value is not None}
    of_set = record("a", "pairs", "faq", {}, languages=["de", "tr"])
    contenders = tuple(
        Contender(n, v, math.nan, math.nan, v - values[0], tested.get(n, math.nan), (replace(of_set, encoder=n),))
        for n, v in zip(names, values, strict=True)
    )
    equals = frozenset(n for n, v in zip(names, values, strict=True) if v == values[0])
    not_worse = {n for n, value in tested.items() if not value < 0.05}
    best = frozenset(equals | not_worse) if tested else frozenset()
    standing = Standing("a", best, equals, frozenset(set(names[1:]) - tested.keys()), tested)
    return Answer("pairs", "accuracy_src_trg", ("faq",), 300, contenders, standing, 0.05)


tests = st.lists(st.none() | st.sampled_from([0.001, 0.049, 0.05, 0.4, 1.0, math.nan]), min_size=1, max_size=3)


@given(tests, st.booleans())
def test_words_are_never_stronger_than_the_tests(p: list[float | None], is_equal: bool) -> None:
    found = made([90.0, 90.0 if is_equal else 89.0, 80.0, 70.0][: len(p) + 1], p)
    said = verdict(found, FACTS)
    all_worse = all(value is not None and value < 0.05 for value in p)
    assert ("best of" in said) == (all_worse and not is_equal)
    for name, value in zip("bcd", p, strict=False):
        is_worse = value is not None and value < 0.05 and not (is_equal and name == "b")
        worse = said.partition("better than ")[2] or said.partition("worse: ")[2].partition(";")[0]
        assert (name in worse.partition("(p <")[0].replace(",", " ").split()) == is_worse, said


def test_what_is_cheaper_is_said_of_those_that_cannot_be_told_apart() -> None:
    facts = {
        "a": Facts("a", 1000.0, 500, 1024, "MIT", frozenset({"de", "en", "tr"})),
        "b": Facts("b", 1050.0, 400, 1024, None, frozenset({"en"})),
        "c": Facts("c", 5000.0, None, 256, None, None),
        "d": Facts("d"),
    }
    assert [cheaper(name, "a", facts) for name in "abcd"] == [[], ["smaller"], ["faster", "shorter vectors"], []]
    found = made([90.0, 89.0, 88.0, 70.0], [0.3, 0.2, 0.001])
    assert verdict(found, facts) == (
        "highest: a (90.0); cannot be told from it: b (smaller), c (faster, shorter vectors); worse: d (p < 0.05)"
    )
    shown = text(Question(("de", "tr", "fr"), (), Path("r"), facts, {"x": "size not known"}), [found])
    assert shown.splitlines() == [
        "Own pairs, src->trg x 100; faq; 300 items",
        "  highest: a (90.0); cannot be told from it: b (smaller), c (faster, shorter vectors); worse: d (p <",
        "  0.05)",
        "  a  90.0             1,000/s  0 MB  1,024 B  MIT",
        "  b  89.0  p = 0.300  1,050/s  0 MB  1,024 B  –",
        "  c  88.0  p = 0.200  5,000/s     –    256 B  –",
        "  no set on fr; not made for: b (de, tr); languages not known: c",
        "left out: x (size not known)",
        "–: not known; `leaderboard speed` measures speed, size and bytes of a vector (about a minute for a",
        "fast encoder; `--repeats 1` is quicker)",
    ]
    measured = {**facts, "c": replace(facts["c"], size_bytes=1)}
    assert "leaderboard speed" not in text(Question((), (), Path("r"), measured), [found])  # d is not listed


def test_a_result_that_another_package_measured(tmp_path: Path) -> None:
    results: list[Result] = [
        record(name, "elsewhere", "set", {"score": value}, "task:elsewhere|version:1")
        for name, value in (("a", 1.0), ("b", 2.0))
    ]
    statistics = StatisticsStore(tmp_path).load("elsewhere")
    found = answer("elsewhere", results, [], ["a", "b"], statistics, lambda record: (tmp_path, record), print)
    assert found is not None and [c.encoder for c in found.contenders] == ["b", "a"]
    assert "none can be called the best" in verdict(found, FACTS)
