"""Graphs with ops that no program can hold: pieces that are compiled, and ops in between in eager.

The whole becomes one FX graph of calls of pieces and of eager ops. What only views or sizes values
is in no piece and costs none: it is repeated wherever it is read, so that views of one memory are
views of one memory in the result too.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from . import fx, random_ops, torch_internals
from .capture_error import CaptureError
from .outputs import shared_outputs
from .partition import Op, stages
from .sizes import Sizes
from .sources import source_of
from .torch_internals import EagerOutput, OpOverload

from . import _C  # isort: skip

__all__ = ["Compilers", "Fallback", "Refused", "Stitched", "stitch"]

Compiled = Callable[[list[Any]], list[Any]]
_NUMBERS = (bool, int, float, torch.SymInt, torch.SymFloat, torch.SymBool)


class Refused(Exception):  # noqa: N818  (no error: another cut is tried)
    """A piece can't be compiled because of one of its nodes."""

    def __init__(self, node: Node, error: CaptureError) -> None:
        super().__init__(str(error))
        self.node = node
        self.error = error


@dataclass(frozen=True)
class Compilers:
    """`piece` takes a graph that becomes one program, and the names of its inputs, and raises
    Refused. `region` takes any graph."""

    piece: Callable[[GraphModule, list[str]], Compiled]
    region: Callable[[GraphModule], Compiled]


@dataclass(frozen=True)
class Fallback:
    """An op that runs in eager. `why`: None where it could be compiled, but it isn't worth it."""

    op: str
    source: str
    why: str | None


@dataclass(frozen=True)
class Stitched:
    """`pieces`: how many ops each of the programs has."""

    call: Compiled
    pieces: list[int]
    fallbacks: list[Fallback]


def stitch(
    gm: GraphModule,
    names: list[str],
    outputs: list[EagerOutput | None] | None,
    compilers: Compilers,
    refused: dict[Node, CaptureError],
) -> Stitched:
    """Cuts a graph around its refused nodes, and compiles the pieces.

    `names` and `outputs` are as in fx.capture. `refused` gets the nodes that turn out to be refused
    when a piece is compiled.
    """
    while True:
        try:
            return _Stitching(gm, names, outputs, compilers, refused).run()
        except Refused as more:
            if more.node in refused:
                raise more.error from more
            refused[more.node] = more.error


def _is_view(node: Node) -> bool:
    """Whether its results are views of its one tensor, and it writes to nothing."""
    if not isinstance(node.target, OpOverload):
        return False
    returns = node.target._schema.returns
    return bool(returns) and all(
        r.alias_info is not None and not r.alias_info.is_write for r in returns
    )


def _creates(node: Node) -> bool:
    """Whether it makes a tensor of numbers alone, always the same."""
    if not isinstance(node.target, OpOverload) or random_ops.is_random(node.target):
        return False
    of_numbers = all(isinstance(n.meta.get("val"), _NUMBERS) for n in node.all_input_nodes)
    return of_numbers and isinstance(node.meta.get("val"), torch.Tensor)


