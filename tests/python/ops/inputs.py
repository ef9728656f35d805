"""Tensors on which rules go wrong: special values, extreme integers, unusual shapes and layouts."""

from __future__ import annotations

import torch

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
SIGNED = [torch.int64, torch.int32, torch.int16, torch.int8]
INTS = [*SIGNED, torch.uint8]
NUMBERS = [*FLOATS, *INTS]
ALL = [*NUMBERS, torch.bool]

INF = float("inf")
NAN = float("nan")


def special(dtype: torch.dtype) -> torch.Tensor:
    """Values at which functions change their form; NaN, infinities and extremes among them."""
    if dtype is torch.bool:
        return torch.tensor([True, False])
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        return torch.tensor([info.min, info.max, info.min + 1, 0, 1, 2, 3, 7, 100], dtype=dtype)
    numbers = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 0.1, 12.25, 100.0, 1e-3, INF]
    signed = [s * x for x in numbers for s in (1, -1)]
    return torch.tensor([*signed, NAN], dtype=dtype)


def plain(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    """Small numbers with repetitions: -4 to 4, or 0 and 1."""
    generator = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator).to(dtype)
    if dtype.is_complex:
        return torch.randn(shape, generator=generator, dtype=torch.complex128).to(dtype)
    if dtype.is_floating_point:
        return (torch.randn(shape, generator=generator, dtype=torch.float64) * 1.5).to(dtype)
    low = 0 if dtype is torch.uint8 else -4
    return torch.randint(low, 5, shape, generator=generator).to(dtype)


def layouts(dtype: torch.dtype) -> list[torch.Tensor]:
    """Shapes and memory orders: 0-d, empty, permuted, channels-last, strided, expanded."""
    return [
        plain(dtype),
        plain(dtype, 0),
        plain(dtype, 2, 0, 3),
        plain(dtype, 3, 1, 4).transpose(0, 2),
        plain(dtype, 2, 3, 2, 2).contiguous(memory_format=torch.channels_last),
        plain(dtype, 3, 8)[:, ::2],
        plain(dtype, 4, 6)[1:, 1:],
    ]


def pairs(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Every value with every value, by broadcasting."""
    return values[:, None], values[None, :]
