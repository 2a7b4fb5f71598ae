"""`onnx:DIR` on a tiny graph, against plain NumPy, without torch. (`test_export_onnx.py` has PyTorch's side.)"""

import json
import random
import shutil
import subprocess
import sys

import numpy as np
import pytest
from command_line import one_line_error
from tiny_onnx import DIM, TEXTS, WORDS, token_vectors, write_graph, write_json, write_model

from baselines.adapters.onnx_file import read_onnx
from baselines.adapters.onnx_runtime import load
from harness.core.errors import InputError
from harness.encoders.registry import load_encoder, load_sides
from harness.encoders.sides import Sides
from harness.testing import check_encoder

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

POOLINGS = {
    "mean": lambda states: states.mean(axis=0),
    "cls": lambda states: states[0],
    "max": lambda states: states.max(axis=0),
    "lasttoken": lambda states: states[-1],
    "mean_sqrt_len_tokens": lambda states: states.sum(axis=0) / np.sqrt(len(states)),
    "weightedmean": lambda states: np.average(states, axis=0, weights=np.arange(1, len(states) + 1)),
}
OLD_NAMES = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens", "weightedmean": "weightedmean_tokens"}


def by_hand(texts=TEXTS, pool=POOLINGS["mean"], **options):
    return np.stack([pool(token_vectors(text, **options)) for text in texts])


def same(found, wanted):
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("mode", POOLINGS)
@pytest.mark.parametrize("is_old", [False, True])
def test_pooling_is_as_the_folder_says(tmp_path, mode, is_old):
    old = {f"pooling_mode_{OLD_NAMES.get(mode, mode)}": True, "word_embedding_dimension": DIM}
    folder = write_model(tmp_path / "m", pooling=old if is_old else {"pooling_mode": mode})
    same(load(str(folder), batch_size=3).encode(TEXTS), by_hand(pool=POOLINGS[mode]))


