"""torch_pjrt.load: a saved model, called with neither Dynamo nor AOTAutograd."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from . import copies, logs, package_file, plugins
from .errors import Error, failure
from .package_file import Package
from .package_model import Facts, Model, resolve

from . import _C  # isort: skip

__all__ = ["Loaded", "Variant", "flatten", "load"]


def load(
    path: str | os.PathLike[str], model: torch.nn.Module, *, plugin: str | None = None
) -> Loaded:
    """The model that `torch_pjrt.save` wrote, with the weights of `model`, to be called as it was.

    `model` has to be as the saved one was but for the numbers in its weights. `plugin`: as the
    option of torch.compile; by default the one that was saved by name, or else the usual choice. A
    program that was saved for another plugin, processor or setting is compiled anew. Raises Error:
    "io" for a file that can't be used, "invalid" for another model.
    The file is code: load only what you would execute.
    """
    if not isinstance(model, torch.nn.Module):
        raise failure(
            "invalid",
            what=f"load takes a torch.nn.Module for the weights, got a {type(model).__name__}",
            remedy="torch_pjrt.load(path, model)",
        )
    name = os.fspath(path)
    package = package_file.read(name)
    logs.connect()
    _C.set_copy_report(copies.warn)
    facts = package.facts
    programs = {package.blobs[key]: package.blobs[value] for key, value in facts["programs"]}
    weights = Model(name, model, facts["model"])

    def make_program(graph: _C.Graph) -> Any:
        options = facts["options"]
        return _C.Program(
            graph,
            plugins.choose(plugin or options["plugin"]),
            options["compile_overrides"],
            options["disk_cache"],
            options["freeze"],
            stored=programs,
        )

    variants = [Variant(variant, package, make_program) for variant in facts["variants"]]
    return Loaded(name, weights, variants)


class Loaded:
    """A loaded model. Calls take and give what the saved one did; any thread may make them."""

    def __init__(self, path: str, model: Model, variants: list[Variant]) -> None:
        self._path = path
        self._model = model
        self._variants = variants

    @property
    def model(self) -> torch.nn.Module:
        """The module whose weights are used."""
        return self._model.module

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, spec = flatten(args, kwargs)
        self._model.check()
        reasons = []
        for variant in self._variants:
            differs = variant.differs(spec, leaves, self._model)
            if not differs:
                return variant.run(leaves, self._model)
            reasons.append(differs)
        raise failure(
            "invalid",
            what=f"{self._path} was not saved for this call",
            differs="; or ".join(dict.fromkeys(reasons)),
            remedy="call it with what it was saved for, or save it with such arguments too",
        )

    def __repr__(self) -> str:
        return f"<torch_pjrt.load({self._path!r}) of {type(self.model).__name__}>"


def flatten(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], pytree.TreeSpec]:
    """The leaves of a call's arguments, and their structure; keywords in whatever order."""
    return pytree.tree_flatten((args, dict(sorted(kwargs.items()))))


