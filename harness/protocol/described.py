"""How tables speak of tasks, metrics and subsets: titles, headings, and the order in which they stand.

The harness's own tasks and another package's are described by their `Task`. A stored result may also be of a task whose
package is not installed here, and a published figure of something that is not measured at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache

from harness.core.errors import InputError
from harness.core.names import SAMPLE, Subset
from harness.protocol import get_task, task_names
from harness.protocol.task import Display, Metric, OverviewColumn, Task, no_languages

TAGS = {
    "@deepl": "another translation than the published set",
    "@ntrex": "a BUCC-format set, not the BUCC data",
    SAMPLE: "bundled sample, for demonstration",
}


def tag_meaning(tag: str) -> str:
    """What a stand-in's tag says of its data."""
    return TAGS.get(tag, "a stand-in for the published set")


@dataclass(frozen=True)
class Unmeasured:
    """A task that cannot be run here; see `Task` for the attributes."""

    name: str
    metrics: tuple[Metric, ...] = ()
    display: Display = field(default_factory=Display)
    languages: Callable[[str], tuple[str, ...]] = no_languages


_BUCC = ("de-en", "fr-en", "ru-en", "zh-en")
_TOP_1 = Metric("f1_weighted_top1", label="top-1 weighted F1")
_PUBLISHED_ONLY = (
    Unmeasured("stsb", (Metric("spearman", title="Spearman's rho"),), Display("STS benchmark")),
    Unmeasured("mteb-bucc", (_TOP_1,), Display("mteb's BUCC (no mining)", subsets=_BUCC)),
    Unmeasured("mteb-bucc-v2", (_TOP_1,), Display("mteb's BUCC.v2 (no mining)", subsets=_BUCC)),
)


@cache
def described(task: str) -> Task | Unmeasured:
    """What is known of a task; of one that is not installed, its name."""
    try:
        return get_task(task)
    except InputError:
        return next((known for known in _PUBLISHED_ONLY if known.name == task), Unmeasured(task))


def title_of(task: str) -> str:
    """The heading of a task's tables."""
    return described(task).display.title or task


def is_own(task: str) -> bool:
    """Whether a task is for data sets of the user's own, which no data directory has."""
    found = described(task)
    return isinstance(found, Task) and found.is_own


@cache
def metric_of(task: str, metric: str) -> Metric:
    """A metric of a task; one that the task does not know is a score."""
    return next((known for known in described(task).metrics if known.name == metric), Metric(metric))


def task_order(tasks: Iterable[str]) -> list[str]:
    """Distinct task names in the order of the pages: tasks that can be run, then published ones, then others."""
    order = [*task_names(), *(task.name for task in _PUBLISHED_ONLY)]
    return sorted(set(tasks), key=lambda task: (order.index(task) if task in order else len(order), task))


def subset_order(task: str, subsets: Iterable[str]) -> list[str]:
    """Distinct subsets in the order of the paper's tables, each stand-in after the set that it stands in for."""
    order = described(task).display.subsets

    def rank(subset: str) -> tuple[int, int, str, str]:
        base, tag = Subset.parse(subset)
        # A group's average that has no fixed place still comes before the single sets.
        return (order.index(base) if base in order else len(order), not is_average(base), base, tag)

    return sorted(set(subsets), key=rank)


def metric_order(task: str, metrics: Iterable[str]) -> list[str]:
    """Distinct metrics in the task's order, then others by name."""
    order = [metric.name for metric in described(task).metrics]
    return sorted(set(metrics), key=lambda metric: (order.index(metric) if metric in order else len(order), metric))


def board_title(task: str, metrics: Sequence[str], of_sample: bool) -> str:
    """The heading of a task's table that shows these metrics."""
    title = title_of(task) + (" (bundled sample)" if of_sample else "")
    if len(metrics) != 1:
        return f"{title}, scores x 100"
    metric = metric_of(task, metrics[0])
    unit = {"score": " x 100", "error": " x 100", "difference": ", x 100", "threshold": ""}[metric.kind]
    return f"{title}: {metric.title or metric.heading}{unit}"


def overview_columns(task: str) -> tuple[OverviewColumn, ...]:
    """The task's columns in the table over all tasks."""
    known = described(task)
    if known.display.overview is not None:
        return known.display.overview
    if not isinstance(known, Task):
        return ()
    return (OverviewColumn(known.main_metric, title_of(task), known.display.ranking),)


def is_average(subset: str) -> bool:
    """Whether a subset is an average over others, by its name."""
    base = Subset.parse(subset).base
    return base == "avg" or base.startswith("avg-")
