"""A product is rounded before anything is added to it, as in eager; XLA would round once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import torch_pjrt

Tensor = torch.Tensor

FUNCTIONS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "product and sum": lambda x, y, z: x * y + z,
    "product and difference": lambda x, y, z: z - x * y,
    "two products": lambda x, y, z: x * y - z * y,
    "by a number": lambda x, y, z: (x * 2.5 + 1) * y - z,
    "square and difference": lambda x, y, z: (x + 1) ** 2 - z,
    "cube": lambda x, y, z: y**3 - z,
    "transposed": lambda x, y, z: (x * y).t() - z.t(),
    "expanded": lambda x, y, z: x[:1] * y[:1] - z,
}


@pytest.mark.plugin
@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_product_and_sum_are_rounded_each(name: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.rand(3, 5, dtype=dtype, generator=generator) for _ in range(3)]
    function = FUNCTIONS[name]
    assert torch.equal(torch.compile(function, backend="pjrt")(*inputs), function(*inputs))
    assert torch_pjrt.stats()["executions"] == 1


@pytest.mark.plugin
@pytest.mark.usefixtures("fresh")
def test_a_negative_zero_stays_one() -> None:
    x, y = torch.tensor([-0.0, 0.0, 1.0]), torch.tensor([1.0, -2.0, -0.0])
    product = torch.compile(lambda x, y: x * y, backend="pjrt")(x, y)
    assert torch.equal(torch.signbit(product), torch.signbit(x * y))
