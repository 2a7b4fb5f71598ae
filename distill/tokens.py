"""The token numbers of many texts in a file: a static student reads a text again and again, and tokenises it once."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.files import write_atomically

_BLOCK = 8192


class Tokens:
    """Token numbers by text, memory-mapped.

    Args:
        ids: int32, of all texts one after the other.
        starts: int64, where each text begins, and at last the end.
    """

    def __init__(self, ids: NDArray[np.int32], starts: NDArray[np.int64]):
        self._ids, self._starts = ids, starts

    @classmethod
    def build(
        cls, tokenizer: Any, texts: Sequence[str], path: Path, progress: Callable[[int, int], None] | None = None
    ) -> Tokens:
        """The tokens of `texts` by a `tokenizers.Tokenizer`, in `path` and `PATH.starts`; taken from there if they are.

        Raises:
            OSError: they cannot be written.
        """
        starts_path = path.with_suffix(".starts")
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(f".{os.getpid()}.part")  # other processes may write the same
            counts = [np.zeros(1, dtype=np.int64)]
            with part.open("wb") as file:
                for first in range(0, len(texts), _BLOCK):
                    ids, lengths = tokenise(tokenizer, texts[first : first + _BLOCK])
                    file.write(ids.astype(np.int32).tobytes())
                    counts.append(lengths)
                    if progress:
                        progress(min(first + _BLOCK, len(texts)), len(texts))
            write_atomically(starts_path, np.cumsum(np.concatenate(counts)).tobytes())
            part.replace(path)  # the last thing: with it, both are whole
        starts = np.fromfile(starts_path, dtype=np.int64)
        if not starts[-1]:  # an empty file cannot be mapped
            return cls(np.zeros(0, dtype=np.int32), starts)
        return cls(np.memmap(path, dtype=np.int32, mode="r"), starts)

    def bags(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The token numbers of some texts one after the other, and where each of them begins; int64."""
        starts = self._starts[rows]
        lengths = self._starts[rows + 1] - starts
        ends = np.cumsum(lengths)
        begins = ends - lengths
        places = np.repeat(starts - begins, lengths) + np.arange(int(ends[-1]) if len(ends) else 0)
        return self._ids[places].astype(np.int64), begins


def tokenise(tokenizer: Any, texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The token numbers of texts one after the other, and how many each has; int64.

    As sentence-transformers' static module does it, without the positions in the text that it asks for.
    """
    tokens = [encoding.ids for encoding in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]
    lengths = np.fromiter(map(len, tokens), dtype=np.int64, count=len(tokens))
    return np.fromiter(itertools.chain.from_iterable(tokens), dtype=np.int64, count=int(lengths.sum())), lengths
