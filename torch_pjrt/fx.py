"""A captured FX graph of ATen ops into the core's Graph."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from . import control_flow, random_ops, tensor_types, torch_internals
from .errors import failure
from .outputs import Shared, shared_outputs
from .sources import source_of
from .symbols import Symbols
from .torch_internals import EagerOutput, HigherOrderOperator, OpOverload

from . import _C  # isort: skip

Size = int | _C.Size
Type = tuple[str, Sequence[Size], Sequence[Size], Size]  # dtype, dims, strides, offset

NUMBERS = (bool, int, float, torch.SymInt, torch.SymFloat, torch.SymBool)
# Ops on a tensor's storage: their nodes say, beside the schema's arguments, where self lies in it.
_READS_STORAGE = frozenset({"aten::as_strided", "aten::as_strided_scatter"})
_WEIGHT = "torch_pjrt_weight"  # key of a placeholder's meta
# Checks of what fake tensors have already established.
_NO_EFFECT = frozenset({"aten::_assert_tensor_metadata"})


@dataclass(frozen=True)
class Captured:
    """A graph, the tensors that it holds: its last inputs, the same at every call, and the FX node
    of each of its nodes."""

    graph: _C.Graph
    constants: list[torch.Tensor]
    nodes: list[torch.fx.Node]
    on_device: bool  # its tensors are on device="pjrt", not on the CPU


def capture(
    gm: torch.fx.GraphModule, names: list[str], outputs: list[EagerOutput | None] | None
) -> Captured:
    """The Graph of what AOTAutograd captured. Raises Error (unsupported) naming the user's line.

    `names` are the user's for the inputs, used where AOTAutograd kept their number. `outputs` are
    those of the function, as they are in eager; None for a backward, each of whose outputs has
    memory of its own.
    """
    return Capture(gm, names, outputs).run()


def mark_weights(gm: torch.fx.GraphModule, inputs: Collection[int]) -> None:
    """Says that these inputs of a graph are parameters and buffers, which change rarely: copies in
    another memory order pay."""
    for index, node in enumerate(gm.graph.find_nodes(op="placeholder")):
        node.meta[_WEIGHT] = index in inputs


class Capture:
    """One walk over the nodes. `_values`: what each FX node stands for: a ValueRef, a list of them
    (None where there is no tensor), or a number."""

    def __init__(
        self,
        gm: torch.fx.GraphModule,
        names: list[str],
        outputs: list[EagerOutput | None] | None,
    ) -> None:
        self._gm = gm
        self._eager_outputs = outputs
        placeholders = gm.graph.find_nodes(op="placeholder")
        same = len(placeholders) == len(names)
        self._names = dict(zip(placeholders, names, strict=True)) if same else {}
        self._graph = _C.Graph()
        self._symbols = Symbols(self._graph)
        self._values: dict[torch.fx.Node, Any] = {}
        # Memory of an input -> index in the Graph's inputs, and the tensor.
        self._inputs: dict[int, tuple[int, torch.Tensor]] = {}
        # Storage of a node's result -> the first node with it.
        self._first_nodes: dict[int, torch.fx.Node] = {}
        self._input_of: dict[torch.fx.Node, int] = {}  # placeholders
        # Storage -> the input that is mutated to it, and the new value.
        self._new_values: dict[int, tuple[torch.fx.Node, torch.Tensor]] = {}
        self._num_inputs = 0
        self._constants: list[torch.Tensor] = []
        self._nodes: list[torch.fx.Node] = []  # of the Graph's
        self._region: _C.Region | None = None  # that is being filled
        self._iterations: list[_C.ValueRef] = []  # of the loops around it: their numbers
        self._device: str | None = None  # of all tensors, but for 0-d ones on the CPU

    def run(self) -> Captured:
        nodes = list(self._gm.graph.nodes)
        placeholders = [node for node in nodes if node.op == "placeholder"]
        for node in placeholders:
            self._bind(node.meta.get("val"))
        for node in placeholders:
            self._placeholder(node)
        for node in nodes:
            if node.op == "get_attr":
                self._constant(node)
        for node in nodes:
            if node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                self._outputs(list(node.args[0]))
        return Captured(self._graph, self._constants, self._nodes, self._device == "pjrt")

    # --- inputs

    def _bind(self, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            for size in value.shape:
                self._symbols.bind(size)
        else:
            self._symbols.bind(value)

    def _placeholder(self, node: torch.fx.Node) -> None:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            self._input_of[node] = self._num_inputs
            self._tensor_input(node, value)
        elif torch_internals.is_nested_int(value):
            raise failure(
                "unsupported",
                what="an input is a nested tensor: its ragged size is no number",
                remedy="pass its values() and offsets() instead, or make it dense: "
                ".to_padded_tensor(0.0)",
            )
        elif isinstance(value, int | torch.SymInt) and not isinstance(value, bool):
            self._graph.add_number_input(
                self._names.get(node, node.name), self._symbols.size(value, "")
            )
            self._values[node] = value
            self._num_inputs += 1
        else:
            raise failure(
                "unsupported",
                what=f"input {self._names.get(node, node.name)} is a {type(value).__name__}, "
                "no tensor or int",
                remedy="pass plain tensors and numbers to the compiled function; of a DTensor "
                "its .to_local()",
            )

    def _tensor_input(self, node: torch.fx.Node, value: torch.Tensor) -> None:
        name = self._names.get(node, node.name)
        where = f"input {name}"
        value_id = self._graph.add_tensor_input(name, *self._type(value, where, ""))
        self._values[node] = _C.ValueRef(value_id)
        if node.meta.get(_WEIGHT):
            self._graph.mark_weights([self._num_inputs])
        self._inputs.setdefault(torch_internals.storage_id(value), (self._num_inputs, value))
        self._num_inputs += 1

    def _constant(self, node: torch.fx.Node) -> None:
        value: Any = self._gm
        for name in str(node.target).split("."):
            value = getattr(value, name)
        if isinstance(value, torch.fx.GraphModule):
            return  # of a higher-order op, which is refused where it is called
        if not isinstance(value, torch.Tensor):
            raise failure(
                "unsupported",
                what=f"the graph holds {node.target}, a {type(value).__name__}",
                at=source_of(node),
                remedy="pass it as an argument",
            )
        self._tensor_input(node, value)
        self._constants.append(value)

    # --- nodes

    def _call(self, node: torch.fx.Node) -> None:
        target, value = node.target, node.meta.get("val")
        if isinstance(value, torch.Tensor) and self._region is None:
            self._first_nodes.setdefault(torch_internals.storage_id(value), node)
        if target is operator.getitem and isinstance(self._values.get(_node(node.args[0])), list):
            self._values[node] = self._values[_node(node.args[0])][node.args[1]]
        elif isinstance(value, NUMBERS) and self._is_symbolic(node):
            self._values[node] = value
        elif target is torch.ops.aten.copy_.default:
            self._mutation(node)
        elif random_ops.is_draw(target):
            self._values[node] = self._draw()
        elif target is torch.ops.prims.convert_element_type.default:
            # How Dynamo casts a Python float that it has made a tensor.
            to_copy = torch.ops.aten._to_copy.default
            self._op(node, to_copy, node.args[:1], {"dtype": node.args[1]})
        elif isinstance(target, OpOverload):
            self._op(node, target, node.args, node.kwargs)
        elif isinstance(target, HigherOrderOperator):
            self._control(node, target)
        else:
            raise failure(
                "unsupported",
                what=f"no lowering for {torch.typename(target)}",
                at=source_of(node),
                remedy=REWRITE,
            )

    def _mutation(self, node: torch.fx.Node) -> None:
        """A copy_ into an input, which is how AOTAutograd writes a mutation."""
        destination = _node(node.args[0])
        if destination not in self._input_of:
            raise failure(
                "unsupported",
                what="a tensor that is no argument of the compiled function is changed in place",
                at=source_of(node),
                remedy="pass it as an argument, or change a copy of it: x.clone()",
            )
        source = self._values.get(_node(node.args[1]))
        given, wanted = _node(node.args[1]).meta["val"], destination.meta["val"]
        same = given.dtype == wanted.dtype and given.shape == wanted.shape
        if same and isinstance(source, _C.ValueRef):
            self._values[node] = source
        else:
            self._op(node, torch.ops.aten.copy.default, node.args, node.kwargs)
        self._graph.add_mutation(self._input_of[destination], self._values[node].id)
        if torch_internals.surely_equal(given.stride(), wanted.stride()):
            self._new_values[torch_internals.storage_id(given)] = (destination, given)
        self._values[destination] = self._values[node]  # for what reads it from here on

    def _is_symbolic(self, node: torch.fx.Node) -> bool:
        """Whether the number comes from numbers and sizes, not from the elements of a tensor."""
        if torch_internals.reads_only_metadata(node.target):
            return True
        return not any(
            isinstance(self._values.get(n), _C.ValueRef | list) for n in node.all_input_nodes
        )

    def _op(
        self, node: torch.fx.Node, op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        name, source = op.name(), source_of(node)
        if name in _NO_EFFECT:
            return
        if not _C.has_rule(name):
            raise _no_rule(op, source)
        value: Any = node.meta.get("val")
        many = isinstance(value, list | tuple)
        tensors = [v for v in (value if many else [value]) if isinstance(v, torch.Tensor)]
        results = [self._type(t, f"a result of {name}", source) for t in tensors]
        arguments = self._arguments(op, args, kwargs, source)
        if name in _READS_STORAGE:
            _, _, strides, offset = self._type(_node(args[0]).meta["val"], name, source)
            arguments += [("self_stride", False, list(strides)), ("self_offset", False, offset)]
        first = self._add(node, name, arguments, results)
        refs = iter(range(first, first + len(results)))
        if many:
            self._values[node] = [
                _C.ValueRef(next(refs)) if isinstance(v, torch.Tensor) else None for v in value
            ]
        elif results:
            self._values[node] = _C.ValueRef(first)

    def _add(
        self,
        node: torch.fx.Node,
        op: str,
        arguments: list[tuple[str, bool, Any]],
        results: list[Type],
        regions: Sequence[_C.Region] = (),
    ) -> int:
        """Adds what becomes of a node; returns its first result."""
        if self._region is None:
            self._nodes.append(node)
        return self._graph.add_node(
            op, arguments, results, source_of(node), list(regions), self._region
        )

    def _arguments(
        self, op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], source: str
    ) -> list[tuple[str, bool, Any]]:
        """All arguments of the schema in its order, with defaults filled in."""
        arguments = []
        for index, argument in enumerate(op._schema.arguments):
            if index < len(args) and not argument.kwarg_only:
                given = args[index]
            elif argument.name in kwargs:
                given = kwargs[argument.name]
            else:
                given = argument.default_value
            kind, is_list = torch_internals.argument_kind(argument)
            value = self._argument(given, kind, f"argument {argument.name} of {op.name()}", source)
            # A number may stand for a tensor: x * 2 is aten::mul.Tensor.
            is_number = kind in ("NumberType", "FloatType", "TensorType") and not is_list
            arguments.append((argument.name, is_number, value))
        return arguments

    def _argument(self, given: Any, kind: str, where: str, source: str) -> Any:
        if isinstance(given, torch.fx.Node):
            given = self._values[given]
        if isinstance(given, list | tuple):
            return [self._argument(item, kind, where, source) for item in given]
        if given is None or isinstance(given, str | complex | _C.ValueRef):
            return given
        if isinstance(given, NUMBERS):
            return self._number(given, kind, source)
        if isinstance(given, torch.dtype):
            return _C.DType(tensor_types.dtype_name(given, where, source))
        if isinstance(given, torch.device):
            return str(given)
        if isinstance(given, torch.layout | torch.memory_format):
            return str(given).removeprefix("torch.")
        raise failure(
            "unsupported",
            what=f"{where} is a {type(given).__name__}",
            at=source,
            remedy=REWRITE,
        )

    def _number(self, given: Any, kind: str, source: str) -> Any:
        if kind == "MemoryFormatType":  # a default, which the schema holds as a number
            return str(MEMORY_FORMATS[int(given)]).removeprefix("torch.")
        number = self._symbols.number(given, source)
        if isinstance(number, _C.Size):
            return number
        if kind == "FloatType":
            return float(number)
        return int(number) if kind in ("IntType", "SymIntType") else number

    # --- higher-order ops

    def _control(self, node: torch.fx.Node, target: HigherOrderOperator) -> None:
        source, control = source_of(node), control_flow.describe(node)
        value: Any = node.meta.get("val")
        if control is None or not all(isinstance(v, torch.Tensor) for v in value):
            what = f"no lowering for the higher-order op {target.name()}"
            if control is not None:
                what = f"{target.name()} gives something else than tensors"
            raise failure(
                "unsupported",
                what=what,
                at=source,
                remedy="write it with plain tensor ops, or keep it out of the compiled function by "
                "torch.compiler.disable",
            )
        regions = [self._body(body, control.is_loop, source) for body in control.bodies]
        arguments = [
            (name, name == "predicate", self._argument(given, "TensorType", name, source))
            for name, given in control.arguments
        ]
        results = [self._type(t, f"a result of {control.op}", source) for t in value]
        first = self._add(node, control.op, arguments, results, regions)
        self._values[node] = [_C.ValueRef(first + k) for k in range(len(results))]

    def _body(self, body: control_flow.Body, is_loop: bool, source: str) -> _C.Region:
        gm: Any = getattr(self._gm, str(body.graph.target))
        region = _C.Region()
        outside = (self._gm, self._region, self._iterations)
        self._gm, self._region = gm, region
        try:
            self._fill(region, gm, body, is_loop, source)
        finally:
            self._gm, self._region, self._iterations = outside
        return region

    def _fill(
        self,
        region: _C.Region,
        gm: torch.fx.GraphModule,
        body: control_flow.Body,
        is_loop: bool,
        source: str,
    ) -> None:
        if is_loop:
            number = self._graph.add_parameter(region, ("i64", [], [], 0))
            self._iterations = [*self._iterations, _C.ValueRef(number)]
        placeholders = gm.graph.find_nodes(op="placeholder")
        for node in placeholders[: len(body.passed)]:
            value = node.meta.get("val")
            if not isinstance(value, torch.Tensor):
                raise failure(
                    "unsupported",
                    what="a loop carries a number",
                    at=source,
                    remedy="carry a tensor: torch.tensor(n)",
                )
            parameter = self._type(value, "what a loop carries", source)
            self._values[node] = _C.ValueRef(self._graph.add_parameter(region, parameter))
        for node, given in zip(placeholders[len(body.passed) :], body.outer, strict=True):
            self._values[node] = self._values[given] if isinstance(given, torch.fx.Node) else given
        for node in gm.graph.nodes:
            if node.op == "get_attr":
                self._constant(node)
            elif node.op == "call_function":
                self._call(node)
        result: Any = gm.graph.output_node().args[0]
        results = list(result) if isinstance(result, list | tuple) else [result]
        region.results = [self._id(self._values.get(n, n), source) for n in results]

    def _id(self, value: Any, source: str) -> int:
        if not isinstance(value, _C.ValueRef):
            raise failure(
                "unsupported",
                what="a branch or the body of a loop gives a number",
                at=source,
                remedy="return a tensor: torch.tensor(n)",
            )
        return value.id

    def _draw(self) -> _C.ValueRef:
        """In a loop, one of each iteration's own, derived from one that the call takes."""
        draw = _C.ValueRef(self._graph.add_draw())
        for number in self._iterations:
            arguments: list[Any] = [("draw", False, draw), ("index", False, number)]
            made = self._graph.add_node(
                "torch_pjrt::draw_of_iteration",
                arguments,
                [("i64", [2], [1], 0)],
                "",
                [],
                self._region,
            )
            draw = _C.ValueRef(made)
        return draw

    # --- outputs

    def _outputs(self, outputs: list[Any]) -> None:
        eager: list[EagerOutput | None] = [None] * len(outputs)
        regenerated: frozenset[int] = frozenset()
        if self._eager_outputs is not None:
            eager = torch_internals.plain_outputs(len(outputs), self._eager_outputs)
            regenerated = torch_internals.views_of_inputs(len(outputs))
        shared, hidden = shared_outputs(outputs, self._first_nodes, eager)
        for position, output in enumerate(outputs):
            value = self._values[output] if isinstance(output, torch.fx.Node) else output
            if position in regenerated and self._view_of_mutated(output):
                continue
            if position in shared and shared[position].memory != position:
                self._shared_output(output, shared[position])
            elif isinstance(value, _C.ValueRef):
                self._tensor_output(output, value, eager[position] is not None)
            elif value is None:
                self._graph.add_output_none()
            elif isinstance(value, NUMBERS):
                self._graph.add_output_number(self._symbols.number(value, ""))
            else:
                raise failure(
                    "unsupported",
                    what=f"an output is a {type(value).__name__}",
                    remedy="return tensors and numbers from the compiled function",
                )
        for node in hidden:
            self._value_output(node, self._values[node])
        self._graph.hide_outputs(len(hidden))

    def _tensor_output(self, node: torch.fx.Node, value: _C.ValueRef, is_plain: bool) -> None:
        """`is_plain`: the user gets this tensor, and it is no view of an input."""
        tensor = node.meta["val"]
        shared = self._inputs.get(torch_internals.storage_id(tensor))
        if shared is None or is_plain or not _reads_alike(tensor, shared[1]):
            self._value_output(node, value)
        elif tensor is shared[1]:
            self._graph.add_output_input(shared[0])
        else:
            self._graph.add_output_view(shared[0], self._output_type(node))

    def _view_of_mutated(self, output: Any) -> bool:
        """Adds the output as a view of the input whose new value it views, if it does: computed, it
        would be a copy that nobody reads."""
        tensor = output.meta.get("val") if isinstance(output, torch.fx.Node) else None
        if not isinstance(tensor, torch.Tensor):
            return False
        found = self._new_values.get(torch_internals.storage_id(tensor))
        if found is None:
            return False
        placeholder, value = found
        dtype, dims, strides, _ = self._output_type(output)
        place = tensor.storage_offset() - value.storage_offset()
        offset = self._symbols.size(placeholder.meta["val"].storage_offset() + place, "")
        self._graph.add_output_view(self._input_of[placeholder], (dtype, dims, strides, offset))
        return True

    def _value_output(self, node: torch.fx.Node, value: _C.ValueRef) -> None:
        self._graph.add_output_value(value.id, self._output_type(node))

    def _shared_output(self, node: torch.fx.Node, shared: Shared) -> None:
        if shared.same is not None:
            self._graph.add_output_same(shared.same)
        else:
            self._graph.add_output_part(shared.memory, self._output_type(node))

    def _output_type(self, node: torch.fx.Node) -> Type:
        return self._type(node.meta["val"], "an output", source_of(node))

    # --- types

    def _type(self, tensor: torch.Tensor, where: str, source: str) -> Type:
        problem = tensor_types.problem(tensor)
        if problem:
            raise failure(
                "unsupported",
                what=f"{where} {problem[0]}",
                at=source,
                remedy=problem[1],
            )
        self._note_device(tensor, where, source)
        return (
            tensor_types.dtype_name(tensor.dtype, where, source),
            [self._symbols.size(size, source) for size in tensor.shape],
            [self._symbols.size(stride, source) for stride in tensor.stride()],
            self._symbols.size(tensor.storage_offset(), source),
        )

    def _note_device(self, tensor: torch.Tensor, where: str, source: str) -> None:
        device = tensor.device.type
        if device == "cpu" and tensor.ndim == 0:
            return
        self._device = self._device or device
        if device != self._device:
            raise failure(
                "unsupported",
                what=f"{where} is on {device}, and other tensors of the graph are on "
                f"{self._device}",
                at=source,
                remedy="move tensors between devices outside of the compiled function",
            )


