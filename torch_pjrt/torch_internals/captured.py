"""What Dynamo and AOTAutograd captured: inputs, outputs, types, sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._functorch._aot_autograd.schemas import OutputType
from torch._guards import TracingContext
from torch._ops import HigherOrderOperator, OpOverload
from torch._prims_common import (
    compute_elementwise_output_logical_to_physical_perm,
    is_non_overlapping_and_dense_or_false,
    suggest_memory_format,
)
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.fx.proxy import GraphAppendingTracer, Proxy
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

_METADATA_OPS = frozenset(
    {"aten::sym_size.int", "aten::sym_stride.int", "aten::sym_numel", "aten::sym_storage_offset"}
)


def input_names(gm: torch.fx.GraphModule) -> list[str]:
    """The user's names for the inputs of a graph that Dynamo captured, e.g. "x", "model.0.weight".

    Tensors that the graph itself holds are its first inputs, as AOTAutograd has it.
    """
    names = [name for name, _ in gm.named_parameters(remove_duplicate=False)]
    names += [name for name, _ in gm.named_buffers(remove_duplicate=False)]
    for node in gm.graph.find_nodes(op="placeholder"):
        source = getattr(node, "_dynamo_source", None)
        names.append(node.name if source is None else _users_name(str(source.name)))
    return names


def _users_name(source: str) -> str:
    """Of Dynamo's name: "L['self']._modules['0']._parameters['weight']" is "self.0.weight"."""
    name = re.sub(r"\._(?:modules|parameters|buffers)\['([^']+)'\]", r".\1", source)
    name = re.sub(r"^[LG]\['(\w+)'\]", r"\1", name)
    return name.removeprefix("fn.")  # of the function that Dynamo puts around a module of torch's


# An exception that Dynamo raises even where it is told to run a frame in eager after an error


@dataclass(frozen=True)
class EagerOutput:
    """An output as it is in eager: views of one memory have equal `storage`, one object has equal
    `tensor`."""

    storage: int
    tensor: int


def eager_outputs(gm: torch.fx.GraphModule) -> list[EagerOutput | None]:
    """The outputs of a graph that Dynamo captured; None where it is no tensor."""
    outputs: Any = gm.graph.output_node().args[0]
    return [_eager_output(node) for node in outputs]


def _eager_output(node: Any) -> EagerOutput | None:
    value = node.meta.get("example_value") if isinstance(node, torch.fx.Node) else None
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    return EagerOutput(storage_id(value), id(value))


def plain_outputs(count: int, eager: list[EagerOutput | None]) -> list[EagerOutput | None]:
    """Of the `count` outputs of the graph being compiled, those that reach the user as we return
    them, as they are in eager. `eager`: the outputs of Dynamo's graph.

    None: the others, which are saved for the backward, copied into an input, or made anew by
    AOTAutograd from the input or output that they view.
    """
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    outputs: list[EagerOutput | None] = [None] * count
    if metadata is None or len(metadata.output_info) != len(eager):
        return outputs
    first = int(metadata.num_mutated_inp_runtime_indices)
    plain = (OutputType.non_alias, OutputType.unsafe_view_alias, OutputType.custom_function_view)
    for k, info in enumerate(metadata.output_info):
        if info.output_type in plain and first + k < count:
            outputs[first + k] = eager[k]
    return outputs


def views_of_inputs(count: int) -> frozenset[int]:
    """Of the `count` outputs of the graph being compiled, those that AOTAutograd makes anew as an
    input or a view of one: only their sizes, strides and offset are used."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None:
        return frozenset()
    first = int(metadata.num_mutated_inp_runtime_indices)
    kinds = (OutputType.alias_of_input, OutputType.is_input)
    info = enumerate(metadata.output_info)
    return frozenset(first + k for k, o in info if o.output_type in kinds and first + k < count)


def static_inputs() -> frozenset[int]:
    """Of the inputs of the graph being compiled, those that Dynamo takes to stay where they are:
    parameters and buffers."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    return frozenset(metadata.static_input_indices) if metadata is not None else frozenset()


