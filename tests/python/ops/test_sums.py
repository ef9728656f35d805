"""Sums of many elements: their error against the exact sum is at most about that of eager."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping

import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.plugin

Tensor = torch.Tensor
Function = Callable[..., Tensor]
Dims = tuple[int, ...]

# What rounding a result once costs, root mean square.
ROUNDING = {
    torch.float64: 4e-17,
    torch.float32: 2.5e-8,
    torch.bfloat16: 1.7e-3,
    torch.float16: 2.1e-4,
}


def compiled(function: Function) -> Function:
    torch._dynamo.reset()
    return torch.compile(function, backend="pjrt", dynamic=False)


def error(value: Tensor, exact: Tensor) -> float:
    """Root mean square, as a part of that of the exact value."""
    difference = value.double() - exact
    return float((difference.square().mean() / exact.square().mean()).sqrt())


def check(
    cases: Mapping[str, tuple[Function, Dims]], dtype: torch.dtype = torch.float32, repeats: int = 1
) -> None:
    """Each at most twice eager's error, or that of two roundings where eager was lucky.

    All run in one program, which takes less time to compile.
    """
    functions = [function for function, _ in cases.values()]

    def run(*inputs: Tensor) -> list[Tensor]:
        return [f(x) for f, x in zip(functions, inputs, strict=True)]

    fast = compiled(run)
    ours, own = ([0.0] * len(cases) for _ in range(2))
    for seed in range(repeats):
        torch.manual_seed(seed)
        inputs = [(torch.rand(shape) + 0.1).mul(1e-3).to(dtype) for _, shape in cases.values()]
        exact = run(*[x.double() for x in inputs])
        for errors, found in ((ours, fast(*inputs)), (own, run(*inputs))):
            for k, (value, expected) in enumerate(zip(found, exact, strict=True)):
                errors[k] += error(value, expected) ** 2 / repeats
    for name, a, b in zip(cases, ours, own, strict=True):
        assert a**0.5 <= 2 * max(b**0.5, ROUNDING[dtype]), (name, a**0.5, b**0.5)


def over(*dims: int) -> Function:
    return lambda x: x.sum(dims)


def channels_last(x: Tensor) -> Tensor:
    return x.permute(0, 3, 1, 2).sum((0, 2, 3))


SUMS: dict[str, tuple[Function, Dims]] = {
    "rows": (over(1), (16, 30_522)),  # twice a prime number, times 3
    "columns": (over(0), (10_007, 16)),  # a prime number
    "columns, long": (over(0), (100_000, 16)),
    "few columns": (over(0), (40_000, 3)),
    "middle": (over(1), (4, 5_000, 33)),
    "images": (over(0, 2, 3), (8, 16, 56, 56)),
    "images, channels last": (channels_last, (8, 56, 56, 16)),
    "small images": (over(0, 2, 3), (8, 64, 28, 28)),
    "far apart": (over(0, 2), (300, 20, 300)),
    "many short dims": (over(0, 2, 4, 6), (9, 4, 9, 4, 9, 4, 9)),
    "chains of one": (over(0, 2), (1, 16, 4_099)),
}


def test_along_dims() -> None:
    check(SUMS)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_16_bits(dtype: torch.dtype) -> None:
    check({name: SUMS[name] for name in ("rows", "images, channels last")}, dtype)


def of_all(*sizes: int) -> dict[str, tuple[Function, Dims]]:
    return {str(size): (lambda x: x.sum(), (size,)) for size in sizes}


def test_of_all() -> None:
    check(of_all(1_025, 4_099, 10_007, 1_000_000), repeats=8)


@pytest.mark.full
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_of_up_to_ten_millions(dtype: torch.dtype) -> None:
    check(of_all(10_007, 100_000, 1_000_000, 10_000_000), dtype, repeats=8)
    long = {
        "two dims": (over(0, 1), (2_500, 4_000, 2)),
        "rows": (over(1), (2, 5_000_011)),
        "columns": (over(0), (1_000_000, 10)),
        "one of three": (over(1), (10, 100_000, 10)),
    }
    check(long, dtype, repeats=3)


def test_of_float64() -> None:
    """Against math.fsum, which rounds once."""
    fast = compiled(lambda x: x.sum())
    ours, own = [], []
    for seed in range(8):
        x = torch.rand(300_000, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        exact = math.fsum(x.tolist())
        ours.append((float(fast(x)) / exact - 1) ** 2)
        own.append((float(x.sum()) / exact - 1) ** 2)
    assert math.sqrt(sum(ours)) <= 2 * max(math.sqrt(sum(own)), 1e-16)


def test_of_complex_numbers() -> None:
    x = torch.view_as_complex(torch.rand(16, 20_000, 2))
    exact = x.to(torch.complex128).sum(1)
    ours, own = ((f(x) - exact).abs().mean() for f in (compiled(over(1)), over(1)))
    assert float(ours) <= 2 * max(float(own), 5e-4)


def statistics(x: Tensor) -> Tensor:
    """As batch norm tracks them."""
    mean, variance = torch.zeros(16, dtype=x.dtype), torch.zeros(16, dtype=x.dtype)
    F.batch_norm(x * 1e3, mean, variance, training=True, momentum=1.0)
    return torch.cat([mean, variance])


def gradient_of_bias(x: Tensor) -> Tensor:
    weight, bias = x.new_ones(4, 2, 3, 3), x.new_zeros(4)

    def loss(b: Tensor) -> Tensor:
        y = F.conv2d(x * 1e3, weight, b)
        return (y * y).sum()

    return torch.func.grad(loss)(bias)


def gradient_of_weight(settings: dict[str, int]) -> Function:
    """Of a convolution: each element is a sum over images and positions."""

    def gradient(x: Tensor) -> Tensor:
        weight = x.new_full((4, 4 // settings.get("groups", 1), 3, 3), 0.1)
        return torch.func.grad(lambda w: F.conv2d(x * 1e3, w, **settings).square().sum())(weight)

    return gradient


def gradient_of_linear(x: Tensor) -> Tensor:
    """A sum over rows for each element."""
    return torch.func.grad(lambda w: (x @ w).square().sum())(x.new_full((16, 8), 0.1))


def gradient_of_linear_bias(x: Tensor) -> Tensor:
    return torch.func.grad(lambda b: (x * 1e3 + b).square().sum())(x.new_zeros(16))


REDUCTIONS: dict[str, tuple[Function, Dims]] = {
    "mean": (lambda x: x.mean(1), (16, 50_000)),
    "var": (lambda x: x.var(1), (32, 50_000)),
    "var of columns": (lambda x: x.var(0), (50_000, 32)),
    "std and mean": (lambda x: torch.stack(torch.std_mean(x, 1)), (16, 50_000)),
    "norm": (lambda x: x.norm(dim=1), (16, 50_000)),
    "1-norm": (lambda x: torch.linalg.vector_norm(x, 1, 0), (50_000, 16)),
    "softmax": (lambda x: (x * 1e3).softmax(1), (16, 30_522)),
    "softmax of columns": (lambda x: (x * 1e3).softmax(0), (50_000, 4)),
    "log_softmax": (lambda x: (x * 1e3).log_softmax(1), (16, 30_522)),
    "logsumexp": (lambda x: (x * 1e3).logsumexp(1), (16, 30_522)),
    "layer norm": (lambda x: F.layer_norm(x * 1e3, (20_000,)), (4, 20_000)),
    "group norm": (lambda x: F.group_norm(x * 1e3, 2), (2, 8, 40, 40)),
    "batch norm": (lambda x: F.batch_norm(x * 1e3, None, None, training=True), (8, 16, 40, 40)),
    "statistics of batch norm": (statistics, (8, 16, 40, 40)),
    "bias of a convolution": (gradient_of_bias, (8, 2, 40, 40)),
    "weight of a convolution": (gradient_of_weight({}), (8, 4, 72, 72)),
    "weight of a strided convolution": (gradient_of_weight({"stride": 2}), (8, 4, 113, 113)),
    "weight of a grouped convolution": (gradient_of_weight({"groups": 2}), (8, 4, 72, 72)),
    "weight of a depthwise convolution": (gradient_of_weight({"groups": 4}), (8, 4, 72, 72)),
    "weight of a linear layer": (gradient_of_linear, (50_000, 16)),
    "bias of a linear layer": (gradient_of_linear_bias, (50_000, 16)),
    "cross entropy": (lambda x: F.cross_entropy(x * 1e3, torch.arange(10_000) % 32), (10_000, 32)),
    "loss": (lambda x: F.mse_loss(x[0], x[1], reduction="none").sum(1), (2, 8, 30_001)),
    "mean loss": (lambda x: torch.stack([F.mse_loss(y, y * 0.5) for y in x]), (8, 30_001)),
}


def test_other_reductions() -> None:
    check(REDUCTIONS)


def test_sizes_at_the_edge() -> None:
    def run(*inputs: Tensor) -> list[Tensor]:
        return [x.sum(dim) for x in inputs for dim in range(x.dim())]

    shapes: list[Dims] = [(0,), (5_000, 0), (0, 5_000), (1_500, 1), (1, 1_500)]
    inputs = [torch.rand(shape) for shape in shapes]
    torch.testing.assert_close(compiled(run)(*inputs), run(*inputs))


def test_what_is_not_finite() -> None:
    x = torch.ones(6, 5_000)
    x[0, 4_999] = math.inf
    x[1, 17] = math.nan
    x[2, 3], x[2, 4_000] = math.inf, -math.inf
    x[3] = -0.0
    x[4] = 3e38
    torch.testing.assert_close(compiled(over(1))(x), x.sum(1), equal_nan=True)


def test_chains_lie_side_by_side(caplog: pytest.LogCaptureFixture) -> None:
    """The form that compilers vectorise: the dim that is added up is not the last."""
    with caplog.at_level(logging.DEBUG, "torch_pjrt"):
        compiled(lambda x: x.sum())(torch.rand(1 << 16))
    text = "\n".join(record.getMessage() for record in caplog.records)
    assert "(tensor<32x32x64xf32>, tensor<f32>) -> tensor<32x64xf32>" in text
