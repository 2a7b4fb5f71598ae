"""What is made of a trained student before it ships: a mean with its start, and a form of a quarter of the size.

The mean is that of Wortsman et al. 2022, "Robust fine-tuning of zero-shot models" (WiSE-FT), equation 1. The compact
form has one byte a number, with a scale for a row or a block, and a small tokenizer.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from baselines.batches import legal_text
from baselines.huggingface import folder_digest, open_model
from baselines.model_folder import as_json, new_folder, save_model
from baselines.nli import open_start, resolve_start
from distill.static import kind_of, listed_modules, module_folder, token_vectors
from distill.transformer import CHECKSUM, COMPACT_FILE, SCALES, checksum
from harness.errors import InputError, MissingExtraError
from harness.registry import one_line
from harness.results import cannot_write

_LARGEST = 127
# Numbers of a transformer's matrix that share a scale. For the project's own student, the vectors' cosine with those
# of float32 is 0.9993 in the mean with a scale a row, 0.9997 with one for 64 (and 3 % more bytes), 0.9998 for 32.
_BLOCK = 64
_FLOAT16_SCALES = 6e-6, 6e4  # between these, float16 is exact to a hundredth
_WEIGHTS, _TOKENIZER = "model.safetensors", "tokenizer.json"
_DECIMALS = range(1, 7)
_UNUSED = "padding", "post_processor", "decoder"  # of a tokenizer, by a static model

_COPIED = (".json", ".md", ".png")
_POOLER = "pooler."  # no part of mean pooling, and random where the start's file has none

RECORD_FILE = "interpolation.json"
"""What an interpolated student's folder says of it: start, share, and the SHA-256 of what was trained."""

Bits = Literal["int8", "float16"]


def interpolate(trained: Path, start: str, share: float, out: Path) -> None:
    """Write the transformer student that is `share` of the way from its start to itself.

    Weight by weight it is (1 - share) * start + share * trained. A student that is trained on few corpora is better on
    their kind of sentences and worse on others; half-way it keeps most of both, and costs nothing more to run. The
    start may have more layers and more tokens: those are taken that the student kept. Layers that only the student has
    (a projection) stay as they are trained.

    Args:
        trained: folder of the student.
        start: what it was trained from: a folder, a hub id, or the alias of such an encoder.
        share: 0 to 1; 0.5 is what the paper recommends where no data of the wanted kind can decide.
        out: folder to write; it must not be there.

    Raises:
        InputError: no such model, no transformer, a start with other weights than the student's, or a folder that is
            there already or cannot be written.
    """
    if not 0 <= share <= 1:
        raise InputError(f"--share is between 0 (the start) and 1 (the student), not {share:g}")
    _check_places(trained, out)
    model = _open(str(trained))
    begin = _open(resolve_start(start)[0])
    _blend(model, begin, share, f"{start!r} is not what {trained.name!r} was trained from")
    record = {"start": start, "share": share, "trained_sha256": folder_digest(trained)}
    try:
        with new_folder(out) as part:
            save_model(model, part)
            for path in trained.iterdir():  # report, curve, record: what the library has not written itself
                if path.suffix in _COPIED and not (part / path.name).exists():
                    shutil.copyfile(path, part / path.name)
            (part / RECORD_FILE).write_bytes(as_json(record))
    except OSError as error:
        raise cannot_write(out, error) from None


def _check_places(student: Path, out: Path) -> None:
    if not student.is_dir():
        raise InputError(f"no model folder {str(student)!r}")
    if out.exists():
        raise InputError(f"{out} is there already; delete it, or name another folder")


def _open(location: str) -> Any:
    model, _ = open_model(location, None, lambda source: open_start(source, on_cpu=True))
    if model.transformers_model is None:
        raise InputError(f"{location!r} has no transformer; weights are interpolated between transformers")
    return model


