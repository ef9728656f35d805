"""Tensors that are made on the device: how large they are, and how they lie."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing import assert_close

import torch_pjrt

pytestmark = pytest.mark.plugin

RANGES: list[tuple[tuple[Any, ...], torch.dtype | None]] = [
    ((5,), None),
    ((7,), None),
    ((5.0,), None),
    ((7,), torch.float32),
    ((2, 9), None),
    ((2, 12), None),
    ((2, 9, 2), None),
    ((2, 9, 3), None),
    ((9, 2, -2), None),
    ((0.5, 3.2, 0.5), None),
    ((0.5, 2.2, 0.5), None),
    ((0.5, 2.2, 0.5), torch.float64),
    ((3, 3), None),
]


def test_ranges_of_every_size() -> None:
    """One after the other: they differ in nothing but their numbers."""
    for numbers, dtype in RANGES:
        want = torch.arange(*numbers, dtype=dtype)
        got = torch.arange(*numbers, dtype=dtype, device="pjrt")
        assert got.shape == want.shape, numbers
        assert_close(got.cpu(), want)


def test_places_in_a_range_compile_nothing() -> None:
    def places(start: int) -> torch.Tensor:
        return torch.arange(start, start + 4, device="pjrt").cpu()

    for start in (2, 3):
        places(start)
    torch_pjrt.reset_stats()
    for start in range(4, 9):
        assert_close(places(start), torch.arange(start, start + 4))
    assert torch_pjrt.stats()["compiles"] == 0


@pytest.mark.parametrize("numbers", [(3, 1), (1, 3, 0), (0, float("inf"))], ids=str)
def test_a_range_that_is_none(numbers: tuple[Any, ...]) -> None:
    with pytest.raises(RuntimeError) as eagers:
        torch.arange(*numbers)
    with pytest.raises(RuntimeError) as ours:
        torch.arange(*numbers, device="pjrt")
    assert str(ours.value).split("\n")[0] == str(eagers.value).split("\n")[0]


def test_windows_of_any_number_of_terms() -> None:
    for name in ("hamming", "blackman", "nuttall"):
        make = getattr(torch.signal.windows, name)
        assert_close(make(6, device="pjrt").cpu(), make(6))


def test_memory_with_gaps() -> None:
    x = torch.zeros(2, device="pjrt").new_empty_strided((2, 3), (20, 5))
    assert x.stride() == (20, 5)
    x.copy_(torch.arange(6.0).view(2, 3))
    assert_close(x.cpu(), torch.arange(6.0).view(2, 3))


@pytest.mark.filterwarnings("ignore::torch_pjrt.HostOpWarning")
def test_what_ran_on_the_cpu_lies_as_it_did_there() -> None:
    a, b = torch.randn(2, 4, 3), torch.randn(2, 4, 3)
    got = torch.linalg.lstsq(a.to("pjrt"), b.to("pjrt")).solution
    want = torch.linalg.lstsq(a, b).solution
    assert got.stride() == want.stride()
    assert_close(got.cpu(), want, rtol=1e-4, atol=1e-4)
