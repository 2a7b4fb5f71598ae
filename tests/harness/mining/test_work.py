"""What a job keeps: files that grow under checksums, vectors, neighbours; against arrays in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from encoders import Letters
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import InputError
from harness.mining import Progress, nearest
from harness.mining.encoding import Encoding, by_cache, without_cache
from harness.mining.kept import nearest_kept, share_left
from harness.mining.work import RowFile, WorkDir, open_work

ROW = np.dtype((np.float32, (3,)))


@pytest.fixture
def work(tmp_path: Path) -> Iterator[WorkDir]:
    with open_work(tmp_path / "work") as opened:
        yield opened


@settings(max_examples=150, deadline=None)
@given(n=st.integers(1, 12), chunk=st.integers(1, 5), data=st.data())
def test_a_file_of_rows_goes_on_after_any_damage(
    tmp_path_factory: pytest.TempPathFactory, n: int, chunk: int, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("rows") / "x"
    rows = np.random.default_rng(0).standard_normal((n, 3)).astype(np.float32)

    def fill(at_most: int) -> RowFile:
        file = RowFile(path, n, ROW, chunk)
        for _ in range(at_most):
            if file.done < n:
                file.append(rows[file.done : file.done + chunk])
        return file

    written = fill(data.draw(st.integers(0, 4))).done
    for name in ("x", "x.crc"):
        content = bytearray(path.with_name(name).read_bytes())
        if content and data.draw(st.booleans()):
            place = data.draw(st.integers(0, len(content) - 1))
            if data.draw(st.booleans()):
                content[place] ^= 1
            else:
                del content[place:]
            path.with_name(name).write_bytes(content + data.draw(st.binary(max_size=3)))
    file = RowFile(path, n, ROW, chunk)
    assert file.done <= written and file.done % chunk in (0, n % chunk)
    np.testing.assert_array_equal(file.array(), rows[: file.done])
    assert fill(n).done == n
    np.testing.assert_array_equal(RowFile(path, n, ROW, chunk).array(), rows)


def test_damage_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = RowFile(tmp_path / "x", 4, ROW, 2)
    file.append(np.ones((2, 3), np.float32))
    file.append(np.ones((2, 3), np.float32))
    with (tmp_path / "x").open("r+b") as stream:
        stream.seek(30)
        stream.write(b"!")
    assert RowFile(tmp_path / "x", 4, ROW, 2).done == 2
    assert "x is damaged from row 2 on; from there it is made again" in capsys.readouterr().err
    with pytest.raises(ValueError, match="no chunk"):
        file.append(np.ones((2, 3), np.float32))


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear all")
    with pytest.raises(InputError, match="is not empty and holds no mining job"), open_work(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("name", ["x.text", "y.places.npy", "x.float32", ".lock", "mining.json", "exact-k4.state"])
def test_nothing_is_written_through_a_link(tmp_path: Path, name: str) -> None:
    """A folder that others have packed may hold one to any file of the user."""
    victim, folder = tmp_path / "victim", tmp_path / "work"
    with open_work(folder) as work:
        work.agree("texts", {})
    victim.write_text("precious")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(victim)
    with pytest.raises(InputError, match=rf"{name}: a link, where nothing is written"), open_work(folder):
        pass
    assert victim.read_text() == "precious"


SENTENCES = ["b", "a", "ccc", "b", "", "dddd", "a b c"]


@pytest.mark.parametrize("has_cache", [False, True])
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_vectors_are_those_of_the_encoder(
    work: WorkDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_cache: bool, kind: str
) -> None:
    from harness.encoders.cache import VectorCache

    monkeypatch.setattr("harness.mining.encoding.CHUNK", 3)
    encoder = Letters()
    calls: list[list[str]] = []
    encode, plain = encoder.encode, encoder.encode(SENTENCES)

    def counted(sentences: list[str], *, lang: str | None = None) -> np.ndarray:
        calls.append(list(sentences))
        return encode(sentences)

    monkeypatch.setattr(encoder, "encode", counted)
    chunk = by_cache(VectorCache(tmp_path / "cache").of(encoder), None) if has_cache else without_cache(encoder, None)
    seen: list[tuple[int, int]] = []

    def stop(done: int, total: int) -> None:
        seen.append((done, total))
        if done == 3:
            raise KeyboardInterrupt

    encoding = Encoding(work, "x", SENTENCES, encoder, kind)  # type: ignore[arg-type]
    assert encoding.n_missing == 7
    with pytest.raises(KeyboardInterrupt):
        encoding.run(chunk, stop)
    encoding = Encoding(work, "x", SENTENCES, encoder, kind)  # type: ignore[arg-type]
    assert encoding.n_missing == 4
    vectors = encoding.run(chunk, lambda done, total: seen.append((done, total)))
    assert seen == [(3, 7), (6, 7), (7, 7)] and calls[0] == ["ccc", *sorted("ab", key=calls[0].index)]
    norms = np.linalg.norm(plain.astype(np.float64), axis=1, keepdims=True)
    wanted = plain if kind == "float32" else (plain / np.where(norms > 0, norms, 1)).astype(np.float16)
    assert vectors.dtype == kind and vectors.shape == wanted.shape
    np.testing.assert_allclose(vectors, wanted, rtol=1e-3 if kind == "float16" else 0)
    with pytest.raises(InputError, match="another kind of vectors"):
        Encoding(work, "x", SENTENCES, encoder, "float16" if kind == "float32" else "float32")
    encoder.fingerprint = "other"
    with pytest.raises(InputError, match="another encoder"):
        Encoding(work, "x", SENTENCES, encoder, kind)  # type: ignore[arg-type]


def test_vectors_of_another_language_are_not_taken(work: WorkDir, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Letters()
    Encoding(work, "x", SENTENCES, encoder, "float32", "de")
    Encoding(work, "x", SENTENCES, encoder, "float32", "nl")  # of no matter to this encoder
    monkeypatch.setattr(encoder, "uses_lang", True)
    Encoding(work, "y", SENTENCES, encoder, "float32", "de")
    with pytest.raises(InputError, match="another language"):
        Encoding(work, "y", SENTENCES, encoder, "float32", "nl")


@pytest.mark.parametrize("backend", ["numpy", "faiss"])
def test_a_search_that_is_kept_is_a_search(work: WorkDir, monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    if backend == "faiss":
        pytest.importorskip("faiss")
        monkeypatch.setattr("harness.mining.approximate.BLOCK", 64)
        monkeypatch.setattr("harness.mining.kept._BLOCK", 64)
        monkeypatch.setattr("harness.mining.approximate.choose_index", lambda n, dim: "IVF8,Flat;nprobe=1")
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal((size, 8)).astype(np.float32) for size in (700, 650))
    wanted = nearest(x, y, 3, backend=backend)  # type: ignore[arg-type]
    assert share_left(700, 650, 8, 3, backend, work) == 1  # type: ignore[arg-type]
    told: list[Progress] = []

    def stop(progress: Progress) -> None:
        told.append(progress)
        if len(told) == 3 and backend == "faiss":
            raise KeyboardInterrupt

    def same() -> None:
        for found, one in zip(nearest_kept([x, y], 3, backend, work, told.append), wanted, strict=True):  # type: ignore[arg-type]
            np.testing.assert_array_equal(found.rows, one.rows)
            np.testing.assert_array_equal(found.similarity, one.similarity)

    if backend == "faiss":
        with pytest.raises(KeyboardInterrupt):
            nearest_kept([x, y], 3, "faiss", work, stop)
        assert 0 < share_left(700, 650, 8, 3, "faiss", work) < 1
    same()
    assert share_left(700, 650, 8, 3, backend, work) == 0  # type: ignore[arg-type]
    n_told = len(told)
    same()
    assert len(told) == n_told + 1 and told[-1].done == told[-1].total
    assert [progress.done for progress in told] == sorted(progress.done for progress in told)


@pytest.mark.parametrize("n_written", range(4))
def test_a_kill_while_exact_neighbours_are_written_costs_no_search(
    work: WorkDir, monkeypatch: pytest.MonkeyPatch, n_written: int
) -> None:
    monkeypatch.setattr("harness.mining.kept._BLOCK", 64)
    monkeypatch.setattr("harness.mining.plain._BLOCK", 32)
    monkeypatch.setattr("harness.mining.search._SHARE", float("inf"))  # the state is written after every block
    append, calls = RowFile.append, []

    def stop(file: RowFile, rows: np.ndarray) -> None:
        calls.append(file)
        if len(calls) > n_written:
            raise KeyboardInterrupt
        append(file, rows)

    monkeypatch.setattr(RowFile, "append", stop)
    x = np.random.default_rng(1).standard_normal((128, 4)).astype(np.float32)
    with pytest.raises(KeyboardInterrupt):
        nearest_kept([x, x], 2, "numpy", work, lambda progress: None)
    monkeypatch.setattr(RowFile, "append", append)
    told: list[Progress] = []
    found = nearest_kept([x, x], 2, "numpy", work, told.append)
    assert [progress.done for progress in told] == [128 * 128]  # the last block alone
    np.testing.assert_array_equal(found[1].rows, nearest(x, x, 2)[1].rows)
    assert not (work.folder / "exact-k2.state").exists()


def test_neighbours_that_cannot_be_are_refused(work: WorkDir) -> None:
    x = np.random.default_rng(1).standard_normal((5, 4)).astype(np.float32)
    nearest_kept([x, x], 2, "numpy", work, lambda progress: None)
    row = np.dtype([("rows", np.int64, (2,)), ("similarity", np.float64, (2,))])
    for name, value in (("rows", 5), ("rows", -2), ("similarity", np.nan)):
        records = np.zeros(5, row)
        records[name] = value
        (work.folder / "exact-k2.x").unlink()
        RowFile(work.folder / "exact-k2.x", 5, row, 2048).append(records)
        with pytest.raises(InputError, match=r"exact-k2\.x holds no neighbours of these sentences; remove it"):
            nearest_kept([x, x], 2, "numpy", work, lambda progress: None)
