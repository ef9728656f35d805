"""Gradients of convolutions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from .conftest import Compare

pytestmark = pytest.mark.plugin

SETTINGS: list[dict[str, Any]] = [
    {},
    {"stride": 2, "padding": 1, "bias": False},
    {"stride": 3, "padding": 2, "dilation": 2},
    {"groups": 2, "stride": 2, "padding": 1},
    {"groups": 4, "padding": 1},
    {"stride": 3},  # rows and columns that no window reaches
]


@pytest.mark.parametrize(
    ("dims", "settings"), [*((2, s) for s in SETTINGS), (1, SETTINGS[2]), (3, SETTINGS[3])], ids=str
)
def test_convolution(same_gradients: Compare, dims: int, settings: dict[str, Any]) -> None:
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1]
    x = torch.randn(2, 4, *(9, 8, 7)[:dims], requires_grad=True)
    same_gradients(kind(4, 8, 3, **settings), x)


@pytest.mark.parametrize(
    ("dims", "settings"),
    [
        (2, SETTINGS[0]),
        (2, SETTINGS[2]),
        (2, SETTINGS[3]),
        (1, SETTINGS[1]),
        (3, {"stride": 3, "output_padding": 2, "dilation": 3}),
    ],
    ids=str,
)
def test_transposed_convolution(
    same_gradients: Compare, dims: int, settings: dict[str, Any]
) -> None:
    kind = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[dims - 1]
    x = torch.randn(2, 4, *(5, 4, 3)[:dims], requires_grad=True)
    same_gradients(kind(4, 8, 3, **settings), x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_dtypes(same_gradients: Compare, dtype: torch.dtype) -> None:
    x = torch.randn(2, 4, 6, 6, dtype=dtype, requires_grad=True)
    same_gradients(nn.Conv2d(4, 6, 3, stride=2, padding=1, dtype=dtype), x)


def test_channels_last(same_gradients: Compare) -> None:
    conv = nn.Conv2d(4, 6, 3, padding=1).to(memory_format=torch.channels_last)
    x = torch.randn(2, 4, 6, 6).to(memory_format=torch.channels_last)
    same_gradients(conv, x.requires_grad_())
    same_gradients(conv, x.detach())  # no gradient of the input


@pytest.mark.parametrize("frozen", ["weight", "bias"])
def test_some_gradients(same_gradients: Compare, frozen: str) -> None:
    conv = nn.Conv2d(4, 6, 3)
    getattr(conv, frozen).requires_grad_(False)
    same_gradients(conv, torch.randn(2, 4, 5, 5, requires_grad=True))


def test_an_empty_batch(same_gradients: Compare) -> None:
    same_gradients(nn.Conv2d(4, 6, 3), torch.randn(0, 4, 5, 5, requires_grad=True))
