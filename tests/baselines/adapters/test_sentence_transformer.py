import json
import os
import shutil

import numpy as np
import pytest
from tiny_models import SENTENCES, write_bert, write_sentence_transformer, write_xlm_r

from baselines.adapters import huggingface
from baselines.adapters.aliases import HubModel, hub_encoder
from baselines.adapters.huggingface import folder_bytes
from baselines.adapters.sentence_transformer import load
from harness.core.errors import InputError
from harness.core.threads import using_threads
from harness.encoders.registry import encoder_info, encoder_names, load_encoder
from harness.encoders.variant import binary, int8
from harness.testing import check_encoder

torch = pytest.importorskip("torch")
sentence_transformers = pytest.importorskip("sentence_transformers")
torch.set_num_threads(1)  # the library's own calls crawl with more on a machine that is busy with other tests

PROMPTS = {"query": "query: ", "report": "the report: "}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("st")
    return write_sentence_transformer(root / "tiny-st", write_bert(root / "bert"))


@pytest.fixture(scope="module")
def with_prompts(tmp_path_factory):
    root = tmp_path_factory.mktemp("prompts")
    options = {"prompts": PROMPTS, "default_prompt_name": "query"}
    return write_sentence_transformer(root / "tiny-prompts", write_bert(root / "bert"), **options)


def by_library(folder, sentences=SENTENCES, **options):
    """sentence-transformers' own `encode`, one sentence at a time."""
    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    return np.stack([model.encode(text, show_progress_bar=False, **options) for text in sentences])


def test_vectors_are_the_librarys(folder):
    found = load(str(folder), device="cpu", batch_size=3).encode(SENTENCES)
    assert found.shape == (len(SENTENCES), 16)
    np.testing.assert_allclose(found, by_library(folder), atol=1e-6)


@pytest.mark.parametrize("kin", ["XLMRoberta", "Camembert"])
def test_xlm_r_and_its_kin(tmp_path, kin):
    folder = write_sentence_transformer(tmp_path / "st", write_xlm_r(tmp_path / "xlm-r", kin=kin))
    short = [text for text in SENTENCES if len(text) < 30]  # the library fails on longer ones: see max_length
    encoder = load(str(folder), device="cpu")
    np.testing.assert_allclose(encoder.encode(short), by_library(folder, short), atol=1e-6)
    assert np.isfinite(encoder.encode(SENTENCES)).all()
    with pytest.raises(InputError, match="max_length must be 3 to 32, not 33"):  # 34 positions, two of them unused
        load(str(folder), max_length=33, device="cpu")


def test_a_model_without_transformer(tmp_path):
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer

    bert = write_bert(tmp_path / "bert")
    tokenizer = Tokenizer.from_file(str(bert / "tokenizer.json"))
    static = StaticEmbedding(tokenizer, embedding_dim=8)
    folder = tmp_path / "static"
    sentence_transformers.SentenceTransformer(modules=[static], device="cpu").save(str(folder))
    encoder = load(str(folder), device="cpu")
    np.testing.assert_allclose(encoder.encode(SENTENCES), by_library(folder), atol=1e-6)
    check_encoder(encoder)
    half = load(str(folder), precision="bf16", device="cpu").encode(SENTENCES)
    np.testing.assert_allclose(half, by_library(folder), atol=0.02)
    with pytest.raises(InputError, match="takes no max_length"):
        load(str(folder), max_length=5, device="cpu")


def test_order_and_batch_size_do_not_matter(folder):
    sentences = SENTENCES * 9
    shuffled = np.random.default_rng(0).permutation(len(sentences))
    reference = load(str(folder), device="cpu").encode(sentences)
    for batch_size in (1, 7, 1000):
        found = load(str(folder), device="cpu", batch_size=batch_size).encode([sentences[i] for i in shuffled])
        np.testing.assert_allclose(found, reference[shuffled], atol=1e-6)


def test_prompt_changes_vectors_as_the_library_does(folder):
    found = load(str(folder), prompt="query: ", device="cpu").encode(SENTENCES)
    np.testing.assert_allclose(found, by_library(folder, prompt="query: "), atol=1e-6)
    assert np.abs(found - by_library(folder)).max() > 0.01


def test_a_models_own_default_prompt_applies_unless_another_is_given(with_prompts):
    def found(**options):
        return load(str(with_prompts), device="cpu", **options).encode(SENTENCES)

    np.testing.assert_allclose(found(), by_library(with_prompts), atol=1e-6)
    np.testing.assert_allclose(found(), by_library(with_prompts, prompt="query: "), atol=1e-6)
    np.testing.assert_allclose(found(prompt=""), by_library(with_prompts, prompt=""), atol=1e-6)
    np.testing.assert_allclose(found(prompt="a "), by_library(with_prompts, prompt="a "), atol=1e-6)
    np.testing.assert_allclose(found(prompt_name="report"), by_library(with_prompts, prompt="the report: "), atol=1e-6)
    assert np.abs(found() - found(prompt="")).max() > 0.01


