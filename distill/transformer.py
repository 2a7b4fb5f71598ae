"""The compact form of students: `compact:DIR`, and `student-transformer`, the one that the repository holds.

A transformer's folder is that of a sentence-transformers model but for the transformer's weights, which are in
`compact.safetensors`: a matrix NAME as int8, and as `NAME.scales` one factor for each of the equal blocks that its rows
are cut into. It is restored once, with weights in float32, to `models/` of the cache folder (`$HARNESS_CACHE`, or the
user's) and opened from there as `sentence-transformers:` does it, with the same options. A static student in the
compact form is opened by `static:DIR`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from baselines.adapters import sentence_transformer
from baselines.adapters.citations import cited
from baselines.adapters.huggingface import folder_digest, legal_text, model_folder
from baselines.adapters.model_files import listed_modules, read_model_file
from baselines.adapters.sentence_transformer import SentenceTransformerEncoder
from baselines.training.model_folder import new_folder
from distill.static import module_folder, token_vectors
from harness.core.errors import InputError, MissingExtraError, one_line
from harness.core.files import locked, writing
from harness.encoders.cache import default_cache_dir
from harness.encoders.info import EncoderInfo, never

COMPACT_FILE = "compact.safetensors"
"""Not `model.safetensors`: a library that knows nothing of the scales would take the int8 for the weights."""

_SCALES = ".scales"
_CHECKSUM = "sha256"
"""What the file's metadata call the checksum of its tensors."""

STUDENT = Path(__file__).parent / "models" / "student-transformer"
TRAINING = (
    "leaderboard distill --teacher 'e5-small-q4?precision=bf16&max_length=64' --student e5-small-q4 "
    "--name student-transformer --corpus stsb-train --corpus xnli --corpus paws-x --corpus tatoeba-challenge "
    "--corpus xcopa --corpus xquad-questions --corpus storybooks --language ar --language de --language es "
    "--language fr --language it --language nl --language ru --language tr --language zh --freeze-layers 4 "
    "--vocabulary 57000 --loss '5*cosine+0.2*ranking' --batch-size 128 --learning-rate 5e-05 --warm-up 50 "
    "--max-steps 450 --eval-steps 90 --best-by sts_cross --temperature 0.5 --max-repeats 20 --max-length 64 "
    "--precision bf16"
)
"""The training on the student's model card; what ships is half-way back from it (`distill interpolate`)."""

_WEIGHTS, _TOKENIZER = "model.safetensors", "tokenizer.json"
_DIGEST = ".sha256"  # hidden: no part of the digest that it holds
_LARGEST = 127
# Numbers of a transformer's matrix that share a scale. For the project's own student, the vectors' cosine with those
# of float32 is 0.9993 in the mean with a scale a row, 0.9997 with one for 64 (and 3 % more bytes), 0.9998 for 32.
_BLOCK = 64
_FLOAT16_SCALES = 6e-6, 6e4  # between these, float16 is exact to a hundredth
_DECIMALS = range(1, 7)
_UNUSED = "padding", "post_processor", "decoder"  # of a tokenizer, by a static model
_COPIED = (".json", ".md", ".png")

Bits = Literal["int8", "float16"]


# The registry reads the options from the signature, which is that of the wrapped function.
@wraps(sentence_transformer.load, assigned=())
def load(location: str, **options: Any) -> SentenceTransformerEncoder:
    """Open a folder in the compact form with the options of `sentence-transformers:`; it is restored if need be.

    Raises:
        InputError: no such folder, one of another form or a damaged one, a cache folder that cannot be written, or an
            option that does not fit the model.
        MissingExtraError: the packages are not installed.
    """
    folder = model_folder(location)
    if folder is None:
        raise InputError(f"no model folder {location!r}")
    digest = folder_digest(folder)[:16]
    ordinary = restored(folder, default_cache_dir() / "models" / f"{folder.resolve().name}-{digest}")
    encoder = sentence_transformer.load(str(ordinary), **{"name": location, **options})
    encoder.identity = f"compact/sha256:{digest}"
    return encoder


@wraps(partial(sentence_transformer.load, STUDENT.name), assigned=())
def load_student(**options: Any) -> SentenceTransformerEncoder:
    """Open the student of the repository; outside it, one that was trained here under its name."""
    if STUDENT.is_dir():
        return load(str(STUDENT), **options)
    if _trained_here().is_dir():
        return sentence_transformer.load(str(_trained_here()), **options)
    raise InputError(
        f"encoder {STUDENT.name!r} is not installed, its weights are in the repository alone: run from a checkout "
        f"(pip install -e .), or train it: {TRAINING}"
    )


def _trained_here() -> Path:
    return default_cache_dir() / "models" / STUDENT.name


