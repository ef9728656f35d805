"""Symbolic numbers of a captured graph as numbers of another that knows some of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.fx import Graph, Node

from . import torch_internals

__all__ = ["Sizes"]

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
Value = Callable[[Node], Any]  # what a known node is in the other graph


class Sizes:
    """`known`: the nodes of which numbers and the dims of tensors can be read."""

    def __init__(self, known: Iterable[Node]) -> None:
        self._numbers: list[tuple[Any, Node, int | None]] = []  # SymInt, the node, dim
        for node in known:
            for number, dim in _sizes(node.meta.get("val")):
                self._numbers.append((number, node, dim))
        self._sources: dict[Any, tuple[Any, Node, int | None]] = {}
        for found in self._numbers:
            expression = torch_internals.symbolic(found[0])[0]
            if expression.is_Symbol:
                self._sources.setdefault(expression, found)
        for found in self._numbers:
            self._add_linear(found)
        self._made: dict[Any, Any] = {}

    def _add_linear(self, found: tuple[Any, Node, int | None]) -> None:
        """A symbol that no node gives by itself, where one gives a multiple of it and a number."""
        expression = torch_internals.symbolic(found[0])[0]
        free = expression.free_symbols
        if len(free) == 1 and not free & self._sources.keys():
            (symbol,) = free
            if expression.is_polynomial(symbol) and sympy.degree(expression, symbol) == 1:
                self._sources[symbol] = found

    def sources(self, number: Any) -> list[Node]:
        """The nodes from which a number is read."""
        symbols = _symbols(number)
        return [self._sources[symbol][1] for symbol in symbols if symbol in self._sources]

    def value_of(self, symbol: Any) -> torch.SymInt:
        number = self._sources[symbol][0]
        return torch_internals.symbol_as_int(number, symbol)

    def symbol(self, symbol: Any, graph: Graph, value: Value) -> Node:
        """The symbol's value in the other graph."""
        if symbol not in self._made:
            number, node, dim = self._sources[symbol]
            made = value(node)
            if dim is not None:
                made = graph.call_function(torch.ops.aten.sym_size.int, (made, dim))
            expression = torch_internals.symbolic(number)[0]
            if not expression.is_Symbol:
                times, more = (int(c) for c in sympy.Poly(expression, symbol).all_coeffs())
                made = graph.call_function(_solved, (made, times, more))
            self._made[symbol] = made
        return self._made[symbol]

    def number(self, number: Any, graph: Graph, value: Value) -> Any:
        """A number or a node of the other graph."""
        if not isinstance(number, _SYMBOLIC):
            return number
        expression = torch_internals.symbolic(number)[0]
        if expression not in self._made:
            symbols = {s: self.symbol(s, graph, value) for s in sorted(_symbols(number), key=str)}
            self._made[expression] = torch_internals.number_in(graph, expression, symbols)
        return self._made[expression]

    def used_in(self, graph: Graph) -> set[Any]:
        """The symbols of all values and arguments of a graph's nodes."""
        found: set[Any] = set()
        for node in graph.nodes:
            values = torch_internals.leaves((node.meta.get("val"), node.args, node.kwargs))
            for value in values:
                found |= _symbols(value)
        return found

    def dims_of(self, tensors: Sequence[Node]) -> set[Any]:
        """The symbols that are dims of these."""
        sizes = [size for node in tensors for size, _ in _sizes(node.meta["val"])]
        expressions = {torch_internals.symbolic(size)[0] for size in sizes}
        return {expression for expression in expressions if expression.is_Symbol}


def _sizes(value: Any) -> list[tuple[Any, int | None]]:
    """The symbolic ones, with their dim."""
    if isinstance(value, torch.Tensor):
        dims = enumerate(value.shape)
        return [(size, dim) for dim, size in dims if isinstance(size, torch.SymInt)]
    return [(value, None)] if isinstance(value, torch.SymInt) else []


def _symbols(value: Any) -> set[Any]:
    if isinstance(value, torch.Tensor):
        numbers = [*value.shape, *value.stride(), value.storage_offset()]
        return set().union(*map(_symbols, numbers))
    if not isinstance(value, _SYMBOLIC):
        return set()
    expression = torch_internals.symbolic(value)[0]
    return set(getattr(expression, "free_symbols", ()))


def _solved(size: int, times: int, more: int) -> int:
    """The symbol, where times * symbol + more is the size."""
    return (size - more) // times
