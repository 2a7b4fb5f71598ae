"""Which licences the model card warns of; and what others named it, which is text on every page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hostile import HOSTILE, harmless, hidden, markdown_shape

pytest.importorskip("torch")  # of the grid's losses

from distill import report
from distill.experiments import ablation_page
from distill.experiments.grid import Column, Grid, Row, Score, Settings, Table
from distill.report import Effort, Trained, UsedCorpus, _is_restricted
from harness.core.errors import InputError
from harness.core.provenance import GitState


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


def _trained(text: str) -> Trained:
    corpus = UsedCorpus(text, text, 10, 1.0, {text: 1}, f"CC BY-NC {text}")
    scores = {"step": 0.0, "mse": 1.0, f"mse:{text}": 1.0}
    settings = {"student": text, "teacher": text, "loss": text, "batch_size": 1, text: text}
    versions, git = {text: text}, GitState(text, True)
    return Trained(settings, {text: text}, [corpus], {text: 1}, 0, 1, 0, [scores], [(0, 1.0)], versions, git)


def _pages(text: str) -> list[str]:
    """Report and model card of a distillation."""
    trained = _trained(text)
    effort = Effort(1.0, 0.5, 10, {text: text})
    return [report.training_report(text, text, trained, effort), report.model_card(text, text, trained)]


def test_names_are_text() -> None:
    for hostile, twin in zip(HOSTILE.values(), harmless().values(), strict=True):
        for page, expected in zip(_pages(hostile), _pages(twin), strict=True):
            assert not hidden(page)
            page, expected = (re.sub("^---\n.*?\n---\n", "", text, flags=re.DOTALL) for text in (page, expected))
            assert markdown_shape(page) == markdown_shape(expected)  # behind the hub's metadata, which are YAML


def _grid_page(folder: Path, texts: Mapping[str, str], table: str = "made") -> str:
    """The page of a grid of which every text is one of these."""
    text = "\n".join(texts.values())
    settings, score = Settings(student=text), Score("sts17", "en-en", "spearman")
    rows = [Row(name=name) for name in texts.values()]
    columns = [Column(title=text, score=str(score))]
    tables = [Table(name=table, title=text, columns=columns, rows=rows, student=text)]
    grid = Grid(name=text, teacher=text, seeds=(1,), tables=tables)
    run = ablation_page.Run(
        settings, 1, "", "", 10, 1, 1, {"sts17/en-en/spearman": 1.0}, 1.0, {"processor": text}, {}, None
    )
    scores = {settings: {score: score}}
    ablation_page.write_page(folder, grid, scores, [run], [f"{text}.de"])
    return (folder / ablation_page.PAGE_FILE).read_text()


def test_the_page_of_a_grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ablation_page, "_picture", lambda *_: "")
    page = _grid_page(tmp_path, HOSTILE)
    assert markdown_shape(page) == markdown_shape(_grid_page(tmp_path, harmless())) and not hidden(page)
    with pytest.raises(InputError, match=r"table name '.*' cannot name a folder"):
        _grid_page(tmp_path, HOSTILE, "../escaped")
