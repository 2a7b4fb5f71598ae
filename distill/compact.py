"""The form in which a static student ships: rows of one byte a number, with a scale each, and a small tokenizer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from baselines.batches import legal_text
from distill.static import module_folder, token_vectors
from harness.errors import InputError
from harness.registry import one_line
from harness.results import cannot_write

_LARGEST = 127
_FLOAT16_SCALES = 6e-6, 6e4  # between these, float16 is exact to a hundredth
_WEIGHTS, _TOKENIZER = "model.safetensors", "tokenizer.json"
_DECIMALS = range(1, 7)


def save_compact(
    folder_in: Path,
    folder_out: Path,
    *,
    bits: Literal["int8", "float16"] = "int8",
    check_texts: Sequence[str] = (),
) -> int:
    """Write a static model's folder in the compact form, which `static:DIR` and sentence-transformers 6 load.

    The table becomes `embeddings` (int8) and `weights` (a row's scale), the tensors of model2vec; in float16 it stays
    `embedding.weight`. The tokenizer becomes JSON without blanks; the scores of a Unigram vocabulary are rounded to as
    few decimals as leave the tokens of `check_texts` as they are. JSON and Markdown files, images and
    the licence are copied; what only a further training needs (the teacher's projection) is not.

    Args:
        folder_in: a folder that sentence-transformers saved.
        folder_out: the folder to write; it must not be there.
        bits: of a number in the table.
        check_texts: texts of all the student's languages; none: scores stay as they are.

    Returns:
        the bytes of all files written.

    Raises:
        InputError: no static model in `folder_in`, `folder_out` is there, or it cannot be written.
    """
    from safetensors.numpy import load_file, save_file
    from tokenizers import Tokenizer

    if bits not in ("int8", "float16"):
        raise InputError(f"a compact table is int8 or float16, not {bits!r}")
    if not folder_in.is_dir():
        raise InputError(f"no model folder {str(folder_in)!r}")
    if folder_out.exists():
        raise InputError(f"{folder_out} is there already; delete it, or name another folder")
    module, _ = module_folder(folder_in)
    inner = module.relative_to(folder_in)
    try:
        table = token_vectors(load_file(module / _WEIGHTS))
        tokenizer_json = (module / _TOKENIZER).read_text(encoding="utf-8")
        Tokenizer.from_str(tokenizer_json)
    except InputError:
        raise
    except Exception as error:  # the libraries have error types of their own
        raise InputError(f"cannot load the static model {str(folder_in)!r}: {one_line(error)}") from error

    temporary = folder_out.with_name(f".{folder_out.name}.part")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        for path in sorted(folder_in.rglob("*")):
            is_copied = path.suffix in (".json", ".md", ".png") or path.name.startswith("LICENSE")
            if path.is_file() and is_copied and path.name != _TOKENIZER:
                target = temporary / path.relative_to(folder_in)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
        (temporary / inner).mkdir(parents=True, exist_ok=True)
        save_file(quantised(table) if bits == "int8" else _as_float16(table), temporary / inner / _WEIGHTS)
        small = compact_tokenizer(tokenizer_json, check_texts)
        (temporary / inner / _TOKENIZER).write_text(small, encoding="utf-8")
        temporary.rename(folder_out)
    except OSError as error:
        raise cannot_write(folder_out, error) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return sum(path.stat().st_size for path in folder_out.rglob("*") if path.is_file())


def quantised(table: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    """A float table (tokens, dim) as int8 rows and their scales: `embeddings` and `weights`.

    A row is divided by its scale, a 127th of its largest magnitude rounded up, and rounded. Scales are float16, or
    float32 where one is out of float16's range. Raises InputError if a number is not finite.
    """
    exact = np.abs(table).max(axis=1, initial=0) / _LARGEST
    if not np.isfinite(exact).all():
        raise InputError("the table of token vectors has numbers that are not finite; train it again")
    low, high = _FLOAT16_SCALES
    scale_type = np.float16 if ((exact == 0) | ((exact > low) & (exact < high))).all() else np.float32
    scales = exact.astype(scale_type)
    scales = np.where(scales < exact, np.nextafter(scales, scale_type(np.inf)), scales)
    rows = np.rint(table / np.where(scales > 0, scales, 1).astype(np.float32)[:, None])
    return {"embeddings": rows.astype(np.int8), "weights": scales}


def _as_float16(table: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    with np.errstate(over="ignore"):
        rows = table.astype(np.float16)
    if not np.isfinite(rows).all():
        raise InputError("the table of token vectors has numbers that float16 cannot hold")
    return {"embedding.weight": rows}


def compact_tokenizer(tokenizer_json: str, check_texts: Sequence[str] = ()) -> str:
    """`tokenizer.json` without blanks and without what a static model never uses: decoder, padding, post-processor.

    The scores of a Unigram vocabulary get as few decimals (1 to 6) as leave the tokens of `check_texts` unchanged.
    Other texts may change where two readings are nearly equal; `prune_tokenizer` can round before training instead.
    """
    content = json.loads(tokenizer_json)
    content.update(padding=None, post_processor=None, decoder=None)
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
