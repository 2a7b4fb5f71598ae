"""A task of another package, which is one Python file: it has all that the harness's own tasks have."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from command_line import one_line_error
from fork_server import ForkServer
from packages import install

from harness.core.errors import InputError
from harness.core.plugins import offers
from harness.data import DataDir
from harness.protocol import described
from harness.tasks import get_task, task_names
from harness.tasks.leakage import leakage_guard
from harness.testing import check_task

PACKAGE = '''
"""Contrast sets: is a sentence nearer to its paraphrase than to a distractor?"""

import json
from dataclasses import replace

from harness.data import Source
from harness.tasks import Display, Metric, OverviewColumn, Page, Task


def sources(data):
    root = data.root / "contrast"
    return {path.stem: Source(path.stem, "contrast", (path,)) for path in sorted(root.glob("*.tsv"))}


def load(source):
    lines = source.files[0].read_text("utf-8").splitlines()
    return source.subset, list(zip(*(line.split("\\t") for line in lines)))


def rows(items, encode):
    from harness.tasks.sts17 import cosine

    lang, columns = items
    sentence, paraphrase, distractor = (encode(list(column), lang) for column in columns)
    return {"near": cosine(sentence, paraphrase), "far": cosine(sentence, distractor)}


def aggregate(rows):
    near, far = rows["near"], rows["far"]
    wins, gap = 100 * float((near > far).mean()), 100 * float((near - far).mean())
    return {"wins": wins, "gap": gap, "cutoff": float((near + far).mean() / 2)}


def sentences(data):
    for source in sources(data).values():
        for column in load(source)[1]:
            yield from column


def averages(subsets):
    return {"avg": tuple(subsets)} if len(set(subsets)) > 1 else {}


def resample(rows, metric):
    import numpy as np

    from harness.resampling.metrics import mean
    from harness.resampling.resamples import independent
    from harness.resampling.metrics import Sample

    near, far = (np.stack([of_encoder[name] for of_encoder in rows]) for name in ("near", "far"))
    return Sample(mean(near > far if metric == "wins" else near - far), independent(near.shape[1]))


def page(results, statistics):
    sets = [result for result in results if not result.parts]
    worst = {f"{result.encoder} {result.subset}": statistics.entry(result).more["worst"] for result in sets}
    return Page((f"Worst items of {', '.join(worst)}",), {"contrast/worst.json": json.dumps(worst)})


contrast = Task(
    name="contrast",
    version="7",
    description="how often a sentence is nearer to its paraphrase than to a distractor",
    metrics=(
        Metric("wins", label="won", title="items won"),
        Metric("gap", title="mean gap of the cosines", kind="difference", tolerance=2.0),
        Metric("cutoff", kind="threshold", is_main=False),
    ),
    signature="similarity:cosine|distractors:1",
    published=("sv", "cs"),
    sources=sources,
    load=load,
    rows=rows,
    aggregate=aggregate,
    count=lambda items: len(items[1][0]),
    sentences=sentences,
    averages=averages,
    resample=resample,
    display=Display(
        title="Contrast sets",
        protocol="A sentence is won if its cosine with the paraphrase is above that with the distractor.",
        subsets=("avg", "sv", "cs"),
        ranking=("avg",),
        overview=(OverviewColumn("gap", "contrast", ("avg",)), OverviewColumn("wins", "contrast won", ("sv",))),
    ),
    detail=lambda rows: {"worst": int((rows["near"] - rows["far"]).argmin())},
    page=page,
)
plain = replace(
    contrast,
    name="plain-contrast",
    sources=lambda data: {name: source for name, source in sources(data).items() if name == "sv"},
    resample=None,
    detail=None,
    page=None,
    display=Display(),
)
'''
ENTRY_POINTS = """
[harness.tasks]
contrast = contrast_sets:contrast
plain-contrast = contrast_sets:plain
"""
N = 40
# Words of one meaning, the first of them like none of the others in spelling.
SYNONYMS = {
    "car": "automobile",
    "doctor": "physician",
    "big": "large",
    "begin": "start",
    "house": "home",
    "child": "kid",
    "quick": "fast",
    "ship": "vessel",
    "woods": "forest",
    "road": "street",
    "present": "gift",
    "hound": "dog",
    "stone": "rock",
    "sea": "ocean",
}


def write_data(folder: Path) -> Path:
    """Two sets of N lines: a sentence, its paraphrase and a distractor, which keep some of its words.

    In `sv`, paraphrases have synonyms for the other words, which no comparison of spellings knows.
    """
    draw = random.Random(0)
    words = [*SYNONYMS, *SYNONYMS.values()]

    def changed(sentence: list[str], share: float, synonyms: Mapping[str, str]) -> str:
        return " ".join(w if draw.random() < share else synonyms.get(w, draw.choice(words)) for w in sentence)

    (folder / "contrast").mkdir(parents=True)
    for subset, shares, synonyms in (("cs", (0.6, 0.4), {}), ("sv", (0.2, 0.4), SYNONYMS)):
        lines = []
        for _ in range(N):
            sentence = draw.sample([*SYNONYMS], 6)
            paraphrase, distractor = changed(sentence, shares[0], synonyms), changed(sentence, shares[1], {})
            lines.append("\t".join([" ".join(sentence), paraphrase, distractor]))
        (folder / "contrast" / f"{subset}.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    return folder


def forget() -> None:
    for known in (offers, described.described, described.metric_of):
        known.cache_clear()


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DataDir]:
    """The package in this process, and its data."""
    monkeypatch.syspath_prepend(install(tmp_path / "site", "contrast_sets", PACKAGE, ENTRY_POINTS))
    forget()
    yield DataDir(write_data(tmp_path / "data"))
    forget()
    sys.modules.pop("contrast_sets", None)


def test_contract(installed: DataDir) -> None:
    check_task(get_task("contrast"), installed)
    check_task(get_task("plain-contrast"), installed)


def test_own_tasks_come_first(installed: DataDir) -> None:
    assert task_names()[0] == "sts17" and task_names()[-2:] == ["contrast", "plain-contrast"]


def test_leakage_guard_knows_the_sentences(installed: DataDir) -> None:
    guard = leakage_guard(installed)
    sentence, paraphrase, distractor = (installed.root / "contrast/sv.tsv").read_text().splitlines()[5].split("\t")
    assert sentence in guard and paraphrase.upper() in guard and f"{distractor}!" in guard
    assert "apple apple apple" not in guard
    assert guard.counts["contrast"] > 5 * N


BOTH = ("--encoder", "chargrams", "--encoder", "student")
NAMES = ("contrast", "plain-contrast")


class Installation:
    """A folder with data, and the command line where another package is installed too."""

    def __init__(self, folder: Path):
        self.folder = folder
        site = install(folder / "site", "contrast_sets", PACKAGE, ENTRY_POINTS)
        self._environment = {
            **os.environ,
            "PYTHONPATH": python_path(site),
            "COLUMNS": "200",
            "HARNESS_CACHE": str(folder / "cache"),
            "HARNESS_DATA": str(write_data(folder / "data")),
            "HARNESS_RESULTS": "results",
        }
        self.server = ForkServer(environment=self._environment)

    def run(self, *arguments: str, expected: int = 0) -> str:
        """What a command prints to stdout; checks its exit code."""
        done = self.server.run(arguments, self.folder, self._environment)
        assert done.returncode == expected, (done.returncode, done.stdout, done.stderr)
        return done.stdout


def python_path(site: Path) -> str:
    return os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Both tasks of the package, measured with two encoders."""
    installation = Installation(tmp_path_factory.mktemp("board"))
    printed = installation.run("run", *(f"--task={name}" for name in NAMES), *BOTH)
    assert printed.startswith("Contrast sets, scores x 100\n") and "plain-contrast, scores x 100" in printed
    yield installation
    installation.server.close()


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.slow
def test_show(board: Installation) -> None:
    lines = board.run("show", "--task", "contrast").splitlines()
    heads, student, chargrams = lines[2:4], lines[5].split(), lines[7].split()
    # Metrics and subsets in the task's order, which is not that of the alphabet; `cutoff` is no main metric.
    assert [name for name in heads[0].split() if name.strip("-")] == ["avg", "sv", "cs"]
    assert heads[1].split() == ["encoder", *("won", "gap", "p") * 3]
    # Student is the better one on avg and sv, and not significantly so on cs; a difference is not ranked, and signed.
    assert student[0] == "student" and [cell for cell in student if cell.endswith("*")] == [
        student[i] for i in (1, 4, 7)
    ]
    assert chargrams[0] == "chargrams" and [i for i, cell in enumerate(chargrams) if cell.endswith("*")] == [9]
    assert all(student[i].startswith("+") for i in (2, 5, 8)) and lines[6].count("[") == lines[8].count("[") == 6
    assert "order of encoders: avg (won)" in lines and "gap is not ranked: it is no better for being higher" in lines
    assert "|resamples:10000|" in lines[-1] and lines[-1].startswith("signature: task:contrast|version:7|similarity:")
    cutoff = board.run("show", "--task", "contrast", "--metric", "cutoff").splitlines()
    assert cutoff[0] == "Contrast sets: cutoff" and cutoff[4].split()[1].startswith("0.") and "*" not in cutoff[4]
    assert len(cutoff[4].split()[1]) == len("0.1234") and not any("[" in line for line in cutoff)


