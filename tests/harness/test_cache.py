"""The vector cache: each distinct sentence is encoded once, whatever happens to the files."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import cache, files
from harness.cache import VectorCache
from harness.errors import InputError


class Counting:
    """Remembers what it was asked to encode; a vector is a function of language and sentence."""

    name, dim = "counting", 3

    def __init__(self, fingerprint: str = "v1", uses_lang: bool = False):
        self.fingerprint, self.uses_lang = fingerprint, uses_lang
        self.seen: list[tuple[str | None, str]] = []

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        self.seen += [(lang, sentence) for sentence in sentences]
        return np.array([expected(sentence, lang if self.uses_lang else None) for sentence in sentences], np.float32)


def expected(sentence: str, lang: str | None = None) -> list[float]:
    return [len(sentence), sum(map(ord, sentence)) % 977, 0 if lang is None else sum(map(ord, lang))]


def test_each_distinct_sentence_is_encoded_once_over_calls_and_processes(tmp_path: Path) -> None:
    encoder = Counting()
    vectors = VectorCache(tmp_path).of(encoder)
    first = vectors.encode(["a", "bb", "a", ""])
    assert (first.n_distinct, first.n_new) == (3, 3)
    second = vectors.encode(["bb", "ccc"], "de")
    assert (second.n_distinct, second.n_new) == (2, 1)
    again = VectorCache(tmp_path).of(encoder).encode(["ccc", "a", "ccc"])
    assert (again.n_distinct, again.n_new) == (2, 0)
    assert again.vectors.tolist() == [expected("ccc"), expected("a"), expected("ccc")]
    assert sorted(sentence for _, sentence in encoder.seen) == ["", "a", "bb", "ccc"]


def test_language_is_part_of_the_key_only_where_the_encoder_uses_it(tmp_path: Path) -> None:
    encoder = Counting(uses_lang=True)
    vectors = VectorCache(tmp_path).of(encoder)
    assert vectors.encode(["a"], "de").vectors.tolist() == [expected("a", "de")]
    assert vectors.encode(["a"], "en").vectors.tolist() == [expected("a", "en")]
    assert encoder.seen == [("de", "a"), ("en", "a")]


def test_another_fingerprint_is_another_encoder(tmp_path: Path) -> None:
    store = VectorCache(tmp_path)
    store.of(Counting("v1")).encode(["a"])
    other = Counting("v2")
    assert store.of(other).encode(["a"]).n_new == 1


@settings(max_examples=30, deadline=None)
@given(calls=st.lists(st.lists(st.text(max_size=5), max_size=12), max_size=6), chunk=st.integers(1, 5))
def test_vectors_are_those_of_the_encoder(tmp_path_factory: pytest.TempPathFactory, calls: list, chunk: int) -> None:
    encoder = Counting()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "CHUNK", chunk)
        root = tmp_path_factory.mktemp("cache")
        for sentences in calls:
            found = VectorCache(root).of(encoder).encode(sentences).vectors
            assert found.tolist() == [expected(sentence) for sentence in sentences]
    assert len(encoder.seen) == len({sentence for sentences in calls for sentence in sentences})


def shards(root: Path) -> list[Path]:
    return sorted(root.rglob("*.shard"))


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty"])
def test_a_damaged_file_is_noticed_and_its_vectors_computed_again(
    tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = Counting()
    VectorCache(tmp_path).of(encoder).encode(["a", "bb"])
    (shard,) = shards(tmp_path)
    content = bytearray(shard.read_bytes())
    content[-2] ^= 4
    shard.write_bytes({"flip": bytes(content), "truncate": bytes(content[:-5]), "empty": b""}[damage])
    again = VectorCache(tmp_path).of(encoder).encode(["a", "bb"])
    assert again.n_new == 2 and again.vectors.tolist() == [expected("a"), expected("bb")]
    assert "damaged" in capsys.readouterr().err
    assert shard not in shards(tmp_path)


def test_what_was_encoded_before_a_crash_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "CHUNK", 2)

    class Crashing(Counting):
        def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
            if "a" in sentences:
                raise RuntimeError("crash")
            return super().encode(sentences, lang=lang)

    with pytest.raises(RuntimeError):
        VectorCache(tmp_path).of(Crashing()).encode(["a", "bb", "ccc", "dddd"])
    healthy = Counting()
    assert VectorCache(tmp_path).of(healthy).encode(["a", "bb", "ccc", "dddd"]).n_new == 2
    assert not list(tmp_path.rglob("*.part"))


def test_bad_vectors_are_refused_and_not_kept(tmp_path: Path) -> None:
    class Broken(Counting):
        def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
            return np.full((len(sentences), 3), np.nan, np.float32)

    with pytest.raises(InputError, match="'counting' returned NaN in row 1 for the sentence 'bb'"):
        VectorCache(tmp_path).of(Broken()).encode(["a", "bb"])
    assert shards(tmp_path) == []


def test_size_cap_drops_the_encoder_that_was_used_longest_ago(tmp_path: Path) -> None:
    store = VectorCache(tmp_path, max_bytes=1)
    store.of(Counting("old")).encode(["a"])
    store.of(Counting("new")).encode(["a"])
    assert list(store.size()) == ["counting new"]
    assert store.clear() > 0 and store.size() == {}


def test_shards_take_no_file_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(cache, "CHUNK", 1)
    sentences = [f"sentence {i}" for i in range(150)]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, limits[1]))
    try:
        VectorCache(tmp_path).of(Counting()).encode(sentences)
        again = VectorCache(tmp_path).of(Counting()).encode(sentences)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert again.n_new == 0 and len(shards(tmp_path)) == 150


def test_a_cache_that_is_cleared_while_in_use_is_filled_again(tmp_path: Path) -> None:
    store, encoder = VectorCache(tmp_path), Counting()
    vectors = store.of(encoder)
    vectors.encode(["a", "bb"])
    store.clear()
    assert vectors.encode(["a", "ccc"]).vectors.tolist() == [expected("a"), expected("ccc")]
    assert VectorCache(tmp_path).of(Counting()).encode(["a", "ccc"]).n_new == 0


def test_temporary_files_of_killed_processes_are_removed(tmp_path: Path) -> None:
    """And those that another process is writing are not."""
    store = VectorCache(tmp_path)
    store.of(Counting()).encode(["a"])
    shard = shards(tmp_path)[0]
    left, left_hidden = shard.with_name("tmp123.part"), shard.with_name(".b.shard.123.part")
    left.write_text("")
    left_hidden.write_text("")
    with files.replacing(shard.with_name("c.shard")):
        store.of(Counting())
        assert len(list(shard.parent.glob("*.part"))) == 1
    assert not left.exists() and not left_hidden.exists() and shard.with_name("c.shard").exists()


def test_the_size_cap_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE_GB", "1.5")
    assert VectorCache(tmp_path).max_bytes == 1_500_000_000
    monkeypatch.setenv("HARNESS_CACHE_GB", "big")
    with pytest.raises(InputError, match="'big'"):
        VectorCache(tmp_path)


def test_a_full_disk_gives_one_line_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        VectorCache(tmp_path).of(Counting()).encode(["a"])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_every_flipped_bit_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    encoder = Counting()
    VectorCache(tmp_path).of(encoder).encode(["a", "bb"])
    (shard,) = shards(tmp_path)
    content = shard.read_bytes()
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        shard.write_bytes(damaged)
        again = VectorCache(tmp_path).of(encoder).encode(["a", "bb"])
        assert again.vectors.tolist() == [expected("a"), expected("bb")] and again.n_new == 2, position
        assert capsys.readouterr().err.count("is damaged") == 1, position
        assert not shard.exists()
        for other in shards(tmp_path):
            other.unlink()


def test_damage_costs_what_is_damaged_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "CHUNK", 2)
    sentences = [f"sentence {i}" for i in range(10)]
    VectorCache(tmp_path).of(Counting()).encode(sentences)
    content = bytearray(shards(tmp_path)[3].read_bytes())
    content[-8] ^= 1
    shards(tmp_path)[3].write_bytes(content)
    again = VectorCache(tmp_path).of(Counting()).encode(sentences)
    assert again.n_new == 2 and again.vectors.tolist() == list(map(expected, sentences))


def test_files_without_a_checksum_of_the_head_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As they were written before there was one."""
    VectorCache(tmp_path).of(Counting()).encode(["a", "bb"])
    (shard,) = shards(tmp_path)
    shard.write_bytes(shard.read_bytes()[:-4])
    again = VectorCache(tmp_path).of(Counting()).encode(["bb"])
    assert again.n_new == 0 and again.vectors.tolist() == [expected("bb")]
    assert shards(tmp_path) == [shard] and capsys.readouterr().err == ""


