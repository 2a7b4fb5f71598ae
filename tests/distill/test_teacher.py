"""The store of the teacher's vectors: each sentence once, resumed after a kill, refused where it does not fit."""

import json

import numpy as np
import pytest
from encoders import Counting, Letters

import distill.teacher
from distill.teacher import SideBySide, TeacherVectors
from harness.core.errors import InputError

DIM = 6
SENTENCES = ["b" * length for length in (3, 9, 0, 5, 1, 7, 8, 2, 6, 4)]


class Lengths(Counting):
    """A vector tells the length of its sentence."""

    dim = DIM

    def __init__(self, fail_after=None, factor=0.1):
        super().__init__("counting/1")
        self._fail_after, self._factor = fail_after, factor

    def encode(self, sentences, *, lang=None):
        if self._fail_after is not None and len(self.batches) == self._fail_after:
            raise KeyboardInterrupt
        super().encode(sentences, lang=lang)
        return wanted(sentences, self._factor)


def wanted(sentences, factor=0.1):
    lengths = np.array([len(text) for text in sentences], dtype=np.float32)
    return factor * lengths[:, None] * np.arange(1, DIM + 1, dtype=np.float32)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(distill.teacher, "CHUNK", 4)


@pytest.mark.parametrize("dtype, tolerance", [("float32", 0), ("float16", 2**-11)])
def test_each_sentence_once_and_the_longest_first(tmp_path, dtype, tolerance):
    encoder, seen = Lengths(), []
    vectors = TeacherVectors.build(encoder, SENTENCES, tmp_path / "s", dtype, lambda *done: seen.append(done))
    assert sorted(text for batch in encoder.batches for text in batch) == sorted(SENTENCES)
    assert [sorted(map(len, batch), reverse=True) for batch in encoder.batches] == [[9, 8, 7, 6], [5, 4, 3, 2], [1, 0]]
    assert seen == [(0, 10), (4, 10), (8, 10), (10, 10)]
    rows = np.array([7, 0, 7, 9])
    found = vectors[rows]
    assert found.dtype == np.float32 and found.shape == (4, DIM)
    np.testing.assert_allclose(found, wanted([SENTENCES[row] for row in rows]), rtol=tolerance)
    assert (len(vectors), vectors.dim, vectors.fingerprint) == (10, DIM, "counting/1")
    assert (tmp_path / "s" / "vectors.npy").stat().st_size == 128 + 10 * DIM * np.dtype(dtype).itemsize
    np.testing.assert_array_equal(np.load(tmp_path / "s" / "vectors.npy")[rows].astype(np.float32), found)


def test_a_build_that_was_killed_goes_on_and_a_complete_one_computes_nothing(tmp_path):
    killed, resumed, again = Lengths(fail_after=2), Lengths(), Lengths()
    with pytest.raises(KeyboardInterrupt):
        TeacherVectors.build(killed, SENTENCES, tmp_path)
    with pytest.raises(InputError, match="not all of the teacher's vectors are there yet"):
        TeacherVectors.open(tmp_path)
    whole = TeacherVectors.build(resumed, SENTENCES, tmp_path, "float16")
    assert [len(batch) for batch in killed.batches + resumed.batches] == [4, 4, 2]
    TeacherVectors.build(again, SENTENCES, tmp_path)
    assert again.batches == []
    np.testing.assert_allclose(whole[np.arange(10)], wanted(SENTENCES), rtol=2**-11)
    np.testing.assert_array_equal(TeacherVectors.open(tmp_path)[np.arange(10)], whole[np.arange(10)])


def test_a_chunk_that_does_not_fit_into_memory_goes_through_in_parts(tmp_path, capsys):
    class Small(Lengths):
        def encode(self, sentences, *, lang=None):
            if len(sentences) > 2:
                raise MemoryError("Unable to allocate 20 GiB")
            return super().encode(sentences, lang=lang)

    found = TeacherVectors.build(Small(), SENTENCES, tmp_path / "s", "float32")
    np.testing.assert_array_equal(found[np.arange(10)], wanted(SENTENCES))
    assert capsys.readouterr().err == "warning: memory ran out; counting encodes 2 sentences at a time\n"


def test_a_kill_before_the_store_is_set_up_leaves_nothing_behind(tmp_path, monkeypatch):
    def killed(path, content):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(distill.teacher, "write_atomically", killed)
        TeacherVectors.build(Lengths(), SENTENCES, tmp_path)
    found = TeacherVectors.build(Lengths(), SENTENCES, tmp_path, "float32")
    np.testing.assert_array_equal(found[np.arange(10)], wanted(SENTENCES))


