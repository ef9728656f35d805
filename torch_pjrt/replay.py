"""A step of training run again without Dynamo, which asks of each of its tensors what it is.

Most of what a step is given is our own list of parameters and state. That these are the same
objects as at the last step, of the same kinds, is one look in C++. Dynamo's guards of all else, the
user's code and batches, are asked as ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from . import torch_internals

from . import _C  # isort: skip

__all__ = ["MISSED", "Call", "Replay", "Watch", "read_by", "record", "watch_of"]

Compiled = Callable[[list[Any]], list[Any]]
Fetch = Callable[[dict[str, Any], dict[str, Any]], tuple[Any, ...]]

MISSED: Any = object()  # instead of a result: the step has to go through Dynamo


@dataclass(frozen=True)
class Call:
    """One call of the program of a step."""

    watch: Watch
    given: list[Any]
    outputs: list[Any]


class Watch:
    """The program of a step, as AOTAutograd calls it, with what Dynamo says of its graph."""

    def __init__(self, gm: torch.fx.GraphModule) -> None:
        sources = torch_internals.sources(gm)
        self.can_replay = sources is not None and torch_internals.only_computes()
        self.sources: list[str] = sources or []
        self.mutated: list[int] = []
        self.program: Compiled
        self._fetch: dict[tuple[int, ...], Fetch] = {}

    def on(self, gm: torch.fx.GraphModule, compiled: Compiled) -> Compiled:
        """`compiled`, whose calls are recorded."""
        copy = torch.ops.aten.copy_.default
        self.program = compiled
        self.mutated = [
            k
            for k, node in enumerate(gm.graph.find_nodes(op="placeholder"))
            if any(user.target is copy and user.args[0] is node for user in node.users)
        ]

        def call(arguments: list[Any]) -> list[Any]:
            given = list(arguments)
            outputs = compiled(arguments)
            if _recorded.calls is not None:
                _recorded.calls.append(Call(self, given, list(outputs)))
            return outputs

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    def fetch(self, positions: Sequence[int]) -> Fetch:
        """What reads these inputs from a function's locals and globals."""
        key = tuple(positions)
        if key not in self._fetch:
            items = "".join(f"{self.sources[k]}, " for k in positions)
            self._fetch[key] = eval(f"lambda L, G: ({items})")
        return self._fetch[key]


class _Recorded(threading.local):
    calls: list[Call] | None = None


_recorded = _Recorded()


@contextmanager
def record() -> Iterator[list[Call]]:
    """Collects the calls of programs that were captured within a record()."""
    before, _recorded.calls = _recorded.calls, []
    try:
        yield _recorded.calls
    finally:
        _recorded.calls = before


def watch_of(gm: torch.fx.GraphModule) -> Watch | None:
    """For a graph that is captured now; None outside of a record()."""
    return None if _recorded.calls is None else Watch(gm)


@dataclass(frozen=True)
class _Result:
    """The program's output of the number `value`, or else that constant."""

    is_output: bool
    value: Any


class Guards:
    """Dynamo's guards of a call, as far as they aren't known to hold. While a module, with all in
    it, has the attributes that it had, most of those of its modules needn't be asked."""

    def __init__(
        self,
        function: Callable[..., Any],
        locals_of_call: dict[str, Any],
        tensors: list[Tensor],
        model: tuple[str, torch.nn.Module] | None,
    ) -> None:
        """model: a module and the expression by which the function reads it, if none but our own
        code can put another there."""
        watched = None
        contents: list[Any] = []
        if model is not None:
            modules = list(model[1].modules())
            dicts = [vars(m) for m in modules]
            dicts += [v for own in dicts for v in own.values() if isinstance(v, dict)]
            contents = [*modules, *dicts]
            watched = torch_internals.Watched(
                model[0], *(frozenset(map(id, kind)) for kind in (modules, dicts, tensors))
            )
        checks = torch_internals.guards_without(function, locals_of_call, "inputs", watched)
        self.are_found = checks is not None
        if checks is not None:
            self._every, self._few = checks
        self._contents = _C.Contents(contents)

    def hold(self, locals_of_call: dict[str, Any]) -> bool:
        return (self._few if self._contents.same() else self._every)(locals_of_call)


