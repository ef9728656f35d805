"""train_step: one program per step, whose parameters and optimizer follow eager's loop."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]

Tensor = torch.Tensor
Optimizer = torch.optim.Optimizer
STEPS = 20


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 5))


def convolutional() -> nn.Module:
    # No bias before the normalization: its gradient is all rounding, which Adam makes a step of.
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
        nn.Flatten(),
        nn.Linear(8 * 16, 5),
    )


class Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        from transformers import BertConfig, BertModel

        config = BertConfig(
            vocab_size=11,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=16,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        self.bert = BertModel(config)
        self.head = nn.Linear(16, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.bert(tokens, return_dict=False)[1])  # type: ignore[no-any-return]


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor]]] = {
    "perceptron": (perceptron, lambda: torch.randn(6, 8)),
    "convolutional": (convolutional, lambda: torch.randn(4, 3, 8, 8)),
    "bert": (Bert, lambda: torch.randint(0, 11, (4, 7))),
}
OPTIMIZERS: dict[str, Callable[[Any], Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "sgd with momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    "sgd by nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "sgd maximizing": lambda p: torch.optim.SGD(p, lr=0.05, maximize=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.01),
    "adam with amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.9), amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.001, weight_decay=0.01),
    "rmsprop centered": lambda p: torch.optim.RMSprop(p, lr=1e-3, momentum=0.5, centered=True),
    "sgd with dampening": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.5),
    "adam of lists": lambda p: torch.optim.Adam(p, lr=0.01, foreach=True, maximize=True),
    "adamw fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "adagrad": lambda p: torch.optim.Adagrad(
        p, lr=0.1, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.1
    ),
    "adadelta": lambda p: torch.optim.Adadelta(p, weight_decay=0.1),
    "adamax": lambda p: torch.optim.Adamax(p, weight_decay=0.1),
    "nadam": lambda p: torch.optim.NAdam(p, weight_decay=0.1),
    "nadam decoupled": lambda p: torch.optim.NAdam(
        p, weight_decay=0.1, decoupled_weight_decay=True, momentum_decay=0.1
    ),
    "radam": lambda p: torch.optim.RAdam(p, betas=(0.8, 0.9), weight_decay=0.1),
}


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def turned(output: Tensor, target: Tensor) -> Tensor:
    return -F.cross_entropy(output, target)


class Pair:
    """Two equal models, each with an optimizer: eager's loop trains `model`, a step `other`."""

    def __init__(self, model: nn.Module, optimizer: Callable[[Any], Optimizer]) -> None:
        self.model, self.other = model, copy.deepcopy(model)
        self.optimizer = optimizer(self.model.parameters())
        self.other_optimizer = optimizer(self.other.parameters())

    def eager(self, loss: Callable[[], Tensor], clip: float | None = None) -> float:
        self.optimizer.zero_grad()
        value = loss()
        value.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), clip)
        self.optimizer.step()
        return value.item()

    def check(self, tolerance: float = 1e-4) -> None:
        """Parameters, buffers, and both optimizers' state_dicts."""
        tensors = self.model.state_dict().items()
        for (name, want), got in zip(tensors, self.other.state_dict().values(), strict=True):
            assert_close(got, want, rtol=tolerance, atol=tolerance, msg=lambda m: f"{name}: {m}")  # noqa: B023
        want_state, got_state = self.optimizer.state_dict(), self.other_optimizer.state_dict()
        assert got_state["param_groups"] == want_state["param_groups"]
        assert got_state["state"].keys() == want_state["state"].keys()
        for key, slots in want_state["state"].items():
            assert got_state["state"][key].keys() == slots.keys()
            for slot, want in slots.items():
                got = got_state["state"][key][slot]
                assert_close(got, want, rtol=tolerance, atol=tolerance, check_stride=True)


def batches(name: str, count: int) -> list[tuple[Tensor, Tensor]]:
    sample = MODELS[name][1]
    return [(x := sample(), torch.randint(0, 5, (len(x),))) for _ in range(count)]


@pytest.mark.parametrize("optimizer", ["sgd by nesterov", "adamw"])
@pytest.mark.parametrize("name", MODELS)
def test_steps_follow_eager(name: str, optimizer: str) -> None:
    torch.manual_seed(0)
    pair = Pair(MODELS[name][0]().train(), OPTIMIZERS[optimizer])
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR
    schedules = [schedule(o, STEPS) for o in (pair.optimizer, pair.other_optimizer)]
    step = torch_pjrt.train_step(pair.other, pair.other_optimizer, F.cross_entropy)
    data = batches(name, 2)
    losses = []
    for k in range(STEPS):
        x, target = data[k % 2]
        want = pair.eager(lambda: F.cross_entropy(pair.model(x), target))  # noqa: B023
        got = step(x, target)
        assert not got.requires_grad
        assert_close(got.item(), want, rtol=1e-3, atol=1e-3)
        losses.append(want)
        for s in schedules:
            s.step()
    assert losses[-1] < losses[0] * 0.9
    pair.check(tolerance=1e-2)
    counts = torch_pjrt.stats()
    assert (counts["captures"], counts["compiles"]) == (1, 1)
    assert counts["executions"] == STEPS
    assert counts["copied_inputs"] == 0
    assert counts["host_to_device_bytes"] == counts["device_to_host_bytes"] == 0
    assert all(p.grad is None for p in pair.other.parameters())


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers_follow_eager(optimizer: str) -> None:
    """In float64, where a formula that differs can't pass for rounding."""
    torch.manual_seed(0)
    pair = Pair(perceptron().double(), OPTIMIZERS[optimizer])
    loss_fn = turned if pair.optimizer.param_groups[0]["maximize"] else loss_of
    step = torch_pjrt.train_step(pair.other, pair.other_optimizer, loss_fn)
    x, target = torch.randn(6, 8, dtype=torch.float64), torch.randint(0, 5, (6,))
    for k in range(8):
        want = pair.eager(lambda: loss_fn(pair.model(x), target))
        assert_close(step(x, target).item(), want, rtol=1e-9, atol=1e-9)
        for o in (pair.optimizer, pair.other_optimizer):
            o.param_groups[0]["lr"] *= 0.5 + 0.1 * k
    pair.check(tolerance=1e-7)
    counts = torch_pjrt.stats()
    assert counts["captures"] == (2 if optimizer == "sgd with dampening" else 1)
    assert counts["executions"] == 8


def test_a_hundred_steps_are_a_hundred_executions() -> None:
    """With a scheduler, momentum that cycles, and the bias correction of Adam."""
    torch.manual_seed(0)
    model = perceptron()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, amsgrad=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=101)
    step = torch_pjrt.train_step(model, optimizer, F.cross_entropy, clip_grad_norm=1.0)
    x, target = batches("perceptron", 1)[0]
    step(x, target)
    torch_pjrt.reset_stats()
    losses = []
    for _ in range(100):
        schedule.step()
        losses.append(step(x, target).item())
    counts = torch_pjrt.stats()
    assert (counts["captures"], counts["compiles"], counts["disk_hits"]) == (0, 0, 0)
    assert counts["executions"] == counts["memory_hits"] == 100
    assert counts["copied_inputs"] == 0
    assert losses[-1] < losses[0] / 2
