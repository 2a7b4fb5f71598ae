"""Multilingual knowledge distillation (Reimers and Gurevych 2020): the training tool, and the student that ships."""

from __future__ import annotations

from typing import Any

__all__ = ["distill"]


def __getattr__(name: str) -> Any:
    """`distill.distill`, imported when it is asked for: the command line starts without it."""
    if name == "distill":
        from distill.distillation import distill

        return distill
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
