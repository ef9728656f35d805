"""The error that Dynamo passes on to the user as it is."""

from __future__ import annotations

from types import FrameType

from .torch_internals import ShortenTraceback, UnsuppressedError

from ._C import Error  # isort: skip  (after torch, whose libraries it needs)

__all__ = ["CaptureError", "NotCompiledError"]


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


class NotCompiledError(CaptureError, UnsuppressedError):
    """A capture where that isn't allowed, which Dynamo must not turn into a run in eager."""
