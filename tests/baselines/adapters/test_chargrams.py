import math
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.adapters import chargrams as module
from baselines.adapters.chargrams import CharGrams
from harness.core.errors import InputError
from harness.encoders.encoder import check_vectors
from harness.encoders.registry import load_encoder
from harness.testing import check_encoder

MASK = 2**64 - 1
TEXTS = st.lists(st.text(st.characters() | st.sampled_from(" \tabAB好é\ud800")), max_size=8)


def gram_hash(gram):
    """The hash of the module's definition, in Python's integers."""
    value = 0
    for character in gram:
        value = (value * 0x9E3779B97F4A7C15 + ord(character)) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def oracle(sentence, dim, low, high):
    """The vector of the module's definition, gram by gram."""
    counts = [0] * dim
    for word in unicodedata.normalize("NFKC", sentence).lower().split():
        padded = f" {word} "
        for n in range(low, high + 1):
            for start in range(len(padded) - n + 1):
                gram = padded[start : start + n]
                # A lone blank (n = 1) says nothing.
                if gram.strip(" "):
                    value = gram_hash(gram)
                    counts[(value >> 32) * dim >> 32] += -1 if value & 1 else 1
    weights = [math.copysign(1 + math.log(abs(count)), count) if count else 0.0 for count in counts]
    norm = math.sqrt(sum(weight**2 for weight in weights))
    return [weight / norm if norm else 0.0 for weight in weights]


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.sampled_from([(3, 5), (1, 1), (2, 2), (1, 4), (4, 4), (2, 7)]), st.sampled_from([1, 7, 64]))
def test_same_as_the_definition(sentences, ngrams, dim):
    found = CharGrams(dim=dim, ngrams="{}-{}".format(*ngrams)).encode(sentences)
    expected = np.array([oracle(sentence, dim, *ngrams) for sentence in sentences]).reshape(len(sentences), dim)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@settings(max_examples=50, deadline=None)
@given(TEXTS, st.integers(1, 6), st.sampled_from([32, 64, 192]))
def test_block_sizes_change_nothing(sentences, chars, counts):
    encoder = CharGrams(dim=32)
    expected = encoder.encode(sentences)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK_CHARS", chars)
        patch.setattr(module, "_BLOCK_COUNTS", counts)
        np.testing.assert_array_equal(encoder.encode(sentences), expected)


@given(st.lists(st.text(), min_size=1, max_size=6))
def test_row_depends_on_its_sentence_alone_to_the_last_bit(sentences):
    encoder = CharGrams(dim=64)
    rows = [encoder.encode([sentence])[0] for sentence in sentences]
    np.testing.assert_array_equal(encoder.encode(sentences), rows)


def test_keeps_the_contract():
    check_encoder(load_encoder("chargrams"), tolerance=0)
    check_encoder(load_encoder("chargrams?dim=100&ngrams=2"), tolerance=0)


def test_definition_does_not_drift():
    # Stored results name the definition's version in the fingerprint: if these change, it has to.
    assert gram_hash(" a ") == 0x00BFD0C5EB125141
    assert gram_hash("güß") == 0x3A1C100211649A37
    vector = CharGrams(dim=16, ngrams="3").encode(["A"])[0]
    assert vector.tolist() == [-1.0] + [0.0] * 15


@pytest.mark.parametrize(
    "text", ["", " ", "\n\u3000", "\x00", "\ud800", "\udfff\ud800", "👩‍🚀", "\ufdfa" * 500, "\U0010ffff"]
)
def test_any_text_is_legal(text):
    encoder = CharGrams()
    vectors = check_vectors(encoder.encode([text, "ok"]), [text, "ok"], encoder)
    norms = np.linalg.norm(vectors, axis=1)
    np.testing.assert_allclose(norms, [1.0 if text.strip() else 0.0, 1.0], atol=1e-6)


def test_case_width_and_spacing_do_not_count():
    vectors = CharGrams().encode(["Straße  FULL", "straße full", "\tStraße ｆｕｌｌ ", "straße fuel"])
    np.testing.assert_array_equal(vectors[0], vectors[1])
    np.testing.assert_array_equal(vectors[0], vectors[2])
    assert 0.3 < vectors[0] @ vectors[3] < 0.99


def test_equal_in_another_process_with_other_string_hashes():
    code = "from baselines.adapters.chargrams import CharGrams\n"
    code += "print(CharGrams(dim=8).encode(['Grüße, 世界!']).tobytes().hex())"
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert found == {CharGrams(dim=8).encode(["Grüße, 世界!"]).tobytes().hex()}


@pytest.mark.parametrize("query", ["dim=0", "dim=-1", "ngrams=5-3", "ngrams=0-2", "ngrams=a", "ngrams=", "ngrams=3-99"])
def test_options_that_make_no_sense_are_refused(query):
    with pytest.raises(InputError, match=r"chargrams: (dim|ngrams)"):
        load_encoder(f"chargrams?{query}")


def test_fingerprint_tells_the_options():
    encoders = [load_encoder(f"chargrams{query}") for query in ("", "?dim=64", "?ngrams=2-5")]
    assert len({encoder.fingerprint for encoder in encoders}) == 3
    assert CharGrams(ngrams="4").fingerprint == CharGrams(ngrams="4-4").fingerprint
    assert CharGrams(name="x").fingerprint == CharGrams().fingerprint


def test_there_are_no_weights():
    assert (CharGrams().n_parameters, CharGrams().size_bytes) == (0, 0)
