"""Encoders with one prompt for queries and another one for documents: opened, refused, reduced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from encoders import Counting, Letters
from prompted import offered

from harness.core.errors import InputError
from harness.encoders.cache import VectorCache
from harness.encoders.encoder import Encoder
from harness.encoders.reduction import Reduction
from harness.encoders.registry import check_spec, load_encoder, load_sides
from harness.encoders.sides import AnyEncoder, Sides, TwoSided, by_side, each_side, joined, side_of
from harness.encoders.variant import Variant


@pytest.fixture(autouse=True)
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with offered(tmp_path_factory.mktemp("package")):
        yield


def prompts(encoder: AnyEncoder) -> list[str]:
    return [each.fingerprint.partition("prompt:")[2] for each in by_side(encoder).values()]


@pytest.mark.parametrize("kind", ["prompted", "sharing"])
def test_a_spec_with_prompts_opens_as_two_encoders(kind: str) -> None:
    both = load_sides(f"{kind}?prompt_query=q: &prompt_document=d: &name=x")
    assert isinstance(both, TwoSided) and prompts(both) == ["q: ", "d: "]
    assert (both.name, both.query.name, both.document.name, both.dim) == ("x", "x", "x", 32)
    of_query, of_document = (load_encoder(f"{kind}?prompt={p}") for p in ("q: ", "d: "))
    texts = ["haus", "", "tree"]
    for side, alone in ((both.query, of_query), (both.document, of_document)):
        assert side.fingerprint == alone.fingerprint
        np.testing.assert_array_equal(side.encode(texts), alone.encode(texts))
    assert not (both.query.encode(texts) == both.document.encode(texts)).all()


@pytest.mark.parametrize("kind", ["prompted", "sharing"])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("prompt_query=q", ["q", "own: "]),
        ("prompt_document=d", ["own: ", "d"]),
        ("prompt_document=d&prompt=p", ["p", "d"]),
        ("prompt_query=&prompt=p", ["", "p"]),
        ("prompt_query=same&prompt_document=same", ["same"]),
        ("prompt_query=own: ", ["own: "]),
    ],
)
def test_where_one_is_given_the_other_side_keeps_its_own(kind: str, options: str, expected: list[str]) -> None:
    encoder = load_sides(f"{kind}?{options}")
    assert prompts(encoder) == expected
    assert isinstance(encoder, TwoSided) == (len(expected) == 2)


def test_the_prompt_of_an_alias_is_its_own() -> None:
    assert prompts(load_sides("alias?prompt_document=d")) == ["alias: ", "d"]
    assert prompts(load_sides("alias?prompt_query=alias: ")) == ["alias: "]


def test_weights_are_loaded_once_where_the_encoder_shares_them() -> None:
    for kind, times in (("sharing", 1), ("prompted", 2)):
        encoder = load_sides(f"{kind}?prompt_query=q&prompt_document=d")
        assert isinstance(encoder, TwoSided)
        made = type(encoder.query).made  # type: ignore[attr-defined]
        assert len(made) == times
        made.clear()


@pytest.mark.parametrize("kind", ["plain", "anything"])
@pytest.mark.parametrize("option", ["prompt_query", "prompt_document"])
def test_an_encoder_without_prompts_refuses_them(kind: str, option: str) -> None:
    with pytest.raises(InputError, match=f"encoder '{kind}' has no option prompt, and so no {option}; leave it out"):
        check_spec(f"{kind}?{option}=x")


def test_a_factory_that_names_the_option_has_it_to_itself() -> None:
    assert prompts(load_sides("its-own?prompt_query=mine")) == ["mine"]


def test_what_encodes_all_texts_alike_cannot_have_two_sides() -> None:
    with pytest.raises(InputError, match=r"one prompt for queries and another one for documents; give one prompt="):
        load_encoder("prompted?prompt_query=q")
    assert load_encoder("prompted?prompt_query=own: ").name == "prompted"


def test_options_of_all_encoders_work_on_both_sides() -> None:
    both = load_sides("prompted?prompt_query=q&truncate_dim=8&quantize=int8&normalize=true")
    assert isinstance(both, TwoSided) and both.name == "prompted@8-int8" and both.dim == 8
    texts = ["ein haus", "a tree", "q"]
    for side, prompt in ((both.query, "q"), (both.document, "own: ")):
        alone = load_encoder(f"prompted?prompt={prompt}&truncate_dim=8&quantize=int8&normalize=true")
        assert side.fingerprint == alone.fingerprint
        np.testing.assert_array_equal(side.encode(texts), alone.encode(texts))
    full = load_sides("prompted?prompt_query=q&normalize=true")
    again = each_side(full, lambda encoder: Variant(encoder, Reduction(8, "int8")))
    assert (again.name, again.fingerprint) == (both.name, both.fingerprint)


def test_each_side_has_its_own_vectors_in_the_cache(tmp_path: Path) -> None:
    both = load_sides("prompted?prompt_query=q&prompt_document=d")
    assert isinstance(both, TwoSided)
    cache = VectorCache(tmp_path)
    for side in (both.query, both.document, both.query):
        with cache.of(side) as vectors:
            np.testing.assert_array_equal(vectors.encode(["haus"]).vectors, side.encode(["haus"]))
    assert sorted(cache.fingerprints()) == sorted([both.query.fingerprint, both.document.fingerprint])
    assert len({f for f in cache.fingerprints()}) == 2


class Short(Letters):
    dim = 5


def test_sides_are_compared_so_their_vectors_are_of_one_length() -> None:
    with pytest.raises(InputError, match="letters: queries have 32 dimensions and documents 5"):
        TwoSided(Letters(), Short())


def test_fingerprints() -> None:
    first, second = Counting("a"), Counting("b")
    both: AnyEncoder = joined(first, second)
    assert isinstance(both, TwoSided) and both.sides == Sides("a", "b")
    prints = [Sides(*pair).fingerprint for pair in (("a", "b"), ("b", "a"), ("a", "c"), ("", "ab"), ("ab", ""))]
    assert both.fingerprint == prints[0] and len(set(prints)) == 5
    same: Encoder = Counting("a")
    assert joined(first, same) is first and not isinstance(both, Encoder)


def test_a_task_has_to_name_the_side() -> None:
    both = TwoSided(Counting("a"), Counting("b"))
    assert [side_of(both, "query"), side_of(both, "document"), side_of(both.query, "document")] == [
        "query", "document", None
    ]  # fmt: skip
    sides: Sequence[object] = (None, "queries")
    for side in sides:
        with pytest.raises(ValueError, match="names query or document"):
            side_of(both, side)  # type: ignore[arg-type]
