"""Residual networks (He et al. 2015) and their grouped form ResNeXt (Xie et al. 2016)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from .layers import conv_norm, initialize_for_relu

CLASSES = 1000
STAGE_WIDTHS = (64, 128, 256, 512)
BOTTLENECK_EXPANSION = 4

# (channels in, width of the stage, stride) -> the branch's layers and its channels out
Branch = Callable[[int, int, int], tuple[list[nn.Module], int]]


class Residual(nn.Module):
    """relu(branch(x) + shortcut(x)); [n, c, h, w] -> [n, c', h / stride, w / stride]."""

    def __init__(self, branch: list[nn.Module], inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(*branch)
        keeps_shape = inputs == outputs and stride == 1
        projection = [] if keeps_shape else conv_norm(inputs, outputs, 1, stride)
        self.shortcut = nn.Sequential(*projection)
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.relu(self.branch(x) + self.shortcut(x))
        return y


def _two_convolutions(inputs: int, width: int, stride: int) -> tuple[list[nn.Module], int]:
    layers = [
        *conv_norm(inputs, width, 3, stride),
        nn.ReLU(inplace=True),
        *conv_norm(width, width, 3),
    ]
    return layers, width


def _bottleneck(groups: int, group_width: int) -> Branch:
    """1x1, 3x3 (strided, in `groups` groups of group_width channels at the first stage), 1x1."""

    def branch(inputs: int, width: int, stride: int) -> tuple[list[nn.Module], int]:
        inner = groups * group_width * width // STAGE_WIDTHS[0]
        outputs = BOTTLENECK_EXPANSION * width
        layers = [
            *conv_norm(inputs, inner, 1),
            nn.ReLU(inplace=True),
            *conv_norm(inner, inner, 3, stride, groups),
            nn.ReLU(inplace=True),
            *conv_norm(inner, outputs, 1),
        ]
        return layers, outputs

    return branch


def _network(branch: Branch, depths: tuple[int, int, int, int]) -> nn.Module:
    """float32 [n, 3, h, w] -> [n, 1000]."""
    channels = STAGE_WIDTHS[0]
    layers: list[nn.Module] = [
        *conv_norm(3, channels, 7, 2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, stride=2, padding=1),
    ]
    for stage, (width, depth) in enumerate(zip(STAGE_WIDTHS, depths, strict=True)):
        for block in range(depth):
            stride = 2 if stage > 0 and block == 0 else 1
            body, outputs = branch(channels, width, stride)
            layers.append(Residual(body, channels, outputs, stride))
            channels = outputs
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)]
    model = nn.Sequential(*layers)
    initialize_for_relu(model)
    return model


def resnet18() -> nn.Module:
    return _network(_two_convolutions, (2, 2, 2, 2))


def resnet50() -> nn.Module:
    return _network(_bottleneck(1, 64), (3, 4, 6, 3))


def resnext50_32x4d() -> nn.Module:
    return _network(_bottleneck(32, 4), (3, 4, 6, 3))
