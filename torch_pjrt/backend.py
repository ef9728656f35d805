"""The Dynamo backend `pjrt`: what torch.compile calls with a captured graph."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
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
from .errors import Error
from .options import Options, parse
from .programs import Origin, ProgramMaker
from .sources import function_of
from .warm import warming_up

from . import _C  # isort: skip

__all__ = ["pjrt"]

Compiled = Callable[[list[Any]], list[Any]]


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
    plugins.choose(given.plugin)  # a wrong name is known at once
    compiler = _graph_compiler(given, origin)
    of_function = functools.partial(
        _compiled,
        compiler=compiler,
        names=torch_internals.input_names(gm),
        outputs=torch_internals.eager_outputs(gm),
        random=given.random,
        watch=replay.watch_of(gm),
    )
    backward_origin = replace(origin, function=f"the backward of {origin.function}")
    backward_compiler = _graph_compiler(given, backward_origin).of_backward()
    of_backward = functools.partial(
        _compiled, compiler=backward_compiler, names=[], outputs=None, random=given.random
    )
    maker, backward_maker = compiler.make_program, backward_compiler.make_program
    try:
        with kept_captures.keeping(gm, inputs, given, maker) as keep:
            return torch_internals.compile_with_autograd(
                gm,
                inputs,
                forward=keep.training(training.forward_compiler(of_function), maker),
                backward=keep.training(
                    training.backward_compiler(
                        of_backward, origin.function, gives_memory=not keep.has_training
                    ),
                    backward_maker,
                ),
                inference=keep.inference(functools.partial(of_function, keeps_weights=True), maker),
                partition=training.partition_checked(compiler.check)
                if given.fallback == "eager"
                else training.partition,
                decompositions=decompositions.table(given.random),
                keep_unused_random=given.random == "eager",
            )
    except WholeInEager as found:
        return whole_in_eager(gm, found.reason)


def _graph_compiler(given: Options, origin: Origin) -> GraphCompiler:
    return GraphCompiler(ProgramMaker(given, origin), given.fallback, given.eager_ops)


def _compiled(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    compiler: GraphCompiler,
    names: list[str],
    outputs: list[torch_internals.EagerOutput | None] | None,
    random: str,
    keeps_weights: bool = False,
    watch: replay.Watch | None = None,
) -> Compiled:
    """AOTAutograd's compiler for an inference graph, and for both graphs of training.
    `keeps_weights`: they change rarely, so that copies in another memory order pay. `watch`: is
    told of the calls."""
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
    return compiled


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
