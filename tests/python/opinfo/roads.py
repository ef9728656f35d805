"""The ways in which a sample is run: in eager on the CPU, and on each road that is tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import getitem
from typing import Any

import torch
from opinfo.entries import Sample, seed
from torch._dynamo.backends.debugging import aot_eager
from torch._dynamo.source import ConstantSource
from torch._dynamo.utils import counters
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatefulSymbolicContext
from torch.utils._pytree import tree_leaves

import torch_pjrt
from torch_pjrt import backend, compiler

Results = list[Any]  # the leaves of what a call gives, then the gradients


@dataclass(frozen=True)
class Road:
    """`one`: a sample. `many`: samples with nothing in eager; raises where something is. `batch`:
    so many at a time."""

    one: Callable[[Sample], Results]
    many: Callable[[Sequence[Sample]], list[Results]] | None = None
    batch: int = 24
    gradients: bool = False
    on_device: bool = False
    first_only: bool = False  # the first sample of float32


# Ops that ran in eager for want of a program, by name.
fallbacks: Counter[str] = Counter()


def _note(report: compiler.Report) -> None:
    fallbacks.update(f.op for f in report.fallbacks if f.why is not None)


@contextmanager
def noted() -> Iterator[None]:
    """A context in which `fallbacks` counts."""
    compiler.observers.append(_note)
    try:
        yield
    finally:
        compiler.observers.remove(_note)


def eager(sample: Sample, gradients: bool, spread_out: bool = True) -> Results:
    """`spread_out`: tensors whose elements share memory stay so; else they are dense copies."""
    tensors = copies(sample.tensors, spread_out=spread_out)
    seed(0)
    with torch.set_grad_enabled(gradients):
        results = tree_leaves(sample.function(*tensors))
    return _with_gradients(results, tensors) if gradients else results


def copies(tensors: Sequence[torch.Tensor], spread_out: bool = True) -> list[torch.Tensor]:
    """With the same strides, so that a sample can be used twice."""

    def copy(t: torch.Tensor) -> torch.Tensor:
        if t.layout is not torch.strided:
            return t.clone()
        if _overlaps(t):
            return t if spread_out else t.detach().clone().requires_grad_(t.requires_grad)
        new = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype)
        new = new.copy_(t.detach()) if t.numel() else new
        return new.requires_grad_(t.requires_grad)

    return [copy(t) for t in tensors]


def _overlaps(t: torch.Tensor) -> bool:
    return any(stride == 0 and size > 1 for size, stride in zip(t.shape, t.stride(), strict=True))


# --- gradients


def _tangent_of(results: Sequence[Any]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The results with a gradient, and a cotangent of each that lies as it does."""
    outputs = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
    generator = torch.Generator().manual_seed(1)

    def tangent(r: torch.Tensor) -> torch.Tensor:
        drawn = torch.randn(r.shape, dtype=torch.float64, generator=generator)
        return torch.empty_like(r).copy_(drawn)

    return outputs, [tangent(r) for r in outputs]


def _with_gradients(results: Results, tensors: Sequence[torch.Tensor]) -> Results:
    return _all_with_gradients([results], [tensors])[0]


def _all_with_gradients(
    results: Sequence[Results], tensors: Sequence[Sequence[torch.Tensor]]
) -> list[Results]:
    """Of each sample its results and the gradients of its tensors."""
    outputs, tangents = [], []
    for of_one in results:
        more, their_tangents = _tangent_of(of_one)
        outputs += more
        tangents += their_tangents
    inputs = [t for of_one in tensors for t in of_one if t.requires_grad]
    gradients: list[Any] = []
    if outputs:
        gradients += torch.autograd.grad(outputs, inputs, tangents, allow_unused=True)
    found = []
    for of_one, theirs in zip(results, tensors, strict=True):
        count = sum(t.requires_grad for t in theirs) if gradients else 0
        plain = [r.detach() if isinstance(r, torch.Tensor) else r for r in of_one]
        found.append(plain + gradients[:count])
        gradients = gradients[count:]
    return found


# --- what AOTAutograd makes of a function


def _graph(function: Callable[..., Any], inputs: int, outputs: int) -> torch.fx.GraphModule:
    """A graph of one call that gives a list, as Dynamo would hand it over."""
    graph = torch.fx.Graph()
    call = graph.call_function(function, tuple(graph.placeholder(f"x{k}") for k in range(inputs)))
    graph.output(tuple(graph.call_function(getitem, (call, k)) for k in range(outputs)))
    return torch.fx.GraphModule({}, graph)


def _pjrt(gm: torch.fx.GraphModule, tensors: list[torch.Tensor]) -> Callable[..., Any]:
    return backend.pjrt(gm, tensors)


def _without_fallback(gm: torch.fx.GraphModule, tensors: list[torch.Tensor]) -> Callable[..., Any]:
    return backend.pjrt(gm, tensors, options={"fallback": "error"})


