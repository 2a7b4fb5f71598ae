from __future__ import annotations

import pytest


@pytest.fixture(params=["numpy", "float32", "bfloat16"])
def backend(request: pytest.FixtureRequest) -> str:
    """An exact backend that this machine has."""
    for package in {"numpy": [], "float32": ["numba"], "bfloat16": ["numba", "torch"]}[request.param]:
        pytest.importorskip(package)
    return request.param