def surely_equal(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether sizes, which may be symbolic, are equal whatever the symbols' values."""
    return len(a) == len(b) and all(
        statically_known_true(x == y) for x, y in zip(a, b, strict=True)
    )


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether a fake tensor surely has no gaps and no overlap, in whatever order of its dims."""
    return bool(is_non_overlapping_and_dense_or_false(tensor))


def fake_mode_of(tensor: torch.Tensor) -> AbstractContextManager[Any]:
    """The mode in which a fake tensor was made: there ops give fake tensors."""
    assert isinstance(tensor, FakeTensor)
    return tensor.fake_mode


def real_tensors() -> AbstractContextManager[Any]:
    """A context in which tensors are real although the compiler runs under a fake tensor mode."""
    return _disable_current_modes()


def symbolic(value: torch.SymInt | torch.SymFloat | torch.SymBool) -> tuple[Any, Any]:
    """The sympy expression of a symbolic number and its value at capture (None: unknown)."""
    node = value.node
    return node.expr, node.hint


def is_nested_int(value: Any) -> bool:
    """Whether it is the ragged size of a nested tensor."""
    return isinstance(value, torch.SymInt) and bool(value.node.is_nested_int())


def storage_id(tensor: torch.Tensor) -> int:
    """Equal for two tensors, fake ones too, that share their memory."""
    return int(tensor.untyped_storage()._cdata)


def suggested_format(tensor: torch.Tensor) -> torch.memory_format:
    """The memory format that eager's kernels take a tensor for."""
    return suggest_memory_format(tensor)


def memory_order(tensor: torch.Tensor, memory_format: torch.memory_format) -> list[int]:
    """The dims of empty_like(tensor, memory_format=...) in the order of decreasing strides."""
    if memory_format is torch.preserve_format:
        return list(compute_elementwise_output_logical_to_physical_perm(tensor)[0])
    dims = list(range(tensor.ndim))
    if memory_format is torch.contiguous_format:
        return dims
    return [0, *dims[2:], 1]  # channels_last and channels_last_3d


def reads_only_metadata(op: Any) -> bool:
    """Whether the op reads a tensor's sizes and not its elements."""
    return isinstance(op, OpOverload) and op.name() in _METADATA_OPS


def symbol_as_int(like: torch.SymInt, symbol: Any) -> torch.SymInt:
    """A symbol of the same shape environment, as a number."""
    if like.node.expr == symbol:
        return like
    environment = like.node.shape_env
    hint = environment.backed_var_to_val.get(symbol)
    return environment.create_symintnode(symbol, hint=None if hint is None else int(hint))


def number_in(graph: torch.fx.Graph, expression: Any, symbols: Mapping[Any, torch.fx.Node]) -> Any:
    """Appends nodes that compute a sympy expression of symbols; gives the last one, or a number."""
    tracer = GraphAppendingTracer(graph)
    proxies = {symbol: Proxy(node, tracer) for symbol, node in symbols.items()}
    made: Any = sympy_interp(PythonReferenceAnalysis, proxies, expression)
    return made.node if isinstance(made, Proxy) else made


def leaves(tree: Any) -> list[Any]:
    """Of nested lists, tuples and dicts."""
    return tree_leaves(tree)


def calls_regions(op: Any) -> bool:
    """Whether an op of control flow calls the graphs among its arguments as plain functions."""
    return op in (torch.ops.higher_order.cond, torch.ops.higher_order.while_loop)


@contextmanager
def plain_eager() -> Iterator[None]:
    """A context in which ops run as they are in a captured graph: autograd and autocast have done
    their part."""
    with torch.no_grad(), torch._C._DisableAutocast():
        yield


def op_name(op: Any) -> str:
    """E.g. "aten::add.Tensor"; of a function its name."""
    return op.name() if isinstance(op, OpOverload | HigherOrderOperator) else torch.typename(op)


def argument_kind(argument: Any) -> tuple[str, bool]:
    """A schema argument's type, without optional, as torch names it, and whether it is a list."""
    kind = argument.real_type
    is_list = False
    while kind.kind() in ("OptionalType", "ListType"):
        is_list = is_list or kind.kind() == "ListType"
        kind = kind.getElementType()
    return str(kind.kind()), is_list
