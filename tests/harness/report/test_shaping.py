"""Tables for a paper: columns chosen, intervals left out, turned round, marks against a reference; LaTeX compiled."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from gate_runs import leaderboard_here
from measured_rows import store_measured, sts_rows
from result_records import sts, write_records
from speeds import measurement

from harness.core.errors import InputError
from harness.report.cells import Cell, Column, Note, Row, Table
from harness.report.published import not_comparable
from harness.report.render import render
from harness.report.shaping import transposed, with_columns, without_intervals
from harness.results.statistics import StatisticsStore
from harness.results.store import ResultStore
from harness.speed.store import SpeedStore
from harness.statistics.board import Board, holm
from harness.statistics.update import update_statistics
from harness.tasks import get_task

SETS = ("en-en", "es-es", "ar-ar")
TABLE = Table(
    "Scores",
    (Column("encoder", is_number=False), Column("de-en", "f1"), Column("de-en", "p"), Column("avg", is_average=True)),
    (
        Row((Cell("a"), Cell(81.0, "score", interval=(5.0, 90.0)), Cell(0.1, "threshold"), Cell(1.0, "score"))),
        Row((Cell("b"), Cell(9.0, "score", is_best=True, mark="↓"), Cell(None), Cell(2.0, "score"))),
    ),
    (
        Note("[low, high]: an interval"),
        Note("bold", rest=": of the encoders of a column, not over the encoders of a row"),
        Note("↑ ↓: against x", is_caption=True),
        Note("signature: ", "a:b|c"),
    ),
)


def test_columns_are_chosen_by_their_heading_or_a_part() -> None:
    def heads(*names: str) -> list[str]:
        return [column.label for column in with_columns([TABLE], names)[0].columns]

    assert heads("avg", "de-en") == ["encoder", "avg", "de-en f1", "de-en p"]
    assert heads("de-en p") == heads("p") == ["encoder", "de-en"]  # p is in the title then
    assert with_columns([TABLE], ["p"])[0].title == "Scores, p" and with_columns([TABLE], ["avg"])[0].title == "Scores"
    assert [len(row.cells) for row in with_columns([TABLE], ["p"])[0].rows] == [2, 2]
    assert with_columns([TABLE, Table("x", TABLE.columns[:1], ())], ["f1"])[1:] == []
    for name in ("encoder", "f2", ""):
        with pytest.raises(InputError, match="column"):
            with_columns([TABLE], [name])


def test_without_intervals() -> None:
    table = without_intervals(TABLE)
    assert not any(cell.interval for row in table.rows for cell in row.cells)
    assert next(note.text for note in table.notes) == "bold"


def test_turned_round() -> None:
    turned = transposed(TABLE)
    assert [column.head for column in turned.columns] == ["", "a", "b"]
    assert [[cell.text for cell in row.cells] for row in turned.rows] == [
        ["de-en f1", "81.0", "9.0"],
        ["de-en p", "0.1000", "–"],
        ["avg", "1.0", "2.0"],
    ]
    assert [row.is_average for row in turned.rows] == [False, False, True]
    assert turned.notes[1].rest == ": of the encoders of a row, not over the encoders of a column"
    again = transposed(turned)
    assert [[cell.text for cell in row.cells[1:]] for row in again.rows] == [
        [cell.text for cell in row.cells[1:]] for row in TABLE.rows
    ]


def test_latex_puts_each_thing_in_its_place() -> None:
    lines = render(TABLE, "latex").splitlines()
    assert "% signature: a:b|c" in lines
    assert r"\caption{Scores. $\uparrow$ $\downarrow$: against x}\smallskip" in lines
    assert r"\begin{tabular}{lr@{\hspace{7pt}}lrr}" in lines
    assert r"a & 81.0 & {\scriptsize [5.0, 90.0]} & 0.1000 & 1.0 \\" in lines
    assert r"b & \textbf{9.0}\rlap{$^{\downarrow}$} & & -- & 2.0 \\" in lines
    assert r" & \multicolumn{3}{c}{de-en} &  \\" in lines and r"\cmidrule(lr){2-4}" in lines
    plain = render(TABLE, "table", width=80)
    assert "9.0↓*" in plain and "81.0  " in plain
    assert "**9.0↓**" in render(TABLE, "md")


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, error in (("ours", 1.0), ("good", 0.4), ("poor", 4.0), ("near", 1.02)):
        store_measured(tmp_path / "results", name, {subset: sts_rows(subset, error, seed=3) for subset in SETS})
    update_statistics(ResultStore("results"), [get_task("sts17")])
    return tmp_path / "results"


@pytest.mark.slow
def test_marks_are_of_tests_against_the_reference(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = ResultStore(results).load()
    board = Board(records, {"sts17": StatisticsStore(results).load("sts17").current(records)})
    of_set = {r.encoder: r for r in records if r.subset == "en-en"}
    others = [name for name in of_set if name != "ours"]
    p = holm([board.p(of_set[name], of_set["ours"], "spearman") or np.nan for name in others])
    assert board.against(("sts17", "en-en", "spearman"), "ours") == dict(zip(others, p, strict=True))
    assert (
        leaderboard_here("show", "--format", "md", "--reference", "ours", "--columns", "en-en", "--no-intervals") == 0
    )
    printed = capsys.readouterr().out
    shown = {name: value for name, value in re.findall(r"(?m)^\| (\w+) +\| +(\S+) \|$", printed)}
    marks = {name: re.sub(r"[\d.*]", "", value) for name, value in shown.items() if name in of_set}
    values = {name: record.metrics["spearman"] for name, record in of_set.items()}
    expected = {
        name: "" if not q < 0.05 else "↑" if values[name] > values["ours"] else "↓"
        for name, q in zip(others, p, strict=True)
    }
    assert marks == {"ours": "", **expected} and expected["poor"] == "↓" and expected["good"] == "↑"
    assert "significantly better, or worse, than ours" in printed
    assert leaderboard_here("show", "--reference", "nobody", "--full") == 2
    assert leaderboard_here("show", "--transpose", "--format", "csv") == 2
    assert "are of tables" in capsys.readouterr().err


def test_an_empty_cell_beside_published_figures_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    results = [sts("mine", "en-de@deepl", 1.0), sts("mine", "en-ar", 1.0), sts("yours", "en-de", 1.0)]
    from harness.published import paper_scores

    scores = [score for score in paper_scores() if score.task == "sts17"]
    assert not_comparable(results, scores) == [
        "mine on en-de: not comparable because measured on @deepl: another translation than the published set"
    ]


def test_an_encoder_of_ones_own_in_the_papers_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import json

    monkeypatch.chdir(tmp_path)
    store_measured(tmp_path / "results", "mine", {s: sts_rows(s, 1, seed=1) for s in ("en-ar", "en-de@deepl")})
    value = next(r for r in ResultStore("results").load("mine") if r.subset == "en-ar").metrics["spearman"]
    assert leaderboard_here("reproduce", "--table", "2", "--encoder", "mine", "--format", "json") == 0
    rows = {e["column"]: e for e in json.loads(capsys.readouterr().out) if e["row"] == "mine"}
    assert rows["EN-AR"]["measured"] == value and rows["EN-AR"]["needs"] is None
    assert rows["EN-DE"]["measured"] is None and rows["EN-DE"]["needs"].startswith("not comparable because measured on")
    assert rows["EN-TR"]["needs"] == "not measured" and len(rows) == 8
    assert leaderboard_here("reproduce", "--table", "2", "--encoder", "mine") == 0
    assert re.search(rf"(?m)^Table 2  mine +EN-AR +– +{value:.2f} ", capsys.readouterr().out)
    assert leaderboard_here("reproduce", "--encoder", "nobody") == 2

    ours = get_task("sts17").full_signature
    signatures = {"en-ar": ours.replace("cosine", "dot"), "en-tr": ours}
    write_records(Path("other"), [sts("mine", name, 80.0, signature=s) for name, s in signatures.items()])
    capsys.readouterr()
    arguments = ("reproduce", "--table", "2", "--encoder", "mine", "--results", "other", "--format", "json")
    assert leaderboard_here(*arguments) == 0
    rows = {e["column"]: e for e in json.loads(capsys.readouterr().out) if e["row"] == "mine"}
    assert rows["EN-AR"]["needs"] == "not comparable because measured by another protocol"
    assert rows["EN-AR"]["measured"] is None and rows["EN-TR"]["measured"] == 80.0


def test_a_table_cites_and_explains_what_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = np.arange(80)
    for name in ("a", "b"):
        store_measured(Path("results"), name, {s: sts_rows(s, 1, seed=1) for s in SETS})
        rows = {"item": found, "found_en_xx": found, "found_xx_en": found}
        store_measured(Path("results"), name, {"deu": rows}, "tatoeba")
    SpeedStore(Path("results")).merge(measurement("a", 1.0))
    assert leaderboard_here("show", "--task", "sts17", "--task", "tatoeba", "--format", "latex") == 0
    of_sts, of_tatoeba, cost = capsys.readouterr().out.split(r"\end{table")[:3]
    assert "cer-etal-2017" in of_sts and "artetxe" not in of_sts
    assert "artetxe" in of_tatoeba and "cer-etal-2017" not in of_tatoeba
    assert "Cost" in cost and r"\cite" not in cost
    columns = ("show", "--task", "sts17", "--format", "latex", "--columns")
    assert leaderboard_here(*columns, "en-en", "--transpose") == 0
    printed = capsys.readouterr().out
    assert "avg-same" not in printed and "cer-etal-2017" in printed
    assert leaderboard_here(*columns, "avg-same") == 0
    printed = capsys.readouterr().out
    assert "unweighted mean of" in printed and "order of encoders: avg-same" in printed


@pytest.mark.nightly
@pytest.mark.skipif(not shutil.which("pdflatex"), reason="needs LaTeX: apt install texlive-latex-recommended")
@pytest.mark.parametrize(
    "options", [(), ("--no-intervals",), ("--transpose",), ("--columns", "en-en", "--columns", "avg-same")]
)
def test_latex_compiles_within_the_margins(
    results: Path, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert leaderboard_here("show", "--format", "latex", "--reference", "ours", "--task", "sts17", *options) == 0
    table = capsys.readouterr().out
    keys = dict.fromkeys(key for found in re.findall(r"\\cite\{([^}]+)\}", table) for key in found.split(","))
    assert "cer-etal-2017-semeval" in keys or "reimers-gurevych-2020-making" in keys
    document = [r"\documentclass{article}", r"\usepackage{booktabs}", r"\begin{document}", table]
    document += [r"\begin{thebibliography}{9}", *(rf"\bibitem{{{key}}} {key}" for key in keys)]
    document += [r"\end{thebibliography}", r"\end{document}"]
    Path("paper.tex").write_text("\n".join(document), "utf-8")
    for _ in range(2):  # citations are known the second time
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "paper.tex"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, errors="replace")
        assert done.returncode == 0, done.stdout[-2000:]
    log = Path("paper.log").read_text("latin-1")
    assert "Overfull" not in log and "undefined" not in log, [line for line in log.splitlines() if "verfull" in line]
