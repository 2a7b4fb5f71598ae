"""Multilingual STS 2017: cosine similarity against gold scores, Spearman's rho.

Cer et al., "SemEval-2017 Task 1" (2017); the sets EN-DE, EN-FR, EN-IT and EN-NL and the protocol: Reimers and
Gurevych, "Making Monolingual Sentence Embeddings Multilingual using Knowledge Distillation" (2020), section 4.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from harness.core.errors import InputError
from harness.core.names import Subset
from harness.data import DataDir, Source
from harness.data.citations import cited
from harness.data.sts import CROSS_LINGUAL, EXTENDED, SAME_LANGUAGE, STS_SUBSETS, STSPairs, load_sts, sts_sources
from harness.protocol.task import Display, Encode, Metric, OverviewColumn, Rows, Task, languages_of_pair, tags_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from harness.resampling.metrics import Sample


def cosine(x: NDArray[np.float32], y: NDArray[np.float32]) -> NDArray[np.float64]:
    """Cosine similarity of row i of x with row i of y, both (n, dim), in float64; 0 where a vector is zero."""
    import numpy as np

    x, y = x.astype(np.float64), y.astype(np.float64)
    norms = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    dots = np.einsum("ij,ij->i", x, y)
    cosines: NDArray[np.float64] = np.divide(dots, norms, out=np.zeros(len(x)), where=norms > 0)
    return cosines


def load_set(source: Source) -> STSPairs:
    """One set. Raises InputError as `load_sts`, and if it has a single pair."""
    return at_least_two(load_sts(source), source)


def at_least_two(pairs: STSPairs, source: Source) -> STSPairs:
    """`pairs`; raises InputError if it is a single one, of which there is no correlation."""
    if len(pairs.gold) < 2:
        raise InputError(f"{source.files[0]}: one sentence pair has no correlation; add pairs, or move the file away")
    return pairs


def sts_rows(pairs: STSPairs, encode: Encode) -> Rows:
    """One row a sentence pair: its gold score and the cosine of its two vectors."""
    import numpy as np

    x, y = encode(pairs.sentences1, pairs.lang1), encode(pairs.sentences2, pairs.lang2)
    return {"item": np.arange(len(pairs.gold)), "gold": pairs.gold, "cosine": cosine(x, y)}


def correlations(rows: Rows) -> dict[str, float]:
    """Spearman's rho (average ranks on ties) and Pearson's r between cosine and gold, x 100; 0 if one is constant."""
    import numpy as np
    from scipy.stats import pearsonr, spearmanr

    if len(rows["gold"]) < 2 or np.ptp(rows["gold"]) == 0 or np.ptp(rows["cosine"]) == 0:
        return {"spearman": 0.0, "pearson": 0.0}
    return {
        "spearman": 100 * float(spearmanr(rows["gold"], rows["cosine"]).statistic),
        "pearson": 100 * float(pearsonr(rows["gold"], rows["cosine"]).statistic),
    }


def sample(rows: Sequence[Rows], metric: str) -> Sample:
    """`spearman` or `pearson` of several encoders' rows. Raises InputError if their pairs are not the same."""
    from harness.resampling.metrics import Sample, gold_and_cosine, pearson, source_pairs, spearman

    gold, cosine = gold_and_cosine(rows)
    return Sample((spearman if metric == "spearman" else pearson)(gold, cosine), source_pairs(gold))


def sentences(data: DataDir) -> Iterator[str]:
    """Both columns of every set in `data`. Raises InputError if one is damaged."""
    for source in sts_sources(data).values():
        pairs = load_sts(source)
        yield from pairs.sentences1
        yield from pairs.sentences2


def with_stand_ins(sets: Iterable[str], tag: str) -> tuple[str, ...]:
    """The ten sets' names where `tag` stands in: all of them in the sample, else the extended sets alone."""
    return tuple(name + tag if tag == "@sample" or name in EXTENDED else name for name in sets)


def complete_groups(groups: dict[str, tuple[str, ...]], subsets: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The groups of sets that are complete among `subsets`, once for each stand-in tag that occurs in them."""
    present = set(subsets)
    complete = {}
    for tag in ("", *tags_of(present)):
        for group, names in groups.items():
            parts = with_stand_ins(names, tag)
            if tag in {Subset.parse(part).tag for part in parts} and present.issuperset(parts):
                complete[group + tag] = parts
    return complete


AVERAGES = {"avg-same": SAME_LANGUAGE, "avg-cross": CROSS_LINGUAL}


def averages(subsets: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The averages of the paper's Tables 1 and 2 whose sets are all there."""
    return complete_groups(AVERAGES, subsets)


def resolve(name: str) -> tuple[str, ...]:
    """`avg-cross` (or `avg-cross@deepl`) stands for its sets; any other name for itself."""
    base, tag = Subset.parse(name)
    return with_stand_ins(AVERAGES[base], tag) if base in AVERAGES else (name,)


def data_sets(subset: str) -> tuple[str, ...]:
    """The sets to fetch for a published subset."""
    return ("sts17-extended",) if subset in EXTENDED else ("sts17",)


METRICS = (
    Metric("spearman", title="Spearman's rho"),
    Metric("pearson", title="Pearson's r", is_main=False),
)

sts17 = Task(
    name="sts17",
    version="1",
    description="STS 2017 with the extended sets: Spearman's rho of cosine similarity with gold scores",
    metrics=METRICS,
    signature="similarity:cosine|ties:average-rank",
    published=STS_SUBSETS,
    sources=sts_sources,
    load=load_set,
    rows=sts_rows,
    aggregate=correlations,
    count=lambda pairs: len(pairs.gold),
    averages=averages,
    sentences=sentences,
    resolve=resolve,
    data_sets=data_sets,
    languages=languages_of_pair,
    resample=sample,
    cite=cited("reimers-gurevych-2020-making"),
    display=Display(
        title="STS 2017",
        protocol="Cosine similarity of the two sentences' vectors is ranked against the gold scores (Spearman's rho, "
        "average ranks on ties); an average is the unweighted mean over its sets.",
        subsets=(*SAME_LANGUAGE, "avg-same", *CROSS_LINGUAL, "avg-cross"),
        ranking=("avg-cross", "avg-same"),
        overview=(
            OverviewColumn("spearman", "STS", ("avg-same",)),
            OverviewColumn("spearman", "STS", ("avg-cross",)),
        ),
    ),
)
