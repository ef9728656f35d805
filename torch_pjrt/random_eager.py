"""The option random="eager": random ops run on the host, as eager runs them.

Their results become inputs of the graph, computed anew before each call in the graph's order. So
they are eager's own numbers, and the program needs to know nothing of randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from . import random_ops, random_rewrites, torch_internals
from .errors import failure
from .random_rewrites import Rewrite
from .sources import source_of
from .torch_internals import OpOverload

aten = torch.ops.aten

# Random ops whose first argument only gives the result's type.
_LIKE = frozenset(
    (
        aten.bernoulli.Tensor,
        aten.bernoulli.p,
        aten.cauchy.default,
        aten.exponential.default,
        aten.geometric.default,
        aten.log_normal.default,
        aten.normal_functional.default,
        aten.rand_like.default,
        aten.randint_like.default,
        aten.randint_like.low_dtype,
        aten.randn_like.default,
        aten.random.default,
        aten.random.to,
        aten.uniform.default,
    )
)


def table() -> dict[OpOverload, Rewrite]:
    """Op -> its rewrite: dropout as eager computes it, of a mask made by another random op."""
    return {
        aten.native_dropout.default: _native_dropout,
        aten.native_dropout_backward.default: random_rewrites.dropout_backward,
    }


def _native_dropout(
    self: torch.Tensor, p: float, train: bool | None
) -> tuple[torch.Tensor, torch.Tensor]:
    if train is False or p == 0:
        return self.clone(), torch.ones_like(self, dtype=torch.bool)
    if p == 1:
        return self * 0, torch.zeros_like(self, dtype=torch.bool)
    # Eager fills a mask of the input's strides, in the order of its memory.
    mask = random_rewrites.like(self, lambda size: aten.bernoulli.p(self.new_empty(size), 1 - p))
    mask = mask.to(torch.bool)
    return self * random_rewrites.dropout_noise(mask, 1 - p, self.dtype), mask


Arguments = Sequence[Any]  # of one call: tensors and ints
Evaluate = Callable[[Arguments], Any]


@dataclass(frozen=True)
class HostDraws:
    """The random nodes of one graph. `take` runs them for a call, and gives their results."""

    steps: list[Evaluate]
    names: list[str]

    def take(self, arguments: Arguments) -> list[torch.Tensor]:
        with torch.no_grad():
            return [step(arguments) for step in self.steps]


def take_out(gm: torch.fx.GraphModule) -> HostDraws:
    """Replaces the random nodes of a graph by new last placeholders, in the nodes' order.

    Raises Error (unsupported) for one that needs a tensor which the program computes; the graph is
    then as it was.
    """
    placeholders = gm.graph.find_nodes(op="placeholder")
    numbers = _Numbers(placeholders)
    inputs = {node: index for index, node in enumerate(placeholders)}
    names: list[str] = []
    last = placeholders[-1] if placeholders else None
    random = [node for node in gm.graph.nodes if random_ops.is_random(node.target)]
    steps = [_Step(gm, node, inputs, numbers).make() for node in random]
    for node in random:
        with _at(gm.graph, last):
            last = gm.graph.placeholder(f"random_{len(names) + 1}")
        last.meta["val"] = node.meta["val"]
        names.append(node.name)
        node.replace_all_uses_with(last)
        gm.graph.erase_node(node)
    gm.graph.eliminate_dead_code()  # tensors that only gave a type
    gm.recompile()
    return HostDraws(steps, names)


def ops_of(gm: torch.fx.GraphModule) -> frozenset[str]:
    """The names of its random ops."""
    nodes = [node for node in gm.graph.nodes if random_ops.is_random(node.target)]
    return frozenset(torch_internals.op_name(node.target) for node in nodes)


def _at(graph: torch.fx.Graph, last: torch.fx.Node | None) -> Any:
    """Where the next placeholder goes: after the last one."""
    return graph.inserting_after(last) if last else graph.inserting_before(next(iter(graph.nodes)))


class _Numbers:
    """Values of symbolic numbers, from a call's arguments."""

    def __init__(self, placeholders: Sequence[torch.fx.Node]) -> None:
        self._sources: dict[Any, tuple[int, int | None]] = {}  # symbol -> input, dim
        for index, node in enumerate(placeholders):
            value = node.meta.get("val")
            sizes = list(value.shape) if isinstance(value, torch.Tensor) else [value]
            for dim, size in enumerate(sizes):
                if isinstance(size, torch.SymInt):
                    symbol = torch_internals.symbolic(size)[0]
                    source = (index, dim if isinstance(value, torch.Tensor) else None)
                    self._sources.setdefault(symbol, source)

    def value(self, number: Any, arguments: Arguments) -> Any:
        if not isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool):
            return number
        expression = torch_internals.symbolic(number)[0]
        values = {}
        for symbol in expression.free_symbols:
            index, dim = self._sources[symbol]
            values[symbol] = arguments[index] if dim is None else arguments[index].shape[dim]
        value = expression.xreplace(values)
        return int(value) if isinstance(number, torch.SymInt) else float(value)

    def can_tell(self, number: Any) -> bool:
        if not isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool):
            return True
        return torch_internals.symbolic(number)[0].free_symbols <= self._sources.keys()


