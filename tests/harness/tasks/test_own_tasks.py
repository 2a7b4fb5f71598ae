"""The tasks of the user's own data, against plain loops and other people's evaluators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.data.beir import Retrieval
from harness.data.own import OwnPairs
from harness.mining import counterpart_ranks, nearest, nearest_forward
from harness.tasks import get_task
from harness.tasks.retrieval import query_metrics

Matrix = list[list[float]]


def cosines(x: np.ndarray, y: np.ndarray) -> Matrix:
    """In plain Python, of vectors that are scaled to length 1 in float32, as the reference similarity has it."""

    def unit(row: Sequence[float]) -> list[float]:
        norm = math.sqrt(math.fsum(v * v for v in row))
        return [float(np.float32(v / norm)) if norm else 0.0 for v in row]

    first, second = map(unit, x.tolist()), list(map(unit, y.tolist()))
    return [[round(math.fsum(v * w for v, w in zip(a, b, strict=True)), 11) for b in second] for a in first]


def ranked(similarities: Sequence[float]) -> list[int]:
    """Columns, best first; ties by column."""
    return sorted(range(len(similarities)), key=lambda column: (-similarities[column], column))


# Small whole numbers: many equal vectors, zero vectors and ties.
vectors = st.integers(2, 12).flatmap(
    lambda n: st.tuples(*[
        st.lists(st.lists(st.integers(-1, 2), min_size=3, max_size=3), min_size=n, max_size=n) for _ in range(2)
    ])
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(vectors)
def test_ranks_and_xsim_are_those_of_plain_loops(drawn: tuple[Matrix, Matrix]) -> None:
    x, y = (np.array(side, np.float32) for side in drawn)
    task = get_task("pairs")
    sides = {"x": x, "y": y}
    rows = task.rows(OwnPairs(["x"] * len(x), ["y"] * len(y), ("de", "tr")), lambda texts, lang: sides[texts[0]])
    scores = task.aggregate(rows)
    table = cosines(x, y)
    for direction, similarities in (
        ("src_trg", table),
        ("trg_src", [list(column) for column in zip(*table, strict=True)]),
    ):
        orders = [ranked(row) for row in similarities]
        ranks = [order.index(item) + 1 for item, order in enumerate(orders)]
        assert scores[f"accuracy_{direction}"] == pytest.approx(100 * sum(rank == 1 for rank in ranks) / len(ranks))
        assert scores[f"mrr_{direction}"] == pytest.approx(100 * sum(1 / rank for rank in ranks) / len(ranks))
        assert scores[f"xsim_{direction}"] == pytest.approx(xsim(similarities))


def xsim(table: Matrix, k: int = 4) -> float:
    """LASER's xsim with the ratio margin: the share of rows whose best candidate by margin is another row's."""
    columns = [list(column) for column in zip(*table, strict=True)]
    mean_of_row = [sum(sorted(row)[-k:]) / min(k, len(row)) for row in table]
    mean_of_column = [sum(sorted(column)[-k:]) / min(k, len(column)) for column in columns]
    errors = 0
    for item, row in enumerate(table):
        best: tuple[float, int] | None = None
        for candidate in ranked(row)[:k]:
            mean = (mean_of_row[item] + mean_of_column[candidate]) / 2
            # Two means that cancel out but for rounding: any score may come out.
            assume(abs(mean) > 1e-9 or not (mean_of_row[item] or mean_of_column[candidate]))
            score = row[candidate] / mean if mean else 0.0
            if best is None or score > best[0] + 1e-9:
                best = score, candidate
        errors += best is None or best[1] != item
    return 100 * errors / len(table)


def test_ranks_do_not_depend_on_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(2, 70, 8)).astype(np.float32)
    y[10:30] = y[0]
    whole = counterpart_ranks(x, y)
    monkeypatch.setattr("harness.mining.neighbours.AT_ONCE", 500)
    assert all((a == b).all() for a, b in zip(whole, counterpart_ranks(x, y), strict=True))
    found = nearest(x, y, k=1)
    assert all(((ranks == 1) == (of.rows[:, 0] == np.arange(70))).all() for ranks, of in zip(whole, found, strict=True))


def test_forward_search_is_one_half_of_the_whole() -> None:
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=(30, 8)).astype(np.float32), generator.normal(size=(5000, 8)).astype(np.float32)
    y[100:400] = y[7]
    whole, _ = nearest(x, y, k=101)
    forward = nearest_forward(x, y, 101)
    assert (forward.rows == whole.rows).all() and (forward.similarity == whole.similarity).all()


def collection(*, graded: bool) -> tuple[Retrieval, np.ndarray, np.ndarray]:
    """40 queries, 300 documents: one to six right ones a query, some of which are near it."""
    generator = np.random.default_rng(2)
    queries = generator.normal(size=(40, 16)).astype(np.float32)
    documents = generator.normal(size=(300, 16)).astype(np.float32)
    answers = []
    for query in range(40):
        right = generator.choice(300, generator.integers(1, 7), replace=False)
        documents[right[::2]] = queries[query] + generator.normal(size=(len(right[::2]), 16)) * 0.7
        answers.append({int(row): int(generator.integers(1, 4)) if graded else 1 for row in right})
    texts = [f"q{i}" for i in range(40)], [f"d{i}" for i in range(300)]
    return Retrieval(*texts, answers, [-1] * 40, ("de", "tr"), 0), queries, documents


def measured(items: Retrieval, queries: np.ndarray, documents: np.ndarray) -> dict[str, float]:
    task = get_task("retrieval")
    encode: Callable[..., np.ndarray] = lambda texts, lang: queries if lang == "de" else documents  # noqa: E731
    return task.aggregate(task.rows(items, encode))


def test_graded_answers_as_ir_measures_has_them() -> None:
    ir_measures = pytest.importorskip("ir_measures")
    items, queries, documents = collection(graded=True)
    scores = measured(items, queries, documents)
    table = cosines(queries, documents)
    qrels = {f"q{i}": {f"d{row}": grade for row, grade in of.items()} for i, of in enumerate(items.answers)}
    run = {f"q{i}": {f"d{row}": 1000.0 - rank for rank, row in enumerate(ranked(of))} for i, of in enumerate(table)}
    names = {
        "ndcg_at_10": "nDCG@10", "recall_at_1": "R@1", "recall_at_10": "R@10", "recall_at_100": "R@100",
        "mrr_at_10": "RR@10", "map_at_100": "AP@100",
    }  # fmt: skip
    expected = ir_measures.calc_aggregate(list(map(ir_measures.parse_measure, names.values())), qrels, run)
    for metric, name in names.items():
        assert scores[metric] == pytest.approx(100 * expected[ir_measures.parse_measure(name)], abs=1e-6), metric


def test_answers_without_grades_as_sentence_transformers_has_them(tmp_path: Path) -> None:
    evaluation = pytest.importorskip("sentence_transformers.sentence_transformer.evaluation")
    items, queries, documents = collection(graded=False)
    scores = measured(items, queries, documents)
    evaluator = evaluation.InformationRetrievalEvaluator(
        {f"q{i}": text for i, text in enumerate(items.queries)},
        {f"d{i}": text for i, text in enumerate(items.documents)},
        {f"q{i}": {f"d{row}" for row in of} for i, of in enumerate(items.answers)},
        mrr_at_k=[10], ndcg_at_k=[10], accuracy_at_k=[1], precision_recall_at_k=[1, 10, 100], map_at_k=[100],
        write_csv=False,
    )  # fmt: skip
    import torch

    tables = {"q": torch.tensor(queries), "d": torch.tensor(documents)}

    class Model:
        similarity_fn_name, model_card_data = "cosine", None

        def encode(self, texts: Sequence[str], **options: object) -> torch.Tensor:
            return torch.stack([tables[text[0]][int(text[1:])] for text in texts])

        encode_query = encode_document = encode

        def similarity(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.cosine_similarity(a[:, None], b[None], dim=2)

    evaluator.score_functions = {"cosine": Model().similarity}
    evaluator.score_function_names = ["cosine"]
    expected = evaluator.compute_metrices(Model())["cosine"]
    assert scores["mrr_at_10"] == pytest.approx(100 * expected["mrr@k"][10], abs=1e-6)
    assert scores["ndcg_at_10"] == pytest.approx(100 * expected["ndcg@k"][10], abs=1e-6)
    assert scores["map_at_100"] == pytest.approx(100 * expected["map@k"][100], abs=1e-6)
    for k in (1, 10, 100):
        assert scores[f"recall_at_{k}"] == pytest.approx(100 * expected["recall@k"][k], abs=1e-6)


def test_a_document_with_the_id_of_the_query_is_not_its_answer() -> None:
    queries = np.eye(3, dtype=np.float32)
    documents = np.concatenate([queries, queries * 2 + 0.1])  # the first three are the queries themselves
    answers = [{row + 3: 1} for row in range(3)]
    texts = list("abc"), list("abcdef")
    dropped = measured(Retrieval(*texts, answers, [0, 1, 2], ("de", "tr"), 0), queries, documents)
    kept = measured(Retrieval(*texts, answers, [-1, -1, -1], ("de", "tr"), 0), queries, documents)
    assert dropped["mrr_at_10"] == 100 and kept["mrr_at_10"] == 50


def test_answers_that_are_not_found_count_as_nothing() -> None:
    assert set(query_metrics([5, 6, 7], {1: 2, 2: 1}).values()) == {0.0}
    assert query_metrics([], {1: 1})["map_at_100"] == 0
    one = query_metrics([9, 1], {1: 3, 2: 1})
    assert one["mrr_at_10"] == 0.5 and one["recall_at_10"] == 0.5 and one["map_at_100"] == 0.25
    assert one["ndcg_at_10"] == pytest.approx((3 / math.log2(3)) / (3 + 1 / math.log2(3)))
