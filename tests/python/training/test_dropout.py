"""Dropout in training: one mask for forward and backward, fresh at each step."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]

Tensor = torch.Tensor


def step(f: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    x = x.detach().clone().requires_grad_()
    y = f(x)
    y.sum().backward()
    assert x.grad is not None
    return y.detach(), x.grad


@pytest.mark.parametrize("p", [0.0, 0.25, 0.9, 1.0])
def test_forward_and_backward_share_a_mask(p: float) -> None:
    fast = torch.compile(nn.Dropout(p), backend="pjrt")
    x = torch.ones(40, 50)
    y, gradient = step(fast, x)
    assert_close(gradient, y)  # of ones, both are the mask, scaled
    kept = float((y != 0).float().mean())
    assert abs(kept - (1 - p)) < 0.05
    if p < 1:
        assert_close(y[y != 0], torch.full_like(y[y != 0], 1 / (1 - p)))


def test_each_step_is_fresh_and_seeds_repeat_it() -> None:
    fast = torch.compile(lambda x: F.dropout(x, 0.5) + F.dropout(x, 0.5), backend="pjrt")
    x = torch.ones(40, 50)
    torch.manual_seed(3)
    first = step(fast, x)
    second = step(fast, x)
    torch.manual_seed(3)
    torch_pjrt.reset_stats()
    again = step(fast, x)
    assert_close(again, first)
    assert not torch.equal(first[0], second[0])
    assert set(first[0].unique().tolist()) == {0.0, 2.0, 4.0}  # two masks, not one
    assert torch_pjrt.stats()["compiles"] == 0


def checkpointed(x: Tensor) -> Tensor:
    return checkpoint(lambda t: F.dropout(t.sin(), 0.5).cos(), x, use_reentrant=False)  # type: ignore[no-any-return]


def test_checkpointing_keeps_the_mask() -> None:
    x = torch.full((40, 50), 0.7)
    y, gradient = step(torch.compile(checkpointed, backend="pjrt"), x)
    dropped = y == 1  # cos(0)
    assert 0.4 < float(dropped.float().mean()) < 0.6
    inner = 2 * x.sin()
    expected = torch.where(dropped, 0.0, -inner.sin() * 2 * x.cos())
    assert_close(gradient, expected)


def test_backward_twice_and_two_steps_in_flight() -> None:
    fast = torch.compile(nn.Dropout(0.5), backend="pjrt")
    x = torch.ones(20, 20, requires_grad=True)
    y, z = fast(x), fast(x)
    for output in (y, z):
        for _ in range(2):
            (gradient,) = torch.autograd.grad(output.sum(), x, retain_graph=True)
            assert_close(gradient, output.detach())


def test_attention_with_dropout() -> None:
    """Of equal values, a query's output is the share of its weights that were kept."""

    def attend(q: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, q.detach(), torch.ones_like(q), dropout_p=0.5)

    torch.manual_seed(0)
    y, gradient = step(torch.compile(attend, backend="pjrt"), torch.randn(2, 2, 64, 4))
    assert abs(float(y.mean()) - 1) < 0.1
    assert float(y.std()) > 0.05
    assert gradient.isfinite().all()


@pytest.mark.parametrize("f", [nn.Dropout(0.3), checkpointed])
def test_eagers_own_numbers(f: Callable[[Tensor], Tensor]) -> None:
    fast = torch.compile(f, backend="pjrt", options={"random": "eager"})
    x = torch.randn(4, 5)
    for seed in range(2):
        torch.manual_seed(seed)
        expected = step(f, x)
        torch.manual_seed(seed)
        assert_close(step(fast, x), expected)


def test_eval_drops_nothing() -> None:
    model = nn.Dropout(0.5)
    fast = torch.compile(model, backend="pjrt")
    x = torch.ones(40, 50)
    assert not torch.equal(step(fast, x)[0], x)
    model.eval()
    assert_close(step(fast, x), (x, x))
