"""Which licences the model card warns of."""

from __future__ import annotations

import pytest

from distill.report import _is_restricted


@pytest.mark.parametrize(
    ("licence", "is_restricted"),
    [
        ("CC BY-NC 4.0 (XNLI)", True),
        ("research use; Flickr30K captions, non-commercial education", True),
        ("free (non-commercial research only)", True),
        ("none stated; free for research", True),
        ("CC BY 3.0/4.0 (African Storybook; stories marked CC-BY-NC left out)", False),
        ("CC BY 2.0 FR (Tatoeba)", False),
        ("", False),
    ],
)
def test_what_forbids_commercial_use(licence: str, is_restricted: bool) -> None:
    assert _is_restricted(licence) is is_restricted
