"""Each lowering rule against eager: values, dtype and shape, over edge-case inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

# gelu is tested apart: eager's own values at infinity depend on dtype and length (NaN or inf).
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def same(fn: Callable[..., Any], *args: Any) -> None:
    """The compiled function gives what eager gives."""
    torch._dynamo.reset()
    want = fn(*args)
    got = torch.compile(fn, backend="pjrt", dynamic=False)(*args)
    tolerance = TOLERANCE.get(want.dtype, 0)
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)


def floats(dtype: torch.dtype) -> torch.Tensor:
    special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -2.5,
        3.5,
        100.0,
        float("inf"),
        -float("inf"),
        float("nan"),
    ]
    return torch.tensor(special, dtype=dtype)


def integers(dtype: torch.dtype) -> torch.Tensor:
    info = torch.iinfo(dtype)
    return torch.tensor([info.min, info.max, 0, 1, 2, 7, 100], dtype=dtype)


UNARY = [
    torch.abs,
    torch.ceil,
    torch.cos,
    torch.erf,
    torch.exp,
    torch.expm1,
    torch.floor,
    torch.log,
    torch.log1p,
    torch.neg,
    torch.reciprocal,
    torch.relu,
    torch.round,
    torch.rsqrt,
    torch.sigmoid,
    torch.sin,
    torch.sqrt,
    torch.tanh,
    torch.logical_not,
]


@pytest.mark.parametrize("op", UNARY, ids=lambda op: op.__name__)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_unary(op: Callable[..., torch.Tensor], dtype: torch.dtype) -> None:
    same(op, floats(dtype))


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gelu(approximate: str, dtype: torch.dtype) -> None:
    x = torch.tensor([-10, -2.5, -0.5, -0.0, 0.0, 0.5, 2.5, 10, float("nan")], dtype=dtype)
    same(lambda t: F.gelu(t, approximate=approximate), x)


BINARY = [
    torch.add,
    torch.sub,
    torch.mul,
    torch.maximum,
    torch.minimum,
    torch.eq,
    torch.ne,
    torch.lt,
    torch.le,
    torch.gt,
    torch.ge,
    torch.logical_and,
    torch.logical_or,
]


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.__name__)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS], ids=str)
def test_binary_all_pairs(op: Callable[..., torch.Tensor], dtype: torch.dtype) -> None:
    x = floats(dtype) if dtype.is_floating_point else integers(dtype)
    same(op, x[:, None], x)


@pytest.mark.parametrize("mode", [None, "trunc", "floor"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.int32], ids=str)
def test_division(mode: str | None, dtype: torch.dtype) -> None:
    a = torch.tensor([-7, -6, -1, 0, 1, 6, 7], dtype=dtype)[:, None]
    b = torch.tensor([-3, -2, -1, 1, 2, 3], dtype=dtype)
    same(lambda x, y: torch.div(x, y, rounding_mode=mode), a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_remainder_has_the_divisors_sign(dtype: torch.dtype) -> None:
    a = torch.tensor([-7, -6, -1, 0, 1, 6, 7], dtype=dtype)[:, None]
    same(torch.remainder, a, torch.tensor([-3, -2, 2, 3], dtype=dtype))


@pytest.mark.parametrize("exponent", [0.5, -0.5, 1, -1, 2, -2, 3, 4, 2.5, 0])
def test_power(exponent: float) -> None:
    same(lambda x: x**exponent, torch.tensor([0.25, 1.0, 3.0, 7.0]))


@pytest.mark.parametrize(
    "to", [torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64, torch.float64]
)
def test_conversion(to: torch.dtype) -> None:
    same(lambda x: x.to(to), torch.tensor([0.0, -1.5, 2.7, 100.0, -0.3]))


@pytest.mark.parametrize("to", [torch.int32, torch.int64])
def test_conversion_out_of_range(to: torch.dtype) -> None:
    same(lambda x: x.to(to), torch.tensor([float("nan"), float("inf"), -float("inf"), 1e30, -1e30]))


def test_promotion_of_scalars_and_tensors() -> None:
    x = torch.tensor([1, 2, 3])
    same(lambda t: t * 2.5, x)
    same(lambda t: t > 1.5, x)
    same(lambda t: t.half() + torch.tensor(1.0, dtype=torch.float64), x)
    same(lambda t: torch.where(t > 1, t, 0.5), x)


REDUCTIONS = [
    lambda x: x.sum(),
    lambda x: x.sum(-1),
    lambda x: x.mean((0, -1), keepdim=True),
    lambda x: x.amax(1),
    lambda x: x.amin((0, 1)),
    lambda x: x.any(0),
    lambda x: x.all(-1, keepdim=True),
    lambda x: x.softmax(-1),
    lambda x: x.log_softmax(0),
    lambda x: F.layer_norm(x, x.shape[-1:]),
]


@pytest.mark.parametrize("index", range(len(REDUCTIONS)))
@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 5, 1)], ids=str)
def test_reduction(index: int, shape: tuple[int, ...]) -> None:
    same(REDUCTIONS[index], torch.randn(shape))
    same(REDUCTIONS[index], torch.randn(shape[::-1]).permute(2, 1, 0))


def test_reductions_keep_nan() -> None:
    x = torch.tensor([[1.0, float("nan")], [2.0, 3.0]])
    same(lambda t: t.amax(1), x)
    same(lambda t: t.amin(0), x)


VIEWS = [
    lambda x: x.reshape(4, 6) + 1,
    lambda x: x.permute(2, 0, 1) * 2,
    lambda x: x.transpose(-1, 0) + 1,
    lambda x: x[:, 1] + 1,
    lambda x: x[:, -1, ::2] + 1,
    lambda x: x[1:, :, -3:-1] + 1,
    lambda x: torch.cat([x, x.transpose(0, 0)], -1),
    lambda x: x.split(2, -1)[1] + 1,
    lambda x: x.unsqueeze(-1).expand(2, 3, 4, 5) + 1,
    lambda x: x.permute(1, 2, 0)[:, 1:3].reshape(-1) + 1,
]


@pytest.mark.parametrize("index", range(len(VIEWS)))
def test_view(index: int) -> None:
    same(VIEWS[index], torch.randn(2, 3, 4))


def test_matmul_of_transposed_operands() -> None:
    a, b = torch.randn(5, 3), torch.randn(5, 4)
    same(lambda x, y: x.t() @ y, a, b)
    same(lambda x, y: torch.addmm(torch.ones(4), x.t(), y, beta=0.5, alpha=2), a, b)
    same(torch.bmm, torch.randn(2, 3, 4), torch.randn(2, 5, 4).transpose(1, 2))
    same(torch.mm, torch.randn(0, 3), torch.randn(3, 4))


@pytest.mark.parametrize(
    "settings",
    [{}, {"stride": 2, "padding": 1}, {"dilation": 2}, {"groups": 2, "padding": (1, 0)}],
    ids=str,
)
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=str)
def test_convolution(settings: dict[str, Any], memory_format: torch.memory_format) -> None:
    conv = torch.nn.Conv2d(4, 6, 3, **settings).requires_grad_(False)
    x = torch.randn(2, 4, 9, 8).to(memory_format=memory_format)
    torch._dynamo.reset()
    want, got = conv(x), torch.compile(conv, backend="pjrt")(x)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    assert got.stride() == want.stride()


@pytest.mark.parametrize("settings", [(2,), (3, 2, 1), (3, 2, 1, 1, True), (2, 1, 0, 2)], ids=str)
def test_max_pool_indices_and_nan(settings: tuple[Any, ...]) -> None:
    x = torch.randn(2, 3, 10, 9)
    x[0, 0, 3, 3] = float("nan")
    x[1, 1] = 0
    for part in (0, 1):
        same(lambda t, part=part: F.max_pool2d(t, *settings, return_indices=True)[part], x)


def test_indexing() -> None:
    table, index = torch.randn(7, 3), torch.tensor([[0, 6], [3, 3]])
    same(lambda t, i: F.embedding(i, t), table, index)
    same(lambda t, i: t.gather(0, i), table, torch.tensor([[0, 1, 2], [6, 5, 4]]))
    same(lambda t, i: t[i], table, index - 7)
    same(lambda t, i: t[:, i], torch.randn(2, 7, 3), index)
    same(lambda t, i: t[i[0], :, i[1]], torch.randn(7, 2, 7), index)


def test_creation() -> None:
    x = torch.zeros(3)
    same(lambda t: torch.arange(5) + t.new_zeros(5), x)
    same(lambda t: torch.arange(1, 10, 3) + t, x)
    same(lambda t: torch.arange(0, 1, 0.4) + t, x)
    same(lambda t: torch.full((3,), 7) + torch.ones_like(t), x)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3)], ids=str)
def test_scalar_and_empty_shapes(shape: tuple[int, ...]) -> None:
    x = torch.ones(shape)
    same(lambda t: t + 1, x)
    same(lambda t: t.sum(), x)
    same(lambda t: F.gelu(t).reshape(-1) * 2, x)