def _blend(model: Any, begin: Any, share: float, mismatch: str) -> None:
    """Move the model's weights towards the start's, in place; `mismatch` begins the error if they do not fit."""
    import torch

    tokens, others = model.tokenizer.get_vocab(), begin.tokenizer.get_vocab()
    if not tokens.keys() <= others.keys():
        raise InputError(f"{mismatch}: it lacks tokens such as {min(tokens.keys() - others.keys())!r}")
    rows = torch.tensor([others[token] for token in sorted(tokens, key=tokens.__getitem__)])
    table = model.transformers_model.get_input_embeddings().weight
    starts = dict(begin.transformers_model.named_parameters())
    with torch.no_grad():
        for name, weight in model.transformers_model.named_parameters():
            if name.startswith(_POOLER):
                continue
            first = starts.get(name)
            if first is not None and weight is table and len(first) != len(table):
                first = first[rows]
            if first is None or first.shape != weight.shape:
                raise InputError(f"{mismatch}: its weights {name} are missing or of another shape")
            weight.lerp_(first.to(weight), 1 - share)


def save_compact(folder_in: Path, folder_out: Path, *, bits: Bits = "int8", check_texts: Sequence[str] = ()) -> int:
    """Write a student's folder in the compact form.

    A static one is then loaded by `static:DIR` and sentence-transformers 6: the table becomes `embeddings` (int8) and
    `weights` (a row's scale), the tensors of model2vec; in float16 it stays `embedding.weight`. A transformer is loaded
    by `compact:DIR` (see `distill.transformer`): its matrices become int8 with a scale for every 64 numbers; in
    float16, all its numbers do; layers after it (the projection) stay as they are.

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

    if bits not in ("int8", "float16"):
        raise InputError(f"a compact table is int8 or float16, not {bits!r}")
    _check_places(folder_in, folder_out)
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
        small = compacted(tensors, bits)
        content = {inner / COMPACT_FILE: save(small, metadata={CHECKSUM: checksum(small)})}
    else:
        small = quantised(table) if bits == "int8" else {"embedding.weight": _as_float16(table)}
        content = {inner / _WEIGHTS: save(small)}
    unused = () if transformer else _UNUSED
    content[inner / _TOKENIZER] = compact_tokenizer(tokenizer_json, check_texts, unused=unused).encode()
    replaced = {inner / _WEIGHTS, inner / _TOKENIZER}

    try:
        with new_folder(folder_out) as part:
            for path in sorted(folder_in.rglob("*")):
                name = path.relative_to(folder_in)
                is_copied = path.suffix in _COPIED or path.name.startswith("LICENSE") or path.name == _WEIGHTS
                if path.is_file() and is_copied and name not in replaced:
                    content[name] = path.read_bytes()
            for name, data in content.items():
                (part / name).parent.mkdir(parents=True, exist_ok=True)
                (part / name).write_bytes(data)
    except OSError as error:
        raise cannot_write(folder_out, error) from None
    return sum(path.stat().st_size for path in folder_out.rglob("*") if path.is_file())


def _transformer_folder(folder: Path) -> Path | None:
    """Where a model's transformer is; None if it does not begin with one. Raises InputError."""
    modules = listed_modules(folder)
    return folder / modules[0].get("path", "") if modules and kind_of(modules[0]) == "Transformer" else None


def compacted(tensors: Mapping[str, NDArray[Any]], bits: Bits = "int8") -> dict[str, NDArray[Any]]:
    """A transformer's weights in the compact form, which `distill.transformer` restores.

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
            blocks = values.astype(np.float32).reshape(-1, width if width % _BLOCK else _BLOCK)
            rows, small[name + SCALES] = _int8_rows(blocks)
            small[name] = rows.reshape(values.shape)
        else:
            small[name] = values
    return small


def quantised(table: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    """A float table (tokens, dim) as int8 rows and their scales: `embeddings` and `weights`.

    Raises InputError if a number is not finite.
    """
    rows, scales = _int8_rows(table)
    return {"embeddings": rows, "weights": scales}


def _int8_rows(table: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[Any]]:
    """Rows as int8, and their scales.

    A row is divided by its scale, a 127th of its largest magnitude rounded up, and rounded. Scales are float16, or
    float32 where one is out of float16's range.
    """
    exact = np.abs(table).max(axis=1, initial=0) / _LARGEST
    if not np.isfinite(exact).all():
        raise InputError("the student's weights have numbers that are not finite; train it again")
    low, high = _FLOAT16_SCALES
    scale_type = np.float16 if ((exact == 0) | ((exact > low) & (exact < high))).all() else np.float32
    scales = exact.astype(scale_type)
    scales = np.where(scales < exact, np.nextafter(scales, scale_type(np.inf)), scales)
    rows = np.rint(table / np.where(scales > 0, scales, 1).astype(np.float32)[:, None])
    return rows.astype(np.int8), scales


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
