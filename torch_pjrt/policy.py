"""Whether calls may capture and compile: no_compile(), set_compile_policy(), and their enforcement.

The core asks for itself before it compiles a program. A capture is stopped here, before Dynamo
traces.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Literal

import torch

from . import logs, torch_internals
from .capture_error import NotCompiledError
from .errors import failure
from .sources import function_of

from . import _C  # isort: skip

__all__ = ["Policy", "check_backend_call", "no_compile", "set_compile_policy", "watch"]

Policy = Literal["allow", "warn", "error"]

_REMEDY = (
    "call torch_pjrt.warmup() with such arguments before, under the same conditions (grad mode, "
    "train or eval), or allow compiles here"
)


@contextlib.contextmanager
def no_compile() -> Iterator[None]:
    """In this thread, a call that would compile or capture raises an Error with the code
    "not_compiled" instead, whatever the policy of the process. Programs that are on disk are
    loaded. Everything stays usable after the error."""
    watch()
    before = _C.exchange_thread_policy("error")
    try:
        yield
    finally:
        _C.exchange_thread_policy(before)


def set_compile_policy(policy: Policy) -> None:
    """For the whole process, outside of no_compile(): what a call does that needs a new program or
    a new capture. "allow" (as at the start), "warn": it is logged as a warning, "error": it raises
    an Error with the code "not_compiled"."""
    if policy not in ("allow", "warn", "error"):
        raise failure(
            "invalid",
            what=f"there is no compile policy {policy!r}",
            remedy='use "allow", "warn" or "error"',
        )
    watch()
    _C.set_policy(policy)


def watch() -> None:
    """Has captures by our backend announced here. Called again and again."""
    torch_internals.on_frame_compile(_on_frame_compile)


def _on_frame_compile(frame: torch_internals.FrameCompile) -> None:
    if getattr(frame.backend, "__module__", "") != "torch_pjrt.backend":
        return
    if frame.limit and _C.policy() != "error":
        logs.logger.warning(
            "Dynamo's %s is reached: calls of this function that fit none of its captures run in "
            "eager from now on\n  function: %s\n  guard that failed: %s\n  remedy: raise "
            "torch._dynamo.config.%s, or pass dynamic=True to torch.compile",
            *(frame.limit, frame.source, frame.guard or "unknown", frame.limit),
        )
        return
    check_capture(frame.source, frame.guard, frame.limit)


def check_backend_call(gm: torch.fx.GraphModule) -> None:
    """Raises where a capture isn't allowed that was not announced, as by a wrapped backend."""
    if _C.policy() == "error":
        check_capture(function_of(gm), torch_internals.failed_guard())


def check_capture(source: str, guard: str, limit: str = "") -> None:
    """Raises or warns by the policy of this thread."""
    policy = _C.policy()
    if policy == "warn":
        logs.logger.warning("capturing a function\n  function: %s\n  guard: %s", source, guard)
    if policy != "error":
        return
    what = "this call needs a new capture by Dynamo, and compiling is not allowed here "
    what += '(no_compile(), or the policy "error")'
    facts = {"function": source, "guard that failed": guard, "limit": limit and f"{limit} reached"}
    lines = [what, *(f"  {name}: {text}" for name, text in facts.items() if text)]
    error = NotCompiledError("not_compiled", "\n".join([*lines, f"  remedy: {_REMEDY}"]))
    raise error
