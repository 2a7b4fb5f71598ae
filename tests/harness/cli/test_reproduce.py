"""`leaderboard reproduce`: a line for every score of the paper, with what was measured or what that takes."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import shutil
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest
from result_records import record, sts, write_records

from baselines.adapters.chargrams import CharGrams
from harness.cli import main
from harness.core.plugins import offers
from harness.data.sources import SAMPLE_DIR, Source
from harness.encoders import registry
from harness.encoders.info import EncoderInfo
from harness.results.records import Dataset
from harness.results.store import ResultStore

Reproduce = Callable[..., "tuple[int, list[str], str]"]


@pytest.fixture
def reproduce(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Reproduce:
    """Runs the command in an empty folder; gives exit code, lines of stdout but the heads of a table, and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, list[str], str]:
        with pytest.raises(SystemExit) as stopped:
            main(["reproduce", "--results", "results", *arguments])
        out, err = capsys.readouterr()
        code = stopped.value.code
        assert code is None or isinstance(code, int)
        lines = out.splitlines()
        return code or 0, lines[2:] if lines and lines[0].startswith("table  ") else lines, err

    return run


def _cells(line: str) -> list[str]:
    """The cells of a line of the table; where a score is in both versions, there is none for the version."""
    cells = re.split(r"\s{2,}", line)
    return cells if cells[3].startswith("v") else [*cells[:3], "", *cells[3:]]


def _is_measured(line: str) -> bool:
    return re.fullmatch(r"[+-]\d+\.\d+", _cells(line)[6]) is not None


