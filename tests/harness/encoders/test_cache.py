"""The vector cache: each distinct sentence is encoded once, whatever happens to the files."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
from encoders import Counting, Metered
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cli import main
from harness.core import files
from harness.core.errors import InputError, VectorError
from harness.core.threads import available_cores
from harness.encoders import cache, containment
from harness.encoders import vectors as encoder_vectors
from harness.encoders.cache import VectorCache, default_cache_dir
from harness.encoders.encoder import PartialError

expected = Counting.row


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


def test_how_vectors_were_made_is_kept_with_them(tmp_path: Path) -> None:
    VectorCache(tmp_path).of(Metered()).encode(["a", "bb", "cccc"])
    effort = VectorCache(tmp_path).of(Counting()).encode(["a", "bb", "cccc", "a"]).effort
    assert effort.usage == {"tokens": pytest.approx(7)}
    assert effort.conditions == {"threads": available_cores(), "precision": "bf16"}
    assert 0 < effort.seconds < 1


def test_vectors_that_were_made_in_several_ways_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    VectorCache(tmp_path).of(Metered("bf16")).encode(["a"])
    monkeypatch.setattr(encoder_vectors, "n_threads", lambda: 64)
    both = VectorCache(tmp_path).of(Metered("fp32")).encode(["a", "bb"]).effort
    assert set(str(both.conditions["threads"]).split(", ")) == {str(available_cores()), "64"}
    assert both.conditions["precision"] == "bf16, fp32"
    assert both.usage == {"tokens": pytest.approx(3)}
    alone = VectorCache(tmp_path).of(Metered()).encode(["bb"]).effort
    assert alone.conditions == {"threads": 64, "precision": "fp32"}


def test_how_vectors_of_older_files_were_made_is_not_known(tmp_path: Path) -> None:
    VectorCache(tmp_path).of(Counting()).encode(["a"])
    (file,) = shards(tmp_path)
    content = file.read_bytes()
    meta = np.load(io.BytesIO(content))
    older = {k: v for k, v in json.loads(meta.tobytes()).items() if k not in ("conditions", "usage")}
    head = io.BytesIO()
    np.save(head, np.frombuffer(json.dumps(older).encode(), np.uint8))
    length = len(_npy(meta))
    file.write_bytes(head.getvalue() + content[length:-4])  # without the checksum of the head, as older files are
    assert VectorCache(tmp_path).of(Counting()).encode(["a"]).effort.conditions == {"threads": "unknown"}


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


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
        patch.setattr(encoder_vectors, "CHUNK", chunk)
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
    monkeypatch.setattr(encoder_vectors, "CHUNK", 2)

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


class Partial(Metered):
    """Gives the vectors of sentences that do not begin with "no"; of more than three none, since memory runs out."""

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        if len(sentences) > 3:
            raise MemoryError
        rows = [row for row, text in enumerate(sentences) if not text.startswith("no")]
        vectors = super().encode([sentences[row] for row in rows], lang=lang).reshape(-1, self.dim)
        if len(rows) == len(sentences):
            return vectors
        raise PartialError(np.array(rows, np.int64), vectors, KeyError("no"))


@pytest.mark.parametrize(
    "sentences",
    [["no", "a", "bb"], ["no way", "a", "bb", "ccc"], ["a long one", "another", "bb", "ccc", "no", "dddd"], ["no"]],
)
def test_what_an_encoder_gave_before_it_failed_is_kept(tmp_path: Path, sentences: list[str]) -> None:
    encoder = Partial()
    vectors = VectorCache(tmp_path).of(encoder)
    for _ in range(3):
        with pytest.raises(KeyError, match="no"):
            vectors.encode(sentences)
    given = [text for _, text in encoder.seen]
    assert len(given) == len(set(given))
    assert len(shards(tmp_path)) <= 2  # none without vectors
    again = VectorCache(tmp_path).of(Metered())
    rows, found = again.stored(sentences)
    assert {sentences[row] for row in rows} == {text for text in sentences if not text.startswith("no")}
    assert found.tolist() == [expected(sentences[row]) for row in rows]
    kept = again.encode([sentences[row] for row in rows])
    assert kept.n_new == 0 and kept.effort.usage.get("tokens", 0) == pytest.approx(sum(map(len, given)))


def test_vectors_of_some_sentences_are_checked_too(tmp_path: Path) -> None:
    class Broken(Counting):
        def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
            raise PartialError(np.array([1]), np.full((1, 3), np.nan, np.float32), KeyError("no"))

    with pytest.raises(InputError, match="'counting' returned NaN in row 1 for the sentence 'a'"):
        VectorCache(tmp_path).of(Broken()).encode(["bb", "a"])
    assert shards(tmp_path) == []


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
    monkeypatch.setattr(encoder_vectors, "CHUNK", 1)
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
    for text in ("big", "inf", "-inf", "nan", "1e400", "1e300", "-1", "\u0663", "3\u00b2"):
        monkeypatch.setenv("HARNESS_CACHE_GB", text)
        with pytest.raises(InputError, match=f"0 or more, not '{text}'"):
            VectorCache(tmp_path)


def test_a_full_disk_gives_one_line_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        VectorCache(tmp_path).of(Counting()).encode(["a"])
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.name != ".in-use"] == []


@pytest.mark.slow
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
    monkeypatch.setattr(encoder_vectors, "CHUNK", 2)
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
    monkeypatch.setattr(encoder_vectors, "CHUNK", 20)
    monkeypatch.setattr(containment, "_free", lambda: None)  # a collection of the garbage of all libraries takes long
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


def test_an_encoder_that_returns_nothing_is_refused_at_once(tmp_path: Path) -> None:
    class Forgetful(Counting):
        def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
            super().encode(sentences, lang=lang)
            assert len(self.seen) < 20, "it is asked again and again"
            return None  # type: ignore[return-value]

    with pytest.raises(VectorError, match="'counting' returned NoneType for 2 sentences"):
        VectorCache(tmp_path).of(Forgetful()).encode(["a", "bb"])


def test_an_encoder_that_prints_and_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class Noisy(Counting):
        def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
            print("print")
            os.system("echo echo")
            os.chdir("/")
            return super().encode(sentences, lang=lang)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(encoder_vectors, "CHUNK", 1)
    VectorCache("cache").of(Noisy()).encode(["a", "bb"])
    assert len(shards(tmp_path)) == 2 and Path.cwd() == tmp_path
    assert capfd.readouterr() == ("", "print\necho\n" * 2)


def test_a_fingerprint_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'counting': its fingerprint '\\udc80'"):
        VectorCache(tmp_path).of(Counting("\udc80"))


def crafted(path: Path, keys: np.ndarray, vectors: np.ndarray, **changes: object) -> None:
    """A shard with the right checksums, written by the description of the format alone."""
    crc = zlib.crc32(vectors.tobytes(), zlib.crc32(keys.tobytes()))
    meta = {"name": "counting", "fingerprint": "v1", "seconds": 1.0, "crc32": crc, **changes}
    text = meta["raw"] if "raw" in meta else json.dumps(meta).encode()
    head = io.BytesIO()
    np.save(head, np.frombuffer(text, np.uint8))
    np.save(head, keys)
    whole = io.BytesIO()
    np.save(whole, vectors)
    content = head.getvalue() + whole.getvalue()[: len(whole.getvalue()) - vectors.nbytes]
    path.write_bytes(content + vectors.tobytes() + zlib.crc32(content).to_bytes(4, "little"))


def key_of(sentence: str) -> bytes:
    return blake2b(sentence.encode(), digest_size=16).digest()


KEYS, VECTORS = np.array([key_of("a"), key_of("bb")]), np.array([expected("a"), expected("bb")], np.float32)


@pytest.mark.parametrize(
    ("keys", "vectors", "changes"),
    [
        (np.zeros(2), VECTORS, {}),
        (np.stack([KEYS, KEYS], axis=1), VECTORS, {}),
        (KEYS.reshape(2, 1), VECTORS, {}),
        (KEYS.astype("S17"), VECTORS, {}),
        (KEYS[:1], VECTORS, {}),
        (KEYS[0], VECTORS, {}),
        (KEYS, VECTORS[:, :1], {}),  # one number would be taken for three
        (KEYS, VECTORS.astype(np.float64), {}),
        (KEYS, VECTORS[0], {}),
        (KEYS, VECTORS[:, :, None], {}),
        (KEYS, VECTORS, {"seconds": "1"}),
        (KEYS, VECTORS, {"seconds": float("nan")}),
        (KEYS, VECTORS, {"seconds": 10**400}),
        (KEYS, VECTORS, {"crc32": None}),
        (KEYS, VECTORS, {"name": 3}),
        (KEYS, VECTORS, {"raw": b"[" * 100_000}),
        (KEYS, VECTORS, {"raw": b"[]"}),
        (KEYS, VECTORS, {"raw": b'"\\ud800"'}),
    ],
)
def test_files_that_no_cache_has_written_are_computed_again(
    tmp_path: Path,
    keys: np.ndarray,
    vectors: np.ndarray,
    changes: dict[str, object],
    capsys: pytest.CaptureFixture[str],
) -> None:
    with_files = VectorCache(tmp_path)
    folder = with_files.of(Counting()).folder
    crafted(folder / "good.shard", KEYS, VECTORS)
    assert with_files.of(Counting()).encode(["a", "bb"]).n_new == 0 and capsys.readouterr().err == ""
    crafted(folder / "good.shard", keys, vectors, **changes)
    with_files.size()
    found = with_files.of(Counting()).encode(["a", "bb"])
    assert found.n_new == 2 and found.vectors.tolist() == VECTORS.tolist()
    assert capsys.readouterr().err.count("good.shard is damaged") == 1
    assert with_files.of(Counting()).encode(["a", "bb"]).n_new == 0 and capsys.readouterr().err == ""


def place(kind: str, path: Path) -> None:
    path.unlink(missing_ok=True)
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(path if kind == "loop" else "nowhere")


@pytest.mark.skipif(os.name != "posix", reason="needs fifos and links")
@pytest.mark.parametrize("kind", ["folder", "fifo", "loop", "dangling link"])
def test_what_is_no_file_is_computed_again(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    store = VectorCache(tmp_path)
    vectors = store.of(Counting())
    vectors.encode(["a", "bb"])
    (shard,) = shards(tmp_path)
    place(kind, shard)
    again = store.of(Counting()).encode(["a", "bb"])
    assert again.n_new == 2 and again.vectors.tolist() == VECTORS.tolist()
    assert capsys.readouterr().err.count("is damaged (no file)") == 1
    assert os.path.lexists(shard) == (kind == "folder")  # in which may be anything
    place(kind, shard.with_name("0.shard"))
    assert list(store.size()) == ["counting v1"]
    if kind != "fifo":  # a file that becomes one while it is in use is not looked for
        assert vectors.encode(["a", "bb"]).vectors.tolist() == VECTORS.tolist()


def test_sentences_in_several_files_outlive_the_loss_of_one(tmp_path: Path) -> None:
    """As two processes write them that encode the same at the same time."""
    one, two = VectorCache(tmp_path).of(Counting()), VectorCache(tmp_path).of(Counting())
    one.encode(["a", "bb"])
    two.encode(["bb", "ccc"])
    both = VectorCache(tmp_path).of(Counting())
    first, second = shards(tmp_path)
    content = bytearray(first.read_bytes())
    content[-8] ^= 1
    first.write_bytes(content)
    rows, vectors = both.stored(["a", "bb", "ccc"])
    assert rows.tolist() in ([0, 1], [1, 2]) and vectors.tolist() == [expected(["a", "bb", "ccc"][row]) for row in rows]
    second.unlink()
    assert len(both.stored(["a", "bb", "ccc"])[0]) == 0
    assert both.encode(["a", "bb", "ccc"]).n_new == 3


ANOTHER_PROCESS = """
import sys
import numpy as np
from harness.encoders.cache import VectorCache, default_cache_dir
from harness.cli import main

