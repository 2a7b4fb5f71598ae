"""The two sides of `leaderboard gate`: which sets, and which results; loaded and measured where nothing is stored."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.cli.options import Suite
    from harness.encoders.spec import Spec
    from harness.reproduction.repeat import Options
    from harness.reproduction.sides import Side
    from harness.results.named import StoredEncoder
    from harness.results.records import Result
    from harness.running.plan import Progress


@dataclass(frozen=True)
class Chosen:
    """Which sets are compared."""

    tasks: tuple[str, ...]
    subsets: tuple[str, ...]
    languages: tuple[str, ...]
    suite: Suite | None

    def of(self, records: Sequence[Result]) -> list[Result]:
        """Those of these records. Raises InputError for a name that stands for none of them."""
        from harness.core.errors import InputError
        from harness.core.names import Subset
        from harness.protocol.languages import on_languages
        from harness.results.selection import select

        left = [
            r for r in records if self.suite is None or Subset.parse(r.subset).is_sample is (self.suite == "sample")
        ]
        if not left:
            raise InputError(
                f"the baseline has no results{f' that fit --suite {self.suite.value}' if self.suite else ''}"
            )
        left = on_languages(select(left, task=self.tasks, subset=self.subsets)[0], self.languages)
        if not left:
            raise InputError("the baseline has no results on what is asked for; choose other sets")
        return left


class Opened:
    """The two sides of each pair, loaded and measured where nothing is stored.

    results: the results folders as the user named them, for commands; by default none.
    """

    def __init__(
        self,
        joined: Mapping[str, StoredEncoder],
        chosen: Chosen,
        options: Options,
        folder: Path,
        progress: Progress,
        results: Sequence[Path] = (),
    ):
        self._joined, self._chosen, self._options = joined, chosen, options
        self._folder, self._progress = folder, progress
        self._results_options = [word for root in results for word in ("--results", root.as_posix())]

    def pair(self, baseline: str, candidate: str) -> tuple[Side, Side]:
        """Baseline and candidate. Raises InputError as `find_stored`; both are the same results."""
        from dataclasses import replace

        from harness.core.errors import InputError
        from harness.results.named import labels

        names = {text: self._plain_name(text) for text in (baseline, candidate)}
        old = self._stored(baseline, names[candidate])
        new = self._stored(candidate, names[baseline])
        if old and new and (old.root.resolve(), old.encoder) == (new.root.resolve(), new.encoder):
            raise InputError(f"{baseline} and {candidate} are the same results; name another baseline or candidate")
        first = old or (self._measured_like(baseline, new) if new else self._measured(baseline))
        second = new or self._measured_like(candidate, first)
        if first.name == second.name:  # a folder is told from what is measured now, and from another folder
            stored = [side.root for side in (first, second) if side.is_stored]
            label_of = dict(zip(stored, labels(stored), strict=True))
            first = replace(first, name=f"{label_of.get(first.root, 'baseline')}/{first.encoder}")
            second = replace(second, name=f"{label_of[second.root]}/{second.encoder}") if second.is_stored else second
        return first, second

    def each(self, texts: Sequence[str], reference: str) -> list[tuple[str, str]]:
        """The pairs of a reference: with each of these, of a results folder with every encoder but itself.

        Raises:
            InputError: as `pair`; a folder has no other encoder.
        """
        from harness.core.errors import InputError
        from harness.results.named import is_results_folder, join

        own = self._found(reference, "")
        own_place = (own.root.resolve(), own.encoder) if own else None
        pairs = []
        for text in texts:
            if not is_results_folder(text):
                if own and self._found(text, "") is None:
                    raise InputError(
                        f"{text} has no stored results to be a baseline, and --reference {reference} is the candidate, "
                        f"which is held against each; to judge the new one: "
                        f"{shlex.join(['leaderboard', 'gate', reference, text, *self._results_options])}"
                    )
                pairs.append((text, reference))
                continue
            others = [one for one in join([Path(text)]).values() if (one.root.resolve(), one.encoder) != own_place]
            if not others:
                raise InputError(f"{text}: has no other results than those of {reference}; name another folder")
            pairs += [(f"{text}/{one.encoder}", reference) for one in others]
        return pairs

    def _plain_name(self, text: str) -> str:
        """The name of the encoder that a text stands for; empty for a folder with several."""
        from harness.core.errors import InputError
        from harness.results.named import find_stored

        try:
            found = find_stored(text, self._joined)
        except InputError:
            return ""
        return found.encoder if found else self._spec(text).stored_name

    def _spec(self, text: str) -> Spec:
        """A spec string. Raises InputError for what is neither one nor the name of a stored encoder."""
        from harness.core.errors import unknown_name
        from harness.core.names import is_name
        from harness.encoders.registry import check_spec, encoder_names

        if is_name(text) and text not in encoder_names():
            raise unknown_name("encoder", text, {*self._joined, *encoder_names()})
        return check_spec(text)

    def _stored(self, text: str, beside: str) -> Side | None:
        """The side of a stored encoder; None if it has to be measured."""
        from harness.encoders.registry import encoder_names
        from harness.reproduction.sides import stored_side

        found = self._found(text, beside)
        if found is None:
            return None
        now = f"; `{text}?name=new` measures it now" if text in encoder_names() else ""
        self._progress.note(f"{found.name}: stored results in {found.root}; it is not loaded{now}")
        return stored_side(found)

    def _found(self, text: str, beside: str) -> StoredEncoder | None:
        """The stored results that a text stands for; None if it has to be measured."""
        from harness.results.named import find_stored, is_spec_of

        if found := find_stored(text, self._joined, beside):
            return found
        spec = self._spec(text)
        same = self._joined.get(spec.stored_name)
        return same if same and is_spec_of(spec, same.records) else None

    def _measured_like(self, text: str, other: Side) -> Side:
        from harness.reproduction.sides import measured_like

        records = self._chosen.of(list(other.records.values()))
        places = {(r.task, name) for r in records for name in (r.subset, *r.parts)}
        like = [record for place, record in other.records.items() if place in places]
        return measured_like(text, like, self._new_folder(), self._options, self._progress)

    def _measured(self, text: str) -> Side:
        from harness.reproduction.sides import measured_as_asked
        from harness.running.suite import Request

        request = Request(
            encoders=[text],
            tasks=self._chosen.tasks or None,
            subsets=self._chosen.subsets,
            languages=self._chosen.languages,
            suite=self._chosen.suite.value if self._chosen.suite else None,
            data_dir=self._options.data,
            cache_dir=self._options.cache_dir,
            save_rows="npz",
            defaults=self._options.defaults,
        )
        return measured_as_asked(request, self._new_folder(), self._progress)

    def _new_folder(self) -> Path:
        return self._folder / str(len(list(self._folder.iterdir())))


def told_apart(pairs: Sequence[tuple[Side, Side]]) -> list[tuple[Side, Side]]:
    """The pairs; baselines of one name, which are of several folders, with the folders in their names."""
    from dataclasses import replace

    from harness.results.named import labels

    names = [old.name for old, _ in pairs]
    roots = list(dict.fromkeys(old.root for old, _ in pairs))
    label_of = dict(zip(roots, labels(roots), strict=True))
    return [
        (replace(old, name=f"{label_of[old.root]}/{old.encoder}"), new)
        if old.is_stored and names.count(old.name) > 1
        else (old, new)
        for old, new in pairs
    ]
