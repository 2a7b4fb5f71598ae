"""The finer view of language bias on its page: what joining two sets costs, and which set is over- or under-scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness import escaping
from harness.names import Subset, check_name
from harness.report.layout import layout_of
from harness.report.render import markdown
from harness.report.tables import encoder_labels, rank_encoders, split_sample
from harness.results import Result
from harness.significance.store import JOINING, Statistics

_TASK = "language-bias"


def finer_view(results: Sequence[Result], statistics: Mapping[str, Statistics]) -> tuple[list[str], dict[str, str]]:
    """Parts of the page of the task's results, in Markdown; and by file name the heat maps (SVG) that they show.

    Of the largest group of sets for which there is something, of real data and of the bundled sample. NumPy is imported
    where there is.
    """
    parts: list[str] = []
    files: dict[str, str] = {}
    known = statistics.get(_TASK, Statistics())
    for of_data in split_sample(results):
        described = {
            (r.subset, r.encoder): entry.more[JOINING]
            for r in of_data
            if (entry := known.entry(r)) and JOINING in entry.more
        }
        groups = {subset for subset, _ in described}
        for group in sorted(groups, key=_rank)[:1]:
            encoders = [e for e in rank_encoders(_TASK, of_data, "actual")[0] if (group, e) in described]
            more, maps = _of_group(group, encoders, {e: described[group, e] for e in encoders}, of_data)
            parts += more
            files |= maps
    return parts, files


def _rank(group: str) -> tuple[int, str]:
    order, base = layout_of(_TASK).ranking, Subset.parse(group).base
    return (order.index(base) if base in order else len(order), group)


def _of_group(
    group: str, encoders: Sequence[str], described: Mapping[str, Mapping[str, Any]], results: Sequence[Result]
) -> tuple[list[str], dict[str, str]]:
    from harness.report.bias import bias_tables, heat_map
    from harness.stats import Joining

    labels, _ = encoder_labels(results, encoders)
    joinings = {encoder: Joining.from_dict(described[encoder]) for encoder in encoders}
    tables = bias_tables({labels[encoder]: joining for encoder, joining in joinings.items()}, group)
    check_name(group, "subset")
    maps = {
        f"{_TASK}/{check_name(encoder, 'encoder')}-{group}.svg": heat_map(joining, f"{encoder}, {group}")
        for encoder, joining in joinings.items()
    }
    images = [
        f"![What joining two sets costs {escaping.markdown(encoder)}]({escaping.link_target(name)})"
        for encoder, name in zip(encoders, maps, strict=True)
    ]
    return [*(markdown(table, level=2) for table in tables), *images], maps
