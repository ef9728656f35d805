"""Sparse gradients: the program computes their indices and values, of which a call makes them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

aten = torch.ops.aten
_MAKES = aten._sparse_coo_tensor_with_dims_and_tensors.default


class Sparse(NamedTuple):
    """A sparse output: where its indices [dims, n] are, its values following, and its size."""

    output: int
    size: tuple[int, ...]


def take_out(gm: torch.fx.GraphModule) -> list[Sparse]:
    """Replaces each output of a backward that is a sparse tensor by its indices and values."""
    output = gm.graph.output_node()
    found: list[Sparse] = []
    outputs: list[Any] = []
    for node in output.args[0]:  # type: ignore[union-attr]
        if not isinstance(node, torch.fx.Node) or node.target is not _MAKES:
            outputs.append(node)
            continue
        size, indices, values = node.args[2:5]
        if not all(isinstance(s, int) for s in size):  # type: ignore[union-attr]
            outputs.append(node)
            continue
        found.append(Sparse(len(outputs), tuple(size)))  # type: ignore[arg-type]
        outputs += [indices, values]
    if found:
        output.args = (tuple(outputs),)
        gm.graph.eliminate_dead_code()
    return found


def put_back(outputs: list[Any], sparse: list[Sparse]) -> list[Any]:
    """The outputs of the program with those that were taken out of its graph."""
    whole = list(outputs)
    for output, size in reversed(sparse):
        indices, values = whole[output : output + 2]
        made = torch.sparse_coo_tensor(indices, values, size, check_invariants=False)
        whole[output : output + 2] = [made]
    return whole
