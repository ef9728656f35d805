"""Fractional pooling, and its gradients, by gathering windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _starts(samples: Tensor, size: int, windows: int, kernel: int) -> Tensor:
    """Where the windows of one dim start, [..., windows], by a number in [0, 1) each."""
    last = torch.full((*samples.shape, 1), size - kernel, dtype=torch.int64)
    if windows == 1:
        return last
    alpha = (size - kernel) / (windows - 1)
    number = torch.arange(windows - 1, dtype=samples.dtype)
    u = samples.unsqueeze(-1)
    starts = ((number + u) * alpha).to(torch.int64) - (u * alpha).to(torch.int64)
    return torch.cat([starts, last], -1)


def _pooled(
    x: Tensor, kernel: Sequence[int], windows: Sequence[int], samples: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Maxima of x [n, c, ...] and where they stand in the image. `samples`: [n, c] for each dim."""
    rank = len(kernel)
    place = torch.zeros((), dtype=torch.int64)
    for k in range(rank):
        size = int(x.shape[2 + k])
        starts = _starts(samples[k], size, int(windows[k]), int(kernel[k]))
        at = starts.unsqueeze(-1) + torch.arange(int(kernel[k]))  # [n, c, windows, kernel]
        shape = [*at.shape[:2], *[1] * (2 * rank)]
        shape[2 + k], shape[2 + rank + k] = at.shape[2:]
        place = place * size + at.view(shape)
    place = place.flatten(-rank)
    values = x.flatten(2).gather(2, place.flatten(2)).view(place.shape)
    top, nth = values.max(-1)
    return top, place.gather(-1, nth.unsqueeze(-1)).squeeze(-1)


def _fractional(rank: int) -> Callable[..., Any]:
    # Eager takes the numbers of 2-d samples for width and height.
    order = (1, 0) if rank == 2 else (0, 1, 2)

    def rewritten(
        self: Tensor, kernel_size: Sequence[int], output_size: Sequence[int], samples: Tensor
    ) -> tuple[Tensor, Tensor]:
        is_batch = self.dim() == rank + 2
        x = self if is_batch else self.unsqueeze(0)
        values, places = _pooled(x, kernel_size, output_size, [samples[..., k] for k in order])
        return (values, places) if is_batch else (values.squeeze(0), places.squeeze(0))

    return rewritten


def _fractional_backward(
    grad_output: Tensor,
    self: Tensor,
    kernel_size: Sequence[int],
    output_size: Sequence[int],
    indices: Tensor,
) -> Tensor:
    rank = len(kernel_size)
    zeros = torch.zeros_like(self).flatten(-rank)
    summed = zeros.scatter_add(-1, indices.flatten(-rank), grad_output.flatten(-rank))
    return summed.view(self.shape)


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {
        aten.fractional_max_pool2d.default: _fractional(2),
        aten.fractional_max_pool2d_backward.default: _fractional_backward,
        aten.fractional_max_pool3d.default: _fractional(3),
        aten.fractional_max_pool3d_backward.default: _fractional_backward,
    }
