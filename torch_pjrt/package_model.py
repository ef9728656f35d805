"""What a saved model knows of its module: weights by name, and what its code read of the rest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch

from .errors import failure

__all__ = ["Facts", "Model", "facts_of", "path_of", "resolve", "steps_of"]

Facts = dict[str, Any]  # as JSON has them
Steps = list[list[Any]]  # ["attr", name] or ["item", key], from the module on
_SHOWN = 5  # names in a message
_STEP = re.compile(r"\.([A-Za-z_]\w*)|\['([^'\\]*)'\]|\[(\d+)\]")


def facts_of(module: torch.nn.Module, constants: list[tuple[Steps, Any]]) -> Facts:
    """What load() compares. constants: where the code found
    a value that it took for constant, and the value."""
    state = {
        name: [str(t.dtype), list(t.shape), list(t.stride())] for name, t in _state(module).items()
    }
    return {
        "state": state,
        "ties": _ties(module),
        "modules": {name: [_class(m), m.training] for name, m in module.named_modules()},
        "constants": constants,
        "autocast": _autocast(),
        "default_dtype": str(torch.get_default_dtype()),
    }


def _state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers, those that state_dict() leaves out too."""
    named = dict(module.named_parameters(remove_duplicate=False))
    return {**named, **dict(module.named_buffers(remove_duplicate=False))}


def _ties(module: torch.nn.Module) -> list[list[str]]:
    """Names of one and the same tensor, where there are several."""
    groups: dict[int, list[str]] = {}
    for name, tensor in _state(module).items():
        groups.setdefault(id(tensor), []).append(name)
    return sorted(sorted(group) for group in groups.values() if len(group) > 1)


def _class(module: torch.nn.Module) -> str:
    return f"{type(module).__module__}.{type(module).__qualname__}"


def _autocast() -> list[Any]:
    enabled = torch.is_autocast_enabled("cpu")
    return [enabled, str(torch.get_autocast_dtype("cpu")) if enabled else None]


def steps_of(expression: str, prefix: str) -> Steps | None:
    """`.a['b'][0]` after the prefix as steps; None for anything else."""
    if not expression.startswith(prefix):
        return None
    steps: Steps = []
    rest = expression[len(prefix) :]
    while rest:
        match = _STEP.match(rest)
        if match is None:
            return None
        name, key, index = match.groups()
        if name is not None:
            steps.append(["attr", name])
        else:
            steps.append(["item", key if index is None else int(index)])
        rest = rest[match.end() :]
    return steps


def resolve(module: torch.nn.Module, steps: Sequence[Sequence[Any]]) -> Any:
    """Raises AttributeError or LookupError where there is no such thing."""
    found: Any = module
    for kind, name in steps:
        found = getattr(found, name) if kind == "attr" else found[name]
    return found


def path_of(steps: Sequence[Sequence[Any]]) -> str:
    """For messages: model.layer.scale."""
    names = [str(n) for _, n in steps if n not in ("_modules", "_parameters", "_buffers")]
    return ".".join(["model", *names])


