"""Gradients of ops that read images at places of their own: grids, and windows of uneven size."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from .conftest import Compare

pytestmark = pytest.mark.plugin

PADDINGS = ("zeros", "border", "reflection")


@pytest.mark.parametrize(
    ("mode", "align"),
    [
        ("bilinear", False),
        ("bicubic", True),
        pytest.param("bilinear", True, marks=pytest.mark.full),
        pytest.param("nearest", False, marks=pytest.mark.full),
        pytest.param("nearest", True, marks=pytest.mark.full),
        pytest.param("bicubic", False, marks=pytest.mark.full),
    ],
)
def test_grid_sample(same_gradients: Compare, mode: str, align: bool) -> None:
    """With places inside, at the edge and far outside."""

    def sample(x: Tensor, grid: Tensor) -> list[Tensor]:
        return [
            F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=align)
            for padding in PADDINGS
        ]

    torch.manual_seed(0)
    x = torch.randn(2, 3, 5, 6, requires_grad=True)
    grid = torch.randn(2, 4, 3, 2).mul(1.3).requires_grad_()
    same_gradients(sample, x, grid, tolerance=1e-4)


def test_affine_grid(same_gradients: Compare) -> None:
    def transform(x: Tensor, theta: Tensor) -> Tensor:
        return F.grid_sample(x, F.affine_grid(theta, [2, 3, 4, 4], False), align_corners=False)

    torch.manual_seed(0)
    theta = torch.eye(2, 3).repeat(2, 1, 1).add(torch.randn(2, 2, 3) * 0.1).requires_grad_()
    same_gradients(transform, torch.randn(2, 3, 5, 6, requires_grad=True), theta, tolerance=1e-4)


@pytest.mark.parametrize(
    "dtype", [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.full)], ids=str
)
def test_adaptive_maximum(same_gradients: Compare, dtype: torch.dtype) -> None:
    """Values, indices and gradients, with windows that overlap and ties."""

    def pool(x: Tensor, ties: Tensor) -> list[Any]:
        found: list[Any] = []
        for size in (1, 2, 3, (3, 2), (5, 4), (None, 3), (9, 8)):
            found += F.adaptive_max_pool2d(x, size, return_indices=True)
        found += F.adaptive_max_pool2d(ties, 3, return_indices=True)
        found += F.adaptive_max_pool1d(x.flatten(1, 2), 4, return_indices=True)
        return found

    torch.manual_seed(0)
    x = torch.randn(2, 3, 7, 5, dtype=dtype, requires_grad=True)
    ties = torch.zeros(1, 2, 7, 5, dtype=dtype)
    ties[0, 1, 3, 2] = float("nan")
    same_gradients(pool, x, ties.requires_grad_())


def test_adaptive_maximum_in_three_dims(same_gradients: Compare) -> None:
    def pool(x: Tensor) -> tuple[Tensor, Tensor]:
        return F.adaptive_max_pool3d(x, (2, 3, 2), return_indices=True)  # type: ignore[return-value]

    torch.manual_seed(0)
    same_gradients(pool, torch.randn(2, 2, 5, 4, 3, requires_grad=True))


def test_maxima_with_their_indices(same_gradients: Compare) -> None:
    def pool(x: Tensor) -> list[Tensor]:
        y, index = F.max_pool2d(x, 3, 2, 1, return_indices=True)
        back = F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)
        return [y, index, back]

    torch.manual_seed(0)
    same_gradients(pool, torch.randn(2, 3, 8, 6, requires_grad=True))


def test_interpolation(same_gradients: Compare) -> None:
    def resized(x: Tensor) -> list[Tensor]:
        return [
            F.interpolate(x, size=(7, 9), mode="bilinear", align_corners=False),
            F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
            F.interpolate(x, scale_factor=2, mode="nearest"),
            F.interpolate(x, size=(3, 4), mode="bicubic", align_corners=False),
            F.interpolate(x, size=(3, 4), mode="area"),
            F.pixel_shuffle(x, 2),
        ]

    torch.manual_seed(0)
    same_gradients(resized, torch.randn(2, 4, 5, 6, requires_grad=True), tolerance=1e-4)
