"""What is planned for an engine: the chunks of one process, exactly; tried with the engine of this process."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable
from pathlib import Path

import encoders
import numpy as np
import pytest

from harness.encoders import vectors as encoder_vectors
from harness.encoders.shards import open_shard
from harness.engine import encoding
from harness.engine.local import LocalEngine
from harness.results.records import Result
from harness.running.distribution import Distribution
from harness.running.suite import Outcome as Run
from harness.running.suite import Request, run_suite

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
        if any("BAD" in text for text in sentences):
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
    import dataclasses

    records = [dataclasses.asdict(result) for result in results]
    for record in records:
        for name in ("wall_time_s", "created", "sentences_per_s"):
            del record[name]
    return sorted(records, key=lambda record: json.dumps(record, default=str, sort_keys=True))


@pytest.mark.parametrize("is_shared", [True, False])
def test_an_engine_encodes_the_chunks_of_one_process(folder: Path, is_shared: bool) -> None:
    names = ["batches", "batches?quantize=int8&truncate_dim=16&name=small", "polyglot"]
    here = run(folder, "here", names=names)
    there = run(folder, "there", Distribution(LocalEngine(), is_shared=is_shared), names=names)
    assert comparable(here.results) == comparable(there.results) and here.results
    assert vectors_of(folder / "here-cache") == vectors_of(folder / "there-cache")
    said = [sorted((f.encoder, f.task, f.subset, repr(f.error)) for f in each.failures) for each in (here, there)]
    assert said[0] == said[1] and any("no Arabic" in error for *_, error in said[0])
