"""One table in every format, written out in full."""

from __future__ import annotations

import csv
import io
import json
import sys

import pytest
from gate_runs import leaderboard_here
from result_records import STS_SIGNATURE, record, small_board, sts

from harness.report.cells import Cell, Column, Note, Row, Table
from harness.report.entries import long_form
from harness.report.render import ENTRY_FORMATS, FORMATS, TABLE_FORMATS, render, render_long
from harness.report.tables import boards
from harness.report.terminal import plain_text
from harness.results.statistics import Entry, Statistics, digest


@pytest.fixture
def table() -> Table:
    return boards(small_board())[0]


def test_terminal(table: Table) -> None:
    expected = """\
STS 2017: Spearman's rho x 100

encoder                    en-en  avg-same  en-de@deepl
-------------------------------------------------------
e5                          84.0      81.0            –
muse                        83.5      80.0         80.0
chargrams (lexical floor)   70.0      50.0          0.0

lexical floor: compares spellings only; what an encoder has to beat
– not measured here
avg-same: unweighted mean of en-en, es-es, ar-ar
@deepl: another translation than the published set
n: 250 a set
order of encoders: avg-same (spearman)
no interval and no test: chargrams, e5, muse; to mend it: leaderboard run --save-rows --encoder chargra\
ms --encoder e5 --encoder muse --task sts17
signature: task:sts17|version:1|similarity:cosine"""
    assert plain_text(table, 80) == expected


def test_terminal_splits_what_is_too_wide() -> None:
    metrics = {"f1_train": 90.0, "f1_test": 88.0, "threshold": 1.05}
    [table] = boards([record("muse", "bucc", f"{xx}-en", metrics, "s") for xx in ("de", "fr", "ru")])
    expected = """\
BUCC bitext mining, scores x 100

         ---------- de-en -----------  ---------- fr-en -----------
encoder  f1_train  f1_test  threshold  f1_train  f1_test  threshold
-------------------------------------------------------------------
muse         90.0     88.0     1.0500      90.0     88.0     1.0500

         ---------- ru-en -----------
encoder  f1_train  f1_test  threshold
-------------------------------------
muse         90.0     88.0     1.0500

n: 250 a set
no interval and no test: muse; to mend it: leaderboard run --save-rows --encoder muse --task bucc
signature: s"""
    assert plain_text(table, 80) == expected
    assert len(plain_text(table, 200).split("\n\n")) == 3


def test_terminal_makes_room_for_a_long_heading() -> None:
    scores = {"accuracy_en_xx": 50.0, "accuracy_xx_en": 40.0}
    [table] = boards([record("muse", "tatoeba", code, scores, "s") for code in ("avg-student@longer", "kat")])
    expected = """\
Tatoeba similarity search, scores x 100

         avg-student@longer  ---- kat -----
encoder    en->xx    xx->en  en->xx  xx->en
-------------------------------------------
muse        †50.0     †40.0   †50.0   †40.0

@longer: a stand-in for the published set
n: 250 (kat)
†: on a language that the encoder was not made for; an average, on one or more
no interval and no test: muse; to mend it: leaderboard run --save-rows --encoder muse --task tatoeba
signature: s"""
    assert plain_text(table, 80) == expected
    narrow = plain_text(table, 20).splitlines()
    assert narrow[2:6] == [
        "         avg-student@longer",
        "encoder              en->xx",
        "---------------------------",
        "muse                  †50.0",
    ]


@pytest.mark.parametrize("width", [1, 30, 47, 48, 80, 200])
def test_no_cell_is_cut_at_any_width(table: Table, width: int) -> None:
    text = plain_text(table, width)
    for row in table.rows:
        assert all(cell.text in text for cell in row.cells)
    grid = text.partition("\n\nlexical floor")[0].splitlines()[1:]
    assert max(map(len, grid)) <= max(width, len("chargrams (lexical floor)  en-de@deepl"))


