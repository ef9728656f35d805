"""torch_pjrt.freeze: a compiled model called with neither Dynamo nor its guards."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from . import plugins
from .errors import failure
from .package_load import flatten
from .package_model import Facts, resolve
from .package_save import Capture, Flat, compiled_by_us

from . import _C  # isort: skip

__all__ = ["freeze"]

_REMEDY = "freeze() it for such arguments too, or call what torch.compile gave"


def freeze(fast: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A callable for calls like `fast(*args, **kwargs)`, for inference, at the least cost to the
    host.

    fast: torch.compile(model, backend="pjrt"); it stays as it is, and has to compile as one graph.
    The callable holds the tensors that are the model's weights now, and copies of them in the
    device's order: what is written to such weights later isn't seen, nor is anything else that the
    model or its surroundings (its mode, autocast) become. Of a call it checks the arguments alone:
    their number, kinds, dtypes and ranks, and that the sizes are those that the graph is for, which
    with dynamic=True are many. Else it raises Error (invalid). Constants among the arguments have
    to be equal. Gradients are never recorded.
    """
    compiled, given = compiled_by_us(fast, "freeze", "frozen")
    leaves, spec = flatten(args, kwargs)
    flat = Flat(compiled.module, spec)
    with torch.no_grad():
        capture = Capture(flat, leaves, compiled.dynamic, given)
    facts = capture.facts
    weights = [i for i, (kind, _) in enumerate(facts["arguments"]) if kind == "state"]
    capture.graph.mark_weights(weights)
    program = _C.Program(
        capture.graph,
        plugins.choose(given.plugin),
        dict(given.compile_overrides),
        given.disk_cache,
        True,
        source=f"{type(compiled.module).__qualname__}, frozen",
    )
    inputs = [_input(kind, what, compiled.module) for kind, what in facts["arguments"]]
    inputs += [("fixed", tensor) for tensor in capture.tensors]
    out_spec = pytree.treespec_loads(facts["out_spec"])
    form = _form(out_spec)
    frozen = _C.Frozen(
        program,
        inputs,
        [_leaf(fact, leaf) for fact, leaf in zip(facts["leaves"], leaves, strict=True)],
        capture.checks,
        [_source(source) for source in facts["symbols"]],
        facts["conditions"],
        [_output(kind, what, compiled.module) for kind, what in facts["outputs"]],
        form or "list",
    )
    if form and spec == flatten(tuple(leaves), {})[1]:
        return frozen
    return _Structured(frozen, spec, None if form else out_spec)


class _Structured:
    """A frozen model whose arguments or result aren't plain lists."""

    def __init__(
        self, frozen: _C.Frozen, spec: pytree.TreeSpec, out_spec: pytree.TreeSpec | None
    ) -> None:
        self._frozen = frozen
        self._spec = spec
        self._out_spec = out_spec

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, spec = flatten(args, kwargs)
        if spec != self._spec:
            raise failure(
                "invalid",
                what=f"the structure of the arguments is {spec}, and was {self._spec}",
                remedy=_REMEDY,
            )
        results = self._frozen(*leaves)
        if self._out_spec is None:
            return results
        return pytree.tree_unflatten(results, self._out_spec)


def _form(spec: pytree.TreeSpec) -> str:
    """How the core makes a result of this structure; "" if it can't."""
    if spec.is_leaf():
        return "one"
    if all(child.is_leaf() for child in spec.children()):
        return {tuple: "tuple", list: "list"}.get(spec.type, "")
    return ""


def _input(kind: str, what: Any, module: torch.nn.Module) -> tuple[str, Any]:
    if kind == "number":
        return kind, _source(what)
    if kind == "state":
        return "fixed", _tensor(module, what)
    if kind == "attribute":
        return "fixed", torch.tensor(resolve(module, what), dtype=torch.float64)
    return kind, what


def _output(kind: str, what: Any, module: torch.nn.Module) -> tuple[str, Any]:
    if kind == "state":
        return "fixed", _tensor(module, what)
    return ("fixed" if kind == "value" else kind), what


def _tensor(module: torch.nn.Module, name: str) -> Any:
    owner, _, last = name.rpartition(".")
    return getattr(module.get_submodule(owner), last)


def _leaf(fact: Facts, leaf: Any) -> tuple[str, str, Any, int, int]:
    kind = "value" if fact["kind"] == "repr" else fact["kind"]
    rank = fact["rank"] if fact.get("is_input") else -1
    value = leaf if kind == "value" else None
    return fact["name"], kind, value, fact.get("same_as", 0), rank


def _source(source: list[Any]) -> tuple[str, int, int]:
    kind, leaf, *dim = source
    return kind, leaf, dim[0] if dim else 0
