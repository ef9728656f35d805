"""Resizing of images with antialiasing: of each dim a product with a matrix of weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from . import torch_internals

aten = torch.ops.aten

Size = Any  # int or SymInt


def _tent(x: Tensor) -> Tensor:
    return (1 - x.abs()).clamp(min=0)


def _cubic(x: Tensor) -> Tensor:
    """Keys' kernel with a = -0.5."""
    a, x = -0.5, x.abs()
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return torch.where(x < 1, near, torch.where(x < 2, far, 0.0))


# The kernel, and the width that it covers.
_KERNELS: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {
    "bilinear": (_tent, 2),
    "bicubic": (_cubic, 4),
}


def _weights(
    kind: str, before: Size, after: Size, align_corners: bool, given: float | None, dtype: Any
) -> Tensor:
    """[after, before]: what each old element counts in each new one."""
    kernel, width = _KERNELS[kind]
    if align_corners:
        scale: Any = (before - 1) / (after - 1) if after > 1 else 0.0
    else:
        scale = 1 / given if given is not None and given > 0 else before / after
    reach = scale if scale >= 1 else 1.0
    center = scale * (torch.arange(after, dtype=torch.float64) + 0.5)
    place = torch.arange(before)
    first = (center - width * 0.5 * reach + 0.5).to(torch.int64).clamp(min=0)
    end = (center + width * 0.5 * reach + 0.5).to(torch.int64)
    counts = (place >= first.unsqueeze(1)) & (place < end.unsqueeze(1))
    weights = kernel((place - center.unsqueeze(1) + 0.5) / reach)
    weights = torch.where(counts, weights, 0.0)
    total = weights.sum(1, keepdim=True)
    return (weights / torch.where(total == 0, 1.0, total)).to(dtype)


def _matrices(
    kind: str,
    before: Sequence[Size],
    after: Sequence[Size],
    align_corners: bool,
    scales: Sequence[float | None],
    dtype: torch.dtype,
) -> list[Tensor]:
    return [
        _weights(kind, b, a, align_corners, scale, dtype)
        for b, a, scale in zip(before, after, scales, strict=True)
    ]


def _resize(kind: str) -> Callable[..., Tensor]:
    def resize(
        self: Tensor,
        output_size: Sequence[Size],
        align_corners: bool,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> Tensor:
        if self.dtype not in (torch.float32, torch.float64):  # of others eager has other kernels
            return NotImplemented
        scales = (scales_h, scales_w)
        rows, columns = _matrices(
            kind, self.shape[-2:], output_size, align_corners, scales, self.dtype
        )
        result = rows @ (self @ columns.t())
        return result.contiguous(memory_format=torch_internals.suggested_format(self))

    return resize


def _resize_backward(kind: str) -> Callable[..., Tensor]:
    def resize_backward(
        grad_output: Tensor,
        output_size: Sequence[Size],
        input_size: Sequence[Size],
        align_corners: bool,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> Tensor:
        scales = (scales_h, scales_w)
        rows, columns = _matrices(
            kind, input_size[-2:], output_size, align_corners, scales, grad_output.dtype
        )
        result = rows.t() @ (grad_output @ columns)
        return result.contiguous(memory_format=torch_internals.suggested_format(grad_output))

    return resize_backward


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {
        aten._upsample_bilinear2d_aa.default: _resize("bilinear"),
        aten._upsample_bilinear2d_aa_backward.default: _resize_backward("bilinear"),
        aten._upsample_bicubic2d_aa.default: _resize("bicubic"),
        aten._upsample_bicubic2d_aa_backward.default: _resize_backward("bicubic"),
    }
