"""Sentence encoders from TensorFlow Hub: `tfhub:HANDLE-or-DIR`, with mUSE and LaBSE as their authors publish them.

Models: Yang et al. 2020, "Multilingual Universal Sentence Encoder for Semantic Retrieval"
(https://arxiv.org/abs/1907.04307); Feng et al. 2022, "Language-agnostic BERT Sentence Embedding"
(https://arxiv.org/abs/2007.01852). A SavedModel is a program that TensorFlow runs, file operations included: open only
those that you trust.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from baselines.adapters.citations import cited
from baselines.adapters.huggingface import legal_text
from baselines.adapters.tfhub_cache import cached_model, find, handle_of, local_folder, quiet
from harness.core.errors import InputError, one_line
from harness.core.threads import n_threads
from harness.encoders.info import EncoderInfo

# Attention over a text of so many tokens takes 0.1 to 0.4 GB in the large variant of mUSE.
MAX_CHARS = 2_000
_GOOGLE = "https://tfhub.dev/google"
_MUSE = f"{_GOOGLE}/universal-sentence-encoder-multilingual/3"
_MUSE_LARGE = f"{_GOOGLE}/universal-sentence-encoder-multilingual-large/3"
_LABSE = f"{_GOOGLE}/LaBSE/2"
_LABSE_PREPROCESSOR = f"{_GOOGLE}/universal-sentence-encoder-cmlm/multilingual-preprocess/2"
_KNOWN = (_MUSE, _MUSE_LARGE, _LABSE, _LABSE_PREPROCESSOR)
_OUTPUTS = ("default", "outputs", "sentence_embedding")  # what the vectors are called among several outputs
_SIGNATURES = ("serving_default", "default")
_PROBE = "a"


class TfHubEncoder:
    """Sentences to vectors through a SavedModel, or a preprocessor and a SavedModel; `lang` is ignored.

    `models` are loaded SavedModels with the digests of their files: the encoder, then the preprocessor if there is one.

    Batches hold texts of similar length, at most `batch_size` and fewer where they are long: number x longest^2 is at
    most `max_chars`^2, so that attention over a batch takes no more memory than over one text of `max_chars`. The
    vector of a sentence depends on its neighbours in the batch by rounding only (less than 1e-6). A blank text of
    which the model makes NaN (a mean over no tokens) gets the zero vector.
    """

    uses_lang = False
    size_bytes: int | None = None
    """Of the files that it was loaded from."""
    n_parameters: int | None = None
    """The numbers in its variables; None where they are not in the usual place."""

    def __init__(
        self,
        models: Sequence[tuple[Any, str]],
        location: str,
        *,
        name: str,
        output: str | None,
        max_chars: int,
        device: str,
        batch_size: int,
    ):
        import tensorflow as tf

        self.name, self.device = name, device
        self._max_chars, self._batch_size = max_chars, batch_size
        self._prepare: Callable[[Any], Any] | None = None
        with tf.device(device):
            value = tf.constant([_PROBE])
            for preprocessor, _ in models[1:]:
                self._prepare, value = _working_call(f"the preprocessor of {location!r}", preprocessor, value)
            self._encode, outputs = _working_call(repr(location), models[0][0], value)
            self._output = _choose_output(location, outputs, output)
            vectors = self._matrix(outputs)
            self._trims = self._may_trim(value, vectors)
        self.dim = vectors.shape[1]
        identity, *others = [f"sha256:{digest[:16]}" for _, digest in models]
        options = [*(f"preprocessor:{other}" for other in others), f"output:{self._output}", f"max_chars:{max_chars}"]
        self.fingerprint = "|".join([f"tfhub/{identity}", *options])

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        """A float32 array of shape (len(sentences), dim); text after the first `max_chars` characters is not read."""
        texts = [_cut(legal_text(text), self._max_chars) for text in sentences]
        vectors = np.empty((len(texts), self.dim), dtype=np.float32)
        for rows in _batches([_length(text) for text in texts], self._batch_size, self._max_chars):
            vectors[rows] = self._encode_batch([texts[row] for row in rows])
        for row in np.flatnonzero(~np.isfinite(vectors).all(axis=1)):
            if not texts[row].strip():
                vectors[row] = 0
        return vectors

    def _encode_batch(self, texts: list[str]) -> np.ndarray:
        import tensorflow as tf

        with tf.device(self.device):
            value = tf.constant(texts)
            if self._prepare:
                value = self._prepare(value)
            return self._matrix(self._encode(_trimmed(value) if self._trims else value))

    def _matrix(self, outputs: Any) -> np.ndarray:
        vectors = outputs if self._output is None else outputs[self._output]
        return np.asarray(vectors.numpy(), dtype=np.float32)

    def _may_trim(self, features: Any, vectors: np.ndarray) -> bool:
        """Whether the encoder takes features without padding that all rows have, and makes the same vectors of them.

        LaBSE's preprocessor pads every sentence to 128 tokens, which takes several times as long.
        """
        if not isinstance(features, Mapping) or "input_mask" not in features:
            return False
        try:
            trimmed = self._matrix(self._encode(_trimmed(features)))
        except Exception:  # whatever TensorFlow says of a shape that it does not want
            return False
        return trimmed.shape == vectors.shape and np.allclose(trimmed, vectors, atol=1e-5, rtol=1e-4)


def load(
    location: str,
    *,
    name: str | None = None,
    preprocessor: str | None = None,
    output: str | None = None,
    max_chars: int = MAX_CHARS,
    device: str | None = None,
    batch_size: int = 64,
) -> TfHubEncoder:
    """Load a SavedModel that makes vectors of sentences.

    Args:
        location: a folder with a SavedModel, or a handle: an address (`https://tfhub.dev/google/LaBSE/2`) or what
            follows tfhub.dev in it (`google/LaBSE/2`). It is taken from the cache if it is there.
        name: under which results are stored.
        preprocessor: another SavedModel, likewise, that turns sentences into what the encoder takes.
        output: which of the encoder's outputs are the vectors, where it has several and none has a usual name.
        max_chars: characters (before and after NFKC) after which a text is cut.
        device: `cpu` (the default), `cuda` or `cuda:N`. On the CPU TensorFlow does not touch a GPU.
        batch_size: sentences that run at a time.

    Raises:
        InputError: no such folder, a handle that cannot be fetched, or whose model is not what was fetched first, a
            folder that is no SavedModel, a model that does not make a vector of a sentence, or an option that does not
            fit.
    """
    for option, value in (("max_chars", max_chars), ("batch_size", batch_size)):
        if value < 1:
            raise InputError(f"{name or location}: {option} must be at least 1, not {value}")
    folders = [find(part) for part in (location, preprocessor) if part]
    place = _place(device)
    encoder = TfHubEncoder(
        [(_open(folder, place), digest) for folder, digest in folders],
        location,
        name=name or location,
        output=output,
        max_chars=max_chars,
        device=place,
        batch_size=batch_size,
    )
    files = [path for folder, _ in folders for path in folder.rglob("*") if path.is_file()]
    encoder.size_bytes = sum(path.stat().st_size for path in files)
    encoder.n_parameters = _n_parameters([folder for folder, _ in folders])
    return encoder


def _n_parameters(folders: Sequence[Path]) -> int | None:
    import tensorflow as tf

    try:
        variables = [v for folder in folders for v in tf.train.list_variables(str(folder / "variables" / "variables"))]
    except Exception:  # of TensorFlow's own: a model without variables, one of version 1
        return None
    return sum(int(np.prod(shape)) for name, shape in variables if name.endswith("VARIABLE_VALUE"))


def _trimmed(features: Mapping[str, Any]) -> dict[str, Any]:
    """Features, (n, tokens) each, without the last columns in which no row has a token."""
    used = np.flatnonzero(features["input_mask"].numpy().any(axis=0))
    width = int(used[-1]) + 1 if used.size else 1
    return {name: value[:, :width] for name, value in features.items()}


def _working_call(label: str, model: Any, value: Any) -> tuple[Callable[[Any], Any], Any]:
    """The first way to call a SavedModel (itself, or a signature) that takes `value`, and the result of that call."""
    signatures = getattr(model, "signatures", {})
    calls: list[Callable[[Any], Any]] = [model] if callable(model) else []
    calls += [partial(_call_signature, signatures[name]) for name in _SIGNATURES if name in signatures]
    reasons = []
    for call in calls:
        try:
            return call, call(value)
        except Exception as error:  # ValueError, TypeError, or one of TensorFlow's many
            reasons.append(one_line(error))
    reason = reasons[0] if reasons else f"it cannot be called and has no signature {' or '.join(_SIGNATURES)}"
    raise InputError(f"{label} has no usable signature, one that takes a tensor of strings ({reason})")


def _call_signature(signature: Any, value: Any) -> Any:
    if isinstance(value, Mapping):
        return signature(**value)
    names = sorted(signature.structured_input_signature[1])
    if len(names) != 1:
        raise InputError(f"its signature takes {len(names)} inputs: {', '.join(names) or 'none'}")
    return signature(**{names[0]: value})


def _choose_output(location: str, outputs: Any, wanted: str | None) -> str | None:
    """The name of the matrix of vectors among a model's outputs; None where it gives one tensor without a name."""
    if not isinstance(outputs, Mapping):
        if wanted is not None:
            raise InputError(f"{location!r} has one output without a name; leave out `output`")
        if not _is_matrix(outputs):
            raise InputError(f"{location!r} gives {_form(outputs)}, not a vector of floats for each sentence")
        return None
    matrices = [name for name, value in outputs.items() if _is_matrix(value)]
    usual = [name for name in _OUTPUTS if name in matrices]
    if wanted is not None and wanted in matrices:
        return wanted
    if wanted is None and (usual or len(matrices) == 1):
        return (usual or matrices)[0]
    forms = ", ".join(f"{name} ({_form(value)})" for name, value in sorted(outputs.items())) or "none"
    what = "one output of vectors" if wanted is None else f"output {wanted!r} of vectors"
    raise InputError(f"{location!r} has no {what}; choose with `output` from: {forms}")