@pytest.mark.slow
def test_json(board: Installation) -> None:
    entries = json.loads(board.run("show", "--format", "json"))
    assert len(entries) == (3 + 1) * 2 * 3 - 2, "thresholds have no average"
    assert [e["metric"] for e in entries[:2]] == ["wins", "gap"]
    assert [e["metric"] for e in entries[4:7]] == ["wins", "gap", "cutoff"]
    assert list(dict.fromkeys(e["subset"] for e in entries if e["task"] == "contrast")) == ["avg", "sv", "cs"]
    for entry in entries:
        has_interval = entry["metric"] != "cutoff"
        assert (entry["low"] is not None and entry["low"] <= entry["value"] <= entry["high"]) is has_interval
        assert ("resamples:10000" in (entry["interval"] or "")) is has_interval
        assert (entry["is_best"] is not None) is (entry["metric"] == "wins")
        assert (entry["p_zero"] is not None) is (entry["metric"] == "gap")
    # With `resample` and without it, one resampling.
    keys = ("encoder", "subset", "metric", "value", "low", "high", "p_best")
    [with_it, without] = ({tuple(e[key] for key in keys) for e in entries if e["task"] == name} for name in NAMES)
    assert without == {entry for entry in with_it if entry[1] == "sv"}


@pytest.mark.slow
def test_compare(board: Installation) -> None:
    printed = board.run("compare", "student", "chargrams", "--task", "contrast")
    assert printed.startswith("Contrast sets: items won x 100\n")
    assert "student is better than chargrams on 1 of 2 sets and worse on none; on avg the difference" in printed
    printed = board.run("compare", "student", "chargrams", "--task", "contrast", "--metric", "gap")
    assert printed.startswith("Contrast sets: mean gap of the cosines, x 100\n") and "bias" not in printed
    assert "\nContrast sets on avg: gap +" in printed and "(p < 0.001 against 0)" in printed


