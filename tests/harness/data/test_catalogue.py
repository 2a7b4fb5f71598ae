from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.data import DataDir
from harness.data.catalogue import CHECKSUMS_FILE, catalogue, find_set, read_checksums
from harness.data.inventory import set_status, verify_set
from harness.data.tatoeba import languages
from harness.errors import InputError

Write = Callable[[str, "bytes | str"], Path]

SETS = "sts17 sts17-extended sts17-extended-deepl tatoeba bucc2018 bucc-style stsb korsts"


def test_every_set_is_described() -> None:
    assert " ".join(catalogue()) == SETS
    for dataset in catalogue().values():
        assert dataset.title and dataset.licence and dataset.citation and dataset.home.startswith("https://")
        assert dataset.files and len(set(dataset.files)) == len(dataset.files)
        assert all(name.startswith(f"{dataset.folder}/") for name in dataset.files)
        assert bool(dataset.downloads) != bool(dataset.obtain)
        assert "\n" not in dataset.note + dataset.obtain


def test_every_checksum_belongs_to_one_set_and_every_file_to_one_download() -> None:
    checksums = read_checksums(CHECKSUMS_FILE)
    assert sum(len(dataset.checksums) for dataset in catalogue().values()) == len(checksums) == 308
    for dataset in catalogue().values():
        for name in dataset.files:
            assert sum(item.yields(name) for item in dataset.downloads) == (1 if dataset.downloads else 0), name


def test_tatoeba_has_two_files_a_language() -> None:
    tatoeba = find_set("tatoeba")
    names = {f"tatoeba/v1/tatoeba.{code}-eng.{side}" for code in languages() for side in (code, "eng")}
    assert set(tatoeba.files) == set(tatoeba.checksums) == names
    item = next(item for item in tatoeba.downloads if item.target.endswith(".deu"))
    assert item.target == "tatoeba/v1/tatoeba.deu-eng.deu" and not item.members
    commit = "74bc6ae7ffb7cba670fe0f428d0ede9f666fb821"
    host = "https://raw.githubusercontent.com"
    assert item.urls == (f"{host}/facebookresearch/LASER/{commit}/data/tatoeba/v1/tatoeba.deu-eng.deu",)


def test_unknown_set() -> None:
    with pytest.raises(InputError, match="unknown data set 'tatoba'; did you mean 'tatoeba'"):
        find_set("tatoba")


def test_checksum_file_with_a_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "checksums.sha256"
    path.write_text(f"{'0' * 64}  a\n{'0' * 63}  b\n")
    with pytest.raises(InputError, match=r"checksums\.sha256:2: not a line"):
        read_checksums(path)


def test_status_counts_files(write: Write, data: DataDir) -> None:
    write("sts17/STS.gs.track1.ar-ar.txt", "1\n")
    write("sts17/STS.input.track1.ar-ar.txt.gz", b"12345")
    write("korsts/sts-dev.tsv", "a")
    write("korsts/sts-test.tsv", "b")
    write("korsts/sts-train.tsv.gz", "c")
    rows = {dataset.name: set_status(dataset, data) for dataset in catalogue().values()}
    found = rows["sts17"]
    assert (found.state, found.files, found.expected, found.bytes) == ("partial", 2, 14, 7)
    assert (rows["korsts"].state, rows["korsts"].files) == ("complete", 3)
    assert (rows["tatoeba"].state, rows["tatoeba"].bytes, rows["tatoeba"].folder) == ("absent", 0, "tatoeba/v1")


def test_verify(write: Write, data: DataDir) -> None:
    content = b"a\tb\t1\n"
    digest = hashlib.sha256(content).hexdigest()
    write("sts17-extended/STS.en-de.txt", content)
    write("sts17-extended/STS.fr-en.txt", content)
    write("sts17-extended/STS.it-en.txt.gz", b"no gzip")
    write("sts17-extended/STS.more.txt", content)
    pins = {"STS.en-de.txt": digest, "STS.it-en.txt": digest, "STS.more.txt": "0" * 64}
    write("checksums.sha256", "".join(f"{pin}  sts17-extended/{name}\n" for name, pin in pins.items()))
    rows = {row.path.rpartition("/")[2]: row for row in verify_set(find_set("sts17-extended"), data)}
    assert {name: row.state for name, row in rows.items()} == {
        "STS.en-de.txt": "OK",
        "STS.fr-en.txt": "unknown",
        "STS.it-en.txt": "differs",
        "STS.nl-en.txt": "missing",
        "STS.more.txt": "differs",
    }
    assert rows["STS.fr-en.txt"].sha256 == rows["STS.more.txt"].sha256 == digest
    assert rows["STS.nl-en.txt"].sha256 is None and rows["STS.it-en.txt"].sha256 is None
    assert verify_set(find_set("korsts"), data) == []


@pytest.mark.parametrize("name", ["sts17", "sts17-extended-deepl", "tatoeba", "bucc-style", "stsb"])
def test_real_files_have_the_known_checksums(real_sets: Callable[[str], DataDir], name: str) -> None:
    dataset = find_set(name)
    data = real_sets(dataset.folder)
    assert {row.state for row in verify_set(dataset, data)} == {"OK"}
    assert set_status(dataset, data).state == "complete"


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="no sha256sum here")
def test_sha256sum_itself_reads_the_list(real_sets: Callable[[str], DataDir]) -> None:
    data = real_sets("sts17")
    lines = [line for line in CHECKSUMS_FILE.read_text().splitlines() if "  sts17/" in line]
    done = subprocess.run(
        ["sha256sum", "--check", "--strict"],
        cwd=data.root,
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and done.stdout.count(": OK") == len(lines) == 14
