"""Gradients of pooling."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from .conftest import Compare

pytestmark = pytest.mark.plugin


def image(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize(
    "settings",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 3, "stride": 2, "padding": 1, "dilation": 2, "ceil_mode": True},
        {"kernel_size": (2, 3), "stride": (3, 1), "padding": (0, 1)},
        {"kernel_size": 7, "stride": 1, "padding": 3},  # scattered one by one
    ],
    ids=str,
)
def test_max_pool(same_gradients: Compare, settings: dict[str, Any]) -> None:
    same_gradients(lambda x: F.max_pool2d(x, **settings), image(2, 3, 10, 9))


def test_max_pool_of_ties_and_nan(same_gradients: Compare) -> None:
    x = torch.zeros(1, 2, 6, 6)
    x[0, 1, 2, 3] = float("nan")
    same_gradients(lambda t: F.max_pool2d(t, 3, 2, 1), x.requires_grad_())


def test_max_pool_wider_than_the_image(same_gradients: Compare) -> None:
    same_gradients(lambda x: F.max_pool2d(x, 3, 1, 1), image(1, 1, 2, 2))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_max_pool_dtypes(same_gradients: Compare, dtype: torch.dtype) -> None:
    same_gradients(lambda x: F.max_pool2d(x, 3, 3), image(2, 3, 9, 9, dtype=dtype))


def test_max_pool_in_one_dim_and_channels_last(same_gradients: Compare) -> None:
    same_gradients(lambda x: F.max_pool1d(x, 3, 2, 1), image(2, 3, 9))
    x = image(2, 3, 8, 8).detach().to(memory_format=torch.channels_last)
    same_gradients(lambda t: F.max_pool2d(t, 3, 2, 1), x.requires_grad_())


@pytest.mark.parametrize("size", [1, 3, (5, 2), 9], ids=str)
def test_adaptive_average_pool(same_gradients: Compare, size: Any) -> None:
    same_gradients(lambda x: F.adaptive_avg_pool2d(x, size), image(2, 3, 7, 6))


@pytest.mark.parametrize(
    "settings",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
        {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
        {"kernel_size": (2, 3), "stride": (3, 1), "divisor_override": 5},
    ],
    ids=str,
)
def test_average_pool(same_gradients: Compare, settings: dict[str, Any]) -> None:
    same_gradients(lambda x: F.avg_pool2d(x, **settings), image(2, 3, 10, 9))


def test_average_pool_in_one_and_three_dims(same_gradients: Compare) -> None:
    same_gradients(lambda x: F.avg_pool1d(x, 3, 2, 1), image(2, 3, 9))
    same_gradients(lambda x: F.avg_pool3d(x, 2), image(2, 3, 4, 5, 4))
