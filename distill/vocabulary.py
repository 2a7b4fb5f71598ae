"""A student's vocabulary and tokens: its own tokenizer, or the most frequent pieces of an XLM-R style tokenizer."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from baselines.adapters.huggingface import legal_text
from harness.core.errors import InputError
from harness.core.files import write_atomically

UNKNOWN = "<unk>"
_COUNT_AT_ONCE = 8192
_TRAINERS_STEP, _TOLERANCE, _DECIMALS = 1e-4, 1e-6, 6
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # stands for the space before a word, as SentencePiece has it


def train_tokenizer(texts: Iterable[str], kind: Literal["unigram", "bpe"] = "unigram", size: int = 30_000) -> Any:
    """A `tokenizers.Tokenizer` of at most `size` pieces, trained on `texts`; piece 0 is the unknown token.

    Texts are NFKC-normalised, lower-cased and split at spaces and punctuation first. Training keeps all distinct words
    in memory: millions of texts are better sampled.

    Raises:
        InputError: another kind, no text, or a size that does not hold the characters of the texts.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    if kind == "unigram":
        tokenizer = Tokenizer(models.Unigram())
        trainer: Any = trainers.UnigramTrainer(
            vocab_size=size, special_tokens=[UNKNOWN], unk_token=UNKNOWN, show_progress=False
        )
    elif kind == "bpe":
        tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN))
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=[UNKNOWN],
            min_frequency=2,
            limit_alphabet=max(1, size // 2),
            show_progress=False,
        )
    else:
        raise InputError(f"a tokenizer is of kind unigram or bpe, not {kind!r}")
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()])
    tokenizer.decoder = decoders.Metaspace()
    try:
        tokenizer.train_from_iterator(map(legal_text, texts), trainer)
    except Exception as error:  # the library has no error type of its own; its message names the sizes
        raise InputError(f"cannot train a tokenizer of {size} pieces: {error}") from None
    if tokenizer.get_vocab_size() < 2:
        raise InputError("cannot train a tokenizer: the texts are empty")
    return Tokenizer.from_str(_in_order(tokenizer.to_str())) if kind == "unigram" else tokenizer


def _in_order(tokenizer_json: str) -> str:
    """Sort the pieces of a trained Unigram tokenizer by score, then by characters, so that it is always the same.

    The library's trainer goes through hash tables. It gives the characters that it did not score itself the lowest
    score plus 0, 1, 2, ... ten-thousandths, as they come; here all of them have the lowest.
    """
    content = json.loads(tokenizer_json)
    first, *pieces = content["model"]["vocab"]  # the unknown token stays first
    lowest = min(score for _, score in pieces)

    def score_of(piece: str, score: float) -> float:
        steps = (score - lowest) / _TRAINERS_STEP
        is_unscored = len(piece) == 1 and steps < len(pieces) and abs(steps - round(steps)) < _TOLERANCE
        return round(lowest if is_unscored else score, _DECIMALS)

    pieces = [(piece, score_of(piece, score)) for piece, score in pieces]
    content["model"]["vocab"] = [first, *sorted(pieces, key=lambda pair: (-pair[1], pair[0]))]
    return json.dumps(content)


def count_tokens(tokenizer: Any, texts: Iterable[str]) -> NDArray[np.int64]:
    """How often each token occurs in `texts`, by its number; (tokens,). Special tokens are not added."""
    counts = np.zeros(_n_tokens(tokenizer), dtype=np.int64)
    encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
    block: list[str] = []

    def add() -> None:
        ids = [number for encoding in encode(block, add_special_tokens=False) for number in encoding.ids]
        counts[:] += np.bincount(np.array(ids, dtype=np.int64), minlength=len(counts))
        block.clear()

    for text in texts:
        block.append(legal_text(text))
        if len(block) == _COUNT_AT_ONCE:
            add()
    add()
    return counts


def balanced(counts: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float64]:
    """One score a token, for `prune_tokenizer`: the sum over languages of the square root of its count.

    The root keeps a language with little text from losing its vocabulary to one with much.
    """
    return np.asarray(sum(np.sqrt(of_language) for of_language in counts.values()), dtype=np.float64)


def frequencies(counts: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float64]:
    """Each token's relative frequency, the mean over the languages; they add up to 1."""
    return np.asarray(
        np.mean([of_language / max(1, of_language.sum()) for of_language in counts.values()], axis=0), dtype=np.float64
    )


