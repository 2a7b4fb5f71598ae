"""Which errors say that memory ran out: those that the libraries raise; and what is done about it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.core.errors import LanguageError, VectorError
from harness.core.threads import n_threads
from harness.encoders.cache import VectorCache
from harness.encoders.containment import InParts, is_out_of_memory


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
        InParts(ends(SystemExit(5))).encode(["a"])
    with pytest.raises(RuntimeError, match="Panic: index out of bounds"):
        InParts(ends(Panic("index out of bounds"))).encode(["a", "b"])
    with pytest.raises(KeyboardInterrupt):
        InParts(ends(KeyboardInterrupt())).encode(["a"])
    with pytest.raises(ValueError, match="bad"):
        InParts(ends(ValueError("bad"))).encode(["a", "b"])


def test_what_did_not_fit_is_let_go_before_the_next_attempt() -> None:
    alive: list[int] = []
    found: list[int] = []

    class Large:
        def __init__(self) -> None:
            alive.append(1)

        def __del__(self) -> None:
            alive.pop()

    def encode(sentences: object, *, lang: object) -> None:
        found.append(len(alive))
        held = [Large()]
        held.append(held)  # type: ignore[arg-type]
        raise MemoryError(sys.getsizeof(held))

    with pytest.raises(MemoryError):
        InParts(SimpleNamespace(encode=encode)).encode(["a", "b", "c", "d"])  # type: ignore[arg-type]
    assert found == [0, 0, 0]


def test_parts_are_halved_until_they_fit_and_stand_in_order() -> None:
    asked: list[list[str]] = []

    def encode(sentences: list[str], *, lang: object) -> np.ndarray:
        asked.append(sentences)
        if len(sentences) > 2:
            raise MemoryError
        return np.array([[float(text)] for text in sentences])

    small: Any = SimpleNamespace(name="small", dim=1, encode=encode)
    assert InParts(small).encode(list("1234567")).tolist() == [[number] for number in range(1, 8)]
    assert list(map("".join, asked)) == ["1234567", "1234", "12", "34", "56", "7"]
    for rows, known_as in ((None, 3), ([30, 31, 32, 33], 33)):
        with pytest.raises(VectorError, match=f"NaN in row {known_as} for the sentence 'nan'"):
            InParts(small).encode(["1", "2", "3", "nan"], rows=rows)


def test_no_sentences_are_a_question_like_any() -> None:
    assert InParts(returns(np.zeros((0, 2)))).encode([]).shape == (0, 2)

    def encode(sentences: object, *, lang: object) -> None:
        raise MemoryError("no room")

    with pytest.raises(MemoryError, match="no room"):
        InParts(SimpleNamespace(encode=encode)).encode([])  # type: ignore[arg-type]


def returns(vectors: object) -> Any:
    return SimpleNamespace(name="own", dim=2, encode=lambda sentences, *, lang: vectors)


def test_nothing_returned_is_an_error_at_once_and_no_want_of_memory() -> None:
    with pytest.raises(VectorError, match="'own' returned NoneType for 2 sentences"):
        InParts(returns(None)).encode(["a", "b"])


def test_the_text_of_a_sentence_says_nothing_of_memory() -> None:
    nan = np.full((2, 2), np.nan)
    with pytest.raises(VectorError, match="NaN in row 7 for the sentence 'CUDA out of memory'"):
        InParts(returns(nan)).encode(["CUDA out of memory", "b"], rows=[7, 8])

    def refuses(sentences: object, *, lang: object) -> None:
        raise LanguageError("no vectors for 'out of memory'")

    with pytest.raises(LanguageError):
        InParts(SimpleNamespace(encode=refuses)).encode(["a", "b"])  # type: ignore[arg-type]


def test_what_it_prints_is_not_on_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    def encode(sentences: object, *, lang: object) -> np.ndarray:
        print("loading")
        os.system("echo working")
        return np.zeros((1, 2), np.float32)

    InParts(SimpleNamespace(dim=2, encode=encode)).encode(["a"])  # type: ignore[arg-type]
    assert capfd.readouterr() == ("", "loading\nworking\n")


def test_vectors_that_were_made_in_smaller_parts_say_so(tmp_path: Path) -> None:
    class Small:
        """Has memory for 300 sentences at a time."""

        name, fingerprint, dim, uses_lang = "small", "small-1", 1, False

        def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
            if len(sentences) > 300:
                raise MemoryError
            return np.array([[len(text)] for text in sentences], np.float32)

    sentences = ["x" * n for n in range(1, 1025)]
    with VectorCache(tmp_path).of(Small()) as vectors:
        encoded = vectors.encode(sentences)
    assert encoded.vectors[:, 0].tolist() == list(range(1, 1025))
    assert encoded.effort.conditions == {"threads": n_threads(), "sentences_at_a_time": 256}
    with VectorCache(tmp_path / "other").of(Small()) as vectors:
        assert vectors.encode(sentences[:300]).effort.conditions == {"threads": n_threads()}
