"""A step of training as the stock loop has it: a compiled forward, its backward, and the update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from . import torch_internals
from .optimizers import rule_of
from .step_reasons import needs_closure

__all__ = ["Batch", "Loss", "ThreePrograms", "averaged"]

Batch = tuple[tuple[Any, ...], dict[str, Any]]  # args and kwargs
# Of a batch: the loss, and (what else the function returns,) or ().
Loss = Callable[[tuple[Any, ...], dict[str, Any]], tuple[Tensor, Any]]


class ThreePrograms:
    """Takes the batches of a step and returns its outputs, as the one program does."""

    def __init__(
        self,
        loss_of: Loss,
        optimizer: torch.optim.Optimizer,
        *,
        clip_grad_norm: float | None,
        keep_grads: bool,
        is_distributed: bool,
        scaler: torch.amp.GradScaler | None,
    ) -> None:
        self._loss_of = torch_internals.compile_seeing_hooks(loss_of)
        self._optimizer = optimizer
        self._clip_grad_norm = clip_grad_norm
        self._keep_grads = keep_grads
        self._is_distributed = is_distributed
        self._scaler = scaler
        self._has_closure = needs_closure(optimizer)
        self._compiled_update: Callable[[], Any] | None = None

    def __call__(self, batches: list[Batch]) -> Any:
        outputs: list[Any] = []

        def closure() -> Tensor:
            loss, aux = self._backward(batches)
            outputs.append((loss, *aux) if aux else loss)
            return loss

        if self._has_closure:
            self._optimizer.step(closure)  # type: ignore[arg-type]
        else:
            closure()
            self._update()
        if not self._keep_grads:
            self._drop_gradients()
        return outputs[0]

    def _parameters(self) -> list[Tensor]:
        groups = self._optimizer.param_groups
        return [p for group in groups for p in group["params"] if p.requires_grad]

    def _drop_gradients(self) -> None:
        for group in self._optimizer.param_groups:
            for p in group["params"]:
                p.grad = None

    def _backward(self, batches: list[Batch]) -> tuple[Tensor, Any]:
        self._drop_gradients()
        parameters = self._parameters()
        results = []
        with torch.enable_grad():
            for args, kwargs in batches:
                loss, aux = self._loss_of(args, kwargs)
                loss = loss / len(batches) if len(batches) > 1 else loss
                if self._is_distributed:  # its hooks run in a backward to all parameters only
                    loss.backward()
                else:
                    torch.autograd.backward(loss, inputs=parameters)
                results.append((loss.detach(), aux))
        if self._clip_grad_norm is not None:
            if self._scaler is not None:
                self._scaler.unscale_(self._optimizer)
            torch.nn.utils.clip_grad_norm_(parameters, self._clip_grad_norm)
        return averaged(results)

    def _update(self) -> None:
        if self._scaler is not None:
            self._scaler.step(self._optimizer)
            self._scaler.update()
        elif self._can_compile_update():
            if self._compiled_update is None:
                step = torch_internals.plain_step(self._optimizer)
                self._compiled_update = torch_internals.compile_seeing_hooks(step)
            self._compiled_update()
            torch_internals.note_step(self._optimizer)
        else:
            self._optimizer.step()

    def _can_compile_update(self) -> bool:
        """What isn't a stock update of dense, real gradients runs in eager."""
        return (
            rule_of(self._optimizer) is not None
            and not torch_internals.has_step_hooks(self._optimizer)
            and not torch_internals.has_own_step(self._optimizer)
            and not any(
                group.get("differentiable") or group.get("fused")
                for group in self._optimizer.param_groups
            )
            and not any(
                p.is_complex() or (p.grad is not None and p.grad.layout is not torch.strided)
                for p in self._parameters()
            )
        )


def averaged(results: list[tuple[Tensor, Any]]) -> tuple[Tensor, Any]:
    """Of the results of all batches: the sum of the losses, which are divided already, and the
    rest, detached and stacked."""
    loss = results[0][0]
    for other, _ in results[1:]:
        loss = loss + other
    rest = [torch_internals.tree_map(_detached, aux) for _, aux in results]
    return loss, rest[0] if len(rest) == 1 else torch_internals.tree_map(_stacked, *rest)


def _detached(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, Tensor) else leaf


def _stacked(*leaves: Any) -> Any:
    return torch.stack(leaves) if isinstance(leaves[0], Tensor) else list(leaves)
