"""A model in ONNX of a few hundred numbers, in the folder of a sentence-transformers model: no torch is needed.

The vector of a token is its row of a table, times a matrix.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *("a", "man", "is", "playing", "the", "guitar")]
WORDS += ["ein", "mann", "spielt", "gitarre", "query", ":", "A"]
TEXTS = [
    "a man is playing the guitar",
    "ein mann",
    "gitarre",
    "",
    "A man",
    "the the the the the the the the the the the the",
    "what no vocabulary has",
    "a \ud800 man",
]
DIM = 6
MAX_LENGTH = 8


def weights(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The table (tokens, 8) and the matrix (8, DIM)."""
    random = np.random.default_rng(seed)
    return random.standard_normal((len(WORDS), 8)).astype("f4"), random.standard_normal((8, DIM)).astype("f4")


def token_numbers(text: str, max_length: int = MAX_LENGTH) -> list[int]:
    """The numbers of a text's tokens, [CLS] and [SEP] included, by plain Python."""
    words = [WORDS.index(word) if word in WORDS else 1 for word in text.replace(":", " : ").split()]
    return [2, *words[: max_length - 2], 3]


def token_vectors(text: str, max_length: int = MAX_LENGTH, seed: int = 0) -> np.ndarray:
    """What the graph makes of a text, by plain NumPy: (tokens, DIM)."""
    table, matrix = weights(seed)
    return table[token_numbers(text, max_length)] @ matrix


def write_graph(
    path: Path,
    *,
    seed: int = 0,
    inputs: tuple[str, ...] = ("input_ids", "attention_mask"),
    integers: str = "INT64",
    output: str = "last_hidden_state",
    sizes: tuple[Any, Any] = ("batch", "sequence"),
    external: str | None = None,
) -> Path:
    """The graph alone. `output` `sentence_embedding`: the sum over all tokens, padding left out.

    external: where the graph says that the table is; nothing is written there.
    """
    from onnx import TensorProto, helper, numpy_helper

    table, matrix = (numpy_helper.from_array(array, name) for array, name in zip(weights(seed), "TM", strict=True))
    if external is not None:
        table.ClearField("raw_data")
        table.data_location = TensorProto.EXTERNAL
        entry = table.external_data.add()
        entry.key, entry.value = "location", external
    nodes = [helper.make_node("Gather", ["T", "input_ids"], ["rows"])]
    if output == "sentence_embedding":
        nodes += [
            helper.make_node("MatMul", ["rows", "M"], ["states"]),
            helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["mask", "two"], ["wide"]),
            helper.make_node("Mul", ["states", "wide"], ["kept"]),
            helper.make_node("ReduceSum", ["kept", "one"], [output], keepdims=0),
        ]
    else:
        nodes.append(helper.make_node("MatMul", ["rows", "M"], [output]))
    shape = (sizes[0], DIM) if output == "sentence_embedding" else (*sizes, DIM)
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, getattr(TensorProto, integers), sizes) for name in inputs],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
        [table, matrix, *(numpy_helper.from_array(np.array([i]), name) for i, name in ((1, "one"), (2, "two")))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    return path


def write_model(
    folder: Path,
    *,
    pooling: dict[str, Any] | None = None,
    after: tuple[str, ...] = (),
    settings: dict[str, Any] | None = None,
    sentences: dict[str, Any] | None = None,
    **graph: Any,
) -> Path:
    """The folder. `pooling`: the configuration of that module; `after`: the modules after it."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_padding(length=5)  # as some files on the hub have it, and no reader wants it
    write_graph(folder / "onnx" / "model.onnx", **graph)
    tokenizer.save(str(folder / "tokenizer.json"))
    modules = ["Transformer", "Pooling", *after]
    listed = [{"type": f"x.{kind}", "path": f"{i}_{kind}" if i else ""} for i, kind in enumerate(modules)]
    write_json(folder / "modules.json", listed)
    write_json(folder / "1_Pooling" / "config.json", pooling or {"pooling_mode": "mean"})
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": MAX_LENGTH, **(sentences or {})})
    write_json(folder / "config.json", {"model_type": "bert", "max_position_embeddings": 20, "pad_token_id": 0})
    if settings:
        write_json(folder / "config_sentence_transformers.json", settings)
    return folder


def write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
