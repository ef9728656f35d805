"""Gradients of convolutions."""

from __future__ import annotations

import copy
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


@pytest.mark.parametrize(
    ("channels", "settings"),
    [
        ((48, 48), {"groups": 48, "padding": 1, "stride": 2}),  # by window elements
        ((6, 18), {"groups": 6, "dilation": 2, "padding": 3}),
        ((40, 40), {"groups": 20, "padding": 1}),  # in two blocks of ten groups
        ((64, 32), {"groups": 2, "stride": 3, "dilation": 2, "padding": 2}),  # a group a block
    ],
    ids=str,
)
@pytest.mark.parametrize("turned", [False, True])
def test_grouped(
    same_gradients: Compare, channels: tuple[int, int], settings: dict[str, Any], turned: bool
) -> None:
    kind = nn.ConvTranspose2d if turned else nn.Conv2d
    settings = dict(settings) | ({"padding": 0} if turned else {})
    x = torch.randn(2, channels[0], 9, 8, requires_grad=True)
    same_gradients(kind(*channels, 3, **settings), x)


def test_depthwise_over_a_long_row(same_gradients: Compare) -> None:
    x = torch.randn(2, 3, 700, requires_grad=True)
    same_gradients(nn.Conv1d(3, 3, 5, groups=3, padding=2), x)
    x = torch.randn(2, 3, 40, 300, dtype=torch.bfloat16, requires_grad=True)
    same_gradients(nn.Conv2d(3, 3, 3, groups=3, dtype=torch.bfloat16), x)


def test_depthwise_of_an_empty_batch(same_gradients: Compare) -> None:
    same_gradients(nn.Conv2d(4, 4, 3, groups=4), torch.randn(0, 4, 5, 5, requires_grad=True))


def test_a_depthwise_weights_gradient_is_as_exact_as_eagers() -> None:
    conv = nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False)
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(8, 8, 56, 56, generator=generator)

    def gradient(module: nn.Module, run: Any, x: torch.Tensor) -> torch.Tensor:
        (found,) = torch.autograd.grad(run(x).square().sum(), module.parameters())
        return found

    wide = copy.deepcopy(conv).double()
    exact = gradient(wide, wide, x.double())
    own = float((gradient(conv, conv, x).double() - exact).norm() / exact.norm())
    fast = torch.compile(conv, backend="pjrt")
    ours = float((gradient(conv, fast, x).double() - exact).norm() / exact.norm())
    assert ours <= 2 * own + 1e-7
