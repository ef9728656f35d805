"""Networks whose ReLUs and max pools are told which side each element takes.

What lies nearly at 0 before a ReLU, or nearly equal in a max pool's window, takes the side that
rounding decides. One such element moves the gradients of all layers before it by some 1e-3, where
the ops' own errors are some 1e-6: which of two ways to compute has more of them is chance. With the
sides that elements take in float64, only the errors of the ops are left.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_KINDS = (nn.ReLU, nn.ReLU6, nn.MaxPool2d)


class Sided(nn.Module):
    """In place of one of _KINDS, which is called once in a forward. Until take() it is that.

    where: of a ReLU, bool, whether an element passes; of a max pool, int64, the place of each
    maximum in its image. outside: of a ReLU6, what the elements are that don't pass. These are
    buffers outside of the state_dict.
    """

    where: Tensor
    outside: Tensor

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.is_given = False
        self.register_buffer("where", torch.empty(0), persistent=False)
        self.register_buffer("outside", torch.empty(0), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if not self.is_given:
            self.where, self.outside = self._look(x.detach().clone())
            return self.inner(x)
        if isinstance(self.inner, nn.MaxPool2d):
            return x.flatten(2).gather(2, self.where.flatten(2)).view(self.where.shape)
        return torch.where(self.where, x, self.outside)

    def _look(self, x: Tensor) -> tuple[Tensor, Tensor]:
        pool = self.inner
        if isinstance(pool, nn.MaxPool2d):
            window = (pool.kernel_size, pool.stride, pool.padding, pool.dilation, pool.ceil_mode)
            return F.max_pool2d(x, *window, return_indices=True)[1], x.new_zeros(())
        if isinstance(pool, nn.ReLU6):
            return (x > 0) & (x < 6), x.clamp(0, 6)
        return x > 0, x.new_zeros(())


def has_sides(model: nn.Module) -> bool:
    return any(isinstance(module, _KINDS) for module in model.modules())


def sided(model: nn.Module) -> nn.Module:
    """The model itself, with Sided modules."""
    for parent in list(model.modules()):
        for name, module in list(parent.named_children()):
            if isinstance(module, _KINDS):
                setattr(parent, name, Sided(module))
    return model


def take(model: nn.Module, looked: nn.Module, arguments: tuple[Any, ...]) -> None:
    """Gives a model, which sided() made, the sides that elements take in another: that one runs on
    the arguments, in its own dtype, unless it has its sides already."""
    pairs = list(zip(_sided_modules(model), _sided_modules(looked), strict=True))
    if not all(source.is_given for _, source in pairs):
        with torch.no_grad():
            looked(*arguments)
    for module, source in pairs:
        source.is_given = True
        if module is source:
            continue
        if not module.is_given:
            module.where, module.outside = torch.empty_like(source.where), source.outside.float()
        module.is_given = True
        module.where.copy_(source.where)
        module.outside.copy_(source.outside)


def _sided_modules(model: nn.Module) -> list[Sided]:
    return [module for module in model.modules() if isinstance(module, Sided)]
