"""`leaderboard export-onnx` through PyTorch's own exporter, and `onnx:` against `sentence-transformers:`."""

import json
import shutil

import numpy as np
import pytest
from command_line import one_line_error
from tiny_models import SENTENCES, write_bert, write_sentence_transformer, write_xlm_r

from baselines.adapters import onnx_runtime
from baselines.adapters.sentence_transformer import load
from harness.core.errors import InputError, MissingExtraError
from harness.testing import check_encoder

torch = pytest.importorskip("torch")
sentence_transformers = pytest.importorskip("sentence_transformers")
pytest.importorskip("onnxscript")
torch.set_num_threads(1)

from baselines import export_onnx as module  # noqa: E402
from baselines.export_onnx import INT8_FILE, Quantisation, export_onnx  # noqa: E402

WORDS = SENTENCES[2].split()
# Every number of tokens from 2 to more than the models have positions for.
TEXTS = [*SENTENCES, *(" ".join((WORDS * 3)[:n]) for n in range(1, 45))]


def saved(folder, transformer, pooling, **options):
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    first = Transformer(str(transformer))
    modules = [first, Pooling(first.get_embedding_dimension(), pooling), Normalize()]
    sentence_transformers.SentenceTransformer(modules=modules, device="cpu", **options).save(str(folder))
    return folder


