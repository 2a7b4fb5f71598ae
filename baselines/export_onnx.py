"""`leaderboard export-onnx`: a sentence-transformers model as ONNX, for `onnx:DIR`, by PyTorch's own exporter."""

from __future__ import annotations

import importlib.util
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from harness.cli import say
from harness.cli.options import CacheDirOption

if TYPE_CHECKING:
    from baselines.adapters.sentence_transformer import SentenceTransformerEncoder

INT8_FILE = "onnx/model_qint8.onnx"
"""Where the graph in int8 is, in the transformer's folder, by the names of sentence-transformers."""

_MODULES = ("sentence_transformers", "onnx", "onnxscript", "onnxruntime")
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_OPSET = 18  # the first with all that the exporter writes without conversion
_LARGEST = 1.9e9  # bytes of weights; a file of protobuf's ends at 2 GB
_TOLERANCE = 1e-4
_BATCH_SIZES = (1, 3, 16)
_LONGEST_TEXT = 512
_LONG = "the committee had met twice before without result "


class Quantisation(str, Enum):
    """What weights and activations become."""

    int8 = "int8"


def export_onnx(
    model: Annotated[str, typer.Argument(help="A folder, a hub id, or an encoder: alias or KIND:LOCATION?option=...")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write.")],
    quantize: Annotated[
        Quantisation | None, Option(help=f"Write the graph in int8, too, as {INT8_FILE}: smaller and less exact.")
    ] = None,
    cache_dir: CacheDirOption = None,
) -> None:
    """Export a model to ONNX. The folder OUT is for the encoder onnx:OUT, which needs no PyTorch.

    It has the files that sentence-transformers saves, but for the weights, which are in onnx/model.onnx. Its vectors
    are compared with those of PyTorch for sentences of several lengths and batches of several sizes; if they differ by
    more than 1e-4 in float32, nothing is written. The prompt and the maximum length that the encoder has become the
    model's own: `export-onnx e5-small-q4 OUT` keeps `query: `.

    Example: leaderboard export-onnx minilm minilm-onnx
    """
    from harness.core.errors import InputError, MissingExtraError
    from harness.core.files import new_folder, user_path

    if any(importlib.util.find_spec(module) is None for module in _MODULES):
        raise MissingExtraError("export-onnx", "export")
    out = user_path(out)
    if out.exists() or out.is_symlink():
        raise InputError(f"{out} is there already; delete it, or name another folder")
    encoder = _open(model)
    with new_folder(out) as part, _quiet():
        base = _save_without_weights(encoder, part)
        _write_graph(encoder.model[0], base / "onnx" / "model.onnx")
        apart = _largest_difference(encoder, part)
        say(f"float32: vectors differ from PyTorch's by {apart:.1e} at most")
        if quantize:
            _quantise(base / "onnx" / "model.onnx", base / INT8_FILE)
            mean, least = _cosines(encoder, part, (base / INT8_FILE).relative_to(part))
            say(f"int8: cosine with PyTorch's vectors {mean:.4f} in the mean, {least:.4f} at least")
    for path in sorted(out.rglob("*.onnx*")):
        say(f"{path.relative_to(out)}: {path.stat().st_size / 1e6:.3g} MB")
    typer.echo(out)


def _open(model: str) -> SentenceTransformerEncoder:
    """The encoder that `model` names: a folder, a hub id or a spec string. Raises InputError if it is not for this."""
    import torch

    from baselines.adapters.huggingface import model_folder
    from baselines.adapters.sentence_transformer import SentenceTransformerEncoder
    from harness.core.errors import InputError
    from harness.encoders.registry import encoder_names, load_encoder
    from harness.encoders.spec import Spec, parse_spec

    head = model.partition("?")[0].partition(":")[0]
    if model_folder(model) or head not in encoder_names():
        spec = Spec("sentence-transformers", model, {"name": "export"})
    else:
        spec = parse_spec(model)
    encoder = load_encoder(spec, device="cpu")
    if not isinstance(encoder, SentenceTransformerEncoder) or not hasattr(encoder.model[0], "auto_model"):
        raise InputError(f"{model!r} is no transformer of sentence-transformers, and cannot be exported")
    if next(encoder.model[0].parameters()).dtype != torch.float32:
        raise InputError(f"{model!r}: give it without precision; it is exported in float32")
    if not getattr(encoder.model.tokenizer, "is_fast", False):
        raise InputError(f"{model!r} has no tokenizer.json, without which onnx: cannot read it; it cannot be exported")
    return encoder


def _save_without_weights(encoder: SentenceTransformerEncoder, folder: Path) -> Path:
    """Save all files of a model but the transformer's weights; returns the transformer's folder. Raises InputError."""
    from baselines.adapters.model_files import listed_modules
    from baselines.adapters.numpy_modules import read_modules
    from baselines.training.model_folder import save_model

    model = encoder.model
    if encoder.prompt != (model.prompts.get(model.default_prompt_name or "") or ""):
        model.prompts = {**model.prompts, "query": encoder.prompt, "document": encoder.prompt}
        model.default_prompt_name = "query" if encoder.prompt else None
    save_model(model, folder)
    modules = listed_modules(folder) or []
    read_modules(folder, modules[1:])  # refuses what onnx: cannot do before the graph, which takes longest
    base = folder / modules[0].path
    for path in [*base.glob("model*.safetensors*"), *base.glob("pytorch_model*")]:
        path.unlink()
    return base


def _write_graph(transformer: Any, path: Path) -> None:
    """Export the transformer of a model, from token numbers to the vectors of tokens, in float32."""
    import torch

    class Graph(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.transformer = transformer.auto_model

        def forward(self, *features: Any) -> Any:
            given = dict(zip(names, features, strict=True))
            return self.transformer(**given, **options).last_hidden_state

    from inspect import signature

    from harness.core.errors import InputError, one_line

    known = signature(transformer.auto_model.forward).parameters
    # A decoder would return the keys and values of all layers, too.
    options = {"use_cache": False} if "use_cache" in known else {}
    example = transformer.preprocess(["a man", "a man is playing a guitar"])
    names = [name for name in _INPUTS if name in example and name in known]
    path.parent.mkdir()
    try:
        with torch.inference_mode():
            program = torch.onnx.export(
                Graph().eval(),
                tuple(example[name] for name in names),
                dynamo=True,
                input_names=names,
                output_names=["last_hidden_state"],
                dynamic_shapes=(tuple({0: "batch", 1: "sequence"} for _ in names),),
                opset_version=_OPSET,
                verbose=False,
            )
        size = sum(weight.nbytes for weight in transformer.auto_model.parameters())
        assert program is not None  # it is where dynamo=True
        program.save(str(path), external_data=size > _LARGEST)
    except OSError:
        raise
    except Exception as error:  # the exporter raises errors of many types for what it cannot do
        kind = type(transformer.auto_model).__name__
        raise InputError(f"PyTorch cannot export this {kind} to ONNX: {one_line(error)}") from error


def _quantise(source: Path, target: Path) -> None:
    """Write a graph with its matrices, token vectors included, in int8; activations are scaled as they come.

    A scale for each column is what matters: on STS 2017 en-en, all-MiniLM-L6-v2's vectors then have a mean cosine of
    0.994 with those in float32, and 0.966 with one scale for a matrix. Weights have 7 bits (`reduce_range`), as without
    VNNI instructions a processor's sums of 8-bit products are cut off: the cosine is 0.993 (e5-small-q4: 0.9969 in
    place of 0.9972), and the averages of STS 2017 are 71.5 and 19.2 in place of 71.0 and 18.5 (e5-small-q4: 82.0 and
    67.8 in place of 81.8 and 68.0), which is noise. Token vectors in int8 cost 0.0003, and the file is 23 MB in place
    of 59.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(
        source,
        target,
        op_types_to_quantize=["MatMul", "Gemm", "Gather"],
        per_channel=True,
        reduce_range=True,
        weight_type=QuantType.QInt8,
        use_external_data_format=len(list(source.parent.iterdir())) > 1,
    )


def _texts(encoder: SentenceTransformerEncoder) -> list[str]:
    """Sentences in several scripts, and of lengths up to where they are cut, or to 512 words."""
    from harness.testing import SENTENCES

    longest = min(encoder.model.max_seq_length or _LONGEST_TEXT, _LONGEST_TEXT)
    words = _LONG * (longest // len(_LONG.split()) + 1)
    return [*SENTENCES, "", *(" ".join(words.split()[:n]) for n in (1, 2, 5, 40, longest // 2, longest))]


def _largest_difference(encoder: SentenceTransformerEncoder, folder: Path) -> float:
    """How far vectors are from PyTorch's, as a part of the longest one's norm. Raises InputError if it is too far."""
    import numpy as np

    from baselines.adapters import onnx_runtime
    from harness.core.errors import InputError

    texts = _texts(encoder)
    wanted = encoder.encode(texts)
    norm = float(np.linalg.norm(wanted, axis=1).max())
    apart = 0.0
    for batch_size in _BATCH_SIZES:
        found = onnx_runtime.load(str(folder), batch_size=batch_size).encode(texts)
        if found.shape != wanted.shape:
            raise InputError(f"the graph's vectors have {found.shape[1]} numbers, PyTorch's {wanted.shape[1]}")
        apart = max(apart, float(np.abs(found - wanted).max()) / norm)
    if not apart < _TOLERANCE:
        raise InputError(
            f"the graph's vectors differ from PyTorch's by {apart:.1e}, more than {_TOLERANCE:g}; nothing was written"
        )
    return apart


def _cosines(encoder: SentenceTransformerEncoder, folder: Path, file: Path) -> tuple[float, float]:
    """The mean and the least cosine of a graph's vectors with PyTorch's."""
    from baselines.adapters import onnx_runtime
    from harness.encoders.encoder import normalise

    texts = _texts(encoder)
    found = onnx_runtime.load(str(folder), file=file.as_posix()).encode(texts)
    cosines = (normalise(found) * normalise(encoder.encode(texts))).sum(axis=1)
    return float(cosines.mean()), float(cosines.min())


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings of exporter and quantiser, which are of their own insides."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
