"""What is planned for an engine: the chunks of one process, exactly; tried with the engine of this process."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import encoders
import numpy as np
import pytest

from harness.core.errors import InputError
from harness.encoders import vectors as encoder_vectors
from harness.encoders.shards import open_shard
from harness.engine import encoding
from harness.engine.engine import ClusterError, Failed, Lost, LostError, Outcome
from harness.engine.local import LocalEngine
from harness.mining import tiles
from harness.protocol import get_task
from harness.results.records import Result
from harness.running import distribution
from harness.running.distribution import Distribution
from harness.running.plan import Queue
from harness.running.suite import Outcome as Run
from harness.running.suite import Request, run_suite

pytestmark = pytest.mark.slow

BATCHES = (
    inspect.getsource(encoders)
    + """
import os
from pathlib import Path

from harness.core.errors import LanguageError, VectorError


class Batches(Letters):
    '''A vector depends on the whole batch and its order, as in every network (by more than rounding).'''
    name = fingerprint = "batches"
    uses_lang = False

    def encode(self, sentences, *, lang=None):
        vectors = super().encode(sentences)
        moved = sum((row + 1) * len(text) for row, text in enumerate(sentences)) % 1009
        return vectors * np.float32(1 + moved / 1e5)


class Polyglot(Batches):
    name = fingerprint = "polyglot"
    uses_lang = True

    def encode(self, sentences, *, lang=None):
        if lang == "ar":
            raise LanguageError("no Arabic")
        return super().encode(sentences)


class Broken(Batches):
    '''Fails on one sentence of the sample.'''
    name = fingerprint = "broken"
    error = ValueError

    def encode(self, sentences, *, lang=None):
        if any("pharmacie" in text for text in sentences):
            raise self.error("bad")
        return super().encode(sentences)


class NoVectors(Broken):
    name = fingerprint = "no-vectors"
    error = VectorError


def batches(): return Batches()
def polyglot(): return Polyglot()
def broken(): return Broken()
def no_vectors(): return NoVectors()
def unloadable(): raise OSError("no weights")
"""
)

SUBSETS = ["en-en@sample", "en-ar@sample", "ten@sample", "deu@sample", "de-en@sample"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a module of encoders in it."""
    name = f"mine_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(BATCHES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(encoder_vectors, "CHUNK", 16)
    encoding._kept.clear()
    return tmp_path


def run(folder: Path, to: str, distribution: Distribution | None = None, **options: object) -> Run:
    (module,) = folder.glob("mine_*.py")
    names = options.pop("names", ["batches"])
    request = Request(
        encoders=[f"python:{module.stem}:{name}" for name in names],
        suite="sample",
        subsets=options.pop("subsets", SUBSETS),
        cache_dir=folder / f"{to}-cache",
        distribution=distribution,
        **options,
    )
    return run_suite(request)


def vectors_of(cache: Path) -> dict[tuple[str, bytes], bytes]:
    """All vectors by folder and key."""
    found = {}
    for file in sorted(cache.rglob("*.shard")):
        shard, keys = open_shard(file)
        for key, vector in zip(keys.tolist(), np.array(shard.read(shard.shape[1])), strict=True):
            found[file.parent.name, key] = vector.tobytes()
    return found


def comparable(results: Iterable[Result]) -> list[dict[str, object]]:
    """Records without what differs between two runs of the same."""
    records = [dataclasses.asdict(result) for result in results]
    for record in records:
        for name in ("wall_time_s", "created", "sentences_per_s"):
            del record[name]
    return sorted(records, key=lambda record: json.dumps(record, default=str, sort_keys=True))


@pytest.mark.parametrize("is_shared", [True, False])
def test_an_engine_encodes_the_chunks_of_one_process(folder: Path, is_shared: bool) -> None:
    names = ["batches", "batches?quantize=int8&truncate_dim=16&name=small", "polyglot"]
    subsets = SUBSETS if is_shared else ["avg-same@sample", "en-ar@sample", "deu@sample"]
    here = run(folder, "here", names=names, subsets=subsets)
    there = run(folder, "there", Distribution(LocalEngine(), is_shared=is_shared), names=names, subsets=subsets)
    assert comparable(here.results) == comparable(there.results) and here.results
    assert vectors_of(folder / "here-cache") == vectors_of(folder / "there-cache")
    said = [sorted((f.encoder, f.task, f.subset, repr(f.error)) for f in each.failures) for each in (here, there)]
    assert said[0] == said[1] and any("no Arabic" in error for *_, error in said[0])


