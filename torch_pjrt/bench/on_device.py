"""Models on device="pjrt", for --use-xla-baseline and --trace-on-xla."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

import torch_pjrt  # noqa: F401  (registers the device)

from .. import _C

# Backends that record on the device at each call.
TRIVIAL = ("pjrt_trivial", "torchxla_trivial", "aot_torchxla_trivial")


def moved(values: Any) -> Any:
    """Any nest of tensors, on the device."""
    return pytree.tree_map_only(torch.Tensor, lambda t: t.to("pjrt"), values)


def on_host(values: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda t: t.cpu(), values)


def copied(model: torch.nn.Module) -> torch.nn.Module:
    return copy.deepcopy(model).to("pjrt")


def every_time(model: torch.nn.Module) -> Callable[..., Any]:
    """The model on the device, without Dynamo: recorded and started at each call, whose arguments
    are moved there unless they are there."""
    own = copied(model)
    return started(lambda *arguments: own(*moved(arguments)))


def started(call: Callable[..., Any]) -> Callable[..., Any]:
    """`call`, with what it records started at its end, as a step of a loop is."""

    def run(*arguments: Any) -> Any:
        outputs = call(*arguments)
        _C.mark_step()
        return outputs

    return run


def finish() -> None:
    """Waits for all that was started."""
    _C.synchronize()
