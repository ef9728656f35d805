"""Dynamo's guards of a captured function, and what its graph reads, apart from a call of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import torch
from torch._dynamo import eval_frame
from torch._dynamo.symbolic_convert import InstructionTranslator
from torch._dynamo.variables.base import AttributeMutationNew, ValueMutationNew


def sources(gm: torch.fx.GraphModule) -> list[str] | None:
    """Of each input of a graph that Dynamo captured the expression that reads it, such as
    "L['batches'][0]", where L and G are the function's locals and globals. None: one has none."""
    found = [
        getattr(node, "_dynamo_source", None) for node in gm.graph.find_nodes(op="placeholder")
    ]
    return None if None in found else [str(source.name) for source in found if source is not None]


def only_computes() -> bool:
    """While Dynamo has a backend compile a graph: whether the function does no more than that,
    and changes no object of Python."""
    output = InstructionTranslator.current_tx().output
    effects = output.side_effects
    changes = any(
        effects.is_modified(item)
        for item in effects.id_to_variable.values()
        if not isinstance(item.mutation_type, AttributeMutationNew | ValueMutationNew)
    )
    return not (changes or effects.tensor_hooks or effects.save_for_backward or output.random_calls)


def guards_without(
    function: Callable[..., Any], arguments: Mapping[str, Any], without: str
) -> Callable[[dict[str, Any]], bool] | None:
    """The guards of the code that a call with these locals runs, but for those that begin at the
    local `without`. They take the locals. None if there is no such code.

    `function` is what was compiled; it has to have a code object of its own.
    """
    assert isinstance(function, FunctionType)
    beginning = f"L[{without!r}]"
    for entry in eval_frame._debug_get_cache_entry_list(function.__code__):
        root: Any = entry.guard_manager.root
        if root.check(dict(arguments)):
            chosen = root.clone_manager(lambda node: not node.get_source().startswith(beginning))
            check: Callable[[dict[str, Any]], bool] = chosen.check
            return check
    return None


def runs_compiled() -> bool:
    """Whether compiled functions run as such: no torch.compiler.set_stance() says otherwise."""
    return eval_frame._stance.stance == "default"


def raise_versions(tensors: list[torch.Tensor]) -> None:
    """What autograd does where tensors are written to."""
    torch._C._increment_version(tensors)
