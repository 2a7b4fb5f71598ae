"""Twelve planted regressions, each in the data or the code as it would happen: the gate must fail, by the right kind.

Where a regression is honest (the fingerprint, the signature tells it) it is planted as such too.
"""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gate_runs import copy_sample, findings, leaderboard_here

from baselines.adapters.chargrams import CharGrams
from harness import mining
from harness.data.sts import _TRACKS, _Track
from harness.encoders.cache import VectorCache
from harness.mining import best_threshold
from harness.tasks.bucc import bucc
from harness.tasks.sts17 import sts17
from harness.tasks.tatoeba import tatoeba

pytestmark = pytest.mark.slow

SUBSETS = {
    "sts17": ["en-en", "es-es", "ar-ar", "avg-same", "en-es", "en-de@made"],
    "bucc": ["de-en"],
    "tatoeba": ["deu", "nld"],
}


@dataclass
class Gate:
    """Records of `chargrams` on a data directory, and the check of it."""

    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    def check(self, *arguments: str | Path, against: Path | None = None) -> dict[str, set[str]]:
        """What fails by which kinds, after the exit code was seen to be that of the findings."""
        junit = self.folder / "junit.xml"
        places = ["--data-dir", self.data, "--cache-dir", self.cache]
        code = leaderboard_here(
            "check", "--against", against or self.folder / "results", *places, *arguments, "--junit", junit
        )
        found = findings(junit)
        assert code == (1 if found else 0), (code, found)
        return found

    def edit(self, file: str, change: Callable[[list[str]], list[str]]) -> None:
        """Change the lines of a data file."""
        path = self.data / file
        lines = path.read_text(encoding="utf-8").splitlines()
        assert change(list(lines)) != lines
        path.write_text("".join(f"{line}\n" for line in change(lines)), encoding="utf-8")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("gate")
    copy_sample(folder / "data")
    track = folder / "data" / "sts17"
    for kind in ("input", "gs"):  # 4b is there too, as in the release: other sentences, other scores
        lines = (track / f"STS.{kind}.track4a.es-en.txt").read_text(encoding="utf-8").splitlines()
        random.Random(kind).shuffle(lines)
        (track / f"STS.{kind}.track4b.es-en.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for task, subsets in SUBSETS.items():
        options = [option for name in subsets for option in ("--subset", name)]
        places = ["--data-dir", folder / "data", "--cache-dir", folder / "cache", "--results", folder / "results"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HARNESS_CACHE", str(folder / "cache"))
            assert leaderboard_here("run", "--encoder", "chargrams", "--task", task, *options, *places) == 0
    yield folder


@pytest.fixture
def gate(measured: Path, tmp_path: Path) -> Gate:
    """A copy without cached vectors."""
    for name in ("data", "results"):
        shutil.copytree(measured / name, tmp_path / name)
    return Gate(tmp_path)


def plant_task(monkeypatch: pytest.MonkeyPatch, task: Any) -> None:
    monkeypatch.setattr(sys.modules[f"harness.tasks.{task.name}"], task.name, task)


def test_an_untouched_run_passes(gate: Gate, capsys: pytest.CaptureFixture[str]) -> None:
    assert gate.check() == {}
    assert capsys.readouterr().out == "passed: 9 agree, 0 fail, 0 not checked\n"


def test_1_vectors_perturbed(gate: Gate, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    original = CharGrams.encode

    def perturbed(self: CharGrams, sentences: Any, *, lang: str | None = None) -> np.ndarray:
        vectors = original(self, sentences)
        noise = np.random.default_rng(0).normal(size=vectors.shape)
        return (vectors + 0.002 * noise).astype(np.float32)  # 6 % of a vector's length

    monkeypatch.setattr(CharGrams, "encode", perturbed)
    found = gate.check("--task", "sts17")
    assert set(found) == {f"chargrams/sts17/{name}" for name in SUBSETS["sts17"]}
    assert all(kinds == {"score"} for kinds in found.values())
    assert " p 0." in capsys.readouterr().out  # the paired test of old and new rows


def test_4_wrong_track_4b(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_TRACKS, "en-es", _Track("track4b.es-en", "es", "en"))
    monkeypatch.setitem(sys.modules["harness.data.sts"]._STEMS, "track4b.es-en", _TRACKS["en-es"])
    assert gate.check() == {"chargrams/sts17/en-es": {"data", "score"}}


def test_4_wrong_track_4b_under_the_name_of_4a(gate: Gate) -> None:
    for kind in ("input", "gs"):
        folder = gate.data / "sts17"
        shutil.copy(folder / f"STS.{kind}.track4b.es-en.txt", folder / f"STS.{kind}.track4a.es-en.txt")
    assert gate.check() == {"chargrams/sts17/en-es": {"data", "score"}}


def test_5_a_set_cut_to_200_pairs(gate: Gate) -> None:
    gate.edit("sts17-extended-made/STS.en-de.txt", lambda lines: lines[:200])
    assert gate.check() == {"chargrams/sts17/en-de@made": {"data", "n", "score"}}


def test_5_a_set_cut_to_200_pairs_while_it_is_read(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(source: Any) -> Any:
        pairs = sts17.load(source)
        return replace(
            pairs, sentences1=pairs.sentences1[:200], sentences2=pairs.sentences2[:200], gold=pairs.gold[:200]
        )

    plant_task(monkeypatch, replace(sts17, load=cut))
    assert gate.check() == {"chargrams/sts17/en-de@made": {"n", "score"}}


def test_5_scores_and_pairs_that_do_not_fit_are_a_failure_of_the_data(gate: Gate) -> None:
    gate.edit("sts17/STS.input.track5.en-en.txt", lambda lines: lines[:50])
    found = gate.check()
    assert found == {"chargrams/sts17/en-en": {"data"}, "chargrams/sts17/avg-same": {"missing"}}


def shuffled(lines: list[str]) -> list[str]:
    return random.Random(1).sample(lines, len(lines))


def test_6_gold_shuffled(gate: Gate) -> None:
    gate.edit("sts17/STS.gs.track5.en-en.txt", shuffled)
    found = gate.check()
    assert found == {f"chargrams/sts17/{name}": {"data", "score"} for name in ("en-en", "avg-same")}


def test_6_gold_shuffled_while_it_is_read(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(source: Any) -> Any:
        pairs = sts17.load(source)
        return replace(pairs, gold=np.random.default_rng(1).permutation(pairs.gold))

    plant_task(monkeypatch, replace(sts17, load=load))
    found = gate.check()
    assert found == {f"chargrams/sts17/{name}": {"score"} for name in SUBSETS["sts17"]}


def test_7_threshold_taken_from_the_test_split(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def aggregate(rows: Any) -> dict[str, float]:
        is_test = rows["split"] == "test"
        mined = is_test & ~np.isnan(rows["score"])
        threshold = best_threshold(rows["score"][mined], rows["gold"][mined], int(rows["gold"][is_test].sum()))
        extracted = is_test & (rows["score"] >= threshold)
        right, n, gold = (extracted & rows["gold"]).sum(), extracted.sum(), (is_test & rows["gold"]).sum()
        return {**bucc.aggregate(rows), "f1_test": 200 * right / (n + gold)}

    plant_task(monkeypatch, replace(bucc, aggregate=aggregate))
    assert gate.check() == {"chargrams/bucc/de-en": {"score"}}
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("chargrams")]
    assert len(lines) == 1 and "f1_test" in lines[0]


@pytest.mark.parametrize("change", [{"k": 1}, {"retrieval": "forward"}], ids=["8 k = 1", "9 one direction only"])
def test_8_and_9_mining(gate: Gate, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]) -> None:
    mine = mining.mine
    monkeypatch.setattr(mining, "mine", lambda x, y, **options: mine(x, y, **{**options, **change}))
    assert gate.check() == {"chargrams/bucc/de-en": {"score"}}
    [(option, value)] = change.items()
    plant_task(monkeypatch, replace(bucc, signature=f"{bucc.signature}|{option}:{value}"))
    assert gate.check() == {"chargrams/bucc/de-en": {"signature", "score"}}


def test_9_one_direction_only_in_tatoeba(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    def aggregate(rows: Any) -> dict[str, float]:
        return {"accuracy_en_xx": tatoeba.aggregate(rows)["accuracy_en_xx"]}

    plant_task(monkeypatch, replace(tatoeba, aggregate=aggregate))
    assert gate.check() == {f"chargrams/tatoeba/{name}": {"missing"} for name in SUBSETS["tatoeba"]}


def test_10_swapped_sides_in_tatoeba(gate: Gate) -> None:
    folder = gate.data / "tatoeba" / "v1"
    (folder / "tatoeba.deu-eng.deu").rename(folder / "moved")
    (folder / "tatoeba.deu-eng.eng").rename(folder / "tatoeba.deu-eng.deu")
    (folder / "moved").rename(folder / "tatoeba.deu-eng.eng")
    assert gate.check() == {"chargrams/tatoeba/deu": {"data", "score"}}


def test_10_swapped_sides_in_tatoeba_while_they_are_read(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(source: Any) -> Any:
        pairs = tatoeba.load(source)
        return replace(pairs, foreign=pairs.english, english=pairs.foreign)

    plant_task(monkeypatch, replace(tatoeba, load=swapped))
    assert gate.check() == {f"chargrams/tatoeba/{name}": {"score"} for name in SUBSETS["tatoeba"]}


def nld(gate: Gate, side: str) -> list[str]:
    return (gate.data / f"tatoeba/v1/tatoeba.nld-eng.{side}").read_text(encoding="utf-8").splitlines()


def cache_of_other_weights(gate: Gate, sentences: list[str]) -> None:
    """Their vectors under the fingerprint of `chargrams`, checksums and all."""
    other = CharGrams(ngrams="4-5")
    other.fingerprint = CharGrams().fingerprint
    VectorCache(gate.cache).of(other).encode(sentences)


def fill_cache(gate: Gate, task: str, subset: str) -> None:
    places = ["--data-dir", gate.data, "--cache-dir", gate.cache, "--results", gate.folder / "elsewhere"]
    assert leaderboard_here("run", "--encoder", "chargrams", "--task", task, "--subset", subset, *places) == 0


@pytest.mark.parametrize("options", [[], ["--cached"]], ids=["encoded afresh", "cached"])
def test_11_stale_cache_entries(gate: Gate, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    cache_of_other_weights(gate, nld(gate, "nld") + nld(gate, "eng"))
    found = gate.check(*options)
    assert found.pop("chargrams/cache/vectors") == {"cache"}
    # Scores are those of fresh vectors, or else of the stale ones; the others share English sentences with nld.
    assert found.get("chargrams/tatoeba/nld") == ({"score"} if options else None)
    assert set(found) <= {f"chargrams/{name}" for name in ("tatoeba/nld", "tatoeba/deu", "bucc/de-en")}
    n_compared = 3 * 32 if options else 240  # of two sides of nld and one of deu; of all
    assert f"cache: {n_compared} of {n_compared} cached vectors" in capsys.readouterr().out


def test_11_a_single_stale_entry_among_good_ones(gate: Gate, capsys: pytest.CaptureFixture[str]) -> None:
    sentence = nld(gate, "nld")[7]
    cache_of_other_weights(gate, [sentence])
    fill_cache(gate, "tatoeba", "nld")
    assert gate.check("--task", "tatoeba") == {"chargrams/cache/vectors": {"cache"}}
    assert "cache: 1 of 240 cached vectors are not what the encoder gives, " in (printed := capsys.readouterr().out)
    assert repr(sentence[:60]) in printed


@pytest.mark.parametrize("options", [[], ["--cached"]], ids=["encoded afresh", "cached"])
def test_a_good_cache_passes_and_is_used_if_asked_for(
    gate: Gate, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_cache(gate, "tatoeba", "nld")
    original, encoded = CharGrams.encode, []

    def counted(self: CharGrams, sentences: Any, *, lang: str | None = None) -> np.ndarray:
        encoded.append(len(sentences))
        return original(self, sentences)

    monkeypatch.setattr(CharGrams, "encode", counted)
    assert gate.check("--task", "tatoeba", "--subset", "nld", *options) == {}
    assert sum(encoded) == (64 if options else 240)  # 32 of each side


def test_12_a_missing_subset(gate: Gate) -> None:
    for side in ("deu", "eng"):
        (gate.data / "tatoeba" / "v1" / f"tatoeba.deu-eng.{side}").unlink()
    assert gate.check() == {"chargrams/tatoeba/deu": {"missing"}}


def test_12_a_subset_that_a_fresh_run_lacks(gate: Gate, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    places = ["--data-dir", gate.data, "--cache-dir", gate.cache, "--results", fresh]
    assert leaderboard_here("run", "--encoder", "chargrams", "--task", "sts17", *places) == 0
    assert gate.check("--run", fresh, "--task", "sts17") == {}
    found = gate.check("--run", fresh)
    assert found == {f"chargrams/{name}": {"missing"} for name in ("bucc/de-en", "tatoeba/deu", "tatoeba/nld")}
