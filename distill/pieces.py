"""The vocabulary of a new static student, and the vectors that it begins with, by encoders that know more words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distill.students import Floats, RidgeMap, ridge_map
from distill.teacher import SideBySide
from distill.vocabulary import piece_texts, prune_tokenizer
from harness.core.errors import InputError
from harness.encoders.containment import InParts
from harness.encoders.encoder import Encoder, normalise

_RARE = 1e-3  # a token as frequent as this has half the weight of a rare one
_AGREED = 1 / 3  # words of languages that both mUSE and e5 know mostly have a larger cosine, others a smaller one
_AT_ONCE = 8192  # pieces


class PieceVectors:
    """The vectors of pieces of words in the student's space, as one or more encoders have them.

    The encoders' vectors are put side by side and mapped to the student's space by ridge regression.

    Args:
        encoders: multilingual ones, however far their spaces are from the teacher's.
        texts: a sample of sentences in all languages.
        vectors: what the student should have for them, (len(texts), dim): the teacher's vectors of their sources, on
            their principal axes where the student has fewer dimensions.
    """

    def __init__(self, encoders: Sequence[Encoder], texts: Sequence[str], vectors: Floats):
        self._together = InParts(SideBySide(encoders))
        known = self._together.encode(list(texts))
        ends = np.cumsum([encoder.dim for encoder in encoders]).tolist()
        self._parts = [slice(end - encoder.dim, end) for end, encoder in zip(ends, encoders, strict=True)]
        self._map = ridge_map(known, vectors)
        self._part_maps = [ridge_map(known[:, part], vectors) for part in self._parts]

    def of(self, pieces: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of all encoders together, of length 1, (len(pieces), dim)."""
        return _directions(self._together.encode(list(pieces)), self._map)

    def agreement(self, pieces: Sequence[str]) -> NDArray[np.float64]:
        """The smallest cosine of two encoders' own vectors of a piece in the student's space, (len(pieces),).

        Raises:
            InputError: fewer than two encoders.
        """
        if len(self._parts) < 2:
            raise InputError("whether encoders agree takes two of them; repeat --init")
        both = self._together.encode(list(pieces))
        own = [_directions(both[:, part], of) for of, part in zip(self._part_maps, self._parts, strict=True)]
        cosines = [np.einsum("ij,ij->i", a, b, dtype=np.float64) for i, a in enumerate(own) for b in own[:i]]
        return np.min(cosines, axis=0)  # type: ignore[no-any-return]


def _directions(rows: NDArray[np.float32], to_student: RidgeMap) -> NDArray[np.float32]:
    """Mapped rows of length 1; without the offset, which is what all sentences have in common."""
    return normalise((rows - to_student.centre) @ to_student.weights)


def with_unseen(
    tokenizer: Any, score: NDArray[np.number[Any]], size: int, unseen: int, vectors: PieceVectors, *, decimals: int
) -> str:
    """The `tokenizer.json` of the `size` best pieces and of up to `unseen` more that the pairs seldom or never have.

    Without them, such a word would be cut into pieces that mean something else. A piece is added where the encoders
    agree on its meaning: a word of a language that only one of them knows has vectors that differ. Of those that agree,
    the most frequent ones are added, by the tokenizer's own scores.

    Args:
        tokenizer: with a Unigram vocabulary.
        score: of each token in the pairs, see `distill.vocabulary.balanced`.
        size: how many tokens to keep for their score.
        unseen: how many more.
        vectors: by two encoders or more.
        decimals: see `prune_tokenizer`.

    Raises:
        InputError: see `prune_tokenizer` and `PieceVectors.agreement`.
    """
    whole, texts = tokenizer.to_str(), piece_texts(tokenizer)
    _, kept = prune_tokenizer(whole, score, size)
    letters = set().union(*(texts[number] for number in np.flatnonzero(score)))
    taken = set(kept.tolist())
    # A Unigram vocabulary is sorted by score.
    rest = [number for number, text in enumerate(texts) if text and number not in taken and letters.issuperset(text)]
    more: list[int] = []
    for start in range(0, len(rest), _AT_ONCE):
        if len(more) >= unseen:
            break
        block = rest[start : start + _AT_ONCE]
        agreed = vectors.agreement([texts[number] for number in block]) >= _AGREED
        more += np.array(block)[agreed].tolist()
    rank = np.zeros(len(score))
    rank[kept] = 2 * (score[kept] > 0)  # special tokens are kept anyway
    rank[more[:unseen]] = 1
    return prune_tokenizer(whole, rank, len(kept) + unseen, decimals=decimals)[0]


def initial_table(
    tokenizer: Any, vectors: PieceVectors, *, token_frequencies: NDArray[np.float64] | None = None
) -> NDArray[np.float32]:
    """Vectors for a static student to begin with, (tokens, dim).

    A row is the vector of the piece, of length 1, times the weight a / (a + p) of its relative frequency p (a = 0.001;
    the smooth inverse frequency of Arora et al. 2017, section 3). Special tokens have zeros.

    Args:
        tokenizer: a `tokenizers.Tokenizer`.
        vectors: of pieces.
        token_frequencies: p, (tokens,), see `distill.vocabulary.frequencies`; None: all tokens have weight 1.
    """
    pieces = piece_texts(tokenizer)
    distinct = sorted({piece for piece in pieces if piece})
    row = {piece: number for number, piece in enumerate(distinct)}
    of_distinct = vectors.of(distinct)
    table = np.zeros((len(pieces), of_distinct.shape[1]), dtype=np.float32)
    known = [number for number, piece in enumerate(pieces) if piece]
    table[known] = of_distinct[[row[pieces[number]] for number in known]]
    if token_frequencies is not None:
        if token_frequencies.shape != (len(pieces),):
            raise InputError(f"{len(token_frequencies)} frequencies for a tokenizer of {len(pieces)} tokens")
        table *= (_RARE / (_RARE + token_frequencies))[:, None].astype(np.float32)
    return table
