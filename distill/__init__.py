"""Multilingual knowledge distillation (Reimers and Gurevych 2020): the training tool, and the student that ships."""

from __future__ import annotations

from typing import Any

__all__ = ["distill"]


def __getattr__(name: str) -> Any:
    """`distill.distill`. It is imported only when it is used, so that the command line starts quickly."""
    if name == "distill":
        from distill.distillation import distill

        return distill
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
