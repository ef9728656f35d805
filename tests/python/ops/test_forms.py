"""Rules that take another form for some sizes, or when a result isn't read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

NAN = float("nan")
INF = float("inf")


def assert_equal(f: Callable[..., torch.Tensor], *args: torch.Tensor, rtol: float = 1e-5) -> None:
    torch._dynamo.reset()
    expected = f(*args)
    got = torch.compile(f, backend="pjrt", fullgraph=True)(*args)
    torch.testing.assert_close(got, expected, rtol=rtol, atol=rtol, equal_nan=True)
    assert got.stride() == expected.stride()


CONVOLUTIONS = {
    # name: input dims, kernel dims, groups
    "depthwise": ((2, 6, 9, 8), (6, 1, 3, 3), 6),
    "depthwise_1d": ((2, 6, 11), (6, 1, 4), 6),
    "depthwise_3d": ((1, 3, 5, 6, 5), (3, 1, 2, 3, 2), 3),
    "two_outputs_a_channel": ((2, 5, 9, 8), (10, 1, 3, 2), 5),
    "depthwise_of_a_large_window": ((1, 3, 17, 16), (3, 1, 9, 9), 3),
    "one_block": ((2, 12, 8, 7), (24, 3, 3, 3), 4),
    "two_blocks": ((1, 64, 6, 5), (32, 4, 3, 3), 16),
    "blocks_that_do_not_fill_up": ((1, 60, 6, 5), (40, 6, 3, 3), 10),
    "a_block_a_group": ((1, 80, 5, 5), (6, 40, 3, 3), 2),
    "too_many_blocks": ((1, 2210, 3, 3), (130, 34, 1, 1), 65),
}


@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (1, 2, 2)])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_grouped_convolution(name: str, stride: int, padding: int, dilation: int) -> None:
    dims, kernel_dims, groups = CONVOLUTIONS[name]
    convolution = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[len(dims)]
    x, w = torch.randn(dims), torch.randn(kernel_dims)

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return convolution(x, w, None, stride, padding, dilation, groups)

    assert_equal(f, x, w, rtol=1e-4)
    if len(dims) == 4:
        assert_equal(f, x.contiguous(memory_format=torch.channels_last), w, rtol=1e-4)


@pytest.mark.parametrize("name", ["depthwise", "two_outputs_a_channel", "two_blocks"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_grouped_convolution_of_other_dtypes(name: str, dtype: torch.dtype) -> None:
    dims, kernel_dims, groups = CONVOLUTIONS[name]
    x, w = torch.randn(dims, dtype=dtype), torch.randn(kernel_dims, dtype=dtype)
    bias = torch.randn(kernel_dims[0], dtype=dtype)
    rtol = 1e-12 if dtype is torch.float64 else 2e-2
    assert_equal(lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=groups), x, w, bias, rtol=rtol)


@pytest.mark.parametrize("name", ["depthwise", "two_outputs_a_channel", "two_blocks"])
@pytest.mark.parametrize("stride", [1, 2])
def test_gradients_of_grouped_convolution(name: str, stride: int) -> None:
    dims, kernel_dims, groups = CONVOLUTIONS[name]
    x = torch.randn(dims, requires_grad=True)
    w = torch.randn(kernel_dims, requires_grad=True)

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, w, stride=stride, padding=1, groups=groups)

    torch._dynamo.reset()
    tangent = torch.randn_like(f(x, w))
    expected = torch.autograd.grad(f(x, w), (x, w), tangent)
    y = torch.compile(f, backend="pjrt", fullgraph=True)(x, w)
    for got, want in zip(torch.autograd.grad(y, (x, w), tangent), expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
        assert got.stride() == want.stride()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("channels_last", [False, True])
def test_maxima_without_indices(dtype: torch.dtype, channels_last: bool) -> None:
    x = torch.randn(2, 3, 10, 9).mul(9).to(dtype)
    if dtype.is_floating_point:
        x[0, 0, 3, 3], x[1, 1], x[1, 2, 4] = NAN, -INF, INF
    if channels_last:
        x = x.contiguous(memory_format=torch.channels_last)
    for settings in [(2,), ((3, 2), (2, 1), 1), (3, 2, 1, 1, True), (2, 1, 0, 2)]:
        assert_equal(lambda x, s=settings: F.max_pool2d(x, *s), x)
    if dtype.is_floating_point and not channels_last:
        assert_equal(lambda x: F.max_pool3d(x, 2, 1), x)
