"""When and why Dynamo captures a function, and when it gives up."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo import config as dynamo_config
from torch._dynamo.cache_size import exceeds_recompile_limit
from torch._dynamo.convert_frame import output_codes
from torch._dynamo.decorators import error_on_graph_break
from torch._dynamo.eval_frame import (
    OptimizedModule,
    innermost_backend,
)
from torch._dynamo.exc import (
    FailOnRecompileLimitHit,
    ResumePrologueTracingError,
    Unsupported,
)
from torch._dynamo.utils import (
    counters,
    get_hook_for_recompile_user_context,
    get_metrics_context,
    register_hook_for_recompile_user_context,
)

UnsuppressedError = ResumePrologueTracingError


@dataclass(frozen=True)
class FrameCompile:
    """A function that Dynamo is about to trace. backend: the function that is to compile it.
    guard: whose failure made it necessary, "" if the function is new. limit: the name of Dynamo's
    limit of recompiles if it is exceeded, so that the function runs in eager instead."""

    source: str
    backend: Any
    guard: str
    limit: str


def on_frame_compile(hook: Callable[[FrameCompile], None]) -> None:
    """Has `hook` called before Dynamo traces a frame, for any backend, also where it then doesn't
    for its limit of recompiles. What the hook raises, the call of the function raises."""

    def context() -> str:
        compile_frame = _compile_frame(sys._getframe())
        if compile_frame is not None:
            hook(_frame_compile(compile_frame.f_locals))
        return ""

    context.__qualname__ = "torch_pjrt"
    registered = get_hook_for_recompile_user_context() or []
    if not any(getattr(other, "__qualname__", "") == "torch_pjrt" for other in registered):
        register_hook_for_recompile_user_context(context)


def _compile_frame(frame: Any) -> Any:
    """The frame of Dynamo's function that calls the hooks: it alone knows what they need."""
    while frame is not None and "compiler_fn" not in frame.f_locals:
        frame = frame.f_back
    return frame


def _frame_compile(names: Mapping[str, Any]) -> FrameCompile:
    code = names["code"]
    exceeded, limit = exceeds_recompile_limit(names["cache_size"], names["compile_id"])
    backend = innermost_backend(names["compiler_fn"])
    return FrameCompile(
        source=f"{code.co_filename}:{code.co_firstlineno} in {code.co_name}",
        backend=getattr(backend, "compiler_fn", backend),
        guard=_plain_guard(names["recompile_reason"] or ""),
        limit=limit if exceeded else "",
    )


def _plain_guard(reason: str) -> str:
    """Without the number of the compile before it and the comment with torch's own line behind."""
    line = re.sub(r"^\S+/\S+: ", "", reason.strip().split("\n")[0])
    return line.split("  # ")[0].strip()


# What errors_instead_of_eager() makes of a function that Dynamo would run, in part, in eager.
RunsInEager = (Unsupported, FailOnRecompileLimitHit)


@contextmanager
def errors_instead_of_eager() -> Iterator[None]:
    """In this thread, a graph break and the limit of recompiles are errors (RunsInEager), and so
    are errors that Dynamo was told to suppress."""
    strict = dynamo_config.patch(suppress_errors=False, fail_on_recompile_limit_hit=True)
    with strict, error_on_graph_break(True):
        yield


def failed_guard() -> str:
    """Whose failure made Dynamo capture the graph that is being compiled; "" at the first capture
    of a function."""
    context = get_metrics_context()
    reason = context._metrics.get("recompile_reason") if context.in_progress() else None
    return _plain_guard(reason or "")


def _break(gm: torch.fx.GraphModule) -> Any:
    """Dynamo's reason for the end of a graph, None if that is the function's end."""
    reason = getattr(gm, "compile_subgraph_reason", None)
    return reason if reason is not None and reason.graph_break else None


def graph_break(gm: torch.fx.GraphModule) -> str:
    """Why the function goes on after this graph of Dynamo's; "" if the graph is its end."""
    found = _break(gm)
    return str(found.reason) if found else ""


def break_reason(gm: torch.fx.GraphModule) -> tuple[str, str] | None:
    """The same in a line, and the line of the user's where it is."""
    found = _break(gm)
    if not found:
        return None
    stack = list(found.user_stack)
    frame = stack[-1] if stack else None
    place = f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line}" if frame else ""
    return str(found.reason).strip().splitlines()[0], place


def is_compiled(function: Any) -> bool:
    """Whether it is what torch.compile gives, or a module after its compile()."""
    if isinstance(function, torch.nn.Module):
        return isinstance(function, OptimizedModule) or function._compiled_call_impl is not None
    return hasattr(function, "_torchdynamo_orig_callable")


def is_traced_code(code: Any) -> bool:
    """Whether Dynamo made the code of a function."""
    return code in output_codes


def dynamo_counts() -> dict[str, int]:
    """Dynamo's own counts since the start, of all backends."""
    frames = counters["frames"]
    return {
        "graph_breaks": sum(counters["graph_break"].values()),
        "skipped_frames": frames["total"] - frames["ok"],
        "recompile_limits": recompile_limits(),
    }


def recompile_limits() -> int:
    """How many functions have reached Dynamo's limit of recompiles, as it counts them."""
    reasons = counters["unimplemented"]
    limit = "Dynamo recompile limit exceeded"
    return sum(count for reason, count in reasons.items() if reason.startswith(limit))
