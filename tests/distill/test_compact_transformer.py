"""Transformers in the compact form: what `distill compact` writes, and what `compact:DIR` makes of it."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from tiny_models import SENTENCES, write_bert, write_sentence_transformer, write_xlm_r

from harness.core.errors import InputError, MissingExtraError
from harness.encoders.cache import default_cache_dir
from harness.testing import check_encoder

torch = pytest.importorskip("torch")
sentence_transformers = pytest.importorskip("sentence_transformers")
torch.set_num_threads(1)

from safetensors.numpy import load_file, save_file  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

from baselines.adapters import sentence_transformer  # noqa: E402
from distill import transformer  # noqa: E402
from distill.compact import compacted, save_compact  # noqa: E402
from distill.transformer import COMPACT_FILE, STUDENT, TRAINING, load, load_student  # noqa: E402  # noqa: E402

MATRIX = "encoder.layer.1.intermediate.dense.weight"


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A student as a training leaves it."""
    place = tmp_path_factory.mktemp("whole")
    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    folder = write_sentence_transformer(place / "student", write_bert(place / "bert"), **prompts)
    (folder / "README.md").write_text("# Card\n", encoding="utf-8")
    (folder / "teacher_projection.safetensors").write_bytes(b"for a further training")
    return folder


@pytest.fixture(scope="module")
def small(whole, tmp_path_factory):
    folder = tmp_path_factory.mktemp("small") / "tiny"
    save_compact(whole, folder)
    return folder


@pytest.fixture
def copy(small, tmp_path):
    return Path(shutil.copytree(small, tmp_path / "copy"))


def cosines(ours, theirs):
    return (ours * theirs).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)


def ordinary(folder):
    return sentence_transformer.load(str(folder), device="cpu").encode(SENTENCES)


def models():
    """What is in the cache, locks aside."""
    folder = default_cache_dir() / "models"
    return sorted(path.name for path in folder.glob("*") if path.suffix != ".lock")


@pytest.mark.parametrize("bits", ["int8", "float16"])
@pytest.mark.parametrize("write", [write_bert, write_xlm_r])
def test_vectors_are_those_of_the_whole_model(write, bits, tmp_path):
    folder = write_sentence_transformer(tmp_path / "whole", write(tmp_path / "start"))
    n_bytes = save_compact(folder, tmp_path / "small", bits=bits)
    assert n_bytes == sum(path.stat().st_size for path in (tmp_path / "small").rglob("*") if path.is_file())
    before, after = ordinary(folder), load(str(tmp_path / "small"), device="cpu").encode(SENTENCES)
    assert cosines(before, after).min() > 0.999 and not np.array_equal(before, after)


def test_a_matrix_is_as_near_as_half_a_step():
    """Against a plain loop over blocks of 64 numbers, or rows that cannot be split so."""
    random = np.random.default_rng(3)
    tensors = {
        "wide": random.standard_normal((5, 192)).astype(np.float32) * random.uniform(0.01, 9, (5, 1)).astype("f4"),
        "odd": random.standard_normal((7, 30)).astype(np.float64),
        "bias": random.standard_normal(192).astype(np.float32),
        "numbers": np.arange(12).reshape(3, 4),
    }
    tensors["wide"][2, 64:128] = 0
    small = compacted(tensors)
    assert {name: small[name].dtype for name in tensors} == {
        "wide": np.int8,
        "odd": np.int8,
        "bias": np.float32,
        "numbers": np.int64,
    }
    assert len(small["wide.scales"]) == 15 and len(small["odd.scales"]) == 7 and len(small) == 6
    for name, width in (("wide", 64), ("odd", 30)):
        blocks = tensors[name].reshape(-1, width).tolist()
        found = small[name].reshape(-1, width).tolist()
        for block, numbers, scale in zip(blocks, found, small[f"{name}.scales"].tolist(), strict=True):
            step = max(map(abs, block)) / 127
            assert step <= scale <= step * 1.001
            assert all(abs(x - n * scale) <= 0.501 * scale for x, n in zip(block, numbers, strict=True))
    restored = transformer._floats(small["wide"], small["wide.scales"])
    assert restored.dtype == np.float32 and restored.shape == (5, 192)
    np.testing.assert_allclose(restored, tensors["wide"], atol=np.abs(tensors["wide"]).max() / 127 * 0.51)
    with pytest.raises(InputError, match="not finite"):
        compacted({"wide": np.full((2, 3), np.nan, dtype=np.float32)})
    with pytest.raises(InputError, match="float16 cannot hold"):
        compacted({"bias": np.full(3, 1e6, dtype=np.float32)}, "float16")


