"""Encoding on an engine: all chunks of all encoders and sets in one queue, before anything is scored.

The chunks are those that one process would make, one set after another: of each encoder, what a set needs and neither
the cache nor an earlier set has. Loading, encoding and their failures happen in workers. Scores, statistics and results
are the business of the process that asks, which finds all vectors in its cache; what nobody could foresee (a task whose
requests depend on vectors) is encoded by workers when it is asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import NamedTuple, cast

from harness.core.errors import EncoderError, HarnessError, InputError, LanguageError
from harness.core.files import Claim
from harness.data import Source
from harness.encoders.encoder import Encoder
from harness.encoders.shards import Index
from harness.encoders.sides import AnyEncoder, by_side, side_of
from harness.encoders.variant import Variant, full_of
from harness.encoders.vectors import Chunk, EncoderVectors
from harness.engine.encoding import (
    REMEDY,
    Described,
    Description,
    Encoded,
    Opening,
    Piece,
    Question,
    Stamp,
    describe,
    encode_piece,
)
from harness.engine.engine import ClusterError, Done, Engine, LoadError
from harness.mining.tiles import search_on, searching
from harness.protocol.task import Planned, Task
from harness.running.asked import Asked, asked_for
from harness.running.measure import Run, fits
from harness.running.plan import Progress, Queue, Silent, sets_of

_VISIBLE = 30.0  # seconds within which a network file system shows a file that another machine has written


class _Failure(NamedTuple):
    fingerprint: str
    lang: str | None
    sentences: frozenset[str]
    error: Exception


class _Job(NamedTuple):
    piece: Piece
    vectors: EncoderVectors


class Distribution:
    """Has an engine encode what a run needs.

    Args:
        engine: where.
        is_shared: whether workers write into the cache folder; else they send vectors back.
        progress: who wants to know.

    Attributes:
        queue: how far it is, with all pieces so far.
    """

    def __init__(self, engine: Engine, *, is_shared: bool = True, progress: Progress | None = None):
        self._engine, self._is_shared, self._progress = engine, is_shared, progress or Silent()
        self.queue = Queue(places=engine.places)
        self._failures: list[_Failure] = []
        self._broken: dict[str, EncoderError] = {}  # by fingerprint: encoders that cannot go on
        self._kinds: dict[str, set[str]] = {}  # by fingerprint: hardware that its vectors were made on
        self._halved: set[str] = set()
        self._calls: dict[tuple[str, str], list[Asked]] = {}  # of sets

    def load(self, openings: Iterable[Opening]) -> list[AnyEncoder | Exception]:
        """The encoders, each loaded by a worker that tells of it; or why that failed.

        Raises:
            ClusterError: no worker can do anything.
        """
        questions = [Question(opening) for opening in openings]
        told = self._ask(questions)
        return [
            answer if isinstance(answer, Exception) else answer.encoder(question.opening)
            for question, answer in zip(questions, told, strict=True)
        ]

    def encode_plan(
        self, encoders: Iterable[tuple[AnyEncoder, Known]], plan: Sequence[Planned], run: Run, until: ExitStack
    ) -> None:
        """Encode all that these encoders need for a plan; what fails is raised when it is asked for (see `encode`).

        encoders: each with a function that tells whether a set is measured already.
        until: as long as this is open, their vectors are in use: opening one encoder deletes none of another.

        Raises:
            HarnessError: of the cache folder or the cluster.
        """
        with ExitStack() as stack:
            planned: dict[Path, Index] = {}  # by folder, which an encoder and its variants share
            jobs = [job for each, known in encoders for job in self._jobs(each, known, plan, run, planned, stack)]
            for claim in map(Claim, planned):
                until.callback(_release, claim)
            self._do(jobs)

    def encode(self, vectors: EncoderVectors, chunks: Sequence[Chunk]) -> None:
        """Encode chunks of one encoder, as `harness.encoders.vectors.Elsewhere`.

        Raises:
            Exception: what a worker told of them, now or before; LostError: workers died of them.
        """
        fingerprint = vectors.encoder.fingerprint
        self._raise_known(fingerprint, chunks)
        self._do([_Job(self._piece(vectors, chunk), vectors) for chunk in chunks])
        self._raise_known(fingerprint, chunks)

    def mining(self, root: Path) -> AbstractContextManager[None]:
        """A `with` block in which large searches for neighbours are the engine's, with files in the cache folder.

        Where the workers do not share that, they are this process's.
        """
        if not self._is_shared:
            return nullcontext()
        return searching(search_on(self._engine, root.absolute(), self._progress.searching))

    def _ask(self, questions: Sequence[Question]) -> list[Description | Exception]:
        numbers = {id(question): number for number, question in enumerate(questions)}
        told: list[Description | Exception] = [RuntimeError("not asked")] * len(questions)
        for outcome in self._engine.map(describe, questions, lambda *_: None):
            answer = outcome.value if isinstance(outcome, Done) else outcome.error
            if isinstance(answer, ClusterError):
                raise answer
            told[numbers[id(outcome.piece)]] = answer
        return told

    def _jobs(
        self,
        encoder: AnyEncoder,
        known: Known,
        plan: Sequence[Planned],
        run: Run,
        planned: dict[Path, Index],
        stack: ExitStack,
    ) -> Iterator[_Job]:
        """What there is to encode for an encoder, in the order in which one process would come to it."""
        wanted = [(task, source) for task, source in sets_of(plan) if fits(encoder, task) and not known(task, source)]
        if not wanted:
            return
        sides = by_side(encoder)
        vectors = {side: stack.enter_context(run.cache.of(each)) for side, each in sides.items()}
        uncalibrated = {side for side, each in sides.items() if isinstance(each, Variant) and each.calibration}
        calls = {(task.name, source.subset): self._asked(run, task, source) for task, source in wanted}
        refused = self._refused(encoder, [call for of_set in calls.values() for call in of_set])
        for of_set in calls.values():
            for call in of_set:
                if call.lang in refused:
                    break  # here the set fails
                side = side_of(encoder, call.side)
                texts = [(call.sentences, call.lang)]
                if side in uncalibrated:
                    uncalibrated.discard(side)
                    each = cast(Variant, sides[side])
                    texts += [(some, lang) for lang, some in each.calibration.items() if lang not in refused]
                for sentences, lang in texts:
                    index = planned.setdefault(vectors[side].folder, Index())
                    for chunk in vectors[side].unplanned(sentences, lang, index):
                        yield _Job(self._piece(vectors[side], chunk), vectors[side])

    def _asked(self, run: Run, task: Task, source: Source) -> list[Asked]:
        key = task.name, source.subset
        if key not in self._calls:  # once for all encoders, whose chunks then share the sentences
            self._calls[key], _ = asked_for(task, run.items.of(task, source))
        return self._calls[key]

    def _refused(self, encoder: AnyEncoder, calls: Iterable[Asked]) -> frozenset[str | None]:
        """The languages that the encoder does not take; a set in such a language fails where it is asked for."""
        first = described(next(iter(by_side(encoder).values())))
        if not first.uses_lang:
            return frozenset()
        langs = tuple(sorted({call.lang for call in calls}, key=str))
        [told] = self._ask([Question(first.opening, langs)])
        return told.refused if isinstance(told, Description) else frozenset()

    def _piece(self, vectors: EncoderVectors, chunk: Chunk) -> Piece:
        encoder = described(vectors.encoder)
        stamp = encoder.description.stamp
        usual = stamp.kind if stamp.gpu else Stamp.here().kind
        folder = vectors.folder.absolute() if self._is_shared else None
        return Piece(encoder.opening, encoder.side, encoder.fingerprint, chunk, folder, usual)

    def _do(self, jobs: Sequence[_Job]) -> None:
        """Have pieces done; errors are kept (see `_raise_known`), but for those of the cache folder or the cluster."""
        if not jobs:
            return
        queue, start = self.queue, time.monotonic()
        before = queue.seconds
        n_sentences = sum(len(job.piece.chunk.sentences) for job in jobs)
        queue.total, queue.all_sentences = queue.total + len(jobs), queue.all_sentences + n_sentences
        vectors = {id(job.piece): job.vectors for job in jobs}
        pieces = (job.piece for job in jobs if job.piece.fingerprint not in self._broken)
        outcomes = self._engine.map(encode_piece, pieces, self._redone)
        try:
            for outcome in outcomes:
                if isinstance(outcome, Done):
                    self._take(outcome.piece, outcome.value, vectors[id(outcome.piece)])
                else:
                    self._fail(outcome.piece, outcome.error)
                queue.done += 1
                queue.sentences += len(outcome.piece.chunk.sentences)
                queue.seconds, queue.places = before + time.monotonic() - start, self._engine.places
                self._progress.queue(queue)
            if queue.done < queue.total:  # those of encoders that cannot go on
                queue.total, queue.all_sentences = queue.done, queue.sentences
                self._progress.queue(queue)
        finally:
            if isinstance(outcomes, Generator):
                outcomes.close()  # what is left is given up

    def _redone(self, piece: Piece, why: str) -> None:
        self.queue.redone += 1
        name = piece.opening.spec.stored_name
        self._progress.note(f"{name}: {len(piece.chunk.sentences):,} sentences are encoded again: {why}")

    def _take(self, piece: Piece, encoded: Encoded, vectors: EncoderVectors) -> None:
        if encoded.shard:
            _adopt(vectors, encoded.shard)
        elif len(encoded.made.rows):
            vectors.keep(piece.chunk, encoded.made)
        if encoded.told is not None:
            done = set(encoded.made.rows.tolist())
            left = [text for row, text in enumerate(piece.chunk.sentences) if row not in done]
            self._remember(piece, left, encoded.told.error())
        name, kinds = piece.opening.spec.stored_name, self._kinds.setdefault(piece.fingerprint, set())
        if kinds and encoded.stamp.kind not in kinds:
            self._progress.note(
                f"warning: {name} is encoded on different hardware ({encoded.stamp.kind}; {', '.join(sorted(kinds))}): "
                "its vectors are those of one machine but for rounding"
            )
        kinds.add(encoded.stamp.kind)
        size = encoded.made.effort.conditions.get("sentences_at_a_time")
        if size is not None and piece.fingerprint not in self._halved:
            self._halved.add(piece.fingerprint)
            node = encoded.stamp.host
            self._progress.note(f"warning: memory ran out on {node}; {name} encodes {size:,} sentences at a time")

    def _fail(self, piece: Piece, error: Exception) -> None:
        if isinstance(error, LoadError):
            error = LoadError(f"{piece.opening.spec.stored_name} {error}")
        if isinstance(error, HarnessError) and not isinstance(error, EncoderError | LanguageError):
            raise error
        if isinstance(error, EncoderError):
            self._broken.setdefault(piece.fingerprint, error)
        self._remember(piece, piece.chunk.sentences, error)

    def _remember(self, piece: Piece, sentences: Sequence[str], error: Exception) -> None:
        self._failures.append(_Failure(piece.fingerprint, piece.chunk.lang, frozenset(sentences), error))

    def _raise_known(self, fingerprint: str, chunks: Sequence[Chunk]) -> None:
        """Raise the error of sentences that have failed, if all that failed together are asked for again."""
        failures = [failure for failure in self._failures if failure.fingerprint == fingerprint]
        if not failures and fingerprint not in self._broken:
            return
        asked = {text for chunk in chunks for text in chunk.sentences}
        for failure in failures:
            if failure.lang == chunks[0].lang and failure.sentences <= asked:
                raise failure.error
        if fingerprint in self._broken:
            raise self._broken[fingerprint]


Known = Callable[[Task, Source], bool]


def described(encoder: Encoder) -> Described:
    """The encoder, or what it is a variant of, whose weights are in the workers."""
    full = full_of(encoder)
    if not isinstance(full, Described):
        raise TypeError(f"{encoder.name} was not loaded by a worker")
    return full


def _release(claim: Claim) -> None:
    claim.release()  # not the bound function alone, which does not keep the claim alive


def _adopt(vectors: EncoderVectors, shard: str) -> None:
    end = time.monotonic() + _VISIBLE
    while not vectors.adopt(shard):
        if time.monotonic() > end:
            raise InputError(f"cache folder {vectors.folder}: {shard}, which a worker wrote, is not there; {REMEDY}")
        time.sleep(0.2)
