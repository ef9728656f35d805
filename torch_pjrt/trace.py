"""The graph of one op on the lazy device, made once for each of its signatures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from . import decompositions, fx, tensor_types, torch_internals
from .torch_internals import OpOverload

from . import _C  # isort: skip

__all__ = ["THREAD", "trace"]

THREAD = "torch_pjrt trace"  # the name of the threads that call trace()
torch_internals.mute_fake_tensors(THREAD)

_DTYPES = {name: dtype for dtype, name in tensor_types.DTYPES.items()}
_LAYOUTS = {0: torch.strided}


def trace(name: str, mutates: bool, given: list[Any]) -> tuple[_C.Graph, list[Tensor], bool]:
    """The graph of an op for these arguments, the tensors that it holds, and whether it is the op
    itself, with its numbers as scalars in their order.

    A tensor among the arguments is (dtype, sizes, strides), a dtype the core's name of it. The
    graph's inputs are the tensors in their order, its outputs the tensors that the op returns, but
    those that it was given; what it writes to them are mutations. Raises what the op does for
    arguments that it doesn't take, and Error (unsupported) where a part of it has no rule.
    """
    op = torch_internals.overload(name)
    call = _Call(op, given)
    if not mutates and _C.has_rule(name):
        return call.direct(), [], True
    captured = call.decomposed(mutates)
    return captured.graph, captured.constants, False


class _Call:
    def __init__(self, op: OpOverload, given: list[Any]) -> None:
        self._op = op
        self._schema = op._schema.arguments
        self._given = given
        self._tensors: list[Tensor] = []  # fake
        with torch_internals.fake_tensors() as mode:
            self._mode = mode
            self._arguments = [
                self._argument(value, torch_internals.argument_kind(argument)[0])
                for value, argument in zip(given, self._schema, strict=True)
            ]

    # --- arguments

    def _argument(self, value: Any, kind: str) -> Any:
        if isinstance(value, tuple):
            dtype, sizes, strides = value
            tensor = torch.empty_strided(sizes, strides, dtype=_DTYPES[dtype], device="cpu")
            self._tensors.append(tensor)
            return tensor
        if isinstance(value, list):
            return [self._argument(item, kind) for item in value]
        if kind == "ScalarTypeType" and value is not None:
            return _DTYPES[value]
        if kind == "LayoutType" and value is not None:
            return _LAYOUTS[value]
        if kind == "MemoryFormatType" and value is not None:
            return fx.MEMORY_FORMATS[value]
        return value

    def _split(self, tensors: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments, with these in the places of the tensors."""
        rest = iter(tensors)
        args, kwargs = [], {}
        for value, argument in zip(self._arguments, self._schema, strict=True):
            filled = _fill(value, rest)
            if argument.kwarg_only:
                kwargs[argument.name] = filled
            else:
                args.append(filled)
        return args, kwargs

    # --- the op itself

    def direct(self) -> _C.Graph:
        args, kwargs = self._split(self._tensors)
        with self._mode:
            results = _flat(self._op(*args, **kwargs))
        graph = _C.Graph()
        refs = [_C.ValueRef(graph.add_tensor_input("", *_type(t))) for t in self._tensors]
        rest = iter(refs)
        arguments = []
        for value, argument in zip(self._arguments, self._schema, strict=True):
            kind, is_list = torch_internals.argument_kind(argument)
            filled = _core_argument(_fill(value, rest), kind)
            is_number = kind in ("NumberType", "FloatType", "TensorType") and not is_list
            arguments.append((argument.name, is_number, filled))
        types = [_type(t) for t in results if t is not None]
        value_id = graph.add_node(self._op.name(), arguments, types, "")
        for result in results:
            if result is None:
                graph.add_output_none()
            else:
                graph.add_output_value(value_id, _type(result))
                value_id += 1
        graph.hide_outputs(0)
        return graph

    # --- what it decomposes into

    def decomposed(self, mutates: bool) -> fx.Captured:
        fresh = [k for k, r in enumerate(self._op._schema.returns) if r.alias_info is None]

        def function(*tensors: Tensor) -> list[Any]:
            args, kwargs = self._split(tensors)
            results = self._op(*args, **kwargs)
            if len(self._op._schema.returns) <= 1:
                return _flat(results) if fresh else []
            return [results[k] for k in fresh]

        gm = torch_internals.graph_of(
            function, self._tensors, self._mode, decompositions.table(), mutates
        )
        return fx.capture(gm, [], None)


def _flat(results: Any) -> list[Any]:
    return list(results) if isinstance(results, list | tuple) else [results]


def _fill(value: Any, tensors: Iterator[Any]) -> Any:
    if isinstance(value, Tensor):
        return next(tensors)
    if isinstance(value, list):
        return [_fill(item, tensors) for item in value]
    return value


def _core_argument(value: Any, kind: str) -> Any:
    if isinstance(value, list):
        return [_core_argument(item, kind) for item in value]
    if isinstance(value, torch.dtype):
        return _C.DType(tensor_types.DTYPES[value])
    if isinstance(value, torch.layout | torch.memory_format):
        return str(value).removeprefix("torch.")
    return value


def _type(tensor: Tensor) -> fx.Type:
    return (
        tensor_types.DTYPES[tensor.dtype],
        list(tensor.shape),
        list(tensor.stride()),
        int(tensor.storage_offset()),
    )
