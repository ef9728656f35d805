"""Warm calls: a hundred more on new inputs capture, compile and copy nothing, and are right."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch import nn

import torch_pjrt
from torch_pjrt.bench import accuracy
from torch_pjrt.bench.models.registry import MODELS

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]

CALLS = 100
Inputs = Callable[[torch.Generator], tuple[Any, ...]]

every_mode = pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad])


def check_warm_calls(
    mode: Callable[[], AbstractContextManager[Any]], model: nn.Module, inputs: Inputs
) -> None:
    """Compares every call with eager, all on different inputs, and then looks at the counts."""
    fast = torch.compile(model, backend="pjrt")
    generator = torch.Generator().manual_seed(0)
    with mode():
        fast(*inputs(generator))
        torch_pjrt.reset_stats()
        for call in range(CALLS):
            arguments = inputs(generator)
            got, want = fast(*arguments), model(*arguments)
            with torch.no_grad():
                check = accuracy.compare(
                    got, want, lambda a=arguments: accuracy.in_float64(model, a)
                )
            assert check.passed, f"call {call}: {check.message}"
    counts = torch_pjrt.stats()
    assert counts["executions"] == counts["memory_hits"] == CALLS
    assert {counts[name] for name in ("captures", "compiles", "copied_inputs")} == {0}


class Residual(nn.Module):
    """relu(branch(x) + x)."""

    def __init__(self, branch: nn.Module) -> None:
        super().__init__()
        self.branch = branch

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.branch(x) + x)


def small_resnet() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
        Residual(nn.Conv2d(8, 8, 3, padding=1)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 10),
    )
    return model.eval()


def small_bert() -> nn.Module:
    transformers = pytest.importorskip("transformers")
    from torch_pjrt.bench.models.bert import BertEncoder

    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    return BertEncoder(config).eval()


@every_mode
def test_small_resnet(mode: Any) -> None:
    check_warm_calls(mode, small_resnet(), lambda g: (torch.randn(2, 3, 32, 32, generator=g),))


@every_mode
def test_small_bert(mode: Any) -> None:
    check_warm_calls(mode, small_bert(), lambda g: (torch.randint(0, 100, (2, 16), generator=g),))


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["resnet18", "BERT_pytorch"])
@every_mode
def test_full_size(mode: Any, name: str) -> None:
    spec = MODELS[name]
    check_warm_calls(mode, spec.build(seed=0), lambda g: spec.inputs(1, g))
