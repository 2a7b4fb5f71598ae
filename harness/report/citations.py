"""BibTeX of what results rest on: the harness, tasks, data sets and encoders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version

from harness.core.bibtex import entries
from harness.core.errors import HarnessError
from harness.core.escaping import bibtex_comment, terminal
from harness.core.names import Subset
from harness.data.catalogue import catalogue
from harness.data.citations import cited
from harness.encoders.registry import encoder_info, encoder_names
from harness.encoders.spec import parse_spec
from harness.protocol import get_task
from harness.protocol.task import Task
from harness.results.records import Result

_DISTRIBUTION = "multilingual-embedding-harness"
# What CITATION.cff says.
_HARNESS = f"""@software{{{_DISTRIBUTION},
  author = {{{{The multilingual-embedding-harness contributors}}}},
  title = {{Multilingual embedding harness}},
  version = {{{version(_DISTRIBUTION)}}},
}}"""


@dataclass(frozen=True)
class Cited:
    """Something that was used, and the BibTeX entries to cite for it; `why_none` where there are none."""

    what: str
    entries: tuple[str, ...] = ()
    why_none: str = "no citation known"


def of_harness() -> Cited:
    """The harness, and the paper that its protocol comes from."""
    return Cited("the harness", (_HARNESS, *cited("reimers-gurevych-2020-making")))


def of_results(results: Sequence[Result]) -> list[Cited]:
    """The harness, then tasks, data sets and encoders of stored results, each once, in the order of their names."""
    tasks = sorted({result.task for result in results})
    sets = sorted({(name, Subset.parse(r.subset).tag) for r in results for name in r.dataset.name.split("+")})
    encoders = {
        r.base or r.encoder: r.spec or r.base or r.encoder for r in results
    }  # cut vectors are those of the base
    found = [of_harness(), *map(of_task, tasks), *(of_data_set(name, tag) for name, tag in sets)]
    found += [of_encoder(name, spec) for name, spec in sorted(encoders.items())]
    return found


def of_task(name: str) -> Cited:
    """A task that may not be installed here."""
    try:
        return Cited(f"task {name}", get_task(name).cite)
    except HarnessError:
        return Cited(f"task {name}")


def sets_of_task(task: Task) -> list[Cited]:
    """The published data sets that it reads."""
    names = dict.fromkeys(name for subset in task.published for name in task.data_sets(subset))
    return [of_data_set(name) for name in names]


def of_data_set(name: str, tag: str = "") -> Cited:
    """A data set by the name in records; `tag` is that of its subsets."""
    if Subset("", tag).is_sample:
        return Cited("the bundled sample", why_none="a part of the harness")
    if name in catalogue():
        return Cited(f"data set {name}", catalogue()[name].cite)
    return Cited(f"data set {name}", why_none="your own, or another package's")


def of_encoder(name: str, spec: str) -> Cited:
    """An encoder by the name and the spec string that records have.

    A model that is opened by its location is cited as the alias that opens the same one.
    """
    parsed = parse_spec(spec)
    opened = str(replace(parsed, options={}))
    what = f"encoder {name}" if opened == name else f"encoder {name} ({opened})"
    try:
        offered = encoder_info(parsed.head).cite
    except HarnessError:  # another package's, which is not installed here
        return Cited(what)
    return Cited(what, offered or (_of_locations().get(parsed.location, ()) if parsed.location else ()))


@cache
def _of_locations() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name in encoder_names():
        try:
            info = encoder_info(name)
        except HarnessError:  # another's package, which must not stop ours
            continue
        if info.location and info.cite:
            found.setdefault(info.location, info.cite)
    return found


def bibtex(things: Iterable[Cited]) -> str:
    """A BibTeX file: each entry once, below a line that says what it is cited for; then what has none.

    Of things that are called the same, the first counts.
    """
    texts: dict[str, str] = {}
    uses: dict[str, list[str]] = {}
    without = []
    by_name: dict[str, Cited] = {}
    for thing in things:
        by_name.setdefault(thing.what, thing)
    for thing in by_name.values():
        try:
            keyed = entries("\n".join(thing.entries))
        except (TypeError, ValueError) as error:  # another package may offer anything
            keyed, thing = {}, Cited(thing.what, why_none=f"no citation known ({error})")
        for key, text in keyed.items():
            texts.setdefault(key, text)
            uses.setdefault(key, []).append(thing.what)
        if not keyed:
            without.append(bibtex_comment(f"{thing.why_none}: {thing.what}"))
    parts = [f"{bibtex_comment('; '.join(uses[key]))}\n{terminal(text)}" for key, text in texts.items()]
    return "\n\n".join([*parts, *(["\n".join(without)] if without else [])])