def test_a_teacher_that_wants_the_language_is_told(tmp_path):
    encoder = Lengths()
    encoder.uses_lang = True
    assert TeacherVectors.build(encoder, SENTENCES, tmp_path, lang="en").fingerprint == "counting/1|lang:en"
    assert set(encoder.langs) == {"en"}


def test_other_vectors_are_refused_and_kept(tmp_path):
    TeacherVectors.build(Lengths(), SENTENCES, tmp_path)
    other = Lengths()
    other.fingerprint = "counting/2"
    for encoder, sentences, dtype, what in [
        (other, SENTENCES, "float16", "fingerprint"),
        (Lengths(), SENTENCES[::-1], "float16", "digest"),
        (Lengths(), [*SENTENCES[:8], "b" * 6 + "b" * 4], "float16", "digest"),
        (Lengths(), SENTENCES, "float32", "dtype"),
    ]:
        with pytest.raises(InputError, match=f"of another {what} .*; name another folder"):
            TeacherVectors.build(encoder, sentences, tmp_path, dtype)
        assert encoder.batches == []
    assert len(TeacherVectors.open(tmp_path)) == 10


def test_sentences_are_told_apart_where_they_are_joined(tmp_path):
    TeacherVectors.build(Lengths(), ["ab", "c"], tmp_path)
    with pytest.raises(InputError, match="another digest"):
        TeacherVectors.build(Lengths(), ["a", "bc"], tmp_path)


@pytest.mark.parametrize(
    "factor, dtype, message",
    [
        (np.nan, "float16", "NaN in row 1 for the sentence 'bbb"),
        (1e6, "float16", "too large for float16; take --teacher-dtype float32"),
    ],
)
def test_numbers_that_are_none(tmp_path, factor, dtype, message):
    with pytest.raises(InputError, match=message):
        TeacherVectors.build(Lengths(factor=factor), SENTENCES, tmp_path, dtype)


def test_no_sentences(tmp_path):
    with pytest.raises(InputError, match="no sentences"):
        TeacherVectors.build(Lengths(), [], tmp_path)


def test_damaged_stores_and_folders_that_cannot_be_written(tmp_path):
    store = tmp_path / "s"
    TeacherVectors.build(Lengths(), SENTENCES, store)
    content = (store / "vectors.npy").read_bytes()
    (store / "vectors.npy").write_bytes(content[:-1])
    with pytest.raises(InputError, match="no store of teacher vectors"):
        TeacherVectors.open(store)
    (store / "vectors.npy").write_bytes(content)
    info = json.loads((store / "store.json").read_text())
    (store / "store.json").write_text(json.dumps({**info, "dim": 5}))
    with pytest.raises(InputError, match="no store of teacher vectors"):
        TeacherVectors.open(store)
    (store / "store.json").write_text("{}")
    with pytest.raises(InputError, match="damaged"):
        TeacherVectors.build(Lengths(), SENTENCES, store)
    with pytest.raises(InputError, match="no store of teacher vectors"):
        TeacherVectors.open(tmp_path / "none")
    with pytest.raises(InputError, match="cannot be written"):
        TeacherVectors.build(Lengths(), SENTENCES, store / "vectors.npy" / "below")


def test_teachers_side_by_side_have_the_mean_of_their_cosines():
    letters, counting = Letters(), Counting("counting/2", uses_lang=True)
    both = SideBySide([letters, counting])
    assert (both.name, both.dim, both.uses_lang) == ("letters+counting", letters.dim + counting.dim, True)
    texts = ["abc", "abd", "zz", ""]
    vectors = both.encode(texts, lang="de")
    assert vectors.dtype == np.float32 and vectors.shape == (4, both.dim) and counting.langs == ["de"]

    def cosine(encoder, i, j):
        a, b = (encoder.encode([text], lang="de")[0].astype(np.float64) for text in (texts[i], texts[j]))
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    for i, j in ((0, 1), (1, 2), (0, 0)):
        mean = (cosine(letters, i, j) + cosine(counting, i, j)) / 2
        assert cosine(both, i, j) == pytest.approx(mean, abs=1e-6)
    assert not vectors[3, : letters.dim].any()  # a zero vector of one of them
    swapped, other = SideBySide([counting, letters]), SideBySide([letters, Counting("counting/3")])
    assert len({each.fingerprint for each in (both, swapped, other)}) == 3
