"""From rows to a comparison: planted encoders whose truth is known, harness.statistics, SciPy, plain loops."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from samples import best_group, correlation

from harness.core.errors import InputError
from harness.data import Source
from harness.encoders.cache import VectorCache
from harness.protocol.task import Planned
from harness.report.comparison import entries, tables
from harness.report.conclusion import conclusion
from harness.report.render import render
from harness.report.terminal import plain_text
from harness.resampling.bootstrap import bca_interval, bootstrap
from harness.resampling.metrics import average
from harness.resampling.resamples import Resampling
from harness.resampling.tests import bootstrap_p, paired_tests, rank_intervals
from harness.results.store import ResultStore
from harness.running.measure import Run
from harness.running.suite import measure_rows
from harness.statistics.comparison import compare_rows, win_tie_loss
from harness.statistics.evidence import sample_of
from harness.statistics.rows import EncoderRows
from harness.tasks import get_task

PLAN = Resampling(resamples=1000)
N = 120
SAME = ("en-en", "es-es", "ar-ar")


def planned(task, *subsets):
    return Planned(get_task(task), [Source(subset, "made-up", ()) for subset in subsets])


def sts(errors, *, seed=0, gold_of=None):
    """Rows by (sts17, subset): cosine = gold + an error of that size; en-en and en-de share their gold."""
    rows = {}
    for place, (subset, error) in enumerate(errors.items()):
        rng = np.random.default_rng([seed, place])
        gold = np.random.default_rng(99 if subset in ("en-en", "en-de") else 100 + place).normal(size=N)
        rows["sts17", subset] = {"item": np.arange(N), "gold": gold, "cosine": gold + error * rng.normal(size=N)}
    return rows


# Of the first against the second: better on en-en, alike on es-es, worse on ar-ar.
GOOD_BAD = {"en-en": 0.3, "es-es": 0.6, "ar-ar": 2.0}
BAD_GOOD = {"en-en": 2.0, "es-es": 0.6, "ar-ar": 0.3}


@pytest.fixture(scope="module")
def two():
    measured = [EncoderRows("first", sts(GOOD_BAD, seed=1)), EncoderRows("second", sts(BAD_GOOD, seed=2))]
    return measured, compare_rows([planned("sts17", *SAME)], measured, PLAN)


def holm_by_hand(p):
    """Holm (1979), step by step."""
    adjusted, running = dict.fromkeys(range(len(p))), 0.0
    for rank, place in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        running = max(running, min(1.0, (len(p) - rank) * p[place]))
        adjusted[place] = running
    return list(adjusted.values())


def test_planted_truth_is_found(two):
    _, compared = two
    assert [(one.subset, one.kind) for one in compared] == [
        *((subset, "set") for subset in SAME),
        ("avg-same", "average"),
    ]
    outcomes = {one.subset: one.between("first", "second").outcome(0.05) for one in compared}
    assert outcomes == {"en-en": "win", "es-es": "tie", "ar-ar": "loss", "avg-same": "tie"}
    assert win_tie_loss(compared, "first", "second", 0.05) == {"win": 1, "tie": 1, "loss": 1}
    assert win_tie_loss(compared, "second", "first", 0.05) == {"win": 1, "tie": 1, "loss": 1}
    assert [sorted(one.standing.best) for one in compared] == [
        ["first"],
        ["first", "second"],
        ["second"],
        ["first", "second"],
    ]


def test_numbers_are_those_of_harness_stats(two):
    measured, compared = two
    task = get_task("sts17")
    samples = {s: sample_of(task, "spearman", [one.rows["sts17", s] for one in measured]) for s in SAME}
    samples["avg-same"] = average(list(samples.values()))
    for one in compared:
        replicates = bootstrap(samples[one.subset], PLAN)
        assert list(one.values.values()) == bca_interval(replicates)
        assert one.differences[0].test == paired_tests(samples[one.subset], [(0, 1)], replicates=replicates)[0]


def test_values_are_scipys_and_p_values_are_corrected_over_the_sets_alone(two):
    measured, compared = two
    for one in compared[:3]:
        for own in measured:
            rows = own.rows["sts17", one.subset]
            expected = 100 * scipy.stats.spearmanr(rows["gold"], rows["cosine"]).statistic
            assert one.values[own.encoder].value == pytest.approx(expected)
    mean = np.mean([list(v.value for v in one.values.values()) for one in compared[:3]], axis=0)
    assert [value.value for value in compared[3].values.values()] == pytest.approx(mean)
    raw = [one.differences[0].test.p for one in compared]
    assert [one.differences[0].p_holm for one in compared[:3]] == pytest.approx(holm_by_hand(raw[:3]))
    assert compared[3].differences[0].p_holm == raw[3]  # the only average
    assert compared[0].differences[0].p_holm > raw[0]


def tatoeba(right, seed):
    """Rows of a language: that share of the sentences finds its translation."""
    item = np.arange(200)
    found = np.where(np.random.default_rng(seed).random(200) < right, item, (item + 1) % 200)
    return {"item": item, "found_en_xx": found, "found_xx_en": found}


def test_the_p_value_of_an_accuracy_is_that_of_scipys_permutation_test():
    rows = [tatoeba(0.70, 1), tatoeba(0.62, 2)]
    measured = [EncoderRows(name, {("tatoeba", "deu"): own}) for name, own in zip("ab", rows, strict=True)]
    plan = Resampling(20_000)
    (one,) = compare_rows([planned("tatoeba", "deu")], measured, plan)
    assert one.metric == "accuracy_en_xx"
    right = [(own["found_en_xx"] == own["item"]).astype(float) for own in rows]
    theirs = scipy.stats.permutation_test(
        right,
        lambda x, y, axis: x.mean(axis=axis) - y.mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=20_000,
        rng=1,
    )
    (difference,) = one.differences
    assert difference.test.difference == pytest.approx(100 * theirs.statistic)
    assert 0.01 < theirs.pvalue < 0.5
    error = math.sqrt(2 * theirs.pvalue * (1 - theirs.pvalue) / 20_000)
    assert difference.test.p == pytest.approx(theirs.pvalue, abs=4 * error)


def test_an_average_resamples_shared_pairs_as_clusters():
    sets = ("en-ar", "en-de", "en-tr", "en-es", "en-fr", "en-it", "en-nl")
    measured = [EncoderRows(name, sts(dict.fromkeys(sets, 0.5), seed=k)) for k, name in enumerate("ab")]
    for one in measured:  # en-fr is translated from the source pairs of en-de
        one.rows["sts17", "en-fr"] = {**one.rows["sts17", "en-fr"], "gold": one.rows["sts17", "en-de"]["gold"]}
    compared = compare_rows([planned("sts17", *sets)], measured, Resampling(50))
    units = {one.subset: one.differences[0].test.units for one in compared}
    assert units == dict.fromkeys(sets, N) | {"avg-cross": 6 * N}


def test_the_sentence_about_two(two):
    _, compared = two
    text = conclusion(compared, ["first", "second"], 0.05)
    d = compared[3].differences[0].test
    # The draws of a mean over sets without shared items: the sum of their variances over nine.
    sets = [one.differences[0].test.standard_error for one in compared[:3]]
    assert d.standard_error == pytest.approx(math.sqrt(sum(error**2 for error in sets)) / 3, rel=0.05)
    points = [(1.95996 + power) * d.standard_error for power in (0, 0.84162)]
    assert text == (
        "first is better than second on 1 of 3 sets and worse on 1; on avg-same the difference (first - second) is "
        f"{d.difference:+.1f} [{d.low:+.1f}, {d.high:+.1f}], p = {d.p:.3f}, which allows no claim; "
        f"no claim can be made of the other one. With 360 items (avg-same) a difference below {points[0]:.1f} points "
        f"will usually go unseen; one of {points[1]:.1f} is found in four of five cases (tests at 0.05)."
    )
    of_set, *_, entry = entries(compared, ["first", "second"], PLAN)
    assert (of_set["n_tests"], entry["n_tests"]) == (3, 1) and of_set["mde_level"] == pytest.approx(0.05 / 3)
    assert [entry["mde_50"], entry["mde_80"]] == pytest.approx(points, rel=1e-4) and entry["mde_level"] == 0.05
    # Turned round, the same is said of the other.
    turned = conclusion(compared, ["second", "first"], 0.05)
    assert f"the difference (second - first) is {-d.difference:+.1f} [{-d.high:+.1f}, {-d.low:+.1f}]" in turned


@pytest.mark.parametrize(
    ("errors", "start"),
    [
        ((0.2, 2.0), "a is better than b on the one set."),
        ((2.0, 0.2), "a is worse than b on the one set."),
        ((0.6, 0.6), "a and b cannot be told apart on the one set."),
    ],
)
def test_the_sentence_about_one_set(errors, start):
    measured = [
        EncoderRows(name, sts({"en-en": error}, seed=k))
        for k, (name, error) in enumerate(zip("ab", errors, strict=True))
    ]
    compared = compare_rows([planned("sts17", "en-en")], measured, PLAN)
    text = conclusion(compared, ["a", "b"], 0.05)
    assert text.startswith(f"{start} With 120 items (en-en) a difference below ")


def test_an_encoder_against_itself_wins_nothing():
    rows = sts(GOOD_BAD)
    compared = compare_rows([planned("sts17", *SAME)], [EncoderRows("a", rows), EncoderRows("b", rows)], PLAN)
    assert all(one.differences[0].test.difference == 0 and one.differences[0].p_holm == 1 for one in compared)
    assert "a and b cannot be told apart on any of 3 sets" in conclusion(compared, ["a", "b"], 0.05)


@pytest.fixture(scope="module")
def three():
    errors = [GOOD_BAD, BAD_GOOD, dict.fromkeys(SAME, 4.0)]
    names = ["good", "bad", "worst"]
    measured = [
        EncoderRows(name, sts(error, seed=k)) for k, (name, error) in enumerate(zip(names, errors, strict=True))
    ]
    return measured, compare_rows([planned("sts17", *SAME)], measured, PLAN)


def test_more_than_two_are_held_against_the_best(three):
    measured, compared = three
    names = [one.encoder for one in measured]
    task = get_task("sts17")
    for one in compared[:3]:
        sample = sample_of(task, "spearman", [own.rows["sts17", one.subset] for own in measured])
        group = best_group(sample, PLAN)
        assert one.standing.best == {name for name, is_best in zip(names, group, strict=True) if is_best}
        for i, j in ((0, 1), (0, 2), (1, 2)):
            expected = paired_tests(sample, [(i, j)], PLAN)[0]
            assert one.between(names[i], names[j]).test == expected
            turned = one.between(names[j], names[i]).test
            direct = paired_tests(sample, [(j, i)], PLAN)[0]
            assert [turned.difference, turned.low, turned.high, turned.p, turned.effect_size] == pytest.approx(
                [direct.difference, direct.low, direct.high, direct.p, direct.effect_size]
            )
    assert win_tie_loss(compared, "good", "worst", 0.05)["loss"] == 0
    text = conclusion(compared, names, 0.05)
    start = "Best or not significantly worse than the best: good on 2 of 3 sets, bad on 2, worst on 0. On avg-same the "
    assert text.startswith(start)
    board, against, ranks, counts = tables(compared, names, PLAN, {"sts17": task.full_signature})
    bold = {row.cells[0].text: [cell.is_best for cell in row.cells[1:]] for row in board.rows}
    assert bold == {one.subset: [name in one.standing.best for name in names] for one in compared}
    assert len(against.rows) == 8 and len(counts.rows) == 3
    # The sentence has the numbers of the table: other - best.
    on_average = {row.cells[2].text: row.cells for row in against.rows if row.cells[0].text == "avg-same"}
    best = next(iter(on_average.values()))[1].text
    parts = {"not significantly worse": [], "worse": []}
    for name, cells in on_average.items():
        parts["not significantly worse" if name in compared[3].standing.best else "worse"].append(
            f"{name} ({cells[3].text} {cells[3].interval_text}, "
            f"p {'' if '<' in cells[5].text else '= '}{cells[5].text})".replace("<", "< ")
        )
    said = "".join(f"; {group}: {', '.join(own)}" for group, own in parts.items() if own)
    assert f"On avg-same the best is {best}{said}. With 360 items (avg-same) a difference below " in text
    assert text.endswith(" is found in four of five cases (tests at 0.025, the strictest level of Holm over 2).")
    sample = average([correlation([own.rows["sts17", subset] for own in measured]) for subset in SAME])
    expected = rank_intervals(bootstrap(sample, PLAN))
    found = {row.cells[0].text: tuple(cell.text for cell in row.cells[2:]) for row in ranks.rows}
    assert found == {n: (str(r.rank), f"{r.low} to {r.high}") for n, r in zip(names, expected, strict=True)}
    # What the second table calls significant is what the first does not print bold.
    for row in against.rows:
        subset, _, encoder, _, _, p, *_ = (cell.text for cell in row.cells)
        one = next(one for one in compared if one.subset == subset)
        assert (p == "<0.001" or float(p) < 0.05) == (encoder not in one.standing.best)


def test_of_equals_none_is_the_winner(three):
    measured, _ = three
    twin = replace(measured[0], encoder="twin")
    trio = [measured[0], twin, measured[2]]
    names = [one.encoder for one in trio]
    compared = compare_rows([planned("sts17", *SAME)], trio, PLAN)
    assert "On avg-same the best, with equal scores, are good and twin; worse: worst (-" in conclusion(
        compared, names, 0.05
    )
    texts = [plain_text(table, 300) for table in tables(compared, names, PLAN, {"sts17": "x"})]
    against = texts[1].splitlines()
    assert sum("= best" in line and "twin" in line for line in against) == 4 and "-0.0" not in texts[1]
    turned = compared[0].between("twin", "good").test
    assert all(math.copysign(1, value) == 1 for value in (turned.difference, turned.low, turned.high))


def test_what_one_encoder_lacks_is_said_and_the_rest_compared(three):
    measured, _ = three
    lacking = replace(
        measured[1],
        rows={key: rows for key, rows in measured[1].rows.items() if key[1] != "es-es"},
        failures={("sts17", "es-es"): "ValueError: no Spanish"},
    )
    pair = [measured[0], lacking]
    compared = compare_rows([planned("sts17", *SAME)], pair, PLAN)
    by_subset = {one.subset: one for one in compared}
    assert by_subset["es-es"].missing == {"bad": "ValueError: no Spanish"}
    assert by_subset["avg-same"].missing == {"bad": "es-es: ValueError: no Spanish"}
    assert list(by_subset["es-es"].values) == ["good"] and not by_subset["avg-same"].differences
    names = ["good", "bad"]
    assert conclusion(compared, names, 0.05) == (
        "good is better than bad on 1 of 2 sets and worse on 1; avg-same cannot be compared; 1 more could not be "
        "compared."
    )
    text = "\n".join(render(table) for table in tables(compared, names, PLAN, {"sts17": "task:sts17"}))
    assert "– bad on es-es: ValueError: no Spanish" in text
    assert "– bad on avg-same: es-es: ValueError: no Spanish" in text
    entry = next(entry for entry in entries(compared, names, PLAN) if entry["subset"] == "es-es")
    assert entry["second_value"] is None and entry["difference"] is None and entry["first_value"] is not None
    assert entry["missing"] == "bad: ValueError: no Spanish"
    # The others of three are compared on it, with the numbers that they have alone.
    of_three = compare_rows([planned("sts17", *SAME)], [*pair, measured[2]], PLAN)
    alone = compare_rows([planned("sts17", *SAME)], [measured[0], measured[2]], PLAN)
    for one, other in zip(of_three, alone, strict=True):
        assert one.between("good", "worst") == other.between("good", "worst")


def test_language_bias_is_tested_against_zero_and_wins_nothing():
    def joined(seed, shift):
        parts = sts(dict.fromkeys(("en-en", "es-es"), 0.3), seed=seed)
        cosine = np.concatenate([parts["sts17", "en-en"]["cosine"], parts["sts17", "es-es"]["cosine"] + shift])
        gold = np.concatenate([part["gold"] for part in parts.values()])
        return {"set": np.repeat(["en-en", "es-es"], N), "item": np.arange(2 * N), "gold": gold, "cosine": cosine}

    rows = {"fair": joined(1, 0.0), "biased": joined(2, 3.0)}
    measured = [EncoderRows(name, {("language-bias", "official6"): own}) for name, own in rows.items()]
    (one,) = compare_rows([planned("language-bias", "official6")], measured, PLAN)
    assert (one.kind, one.metric) == ("bias", "difference")
    direct = bootstrap_p(bootstrap(sample_of(get_task("language-bias"), "difference", list(rows.values())), PLAN))
    assert list(one.p_zero.values()) == holm_by_hand(direct.tolist())
    assert one.p_zero["biased"] < 0.05 < one.p_zero["fair"]
    assert win_tie_loss([one], "fair", "biased", 0.05) == {"win": 0, "tie": 0, "loss": 0} and not one.standing.best
    text = conclusion([one], ["fair", "biased"], 0.05)
    assert text.startswith("Language bias on official6: difference ") and "better" not in text
    (table,) = tables([one], ["fair", "biased"], PLAN, {"language-bias": "task:language-bias"})
    assert [cell.text for cell in table.rows[0].cells][-1] != "win" and table.note_texts[-1] == text


def test_another_metric_and_one_that_a_set_lacks():
    assert get_task("bucc").main_metric == "f1_train" and get_task("language-bias").main_metric == "difference"
    rng = np.random.default_rng(0)

    def mined(seed):
        score = np.sort(np.random.default_rng(seed).random(40))[::-1]
        gold = rng.random(40) < 0.5
        row = np.arange(40)
        return {"split": np.full(40, "training"), "row1": row, "row2": row, "score": score, "gold": gold}

    rows = mined(1)
    measured = [EncoderRows(name, {("bucc", "de-en"): rows}) for name in "ab"]
    (one,) = compare_rows([planned("bucc", "de-en")], measured, PLAN, "f1_test")
    assert not one.values and one.missing == dict.fromkeys("ab", "no f1_test on this set")
    (one,) = compare_rows([planned("bucc", "de-en")], measured, PLAN, "precision_train")
    assert one.metric == "precision_train" and one.values["a"].low < one.values["a"].high


def test_too_few_items_and_too_few_resamples_are_said():
    short = {key: {k: v[:2] for k, v in rows.items()} for key, rows in sts({"en-en": 0.1}).items()}
    compared = compare_rows([planned("sts17", "en-en")], [EncoderRows("a", short), EncoderRows("b", short)], PLAN)
    assert math.isnan(compared[0].differences[0].test.p)
    text = render(tables(compared, ["a", "b"], PLAN, {"sts17": "x"})[0])
    assert "no intervals and tests with fewer than three items: en-en" in text
    assert entries(compared, ["a", "b"], PLAN)[0]["p"] is None

    measured = [
        EncoderRows("a", sts(dict.fromkeys(SAME, 0.01))),
        EncoderRows("b", sts(dict.fromkeys(SAME, 9.0), seed=7)),
    ]
    for resamples, is_enough in ((59, False), (60, True)):  # 3 tests: 3 / (59 + 1) = 0.05
        plan = Resampling(resamples)
        compared = compare_rows([planned("sts17", *SAME)], measured, plan)
        assert (win_tie_loss(compared, "a", "b", 0.05)["win"] == 3) is is_enough
        notes = tables(compared, ["a", "b"], plan, {"sts17": "x"})[-1].note_texts
        assert any("too few" in note and "--resamples 60 or more" in note for note in notes) is not is_enough


def test_items_that_are_all_alike_are_said():
    rows = {key: {**own, "cosine": own["gold"]} for key, own in sts({"en-en": 0.1}).items()}
    compared = compare_rows([planned("sts17", "en-en")], [EncoderRows("a", rows), EncoderRows("b", rows)], PLAN)
    text = plain_text(tables(compared, ["a", "b"], PLAN, {"sts17": "x"})[0], 200)
    assert "no interval: all items alike: a on en-en, b on en-en" in text and "fewer" not in text
    assert "+0.0" in text and "[+0.0, +0.0]" in text and "1.000" in text


def test_rows_of_other_items_are_one_line():
    other = {key: {**rows, "gold": rows["gold"] + 1} for key, rows in sts({"en-en": 0.5}).items()}
    with pytest.raises(InputError, match="not of the same pairs"):
        compare_rows(
            [planned("sts17", "en-en")], [EncoderRows("a", sts({"en-en": 0.5})), EncoderRows("b", other)], PLAN
        )


class Broken:
    """Fails in Arabic; what it gives in Spanish is no vectors."""

    name, fingerprint, dim, uses_lang = "broken", "broken-v1", 2, True

    def encode(self, sentences, *, lang=None):
        if lang == "ar":
            raise RuntimeError("out of Arabic")
        return np.full((len(sentences), 2), np.nan if lang == "es" else 1.0, np.float32)


def test_an_encoder_that_fails_on_a_set_keeps_the_others(tmp_path):
    from harness.data import bundled_sample
    from harness.running.plan import make_plan

    names = ["en-en@sample", "en-ar@sample", "en-de@sample", "en-es@sample", "en-fr@sample"]
    plan = make_plan([get_task("sts17")], bundled_sample(), names)
    order = [source.subset for source in plan[0].sources]
    measured = measure_rows(Run(VectorCache(tmp_path), ResultStore(tmp_path / "results")), Broken(), plan)
    why = {subset: text for (_, subset), text in measured.failures.items()}
    assert why["en-ar@sample"] == "RuntimeError: out of Arabic"
    after = order.index("en-es@sample")
    assert {subset for _, subset in measured.rows} == set(order[:after]) - {"en-ar@sample"}
    assert "NaN" in why["en-es@sample"] and order[after + 1 :]
    assert all(why[subset] == f"not tried after: {why['en-es@sample']}" for subset in order[after + 1 :])
