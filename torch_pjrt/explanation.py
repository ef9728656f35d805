"""torch_pjrt.explain: what becomes of a model, and what keeps it from being one program."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from . import backend, compiler, torch_internals
from .fallback import Fallback
from .logs import logger
from .sources import function_of

__all__ = ["Break", "Explanation", "GraphReport", "ProgramReport", "explain"]


@dataclass(frozen=True)
class Break:
    """Where Dynamo ended a graph before the function's end. `source`: the user's line."""

    reason: str
    source: str


@dataclass(frozen=True)
class GraphReport:
    """A captured graph. `source`: where its function starts. `pieces`: how many ops each of its
    programs has; `fallbacks`: what runs in eager between them."""

    source: str
    ops: int
    pieces: list[int]
    fallbacks: list[Fallback]


@dataclass(frozen=True)
class ProgramReport:
    """A program that was compiled or loaded, in the order of the first calls. `bytes`: of its
    StableHLO text; 0 and no times where it was loaded."""

    nodes: int
    bytes: int
    lower_ms: int | None
    compile_ms: int | None


@dataclass
class Explanation:
    """What `explain` found; `str()` of it is a text for people."""

    graphs: list[GraphReport] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)
    programs: list[ProgramReport] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"{_count(len(self.graphs), 'graph')}, {_count(len(self.breaks), 'break')}, "
            f"{_count(len(self.programs), 'program')} compiled or loaded"
        ]
        for number, graph in enumerate(self.graphs, 1):
            lines += _lines_of(number, graph)
        for found in self.breaks:
            lines += [f"break: {found.reason}", f"  at {found.source}"]
        for number, program in enumerate(self.programs, 1):
            lines.append(f"program {number}: {_text_of(program)}")
        return "\n".join(lines)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _lines_of(number: int, graph: GraphReport) -> list[str]:
    pieces = "one program"
    if len(graph.pieces) != 1 or graph.fallbacks:
        sizes = ", ".join(map(str, graph.pieces))
        pieces = f"{_count(len(graph.pieces), 'piece')}{f' of {sizes} ops' if sizes else ''}"
    lines = [f"graph {number}: {_count(graph.ops, 'op')}, {pieces}; from {graph.source}"]
    found = Counter((f.op, f.source, f.why) for f in graph.fallbacks)
    for (op, source, why), times in found.items():
        lines.append(f"  in eager: {op}{f' ({times} times)' if times > 1 else ''}")
        lines.append(f"    at {source}" if source else "    without a line")
        lines.append(f"    because: {why or 'a single op is not worth a program'}")
    return lines


def _text_of(program: ProgramReport) -> str:
    if program.compile_ms is None:
        return "loaded from disk"
    return (
        f"{program.nodes} nodes, {program.bytes} bytes of StableHLO, lowered in "
        f"{program.lower_ms} ms, compiled in {program.compile_ms} ms"
    )


def explain(
    model: Callable[..., Any],
    *args: Any,
    options: Mapping[str, Any] | None = None,
    dynamic: bool | None = None,
    **kwargs: Any,
) -> Explanation:
    """Compiles and runs `model(*args, **kwargs)` once, as torch.compile would with these `options`
    and `dynamic`, and says what it became: graphs, breaks, pieces, ops in eager, programs.

    Where gradients are wanted the backward runs too; `.grad` is left alone. What the model changes
    in place is changed. Programs that this process has compiled before appear in no list.
    """
    found = Explanation()
    fast = torch_internals.compile_apart(
        torch_internals.uncompiled(model), _recording(found, options), dynamic
    )
    with _Listening(found):
        results = fast(*args, **kwargs)
        _run_backward(model, (args, kwargs), results)
    return found


def _recording(found: Explanation, options: Mapping[str, Any] | None) -> Callable[..., Any]:
    def recording(gm: torch.fx.GraphModule, inputs: list[Any], **_: Any) -> Callable[..., Any]:
        reason = torch_internals.break_reason(gm)
        if reason is not None:
            found.breaks.append(Break(*reason))
        return backend.pjrt(gm, inputs, options=options)

    return recording


def _run_backward(model: Any, inputs: Any, results: Any) -> None:
    given = torch_internals.leaves((inputs, results))
    held = list(model.parameters()) if isinstance(model, torch.nn.Module) else []
    wanted = [t for t in (*held, *given) if isinstance(t, torch.Tensor) and t.requires_grad]
    leaves = [t for t in wanted if t.is_leaf]
    outputs = [
        t
        for t in torch_internals.leaves(results)
        if isinstance(t, torch.Tensor) and t.requires_grad and not t.is_leaf
    ]
    if leaves and outputs:
        ones = [torch.ones_like(t) for t in outputs]
        torch.autograd.grad(outputs, leaves, ones, allow_unused=True)


class _Listening(logging.Handler):
    """While it is entered, what graphs and programs become is added to an Explanation."""

    _COMPILED = re.compile(r"lowered (\d+) nodes in (\d+) ms, compiled in (\d+) ms")

    def __init__(self, found: Explanation) -> None:
        super().__init__()
        self._found = found
        self._bytes = 0

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text.startswith("stablehlo:"):
            self._bytes = len(text) - len("stablehlo:\n")
        elif "loaded from" in text:
            self._found.programs.append(ProgramReport(0, 0, None, None))
        elif match := self._COMPILED.search(text):
            nodes, lower_ms, compile_ms = map(int, match.groups())
            self._found.programs.append(ProgramReport(nodes, self._bytes, lower_ms, compile_ms))

    def _note(self, report: compiler.Report) -> None:
        ops = sum(node.op == "call_function" for node in report.gm.graph.nodes)
        source = function_of(report.gm)
        self._found.graphs.append(GraphReport(source, ops, report.pieces, report.fallbacks))

    def __enter__(self) -> None:
        self._level, self._propagates = logger.level, logger.propagate
        logger.addHandler(self)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        compiler.observers.append(self._note)

    def __exit__(self, *_: object) -> None:
        compiler.observers.remove(self._note)
        logger.removeHandler(self)
        logger.setLevel(self._level)
        logger.propagate = self._propagates