def _is_matrix(value: Any) -> bool:
    shape = list(getattr(value, "shape", ()))
    return len(shape) == 2 and shape[0] == 1 and bool(getattr(value.dtype, "is_floating", False))


def _form(value: Any) -> str:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{value.dtype.name} of shape {tuple(value.shape)}"
    return type(value).__name__


def _batches(lengths: Sequence[int], batch_size: int, longest: int) -> Iterator[list[int]]:
    """Batches of rows, longest first; number x (greatest length)^2 is at most longest^2, or the batch is one row."""
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))
    start = 0
    while start < len(order):
        fitting = (longest // max(lengths[order[start]], 1)) ** 2
        size = min(batch_size, max(fitting, 1))
        yield order[start : start + size]
        start += size


def _cut(text: str, max_chars: int) -> str:
    """The beginning of `text` with at most `max_chars` characters before and after NFKC, which many models apply."""
    text = text[:max_chars]
    if text.isascii() or len(unicodedata.normalize("NFKC", text)) <= max_chars:
        return text
    ends = accumulate(len(unicodedata.normalize("NFKC", character)) for character in text)
    return text[: bisect_right(list(ends), max_chars)]


def _length(text: str) -> int:
    """An upper bound of the tokens of a text: its UTF-8 bytes, or its characters after NFKC if those are more.

    Bytes are nearer to the number of tokens than characters are: of sentences in all of mUSE's scripts, sorted by
    characters, half a batch is padding; sorted by bytes, a third.
    """
    return len(text) if text.isascii() else max(len(text.encode()), len(unicodedata.normalize("NFKC", text)))


def _place(device: str | None) -> str:
    """Imports TensorFlow, sets it up for a device, and returns its name of that device (`cpu`, `gpu:1`)."""
    match = re.fullmatch(r"(?:cuda|gpu)(?::(\d+))?", device or "cpu")
    if not match and device not in (None, "cpu"):
        raise InputError(f"unknown device {device!r} for TensorFlow; use cpu, cuda or cuda:N")
    with quiet():
        import tensorflow as tf
        import tensorflow_hub  # noqa: F401
        import tensorflow_text  # noqa: F401 (it registers operations that models need, SentencepieceOp for one)

        with suppress(RuntimeError):  # it runs already: the number is set once a process
            tf.config.threading.set_intra_op_parallelism_threads(n_threads())
        gpus = tf.config.list_physical_devices("GPU")
        number = int(match[1] or 0) if match else None
        if number is not None and number >= len(gpus):
            raise InputError(f"device {device!r}: TensorFlow sees {len(gpus)} GPUs here; leave out `device`")
        try:
            # All or none, once a process: TensorFlow takes the memory of those that it sees, which PyTorch may need.
            tf.config.set_visible_devices([] if number is None else gpus, "GPU")
            for gpu in gpus if number is not None else []:
                tf.config.experimental.set_memory_growth(gpu, True)
        except RuntimeError:  # it runs already
            if number is not None and not tf.config.get_visible_devices("GPU"):
                raise InputError(f"device {device!r}: TensorFlow already runs without GPU in this process") from None
    return "cpu" if number is None else f"gpu:{number}"


def _open(folder: Path, device: str) -> Any:
    import tensorflow as tf
    import tensorflow_hub as hub

    try:
        with quiet(), tf.device(device):
            return hub.load(str(folder))
    except Exception as error:  # OSError, DecodeError, DataLossError, NotFoundError, ...
        unknown = re.search(r"Op type not registered '(\w+)'", str(error))
        if unknown:
            raise InputError(
                f"the SavedModel {folder} needs the operation {unknown[1]}, which neither TensorFlow nor "
                "tensorflow_text has; it runs only where the library that defines it is"
            ) from error
        raise InputError(
            f"cannot load the SavedModel {folder} (damaged, or cut short?): {one_line(error)}; "
            "delete it, then copy or fetch it again"
        ) from error


def _runs_foreign_code(location: str | None, options: Mapping[str, str]) -> bool:
    """A SavedModel is a program. Only the four of the aliases are trusted, by their handles and not as folders."""
    places = [place for place in (location, options.get("preprocessor")) if place is not None]
    return any(local_folder(place) or handle_of(place) not in _KNOWN for place in places)


tfhub = EncoderInfo(
    factory=load,
    description="any SavedModel that makes vectors of strings: a TF-Hub handle or a folder",
    backend="tensorflow-hub",
    is_kind=True,
    location_form="HANDLE-or-DIR",
    extra="tfhub",
    modules=("tensorflow", "tensorflow_hub", "tensorflow_text"),
    runs_code=_runs_foreign_code,
)


def _alias(handle: str, description: str, *, cite: str, dim: int, mb: float, **options: str) -> EncoderInfo:
    """An alias of a model of tfhub.dev; `mb` is the size of its archives in MB (10^6 bytes)."""
    handles = [handle, *(value for key, value in options.items() if key == "preprocessor")]
    return replace(
        tfhub,
        description=description,
        is_kind=False,
        location=handle,
        options=options,
        dim=dim,
        licence="Apache-2.0",
        cite=cited(cite),
        missing_mb=lambda location: 0.0 if all(map(cached_model, handles)) else mb,
        fetch=lambda: list(map(find, handles)),
    )


muse_tfhub = _alias(
    _MUSE,
    "mUSE (universal-sentence-encoder-multilingual v3, CNN), 16 languages",
    cite="yang-etal-2020-multilingual",
    dim=512,
    mb=257,
)
muse_large = _alias(
    _MUSE_LARGE,
    "mUSE large (universal-sentence-encoder-multilingual-large v3, Transformer), 16 languages: the paper's mUSE",
    cite="yang-etal-2020-multilingual",
    dim=512,
    mb=318,
)
labse_tfhub = _alias(
    _LABSE,
    "LaBSE from its authors' SavedModel, 109 languages",
    cite="feng-etal-2022-language",
    dim=768,
    mb=1_750,
    preprocessor=_LABSE_PREPROCESSOR,
    output="default",
    normalize="true",  # as its authors do
)
