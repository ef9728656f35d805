"""The one place that reaches into torch's private surface; nothing else of ours imports it.

torch is first imported here, so that the C++ core finds libtorch loaded.
"""

from __future__ import annotations

import ast
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._dynamo import config as dynamo_config
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.cache_size import exceeds_recompile_limit
from torch._dynamo.convert_frame import CaptureOutput, fullgraph_capture, output_codes
from torch._dynamo.decorators import error_on_graph_break
from torch._dynamo.eval_frame import (
    OptimizedModule,
    innermost_backend,
    innermost_fn,
    set_enable_dynamic,
)
from torch._dynamo.exc import (
    FailOnRecompileLimitHit,
    ResumePrologueTracingError,
    ShortenTraceback,
    TensorifyScalarRestartAnalysis,
    Unsupported,
    UserError,
)
from torch._dynamo.symbolic_convert import TensorifyState
from torch._dynamo.utils import (
    counters,
    get_hook_for_recompile_user_context,
    get_metrics_context,
    register_hook_for_recompile_user_context,
)
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd.schemas import OutputType
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext, tracing
from torch._inductor import config as inductor_config
from torch._inductor import inductor_prims
from torch._ops import HigherOrderOperator, OpOverload
from torch._prims_common import (
    compute_elementwise_output_logical_to_physical_perm,
    is_non_overlapping_and_dense_or_false,
    suggest_memory_format,
)
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.fx.proxy import GraphAppendingTracer, Proxy
from torch.nn.modules import module as nn_module
from torch.optim import optimizer as optimizer_module
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis
from torch.utils.checkpoint import CheckpointPolicy

__all__ = [
    "FMA",
    "SCAN",
    "CompiledModule",
    "EagerOutput",
    "FrameCompile",
    "HigherOrderOperator",
    "OpOverload",
    "RunsInEager",
    "ShortenTraceback",
    "UnsuppressedError",
    "Whole",
    "allow_backward_twice",
    "argument_kind",
    "break_reason",
    "calls_regions",
    "capture_whole",
    "compile_apart",
    "compile_seeing_hooks",
    "compile_with_autograd",
    "compile_with_gradients",
    "compiled_module",
    "core_decompositions",
    "decomposition",
    "dynamo_counts",
    "eager_outputs",
    "errors_instead_of_eager",
    "failed_guard",
    "fake_mode_of",
    "first_tensor",
    "foreach_ops",
    "graph_break",
    "has_backward_hooks",
    "has_global_backward_hooks",
    "has_gradient_hooks",
    "has_own_step",
    "has_step_hooks",
    "input_names",
    "is_compiled",
    "is_dense",
    "is_nested_int",
    "is_traced_code",
    "leaves",
    "memory_order",
    "note_step",
    "number_in",
    "on_frame_compile",
    "op_name",
    "output_types",
    "partition_with_recomputation",
    "plain_eager",
    "plain_outputs",
    "plain_step",
    "reads_only_metadata",
    "real_tensors",
    "recompile_limits",
    "static_inputs",
    "storage_id",
    "suggested_format",
    "surely_equal",
    "symbol_as_int",
    "symbolic",
    "tree_flatten",
    "tree_map",
    "tree_unflatten",
    "uncompiled",
    "views_of_inputs",
    "why_not_whole",
]

# a * b + c, of which Dynamo makes addcmul_ and its like.
FMA = inductor_prims.fma

SCAN = torch.ops.higher_order.scan

Decompositions = Mapping[Any, Callable[..., Any]]

_METADATA_OPS = frozenset(
    {"aten::sym_size.int", "aten::sym_stride.int", "aten::sym_numel", "aten::sym_storage_offset"}
)


def core_decompositions() -> dict[Any, Callable[..., Any]]:
    """torch's decompositions to the core ATen ops."""
    return dict(core_aten_decompositions())


def decomposition(op: OpOverload) -> Callable[..., Any]:
    """torch's decomposition of an op outside of that set."""
    return decomposition_table[op]