class _Step:
    """A random node, made into a function of a call's arguments."""

    def __init__(
        self,
        gm: torch.fx.GraphModule,
        node: torch.fx.Node,
        inputs: dict[torch.fx.Node, int],
        numbers: _Numbers,
    ) -> None:
        self._gm = gm
        self._node = node
        self._inputs = inputs
        self._numbers = numbers

    def make(self) -> Evaluate:
        node = self._node
        if not isinstance(node.meta.get("val"), torch.Tensor):
            self._fail("it has several results")
        args: list[Evaluate] = []
        for position, given in enumerate(node.args):
            is_like = position == 0 and node.target in _LIKE
            args.append(self._like(given) if is_like else self._argument(given))
        kwargs = {name: self._argument(given) for name, given in node.kwargs.items()}

        def run(arguments: Arguments) -> Any:
            return node.target(  # type: ignore[operator]
                *(arg(arguments) for arg in args),
                **{name: arg(arguments) for name, arg in kwargs.items()},
            )

        return run

    def _like(self, given: Any) -> Evaluate:
        """A tensor of the type that `given` has, with any elements."""
        tensor = given.meta["val"]
        self._check([*tensor.shape, *tensor.stride()])

        def like(arguments: Arguments) -> torch.Tensor:
            size, stride = (
                [self._numbers.value(number, arguments) for number in numbers]
                for numbers in (tensor.shape, tensor.stride())
            )
            return torch.empty_strided(size, stride, dtype=tensor.dtype, device=tensor.device)

        return like

    def _argument(self, given: Any) -> Evaluate:
        if isinstance(given, list | tuple):
            items = [self._argument(item) for item in given]
            return lambda arguments: [item(arguments) for item in items]
        if not isinstance(given, torch.fx.Node):
            return lambda arguments: given
        value = given.meta.get("val")
        if given in self._inputs:
            index = self._inputs[given]
            return lambda arguments: arguments[index]
        if given.op == "get_attr":
            constant = getattr(self._gm, str(given.target))
            return lambda arguments: constant
        if isinstance(value, torch.Tensor):
            self._fail(f"its argument {given.name} is computed by the program")
        self._check([value])
        return lambda arguments: self._numbers.value(value, arguments)

    def _check(self, numbers: Sequence[Any]) -> None:
        if not all(self._numbers.can_tell(number) for number in numbers):
            self._fail("a size of it is computed by the program")

    def _fail(self, why: str) -> None:
        raise failure(
            "unsupported",
            what=f'{self._node.target.name()} with options={{"random": "eager"}}: {why}',  # type: ignore[union-attr]
            at=source_of(self._node),
            remedy="leave the option out, or draw the numbers outside of the compiled function",
        )