@pytest.mark.slow
def test_report(board: Installation) -> None:
    assert "results/contrast.md\n" in board.run("report")
    page = (board.folder / "results/contrast.md").read_text("utf-8")
    title, protocol = page.split("\n\n")[1:3]
    assert title == "# Contrast sets" and protocol.startswith("A sentence is won if its cosine")
    assert "- signature: `task:contrast|version:7|similarity:cosine|distractors:1|interval:" in page
    assert "\n\nWorst items of chargrams cs" in page
    assert json.loads((board.folder / "results/contrast/worst.json").read_text())["student sv"] < N
    overview = (board.folder / "results/README.md").read_text("utf-8")
    table = [cells(line) for line in overview.splitlines() if line.startswith("|")]
    assert table[0] == ["encoder", "contrast mean", "contrast won sv", "plain-contrast sv"]
    # By the overall rank: not by name.
    names = ["[student](encoders/student.md)", "[chargrams (lexical floor)](encoders/chargrams.md)"]
    assert [row[0] for row in table[2:4]] == names
    assert table[2][1].startswith("+") and table[2][2].startswith("**") and not table[3][2].startswith("**")
    assert "- [Contrast sets](contrast.md)" in overview and "order of encoders: overall rank" in overview


@pytest.mark.slow
def test_check(board: Installation) -> None:
    task = ("--task", "contrast", "--encoder", "student")
    changed = board.folder / "changed"
    shutil.copytree(board.folder / "results", changed)
    file = changed / "records/student/contrast.json"
    records = json.loads(file.read_text())
    [record] = [record for record in records if record["subset"] == "cs"]
    value = record["metrics"]["gap"]
    for move, code, summary in ((1.9, 0, "3 agree, 0 fail"), (2.1, 1, "2 agree, 1 record fails (findings: 1 score)")):
        record["metrics"]["gap"] = value + move
        file.write_text(json.dumps(records))
        printed = board.run("check", "--against", str(changed), *task, "--format", "github", expected=code)
        assert summary in printed
    assert f"gap {value + 2.1:.4f} -> {value:.4f} (-2.1000, tolerance 2)" in printed


