"""Higher-order ops: what their nodes of a captured graph pass to the graphs within."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["Body", "Control", "describe"]


@dataclass(frozen=True)
class Body:
    """A graph within a node. Its inputs are `passed`, which the op gives it (elements of them, in a
    scan), and `outer`: the same at each time."""

    graph: torch.fx.Node  # its name in the graph module
    passed: Sequence[Any]
    outer: Sequence[Any]


@dataclass(frozen=True)
class Control:
    """An op of the Graph, with its arguments and regions."""

    op: str
    arguments: list[tuple[str, Any]]
    bodies: list[Body]
    is_loop: bool = True


def describe(node: torch.fx.Node) -> Control | None:
    """None for a higher-order op without a rule."""
    name = node.target.name()  # type: ignore[union-attr]
    args: tuple[Any, ...] = node.args
    if name == "cond":
        predicate, on_true, on_false, operands = args
        bodies = [Body(on_true, [], operands), Body(on_false, [], operands)]
        return Control("higher_order::cond", [("predicate", predicate)], bodies, is_loop=False)
    if name == "while_loop":
        condition, body, carried, outer = args
        bodies = [Body(condition, carried, outer), Body(body, carried, outer)]
        return Control("higher_order::while_loop", [("carried", carried)], bodies)
    if name == "scan":
        combine, init, xs, outer = args
        bodies = [Body(combine, [*init, *xs], outer)]
        return Control("higher_order::scan", [("init", init), ("xs", xs)], bodies)
    return None
