"""One table of hostile texts through every output; each is read back by something that did not write it."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from gate_runs import leaderboard_here
from hostile import HOSTILE, NOT_UNICODE, commands, formulas, harmless, hidden, linked, markdown_shape, tex_shape
from markdown_it import MarkdownIt
from mteb_files import sts_entry, task_result, write
from pages_made import make_pages, report
from result_records import record, sts, write_records

from harness.cli.check import _old_and_new
from harness.cli.encoders import EncoderRow, tables
from harness.cli.progress import watch
from harness.core import escaping
from harness.core.errors import InputError
from harness.core.provenance import GitState
from harness.mining.formats import Bitext, to_tmx, to_tsv
from harness.mining.texts import Reading, read_sentences
from harness.mining.work import WorkDir
from harness.published.mteb import mteb_files
from harness.report.cells import Cell, Column, Note, Table
from harness.report.cells import Row as TableRow
from harness.report.pages import BEGIN, END
from harness.report.render import render
from harness.reproduction.findings import Check, Finding
from harness.reproduction.render import github, junit, text
from harness.results.records import Dataset, RecordKey, Result
from harness.results.statistics import Entry, Statistics, digest
from harness.review.sheet import Candidate, match_verdicts, read_review, write_review

pytestmark = pytest.mark.slow

EVERYTHING = {**HOSTILE, **NOT_UNICODE}
LINES = f"one/made/s{list(HOSTILE).index('lines'):02}"
"""The record with the text of several lines."""


def hostile_record(subset: str, hostile: str, task: str = "made", **other: object) -> Result:
    """A record with the text wherever a record takes any."""
    fields: dict[str, object] = {
        "metrics": {"score": 80.0, hostile: -1.5},
        "fingerprint": hostile,
        "signature": f"task:made|{hostile}",
        "spec": f"static:{hostile}",
        "dataset": Dataset(hostile, hostile, {hostile: hostile}),
        "versions": {hostile: hostile},
        "hardware": {"processor": hostile, hostile: hostile, "device": hostile},
        "git": GitState(hostile, True),
        "tolerance": {hostile: 1.0, "reason": f"because {hostile}"},
    }
    return replace(record("one", task, subset, {}), **{**fields, **other})  # type: ignore[arg-type]


def make_results(root: Path, texts: Mapping[str, str]) -> Path:
    """A results folder with a record, two of statistics' sets, and an imported model for each text."""
    records = [hostile_record(f"s{number:02}", one) for number, one in enumerate(texts.values())]
    published = Dataset("sts17", "0", {}, True)
    biases = [
        record(name, "language-bias", "ten@deepl", {"expected": 70.0, "actual": 69.0, "difference": -1.0})
        for name in ("one", "two")
    ]
    exported = hostile_record("en-en", "\n".join(texts.values()), "sts17", dataset=published)
    exported = replace(exported, metrics={"spearman": 80.0, "pearson": 79.0})
    write_records(root, [*records, replace(exported, encoder="three"), *biases])
    sets = list(texts.values())
    joining = {"sets": sets, "cost": [[float(i != j) for j in sets] for i in sets], "shift": [-1.0] * len(sets)}
    of = {b.encoder: {"ten@deepl": {"of": digest(b), "interval": {}, "more": {"joining": joining}}} for b in biases}
    write(root / "statistics" / "language-bias.json", {"level": 0.95, "signature": sets[0], "statistics": of})
    for number, one in enumerate(texts.values()):
        model = {"model": one, "revision": one, "mteb_version": one, "dataset_revision": one, "file": one}
        scores = {"en-en": {"spearman": 80.0}}
        write(
            root / "imported" / f"m{number:02}" / "r" / "STS17.json",
            {**model, "mteb_task": "STS17", "task": "sts17", "scores": scores},
        )
    return root


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Results with hostile texts, and the same with harmless ones."""
    folder = tmp_path_factory.mktemp("escaping")
    return make_results(folder / "hostile", HOSTILE), make_results(folder / "harmless", harmless())


Printed = Callable[..., tuple[str, str]]


@pytest.fixture
def printed(folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Printed:
    """What a command prints of the hostile results and of the harmless ones."""
    monkeypatch.setenv("COLUMNS", "100000")  # no table in several blocks

    def run(*arguments: str) -> tuple[str, str]:
        outputs = []
        for folder in folders:
            capsys.readouterr()
            assert leaderboard_here(*arguments, "--results", folder) == 0
            outputs.append(capsys.readouterr().out)
        return outputs[0], outputs[1]

    return run


def assert_printable(output: str, twin: str = "") -> None:
    """For a terminal and a log: nothing acts, and there are as many lines as of harmless texts."""
    assert not hidden(output) and not commands(output)
    if twin:
        assert len(output.split("\n")) == len(twin.split("\n"))


@pytest.mark.parametrize("arguments", [("show",), ("show", "--published"), ("show", "--record", LINES)])
def test_tables_in_a_terminal(printed: Printed, arguments: tuple[str, ...]) -> None:
    assert_printable(*printed(*arguments))


def test_markdown(printed: Printed) -> None:
    output, twin = printed("show", "--published", "--format", "md")
    assert markdown_shape(output) == markdown_shape(twin)
    assert markdown_shape(twin)["tr_open"] > len(HOSTILE)
    assert not hidden(output)


def test_csv(printed: Printed) -> None:
    output, twin = printed("show", "--published", "--format", "csv")
    rows = list(csv.reader(io.StringIO(output)))
    assert len(rows) == len(list(csv.reader(io.StringIO(twin)))) == len(twin.splitlines()) == output.count("\n")
    assert {len(row) for row in rows} == {len(rows[0])}
    assert not formulas(output, ",") and not hidden(output)
    values = [dict(zip(rows[0], row, strict=True))["value"] for row in rows[1:]]
    assert values.count("-1.5") == len(HOSTILE)  # a number is a number


def test_json(printed: Printed) -> None:
    output, twin = printed("show", "--format", "json")
    entries = json.loads(output)
    assert len(entries) == len(json.loads(twin)) and not hidden(output)
    assert {entry["fingerprint"] for entry in entries} >= set(HOSTILE.values())  # read back as it was
    output, _ = printed("show", "--record", LINES, "--format", "json")
    assert json.loads(output)["hardware"]["processor"] == HOSTILE["lines"] and not hidden(output)


def test_latex(printed: Printed) -> None:
    output, twin = printed("show", "--published", "--format", "latex")
    assert tex_shape(output) == tex_shape(twin)
    assert_printable(output, twin)


def test_pages_and_pictures(folders: tuple[Path, Path]) -> None:
    def pages(folder: Path) -> dict[str, str]:
        leaderboard_here("report", "--results", folder)
        return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.suffix in (".md", ".svg")}

    ours, twins = map(pages, folders)
    assert ours.keys() == twins.keys() and len(ours) == 9
    for name, page in ours.items():
        assert not hidden(page)
        if name.endswith(".md"):
            assert markdown_shape(page) == markdown_shape(twins[name]), name
            assert len(page.splitlines()) == len(twins[name].splitlines())  # in blocks of code too
            continue
        elements, expected = (ElementTree.fromstring(svg).iter() for svg in (page, twins[name]))
        assert [element.tag for element in elements] == [element.tag for element in expected]


def test_a_readme_keeps_its_markers(tmp_path: Path) -> None:
    """Signatures of which the README's table has a footnote, twice: the second time the first is replaced."""
    texts = list(HOSTILE.values())
    results = [sts(f"e{i}", "en-en", 80.0, signature=f"x: task:{one}") for i, one in enumerate(texts)]
    overview = [sts(f"e{i}", "avg-same", 80.0, signature=one) for i, one in enumerate(texts)]
    readme = tmp_path / "README.md"
    readme.write_text(f"{BEGIN}\n{END}\n")
    for _ in range(2):
        report(write_records(tmp_path / "results (1)", [*results, *overview]), readme)
        assert readme.read_text().count(BEGIN) == readme.read_text().count(END) == 1
    assert markdown_shape(readme.read_text())["html_block"] == 2
    assert "(results%20%281%29/sts17.md)" in readme.read_text()
    assert report(write_records(tmp_path / "results (1)", [*results, *overview]), readme) == []


