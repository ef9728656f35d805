"""Ops of optimizers: those on lists of tensors, and those with a number that scales an operand.

Where that number is symbolic, such as a learning rate that changes, it becomes an operand of a
product: there AOTAutograd makes it a tensor, and elsewhere a constant that each change compiles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from . import torch_internals

aten = torch.ops.aten
Rewrite = Callable[..., Any]


def _computed(compute: Callable[..., Tensor], self: Tensor, *others: Any) -> Tensor:
    """The 16-bit dtypes are computed in float32, and rounded once."""
    tensors = [t for t in (self, *others) if isinstance(t, Tensor)]
    dtype = torch.result_type(self, tensors[1]) if len(tensors) > 1 else self.dtype
    for t in tensors[2:]:
        dtype = torch.promote_types(dtype, t.dtype) if t.dim() else dtype
    if dtype not in (torch.float16, torch.bfloat16):
        return compute(self, *others)
    wide = [t.float() if isinstance(t, Tensor) else t for t in (self, *others)]
    return compute(*wide).to(dtype)


def _times(x: Tensor, factor: Any) -> Tensor:
    return x if isinstance(factor, int | float) and factor == 1 else x * factor


def _add(x: Tensor, y: Any, alpha: Any = 1) -> Tensor:
    if not isinstance(y, Tensor):
        return x + y
    return _computed(lambda x, y: x + _times(y, alpha), x, y)


def _sub(x: Tensor, y: Any, alpha: Any = 1) -> Tensor:
    if not isinstance(y, Tensor):
        return x - y
    return _computed(lambda x, y: x - _times(y, alpha), x, y)


def _addcmul(x: Tensor, a: Tensor, b: Tensor, value: Any = 1) -> Tensor:
    return _computed(lambda x, a, b: x + _times(a * b, value), x, a, b)


def _addcdiv(x: Tensor, a: Tensor, b: Tensor, value: Any = 1) -> Tensor:
    return _computed(lambda x, a, b: x + _times(a / b, value), x, a, b)


def _fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return _computed(lambda a, b, c: a * b + c, a, b, c)


def _lerp(x: Tensor, end: Tensor, weight: Any) -> Tensor:
    return _computed(lambda x, end: x + (end - x) * weight, x, end)


def _copy(x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    return aten.copy(x, source)


def _norm(x: Tensor, ord: Any = 2, dtype: torch.dtype | None = None) -> Tensor:
    return torch.linalg.vector_norm(x, ord, dtype=dtype)


# Of one tensor; any other op is torch's function of that name.
_ONE: dict[str, Callable[..., Tensor]] = {
    "add": _add,
    "addcdiv": _addcdiv,
    "addcmul": _addcmul,
    "clamp_max": torch.clamp_max,
    "clamp_min": torch.clamp_min,
    "copy": _copy,
    "norm": _norm,
    "sub": _sub,
    "zero": torch.zeros_like,
}


def _limit(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """maximum and minimum take a number here, which torch's functions don't."""

    def limit(x: Tensor, other: Any) -> Tensor:
        return function(x, other) if isinstance(other, Tensor) else number(x, other)

    number = torch.clamp_min if name == "maximum" else torch.clamp_max
    return limit


def _of_list(op: torch_internals.OpOverload) -> Rewrite | None:
    """_foreach_<name>: the op of each tensor, with that item of each argument that is a list."""
    name = op._schema.name.removeprefix("aten::_foreach_")
    one = _ONE.get(name) or getattr(torch, name, None)
    if one is None:
        return None
    if name in ("maximum", "minimum"):
        one = _limit(name, one)
    arguments = op._schema.arguments
    is_list = {a.name: torch_internals.argument_kind(a)[1] for a in arguments}

    def each(*args: Any, **kwargs: Any) -> list[Tensor]:
        given = {a.name: value for a, value in zip(arguments, args, strict=False)} | kwargs
        lists = {k: v for k, v in given.items() if is_list[k]}
        rest = {k: v for k, v in given.items() if not is_list[k]}
        count = min(len(items) for items in lists.values())
        positional = [a.name for a in arguments if not a.kwarg_only]
        extra = {k: v for k, v in rest.items() if k not in positional}
        names = [k for k in positional if k in given]
        return [
            one(*(lists[k][i] if k in lists else rest[k] for k in names), **extra)
            for i in range(count)
        ]

    return each


def _if_symbolic(rewrite: Rewrite, position: int, name: str) -> Rewrite:
    """The rewrite where the argument, a number, is symbolic; else the op keeps its rule."""

    def rewritten(*args: Any, **kwargs: Any) -> Any:
        factor = args[position] if len(args) > position else kwargs.get(name)
        if not isinstance(factor, torch.SymFloat):
            return NotImplemented
        return rewrite(*args, **kwargs)

    return rewritten


def decompositions() -> dict[Any, Rewrite]:
    table: dict[Any, Rewrite] = {
        torch_internals.FMA: _fma,
        aten.add.Tensor: _if_symbolic(_add, 2, "alpha"),
        aten.addcdiv.default: _if_symbolic(_addcdiv, 3, "value"),
        aten.addcmul.default: _if_symbolic(_addcmul, 3, "value"),
        aten.lerp.Scalar: _if_symbolic(_lerp, 2, "weight"),
        aten.sub.Tensor: _if_symbolic(_sub, 2, "alpha"),
    }
    for op in torch_internals.foreach_ops():
        rewrite = _of_list(op)
        if rewrite is not None:
            table[op] = rewrite
    return table
