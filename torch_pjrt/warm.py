"""Compiles ahead of the calls that need it: each set of arguments is captured, and nothing runs."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from . import torch_internals
from .errors import failure

from . import _C  # isort: skip

__all__ = ["not_ahead", "warming_up", "warmup"]

_WAIT_MS = 100
_LIBRARIES = tuple(str(Path(file).parent) for file in (torch.__file__, __file__))

_thread = threading.local()


def warming_up() -> bool:
    """Whether calls of this thread are a warm-up's, which run nothing."""
    return getattr(_thread, "is_warming_up", False)


def not_ahead(call: Callable[..., Any], why: str) -> Callable[..., Any]:
    """`call`, which runs something in eager: in a warm-up it is an error, before anything runs."""

    def checked(*arguments: Any) -> Any:
        if warming_up():
            raise _several_graphs(f"a part of it runs in eager: {why}")
        return call(*arguments)

    return checked


def warmup(
    fast: Callable[..., Any],
    args_list: Iterable[tuple[Any, ...] | tuple[tuple[Any, ...], Mapping[str, Any]]],
    device: torch.device | str | None = None,
) -> None:
    """Captures and compiles `fast`, which torch.compile returned, for each element of `args_list`:
    a tuple of positional arguments, or a pair of such a tuple and a dict of keyword arguments.

    Nothing runs: no result is computed, no argument or buffer changes, no random number is drawn.
    Meta tensors among the arguments, also within lists, dicts and other pytrees, stand for ones of
    their size on `device` (default: that of the module's first parameter, else the CPU). Other
    conditions have to be those of the calls to come: grad mode, train or eval, autocast. Captures
    are made one after another, programs are compiled by as many threads as there are CPUs, or
    loaded from disk. Only the forward is: a backward is compiled at the first .backward().

    Raises Error (invalid) where the function isn't captured as one graph, and the first error of a
    compile after all have ended. Ctrl-C ends it; programs that are compiled by then stay.
    """
    if not torch_internals.is_compiled(fast):
        raise failure(
            "invalid",
            what=f"warmup() takes what torch.compile returned, not {_name(fast)}",
            remedy="pass torch.compile(model, backend='pjrt', ...), and call that",
        )
    sets = [_arguments(element) for element in args_list]
    target = _device(fast, device)
    warm = _C.Warmup(len(os.sched_getaffinity(0)))
    with _progress(len(sets)) as show:
        try:
            for number, (args, kwargs) in enumerate(sets):
                real_args, real_kwargs = _real((args, kwargs), target)
                _capture(fast, real_args, real_kwargs, warm)
                show("capture", number + 1)
            while not warm.wait(_WAIT_MS):
                show("compile", warm.done * len(sets) // max(warm.queued, 1))
        except BaseException:
            warm.cancel()
            raise
    warm.check()


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def _arguments(element: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if not isinstance(element, tuple):
        raise failure(
            "invalid",
            what=f"warmup() was given arguments in a {type(element).__name__}",
            remedy="each element of args_list is a tuple of arguments, e.g. (tokens,), or a pair "
            "of such a tuple and a dict",
        )
    if len(element) == 2 and isinstance(element[0], tuple) and isinstance(element[1], Mapping):
        return element[0], dict(element[1])
    return element, {}


def _device(fast: Any, device: torch.device | str | None) -> torch.device:
    if device is not None:
        return torch.device(device)
    first = torch_internals.first_tensor(fast)
    return torch.device("cpu") if first is None or first.is_meta else first.device


def _real(arguments: Any, device: torch.device) -> Any:
    """With uninitialised tensors in place of meta ones, one for each however often it occurs."""
    made: dict[int, torch.Tensor] = {}

    def real(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_meta:
            return value
        if id(value) not in made:
            tensor = torch.empty_strided(
                value.size(), value.stride(), dtype=value.dtype, device=device
            )
            made[id(value)] = _marked(tensor, value).requires_grad_(value.requires_grad)
        return made[id(value)]

    return torch_internals.tree_map(real, arguments)


def _marked(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """With what mark_dynamic() and its kin wrote on the other tensor."""
    for name, value in vars(like).items():
        if name.startswith("_dynamo_"):
            setattr(tensor, name, value)
    return tensor


def _capture(fast: Any, args: Any, kwargs: Any, warm: _C.Warmup) -> None:
    _thread.is_warming_up = True
    warm.begin()
    try:
        with torch_internals.errors_instead_of_eager():
            fast(*args, **kwargs)
    except _C.Queued as queued:
        (program,) = queued.args
        if program.graph_break:
            raise _several_graphs(program.graph_break) from None
        if eager := _eager_frame(queued.__traceback__):
            raise _several_graphs(f"Dynamo runs {eager} in eager") from None
    except torch_internals.RunsInEager as error:
        raise _several_graphs(_reason(error)) from error
    else:
        raise failure(
            "invalid",
            what="warmup() called a function that runs no program of this backend: it ran in "
            "eager, with uninitialised tensors in place of meta ones",
            remedy="pass a function compiled with backend='pjrt' that computes on tensors",
        )
    finally:
        warm.end()
        _thread.is_warming_up = False


def _reason(error: BaseException) -> str:
    """Of Dynamo's refusal: its first line, with that of its cause."""
    lines = [str(e).split("\n")[0] for e in (error, error.__cause__) if e is not None]
    return ": ".join(lines)


def _several_graphs(why: str) -> Exception:
    return failure(
        "invalid",
        what="warmup() can't compile ahead a function that isn't one program: what comes "
        "after the first depends on its results",
        why=why,
        remedy="call the function once with real inputs of each size, or have it captured as one "
        "program (fullgraph=True and options fallback='error' show where it breaks)",
    )


def _eager_frame(trace: TracebackType | None) -> str:
    """The user's function between warmup() and the program that Dynamo left as it is; "" if there
    is none."""
    while trace is not None:
        code = trace.tb_frame.f_code
        is_users = not code.co_filename.startswith((*_LIBRARIES, "<"))
        if is_users and not torch_internals.is_traced_code(code):
            return f"{code.co_filename}:{code.co_firstlineno} ({code.co_name})"
        trace = trace.tb_next
    return ""


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str, int], None]]:
    """A function to show how many are captured, then compiled: a bar on a terminal if rich is
    installed, else nothing."""
    try:
        from rich import console, progress
    except ImportError:
        yield lambda stage, done: None
        return
    bar = progress.Progress(
        progress.TextColumn("warm-up: {task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        console=console.Console(file=sys.stderr),
        disable=not sys.stderr.isatty(),
        transient=True,
    )
    with bar:
        tasks = {stage: bar.add_task(stage, total=total) for stage in ("capture", "compile")}
        yield lambda stage, done: bar.update(tasks[stage], completed=done)
