"""What a run would have to encode: counted, with what it would cost, while nothing is encoded and nothing is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.core.errors import one_line
from harness.data import DataDir
from harness.encoders.encoder import Encoder
from harness.encoders.sides import AnyEncoder, Side, by_side, side_of
from harness.encoders.spec import Spec
from harness.encoders.variant import Variant
from harness.protocol.task import Planned, Task
from harness.running.asked import asked_for
from harness.running.measure import Failure, Run, fits, refused
from harness.running.plan import Progress, Silent, choose_data, identity_of, sets_of
from harness.running.suite import Records, Request, load, prepare

_CHARACTERS = 4  # a token, in English; fewer in most other languages


@dataclass(frozen=True)
class Forecast:
    """What an encoder would have to do.

    Attributes:
        n_sets: that are not stored.
        n_sentences: distinct ones in them whose vectors are not in the cache.
        n_characters: in those; of an encoder behind a server, in what would be sent of them.
        price: of 10^6 tokens, if the encoder has one.
        is_exact: whether they are these; else at most these, since a task with large sets was not asked to the end.
    """

    encoder: str
    n_sets: int
    n_sentences: int
    n_characters: int
    price: float | None = None
    is_exact: bool = True

    @property
    def tokens(self) -> float | None:
        """An estimate, for an encoder that has a price."""
        return None if self.price is None else self.n_characters / _CHARACTERS

    @property
    def cost(self) -> float | None:
        """An estimate, in the currency of the price."""
        return None if self.price is None else self.n_characters / _CHARACTERS * self.price / 1e6


def forecast(request: Request, progress: Progress | None = None) -> tuple[list[Forecast], list[Failure]]:
    """For each encoder of a run, what it would have to encode; and those that cannot be loaded.

    An encoder whose fingerprint only its server tells has the one of its latest vectors or results.

    Raises:
        HarnessError: as `run_suite`.
    """
    progress = progress or Silent()
    run, encoders, plan = prepare(request, progress)
    forecasts, failures = [], []
    for given in encoders:
        name = given.stored_name if isinstance(given, Spec) else given.name
        try:
            encoder, _, _ = load(given, run, {**request.defaults, "dry_run": True})
            unfit = refused(encoder, plan)
            failures += unfit
            for failure in unfit:
                progress.fail(*failure)
            if fitting := [planned for planned in plan if fits(encoder, planned.task)]:
                forecasts.append(_forecast(run, encoder, fitting, choose_data(request.data_dir, request.suite)))
        except KeyboardInterrupt:
            raise
        except BaseException as caught:  # one encoder may fail in any way, and the others go on
            error = caught if isinstance(caught, Exception) else RuntimeError(one_line(caught))
            failures.append(Failure(name, "", "", error))
            progress.fail(name, "loading", "", error)
    return forecasts, failures


def _forecast(run: Run, encoder: AnyEncoder, plan: Sequence[Planned], data: DataDir) -> Forecast:
    records = Records(run, encoder)
    sides = by_side(encoder)
    wanted: dict[Side | None, dict[str | None, set[str]]] = {side: {} for side in sides}
    n_sets = 0
    stopped: dict[str, Task] = {}
    for task, source in sets_of(plan):
        if records.known(task, identity_of(encoder.name, encoder.fingerprint, task, source)):
            continue
        n_sets += 1
        asked, is_whole = asked_for(task, run.items.of(task, source))
        for side, lang, sentences in asked:
            key = side_of(encoder, side)
            wanted[key].setdefault(lang if sides[key].uses_lang else None, set()).update(sentences)
        if not is_whole:
            stopped[task.name] = task
    for task in stopped.values():
        seen = set().union(*(sentences for of_side in wanted.values() for sentences in of_side.values()))
        others = set(task.sentences(data) if task.sentences else ()) - seen
        for of_side in wanted.values():  # it may be asked for on either
            of_side.setdefault(None, set()).update(others)
    n_sentences = n_characters = 0
    for side, each in sides.items():
        if n_sets and isinstance(each, Variant):
            for lang, calibration in each.calibration.items():
                wanted[side].setdefault(lang, set()).update(calibration)
        sent_text = getattr(each, "sent_text", str)
        missing = _missing(run, each, wanted[side])
        n_sentences += len(missing)
        n_characters += sum(len(sent_text(sentence)) for sentence in missing)
    price = getattr(next(iter(sides.values())), "price", None)
    return Forecast(encoder.name, n_sets, n_sentences, n_characters, price, not stopped)


def _missing(run: Run, encoder: Encoder, wanted: Mapping[str | None, set[str]]) -> list[str]:
    """Those of the sentences, by language, whose vectors are not in the cache."""
    if not run.cache.has(encoder):
        return [sentence for sentences in wanted.values() for sentence in sentences]
    with run.cache.of(encoder) as vectors:
        return [text for lang, sentences in wanted.items() for text in vectors.missing(list(sentences), lang)]
