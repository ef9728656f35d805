"""A function captured as one graph, with what it reads and checks."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo import config as dynamo_config
from torch._dynamo.convert_frame import CaptureOutput, fullgraph_capture
from torch._dynamo.eval_frame import (
    OptimizedModule,
    innermost_backend,
    set_enable_dynamic,
)
from torch._dynamo.exc import (
    TensorifyScalarRestartAnalysis,
)
from torch._dynamo.symbolic_convert import TensorifyState
from torch._dynamo.utils import (
    get_metrics_context,
)
from torch._functorch._aot_autograd.schemas import OutputType
from torch._guards import TracingContext, tracing


@dataclass(frozen=True)
class Whole:
    """A module that Dynamo captured in one graph, without running it.

    inputs: of each of the graph's inputs the expression that the module's call reads it by, such as
    "L['leaves'][0]", and its fake value. conditions: what has to hold of the symbols, as sympy has
    it. symbols: by name, the expressions that read it. constants: expressions of what the code took
    for constant. changed: expressions of Python's objects that the code changed.
    """

    gm: torch.fx.GraphModule
    examples: list[Any]
    inputs: list[tuple[str, Any]]
    symbols: dict[str, list[str]]
    constants: list[str]
    changed: list[str]
    _captured: CaptureOutput

    def tracing(self) -> AbstractContextManager[Any]:
        """The context in which a backend compiles the graph."""
        given = self._captured.backend_input
        assert given is not None
        context = TracingContext(given.fake_mode)
        context.tensor_to_context = given.tensor_to_context
        return tracing(context)

    def conditions(self) -> list[tuple[Any, Any, Any]]:
        """The guards on symbols, and their ranges, once the graph was compiled: an expression, and
        None or the least and the greatest value that it may have (None: any)."""
        assert self._captured.backend_input is not None
        shapes: Any = self._captured.backend_input.fake_mode.shape_env
        found: list[tuple[Any, Any, Any]] = [(guard.expr, None, None) for guard in shapes.guards]
        for symbol, bounds in shapes.var_to_range.items():
            if symbol.is_integer:
                least, most = (
                    int(bound) if bound.is_Integer else None
                    for bound in (bounds.lower, bounds.upper)
                )
                found.append((symbol, least, most))
        return found

    def rebuild(self, call: tuple[Any, ...], results: list[Any]) -> Any:
        """What the module returns for these arguments, where its graph gives `results`. What it
        changes of Python's objects is changed."""
        output = self._captured.graph_capture_output
        function = self._captured.forward_callable(
            compiled_fn=lambda *_: results, extra_globals=output.f_globals
        )
        return function(*call)

    def global_object(self, expression: str) -> Any:
        """What an expression that begins with G names now."""
        return eval(expression, {"G": self._captured.graph_capture_output.f_globals})


_COMPARED = frozenset({"CONSTANT_MATCH", "EQUALS_MATCH"})


def capture_whole(
    module: torch.nn.Module,
    leaves: list[Any],
    dynamic: bool | None,
    compiled: Callable[[Whole], None],
) -> Whole | None:
    """Captures module(leaves), and has it compiled. None where it computes nothing. Raises Dynamo's
    error where the code breaks the graph.

    It begins anew as long as AOTAutograd finds floats that have to be constants, as Dynamo does.
    """
    try:
        while True:
            whole = _capture_whole(module, leaves, dynamic)
            if whole is None:
                return None
            try:
                compiled(whole)
            except TensorifyScalarRestartAnalysis:
                continue
            return whole
    finally:
        TensorifyState.clear()


def _capture_whole(
    module: torch.nn.Module, leaves: list[Any], dynamic: bool | None
) -> Whole | None:
    telling = dynamo_config.patch(side_effect_replay_policy="warn")
    sizes = nullcontext() if dynamic is None else set_enable_dynamic(dynamic)
    with get_metrics_context(), telling, sizes, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        captured = fullgraph_capture(module, (leaves,), {})
    changed: list[str] = []
    for warning in told:
        text = str(warning.message)
        if "side effects happened" in text:
            changed += ast.literal_eval(text[text.index("[") :])
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    given = captured.backend_input
    if given is None:
        return None
    gm = given.graph_module
    shapes: Any = given.fake_mode.shape_env
    graph = captured.graph_capture_output.output_graph
    return Whole(
        gm=gm,
        examples=list(given.example_inputs),
        inputs=[
            (str(node._dynamo_source.name), node.meta["example_value"])
            for node in gm.graph.find_nodes(op="placeholder")
        ],
        symbols={
            symbol.name: [str(source.name) for source in sources]
            for symbol, sources in shapes.var_to_sources.items()
        },
        constants=sorted(
            {guard.name for guard in graph.guards if guard.create_fn_name() in _COMPARED}
        ),
        changed=changed,
        _captured=captured,
    )


def output_types(count: int) -> list[tuple[str, int | None]] | None:
    """Of the `count` outputs of the graph being compiled, how AOTAutograd makes them what the user
    gets: "as it is", "input", "view of an input" or "other", and the number of that input. None: it
    does more than that."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None or metadata.num_mutated_inp_runtime_indices > 0:
        return None
    names = {
        OutputType.non_alias: "as it is",
        OutputType.unsafe_view_alias: "as it is",
        OutputType.custom_function_view: "as it is",
        OutputType.is_input: "input",
        OutputType.alias_of_input: "view of an input",
    }
    kinds = [(names.get(i.output_type, "other"), i.base_idx) for i in metadata.output_info]
    return kinds if len(kinds) == count else None


@dataclass(frozen=True)
class CompiledModule:
    """What torch.compile was given: the module, its backend's options, and `dynamic`."""

    module: torch.nn.Module
    options: Mapping[str, Any]
    dynamic: bool | None


def compiled_module(fast: Any, backend: Callable[..., Any]) -> CompiledModule | None:
    """None if it isn't a module that torch.compile made with that backend."""
    if not isinstance(fast, OptimizedModule):
        return None
    callback: Any = fast.dynamo_ctx.callback
    given: Any = innermost_backend(callback)
    if getattr(given, "compiler_fn", given) is not backend:
        return None
    options = getattr(given, "kwargs", {}).get("options") or {}
    return CompiledModule(fast._orig_mod, options, getattr(given, "dynamic", None))