class _Cut:
    """Which nodes run in which stage. `stage`: of the nodes that compute something, in the graph's
    order; `mutations`: the copy_ nodes into inputs, which come last of all."""

    def __init__(self, gm: GraphModule, refused: dict[Node, CaptureError], sizes: Sizes) -> None:
        self._refused = refused
        self._sizes = sizes
        self._solid: dict[Node, int] = {}  # its index in `ops`
        self._needs: dict[Node, frozenset[int]] = {}
        self.mutations: list[Node] = []
        # Indices of the ops that others may have to wait for.
        self._writers: list[int] = []
        self._eager_random: set[int] = set()
        self._compiled_random: set[int] = set()
        self._effects: set[int] = set()
        ops: list[Op] = []
        for node in gm.graph.nodes:
            if node.op != "call_function" or fx.has_no_effect(node):
                continue
            if self._is_mutation(node):
                self.mutations.append(node)
            elif not self.is_repeated(node) and not self._is_part(node):
                index = len(ops)
                needs = sorted(self._needed(node) | self._ordered_after(node, index))
                self._solid[node] = index
                ops.append(Op(node not in refused, needs, _runs_in_eager(node)))
        self.stage = dict(zip(self._solid, stages(ops), strict=True))
        self.last = max(self.stage.values(), default=0)

    def is_repeated(self, node: Node) -> bool:
        """Whether it is computed anew wherever it is read: it costs nothing, or is a number."""
        if node in self._refused or node.op != "call_function":
            return False
        if isinstance(node.meta.get("val"), _NUMBERS):
            return True
        if self._is_part(node):
            return self.is_repeated(_source(node))
        return _is_view(node) or _creates(node)

    def _is_part(self, node: Node) -> bool:
        return node.target is operator.getitem and node not in self._refused

    def _is_mutation(self, node: Node) -> bool:
        return node.target is torch.ops.aten.copy_.default and node not in self._refused

    def owner(self, node: Node) -> Node | None:
        """The op whose result or part of a result the node is; None for an input."""
        while node.op == "call_function" and self._is_part(node):
            node = _source(node)
        return node if node in self._solid else None

    def values(self, node: Node) -> Iterable[Node]:
        """The tensors that a node reads, with what is repeated resolved: inputs and results of ops,
        or their parts."""
        found: dict[Node, None] = {}
        todo, seen = list(node.all_input_nodes), set()
        while todo:
            given = todo.pop()
            if given in seen:
                continue
            seen.add(given)
            if isinstance(given.meta.get("val"), _NUMBERS) and given not in self._solid:
                continue  # known from symbols
            if self.is_repeated(given):
                todo += given.all_input_nodes
            else:
                found[given] = None
        return found

    def _needed(self, node: Node) -> frozenset[int]:
        """The ops that have to run before."""
        if node in self._needs:
            return self._needs[node]
        found: set[int] = set()
        for given in node.all_input_nodes:
            if isinstance(given.meta.get("val"), _NUMBERS):
                sources = self._sizes.sources(given.meta["val"])
                owners = [self.owner(source) for source in sources]
            else:
                owners = [self.owner(given)]
                if self.is_repeated(given):
                    found |= self._needed(given)
            found |= {self._solid[owner] for owner in owners if owner is not None}
        self._needs[node] = frozenset(found)
        return self._needs[node]

    def _ordered_after(self, node: Node, index: int) -> set[int]:
        """Earlier ops that have to run before for another reason: one of them writes to a tensor;
        both take random numbers of the same generator, one of them in eager; or both have effects.
        """
        is_eager = node in self._refused
        found = set(self._writers)
        if is_eager and _writes(node):
            found = set(range(index))
            self._writers = [index]
        if random_ops.is_random(node.target):
            found |= self._eager_random | (self._compiled_random if is_eager else set())
            (self._eager_random if is_eager else self._compiled_random).add(index)
        if is_eager and _has_effects(node):
            found |= self._effects
            self._effects = {index}
        return found


def _source(part: Node) -> Node:
    source = part.args[0]
    assert isinstance(source, Node)
    return source


def _runs_in_eager(node: Node) -> bool:
    """Whether the op has a kernel; the ops of our decompositions have none."""
    return isinstance(node.target, OpOverload) and node.target.namespace != "torch_pjrt"