def restored(folder: Path, path: Path) -> Path:
    """The folder `path` with the model of the compact `folder` in the ordinary form; it is written if need be.

    A model in `path` that was changed or damaged is written again.

    Raises:
        InputError: `folder` is of another form or damaged, or `path` cannot be written.
    """
    if _is_whole(path):
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.with_name(f".{path.name}.lock")):
            if not _is_whole(path):  # else another process was faster
                with new_folder(path, replace=True) as part:
                    _write_ordinary(folder, part)
                    (part / _DIGEST).write_text(folder_digest(part), encoding="utf-8")
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"model folder {path} cannot be written ({reason}); set HARNESS_CACHE") from None
    return path


def _is_whole(path: Path) -> bool:
    try:
        return (path / _DIGEST).read_text(encoding="utf-8") == folder_digest(path)
    except (OSError, UnicodeDecodeError, InputError):
        return False


def _write_ordinary(folder: Path, out: Path) -> None:
    """Write the model of the compact `folder` to `out`, as sentence-transformers would."""
    try:
        from safetensors.numpy import save
    except ImportError:
        raise MissingExtraError(f"the model {folder.name!r}", "torch") from None
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if not any(path.name == COMPACT_FILE for path in files):
        raise InputError(
            f"{str(folder)!r} is no transformer in the compact form (no {COMPACT_FILE}); use "
            "sentence-transformers:DIR or static:DIR"
        )
    for path in files:
        target = out / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.name == COMPACT_FILE:
            target.with_name(_WEIGHTS).write_bytes(save(_read(path), metadata={"format": "pt"}))
            continue
        if path.suffix == ".json":
            read_model_file(path, object, "JSON")  # refuses a damaged file
        shutil.copyfile(path, target)


def _read(path: Path) -> dict[str, NDArray[Any]]:
    """The tensors of a compact file with their numbers restored to float32. Raises InputError."""
    from safetensors import safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (it is no dict)
            expected = (file.metadata() or {}).get(_CHECKSUM)
    except Exception as error:  # the library has error types of its own
        raise InputError(f"{path}: damaged ({one_line(error)}); copy the model's folder again") from None
    if checksum(tensors) != expected:
        raise InputError(f"{path}: damaged (its checksum is another); copy the model's folder again")
    scales = {name + _SCALES for name in tensors}
    return {name: _floats(tensors[name], tensors.get(name + _SCALES)) for name in tensors if name not in scales}


def _floats(values: NDArray[Any], scales: NDArray[Any] | None) -> NDArray[Any]:
    if scales is not None:
        numbers: NDArray[Any] = values.reshape(len(scales), -1).astype(np.float32)
        numbers *= scales.astype(np.float32)[:, None]
        return numbers.reshape(values.shape)
    return values.astype(np.float32) if np.issubdtype(values.dtype, np.floating) else values


def checksum(tensors: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256, in hexadecimal, over the names, types, shapes and numbers of tensors, sorted by name."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(f"{name}\0{tensors[name].dtype.str}\0{tensors[name].shape}\n".encode())
        digest.update(tensors[name].tobytes())
    return digest.hexdigest()


def save_compact(folder_in: Path, folder_out: Path, *, bits: Bits = "int8", check_texts: Sequence[str] = ()) -> int:
    """Write a student's folder in the compact form.

    A static one is then loaded by `static:DIR` and sentence-transformers 6: the table becomes `embeddings` (int8) and
    `weights` (a row's scale), the tensors of model2vec; in float16 it stays `embedding.weight`. A transformer is loaded
    by `compact:DIR` (see the head of this module): its matrices become int8 with a scale for every 64 numbers; in
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
        small = compacted(tensors, bits)
        content = {inner / COMPACT_FILE: save(small, metadata={_CHECKSUM: checksum(small)})}
    else:
        small = quantised(table) if bits == "int8" else {"embedding.weight": _as_float16(table)}
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
            blocks = values.astype(np.float32).reshape(-1, width if width % _BLOCK else _BLOCK)
            rows, small[name + _SCALES] = _int8_rows(blocks)
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


compact = EncoderInfo(
    factory=load,
    description="a transformer in the compact form of `leaderboard distill compact`",
    backend="sentence-transformers",
    is_kind=True,
    location_form="DIR",
    extra="torch",
    modules=("sentence_transformers",),
    runs_code=never,
)
student_transformer = EncoderInfo(
    factory=load_student,
    description="multilingual-e5-small, pruned and distilled further, nine languages and English (in the repository)",
    backend="sentence-transformers",
    cite=cited("wang-etal-2024-multilingual", "reimers-gurevych-2020-making"),
    dim=384,
    licence="CC-BY-NC-4.0",
    extra="torch",
    modules=("sentence_transformers",),
    recipe=lambda: None if STUDENT.is_dir() or _trained_here().is_dir() else TRAINING,
    runs_code=never,
)
