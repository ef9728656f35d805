"""The Dynamo backend `pjrt_trivial`: records a captured graph on the lazy device at each call."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import _C

__all__ = ["pjrt_trivial"]

_CPU = torch.device("cpu")


def pjrt_trivial(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any
) -> Callable[..., Any]:
    """Runs a graph that Dynamo captured op by op on device="pjrt", as eager would.

    Tensors on the CPU, parameters and buffers among them, are moved there at each call; what the
    graph writes to them is copied back, and its results are moved to the CPU.
    """
    on_device = any(_is_on(value, "pjrt") for value in example_inputs)
    moved_graph = gm if on_device else _moved(gm)

    def call(*arguments: Any) -> Any:
        if on_device:
            return moved_graph(*arguments)
        given = [a.to("pjrt") if _is_on(a, "cpu") else a for a in arguments]
        # Shares the values, which then keep their ids.
        held = [a.detach().clone() if _is_on(a, "pjrt") else None for a in given]
        results = moved_graph(*given)
        with torch.no_grad():
            for before, now, old in zip(arguments, given, held, strict=True):
                if old is not None and _C.value_id(now) != _C.value_id(old):
                    before.copy_(now)
        return tuple(r.cpu() if isinstance(r, torch.Tensor) else r for r in results)

    return call


def _is_on(value: Any, device: str) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == device


def _moved(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph with what it makes on the CPU, and the tensors that it holds, on the device."""
    gm = copy.deepcopy(gm).to("pjrt")
    for node in gm.graph.nodes:
        node.args = torch.fx.node.map_aggregate(node.args, _device)
        node.kwargs = torch.fx.node.map_aggregate(node.kwargs, _device)
    gm.recompile()
    return gm


def _device(argument: Any) -> Any:
    is_cpu = isinstance(argument, torch.device) and argument == _CPU
    return torch.device("pjrt") if is_cpu else argument