class Encoder:
    name, fingerprint, dim, uses_lang = "theirs", "theirs", 3, False
    def encode(self, sentences, *, lang=None): return np.ones((len(sentences), 3), np.float32)

vectors = VectorCache(sys.argv[1], max_bytes=1).of(Encoder())
for line in sys.stdin:
    print(vectors.encode([f"sentence {i}" for i in range(50)]).n_new, flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs locks of files")
def test_what_another_process_uses_is_not_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ANOTHER_PROCESS, str(tmp_path)], stdin=-1, stdout=-1, stderr=-1, text=True
    ) as theirs:
        assert theirs.stdin and theirs.stdout and theirs.stderr

        def ask() -> str:
            assert theirs.stdin and theirs.stdout
            print("encode", file=theirs.stdin, flush=True)
            return theirs.stdout.readline().strip()

        assert ask() == "50"
        store = VectorCache(tmp_path, max_bytes=1)
        store.of(Counting("old")).encode(["a"])
        ours = store.of(Counting("ours"))
        ours.encode(["a"])
        assert set(store.size()) == {"theirs theirs", "counting ours"}
        assert (ask(), ours.encode(["a"]).n_new) == ("0", 0)
        theirs.stdin.close()
        assert theirs.wait() == 0 and theirs.stderr.read().count("warning: ") == 1
    (warning,) = capsys.readouterr().err.splitlines()
    assert "more than the limit of 0.0 MB" in warning and "HARNESS_CACHE_GB" in warning
    store.of(Counting("ours"))
    assert set(store.size()) == {"counting ours"}


