"""KorSTS: the STS Benchmark in Korean (Ham et al. 2020), in its published layout."""

from __future__ import annotations

import numpy as np

from harness.data.sources import DataDir, Source
from harness.data.sts17 import STSPairs
from harness.data.text import iter_lines, parse_number
from harness.errors import InputError

_FOLDER, _FILE = "korsts", "sts-test.tsv"
KORSTS_SUBSETS = ("ko-ko",)
_COLUMNS = ("genre", "filename", "year", "id", "score", "sentence1", "sentence2")


def korsts_sources(data: DataDir) -> dict[str, Source]:
    """The test split as `ko-ko`, not yet read, if it is in `data`: `korsts/sts-test.tsv`.

    A user's own `korsts-TAG/` gives `ko-ko@TAG`; the subset of the bundled sample is tagged `@sample`.

    Raises:
        InputError: a folder with a bad tag.
    """
    sources: dict[str, Source] = {}
    folders = [(data.stand_in, _FOLDER), *data.stand_ins(_FOLDER).items()]
    for tag, folder in folders:
        subset = f"ko-ko@{tag}" if tag else "ko-ko"
        if path := data.find(f"{folder}/{_FILE}"):
            sources[subset] = Source(subset, folder, (path,))
    return sources


def load_korsts(source: Source) -> STSPairs:
    """Read the test split: tab-separated with a header, no quoting.

    Raises:
        InputError: another header, a line with too few or too many tabs, a score that is not a number from 0 to 5, no
            pairs at all. Names file and line.
    """
    path = source.files[0]
    sentences1, sentences2, scores = [], [], []
    for number, line in enumerate(iter_lines(path), start=1):
        fields = line.split("\t")
        if number == 1:
            if tuple(fields) != _COLUMNS:
                raise InputError(f"{path}:1: not the header of KorSTS ({' TAB '.join(_COLUMNS)}); fetch it again")
            continue
        if len(fields) != len(_COLUMNS):
            raise InputError(f"{path}:{number}: {len(fields) - 1} tabs, expected {len(_COLUMNS) - 1}; fetch it again")
        scores.append(parse_number(fields[4], path, number, low=0, high=5))
        sentences1.append(fields[5])
        sentences2.append(fields[6])
    if not scores:
        raise InputError(f"{path}: no sentence pairs in it; fetch it again")
    return STSPairs(source.subset, sentences1, sentences2, "ko", "ko", np.array(scores, dtype=np.float64))
