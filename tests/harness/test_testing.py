"""`check_encoder` passes a good encoder, and for every promise there is an encoder here that breaks it alone."""

import zlib

import numpy as np
import pytest

from harness.testing import SENTENCES, check_encoder


class Good:
    """A vector of each sentence's bytes; the base of the broken ones below."""

    name = "good"
    fingerprint = "good;v1;org/model;https://example.org/a/b;max/mean"
    dim = 4
    uses_lang = False

    def row(self, sentence, lang):
        return np.random.default_rng(zlib.crc32(sentence.encode())).normal(size=self.dim)

    def encode(self, sentences, *, lang=None):
        vectors = np.zeros((len(sentences), self.dim), np.float32)
        for row, sentence in enumerate(sentences):
            vectors[row] = self.row(sentence, lang)
        return vectors


def broken(**attributes):
    return type("Broken", (Good,), attributes)()


def without(name):
    class Lacking:
        def __getattribute__(self, attribute):
            if attribute == name:
                raise AttributeError(attribute)
            return super().__getattribute__(attribute)

    return type("Lacking", (Lacking, Good), {})()


def encoding(change):
    """An encoder whose vectors are `change(vectors, sentences)`."""
    return broken(encode=lambda self, sentences, *, lang=None: change(Good.encode(self, sentences), sentences))


class Language(Good):
    uses_lang = True

    def row(self, sentence, lang):
        if lang is None:
            raise ValueError("lang is needed")
        return super().row(sentence + lang, lang)


def test_good_encoders_pass():
    check_encoder(Good())
    check_encoder(Good(), tolerance=0)
    check_encoder(Good(), ["a", "b", "", "a"], lang=None)
    check_encoder(Language())


def test_zero_vectors_of_some_sentences_are_legal():
    def row(self, sentence, lang):
        return np.zeros(4) if len(sentence.strip()) < 3 else Good.row(self, sentence, lang)

    check_encoder(broken(row=row))


def test_rounding_is_legal_within_the_tolerance():
    encoder = encoding(lambda vectors, sentences: vectors * np.float32(1 + 1e-6 * len(sentences)))
    check_encoder(encoder, tolerance=1e-3)
    with pytest.raises(AssertionError, match="tolerance 1e-06"):
        check_encoder(encoder, tolerance=1e-6)


def test_too_few_sentences_check_nothing():
    with pytest.raises(ValueError, match="at least two different"):
        check_encoder(Good(), ["a", "a", ""])


@pytest.mark.parametrize("name", ["name", "fingerprint", "dim", "uses_lang", "encode"])
def test_lacking_attribute(name):
    with pytest.raises(AssertionError, match=f"encoder has no (method )?{name}"):
        check_encoder(without(name))


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("name", None, "name must be str, not NoneType"),
        ("name", " ", "name is empty"),
        ("fingerprint", 3, "fingerprint must be str, not int"),
        ("fingerprint", "", "fingerprint is empty"),
        ("fingerprint", "/home/me/model", "fingerprint contains a path of this machine: '/home/me/model'"),
        ("fingerprint", "weights=/tmp/x;pool=mean", "path of this machine"),
        ("fingerprint", "~/models/x", "path of this machine"),
        ("fingerprint", "w=C:\\models", "path of this machine"),
        ("fingerprint", "file:///srv/x", "path of this machine"),
        ("fingerprint", "<Model object at 0x7f22869ba250>", "memory address"),
        ("dim", 4.0, "dim must be int, not float"),
        ("dim", True, "dim must be int, not bool"),
        ("dim", 0, "dim must be positive, not 0"),
        ("uses_lang", None, "uses_lang must be bool, not NoneType"),
        ("uses_lang", 0, "uses_lang must be bool, not int"),
        ("encode", None, "encoder has no method encode"),
    ],
)
def test_wrong_attribute(attribute, value, message):
    with pytest.raises(AssertionError, match=message):
        check_encoder(broken(**{attribute: value}))


def drop_empty(vectors, sentences):
    return vectors[[row for row, sentence in enumerate(sentences) if sentence]]


def fail_if(condition, error):
    def change(vectors, sentences):
        if condition(sentences):
            raise error
        return vectors

    return change


def nan_if(condition):
    def change(vectors, sentences):
        vectors[[row for row, sentence in enumerate(sentences) if condition(sentence)]] = np.nan
        return vectors

    return change


def set_infinity(vectors, sentences):
    vectors[-1:, 0] = np.inf
    return vectors


def centre(vectors, sentences):
    return vectors - vectors.mean(axis=0) if len(vectors) > 1 else vectors


def cumulate(vectors, sentences):
    return np.cumsum(vectors, axis=0)


def sort_rows(vectors, sentences):
    return vectors[np.argsort([len(sentence) for sentence in sentences], kind="stable")]


