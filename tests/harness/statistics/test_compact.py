"""Packed rows: lossless, small, the same bytes for the same rows; what is damaged, hostile or stale is one line."""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import one_line_error
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from measured_rows import store_measured, sts_rows
from result_records import record

from harness.core.errors import InputError
from harness.resampling.resamples import Resampling
from harness.results.statistics import digest
from harness.results.store import ResultStore
from harness.statistics.compact import compact_file, compact_rows, packed
from harness.statistics.rows import has_rows, kept_rows, pack_rows, rows_of
from harness.statistics.update import update_statistics
from harness.tasks import get_task

STS = get_task("sts17")
SAME = ("en-en", "es-es", "ar-ar")
RECORD = record("a", "sts17", "en-en", {})
DTYPES = ["i1", "i8", ">i4", "u1", "u2", "u8", "f4", "f8", ">f8", "f2", "?", "U3", "S4"]


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    for seed, name in enumerate("ab"):
        store_measured(tmp_path, name, {subset: sts_rows(subset, 1 + seed, seed) for subset in SAME})
    return ResultStore(tmp_path)


def written(root: Path, content: bytes) -> Path:
    file = compact_file(root, "a")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def tables(n: int) -> st.SearchStrategy[dict[str, np.ndarray]]:
    columns = st.sampled_from(DTYPES).flatmap(lambda dtype: arrays(np.dtype(dtype), n))
    return st.dictionaries(st.text(min_size=1, max_size=5), columns, max_size=4)


@given(st.sampled_from([0, 1, 7]).flatmap(tables))
def test_every_value_is_kept(tmp_path_factory: pytest.TempPathFactory, rows: dict[str, np.ndarray]) -> None:
    root = tmp_path_factory.mktemp("packed")
    written(root, packed([(RECORD, rows)]))
    back = compact_rows(root, RECORD)
    assert back is not None and list(back) == list(rows)
    for name, column in rows.items():
        assert back[name].dtype == column.dtype.newbyteorder("=")
        np.testing.assert_array_equal(back[name], column)
        if column.dtype.kind == "f":  # the sign of zero, too
            is_number = ~np.isnan(column)
            np.testing.assert_array_equal(np.signbit(back[name])[is_number], np.signbit(column)[is_number])


def test_texts_of_objects_and_columns_that_cannot_be_kept(tmp_path: Path) -> None:
    written(tmp_path, packed([(RECORD, {"split": np.array(["train", "test"], dtype=object)})]))
    back = compact_rows(tmp_path, RECORD)
    assert back is not None and back["split"].tolist() == ["train", "test"]
    with pytest.raises(InputError, match=r"a/sts17/en-en: a column of type complex128 \(z\) cannot be packed"):
        packed([(RECORD, {"z": np.array([1j])})])


def test_rows_that_are_mostly_in_order_are_small() -> None:
    item = np.arange(1000)
    found = np.where(np.random.default_rng(0).random(1000) < 0.95, item, item[::-1])
    rows = {"item": item, "found": found, "right": (found == item).astype(np.float64)}
    content = packed([(RECORD, rows)])
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **rows)
    assert len(content) < len(buffer.getvalue()) / 3
    assert content == packed([(RECORD, {name: column.copy() for name, column in rows.items()})])
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert archive.namelist() == ["index.json", "0"]


def test_the_order_of_records_does_not_matter(store: ResultStore) -> None:
    rows = [(r, rows) for r in store.load("a") if (rows := rows_of(store.root, STS, r)) is not None]
    assert len(rows) == 3 and packed(rows) == packed(rows[::-1])


def test_packed_rows_give_the_same_statistics(store: ResultStore) -> None:
    update_statistics(store, [STS], Resampling(200))
    file = store.root / "statistics/sts17.json"
    loose = file.read_bytes()
    for name in "ab":
        assert pack_rows(store, name) == []
    shutil.rmtree(store.root / "rows")
    file.unlink()
    update_statistics(store, [STS], Resampling(200))
    assert file.read_bytes() == loose
    kept = kept_rows(store, "a")
    assert (kept.n_sets, kept.n_loose, kept.n_packed, kept.missing) == (3, 0, 3, ())
    assert kept.packed_bytes == compact_file(store.root, "a").stat().st_size


