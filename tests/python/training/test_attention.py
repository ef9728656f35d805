"""Gradients of scaled dot-product attention."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from .conftest import Compare

pytestmark = pytest.mark.plugin

Tensor = torch.Tensor


def heads(count: int, positions: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(2, count, positions, 4, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_dtypes(same_gradients: Compare, dtype: torch.dtype) -> None:
    q, k, v = heads(2, 5, dtype), heads(2, 7, dtype), heads(2, 7, dtype)
    same_gradients(F.scaled_dot_product_attention, q, k, v)


def test_causal_with_a_scale(same_gradients: Compare) -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)

    same_gradients(attend, heads(2, 5), heads(2, 7), heads(2, 7))


@pytest.mark.parametrize("kind", ["bool", "float", "learned"])
def test_a_mask_with_an_empty_row(same_gradients: Compare, kind: str) -> None:
    mask = torch.rand(5, 7) > 0.5
    mask[2] = False  # its queries see nothing: their output and gradient are 0
    if kind != "bool":
        mask = torch.zeros(5, 7).masked_fill(~mask, -10.0 if kind == "learned" else -torch.inf)
        mask.requires_grad_(kind == "learned")

    def attend(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, m)

    same_gradients(attend, heads(2, 5), heads(2, 7), heads(2, 7), mask)


def test_heads_that_share_keys(same_gradients: Compare) -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    same_gradients(attend, heads(4, 5), heads(2, 5), heads(2, 5))


def test_layouts(same_gradients: Compare) -> None:
    """As a model splits its heads: the output joins them again without a copy."""

    def attend(x: Tensor) -> Tensor:
        q, k, v = (t.view(2, 5, 2, 4).transpose(1, 2) for t in x.chunk(3, -1))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 5, 8)

    same_gradients(attend, torch.randn(2, 5, 24, requires_grad=True))


@pytest.mark.parametrize("causal", [False, True])
def test_large_scores_cost_no_digits(causal: bool) -> None:
    """Scores of hundreds: in most rows one probability is nearly 1."""
    generator = torch.Generator().manual_seed(0)
    q, k, v, g = (torch.randn(2, 3, 33, 16, generator=generator) * s for s in (8, 8, 3, 1))

    def gradients(run: Any, dtype: torch.dtype) -> list[Tensor]:
        given = [t.to(dtype).requires_grad_() for t in (q, k, v)]
        y = run(*given, is_causal=causal)
        return list(torch.autograd.grad(y, given, g.to(dtype)))

    exact = gradients(F.scaled_dot_product_attention, torch.float64)
    own = gradients(F.scaled_dot_product_attention, torch.float32)
    fast = torch.compile(F.scaled_dot_product_attention, backend="pjrt")
    ours = gradients(fast, torch.float32)
    for a, b, e in zip(ours, own, exact, strict=True):
        assert float((a - e).norm()) <= 2 * float((b - e).norm())


def gradients_of(run: Any, dtype: torch.dtype, *given: Tensor, **settings: Any) -> list[Tensor]:
    """By a tangent of random numbers."""
    wide = [t.to(dtype).requires_grad_() for t in given]
    y = run(*wide, **settings)
    g = torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    return list(torch.autograd.grad(y, wide, g))


def test_a_query_that_sees_one_key_gets_nothing() -> None:
    """Its probability is 1 whatever it is: what rounding leaves must not count as a gradient."""
    fast = torch.compile(F.scaled_dot_product_attention, backend="pjrt")
    generator = torch.Generator().manual_seed(2)
    q, k, v = (torch.randn(2, 3, 9, 16, generator=generator) for _ in range(3))
    grad, _, _ = gradients_of(fast, torch.float32, q, k, v, is_causal=True)
    assert torch.equal(grad[:, :, 0], torch.zeros(2, 3, 16))
    assert bool((grad[:, :, 1:] != 0).any())


def test_an_equal_part_of_all_scores_costs_no_digits() -> None:
    """Scores that are whole numbers above 4000, and differ by less than 10."""
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randint(-1, 2, (1, 2, 9, 16), generator=generator).float() for _ in range(2))
    q[..., 0] = k[..., 0] = 128
    v = torch.randn(1, 2, 9, 16, generator=generator)
    fast = torch.compile(F.scaled_dot_product_attention, backend="pjrt")
    exact = gradients_of(F.scaled_dot_product_attention, torch.float64, q, k, v)
    ours = gradients_of(fast, torch.float32, q, k, v)
    assert float((ours[2] - exact[2]).norm() / exact[2].norm()) < 1e-6
