"""Cut and quantised vectors against plain calculations; one encoding for all of them.

`tests/baselines/adapters/test_sentence_transformer.py` holds them against that library.
"""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from encoders import Counting, Letters
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from harness.core.errors import InputError, LanguageError
from harness.data import bundled_sample
from harness.encoders.cache import VectorCache
from harness.encoders.encoder import Encoder
from harness.encoders.reduction import Reduction, vector_bytes
from harness.encoders.registry import check_spec, load_encoder
from harness.encoders.spec import parse_spec
from harness.encoders.variant import (
    CALIBRATION,
    Variant,
    binary,
    calibration_digest,
    calibration_sentences,
    cut,
    int8,
    scales,
)
from harness.protocol import get_task, task_names
from harness.testing import check_encoder

Vectors = NDArray[np.float32]

TEXTS = ["a cat", "", "eine Katze", "the committee met twice", "ab" * 40, "zzz"]
BOTH = Reduction(5, "int8")
ALL = [Reduction(5), Reduction(None, "int8"), BOTH, Reduction(None, "binary"), Reduction(5, "binary")]

numbers = st.floats(-1e6, 1e6, width=32) | st.sampled_from([0.0, -0.0, 1e-40, -1e-40])
vectors = arrays(np.float32, array_shapes(min_dims=2, max_dims=2, max_side=9), elements=numbers)
steps = st.floats(2**-10, 2**10, width=32)


@given(vectors, st.data())
def test_cut_is_the_first_components_at_the_length_of_the_whole(x: Vectors, data: st.DataObject) -> None:
    dim = data.draw(st.integers(1, x.shape[1]))
    found = cut(x, dim)
    assert found.dtype == np.float32 and found.shape == (len(x), dim)
    for row, whole in zip(found.tolist(), x.tolist(), strict=True):
        kept, length = math.hypot(*whole[:dim]), math.hypot(*whole)
        expected = [value * (length / kept) for value in whole[:dim]] if kept else [0.0] * dim
        assert row == pytest.approx(expected, rel=1e-6, abs=1e-44)
    np.testing.assert_array_equal(cut(found, dim), found)
    np.testing.assert_array_equal(cut(x, x.shape[1]), x)


def test_a_cut_unit_vector_is_one_and_the_largest_numbers_stay_finite() -> None:
    x = np.random.default_rng(0).normal(size=(50, 16)).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    np.testing.assert_allclose(np.linalg.norm(cut(x, 3), axis=1), 1, atol=1e-6)
    largest = np.full((1, 9), np.finfo(np.float32).max)
    assert np.isfinite(cut(largest, 2)).all()


@given(vectors, vectors)
def test_binary_cosines_are_one_minus_two_hamming_over_d(x: Vectors, y: Vectors) -> None:
    dim = min(x.shape[1], y.shape[1])
    for a, b in zip(binary(x[:, :dim]), binary(y[:, :dim]), strict=False):
        bits = [[value > 0 for value in row] for row in (a, b)]
        if a.any() and b.any():
            hamming = sum(i != j for i, j in zip(*bits, strict=True))
            cosine = float(a @ b) / (np.linalg.norm(a) * np.linalg.norm(b))
            assert cosine == pytest.approx(1 - 2 * hamming / dim, abs=1e-6)
    for row, signs in zip(x.tolist(), binary(x).tolist(), strict=True):
        assert signs == [0.0 if not any(row) else 1.0 if value > 0 else -1.0 for value in row]
    np.testing.assert_array_equal(binary(binary(x)), binary(x))


@given(vectors, st.data())
def test_int8_is_the_nearest_of_255_multiples(x: Vectors, data: st.DataObject) -> None:
    of_component = data.draw(arrays(np.float32, x.shape[1], elements=steps))
    found = int8(x, of_component)
    assert found.dtype == np.float32
    for row, values in zip(found, x, strict=True):
        for got, value, step in zip(row, values, of_component, strict=True):
            code = max(-127, min(127, round(float(value / step))))  # Python rounds halves to even
            assert got == np.float32(code) * step
            if abs(value) <= 127 * step:
                assert abs(float(got) - float(value)) <= float(step) * 0.50001
    np.testing.assert_array_equal(int8(found, of_component), found)


def test_int8_rounds_halves_to_even_saturates_and_keeps_zero() -> None:
    x = np.array([[0.5, 1.5, 2.5, -0.5, -1.5, 0, 126.6, 128, -128, 3e38, -3e38]], np.float32)
    expected = [[0, 2, 2, 0, -2, 0, 127, 127, -127, 127, -127]]
    np.testing.assert_array_equal(int8(x, np.ones(11, np.float32)), expected)
    assert not int8(np.zeros((2, 3), np.float32), np.ones(3, np.float32)).any()