def test_what_is_packed_stays_and_what_is_measured_again_takes_its_place(store: ResultStore) -> None:
    pack_rows(store, "a")
    shutil.rmtree(store.root / "rows/a")
    store_measured(store.root, "a", {"en-en": sts_rows("en-en", 3, 9)})
    kept = kept_rows(store, "a")
    assert (kept.n_loose, kept.n_packed) == (1, 2)
    assert pack_rows(store, "a") == []
    shutil.rmtree(store.root / "rows/a")
    back = {r.subset: rows_of(store.root, STS, r) for r in store.load("a") if not r.parts}
    np.testing.assert_array_equal(back["en-en"]["cosine"], sts_rows("en-en", 3, 9)["cosine"])
    np.testing.assert_array_equal(back["es-es"]["cosine"], sts_rows("es-es", 1, 0)["cosine"])


def test_stale_rows_are_refused_and_not_packed_again(store: ResultStore) -> None:
    pack_rows(store, "a")
    shutil.rmtree(store.root / "rows/a")
    (old,) = [r for r in store.load("a") if r.subset == "en-en"]
    store.merge([replace(old, fingerprint="a-1", metrics={"spearman": 1.0, "pearson": 1.0})])
    (new,) = [r for r in store.load("a") if r.subset == "en-en"]
    with pytest.raises(InputError, match=r"rows\.zip: the rows of sts17 en-en are of an earlier result; measure it"):
        rows_of(store.root, STS, new)
    assert [r.subset for r in kept_rows(store, "a").missing] == ["en-en"]
    (why,) = pack_rows(store, "a")
    assert "earlier result" in why and not has_rows(store.root, new.key)


def test_packed_rows_go_with_the_records_that_are_replaced(store: ResultStore) -> None:
    pack_rows(store, "a")
    content = compact_file(store.root, "a").read_bytes()
    with pytest.raises(RuntimeError), store.storing("a", "other", replace=True):
        assert not compact_file(store.root, "a").exists()
        raise RuntimeError
    assert compact_file(store.root, "a").read_bytes() == content
    with store.storing("a", "other", replace=True):
        store.merge([record("a", "sts17", "en-en", {"spearman": 1.0}, fingerprint="other")])
    assert not compact_file(store.root, "a").exists()


def index(**other: Any) -> dict[str, Any]:
    column = {"name": "x", "dtype": "<i8", "stored": "|i1", "is_delta": False} | other.pop("column", {})
    one = {"task": "sts17", "subset": "en-en", "of": digest(RECORD), "n": 3, "columns": [column]} | other
    return {"format": 1, "sets": [one]}


def archive(content: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        for name, part in content.items():
            made.writestr(name, part)
    return buffer.getvalue()


def forged(member: bytes = b"abc", **other: Any) -> bytes:
    return archive({"index.json": json.dumps(index(**other)).encode(), "0": member})


def test_a_forged_file_that_is_right_is_read(tmp_path: Path) -> None:
    written(tmp_path, forged())
    rows = compact_rows(tmp_path, RECORD)
    assert rows is not None and rows["x"].tolist() == [97, 98, 99] and rows["x"].dtype == np.int64


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not a zip file"),
        (b"PK\x03\x04 and nothing more", "not a zip file"),
        (forged()[:-30], "not a zip file"),
        (archive({"0": b"abc"}), "index.json"),
        (archive({"index.json": b"{"}), "rows.zip: no packed rows"),
        (archive({"index.json": b'{"format":2,"sets":[]}'}), "format"),
        (archive({"index.json": b'{"format":1,"sets":[],"more":1}'}), "unknown field 'more'"),
        (archive({"index.json": json.dumps(index()).encode()}), "'0'"),
        (forged(b"ab"), "2 bytes where 3 should be"),
        (forged(b"a" * (1 << 24)), "0 is longer than it should be"),
        (archive({"index.json": b" " * (1 << 25)}), "index.json is longer than it should be"),
        (forged(n=10**9), "too large"),
        (forged(n=1 << 26), "too large"),  # 64 MiB in the file, 512 MiB of <i8 in memory
        (forged(n=1 << 26, column={"dtype": "|i1", "is_delta": True}), "too large"),  # summed as <i8
        (forged(n=-1), "n"),
        (forged(task="../../etc"), "task"),
        (forged(column={"dtype": "|O8", "stored": "|O8"}), "dtype"),
        (forged(column={"dtype": "<U99999"}), "a column of <U99999 kept as |i1"),
        (forged(column={"dtype": "<f4", "stored": "<f4", "is_delta": True}), "a column of <f4 kept as <f4"),
        (forged(b"\xff" * 12, column={"dtype": "<U1", "stored": "<U1"}), "what is no character"),
        (forged(columns=[index()["sets"][0]["columns"][0]] * 2), "has a column twice"),
    ],
)
def test_damaged_and_hostile_files_are_one_line(tmp_path: Path, content: bytes, why: str) -> None:
    file = written(tmp_path, content)
    with pytest.raises(InputError) as caught:
        compact_rows(tmp_path, RECORD)
    text = str(caught.value)
    assert text.startswith(f"{file}: no packed rows (") and why in text and "\n" not in text


