"""`onnx:DIR`: a sentence-transformers model that was exported to ONNX, on onnxruntime and tokenizers, without torch.

A folder is what sentence-transformers saves, with `onnx/model.onnx` in place of PyTorch's weights: `leaderboard
export-onnx` makes such folders, and many models of the Hugging Face hub come so. The graph may end with the vectors of
tokens, which are pooled here as the folder says, or with those of sentences. A model is data: no library of operations
is loaded with it.

Each CPU core runs its own batches with one thread. All cores on one batch, which is onnxruntime's own way, takes 1.7
times as long for all-MiniLM-L6-v2 on two cores that others use, too; sentences one at a time 1.6 times as long as 8 at
a time, 32 at a time, which do not fit the processor's cache where they are long, 1.3 times (benchmarks/onnx_speed.py
--settings).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baselines.adapters.huggingface import encode_by_length, legal_text, model_folder
from baselines.adapters.model_files import (
    MODULES_FILE,
    SETTINGS_FILE,
    Settings,
    listed_modules,
    read_settings,
)
from baselines.adapters.numpy_modules import AfterTransformer, Floats, read_modules
from baselines.adapters.onnx_file import read_onnx
from baselines.adapters.tokenizer_files import open_tokenizer, read_config
from harness.core.errors import InputError
from harness.core.files import joint_digest, leads_out
from harness.core.threads import MAX_WORKERS, n_threads
from harness.encoders.info import EncoderInfo, never

MODEL_FILES = "onnx/model.onnx", "model.onnx"
"""Where the graph is, in the transformer's folder: the first that is there."""

_BATCH = 8
_TOKENIZE_AT_ONCE = 4096
_ERRORS_ONLY = 3
_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
# These scale an activation by its extremes in the batch: neighbours, and padding, change a sentence's vector.
_SCALES_BY_BATCH = {"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"}


class OnnxEncoder:
    """Sentences to vectors through an ONNX graph; `lang` is ignored.

    The vector of a sentence depends on its neighbours in the batch by rounding only. A graph in int8 whose scales are
    those of a batch gets one sentence at a time by default; with more the number is a part of the fingerprint.

    Args:
        graph: the opened graph.
        tokenizer: a `tokenizers.Tokenizer` that cuts but does not pad.
        after: what follows the transformer.
        identity: what the fingerprint begins with.
        name: under which results are stored.
        prompt: what every sentence begins with.
        batch_size: sentences that run at a time; None: 8, or 1 where more would change the vectors.
        truncate_dim: how many of the first components to keep; None: all.
    """

    uses_lang = False

    def __init__(
        self,
        graph: Graph,
        tokenizer: Any,
        after: AfterTransformer,
        identity: str,
        *,
        name: str,
        prompt: str = "",
        batch_size: int | None = None,
        truncate_dim: int | None = None,
    ):
        if batch_size is not None and batch_size < 1:
            raise InputError(f"{name}: batch_size must be at least 1, not {batch_size}")
        self.name = name
        self.device, self.size_bytes = graph.device, graph.size_bytes
        self._graph, self._tokenizer, self._after, self._prompt = graph, tokenizer, after, prompt
        self._batch_size = batch_size or (1 if graph.depends_on_batch else _BATCH)
        last_token = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0)
        row = np.array([[last_token], [0]])
        self.dim = self._encode_batch([row], truncate_dim).shape[1]
        self.max_length: int | None = tokenizer.truncation["max_length"] if tokenizer.truncation else None
        self._identity = identity

    @property
    def fingerprint(self) -> str:
        """Of all files, and all options that change vectors."""
        fingerprint = f"{self._identity}|prompt:{self._prompt}|max_length:{self.max_length}"
        if self._graph.depends_on_batch and self._batch_size > 1:
            fingerprint += f"|batch_size:{self._batch_size}"
        return fingerprint

    def with_prompt(self, prompt: str) -> OnnxEncoder:
        """The same model with another prompt. Raises InputError where `load` would."""
        _refuse_prompt(self.name, prompt, self._after)
        other = copy.copy(self)
        other._prompt = prompt
        return other

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        """A float32 array of shape (len(sentences), dim)."""
        rows: list[NDArray[np.int64]] = []
        for start in range(0, len(sentences), _TOKENIZE_AT_ONCE):
            texts = [self._prompt + legal_text(text) for text in sentences[start : start + _TOKENIZE_AT_ONCE]]
            encode = getattr(self._tokenizer, "encode_batch_fast", self._tokenizer.encode_batch)
            rows += [np.array([tokens.ids, tokens.type_ids], np.int64) for tokens in encode(texts)]
        return encode_by_length(
            rows,
            [row.shape[1] for row in rows],
            lambda batch: self._encode_batch(batch, self.dim),
            dim=self.dim,
            batch_size=self._batch_size,
            workers=min(n_threads(), MAX_WORKERS) if self.device == "cpu" else 0,
        )

    def _encode_batch(self, rows: list[NDArray[np.int64]], dim: int | None) -> Floats:
        lengths = np.array([row.shape[1] for row in rows])
        found = self._graph.run(rows, lengths)
        # A graph that ends with the vectors of sentences has all modules in it.
        vectors = found if found.ndim == 2 else self._after.finished(self._after.pooled(found, lengths))
        return vectors[:, :dim]


