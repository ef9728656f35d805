"""Modes, histograms, places of what isn't zero, and distances of all pairs, in terms of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .checks import checked

aten = torch.ops.aten


def _mode(self: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The most frequent element, the least of several, and the last place of it."""
    if self.dim() == 0:
        return self.clone(), torch.zeros((), dtype=torch.int64)
    x, place = (t.movedim(dim, -1) for t in torch.sort(self, dim=dim, stable=True))
    number = torch.arange(x.shape[-1])
    differs = x[..., 1:] != x[..., :-1]
    edge = torch.ones((*x.shape[:-1], 1), dtype=torch.bool)
    first = torch.where(torch.cat([edge, differs], -1), number, 0).cummax(-1).values
    length = torch.where(torch.cat([differs, edge], -1), number - first + 1, 0)
    at = length.argmax(-1, keepdim=True)
    values, places = x.gather(-1, at), place.gather(-1, at)
    if keepdim:
        return values.movedim(-1, dim), places.movedim(-1, dim)
    return values.squeeze(-1), places.squeeze(-1)


def _histc(self: Tensor, bins: int = 100, min: Any = 0, max: Any = 0) -> Tensor:
    """How many elements are in each of so many intervals of one size."""
    x = self.reshape(-1)
    low, high = torch.full((), min, dtype=x.dtype), torch.full((), max, dtype=x.dtype)
    if min == max and x.numel() > 0:
        low, high = x.amin(), x.amax()
        is_bad = ~(torch.isfinite(low) & torch.isfinite(high))
        message = "histogram: the range of the elements is not finite"
        low, high = checked(low, is_bad, message), checked(high, is_bad, message)
    is_point = low == high
    low, high = torch.where(is_point, low - 1, low), torch.where(is_point, high + 1, high)
    nth = ((x - low) / (high - low) * bins).to(torch.int64).clamp(0, bins - 1)
    inside = (x >= low) & (x <= high)
    counts = torch.zeros(bins, dtype=torch.int64)
    return counts.index_put((nth,), inside.to(torch.int64), accumulate=True).to(self.dtype)


def _nonzero_static(self: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The positions of the first `size` elements that aren't 0, a row each."""
    if self.numel() == 0:
        return torch.full((size, self.dim()), fill_value, dtype=torch.int64)
    flat = self.reshape(-1) != 0
    count = flat.to(torch.int64).cumsum(0)
    # One row more takes what is left over.
    row = torch.where(flat & (count <= size), count - 1, size)
    numbers = torch.arange(flat.shape[0])
    found = torch.zeros(size + 1, dtype=torch.int64).index_put((row,), numbers)[:size]
    columns = []
    for extent in reversed(self.shape):
        columns.append(found % extent)
        found = torch.div(found, extent, rounding_mode="floor")
    if not columns:
        return torch.empty((size, 0), dtype=torch.int64)
    is_found = torch.arange(size) < count[-1]
    return torch.where(is_found.unsqueeze(1), torch.stack(columns[::-1], 1), fill_value)


def _pairs(self: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The rows of all pairs, and their differences."""
    n = self.shape[0]
    first, second = torch.triu_indices(n, n, 1).unbind()
    return first, second, self.index_select(0, first) - self.index_select(0, second)


def _pdist(self: Tensor, p: float = 2) -> Tensor:
    _, _, difference = _pairs(self)
    if difference.numel() == 0:  # of which vector_norm takes no maximum
        return difference.sum(-1)
    return torch.linalg.vector_norm(difference, p, -1)


def _slope(difference: Tensor, distance: Tensor, p: float) -> Tensor:
    """The derivative of a distance by a coordinate of the first point."""
    sign = difference.sign()
    if p == float("inf"):
        return sign * (difference.abs() == distance)
    ratio = difference.abs() / distance
    return torch.where((distance == 0) | (difference == 0), 0.0, sign * ratio ** (p - 1))


def _pdist_backward(grad: Tensor, self: Tensor, p: float, pdist: Tensor) -> Tensor:
    if p == 0:
        return torch.zeros_like(self)
    first, second, difference = _pairs(self)
    slope = _slope(difference, pdist.unsqueeze(-1), p) * grad.unsqueeze(-1)
    return torch.zeros_like(self).index_add(0, first, slope).index_add(0, second, -slope)


def _cdist_backward(grad: Tensor, x1: Tensor, x2: Tensor, p: float, cdist: Tensor) -> Tensor:
    """Of x1 [..., n, d], for the distances [..., n, m] to the points of x2."""
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    if p == 0:
        return torch.zeros_like(difference).sum(-2)
    return (_slope(difference, cdist.unsqueeze(-1), p) * grad.unsqueeze(-1)).sum(-2)


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {
        aten._cdist_backward.default: _cdist_backward,
        aten._pdist_backward.default: _pdist_backward,
        aten._pdist_forward.default: _pdist,
        aten.histc.default: _histc,
        aten.mode.default: _mode,
        aten.nonzero_static.default: _nonzero_static,
    }
