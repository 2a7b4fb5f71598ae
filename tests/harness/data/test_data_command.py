from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import one_line_error
from http_files import Site
from typer.testing import CliRunner, Result

from harness.cli.data import app
from harness.core.errors import InputError
from harness.data import DataDir, open_data_dir
from harness.data.catalogue import catalogue

Leaderboard = Callable[..., "subprocess.CompletedProcess[str]"]
Write = Callable[[str, "bytes | str"], Path]
# sha256 of "abc", from FIPS 180-2, and what `sha256sum` prints for the line "that digest  korsts/sts-dev.tsv".
ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
JOINT = "52ba4c92ad4982685913cefea1fb87b408a1a31e4f2e6cc7e97e58df3d85e78a"


_BASE = "/kakaobrain/kor-nlu-datasets/469aced6fec3e263fd587dadae2695d340ade7c8/KorSTS"
_HEADER = "genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2\n"
KORSTS = {
    f"{_BASE}/sts-{part}.tsv": f"{_HEADER}g\tf\t2017\t1\t2.5\t{part}\tb\n".encode() for part in ("train", "dev", "test")
}


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_DATA", raising=False)
    monkeypatch.delenv("HARNESS_MIRROR", raising=False)


def run(*arguments: str, **env: str) -> Result:
    return CliRunner().invoke(app, arguments, env=env)


def test_status_table_and_json(write: Write, data: DataDir) -> None:
    write("korsts/sts-dev.tsv", "abc")
    done = run("status", "--data-dir", str(data.root))
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["set", "state", "files", "bytes", "sha256", "found", "in", "licence"]
    rows = dict(re.findall(r"^(\S+) +(.*(?:\n    .*)*)", "\n".join(lines[2:]), re.MULTILINE))
    assert list(rows) == list(catalogue())
    assert rows["korsts"].split() == ["partial", "1/3", "3", JOINT[:12], "korsts/", "CC", "BY-SA", "4.0"]
    assert rows["tatoeba"].split() == ["absent", "0/224", "0", "–", "–", "CC", "BY", "2.0", "FR"]
    assert max(map(len, lines)) <= 100
    for name, dataset in catalogue().items():
        assert " ".join(rows[name].split()).endswith(dataset.licence)
    assert str(data.root) not in done.stdout
    read = json.loads(run("status", "--format", "json", HARNESS_DATA=str(data.root)).stdout)
    assert [row["name"] for row in read] == list(catalogue())
    assert read[7] == {
        "bytes": 3,
        "checksums": {"korsts/sts-dev.tsv": ABC},
        "expected": 3,
        "files": 1,
        "folder": "korsts",
        "licence": "CC BY-SA 4.0",
        "name": "korsts",
        "sha256": JOINT,
        "state": "partial",
        "title": "KorSTS, the STS Benchmark in Korean",
    }


def test_status_of_a_damaged_file(write: Write, data: DataDir) -> None:
    write("korsts/sts-dev.tsv.gz", b"no gzip")
    done = run("status", "--data-dir", str(data.root))
    assert done.exit_code == 0 and ["korsts", "partial", "1/3", "7", "unreadable", "korsts/"] in [
        line.split()[:6] for line in done.stdout.splitlines()
    ]


def test_no_data_directory(tmp_path: Path) -> None:
    for command in ("fetch", "verify"):
        assert isinstance(run(command).exception, InputError)
    assert isinstance(run("status", "--data-dir", str(tmp_path / "none")).exception, InputError)


def test_verify_exits_with_1_if_a_file_differs(write: Write, data: DataDir) -> None:
    path = write("korsts/sts-dev.tsv", "abc")
    write("checksums.sha256", f"{ABC}  korsts/sts-dev.tsv\n")
    done = run("verify", "--data-dir", str(data.root))
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        f"OK       {ABC} korsts/sts-dev.tsv",
        f"missing  {'-':<64} korsts/sts-test.tsv",
        f"missing  {'-':<64} korsts/sts-train.tsv",
    ]
    assert "tatoeba: not in the data directory" in done.stderr
    path.write_text("abd")
    done = run("verify", "korsts", "--data-dir", str(data.root))
    assert done.exit_code == 1 and done.stdout.startswith("differs ") and "1 files differ" in done.stderr


def test_verify_of_named_sets(write: Write, data: DataDir) -> None:
    write("korsts/sts-dev.tsv", "abc")
    done = run("verify", "korsts", "--data-dir", str(data.root))
    assert done.exit_code == 1 and "2 files are missing" in done.stderr and "differ" not in done.stderr
    done = run("verify", "tatoeba", "korsts", "--data-dir", str(data.root))
    assert isinstance(done.exception, InputError) and done.stdout.count("missing") == 2
    message = str(done.exception)
    assert message == f"not in {data.root}: tatoeba; get it with `leaderboard data fetch tatoeba`"


