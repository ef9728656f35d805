"""multilabel_margin_loss, whose decomposition in torch counts the padding of a row's labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Tensor = torch.Tensor
aten = torch.ops.aten

_NONE, _MEAN, _SUM = range(3)  # reductions


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {aten.multilabel_margin_loss_forward.default: _forward}


def _margins(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """1 - score of label j + score of class k, [rows, j, k], and 0 where there is no label j or k
    is itself a label; whether k is a label [rows, k].

    The labels of a row end at its first -1.
    """
    classes = torch.arange(scores.shape[1])
    end = torch.where(labels == -1, classes, scores.shape[1]).amin(1, keepdim=True)
    is_there = classes < end
    labels = torch.where(is_there, labels, 0)
    is_label = ((classes == labels.unsqueeze(2)) & is_there.unsqueeze(2)).any(1)
    margins = 1 - scores.gather(1, labels).unsqueeze(2) + scores.unsqueeze(1)
    counts = is_there.unsqueeze(2) & ~is_label.unsqueeze(1)
    return torch.where(counts, margins, 0.0), is_label


def _forward(self: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    """The loss, and 1 where a class is a label, of the input's type."""
    scores, labels = torch.atleast_2d(self), torch.atleast_2d(target)
    margins, is_label = _margins(_opmath(scores), labels)
    losses = margins.clamp(min=0).sum((1, 2)) / scores.shape[1]
    is_label = is_label.to(self.dtype).view(self.shape)
    if reduction == _NONE:
        loss = losses if self.dim() == 2 else losses.squeeze(0)
    else:
        loss = losses.sum() if reduction == _SUM else losses.mean()
    return loss.to(self.dtype), is_label


def _opmath(t: Tensor) -> Tensor:
    return t.float() if t.dtype in (torch.float16, torch.bfloat16) else t