class Model:
    """The module that gives the weights. It may change them, and replace them by others of the same
    shape, dtype and strides; all else that was saved of it has to stay."""

    def __init__(self, path: str, module: torch.nn.Module, facts: Facts) -> None:
        """Raises Error (invalid) that says how the module differs from the saved one."""
        self.module = module
        self._path = path
        self._facts = facts
        self._check_state()
        self._places = {name: _place(module, name) for name in facts["state"]}
        modules = dict(module.named_modules())
        self._training = [
            (name, modules[name], training) for name, (_, training) in facts["modules"].items()
        ]
        self._children = [
            (owner._modules, name, child)
            for owner in module.modules()
            for name, child in owner._modules.items()
        ]
        self._constants = [
            (*_owner(module, steps), path_of(steps), expected)
            for steps, expected in facts["constants"]
        ]
        self._checked: dict[str, torch.Tensor] = {}

    def tensor(self, name: str) -> torch.Tensor:
        """The weight that is there now."""
        tensors, key = self._places[name]
        tensor: torch.Tensor | None = tensors.get(key)
        if tensor is None or tensor is not self._checked.get(name):
            self._check_tensor(name, tensor)
            assert tensor is not None
            self._checked[name] = tensor
        return tensor

    def check(self) -> None:
        """Before each call: whether all that was saved of the module and around it still holds."""
        for name, module, training in self._training:
            if module.training is not training:
                verb = "train" if training else "eval"
                raise self._differs(
                    f"{name or 'the model'}.training is {module.training}",
                    f"call model.{verb}() as when it was saved, or save it in this mode",
                )
        for modules, name, child in self._children:
            if modules.get(name) is not child:
                raise self._differs(f"the submodule {name!r} was replaced", "load the file again")
        for owner, steps, place, expected in self._constants:
            self._check_constant(owner, steps, place, expected)
        if _autocast() != self._facts["autocast"]:
            raise self._differs(
                f"torch.autocast is {_autocast()}, and was {self._facts['autocast']}",
                "call it as it was saved, or save it under this autocast",
            )
        if str(torch.get_default_dtype()) != self._facts["default_dtype"]:
            raise self._differs(
                f"the default dtype is {torch.get_default_dtype()}",
                f"set it to {self._facts['default_dtype']}, or save the model again",
            )
        for group in self._facts["ties"]:
            if len({id(self.tensor(name)) for name in group}) > 1:
                raise self._differs(f"{', '.join(group)} were one tensor", "tie them again")

    def _check_constant(self, owner: Any, steps: Steps, place: str, expected: Any) -> None:
        try:
            found = resolve(owner, steps)
        except (AttributeError, LookupError):
            found = "missing"
        if type(found) is not type(expected) or found != expected:
            raise self._differs(
                f"{place} is {found!r}, and was {expected!r}",
                "set it back, or save the model again",
            )

    def _check_state(self) -> None:
        saved, found = self._facts["state"], _state(self.module)
        missing = sorted(set(saved) - set(found))
        surplus = sorted(set(found) - set(saved))
        if missing or surplus:
            raise self._differs(
                "the model has other weights: "
                + "; ".join(
                    f"{what} {', '.join(names[:_SHOWN])}{' ...' if len(names) > _SHOWN else ''}"
                    for what, names in (("it lacks", missing), ("it also has", surplus))
                    if names
                ),
                "build the model as it was saved",
            )
        for name, tensor in found.items():
            self._check_tensor(name, tensor)
        if _ties(self.module) != self._facts["ties"]:
            raise self._differs(
                f"the model ties {_ties(self.module)}, and tied {self._facts['ties']}",
                "build the model as it was saved",
            )
        modules = {name: _class(module) for name, module in self.module.named_modules()}
        for name, (kind, _) in self._facts["modules"].items():
            if modules.get(name) != kind:
                raise self._differs(
                    f"{name or 'the model'} is {modules.get(name)}, and was {kind}",
                    "build the model as it was saved",
                )

    def _check_tensor(self, name: str, tensor: torch.Tensor | None) -> None:
        dtype, shape, strides = self._facts["state"][name]
        wanted = f"{dtype} of shape {shape} and strides {strides}"
        found = "missing"
        if tensor is not None:
            found = f"{tensor.dtype} of shape {list(tensor.shape)} and strides "
            found += str(list(tensor.stride()))
        if found != wanted:
            raise self._differs(
                f"the weight {name} is {found}, and was {wanted}",
                "convert it, or save the model again",
            )

    def _differs(self, what: str, remedy: str) -> Exception:
        return failure("invalid", what=f"{self._path} is of another model: {what}", remedy=remedy)


def _owner(module: torch.nn.Module, steps: Steps) -> tuple[Any, Steps]:
    """The submodule that a path begins with, which stays the same, and the rest of the path."""
    owner, rest = module, steps
    while len(rest) > 2 and rest[0] == ["attr", "_modules"] and rest[1][1] in owner._modules:
        child = owner._modules[rest[1][1]]
        if child is None:
            break
        owner, rest = child, rest[2:]
    return owner, rest


def _place(module: torch.nn.Module, name: str) -> tuple[dict[str, Any], str]:
    """The dict that holds a weight, and its key there."""
    *path, key = name.split(".")
    owner = module.get_submodule(".".join(path))
    return (owner._parameters if key in owner._parameters else owner._buffers), key
