"""`leaderboard report`: what it writes, what it prints, and `--check` for continuous integration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from mteb_files import sts_entry, task_result, write
from result_records import small_board, sts, write_records

from harness.cli import main
from harness.report.pages import BEGIN, END
from harness.results.store import ResultStore

Report = Callable[..., "tuple[int, list[str], str]"]


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Report:
    """Runs the command in a folder with results; gives exit code, lines of stdout, stderr."""
    write_records(tmp_path / "results", small_board())
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, list[str], str]:
        with pytest.raises(SystemExit) as stopped:
            main(["report", "--results", "results", *arguments])
        out, err = capsys.readouterr()
        code = stopped.value.code
        assert code is None or isinstance(code, int)
        return code or 0, out.splitlines(), err

    return run


ENCODERS = [f"results/encoders/{name}.md" for name in ("chargrams", "e5", "muse")]


def test_writes_once(report: Report) -> None:
    assert report() == (0, ["results/README.md", "results/sts17.md", *ENCODERS], "")
    assert report() == (0, [], "")


def test_readme_of_the_folder_if_it_has_the_markers(report: Report) -> None:
    Path("README.md").write_text("# Mine\n")
    assert report()[1] == ["results/README.md", "results/sts17.md", *ENCODERS]
    Path("README.md").write_text(f"{BEGIN}\n{END}\n")
    assert report()[1] == ["README.md"]


def test_named_readme(report: Report, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    Path("docs/page.md").write_text(f"{BEGIN}\n{END}\n")
    assert "docs/page.md" in report("--readme", "docs/page.md")[1]
    assert "](../results/README.md)" in Path("docs/page.md").read_text()


def test_check(report: Report) -> None:
    code, lines, err = report("--check")
    names = ["results/README.md", "results/sts17.md", *ENCODERS]
    assert (code, lines, err) == (1, [f"would change: {name}" for name in names], "")
    assert not Path("results/README.md").exists()
    report()
    assert report("--check") == (0, [], "")
    write_records(Path("results"), [*ResultStore("results").load(), sts("muse", "es-es", 1.0)])
    assert report("--check")[:2] == (
        1,
        ["would change: results/sts17.md", "would change: results/encoders/muse.md"],
    )


def test_a_page_of_an_encoder_that_is_gone(report: Report) -> None:
    report()
    for file in Path("results/records/e5").iterdir():
        file.unlink()
    code, lines, _ = report("--check")
    assert code == 1 and lines[-1] == "would remove: results/encoders/e5.md" and Path("results/encoders/e5.md").exists()
    Path("results/README.md").unlink()
    assert report()[1][-1] == "removed: results/encoders/e5.md"
    assert not Path("results/encoders/e5.md").exists()
    assert report("--check") == (0, [], "")


def test_a_choice_of_languages_says_what_it_removes(report: Report) -> None:
    report()
    Path("results/retrieval.md").write_text(Path("results/sts17.md").read_text())
    code, lines, _ = report("--language", "de")
    assert code == 0 and "removed: results/retrieval.md" in lines


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--results", "absent"), "leaderboard run"),
        (("--readme", "absent.md"), "absent.md"),
        (("--readme", "plain.md"), BEGIN),
        (("--readme", "broken.md"), "once each"),
        (("--readme", "latin.md"), "UTF-8"),
    ],
)
def test_wrong_use_is_one_line(report: Report, arguments: tuple[str, ...], said: str) -> None:
    Path("plain.md").write_text("# Mine\n")
    Path("broken.md").write_text(BEGIN)
    Path("latin.md").write_bytes(b"\xe9")
    code, lines, err = report(*arguments)
    assert (code, lines, err.count("\n")) == (2, [], 1) and said in err and err.startswith("error: ")


def test_a_folder_that_cannot_be_written(report: Report) -> None:
    Path("results/README.md").mkdir()
    code, _, err = report()
    assert code == 2 and err.startswith("error: ") and err.count("\n") == 1


def test_printed_paths_are_no_commands_to_a_ci_runner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = "::error::\n##[group]"
    write_records(tmp_path / folder, small_board())
    write(tmp_path / "mteb" / "m" / "r" / "STS17.json", task_result("STS17", [sts_entry("en-en", 0.8)]))
    write(tmp_path / "mteb" / "m" / "r" / "model_meta.json", {"name": "m", "revision": "r"})
    options = ["--results", folder]
    for arguments in (["report", "--check"], ["report"], ["export", "--out", folder], ["import", "mteb"]):
        with pytest.raises(SystemExit):
            main([*arguments, *options])
        lines = capsys.readouterr().out.splitlines()
        assert lines and all("error" in line for line in lines), arguments
        assert not any(line.lstrip().startswith("::") or "##[" in line for line in lines), arguments
