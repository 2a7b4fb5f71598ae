"""The NumPy encoder against sentence-transformers' own StaticEmbedding."""

import json
import os
import shutil

import numpy as np
import pytest

from distill.static import STUDENT, load
from harness.core.errors import InputError
from harness.encoders.registry import load_encoder
from harness.testing import SENTENCES, check_encoder

torch = pytest.importorskip("torch")
sentence_transformers = pytest.importorskip("sentence_transformers")
safetensors_numpy = pytest.importorskip("safetensors.numpy")
torch.set_num_threads(1)

TEXTS = [*SENTENCES, "", " ", "a", "one two three one", "lone \ud800 surrogate", "żółć one"]


def tiny_tokenizer():
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    letters = sorted({letter for text in SENTENCES for letter in text.lower()} - {" "})[:60]
    pieces = [("<unk>", 0.0), ("▁", -3.0), ("▁one", -2.0), ("▁man", -2.0), ("tt", -2.5)] + [(x, -4.0) for x in letters]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer


def write_static(folder, *, normalise=False, truncation=None, **options):
    """A folder as sentence-transformers saves it; returns its table, too."""
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding

    tokenizer = tiny_tokenizer()
    if truncation:
        tokenizer.enable_truncation(truncation)
    table = np.random.default_rng(5).standard_normal((tokenizer.get_vocab_size(), 12)).astype(np.float32)
    modules = [StaticEmbedding(tokenizer, embedding_weights=table.copy()), *([Normalize()] if normalise else [])]
    sentence_transformers.SentenceTransformer(modules=modules, device="cpu", **options).save_pretrained(str(folder))
    return table


def by_library(folder, texts=TEXTS, **options):
    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu", **options)
    return model.encode([text.replace("\ud800", "\ufffd") for text in texts], show_progress_bar=False)


def cosines(ours, theirs):
    scale = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    return np.where(scale > 0, (ours * theirs).sum(axis=1) / np.where(scale > 0, scale, 1), 1)


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("truncate_dim", [None, 5])
def test_vectors_are_the_librarys(tmp_path, normalise, truncate_dim):
    write_static(tmp_path / "m", normalise=normalise)
    found = load_encoder(f"static:{tmp_path / 'm'}" + (f"?truncate_dim={truncate_dim}" if truncate_dim else ""))
    found = found.encode(TEXTS)
    assert found.shape == (len(TEXTS), truncate_dim or 12) and found.dtype == np.float32
    whole, part = by_library(tmp_path / "m"), by_library(tmp_path / "m", truncate_dim=truncate_dim)
    lengths = [np.linalg.norm(x, axis=1, keepdims=True) for x in (whole, part)]
    factors = np.divide(*lengths, out=np.zeros_like(lengths[0]), where=lengths[1] > 0)
    np.testing.assert_allclose(found, part * factors, rtol=1e-5, atol=1e-6)
    assert not found[TEXTS.index("")].any()


@pytest.mark.parametrize(
    "options",
    [
        {"truncation": 4},
        {"truncate_dim": 7},
        {"prompts": {"query": "one one "}, "default_prompt_name": "query"},
    ],
)
def test_what_the_folder_says_of_tokens_prompt_and_dimensions_holds(tmp_path, options):
    write_static(tmp_path / "plain")
    write_static(tmp_path / "m", **options)
    theirs = by_library(tmp_path / "m")
    np.testing.assert_allclose(load(str(tmp_path / "m")).encode(TEXTS), theirs, rtol=1e-5, atol=1e-6)
    plain = load(str(tmp_path / "plain"))
    assert theirs.shape[1] < 12 or not np.allclose(theirs, plain.encode(TEXTS))
    assert load(str(tmp_path / "m")).fingerprint != plain.fingerprint


@pytest.mark.parametrize("scale_type", [np.float16, np.float32])
@pytest.mark.parametrize("has_mapping", [False, True])
def test_model2vecs_compact_form(tmp_path, scale_type, has_mapping):
    table = write_static(tmp_path / "m")
    random = np.random.default_rng(0)
    tensors = {"embeddings": random.integers(-127, 128, (len(table), 12)).astype(np.int8)}
    tensors["weights"] = random.uniform(0.001, 0.02, len(table)).astype(scale_type)
    if has_mapping:
        tensors["mapping"] = random.integers(0, 9, len(table))
        tensors["embeddings"] = tensors["embeddings"][:9]
    safetensors_numpy.save_file(tensors, tmp_path / "m" / "model.safetensors")
    ours, theirs = load(str(tmp_path / "m")).encode(TEXTS), by_library(tmp_path / "m")
    assert cosines(ours, theirs).min() > 1 - 1e-6
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_it_keeps_the_promises_of_an_encoder(tmp_path):
    write_static(tmp_path / "m", normalise=True)
    check_encoder(load_encoder(f"static:{tmp_path / 'm'}?name=tiny"))


