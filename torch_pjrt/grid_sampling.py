"""grid_sample in three dims, and its gradient in two, for which torch has no decomposition."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

Tensor = torch.Tensor
aten = torch.ops.aten

_BILINEAR, _NEAREST, _BICUBIC = range(3)
_ZEROS, _BORDER, _REFLECTION = range(3)
_CUBIC = -0.75  # of the convolution kernel, as in eager


class _Tap(NamedTuple):
    """A row or column that a sample reads: its position, its weight, and the weight's derivative
    by the sample's position, each [n, places]."""

    position: Tensor
    weight: Tensor
    slope: Tensor


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {
        aten.grid_sampler_2d_backward.default: _backward,
        aten.grid_sampler_3d.default: _of_volume,
    }


def _of_volume(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Samples [n, c, ...] of the volume [n, c, d, h, w] at the places of the grid [n, ..., 3]."""
    dtype = torch.float64 if input.dtype is torch.float64 else torch.float32
    n, channels, *sizes = input.shape
    volume = input.to(dtype).reshape(n, channels, -1)
    places = grid.to(dtype).reshape(n, -1, 3)
    by_axis = [
        _taps(places[..., 2 - k], size, interpolation_mode, padding_mode, align_corners)
        for k, size in enumerate(sizes)
    ]
    total = volume.new_zeros((n, channels, places.shape[1]))
    for taps in itertools.product(*by_axis):
        weight = torch.ones_like(places[..., 0])
        index = torch.zeros_like(weight, dtype=torch.int64)
        is_inside = torch.ones_like(weight, dtype=torch.bool)
        for tap, size in zip(taps, sizes, strict=True):
            is_within = (tap.position >= 0) & (tap.position < size)
            index = index * size + torch.where(is_within, tap.position, 0.0).to(torch.int64)
            is_inside = is_inside & is_within
            weight = weight * tap.weight
        at = index.unsqueeze(1).expand(total.shape)
        weight = torch.where(is_inside, weight, 0.0).unsqueeze(1)
        total = total + volume.gather(2, at) * weight
    return total.reshape(n, channels, *grid.shape[1:-1]).to(input.dtype)


def _backward(
    grad_output: Tensor,
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: list[bool],
) -> tuple[Tensor | None, Tensor | None]:
    """Of the image [n, c, h, w] and of the grid [n, ..., 2]."""
    dtype = torch.float64 if input.dtype is torch.float64 else torch.float32
    n, channels, height, width = input.shape
    image = input.to(dtype).reshape(n, channels, height * width)
    grad = grad_output.to(dtype).reshape(n, channels, -1)
    places = grid.to(dtype).reshape(n, -1, 2)

    def taps(axis: int, size: int) -> list[_Tap]:
        return _taps(places[..., axis], size, interpolation_mode, padding_mode, align_corners)

    columns, rows = taps(0, width), taps(1, height)
    grad_input = torch.zeros_like(image)
    grad_x, grad_y = torch.zeros_like(places[..., 0]), torch.zeros_like(places[..., 1])
    for row in rows:
        for column in columns:
            is_inside = (row.position >= 0) & (row.position < height)
            is_inside = is_inside & (column.position >= 0) & (column.position < width)
            at_row = torch.where(is_inside, row.position, 0.0).to(torch.int64)
            at_column = torch.where(is_inside, column.position, 0.0).to(torch.int64)
            spread = (at_row * width + at_column).unsqueeze(1).expand(grad.shape)
            if output_mask[0]:
                weight = torch.where(is_inside, row.weight * column.weight, 0.0)
                grad_input = grad_input.scatter_add(2, spread, grad * weight.unsqueeze(1))
            if output_mask[1] and interpolation_mode != _NEAREST:
                value = (image.gather(2, spread) * grad).sum(1)
                value = torch.where(is_inside, value, 0.0)
                grad_x = grad_x + value * row.weight * column.slope
                grad_y = grad_y + value * row.slope * column.weight
    grad_grid = torch.stack([grad_x, grad_y], -1).view(grid.shape).to(grid.dtype)
    return grad_input.view(input.shape).to(input.dtype), grad_grid


def _taps(
    place: Tensor, size: int, interpolation: int, padding: int, align_corners: bool
) -> list[_Tap]:
    position = ((place + 1) * size - 1) / 2
    scale = size / 2
    if align_corners:
        position = (place + 1) / 2 * (size - 1)
        scale = (size - 1) / 2
    if interpolation == _BICUBIC:
        first = position.floor()
        return [
            _Tap(_padded(first + k, size, padding, align_corners)[0], weight, slope * scale)
            for k, (weight, slope) in zip(range(-1, 3), _cubic(position - first), strict=True)
        ]
    position, slope = _padded(position, size, padding, align_corners)
    if interpolation == _NEAREST:
        return [_Tap(position.round(), torch.ones_like(position), torch.zeros_like(position))]
    first = position.floor()
    slope = slope * scale
    part = position - first
    return [_Tap(first, 1 - part, -slope), _Tap(first + 1, part, slope)]


def _padded(
    position: Tensor, size: int, padding: int, align_corners: bool
) -> tuple[Tensor, Tensor]:
    """Where the image is read for a position, and the derivative of that."""
    slope = torch.ones_like(position)
    if padding == _ZEROS:
        return position, slope
    if padding == _REFLECTION:
        position, slope = _reflected(position, size, align_corners)
    is_within = (position > 0) & (position < size - 1)
    return position.clamp(0, size - 1), torch.where(is_within, slope, 0.0)


def _reflected(position: Tensor, size: int, align_corners: bool) -> tuple[Tensor, Tensor]:
    """Back and forth between the centres of the outer pixels, or their outer edges."""
    low, span = (0.0, float(size - 1)) if align_corners else (-0.5, float(size))
    if span == 0:
        return torch.zeros_like(position), torch.zeros_like(position)
    distance = (position - low).abs()
    times = (distance / span).floor()
    rest = torch.fmod(distance, span)
    is_forth = torch.fmod(times, 2) == 0
    slope = torch.where(position < low, -1.0, 1.0) * torch.where(is_forth, 1.0, -1.0)
    return torch.where(is_forth, rest + low, span - rest + low), slope.to(position.dtype)


def _cubic(part: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Weights of the four neighbours for a sample at `part` between the inner two, and their
    derivatives by it."""
    a = _CUBIC

    def inner(x: Tensor) -> tuple[Tensor, Tensor]:
        return ((a + 2) * x - (a + 3)) * x * x + 1, (3 * (a + 2) * x - 2 * (a + 3)) * x

    def outer(x: Tensor) -> tuple[Tensor, Tensor]:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a, (3 * a * x - 10 * a) * x + 8 * a

    def mirrored(weight: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
        return weight, -slope

    return [outer(part + 1), inner(part), mirrored(*inner(1 - part)), mirrored(*outer(2 - part))]
