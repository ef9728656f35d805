"""The Dynamo backend `pjrt`: what torch.compile calls with a captured graph."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from . import (
    copies,
    decompositions,
    fx,
    logs,
    plugins,
    random_eager,
    torch_internals,
    training,
)
from .errors import CaptureError, Error
from .options import Options, Override, parse
from .sources import function_of

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
    try:
        return _compile(gm, list(example_inputs), parse(mode, options, rest))
    except CaptureError as error:
        error.hide_dynamo()
        raise
    except Error as error:
        found = CaptureError(error.code, str(error))
        found.first_useful_frame = sys._getframe()
        raise found from error


def _compile(gm: torch.fx.GraphModule, inputs: list[Any], given: Options) -> Callable[..., Any]:
    plugin = plugins.choose(given.plugin)
    compiler = functools.partial(
        _program,
        plugin=plugin,
        overrides=dict(given.compile_overrides),
        random=given.random,
        disk_cache=given.disk_cache,
        freeze=given.freeze,
    )
    of_function = functools.partial(
        compiler,
        names=torch_internals.input_names(gm),
        outputs=torch_internals.eager_outputs(gm),
    )
    of_backward = functools.partial(compiler, names=[], outputs=None)
    return torch_internals.compile_with_autograd(
        gm,
        inputs,
        forward=training.forward_compiler(of_function),
        backward=training.backward_compiler(of_backward, function_of(gm)),
        inference=functools.partial(of_function, keeps_weights=True),
        partition=training.partition,
        decompositions=decompositions.table(given.random),
        keep_unused_random=given.random == "eager",
    )


def _program(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    names: list[str],
    outputs: list[torch_internals.EagerOutput | None] | None,
    plugin: str,
    overrides: dict[str, Override],
    random: str,
    disk_cache: bool,
    freeze: bool,
    keeps_weights: bool = False,
) -> Compiled:
    """AOTAutograd's compiler for an inference graph, and for both graphs of training.
    `keeps_weights`: they change rarely, so that copies in another memory order pay."""
    logs.connect()
    _C.set_copy_report(copies.warn)
    draws = random_eager.take_out(gm) if random == "eager" else None
    captured = fx.capture(gm, names + draws.names if draws else names, outputs)
    logs.captured(gm)
    if keeps_weights:
        captured.graph.mark_weights(sorted(torch_internals.static_inputs()))
    program: Any = _C.Program(captured.graph, plugin, overrides, disk_cache, freeze)
    _C.count_capture()
    compiled = _with_constants(program, captured.constants) if captured.constants else program
    if draws and draws.steps:
        compiled = _with_draws(compiled, draws)
    compiled._boxed_call = True
    return compiled


def _with_constants(program: Compiled, constants: list[torch.Tensor]) -> Any:
    """The program with the tensors that its graph holds as last arguments."""

    def call(arguments: list[Any]) -> list[Any]:
        arguments.extend(constants)
        return program(arguments)

    return call


def _with_draws(program: Compiled, draws: random_eager.HostDraws) -> Any:
    """The program with the host's random tensors as further arguments."""

    def call(arguments: list[Any]) -> list[Any]:
        arguments.extend(draws.take(arguments))
        return program(arguments)

    return call