def foreach_ops() -> list[OpOverload]:
    """The functional ops on lists of tensors, torch._foreach_*."""
    found = []
    for schema in torch._C._jit_get_all_schemas():
        name, overload = schema.name, schema.overload_name
        if not name.startswith("aten::_foreach_") or name.endswith("_") or "out" in overload:
            continue
        packet = getattr(torch.ops.aten, name.removeprefix("aten::"))
        found.append(getattr(packet, overload or "default"))
    return found


def compile_with_autograd(
    gm: torch.fx.GraphModule,
    inputs: list[Any],
    *,
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    inference: Callable[..., Any],
    partition: Callable[..., Any],
    decompositions: Decompositions,
    keep_unused_random: bool = False,
) -> Callable[..., Any]:
    """Runs AOTAutograd over what Dynamo captured.

    An input's new value is a copy_ into it at the end of the graph, except where autograd has to
    see the mutation: AOTAutograd copies that one itself, after the call.

    `partition` cuts the joint graph into forward and backward. The backward is compiled at the
    first .backward(), or with the forward where sizes are symbolic. keep_unused_random: a random
    op whose result nobody reads stays in the graph.
    """
    compiler = aot_autograd(
        fw_compiler=forward,
        bw_compiler=backward,
        inference_compiler=inference,
        partition_fn=partition,
        decompositions=decompositions,
        keep_inference_input_mutations=True,
    )
    # Named for Inductor, but read by all removal of dead code while a graph is compiled.
    keeping = inductor_config.patch(fallback_random=True) if keep_unused_random else nullcontext()
    # A graph with a backward in it keeps what checkpointed code computes: torch's pass that has it
    # computed again fails on random numbers, and XLA would undo its work.
    without_remat = functorch_config.patch(remat_using_tags_for_fwd_loss_bwd_graph=False)
    with keeping, without_remat, _decomposed_before_autograd(decompositions):
        return compiler(gm, inputs)


# Ops that torch decomposes above autograd, where no table of decompositions is looked at.
_EARLY = (torch.ops.aten.multilabel_margin_loss_forward.default,)


@contextmanager
def _decomposed_before_autograd(decompositions: Decompositions) -> Iterator[None]:
    """Puts the table's decompositions of these ops in the place of torch's while tracing."""
    key = torch._C.DispatchKey.Autograd
    kept = {op: op.py_kernels[key] for op in _EARLY if key in op.py_kernels}
    try:
        for op in kept:
            op.py_kernels[key] = decompositions[op]
            op._dispatch_cache.clear()
        yield
    finally:
        for op, kernel in kept.items():
            op.py_kernels[key] = kernel
            op._dispatch_cache.clear()


def partition_with_recomputation(
    always_saved: Callable[[Any], bool], joint: torch.fx.GraphModule, *args: Any, **kwargs: Any
) -> Any:
    """The cut of torch.compile's default backend: the least memory between forward and backward,
    where what is cheap and fuses is computed again.

    An op of which `always_saved` is true is never computed again, in checkpointed code neither.
    """
    for node in joint.graph.nodes:
        if always_saved(node.target):
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    return min_cut_rematerialization_partition(joint, *args, **kwargs)


def allow_backward_twice() -> None:
    """To be called while a forward is compiled: its backward gives none of its inputs away.

    AOTAutograd's list of saved tensors that the backward may overwrite makes retain_graph=True an
    error, in a None (what patching donated_buffer=False leaves) as much as in a list of some.
    """
    context = TracingContext.get()
    assert context.fw_metadata is not None
    context.fw_metadata.bw_donated_idxs = []


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
# (suppress_errors): of those that it never suppresses the one that it leaves as it is.
UnsuppressedError = ResumePrologueTracingError


@dataclass(frozen=True)
class FrameCompile:
    """A function that Dynamo is about to trace. backend: the function that is to compile it.
    guard: whose failure made it necessary, "" if the function is new. limit: the name of Dynamo's
    limit of recompiles if it is exceeded, so that the function runs in eager instead."""

    source: str
    backend: Any
    guard: str
    limit: str