@given(vectors, st.data())
def test_a_vector_does_not_depend_on_the_others(x: Vectors, data: st.DataObject) -> None:
    dim, step = data.draw(st.integers(1, x.shape[1])), np.full(x.shape[1], 0.37, np.float32)
    for function in (lambda part: cut(part, dim), binary, lambda part: int8(part, step)):
        whole = function(x)
        for i in range(len(x)):
            np.testing.assert_array_equal(function(x[i : i + 1])[0], whole[i])


def test_scales_put_127_at_the_largest_value() -> None:
    found = scales(np.array([1.27, 0, 254], np.float32))
    np.testing.assert_allclose(found, [0.01, 2, 2])  # nothing is known of the range of the second
    np.testing.assert_array_equal(scales(np.zeros(2, np.float32)), [1, 1])


def test_the_calibration_sentences_are_those_of_the_bundled_sample() -> None:
    data = bundled_sample()
    everything = {text for name in task_names() if (task := get_task(name)).sentences for text in task.sentences(data)}
    assert set(calibration_sentences(False)[None]) == everything and len(everything) == 2496
    by_language = calibration_sentences(True)
    assert set(by_language) == {"ar", "de", "en", "es", "fr", "it", "ko", "nl", "ru", "tr", "zh"}
    assert sum(map(len, by_language.values())) == 2496
    # A change of these sentences changes the vectors of everyone, and every stored fingerprint.
    assert calibration_digest() == sha256(CALIBRATION.read_bytes()).hexdigest()[:12] == "5597400a2ffc"


def plain(encoder: Encoder, sentences: Sequence[str], reduction: Reduction) -> NDArray[np.float64]:
    """What a variant's vectors are, from the text of the module."""
    both = []
    for texts in (sentences, calibration_sentences(False)[None]):
        x = encoder.encode(texts).astype(np.float64)
        dim = reduction.truncate_dim or x.shape[1]
        kept = np.linalg.norm(x[:, :dim], axis=1, keepdims=True)
        both.append(x[:, :dim] * np.linalg.norm(x, axis=1, keepdims=True) / np.where(kept > 0, kept, 1))
    x, fixed = both
    if reduction.quantize == "binary":
        return np.where(x.any(axis=1, keepdims=True), np.where(x > 0, 1, -1), 0)
    if reduction.quantize == "int8":
        step = np.abs(fixed).max(axis=0) / 127
        step = np.where(step > 0, step, step.max())
        return np.clip(np.rint(x / step), -127, 127) * step
    return x


@pytest.mark.parametrize("reduction", ALL)
def test_a_variant_is_the_plain_calculation_with_and_without_cache(tmp_path: Path, reduction: Reduction) -> None:
    variant = Variant(Letters(), reduction)
    check_encoder(variant)
    expected = plain(Letters(), TEXTS, reduction)
    np.testing.assert_allclose(variant.encode(TEXTS), expected, rtol=2e-6, atol=1e-6)
    with VectorCache(tmp_path).of(Variant(Letters(), reduction)) as cached:
        np.testing.assert_array_equal(cached.encode(TEXTS).vectors, variant.encode(TEXTS))
        rows, stored = cached.stored(["new", *TEXTS])
        assert rows.tolist() == [1, 2, 3, 4, 5, 6]
        np.testing.assert_array_equal(stored, variant.encode(TEXTS))


def test_one_encoding_serves_all_variants(tmp_path: Path) -> None:
    base = Letters()
    cache = VectorCache(tmp_path)
    with cache.of(base) as full:
        assert full.encode(TEXTS).n_new == len(TEXTS)
    for reduction in ALL:
        with cache.of(Variant(base, reduction)) as vectors:
            encoded = vectors.encode(TEXTS)
            assert (encoded.n_new, encoded.vectors.shape[1]) == (0, reduction.truncate_dim or 32)
    assert sorted(base.seen) == sorted({*TEXTS, *calibration_sentences(False)[None]}) and len(cache.size()) == 1


def test_int8_does_not_depend_on_what_is_evaluated(tmp_path: Path) -> None:
    loud = [" ".join(TEXTS) * 50]
    found = []
    for place, others in enumerate([[], loud]):
        with VectorCache(tmp_path / str(place)).of(Variant(Letters(), BOTH)) as vectors:
            vectors.encode(others)
            found.append(vectors.encode([*TEXTS, *others]).vectors[: len(TEXTS)])
    np.testing.assert_array_equal(found[0], found[1])


class NoKorean(Counting):
    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        if lang in self.refused:
            raise LanguageError(f"cannot read {lang}")
        return super().encode(sentences, lang=lang)

    refused: tuple[str, ...] = ("ko",)


