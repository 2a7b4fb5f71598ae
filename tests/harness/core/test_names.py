"""Names of subsets: their parts, and back."""

from __future__ import annotations

import pytest

from harness.core.names import Subset


@pytest.mark.parametrize(
    ("name", "base", "tag", "is_sample"),
    [
        ("en-de", "en-de", "", False),
        ("en-de@deepl", "en-de", "@deepl", False),
        ("avg-cross@sample", "avg-cross", "@sample", True),
        ("en-de@samples", "en-de", "@samples", False),
        ("en-de@", "en-de", "@", False),
        ("a@b@sample", "a", "@b@sample", False),
    ],
)
def test_a_name_has_a_base_and_a_tag(name: str, base: str, tag: str, is_sample: bool) -> None:
    subset = Subset.parse(name)
    assert (subset.base, subset.tag, subset.is_sample, str(subset)) == (base, tag, is_sample, name)
