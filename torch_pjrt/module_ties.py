"""nn.Module.to(): parameters that modules share are shared after it.

Between the CPU and a device from outside, torch makes a new parameter for each place where a module
has one, which would untie the weights of a model without a word.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from torch import nn

__all__ = ["keep"]

_Places = list[tuple[nn.Module, str]]


class _State(threading.local):
    is_inside = False  # a conversion of an outer module


_state = _State()


def keep() -> None:
    """From now on, for conversions to the device and from it."""
    convert = nn.Module._apply

    def apply(self: nn.Module, fn: Callable[..., Any], recurse: bool = True) -> nn.Module:
        if _state.is_inside:
            return convert(self, fn, recurse)
        _state.is_inside = True
        try:
            shared = _shared(self) if recurse else []
            result: nn.Module = convert(self, fn, recurse)
        finally:
            _state.is_inside = False
        for old, places in shared:
            _tie(old, places)
        return result

    nn.Module._apply = apply  # type: ignore[method-assign]


def _shared(root: nn.Module) -> list[tuple[nn.Parameter, _Places]]:
    """The parameters that have several places."""
    places: dict[int, _Places] = defaultdict(list)
    parameters: dict[int, nn.Parameter] = {}
    for module in root.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                places[id(parameter)].append((module, name))
                parameters[id(parameter)] = parameter
    return [(parameters[k], found) for k, found in places.items() if len(found) > 1]


def _tie(old: nn.Parameter, places: _Places) -> None:
    first = places[0][0]._parameters[places[0][1]]
    if first is None or "pjrt" not in (old.device.type, first.device.type):
        return
    for module, name in places[1:]:
        module._parameters[name] = first
