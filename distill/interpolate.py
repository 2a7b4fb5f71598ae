"""Weights between a start and what was trained from it: what a training forgets, given back for some of what it learnt.

Wortsman et al. 2022, "Robust fine-tuning of zero-shot models" (WiSE-FT), equation 1: (1 - share) * start + share *
trained, weight by weight. A student that is trained on few corpora is better on their kind of sentences and worse on
others; half-way it keeps most of both, and costs nothing more to run.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from baselines.huggingface import folder_digest, open_model, quiet
from baselines.model_folder import as_json
from baselines.nli import open_start, resolve_start
from harness.errors import InputError
from harness.files import new_folder

RECORD_FILE = "interpolation.json"
"""What the folder says of it: start, share, and the SHA-256 of what was trained."""

_COPIED = (".json", ".md", ".png")
_UNUSED = "pooler."  # no part of mean pooling, and random where the start's file has none


def interpolate(trained: Path, start: str, share: float, out: Path) -> None:
    """Write the transformer student that is `share` of the way from its start to itself.

    The start may have more layers, and more tokens: those are taken that the student kept. Layers that only the
    student has (a projection) stay as they are trained.

    Args:
        trained: folder of the student.
        start: what it was trained from: a folder, a hub id, or the alias of such an encoder.
        share: 0 to 1; 0.5 is what the paper recommends where no data of the wanted kind can decide.
        out: folder to write; it must not be there.

    Raises:
        InputError: no such model, no transformer, a start with other weights than the student's, or a folder that is
            there already or cannot be written.
    """
    if not 0 <= share <= 1:
        raise InputError(f"--share is between 0 (the start) and 1 (the student), not {share:g}")
    if out.exists():
        raise InputError(f"{out} is there already; delete it, or name another folder")
    if not trained.is_dir():
        raise InputError(f"no model folder {str(trained)!r}")
    model = _open(str(trained))
    begin = _open(resolve_start(start)[0])
    _blend(model, begin, share, f"{start!r} is not what {trained.name!r} was trained from")
    with new_folder(out) as part:
        with quiet():
            model.save_pretrained(str(part), create_model_card=False)
        for path in trained.iterdir():  # report, curve, record: what the library has not written itself
            if path.suffix in _COPIED and not (part / path.name).exists():
                shutil.copyfile(path, part / path.name)
        record = {"start": start, "share": share, "trained_sha256": folder_digest(trained)}
        (part / RECORD_FILE).write_bytes(as_json(record))


def _open(location: str) -> Any:
    model, _ = open_model(location, None, lambda source: open_start(source, on_cpu=True))
    if model.transformers_model is None:
        raise InputError(f"{location!r} has no transformer; weights are interpolated between transformers")
    return model


def _blend(model: Any, begin: Any, share: float, mismatch: str) -> None:
    """Move the model's weights towards the start's, in place; `mismatch` begins the error if they do not fit."""
    import torch

    tokens, others = model.tokenizer.get_vocab(), begin.tokenizer.get_vocab()
    if not tokens.keys() <= others.keys():
        raise InputError(f"{mismatch}: it lacks tokens such as {min(tokens.keys() - others.keys())!r}")
    rows = torch.tensor([others[token] for token in sorted(tokens, key=tokens.__getitem__)])
    table = model.transformers_model.get_input_embeddings().weight
    starts = dict(begin.transformers_model.named_parameters())
    with torch.no_grad():
        for name, weight in model.transformers_model.named_parameters():
            if name.startswith(_UNUSED):
                continue
            first = starts.get(name)
            if first is not None and weight is table and len(first) != len(table):
                first = first[rows]
            if first is None or first.shape != weight.shape:
                raise InputError(f"{mismatch}: its weights {name} are missing or of another shape")
            weight.lerp_(first.to(weight), 1 - share)