def _writes(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable


def _has_effects(node: Node) -> bool:
    if not isinstance(node.target, OpOverload):
        return node.is_impure()
    return node.is_impure() or not node.target._schema.returns


class _Stitching:
    """The making of the graph that calls the pieces. `_top`: what a node of the captured graph is
    in it, as far as it is needed there."""

    def __init__(
        self,
        gm: GraphModule,
        names: list[str],
        outputs: list[EagerOutput | None] | None,
        compilers: Compilers,
        refused: dict[Node, CaptureError],
    ) -> None:
        self._gm = gm
        self._compilers = compilers
        self._refused = refused
        self._placeholders = gm.graph.find_nodes(op="placeholder")
        same = len(self._placeholders) == len(names)
        self._names = dict(zip(self._placeholders, names, strict=True)) if same else {}
        self._sizes = Sizes([n for n in gm.graph.nodes if _gives_sizes(n, refused)])
        self._cut = _Cut(gm, refused, self._sizes)
        self._graph = Graph()
        self._module = torch.nn.Module()
        self._top: dict[Node, Any] = {}
        self._pieces: list[int] = []
        self._fallbacks: list[Fallback] = []
        self._outputs = _Outputs(gm, outputs)

    def run(self) -> Stitched:
        cut = self._cut
        for node in self._placeholders:
            self._top[node] = self._graph.placeholder(node.name)
        self._outputs.add_inputs(self._graph, self._value)
        by_stage: dict[int, list[Node]] = {}
        for node, stage in cut.stage.items():
            by_stage.setdefault(stage, []).append(node)
        kept = self._kept_values()
        for stage, nodes in sorted(by_stage.items()):
            if stage % 2:
                self._piece(stage, nodes, kept.get(stage, []))
            else:
                for node in nodes:
                    self._eager(node)
        outputs = self._outputs.finish(self._graph, self._value)
        if cut.last % 2 == 0:
            for node in cut.mutations:
                self._copy(node)
        self._graph.output(outputs)
        return Stitched(self._callable(), self._pieces, self._fallbacks)

    # --- ops in eager

    def _eager(self, node: Node) -> None:
        error = self._refused.get(node)
        why = str(error).splitlines()[0] if error is not None else None
        name = torch_internals.op_name(node.target)
        self._fallbacks.append(Fallback(name, source_of(node), why))
        self._top[node] = self._copy(node)

    def _copy(self, node: Node) -> Node:
        kwargs = {name: self._args(value) for name, value in node.kwargs.items()}
        return self._graph.call_function(node.target, self._args(node.args), kwargs)  # type: ignore[arg-type]

    def _args(self, args: Any) -> Any:
        return torch.fx.map_arg(args, self._value)

    def _value(self, node: Node) -> Any:
        """What a node is in the graph that is made."""
        if node in self._top:
            return self._top[node]
        value = node.meta.get("val")
        if node.op == "get_attr":
            made: Any = self._attribute(node)
        elif isinstance(value, _NUMBERS):
            return self._sizes.number(value, self._graph, self._value)
        elif node in self._cut.mutations:
            return self._value(_source(node))
        else:
            made = self._copy(node)
        self._top[node] = made
        return made

    def _attribute(self, node: Node) -> Node:
        value: Any = self._gm
        for name in str(node.target).split("."):
            value = getattr(value, name)
        if isinstance(value, GraphModule):
            value = self._region(value, node)
        name = f"held_{len(self._top)}"
        setattr(self._module, name, value)
        return self._graph.get_attr(name)

    def _region(self, gm: GraphModule, node: Node) -> Any:
        """A graph that an op of control flow calls, compiled too."""
        users = [user.target for user in node.users]
        if not all(torch_internals.calls_regions(target) for target in users):
            return gm
        output = gm.graph.output_node().args[0]
        if isinstance(output, list | tuple):
            return _Region(self._compilers.region(gm))
        graph = Graph()
        graph.output((graph.graph_copy(gm.graph, {}),))
        region = _Region(self._compilers.region(GraphModule(gm, graph)))
        return lambda *operands: region(*operands)[0]

    # --- pieces

    def _kept_values(self) -> dict[int, list[Node]]:
        """What each piece computes for others, by its stage."""
        kept: dict[int, dict[Node, None]] = {}
        cut = self._cut
        readers: list[tuple[Node, int | None]] = [*cut.stage.items()]
        readers += [(node, cut.last if cut.last % 2 else None) for node in cut.mutations]
        readers.append((self._gm.graph.output_node(), None))
        for reader, stage in readers:
            for value in cut.values(reader):
                owner = cut.owner(value)
                if owner is not None and cut.stage[owner] % 2 and cut.stage[owner] != stage:
                    kept.setdefault(cut.stage[owner], {})[value] = None
        return {stage: list(values) for stage, values in kept.items()}

    def _piece(self, stage: int, nodes: list[Node], kept: list[Node]) -> None:
        piece = _Piece(self._gm, self._cut, self._sizes, stage)
        for node in nodes:
            piece.add(node)
        if stage == self._cut.last:
            for node in self._cut.mutations:
                piece.add(node)
        gm = piece.finish(kept)
        names = [str(symbol) for symbol in piece.symbols]
        names += [self._names.get(node, node.name) for node in piece.tensors]
        try:
            compiled = self._compilers.piece(gm, names)
        except Refused as refused:
            raise Refused(piece.original(refused.node), refused.error) from refused
        self._pieces.append(len(nodes))
        arguments = [
            self._sizes.symbol(symbol, self._graph, self._value) for symbol in piece.symbols
        ]
        arguments += [self._value(node) for node in piece.tensors]
        call = self._graph.call_function(_named(compiled, len(self._pieces)), (arguments,))
        for index, node in enumerate(kept):
            self._top[node] = self._graph.call_function(operator.getitem, (call, index))

    def _callable(self) -> Compiled:
        self._graph.lint()
        run = GraphModule(self._module, self._graph).forward
        count = len(self._fallbacks)

        def call(arguments: list[Any]) -> list[Any]:
            given = tuple(arguments)
            arguments.clear()
            _C.count_fallbacks(count)
            with torch_internals.plain_eager():
                return run(*given)

        return call


def _of(node: Node, refused: dict[Node, CaptureError]) -> bool:
    """Whether it is a part of a refused node's result."""
    return node.target is operator.getitem and _source(node) in refused


class _Outputs:
    """The tensors that are given as outputs, which share memory where they do in eager, and only
    there. `value`: what a node of the captured graph is in the graph that is made."""

    def __init__(self, gm: GraphModule, eager: list[EagerOutput | None] | None) -> None:
        self._nodes: list[Any] = list(gm.graph.output_node().args[0])  # type: ignore[arg-type]
        self._plain: list[EagerOutput | None] = [None] * len(self._nodes)
        if eager is not None:
            self._plain = torch_internals.plain_outputs(len(self._nodes), eager)
        self._first_nodes: dict[int, Node] = {}
        for node in gm.graph.nodes:
            if isinstance(node.meta.get("val"), torch.Tensor):
                self._first_nodes.setdefault(_storage(node), node)
        shared_outputs(self._nodes, self._first_nodes, self._plain)  # raises for what it can't tell
        self._users: dict[int, int | None] = {}  # storage -> the eager storage that it stands for
        self._objects: dict[int, Any] = {}  # eager's tensor -> ours
        self._made: dict[int, Any] = {}  # by position

    def add_inputs(self, graph: Graph, value: Callable[[Node], Any]) -> None:
        """To be called at the start: outputs with an input's old values and memory of their own."""
        for position, node in enumerate(self._nodes):
            is_plain = self._plain[position] is not None
            if is_plain and self._first_nodes[_storage(node)].op != "call_function":
                self._made[position] = graph.call_function(_copied, (value(node),))

    def finish(self, graph: Graph, value: Callable[[Node], Any]) -> list[Any]:
        for position, node in enumerate(self._nodes):
            if position in self._made:
                continue
            if not isinstance(node, Node):
                self._made[position] = node
            elif isinstance(node.meta.get("val"), torch.Tensor):
                self._made[position] = self._tensor(graph, node, value(node), position)
            else:
                self._made[position] = value(node)
        return [self._made[position] for position in range(len(self._nodes))]

    def _tensor(self, graph: Graph, node: Node, made: Any, position: int) -> Any:
        plain = self._plain[position]
        if plain is not None and plain.tensor in self._objects:
            return self._objects[plain.tensor]
        eagers = plain.storage if plain is not None else None
        user = self._users.setdefault(_storage(node), eagers)
        if plain is not None:
            if user != eagers:
                made = graph.call_function(_copied, (made,))
            self._objects[plain.tensor] = made
        return made


def _storage(node: Node) -> int:
    return torch_internals.storage_id(node.meta["val"])


def _gives_sizes(node: Node, refused: dict[Node, CaptureError]) -> bool:
    """Whether sizes of its value are known to the graph that calls the pieces."""
    if node.target is operator.getitem:
        return _source(node) in refused
    return node.op == "placeholder" or node in refused


class _Region:
    """A compiled graph as a function that an op of control flow calls."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled

    def __call__(self, *operands: Any) -> tuple[Any, ...]:
        return tuple(self._compiled(list(operands)))


def _named(compiled: Compiled, number: int) -> Compiled:
    """As a function, which FX wants."""

    def piece(arguments: list[Any]) -> list[Any]:
        return compiled(arguments)

    piece.__name__ = f"piece_{number}"
    return piece


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides."""
    new = torch.empty_strided(
        tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )
    return new.copy_(tensor) if tensor.numel() else new


def _known() -> None:
    """Stands for a number of which a piece needs the expression only."""


class _Piece:
    """A part of the captured graph as a graph of its own. Its inputs are the values of `symbols`,
    then those of `tensors`, nodes of the captured graph."""

    def __init__(self, gm: GraphModule, cut: _Cut, sizes: Sizes, stage: int) -> None:
        self._gm = gm
        self._cut = cut
        self._sizes = sizes
        self._stage = stage
        self._graph = Graph()
        self._module = torch.nn.Module()
        self._made: dict[Node, Node] = {}
        self._last: Node | None = None  # placeholder
        self.symbols: list[Any] = []
        self.tensors: list[Node] = []

    def original(self, made: Node) -> Node:
        return next(node for node, copy in self._made.items() if copy is made)

    def add(self, node: Node) -> None:
        self._made[node] = self._graph.node_copy(node, self._value)

    def finish(self, kept: Sequence[Node]) -> GraphModule:
        self._graph.output(tuple(self._value(node) for node in kept))
        self._add_symbols()
        for node, name in ((n, str(n.target)) for n in self._graph.find_nodes(op="get_attr")):
            value: Any = self._gm
            for part in name.split("."):
                value = getattr(value, part)
            node.target = name.replace(".", "_")
            setattr(self._module, str(node.target), value)
        return GraphModule(self._module, self._graph)

    def _value(self, node: Node) -> Any:
        if node in self._made:
            return self._made[node]
        value = node.meta.get("val")
        if isinstance(value, _NUMBERS):
            return self._number(node)
        owner = self._cut.owner(node)
        is_own = owner is not None and self._cut.stage[owner] == self._stage
        if node.op == "get_attr" or is_own or self._cut.is_repeated(node):
            self._made[node] = self._graph.node_copy(node, self._value)
        else:
            self._made[node] = self._placeholder(node)
            self.tensors.append(node)
        return self._made[node]

    def _number(self, node: Node) -> Any:
        """A number that the piece knows from its symbols."""
        value = node.meta["val"]
        if isinstance(value, bool | int | float):
            return value
        self._made[node] = self._graph.call_function(_known, ())
        self._made[node].meta = {"val": value}
        return self._made[node]

    def _placeholder(self, node: Node) -> Node:
        with self._after(self._last):
            self._last = self._graph.placeholder(node.name)
        self._last.meta = dict(node.meta)
        return self._last

    def _after(self, node: Node | None) -> AbstractContextManager[Any]:
        """The place after a placeholder, or before all nodes."""
        if node is not None:
            return self._graph.inserting_after(node)
        first = next(iter(self._graph.nodes), None)
        return self._graph.inserting_before(first) if first is not None else nullcontext()

    def _add_symbols(self) -> None:
        """Placeholders for the symbols that no tensor's dim gives, before the others."""
        needed = self._sizes.used_in(self._graph) - self._sizes.dims_of(self.tensors)
        self.symbols = sorted(needed, key=str)
        last = None
        for symbol in self.symbols:
            with self._after(last):
                last = self._graph.placeholder(f"size_{symbol}")
            last.meta["val"] = self._sizes.value_of(symbol)
