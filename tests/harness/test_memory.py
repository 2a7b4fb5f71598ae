"""Which errors say that memory ran out: those that the libraries raise."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.errors import LanguageError, VectorError
from harness.memory import encode_if_it_fits, is_out_of_memory


def error_of(call: Callable[[], object]) -> Exception:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("no error")


def test_numpys() -> None:
    assert is_out_of_memory(error_of(lambda: np.empty(2**58)))
    assert not is_out_of_memory(error_of(lambda: np.empty((2, 3)) @ np.empty((2, 3))))


def test_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    assert is_out_of_memory(error_of(lambda: torch.empty(2**58)))
    assert is_out_of_memory(torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB."))
    assert not is_out_of_memory(error_of(lambda: torch.empty(2, 3) @ torch.empty(2, 3)))


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: 9.06 GB)"), True),
        (type("ResourceExhaustedError", (Exception,), {})("OOM when allocating tensor with shape[64,128]"), True),
        (ValueError("no room"), False),
        (OSError(28, "No space left on device"), False),
    ],
)
def test_others(error: Exception, is_one: bool) -> None:
    assert is_out_of_memory(error) is is_one


def test_what_would_end_the_process_is_an_error_of_the_encoder() -> None:
    class Panic(BaseException):
        """As Rust's libraries raise it."""

    def ends(error: BaseException) -> SimpleNamespace:
        def encode(sentences: object, *, lang: object) -> None:
            raise error

        return SimpleNamespace(encode=encode)

    with pytest.raises(RuntimeError, match="SystemExit: 5"):
        encode_if_it_fits(ends(SystemExit(5)), ["a"], None)
    with pytest.raises(RuntimeError, match="Panic: index out of bounds"):
        encode_if_it_fits(ends(Panic("index out of bounds")), ["a", "b"], None)
    with pytest.raises(KeyboardInterrupt):
        encode_if_it_fits(ends(KeyboardInterrupt()), ["a"], None)
    with pytest.raises(ValueError, match="bad"):
        encode_if_it_fits(ends(ValueError("bad")), ["a", "b"], None)


def test_what_did_not_fit_is_let_go_before_the_next_attempt() -> None:
    alive: list[int] = []

    class Large:
        def __init__(self) -> None:
            alive.append(1)

        def __del__(self) -> None:
            alive.pop()

    def encode(sentences: object, *, lang: object) -> None:
        held = [Large()]
        held.append(held)  # type: ignore[arg-type]
        raise MemoryError(sys.getsizeof(held))

    assert encode_if_it_fits(SimpleNamespace(encode=encode), ["a", "b"], None) is None
    assert alive == []


def returns(vectors: object) -> Any:
    return SimpleNamespace(name="own", dim=2, encode=lambda sentences, *, lang: vectors)


def test_nothing_returned_is_an_error_at_once_and_no_want_of_memory() -> None:
    with pytest.raises(VectorError, match="'own' returned NoneType for 2 sentences"):
        encode_if_it_fits(returns(None), ["a", "b"], None)


def test_the_text_of_a_sentence_says_nothing_of_memory() -> None:
    nan = np.full((2, 2), np.nan)
    with pytest.raises(VectorError, match="NaN in row 7 for the sentence 'CUDA out of memory'"):
        encode_if_it_fits(returns(nan), ["CUDA out of memory", "b"], None, [7, 8])

    def refuses(sentences: object, *, lang: object) -> None:
        raise LanguageError("no vectors for 'out of memory'")

    with pytest.raises(LanguageError):
        encode_if_it_fits(SimpleNamespace(encode=refuses), ["a", "b"], None)  # type: ignore[arg-type]


def test_what_it_prints_is_not_on_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    def encode(sentences: object, *, lang: object) -> np.ndarray:
        print("loading")
        os.system("echo working")
        return np.zeros((1, 2), np.float32)

    encode_if_it_fits(SimpleNamespace(dim=2, encode=encode), ["a"], None)  # type: ignore[arg-type]
    assert capfd.readouterr() == ("", "loading\nworking\n")
