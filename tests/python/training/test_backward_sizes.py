"""Sizes that the backward of a graph with symbolic sizes knows as part of an expression alone."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]


def test_windows_of_images_of_many_sizes() -> None:
    """What is kept for the backward are sizes with their padding: s + 1 and s + 2."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return F.unfold(x, 2, padding=1) * 2

    fast = torch.compile(f, backend="pjrt", dynamic=True, fullgraph=True)
    for size in (5, 6, 9, 5):
        grads = []
        for function in (fast, f):
            x = torch.linspace(0, 1, 2 * size * size).view(2, 1, size, size).requires_grad_()
            y = function(x)
            (y * torch.arange(y.numel()).view(y.shape)).sum().backward()
            grads.append(x.grad)
        assert_close(*grads)
    assert torch_pjrt.stats()["captures"] == 2
    assert torch_pjrt.stats()["executions"] == 8
