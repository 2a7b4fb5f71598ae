"""The table over all tasks: columns, order, ranks, and the short form for a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from result_records import record, sts
from speeds import measurement

from harness.protocol import get_task
from harness.protocol.described import described
from harness.protocol.task import Display, OverviewColumn
from harness.report.headlines import one_each
from harness.report.overview import Overview, overviews
from harness.results.records import Result
from harness.results.statistics import Entry, Statistics, digest

SCORES = {"first": (80.0, 70.0, 90.0, 40.0), "second": (82.0, 60.0, 85.0, 30.0), "third": (50.0, 20.0, 10.0, 5.0)}
TWICE = (OverviewColumn("spearman", "S", ("x",)), OverviewColumn("pearson", "P", ("x",)))


def measured(scores: dict[str, tuple[float, ...]] = SCORES) -> list[Result]:
    """Encoders on averages of STS and BUCC, on language bias and on Tatoeba."""
    results = []
    for name, (same, cross, f1, accuracy) in scores.items():
        results += [
            sts(name, "avg-same", same, parts=["en-en", "es-es", "ar-ar"]),
            sts(name, "avg-cross@deepl", cross, parts=["en-ar", "en-de@deepl"]),
            record(name, "language-bias", "ten@deepl", {"difference": -cross / 10}, "s"),
            record(name, "bucc", "avg@ntrex", {"f1_train": f1}, "s", parts=["de-en@ntrex", "fr-en@ntrex"]),
            record(name, "tatoeba", "avg-all", {"accuracy_xx_en": accuracy}, "s", parts=["deu", "tur"]),
            record(name, "tatoeba", "avg-xtreme", {"accuracy_xx_en": 1.0}, "s", parts=["deu"]),
        ]
    return results


def known(results: list[Result], p: float = 0.0001) -> dict[str, Statistics]:
    """All pairs tested with the same p-value."""
    statistics: dict[str, Statistics] = {}
    for result in results:
        others = {r.encoder for r in results if (r.task, r.subset) == (result.task, result.subset)}
        tests = {metric: {o: p for o in others if o > result.encoder} for metric in result.metrics}
        of_task = statistics.setdefault(result.task, Statistics("made-up", 0.95, {}))
        interval = {metric: (value - 1, value + 1) for metric, value in result.metrics.items()}
        of_task.entries[result.encoder, result.subset] = Entry(digest(result), interval, tests)
    return statistics


def overview(results: list[Result], p: float = 0.0001, costs: bool = True) -> Overview:
    speeds = [measurement(name, 0.001) for name in {r.encoder for r in results}] if costs else []
    (found,) = overviews(results, known(results, p), [], speeds)
    return found


def test_who_may_not_be_used_commercially_is_named_with_the_licence() -> None:
    results = [record(name, "bucc", "avg", {"f1_train": 1.0}, "s", spec=name) for name in ("student", "muse", "own")]
    notes = overview(results).front().note_texts
    assert "not free for commercial use, by the licence of the weights: student (CC-BY-NC-4.0)" in notes
    without = overview([result for result in results if result.encoder != "student"]).front().note_texts
    assert not any("commercial" in note for note in without)


def test_all_of_it() -> None:
    table = overview(measured()).front()
    assert [column.label for column in table.columns] == [
        "encoder",
        "STS same",
        "STS cross@",
        "bias ten@",
        "BUCC mean@",
        "Tatoeba all",
        "sentences/s",
        "MB",
    ]
    rows = [[f"{cell.text} {cell.interval_text}".strip() for cell in row.cells[:4]] for row in table.rows]
    assert rows == [
        ["first", "80.0", "70.0", "-7.00"],
        ["second", "82.0", "60.0", "-6.00"],
        ["third", "50.0", "20.0", "-2.00"],
    ]
    assert "order of encoders: overall rank" in table.note_texts
    assert (
        "STS: spearman of sts17 on avg-same, avg-cross@deepl; bias: difference of language-bias on ten@deepl; "
        "BUCC: f1_train of bucc on avg@ntrex; Tatoeba: xx->en of tatoeba on avg-all"
    ) in table.note_texts
    assert "@: avg@ntrex: a BUCC-format set, not the BUCC data" in table.note_texts
    ranks = overview(measured()).rank_table
    assert ranks is not None
    rows = [[f"{cell.text} {cell.interval_text}".strip() for cell in row.cells] for row in ranks.rows]
    assert rows == [
        ["first", "1.2 [1.2, 1.2]", "2.0", "1.0", "1.0", "1.0"],
        ["second", "1.8 [1.8, 1.8]", "1.0", "2.0", "2.0", "2.0"],
        ["third", "3.0 [3.0, 3.0]", "3.0", "3.0", "3.0", "3.0"],
    ]
    (note,) = [text for text in ranks.note_texts if text.startswith("overall rank")]
    assert note.startswith("overall rank: the mean of the ranks in the 4 columns by which encoders are ranked; its")


@pytest.mark.parametrize("costs", [True, False])
def test_the_front_page_has_seven_columns_at_most(costs: bool) -> None:
    own = [
        record(name, task, "avg", {metric: 50.0 + len(name)}, "s")
        for name in SCORES
        for task, metric in (("pairs", "accuracy_src_trg"), ("scored", "spearman"), ("retrieval", "ndcg_at_10"))
    ]
    table = overview([*measured(), *own], costs=costs).front()
    assert len(table.columns) == 8 and all(len(row.cells) == 8 for row in table.rows)
    (left_out,) = [text for text in table.note_texts if text.startswith("no room for: ")]
    assert "bias ten@" in left_out, "what ranks nobody goes first"
    few = overview([result for result in measured() if result.task == "tatoeba"], costs=costs).front()
    assert [column.label for column in few.columns][:2] == ["encoder", "Tatoeba all"]
    assert not [text for text in few.note_texts if text.startswith("no room for: ")]


def test_names_lead_to_the_encoders_pages_if_they_can_name_a_file() -> None:
    results = [*measured(), sts("a/../b", "avg-same", 90.0), sts("x](y)", "avg-same", 91.0)]
    found = {row.cells[0].value: row.cells[0].link for row in overview(results).front("results/", "encoders").rows}
    assert found == {
        **{name: f"results/encoders/{name}.md" for name in SCORES},
        **{"a/../b": "", "x](y)": ""},
    }
    assert not any(row.cells[0].link for row in overview(results).front().rows)


def test_the_short_form_in_full() -> None:
    results = [*measured(), sts("english", "avg-same", 90.0, spec="minilm", parts=["en-en", "es-es", "ar-ar"])]
    assert (
        overview(results).short(100)
        == """\
