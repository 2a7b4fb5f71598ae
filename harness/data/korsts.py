"""KorSTS: the STS Benchmark in Korean (Ham et al. 2020), in its published layout."""

from __future__ import annotations

from harness.data.sources import DataDir, Source
from harness.data.sts17 import STSPairs
from harness.data.stsb import read_korsts

_FOLDER, _FILE = "korsts", "sts-test.tsv"
KORSTS_SUBSETS = ("ko-ko",)


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
    """Read the test split.

    Raises:
        InputError: as `harness.data.stsb.read_korsts`.
    """
    import numpy as np

    rows = list(read_korsts(source.files[0]))
    return STSPairs(
        source.subset,
        [row.sentence1 for row in rows],
        [row.sentence2 for row in rows],
        "ko",
        "ko",
        np.array([row.score for row in rows], dtype=np.float64),
    )
