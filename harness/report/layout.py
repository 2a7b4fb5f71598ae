"""What the tables know of the tasks: titles, the order of subsets, which metrics are the main ones.

Kept apart from `harness.tasks`, which needs NumPy: `leaderboard show` has to answer at once. A task that is not in
here (another package's) gets a table all the same, in alphabetical order and with every metric.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from harness.data.tatoeba import languages
from harness.names import SAMPLE, Subset

TAGS = {
    "@deepl": "another translation than the published set",
    "@ntrex": "a BUCC-format set, not the BUCC data",
    SAMPLE: "bundled sample, for demonstration",
}


@dataclass(frozen=True)
class Layout:
    """How one task is shown.

    Attributes:
        title: heading of its tables.
        protocol: one sentence that says how it is measured.
        subsets: names without tags in the order of the tables, averages at their place; others follow by name.
        metrics: in the order of the tables; others follow by name.
        main: the metrics that a table shows; all if empty.
        ranking: averages that encoders are ordered by; the first that is there counts.
        rank_by: the metric of those averages; the first main one if empty.
        turn_above: with more subsets than this, a table has a row for each subset instead of each encoder.
        names: what a subset's code stands for.
    """

    title: str
    protocol: str = ""
    subsets: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    main: tuple[str, ...] = ()
    ranking: tuple[str, ...] = ()
    rank_by: str = ""
    turn_above: int | None = None
    names: dict[str, str] = field(default_factory=dict)


_READINGS = ("train", "test", "heldout")
_BUCC = ("de-en", "fr-en", "ru-en", "zh-en")

LAYOUTS = {
    "sts17": Layout(
        title="STS 2017",
        protocol="Cosine similarity of the two sentences' vectors is ranked against the gold scores (Spearman's rho, "
        "average ranks on ties); an average is the unweighted mean over its sets.",
        subsets=(
            *("en-en", "es-es", "ar-ar", "avg-same"),
            *("en-ar", "en-de", "en-tr", "en-es", "en-fr", "en-it", "en-nl", "avg-cross"),
        ),
        metrics=("spearman", "pearson"),
        main=("spearman",),
        ranking=("avg-cross", "avg-same"),
    ),
    "language-bias": Layout(
        title="Language bias",
        protocol="Expected score: unweighted mean of Spearman's rho over the separate sets; actual score: Spearman's "
        "rho over all their pairs joined into one list; difference: actual - expected.",
        subsets=("official6", "ten"),
        metrics=("expected", "actual", "difference"),
        main=("expected", "actual", "difference"),
        ranking=("ten", "official6"),
        rank_by="actual",
    ),
    "bucc": Layout(
        title="BUCC bitext mining",
        protocol="Pairs are mined by margin score and extracted above a threshold. f1_train: threshold tuned and "
        "scored on the training split (the figure that papers publish); f1_test: that threshold on the test split; "
        "f1_heldout: two folds of the training split, tuned on one and scored on the other; threshold: that of "
        "f1_train.",
        subsets=_BUCC,
        metrics=(*(f"{m}_{reading}" for m in ("f1", "precision", "recall") for reading in _READINGS), "threshold"),
        main=("f1_train", "f1_test", "f1_heldout", "threshold"),
    ),
    "tatoeba": Layout(
        title="Tatoeba similarity search",
        protocol="For every sentence the nearest sentence of the other side by cosine similarity is looked up; "
        "accuracy is the share of sentences whose translation is found, from English to the language (en->xx) and "
        "back (xx->en).",
        subsets=("avg-paper", "avg-xtreme", "avg-student", "avg-all"),
        metrics=("accuracy_en_xx", "accuracy_xx_en", "f1_weighted_xx_en"),
        main=("accuracy_en_xx", "accuracy_xx_en"),
        ranking=("avg-all", "avg-xtreme", "avg-student", "avg-paper"),
        turn_above=8,
        names={code: language.name for code, language in languages().items()},
    ),
    "korsts": Layout(
        title="Korean STS",
        protocol="As STS 2017, on the test split of KorSTS.",
        subsets=("ko-ko",),
        metrics=("spearman", "pearson"),
        main=("spearman",),
        ranking=("ko-ko",),
    ),
    # Of these there are published figures only.
    "stsb": Layout(title="STS benchmark", metrics=("spearman",)),
    "mteb-bucc": Layout(title="mteb's BUCC (no mining)", subsets=_BUCC),
    "mteb-bucc-v2": Layout(title="mteb's BUCC.v2 (no mining)", subsets=_BUCC),
}

_LABELS = {
    "accuracy_en_xx": "en->xx",
    "accuracy_xx_en": "xx->en",
    "f1_weighted_xx_en": "F1 xx->en",
    "f1_weighted_top1": "top-1 weighted F1",
}
_WRITTEN_OUT = {"spearman": "Spearman's rho", "pearson": "Pearson's r"}


def layout_of(task: str) -> Layout:
    """The layout of a task; a plain one for a task that the harness does not know."""
    return LAYOUTS.get(task) or Layout(title=task)


def task_order(tasks: Iterable[str]) -> list[str]:
    """Distinct task names in the order of the pages: the harness's own, then others by name."""
    known = list(LAYOUTS)
    return sorted(set(tasks), key=lambda task: (known.index(task) if task in known else len(known), task))


def subset_order(task: str, subsets: Iterable[str]) -> list[str]:
    """Distinct subsets in the order of the paper's tables, each stand-in after the set that it stands in for."""
    order = layout_of(task).subsets

    def rank(subset: str) -> tuple[int, int, str, str]:
        base, tag = Subset.parse(subset)
        # A group's average that has no fixed place still comes before the single sets.
        return (order.index(base) if base in order else len(order), not is_average(base), base, tag)

    return sorted(set(subsets), key=rank)


def metric_order(task: str, metrics: Iterable[str]) -> list[str]:
    """Distinct metrics in the task's order, then others by name."""
    order = layout_of(task).metrics
    return sorted(set(metrics), key=lambda metric: (order.index(metric) if metric in order else len(order), metric))


def metric_label(metric: str) -> str:
    """How a metric is called in a table's heading."""
    return _LABELS.get(metric, metric)


def board_title(task: str, metrics: Sequence[str], of_sample: bool) -> str:
    """The heading of a task's table that shows these metrics."""
    title = layout_of(task).title + (" (bundled sample)" if of_sample else "")
    if metrics == ["threshold"]:
        return f"{title}: threshold"
    if len(metrics) == 1:
        return f"{title}: {_WRITTEN_OUT.get(metrics[0], metric_label(metrics[0]))} x 100"
    return f"{title}, scores x 100"


def is_average(subset: str) -> bool:
    """Whether a subset is an average over others, by its name."""
    return subset == "avg" or subset.startswith("avg-")