def _of_known_sizes(tensor: torch.Tensor) -> StatefulSymbolicContext:
    rank = tensor.dim()
    return StatefulSymbolicContext(
        dynamic_sizes=[DimDynamic.STATIC] * rank,
        dynamic_strides=[DimDynamic.INFER_STRIDE] * rank,
        constraint_sizes=[None] * rank,
        constraint_strides=[None] * rank,
        tensor_source=ConstantSource("tensor"),
        shape_env_to_source_to_symbol_cache={},
    )


def _captured(
    function: Callable[..., Any], tensors: list[torch.Tensor], compile_graph: Callable[..., Any]
) -> Results:
    def flat(*given: torch.Tensor) -> Results:
        return tree_leaves(function(*given))

    seed(0)
    gm = _graph(flat, len(tensors), len(flat(*copies(tensors))))
    seed(0)
    context = TracingContext(FakeTensorMode(shape_env=ShapeEnv()))
    if torch.is_grad_enabled():
        # A backward can lack a symbol that Dynamo would give it as an input.
        for tensor in tensors:
            context.tensor_to_context[tensor] = _of_known_sizes(tensor)
    with tracing(context):
        fast = compile_graph(gm, tensors)
    return list(fast(*tensors))


def _one_graph(sample: Sample, gradients: bool, compile_graph: Callable[..., Any] = _pjrt) -> Any:
    tensors = copies(sample.tensors)
    with torch.set_grad_enabled(gradients):
        try:
            results = _captured(sample.function, tensors, compile_graph)
            return _with_gradients(results, tensors) if gradients else results
        except torch_pjrt.Error:
            raise
        except Exception:
            # What AOTAutograd can't trace: there Dynamo breaks the graph.
            results = _one_by_dynamo(sample, gradients)
            if not fallbacks:
                fallbacks["graph break"] += 1
            return results


def _one_program(samples: Sequence[Sample], gradients: bool) -> list[Results]:
    tensors = [copies(sample.tensors) for sample in samples]
    counts: list[int] = []

    def all_of_them(*given: torch.Tensor) -> Results:
        results: Results = []
        counts.clear()
        rest = iter(given)
        for sample, own in zip(samples, tensors, strict=True):
            seed(0)
            of_one = tree_leaves(sample.function(*(next(rest) for _ in own)))
            counts.append(len(of_one))
            results += of_one
        return results

    with torch.set_grad_enabled(gradients):
        flat = [t for own in tensors for t in own]
        results = iter(_captured(all_of_them, flat, _without_fallback))
        split = [[next(results) for _ in range(count)] for count in counts]
        return _all_with_gradients(split, tensors) if gradients else split


def strides_of_autograd(sample: Sample, k: int) -> tuple[int, ...] | None:
    """Of a gradient, where AOTAutograd's graph runs in eager: it says how gradients lie."""
    try:
        return _one_graph(sample, True, aot_eager)[k].stride()
    except Exception:
        return None


# --- torch.compile


def _one_by_dynamo(sample: Sample, gradients: bool) -> Results:
    torch._dynamo.reset()
    counters.clear()
    tensors = copies(sample.tensors)
    seed(0)
    with torch.set_grad_enabled(gradients):
        results = tree_leaves(torch.compile(sample.function, backend="pjrt")(*tensors))
        if counters["graph_break"]:
            fallbacks["graph break"] += 1
        return _with_gradients(results, tensors) if gradients else results


# --- device="pjrt"


def _recorded(sample: Sample, gradients: bool) -> Results:
    tensors = [
        t.detach().to("pjrt").requires_grad_(t.requires_grad)
        for t in copies(sample.tensors, spread_out=False)
    ]
    seed(0)
    # What makes tensors of numbers alone makes them there, if it isn't told otherwise.
    with torch.set_grad_enabled(gradients), torch.device("pjrt"):
        results = tree_leaves(sample.on_device(*tensors))
        return _with_gradients(results, tensors) if gradients else results


def _one_on_device(sample: Sample, gradients: bool) -> Results:
    torch.pjrt.reset_host_ops()
    results = _recorded(sample, gradients)
    fallbacks.update(torch.pjrt.host_ops())
    torch.pjrt.synchronize()
    return results


def _many_on_device(samples: Sequence[Sample], gradients: bool) -> list[Results]:
    torch.pjrt.reset_host_ops()
    results = [_recorded(sample, gradients) for sample in samples]
    if torch.pjrt.host_ops():
        raise torch_pjrt.Error("an op ran on the CPU")
    torch.pjrt.synchronize()
    return results


ROADS = {
    "graph": Road(
        lambda sample: _one_graph(sample, False),
        lambda samples: _one_program(samples, False),
    ),
    "backward": Road(
        lambda sample: _one_graph(sample, True),
        lambda samples: _one_program(samples, True),
        batch=12,
        gradients=True,
    ),
    "compile": Road(
        lambda sample: _one_by_dynamo(sample, False),
        first_only=True,
    ),
    "device": Road(
        lambda sample: _one_on_device(sample, False),
        lambda samples: _many_on_device(samples, False),
        on_device=True,
    ),
    "device_backward": Road(
        lambda sample: _one_on_device(sample, True),
        lambda samples: _many_on_device(samples, True),
        gradients=True,
        on_device=True,
    ),
}