def test_several_poolings_are_joined(tmp_path):
    wanted = np.hstack([by_hand(pool=POOLINGS["max"]), by_hand()])
    new = write_model(tmp_path / "new", pooling={"pooling_mode": ["max", "mean"]})
    old = write_model(tmp_path / "old", pooling={"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True})
    for folder in (new, old):
        encoder = load(str(folder))
        assert encoder.dim == 2 * DIM
        same(encoder.encode(TEXTS), wanted)


def test_a_folder_that_lists_no_modules_gets_the_mean(tmp_path):
    folder = write_model(tmp_path / "m", pooling={"pooling_mode": "cls"})
    (folder / "modules.json").unlink()
    same(load(str(folder)).encode(TEXTS), by_hand())


def test_dense_layers_and_normalisation(tmp_path):
    from safetensors.numpy import save_file

    chance = np.random.default_rng(3)
    matrix, bias, other = (chance.standard_normal(shape).astype("f4") for shape in ((4, DIM), 4, (4, DIM)))
    folder = write_model(tmp_path / "m", after=("Dense", "Normalize"))

    def found(tensors, **config):
        write_json(folder / "2_Dense" / "config.json", config)
        save_file(tensors, folder / "2_Dense" / "model.safetensors")
        return load(str(folder)).encode(TEXTS)

    def unit(x):
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    x = by_hand()
    linear = {"linear.weight": matrix, "linear.bias": bias}
    same(found(linear), unit(np.tanh(x @ matrix.T + bias)))
    same(found({"linear.weight": matrix}, activation_function="torch.nn.modules.linear.Identity"), unit(x @ matrix.T))
    relu = "torch.nn.modules.activation.ReLU"
    wanted = np.maximum(x @ matrix.T + bias, 0) + x @ other.T
    same(found({**linear, "residual.weight": other}, activation_function=relu, use_residual=True), unit(wanted))
    for tensors, config, message in [
        (linear, {"activation_function": "os.system"}, "activation 'os.system' is not known here"),
        (linear, {"activation_function": "torch.nn.Softplus"}, "use sentence-transformers:DIR"),
        (linear, {"module_input_name": "token_embeddings"}, "a layer of token_embeddings"),
        (linear, {"use_residual": True}, "no weights of a residual"),
        ({"linear.bias": bias}, {}, "no weights of a dense layer"),
        ({"linear.weight": matrix[:, :3].copy()}, {}, "takes vectors of 3 numbers, and gets 6"),
    ]:
        with pytest.raises(InputError, match=message):
            found(tensors, **config)


def test_a_graph_that_gives_the_vectors_of_sentences_is_not_pooled(tmp_path):
    folder = write_model(tmp_path / "m", output="sentence_embedding", pooling={"pooling_mode": "cls"})
    same(load(str(folder)).encode(TEXTS), by_hand(pool=lambda states: states.sum(axis=0)))


@pytest.mark.parametrize(
    "graph",
    [
        {"integers": "INT32"},
        {"inputs": ("input_ids",)},
        {"inputs": ("token_type_ids", "attention_mask", "input_ids", "position_ids")},
        {"output": "token_embeddings"},
        {"output": "some_name"},
        {"sizes": (None, None)},
    ],
)
def test_a_graph_gets_what_it_asks_for(tmp_path, graph):
    same(load(str(write_model(tmp_path / "m", **graph))).encode(TEXTS), by_hand())


def test_prompts(tmp_path):
    settings = {"prompts": {"query": "query : ", "a": "a ", "none": None}, "default_prompt_name": "query"}
    folder = str(write_model(tmp_path / "m", settings=settings))
    after_query = by_hand([f"query : {text}" for text in TEXTS])
    same(load(folder).encode(TEXTS), after_query)
    same(load(folder, prompt="").encode(TEXTS), by_hand())
    same(load(folder, prompt_name="none").encode(TEXTS), by_hand())
    same(load(folder, prompt_name="a").encode(TEXTS), by_hand([f"a {text}" for text in TEXTS]))
    assert load(folder).fingerprint == load(folder, prompt="query : ").fingerprint
    assert load(folder).fingerprint != load(folder, prompt="").fingerprint
    for options, message in [
        ({"prompt_name": "b"}, "no prompt 'b'; it has query, a, none"),
        ({"prompt_name": "a", "prompt": "a"}, "prompt or prompt_name, not both"),
    ]:
        with pytest.raises(InputError, match=message):
            load(folder, **options)
    both = load_sides(f"onnx:{folder}?prompt_document=a ")
    assert both.document._graph is both.query._graph  # the weights are there once
    same(both.query.encode(TEXTS), by_hand([f"query : {text}" for text in TEXTS]))
    same(both.document.encode(TEXTS), by_hand([f"a {text}" for text in TEXTS]))
    assert both.sides == Sides(load(folder).fingerprint, load(folder, prompt="a ").fingerprint)
    without = write_model(tmp_path / "w", settings=settings, pooling={"pooling_mode": "mean", "include_prompt": False})
    with pytest.raises(InputError, match="leaves out the prompt"):
        load(str(without))
    same(load(str(without), prompt="").encode(TEXTS), by_hand())
    with pytest.raises(InputError, match="leaves out the prompt"):
        load_sides(f"onnx:{without}?prompt=&prompt_document=a ")


def test_where_sentences_are_cut(tmp_path):
    folder = write_model(tmp_path / "m")
    same(load(str(folder), max_length=4).encode(TEXTS), by_hand(max_length=4))
    (folder / "sentence_bert_config.json").unlink()
    same(load(str(folder)).encode(TEXTS), by_hand(max_length=20))  # as many as there are positions
    write_json(folder / "tokenizer_config.json", {"model_max_length": 10**30})
    same(load(str(folder)).encode(TEXTS), by_hand(max_length=20))
    write_json(folder / "tokenizer_config.json", {"model_max_length": 5})
    same(load(str(folder)).encode(TEXTS), by_hand(max_length=5))
    roberta = {"model_type": "xlm-roberta", "max_position_embeddings": 9, "pad_token_id": 1}
    write_json(folder / "tokenizer_config.json", {"model_max_length": 512})
    write_json(folder / "config.json", roberta)
    same(load(str(folder)).encode(TEXTS), by_hand(max_length=7))
    for length in (2, 8):
        with pytest.raises(InputError, match=f"max_length must be 3 to 7, not {length}"):
            load(str(folder), max_length=length)


def test_what_it_costs_is_said(tmp_path):
    folder = write_model(tmp_path / "m")
    encoder = load(str(folder), max_length=4)
    (folder / "README.md").write_text("not read")
    read = [path for path in folder.rglob("*") if path.is_file() and path.name != "README.md"]
    assert encoder.size_bytes == sum(path.stat().st_size for path in read) and encoder.max_length == 4


def test_settings_under_an_older_name(tmp_path):
    folder = write_model(tmp_path / "m")
    expected = load(str(folder)).fingerprint.partition("max_length:")[2]
    (folder / "sentence_bert_config.json").rename(folder / "sentence_roberta_config.json")
    assert load(str(folder)).fingerprint.partition("max_length:")[2] == expected != "None"


def test_lower_case_and_dimensions_as_the_folder_says(tmp_path):
    folder = write_model(tmp_path / "m", sentences={"do_lower_case": True}, settings={"truncate_dim": 4})
    encoder = load(str(folder))
    assert encoder.dim == 4
    same(encoder.encode(TEXTS), by_hand([text.lower() for text in TEXTS])[:, :4])


def test_contract_texts_and_batches(tmp_path):
    folder = write_model(tmp_path / "m", after=("Normalize",))
    check_encoder(load_encoder(f"onnx:{folder}?name=tiny"))
    encoder = load(str(folder), batch_size=2)
    np.testing.assert_array_equal(encoder.encode(["a \ud800 man"]), encoder.encode(["a \N{REPLACEMENT CHARACTER} man"]))
    assert encoder.encode(["a " * 30_000, "the"]).shape == (2, DIM) and encoder.encode([]).shape == (0, DIM)
    assert encoder.device == "cpu"


def test_tokens_that_are_none(tmp_path):
    """Without special tokens, an empty sentence has no tokens; its vector is zero, and moves no other."""
    folder = write_model(tmp_path / "m", pooling={"pooling_mode": list(POOLINGS)})
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    write_json(folder / "tokenizer.json", {**tokenizer, "post_processor": None})
    encoder = load(str(folder), batch_size=2)
    found = encoder.encode(["", "a man", ""])
    assert not found[[0, 2]].any()
    same(found[1], encoder.encode(["a man"])[0])


def test_a_graph_whose_scales_are_those_of_the_batch_gets_one_sentence_at_a_time(tmp_path):
    from onnxruntime.quantization import quantize_dynamic

    folder = write_model(tmp_path / "m")
    quantize_dynamic(folder / "onnx" / "model.onnx", folder / "onnx" / "int8.onnx", op_types_to_quantize=["MatMul"])
    alone, together = (load(str(folder), file="onnx/int8.onnx", batch_size=size) for size in (None, 8))
    check_encoder(alone)
    assert np.abs(alone.encode(TEXTS) - together.encode(TEXTS)).max() > 1e-3
    assert np.abs(alone.encode(TEXTS) - by_hand()).max() < 0.1
    assert together.fingerprint == f"{alone.fingerprint}|batch_size:8"
    assert load(str(folder)).fingerprint == load(str(folder), batch_size=2).fingerprint


def test_so_does_a_graph_that_is_not_told_of_padding(tmp_path):
    folder = str(write_model(tmp_path / "m", inputs=("input_ids",)))
    assert load(folder, batch_size=2).fingerprint == f"{load(folder).fingerprint}|batch_size:2"


def test_fingerprint_is_of_the_files_that_are_read(tmp_path):
    def fingerprint(folder, **options):
        return load(str(folder), **options).fingerprint

    folder = write_model(tmp_path / "m")
    shutil.copy(folder / "onnx" / "model.onnx", folder / "onnx" / "other.onnx")
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "README.md").write_text("another")
    (copy / "model.safetensors").write_bytes(b"PyTorch's")
    (copy / "onnx" / "unread.onnx").write_bytes(b"")
    first = fingerprint(folder)
    assert first == fingerprint(copy) and str(tmp_path) not in first
    found = {first, fingerprint(folder, file="onnx/other.onnx"), fingerprint(folder, max_length=5)}
    write_graph(copy / "onnx" / "model.onnx", seed=1)
    found.add(fingerprint(copy))
    for name in ("tokenizer.json", "1_Pooling/config.json", "config.json"):
        changed = shutil.copytree(folder, tmp_path / name.replace("/", "-"))
        (changed / name).write_text((changed / name).read_text() + "\n")
        found.add(fingerprint(changed))
    assert len(found) == 7


def test_weights_beside_the_graph(tmp_path):
    from tiny_onnx import weights

    folder = write_model(tmp_path / "m", external="model.onnx_data")
    beside = folder / "onnx" / "model.onnx_data"
    beside.write_bytes(weights(0)[0].tobytes())
    encoder = load(str(folder))
    same(encoder.encode(TEXTS), by_hand())
    beside.write_bytes(weights(1)[0].tobytes())
    assert load(str(folder)).fingerprint != encoder.fingerprint
    beside.unlink()
    with pytest.raises(InputError, match=r"weights are in the file 'model.onnx_data', which is not there"):
        load(str(folder))


@pytest.mark.parametrize("where", ["../../secret", "{}/secret", "a/../../../secret", "..\\..\\secret", "C:/secret"])
def test_weights_outside_the_folder_are_not_read(tmp_path, where, monkeypatch):
    from tiny_onnx import weights

    (tmp_path / "secret").write_bytes(weights()[0].tobytes())
    folder = write_model(tmp_path / "m", external=where.format(tmp_path))
    monkeypatch.setattr(onnxruntime, "InferenceSession", None)  # refused before the library sees it
    with pytest.raises(InputError, match="outside its folder; export it again"):
        load(str(folder))


def test_what_is_found_in_a_file_is_what_the_onnx_library_finds(tmp_path):
    """Weights in attributes, in graphs inside graphs, in functions."""
    from onnx import TensorProto, helper
    from onnx.external_data_helper import _get_all_tensors, uses_external_data

    def tensor(location):
        tensor = TensorProto(name=location, data_type=1, dims=[1], data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="offset", value="4096")
        tensor.external_data.add(key="location", value=location)
        return tensor

    inner = helper.make_graph(
        [helper.make_node("Constant", [], ["c"], value=tensor("one"))], "g", [], [], [tensor("2")]
    )
    node = helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner)
    graph = helper.make_graph([node], "outer", [], [], [tensor("three")])
    function = helper.make_function(
        "own", "F", [], ["c"], [helper.make_node("Identity", [], ["c"], value=tensor("f"))], []
    )
    model = helper.make_model(graph, functions=[function])
    found = {
        entry.value
        for tensor in _get_all_tensors(model)
        if uses_external_data(tensor)
        for entry in tensor.external_data
        if entry.key == "location"
    }
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    for name in ("one", "2", "three", "f"):
        (tmp_path / name).write_bytes(b"")
    content = read_onnx(tmp_path / "model.onnx")
    assert content.external == found | {"f"} == {"one", "2", "three", "f"}
    assert content.operations == {"If", "Constant", "Identity"}