@pytest.fixture
def labse_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """`labse` is the lexical floor, which is always ready; `laser` cannot be loaded; others are as they are."""

    def broken() -> None:
        raise RuntimeError("no weights")

    module = ModuleType("made_up_encoders")
    module.laser = EncoderInfo(factory=broken, description="", backend="")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for name, value in (("labse", "baselines.adapters.chargrams:chargrams"), ("laser", "made_up_encoders:laser")):
        monkeypatch.setitem(offers(registry.GROUP), name, [EntryPoint(name, value, registry.GROUP)])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The bundled sample in the place of the sets without a known checksum, and of one that has one."""
    for folder in ("bucc2018", "sts17-extended", "tatoeba"):
        shutil.copytree(SAMPLE_DIR / folder, tmp_path / "data" / folder)
    (tmp_path / "data" / "korsts").mkdir()
    header = "genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2\n"
    rows = (f"a\tb\t2020\t{i}\t{i}.0\t같은 문장 {'가' * i}\t같은 문장\n" for i in range(6))
    (tmp_path / "data/korsts/sts-test.tsv.gz").write_bytes(gzip.compress((header + "".join(rows)).encode()))
    return tmp_path / "data"


def test_every_score_has_a_line(reproduce: Reproduce) -> None:
    code, lines, err = reproduce()
    assert (code, len(lines)) == (0, 268)
    assert err == ("268 published scores: 0 measured, 0 can be measured now (--run), 268 need something first\n")
    counts = [sum(line.startswith(f"Table {n} ") for line in lines) for n in range(1, 9)]
    assert counts == [48, 96, 46, 16, 28, 14, 8, 12]
    assert all(_cells(line)[5:7] == ["–", "–"] and len(_cells(line)) == 8 for line in lines)


def test_versions_that_differ_have_lines_of_their_own(reproduce: Reproduce) -> None:
    _, lines, _ = reproduce("--table", "3", "--format", "csv")
    rows = [
        (r["row"], r["column"], r["version"], r["published"]) for r in csv.DictReader(io.StringIO("\n".join(lines)))
    ]
    assert [row for row in rows if row[:2] == ("LASER", "Avg.")] == [
        ("LASER", "Avg.", "v1", "92.9"),
        ("LASER", "Avg.", "v2", "93.0"),
    ]
    assert ("LASER", "DE-EN", "", "95.4") in rows and ("LaBSE", "Avg.", "v2", "93.5") in rows


def test_some_tables(reproduce: Reproduce) -> None:
    assert len(reproduce("--table", "8", "--table", "7")[1]) == 20
    assert reproduce("--table", "9") == (
        2,
        [],
        "error: there is no Table 9 of scores in the paper; give a number from 1 to 8\n",
    )


def test_measured_with_the_difference(reproduce: Reproduce) -> None:
    f1 = {"de-en": 90.0, "fr-en": 91.0, "ru-en": 92.0, "zh-en": 93.0}
    mined = [record("labse", "bucc", pair, {"f1_train": value}) for pair, value in f1.items()]
    write_records(Path("results"), [sts("labse", "en-en", 79.449), sts("muse", "en-en", 85.1), *mined])
    _, lines, err = reproduce()
    found = {tuple(_cells(line)[1:3]): _cells(line)[-3:] for line in lines if _is_measured(line)}
    assert err.startswith("268 published scores: 6 measured, ")
    assert found["LaBSE", "EN-EN"] == ["79.4", "79.45", "+0.05"]
    assert found["LaBSE", "Avg."] == ["93.5", "91.50", "-2.00"]
    assert not any(row == "mUSE" for row, _ in found), "the CNN is not the paper's mUSE"


def test_what_is_needed(reproduce: Reproduce, data: Path, labse_here: None) -> None:
    def needs(*arguments: str) -> dict[tuple[str, str], str]:
        entries = json.loads("\n".join(reproduce("--format", "json", *arguments)[1]))
        return {(entry["table"] + entry["row"], entry["column"]): entry["needs"] for entry in entries}

    nothing = needs()
    assert nothing["Table 2LaBSE", "EN-AR"] == "leaderboard data fetch sts17"
    assert nothing["Table 2LaBSE", "Avg."] == "leaderboard data fetch sts17 sts17-extended"
    assert nothing["Table 8LaBSE", "actual"] == "leaderboard data fetch sts17 sts17-extended"
    assert nothing["Table 3LaBSE", "Avg."] == "leaderboard data fetch bucc2018"
    assert nothing["Table 4LASER, en -> xx", "KA"] == "leaderboard data fetch tatoeba"
    assert nothing["Table 5MUSE Dict", "EN-AR"] == (
        "a student of SBERT-nli-stsb trained on MUSE Dict (27k EN-AR pairs); leaderboard data fetch sts17"
    )
    here = needs("--data-dir", str(data))
    assert here["Table 2LaBSE", "EN-DE"] == "leaderboard run --encoder labse --task sts17 --subset en-de"
    assert here["Table 2LaBSE", "Avg."] == "leaderboard data fetch sts17"
    assert here["Table 2mBERT-nli-stsb", "EN-DE"] == registry.encoder_info("mbert-nli-stsb").needs("mbert-nli-stsb")
    assert here["Table 3LaBSE", "FR-EN"] == "leaderboard run --encoder labse --task bucc --subset fr-en"


@pytest.mark.slow
def test_run_measures_what_can_be_measured(reproduce: Reproduce, data: Path, labse_here: None) -> None:
    code, lines, err = reproduce("--run", "--data-dir", str(data), "--table", "2", "--table", "7")
    assert code == 3, "laser cannot be loaded"
    assert "no weights" in err
    measured = [_cells(line) for line in lines if _is_measured(line)]
    assert [cells[1:3] for cells in measured] == [["LaBSE", f"EN-{x}"] for x in ("DE", "FR", "IT", "NL")]
    stored = {(r.encoder, r.task, r.subset): r for r in ResultStore("results").load()}
    assert set(stored) == {("labse", "sts17", f"en-{x}") for x in ("de", "fr", "it", "nl")}
    value = stored["labse", "sts17", "en-de"].metrics["spearman"]
    assert measured[0][-2:] == [f"{value:.2f}", f"{value - 73.8:+.2f}"]


@pytest.mark.slow
def test_run_takes_all_parts_of_an_average(reproduce: Reproduce, data: Path, labse_here: None) -> None:
    _, lines, _ = reproduce("--run", "--data-dir", str(data), "--table", "3")
    records = ResultStore("results").load("labse", "bucc")
    pairs = [record.metrics["f1_train"] for record in records if not record.parts]
    assert len(pairs) == 4
    [average] = [line for line in lines if "LaBSE" in line and " Avg. " in line]
    assert _cells(average)[-2] == f"{sum(pairs) / 4:.2f}"


@pytest.mark.slow
def test_other_files_under_the_name_of_the_published_set(
    reproduce: Reproduce, tmp_path: Path, labse_here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there now counts, whatever was measured before."""
    shutil.copytree(SAMPLE_DIR / "sts17", tmp_path / "data" / "sts17")
    altered = Dataset("sts17", "0", {}, False)
    fingerprint = CharGrams().fingerprint
    write_records(tmp_path / "results", [sts("labse", "es-es", 1.0, dataset=altered, fingerprint=fingerprint)])
    arguments = ("--run", "--data-dir", str(tmp_path / "data"), "--table", "1")

    def spanish() -> str:
        [line] = [line for line in reproduce(*arguments)[1] if "LaBSE" in line and "ES-ES" in line]
        return line

    assert spanish().endswith("  the published files: leaderboard data verify sts17")
    assert [r.subset for r in ResultStore(tmp_path / "results").load()] == ["es-es"], "nothing was run on these files"
    monkeypatch.setattr(Source, "is_published", True)  # the real files in their place
    assert _is_measured(spanish())