def test_data_directory_in_the_home_folder(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site.files = KORSTS
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert run("fetch", "korsts", "--data-dir=~/x", "--mirror", site.url).exit_code == 0
    assert (tmp_path / "x/korsts/sts-dev.tsv").is_file() and not (tmp_path / "~").exists()
    done = run("fetch", "korsts", "--data-dir=~nobody-of-this-name/x", "--mirror", site.url)
    assert isinstance(done.exception, InputError) and "no such home folder" in str(done.exception)


@pytest.mark.parametrize("path", ["~nobody-of-this-name/x", "x" * 300])
def test_a_data_directory_that_cannot_be(path: str) -> None:
    with pytest.raises(InputError, match=f"data directory {path}.*"):
        open_data_dir(path)
    done = run("status", HARNESS_DATA=path)
    assert isinstance(done.exception, InputError)


def test_run_on_a_data_directory_of_nobody(leaderboard: Leaderboard) -> None:
    done = leaderboard("run", "--encoder", "chargrams", HARNESS_DATA="~nobody-of-this-name/x")
    assert "data directory ~nobody-of-this-name/x: no such home folder" in one_line_error(done)


@pytest.mark.slow
def test_two_processes_fetch_one_set(site: Site, tmp_path: Path) -> None:
    site.files = {path: content + content.splitlines(keepends=True)[1] * 3000 for path, content in KORSTS.items()}
    site.pause, site.piece = 0.04, 1 << 13
    program = str(Path(sys.executable).parent / "leaderboard")
    command = [program, "data", "fetch", "korsts", "--data-dir", str(tmp_path), "--mirror", site.url]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=60)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted("3 files fetched, 0 were there" in text for text in said) == [False, True], said
    assert sorted("0 files fetched, 3 were there" in text for text in said) == [False, True], said
    for path, content in site.files.items():
        assert (tmp_path / "korsts" / path.rpartition("/")[2]).read_bytes() == content


def test_after_a_login_page_the_set_is_fetched(site: Site, tmp_path: Path) -> None:
    site.files = dict.fromkeys(KORSTS, b"<html>Please log in</html>")
    done = run("fetch", "korsts", "--data-dir", str(tmp_path), "--mirror", site.url)
    assert "a web page came instead of the file" in str(done.exception)
    site.files = KORSTS
    done = run("fetch", "korsts", "--data-dir", str(tmp_path), "--mirror", site.url)
    assert "3 files fetched, 0 were there" in done.stderr


def test_unknown_set(data: DataDir) -> None:
    for command in ("fetch", "verify"):
        done = run(command, "korst", "--data-dir", str(data.root))
        assert isinstance(done.exception, InputError) and "did you mean 'korsts'" in str(done.exception)


def test_fetch_makes_the_folder_and_pins(site: Site, tmp_path: Path) -> None:
    site.files = KORSTS
    root = tmp_path / "new" / "data"
    done = run("fetch", "korsts", "--data-dir", str(root), HARNESS_MIRROR=site.url)
    assert done.exit_code == 0, done.exception
    assert done.stdout == "" and "CC BY-SA 4.0" in done.stderr and "3 files fetched, 0 were there" in done.stderr
    assert "checksums.sha256" in done.stderr
    assert (root / "korsts/sts-dev.tsv").read_bytes() == KORSTS[f"{_BASE}/sts-dev.tsv"]
    done = run("fetch", "korsts", "--data-dir", str(root), "--mirror", site.url)
    assert "0 files fetched, 3 were there" in done.stderr and len(site.requests) == 3
    assert run("verify", "korsts", "--data-dir", str(root)).stdout.count("OK") == 3


def test_fetch_shows_terms_and_fails_in_one_line(site: Site, tmp_path: Path) -> None:
    done = run("fetch", "bucc2018", "--data-dir", str(tmp_path), "--mirror", site.url)
    assert "Read the terms" in done.stderr
    assert isinstance(done.exception, InputError)
    message = str(done.exception)
    assert "https://comparable.limsi.fr/bucc2018/bucc2018-de-en.training-gold.tar.bz2" in message
    assert "HTTP 404" in message and "into bucc2018/de-en/" in message and "\n" not in message


def test_fetch_of_everything_goes_on_after_a_failure(site: Site, tmp_path: Path) -> None:
    done = run("fetch", "--data-dir", str(tmp_path), "--mirror", site.url)
    assert isinstance(done.exception, InputError)
    assert "5 of 5 data sets were not fetched" in str(done.exception)
    assert "bucc-style: not downloadable" in done.stderr and done.stderr.count("was not fetched (HTTP 404") == 5
    assert "stsb: left out, as no task reads it; `leaderboard data fetch stsb` gets it" in done.stderr
    assert not any("stsb" in path for path, _ in site.requests)


def test_fetch_of_some_sets(site: Site, tmp_path: Path) -> None:
    site.files = KORSTS
    for failing in (["bucc2018"], ["bucc2018", "bucc-style"]):
        done = run("fetch", *failing, "korsts", "--data-dir", str(tmp_path), "--mirror", site.url)
        assert done.exit_code == 3
        lines = done.stderr.splitlines()
        assert lines[-1] == f"{len(failing)} of {len(failing) + 1} data sets were not fetched; the lines above say why"
        reasons = lines[-1 - len(failing) : -1]
        assert reasons[0].startswith("bucc2018 was not fetched (HTTP 404")
        assert "bucc-style" not in failing or reasons[1].startswith("bucc-style cannot be downloaded")
    assert (tmp_path / "korsts/sts-dev.tsv").read_bytes() == KORSTS[f"{_BASE}/sts-dev.tsv"]


def test_fetch_of_a_set_that_cannot_be_downloaded(tmp_path: Path) -> None:
    done = run("fetch", "bucc-style", "--data-dir", str(tmp_path))
    assert isinstance(done.exception, InputError) and "cannot be downloaded" in str(done.exception)


def test_help_needs_no_numpy() -> None:
    code = "import sys, harness.cli.data; sys.exit('numpy' in sys.modules or 'rich.progress' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