def _cut_off(folder):
    path = folder / "onnx" / "model.onnx"
    path.write_bytes(path.read_bytes()[:-150])


def _empty(folder):
    (folder / "onnx" / "model.onnx").write_bytes(b"")


def _text(folder):
    (folder / "onnx" / "model.onnx").write_text("version https://git-lfs.github.com/spec/v1\n")


def _none(folder):
    (folder / "onnx" / "model.onnx").rename(folder / "onnx" / "model_O4.onnx")


def _of_fewer_tokens(folder):
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["more"] = len(WORDS)
    write_json(folder / "tokenizer.json", tokenizer)


def _of_a_decoder(folder):
    write_graph(folder / "onnx" / "model.onnx", inputs=("input_ids", "attention_mask", "past_key_values.0.key"))


def _of_one_size(folder):
    write_graph(folder / "onnx" / "model.onnx", sizes=(1, 128))


def _no_tokenizer(folder):
    (folder / "tokenizer.json").unlink()


def _damaged_tokenizer(folder):
    (folder / "tokenizer.json").write_text('{"model": 3}')


def _wrong_pooling(folder):
    write_json(folder / "1_Pooling" / "config.json", {"pooling_mode": "median"})


def _pooling_of_wrong_type(folder):
    write_json(folder / "1_Pooling" / "config.json", {"pooling_mode_mean_tokens": "yes"})