class Graph:
    """An opened ONNX graph, from token numbers to the vectors of tokens or of sentences.

    Args:
        path: its file, for errors.
        session: an `onnxruntime.InferenceSession`.
        pad_token: the number with which short sentences are filled up.
        depends_on_batch: whether a sentence's vector depends on the others of its batch by more than rounding.
        device: where it runs.
        size_bytes: of all files that the model was read from.

    Raises:
        InputError: it asks for, or gives, something else.
    """

    def __init__(
        self, path: Path, session: Any, *, pad_token: int, depends_on_batch: bool, device: str, size_bytes: int
    ):
        self._path, self._session, self._pad_token = path, session, pad_token
        self.device, self.size_bytes = device, size_bytes
        self._types = {given.name: _integer_type(path, given) for given in session.get_inputs()}
        if "input_ids" not in self._types:
            raise InputError(f"{path}: the graph does not ask for input_ids; it is no sentence encoder")
        self.depends_on_batch = depends_on_batch or "attention_mask" not in self._types
        outputs = [output.name for output in session.get_outputs()]
        known = ("sentence_embedding", "last_hidden_state", "token_embeddings")
        self._output = next((name for name in known if name in outputs), outputs[0])
        if self._output not in known and len(outputs) > 1:
            raise InputError(f"{path}: the graph gives {', '.join(outputs)}, and none of {', '.join(known)}")

    def run(self, rows: Sequence[NDArray[np.int64]], lengths: NDArray[np.int64]) -> Floats:
        """The vectors of tokens (n, tokens, dim), padding last, or of sentences (n, dim), in float32.

        rows: for each sentence, the numbers and the types of its tokens (2, tokens).
        lengths: the tokens of each.
        """
        shape = len(rows), max(1, int(lengths.max()))
        # Always after the sentence, whatever the folder says: a token attends to none of them, so for all models the
        # vectors are those without padding, also where a token's position is its place in the row.
        features = {
            "input_ids": np.full(shape, self._pad_token),
            "token_type_ids": np.zeros(shape, np.int64),
            "attention_mask": (np.arange(shape[1]) < lengths[:, None]).astype(np.int64),
            "position_ids": np.broadcast_to(np.arange(shape[1]), shape),
        }
        for index, row in enumerate(rows):
            features["input_ids"][index, : row.shape[1]], features["token_type_ids"][index, : row.shape[1]] = row
        given = {name: np.ascontiguousarray(features[name], kind) for name, kind in self._types.items()}
        (found,) = self._session.run([self._output], given)
        if not isinstance(found, np.ndarray) or found.ndim not in (2, 3) or len(found) != len(rows):
            raise InputError(f"{self._path}: the graph's {self._output} is no array of vectors")
        return found.astype(np.float32, copy=False)


def _integer_type(path: Path, given: Any) -> type[np.integer[Any]]:
    """The type of an input of a graph. Raises InputError for one that is not known here."""
    types: dict[str, type[np.integer[Any]]] = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
    if given.name not in ("input_ids", "attention_mask", "token_type_ids", "position_ids") or given.type not in types:
        raise InputError(f"{path}: asks for {given.name} ({given.type}), which a sentence encoder does not have")
    if any(isinstance(size, int) for size in given.shape):
        raise InputError(
            f"{path}: takes {given.name} of the shape {' x '.join(map(str, given.shape))} alone; export it with a "
            "batch and a length that are dynamic"
        )
    return types[given.type]


