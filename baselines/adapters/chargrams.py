"""A lexical floor: hashed character n-grams. No weights, no training: what counting shared letters alone achieves.

Definition. A text is NFKC-normalised, lower-cased and split at white space. Every word, with a blank before and after
it, gives its character n-grams (as scikit-learn's `analyzer="char_wb"`, but a padded word shorter than n gives none).
A gram's hash is a polynomial in its code points modulo 2**64, mixed by SplitMix64 (Steele et al. 2014); the upper 32
bits choose one of `dim` components, the lowest bit the sign (Weinberger et al. 2009). A component's signed count c
becomes sign(c) * (1 + log |c|); the vector is divided by its L2 norm. A text without grams has the zero vector.

n = 3..5 by default: 3 is the smallest padded word (a one-letter word, or one Chinese character that stands alone) and
about the length of an affix, 5 about that of a stem; longer grams are rarely shared by two sentences.
Equal on every machine and Python version (up to float32 rounding and the characters that a newer Unicode defines).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import InputError
from harness.encoders.info import EncoderInfo, never

_BASE = np.uint64(0x9E3779B97F4A7C15)
_BLANK = ord(" ")
# Per block: about 8 MB of counts, and about 10 MB for the hashes of as many characters.
_BLOCK_COUNTS = 1 << 20
_BLOCK_CHARS = 1 << 16
_MAX_N = 16


class CharGrams:
    """Sentences to hashed character n-gram vectors of length 1 (or 0, where there is no gram); `lang` is ignored."""

    uses_lang = False
    n_parameters = size_bytes = 0

    def __init__(self, *, name: str = "chargrams", dim: int = 1024, ngrams: str = "3-5"):
        if not 1 <= dim < 1 << 31:
            raise InputError(f"chargrams: dim must be at least 1 and below 2**31, not {dim}")
        match = re.fullmatch(r"([0-9]{1,2})(?:-([0-9]{1,2}))?", ngrams)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= low <= high <= _MAX_N:
            raise InputError(f"chargrams: ngrams is N or LOW-HIGH with 1 <= LOW <= HIGH <= {_MAX_N}, not {ngrams!r}")
        self.name = name
        self.dim = dim
        self.fingerprint = f"chargrams-1;dim={dim};ngrams={low}-{high}"
        self._low, self._high = low, high

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        """A float32 array of shape (len(sentences), dim); a row depends on its sentence alone, to the last bit."""
        vectors = np.empty((len(sentences), self.dim), dtype=np.float32)
        step = max(1, min(_BLOCK_COUNTS // self.dim, 512))
        for start in range(0, len(sentences), step):
            counts = self._counts(sentences[start : start + step])
            vectors[start : start + step] = _weighted(counts)
        return vectors

    def _counts(self, sentences: Sequence[str]) -> np.ndarray:
        """Signed counts, float64 of shape (len(sentences), dim)."""
        texts = [_words(sentence) for sentence in sentences]
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        rows = np.repeat(np.arange(len(texts)), lengths)
        # One blank serves as the end of a word and as the start of the next, also across sentences.
        codes = np.frombuffer(("".join(texts) + " ").encode("utf-32-le", "surrogatepass"), dtype="<u4")
        counts = np.zeros(len(texts) * self.dim)
        for start in range(0, len(rows), _BLOCK_CHARS):
            block = rows[start : start + _BLOCK_CHARS]
            cells, signs = self._grams(codes[start : start + _BLOCK_CHARS + self._high - 1], block)
            first = int(block[0]) * self.dim
            added = np.bincount(cells - first, weights=signs)
            counts[first : first + len(added)] += added
        return counts.reshape(len(texts), self.dim)

    def _grams(self, codes: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cell (row * dim + component) and sign of every gram that starts at one of the first len(rows) `codes`."""
        is_blank = codes == _BLANK
        values = codes.astype(np.uint64)
        hashes = np.zeros(len(codes), dtype=np.uint64)
        inside = np.zeros(len(codes), dtype=bool)  # a blank inside: two words, no gram
        all_hashes, all_rows = [], []
        for n in range(1, self._high + 1):
            if n > len(codes):
                break
            hashes = hashes[: len(codes) - n + 1] * _BASE + values[n - 1 :]
            if n > 2:
                inside = inside[: len(hashes)] | is_blank[n - 2 : n - 2 + len(hashes)]
            if n >= self._low:
                no_gram = inside if n > 2 else is_blank[: len(hashes)] & is_blank[n - 1 :]
                at = np.flatnonzero(~no_gram[: len(rows)])
                all_hashes.append(hashes[at])
                all_rows.append(rows[at])
        mixed = _mix(np.concatenate(all_hashes)) if all_hashes else np.zeros(0, np.uint64)
        components = ((mixed >> np.uint64(32)) * np.uint64(self.dim)) >> np.uint64(32)
        row = np.concatenate(all_rows) if all_rows else np.zeros(0, np.int64)
        cells = row * self.dim + components.astype(np.int64)
        return cells, 1.0 - 2.0 * (mixed & np.uint64(1))


def _words(sentence: str) -> str:
    """Normalised words, each after one blank."""
    return " " + " ".join(unicodedata.normalize("NFKC", sentence).lower().split())


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64, so that every bit of the result depends on every bit of `x`."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _weighted(counts: np.ndarray) -> np.ndarray:
    """Sublinear weights of signed counts, each row scaled to length 1; float32 of the same shape, or zero rows."""
    cells = np.flatnonzero(counts)
    used = counts.ravel()[cells]
    weights = np.copysign(1 + np.log(np.abs(used)), used)
    rows = cells // counts.shape[1]
    norms = np.sqrt(np.bincount(rows, weights=weights * weights, minlength=len(counts)))
    result = np.zeros(counts.size, dtype=np.float32)
    result[cells] = weights / norms[rows]
    return result.reshape(counts.shape)


chargrams = EncoderInfo(
    factory=CharGrams,
    description="lexical floor: hashed character n-grams, any language, no weights",
    backend="numpy",
    dim=1024,
    licence="Apache-2.0",
    runs_code=never,
)
