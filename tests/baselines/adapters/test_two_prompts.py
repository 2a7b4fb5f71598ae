"""One prompt for queries and another one for documents, through real adapters."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_models import write_bert, write_sentence_transformer

from harness import TwoSided, evaluate
from harness.core.errors import InputError
from harness.encoders.registry import load_encoder, load_sides
from harness.tasks.retrieval import METRICS

torch = pytest.importorskip("torch")
library = pytest.importorskip("sentence_transformers")
torch.set_num_threads(1)

WORDS = (
    *("a", "man", "is", "playing", "the", "guitar", "ein", "mann", "spielt", "gitarre"),
    *("committee", "met", "twice", "without", "result", "report", "wording"),
)
CORPUS = {f"d{i:02}": " ".join(WORDS[(3 * i + j * (1 + i % 5)) % 17] for j in range(3 + i % 4)) for i in range(70)}
QUERIES = {f"q{i}": " ".join(WORDS[(5 * i + j) % 17] for j in range(2)) for i in range(17)}
QRELS = {f"q{i}": {f"d{(4 * i + 9 * j) % 70:02}" for j in range(1 + i % 3)} for i in range(17)}
BEIR = {"corpus": CORPUS, "queries": QUERIES, "qrels": QRELS}
QUERY, DOCUMENT = "query: ", "the report: "
SPEC = f"?device=cpu&prompt_query={QUERY}&prompt_document={DOCUMENT}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("two")
    prompts = {"prompts": {"query": QUERY, "document": DOCUMENT}}
    return write_sentence_transformer(root / "tiny", write_bert(root / "bert"), **prompts)


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return library.SentenceTransformer(str(folder), device="cpu")


def by_hand(model: Any, query: str, document: str) -> dict[str, float]:
    """The metrics in plain loops, of vectors of texts that have the prompts in them."""

    def vectors(prompt: str, texts: dict[str, str]) -> dict[str, np.ndarray]:
        # One by one, and no prompt of the library's own.
        return {key: model.encode(prompt + text, prompt="").astype(np.float64) for key, text in texts.items()}

    asked, found = vectors(query, QUERIES), vectors(document, CORPUS)
    totals = dict.fromkeys((metric.name for metric in METRICS), 0.0)
    for name, answers in QRELS.items():
        cosine = {
            key: float(asked[name] @ vector) / math.hypot(*asked[name]) / math.hypot(*vector)
            for key, vector in found.items()
        }
        order = sorted(cosine, key=lambda key: -round(cosine[key], 6))  # stable: ties stay in the corpus's order
        ranks = [rank for rank, key in enumerate(order, 1) if key in answers]
        best = sum(1 / math.log2(i + 1) for i in range(1, min(10, len(answers)) + 1))
        totals["ndcg_at_10"] += sum(1 / math.log2(rank + 1) for rank in ranks if rank <= 10) / best
        totals["mrr_at_10"] += 1 / ranks[0] if ranks[0] <= 10 else 0
        totals["map_at_100"] += sum(place / rank for place, rank in enumerate(ranks, 1)) / len(answers)
        for k in (1, 10, 100):
            totals[f"recall_at_{k}"] += sum(rank <= k for rank in ranks) / len(answers)
    return {name: 100 * total / len(QRELS) for name, total in totals.items()}


def by_library(model: Any, query: str | None = QUERY, document: str | None = DOCUMENT) -> dict[str, float]:
    """The metrics of sentence-transformers' own evaluator."""
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    evaluator = InformationRetrievalEvaluator(
        QUERIES, CORPUS, QRELS, mrr_at_k=[10], ndcg_at_k=[10], accuracy_at_k=[1], precision_recall_at_k=[1, 10, 100],
        map_at_k=[100], write_csv=False, query_prompt=query, corpus_prompt=document,
    )  # fmt: skip
    scores = evaluator(model)
    names = {
        "ndcg_at_10": "ndcg@10", "recall_at_1": "recall@1", "recall_at_10": "recall@10", "recall_at_100": "recall@100",
        "mrr_at_10": "mrr@10", "map_at_100": "map@100",
    }  # fmt: skip
    return {name: 100 * scores[f"cosine_{theirs}"] for name, theirs in names.items()}


def test_retrieval_is_that_of_plain_loops_and_of_the_library(folder: Path, model: Any, tmp_path: Path) -> None:
    (result,) = evaluate(f"sentence-transformers:{folder}{SPEC}", data=BEIR, cache_dir=tmp_path)
    assert result.metrics == pytest.approx(by_hand(model, QUERY, DOCUMENT), abs=1e-5)
    assert result.metrics == pytest.approx(by_library(model), abs=1e-5)
    for others in ((DOCUMENT, QUERY), (QUERY, QUERY), ("", "")):  # what a mistake would give
        assert result.metrics != pytest.approx(by_hand(model, *others), abs=1e-2)


def test_a_model_of_the_library_has_prompts_of_its_own(folder: Path, model: Any, tmp_path: Path) -> None:
    (result,) = evaluate(model, data=BEIR, cache_dir=tmp_path)
    assert result.sides and result.metrics == pytest.approx(by_library(model, None, None), abs=1e-5)
    assert result.metrics == pytest.approx(by_hand(model, QUERY, DOCUMENT), abs=1e-5)
    pairs = {"faq": list(zip(CORPUS.values(), reversed(CORPUS.values()), strict=True))}
    (plain,) = evaluate(model, data=pairs, cache_dir=tmp_path)
    (same,) = evaluate(f"sentence-transformers:{folder}?device=cpu", data=pairs, cache_dir=tmp_path)
    assert plain.sides is None and plain.metrics == same.metrics  # no prompt is the default of this model
    with pytest.raises(InputError, match="pairs has neither"):
        evaluate(model, data={**pairs, "kb": BEIR}, cache_dir=tmp_path)
    one = library.SentenceTransformer(str(folder), device="cpu", prompts={"query": "", "document": ""})
    both = evaluate(one, data={**pairs, "kb": BEIR}, cache_dir=tmp_path)
    assert [result.sides for result in both] == [None, None]


@pytest.mark.parametrize("kind", ["sentence-transformers", "mean-pooling"])
def test_both_sides_have_one_model(folder: Path, kind: str) -> None:
    where = f"{kind}:{folder}?device=cpu&max_length=12"
    both = load_sides(f"{where}&prompt_document={DOCUMENT}&normalize=true")
    assert isinstance(both, TwoSided)
    assert both.query.model is both.document.model  # type: ignore[attr-defined]
    texts = [*QUERIES.values(), "", *list(CORPUS.values())[:5]]
    for side, prompt in ((both.query, ""), (both.document, DOCUMENT)):
        alone = load_encoder(f"{where}&prompt={prompt}&normalize=true")
        assert side.fingerprint == alone.fingerprint
        np.testing.assert_array_equal(side.encode(texts), alone.encode(texts))


def test_a_prompt_of_the_model_for_one_side(folder: Path) -> None:
    both = load_sides(f"sentence-transformers:{folder}?device=cpu&prompt_name=query&prompt_document=")
    assert isinstance(both, TwoSided)
    assert [side.prompt for side in (both.query, both.document)] == [QUERY, ""]  # type: ignore[attr-defined]
