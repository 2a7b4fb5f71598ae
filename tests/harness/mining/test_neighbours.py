"""What `nearest` promises beside its results: certainty, inputs of all kinds, checkpoints, backends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.core.errors import InputError, MissingExtraError
from harness.core.threads import using_threads
from harness.mining import Neighbours, Progress, available_backends, mine, nearest


def vectors(n: int, dim: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32)


def assert_same(one: tuple[Neighbours, ...], two: tuple[Neighbours, ...]) -> None:
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a.rows, b.rows)
        np.testing.assert_array_equal(a.similarity, b.similarity)


def searched(x: np.ndarray, y: np.ndarray, backend: str, **options: object) -> tuple[tuple[Neighbours, ...], Progress]:
    seen: list[Progress] = []
    return nearest(x, y, backend=backend, on_progress=seen.append, **options), seen[-1]


def test_lists_that_are_given_up_are_searched_anew(backend: str) -> None:
    x, y = vectors(200, 16, 0), vectors(300, 16, 1)
    y[50:150] = x[7]  # a hundred nearest neighbours, more than a list holds
    expected, _ = searched(x, y, "numpy")
    found, work = searched(x, y, backend, block=64)
    assert_same(found, expected)
    if backend != "numpy":
        assert 1 <= work.recomputed < 20
        assert found[0].rows[7].tolist() == [50, 51, 52, 53]


@pytest.mark.parametrize("scale", [1.0, 0.05])
def test_a_narrow_band_of_cosines_needs_few_candidates(scale: float, backend: str) -> None:
    # Vectors close to one direction, as e5's are: cosines from 0.7 (scale 1) or 0.99 (scale 0.05) up.
    x, y = (20 * scale * vectors(2000, 384, seed) / 384**0.5 + vectors(1, 384, 9) for seed in (0, 1))
    y[:500] = x[:500] + 0.3 * scale * (y[:500] - x[:500])
    expected, _ = searched(x, y, "numpy")
    found, work = searched(x, y, backend)
    assert_same(found, expected)
    assert work.recomputed == 0
    assert work.candidates < 40 * work.rows


def test_other_numbers_are_taken_as_float32(backend: str) -> None:
    x, y = vectors(150, 24, 0), vectors(90, 24, 1)
    before = x.astype(np.float64), y.astype(">f4")
    expected = nearest(x, y, backend="numpy")
    assert_same(nearest(*before, backend=backend), expected)
    assert (before[0] == x).all() and (before[1] == y).all()
    assert_same(nearest(before[0].tolist(), before[1], backend=backend), expected)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"row 3 of y holds NaN or infinity \(as float32\)"):
        nearest(x, np.where(np.arange(90)[:, None] == 3, 1e60, before[1].astype(np.float64)), backend=backend)
    with pytest.raises(InputError, match="x holds complex64, no real numbers"):
        nearest(x.astype(np.complex64), y, backend=backend)


@pytest.mark.parametrize("kind", ["float16", "memmap", "float16 memmap", "strided", "fortran", "read only"])
def test_inputs_of_every_kind(kind: str, backend: str, tmp_path: Path) -> None:
    sides = [vectors(150, 24, seed).astype(np.float16).astype(np.float32) for seed in (0, 1)]
    expected = nearest(*sides, backend="numpy")

    def as_kind(array: np.ndarray, number: int) -> np.ndarray:
        if "float16" in kind:
            array = array.astype(np.float16)
        if "memmap" in kind:
            np.save(tmp_path / f"{number}.npy", array)
            return np.load(tmp_path / f"{number}.npy", mmap_mode="r")
        if kind == "strided":
            return np.repeat(np.repeat(array, 2, axis=1), 3, axis=0)[::3, ::2]
        if kind == "fortran":
            return np.asfortranarray(array)
        if kind == "read only":
            array.flags.writeable = False
        return array

    given = [as_kind(side, number) for number, side in enumerate(sides)]
    assert_same(nearest(*given, backend=backend, block=40), expected)


def test_lengths_that_are_not_unit_and_products_below_zero(backend: str) -> None:
    x, y = 1e3 * vectors(80, 40, 0), -np.abs(1e-3 * vectors(90, 40, 1))
    assert_same(nearest(x, y, cosine=False, backend=backend), nearest(x, y, cosine=False, backend="numpy"))
    tiny = 1e-41 * x
    assert_same(nearest(tiny, y, cosine=False, backend=backend), nearest(tiny, y, cosine=False, backend="numpy"))


@pytest.mark.parametrize(("of_x", "of_y"), [(1e-38, 1e14), (1e-25, 1e-20), (1e-41, 5e13)])
def test_numbers_that_a_processor_may_take_for_zero(of_x: float, of_y: float, backend: str) -> None:
    x, y = (np.float64(scale) * vectors(90, 64, seed) for seed, scale in enumerate((of_x, of_y)))
    x, y = x.astype(np.float32), y.astype(np.float32)
    for found, rows, others in zip(nearest(x, y, cosine=False, backend=backend), (x, y), (y, x), strict=True):
        for row in range(90):
            similarity = [float((rows[row].astype(np.float64) * other).sum()) for other in others]
            assert found.rows[row].tolist() == sorted(range(90), key=lambda other: (-similarity[other], other))[:4]


def test_the_rounding_of_the_reference_itself(backend: str) -> None:
    """Sides whose vectors differ in their last bits, nearly at right angles to one another: the sum in float64 decides.

    Whatever a product in lower precision says of such pairs is noise.
    """
    rng = np.random.default_rng(1)
    scales = np.repeat(2.0 ** rng.uniform(-8, 1, 32), 2).astype(np.float32)
    a, b = np.concatenate([scales, scales]), np.concatenate([scales, -scales])
    x, y = np.tile(a, (300, 1)), np.tile(b, (20, 1))
    for row in x:
        for place in rng.choice(32, 6, replace=False):
            up = np.nextafter(row[2 * place], np.float32(9)) - row[2 * place]
            row[2 * place : 2 * place + 2] += rng.choice([-1, 1]) * np.array([up, -up])
    order = rng.permutation(128)
    x, y = np.ascontiguousarray(x[:, order]), np.ascontiguousarray(y[:, order])
    for cosine in (True, False):
        assert_same(nearest(x, y, cosine=cosine, backend=backend), nearest(x, y, cosine=cosine, backend="numpy"))


def test_equal_rows_at_the_start_cost_no_more_than_at_the_end(backend: str) -> None:
    x, y = vectors(500, 64, 0), vectors(400, 64, 1)
    x[:60] = x[0]
    expected, _ = searched(x, y, "numpy")
    found, work = searched(x, y, backend)
    assert_same(found, expected)
    assert work.recomputed < 100


@pytest.mark.parametrize("where", [0, 1, 4])
def test_an_interrupted_search_goes_on_after_its_last_block(
    where: int,
    backend: str,
    tmp_path: Path,
) -> None:
    x, y = vectors(100, 12, 0), vectors(60, 12, 1)
    y[:50] = y[0]  # with lists that are given up before the interruption
    expected = nearest(x, y, backend=backend)

    class Stop(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.done == (where + 1) * 16 * 60:
            raise Stop

    with pytest.raises(Stop):
        nearest(x, y, backend=backend, block=16, checkpoint=tmp_path, on_progress=stop)
    seen: list[Progress] = []
    found = nearest(x, y, backend=backend, block=16, checkpoint=tmp_path, on_progress=seen.append)
    assert_same(found, expected)
    # A state is written only where that takes little of the time: the first always is.
    assert seen[0].done >= 2 * 16 * 60
    assert not any(tmp_path.iterdir())


def test_checkpoints_of_another_search_are_refused(tmp_path: Path) -> None:
    x, y = vectors(40, 6, 0), vectors(30, 6, 1)

    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nearest(x, y, block=8, checkpoint=tmp_path, on_progress=interrupt)
    for others in ({"k": 3}, {"cosine": False}, {"block": 9}):
        with pytest.raises(InputError, match=r"search\.npz is of a search in other vectors or with other options"):
            nearest(x, y, **{"block": 8, **others}, checkpoint=tmp_path)
    with pytest.raises(InputError, match="other vectors"):
        nearest(x, y + 1, block=8, checkpoint=tmp_path)
    (tmp_path / "search.npz").write_bytes(b"PK\3\4 no archive")
    with pytest.raises(InputError, match=r"cannot be read .*remove it to begin anew"):
        nearest(x, y, block=8, checkpoint=tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file: cannot be written"):
        nearest(x, y, checkpoint=tmp_path / "file")


@pytest.fixture
def interrupted(backend: str, tmp_path: Path) -> tuple[Path, Callable[[], object]]:
    """The state of a search, and what goes on with it."""
    x, y = vectors(40, 6, 0), vectors(30, 6, 1)

    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    def search(**options: Any) -> object:
        return nearest(x, y, backend=backend, block=8, checkpoint=tmp_path, **options)

    with pytest.raises(KeyboardInterrupt):
        search(on_progress=interrupt)
    return tmp_path / "search.npz", search


@pytest.mark.parametrize(
    "change",
    [
        {"done": np.array([8, 8])},
        {"done": np.array(8.0)},
        {"done": np.array(-1)},
        {"done": np.array(41)},
        {"done": None},
        {"row": None},
        {"row": np.zeros(3)},
        {"row": np.zeros((40, 4), np.complex128)},
    ],
    ids=str,
)
def test_states_that_do_not_fit_are_one_line(
    change: dict[str, Any], interrupted: tuple[Path, Callable[[], object]]
) -> None:
    """Files that are whole, and hold what no search has written."""
    file, search = interrupted
    with np.load(file) as stored:
        arrays = dict(stored)
    ((name, array),) = change.items()
    name = name if name == "done" else min(arrays.keys() - {"done", "digest"})
    arrays = {key: value for key, value in {**arrays, name: array}.items() if value is not None}
    np.savez(file, **arrays)
    with pytest.raises(InputError, match=rf"search\.npz cannot be read \(.*{name}.*remove it to begin anew"):
        search()


def test_files_that_are_no_states_are_one_line(interrupted: tuple[Path, Callable[[], object]]) -> None:
    file, search = interrupted
    content = bytearray(file.read_bytes())
    for signature, offset in ((b"PK\1\2", 10), (b"PK\3\4", 8)):  # the directory's entries, and those of the members
        at = content.find(signature)
        while at >= 0:
            content[at + offset : at + offset + 2] = (77).to_bytes(2, "little")  # a method of compression
            at = content.find(signature, at + 1)
    array = file.with_name("array.npy")
    np.save(array, np.zeros(3))
    for damaged in (bytes(content), array.read_bytes(), b"", b"PK"):
        file.write_bytes(damaged)
        with pytest.raises(InputError, match=r"cannot be read .*remove it to begin anew"):
            search()
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(InputError, match="a fifo"):
        search()


def test_threads_of_one_process_change_no_byte(backend: str) -> None:
    sides = vectors(400, 64, 0), vectors(400, 64, 1)
    digests = set()
    for threads in (1, 2):
        with using_threads(threads), at_most_of_numba(threads):
            pairs, scores = mine(*sides, backend=backend, block=64)
        digests.add(pairs.tobytes() + scores.tobytes())
    assert len(digests) == 1


@contextmanager
def at_most_of_numba(threads: int) -> Iterator[None]:
    """Numba's number is its own."""
    numba = pytest.importorskip("numba")
    before = numba.get_num_threads()
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    yield
    numba.set_num_threads(before)