def _no_pooling_at_all(folder):
    write_json(folder / "1_Pooling" / "config.json", {"pooling_mode": []})


def _other_module(folder):
    write_json(folder / "modules.json", [{"type": f"x.{kind}"} for kind in ("Transformer", "WordWeights", "Pooling")])


def _module_outside(folder):
    write_json(folder / "modules.json", [{"type": "x.Transformer"}, {"type": "x.Pooling", "path": "../1_Pooling"}])


def _static(folder):
    write_json(folder / "modules.json", [{"type": "x.StaticEmbedding"}])


def _other_task(folder):
    write_json(folder / "sentence_bert_config.json", {"transformer_task": "fill-mask"})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_cut_off, r"model.onnx: no ONNX model, or a damaged one \(it ends early\); copy it again"),
        (_empty, "no ONNX model, or a damaged one"),
        (_text, "no ONNX model, or a damaged one"),
        (_none, r"no onnx/model.onnx or model.onnx; give file=onnx/model_O4.onnx"),
        (
            _of_fewer_tokens,
            r"cannot be run \(.*out of data bounds.*\); copy it again, with the tokenizer.json that bel",
        ),
        (_of_a_decoder, r"asks for past_key_values.0.key \(tensor\(int64\)\), which a sentence encoder does not have"),
        (_of_one_size, "of the shape 1 x 128 alone"),
        (_no_tokenizer, r"tokenizer.json: no such file"),
        (_damaged_tokenizer, r"tokenizer.json: no tokenizer \(.*\); copy the file again"),
        (_wrong_pooling, r"1_Pooling.config.json: no configuration of a pooling \(.*median"),
        (_pooling_of_wrong_type, r"1_Pooling.config.json: no configuration of a pooling \(.*pooling_mode_mean_tokens"),
        (_no_pooling_at_all, "no pooling_mode"),
        (_other_module, r"WordWeights \+ Pooling; only Pooling, then Dense and Normalize, are done here"),
        (_module_outside, r"modules.json: the folder '../1_Pooling' of a module is outside the model's"),
        (_static, "does not begin with a transformer; use static:DIR"),
        (_other_task, "a model for fill-mask"),
    ],
)
def test_damaged_folders(tmp_path, damage, message):
    folder = write_model(tmp_path / "m")
    load(str(folder))
    damage(folder)
    with pytest.raises(InputError, match=message) as error:
        load(str(folder))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("file=../m/onnx/model.onnx", "file must be the path of an .onnx file in"),
        ("file=/etc/passwd", "file must be the path of an .onnx file in"),
        ("file=tokenizer.json", "file must be the path of an .onnx file in"),
        ("file=model.onnx", "model.onnx: no such file; give file=onnx/model.onnx"),
        ("device=cuda", "onnxruntime has no CUDAExecutionProvider here .*CPUExecutionProvider.*; give device=cpu"),
        ("device=mps", "device must be cpu or cuda"),
        ("device=cpu:1", "device must be cpu or cuda"),
        ("batch_size=0", "batch_size must be at least 1, not 0"),
    ],
)
def test_options_that_do_not_fit(tmp_path, options, message):
    if "cuda" in options and "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("it has CUDA")
    folder = write_model(tmp_path / "m")
    with pytest.raises(InputError, match=message):
        load_encoder(f"onnx:{folder}?{options}")
    with pytest.raises(InputError, match="no model folder"):
        load_encoder("onnx:./nowhere")


