"""Errors raised in Python; the same type as the C++ core's."""

from __future__ import annotations

from types import FrameType
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
        self.first_useful_frame: FrameType | None = None
        self.real_stack = None

    def hide_dynamo(self) -> None:
        """Makes Dynamo show, of the frames below the user's, only the one where it was raised.

        TORCHDYNAMO_VERBOSE=1 shows all, and so does an error that is a fault of ours.
        """
        trace = self.__traceback__
        if trace is None or self.code == "internal":
            return
        while trace.tb_next is not None:
            trace = trace.tb_next
        self.first_useful_frame = trace.tb_frame


def failure(code: Code, *, what: str, remedy: str, **facts: str) -> CaptureError:
    """An error whose message says what is wrong, the facts (a line each) and what to do."""
    lines = [what, *(f"  {name.replace('_', ' ')}: {text}" for name, text in facts.items() if text)]
    return CaptureError(code, "\n".join([*lines, f"  remedy: {remedy}"]))