class Notes:
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.queues: list[tuple[int, int, int]] = []

    def note(self, message: str) -> None:
        self.said.append(message)

    def queue(self, queue: Queue) -> None:
        self.queues.append((queue.done, queue.total, queue.sentences))

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args: None


class Watched(LocalEngine):
    """Notes the sentences of each piece; loses those for which `is_lost`, and does each of the others twice."""

    def __init__(self, is_lost: Callable[[encoding.Piece], bool] = lambda piece: False):
        self.chunks: list[tuple[str, tuple[str, ...]]] = []
        self.functions: list[Callable] = []
        self._is_lost = is_lost

    def map(
        self, function: Callable, pieces: Iterable, on_redone: Callable[..., None] | None = None
    ) -> Iterator[Outcome]:
        self.functions.append(function)
        if function is not encoding.encode_piece:
            yield from super().map(function, pieces)
            return
        for piece in pieces:
            self.chunks.append((piece.fingerprint, tuple(piece.chunk.sentences)))
            if self._is_lost(piece):
                yield Lost(piece, LostError("given up after 3 attempts: its worker died"))
                continue
            if on_redone:
                on_redone(piece, "its worker died")
            list(super().map(function, [piece]))
            yield from super().map(function, [piece])


def said_of(outcome: Run) -> list[tuple[str, ...]]:
    return sorted((f.encoder, f.task, f.subset, type(f.error).__name__) for f in outcome.failures)


def test_encoders_fail_as_they_do_in_one_process(folder: Path) -> None:
    subsets = ["deu@sample", "en-en@sample", "fra@sample", "en-ar@sample"]
    options = {
        "names": ["unloadable", "broken", "no_vectors", "batches"],
        "subsets": subsets,
        "tasks": ["tatoeba", "sts17"],
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoder_vectors, "CHUNK", 4096)
        here = run(folder, "here", **options)
        engine, notes = Watched(), Notes()
        there = run(folder, "there", Distribution(engine, progress=notes), **options)
    assert notes.queues[-1][0] == notes.queues[-1][1] == len(engine.chunks)
    assert said_of(here) == said_of(there)
    assert {name for name, *_ in said_of(here)} == {"unloadable", "broken", "no_vectors"}
    assert comparable(here.results) == comparable(there.results)
    assert sum(name == "no-vectors" for name, _ in engine.chunks) < sum(name == "batches" for name, _ in engine.chunks)


def test_a_lost_piece_is_a_hole_and_costs_its_set_alone(folder: Path) -> None:
    here = run(folder, "here", subsets=["deu@sample", "fra@sample"])
    lost: list[str] = []

    def is_lost(piece: encoding.Piece) -> bool:
        lost[:] = lost or [piece.chunk.sentences[0]]
        return lost[0] in piece.chunk.sentences

    engine, notes = Watched(is_lost), Notes()
    there = run(folder, "there", Distribution(engine, progress=notes), subsets=["deu@sample", "fra@sample"])
    [(_, _, subset, kind)] = said_of(there)
    assert kind == "LostError"
    kept = [result for result in here.results if result.subset != subset]
    assert comparable(kept) == comparable(there.results) and kept
    assert len([chunk for chunk in engine.chunks if lost[0] in chunk[1]]) == 1  # not tried again when it is asked for
    assert any("are encoded again: its worker died" in said for said in notes.said)
    done, total, sentences = notes.queues[-1]
    assert done == total == len(engine.chunks) and sentences == sum(len(texts) for _, texts in engine.chunks)
    # The same command again does what is left, with the same chunks.
    again = run(folder, "there", Distribution(LocalEngine()), subsets=["deu@sample", "fra@sample"])
    assert comparable(again.results) == comparable(here.results)
    assert vectors_of(folder / "here-cache") == vectors_of(folder / "there-cache")