def test_random_damage_gives_one_line_or_vectors(tmp_path, capfd):
    folder = write_model(tmp_path / "m")
    path = folder / "onnx" / "model.onnx"
    whole, refused = path.read_bytes(), 0
    for number in range(80):
        chance = random.Random(number)
        content = bytearray(whole)
        for _ in range(chance.choice([1, 1, 3, 20])):
            content[chance.randrange(len(content))] = chance.randrange(256)
        path.write_bytes(content[: chance.choice([len(content), chance.randrange(len(content))])])
        try:
            load(str(folder)).encode(TEXTS)
        except InputError as error:
            assert "\n" not in str(error)
            refused += 1
        except onnxruntime.capi.onnxruntime_pybind11_state.OnnxRuntimeException:
            pass  # while it runs: the runner makes one line of it
    assert refused > 25
    assert capfd.readouterr().out == ""


def test_neither_torch_nor_onnx_is_imported(tmp_path):
    program = (
        "import sys\n"
        "from harness.encoders.registry import load_encoder\n"
        "print(load_encoder('onnx:' + sys.argv[1]).encode(['a man', 'gitarre']).shape)\n"
        "print(sorted({'torch', 'onnx', 'transformers', 'sentence_transformers'} & set(sys.modules)))\n"
    )
    command = [sys.executable, "-c", program, str(write_model(tmp_path / "m"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"(2, {DIM})", "[]"]


@pytest.mark.slow
def test_the_command_line(tmp_path, leaderboard):
    folder = write_model(tmp_path / "m")
    run = ["run", "--suite", "sample", "--task", "sts17", "--subset", "en-en@sample", "--encoder", f"onnx:{folder}"]
    done = leaderboard(*run)
    assert done.returncode == 0, done.stderr
    assert "onnx/sha256:" in leaderboard("show", "--record", "m/sts17/en-en@sample").stdout
    _cut_off(folder)
    assert "no ONNX model, or a damaged one" in one_line_error(leaderboard(*run, "--fresh"))
