"""Why a step of training can't be one program: what has to run between its parts."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from types import CellType
from typing import Any

import torch
from torch import Tensor

from . import torch_internals
from .optimizers import known_optimizers, rule_of

__all__ = ["needs_closure", "objects_of", "of_class", "of_modules", "of_optimizer", "of_parameters"]

_EMPTY_CELL = CellType()  # of a variable that isn't assigned yet


def objects_of(function: Any) -> Iterator[Any]:
    """What a function is, is a method of, or names: in its closure or globals."""
    yield function
    yield getattr(function, "__self__", None)
    for cell in getattr(function, "__closure__", None) or ():
        if cell != _EMPTY_CELL:
            yield cell.cell_contents
    code, names = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    if code is not None:
        yield from (names.get(name) for name in code.co_names)


def needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Whether step() has to be given a function that computes the loss anew, as LBFGS's has."""
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def of_class(optimizer: torch.optim.Optimizer) -> str | None:
    """What stays as it is for an optimizer. None, here and below: nothing stands against it."""
    name = type(optimizer).__name__
    if needs_closure(optimizer):
        return f"{name} computes the loss several times in a step"
    if rule_of(optimizer) is None:
        return f"the update of {name} is not one of those known, of {known_optimizers()}"
    return None


def of_optimizer(optimizer: torch.optim.Optimizer) -> str | None:
    if torch_internals.has_own_step(optimizer):
        return "the optimizer has a step() of its own"
    if torch_internals.has_step_hooks(optimizer):
        return "the optimizer has hooks on its step"
    if any(group.get("differentiable") for group in optimizer.param_groups):
        return "the optimizer is differentiable"
    return None


def of_parameters(parameters: Iterable[Tensor]) -> str | None:
    for p in parameters:
        if torch_internals.has_gradient_hooks(p):
            return f"a parameter of shape {list(p.shape)} has hooks on its gradient"
        if p.is_complex():
            return f"a parameter of shape {list(p.shape)} is complex"
    return None


def of_modules(modules: Sequence[torch.nn.Module]) -> str | None:
    """`modules`: with all those within them."""
    if torch_internals.has_global_backward_hooks():
        return "there are backward hooks for all modules"
    for module in modules:
        if torch_internals.has_backward_hooks(module):
            return f"a {type(module).__name__} has backward hooks"
        if isinstance(module, torch.nn.parallel.DistributedDataParallel):
            return "DistributedDataParallel exchanges gradients during the backward"
        if isinstance(module, torch.nn.Embedding | torch.nn.EmbeddingBag) and module.sparse:
            return f"the gradients of a {type(module).__name__} are sparse"
    return None
