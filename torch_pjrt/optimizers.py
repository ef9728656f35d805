"""What the optimizers of torch.optim do to one parameter, as plain tensor code.

The formulas are those of torch's own loops over single tensors. Hyper-parameters are 0-d tensors,
so that a program doesn't depend on their values; only what changes the formula, a switch, does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .errors import failure

__all__ = ["Rule", "rule_of"]

State = dict[str, Tensor]
Group = Mapping[str, Any]  # one of optimizer.param_groups


@dataclass(frozen=True)
class Rule:
    """numbers: of a group, its hyper-parameters in their order. switches: what is on in a group.
    slots: the names of a parameter's state, of the parameter's shape but for "step", a 0-d count.
    has_first_step: whether the update of a parameter without state differs.
    update: (parameter, gradient, state, hyper-parameters, switches); writes the first and third.
    """

    numbers: Callable[[Group], list[float]]
    names: tuple[str, ...]
    switches: Callable[[Group], tuple[str, ...]]
    slots: Callable[[Group], tuple[str, ...]]
    has_first_step: Callable[[Group], bool]
    update: Callable[[Tensor, Tensor, State, State, tuple[str, ...]], None]


def rule_of(optimizer: torch.optim.Optimizer) -> Rule:
    """Raises Error (unsupported) for an optimizer whose update isn't known here."""
    rule = _RULES.get(type(optimizer))
    if rule is None:
        known = ", ".join(kind.__name__ for kind in _RULES)
        raise failure(
            "unsupported",
            what=f"train_step doesn't know the update of {torch.typename(optimizer)}",
            remedy=f"use one of torch.optim's {known}, or train by the stock loop: "
            'torch.compile(model, backend="pjrt"), loss.backward(), optimizer.step()',
        )
    return rule


def _wide(t: Tensor) -> Tensor:
    """In the dtype in which an update is computed: float32 for the 16-bit ones."""
    return t.float() if t.dtype in (torch.float16, torch.bfloat16) else t


def _names(group: Group, *names: str) -> tuple[str, ...]:
    """Those that are true, or not zero, in the group."""
    return tuple(name for name in names if group.get(name))


def _direction(p: Tensor, gradient: Tensor, h: State, on: tuple[str, ...]) -> Tensor:
    """What is to be subtracted: the gradient, negated to maximize, and with the decay of weights
    that counts as a part of it."""
    g = -_wide(gradient) if "maximize" in on else _wide(gradient)
    if "weight_decay" in on and "decoupled_weight_decay" not in on:
        g = g + p * h["weight_decay"]
    return g


# --- SGD


def _sgd(parameter: Tensor, gradient: Tensor, state: State, h: State, on: tuple[str, ...]) -> None:
    p = _wide(parameter)
    g = _direction(p, gradient, h, on)
    if "momentum" in on:
        buffer = g
        if "first" not in on:
            buffer = _wide(state["momentum_buffer"]) * h["momentum"] + g * (1 - h["dampening"])
        state["momentum_buffer"].copy_(buffer)
        g = g + buffer * h["momentum"] if "nesterov" in on else buffer
    parameter.copy_(p - g * h["lr"])


# --- Adam and AdamW


def _adam(parameter: Tensor, gradient: Tensor, state: State, h: State, on: tuple[str, ...]) -> None:
    p = _wide(parameter)
    g = _direction(p, gradient, h, on)
    if "weight_decay" in on and "decoupled_weight_decay" in on:
        p = p * (1 - h["lr"] * h["weight_decay"])
    step = state["step"] + 1
    mean, square = _wide(state["exp_avg"]), _wide(state["exp_avg_sq"])
    mean = mean + (g - mean) * (1 - h["beta1"])
    square = square * h["beta2"] + g * g * (1 - h["beta2"])
    state["step"].copy_(step)
    state["exp_avg"].copy_(mean)
    state["exp_avg_sq"].copy_(square)
    if "amsgrad" in on:
        square = torch.maximum(_wide(state["max_exp_avg_sq"]), square)
        state["max_exp_avg_sq"].copy_(square)
    # In float64, as the corrections nearly cancel at first.
    count = step.double()
    size = h["lr"] / (1 - h["beta1"] ** count)
    scale = (1 - h["beta2"] ** count).sqrt()
    parameter.copy_(p - mean * size / (square.sqrt() / scale + h["eps"]))


def _adam_slots(group: Group) -> tuple[str, ...]:
    slots = ("step", "exp_avg", "exp_avg_sq")
    return (*slots, "max_exp_avg_sq") if group["amsgrad"] else slots


# --- RMSprop


def _rmsprop(
    parameter: Tensor, gradient: Tensor, state: State, h: State, on: tuple[str, ...]
) -> None:
    p = _wide(parameter)
    g = _direction(p, gradient, h, on)
    state["step"].copy_(state["step"] + 1)
    square = _wide(state["square_avg"]) * h["alpha"] + g * g * (1 - h["alpha"])
    state["square_avg"].copy_(square)
    if "centered" in on:
        mean = _wide(state["grad_avg"])
        mean = mean + (g - mean) * (1 - h["alpha"])
        state["grad_avg"].copy_(mean)
        square = square - mean * mean
    g = g / (square.sqrt() + h["eps"])
    if "momentum" in on:
        g = _wide(state["momentum_buffer"]) * h["momentum"] + g
        state["momentum_buffer"].copy_(g)
    parameter.copy_(p - g * h["lr"])


def _rmsprop_slots(group: Group) -> tuple[str, ...]:
    slots = ["step", "square_avg"]
    slots += ["momentum_buffer"] if group["momentum"] > 0 else []
    return (*slots, "grad_avg") if group["centered"] else tuple(slots)


def _never(group: Group) -> bool:
    return False


_ADAM = Rule(
    numbers=lambda group: [
        *map(float, group["betas"]),
        *(float(group[name]) for name in ("lr", "weight_decay", "eps")),
    ],
    names=("beta1", "beta2", "lr", "weight_decay", "eps"),
    switches=lambda group: _names(
        group, "maximize", "weight_decay", "decoupled_weight_decay", "amsgrad"
    ),
    slots=_adam_slots,
    has_first_step=_never,
    update=_adam,
)
_RMSPROP_NAMES = ("lr", "weight_decay", "momentum", "alpha", "eps")
_SGD_NAMES = ("lr", "weight_decay", "momentum", "dampening")

_RULES: dict[type, Rule] = {
    torch.optim.SGD: Rule(
        numbers=lambda group: [float(group[name]) for name in _SGD_NAMES],
        names=_SGD_NAMES,
        switches=lambda group: _names(group, "maximize", "weight_decay", "momentum", "nesterov"),
        slots=lambda group: ("momentum_buffer",) if group["momentum"] != 0 else (),
        # Without dampening, a buffer of zeros gives the first step.
        has_first_step=lambda group: group["momentum"] != 0 and group["dampening"] != 0,
        update=_sgd,
    ),
    torch.optim.Adam: _ADAM,
    torch.optim.AdamW: _ADAM,
    torch.optim.RMSprop: Rule(
        numbers=lambda group: [float(group[name]) for name in _RMSPROP_NAMES],
        names=_RMSPROP_NAMES,
        switches=lambda group: _names(group, "maximize", "weight_decay", "momentum", "centered"),
        slots=_rmsprop_slots,
        has_first_step=_never,
        update=_rmsprop,
    ),
}
