import numpy as np
import pytest

from harness.core.errors import InputError
from harness.encoders.encoder import Encoder, check_vectors


class Two:
    name = "two"
    fingerprint = "two"
    dim = 2
    uses_lang = False

    def encode(self, sentences, *, lang=None):
        return np.zeros((len(sentences), 2), np.float32)


SENTENCES = ["first", "second"]


def check(vectors, sentences=SENTENCES):
    return check_vectors(vectors, sentences, Two())


def test_protocol():
    assert isinstance(Two(), Encoder)
    assert not isinstance("two", Encoder)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64, np.uint8, ">f4"])
def test_numbers_become_float32(dtype):
    vectors = check(np.array([[1, 2], [3, 4]], dtype))
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, [[1, 2], [3, 4]])


def test_lists_of_numbers_are_accepted():
    np.testing.assert_array_equal(check([[1, 2], [3, 0.5]]), [[1, 2], [3, 0.5]])


def test_result_is_contiguous():
    assert check(np.ones((2, 4), np.float32)[:, ::2]).flags.c_contiguous


def test_float32_is_not_copied():
    vectors = np.ones((2, 2), np.float32)
    assert check(vectors) is vectors


def test_no_sentences():
    assert check(np.zeros((0, 2), np.float32), []).shape == (0, 2)
    with pytest.raises(InputError, match=r"shape \(0,\) for 0 sentences, expected float32 of shape \(0, 2\)"):
        check([], [])


def test_zero_vectors_are_legal():
    assert not check(np.zeros((2, 2))).any()


def test_huge_finite_values_are_legal_although_their_sum_overflows():
    huge = np.finfo(np.float32).max
    np.testing.assert_array_equal(check(np.full((2, 2), huge, np.float32)), huge)
    np.testing.assert_array_equal(check(np.full((2, 2), -float(huge))), -huge)


@pytest.mark.parametrize(
    ("row", "value", "word"),
    [
        ([0, np.nan], np.float32, "NaN"),
        ([np.inf, 0], np.float32, "infinity"),
        ([0, -np.inf], np.float64, "infinity"),
        ([np.inf, -np.inf], np.float32, "infinity"),
        ([np.inf, np.nan], np.float32, "NaN"),
        ([1e300, 0], np.float64, "infinity"),
    ],
)
def test_what_is_not_finite_is_refused_with_its_sentence(row, value, word):
    with pytest.raises(InputError, match=f"encoder 'two' returned {word} in row 1 for the sentence 'second'"):
        check(np.array([[1, 2], row], value))


def test_infinities_that_cancel_are_refused():
    with pytest.raises(InputError, match="infinity in row 0"):
        check(np.array([[np.inf, 0], [-np.inf, 0]], np.float32))


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.zeros((2, 3), np.float32), r"shape \(2, 3\) for 2 sentences, expected float32 of shape \(2, 2\)"),
        (np.zeros((1, 2), np.float32), r"shape \(1, 2\)"),
        (np.zeros(4, np.float32), r"shape \(4,\)"),
        (np.zeros((2, 2, 1), np.float32), r"shape \(2, 2, 1\)"),
        (np.zeros((2, 2), np.complex64), "complex64"),
        (np.zeros((2, 2), bool), "bool"),
        (np.zeros((2, 2), object), "object"),
        ([["1", "2"], ["3", "4"]], "<U1"),
        (None, "returned NoneType for 2 sentences, .* lack a `return`"),
        ([[1, 2], [3]], "returned list, which is no float32 array"),
    ],
)
def test_wrong_shape_or_type_is_refused(vectors, message):
    with pytest.raises(InputError, match=message) as caught:
        check(vectors)
    assert "\n" not in str(caught.value)
    assert "'two'" in str(caught.value)


def test_what_cannot_be_an_array_here_is_refused():
    class OnAnotherDevice:
        def __array__(self, dtype=None, copy=None):
            raise TypeError("can't convert cuda:0 device type tensor to numpy.\nUse Tensor.cpu() first.")

    with pytest.raises(InputError, match=r"returned OnAnotherDevice, which is no float32 array.*cuda:0"):
        check(OnAnotherDevice())


def test_masked_values_are_refused_as_nan_is():
    numbers = np.array([[1, 2], [3, 4]], np.float32)
    np.testing.assert_array_equal(check(np.ma.array(numbers)), numbers)
    masked = np.ma.array(numbers, mask=[[False, False], [True, False]])
    for vectors in (masked, list(masked), tuple(masked)):
        with pytest.raises(InputError, match="'two' returned a masked value in row 1 for the sentence 'second'"):
            check(vectors)