@pytest.mark.parametrize("format", ["text", "github"])
def test_a_check_s_log(
    folders: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    format: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    hostile, fresh = folders
    arguments = ("check", "--against", hostile, "--run", fresh, "--junit", "junit.xml", "--format", format)
    assert leaderboard_here(*arguments) == 1
    lines = capsys.readouterr().out.split("\n")
    n_failed = len(HOSTILE) + 1
    if format == "github":
        annotations, lines = lines[:n_failed], lines[n_failed:]
        for line in annotations:
            assert re.fullmatch(r"::error file=[^,:]*,title=[^,:]*::.*", line) and not hidden(line)
    assert_printable("\n".join(lines))
    root = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert len(root.findall(".//failure")) == n_failed and not hidden("".join(root.itertext()))


def test_what_a_check_says_of_an_encoder_s_messages() -> None:
    checked = [
        *(
            Check(RecordKey("e", "t", f"s{i}"), (Finding("failed", x, x, x, x),))
            for i, x in enumerate(EVERYTHING.values())
        ),
        *(Check(RecordKey("e", "t", f"s{i}"), skipped=x) for i, x in enumerate(EVERYTHING.values())),
    ]
    assert_printable(text(checked))
    assert len(commands(github(checked, Path("a\n::b")))) == len(EVERYTHING) == github(checked, Path()).count("\n") + 1
    xml = junit(checked).encode()
    assert len(ElementTree.fromstring(xml).findall(".//failure")) == len(EVERYTHING)


def test_a_comparison_with_an_encoder_that_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "hostile_encoder.py").write_text(
        "from baselines.adapters.chargrams import CharGrams\n"
        "class Fails(CharGrams):\n"
        "    def __init__(self):\n"
        "        super().__init__(dim=32)\n"
        "        self.fingerprint = 'fails'\n"  # no cache has its vectors
        "    def encode(self, sentences, *, lang=None):\n"
        f"        raise ValueError({' '.join(' '.join(EVERYTHING.values()).splitlines())!r})\n"
    )
    encoders = ["chargrams", "chargrams?name=other&dim=64", "python:hostile_encoder:Fails?name=fails"]
    options = ["--task", "sts17", "--subset", "en-en@sample", "--resamples", "99"]
    for format in ("table", "md", "csv", "json", "latex"):
        assert leaderboard_here("compare", *encoders, *options, "--format", format) == 3
        output = capsys.readouterr()
        assert not hidden(output.out) and not hidden(output.err) and not commands(output.err)
        assert "pwned" in output.out and "pwned" in output.err
        if format == "md":
            assert markdown_shape(output.out)["heading_open"] == output.out.count("\n\n| ")
        elif format == "csv":
            assert len(output.out.splitlines()) == 4 and not formulas(output.out, ",")
        elif format == "json":
            json.loads(output.out)


