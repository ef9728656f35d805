"""Errors raised in Python; the same type as the C++ core's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch  # noqa: F401  (the core needs its libraries)

from ._C import Error, OutOfMemoryError  # isort: skip  (after torch)

if TYPE_CHECKING:
    from .capture_error import CaptureError

__all__ = ["Code", "Error", "OutOfMemoryError", "failure"]

Code = Literal[
    "unsupported", "invalid", "plugin", "out_of_memory", "io", "not_compiled", "internal"
]


def failure(code: Code, *, what: str, remedy: str, **facts: str) -> CaptureError:
    """An error whose message says what is wrong, the facts (a line each) and what to do."""
    from .capture_error import CaptureError  # which loads Dynamo: a process may do without

    lines = [what, *(f"  {name.replace('_', ' ')}: {text}" for name, text in facts.items() if text)]
    return CaptureError(code, "\n".join([*lines, f"  remedy: {remedy}"]))
