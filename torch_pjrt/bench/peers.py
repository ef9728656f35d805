"""Ways to run a model, for comparisons, that aren't a backend of torch.compile by name."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from ..frozen import freeze

FROZEN = "pjrt_frozen"
HANDLE = "pjrt_handle"
CHANNELS_LAST = "eager_channels_last"
NAMES = (FROZEN, HANDLE, CHANNELS_LAST)
OURS = (FROZEN, HANDLE)
# One run that shows where ours stands.
ALL = ("pjrt", FROZEN, HANDLE, CHANNELS_LAST, "inductor")


def compiled(name: str, model: Any) -> Callable[..., Any]:
    """`model` as run by one of NAMES, without programs from disk."""
    if name == FROZEN:
        options: dict[str, Any] = {"freeze": True, "disk_cache": False}
        return torch.compile(model, backend="pjrt", options=options)
    return _Handle(model) if name == HANDLE else _ChannelsLast(model)


class _Handle:
    """torch_pjrt.freeze, for calls like the first one."""

    def __init__(self, model: Any) -> None:
        if not isinstance(model, torch.nn.Module):
            function, model = model, torch.nn.Module()
            model.forward = function
        options: dict[str, Any] = {"disk_cache": False}
        self._fast = torch.compile(model, backend="pjrt", options=options)
        self._handle: Any = None

    def __call__(self, *arguments: Any) -> Any:
        if self._handle is None:
            self._handle = freeze(self._fast, *arguments)
        return self._handle(*arguments)


class _ChannelsLast:
    """Eager, with weights and images in the order that its convolutions like best."""

    def __init__(self, model: Any) -> None:
        self._model = copy.deepcopy(model)
        if isinstance(model, torch.nn.Module):
            self._model.to(memory_format=torch.channels_last)

    def __call__(self, *arguments: Any) -> Any:
        return self._model(*map(_channels_last, arguments))


def _channels_last(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dim() == 4:
        return value.contiguous(memory_format=torch.channels_last)
    return value