def prune_tokenizer(
    tokenizer_json: str, counts: NDArray[np.number[Any]], size: int, *, decimals: int | None = None
) -> tuple[str, NDArray[np.int64]]:
    """A Unigram vocabulary (XLM-R's) reduced to the `size` pieces with the highest `counts`.

    Special tokens, the unknown token and each character of a piece that occurs are kept whatever their count, so that
    no text that was counted gets unknown tokens. A text all of whose pieces are kept has the same pieces as before: the
    best segmentation is still there, no new one is, and the piece with the lowest score, from which the library derives
    that of unknown characters, is kept too.

    Args:
        tokenizer_json: the content of `tokenizer.json`.
        counts: how often each token occurs, or another score by its number; zero says never. See `balanced`.
        size: how many tokens to keep at most, special ones included; none that never occurs.
        decimals: of the pieces' scores, for a smaller file; two readings of a text that were nearly equal may then
            change places. Only for a student that has yet to be trained. None: as they are.

    Returns:
        the new `tokenizer.json`, and for each of its tokens the number that it had; int64, ascending.

    Raises:
        InputError: another kind of tokenizer, counts of another one, or a size that is too small.
    """
    content = json.loads(tokenizer_json)
    model = content["model"]
    if model.get("type", "Unigram") != "Unigram" or not isinstance(model.get("vocab"), list):
        raise InputError(f"only Unigram vocabularies (XLM-R's, say) can be pruned, not {model.get('type')}")
    vocabulary = model["vocab"]
    numbers = {piece: number for number, (piece, _) in enumerate(vocabulary)}
    outside = [token["id"] for token in content["added_tokens"] if token["content"] not in numbers]
    if len(counts) < max([len(vocabulary) - 1, *outside]) + 1:
        raise InputError(f"{len(counts)} counts for a tokenizer of {len(vocabulary) + len(outside)} tokens")
    kept = {numbers[token["content"]] for token in content["added_tokens"] if token["content"] in numbers}
    if model.get("unk_id") is not None:
        kept.add(model["unk_id"])
    kept.add(min(range(len(vocabulary)), key=lambda number: vocabulary[number][1]))
    characters = {_SPACE}.union(*(piece for number, (piece, _) in enumerate(vocabulary) if counts[number] > 0))
    for number, (piece, _) in enumerate(vocabulary):
        is_byte = model.get("byte_fallback") and piece.startswith("<0x")
        if is_byte or piece in characters:
            kept.add(number)
    room = size - len(outside) - len(kept)
    if room < 0:
        raise InputError(
            f"{size} tokens are too few: {len(kept) + len(outside)} are special or single characters that occur"
        )
    by_count = np.argsort(-np.asarray(counts[: len(vocabulary)], dtype=np.float64), kind="stable").tolist()
    kept.update([number for number in by_count if number not in kept and counts[number] > 0][:room])

    ids = sorted(kept) + outside
    new = {old: number for number, old in enumerate(ids)}
    model["vocab"] = [vocabulary[number] for number in ids[: len(kept)]]
    if decimals is not None:
        model["vocab"] = [[piece, round(score, decimals)] for piece, score in model["vocab"]]
    if model.get("unk_id") is not None:
        model["unk_id"] = new[model["unk_id"]]
    for token in content["added_tokens"]:
        token["id"] = new[token["id"]]
    if content.get("post_processor"):
        _renumber(content["post_processor"], new)
    if content.get("padding"):
        content["padding"]["pad_id"] = new[content["padding"]["pad_id"]]
    return json.dumps(content, ensure_ascii=False), np.array(ids, dtype=np.int64)


def _renumber(processor: Any, new: Mapping[int, int]) -> None:
    """Give the special tokens of a post-processor their new numbers."""
    for token in (processor.get("special_tokens") or {}).values():  # TemplateProcessing
        token["ids"] = [new[number] for number in token["ids"]]
    for role in ("cls", "sep"):  # BertProcessing, RobertaProcessing
        if role in processor:
            processor[role][1] = new[processor[role][1]]
    for part in processor.get("processors", ()):  # Sequence
        _renumber(part, new)


def piece_texts(tokenizer: Any) -> list[str]:
    """What each piece stands for, by its number: without the mark of a word's beginning; special tokens are empty."""
    special = {number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    pieces = [tokenizer.id_to_token(number) or "" for number in range(_n_tokens(tokenizer))]
    return [
        "" if number in special or piece == UNKNOWN else piece.replace(_SPACE, " ").strip()
        for number, piece in enumerate(pieces)
    ]


def _n_tokens(tokenizer: Any) -> int:
    """The number of rows of a table for the tokenizer: one more than the highest number of a token."""
    return int(max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)) + 1


class Tokens:
    """The token numbers of many texts in a file, memory-mapped: a static student reads a text again and again.

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
        """The tokens of `texts` by a `tokenizers.Tokenizer`, in `path` and `PATH.starts`; they are read if these exist.

        Raises:
            OSError: they cannot be written.
        """
        starts_path = path.with_suffix(".starts")
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(f".{os.getpid()}.part")  # other processes may write the same
            counts = [np.zeros(1, dtype=np.int64)]
            with part.open("wb") as file:
                for first in range(0, len(texts), _COUNT_AT_ONCE):
                    ids, lengths = tokenise(tokenizer, texts[first : first + _COUNT_AT_ONCE])
                    file.write(ids.astype(np.int32).tobytes())
                    counts.append(lengths)
                    if progress:
                        progress(min(first + _COUNT_AT_ONCE, len(texts)), len(texts))
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
