import shutil

import numpy as np
import pytest
from tiny_models import SENTENCES, write_bert, write_xlm_r

from baselines.adapters.sentence_transformer import load_pooled
from harness.core.errors import InputError
from harness.encoders.registry import load_encoder
from harness.testing import check_encoder

torch = pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")
torch.set_num_threads(1)  # the library's own calls crawl with more on a machine that is busy with other tests


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return write_bert(tmp_path_factory.mktemp("bert") / "tiny-bert")


@pytest.fixture(scope="module")
def xlm_r(tmp_path_factory):
    return write_xlm_r(tmp_path_factory.mktemp("xlm-r") / "tiny-xlm-r")


def oracle(folder, sentence, pooling="mean", max_length=None):
    """One sentence at a time, no padding, pooled in plain Python over the tokens that transformers gives."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    tokens = tokenizer(sentence, return_tensors="pt", truncation=max_length is not None, max_length=max_length)
    with torch.no_grad():
        states = model(**tokens).last_hidden_state[0].tolist()
    assert len(states) >= 2  # the special tokens count
    if pooling == "cls":
        return states[0]
    columns = list(zip(*states, strict=True))
    return [max(c) if pooling == "max" else sum(c) / len(c) for c in columns]


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_vectors_are_those_of_single_sentences_pooled_in_plain_python(bert, pooling):
    found = load_pooled(str(bert), pooling=pooling, batch_size=3, device="cpu").encode(SENTENCES)
    expected = [oracle(bert, text, pooling) for text in SENTENCES]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_xlm_r(xlm_r):
    found = load_pooled(str(xlm_r), device="cpu").encode(SENTENCES[:2])
    np.testing.assert_allclose(found, [oracle(xlm_r, text) for text in SENTENCES[:2]], atol=1e-5)


def test_max_length_cuts_after_that_many_tokens(bert):
    found = load_pooled(str(bert), max_length=5, device="cpu").encode(SENTENCES)
    np.testing.assert_allclose(found, [oracle(bert, text, max_length=5) for text in SENTENCES], atol=1e-5)
    three_words = load_pooled(str(bert), device="cpu").encode(["the committee met"])
    np.testing.assert_allclose(found[2], three_words[0], atol=1e-5)  # [CLS], three words, [SEP]


def test_a_sentence_longer_than_the_model_is_cut_even_where_the_tokenizer_claims_more(xlm_r):
    encoder = load_pooled(str(xlm_r), device="cpu")
    assert "max_length:32|" in encoder.fingerprint
    np.testing.assert_allclose(encoder.encode(["man " * 200])[0], oracle(xlm_r, "man " * 200, max_length=32), atol=1e-5)


def test_prompt_is_put_before_every_sentence(bert):
    prompted = load_pooled(str(bert), prompt="query: ", device="cpu").encode(["a man", ""])
    plain = load_pooled(str(bert), device="cpu").encode(["query: a man", "query: "])
    np.testing.assert_allclose(prompted, plain, atol=1e-6)


def test_half_precision_is_near_and_pools_in_float32(bert):
    exact = load_pooled(str(bert), device="cpu").encode(SENTENCES)
    half = load_pooled(str(bert), precision="bf16", device="cpu").encode(SENTENCES)
    cosines = (exact * half).sum(1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(half, axis=1)
    assert half.dtype == np.float32
    assert cosines.min() > 0.99
    assert not np.array_equal(exact, half)
    # Pooled in bf16, every value would be one of bf16's: the lower 16 bits of its float32 form would be 0.
    assert (half.view(np.uint32) & 0xFFFF).any()


def test_keeps_the_contract(bert):
    check_encoder(load_encoder(f"mean-pooling:{bert}?batch_size=4"), SENTENCES)
    check_encoder(load_encoder(f"mean-pooling:{bert}?precision=bf16"), SENTENCES, tolerance=2e-2)


def test_loads_through_a_spec_string_under_the_folders_name(bert):
    encoder = load_encoder(f"mean-pooling:{bert}?pooling=max")
    assert (encoder.name, encoder.dim, encoder.uses_lang) == ("tiny-bert", 32, False)
    with pytest.raises(InputError, match="did you mean 'max'"):
        load_encoder(f"mean-pooling:{bert}?pooling=maxx")


def test_equal_fingerprints_mean_equal_weights_and_options(bert, tmp_path):
    def fingerprint(folder=bert, **options):
        return load_pooled(str(folder), device="cpu", **options).fingerprint

    elsewhere = shutil.copytree(bert, tmp_path / "copy")
    (elsewhere / "README.md").write_text("not part of the model")
    assert fingerprint(elsewhere, batch_size=5, name="other") == fingerprint()
    assert str(tmp_path) not in fingerprint(elsewhere)
    assert "copy" not in fingerprint(elsewhere)
    others = [
        fingerprint(write_bert(tmp_path / "retrained", seed=1)),
        fingerprint(pooling="max"),
        fingerprint(prompt="query: "),
        fingerprint(max_length=10),
        fingerprint(precision="bf16"),
    ]
    assert len({fingerprint(), *others}) == 1 + len(others)


def test_one_line_errors(bert, xlm_r, tmp_path):
    for spec, message in [
        ("mean-pooling:./no-such-folder", "no model folder"),
        (f"mean-pooling:{bert}?max_length=41", "3 to 40, not 41"),
        (f"mean-pooling:{xlm_r}?max_length=33", "3 to 32, not 33"),
        (f"mean-pooling:{bert}?max_length=2", "3 to 40, not 2"),
        (f"mean-pooling:{bert}?batch_size=0", "batch_size must be at least 1"),
        (f"mean-pooling:{bert}?revision=main", "`revision` is for models of a hub"),
        (f"mean-pooling:{tmp_path}?name=empty", "cannot load the model"),
    ]:
        with pytest.raises(InputError, match=message) as error:
            load_encoder(spec)
        assert "\n" not in str(error.value)
