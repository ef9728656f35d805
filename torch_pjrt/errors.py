"""Errors raised in Python; the same type as the C++ core's."""

from __future__ import annotations

from typing import Literal

from .torch_internals import ShortenTraceback

from ._C import Error, OutOfMemoryError  # isort: skip  (after torch, whose libraries it needs)

__all__ = ["CaptureError", "Code", "Error", "OutOfMemoryError", "failure"]

Code = Literal["unsupported", "invalid", "plugin", "out_of_memory", "io", "internal"]


class CaptureError(Error, ShortenTraceback):
    """An Error found while a graph is captured.

    Dynamo passes a ShortenTraceback to the user as it is, less its own frames; any other exception
    would arrive wrapped in another type.
    """

    def __init__(self, code: str, message: str) -> None:
        RuntimeError.__init__(self, message)
        self.code = code
        self.msg = message
        self.first_useful_frame = None
        self.real_stack = None


def failure(code: Code, *, what: str, remedy: str, **facts: str) -> CaptureError:
    """An error whose message says what is wrong, the facts (a line each) and what to do."""
    lines = [what, *(f"  {name.replace('_', ' ')}: {text}" for name, text in facts.items() if text)]
    return CaptureError(code, "\n".join([*lines, f"  remedy: {remedy}"]))