def test_fingerprint_names_the_prompt_that_applies(with_prompts):
    def fingerprint(**options):
        return load(str(with_prompts), device="cpu", **options).fingerprint

    assert fingerprint() == fingerprint(prompt="query: ") == fingerprint(prompt_name="query")
    assert len({fingerprint(), fingerprint(prompt=""), fingerprint(prompt_name="report")}) == 3


def test_truncate_dim_has_the_direction_of_the_librarys(folder):
    encoder = load_encoder(f"sentence-transformers:{folder}?truncate_dim=5&device=cpu")
    assert encoder.dim == 5
    whole, part = by_library(folder), by_library(folder, truncate_dim=5)
    factors = np.linalg.norm(whole, axis=1, keepdims=True) / np.linalg.norm(part, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode(SENTENCES), part * factors, atol=1e-6)
    unit = load_encoder(f"sentence-transformers:{folder}?truncate_dim=5&normalize=true&device=cpu").encode(SENTENCES)
    np.testing.assert_allclose(unit, by_library(folder, truncate_dim=5, normalize_embeddings=True), atol=1e-6)


def test_the_codes_are_those_of_sentence_transformers_at_the_same_ranges():
    """The library rounds down from the lower end of a range; ours are its codes where that end is -128.5 steps."""
    from sentence_transformers.util.quantization import quantize_embeddings

    rng = np.random.default_rng(1)
    step = rng.uniform(0.001, 0.01, 24).astype(np.float32)
    x = (rng.integers(-127, 128, (300, 24)) + rng.uniform(-0.49, 0.49, (300, 24))).astype(np.float32) * step
    ranges = np.stack([-128.5 * step.astype(np.float64), 126.5 * step.astype(np.float64)])
    theirs = quantize_embeddings(x, "int8", ranges=ranges)
    np.testing.assert_array_equal(np.rint(int8(x, step) / step), theirs)
    bits = np.unpackbits((quantize_embeddings(x, "binary").astype(np.int16) + 128).astype(np.uint8), axis=1)
    np.testing.assert_array_equal(binary(x), 2.0 * bits - 1)


def test_max_length_cuts_sentences(folder):
    found = load(str(folder), max_length=5, device="cpu").encode(["the committee met twice without result"])
    np.testing.assert_allclose(found, by_library(folder, ["the committee met"]), atol=1e-6)


def test_half_precision_is_near(folder):
    exact, half = (load(str(folder), precision=p, device="cpu").encode(SENTENCES) for p in ("fp32", "bf16"))
    assert half.dtype == np.float32
    assert 0.99 < (exact * half).sum(1).min() < 0.999999


def test_checkpoint_stored_in_half_precision_runs_in_float32_by_default(folder, tmp_path):
    from safetensors.torch import load_file, save_file

    stored = shutil.copytree(folder, tmp_path / "half")
    weights = load_file(stored / "model.safetensors")
    save_file({k: v.bfloat16() for k, v in weights.items()}, stored / "model.safetensors", {"format": "pt"})
    widened = shutil.copytree(folder, tmp_path / "wide")
    save_file({k: v.bfloat16().float() for k, v in weights.items()}, widened / "model.safetensors", {"format": "pt"})
    (stored / "config.json").write_text((folder / "config.json").read_text().replace("float32", "bfloat16"))
    found = load(str(stored), device="cpu").encode(SENTENCES)
    np.testing.assert_allclose(found, by_library(widened), atol=1e-6)


def test_keeps_the_contract(folder, with_prompts):
    check_encoder(load_encoder(f"sentence-transformers:{folder}?batch_size=4"))
    check_encoder(load_encoder(f"sentence-transformers:{with_prompts}?prompt=a &precision=bf16"), tolerance=2e-2)


def test_text_that_no_tokenizer_takes(folder):
    found = load(str(folder), device="cpu").encode(["a \ud800 man", "a \N{REPLACEMENT CHARACTER} man"])
    np.testing.assert_array_equal(found[0], found[1])


