"""The vector cache: each distinct sentence is encoded once, whatever happens to the files."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import cache
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
    store = VectorCache(tmp_path)
    store.of(Counting()).encode(["a"])
    old, new = (shards(tmp_path)[0].with_name(f"{name}.part") for name in ("old", "new"))
    old.write_text("")
    new.write_text("")
    os.utime(old, (0, 0))
    store.of(Counting())
    assert new.exists() and not old.exists()


def test_the_size_cap_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE_GB", "1.5")
    assert VectorCache(tmp_path).max_bytes == 1_500_000_000
    monkeypatch.setenv("HARNESS_CACHE_GB", "big")
    with pytest.raises(InputError, match="'big'"):
        VectorCache(tmp_path)


def test_a_full_disk_gives_one_line_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache.os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        VectorCache(tmp_path).of(Counting()).encode(["a"])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
