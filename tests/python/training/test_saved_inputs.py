"""Gradients where the forward changes an input, or a buffer, that the backward reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

pytestmark = [
    pytest.mark.usefixtures("fresh"),
    pytest.mark.plugin,
    pytest.mark.filterwarnings("ignore::torch_pjrt.FallbackWarning"),
]


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return torch.tanh(x * self.weight * self.calls)


@pytest.mark.parametrize("eager_ops", [[], ["aten::tanh"]], ids=["one", "cut"])
def test_a_buffer_that_is_computed_again(eager_ops: list[str]) -> None:
    ours, eagers = Counting(), Counting()
    fast = torch.compile(ours, backend="pjrt", options={"eager_ops": eager_ops})
    for _ in range(3):
        x = torch.randn(4, 3)
        for model in (fast, eagers):
            model.zero_grad()
            model(x).sum().backward()
        assert_close(ours.weight.grad, eagers.weight.grad)
        assert_close(ours.calls, eagers.calls)


def _old_value(x: Tensor, c: Tensor) -> Tensor:
    y = x * c.clone()
    c.add_(1)
    return y


def _view_of_old_value(x: Tensor, c: Tensor) -> Tensor:
    y = x @ c.clone().t()
    c.mul_(2)
    return y


@pytest.mark.parametrize("f", [_old_value, _view_of_old_value], ids=["itself", "view"])
def test_the_value_before_the_change(f: Callable[..., Any]) -> None:
    fast = torch.compile(f, backend="pjrt")
    ours, eagers = torch.ones(3, 3), torch.ones(3, 3)
    for _ in range(3):
        x = torch.randn(3, 3)
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
        fast(a, ours).sum().backward()
        f(b, eagers).sum().backward()
        assert_close(a.grad, b.grad)
        assert_close(ours, eagers)