def on_frame_compile(hook: Callable[[FrameCompile], None]) -> None:
    """Has `hook` called before Dynamo traces a frame, for any backend, also where it then doesn't
    for its limit of recompiles. What the hook raises, the call of the function raises."""

    def context() -> str:
        compile_frame = _compile_frame(sys._getframe())
        if compile_frame is not None:
            hook(_frame_compile(compile_frame.f_locals))
        return ""

    context.__qualname__ = "torch_pjrt"
    registered = get_hook_for_recompile_user_context() or []
    if not any(getattr(other, "__qualname__", "") == "torch_pjrt" for other in registered):
        register_hook_for_recompile_user_context(context)


def _compile_frame(frame: Any) -> Any:
    """The frame of Dynamo's function that calls the hooks: it alone knows what they need."""
    while frame is not None and "compiler_fn" not in frame.f_locals:
        frame = frame.f_back
    return frame


def _frame_compile(names: Mapping[str, Any]) -> FrameCompile:
    code = names["code"]
    exceeded, limit = exceeds_recompile_limit(names["cache_size"], names["compile_id"])
    backend = innermost_backend(names["compiler_fn"])
    return FrameCompile(
        source=f"{code.co_filename}:{code.co_firstlineno} in {code.co_name}",
        backend=getattr(backend, "compiler_fn", backend),
        guard=_plain_guard(names["recompile_reason"] or ""),
        limit=limit if exceeded else "",
    )


def _plain_guard(reason: str) -> str:
    """Without the number of the compile before it and the comment with torch's own line behind."""
    line = re.sub(r"^\S+/\S+: ", "", reason.strip().split("\n")[0])
    return line.split("  # ")[0].strip()


# What errors_instead_of_eager() makes of a function that Dynamo would run, in part, in eager.
RunsInEager = (Unsupported, FailOnRecompileLimitHit)


@contextmanager
def errors_instead_of_eager() -> Iterator[None]:
    """In this thread, a graph break and the limit of recompiles are errors (RunsInEager), and so
    are errors that Dynamo was told to suppress."""
    strict = dynamo_config.patch(suppress_errors=False, fail_on_recompile_limit_hit=True)
    with strict, error_on_graph_break(True):
        yield


def failed_guard() -> str:
    """Whose failure made Dynamo capture the graph that is being compiled; "" at the first capture
    of a function."""
    context = get_metrics_context()
    reason = context._metrics.get("recompile_reason") if context.in_progress() else None
    return _plain_guard(reason or "")


def graph_break(gm: torch.fx.GraphModule) -> str:
    """Why the function goes on after this graph of Dynamo's; "" if the graph is its end."""
    reason = getattr(gm, "compile_subgraph_reason", None)
    return str(reason.reason) if reason is not None and reason.graph_break else ""


def is_compiled(function: Any) -> bool:
    """Whether it is what torch.compile gives, or a module after its compile()."""
    if isinstance(function, torch.nn.Module):
        return isinstance(function, OptimizedModule) or function._compiled_call_impl is not None
    return hasattr(function, "_torchdynamo_orig_callable")


def is_traced_code(code: Any) -> bool:
    """Whether Dynamo made the code of a function."""
    return code in output_codes


def first_tensor(function: Any) -> torch.Tensor | None:
    """The first parameter, else buffer, of the compiled module (or of the module whose method was
    compiled)."""
    module = uncompiled(function)
    module = getattr(module, "__self__", module)
    if not isinstance(module, torch.nn.Module):
        return None
    return next(module.parameters(), next(module.buffers(), None))


def dynamo_counts() -> dict[str, int]:
    """Dynamo's own counts since the start, of all backends."""
    frames = counters["frames"]
    return {
        "graph_breaks": sum(counters["graph_break"].values()),
        "skipped_frames": frames["total"] - frames["ok"],
        "recompile_limits": recompile_limits(),
    }


