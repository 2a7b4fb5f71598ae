from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from harness.core.errors import InputError
from harness.core.threads import available_cores, limited, n_threads, using_threads
from harness.encoders.containment import contained
from harness.encoders.registry import load_encoder
from harness.running.evaluate import evaluate
from harness.speed.texts import texts

# More than this machine has, and so a number that nobody else has set.
OTHER = available_cores() + 1


def blas_threads() -> set[int]:
    return {int(library["num_threads"]) for library in threadpool_info() if library["user_api"] == "blas"}


def test_all_cores_by_default() -> None:
    assert n_threads() == available_cores() == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("variable", [None, "7"])
def test_the_number_is_undone_at_the_end(variable: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAYON_NUM_THREADS", raising=False)
    if variable:
        monkeypatch.setenv("RAYON_NUM_THREADS", variable)
    before = blas_threads()
    with using_threads(OTHER):
        assert n_threads() == OTHER and blas_threads() == {OTHER}
        assert os.environ["RAYON_NUM_THREADS"] == str(OTHER)
        with using_threads(1):
            assert n_threads() == 1 and blas_threads() == {1}
        with using_threads(None):
            assert n_threads() == OTHER
        assert n_threads() == OTHER and blas_threads() == {OTHER}
    with pytest.raises(KeyError), using_threads(OTHER):
        raise KeyError
    assert n_threads() == available_cores() and blas_threads() == before
    assert os.environ.get("RAYON_NUM_THREADS") == variable
    with limited():
        assert blas_threads() == before


@pytest.mark.parametrize("wrong", [0, -1])
def test_no_threads_are_refused(wrong: int) -> None:
    with pytest.raises(ValueError, match="at least 1"), using_threads(wrong):
        pass
    with pytest.raises(InputError, match="at least 1"):
        evaluate("chargrams", threads=wrong)


def test_torch_has_the_number_too_and_gets_its_own_back(monkeypatch: pytest.MonkeyPatch) -> None:
    class Torch:
        n = 7

        def get_num_threads(self) -> int:
            return self.n

        def set_num_threads(self, n: int) -> None:
            self.n = n

    torch = Torch()
    with using_threads(OTHER):
        monkeypatch.setitem(sys.modules, "torch", torch)  # imported by an encoder, after the number was chosen
        with contained():
            assert torch.n == OTHER
        assert torch.n == 7
    with contained():
        assert torch.n == 7


class Observer:
    """Its vectors are all equal; `seen` is the number of threads when it encodes: ours, and those of BLAS."""

    name, fingerprint, dim, uses_lang = "observer", "observer-1", 2, False

    def __init__(self) -> None:
        self.seen: set[tuple[int, frozenset[int]]] = set()

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        self.seen.add((n_threads(), frozenset(blas_threads())))
        return np.array([[len(text), 1] for text in sentences], np.float32).reshape(len(sentences), 2)


def test_an_encoder_has_the_number_and_the_record_says_it(tmp_path: Path) -> None:
    observer = Observer()
    [result] = evaluate(observer, "sts17", subsets="en-en@sample", cache_dir=tmp_path, threads=OTHER)
    assert observer.seen == {(OTHER, frozenset({OTHER}))}
    assert result.threads == OTHER and n_threads() == available_cores()
    # Vectors from the cache keep the number that they were made with.
    [again] = evaluate(observer, "sts17", subsets="en-en@sample", cache_dir=tmp_path, threads=1)
    assert again.threads == OTHER


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["chargrams", "student"])
def test_vectors_do_not_depend_on_the_number(spec: str) -> None:
    """To the last bit; of mUSE and of transformers, see the tests of their adapters."""
    if spec == "student":
        pytest.importorskip("tokenizers")
    encoder = load_encoder(spec)
    sentences = [text.text for text in texts("medium")]
    with using_threads(1):
        alone = encoder.encode(sentences)
    for n in (2, OTHER):
        with using_threads(n), limited():
            np.testing.assert_array_equal(encoder.encode(sentences), alone)
