"""Static encoders: `static:DIR`, the mean of one vector a token, in NumPy; and `student`, the one that ships.

A folder is what sentence-transformers saves for its `StaticEmbedding` module: `tokenizer.json`, and a safetensors file
with the table `embedding.weight`, or with model2vec's compact form of it: `embeddings` (int8 or float16, say), for
each token a scale (`weights`) and, where tokens share rows, a row number (`mapping`). Neither torch nor
sentence-transformers is needed, and the vectors are theirs. One more form is this project's own, half as large:
`embeddings.int4`, two numbers a byte, and `embeddings.scales`, for each token one factor a block of its numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baselines.adapters.citations import cited
from baselines.adapters.huggingface import folder_digest, legal_text, model_folder
from baselines.adapters.model_files import MODULES_FILE, listed_modules, read_model_file, read_settings
from harness.core.errors import InputError
from harness.core.files import refuse_special
from harness.encoders.info import EncoderInfo, never

INT4, BLOCKS = "embeddings.int4", "embeddings.scales"
"""Tensors of a table in int4: uint8 (tokens, dim / 2), and float (tokens, blocks).

A byte holds a number of an even column in its lower half and the next column's in its upper half. A half stands for
itself less `INT4_ZERO`, times its block's scale; the blocks of a row are of one length.
"""
INT4_ZERO = 8

STUDENT = Path(__file__).parent / "models" / "student"
_FILES = ("model.safetensors", "tokenizer.json")
_BLOCK = 8192  # sentences at a time: their token numbers take some 10 MB


@dataclass(frozen=True)
class _Config:
    """What is read of model2vec's `config.json`."""

    normalize: bool | None = None


class StaticEncoder:
    """Encodes a sentence as the mean of its tokens' vectors; zero if it has no tokens. `lang` is ignored.

    Args:
        tokenizer: a `tokenizers.Tokenizer`.
        table: float32 (tokens, dim).
        identity: what the fingerprint begins with.
        name: under which results are stored.
        is_normalised: whether vectors are scaled to length 1 (before `dim` cuts them).
        dim: how many of the first components to keep; None: all.
        prompt: what every sentence begins with.
        size_bytes: of the files that it was loaded from.
    """

    uses_lang = False

    def __init__(
        self,
        tokenizer: Any,
        table: NDArray[np.float32],
        identity: str,
        *,
        name: str,
        is_normalised: bool = False,
        dim: int | None = None,
        prompt: str = "",
        size_bytes: int | None = None,
    ):
        self.name = name
        self.dim = table.shape[1] if dim is None else dim
        self.fingerprint = f"{identity}|dim:{self.dim}|normalised:{is_normalised}"
        self.n_parameters, self.size_bytes = table.size, size_bytes
        self._tokenizer, self._table = tokenizer, table
        self._is_normalised, self._prompt = is_normalised, prompt

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        """A float32 array of shape (len(sentences), dim); a row depends on its sentence alone."""
        vectors = np.empty((len(sentences), self.dim), dtype=np.float32)
        for start in range(0, len(sentences), _BLOCK):
            texts = [self._prompt + legal_text(text) for text in sentences[start : start + _BLOCK]]
            vectors[start : start + len(texts)] = self._means(texts)[:, : self.dim]
        return vectors

    def _means(self, texts: list[str]) -> NDArray[np.float32]:
        from scipy.sparse import csr_array

        encode = getattr(self._tokenizer, "encode_batch_fast", self._tokenizer.encode_batch)
        tokens = [encoding.ids for encoding in encode(texts, add_special_tokens=False)]
        counts = np.fromiter(map(len, tokens), dtype=np.int64, count=len(tokens))
        ends = np.concatenate([[0], np.cumsum(counts)])
        columns = np.fromiter((token for ids in tokens for token in ids), dtype=np.int32, count=ends[-1])
        weights = np.repeat(1 / np.maximum(counts, 1), counts).astype(np.float32)
        means: NDArray[np.float32] = csr_array((weights, columns, ends), (len(texts), len(self._table))) @ self._table
        if self._is_normalised:
            norms = np.linalg.norm(means, axis=1, keepdims=True)
            means = np.divide(means, norms, out=np.zeros_like(means), where=norms > 0)
        return means


