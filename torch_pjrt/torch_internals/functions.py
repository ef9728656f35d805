"""Compiled functions, modules and optimizers: what they are, and what hooks they have."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo import config as dynamo_config
from torch._dynamo.eval_frame import (
    OptimizedModule,
    innermost_fn,
)
from torch._dynamo.exc import (
    Unsupported,
    UserError,
)
from torch.nn.modules import module as nn_module
from torch.optim import optimizer as optimizer_module


def compile_with_gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile of a function that calls torch.autograd.grad, which becomes a part of its
    graph."""
    options: dict[str, Any] = {"isolate_recompiles": True}  # which torch's overloads lack
    fast = torch.compile(function, backend="pjrt", fullgraph=True, **options)
    # In the thread of a call. Hooks that are added to a module later are guarded against.
    tracing = dynamo_config.patch(trace_autograd_ops=True, skip_nnmodule_hook_guards=False)

    def call(*args: Any) -> Any:
        with tracing:
            return fast(*args)

    return call


def compile_apart(
    function: Callable[..., Any],
    backend: Callable[..., Any] | str = "pjrt",
    dynamic: bool | None = None,
) -> Callable[..., Any]:
    """torch.compile that shares no compiled code, and no count of recompiles, with other uses of
    the function."""
    options: dict[str, Any] = {"isolate_recompiles": True}  # which torch's overloads lack
    return torch.compile(function, backend=backend, dynamic=dynamic, **options)


def why_not_whole(error: BaseException) -> str | None:
    """Why Dynamo can't make one graph of a function, if that is what the error says. None also for
    an exception that the function itself raises."""
    text = str(error)
    if not isinstance(error, Unsupported | UserError) or text.startswith("Observed exception"):
        return None
    return "Dynamo doesn't capture it whole: " + text.splitlines()[0]


def uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """What torch.compile was given to make the function, or the function itself."""
    if isinstance(function, OptimizedModule):
        return function._orig_mod
    return innermost_fn(function)


def compile_seeing_hooks(function: Callable[..., Any]) -> Callable[..., Any]:
    """compile_apart() of a function that calls modules, whose hooks are guarded too. Where Dynamo
    can't capture a part of it, that part runs in eager."""
    fast = compile_apart(function)

    def call(*args: Any) -> Any:
        with dynamo_config.patch(skip_nnmodule_hook_guards=False):
            return fast(*args)

    return call


def has_backward_hooks(module: torch.nn.Module) -> bool:
    return bool(module._backward_hooks or module._backward_pre_hooks)


def has_global_backward_hooks() -> bool:
    return bool(nn_module._global_backward_hooks or nn_module._global_backward_pre_hooks)


def has_gradient_hooks(parameter: torch.Tensor) -> bool:
    """Whether hooks run when its gradient is computed or accumulated."""
    return bool(parameter._backward_hooks or parameter._post_accumulate_grad_hooks)


def has_step_hooks(optimizer: torch.optim.Optimizer) -> bool:
    return bool(
        optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or optimizer_module._global_optimizer_pre_hooks
        or optimizer_module._global_optimizer_post_hooks
    )


def has_own_step(optimizer: torch.optim.Optimizer) -> bool:
    """Whether this object has a step() of its own, other than the one that schedulers give it."""
    step = vars(optimizer).get("step")
    return step is not None and not hasattr(step, "_wrapped_by_lr_sched")


def plain_step(optimizer: torch.optim.Optimizer) -> Callable[[], Any]:
    """Its class's step(), without what schedulers put around it."""
    return types.MethodType(type(optimizer).step, optimizer)


def note_step(optimizer: torch.optim.Optimizer) -> None:
    """Tells learning-rate schedulers, which warn otherwise, that the optimizer made a step."""
    optimizer._opt_called = True  # type: ignore[attr-defined]


def first_tensor(function: Any) -> torch.Tensor | None:
    """The first parameter, else buffer, of the compiled module (or of the module whose method was
    compiled)."""
    module = uncompiled(function)
    module = getattr(module, "__self__", module)
    if not isinstance(module, torch.nn.Module):
        return None
    return next(module.parameters(), next(module.buffers(), None))