def has_no_effect(node: torch.fx.Node) -> bool:
    """Whether the node only checks what is known."""
    return isinstance(node.target, OpOverload) and node.target.name() in _NO_EFFECT


REWRITE = (
    "rewrite the line with other ops, or keep its function out of the compiled one by "
    "torch.compiler.disable"
)
MEMORY_FORMATS = (  # in the order of c10::MemoryFormat
    torch.contiguous_format,
    torch.preserve_format,
    torch.channels_last,
    torch.channels_last_3d,
)


def _reads_alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether both read the same memory as the same elements, so that one may be a view of the
    other with other sizes, strides and offset only. (AOTAutograd makes the views of its own that
    the user gets, such as x.imag.)"""
    return (a.dtype, a.is_conj(), a.is_neg()) == (b.dtype, b.is_conj(), b.is_neg())


def _node(argument: Any) -> torch.fx.Node:
    assert isinstance(argument, torch.fx.Node)
    return argument


def _no_rule(op: OpOverload, source: str) -> Exception:
    remedy = REWRITE
    if random_ops.is_random(op):
        remedy = (
            "draw the numbers outside of the compiled function and pass them in; the random ops "
            "that work are listed in docs/using.md"
        )
    return failure(
        "unsupported",
        what=f"no lowering for {op.name()}",
        schema=str(op._schema),
        at=source,
        remedy=remedy,
    )