def test_what_is_written(whole, small):
    found = {str(path.relative_to(small)) for path in small.rglob("*") if path.is_file()}
    kept = {str(path.relative_to(whole)) for path in whole.rglob("*") if path.is_file()}
    assert found == kept - {"model.safetensors", "teacher_projection.safetensors"} | {COMPACT_FILE}
    for name in found - {COMPACT_FILE, "tokenizer.json"}:
        assert (small / name).read_bytes() == (whole / name).read_bytes()
    tensors = load_file(whole / "model.safetensors")
    n_matrix = sum(value.size for value in tensors.values() if value.ndim == 2)
    n_other = sum(value.size for value in tensors.values() if value.ndim != 2)
    n_scales = sum(value.size // (64 if value.shape[1] == 64 else 32) for value in tensors.values() if value.ndim == 2)
    stored = (small / COMPACT_FILE).read_bytes()
    header = 8 + int.from_bytes(stored[:8], "little")
    assert len(stored) - header == n_matrix + 2 * n_scales + 4 * n_other


def test_two_runs_write_the_same_bytes(whole, small, tmp_path):
    save_compact(whole, tmp_path / "again")
    for path in small.rglob("*.*"):
        assert path.read_bytes() == (tmp_path / "again" / path.relative_to(small)).read_bytes()


def test_tokens_are_the_same(tmp_path):
    folder = write_sentence_transformer(tmp_path / "whole", write_xlm_r(tmp_path / "start"))
    save_compact(folder, tmp_path / "small")
    before, after = (Tokenizer.from_file(str(tmp_path / name / "tokenizer.json")) for name in ("whole", "small"))
    texts = [*SENTENCES, "unknown żółć", "a <mask> b"]
    for one, other in zip(before.encode_batch(texts), after.encode_batch(texts), strict=True):
        assert (one.ids, one.tokens, one.attention_mask) == (other.ids, other.tokens, other.attention_mask)
    assert before.encode("ok").tokens[0] == "<s>"  # special tokens are there
    assert before.decode([4, 7, 8]) == after.decode([4, 7, 8])
    sizes = [(tmp_path / name / "tokenizer.json").stat().st_size for name in ("whole", "small")]
    assert sizes[1] < 0.8 * sizes[0]


def test_it_keeps_the_promises_of_an_encoder(small):
    check_encoder(load(str(small), device="cpu"))


def test_options_are_those_of_any_sentence_transformer(whole, small):
    options = {"device": "cpu", "prompt": "the ", "max_length": 8, "precision": "bf16"}
    ours, theirs = (f(str(folder), **options) for f, folder in ((load, small), (sentence_transformer.load, whole)))
    assert ours.fingerprint.partition("|")[2] == theirs.fingerprint.partition("|")[2]
    assert ours.name == str(small) and load(str(small), device="cpu", name="n").name == "n"
    assert "prompt:query: |" in load(str(small), device="cpu").fingerprint
    with pytest.raises(InputError, match="max_length must be 3 to 40, not 41"):
        load(str(small), device="cpu", max_length=41)


def test_the_fingerprint_follows_the_content_of_the_folder(small, copy, tmp_path, monkeypatch):
    first = load(str(small), device="cpu").fingerprint
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "other"))
    assert load(str(copy), device="cpu").fingerprint == first and first.startswith("compact/sha256:")
    settings = json.loads((copy / "modules.json").read_text())
    (copy / "modules.json").write_text(json.dumps(settings[:-1]), encoding="utf-8")  # normalises no more
    changed = load(str(copy), device="cpu")
    assert changed.fingerprint != first
    assert np.linalg.norm(changed.encode(["ok"])) != pytest.approx(1)
    assert len(models()) == 2


def test_it_is_restored_once(small, monkeypatch):
    load(str(small), device="cpu")
    (name,) = models()
    restored = default_cache_dir() / "models" / name
    assert name.startswith("tiny-") and (restored / "model.safetensors").is_file()
    assert not list(restored.rglob(COMPACT_FILE))
    assert {value.dtype for value in load_file(restored / "model.safetensors").values()} == {np.dtype(np.float32)}
    monkeypatch.setattr(transformer, "_write_ordinary", lambda *args: pytest.fail("restored again"))
    load(str(small), device="cpu")


def test_a_restored_model_that_is_not_whole_is_written_again(small):
    expected = load(str(small), device="cpu").encode(SENTENCES)
    (name,) = models()
    weights = default_cache_dir() / "models" / name / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-9] ^= 1
    weights.write_bytes(content)
    np.testing.assert_array_equal(load(str(small), device="cpu").encode(SENTENCES), expected)
    weights.unlink()
    np.testing.assert_array_equal(load(str(small), device="cpu").encode(SENTENCES), expected)
    assert models() == [name]


