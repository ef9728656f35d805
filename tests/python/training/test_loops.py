"""The stock training loop: 20 steps of small models follow eager's."""

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
Batch = tuple[Tensor, Tensor]
STEPS = 20


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 5),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)  # type: ignore[no-any-return]


class Transformer(nn.Module):
    """With tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(self.embedding(x))[:, -1])  # type: ignore[no-any-return]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(4, 6)
        self.head = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        h = c = x.new_zeros(len(x), 6)
        for moment in x.unbind(1):
            h, c = self.cell(moment, (h, c))
        return self.head(h)  # type: ignore[no-any-return]


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 5))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor], int]] = {
    "perceptron": (perceptron, lambda: torch.randn(6, 8), 5),
    "convolutional": (Convolutional, lambda: torch.randn(4, 3, 8, 8), 5),
    "transformer": (Transformer, lambda: torch.randint(0, 11, (4, 7)), 11),
    "recurrent": (Recurrent, lambda: torch.randn(4, 5, 4), 5),
}
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
}


class Loop:
    def __init__(self, model: nn.Module, run: Any, optimizer: str) -> None:
        self._model, self._run = model, run
        self._optimizer = OPTIMIZERS[optimizer](model.parameters())
        self._schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self._optimizer, STEPS)

    def losses(self, batches: list[Batch]) -> list[float]:
        losses = []
        for x, target in batches:
            self._optimizer.zero_grad()
            loss = F.cross_entropy(self._run(x), target)
            loss.backward()
            nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
            self._optimizer.step()
            self._schedule.step()
            losses.append(loss.item())
        return losses


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_losses_follow_eager(name: str, optimizer: str) -> None:
    make, sample, classes = MODELS[name]
    torch.manual_seed(0)
    model = make().train()
    other = copy.deepcopy(model)
    few = [(x := sample(), torch.randint(0, classes, (len(x),))) for _ in range(2)]
    batches = [few[k % 2] for k in range(STEPS)]
    fast = torch.compile(other, backend="pjrt", dynamic=False)
    expected = Loop(model, model, optimizer).losses(batches)
    loop = Loop(other, fast, optimizer)
    losses = loop.losses(batches[:1])
    torch_pjrt.reset_stats()
    losses += loop.losses(batches[1:])
    counts = torch_pjrt.stats()
    assert (counts["captures"], counts["compiles"]) == (0, 0)
    assert counts["executions"] == 2 * (STEPS - 1)
    assert expected[-1] < expected[0] * 0.9
    assert_close(losses, expected, rtol=1e-3, atol=1e-3)
    for got, want in zip(other.state_dict().values(), model.state_dict().values(), strict=True):
        assert_close(got, want, rtol=1e-2, atol=1e-2)


def test_accumulated_gradients_equal_those_of_the_joined_batch() -> None:
    torch.manual_seed(0)
    model = perceptron()
    other = copy.deepcopy(model)
    fast = torch.compile(other, backend="pjrt", dynamic=False)
    x, target = torch.randn(6, 8), torch.randint(0, 5, (6,))
    F.cross_entropy(model(x), target).backward()
    for half in (slice(0, 3), slice(3, 6)):
        (F.cross_entropy(fast(x[half]), target[half]) / 2).backward()
    for got, want in zip(other.parameters(), model.parameters(), strict=True):
        assert_close(got.grad, want.grad)


def test_gradients_may_be_kept_as_zeros() -> None:
    model = nn.Linear(4, 3)
    fast = torch.compile(model, backend="pjrt")
    x = torch.randn(2, 4)
    fast(x).sum().backward()
    gradient = model.weight.grad
    assert gradient is not None
    expected = gradient.clone()
    model.zero_grad(set_to_none=False)
    fast(x).sum().backward()
    assert model.weight.grad is gradient
    assert_close(gradient, expected)


def test_state_can_be_saved_and_loaded_between_steps() -> None:
    torch.manual_seed(0)
    model = Convolutional()
    fast = torch.compile(model, backend="pjrt", dynamic=False)
    x = torch.randn(4, 3, 8, 8)
    saved = copy.deepcopy(model.state_dict())

    def step() -> float:
        loss: Tensor = fast(x).square().mean()
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad  # type: ignore[operator]
        return loss.item()

    first = [step() for _ in range(3)]
    model.load_state_dict(saved)
    assert [step() for _ in range(3)] == first
