from __future__ import annotations

import gzip
import hashlib
import pickle
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distill.corpora import find_corpora
from distill.pairs import Filters, PairStore
from harness.core.errors import InputError
from harness.data.corpora import Corpus, read_pairs
from harness.tasks.leakage import EvaluationSentences

Write = Callable[[str, "bytes | str"], Path]

TSV = {
    "a.en-de": [
        ("A dog runs.", "Ein Hund rennt."),
        ("A man is playing a guitar.", "Ein Mann spielt auf der Gitarre."),
        (" A dog runs. ", "Ein Hund rennt."),
        ("A cat.", "Eine Katze 🐈."),
        ("Linux", "linux"),
        ("", "Leer"),
        ("A", "x" * 60),
        ("y" * 300, "z" * 300),
        ("One man.", "ein mann – spielt gitarre"),
    ],
    "a.en-fr": [("A dog runs.", "Un chien court."), ("A dog runs.", "Ein Hund rennt.")],
    "b.en-de": [("A cat.", "Eine Katze 🐈."), ("A bird.", "Ein Vogel."), ("A cat.", "Katze.")],
}


@pytest.fixture
def corpora(write: Write, tmp_path: Path) -> list[Corpus]:
    for name, pairs in TSV.items():
        write(f"parallel/{name}.tsv.gz", "".join(f"{one}\t{two}\n" for one, two in pairs))
    return find_corpora(tmp_path / "data")


def plainly(pairs: dict[str, list[tuple[str, str]]], guard: EvaluationSentences) -> dict[str, tuple[list, Counter]]:  # type: ignore[type-arg]
    """What is left of each corpus, and what was dropped, by a plain loop."""
    seen = set()
    left = {}
    for name, rows in pairs.items():
        kept, dropped = [], Counter[str]()
        for source, target in ((one.strip(), two.strip()) for one, two in rows):
            reason = Filters().reason_to_drop(source, target, guard)
            if reason is None and (source, target, name[-2:]) in seen:
                reason = "duplicate"
            if reason is None:
                seen.add((source, target, name[-2:]))
                kept.append((source, target))
            else:
                dropped[reason] += 1
        left[name] = (kept, dropped)
    return left


def check(store: PairStore, pairs: dict[str, list[tuple[str, str]]], guard: EvaluationSentences) -> None:
    expected = plainly(pairs, guard)
    assert [part.name for part in store.parts] == list(pairs)
    for part in store.parts:
        kept, dropped = expected[part.name]
        numbers = range(part.start, part.stop)
        assert [(store.sources[store.source_rows[i]], store.targets[i]) for i in numbers] == kept
        assert part.dropped == dropped and len(part) == len(kept) and part.target_lang == part.name[-2:]
    sources = [source for kept, _ in expected.values() for source, _ in kept]
    assert list(store.sources) == list(dict.fromkeys(sources))
    assert len(store) == len(store.targets) == len(sources) and store.source_rows.dtype == np.int32