def test_bold_on_a_terminal_only(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in render(table, "table")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "\x1b[1mSTS 2017: Spearman's rho x 100\x1b[0m" in render(table, "table")


def test_markdown(table: Table) -> None:
    expected = """\
### STS 2017: Spearman's rho x 100

| encoder                   | en-en | *avg-same* | en-de@deepl |
| ------------------------- | ----: | ---------: | ----------: |
| e5                        |  84.0 |       81.0 |           – |
| muse                      |  83.5 |       80.0 |        80.0 |
| chargrams (lexical floor) |  70.0 |       50.0 |         0.0 |

- lexical floor: compares spellings only; what an encoder has to beat
- – not measured here
- avg-same: unweighted mean of en-en, es-es, ar-ar
- `@deepl`: another translation than the published set
- n: 250 a set
- order of encoders: avg-same (spearman)
- no interval and no test: chargrams, e5, muse; to mend it: `leaderboard r\
un --save-rows --encoder chargrams --encoder e5 --encoder muse --task sts17`
- signature: `task:sts17|version:1|similarity:cosine`"""
    assert render(table, "md") == expected


def test_latex(table: Table) -> None:
    expected = r"""% needs \usepackage{booktabs}
% no interval and no test: chargrams, e5, muse; to mend it: leaderboard run --save-rows """
    expected += r"""--encoder chargrams --encoder e5 --encoder muse --task sts17
% signature: task:sts17|version:1|similarity:cosine
\begin{table}
\centering
\caption{STS 2017: Spearman's rho $\times$ 100}\smallskip
\begin{tabular}{lrrr}
\toprule
encoder & en-en & \textit{avg-same} & en-de@deepl \\
\midrule
e5 & 84.0 & 81.0 & -- \\
muse & 83.5 & 80.0 & 80.0 \\
chargrams (lexical floor) & 70.0 & 50.0 & 0.0 \\
\bottomrule
\end{tabular}
\par\smallskip\raggedright\footnotesize lexical floor: compares spellings only; what an encoder has to beat \par """
    expected += r"""-- not measured here \par avg-same: unweighted mean of en-en, es-es, ar-ar \par """
    expected += (
        r"""@deepl: another translation than the published set \par n: 250 a set \par order of encoders: avg-same """
        r"""(spearman)
\end{table}"""
    )
    assert render(table, "latex") == expected


def test_latex_with_two_footnotes() -> None:
    """After a double backslash, LaTeX would read `[2]` as a length."""
    other = sts("c", "es-es", 1.0, fingerprint="old", signature="task:sts17|version:0")
    [table] = boards([*(sts(e, s, 2.0) for e in ("a", "b") for s in ("en-en", "es-es")), sts("c", "en-en", 1.0), other])
    notes = render(table, "latex").splitlines()[-2]
    assert notes.startswith(
        r"\par\smallskip\raggedright\footnotesize [1] c: measured with 2 fingerprints: c-1, old "
        r"\par [2] c: another protocol than the rest on es-es: task:sts17\textbar{}version:0 \par "
    )
    assert r"\\" not in notes


def test_latex_has_headings_in_two_levels() -> None:
    metrics = {"expected": 69.5, "actual": 68.6, "difference": -0.92}
    [table] = boards([record("LASER_2", "language-bias", group, metrics, "s") for group in ("official6", "ten")])
    assert render(table, "latex").splitlines()[-11:-2] == [
        r"\begin{tabular}{lrrrrrr}",
        r"\toprule",
        r" & \multicolumn{3}{c}{official6} & \multicolumn{3}{c}{ten} \\",
        r"\cmidrule(lr){2-4} \cmidrule(lr){5-7}",
        r"encoder & expected & actual & difference & expected & actual & difference \\",
        r"\midrule",
        r"LASER\_2 & 69.5 & 68.6 & $-$0.92 & 69.5 & 68.6 & $-$0.92 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_special_characters_are_escaped() -> None:
    table = Table("100% & more", (Column("a|b", is_number=False),), (Row((Cell(r"<x> *y* \z #1 ~^{}_$"),)),))
    assert render(table, "md").splitlines()[2:] == [
        r"| a\|b                        |",
        r"| --------------------------- |",
        r"| \<x> \*y\* \\z #1 \~^{}\_\$ |",
    ]
    latex = render(table, "latex")
    assert r"\caption{100\% \& more}" in latex
    assert r"\textless{}x\textgreater{} *y* \textbackslash{}z \#1 \textasciitilde{}\textasciicircum{}\{\}\_\$" in latex


def test_bold_is_of_the_best_alone() -> None:
    """An average's heading and name are in italics."""
    best = Cell(80.0, "score", is_best=True)
    rows = (Row((Cell("avg-same"), best), is_average=True), Row((Cell("en-en"), Cell(70.0, "score"))))
    table = Table("", (Column("subset", is_number=False), Column("a", is_average=True)), rows)
    text = render(table, "md")
    assert text.count("**") == 2 and "| *avg-same* | **80.0** |" in text and "*a* |" in text
    tex = render(table, "latex")
    assert r"\textit{avg-same} & \textbf{80.0} \\" in tex and tex.count("textbf") == 1 and r"\textit{a} \\" in tex


def test_latex_tells_a_minus_from_a_hyphen() -> None:
    note = "en-de - en-es: -0.1 [-0.5, +0.2], p >= 0.05 (x 100); run --fresh on 2025-01-02"
    table = Table("scores x 100", (Column("a"),), (Row((Cell(-4.25, "score"),)),), (Note(note),))
    tex = render(table, "latex")
    assert r"\caption{scores $\times$ 100}" in tex and "\n$-$4.2 " in tex
    assert (r"en-de $-$ en-es: $-$0.1 [$-$0.5, +0.2], p $\geq$ 0.05 ($\times$ 100); run -{}-fresh on 2025-01-02") in tex


def test_csv() -> None:
    entries = long_form([sts("muse", "en-en", 83.456)], {"spearman"})
    expected = f"""\
encoder,task,subset,metric,value,low,high,interval,is_best,p_best,p_zero,n,made_for_language,signature,source,\
fingerprint,dataset,dataset_sha256,created
muse,sts17,en-en,spearman,83.456,,,,,,,250,true,{STS_SIGNATURE},measured,muse-1,sts17,{"0123456789abcdef" * 4},\
2025-01-02T03:04:05+00:00"""
    assert render_long(entries, "csv") == expected
    assert len(list(csv.DictReader(io.StringIO(render_long(long_form(small_board()), "csv"))))) == 16


def test_json() -> None:
    entries = long_form([sts("muse", "en-en", 83.456)], {"spearman"})
    expected = f"""\
[
  {{
    "encoder": "muse",
    "task": "sts17",
    "subset": "en-en",
    "metric": "spearman",
    "value": 83.456,
    "low": null,
    "high": null,
    "interval": null,
    "is_best": null,
    "p_best": null,
    "p_zero": null,
    "n": 250,
    "made_for_language": true,
    "signature": "{STS_SIGNATURE}",
    "source": "measured",
    "fingerprint": "muse-1",
    "dataset": "sts17",
    "dataset_sha256": "{"0123456789abcdef" * 4}",
    "created": "2025-01-02T03:04:05+00:00"
  }}
]"""
    assert render_long(entries, "json") == expected
    assert json.loads(render_long(long_form(small_board()), "json")) == long_form(small_board())


@pytest.fixture
def with_intervals() -> Table:
    """Two encoders on two sets: of one all is known, on the other nothing was tested."""
    results = [
        sts("muse", "en-en", 80.04),
        sts("e5", "en-en", 81.0),
        sts("muse", "es-es", 70.0),
        sts("e5", "es-es", 60.0),
    ]
    known = {
        ("muse", "en-en"): Entry(digest(results[0]), {"spearman": (75.12, 83.8)}),
        ("e5", "en-en"): Entry(digest(results[1]), {"spearman": (77.0, 100.0)}, {"spearman": {"muse": 0.31}}),
    }
    statistics = Statistics("interval:made-up", 0.9, known)
    return boards(results, statistics={"sts17": statistics})[0]


def test_intervals_and_the_best_in_the_terminal(with_intervals: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = """\
STS 2017: Spearman's rho x 100

encoder          en-en  es-es
-----------------------------
muse             80.0*   70.0
          [75.1, 83.8]
e5               81.0*   60.0
         [77.0, 100.0]

n: 250 a set
order of encoders: the mean over the subsets (spearman)
[low, high]: 90 % interval (BCa bootstrap of the items)
bold (* where text is plain): the best, and all that are not significantly worse than it \
(paired randomisation test, p >= 0.1, corrected by Holm over the encoders of a column, not over the columns)
no interval and no test: e5 on es-es, muse on es-es; \
to mend it: leaderboard run --save-rows --encoder e5 --encoder muse --task sts17
signature: task:sts17|version:1|similarity:cosine|interval:made-up"""
    assert plain_text(with_intervals, 80) == expected
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    coloured = plain_text(with_intervals, 80)
    assert "\x1b[1m        80.0*\x1b[0m   70.0\n" in coloured


def test_intervals_and_the_best_in_markdown_and_latex(with_intervals: Table) -> None:
    assert (
        "| muse    |  **80.0**<br><sub>[75.1, 83.8]</sub> |  70.0 |\n"
        "| e5      | **81.0**<br><sub>[77.0, 100.0]</sub> |  60.0 |\n"
    ) in render(with_intervals, "md")
    for format in ("md", "latex"):
        text = render(with_intervals, format)
        assert "bold: the best" in text and "where text is plain" not in text
    assert r"randomisation test, p $\geq$ 0.1," in render(with_intervals, "latex")
    assert (
        r"muse & \textbf{80.0} & {\scriptsize [75.1, 83.8]} & 70.0 \\"
        "\n"
        r"e5 & \textbf{81.0} & {\scriptsize [77.0, 100.0]} & 60.0 \\"
    ) in render(with_intervals, "latex")


def test_the_long_form_says_what_a_table_shows() -> None:
    """Bold cells and p-values of the tables, from their entries alone."""
    results = [sts(name, "en-en", value) for name, value in (("a", 80.0), ("b", 79.0), ("c", 60.0), ("d", 50.0))]
    p = {("a", "b"): 0.03, ("a", "c"): 0.001}
    known = {(r.encoder, "en-en"): Entry(digest(r), {"spearman": (1.0, 99.0)}) for r in results}
    known["a", "en-en"].p["spearman"] = {second: value for (_, second), value in p.items()}
    entries = long_form(results, {"spearman"}, {"sts17": Statistics("interval:made-up", 0.99, known)})
    found = {entry["encoder"]: (entry["is_best"], entry["p_best"], entry["p_zero"]) for entry in entries}
    assert found == {
        "a": (True, None, None),
        "b": (True, 0.03, None),
        "c": (False, 0.002, None),
        "d": (None, None, None),
    }
    assert {entry["interval"] for entry in entries} == {"interval:made-up"}
    assert [line.split(",")[8] for line in render_long(entries, "csv").splitlines()[1:]] == [
        "true",
        "true",
        "false",
        "",
    ]

    bias = [record(name, "language-bias", "ten", {"difference": -1.0}) for name in "ab"]
    tests = {"a": 0.0002, "b": 0.03}
    known = {(n, "ten"): Entry(digest(r), p_zero={"difference": tests[n]}) for n, r in zip("ab", bias, strict=True)}
    entries = long_form(bias, statistics={"language-bias": Statistics("s", 0.95, known)})
    assert [(e["p_zero"], e["is_best"], e["p_best"]) for e in entries] == [(0.0004, None, None), (0.03, None, None)]


def test_intervals_in_the_long_form() -> None:
    result = sts("muse", "en-en", 80.0)
    known = {"sts17": Statistics("s", 0.95, {("muse", "en-en"): Entry(digest(result), {"spearman": (75.1234, 83.8)})})}
    spearman, pearson = long_form([result], statistics=known)
    assert (spearman["low"], spearman["high"], pearson["low"], pearson["high"]) == (75.1234, 83.8, None, None)


PROSE = Table(
    "",
    (Column("a", is_number=False), Column("n"), *(Column(head, is_number=False, is_prose=True) for head in ("x", "y"))),
    (
        Row((Cell("first", "code"), Cell("1"), Cell("short"), Cell("a text of some length"))),
        Row((Cell("b"), Cell("22"), Cell("two words"), Cell(""))),
    ),
)


def test_prose_in_a_pipe_is_in_its_row() -> None:
    expected = """\
a       n  x  y
---------
first   1  short  a text of some length
b      22  two words"""
    assert plain_text(PROSE) == expected


def test_prose_that_does_not_fit_is_below_its_row() -> None:
    expected = """\
a       n  x  y
---------
first   1  short
    a text of
    some length
b      22
    two words"""
    assert plain_text(PROSE, 17) == expected


def test_a_table_alone_in_markdown_and_latex() -> None:
    expected = """\
| a       |   n | x | y |
| ------- | --: | --- | --- |
| `first` |   1 | short | a text of some length |
| b       |  22 | two words |  |"""
    assert render(PROSE, "md") == expected
    assert "first & 1 & short & a text of some length \\\\" in render(PROSE, "latex")


def test_every_command_offers_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("show", "compare", "reproduce", "encoders"):
        assert leaderboard_here(command, "--help") == 0
        assert f"<{'|'.join(FORMATS)}>" in capsys.readouterr().out
    assert leaderboard_here("show", "--format", "docx") == 2
    assert "'docx' is not one of 'table', 'md', 'latex', 'csv', 'json'." in capsys.readouterr().err
    assert [render(PROSE, format) for format in TABLE_FORMATS] and [render_long([], format) for format in ENTRY_FORMATS]
