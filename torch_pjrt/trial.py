"""Which nodes of a captured graph no Graph can hold."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch

from . import torch_internals
from .capture_error import CaptureError
from .errors import failure
from .fx import NUMBERS, REWRITE, Capture
from .sources import source_of
from .torch_internals import OpOverload

__all__ = ["refusals"]


def refusals(
    gm: torch.fx.GraphModule, eager_ops: frozenset[str] = frozenset()
) -> dict[torch.fx.Node, CaptureError]:
    """The nodes that no Graph can hold, or whose op is one of `eager_ops`, and why; each as if the
    others ran before it."""
    return _Trial(gm, eager_ops).refusals()


class _Trial(Capture):
    """A walk that goes on after a node that no Graph can hold, with its results as inputs."""

    def __init__(self, gm: torch.fx.GraphModule, eager_ops: frozenset[str]) -> None:
        super().__init__(gm, [], None)
        self._eager_ops = eager_ops

    def refusals(self) -> dict[torch.fx.Node, CaptureError]:
        refused: dict[torch.fx.Node, CaptureError] = {}
        steps = {"placeholder": self._placeholder, "get_attr": self._constant}
        for node in self._gm.graph.find_nodes(op="placeholder"):
            self._bind(node.meta.get("val"))
        for node in self._gm.graph.nodes:
            try:
                if node.op == "call_function":
                    self._check(node)
                    self._call(node)
                elif node.op in steps:
                    steps[node.op](node)
            except CaptureError as error:
                if error.code != "unsupported":
                    raise
                if node.op == "call_function":
                    refused[node] = error
                self._values[node] = self._received(node, node.meta.get("val"), error)
        return refused

    def _check(self, node: torch.fx.Node) -> None:
        if isinstance(node.target, OpOverload) and node.target.name() in self._eager_ops:
            raise failure(
                "unsupported",
                what=f"{node.target.name()} is one of eager_ops",
                at=source_of(node),
                remedy="leave it out of options eager_ops",
            )
        for given in node.all_input_nodes:
            value = self._values.get(given)
            if isinstance(value, _Foreign) and node.target is not operator.getitem:
                raise failure(
                    "unsupported",
                    what=f"{torch_internals.op_name(node.target)} reads what no program can",
                    because=value.why,
                    at=source_of(node),
                    remedy=REWRITE,
                )

    def _received(self, node: torch.fx.Node, value: Any, error: CaptureError) -> Any:
        """What stands for the value of a refused node."""
        if isinstance(value, list | tuple):
            return [self._received(node, item, error) for item in value]
        if isinstance(value, NUMBERS):
            if not isinstance(value, torch.SymFloat):  # which is no input of a program
                self._bind(value)
            return value
        if isinstance(value, torch.Tensor):
            self._bind(value)
            try:
                self._tensor_input(node, value)
                return self._values[node]
            except CaptureError as reason:
                return _Foreign(str(reason).splitlines()[0])
        return _Foreign(str(error).splitlines()[0])


@dataclass(frozen=True)
class _Foreign:
    """A value that no Graph can hold."""

    why: str