class Replay:
    """One call of a function (inputs, batches) that was compiled, to be made again.

    `inputs` are the same objects at each call; Dynamo's guards of them are not asked. `others`:
    positions of the program's arguments that don't come from them.
    """

    def __init__(
        self,
        call: Call,
        guards: Guards,
        scope: tuple[dict[str, Any], dict[str, Any]],
        others: list[int],
        results: tuple[list[_Result], Any],
    ) -> None:
        self._watch = call.watch
        self._guards = guards
        self._locals, self._globals = scope
        self._others = others
        self._given = list(call.given)
        for k in others:
            self._given[k] = None
        self._fetch = call.watch.fetch(others)
        outside = set(others)
        self._mutated = [k for k in call.watch.mutated if k in outside]
        written = [call.given[k] for k in call.watch.mutated if k not in outside]
        self._written = _C.Held(written, 0)
        self._results, self._tree = results

    @staticmethod
    def of(
        function: Callable[..., Any],
        inputs: Any,
        tensors: list[Tensor],
        batches: Any,
        calls: list[Call],
        result: Any,
        model: tuple[str, torch.nn.Module] | None = None,
    ) -> Replay | None:
        """None if the call can't be made without Dynamo, or not be told from others. tensors: those
        in the inputs. That they are where the user's code has them is among Dynamo's guards."""
        if len(calls) != 1 or not calls[0].watch.can_replay:
            return None
        call, watch = calls[0], calls[0].watch
        if len(watch.sources) != len(call.given):
            return None
        scope = _locals_of(function), function.__globals__
        scope[0].update(inputs=inputs, batches=batches)
        try:
            fetched = watch.fetch(range(len(call.given)))(*scope)
        except Exception:  # an expression that isn't Python's
            return None
        if not all(_is_same(a, b) for a, b in zip(fetched, call.given, strict=True)):
            return None
        results = _results(call, result)
        guards = Guards(function, scope[0], tensors, model)
        if results is None or not guards.are_found:
            return None
        del scope[0]["batches"]
        known = {id(t) for t in tensors}
        others = [
            k
            for k, source in enumerate(watch.sources)
            if not source.startswith("L['inputs']") and id(call.given[k]) not in known
        ]
        return Replay(call, guards, scope, others, results)

    def run(self, held: _C.Held, batches: Any) -> Any:
        """The result, or MISSED before anything has happened. held: the tensors of the inputs,
        which are as they were."""
        arguments = self._arguments(held, batches)
        if arguments is None:
            return MISSED
        others = [arguments[k] for k in self._mutated]
        outputs = self._watch.program(arguments)
        self._written.raise_versions()
        if others:
            torch_internals.raise_versions(others)
        leaves = [outputs[r.value] if r.is_output else r.value for r in self._results]
        return torch_internals.tree_unflatten(leaves, self._tree)

    def _arguments(self, held: _C.Held, batches: Any) -> list[Any] | None:
        scope = {**self._locals, "batches": batches}
        if not torch_internals.runs_compiled() or not self._guards.hold(scope):
            return None
        others = list(self._fetch(scope, self._globals))
        if held.contains_any(others):
            return None
        arguments = list(self._given)
        for k, value in zip(self._others, others, strict=True):
            arguments[k] = value
        return arguments


def read_by(function: Callable[..., Any], *names: str) -> tuple[str, Any]:
    """The expression by which a function reads a variable of the closure of a function in the
    closure of .. its own, and the variable's value now."""
    expression, value = f"L[{names[0]!r}]", _locals_of(function)[names[0]]
    for name in names[1:]:
        place = value.__code__.co_freevars.index(name)
        expression += f".__closure__[{place}].cell_contents"
        value = value.__closure__[place].cell_contents
    return expression, value


def _locals_of(function: Callable[..., Any]) -> dict[str, Any]:
    """What Dynamo counts among the locals besides the arguments: the variables of the closure."""
    names = function.__code__.co_freevars
    cells = function.__closure__ or ()
    return {name: cell.cell_contents for name, cell in zip(names, cells, strict=True)}


def _is_same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is int and type(b) is int and a == b)


def _results(call: Call, result: Any) -> tuple[list[_Result], Any] | None:
    """How the result is made of the program's outputs; None if it isn't plainly so."""
    leaves, tree = torch_internals.tree_flatten(result)
    outputs = {id(t): k for k, t in enumerate(call.outputs) if isinstance(t, Tensor)}
    # Where sizes are symbolic, a number may be one.
    has_sizes = not all(isinstance(t, Tensor) for t in (*call.given, *call.outputs))
    constants = (bool, str) if has_sizes else (bool, str, int, float)
    found = []
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            if id(leaf) not in outputs:
                return None
            found.append(_Result(True, outputs[id(leaf)]))
        elif leaf is None or isinstance(leaf, constants):
            found.append(_Result(False, leaf))
        else:
            return None
    return found, tree
