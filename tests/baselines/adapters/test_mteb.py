"""Models run by mteb: vectors against sentence-transformers' own and against our adapter's."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from tiny_models import SENTENCES, write_bert, write_sentence_transformer

from baselines.adapters import mteb as adapter
from baselines.adapters.mteb import MtebEncoder, load
from baselines.adapters.sentence_transformer import load as load_sentence_transformer
from harness.core.errors import InputError, MissingExtraError
from harness.encoders.info import EncoderInfo
from harness.testing import check_encoder

mteb = pytest.importorskip("mteb")
torch = pytest.importorskip("torch")
sentence_transformers = pytest.importorskip("sentence_transformers")
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("mteb")
    return write_sentence_transformer(root / "tiny-st", write_bert(root / "bert"))


@pytest.fixture(scope="module")
def with_prompts(tmp_path_factory):
    """A model with prompts for mteb's tasks and kinds of text."""
    root = tmp_path_factory.mktemp("prompts")
    prompts = {"query": "query: ", "STS17": "the report: ", "BitextMining": "gitarre "}
    return write_sentence_transformer(root / "tiny-prompts", write_bert(root / "bert"), prompts=prompts)


def by_library(folder, **options):
    """sentence-transformers' own `encode`, one sentence at a time."""
    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    return np.stack([model.encode(text, show_progress_bar=False, **options) for text in SENTENCES])


def test_a_folders_vectors_are_those_of_the_other_adapter(folder):
    encoder = load(str(folder), device="cpu", batch_size=3)
    found = encoder.encode(SENTENCES)
    assert found.dtype == np.float32 and found.shape == (len(SENTENCES), encoder.dim)
    np.testing.assert_allclose(found, load_sentence_transformer(str(folder), device="cpu").encode(SENTENCES), atol=1e-6)
    np.testing.assert_allclose(found, by_library(folder), atol=1e-6)
    assert encoder.device == "cpu"
    check_encoder(encoder)


def test_a_registered_model_is_opened_by_its_name():
    encoder = load("mteb/baseline-random-encoder")
    assert encoder.fingerprint.startswith("mteb/mteb/baseline-random-encoder@")
    check_encoder(encoder)
    model = mteb.get_model("mteb/baseline-random-encoder")
    again = MtebEncoder(model, "x", name="x").encode(SENTENCES)
    np.testing.assert_array_equal(encoder.encode(SENTENCES), again)


@pytest.mark.parametrize(
    ("options", "prompt"),
    [
        ({}, "the report: "),
        ({"task": "STS16"}, ""),
        ({"task": "Tatoeba"}, "gitarre "),
        ({"task": "STS16", "prompt_type": "query"}, "query: "),
    ],
)
def test_task_and_prompt_type_choose_the_prompt(with_prompts, options, prompt):
    found = load(str(with_prompts), device="cpu", **options).encode(SENTENCES)
    np.testing.assert_allclose(found, by_library(with_prompts, prompt=prompt), atol=1e-6)


def test_fingerprints_tell_weights_and_options_apart(folder, with_prompts):
    made = [
        load(str(folder), device="cpu"),
        load(str(with_prompts), device="cpu"),
        load(str(folder), device="cpu", task="Tatoeba"),
        load(str(folder), device="cpu", prompt_type="query"),
    ]
    assert len({encoder.fingerprint for encoder in made}) == 4
    assert made[0].fingerprint == load(str(folder), device="cpu", batch_size=2, name="other").fingerprint
    assert f"|mteb:{mteb.__version__}|" in made[0].fingerprint
    assert str(folder.parent) not in made[0].fingerprint


@pytest.mark.parametrize(
    ("location", "options", "wrong"),
    [
        ("mteb/baseline-random-encoder", {"revision": "x"}, "Model revision x not found"),
        ("mteb/baseline-random-encoder", {"task": "Nothing"}, "mteb has no task 'Nothing'"),
        ("mteb/baseline-random-encoder", {"batch_size": 0}, "batch_size must be at least 1"),
        ("mteb/baseline-random-cross-encoder", {}, "gives no vectors of sentences"),
        ("nomic-ai/nomic-embed-text-v1", {}, "runs code that comes with the model; .* trust_remote_code=true"),
        ("/no/such/folder", {}, "no model folder"),
    ],
)
def test_bad_use_is_one_line(location, options, wrong):
    with pytest.raises(InputError, match=wrong) as error:
        load(location, **options)
    assert "\n" not in str(error.value)


def test_a_loader_that_fails_is_one_line(monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("no GPU\nand more")

    monkeypatch.setattr(mteb, "get_model", fail)
    with pytest.raises(InputError, match=r"cannot load the model .*RuntimeError: no GPU$"):
        load("mteb/baseline-random-encoder")


def test_the_code_of_a_model_is_run_on_request_only():
    def asks(name):
        return adapter._runs_remote_code(mteb.get_model_meta(name))

    assert asks("nomic-ai/nomic-embed-text-v1")  # in the loader's arguments
    assert asks("nvidia/NV-Embed-v2")  # in the loader's own lines
    assert not any(map(asks, ("sentence-transformers/LaBSE", "intfloat/multilingual-e5-small", "BAAI/bge-m3")))


def test_without_mteb_the_extra_is_named():
    assert isinstance(adapter.mteb, EncoderInfo)
    script = (
        "import sys; sys.modules['mteb'] = None\n"
        "from baselines.adapters.mteb import mteb\n"
        "mteb.check_installed('encoder mteb:x')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 1
    assert 'encoder mteb:x needs: pip install "multilingual-embedding-harness[mteb]"' in done.stderr
    assert MissingExtraError.__name__ in done.stderr
