"""What a forward keeps for its backward: it lies dense in memory, and stays what it was.

The partition may choose to save a view with gaps or of stride 0, e.g. an expanded mask. A program
can't read such memory: it would be copied at every call of the backward. And it may choose to save
an input that the forward changes in place, to compute from it again.
"""

from __future__ import annotations

from typing import Any

import torch

from . import torch_internals

aten = torch.ops.aten


def make_dense(
    forward: torch.fx.GraphModule, backward: torch.fx.GraphModule, user_outputs: int
) -> None:
    """Changes both graphs where a result after the first `user_outputs` isn't dense.

    Of an expanded one the part that differs is saved, and is expanded in the backward.
    """
    (result,) = forward.graph.find_nodes(op="output")
    outputs = list(result.args[0])
    placeholders = backward.graph.find_nodes(op="placeholder")
    by_name = {node.name: node for node in placeholders}
    for k in range(user_outputs, len(outputs)):
        saved = outputs[k]
        if not isinstance(saved, torch.fx.Node) or saved.op != "call_function":
            continue
        value, read = saved.meta["val"], by_name.get(saved.name)
        if read is None or not isinstance(value, torch.Tensor) or _is_dense(value):
            continue
        with forward.graph.inserting_before(result):
            outputs[k] = _dense(forward.graph, saved)
        read.meta["val"] = outputs[k].meta["val"]
        if not torch_internals.surely_equal(read.meta["val"].shape, value.shape):
            with backward.graph.inserting_after(placeholders[-1]):
                whole = _call(backward.graph, aten.expand.default, read, list(value.shape))
            read.replace_all_uses_with(whole, delete_user_cb=lambda user, own=whole: user != own)
    result.args = (tuple(outputs),)
    forward.recompile()
    backward.recompile()


def keep_old(
    forward: torch.fx.GraphModule, backward: torch.fx.GraphModule, user_outputs: int
) -> None:
    """Saves a copy of each input that the forward changes, in place of the input."""
    changes = forward.graph.find_nodes(op="call_function", target=aten.copy_.default)
    changed = {torch_internals.storage_id(node.args[0].meta["val"]) for node in changes}
    (result,) = forward.graph.find_nodes(op="output")
    outputs = list(result.args[0])
    by_name = {node.name: node for node in backward.graph.find_nodes(op="placeholder")}
    for k in range(user_outputs, len(outputs)):
        saved = outputs[k]
        value = saved.meta.get("val") if isinstance(saved, torch.fx.Node) else None
        if not isinstance(value, torch.Tensor) or torch_internals.storage_id(value) not in changed:
            continue
        with forward.graph.inserting_before(changes[0]):
            outputs[k] = _call(forward.graph, aten.clone.default, saved)
        if saved.name in by_name:
            by_name[saved.name].meta["val"] = outputs[k].meta["val"]
    result.args = (tuple(outputs),)
    forward.recompile()


def _is_dense(value: torch.Tensor) -> bool:
    return torch_internals.is_dense(value)


def _dense(graph: torch.fx.Graph, node: torch.fx.Node) -> torch.fx.Node:
    value = node.meta["val"]
    if all(isinstance(size, int) for size in (*value.shape, *value.stride())):
        for dim, (size, stride) in enumerate(zip(value.shape, value.stride(), strict=True)):
            if stride == 0 and size > 1:
                node = _call(graph, aten.slice.Tensor, node, dim, 0, 1)
    if _is_dense(node.meta["val"]):
        return node
    return _call(graph, aten.clone.default, node, memory_format=torch.contiguous_format)


def _call(graph: torch.fx.Graph, op: Any, node: torch.fx.Node, *args: Any, **kwargs: Any) -> Any:
    called = graph.call_function(op, (node, *args), kwargs)
    called.meta["val"] = op(node.meta["val"], *args, **kwargs)
    for name in ("stack_trace", "nn_module_stack"):
        if name in node.meta:
            called.meta[name] = node.meta[name]
    return called
