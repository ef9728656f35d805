"""`bench --training --null-device`, on a tiny model."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo
from torch import nn

from torch_pjrt.bench import cli, step_cost
from torch_pjrt.bench.models.registry import Spec

pytestmark = pytest.mark.plugin


def inputs(batch: int, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    return (torch.randn(batch, 3, generator=generator),)


def test_prints_a_ratio_for_each_optimizer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("TORCH_PJRT_PLUGIN", "TORCH_PJRT_CACHE"):  # which the command sets
        monkeypatch.setenv(name, "")
    torch._dynamo.reset()
    spec = Spec("tiny", "tiny", lambda: nn.Linear(3, 5), inputs, 20, 2, in_null_device=True)
    flags = ["--performance", "--training", "--null-device", "--repeat", "2"]
    flags += ["--iterations-per-run", "2"]
    assert cli.main(flags, {"tiny": spec}, isolated=False) == cli.OK
    rows = [line for line in capsys.readouterr().out.splitlines() if "tiny" in line]
    assert [name for name in step_cost.OPTIMIZERS if any(name in row for row in rows)] == [
        "SGD",
        "AdamW",
    ]
    assert all("passed" in row for row in rows)
    torch._dynamo.reset()
