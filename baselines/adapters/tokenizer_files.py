"""The tokenizer of a saved transformer, set up as sentence-transformers does it, without transformers and torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from baselines.adapters.model_files import read_model_file
from harness.core.errors import InputError
from harness.core.files import refuse_special

_MIN_LENGTH = 3  # the two special tokens and one of the sentence
_LONGEST = 10**6  # tokenizers without a limit say 10^30
# RoBERTa and its kin number positions from the padding token's number + 1.
_ROBERTA_KIN = {
    *("camembert", "data2vec-text", "ibert", "longformer", "mpnet", "roberta", "roberta-prelayernorm", "xlm-roberta"),
    *("xlm-roberta-xl", "xmod"),
}

_Count = Annotated[int, msgspec.Meta(ge=1)]

SENTENCE_CONFIGS = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
"""The names that sentence-transformers has given to its settings of a transformer; the first that is there counts."""


@dataclass(frozen=True)
class _SentenceConfig:
    """What is read of the settings of a transformer."""

    max_seq_length: _Count | None = None
    do_lower_case: bool | None = None
    transformer_task: str | None = None


@dataclass(frozen=True)
class _TokenizerConfig:
    """What is read of `tokenizer_config.json`."""

    model_max_length: int | float | None = None
    truncation_side: Literal["left", "right"] | None = None


@dataclass(frozen=True)
class TransformerConfig:
    """What is read of the transformer's `config.json`."""

    model_type: str | None = None
    max_position_embeddings: int | None = None
    pad_token_id: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] | None = None

    @property
    def positions(self) -> int | None:
        """How many tokens the model has positions for; None where it says nothing or takes any number."""
        limit = self.max_position_embeddings
        if limit is None or limit <= 0:
            return None
        return limit - (self.pad_token_id or 0) - 1 if self.model_type in _ROBERTA_KIN else limit


def read_config(base: Path) -> TransformerConfig:
    """What the configuration in a transformer's folder says. Raises InputError if it is none."""
    config: TransformerConfig = _read(base / "config.json", TransformerConfig, "configuration")
    return config


def open_tokenizer(name: str, base: Path, config: TransformerConfig, max_length: int | None) -> tuple[Any, list[Path]]:
    """A `tokenizers.Tokenizer`, which cuts sentences and does not pad them, and the files that say how.

    Args:
        name: the encoder's, for errors.
        base: the transformer's folder.
        config: its configuration.
        max_length: tokens after which a sentence is cut; None: as the folder says.

    Raises:
        InputError: a file is missing or damaged, the model is for something else, or `max_length` does not fit it.
    """
    from tokenizers import Tokenizer, normalizers

    sentence_config = next((name for name in SENTENCE_CONFIGS if (base / name).is_file()), SENTENCE_CONFIGS[0])
    files = [base / file for file in ("tokenizer.json", "tokenizer_config.json", sentence_config)]
    settings = _read(files[1], _TokenizerConfig, "configuration of a tokenizer")
    sentences = _read(files[2], _SentenceConfig, "configuration of a transformer")
    if sentences.transformer_task not in (None, "feature-extraction"):
        raise InputError(f"{files[2]}: a model for {sentences.transformer_task}; only feature-extraction is done here")
    refuse_special(files[0])
    if not files[0].is_file():
        raise InputError(f"{files[0]}: no such file, and no other form of a tokenizer is read here")
    try:
        tokenizer = Tokenizer.from_file(str(files[0]))
    except Exception as error:  # the library raises bare exceptions
        raise InputError(f"{files[0]}: no tokenizer ({str(error).splitlines()[0]}); copy the file again") from error
    if sentences.do_lower_case:
        others = [tokenizer.normalizer] if tokenizer.normalizer else []
        tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *others])
    tokenizer.no_padding()
    length = _length(name, sentences.max_seq_length or settings.model_max_length, config.positions, max_length)
    if length is None:
        tokenizer.no_truncation()
    else:
        tokenizer.enable_truncation(length, direction=settings.truncation_side or "right")
    return tokenizer, files


def _length(name: str, stored: float | None, positions: int | None, given: int | None) -> int | None:
    """After how many tokens sentences are cut, as sentence-transformers does it; None: not at all."""
    if given is not None:
        if given < _MIN_LENGTH or (positions is not None and given > positions):
            raise InputError(f"{name}: max_length must be {_MIN_LENGTH} to {positions or 'any number'}, not {given}")
        return given
    limits = [limit for limit in (stored, positions) if limit is not None and limit <= _LONGEST]
    return max(int(min(limits)), _MIN_LENGTH) if limits else None


def _read(path: Path, kind: type[Any], what: str) -> Any:
    return read_model_file(path, kind, what) if path.is_file() else kind()
