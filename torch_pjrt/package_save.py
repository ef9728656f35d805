"""torch_pjrt.save: a compiled model's graphs, guards and programs in one file, without weights."""

from __future__ import annotations

import contextvars
import functools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from . import (
    backend,
    copies,
    decompositions,
    fx,
    logs,
    options,
    package_file,
    torch_internals,
    trial,
)
from .errors import failure
from .package_file import Package
from .package_load import Variant, flatten
from .package_model import Facts, Model, facts_of, path_of, resolve, steps_of
from .programs import ProgramMaker
from .symbols import Symbols
from .torch_internals import Whole

from . import _C  # isort: skip

__all__ = ["Capture", "Flat", "save"]

Call = tuple[tuple[Any, ...], dict[str, Any]]
OutputTypes = list[tuple[str, int | None]]
_PLAIN = (bool, int, float, str, type(None))
_LEAF = re.compile(r"^L\['leaves'\]\[(\d+)\]$")
_OF_LEAF = re.compile(r"^L\['leaves'\]\[(\d+)\]\.(size|stride|storage_offset)\(\)(?:\[(\d+)\])?$")
_MODULE = "L['self']._modules['module']"


def save(fast: Any, path: str | os.PathLike[str], calls: Sequence[Any]) -> None:
    """Writes the model that `fast` compiles to a file that `torch_pjrt.load` reads.

    fast: torch.compile(model, backend="pjrt"); it has to compile as one graph. calls: for each
    program to store, the arguments of a call: a tuple, or (tuple, dict of keywords). They are real
    tensors; nothing is run, changed or drawn. Where their sizes differ, or with dynamic=True, the
    file serves other sizes too, whose programs are compiled when they are first called. The model
    is captured without gradients, in the mode (train or eval) that it is in.

    The file has no weights. Raises Error: "unsupported" for what can't be saved, "io" where the
    file can't be written, and Dynamo's error where the code breaks the graph.
    """
    compiled, given = compiled_by_us(fast, "save", "saved")
    saving = _Saving(compiled.module, given, _dynamic(compiled.dynamic, calls))
    if not calls:
        raise failure(
            "invalid", what="there is no call to save", remedy="give a list of at least one"
        )
    with torch.no_grad():
        for call in calls:
            saving.add(*_arguments(call))
    package_file.write(os.fspath(path), saving.package())


def compiled_by_us(
    fast: Any, verb: str, done: str
) -> tuple[torch_internals.CompiledModule, options.Options]:
    """The model in what torch.compile made, with its options, ready to be captured. Raises Error
    for what can't be `done`, naming the function, `verb`."""
    compiled = torch_internals.compiled_module(fast, backend.pjrt)
    if compiled is None:
        raise failure(
            "invalid",
            what=f"{verb} takes what torch.compile(model, backend='pjrt') made of a module, got a "
            f"{type(fast).__name__}",
            remedy="put the function into a torch.nn.Module, and compile that",
        )
    given = options.parse(None, compiled.options, {})
    if given.random == "eager":
        raise failure(
            "unsupported",
            what=f"a model whose random ops run on the host can't be {done}",
            remedy="compile it without the option random='eager'",
        )
    logs.connect()
    _C.set_copy_report(copies.warn)
    return compiled, given


def _arguments(call: Any) -> Call:
    if isinstance(call, tuple) and len(call) == 2 and isinstance(call[0], tuple):
        args, kwargs = call
        if isinstance(kwargs, dict):
            return args, kwargs
    if not isinstance(call, tuple):
        raise failure(
            "invalid",
            what=f"a call to save is a {type(call).__name__}",
            remedy="give a list of tuples of arguments, or of (tuple, dict of keywords)",
        )
    return call, {}


def _dynamic(given: bool | None, calls: Sequence[Any]) -> bool | None:
    """Whether sizes are symbols: as torch.compile was told, or else if the calls differ in some."""
    if given is not None:
        return given
    shapes = set()
    for call in calls:
        leaves, _ = flatten(*_arguments(call))
        shapes.add(tuple(leaf.shape if isinstance(leaf, torch.Tensor) else () for leaf in leaves))
    return len(shapes) > 1