def recompile_limits() -> int:
    """How many functions have reached Dynamo's limit of recompiles, as it counts them."""
    reasons = counters["unimplemented"]
    limit = "Dynamo recompile limit exceeded"
    return sum(count for reason, count in reasons.items() if reason.startswith(limit))


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


def compile_with_gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile of a function that calls torch.autograd.grad, which becomes a part of its
    graph."""
    options: dict[str, Any] = {"isolate_recompiles": True}  # which torch's overloads lack
    fast = torch.compile(function, backend="pjrt", fullgraph=True, **options)
    # In the thread of a call. Hooks that are added to a module later are guarded against.
    tracing = dynamo_config.patch(trace_autograd_ops=True, skip_nnmodule_hook_guards=False)

    def call(*args: Any) -> Any:
        with tracing:
            return fast(*args)

    return call


def compile_apart(
    function: Callable[..., Any],
    backend: Callable[..., Any] | str = "pjrt",
    dynamic: bool | None = None,
) -> Callable[..., Any]:
    """torch.compile that shares no compiled code, and no count of recompiles, with other uses of
    the function."""
    options: dict[str, Any] = {"isolate_recompiles": True}  # which torch's overloads lack
    return torch.compile(function, backend=backend, dynamic=dynamic, **options)


def break_reason(gm: torch.fx.GraphModule) -> tuple[str, str] | None:
    """Why a graph of Dynamo's ends before its function does, and at which line of the user's."""
    reason = getattr(gm, "compile_subgraph_reason", None)
    if reason is None or not reason.graph_break:
        return None
    stack = list(reason.user_stack)
    frame = stack[-1] if stack else None
    place = f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line}" if frame else ""
    return str(reason.reason).strip().splitlines()[0], place


def why_not_whole(error: BaseException) -> str | None:
    """Why Dynamo can't make one graph of a function, if that is what the error says. None also for
    an exception that the function itself raises."""
    text = str(error)
    if not isinstance(error, Unsupported | UserError) or text.startswith("Observed exception"):
        return None
    return "Dynamo doesn't capture it whole: " + text.splitlines()[0]


def uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """What torch.compile was given to make the function, or the function itself."""
    if isinstance(function, OptimizedModule):
        return function._orig_mod
    return innermost_fn(function)


def compile_seeing_hooks(function: Callable[..., Any]) -> Callable[..., Any]:
    """compile_apart() of a function that calls modules, whose hooks are guarded too. Where Dynamo
    can't capture a part of it, that part runs in eager."""
    fast = compile_apart(function)

    def call(*args: Any) -> Any:
        with dynamo_config.patch(skip_nnmodule_hook_guards=False):
            return fast(*args)

    return call


def has_backward_hooks(module: torch.nn.Module) -> bool:
    return bool(module._backward_hooks or module._backward_pre_hooks)


def has_global_backward_hooks() -> bool:
    return bool(nn_module._global_backward_hooks or nn_module._global_backward_pre_hooks)


def has_gradient_hooks(parameter: torch.Tensor) -> bool:
    """Whether hooks run when its gradient is computed or accumulated."""
    return bool(parameter._backward_hooks or parameter._post_accumulate_grad_hooks)


def has_step_hooks(optimizer: torch.optim.Optimizer) -> bool:
    return bool(
        optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or optimizer_module._global_optimizer_pre_hooks
        or optimizer_module._global_optimizer_post_hooks
    )


def has_own_step(optimizer: torch.optim.Optimizer) -> bool:
    """Whether this object has a step() of its own, other than the one that schedulers give it."""
    step = vars(optimizer).get("step")
    return step is not None and not hasattr(step, "_wrapped_by_lr_sched")


def plain_step(optimizer: torch.optim.Optimizer) -> Callable[[], Any]:
    """Its class's step(), without what schedulers put around it."""
    return types.MethodType(type(optimizer).step, optimizer)


def note_step(optimizer: torch.optim.Optimizer) -> None:
    """Tells learning-rate schedulers, which warn otherwise, that the optimizer made a step."""
    optimizer._opt_called = True  # type: ignore[attr-defined]


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