def test_what_differs_in_a_repeated_record() -> None:
    old, new = (hostile_record("s", "\n".join(texts.values())) for texts in (HOSTILE, harmless()))
    assert_printable(_old_and_new(old, new), _old_and_new(new, hostile_record("s", "y")))


def test_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with watch() as progress:
        for one in EVERYTHING.values():
            progress.fail("e", "t", "s", ValueError(one))
            progress.note(one)
    assert_printable(capsys.readouterr().err.replace("\t", " "))


def test_exported_files(folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile, _ = folders
    assert leaderboard_here("export", "--results", hostile, "--out", tmp_path / "out") == 0
    assert_printable("".join(capsys.readouterr()))
    [file] = tmp_path.rglob("STS17.json")
    assert json.loads(file.read_text())["scores"]["test"][0]["fingerprint"] == "\n".join(HOSTILE.values())
    assert not hidden(file.read_text())


def test_imported_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, one in enumerate(HOSTILE.values()):
        result = task_result("STS17", [sts_entry("en-en", 0.8)], mteb_version=one)
        write(tmp_path / "mteb" / f"m{number}" / "r" / "STS17.json", result)
        write(tmp_path / "mteb" / f"m{number}" / "r" / "model_meta.json", {"name": one, "revision": one})
    assert leaderboard_here("import", tmp_path / "mteb", "--results", tmp_path / "results") == 0
    output = capsys.readouterr()
    assert_printable(output.out + output.err)
    assert len(output.out.splitlines()) == len(HOSTILE)


def test_mined_pairs_are_the_sentences(tmp_path: Path) -> None:
    """A line of a file of sentences is text for programs, and stays as it is but for ends of lines."""
    lines = [re.sub("[\t\n]", " ", one) for one in HOSTILE.values()]
    (tmp_path / "side").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    (tmp_path / "other").write_text("other\n")
    sides = [[tmp_path / "side"], [tmp_path / "other"]]
    side = read_sentences(sides, Reading(dedup=False), WorkDir(tmp_path))[0]
    sentences = side.sentences
    assert len(sentences) == len(lines)
    pairs = np.arange(len(lines)).repeat(2).reshape(-1, 2)
    bitext = Bitext(pairs, pairs[:, 0] / 7, (side, side), ("de", "en"))
    mined = b"".join(to_tsv(bitext)).decode()
    rows = [line.split("\t") for line in mined.splitlines()]
    assert [row[1:] for row in rows] == [[sentence, sentence] for sentence in sentences]
    assert not commands(mined.replace("##[", ""))
    segments = [each.text for each in ElementTree.fromstring(b"".join(to_tmx(bitext))).iter("seg")]
    without = re.compile("[\x00-\x08\x0e-\x1f\ufffe\uffff]")  # which XML has not
    assert segments == [without.sub("\ufffd", sentence) for sentence in sentences for _ in range(2)]


def test_a_review_of_mined_pairs(tmp_path: Path) -> None:
    candidates = [
        Candidate(i, 1.5, True, (f"a{i} {one}", one), (one, one), (one, ""), ((one,), (one,)))
        for i, one in enumerate(EVERYTHING.values())
    ]
    origin = {"encoder": " ".join(EVERYTHING.values()), "pairs": str(len(candidates))}
    path = tmp_path / "review.tsv"
    write_review(path, "Pairs.", origin, candidates)
    output = path.read_text(encoding="utf-8-sig")
    rows = list(csv.reader(io.StringIO(output), delimiter="\t"))
    assert len(rows) == len(output.splitlines()) == len(candidates) + 4
    assert not formulas(output, "\t") and not hidden(output.replace("\t", " "))
    path.write_text(output.replace("\t\t1.5", "\tyes\t1.5"), encoding="utf-8")
    assert match_verdicts(read_review(path), origin, candidates) == ["yes"] * len(candidates)


def test_the_list_of_encoders() -> None:
    def listed(texts: Mapping[str, str], format: str) -> str:
        rows = [EncoderRow(one, one, number % 2 == 1, 1, one, one, one) for number, one in enumerate(texts.values())]
        return render(tables(rows), format)

    assert_printable(listed(HOSTILE, "table"), listed(harmless(), "table"))
    assert_printable(listed(EVERYTHING, "table"))
    assert markdown_shape(listed(HOSTILE, "md")) == markdown_shape(listed(harmless(), "md"))
    assert_printable(listed(EVERYTHING, "md"))


@pytest.mark.parametrize("format", ["table", "md", "latex"])
def test_every_text_of_a_table(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10000")
    for one in EVERYTHING.values():
        columns, row = (Column(one, one), Column(one)), TableRow((Cell(one), Cell(one)))
        table = Table(one, columns, (row,), (Note(one), Note("x: ", f"task:{one}", one)))
        output = render(table, format)
        output.encode()
        assert not hidden(output)
        if format == "md":
            assert markdown_shape(output)["list_item_open"] == 2
        elif format == "latex":
            # After the end of a row, these would be its length, and a star of the end's.
            assert not re.search(r"(\\\\|rule)\s*[\[*]", output)
        else:
            assert_printable(output, render(replace(table, title="x", notes=(Note("x"), Note("x")))))


@pytest.mark.parametrize("name", EVERYTHING)
def test_functions(name: str) -> None:
    one = EVERYTHING[name]
    assert not hidden(escaping.visible(one)) and "\n" not in escaping.visible(one)
    assert escaping.visible(escaping.visible(one)) == escaping.visible(one)
    assert_printable(escaping.terminal(one).replace("\t", " "))
    assert "\n" not in escaping.annotation(one) and not re.search("[,:\n]", escaping.annotation_property(one))
    # What GitHub's own parser would take for links and formulas.
    assert not re.search(r"://|www\.|(?<!\\)\$", escaping.markdown(one))
    reader = MarkdownIt("commonmark", {"html": True}).enable("strikethrough")
    paragraph = reader.parseInline(f"x {escaping.markdown(one)} x")[0].children or []
    shown = [token for token in paragraph if (token.type, token.content) != ("html_inline", "<!-- -->")]
    assert "".join(token.content for token in shown) == f"x {escaping.visible(one)} x"
    assert {token.type for token in shown} <= {"text", "text_special"}
    assert not linked(escaping.markdown(one))
    assert json.loads(escaping.json_text({one: [one]})) == {one: [one]} and not hidden(escaping.json_text(one))
    assert "##[" not in escaping.json_text(one)
    assert_printable(escaping.terminal_line(one))
    assert "\n" not in escaping.terminal_line(one)
    element = ElementTree.fromstring(f'<a b="{escaping.xml(one)}">{escaping.xml(one)}</a>')
    assert element.text == element.get("b") == escaping.visible(one) and not list(element)
    for span in (escaping.code(one), f"| a |\n|---|\n| {escaping.code(one, in_table=True)} |"):
        shape = markdown_shape(span)
        assert shape["tr_open"] in (0, 2) and shape["inline"] in (1, 2)
    assert markdown_shape(escaping.code_block(one)) == {"fence": 1}


def test_what_github_alone_reads() -> None:
    """One tilde strikes through too; and no escape holds back a mention or an address."""
    assert escaping.markdown("~x~ @user a@b.co") == r"\~x\~ @<!-- -->user a@<!-- -->b.co"


def test_code_is_shown_as_it_is() -> None:
    """Backticks, pipes and blanks in code spans, read by a parser of Markdown."""
    reader = MarkdownIt("commonmark").enable("table")
    for content in ("a", "a`b", "`", "``a", "a|b", "a\\|b\\", "<b>", "a` ``b", "[x](y)"):
        [inline] = [token for token in reader.parse(escaping.code(content)) if token.type == "inline"]
        assert [(t.type, t.content) for t in inline.children or ()] == [("code_inline", content)]
        table = reader.parse(f"| h |\n|---|\n| {escaping.code(content, in_table=True)} |")
        spans = [t.content for token in table for t in token.children or () if t.type == "code_inline"]
        assert spans == [content]


def test_honest_texts_stay_as_they_are() -> None:
    for honest in (
        "e5?prompt=query: ",
        "chargrams [1]",
        "[75.1, 83.8]",
        "[low, high]: 95 % interval (BCa bootstrap of the items)",
        "AMD EPYC, 2 cores, 3.9 GiB, device cpu",
        "Ключ 鍵 \U0001f511 नमस्ते می‌خواهم שלום \u0600١٢",
        "a_b-c@deepl+x",
        "en-de@deepl, a_b__c",
        "p >= 0.05, x -> y",
    ):
        assert escaping.visible(honest) == escaping.terminal(honest) == escaping.markdown(honest) == honest
        assert escaping.spreadsheet(honest) == honest
        assert json.loads(escaping.json_text(honest)) == honest and honest in escaping.json_text(honest)


def test_every_character_that_hides_is_shown() -> None:
    characters = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp")]
    hiding = [one for one in characters if hidden(one)]
    assert len(hiding) > 200 and not [one for one in hiding if escaping.visible(one) == one]
    assert not [one for one in characters if one not in (*hiding, "\n") and escaping.visible(one) != one]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names of files are Unicode")
def test_a_results_folder_whose_name_is_no_unicode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / os.fsdecode(b"res\xff\n\x1b")
    write_records(folder, [sts("one", "en-en", 80.0)])
    readme = tmp_path / "README.md"
    readme.write_text(f"{BEGIN}\n{END}\n")
    assert leaderboard_here("report", "--results", folder, "--readme", readme) == 0
    output = capsys.readouterr().out
    assert r"res\udcff\n\x1b/README.md" in output
    assert_printable(output)
    assert "(res%FF%0A%1B/README.md)" in readme.read_text()
    assert r"--results 'res\udcff\n\x1b'" in (folder / "README.md").read_text()
    assert leaderboard_here("show", "--results", folder, "--record", "one/sts17/en-en") == 0
    assert_printable(capsys.readouterr().out)


@pytest.mark.parametrize("field", ["encoder", "subset", "task"])
def test_names_that_are_paths_write_nothing_elsewhere(tmp_path: Path, field: str) -> None:
    """A record and its statistics, both changed by hand; a page's picture would be named after them."""
    name = {"encoder": "../../../escaped", "subset": "ten@sample/../../../escaped", "task": "../../../escaped"}[field]
    bias = record("one", "language-bias", "ten@sample", {"expected": 70.0, "actual": 69.0, "difference": -1.0})
    changed = replace(bias, **{field: name})
    joining = {"sets": ["a", "b"], "cost": [[0, 1], [1, 0]], "shift": [1, -1]}
    entries = {changed.encoder: {changed.subset: {"of": digest(bias), "interval": {}, "more": {"joining": joining}}}}
    root = tmp_path / "a" / "b" / "c" / "results"
    write(root / "records" / "one" / "language-bias.json", [asdict(changed)])
    write(root / "statistics" / "language-bias.json", {"level": 0.95, "signature": "s", "statistics": entries})
    before = sorted(tmp_path.rglob("*"))
    assert leaderboard_here("report", "--results", root) == 2
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("field", ["encoder", "subset", "task"])
def test_pages_check_the_names_that_they_make_paths_of(field: str) -> None:
    """Where a path is made, too: for results that were never read from a file."""
    names = {"encoder": "../escaped", "subset": "nine@sample/../../escaped", "task": "../escaped"}
    bias = record("one", "language-bias", "ten", {"expected": 70.0, "actual": 69.0, "difference": -1.0})
    bias = replace(bias, **{field: names[field]})
    joining = {"sets": ["a", "b"], "cost": [[0.0, 1.0], [1.0, 0.0]], "shift": [1.0, -1.0]}
    entry = Entry(digest(bias), {}, {}, {}, {"joining": joining})  # type: ignore[typeddict-item]
    with pytest.raises(InputError, match=f"{field} name '.*' cannot name a folder"):
        make_pages([bias], statistics={bias.task: Statistics("s", 0.95, {(bias.encoder, bias.subset): entry})})


def test_an_export_checks_the_names_that_it_makes_paths_of() -> None:
    published = Dataset("sts17", "0", {}, True)
    with pytest.raises(InputError, match=r"encoder name '\.\./\.\./escaped' cannot name a folder"):
        mteb_files([sts("../../escaped", "en-en", 80.0, dataset=published)])
