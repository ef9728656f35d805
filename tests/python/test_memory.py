"""The memory that a process needs: no more than eager's, and no more after a thousand calls."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32])
@pytest.mark.parametrize(
    "settings",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
        {"kernel_size": (2, 3), "stride": 1, "dilation": 2},
    ],
)
def test_a_pool_without_its_indices_has_eagers_values(
    settings: dict[str, Any], dtype: torch.dtype, layout: torch.memory_format
) -> None:
    x = torch.randn(2, 3, 10, 9, generator=torch.Generator().manual_seed(0)).mul(9).to(dtype)
    if dtype.is_floating_point:
        x[0, 0, 3, 3], x[1, 1], x[1, 2] = math.nan, 0, -math.inf
    x = x.contiguous(memory_format=layout)
    fast = torch.compile(lambda x: F.max_pool2d(x, **settings), backend="pjrt")
    got, want = fast(x), F.max_pool2d(x, **settings)
    assert torch.equal(got.isnan(), want.isnan())
    assert torch.equal(got.nan_to_num(), want.nan_to_num())
    assert got.stride() == want.stride()
