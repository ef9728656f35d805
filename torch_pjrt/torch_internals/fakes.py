"""Tracing an op by itself, with tensors that have types and no elements."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from .autograd import Decompositions


def mute_fake_tensors(thread: str) -> None:
    """From now on torch logs no error of fake tensors in threads of that name: they are raised."""
    logging.getLogger("torch._subclasses.fake_tensor").addFilter(
        lambda record: record.threadName != thread
    )


def overload(name: str) -> OpOverload:
    """The op of that full name, e.g. "aten::add.Tensor" or "aten::relu"."""
    space, _, rest = name.partition("::")
    packet, _, overload_name = rest.partition(".")
    op: OpOverload = getattr(getattr(getattr(torch.ops, space), packet), overload_name or "default")
    return op


def fake_tensors() -> Any:
    """A mode, and a context, in which tensors have types and no elements."""
    return FakeTensorMode(allow_non_fake_inputs=True)


def graph_of(
    function: Callable[..., list[Any]],
    tensors: list[torch.Tensor],
    mode: Any,
    decompositions: Decompositions,
    mutates: bool,
) -> torch.fx.GraphModule:
    """The graph of a function for these tensors, which are the mode's. What it writes to them, if
    it mutates them, is a copy_ at the end."""
    if mutates:
        function = torch.func.functionalize(function, remove="mutations")
    with mode, torch.no_grad():
        return make_fx(function, decomposition_table=dict(decompositions))(*tensors)
