"""The Dynamo backend `pjrt`: what torch.compile calls with a captured graph."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch

from . import (
    accumulation,
    copies,
    decompositions,
    effects,
    fx,
    kept_captures,
    logs,
    plugins,
    policy,
    random_eager,
    replay,
    sparse,
    torch_internals,
    training,
)
from .capture_error import CaptureError
from .compiler import GraphCompiler, WholeInEager, whole_in_eager
from .errors import Error, failure
from .options import Options, parse
from .sources import function_of
from .warm import warming_up

from . import _C  # isort: skip

__all__ = ["pjrt"]

Compiled = Callable[[list[Any]], list[Any]]


@dataclass(frozen=True)
class Origin:
    """Where a graph comes from. function: where it starts. guard: whose failure made Dynamo capture
    it, "" at the first. graph_break: why the function goes on after it, "" if it doesn't."""

    function: str
    guard: str
    graph_break: str


def pjrt(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    **rest: Any,
) -> Callable[..., Any]:
    """Compiles a graph for a PJRT device. For the keys of `options` see docs/using.md."""
    policy.watch()
    try:
        policy.check_backend_call(gm)
        return _compile(gm, list(example_inputs), parse(mode, options, rest))
    except CaptureError as error:
        error.hide_dynamo()
        raise
    except Error as error:
        found = CaptureError(error.code, str(error))
        found.first_useful_frame = sys._getframe()
        raise found from error


def _compile(gm: torch.fx.GraphModule, inputs: list[Any], given: Options) -> Callable[..., Any]:
    origin = Origin(
        function_of(gm), torch_internals.failed_guard(), torch_internals.graph_break(gm)
    )
    plugin = plugins.choose(given.plugin)
    compiler = _graph_compiler(given, plugin, origin)
    of_function = functools.partial(
        _compiled,
        compiler=compiler,
        names=torch_internals.input_names(gm),
        outputs=torch_internals.eager_outputs(gm),
        random=given.random,
        watch=replay.watch_of(gm),
    )
    backward_origin = replace(origin, function=f"the backward of {origin.function}")
    of_backward = functools.partial(
        _compiled,
        compiler=_graph_compiler(given, plugin, backward_origin).of_backward(),
        names=[],
        outputs=None,
        random=given.random,
    )
    try:
        with kept_captures.kept(gm, inputs, given, compiler.make_program) as is_kept:
            return torch_internals.compile_with_autograd(
                gm,
                inputs,
                forward=training.forward_compiler(of_function),
                backward=training.backward_compiler(of_backward, origin.function),
                inference=functools.partial(of_function, keeps_weights=True, is_kept=is_kept),
                partition=training.partition_checked(compiler.check)
                if given.fallback == "eager"
                else training.partition,
                decompositions=decompositions.table(given.random),
                keep_unused_random=given.random == "eager",
                is_kept=is_kept,
            )
    except WholeInEager as found:
        return whole_in_eager(gm, found.reason)


def _graph_compiler(given: Options, plugin: str, origin: Origin) -> GraphCompiler:
    overrides = dict(given.compile_overrides)

    def make_program(graph: _C.Graph, on_device: bool = False) -> Any:
        if on_device and plugin != plugins.choose(None):
            raise failure(
                "invalid",
                what="tensors on device pjrt are of the plugin "
                f"{plugins.choose(None)}, and the option 'plugin' names {plugin}",
                remedy=f"set {plugins.ENVIRONMENT}, which both use, instead of the option",
            )
        program: Any = _C.Program(
            graph,
            plugin,
            overrides,
            given.disk_cache,
            given.freeze,
            source=origin.function,
            guard=origin.guard,
            on_device=on_device,
        )
        program.graph_break = origin.graph_break
        return program

    return GraphCompiler(make_program, given.fallback, given.eager_ops)


def _compiled(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    compiler: GraphCompiler,
    names: list[str],
    outputs: list[torch_internals.EagerOutput | None] | None,
    random: str,
    keeps_weights: bool = False,
    is_kept: bool = False,
    watch: replay.Watch | None = None,
) -> Compiled:
    """AOTAutograd's compiler for an inference graph, and for both graphs of training.
    `keeps_weights`: they change rarely, so that copies in another memory order pay. `is_kept`: what
    it returns is kept for another process. `watch`: is told of the calls."""
    if keeps_weights:
        fx.mark_weights(gm, torch_internals.static_inputs())
    logs.connect()
    _C.set_copy_report(copies.warn)
    draws = None
    if random == "eager":
        try:
            draws = random_eager.take_out(gm)
        except CaptureError as error:
            compiler = compiler.with_eager_ops(random_eager.ops_of(gm), error)
    accumulation.loop(gm)
    effects.take_out(gm)
    taken = sparse.take_out(gm) if outputs is None else []
    compiled: Any = compiler.compile(gm, names + draws.names if draws else names, outputs)
    logs.captured(gm)
    _C.count_capture()
    if draws and draws.steps:
        compiled = _with_draws(compiled, draws)
    if taken:
        compiled = _with_sparse(compiled, taken)
    compiled._boxed_call = True
    if watch is not None:
        return watch.on(gm, compiled)
    return kept_captures.KeptCapture.of(compiled) if is_kept else compiled


def _with_draws(program: Compiled, draws: random_eager.HostDraws) -> Any:
    """The program with the host's random tensors as further arguments."""

    def call(arguments: list[Any]) -> list[Any]:
        # A warm-up takes nothing from the generator.
        kept = torch.random.fork_rng(devices=[]) if warming_up() else nullcontext()
        with kept:
            arguments.extend(draws.take(arguments))
        return program(arguments)

    return call


def _with_sparse(program: Compiled, taken: list[sparse.Sparse]) -> Any:
    """The program with the sparse tensors that its graph doesn't hold."""

    def call(arguments: list[Any]) -> list[Any]:
        return sparse.put_back(program(arguments), taken)

    return call
