"""Ops that raise eager's exception for some values, in terms of ops that don't raise it.

`checked(t, bad, error, message, sizes)` is t; the call raises if an element of `bad` is true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from . import torch_internals

aten = torch.ops.aten

_library = torch.library.Library("torch_pjrt", "FRAGMENT")
_library.define(
    "checked(Tensor self, Tensor bad, str error, str message, SymInt[] sizes=[]) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)


Size = int | torch.SymInt


@torch.library.register_fake("torch_pjrt::checked", lib=_library)
def _checked_type(
    self: Tensor, bad: Tensor, error: str, message: str, sizes: Sequence[Size] = ()
) -> Tensor:
    return torch.empty_like(self)


@torch.library.impl(_library, "checked", "CPU")
def _checked_constant(
    self: Tensor, bad: Tensor, error: str, message: str, sizes: Sequence[Size] = ()
) -> Tensor:
    """For tracing alone, which computes what constants give. The call is what raises."""
    return self.clone()


def checked(
    self: Tensor,
    bad: Tensor,
    message: str,
    error: str = "RuntimeError",
    sizes: Sequence[Size] = (),
) -> Tensor:
    """self, unless an element of `bad` is true: then the call raises `error`.

    "{}" in the message stands for the first such element of self, if that is an integer, "{0}" for
    the first of `sizes`, and so on.
    """
    return torch.ops.torch_pjrt.checked(self, bad, error, message, sizes)


def _within(index: Tensor, low: int, size: Size, message: str, error: str = "IndexError") -> Tensor:
    return checked(index, (index < low) | (index >= size), message, error, [size])


def _rows(self: Tensor, dim: int) -> tuple[Tensor, int, Size]:
    """The tensor with one dim at least, the dim counted from the front, and its size."""
    x = self if self.dim() else self.unsqueeze(0)
    dim = dim % x.dim()
    return x, dim, x.shape[dim]


def _at(dim: int, index: Tensor) -> list[Tensor | None]:
    return [*[None] * dim, index.reshape(-1)]


def _index_add(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    x, dim, size = _rows(self, dim)
    message, error = (
        f"index {{}} is out of bounds for dimension {dim} with size {{0}}",
        "RuntimeError",
    )
    # Eager has another kernel for these.
    if x.dim() == 1 or alpha != 1 or 0 < dim < x.dim() - 1:
        message, error = "index out of range in self", "IndexError"
    at = _within(index, 0, size, message, error)
    values = source if source.dim() else source.unsqueeze(0)
    values = values if alpha == 1 else values * alpha
    return aten.index_put(x, _at(dim, at), values, True).view(self.shape)


def _index_copy(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    x, dim, size = _rows(self, dim)
    message = f"index_copy_(): index {{}} is out of bounds for dimension {dim} with size {{0}}"
    at = _within(index, 0, size, message)
    values = source if source.dim() else source.unsqueeze(0)
    return aten.index_put(x, _at(dim, at), values).view(self.shape)


def _nll_loss(op: torch_internals.OpOverload) -> Callable[..., Any]:
    decomposed = torch_internals.decomposition(op)

    def rewritten(
        self: Tensor, target: Tensor, weight: Any, reduction: int, ignore_index: int
    ) -> Any:
        classes = self.shape[1 if self.dim() > 1 else 0]
        bad = ((target < 0) | (target >= classes)) & (target != ignore_index)
        target = checked(target, bad, "Target {} is out of bounds.", "IndexError")
        return decomposed(self, target, weight, reduction, ignore_index)

    return rewritten


def _masked_scatter(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    shape = torch.broadcast_shapes(self.shape, mask.shape)
    here = mask.expand(shape)
    count = here.reshape(-1).to(torch.int64).cumsum(0)
    given = source.numel()
    message = "Number of elements of source < number of ones in mask"
    nth = checked(count - 1, count > given, message)
    values = source.reshape(-1)
    if given == 0:  # then nothing may be written
        values = self.new_zeros(1)
    values = values.index_select(0, nth.clamp(min=0)).view(shape)
    return torch.where(here, values, self)


def _binary_cross_entropy() -> Callable[..., Tensor]:
    decomposed = torch_internals.decomposition(aten.binary_cross_entropy.default)

    def rewritten(
        self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1
    ) -> Tensor:
        message = "all elements of {} should be between 0 and 1"
        self = checked(self, ~((self >= 0) & (self <= 1)), message.format("input"))
        target = checked(target, ~((target >= 0) & (target <= 1)), message.format("target"))
        return decomposed(self, target, weight, reduction)

    return rewritten


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {
        aten.binary_cross_entropy.default: _binary_cross_entropy(),
        aten.index_add.default: _index_add,
        aten.index_copy.default: _index_copy,
        aten.masked_scatter.default: _masked_scatter,
        aten.nll_loss_forward.default: _nll_loss(aten.nll_loss_forward.default),
        aten.nll_loss2d_forward.default: _nll_loss(aten.nll_loss2d_forward.default),
    }
