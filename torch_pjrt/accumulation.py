"""A step over several batches, whose body is stated once: marks in what is traced, and the loop.

A step is traced for one batch, whose tensors are `each` of those of all batches, and ends in
`accumulated`. What lies between these depends on the batch, on random numbers, or on buffers that
it changes: that becomes the body of a scan, and all else stays outside of it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from . import random_ops, torch_internals
from .errors import failure

__all__ = ["accumulated", "are_alike", "each", "loop"]

aten = torch.ops.aten
_library = torch.library.Library("torch_pjrt", "FRAGMENT")
_PURE = (torch.Tag.pt2_compliant_tag,)
_library.define("each(Tensor[] items) -> Tensor", tags=_PURE)
_library.define(
    "accumulated(Tensor[] sums, Tensor[] parts, Tensor[] outside, int count) -> Tensor[]",
    tags=_PURE,
)
_ops = torch.ops.torch_pjrt


@torch.library.register_fake("torch_pjrt::each", lib=_library)
def _each_type(items: Sequence[Tensor]) -> Tensor:
    return items[0].new_empty(items[0].shape)


@torch.library.register_fake("torch_pjrt::accumulated", lib=_library)
def _accumulated_type(
    sums: Sequence[Tensor], parts: Sequence[Tensor], outside: Sequence[Tensor], count: int
) -> list[Tensor]:
    stacked = [t.new_empty([count, *t.shape]) for t in parts]
    return [torch.empty_like(t) for t in sums] + stacked


def are_alike(leaves: Sequence[Any]) -> bool:
    """Whether the same leaf of all batches can be `each` of them: numbers have to be equal."""
    first = leaves[0]
    if not isinstance(first, Tensor):
        return all(type(leaf) is type(first) and leaf == first for leaf in leaves)
    return all(
        isinstance(leaf, Tensor) and leaf.shape == first.shape and leaf.dtype == first.dtype
        for leaf in leaves
    )


def each(*leaves: Any) -> Any:
    """Stands for the leaf of each batch in turn."""
    if not isinstance(leaves[0], Tensor):
        return leaves[0]
    return _ops.each([leaf.detach() for leaf in leaves])


def accumulated(
    sums: list[Tensor], parts: list[Tensor], outside: list[Tensor], count: int
) -> tuple[list[Tensor], list[Tensor]]:
    """The sums over the batches, and what is stacked. `outside`: tensors that change after this,
    and not with each batch."""
    results = _ops.accumulated(sums, parts, outside, count)
    return results[: len(sums)], results[len(sums) :]


# --- the loop


def loop(gm: torch.fx.GraphModule) -> None:
    """Makes a scan of what is marked, if anything is."""
    found = gm.graph.find_nodes(op="call_function", target=_ops.accumulated.default)
    if found:
        _Loop(gm, found[0]).make()


class _Loop:
    def __init__(self, gm: torch.fx.GraphModule, end: torch.fx.Node) -> None:
        self._gm = gm
        self._end = end
        nodes = list(gm.graph.nodes)
        self._xs = [n for n in nodes if n.target is _ops.each.default]
        after = _descendants(nodes, {end}) | {end}
        arguments: Any = end.args
        self._sums, self._parts, outside_nodes, self._count = arguments
        outside = {_base(n) for n in outside_nodes}
        # Buffers that the body changes -> their new values.
        self._carried: dict[torch.fx.Node, torch.fx.Node] = {
            n.args[0]: n.args[1]
            for n in nodes
            if n.target is aten.copy_.default and n.args[0] not in outside
        }
        draws = {n for n in nodes if random_ops.is_draw(n.target) and n not in after}
        sources = {*self._xs, *draws, *self._carried}
        inside = _descendants(nodes, sources) | draws
        self._body = [
            n for n in nodes if n in inside and n not in after and n.op == "call_function"
        ]
        self._body = [
            n for n in self._body if n not in self._xs and n.target is not aten.copy_.default
        ]

    def make(self) -> None:
        values: list[torch.fx.Node] = [*self._sums, *self._carried.values(), *self._parts]
        num_sums, num_carried = len(self._sums), len(self._carried)
        combine, outer = self._combine(values, num_sums)
        self._gm.combine = torch.fx.GraphModule(self._gm, combine)
        with self._gm.graph.inserting_before(self._end):
            init = [self._zeros(n) for n in self._sums]
            xs = [self._stacked(n) for n in self._xs]
            body = self._gm.graph.get_attr("combine")
            arguments = (body, [*init, *self._carried], xs, tuple(outer))
            scan = self._gm.graph.call_function(torch_internals.SCAN, arguments)
            results = [
                self._result(scan, k, n, is_stacked=k >= num_sums + num_carried)
                for k, n in enumerate(values)
            ]
        scan.meta["val"] = [n.meta["val"] for n in results]
        self._replace_end(results[:num_sums] + results[num_sums + num_carried :])
        for value, result in zip(
            list(self._carried.values()), results[num_sums : num_sums + num_carried], strict=True
        ):
            value.replace_all_uses_with(result, lambda user: self._is_outside(user))
        self._remove_body()

    def _is_outside(self, user: torch.fx.Node) -> bool:
        return user not in self._body and user.target is not torch_internals.SCAN

    def _combine(
        self, values: list[torch.fx.Node], num_sums: int
    ) -> tuple[torch.fx.Graph, list[torch.fx.Node]]:
        """The body as a graph of its own, and the outer nodes that are its last inputs."""
        graph = torch.fx.Graph()
        inner: dict[torch.fx.Node, torch.fx.Node] = {}

        def placeholder(name: str, value: Any) -> torch.fx.Node:
            node = graph.placeholder(name)
            node.meta["val"] = value
            return node

        totals = [placeholder(f"total_{k}", n.meta["val"]) for k, n in enumerate(values[:num_sums])]
        for node in [*self._carried, *self._xs]:
            inner[node] = placeholder(node.name, node.meta["val"])
        inside = set(self._body)
        used = [n for node in self._body for n in node.all_input_nodes] + values
        outer = list(dict.fromkeys(n for n in used if n not in inside and n not in inner))
        for node in outer:
            inner[node] = placeholder(node.name, node.meta["val"])
        for node in self._body:
            inner[node] = graph.node_copy(node, lambda n: inner[n])
        results = [inner[n] for n in values]
        for k, total in enumerate(totals):
            results[k] = graph.call_function(aten.add.Tensor, (total, results[k]))
            results[k].meta["val"] = values[k].meta["val"]
        graph.output(tuple(results))
        return graph, outer

    def _zeros(self, node: torch.fx.Node) -> torch.fx.Node:
        value = node.meta["val"]
        if not all(isinstance(size, int) for size in value.shape):
            raise failure(
                "unsupported",
                what="accumulate over parameters of a size that changes",
                remedy="leave their sizes as they are, or take several steps",
            )
        arguments = (list(value.shape), 0)
        return self._computed(aten.full.default, arguments, {"dtype": value.dtype})

    def _stacked(self, node: torch.fx.Node) -> torch.fx.Node:
        items = node.args[0]
        rows = [self._computed(aten.unsqueeze.default, (n, 0)) for n in items]  # type: ignore[union-attr]
        return self._computed(aten.cat.default, (rows,))

    def _computed(
        self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> torch.fx.Node:
        """A node with the type of its result."""
        node = self._gm.graph.call_function(op, args, kwargs or {})
        value_of = torch.fx.node.map_arg(args, lambda n: n.meta["val"])
        with torch_internals.fake_mode_of(self._end.meta["val"][0]):
            node.meta["val"] = op(*value_of, **(kwargs or {}))
        return node

    def _result(
        self, scan: torch.fx.Node, k: int, value: torch.fx.Node, is_stacked: bool
    ) -> torch.fx.Node:
        node = self._gm.graph.call_function(operator.getitem, (scan, k))
        given = value.meta["val"]
        with torch_internals.fake_mode_of(self._end.meta["val"][0]):
            node.meta["val"] = (
                given.new_empty([self._count, *given.shape])
                if is_stacked
                else torch.empty_like(given)
            )
        return node

    def _replace_end(self, results: list[torch.fx.Node]) -> None:
        for item in list(self._end.users):
            result = results[item.args[1]]  # type: ignore[index]
            item.replace_all_uses_with(result)
            self._gm.graph.erase_node(item)
        self._gm.graph.erase_node(self._end)

    def _remove_body(self) -> None:
        for node in [*reversed(self._body), *self._xs]:
            if node.users:
                raise failure(
                    "internal",
                    what=f"{node.name} of the body of a step is read after it",
                    remedy="please report it; accumulate=1 works around it",
                )
            self._gm.graph.erase_node(node)


def _base(node: torch.fx.Node) -> torch.fx.Node:
    """The input that a node only detaches or gives another name."""
    while node.op != "placeholder" and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node


def _descendants(nodes: list[torch.fx.Node], roots: set[torch.fx.Node]) -> set[torch.fx.Node]:
    """The nodes, in their order, that depend on one of the roots."""
    found: set[torch.fx.Node] = set()
    for node in nodes:
        if any(n in found or n in roots for n in node.all_input_nodes):
            found.add(node)
    return found
