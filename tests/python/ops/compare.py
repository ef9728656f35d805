"""Runs ATen ops compiled, many calls in one program, and compares the results with eager's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import getitem
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

from torch_pjrt import backend, fx

# Of the result's dtype: relative to the value, and absolute.
TOLERANCE = {
    torch.float64: 1e-12,
    torch.float32: 2e-6,
    torch.float16: 2e-3,
    torch.bfloat16: 1.6e-2,
}


@dataclass(frozen=True)
class Sample:
    """One call of an op. Tensors in `args` and `kwargs` are inputs of the compiled function, all
    else is part of it."""

    op: str  # e.g. "aten::add.Tensor"
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    tolerance: float | None = None  # instead of the dtype's
    has_values: bool = True  # False: uninitialised memory

    def overload(self) -> Any:
        namespace, _, name = self.op.partition("::")
        name, _, overload = name.partition(".")
        return getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")

    def run(self) -> list[torch.Tensor]:
        args, kwargs = tree_map_only(torch.Tensor, torch.clone, (self.args, self.kwargs))
        result = self.overload()(*args, **kwargs)
        return list(result) if isinstance(result, tuple | list) else [result]

    def fake_strides(self) -> list[tuple[int, ...]]:
        with FakeTensorMode() as mode:
            args, kwargs = tree_map_only(torch.Tensor, mode.from_tensor, (self.args, self.kwargs))
            return [r.clone().stride() for r in Sample(self.op, args, kwargs).run()]

    def num_results(self) -> int | None:
        """None if the op returns one tensor by itself."""
        returns = self.overload()._schema.returns
        if len(returns) == 1 and str(returns[0].type) == "Tensor":
            return None
        return len(self.run())

    def __str__(self) -> str:
        def brief(t: torch.Tensor) -> str:
            name = str(t.dtype).removeprefix("torch.")
            values = f" {t.flatten().tolist()}" if t.numel() <= 6 else ""
            return f"{name}{list(t.shape)}/{list(t.stride())}{values}"

        args = tree_map_only(torch.Tensor, brief, self.args)
        kwargs = tree_map_only(torch.Tensor, brief, self.kwargs)
        return f"{self.op}{args} {kwargs or ''}"


def sample(op: str, *args: Any, **kwargs: Any) -> Sample:
    return Sample(op, args, kwargs)


def _difference(got: torch.Tensor, want: torch.Tensor, sample: Sample, index: int) -> str | None:
    tolerance = sample.tolerance
    if tolerance is None:
        tolerance = TOLERANCE.get(want.dtype, 0)
    if not sample.has_values:
        want = want.copy_(got) if got.dtype == want.dtype and got.shape == want.shape else want
    try:
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)
    except AssertionError as error:
        detail = f"\n  got  {got.flatten()[:24]}\n  want {want.flatten()[:24]}"
        return str(error).replace("\n", " ")[:300] + detail
    # Where torch's own fake tensors say other strides than its kernels give, these are the graph's.
    if got.stride() not in (want.stride(), sample.fake_strides()[index]):
        return f"strides {got.stride()}, eager's are {want.stride()}"
    return None


def compile_and_run(samples: Sequence[Sample]) -> list[list[torch.Tensor]]:
    """One program of all samples, handed to the backend as Dynamo would."""
    graph = torch.fx.Graph()
    inputs: list[torch.Tensor] = []

    def placeholder(tensor: torch.Tensor) -> torch.fx.Node:
        inputs.append(tensor)
        return graph.placeholder(f"x{len(inputs)}")

    calls = [tree_map_only(torch.Tensor, placeholder, (s.args, s.kwargs)) for s in samples]
    outputs: list[torch.fx.Node] = []
    sizes = []

    def copy(value: torch.fx.Node) -> torch.fx.Node:
        return graph.call_function(torch.ops.aten.clone.default, (value,))

    for s, call in zip(samples, calls, strict=True):
        # Copies, so that no result is a view of an input, which no program computes.
        args, kwargs = tree_map_only(torch.fx.Node, copy, call)
        result = graph.call_function(s.overload(), args, kwargs)
        count = s.num_results()
        parts = (
            [result]
            if count is None
            else [graph.call_function(getitem, (result, k)) for k in range(count)]
        )
        outputs += [copy(part) for part in parts]
        sizes.append(len(parts))
    graph.output(tuple(outputs))
    with torch.no_grad():
        flat = iter(backend.pjrt(torch.fx.GraphModule({}, graph), inputs)(*inputs))
    return [[next(flat) for _ in range(size)] for size in sizes]


def check(samples: Sequence[Sample]) -> None:
    """Every sample gives what eager gives, and its op reaches the rule of that name."""
    reached: set[str] = set()
    capture = fx.capture

    def recording(gm: torch.fx.GraphModule, *args: Any) -> fx.Captured:
        for node in gm.graph.nodes:
            if isinstance(node.target, torch._ops.OpOverload):
                reached.add(node.target.name())
        return capture(gm, *args)

    fx.capture = recording
    try:
        try:
            got = compile_and_run(samples)
        except Exception:
            # The one that fails, alone, has the better message.
            for s in samples:
                try:
                    compile_and_run([s])
                except Exception as error:
                    raise AssertionError(f"{s} failed to compile or run") from error
            raise
    finally:
        fx.capture = capture
    faults = []
    for s, results in zip(samples, got, strict=True):
        for k, (mine, want) in enumerate(zip(results, s.run(), strict=True)):
            difference = _difference(mine, want.clone(), s, k)
            if difference:
                faults.append(f"{s} result {k}: {difference}")
    assert not faults, f"{len(faults)} of {len(samples)} differ\n" + "\n".join(faults[:8])
    missing = {s.op for s in samples} - reached
    assert not missing, f"the compiled graph doesn't have {missing}: they were rewritten"
