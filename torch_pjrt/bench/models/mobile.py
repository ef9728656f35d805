"""Networks of inverted residuals: MobileNetV2 (Sandler et al. 2018), MnasNet (Tan et al. 2018)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from .layers import conv_norm, initialize_for_relu

CLASSES = 1000
LAST_CHANNELS = 1280

Activation = Callable[[], nn.Module]
# (expansion, channels out, blocks, stride of the first block, kernel of the depthwise convolution)
Stage = tuple[int, int, int, int, int]

MOBILENET_V2: tuple[Stage, ...] = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 32, 3, 2, 3),
    (6, 64, 4, 2, 3),
    (6, 96, 3, 1, 3),
    (6, 160, 3, 2, 3),
    (6, 320, 1, 1, 3),
)
MNASNET: tuple[Stage, ...] = (
    (1, 16, 1, 1, 3),
    (3, 24, 3, 2, 3),
    (3, 40, 3, 2, 5),
    (6, 80, 3, 2, 5),
    (6, 96, 2, 1, 3),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)


class InvertedResidual(nn.Module):
    """Widen by 1x1, filter each channel, narrow by 1x1 without activation; added to x if it fits.

    [n, c, h, w] -> [n, outputs, h / stride, w / stride]. An expansion of 1 has no widening.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        expansion: int,
        stride: int,
        kernel: int,
        activation: Activation,
    ) -> None:
        super().__init__()
        wide = expansion * inputs
        widening = [] if expansion == 1 else [*conv_norm(inputs, wide, 1), activation()]
        self.branch = nn.Sequential(
            *widening,
            *conv_norm(wide, wide, kernel, stride, groups=wide),
            activation(),
            *conv_norm(wide, outputs, 1),
        )
        self.adds_input = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.branch(x)
        return x + y if self.adds_input else y


def _network(stages: tuple[Stage, ...], activation: Activation) -> nn.Module:
    """float32 [n, 3, h, w] -> [n, 1000]."""
    channels = 32
    layers: list[nn.Module] = [*conv_norm(3, channels, 3, 2), activation()]
    for expansion, outputs, blocks, first_stride, kernel in stages:
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            layers.append(
                InvertedResidual(channels, outputs, expansion, stride, kernel, activation)
            )
            channels = outputs
    layers += [
        *conv_norm(channels, LAST_CHANNELS, 1),
        activation(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(LAST_CHANNELS, CLASSES),
    ]
    model = nn.Sequential(*layers)
    initialize_for_relu(model)
    return model


def mobilenet_v2() -> nn.Module:
    return _network(MOBILENET_V2, lambda: nn.ReLU6(inplace=True))


def mnasnet1_0() -> nn.Module:
    return _network(MNASNET, lambda: nn.ReLU(inplace=True))
