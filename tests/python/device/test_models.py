"""The benchmark's models on device="pjrt": the CPU's results, in one program, all of it there."""

from __future__ import annotations

import pytest
import torch

import torch_pjrt
from torch_pjrt.bench.models.registry import MODELS

TEN = [name for name, spec in MODELS.items() if spec.in_table]


def check(name: str) -> None:
    spec = MODELS[name]
    model = spec.build(0)
    inputs = spec.inputs(1, torch.Generator().manual_seed(1))
    torch.pjrt.reset_host_ops()
    with torch.no_grad():
        wanted = model(*inputs)
        model.to("pjrt")
        torch_pjrt.reset_stats()
        got = model(*(x.to("pjrt") for x in inputs))
    outputs = zip(*((r if isinstance(r, tuple) else (r,)) for r in (got, wanted)), strict=True)
    for a, b in outputs:
        assert a.stride() == b.stride()
        torch.testing.assert_close(a.cpu(), b, rtol=1e-3, atol=1e-4)
    assert torch_pjrt.stats()["executions"] == 1
    assert torch.pjrt.host_ops() == {}


def test_one_model() -> None:
    check("squeezenet1_1")


@pytest.mark.full
@pytest.mark.parametrize("name", TEN)
def test_the_ten_models(name: str) -> None:
    check(name)
