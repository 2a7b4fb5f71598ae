"""`leaderboard show`: formats, filters, sorting, and one line for everything that is wrong."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from result_records import record, small_board, sts, write_records

from harness.cli import main

Show = Callable[..., "tuple[int, str, str]"]


@pytest.fixture
def show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Show:
    """Runs the command in a folder with results; gives exit code, stdout, stderr."""
    scores = {"accuracy_en_xx": 50.0, "accuracy_xx_en": 40.0}
    write_records(tmp_path / "results", [*small_board(), record("muse", "tatoeba", "kat", scores)])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main(["show", "--results", "results", *arguments])
        code = stopped.value.code
        assert code is None or isinstance(code, int)
        return code or 0, *capsys.readouterr()

    return run


def entries(show: Show, *arguments: str) -> list[dict[str, object]]:
    code, out, err = show("--format", "json", *arguments)
    assert (code, err) == (0, "")
    found: list[dict[str, object]] = json.loads(out)
    return found


def test_tables(show: Show) -> None:
    code, out, err = show("--full")
    assert (code, err) == (0, "")
    assert "STS 2017: Spearman's rho x 100\n" in out and "Tatoeba similarity search" in out
    assert "muse                        83.5      80.0         80.0\n" in out
    grid = out.partition("\n\nlexical floor")[0]
    assert max(len(line) for line in grid.splitlines()) <= 80


def test_every_format(show: Show) -> None:
    outputs = {name: show("--format", name, "--full") for name in ("table", "md", "csv", "json", "latex")}
    assert outputs == {name: show("--format", name) for name in outputs} | {"table": outputs["table"]}
    assert all(code == 0 and out.endswith("\n") and not err for code, out, err in outputs.values())
    rows = list(csv.DictReader(io.StringIO(outputs["csv"][1])))
    objects = json.loads(outputs["json"][1])

    def text(value: object) -> str:
        return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    assert [{key: text(value) for key, value in entry.items()} for entry in objects] == rows
    assert outputs["latex"][1].count(r"\toprule") == outputs["md"][1].count("### ") == 2


def test_filters(show: Show) -> None:
    assert {e["encoder"] for e in entries(show, "--encoder", "muse", "--encoder", "e*")} == {"muse", "e5"}
    assert {e["task"] for e in entries(show, "--task", "tatoeba")} == {"tatoeba"}
    assert {e["subset"] for e in entries(show, "--subset", "en-*")} == {"en-en", "en-de@deepl"}
    assert {e["metric"] for e in entries(show, "--metric", "accuracy_*")} == {"accuracy_en_xx", "accuracy_xx_en"}
    [only] = entries(show, "--encoder", "muse", "--subset", "en-en", "--metric", "pearson")
    assert only["value"] == 82.456 and only["source"] == "measured"


def test_filters_apply_to_tables(show: Show) -> None:
    _, out, _ = show("--metric", "pearson", "--encoder", "muse", "--format", "md")
    assert out.startswith("### STS 2017: Pearson's r x 100\n\n| encoder | en-en | *avg-same* | en-de@deepl |\n")
    assert "| muse    |  82.5 |" in out and "e5" not in out and "Tatoeba" not in out


def test_sort(show: Show) -> None:
    _, out, _ = show("--sort", "en-de@deepl", "--task", "sts17")
    assert [line.split()[0] for line in out.splitlines()[4:7]] == ["muse", "chargrams", "e5"]
    values = [float(str(e["value"])) for e in entries(show, "--sort", "value")]
    assert values == sorted(values, reverse=True)
    names = [str(e["encoder"]) for e in entries(show, "--sort", "encoder")]
    assert names == sorted(names)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--encoder", "mus"), "unknown encoder 'mus'; did you mean 'muse'?"),
        (("--task", "sts"), "unknown task 'sts'; did you mean 'sts17'?"),
        (("--subset", "en-de"), "unknown subset 'en-de'; did you mean 'en-en' or 'en-de@deepl'?"),
        (("--metric", "zzz"), "unknown metric 'zzz'; known: accuracy_en_xx, accuracy_xx_en, pearson, spearman"),
        (("--encoder", "x*"), "unknown encoder 'x*'; known: chargrams, e5, muse"),
        (("--sort", "avg-sam"), "unknown column 'avg-sam'; did you mean 'avg-same'?"),
        (("--sort", "values", "--format", "csv"), "unknown column 'values'; did you mean 'value'?"),
        (
            ("--encoder", "e5", "--task", "tatoeba"),
            "no task 'tatoeba' is stored for the other filters; they leave: sts17",
        ),
    ],
)
def test_what_matches_nothing_is_one_line(show: Show, arguments: tuple[str, ...], message: str) -> None:
    assert show(*arguments) == (2, "", f"error: {message}\n")


def test_published_beside_measured(show: Show) -> None:
    minilm = [sts("minilm", "en-en", 87.5), sts("minilm", "en-de@deepl", 33.0)]
    write_records(Path("results"), [*minilm, sts("labse", "en-en", 79.0, spec="labse?prompt=x")])
    code, out, err = show("--published", "--encoder", "minilm", "--encoder", "labse", "--task", "sts17")
    assert (code, err) == (0, "")
    assert "\nminilm   measured       87.5" in out and "\nminilm   mteb 8b3219a  87.59  76.12  50.89" in out
    assert "\nlabse    paper v2       79.4   80.8   69.1      76.4" in out
    differences = out.partition("measured against published")[2]
    assert "minilm   mteb 8b3219a  en-en      87.50      87.59       -0.09" in differences
    assert "labse" not in differences, "with a prompt it is another model"
    assert "STS 2017: Spearman's rho x 100\n" in out, "the measured table stays"
    assert "mteb" not in show("--task", "sts17")[1]


def test_published_in_every_format(show: Show) -> None:
    write_records(Path("results"), [sts("minilm", "en-en", 87.5)])
    chosen = ("--published", "--encoder", "minilm", "--subset", "en-en", "--metric", "spearman")
    measured, published = entries(show, *chosen)
    assert measured["source"] == "measured" and measured["difference"] is None
    assert published == {
        **dict.fromkeys(measured),
        "encoder": "minilm",
        "task": "sts17",
        "subset": "en-en",
        "metric": "spearman",
        "value": 87.59,
        "source": "embeddings-benchmark/results at f4cc6c8b3, STS17 (8b3219a)",
        "row": "all-MiniLM-L6-v2",
        "measured": 87.5,
        "difference": -0.09,
    }
    assert list(published)[-4:] == ["row", "measured", "difference", "note"]
    [row, other] = csv.DictReader(io.StringIO(show("--format", "csv", *chosen)[1]))
    assert entries(show, "--sort", "difference", *chosen) == [published, measured], "what is missing comes last"
    assert (row["measured"], other["measured"], other["difference"]) == ("", "87.5", "-0.09")
    assert "| *minilm* | *mteb 8b3219a* | *87.59* |" in show("--format", "md", *chosen)[1]
    assert r"\textit{minilm} & \textit{mteb 8b3219a} & \textit{87.59} \\" in show("--format", "latex", *chosen)[1]


def test_published_with_notes_of_what_is_not_quite_the_same_model(show: Show) -> None:
    students = [sts("xlmr-nli-stsb-distilled", "en-en", 82.0), sts("labse", "en-en", 79.0), sts("muse", "es-es", 83.9)]
    write_records(Path("results"), [*students, sts("labse-tfhub", "en-en", 79.5)])
    out = show("--published", "--task", "sts17")[1]
    differences = out.partition("measured against published")[2]
    assert (
        "xlmr-nli-stsb-distilled (paper): the model that sentence-transformers publishes as the paper's" in differences
    )
    assert "labse-tfhub (mteb): the release of LaBSE's own authors" in differences
    rows = [line.split() for line in differences.splitlines() if "en-en" in line]
    assert [row[0] for row in rows] == ["labse", "labse", "labse-tfhub", "labse-tfhub", "xlmr-nli-stsb-distilled"]
    assert "es-es" not in differences, "the NumPy muse is not the SavedModel"
    noted = [e for e in entries(show, "--published", "--subset", "en-en", "--encoder", "xlmr-*") if e["note"]]
    assert [(e["encoder"], e["row"]) for e in noted] == [("xlmr-nli-stsb-distilled", "XLM-R <- SBERT-nli-stsb")]


def test_an_accuracy_of_unknown_direction_is_compared_with_neither(show: Show) -> None:
    scores = {"accuracy_en_xx": 83.7, "accuracy_xx_en": 83.5}
    write_records(Path("results"), [record("labse", "tatoeba", "avg-all", scores)])
    found = entries(show, "--published", "--task", "tatoeba", "--subset", "avg-all", "--encoder", "labse")
    compared = {(e["source"], e["metric"]): e["difference"] for e in found if e["source"] != "measured"}
    assert compared["Feng et al. (2020), arXiv 2007.01852, Tatoeba", "accuracy"] is None
    assert [key for key, difference in compared.items() if difference is not None] == [
        ("embeddings-benchmark/results at f4cc6c8b3, Tatoeba (e34fab6)", "accuracy_xx_en")
    ]


def test_published_without_any_results(show: Show) -> None:
    code, out, err = show("--published", "--results", "absent", "--task", "korsts")
    assert (code, err) == (0, "") and out.startswith("Korean STS: Spearman's rho x 100, published\n")
    assert "laser                                   paper v2  68.44" in out
    everything = entries(show, "--published", "--results", "absent")
    assert sum("arXiv 2004.09813, Table" in str(entry["source"]) for entry in everything) == 268


def test_training_experiments_are_shown_where_they_are_asked_for(show: Show) -> None:
    assert "TED2020" not in show("--published", "--task", "sts17")[1]
    legend = "Table 5 (v1: 4), Table 6 (v1: 5): training experiments, listed by leaderboard reproduce\n"
    assert legend in show("--published", "--task", "sts17")[1]
    out = show("--published", "--encoder", "*, TED2020")[1]
    assert "arXiv 2004.09813, Table 5 (v1: 4)\n" in out
    assert "XLM-R <- SBERT-nli-stsb, TED2020  paper    78.0   80.4\n" in out


def test_a_block_leaves_out_published_rows_without_a_figure_in_it(show: Show) -> None:
    write_records(Path("results"), [sts("minilm", "en-en", 87.5)])
    out = show("--published", "--task", "sts17")[1].partition("measured and published\n")[2]
    found = (block.strip("\n") for block in out.split("\n\n") if "----" in block)
    blocks = {block.partition("\n")[0].split()[-1]: block for block in found}
    korean = blocks["ko-ko"].splitlines()[2:]
    assert all("  measured  " in line or "  mteb " in line for line in korean) and "43.39" in blocks["ko-ko"]
    assert sum("  measured  " in line for line in korean) == blocks["avg-same"].count("  measured  ") > 1
    assert "sbert-nli-stsb " in blocks["avg-same"]


def test_published_filters_know_published_names(show: Show) -> None:
    assert {e["metric"] for e in entries(show, "--published", "--task", "mteb-*")} == {"f1_weighted_top1"}
    message = show("--published", "--encoder", "labs")[2]
    assert message == "error: unknown encoder 'labs'; did you mean 'labse' or 'laser'?\n"


def test_the_commands_of_a_record_name_the_folder_that_it_is_from(show: Show) -> None:
    Path("results").rename("other")
    lines = show("--results", "other", "--record", "muse/sts17/en-en")[1].splitlines()
    for name in ("command", "repeat"):
        [line] = [line for line in lines if line.startswith(f"{name} ")]
        assert "--results other" in line


def test_a_file_for_the_results_folder(show: Show, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("[]")
    message = "error: no stored results in the folder file; run `leaderboard run` first, or name a folder (--results)\n"
    assert show("--results", "file") == show("--published", "--results", "file") == (2, "", message)


def test_no_results(show: Show, tmp_path: Path) -> None:
    for folder in ("absent", "."):
        code, out, err = show("--results", folder)
        assert (code, out) == (2, "") and "leaderboard run" in err and err.count("\n") == 1


@pytest.mark.parametrize("content", ["[{", "[1]", '{"a": 1}', '[{"task": "sts17"}]'])
def test_an_unreadable_record_is_one_line(show: Show, tmp_path: Path, content: str) -> None:
    file = tmp_path / "results" / "records" / "muse" / "sts17.json"
    file.write_text(content)
    code, out, err = show()
    assert (code, out, err.count("\n")) == (2, "", 1) and "sts17.json" in err


def test_unknown_format_is_one_line(show: Show) -> None:
    code, out, err = show("--format", "xml")
    assert (code, out, err.count("\n")) == (2, "", 1) and "latex" in err


def test_neither_numpy_nor_scipy_is_imported_and_it_answers_at_once(tmp_path: Path) -> None:
    results = [sts(f"e{i}", subset, 50.0) for i in range(15) for subset in ("en-en", "en-de", "avg-cross")]
    codes = [f"{a}{b}x" for a in "abcdefghij" for b in "abcdefghijk"]
    scores = {"accuracy_en_xx": 50.0, "accuracy_xx_en": 40.0}
    results += [record(f"e{i}", "tatoeba", code, scores) for i in range(15) for code in codes]
    write_records(tmp_path / "results", results)
    script = (
        "import sys\nfrom harness.cli import main\ntry: main(['show'])\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    modules = set(done.stderr.split())
    assert done.returncode == 0 and "harness.report.render" in modules
    assert not modules & {"numpy", "scipy", "torch"}
    assert seconds < 3, "0.3 s on an idle machine; the promise is 0.5 s"