def test_pytorchs_number_of_threads_is_as_before(folder):
    encoder = load(str(folder), device="cpu")
    torch.set_num_threads(2)
    try:
        encoder.encode(SENTENCES)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_an_error_in_a_batch_reaches_the_caller():
    before = torch.get_num_threads()

    def fail(batch):
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        huggingface.encode_by_length(["a"] * 99, [1] * 99, fail, dim=2, batch_size=3, workers=2)
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_batches_are_of_similar_length_and_longest_first(workers):
    sentences = ["x" * (i * 7 % 50) for i in range(50)]
    seen = []

    def encode(batch):
        seen.append([len(text) for text in batch])
        return np.array([[len(text), 1] for text in batch], dtype=np.float32)

    lengths = [len(text) for text in sentences]
    found = huggingface.encode_by_length(sentences, lengths, encode, dim=2, batch_size=8, workers=workers)
    assert found[:, 0].tolist() == lengths
    assert max(map(len, seen)) <= 8
    assert max(max(batch) - min(batch) for batch in seen) <= 8
    if workers < 2:
        assert [n for batch in seen for n in batch] == sorted(lengths, reverse=True)


def test_a_few_sentences_are_shared_among_the_workers():
    sizes = []

    def encode(batch):
        sizes.append(len(batch))
        return np.zeros((len(batch), 1), dtype=np.float32)

    huggingface.encode_by_length(["a"] * 10, [1] * 10, encode, dim=1, batch_size=32, workers=4)
    assert sorted(sizes) == [1, 3, 3, 3]


def test_fingerprints(folder, tmp_path):
    def fingerprint(where=folder, **options):
        return load(str(where), device="cpu", **options).fingerprint

    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "onnx").mkdir()
    (copy / "onnx" / "model.onnx").write_bytes(b"another backend's")
    (copy / ".gitattributes").write_text("")
    assert fingerprint(copy, batch_size=2) == fingerprint() == fingerprint()
    assert "tiny" not in fingerprint() and "/tmp" not in fingerprint() and str(tmp_path) not in fingerprint()
    changed = shutil.copytree(folder, tmp_path / "changed")
    weights = changed / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    others = [
        fingerprint(changed),
        fingerprint(prompt="a "),
        fingerprint(max_length=9),
        fingerprint(precision="bf16"),
    ]
    assert len({fingerprint(), *others}) == 1 + len(others)
    assert fingerprint().endswith("|precision:fp32|truncate_dim:None")  # as in the records that are stored


def test_folder_digest_covers_names_and_contents(tmp_path):
    def digest(**files):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        for name, content in files.items():
            path = folder / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return huggingface.folder_digest(folder)

    assert digest(a="1", b="2") == digest(b="2", a="1")
    assert len({digest(a="1", b="2"), digest(a="2", b="1"), digest(a="12"), digest(a__b="1"), digest(a="1")}) == 5


def test_folder_digest_covers_what_links_lead_to(tmp_path):
    for content in ("1", "2"):
        (tmp_path / content).mkdir()
        (tmp_path / content / "weights").write_text(content)
    model = tmp_path / "model"
    model.mkdir()
    (model / "loop").symlink_to(model)
    digests = []
    for content in ("1", "2"):
        link = model / "0_Transformer"
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / content)
        digests.append(huggingface.folder_digest(model))
    assert digests[0] != digests[1]


def test_one_line_errors(folder, with_prompts, monkeypatch):
    for spec, message in [
        (f"sentence-transformers:{folder}?truncate_dim=17", "truncate_dim must be 1 to 16, not 17"),
        (f"sentence-transformers:{folder}?truncate_dim=0", "truncate_dim must be 1 or more, not 0"),
        (f"sentence-transformers:{with_prompts}?prompt_name=quarry", "no prompt 'quarry'; it has .*query"),
        (f"sentence-transformers:{with_prompts}?prompt_name=query&prompt=a", "prompt or prompt_name, not both"),
        ("sentence-transformers:~/no/such/folder", "no model folder"),
        ("sentence-transformers:some/relative/folder", "no model folder"),
    ]:
        with pytest.raises(InputError, match=message) as error:
            load_encoder(spec)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", ["-5", "1e400", '"five"'])
def test_a_folder_that_says_a_wrong_dimension(folder, tmp_path, value):
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "config_sentence_transformers.json").write_text(f'{{"truncate_dim": {value}}}')
    with pytest.raises(InputError, match=r"the model.s folder says truncate_dim .*; mend config_sentence_tr"):
        load(str(copy), device="cpu")


def test_a_hub_that_is_switched_off_or_away(monkeypatch):
    import huggingface_hub

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InputError, match="'example/nothing' is not in the local cache and HF_HUB_OFFLINE is set"):
        load("example/nothing")
    monkeypatch.delenv("HF_HUB_OFFLINE")

    def away(*args, **kwargs):
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", away)
    with pytest.raises(InputError, match=r"cannot be reached \(ConnectionError\); go online, or copy its folder"):
        load("example/nothing")