def test_the_limit_is_kept_while_vectors_are_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(encoder_vectors, "CHUNK", 100)
    sentences = [f"sentence {i}" for i in range(1500)]
    store = VectorCache(tmp_path, max_bytes=30_000)
    store.of(Counting("old")).encode(sentences[:300])
    growing = store.of(Counting("growing"))
    growing.encode(sentences[:400])
    assert set(store.size()) == {"counting old", "counting growing"} and capsys.readouterr().err == ""
    growing.encode(sentences[:800])
    assert set(store.size()) == {"counting growing"} and capsys.readouterr().err == ""
    growing.encode(sentences)
    (warning,) = capsys.readouterr().err.splitlines()
    assert "take 0.0 MB, more than the limit of 0.0 MB" in warning
    assert growing.encode(sentences).n_new == 0


def test_how_often_the_cache_is_looked_at_does_not_grow_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder_vectors, "CHUNK", 1)
    store, n_looked = VectorCache(tmp_path, max_bytes=0), []
    look = cache._bytes_in
    monkeypatch.setattr(cache, "_bytes_in", lambda folder: n_looked.append(folder) or look(folder))
    store.of(Counting()).encode([f"sentence {i}" for i in range(200)])
    assert 20 < len(n_looked) < 60


@pytest.mark.skipif(os.name != "posix", reason="needs locks of files")
def test_a_folder_that_was_cleared_is_in_use_again(tmp_path: Path) -> None:
    store = VectorCache(tmp_path, max_bytes=1)
    vectors = store.of(Counting())
    vectors.encode(["a"])
    store.clear()
    vectors.encode(["bb"])
    store.of(Counting("other")).encode(["a"])
    assert set(store.size()) == {"counting v1", "counting other"}


