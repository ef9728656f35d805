"""What AOTAutograd made of a function, where it outlives the process: by the option keep_captures,
and in a file of torch's own, from aot_compile(...).save_compiled_function.

With the option, torch's own cache of AOTAutograd's results finds it, in the folder of programs.
"""

from __future__ import annotations

import contextvars
import functools
import hashlib
import inspect
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from . import copies, logs, torch_internals
from .compiler import Constants
from .errors import failure
from .logs import logger
from .options import Options
from .programs import ProgramMaker

from . import _C  # isort: skip

__all__ = ["Keep", "KeptCapture", "keeping"]

Compiler = Callable[..., Any]

# Makes the programs of the function that is being compiled, by its options.
_maker: contextvars.ContextVar[ProgramMaker | None] = contextvars.ContextVar("maker", default=None)
_MOST = 8  # results for one key, which differ in guards


@dataclass
class KeptCapture(torch_internals.OutputCode):
    """What the compiler of one graph returns. graph: its bytes, None where they don't say all.
    constants: its last inputs. maker: of its program, unless one is compiled that this is for."""

    maker: ProgramMaker
    graph: bytes | None = None
    constants: list[torch.Tensor] = field(default_factory=list)
    on_device: bool = False
    call: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._boxed_call = True

    @classmethod
    def of(cls, compiled: Any, maker: ProgramMaker) -> KeptCapture:
        inner: Any = inspect.unwrap(compiled)
        constants = []
        if isinstance(inner, Constants):
            constants, inner = inner.constants, inner.program
        if not isinstance(inner, _C.Program):
            return cls(maker, call=compiled)
        return cls(maker, inner.graph_bytes(), constants, inner.on_device, compiled)

    def __call__(self, inputs: Any) -> Any:
        return self.call(inputs)

    def prepare_for_serialization(self) -> None:
        if self.graph is None:
            raise torch_internals.NotKept("it is more than one program, or draws on the host")
        self.call = None

    def post_compile(self, *args: Any, **kwargs: Any) -> None:
        """Called for one that was kept."""
        if self.call is None:
            assert self.graph is not None
            logs.connect()
            _C.set_copy_report(copies.warn)
            maker = _maker.get() or self.maker
            program = maker(_C.Graph.from_bytes(self.graph), self.on_device)
            self.call = Constants(program, self.constants) if self.constants else program
            _C.count_capture()
            logger.info("capture: what AOTAutograd made of it is taken from disk")

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """Nothing of ours is made of Triton's kernels."""


@dataclass(frozen=True)
class Keep:
    """Which of a function's compilers return a KeptCapture, whose program the maker makes."""

    has_inference: bool = False
    has_training: bool = False
    is_asked: bool = False  # by the user, for this function: one that can't be kept is an error

    def inference(self, compiler: Compiler, maker: ProgramMaker) -> Compiler:
        return self._keeping(compiler, maker) if self.has_inference else compiler

    def training(self, compiler: Compiler, maker: ProgramMaker) -> Compiler:
        """Of a forward or a backward."""
        if self.has_training:
            return self._keeping(compiler, maker)
        return torch_internals.keepable(compiler) if self.has_inference else compiler

    def _keeping(self, compiler: Compiler, maker: ProgramMaker) -> Compiler:
        def compile_kept(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> KeptCapture:
            found = KeptCapture.of(compiler(gm, inputs), maker)
            if self.is_asked and found.graph is None:
                raise failure(
                    "unsupported",
                    what="a compiled function that is saved has to be one program; this one runs "
                    "ops in eager between programs, or draws on the host",
                    remedy="call torch_pjrt.explain(function, *args) to see which; compile it "
                    "without aot_compile to run it so",
                    function=maker.origin.function,
                )
            return found

        return torch_internals.keepable(compile_kept)


@contextmanager
def keeping(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], given: Options, maker: ProgramMaker
) -> Iterator[Keep]:
    """A context for the compile of what Dynamo captured.

    With keep_captures it is looked up, and kept: not where gradients may be needed, nor on
    device="pjrt".
    """
    if torch_internals.is_to_be_saved():
        with torch_internals.stored_nowhere():
            yield Keep(has_inference=True, has_training=True, is_asked=True)
        return
    if not given.keep_captures or given.random != "default" or not given.disk_cache:
        yield Keep()
        return
    needing = [*inputs, *gm.parameters(), *gm.buffers()]
    tensors = [value for value in needing if isinstance(value, torch.Tensor)]
    if any(
        t.device.type == "pjrt" or (torch.is_grad_enabled() and t.requires_grad) for t in tensors
    ):
        yield Keep()
        return
    token = _maker.set(maker)
    try:
        with torch_internals.autograd_cache(_Store(), _tag(given, inputs)):
            yield Keep(has_inference=True)
    finally:
        _maker.reset(token)


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
