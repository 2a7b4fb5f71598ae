"""Whether files are those of the set that they claim to be: what the tasks and the training read them with tells."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from harness.data.bucc import load_bucc
from harness.data.catalogue import DataSet
from harness.data.nli import read_nli
from harness.data.parallel import ParallelCorpus, parallel_corpora
from harness.data.sources import DataDir, Source
from harness.data.sts17 import load_sts, subset_of
from harness.data.stsb import read_korsts
from harness.data.text import REMEDY, open_content
from harness.errors import InputError


def check_content(dataset: DataSet, data: DataDir, names: Iterable[str]) -> None:
    """Read files of a data set (relative to the data directory, without `.gz`) of which no checksum is known.

    Raises:
        InputError: a file is empty, or not one of this set; names it.
    """
    found = {name: path for name in names if (path := data.find(name)) is not None}
    for path in found.values():
        with open_content(path) as stream:
            if not stream.read(1):
                raise InputError(f"{path}: nothing in it; {REMEDY}")
    if corpus := parallel_corpora().get(dataset.name):
        for path in found.values():
            _check_corpus(corpus, path)
    elif read := _READERS.get(dataset.name):
        read(found)


def _check_corpus(corpus: ParallelCorpus, path: Path) -> None:
    pairs = corpus.read(path)
    if next(pairs, None) is None:
        raise InputError(f"{path}: no pairs in it; {REMEDY}")
    deque(pairs, maxlen=0)


def _bucc(found: Mapping[str, Path]) -> None:
    """The pairs of languages of which all three files are there."""
    for stem in dict.fromkeys(name.rpartition(".")[0] for name in found):
        files = tuple(path for name, path in found.items() if name.rpartition(".")[0] == stem)
        if len(files) == 3:
            load_bucc(Source(stem.rpartition("/")[2].partition(".")[0], "bucc2018", files))


def _each(read: Callable[[Path], object], found: Mapping[str, Path]) -> None:
    for path in found.values():
        read(path)


_READERS: Mapping[str, Callable[[Mapping[str, Path]], None]] = {
    "sts17-extended": partial(_each, lambda path: load_sts(Source(subset_of(path.name), "sts17-extended", (path,)))),
    "bucc2018": _bucc,
    "korsts": partial(_each, lambda path: deque(read_korsts(path), maxlen=0)),
    "allnli": partial(_each, read_nli),
    "kornli": partial(_each, read_nli),
}