def test_what_is_flipped_is_noticed(store: ResultStore) -> None:
    pack_rows(store, "a")
    shutil.rmtree(store.root / "rows/a")
    file = compact_file(store.root, "a")
    content = file.read_bytes()
    (wanted,) = [r for r in store.load("a") if r.subset == "en-en"]
    whole = rows_of(store.root, STS, wanted)
    assert whole is not None
    for place in range(40, len(content), 97):
        file.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        os.utime(file, ns=(place, place))
        try:
            rows = rows_of(store.root, STS, wanted)
        except InputError:
            continue
        # A bit of another set, or of what is said twice in such a file.
        assert rows is None or all(np.array_equal(rows[name], whole[name]) for name in whole)


def test_no_way_out(store: ResultStore, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    shutil.move(store.root / "records/a", outside / "a")
    (store.root / "records/a").symlink_to(outside / "a")
    with pytest.raises(InputError, match="a link leads out"):
        pack_rows(store, "a")
    assert not (outside / "a/rows.zip").exists()


@pytest.mark.skipif(os.name != "posix", reason="fifos")
def test_a_fifo_is_not_waited_for(store: ResultStore) -> None:
    os.mkfifo(compact_file(store.root, "a"))
    with pytest.raises(InputError, match="a fifo"):
        pack_rows(store, "a")


Leaderboard = Callable[..., Any]


@pytest.mark.slow
def test_on_the_command_line(leaderboard: Leaderboard, tmp_path: Path) -> None:
    sets = ("--task", "sts17", "--subset", "en-en@sample", "--subset", "en-de@sample", "--suite", "sample")
    for encoder in ("chargrams", "chargrams?dim=64&name=small"):
        assert leaderboard("run", *sets, "--encoder", encoder).returncode == 0
    before = leaderboard("compare", "chargrams", "small", *sets[:6], "--resamples", "200").stdout
    done = leaderboard("rows", "--pack")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\nchargrams") == 1 and "no rows:" not in done.stdout
    shutil.rmtree(tmp_path / "results/rows")
    after = leaderboard("compare", "chargrams", "small", *sets[:6], "--resamples", "200")
    assert after.stdout == before and "it is not loaded" in after.stderr
    again = leaderboard("run", *sets, "--encoder", "chargrams", "--save-rows")
    assert again.returncode == 0 and "stored" in again.stderr and not (tmp_path / "results/rows").exists()
    (listed, _) = json.loads(leaderboard("rows", "--format", "json").stdout)
    assert (listed["encoder"], listed["sets"], listed["loose"], listed["packed"]) == ("chargrams", 2, 0, 2)
    assert listed["packed_bytes"] == (tmp_path / "results/records/chargrams/rows.zip").stat().st_size
    refused = leaderboard("rows", "--encoder", "chargram", "--pack")
    assert refused.returncode == 2 and "did you mean 'chargrams'" in refused.stderr
    (tmp_path / "results/records/small/rows.zip").write_bytes(b"no zip")
    assert "small/rows.zip: no packed rows" in one_line_error(leaderboard("rows"))