def test_build(corpora: list[Corpus], guard: EvaluationSentences, tmp_path: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    store = PairStore.build(corpora, Filters(), guard, tmp_path / "s", lambda *what: told.append(what))
    check(store, TSV, guard)
    assert store.parts[0].dropped == {"leakage": 2, "duplicate": 1, "empty": 1, "identical": 1, "long": 1, "ratio": 1}
    assert store.parts[2].dropped == {"duplicate": 1}
    assert told == [("a.en-de", 9, None), ("a.en-fr", 2, None), ("b.en-de", 3, None)]
    assert store.guarded == {"sts17": 1, "tatoeba": 1}
    assert {path.name for path in tmp_path.iterdir()} == {"data", "s", "s.lock"}
    lines = "".join(f"{one}\t{two}\n" for one, two in TSV["b.en-de"]).encode()
    assert store.parts[2].sha256 == hashlib.sha256(f"{hashlib.sha256(lines).hexdigest()}\n".encode()).hexdigest()
    for again in (PairStore.open(tmp_path / "s"), pickle.loads(pickle.dumps(store))):
        check(again, TSV, guard)
    assert pickle.loads(pickle.dumps(store.targets))[-2:] == ["Ein Vogel.", "Katze."]
    assert store.sources[-1] == store.sources[len(store.sources) - 1]
    with pytest.raises(IndexError):
        store.targets[len(store)]


sentences = st.text(st.sampled_from("ab é語\u2028"), max_size=4)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=12), min_size=1, max_size=3))
def test_against_a_plain_loop(
    rows: list[list[tuple[str, str]]], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distill.pairs._BLOCK", 5)
    folder = tmp_path_factory.mktemp("store")
    pairs = {f"{name}.en-{name[-2:]}": part for name, part in zip(("x.de", "y.de", "z.fr"), rows, strict=False)}
    guard = EvaluationSentences(["ab", "語語"])
    corpora = []
    for name, part in pairs.items():
        path = folder / f"{name}.tsv"
        path.write_text("".join(f"{one}\t{two}\n" for one, two in part), encoding="utf-8", newline="")
        corpora.append(Corpus(name, (path,), "en", name[-2:]))
    if not any(kept for kept, _ in plainly(pairs, guard).values()):
        with pytest.raises(InputError, match="no pair is left"):
            PairStore.build(corpora, Filters(), guard, folder / "s")
        return
    check(PairStore.build(corpora, Filters(), guard, folder / "s"), pairs, guard)


def test_it_is_built_again_only_if_something_changed(
    corpora: list[Corpus], guard: EvaluationSentences, tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "s"
    built: list[str] = []
    monkeypatch.setattr("distill.pairs.read_pairs", lambda corpus: built.append(corpus.name) or read_pairs(corpus))

    def build(of: list[Corpus] = corpora, by: EvaluationSentences = guard, longest: int = 250) -> int:
        built.clear()
        PairStore.build(of, Filters(max_characters=longest), by, folder)
        return len(built)

    assert (build(), build()) == (3, 0)
    assert build(longest=10) == 3
    assert build(by=EvaluationSentences(["A bird."])) == 3 and "A bird." not in PairStore.open(folder).sources
    assert build(of=corpora[:2]) == 2
    assert build() == 3
    write("parallel/b.en-de.tsv.gz", "A horse.\tEin Pferd.\n")
    assert build() == 3 and PairStore.open(folder).targets[-1] == "Ein Pferd."
    moved = tmp_path / "data/parallel/b.en-de.tsv"
    moved.write_bytes(gzip.decompress((tmp_path / "data/parallel/b.en-de.tsv.gz").read_bytes()))
    assert build(of=[*corpora[:2], Corpus("b.en-de", (moved,), "en", "de")]) == 0  # the same content elsewhere
    (folder / "targets").write_bytes(b"cut")
    with pytest.raises(InputError, match="no store of pairs, or a damaged one"):
        PairStore.open(folder)
    assert (build(), build()) == (3, 0)


def test_what_fails_leaves_the_old_store(
    corpora: list[Corpus], guard: EvaluationSentences, tmp_path: Path, write: Write
) -> None:
    folder = tmp_path / "s"
    PairStore.build(corpora, Filters(), guard, folder)
    write("parallel/b.en-de.tsv.gz", "A horse.\tEin Pferd.\nA cow.\n")
    with pytest.raises(InputError, match=r"b\.en-de\.tsv\.gz:2: 1 column, expected 2"):
        PairStore.build(corpora, Filters(), guard, folder)
    check(PairStore.open(folder), TSV, guard)
    assert not (tmp_path / "s.part").exists()


def test_duplicates_may_stay(corpora: list[Corpus], guard: EvaluationSentences, tmp_path: Path) -> None:
    store = PairStore.build(corpora, Filters(drop_duplicates=False), guard, tmp_path / "s")
    assert [len(part) for part in store.parts] == [3, 2, 3]
    assert list(store.sources) == ["A dog runs.", "A cat.", "A bird."]


def test_bad_input(corpora: list[Corpus], guard: EvaluationSentences, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/thesis.txt").write_text("mine")
    (tmp_path / "file").write_text("")
    for of, by, folder, message in (
        ([], guard, "s", "no corpora to train on"),
        ([*corpora, corpora[0]], guard, "s", r"a\.en-de is given 2 times"),
        (corpora, EvaluationSentences([]), "s", "the leakage guard is empty"),
        (corpora, guard, "other", "other holds something else than a store of pairs"),
        (corpora, guard, "file/s", "cannot be written"),
        (corpora[1:2], EvaluationSentences(["A dog runs."]), "s", "no pair is left of 1 corpora: 2 dropped as leakage"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            PairStore.build(of, Filters(), by, tmp_path / folder)
        assert "\n" not in str(caught.value)
    assert (tmp_path / "other/thesis.txt").read_text() == "mine"
    with pytest.raises(InputError, match="no store of pairs"):
        PairStore.open(tmp_path / "none")


def test_pairs_are_streamed(
    write: Write, tmp_path: Path, guard: EvaluationSentences, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten times as many pairs take hardly more memory than their hashes, let alone their 200 bytes of text each."""
    monkeypatch.setattr("distill.pairs._BLOCK", 500)
    peaks = []
    for number in (1_000, 10_000):
        write(f"{number}/parallel/n.en-de.tsv", "".join(f"{i} {'x' * 90}\t{i} {'y' * 90}\n" for i in range(number)))
        corpora = find_corpora(tmp_path / f"data/{number}")
        tracemalloc.start()
        PairStore.build(corpora, Filters(), guard, tmp_path / str(number))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 9_000 * 120
