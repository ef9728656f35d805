"""What a call costs the host: a model on the null device, beside a backend that does nothing.

The null device is the fake plugin, which executes nothing. The do-nothing backend is what a call
costs whatever the backend: the same AOTAutograd arguments and decompositions, under the same Dynamo
configuration and guards, and a compiler whose programs give back the same outputs at every call.
The same without guards: torch_pjrt.freeze, beside the do-nothing backend with Dynamo's guards off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import decompositions, torch_internals, training
from ..frozen import freeze
from . import peers

NULL_DEVICE = "null_device"
DO_NOTHING = "do_nothing"
FROZEN = "null_device_frozen"
DO_NOTHING_FROZEN = "do_nothing_frozen"
BACKENDS = (NULL_DEVICE, DO_NOTHING, FROZEN, DO_NOTHING_FROZEN)
OURS = (NULL_DEVICE, FROZEN)  # each before its do-nothing peer
# Whose values are checked before the null device, which has none, is timed.
CHECKED = {NULL_DEVICE: "pjrt", FROZEN: peers.HANDLE}


def compiled(
    name: str, model: torch.nn.Module, arguments: tuple[Any, ...]
) -> Callable[..., object]:
    """`model` as compiled by one of BACKENDS, for calls with such arguments."""
    if name in OURS:
        options: dict[str, Any] = {"plugin": "fake", "disk_cache": False}
        fast: Any = torch.compile(model, backend="pjrt", options=options)
        return fast if name == NULL_DEVICE else freeze(fast, *arguments)
    if name == DO_NOTHING:
        return torch.compile(model, backend=do_nothing)
    options = {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}
    return torch.compile(model, backend=_do_nothing_frozen, options=options)


def do_nothing(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """A backend for inference; its outputs are uninitialised."""
    return compiled_by(_program, gm, example_inputs)


def compiled_by(
    compiler: Callable[..., Any], gm: torch.fx.GraphModule, example_inputs: Sequence[Any]
) -> Callable[..., Any]:
    """The backend that gives the compiler our graphs: by our arguments of AOTAutograd."""
    return torch_internals.compile_with_autograd(
        gm,
        list(example_inputs),
        forward=compiler,
        backward=compiler,
        inference=compiler,
        partition=training.partition,
        decompositions=decompositions.table(),
    )


def _do_nothing_frozen(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **_: Any
) -> Callable[..., Any]:
    """A function of its own, since Dynamo tells compiled code apart by the backend."""
    return do_nothing(gm, example_inputs)


def _program(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    (result,) = gm.graph.find_nodes(op="output")
    with torch_internals.real_tensors():
        outputs = [_like(node) for node in result.args[0]]

    def program(arguments: list[Any]) -> list[Any]:
        return outputs

    program._boxed_call = True  # type: ignore[attr-defined]
    return program


def _like(node: Any) -> Any:
    """A value like the fake one of a node of the graph; None and numbers are themselves."""
    value = node.meta["val"] if isinstance(node, torch.fx.Node) else node
    if not isinstance(value, torch.Tensor):
        return _known(value)
    sizes, strides = ([_known(n) for n in numbers] for numbers in (value.size(), value.stride()))
    return torch.empty_strided(sizes, strides, dtype=value.dtype)


def _known(number: Any) -> Any:
    """The number at capture where it is symbolic."""
    is_symbolic = isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool)
    return torch_internals.symbolic(number)[1] if is_symbolic else number
