"""Planted regressions 2 and 3 on a transformer of a few thousand weights: a dropped prompt, another pooling."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gate_runs import findings, leaderboard_here

pytestmark = pytest.mark.slow

pytest.importorskip("sentence_transformers")

SPEC = "mean-pooling:model?prompt=query: &name=tiny"
SUBSETS = ["en-en@sample", "es-es@sample", "en-de@sample"]
OPTIONS = ["--task", "sts17", *(option for name in SUBSETS for option in ("--subset", name))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the model, and records of it."""
    from tiny_models import write_xlm_r

    folder = tmp_path_factory.mktemp("tiny")
    before = Path.cwd()
    os.chdir(folder)  # records have no machine paths: the model is found from where it was measured
    try:
        write_xlm_r(folder / "model")
        places = ["--results", "results", "--cache-dir", "cache"]
        assert leaderboard_here("run", "--suite", "sample", "--encoder", SPEC, *OPTIONS, *places) == 0
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def check(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, set[str]]]:
    monkeypatch.chdir(folder)

    def check(*arguments: str) -> dict[str, set[str]]:
        junit = tmp_path / "junit.xml"
        code = leaderboard_here("check", *OPTIONS, *arguments, "--cache-dir", str(tmp_path), "--junit", str(junit))
        found = findings(junit)
        assert code == (1 if found else 0)
        return found

    return check


def every(*kinds: str) -> dict[str, set[str]]:
    return {f"tiny/sts17/{name}": set(kinds) for name in SUBSETS}


@pytest.mark.parametrize("batch_size", ["1", "60"])
def test_untouched(check: Callable[..., dict[str, set[str]]], batch_size: str) -> None:
    assert check("--batch-size", batch_size) == {}


@pytest.mark.parametrize(
    "spec", ["mean-pooling:model?name=tiny", SPEC + "&pooling=cls"], ids=["2 prompt dropped", "3 pooling changed"]
)
def test_2_and_3_as_options(check: Callable[..., dict[str, set[str]]], spec: str) -> None:
    assert check("--encoder", spec) == every("encoder", "score")


def drop_prompt(encoder: Any) -> None:
    preprocess = encoder._model.preprocess
    encoder._model.preprocess = lambda texts, prompt: preprocess(texts, prompt="")


def change_pooling(encoder: Any) -> None:
    from sentence_transformers.sentence_transformer.modules import Pooling

    encoder._model[1] = Pooling(encoder.dim, "cls")


@pytest.mark.parametrize("plant", [drop_prompt, change_pooling], ids=["2 prompt dropped", "3 pooling changed"])
def test_2_and_3_in_the_code_of_an_adapter(
    check: Callable[..., dict[str, set[str]]], plant: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fingerprint says that nothing has changed; the scores do not."""
    from baselines.adapters.sentence_transformer import SentenceTransformerEncoder

    original = SentenceTransformerEncoder.__init__

    def planted(self: Any, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        plant(self)

    monkeypatch.setattr(SentenceTransformerEncoder, "__init__", planted)
    assert check() == every("score")
