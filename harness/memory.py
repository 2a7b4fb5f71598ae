"""Encoding when memory runs out, of the processor or of an accelerator."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

import numpy as np

from harness.containment import contained
from harness.encoder import Encoder, check_vectors
from harness.errors import HarnessError
from harness.escaping import terminal_line

_TYPES = ("OutOfMemoryError", "ResourceExhaustedError")  # PyTorch's and TensorFlow's, which may not be installed
_MESSAGES = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "failed to allocate memory",
    "resource_exhausted",  # JAX
    "alloc_failed",  # cuBLAS and cuDNN
    "bad_alloc",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error, of whatever library, says that memory ran out."""
    if isinstance(error, MemoryError) or type(error).__name__ in _TYPES:
        return True
    return any(text in str(error).lower() for text in _MESSAGES)


class InParts:
    """The way to an encoder's vectors: all at once, or by halves, quarters and so on where memory runs out.

    A warning tells of each size that is smaller than before. What the encoder prints is contained.
    """

    def __init__(self, encoder: Encoder):
        self._encoder = encoder
        self._warned = sys.maxsize  # sentences at a time, of which a warning has told

    def encode(
        self, sentences: Sequence[str], lang: str | None = None, rows: Sequence[int] | np.ndarray | None = None
    ) -> np.ndarray:
        """The vectors of `sentences`, checked, float32 (len(sentences), dim).

        rows: see `check_vectors`.

        Raises:
            VectorError: the encoder returned what is no vectors.
            MemoryError: it ran out at a single sentence.
            RuntimeError: in place of what would end the process: `sys.exit`, a panic of Rust code.
        """
        rows = range(len(sentences)) if rows is None else rows
        parts: list[np.ndarray] = []
        done, size = 0, len(sentences)
        while done < len(sentences) or not parts:
            some = slice(done, done + size)
            vectors = _encode_if_it_fits(self._encoder, sentences[some], lang, rows[some])
            if vectors is None:
                size = -(-min(size, len(sentences) - done) // 2)
                continue
            parts.append(vectors)
            done += size
            if size < min(len(sentences), self._warned):
                self._warned = size
                said = f"warning: memory ran out; {self._encoder.name} encodes {size:,} sentences at a time"
                print(terminal_line(said), file=sys.stderr)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _encode_if_it_fits(
    encoder: Encoder, sentences: Sequence[str], lang: str | None, rows: Sequence[int] | np.ndarray
) -> np.ndarray | None:
    """The vectors of `sentences`; None if memory ran out, and there is more than one to encode."""
    try:
        with contained():
            vectors = encoder.encode(sentences, lang=lang)
    except KeyboardInterrupt:
        raise
    except Exception as error:
        if isinstance(error, HarnessError) or not is_out_of_memory(error):
            raise
        if len(sentences) <= 1:
            why = str(error).partition("\n")[0]
            raise MemoryError(
                f"memory does not suffice for a sentence of {sum(map(len, sentences)):,} characters ({why})"
            ) from error
    except BaseException as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from error
    else:
        return check_vectors(vectors, sentences, encoder, rows)
    _free()  # not before: the error's traceback holds what did not fit
    return None


def _free() -> None:
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()  # what is reserved, in pieces that are too small
