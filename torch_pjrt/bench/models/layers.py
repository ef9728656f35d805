"""Layers that several of the convolutional models share."""

from __future__ import annotations

from torch import nn


def conv_norm(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """A convolution that keeps the size (but for the stride), without bias, and its batch norm."""
    convolution = nn.Conv2d(
        inputs,
        outputs,
        kernel,
        stride=stride,
        padding=kernel // 2,
        groups=groups,
        bias=False,
    )
    return [convolution, nn.BatchNorm2d(outputs)]


def initialize_for_relu(model: nn.Module) -> None:
    """He's initialisation of every convolution and linear layer, which keeps a signal's variance.

    Biases become small random numbers rather than zeros: a bias that is lost must change results.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, mode="fan_in", nonlinearity="relu")
            if module.bias is not None:
                nn.init.normal_(module.bias, std=0.05)