def write_decoder(folder):
    """Qwen3: 2 layers, 32 dimensions, rotary positions, causal attention; the tokenizer of `write_bert`."""
    from transformers import Qwen3Config, Qwen3Model

    write_bert(folder)
    config = Qwen3Config(
        vocab_size=len(json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=64,
        max_position_embeddings=40,
        initializer_range=0.5,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=3,
    )
    torch.manual_seed(0)
    Qwen3Model(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """BERT, mean, a dense layer and normalisation; and its export, with int8."""
    root = tmp_path_factory.mktemp("bert")
    folder = write_sentence_transformer(root / "st", write_bert(root / "bert"))
    export_onnx(str(folder), root / "exported", quantize=Quantisation.int8)
    return folder, root / "exported"


def check_equal_to_pytorch(folder, exported):
    wanted = load(str(folder), device="cpu", batch_size=7).encode(TEXTS)
    for batch_size in (1, 2, 16):
        found = onnx_runtime.load(str(exported), batch_size=batch_size).encode(TEXTS)
        np.testing.assert_allclose(found, wanted, atol=1e-4 * np.linalg.norm(wanted, axis=1).max())


def test_bert_with_mean_dense_layer_and_normalisation(bert):
    check_equal_to_pytorch(*bert)
    check_encoder(onnx_runtime.load(str(bert[1])))


def test_int8_is_near_and_small(bert):
    folder, exported = bert
    exact = load(str(folder), device="cpu").encode(TEXTS)
    encoder = onnx_runtime.load(str(exported), file=INT8_FILE)
    check_encoder(encoder)
    cosines = (encoder.encode(TEXTS) * exact).sum(axis=1)
    assert 0.97 < cosines.min() < cosines.max() < 1 - 1e-7


def test_the_folder_has_no_weights_of_pytorch_and_what_sentence_transformers_looks_for(bert):
    folder, exported = bert
    names = {path.relative_to(exported).as_posix() for path in exported.rglob("*") if path.is_file()}
    theirs = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert names - theirs == {"onnx/model.onnx", INT8_FILE}
    assert theirs - names == {"model.safetensors", "README.md"}
    from sentence_transformers.backend.utils import backend_should_export

    should, where = backend_should_export(exported, True, {}, "model.onnx", "*.onnx", "ONNX")
    assert (should, where) == (False, {"subfolder": "onnx", "file_name": "model.onnx"})


@pytest.mark.parametrize("is_xlm_r", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_the_prompt_and_length_of_a_spec_string(bert, tmp_path, monkeypatch, is_xlm_r):
    """They become the exported model's own."""
    if is_xlm_r:
        folder = saved(tmp_path / "st", write_xlm_r(tmp_path / "xlm-r"), "cls")
    else:  # its graph is there
        folder = bert[0]
        monkeypatch.setattr(
            module, "_write_graph", lambda transformer, path: shutil.copytree(bert[1] / "onnx", path.parent)
        )
    export_onnx(f"sentence-transformers:{folder}?prompt=the man &max_length=9", tmp_path / "exported")
    found = onnx_runtime.load(str(tmp_path / "exported"))
    wanted = load(str(folder), prompt="the man ", max_length=9, device="cpu").encode(TEXTS)
    np.testing.assert_allclose(found.encode(TEXTS), wanted, atol=1e-4)
    assert "|prompt:the man |max_length:9" in found.fingerprint
    # The graph itself knows no length.
    wanted = load(str(folder), device="cpu").encode(TEXTS)
    found = onnx_runtime.load(str(tmp_path / "exported"), prompt="", max_length=32 if is_xlm_r else 40)
    np.testing.assert_allclose(found.encode(TEXTS), wanted, atol=1e-4)
    stored = json.loads((tmp_path / "exported" / "config_sentence_transformers.json").read_text())
    assert (stored["prompts"]["query"], stored["default_prompt_name"]) == ("the man ", "query")


@pytest.mark.nightly
def test_a_decoder_with_the_last_token_padded_on_either_side(tmp_path):
    folder = saved(tmp_path / "st", write_decoder(tmp_path / "decoder"), "lasttoken")
    export_onnx(str(folder), tmp_path / "exported")
    for side in ("left", "right"):
        for path in (folder, tmp_path / "exported"):
            settings = json.loads((path / "tokenizer_config.json").read_text())
            (path / "tokenizer_config.json").write_text(json.dumps({**settings, "padding_side": side}))
        model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
        assert model.tokenizer.padding_side == side
        check_equal_to_pytorch(folder, tmp_path / "exported")


def test_a_graph_that_is_not_equal_is_not_written(bert, tmp_path, monkeypatch):
    other = write_sentence_transformer(tmp_path / "st", write_bert(tmp_path / "bert", seed=1))

    def of_another_model(transformer, path):
        shutil.copytree(bert[1] / "onnx", path.parent)

    monkeypatch.setattr(module, "_write_graph", of_another_model)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InputError, match=r"differ from PyTorch's by .*, more than 0.0001; nothing was written"):
        export_onnx(str(other), tmp_path / "exported")
    assert sorted(tmp_path.iterdir()) == before


def test_what_cannot_be_exported(bert, tmp_path, monkeypatch):
    folder, exported = bert
    for model, message in [
        ("chargrams", "'chargrams' is no transformer of sentence-transformers, and cannot be exported"),
        (f"sentence-transformers:{folder}?precision=bf16", "give it without precision"),
        ("./nowhere", "no model folder './nowhere'"),
        (str(exported), "cannot load the model"),
    ]:
        with pytest.raises(InputError, match=message):
            export_onnx(model, tmp_path / "new")
    monkeypatch.setattr(module, "_MODULES", ("no_such_module",))
    with pytest.raises(MissingExtraError, match=r"export-onnx needs: pip install .*\[export\]"):
        export_onnx(str(folder), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_model_without_a_tokenizer_file_cannot_be_exported(tmp_path):
    from transformers import CanineConfig, CanineModel, CanineTokenizer

    CanineTokenizer(model_max_length=32).save_pretrained(tmp_path / "canine")  # of characters, in Python
    config = CanineConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=32)
    config.max_position_embeddings, config.num_hash_buckets, config.downsampling_rate = 64, 16, 2
    CanineModel(config).save_pretrained(tmp_path / "canine")
    with pytest.raises(InputError, match=r"has no tokenizer.json, without which onnx: cannot read it"):
        export_onnx(str(tmp_path / "canine"), tmp_path / "new")


def test_a_folder_that_is_there_is_left_alone(tmp_path, leaderboard):
    (tmp_path / "out").mkdir()
    error = one_line_error(leaderboard("export-onnx", "minilm", "out"))
    assert error == "out is there already; delete it, or name another folder"


@pytest.mark.nightly
def test_the_command_line(bert, leaderboard, tmp_path):
    folder, exported = bert
    done = leaderboard("export-onnx", str(folder), "out")
    assert (done.returncode, done.stdout) == (0, "out\n"), done.stderr
    lines = done.stderr.splitlines()
    assert [line.split(":")[0] for line in lines] == ["float32", "onnx/model.onnx"], lines
    assert (tmp_path / "out" / "onnx" / "model.onnx").read_bytes() == (exported / "onnx" / "model.onnx").read_bytes()