@pytest.mark.parametrize("fits", [1, 3, 7, 100])
def test_sentences_that_do_not_fit_into_memory_go_through_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fits: int
) -> None:
    monkeypatch.setattr(cache, "CHUNK", 20)
    calls = []

    class Small(Counting):
        def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
            calls.append(len(sentences))
            if len(sentences) > fits:
                raise MemoryError("Unable to allocate 20 GiB")
            return super().encode(sentences, lang=lang)

    encoder = Small()
    sentences = [f"{'long ' * (i % 5)}sentence {i}" for i in range(50)]
    found = VectorCache(tmp_path).of(encoder).encode(sentences)
    assert found.vectors.tolist() == list(map(expected, sentences)) and found.n_new == 50
    assert sorted(text for _, text in encoder.seen) == sorted(sentences)
    assert sum(size > fits for size in calls) <= 5 * 3 and len(shards(tmp_path)) == 3
    notes = capsys.readouterr().err.splitlines()
    assert [("memory ran out" in line, "counting" in line) for line in notes] == [(True, True)] * (fits < 20)
    assert VectorCache(tmp_path).of(Counting()).encode(sentences).n_new == 0


def test_a_sentence_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    class Small(Counting):
        def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
            if "long" in sentences:
                raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB\nmore")
            return super().encode(sentences, lang=lang)

    with pytest.raises(MemoryError, match=r"a sentence of 4 characters \(CUDA out of memory"):
        VectorCache(tmp_path).of(Small()).encode(["a", "long", "bb"])
    assert VectorCache(tmp_path).of(Small()).encode(["a", "bb"]).n_new == 2


def test_what_another_process_removes_while_it_is_listed_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = VectorCache(tmp_path)
    store.of(Counting("v1")).encode(["a"])
    store.of(Counting("v2")).encode(["a"])
    list_folder = Path.iterdir

    def with_ghosts(folder: Path) -> list[Path]:
        return [*list_folder(folder), folder / "ghost.shard", folder / "ghost.part"]

    monkeypatch.setattr(Path, "iterdir", with_ghosts)
    assert store.of(Counting("v1")).encode(["a", "bb"]).n_new == 1
    assert store.size().keys() == {"counting v1", "counting v2"} and store.clear() > 0


def test_a_cache_that_is_cleared_while_a_file_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = VectorCache(tmp_path)
    vectors = store.of(Counting())
    sync, n_synced = files.os.fsync, []

    def clear_once(descriptor: int) -> None:
        sync(descriptor)
        n_synced.append(descriptor)
        if len(n_synced) == 1:
            store.clear()

    monkeypatch.setattr(files.os, "fsync", clear_once)
    assert vectors.encode(["a"]).vectors.tolist() == [expected("a")]
    assert len(n_synced) == 2 and VectorCache(tmp_path).of(Counting()).encode(["a"]).n_new == 0