def test_what_is_stored_or_cached_is_not_planned(folder: Path) -> None:
    run(folder, "there", subsets=["deu@sample"])
    engine = Watched()
    there = run(folder, "there", Distribution(engine), subsets=["deu@sample"])
    assert there.results and not engine.chunks
    store = folder / "results"
    run(folder, "there", subsets=["deu@sample"], results=store)
    stored = run(folder, "other", Distribution(engine), subsets=["deu@sample"], results=store)
    assert stored.results and not engine.chunks


def test_hardware_that_differs_is_recorded_and_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stamps = iter(encoding.Stamp("node", kind) for kind in 100 * ["A", "B"])
    real = encoding.encode_piece

    def elsewhere(piece: encoding.Piece) -> encoding.Encoded:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(encoding.Stamp, "here", classmethod(lambda cls, device="cpu": next(stamps)))
            return real(piece)

    monkeypatch.setattr(distribution, "encode_piece", elsewhere)
    notes = Notes()
    there = run(folder, "there", Distribution(LocalEngine(), progress=notes), subsets=["deu@sample"])
    [record] = there.results
    assert record.conditions["processor"] == "A, B"
    assert len([said for said in notes.said if "encoded on different hardware (B; A)" in said]) == 1


def test_a_task_that_asks_by_what_it_sees_gets_what_it_asks_for(folder: Path) -> None:
    def rows(items: object, encode: Callable) -> dict[str, np.ndarray]:
        first = encode(["a", "bb"], None)
        second = encode(["seen"] if first.any() else ["unseen"], None)
        return {"row": second[:, 0]}

    task = dataclasses.replace(get_task("korsts"), name="adaptive", rows=rows, resample=None)
    task = dataclasses.replace(task, aggregate=lambda rows: {"spearman": float(rows["row"].sum())})
    places = {"here": None, "there": Distribution(LocalEngine())}
    found = [run(folder, to, where, tasks=[task], subsets=()) for to, where in places.items()]
    assert comparable(found[0].results) == comparable(found[1].results) and found[0].results
    assert not found[0].failures + found[1].failures


def test_workers_that_cannot_do_anything_end_the_run(folder: Path) -> None:
    class Bare(LocalEngine):
        def map(self, function: Callable, pieces: Iterable, on_redone: object = None) -> Iterator[Outcome]:
            return (
                Failed(piece, ClusterError("a worker cannot do its work (No module named 'harness')"))
                for piece in pieces
            )

    with pytest.raises(ClusterError, match="No module named"):
        run(folder, "there", Distribution(Bare()), names=["batches", "polyglot"])


def test_an_encoder_that_is_an_object_stays_here(folder: Path) -> None:
    request = Request(encoders=[encoders.Letters()], suite="sample", distribution=Distribution(LocalEngine()))
    with pytest.raises(InputError, match="spec strings"):
        run_suite(request)


def test_encoders_of_a_run_do_not_make_room_for_each_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE_GB", "0")
    engine = Watched()
    subsets = ["deu@sample", "fra@sample"]
    found = run(folder, "there", Distribution(engine), names=["batches", "polyglot"], subsets=subsets)
    assert len(found.results) == 4 and len(engine.chunks) == len(set(engine.chunks))
    assert len(vectors_of(folder / "there-cache")) == sum(len(texts) for _, texts in engine.chunks)


def test_bucc_is_mined_by_the_engine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = run(folder, "here", subsets=["de-en@sample"])
    monkeypatch.setattr(tiles, "_WORTH", 1)
    monkeypatch.setattr(tiles, "_LEAST", 50)
    engine = Watched()
    there = run(folder, "there", Distribution(engine), subsets=["de-en@sample"])
    assert engine.functions.count(tiles.search_tile) == 2  # training, test
    assert comparable(here.results) == comparable(there.results) and here.results
    assert not list((folder / "there-cache").rglob("tile*"))
    # Where the cache folder is not shared, this process mines.
    sent = run(folder, "sent", Distribution(engine, is_shared=False), subsets=["de-en@sample"])
    assert engine.functions.count(tiles.search_tile) == 2 and comparable(here.results) == comparable(sent.results)
