"""Which ops are rewritten into others before lowering: those without a rule of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from . import (
    antialias,
    attention,
    checks,
    counting,
    foreach,
    gradients,
    grid_sampling,
    linear_algebra,
    margin_loss,
    pooling,
    random_eager,
    random_ops,
    random_rewrites,
    rewrites,
    torch_internals,
)
from .torch_internals import OpOverload

from ._C import has_rule  # isort: skip


aten = torch.ops.aten

# Core ATen ops that torch can decompose further, into ATen ops alone. (Its other decompositions of
# core ops go to prims, which have no rules.)
_FURTHER: tuple[OpOverload, ...] = (
    aten._adaptive_avg_pool2d.default,
    aten._addmm_activation.default,
    aten._batch_norm_no_update.default,
    aten._batch_norm_with_update_functional.default,
    aten._native_batch_norm_legit.no_stats,
    aten._native_batch_norm_legit_functional.default,
    aten.addmv.default,
    aten.as_strided_copy.default,
    aten.dist.default,
    aten.elu.default,
    aten.grid_sampler_2d.default,
    aten.hardtanh.default,
    aten.ldexp.Tensor,
    aten.leaky_relu.default,
    aten.narrow_copy.default,
    aten.native_batch_norm.default,
    aten.native_group_norm.default,
    aten.permute_copy.default,
    aten.tril_indices.default,
    aten.triu_indices.default,
    aten.unbind_copy.int,
    aten.upsample_bicubic2d.default,
    aten.upsample_bilinear2d.default,
    aten.upsample_trilinear3d.default,
    aten.view_copy.default,
)


# Marked as random for its dropout, with which it is never called: torch takes other ops for that.
_NOT_RANDOM = (aten._scaled_dot_product_flash_attention_for_cpu.default,)


def _keeps(op: Any) -> bool:
    """Whether the op stays in the graph: it has a rule, or its error has to name it."""
    if not isinstance(op, OpOverload):
        return False
    # A random op decomposed into another random op would fail under a name the user never wrote.
    return has_rule(op.name()) or (random_ops.is_random(op) and op not in _NOT_RANDOM)


@functools.cache
def table(random: str = "default") -> dict[Any, Callable[..., Any]]:
    """Op overload -> its decomposition. Made from the rule table, so the two can't drift apart.

    `random` as in Options.
    """
    known = torch_internals.core_decompositions()
    known |= {op: torch_internals.decomposition(op) for op in _FURTHER}
    known |= rewrites.OWN | checks.decompositions()
    known |= attention.decompositions() | gradients.decompositions()
    known |= grid_sampling.decompositions() | margin_loss.decompositions()
    known |= linear_algebra.decompositions() | counting.decompositions()
    known |= pooling.decompositions() | antialias.decompositions()
    kept = {op: rewrite for op, rewrite in known.items() if not _keeps(op)}
    kept |= foreach.decompositions()
    return kept | (random_eager if random == "eager" else random_rewrites).table()
