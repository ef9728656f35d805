"""What training is asked for before `--performance` times it: a first step that does what eager's
does.

It needs no compile and no step that isn't timed anyway. How exact gradients are is for --accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

# How far the loss and all parameters' change together may be from eager's, relative to these.
LOSS, CHANGE = 1e-3, 2e-2
# With dropout each way has a mask of its own: then of the change only the size is compared.
LOSS_WITH_DROPOUT, SIZE_WITH_DROPOUT = 0.5, 3.0


@dataclass(frozen=True)
class FirstStep:
    """loss: before it. parameters: before and after it."""

    loss: float
    before: list[Tensor]
    after: list[Tensor]

    @staticmethod
    def of(loss: Tensor, before: nn.Module, after: nn.Module) -> FirstStep:
        return FirstStep(float(loss), _parameters(before), [p.clone() for p in _parameters(after)])


@dataclass(frozen=True)
class Glance:
    """error: of the change of all parameters together, relative to eager's; with dropout how far
    the ratio of their sizes is from 1. problem: "" if all is well."""

    error: float
    problem: str


def look(loss: Tensor, model: nn.Module, eager: FirstStep, has_dropout: bool) -> Glance:
    """Compares a first step, after which `model` is as it is now, with eager's from its weights."""
    found, size = _parameters(model), _distance(eager.after, eager.before)
    if has_dropout:
        ratio = _distance(found, eager.before) / size
        error, change_is_fine = abs(ratio - 1), 1 / SIZE_WITH_DROPOUT <= ratio <= SIZE_WITH_DROPOUT
    else:
        error = _distance(found, eager.after) / size
        change_is_fine = error <= CHANGE
    off = abs(float(loss) - eager.loss) / abs(eager.loss)
    if not off <= (LOSS_WITH_DROPOUT if has_dropout else LOSS):
        return Glance(error, f"the first loss is {float(loss):.6g}, eager's {eager.loss:.6g}")
    if not change_is_fine:
        what = "sizes differ by" if has_dropout else "difference is"
        return Glance(error, f"the first step changes parameters otherwise: {what} {error:.1e}")
    return Glance(error, "")


def _parameters(model: nn.Module) -> list[Tensor]:
    return [p.detach().cpu() for p in model.parameters()]


def _distance(a: Sequence[Tensor], b: Sequence[Tensor]) -> float:
    squares = (float((x - y).double().square().sum()) for x, y in zip(a, b, strict=True))
    with torch.no_grad():
        return math.sqrt(sum(squares))
