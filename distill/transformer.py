"""The compact form of students: `compact:DIR`, and `student-transformer`, the one that the repository holds.

A transformer's folder is that of a sentence-transformers model but for the transformer's weights, which are in
`compact.safetensors`: a matrix NAME as int8, and as `NAME.scales` one factor for each of the equal blocks that its rows
are cut into. It is restored once, with weights in float32, to `models/` of the cache folder (`$HARNESS_CACHE`, or the
user's) and opened from there as `sentence-transformers:` does it, with the same options. A static student in the
compact form is opened by `static:DIR`.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from functools import partial, wraps
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baselines.adapters import sentence_transformer
from baselines.adapters.citations import cited
from baselines.adapters.huggingface import folder_digest, model_folder
from baselines.adapters.model_files import read_model_file
from baselines.adapters.sentence_transformer import SentenceTransformerEncoder
from baselines.training.model_folder import new_folder
from harness.core.errors import InputError, MissingExtraError, one_line
from harness.core.files import locked
from harness.encoders.cache import default_cache_dir
from harness.encoders.info import EncoderInfo, never

COMPACT_FILE = "compact.safetensors"
"""Not `model.safetensors`: a library that knows nothing of the scales would take the int8 for the weights."""

SCALES = ".scales"
"""What follows a matrix's name in that of its scales."""

CHECKSUM = "sha256"
"""What the file's metadata call the checksum of its tensors."""

STUDENT = Path(__file__).parent / "models" / "student-transformer"
TRAINING = (
    "leaderboard distill --teacher 'minilm?precision=bf16&max_length=64' --teacher muse --student e5-small-q4 --name "
    "student-transformer --corpus stsb-train --corpus paws-x --corpus tatoeba-challenge --corpus tatoeba-manythings "
    "--corpus xcopa --corpus xquad-questions --corpus storybooks --corpus wikipedia-app --corpus mozilla-www "
    "--corpus tldr-pages --corpus phpmyadmin-docs --corpus software-messages --corpus gnome-user-docs --corpus "
    "python-docs --corpus django-docs --language ar --language de --language es --language fr --language it "
    "--language ja --language ka --language ko --language nl --language pl --language pt --language ru --language sw "
    "--language tl --language tr --language tt --language zh --dim 384 --freeze-layers 4 --vocabulary 57000 "
    "--fit-projection --loss 'cosine+0.1*ranking' --batch-size 128 --learning-rate 0.0001 --warm-up 100 --max-steps "
    "2600 --eval-steps 200 --best-by sts_cross --patience 99 --temperature 0.5 --max-repeats 20 --weight "
    "python-docs=0.1 --weight django-docs=0.1 --weight phpmyadmin-docs=0.1 --weight gnome-user-docs=0.1 --weight "
    "software-messages=0.1 --weight tldr-pages=0.1 --weight mozilla-www=0.1 --weight tatoeba-challenge.en-ar=3 "
    "--weight tatoeba-manythings.en-ar=3 --weight xquad-questions.en-ar=3 --weight stsb-train=2 --weight "
    "tatoeba-challenge.en-tr=2 --weight tatoeba-manythings.en-tr=2 --max-length 64 --dropout 0.0 --precision bf16"
)
"""The training on the student's model card; what ships is half-way back from it (`distill interpolate`)."""

_WEIGHTS = "model.safetensors"
_DIGEST = ".sha256"  # hidden: no part of the digest that it holds


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
            expected = (file.metadata() or {}).get(CHECKSUM)
    except Exception as error:  # the library has error types of its own
        raise InputError(f"{path}: damaged ({one_line(error)}); copy the model's folder again") from None
    if checksum(tensors) != expected:
        raise InputError(f"{path}: damaged (its checksum is another); copy the model's folder again")
    scales = {name + SCALES for name in tensors}
    return {name: _floats(tensors[name], tensors.get(name + SCALES)) for name in tensors if name not in scales}


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
    description="multilingual-e5-small, pruned and distilled further, 18 languages (in the repository)",
    backend="sentence-transformers",
    cite=cited("wang-etal-2024-multilingual", "reimers-gurevych-2020-making"),
    dim=384,
    licence="CC-BY-SA-4.0",
    extra="torch",
    modules=("sentence_transformers",),
    recipe=lambda: None if STUDENT.is_dir() or _trained_here().is_dir() else TRAINING,
    runs_code=never,
)