def test_more_sentences_than_a_block(tmp_path, monkeypatch):
    write_static(tmp_path / "m")
    encoder = load(str(tmp_path / "m"))
    whole = encoder.encode(TEXTS)
    monkeypatch.setattr("distill.static._BLOCK", 4)
    np.testing.assert_array_equal(encoder.encode(TEXTS), whole)


def _no_weights(folder):
    (folder / "model.safetensors").unlink()


def _cut_off(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def _other_tensors(folder):
    safetensors_numpy.save_file({"bias": np.zeros(3, dtype=np.float32)}, folder / "model.safetensors")


def _one_dimensional(folder):
    safetensors_numpy.save_file({"embedding.weight": np.zeros(300, dtype=np.float32)}, folder / "model.safetensors")


def _too_few_rows(folder):
    safetensors_numpy.save_file({"embedding.weight": np.zeros((3, 4), dtype=np.float32)}, folder / "model.safetensors")


def _mapping_outside(folder):
    tensors = {"embeddings": np.zeros((3, 4), dtype=np.int8), "mapping": np.full(100, 3)}
    safetensors_numpy.save_file(tensors, folder / "model.safetensors")


def _no_tokenizer(folder):
    (folder / "tokenizer.json").unlink()


def _tokenizer_is_no_json(folder):
    (folder / "tokenizer.json").write_text("{", encoding="utf-8")


def _modules_are_no_json(folder):
    (folder / "modules.json").write_text("[", encoding="utf-8")


def _modules_are_a_word(folder):
    (folder / "modules.json").write_text('["static"]', encoding="utf-8")


def _has_a_dense_layer(folder):
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    modules.append({"idx": 1, "name": "1", "path": "1_Dense", "type": "sentence_transformers.models.Dense"})
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")


def _settings_are_a_list(folder):
    (folder / "config_sentence_transformers.json").write_text("[]", encoding="utf-8")


def _module_in_a_number(folder):
    (folder / "modules.json").write_text('[{"type": "x.StaticEmbedding", "path": 5}]', encoding="utf-8")


def _nested(name):
    return lambda folder: (folder / name).write_text("[" * 100_000, encoding="utf-8")


def _dimensions(value):
    settings = f'{{"truncate_dim": {value}}}'
    return lambda folder: (folder / "config_sentence_transformers.json").write_text(settings, encoding="utf-8")


def _fifo(name):
    def damage(folder):
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return damage


@pytest.mark.parametrize(
    "damage, message",
    [
        (_no_weights, "cannot load the static model.*[Nn]o such file"),
        (_cut_off, "cannot load the static model"),
        (_other_tensors, "no table embedding.weight"),
        (_one_dimensional, "no table embedding.weight"),
        (_too_few_rows, "3 vectors for .* tokens"),
        (_mapping_outside, "cannot load the static model.*out of bounds"),
        (_no_tokenizer, "cannot load the static model"),
        (_tokenizer_is_no_json, "cannot load the static model"),
        (_modules_are_no_json, "modules.json: no list of modules .*; copy"),
        (_modules_are_a_word, "modules.json: no list of modules"),
        (_has_a_dense_layer, "StaticEmbedding . Dense is no static model; use sentence-transformers:DIR"),
        (_settings_are_a_list, "config_sentence_transformers.json: no settings"),
        (_module_in_a_number, "modules.json: no list of modules .*path"),
        (_nested("modules.json"), "modules.json: no list of modules .nested too deeply"),
        (_nested("config_sentence_transformers.json"), "no settings of sentence-transformers .nested too deeply"),
        (_dimensions("-5"), "config_sentence_transformers.json: no settings .*truncate_dim"),
        (_dimensions("1e400"), "config_sentence_transformers.json: no settings .*out of range"),
        (_dimensions('"five"'), "config_sentence_transformers.json: no settings .*truncate_dim"),
        (_fifo("modules.json"), "modules.json: a fifo"),
        (_fifo("model.safetensors"), "model.safetensors: a fifo"),
        (_fifo("tokenizer.json"), "tokenizer.json: a fifo"),
        (shutil.rmtree, "no model folder"),
    ],
)
def test_a_bad_folder_is_one_line(tmp_path, damage, message):
    write_static(tmp_path / "m")
    damage(tmp_path / "m")
    with pytest.raises(InputError, match=message) as caught:
        load(str(tmp_path / "m"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("truncate_dim", [0, 13])
def test_dimensions_that_are_not_there(tmp_path, truncate_dim):
    write_static(tmp_path / "m")
    with pytest.raises(InputError, match=f"truncate_dim must be 1 (to 12|or more), not {truncate_dim}"):
        load_encoder(f"static:{tmp_path / 'm'}?truncate_dim={truncate_dim}")


def test_size_and_parameters():
    from safetensors import safe_open

    encoder = load(str(STUDENT))
    with safe_open(STUDENT / "model.safetensors", framework="numpy") as file:
        tokens, n_bytes = file.get_slice("embeddings.int4").get_shape()
    assert encoder.n_parameters == tokens * 2 * n_bytes  # two numbers a byte
    read = ("model.safetensors", "tokenizer.json")
    assert encoder.size_bytes == sum((STUDENT / name).stat().st_size for name in read)
