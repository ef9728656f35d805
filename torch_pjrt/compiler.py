"""From a graph that AOTAutograd captured to a function that runs: one program, or several with ops
in eager between them."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch.fx import GraphModule, Node

from . import copies, fx, trial
from .capture_error import CaptureError
from .fallback import Compilers, Fallback, Refused, stitch
from .programs import ProgramMaker
from .torch_internals import EagerOutput
from .warm import not_ahead

from . import _C  # isort: skip

__all__ = ["Constants", "FallbackWarning", "GraphCompiler", "WholeInEager", "whole_in_eager"]

Compiled = Callable[[list[Any]], list[Any]]


class FallbackWarning(UserWarning):
    """Ops run in eager because no program can run them. The message names them and their lines."""


class WholeInEager(Exception):  # noqa: N818  (no error: it is what the user asked for)
    """The function that Dynamo captured is to run in eager."""

    def __init__(self, reason: CaptureError) -> None:
        super().__init__(str(reason))
        self.reason = reason


@dataclass(frozen=True)
class Report:
    """How a graph was compiled. `pieces`: how many ops each program has."""

    gm: GraphModule
    pieces: list[int]
    fallbacks: list[Fallback]


# Called with what each graph became.
observers: list[Callable[[Report], None]] = []


@dataclass(frozen=True)
class GraphCompiler:
    """`fallback` and `eager_ops` as in Options."""

    make_program: ProgramMaker
    fallback: str
    eager_ops: frozenset[str]

    def with_eager_ops(self, ops: frozenset[str], reason: CaptureError) -> GraphCompiler:
        """One for which these ops too are such. Raises `reason` if there is to be no fallback."""
        if self.fallback == "error":
            raise reason
        return replace(self, eager_ops=self.eager_ops | ops)

    def of_backward(self) -> GraphCompiler:
        """One for graphs whose forward has run: too late to run it all in eager."""
        return replace(self, fallback="partition") if self.fallback == "eager" else self

    def compile(
        self, gm: GraphModule, names: list[str], outputs: list[EagerOutput | None] | None
    ) -> Compiled:
        """`names` and `outputs` as in fx.capture. Raises Error (unsupported) if there is to be no
        fallback, and WholeInEager."""
        refused: dict[Node, CaptureError] = {}
        try:
            self._check_ops(gm)
            compiled = self._one_program(gm, names, outputs)
            _observe(Report(gm, [_count_ops(gm)], []))
            return compiled
        except Refused as found:
            refused[found.node] = found.error
            error = found.error
        except CaptureError as found:
            if found.code != "unsupported":
                raise
            error = found
        if self.fallback == "error":
            raise error
        if self.fallback == "eager":
            raise WholeInEager(error) from error
        refused |= trial.refusals(gm, self.eager_ops)
        stitched = stitch(gm, names, outputs, Compilers(self._piece, self._region), refused)
        _warn(stitched.fallbacks, len(stitched.pieces))
        _observe(Report(gm, stitched.pieces, stitched.fallbacks))
        ops = ", ".join(dict.fromkeys(fallback.op for fallback in stitched.fallbacks))
        return not_ahead(stitched.call, ops)

    def check(self, gm: GraphModule) -> None:
        """Raises WholeInEager for a graph that isn't one program, before it is compiled."""
        try:
            self._check_ops(gm)
            self._check(fx.capture(gm, [], None))
        except Refused as found:
            raise WholeInEager(found.error) from found
        except CaptureError as found:
            raise WholeInEager(found) from found

    def _check_ops(self, gm: GraphModule) -> None:
        if self.eager_ops:
            for error in trial.refusals(gm, self.eager_ops).values():
                raise error

    def _piece(self, gm: GraphModule, names: list[str]) -> Compiled:
        return self._one_program(gm, names, None)

    def _region(self, gm: GraphModule) -> Compiled:
        return self.compile(gm, [], None)

    def _one_program(
        self, gm: GraphModule, names: list[str], outputs: list[EagerOutput | None] | None
    ) -> Compiled:
        captured = fx.capture(gm, names, outputs)
        if self.fallback != "error":
            self._check(captured)
        program: Compiled = self.make_program(captured.graph, captured.on_device)
        return Constants(program, captured.constants) if captured.constants else program

    def _check(self, captured: fx.Captured) -> None:
        """Raises Refused for a node that its rule refuses: at a call it would be too late, since an
        earlier piece has run."""
        found = _C.refusal(captured.graph)
        if found is not None:
            index, message = found
            raise Refused(captured.nodes[index], CaptureError("unsupported", message))


class Constants:
    """A program with the tensors that its graph holds as last arguments."""

    def __init__(self, program: Compiled, constants: list[Any]) -> None:
        self.program = program
        self.constants = constants

    def __call__(self, arguments: list[Any]) -> list[Any]:
        arguments.extend(self.constants)
        return self.program(arguments)


def _count_ops(gm: GraphModule) -> int:
    return sum(node.op == "call_function" for node in gm.graph.nodes)


def _observe(report: Report) -> None:
    for observer in observers:
        observer(report)


def whole_in_eager(gm: GraphModule, reason: CaptureError) -> Callable[..., Any]:
    """What Dynamo captured, as it is in eager."""
    warnings.warn(
        f"this function runs in eager as a whole, as options fallback says: {reason}",
        FallbackWarning,
        stacklevel=copies.users_frame(),
    )
    _observe(Report(gm, [], []))
    ops = _count_ops(gm)

    def call(*arguments: Any) -> Any:
        _C.count_fallbacks(ops)
        return gm(*arguments)

    return not_ahead(call, str(reason).splitlines()[0])


_SHOWN = 8  # lines in a message


def _warn(fallbacks: list[Fallback], pieces: int) -> None:
    refused = Counter((f.op, f.source) for f in fallbacks if f.why is not None)
    lines = [
        f"{op}{f' ({count} times)' if count > 1 else ''}{f' at {source}' if source else ''}"
        for (op, source), count in refused.items()
    ]
    if len(lines) > _SHOWN:
        lines[_SHOWN:] = [f"and {len(lines) - _SHOWN} more"]
    if lines:
        programs = f"{pieces} program{'' if pieces == 1 else 's'}"
        warnings.warn(
            f"a part of this function runs in eager, between {programs}, since these ops can't be "
            "compiled:\n  " + "\n  ".join(lines) + "\n"
            '  remedy: none that is needed: the results are right. options={"fallback": "error"} '
            "makes it an error that says why",
            FallbackWarning,
            stacklevel=copies.users_frame(),
        )
