"""Where XLA's CPU plugin rounds a product and a sum at once, an option has it round each."""

from __future__ import annotations

import pytest
import torch


@pytest.mark.plugin
@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_product_and_sum_are_rounded_each(dtype: torch.dtype) -> None:
    def difference(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return x * y - z

    generator = torch.Generator().manual_seed(0)
    inputs = [torch.rand(1000, dtype=dtype, generator=generator) for _ in range(3)]
    options = {"compile_overrides": {"xla_cpu_max_isa": "AVX"}}
    fast = torch.compile(difference, backend="pjrt", options=options)
    assert torch.equal(fast(*inputs), difference(*inputs))
