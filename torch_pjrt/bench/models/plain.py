"""Networks without residuals: AlexNet (Krizhevsky 2014), VGG-16 (Simonyan & Zisserman 2014),
SqueezeNet 1.1 (Iandola et al. 2016). Each maps float32 [n, 3, 224, 224] to [n, 1000]."""

from __future__ import annotations

import torch
from torch import nn

from .layers import initialize_for_relu

CLASSES = 1000


def _classifier(inputs: int) -> list[nn.Module]:
    """Three linear layers, dropout before the first two."""
    return [
        nn.Flatten(),
        nn.Dropout(),
        nn.Linear(inputs, 4096),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(4096, 4096),
        nn.ReLU(inplace=True),
        nn.Linear(4096, CLASSES),
    ]


def _initialized(layers: list[nn.Module]) -> nn.Module:
    model = nn.Sequential(*layers)
    initialize_for_relu(model)
    return model


def alexnet() -> nn.Module:
    """The one-tower form of 2014."""
    layers: list[nn.Module] = []
    inputs = 3
    # (channels out, kernel, stride, padding, pooled afterwards)
    for outputs, kernel, stride, padding, pooled in (
        (64, 11, 4, 2, True),
        (192, 5, 1, 2, True),
        (384, 3, 1, 1, False),
        (256, 3, 1, 1, False),
        (256, 3, 1, 1, True),
    ):
        layers += [nn.Conv2d(inputs, outputs, kernel, stride, padding), nn.ReLU(inplace=True)]
        if pooled:
            layers.append(nn.MaxPool2d(3, stride=2))
        inputs = outputs
    return _initialized([*layers, nn.AdaptiveAvgPool2d(6), *_classifier(inputs * 6 * 6)])


def vgg16() -> nn.Module:
    """Configuration D, without batch norm."""
    layers: list[nn.Module] = []
    inputs = 3
    for outputs, convolutions in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(convolutions):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(inplace=True)]
            inputs = outputs
        layers.append(nn.MaxPool2d(2))
    return _initialized([*layers, nn.AdaptiveAvgPool2d(7), *_classifier(inputs * 7 * 7)])


class Fire(nn.Module):
    """Squeezes to few channels, then expands by 1x1 and by 3x3 side by side.

    [n, inputs, h, w] -> [n, 2 * expanded, h, w].
    """

    def __init__(self, inputs: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeezed, 1)
        self.pointwise = nn.Conv2d(squeezed, expanded, 1)
        self.neighbours = nn.Conv2d(squeezed, expanded, 3, padding=1)
        self.first_relu, self.last_relu = nn.ReLU(), nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        few = self.first_relu(self.squeeze(x))
        y: torch.Tensor = self.last_relu(
            torch.cat([self.pointwise(few), self.neighbours(few)], dim=1)
        )
        return y


def squeezenet1_1() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, stride=2), nn.ReLU(inplace=True)]
    inputs = 64
    # (squeezed, expanded) of the Fire modules that follow each pooling
    for group in (
        ((16, 64), (16, 64)),
        ((32, 128), (32, 128)),
        ((48, 192), (48, 192), (64, 256), (64, 256)),
    ):
        layers.append(nn.MaxPool2d(3, stride=2, ceil_mode=True))
        for squeezed, expanded in group:
            layers.append(Fire(inputs, squeezed, expanded))
            inputs = 2 * expanded
    layers += [
        nn.Dropout(),
        nn.Conv2d(inputs, CLASSES, 1),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    ]
    return _initialized(layers)
