"""What the optimizers of torch.optim do to one parameter, as plain tensor code.

The formulas are those of torch's own loops over single tensors. Hyper-parameters are 0-d tensors,
so that a program doesn't depend on their values; only what changes the formula, a switch, does.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["SCALARS", "Rule", "known_optimizers", "rule_of"]

State = dict[str, Tensor]
Group = Mapping[str, Any]  # one of optimizer.param_groups


SCALARS = frozenset({"step", "mu_product"})  # slots that are 0-d tensors


def _never(group: Group) -> bool:
    return False


def _zero(group: Group, slot: str) -> float:
    return 0.0


@dataclass(frozen=True)
class Rule:
    """names: of the hyper-parameters, and numbers: their values in a group. switches: what is on in
    a group. slots: the names of a parameter's state, of the parameter's shape but for SCALARS.
    update: (parameter, gradient, state, hyper-parameters, switches); writes the first and third.
    has_first_step: whether the update of a parameter without state differs.
    start: what a slot of a parameter without state holds.
    """

    names: tuple[str, ...]
    numbers: Callable[[Group], list[float]]
    switches: Callable[[Group], tuple[str, ...]]
    slots: Callable[[Group], tuple[str, ...]]
    update: Callable[[Tensor, Tensor, State, State, tuple[str, ...]], None]
    has_first_step: Callable[[Group], bool] = _never
    start: Callable[[Group, str], float] = _zero


def rule_of(optimizer: torch.optim.Optimizer) -> Rule | None:
    """None if the update isn't known here: another class's, or one that makes its own step."""
    for known, rule in _RULES.items():
        if isinstance(optimizer, known):
            is_same = all(_same_method(type(optimizer), known, name) for name in _METHODS)
            return rule if is_same else None
    return None


_METHODS = ("step", "_init_group")  # what an update consists of


def _same_method(kind: type, known: type, name: str) -> bool:
    """Under the wrappers that torch puts around a class's method."""
    return inspect.unwrap(getattr(kind, name)) is inspect.unwrap(getattr(known, name))


def known_optimizers() -> str:
    return ", ".join(kind.__name__ for kind in _RULES)


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


# --- Adagrad, Adadelta, Adamax


def _adagrad(
    parameter: Tensor, gradient: Tensor, state: State, h: State, on: tuple[str, ...]
) -> None:
    p = _wide(parameter)
    g = _direction(p, gradient, h, on)
    step = state["step"] + 1
    state["step"].copy_(step)
    total = _wide(state["sum"]) + g * g
    state["sum"].copy_(total)
    rate = h["lr"] / (1 + (step.double() - 1) * h["lr_decay"])
    parameter.copy_(p - rate * (g / (total.sqrt() + h["eps"])))


def _adadelta(
    parameter: Tensor, gradient: Tensor, state: State, h: State, on: tuple[str, ...]
) -> None:
    p = _wide(parameter)
    g = _direction(p, gradient, h, on)
    state["step"].copy_(state["step"] + 1)
    square = _wide(state["square_avg"]) * h["rho"] + g * g * (1 - h["rho"])
    state["square_avg"].copy_(square)
    moved = _wide(state["acc_delta"])
    delta = (moved + h["eps"]).sqrt() / (square + h["eps"]).sqrt() * g
    state["acc_delta"].copy_(moved * h["rho"] + delta * delta * (1 - h["rho"]))
    parameter.copy_(p - delta * h["lr"])


def _adamax(
    parameter: Tensor, gradient: Tensor, state: State, h: State, on: tuple[str, ...]
) -> None:
    p = _wide(parameter)
    g = _direction(p, gradient, h, on)
    step = state["step"] + 1
    state["step"].copy_(step)
    mean = _wide(state["exp_avg"])
    mean = mean + (g - mean) * (1 - h["beta1"])
    state["exp_avg"].copy_(mean)
    norm = torch.maximum(_wide(state["exp_inf"]) * h["beta2"], g.abs() + h["eps"])
    state["exp_inf"].copy_(norm)
    rate = h["lr"] / (1 - h["beta1"] ** step.double())
    parameter.copy_(p - rate * (mean / norm))


# --- NAdam and RAdam


