"""Which outputs of a captured graph are views of one memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from . import torch_internals
from .errors import failure
from .sources import source_of
from .torch_internals import EagerOutput

__all__ = ["Shared", "shared_outputs"]


@dataclass(frozen=True)
class Shared:
    """How one of several outputs that share memory is made.

    `memory`: the output whose memory it is a view of; from the number of outputs on, one that is
    there for its memory only. `same`: an earlier output that is the same tensor object, or None.
    """

    memory: int
    same: int | None


def shared_outputs(
    outputs: list[Any], first_nodes: dict[int, torch.fx.Node], eager: list[EagerOutput | None]
) -> tuple[dict[int, Shared], list[torch.fx.Node]]:
    """The outputs that share their memory with others in eager, by position, and the nodes whose
    memory is viewed but is no output: outputs to add at the end.

    `outputs`: FX nodes and constants. `first_nodes`: storage -> the first node with it. `eager`:
    of each output that the user gets as it is returned, which tensor it is in eager.
    """
    groups: dict[int, list[int]] = {}
    for position, output in enumerate(outputs):
        if _tensor(output) is not None and eager[position] is not None:
            groups.setdefault(_eager(eager, position).storage, []).append(position)
    shared: dict[int, Shared] = {}
    hidden: list[torch.fx.Node] = []
    for group in groups.values():
        if len(group) == 1:
            continue
        _check_one_storage([outputs[position] for position in group])
        root = first_nodes[_storage(outputs[group[0]])]
        memory = next((p for p in group if outputs[p] is root), None)
        if memory is None:
            memory = len(outputs) + len(hidden)
            hidden.append(root)
        for position in group:
            tensor = _eager(eager, position).tensor
            same = next((p for p in group if _eager(eager, p).tensor == tensor), position)
            shared[position] = Shared(memory, same if same < position else None)
    return shared, hidden


def _eager(eager: list[EagerOutput | None], position: int) -> EagerOutput:
    found = eager[position]
    assert found is not None
    return found


def _tensor(output: Any) -> torch.Tensor | None:
    value = output.meta.get("val") if isinstance(output, torch.fx.Node) else None
    return value if isinstance(value, torch.Tensor) else None


def _storage(output: Any) -> int:
    tensor = _tensor(output)
    assert tensor is not None
    return torch_internals.storage_id(tensor)


def _check_one_storage(nodes: list[torch.fx.Node]) -> None:
    for node in nodes[1:]:
        if _storage(node) != _storage(nodes[0]):
            raise failure(
                "unsupported",
                what="two outputs share their memory by a way that isn't captured",
                one=source_of(nodes[0]),
                other=source_of(node),
                remedy="return a copy of one: y.clone()",
            )
