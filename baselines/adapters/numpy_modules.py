"""What follows a transformer in a sentence-transformers model, in NumPy: pooling, dense layers, normalisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from baselines.adapters.model_files import MODULES_FILE, Module, read_model_file
from harness.core.errors import InputError, MissingExtraError, one_line
from harness.core.files import refuse_special

Floats = NDArray[np.float32]
PoolingMode = Literal["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]

# The settings of versions before 6, in the order in which their vectors are joined.
_OLD_MODES: dict[str, PoolingMode] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_SHORTEST = 1e-12  # as in torch.nn.functional.normalize


@dataclass(frozen=True)
class _Pooling:
    """What is read of a pooling module's `config.json`, which has `pooling_mode` or settings of older versions."""

    pooling_mode: PoolingMode | list[PoolingMode] | None = None
    pooling_mode_cls_token: bool = False
    pooling_mode_max_tokens: bool = False
    pooling_mode_mean_tokens: bool = False
    pooling_mode_mean_sqrt_len_tokens: bool = False
    pooling_mode_weightedmean_tokens: bool = False
    pooling_mode_lasttoken: bool = False
    include_prompt: bool = True

    @property
    def modes(self) -> list[PoolingMode]:
        if isinstance(self.pooling_mode, list):
            return self.pooling_mode
        if self.pooling_mode is not None:
            return [self.pooling_mode]
        return [mode for setting, mode in _OLD_MODES.items() if getattr(self, setting)] or ["mean"]


@dataclass(frozen=True)
class _Dense:
    """What is read of a dense module's `config.json`."""

    activation_function: str = "torch.nn.modules.activation.Tanh"
    module_input_name: str = "sentence_embedding"
    module_output_name: str | None = None
    use_residual: bool = False


@dataclass(frozen=True)
class _Normalize:
    """What is read of a normalising module's `config.json`."""

    module_input_name: str = "sentence_embedding"
    module_output_name: str | None = None


@dataclass(frozen=True)
class AfterTransformer:
    """What follows a transformer.

    Attributes:
        pooling: how the vectors of a sentence's tokens become one; several are joined.
        includes_prompt: whether pooling takes the tokens of a prompt, too.
        layers: dense layers and normalisation, in order; each takes vectors (n, dim) and gives such.
        files: what was read.
    """

    pooling: Sequence[PoolingMode] = ("mean",)
    includes_prompt: bool = True
    layers: Sequence[Callable[[Floats], Floats]] = ()
    files: Sequence[Path] = ()

    def pooled(self, states: Floats, lengths: NDArray[np.int64]) -> Floats:
        """The vectors (n, modes x dim) of n sentences.

        states: the transformer's output (n, tokens, dim), in which a sentence's tokens come first and padding last.
        lengths: each sentence's number of tokens (n,). The vector of a sentence without tokens is zero.
        """
        return np.concatenate([_pooled(mode, states, lengths) for mode in self.pooling], axis=1)

    def finished(self, vectors: Floats) -> Floats:
        """The vectors (n, dim) after the layers."""
        for layer in self.layers:
            vectors = layer(vectors)
        return vectors


def read_modules(folder: Path, modules: Sequence[Module]) -> AfterTransformer:
    """What the modules say that follow the transformer in the model's `folder`.

    Raises:
        InputError: a module that is not known here, or one whose files are damaged.
        MissingExtraError: safetensors, which a dense layer needs, is not installed.
    """
    kinds = [module.kind for module in modules]
    if kinds[:1] != ["Pooling"] or any(kind not in _LAYERS for kind in kinds[1:]):
        raise InputError(
            f"{folder / MODULES_FILE}: after the transformer {' + '.join(kinds) or 'nothing'}; only Pooling, then "
            f"{' and '.join(_LAYERS)}, are done here, use sentence-transformers:DIR"
        )
    pooling = read_model_file(folder / modules[0].path / "config.json", _Pooling, "configuration of a pooling")
    if not pooling.modes:
        raise InputError(f"{folder / modules[0].path / 'config.json'}: no pooling_mode")
    layers = [_LAYERS[module.kind](folder / module.path) for module in modules[1:]]
    files = [path for module in modules for path in _files_of(folder / module.path, module.kind)]
    return AfterTransformer(pooling.modes, pooling.include_prompt, layers, files)


def _files_of(folder: Path, kind: str) -> list[Path]:
    names = ["config.json", "model.safetensors"] if kind == "Dense" else ["config.json"]
    return [folder / name for name in names if (folder / name).is_file()]


