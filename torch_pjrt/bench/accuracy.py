"""The float32 rule: how far a compiled model's outputs may be from eager's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

# Largest error as a part of the output's scale, its largest finite magnitude in eager.
SCALE_TOLERANCE = 1e-4
# Else: how many times eager's own error against float64 eager.
OWN_ERROR_FACTOR = 2.0


@dataclass(frozen=True)
class Check:
    """error is the largest over all outputs, as a part of that output's scale; infinite if the
    outputs can't be compared. rule is "scale" or "float64" (what was needed to pass), or "" if it
    failed, and message says why."""

    passed: bool
    error: float
    rule: str
    message: str = ""


def compare(actual: Any, expected: Any, reference: Callable[[], Any]) -> Check:
    """Compares the compiled model's outputs (any nest of tensors) with float32 eager's.

    reference() gives float64 eager's outputs; it is called at most once, and only if an output
    fails the rule of scale. Tensors that aren't floating point, and other leaves, must be equal.
    """
    actual_leaves, actual_tree = pytree.tree_flatten(actual)
    expected_leaves, expected_tree = pytree.tree_flatten(expected)
    if actual_tree != expected_tree:
        return _failed(f"outputs are {actual_tree}, eager's are {expected_tree}")

    reference_leaves: list[Any] | None = None
    largest = 0.0
    rule = "scale"
    for position, (got, want) in enumerate(zip(actual_leaves, expected_leaves, strict=True)):
        problem = _incomparable(got, want)
        if problem:
            return _failed(f"output {position}: {problem}")
        if not _is_inexact(want):
            continue
        error = _scaled_error(got, want)
        largest = max(largest, error)
        if error <= SCALE_TOLERANCE:
            continue
        if reference_leaves is None:
            reference_leaves = pytree.tree_leaves(reference())
        exact = reference_leaves[position]
        finite = torch.isfinite(want)
        own, ours = _distance(want, exact, finite), _distance(got, exact, finite)
        # Not finite: float64 eager has another value there, and so gives no measure.
        if not (math.isfinite(own) and ours <= OWN_ERROR_FACTOR * own):
            return Check(
                False,
                largest,
                "",
                f"output {position}: error {error:.2e} of its scale; against float64 {ours:.2e}, "
                f"eager's own {own:.2e}",
            )
        rule = "float64"
    return Check(True, largest, rule)


def worst(checks: list[Check]) -> Check:
    """The first failed check, else the one with the largest error. Takes at least one."""
    return min(checks, key=lambda check: (check.passed, -check.error))


def in_float64(model: nn.Module, arguments: tuple[Any, ...]) -> Any:
    """Outputs of eager `model` computed in float64. The model itself is left as it is."""
    import copy

    wide = [
        value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for value in arguments
    ]
    return copy.deepcopy(model).double()(*wide)


def _failed(message: str) -> Check:
    return Check(False, math.inf, "", message)


def _is_inexact(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex())


def _incomparable(got: Any, want: Any) -> str:
    """Why `got` can't even be near `want`, or an empty string."""
    if not (isinstance(got, torch.Tensor) and isinstance(want, torch.Tensor)):
        if type(got) is not type(want):
            return f"{type(got).__name__} where eager has {type(want).__name__}"
        return "" if got == want else f"{got!r} where eager has {want!r}"
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype} {list(got.shape)} where eager has {want.dtype} {list(want.shape)}"
    if not _is_inexact(want):
        return "" if torch.equal(got, want) else "integers or bools differ from eager's"
    special = ~torch.isfinite(want)
    if not torch.equal(special, ~torch.isfinite(got)):
        return "not finite at other places than eager's"
    if not torch.equal(got[special].nan_to_num(0.0), want[special].nan_to_num(0.0)):
        return "infinities differ from eager's"
    return ""


def _distance(a: torch.Tensor, b: torch.Tensor, where: torch.Tensor) -> float:
    """The largest magnitude of a - b at the places that are true in `where`; NaN if one is."""
    wide = torch.complex128 if a.is_complex() else torch.float64
    difference = (a.to(wide) - b.to(wide)).abs()[where]
    return float(difference.max()) if difference.numel() else 0.0


def _scaled_error(got: torch.Tensor, want: torch.Tensor) -> float:
    """The largest error as a part of want's largest magnitude, both where `want` is finite."""
    finite = torch.isfinite(want)
    distance = _distance(got, want, finite)
    if distance == 0.0:
        return 0.0
    scale = float(want[finite].abs().max())
    return distance / scale if scale > 0.0 else math.inf