def test_calibration_sentences_carry_their_language() -> None:
    encoder = NoKorean(uses_lang=True)
    variant = Variant(encoder, Reduction(None, "int8"))
    found = variant.encode(["aaa"], lang="de")
    seen = {(lang, text) for lang, text in encoder.seen if text != "aaa"}
    assert seen == {
        (lang, text) for lang, texts in calibration_sentences(True).items() if lang != "ko" for text in texts
    }
    largest = np.max([encoder.row(text, lang) for lang, text in seen], axis=0)
    step = largest / 127
    np.testing.assert_allclose(found[0], np.rint(encoder.row("aaa", "de") / step) * step, rtol=1e-6)
    encoder.refused = tuple(calibration_sentences(True))
    with pytest.raises(InputError, match="takes none of the languages that int8 is calibrated with"):
        Variant(encoder, Reduction(None, "int8")).encode(["aaa"], lang="xx")


@pytest.mark.parametrize(
    ("options", "name", "fingerprint"),
    [
        ("truncate_dim=256", "chargrams@256", "|truncate_dim:256"),
        ("truncate_dim=0256", "chargrams@256", "|truncate_dim:256"),
        ("quantize=binary", "chargrams@binary", "|quantize:binary"),
        ("quantize=int8", "chargrams@int8", "|quantize:int8:5597400a2ffc"),
        ("quantize=int8&truncate_dim=256", "chargrams@256-int8", "|truncate_dim:256|quantize:int8:5597400a2ffc"),
        ("normalize=true&truncate_dim=9", "chargrams@9", "|normalized|truncate_dim:9"),
        ("truncate_dim=9&name=mine", "mine", "|truncate_dim:9"),
        ("truncate_dim=1024", "chargrams@1024", "|truncate_dim:1024"),
    ],
)
def test_names_and_fingerprints(options: str, name: str, fingerprint: str) -> None:
    base = load_encoder("chargrams")
    variant = load_encoder(f"chargrams?{options}")
    assert isinstance(variant, Variant) and isinstance(variant, Encoder)
    assert (variant.name, variant.base.name) == (name, "chargrams")
    assert variant.fingerprint == base.fingerprint + fingerprint
    assert variant.base.fingerprint in (base.fingerprint, f"{base.fingerprint}|normalized")
    for same in (copy.copy(variant), pickle.loads(pickle.dumps(variant))):
        assert (same.name, same.fingerprint) == (name, variant.fingerprint)


def test_what_is_no_reduction_is_the_encoder_itself() -> None:
    for spec in ("chargrams", "chargrams?quantize=none"):
        encoder = load_encoder(spec)
        assert not isinstance(encoder, Variant) and encoder.name == "chargrams"
    assert load_encoder("chargrams?quantize=none").fingerprint == load_encoder("chargrams").fingerprint


def test_the_base_of_a_variant_with_a_name_of_its_own() -> None:
    spec = parse_spec("chargrams?name=mine").reduced(BOTH)
    assert str(spec) == "chargrams?name=mine@5-int8&truncate_dim=5&quantize=int8"
    variant = load_encoder(str(spec))
    assert isinstance(variant, Variant) and (variant.name, variant.base.name) == ("mine@5-int8", "mine")
    assert str(parse_spec(str(spec))) == str(spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("chargrams?truncate_dim=0", "encoder 'chargrams': truncate_dim must be 1 or more, not 0"),
        ("chargrams?truncate_dim=-5", "truncate_dim must be 1 or more, not -5"),
        ("chargrams?truncate_dim=x/../y", "option truncate_dim is a whole number, not"),
        (f"chargrams?truncate_dim={'9' * 5000}", "option truncate_dim is a whole number, not|has .* characters"),
        ("chargrams?quantize=int4", "unknown value of .* option quantize 'int4'.*int8"),
        ("chargrams?quantize=", "unknown value of .* option quantize ''"),
        ("chargrams?quantise=int8", "unknown option .*; did you mean 'quantize'"),
    ],
)
def test_wrong_options_are_said_in_one_line_before_loading(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        check_spec(spec)
    assert "\n" not in str(caught.value)


def test_more_dimensions_than_there_are() -> None:
    with pytest.raises(InputError, match=r"^chargrams@1025: truncate_dim must be 1 to 1024, not 1025$"):
        load_encoder("chargrams?truncate_dim=1025")
    with pytest.raises(InputError, match="is cut or quantised already; give the full encoder, letters"):
        Variant(Variant(Letters(), BOTH), Reduction(3))


def test_normalised_cut_and_quantised_in_this_order() -> None:
    texts = ["a cat sat", "on the mat"]
    raw = load_encoder("chargrams").encode(texts).astype(np.float64)
    unit = raw / np.linalg.norm(raw, axis=1, keepdims=True)
    part = unit[:, :100] / np.linalg.norm(unit[:, :100], axis=1, keepdims=True)
    found = load_encoder("chargrams?normalize=true&truncate_dim=100").encode(texts)
    np.testing.assert_allclose(found, part, atol=1e-6)


@pytest.mark.parametrize(("dim", "quantize", "size"), [(256, "none", 1024), (256, "int8", 256), (257, "binary", 33)])
def test_bytes_of_a_vector(dim: int, quantize: str, size: int) -> None:
    assert vector_bytes(dim, quantize) == size
