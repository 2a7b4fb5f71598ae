"""What is said of nodes that differ; the nodes of a real cluster: `test_ray.py`."""

from __future__ import annotations

import pytest

from harness.engine import check
from harness.engine.check import Node, differences

HERE = {"python": "3.11.7", "numpy": "2.4.6"}


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "_tell", lambda _: ("", "AMD", HERE))


def test_nodes_that_agree_have_nothing_to_say() -> None:
    assert differences([Node("a", 8, 0, "", "AMD", HERE), Node("b", 8, 0, "", "AMD", dict(HERE))]) == []


def test_there_is_a_line_for_each_difference() -> None:
    nodes = [
        Node("a", 8, 2, "H100", "AMD", HERE),
        Node("b", 8, 2, "H200", "Intel", {"python": "3.11.7", "numpy": "2.4.5", "torch": "2.13.0"}),
        Node("c", 8, 0, "none of Ray's", "AMD", {"python": "3.11.7"}),
        Node("d", 8, 0, error="gives no answer in 60 seconds"),
    ]
    assert differences(nodes) == [
        "d: gives no answer in 60 seconds",
        "b: numpy 2.4.5, here 2.4.6",
        "b: torch 2.13.0, here not installed",
        "c: numpy not installed, here 2.4.6",
        "processors differ (AMD; Intel): vectors are equal but for rounding",
        "GPUs differ (H100; H200): vectors are equal but for rounding",
    ]
