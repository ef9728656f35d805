"""A model's captured graph cut into pieces that can be timed: each op that takes long by itself is
one, and so is what can run between two such without waiting for another."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from .. import fx, torch_internals
from ..compiler import GraphCompiler
from ..options import Options
from ..programs import ProgramMaker
from . import host_cost

# By parts of an op's name, the first that is in it; all else is what XLA fuses.
GROUPS = {
    "conv": "convolution",
    "mm": "product",
    "linear": "product",
    "attention": "product",
    "pool": "pooling",
}
OTHER = "elementwise, norms, sums, views"


def group_of(op: str) -> str:
    """Of an op's or an event's name in ATen."""
    return next((group for part, group in GROUPS.items() if part in op), OTHER)


@dataclass
class Captured:
    """A graph of ATen ops with the values of a call."""

    gm: GraphModule
    weights: frozenset[int]
    inputs: list[Any] = field(default_factory=list)


def captured(model: torch.nn.Module, inputs: tuple[Any, ...]) -> Captured:
    """What is compiled of a call without gradients; it has to be one graph."""
    found: list[Captured] = []

    def keep(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        one = Captured(gm, torch_internals.static_inputs())
        found.append(one)

        def call(arguments: list[Any]) -> Any:
            one.inputs = list(arguments)
            return gm(*arguments)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    backend = functools.partial(host_cost.compiled_by, keep)
    torch.compile(model, backend=backend, fullgraph=True)(*inputs)
    (one,) = found
    return one


@dataclass
class Piece:
    """reads and writes: the nodes of the whole graph whose values go in and come out."""

    group: str
    reads: list[Node]
    writes: list[Node]
    call: Callable[[list[Any]], list[Any]]


def pieces(whole: Captured) -> list[Piece]:
    """In the order in which they can run, each compiled as by options={"freeze": True}."""
    nodes = [node for node in whole.gm.graph.nodes if node.op == "call_function"]
    placeholders = whole.gm.graph.find_nodes(op="placeholder")
    weights = {placeholders[index] for index in whole.weights}
    outputs = set(whole.gm.graph.find_nodes(op="output")[0].all_input_nodes)
    found: dict[tuple[int, str], list[Node]] = {}
    place: dict[Node, tuple[int, str]] = {}
    for node in nodes:
        stage = max((place[n][0] for n in node.all_input_nodes if n in place), default=0)
        if node.target is operator.getitem:
            place[node] = place[node.all_input_nodes[0]]
        elif _is_view(node):
            place[node] = (stage, "")
            continue
        else:
            # Heavy ops run in the even stages; of an odd stage all is one piece.
            heavy = group_of(str(node.target)) != OTHER
            place[node] = (stage + (stage % 2 == heavy), node.name if heavy else "")
        found.setdefault(place[node], []).append(node)
    by_stage = sorted(found.items(), key=lambda item: item[0][0])
    return [_piece(members, weights, outputs) for _, members in by_stage]


def _is_view(node: Node) -> bool:
    """Of one tensor, so that who reads it may as well make it itself."""
    target: Any = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
        return False
    return target.is_view and len(node.all_input_nodes) == 1


def _piece(own: list[Node], weights: set[Node], outputs: set[Node]) -> Piece:
    graph = Graph()
    copies: dict[Node, Node] = {}
    reads: list[Node] = []

    def copied(node: Node) -> Node:
        if node not in copies:
            if node in own or _is_view(node):
                for read in node.all_input_nodes:
                    copied(read)
                copies[node] = graph.node_copy(node, lambda read: copies[read])
            else:
                reads.append(node)
                copies[node] = graph.placeholder(node.name)
                copies[node].meta = dict(node.meta)
        return copies[node]

    # Placeholders come first in a graph.
    for node in _outside(own):
        copied(node)
    for node in own:
        copied(node)
    writes = [node for node in own if _leaves(node, own, outputs)]
    end = graph.output([copies[node] for node in writes])
    end.meta["val"] = [node.meta["val"] for node in writes]
    gm = GraphModule(torch.nn.Module(), graph)
    fx.mark_weights(gm, {k for k, node in enumerate(reads) if node in weights})
    maker = ProgramMaker(Options(disk_cache=False, freeze=True))
    call = GraphCompiler(maker, "error", frozenset()).compile(gm, [], None)
    return Piece(group_of(str(own[0].target)), reads, writes, call)


def _outside(own: list[Node]) -> list[Node]:
    """What the nodes read that isn't made by them or a view of such."""
    found: dict[Node, None] = {}
    seen = set(own)
    left = list(own)
    while left:
        for read in left.pop().all_input_nodes:
            if read in seen:
                continue
            seen.add(read)
            if _is_view(read):
                left.append(read)
            else:
                found[read] = None
    return list(found)


def _leaves(node: Node, own: list[Node], outputs: set[Node]) -> bool:
    """Whether somebody else needs its value, which is a tensor."""
    if not isinstance(node.meta["val"], torch.Tensor):
        return False
    if node in outputs:
        return True
    return any(
        _leaves(user, own, outputs) if _is_view(user) else user not in own for user in node.users
    )