def test_a_model_in_the_hubs_local_cache_needs_no_hub_and_is_known_by_its_commit(folder, tmp_path, monkeypatch):
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "hub" / "models--example--tiny"
    shutil.copytree(folder, repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    import huggingface_hub

    # What the library reads of the environment when it is imported.
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    info = hub_encoder(HubModel(description="tiny", dim=16, location="example/tiny", licence="MIT"), mb=5)
    assert info.is_ready and info.download_mb == 0
    encoder = load("example/tiny", device="cpu")
    assert encoder.fingerprint.startswith(f"sentence-transformers/example/tiny@{commit}|")
    np.testing.assert_allclose(encoder.encode(["a man"]), by_library(folder, ["a man"]), atol=1e-6)
    with pytest.raises(InputError, match="bogus") as error:
        load("example/tiny", device="bogus")
    assert "hub" not in str(error.value)


def test_every_alias_names_a_model_and_says_what_it_costs():
    aliases = [name for name in encoder_names() if encoder_info(name).factory.__module__.startswith("baselines.")]
    found = [encoder_info(name) for name in aliases if (encoder_info(name).location or "").count("/") == 1]
    assert len(found) >= 12
    for info in found:
        assert info.dim and info.licence and info.fetch and info.extra == "torch"
        # A model that is here (in the cache of whoever runs this) needs nothing; any other says how much.
        assert (info.download_mb == 0) == info.is_ready and (info.is_ready or info.download_mb > 100)


class Pickled:
    """What runs a command when it is unpickled."""

    def __init__(self, command):
        self._command = command

    def __reduce__(self):
        return os.system, (self._command,)


def test_no_pickle_is_loaded_whatever_a_model_says(folder, tmp_path, monkeypatch):
    """A module that holds another model, which is opened without our settings, and asks for `weights_only: false`."""
    import torch
    from safetensors.torch import load_file

    outer, inner = tmp_path / "model", tmp_path / "model" / "inner"
    shutil.copytree(folder, inner)
    weights = {**load_file(inner / "model.safetensors"), "more": Pickled(f"touch {tmp_path / 'ran'}")}
    (inner / "model.safetensors").unlink()
    torch.save(weights, inner / "pytorch_model.bin")
    settings = json.loads((inner / "sentence_bert_config.json").read_text())
    (inner / "sentence_bert_config.json").write_text(json.dumps({**settings, "model_args": {"weights_only": False}}))
    config = json.loads((inner / "config.json").read_text())
    (inner / "config.json").write_text(json.dumps({k: v for k, v in config.items() if "dtype" not in k}))
    router = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.router.Router"}
    (outer / "modules.json").write_text(json.dumps([router]))
    types = {"types": {"inner": "sentence_transformers.SentenceTransformer"}, "structure": {"query": ["inner"]}}
    (outer / "router_config.json").write_text(json.dumps({**types, "parameters": {}}))
    shutil.copy(inner / "config_sentence_transformers.json", outer)
    with pytest.raises(InputError, match="cannot load the model"):
        load(str(outer))
    assert not (tmp_path / "ran").exists()


def test_a_folder_never_stands_for_the_model_of_an_alias(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder, tmp_path / "sentence-transformers" / "LaBSE")
    with pytest.raises(InputError, match="has the name of the hub's model"):
        load_encoder("labse")
    assert load_encoder("sentence-transformers:./sentence-transformers/LaBSE").dim == 16


def test_size_parameters_and_length(folder, tmp_path):
    from safetensors import safe_open

    encoder = load(str(folder))
    weights = [path for path in folder.rglob("*.safetensors")]
    expected = 0
    for path in weights:
        with safe_open(path, framework="numpy") as file:
            expected += sum(file.get_tensor(name).size for name in file.keys())  # noqa: SIM118
    assert encoder.n_parameters == expected and encoder.max_length == 40
    assert load(str(folder), max_length=12).max_length == 12
    assert encoder.size_bytes >= sum(path.stat().st_size for path in weights)
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "README.md").write_text("x" * 1000)
    (copy / "pytorch_model.bin").write_text("x" * 1000)  # beside model.safetensors, which is read in its place
    assert folder_bytes(copy) == encoder.size_bytes
    (copy / "more.json").write_text("x" * 1000)
    assert folder_bytes(copy) == encoder.size_bytes + 1000


def test_vectors_depend_on_the_number_of_threads_only_where_there_are_few_sentences(folder):
    encoder = load(str(folder), batch_size=2)
    with using_threads(1):
        alone = encoder.encode(SENTENCES)
    with using_threads(4):  # a batch of two for each thread, and each batch runs in one
        np.testing.assert_array_equal(encoder.encode(SENTENCES), alone)
    with using_threads(8):  # a sentence for each thread: other batches
        np.testing.assert_allclose(encoder.encode(SENTENCES), alone, atol=1e-6)