def _moments(
    parameter: Tensor, gradient: Tensor, state: State, h: State, on: tuple[str, ...]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The decayed parameter, the gradient, the count of steps in float64, and both averages."""
    p = _wide(parameter)
    g = _direction(p, gradient, h, on)
    if "weight_decay" in on and "decoupled_weight_decay" in on:
        p = p * (1 - h["lr"] * h["weight_decay"])
    step = state["step"] + 1
    state["step"].copy_(step)
    mean, square = _wide(state["exp_avg"]), _wide(state["exp_avg_sq"])
    mean = mean + (g - mean) * (1 - h["beta1"])
    square = square * h["beta2"] + g * g * (1 - h["beta2"])
    state["exp_avg"].copy_(mean)
    state["exp_avg_sq"].copy_(square)
    return p, g, step.double(), mean, square


def _nadam(
    parameter: Tensor, gradient: Tensor, state: State, h: State, on: tuple[str, ...]
) -> None:
    p, g, step, mean, square = _moments(parameter, gradient, state, h, on)
    scale = (square / (1 - h["beta2"] ** step)).sqrt() + h["eps"]
    mu = h["beta1"] * (1 - 0.5 * 0.96 ** (step * h["momentum_decay"]))
    following = h["beta1"] * (1 - 0.5 * 0.96 ** ((step + 1) * h["momentum_decay"]))
    state["mu_product"].copy_(state["mu_product"] * mu)
    product = state["mu_product"].double()
    p = p - g * (h["lr"] * (1 - mu) / (1 - product)) / scale
    parameter.copy_(p - mean * (h["lr"] * following / (1 - product * following)) / scale)


def _radam(
    parameter: Tensor, gradient: Tensor, state: State, h: State, on: tuple[str, ...]
) -> None:
    p, _, step, mean, square = _moments(parameter, gradient, state, h, on)
    power = h["beta2"] ** step
    longest = 2 / (1 - h["beta2"]) - 1
    length = longest - 2 * step * power / (1 - power)
    ratio = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    adaptive = (1 - power).sqrt() * ratio.sqrt() / (square.sqrt() + h["eps"])
    mean = mean / (1 - h["beta1"] ** step) * h["lr"]
    parameter.copy_(p - mean * torch.where(length > 5, adaptive, torch.ones_like(adaptive)))


# --- the table


def _numbers(names: tuple[str, ...]) -> Callable[[Group], list[float]]:
    """beta1 and beta2 are together in a group, as betas."""
    plain = names[2:] if names[:2] == ("beta1", "beta2") else names

    def numbers(group: Group) -> list[float]:
        betas = [float(b) for b in group["betas"]] if len(plain) < len(names) else []
        return betas + [float(group[name]) for name in plain]

    return numbers


def _rule(
    update: Callable[[Tensor, Tensor, State, State, tuple[str, ...]], None],
    names: tuple[str, ...],
    switches: tuple[str, ...],
    slots: tuple[str, ...] | Callable[[Group], tuple[str, ...]],
    **others: Any,
) -> Rule:
    return Rule(
        names=names,
        numbers=_numbers(names),
        switches=lambda group: _names(group, "maximize", "weight_decay", *switches),
        slots=slots if callable(slots) else lambda group: slots,
        update=update,
        **others,
    )


_ADAM_NAMES = ("beta1", "beta2", "lr", "weight_decay", "eps")
_ADAM = _rule(_adam, _ADAM_NAMES, ("decoupled_weight_decay", "amsgrad"), _adam_slots)

_RULES: dict[type, Rule] = {
    torch.optim.SGD: _rule(
        _sgd,
        ("lr", "weight_decay", "momentum", "dampening"),
        ("momentum", "nesterov"),
        lambda group: ("momentum_buffer",) if group["momentum"] != 0 else (),
        # Without dampening, a buffer of zeros gives the first step.
        has_first_step=lambda group: group["momentum"] != 0 and group["dampening"] != 0,
    ),
    torch.optim.AdamW: _ADAM,
    torch.optim.Adam: _ADAM,
    torch.optim.RMSprop: _rule(
        _rmsprop,
        ("lr", "weight_decay", "momentum", "alpha", "eps"),
        ("momentum", "centered"),
        _rmsprop_slots,
    ),
    torch.optim.Adagrad: _rule(
        _adagrad,
        ("lr", "weight_decay", "lr_decay", "eps"),
        (),
        ("step", "sum"),
        start=lambda group, slot: group["initial_accumulator_value"] if slot == "sum" else 0.0,
    ),
    torch.optim.Adadelta: _rule(
        _adadelta,
        ("lr", "weight_decay", "rho", "eps"),
        (),
        ("step", "square_avg", "acc_delta"),
    ),
    torch.optim.Adamax: _rule(_adamax, _ADAM_NAMES, (), ("step", "exp_avg", "exp_inf")),
    torch.optim.NAdam: _rule(
        _nadam,
        (*_ADAM_NAMES, "momentum_decay"),
        ("decoupled_weight_decay",),
        ("step", "mu_product", "exp_avg", "exp_avg_sq"),
        start=lambda group, slot: 1.0 if slot == "mu_product" else 0.0,
    ),
    torch.optim.RAdam: _rule(
        _radam,
        _ADAM_NAMES,
        ("decoupled_weight_decay",),
        ("step", "exp_avg", "exp_avg_sq"),
    ),
}
