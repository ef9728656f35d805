"""AOTAutograd: its compilers, partitioner and decompositions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config as functorch_config
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext
from torch._inductor import config as inductor_config
from torch._inductor import inductor_prims
from torch._ops import OpOverload
from torch.utils.checkpoint import CheckpointPolicy

FMA = inductor_prims.fma

SCAN = torch.ops.higher_order.scan

Decompositions = Mapping[Any, Callable[..., Any]]


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
    # A token that orders effects is made and ends within a graph: it is no argument of its.
    torchs = functorch_config.patch(
        remat_using_tags_for_fwd_loss_bwd_graph=False, unlift_effect_tokens=True
    )
    with keeping, torchs, _decomposed_before_autograd(decompositions):
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
    """To be called while a forward is compiled: AOTAutograd is to give none of what is saved away.

    Its list of saved tensors that the backward may overwrite makes retain_graph=True an error, in a
    None (what patching donated_buffer=False leaves) as much as in a list of some.
    """
    context = TracingContext.get()
    assert context.fw_metadata is not None
    context.fw_metadata.bw_donated_idxs = []


def keeps_graph() -> bool:
    """Within a backward: whether its graph is kept for another one."""
    return bool(torch._C._autograd._get_current_graph_task_keep_graph())
