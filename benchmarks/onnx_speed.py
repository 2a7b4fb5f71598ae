"""A model in ONNX beside the same one in PyTorch: all encode the same sentences in one run, in turn.

    python benchmarks/onnx_speed.py [--model minilm] [--sentences 400] [--repeats 5] [--data-dir DIR] [--settings]

Exports the model (or takes the folder of `--exported`), and times the adapter of PyTorch in float32, with --bf16 in
bfloat16 too, and `onnx:` in float32, in int8 one sentence at a time (as it is by default) and in int8 with 8. Prints a
Markdown table: the median seconds, the median and the range of their ratios to PyTorch's in float32 of the same round,
and the vectors' mean cosine with those. With --settings: what the settings of `onnx:` in float32 cost, in ratios to its
own: sentences at a time, and all cores on one batch in place of one batch a core.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
from overhead import sentences_for

from baselines.adapters import onnx_runtime
from baselines.export_onnx import INT8_FILE, Quantisation, export_onnx
from harness import load_encoder
from harness.core.threads import n_threads
from harness.encoders.encoder import normalise

Encode = Callable[[list[str]], np.ndarray]


def of_pytorch(model: str, exported: str, has_bf16: bool) -> dict[str, Encode]:
    joint = "&" if "?" in model else "?"
    encoders = {
        "PyTorch, float32": load_encoder(f"{model}{joint}device=cpu"),
        "onnx, float32": onnx_runtime.load(exported),
        "onnx, int8": onnx_runtime.load(exported, file=INT8_FILE),
        "onnx, int8, 8 at a time": onnx_runtime.load(exported, file=INT8_FILE, batch_size=8),
    }
    if has_bf16:
        encoders["PyTorch, bf16"] = load_encoder(f"{model}{joint}device=cpu&precision=bf16")
    return {name: encoder.encode for name, encoder in encoders.items()}


def of_settings(exported: str) -> dict[str, Encode]:
    encoders = {f"{size} at a time": onnx_runtime.load(exported, batch_size=size) for size in (8, 1, 4, 16, 32)}
    with mock.patch.object(onnx_runtime, "_session", all_cores):
        together = onnx_runtime.load(exported)

    def one_after_another(sentences: list[str]) -> np.ndarray:
        with mock.patch.object(onnx_runtime, "MAX_WORKERS", 1):
            return together.encode(sentences)

    return {
        **{name: encoder.encode for name, encoder in encoders.items()},
        f"8 at a time, {n_threads()} cores on a batch": one_after_another,
    }


def all_cores(name: str, path: Path, device: str) -> object:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = n_threads()
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def measure(encoders: dict[str, Encode], sentences: list[str], repeats: int) -> None:
    """Time all in turn, and print the table; the first one is what the others are compared with."""
    vectors = {name: normalise(encode(sentences)) for name, encode in encoders.items()}  # it warms up, too
    seconds: dict[str, list[float]] = {name: [] for name in encoders}
    for _ in range(repeats):
        for name, encode in encoders.items():
            start = time.perf_counter()
            encode(sentences)
            seconds[name].append(time.perf_counter() - start)
    first = next(iter(encoders))
    print(f"| {len(sentences):,} sentences, {repeats} rounds | seconds | ratio (range) | mean cosine |")
    print("|---|--:|--:|--:|")
    for name, times in seconds.items():
        ratios = [own / other for own, other in zip(times, seconds[first], strict=True)]
        cosine = float((vectors[name] * vectors[first]).sum(axis=1).mean())
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"| {name} | {statistics.median(times):.2f} | {spread} | {cosine:.4f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--exported", type=Path, help="its export, with int8; by default it is made")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--settings", action="store_true")
    parser.add_argument("--sentences", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--data-dir")
    options = parser.parse_args()
    sentences = sentences_for(options.sentences, options.data_dir)
    with tempfile.TemporaryDirectory() as folder:
        exported = options.exported or Path(folder) / "exported"
        if options.exported is None:
            export_onnx(options.model, exported, quantize=Quantisation.int8)
        if options.settings:
            measure(of_settings(str(exported)), sentences, options.repeats)
        else:
            measure(of_pytorch(options.model, str(exported), options.bf16), sentences, options.repeats)


if __name__ == "__main__":
    main()
