"""Write the compact form of students: `leaderboard distill compact`.

What it is stands with the two that open it: `distill.static` and `distill.transformer`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from baselines.adapters.huggingface import legal_text
from baselines.adapters.model_files import listed_modules
from baselines.training.model_folder import new_folder
from distill.static import BLOCKS, INT4, INT4_ZERO, module_folder, token_vectors
from distill.transformer import CHECKSUM, COMPACT_FILE, SCALES, checksum
from harness.core.errors import InputError, MissingExtraError, one_line
from harness.core.files import writing

_WEIGHTS, _TOKENIZER = "model.safetensors", "tokenizer.json"
_LARGEST = {"int8": 127, "int4": 7}
# Numbers of a row that share a scale, but for a static student's int8. For student-transformer in int8, the vectors'
# cosine with those of float32 is 0.9993 in the mean with a scale a row, 0.9997 with one for 64 (and 3 % more bytes),
# 0.9998 for 32.
_BLOCK = 64
_FLOAT16_SCALES = 6e-6, 6e4  # between these, float16 is exact to a hundredth
_DECIMALS = range(1, 7)
_UNUSED = "padding", "post_processor", "decoder"  # of a tokenizer, by a static model
_COPIED = (".json", ".md", ".png", ".svg")

Bits = Literal["int4", "int8", "float16"]


def save_compact(folder_in: Path, folder_out: Path, *, bits: Bits = "int8", check_texts: Sequence[str] = ()) -> int:
    """Write a student's folder in the compact form.

    A static one is then loaded by `static:DIR` and sentence-transformers 6: the table becomes `embeddings` (int8) and
    `weights` (a row's scale), the tensors of model2vec; in float16 it stays `embedding.weight`. In int4, which only
    `static:DIR` loads, it becomes `embeddings.int4` and `embeddings.scales`; written again in int8 it is what
    sentence-transformers loads. A transformer is loaded by `compact:DIR`: its matrices become int8 with a scale for
    every 64 numbers; in float16, all its numbers do; layers after it (the projection) stay as they are.

    The tokenizer becomes JSON without blanks; the scores of a Unigram vocabulary are rounded to as few decimals as
    leave the tokens of `check_texts` as they are. JSON and Markdown files, images and the licence are copied; what only
    a further training needs (the teacher's projection) is not.

    Args:
        folder_in: a folder that sentence-transformers saved.
        folder_out: the folder to write; it must not be there.
        bits: of a number in the table, or in a matrix.
        check_texts: texts of all the student's languages; none: scores stay as they are.

    Returns:
        the bytes of all files written.

    Raises:
        InputError: no such student in `folder_in`, `folder_out` is there, or it cannot be written.
        MissingExtraError: the packages are not installed.
    """
    try:
        from safetensors.numpy import load_file, save
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingExtraError("a student's compact form", "student") from None

    if bits not in get_args(Bits):
        raise InputError(f"a compact table is int4, int8 or float16, not {bits!r}")
    if not folder_in.is_dir():
        raise InputError(f"no model folder {str(folder_in)!r}")
    if folder_out.exists():
        raise InputError(f"{folder_out} is there already; delete it, or name another folder")
    transformer = _transformer_folder(folder_in)
    module = transformer or module_folder(folder_in)[0]
    try:
        tensors = load_file(module / _WEIGHTS)
        tokenizer_json = (module / _TOKENIZER).read_text(encoding="utf-8")
        Tokenizer.from_str(tokenizer_json)
        table = None if transformer else token_vectors(tensors)
    except InputError:
        raise
    except Exception as error:  # the libraries have error types of their own
        kind = "transformer" if transformer else "static model"
        raise InputError(f"cannot load the {kind} {str(folder_in)!r}: {one_line(error)}") from error

    inner = module.relative_to(folder_in)
    if table is None:
        if bits == "int4":
            raise InputError(f"{str(folder_in)!r} is a transformer; int4 is for static students, take int8")
        small = compacted(tensors, bits)
        content = {inner / COMPACT_FILE: save(small, metadata={CHECKSUM: checksum(small)})}
    else:
        small = {"embedding.weight": _as_float16(table)} if bits == "float16" else quantised(table, bits)
        content = {inner / _WEIGHTS: save(small)}
    unused = () if transformer else _UNUSED
    content[inner / _TOKENIZER] = compact_tokenizer(tokenizer_json, check_texts, unused=unused).encode()
    replaced = {inner / _WEIGHTS, inner / _TOKENIZER}

    with writing(folder_out), new_folder(folder_out) as part:
        for path in sorted(folder_in.rglob("*")):
            name = path.relative_to(folder_in)
            is_copied = path.suffix in _COPIED or path.name.startswith("LICENSE") or path.name == _WEIGHTS
            if path.is_file() and is_copied and name not in replaced:
                content[name] = path.read_bytes()
        for name, data in content.items():
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            (part / name).write_bytes(data)
    return sum(path.stat().st_size for path in folder_out.rglob("*") if path.is_file())


def _transformer_folder(folder: Path) -> Path | None:
    """The folder of a model's transformer; None if the model does not begin with one. Raises InputError."""
    modules = listed_modules(folder)
    return folder / modules[0].path if modules and modules[0].kind == "Transformer" else None


def compacted(tensors: Mapping[str, NDArray[Any]], bits: Bits = "int8") -> dict[str, NDArray[Any]]:
    """A transformer's weights in the compact form, which `load` restores.

    A matrix NAME, a table of token vectors included, becomes int8, and `NAME.scales` a scale for every 64 numbers of
    a row, or for a row that cannot be split so. Other tensors stay as they are. In float16, all that are floats do.
    Raises InputError if a number is not finite, or too large for float16.
    """
    small: dict[str, NDArray[Any]] = {}
    for name, values in tensors.items():
        is_float = np.issubdtype(values.dtype, np.floating)
        if is_float and bits == "float16":
            small[name] = _as_float16(values)
        elif is_float and values.ndim == 2:
            width = values.shape[1]
            blocks = values.astype(np.float32).reshape(-1, _block(width))
            rows, small[name + SCALES] = _rounded(blocks, _LARGEST["int8"])
            small[name] = rows.reshape(values.shape)
        else:
            small[name] = values
    return small


def quantised(table: NDArray[np.float32], bits: Bits = "int8") -> dict[str, NDArray[Any]]:
    """A float table (tokens, dim) as int8 rows and their scales, or as int4 blocks of rows and theirs.

    Raises InputError if a number is not finite, or if int4 gets an odd number of dimensions.
    """
    if bits == "int8":
        rows, scales = _rounded(table, _LARGEST["int8"])
        return {"embeddings": rows, "weights": scales}
    n_tokens, dim = table.shape
    if dim % 2:
        raise InputError(f"int4 keeps two numbers in a byte, and {dim} dimensions are odd; take int8")
    numbers, scales = _rounded(table.reshape(-1, _block(dim)), _LARGEST["int4"])
    halves = (numbers.reshape(n_tokens, dim) + INT4_ZERO).astype(np.uint8)
    return {INT4: halves[:, ::2] | halves[:, 1::2] << 4, BLOCKS: scales.reshape(n_tokens, -1)}


def _block(width: int) -> int:
    """How many numbers of a row share a scale."""
    return width if width % _BLOCK else _BLOCK


def _rounded(rows: NDArray[np.float32], largest: int) -> tuple[NDArray[np.int8], NDArray[Any]]:
    """Rows as whole numbers from -`largest` to `largest`, and their scales.

    A row is divided by its scale, a `largest`-th of its largest magnitude rounded up, and rounded. Scales are float16,
    or float32 where one is out of float16's range.
    """
    exact = np.abs(rows).max(axis=1, initial=0) / largest
    if not np.isfinite(exact).all():
        raise InputError("the student's weights have numbers that are not finite; train it again")
    low, high = _FLOAT16_SCALES
    scale_type = np.float16 if ((exact == 0) | ((exact > low) & (exact < high))).all() else np.float32
    scales = exact.astype(scale_type)
    scales = np.where(scales < exact, np.nextafter(scales, scale_type(np.inf)), scales)
    numbers = np.rint(rows / np.where(scales > 0, scales, 1).astype(np.float32)[:, None])
    return numbers.astype(np.int8), scales


def _as_float16(numbers: NDArray[Any]) -> NDArray[np.float16]:
    with np.errstate(over="ignore"):
        small = numbers.astype(np.float16)
    if not np.isfinite(small).all():
        raise InputError("the student's weights have numbers that float16 cannot hold")
    return small


def compact_tokenizer(tokenizer_json: str, check_texts: Sequence[str] = (), *, unused: Sequence[str] = _UNUSED) -> str:
    """`tokenizer.json` without blanks and without its parts `unused`: what a static model never uses.

    The scores of a Unigram vocabulary get as few decimals (1 to 6) as leave the tokens of `check_texts` unchanged.
    Other texts may change where two readings are nearly equal; `prune_tokenizer` can round before training instead.
    """
    content = json.loads(tokenizer_json)
    content.update(dict.fromkeys(unused))
    vocabulary = content["model"].get("vocab")
    if check_texts and isinstance(vocabulary, list):
        wanted = _tokens(tokenizer_json, check_texts)
        for decimals in _DECIMALS:
            content["model"]["vocab"] = [[piece, round(score, decimals)] for piece, score in vocabulary]
            if _tokens(_dumped(content), check_texts) == wanted:
                break
        else:
            content["model"]["vocab"] = vocabulary
    return _dumped(content)


def _dumped(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _tokens(tokenizer_json: str, texts: Sequence[str]) -> list[list[int]]:
    from tokenizers import Tokenizer

    encodings = Tokenizer.from_str(tokenizer_json).encode_batch(
        [legal_text(text) for text in texts], add_special_tokens=False
    )
    return [encoding.ids for encoding in encodings]
