"""Trains a small convolutional net and a transformer on data made here, in two ways: by the stock
loop over a compiled model, and by train_step, one program per step. The losses are the same.

    python examples/train.py [STEPS]
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import torch_pjrt

CLASSES = 4


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 16, CLASSES),
    )


def images(count: int) -> tuple[Tensor, Tensor]:
    """Noise with a bright quarter, which is the class."""
    target = torch.randint(0, CLASSES, (count,))
    x = torch.randn(count, 1, 8, 8)
    for image, quarter in zip(x, target.tolist(), strict=True):
        row, column = 4 * (quarter // 2), 4 * (quarter % 2)
        image[0, row : row + 4, column : column + 4] += 2
    return x, target


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.encoder(self.embedding(tokens)).mean(1))


def sentences(count: int) -> tuple[Tensor, Tensor]:
    """Random tokens; the class is what most of them leave when divided by CLASSES."""
    target = torch.randint(0, CLASSES, (count,))
    tokens = torch.randint(0, 16, (count, 12))
    topic = torch.randint(0, 4, (count, 6)) * CLASSES + target[:, None]
    tokens[:, :6] = topic
    return tokens, target


def stock(model: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> list[float]:
    fast = torch.compile(model, backend="pjrt")
    optimizer, schedule = optimizer_of(model, len(batches))
    losses = []
    for x, target in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(fast(x), target)
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def whole(model: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> list[float]:
    optimizer, schedule = optimizer_of(model, len(batches))
    step = torch_pjrt.train_step(model, optimizer, F.cross_entropy)
    losses = []
    for x, target in batches:
        losses.append(step(x, target).item())
        schedule.step()
    return losses


def optimizer_of(
    model: nn.Module, steps: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    return optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)


def main(steps: int) -> None:
    tasks: list[tuple[str, Callable[[], nn.Module], Callable[[int], tuple[Tensor, Tensor]]]] = [
        ("convolutional net", convolutional, images),
        ("transformer", Transformer, sentences),
    ]
    for name, make, sample in tasks:
        torch.manual_seed(0)
        model = make()
        batches = [sample(16) for _ in range(steps)]
        of_stock = stock(copy.deepcopy(model), batches)
        of_whole = whole(model, batches)
        print(f"{name}: step, loss by the stock loop, loss by train_step")
        for k in range(0, steps, max(1, steps // 8)):
            print(f"{k:5} {of_stock[k]:10.4f} {of_whole[k]:10.4f}")
        torch.testing.assert_close(of_whole, of_stock, rtol=1e-2, atol=1e-2)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
