from __future__ import annotations

import gzip
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.errors import InputError
from harness.data import DataDir, Source, bundled_sample
from harness.data.bucc import bucc_sources
from harness.data.catalogue import CHECKSUMS_FILE, catalogue, find_set, read_checksums
from harness.data.inventory import set_status, verify_set
from harness.data.sts import sts_sources
from harness.data.tatoeba import languages, tatoeba_sources
from harness.tasks import get_task

Write = Callable[[str, "bytes | str"], Path]

SETS = "sts17 sts17-extended sts17-extended-deepl tatoeba bucc2018 bucc-style stsb korsts allnli kornli"


def corrupt_gzip() -> bytes:
    """A file of gzip's that unpacking gives up on with `zlib.error`."""
    raw = gzip.compress("".join(f"line {i * i}\n" for i in range(2000)).encode())
    return raw[:30] + b"\0\xff\0\xff" + raw[34:]


def test_every_set_is_described() -> None:
    assert " ".join(catalogue()) == SETS
    for dataset in catalogue().values():
        assert dataset.title and dataset.licence and dataset.cite and dataset.home.startswith("https://")
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


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue in which the published content of every file of two sets is `right`."""
    digest = hashlib.sha256(b"right").hexdigest()
    sets = {
        name: replace(find_set(name), checksums=dict.fromkeys(find_set(name).files, digest))
        for name in ("sts17", "sts17-extended-deepl")
    }
    monkeypatch.setattr("harness.data.catalogue.catalogue", lambda: {**catalogue(), **sets})


TRACK_5 = ("sts17/STS.input.track5.en-en.txt", "sts17/STS.gs.track5.en-en.txt")
DEEPL, EXTENDED, MINE = (f"sts17-extended{tag}/STS.en-de.txt" for tag in ("-deepl", "", "-mine"))


@pytest.mark.parametrize(
    ("dataset", "files", "published"),
    [
        ("sts17", {TRACK_5[0]: "right", TRACK_5[1]: "right"}, True),
        ("sts17", {TRACK_5[0]: "right", TRACK_5[1]: "wrong"}, False),
        ("sts17-extended", {EXTENDED: "right"}, None),
        ("sts17-extended-mine", {MINE: "right"}, None),
        ("sts17+sts17-extended-deepl", {TRACK_5[0]: "right", DEEPL: "right"}, True),
        ("sts17+sts17-extended-deepl", {TRACK_5[0]: "right", DEEPL: "wrong"}, False),
        ("sts17+sts17-extended", {TRACK_5[0]: "right", EXTENDED: "right"}, None),
        ("sts17+sts17-extended", {TRACK_5[0]: "wrong", EXTENDED: "right"}, False),
        ("sts17+sts17-extended-mine", {TRACK_5[0]: "right", MINE: "right"}, None),
    ],
)
def test_is_published(known: None, write: Write, dataset: str, files: dict[str, str], published: bool | None) -> None:
    paths = tuple(write(f"{name}.gz", gzip.compress(text.encode())) for name, text in files.items())
    assert Source("any", dataset, paths).is_published is published
    assert Source("any@sample", dataset, paths).is_published is None


def test_the_sample_is_not_published() -> None:
    for name in ("sts17", "tatoeba", "bucc", "language-bias"):
        sources = get_task(name).sources(bundled_sample())
        assert {source.is_published for source in sources.values()} == {None}


@pytest.mark.slow
def test_real_sets_are_published(real_sets: Callable[[str], DataDir]) -> None:
    data = real_sets("sts17")
    found = {**sts_sources(data), **tatoeba_sources(data), **bucc_sources(data)}
    assert all(source.is_published for source in found.values())
    assert all(source.is_published for source in get_task("language-bias").sources(data).values())


def test_importing_the_data_package_does_not_read_the_catalogue() -> None:
    code = "import sys, harness.data; sys.exit('harness.data.catalogue' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_status_counts_files(write: Write, data: DataDir) -> None:
    write("sts17/STS.gs.track1.ar-ar.txt", "1\n")
    write("sts17/STS.input.track1.ar-ar.txt.gz", gzip.compress(b"abc"))
    write("stsb/stsb-de-dev.csv.gz", corrupt_gzip())
    write("korsts/sts-dev.tsv", "a")
    write("korsts/sts-test.tsv", "b")
    write("korsts/sts-train.tsv.gz", gzip.compress(b"c"))
    rows = {dataset.name: set_status(dataset, data) for dataset in catalogue().values()}
    found = rows["sts17"]
    assert (found.state, found.files, found.expected, found.bytes) == ("partial", 2, 14, 25)
    # By hand, from the digests that `sha256sum` prints for the uncompressed files.
    digests = {
        "sts17/STS.gs.track1.ar-ar.txt": "4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865",
        "sts17/STS.input.track1.ar-ar.txt": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    }
    assert found.checksums == digests
    assert found.sha256 == "76eaef83169a030e0b656badea885c3bbf73d6b15f777edbbb17d8ee6a7c0398"
    damaged = rows["stsb"]
    assert (damaged.state, damaged.checksums, damaged.sha256) == ("partial", {"stsb/stsb-de-dev.csv": None}, None)
    assert (rows["tatoeba"].checksums, rows["tatoeba"].sha256) == ({}, None)
    assert (rows["korsts"].state, rows["korsts"].files) == ("complete", 3)
    assert (rows["tatoeba"].state, rows["tatoeba"].bytes, rows["tatoeba"].folder) == ("absent", 0, "tatoeba/v1")


def test_verify(write: Write, data: DataDir) -> None:
    content = b"a\tb\t1\n"
    digest = hashlib.sha256(content).hexdigest()
    write("sts17-extended/STS.en-de.txt", content)
    write("sts17-extended/STS.fr-en.txt", content)
    write("sts17-extended/STS.it-en.txt.gz", b"no gzip")
    write("sts17-extended/STS.nl-en.txt.gz", corrupt_gzip())
    write("sts17-extended/STS.more.txt", content)
    pins = {"STS.en-de.txt": digest, "STS.it-en.txt": digest, "STS.more.txt": "0" * 64, "STS.pl-en.txt": digest}
    write("checksums.sha256", "".join(f"{pin}  sts17-extended/{name}\n" for name, pin in pins.items()))
    rows = {row.path.rpartition("/")[2]: row for row in verify_set(find_set("sts17-extended"), data)}
    assert {name: row.state for name, row in rows.items()} == {
        "STS.en-de.txt": "OK",
        "STS.fr-en.txt": "unknown",
        "STS.it-en.txt": "differs",
        "STS.nl-en.txt": "differs",
        "STS.pl-en.txt": "missing",
        "STS.more.txt": "differs",
    }
    assert rows["STS.fr-en.txt"].sha256 == rows["STS.more.txt"].sha256 == digest
    for name in ("STS.nl-en.txt", "STS.it-en.txt", "STS.pl-en.txt"):
        assert rows[name].sha256 is None
    assert verify_set(find_set("korsts"), data) == []


@pytest.mark.slow
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
