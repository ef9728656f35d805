"""Ops that turn a tensor into another view of its memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import torch_pjrt  # noqa: F401  (registers the device)

CASES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "transpose_": lambda x: x.transpose_(0, 2),
    "t_": lambda x: x[0].t_(),
    "swapdims_": lambda x: x.swapdims_(0, 1),
    "unsqueeze_": lambda x: x.unsqueeze_(1),
    "squeeze_": lambda x: x.unsqueeze(0).squeeze_(0),
    "as_strided_": lambda x: x.as_strided_((2, 2), (1, 3), 1),
}


@pytest.mark.parametrize("name", CASES)
def test_strides_and_memory_are_eagers(name: str) -> None:
    found = []
    torch.pjrt.reset_host_ops()
    for device in ("cpu", "pjrt"):
        x = torch.arange(24.0).view(2, 3, 4).to(device)
        base = x.view(-1)
        y = CASES[name](x)
        y.mul_(2)
        found.append((y.stride(), y.storage_offset(), y.cpu().tolist(), base.cpu().tolist()))
    assert found[0] == found[1]
    assert not torch.pjrt.host_ops()


def test_quantiles_lie_as_eagers() -> None:
    x, q = torch.randn(3, 2, 4), torch.tensor([0.2, 0.7])
    want, got = (torch.quantile(x.to(d), q.to(d), dim=0) for d in ("cpu", "pjrt"))
    assert got.stride() == want.stride()
    torch.testing.assert_close(got.cpu(), want)
