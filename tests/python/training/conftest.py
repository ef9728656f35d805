"""What the tests of training share: gradients of the compiled function against eager's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.testing import assert_close

# Of the largest element of each tensor.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}

Function = Callable[..., Any]
Compare = Callable[..., None]


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for item in value for t in _tensors(item)] if isinstance(value, Sequence) else []


def _step(
    function: Function, module: torch.nn.Module | None, args: Sequence[Any]
) -> dict[str, torch.Tensor]:
    """Outputs, gradients and buffers after one backward from a loss that weighs all outputs."""
    outputs = _tensors(function(*args))
    differentiable = [y for y in outputs if y.requires_grad]
    assert differentiable
    generator = torch.Generator().manual_seed(7)
    tangents = [
        torch.randn(y.shape, generator=generator, dtype=torch.float64).to(y.dtype)
        for y in differentiable
    ]
    torch.autograd.backward(differentiable, tangents)
    found = {f"output {k}": y for k, y in enumerate(outputs)}
    for k, x in enumerate(args):
        if isinstance(x, torch.Tensor) and x.grad is not None:
            found[f"gradient of argument {k}"] = x.grad
    if module is not None:
        found |= {
            f"gradient of {n}": p.grad for n, p in module.named_parameters() if p.grad is not None
        }
        found |= {f"buffer {n}": b for n, b in module.named_buffers()}
    return found


def _copies(args: Sequence[Any]) -> list[Any]:
    return [
        x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x
        for x in args
    ]


def _same(
    function: Function | torch.nn.Module, *args: Any, steps: int = 1, tolerance: float | None = None
) -> None:
    torch._dynamo.reset()
    is_module = isinstance(function, torch.nn.Module)
    if is_module:
        function.zero_grad()
    other = copy.deepcopy(function) if is_module else function
    fast = torch.compile(other, backend="pjrt", dynamic=False)
    for _ in range(steps):
        want = _step(function, function if is_module else None, _copies(args))
        got = _step(fast, other if is_module else None, _copies(args))
        assert got.keys() == want.keys()
        for name, expected in want.items():
            bound = tolerance or TOLERANCE.get(expected.dtype, 0)
            scale = float(expected.detach().abs().max()) if expected.numel() and bound else 0.0
            scale = scale if scale == scale and scale != float("inf") else 1.0
            assert_close(
                got[name],
                expected,
                rtol=bound,
                atol=bound * scale,
                equal_nan=True,
                check_stride=True,
                msg=lambda text, name=name: f"{name}: {text}",
            )


@pytest.fixture
def same_gradients() -> Compare:
    """Checks a function or module: outputs, gradients (with strides) and buffers as in eager.

    Of the arguments, those that require a gradient get one; a step is a forward and a backward.
    """
    return _same