def load(location: str, *, name: str | None = None) -> StaticEncoder:
    """Open a folder with a static model.

    Args:
        location: the folder.
        name: under which results are stored.

    Raises:
        InputError: no such folder, a file in it that is missing or damaged, a model that has more than token vectors.
    """
    folder = model_folder(location)
    if folder is None:
        raise InputError(f"no model folder {location!r}")
    files, is_normalised = module_folder(folder)
    settings = read_settings(folder)
    try:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        for file in _FILES:
            refuse_special(files / file)
        table = token_vectors(load_file(files / "model.safetensors"))
        tokenizer = Tokenizer.from_file(str(files / "tokenizer.json"))
    except InputError as error:
        raise InputError(f"cannot load the static model {location!r}: {error}") from None
    except Exception as error:  # the two libraries have error types of their own for files that they cannot read
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"cannot load the static model {location!r}: {line}") from error
    n_tokens = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1
    if len(table) < n_tokens:
        raise InputError(
            f"static model {location!r}: {len(table)} vectors for {n_tokens} tokens; "
            "tokenizer.json and model.safetensors do not belong together"
        )
    # The folder may keep the first components only.
    dim = min(settings.truncate_dim or table.shape[1], table.shape[1])
    if not is_normalised:  # else the length is that of the whole vector
        table = np.ascontiguousarray(table[:, :dim])
    tokenizer.no_padding()
    return StaticEncoder(
        tokenizer,
        table,
        f"static/sha256:{folder_digest(folder)[:16]}",
        name=name or location,
        is_normalised=is_normalised,
        dim=dim,
        prompt=settings.default_prompt,
        size_bytes=sum((files / file).stat().st_size for file in _FILES),
    )


def module_folder(folder: Path) -> tuple[Path, bool]:
    """The folder of the static module, and whether a module that normalises follows it. Raises InputError."""
    modules = listed_modules(folder)
    if modules is None:  # as model2vec saves it
        config = folder / "config.json"
        return folder, config.is_file() and bool(read_model_file(config, _Config, "configuration").normalize)
    kinds = [module.kind for module in modules]
    if kinds not in (["StaticEmbedding"], ["StaticEmbedding", "Normalize"]):
        raise InputError(
            f"{folder / MODULES_FILE}: {' + '.join(kinds)} is no static model; use sentence-transformers:DIR"
        )
    return folder / modules[0].path, len(kinds) == 2


def token_vectors(tensors: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
    """The table of a safetensors file's tensors: one row a token, float32 (tokens, dim). Raises InputError."""
    if INT4 in tensors:
        return _from_int4(tensors[INT4], tensors.get(BLOCKS))
    name = next((name for name in ("embedding.weight", "embeddings") if name in tensors), None)
    if name is None or tensors[name].ndim != 2:
        raise InputError("model.safetensors has no table embedding.weight or embeddings: it is no static model")
    rows = tensors[name]
    if name == "embedding.weight":
        return rows.astype(np.float32)
    if "mapping" in tensors:
        rows = rows[tensors["mapping"]]
    table = rows.astype(np.float32)
    if "weights" in tensors:
        table *= tensors["weights"].astype(np.float32)[:, None]
    return table


def _from_int4(halves: NDArray[Any], scales: NDArray[Any] | None) -> NDArray[np.float32]:
    n_tokens, dim = halves.shape[0], 2 * halves.shape[-1]
    fits = halves.ndim == 2 and halves.dtype == np.uint8 and scales is not None and scales.ndim == 2
    if not fits or len(scales) != n_tokens or not scales.shape[1] or dim % scales.shape[1]:  # type: ignore[arg-type,union-attr]
        raise InputError(f"model.safetensors is damaged: {INT4} and {BLOCKS} do not fit each other")
    table = np.empty((n_tokens, dim), dtype=np.float32)
    table[:, ::2], table[:, 1::2] = halves & 15, halves >> 4
    table -= INT4_ZERO
    blocks = table.reshape(n_tokens, scales.shape[1], -1)  # type: ignore[union-attr]
    blocks *= scales.astype(np.float32)[:, :, None]  # type: ignore[union-attr]
    return table


static = EncoderInfo(
    factory=load,
    description="mean of one vector a token, in NumPy: a folder of a static sentence-transformers or model2vec model",
    backend="numpy",
    is_kind=True,
    location_form="DIR",
    extra="student",
    modules=("tokenizers", "safetensors"),
    runs_code=never,
)
student = EncoderInfo(
    factory=load,
    description="static student of all-MiniLM-L6-v2 and mUSE that ships with the project, 18 languages, in NumPy",
    backend="numpy",
    location=str(STUDENT),
    cite=cited("reimers-gurevych-2020-making"),
    dim=256,
    licence="CC-BY-NC-4.0",
    extra="student",
    modules=("tokenizers", "safetensors"),
    runs_code=never,
)