All tasks, scores x 100

                         ------ sts17 -------  language-bias   bucc  tatoeba
encoder    overall rank  avg-same  avg-cross@           ten@   avg@  avg-all  sent./s    MB
-------------------------------------------------------------------------------------------
first    1.2 [1.2, 1.2]     80.0        70.0*          -7.00  90.0*    40.0*    1,000  32.9
second   1.8 [1.8, 1.8]     82.0        60.0           -6.00  85.0     30.0     1,000  32.9
third    3.0 [3.0, 3.0]     50.0        20.0           -2.00  10.0      5.0     1,000  32.9
english               –    †90.0*          –               –     –        –     1,000  32.9

scores: sts17 spearman, language-bias difference, bucc f1_train, tatoeba xx->en
overall rank: the mean rank in 4 columns, of the 3 encoders that have all; [low, high]: 95 %
*: the best of a column, and all that are not significantly worse than it
†: on a language that the encoder was not made for; an average, on one or more
– not measured here
@: avg-cross@deepl, ten@deepl: another translation than the published set
@: avg@ntrex: a BUCC-format set, not the BUCC data
sent./s: sentences a second; MB: on disk; Made-up CPU, 2 cores, 8 GiB, device cpu, threads 2
more: leaderboard show --task NAME (sts17, language-bias, bucc, tatoeba), or --full for all"""
    )


@pytest.mark.parametrize("width", [100, 90, 80, 60])
def test_it_keeps_to_the_width_and_says_what_it_leaves_out(width: int) -> None:
    names = {f"a-very-long-name-of-an-encoder-that-somebody-gave-it-{i}": of for i, of in enumerate(SCORES.values())}
    text = overview(measured(names)).short(width)
    assert max(map(len, text.splitlines())) <= width
    assert "a-very-long-name-...-gave-it-0 " in text
    assert "no room for: " in text and "overall rank" in text
    shown = text.partition("no room for: ")[0]
    assert "ten@" not in shown.splitlines()[3], "what ranks nobody goes first"
    assert all(f"it-{i}" in text for i in range(3))


def test_many_tasks_keep_a_column_each_as_long_as_there_is_room() -> None:
    sets = [record(e, "bucc", s, {"f1_train": 50.0 + i}, "s") for i, e in enumerate("ab") for s in ("de-en", "fr-en")]
    results = [result for result in measured() if result.task != "bucc"]
    results = [replace(result, encoder={"first": "a", "second": "b"}.get(result.encoder, "c")) for result in results]
    text = overview([r for r in results if r.encoder != "c"] + sets).short(80)
    heads = text.splitlines()[2:4]
    assert all(task in heads[0] for task in ("sts17", "bucc", "tatoeba")) and "no room for: " in text


def test_of_several_averages_that_one_stands_there_by_which_the_task_ranks() -> None:
    assert [key for _, key in one_each(measured()) if key[0] == "tatoeba"] == [("tatoeba", "avg-all", "accuracy_xx_en")]
    most = [sts(e, "avg-cross", 1.0) for e in "abc"] + [sts(e, "avg-cross@deepl", 1.0) for e in "ab"]
    assert [key[1] for _, key in one_each(most)] == ["avg-cross"]


def test_without_an_average_a_few_sets_have_a_column_each_and_many_have_none() -> None:
    few = [record("a", "tatoeba", code, {"accuracy_xx_en": 1.0}, "s") for code in ("tur", "deu")]
    assert [key[1] for _, key in one_each(few)] == ["deu", "tur"]
    many = [record("a", "tatoeba", code, {"accuracy_xx_en": 1.0}, "s") for code in ("tur", "deu", "fra", "kat", "tat")]
    assert one_each(many) == [] == overviews(many, {}, [], [])
    own = [record("a", "pairs", "faq", {"accuracy_src_trg": 90.0}, "s")]
    assert [column.label for column, _ in one_each(own)] == ["Own pairs src->trg faq"]


def test_what_the_interval_of_a_rank_says_nothing_about_is_said() -> None:
    results = measured()
    apart = " ".join(overview(results, p=0.02).short(100).split())
    assert "no two of these encoders are told apart; of 12 tests the smallest p is 0.02, before the" in apart
    (untested,) = overviews(results, {}, [], [])
    assert "overall rank: no two of these encoders were tested against each other" in untested.short(100)
    assert "first    1.2 [1.0, 3.0]" in untested.short(100)


def test_one_encoder_has_no_rank() -> None:
    alone = overview([result for result in measured() if result.encoder == "first"])
    assert "rank" not in alone.short(100) and alone.rank_table is None


def test_two_metrics_of_one_set_are_told_apart() -> None:
    task = replace(get_task("sts17"), name="twice", display=Display(overview=TWICE))
    results = [record(e, "twice", "x", {"spearman": s, "pearson": s + 1}, "s") for e, s in (("a", 1.0), ("b", 2.0))]
    described.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.protocol.described.get_task", lambda name: task)
        heads = overviews(results, {}, [], [])[0].short(100).splitlines()[3]
    described.cache_clear()
    assert heads.split() == ["encoder", "overall", "rank", "x", "spearman", "x", "pearson"]


@pytest.mark.parametrize(("n", "more"), [(3, ""), (4, "1 more set has"), (30, "27 more sets have")])
def test_of_many_sets_with_remarks_a_few_are_named(n: int, more: str) -> None:
    metrics = {"accuracy_src_trg": 50.0}
    results = [
        record(name, "pairs", f"s{i:02}", metrics, "p", remarks=["17 pairs, but 11 different sentences"])
        for name in ("a", "b")
        for i in range(n)
    ]
    parts = [f"s{i:02}" for i in range(n)]
    results += [record(name, "pairs", "avg", metrics, "p", parts=parts) for name in ("a", "b")]
    (one,) = overviews(results, {}, [], [])
    for notes in (one.short(100).splitlines(), [note.plain for note in one.front().notes]):
        assert [line[:9] for line in notes if "17 pairs" in line] == ["pairs s00", "pairs s01", "pairs s02"]
        said = [line for line in notes if "such notes" in line]
        assert said == ([f"{more} such notes: leaderboard show --task pairs"] if more else [])