@pytest.mark.nightly
def test_results_are_the_same_bytes_whatever_the_number_of_threads(backend: str) -> None:
    program = f"""
import numpy as np
from harness.mining import mine
sides = [np.random.default_rng(seed).standard_normal((400, 64)).astype(np.float32) for seed in (0, 1)]
pairs, scores = mine(*sides, backend={backend!r}, block=64)
import hashlib
print(hashlib.sha256(pairs.tobytes() + scores.tobytes()).hexdigest())
"""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=dict.fromkeys(names, threads) | {"PATH": "/usr/bin"},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert len(digests) == 1


def test_the_backend_is_chosen_by_what_is_there_and_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    _, work = searched(vectors(30, 4, 0), vectors(30, 4, 1), "auto")
    assert work.backend == "numpy"
    assert available_backends()[0] == "numpy"
    with pytest.raises(InputError, match="did you mean 'bfloat16'"):
        mine(vectors(3, 4, 0), vectors(3, 4, 1), backend="bfloat")
    huge = np.full((3, 4), 3e38, np.float32)
    if "float32" in available_backends():
        with pytest.raises(InputError, match="too long for the backend float32; take numpy"):
            nearest(huge, huge, cosine=False, backend="float32")
    monkeypatch.setattr("harness.mining.neighbours.find_spec", lambda name: None)
    for backend_name, extra in (("float32", "mining"), ("bfloat16", "mining"), ("cuda", "mining"), ("faiss", "ann")):
        with pytest.raises(MissingExtraError, match=rf"harness\[{extra}\]"):
            mine(vectors(3, 4, 0), vectors(3, 4, 1), backend=backend_name)
