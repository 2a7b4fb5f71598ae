"""Steps of a transformer student: batches as they come, in parts by length, with plain attention, without dropout.

    python benchmarks/training.py --pairs NAME.en-de.tsv.gz [--student e5-small-q4] [--batch-size 128] [--repeats 4]

Forward and backward of sources and targets, without an optimiser; all ways have the same batches, in turn. Prints the
sentences a second of each, and the ratio to the first, which is what sentence-transformers' trainer does.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from baselines.adapters.huggingface import open_model, torch_dtype
from baselines.training.nli import open_start, resolve_start
from baselines.training.trainer import freeze_layers
from distill.losses import embed
from distill.students import set_up
from harness.data.corpora import open_corpus, read_pairs

_MAX_LENGTH = 64  # tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", required=True, nargs="+", help="files of parallel sentences, drawn from together")
    parser.add_argument("--student", default="e5-small-q4")
    parser.add_argument("--freeze-layers", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="bf16")
    options = parser.parse_args()

    pairs = [pair for file in options.pairs for pair in read_pairs(open_corpus(file, source_lang="en"))]
    batches = [random.Random(number).sample(pairs, options.batch_size) for number in range(options.repeats)]
    location, prompt = resolve_start(options.student)
    ways: dict[str, tuple[int | None, Callable[[Any], None] | None]] = {
        "as they come": (options.batch_size, None),
        "in parts": (None, None),
        "in parts, plain attention": (None, partial(set_up, dropout=None)),
        "... and no dropout": (None, partial(set_up, dropout=0.0)),
    }
    students: dict[str, Any] = {}
    for name, (_, change) in ways.items():
        students[name], _ = open_model(location, None, lambda source: open_start(source, on_cpu=False))
        students[name].max_seq_length = _MAX_LENGTH
        freeze_layers(students[name].train(), options.freeze_layers)
        if change:
            change(students[name])
    taken = dict.fromkeys(ways, 0.0)
    for number, batch in enumerate((batches[0], *batches)):
        for name, (part, _) in ways.items():
            start = time.perf_counter()
            step(students[name], batch, part, prompt or "", options.precision)
            taken[name] += time.perf_counter() - start if number else 0.0  # the first is to warm up
    n_sentences = 2 * options.batch_size * options.repeats
    for name, seconds in taken.items():
        print(f"{name:26} {n_sentences / seconds:7.1f} sentences/s  {taken['as they come'] / seconds:5.2f}")


def step(student: Any, batch: list[tuple[str, str]], part: int | None, prompt: str, precision: str) -> None:
    """One step's gradients; the loss has no part in the time."""
    device = student.device
    total = torch.zeros((), device=device)
    for texts in zip(*batch, strict=True):
        features = {
            name: value.to(device) if isinstance(value, torch.Tensor) else value
            for name, value in student.preprocess(list(texts), prompt=prompt).items()
        }
        with torch.autocast(device.type, torch_dtype("bf16"), enabled=precision == "bf16"):
            total = total + embed(student, features, part).float().square().sum()
    total.backward()
    student.zero_grad(set_to_none=True)
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
