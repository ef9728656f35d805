"""Maxima and minima over many elements, which are halved before they are reduced."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable

import pytest
import torch

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]

SIZES = (8, 9, 97)


def check(f: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> None:
    torch._dynamo.reset()
    got, want = torch.compile(f, backend="pjrt", fullgraph=True)(x), f(x)
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
    assert got.stride() == want.stride()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_each_place_of_the_extreme(dtype: torch.dtype) -> None:
    """A row for each place at which it can stand."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.amax(-1), (-x).amin(-1)])

    for size in SIZES:
        x = torch.randn(size, size).sub(10).to(dtype)
        check(f, x.fill_diagonal_(9))
        check(f, x.fill_diagonal_(math.nan))


@pytest.mark.parametrize("size", SIZES)
def test_every_axis(size: int) -> None:
    x = torch.randn(3, size, 11)
    for dims in ((1,), (1, 2), (0, 1, 2)):
        check(lambda x, dims=dims: x.amax(dims), x)
        check(lambda x, dims=dims: x.amin(dims, keepdim=True), x.transpose(0, 2))


def test_infinities_and_nothing_else() -> None:
    x = torch.full((4, 33), -math.inf)
    x[1], x[2, 32], x[3, 16] = math.inf, math.nan, -3
    check(lambda x: x.amax(1), x)
    check(lambda x: x.amin(1), x)
    check(lambda x: x.softmax(1), x)


def test_a_softmax_reduces_no_long_row_by_maximum(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="torch_pjrt")
    fast = torch.compile(lambda x: x.softmax(-1), backend="pjrt", options={"disk_cache": False})
    fast(torch.randn(5, 197))
    (program,) = [text for text in caplog.messages if text.startswith("stablehlo")]
    assert program.count("stablehlo.maximum") == 1
    assert program.count("stablehlo.select") == 2 * 5, "197 is halved five times"
    (dims,) = re.findall(r"maximum.*?\}\) .*?: \(tensor<([0-9x]*)xf32>", program, re.DOTALL)[-1:]
    assert dims == "5x7"
