"""Results of a backward that take the memory of what the forward saved for it.

A backward reads each saved tensor for the last time, unless its graph is kept. A result of the same
type may lie where a saved tensor lay that the program has read by then: the graph says so by a
copy_ into it, as for any input that changes, and returns that input. At each call such a tensor is
given away only if nobody else has it or its memory; otherwise the program is given a copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeGuard

import torch
from torch.fx import GraphModule, Node

from . import torch_internals

from . import _C  # isort: skip

__all__ = ["give_away", "mark", "take"]

_IS_OURS = "torch_pjrt_saved"
# Less isn't worth a look.
_LEAST_BYTES = 4096


def mark(forward: GraphModule, backward: GraphModule, user_outputs: int) -> None:
    """Notes in the backward's graph which inputs are the forward's own: computed by it, and sharing
    memory with none of its inputs, of the user's outputs, of what it changes or of each other."""
    outputs = list(forward.graph.find_nodes(op="output")[0].args[0])
    inputs = forward.graph.find_nodes(op="placeholder")
    theirs = {_memory(node) for node in (*inputs, *outputs[:user_outputs])}
    saved = outputs[user_outputs:]
    uses = Counter(_memory(node) for node in saved)
    own = {
        node.name
        for node in saved
        if isinstance(node, Node)
        and node.op == "call_function"
        and (memory := _memory(node)) is not None
        and memory not in theirs
        and uses[memory] == 1
    }
    for node in backward.graph.find_nodes(op="placeholder"):
        node.meta[_IS_OURS] = node.name in own


def give_away(gm: GraphModule) -> list[int]:
    """Has results of a backward written into saved tensors that were marked. Returns the numbers of
    those inputs."""
    inputs = gm.graph.find_nodes(op="placeholder")
    (end,) = gm.graph.find_nodes(op="output")
    place = {node: k for k, node in enumerate(gm.graph.nodes)}
    free = [k for k, node in enumerate(inputs) if node.meta.get(_IS_OURS) and _is_worth_it(node)]
    given = []
    for result in _own_results(end.args[0], inputs):
        for k in free:
            # Where it is still to be read, the program would have to copy the result later.
            is_read = max((place[user] for user in inputs[k].users), default=-1) <= place[result]
            if is_read and _are_alike(inputs[k], result):
                with gm.graph.inserting_before(end):
                    write = gm.graph.call_function(
                        torch.ops.aten.copy_.default, (inputs[k], result)
                    )
                write.meta["val"] = result.meta["val"]
                end.replace_input_with(result, inputs[k])
                free.remove(k)
                given.append(k)
                break
    if given:
        gm.recompile()
    return given


def take(arguments: list[Any], given: Sequence[int]) -> None:
    """Puts copies in the place of arguments that are given away and somebody else has too."""
    is_kept = torch_internals.keeps_graph()
    count = 0
    for k in given:
        if is_kept or not _C.holds_alone(arguments, k):
            arguments[k] = arguments[k].clone()
        else:
            count += 1
    _C.count_donated(count)


def _memory(node: Any) -> int | None:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return torch_internals.storage_id(value) if _is_dense(value) else None


def _is_dense(value: Any) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def _is_worth_it(node: Node) -> bool:
    value = node.meta["val"]
    if not _is_dense(value) or value.device.type != "cpu" or not torch_internals.is_dense(value):
        return False
    size = value.numel() * value.element_size()
    return not isinstance(size, int) or size >= _LEAST_BYTES


def _own_results(outputs: Any, inputs: list[Node]) -> list[Node]:
    """The results that are computed, each once, and share memory with nothing else."""
    uses = Counter(_memory(node) for node in (*inputs, *outputs))
    return [
        node
        for node in outputs
        if isinstance(node, Node)
        and node.op == "call_function"
        and (memory := _memory(node)) is not None
        and uses[memory] == 1
    ]


def _are_alike(a: Node, b: Node) -> bool:
    x, y = a.meta["val"], b.meta["val"]
    return (
        x.dtype == y.dtype
        and x.device == y.device
        and torch_internals.surely_equal(x.shape, y.shape)
        and torch_internals.surely_equal(x.stride(), y.stride())
    )
