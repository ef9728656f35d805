"""The option keep_captures: what AOTAutograd made of a function outlives the process.

torch's own cache of AOTAutograd's results finds it, in the folder of programs.
"""

from __future__ import annotations

import contextvars
import functools
import hashlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from . import torch_internals
from .logs import logger
from .options import Options

from . import _C  # isort: skip

__all__ = ["KeptCapture", "kept"]

MakeProgram = Callable[[_C.Graph], Any]

# Makes a program of a graph that was kept, by the options of the function that is being compiled.
_make_program: contextvars.ContextVar[MakeProgram] = contextvars.ContextVar("make_program")
_MOST = 8  # results for one key, which differ in guards


@dataclass
class KeptCapture(torch_internals.OutputCode):
    """What the compiler of one graph returns. graph: its bytes; None where they don't say all."""

    graph: bytes | None = None
    program: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._boxed_call = True

    @classmethod
    def of(cls, compiled: Any) -> KeptCapture:
        is_whole = isinstance(compiled, _C.Program)
        return cls(compiled.graph_bytes() if is_whole else None, compiled)

    def __call__(self, inputs: Any) -> Any:
        return self.program(inputs)

    def prepare_for_serialization(self) -> None:
        if self.graph is None:
            raise torch_internals.NotKept("it is more than one program, or holds tensors")
        self.program = None

    def post_compile(self, *args: Any, **kwargs: Any) -> None:
        """Called for one that was kept."""
        if self.program is None:
            assert self.graph is not None
            self.program = _make_program.get()(_C.Graph.from_bytes(self.graph))
            _C.count_capture()
            logger.info("capture: what AOTAutograd made of it is taken from disk")

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """Nothing of ours is made of Triton's kernels."""


@contextmanager
def kept(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], given: Options, make_program: MakeProgram
) -> Iterator[bool]:
    """A context for the compile of what Dynamo captured: whether it is looked up, and kept.

    Not where gradients may be needed, nor on device="pjrt".
    """
    if not given.keep_captures or given.random != "default" or not given.disk_cache:
        yield False
        return
    needing = [*inputs, *gm.parameters(), *gm.buffers()]
    tensors = [value for value in needing if isinstance(value, torch.Tensor)]
    if any(
        t.device.type == "pjrt" or (torch.is_grad_enabled() and t.requires_grad) for t in tensors
    ):
        yield False
        return
    token = _make_program.set(make_program)
    try:
        with torch_internals.autograd_cache(_Store(), _tag(given, inputs)):
            yield True
    finally:
        _make_program.reset(token)


class _Store:
    """The folder of programs, for one compile."""

    def __init__(self) -> None:
        self._known: list[bytes] = []

    def read(self, key: str) -> list[bytes]:
        content = _C.read_capture(key)
        self._known = [] if content is None else pickle.loads(content)
        return self._known

    def write(self, key: str, result: bytes) -> None:
        """Adds it to those that were read, which didn't fit."""
        _C.write_capture(key, pickle.dumps([*self._known[1 - _MOST :], result]))


def _tag(given: Options, inputs: Sequence[Any]) -> str:
    """What torch's key lacks: that it is this backend with this code, the options that decide what
    becomes a program, and how the inputs lie in memory."""
    parts = (
        _code(),
        given.fallback,
        sorted(given.eager_ops),
        torch.is_inference_mode_enabled(),
        torch_internals.inputs_in_memory(inputs),
    )
    return repr(parts)


@functools.cache
def _code() -> str:
    package = Path(__file__).parent
    content = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        content.update(path.read_bytes())
    content.update(",".join(_C.ops()).encode())  # those without a rule are decomposed
    return f"torch_pjrt {_C.GRAPH_VERSION} {content.hexdigest()}"