def _pooled(mode: PoolingMode, states: Floats, lengths: NDArray[np.int64]) -> Floats:
    counts = np.maximum(lengths, 1)
    is_token = np.arange(states.shape[1]) < lengths[:, None]
    if mode in ("cls", "lasttoken"):
        rows = states[np.arange(len(states)), 0 if mode == "cls" else counts - 1]
        return np.asarray(rows * (lengths > 0)[:, None])
    if mode == "max":
        highest = np.where(is_token[:, :, None], states, -np.inf).max(axis=1)
        return np.where(lengths[:, None] > 0, highest, 0).astype(np.float32)
    weights = is_token.astype(np.float32)
    if mode == "weightedmean":
        weights *= np.arange(1, states.shape[1] + 1, dtype=np.float32)
        divisors = counts * (counts + 1) / 2
    else:
        divisors = counts if mode == "mean" else np.sqrt(counts)
    # Not einsum, nor a sum over a masked copy: a matrix product does not write an array of the size of `states`.
    summed = np.matmul(weights[:, None, :], states)[:, 0]
    return np.asarray(summed / divisors[:, None].astype(np.float32))


def _dense(folder: Path) -> Callable[[Floats], Floats]:
    config = read_model_file(folder / "config.json", _Dense, "configuration of a dense layer")
    _check_names(folder, config)
    activation = config.activation_function
    name = activation.rpartition(".")[2]
    if not activation.startswith("torch.") or name not in _ACTIVATIONS:
        raise InputError(
            f"{folder / 'config.json'}: the activation {activation!r} is not known here (only "
            f"{', '.join(_ACTIVATIONS)}); use sentence-transformers:DIR"
        )
    tensors = _tensors(folder / "model.safetensors")
    weight, bias = tensors.get("linear.weight"), tensors.get("linear.bias", np.zeros(1, np.float32))
    if weight is None or weight.ndim != 2 or bias.shape not in ((1,), weight.shape[:1]):
        raise InputError(f"{folder / 'model.safetensors'}: no weights of a dense layer; copy the model's folder again")
    residual = tensors.get("residual.weight", np.eye(weight.shape[1], dtype=np.float32))
    if config.use_residual and residual.shape != weight.shape:
        raise InputError(f"{folder / 'model.safetensors'}: no weights of a residual; copy the model's folder again")

    def layer(vectors: Floats) -> Floats:
        if vectors.shape[1] != weight.shape[1]:
            raise InputError(f"{folder}: takes vectors of {weight.shape[1]} numbers, and gets {vectors.shape[1]}")
        result = _ACTIVATIONS[name](vectors @ weight.T + bias)
        return np.asarray(result + vectors @ residual.T if config.use_residual else result)

    return layer


def _normalize(folder: Path) -> Callable[[Floats], Floats]:
    path = folder / "config.json"  # versions before 6 wrote none
    if path.is_file():
        _check_names(folder, read_model_file(path, _Normalize, "configuration of a normalisation"))

    def layer(vectors: Floats) -> Floats:
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.maximum(norms, _SHORTEST))

    return layer


def _check_names(folder: Path, config: _Dense | _Normalize) -> None:
    names = {config.module_input_name, config.module_output_name or config.module_input_name}
    if names != {"sentence_embedding"}:
        raise InputError(
            f"{folder / 'config.json'}: a layer of {' and '.join(sorted(names))}, where only those of "
            "sentence_embedding are done here; use sentence-transformers:DIR"
        )


def _tensors(path: Path) -> dict[str, Floats]:
    """The tensors of a safetensors file, in float32. Raises InputError, MissingExtraError."""
    try:
        from safetensors.numpy import load_file
    except ImportError:
        raise MissingExtraError("a dense layer", "onnx") from None
    refuse_special(path)
    try:
        return {name: np.asarray(tensor, np.float32) for name, tensor in load_file(path).items()}
    except Exception as error:  # the library has error types of its own
        raise InputError(f"{path}: cannot be read ({one_line(error)}); copy the model's folder again") from None


def _gelu(x: Floats) -> Floats:
    from scipy.special import ndtr

    return np.asarray(x * ndtr(x), np.float32)


_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "Tanh": np.tanh,
    "Identity": lambda x: x,
    "ReLU": lambda x: np.maximum(x, 0),
    "GELU": _gelu,
}
_LAYERS: dict[str, Callable[[Path], Callable[[Floats], Floats]]] = {"Dense": _dense, "Normalize": _normalize}
