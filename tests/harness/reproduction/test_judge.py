"""The judgement of the gate on records and rows made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isnan
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_rows import store_measured, sts_rows
from result_records import record, sts
from speeds import measurement

from harness.core.errors import InputError
from harness.reproduction.cost import slowdown
from harness.reproduction.gate_report import as_json, markdown, text, verdict
from harness.reproduction.judge import Judgement, Limits, judge
from harness.reproduction.sides import Side, stored_side
from harness.resampling.power import Spread, power_of
from harness.resampling.resamples import Resampling
from harness.results.named import StoredEncoder, find_stored, join
from harness.results.records import Result

HOSTILE = "x\x1b[0m|<b>::error::"


def side(name: str, records: Sequence[Result], root: Path = Path("nowhere")) -> Side:
    return stored_side(StoredEncoder(name, root, tuple(records)))


def of_records(old: Sequence[Result], new: Sequence[Result], limits: Limits | None = None) -> Judgement:
    """Without rows."""
    return judge(side("old", old), side("new", new), old, limits or Limits())


@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=8),
    st.floats(0, 50),
)
def test_without_rows_a_drop_decides_as_a_plain_loop_does(values: list[tuple[float, float]], limit: float) -> None:
    names = [f"{a}{b}-en" for a in "abc" for b in "xyz"]
    old = [sts("old", name, round(value, 4)) for name, (value, _) in zip(names, values, strict=False)]
    new = [sts("new", name, round(value, 4)) for name, (_, value) in zip(names, values, strict=False)]
    found = of_records(old, new, Limits(max_drop=limit))
    too_low = {
        a.subset for a, b in zip(old, new, strict=True) if a.metrics["spearman"] - b.metrics["spearman"] > limit + 1e-6
    }
    assert {c.key.subset for c in found.checks if any(f.kind == "drop" for f in c.findings)} == too_low
    assert found.exit_code == (1 if too_low else 3) and found.tested == []  # what is not tested is a hole all the same
    assert verdict(found).startswith("FAILED: new against old: " if too_low else "INCOMPLETE: new against old: ")
    assert f"{len(old)} not judged" in verdict(found)
    assert all(isnan(score.p_holm) for score in found.scores)


def test_of_an_error_more_is_worse() -> None:
    old, new = ([record(name, "pairs", "x-en", {"xsim_src_trg": value})] for name, value in (("a", 5.0), ("b", 9.0)))
    found = judge(side("a", old), side("b", new), old, Limits(max_drop=1), ["xsim_src_trg"])
    assert [(f.kind, f.difference) for f in found.regressions] == [("drop", 4)]
    found = judge(side("b", new), side("a", old), new, Limits(max_drop=1), ["xsim_src_trg"])
    assert found.exit_code == 3 and not found.regressions


def test_a_bias_and_a_threshold_are_not_judged() -> None:
    old = [record("old", "language-bias", "ten", {"expected": 80.0, "actual": 79.0, "difference": -1.0})]
    found = of_records(old, old)
    assert found.checks == () and any("not judged: language-bias" in note for note in found.notes)
    with pytest.raises(InputError, match="a higher difference is neither better nor worse"):
        judge(side("a", old), side("b", old), old, Limits(), ["difference"])


def test_a_task_that_is_not_installed_is_a_hole() -> None:
    old, new = ([record(name, "theirs", "x", {"score": value})] for name, value in (("a", 50.0), ("b", 40.0)))
    assert judge(side("a", old), side("b", new), old, Limits()).exit_code == 3
    assert judge(side("a", old), side("b", new), old, Limits(max_drop=5)).exit_code == 1


def test_of_many_scores_the_text_has_those_that_say_something() -> None:
    names = [f"{a}{b}x" for a in "abcdefgh" for b in "uvwxyz"]
    old, new = (
        [record(name, "tatoeba", code, {"accuracy_en_xx": 90.0 - lower * (code in names[:3])}) for code in names]
        for name, lower in (("a", 0), ("b", 7))
    )
    found = judge(side("a", old), side("b", new), old, Limits(max_drop=5))
    printed = text(found)
    assert max(map(len, printed.splitlines())) <= 100 and "45 more scores are not shown" in printed
    assert [line.split()[0] for line in printed.splitlines() if line.endswith("drop")] == names[:3]
    assert len(found.scores) == 48 and "and 43 more: not tested" in printed


def test_all_that_fail_are_shown_however_many() -> None:
    names = [f"{a}{b}x" for a in "abcdefgh" for b in "uvwxyz"]
    old, new = (
        [
            record(name, "tatoeba", code, {"accuracy_en_xx": 90.0 - lower * (7 if i >= 10 else 1)})
            for i, code in enumerate(names)
        ]
        for name, lower in (("a", 0), ("b", 1))
    )
    found = judge(side("a", old), side("b", new), old, Limits(max_drop=5))
    lines = text(found).splitlines()
    assert [line.split()[0] for line in lines if line.endswith("drop")] == names[10:]
    assert any("10 more scores are not shown" in line for line in lines)


def test_an_average_that_its_rows_deny_is_a_hole(tmp_path: Path) -> None:
    """The record of an average is data beside the rows: an edited one must not hide what the test finds."""
    for name, error in (("old", 1.0), ("new", 5.0)):
        store_measured(tmp_path, name, {s: sts_rows(s, error, seed=1) for s in ("en-en", "es-es", "ar-ar")})
    joined = join([tmp_path])
    edited = [replace(r, metrics={"spearman": 99.0, "pearson": 99.0}) if r.parts else r for r in joined["new"].records]
    old = joined["old"].records
    found = judge(side("old", old, tmp_path), side("new", edited, tmp_path), old, Limits(), resampling=Resampling(500))
    (average,) = (score for score in found.scores if score.is_average)
    assert isnan(average.p_holm) and "the rows of its sets give -" in average.untested
    assert [f.kind for f in found.holes] == ["untested"] and found.exit_code == 1


def test_too_few_resamples_are_refused_before_any_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("old", "new"):
        store_measured(tmp_path, name, {s: sts_rows(s, 1.0, seed=1) for s in ("en-en", "es-es", "ar-ar")})
    old, new = (join([tmp_path])[name] for name in ("old", "new"))
    monkeypatch.setattr("harness.reproduction.judge._scores", lambda *_: pytest.fail("tested"))
    with pytest.raises(InputError, match="10 resamples are too few for any of 4 corrected tests"):
        judge(stored_side(old), stored_side(new), old.records, Limits(), resampling=Resampling(10))


def test_what_a_chosen_metric_leaves_out_is_said() -> None:
    old, new = (
        [sts(name, "en-en", 80.0), record(name, "tatoeba", "deu", {"accuracy_en_xx": 90.0})] for name in ("a", "b")
    )
    found = judge(side("a", old), side("b", new), old, Limits(), ["spearman"])
    assert found.notes == ("not judged: tatoeba (has no spearman)",)
    assert "not judged: tatoeba (has no spearman)" in text(found)


def test_both_sides_say_where_they_are_from() -> None:
    old, new = [sts("old", "en-en", 80.0)], [sts("new", "en-en", 80.0)]
    measured = replace(side("new", new), is_stored=False)
    found = judge(side("old", old, Path("scores")), measured, old, Limits())
    assert found.origins == ("stored, measured 2025-01-02, in scores", "measured now")
    for printed in (text(found), markdown(found), as_json([found])):
        assert "stored, measured 2025-01-02, in scores" in printed and "measured now" in printed


def test_nothing_to_compare_is_no_pass() -> None:
    old = [sts("old", "en-en", 80.0)]
    lacking = Side("new", Path("nowhere"), {}, False, skipped={old[0].key._replace(encoder="new"): "no data here"})
    with pytest.raises(InputError, match="nothing to compare: no data here"):
        judge(side("old", old), lacking, old, Limits())


def test_an_average_is_tested_on_the_rows_of_its_parts(tmp_path: Path) -> None:
    sets = ("en-en", "es-es", "ar-ar")
    for name, error in (("old", 1.0), ("new", 1.2)):
        store_measured(tmp_path, name, {subset: sts_rows(subset, error, seed=1) for subset in sets})
    joined = join([tmp_path])
    old, new = (stored_side(joined[name]) for name in ("old", "new"))
    found = judge(old, new, joined["old"].records, Limits(), resampling=Resampling(1000))
    by_subset = {score.key.subset: score for score in found.scores}
    mean = by_subset["avg-same"]
    assert mean.is_average and mean.test and mean.test.units == 160  # English and Spanish are of the same pairs
    assert mean.change == pytest.approx(np.mean([by_subset[subset].change for subset in sets]), abs=1e-5)
    assert mean.level == 0.05 / 4
    # One part lacks rows: the average is not tested either, and the family is smaller.
    (tmp_path / "rows/new/sts17/es-es.npz").unlink()
    found = judge(old, new, joined["old"].records, Limits(), resampling=Resampling(1000))
    assert {s.key.subset for s in found.scores if s.untested} == {"es-es", "avg-same"}
    assert {s.level for s in found.scores} == {0.025} and found.exit_code in (1, 3)


def test_damaged_rows_are_a_hole(tmp_path: Path) -> None:
    for name in ("old", "new"):
        store_measured(tmp_path, name, {"en-en": sts_rows("en-en", 1, seed=1)})
    (tmp_path / "rows/new/sts17/en-en.npz").write_bytes(b"x")
    joined = join([tmp_path])
    old, new = (stored_side(joined[name]) for name in ("old", "new"))
    found = judge(old, new, joined["old"].records, Limits())
    assert found.exit_code == 3 and "not the rows of the stored result" in found.findings[0].message


def test_items_that_are_too_few_for_a_test_are_a_hole(tmp_path: Path) -> None:
    for name in ("old", "new"):
        store_measured(tmp_path, name, {"en-en": sts_rows("en-en", 1, seed=1, n=2)}, n=2)
    joined = join([tmp_path])
    old, new = (stored_side(joined[name]) for name in ("old", "new"))
    found = judge(old, new, joined["old"].records, Limits())
    assert found.exit_code == 3 and "2 items are too few" in found.findings[0].message


def test_names_of_others_do_nothing_to_a_terminal_or_a_page() -> None:
    old = [sts("old", "en-en", 80.0, signature=f"a:{HOSTILE}")]
    found = judge(side(HOSTILE, old), side("new", [sts("new", "en-en", 79.0)]), old, Limits())
    for printed in (text(found), markdown(found)):
        assert "\x1b" not in printed and "\n::" not in printed
    assert "<b>" not in markdown(found).replace(r"\<b>", "")


def test_power_against_a_simulation() -> None:
    drawn = np.random.default_rng(0).normal(2.0, 1.0, 200_000)
    assert power_of(2.0, Spread(1.0), 0.05) == pytest.approx((drawn > 1.959964).mean(), abs=0.005)


def test_slowdown_is_of_rounds_of_one_command_else_of_one_machine() -> None:
    old, new = measurement("old", 1.0), measurement("new", 3.0)
    together = slowdown([old], [new])
    assert together and together.median == pytest.approx(3) and together.low == pytest.approx(3)
    apart = measurement("new", 2.0, session="two")
    ratio = slowdown([old], [apart])
    assert ratio and ratio.median == pytest.approx(2)
    assert slowdown([old], [measurement("new", 2.0, session="two", threads=8)]) is None
    assert slowdown([], [new]) is None


def test_joined_folders(tmp_path: Path) -> None:
    one, two, three = tmp_path / "a" / "r", tmp_path / "b" / "r", tmp_path / "c"
    for folder, names in ((one, ["x", "y"]), (two, ["x"]), (three, ["z"])):
        for name in names:
            store_measured(folder, name, {"en-en": sts_rows("en-en", 1, seed=1)})
    assert list(join([one, three])) == ["x", "y", "z"]
    assert list(join([one, two])) == [f"{one}/x", "y", f"{two}/x"]  # both folders are called r
    found = find_stored(f"{two}/x", {})
    assert found and (found.root, found.encoder, found.name) == (two, "x", "x")
    assert find_stored(str(one), {}, "y") and find_stored("nothing", {}) is None and find_stored("\0", {}) is None
    with pytest.raises(InputError, match="2 encoders; say which"):
        find_stored(str(one), {}, "z")


@pytest.mark.nightly
def test_false_alarms_where_nothing_changed(tmp_path: Path) -> None:
    """Rows of two encoders, exchanged item by item: at most 16 of 200 gates fail (the binomial's 99 % at 5 %)."""
    alarms = 0
    for repeat in range(200):
        drawn = np.random.default_rng([11, repeat])
        sides: dict[str, dict[str, dict[str, np.ndarray]]] = {"old": {}, "new": {}}
        for subset in ("en-en", "es-es", "ar-ar", "en-tr"):
            pair = [sts_rows(subset, error, seed) for error, seed in ((1.0, 2 * repeat), (1.5, 2 * repeat + 1))]
            swap = drawn.random(80) < 0.5
            for name, (one, other) in zip(sides, (pair, pair[::-1]), strict=True):
                sides[name][subset] = {column: np.where(swap, other[column], one[column]) for column in one}
        folder = tmp_path / str(repeat)
        for name, rows in sides.items():
            store_measured(folder, name, rows)
        joined = join([folder])
        old, new = (stored_side(joined[name]) for name in ("old", "new"))
        found = judge(old, new, joined["old"].records, Limits(), resampling=Resampling(500))
        alarms += found.exit_code == 1
    assert alarms <= 16, alarms
