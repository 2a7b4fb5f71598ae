"""What a server gives is held against the set that it should be, where no checksum is published."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from archives import tarred, zipped
from http_files import Site

from harness.core.errors import InputError
from harness.data import DataDir
from harness.data.catalogue import DataSet, catalogue, find_set
from harness.data.fetch import fetch_set
from harness.data.parallel import parallel_corpora
from harness.data.transfer import Network

Write = Callable[[str, "bytes | str"], Path]

CORPORA = [
    corpus.data_set(["fr" if corpus.name == "UNPC" else "de"])
    for corpus in parallel_corpora().values()
    if not corpus.withdrawn
]
SETS = [row for row in catalogue().values() if row.downloads and set(row.files) != set(row.checksums)]
PAGE = "<p>Please log in</p>\n<p>to use the network</p>\n"
NLI = "gold_label\tsentence1\tsentence2\nneutral\ta\tb\n"
PAIRS = "a\tb\t1\nc\td\t2\n"


def names_of(dataset: DataSet) -> str:
    return dataset.name


def sent(dataset: DataSet, content: Callable[[str], str]) -> dict[str, bytes]:
    """What a server has of a set whose files have this content, by the path in the address."""
    files = {}
    for item in dataset.downloads:
        names = [path.rpartition("/")[2] for path in dataset.files if item.yields(path)]
        inner = {name: content(name).encode("utf-8", "surrogateescape") for name in names}
        path = "/" + item.urls[0].split("/", 3)[3]
        if path.endswith(".tar.bz2"):
            files[path] = tarred(inner)
        elif item.members:
            files[path] = zipped(inner)
        elif path.endswith(".txt.zip"):
            pair = names[0].split(".")[1]
            files[path] = zipped({f"x.{pair}.{side}": inner[names[0]] for side in pair.split("-")})
        else:
            files[path] = gzip.compress(inner[names[0]]) if path.endswith(".gz") else inner[names[0]]
    return files


def fetch(dataset: DataSet, data: DataDir, site: Site) -> None:
    fetch_set(dataset, data, Network(mirror=site.url, attempts=1, timeout=5, wait=0))


def test_which_sets_are_read() -> None:
    assert [row.name for row in SETS] == ["sts17-extended", "bucc2018", "korsts", "allnli", "kornli"]
    assert len(CORPORA) == 10


# OPUS's archives take any lines, as long as there are as many on both sides.
@pytest.mark.parametrize("content", ["", PAGE, "b\udce4d\n"], ids=["nothing", "a page", "not UTF-8"])
@pytest.mark.parametrize("dataset", SETS + CORPORA, ids=names_of)
def test_what_is_not_of_the_set_is_refused(site: Site, data: DataDir, dataset: DataSet, content: str) -> None:
    if content == PAGE and dataset.files[0].endswith(".zip"):
        pytest.skip("lines of text are what it holds")
    site.files = sent(dataset, lambda name: content)
    with pytest.raises(InputError, match=f"{dataset.name} was not fetched") as caught:
        fetch(dataset, data, site)
    message = str(caught.value)
    assert "\n" not in message and str(data.root) not in message and "again" not in message
    assert [path.name for path in data.root.rglob("*") if path.is_file()] == [f".{dataset.name}.lock"]


def of_the_set(name: str) -> str:
    """The least that a file of that name may hold."""
    side = name.rpartition(".")[2]
    if ".training." in name:
        return f"{name[:2]}-1\ten-1\n" if side == "gold" else f"{side}-1\ttext\n"
    if name.startswith("STS."):
        return PAIRS
    if name.startswith("sts-"):
        return "sentence1\tsentence2\tscore\na\tb\t1\n"
    if "nli" in name:
        return NLI
    return {"WikiMatrix": "1.1\ta\tb\n", "MUSE": "a b\n"}.get(name.partition(".")[0], "a\tb\n")


@pytest.mark.parametrize("dataset", SETS + CORPORA, ids=names_of)
def test_what_is_of_the_set_is_taken(site: Site, data: DataDir, dataset: DataSet) -> None:
    site.files = sent(dataset, of_the_set)
    fetch(dataset, data, site)
    assert all(data.find(name) for name in dataset.files)


def test_bucc_is_read_by_pairs(site: Site, data: DataDir) -> None:
    dataset = find_set("bucc2018")
    site.files = sent(dataset, lambda name: of_the_set(name).replace("ru-1\ttext", "ru-2\ttext"))
    with pytest.raises(InputError, match=r"ru-en\.training\.gold:1: no id 'ru-1' in ru-en\.training\.ru\)"):
        fetch(dataset, data, site)
    assert sorted(path.name for path in (data.root / "bucc2018").rglob("*.gold")) == [
        "de-en.training.gold",
        "fr-en.training.gold",
    ]


def test_a_bad_file_that_is_there_is_to_be_moved_away(site: Site, data: DataDir, write: Write) -> None:
    path = write("korsts/sts-dev.tsv", "a login page\n")
    site.files = sent(find_set("korsts"), of_the_set)
    with pytest.raises(InputError, match=r"sts-dev\.tsv:1: no column sentence1.*move it away and fetch it again"):
        fetch(find_set("korsts"), data, site)
    assert not (data.root / "checksums.sha256").exists()
    path.unlink()
    fetch(find_set("korsts"), data, site)
