"""Models that compute next to nothing, by which the cost of a call itself shows. Each maps float32
[n, 16] to [n, 16]."""

from __future__ import annotations

from torch import nn

SIZE = 16


def _layers(count: int) -> nn.Module:
    """So many linear layers, each with a ReLU behind it: two parameters per layer."""
    layers: list[nn.Module] = []
    for _ in range(count):
        layers += [nn.Linear(SIZE, SIZE), nn.ReLU()]
    return nn.Sequential(*layers)


def mlp_3_layers() -> nn.Module:
    return _layers(3)


def mlp_200_parameters() -> nn.Module:
    return _layers(100)