class Flat(torch.nn.Module):
    """The module as a function of the leaves of its arguments."""

    def __init__(self, module: torch.nn.Module, spec: pytree.TreeSpec) -> None:
        super().__init__()
        self.module = module
        self.spec = spec
        self.training = module.training

    def forward(self, leaves: list[Any]) -> Any:
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.module(*args, **kwargs)


class _Saving:
    """What is captured so far."""

    def __init__(
        self, module: torch.nn.Module, given: options.Options, dynamic: bool | None
    ) -> None:
        self._module = module
        self._options = given
        self._dynamic = dynamic
        self._blobs: list[bytes] = []
        self._facts: list[Facts] = []
        self._constants: list[tuple[Any, Any]] = []
        self._variants: list[Variant] = []
        self._programs: dict[bytes, bytes] = {}

    def add(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Sees to it that the file serves this call, with its program."""
        leaves, spec = flatten(args, kwargs)
        model = Model("the file", self._module, facts_of(self._module, []))
        for variant in self._variants:
            if not variant.differs(spec, leaves, model):
                break
        else:
            variant = self._capture(leaves, spec)
            if differs := variant.differs(spec, leaves, model):
                raise failure(
                    "internal",
                    what=f"a call isn't served by its own capture: {differs}",
                    remedy="please report it",
                )
        key, program = variant.store(leaves, model)
        self._programs[key] = program

    def package(self) -> Package:
        programs = [(self._blob(key), self._blob(value)) for key, value in self._programs.items()]
        facts = {
            "model": facts_of(self._module, self._constants),
            "options": {
                "compile_overrides": dict(self._options.compile_overrides),
                "disk_cache": self._options.disk_cache,
                "freeze": self._options.freeze,
                "plugin": _name_of_plugin(self._options.plugin),
            },
            "variants": self._facts,
            "programs": programs,
        }
        return Package(facts, self._blobs)

    def _blob(self, content: bytes) -> int:
        self._blobs.append(content)
        return len(self._blobs) - 1

    def _capture(self, leaves: list[Any], spec: pytree.TreeSpec) -> Variant:
        flat = Flat(self._module, spec)
        capture = Capture(flat, leaves, self._dynamic, self._options)
        facts = capture.facts
        facts["in_spec"] = _dumped(spec, "an argument")
        facts["checks"] = self._blob(capture.checks.to_bytes())
        facts["graph"] = self._blob(capture.graph.to_bytes())
        facts["constants"] = [
            (self._blob(_content(t)), str(t.dtype), list(t.shape)) for t in capture.tensors
        ]
        known = [steps for steps, _ in self._constants]
        self._constants += [fact for fact in capture.constants if fact[0] not in known]
        self._facts.append(facts)

        self._variants.append(Variant(facts, Package({}, self._blobs), ProgramMaker(self._options)))
        return self._variants[-1]


@dataclass
class _Compiled:
    """What AOTAutograd asked its compiler for."""

    captured: fx.Captured | None = None
    output_types: OutputTypes | None = None


class Capture:
    """One capture of the module for some leaves: the graph, and what a call of it needs."""

    def __init__(
        self, flat: Flat, leaves: list[Any], dynamic: bool | None, given: options.Options
    ) -> None:
        self._flat = flat
        self._leaves = leaves
        compiled = _Compiled()
        whole = torch_internals.capture_whole(
            flat, leaves, dynamic, lambda whole: self._compile(whole, given, compiled)
        )
        if whole is None:
            raise failure(
                "unsupported",
                what="the model computes nothing with tensors",
                remedy="save one that does",
            )
        self._whole = whole
        self._check_changes([e for e in whole.changed if not e.startswith("G[")])
        assert compiled.captured is not None
        self.graph = compiled.captured.graph
        self.tensors = compiled.captured.constants
        self._output_types = self._checked_outputs(compiled.output_types)
        self._places = self._weights()
        self.constants = self._read_constants()
        arguments = [self._argument(name, value) for name, value in whole.inputs]
        self.checks, conditions = self._conditions(arguments)
        out_spec, outputs = self._outputs(arguments)
        self.facts: Facts = {
            "leaves": self._leaf_facts(arguments),
            "arguments": arguments,
            "symbols": [self._source(whole.symbols[name]) for name in self.checks.symbols()],
            "conditions": conditions,
            "out_spec": out_spec,
            "outputs": outputs,
        }

    def _compile(self, whole: Whole, given: options.Options, compiled: _Compiled) -> None:
        def inference(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
            names = [self._input_name(expression) for expression, _ in whole.inputs]
            outputs = torch_internals.eager_outputs(whole.gm)
            placeholders = gm.graph.find_nodes(op="placeholder")
            if len(placeholders) != len(whole.inputs):
                raise failure(
                    "unsupported",
                    what="inputs that share memory and are changed in place can't be saved",
                    remedy="pass copies, or inputs that don't overlap",
                )
            for error in trial.refusals(gm, given.eager_ops).values():
                raise error
            fx.mark_weights(gm, torch_internals.static_inputs())
            compiled.captured = fx.capture(gm, names, outputs)
            compiled.output_types = torch_internals.output_types(len(outputs))
            _C.count_capture()
            return lambda arguments: [None] * len(outputs)

        def training(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
            raise failure(
                "unsupported",
                what="the model enables gradients itself, and a file has no backward",
                remedy="save a model without torch.enable_grad()",
            )

        with whole.tracing():
            torch_internals.compile_with_autograd(
                whole.gm,
                whole.examples,
                forward=training,
                backward=training,
                inference=inference,
                partition=functools.partial(training),
                decompositions=decompositions.table(given.random),
            )

    def _checked_outputs(self, types: OutputTypes | None) -> OutputTypes:
        """Checks that the program alone gives what AOTAutograd and it give together."""
        kinds = self.graph.output_kinds()
        if types is None or not all(
            type_ in ("as it is", "input")
            or (type_ == "view of an input" and kind in ("input", "view"))
            for (type_, _), kind in zip(types, kinds, strict=True)
        ):
            raise failure(
                "unsupported",
                what="the model changes an input's shape in place, or returns a view of an input "
                "that is of another dtype",
                remedy="return copies: y.clone()",
            )
        return types

    def _check_changes(self, changed: list[str]) -> None:
        if changed:
            raise failure(
                "unsupported",
                what="the model changes Python's objects, which a loaded one can't: "
                + ", ".join(expression.replace(_MODULE, "model") for expression in changed),
                remedy="return what changes, or keep it in a buffer",
            )

    # --- inputs

    def _input_name(self, expression: str) -> str:
        """The user's name for one of the graph's inputs."""
        if match := _LEAF.match(expression):
            return self._name(int(match[1]))
        steps = steps_of(expression, _MODULE)
        return expression if steps is None else path_of(steps)

    def _weights(self) -> dict[int, str]:
        """Parameters and buffers -> their first name."""
        names: dict[int, str] = {}
        module = self._flat.module
        for name, tensor in [
            *module.named_parameters(remove_duplicate=False),
            *module.named_buffers(remove_duplicate=False),
        ]:
            names.setdefault(id(tensor), name)
        return names

    def _argument(self, expression: str, value: Any) -> tuple[str, Any]:
        """How a call finds the graph's input."""
        if isinstance(value, int | torch.SymInt):
            return ("number", self._source([expression]))
        if match := _LEAF.match(expression):
            index = int(match[1])
            is_float = isinstance(self._leaves[index], float)
            return ("float" if is_float else "leaf", index)
        steps = steps_of(expression, _MODULE)
        if steps is not None:
            found = resolve(self._flat.module, steps)
            if isinstance(found, torch.Tensor) and id(found) in self._places:
                return ("state", self._places[id(found)])
            if isinstance(found, float):
                return ("attribute", steps)
        raise failure(
            "unsupported",
            what=f"the model reads a tensor that is no parameter, buffer or argument: "
            f"{expression.replace(_MODULE, 'model')}",
            remedy="register it with register_buffer(..., persistent=False), so that load() finds "
            "it in the model that it is given",
        )

    def _source(self, expressions: Sequence[str]) -> list[Any]:
        """Where a call finds a number, which each of the expressions reads."""
        for expression in expressions:
            if match := _LEAF.match(expression):
                return ["leaf", int(match[1])]
            if match := _OF_LEAF.match(expression):
                leaf, what, dim = match.groups()
                return [what, int(leaf), *([] if dim is None else [int(dim)])]
        raise failure(
            "unsupported",
            what="the model's sizes depend on "
            + ", ".join(expression.replace(_MODULE, "model") for expression in expressions),
            remedy="make it a constant, or an argument of its own",
        )

    def _conditions(self, arguments: list[tuple[str, Any]]) -> tuple[_C.Graph, list[str]]:
        """A graph of numbers: the conditions, then dims and strides of each tensor argument."""
        checks = _C.Graph()
        symbols = Symbols(checks)
        symbols.bound = set(self._whole.symbols)
        texts = []
        floats = self._constant_floats(arguments)
        for expression, least, most in self._whole.conditions():
            known = {s: floats[s.name] for s in expression.free_symbols if s.name in floats}
            expression = expression.subs(known)
            if expression in (True, False):
                continue
            if least is None and most is None:
                if expression.is_Symbol:
                    continue
                parts = [(expression, str(expression))]
            else:
                parts = [
                    (sign(expression, bound), f"{expression} {text} {bound}")
                    for sign, text, bound in ((_ge, ">=", least), (_le, "<=", most))
                    if bound is not None
                ]
            for part, text in parts:
                if part in (True, False):
                    continue
                checks.add_output_number(symbols.condition(part))
                texts.append(self._readable(text))
        for _, value in sorted(self._tensor_leaves(arguments).items()):
            for size in (*value.shape, *value.stride()):
                checks.add_output_number(symbols.size(size, ""))
        return checks, texts

    def _constant_floats(self, arguments: list[tuple[str, Any]]) -> dict[str, float]:
        """Floats that the graph holds: by their symbol, the value, which each call compares."""
        given = [what for kind, what in arguments if kind in ("float", "attribute")]
        values: dict[str, float] = {}
        for symbol, expressions in self._whole.symbols.items():
            for expression in expressions:
                match, steps = _LEAF.match(expression), steps_of(expression, _MODULE)
                what: Any = int(match[1]) if match else steps
                if what is None or what in given:
                    continue
                value = self._leaves[what] if match else resolve(self._flat.module, what)
                if isinstance(value, float):
                    values[symbol] = value
                    if steps is not None:
                        self.constants.append((steps, value))
        return values

    def _tensor_leaves(self, arguments: list[tuple[str, Any]]) -> dict[int, torch.Tensor]:
        return {
            what: value
            for (kind, what), (_, value) in zip(arguments, self._whole.inputs, strict=True)
            if kind == "leaf" and isinstance(value, torch.Tensor)
        }

    def _readable(self, text: str) -> str:
        """A condition with the arguments' sizes in place of symbols."""

        def named(match: re.Match[str]) -> str:
            for expression in self._whole.symbols.get(match[0], ()):
                if found := _OF_LEAF.match(expression):
                    return f"{self._name(int(found[1]))}.{found[2]}({found[3] or ''})"
                if found := _LEAF.match(expression):
                    return self._name(int(found[1]))
            return match[0]

        return re.sub(r"[a-z]+\d+", named, text)

    def _name(self, index: int) -> str:
        """The user's name for a leaf, e.g. "argument 0['mask']"."""
        call = pytree.tree_unflatten(self._leaves, self._flat.spec)
        path = pytree.tree_flatten_with_path(call)[0][index][0]
        first: Any = path[1]
        where = f"argument {first.idx if hasattr(first, 'idx') else first.key}"
        return where + pytree.keystr(path[2:])

    def _leaf_facts(self, arguments: list[tuple[str, Any]]) -> list[Facts]:
        inputs = {what for kind, what in arguments if kind in ("leaf", "float")}
        symbolic = {
            int(match[1])
            for expressions in self._whole.symbols.values()
            for expression in expressions
            if (match := _LEAF.match(expression))
        }
        first: dict[int, int] = {}
        facts = []
        for index, leaf in enumerate(self._leaves):
            fact: Facts = {"name": self._name(index)}
            if isinstance(leaf, torch.Tensor):
                fact |= {
                    "kind": "tensor",
                    "dtype": str(leaf.dtype),
                    "rank": leaf.dim(),
                    "is_input": index in inputs,
                    "same_as": first.setdefault(id(leaf), index),
                }
            elif type(leaf) is int and index in symbolic:
                fact["kind"] = "int"
            elif type(leaf) is float and index in inputs:
                fact["kind"] = "float"
            elif isinstance(leaf, _PLAIN):
                fact |= {"kind": "value", "value": leaf}
            elif isinstance(leaf, torch.dtype | torch.device | torch.layout | torch.memory_format):
                fact |= {"kind": "repr", "value": repr(leaf)}
            else:
                raise failure(
                    "unsupported",
                    what=f"{fact['name']} is a {type(leaf).__name__}",
                    remedy="pass tensors, numbers and strings, in lists, tuples and dicts",
                )
            facts.append(fact)
        return facts

    def _read_constants(self) -> list[tuple[Any, Any]]:
        """What the code read of the module and took for constant."""
        found = []
        for expression in self._whole.constants:
            steps = steps_of(expression, _MODULE)
            if not steps or steps[-1][1] == "training":
                continue  # which is compared for every module
            try:
                value = resolve(self._flat.module, steps)
            except (AttributeError, LookupError):
                continue
            if isinstance(value, _PLAIN):
                found.append((steps, value))
        return found

    # --- outputs

    def _outputs(self, arguments: list[tuple[str, Any]]) -> tuple[str, list[tuple[str, Any]]]:
        """The structure of what the model returns, and where each leaf of it comes from."""
        # Numbers that are no others, so that they are known again.
        marks = [_mark(leaf) for leaf in self._leaves]
        results = [torch.empty(0) for _ in self.graph.output_kinds()]
        # What is set for the time of a call, such as a context variable, is as it was afterwards.
        before = [_value(self._whole.global_object(e)) for e in self._whole.changed]
        returned = self._whole.rebuild((self._flat, marks), results)
        after = [_value(self._whole.global_object(e)) for e in self._whole.changed]
        self._check_changes(
            [
                expression
                for expression, old, new in zip(self._whole.changed, before, after, strict=True)
                if old is not new
            ]
        )
        leaves, spec = pytree.tree_flatten(returned)
        places: dict[int, tuple[str, Any]] = {
            **{id(t): ("leaf", i) for i, t in reversed(list(enumerate(marks)))},
            **{t: ("state", name) for t, name in self._places.items()},
            **{id(t): self._result(k, arguments) for k, t in enumerate(results)},
        }
        found = []
        for leaf in leaves:
            place = None if isinstance(leaf, bool | str | None) else places.get(id(leaf))
            if place is None and not isinstance(leaf, _PLAIN):
                raise failure(
                    "unsupported",
                    what=f"the model returns a {type(leaf).__name__} that is neither computed nor "
                    "an argument",
                    remedy="return y.clone() of a tensor, and else numbers and strings, in lists, "
                    "tuples and dicts",
                )
            found.append(place or ("value", leaf))
        return _dumped(spec, "the result"), found

    def _result(self, index: int, arguments: list[tuple[str, Any]]) -> tuple[str, Any]:
        """Where a result of the graph comes from: an input is returned itself."""
        type_, base = self._output_types[index]
        if type_ == "input" and base is not None and arguments[base][0] in ("leaf", "state"):
            return arguments[base]
        return ("result", index)


def _name_of_plugin(given: str | None) -> str | None:
    """What names the plugin elsewhere too: no path."""
    return None if given is None or os.sep in given or os.path.exists(given) else given


def _value(found: Any) -> Any:
    return found.get(None) if isinstance(found, contextvars.ContextVar) else found


class _Int(int):
    """An int that is known again by its identity."""


class _Float(float):
    """The same of a float."""


def _mark(leaf: Any) -> Any:
    if type(leaf) is int:
        return _Int(leaf)
    return _Float(leaf) if type(leaf) is float else leaf


def _ge(a: Any, b: int) -> Any:
    return a >= b


def _le(a: Any, b: int) -> Any:
    return a <= b


def _dumped(spec: pytree.TreeSpec, what: str) -> str:
    try:
        return str(pytree.treespec_dumps(spec))
    except NotImplementedError as error:
        raise failure(
            "unsupported",
            what=f"{what} has a structure that can't be written: {error}",
            remedy="use lists, tuples and dicts, or register the class with "
            "torch.utils._pytree and a serialized_type_name",
        ) from error


def _content(tensor: torch.Tensor) -> bytes:
    dense = tensor.detach().contiguous().view(-1)
    return bytes(dense.view(torch.uint8).numpy().tobytes()) if dense.numel() else b""