@pytest.fixture
def results(board: Installation, tmp_path: Path) -> str:
    return str(shutil.copytree(board.folder / "results", tmp_path / "results"))


@pytest.mark.slow
def test_results_stay_readable_without_the_package(results: str, leaderboard, tmp_path: Path) -> None:
    table = leaderboard("show", "--results", results)
    assert table.returncode == 0 and table.stdout.startswith("contrast, scores x 100\n"), table.stderr
    assert "student" in table.stdout and "cutoff" in table.stdout and "*" in table.stdout
    assert leaderboard("show", "--results", results, "--format", "json").returncode == 0
    done = leaderboard("report", "--results", results)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "results/contrast.md").read_text("utf-8").split("\n\n")[1] == "# contrast"
    done = leaderboard("check", "--against", results, "--format", "github")
    assert done.returncode == 1 and "unknown task 'contrast'" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("raise OSError('no licence\\nfor this machine')", "OSError: no licence"),
        ("raise SystemExit(1)", "SystemExit: 1"),
    ],
)
def test_package_that_cannot_be_imported(results: str, leaderboard, tmp_path: Path, text: str, why: str) -> None:
    site = python_path(install(tmp_path / "site", "contrast_sets", text, ENTRY_POINTS))
    error = one_line_error(leaderboard("run", "--task", "contrast", "--encoder", "chargrams", PYTHONPATH=site))
    assert error.startswith("task 'contrast'") and error.endswith(why)
    done = leaderboard("show", "--results", results, PYTHONPATH=site)
    assert done.returncode == 0 and done.stdout.startswith("contrast, scores x 100\n"), done.stderr


def test_task_of_two_packages_is_refused(installed: DataDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rival = install(tmp_path / "other", "rival", "", "[harness.tasks]\nsts17 = rival:task\ncontrast = rival:task\n")
    monkeypatch.syspath_prepend(rival)
    forget()
    message = (
        r"task 'contrast' is offered more than once \(rival:task of rival, contrast_sets:contrast of contrast_sets\)"
    )
    with pytest.raises(InputError, match=message):
        get_task("contrast")
    with pytest.raises(InputError, match="'sts17' is offered more than once"):
        get_task("sts17")
    assert get_task("plain-contrast").name == "plain-contrast"