def empty_list(sentences):
    return len(sentences) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda vectors, sentences: vectors.tolist(), "returned list, not a NumPy array"),
        (lambda vectors, sentences: vectors.astype(np.float64), "returned float64, not float32"),
        (lambda vectors, sentences: vectors[:, :3], r"returned shape \(11, 3\), not \(11, 4\)"),
        (lambda vectors, sentences: vectors[:16], r"returned shape \(16, 4\), not \(121, 4\)"),
        (
            fail_if(empty_list, IndexError("list index out of range")),
            r"encode\(\[\], lang='en'\) raised IndexError: list",
        ),
        (
            lambda vectors, sentences: vectors if len(sentences) else np.zeros(0, np.float32),
            r"shape \(0,\), not \(0, 4\)",
        ),
        (drop_empty, r"encode\(\[''\], lang='en'\) returned shape \(0, 4\), not \(1, 4\)"),
        (nan_if(lambda sentence: sentence == ""), r"encode\(\[''\], lang='en'\) returned NaN or infinity"),
        (nan_if(lambda sentence: sentence == " "), "returned NaN or infinity"),
        (set_infinity, "returned NaN or infinity"),
        (lambda vectors, sentences: vectors * 0, "every sentence has the zero vector"),
        (lambda vectors, sentences: vectors * 0 + 1, "different sentences all have the same vector"),
        (centre, "vectors depend on the other sentences of the call"),
        (cumulate, "vectors depend on the order of the sentences"),
        (sort_rows, "vectors depend on the order of the sentences"),
        (fail_if(lambda sentences: isinstance(sentences, tuple), TypeError("no list")), "raised TypeError: no list"),
        (
            lambda vectors, sentences: vectors * (-1 if len(sentences) == 3 else 1),
            "vectors depend on how many sentences a call has",
        ),
        (lambda vectors, sentences: np.roll(vectors, 1, 0) if len(vectors) > 64 else vectors, "duplicates do not have"),
        (lambda vectors, sentences: vectors + (isinstance(sentences, tuple)), "a tuple of sentences is not encoded as"),
    ],
)
def test_wrong_vectors(change, message):
    with pytest.raises(AssertionError, match=message) as caught:
        check_encoder(encoding(change))
    assert "\n" not in str(caught.value)


def test_random_vectors():
    generator = np.random.default_rng(0)
    encoder = encoding(lambda vectors, sentences: generator.normal(size=vectors.shape).astype(np.float32))
    with pytest.raises(AssertionError, match=r"encode is not deterministic: the vector of '.* moves by .*tolerance"):
        check_encoder(encoder)


def test_state_of_earlier_calls():
    class Wearing(Good):
        calls = 0

        def encode(self, sentences, *, lang=None):
            self.calls += not sentences  # an empty call spoils all later ones
            return super().encode(sentences) * np.float32(1 + self.calls)

    with pytest.raises(AssertionError, match=r"vectors depend on (lang|earlier calls)"):
        check_encoder(Wearing())
    with pytest.raises(AssertionError, match="vectors depend on earlier calls"):
        check_encoder(type("WithLang", (Wearing,), {"uses_lang": True})())


def test_buffer_that_is_used_again():
    class Reusing(Good):
        buffer = np.zeros((200, 4), np.float32)

        def encode(self, sentences, *, lang=None):
            vectors = self.buffer[: len(sentences)]
            vectors[:] = super().encode(sentences)
            return vectors

    with pytest.raises(AssertionError, match="a later call overwrites the array that an earlier one returned"):
        check_encoder(Reusing())


def test_sentences_that_are_changed():
    def encode(self, sentences, *, lang=None):
        vectors = Good.encode(self, sentences)
        if isinstance(sentences, list):
            sentences.sort()
        return vectors

    with pytest.raises(AssertionError, match="changed the list of sentences"):
        check_encoder(broken(encode=encode))


def test_language_that_matters_although_it_should_not():
    with pytest.raises(AssertionError, match="uses_lang is False, but the vectors depend on lang"):
        check_encoder(broken(row=lambda self, sentence, lang: Good.row(self, sentence + (lang or ""), lang)))


def test_language_that_is_not_accepted():
    with pytest.raises(AssertionError, match=r"raised TypeError: .*lang"):
        check_encoder(broken(encode=lambda self, sentences: Good.encode(self, sentences)))

    def row(self, sentence, lang):
        return Good.row(self, sentence, {"en": 0}[lang])

    with pytest.raises(AssertionError, match=r"lang=None.* raised KeyError"):
        check_encoder(broken(row=row))


def test_fingerprint_that_changes_when_the_model_is_loaded():
    class Lazy(Good):
        fingerprint = "unknown"

        def encode(self, sentences, *, lang=None):
            self.fingerprint = "known"
            return super().encode(sentences)

    with pytest.raises(AssertionError, match="fingerprint, dim or uses_lang changed while encoding"):
        check_encoder(Lazy())


def test_sample_sentences_are_worth_it():
    assert len(set(SENTENCES)) == len(SENTENCES)
    assert max(map(len, SENTENCES)) > 10 * min(map(len, SENTENCES))


def test_masked_values_are_no_numbers():
    def masked(vectors, sentences):
        return np.ma.array(vectors, mask=np.arange(vectors.size).reshape(vectors.shape) == 1)

    with pytest.raises(AssertionError, match="returned masked values"):
        check_encoder(encoding(masked))
    check_encoder(encoding(lambda vectors, sentences: np.ma.array(vectors)))
