"""Damaged files of a results folder: one line that names file and field; what can be made again is made again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from gate_runs import leaderboard_here
from mteb_files import sts_entry, task_result, write
from result_records import sts, write_records

from harness.published.mteb_import import imported_scores, read_results, store
from harness.results.statistics import StatisticsStore
from harness.results.store import ResultStore

pytestmark = pytest.mark.slow

DEEP, HUGE = "[" * 100_000, "1" + "0" * 400
FIELDS = {
    "metrics": ["[]", *(f'{{"spearman": {value}}}' for value in ('"80"', "null", HUGE, "1e999", "NaN"))],
    "n": ['"250"', "-1", "2.5", "true", HUGE],
    "versions": ["[]", '{"numpy": 2}', "null"],
    "hardware": ['"EPYC"', '{"cores": []}', "null"],
    "git": ['"abc"', "[]", '{"commit": 1, "dirty": false}', '{"commit": "abc"}'],
    "created": ["7", "null", '"yesterday"', '"2026-99-99T00:00:00+00:00"'],
    "spec": ["7", "null", '"student?x"'],
    "parts": ["[[1]]", '"en-en"', '["../x"]'],
    "sentences_per_s": ['"fast"', "-1"],
    "wall_time_s": ['"slow"', "null"],
    "zero_vectors": ["null", "-1", "1.5"],
    "peak_memory_mb": ['"much"'],
    "dataset": ["null", "{}", '{"name": 1, "sha256": "0", "files": {}}', '{"name": "a", "sha256": "0", "files": []}'],
    "tolerance": ["[]", '{"spearman": 1}', *(f'{{"spearman": {x}, "reason": "x"}}' for x in (HUGE, "-1", '"a"'))],
    "fingerprint": ["7", r'"\ud800"'],
    "signature": ["null"],
    "other": ["1"],
    "dataset.other": ["1"],
}
WRONG = [(field, value) for field, values in FIELDS.items() for value in values]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_records(tmp_path / "results", [sts("chargrams", "en-en@sample", 80.0)])
    return tmp_path


def one_line(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    """The error of a command that ends with exit code 2."""
    capsys.readouterr()
    assert leaderboard_here(*command) == 2, command
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    return errors[0]


@pytest.mark.parametrize(("field", "value"), WRONG, ids=[f"{field}={value:.20}" for field, value in WRONG])
def test_a_field_of_a_record(here: Path, capsys: pytest.CaptureFixture[str], field: str, value: str) -> None:
    file = here / "results/records/chargrams/sts17.json"
    [record] = json.loads(file.read_text())
    within, _, name = field.rpartition(".")
    changed = {**record, within: {**record[within], name: "?"}} if within else {**record, field: "?"}
    file.write_text(json.dumps([changed]).replace('"?"', value))
    before = file.read_bytes()
    message = one_line(capsys, "show", "--record", "chargrams/sts17/en-en@sample")
    assert message.startswith("error: results/records/chargrams/sts17.json: no list of result records (")
    assert message.endswith("restore the file or delete it, unless a newer version made it")
    assert f"$[0].{field}" in message or name in message or field in ("fingerprint", "metrics")  # no JSON at all
    assert file.read_bytes() == before


@pytest.mark.parametrize("content", [DEEP, "", "[", "{}", "[7]", "\xff", "[{}]"])
@pytest.mark.parametrize(
    "command",
    [
        ["show"],
        ["report"],
        ["export", "--out", "out"],
        ["check"],
        ["rerun", "chargrams/sts17/en-en@sample"],
        ["run", "--encoder", "chargrams", "--subset", "en-en@sample"],
    ],
    ids=lambda command: command[0],
)
def test_a_file_of_records(here: Path, capsys: pytest.CaptureFixture[str], content: str, command: list[str]) -> None:
    file = here / "results/records/chargrams/sts17.json"
    file.write_bytes(content.encode("latin-1"))
    assert "results/records/chargrams/sts17.json: no list of result records (" in one_line(capsys, *command)
    assert file.read_bytes() == content.encode("latin-1")


STATISTICS = [
    *(DEEP, "", "[]", "{}", '{"level": 0.95, "signature": "", "statistics": []}'),
    f'{{"level": {HUGE}, "signature": "", "statistics": {{}}}}',
    '{"level": 0.95, "signature": "", "statistics": {"chargrams": {"en-en@sample": 7}}}',
    *(
        f'{{"level": 0.95, "signature": "", "statistics": {{"chargrams": {{"en-en@sample": {{"of": "x", {entry}}}}}}}}}'
        for entry in (
            '"interval": {"spearman": [1]}',
            '"interval": {"spearman": [1, "2"]}',
            f'"interval": {{"spearman": [1, {HUGE}]}}',
            '"interval": {}, "p": {"spearman": {"e5": 7.0001}}',
            '"interval": {}, "p_zero": {"spearman": -0.1}',
            '"interval": {}, "more": ["joining"]',
        )
    ),
]


@pytest.mark.parametrize("content", STATISTICS, ids=range(len(STATISTICS)))
def test_statistics_are_named_and_a_run_makes_them_again(
    here: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    run = ["run", "--encoder", "chargrams", "--subset", "en-en@sample", "--replace"]
    assert leaderboard_here(*run) == 0
    file = here / "results/statistics/sts17.json"
    expected = file.read_bytes()
    file.write_text(content)
    for command in (["show"], ["report"]):
        message = one_line(capsys, *command)
        assert message.startswith("error: results/statistics/sts17.json: no statistics (")
        assert message.endswith("`leaderboard run` makes it again")
    assert leaderboard_here(*run) == 0
    warning = capsys.readouterr().err
    assert "warning: results/statistics/sts17.json: no statistics (" in warning and "sts17.json.damaged" in warning
    assert file.read_bytes() == expected
    assert file.with_name("sts17.json.damaged").read_text() == content


SCORES = ['{"../x": {"spearman": 1}}', f'{{"ar-ar": {{"spearman": {HUGE}}}}}', '{"ar-ar": 1}', "[]"]
IMPORTS = [DEEP, "", "[]", '{"model": 1}', *(f'{{"scores": {scores}}}' for scores in SCORES)]


@pytest.mark.parametrize("content", IMPORTS, ids=range(len(IMPORTS)))
def test_an_imported_result(here: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    mteb = write(here / "mteb/LaBSE/0123456789/STS17.json", task_result("STS17", [sts_entry("ar-ar", 0.5)]))
    [path] = store(here / "results", read_results([mteb]).results)
    stored = json.loads(path.read_text())
    path.write_text(json.dumps({**stored, **json.loads(content)}) if content.startswith('{"') else content)
    assert "STS17.json: no imported result (" in one_line(capsys, "show", "--published")


@pytest.mark.parametrize("score", [HUGE, "1e999", '"0.5"', "true", "7", "[]"])
def test_a_score_of_mteb(here: Path, capsys: pytest.CaptureFixture[str], score: str) -> None:
    content = json.dumps(task_result("STS17", [sts_entry("ar-ar", 0.5)])).replace(": 0.5,", f": {score},")
    write(here / "mteb/LaBSE/0123456789/STS17.json", content)
    if score == "1e999":  # what mteb writes for a correlation that is not defined counts as none
        assert leaderboard_here("import", "mteb") == 0
    else:
        assert "STS17.json: " in one_line(capsys, "import", "mteb")
    assert not list((here / "results").rglob("imported")) or score == "1e999"


def test_a_subset_that_mteb_has_twice(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    twice = task_result("STS17", [sts_entry("ar-ar", 0.5), sts_entry("ar-ar", 0.6)])
    write(here / "mteb/LaBSE/0123456789/STS17.json", twice)
    assert "scores.test has a subset twice" in one_line(capsys, "import", "mteb")


def test_models_with_similar_names_are_stored_apart(here: Path) -> None:
    names = ["org/a b", "org/a_b", "org__a b", "a__b/c", "a/b__c", "a b", "x" * 300, "x" * 301, ".."]
    for number, name in enumerate(names):
        folder = here / f"mteb/m__{number}/0123456"
        write(folder / "STS17.json", task_result("STS17", [sts_entry("ar-ar", 0.01 * number)]))
        write(folder / "model_meta.json", {"name": name, "revision": "0123456"})
    assert leaderboard_here("import", "mteb") == 0
    assert {score.row for score in imported_scores(here / "results")} == {name.replace("__", "/") for name in names}
    assert all(path.is_relative_to(here / "results/imported") for path in (here / "results").rglob("STS17.json"))


def test_a_name_that_is_half_a_character(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here / "mteb/LaBSE/0123456789/STS17.json", task_result("STS17", [sts_entry("ar-ar", 0.5)]))
    write(here / "mteb/LaBSE/0123456789/model_meta.json", '{"name": "a\\ud800", "revision": "0"}')
    assert "model_meta.json: no JSON file of mteb (half of a surrogate pair" in one_line(capsys, "import", "mteb")


@pytest.mark.parametrize("place", ["records/chargrams/sts17.json", "statistics/sts17.json", "records/.lock"])
@pytest.mark.parametrize("kind", ["folder", "fifo"])
def test_a_folder_or_a_fifo_in_the_place_of_a_file(
    here: Path, capsys: pytest.CaptureFixture[str], place: str, kind: str
) -> None:
    path = here / "results" / place
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    run = ["run", "--encoder", "chargrams", "--subset", "en-en@sample", "--replace"]
    if place.startswith("statistics"):
        write_records(here / "results", [sts("chargrams", "en-en@sample", 80.0)])
    message = one_line(capsys, *(run if "lock" in place else ["show"]))
    assert f"results/{place}: " in message and f"a {kind}" in message


def test_equal_records_are_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = here / "results/records/chargrams/sts17.json"
    file.write_text(json.dumps(json.loads(file.read_text()) * 2))
    assert "two records of one subset" in one_line(capsys, "show")
    assert ResultStore(here / "results").records.is_dir() and StatisticsStore(here / "results").file("sts17")


@pytest.mark.parametrize("part", ["records", "records/chargrams", "rows", "statistics", "nothing"])
def test_links_do_not_lead_out_of_the_folder(here: Path, capsys: pytest.CaptureFixture[str], part: str) -> None:
    """A folder that is a link to one elsewhere: nothing there is written, renamed or removed."""
    run = ["run", "--encoder", "chargrams", "--subset", "en-en@sample", "--replace"]
    assert leaderboard_here(*run) == 0
    elsewhere, path = here / "elsewhere", here / "results" / part
    if path.is_dir():
        path.rename(elsewhere)
    else:
        elsewhere.mkdir()
    path.symlink_to(elsewhere)
    (elsewhere / "chargrams").mkdir(exist_ok=True)
    (elsewhere / "chargrams/thesis.txt").write_text("precious")
    before = {file: file.read_bytes() for file in elsewhere.rglob("*") if file.is_file() and file.name != ".lock"}
    for command in (["run", "--encoder", "chargrams?dim=64", *run[3:]], [*run, "--fresh"]):
        if part == "nothing":
            assert leaderboard_here(*command) == 0
        else:
            assert "a link leads out of results" in one_line(capsys, *command)
    after = {file: file.read_bytes() for file in elsewhere.rglob("*") if file.is_file() and file.name != ".lock"}
    assert after == before


def test_pages_do_not_lead_out_of_the_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert leaderboard_here("run", "--suite", "sample", "--encoder", "chargrams", "--replace") == 0
    (here / "elsewhere").mkdir()
    (here / "results/language-bias").symlink_to(here / "elsewhere")
    assert "a link leads out of results" in one_line(capsys, "report")
    assert not list((here / "elsewhere").iterdir())
