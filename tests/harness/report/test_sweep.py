"""Curves of cut and quantised vectors from records made by hand; how boards treat such records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from result_records import sts

from harness.encoders.reduction import Quantize, Reduced
from harness.report.cells import Table
from harness.report.entries import long_form
from harness.report.sweep import all_curves, curves, entries, sentences
from harness.report.tables import boards
from harness.results.records import Dataset, Result
from harness.results.selection import fold
from harness.results.statistics import Entry, Statistics, digest
from harness.statistics.board import Board

# Name, dimension, how it is stored, and by subset: score, and p against the full vectors.
VARIANTS: dict[str, tuple[int, Quantize, dict[str, tuple[float, float | None]]]] = {
    "muse@int8": (512, "int8", {"avg-same": (80.0, 0.9), "avg-cross": (70.0, 0.8)}),
    "muse@100-int8": (100, "int8", {"avg-same": (79.0, 0.02), "avg-cross": (69.5, 0.5)}),
    "muse@100-binary": (100, "binary", {"avg-same": (78.9, 0.001), "avg-cross": (60.0, None)}),
}
QUANTIZED = {"int8": "int8:0123456789ab", "binary": "binary"}


def measured() -> list[Result]:
    results = [sts("muse", "avg-same", 80.04), sts("muse", "avg-cross", 70.0), sts("e5", "avg-same", 79.5)]
    for name, (dim, quantize, scores) in VARIANTS.items():
        done = Reduced(dim, 512, quantize)
        cut = f"|truncate_dim:{dim}" if dim < 512 else ""
        facts = {"base": "muse", "reduced": done, "fingerprint": f"muse-1{cut}|quantize:{QUANTIZED[quantize]}"}
        results += [sts(name, s, score, **facts) for s, (score, _) in scores.items()]
    return results


def known(results: list[Result]) -> dict[str, Statistics]:
    """Intervals of 2 points; the p-values of the table above, kept with the first name, and one of muse against e5."""
    found = {(r.encoder, r.subset): Entry(digest(r)) for r in results}
    for r in results:
        entry = found[r.encoder, r.subset]
        entry.interval["spearman"] = (r.metrics["spearman"] - 1, r.metrics["spearman"] + 1)
        if r.base:
            p = VARIANTS[r.encoder][2][r.subset][1]
            if p is not None:
                found["muse", r.subset].p.setdefault("spearman", {})[r.encoder] = p
                entry.difference["spearman"] = {"muse": (-2.0, 0.25)}
    found["e5", "avg-same"].p["spearman"] = {"muse": 0.001}
    return {"sts17": Statistics("bootstrap", 0.95, found)}


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row.cells] for row in table.rows]


def test_a_row_for_the_full_vectors_then_the_variants_by_size() -> None:
    results = measured()
    same, cross = curves(results, known(results))
    assert (same.title, cross.title) == (
        "muse, cut and quantised: STS avg-same, x 100",
        "muse, cut and quantised: STS avg-cross, x 100",
    )
    assert texts(same) == [
        ["muse", "512", "float32", "2,048", "80.0", "", ""],
        ["muse@int8", "512", "int8", "512", "80.0", "+0.0", "0.900"],
        ["muse@100-int8", "100", "int8", "100", "79.0", "-1.0", "0.040"],  # 0.02 x 2
        ["muse@100-binary", "100", "binary", "13", "78.9", "-1.1", "0.003"],  # 0.001 x 3
    ]
    assert [row.cells[4].is_best for row in same.rows] == [False, True, False, False]
    assert same.rows[2].cells[5].interval_text == "[-2.0, +0.2]"
    assert texts(cross)[3][6] == "–" and not cross.rows[3].cells[4].is_best  # not tested


def test_sentences_say_what_the_tests_allow() -> None:
    results = measured()
    (curve,) = all_curves(results, known(results))
    assert sentences(curve) == [
        "STS avg-same: the smallest vectors of muse that are not significantly worse than the full ones "
        "(512 dimensions, 2,048 bytes) have 512 dimensions, int8: 512 bytes (1/4 of the full size), 0.0 points apart "
        "[-2.0, +0.2], p = 0.900; significantly worse: 100 dimensions, int8: 100 bytes, 1.0 points below [-2.0, +0.2]; "
        "100 dimensions, binary: 13 bytes, 1.1 points below [-2.0, +0.2].",
        "STS avg-cross: the smallest vectors of muse that are not significantly worse than the full ones "
        "(512 dimensions, 2,048 bytes) have 100 dimensions, int8: 100 bytes (5 % of the full size), 0.5 points below "
        "[-2.0, +0.2], p = 1.000.",
        "All numbers: the smallest vectors of muse that are significantly worse by none of them have 512 dimensions, "
        "int8: 512 bytes (1/4 of the full size).",
    ]


def test_without_statistics_nothing_is_claimed() -> None:
    (curve,) = all_curves(measured(), {})
    assert sentences(curve)[:2] == [
        f"STS {subset}: nothing was tested against the full vectors of muse." for subset in ("avg-same", "avg-cross")
    ]
    assert {entry["is_worse"] for entry in entries([curve])} == {None}
    assert not any(cell.is_best for table in curves(measured(), {}) for row in table.rows for cell in row.cells)


@pytest.mark.parametrize(
    "other",
    [{"fingerprint": "muse-2"}, {"fingerprint": "muse"}, {"signature": "x"}, {"dataset": Dataset("d", "0", {})}],
)
def test_variants_of_other_weights_or_data_are_not_held_against_the_full_vectors(other: dict[str, Any]) -> None:
    results = [replace(result, **other) if result.encoder == "muse" else result for result in measured()]
    table = curves(results, known(results))[0]
    assert [row[5:] for row in texts(table)] == [["", ""], ["–", "–"], ["–", "–"], ["–", "–"]]
    note = "made from other vectors than muse has, or of other data: muse@int8, muse@100-int8, muse@100-binary"
    assert note in table.note_texts
    assert "STS avg-same: nothing was tested against the full vectors of muse." in table.note_texts


def test_variants_whose_full_vectors_were_not_measured_there() -> None:
    results = [replace(result, base="gone") for result in measured() if result.base]
    kept, folded = fold(results)
    assert kept == results and not folded
    assert texts(curves(results, {})[0])[0][:5] == ["gone", "512", "float32", "2,048", "–"]


def test_a_task_without_averages_shows_every_set_that_a_variant_was_measured_on() -> None:
    done = Reduced(8, 16, "none")
    results = [sts("a", subset, 80.0) for subset in ("en-en", "en-fr", "en-de")]
    results += [sts("a@8", subset, 70.0, base="a", reduced=done) for subset in ("en-en", "en-fr")]
    assert [table.title for table in curves(results, {})] == [
        "a, cut and quantised: STS 2017 en-en, x 100",
        "a, cut and quantised: STS 2017 en-fr, x 100",
    ]


def test_an_average_that_no_variant_has_is_not_shown() -> None:
    results = [result for result in measured() if not (result.base and result.subset == "avg-cross")]
    assert [table.title for table in curves(results, {})] == ["muse, cut and quantised: STS avg-same, x 100"]


@pytest.mark.parametrize("key", [("sts17", "avg-same", "spearman"), ("sts17", "avg-cross", "spearman")])
def test_a_board_says_the_same_of_the_others_with_variants_and_without(key: tuple[str, str, str]) -> None:
    results, (without, folded) = measured(), fold(measured())
    assert len(folded) == 6 and {result.encoder for result in without} == {"muse", "e5"}
    assert Board(results, known(results)).standing(key) == Board(without, known(results)).standing(key)
    of_full = [entry for entry in long_form(results, statistics=known(results)) if entry["encoder"] in ("muse", "e5")]
    assert of_full == long_form(without, statistics=known(results))


def test_tables_have_variants_below_their_encoder_or_a_note() -> None:
    results = measured()
    (table,) = boards(results, statistics=known(results))
    assert [row[0] for row in texts(table)] == [
        "muse", "muse@int8, 512 bytes", "muse@100-int8, 100 bytes", "muse@100-binary, 13 bytes", "e5"
    ]  # fmt: skip
    assert [row.cells[1].is_best for row in table.rows] == [True, False, False, False, False]
    assert "cut and quantised vectors are not ranked among the encoders" in table.note_texts
    without, folded = fold(results)
    (table,) = boards(without, statistics=known(results), folded=folded)
    assert [row[0] for row in texts(table)] == ["muse", "e5"]
    assert table.note_texts[0].startswith("not shown: cut or quantised vectors, 3 of muse; ")


def test_only_what_is_made_of_the_full_vectors_is_left_out_of_tables() -> None:
    """Cut vectors of another maximum length are no smaller form of these."""
    shown, folded = fold(measured())
    assert {r.encoder for r in shown} == {"muse", "e5"} and len(folded) == 6
    other = [replace(r, fingerprint=f"muse-1|normalized{r.fingerprint[6:]}") if r.base else r for r in measured()]
    shown, folded = fold(other)
    assert len(shown) == len(other) and not folded


@pytest.mark.parametrize(
    ("reduced", "suffix", "is_made"),
    [
        (Reduced(100, 512, "none"), "|truncate_dim:100", True),
        (Reduced(100, 512, "none"), "", False),
        (Reduced(512, 512, "binary"), "|quantize:binary", True),
        (Reduced(512, 512, "binary"), "|truncate_dim:512|quantize:binary", True),
        (Reduced(100, 512, "int8"), "|truncate_dim:100|quantize:int8:0a1b", True),
        (Reduced(100, 512, "int8"), "|truncate_dim:100|quantize:int8", False),
        (Reduced(100, 512, "int8"), "|truncate_dim:99|quantize:int8:0a1b", False),
        (Reduced(100, 512, "int8"), "|normalized|truncate_dim:100|quantize:int8:0a1b", False),
    ],
)
def test_a_fingerprint_says_what_was_done_and_nothing_else(reduced: Reduced, suffix: str, is_made: bool) -> None:
    assert reduced.is_made("a+b|c", f"a+b|c{suffix}") is is_made


def test_a_table_of_cut_and_quantised_vectors_says_their_bytes() -> None:
    (table,) = boards([result for result in measured() if result.encoder in ("muse", "muse@100-binary")])
    assert [row.cells[0].text for row in table.rows] == ["muse", "muse@100-binary, 13 bytes"]
