"""The two programs of a training step that AOTAutograd makes: forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import donation, random_ops, saved, torch_internals
from .capture_error import CaptureError
from .errors import Error

Compiled = Callable[[list[Any]], list[Any]]
Compiler = Callable[[torch.fx.GraphModule, Sequence[Any]], Compiled]


def partition(joint: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
    """AOTAutograd's cut of forward and backward, with what is kept between them dense.

    Random numbers are saved, so that the backward has the forward's.
    """
    forward, backward = torch_internals.partition_with_recomputation(
        random_ops.is_random, joint, *args, **kwargs
    )
    saved.keep_old(forward, backward, kwargs["num_fwd_outputs"])
    saved.make_dense(forward, backward, kwargs["num_fwd_outputs"])
    donation.mark(forward, backward, kwargs["num_fwd_outputs"])
    return forward, backward


def partition_checked(check: Callable[[torch.fx.GraphModule], None]) -> Callable[..., Any]:
    """The same, with both graphs checked before either is compiled."""

    def partition_and_check(*args: Any, **kwargs: Any) -> Any:
        forward, backward = partition(*args, **kwargs)
        check(forward)
        check(backward)
        return forward, backward

    return partition_and_check


def forward_compiler(compiler: Compiler) -> Compiler:
    """AOTAutograd's compiler for a forward that has a backward."""

    def compile_forward(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Compiled:
        torch_internals.allow_backward_twice()
        return compiler(gm, example_inputs)

    return compile_forward


def backward_compiler(compiler: Compiler, forward: str, *, gives_memory: bool = True) -> Compiler:
    """AOTAutograd's compiler for the backward of `forward`, which the errors name. `gives_memory`:
    its results may take that of saved tensors.

    It runs at the first .backward(), far from the user's forward.
    """

    def compile_backward(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Compiled:
        given = donation.give_away(gm) if gives_memory else []
        try:
            program = compiler(gm, example_inputs)
        except Error as error:
            raise _of_backward(error, forward) from error

        def backward(arguments: list[Any]) -> list[Any]:
            if given:
                donation.take(arguments, given)
            try:
                return program(arguments)
            except Error as error:
                raise _of_backward(error, forward) from error

        backward._boxed_call = True  # type: ignore[attr-defined]
        backward.__wrapped__ = program  # type: ignore[attr-defined]
        return backward

    return compile_backward


def _of_backward(error: Error, forward: str) -> CaptureError:
    return CaptureError(error.code, f"{error}\n  in the backward of: {forward}")