def load(
    location: str,
    *,
    name: str | None = None,
    file: str | None = None,
    prompt: str | None = None,
    prompt_name: str | None = None,
    max_length: int | None = None,
    device: str | None = None,
    batch_size: int | None = None,
) -> OnnxEncoder:
    """Open a folder with a model in ONNX.

    Args:
        location: the folder.
        name: under which results are stored.
        file: the graph, as a path in the folder; `onnx/model.onnx` or `model.onnx` by default.
        prompt: what every sentence begins with. None: the model's own default prompt, if it has one; "": none.
        prompt_name: one of the prompts that the model itself comes with.
        max_length: tokens after which a sentence is cut; the model's own by default.
        device: `cpu` (by default) or `cuda` (`cuda:1`), for which onnxruntime-gpu must be installed.
        batch_size: sentences that run at a time (per core on a CPU): 8 by default, 1 for a graph whose scales are those
            of a batch.

    Raises:
        InputError: no such folder, a file in it that is missing or damaged, a graph that is no sentence encoder or has
            weights outside its folder, a module that is not known here, or an option that does not fit the model.
        MissingExtraError: safetensors, which a dense layer needs, is not installed.
    """
    name = name or location
    folder = model_folder(location)
    if folder is None:
        raise InputError(f"no model folder {location!r}")
    modules = listed_modules(folder)
    if modules is not None and (not modules or modules[0].kind != "Transformer"):
        raise InputError(f"{folder / MODULES_FILE}: the model does not begin with a transformer; use static:DIR")
    base = folder / modules[0].path if modules else folder
    after = read_modules(folder, modules[1:]) if modules else AfterTransformer()
    settings = read_settings(folder)
    prompt = _prompt(name, settings, prompt, prompt_name)
    _refuse_prompt(name, prompt, after)

    path = _graph_file(folder, base, file)
    content = read_onnx(path)
    config = read_config(base)
    tokenizer, tokenizer_files = open_tokenizer(name, base, config, max_length)
    candidates = {
        *(folder / MODULES_FILE, folder / SETTINGS_FILE, base / "config.json", *after.files, *tokenizer_files, path),
        *(path.parent / other for other in content.external),
    }
    files = {candidate for candidate in candidates if candidate.is_file()}
    try:
        digest = joint_digest(folder, files)
        session = _session(name, path, device or "cpu")
        return OnnxEncoder(
            Graph(
                path,
                session,
                pad_token=config.pad_token_id or 0,
                depends_on_batch=bool(content.operations & _SCALES_BY_BATCH),
                device=device or "cpu",
                size_bytes=sum(read.stat().st_size for read in files),
            ),
            tokenizer,
            after,
            f"onnx/sha256:{digest[:16]}",
            name=name,
            prompt=prompt,
            batch_size=batch_size,
            truncate_dim=settings.truncate_dim,
        )
    except InputError:
        raise
    except Exception as error:  # the library has error types of its own
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"{path}: cannot be run ({line}); copy it again, with the tokenizer.json that belongs to it"
        ) from error


def _refuse_prompt(name: str, prompt: str, after: AfterTransformer) -> None:
    """Raises InputError for a prompt that pooling would have to leave out."""
    if prompt and not after.includes_prompt:
        raise InputError(f"{name}: its pooling leaves out the prompt, which is not done here; give prompt= (none)")


def _graph_file(folder: Path, base: Path, file: str | None) -> Path:
    """The graph's file. Raises InputError if there is none, or it is outside the folder."""
    if file is not None:
        if leads_out(file) or not file.endswith(".onnx"):
            raise InputError(f"file must be the path of an .onnx file in {folder}, not {file!r}")
        if not (folder / file).is_file():
            raise InputError(f"{folder / file}: no such file; {_graphs(folder)}")
        return folder / file
    path = next((base / name for name in MODEL_FILES if (base / name).is_file()), None)
    if path is None:
        raise InputError(f"{folder}: no {' or '.join(MODEL_FILES)}; {_graphs(folder)}")
    return path


def _graphs(folder: Path) -> str:
    """What to do about a graph that is not there."""
    found = sorted(path.relative_to(folder).as_posix() for path in (*folder.glob("*.onnx"), *folder.glob("*/*.onnx")))
    return f"give file={' or file='.join(found[:5])}" if found else "make one with leaderboard export-onnx"


def _prompt(name: str, settings: Settings, prompt: str | None, prompt_name: str | None) -> str:
    if prompt is not None and prompt_name is not None:
        raise InputError(f"{name}: give prompt or prompt_name, not both")
    if prompt is not None:
        return prompt
    chosen = prompt_name or settings.default_prompt_name
    if chosen and chosen not in (settings.prompts or {}):
        known = ", ".join(settings.prompts or {}) or "none"
        raise InputError(f"{name}: the model has no prompt {chosen!r}; it has {known}")
    return (settings.prompts or {}).get(chosen or "") or ""


def _session(name: str, path: Path, device: str) -> Any:
    """The opened graph. Raises InputError where onnxruntime cannot use the device."""
    import onnxruntime

    kind, _, number = device.partition(":")
    provider = _PROVIDERS.get(kind)
    if provider is None or (number and (kind == "cpu" or not number.isdecimal())):
        raise InputError(f"{name}: device must be cpu or cuda (or cuda:1), not {device!r}")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ERRORS_ONLY
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = None
    if provider in onnxruntime.get_available_providers():
        providers = [(provider, {"device_id": number} if number else {})]
        session = onnxruntime.InferenceSession(str(path), options, providers=providers, enable_fallback=0)
    # Where a library of the provider's is missing, the CPU takes its place without an error.
    if session is None or provider not in session.get_providers():
        has = ", ".join(onnxruntime.get_available_providers())
        raise InputError(f"{name}: onnxruntime has no {provider} here (only {has}); give device=cpu")
    return session


onnx = EncoderInfo(
    factory=load,
    description="a sentence-transformers model in ONNX, on onnxruntime, without torch: a folder of export-onnx",
    backend="onnxruntime",
    is_kind=True,
    location_form="DIR",
    extra="onnx",
    modules=("onnxruntime", "tokenizers"),
    runs_code=never,
)
