"""Two recorded graphs share a program only if they are the same: each pair here is nearly so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import torch_pjrt

Tensor = torch.Tensor
Work = Callable[..., Any]


def in_place(x: Tensor, y: Tensor) -> Sequence[Tensor]:
    view = x[0]
    view.add_(y[0])
    return x, view, y


def on_a_copy(x: Tensor, y: Tensor) -> Sequence[Tensor]:
    view = x[0].clone()
    view.add_(y[0])
    return x, view, y


def aliased(x: Tensor, y: Tensor) -> Sequence[Tensor]:
    z = x.detach()
    x.mul_(2)
    z.add_(y)
    return x, z, y


def not_aliased(x: Tensor, y: Tensor) -> Sequence[Tensor]:
    z = x.clone()
    x.mul_(2)
    z.add_(y)
    return x, z, y


def middle_is_dropped(x: Tensor, y: Tensor) -> Sequence[Tensor]:
    return ((x + y) * y,)


def middle_is_kept(x: Tensor, y: Tensor) -> Sequence[Tensor]:
    middle = x + y
    return middle * y, middle


def number(value: Any) -> Work:
    return lambda x, y: (x * value, y.to(torch.int64) * value)


def host_number(value: Any) -> Work:
    return lambda x, y: (x * torch.tensor(value), y.to(torch.int32) + torch.tensor(value))


GROUPS: dict[str, list[Work]] = {
    "leaves": [
        lambda x, y: (x - y,),
        lambda x, y: (y - x,),
        lambda x, y: (x - x,),
        lambda x, y: (x - y - x,),
        lambda x, y: (x - y - y,),
        lambda x, y: (y - x - x, x),
    ],
    "views": [in_place, on_a_copy, aliased, not_aliased],
    "results": [middle_is_dropped, middle_is_kept, lambda x, y: ((x + y) * y, x + y)],
    "numbers": [number(v) for v in (0, 1, -1, 2, 3, 2.0, 0.0, 1.0, True, False, 1.5)],
    "host numbers": [host_number(v) for v in (2, 3, 2.0, 2.5, True)],
    "layouts": [
        lambda x, y: (x.t() + y,),
        lambda x, y: (x + y.t(),),
        lambda x, y: (x.t() + y.t(),),
        lambda x, y: (x.t().contiguous() + y,),
        lambda x, y: (x.sum(0), y.sum(1)),
        lambda x, y: (x.sum(1), y.sum(0)),
    ],
    "dtypes": [
        lambda x, y: (x.to(torch.float64) + y,),
        lambda x, y: (x.to(torch.int32) + y,),
        lambda x, y: (x.view(torch.int32) + 1,),
        lambda x, y: (x.to(torch.int32) + 1,),
    ],
    "structure": [
        lambda x, y: (torch.cat([x, y]),),
        lambda x, y: (torch.cat([y, x]),),
        lambda x, y: (torch.cat([x, y], 1),),
        lambda x, y: (torch.stack([x, y]),),
        lambda x, y: (x.clamp(0), y.clamp(max=0)),
        lambda x, y: (x.clamp(max=0), y.clamp(0)),
        lambda x, y: (x.roll(1, 0),),
        lambda x, y: (x.roll(1, 1),),
        lambda x, y: (x**2, y**3),
        lambda x, y: (x**3, y**2),
    ],
}


def operands(device: str) -> tuple[Tensor, Tensor]:
    x = torch.arange(9.0).view(3, 3) - 4
    return x.to(device), (x.t() * 0.5 + 1).contiguous().to(device)


@pytest.mark.parametrize("name", GROUPS)
def test_like_graphs(name: str) -> None:
    for _ in range(2):  # the second time all programs are known
        for k, work in enumerate(GROUPS[name]):
            wanted, got = work(*operands("cpu")), work(*operands("pjrt"))
            torch.pjrt.mark_step()
            for a, b in zip(got, wanted, strict=True):
                assert a.dtype == b.dtype, k
                assert a.stride() == b.stride(), k
                torch.testing.assert_close(a.cpu(), b, msg=lambda m, k=k: f"{k}: {m}")


def test_they_are_found_again() -> None:
    for work in GROUPS["leaves"]:
        work(*operands("pjrt"))[0].cpu()
    compiles = torch_pjrt.stats()["compiles"]
    for work in GROUPS["leaves"]:
        work(*operands("pjrt"))[0].cpu()
    assert torch_pjrt.stats()["compiles"] == compiles


def test_a_number_on_the_cpu_is_taken_when_it_is_used() -> None:
    x, number = torch.ones(3, device="pjrt"), torch.tensor(2.0)
    y = x * number
    number.fill_(7)
    z = x * number
    assert (y.tolist(), z.tolist()) == ([2.0] * 3, [7.0] * 3)


def test_precision_is_a_part_of_a_program() -> None:
    x = torch.randn(8, 8, generator=torch.Generator().manual_seed(0))
    (x.to("pjrt") @ x.to("pjrt")).cpu()
    compiles = torch_pjrt.stats()["compiles"]
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        (x.to("pjrt") @ x.to("pjrt")).cpu()
    finally:
        torch.set_float32_matmul_precision(before)
    assert torch_pjrt.stats()["compiles"] + torch_pjrt.stats()["disk_hits"] > compiles
