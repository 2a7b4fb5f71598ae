"""Mining with an engine: the bytes of one process; tried with the engine of this process, in tiny tiles."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import encoders
import numpy as np
import pytest

from harness.cli import main
from harness.cli import mine as command
from harness.cli.engine import EngineChoice
from harness.engine import encoding
from harness.engine.local import LocalEngine
from harness.mining import distributed, tiles

pytestmark = pytest.mark.slow

OWN = (
    inspect.getsource(encoders)
    + """
from harness.core.errors import LanguageError


class Batches(Letters):
    '''A vector depends on the whole batch and its order, as in every network (by more than rounding).'''
    chunk_size = 16
    name = fingerprint = "batches"
    uses_lang = False

    def encode(self, sentences, *, lang=None):
        with open("encoded.txt", "a") as log:
            log.write("x" * len(sentences))
        vectors = super().encode(sentences)
        moved = sum((row + 1) * len(text) for row, text in enumerate(sentences)) % 1009
        weights = np.random.default_rng(moved).standard_normal((32, 32)).astype(np.float32)
        return vectors + vectors @ weights * np.float32(0.01)


class Polyglot(Batches):
    name = fingerprint = "polyglot"
    uses_lang = True

    def encode(self, sentences, *, lang=None):
        if lang == "xx":
            raise LanguageError("no xx")
        return super().encode(sentences)


def batches(): return Batches()
def polyglot(): return Polyglot()
def unloadable(): raise OSError("no weights")
"""
)


class Backwards(LocalEngine):
    """Does four pieces at a time, the last one first; breaks off after some."""

    places = 2

    def __init__(self, most: float = float("inf")):
        self.left = most
        self.names: list[str] = []

    def map(self, function: Any, pieces: Any, on_redone: Any = None) -> Iterator[Any]:
        pieces = iter(pieces)
        while window := [piece for _, piece in zip(range(4), pieces, strict=False)]:
            for outcome in reversed([*super().map(function, window)]):
                self.names.append(function.__name__)
                self.left -= 1
                if self.left < 0:
                    raise KeyboardInterrupt
                yield outcome


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    for ending in ("de", "en"):
        lines = [bytes(rng.integers(ord("a"), ord("f"), rng.integers(4, 12), np.uint8)) for _ in range(150)]
        (tmp_path / f"a.{ending}").write_bytes(b"\n".join([*lines, *lines[:20], b""]))
    (tmp_path / "own_far.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "own_far", raising=False)
    monkeypatch.setattr(tiles, "_LEAST", 40)
    encoding._kept.clear()


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Has --engine ray mean another engine."""

    def used(engine: LocalEngine) -> LocalEngine:
        @contextmanager
        def opened(choice: EngineChoice, *_: object, **__: object) -> Iterator[LocalEngine | None]:
            yield engine if choice is EngineChoice.ray else None

        monkeypatch.setattr(command, "opened", opened)
        return engine

    return used


def called(*arguments: str, spec: str = "batches") -> int:
    with pytest.raises(SystemExit) as exited:
        main(["mine", "a.de", "a.en", "--encoder", f"python:own_far:{spec}", "--out", "mined.tsv", *arguments])
    return int(exited.value.code or 0)


def mined(*arguments: str, spec: str = "batches") -> bytes:
    assert called(*arguments, spec=spec) == 0
    return Path("mined.tsv").read_bytes()


FAR = ("--engine", "ray", "--work-dir", "far")


SPECS = ("batches", "batches?quantize=int8&truncate_dim=16", "polyglot")
OPTIONS = (["--no-dedup"], ["--vectors", "float16", "--backend", "numpy"], ["--margin", "distance"])


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        pytest.param(spec, options, marks=[] if i == j else [pytest.mark.nightly])
        for i, spec in enumerate(SPECS)
        for j, options in enumerate(OPTIONS)
    ],
)
def test_the_bytes_are_those_of_one_process(use: Any, spec: str, options: list[str]) -> None:
    engine = use(Backwards())
    assert mined(*FAR, *options, spec=spec) == mined("--work-dir", "near", *options, spec=spec)
    assert engine.names.count("encode_sentences") >= 18 and engine.names.count("search_tile") >= 9
    assert all(file.is_file() for file in Path("far").iterdir())  # nothing is left of chunks and tiles
    far, near = ({f.name: f.read_bytes() for f in Path(name).iterdir() if f.is_file()} for name in ("far", "near"))
    assert far == near  # vectors and neighbours too


def test_within_documents_the_workers_encode(use: Any) -> None:
    for name in ("a.de", "a.en"):
        lines = Path(name).read_text().splitlines()
        Path(name).write_text("".join(f"{row % 5}\t{line}\n" for row, line in enumerate(lines)))
    engine = use(Backwards())
    assert mined(*FAR, "--documents") == mined("--work-dir", "near", "--documents")
    assert set(engine.names) == {"describe", "encode_sentences"}


def test_a_file_that_is_there_is_work_done(use: Any) -> None:
    whole = mined("--work-dir", "near")
    Path("encoded.txt").unlink()
    for most in (4, 8, 11):  # while a side is encoded, and while tiles are searched
        use(Backwards(most))
        assert called(*FAR) == 130
    n_tiles = len([*Path("far").glob("tiles-*/tile-*.npz")])
    assert 0 < n_tiles < 9
    wider = Backwards()
    wider.places = 50  # for which tiles would be smaller
    use(wider)
    assert mined(*FAR) == whole
    assert wider.names == ["describe"] + (9 - n_tiles) * ["search_tile"]
    n = Path("encoded.txt").stat().st_size
    n_sentences = sum(len(set(Path(name).read_text().split())) for name in ("a.de", "a.en"))
    assert n_sentences <= n <= n_sentences + 3 * 16 * 4, n  # what was under way at a kill is done again
    engine = use(Backwards())
    assert mined(*FAR, "--margin", "distance") == mined("--work-dir", "near", "--margin", "distance")
    assert engine.names == ["describe"]


def test_damaged_chunks_are_encoded_again(use: Any) -> None:
    whole = mined("--work-dir", "near")
    use(Backwards(4))
    assert called(*FAR) == 130
    chunks = sorted(Path("far/chunks").glob("*.npz"))
    assert chunks
    content = bytearray(chunks[0].read_bytes())
    content[len(content) // 2] ^= 1
    chunks[0].write_bytes(content)
    use(Backwards())
    assert mined(*FAR) == whole


def test_what_cannot_be_is_said_in_one_line(use: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: str, spec: str = "batches") -> str:
        capsys.readouterr()
        assert called(*arguments, spec=spec) == 2
        return capsys.readouterr().err.splitlines()[-1]

    assert "--engine ray needs a folder that all nodes see; give --work-dir DIR" in said("--engine", "ray")
    assert "an approximate search is not for --engine ray" in said(*FAR, "--backend", "faiss")
    assert "are for --engine ray; add it" in said("--cpus-per-worker", "2")
    use(Backwards())
    assert "no weights" in said(*FAR, spec="unloadable")
    assert "no xx" in said(*FAR, "--src-lang", "xx", spec="polyglot")


def test_hardware_that_differs_is_said(use: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    kinds = iter(["one", "other"] * 99)
    monkeypatch.setattr(distributed.Stamp, "kind", property(lambda _: next(kinds)))
    use(Backwards())
    mined(*FAR)
    assert capsys.readouterr().err.count("is encoded on different hardware") == 1
