"""The training that the benchmark times and checks: a loss for any of its models, and the loops.

Every output is taken for logits over its last dim, against random classes; the loss is the sum of
their cross entropies. The optimizer is SGD without momentum, as in PyTorch's benchmarks/dynamo.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import torch_pjrt

from .. import _C

# Small, so that rounding errors, which batch norm over few elements enlarges, grow slowly from step
# to step.
LEARNING_RATE = 1e-3

# Takes a model's arguments and then the classes, and returns the detached loss.
Step = Callable[..., Tensor]
Classes = tuple[Tensor, ...]


def classes_for(model: nn.Module, inputs: Sequence[Tensor], generator: torch.Generator) -> Classes:
    """Random classes for each output of the model."""
    was_training = model.training
    with torch.no_grad():
        outputs = pytree.tree_leaves(model.eval()(*inputs))
    model.train(was_training)
    return tuple(torch.randint(y.shape[-1], y.shape[:-1], generator=generator) for y in outputs)


def loss_of(outputs: Any, classes: Classes) -> Tensor:
    """A 0-d tensor."""
    losses = [
        F.cross_entropy(y.flatten(0, -2), c.flatten())
        for y, c in zip(pytree.tree_leaves(outputs), classes, strict=True)
    ]
    return torch.stack(losses).sum()


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)


def stock_step(model: nn.Module, run: Callable[..., Any] | None = None) -> Step:
    """The stock loop's body. `run` is the compiled model; without it, the model itself."""
    optimizer = optimizer_of(model)
    forward = model if run is None else run

    def step(*arguments: Any) -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(forward(*arguments[:-1]), arguments[-1])
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def naive_step(model: nn.Module, run: Callable[..., Any]) -> Step:
    """The same on device="pjrt" in the order of a bridge that runs whatever it is given before each
    program, data or not, and once more at the end."""
    optimizer = optimizer_of(model)

    def synced(tensor: Tensor) -> Tensor:
        """Its elements, by a program of their own."""
        copied = tensor + 0
        _C.mark_step()
        return copied

    def step(*arguments: Any) -> Tensor:
        optimizer.zero_grad()
        inputs = pytree.tree_map_only(Tensor, lambda t: t + 0, arguments)
        _C.mark_step()
        loss = loss_of(run(*inputs[:-1]), inputs[-1])
        loss.backward(synced(torch.ones_like(loss)))
        _C.mark_step()
        optimizer.step()
        _C.mark_step()
        return loss.detach()

    return step


def one_program_step(model: nn.Module, keep_grads: bool = False) -> Step:
    """The same by torch_pjrt.train_step."""
    step: Step = torch_pjrt.train_step(model, optimizer_of(model), loss_of, keep_grads=keep_grads)
    return step


@dataclass(frozen=True)
class Observed:
    """gradients: of the first step, by parameter. losses: of all steps. first_step_s: its time."""

    gradients: dict[str, Tensor]
    losses: list[float]
    first_step_s: float


def observe(model: nn.Module, step: Step, arguments: Sequence[Any], steps: int) -> Observed:
    """Runs `steps` steps on one batch. The step has to leave the gradients."""
    start = time.perf_counter()
    losses = [float(step(*arguments))]
    elapsed = time.perf_counter() - start
    parameters = model.named_parameters()
    gradients = {name: p.grad.cpu().clone() for name, p in parameters if p.grad is not None}
    losses += [float(step(*arguments)) for _ in range(steps - 1)]
    return Observed(gradients, losses, elapsed)


def without_dropout(model: nn.Module) -> nn.Module:
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
    return model


def has_dropout(model: nn.Module) -> bool:
    return any(
        isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0
        for module in model.modules()
    )
