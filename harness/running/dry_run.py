"""What a run would have to encode: counted, with what it would cost, while nothing is encoded and nothing is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import one_line
from harness.data import DataDir
from harness.encoders.encoder import Encoder
from harness.encoders.spec import Spec
from harness.encoders.variant import Variant
from harness.protocol.task import Planned, Task
from harness.running.measure import Failure, Run
from harness.running.plan import Progress, Silent, choose_data, identity_of, sets_of
from harness.running.suite import Records, Request, load, prepare

_CHARACTERS = 4  # a token, in English; fewer in most other languages
_FEW = 20_000  # sentences for which a task may go on with vectors of zeros: it takes no time


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
            forecasts.append(_forecast(run, encoder, plan, choose_data(request.data_dir, request.suite)))
        except KeyboardInterrupt:
            raise
        except BaseException as caught:  # one encoder may fail in any way, and the others go on
            error = caught if isinstance(caught, Exception) else RuntimeError(one_line(caught))
            failures.append(Failure(name, "", "", error))
            progress.fail(name, "loading", "", error)
    return forecasts, failures


def _forecast(run: Run, encoder: Encoder, plan: Sequence[Planned], data: DataDir) -> Forecast:
    records = Records(run, encoder)
    wanted: dict[str | None, set[str]] = {}
    n_sets = 0
    stopped: dict[str, Task] = {}
    for task, source in sets_of(plan):
        if records.known(task, identity_of(encoder.name, encoder.fingerprint, task, source)):
            continue
        n_sets += 1
        asked, is_whole = _asked_for(task, run.items.of(task, source))
        for lang, sentences in asked:
            wanted.setdefault(lang if encoder.uses_lang else None, set()).update(sentences)
        if not is_whole:
            stopped[task.name] = task
    for task in stopped.values():
        seen = set().union(*wanted.values())
        wanted.setdefault(None, set()).update(set(task.sentences(data) if task.sentences else ()) - seen)
    if n_sets and isinstance(encoder, Variant):
        for lang, calibration in encoder.calibration.items():
            wanted.setdefault(lang, set()).update(calibration)
    if run.cache.has(encoder):
        with run.cache.of(encoder) as vectors:
            missing = {lang: vectors.missing(list(sentences), lang) for lang, sentences in wanted.items()}
    else:
        missing = {lang: list(sentences) for lang, sentences in wanted.items()}
    sent_text = getattr(encoder, "sent_text", str)
    return Forecast(
        encoder.name,
        n_sets,
        sum(map(len, missing.values())),
        sum(len(sent_text(sentence)) for sentences in missing.values() for sentence in sentences),
        getattr(encoder, "price", None),
        not stopped,
    )


def _asked_for(task: Task, items: Any) -> tuple[list[tuple[str | None, Sequence[str]]], bool]:
    """What a task would encode of its items, with the languages; and whether that is all.

    It is not where the task had to be stopped since it looks at vectors of many sentences.
    """
    asked: list[tuple[str | None, Sequence[str]]] = []

    def encode(sentences: Sequence[str], lang: str | None) -> NDArray[np.float32]:
        asked.append((lang, sentences))
        return np.zeros((len(sentences), 1), np.float32) if len(sentences) <= _FEW else _Unread()  # type: ignore[return-value]

    try:
        task.rows(items, encode)
    except Exception:  # a task's own code may not like zeros either
        return asked, False
    return asked, True


class _UnreadError(Exception):
    """Vectors are needed that nobody has computed."""


class _Unread:
    """In place of vectors: whoever looks at it is stopped, before hours of mining."""

    def _stop(self, *_: object, **__: object) -> NoReturn:
        raise _UnreadError

    __getattr__ = __getitem__ = __len__ = __iter__ = __array__ = _stop