def test_a_folder_in_the_user_s_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("HARNESS_CACHE", "~/c")
    assert default_cache_dir() == tmp_path / "c"
    assert VectorCache("~/d").root == tmp_path / "d" / "vectors"


@pytest.mark.parametrize("given", ["~nobody-of-that-name/c", "x" * 300, "loop/c"])
def test_a_folder_that_cannot_be_is_one_line(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    monkeypatch.setenv("HARNESS_CACHE", given)
    for open_it in (default_cache_dir, VectorCache, partial(VectorCache, given)):
        with pytest.raises(
            InputError, match=f"^cache folder {given}( cannot be used .*; set HARNESS_CACHE|: no such home folder)"
        ):
            open_it()


def test_the_option_and_the_variable_are_expanded_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HARNESS_CACHE", "~/c")
    VectorCache().of(Counting()).encode(["a"])
    for arguments in (["cache", "size"], ["cache", "size", "--cache-dir", "~/c"]):
        with pytest.raises(SystemExit):
            main(arguments)
        assert "in 1 encoders" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        main(["cache", "size", "--cache-dir", "~nobody-of-that-name/c"])
    (line,) = capsys.readouterr().err.splitlines()
    assert stopped.value.code == 2 and line.startswith(
        "error: cache folder ~nobody-of-that-name/c: no such home folder"
    )


def test_warnings_are_lines_that_do_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\n::error::x\x1b[31m##[group]"

    class Small(Counting):
        name = hostile

        def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
            if len(sentences) > 1:
                raise MemoryError
            return super().encode(sentences, lang=lang)

    store = VectorCache(tmp_path / hostile, max_bytes=1)
    vectors = store.of(Small())
    vectors.encode(["a", "b"])
    [folder] = store.root.iterdir()
    (folder / f"{hostile}.shard").write_bytes(b"nothing")
    store.of(Small())
    lines = capsys.readouterr().err.split("\n")
    assert [line[:8] for line in lines] == ["warning:"] * 3 + [""], lines
    assert not any("\x1b" in line or "##[" in line for line in lines)