def test_a_restoring_that_stops_leaves_nothing_in_the_way(small, monkeypatch):
    def stop(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(shutil, "copyfile", stop)
        with pytest.raises(KeyboardInterrupt):
            load(str(small), device="cpu")
    assert models() == []
    part = default_cache_dir() / "models" / f".tiny-{transformer.folder_digest(small)[:16]}.part"
    part.mkdir()  # as a kill leaves it
    (part / "model.safetensors").write_bytes(b"half")
    load(str(small), device="cpu")
    assert len(models()) == 1 and not part.exists()


def test_many_at_once_restore_it_once(small, tmp_path, monkeypatch):
    written = []
    write = transformer._write_ordinary

    def note(folder, out):
        written.append(out)
        write(folder, out)

    monkeypatch.setattr(transformer, "_write_ordinary", note)
    path = tmp_path / "models" / "m"
    threads = [threading.Thread(target=transformer.restored, args=(small, path)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(written) == 1 and transformer._is_whole(path)


def test_a_cache_that_cannot_be_written(small, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "file"))
    with pytest.raises(InputError, match=r"tiny-\w{16} cannot be written .*; set HARNESS_CACHE"):
        load(str(small), device="cpu")


def _flip(folder):
    content = bytearray((folder / COMPACT_FILE).read_bytes())
    content[-100] ^= 1
    (folder / COMPACT_FILE).write_bytes(content)


def _cut_off(folder):
    (folder / COMPACT_FILE).write_bytes((folder / COMPACT_FILE).read_bytes()[:-100])


def _empty(folder):
    (folder / COMPACT_FILE).write_bytes(b"")


def _no_checksum(folder):
    save_file(load_file(folder / COMPACT_FILE), folder / COMPACT_FILE)


def _no_weights(folder):
    (folder / COMPACT_FILE).unlink()


def _tokenizer_cut_off(folder):
    (folder / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes()[:-20])


def _nested(folder):
    (folder / "tokenizer_config.json").write_text("[" * 200_000, encoding="utf-8")


def _no_config(folder):
    (folder / "config.json").unlink()


def _no_pooling(folder):
    shutil.rmtree(folder / "1_Pooling")


@pytest.mark.parametrize(
    "damage, message",
    [
        (_flip, "compact.safetensors: damaged .its checksum is another.; copy the model's folder again"),
        (_cut_off, "compact.safetensors: damaged .*; copy the model's folder again"),
        (_empty, "compact.safetensors: damaged .*; copy the model's folder again"),
        (_no_checksum, "compact.safetensors: damaged"),
        (_no_weights, "no transformer in the compact form .no compact.safetensors.; use sentence-transformers:DIR"),
        (_tokenizer_cut_off, "tokenizer.json: no JSON .*; copy the model's folder again"),
        (_nested, "tokenizer_config.json: no JSON .nested too deeply.; copy the model's folder again"),
        (_no_config, "cannot load the model"),
        (_no_pooling, "cannot load the model"),
        (shutil.rmtree, "no model folder"),
    ],
)
def test_a_damaged_folder_is_one_line(copy, damage, message):
    damage(copy)
    with pytest.raises(InputError, match=message) as caught:
        load(str(copy), device="cpu")
    assert "\n" not in str(caught.value)
    assert not any(name.startswith(".") for name in models())


def test_other_loaders_refuse_the_compact_form(small):
    """They know nothing of its scales."""
    with pytest.raises(InputError, match="cannot load the model"):
        sentence_transformer.load(str(small), device="cpu")


def test_folders_that_have_no_transformer_to_make_small(whole, tmp_path):
    folder = Path(shutil.copytree(whole, tmp_path / "cut"))
    (folder / "model.safetensors").write_bytes((whole / "model.safetensors").read_bytes()[:-1])
    with pytest.raises(InputError, match="cannot load the transformer") as caught:
        save_compact(folder, tmp_path / "out")
    assert "\n" not in str(caught.value)
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="cannot load the transformer"):
        save_compact(folder, tmp_path / "out")
    with pytest.raises(InputError, match="is there already"):
        save_compact(whole, folder)
    assert not (tmp_path / "out").exists()


def test_a_package_that_is_missing(small, whole, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with pytest.raises(MissingExtraError, match=r"harness\[torch\]"):
        load(str(small), device="cpu")
    with pytest.raises(MissingExtraError, match=r"harness\[student\]"):
        save_compact(whole, tmp_path / "out")
    for info in (transformer.compact, transformer.student_transformer):
        assert (info.extra, info.modules) == ("torch", ("sentence_transformers",))


def test_the_alias_opens_what_is_there(small, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(transformer, "STUDENT", tmp_path / "student-transformer")
    info = transformer.student_transformer
    with pytest.raises(InputError, match=r"from a checkout .*, or train it: leaderboard distill ") as caught:
        load_student(device="cpu")
    assert info.missing_recipe == TRAINING and "\n" not in str(caught.value)
    trained = shutil.copytree(whole, default_cache_dir() / "models" / "student-transformer")
    assert info.missing_recipe is None
    np.testing.assert_array_equal(load_student(device="cpu").encode(SENTENCES), ordinary(trained))
    shutil.copytree(small, tmp_path / "student-transformer")
    assert info.missing_recipe is None
    assert load_student(device="cpu").fingerprint == load(str(small), device="cpu").fingerprint


@pytest.mark.skipif(not STUDENT.is_dir(), reason="the student's weights are in a checkout alone")
def test_the_student_of_the_repository():
    assert sum(path.stat().st_size for path in STUDENT.rglob("*") if path.is_file()) <= 48 * 2**20
    card = (STUDENT / "README.md").read_text(encoding="utf-8")
    assert TRAINING in card and "leaderboard distill compact" in card
    assert load_student(device="cpu").dim == transformer.student_transformer.dim
