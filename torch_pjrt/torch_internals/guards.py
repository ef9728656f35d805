"""Dynamo's guards of a captured function, and what its graph reads, apart from a call of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch._C._dynamo.guards import DictGuardManager
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


Check = Callable[[dict[str, Any]], bool]


@dataclass(frozen=True)
class Watched:
    """A module that no code but ours can exchange, at an expression that begins with L, and what is
    known to stay as it is while objects are looked at otherwise: the modules in it and dicts, whose
    items are the same objects, and tensors, which are of the same form."""

    expression: str
    modules: frozenset[int]  # ids, as of the others
    dicts: frozenset[int]
    tensors: frozenset[int]


def guards_without(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    without: str,
    watched: Watched | None = None,
) -> tuple[Check, Check] | None:
    """The guards of the code that a call with these locals runs, but for those that begin at the
    local `without`; and of these again, the ones that don't follow from what is watched. They take
    the locals. None if there is no such code.

    `function` is what was compiled; it has to have a code object of its own.
    """
    assert isinstance(function, FunctionType)
    beginning = f"L[{without!r}]"

    def others(node: Any) -> bool:
        return not node.get_source().startswith(beginning)

    for entry in eval_frame._debug_get_cache_entry_list(function.__code__):
        root: Any = entry.guard_manager.root
        if root.check(dict(arguments)):
            every: Check = root.clone_manager(others).check
            if watched is None:
                return every, every
            scope = {"L": dict(arguments), "G": function.__globals__}
            return every, _without(root, others, frozenset(_implied(root, watched, scope)))
    return None


def _without(root: Any, kept: Callable[[Any], bool], sources: frozenset[str]) -> Check:
    few = root.clone_manager(lambda node: kept(node) and node.get_source() not in sources)
    check: Check = few.check
    return check


# Guards that hold of an object that can't change as long as it is the same one, and of a tensor of
# the same form.
_OF_CONSTANTS = frozenset(
    ("TYPE_MATCH", "ID_MATCH", "EQUALS_MATCH", "NONE_MATCH", "TRUE_MATCH", "FALSE_MATCH")
)
_OF_DICTS = frozenset(("TYPE_MATCH", "DICT_LENGTH", "DICT_CONTAINS"))
_OF_TUPLES = frozenset(("TYPE_MATCH", "LENGTH_CHECK"))
_OF_TENSORS = frozenset(("TYPE_MATCH", "TENSOR_MATCH", "DIMENSION_DYNAMIC_MARKING_GUARD"))
_CONSTANTS = (int, float, bool, str, bytes, type(None))


def _implied(node: Any, watched: Watched, scope: dict[str, Any]) -> Iterator[str]:
    """The highest nodes at or below the watched module whose guards all follow."""
    source = node.get_source()
    if source.startswith(watched.expression) and _follows(node, watched, scope):
        yield source
        return
    for child in _children(node):
        yield from _implied(child, watched, scope)


def _follows(node: Any, watched: Watched, scope: dict[str, Any]) -> bool:
    try:
        value = eval(node.get_source(), dict(scope))
    except Exception:  # an expression that isn't Python's
        return False
    guards = {type(guard).__name__ for guard in node.get_leaf_guards()}
    inner: list[Any] = []
    if id(value) in watched.modules:
        allowed, inner = _OF_DICTS, [vars(value)]
    elif id(value) in watched.dicts:
        allowed, inner = _OF_DICTS, [*value.keys(), *value.values()]
    elif id(value) in watched.tensors:
        allowed = _OF_TENSORS
    elif type(value) in _CONSTANTS:
        allowed = _OF_CONSTANTS
    elif type(value) is tuple:
        allowed, inner = _OF_TUPLES, list(value)
    else:
        return False
    if not guards <= allowed:
        return False
    # What is reached otherwise than through the items of a watched dict may become another object.
    known = {id(item) for item in inner}
    for child in _children(node):
        try:
            reached = eval(child.get_source(), dict(scope))
        except Exception:
            return False
        if id(reached) not in known or not _follows(child, watched, scope):
            return False
    return True


def _children(node: Any) -> list[Any]:
    children = list(node.get_child_managers())
    if isinstance(node, DictGuardManager):
        for pair in node.get_key_value_managers().values():
            children += [manager for manager in pair if manager is not None]
    return children


def runs_compiled() -> bool:
    """Whether compiled functions run as such: no torch.compiler.set_stance() says otherwise."""
    return eval_frame._stance.stance == "default"


def raise_versions(tensors: list[torch.Tensor]) -> None:
    """What autograd does where tensors are written to."""
    torch._C._increment_version(tensors)