def test_damaged_files_are_said_in_their_line(reproduce: Reproduce, tmp_path: Path, labse_here: None) -> None:
    shutil.copytree(SAMPLE_DIR / "sts17", tmp_path / "data" / "sts17")
    for file in (tmp_path / "data" / "sts17").rglob("*track3*"):
        file.unlink()
        file.with_name(file.name.removesuffix(".gz") + ".gz").write_bytes(b"no gzip")
    code, lines, _ = reproduce("--data-dir", str(tmp_path / "data"), "--table", "1")
    [line] = [line for line in lines if "LaBSE" in line and "ES-ES" in line]
    assert code == 0 and "cannot be read" in line and "fetch it again" in line


@pytest.mark.slow
def test_the_second_source_of_a_model_runs_where_the_first_is_not_ready(
    reproduce: Reproduce, data: Path, labse_here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered = offers(registry.GROUP)
    monkeypatch.setitem(offered, "labse-tfhub", offered["labse"])
    monkeypatch.setitem(offered, "labse", offered["laser"])
    module = sys.modules["made_up_encoders"]
    module.laser = EncoderInfo(factory=dict, description="", backend="", missing_mb=lambda _: 5.0)  # type: ignore[attr-defined]
    code, lines, err = reproduce("--run", "--data-dir", str(data), "--table", "2")
    [line] = [line for line in lines if "LaBSE" in line and "EN-DE" in line]
    assert code == 0 and _is_measured(line)
    assert {r.encoder for r in ResultStore("results").load()} == {"labse-tfhub"}
    assert err.count("labse-tfhub (paper): the release of LaBSE's own authors\n") == 1


def test_notes_of_differences(reproduce: Reproduce) -> None:
    write_records(Path("results"), [sts("xlmr-nli-stsb-distilled", "en-en", 82.0), sts("labse", "en-en", 79.0)])
    _, _, err = reproduce("--table", "1")
    note, summary = err.splitlines()
    assert note.startswith("xlmr-nli-stsb-distilled (paper): the model that sentence-transformers publishes")
    assert "50 languages (in the paper: ten)" in note and summary.startswith("48 published scores: 2 measured")
    entries = json.loads("\n".join(reproduce("--table", "1", "--format", "json")[1]))
    assert [entry["encoder"] for entry in entries if entry["note"]] == ["xlmr-nli-stsb-distilled"]


def test_a_file_for_the_results_folder(reproduce: Reproduce, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("[]")
    code, lines, err = reproduce("--results", "file")
    assert (code, lines) == (2, [])
    assert err.startswith("error: no stored results in the folder file; run `leaderboard run` first")


@pytest.mark.parametrize("option", [("--device", "cpu"), ("--batch-size", "8")])
def test_options_of_runs_need_a_run(reproduce: Reproduce, option: tuple[str, str]) -> None:
    message = "error: --device and --batch-size are for runs: give --run too, or leave them out\n"
    assert reproduce(*option) == (2, [], message)


def test_numbers_of_the_first_version(reproduce: Reproduce) -> None:
    _, lines, _ = reproduce("--table", "4", "--table", "5")
    assert len({re.search(r"\d\.\d  ", line).end() for line in lines}) == 1  # type: ignore[union-attr]
    assert sum(line.startswith("Table 5 (v1: 4)  ") for line in lines) == 28
    assert sum(line.startswith("Table 4          ") for line in lines) == 16
    assert reproduce("--table", "6", "--format", "md")[1][2].startswith("| Table 6 (v1: 5) | XLM-R mean ")


def test_as_markdown(reproduce: Reproduce) -> None:
    write_records(Path("results"), [sts("labse", "en-en", 79.449)])
    _, lines, _ = reproduce("--table", "1", "--format", "md")
    assert [cell.strip() for cell in lines[0].strip("|").split("|")][:4] == ["table", "row", "column", "version"]
    assert len(lines) == 2 + 48
    [line] = [line for line in lines if "LaBSE" in line and "EN-EN" in line]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == ["Table 1", "LaBSE", "EN-EN", "v2", "79.4", "79.45", "+0.05", ""]


def test_neither_torch_nor_tensorflow_is_imported(tmp_path: Path) -> None:
    import subprocess

    script = (
        "import sys\nfrom harness.cli import main\n"
        "try: main(['reproduce'])\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "harness.published" in done.stderr
    assert not set(done.stderr.split()) & {"torch", "tensorflow", "transformers", "sentence_transformers"}