class Variant:
    """One graph, with the calls that it is valid for."""

    def __init__(
        self, facts: Facts, package: Package, make_program: Callable[[_C.Graph], Any]
    ) -> None:
        self._facts = facts
        self._leaves: list[Facts] = facts["leaves"]
        self._spec = pytree.treespec_loads(facts["in_spec"])
        self._out_spec = pytree.treespec_loads(facts["out_spec"])
        self._checks = _C.Graph.from_bytes(package.blobs[facts["checks"]])
        self._program = make_program(_C.Graph.from_bytes(package.blobs[facts["graph"]]))
        self._constants = [_tensor(package, *constant) for constant in facts["constants"]]
        self._used = sorted({name for kind, name in facts["arguments"] if kind == "state"})

    # --- guards

    def differs(self, spec: Any, leaves: list[Any], model: Model) -> str:
        """How a call isn't one that the graph is for, or ""."""
        if spec != self._spec:
            return f"the structure of the arguments is {spec}, and was {self._spec}"
        for leaf, fact in zip(leaves, self._leaves, strict=True):
            if differs := _differs(leaf, fact):
                return f"{fact['name']} {differs}"
        tensors: dict[int, int] = {}
        for index, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                first = tensors.setdefault(id(leaf), index)
                if first != self._leaves[index]["same_as"]:
                    name, other = self._leaves[index]["name"], self._leaves[first]["name"]
                    verb = "aren't" if first == index else "are"
                    other = other if first != index else "another argument"
                    return f"{name} and {other} {verb} one tensor"
        if torch.is_grad_enabled():
            needing = [t for t in leaves if isinstance(t, torch.Tensor) and t.requires_grad]
            needing += [t for t in map(model.tensor, self._used) if t.requires_grad]
            if needing:
                return "gradients are enabled, and it was saved without: use torch.no_grad()"
        try:
            values = self._checks.evaluate(
                [_read(leaves, source) for source in self._facts["symbols"]]
            )
        except Error as error:  # e.g. a division by a size that is 0
            return str(error)
        return self._sizes_differ(leaves, values)

    def _sizes_differ(self, leaves: list[Any], values: list[int | float]) -> str:
        """`values`: the conditions, then dims and strides of each tensor of the graph."""
        place = 0
        for text in self._facts["conditions"]:
            if not values[place]:
                return f"{text} doesn't hold"
            place += 1
        for index, fact in enumerate(self._leaves):
            if not fact.get("is_input"):
                continue
            leaf, rank = leaves[index], fact["rank"]
            shape, strides = list(leaf.shape), list(leaf.stride())
            wanted, wanted_strides = (
                values[place : place + rank],
                values[place + rank : place + 2 * rank],
            )
            place += 2 * rank
            if shape != wanted:
                return f"{fact['name']} has shape {shape}, and it is for {wanted}"
            lies_alike = leaf.numel() == 0 or all(
                size == 1 or a == b
                for size, a, b in zip(shape, strides, wanted_strides, strict=True)
            )
            if not lies_alike:
                return f"{fact['name']} has strides {strides}, and it is for {wanted_strides}"
        return ""

    # --- the call

    def arguments(self, leaves: list[Any], model: Model) -> list[Any]:
        """What the program takes."""
        given: list[Any] = []
        for kind, what in self._facts["arguments"]:
            if kind == "leaf":
                given.append(leaves[what])
            elif kind == "state":
                given.append(model.tensor(what))
            elif kind == "number":
                given.append(_read(leaves, what))
            elif kind == "float":
                given.append(torch.tensor(leaves[what], dtype=torch.float64))
            else:
                given.append(torch.tensor(resolve(model.module, what), dtype=torch.float64))
        return given + self._constants

    def store(self, leaves: list[Any], model: Model) -> tuple[Any, Any]:
        return self._program.store(self.arguments(leaves, model))

    def run(self, leaves: list[Any], model: Model) -> Any:
        results = self._program(self.arguments(leaves, model))
        outputs = []
        for kind, what in self._facts["outputs"]:
            if kind == "result":
                outputs.append(results[what])
            elif kind == "leaf":
                outputs.append(leaves[what])
            else:
                outputs.append(model.tensor(what) if kind == "state" else what)
        return pytree.tree_unflatten(outputs, self._out_spec)


def _differs(leaf: Any, fact: Facts) -> str:
    """How a leaf isn't of the kind that the graph takes, or ""."""
    kind = fact["kind"]
    if kind == "tensor":
        if type(leaf) not in (torch.Tensor, torch.nn.Parameter):
            return f"is a {type(leaf).__name__}, and was a tensor"
        found = [str(leaf.dtype), leaf.dim(), str(leaf.device), str(leaf.layout)]
        wanted = [fact["dtype"], fact["rank"], "cpu", "torch.strided"]
        names = ("dtype", "rank", "device", "layout")
        different = [
            f"has {name} {a}, and had {b}"
            for name, a, b in zip(names, found, wanted, strict=True)
            if a != b
        ]
        return ", ".join(different)
    if kind in ("int", "float"):
        wanted_type = int if kind == "int" else float
        return "" if type(leaf) is wanted_type else f"is {leaf!r}, and was a number ({kind})"
    found_value = leaf if kind == "value" else repr(leaf)
    same = type(found_value) is type(fact["value"]) and found_value == fact["value"]
    return "" if same else f"is {leaf!r}, and was {fact['value']!r}, which the program holds"


def _read(leaves: list[Any], source: list[Any]) -> int:
    kind, leaf, *dim = source
    if kind == "leaf":
        return int(leaves[leaf])
    if kind == "size":
        return int(leaves[leaf].shape[dim[0]])
    if kind == "stride":
        return int(leaves[leaf].stride(dim[0]))
    return int(leaves[leaf].storage_offset())


def _tensor(package: Package, blob: int, dtype: str, shape: list[int]) -> torch.Tensor:
    """A constant of the graph, in memory of its own."""
    kind = getattr(torch, dtype.removeprefix("torch."))
    tensor = torch.empty(shape, dtype=kind)
    if tensor.numel() > 0:
        content = torch.frombuffer(bytearray(package.blobs[blob]), dtype=kind)
        tensor.copy_(content.view(shape))
    return tensor
